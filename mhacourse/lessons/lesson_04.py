"""The exercises of lesson 04: masks of your own, masks for torch's module, and a softmax that survives them."""

import math

import torch

import mhalib
from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows, in_float16, with_a_gradient
from mhalib import causal_mask

_BLOCKED = "In nn.MultiheadAttention, True means blocked, unlike in SDPA and mhalib."

causal_maps = Choice(
    task="Which of the four maps can come from a layer with a causal mask? Give the letters of all that can.",
    answer="AC",
    options={
        "A": "every row shares out a weight of 1 among its own token and earlier ones.",
        "B": "row 0 gives .4 to key 1, which comes after it. The last row may see everything; the first may not.",
        "C": "all tokens look at the first one. No token looks ahead, so the mask allows it.",
        "D": "the triangle is on the wrong side: row 0 sees everything, and the last row sees only itself.",
    },
    hints=(
        "Rows are queries, columns are keys. Which keys lie in the future of the first row? Of the second?",
        "In row t, everything to the right of column t must be 0. The rest can be shared out in any way.",
        "So the first row can only be 1 0 0, and the last number of the second row must be 0.",
    ),
    see="Causal: nothing from the future",
)


def window_mask_solution(T, width):
    not_too_old = torch.ones(T, T, dtype=torch.bool).triu(1 - width)
    return causal_mask(T) & not_too_old  # (T, T), True = may attend


def _window_by_triangles(T, width):
    not_ahead = torch.ones(T, T, dtype=torch.bool).tril()  # (Tq, Tk)
    not_too_old = torch.ones(T, T, dtype=torch.bool).triu(1 - width)  # (Tq, Tk)
    return not_ahead & not_too_old


def _window_from_below_0(T, width):
    mask = torch.zeros(T, T, dtype=torch.bool)
    for query in range(T):
        mask[query, query - width + 1 : query + 1] = True
    return mask


def _blocks(T, width):
    query, key = torch.arange(T)[:, None], torch.arange(T)
    return (key <= query) & (query // width == key // width)


def _ones(T):
    return torch.ones(T, T, dtype=torch.bool)


window_mask = Exercise(
    task=(
        "Write window_mask(T, width), which returns a sliding-window mask: boolean, (T, T), True = may attend. Each "
        "token sees itself and the width - 1 tokens before it."
    ),
    answer=window_mask_solution,
    cases=lambda: [(4, 2), (3, 1), (5, 3), (7, 4), (4, 9), (6, 2)],
    plain=(_window_by_triangles,),
    axes=("query", "key"),
    hints=(
        "There are two conditions: nothing from the future, and nothing too old.",
        "causal_mask(T) is the first. For the second, cut a triangle with triu and a negative number.",
        "With width = 1, only the diagonal is left: triu(0) & tril(0).",
    ),
    wrong={
        "One token too many": Wrong(
            Change("triu(1 - width)", "triu(-width)"),
            "each token sees width tokens before itself.",
            "The token itself counts, so write triu(1 - width).",
        ),
        "One token too few": Wrong(
            lambda T, w: _ones(T).tril(-1) & _ones(T).triu(1 - w),
            "no token sees itself.",
            "Then the first row is empty, and empty rows are trouble. Use tril().",
        ),
        "The tokens before it, not itself": Wrong(
            lambda T, w: _ones(T).tril(-1) & _ones(T).triu(-w),
            "each token sees the right number of tokens, but not itself.",
            "The window includes the token itself: it sees itself and the width - 1 tokens before it.",
        ),
        "The wrong side of the diagonal": Wrong(
            Change("1 - width", "width - 1"),
            "triu with a positive number keeps cells above the diagonal, in the future.",
            "Old keys are below the diagonal, where offsets are negative: triu(1 - width).",
        ),
        "A slice that begins below 0": Wrong(
            _window_from_below_0,
            "the first rows are empty, because Python counts a negative start from the end of the row.",
            "Begin at max(0, query - width + 1).",
        ),
        "Blocks, not a window": Wrong(
            _blocks,
            "you cut the tokens into groups of size width, and each token sees only its own group.",
            "The window moves with the token: each token sees itself and the width - 1 before it, wherever it is.",
        ),
        "Both sides": Wrong(
            lambda T, w: _ones(T).tril(w - 1) & _ones(T).triu(1 - w),
            "the window reaches as far into the future as into the past.",
            "Combine the band with causal_mask(T).",
        ),
        "The whole past": Wrong(
            lambda T, width: _ones(T).tril(),
            "your mask is causal, but reaches back to the first token.",
            "A window has a limit: a token sees itself and the width - 1 tokens before it.",
        ),
        "The whole future": Wrong(
            lambda T, width: torch.ones(T, T, dtype=torch.bool).triu(1 - width),
            "keys that are too far back are hidden, but keys after the query are not.",
            "A causal window has two ends: tril() hides what comes later.",
        ),
        "Only the future": Wrong(
            Change("return not_ahead & not_too_old", "return (not_ahead & not_too_old).T"),
            "each token sees itself and later tokens.",
            "Rows are queries, so row t must end at column t. This is the right mask, transposed.",
        ),
        "True = blocked": Wrong(
            lambda T, w: ~window_mask_solution(T, w),
            "every entry is the wrong way round.",
            "In mhalib and SDPA, True means may attend.",
        ),
        "Or instead of and": Wrong(
            Change("not_ahead & not_too_old", "not_ahead | not_too_old"),
            "in your mask, either condition is enough, so everything is allowed.",
            "Where True means may attend, both conditions must hold: &.",
        ),
    },
    see="Causal: nothing from the future",
    remarks=(Grows(lambda tokens=4: (tokens, 3)),),
)


def torch_padding_solution(valid_lens, num_keys):
    return torch.arange(num_keys) >= valid_lens[:, None]  # (Tk,) and (B, 1) -> (B, Tk), True = blocked


torch_padding = Exercise(
    task=(
        "Write torch_padding(valid_lens, num_keys), which returns the key_padding_mask for nn.MultiheadAttention: "
        "boolean, (B, Tk)."
    ),
    answer=torch_padding_solution,
    cases=lambda: [
        (torch.tensor([2, 3]), 3),
        (torch.tensor([1, 4, 2]), 5),
        (torch.tensor([1]), 4),  # one sample keeps its axis
        (torch.tensor([0, 1, 1]), 1),  # so does one key
        (torch.tensor([3, 0, 5, 5]), 5),
    ],
    axes=("sample", "key"),
    hints=(
        "A key is padding if its index is not below the length of its sample.",
        "Compare torch.arange(num_keys) with valid_lens[:, None]; the shapes are (Tk,) and (B, 1).",
        "Then look up in the lesson's table what True means to nn.MultiheadAttention.",
    ),
    wrong={
        "True = may attend": Wrong(
            Change(">=", "<"),
            "you block the words and leave the padding visible.",
            _BLOCKED + " Invert your mask with ~.",
        ),
        "One key too few": Wrong(
            Change(">=", ">"),
            "the first padding key is still visible.",
            "With length 2, keys 0 and 1 count, and key 2 is already padding: >=.",
        ),
        "Only the first padding key": Wrong(
            Change(">=", "=="),
            "you block only the first key of each sample's padding.",
            "Every key from there on is padding: >=, not ==.",
        ),
        "Padding at the front": Wrong(
            lambda lens, n: torch_padding_solution(lens, n).flip(1),
            "you block the first keys, as if the padding were on the left.",
            "valid_lens counts from the left.",
        ),
        "A full sample blocked": Wrong(
            lambda lens, n: torch_padding_solution(torch.where(lens == n, 0, lens), n),
            "you block every key of a sample without padding. A slice from -0 does this, since -0 is the start.",
            "Count from the front: the padding of a sample begins at its length.",
        ),
        "As many as there are words": Wrong(
            lambda lens, n: torch.arange(n) >= (n - lens)[:, None],
            "you block as many keys as there are words, at the end of each sample.",
            "The words come first, so the padding begins at key valid_lens: compare with the length itself.",
        ),
        "As wide as the longest sample": Wrong(
            lambda lens, n: torch.arange(int(lens.max())) >= lens[:, None],
            "your mask has only as many columns as the longest sample has words.",
            "Make one column for each key, padding included. num_keys may exceed the longest sample.",
        ),
    },
    see="How each library wants to be told",
    remarks=(Grows(lambda samples=3, keys=4: (torch.arange(samples), keys)),),
)


def mask_for_heads_solution(mask, num_heads):
    return ~mask.repeat_interleave(num_heads, dim=0)  # (B, Tq, Tk) -> (B * num_heads, Tq, Tk), True = blocked


def _two_masks(*lens, T):
    return mhalib.padding_mask(torch.tensor(lens), T).expand(len(lens), T, T) & mhalib.causal_mask(T)


mask_for_heads = Exercise(
    task=(
        "Write mask_for_heads(mask, num_heads). The mask follows our convention: (B, Tq, Tk), True = may attend. Turn "
        "it into the attn_mask of nn.MultiheadAttention, which is (B * num_heads, Tq, Tk) and also boolean."
    ),
    answer=mask_for_heads_solution,
    cases=lambda: [
        (torch.tensor([[[True, True, False]], [[True, False, False]]]), 2),
        (_two_masks(5, 3, 4, T=5)[:, 1:], 2),
        (torch.tensor([[[True], [False]]]), 1),  # one row and one key keep their axes
        (_two_masks(5, 3, T=5)[:, 1:4].flip(-1), 4),  # the first key is blocked for some
    ],
    axes=("row", "query", "key"),
    hints=(
        "Two things change: how often each mask appears, and what True means.",
        "The rows hold sample 0 with all its heads, then sample 1, and so on: a, a, …, b, b, …",
        "repeat_interleave repeats each item where it is; repeat repeats the whole tensor.",
    ),
    wrong={
        "Another sample's mask": Wrong(
            lambda m, h: ~m.repeat(h, 1, 1),
            "repeat gives a, b, a, b, but the module expects a, a, b, b, so some heads get another sample's mask.",
            "Use repeat_interleave(num_heads, dim=0). The shape is the same either way, so nothing warns you.",
        ),
        "True = may attend": Wrong(
            Change("~mask", "mask"),
            "the order is right, but True still means may attend.",
            _BLOCKED + " Invert your mask with ~.",
        ),
        "Two mistakes at once": Wrong(
            lambda m, h: m.repeat(h, 1, 1),
            "the order is a, b, a, b instead of a, a, b, b, and True still means may attend.",
            "Use repeat_interleave(num_heads, dim=0), and ~.",
        ),
        "Heads as an axis of their own": Wrong(
            lambda m, h: ~m[:, None].expand(-1, h, -1, -1),
            "your mask is (B, num_heads, Tq, Tk), the shape that SDPA takes.",
            "attn_mask has samples and heads on one axis: flatten(0, 1).",
        ),
        "One long row": Wrong(
            lambda m, h: ~m.repeat_interleave(h),
            "without dim, repeat_interleave flattens all axes into one long row and repeats each entry.",
            "Name the axis: repeat_interleave(num_heads, dim=0).",
            also=(
                Wrong(
                    lambda m, h: ~m.repeat_interleave(h).reshape(-1, *m.shape[1:]),
                    "without dim, repeat_interleave repeats single entries in one long row, and the reshape cuts that "
                    "row into different masks.",
                    "Repeat whole masks: repeat_interleave(num_heads, dim=0).",
                ),
            ),
        ),
        "One number for repeat": Wrong(
            lambda m, h: ~m.repeat(h),
            "repeat needs a number for each axis, and even then it makes a, b, a, b.",
            "The module expects a, a, b, b, so use repeat_interleave(num_heads, dim=0).",
        ),
        "Queries repeated": Wrong(
            Change("dim=0", "dim=-2"),
            "you repeated the queries.",
            "Repeat the samples, along dim=0.",
            also=(
                Wrong(
                    Change("dim=0)", "dim=1).reshape(-1, *mask.shape[1:])"),
                    "you repeat each query's row, not each sample, and the reshape cuts one mask into several.",
                    "Repeat whole masks along dim=0, as a, a, b, b. Then there is nothing to reshape.",
                ),
            ),
        ),
    },
    see="The order of repetition",
    remarks=(Grows(lambda samples=2, heads=3, queries=4: (causal_mask(queries).expand(samples, -1, -1), heads)),),
)


def masked_softmax_solution(scores, mask):
    mask = mask[:, None]  # (B, Tq, Tk) -> (B, 1, Tq, Tk): the same for all heads
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights.masked_fill(~mask, 0.0)  # a row with nothing to see is NaN before, zeros after


def _masked_softmax_without_nan(scores, mask):
    scores = scores.masked_fill(~mask[:, None], -math.inf)  # (B, num_heads, Tq, Tk)
    weights = scores.softmax(-1)  # (B, num_heads, Tq, Tk)
    return torch.nan_to_num(weights, nan=0.0)


def _filled(scores, mask, never=-math.inf, axis=-1):
    return scores.masked_fill(~mask[:, None], never).softmax(axis)


def _powers_and_sum(scores, mask):
    powers = scores.exp() * mask[:, None]
    return powers / (powers.sum(-1, keepdim=True) + 1e-9)


def _shares(parts):
    return parts / parts.sum(-1, keepdim=True)


def _masked_cases():
    tiny = torch.tensor([[[[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]]])
    nothing = torch.tensor([[[False, False, False], [True, True, False]]])  # for its first query
    empty = _two_masks(5, 3, T=5)[:, 1:].clone()
    empty[1, 0] = False  # a query of sample 1 that may see nothing
    # exp overflows in the first row; in the second, a number such as -1e4 for "never" is larger than any score; in the
    # third, the largest score is hidden.
    far = torch.tensor(
        [[[[1000.0, 1001.0, 0.0, -1000.0], [-20000.0, -20001.0, -20002.0, -20000.0], [0.0, 1.0, 1000.0, 2.0]]]]
    )
    return [
        (tiny, torch.tensor([[[True, False, False], [True, True, False]]])),
        (tiny, nothing),
        # As many heads as samples: a mask that lacks its axis for the heads gives numbers here, and stops elsewhere.
        (draw(0, 3, 3, 2, 4), _two_masks(4, 2, 1, T=4)[:, 2:]),
        (far, torch.tensor([[[True, True, False, False], [True, True, True, False], [True, True, False, True]]])),
        (draw(1, 2, 3, 4, 5), empty),
        (draw(3, 2, 4, 1, 1), torch.tensor([[[True]], [[False]]])),  # one query and one key keep their axes
        (draw(2, 2, 6, 3, 4), _two_masks(4, 3, T=4)[:, 1:]),
    ]


masked_softmax = Exercise(
    task=(
        "Write masked_softmax(scores, mask) for scores (B, num_heads, Tq, Tk) and a mask (B, Tq, Tk), True = may "
        "attend. A query with nothing to see gets zeros. Scores may be 1000 or -20000, and the caller's scores must "
        "stay as they are."
    ),
    answer=masked_softmax_solution,
    cases=_masked_cases,
    plain=(masked_softmax_solution, _masked_softmax_without_nan),
    axes=("sample", "head", "query", "key"),
    hints=(
        "First give the mask a head axis: mask[:, None].",
        "In a copy of the scores, fill every forbidden cell with -inf. Then take the softmax.",
        "After the softmax, a row of nothing but -inf is NaN, so fill forbidden weights with 0.",
    ),
    wrong={
        "NaN where there is nothing to see": Wrong(
            Change("weights.masked_fill(~mask, 0.0)", "weights"),
            "in a row with nothing to see, all scores are -inf, and the softmax turns them into NaN.",
            "Fill forbidden weights with 0 after the softmax, or use nan_to_num.",
        ),
        "Other rows are emptied": Wrong(
            Change("weights.masked_fill(~mask, 0.0)", "weights.where(mask.any(-2, keepdim=True), 0.0)"),
            "you set to 0 only the keys that no query may see, so a query that sees no key stays NaN.",
            "A row is empty if the mask is False for all of its keys, so look along the keys: any(-1).",
            also=(
                Wrong(
                    Change("weights.masked_fill(~mask, 0.0)", "weights.where(mask.all(-1, keepdim=True), 0.0)"),
                    "you set every row that has a hidden key to 0.",
                    "Only a row in which all keys are hidden gets zeros: ~mask.any(-1), not ~mask.all(-1).",
                ),
            ),
        ),
        "An average of what is forbidden": Wrong(
            lambda s, m: _filled(s, m, -1e9),
            "with a number such as -1e9, a row with nothing to see becomes the average of everything.",
            "Fill forbidden weights with 0 after the softmax.",
            also=(
                Wrong(
                    lambda s, m: _filled(s, m, -1e30) * m.any((1, 2))[:, None, None, None],
                    "you set a sample to 0 only if none of its rows sees anything. A single empty row still becomes "
                    "the average of everything.",
                    "Check each row separately with any(-1), over the keys alone, or use masked_fill after the "
                    "softmax.",
                ),
            ),
        ),
        "Not low enough for never": Wrong(
            lambda s, m: _filled(s, m, -1e4) * m[:, None],
            "where all scores of a row are even lower, keys filled with your number take all the weight.",
            "Fill with -inf, which is below every score.",
            also=(lambda s, m: _filled(s, m, -1e4), lambda s, m: _filled(s, m, -1e4) * m.any(-1)[:, None, :, None]),
        ),
        "exp of scores as they are": Wrong(
            _powers_and_sum,
            "exp(1000) is infinite, and exp(-20000) is 0, so the row becomes NaN.",
            "Leave it to softmax, which subtracts the largest score of each row first (lesson 02).",
            also=(lambda s, m: _shares(s.exp() * m[:, None]),),
        ),
        "The maximum goes over hidden keys, too": Wrong(
            lambda s, m: _shares(s.sub(s.amax(-1, keepdim=True)).exp() * m[:, None]).nan_to_num(0.0),
            "where the largest score is a hidden 1000, exp(2 - 1000) is 0, so all weights of the row become 0.",
            "Mask first, with scores.masked_fill(~mask, -inf), then take the largest score that is left.",
            also=(lambda s, m: _shares(s.sub(s.amax(-1, keepdim=True)).exp() * m[:, None]),),
        ),
        "Everything 0 for one empty row": Wrong(
            Change(
                "weights.masked_fill(~mask, 0.0)", "weights if weights.isfinite().all() else torch.zeros_like(weights)"
            ),
            "one row with nothing to see makes every weight of every sample 0.",
            "Only that row should be 0: fill forbidden weights with 0, or use nan_to_num.",
        ),
        "A mask for samples and heads in one axis": Wrong(
            Change("mask[:, None]", "mask.repeat_interleave(scores.shape[1], dim=0)"),
            "your mask is (B * num_heads, Tq, Tk), the shape that nn.MultiheadAttention takes.",
            "Here, the scores have a head axis, so give the mask one of size 1: mask[:, None].",
        ),
        "True = blocked": Wrong(
            Change("~mask", "mask"),
            "you blocked what is allowed.",
            "masked_fill fills where its mask is True, so give it ~mask.",
        ),
        "Samples taken for heads": Wrong(
            Change("mask = mask[:, None]", "pass"),
            "where there are as many heads as samples, head j of every sample gets the mask of sample j.",
            "Give the mask a head axis: mask[:, None] is (B, 1, Tq, Tk).",
        ),
        "Cut after the softmax": Wrong(
            Change("scores.masked_fill(~mask, -math.inf)", "scores"),
            "you set forbidden weights to 0 after the softmax, so the others no longer sum to 1.",
            "Mask before the softmax, so that the remaining keys share the whole weight.",
        ),
        "Hidden scores are 0": Wrong(
            lambda s, m: (s * m[:, None]).softmax(-1) * m[:, None],
            "you multiply the scores by the mask, so a hidden score becomes 0, which is a score like any other.",
            "A hidden score has to be minus infinity: masked_fill(~mask, -inf) before the softmax.",
            also=(lambda s, m: (s * m[:, None]).softmax(-1),),
        ),
        "The caller's scores changed": Wrong(
            Change("scores.masked_fill(", "scores.masked_fill_("),
            "the weights are right, but you overwrote the scores you were given.",
            "masked_fill_, += and scores[...] = ... write in place; masked_fill makes a new tensor.",
        ),
    },
    see="A row with nothing to see",
    remarks=(
        Grows(
            lambda heads=3, samples=2, tokens=4: (
                draw(0, samples, heads, tokens, tokens),
                causal_mask(tokens).expand(samples, -1, -1),
            )
        ),
        with_a_gradient,
        in_float16,
    ),
)

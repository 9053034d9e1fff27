"""The exercises of lesson 05: what a leak is worth, tests that find it, and W_o as a sum over heads."""

import math

import torch

import mhalib
from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows

leaky_loss = Exercise(
    task=(
        "reach(8, 2) is [1, 3, 5, 7, 1, 3, 5, 7]: for each row of the wrong merge, the last token that it reads. You "
        "train Predictor(wrong_merge, num_heads=2) on random tokens. Where it has to guess, its loss is ln 16 = 2.773. "
        "What is the floor that its mean loss cannot get below? Count by hand and give three digits; training ends a "
        "little above the floor."
    ),
    answer=math.log(16) / 2,
    sizes={"T": 8, "num_heads": 2},
    hints=(
        "Position t must predict token t + 1. Which positions read that token?",
        "If position t has a reach above t, it reads token t + 1, and its loss can fall to 0. The other positions "
        "guess.",
        "Count how many of the eight have to guess. The loss is the mean over all eight positions.",
    ),
    wrong={
        "A correct layer": Wrong(
            math.log(16),
            "ln 16 is the final loss of a layer without a leak.",
            "Here, some positions read what they should predict.",
        ),
        "Pairs of tokens": Wrong(
            18 * math.log(16) / 28,
            "you count pairs of tokens: of the 28 pairs that look ahead, 10 are read.",
            "A position predicts one token, whatever else it reads. Count the positions t with reach > t, out of "
            "eight.",
        ),
        "Eight heads": Wrong(
            math.log(16) / 8,
            "that is the floor for eight heads, where seven positions know their next token.",
            "With two heads, count the t with reach > t.",
        ),
        "Three eighths": Wrong(
            3 * math.log(16) / 8,
            "this is three eighths of ln 16, as if three positions had to guess. It is also half of ln 8.",
            "Position 7 reaches token 7, its own, so it does not know its next token: reach must be above t. And each "
            "guess is a choice among 16 tokens.",
        ),
        "The share, not the loss": Wrong(
            0.5,
            "0.5 is the share of positions that have to guess.",
            "Each of them has a loss of ln 16, so take the mean of the losses.",
        ),
        "As training leaves it": Wrong(
            1.4,
            "this is close: it is where training ends, or the floor with too few digits.",
            "Training stops a little above its floor. Count which positions have to guess, and give three digits.",
        ),
        "One guessing position too many": Wrong(
            5 * math.log(16) / 8,
            "in your count, five of eight positions have to guess.",
            "Count the t with reach > t: position 3 reaches token 7, so it knows token 4.",
        ),
        "Only one position knows": Wrong(
            7 * math.log(16) / 8,
            "you let only one position know its next token.",
            "Count the t with reach > t: position 0 reaches token 1, and so on.",
        ),
        "In bits": Wrong(
            2.0,
            "you took the logarithm to base 2, which gives the floor in bits.",
            "Losses in torch use natural logarithms: math.log, with ln 16 = 2.773.",
        ),
        "Another logarithm": Wrong(
            math.log10(16) / 2,
            "you took the logarithm to base 10.",
            "Losses in torch use natural logarithms: math.log, with ln 16 = 2.773.",
        ),
        "The number of positions": Wrong(
            4.0,
            "4 is the number of positions that have to guess (and also e to the power of the loss).",
            "Each of the four has a loss of ln 16, so take the mean over all eight.",
        ),
        "All of them": Wrong(
            0.0,
            "you let every position know its next token.",
            "Rows 4 to 7 reach tokens 1, 3, 5, 7, and none of these is later than its row.",
        ),
    },
    see="Why: who reads whom",
    explanation="Train it and see: the loss comes close to 1.386 and never falls below it.",
)


def keeps_tokens_apart_solution(merge):
    heads = torch.randn(1, 4, 6, 3)  # (B, num_heads, T, head_dim)
    # One round through all six tokens, and no shift: a merge that shifts, mirrors or swaps tokens would pass
    # with an order that does the same.
    order = torch.tensor([2, 4, 5, 0, 3, 1])
    # Merging permuted tokens must be the same as permuting merged ones.
    return torch.equal(merge(heads[:, :, order]), merge(heads)[:, order])


def _wrong_merge(heads):
    return heads.reshape(heads.shape[0], heads.shape[2], -1)


def _mean_of_earlier_tokens(heads):
    merged = mhalib.merge_heads(heads)
    return merged.cumsum(1) / torch.arange(1, merged.shape[1] + 1)[:, None]


def _changed_features(chosen, change):
    """Return a merge that shifts or mirrors some features of its result along the token axis."""

    def merge(heads):
        merged = mhalib.merge_heads(heads).clone()
        merged[..., chosen] = change(merged[..., chosen])
        return merged

    return merge


_MERGES = {  # by the name that an example shows
    "merge_heads": mhalib.merge_heads,
    "wrong_merge": _wrong_merge,
    "features_first": lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
    "crossed_merge": lambda heads: heads.transpose(2, 3).reshape(len(heads), heads.shape[2], -1),
    "heads_reversed": lambda heads: mhalib.merge_heads(heads.flip(1)),
    "tokens_rolled": lambda heads: mhalib.merge_heads(heads).roll(1, 1),
    "tokens_mirrored": lambda heads: mhalib.merge_heads(heads).flip(1),
    "features_mirrored": lambda heads: mhalib.merge_heads(heads).flip(-1),
    "features_shifted": lambda heads: mhalib.merge_heads(heads).roll(1, -1),
    "last_two_exchanged": lambda heads: mhalib.merge_heads(torch.cat([heads[:, :, :-2], heads[:, :, -2:].flip(2)], 2)),
    "mean_of_earlier_tokens": _mean_of_earlier_tokens,
    "mean_of_later_tokens": lambda heads: _mean_of_earlier_tokens(heads.flip(2)).flip(1),
    "next_token_in_one_feature": _changed_features(slice(-1, None), lambda x: x.roll(-1, 1)),
    "first_feature_mirrored": _changed_features(slice(1), lambda x: x.flip(1)),
    "last_head_shifted": lambda heads: mhalib.merge_heads(torch.cat([heads[:, :-1], heads[:, -1:].roll(1, 2)], dim=1)),
    "first_head_mirrored": lambda heads: mhalib.merge_heads(torch.cat([heads[:, :1].flip(2), heads[:, 1:]], dim=1)),
}
for _name, _merge in _MERGES.items():
    _merge.__name__ = _name


def _follows(order, num_heads=4):
    """Return a test that tries a merge with this token order and this many heads."""

    def test(merge):
        heads = _HEADS[:, :num_heads]
        return torch.equal(merge(heads[:, :, order]), merge(heads)[:, order])

    return test


_HEADS = draw(0, 2, 4, 6, 3)


def _changes(token, rows):
    """Return a test that changes one token in front of a merge and compares some other rows."""

    def test(merge):
        heads = draw(0, 2, 3, 5, 4)
        changed = heads.clone()
        changed[:, :, token] += 1
        return torch.equal(merge(changed)[:, rows], merge(heads)[:, rows])

    return test


_MIRROR, _ROUND = [5, 4, 3, 2, 1, 0], [1, 2, 3, 4, 5, 0]


keeps_tokens_apart = Exercise(
    task=(
        "Write keeps_tokens_apart(merge), a test without a mask. merge turns (B, num_heads, T, head_dim) into (B, T, "
        "d_model). Return True if row t of its result holds everything from token t, and nothing from any other "
        "token. The features within a row may come in any order."
    ),
    answer=keeps_tokens_apart_solution,
    cases=lambda: [(merge,) for merge in _MERGES.values()],
    hints=(
        "The shape cannot tell you. What happens when you merge the tokens in another order?",
        "Make an input with more than one head and more than one token, and choose a new order for the tokens.",
        "Compare merge(heads[:, :, order]) with merge(heads)[:, order].",
    ),
    wrong={
        "It passes everything": Wrong(
            lambda merge: True,
            "every merge passes, even a wrong one. This happens if you test shapes or sums, or use only one token.",
            "Use several tokens whose numbers all differ, and reorder them: axis 2 before the merge, axis 1 after it.",
        ),
        "Sums hide it": Wrong(
            lambda merge: torch.allclose(merge(_HEADS[:, :, [2, 4, 5, 0, 3, 1]]).sum(), merge(_HEADS).sum(), atol=1e-4),
            "a wrong merge only moves numbers, so it does not change what you compare, such as sums or sorted numbers.",
            "Compare the numbers in their places: torch.equal(merge(heads[:, :, order]), merge(heads)[:, order]).",
        ),
        "Heads exchanged, not tokens": Wrong(
            lambda merge: torch.equal(merge(_HEADS[:, [2, 0, 3, 1], :4]), merge(_HEADS[:, :, :4])[:, [2, 0, 3, 1]]),
            "axis 1 holds heads before the merge and tokens after it, so your two sides reorder different things.",
            "Before the merge, tokens are on axis 2: compare merge(heads[:, :, order]) with merge(heads)[:, order].",
            also=(
                *(
                    Wrong(
                        lambda merge, order=order: torch.equal(
                            *(merge(heads).sort(-1).values for heads in (_HEADS, _HEADS[:, order]))
                        ),
                        "before the merge, axis 1 is the head axis, and reordering heads says nothing about which "
                        "token a row belongs to.",
                        "Before the merge, tokens are on axis 2: compare merge(heads[:, :, order]) with "
                        "merge(heads)[:, order].",
                    )
                    for order in ([2, 0, 3, 1], [2, 0, 1, 3])
                ),
            ),
        ),
        "Blind with one head": Wrong(
            Change("torch.randn(1, 4, 6, 3)", "torch.randn(4, 1, 6, 3)"),
            "the wrong merge passes, because a test with a single head cannot see that a transpose is missing.",
            "Use several heads.",
            also=(_follows(_MIRROR, 1),),
        ),
        "Blind to a mirror": Wrong(
            _follows(_MIRROR),
            "a merge that reverses the tokens passes: you get the same result whether you reverse before or after the "
            "merge.",
            "Use an order without a pattern, such as [2, 4, 5, 0, 3, 1], or change one token and see which row "
            "changes.",
        ),
        "Blind beyond two tokens": Wrong(
            _follows([1, 0, 2, 3, 4, 5]),
            "you swap two tokens, so a merge that swaps two others passes.",
            "Move every token, in an order without a pattern, such as [2, 4, 5, 0, 3, 1].",
        ),
        "Only the rows before": Wrong(
            _changes(-1, slice(None, -1)),
            "you change the last token and look at earlier rows, so a merge that reads earlier tokens passes.",
            "A token must not reach any other row. Look at the later rows as well, and change other tokens, too.",
            also=(
                Wrong(
                    _changes(-1, 0),
                    "you look only at row 0, so a merge that mixes the other rows passes, and so does the wrong merge "
                    "if there are few heads.",
                    "A token must not reach any other row. Change each token, and look at every other row.",
                ),
            ),
        ),
        "Only the rows after": Wrong(
            _changes(0, slice(1, None)),
            "you change the first token and look at later rows, so a merge that reads later tokens passes.",
            "A token must not reach any other row. Look at the earlier rows as well, and change other tokens, too.",
        ),
        "Only row 0": Wrong(
            lambda merge: bool((merge(torch.eye(5)[0, :, None].expand(1, 3, 5, 2))[0, 0] == 1).all()),
            "you look only at row 0, so a merge that mixes later tokens passes.",
            "Every row counts: give each token its own numbers, and look at all rows.",
        ),
        "It refuses a legal order": Wrong(
            lambda merge: torch.equal(merge(_HEADS), mhalib.merge_heads(_HEADS)),
            "you compare with the feature order of merge_heads, so any other feature order fails.",
            "The question is whether tokens mix. Permute the tokens, or change one token and see which rows change.",
        ),
        "It refuses everything": Wrong(
            lambda merge: False,
            "even merge_heads fails your test.",
            "Permute the heads' tokens (axis 2) and merge. Then merge without permuting, and permute the tokens of the "
            "result (axis 1). The two must agree.",
            also=(
                Wrong(
                    lambda merge: torch.allclose(merge(_HEADS[:, :, _ROUND])[:, _ROUND], merge(_HEADS)),
                    "you apply the same order twice, which puts the tokens back only if the order is its own inverse.",
                    "Reorder the other side, merge(heads)[:, order], or undo the order with order.argsort().",
                ),
            ),
        ),
    },
    see="Why: who reads whom",
)


def by_heads_solution(heads, weight):
    pieces = weight.chunk(heads.shape[1], dim=1)  # (d_out, h * hd) -> h x (d_out, hd)
    return sum(head @ piece.T for head, piece in zip(heads.unbind(1), pieces, strict=True))  # h x (B, T, d_out), added


def _by_heads_in_a_loop(heads, weight):
    B, num_heads, T, head_dim = heads.shape
    total = torch.zeros(B, T, len(weight))  # (B, T, d_out)
    for i in range(num_heads):
        head = heads[:, i]  # (B, T, head_dim)
        piece = weight[:, i * head_dim : (i + 1) * head_dim]  # (d_out, head_dim)
        total = total + head @ piece.T  # (B, T, d_out)
    return total


by_heads = Exercise(
    task=(
        "Write by_heads(heads, weight), which computes the output projection without a merge, as a sum over heads. "
        "heads is (B, num_heads, T, head_dim), and weight is (d_out, num_heads * head_dim), as nn.Linear stores it."
    ),
    answer=by_heads_solution,
    cases=lambda: [
        (torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[10.0] * 3, [20.0] * 3]]]), torch.arange(1.0, 7.0)[None]),
        (draw(0, 5, 4, 3, 2), draw(1, 8, 8)),  # a square weight: one that is not turned gives numbers here
        (draw(4, 3, 2, 1, 4), draw(5, 6, 8)),  # one token keeps its axis
        (draw(2, 2, 3, 5, 4), draw(3, 7, 12)),
    ],
    plain=(_by_heads_in_a_loop,),
    axes=("sample", "token", "feature"),
    hints=(
        "concat(o_0, o_1, …) W_o is o_0 times one piece of W_o, plus o_1 times the next, and so on.",
        "nn.Linear stores W_o transposed, so the pieces are side by side: weight.chunk(num_heads, dim=1).",
        "Each term is heads[:, i] @ piece.T.",
    ),
    wrong={
        "The mean of the heads": Wrong(
            lambda x, w: by_heads_solution(x, w) / x.shape[1],
            "you divided the sum by the number of heads.",
            "W_o adds; it does not average.",
        ),
        "The last head only": Wrong(
            Change("total + head @ piece.T", "head @ piece.T"),
            "only the last head is in the result.",
            "Set the total to zero before the loop, and add to it in the loop: total = total + ...",
        ),
        "Rows instead of columns": Wrong(
            lambda x, w: sum(h @ p for h, p in zip(x.unbind(1), w.chunk(x.shape[1], 0), strict=True)),
            "you matched the rows of the stored weight with the features of the heads.",
            "nn.Linear stores (d_out, d_in), so use chunk(num_heads, dim=1), and piece.T in the product.",
            also=(
                lambda x, w: torch.einsum("bhtd,hdo->bto", x, w.reshape(x.shape[1], x.shape[3], -1)),
                Change("head @ piece.T", "head @ piece"),
            ),
        ),
        "One piece for all": Wrong(
            Change("weight[:, i * head_dim : (i + 1) * head_dim]", "weight[:, :head_dim]"),
            "you multiplied every head by the first piece.",
            "Each head has its own columns: i * head_dim to (i + 1) * head_dim.",
        ),
        "Columns dealt out in turn": Wrong(
            Change("weight[:, i * head_dim : (i + 1) * head_dim]", "weight[:, i::num_heads]"),
            "you multiplied head i by columns i, i + h, i + 2h, …",
            "After the merge, the features of a head are side by side, so use chunk, not a step.",
        ),
        "Cut along the outputs": Wrong(
            lambda x, w: x[:, 0] @ w.chunk(x.shape[1])[0].T,
            "you cut the weight along its outputs, so each piece still needs all features.",
            "The features of head i are columns of the stored weight: weight.chunk(num_heads, dim=1).",
        ),
        "The sum as wide as the heads": Wrong(
            Change("torch.zeros(B, T, len(weight))", "torch.zeros(B, T, num_heads * head_dim)"),
            "your tensor of zeros has num_heads * head_dim features, but the result has one feature for each row of "
            "weight.",
            "Begin with torch.zeros(B, T, weight.shape[0]), or with the first term.",
        ),
        "Not added": Wrong(
            lambda x, w: torch.stack([h @ p.T for h, p in zip(x.unbind(1), w.chunk(x.shape[1], 1), strict=True)], 1),
            "you keep one output for each head.",
            "The layer's output is their sum: sum(1).",
            also=(
                lambda x, w: torch.cat(
                    [h @ p.T for h, p in zip(x.unbind(1), w.chunk(x.shape[1], 1), strict=True)], dim=-1
                ),
            ),
        ),
        "Samples mistaken for heads": Wrong(
            lambda x, w: sum(x[i] @ w[:, i * x.shape[3] : (i + 1) * x.shape[3]].T for i in range(x.shape[1])),
            "heads[i] is sample i.",
            "Heads are on axis 1: heads[:, i].",
        ),
        "Merged without a transpose": Wrong(
            lambda x, w: x.reshape(x.shape[0], x.shape[2], -1) @ w.T,
            "you merged after all, and without the transpose, so tokens are mixed.",
            "Multiply each head by its own columns, then add.",
        ),
    },
    see="W_o is a sum over heads",
    remarks=(Grows(lambda samples=2, tokens=4: (draw(0, samples, 2, tokens, 3), draw(1, 6, 6))),),
)


def future_pairs_solution(f, T, d_model):
    x = torch.randn(1, T, d_model)
    jacobian = torch.autograd.functional.jacobian(f, x)  # (1, T, d_model, 1, T, d_model)
    reads = jacobian.abs().amax((0, 2, 3, 5)) > 0  # (output token, input token)
    return int(reads.triu(1).sum())


def _moved(f, T, d_model):
    """Return which outputs change when a token is redrawn, as a table (output, input)."""
    x, others = draw(0, 1, T, d_model), draw(1, 1, T, d_model)
    rows = [(f(x.index_copy(1, s, others[:, s])) - f(x)).abs().amax((0, 2)) > 1e-6 for s in torch.arange(T)[:, None]]
    return torch.stack(rows, 1)


def _reader(*rows):
    """Return a function whose output token t reads only the tokens listed in row t."""
    mixing = torch.tensor([[float(s in row) for s in range(len(rows))] for row in rows])

    def f(x):
        B, T, d_model = x.shape  # refuses tokens without a sample
        return mixing @ x + (mixing @ x.square()).flip(-1)  # (T, T) @ (1, T, d_model)

    # The example that a learner sees names the function.
    f.__name__ = "in which " + ", ".join(f"token {t} reads {list(row)}" for t, row in enumerate(rows))
    return f


def _falling(x):
    return -x.flip(1)  # every output falls where its input rises


def _flat_at_0_and_1(x):
    return (x * (x - 1)).square().flip(1)  # at 0 and at 1 it is 0, and so is its slope


def _two_heads_merged_wrongly(x):
    heads = mhalib.split_heads(x, 2).flip(1)  # so that the leak is among the last features
    return _wrong_merge(heads)  # each number of the result is one number of x


def _reads_the_next(x):
    return torch.ones(x.shape[1], x.shape[1]).tril(1) @ x


def _layer_norm_first(x):
    return _reads_the_next(torch.nn.functional.layer_norm(x, x.shape[-1:]))  # blind to what all features have in common


def _opposite_features(x):
    total = _reads_the_next(x).sum(-1, keepdim=True)
    return torch.cat([total, -total], dim=-1)  # so that slopes cancel where they are added


def _reader_cases():
    return [
        (_reader([0, 2], [1], [0, 1]), 3, 2),
        (_reader([0], [0], [1, 2], [0, 1], [0, 2, 4]), 5, 3),
        (_reader([3], [0, 2, 3], [1], [2]), 4, 2),
        (_falling, 3, 1),
        (_flat_at_0_and_1, 5, 2),
        (_two_heads_merged_wrongly, 5, 4),
        (_layer_norm_first, 4, 6),
        (_opposite_features, 6, 2),
    ]


def _slopes(f, x):
    """Return the Jacobian: (output token, output feature, input token, input feature)."""
    return torch.autograd.functional.jacobian(f, x)[0, :, :, 0]


def _count(moved):
    return int(moved.triu(1).sum())


def _raised(f, x, step):
    """Return which outputs change when a step is added to a token, as a table (output, input)."""
    T = x.shape[1]
    rows = [(f(x + torch.eye(T)[s, :, None] * step) - f(x)).abs().amax((0, 2)) > 1e-5 for s in range(T)]
    return torch.stack(rows, 1)


future_pairs = Exercise(
    task=(
        "Write future_pairs(f, T, d_model), where f is a function of a (1, T, d_model) tensor. Return the number of "
        "pairs (t, s) with s > t in which output token t reads the later input token s."
    ),
    answer=future_pairs_solution,
    cases=_reader_cases,
    hints=(
        "Change one token of a random input at a time, and look at which output tokens change.",
        "That gives a table (output token, input token) of True and False, with the future above its diagonal.",
        "Or use torch.autograd.functional.jacobian(f, x), as the lesson does, and then triu(1).",
    ),
    wrong={
        "All pairs": Wrong(
            Change("reads.triu(1).sum()", "reads.sum()"),
            "you count every token that an output reads, including earlier tokens and the token itself.",
            "The future of token t is what comes after it, so count only pairs in which t reads a later token.",
        ),
        "The past": Wrong(
            lambda f, T, d: int(_moved(f, T, d).tril(-1).sum()),
            "you count the pairs in which t reads an earlier token.",
            "Rows are outputs, so the future is above the diagonal: triu(1). If your rows are inputs, transpose first.",
        ),
        "Its own token as well": Wrong(
            Change("reads.triu(1)", "reads.triu(0)"),
            "you count a token that reads itself as a leak.",
            "Leave out the diagonal: triu(1).",
        ),
        "Only the last token": Wrong(
            lambda f, T, d: int(_moved(f, T, d)[:-1, -1].sum()),
            "you change only the last token. That finds a leak, but does not count all the pairs.",
            "Change each token in turn.",
        ),
        "Never the last token": Wrong(
            lambda f, T, d: _count(_moved(f, T, d)[:, :-1]),
            "you leave out the last token, so no pair with it is counted.",
            "Every later token counts. A range leaves out its end value, so end it at T to include token T - 1.",
        ),
        "The changes pile up": Wrong(
            lambda f, T, d: _count(_moved(f, T, d).cumsum(1) > 0),
            "each token stays changed while you change the next, so an output also reacts to tokens before s.",
            "Begin each round with the original input: x.clone(), with one new token.",
            also=(
                Wrong(
                    lambda f, T, d: _count(_moved(f, T, d).flip(1).cumsum(1).flip(1) > 0),
                    "in each round, the tokens after s are changed as well, so an output also reacts to them.",
                    "Begin each round with the original input: x.clone(), with one new token.",
                ),
            ),
        ),
        "Numbers instead of pairs": Wrong(
            lambda f, T, d: int((_slopes(f, draw(0, 1, T, d)) != 0).sum((1, 3)).triu(1).sum()),
            "you count numbers in the Jacobian, and one pair of tokens has d_model · d_model of them.",
            "A pair counts once, so first reduce over both feature axes, with amax or any.",
        ),
        "A constant added": Wrong(
            lambda f, T, d: _count(_raised(f, draw(0, 1, T, d), 1.0)),
            "you add the same number to all features of a token. A LayerNorm removes exactly that, so no output "
            "changes.",
            "Replace the token with other random numbers: torch.randn(d_model).",
        ),
        "Zeros or ones as input": Wrong(
            lambda f, T, d: _count(_raised(f, torch.zeros(1, T, d), 1.0)),
            "zeros and ones are special: a function can be flat there, and a LayerNorm makes the two the same.",
            "Use random numbers as input, and replace a token with other random numbers.",
            also=(lambda f, T, d: _count(_slopes(f, torch.zeros(1, T, d)).abs().amax((1, 3)) > 1e-9),),
        ),
        "One feature changed": Wrong(
            lambda f, T, d: _count(_raised(f, draw(0, 1, T, d), torch.eye(d)[0])),
            "you change one feature of each token, so you miss outputs that read only other features.",
            "Replace all features of the token with other random numbers.",
        ),
        "One feature looked at": Wrong(
            lambda f, T, d: _count(_slopes(f, draw(0, 1, T, d))[:, 0].abs().amax(-1) > 0),
            "you look at one feature of each output, so you miss tokens that only other features read.",
            "An output token reads what any of its features reads, so take amax or any over the features.",
        ),
        "Slopes that cancel": Wrong(
            lambda f, T, d: _count(_slopes(f, draw(0, 1, T, d)).sum((1, 3)).abs() > 1e-6),
            "you sum the slopes over features before taking abs, so positive and negative slopes can cancel to 0.",
            "First take abs(), then sum, amax or any over the features of input and output.",
        ),
        "Outputs that leak": Wrong(
            lambda f, T, d: int(_moved(f, T, d).triu(1).any(1).sum()),
            "you count each output token only once, however many later tokens it reads.",
            "The task asks for pairs, so an output that reads two later tokens counts twice.",
        ),
        "Inputs that leak": Wrong(
            lambda f, T, d: int(_moved(f, T, d).triu(1).any(0).sum()),
            "you count each input token only once, however many earlier outputs read it.",
            "The task asks for pairs, so a token that two earlier outputs read counts twice.",
        ),
        "The next token only": Wrong(
            lambda f, T, d: int(_moved(f, T, d).diagonal(1).sum()),
            "you look only at pairs of a token and its successor.",
            "Every later token counts: s = t + 1, t + 2, …",
        ),
        "The first output only": Wrong(
            lambda f, T, d: int(_moved(f, T, d)[0, 1:].sum()),
            "you look only at output token 0.",
            "Any output may read a later token, so look at each row of the table.",
        ),
        "A share, not a number": Wrong(
            lambda f, T, d: _count(_moved(f, T, d)) / (T * (T - 1) / 2),
            "you divide by the number of all future pairs.",
            "The task asks how many there are: sum().",
        ),
        "Nothing is found": Wrong(
            lambda f, T, d_model: 0,
            "you find no pair, whatever f reads.",
            "y = x gives the same tensor a second name, so both change; y = x.clone() makes a copy.",
        ),
        "Yes or no": Wrong(
            lambda f, T, d: bool(_moved(f, T, d).triu(1).any()),
            "you return only whether there is a leak.",
            "The task asks how many pairs there are: sum().",
        ),
    },
    see="Why: who reads whom",
)

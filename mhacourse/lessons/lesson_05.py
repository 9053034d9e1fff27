"""The exercises of lesson 05: what a leak is worth, tests that find it, and W_o as a sum over heads."""

import math

import torch

import mhalib
from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Asked, Grows, product_over_all_heads

leaky_loss = Exercise(
    task=(
        "reach(8, 2) is [1, 3, 5, 7, 1, 3, 5, 7]: the last token that each row of the wrong merge reads. "
        "What is the floor of the loss of Predictor(wrong_merge, num_heads=2) on random tokens (ln 16 = 2.773 where it "
        "has to guess)? To three digits, counted by hand: training ends a little above it."
    ),
    answer=math.log(16) / 2,
    sizes={"T": 8, "num_heads": 2},
    hints=(
        "Position t must predict token t + 1. Which positions read it?",
        "Position t reads token t + 1 where reach is above t. There the loss can fall to 0; the others guess.",
        "Count how many of the eight have to guess. The loss is the mean over all eight positions.",
    ),
    wrong={
        "A correct layer": Wrong(
            math.log(16),
            "ln 16 is what a layer without a leak comes to.",
            "Here some positions read what they should predict.",
        ),
        "Eight heads": Wrong(
            math.log(16) / 8,
            "that is the floor of eight heads, where seven positions know their next token.",
            "With two heads, count the t with reach > t.",
        ),
        "Reading itself": Wrong(
            3 * math.log(16) / 8,
            "you let position 7 know its next token, because it reaches token 7.",
            "Token 7 is its own; the next one is not in the input. reach must be above t.",
        ),
        "The share, not the loss": Wrong(
            0.5, "half of the positions have to guess.", "Each of these comes to ln 16: take the mean of the losses."
        ),
        "As training leaves it": Wrong(
            1.4,
            "near: that is what training comes to, or the floor with too few digits.",
            "Training stops a little above its floor. Count which positions have to guess, and give three digits.",
            also=(1.413, 1.427),
        ),
        "One position more that guesses": Wrong(
            5 * math.log(16) / 8,
            "five of eight positions have to guess in your count.",
            "Count the t with reach > t: position 3 reaches token 7, so it knows token 4.",
        ),
        "Only one position knows": Wrong(
            7 * math.log(16) / 8,
            "you let one position know its next token.",
            "Count the t with reach > t: position 0 reaches token 1, and so on.",
        ),
        "In bits": Wrong(
            2.0,
            "you took the logarithm to the base 2: the floor in bits.",
            "Losses of torch are in natural logarithms: math.log, with ln 16 = 2.773.",
        ),
        "Another logarithm": Wrong(
            math.log10(16) / 2,
            "you took the logarithm to the base 10.",
            "Losses of torch are in natural logarithms: math.log, with ln 16 = 2.773.",
        ),
        "The number of positions": Wrong(
            4.0,
            "4 is how many positions have to guess (and e to the power of the loss).",
            "Each of the four comes to ln 16; take the mean over all eight.",
        ),
        "The sum, not the mean": Wrong(
            4 * math.log(16),
            "you summed the losses of the positions that have to guess.",
            "The loss is their mean over all eight positions.",
        ),
        "All of them": Wrong(
            0.0,
            "you let every position know its next token.",
            "Rows 4 to 7 reach tokens 1, 3, 5, 7, which are not after them.",
        ),
    },
    see="Why: who reads whom",
    explanation="Train it to see: the loss comes close to 1.386 and never below.",
)


def keeps_tokens_apart_solution(merge):
    heads = torch.randn(1, 4, 6, 3)  # (B, num_heads, T, head_dim)
    # One round through all six tokens, and no shift: a merge that shifts, mirrors or exchanges tokens would come
    # through an order that does the same.
    order = torch.tensor([2, 4, 5, 0, 3, 1])
    # Merging permuted tokens must be the same as permuting merged ones.
    return torch.equal(merge(heads[:, :, order]), merge(heads)[:, order])


def _wrong_merge(heads):
    return heads.reshape(heads.shape[0], heads.shape[2], -1)


def _features_first(heads):
    return heads.permute(0, 2, 3, 1).flatten(2)


def _crossed_merge(heads):
    return heads.transpose(2, 3).reshape(heads.shape[0], heads.shape[2], -1)


def _heads_reversed(heads):
    return mhalib.merge_heads(heads.flip(1))


def _tokens_rolled(heads):
    return mhalib.merge_heads(heads).roll(1, 1)


def _tokens_mirrored(heads):
    return mhalib.merge_heads(heads).flip(1)


def _features_mirrored(heads):
    return mhalib.merge_heads(heads).flip(-1)


def _features_shifted(heads):
    return mhalib.merge_heads(heads).roll(1, -1)


def _last_two_exchanged(heads):
    merged = mhalib.merge_heads(heads)
    return torch.cat([merged[:, :-2], merged[:, -2:].flip(1)], dim=1)


def _mean_of_earlier_tokens(heads):
    merged = mhalib.merge_heads(heads)
    return merged.cumsum(1) / torch.arange(1, merged.shape[1] + 1)[:, None]


def _mean_of_later_tokens(heads):
    return _mean_of_earlier_tokens(heads.flip(2)).flip(1)


def _next_token_in_one_feature(heads):
    merged = mhalib.merge_heads(heads)
    return torch.cat([merged[..., :-1], merged[..., -1:].roll(-1, 1)], dim=-1)


def _first_feature_mirrored(heads):
    merged = mhalib.merge_heads(heads)
    return torch.cat([merged[..., :1].flip(1), merged[..., 1:]], dim=-1)


def _last_head_shifted(heads):
    return mhalib.merge_heads(torch.cat([heads[:, :-1], heads[:, -1:].roll(1, 2)], dim=1))


def _first_head_mirrored(heads):
    return mhalib.merge_heads(torch.cat([heads[:, :1].flip(2), heads[:, 1:]], dim=1))


def _apart_by_changes(merge):
    B, num_heads, T, head_dim = 2, 3, 5, 4
    heads = torch.randn(B, num_heads, T, head_dim)
    before = merge(heads)  # (B, T, d_model)
    for token in range(T):
        changed = heads.clone()  # (B, num_heads, T, head_dim)
        changed[:, :, token] = torch.randn(B, num_heads, head_dim)
        moved = (merge(changed) != before).any(-1)  # (B, T)
        for row in range(T):
            if bool(moved[0, row]) != (row == token):
                return False
    return True


def _follows(change, num_heads):
    """Return a test of a merge: with this change of the tokens, and so many heads."""

    def test(merge):
        heads = _HEADS[:, :num_heads]
        return torch.equal(merge(change(heads, 2)), change(merge(heads), 1))

    return test


_HEADS = draw(0, 2, 4, 6, 3)


def _looks_at(feature):
    """Return a test of a merge that permutes the tokens and compares one feature of the result."""

    def test(merge):
        return torch.equal(merge(_shuffled(_HEADS, 2))[..., feature], _shuffled(merge(_HEADS), 1)[..., feature])

    return test


def _changes(token, rows):
    """Return a test of a merge that changes one token and compares some other rows."""

    def test(merge):
        heads = draw(0, 2, 3, 5, 4)
        changed = heads.clone()
        changed[:, :, token] += 1
        return torch.equal(merge(changed)[:, rows], merge(heads)[:, rows])

    return test


def _pair_exchanged(x, axis):
    return x.index_select(axis, torch.tensor([1, 0, 2, 3, 4, 5]))


def _rolled(x, axis):
    return x.roll(1, axis)


def _mirrored(x, axis):
    return x.flip(axis)


def _shuffled(x, axis):
    return x.index_select(axis, torch.tensor([2, 4, 5, 0, 3, 1]))


keeps_tokens_apart = Exercise(
    task=(
        "A test without a mask: write keeps_tokens_apart(merge). True when merge, (B, num_heads, T, head_dim) -> (B, "
        "T, d_model), gives row t what belongs to token t, and nothing of another token. The order of the features "
        "within a row is free."
    ),
    answer=keeps_tokens_apart_solution,
    cases=lambda: [
        (mhalib.merge_heads,),
        (_wrong_merge,),
        (_features_first,),
        (_crossed_merge,),
        (_heads_reversed,),
        (_tokens_rolled,),
        (_tokens_mirrored,),
        (_features_mirrored,),
        (_features_shifted,),
        (_last_two_exchanged,),
        (_mean_of_earlier_tokens,),
        (_mean_of_later_tokens,),
        (_next_token_in_one_feature,),
        (_first_feature_mirrored,),
        (_last_head_shifted,),
        (_first_head_mirrored,),
    ],
    plain=(keeps_tokens_apart_solution, _apart_by_changes),
    hints=(
        "The shape cannot tell. What happens to a merge of tokens in another order?",
        "Make heads with more than one head and more than one token, and an order of the tokens.",
        "Compare merge(heads[:, :, order]) with merge(heads)[:, order].",
    ),
    wrong={
        "It passes everything": Wrong(
            lambda merge: True,
            (
                "every merge passes, the wrong ones as well. A test of the shape does that, one with a single token, "
                "one on ones, one that compares sums, one that permutes the samples or nothing at all."
            ),
            (
                "Something has to move that a wrong merge betrays: several heads, several tokens whose numbers all "
                "differ, and these tokens, axis 2 before the merge and axis 1 after it, in another order."
            ),
        ),
        "Sums hide it": Wrong(
            lambda merge: torch.allclose(merge(_shuffled(_HEADS, 2)).sum(), merge(_HEADS).sum(), atol=1e-4),
            "what you compare, such as sums or sorted numbers, a wrong merge keeps: it moves numbers and loses none.",
            "Compare the numbers in their places: torch.equal(merge(heads[:, :, order]), merge(heads)[:, order]).",
        ),
        "Heads exchanged, not tokens": Wrong(
            lambda merge: torch.equal(
                *(merge(heads).sort(-1).values for heads in (_HEADS, _HEADS[:, torch.tensor([2, 0, 3, 1])]))
            ),
            "axis 1 before the merge are the heads. Another order of theirs moves numbers within a row, and tells "
            "nothing of whose row it is.",
            "Tokens are axis 2 before the merge, axis 1 behind it: merge(heads[:, :, order]), merge(heads)[:, order].",
            also=(
                Wrong(
                    lambda merge: torch.equal(
                        merge(_HEADS[:, [2, 0, 3, 1], :4]), merge(_HEADS[:, :, :4])[:, [2, 0, 3, 1]]
                    ),
                    "axis 1 are the heads before the merge, and the tokens behind it: the two sides put different "
                    "things in order.",
                    "Tokens are axis 2 before the merge: merge(heads[:, :, order]), merge(heads)[:, order].",
                ),
            ),
        ),
        "Blind with one head": Wrong(
            Change("torch.randn(1, 4, 6, 3)", "torch.randn(4, 1, 6, 3)"),
            "the wrong merge passes: a test with a single head cannot see a transpose that is missing.",
            "Use several heads.",
            also=(_follows(_rolled, 1), _follows(_mirrored, 1)),
        ),
        "Blind to a shift": Wrong(
            _follows(_rolled, 4),
            "a merge that hands each token's row to the next token passes: shift the tokens first or last, it is one.",
            "Permute without a pattern, such as [2, 4, 5, 0, 3, 1], or change one token and see which row moves.",
        ),
        "Blind to a mirror": Wrong(
            _follows(_mirrored, 4),
            "a merge that turns the order of the tokens around passes: turn them around first or last, it is one.",
            (
                "Permute without a pattern, such as [2, 4, 5, 0, 3, 1], or change one token and see which row moves. "
                "([2, 0, 3, 1] has one: from both ends it takes the same steps.)"
            ),
        ),
        "Blind beyond two tokens": Wrong(
            _follows(_pair_exchanged, 4),
            "you exchange two tokens, so a merge that exchanges two others passes.",
            "Move every token: permute without a pattern, such as [2, 4, 5, 0, 3, 1].",
        ),
        "Only the rows before": Wrong(
            _changes(-1, slice(None, -1)),
            "you change the last token and look at earlier rows: a merge that reads earlier tokens passes.",
            "A token may reach no other row at all: look at the later rows as well, and change other tokens, too.",
        ),
        "Only the rows behind": Wrong(
            _changes(0, slice(1, None)),
            "you change the first token and look at later rows: a merge that reads later tokens passes.",
            "A token may reach no other row at all: look at the earlier rows as well, and change other tokens, too.",
        ),
        "One feature only": Wrong(
            _looks_at(0),
            "you compare one feature of the result, so a merge that mixes tokens in another feature passes.",
            "Compare whole rows: torch.equal(merge(heads[:, :, order]), merge(heads)[:, order]).",
            also=(_looks_at(-1),),
        ),
        "It refuses a legal order": Wrong(
            lambda merge: torch.equal(merge(_HEADS), mhalib.merge_heads(_HEADS)),
            "you compare with one order of features, that of merge_heads, so another order within a token fails.",
            "Asked is whether tokens mix. Permute the tokens, or change one token and see which rows move.",
        ),
        "Turned around": Wrong(
            lambda merge: not keeps_tokens_apart_solution(merge),
            "it says True of the merges that mix tokens, and False of those that do not.",
            (
                "True means that tokens stay apart. And tokens are axis 2 before the merge, axis 1 after it: "
                "axis 1 before are the heads."
            ),
        ),
        "It refuses everything": Wrong(
            lambda merge: False,
            "merge_heads fails it, too.",
            (
                "Compare like with like: the permuted input's output with the permuted output. "
                "Tokens are axis 2 before and axis 1 after the merge."
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


def _by_heads_merged(heads, weight):
    B, num_heads, T, head_dim = heads.shape
    merged = heads.transpose(1, 2)  # -> (B, T, num_heads, head_dim)
    merged = merged.reshape(B, T, num_heads * head_dim)  # -> (B, T, d_model)
    return merged @ weight.T


def _all_features_long(heads, weight):
    B, num_heads, T, head_dim = heads.shape
    total = torch.zeros(B, T, num_heads * head_dim)
    for head, piece in zip(heads.unbind(1), weight.chunk(num_heads, dim=1), strict=True):
        total += head @ piece.T
    return total


by_heads = Exercise(
    task=(
        "Write by_heads(heads, weight): the output projection without a merge, as a sum over heads. "
        "heads (B, num_heads, T, head_dim); weight (d_out, num_heads * head_dim), as nn.Linear stores it."
    ),
    answer=by_heads_solution,
    cases=lambda: [
        (torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[10.0] * 3, [20.0] * 3]]]), torch.arange(1.0, 7.0)[None]),
        (draw(0, 5, 4, 3, 2), draw(1, 8, 8)),  # a square weight: one that is not turned gives numbers here
        (draw(4, 3, 2, 1, 4), draw(5, 6, 8)),  # one token keeps its axis
        (draw(2, 2, 3, 5, 4), draw(3, 7, 12)),
    ],
    plain=(_by_heads_in_a_loop, _by_heads_merged),
    axes=("sample", "token", "feature"),
    hints=(
        "concat(o_0, o_1, …) W_o is o_0 times one piece of W_o, plus o_1 times the next, and so on.",
        "nn.Linear stores W_o transposed, (d_out, d_in). Which columns meet the features of head 0, which of head 1?",
        "The pieces stand side by side: weight.chunk(num_heads, dim=1).",
        "Each term is heads[:, i] @ piece.T.",
    ),
    wrong={
        "The mean of the heads": Wrong(
            lambda x, w: by_heads_solution(x, w) / x.shape[1],
            "the sum was divided by the number of heads.",
            "W_o adds; it does not average.",
        ),
        "The last head only": Wrong(
            Change("total + head @ piece.T", "head @ piece.T"),
            "only the last head is in the result.",
            "In the loop, add to what is there: total = total + ..., from a zero before the loop.",
        ),
        "The first head only": Wrong(
            lambda x, w: x[:, 0] @ w[:, : x.shape[-1]].T,
            "only head 0 is in the result.",
            "Does return stand inside the loop? It ends at the first round.",
        ),
        "Rows instead of columns": Wrong(
            lambda x, w: sum(h @ p for h, p in zip(x.unbind(1), w.chunk(x.shape[1], 0), strict=True)),
            (
                "the rows of the stored weight met the features of the heads: it was cut along dim 0, or is not turned "
                "in the product."
            ),
            (
                "nn.Linear stores out before in: the features of head i are columns, chunk(num_heads, dim=1), and the "
                "product takes piece.T."
            ),
        ),
        "Heads in the opposite order": Wrong(
            lambda x, w: by_heads_solution(x.flip(1), w), "head 0 met the last piece.", "Piece i belongs to head i."
        ),
        "One piece for all": Wrong(
            lambda x, w: sum(h @ w[:, : x.shape[-1]].T for h in x.unbind(1)),
            "every head met the first piece.",
            "Each head has columns of its own: i * head_dim to (i + 1) * head_dim.",
        ),
        "Columns dealt out in turn": Wrong(
            lambda x, w: sum(x[:, i] @ w[:, i :: x.shape[1]].T for i in range(x.shape[1])),
            "head i met the columns i, i + h, i + 2h, …",
            "The features of a head stand side by side after the merge: chunk, not a step.",
        ),
        "Cut along the outputs": Wrong(
            lambda x, w: x[:, 0] @ w.chunk(x.shape[1])[0].T,
            (
                "the weight was cut along its outputs, which are rows as it is stored and columns once it is turned. "
                "So each piece still wants all features."
            ),
            "The features of head i are columns of the stored weight: weight.chunk(num_heads, dim=1).",
        ),
        "As wide as there are heads": Wrong(
            lambda x, w: sum(x[:, i] @ w[:, i * x.shape[1] : (i + 1) * x.shape[1]].T for i in range(x.shape[1])),
            "each piece has num_heads columns.",
            "A head has head_dim features, so its piece has head_dim columns: i * head_dim to (i + 1) * head_dim.",
        ),
        "The sum as wide as the heads": Wrong(
            _all_features_long,
            "you begin with zeros of num_heads * head_dim features. The result has as many as weight has rows.",
            "torch.zeros(B, T, weight.shape[0]); or begin with the first term.",
        ),
        "Not added": Wrong(
            lambda x, w: torch.stack([h @ p.T for h, p in zip(x.unbind(1), w.chunk(x.shape[1], 1), strict=True)], 1),
            "one output for each head is left.",
            "The layer's output is their sum: sum(1).",
            also=(
                lambda x, w: torch.cat(
                    [h @ p.T for h, p in zip(x.unbind(1), w.chunk(x.shape[1], 1), strict=True)], dim=-1
                ),
            ),
        ),
        "Samples taken for heads": Wrong(
            lambda x, w: sum(x[i] @ w[:, i * x.shape[3] : (i + 1) * x.shape[3]].T for i in range(x.shape[1])),
            "heads[i] is sample i.",
            "Heads stand on axis 1: heads[:, i].",
        ),
        "Merged without a transpose": Wrong(
            lambda x, w: x.reshape(x.shape[0], x.shape[2], -1) @ w.T,
            "you merged after all, and without the transpose: tokens are mixed.",
            "Multiply each head with its own columns, then add.",
        ),
    },
    see="W_o is a sum over heads",
    remarks=(
        Asked(
            "The task asks for a sum over heads, without a merge; yours multiplies {found} at once.",
            product_over_all_heads,
        ),
        Grows(lambda samples=2, tokens=4: (draw(0, samples, 2, tokens, 3), draw(1, 6, 6))),
    ),
)


def future_pairs_solution(f, T, d_model):
    x = torch.randn(1, T, d_model)
    jacobian = torch.autograd.functional.jacobian(f, x)  # (1, T, d_model, 1, T, d_model)
    reads = jacobian.abs().amax((0, 2, 3, 5)) > 0  # (output token, input token)
    return int(reads.triu(1).sum())


def _moved(f, T, d_model):
    """Return which outputs move when a token is drawn anew: (output, input)."""
    x, others = draw(0, 1, T, d_model), draw(1, 1, T, d_model)
    rows = [(f(x.index_copy(1, s, others[:, s])) - f(x)).abs().amax((0, 2)) > 1e-6 for s in torch.arange(T)[:, None]]
    return torch.stack(rows, 1)


def _reader(*rows):
    """Return a function whose output token t reads just those tokens that row t names."""
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
    heads = mhalib.split_heads(x, 2).flip(1)  # so that what leaks stands among the last features
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


def _pairs_by_changes(f, T, d_model):
    x = torch.randn(1, T, d_model)
    before = f(x)  # (1, T, d_model)
    pairs = 0
    for s in range(T):
        changed = x.clone()  # (1, T, d_model)
        changed[0, s] = torch.randn(d_model)
        moved = (f(changed) - before).abs().amax(-1) > 1e-6  # (1, T)
        for t in range(s):
            if moved[0, t]:
                pairs += 1
    return pairs


def _slopes(f, x):
    """Return the Jacobian: (output token, output feature, input token, input feature)."""
    return torch.autograd.functional.jacobian(f, x)[0, :, :, 0]


def _count(moved):
    return int(moved.triu(1).sum())


def _raised(f, x, step):
    """Return which outputs move when a step is added to a token: (output, input)."""
    T = x.shape[1]
    rows = [(f(x + torch.eye(T)[s, :, None] * step) - f(x)).abs().amax((0, 2)) > 1e-5 for s in range(T)]
    return torch.stack(rows, 1)


future_pairs = Exercise(
    task=(
        "Write future_pairs(f, T, d_model) for a function f of (1, T, d_model): "
        "how many pairs of an output token t and a later input token s > t there are, where t reads s."
    ),
    answer=future_pairs_solution,
    cases=_reader_cases,
    plain=(future_pairs_solution, _pairs_by_changes),
    hints=(
        "Change one token of a random input at a time, and look at which output tokens move.",
        "That gives a table (output token, input token) of True and False. The future is above its diagonal.",
        "Or take torch.autograd.functional.jacobian(f, x) as the lesson does, and triu(1).",
    ),
    wrong={
        "The past": Wrong(
            lambda f, T, d: int(_moved(f, T, d).tril(-1).sum()),
            "you count the pairs in which t reads an earlier token.",
            "Rows are outputs: the future lies above the diagonal, triu(1). If your rows are inputs, transpose first.",
        ),
        "Its own token as well": Wrong(
            Change("reads.triu(1)", "reads.triu(0)"),
            "a token that reads itself counts as a leak.",
            "Leave out the diagonal: triu(1).",
        ),
        "Both directions": Wrong(
            lambda f, T, d: int((_moved(f, T, d) & ~torch.eye(T, dtype=torch.bool)).sum()),
            "you count every pair of different tokens, past ones too.",
            "Only later inputs are leaks: triu(1).",
        ),
        "All that is read": Wrong(
            Change("reads.triu(1)", "reads"),
            "you count every pair, past and own included.",
            "Only later inputs are leaks: triu(1).",
        ),
        "Only the last token": Wrong(
            lambda f, T, d: int(_moved(f, T, d)[:-1, -1].sum()),
            "you change the last token only. That finds a leak, but does not count all.",
            "Change each token in its turn.",
        ),
        "Numbers instead of pairs": Wrong(
            lambda f, T, d: int(
                (torch.autograd.functional.jacobian(f, draw(0, 1, T, d))[0, :, :, 0] != 0)
                .permute(0, 2, 1, 3)
                .flatten(2)
                .sum(-1)
                .triu(1)
                .sum()
            ),
            "you count numbers of the Jacobian: one pair of tokens has d_model · d_model of them.",
            "A pair counts once: reduce over both axes of features first, with amax or any.",
        ),
        "A constant added": Wrong(
            lambda f, T, d: _count(_raised(f, draw(0, 1, T, d), 1.0)),
            "all features of a token grow by the same number. A LayerNorm takes just that away, and nothing moves.",
            "Put other random numbers in the place of the token: torch.randn(d_model).",
        ),
        "Zeros or ones as input": Wrong(
            lambda f, T, d: _count(_raised(f, torch.zeros(1, T, d), 1.0)),
            "zeros and ones are special: a function can be flat there, and a LayerNorm makes both the same.",
            "Take random numbers as input, and put other random numbers in the place of a token.",
            also=(
                lambda f, T, d: _count(_slopes(f, torch.zeros(1, T, d)).abs().amax((1, 3)) > 1e-9),
                lambda f, T, d: _count(_slopes(f, torch.ones(1, T, d)).abs().amax((1, 3)) > 1e-9),
            ),
        ),
        "One feature changed": Wrong(
            lambda f, T, d: _count(_raised(f, draw(0, 1, T, d), torch.eye(d)[0])),
            "you change one feature of each token. What is read from another feature is not seen.",
            "Put other random numbers in the place of all features of the token.",
            also=(lambda f, T, d: _count(_slopes(f, draw(0, 1, T, d))[..., 0].abs().amax(1) > 0),),
        ),
        "One feature looked at": Wrong(
            lambda f, T, d: _count(_slopes(f, draw(0, 1, T, d))[:, 0].abs().amax(-1) > 0),
            "you look at one feature of each output. What another one reads is not seen.",
            "An output token reads what any of its features reads: amax or any over the features.",
        ),
        "Slopes that cancel": Wrong(
            lambda f, T, d: _count(_slopes(f, draw(0, 1, T, d)).sum((1, 3)).abs() > 1e-6),
            "you sum slopes over features before abs. One may rise where another falls; then they sum to 0.",
            "First abs(), then sum, amax or any over the features of input and output.",
        ),
        "Outputs that leak": Wrong(
            lambda f, T, d: int(_moved(f, T, d).triu(1).any(1).sum()),
            "you count the output tokens that read a later one, each once.",
            "Asked are pairs: an output that reads two later tokens counts twice.",
        ),
        "Inputs that leak": Wrong(
            lambda f, T, d: int(_moved(f, T, d).triu(1).any(0).sum()),
            "you count the input tokens that an earlier output reads, each once.",
            "Asked are pairs: a token that two earlier outputs read counts twice.",
        ),
        "The next token only": Wrong(
            lambda f, T, d: int(_moved(f, T, d).diagonal(1).sum()),
            "you look only at pairs of a token and the next one.",
            "Every later token counts: s = t + 1, t + 2, …",
        ),
        "The first output only": Wrong(
            lambda f, T, d: int(_moved(f, T, d)[0, 1:].sum()),
            "you look at output token 0 only.",
            "Every output may read a later token: look at each row of the table.",
        ),
        "A share, not a number": Wrong(
            lambda f, T, d: _count(_moved(f, T, d)) / (T * (T - 1) / 2),
            "you divide by the number of all future pairs.",
            "Asked is how many there are: sum().",
        ),
        "Only what rises": Wrong(
            Change("jacobian.abs()", "jacobian"),
            "an output that falls when its input rises is not counted.",
            "Derivatives can be negative: abs() first.",
        ),
        "Nothing is found": Wrong(
            lambda f, T, d_model: 0,
            "no pair is found, whatever f reads.",
            "Do both calls get different numbers? y = x gives one tensor a second name, so that x changes with y; "
            "y = x.clone() is a copy.",
        ),
        "Yes or no": Wrong(
            lambda f, T, d: bool(_moved(f, T, d).triu(1).any()),
            "you say whether there is a leak.",
            "Asked is how many pairs: sum().",
        ),
    },
    see="Why: who reads whom",
)

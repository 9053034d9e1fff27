"""The exercises of lesson 05: what a leak is worth, tests that find it, and W_o as a sum over heads."""

import math

import torch

import mhalib
from mhalib.checks.exercise import Exercise, Wrong
from mhalib.checks.inputs import draw
from mhalib.checks.remarks import Asked, Grows, product_over_all_heads

leaky_loss = Exercise(
    task=(
        "reach(8, 2) is [1, 3, 5, 7, 1, 3, 5, 7]: the last token that each row of the wrong merge reads. "
        "To which loss can Predictor(wrong_merge, num_heads=2) come on random tokens (ln 16 = 2.773 where it has to "
        "guess)?"
    ),
    answer=math.log(16) / 2,
    hints=(
        "Position t must predict token t + 1. Which positions read it?",
        "Positions 0 to 3 do, and come to a loss of 0. What do the others come to? Take the mean.",
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
    # No shift and no mirror image: a merge that moves all tokens alike would come through those.
    order = torch.tensor([2, 0, 3, 1, 5, 4])
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


def _follows(change, num_heads):
    """Return a test of a merge: with this change of the tokens, and so many heads."""

    def test(merge):
        heads = draw(0, 2, num_heads, 6, 3)
        return torch.equal(merge(change(heads, 2)), change(merge(heads), 1))

    return test


def _rolled(x, axis):
    return x.roll(1, axis)


def _mirrored(x, axis):
    return x.flip(axis)


def _shuffled(x, axis):
    return x.index_select(axis, torch.tensor([2, 0, 3, 1, 5, 4]))


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
    ],
    hints=(
        "The shape cannot tell. What happens to a merge of tokens in another order?",
        "Make heads with more than one head and more than one token, and an order of the tokens.",
        "Compare merge(heads[:, :, order]) with merge(heads)[:, order].",
    ),
    wrong={
        "It passes everything": Wrong(
            lambda merge: True,
            (
                "the wrong merge passes as well. A test of the shape does that, one with a single token, one on ones, "
                "one that compares sums."
            ),
            "Use several heads, several tokens, and numbers that all differ.",
        ),
        "Blind with one head": Wrong(
            _follows(_shuffled, 1),
            "the wrong merge passes: a test with a single head cannot see a transpose that is missing.",
            "Use several heads.",
            also=(_follows(_rolled, 1), _follows(_mirrored, 1)),
        ),
        "Blind to a shift": Wrong(
            _follows(_rolled, 4),
            "a merge that hands each token's row to the next token passes: shift the tokens first or last, it is one.",
            "Permute without a pattern, such as [2, 0, 3, 1, 5, 4], or change one token and see which row moves.",
        ),
        "Blind to a mirror": Wrong(
            _follows(_mirrored, 4),
            "a merge that turns the order of the tokens around passes: turn them around first or last, it is one.",
            "Permute without a pattern, such as [2, 0, 3, 1, 5, 4], or change one token and see which row moves.",
        ),
        "It refuses a legal order": Wrong(
            lambda merge: torch.equal(merge(draw(0, 2, 4, 6, 3)), mhalib.merge_heads(draw(0, 2, 4, 6, 3))),
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


by_heads = Exercise(
    task=(
        "Write by_heads(heads, weight): the output projection without a merge, as a sum over heads. "
        "heads (B, num_heads, T, head_dim); weight (d_out, num_heads * head_dim), as nn.Linear stores it."
    ),
    answer=by_heads_solution,
    cases=lambda: [
        (torch.tensor([[[[1.0]], [[10.0]]]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
        (draw(0, 2, 4, 3, 2), draw(1, 8, 8)),
        (draw(2, 2, 3, 5, 4), draw(3, 7, 12)),
    ],
    axes=("sample", "token", "feature"),
    hints=(
        "concat(o_0, o_1, …) W_o is o_0 times one piece of W_o, plus o_1 times the next, and so on.",
        "nn.Linear stores W_o transposed, so the pieces stand side by side: weight.chunk(num_heads, dim=1).",
        "Each term is heads[:, i] @ piece.T.",
    ),
    wrong={
        "The mean of the heads": Wrong(
            lambda x, w: by_heads_solution(x, w) / x.shape[1],
            "the sum was divided by the number of heads.",
            "W_o adds; it does not average.",
        ),
        "The last head only": Wrong(
            lambda x, w: x[:, -1] @ w[:, -x.shape[-1] :].T,
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
        "Not added": Wrong(
            lambda x, w: torch.stack([h @ p.T for h, p in zip(x.unbind(1), w.chunk(x.shape[1], 1), strict=True)], 1),
            "one output for each head is left.",
            "The layer's output is their sum: sum(1).",
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
    """Return which outputs move when a token is changed: (output, input)."""
    x = draw(0, 1, T, d_model)
    rows = [(f(x + torch.eye(T)[s, :, None]) - f(x)).abs().amax((0, 2)) > 1e-6 for s in range(T)]
    return torch.stack(rows, 1)


def _reader(*rows):
    """Return a function whose output token t reads just those tokens that row t names."""
    mixing = torch.tensor([[float(s in row) for s in range(len(rows))] for row in rows])

    def f(x):
        return mixing @ x + (mixing @ x.square()).flip(-1)  # (T, T) @ (1, T, d_model)

    # The example that a learner sees names the function.
    f.__name__ = "in which " + ", ".join(f"token {t} reads {list(row)}" for t, row in enumerate(rows))
    return f


def _falling(x):
    return -x.flip(1)  # every output falls where its input rises


def _reader_cases():
    full = [range(5)] * 5
    return [
        (_reader([0], [0, 1]), 2, 1),
        (_reader([0, 2], [1], [0, 1]), 3, 2),
        (_reader([0, 1], [1, 2], [2, 3], [3]), 4, 3),
        (_reader(*full), 5, 4),
        (_reader([3], [0], [1], [2]), 4, 2),
        (_reader([0], [0], [1, 2], [0, 1], [0, 2, 4]), 5, 3),
        (_falling, 3, 1),
    ]


future_pairs = Exercise(
    task=(
        "Write future_pairs(f, T, d_model) for a function f of (1, T, d_model): "
        "how many pairs of an output token t and a later input token s > t there are, where t reads s."
    ),
    answer=future_pairs_solution,
    cases=_reader_cases,
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
            lambda f, T, d: int(_moved(f, T, d).triu().sum()),
            "a token that reads itself counts as a leak.",
            "Leave out the diagonal: triu(1).",
        ),
        "Both directions": Wrong(
            lambda f, T, d: int((_moved(f, T, d) & ~torch.eye(T, dtype=torch.bool)).sum()),
            "you count every pair of different tokens, past ones too.",
            "Only later inputs are leaks: triu(1).",
        ),
        "All that is read": Wrong(
            lambda f, T, d: int(_moved(f, T, d).sum()),
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
        "Only what rises": Wrong(
            lambda f, T, d: int(
                (torch.autograd.functional.jacobian(f, draw(0, 1, T, d)).amax((0, 2, 3, 5)) > 0).triu(1).sum()
            ),
            "an output that falls when its input rises is not counted.",
            "Derivatives can be negative: abs() first.",
        ),
        "Yes or no": Wrong(
            lambda f, T, d: bool(_moved(f, T, d).triu(1).any()),
            "you say whether there is a leak.",
            "Asked is how many pairs: sum().",
        ),
    },
    see="Why: who reads whom",
)

"""The exercises of lesson 16: which tests see a bug, which bug none can see, a test of one's own, and a repair."""

import math

import torch
import torch.nn.functional as F

import mhalib
from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.lessons.lesson_06 import identity, seeded, window
from mhacourse.remarks import Asked, uses
from mhacourse.repairs import Line, Repair

tests_that_see = Choice(
    task=(
        "A layer lacks the transpose in its merge. Which of the five tests can fail because of that? Give the letters "
        "of all that can."
    ),
    answer="CD",
    options={
        "A": "the shape of the output is right, and inputs of ones make all tokens alike.",
        "B": "with one head there is nothing to exchange: transposing an axis of length 1 moves no number.",
        "C": "with four heads, an early row holds pieces of later tokens, so it changes when they do.",
        "D": (
            "in a healthy layer without positions, permuting the tokens permutes the outputs in the same way; with "
            "this merge, it does not."
        ),
        "E": "the bug does the same both times. This test finds dropout that was left on.",
    },
    hints=(
        "The bug mixes tokens. Which tests use several heads, several tokens, and tokens that differ?",
        (
            "With one head, what does the transpose swap? And which test gives the same verdict on every layer, "
            "broken or not?"
        ),
        "The bug does not show with one head or one token, nor in a test that only looks at shapes or runs the layer "
        "twice.",
    ),
    see="Three probes",
)


no_test_sees = Choice(
    task=(
        "A test that sees a layer only from outside passes it tokens and masks, as often as it likes, and looks at the "
        "outputs. Which of the five changes can it never detect, because a healthy layer with different weights could "
        "behave in exactly the same way? Give the letters of all such changes."
    ),
    answer="ACE",
    options={
        "A": "dividing by a larger root gives the scores of a healthy layer with a smaller W_q.",
        "B": (
            "rows that do not sum to 1 show up as soon as you repeat a token under a causal mask. No weights make a "
            "healthy layer do that."
        ),
        "C": "keys made by W_q are the keys of a healthy layer whose W_k happens to equal its W_q.",
        "D": (
            "whatever its weights, a healthy layer reads nothing that the mask hides. Change one token to see the "
            "difference."
        ),
        "E": "a healthy layer whose W_o is the identity returns the merged heads as they are.",
    },
    hints=(
        "For each change, ask which weights you would give a healthy layer to make it do the same.",
        "Two of the five break a promise that every healthy layer keeps, whatever its weights.",
        "W_q, W_k and W_o may be any matrices: smaller ones, two equal ones, the identity.",
    ),
    see="What no test from outside sees",
)


def sees_the_future_solution(f, d_model):
    T = 6
    x, other = torch.randn(2, 2, T, d_model)  # two of (B, T, d_model)
    for t in range(1, T):
        y = torch.cat([x[:, :t], other[:, t:]], dim=1)  # other tokens from t on
        if (f(y) - f(x))[:, :t].abs().max() > 1e-6:
            return True
    return False


def _causal(num_heads, name, merge=mhalib.merge_heads, masked=True, wide=1.0):
    """Return one attention layer as a function of (B, T, d_model), named for the example."""

    def f(x):
        layer = seeded(lambda: mhalib.MultiHeadAttention(x.shape[-1], num_heads)).to(x.dtype).requires_grad_(False)
        q, k, v = (mhalib.split_heads(W(x), num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
        mask = mhalib.causal_mask(x.shape[1]) if masked else None
        return wide * layer.W_o(merge(mhalib.scaled_dot_product_attention(q, k, v, mask)[0]))

    f.__name__ = name
    return f


def _no_transpose(heads):
    return heads.reshape(heads.shape[0], heads.shape[2], -1)  # (B, h, T, hd) -> (B, T, d_model), tokens mixed


def _ahead(steps, x):
    """Return the token that many places later, or zeros where there is none."""
    return F.pad(x, (0, 0, 0, steps))[:, steps:]


def _mean_of_the_past(x):
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


def _next_token_in_one_feature(x):
    return torch.cat([x[..., :-1], _ahead(1, x[..., -1:])], dim=-1)


def _three_ahead(x):
    return x + _ahead(3, x)


def _next_but_for_the_first(x):
    return torch.cat([x[:, :1], (x + _ahead(1, x))[:, 1:]], dim=1)


def _little_of_the_next(x):
    return x + 1e-3 * _ahead(1, x)


def _norm_then_next(x):
    return _mean_of_the_past(x) + _ahead(1, F.layer_norm(x, x.shape[-1:]))


def _next_that_cancels(x):
    total = _ahead(1, x).sum(-1, keepdim=True)
    return torch.cat([x[..., :-2], total, -total], dim=-1)


def _one_reads(reader, later, name):
    """Return a function in which one token reads one later token, and no other token reads a later one."""

    def f(x):
        y, T = x.clone(), x.shape[1]
        if -T <= reader < T and -T <= later < T:  # a test may hand over a single token
            y[:, reader] += x[:, later]
        return y

    f.__name__ = name
    return f


def _tests(tokens=6, changed=None, looked=None, new=None, by=torch.abs):
    """Return a test with these choices; some of them are wrong. Each token after the first is changed in turn.

    Args:
        changed: the tokens that are changed instead.
        looked: the outputs that are compared; by default, those before the changed token.
        new: what replaces a token; by default, a newly drawn token.
        by: what is applied to the differences before they are compared.
    """

    def test(f, d_model):
        x = draw(0, 2, tokens, d_model)
        for t in range(1, tokens) if changed is None else [changed]:
            y = x.clone()
            y[:, t] = draw(1, *y[:, t].shape) if new is None else new(x[:, t])
            moved = by((f(y) - f(x))[:, (slice(t.start if isinstance(t, slice) else t) if looked is None else looked)])
            if moved.max() > 1e-6:
                return True
        return False

    return test


_IN_THE_MIDDLE = _tests(changed=slice(3, None))


sees_the_future = Exercise(
    task=(
        "Write sees_the_future(f, d_model), a test for causal layers. The layer f takes (B, T, d_model) and returns "
        "the same shape. Return True if any output of f reads a later token, and False if none does. Draw the test "
        "tokens yourself."
    ),
    answer=sees_the_future_solution,
    cases=lambda: [
        (_causal(4, "that is causal"), 8),
        (_causal(4, "without the transpose in its merge", merge=_no_transpose), 8),
        (_causal(2, "that ignores its mask", masked=False), 6),
        (_causal(1, "that is causal and has one head", wide=20.0), 5),
        (_mean_of_the_past, 4),
        (_next_token_in_one_feature, 4),
        (_three_ahead, 3),
        (_next_but_for_the_first, 3),
        (_little_of_the_next, 6),
        (_norm_then_next, 6),
        (_next_that_cancels, 4),
        (_one_reads(1, 2, "in which token 1 reads token 2"), 4),
        (_one_reads(-2, -1, "in which the second-to-last token reads the last"), 4),
    ],
    hints=(
        "Take two inputs that differ only from some place on. Which outputs must be the same for both?",
        "The outputs before that place: compare f(x)[:, :t] with f(y)[:, :t]. Is one place t enough?",
        "Draw the new tokens at random, take each place t from 1 on, and call any change above 1e-6 a leak.",
    ),
    wrong={
        "It looks at the last output, too": Wrong(
            Change("(f(y) - f(x))[:, :t]", "(f(y) - f(x))"),
            "a causal layer fails, because you also compare an output at the token that you change, or after it. "
            "These outputs read that token, and should.",
            "Compare only the outputs before that token, along axis 1. If it is the last token, take [:, :-1].",
        ),
        "An early token changed": Wrong(
            _tests(changed=0, looked=slice(1, None)),
            "you change an early token and look at later outputs. They may read it, because it is in their past.",
            "Change a later token, and look at the outputs before it.",
        ),
        "It passes every layer": Wrong(
            lambda f, d_model: f(draw(0, 2, 6, d_model)).shape != (2, 6, d_model),
            "your test flags no layer, not even those that read the future. This happens if the two inputs are equal "
            "(y = x only gives a tensor a second name), if they differ in another sample (axis 0), or if they differ "
            "by less than you allow for rounding.",
            "Give f two inputs that differ in a later token: x, and a clone y with a new y[:, t]. Then compare the "
            "earlier outputs.",
            also=(_tests(new=lambda token: token),),
        ),
        "Tokens that are all alike": Wrong(
            lambda f, n: bool((f(torch.ones(1, 12, n))[:, :6] - f(torch.ones(1, 6, n))).abs().max() > 1e-6),
            "your test tokens are all alike, and a mean of equal tokens is the same whichever tokens go into it.",
            "Draw the tokens with torch.randn, and change each of them in turn.",
        ),
        "Only the last token changed": Wrong(
            _tests(changed=-1),
            "you change only the last token, so a layer passes if some token reads a later one, but none reads the "
            "last.",
            "Any token after the first may be read too early: change each of them in turn.",
            also=(
                Wrong(
                    _IN_THE_MIDDLE,
                    "you change tokens from one place on and compare the outputs before it. A layer passes if no "
                    "token reads across that place.",
                    "Try every place from 1 on.",
                ),
            ),
        ),
        "The first output only": Wrong(
            _tests(looked=0),
            "you look only at the first output. If a layer reads the next token or the one after that, later outputs "
            "show it.",
            "Look at all outputs before the token that you change: [:, :t].",
            also=(_tests(looked=0, changed=-1),),
        ),
        "Blind further ahead": Wrong(
            _tests(changed=-1, looked=-2),
            "a layer that reads three tokens ahead passes, because you use too few tokens, or look at only one output.",
            "Take six tokens or more, and look at all outputs before the token that you change.",
            also=(_tests(tokens=3), _tests(tokens=2)),
        ),
        "A constant added": Wrong(
            _tests(new=lambda token: token + 1),
            "you add the same number to all features of the token. A LayerNorm removes exactly that, so nothing "
            "changes.",
            "Replace the token with a newly drawn one: torch.randn.",
            also=(_tests(new=lambda token: token + 1, changed=-1),),
        ),
        "Later tokens change places": Wrong(
            _tests(changed=slice(-2, None), looked=slice(None, -2), new=lambda tokens: tokens.flip(1)),
            "you exchange two later tokens. A layer without a mask treats its tokens as a set, so nothing changes.",
            "Put newly drawn tokens in their place: torch.randn.",
        ),
        "Turned around": Wrong(
            lambda f, d_model: not sees_the_future_solution(f, d_model),
            "your test says True for layers that read no later token, and False for those that do.",
            "True means that the layer sees the future: some earlier output changed.",
            also=tuple(
                lambda f, d_model, test=test: not test(f, d_model) for test in (_tests(changed=-1), _IN_THE_MIDDLE)
            ),
        ),
    },
    see="Three probes",
)


def repaired_solution(layer, x, mask):
    B, T, _ = x.shape
    q, k, v = (W(x).view(B, T, layer.num_heads, -1).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, num_heads, T, T)
    scores = scores.masked_fill(~mask, -torch.inf)
    heads = scores.softmax(-1) @ v  # (B, num_heads, T, head_dim)
    return layer.W_o(heads.transpose(1, 2).reshape(B, T, -1))  # -> (B, T, d_model)


# Here y is (B, T, d_model), heads are (B, num_heads, T, head_dim), scores (B, num_heads, T, T).
_LINES = {
    "the split": Line(
        lambda y, h: y.unflatten(-1, (h, -1)).transpose(1, 2),
        "view(B, num_heads, T, head_dim) cuts up the sentence: view as (B, T, num_heads, head_dim) first, then "
        "transpose(1, 2)",
        given=lambda y, h: y.reshape(y.shape[0], h, y.shape[1], -1),
        changed={
            "its transpose is missing, so tokens come before heads": lambda y, h: y.unflatten(-1, (h, -1)),
            "the transpose is there, but view still cuts up the sentence": lambda y, h: y.reshape(
                y.shape[0], h, y.shape[1], -1
            ).transpose(1, 2),
            "features are dealt out to the heads in turn": lambda y, h: y.unflatten(-1, (-1, h)).permute(0, 3, 1, 2),
            "the transpose comes before the cut": lambda y, h: y.mT.reshape(y.shape[0], h, y.shape[1], -1),
            "you exchange the last two axes, not tokens and heads": lambda y, h: (
                y.reshape(y.shape[0], h, -1, y.shape[1]).mT
            ),
        },
    ),
    "the scale": Line(
        lambda d_model, head_dim, h, T: math.sqrt(head_dim),
        "divide by the root of head_dim, which is q.shape[-1]",
        given=lambda d_model, head_dim, h, T: math.sqrt(d_model),
        changed={
            "scores are not divided at all": lambda d_model, head_dim, h, T: 1,
            "you divide by head_dim itself, without the root": lambda d_model, head_dim, h, T: head_dim,
            "you divide by d_model itself": lambda d_model, head_dim, h, T: d_model,
            "you divide by the root of num_heads": lambda d_model, head_dim, h, T: math.sqrt(h),
            "you divide by num_heads": lambda d_model, head_dim, h, T: h,
            "you divide the root of d_model by num_heads; take the root of the quotient": (
                lambda d_model, head_dim, h, T: math.sqrt(d_model) / h
            ),
            "** binds tighter than //, so you take the root of num_heads alone": (
                lambda d_model, head_dim, h, T: d_model // h**0.5
            ),
            "you divide by the root of T": lambda d_model, head_dim, h, T: math.sqrt(T),
            "you multiply by the root": lambda d_model, head_dim, h, T: 1 / math.sqrt(head_dim),
            "you divide by the square of head_dim, not by its root": lambda d_model, head_dim, h, T: head_dim**2,
        }
        | {
            f"you take the root of the number {n}, which is head_dim only in some layers": (
                lambda d_model, head_dim, h, T, n=n: math.sqrt(n)
            )
            for n in (2, 3, 4, 8, 16, 32, 64)
        }
        | {
            f"you assume {n} heads, but this layer may have another number of heads": (
                lambda d_model, head_dim, h, T, n=n: math.sqrt(d_model // n)
            )
            for n in (2, 3, 4, 8)
        },
    ),
    "the mask": Line(
        lambda scores, mask, softmax: softmax(scores.masked_fill(~mask, -math.inf)),
        "before the softmax, use scores.masked_fill(~mask, -inf): True means may attend, and masked_fill fills where "
        "it finds True",
        given=lambda scores, mask, softmax: softmax(scores.masked_fill(mask, -math.inf)),
        changed={
            "it is left out, so every token sees all others": lambda scores, mask, softmax: softmax(scores),
            "you read True as blocked, with a large number in place of inf": lambda scores, mask, softmax: softmax(
                scores.masked_fill(mask, -1e9)
            ),
            "you read True as blocked, and a row without a key becomes 0": lambda scores, mask, softmax: softmax(
                scores.masked_fill(mask, -math.inf)
            ).nan_to_num(0.0),
            "you apply it after the softmax, so the weights no longer sum to 1": lambda scores, mask, softmax: (
                softmax(scores) * mask
            ),
            "you transpose the mask, so query and key are exchanged": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~mask.mT, -math.inf)
            ),
            "a transposed mask is not ~mask": lambda scores, mask, softmax: softmax(
                scores.masked_fill(mask.mT, -math.inf)
            ),
            "a transposed mask is not ~mask, and a large number does not help": lambda scores, mask, softmax: softmax(
                scores.masked_fill(mask.mT, -1e9)
            ),
            "hidden keys get the largest score, because the minus is missing": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~mask, 1e9)
            ),
            "you use a causal mask of your own, whatever mask comes in": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~torch.ones_like(mask).tril(), -math.inf)
            ),
            "it also hides later tokens, which the given mask may allow": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~mask.tril(), -math.inf)
            ),
            "the scores it should hide become 0, and a score of 0 hides nothing": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~mask, 0)
            ),
            "you add 1 and 0 to the scores, which hides nothing": lambda scores, mask, softmax: softmax(
                scores + mask.float()
            ),
        },
    ),
    "the merge": Line(
        lambda heads: heads.transpose(1, 2).flatten(2),
        "transpose(1, 2) brings the heads of a token together, then reshape joins them",
        given=lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1),
        changed={
            "view cannot join what a transpose has moved, but reshape can": lambda heads: heads.transpose(1, 2).view(
                heads.shape[0], heads.shape[2], -1
            ),
            "features come before heads": lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
            "you exchange tokens with features, not with heads": lambda heads: heads.mT.reshape(
                heads.shape[0], heads.shape[2], -1
            ),
        },
    ),
    "the projections": Line(
        lambda layer: (layer.W_q, layer.W_k, layer.W_v),
        "q comes from W_q, k from W_k, v from W_v",
        changed={
            "k comes from W_q": lambda layer: (layer.W_q, layer.W_q, layer.W_v),
            "v comes from W_k": lambda layer: (layer.W_q, layer.W_k, layer.W_k),
        },
    ),
    "the product": Line(
        lambda q, k: q @ k.mT,
        "scores are q @ k.transpose(-2, -1), with a row for each query",
        changed={"q and k are exchanged": lambda q, k: k @ q.mT},
    ),
    "the softmax": Line(
        lambda scores: scores.softmax(-1),
        "softmax runs over the keys, the last axis",
        changed={
            "it runs over the queries": lambda scores: scores.softmax(-2),
            "it runs over the heads": lambda scores: scores.softmax(1),
        },
    ),
    "the output": Line(
        lambda layer, merged: layer.W_o(merged),
        "W_o is applied once, to the merged heads",
        changed={
            "W_o is left out": lambda layer, merged: merged,
            "W_o is applied twice": lambda layer, merged: layer.W_o(layer.W_o(merged)),
        },
    ),
}


def _layer_of(form):
    """Return a layer built from these forms of its lines."""

    def forward(layer, x, mask):
        T, d_model = x.shape[1:]
        q, k, v = (form["the split"](W(x), layer.num_heads) for W in form["the projections"](layer))
        scale = form["the scale"](d_model, d_model // layer.num_heads, layer.num_heads, T)
        weights = form["the mask"](form["the product"](q, k) / scale, mask, form["the softmax"])
        return form["the output"](layer, form["the merge"](weights @ v))

    return forward


def _with(forms):
    """Return the layer with some of its lines in other forms."""
    return _layer_of({name: line.right for name, line in _LINES.items()} | forms)


def _dealt_out_and_back():
    """Return the layer whose heads are every num_heads-th feature, in the split and in the merge."""
    dealt = _LINES["the split"].changed["features are dealt out to the heads in turn"]
    return _with({"the split": dealt, "the merge": _LINES["the merge"].changed["features come before heads"]})


def _layer_cases():
    x = torch.tensor([[[1.0, 0, 2, 1, -1, 0], [2, 1, 0, 0, 1, 1]]])
    cases = [(identity(mhalib.MultiHeadAttention(6, 2)), x, mhalib.causal_mask(2))]
    for B, T, num_heads, head_dim, mask in (
        (2, 4, 1, 6, window(4, 1, 2)),  # one head: only the mask can be wrong
        (2, 4, 4, 3, window(4, 1, 1)),  # as many heads as tokens: heads that look at heads fit the mask
        (2, 5, 3, 4, window(5, 2, 1)),
        (3, 6, 4, 2, mhalib.causal_mask(6)),
    ):
        d_model = num_heads * head_dim
        layer = seeded(lambda d=d_model, h=num_heads: mhalib.MultiHeadAttention(d, h))
        cases.append((layer, 2 * draw(d_model, B, T, d_model), mask))
    return cases


repaired = Repair(
    task=(
        "Four lines of this layer are broken. Repair them. layer holds W_q, W_k, W_v, W_o and num_heads. mask is "
        "boolean, (T, T), with True = may attend, and it need not be causal."
    ),
    answer=repaired_solution,
    cases=_layer_cases,
    axes=("sample", "token", "feature"),
    lines=_LINES,
    build=_layer_of,
    hints=(
        "Go line by line: split, scale, mask, merge. Each has one mistake, and each has a lesson: 03, 02, 04, 05.",
        "The check counts the lines that are right and names those that are not. Repair one, then run the check.",
        "In two of the four, a transpose is missing.",
    ),
    wrong={
        "Features in the place of tokens": Wrong(
            _with({"the split": lambda y, h: y.unflatten(-1, (h, -1)).permute(0, 2, 3, 1)}),
            "features are the second-to-last axis of q and k, so features are compared with features, and no mask "
            "fits.",
            "Exchange tokens and heads, and nothing else: view(B, T, num_heads, head_dim).transpose(1, 2).",
            also=(_with({"the split": lambda y, h: y.unflatten(-1, (h, -1)).mT}),),
        ),
        "k is transposed along the wrong axes": Wrong(
            _with({"the product": lambda q, k: q @ k.transpose(1, 2)}),
            "k.transpose(1, 2) exchanges heads and keys, but q is (B, num_heads, T, head_dim).",
            "Exchange the last two axes of k: k.transpose(-2, -1).",
        ),
        "Features dealt out in turn, and put back that way": Wrong(
            _dealt_out_and_back(),
            "head 0 holds features 0, h, 2h, …, both in the split and in the merge.",
            "That is a valid layout for other weights, but here the features of a head are side by side: in both "
            "lines, use view(B, T, num_heads, head_dim), heads before features.",
        ),
    },
    see="Nine broken layers",
    remarks=(
        Asked(
            "The task asks you to repair four lines; your function calls the layer's own forward, which was never "
            "broken.",
            uses(mhalib.MultiHeadAttention.forward),
        ),
    ),
)

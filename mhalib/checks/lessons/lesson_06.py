"""The exercises of lesson 06: tests that see, torch's module called the right way, shared heads, a repair, a count."""

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import nn

import mhalib
from mhalib.checks.exercise import Choice, Exercise, Wrong
from mhalib.checks.inputs import draw

tests_that_see = Choice(
    task=(
        "A layer lacks the transpose in its merge. Which of the five tests can fail because of that? "
        "All that can, as letters."
    ),
    answer="CD",
    options={
        "A": "the shape of the output is right, and inputs of ones make all tokens alike.",
        "B": "with one head there is nothing to exchange: an axis of length 1 moves no number.",
        "C": "with four heads an early row holds pieces of later tokens, so it moves.",
        "D": "attention without positions follows the order of its tokens; a layer that mixes tokens does not.",
        "E": "the bug is the same both times. This test finds a dropout that was left on.",
    },
    hints=(
        "The bug mixes tokens. Which tests use several heads, several tokens, and tokens that differ?",
        "One head or one token hides it, and so does any test that looks at shapes or repeats itself.",
    ),
    see="Three probes",
)


def call_torch_solution(mha, x, mask):
    blocked = ~mask.repeat_interleave(mha.num_heads, dim=0)  # (B, T, T) -> (B * num_heads, T, T), True = blocked
    output, weights = mha(x, x, x, attn_mask=blocked, average_attn_weights=False)
    return output, weights  # (B, T, d_model), (B, num_heads, T, T)


def _call(mha, x, mask, **options):
    return mha(x, x, x, attn_mask=mask, **({"average_attn_weights": False} | options))


def _seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def _torch_cases():
    small, large = (
        _seeded(lambda d=d, h=h: nn.MultiheadAttention(d, h, batch_first=True)) for d, h in ((4, 2), (12, 3))
    )
    masks = (
        mhalib.padding_mask(torch.tensor(lens), T) & mhalib.causal_mask(T) for lens, T in (([2, 1], 2), ([5, 3], 5))
    )
    inputs = draw(0, 2, 2, 4), draw(1, 2, 5, 12)
    return list(zip((small, large), inputs, masks, strict=True))


call_torch = Exercise(
    task=(
        "Write call_torch(mha, x, mask): self-attention by an nn.MultiheadAttention(batch_first=True). "
        "mask is ours, (B, T, T), True = may attend. Return the output and the weights of every head, (B, num_heads, "
        "T, T)."
    ),
    answer=call_torch_solution,
    cases=_torch_cases,
    axes=(),
    hints=(
        "Three traps: what True means, how often each mask stands there, and which weights come back.",
        "attn_mask is (B * num_heads, T, T), sample 0 with all its heads first, True = blocked.",
        "average_attn_weights=False returns one map for each head.",
    ),
    wrong={
        "The polarity": Wrong(
            lambda a, x, m: _call(a, x, m.repeat_interleave(a.num_heads, 0)),
            "True still means may attend, so the module looks at just what it must not see.",
            "Give it ~mask: in nn.MultiheadAttention True means blocked.",
        ),
        "Averaged maps": Wrong(
            lambda a, x, m: _call(a, x, ~m.repeat_interleave(a.num_heads, 0), average_attn_weights=True),
            "the output is right, the weights are the mean over the heads: a map that no head has.",
            "average_attn_weights=False.",
        ),
        "Another sample's mask": Wrong(
            lambda a, x, m: _call(a, x, ~m.repeat(a.num_heads, 1, 1)),
            "repeat makes a, b, a, b; the module reads a, a, b, b.",
            "repeat_interleave(num_heads, dim=0).",
        ),
        "No mask": Wrong(lambda a, x, m: _call(a, x, None), "the mask was left out.", "Hand it on as attn_mask."),
        "One mask for all": Wrong(
            lambda a, x, m: _call(a, x, ~m[0]),
            "every sample gets the mask of sample 0.",
            "Repeat each sample's mask for its heads.",
        ),
        "Ones that are added": Wrong(
            lambda a, x, m: _call(a, x, m.repeat_interleave(a.num_heads, 0).float()),
            "a mask of floats is added to the scores; 0 and 1 hide nothing.",
            "Keep it boolean.",
        ),
        "The mask of (B, T, T) as it is": Wrong(
            lambda a, x, m: _call(a, x, ~m),
            "the module wants B * num_heads masks and got B.",
            "repeat_interleave(num_heads, dim=0).",
        ),
        "No weights": Wrong(
            lambda a, x, m: _call(a, x, ~m.repeat_interleave(a.num_heads, 0), need_weights=False),
            "need_weights=False returns None for the weights.",
            "Leave need_weights at its default, True.",
        ),
    },
    see="Which weights come back?",
)


def share_heads_solution(k, num_heads):
    times = num_heads // k.shape[1]
    return k.repeat_interleave(times, dim=1)  # (B, num_kv_heads, T, head_dim) -> (B, num_heads, T, head_dim)


def _kv_labels(B, heads, T, head_dim):
    return (
        (100 * torch.arange(heads)[:, None, None] + 10 * torch.arange(T)[:, None] + torch.arange(head_dim))
        .expand(B, -1, -1, -1)
        .float()
    )


share_heads = Exercise(
    task=(
        "num_kv_heads: write share_heads(k, num_heads), (B, num_kv_heads, T, head_dim) -> (B, num_heads, T, head_dim). "
        "Neighbouring heads of queries share a head of keys."
    ),
    answer=share_heads_solution,
    cases=lambda: [
        (_kv_labels(1, 2, 1, 1), 4),
        (_kv_labels(2, 2, 3, 2), 6),
        (draw(0, 2, 3, 4, 2), 6),
        (draw(1, 2, 2, 2, 4), 2),
    ],
    axes=("sample", "head", "token", "feature"),
    hints=(
        "Two heads of keys, four of queries: heads 0 and 1 use the first, heads 2 and 3 the second.",
        "Which of repeat and repeat_interleave makes a, a, b, b? Lesson 04 needed it for masks.",
    ),
    wrong={
        "Every other head": Wrong(
            lambda k, h: k.repeat(1, h // k.shape[1], 1, 1),
            "the heads come as a, b, a, b.",
            "Neighbours share: a, a, b, b, that is repeat_interleave. Trained weights expect that order.",
        ),
        "Tokens repeated": Wrong(
            lambda k, h: k.repeat_interleave(h // k.shape[1], 2),
            "every token stands there several times.",
            "Heads are axis 1: dim=1.",
        ),
        "Samples repeated": Wrong(
            lambda k, h: k.repeat_interleave(h // k.shape[1], 0),
            "every sample stands there several times.",
            "Heads are axis 1: dim=1.",
        ),
        "Features repeated": Wrong(
            lambda k, h: k.repeat_interleave(h // k.shape[1], 3),
            "every feature stands there several times.",
            "Heads are axis 1: dim=1.",
        ),
        "One head for all": Wrong(
            lambda k, h: k[:, :1].expand(-1, h, -1, -1),
            "only the first head of keys is used.",
            "Each head of keys serves num_heads // num_kv_heads heads.",
        ),
        "Too many heads": Wrong(
            lambda k, h: k.repeat_interleave(h, 1),
            "each head was repeated num_heads times.",
            "There are num_kv_heads of them already: repeat num_heads // num_kv_heads times.",
        ),
        "An axis left over": Wrong(
            lambda k, h: k[:, :, None].expand(-1, -1, h // k.shape[1], -1, -1),
            "the copies stand in an axis of their own.",
            "Join it with the heads: flatten(1, 2).",
        ),
    },
    see="The options in one glance",
)


def repaired_solution(layer, x, mask):
    B, T, _ = x.shape
    q, k, v = (W(x).view(B, T, layer.num_heads, -1).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, num_heads, T, T)
    scores = scores.masked_fill(~mask, -torch.inf)
    heads = scores.softmax(-1) @ v  # (B, num_heads, T, head_dim)
    return layer.W_o(heads.transpose(1, 2).reshape(B, T, -1))  # -> (B, T, d_model)


_PARTS = {
    "the split": (
        "view(B, num_heads, T, head_dim) cuts the sentence: view to (B, T, num_heads, head_dim), then transpose(1, 2)"
    ),
    "the scale": "divide by the root of head_dim, not of d_model",
    "the mask": "True means may attend, and masked_fill fills where its argument is True: ~mask",
    "the merge": "the transpose before the reshape is missing",
}


def _half_repaired(split: bool, scale: bool, mask: bool, merge: bool):
    """Return the broken layer with just these parts repaired."""

    def forward(layer, x, allowed):
        B, T, _ = x.shape
        h = layer.num_heads
        q, k, v = (W(x) for W in (layer.W_q, layer.W_k, layer.W_v))
        q, k, v = (mhalib.split_heads(y, h) if split else y.reshape(B, h, T, -1) for y in (q, k, v))
        scores = q @ k.mT / math.sqrt(q.shape[-1] if scale else x.shape[-1])
        heads = scores.masked_fill(~allowed if mask else allowed, -math.inf).softmax(-1) @ v
        return layer.W_o(mhalib.merge_heads(heads) if merge else heads.reshape(B, T, -1))

    return forward


def _still_broken(done: tuple) -> tuple[str, Wrong]:
    left = [name for name, repaired in zip(_PARTS, done, strict=True) if not repaired]
    fine = [name for name, repaired in zip(_PARTS, done, strict=True) if repaired]
    what = f"{' and '.join(fine)} {'is' if len(fine) == 1 else 'are'} right now."
    return f"Still to repair: {', '.join(left)}", Wrong(
        _half_repaired(*done), what, "; ".join(_PARTS[name] for name in left) + "."
    )


def _layer_cases():
    sizes = ((4, 2, 1, 2), (8, 2, 2, 5), (12, 3, 3, 3), (8, 4, 2, 4))  # d_model, num_heads, B, T
    return [
        (_seeded(lambda d=d, h=h: mhalib.MultiHeadAttention(d, h)), 2 * draw(d, B, T, d), mhalib.causal_mask(T))
        for d, h, B, T in sizes
    ]


repaired = Exercise(
    task=(
        "Four lines of this layer are broken. Repair them. layer holds W_q, W_k, W_v, W_o and num_heads; "
        "mask is boolean, (T, T), True = may attend."
    ),
    answer=repaired_solution,
    cases=_layer_cases,
    axes=("sample", "token", "feature"),
    given=_half_repaired(False, False, False, False),
    hints=(
        "Go line by line: split, scale, mask, merge. Each has one mistake, each has a lesson: 03, 02, 04, 05.",
        "The check says which lines are right already, so repair one and run it.",
        "Two of the four are a transpose that is missing.",
    ),
    wrong=dict(_still_broken(done) for done in product((True, False), repeat=4) if any(done) and not all(done)),
    see="Nine broken layers",
)


def count_heads_solution(f, d_model):
    places = 10 * d_model  # more than any number of heads
    c = torch.randn(places, 1, d_model, dtype=torch.float64)  # many c ...
    d = torch.randn(d_model, dtype=torch.float64)  # ... and one d
    with torch.no_grad():
        # At the second token, which sees both, whether the box is causal or not.
        moved = f(torch.cat([c, c + d], dim=1))[:, 1] - f(c + d)[:, 0]  # (places, d_model)
    return int(torch.linalg.matrix_rank(moved, rtol=1e-9))


def _box(d_model, num_heads, *, causal=False, quiet=None, twins=False, **options):
    """Return a sealed layer: a function of (B, T, d_model), in the precision of its input."""
    layer = _seeded(lambda: mhalib.MultiHeadAttention(d_model, num_heads, **options)).double().requires_grad_(False)
    size = layer.head_dim
    layer.W_q.weight *= 2  # maps that differ clearly from place to place
    if quiet is not None:  # what head 0 writes is so much smaller
        layer.W_o.weight[:, :size] *= quiet
    if twins:  # head 0 has the scores of head 1
        for W in (layer.W_q, layer.W_k):
            W.weight[:size] = W.weight[size : 2 * size]
    parts = [(W.weight, W.bias) for W in (layer.W_q, layer.W_k, layer.W_v, layer.W_o)]
    rounded = [tuple(p if p is None else p.float() for p in part) for part in parts]

    def attend(x):
        # Without the checks of the layer: a learner may well call it a thousand times, for one c after the other.
        *projections, out = parts if x.dtype == torch.float64 else rounded
        q, k, v = (F.linear(x, *part).view(*x.shape[:2], -1, size).transpose(1, 2) for part in projections)
        heads = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)  # (B, num_heads, T, head_dim)
        return F.linear(heads.transpose(1, 2).flatten(2), *out)  # -> (B, T, d_model)

    def f(x):
        if x.ndim != 3 or x.shape[-1] != d_model:
            raise ValueError(f"this box takes (B, T, d_model) with d_model={d_model}, got {tuple(x.shape)}")
        if not causal:
            return attend(x)
        # Token by token: what the first one gives is the same to the last bit, whatever comes after it.
        begun = (x[:, : t + 1].clone(memory_format=torch.contiguous_format) for t in range(x.shape[1]))
        return torch.cat([attend(part)[:, -1:] for part in begun], dim=1)

    # The example that a learner sees names the function.
    f.__name__ = f"of a {'causal ' if causal else ''}box with {num_heads} heads"
    if twins or quiet is not None:
        f.__name__ += ", two with the same scores" if twins else ", one cut off" if not quiet else ", one of them quiet"
    return f


def _box_cases():
    return [
        (_box(8, 1, bias=True), 8),
        (_box(8, 2), 8),
        (_box(12, 3, causal=True, bias=True), 12),
        (_box(16, 4, head_dim=2, bias=True), 16),
        (_box(24, 4, num_kv_heads=2, causal=True), 24),
        (_box(16, 4, quiet=0.0), 16),
        (_box(16, 4, twins=True), 16),
        (_box(16, 4, quiet=1e-5), 16),
    ]


def _rank_of(moved, rtol):
    return int(torch.linalg.matrix_rank(moved, rtol=rtol))


def _counted(
    places=200, changes_of=1, dtype=torch.float64, rtol=1e-9, place=1, subtract=True, one_c=False, second=None
):
    """Return a way to count heads with these choices; some of them are wrong."""

    def count(f, d_model):
        c = draw(5, 1 if one_c else places, 1, d_model, dtype=dtype).expand(places, -1, -1)
        d = draw(6, changes_of, 1, d_model, dtype=dtype)
        pair = torch.cat([c, (c + d if second is None else second(c, d)).expand(places, -1, -1)], dim=1)
        moved = f(pair)[:, place]
        if subtract:
            moved = moved - f(pair[:, place : place + 1])[:, 0]
        return _rank_of(moved, rtol)

    return count


count_heads = Exercise(
    task=(
        "Write count_heads(f, d_model): how many heads are in a sealed box. f takes (B, T, d_model) and returns as "
        "much, in the precision of its input; some boxes are causal. Count the heads that differ."
    ),
    answer=count_heads_solution,
    cases=_box_cases,
    hints=(
        "One d and many c: what f says at a token when a second one is there, minus what it says of that token alone.",
        "In a causal box the first token does not see the second. Which of the two sees both?",
        "Stack the differences, one row for each c. Their rank in float64 is the number of heads; rounding ends near "
        "1e-15 of the largest singular value, a quiet head may be as small as 1e-6.",
    ),
    wrong={
        "Read at the first token": Wrong(
            _counted(place=0),
            "in a causal box you count 0 heads: its first token does not see the second, so nothing changes there.",
            "Read at the second token. It sees both, in any box.",
        ),
        "Nothing subtracted": Wrong(
            _counted(subtract=False),
            "you take the rank of the outputs themselves. It counts the features that all heads can write to.",
            "Subtract what f says of the same token alone: then only what the other one added is left.",
            also=(
                lambda f, d_model: _rank_of(f(draw(5, 200, 1, d_model, dtype=torch.float64))[:, 0], 1e-9),
                lambda f, d_model: _rank_of(f(draw(5, 200, 2, d_model, dtype=torch.float64))[:, 1], 1e-9),
            ),
        ),
        "Another d for every c": Wrong(
            _counted(changes_of=200),
            "the two tokens differ by another vector each time, so each head adds another direction each time.",
            "Draw d once, and many c: the second token is c + d, with the same d for all.",
            also=(_counted(changes_of=200, one_c=True), _counted(second=lambda c, d: d)),
        ),
        "One c only": Wrong(
            _counted(one_c=True),
            "with one c there is one difference, however often it is repeated, and its rank is 1.",
            "The shares of the heads must vary: many c, one d.",
            also=(_counted(places=1),),
        ),
        "Too few c": Wrong(
            _counted(places=2),
            "there are fewer differences than heads, and the rank cannot exceed their number.",
            "Take many more c than there could be heads: 10 * d_model, for one.",
            also=(_counted(places=3),),
        ),
        "A quiet head is missed": Wrong(
            _counted(rtol=1e-4),
            "one head writes little, and your tolerance takes it for rounding.",
            "In float64 rounding ends near 1e-15 of the largest singular value: rtol=1e-9 leaves room on both sides.",
            also=(_counted(dtype=torch.float32, rtol=1e-5),),
        ),
        "Rounding is counted": Wrong(
            _counted(dtype=torch.float32),
            "in float32, what rounding left is far above 1e-9 and counts as heads.",
            "Hand f tokens in float64: f computes in the precision of its input.",
            also=(_counted(rtol=0.0),),
        ),
    },
    see="Counting heads in a sealed box",
)

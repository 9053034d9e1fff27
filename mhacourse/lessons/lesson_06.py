"""The exercises of lesson 06: tests that see, torch's module called the right way, shared heads, a repair, a count."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import mhalib
from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.other_inputs import on_an_empty_row, with_a_gradient
from mhacourse.remarks import Asked, Grows, never_uses, uses
from mhacourse.repairs import Line, Repair

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
        "With one head, what does the transpose exchange? Which test says the same of every layer, broken or not?",
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


def _tokens_first(mha, x, mask):
    output, weights = _call(mha, x.transpose(0, 1), ~mask.repeat_interleave(mha.num_heads, 0))
    return output.transpose(0, 1), weights


def _averaged_copies(mha, x, mask):
    output, weights = mha(x, x, x, attn_mask=~mask.repeat_interleave(mha.num_heads, 0))
    return output, weights[:, None].expand(-1, mha.num_heads, -1, -1)


def _seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def _identity(module):
    """Make every matrix of a layer, ours or torch's, the identity, and let the example say so."""
    with torch.no_grad():
        for weight in module.parameters():
            eye = torch.eye(weight.shape[-1])
            weight.copy_(eye.repeat(len(weight) // len(eye), 1) if weight.ndim == 2 else torch.zeros(len(weight)))
    # An example names the type of a module.
    name = f"{type(module).__name__} with {module.num_heads} heads, each matrix the identity"
    module.__class__ = type(name, (type(module),), {})
    return module


def _torch_cases():
    x = torch.tensor([[[4.0, 0], [0, 1]]])
    cases = [(_identity(nn.MultiheadAttention(2, 2, batch_first=True)), x, mhalib.causal_mask(2)[None])]
    some = mhalib.padding_mask(torch.tensor([5, 3]), 5) & mhalib.causal_mask(5)
    # Not causal, no padding: nothing that torch could be told in another way.
    windows = torch.stack([_window(4, 1, 1), _window(4, 0, 2), _window(4, 2, 0)])
    for (B, T, num_heads, head_dim), mask in (((2, 5, 3, 4), some), ((3, 4, 2, 5), windows)):
        d_model = num_heads * head_dim
        mha = _seeded(lambda d=d_model, h=num_heads: nn.MultiheadAttention(d, h, batch_first=True))
        cases.append((mha, draw(T, B, T, d_model), mask))
    return cases


def _call_torch_steps(mha, x, mask):
    B, T, d_model = x.shape
    blocked = ~mask
    blocked = blocked[:, None]  # (B, T, T) -> (B, 1, T, T)
    blocked = blocked.expand(B, mha.num_heads, T, T)
    blocked = blocked.reshape(B * mha.num_heads, T, T)
    output, weights = mha(x, x, x, attn_mask=blocked, average_attn_weights=False)
    return output, weights


call_torch = Exercise(
    task=(
        "Write call_torch(mha, x, mask): self-attention by an nn.MultiheadAttention(batch_first=True). "
        "mask is ours, (B, T, T), True = may attend. Return the output and the weights of every head, (B, num_heads, "
        "T, T)."
    ),
    answer=call_torch_solution,
    plain=(call_torch_solution, _call_torch_steps),
    cases=_torch_cases,
    axes={"output": ("sample", "token", "feature"), "weights": ("sample", "head", "query", "key")},
    hints=(
        "Three traps: what True means, how often each mask stands there, and which weights come back.",
        "attn_mask is (B * num_heads, T, T), sample 0 with all its heads first, True = blocked.",
        "average_attn_weights=False returns one map for each head.",
    ),
    wrong={
        "The polarity": Wrong(
            Change("~mask.repeat_interleave(mha.num_heads, dim=0)", "mask.repeat_interleave(mha.num_heads, dim=0)"),
            "True still means may attend, so the module looks at just what it must not see.",
            "Give it ~mask: in nn.MultiheadAttention True means blocked.",
        ),
        "Averaged maps": Wrong(
            Change(
                "output, weights = mha(x, x, x, attn_mask=blocked, average_attn_weights=False)",
                "output, weights = mha(x, x, x, attn_mask=blocked, average_attn_weights=True)",
            ),
            "the output is right, the weights are the mean over the heads: a map that no head has.",
            "average_attn_weights=False.",
            also=(_averaged_copies,),
        ),
        "Another sample's mask": Wrong(
            lambda a, x, m: _call(a, x, ~m.repeat(a.num_heads, 1, 1)),
            "repeat makes a, b, a, b; the module reads a, a, b, b.",
            "repeat_interleave(num_heads, dim=0).",
        ),
        "No mask": Wrong(lambda a, x, m: _call(a, x, None), "the mask was left out.", "Hand it on as attn_mask."),
        "One mask for all": Wrong(
            lambda a, x, m: _call(a, x, ~m[0]),
            "every sample gets the same mask.",
            "Repeat each sample's mask for its heads.",
            also=(lambda a, x, m: _call(a, x, ~m.any(0)), lambda a, x, m: _call(a, x, ~m.all(0))),
        ),
        "Ones that are added": Wrong(
            lambda a, x, m: _call(a, x, m.repeat_interleave(a.num_heads, 0).float()),
            "a mask of floats is added to the scores; 0 and 1 hide nothing.",
            "Keep it boolean.",
        ),
        "The mask of (B, T, T) as it is": Wrong(
            Change("mask.repeat_interleave(mha.num_heads, dim=0)", "mask"),
            "the module wants B * num_heads masks and got B.",
            "repeat_interleave(num_heads, dim=0).",
        ),
        "As padding": Wrong(
            lambda a, x, m: a(x, x, x, key_padding_mask=~m, average_attn_weights=False),
            "key_padding_mask is (B, T), one row for all queries of a sample. Yours has a row for each query.",
            "Hand it on as attn_mask, which has a row for each query, once for each head.",
        ),
        "The keys that the last query may not see": Wrong(
            lambda a, x, m: a(x, x, x, key_padding_mask=~m[:, -1], average_attn_weights=False),
            "every query of a sample gets the mask of its last one.",
            "key_padding_mask has one row for a sample. What differs from query to query goes into attn_mask.",
            also=(
                lambda a, x, m: a(
                    x,
                    x,
                    x,
                    key_padding_mask=~m[:, -1],
                    attn_mask=~mhalib.causal_mask(x.shape[1]),
                    average_attn_weights=False,
                ),
            ),
        ),
        "Causal, whatever mask comes": Wrong(
            lambda a, x, m: _call(a, x, ~mhalib.causal_mask(x.shape[1])),
            "each token sees itself and all before it. The mask that was given is not read.",
            "Make attn_mask of mask.",
        ),
        "is_causal alone": Wrong(
            lambda a, x, m: a(x, x, x, is_causal=True, average_attn_weights=False),
            "is_causal only tells the module that attn_mask is causal. It makes no mask, and yours need not be causal.",
            "Hand the mask itself on, as attn_mask, and leave is_causal out.",
        ),
        "Tokens before samples": Wrong(
            _tokens_first,
            "x is turned to (T, B, d_model), but a module with batch_first=True reads (B, T, d_model).",
            "Give it x as it is.",
        ),
        "No weights": Wrong(
            lambda a, x, m: _call(a, x, ~m.repeat_interleave(a.num_heads, 0), need_weights=False),
            "need_weights=False returns None for the weights.",
            "Leave need_weights at its default, True.",
        ),
    },
    see="Which weights come back?",
    remarks=(
        Asked("The task asks for a call of mha; yours never calls it.", never_uses(nn.MultiheadAttention.forward)),
        on_an_empty_row,
    ),
)


def share_heads_solution(k, num_heads):
    times = num_heads // k.shape[1]
    return k.repeat_interleave(times, dim=1)  # (B, num_kv_heads, T, head_dim) -> (B, num_heads, T, head_dim)


def _share_heads_by_index(k, num_heads):
    B, num_kv_heads, T, head_dim = k.shape
    times = num_heads // num_kv_heads
    index = torch.arange(num_heads)
    index = index // times  # such as 0, 0, 1, 1
    return k[:, index]


def _share_heads_by_expand(k, num_heads):
    B, num_kv_heads, T, head_dim = k.shape
    times = num_heads // num_kv_heads
    shared = k[:, :, None]  # (B, num_kv_heads, T, head_dim) -> (B, num_kv_heads, 1, T, head_dim)
    shared = shared.expand(B, num_kv_heads, times, T, head_dim)
    return shared.reshape(B, num_heads, T, head_dim)


def _share_heads_by_loop(k, num_heads):
    B, num_kv_heads, T, head_dim = k.shape
    times = num_heads // num_kv_heads
    heads = []
    for i in range(num_heads):
        heads.append(k[:, i // times])  # (B, T, head_dim)
    return torch.stack(heads, dim=1)  # -> (B, num_heads, T, head_dim)


def _kv_labels(B, heads, T, head_dim):
    """Return `(B, heads, T, head_dim)` with the labels `1000·sample + 100·head + 10·token + feature`."""
    samples, numbers = torch.arange(B)[:, None, None, None], torch.arange(heads)[:, None, None]
    return (1000 * samples + 100 * numbers + 10 * torch.arange(T)[:, None] + torch.arange(head_dim)).float()


share_heads = Exercise(
    task=(
        "num_kv_heads: write share_heads(k, num_heads), (B, num_kv_heads, T, head_dim) -> (B, num_heads, T, head_dim). "
        "Neighbouring heads of queries share a head of keys."
    ),
    answer=share_heads_solution,
    plain=(share_heads_solution, _share_heads_by_index, _share_heads_by_expand, _share_heads_by_loop),
    cases=lambda: [
        (_kv_labels(1, 2, 1, 3), 4),
        (_kv_labels(5, 2, 3, 7), 8),
        (_kv_labels(4, 3, 5, 7), 6),
        (draw(0, 2, 3, 7, 5), 12),
        (draw(1, 2, 3, 4, 5), 3),  # as many heads of keys as of queries
        (draw(2, 2, 1, 4, 3), 5),  # one for all
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
            Change("k.repeat_interleave(times, dim=1)", "k.repeat_interleave(times, dim=-2)"),
            "every token stands there several times.",
            "Heads are axis 1: dim=1.",
            also=(lambda k, h: k.repeat(1, 1, h // k.shape[1], 1),),
        ),
        "Samples repeated": Wrong(
            Change("k.repeat_interleave(times, dim=1)", "k.repeat_interleave(times, dim=0)"),
            "every sample stands there several times.",
            "Heads are axis 1: dim=1.",
            also=(lambda k, h: k.repeat(h // k.shape[1], 1, 1, 1),),
        ),
        "Features repeated": Wrong(
            Change("k.repeat_interleave(times, dim=1)", "k.repeat_interleave(times, dim=-1)"),
            "every feature stands there several times.",
            "Heads are axis 1: dim=1.",
            also=(lambda k, h: k.repeat(1, 1, 1, h // k.shape[1]),),
        ),
        "One head for all": Wrong(
            lambda k, h: k[:, :1].expand(-1, h, -1, -1),
            "only the first head of keys is used.",
            "Each head of keys serves num_heads // num_kv_heads heads.",
        ),
        "Too many heads": Wrong(
            Change("num_heads // k.shape[1]", "num_heads"),
            "each head was repeated num_heads times.",
            "There are num_kv_heads of them already: repeat num_heads // num_kv_heads times.",
        ),
        "Expanded as it is": Wrong(
            lambda k, h: k.expand(-1, h, -1, -1),
            "expand only repeats an axis of length 1, and there are several heads of keys.",
            "repeat_interleave copies each head; or make an axis of length 1 behind the heads, and expand that.",
        ),
        "Divided by the number of heads of keys": Wrong(
            lambda k, h: k[:, torch.arange(h) // k.shape[1]],
            "query head i takes head i // num_kv_heads of the keys: groups of num_kv_heads neighbours.",
            "A group has num_heads // num_kv_heads neighbours: take head i // (num_heads // num_kv_heads).",
        ),
        "The heads averaged": Wrong(
            lambda k, h: k.unflatten(1, (-1, h // k.shape[1])).mean(2),
            "neighbouring heads of keys are joined into one. That makes fewer heads, and more are wanted.",
            "Copy each head of keys for the num_heads // num_kv_heads heads of queries that share it.",
        ),
        "Pieces of another axis": Wrong(
            lambda k, h: (
                k[:, :, None]
                .expand(-1, -1, h // k.shape[1], -1, -1)
                .transpose(2, 3)
                .reshape(k.shape[0], h, *k.shape[2:])
            ),
            "the copies stand behind the tokens when the axes are joined, so a head holds pieces of several tokens.",
            "Put the copies right behind the heads, (B, num_kv_heads, times, T, head_dim), then flatten(1, 2).",
        ),
        "An axis left over": Wrong(
            lambda k, h: k[:, :, None].expand(-1, -1, h // k.shape[1], -1, -1),
            "the copies stand in an axis of their own.",
            "Join it with the heads: flatten(1, 2).",
        ),
    },
    see="The options in one glance",
    remarks=(
        Grows(lambda heads=4, samples=2, tokens=3: (draw(0, samples, 2, tokens, 2), heads)),
        with_a_gradient,
    ),
)


def repaired_solution(layer, x, mask):
    B, T, _ = x.shape
    q, k, v = (W(x).view(B, T, layer.num_heads, -1).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, num_heads, T, T)
    scores = scores.masked_fill(~mask, -torch.inf)
    heads = scores.softmax(-1) @ v  # (B, num_heads, T, head_dim)
    return layer.W_o(heads.transpose(1, 2).reshape(B, T, -1))  # -> (B, T, d_model)


def _repaired_steps(layer, x, mask):
    B, T, d_model = x.shape
    num_heads = layer.num_heads
    head_dim = d_model // num_heads
    q = layer.W_q(x)
    k = layer.W_k(x)
    v = layer.W_v(x)
    q = q.reshape(B, T, num_heads, head_dim).transpose(1, 2)  # (B, T, d_model) -> (B, num_heads, T, head_dim)
    k = k.reshape(B, T, num_heads, head_dim).transpose(1, 2)
    v = v.reshape(B, T, num_heads, head_dim).transpose(1, 2)
    scores = q @ k.transpose(2, 3)  # -> (B, num_heads, T, T)
    scores = scores / head_dim**0.5
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    heads = weights @ v  # -> (B, num_heads, T, head_dim)
    merged = heads.transpose(1, 2)  # -> (B, T, num_heads, head_dim)
    merged = merged.reshape(B, T, d_model)
    return layer.W_o(merged)


def _repaired_loop(layer, x, mask):
    B, T, d_model = x.shape
    size = d_model // layer.num_heads
    q, k, v = layer.W_q(x), layer.W_k(x), layer.W_v(x)
    heads = []
    for i in range(layer.num_heads):
        start = i * size
        stop = start + size
        scores = q[:, :, start:stop] @ k[:, :, start:stop].transpose(1, 2)  # -> (B, T, T)
        scores = scores / math.sqrt(size)
        scores = scores.masked_fill(~mask, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        heads.append(weights @ v[:, :, start:stop])
    return layer.W_o(torch.cat(heads, dim=-1))  # num_heads x (B, T, size) -> (B, T, d_model)


# Here y is (B, T, d_model), heads are (B, num_heads, T, head_dim), scores (B, num_heads, T, T).
_LINES = {
    "the split": Line(
        lambda y, h: y.unflatten(-1, (h, -1)).transpose(1, 2),
        "view(B, num_heads, T, head_dim) cuts the sentence: view to (B, T, num_heads, head_dim), then transpose(1, 2)",
        given=lambda y, h: y.reshape(y.shape[0], h, y.shape[1], -1),
        changed={
            "its transpose is missing, tokens stand before heads": lambda y, h: y.unflatten(-1, (h, -1)),
            "the transpose is there, but view still cuts the sentence": lambda y, h: y.reshape(
                y.shape[0], h, y.shape[1], -1
            ).transpose(1, 2),
            "features are dealt out to the heads in turn": lambda y, h: y.unflatten(-1, (-1, h)).permute(0, 3, 1, 2),
            "the transpose comes before the cut": lambda y, h: y.mT.reshape(y.shape[0], h, y.shape[1], -1),
            "the last two axes are turned, not tokens and heads": lambda y, h: (
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
            "you divide by the root of T": lambda d_model, head_dim, h, T: math.sqrt(T),
            "you multiply with the root": lambda d_model, head_dim, h, T: 1 / math.sqrt(head_dim),
            "you divide by the root twice, or by that of its square": lambda d_model, head_dim, h, T: head_dim**2,
        }
        | {
            f"it is the root of the number {n}, which is head_dim of some layers only": (
                lambda d_model, head_dim, h, T, n=n: math.sqrt(n)
            )
            for n in (2, 3, 4, 8, 16, 32, 64)
        }
        | {
            f"it counts on {n} heads, and this layer may have others": (
                lambda d_model, head_dim, h, T, n=n: math.sqrt(d_model // n)
            )
            for n in (2, 3, 4, 8)
        },
    ),
    "the mask": Line(
        lambda scores, mask, softmax: softmax(scores.masked_fill(~mask, -math.inf)),
        "before the softmax, scores.masked_fill(~mask, -inf): True means may attend, and it fills where it reads True",
        given=lambda scores, mask, softmax: softmax(scores.masked_fill(mask, -math.inf)),
        changed={
            "it is left out, every token sees all": lambda scores, mask, softmax: softmax(scores),
            "it takes True for blocked, with a large number in place of inf": lambda scores, mask, softmax: softmax(
                scores.masked_fill(mask, -1e9)
            ),
            "it takes True for blocked, and a row without a key becomes 0": lambda scores, mask, softmax: softmax(
                scores.masked_fill(mask, -math.inf)
            ).nan_to_num(0.0),
            "it comes after the softmax, so the weights no longer sum to 1": lambda scores, mask, softmax: (
                softmax(scores) * mask
            ),
            "it is turned over its diagonal: query and key are exchanged": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~mask.mT, -math.inf)
            ),
            "turned over its diagonal, it is not ~mask": lambda scores, mask, softmax: softmax(
                scores.masked_fill(mask.mT, -math.inf)
            ),
            "it is a causal mask of your own, whatever mask comes": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~torch.ones_like(mask).tril(), -math.inf)
            ),
            "it hides what comes later besides, which the mask may allow": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~mask.tril(), -math.inf)
            ),
            "the scores it should hide become 0, and a score of 0 hides nothing": lambda scores, mask, softmax: softmax(
                scores.masked_fill(~mask, 0)
            ),
            "1 and 0 are added to the scores, which hides nothing": lambda scores, mask, softmax: softmax(
                scores + mask.float()
            ),
        },
    ),
    "the merge": Line(
        lambda heads: heads.transpose(1, 2).flatten(2),
        "transpose(1, 2) brings the heads of a token together, then reshape joins them",
        given=lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1),
        changed={
            "view cannot join what a transpose has moved, reshape can": lambda heads: heads.transpose(1, 2).view(
                heads.shape[0], heads.shape[2], -1
            ),
            "features come before heads": lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
            "tokens change places with features, not with heads": lambda heads: heads.mT.reshape(
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
        "scores are q @ k.transpose(-2, -1): a row for each query",
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
    """Return the layer whose lines have these forms."""

    def forward(layer, x, mask):
        T, d_model = x.shape[1:]
        q, k, v = (form["the split"](W(x), layer.num_heads) for W in form["the projections"](layer))
        scale = form["the scale"](d_model, d_model // layer.num_heads, layer.num_heads, T)
        weights = form["the mask"](form["the product"](q, k) / scale, mask, form["the softmax"])
        return form["the output"](layer, form["the merge"](weights @ v))

    return forward


def _window(T, before, after):
    """Return a mask in which each token sees this many before it and after it."""
    behind = torch.arange(T)[:, None] - torch.arange(T)
    return (behind <= before) & (behind >= -after)


def _layer_cases():
    x = torch.tensor([[[1.0, 0, 2, 1, -1, 0], [2, 1, 0, 0, 1, 1]]])
    cases = [(_identity(mhalib.MultiHeadAttention(6, 2)), x, mhalib.causal_mask(2))]
    for B, T, num_heads, head_dim, mask in (
        (2, 4, 1, 6, _window(4, 1, 2)),  # one head: only the mask can be wrong
        (2, 4, 4, 3, _window(4, 1, 1)),  # as many heads as tokens: heads that look at heads fit the mask
        (2, 5, 3, 4, _window(5, 2, 1)),
        (3, 6, 4, 2, mhalib.causal_mask(6)),
    ):
        d_model = num_heads * head_dim
        layer = _seeded(lambda d=d_model, h=num_heads: mhalib.MultiHeadAttention(d, h))
        cases.append((layer, 2 * draw(d_model, B, T, d_model), mask))
    return cases


repaired = Repair(
    task=(
        "Four lines of this layer are broken. Repair them. layer holds W_q, W_k, W_v, W_o and num_heads; "
        "mask is boolean, (T, T), True = may attend; it need not be causal."
    ),
    answer=repaired_solution,
    plain=(_repaired_steps, _repaired_loop),
    cases=_layer_cases,
    axes=("sample", "token", "feature"),
    lines=_LINES,
    build=_layer_of,
    hints=(
        "Go line by line: split, scale, mask, merge. Each has one mistake, each has a lesson: 03, 02, 04, 05.",
        "The check says which lines are right already, so repair one and run it.",
        "Two of the four are a transpose that is missing.",
    ),
    see="Nine broken layers",
    remarks=(
        Asked(
            "The task asks to repair four lines; yours calls the layer's own forward, which was never broken.",
            uses(mhalib.MultiHeadAttention.forward),
        ),
        on_an_empty_row,
    ),
)


def count_heads_solution(f, d_model):
    places = 10 * d_model  # more than any number of heads
    c = torch.randn(places, 1, d_model, dtype=torch.float64)  # many c ...
    d = torch.randn(d_model, dtype=torch.float64)  # ... and one d
    with torch.no_grad():
        # At the second token, which sees both, whether the box is causal or not.
        moved = f(torch.cat([c, c + d], dim=1))[:, 1] - f(c + d)[:, 0]  # (places, d_model)
    return int(torch.linalg.matrix_rank(moved, rtol=1e-9))


def _count_heads_steps(f, d_model):
    places = 10 * d_model
    c = torch.randn(places, 1, d_model, dtype=torch.float64)
    d = torch.randn(1, 1, d_model, dtype=torch.float64)
    second = c + d
    pair = torch.cat([c, second], dim=1)  # 2 x (places, 1, d_model) -> (places, 2, d_model)
    together = f(pair)
    together = together[:, 1]  # -> (places, d_model)
    alone = f(second)
    alone = alone[:, 0]
    moved = together - alone
    sizes = torch.linalg.svdvals(moved)
    return (sizes > 1e-9 * sizes.max()).sum().item()


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
    f.__name__ = f"of a {'causal ' if causal else ''}box with {num_heads} {'head' if num_heads == 1 else 'heads'}"
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
        (_box(64, 32), 64),  # more heads than a few dozen c can show
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
    plain=(count_heads_solution, _count_heads_steps),
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
            Change("f(torch.cat([c, c + d], dim=1))[:, 1] - f(c + d)[:, 0]", "f(torch.cat([c, c + d], dim=1))[:, 1]"),
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
            Change(
                "torch.randn(places, 1, d_model, dtype=torch.float64)",
                "torch.randn(1, places, d_model, dtype=torch.float64)",
            ),
            "with one c there is one difference, however often it is repeated, and its rank is 1.",
            "The shares of the heads must vary: many c, one d.",
            also=(_counted(places=1),),
        ),
        "Too few c": Wrong(
            _counted(places=2),
            "there are fewer differences than heads, and the rank cannot exceed their number.",
            "Take many more c than there could be heads: 10 * d_model, for one.",
            also=(_counted(places=3), _counted(places=10), _counted(places=20)),
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

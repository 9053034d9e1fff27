"""Healthy attention layers in the styles that people write them: the doctor must find nothing in any of them.

Each entry of `HEALTHY` is `(d_model, num_heads) -> what examine takes`. All are right, although none looks like
another.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from attention_doctor import adapt
from mhalib import MultiHeadAttention, reference
from tests.helpers.layers_base import KeyMask, Layer, over_keys, over_lengths, varied, without_mask


class LoopsOverHeads(Layer):
    def forward(self, x, mask=None):
        outs = []
        for i in range(self.h):
            part = slice(i * self.hd, (i + 1) * self.hd)
            q, k, v = self.W_q(x)[..., part], self.W_k(x)[..., part], self.W_v(x)[..., part]
            scores = torch.bmm(q, k.mT) * self.hd**-0.5
            if mask is not None:
                scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
            outs.append(scores.softmax(-1) @ v)
        return self.W_o(torch.cat(outs, -1))


class Einsum(Layer):
    def forward(self, x, mask=None):
        q, k, v = (W(x).unflatten(-1, (self.h, self.hd)) for W in (self.W_q, self.W_k, self.W_v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / self.hd**0.5
        out = torch.einsum("bhqk,bkhd->bqhd", self.hide(scores, mask).softmax(-1), v)
        return self.W_o(out.flatten(2))


class Einops(Layer):
    features = "(h d)"

    def split(self, x):
        return rearrange(x, f"b t {self.features} -> b h t d", h=self.h)

    def merge(self, heads):
        return rearrange(heads, f"b h t d -> b t {self.features}")


class FusedQKV(Layer):
    def more(self):
        del self.W_q, self.W_k, self.W_v
        self.W_qkv = nn.Linear(self.d_model, 3 * self.d_model)

    def qkv(self, x):
        return (self.split(part) for part in self.W_qkv(x).chunk(3, -1))


class Folded(Layer):
    """Heads folded into the batch, the mask repeated a, a, ..., b, b, ...; takes (B, T, T) and (T, T)."""

    def for_each_head(self, mask):
        return mask.repeat_interleave(self.h, 0)

    def forward(self, x, mask=None):
        q, k, v = (part.flatten(0, 1) for part in self.qkv(x))  # (B * h, T, hd)
        scores = self.score(q, k)
        if mask is not None:
            scores = scores.masked_fill(~self.for_each_head(mask.expand(len(x), -1, -1)), -1e9)
        return self.out((scores.softmax(-1) @ v).unflatten(0, (len(x), self.h)))


class Fused(Layer):
    def attend(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else self.axes(mask))


class GPT(Layer):
    """Always causal, with a buffer for 64 tokens; takes no mask."""

    bias = True

    def __init__(self, d_model, num_heads, longest=64):
        super().__init__(d_model, num_heads)
        self.register_buffer("tril", self.seen(longest))

    def seen(self, longest):
        return torch.ones(longest, longest).tril()

    def forward(self, x):
        T = x.shape[1]
        q, k, v = self.qkv(x)
        scores = self.score(q, k).masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return self.out(self.weigh(scores) @ v)


class CausalAndMasked(Layer):
    """Always causal, and takes a mask for padding on top."""

    def hide(self, scores, mask):
        tril = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        return super().hide(scores, tril if mask is None else mask & tril)


class Rotary(Layer):
    def score(self, q, k):
        half = self.hd // 2 * 2
        angle = torch.arange(q.shape[-2])[:, None] / 100 ** (torch.arange(0, half, 2) / self.hd)  # (T, hd / 2)

        def turn(x):
            a, b, rest = x[..., 0:half:2], x[..., 1:half:2], x[..., half:]
            return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), rest], -1)

        return super().score(turn(q), turn(k))


class RelativeBias(Layer):
    def more(self):
        self.table = nn.Parameter(0.1 * torch.randn(self.h, 255))

    def score(self, q, k):
        place = torch.arange(q.shape[-2])
        return super().score(q, k) + self.table[:, place[:, None] - place + 127]


class Alibi(Layer):
    def score(self, q, k):
        place, slope = torch.arange(q.shape[-2]), 2.0 ** -torch.arange(1, self.h + 1)
        return super().score(q, k) - slope[:, None, None] * (place[:, None] - place).abs()


class AbsolutePositions(Layer):
    def more(self):
        self.places = nn.Embedding(128, self.d_model)

    def forward(self, x, mask=None):
        return super().forward(x + self.places.weight[: x.shape[1]], mask)


class PositionsWithoutMask(AbsolutePositions):
    def forward(self, x):
        return super().forward(x)


class PostNormBlock(Layer):
    def more(self):
        self.norm = nn.LayerNorm(self.d_model)

    def forward(self, x, mask=None):
        return self.norm(x + super().forward(x, mask))


class PreNormBlock(PostNormBlock):
    def forward(self, x, mask=None):
        return x + Layer.forward(self, self.norm(x), mask)


class Dropout(Layer):
    def more(self):
        self.drop = nn.Dropout(0.5)

    def weigh(self, scores):
        return self.drop(scores.softmax(-1))


class NoOutputProjection(Layer):
    def more(self):
        self.W_o = nn.Identity()


class Sink(Layer):
    """A learned score per head that takes weight and gives nothing."""

    def more(self):
        self.sink = nn.Parameter(torch.randn(self.h, 1, 1))

    def weigh(self, scores):
        sink = self.sink.expand(scores.shape[0], -1, scores.shape[2], 1)
        return torch.cat([scores, sink], -1).softmax(-1)[..., :-1]


class Float32Softmax(Layer):
    def more(self):
        self.double()

    def weigh(self, scores):
        return scores.float().softmax(-1).to(scores.dtype)


class QKNorm(Layer):
    def score(self, q, k):
        return 3 * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)


class Prints(Layer):
    def forward(self, x, mask=None):
        print("values.size():", x.size())
        return super().forward(x, mask)


class ReturnsWeights(Layer):
    def forward(self, x, mask=None):
        q, k, v = self.qkv(x)
        weights = self.weigh(self.hide(self.score(q, k), mask))
        return self.out(weights @ v), weights


class ReturnsDict(Layer):
    def forward(self, x, mask=None):
        return {"weights": None, "out": super().forward(x, mask)}


class TimeFirst(Layer):
    def forward(self, x, mask=None):
        return super().forward(x.transpose(0, 1), mask).transpose(0, 1)


class Additive(Layer):
    def hide(self, scores, mask):
        return scores if mask is None else scores + self.axes(mask)

    def weigh(self, scores):
        empty = (scores == -torch.inf).all(-1, keepdim=True)
        return scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)


class RankFour(Layer):
    """Takes (B, 1, T, T), 1 = may attend, as the annotated transformers do; called with q, k, v."""

    def forward(self, query, key, value, mask=None):
        q, k, v = self.split(self.W_q(query)), self.split(self.W_k(key)), self.split(self.W_v(value))
        scores = self.score(q, k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.out(scores.softmax(-1) @ v)


class Blocked(Layer):
    def axes(self, mask):
        return ~super().axes(mask)


class OneMaskForAll(Layer):
    def hide(self, scores, mask):
        if mask is not None and mask.ndim != 2:
            raise ValueError("mask must be (T, T)")
        return super().hide(scores, mask)


class NeedsMask(Layer):
    def forward(self, x, mask):
        return super().forward(x, mask.bool())


class Window(Layer):
    def hide(self, scores, mask):
        T = scores.shape[-1]
        band = torch.ones(T, T, dtype=torch.bool).tril(1).triu(-1)
        return super().hide(scores, band if mask is None else mask & band)


class WithoutMask(Layer):
    forward = without_mask


class Neighbours(WithoutMask):
    """Each query meets the keys and values of five neighbours, which are unfolded."""

    pads = (2, 2), (2, 2)

    def attend(self, q, k, v, mask):
        places = torch.arange(q.shape[2])[:, None] + torch.arange(-2, 3)
        outside = (places < 0) | (places >= q.shape[2])
        k, v = (F.pad(x, (0, 0, *pad)).unfold(2, 5, 1) for x, pad in zip((k, v), self.pads, strict=True))
        scores = torch.einsum("bhtd,bhtdw->bhtw", q, k) / self.hd**0.5  # k, v: (B, h, T, hd, 5)
        return torch.einsum("bhtw,bhtdw->bhtd", scores.masked_fill(outside, -1e9).softmax(-1), v)


class LargeBiasesWithoutMask(WithoutMask):
    """Biases as large as some trained models have them keep the maps sharp, however small the tokens are."""

    bias = True

    def more(self):
        self.W_q.bias.data = 20 * torch.randn(self.d_model)
        self.W_k.bias.data = 20 * torch.randn(self.d_model)


class CausalWindow(GPT):
    """Each token sees itself and the two before it."""

    def seen(self, longest):
        return super().seen(longest).triu(-2)


class CausalKeyMask(KeyMask):
    """Always causal, and takes a mask over the keys on top."""

    def hide(self, scores, mask):
        tril = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        return super().hide(scores.masked_fill(~tril, -torch.inf), mask)


class PaddedToZero(KeyMask):
    """Zeros where padding asks; `value` may be NaN as well."""

    value = 0.0

    def forward(self, x, mask=None):
        out = super().forward(x, mask)
        return out if mask is None else out.masked_fill(~mask[..., None], self.value)


class PaddedRowsSeeEverything(KeyMask):
    """Pairs of two real tokens only: a row of padding has no key, and gets a mean over all."""

    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(~(mask[:, None, None] & mask[:, None, :, None]), -1e9)


class PairsPaddedToNaN(Layer):
    """Takes masks of pairs; what nobody may see is padding, and its own output is NaN."""

    def forward(self, x, mask=None):
        out = super().forward(x, mask)
        return out if mask is None else out.masked_fill(~mask.any(-2)[..., None], torch.nan)


class ReLUAtTheEnd(Layer):
    def forward(self, x):
        return super().forward(x).relu()


class TwoLayers(nn.Module):
    """One after another, each with a residual connection: tokens reach each other by way of a third."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.first, self.second = PreNormBlock(d_model, num_heads), PreNormBlock(d_model, num_heads)

    def forward(self, x, mask=None):
        return self.second(self.first(x, mask), mask)


# Nobody promised that a row may be empty; NaN there is remarked.
MinusInfinity = varied("MinusInfinity", never=-torch.inf)
MinusInfinityOverKeys = varied("MinusInfinityOverKeys", KeyMask, never=-torch.inf)
PaddedToNaN = varied("PaddedToNaN", PaddedToZero, value=torch.nan)
PermutedFeatures = varied("PermutedFeatures", Einops, features="(d h)")  # the heads are the fast axis of the features
QKNormWithoutMask = varied("QKNormWithoutMask", QKNorm, forward=without_mask)
OVER_KEYS = {
    "": KeyMask,
    ", -inf": MinusInfinityOverKeys,
    ", causal": CausalKeyMask,
    ", padding gives zeros": PaddedToZero,
    ", padding gives NaN": PaddedToNaN,
    ", padding sees everything": PaddedRowsSeeEverything,
}


def _called(called, kind):
    return lambda d_model, num_heads: called(kind(d_model, num_heads))


def _d2l(d_model, num_heads):
    return adapt(reference.to_d2l(MultiHeadAttention(d_model, num_heads, dropout=0.5)), "d2l")


def _grouped(d_model, num_heads):
    return MultiHeadAttention(d_model, num_heads, num_kv_heads=1 if num_heads % 2 else num_heads // 2)


def _torch(**options):
    return lambda d_model, num_heads: adapt(nn.MultiheadAttention(d_model, num_heads, **options), "torch")


def _function(layer):
    return lambda x, mask=None: layer(x, mask)


PLAIN = [
    Layer, LoopsOverHeads, Einsum, Einops, FusedQKV, PermutedFeatures, Folded, Fused, GPT, CausalAndMasked, Rotary,
    Neighbours, RelativeBias, Alibi, AbsolutePositions, PositionsWithoutMask, PostNormBlock, PreNormBlock, Dropout,
    NoOutputProjection, Sink, Float32Softmax, QKNorm, QKNormWithoutMask, Prints, ReturnsWeights, OneMaskForAll,
    NeedsMask, PairsPaddedToNaN, ReLUAtTheEnd, Window, WithoutMask, LargeBiasesWithoutMask, CausalWindow, TwoLayers,
]  # fmt: skip

HEALTHY = {kind.__name__: kind for kind in PLAIN} | {
    "mhalib": MultiHeadAttention,
    "grouped heads": _grouped,
    "interleaved": lambda d, h: reference.InterleavedAttention(d, d, h),
    "d2l": _d2l,
    "torch, time first": _torch(dropout=0.1),
    "torch, add_zero_attn": _torch(add_zero_attn=True),
    "dict": lambda d, h: adapt(ReturnsDict(d, h), output="out"),
    "time first": lambda d, h: adapt(TimeFirst(d, h), batch_first=False),
    "additive": lambda d, h: adapt(Additive(d, h), mask="additive"),
    "(B, 1, T, T)": lambda d, h: adapt(RankFour(d, h), "qkv", mask="float01", mask_rank=4),
    "blocked": lambda d, h: adapt(Blocked(d, h), mask="blocked"),
    "declared causal": lambda d, h: adapt(GPT(d, h), causal=True),
    "a window, declared causal": lambda d, h: adapt(CausalWindow(d, h), causal=True),
    **{f"over keys{what}": _called(over_keys, kind) for what, kind in OVER_KEYS.items()},
    **{f"lengths{what}": _called(over_lengths, kind) for what, kind in OVER_KEYS.items()},
    "a function": _called(_function, Layer),
    "MinusInfinity": MinusInfinity,
}

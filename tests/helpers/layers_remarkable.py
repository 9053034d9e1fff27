"""Layers of which something is worth knowing that is no fault: one for each remark of the doctor.

Each entry of `REMARKABLE` is a code and a function without arguments that returns what `examine` takes, for 32
features and 4 heads, and the projections or None.
"""

import torch
from torch import nn

from attention_doctor import adapt
from mhalib import MultiHeadAttention, reference
from tests.helpers.layers_base import Layer, projections
from tests.helpers.layers_healthy import (
    GPT,
    Additive,
    CausalWindow,
    NeedsMask,
    NoOutputProjection,
    OneMaskForAll,
    PositionsWithoutMask,
    TwoLayers,
)
from tests.helpers.layers_sick import NotScaled


class HidesOnePair(Layer):
    """The last token never sees the first."""

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        mask[-1, 0] = x.shape[1] == 1
        return super().forward(x, mask)


class CountsTokens(Layer):
    """Divides by the number of tokens, hidden ones too."""

    def forward(self, x, mask=None):
        return super().forward(x, mask) / x.shape[1]


class RefusesEmptyRows(Layer):
    def forward(self, x, mask=None):
        if mask is not None and not mask.any(-1).all():
            raise ValueError("each query needs a key")
        return super().forward(x, mask)


class MinusInfinityAdded(Additive):
    def weigh(self, scores):
        return scores.softmax(-1)


class OneProjectionForAllHeads(Layer):
    """Each head reads its slice of the features, by the same small matrix."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.W_q, self.W_k, self.W_v = (nn.Linear(self.hd, self.hd) for _ in range(3))

    def forward(self, x, mask=None):
        q, k, v = (W(self.split(x)) for W in (self.W_q, self.W_k, self.W_v))
        return self.W_o(self.merge(self.attend(q, k, v, mask)))


class NaNWhereNothingWasAskedFor(MultiHeadAttention):
    def forward(self, x, mask=None):
        out = super().forward(x, mask=mask)
        return out if mask is None else out.masked_fill(~mask.any(-1)[..., None], torch.nan)


def _interleaved():
    layer = reference.InterleavedAttention(32, 32, 4)
    q, k, v = layer.qkv.weight.chunk(3)
    return layer, {"q": q, "k": k, "v": v, "o": layer.out}


def _with_zero_key():
    layer = nn.MultiheadAttention(32, 4, add_zero_attn=True)
    linears = [nn.Linear(32, 32) for _ in range(3)]
    for linear, weight, bias in zip(linears, layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True):
        linear.weight.data, linear.bias.data = weight.data, bias.data
    return layer, {**dict(zip("qkv", linears, strict=True)), "o": layer.out_proj}


def _flat():
    layer = NotScaled(32, 4)
    for linear in (layer.W_q, layer.W_k):
        linear.weight.data *= 0.05
    return layer, projections(layer)


def _with_projections(layer):
    return layer, projections(layer)


REMARKABLE = {
    "needs-mask": lambda: (NeedsMask(32, 4), None),
    "output-width": lambda: (nn.Sequential(MultiHeadAttention(32, 4), nn.Linear(32, 8)), None),
    "causal": lambda: (GPT(32, 4), None),
    "window": lambda: (CausalWindow(32, 4), None),
    "blind-spots": lambda: (HidesOnePair(32, 4), None),
    "positions": lambda: (PositionsWithoutMask(32, 4), None),
    "mask-rank": lambda: (OneMaskForAll(32, 4), None),
    "several-layers": lambda: (TwoLayers(32, 4), None),
    "length-matters": lambda: (CountsTokens(32, 4), None),
    "empty-row-refused": lambda: (RefusesEmptyRows(32, 4), None),
    "empty-row-nan": lambda: (NaNWhereNothingWasAskedFor(32, 4), None),
    "empty-row-inf": lambda: (adapt(MinusInfinityAdded(32, 4), mask="additive"), None),
    "empty-row-mean": lambda: (Layer(32, 4), None),
    "no-output-projection": lambda: (NoOutputProjection(32, 4), None),
    "shared-projection": lambda: (OneProjectionForAllHeads(32, 4), None),
    "layout": _interleaved,
    "grouped-heads": lambda: _with_projections(MultiHeadAttention(32, 4, num_kv_heads=2)),
    "zero-key": _with_zero_key,
    "no-bias": lambda: _with_projections(MultiHeadAttention(32, 4)),
    "flat-maps": _flat,
    "weights-found": lambda: (layer := Layer(32, 4), layer),
    "unusual-scale": lambda: (NotScaled(32, 4), None),
}

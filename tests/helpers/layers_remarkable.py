"""Layers of which something is worth knowing that is no fault: one for each remark of the doctor.

Each entry of `REMARKABLE` is a code and a function without arguments that returns what `examine` takes, for 32
features and 4 heads.
"""

import torch
from torch import nn

from attention_doctor import adapt
from mhalib import MultiHeadAttention
from tests.helpers.layers_base import Layer
from tests.helpers.layers_healthy import (
    GPT,
    Additive,
    CausalWindow,
    NeedsMask,
    OneMaskForAll,
    PositionsWithoutMask,
    TwoLayers,
)


class RefusesEmptyRows(Layer):
    def forward(self, x, mask=None):
        if mask is not None and not mask.any(-1).all():
            raise ValueError("each query needs a key")
        return super().forward(x, mask)


class MinusInfinityAdded(Additive):
    def weigh(self, scores):
        return scores.softmax(-1)


class NaNWhereNothingWasAskedFor(MultiHeadAttention):
    def forward(self, x, mask=None):
        out = super().forward(x, mask=mask)
        return out if mask is None else out.masked_fill(~mask.any(-1)[..., None], torch.nan)


class InItsWeights(Layer):
    """As in T5: not scaled, the weights hold it."""

    def score(self, q, k):
        return q @ k.mT


class NeverReadsItsMask(MultiHeadAttention):
    def forward(self, x, mask=None):
        return super().forward(x)


REMARKABLE = {
    "mask-unread": lambda: NeverReadsItsMask(32, 4),
    "needs-mask": lambda: NeedsMask(32, 4),
    "output-width": lambda: nn.Sequential(MultiHeadAttention(32, 4), nn.Linear(32, 8)),
    "causal": lambda: GPT(32, 4),
    "window": lambda: CausalWindow(32, 4),
    "positions": lambda: PositionsWithoutMask(32, 4),
    "mask-rank": lambda: OneMaskForAll(32, 4),
    "several-layers": lambda: TwoLayers(32, 4),
    "empty-row-refused": lambda: RefusesEmptyRows(32, 4),
    "empty-row-nan": lambda: NaNWhereNothingWasAskedFor(32, 4),
    "empty-row-inf": lambda: adapt(MinusInfinityAdded(32, 4), mask="additive"),
    "empty-row-mean": lambda: Layer(32, 4),
    "grouped-heads": lambda: MultiHeadAttention(32, 4, num_kv_heads=2),
    "unusual-scale": lambda: InItsWeights(32, 4),
}

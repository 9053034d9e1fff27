"""Kinds of mistakes that leave no trace in a single answer: heads counted, calls compared, lengths cut too late."""

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.doctor import adapt, examine
from tests.helpers.examined import made
from tests.helpers.layers_base import KeyMask, Layer, over_keys, over_lengths
from tests.helpers.layers_healthy import GPT, HEALTHY, Additive, Fused, PostNormBlock, Rotary, Sink
from tests.helpers.layers_sick_masks import SICK

# --------------------------------------------------------------------------------------------------------------- heads


@pytest.mark.parametrize("num_heads", [1, 2, 8])
@pytest.mark.parametrize("kind", [Layer, Rotary, GPT, MultiHeadAttention])
def test_heads_are_counted(kind, num_heads):
    heads = examine(kind(32, num_heads), 32, num_heads).heads
    assert (heads.stated, heads.counted) == (num_heads, num_heads)
    assert len(heads.sizes) == num_heads + 1 and heads.sizes[-1] < 1e-12 < heads.sizes[-2]
    assert f"{num_heads} counted (singular values 1" in str(heads)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (PostNormBlock, "a norm"),
        (Sink, "a sink"),
        (HEALTHY["AbsolutePositions"], "it knows its places"),
        (lambda d, h: Layer(d, d), ""),  # as many heads as features: all directions are taken
    ],
)
def test_why_heads_cannot_be_counted_is_said(make, why):
    report = examine(make(16, 4), 16, 16 if not why else 4)
    assert report.ok and report.heads.counted is None and why in report.heads.why
    assert f"number of heads: {report.heads.why}" in report.not_examined


@pytest.mark.parametrize("factor", [1, 6, 20])
def test_another_number_of_heads_is_found(factor):
    layer = made(Layer, 32, 8, factor)
    (finding,) = examine(layer, 32, 4).findings
    assert finding.code == "heads-unused" and "4 heads stated, 8 counted" in finding.evidence


def test_the_silent_head_is_named():
    (finding,) = examine(SICK["HeadSilenced"].make(32, 4), 32, 4).findings
    assert "head 2 (rows 16–23 of W_q, rows 16–23 of W_k, rows 16–23 of W_v, columns 16–23 of W_o)" in finding.evidence
    layer = Layer(32, 4)  # two heads that write the same: each has its gradient
    for W in (layer.W_q, layer.W_k):
        W.weight.data[8:16] = W.weight.data[:8]
    (finding,) = examine(layer, 32, 4).findings
    assert "3 counted" in finding.evidence and "silent, or twins" in finding.evidence


# --------------------------------------------------------------------------------------------------------------- calls


@pytest.mark.parametrize(
    ("name", "between"),
    [
        ("KeysKeptWhereTheSizesAgree", "other tokens"),
        ("KeysKeptForEachSize", "a batch of another size"),
        ("BufferEditedInPlace", "masks (single key, length, keys)"),
    ],
)
def test_what_was_called_in_between_is_said(name, between):
    (finding,) = examine(SICK[name].make(32, 4), 32, 4).findings
    assert finding.code == "not-deterministic" and f"the same call again after calls with {between}" in finding.evidence


def test_lengths_cut_one_too_far_are_named():
    (finding,) = examine(over_lengths(KeyMask(32, 4), too_far=1), 32, 4).findings
    assert finding.code == "mask-leaks"
    assert "the key just at the length" in finding.evidence and "`arange <= length`" in finding.evidence
    (finding,) = examine(over_lengths(KeyMask(32, 4), too_far=2), 32, 4).findings
    assert finding.code == "mask-leaks" and "just at the length" not in finding.evidence


# ------------------------------------------------------------------------------------------------ no key for a query


def test_nan_that_stays_is_told_from_nan_that_spreads():
    class Spreads(MultiHeadAttention):
        def forward(self, x, mask=None):
            out = super().forward(x, mask=mask)
            return out if mask is None or mask.any(-1).all() else out * torch.nan

    assert examine(Spreads(32, 4), 32, 4).codes == ["nan-on-empty-row"]
    for layer in (nn.MultiheadAttention(32, 4, batch_first=True), Fused(32, 4), over_keys(KeyMask(32, 4))):
        assert examine(layer, 32, 4).ok
    assert "nan-on-empty-row" in examine(SICK["MinusInfinity"].make(32, 4), 32, 4).codes
    assert examine(adapt(Additive(32, 4), mask="additive"), 32, 4).ok


# ----------------------------------------------------------------------------------------------------------- healthy

"""What the doctor counts and compares: heads, scales, projections found in every layout, parameters of no use."""

import pytest
import torch
from torch import nn

from attention_doctor import adapt, examine
from mhalib import MultiHeadAttention
from tests.helpers.examined import made
from tests.helpers.layers_base import KeyMask, Layer, over_keys, over_lengths, projections
from tests.helpers.layers_healthy import GPT, HEALTHY, Additive, Fused, PostNormBlock, QKNorm, Rotary, Sink
from tests.helpers.layers_sick_masks import SICK
from tests.helpers.layers_weights import GROUPED, LAYOUTS, FusedBlocks

# --------------------------------------------------------------------------------------------------------------- heads


class SilentInAStack(FusedBlocks):
    def mix(self, q, k, v, mask):
        merged = super().mix(q, k, v, mask)
        return torch.cat([merged[..., :16], 0 * merged[..., 16:24], merged[..., 24:]], -1)


@pytest.mark.parametrize("kind", [Layer, Rotary, GPT, MultiHeadAttention])
def test_heads_are_counted(kind):
    for num_heads in (1, 2, 8):
        heads = examine(kind(32, num_heads), 32, num_heads).heads
        assert (heads.stated, heads.counted) == (num_heads, num_heads)
        assert len(heads.sizes) == num_heads + 1 and heads.sizes[-1] < 1e-12 < heads.sizes[-2]


def test_why_heads_cannot_be_counted_is_said():
    for make, why in (
        (PostNormBlock, "a norm"),
        (Sink, "a sink"),
        (HEALTHY["AbsolutePositions"], "it knows its places"),
        (lambda d, h: Layer(d, d), ""),  # as many heads as features: all directions are taken
    ):
        report = examine(make(16, 4), 16, 16 if not why else 4)
        assert report.ok and report.heads.counted is None and why in report.heads.why
        assert f"number of heads: {report.heads.why}" in report.not_examined


def test_another_number_of_heads_is_found_and_a_silent_one_is_named():
    for factor in (1, 6, 20):
        (finding,) = examine(made(Layer, 32, 8, factor), 32, 4).findings
        assert finding.code == "heads-unused" and "4 heads stated, 8 counted" in finding.evidence
    (finding,) = examine(SICK["HeadSilenced"].make(32, 4), 32, 4).findings
    assert "head 2 (rows 16–23 of W_q, rows 16–23 of W_k, rows 16–23 of W_v, columns 16–23 of W_o)" in finding.evidence
    (finding,) = examine(SilentInAStack(), 32, 4).findings
    assert "head 2 (rows 16–23 of fused.qkv, rows 48–55 of fused.qkv, rows 80–87 of fused.qkv" in finding.evidence
    layer = Layer(32, 4)  # two heads that write the same: each has its gradient
    for W in (layer.W_q, layer.W_k):
        W.weight.data[8:16] = W.weight.data[:8]
    (finding,) = examine(layer, 32, 4).findings
    assert "3 counted" in finding.evidence and "silent, or twins" in finding.evidence


# --------------------------------------------------------------------------------------------------------------- calls


def test_what_was_called_in_between_is_said():
    for name, between in {
        "KeysKeptWhereTheSizesAgree": "other tokens",
        "KeysKeptForEachSize": "a batch of another size",
        "BufferEditedInPlace": "masks (single key, length, keys)",
    }.items():
        (finding,) = examine(SICK[name].make(32, 4), 32, 4).findings
        assert finding.code == "not-deterministic"
        assert f"the same call again after calls with {between}" in finding.evidence


def test_lengths_cut_one_too_far_are_named():
    for too_far in (1, 2):
        (finding,) = examine(over_lengths(KeyMask(32, 4), too_far=too_far), 32, 4).findings
        assert finding.code == "mask-leaks" and ("`arange <= length`" in finding.evidence) == (too_far == 1)


def test_nan_that_stays_is_told_from_nan_that_spreads_and_hides_nothing_else():
    class Spreads(MultiHeadAttention):
        def forward(self, x, mask=None):
            out = super().forward(x, mask=mask)
            return out if mask is None or mask.any(-1).all() else out * torch.nan

    class NaNRows(Layer):
        def score(self, q, k):
            return q @ k.mT / self.d_model**0.5

        def hide(self, scores, mask):
            return scores if mask is None else scores.masked_fill(~self.axes(mask), -torch.inf)

    assert examine(Spreads(32, 4), 32, 4).codes == ["nan-on-empty-row"]
    for layer in (nn.MultiheadAttention(32, 4, batch_first=True), Fused(32, 4), over_keys(KeyMask(32, 4))):
        assert examine(layer, 32, 4).ok
    assert examine(adapt(Additive(32, 4), mask="additive"), 32, 4).ok
    layer = NaNRows(32, 4)
    assert examine(layer, 32, 4, weights=projections(layer)).codes == ["nan-on-empty-row", "wrong-scale"]


# ------------------------------------------------------------------------------------------------- scale and weights


class WithBiases(Layer):
    bias = True

    def __init__(self, d_model=32, num_heads=4):
        super().__init__(d_model, num_heads)


class ByDModel(WithBiases):
    def score(self, q, k):
        return q @ k.mT / self.d_model**0.5


class ByAnotherNumber(WithBiases):
    def score(self, q, k):
        return 0.3 * q @ k.mT


class ByTokens(WithBiases):
    def score(self, q, k):
        return q @ k.mT / k.shape[-2] ** 0.5


class AfterTheSoftmax(WithBiases):
    def attend(self, q, k, v, mask):
        return self.hide(q @ k.mT, mask).softmax(-1) @ v / self.hd**0.5


class OneHead(WithBiases):
    def __init__(self, d_model=32, num_heads=4):
        super().__init__(d_model, 1)


class Unscaled(WithBiases):
    def score(self, q, k):
        return q @ k.mT


class ByHeadDim(WithBiases):
    def score(self, q, k):
        return q @ k.mT / self.hd


class ScaledTwice(WithBiases):
    def score(self, q, k):
        q = q / self.hd**0.5
        return q @ k.mT / self.hd**0.5  # scores are divided by sqrt(head_dim)


def matrices(layer):
    """Return the projections of a layer without their biases."""
    return {name: linear.weight for name, linear in projections(layer).items()}


@pytest.mark.parametrize("factor", [1, 6])
def test_matrices_without_biases_are_enough_and_make_no_healthy_layer_ill(factor):
    for kind in (WithBiases, Rotary, QKNorm):
        layer, other = (made(lambda d, h, kind=kind: kind(d, h), 32, 4, factor, seed) for seed in (0, 1))
        for weights in (matrices(layer), matrices(other)):
            assert (report := examine(layer, 32, 4, weights=weights)).ok, report
    for kind, code, words in (
        (ByDModel, "wrong-scale", "1/sqrt(d_model) = 0.1768"),
        (ByAnotherNumber, "wrong-scale", "the scale 0.3,"),
        (ByTokens, "wrong-scale", "1/sqrt(T)"),
        (AfterTheSoftmax, "wrong-scale", "after the softmax"),
        (OneHead, "heads-unused", "4 heads stated, 1 counted"),
    ):
        layer = made(kind, 32, 4, factor, factor)
        (finding,) = examine(layer, 32, 4, weights=matrices(layer)).findings
        assert finding.code == code and words in finding.evidence


def test_the_matrix_of_another_layer_is_named_and_is_no_finding():
    for wrong, words in {
        "q": "v and o fit with 4 heads; k fits, q does not",
        "k": "v and o fit with 4 heads; q fits, k does not",
        "v": "o fits with 4 heads, v does not",
        "o": "v fits with 4 heads, o does not",
    }.items():
        layer, other = WithBiases(), WithBiases()
        report = examine(layer, 32, 4, weights={**matrices(layer), wrong: matrices(other)[wrong]})
        assert report.ok and words in " ".join(report.not_examined)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_projections_are_found_in_every_layout(kind):
    for bias, factor in ((True, 20), (False, 6)):
        layer = made(lambda d, h, bias=bias: kind(bias).eval(), 32, 4, factor, factor)
        report = examine(layer, 32, 4, weights=layer)
        (found,) = [remark for remark in report.remarks if remark.code == "weights-found"]
        assert report.ok and "q" in found.text and "v" in found.text, report


@pytest.mark.parametrize("kind", GROUPED)
def test_projections_of_shared_heads_are_found(kind):
    for num_kv_heads in (1, 2):
        layer = kind(num_kv_heads=num_kv_heads).eval()
        assert {"weights-found", "grouped-heads"} <= {r.code for r in examine(layer, 32, 4, weights=layer).remarks}


def test_a_scale_that_may_be_meant_is_a_remark_and_one_against_its_own_words_a_finding():
    for kind in (Unscaled, ByHeadDim):
        layer = kind()
        report = examine(layer, 32, 4)
        assert report.ok and "unusual-scale" in [remark.code for remark in report.remarks]
        assert examine(layer, 32, 4, weights=layer).codes == ["wrong-scale"]
    assert examine(ScaledTwice(), 32, 4).codes == ["wrong-scale"]


# ----------------------------------------------------------------------------------------------------- parameters


class AndMore(WithBiases):
    """A method of it is the layer; the rest is somebody else's."""

    def __init__(self):
        super().__init__()
        self.mlp, self.gain = nn.Linear(32, 128), nn.Parameter(torch.ones(3))

    def attend_only(self, x, mask=None):
        return Layer.forward(self, x, mask)

    def forward(self, x):
        return self.mlp(x)


class ForAContextToo(WithBiases):
    def __init__(self):
        super().__init__()
        self.k_cross = nn.Linear(32, 32)

    def forward(self, x, mask=None, context=None):
        return super().forward(x, mask) if context is None else self.W_o(self.k_cross(context))


class ForTrainingToo(WithBiases):
    def __init__(self):
        super().__init__()
        self.aux = nn.Linear(32, 32)

    def forward(self, x, mask=None):
        return super().forward(x, mask) + (0 * self.aux(x) if self.training else 0)


class WrongSlice(FusedBlocks):
    """The queries' rows make the keys, too."""

    def qkv(self, x):
        q, _, v = super().qkv(x)
        return q, q, v


def test_parameters_with_another_use_are_not_dead():
    assert examine(AndMore().attend_only, 32, 4).ok
    for layer, words in ((ForAContextToo(), "are they for context?"), (ForTrainingToo(), "outside of training")):
        report = examine(layer, 32, 4)
        assert report.ok and words in " ".join(report.not_examined)
    for part in range(3):  # what starts at 0 is no slip, and silences others
        layer = FusedBlocks()
        layer.fused.qkv.weight.data[32 * part : 32 * part + 32] = 0
        assert "dead-parameters" not in examine(layer, 32, 4).codes


def test_a_third_of_a_fused_projection_that_nobody_uses_is_dead():
    (finding,) = examine(WrongSlice(), 32, 4).findings
    assert finding.code == "dead-parameters" and "rows 32–63 of fused.qkv.weight" in finding.evidence

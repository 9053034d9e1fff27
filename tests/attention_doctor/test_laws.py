"""What the doctor counts and compares: heads, scales, projections found in every layout, parameters of no use."""

import pytest
import torch
from torch import nn

from attention_doctor import adapt, examine
from mhalib import MultiHeadAttention
from tests.helpers.examined import made
from tests.helpers.layers_base import KeyMask, Layer, over_keys, over_lengths, varied
from tests.helpers.layers_healthy import GPT, Additive, Fused, PostNormBlock, QKNorm, Rotary, Sink
from tests.helpers.layers_sick_masks import SICK
from tests.helpers.layers_weights import GROUPED, LAYOUTS, FusedBlocks

# --------------------------------------------------------------------------------------------------------------- heads


class SilentInAStack(FusedBlocks):
    def mix(self, q, k, v, mask):
        merged = super().mix(q, k, v, mask)
        return torch.cat([merged[..., :16], 0 * merged[..., 16:24], merged[..., 24:]], -1)


@pytest.mark.parametrize("kind", [Layer, Rotary, GPT, MultiHeadAttention, PostNormBlock, Sink])
def test_heads_are_counted(kind):
    for num_heads in (1, 2, 8):
        heads = examine(kind(32, num_heads), 32, num_heads).heads
        assert (heads.stated, heads.counted) == (num_heads, num_heads)


def test_another_number_of_heads_is_found_and_a_silent_one_is_named():
    for factor in (1, 6, 20):
        (finding,) = examine(made(Layer, 32, 8, factor), 32, 4).findings
        assert finding.code == "heads-unused" and "4 heads stated, 8 seen" in finding.evidence
    for layer in (SICK["HeadSilenced"].make(32, 4), SilentInAStack()):
        (finding,) = examine(layer, 32, 4).findings
        assert finding.code == "heads-unused" and "(map 2 first) reaches no output" in finding.evidence
    layer = Layer(32, 4)  # two heads that look alike: each has its gradient
    for W in (layer.W_q, layer.W_k):
        W.weight.data[8:16] = W.weight.data[:8]
    (finding,) = examine(layer, 32, 4).findings
    assert "heads 0 and 1 of 4 have the same map" in finding.evidence


# --------------------------------------------------------------------------------------------------------------- calls


def test_what_was_called_in_between_is_said():
    for name, between in {
        "KeysKeptWhereTheSizesAgree": "other tokens",
        "KeysKeptForEachSize": "other tokens",
        "BufferEditedInPlace": "masks",
    }.items():
        (finding,) = examine(SICK[name].make(32, 4), 32, 4).findings
        assert finding.code == "not-deterministic"
        assert f"a call after calls with {between}, and the same call of a fresh copy" in finding.evidence


def test_lengths_cut_one_too_far_are_named():
    for too_far in (1, 2):
        (finding,) = examine(over_lengths(KeyMask(32, 4), too_far=too_far), 32, 4).findings
        assert finding.code == "mask-leaks" and ("`arange <= length`" in finding.evidence) == (too_far == 1)


def test_nan_that_stays_is_told_from_nan_that_spreads_and_hides_nothing_else():
    class Spreads(MultiHeadAttention):
        def forward(self, x, mask=None):
            out = super().forward(x, mask=mask)
            return out if mask is None or mask.any(-1).all() else out * torch.nan

    wrong = varied("NaNRows", never=-torch.inf, score=lambda self, q, k: q @ k.mT / self.d_model**0.5)
    assert examine(Spreads(32, 4), 32, 4).codes == ["nan-on-empty-row"]
    for layer in (nn.MultiheadAttention(32, 4, batch_first=True), Fused(32, 4), over_keys(KeyMask(32, 4))):
        assert examine(layer, 32, 4).ok
    assert examine(adapt(Additive(32, 4), mask="additive"), 32, 4).ok
    assert examine(wrong(32, 4), 32, 4).codes == ["wrong-scale"]  # of the two, the first that is seen


# ------------------------------------------------------------------------------------------------- scale and weights


class WithBiases(Layer):
    bias = True

    def __init__(self, d_model=32, num_heads=4):
        super().__init__(d_model, num_heads)


ByDModel = varied("ByDModel", WithBiases, score=lambda self, q, k: q @ k.mT / self.d_model**0.5)
ByAnotherNumber = varied("ByAnotherNumber", WithBiases, score=lambda self, q, k: 0.3 * q @ k.mT)
ByTokens = varied("ByTokens", WithBiases, score=lambda self, q, k: q @ k.mT / k.shape[-2] ** 0.5)
ByHeadDim = varied("ByHeadDim", WithBiases, score=lambda self, q, k: q @ k.mT / self.hd)


class AfterTheSoftmax(WithBiases):
    def attend(self, q, k, v, mask):
        return self.hide(self.score(q, k), mask).softmax(-1) / self.hd**0.5 @ v


class NormOnValues(WithBiases):
    def qkv(self, x):
        q, k, v = super().qkv(x)
        return q, nn.functional.normalize(k, dim=-1), nn.functional.normalize(v, dim=-1)


class ScaledTwice(WithBiases):
    def score(self, q, k):
        q = q / self.hd**0.5
        return q @ k.mT / self.hd**0.5  # scores are divided by sqrt(head_dim)


class OfT5(WithBiases):
    """As in T5, whose weights hold the scale: scores are not scaled."""

    def score(self, q, k):
        return q @ k.mT


SLOW = pytest.mark.slow
DTYPES = torch.float32, torch.float64
QUICK = [(1, torch.float32), (20, torch.float64)]
REST = [pytest.param(f, dtype, marks=SLOW) for f in (1, 6, 20) for dtype in DTYPES if (f, dtype) not in QUICK]


@pytest.mark.parametrize(("factor", "dtype"), [*QUICK, *REST])
def test_a_wrong_scale_is_found_with_its_number_without_being_told_a_weight(factor, dtype):
    for kind in (WithBiases, Rotary, QKNorm, OfT5):
        layer = made(lambda d, h, kind=kind: kind(d, h), 32, 4, factor).to(dtype)
        assert (report := examine(layer, 32, 4)).ok, report
    for kind, words in (
        (ByDModel, "q·k times 0.1768; 1/√8 is 0.3536. It is 1/√d_model, √32"),
        (ByAnotherNumber, "q·k times 0.3;"),
        (ByTokens, "1/√T"),
        (ByHeadDim, "1/head_dim"),
        (ScaledTwice, "times 0.125"),
        (AfterTheSoftmax, "behind the softmax"),
        (NormOnValues, "keys and values are normed, and queries are not"),
    ):
        (finding,) = examine(made(kind, 32, 4, factor, factor).to(dtype), 32, 4).findings
        assert finding.code == "wrong-scale" and words in finding.evidence, finding


@pytest.mark.parametrize("kind", LAYOUTS)
def test_no_layout_of_projections_is_accused(kind):
    for bias, factor in ((True, 20), (False, 6)):
        report = examine(made(lambda d, h, bias=bias: kind(bias).eval(), 32, 4, factor, factor), 32, 4)
        assert report.ok and report.heads.counted == 4, report


@pytest.mark.parametrize("kind", GROUPED)
def test_shared_heads_are_remarked(kind):
    for num_kv_heads in (1, 2):
        report = examine(kind(num_kv_heads=num_kv_heads).eval(), 32, 4)
        assert report.ok and f"share {num_kv_heads} of keys" in str(report), report


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
    report = examine(ForAContextToo(), 32, 4)  # with the context they are reached
    assert report.ok and "dead parameters: " not in " ".join(report.not_examined)
    report = examine(ForTrainingToo(), 32, 4)
    assert report.ok and "dead parameters: " in " ".join(report.not_examined)
    for part in range(3):  # what starts at 0 is no slip, and silences others
        layer = FusedBlocks()
        layer.fused.qkv.weight.data[32 * part : 32 * part + 32] = 0
        assert "dead-parameters" not in examine(layer, 32, 4).codes


def test_a_third_of_a_fused_projection_that_nobody_uses_is_dead():
    (finding,) = examine(WrongSlice(), 32, 4).findings
    assert finding.code == "dead-parameters" and "32 rows of fused.qkv.weight, from row 32 on" in finding.evidence

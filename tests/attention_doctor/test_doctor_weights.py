"""Weights that the doctor looks for himself, and matrices without their biases: what he tells, and what he leaves."""

import pytest
import torch
from torch import nn

from mhalib.doctor import examine
from tests.helpers.layers_base import Layer, projections
from tests.helpers.layers_healthy import QKNorm, Rotary
from tests.helpers.layers_weights import GROUPED, LAYOUTS, FusedBlocks

FACTORS = (1, 6)


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


class ScaledTwice(WithBiases):
    def score(self, q, k):
        q = q / self.hd**0.5
        return q @ k.mT / self.hd**0.5  # scores are divided by sqrt(head_dim)


class ByHeadDim(WithBiases):
    def score(self, q, k):
        return q @ k.mT / self.hd


def times(layer, factor):
    for parameter in layer.parameters():
        parameter.data *= factor
    return layer


def matrices(layer):
    return {name: linear.weight for name, linear in projections(layer).items() if isinstance(linear, nn.Linear)}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("kind", [WithBiases, Rotary, QKNorm])
def test_matrices_without_biases_make_no_healthy_layer_ill(kind, factor):
    report = examine(times(kind(32, 4), factor), 32, 4, weights=matrices(kind(32, 4)))
    assert report.ok  # of another layer
    layer = times(kind(32, 4), factor)
    assert examine(layer, 32, 4, weights=matrices(layer)).ok


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (ByDModel, "wrong-scale", "1/sqrt(d_model) = 0.1768"),
        (ByAnotherNumber, "wrong-scale", "the scale 0.3,"),
        (ByTokens, "wrong-scale", "1/sqrt(T)"),
        (AfterTheSoftmax, "wrong-scale", "after the softmax"),
        (OneHead, "heads-unused", "4 heads stated, 1 counted"),
    ],
)
def test_without_the_biases_the_scale_and_the_heads_are_told(kind, code, words, factor):
    torch.manual_seed(factor)
    layer = times(kind(), factor)
    (finding,) = examine(layer, 32, 4, weights=matrices(layer)).findings
    assert finding.code == code and words in finding.evidence


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("q", "v and o fit with 4 heads; k fits, q does not"),
        ("k", "v and o fit with 4 heads; q fits, k does not"),
        ("v", "o fits with 4 heads, v does not"),
        ("o", "v fits with 4 heads, o does not"),
    ],
)
def test_the_matrix_of_another_layer_is_named_and_is_no_finding(wrong, words):
    layer, other = WithBiases(), WithBiases()
    report = examine(layer, 32, 4, weights={**matrices(layer), wrong: matrices(other)[wrong]})
    assert report.ok and words in " ".join(report.not_examined)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_projections_are_found_in_every_layout(kind, bias):
    for factor in (1, 20) if bias else (6,):
        torch.manual_seed(factor)
        layer = times(kind(bias).eval(), factor)
        report = examine(layer, 32, 4, weights=layer)
        assert report.ok, report
        (found,) = [remark for remark in report.remarks if remark.code == "weights-found"]
        assert "q" in found.text and "v" in found.text


@pytest.mark.parametrize("num_kv_heads", [1, 2])
@pytest.mark.parametrize("kind", GROUPED)
def test_projections_of_shared_heads_are_found(kind, num_kv_heads):
    layer = kind(num_kv_heads=num_kv_heads).eval()
    assert {"weights-found", "grouped-heads"} <= {r.code for r in examine(layer, 32, 4, weights=layer).remarks}


def test_a_layer_without_projections_is_refused_with_what_it_has():
    with pytest.raises(ValueError, match=r"found none; its parameters: weight \(5, 32\).*weights="):
        examine(Layer(32, 4), 32, 4, weights=nn.Linear(32, 5))


def test_a_scale_that_may_be_meant_is_a_remark():
    for kind in (Unscaled, ByHeadDim):
        layer = kind()
        report = examine(layer, 32, 4)
        assert report.ok and "unusual-scale" in [remark.code for remark in report.remarks]
        assert examine(layer, 32, 4, weights=layer).codes == ["wrong-scale"]


def test_a_scale_against_the_layers_own_words_is_a_finding():
    assert examine(ScaledTwice(), 32, 4).codes == ["wrong-scale"]


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


def test_parameters_with_another_use_are_not_dead():
    assert examine(AndMore().attend_only, 32, 4).ok
    for layer, words in ((ForAContextToo(), "are they for context?"), (ForTrainingToo(), "outside of training")):
        report = examine(layer, 32, 4)
        assert report.ok and words in " ".join(report.not_examined)


class WrongSlice(FusedBlocks):
    """The queries' rows make the keys, too."""

    def qkv(self, x):
        q, _, v = super().qkv(x)
        return q, q, v


def test_a_third_of_a_fused_projection_that_nobody_uses_is_dead():
    (finding,) = examine(WrongSlice(), 32, 4).findings
    assert finding.code == "dead-parameters" and "rows 32–63 of fused.qkv.weight" in finding.evidence
    for part in range(3):  # what starts at 0 is no slip, and silences others
        layer = FusedBlocks()
        layer.fused.qkv.weight.data[32 * part : 32 * part + 32] = 0
        assert "dead-parameters" not in examine(layer, 32, 4).codes

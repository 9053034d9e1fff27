"""What only an insider sees: the scale, the number of heads and the layout at known weights, and dead parameters."""

import pytest
import torch

from mhalib import MultiHeadAttention, reference
from mhalib.doctor import examine
from tests.helpers.layers_base import projections
from tests.helpers.layers_sick import OutputProjectionUnused, ScaledByTheWholeWidth


def test_with_weights_the_scale_is_named():
    layer = ScaledByTheWholeWidth(32, 4)
    assert examine(lambda x, mask=None: layer(x, mask), 32, 4).ok  # from outside it cannot be seen
    (finding,) = examine(layer, 32, 4, weights=projections(layer)).findings
    assert finding.code == "wrong-scale" and "1/sqrt(d_model) = 0.1768" in finding.evidence


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"num_kv_heads": 2}, {"num_kv_heads": 1}])
def test_with_weights_a_healthy_layer_stays_healthy(options):
    layer = MultiHeadAttention(32, 4, **options)
    for factor in (1, 5):
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter *= factor
        report = examine(layer, 32, 4, weights=projections(layer))
        assert report.ok and report.not_examined == []
        assert ("grouped-heads" in [r.code for r in report.remarks]) == ("num_kv_heads" in options)


def test_with_weights_the_layout_is_a_remark():
    layer = reference.InterleavedAttention(32, 32, 4)
    q, k, v = layer.qkv.weight.chunk(3)
    report = examine(layer, 32, 4, weights={"q": q, "k": k, "v": v, "o": layer.out})
    assert report.ok and [r.code for r in report.remarks][:1] == ["layout"]


def test_weights_that_do_not_explain_the_layer_are_no_finding():
    layer, other = MultiHeadAttention(32, 4), MultiHeadAttention(32, 4)
    report = examine(layer, 32, 4, weights=projections(other))
    assert report.ok and "no known way" in " ".join(report.not_examined)


def test_dead_parameters_are_named():
    (finding,) = examine(OutputProjectionUnused(32, 4), 32, 4).findings
    assert "W_o.weight" in finding.evidence

"""The report: what it says in words, as a table and as an error, and that each code has its entry in the catalogue."""

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention, reference
from mhalib.doctor import Report, adapt, examine
from tests.helpers.layers_base import Layer, projections
from tests.helpers.layers_healthy import GPT, CausalWindow, TwoLayers
from tests.helpers.layers_sick_masks import MaskInverted


def test_a_finding_says_what_was_seen_and_what_to_know():
    report = examine(MaskInverted(32, 4), 32, 4)
    (finding,) = report.findings
    assert (finding.code, report.ok) == ("mask-inverted", False)
    assert any(c.isdigit() for c in finding.evidence) and "Notebook 04" in finding.lesson
    for part in (finding.code, finding.title, finding.evidence, finding.lesson):
        assert part in str(report)


def test_raise_for_findings_is_an_assertion_with_the_whole_report():
    examine(Layer(32, 4), 32, 4).raise_for_findings()
    with pytest.raises(AssertionError, match="mask-inverted"):
        examine(MaskInverted(32, 4), 32, 4).raise_for_findings()


def test_the_table_is_escaped():
    report = Report("<b>layer</b>")
    report.find("crash", "<script>alert(1)</script>")
    report.remark("window", "<i>")
    report.skip("masks", "<u>")
    html = report._repr_html_()
    for raw in ("<script", "<i>", "<u>", "<b>layer"):
        assert raw not in html
    assert "&lt;script&gt;" in html and "crash" in html


@pytest.mark.parametrize(("number", "word"), [(torch.inf, "up to infinity"), (torch.nan, "up to NaN")])
def test_infinity_is_told_from_nan(number, word):
    layer, calls = Layer(32, 4), []

    def attend(x, mask=None):
        calls.append(1)
        return layer(x, mask) + (number if len(calls) == 3 else 0)

    (finding,) = examine(adapt(attend, mask_name="mask"), 32, 4).findings
    assert finding.code == "not-deterministic" and word in finding.evidence


def test_what_could_not_be_examined_is_said():
    def said(attend, **options):
        return " ".join(examine(attend, 32, 4, **options).not_examined)

    layer = Layer(32, 4)
    assert "weights=" in said(lambda x, mask=None: layer(x, mask))  # without a module nobody can look for them
    assert "weights=" not in said(layer) and "weights=" not in said(layer, weights=projections(layer))
    assert "dead parameters" in said(lambda x, mask=None: layer(x, mask))
    assert "dead parameters" not in said(lambda x, mask=None: layer(x, mask), module=layer)
    assert "masks: the layer takes none" in said(GPT(32, 4))
    assert "masks other than lengths" in said(adapt(reference.to_d2l(MultiHeadAttention(32, 4)), "d2l"))
    assert "from sample to sample" in said(adapt(layer, mask_rank=2))
    assert "6 tokens" not in said(GPT(32, 4, longest=5)) and "a longest T?" in said(GPT(32, 4, longest=5))
    assert "sequences of 5 tokens" in said(GPT(32, 4, longest=4))


def test_matters_of_taste_are_remarks():
    def remarks(attend, **options):
        return {remark.code for remark in examine(attend, 32, 4, **options).remarks}

    assert "empty-row-mean" in remarks(Layer(32, 4))
    assert "causal" in remarks(GPT(32, 4))
    assert "output-width" in remarks(nn.Sequential(MultiHeadAttention(32, 4), nn.Linear(32, 8)))
    assert not examine(MultiHeadAttention(32, 4), 32, 4).remarks


def test_a_stack_of_layers_and_a_window_are_named():
    def remarks(attend):
        return {remark.code for remark in examine(attend, 32, 4).remarks}

    assert "several-layers" in remarks(TwoLayers(32, 4))
    assert "window" in remarks(CausalWindow(32, 4)) & remarks(adapt(CausalWindow(32, 4), causal=True))


def test_a_layer_that_runs_at_one_length_only_crashes_at_the_others():
    layer = Layer(32, 4)
    (finding,) = examine(lambda x: layer(x + torch.zeros(6, 32)), 32, 4).findings
    assert finding.code == "crash" and "it runs with 6 tokens" in finding.evidence


def test_weights_taken_for_the_output_are_noticed():
    layer = Layer(32, 4)

    def attend(x, mask=None):
        return torch.ones(len(x), x.shape[1], x.shape[1]), layer(x, mask)

    (finding,) = examine(adapt(attend, mask_name="mask"), 32, 4).findings
    assert finding.code == "shape" and "adapt(..., output=1)" in finding.evidence
    assert examine(adapt(attend, mask_name="mask", output=1), 32, 4).ok

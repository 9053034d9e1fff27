"""What people run into who examine a layer of their own: no false alarm, and a remedy that fits what was seen."""

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.doctor import CATALOGUE, adapt, examine
from mhalib.doctor.__main__ import main
from mhalib.widgets import HeadView
from tests.helpers.layers_base import projections


class Additive(nn.Module):
    """Adds its mask to the scores, with an axis for the heads, as transformers does."""

    def __init__(self, d_model=32, num_heads=4):
        super().__init__()
        self.layer = MultiHeadAttention(d_model, num_heads)

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        q, k, v = (
            W(hidden_states).unflatten(-1, (4, 8)).transpose(1, 2)
            for W in (self.layer.W_q, self.layer.W_k, self.layer.W_v)
        )
        scores = q @ k.mT / 8**0.5 + (0 if attention_mask is None else attention_mask)
        return self.layer.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_the_advice_for_transformers_leads_to_no_false_alarm():
    with pytest.raises(TypeError, match=r"'additive' \(in transformers with mask_rank=4\)"):
        adapt(Additive())
    assert examine(Additive(), 32, 4).called_as == (
        "adapt(layer, mask='additive', mask_rank=4, mask_name='attention_mask')"
    )
    report = examine(adapt(Additive(), mask_name="attention_mask", mask="additive", mask_rank=4), 32, 4)
    assert report.ok, report
    assert [remark.code for remark in report.remarks if "row" in remark.code] == ["empty-row-inf"]


def zero_output(layer):
    nn.init.zeros_(layer.W_o.weight)
    return layer


@pytest.mark.parametrize("residual", [False, True])
def test_a_layer_that_starts_with_a_zero_is_told_so(residual):
    layer = zero_output(MultiHeadAttention(32, 4))
    (finding,) = examine(lambda x, mask=None: layer(x, mask=mask) + (x if residual else 0), 32, 4).findings
    assert finding.code == "no-mixing"
    assert ("its own token, unchanged" if residual else "no output moved") in finding.evidence
    assert "is W_o or a gate zero" in finding.evidence and "and no other" not in finding.evidence


def test_a_layer_that_mixes_nothing_is_told_what_moved():
    linear = nn.Linear(32, 32)
    (finding,) = examine(lambda x, mask=None: linear(x), 32, 4).findings
    assert "each moved its own output and no other" in finding.evidence and "zero" not in finding.evidence


class NaNRows(MultiHeadAttention):
    """The scale of another layer, and NaN where a query sees no key."""

    def forward(self, x, mask=None):
        """mask is (T, T) or (B, T, T), True = may attend."""
        q, k, v = (W(x).unflatten(-1, (4, 8)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        scores = q @ k.mT / 32**0.5
        if mask is not None:
            mask = mask if mask.ndim == 2 else mask[:, None]
            scores = scores.masked_fill(~mask, -torch.inf)
        return self.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_rows_of_nan_do_not_hide_a_wrong_scale():
    layer = NaNRows(32, 4)
    assert examine(layer, 32, 4, weights=projections(layer)).codes == ["nan-on-empty-row", "wrong-scale"]


def test_weights_for_another_number_of_features_are_refused():
    wide = MultiHeadAttention(32, 4, head_dim=16)
    with pytest.raises(ValueError, match=r"has 64 rows, where num_heads \* head_dim = 4 \* 8 = 32; give head_dim"):
        examine(wide, 32, 4, weights=projections(wide))
    assert examine(wide, 32, 4, head_dim=16, weights=projections(wide)).ok


def test_coarse_numbers_are_no_reason_to_suspect_a_norm():
    layer = MultiHeadAttention(32, 4).bfloat16()
    skipped = " ".join(examine(layer, 32, 4, weights=projections(layer)).not_examined)
    assert "the rounding of torch.bfloat16, then examine layer.float()" in skipped and "0%" not in skipped


def test_missing_weights_of_o_are_named():
    layer = MultiHeadAttention(32, 4)
    skipped = " ".join(
        examine(layer, 32, 4, weights={k: v for k, v in projections(layer).items() if k != "o"}).not_examined
    )
    assert "the weights of o?" in skipped


@pytest.mark.parametrize(
    ("code", "option"),
    [
        ("mixes-samples", "batch_first=False"),
        ("mask-inverted", "mask='blocked'"),
        ("mask-leaks", "mask='additive'"),
        ("shape", "output=1"),
    ],
)
def test_what_may_be_meant_so_names_the_option_that_says_it(code, option):
    assert f"adapt(layer, {option})" in CATALOGUE[code].lesson


FACTORIES = """
from mhalib import MultiHeadAttention
from mhalib.doctor import adapt

layer = MultiHeadAttention(32, 4)
def adapted(): return adapt(layer)
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["own_layers:layer"], "is a layer already; give a function that returns it, def make_layer(): return layer"),
        (["own_layers:adapted", "--mask", "blocked"], "leave out the options for that"),
        (["own_layers:adapted", "--time-first"], "leave out the options for that"),
    ],
)
def test_the_command_line_refuses_what_it_would_not_heed(tmp_path, monkeypatch, capsys, arguments, said):
    (tmp_path / "own_layers.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)
    assert main([*arguments, "--d-model", "32", "--num-heads", "4"]) == 2
    assert said in capsys.readouterr().err
    assert main(["own_layers:adapted", "--d-model", "32", "--num-heads", "4"]) == 0


@pytest.mark.parametrize(
    ("axes", "said"), [((0, 2, 1), "over axis -2 they do sum to 1"), ((2, 0, 1), "over axis -3 they do sum to 1")]
)
def test_a_view_names_the_axis_over_which_weights_sum_to_1(axes, said):
    weights = torch.randn(3, 5, 7).softmax(-1).permute(axes)
    with pytest.raises(ValueError, match=said):
        HeadView(weights)
    with pytest.raises(ValueError, match="apply softmax"):
        HeadView(torch.randn(3, 5, 7))

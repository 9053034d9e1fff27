"""What people run into who examine a layer of their own: no false alarm, and a remedy that fits what was seen."""

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.doctor import CATALOGUE, adapt, examine
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

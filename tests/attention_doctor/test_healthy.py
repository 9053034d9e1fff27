"""The doctor over healthy layers, also remarkable, sharp, wide, coarse ones: a false alarm is worse than a miss."""

import pytest
import torch
from torch import nn

from attention_doctor import examine
from mhalib import MultiHeadAttention
from tests.helpers.examined import CASES, HEALTHY, USUAL, false_alarms, made, of_healthy
from tests.helpers.layers_base import Layer


def test_nothing_is_found_in_every_third_healthy_layer():
    """The rest, in all sizes, is for `make test-all`."""
    assert false_alarms([*HEALTHY][::3], [USUAL]) == []


def test_nothing_is_found_where_sizes_coincide_or_maps_are_sharp():
    assert false_alarms([*HEALTHY][1::20], [(15, 3, 5), (16, 4, 20)]) == []
    assert false_alarms(["Layer", "CausalAndMasked"], [(16, 1, 6), (16, 16, 6)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_nothing_is_found_in_a_healthy_layer_of_any_size_and_sharpness(part):
    assert false_alarms([*HEALTHY][part::8], [*CASES, (24, 8, 6), (16, 1, 20)], seeds=(0, 1)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "case", "seed"),
    [  # each was accused once, by chance: where a mask takes the key away that outshone all others, one of little use
        ("AbsolutePositions", (24, 3, 20), 15),
        ("PreNormBlock", (16, 1, 20), 26),
        ("LargeBiasesWithoutMask", (16, 1, 20), 14),
        ("TwoLayers", (16, 1, 20), 14),
        ("CausalAndMasked", (16, 1, 20), 35),
        ("BiasForEachDistance", (32, 4, 20), 37),
        ("BiasForEachDistance", (16, 1, 6), 40),
        ("NeedsMask", (16, 1, 20), 1),
        ("Sink", (16, 1, 20), 0),
        ("Sink", (16, 1, 6), 2),
        ("Sink", (16, 1, 40), 1),
    ],
)
def test_chance_is_no_mistake(name, case, seed):
    assert of_healthy(name, case, seed).ok


def test_wide_heads_and_half_precision_are_no_mistake():
    report = examine(MultiHeadAttention(16, 4, head_dim=24), 16, 4, head_dim=24)
    assert report.ok and report.heads.counted == 4
    wrong = []
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        for name in ("mhalib", "GPT", "FusedKeysAndValues", "over keys, -inf"):
            attend = made(HEALTHY[name], 32, 4, 1)
            (attend if isinstance(attend, nn.Module) else attend.module).to(dtype)
            if not (report := examine(attend, 32, 4)).ok:
                wrong.append(f"{name}, {dtype}: {report.codes}")
    assert wrong == []


def test_torchs_own_layer_of_keys_and_values_with_other_features():
    assert examine(nn.MultiheadAttention(32, 4, kdim=20, vdim=12, batch_first=True)).ok


def test_torchs_own_layer():
    """Its fast path (eval, no gradients, batch first) gives NaN for a query with no key; all else is right."""
    layer = nn.MultiheadAttention(32, 4, batch_first=True)
    report = examine(layer, 32, 4)
    x, mask = torch.randn(2, 5, 32), torch.zeros(2, 5, 5, dtype=torch.bool)
    mask[0] = True  # True = blocked
    with torch.no_grad():
        out, _ = layer.eval()(x, x, x, attn_mask=mask.repeat_interleave(4, 0), need_weights=False)
    assert report.ok
    assert ("empty-row-nan" in [remark.code for remark in report.remarks]) == (not out.isfinite().all())


class NonCausalAttention(Layer):
    """Attention to both sides.

    Scores where the mask is 0 get a large negative number, so that the softmax gives them nothing.
    """

    def hide(self, scores, mask):
        # -inf would give NaN where a query may see no key
        return scores if mask is None else scores.masked_fill(self.axes(mask) == 0, -1e9)


def test_words_turn_no_mask_round_and_a_name_that_says_no_is_believed():
    for factor in (1, 6):
        assert (report := examine(made(NonCausalAttention, 32, 4, factor))).ok, report

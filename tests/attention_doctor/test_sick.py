"""The doctor over sick layers, one change each: the code of its disease and no other."""

import pytest
import torch
from torch import nn

from attention_doctor import CATALOGUE, examine
from mhalib import MultiHeadAttention
from tests.helpers.examined import CASES, PLACES, SICK, USUAL, made, misnamed, of_sick
from tests.helpers.layers_remarkable import REMARKABLE

QUICK = (USUAL, (15, 3, 5))


@pytest.mark.parametrize("part", range(4))
def test_each_disease_gets_its_own_code(part):
    assert misnamed([*SICK][part::8], QUICK[:1]) == []


def test_sharper_maps_and_other_sizes_hide_no_disease():
    assert misnamed([*SICK][::8], QUICK[1:]) == []


def test_wrong_distances_get_their_own_code():
    assert misnamed(PLACES) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_each_disease_gets_its_own_code_in_all_sizes_and_sharpness(part):
    names = [*SICK][part::8]
    assert [line for seed, case in enumerate(CASES[:5]) for line in misnamed(names, [case], seeds=(seed,))] == []
    assert misnamed([*PLACES][part::8], [(32, 4, 1), (16, 4, 1), (48, 6, 1)], seeds=(0, 1, 2)) == []


def test_a_layer_that_is_frozen_as_a_whole_has_dead_parameters_all_the_same():
    layer = made(SICK["OutputProjectionUnused"].make, 32, 4, 1).requires_grad_(False)
    assert examine(layer, 32, 4).codes == ["dead-parameters"]


def test_with_one_head_some_are_no_mistakes():
    one_head = [name for name, disease in SICK.items() if disease.with_one_head == ""]
    assert [name for name in one_head if not of_sick(name, (16, 1, 1)).ok] == []


def test_the_corpus_has_every_code_and_every_remark_is_made_of_some_layer():
    assert {disease.code for disease in (*SICK.values(), *PLACES.values())} == set(CATALOGUE)
    silent = []
    for code, make in REMARKABLE.items():
        torch.manual_seed(0)
        if code not in [remark.code for remark in examine(make(), 32, 4).remarks]:
            silent.append(code)
    assert silent == [] and examine(MultiHeadAttention(32, 4), 32, 4).remarks == []


def test_torchs_quantizable_layer_has_the_bug_or_has_been_mended():
    """pytorch issue 67651; whichever torch is installed, the doctor must agree with a comparison at equal weights."""
    quantizable = pytest.importorskip("torch.ao.nn.quantizable")
    theirs = quantizable.MultiheadAttention(32, 4, batch_first=True).eval()
    torch_layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    for name, weight, bias in zip(
        "QKV", torch_layer.in_proj_weight.chunk(3), torch_layer.in_proj_bias.chunk(3), strict=True
    ):
        linear = getattr(theirs, f"linear_{name}")
        linear.weight.data.copy_(weight)
        linear.bias.data.copy_(bias)
    theirs.out_proj.load_state_dict(torch_layer.out_proj.state_dict())
    x = torch.randn(2, 6, 32)
    sick = (theirs(x, x, x)[0] - torch_layer(x, x, x)[0]).abs().max() > 1e-3
    report = examine(theirs, 32, 4)
    assert ("mixes-tokens-on-merge" in report.codes) == bool(sick)
    assert not sick or "[0]" in report.findings[0].example[0]  # the output is the first of two

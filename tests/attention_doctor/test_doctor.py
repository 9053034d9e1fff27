"""The doctor over its corpus: nothing in healthy layers, in each sick one the code of its disease and no other."""

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.doctor import CATALOGUE, examine
from tests.helpers import layers_calls, layers_sick_places
from tests.helpers.layers_base import Layer, projections
from tests.helpers.layers_healthy import HEALTHY, LargeBiasesWithoutMask
from tests.helpers.layers_sick_masks import SICK

# T == num_heads, B == num_heads and T == head_dim are tried within each examination.
SIZES = [(32, 4), (15, 3), (16, 1), (20, 5), (16, 4)]
FACTORS = (1, 5)  # on all parameters: trained maps are sharper than fresh ones
CASES = [(d, h, FACTORS[i % 2]) for i, (d, h) in enumerate(SIZES)]  # `table` goes through all combinations

# One cause, two symptoms, both right: the mask has no head axis, which raises or hands over another sample's mask.
ALSO = {"NoHeadAxisInMask": {"mask-order"}}


def made(make, d_model, num_heads, factor, seed=0):
    torch.manual_seed(seed)
    attend = make(d_model, num_heads)
    module = attend if isinstance(attend, nn.Module) else getattr(attend, "module", None)
    if module is not None:
        for parameter in module.parameters():
            parameter.data *= factor
    return attend


def examined(disease, d_model, num_heads, factor, seed=0):
    layer = made(disease.make, d_model, num_heads, factor, seed)
    return examine(layer, d_model, num_heads, weights=projections(layer) if disease.weights else None)


def table(sizes=SIZES, factors=FACTORS) -> str:
    """Return what the doctor makes of the whole corpus: found, missed, false alarms. Not a test; for people to read."""
    lines, total = [f"{'layer':34} {'code':22} {'examined':>8} {'found':>6} {'missed':>6} {'other':>6}"], [0, 0, 0, 0]
    for name, disease in SICK.items():
        cases = [(d, h, f) for d, h in sizes for f in factors if h > 1 or not disease.none_with_one_head]
        codes = [set(examined(disease, *case).codes) for case in cases]
        found = sum(disease.code in seen for seen in codes)
        other = sum(bool(seen - {disease.code} - ALSO.get(name, set())) for seen in codes)
        counts = [len(cases), found, len(cases) - found, other]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        lines.append(f"{name:34} {disease.code:22} {counts[0]:8} {counts[1]:6} {counts[2]:6} {counts[3]:6}")
    lines.append(f"{len(SICK)} diseases{'':47} {total[0]:8} {total[1]:6} {total[2]:6} {total[3]:6}")
    cases = [(make, d, h, f) for make in HEALTHY.values() for d, h in sizes for f in factors]
    alarms = sum(not examine(made(*case), *case[1:3]).ok for case in cases)
    return "\n".join([*lines, f"{len(HEALTHY)} healthy layers, {len(cases)} examined: {alarms} false alarms"])


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_layer(name):
    for seed, (d_model, num_heads, factor) in enumerate([*CASES, (32, 4, 5)]):
        report = examine(made(HEALTHY[name], d_model, num_heads, factor, seed), d_model, num_heads)
        assert report.ok, f"d_model={d_model}, num_heads={num_heads}, times {factor}\n{report}"


@pytest.mark.parametrize("name", SICK)
def test_each_disease_gets_its_own_code(name):
    disease = SICK[name]
    for seed, (d_model, num_heads, factor) in enumerate(CASES):
        if num_heads == 1 and disease.none_with_one_head:
            continue
        report = examined(disease, d_model, num_heads, factor, seed)
        where = f"d_model={d_model}, num_heads={num_heads}, times {factor}\n{report}"
        assert disease.code in report.codes, where
        assert set(report.codes) <= {disease.code} | ALSO.get(name, set()), where


@pytest.mark.parametrize("name", [name for name, disease in SICK.items() if disease.none_with_one_head])
def test_with_one_head_these_are_no_mistakes(name):
    assert examined(SICK[name], 16, 1, 1).ok


def test_the_corpus_has_every_code():
    found = {disease.code for disease in layers_calls.SICK.values()}
    assert found | {code for code, _ in layers_sick_places.SICK.values()} == set(CATALOGUE)


@pytest.mark.parametrize("seed", range(2))
def test_more_seeds_for_the_layers_that_everyone_writes(seed):
    for name in ("Layer", "Fused", "mhalib", "GPT", "Rotary", "PreNormBlock", "WithoutMask", "QKNormWithoutMask"):
        for d_model, num_heads in ((24, 8), (8, 2), (12, 12)):
            report = examine(made(HEALTHY[name], d_model, num_heads, 3, 100 + seed), d_model, num_heads)
            assert report.ok, f"{name}\n{report}"


@pytest.mark.parametrize("num_heads", [4, 8])
def test_large_biases_are_no_wrong_softmax(num_heads):
    for seed in range(4, 8):  # seeds at which six equal tokens were too few to judge by
        torch.manual_seed(seed)
        layer = LargeBiasesWithoutMask(64, num_heads)
        for parameter in layer.parameters():
            parameter.data *= 5
        for linear in (layer.W_q, layer.W_k):
            linear.bias.data *= 3 / 5
        assert examine(layer, 64, num_heads).ok


def test_sizes_beyond_the_small_ones():
    assert examine(MultiHeadAttention(512, 8), 512, 8).ok
    assert examine(MultiHeadAttention(48, 4, head_dim=20), 48, 4, head_dim=20).ok
    assert examine(Layer(64, 16), 64, 16).ok


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
    time_first = examine(quantizable.MultiheadAttention(32, 4), 32, 4)
    assert "mixes-tokens-on-merge" not in time_first.codes

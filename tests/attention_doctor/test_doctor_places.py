"""Distances that a layer promises, shared heads, open masks: found where wrong, only there."""

import pytest

from mhalib.doctor import examine
from tests.attention_doctor.test_doctor import made
from tests.helpers.layers_sick_places import HEALTHY, SICK

CASES = [(32, 4, 1), (16, 4, 5), (48, 6, 1), (32, 4, 6)]


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_layer(name):
    for seed, (d_model, num_heads, factor) in enumerate([*CASES, (16, 1, 1), (15, 3, 20)]):
        report = examine(made(HEALTHY[name], d_model, num_heads, factor, seed), d_model, num_heads)
        assert report.ok, f"d_model={d_model}, num_heads={num_heads}, times {factor}\n{report}"


@pytest.mark.parametrize("name", SICK)
def test_each_mistake_gets_its_own_code(name):
    code, kind = SICK[name]
    for seed, (d_model, num_heads, _) in enumerate(CASES[:3]):  # sharp maps may hide it
        factor = 1
        report = examine(made(kind, d_model, num_heads, factor, seed), d_model, num_heads)
        assert report.codes == [code], f"d_model={d_model}, num_heads={num_heads}, times {factor}\n{report}"

"""The probes that call a layer otherwise: piece by piece with a cache, and with inputs that differ."""

import pytest
import torch

from mhalib.doctor import examine
from mhalib.doctor.calls.pieces import arguments_of
from tests.attention_doctor.test_doctor import CASES, made
from tests.helpers import layers_calls
from tests.helpers.layers_calls import HEALTHY, SICK, Cached, CausalCorner, NewValuesFirst, PlacesStartAgain, Turned
from tests.helpers.layers_healthy import HEALTHY as OTHERS
from tests.helpers.layers_sick_masks import SICK as OTHER_DISEASES

OWN = [name for name in HEALTHY if name not in OTHERS]
OWN_DISEASES = [name for name in SICK if name not in OTHER_DISEASES]


@pytest.mark.parametrize("name", OWN)
def test_nothing_is_found_in_a_healthy_layer(name):
    for seed, (d_model, num_heads, factor) in enumerate(CASES):
        report = examine(made(HEALTHY[name], d_model, num_heads, factor, seed), d_model, num_heads)
        assert report.ok, f"d_model={d_model}, num_heads={num_heads}, times {factor}\n{report}"


@pytest.mark.parametrize("name", OWN_DISEASES)
def test_each_disease_gets_its_own_code(name):
    for seed, (d_model, num_heads, factor) in enumerate(CASES):
        report = examine(made(SICK[name].make, d_model, num_heads, factor, seed), d_model, num_heads)
        assert report.codes == [SICK[name].code], f"d_model={d_model}, num_heads={num_heads}, times {factor}\n{report}"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (CausalCorner, "the new token sees only 0, in the full pass all"),
        (PlacesStartAgain, "the keys hold the new token as if it stood at place 0"),
        (NewValuesFirst, "the values hold the new token before the older ones"),
    ],
)
def test_the_evidence_says_what_went_wrong(kind, why):
    torch.manual_seed(0)
    (finding,) = examine(kind(32, 4), 32, 4).findings
    assert why in finding.evidence and "token 5 (counted from 0)" in finding.evidence


def test_the_arguments_that_have_to_do_with_a_cache_are_known_by_their_names():
    def layer(x, mask=None, layer_past=None, use_cache=False, past_len=0, position_ids=None, rope=None, cache_size=8):
        """Attend."""

    found = arguments_of(layer)
    assert (found.caches, found.flags, found.starts) == (["layer_past"], ["use_cache"], ["past_len"])
    assert (found.places, found.others) == (["position_ids"], ["rope"])


def test_a_cache_in_the_module_is_called_so():
    torch.manual_seed(0)
    (finding,) = examine(layers_calls.ReadsTheFirstKeysOnly(32, 4), 32, 4).findings
    assert "with the cache in the module" in finding.evidence


def test_two_tokens_at_once_are_left_alone():
    class OneAtATime(Cached):
        def shown(self, Tq, Tk):
            return torch.ones(Tq, Tk, dtype=torch.bool) if Tq < Tk else super().shown(Tq, Tk)

    report = examine(OneAtATime(32, 4), 32, 4)
    assert report.ok and "two new tokens at once" in str(report)


def test_a_cache_that_no_call_fills_is_said_to_be_not_examined():
    class NeverReturned(Turned):
        def forward(self, x, cache=None):
            return self.calculated(x, cache)[0]

    report = examine(NeverReturned(32, 4), 32, 4)
    assert report.ok and any(line.startswith("cache: no way") for line in report.not_examined)


def test_the_layer_comes_back_as_it_was():
    torch.manual_seed(0)
    layer = layers_calls.InTheModule(32, 4)
    examine(layer, 32, 4)
    assert not layer.cache_k.any() and not layer.cache_v.any()

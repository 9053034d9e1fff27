"""The probes that call a layer otherwise: piece by piece with a cache, and with inputs that differ."""

import pytest
import torch

from mhalib.doctor import examine
from tests.helpers import layers_calls
from tests.helpers.layers_calls import CausalCorner, NewValuesFirst, PlacesStartAgain, Turned


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


def test_a_cache_in_the_module_is_called_so():
    torch.manual_seed(0)
    (finding,) = examine(layers_calls.ReadsTheFirstKeysOnly(32, 4), 32, 4).findings
    assert "with the cache in the module" in finding.evidence


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

"""What is drawn from a seed leaves no trace in the random state around it."""

import pytest
import torch

from mhalib.experiments import seeded


def test_seeded_restores_the_state_also_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(5):
        drawn = torch.rand(3)
        raise ZeroDivisionError
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(5)))


@pytest.mark.parametrize("seed", [-1, 1.0, True, None])
def test_what_is_no_seed_is_refused(seed, as_shipped):
    with (
        pytest.raises(ValueError, match="seed must be a whole number of 0 or more, got .*; give one such as 0"),
        seeded(seed),
    ):
        pass

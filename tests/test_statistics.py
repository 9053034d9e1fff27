"""Intervals against printed tables, and rank correlation against ranks counted by hand."""

import math

import pytest
import torch

from mhalib.experiments import interval, spearman

# Two-sided quantiles of Student's t as every table prints them: (level, runs) -> t.
TABLE = {
    (0.95, 2): 12.706, (0.95, 3): 4.303, (0.95, 4): 3.182, (0.95, 5): 2.776, (0.95, 6): 2.571, (0.95, 11): 2.228,
    (0.95, 31): 2.042, (0.95, 121): 1.980, (0.99, 2): 63.657, (0.99, 6): 4.032, (0.90, 11): 1.812,
}  # fmt: skip


@pytest.mark.parametrize("level, runs", TABLE)
def test_the_interval_has_the_width_that_tables_print(level, runs):
    values = torch.randn(runs, generator=torch.Generator().manual_seed(runs), dtype=torch.float64) + 3
    found = interval(values.tolist(), level)
    half = TABLE[level, runs] * values.std().item() / math.sqrt(runs)
    assert found.mean == pytest.approx(values.mean().item())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=5e-4)
    assert found.high + found.low == pytest.approx(2 * found.mean)


def test_of_a_thousand_intervals_about_95_percent_hold_the_truth():
    runs = torch.randn(1000, 5, generator=torch.Generator().manual_seed(0)) + 1
    held = sum(low <= 1 <= high for _, low, high in map(interval, runs.tolist()))
    assert 930 <= held <= 970


def test_runs_that_agree_give_an_interval_without_width():
    assert interval([1.0, 1.0, 1.0]) == (1.0, 1.0, 1.0)


BAD_VALUES = {
    "at least two finite values, got [1.0]": ([1.0], 0.95),
    "at least two finite values, got []": ([], 0.95),
    "at least two finite values, got [1.0, nan]": ([1.0, math.nan], 0.95),
    "level must lie between 0 and 1, got 95.0": ([1.0, 2.0], 95.0),
}


@pytest.mark.parametrize("message", BAD_VALUES)
def test_values_that_are_refused(message):
    with pytest.raises(ValueError) as caught:
        interval(*BAD_VALUES[message])
    assert message in str(caught.value)


def test_spearman_on_ranks_counted_by_hand():
    x = torch.tensor([1.0, 10.0, 100.0, 1000.0])
    assert spearman(x, x.log()) == pytest.approx(1)
    assert spearman(x, -x) == pytest.approx(-1)
    # Ranks 0 1 2 3 and 1 0 3 2: 1 - 6 * (1 + 1 + 1 + 1) / (4 * 15).
    assert spearman(x, torch.tensor([2.0, 1.0, 4.0, 3.0])) == pytest.approx(0.6)
    # Ties share a rank: 0 1 2 3 and .5 .5 2.5 2.5, whose correlation is 4 / sqrt(5 * 4).
    assert spearman(x, torch.tensor([0.0, 0.0, 7.0, 7.0])) == pytest.approx(4 / 20**0.5)


@pytest.mark.parametrize(
    "bad", [torch.ones(4), torch.arange(3.0), torch.ones(2, 2), torch.tensor([1.0, 2.0, 3.0, float("nan")])]
)
def test_spearman_refuses_what_has_no_order(bad, as_shipped):
    with pytest.raises(ValueError, match="without an order"):
        spearman(torch.arange(4.0), bad)
    with pytest.raises(TypeError, match="must be a tensor"):
        spearman(torch.arange(4.0), [1.0, 2.0, 3.0, 4.0])

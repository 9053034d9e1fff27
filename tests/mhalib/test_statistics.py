"""Intervals against printed tables, and rank correlation against ranks counted by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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
    for value in (0.0, 0.4, 1.0):
        assert interval([value] * 3, bounds=(0, 1)) == pytest.approx((value, value, value), abs=1e-12)


def test_an_interval_on_the_log_odds_by_hand():
    # Mean .8, s = .2 / √3, four runs: the log-odds are ln 4, their error s / 2 / .16; the table's t for 3 is 3.182.
    values = [0.7, 0.7, 0.9, 0.9]
    error = 0.2 / math.sqrt(3) / 2 / 0.16
    low, high = (1 / (1 + math.exp(-(math.log(4) + way * 3.182 * error))) for way in (-1, 1))
    assert interval(values, bounds=(0, 1)) == pytest.approx((0.8, low, high), abs=2e-4)
    assert interval([100 * value for value in values], bounds=(0, 100)) == pytest.approx(
        (80, 100 * low, 100 * high), abs=2e-2
    )


@given(runs=st.lists(st.floats(0, 1), min_size=2, max_size=8), level=st.sampled_from([0.5, 0.95, 0.999]))
def test_an_interval_never_leaves_the_bounds_and_holds_the_mean(runs, level):
    mean, low, high = interval(runs, level, bounds=(0, 1))
    assert 0 <= low <= mean + 1e-12 and mean - 1e-12 <= high <= 1
    assert mean == pytest.approx(sum(runs) / len(runs))
    mirrored = interval([1 - value for value in runs], level, bounds=(0, 1))
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high), abs=1e-6)


def test_away_from_the_bounds_both_intervals_are_nearly_the_same_and_near_one_only_one_of_them_is_possible():
    middle = [0.55, 0.57, 0.56]
    assert interval(middle, bounds=(0, 1)) == pytest.approx(interval(middle), abs=1e-3)
    scattered = [0.678, 0.592, 0.971]
    assert interval(scattered).high > 1.2
    mean, low, high = interval(scattered, bounds=(0, 1))
    assert 0 < low < 0.3 and 0.9 < high < 1 and mean - low > high - mean


def test_near_a_bound_more_intervals_on_the_log_odds_hold_the_truth():
    torch.manual_seed(0)
    runs = torch.distributions.Beta(26.6, 1.4).sample((2000, 5)).tolist()  # the mean is .95
    plain = sum(low <= 0.95 <= high for _, low, high in map(interval, runs))
    bounded = sum(low <= 0.95 <= high for _, low, high in (interval(row, bounds=(0, 1)) for row in runs))
    assert plain < 1860 < bounded


BAD_BOUNDS = {
    "values must lie within bounds=(0, 1), got 0.5 to 1.5; say bounds=None": ([0.5, 1.5], (0, 1)),
    "values must lie within bounds=(0, 1), got -0.5 to 0.5; say bounds=None": ([0.5, -0.5], (0, 1)),
    "bounds must be (lowest, highest), such as (0, 1), or None; got (1, 0)": ([0.5, 0.6], (1, 0)),
    "or None; got (0, inf)": ([0.5, 0.6], (0, math.inf)),
    "or None; got 1": ([0.5, 0.6], 1),
}


@pytest.mark.parametrize("message", BAD_BOUNDS)
def test_bounds_that_are_refused(message, as_shipped):
    values, bounds = BAD_BOUNDS[message]
    with pytest.raises(ValueError) as caught:
        interval(values, bounds=bounds)
    assert message in str(caught.value)


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

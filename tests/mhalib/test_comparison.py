"""Fair comparisons: costs against formulas, rules one by one, intervals against printed tables, and their pictures."""

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib import MultiHeadAttention
from mhalib.experiments import (
    DivergedError,
    LiveCurve,
    LookupModel,
    SweepError,
    compare_arms,
    count_flops,
    interval,
    plot_runs,
    spearman,
)
from tests.helpers.refusals import accepted


def test_flops_are_those_of_the_formula():
    for num_heads, head_dim in ((1, None), (8, None), (8, 32)):
        B, T, d = 2, 12, 32
        wide = num_heads * (head_dim or d // num_heads)
        layer = MultiHeadAttention(d, num_heads, head_dim=head_dim)
        projections, maps = 4 * B * T * d * wide, 2 * B * T * T * wide  # products; each is times and plus
        assert count_flops(layer, torch.randn(B, T, d)) == 2 * (projections + maps)


def build(num_heads=1, head_dim=None, **ignored):
    return LookupModel(6, 4, 2, 8, num_heads, head_dim=head_dim)


def pretend(seed, lr, num_heads=1, head_dim=None, best=0.01):
    """Stand in for training: the loss is lowest at lr=best, 1.0 diverges, and the score tells who was called."""
    if lr == 1.0:
        raise DivergedError("the loss is nan")
    return {"loss": abs(math.log(lr / best)) + seed * 1e-6, "accuracy": (10 * num_heads + seed) / 100, "rate": lr}


ARMS = {"one": {"num_heads": 1, "best": 0.01}, "two": {"num_heads": 2, "best": 0.1}}


def compare(run=pretend, arms=ARMS, seeds=(0, 1), **changed):
    usual = {"learning_rates": [1e-3, 1e-2, 1e-1, 1.0], "tuning_seeds": [10, 11], "workers": 1, "progress": False}
    usual |= {"build": build, "inputs": torch.zeros(3, 4, dtype=torch.int64)}
    return compare_arms(run, arms, seeds, **(usual | changed))


def test_each_arm_gets_its_own_rate_on_seeds_that_do_not_count_and_the_table_says_what_it_cost():
    found = compare(seeds=[0, 1, 2])
    assert [(row["arm"], row["lr"]) for row in found.arms] == [("one", 0.01), ("two", 0.1)]
    assert {(row["arm"], row["seed"], row["rate"]) for row in found.runs} == {
        (arm, seed, rate) for arm, rate in (("one", 0.01), ("two", 0.1)) for seed in (0, 1, 2)
    }
    assert {row["seed"] for row in found.tuning} == {10, 11} and len(found.tuning) == 2 * 4 * 2
    assert found.remarks == []
    second = found.arms[1]
    assert second["scores"] == [0.2, 0.21, 0.22]
    assert (second["mean"], second["low"], second["high"]) == interval(second["scores"], bounds=(0, 1))
    head, one, two = str(found).splitlines()
    assert head.split()[:4] == ["arm", "parameters", "FLOPs", "lr"]
    flops = count_flops(build(), torch.zeros(3, 4, dtype=torch.int64))
    assert one.split()[:4] == ["one", f"{4 * 64 + 10 * 8 + 9 * 12:,}", f"{flops:,}", "0.01"]
    assert two.endswith("0.200 0.210 0.220)")
    assert str(compare(seeds=range(6))).splitlines()[2].endswith("; 6 runs, 0.200 to 0.250)")
    assert compare(learning_rates=[0.01, 0.1]).remarks == [
        "one did best with lr=0.01, the smallest that was tried",
        "two did best with lr=0.1, the largest that was tried",
    ]


def test_arms_that_cost_more_are_noted():
    arms = {"narrow": {"num_heads": 2}, "wide": {"num_heads": 2, "head_dim": 8}}
    found = compare(arms=arms)
    narrow, wide = found.arms
    assert narrow["parameters"] == 4 * 64 + 10 * 8 + 9 * 12 and wide["parameters"] == narrow["parameters"] + 4 * 64
    assert f"wide has {wide['parameters'] / narrow['parameters']:.2f} times the parameters of narrow" in found.remarks
    assert f"wide has {wide['flops'] / narrow['flops']:.2f} times the FLOPs of narrow" in found.remarks
    assert "Note: wide has" in str(found)


def test_the_interval_has_the_width_that_tables_print():
    for runs, quantile in {2: 12.706, 3: 4.303, 10: 2.262, 121: 1.980}.items():  # of Student's t, two-sided, 95 %
        values = torch.randn(runs, generator=torch.Generator().manual_seed(runs), dtype=torch.float64) + 3
        found = interval(values.tolist())
        half = quantile * values.std().item() / math.sqrt(runs)
        assert found.mean == pytest.approx(values.mean().item())
        assert (found.high - found.low) / 2 == pytest.approx(half, rel=5e-4)
        assert found.high + found.low == pytest.approx(2 * found.mean)


def test_an_interval_on_the_log_odds_by_hand():
    # Mean .8, s = .2 / √3, four runs: the log-odds are ln 4, their error s / 2 / .16; the table's t for 3 is 3.182.
    values = [0.7, 0.7, 0.9, 0.9]
    error = 0.2 / math.sqrt(3) / 2 / 0.16
    low, high = (1 / (1 + math.exp(-(math.log(4) + way * 3.182 * error))) for way in (-1, 1))
    assert interval(values, bounds=(0, 1)) == pytest.approx((0.8, low, high), abs=2e-4)
    percent = interval([100 * value for value in values], bounds=(0, 100))
    assert percent == pytest.approx((80, 100 * low, 100 * high), abs=2e-2)


@given(runs=st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_an_interval_never_leaves_the_bounds_and_holds_the_mean(runs):
    mean, low, high = interval(runs, bounds=(0, 1))
    assert 0 <= low <= mean + 1e-12 and mean - 1e-12 <= high <= 1
    assert mean == pytest.approx(sum(runs) / len(runs))
    alike = runs[:1] * 3  # runs that agree give an interval without width
    for bounds in (None, (0, 1)):
        assert interval(alike, bounds=bounds) == pytest.approx(tuple(alike), abs=1e-12)


def test_spearman_on_ranks_counted_by_hand():
    x, ties = torch.tensor([1.0, 10.0, 100.0, 1000.0]), torch.tensor([0.0, 0.0, 7.0, 7.0])
    # Ties share a rank: 0 1 2 3 and .5 .5 2.5 2.5, whose correlation is 4 / sqrt(5 * 4).
    assert spearman(x, ties) == pytest.approx(4 / 20**0.5) == -spearman(x, -ties)


def test_what_cannot_be_fair_and_what_has_no_interval_or_order_is_refused(as_shipped):
    def fails_later(seed, lr, **settings):
        return pretend(seed, lr if seed >= 10 else 1.0, **settings)

    with pytest.raises(SweepError, match="4 of 4 runs failed"):
        compare(fails_later)
    wrong = {
        "seeds [1] served to choose the learning rate": {"tuning_seeds": [1, 10]},
        "two seeds at least, got 2 arms": {"seeds": [0]},
        "learning_rates=[], ": {"learning_rates": []},
        "the arms ['a'] set lr": {"arms": {"a": {"lr": 1.0}}},
        "diverges with each of lr=[1.0]": {"learning_rates": [1.0]},
        "an 'accuracy' from 0 to 1, got": {"run": lambda seed, lr, **settings: {"loss": 1.0}},
        "'accuracy': 1.98": {"run": lambda seed, lr, **settings: {"loss": 1.0, "accuracy": 1.98}},
        "run must return a 'loss'": {"run": lambda seed, lr, **settings: {"accuracy": 1.0}},
    }
    x = torch.arange(4.0)
    calls = {
        "at least two finite values, got [1.0]": partial(interval, [1.0]),
        "at least two finite values, got [1.0, nan]": partial(interval, [1.0, math.nan]),
        "bounds=(0, 1), got 0.5 to 1.5; give (lowest, highest)": partial(interval, [0.5, 1.5], bounds=(0, 1)),
        "TypeError: y must be a tensor": partial(spearman, x, [1.0, 2.0, 3.0, 4.0]),
    }
    failures = accepted(calls | {words: partial(compare, **given) for words, given in wrong.items()})
    for bad in (torch.ones(4), torch.arange(3.0), torch.ones(2, 2), torch.tensor([1.0, 2.0, 3.0, math.nan])):
        failures += accepted({"without an order": partial(spearman, x, bad)})
    assert failures == []


def test_every_run_is_a_dot_beside_its_interval_within_what_a_score_can_be():
    scores = {"1": [0.678, 0.592, 0.971], "2": [1.0, 1.0, 1.0]}
    figure = plot_runs(scores, "heads", chance=1 / 16)
    (axes,) = figure.axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [list(line.get_ydata()) for line in dots] == list(scores.values())
    for i, line in enumerate(dots):  # over their own label, and not on top of each other
        assert len(set(line.get_xdata())) == 3 and all(abs(x - i) < 0.3 for x in line.get_xdata())
    mean, low, high = interval(scores["1"], bounds=(0, 1))
    (bar,) = axes.containers[0].lines[2]
    assert bar.get_segments()[0][:, 1] == pytest.approx([low, high])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]
    assert axes.get_ylim()[0] == 0
    assert f"1 {mean:.2f} ({low:.2f} to {high:.2f}); 2 1.00 (1.00 to 1.00)" in figure.alt
    assert any(list(line.get_ydata()) == [1 / 16, 1 / 16] for line in axes.lines)


def test_the_live_curve_draws_now_and_then_in_the_place_of_the_picture_before(monkeypatch, capsys):
    live = LiveCurve()
    live([], True)
    live([1.0, 0.5], True)
    assert live.handle is None and capsys.readouterr().out == "", "nothing is shown outside of a notebook"

    calls, now = [], [0.0]

    def display(bundle, *, metadata, raw, display_id=False):
        assert raw and metadata["image/png"]["alt"]
        calls.append((display_id, bundle["text/plain"].rpartition(" to ")[2]))
        return SimpleNamespace(update=display)

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("mhalib.experiments.curves.time.monotonic", lambda: now[0])
    live, losses = LiveCurve(), []
    for moment in (0.0, 0.2, 0.45, 0.55, 0.95):  # at most one picture in half a second
        now[0] = moment
        losses.append(5.0 - len(losses))
        live(losses, False)
    live(losses, True)
    assert calls == [(True, "5.00."), (False, "2.00."), (False, "1.00.")], "one place, drawn again"

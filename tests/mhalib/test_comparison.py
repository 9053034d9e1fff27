"""Fair comparisons: the costs against formulas, the rules one by one."""

import math

import pytest
import torch

from mhalib import MultiHeadAttention
from mhalib.experiments import DivergedError, LookupModel, SweepError, compare_arms, count_flops, interval


@pytest.mark.parametrize("num_heads, head_dim", [(1, None), (8, None), (8, 32)])
def test_flops_are_those_of_the_formula(num_heads, head_dim):
    B, T, d = 2, 12, 32
    wide = num_heads * (head_dim or d // num_heads)
    layer = MultiHeadAttention(d, num_heads, head_dim=head_dim)
    projections, maps = 4 * B * T * d * wide, 2 * B * T * T * wide  # products; each is a multiplication and an addition
    assert count_flops(layer, torch.randn(B, T, d)) == 2 * (projections + maps)


def build(num_heads=1, head_dim=None, **ignored):
    return LookupModel(6, 4, 2, 8, num_heads, head_dim=head_dim)


def pretend(seed, lr, num_heads=1, head_dim=None, best=0.01):
    """Stand in for training: the loss is lowest at lr=best, 1.0 diverges, and the score tells who was called."""
    if lr == 1.0:
        raise DivergedError("the loss is nan")
    return {"loss": abs(math.log(lr / best)) + seed * 1e-6, "accuracy": num_heads + seed / 100, "rate": lr}


ARMS = {"one": {"num_heads": 1, "best": 0.01}, "two": {"num_heads": 2, "best": 0.1}}
OPTIONS = {
    "build": build,
    "inputs": torch.zeros(3, 4, dtype=torch.int64),
    "learning_rates": [1e-3, 1e-2, 1e-1, 1.0],
    "tuning_seeds": [10, 11],
    "workers": 1,
    "progress": False,
    "bounds": None,  # the pretended scores are no shares
}


def test_each_arm_gets_its_own_rate_on_seeds_that_do_not_count():
    found = compare_arms(pretend, ARMS, [0, 1, 2], **OPTIONS)
    assert [(row["arm"], row["lr"]) for row in found.arms] == [("one", 0.01), ("two", 0.1)]
    assert {(row["arm"], row["seed"], row["rate"]) for row in found.runs} == {
        (arm, seed, rate) for arm, rate in (("one", 0.01), ("two", 0.1)) for seed in (0, 1, 2)
    }
    assert {row["seed"] for row in found.tuning} == {10, 11} and len(found.tuning) == 2 * 4 * 2
    assert found.remarks == []
    assert found.arms[1]["scores"] == [2.0, 2.01, 2.02]
    assert (found.arms[1]["mean"], found.arms[1]["low"], found.arms[1]["high"]) == interval([2.0, 2.01, 2.02])


def test_the_table_shows_costs_rates_and_every_run():
    head, one, two = str(compare_arms(pretend, ARMS, [0, 1], **OPTIONS)).splitlines()
    assert head.split()[:4] == ["arm", "parameters", "FLOPs", "lr"]
    sizes = build().state_dict().values()
    assert one.split()[:4] == [
        "one",
        f"{sum(p.numel() for p in sizes):,}",
        f"{count_flops(build(), OPTIONS['inputs']):,}",
        "0.01",
    ]
    assert two.endswith("2.000 2.010)")


def pretend_shares(seed, lr, num_heads=1, head_dim=None, best=0.01):
    """The same with scores near 1, of which a t-interval knows no end."""
    return {"loss": 1.0, "accuracy": (0.6, 0.98, 0.99)[seed % 3]}


def test_no_interval_leaves_what_a_share_can_be():
    options = {name: value for name, value in OPTIONS.items() if name != "bounds"} | {"learning_rates": [0.01]}
    found = compare_arms(pretend_shares, ARMS, [0, 1, 2], **options)
    for row in found.arms:
        assert row["scores"] == [0.6, 0.98, 0.99] and interval(row["scores"]).high > 1
        assert (row["mean"], row["low"], row["high"]) == interval([0.6, 0.98, 0.99], bounds=(0, 1))
        assert 0 < row["low"] < row["high"] < 1


def test_scores_beyond_their_bounds_are_refused_before_the_runs_that_count():
    called = []

    def run(seed, **settings):
        called.append(seed)
        return pretend(seed, **settings)

    with pytest.raises(ValueError, match=r"accuracy must lie within bounds=\(0.0, 1.0\), got 1.1 for 'one, lr .*None"):
        compare_arms(run, ARMS, [0, 1], **(OPTIONS | {"bounds": (0, 1)}))
    assert set(called) == {10, 11}


def test_of_many_runs_the_table_shows_the_lowest_and_the_highest():
    found = compare_arms(pretend, ARMS, range(6), **OPTIONS)
    assert str(found).splitlines()[2].endswith("; 6 runs, 2.000 to 2.050)")
    assert found.arms[1]["scores"] == pytest.approx([2 + seed / 100 for seed in range(6)])


def test_arms_that_cost_more_are_noted_or_refused_before_training():
    arms = {"narrow": {"num_heads": 2}, "wide": {"num_heads": 2, "head_dim": 8}}
    found = compare_arms(pretend, arms, [0, 1], **OPTIONS)
    narrow, wide = found.arms
    assert narrow["parameters"] == 4 * 64 + 10 * 8 + 9 * 12 and wide["parameters"] == narrow["parameters"] + 4 * 64
    assert f"wide has {wide['parameters'] / narrow['parameters']:.2f} times the parameters of narrow" in found.remarks
    assert f"wide has {wide['flops'] / narrow['flops']:.2f} times the FLOPs of narrow" in found.remarks
    assert "Note: wide has" in str(found)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mhalib.experiments.comparison.EQUAL_WITHIN", 1.0)
        assert compare_arms(pretend, arms, [0, 1], **OPTIONS).remarks == []

    def never(**settings):
        raise AssertionError("trained")

    with pytest.raises(ValueError, match="wide has .* times the parameters of narrow; .*change the arms"):
        compare_arms(never, arms, [0, 1], **OPTIONS, strict=True)


def test_a_rate_at_the_end_of_the_grid_is_noted():
    found = compare_arms(pretend, ARMS, [0, 1], **(OPTIONS | {"learning_rates": [0.01, 0.1]}))
    assert found.remarks == [
        "one did best with lr=0.01, the smallest that was tried",
        "two did best with lr=0.1, the largest that was tried",
    ]


def test_finished_runs_are_taken_from_the_folder(tmp_path):
    first = compare_arms(pretend, ARMS, [0, 1], **OPTIONS, folder=tmp_path / "runs")
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    again = compare_arms(pretend, ARMS, [0, 1], **OPTIONS, folder=tmp_path / "runs")
    assert str(again) == str(first) and again.runs == first.runs
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()} == files and len(files) == 20


def test_it_runs_in_several_processes_as_in_one():
    several = compare_arms(pretend, ARMS, [0, 1], **(OPTIONS | {"workers": 2}))
    assert several.runs == compare_arms(pretend, ARMS, [0, 1], **OPTIONS).runs


def test_divergence_at_the_chosen_rate_is_an_error():
    def run(seed, lr, **settings):
        return pretend(seed, lr if seed >= 10 else 1.0, **settings)

    with pytest.raises(SweepError, match="4 of 4 runs failed"):
        compare_arms(run, ARMS, [0, 1], **OPTIONS)


BAD = {
    r"seeds \[1\] served to choose the learning rate": {"tuning_seeds": [1, 10]},
    "a tuning seed and two seeds at least, got 2 arms, .*seeds=\\[0\\]": {"seeds": [0]},
    "learning_rates=\\[\\], ": {"learning_rates": []},
    "tuning_seeds=\\[\\], ": {"tuning_seeds": []},
    "got 0 arms": {"arms": {}},
    r"bounds must be \(lowest, highest\), .* got \(1, 0\)": {"bounds": (1, 0)},
    r"the arms \['a'\] set lr": {"arms": {"a": {"lr": 1.0}}},
    r"arm 'one' .* diverges with each of lr=\[1.0\]": {"learning_rates": [1.0]},
    "run returns no 'f1' for 'one'": {"score": "f1"},
    "run returns no 'loss'": {"run": lambda seed, lr, **settings: {"accuracy": 1.0}},
}


@pytest.mark.parametrize("message", BAD)
def test_arguments_that_are_refused(message):
    given = {"run": pretend, "arms": ARMS, "seeds": [0, 1], **OPTIONS} | BAD[message]
    with pytest.raises(ValueError, match=message):
        compare_arms(**given)

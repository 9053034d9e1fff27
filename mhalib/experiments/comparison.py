"""Fair comparisons: what an arm costs, which learning rate suits it, and how sure the result is.

The runs themselves are made by `sweep`. Nothing here decides which arm is better: it makes the conditions equal,
or says where they are not, and keeps every run for the reader to see.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mhalib.experiments.models import count_parameters
from mhalib.experiments.statistics import interval
from mhalib.experiments.sweeps import Row, sweep
from mhalib.experiments.training import DivergedError

EQUAL_WITHIN = 0.02  # share by which parameters and FLOPs of two arms may differ and still count as equal
MOST_RUNS = 5  # of an arm that the table writes out; of more, the lowest and the highest


@torch.no_grad()
def count_flops(model: nn.Module, *inputs: Tensor) -> int:
    """Return the floating-point operations of `model(*inputs)`, as torch counts them: those of matrix products.

    A multiplication and an addition count as two. Softmax, norms and additions do not count. A training step costs
    about three times as much. Taught in notebook 09.
    """
    # torch's counter does not know the fused kernel that CPUs use and would leave attention out: so without it.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(*inputs)
    return counter.get_total_flops()


@dataclass
class Comparison:
    """What `compare_arms` returns; `print` shows it as a table.

    Attributes:
        arms: one row per arm: `arm`, its settings, `parameters`, `flops` (one forward pass), the chosen `lr`, `mean`,
            `low` and `high` of the accuracy, and `scores`, one per seed.
        runs: one row per run that counts, as `sweep` returns them.
        tuning: one row per run that served to choose a learning rate.
        remarks: sentences on what is not equal between the arms, or not beyond doubt. Empty is best.
    """

    arms: list[Row]
    runs: list[Row] = field(repr=False)
    tuning: list[Row] = field(repr=False)
    remarks: list[str]

    def __str__(self) -> str:
        wide = max(len("arm"), *(len(str(row["arm"])) for row in self.arms))
        lines = [f"{'arm':<{wide}}  {'parameters':>10}  {'FLOPs':>13}  {'lr':>7}  accuracy (95 % interval; runs)"]
        for row in self.arms:
            runs = " ".join(f"{value:.3f}" for value in row["scores"])
            if len(row["scores"]) > MOST_RUNS:
                runs = f"{len(row['scores'])} runs, {min(row['scores']):.3f} to {max(row['scores']):.3f}"
            lines.append(
                f"{row['arm']:<{wide}}  {row['parameters']:>10,}  {row['flops']:>13,}  {row['lr']:>7g}  "
                f"{row['mean']:.3f} ({row['low']:.3f} to {row['high']:.3f}; {runs})"
            )
        return "\n".join(lines + [f"Note: {remark}." for remark in self.remarks])


def compare_arms(
    run: Callable[..., Any],
    arms: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
    *,
    build: Callable[..., nn.Module],
    inputs: Tensor,
    learning_rates: Sequence[float],
    tuning_seeds: Sequence[int],
    **sweep_options: Any,
) -> Comparison:
    """Compare the arms of an experiment by rules that make the result mean something.

    1. Parameters and FLOPs are counted, and differences beyond 2 % are said.
    2. Each arm gets the learning rate that suits it: the lowest mean `loss` over `tuning_seeds`.
    3. Those seeds are then spent: the result comes from other `seeds`, several of them, the same for all arms.
    4. The result is an interval, and every single run is kept.

    Same data, same number of steps and same evaluation are what `run` has to see to.

    Args:
        run: as in `sweep`, called as `run(seed=seed, lr=lr, **settings)`; returns at least `loss` and `accuracy`, a
            share from 0 to 1.
        arms: as in `sweep`; the first one is what the others are measured against.
        seeds: of the runs that count, at least two.
        build: returns the model of an arm, called as `build(**settings)`.
        inputs: one batch for the model, to count FLOPs with.
        learning_rates: the ones to try, the same for all arms. Training that diverges only rules one out.
        tuning_seeds: the seeds to try them with, none of them among `seeds`.
        sweep_options: `folder`, `workers`, `together`, `timeout`, `progress`, as in `sweep`, and its errors.

    Raises:
        ValueError: seeds are shared or too few, nothing is to be chosen from, an arm sets `lr`, every learning rate
            diverges, or `run` does not return what it should.

    Taught in notebook 09.
    """
    seeds, tuning_seeds, rates = list(seeds), list(tuning_seeds), sorted(learning_rates)
    if shared := set(seeds) & set(tuning_seeds):
        raise ValueError(f"seeds {sorted(shared)} served to choose the learning rate; a fair result needs others")
    if len(seeds) < 2 or not rates or not arms or not tuning_seeds:
        raise ValueError(
            f"a comparison needs an arm, a learning rate, a tuning seed and two seeds at least, got {len(arms)} arms, "
            f"learning_rates={rates}, tuning_seeds={tuning_seeds}, seeds={seeds}"
        )
    if setting := [arm for arm, settings in arms.items() if "lr" in settings]:
        raise ValueError(f"the arms {setting} set lr, which is chosen for each arm here; use learning_rates instead")

    costs = {}
    for arm, settings in arms.items():
        model = build(**settings)
        costs[arm] = {"parameters": count_parameters(model), "flops": count_flops(model, inputs)}
    remarks = _mismatches(costs)

    trials = {f"{arm}, lr {lr:g}": {**settings, "lr": lr} for arm, settings in arms.items() for lr in rates}
    tuning = _checked(sweep(_forgiving(run), trials, tuning_seeds, **sweep_options))
    final = {}
    for arm, settings in arms.items():
        losses = {lr: sum(row["loss"] for row in tuning if row["arm"] == f"{arm}, lr {lr:g}") for lr in rates}
        best = min(rates, key=losses.__getitem__)
        if losses[best] == math.inf:
            raise ValueError(f"arm {arm!r} ({settings}) diverges with each of lr={rates}; try smaller ones")
        if len(rates) > 1 and best in (rates[0], rates[-1]):
            end = "smallest" if best == rates[0] else "largest"
            remarks.append(f"{arm} did best with lr={best:g}, the {end} that was tried")
        final[arm] = {**settings, "lr": best}

    runs = _checked(sweep(run, final, seeds, **sweep_options))
    rows = []
    for arm, settings in final.items():
        scores = [row["accuracy"] for row in runs if row["arm"] == arm]
        around = interval(scores, bounds=(0, 1))._asdict()
        rows.append({"arm": arm, **settings, **costs[arm], **around, "scores": scores})
    return Comparison(rows, runs, tuning, remarks)


def _mismatches(costs: Mapping[str, Mapping[str, int]]) -> list[str]:
    (first, base), *others = costs.items()
    return [
        f"{arm} has {cost[kind] / base[kind]:.2f} times the {word} of {first}"
        for arm, cost in others
        for kind, word in (("parameters", "parameters"), ("flops", "FLOPs"))
        if abs(cost[kind] - base[kind]) > EQUAL_WITHIN * base[kind]
    ]


def _forgiving(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return `run`, except that training which diverges is a bad result and no error."""

    @functools.wraps(run)  # so that the sweep knows it by the name and the source of `run`
    def tried(**settings: Any) -> Any:
        try:
            return run(**settings)
        except DivergedError:
            lost = {"loss": math.inf, "accuracy": 0.0}
            # Of several seeds at once one may have diverged: then their mean is as bad.
            return [lost] * len(settings["seeds"]) if "seeds" in settings else lost

    return tried


def _checked(rows: list[Row]) -> list[Row]:
    for row in rows:
        if "loss" not in row or not 0 <= row.get("accuracy", -1) <= 1:
            raise ValueError(
                f"run must return a 'loss', by which the learning rate is chosen, and an 'accuracy' from 0 to 1, got "
                f"{row}"
            )
    return rows

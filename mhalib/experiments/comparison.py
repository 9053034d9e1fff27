"""Fair comparisons: what an arm costs, which learning rate suits it, and how sure the result is.

The runs themselves are made by `sweep`. Nothing here decides which arm is better: it makes the conditions equal,
or says where they are not, and keeps every run for the reader to see.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mhalib.experiments.models import count_parameters
from mhalib.experiments.statistics import Bounds, check_bounds, interval
from mhalib.experiments.sweeps import Row, sweep
from mhalib.experiments.training import DivergedError

EQUAL_WITHIN = 0.02  # share by which parameters and FLOPs of two arms may differ and still count as equal
MOST_RUNS = 5  # of an arm that the table writes out; of more, the lowest and the highest


@torch.no_grad()
def count_flops(model: nn.Module, *inputs: Tensor) -> int:
    """Return the floating-point operations of one forward pass, as torch counts them: those of matrix products.

    A multiplication and an addition count as two. Softmax, norms and additions do not count. A training step costs
    about three times as much.

    Args:
        model: any module.
        inputs: what it is called with.

    Taught in notebook 09.

    Examples:
        >>> import torch
        >>> from mhalib.experiments import count_flops
        >>> count_flops(torch.nn.Linear(3, 2), torch.zeros(5, 3))
        60
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
            `low` and `high` of the score, and `scores`, one per seed.
        runs: one row per run that counts, as `sweep` returns them.
        tuning: one row per run that served to choose a learning rate.
        remarks: sentences on what is not equal between the arms, or not beyond doubt. Empty is best.
        score: the name of the result that is compared.

    Notebook 09 teaches it.
    """

    arms: list[Row]
    runs: list[Row] = field(repr=False)
    tuning: list[Row] = field(repr=False)
    remarks: list[str]
    score: str

    def __str__(self) -> str:
        wide = max(len("arm"), *(len(str(row["arm"])) for row in self.arms))
        lines = [f"{'arm':<{wide}}  {'parameters':>10}  {'FLOPs':>13}  {'lr':>7}  {self.score} (95 % interval; runs)"]
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
    run: Callable[..., Mapping[str, Any]],
    arms: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
    *,
    build: Callable[..., nn.Module],
    inputs: Tensor,
    learning_rates: Sequence[float],
    tuning_seeds: Sequence[int],
    score: str = "accuracy",
    bounds: Bounds | None = (0.0, 1.0),
    strict: bool = False,
    **sweep_options: Any,
) -> Comparison:
    """Compare the arms of an experiment by rules that make the result mean something.

    1. Parameters and FLOPs are counted, and differences beyond 2 % are said or refused.
    2. Each arm gets the learning rate that suits it: the lowest mean `loss` over `tuning_seeds`.
    3. Those seeds are then spent: the result comes from other `seeds`, several of them, the same for all arms.
    4. The result is an interval, and every single run is kept.

    Same data, same number of steps and same evaluation are what `run` has to see to.

    Args:
        run: as in `sweep`, called as `run(seed=seed, lr=lr, **settings)`; returns at least `loss` and the score.
        arms: as in `sweep`; the first one is what the others are measured against.
        seeds: of the runs that count, at least two.
        build: returns the model of an arm, called as `build(**settings)`.
        inputs: one batch for the model, to count FLOPs with.
        learning_rates: the ones to try, the same for all arms. Training that diverges only rules one out.
        tuning_seeds: the seeds to try them with, none of them among `seeds`.
        score: which result is compared.
        bounds: the lowest and the highest possible score, which no interval leaves; None where there are none.
        strict: refuse arms that differ by more than 2 %, before anything is trained, instead of a remark.
        sweep_options: `folder`, `workers`, `together`, `timeout`, `progress`, as in `sweep`.

    Raises:
        TypeError: an argument of `sweep` has the wrong type.
        ValueError: seeds are shared or too few, nothing is to be chosen from, an arm sets `lr`, every learning rate
            diverges, the score is not among the results or not within its bounds, or arms differ and `strict` is set.
        SweepError: a run failed.

    Taught in notebook 09.
    """
    seeds, tuning_seeds, rates = list(seeds), list(tuning_seeds), sorted(learning_rates)
    bounds = None if bounds is None else check_bounds(bounds)
    if shared := set(seeds) & set(tuning_seeds):
        raise ValueError(f"seeds {sorted(shared)} served to choose the learning rate; a fair result needs others")
    if len(seeds) < 2 or not rates or not arms or not tuning_seeds:
        raise ValueError(
            f"a comparison needs an arm, a learning rate, a tuning seed and two seeds at least, got {len(arms)} arms, "
            f"learning_rates={rates}, tuning_seeds={tuning_seeds}, seeds={seeds}"
        )
    if setting := [arm for arm, settings in arms.items() if "lr" in settings]:
        raise ValueError(f"the arms {setting} set lr, which is chosen for each arm here; use learning_rates instead")

    costs = {arm: _cost(build(**settings), inputs) for arm, settings in arms.items()}
    remarks = _mismatches(costs)
    if strict and remarks:
        raise ValueError(f"{'; '.join(remarks)}; change the arms, or say strict=False to have it noted only")

    trials = {f"{arm}, lr {lr:g}": {**settings, "lr": lr} for arm, settings in arms.items() for lr in rates}
    tuning = sweep(_Forgiving(run), trials, tuning_seeds, **sweep_options)
    _check_scores(tuning, score, bounds)  # now, and not when all is done
    chosen = {}
    for arm, settings in arms.items():
        losses = {lr: _mean_loss(tuning, f"{arm}, lr {lr:g}") for lr in rates}
        chosen[arm] = min(rates, key=losses.__getitem__)
        if losses[chosen[arm]] == math.inf:
            raise ValueError(f"arm {arm!r} ({settings}) diverges with each of lr={rates}; try smaller ones")
        if len(rates) > 1 and chosen[arm] in (rates[0], rates[-1]):
            remarks.append(f"{arm} did best with lr={chosen[arm]:g}, the {_end(chosen[arm], rates)} that was tried")

    final = {arm: {**settings, "lr": chosen[arm]} for arm, settings in arms.items()}
    runs = sweep(run, final, seeds, **sweep_options)
    if missing := [row["arm"] for row in runs if score not in row]:
        raise ValueError(f"run returns no {score!r} for {missing[0]!r}; return it, or name another score")
    _check_scores(runs, score, bounds)
    rows = []
    for arm, settings in final.items():
        scores = [row[score] for row in runs if row["arm"] == arm]
        around = interval(scores, bounds=bounds)._asdict()
        rows.append({"arm": arm, **settings, **costs[arm], **around, "scores": scores})
    return Comparison(rows, runs, tuning, remarks, score)


def _cost(model: nn.Module, inputs: Tensor) -> dict[str, int]:
    return {"parameters": count_parameters(model), "flops": count_flops(model, inputs)}


def _mismatches(costs: Mapping[str, Mapping[str, int]]) -> list[str]:
    (first, base), *others = costs.items()
    return [
        f"{arm} has {cost[kind] / base[kind]:.2f} times the {word} of {first}"
        for arm, cost in others
        for kind, word in (("parameters", "parameters"), ("flops", "FLOPs"))
        if abs(cost[kind] - base[kind]) > EQUAL_WITHIN * base[kind]
    ]


class _Forgiving:
    """`run`, except that training which diverges is a bad result and no error."""

    def __init__(self, run: Callable[..., Mapping[str, Any]]):
        # So that the sweep knows it by the name and the source of `run`.
        self.__wrapped__, self.__qualname__ = run, getattr(run, "__qualname__", type(run).__qualname__)

    def __call__(self, **settings: Any) -> Any:
        try:
            return self.__wrapped__(**settings)
        except DivergedError:
            lost = {"loss": math.inf}
            # Of several seeds at once one may have diverged: then their mean is as bad.
            return [lost] * len(settings["seeds"]) if "seeds" in settings else lost


def _check_scores(rows: list[Row], score: str, bounds: Bounds | None) -> None:
    low, high = bounds or (-math.inf, math.inf)
    if outside := [row for row in rows if score in row and not low <= row[score] <= high]:
        raise ValueError(
            f"{score} must lie within bounds={bounds}, got {outside[0][score]!r} for {outside[0]['arm']!r}; "
            "say bounds=None of a score that has none"
        )


def _mean_loss(rows: list[Row], arm: str) -> float:
    losses = [row.get("loss") for row in rows if row["arm"] == arm]
    if None in losses:
        raise ValueError("run returns no 'loss', by which the learning rate is chosen; return it with the score")
    return sum(losses) / len(losses)


def _end(rate: float, rates: Sequence[float]) -> str:
    return "smallest" if rate == rates[0] else "largest"

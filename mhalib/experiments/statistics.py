"""What several runs say together: the interval around a mean, and whether two orders agree.

scipy computes both; what is added is what must be so of the numbers, and what an interval does not know.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Shaped
from scipy import stats
from torch import Tensor

from mhalib.arguments import check_tensor


class Interval(NamedTuple):
    """A mean and the interval around it."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Return the mean of several runs and Student's t-interval around it: `mean ± t · s / √n`.

    If the runs scatter like a normal distribution, such intervals hold the true mean in `level` of all experiments;
    with runs few and skewed, in somewhat fewer. The interval knows no bounds: of accuracies near 1 it can pass 1. Runs
    that agree exactly give an interval of width 0, which says that they agree, and not that the next one must.

    Args:
        values: one finite number per run, at least two.
        level: how sure, between 0 and 1.

    Raises:
        ValueError: fewer than two values, a value that is not finite, or a level that is none.

    Student (1908). Taught in notebook 09.
    """
    values = torch.tensor([float(value) for value in values], dtype=torch.float64)
    if len(values) < 2 or not values.isfinite().all():
        raise ValueError(
            f"an interval needs at least two finite values, got {values.tolist()}; run more seeds, and look at those "
            "that are not finite"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}; 0.95 is the usual one")
    mean = values.mean().item()
    reach = stats.t.ppf((1 + level) / 2, len(values) - 1).item() * values.std().item() / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach)


def spearman(x: Shaped[Tensor, "values"], y: Shaped[Tensor, "values"]) -> float:
    """Return how well the order of `x` agrees with that of `y`: 1 the same, 0 nothing in common, -1 reversed.

    Args:
        x, y: `(N,)`, at least two numbers each, not all alike; of equal ones each gets the mean of their ranks.

    Raises:
        TypeError: they are no tensors.
        ValueError: they are not equally long, too short, all alike, or hold NaN.

    Spearman (1904): the correlation of the ranks. Taught in notebook 11.
    """
    for name, values in {"x": x, "y": y}.items():
        check_tensor(name, values)
        if values.ndim != 1 or values.shape != x.shape or len(values.unique()) < 2 or values.isnan().any():
            raise ValueError(
                f"x and y must be (N,), equally long, with different numbers and no NaN in each; got {tuple(x.shape)} "
                f"and {tuple(y.shape)}, and {name} breaks the rule; without an order there is nothing to compare"
            )
    return stats.spearmanr(x.numpy(force=True), y.numpy(force=True)).statistic.item()

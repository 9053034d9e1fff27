"""What several runs say together: the interval around a mean, and whether two orders agree. scipy computes both."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Shaped
from scipy import special, stats
from torch import Tensor

from mhalib.arguments import check_tensor


class Interval(NamedTuple):
    """A mean and the interval around it."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], bounds: tuple[float | int, float | int] | None = None) -> Interval:
    """Return the mean of several runs and Student's 95 % t-interval around it: `mean ± t · s / √n`.

    If the runs scatter like a normal distribution, such intervals hold the true mean in 95 % of all experiments; with
    runs few and skewed, in somewhat fewer. With `bounds` it is taken on the log-odds of the mean, `log(p / (1 - p))`,
    and carried back, so that it never leaves what is possible. Runs that agree exactly give an interval of width 0.

    Args:
        values: one finite number per run, at least two.
        bounds: the lowest and the highest possible value, such as (0, 1) for an accuracy; None where there are none.

    Raises:
        ValueError: fewer than two values, or one that is not finite or not within the bounds.

    Student (1908); the error of the log-odds by the delta method, `s / √n / (p (1 - p))`. Taught in notebook 09.
    """
    values = torch.tensor([float(value) for value in values], dtype=torch.float64)
    if len(values) < 2 or not values.isfinite().all():
        raise ValueError(
            f"an interval needs at least two finite values, got {values.tolist()}; run more seeds, and look at those "
            "that are not finite"
        )
    mean = values.mean().item()
    reach = stats.t.ppf((1 + 0.95) / 2, len(values) - 1).item() * values.std().item() / math.sqrt(len(values))
    if bounds is None:
        return Interval(mean, mean - reach, mean + reach)
    bottom, top = bounds
    if not bottom <= values.min() <= values.max() <= top:
        raise ValueError(
            f"values must lie within bounds={bounds}, got {values.min():g} to {values.max():g}; give (lowest, highest) "
            "of what is possible, or leave bounds out where there are none"
        )
    span = top - bottom
    share = (mean - bottom) / span
    if reach == 0 or not 0 < share < 1:
        return Interval(mean, mean, mean)
    reach /= span * share * (1 - share)
    low, high = (bottom + span * special.expit(special.logit(share) + way * reach).item() for way in (-1, 1))
    return Interval(mean, low, high)


def spearman(x: Shaped[Tensor, "values"], y: Shaped[Tensor, "values"]) -> float:
    """Return how well the order of `x` agrees with that of `y`: 1 the same, 0 nothing in common, -1 reversed.

    Args:
        x, y: `(N,)`, at least two numbers each, not all alike; of equal ones each gets the mean of their ranks.

    Raises:
        TypeError, ValueError: they are no tensors, not equally long, too short, all alike, or hold NaN.

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

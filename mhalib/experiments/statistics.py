"""What several runs say together: the interval around a mean, and whether two orders agree.

scipy computes both; what is added is what must be so of the numbers, and what an interval does not know.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Shaped
from scipy import special, stats
from torch import Tensor

from mhalib.arguments import check_tensor

Bounds = tuple[float | int, float | int]  # the lowest and the highest possible value


class Interval(NamedTuple):
    """A mean and the interval around it.

    What `interval` returns; notebook 09 teaches it.
    """

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], level: float = 0.95, bounds: Bounds | None = None) -> Interval:
    """Return the mean of several runs and Student's t-interval around it: `mean ± t · s / √n`.

    If the runs scatter like a normal distribution, such intervals hold the true mean in `level` of all experiments;
    with runs few and skewed, in somewhat fewer. Of accuracies near 1 such an interval can pass 1. With `bounds` it is
    taken on the log-odds of the mean, `log(p / (1 - p))`, which have no bounds, and carried back: it never leaves what
    is possible, reaches further to the side where there is room, and near a bound it holds the true mean more often.
    Runs that agree exactly give an interval of width 0, which says that they agree, and not that the next one must.

    Args:
        values: one finite number per run, at least two.
        level: how sure, between 0 and 1.
        bounds: the lowest and the highest possible value, such as (0, 1) for an accuracy; None where there are none.

    Raises:
        ValueError: fewer than two values, a value that is not finite or not within the bounds, a level that is none,
            or bounds that are none.

    Student (1908); the error of the log-odds by the delta method, `s / √n / (p (1 - p))`. Taught in notebook 09.

    Examples:
        >>> from mhalib.experiments import interval
        >>> mean, low, high = interval([0.8, 0.9, 1.0])
        >>> round(mean, 3), round(low, 3), round(high, 3)
        (0.9, 0.652, 1.148)
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
    if bounds is None:
        return Interval(mean, mean - reach, mean + reach)
    bottom, top = check_bounds(bounds)
    if values.min() < bottom or values.max() > top:
        raise ValueError(
            f"values must lie within bounds={bounds}, got {values.min():g} to {values.max():g}; "
            "say bounds=None of a score that has none"
        )
    span = top - bottom
    share = (mean - bottom) / span
    if reach == 0 or not 0 < share < 1:
        return Interval(mean, mean, mean)
    reach /= span * share * (1 - share)
    low, high = (bottom + span * special.expit(special.logit(share) + way * reach).item() for way in (-1, 1))
    return Interval(mean, low, high)


def check_bounds(bounds: Bounds) -> tuple[float, float]:
    """Return the lowest and the highest possible value as numbers.

    Raises:
        ValueError: they are no pair of finite numbers, the smaller one first.
    """
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"bounds must be (lowest, highest), such as (0, 1), or None; got {bounds!r}")
    return low, high


def spearman(x: Shaped[Tensor, "values"], y: Shaped[Tensor, "values"]) -> float:
    """Return how well the order of `x` agrees with that of `y`: 1 the same, 0 nothing in common, -1 reversed.

    Args:
        x, y: `(N,)`, at least two numbers each, not all alike; of equal ones each gets the mean of their ranks.

    Raises:
        TypeError: they are no tensors.
        ValueError: they are not equally long, too short, all alike, or hold NaN.

    Spearman (1904): the correlation of the ranks. Taught in notebook 11.

    Examples:
        >>> import torch
        >>> from mhalib.experiments import spearman
        >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 10.0, 100.0]))
        1.0
    """
    for name, values in {"x": x, "y": y}.items():
        check_tensor(name, values)
        if values.ndim != 1 or values.shape != x.shape or len(values.unique()) < 2 or values.isnan().any():
            raise ValueError(
                f"x and y must be (N,), equally long, with different numbers and no NaN in each; got {tuple(x.shape)} "
                f"and {tuple(y.shape)}, and {name} breaks the rule; without an order there is nothing to compare"
            )
    return stats.spearmanr(x.numpy(force=True), y.numpy(force=True)).statistic.item()

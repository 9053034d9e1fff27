"""Pictures of training: the loss while it falls, and every run of a comparison as a dot.

Numbers in, figures out, as in `mhalib.plots`, which draws attention. Training itself knows nothing of this module.
"""

import math
import time
from collections.abc import Mapping, Sequence

from mhalib.experiments.statistics import Bounds, interval
from mhalib.plots import COLOURS, DescribedFigure, new_figure

# Those that are dark enough for a line on white.
_LINES = (COLOURS[6], COLOURS[5], COLOURS[2], COLOURS[4], COLOURS[1], COLOURS[0])
SECONDS = 0.5  # between two pictures of a live curve: drawing takes time from training


class LiveCurve:
    """Draws the loss while `fit` trains: `fit(..., watch=LiveCurve())`. The cell keeps the last picture.

    One of them draws one training; make another for the next. Outside of a notebook nothing is drawn.

    Taught in notebook 07.
    """

    def __init__(self):
        self.show, self.drawn = _Cell(), -math.inf

    def __call__(self, losses: Sequence[float], done: bool) -> None:
        if losses and (done or time.monotonic() - self.drawn >= SECONDS):
            self.show(plot_losses({"training": losses}))
            self.drawn = time.monotonic()


class _Cell:
    """One place in the output of the running cell, where each picture replaces the one before."""

    def __init__(self):
        self.handle = None

    def __call__(self, figure: DescribedFigure) -> None:
        try:
            from IPython import get_ipython
            from IPython.display import display
        except ImportError:
            return
        if getattr(get_ipython(), "kernel", None) is None:
            return
        bundle, metadata = figure._repr_mimebundle_()
        if self.handle is None:
            self.handle = display(bundle, metadata=metadata, raw=True, display_id=True)
        else:
            self.handle.update(bundle, metadata=metadata, raw=True)


def plot_losses(losses: Mapping[str, Sequence[float]]) -> DescribedFigure:
    """Draw the loss of each step, one line for each name.

    Args:
        losses: name -> the loss of every step, in nats.

    Raises:
        ValueError: there is nothing to draw.

    No notebook uses it by itself; `LiveCurve` of notebook 07 draws the same while a model trains.
    """
    if not losses or not all(losses.values()):
        raise ValueError("plot_losses needs at least one loss for each name: {'one head': result.losses}")
    ends = "; ".join(f"{name} from {values[0]:.2f} to {values[-1]:.2f}" for name, values in losses.items())
    figure = new_figure(f"Loss against training steps: {ends}.", (6.0, 3.0))
    axes = figure.subplots()
    for i, (name, values) in enumerate(losses.items()):
        axes.plot(range(1, len(values) + 1), values, color=_LINES[i % len(_LINES)], linewidth=1.2, label=name)
    axes.set(xlabel="step", ylabel="loss (nats)", ylim=(0, None))
    if len(losses) > 1:
        axes.legend(frameon=False, fontsize=8)
    return figure


def plot_runs(
    scores: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str = "accuracy",
    *,
    chance: float | None = None,
    bounds: Bounds | None = (0.0, 1.0),
) -> DescribedFigure:
    """Draw every run as a dot, arm by arm, with the mean and its 95 % interval beside the dots.

    Args:
        scores: name of the arm -> the score of each run, at least two.
        xlabel: what tells the arms apart.
        ylabel: what the score is.
        chance: the score of guessing, drawn as a dashed line.
        bounds: the lowest and the highest possible score, which no interval leaves; None where there are none.

    Raises:
        ValueError: there is no arm, or one has fewer than two finite scores, or some that are not within the bounds.

    Taught in notebook 09.
    """
    if not scores:
        raise ValueError("plot_runs needs at least one arm: {'one head': [0.57, 0.58]}")
    found = {arm: interval(values, bounds=bounds) for arm, values in scores.items()}
    told = "; ".join(f"{arm} {mean:.2f} ({low:.2f} to {high:.2f})" for arm, (mean, low, high) in found.items())
    figure = new_figure(
        f"{ylabel} of every run against {xlabel}, mean and 95 % interval: {told}.", (1.5 + 0.9 * len(scores), 3.5)
    )
    axes = figure.subplots()
    for i, (arm, values) in enumerate(scores.items()):
        # Side by side in the order of the runs, so that equal scores do not hide each other.
        places = [i - 0.3 + 0.36 * (j + 0.5) / len(values) for j in range(len(values))]
        axes.plot(places, values, "o", color=COLOURS[6], alpha=0.6, markersize=5, markeredgewidth=0)
        mean, low, high = found[arm]
        bars = [[mean - low], [high - mean]]
        axes.errorbar([i + 0.2], [mean], yerr=bars, fmt="_", color="black", capsize=3, markersize=9)
    if chance is not None:
        axes.axhline(chance, color="#777777", linestyle="--", linewidth=0.8)
        axes.text(len(scores) - 0.5, chance, "guessing ", fontsize=8, ha="right", va="bottom", color="#555555")
    axes.set_xticks(range(len(scores)), list(scores))
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.5, len(scores) - 0.5))
    axes.set_ylim(bottom=min(0.0, *map(min, scores.values())))  # a scale from 0 makes small differences look small
    return figure

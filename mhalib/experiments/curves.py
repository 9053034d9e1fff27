"""Pictures of training: the loss while it falls, and every run of a comparison as a dot.

Numbers in, figures out, as in `mhalib.plots`, which draws attention. Training itself knows nothing of this module.
"""

import math
import time
from collections.abc import Mapping, Sequence

from mhalib.experiments.statistics import interval
from mhalib.plots import COLOURS, DescribedFigure, new_figure

SECONDS = 0.5  # between two pictures of a live curve: drawing takes time from training


class LiveCurve:
    """Draws the loss while `fit` trains: `fit(..., watch=LiveCurve())`. The cell keeps the last picture.

    One of them draws one training. Outside of a notebook nothing is drawn. Taught in notebook 07.
    """

    def __init__(self):
        self.handle, self.drawn = None, -math.inf

    def __call__(self, losses: Sequence[float], done: bool) -> None:
        if not losses or (not done and time.monotonic() - self.drawn < SECONDS):
            return
        try:
            from IPython import get_ipython
            from IPython.display import display
        except ImportError:
            return
        if getattr(get_ipython(), "kernel", None) is None:
            return
        bundle, metadata = _loss_curve(losses)._repr_mimebundle_()
        if self.handle is None:
            self.handle = display(bundle, metadata=metadata, raw=True, display_id=True)
        else:
            self.handle.update(bundle, metadata=metadata, raw=True)
        self.drawn = time.monotonic()


def _loss_curve(losses: Sequence[float]) -> DescribedFigure:
    told = f"Loss against training steps: training from {losses[0]:.2f} to {losses[-1]:.2f}."
    figure = new_figure(told, (6.0, 3.0))
    axes = figure.subplots()
    axes.plot(range(1, len(losses) + 1), losses, color=COLOURS[6], linewidth=1.2)
    axes.set(xlabel="step", ylabel="loss (nats)", ylim=(0, None))
    return figure


def plot_runs(scores: Mapping[str, Sequence[float]], xlabel: str, *, chance: float | None = None) -> DescribedFigure:
    """Draw the accuracy of every run as a dot, arm by arm, with the mean and its 95 % interval beside the dots.

    Args:
        scores: name of the arm -> the accuracy of each run, from 0 to 1, at least two.
        xlabel: what tells the arms apart.
        chance: the accuracy of guessing, drawn as a dashed line.

    Raises:
        ValueError: there is no arm, or one has fewer than two scores, or some that are not from 0 to 1.

    Taught in notebook 09.
    """
    if not scores:
        raise ValueError("plot_runs needs at least one arm: {'one head': [0.57, 0.58]}")
    found = {arm: interval(values, bounds=(0, 1)) for arm, values in scores.items()}
    told = "; ".join(f"{arm} {mean:.2f} ({low:.2f} to {high:.2f})" for arm, (mean, low, high) in found.items())
    figure = new_figure(
        f"accuracy of every run against {xlabel}, mean and 95 % interval: {told}.", (1.5 + 0.9 * len(scores), 3.5)
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
    axes.set(xlabel=xlabel, ylabel="accuracy", xlim=(-0.5, len(scores) - 0.5))
    axes.set_ylim(bottom=0)  # a scale from 0 makes small differences look small
    return figure

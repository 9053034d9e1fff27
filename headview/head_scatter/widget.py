"""HeadScatter: every head of a survey as a point over two measures, and the texts at which a chosen one is strongest.

All numbers go to the page, which draws and answers by itself; nothing of it needs a kernel.
"""

import json

import numpy as np
import traitlets
from matplotlib.ticker import MaxNLocator

from headview.base import Refused, View, check_choice, float_bytes, is_place, static
from headview.surveys import Survey
from mhalib.plots import COLOUR_MAP, DescribedFigure, new_figure

_MOST_HEADS = 2048
_OUTER = 0.05, 0.95  # nine of ten texts lie between


class HeadScatter(View):
    """Heads as points over any two measures; click one for its strongest texts, with query and key marked.

    Args:
        survey: what `headview.survey` returned.
        x, y: names of two of its measures.
        chosen: layer and head; `[0, 0]` when left out.

    `x`, `y` and `chosen` can be set from a cell, and follow the reader. Axes reach as far as the heads do, and say it.

    Raises:
        TypeError: `survey` is none.
        ValueError: over 2,048 heads, no such measure, or no such head.

    Taught in notebook 18.
    """

    _esm = static("head_scatter.js")
    _css = static("head_scatter.css")

    x = traitlets.TraitType().tag(sync=True)
    y = traitlets.TraitType().tag(sync=True)
    chosen = traitlets.TraitType().tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    ends = traitlets.List().tag(sync=True)  # of the axis of each, and its middle
    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # layers, heads, texts, examples of a head
    labels = traitlets.List().tag(sync=True)
    numbers = traitlets.Bytes().tag(sync=True)  # float32: mean, half an interval, .05 and .95, x measures x heads
    cells = traitlets.Bytes().tag(sync=True)  # float32: measures x heads x examples x (text, value, query, key, weight)
    tokens = traitlets.Bytes().tag(sync=True)  # JSON, of the texts by their numbers

    def __init__(self, survey: Survey, x: str = "previous token", y: str = "entropy", chosen: object = (0, 0)):
        if not isinstance(survey, Survey):
            raise TypeError(f"survey must be what headview.survey returned, got {type(survey).__name__}")
        layers, heads = survey.labels.shape
        if layers * heads > _MOST_HEADS:
            raise ValueError(
                f"a scatter holds at most {_MOST_HEADS} heads, got {layers} x {heads}; survey some of the layers"
            )
        self._survey = survey
        parts = np.stack(
            [
                [
                    *(survey.mean[name], survey.interval(name)[1] - survey.mean[name]),
                    *(survey.quantile(name, share) for share in _OUTER),
                ]
                for name in survey.names
            ]
        )
        super().__init__(
            names=survey.names,
            ends=[self._ends(name) for name in survey.names],
            sizes=[layers, heads, survey.num_texts, survey.cells.shape[-2]],
            labels=survey.labels.flatten().tolist(),
            numbers=float_bytes(parts),
            cells=float_bytes(survey.cells),
            tokens=json.dumps(survey.tokens).encode(),
            x=x,
            y=y,
            chosen=chosen,
        )

    def figure(self) -> DescribedFigure:
        """Return the points, the chosen one marked, and its strongest text in each of the two measures."""
        mean, (layer, head) = self._survey.mean, self.chosen
        layers, heads = self._survey.labels.shape
        said = ", ".join(f"{name} {mean[name][layer, head]:.2f}" for name in (self.x, self.y))
        figure = new_figure(
            f"{layers * heads} heads over {self._survey.num_texts:,} texts: {self.x} across, {self.y} up. Layer "
            f"{layer}, head {head}, {self._survey.label(layer, head)}: {said}.",
            (6.5, 4.2),
        )
        axes, depth = figure.subplots(), np.arange(layers).repeat(heads)
        spots = {"c": depth, "cmap": COLOUR_MAP, "vmin": -1, "edgecolors": "black", "lw": 0.5}
        axes.scatter(mean[self.x].ravel(), mean[self.y].ravel(), **spots)
        spot = mean[self.x][layer, head], mean[self.y][layer, head]
        axes.plot(*spot, "o", markersize=12, fillstyle="none", color="black")
        axes.annotate(f"layer {layer}, head {head}", spot, xytext=(8, 8), textcoords="offset points", fontsize=9)
        axes.set(xlabel=self.x, ylabel=self.y, xlim=self._ends(self.x)[::2], ylim=self._ends(self.y)[::2])
        return figure

    def _ends(self, name: str) -> list[float]:
        """Return where the axis of a measure begins, its middle, and where it ends: round numbers around all heads."""
        known = self._survey.mean[name][np.isfinite(self._survey.mean[name])]
        least, most = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        marks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(least, max(most, least + 0.01))
        return [float(marks[0]), float(marks[0] + marks[-1]) / 2, float(marks[-1])]

    @traitlets.validate("x", "y")
    def _check_measure(self, proposal):
        check_choice(proposal["trait"].name, proposal["value"], tuple(self._survey.names))
        return proposal["value"]

    @traitlets.validate("chosen")
    def _check_chosen(self, proposal):
        given, sizes = proposal["value"], self._survey.labels.shape
        if not is_place(given, sizes):
            raise Refused(f"chosen must be [layer, head], from [0, 0] to {[n - 1 for n in sizes]}, got {given!r}")
        return [*given]

"""ArrowView: a query among keys, as arrows in a plane; drag one, and scores, weights and mixture move together.

The view computes all that it shows, so it needs no kernel; what the reader has dragged is in the traits.
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Real

import torch
import traitlets

from headview.base import Checked, Refused, View, check_truth, is_number, static
from mhalib.plots import LINE_COLOURS, DescribedFigure, new_figure

REACH = 3.0  # the plane goes as far on each side
KEYS = {"north": (0.3, 1.8), "east": (1.9, 0.4), "south-east": (1.4, -1.3), "west": (-1.7, -0.5)}
VALUES = (1.0, 4.0, 6.0, 9.0)
_FEWEST, _MOST = 2, len(LINE_COLOURS)


class ArrowView(View):
    """One query among a few keys: what is its score with each, which weights follow, what mixture of the values.

    Args:
        keys: for each key, a name and its two numbers, from -3 to 3; 2 to 8 keys.
        values: what each key has to give, one number each.
        query: two numbers, from -3 to 3.
        scaled: whether scores are divided by the square root of 2, the numbers in a query.

    `query`, `places` (the keys' numbers, in their order) and `scaled` can be set from a cell, and what the reader
    drags is in them. `weights()` gives the weights at the moment.

    Raises:
        ValueError: another number of keys or values, or an arrow that is not two numbers from -3 to 3.

    Vaswani et al. (2017), eq. 1, for one query. Taught in notebook 02.
    """

    _esm = static("arrow_view.js")
    _css = static("arrow_view.css")

    query = traitlets.TraitType().tag(sync=True)
    places = traitlets.TraitType().tag(sync=True)
    scaled = Checked(True, check_truth).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    values = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(
        self,
        keys: Mapping[str, Sequence[Real]] | None = None,
        values: Sequence[Real] | None = None,
        query: Sequence[Real] = (1.6, 1.2),
        *,
        scaled: bool = True,
    ):
        keys = KEYS if keys is None else keys
        values = VALUES if values is None and keys is KEYS else values
        if not isinstance(keys, Mapping) or not _FEWEST <= len(keys) <= _MOST:
            raise ValueError(f"keys must be a dict of {_FEWEST} to {_MOST} names with two numbers each, got {keys!r}")
        if values is None or len(values) != len(keys) or not all(map(is_number, values)):
            raise ValueError(f"values must be {len(keys)} numbers, one for each key, got {values!r}")
        values = [float(value) for value in values]
        super().__init__(
            names=[str(name) for name in keys], values=values, query=query, places=[*keys.values()], scaled=scaled
        )

    def scores(self) -> torch.Tensor:
        """Return the scores of the query with the keys, `(keys,)`, divided if `scaled`."""
        scores = torch.tensor(self.places) @ torch.tensor(self.query)  # (keys, 2) @ (2,) -> (keys,)
        return scores / 2**0.5 if self.scaled else scores

    def weights(self) -> torch.Tensor:
        """Return the weights of the keys, `(keys,)`; they sum to 1."""
        return self.scores().softmax(-1)

    def figure(self) -> DescribedFigure:
        """Return the arrows, and beside them scores and weights."""
        scores, weights = self.scores().tolist(), self.weights().tolist()
        mixture = sum(weight * value for weight, value in zip(weights, self.values, strict=True))
        told = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(self.names, weights, strict=True))
        figure = new_figure(f"A query among {len(scores)} keys, as arrows. Weights: {told}. Mixture {mixture:.2f}.")
        figure.set_size_inches(7.5, 3.4)
        plane, bars = figure.subplots(1, 2, width_ratios=(1, 1.2))
        plane.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xticks=[], yticks=[])
        arrows = [*zip(self.names, self.places, LINE_COLOURS, strict=False), ("query", self.query, "black")]
        for name, (x, y), colour in arrows:
            plane.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2})
            steep = abs(y) > abs(x) / 2  # then the name is above or below the end, otherwise beside it
            side = ("left" if x > 0 else "right", "center") if not steep else ("center", "bottom" if y > 0 else "top")
            at = (0, math.copysign(4, y)) if steep else (math.copysign(5, x), 0)
            look = {"color": colour, "fontsize": 9, "ha": side[0], "va": side[1]}
            plane.annotate(name, (x, y), xytext=at, textcoords="offset points", **look)
        labels = [
            f"{name} (value {value:g}):\nscore {score:.2f}"
            for name, value, score in zip(self.names, self.values, scores, strict=True)
        ]
        bars.barh(labels, weights, color=LINE_COLOURS[: len(labels)])
        bars.invert_yaxis()
        bars.set(xlim=(0, 1), xlabel=f"weight; mixture of the values {mixture:.2f}")
        return figure

    @traitlets.validate("query")
    def _check_query(self, proposal):
        return _arrow("query", proposal["value"], proposal["value"])

    @traitlets.validate("places")
    def _check_places(self, proposal):
        places = proposal["value"]
        if not isinstance(places, (list, tuple)) or len(places) != len(self.names):
            raise Refused(f"places must be {len(self.names)} pairs of numbers, one for each key, got {places!r}")
        return [_arrow(name, place, places) for name, place in zip(self.names, places, strict=True)]


def _arrow(name: str, place: object, given: object) -> list[float]:
    two = isinstance(place, (list, tuple)) and len(place) == 2 and all(map(is_number, place))
    if not two or max(map(abs, place)) > REACH:
        raise Refused(f"{name} must be two numbers from -{REACH:g} to {REACH:g}, got {given!r}")
    return [float(number) for number in place]

"""What a picture of a HeadView shows, said without the widget: whoever fills a `Drawn` gets pictures and files."""

import math
from dataclasses import dataclass, field

import numpy as np

from mhalib.plots import COLOUR_MAP, COLOUR_MAPS, check_scale, pooled_words, round_numbers, scale_words

MODES = ("map", "lines")


@dataclass(frozen=True)
class Panel:
    """One map of a picture.

    Args:
        name: what it shows, such as "layer 3 head 5".
        cells: `(rows, columns)` float32, -inf where masked, NaN where NaN. May be pooled, see `Drawn.row_span`.
        top: where its scale ends, above 0.
        signed: whether its scale runs from -`top` to `top`.
    """

    name: str
    cells: np.ndarray
    top: int | float = 1.0
    signed: bool = False


@dataclass(frozen=True)
class Drawn:
    """What a picture shows: all that is on it, and nothing of where it comes from.

    Args:
        title: stands above the maps, one line.
        panels: as "map", maps that stand side by side (one, or the two that are compared and their difference);
            as "lines", heads that are drawn over each other. All of one shape.
        alt: the text for readers who do not see it; written from the rest when empty.
        mode: "map" or "lines".
        scale: one of `mhalib.plots.SCALES`, for all that is drawn; where it ends is said by each panel.
        colour_map: one of `mhalib.plots.COLOUR_MAPS`; signed panels have their own.
        row_labels, column_labels: plain text; one for each row (column) of cells, or, where those are pooled, one for
            each token of the span; empty: numbers.
        row_span, column_span: the first token that the cells stand for and the one after the last; None: as many as
            there are cells, from 0. A longer one than there are cells says that they are pooled by their largest.
        axes: what rows and columns are.
        value: what a number is, such as "attention weight".
        thumbnails: `(layers, heads, r, c)` float32, pooled by their largest, -inf where masked; None: no overview.
        thumbnail_tops: `(layers, heads)`, where the scale of each thumbnail ends; None: at 1.
        thumbnails_signed: whether they are signed.
        chosen: the heads that are framed in the overview as (layer, head), the first one strongest.
        layer_names, head_names: empty: numbers.
    """

    title: str
    panels: list[Panel]
    alt: str = ""
    mode: str = "map"
    scale: str = "fixed"
    colour_map: str = COLOUR_MAP
    row_labels: list[str] = field(default_factory=list)
    column_labels: list[str] = field(default_factory=list)
    row_span: tuple[int, int] | None = None
    column_span: tuple[int, int] | None = None
    axes: tuple[str, str] = ("query", "key")
    value: str = "attention weight"
    thumbnails: np.ndarray | None = None
    thumbnail_tops: np.ndarray | None = None
    thumbnails_signed: bool = False
    chosen: list[tuple[int, int]] = field(default_factory=list)
    layer_names: list[str] = field(default_factory=list)
    head_names: list[str] = field(default_factory=list)

    def __post_init__(self):
        for name, given, choices in (("mode", self.mode, MODES), ("colour_map", self.colour_map, COLOUR_MAPS)):
            if given not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {given!r}")
        shapes = {panel.cells.shape for panel in self.panels}
        if len(shapes) != 1 or any(len(shape) != 2 or 0 in shape for shape in shapes):
            raise ValueError(f"a picture needs panels of one shape (rows, columns), none empty, got {sorted(shapes)}")
        for panel in self.panels:
            check_scale(self.scale, panel.top)
        for name, labels, size, (first, past) in zip(
            ("row_labels", "column_labels"), (self.row_labels, self.column_labels), self.shape, self.spans, strict=True
        ):
            if labels and len(labels) not in (size, past - first):
                raise ValueError(
                    f"{name} must be one for each of {size} cells or {past - first} tokens, got {len(labels)}"
                )

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of every panel."""
        return self.panels[0].cells.shape

    @property
    def spans(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The tokens that rows and columns stand for."""
        rows, columns = self.shape
        return self.row_span or (0, rows), self.column_span or (0, columns)

    def marks(
        self, axis: int, room: int | float, least: int | float, numbers: int | float
    ) -> list[tuple[int | float, str]]:
        """Return the labels of an axis, thinned: the place of each, from 0 to 1, and its text.

        Args:
            axis: 0 for rows, 1 for columns.
            room: how long the axis is, in pixels or inches.
            least: how far apart tokens must stand, in the same unit.
            numbers: the same for numbers.
        """
        first, past = self.spans[axis]
        labels = (self.row_labels, self.column_labels)[axis]
        if not labels:
            few = max(1, math.floor(room / numbers))
            chosen = round_numbers(first, past, few) if past - first > few else range(first, past)
            return [((i - first + 0.5) / (past - first), str(i)) for i in chosen]
        step = max(1, math.ceil(least * len(labels) / room))
        return [((i + 0.5) / len(labels), labels[i]) for i in range(0, len(labels), step)]

    def note(self, rows: int = 1, columns: int = 1) -> str:
        """Return what stands under the axis: what masked cells and NaN look like, and of how many weights a cell is.

        Args:
            rows, columns: how many cells the drawing has pooled once more into one.
        """
        cells = [panel.cells for panel in self.panels]
        words = ["hatched: masked"] * (self.mode == "map" and any(np.isneginf(part).any() for part in cells))
        words += ["red: NaN"] * (self.mode == "map" and any(np.isnan(part).any() for part in cells))
        each = [
            (past - first) / math.ceil(size / more)
            for (first, past), size, more in zip(self.spans, self.shape, (rows, columns), strict=True)
        ]
        each = [max(1, math.ceil(size - 0.01)) for size in each]
        pooled_by = pooled_words(*each, any(panel.signed for panel in self.panels))
        return " · ".join(words + [pooled_by] * bool(pooled_by))


def described(drawn: Drawn) -> str:
    """Return the text for readers who do not see the picture."""
    if drawn.alt:
        return drawn.alt
    (top, bottom), (left, right) = drawn.spans
    rows, columns = drawn.axes
    what = "as lines" if drawn.mode == "lines" else "as a map"
    names = "; ".join(panel.name for panel in drawn.panels[:8]) + "; …" * (len(drawn.panels) > 8)
    scales = dict.fromkeys(scale_words(drawn.scale, panel.top, panel.signed) for panel in drawn.panels)
    parts = [f"{drawn.title}: {drawn.value} {what}, {bottom - top} × {right - left} ({rows} × {columns}), of {names}"]
    parts += [" and ".join(scales) if drawn.mode == "map" else f"the stronger the line, {_ends(drawn)}"]
    parts += [drawn.note()] * bool(drawn.note())
    if drawn.thumbnails is not None:
        layers, heads = drawn.thumbnails.shape[:2]
        own = drawn.thumbnail_tops is not None and bool(np.ptp(drawn.thumbnail_tops) > 0)
        small = f"beside it all heads small: {layers} layer{'s' * (layers > 1)} of {heads}"
        parts.append(small + ", each with colours up to its own largest" * own)
    return "; ".join(parts) + "."


def _ends(drawn: Drawn) -> str:
    return "the larger the number, up to " + ", ".join(dict.fromkeys(f"{panel.top:.3g}" for panel in drawn.panels))

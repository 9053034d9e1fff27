"""Where the numbers of a tensor go in a reshape, and how large the tensors of a computation are."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from mhalib.arguments import check_tensor
from mhalib.plots.colours import COLOURS
from mhalib.plots.figure import DescribedFigure, new_figure


def plot_reshape(
    steps: Mapping[str, Tensor],
    group: Callable[[int], int],
    group_names: Sequence[str] | None = None,
    *,
    block: str = "head",
) -> DescribedFigure:
    """Draw the stations of a reshape side by side, every number in its cell, coloured by where it belongs.

    Args:
        steps: title -> tensor of integer labels, such as `10 * token + feature`; 2 to 4 axes, of which a
            leading batch axis of 1 is left out. The last two axes are drawn as rows and columns, the one
            before them as blocks below each other.
        group: the colour group, 0 to 7, of a label.
        group_names: what the groups mean, for the legend.
        block: what the axis of blocks counts.

    Raises:
        TypeError: the labels are no tensor of integers.
        ValueError: a rank does not fit, there are no steps, or there are too many cells to read.

    Taught in notebook 03.

    Examples:
        >>> import torch
        >>> from mhalib.plots import plot_reshape
        >>> labels = 10 * torch.arange(3)[:, None] + torch.arange(4)
        >>> figure = plot_reshape({"x": labels, "turned": labels.T}, group=lambda label: label % 10)
    """
    if not steps:
        raise ValueError("plot_reshape needs at least one step: {'title': tensor of labels}")
    stations = [_as_station(title, labels, alone=len(steps) == 1) for title, labels in steps.items()]
    tallest = max(station.high for station in stations)
    names = "; ".join(title.replace("\n", " ") for title in steps)
    across = sum(station.width for station in stations)
    figure = new_figure(f"Where each number stands: {names}.", (0.42 * across, 0.42 * (tallest + 1.6)))
    panels = figure.subplots(1, len(stations), width_ratios=[station.width for station in stations])
    for axes, station in zip(np.atleast_1d(panels), stations, strict=True):
        _draw_station(axes, station, group, block)
        axes.set(xlim=(0, station.width), ylim=(tallest, -0.8), aspect="equal")
        axes.set_title(station.title, fontsize=9, parse_math=False)
        axes.axis("off")
    if group_names is not None:
        patches = [Patch(color=COLOURS[i % len(COLOURS)], label=name) for i, name in enumerate(group_names)]
        look = {"loc": "outside lower center", "ncols": min(len(patches), 4), "fontsize": 8, "frameon": False}
        for text in figure.legend(handles=patches, **look).get_texts():
            text.set_parse_math(False)
    return figure


class _Station(NamedTuple):
    """One step of a reshape, and the room that it takes, counted in cells."""

    title: str
    labels: Tensor  # (blocks, rows, columns)
    per_line: int  # blocks side by side
    wide: float
    high: float

    @property
    def width(self) -> float:
        """Return the room for its cells or its title, whichever is wider, and for what lies between two stations."""
        return max(self.wide, 0.22 * len(max(self.title.split("\n"), key=len))) + 1.6


def _as_station(title: str, labels: Tensor, alone: bool) -> _Station:
    """Return the labels checked, their blocks side by side or, among other stations, below each other."""
    check_tensor(f"{title}: labels", labels)
    if labels.is_floating_point() or labels.is_complex():
        wanted = "integers such as 10 * token + feature"
        raise TypeError(f"{title}: labels must be {wanted}, got {labels.dtype}; use .long()")
    sheets = labels[0] if labels.ndim == 4 and len(labels) == 1 else labels
    if not 2 <= sheets.ndim <= 3 or labels.numel() == 0:
        raise ValueError(
            f"{title}: labels must be (rows, columns), (blocks, rows, columns) or that with a batch of 1, got "
            f"{tuple(labels.shape)}; give one sample, x[0]"
        )
    if labels.numel() > 400:
        raise ValueError(f"{title}: {labels.numel()} cells are too many to read; use tiny sizes, up to 400 cells")
    sheets = sheets[None] if sheets.ndim == 2 else sheets
    blocks, rows, columns = sheets.shape
    # As far as a page is high, so that among several stations the eye goes from left to right.
    per_line = blocks if alone else math.ceil(blocks * (rows + 0.9) / 20)
    return _Station(
        title, sheets, per_line, (columns + 0.9) * per_line - 0.9, (rows + 0.9) * math.ceil(blocks / per_line)
    )


def _draw_station(axes: Axes, station: _Station, group: Callable[[int], int], block: str) -> None:
    """Write every number into its cell, and the name of every block above it."""
    blocks, rows, columns = station.labels.shape
    left = (station.width - station.wide) / 2
    corners = [
        (left + place * (columns + 0.9), line * (rows + 0.9))
        for line, place in (divmod(b, station.per_line) for b in range(blocks))
    ]
    for b, (x, y) in enumerate(corners if blocks > 1 else []):
        axes.text(x, y - 0.12, f"{block} {b}", fontsize=8, va="bottom")
    for b, i, j in np.ndindex(blocks, rows, columns):
        (x, y), label = corners[b], station.labels[b, i, j].item()
        look = {"facecolor": COLOURS[group(label) % len(COLOURS)], "edgecolor": "white", "linewidth": 1.5}
        axes.add_patch(Rectangle((x + j, y + i), 1, 1, **look))
        axes.text(x + j + 0.5, y + i + 0.5, str(label), fontsize=9, ha="center", va="center")


def plot_shapes(steps: Sequence[tuple[str, tuple[int, ...]]]) -> DescribedFigure:
    """Draw tensors as boxes, one after the other, each as wide and high as its last two axes (on a log scale).

    Args:
        steps: `(name, shape)` pairs, in the order of the computation; axes before the last two are drawn as
            a stack of at most eight sheets.

    Raises:
        TypeError: a tensor stands in the place of a shape.
        ValueError: there is no step, or a shape has fewer than 2 axes or an empty one.

    Taught in notebook 01.

    Examples:
        >>> from mhalib.plots import plot_shapes
        >>> figure = plot_shapes([("x", (1, 5, 8)), ("heads", (1, 2, 5, 4))])
    """
    if not steps:
        raise ValueError("plot_shapes needs at least one (name, shape)")
    for name, shape in steps:
        if isinstance(shape, Tensor):
            raise TypeError(f"{name}: expected a shape, got a tensor; give tuple(x.shape)")
        if len(shape) < 2 or min(shape) < 1:
            raise ValueError(f"{name}: a shape needs at least 2 axes, none of them empty, got {tuple(shape)}")
    described = " -> ".join(f"{name} {tuple(shape)}" for name, shape in steps)
    figure = new_figure(f"Shapes as boxes: {described}.", (1.9 * len(steps), 2.4))
    axes = figure.subplots()
    for i, (name, shape) in enumerate(steps):
        high, wide = (0.25 + 0.075 * math.log2(size) for size in shape[-2:])
        sheets = min(math.prod(shape[:-2]), 8)
        for sheet in reversed(range(sheets)):
            shift = 0.045 * (sheet - (sheets - 1) / 2)
            corner = (1.6 * i - wide / 2 + shift, -high / 2 + shift)
            axes.add_patch(Rectangle(corner, wide, high, facecolor=COLOURS[0], edgecolor="#333333", linewidth=0.8))
        text = name + "\n(" + ", ".join(map(str, shape)) + ")"
        axes.text(1.6 * i, -0.72, text, ha="center", va="top", fontsize=9, parse_math=False)
        if i:
            arrow = {"arrowstyle": "->", "color": "#333333"}
            axes.annotate("", (1.6 * i - 0.62, 0), (1.6 * i - 0.98, 0), arrowprops=arrow)
    axes.set(xlim=(-0.8, 1.6 * len(steps) - 0.8), ylim=(-1.3, 0.75), aspect="equal")
    axes.axis("off")
    return figure

"""Where the numbers of a tensor go in a reshape, and how large the tensors of a computation are."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from mhalib.arguments import check_tensor
from mhalib.plots.colours import COLOURS
from mhalib.plots.figure import DescribedFigure, new_figure


def plot_reshape(
    steps: Mapping[str, Tensor],
    group: Callable[[int], int],
    group_names: Sequence[str],
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
    """
    if not steps:
        raise ValueError("plot_reshape needs at least one step: {'title': tensor of labels}")
    sheets = {title: _as_sheets(title, labels) for title, labels in steps.items()}  # (blocks, rows, columns) each
    # Side by side as far as a page is high, so that among several stations the eye goes from left to right.
    lines = {
        title: len(x) if len(sheets) == 1 else math.ceil(len(x) * (x.shape[1] + 0.9) / 20)
        for title, x in sheets.items()
    }
    wide = [(x.shape[2] + 0.9) * lines[title] - 0.9 for title, x in sheets.items()]
    tallest = max((x.shape[1] + 0.9) * math.ceil(len(x) / lines[title]) for title, x in sheets.items())
    # Room for the cells or the title, whichever is wider, and for what lies between two stations.
    room = [
        max(cells, 0.22 * max(map(len, title.split("\n")))) + 1.6 for title, cells in zip(sheets, wide, strict=True)
    ]
    told = "; ".join(title.replace("\n", " ") for title in steps)
    figure = new_figure(f"Where each number is: {told}.", (0.42 * sum(room), 0.42 * (tallest + 1.6)))
    panels = np.atleast_1d(figure.subplots(1, len(sheets), width_ratios=room))
    for axes, (title, x), cells, width in zip(panels, sheets.items(), wide, room, strict=True):
        blocks, rows, columns = x.shape
        for b in range(blocks):
            line, place = divmod(b, lines[title])
            left, top = (width - cells) / 2 + place * (columns + 0.9), line * (rows + 0.9)
            if blocks > 1:
                axes.text(left, top - 0.12, f"{block} {b}", fontsize=8, va="bottom")
            for i, j in np.ndindex(rows, columns):
                label = x[b, i, j].item()
                look = {"facecolor": COLOURS[group(label) % len(COLOURS)], "edgecolor": "white", "linewidth": 1.5}
                axes.add_patch(Rectangle((left + j, top + i), 1, 1, **look))
                axes.text(left + j + 0.5, top + i + 0.5, str(label), fontsize=9, ha="center", va="center")
        axes.set(xlim=(0, width), ylim=(tallest, -0.8), aspect="equal")
        axes.set_title(title, fontsize=9, parse_math=False)
        axes.axis("off")
    patches = [Patch(color=COLOURS[i % len(COLOURS)], label=name) for i, name in enumerate(group_names)]
    look = {"loc": "outside lower center", "ncols": min(len(patches), 4), "fontsize": 8, "frameon": False}
    for text in figure.legend(handles=patches, **look).get_texts():
        text.set_parse_math(False)
    return figure


def _as_sheets(title: str, labels: Tensor) -> Tensor:
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
    return sheets.reshape(-1, *sheets.shape[-2:])


def plot_shapes(steps: Sequence[tuple[str, tuple[int, ...]]]) -> DescribedFigure:
    """Draw tensors as boxes, one after the other, each as wide and high as its last two axes (on a log scale).

    Args:
        steps: `(name, shape)` pairs, in the order of the computation; axes before the last two are drawn as
            a stack of at most eight sheets.

    Raises:
        ValueError: there is no step, or a shape has fewer than 2 axes or an empty one.

    Taught in notebook 01.
    """
    if not steps:
        raise ValueError("plot_shapes needs at least one (name, shape)")
    for name, shape in steps:
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

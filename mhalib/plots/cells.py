"""From the numbers of a map to what is drawn: where each stands on a scale, what is pooled, masked, or counted.

`share` gives the place on a colour scale, from 0 (the lowest colour) to 1 (the highest); `ticks` what is written beside
the colour bar. With `top` the end of the scale, a weight w stands at

    "fixed", "maximum"   w / top                            (they differ in what `top` is: 1, or the largest weight)
    "log"                log(w / 1e-4) / log(top / 1e-4)    (from 1e-4 on; below stands the lowest colour)
    "root"               sqrt(w / top)

and a signed value x at 0.5 + sign(x) * share(|x|) / 2, so that 0 has the colour in the middle.
"""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from mhalib.plots.colours import HATCH_COLOURS

SCALES = ("fixed", "maximum", "log", "root")


def share(cells: np.ndarray, scale: str, top: int | float, signed: bool = False) -> np.ndarray:
    """Return where floating numbers of any shape stand, float32 from 0 to 1; -inf at 0, NaN stays NaN.

    Beyond `top`, above 0, is cut off. A `signed` scale runs from -`top` to `top`.
    """
    cells = np.asarray(cells, np.float32)
    if signed:
        return (0.5 + 0.5 * np.sign(cells) * share(np.abs(cells), scale, top)).astype(np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        if scale == "log":
            first = _log_from(top)
            places = np.log(np.maximum(cells, first) / first) / math.log(top / first)
        else:
            places = np.maximum(cells, 0) / top
            places = np.sqrt(places) if scale == "root" else places
    return np.minimum(places, 1).astype(np.float32)


def ticks(scale: str, top: int | float, signed: bool = False) -> list[tuple[float, str]]:
    """Return the marks of a colour bar, from the lowest to the highest: where each stands, and what it says."""
    if scale == "log":
        tens = range(round(math.log10(_log_from(top))), math.floor(math.log10(top) + 1e-6) + 1)
        values = [10.0**n for n in tens]
        far = top / values[-1] < 2  # two marks in one place cannot be read
        values = [*(values[:-1] if far and len(values) > 1 else values), top]
    else:
        values = [top * part for part in ((0, 0.5, 1) if signed else (0, 0.25, 0.5, 0.75, 1))]
    places = share(np.array(values), scale, top).tolist()
    marks = [(place, f"{value:.3g}") for place, value in zip(places, values, strict=True)]
    if scale == "log":
        marks[0] = (marks[0][0], f"≤ {values[0]:.3g}")
    if signed:
        below = [(0.5 - place / 2, f"−{said}") for place, said in reversed(marks) if place > 0]
        marks = [*below, (0.5, "0"), *((0.5 + place / 2, said) for place, said in marks if place > 0)]
    return marks


def _log_from(top: int | float) -> float:
    """Return where a logarithmic scale begins: at 1e-4, or lower where hardly anything would be left above."""
    return 1e-4 if top >= 1e-3 else 10.0 ** (math.floor(math.log10(top)) - 4)


def pooled(cells: np.ndarray, rows: int, columns: int, signed: bool = False) -> np.ndarray:
    """Return maps in which every cell is the largest of `rows` x `columns` cells, the last ones of what is left.

    A mean would turn a single sharp weight among many into nothing. Cells are `(..., Tq, Tk)` float32, -inf where
    masked; `(..., ceil(Tq / rows), ceil(Tk / columns))` come back, NaN where one is NaN, -inf where all are masked.
    Where they are `signed`, it is the one that is largest by its size, with its sign.
    """
    if rows == columns == 1:
        return cells
    high = _largest(cells, rows, columns)
    if not signed:
        return high
    # What is masked must not be the lowest. Of two that are as large by size, the positive one stays.
    low = -_largest(-np.where(np.isneginf(cells), np.inf, cells), rows, columns)
    return np.where(high >= -low, high, low)


def _largest(cells: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Pool by the maximum, the queries first: whole rows lie together in memory. NaN is the largest of all."""
    for axis, step in ((-2, rows), (-1, columns)):
        if step > 1:  # reduceat takes several times as long
            starts = np.arange(0, cells.shape[axis], step)
            cells = np.maximum.reduce([cells.take(starts + i, axis, mode="clip") for i in range(step)])
    return cells


def pooled_words(rows: int, columns: int, signed: bool = False) -> str:
    """Return what to write under a map of such cells: "each pixel: the largest of 16 × 16 weights", or nothing."""
    if rows <= 1 and columns <= 1:
        return ""
    return f"each pixel: the largest of {rows} × {columns} {'values' if signed else 'weights'}" + " by size" * signed


def round_numbers(first: int, past: int, most: int) -> list[int]:
    """Return at most `most` round numbers from `first` to before `past`, evenly spaced, for an axis without tokens."""
    least = max(1.0, (past - first) / max(1, most))
    ten = 10 ** math.floor(math.log10(least))
    step = next(ten * n for n in (1, 2, 5, 10) if ten * n >= least)
    return list(range(math.ceil(first / step) * step, past, step))


def hatch(axes: Axes, cells: np.ndarray, side: float, size: tuple[float, float] = (1.0, 1.0)) -> None:
    """Draw the strokes of a mask on cells of an image: they rise to the right and go on from cell to cell.

    Args:
        cells: `(n, 2)`, row and column of each cell, its middle at whole numbers.
        side: inches of a cell; a large one gets several strokes.
        size: what a cell measures along x and y, where that is not 1; cell (0, 0) then begins at the origin.
    """
    count = 2 * round(side / 0.18) or 1  # with an odd number they would not meet at the edge of two cells
    turns = (2 * np.arange(count) + 1) / count - 1  # of x + y, from corner to corner of a cell
    x = np.stack([np.maximum(-0.5, turns - 0.5), np.minimum(0.5, turns + 0.5)], -1)  # (count, 2)
    strokes = np.stack([x, turns[:, None] - x], -1)  # (count, 2, 2): both ends, x and y
    places = (np.asarray(cells)[:, None, None, ::-1] + strokes).reshape(-1, 2, 2)
    if size != (1.0, 1.0):
        places = (places + 0.5) * size
    axes.add_collection(LineCollection(places, colors=HATCH_COLOURS["light"], linewidths=0.6), autolim=False)

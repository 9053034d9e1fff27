"""The strokes on cells that a mask forbids: lines that rise to the right and go on from cell to cell."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from mhalib.plots.colours import HATCH_COLOURS

_APART = 0.09  # inches between two strokes


def hatch(axes: Axes, cells: np.ndarray, side: float, size: tuple[float, float] = (1.0, 1.0)) -> None:
    """Draw strokes on cells of an image.

    Args:
        cells: `(n, 2)`, row and column of each cell, its middle at whole numbers.
        side: inches of a cell; a large one gets several strokes.
        size: what a cell measures along x and y, where that is not 1; cell (0, 0) then begins at the origin.
    """
    count = 2 * round(side / _APART / 2) or 1  # with an odd number they would not meet at the edge of two cells
    turns = (2 * np.arange(count) + 1) / count - 1  # of x + y, from corner to corner of a cell
    x = np.stack([np.maximum(-0.5, turns - 0.5), np.minimum(0.5, turns + 0.5)], -1)  # (count, 2)
    strokes = np.stack([x, turns[:, None] - x], -1)  # (count, 2, 2): both ends, x and y
    places = np.asarray(cells)[:, None, None, ::-1] + strokes
    places = places.reshape(-1, 2, 2)
    if size != (1.0, 1.0):
        places = (places + 0.5) * size
    axes.add_collection(LineCollection(places, colors=HATCH_COLOURS["light"], linewidths=0.6), autolim=False)

"""Maps with more cells than a picture has pixels: each pixel shows the largest of the weights that it stands for.

A mean would turn a single sharp weight among many into nothing; what is pooled by its maximum can be seen, whatever
the size of the map.
"""

import math

import numpy as np


def pooled(cells: np.ndarray, rows: int, columns: int, signed: bool = False) -> np.ndarray:
    """Return maps in which every cell is the largest of `rows` x `columns` cells; the last ones of what is left.

    Args:
        cells: `(..., Tq, Tk)` float32, -inf where masked, NaN where NaN.
        rows, columns: how many queries and keys become one.
        signed: take the one that is largest by its size, with its sign.

    Returns:
        `(..., ceil(Tq / rows), ceil(Tk / columns))` float32, NaN where one is NaN, -inf where all are masked.
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
    tall, wide = cells.shape[-2:]
    if rows > 1:
        cells = np.maximum.reduceat(cells, np.arange(0, tall, rows), axis=-2)
    if columns > 1:
        cells = np.maximum.reduceat(cells, np.arange(0, wide, columns), axis=-1)
    return cells


def pooled_words(rows: int | float, columns: int | float, signed: bool = False) -> str:
    """Return what to write under a map of such cells: "each pixel: the largest of 16 × 16 weights", or nothing."""
    if rows <= 1 and columns <= 1:
        return ""
    whole = float(rows).is_integer() and float(columns).is_integer()
    count = f"{math.ceil(rows)} × {math.ceil(columns)}"
    said = f"each pixel: the largest of {count if whole else f'up to {count}'} {'values' if signed else 'weights'}"
    return said + " by size" * signed


def round_numbers(first: int, past: int, most: int) -> list[int]:
    """Return at most `most` round numbers from `first` to before `past`, evenly spaced, for an axis without tokens.

    Examples:
        >>> from mhalib.plots import round_numbers
        >>> round_numbers(0, 100, 5)
        [0, 20, 40, 60, 80]
    """
    least = max(1.0, (past - first) / max(1, most))
    ten = 10 ** math.floor(math.log10(least))
    step = next(ten * n for n in (1, 2, 5, 10) if ten * n >= least)
    return list(range(math.ceil(first / step) * step, past, step))

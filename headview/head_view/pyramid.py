"""Maps made smaller: a pyramid of levels for the map that is looked at, and an overview of all heads of a layer.

Nothing here knows of tokens or of choices: in go numbers, -inf where masked and NaN where NaN, out come fewer. The
largest of a block stands for it, so that a thin diagonal does not vanish; in a map of signed numbers that is the one
farthest from 0, the positive one of two that are as far.
"""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

TILE = 256  # cells along each side of a tile; the last level fits into one
LEAST_SIDE = 160  # an axis of no more cells is not halved: a map is given so many pixels at least (layout.js)
_BAND = 32  # rows that are pooled at once: they stay in the cache of a core
_WORTH_A_THREAD = 65_536  # cells of a map; handing a smaller one to a thread takes longer than pooling it
_BITS = {  # the integers that the bits of a number are, in torch and, without a sign, in numpy
    torch.float16: (torch.int16, np.uint16),
    torch.bfloat16: (torch.int16, np.uint16),
    torch.float32: (torch.int32, np.uint32),
}


class Pyramid:
    """A map at all sizes, each level half as long as the one below, and half as wide; made when asked for, and kept.

    Args:
        cells: float32 `(rows, columns)`, -inf where masked, NaN where NaN: level 0.
        signed: whether the largest of a block is the one farthest from 0.

    `levels` is how many there are; the last one has at most 256 rows and columns.
    """

    def __init__(self, cells: np.ndarray, signed: bool):
        self.signed = signed
        self._made = [cells]
        self.levels = 1 + max(0, math.ceil(math.log2(max(cells.shape) / TILE)))

    def level(self, number: int) -> np.ndarray:
        """Return the largest of each block of a level, at the far edges of what is there of it.

        NaN in a block makes it NaN; it is masked where all of it is.
        """
        while len(self._made) <= number:
            self._made.append(_half(self._made[-1], self.signed))
        return self._made[number]

    def block(self, number: int) -> list[int]:
        """Return how many rows and columns of the map a cell of a level stands for; a short axis stays as it is."""
        return [2 ** min(number, max(0, math.ceil(math.log2(size / LEAST_SIDE)))) for size in self.level(0).shape]

    def tile(self, number: int, row: int, column: int) -> np.ndarray:
        """Return tile `(row, column)` of a level, at most 256 x 256."""
        return self.level(number)[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]


def overview(layer: Tensor, side: int, *, allowed: Tensor | None = None, signed: bool = False) -> np.ndarray:
    """Return every head of a layer `(h, Tq, Tk)` shrunk to at most `side` x `side` cells, the largest of each block.

    The layer is floating, on any device; half precision is read as it is. `allowed` is boolean, broadcasts to it, and
    is False where cells are masked. Of `signed` numbers the largest is the one farthest from 0. The result is float32
    `(h, rows, columns)`, -inf where all of a block is masked, NaN where some of it is NaN.
    """
    layer, parts = layer.detach(), [min(size, side) for size in layer.shape[1:]]
    edges = edges_of(layer.shape[1:], parts)
    pooled = np.empty((len(layer), *parts), np.float32)
    blocked = doubtful = None
    if allowed is not None:
        allowed = allowed.cpu().expand(layer.shape)
        open_ = (allowed[:1] if allowed.stride(0) == 0 else allowed).numpy()  # one mask for all heads is read once
        blocked = np.broadcast_to(~by_blocks(edges)(np.logical_or, open_), pooled.shape)
        # A row without any open key may hold weight all the same, an average or NaN; no other blocked cell does.
        doubtful = np.logical_or.reduceat(~open_.any(-1), edges[0][:-1], axis=-1)
        doubtful = np.broadcast_to(doubtful, pooled.shape[:2])

    def exact(cells: Tensor, heads, rows: slice) -> np.ndarray:
        own = cells[..., rows, :].float()
        return (own if allowed is None else own.masked_fill(~allowed[heads, rows], -torch.inf)).numpy()

    def pool(first: int) -> None:
        heads = slice(first, first + step)
        cells = layer[heads].cpu()
        if signed or cells.dtype not in _BITS:
            pooled[heads] = largest(exact(cells, heads, slice(None)), signed, by_blocks(edges))
            return
        # Numbers from 0 up order like their bits. Taken as unsigned, whatever is less than 0, and NaN of either sign
        # (x86 answers 0/0 with a negative one), is above infinity and so found in the maximum.
        kind, unsigned = _BITS[cells.dtype]
        most = by_blocks(edges)(np.maximum, cells.view(kind).numpy().view(unsigned))
        infinity = torch.tensor(torch.inf, dtype=cells.dtype).view(kind).item()
        pooled[heads] = torch.from_numpy(most).view(cells.dtype).float().numpy()
        exactly = (most > infinity).any(-1)
        if blocked is not None:
            pooled[heads][blocked[heads]] = -np.inf
            exactly = exactly | doubtful[heads]
        for head, band in np.argwhere(exactly):
            own = exact(cells[head], first + head, slice(*edges[0][band : band + 2]))
            pooled[first + head, band] = largest(own, signed, by_blocks([[0, len(own)], edges[1]]))[0]

    step = len(layer) if layer[0].numel() < _WORTH_A_THREAD else 1
    _on_all_cores(pool, range(0, len(layer), step))
    return pooled


def _on_all_cores(do, many: range) -> None:
    with ThreadPoolExecutor(max(1, min(torch.get_num_threads(), os.cpu_count() or 1))) as pool:
        list((map if len(many) == 1 else pool.map)(do, many))


def largest(cells: np.ndarray, signed: bool, pool) -> np.ndarray:
    """Return the largest of each block that `pool` makes by a ufunc; numpy's maximum hands NaN on."""
    most = pool(np.maximum, cells)
    if not signed:
        return most
    least = pool(np.minimum, np.where(np.isneginf(cells), np.float32(np.inf), cells))
    return np.where(most >= -least, most, least)


def tops_of(small: np.ndarray) -> np.ndarray:
    """Return the largest size of a number of each map `(..., rows, columns)`, float32; 0 where there is none."""
    return np.where(np.isfinite(small), np.abs(small), np.float32(0)).max((-2, -1))


def edges_of(shape: Sequence[int], parts: Sequence[int]) -> list[list[int]]:
    """Return where the blocks of an overview begin, rows and columns, and where the last of them ends."""
    return [[-(-i * size // n) for i in range(n + 1)] for size, n in zip(shape, parts, strict=True)]


def by_blocks(edges: list[list[int]]):
    """Return what reduces blocks of maps with these edges; numpy's reduceat is slow along rows and in narrow blocks."""

    def pool(ufunc: np.ufunc, cells: np.ndarray) -> np.ndarray:
        for axis, ends in zip((-2, -1), map(np.array, edges), strict=True):
            if (wide := np.diff(ends).max()) <= 4:
                cells = ufunc.reduce([cells.take(np.minimum(ends[:-1] + i, ends[1:] - 1), axis) for i in range(wide)])
            elif axis == -2:
                cells = np.stack([ufunc.reduce(cells[..., start:end, :], axis=-2) for start, end in pairwise(ends)], -2)
            else:
                cells = ufunc.reduceat(cells, ends[:-1], axis=-1)
        return cells

    return pool


def _half(cells: np.ndarray, signed: bool) -> np.ndarray:
    """Return the level above, band by band on all cores."""
    down, across = steps = [2 if size > LEAST_SIDE else 1 for size in cells.shape]
    above = np.empty([-(-size // step) for size, step in zip(cells.shape, steps, strict=True)], np.float32)

    def of_block(ufunc: np.ufunc, band: np.ndarray) -> np.ndarray:
        band = ufunc(band[::2], band[1::2]) if down == 2 else band
        return ufunc(band[:, ::2], band[:, 1::2]) if across == 2 else band

    def pool(first: int) -> None:
        band = cells[first : first + _BAND]
        missing = [(0, size % step) for size, step in zip(band.shape, steps, strict=True)]
        if any(map(any, missing)):  # masked cells at the far edges change no block
            band = np.pad(band, missing, constant_values=-np.inf)
        above[first // down : (first + _BAND) // down] = largest(band, signed, of_block)

    _on_all_cores(pool, range(0, len(cells), _BAND))
    return above

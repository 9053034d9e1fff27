"""Maps made smaller: a pyramid of levels for the map that is looked at, and an overview of all heads of a layer.

Nothing here knows of tokens or of choices: in go numbers, -inf where masked and NaN where NaN, out come fewer. The
largest of a block stands for it, so that a thin diagonal does not vanish; in a map of signed numbers that is the one
farthest from 0, the positive one of two that are as far.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

TILE = 256  # cells along each side of a tile; the last level fits into one
_BAND = 32  # rows that are pooled at once: they stay in the cache of a core
_WORTH_A_THREAD = 65_536  # cells of a map; handing a smaller one to a thread takes longer than pooling it
_BITS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}


class Pyramid:
    """A map at all sizes, each level half as long as the one below; made when it is asked for, and kept.

    Args:
        cells: float32 `(rows, columns)`, -inf where masked, NaN where NaN: level 0.
        signed: whether the largest of a block is the one farthest from 0.

    `levels` is how many there are; the last one has at most 256 rows and columns.
    """

    def __init__(self, cells: np.ndarray, signed: bool):
        self.signed = signed
        self._made = [cells]
        longest = max(*cells.shape, 1)
        self.levels = 1
        while longest > TILE:
            longest = -(-longest // 2)
            self.levels += 1

    def level(self, number: int) -> np.ndarray:
        """Return the largest of each block of a level.

        A block is 2 x 2 cells of the level below, at the far edges what is there of it. NaN in it makes it NaN; it is
        masked where all of it is.
        """
        while len(self._made) <= number:
            self._made.append(_half(self._made[-1], self.signed))
        return self._made[number]

    def tile(self, number: int, row: int, column: int) -> np.ndarray:
        """Return tile `(row, column)` of a level, at most 256 x 256."""
        return self.level(number)[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]


def overview(layer: Tensor, side: int, *, allowed: Tensor | None = None, signed: bool = False) -> np.ndarray:
    """Return every head of a layer shrunk to at most `side` x `side` cells, the largest of each block.

    Args:
        layer: floating `(h, Tq, Tk)`, on any device; half precision is read as it is.
        side: the most rows and columns of an overview.
        allowed: boolean, broadcastable to `(h, Tq, Tk)`, True where attention is allowed; blocked cells are masked.
        signed: whether the largest is the number farthest from 0.

    Returns:
        float32 `(h, rows, columns)`, -inf where all of a block is masked, NaN where some of it is NaN.
    """
    heads, *lengths = layer.shape
    starts = [
        np.array([-(-i * size // parts) for i in range(parts)]) for size in lengths for parts in [min(size, side)]
    ]
    blocked, doubtful = _pooled_mask(allowed, layer.shape, starts)
    pooled = np.empty((heads, *map(len, starts)), np.float32)

    def pool(head: int) -> None:
        cells, mask = layer[head].detach(), None if allowed is None else allowed.expand(layer.shape)[head]
        pooled[head] = _pool_head(cells.cpu(), mask, starts, signed, None if doubtful is None else doubtful[head])
        if blocked is not None:
            pooled[head][blocked[head]] = -np.inf

    if layer[0].numel() < _WORTH_A_THREAD:
        for head in range(heads):
            pool(head)
    else:
        with ThreadPoolExecutor(_workers()) as pool_of_threads:
            list(pool_of_threads.map(pool, range(heads)))
    return pooled


def _workers() -> int:
    return max(1, min(torch.get_num_threads(), os.cpu_count() or 1))


def _pooled_mask(allowed, shape, starts):
    """Return which blocks are masked `(h, rows, columns)` and which rows of blocks hold a row without any open key.

    A row that may attend to nothing may hold weight all the same, an average or NaN; no other blocked cell does.
    """
    if allowed is None:
        return None, None
    allowed = allowed.expand(shape)
    distinct = allowed[:1] if allowed.stride(0) == 0 else allowed  # one mask for all heads is looked at once
    open_ = distinct.cpu().numpy()
    blocked = ~np.stack([_reduced(np.logical_or, one, starts) for one in open_])
    doubtful = np.logical_or.reduceat(~open_.any(-1), starts[0], axis=1)
    return np.broadcast_to(blocked, (shape[0], *blocked.shape[1:])), np.broadcast_to(
        doubtful, (shape[0], len(starts[0]))
    )


def _pool_head(cells: Tensor, mask, starts, signed: bool, doubtful) -> np.ndarray:
    """Return one head pooled, from the bits of its numbers as far as these are in order."""
    if signed or cells.dtype not in _BITS:
        return _pool_exactly(cells, mask, starts, signed)
    # Numbers from 0 up order like their bits. Taken as unsigned, whatever is less than 0, and NaN of either sign
    # (x86 answers 0/0 with a negative one), is above infinity and so found in the maximum.
    bits = cells.view(_BITS[cells.dtype]).numpy()
    bits = bits.view(np.uint16 if bits.itemsize == 2 else np.uint32)
    most = _reduced(np.maximum, bits, starts)
    infinity = torch.tensor(torch.inf, dtype=cells.dtype).view(_BITS[cells.dtype]).item()
    exactly = (most > infinity).any(1) if doubtful is None else (most > infinity).any(1) | doubtful
    signed_bits = torch.from_numpy(most.view(np.int16 if most.itemsize == 2 else np.int32))
    pooled = signed_bits.view(cells.dtype).float().numpy()
    ends = [*starts[0][1:], len(cells)]
    for band in np.flatnonzero(exactly):
        part = slice(starts[0][band], ends[band])
        pooled[band] = _pool_exactly(cells[part], None if mask is None else mask[part], [[0], starts[1]], signed)[0]
    return pooled


def _pool_exactly(cells: Tensor, mask, starts, signed: bool) -> np.ndarray:
    """Return a head pooled as float32, whatever it holds."""
    cells = cells.float()
    if mask is not None:
        cells = cells.masked_fill(~mask.cpu(), -torch.inf)
    return _largest(cells.numpy(), starts, signed)


def _reduced(ufunc: np.ufunc, cells: np.ndarray, starts) -> np.ndarray:
    """Return each block of `(rows, columns)` reduced, the rows first: numpy's reduceat is slow along them."""
    ends = [*starts[0][1:], len(cells)]
    bands = [ufunc.reduce(cells[start:end], axis=0) for start, end in zip(starts[0], ends, strict=True)]
    return ufunc.reduceat(np.stack(bands), starts[1], axis=1)


def _largest(cells: np.ndarray, starts, signed: bool) -> np.ndarray:
    """Return the largest of each block; numpy's maximum hands NaN on."""
    most = _reduced(np.maximum, cells, starts)
    if not signed:
        return most
    turned = np.where(np.isneginf(cells), np.float32(np.inf), cells)
    least = _reduced(np.minimum, turned, starts)
    return np.where(most >= -least, most, least)


def _half(cells: np.ndarray, signed: bool) -> np.ndarray:
    """Return the level above, band by band on all cores."""
    above = np.empty([-(-size // 2) for size in cells.shape], np.float32)

    def pool(first: int) -> None:
        above[first // 2 : (first + _BAND) // 2] = _largest_of_four(_even(cells[first : first + _BAND]), signed)

    with ThreadPoolExecutor(_workers()) as pool_of_threads:
        list(pool_of_threads.map(pool, range(0, len(cells), _BAND)))
    return above


def _even(band: np.ndarray) -> np.ndarray:
    """Return a band with masked cells added at its far edges where its sides are odd: they change no block."""
    odd = [(0, size % 2) for size in band.shape]
    return np.pad(band, odd, constant_values=-np.inf) if any(map(any, odd)) else band


def _largest_of_four(band: np.ndarray, signed: bool) -> np.ndarray:
    pairs = np.maximum(band[::2], band[1::2])
    most = np.maximum(pairs[:, ::2], pairs[:, 1::2])
    if not signed:
        return most
    turned = np.where(np.isneginf(band), np.float32(np.inf), band)
    pairs = np.minimum(turned[::2], turned[1::2])
    least = np.minimum(pairs[:, ::2], pairs[:, 1::2])
    return np.where(most >= -least, most, least)

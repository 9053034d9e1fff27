"""What a view opens with: which cells a mask seems to forbid, which scale shows something, and the strongest cell.

All of it is told from the numbers, and of large parts from some of their rows.
"""

from dataclasses import replace

import numpy as np
import torch

from headview.head_view.check_rows import looked_at
from headview.head_view.combine import head_cells
from headview.head_view.labels import is_special
from headview.head_view.pyramid import edges_of

_SOME_ROWS = 6  # of each head of a large part, for the choice of a scale
_MANY = 4_000_000  # weights
_SEEN = 0.25  # a weight from which on a cell has a colour of its own on the fixed scale ...
_MOST_IS_SEEN = 0.7  # ... which is taken where so much of all attention lies in such cells
_NEARLY_ALL = 0.9  # of the cells that a mask leaves open hold weight in some head
_FIXED_FROM = 0.35  # the largest number that is shown; of less the fixed scale shows little, a mean over heads
_ROOT_FROM = 0.02  # and of less than that the square root shows little
_ROOT_TO_ONE_FROM = 0.1  # of a part; where its weights are all smaller, the square root ends at the largest of them


def with_causal_mask(part):
    """Return a part with a causal mask where it has none and all heads are exactly 0 above the diagonal.

    A last query that sees all keys ends that diagonal, also where there are more keys than queries. An alignment of
    two texts leaves the same zeros there, and others: then what is open must hold weight nearly everywhere.
    """
    _, _, queries, keys = part.shape
    if part.kind not in ("weights", "part") or not 3 <= queries <= keys or any(m is not None for m in part.allowed):
        return part
    rows = looked_at(part.layers)
    rows = torch.arange(queries) if rows is None else rows
    future = torch.arange(keys) > (rows + keys - queries)[:, None]
    seen, held = False, torch.zeros_like(future)
    for layer in part.layers:
        at, ahead = rows.to(layer.device), future.to(layer.device)
        if (layer[:, :, at[:1]][..., ahead[:1]] != 0).any():  # most maps end here, after one row
            return part
        holds = layer[:, :, at] != 0
        if holds[..., ahead].any():
            return part
        seen = seen or bool(holds.sum() > holds[..., 0].numel())
        held |= holds.flatten(0, 1).any(0).cpu()
    if not seen or (queries < keys and held[~future].float().mean() < _NEARLY_ALL):
        return part  # a diagonal alone, or nothing: no mask made that
    allowed = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return replace(part, allowed=[allowed] * len(part.layers), guessed_mask=True)


def scale_that_shows(part) -> str:
    """Return the scale on which most of a part can be seen: "fixed" or "root"; numbers of any size end at their own."""
    if part.kind in ("signed", "positive"):
        return "maximum"
    layers, heads, queries, keys = part.shape
    few = layers * heads * queries * keys <= _MANY
    rows = torch.arange(queries) if few else torch.linspace(0, queries - 1, min(_SOME_ROWS, queries)).round().long()
    total = large = 0.0
    for layer in part.layers:
        cells = layer[0][:, rows.to(layer.device)].to("cpu", torch.float32).nan_to_num(0)
        total += float(cells.sum())
        large += float((cells * (cells >= _SEEN)).sum())
    return "fixed" if large >= _MOST_IS_SEEN * total else "root"


def scale_of_shown(auto: str, largest: float, of_all: float) -> tuple[str, float]:
    """Return the scale of a map whose largest number is known, and that of all heads; `selection.js` decides the same.

    Beside it stands where it ends, where it does not end at the largest number of what is shown.
    """
    auto = "root" if auto == "fixed" and largest < _FIXED_FROM else auto
    auto = "maximum" if auto == "root" and largest < _ROOT_FROM else auto
    end = max(largest, of_all)
    return auto, end if auto == "root" and end < _ROOT_TO_ONE_FROM else 1.0


def strongest_place(part, sample: int, small: np.ndarray, cells_of, layer: int | None, head: int | None):
    """Return layer, head, query and key of the strongest cell that is worth a look.

    Off the diagonal, and at no token that takes attention in every model: the first one and special ones.

    Args:
        part, sample: the maps, and which of their samples is looked at.
        small: `(layers, h, r, c)`, all heads shrunk, the largest of each block.
        cells_of: returns the map of a layer and a head, float32.
        layer, head: look only there; anywhere where they are None.
    """
    rows, columns = edges_of(part.shape[2:], small.shape[2:])
    # Of a block that holds a cell that is not worth it, the largest may be that one.
    axes = _open(part, sample)
    open_ = [np.logical_and.reduceat(*axis) for axis in zip(axes, (rows[:-1], columns[:-1]), strict=True)]
    blocks = _off_the_diagonal(part, *open_)
    layer, head, row, column = _strongest(small, blocks if blocks.any() else ~blocks, layer, head)
    inside = slice(*rows[row : row + 2]), slice(*columns[column : column + 2])
    open_ = [axis[piece] for axis, piece in zip(axes, inside, strict=True)]
    looked = _off_the_diagonal(part, *open_, rows[row] - columns[column])
    *_, query, key = _strongest(cells_of(layer, head)[inside][None, None], looked)
    return layer, head, rows[row] + query, columns[column] + key


def strongest_in_row(part, sample: int, query: int | None, key: int | None, layer: int | None, head: int | None):
    """Return layer, head, query and key of the strongest cell of one query (the first if None), or at one key.

    It is looked for in one `layer` and `head`, or anywhere where they are None.
    """
    query = query or 0
    rows = (head_cells(part, sample, i, queries=torch.tensor([query])).numpy() for i in range(part.shape[0]))
    queries, keys = _open(part, sample)
    open_ = _off_the_diagonal(part, queries[[query]], keys, query)
    looked = np.arange(open_.size) == key if key is not None else open_ if open_.any() else ~open_
    layer, head, _, best = _strongest(np.stack([*rows]), looked, layer, head)
    return layer, head, query, best if key is None else key


def _strongest(cells: np.ndarray, looked: np.ndarray, layer: int | None = None, head: int | None = None) -> list[int]:
    """Return the place of the largest size among `(layers, h, rows, columns)`, where `looked` says so if possible."""
    sizes = np.abs(cells)  # changed in place: each copy of a million takes as long as the search
    sizes[~np.isfinite(sizes)] = sizes[..., ~looked] = -1
    for axis, only in enumerate((layer, head)):
        if only is not None:
            sizes = np.where(np.indices(sizes.shape, sparse=True)[axis] == only, sizes, -2)
    return [int(i) for i in np.unravel_index(sizes.argmax(), sizes.shape)]


def _open(part, sample: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which queries and which keys may be opened on; all of an axis where there would be none."""
    axes = []
    for size, labels, first in zip(part.shape[2:], (part.tokens, part.key_tokens), (0, 1), strict=True):
        open_ = np.ones(size, bool)
        open_[:first] = False
        open_[[i for i, label in enumerate(labels[sample] if labels else []) if is_special(label)]] = False
        axes.append(open_ if open_.any() else ~open_)
    return axes[0], axes[1]


def _off_the_diagonal(part, queries: np.ndarray, keys: np.ndarray, first: int = 0) -> np.ndarray:
    """Return which cells of some open queries and keys are off the diagonal, whose first cell is in column `first`."""
    square = part.shape[2] == part.shape[3] > 1
    return np.logical_and.outer(queries, keys) & ~(square & np.eye(len(queries), len(keys), first, dtype=bool))

"""What one picture of a map shows: chosen heads of a part, combined, by words, without hidden tokens.

`compute` follows one order of work, and `combine.js` the same in a page without a kernel:
heads -> values or rollout -> combine -> words -> hidden tokens -> renormalise -> difference.

A spec is a dict: `part`, `sample`, `side` ("a", "b", "difference"), `heads` ([[layer, head], ...]), `combine`
("maximum", "mean"), `values` ("weights", "values", "rollout"), `hidden` (labels), `renormalise`, `words`. What is
left out has its plain value. Whether a choice can be made is checked where it is made, in `state.py` and on the page.
Masked cells are -inf; where numbers are added or averaged and some are masked, weights count them as 0 within a word,
and means over heads leave them out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headview.head_view.codes import encode
from headview.head_view.pyramid import largest, overview
from mhalib.heads import rollout


@dataclass
class Shown:
    """A map as it is shown.

    `cells` are float32 `(rows, columns)`, -inf where masked, NaN where NaN; `rows` and `columns` say which tokens
    each of them stands for; `top` is the largest finite size of a cell, 0 where there is none.
    """

    cells: np.ndarray
    rows: list[list[int]]
    columns: list[list[int]]
    signed: bool
    top: float


def compute(part, spec: dict, other=None) -> Shown:
    """Return what a spec shows of a part; where nothing is changed, the cells are the reader's own numbers.

    For the sides "b" and "difference", `other` is the part to compare with, of the same shape.
    """
    rows, columns = groups_of(part, spec)
    cells = _cells(part, spec, other, rows, columns)
    return Shown(cells, rows, columns, is_signed(part, spec), _top(cells, is_signed(part, spec)))


def exact_row(part, spec: dict, row: int, other=None) -> np.ndarray:
    """Return a row of what `compute` shows, float32 `(columns,)`; only a rollout is computed in full for it."""
    rows, columns = groups_of(part, spec)
    return _cells(part, spec, other, rows[row : row + 1], columns)[0]


def is_signed(part, spec: dict) -> bool:
    """May the cells of this spec be below 0?"""
    return part.kind == "signed" or spec.get("side", "a") == "difference"


def head_cells(
    part, sample: int, layer: int, head: int | slice = slice(None), queries=None, keys=slice(None)
) -> Tensor:
    """Return one head `(Tq, Tk)`, or all of a layer `(h, Tq, Tk)`, as float32 on the CPU, -inf where masked.

    Of it only the rows `queries`, `(n,)`, unless that is None; with `keys`, `(n,)`, one cell of each of them.
    """

    def chosen(x: Tensor) -> Tensor:
        x = x.detach().expand(part.layers[layer].shape)[sample, head]
        return (x if queries is None else x[..., queries.to(x.device), keys]).cpu()

    cells = chosen(part.layers[layer]).float()
    if part.allowed[layer] is not None:
        cells = cells.masked_fill(~chosen(part.allowed[layer]), -torch.inf)
    if cells.numel() and not cells.numpy().max() < torch.inf:  # infinite scores can be neither coded nor averaged
        cells = cells.masked_fill(cells == torch.inf, torch.nan)
    return cells


def whole(part, sample: int, storage: str) -> tuple[bytes, bytes]:
    """Return the codes of all heads `(layers, h, Tq, Tk)` and the largest number of each, float32 `(layers, h)`."""
    layers = (head_cells(part, sample, i).numpy() for i in range(len(part.layers)))
    coded = [encode(cells, storage, signed=part.kind == "signed") for cells in layers]
    return b"".join(codes.tobytes() for codes, _ in coded), b"".join(tops.tobytes() for _, tops in coded)


def overviews(part, sample: int, side: int, other=None) -> np.ndarray:
    """Return all heads of a part shrunk to at most `side` x `side` cells, float32 `(layers, h, rows, columns)`.

    With another part of the same shape, they are those of the differences to it.
    """
    layers, heads, *_ = part.shape
    if other is not None:

        def small(*pair: int) -> np.ndarray:
            spec = {"sample": sample, "side": "difference", "heads": [pair]}
            return overview(torch.from_numpy(compute(part, spec, other).cells)[None], side, signed=True)[0]

        return np.stack([[small(i, j) for j in range(heads)] for i in range(layers)])
    found = []
    for layer, allowed in zip(part.layers, part.allowed, strict=True):
        open_ = None if allowed is None else allowed.detach().expand(layer.shape)[sample]
        found.append(overview(layer.detach()[sample], side, allowed=open_, signed=part.kind == "signed"))
    return np.stack(found)


def norms(part, sample: int) -> np.ndarray:
    """Return the lengths of the value vectors, float32 `(layers, h, Tk)`: what a weight has to move.

    Kobayashi et al., Attention is Not Only a Weight (EMNLP 2020).
    """
    return torch.stack([v[sample].detach().to("cpu", torch.float32).norm(dim=-1) for v in part.values]).numpy()


def groups_of(part, spec: dict) -> tuple[list[list[int]], list[list[int]]]:
    """Return which tokens each row and each column of a spec stands for.

    A word is hidden if all of its tokens are; one that is hidden in part stays whole.
    """
    _, _, *lengths = part.shape
    sample = spec.get("sample", 0)
    hidden = set(spec.get("hidden") or ())
    words = part.words[sample] if spec.get("words") and part.words else ([], [])
    axes = []
    for length, given, labels in zip(lengths, words, (part.tokens, part.key_tokens), strict=True):
        groups = _runs(given) if len(given) else [[i] for i in range(length)]
        if hidden:
            names = labels[sample] if labels and labels[sample] else [str(i) for i in range(length)]
            groups = [group for group in groups if any(names[i] not in hidden for i in group)]
        axes.append(groups)
    return axes[0], axes[1]


def _runs(numbers: list[int]) -> list[list[int]]:
    """Return the places of equal numbers that follow each other."""
    cuts = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
    return [list(range(*ends)) for ends in zip([0, *cuts], [*cuts, len(numbers)], strict=True)]


def _cells(part, spec: dict, other, rows, columns) -> np.ndarray:
    """Return the cells of these rows and columns."""
    side = spec.get("side", "a")
    sides = [_side(one, spec, rows, columns) for one in {"a": [part], "b": [other]}.get(side, [part, other])]
    return _difference(*sides) if side == "difference" else sides[0]


def _difference(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return `after - before`; what is masked in one of them counts as 0 there."""
    hidden_before, hidden_after = np.isneginf(before), np.isneginf(after)
    if not (hidden_before.any() or hidden_after.any()):
        return after - before
    plain = np.where(hidden_after, np.float32(0), after) - np.where(hidden_before, np.float32(0), before)
    return np.where(hidden_before & hidden_after, np.float32(-np.inf), plain)


def _side(part, spec: dict, rows, columns) -> np.ndarray:
    _, _, queries, keys = part.shape
    signed = part.kind == "signed"
    picked = torch.tensor([i for row in rows for i in row], dtype=torch.long)
    picked = None if len(picked) == queries else picked
    cells = _combined(_maps(part, spec, picked), spec.get("combine", "maximum"), signed).numpy()
    shown = [i for column in columns for i in column]
    cells = cells if len(shown) == keys else cells[:, shown]
    cells = _grouped(cells, columns, 1, signed, mean=signed)
    cells = _grouped(cells, rows, 0, signed, mean=True)
    hides = any(sum(map(len, axis)) < size for axis, size in zip(groups_of(part, spec), (queries, keys), strict=True))
    if spec.get("renormalise") and part.kind == "weights" and hides:
        sums = np.where(np.isneginf(cells), np.float32(0), cells).sum(1, keepdims=True)
        cells = cells / np.where(sums == 0, np.float32(1), sums)
    return cells


def _maps(part, spec: dict, queries) -> Iterator[Tensor]:
    """Yield the maps of the chosen heads, weighted as asked for, float32 `(queries, Tk)`."""
    sample, values = spec.get("sample", 0), spec.get("values", "weights")
    if values == "rollout":
        for layer in dict.fromkeys(layer for layer, _ in spec["heads"]):
            rolled = _rolled(part, sample, layer)
            yield rolled if queries is None else rolled[queries]
        return
    lengths = torch.from_numpy(norms(part, sample)) if values == "values" else None
    for layer, head in spec["heads"]:
        cells = head_cells(part, sample, layer, head, queries)
        # -inf times a length of 0 would be NaN
        yield cells if lengths is None else torch.where(cells == -torch.inf, cells, cells * lengths[layer, head])


def _rolled(part, sample: int, layer: int) -> Tensor:
    """Return how much of each token has flowed into each query by `layer`, float32 `(T, T)`.

    A cell is masked where all heads of the layer are and nothing flowed on another way.
    """
    below = (head_cells(part, sample, i) for i in range(layer + 1))
    flowed = rollout(cells.masked_fill(cells == -torch.inf, 0) for cells in below)
    blocked = (head_cells(part, sample, layer) == -torch.inf).all(0)
    return flowed.masked_fill(blocked & (flowed == 0), -torch.inf)


def _combined(maps: Iterator[Tensor], how: str, signed: bool) -> Tensor:
    """Return the maximum or the mean of maps; NaN in one is NaN, and masked is what is masked in all."""
    if how == "maximum":
        total = next(maps)
        for more in maps:
            total = torch.from_numpy(largest(np.stack([total, more]), signed, np.ufunc.reduce))
        return total
    total = count = torch.zeros(())
    for cells in maps:
        open_ = cells != -torch.inf
        total, count = total + cells.masked_fill(~open_, 0), count + open_
    return torch.where(count > 0, total / count.clamp(min=1), -torch.inf)


def _grouped(cells: np.ndarray, groups: list[list[int]], axis: int, signed: bool, *, mean: bool) -> np.ndarray:
    """Return the sums or means over the groups that follow each other along an axis; masked where all of one is."""
    sizes = torch.tensor([len(group) for group in groups])
    if not len(groups) or cells.size == 0 or sizes.max() == 1:
        return cells
    given = torch.from_numpy(cells)
    masked = given == -torch.inf
    place = torch.arange(len(groups)).repeat_interleave(sizes)
    empty = given.new_zeros((len(groups), cells.shape[1]) if axis == 0 else (cells.shape[0], len(groups)))
    total = empty.index_add(axis, place, given.masked_fill(masked, 0))
    count = empty.index_add(axis, place, (~masked).float())
    if mean:
        # A weight that is masked is 0; a signed number that is masked is not there.
        whole_group = sizes[:, None] if axis == 0 else sizes
        total = total / (count.clamp(min=1) if signed else whole_group)
    return total.masked_fill_(count == 0, -torch.inf).numpy()


def _top(cells: np.ndarray, signed: bool) -> float:
    if not cells.size:
        return 0.0
    given = torch.from_numpy(cells)
    least, most = given.aminmax()  # both NaN if there is one
    if most.isfinite() and (least.isfinite() or not signed):
        return float(max(most.abs(), least.nan_to_num(neginf=0).abs()))
    return float(given.masked_fill(~given.isfinite(), 0).abs().max())

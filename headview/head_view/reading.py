"""What a reader takes out of a HeadView: the piece that is selected, and the strongest of its weights."""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm

from headview.base import check_whole, is_whole
from headview.head_view.screen import window_of
from headview.head_view.state import Chosen

_BAR_FROM = 100_000_000  # weights; in fewer all is read at once


@dataclass(frozen=True)
class Selection:
    """What is on the screen of a view: which heads, which of their rows and columns, and the numbers themselves.

    `weights` are float32 `(rows, columns)` of the window: -inf where masked, NaN where NaN. `tokens` and `key_tokens`
    are their labels; `queries` and `keys` the numbers of the tokens that each row and column stands for.
    """

    part: str
    sample: int
    heads: list[tuple[int, int]]
    query: int
    tokens: list[str]
    key_tokens: list[str]
    queries: list[list[int]]
    keys: list[list[int]]
    weights: np.ndarray


class Strong(NamedTuple):
    """A weight, and where it stands."""

    weight: float
    layer: int
    head: int
    query: int
    key: int
    token: str
    key_token: str


def largest(heads, labels: tuple[list[str], list[str]], n: int) -> list[Strong]:
    """Return the `n` largest of many maps, the largest first; of alike ones those that come first in the model.

    Args:
        heads: for each, the head with the largest number first: that number, `(layer, head)`, and a function that
            returns its map, a `Shown`; -inf and NaN are never among the largest.
        labels: those of the queries and of the keys.
        n: how many.
    """
    best: list[tuple[float, tuple[int, ...]]] = []  # the number, and its place turned round: of two the first is more
    for most, (layer, head), map_of in heads:
        if len(best) == n and (most, (-layer, -head)) < (best[-1][0], best[-1][1][:2]):
            break  # also of alike ones the later head would lose
        cells = torch.from_numpy(map_of().cells)
        cells = cells.masked_fill(~cells.isfinite(), -torch.inf)
        found, places = cells.flatten().topk(min(n, cells.numel()))
        least = found[-1].item()
        alike = (cells.flatten() == least).nonzero().flatten()[:n]  # topk takes any of those
        places = [*places[found > least].tolist(), *alike.tolist()]
        for row, column in (divmod(place, cells.shape[1]) for place in places):
            best.append((cells[row, column].item(), (-layer, -head, -row, -column)))
        best = sorted((entry for entry in best if entry[0] > -torch.inf), reverse=True)[:n]
    found = []
    for weight, turned in best:
        layer, head, query, key = (-place for place in turned)
        names = [side[place] for side, place in zip(labels, (query, key), strict=True)]
        found.append(Strong(weight, layer, head, query, key, *names))
    return found


class Reading(Chosen):
    """What a HeadView gives to Python, as `selection`, `strongest` and `weights_of`; it has its maps in `_blocks`."""

    def weights_of(self, layer: int, head: int) -> np.ndarray:
        """Return one head of the chosen part and sample, `(Tq, Tk)` float32: -1 where masked, NaN where NaN.

        Where values may be below 0 (`kind="signed"`), masked cells are -inf.
        """
        check_whole("layer", layer, 0, self.shape[0] - 1)
        check_whole("head", head, 0, self.shape[1] - 1)
        plain = {"part": self.part, "sample": self.sample, "side": "a", "heads": [[layer, head]]}
        cells = self._blocks.shown(plain).cells
        if self.parts[self.part]["kind"] == "signed":
            return cells
        masked = 0 if self._blocks.parts[self.part].guessed_mask else -1
        return np.where(np.isneginf(cells), np.float32(masked), cells)

    @property
    def selection(self) -> Selection:
        """What is in sight: the chosen heads as they are shown together, cut to the window."""
        shown, _ = self._blocks.map_of(self.spec())
        first, end, left, right = window_of(self.window, *shown.cells.shape)
        rows, columns = shown.rows[first:end], shown.columns[left:right]
        names = [
            ["".join(labels[token] for token in group) for group in groups]
            for labels, groups in zip(self.named(shown=True), (rows, columns), strict=True)
        ]
        heads = [tuple(pair) for pair in self.shown_heads()]
        part = self.parts[self.part]["name"]
        weights = shown.cells[first:end, left:right].copy()
        return Selection(part, self.sample, heads, self.query, *names, rows, columns, weights)

    def strongest(self, n: int = 10, *, everywhere: bool = False) -> list[Strong]:
        """Return the `n` largest weights of the chosen heads, the largest first, with their places and tokens.

        Args:
            n: how many, at least 1.
            everywhere: among all heads of all layers of the chosen part.
        """
        if not is_whole(n) or n < 1:
            raise ValueError(f"n must be a positive integer, got {n!r}")
        layers, heads = self.shape[:2]
        pairs = [[i, j] for i in range(layers) for j in range(heads)] if everywhere else self.shown_heads()
        plain = {"part": self.part, "sample": self.sample, "side": "a"}
        # The overview knows the largest number of each head: few of them need to be read in full.
        if self.parts[self.part]["kind"] == "signed":  # there it is the one farthest from 0
            tops = {tuple(pair): np.inf for pair in pairs}
        else:
            small = self._blocks.small(self.part, self.sample, "a")
            tops = {(i, j): np.nanmax(small[i, j], initial=-np.inf) for i, j in pairs}
        order = sorted(pairs, key=lambda pair: -tops[tuple(pair)])
        order = tqdm(order, "heads", disable=math.prod(self.shape) < _BAR_FROM, leave=False)
        cells_of = {(i, j): partial(self._blocks.shown, {**plain, "heads": [[i, j]]}) for i, j in pairs}
        return largest(((tops[i, j], (i, j), cells_of[i, j]) for i, j in order), self.named(), n)

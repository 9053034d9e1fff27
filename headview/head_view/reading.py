"""What a reader takes out of a HeadView: the piece that is selected, and the strongest of its weights."""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headview.base import check_whole, is_whole
from headview.head_view.screen import window_of
from headview.head_view.state import Chosen


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
    """Return the `n` largest of many maps, the largest first; of alike ones those that come first.

    Args:
        heads: pairs of `(layer, head)` and its cells, `(rows, columns)` float32; -inf and NaN are never among them.
        labels: those of the queries and of the keys.
        n: how many.
    """
    best: list[tuple[float, int, tuple]] = []
    for number, (pair, cells) in enumerate(heads):
        flat = np.where(np.isfinite(cells), cells, -np.inf).ravel()
        some = min(n, flat.size)
        places = np.argpartition(-flat, some - 1)[:some]
        for place in places[np.lexsort((places, -flat[places]))]:
            if np.isneginf(flat[place]):
                break
            row, column = divmod(int(place), cells.shape[1])
            entry = (float(flat[place]), -(number * flat.size + int(place)), (*pair, row, column))
            if len(best) < n:
                heapq.heappush(best, entry)
            elif entry > best[0]:
                heapq.heapreplace(best, entry)
            else:
                break
    found = []
    for weight, _, (layer, head, query, key) in sorted(best, reverse=True):
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
            for labels, groups in zip(self.named(), (rows, columns), strict=True)
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
        maps = ((pair, self._blocks.shown({**plain, "heads": [pair]}).cells) for pair in pairs)
        return largest(maps, self.named(), n)

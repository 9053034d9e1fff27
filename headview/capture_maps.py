"""What a capture keeps: the maps, and the steps of a generating model put together to one map for each layer."""

import fnmatch
import re
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headview.step import Step, sums_of

PATIENCE = 2.0  # seconds after which a bar shows


class Maps(list):
    """The maps of the attention calls of a model, one tensor (B, h, Tq, Tk) a call, in the order of the calls.

    The list fills when the `with` of `capture` ends. Its other lists are as long as itself.

    Attributes:
        names: the name of the module that made the call; "... call 2" where it made more than one.
        allowed: bool, broadcastable to the map, True where a query may attend; None where nothing is masked.
        kv_heads: how many heads of keys there are; fewer than h where heads share them.
        scales: the factor on q k^T; None where the scores are no such product, or it could not be followed.
        kinds: "self", or "cross" where queries and keys come from two sequences.
        sums: "weights" where rows sum to 1 (0: no key), "part" where a sink takes the rest; "positive" or "signed"
            where the model changed its weights after the softmax.
        queries, keys, values: (B, h, T, head_dim), keys and values repeated for the heads that share them; None for a
            call where they could not be followed. Without `qkv=True`, None altogether.
        missed: why attention of a module is not among the maps, by its name.

    What `capture` yields; taught with it in notebook 10.
    """

    def __init__(self):
        super().__init__()
        self.names: list[str] = []
        self.allowed: list[Tensor | None] = []
        self.kv_heads: list[int] = []
        self.scales: list[float | None] = []
        self.kinds: list[str] = []
        self.sums: list[str] = []
        self.queries: list[Tensor | None] | None = None
        self.keys: list[Tensor | None] | None = None
        self.values: list[Tensor | None] | None = None
        self.missed: dict[str, str] = {}


@dataclass
class Piece:
    """What one call gave: `rows` of queries that see `keys` keys, which begin at token `first`."""

    map: Tensor
    allowed: Tensor | None
    first: int
    vectors: list[Tensor | None]


@dataclass
class Layer:
    """The calls that make one map: a single one, or the steps of a decoder that generates."""

    name: str
    kind: str
    shape: tuple[int, ...]  # of the first call
    kv_heads: int
    scale: float | None
    part: bool
    rows: int  # queries so far
    end: int  # tokens so far; more than `rows` where a cache was filled before
    pieces: list[Piece] = field(default_factory=list)
    keys: int = 0  # of the last call
    steps: int = 1
    number: int = 0

    def joins(self, step: Step, pace: int) -> int | None:
        """Return how many tokens there are after a step that goes on where this layer stopped; None: it does not.

        Args:
            step: one of the same module.
            pace: at which step the self-attention of the model was last; cross-attention follows it, since its own
                calls, a query over the same keys, do not tell a next step from another text.
        """
        same = step.kind == self.kind and (step.shape[0], step.shape[1]) == self.shape[:2]
        queries, keys = step.shape[2:]
        if same and step.kind == "cross":
            return keys if keys == self.keys and self.steps < pace else None
        if not same or queries >= keys:
            return None
        end = self.end + queries
        if keys > end:  # a cache of fixed length, filled so far
            return end if step.end() == end else None
        # With fewer keys than tokens a window slides, and stays as long as it is.
        slides = queries == 1 and keys <= self.end and (self.steps == 1 or keys == self.keys)
        return end if keys == end or slides else None


@dataclass
class Wanted:
    """Which layers are kept: by numbers, also counted from the end, or by patterns of names."""

    numbers: list[int | slice] | None = None
    patterns: list[str | re.Pattern] | None = None

    def could(self, i: int, total: int, name: str) -> bool:
        """Return whether layer i is kept, as far as can be told when there are `total` or more."""
        if self.patterns is not None:
            return any(matches(name, pattern) for pattern in self.patterns)
        return self.numbers is None or any(_reaches(number, i, total) for number in self.numbers)

    def finally_kept(self, names: list[str]) -> list[int]:
        """Return the numbers of the layers that are kept, of all of them.

        Raises:
            ValueError: a number is that of no layer.
        """
        everything = range(len(names))
        if self.numbers is None:
            return [i for i in everything if self.could(i, len(names), names[i])]
        kept: set[int] = set()
        for number in self.numbers:
            if isinstance(number, slice):
                kept.update(everything[number])
            elif not -len(names) <= number < len(names):
                raise ValueError(
                    f"layers={number} is none of the {len(names)} maps that the model made; count from 0 to "
                    f"{len(names) - 1}, or from the end with -1"
                )
            else:
                kept.add(everything[number])
        return sorted(kept)

    def nothing(self, names: list[str]) -> str:
        """Return what to say where none of the maps is one of those that are kept."""
        asked = self.numbers if self.patterns is None else self.patterns
        few = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        return f"layers={asked!r}: no map is left of the {len(names)} that the model made, of {few}; choose from these"


def matches(name: str, pattern: str | re.Pattern) -> bool:
    """Return whether a module's name fits: the name itself, a module above it, a pattern with * and ?, or a regex."""
    if isinstance(pattern, re.Pattern):
        return pattern.search(name) is not None
    return name == pattern or name.startswith(pattern + ".") or fnmatch.fnmatchcase(name, pattern)


def _reaches(number: int | slice, i: int, total: int) -> bool:
    ends = [number] if isinstance(number, int) else [number.start, number.stop]
    if all(end is None or end >= 0 for end in ends):
        return i == number if isinstance(number, int) else i in range(i + 1)[number]
    if isinstance(number, int):
        return i >= total + number
    # Counted from the end, a slice may still begin or stop anywhere that is not behind us for good.
    start = number.start or 0
    return i >= (start if start >= 0 else total + start)


class Recorder:
    """Turn calls into layers, keep what is wanted of them, and give the maps at the end."""

    def __init__(self, wanted: Wanted, samples: Any, dtype: torch.dtype | None, qkv: bool, progress: bool | None):
        self.wanted = wanted
        self.samples = samples
        self.dtype = dtype
        self.qkv = qkv
        self.layers: list[Layer] = []
        self._open: dict[str, list[Layer]] = {}
        self._pace = 1  # the step that the self-attention of a generating model was last seen at
        self._progress = progress
        self._bar: Any = None
        self._begun = time.monotonic()

    def take(self, step: Step) -> None:
        """Keep one step."""
        layer, end = self._layer_of(step)
        if self.wanted.could(layer.number, len(self.layers), step.name):
            layer.pieces.append(self._piece(step, layer, end))
        for i, other in enumerate(self.layers if self.wanted.numbers is not None else []):
            if other.pieces and not self.wanted.could(i, len(self.layers), other.name):
                other.pieces.clear()
        self._show()

    def _layer_of(self, step: Step) -> tuple[Layer, int]:
        """Return the layer that the call belongs to, a new one if need be, and how many tokens there are after it."""
        opened = self._open.setdefault(step.name, [])
        queries, keys = step.shape[2:]
        # Of the calls that one module made in a pass, each goes on where its own forerunner stopped.
        for layer in sorted(opened, key=lambda layer: layer.steps):
            if (end := layer.joins(step, self._pace)) is not None:
                layer.rows, layer.end, layer.keys, layer.steps = layer.rows + queries, end, keys, layer.steps + 1
                self._pace = layer.steps if step.kind == "self" else self._pace
                return layer, end
        end = keys
        self._pace = 1 if step.kind == "self" else self._pace
        if step.kind == "self" and queries < end:
            end = step.end() or end  # a cache of fixed length is cut to what stands in it
        layer = Layer(step.name, step.kind, step.shape, step.kv_heads(), step.scale, step.part, queries, end, keys=keys)
        layer.number = len(self.layers)
        self.layers.append(layer)
        opened.append(layer)
        return layer, end

    def _piece(self, step: Step, layer: Layer, end: int) -> Piece:
        picked = self._picked(step)
        keys = step.shape[3]
        first = max(0, end - keys)  # a window begins later
        width = min(keys, end)
        allowed = step.allowed(picked)
        if allowed is not None and allowed.shape[-1] > 1:
            allowed = allowed[..., :width]
        vectors = step.vectors(picked, self.dtype) if self.qkv else [None] * 3
        vectors = [x if x is None or not i else x[..., :width, :] for i, x in enumerate(vectors)]
        made = step.map(picked, self.dtype)
        made = made if width == keys else made[..., :width].clone()
        return Piece(made, allowed, first, vectors)

    def _picked(self, step: Step) -> list[int] | slice:
        if self.samples is None or isinstance(self.samples, slice):
            return self.samples or slice(None)
        size = step.shape[0]
        if wrong := [i for i in self.samples if not -size <= i < size]:
            raise ValueError(
                f"samples={wrong[0]} is none of the {size} samples that {step.name!r} was given; count from 0 to "
                f"{size - 1}"
            )
        return [i % size for i in self.samples]

    def _show(self) -> None:
        """Count one map on a bar of tqdm, for whoever waits longer than a moment and has it installed."""
        if self._bar is not None:
            self._bar.update()
        elif self._progress is not False and time.monotonic() - self._begun > PATIENCE:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                self._progress = False
            else:
                self._bar = tqdm(desc="capture", unit=" maps", initial=len(self.layers))

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def fill(self, maps: Maps) -> None:
        """Put everything that was kept into the maps, layer by layer, and keep nothing."""
        for name in ("queries", "keys", "values") if self.qkv else ():
            setattr(maps, name, [])
        names, counts = [], {}
        for layer in self.layers:
            counts[layer.name] = counts.get(layer.name, 0) + 1
            names.append(layer.name if counts[layer.name] == 1 else f"{layer.name} call {counts[layer.name]}")
        kept = self.wanted.finally_kept([layer.name for layer in self.layers])
        if not kept:
            raise ValueError(self.wanted.nothing(names))
        for i in kept:
            layer = self.layers[i]
            together = joined if layer.kind == "self" else below
            whole = together(layer.pieces) if len(layer.pieces) > 1 else layer.pieces[0]
            layer.pieces = []
            maps.append(whole.map)
            maps.names.append(names[i])
            maps.allowed.append(whole.allowed)
            maps.kv_heads.append(layer.kv_heads)
            maps.scales.append(layer.scale)
            maps.kinds.append(layer.kind)
            maps.sums.append(sums_of(whole.map, layer.part))
            if self.qkv:
                for kept, x in zip((maps.queries, maps.keys, maps.values), whole.vectors, strict=True):
                    kept.append(x)


def joined(pieces: list[Piece]) -> Piece:
    """Put the steps of one layer together: the rows under each other, zeros where a key came later."""
    rows = sum(piece.map.shape[2] for piece in pieces)
    keys = pieces[-1].first + pieces[-1].map.shape[3]
    b, h = pieces[0].map.shape[:2]
    out = pieces[0].map.new_zeros(b, h, rows, keys)
    shapes = [(1, 1) if piece.allowed is None else tuple(piece.allowed.shape[:2]) for piece in pieces]
    allowed = torch.zeros(max(x for x, _ in shapes), max(y for _, y in shapes), rows, keys, dtype=torch.bool)
    row = 0
    for piece in pieces:
        size, width = piece.map.shape[2:]
        cells = (..., slice(row, row + size), slice(piece.first, piece.first + width))
        out[cells] = piece.map
        allowed[cells] = True if piece.allowed is None else piece.allowed
        row += size
    vectors = []
    for i in range(3):
        given = [piece.vectors[i] for piece in pieces]
        if any(x is None for x in given):
            vectors.append(None)
            continue
        # The first call brings all keys so far, each later one as many new ones as it has queries.
        sizes = [piece.map.shape[2] for piece in pieces]
        tail = [x[..., x.shape[-2] - size :, :] for x, size in zip(given[1:], sizes[1:], strict=True)]
        vectors.append(torch.cat([given[0], *tail], -2))
    return Piece(out, allowed, 0, vectors)


def below(pieces: list[Piece]) -> Piece:
    """Put the steps of cross-attention together: the rows under each other, over the same keys."""
    known = [piece.allowed for piece in pieces if piece.allowed is not None]
    allowed = None
    if known:
        shape = [max(mask.shape[axis] for mask in known) for axis in (0, 1)]
        rows = [
            (torch.ones((), dtype=torch.bool) if piece.allowed is None else piece.allowed).expand(
                *shape, *piece.map.shape[2:]
            )
            for piece in pieces
        ]
        allowed = torch.cat(rows, 2)
    queries = [piece.vectors[0] for piece in pieces]
    together = None if any(x is None for x in queries) else torch.cat(queries, -2)
    return Piece(torch.cat([piece.map for piece in pieces], 2), allowed, 0, [together, *pieces[0].vectors[1:]])

"""What a capture keeps: the maps, and the steps of a generating model put together to one map for each layer."""

import fnmatch
import re
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from headview.step import Loop, Step, smallest, some, sums_of

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
        passes: in which pass of the model, counted from 0, the call was made, or the first of those put together.
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
        self.passes: list[int] = []
        self.queries: list[Tensor | None] | None = None
        self.keys: list[Tensor | None] | None = None
        self.values: list[Tensor | None] | None = None
        self.missed: dict[str, str] = {}


@dataclass
class Call:
    """One call of attention: what tells whether the next goes on there, and, if it is wanted, the map."""

    name: str
    kind: str
    shape: tuple[int, ...]
    end: int  # so many tokens there are after it
    kv_heads: int
    scale: float | None
    map: Tensor | None = None
    allowed: Tensor | None = None
    vectors: tuple[Tensor | None, ...] = (None, None, None)
    pass_number: int = 0
    loop: Loop | None = None
    by_hand: bool = True  # the weights were there; else they are a softmax of ours


def fits(asked: int | slice | str | re.Pattern, name: str, i: int = 0, total: int = 0, more: bool = False) -> bool:
    """Return whether layer i of `total`, or of `more`, is what was asked for.

    A name stands for a module and all in it, and may have * and ?.
    """
    if isinstance(asked, re.Pattern):
        return asked.search(name) is not None
    if isinstance(asked, str):
        return name == asked or name.startswith(asked + ".") or fnmatch.fnmatchcase(name, asked)
    part = asked if isinstance(asked, slice) else slice(asked, asked + 1 or None)
    most = total + abs(part.start or 0) + abs(part.stop or 0) if more else total
    return any(i in range(size)[part] for size in range(total, most + 1))


class Recorder:
    """Put calls together to layers, keep what is wanted of them, and give the maps at the end."""

    def __init__(self, wanted: list | None, samples: list | slice, dtype: Any, qkv: bool, progress: bool | None):
        self.wanted, self.samples, self.dtype, self.qkv = wanted, samples, dtype, qkv
        self.layers: list[list[Call]] = []  # of one call each, or of the steps of a decoder that generates
        self.failure: ValueError | None = None  # told when the model is done
        self._of: dict[str, list[int]] = defaultdict(list)  # the layers of a module
        self._pace = 1  # the step that the self-attention of a generating model was last seen at
        self._loop: list[Call] = []  # the last call, and those that a loop over heads or samples adds
        self._progress, self._bar, self._begun = progress, None, time.monotonic()

    def take(self, step: Step) -> None:
        """Keep one step, or add it to the one before, where a loop over heads or samples makes both."""
        call = Call(step.name, step.kind, step.shape, 0, step.kv_heads(), step.factor, loop=step.loop)
        call.pass_number, call.by_hand = step.pass_number, step.weights is not None
        if self._goes_on(call):
            call.end = self._loop[0].end
            if self._loop[0].map is not None:
                self._keep(step, call, self._picked(step))
            self._loop.append(call)
            return
        self._end_loop()
        picked = self._picked(step)
        if self.failure is not None:
            return
        number, call.end = self._place(step)
        total = max(number + 1, len(self.layers))
        if self._is_wanted(step.name, number, total, more=True):
            self._keep(step, call, picked)
        if number == len(self.layers):
            self._of[step.name].append(number)
            self.layers.append([])
        self.layers[number].append(call)
        self._loop = [call] if call.loop else []
        self._at = number
        self._pace = len(self.layers[number]) if step.kind == "self" else self._pace
        for i, layer in enumerate(self.layers if self.wanted else []):
            if layer[0].map is not None and not self._is_wanted(layer[0].name, i, total, more=True):
                self.layers[i] = [replace(call, map=None, allowed=None, vectors=()) for call in layer]
        self._show()

    def _goes_on(self, call: Call) -> bool:
        """Return whether a call is the next head, or the next samples, of the loop that the last one was in."""
        if not self._loop or call.loop is None:
            return False
        last, seen = self._loop[-1], {(each.loop.head, each.loop.sample) for each in self._loop}
        same = (last.loop.of, last.name, last.kind, last.shape) == (call.loop.of, call.name, call.kind, call.shape)
        alike = call.shape[1] == 1 or call.loop.head == last.loop.head
        return same and alike and (call.loop.head, call.loop.sample) not in seen

    def _end_loop(self) -> None:
        """Put the calls of a loop together to one, and keep the samples that were asked for."""
        calls, self._loop = self._loop, []
        if not calls or (len(calls) == 1 and not calls[0].loop.part):
            return
        call = joined(calls) if len(calls) > 1 else calls[0]
        if calls[0].loop.part and call.map is not None and self.samples != slice(None):
            picked = self._chosen(call.name, len(call.map))
            vectors = tuple(None if x is None else x[picked] for x in call.vectors)
            allowed = None if call.allowed is None else some(call.allowed, picked)
            call = replace(call, map=call.map[picked], allowed=allowed, vectors=vectors)
        self.layers[self._at][-1] = call

    def _picked(self, step: Step) -> list[int]:
        """Return which samples of a step to keep: all, for now, where it may be a part of them."""
        size = step.shape[0]
        return list(range(size)) if step.loop and step.loop.part else self._chosen(step.name, size)

    def _chosen(self, name: str, size: int) -> list[int]:
        if isinstance(self.samples, slice):
            return list(range(size))[self.samples]
        wrong = [i for i in self.samples if not -size <= i < size]
        if wrong and self.failure is None:
            self.failure = ValueError(
                f"samples={wrong[0]} is none of the {size} samples that {name!r} was given; count from 0 to {size - 1}"
            )
        return [i % size for i in self.samples if i not in wrong]

    def _is_wanted(self, name: str, i: int, total: int, more: bool = False) -> bool:
        """Return whether layer i of `total` is kept; `more`: as far as can be told while others may still come."""
        return self.wanted is None or any(fits(asked, name, i, total, more) for asked in self.wanted)

    def _place(self, step: Step) -> tuple[int, int]:
        """Return the number of the layer that the step belongs to, and how many tokens there are after it."""
        # Of the calls that one module made in a pass, each goes on where its own forerunner stopped.
        for number in sorted(self._of[step.name], key=lambda number: len(self.layers[number])):
            if (end := self._joined(self.layers[number], step)) is not None:
                return number, end
        queries, keys = step.shape[2:]
        # A cache of fixed length is cut to what stands in it.
        return len(self.layers), (step.kind == "self" and queries < keys and step.end()) or keys

    def _joined(self, layer: list[Call], step: Step) -> int | None:
        """Return how many tokens there are after a step that goes on where this layer stopped; None: it does not."""
        last, (queries, keys) = layer[-1], step.shape[2:]
        if (step.kind, step.shape[:2]) != (last.kind, last.shape[:2]):
            return None
        if step.kind == "cross":
            # It follows the pace of self-attention: its own calls do not tell a next step from another text.
            return keys if keys == last.shape[3] and len(layer) < self._pace else None
        end = last.end + queries
        if queries >= keys:
            return None
        if keys > end:  # a cache of fixed length, filled so far
            return end if step.end() == end else None
        # With fewer keys than tokens a window slides, and stays as long as it is.
        slides = queries == 1 and keys <= last.end and (len(layer) == 1 or keys == last.shape[3])
        return end if keys == end or slides else None

    def _keep(self, step: Step, call: Call, picked: list[int]) -> None:
        """Keep the map of a step, and what stands so far in a cache of fixed length."""
        made, allowed, keys = step.map(picked, self.dtype), step.allowed(picked), step.shape[3]
        vectors = step.vectors(picked, self.dtype) if self.qkv else [None] * 3
        if call.end < keys:
            made = made[..., : call.end].clone()
            allowed = None if allowed is None else allowed[..., : call.end]
            vectors[1:] = [None if x is None else x[..., : call.end, :] for x in vectors[1:]]
        call.map, call.allowed, call.vectors = made, allowed, tuple(vectors)

    def _show(self) -> None:
        """Count one map on a bar of tqdm, for whoever waits longer than a moment and has it installed."""
        if self._bar is None and self._progress is not False and time.monotonic() - self._begun > PATIENCE:
            with suppress(ImportError):
                from tqdm.auto import tqdm

                self._bar = tqdm(desc="capture", unit=" maps", initial=len(self.layers) - 1)
        if self._bar is not None:
            self._bar.update()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def fill(self, maps: Maps) -> None:
        """Put everything that was kept into the maps, layer by layer, and keep nothing."""
        self._end_loop()
        if self.failure is not None:
            raise self.failure
        names, size = [], len(self.layers)
        for i, layer in enumerate(self.layers):
            before = self._of[layer[0].name].index(i)
            names.append(f"{layer[0].name} call {before + 1}" if before else layer[0].name)
        for number in self.wanted or []:
            if isinstance(number, int) and not -size <= number < size:
                raise ValueError(
                    f"layers={number} is none of the {size} maps that the model made; count from 0 to {size - 1}, or "
                    f"from the end with -1"
                )
        kept = [i for i, layer in enumerate(self.layers) if self._is_wanted(layer[0].name, i, size)]
        if not kept:
            few = ", ".join(names[:5]) + (", …" if size > 5 else "")
            raise ValueError(
                f"layers={self.wanted!r}: no map is left of the {size} that the model made, of {few}; choose from these"
            )
        vectors = []
        for i in kept:
            whole, number = together(self.layers[i]), self.layers[i][0].pass_number
            self.layers[i] = []
            maps.append(whole.map)
            known = {"names": names[i], "kinds": whole.kind, "sums": sums_of(whole.map) if whole.by_hand else "weights"}
            known |= {"passes": number, "allowed": whole.allowed, "kv_heads": whole.kv_heads, "scales": whole.scale}
            for name, one in known.items():
                getattr(maps, name).append(one)
            vectors.append(whole.vectors)
        if self.qkv:
            maps.queries, maps.keys, maps.values = map(list, zip(*vectors, strict=True))


def joined(calls: list[Call]) -> Call:
    """Put the calls of a loop together to one: the same head of other samples, or other heads."""
    first, heads = calls[0], {call.loop.head: [] for call in calls}
    for call in sorted(calls, key=lambda call: call.loop.sample[1]):
        heads[call.loop.head].append(call)
    full = len({len(row) for row in heads.values()}) == 1
    grid = [*zip(*heads.values(), strict=True)] if full else [calls]

    def whole(of: Callable[[Call], Tensor | None]) -> Tensor | None:
        known = all(of(call) is not None for call in calls)
        return torch.cat([torch.cat([of(call) for call in row], 1) for row in grid]) if known else None

    def mask(call: Call) -> Tensor | None:
        allowed = torch.ones(1, 1, 1, 1).bool() if call.allowed is None else call.allowed
        return None if call.map is None else allowed.expand(call.map.shape)

    masked = any(call.allowed is not None for call in calls)
    return replace(
        first,
        kv_heads=len({(call.loop.keys or (call.loop.head,))[0] for call in calls}) * first.kv_heads,
        scale=first.scale if len({call.scale for call in calls}) == 1 else None,
        map=whole(lambda call: call.map),
        allowed=smallest(whole(mask)) if masked else None,
        vectors=tuple(whole(lambda call, i=i: call.vectors[i]) for i in range(len(first.vectors))),
    )


def together(calls: list[Call]) -> Call:
    """Put the steps of one layer together: the rows under each other, zeros where a key came later."""
    first, last = calls[0], calls[-1]
    if len(calls) == 1:
        return first
    out = first.map.new_zeros(*first.map.shape[:2], sum(call.map.shape[2] for call in calls), last.end)
    masks = [torch.ones(1, 1, 1, 1).bool() if call.allowed is None else call.allowed for call in calls]
    allowed = torch.zeros(*(max(x.shape[axis] for x in masks) for axis in (0, 1)), *out.shape[2:], dtype=torch.bool)
    row = 0
    for call, mask in zip(calls, masks, strict=True):
        size, width = call.map.shape[2:]
        cells = (..., slice(row, row + size), slice(call.end - width, call.end))  # a window begins later
        out[cells], allowed[cells] = call.map, mask
        row += size
    # Each call brings all of its queries; the first all keys so far, each later one those that are new.
    rows = [call.map.shape[2] for call in calls]
    new = [first.map.shape[3], *(call.end - before.end for before, call in zip(calls, calls[1:], strict=False))]
    vectors = []
    for given, counts in zip(zip(*(call.vectors for call in calls), strict=True), (rows, new, new), strict=True):
        known = all(x is not None for x in given)
        tails = [x[..., x.shape[-2] - n :, :] for x, n in zip(given, counts, strict=True)] if known else []
        vectors.append(torch.cat(tails, -2) if known else None)
    whole = None if bool(allowed.all()) else allowed
    return Call(first.name, first.kind, first.shape, last.end, first.kv_heads, first.scale, out, whole, tuple(vectors))

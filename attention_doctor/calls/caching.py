"""How a layer takes a cache of keys and values, found by trying.

A cache comes back as a part of the result, or in an object that was handed over, or it stays in the module. What comes
back is held for a cache only where it grows: with one token more, each of its tensors is longer by one along one axis.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attention_doctor.calls.names import signature_of
from attention_doctor.calls.pieces import Form, Pieces

MOST_PARTS = 4  # of a result that are tried as its cache


class Slots(dict):
    """An empty cache with names, of which each is None until the layer fills it."""

    def __missing__(self, key):
        return None


class Grows:
    """An empty cache with the method that transformers' caches have: `update(k, v, …)` returns all that came so far."""

    def __init__(self):
        self.layers: dict = {}

    def update(self, k: Tensor, v: Tensor, layer_idx: int | None = 0, *_, **__) -> tuple[Tensor, Tensor]:
        before = self.layers.get(layer_idx)
        self.layers[layer_idx] = (k, v) if before is None else tuple(map(_joined, before, (k, v)))
        return self.layers[layer_idx]

    def get_seq_length(self, layer_idx: int | None = 0, *_) -> int:
        return self.layers[layer_idx][0].shape[-2] if layer_idx in self.layers else 0

    get_usable_length = lambda self, new=0, layer_idx=0: self.get_seq_length(layer_idx)  # noqa: E731
    __len__ = lambda self: len(self.layers)  # noqa: E731
    __bool__ = lambda self: True  # noqa: E731


def _joined(old: Tensor, new: Tensor) -> Tensor:
    return torch.cat([old, new], -2)  # (B, h, T, head_dim)


@dataclass(frozen=True)
class Way:
    """A way of handing over a cache.

    Args:
        name: of the argument; "" where the cache stays in the module.
        seed: what the first call is given for it: "" for nothing.
        path: where it comes back in the result; None where it is filled in place.
    """

    form: Form
    name: str = ""
    seed: str = ""
    path: tuple | None = None


SEEDS = {  # what the first call is given
    "": None,
    "slots": Slots,
    "update": Grows,
    "two": lambda: [None, None],
    "pair": lambda: (None, None),
    "list": list,
    "own": None,  # of the class that the annotation names
}


class Run:
    """One sequence, handed over piece by piece in one way."""

    def __init__(self, pieces: Pieces, way: Way):
        self.pieces, self.way = pieces, way
        self.target = pieces.attend.target if way.name else copied(pieces.attend.target)
        self.held: object = None if way.seed == "" else _seed(pieces.attend.target, way)
        self.given = way.seed != ""

    def feed(self, a: int, b: int) -> Tensor:
        """Hand over the tokens a to b - 1, and return their outputs `(B, b - a, d_out)`."""
        way = self.way
        before = shapes(self.held) if a else None
        result = self.pieces.call(self.target, way.form, a, b, {way.name: self.held} if self.given else {})
        out = self.pieces.output(result, b - a)
        if way.name and way.path is not None:
            came = at(result, way.path)
            self.held = came if before is None else _grown(self.held, came, before, b - a)
            self.given = True
        return out

    def tensors(self) -> list[Tensor]:
        """Return the tensors of the cache as it is now."""
        return list(tensors(self.held)) if self.way.name else []


def _seed(target: object, way: Way) -> object:
    if way.seed != "own":
        return SEEDS[way.seed]()
    signature = signature_of(target)
    return signature.parameters[way.name].annotation()


def copied(target: object) -> object:
    """Return a copy of a layer, for what it keeps; the layer itself where it cannot be copied."""
    try:
        return copy.deepcopy(target)
    except Exception:
        return target


def tensors(held: object, depth: int = 0) -> Iterator[Tensor]:
    """Yield the tensors in whatever holds them, in a fixed order."""
    if isinstance(held, Tensor):
        yield held
    elif depth < 4 and isinstance(held, (dict, tuple, list)):
        for part in held.values() if isinstance(held, dict) else held:
            yield from tensors(part, depth + 1)
    elif depth < 4 and hasattr(held, "__dict__") and not isinstance(held, type):
        for part in vars(held).values():
            yield from tensors(part, depth + 1)


def shapes(held: object) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors of a cache."""
    return [tuple(t.shape) for t in tensors(held)]


def _grown(old: object, new: object, before: list, tokens: int) -> object:
    """Return the cache after a call; where just the new tokens came back, its caller joins them to the others."""
    after = shapes(new)
    if len(after) != len(before) or after == before or not isinstance(new, (Tensor, tuple, list)):
        return new
    axes = [
        [i for i, (m, n) in enumerate(zip(s, t, strict=False)) if m != n] for s, t in zip(before, after, strict=True)
    ]
    alone = all(len(a) == 1 and t[a[0]] == tokens for a, t in zip(axes, after, strict=True))
    if not alone:
        return new
    joined = [torch.cat(pair, a[0]) for *pair, a in zip(tensors(old), tensors(new), axes, strict=True)]
    return joined[0] if isinstance(new, Tensor) else tuple(joined)


def at(result: object, path: tuple) -> object:
    """Return the part of a result that a path leads to."""
    for key in path:
        by_name = isinstance(key, str) and not isinstance(result, dict)
        result = getattr(result, key) if by_name else result[key]
    return result


def _paths(result: object, output: Tensor, path: tuple = ()) -> Iterator[tuple]:
    """Yield the paths to all parts of a result that hold tensors but not its output, the larger parts first."""
    if path and not any(t is output for t in tensors(result)) and shapes(result):
        yield path
    if isinstance(result, Tensor) or len(path) > 2:
        return
    if isinstance(result, (tuple, list)):
        if not path and len(result) > 2:
            yield (slice(1, None),)
        items = enumerate(result)
    else:
        items = (result if isinstance(result, dict) else getattr(result, "__dict__", {})).items()
    for key, part in items:
        yield from _paths(part, output, (*path, key))


def ways(pieces: Pieces, form: Form, n: int, keeps: bool) -> Iterator[Way]:
    """Yield the ways of handing over a cache that grows, the likelier first.

    Args:
        pieces: the layer.
        form: of the call.
        n: tokens of the first piece.
        keeps: whether the module keeps something from call to call.
    """
    arguments, target = pieces.arguments, pieces.attend.target
    for name in arguments.caches:
        for seed in SEEDS:
            if seed == "own" and not _has_class(target, name):
                continue
            way = Way(form, name, seed)
            try:
                short, long = (_first(pieces, way, length) for length in (n, n + 1))
            except Exception:
                continue
            if seed and grew(shapes(short[1]), shapes(long[1]), 1):
                yield way
            output = pieces.picked(short[0])
            found = [p for p in _paths(short[0], output) if _grows(short[0], long[0], p)]
            yield from (Way(form, name, seed, path) for path in found[:MOST_PARTS])
    if keeps and (form.told or form.flags):
        yield Way(form)


def _first(pieces: Pieces, way: Way, length: int) -> tuple[object, object]:
    """Return the result of a first piece, and what it was handed for a cache."""
    held = _seed(pieces.attend.target, way) if way.seed else None
    return pieces.call(pieces.attend.target, way.form, 0, length, {way.name: held} if way.seed else {}), held


def _has_class(target: object, name: str) -> bool:
    kind = signature_of(target).parameters[name].annotation
    return isinstance(kind, type) and kind.__module__ not in ("builtins", "inspect", "torch")


def _grows(short: object, long: object, path: tuple) -> bool:
    try:
        return grew(shapes(at(short, path)), shapes(at(long, path)), 1)
    except (LookupError, AttributeError, TypeError):
        return False


def grew(before: list[tuple[int, ...]], after: list[tuple[int, ...]], tokens: int) -> bool:
    """Whether each tensor is longer by these tokens along just one axis."""
    return bool(before) and len(before) == len(after) and all(map(lambda s, t: _longer(s, t) == tokens, before, after))


def joined_on(before: list[tuple[int, ...]], after: list[tuple[int, ...]]) -> bool:
    """Whether further tensors came after those that were there, as in a list of pieces."""
    return 0 < len(before) < len(after) and after[: len(before)] == before


def _longer(short: tuple[int, ...], long: tuple[int, ...]) -> int:
    changes = [n - m for m, n in zip(short, long, strict=False) if m != n]
    return changes[0] if len(short) == len(long) and len(changes) == 1 else 0


# --------------------------------------------------------------------------------------------------- in the module


def keeps_something(pieces: Pieces, form: Form, n: int) -> bool:
    """Whether a call changes what a layer keeps, other than its parameters."""
    target = pieces.attend.target
    if not isinstance(getattr(target, "__self__", target), nn.Module):
        return False
    target = copied(target)
    before = kept(target)
    pieces.call(target, form, 0, n, {})
    after = kept(target)
    return len(before) != len(after) or not all(map(torch.equal, before, after))


def kept(target: object) -> list[Tensor]:
    """Return copies of the tensors that a layer keeps, other than its parameters."""
    owner = getattr(target, "__self__", target)
    held = []
    for module in owner.modules() if isinstance(owner, nn.Module) else ():
        own = {key: value for key, value in vars(module).items() if key not in ("_parameters", "_modules")}
        held += [t.detach().clone() for t in tensors(own)]
    return held


def filled(before: list[Tensor], after: list[Tensor], a: int, b: int) -> bool:
    """Whether a tensor that a layer keeps took in the tokens a to b - 1: it grew, or just these places changed."""
    for old, new in zip(before, after, strict=False):
        if grew([tuple(old.shape)], [tuple(new.shape)], b - a):
            return True
        if old.shape == new.shape:
            changed = old != new
            for axis in range(old.ndim):
                others = [i for i in range(old.ndim) if i != axis]
                if (changed.any(dim=others) if others else changed).nonzero().flatten().tolist() == list(range(a, b)):
                    return True
    return False

"""Generating with a cache gives what the full pass gives, one new token after the other.

The first tokens are handed over, then one, one, and two more with the cache; each output is compared with that of a
call with all tokens so far and no cache. Where each way of handing a cache over that runs is far off, it is found.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from attention_doctor import argument_names as names
from attention_doctor.calling import pick, signature_of, turned_back
from attention_doctor.patient import Patient, amount
from attention_doctor.report import Report

FAR = 1e-3  # of how much outputs differ among themselves; less may be rounding, also in low precision


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
        joined = (k, v) if before is None else tuple(torch.cat(p, -2) for p in zip(before, (k, v), strict=True))
        self.layers[layer_idx] = joined
        return joined

    def get_seq_length(self, layer_idx: int | None = 0, *_) -> int:
        return self.layers[layer_idx][0].shape[-2] if layer_idx in self.layers else 0

    def get_usable_length(self, new: int = 0, layer_idx: int = 0) -> int:
        return self.get_seq_length(layer_idx)

    def __len__(self) -> int:
        return len(self.layers)

    def __bool__(self) -> bool:
        return True


SEEDS = {"": None, "slots": Slots, "update": Grows, "two": lambda: [None, None], "list": list, "own": None}


@dataclass(frozen=True)
class Way:
    """A way of handing over a cache.

    Args:
        name: of the argument; "" where the cache stays in the module.
        seed: what the first call is given for it, of `SEEDS`.
        path: where it comes back in the result; None where it is filled in place.
        told: whether the layer is told where the new tokens stand.
        flags: the switches that ask for a cache.
    """

    name: str
    seed: str
    path: tuple | None
    told: bool
    flags: tuple[str, ...]


class Generating:
    """Calls a layer with pieces of one sequence."""

    def __init__(self, patient: Patient, x: Tensor):
        self.patient, self.x, self.call = patient, x, patient.call
        signature = signature_of(self.call.target)
        self.named = [] if signature is None else list(signature.parameters.values())
        number = {
            p.name for p in self.named if isinstance(p.default, (int, bool)) or p.annotation in (int, bool, "int")
        }
        self.starts = [
            p.name
            for p in self.named
            if names.START.search(p.name) or (names.PLACES.search(p.name) and p.name in number)
        ]
        self.places = [p.name for p in self.named if names.PLACES.search(p.name) and p.name not in self.starts]
        self.flags = [
            p.name for p in self.named if names.FLAG.search(p.name) and isinstance(p.default, (bool, type(None), type))
        ]
        taken = {*self.starts, *self.places, *self.flags, *number}
        self.caches = [p.name for p in self.named if names.CACHE.search(p.name) and p.name not in taken]
        about = r"pos|offset|rope|rotary|freq|^cos|^sin|angle|start|^step|shift|length|len$"
        others = [
            p.name
            for p in self.named
            if names.re.search(about, p.name) and p.name not in {*self.starts, *self.places, *self.flags, *self.caches}
        ]
        self.others = [name for name in others if name not in self.call.also]

    def run(self, target: object, way: Way, a: int, b: int, held: object = None) -> object:
        """Return what the layer returns for the tokens a to b - 1; `held` is the cache, None for none."""
        piece, whole = self.x[:, a:b].clone(), self.x[:, :b].clone()
        more = {}
        for name, value in self.call.also.items():
            if name in self.caches:
                continue
            more[name] = (
                _last(value(whole), b, b - a)
                if callable(value) and way.told
                else value(piece)
                if callable(value)
                else value
            )
        if way.told:
            more |= dict.fromkeys(self.starts, a)
            more |= {
                n: torch.arange(a, b) if n.startswith("cache") else torch.arange(a, b).expand(len(piece), -1)
                for n in self.places
            }
        more |= dict.fromkeys(way.flags, True)
        more |= {way.name: held} if way.name and held is not None else {}
        call = copy.copy(self.call)
        call.target, call.also = target, {}
        if call.mask is not None:  # a row for each new token, a column for each token so far
            more |= {call.mask.name: call.mask.made(torch.ones(len(piece), b - a, b, dtype=torch.bool), piece.dtype)}
            call.mask = None
        return call.result([piece] * len(call.roles), None, **more)

    def output(self, result: object, tokens: int) -> Tensor:
        """Return the output `(B, tokens, d_out)` out of a result."""
        out = turned_back(pick(result, self.call.output), self.call.axes)
        if out.ndim != 3 or out.shape[1] != tokens:
            raise ValueError("the output has another number of tokens")
        return out.detach().to("cpu", torch.float32)

    def ways(self, n: int) -> Iterator[Way]:
        """Yield the ways of handing over a cache that run and in which something grows."""
        target = self.call.target
        tellable = bool(self.starts or self.places or any(callable(v) for v in self.call.also.values()))
        for told, flags in product(
            (True, False) if tellable else (False,), (tuple(self.flags), ()) if self.flags else ((),)
        ):
            for name, seed in product(self.caches, SEEDS):
                way, results, seeds = Way(name, seed, None, told, flags), [], []
                try:
                    for length in (n, n + 1):
                        seeds.append(self.seed(way))
                        results.append(self.run(target, way, 0, length, seeds[-1]))
                except Exception:
                    continue
                if seed and _grew(seeds[0], seeds[1], 1):
                    yield way
                output = pick(results[0], self.call.output)
                for path in _paths(results[0], output):
                    if _grew(_at(results[0], path), _at(results[1], path), 1):
                        yield Way(name, seed, path, told, flags)
            if (told or flags) and isinstance(target, nn.Module):
                yield Way("", "", None, told, flags)

    def seed(self, way: Way) -> object:
        """Return an empty cache, or None."""
        if way.seed == "own":
            kind = next(p.annotation for p in self.named if p.name == way.name)
            if not isinstance(kind, type) or kind.__module__ in ("builtins", "inspect", "torch"):
                raise TypeError("no class of its own")
            return kind()
        return SEEDS[way.seed]() if way.seed else None

    def outcome(self, way: Way, n: int) -> tuple[list[float], Tensor, int]:
        """Return how far each further piece is from the full pass, the first difference that is wrong, and its place.

        Raises:
            ValueError: it is no cache that is handed over in this way.
        """
        kept = not way.name
        target = copy.deepcopy(self.call.target) if kept else self.call.target
        plain = Way("", "", None, way.told, ())
        whole = {b: self.output(self.run(copy.deepcopy(target), plain, 0, b), b) for b in (n, n + 1, n + 2, n + 4)}
        spread = float((whole[n + 4] - whole[n + 4].mean(1, keepdim=True)).abs().max())
        held, off, wrong, at = self.seed(way) if way.name else None, [], None, n
        for a, b in ((0, n), (n, n + 1), (n + 1, n + 2), (n + 2, n + 4)):
            before = _shapes(held)
            try:
                result = self.run(target, way, a, b, held)
            except Exception:
                if b == n + 4:  # one token at a time is all that it takes
                    break
                raise
            if way.path is not None:
                came = _at(result, way.path)
                held = came if a == 0 else _joined(held, came, b - a)
            if any(x.dtype in (torch.float16, torch.bfloat16) for x in _tensors(held)):
                raise ValueError("it is kept in low precision")
            if a and way.name and way.path is None and _shapes(held) == before:
                raise ValueError("it does not grow")
            difference = self.output(result, b - a) - whole[b][:, a:]
            off.append(float(difference.abs().max()) / spread)
            if off[-1] > FAR and a and wrong is None:
                wrong, at = difference, a
        if not off[0] <= FAR:
            if way.seed or way.path is not None or not any("cache" in flag for flag in way.flags):
                raise ValueError("the first tokens have other outputs with a cache")
            return [off[0]] * 2, difference, 0
        if kept and not self._remembers(way, n):
            raise ValueError("new tokens know nothing of earlier ones")
        return off[1:], wrong if wrong is not None else torch.zeros(1), at

    def _remembers(self, way: Way, n: int) -> bool:
        """Whether a new token sees anything of the first ones: what a module keeps may be something else."""
        outs = []
        for first in (self.x, self.x.roll(1, -1)):
            other = Generating(self.patient, torch.cat([first[:, :n], self.x[:, n:]], 1))
            target = copy.deepcopy(self.call.target)
            other.run(target, way, 0, n)
            outs.append(other.output(other.run(target, way, n, n + 1), 1))
        return not torch.allclose(*outs)

    def kept_otherwise(self, way: Way, n: int) -> str:
        """Say which tokens stand otherwise in the cache than after a full pass."""
        target, caches = self.call.target, []
        if not way.name:
            return ""
        for ends in ((n, n + 1), (n + 1,)):
            held, a = self.seed(way), 0
            for b in ends:
                result = self.run(target, way, a, b, held)
                came = held if way.path is None else _at(result, way.path)
                held, a = came if a == 0 or way.path is None else _joined(held, came, b - a), b
            caches.append(list(_tensors(held)))
        for name, one, two in zip(("keys", "values"), *caches, strict=False):
            axis = next((i for i, size in enumerate(two.shape) if size == n + 1), None)
            if one.shape == two.shape and axis is not None and not torch.allclose(one, two, atol=1e-5):
                off = [
                    i for i in range(n + 1) if not torch.allclose(one.select(axis, i), two.select(axis, i), atol=1e-5)
                ]
                first = torch.allclose(one, two.roll(1, axis), atol=1e-5)
                where = (
                    "the new token stands before the older ones" if first else f"kept otherwise for {listed(off, n)}"
                )
                return f"of the {name} that it keeps, {where}"
        return ""

    def sees(self, way: Way, n: int) -> tuple[list[int], list[int]]:
        """Return which tokens the first new one sees with the cache, and in the full pass."""
        seen: tuple[list[int], list[int]] = [], []
        before = None
        for j in range(-1, n + 1):
            x = self.x.clone()
            if j >= 0:
                x[:, j] = x[:, j].roll(1, -1) - 0.5 * x[:, j]
            other, target = Generating(self.patient, x), copy.deepcopy(self.call.target)
            held = self.seed(way) if way.name else None
            first = other.run(target, way, 0, n, held)
            held = _at(first, way.path) if way.path is not None else held
            outs = (
                other.output(other.run(target, way, n, n + 1, held), 1),
                other.output(
                    other.run(copy.deepcopy(self.call.target), Way("", "", None, way.told, ()), 0, n + 1), n + 1
                )[:, -1:],
            )
            before = before or outs
            for tokens, old, new in zip(seen, before, outs, strict=True):
                if j >= 0 and (new - old).abs().max() > 1e-5 * old.abs().max():
                    tokens.append(j)
        return seen


def caches_as_the_full_pass(patient: Patient, sees_window: bool, causal: bool, report: Report) -> None:
    """Look for a way of caching that gives what the full pass gives; without one, tell what went wrong."""
    others = {1, 2, patient.num_heads, patient.head_dim, 2 * patient.head_dim, patient.d_model}
    n = next(n for n in range(5, 10**6) if not others & {n, n + 1, n + 2, n + 4})
    best = None
    for batch in (2, 1):
        x = patient.noise(batch, n + 4, 40).to(patient.device, patient.dtype)
        layer = Generating(patient, x)
        if not layer.caches and not (layer.starts or layer.places or layer.flags):
            return
        with patient.quietly(), torch.no_grad():
            for way in layer.ways(n):
                try:
                    off, difference, at = layer.outcome(way, n)
                except Exception:  # a way that does not run is none, whatever is raised
                    continue
                if max(off[:2]) <= FAR:
                    if len(off) > 2 and off[2] > FAR:
                        text = "two new tokens at once differ from the full pass, one at a time does not"
                        if causal:
                            text = f"{text} (by {amount(difference)}): is a causal mask used with the cache?"
                            report.find("cache-differs", text)
                        else:
                            report.skip("cache", text)
                    return
                best = best or (layer, way, difference, at)
        if best:
            break
    if best is None:
        if layer.caches:
            report.skip("cache", f"no way of generating with {', '.join(layer.caches)} was found that runs")
        return
    layer, way, difference, at = best
    if sees_window:
        report.skip("cache", "generating differs from the full pass; not judged in layers that see a window")
    else:
        where = f"in {way.name}" if way.name else "in the module"
        text = f"{n} tokens, then one at a time with the cache {where}: the output of token {at} (counted from 0)"
        with patient.quietly(), torch.no_grad():
            cached, full = layer.sees(way, n)
            kept = layer.kept_otherwise(way, n)
        if (
            at >= n
            and cached
            and cached == [*range(cached[0], n + 1)]
            and 0 < cached[0] < n
            and full == [*range(n + 1)]
        ):
            report.skip(
                "cache", f"generating differs from the full pass: it keeps the last {n + 1 - cached[0]} tokens alone"
            )
            return
        untold = layer.others + [name for name, value in patient.call.also.items() if callable(value)]
        if untold and cached == full:
            report.skip("cache", f"generating differs from the full pass; does it say places in {', '.join(untold)}?")
            return
        why = "" if cached == full else f"; the new token sees {listed(cached, n)}, in the full pass {listed(full, n)}"
        why += f"; {kept}" if kept else ""
        report.find("cache-differs", f"{text} differs from the full pass by up to {amount(difference)}{why}.")


def listed(tokens: Sequence[int], n: int) -> str:
    """Return some of the tokens 0 to n in words."""
    if len(tokens) == n + 1:
        return "all"
    return f"only {', '.join(map(str, tokens))}" if tokens else "none"


# -------------------------------------------------------------------------------------------------------- what it holds


def _tensors(held: object, depth: int = 0) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif depth < 4 and isinstance(held, (dict, tuple, list)):
        for part in held.values() if isinstance(held, dict) else held:
            yield from _tensors(part, depth + 1)
    elif depth < 4 and hasattr(held, "__dict__") and not isinstance(held, type):
        for part in vars(held).values():
            yield from _tensors(part, depth + 1)


def _shapes(held: object) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for t in _tensors(held)]


def _grew(short: object, long: object, tokens: int) -> bool:
    """Whether each tensor is longer by these tokens along just one axis."""
    pairs = list(zip(_shapes(short), _shapes(long), strict=False))
    grown = [[n - m for m, n in zip(s, t, strict=False) if m != n] for s, t in pairs]
    return bool(pairs) and all(len(s) == len(t) for s, t in pairs) and all(g == [tokens] for g in grown)


def _at(result: object, path: tuple) -> object:
    for key in path:
        result = getattr(result, key) if isinstance(key, str) and not isinstance(result, dict) else result[key]
    return result


def _paths(result: object, output: Tensor, path: tuple = ()) -> Iterator[tuple]:
    """Yield the paths to all parts of a result that hold tensors but not its output, the larger parts first."""
    if path and not any(t is output for t in _tensors(result)) and _shapes(result):
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


def _joined(old: object, new: object, tokens: int) -> object:
    """Return the cache after a call; where just the new tokens came back, its caller joins them to the others."""
    pairs = list(zip(_tensors(old), _tensors(new), strict=False))
    axes = [[i for i, (m, n) in enumerate(zip(a.shape, b.shape, strict=False)) if m != n] for a, b in pairs]
    alone = all(len(a) == 1 and b.shape[a[0]] == tokens for a, (_, b) in zip(axes, pairs, strict=True))
    if not pairs or not alone or not isinstance(new, (Tensor, tuple, list)):
        return new
    joined = [torch.cat(pair, a[0]) for pair, a in zip(pairs, axes, strict=True)]
    return joined[0] if isinstance(new, Tensor) else tuple(joined)


def _last(value: object, length: int, new: int) -> object:
    """Return what belongs to the new tokens out of a table, or tables, for all of them."""
    if isinstance(value, Tensor):
        for axis, size in enumerate(value.shape):
            value = value.narrow(axis, length - new, new) if size == length else value
        return value
    return tuple(_last(part, length, new) for part in value) if isinstance(value, (tuple, list)) else value

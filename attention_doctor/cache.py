"""Generating with a cache gives what the full pass gives, one new token after the other.

The first tokens are handed over, then one, one, and two more with the cache; each output is compared with that of a
call with all tokens so far and no cache. Where each way of handing a cache over that runs is far off, it is found.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
        self.x, self.call = x, patient.call
        signature = signature_of(self.call.target)
        self.named = [] if signature is None else list(signature.parameters.values())
        numbers = {p.name for p in self.named if isinstance(p.default, int) or p.annotation in (int, bool, "int")}

        def those(pattern: re.Pattern, *without: Iterable[str]) -> list[str]:
            taken = {name for names in without for name in names}
            return [p.name for p in self.named if pattern.search(p.name) and p.name not in taken]

        asked = {p.name for p in self.named if isinstance(p.default, (bool, type(None), type))}
        self.flags = [name for name in those(names.FLAG) if name in asked]
        self.starts = those(names.START)
        self.starts += [name for name in those(names.PLACES, self.starts) if name in numbers]
        self.places = those(names.PLACES, self.starts)
        self.caches = those(names.CACHE, self.starts, self.places, self.flags, numbers)
        self.others = those(names.ABOUT_PLACES, self.starts, self.places, self.flags, self.caches, self.call.also)

    def run(self, target: object, way: Way, x: Tensor, a: int, b: int, held: object = None) -> object:
        """Return what the layer returns for the tokens a to b - 1; `held` is the cache, None for none."""
        piece, whole, more = x[:, a:b].clone(), x[:, :b].clone(), {}
        for name, value in self.call.also.items():
            if name not in self.caches:
                told = callable(value) and way.told
                more[name] = _last(value(whole), b, b - a) if told else value(piece) if callable(value) else value
        if way.told:
            places = torch.arange(a, b)
            more |= dict.fromkeys(self.starts, a)
            more |= {n: places if n.startswith("cache") else places.expand(len(piece), -1) for n in self.places}
        more |= dict.fromkeys(way.flags, True)
        more |= {way.name: held} if way.name and held is not None else {}
        call, mask = replace(self.call, target=target, also={}, mask=None), self.call.mask
        if mask is not None:  # a row for each new token, a column for each token so far
            more |= {mask.name: mask.made(torch.ones(len(piece), b - a, b, dtype=torch.bool), piece)}
        return call.result([piece] * len(call.roles), None, **more)

    def output(self, result: object, tokens: int) -> Tensor:
        """Return the output `(B, tokens, d_out)` out of a result."""
        out = turned_back(pick(result, self.call.output), self.call.axes)
        if out.ndim != 3 or out.shape[1] != tokens:
            raise ValueError("the output has another number of tokens")
        return out.detach().to("cpu", torch.float32)

    def fed(self, way: Way, x: Tensor, ends: Sequence[int]) -> list[tuple[Tensor, object, list]]:
        """Return the output, the cache and its shapes after each piece; the layer comes back as it was."""
        target = self.call.target if way.name else copy.deepcopy(self.call.target)
        held, a, made = self.seed(way) if way.name else None, 0, []
        for b in ends:
            result = self.run(target, way, x, a, b, held)
            if way.path is not None:
                came = _at(result, way.path)
                held = came if a == 0 else _joined(held, came, b - a)
            made.append((self.output(result, b - a), held, _shapes(held)))
            a = b
        return made

    def whole(self, way: Way, x: Tensor, tokens: int) -> Tensor:
        """Return the output of the first tokens at once, without a cache."""
        return self.fed(Way("", "", None, way.told, ()), x, (tokens,))[0][0]

    def ways(self, n: int) -> Iterator[Way]:
        """Yield the ways of handing over a cache that run and in which something grows."""
        target = self.call.target
        fillers = any(callable(value) for value in self.call.also.values())
        tellable = (True, False) if self.starts or self.places or fillers else (False,)
        for told, flags in product(tellable, (tuple(self.flags), ()) if self.flags else ((),)):
            for name, seed in product(self.caches, SEEDS):
                way, results, seeds = Way(name, seed, None, told, flags), [], []
                try:
                    for length in (n, n + 1):
                        seeds.append(self.seed(way))
                        results.append(self.run(target, way, self.x, 0, length, seeds[-1]))
                except Exception:
                    continue
                if seed and _grew(*seeds, 1):
                    yield way
                for path in _paths(results[0], pick(results[0], self.call.output)):
                    if _grew(*(_at(result, path) for result in results), 1):
                        yield Way(name, seed, path, told, flags)
            if (told or flags) and isinstance(target, nn.Module):
                yield Way("", "", None, told, flags)

    def seed(self, way: Way) -> object:
        """Return an empty cache, or None."""
        if way.seed != "own":
            return SEEDS[way.seed]() if way.seed else None
        kind = next(p.annotation for p in self.named if p.name == way.name)
        if not isinstance(kind, type) or kind.__module__ in ("builtins", "inspect", "torch"):
            raise TypeError("no class of its own")
        return kind()

    def outcome(self, way: Way, n: int) -> tuple[list[float], Tensor, int]:
        """Return how far each further piece is from the full pass, the first difference that is wrong, and its place.

        Raises:
            ValueError: it is no cache that is handed over in this way.
        """
        ends = (n, n + 1, n + 2, n + 4)
        try:
            made = self.fed(way, self.x, ends)
        except Exception:  # one token at a time is all that it takes
            made = self.fed(way, self.x, ends[:3])
        whole = [self.whole(way, self.x, b) for b in ends]
        spread = float((whole[-1] - whole[-1].mean(1, keepdim=True)).abs().max())
        differences = [out - full[:, -out.shape[1] :] for (out, *_), full in zip(made, whole, strict=False)]
        off = [float(difference.abs().max()) / spread for difference in differences]
        if any(x.dtype in (torch.float16, torch.bfloat16) for x in _tensors(made[-1][1])):
            raise ValueError("it is kept in low precision")
        if way.name and way.path is None and made[0][2] == made[1][2]:
            raise ValueError("it does not grow")
        if not off[0] <= FAR:
            if way.seed or way.path is not None or not any("cache" in flag for flag in way.flags):
                raise ValueError("the first tokens have other outputs with a cache")
            return [off[0]] * 2, differences[0], 0
        if not way.name:  # what a module keeps may be something else: do new tokens see anything of the first ones?
            others = torch.cat([self.x[:, :n].roll(1, -1), self.x[:, n:]], 1)
            if torch.allclose(made[1][0], self.fed(way, others, ends[:2])[1][0]):
                raise ValueError("new tokens know nothing of earlier ones")
        at = next((i for i, far in enumerate(off) if i and not far <= FAR), 1)
        return off[1:], differences[at], ends[at - 1]

    def why(self, way: Way, n: int) -> tuple[list[int], list[int], str]:
        """Return which tokens the first new one sees with the cache, and in the full pass; what is kept otherwise."""
        seen, before = ([], []), None
        for j in range(-1, n + 1):
            x = self.x.clone()
            if j >= 0:
                x[:, j] = x[:, j].roll(1, -1) - 0.5 * x[:, j]
            outs = self.fed(way, x, (n, n + 1))[1][0], self.whole(way, x, n + 1)[:, -1:]
            before = before or outs
            for tokens, old, new in zip(seen, before, outs, strict=True):
                if (new - old).abs().max() > 1e-5 * old.abs().max():
                    tokens.append(j)
        caches = [list(_tensors(self.fed(way, self.x, ends)[-1][1])) for ends in ((n, n + 1), (n + 1,))]
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
                return *seen, f"; of the {name} that it keeps, {where}"
        return *seen, ""


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
            cached, full, kept = layer.why(way, n)
        latest = bool(cached) and cached == [*range(cached[0], n + 1)] and 0 < cached[0] < n
        if at >= n and latest and full == [*range(n + 1)]:
            text = f"it keeps the last {n + 1 - cached[0]} tokens alone"
            report.skip("cache", f"generating differs from the full pass: {text}")
            return
        untold = layer.others + [name for name, value in patient.call.also.items() if callable(value)]
        if layer.others or (untold and 2 * len(cached) >= len(full)):
            report.skip("cache", f"generating differs from the full pass; does it say places in {', '.join(untold)}?")
            return
        why = "" if cached == full else f"; the new token sees {listed(cached, n)}, in the full pass {listed(full, n)}"
        why += kept
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

"""Generating with a cache gives what the full pass gives, one new token after the other.

The first tokens are handed over, then one, one, and two more with the cache; each output is compared with that of a
call with all tokens so far and no cache. Where each way of handing a cache over that runs is far off, it is found.
"""

import copy
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple, get_args, get_type_hints

import torch
from torch import Tensor, nn

from attention_doctor import argument_names as names
from attention_doctor.argument_names import Filler
from attention_doctor.calling import Attribute, Mask, parameters_of, parts, pick, turned_back
from attention_doctor.patient import Patient, amount
from attention_doctor.report import Report

FAR = 1e-3  # of how much outputs differ among themselves; less may be rounding, also in low precision


class Grows(dict):
    """An empty cache with the method that transformers' caches have: `update(k, v, …)` returns all that came so far."""

    def update(self, k: Tensor, v: Tensor, layer: int | None = 0, *_, **__) -> tuple[Tensor, Tensor]:
        before = self.get(layer, (k[..., :0, :], v[..., :0, :]))
        self[layer] = torch.cat((before[0], k), -2), torch.cat((before[1], v), -2)
        return self[layer]

    def get_seq_length(self, layer: int | None = 0, *_) -> int:
        return self[layer][0].shape[-2] if layer in self else 0


class Empty(Filler):
    """An argument that is an empty cache, a new one for each call; `maker` takes x."""

    def __init__(self, text: str, maker: Callable[[Tensor], object]):
        super().__init__(text)
        self.maker, self.its_own = maker, isinstance(maker, partial)  # whether the layer's author wrote it

    def __call__(self, *inputs: Tensor, mask: Tensor | None = None) -> object:
        return self.maker(inputs[0])


def empty_caches(target: object, name: str) -> list[Empty]:
    """Return what may be an empty cache: what transformers has, a dict, or what its author wrote for it.

    That is the class that is its type, one beside the layer that is called a cache, or a method of the layer.
    """
    hint = None
    with suppress(Exception):  # names that stand for no types
        hint = get_type_hints(target.forward if isinstance(target, nn.Module) else target).get(name)
    kinds = [kind for kind in (*get_args(hint), hint) if isinstance(kind, type) and kind.__module__ != "builtins"]
    written = [kind for kind in type(target).__mro__ if kind.__module__.partition(".")[0] not in ("torch", "builtins")]
    beside = [item for kind in written for item in vars(sys.modules.get(kind.__module__, object)).items()]
    kinds += [kind for word, kind in beside if isinstance(kind, type) and re.search(r"cache$|^kv", word, re.I)]
    forward = nn.Module.forward  # a cache may be a module, and is no layer
    makers = [k for k in dict.fromkeys(kinds) if k is not Tensor and getattr(k, "forward", forward) is forward]
    found = [Empty("{}", lambda x: {}), Empty("DynamicCache()", lambda x: Grows())]
    found += [Empty(f"{maker.__name__}(...)", partial(_made, maker, target=target)) for maker in makers]
    methods = [(word, getattr(target, word)) for word in dir(type(target)) if MAKES.search(word)]
    return found + [Empty(f"layer.{word}(...)", partial(_made, made, target=target)) for word, made in methods]


MAKES = re.compile(r"^(setup|set_up|init|initialize|build|make|create|new|empty|alloc\w*|enable)_\w*caches?$")


class Way(NamedTuple):
    """A way of handing over a cache."""

    name: str = ""  # of the argument; "" where the cache stays in the module
    seed: Empty | None = None  # what the first call is given for it; None for none
    path: tuple | None = None  # where it comes back in the result; None where it is filled in place
    maker: str = ""  # the method that makes it in the module, before the first call


class Generating:
    """Calls a layer with pieces of one sequence; its arguments are told apart by their names."""

    def __init__(self, patient: Patient, x: Tensor, memory: Sequence[Tensor]):
        self.x, self.call, self.memory = x, patient.call, memory  # inputs that stay the same, or none
        self.flags, self.starts, self.places, self.caches, self.others = found = [], [], [], [], []
        for p in parameters_of(self.call.target).values():
            number = isinstance(p.default, int) or p.annotation in (int, bool, "int")
            place = names.PLACES.search(p.name)
            fits = [  # in the order of what is found; the first counts
                names.FLAG.search(p.name) and isinstance(p.default, (bool, type(None), type)),
                names.START.search(p.name) or (place and number),
                place,
                names.CACHE.search(p.name) and not number,
                names.ABOUT_PLACES.search(p.name) and p.name not in self.call.also,
            ]
            for those in [those for those, fit in zip(found, fits, strict=True) if fit][:1]:
                those.append(p.name)
        made = [name for name, value in self.call.also.items() if callable(value)]
        self.made = [name for name in made if name not in self.caches]  # by the tokens
        self.told = bool(self.starts or self.places or self.made)  # whether it is told where the new tokens are
        self.flat = self.alone = False  # whether places are one for all samples, (T,), and go with a cache alone
        for kind in ("flat", "alone"):
            try:
                self.whole(x, 5)
            except Exception:
                setattr(self, kind, True)

    mask: Mask | None = None  # that hides later tokens, where it is to be handed over

    def run(self, target: object, way: Way | None, x: Tensor, a: int, b: int, held: object = None) -> object:
        """Return what the layer returns for the tokens a to b - 1; `held` is the cache, None for none."""
        piece, places = x[:, a:b].clone(), torch.arange(a, b)
        also = {n: v for n, v in self.call.also.items() if not way or n not in self.caches or v is None}
        also |= {n: _last(also[n](x[:, :b].clone()), b, b - a) for n in self.made if n in also}
        flat = [n for n in self.places if self.flat or n.startswith("cache")]
        told = {n: places if n in flat else places.expand(len(piece), -1) for n in self.places}
        also |= {} if self.alone and not way else told | dict.fromkeys(self.starts, a)
        also |= dict.fromkeys(self.flags, True) if way else {}
        also |= {way.name: lambda *_: held} if way and way.name and held is not None else {}  # a module is callable
        call = replace(self.call, target=target, also=also, mask=self.mask)
        shown = torch.ones(len(piece), b - a, b, dtype=torch.bool).tril(a) if self.mask else None
        return call.result([piece, *self.memory] if self.memory else [piece] * len(call.roles), shown)

    def fed(self, way: Way | None, x: Tensor, ends: Sequence[int]) -> list[tuple[Tensor, object]]:
        """Return the output and the cache after each piece; the layer comes back as it was."""
        target = self.call.target if way and way.name else copy.deepcopy(self.call.target)
        if way and way.maker:
            _made(getattr(target, way.maker), x, target)
        held, a, made = way.seed(x) if way and way.seed else None, 0, []
        for b in ends:
            result = self.run(target, way, x, a, b, held)
            if way and way.path is not None:
                came = _at(result, way.path)
                held = came if a == 0 else _joined(held, came, b - a)
            out = turned_back(pick(result, self.call.output), self.call.axes)
            made.append((out.detach().to("cpu", torch.float32), held))
            a = b
        return made

    def whole(self, x: Tensor, tokens: int) -> Tensor:
        """Return the output of the first tokens at once, without a cache."""
        return self.fed(None, x, (tokens,))[0][0]

    def ways(self, n: int) -> Iterator[Way]:
        """Yield the ways of handing over a cache that run and in which something grows."""
        target = self.call.target
        for name, seed in [(each, seed) for each in self.caches for seed in (None, *empty_caches(target, each))]:
            way = Way(name, seed)
            try:
                seeds = [seed and seed(self.x), seed and seed(self.x)]
                results = [self.run(target, way, self.x, 0, n + i, seeds[i]) for i in (0, 1)]
            except Exception:
                continue
            of_memory = self.memory and seed and _tensors(seeds[0])  # kept once, it need not grow
            if seed and (of_memory or _grew(*seeds) or (seed.its_own and _filled(*seeds))):
                yield way
            for path in _paths(results[0], pick(results[0], self.call.output)):
                if _grew(*(_at(result, path) for result in results)):
                    yield way._replace(path=path)
        if (self.told or self.flags) and isinstance(target, nn.Module):
            yield Way()
            yield from (Way(maker=name) for name in dir(type(target)) if MAKES.search(name) and not self.call.masks)

    def replay(self, way: Way, ends: Sequence[int]) -> str:
        """Return what was done with the cache, for `example`, as far as it goes without `memory` or what was made."""

        def function(name: str, part: object) -> list[str]:
            call = replace(self.call, also=self.call.also | also, mask=None, output=part)
            text = "\n".join(call.as_function(len(ends)))
            return ["", *text.replace("attend(x, mask=None)", f"{name}(x)").replace("layer(", "cached(").split("\n")]

        place = "torch.arange(start, end)"
        flat = [n for n in self.places if self.flat or n.startswith("cache")]
        also = {n: Filler(place if n in flat else f"{place}.expand(len(x), -1)") for n in self.places}
        also |= dict.fromkeys(self.starts, Filler("start")) | dict.fromkeys(self.flags, True)
        also |= {way.name: Filler("past")} if way.name else {}
        lines = [
            "import copy",
            *function("new", 0 if way.path and self.call.output is None else self.call.output),
            *(function("kept", way.path) if way.path else []),
            "",
            f"cached, past = copy.deepcopy(layer), {way.seed and way.seed.text}",
            f"x = torch.randn(B, {ends[-1]}, x.shape[-1]).to(x)",
            f"for start, end in {[*pairwise((0, *ends))]}:",
            "    off = (new(x[:, start:end]) - attend(x[:, :end])[:, start:]).abs().max()",
            '    assert off < 1e-3, f"tokens {start} to {end - 1} differ from the full pass by {off:.2g}"',
            *["    past = kept(x[:, start:end])"] * bool(way.path),
        ]
        return "\n".join(lines)

    def outcome(self, way: Way, ends: Sequence[int]) -> tuple[list[float], Tensor, int]:
        """Return how far each further piece is from the full pass, the first difference that is wrong, and its place.

        Raises:
            ValueError: it is no cache that is handed over in this way.
        """
        n = ends[0]
        try:
            made = self.fed(way, self.x, ends)
        except Exception:  # one token at a time is all that it takes
            made = self.fed(way, self.x, ends[:-1])
        whole = [self.whole(self.x, b) for b in ends]
        spread = float((whole[-1] - whole[-1].mean(1, keepdim=True)).abs().max())
        differences = [out - full[:, -out.shape[1] :] for (out, _), full in zip(made, whole, strict=False)]
        off = [float(difference.abs().max()) / spread for difference in differences]
        if any(x.dtype.itemsize < 4 for x in _tensors(made[-1][1])):
            raise ValueError("it is kept in low precision")
        if not off[0] <= FAR:
            foreign = way.seed and not way.seed.its_own
            if foreign or way.path is not None or not (way.seed or any("cache" in flag for flag in self.flags)):
                raise ValueError("the first tokens have other outputs with a cache")
            return [off[0]] * 2, differences[0], 0
        if not way.name:  # what a module keeps may be something else: do new tokens see anything of the first ones?
            others = torch.cat([self.x[:, :n].roll(1, -1), self.x[:, n:]], 1)
            if torch.allclose(made[1][0], self.fed(way, others, ends[:2])[1][0]):
                raise ValueError("new tokens know nothing of earlier ones")
        at = next((i for i, far in enumerate(off) if i and not far <= FAR), 1)
        return off[1:], differences[at], ends[at - 1]

    def seen(self, way: Way, ends: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return which tokens the last new one sees with the cache, and in the full pass."""
        found, before = ([], []), None
        for j in range(-1, ends[-1]):
            x = self.x.clone()
            if j >= 0:
                x[:, j] = x[:, j].roll(1, -1) - 0.5 * x[:, j]
            outs = self.fed(way, x, ends)[-1][0], self.whole(x, ends[-1])[:, -1:]
            before = before or outs
            for tokens, old, new in zip(found, before, outs, strict=True):
                tokens += [j] if (new - old).abs().max() > 1e-5 * old.abs().max() else []
        return found


def caches_as_the_full_pass(patient: Patient, window: int, causal: bool, own: Mask | None, report: Report) -> None:
    """Look for a way of caching that gives the full pass; `window`: most keys seen, or 0; `own`: mask for its."""
    others = {1, 2, patient.num_heads, patient.head_dim, 2 * patient.head_dim, patient.d_model}
    n = next(n for n in range(5, 10**6) if not others & {n, n + 1, n + 2, n + 4})
    best, what = None, "generating differs from the full pass"
    ends = (n, n + 1, n + 2, n + 4)
    if window > 2:  # one token at a time, until the first ones have left it
        n = max(1, min(n, window - 2))
        ends = (*range(n, window + 4), window + 5)
    x, memory = (patient.noise(2, T, 40).to(patient.dtype) for T in (ends[-1], n + 1))
    memories = [patient.inputs(memory)[1:], []] if "context" in patient.call.roles else [[]]
    with patient.quietly(), torch.no_grad():
        layers = [Generating(patient, x, memory) for memory in memories]
        for layer, way in ((each, way) for each in layers for way in each.ways(n)):
            try:
                off, difference, at = layer.outcome(way, ends)
            except Exception:  # a way that does not run is none, whatever is raised
                continue
            if max(off[: len(ends) - 2]) <= FAR:
                untold = own is None and patient.call.masks  # a mask of which nothing is known may be meant for that
                layer.mask, at_once = own, causal and not untold and len(off) == len(ends) - 1 and off[-1] > FAR
                with suppress(Exception):  # its callers may hand over a mask where several tokens are new
                    at_once = at_once and not (own and max(layer.outcome(way, ends)[0]) <= FAR)
                if at_once:
                    text = "two new tokens at once differ from the full pass, one at a time does not"
                    text = f"{text} (by {amount(difference)}): is a causal mask used with the cache?"
                    patient.generated = layer.replay(way, ends)
                    report.say("cache-differs", text)
                return None
            best = best or (layer, way, difference, at)
    if best is None:
        none = f"no way of generating with {', '.join(layers[0].caches)} was found that runs"
        return report.say("cache", none) if layers[0].caches else None
    layer, way, difference, at = best
    with patient.quietly(), torch.no_grad():
        cached, full = layer.seen(way, [*(end for end in ends if end <= at), at + 1] if window else (n, n + 1))
    last = at >= n and full == [*range(n + 1)] and 1 < len(cached) <= n and cached == full[-len(cached) :]
    if last:  # a window keeps as many behind a longer prompt, and what loses a token a step keeps more
        with patient.quietly(), torch.no_grad(), suppress(Exception):
            last = len(layer.seen(way, (n + 2, n + 3))[0]) == len(cached)
    shared = [j for j in full if j in cached]
    untold = layer.others + [name for name in layer.made if name not in layer.places]
    unsure = {  # what may be meant so
        "; a window is judged only where it forgets the newest": window and full[len(full) - len(shared) :] == shared,
        f": it keeps the last {len(cached)} tokens alone": last,
        f"; does it say places in {', '.join(untold)}?": layer.others or (untold and 2 * len(cached) >= len(full)),
    }
    for why in [why for why, so in unsure.items() if so][:1]:
        return report.say("cache", f"{what}{why}")
    where = f"in {way.name}" if way.name else "in the module"
    text = f"{n} tokens, then one at a time with the cache {where}: the output of token {at} (counted from 0)"
    seen, whole = (listed(tokens, at if window else n) for tokens in (cached, full))
    why = "" if cached == full else f"; the new token sees {seen}, in the full pass {whole}"
    patient.generated = layer.replay(way, ends)
    return report.say("cache-differs", f"{text} differs from the full pass by up to {amount(difference)}{why}.")


def listed(tokens: Sequence[int], n: int) -> str:
    """Return some of the tokens 0 to n in words."""
    if len(tokens) == n + 1:
        return "all"
    return f"only {', '.join(map(str, tokens))}" if tokens else "none"


# -------------------------------------------------------------------------------------------------------- what it holds


def _tensors(held: object) -> list[Tensor]:
    return [part for _, part in parts(dict(held.named_buffers()) if isinstance(held, nn.Module) else held)]


def _grew(short: object, long: object) -> bool:
    """Whether tensors are longer by a token along just one axis, and the others, as those of a memory, are not."""
    pairs = list(zip(_tensors(short), _tensors(long), strict=False))
    grown = [[n - m for m, n in zip(s.shape, t.shape, strict=False) if m != n] for s, t in pairs if s.ndim == t.ndim]
    return len(grown) == len(pairs) and [1] in grown and all(sizes in ([1], []) for sizes in grown)


def _filled(short: object, long: object) -> bool:
    """Whether tensors with room for all tokens hold other numbers after one more."""
    pairs = list(zip(_tensors(short), _tensors(long), strict=False))
    return any(s.shape == t.shape and s.ndim > 2 and not torch.equal(s, t) for s, t in pairs)


def _made(maker: Callable, x: Tensor, target: object) -> object:
    """Return a cache for all tokens of x, and some more; arguments are told by their names, or are of the layer."""
    known = {r"batch|bsz|^bs$|^b$": len(x), r"len|seq|max|tokens": x.shape[1] + 3, "dtype": x.dtype, "device": x.device}
    values = {}
    for name in (p.name for p in parameters_of(maker).values() if p.default is p.empty):
        fits = [value for words, value in known.items() if re.search(words, name)]
        words = [name, *names.SIZES.get(names.size_of(name), ())]
        values[name] = fits[0] if fits else next(getattr(target, word) for word in words if hasattr(target, word))
    return maker(**values)


def _at(result: object, path: tuple) -> object:
    for key in path:
        result = getattr(result, key) if isinstance(key, Attribute) else result[key]
    return result


def _paths(result: object, output: Tensor) -> Iterator[tuple]:
    """Yield the paths to all parts of a result that hold tensors but not its output, the larger parts first."""
    found = {(place if isinstance(place, tuple) else (place,)): x for place, x in parts(result) if place is not None}
    for path in dict.fromkeys(whole[:n] for whole in found for n in range(1, len(whole) + 1)):
        if not any(x is output for inner, x in found.items() if inner[: len(path)] == path):
            yield path


def _joined(old: object, new: object, tokens: int) -> object:
    """Return the cache after a call; where just the new tokens came back, its caller joins them to the others."""
    joined = []
    for one, two in zip(_tensors(old), _tensors(new), strict=False):
        axis = [i for i, (m, n) in enumerate(zip(one.shape, two.shape, strict=False)) if m != n]
        if len(axis) != 1 or two.shape[axis[0]] != tokens or not isinstance(new, (Tensor, tuple, list)):
            return new
        joined.append(torch.cat((one, two), axis[0]))
    return joined[0] if isinstance(new, Tensor) else tuple(joined) or new


def _last(value: object, length: int, new: int) -> object:
    """Return what belongs to the new tokens out of a table, or tables, for all of them."""
    if isinstance(value, Tensor):
        for axis, size in enumerate(value.shape):
            value = value.narrow(axis, length - new, new) if size == length else value
        return value
    return tuple(_last(part, length, new) for part in value) if isinstance(value, (tuple, list)) else value

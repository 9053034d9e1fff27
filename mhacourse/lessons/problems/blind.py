"""What a check says about a test, whatever the problem: why the test sees nothing, and why it accuses a healthy layer.

Notes that apply to only one problem are kept beside that problem, under the same names.
"""

import ast
import contextlib
import copy
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mhacourse.judge_test import CLOSE
from mhacourse.lessons.problems.calls import misfit
from mhacourse.lessons.problems.layers import ReviewAttention
from mhacourse.lessons.problems.mendings import because, dropped
from mhacourse.problem_set import Problem
from mhacourse.try_test import Call, Otherwise, Subject, made, source_of, tried


def _alike(some: Mapping[str, object], others: Mapping[str, object]) -> bool:
    pairs = [(some.get(name), others.get(name)) for name in {*some, *others}]
    return all(torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b for a, b in pairs)


def _hides(call: Call) -> bool:
    return call.mask is not None and not bool(call.mask.all())


def _too_close(calls: Sequence[Call]) -> bool:
    """Return whether all inputs are practically the same, although some differ."""
    inputs = [call.x for call in calls]
    pairs = [(inputs[0], other) for other in inputs[1:] if not torch.equal(inputs[0], other)]
    return bool(pairs) and all(a.shape == b.shape and torch.allclose(a, b, atol=1e-3) for a, b in pairs)


def _masks(calls: Sequence[Call]) -> list[Tensor]:
    return [call.mask for call in calls if call.mask is not None]


def _masked(calls: Sequence[Call]) -> Iterator[tuple[str, str]]:
    """Yield each sample of the calls with its memory, and with its mask if that hides something."""
    for call in calls:
        memory = call.given.get("memory")
        for i, sample in enumerate(call.x):
            answers = memory[i].tolist() if isinstance(memory, Tensor) else None
            mask = call.mask[i % len(call.mask)] if call.mask is not None and call.mask.ndim == 3 else call.mask
            hidden = mask.tolist() if mask is not None and not mask.all() else ""
            yield f"{sample.tolist()} {answers}", str(hidden)


def _tokens(call: Call | None) -> set[str]:
    """Return the tokens that a call was given, together with those in its cache."""
    return set() if call is None else {str(token) for token in call.x[0].tolist()} | _tokens(call.cached)


def _reordered(calls: Sequence[Call], name: str = "x", axis: int = 1) -> bool:
    """Return whether some calls pass the same tokens in a different order (axis 0: samples, axis 2: features)."""

    def in_order(part: list, axis: int) -> list:
        return [in_order(one, axis - 1) for one in part] if axis else sorted(part)

    given = [call.given[name].tolist() for call in calls if isinstance(call.given.get(name), Tensor)]
    return len({*map(str, given)}) > len({str(in_order(samples, axis)) for samples in given})


def _features_changed(calls: Sequence[Call]) -> bool:
    """Return whether, in every token, some features differ from those in the first call and the rest do not."""
    differ = [(call.x != calls[0].x).flatten(0, 1) for call in calls[1:] if call.x.shape == calls[0].x.shape]
    return any(bool(each.any(1).all() and not each.any(0).all()) for each in differ)


def _combined(calls: Sequence[Call]) -> bool:
    """Return whether one call's input is a multiple of another's, or the mean of its samples or of its tokens."""
    for x, y in ((one.x, other.x) for one in calls for other in calls if one is not other):
        ways = [x.mean(i, keepdim=True) for i in (0, 1) if not x.equal(x.narrow(i, 0, 1).expand_as(x))]
        ways += [] if torch.allclose(x, y) else [x * (y.flatten()[0] / x.flatten()[0])]
        if any(way.shape == y.shape and torch.allclose(way, y, atol=1e-6) for way in ways):
            return True
    return False


def _whole(call: Call, calls: Sequence[Call]) -> Tensor | None:
    """Return the outputs for a call's tokens from another call that has more tokens, if neither has a mask."""
    T = call.x.shape[1]
    for other in calls if call.given.keys() == {"x"} else ():
        for start in range(other.x.shape[1] - T + 1 if other.given.keys() == {"x"} else 0):
            if T < other.x.shape[1] and call.x.equal(other.x[:, start : start + T]):
                return other.gave[0][0][:, start : start + T]
    return None


# ------------------------------------------------------------------------------------------- the rows that it compares


def _changed(call: Call, calls: Sequence[Call], name: str = "x") -> Tensor:
    """Return, as `(B, S)`, which tokens of one argument differ from those of another call with the same shape."""
    mine = call.given[name]
    others = [other.given.get(name) for other in calls]
    differ = [(mine - other).bool().any(-1) for other in others if other is not None and other.shape == mine.shape]
    return torch.stack([torch.zeros(mine.shape[:2], dtype=torch.bool), *differ]).any(0)


def _samples_changed(call: Call, calls: Sequence[Call]) -> Tensor:
    """Return, as `(B,)`, which samples differ from those of another call in x or in memory."""
    given = [name for name in ("x", "memory") if call.given.get(name) is not None]
    return torch.stack([_changed(call, calls, name).any(1) for name in given]).any(0)


def _mask(call: Call, answering: Tensor) -> Tensor:
    """Return the mask of a call, `(T, S)` or `(B, T, S)`."""
    return call.mask.bool() if call.mask is not None else torch.ones(call.x.shape[1], answering.shape[1]).bool()


def _seeing(call: Call, calls: Sequence[Call]) -> Tensor:
    """Return which tokens may see one that was changed."""
    changed = _changed(call, calls, "x" if call.given.get("memory") is None else "memory")
    return (_mask(call, changed) & changed[:, None]).any(-1)


def _hidden(call: Call, calls: Sequence[Call]) -> Tensor:
    """Return which tokens are hidden from all others, counting only changed tokens if there are any."""
    changed = _changed(call, calls)
    if call.mask is None or call.given.get("memory") is not None:
        return changed & False
    others = call.mask.bool() & ~torch.eye(changed.shape[1]).bool()
    return (changed | ~changed.any()) & ~others.any(-2)


def _later(call: Call, calls: Sequence[Call]) -> Tensor:
    """Return which tokens were changed, or come after one that was."""
    return _changed(call, calls).cumsum(1) > 0


def _empty(call: Call, calls: Sequence[Call]) -> Tensor:
    """Return which tokens have nothing to see."""
    return ~_mask(call, call.x).any(-1)


def _without(rows: Callable[[Call, Sequence[Call]], Tensor], fill: float = 0.0) -> Callable:
    """Return a function that makes some rows of the outputs the same in each call."""
    return lambda y, call, calls: y.masked_fill(rows(call, calls)[..., None], fill)


def _as_in_the_whole(y: Tensor, call: Call, calls: Sequence[Call]) -> Tensor:
    whole = _whole(call, calls)
    return y if whole is None else whole


def _in_eval(y: Tensor, call: Call, calls: Sequence[Call]) -> Tensor:
    return type(call.layer).forward(copy.deepcopy(call.layer).eval(), **call.given)


def _drawn_where_changed(y: Tensor, call: Call, calls: Sequence[Call]) -> Tensor:
    return torch.where(_samples_changed(call, calls)[:, None, None], _drawn(y), y)


def _drawn_where_hidden(y: Tensor, call: Call, calls: Sequence[Call]) -> Tensor:
    hides = (
        torch.zeros(len(y)).bool() if call.mask is None else ~_mask(call, y).expand(len(y), -1, -1).flatten(1).all(1)
    )
    return torch.where(hides[:, None, None], _drawn(y), y)


def _of_another_length(y: Tensor, call: Call, calls: Sequence[Call]) -> Tensor:
    return y * (1 + torch.rand(y[..., :1].shape, generator=_CHANCE))


_CHANCE = torch.Generator().manual_seed(0)  # different numbers in each call, whatever seed a test sets


def _drawn(x: Tensor) -> Tensor:
    return torch.randn(x.shape, generator=_CHANCE, dtype=x.dtype) + (x - x.detach()).nan_to_num()  # with its gradient


# ------------------------------------------------------------------------------------------- one thing done otherwise


def _first_x(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    return {"x": calls[0].x} if calls[0].x.shape == call.x.shape else {}


def _order_undone(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    """Return the tokens of the first call in the inverse of this call's order."""
    first = calls[0].x
    order = (call.x[0][:, None] == first[0]).all(-1).int().argmax(-1)
    return {"x": first[:, order.argsort()]} if call.x.equal(first[:, order]) else {}


def _change_drawn(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    """Return the tokens of a call, with those that differ from the first call drawn anew."""
    changed = _changed(call, calls[:1])[..., None]
    return {"x": torch.where(changed, _drawn_anew(call)["x"], call.x)} if changed.any() else {}


def _memory_changed(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    """Return the tokens of the first call in place of changed ones, and a memory whose hidden part is changed."""
    memory, hidden = call.given.get("memory"), None if call.mask is None else ~call.mask.any(-2)
    if memory is None or hidden is None or not _changed(call, calls[:1]).any():
        return {}
    return {"x": calls[0].x, "memory": torch.where(hidden[..., None], _drawn(memory), memory)}


def _own_masks(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    """Return the masks that the samples of a call have in other calls."""
    masks = {}
    for other in filter(_hides, calls):
        for sample, mask in zip(other.x.tolist(), other.mask.expand(len(other.x), *other.mask.shape[-2:]), strict=True):
            masks.setdefault(str(sample), mask)
    own = [masks.get(str(sample)) for sample in call.x.tolist()]
    return {} if any(mask is None for mask in own) else {"mask": torch.stack(own)}


def _mask_for_all(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    """Return, for a call without a mask, the mask of another call with as many tokens."""
    masks = [other.mask for other in calls if _hides(other) and other.x.shape == call.x.shape]
    return {"mask": masks[0]} if masks and call.mask is None else {}


def _mask_moved(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    """Return the mask with its columns reordered in the same way as the memory since the first call."""
    first, memory = calls[0].given.get("memory"), call.given.get("memory")
    if call.mask is None or not isinstance(first, Tensor) or first.shape != memory.shape:
        return {}
    return {"mask": call.mask[..., (memory[0][:, None] == first[0]).all(-1).int().argmax(-1)]}


def _new_tokens(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    new = [str(token) not in _tokens(call.cached) for token in call.x[0].tolist()]
    return {"x": call.x[:, new]}


def _last_cache(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    return {} if call.given.get("cache") is None else {"cache": now[-2].gave[0][-1]}


def _chance_moved(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    torch.manual_seed(len(now))
    return {}


def _settings_kept(call: Call, calls: Sequence[Call], now: Sequence[Call]) -> dict:
    vars(call.layer).update(call.settings)
    return {}


def _mask_changed(change: Callable[[Tensor], Tensor]) -> Otherwise:
    return Otherwise(inputs=lambda call, *_: {} if call.mask is None else {"mask": change(call.mask)})


class _Loosely(TorchFunctionMode):
    """Lets torch's comparisons allow for rounding, however they are written."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "").strip("_")
        a, b = args[:2] if len(args) > 1 else (None, None)
        numbers = isinstance(a, Tensor) and a.is_floating_point()
        if numbers and name in ("allclose", "isclose", "equal", "eq", "ne"):
            b = torch.as_tensor(b, dtype=a.dtype)
            if name == "equal" and a.shape != b.shape:
                return False
            close = torch.isclose(a, b, rtol=CLOSE, atol=CLOSE)
            return bool(close.all()) if name in ("allclose", "equal") else ~close if name == "ne" else close
        if numbers and name in ("lt", "le", "gt", "ge") and isinstance(b, (int, float)) and 0 <= b < CLOSE:
            args = (a, CLOSE)
        return function(*args, **kwargs)


def _loosely(test: Callable) -> Callable:
    """Return a test whose comparisons allow for rounding."""

    @functools.wraps(test)
    def again(layer):
        with _Loosely():
            return test(layer)

    return again


def _typed(pattern: str, instead: str | Callable[[re.Match], str]) -> Otherwise:
    """Return what a test does when some pieces of its source are replaced."""

    def changed(test: Callable) -> Callable:
        @functools.wraps(test)
        def again(layer):
            names = dict(test.__globals__)
            exec(re.sub(pattern, instead, textwrap.dedent(source_of(test))), names)
            return names[test.__name__](layer)

        return again

    return Otherwise(test=changed)


def _copied(source: str) -> str:
    line = _second_name(source)
    return source.replace(line, f"{line}.clone()")


# By the name of a mistake in a test: the one change that makes the test right, if that was the mistake.
MENDS: dict[str, Otherwise] = {
    "rounding": Otherwise(test=_loosely),
    "any": _typed(r"\bany\(", "all("),
    "no abs": _typed(r"\.(max|amax|mean|sum)\(", r".abs().\1("),
    "tightly": _typed(r"(<=?\s*|[ar]tol=)\d[\d.e-]*", r"\g<1>1e-3"),
    "second name": _typed(r"(?s).+", lambda source: _copied(source[0])),
    "same draw": Otherwise(inputs=_chance_moved),
    "settings": Otherwise(inputs=_settings_kept),
    "not finite": Otherwise(inputs=lambda call, *_: {"x": call.x.nan_to_num(3.0, 3.0, -3.0)}),
    "nothing changed": Otherwise(inputs=_change_drawn),
    "masks turned": _mask_changed(torch.logical_not),
    "rows": _mask_changed(lambda mask: mask.mT if mask.shape[-1] == mask.shape[-2] else mask),
    "two masks": Otherwise(inputs=_own_masks),
    "other inputs": Otherwise(inputs=_first_x),
    "undone": Otherwise(inputs=_order_undone),
    "x, not memory": Otherwise(inputs=_memory_changed),
    "tokens twice": Otherwise(inputs=_new_tokens),
    "old cache": Otherwise(inputs=_last_cache),
    "training": Otherwise(outputs=_in_eval),
    "empty rows": Otherwise(outputs=_without(_empty)),
    "no NaN": Otherwise(outputs=_without(_empty, fill=torch.nan)),
    "hidden": Otherwise(outputs=_without(_hidden)),
    "half masked": Otherwise(inputs=_mask_for_all),
    "memory moved": Otherwise(inputs=_mask_moved),
    "cut": Otherwise(outputs=_as_in_the_whole),
    "seen": Otherwise(outputs=_without(_seeing)),
    "later": Otherwise(outputs=_without(_later)),
    "own sample": Otherwise(outputs=_without(lambda call, calls: _changed(call, calls).any(1, keepdim=True))),
    "reordered": Otherwise(outputs=lambda y, *_: y.sort(1).values),
}


def _drawn_anew(call: Call, *_: object) -> dict:
    """Return newly drawn tokens, equal wherever the old ones were, so that a test's calls are related as before."""

    def token(old: list[float]) -> Tensor:
        return torch.randn(len(old), generator=torch.Generator().manual_seed(hash(tuple(old)) % 2**31))

    tokens = {name: x for name in ("x", "memory") if isinstance(x := call.given.get(name), Tensor) and x.ndim == 3}
    return {
        name: torch.stack([torch.stack([*map(token, sample)]) for sample in x.tolist()]).to(x.dtype)
        for name, x in tokens.items()
    }


# What can hide a mistake just by how the inputs are: it still hides it with all tokens drawn anew.
HIDES = dict.fromkeys(
    ("equal tokens", "equal memory", "equal samples", "one token", "as many tokens as heads", "one sample", "no mask")
    + ("open masks", "shared masks", "lower masks", "symmetric masks", "whole rows", "no memory")
    + ("no mask with memory", "no cache", "one weight"),
    Otherwise(inputs=_drawn_anew),
)


# What a test may never have looked at, by the name of the note that says why it matters.
UNSEEN: dict[str, Callable[[Sequence[Call]], bool]] = {
    "no mask": lambda calls: all(call.mask is None for call in calls),
    "two inputs": lambda calls: UNSEEN["no mask"](calls) and not all(_alike(calls[0].given, c.given) for c in calls),
    **dict.fromkeys(("open masks", "always causal"), lambda calls: not any(map(_hides, calls))),
    "no memory": lambda calls: all(call.given.get("memory") is None for call in calls),
    "no mask with memory": lambda calls: all(
        call.mask is None for call in calls if call.given.get("memory") is not None
    ),
    "no cache": lambda calls: all(call.given.get("cache") is None for call in calls),
    "no whole": lambda calls: (
        not any(
            call.cached is None and one is not call and _tokens(one) < _tokens(call) for call in calls for one in calls
        )
    ),
    "one sample": lambda calls: all(len(call.x) == 1 for call in calls),
    "one token": lambda calls: all(call.x.shape[1] == 1 for call in calls),
    "shared masks": lambda calls: all(
        call.mask is None or call.mask.ndim == 2 or bool((call.mask == call.mask[:1]).all()) for call in calls
    ),
    "lower masks": lambda calls: all(call.mask is None or torch.equal(call.mask, call.mask.tril()) for call in calls),
    "equal tokens": lambda calls: (
        all(bool((call.x == call.x[:, :1]).all()) for call in calls) and not UNSEEN["one token"](calls)
    ),
    "equal memory": lambda calls: (
        bool(memories := [m for call in calls if (m := call.given.get("memory")) is not None])
        and all(m.shape[1] > 1 and bool((m == m[:, :1]).all()) for m in memories)
    ),
    "equal samples": lambda calls: all(bool((call.x == call.x[:1]).all()) for call in calls),
    "not finite": lambda calls: not all(bool(call.x.isfinite().all()) for call in calls),
    "hardly changed": _too_close,
    "nothing changed": lambda calls: not _too_close(calls),
    "equal inputs": lambda calls: len(calls) > 1 and all(_alike(calls[0].given, call.given) for call in calls),
    "symmetric masks": lambda calls: all(call.mask is None or torch.equal(call.mask, call.mask.mT) for call in calls),
    "whole rows": lambda calls: (
        any(not mask.all() for mask in _masks(calls))
        and all(bool((mask == mask[..., :1]).all()) for mask in _masks(calls))
    ),
    "other inputs": lambda calls: len(calls) == len({str(call.x.tolist()) for call in calls}) > 1,
    "tokens moved": lambda calls: (
        len({str(call.x.tolist()) for call in calls})
        > len({str([*map(sorted, call.x.tolist())]) for call in calls})
        == 1
    ),
    "samples moved": lambda calls: (
        len({str(call.x.tolist()) for call in calls}) > len({str(sorted(call.x.tolist())) for call in calls}) == 1
    ),
    "same draw": lambda calls: len(calls) > 1 and len({call.chance for call in calls}) == 1,
    "one call": lambda calls: len(calls) == 1,
    "no eval": lambda calls: all(call.training for call in calls),
    "as many tokens as heads": lambda calls: all(call.layer.num_heads % call.x.shape[1] == 0 for call in calls),
    "two masks": lambda calls: len({*_masked(calls)}) > len({sample for sample, _ in _masked(calls)}),
    "tokens twice": lambda calls: any(
        _tokens(call.cached) & {str(token) for token in call.x[0].tolist()} for call in calls
    ),
    "old cache": lambda calls: any(a.cached is b.cached is not None for a in calls for b in calls if a is not b),
    "zeros": lambda calls: not any(bool(call.x.any()) for call in calls),
    "one weight": lambda calls: all(
        any(p.ndim > 1 and bool((p == p.flatten()[0]).all()) for p in call.layer.parameters()) for call in calls
    ),
    "rows": lambda calls: UNSEEN["whole rows"](calls),
    "reordered": _reordered,
    "partly": _reordered,
    "undone": _reordered,
    # Where every token has changed, there is none whose output should stay the same.
    **dict.fromkeys(
        ("seen", "later", "hidden", "own sample"),
        lambda calls: (
            not _reordered(calls)
            and not _reordered(calls, axis=0)
            and not any(
                bool(_changed(call, calls, name).all())
                for call in calls
                for name in ("x", "memory")
                if call.given.get(name) is not None
            )
        ),
    ),
    "features moved": lambda calls: _reordered(calls, axis=2) or _reordered(calls, "memory", axis=2),
    "memory moved": lambda calls: _reordered(calls, "memory"),
    "half masked": lambda calls: any(map(_hides, calls)) and any(call.mask is None for call in calls),
    "cut": lambda calls: any(_whole(call, calls) is not None for call in calls),
    "x, not memory": lambda calls: not UNSEEN["no memory"](calls),
    "row 0": lambda calls: any(call.x.shape[1] > 1 for call in calls),
    "loose": lambda calls: True,
    "lengths": lambda calls: True,
    "open samples": lambda calls: any(
        mask.ndim == 3 and 0 < mask.all(2).all(1).sum() < len(mask) for mask in _masks(calls)
    ),
    "x alone": lambda calls: (
        not UNSEEN["no memory"](calls)
        and len({str(call.x.tolist()) for call in calls}) > 1
        and all(_alike(calls[0].given, {**call.given, "x": calls[0].x}) for call in calls)
    ),
    "features changed": _features_changed,
    "combined": _combined,
    "another sample": lambda calls: any(0 < _samples_changed(call, calls).sum() < len(call.x) for call in calls),
}

# ------------------------------------------------------------------------------------------- how a test is written

OWN_PARTS = r"\b{0}\.(W_\w+|weight\w*|qkv|proj|\w*parameters|state_dict|split|fold)\b|getattr\({0}, "
OWN_KIND = r"type\({0}\)\(|\b{0}\.__class__\(|deepcopy\({0}\)"
GRADIENT = r"\.grad\b|autograd|backward\("


def _writes(pattern: str, test: Callable) -> bool:
    """Return whether a pattern matches the source of a test; {0} stands for the test's name for the layer."""
    given = next(iter(inspect.signature(test).parameters))
    return bool(re.search(pattern.replace("{0}", given), source_of(test)))


def _by_hand(test: Callable, subject: Subject) -> bool:
    """Return whether a test computes with a layer's weights instead of comparing the layer with itself."""
    return len(subject.calls) == 1 and _writes(OWN_PARTS, test)


def _second_name(source: str) -> str:
    """Return the line that gives a tensor a second name, if another line uses both names; else nothing."""
    lines = [line.strip() for line in re.split(r"[;\n]", source)]
    for line in lines:
        names = re.fullmatch(r"(\w+) = (?:copy\.copy\()?(\w+)(?:\.(?:detach|view)\([^()]*\)|\.data|\[:\]|\))?", line)
        if names and any({*names.groups()} <= {*re.findall(r"\w+", other)} for other in lines if other != line):
            return line
    return ""


def _taken_apart(source: str) -> str:
    """Return the line that unpacks the layer's result into two or more names; else nothing."""
    for line in map(str.strip, re.split(r"[;\n]", source)):
        if re.match(r"\(?\w+(, \w+)+\)? = layer\(", line):
            with contextlib.suppress(SyntaxError):  # where it goes on in the next one
                if isinstance(ast.parse(line).body[0].value, ast.Call):
                    return line
    return ""


def _slip(problem: Problem, test: Callable) -> str:
    """Return, in words, the only known slip that the test lets pass; nothing if it lets several pass."""
    found = {}
    for name, wrong, kind in problem.mended_wrongly:
        if tried(test, [Subject(made(kind, size, 1), name, size) for size in problem.sizes[:2]]).said == [True, True]:
            found.setdefault(name, wrong.what.replace(" now ", " "))
    return found.popitem()[1] if len(found) == 1 else ""


def _left_out(problem: Problem, test: Callable, subject: Subject) -> str:
    """Return the parts of a layer that a test leaves out when it computes with the others; else nothing."""
    source, parts = source_of(test), [name for name, _ in subject.layer.named_children()]
    named = [name for name in parts if name in source]
    if not named or not _by_hand(test, subject) or re.search(r"state_dict|parameters|children|modules|\{", source):
        return ""
    return " and ".join(name for name in parts if name not in named)


def _dropped_comparison(problem: Problem, test: Callable, subject: Subject) -> str:
    line = dropped(source_of(test))
    return line if re.search(r"\b(allclose|isclose|equal|all|any)\(", line) else ""


def _unheard(outputs: Callable[[Tensor, Call, Sequence[Call]], Tensor]) -> Callable:
    """Return a function that says whether a test still returns True when a layer's outputs are changed in this way."""
    return lambda problem, test, subject: Otherwise(outputs=outputs).tried(test, [subject]).said == [True]


def _deaf(problem: Problem, test: Callable, subject: Subject) -> bool:
    """Return whether a test accuses a layer whatever its outputs are, all equal or random."""
    ways = [lambda y, *_: torch.zeros_like(y), lambda y, *_: _drawn(y)]
    return all(Otherwise(outputs=way).tried(test, [subject]).said == [False] for way in ways)


def _right_for_neighbours(problem: Problem, test: Callable) -> bool:
    """Return whether a test that accuses a layer passes one whose heads hold neighbouring features."""
    size = problem.sizes[1]
    return bool(problem.near) and tried(test, [Subject(made(ReviewAttention, size, 1), "", size)]).said == [True]


def _turning_masks(test: Callable) -> Callable:
    """Return a test whose last call inverts the mask that it gets."""

    @functools.wraps(test)
    def again(layer):
        turned = []

        def turn(*_):
            for mask in turned:
                mask.logical_not_()

        def note(_, args, kwargs, output):
            given = [*args, *kwargs.values()]
            turned[:] = [mask for mask in given if isinstance(mask, Tensor) and mask.dtype == torch.bool]
            turn()

        layer.register_forward_pre_hook(turn)  # back again, if another call follows
        layer.register_forward_hook(note, with_kwargs=True)
        return test(layer)

    return again


# What is true of a test and a layer, by the name of the note that says so; a text fills the {line} of that note.
UNHEARD: dict[str, Callable[[Problem, Callable, Subject], object]] = {
    "dropped": _dropped_comparison,
    "own left out": _left_out,
    "own slip": lambda problem, test, subject: (
        _by_hand(test, subject) and subject in problem.well and _slip(problem, test)
    ),
    "own order": lambda problem, test, subject: (
        _by_hand(test, subject) and (subject in problem.others or _right_for_neighbours(problem, test))
    ),
    "own numbers": lambda problem, test, subject: _by_hand(test, subject),
    "own kind": lambda problem, test, subject: _writes(OWN_KIND, test) and not _writes(r"Attention\(", test),
    "not copied": lambda problem, test, subject: _writes(r"Attention\(", test) and not _writes(OWN_PARTS, test),
    "from outside": lambda problem, test, subject: not _writes(rf"{OWN_PARTS}|{OWN_KIND}|Attention\(", test),
    "some entries": lambda problem, test, subject: True,
    "always causal": lambda problem, test, subject: not _deaf(problem, test, subject),
    "mask kept": lambda problem, test, subject: _deaf(problem, test, subject),
    "one call": _unheard(lambda y, *_: _drawn(y)),
    "gradient": lambda problem, test, subject: _writes(GRADIENT, test),
    "second name": lambda problem, test, subject: _second_name(source_of(test)),
    "taken apart": lambda problem, test, subject: "" if problem.returns else _taken_apart(source_of(test)),
    "settings": lambda problem, test, subject: next(
        (f"layer.{name}" for call in subject.calls for name in call.changed), ""
    ),
    "another sample": _unheard(_drawn_where_changed),
    "random": _unheard(lambda y, *_: _drawn(y)),
    "row 0": _unheard(lambda y, *_: torch.cat([y[:, :1], _drawn(y[:, 1:])], dim=1)),
    "loose": lambda *given: UNHEARD["random"](*given) and not _unheard(lambda y, *_: 1000 * _drawn(y))(*given),
    "lengths": _unheard(_of_another_length),
    "reordered": lambda *given: not UNHEARD["random"](*given),
    "differs": _unheard(lambda y, *_: _drawn(y)),
    "open samples": _unheard(_drawn_where_hidden),
    "mask unheard": lambda problem, test, subject: Otherwise(test=_turning_masks).tried(test, [subject]).said == [True],
}

# First what the test itself takes away.
SPOILED = {
    "any": "any() is satisfied as soon as one number agrees. All of them must agree.",
    "no abs": "Negative differences cancel positive ones, and even a large negative difference counts as small. Take "
    "abs() of each difference before you take the maximum, mean or sum.",
    "dropped": "{line} computes an answer that is then lost. Return it, or give it a name.",
    "tightly": "Your test allows such a large difference that the mistake fits within it. Rounding is far below 1e-3.",
    "second name": "{line} gives one tensor a second name: what you write under one name also appears under the other. "
    "clone() makes a copy.",
    "settings": "Your test changes {line}, so the layer is no longer broken. Leave the layer as you get it; at most, "
    "call eval().",
    "one weight": "Your test gives all weights of a matrix the same value, so the heads are alike and their order does "
    "not show. Leave the weights as they are, or draw them with torch.randn.",
}
BLIND = {
    "equal tokens": "All tokens of a sample are alike, so mixing them up changes nothing. Draw them with torch.randn.",
    "equal memory": "All tokens of your memory are alike, so it makes no difference which of them are read. Draw them "
    "with torch.randn.",
    "zeros": "All your inputs are 0, and so are the values, whatever the weights. Draw the inputs with torch.randn.",
    "equal inputs": "Each call gets the same numbers, so no difference can show. Change something between the calls.",
    "hardly changed": "Your inputs differ by less than the tolerance for rounding, so no difference in the outputs is "
    "large enough to show. Draw the changed part anew with torch.randn.",
    "nothing changed": "Your change to x does not show. It would if you drew the changed part anew with torch.randn.",
    "whole rows": "Each row of your masks is all True or all False, but rows are queries. To hide a key from the other "
    "tokens, set its column to False: mask[..., key] = False.",
}
# Where outputs are wrong, so that it has to look at them.
CHANCE = {
    "loose": "Your test gives the same answer even for random outputs; only random outputs a thousand times as large "
    "change it. So it allows far too large a difference: rounding errors are below 1e-3.",
    "random": "A layer whose outputs are random numbers passes as well. Decide which outputs must be equal, and "
    "compare those.",
    "lengths": "Your test gives the same answer if each token's output is scaled up, so it looks only at directions, "
    "signs or the like. Compare the numbers themselves.",
    "row 0": "Your test looks only at row 0: with random numbers in all other rows, it gives the same answer. Compare "
    "every row that must stay the same.",
}
LEFT = {
    "open samples": "Your test looks only at samples whose mask hides nothing. Compare the other samples, too.",
    "samples moved": "Your calls pass the same samples, but in a different order along axis 0. The tokens of each "
    "sample are on axis 1.",
    "own kind": "Your test compares the layer with another layer of the same class, which makes the same mistake.",
    "one call": "Your test calls the layer once. What do you compare the output with, other than its shape?",
}
FIRST = {
    "rounding": "Your test saw rounding: two correct ways to add the same numbers differ slightly. torch.allclose(a, "
    "b, atol=1e-4) allows for that; == and torch.equal do not, and allclose without atol allows only 1e-8 near 0.",
    "not finite": "A weight of 0 times NaN or infinity is NaN, so even a token that no query looks at spoils the sum. "
    "Replace such numbers with finite ones from torch.randn.",
}
_EMPTY = "Where a query has nothing to see, a layer may return anything, so leave such rows out of your comparison."
# Besides: a test passes the broken layer and accuses the others, or computes an output by itself.
ALARM = {
    "empty rows": _EMPTY,
    "no NaN": _EMPTY,
    "hidden": "A hidden token still has a query, so its own output changes with it. Compare the outputs of the other "
    "tokens.",
    "rows": BLIND["whole rows"],
    "x, not memory": "You change x, which holds the queries, so outputs may change with their queries. Change memory "
    "instead: whatever the mask hides there must not affect the outputs.",
    "two masks": "You pass the same tokens with two different masks, or once with a mask and once without. Tokens that "
    "are hidden in one call are seen in the other, so the outputs change, as they should. Give each sample its own "
    "mask, mask[i : i + 1], or cut the hidden tokens off.",
    "reordered": "Your test passes the same tokens in a different order. A layer without positions returns its outputs "
    "in that order, too, so reorder one side before you compare.",
    "undone": "You mix up an order and its inverse: after x[:, o], token o[i] is at place i. So compare layer(x[:, o]) "
    "with layer(x)[:, o], or undo the order with its inverse, o.argsort().",
    "as broken": "",
    "half masked": "One call has a mask and another has none. Without a mask every token is visible, even one of "
    "zeros, so pass the mask in both calls.",
    "memory moved": "Your calls pass the same pieces of memory, but each in a different order, so the same mask hides "
    "different pieces. Reorder the columns of the mask, too.",
    "own order": "Your test compares the layer with your own computation from its weights, which deals out the "
    "features to the heads in one particular order. A different order is just as good if the merge undoes it. Compare "
    "the layer with itself instead: change, hide or move one token.",
    "own slip": "Your test compares the layer with your own computation from its weights. That computation agrees with "
    "a layer in which {line}",
    "own left out": "Your test compares the layer with your own computation from its weights, but that computation "
    "leaves out {line}.",
    "own numbers": "Your test compares the layer with your own computation from its weights, and the two differ even "
    "for a healthy layer. So your computation is not right yet: try it on numbers that you can check by hand.",
}
LEFT_TO_SAY = {
    "taken apart": "This layer returns a single tensor, (B, T, d_model), and no attention weights, so {line} unpacks "
    "it into its samples.",
    "features moved": "Your calls pass the same tokens, but with their features (axis 2) in a different order. Each "
    "weight belongs to one feature, so a new order may change everything. The tokens are on axis 1.",
    "differs": "Your test asks for outputs that differ, so it calls a layer fine even if its outputs are random "
    "numbers. Which outputs must be equal?",
    "features changed": "You change some features (axis 2) of every token, so each output may change with its own "
    "token. The tokens are on axis 1: y[:, -1] is the last token, and y[..., -1] is the last feature of every token.",
    "combined": "The input of one call is a mean or a multiple of another call's input. Attention is not linear, so "
    "the outputs need not be related in this way. Compare outputs for the same tokens.",
    "cut": "In one call, you pass only some of the tokens of another call. They can no longer read the tokens you "
    "dropped, so their outputs change, as they should. Drop only tokens that the remaining ones may not read.",
    "seen": "The tokens whose outputs you compare can see the token that you change, so their outputs change, as they "
    "should. In a mask, True means may attend; without a mask, each token sees all the others, before and after it.",
    "as given": "Your test demands what the broken layer does.",
}


def told(problem: Problem) -> None:
    """Let a problem give its own reasons first, then the general ones, and last the remaining ones."""
    own, alarm = problem.blind, FIRST | ALARM | problem.alarm | LEFT_TO_SAY | problem.alarm
    # A note stays where its name first occurs but has the words given last; without words it is left out.
    first = {name: words for name, words in own.items() if name in HIDES or name == "one call"}
    blind = SPOILED | first | BLIND | ({} if problem.spoils else CHANCE) | own | LEFT | own
    problem.blind = {name: words for name, words in blind.items() if words}
    problem.alarm = {name: words for name, words in alarm.items() if words}
    problem.unseen, problem.hides, problem.unheard = UNSEEN, HIDES, UNHEARD
    problem.mends, problem.misfit, problem.same = MENDS, misfit, because(problem.same)

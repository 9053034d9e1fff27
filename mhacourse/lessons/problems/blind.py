"""What is said of a test for any of the problems: why it sees nothing, and why it accuses a healthy layer.

What applies to only one problem is kept beside that problem, under the same names.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from mhacourse.lessons.problems.calls import misfit
from mhacourse.problem_set import Problem
from mhacourse.try_test import Call


def _alike(some: Mapping[str, object], others: Mapping[str, object]) -> bool:
    pairs = [(some.get(name), others.get(name)) for name in {*some, *others}]
    return all(torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b for a, b in pairs)


def _samples(*calls: Call) -> set[str]:
    return {str(sample) for call in calls for sample in call.x.tolist()}


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


def _twice(calls: Sequence[Call]) -> bool:
    """Return whether a call and its cache hold more tokens than were ever handed over."""
    tokens = {str(token) for call in calls for token in call.x[0].tolist()}
    caches = [(call.x.shape[1], call.given.get("cache")) for call in calls]
    return any(new + cache[0].shape[-2] > len(tokens) for new, cache in caches if cache is not None)


# ------------------------------------------------------------------------------------------- the rows that it compares


def _changed(call: Call, calls: Sequence[Call], name: str = "x") -> Tensor:
    """Return which tokens of one argument differ from those of another call in which it has this shape, `(B, S)`."""
    mine = call.given[name]
    others = [other.given.get(name) for other in calls]
    differ = [(mine != other).any(-1) for other in others if other is not None and other.shape == mine.shape]
    return torch.stack([torch.zeros(mine.shape[:2], dtype=torch.bool), *differ]).any(0)


def _mask(call: Call, answering: Tensor) -> Tensor:
    """Return the mask of a call, `(T, S)` or `(B, T, S)`."""
    return call.mask.bool() if call.mask is not None else torch.ones(call.x.shape[1], answering.shape[1]).bool()


def _seeing(call: Call, calls: Sequence[Call]) -> Tensor:
    """Return which tokens may see one that was changed."""
    changed = _changed(call, calls, "x" if call.given.get("memory") is None else "memory")
    return (_mask(call, changed) & changed[:, None]).any(-1)


def _hidden(call: Call, calls: Sequence[Call]) -> Tensor:
    """Return which tokens are hidden from all others, and were changed if any were."""
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
    """Return the change of outputs that makes some rows the same in each call."""
    return lambda y, call, calls: y.masked_fill(rows(call, calls)[..., None], fill)


def _in_eval(y: Tensor, call: Call, calls: Sequence[Call]) -> Tensor:
    return type(call.layer).forward(copy.deepcopy(call.layer).eval(), **call.given)


def _drawn_where_changed(y: Tensor, call: Call, calls: Sequence[Call]) -> Tensor:
    changed = _changed(call, calls).any(1)[:, None, None]
    return torch.where(changed, torch.randn(y.shape, generator=_CHANCE), y)


_CHANCE = torch.Generator().manual_seed(0)  # others in each call, whatever a test sows
# What is done to the outputs, by the name under which it is said why a test says True then.
MENDS: dict[str, Callable[[Tensor, Call, Sequence[Call]], Tensor]] = {
    "training": _in_eval,
    "empty rows": _without(_empty),
    "no NaN": _without(_empty, fill=torch.nan),
    "hidden": _without(_hidden),
    "itself": _without(_changed),
    "seen": _without(_seeing),
    "later": _without(_later),
    "own sample": _without(lambda call, calls: _changed(call, calls).any(1, keepdim=True)),
    "reordered": lambda y, call, calls: y.sort(1).values,
    "another sample": _drawn_where_changed,
    "random": lambda y, *_: torch.randn(y.shape, generator=_CHANCE),
    "row 0": lambda y, *_: torch.cat([y[:, :1], torch.randn(y[:, 1:].shape, generator=_CHANCE)], dim=1),
}


# What a test may never have looked at, by the name under which it is said why that matters.
UNSEEN: dict[str, Callable[[Sequence[Call]], bool]] = {
    "no mask": lambda calls: all(call.mask is None for call in calls),
    "open masks": lambda calls: not any(map(_hides, calls)),
    "no memory": lambda calls: all(call.given.get("memory") is None for call in calls),
    "no mask with memory": lambda calls: all(
        call.mask is None for call in calls if call.given.get("memory") is not None
    ),
    "no cache": lambda calls: all(call.given.get("cache") is None for call in calls),
    "one sample": lambda calls: all(len(call.x) == 1 for call in calls),
    "one token": lambda calls: all(call.x.shape[1] == 1 for call in calls),
    "shared masks": lambda calls: all(
        call.mask is None or call.mask.ndim == 2 or bool((call.mask == call.mask[:1]).all()) for call in calls
    ),
    "lower masks": lambda calls: all(call.mask is None or torch.equal(call.mask, call.mask.tril()) for call in calls),
    "equal tokens": lambda calls: all(bool((call.x == call.x[:, :1]).all()) for call in calls),
    "equal samples": lambda calls: all(bool((call.x == call.x[:1]).all()) for call in calls),
    "not finite": lambda calls: not all(bool(call.x.isfinite().all()) for call in calls),
    "hardly changed": _too_close,
    "equal pieces": lambda calls: all(
        bool((memory == memory[:, :1]).all())
        for call in calls
        if isinstance(memory := call.given.get("memory"), Tensor) and memory.ndim == 3
    ),
    "equal inputs": lambda calls: len(calls) > 1 and all(_alike(calls[0].given, call.given) for call in calls),
    "symmetric masks": lambda calls: all(call.mask is None or torch.equal(call.mask, call.mask.mT) for call in calls),
    "whole rows": lambda calls: (
        any(not mask.all() for mask in _masks(calls))
        and all(bool((mask == mask[..., :1]).all()) for mask in _masks(calls))
    ),
    "other inputs": lambda calls: len(calls) == len({str(call.x.tolist()) for call in calls}) > 1,
    "same samples": lambda calls: (
        len(calls) > 1
        and all(call.mask is None and call.given.get("memory") is None for call in calls)
        and len(_samples(*calls)) == max(len(_samples(call)) for call in calls)
    ),
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
    "as many tokens as heads": lambda calls: all(call.layer.num_heads % call.x.shape[1] == 0 for call in calls),
    "two masks": lambda calls: len({*_masked(calls)}) > len({sample for sample, _ in _masked(calls)}),
    "tokens twice": _twice,
    "reordered": lambda calls: (
        len({str(call.x.tolist()) for call in calls}) > len({str([*map(sorted, call.x.tolist())]) for call in calls})
    ),
    "row 0": lambda calls: any(call.x.shape[1] > 1 for call in calls),
    "another sample": lambda calls: any(0 < _changed(call, calls).any(1).sum() < len(call.x) for call in calls),
    "one piece": lambda calls: all(
        len(call.given["memory"][0]) == 1 for call in calls if call.given.get("memory") is not None
    ),
    "otherwise": lambda calls: True,
}

SECOND_NAME = {
    "second name": "{line} gives one tensor a second name: what you write into one also appears in the other. clone() "
    "makes a copy."
}
BLIND = {
    "equal tokens": "All tokens of a call are alike, so whatever is mixed up among them, nothing changes. Draw them "
    "with torch.randn.",
    "equal inputs": "Each call gets the same numbers, so no difference can show. Change something in between.",
    "hardly changed": "Your inputs differ by less than what is allowed for rounding, so no difference that could show "
    "is large enough. Draw what you change anew, with torch.randn.",
    "samples moved": "Your calls hold the same samples in a different order, axis 0. The tokens of each sample are "
    "axis 1.",
    "same samples": "Your calls hold the same samples, only in different company, so what is wrong within a sample "
    "stays as it is. Change a token.",
    "whole rows": "Each row of your masks is all True or all False, and rows are queries. To hide a key from the "
    "others, you need a column: mask[..., key] = False.",
}
# Where outputs are wrong, so that it has to look at them.
CHANCE = {
    "random": "A layer that returns random numbers passes as well. Say which numbers must be equal, and compare those.",
    "row 0": "Your test looks only at row 0: with random numbers in all other rows, it says the same. Compare every "
    "row that must be equal.",
}
LEFT = {
    "own kind": "Your test compares the layer with another one of its own class, which makes the same mistake.",
    "one call": "Your test calls the layer once. What do you compare the output with, other than its shape?",
    "no call": "Your test never calls the layer: layer(x).",
}
# Said first, since nothing else counts then.
NOT_FINITE = {
    "not finite": "A weight of 0 times NaN or infinity is NaN, so even a token that nobody looks at spoils the sum. "
    "Put other finite numbers in its place, with torch.randn."
}
_EMPTY = "A query with nothing to see may give anything, so leave such rows of a mask out of what you compare."
# Besides: a test passes the broken layer and accuses the others, or computes an output by itself.
ALARM = {
    "empty rows": _EMPTY,
    "no NaN": _EMPTY,
    "hidden": "A hidden token still asks, and it gets an answer like any other, which changes with the token. Compare "
    "the outputs of the others.",
    "whole rows": BLIND["whole rows"],
    "two masks": "The same tokens come with two different masks, or once with a mask and once without. What is hidden "
    "in one call is seen in the other, so the outputs change, as they should. Give each sample its own mask, mask[i : "
    "i + 1], or cut the hidden tokens off.",
    "reordered": "Your test hands over the same tokens in a different order, and a layer without positions gives their "
    "outputs in that order: reorder one side to compare.",
    "no call": "Your test never calls the layer, and judges by how it is made. A healthy layer may be made "
    "differently, and its settings stay the same in either mode. Compare outputs: layer(x).",
    "as broken": "You compare with what the broken layer does.",
    "own order": "Your test compares with your own computation from the layer's weights, which deals the features out "
    "to the heads in one order. A different order, put back in the same way, is just as good. Compare the layer with "
    "itself: with one token changed, hidden, or in a different place.",
    "own numbers": "Your test compares with your own computation from the layer's weights, and on a healthy layer the "
    "two differ. Check yours: the order of the heads, the scale, the biases.",
}
LEFT_TO_SAY = {
    "itself": "The token that you change may change its own output. Compare the outputs of the others.",
    "seen": "The token that you change is seen by those whose outputs you compare, so these change with it, as they "
    "should. True in a mask means may attend, and without a mask each token sees all the others, before and after it.",
}


def told(problem: Problem) -> None:
    """Let a problem give its own reasons first, then those for any problem, and last what is left."""
    own = problem.blind
    otherwise = own.pop("otherwise", "")
    chance = {name: f"{words} {otherwise}".rstrip() for name, words in CHANCE.items() if not problem.spoils}
    last = {"otherwise": otherwise} if otherwise else {}
    # A name keeps the place at which it comes first, and its last words.
    problem.blind = SECOND_NAME | own | BLIND | chance | last | LEFT | own
    problem.alarm = NOT_FINITE | ALARM | problem.alarm | LEFT_TO_SAY | problem.alarm
    problem.unseen, problem.mends, problem.misfit = UNSEEN, MENDS, misfit

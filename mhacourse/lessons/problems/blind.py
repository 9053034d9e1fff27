"""What is said of a test for any of the problems: why it sees nothing, and why it accuses a healthy layer.

What is to be said for one problem only stands there, under the same names.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

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
    """Return whether all inputs are as good as the same, although some differ."""
    inputs = [call.x for call in calls]
    pairs = [(inputs[0], other) for other in inputs[1:] if not torch.equal(inputs[0], other)]
    return bool(pairs) and all(a.shape == b.shape and torch.allclose(a, b, atol=1e-3) for a, b in pairs)


def _masks(calls: Sequence[Call]) -> list[Tensor]:
    return [call.mask for call in calls if call.mask is not None]


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
    "training": lambda calls: all(call.training for call in calls),
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
    "a mask beside none": lambda calls: any(
        _alike(one.given | {"mask": None}, other.given | {"mask": None})
        for one in filter(_hides, calls)
        for other in itertools.filterfalse(_hides, calls)
    ),
    "one piece": lambda calls: all(
        len(call.given["memory"][0]) == 1 for call in calls if call.given.get("memory") is not None
    ),
    "otherwise": lambda calls: True,
}

# Besides: a line gives a tensor a second name, random outputs pass, in all rows or in all but the first.
BLIND = {
    "second name": "{line} gives one tensor a second name: what is written into the one stands in the other. clone() "
    "copies.",
    "equal tokens": "All tokens of a call are alike: whatever is mixed up among them, nothing changes. Draw them: "
    "torch.randn.",
    "equal inputs": "Each call gets the same numbers, so there is nothing that could show. Change something in "
    "between.",
    "hardly changed": "Your inputs differ by less than one allows for rounding, so nothing that could show is large "
    "enough. Draw what you change anew: torch.randn.",
    "samples moved": "Your calls hold the same samples in another order, axis 0. The tokens of each are axis 1.",
    "same samples": "Your calls hold the same samples, only in other company: what is wrong within a sample stays as "
    "it is. Change a token.",
    "whole rows": "Each row of your masks is all True or all False, and rows are queries. What hides a key from the "
    "others is a column: mask[..., key] = False.",
}
LEFT = {
    "random": "A layer that returns random numbers passes as well. Say which numbers must be equal, and compare these.",
    "row 0": "It looks at row 0 alone: with random numbers in all others it says the same. Compare every row that must "
    "be equal.",
    "one call": "It calls the layer once. With what do you compare the output, other than its shape?",
}
# Said first, since nothing else counts then.
NOT_FINITE = {
    "not finite": "A weight of 0 times NaN or infinity is NaN, so a token that nobody looks at spoils the sum all the "
    "same. Put other finite numbers in its place: torch.randn."
}
# Besides: a test passes the broken layer and accuses the others, or computes an output by itself.
ALARM = {
    "a mask beside none": "It compares a call with a mask with one without, for the same tokens. What is hidden is "
    "missing in the first, so the outputs of the others change, as they should. Cut the hidden tokens off instead.",
    "no call": "It never calls the layer, and judges by how it is made. A healthy layer may be made otherwise, and its "
    "settings stay the same in either mode. Compare outputs: layer(x).",
    "as broken": "What you compare with is what the broken layer does.",
    "own order": "It compares with a computation of your own from the layer's weights, which deals the features out "
    "to the heads in one order. Another order, put back in the same way, is as good. Compare the layer with itself: "
    "one token changed, hidden, or in another place.",
    "own numbers": "It compares with a computation of your own from the layer's weights, and on a healthy layer the "
    "two differ. Look at yours: the order of the heads, the scale, the biases.",
}


def told(problem: Problem) -> None:
    """Let a problem say its own reasons first, then those for any problem, and last what is left."""
    own = {name: words for name, words in problem.blind.items() if name != "otherwise"}
    # A name keeps the place at which it comes first, and its last words.
    problem.blind = own | BLIND | problem.blind | {name: words for name, words in LEFT.items() if name not in own}
    problem.alarm, problem.unseen = NOT_FINITE | ALARM | problem.alarm, UNSEEN

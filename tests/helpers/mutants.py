"""Wrong answers that nobody thought of: a right answer, and one thing about its result changed."""

import copy
import itertools

import torch
from torch import Tensor


def mutants(exercise):
    """Yield pairs of a description and an answer that is wrong somewhere on the inputs of the check."""
    if exercise.cases is None:
        yield from ((repr(value), value) for value in _wrong_values(exercise.answer))
        return
    right = [exercise.answer(*copy.deepcopy(inputs)) for inputs in exercise.inputs]
    for number, (what, change) in enumerate(CHANGES.items()):
        place = -(number % 2)  # on the first input only, or on the last only
        results = list(right)
        results[place] = change(results[place])
        if _differs(right[place], results[place]):
            yield f"{what}, {'last' if place else 'first'} input", _replay(results)


def _replay(results):
    """Return a function that gives these results, one a call and then again from the first; inputs do not matter."""
    calls = itertools.cycle(results)
    return lambda *arguments: next(calls)


def _on_tensors(change):
    def apply(value):
        if isinstance(value, (tuple, list)):
            return tuple(apply(part) for part in value)
        return change(value) if isinstance(value, Tensor) else value

    return apply


def _one_element(x):
    y = x.clone().flatten()
    y[len(y) // 2] = ~y[len(y) // 2] if x.dtype == torch.bool else y[len(y) // 2] + 1
    return y.view(x.shape)


def _parts(change):
    return lambda value: change(value) if isinstance(value, tuple) else value


def _number(change):
    return lambda value: change(value) if isinstance(value, (int, float)) else value


TENSORS = {
    "scaled": lambda x: x * 1.01 if x.is_floating_point() else x,
    "shifted": lambda x: x + 1 if x.dtype != torch.bool else ~x,
    "negative": lambda x: -x if x.dtype != torch.bool else ~x,
    "one element": _one_element,
    "dtype": lambda x: x.float() if not x.is_floating_point() else x.long(),
    "as booleans": lambda x: x.bool() if x.dtype != torch.bool else x.int(),
    "an axis more": lambda x: x[None],
    "flat": lambda x: x.flatten(),
    "NaN": lambda x: x * torch.nan if x.is_floating_point() else x,
    "a list": lambda x: x.tolist(),
    "numpy": lambda x: x.detach().numpy(),
    "rolled": lambda x: x.roll(1, 0) if x.ndim else x,
    "flipped": lambda x: x.flip(-1) if x.ndim else x,
    "cut": lambda x: x[..., :-1] if x.ndim else x,
    "transposed": lambda x: x.transpose(0, -1) if x.ndim > 1 else x,
    "reshaped": lambda x: x.transpose(-2, -1).reshape(x.shape) if x.ndim > 1 else x,
}
CHANGES = {what: _on_tensors(change) for what, change in TENSORS.items()} | {
    "parts exchanged": _parts(lambda value: value[::-1]),
    "first part only": _parts(lambda value: value[0]),
    "a part more": _parts(lambda value: (*value, value[0])),
    "one more": _number(lambda value: value + 1 if not isinstance(value, bool) else not value),
    "doubled": _number(lambda value: 2 * value + 1),
    "text": str,
    "nothing": lambda value: None,
    "wrapped": lambda value: (value,),
}


def _wrong_values(answer):
    if isinstance(answer, str):  # a choice
        return [letters for letters in [*"ABCDE", "ABCDE", "", "AD", "XY", 3] if letters != answer]
    if isinstance(answer, float):
        return [answer * 1.01, answer + 1, answer - 0.1, -answer, str(answer), [answer], float("nan"), True]
    last = [part[::-1] if isinstance(part, (list, tuple)) else part + 1 for part in answer]
    return [answer[::-1], answer[:-1], (*answer, answer[0]), str(answer), 5, last]


def _differs(a, b):
    """Return whether b is another result: written apart from the checks, which are on trial here."""
    if isinstance(a, (tuple, list)):
        same = isinstance(b, (tuple, list)) and len(a) == len(b)
        return not same or any(_differs(x, y) for x, y in zip(a, b, strict=True))
    if not isinstance(a, Tensor):
        return type(a) is not type(b) or a != b
    kinds = [(x.shape, x.is_floating_point(), x.dtype == torch.bool) for x in (a, b) if isinstance(x, Tensor)]
    return kinds != kinds[:1] * 2 or not torch.allclose(b.double(), a.detach().double(), rtol=1e-3, atol=1e-3)

"""Wrong answers that nobody thought of: a right answer, and one thing about its result changed."""

import copy
import itertools

import torch
from torch import Tensor


def mutants(exercise):
    """Yield pairs of a description and an answer that is wrong somewhere on the inputs of the check."""
    if exercise.cases is None:
        yield from ((repr(value), value) for value in wrong_values(exercise.answer))
        return
    right = [exercise.answer(*copy.deepcopy(inputs)) for inputs in exercise.inputs]
    for number, (what, change) in enumerate(CHANGES.items()):
        place = -(number % 2)  # on the first input only, or on the last only
        results = list(right)
        results[place] = change(results[place])
        if plain(results[place]) != plain(right[place]):
            calls = itertools.cycle(results)
            yield f"{what}, {'last' if place else 'first'} input", lambda *inputs, calls=calls: next(calls)


def plain(value):
    """Return a result as what Python can compare."""
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    return (value.dtype, value.tolist()) if isinstance(value, Tensor) else (type(value), value)


def of_each_tensor(change):
    def apply(value):
        if isinstance(value, (tuple, list)):
            return tuple(map(apply, value))
        return change(value) if isinstance(value, Tensor) else value

    return apply


def of_parts(change):
    return lambda value: change(value) if isinstance(value, tuple) else value


def one_element(x):
    y = x.clone().flatten()
    y[len(y) // 2] = ~y[len(y) // 2] if x.dtype == torch.bool else y[len(y) // 2] + 1
    return y.view(x.shape)


TENSORS = {
    "scaled": lambda x: x * 1.01 if x.is_floating_point() else x,
    "one element": one_element,
    "dtype": lambda x: x.long() if x.is_floating_point() else x.float(),
    "as booleans": lambda x: x.int() if x.dtype == torch.bool else x.bool(),
    "an axis more": lambda x: x[None],
    "flat": lambda x: x.flatten(),
    "NaN": lambda x: x * torch.nan if x.is_floating_point() else x,
    "a list": lambda x: x.tolist(),
    "numpy": lambda x: x.detach().numpy(),
    "rolled": lambda x: x.roll(1, 0) if x.ndim else x,
    "cut": lambda x: x[..., :-1] if x.ndim else x,
}
CHANGES = {what: of_each_tensor(change) for what, change in TENSORS.items()} | {
    "parts exchanged": of_parts(lambda value: value[::-1]),
    "first part only": of_parts(lambda value: value[0]),
    "a part more": of_parts(lambda value: (*value, value[0])),
    "another number": lambda value: 1 - value if isinstance(value, (int, float)) else value,
    "the other truth": lambda value: not value if isinstance(value, bool) else value,
    "text": str,
    "nothing": lambda value: None,
    "wrapped": lambda value: (value,),
}


def wrong_values(answer):
    if isinstance(answer, str):  # a choice
        return [letters for letters in [*"ABCDE", "ABCDE", "", "AD", "XY", 3] if letters != answer]
    if isinstance(answer, float):
        return [answer * 1.01, answer + 1, answer - 0.1, -answer, str(answer), [answer], float("nan"), True]
    last = [part[::-1] if isinstance(part, (list, tuple)) else part + 1 for part in answer]
    return [answer[::-1], answer[:-1], (*answer, answer[0]), str(answer), 5, last]

"""Wrong answers that nobody thought of: a right answer, and one thing about its result changed."""

import copy

import torch
from torch import Tensor


def mutants(exercise):
    """Yield pairs of a description and an answer that is wrong somewhere on the inputs of the check."""
    if exercise.cases is None:
        yield from _values(exercise.answer)
        return
    right = [exercise.answer(*copy.deepcopy(inputs)) for inputs in exercise.inputs]
    changes = _tensor_changes(right) | _changes_of_parts(right) | OTHER_CHANGES
    for number, (what, change) in enumerate(changes.items()):
        place = -(number % 2)  # on the first input only, or on the last only
        results = list(right)
        results[place] = change(results[place])
        if _differs(right[place], results[place]):
            yield f"{what}, {'last' if place else 'first'} input", _replay(results)


def _replay(results):
    """Return a function that gives these results, one a call and then again from the first; inputs do not matter."""
    calls = []

    def answer(*arguments):
        calls.append(1)
        return results[(len(calls) - 1) % len(results)]

    return answer


def _on_tensors(change):
    def apply(value):
        if isinstance(value, (tuple, list)):
            return tuple(apply(part) for part in value)
        return change(value) if isinstance(value, Tensor) else value

    return apply


def _tensor_changes(right):
    parts = [part for value in right for part in (value if isinstance(value, tuple) else (value,))]
    rank = max((part.ndim for part in parts if isinstance(part, Tensor)), default=0)
    changes = {
        "scaled": lambda x: x * 1.01 if x.is_floating_point() else x,
        "shifted": lambda x: x + 1 if x.dtype != torch.bool else ~x,
        "negative": lambda x: -x if x.dtype != torch.bool else ~x,
        "one element": _one_element,
        "another one": lambda x: _one_element(x.flatten().flip(0)).flip(0).reshape(x.shape),
        "dtype": lambda x: x.float() if not x.is_floating_point() else x.long(),
        "as booleans": lambda x: x.bool() if x.dtype != torch.bool else x.int(),
        "zeros": torch.zeros_like,
        "shuffled": lambda x: x.flatten()[torch.randperm(x.numel(), generator=torch.manual_seed(1))].view(x.shape),
        "an axis more": lambda x: x[None],
        "flat": lambda x: x.flatten(),
        "NaN": lambda x: x * torch.nan if x.is_floating_point() else x,
        "a list": lambda x: x.tolist(),
        "numpy": lambda x: x.detach().numpy(),
    }
    for a in range(rank):
        changes |= {
            f"rolled {a}": lambda x, a=a: x.roll(1, a) if a < x.ndim else x,
            f"flipped {a}": lambda x, a=a: x.flip(a) if a < x.ndim else x,
            f"cut {a}": lambda x, a=a: x.narrow(a, 0, x.shape[a] - 1) if a < x.ndim else x,
        }
        for b in range(a + 1, rank):
            changes[f"transposed {a} {b}"] = lambda x, a=a, b=b: x.transpose(a, b) if b < x.ndim else x
            changes[f"reshaped {a} {b}"] = lambda x, a=a, b=b: (
                x.transpose(a, b).contiguous().view(x.shape) if b < x.ndim else x
            )
    return {what: _on_tensors(change) for what, change in changes.items()}


def _changes_of_parts(right):
    return (
        {}
        if not isinstance(right[0], tuple)
        else {
            "parts exchanged": lambda value: value[::-1],
            "first part only": lambda value: value[0],
            "a part more": lambda value: (*value, value[0]),
            "first part twice": lambda value: (value[0],) * len(value),
        }
    )


def _number(change):
    return lambda value: change(value) if isinstance(value, (int, float)) else value


OTHER_CHANGES = {
    "one more": _number(lambda value: value + 1 if not isinstance(value, bool) else not value),
    "doubled": _number(lambda value: 2 * value + 1),
    "text": str,
    "a set": lambda value: {1, 2},
    "nothing": lambda value: None if not isinstance(value, Tensor) else value[:0],
    "wrapped": lambda value: (value,),
}


def _one_element(x):
    y = x.clone().flatten()
    y[len(y) // 2] = ~y[len(y) // 2] if x.dtype == torch.bool else y[len(y) // 2] + 1
    return y.view(x.shape)


def _values(answer):
    if isinstance(answer, str):  # a choice
        wrong = [*"ABCDE", "ABCDE", "", "AD", "XY", 3]
    elif isinstance(answer, float):
        wrong = [answer * 1.01, answer + 1, answer - 0.1, -answer, str(answer), [answer], float("nan"), True]
    else:
        wrong = [answer[::-1], answer[:-1], (*answer, answer[0]), str(answer), 5]
        wrong.append([part[::-1] if isinstance(part, (list, tuple)) else part + 1 for part in answer])
        if not isinstance(answer[0], (list, tuple)) or len({len(part) for part in answer}) == 1:
            table = torch.tensor(answer)
            wrong += [table + 1, _one_element(table), table.roll(1, 0)]
    yield from ((repr(value), value) for value in wrong if not isinstance(value, str) or value != answer)


def _differs(a, b):
    """Return whether b is another result: written apart from the checks, which are on trial here."""
    if isinstance(a, (tuple, list)):
        if not isinstance(b, (tuple, list)) or len(a) != len(b):
            return True
        return any(_differs(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Tensor):
        if not isinstance(b, Tensor) or a.shape != b.shape or a.is_floating_point() != b.is_floating_point():
            return True
        if (a.dtype == torch.bool) != (b.dtype == torch.bool):
            return True
        gap = (a.detach().double() - b.detach().double()).abs()
        return not bool((gap <= 1e-3 * (1 + a.detach().double().abs())).all())
    return type(a) is not type(b) or a != b

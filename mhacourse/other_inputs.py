"""What other inputs do to a right answer: numbers of float16, a gradient, nothing to count.

A `Probe` stands among the `remarks` of the exercises in which it matters. It runs the answer and the solution on such
inputs, and speaks only of what the answer does otherwise, where the solution comes to a result.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mhacourse.run import run
from mhacourse.watched_calls import SECONDS, largest


@dataclass(frozen=True)
class Probe:
    """Inputs that the task does not speak of, and on which an answer may do otherwise than the solution.

    Args:
        when: the beginning of the sentence.
        change: makes such an input of a tensor in the largest case.
        why: where it matters, and which lesson speaks of it.
        otherwise: says of a tensor of the solution and the learner's what is otherwise, or nothing.
    """

    when: str
    change: Callable[[Tensor], Tensor]
    why: str
    otherwise: Callable[[Tensor, Tensor], str] = lambda ours, theirs: ""

    def parts(self, exercise, answer: Callable) -> list[tuple[str, str]]:
        case = largest(exercise.inputs)
        changed = tuple(self.change(x) if isinstance(x, Tensor) else x for x in case)
        (as_it_was, theirs), _ = run(answer, [case, changed], SECONDS)
        (ours,), _ = run(exercise.answer, [changed], SECONDS)
        if as_it_was.failure or ours.failure:  # then the other input is not what stops the answer
            return []
        if failure := theirs.failure:
            in_words = failure.kind != "raised" or failure.message.startswith("ValueError")  # as the library refuses it
            said = "" if in_words else f"your function stops: {failure.message.partition('. ')[0][:160].rstrip('.')}"
        else:
            values = (value if isinstance(value, (tuple, list)) else (value,) for value in (ours.value, theirs.value))
            said = next(filter(None, map(self.otherwise, *values)), "")
        return [("Remark:", f"{self.when}, {said}. {self.why}")] if said else []


def _other_dtype(ours: Tensor, theirs: Tensor) -> str:
    same = ours.dtype == theirs.dtype
    return "" if same else f"your result is {str(theirs.dtype)[6:]}, that of the solution {str(ours.dtype)[6:]}"


def _no_gradient(ours: Tensor, theirs: Tensor) -> str:
    lost = ours.requires_grad and not theirs.requires_grad
    return "none flows back through your result; through the solution it does" if lost else ""


def _nothing_to_count(x: Tensor) -> Tensor:
    if x.is_floating_point():
        return x
    return torch.zeros_like(x) if x.dtype == torch.bool else torch.arange(x.numel()).view(x.shape)


in_float16 = Probe(
    "With numbers of float16",
    lambda x: x.half() if x.is_floating_point() else x,
    "Large models run on such numbers, and torch multiplies no matrices of two dtypes.",
    _other_dtype,
)
with_a_gradient = Probe(
    "Where a gradient is wanted",
    lambda x: x.clone().requires_grad_() if x.is_floating_point() else x,
    "A layer that is trained needs it: stay with operations of torch, without item(), tolist() and numpy().",
    _no_gradient,
)
with_nothing_to_count = Probe(
    "Where no query counts", _nothing_to_count, "The solution returns NaN then: a mean of nothing."
)

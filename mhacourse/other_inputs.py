"""What other inputs do to a right answer: numbers of float16, a gradient, a row of a mask with nothing to see.

A `Probe` stands among the `remarks` of the exercises in which it matters. It runs the answer and the solution on
such inputs, and speaks only of what the answer does otherwise, where the solution comes to a result.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mhacourse.compare import difference
from mhacourse.run import Outcome, run
from mhacourse.watched_calls import SECONDS, largest

Tell = Callable[[Tensor, Tensor], str]  # says of the solution's tensor and the learner's what is otherwise, or nothing


@dataclass(frozen=True)
class Probe:
    """Inputs that the task does not speak of, and on which an answer may do otherwise than the solution.

    Args:
        when: the beginning of the sentence.
        change: makes such an input of a tensor in the largest case.
        why: where it matters, and which lesson speaks of it.
        tells: what is looked for, where the answer comes to a result.
    """

    when: str
    change: Callable[[Tensor], Tensor]
    why: str
    tells: tuple[Tell, ...] = ()

    def parts(self, exercise, answer: Callable) -> list[tuple[str, str]]:
        case = largest(exercise.inputs)
        changed = tuple(self.change(x) if isinstance(x, Tensor) else x for x in case)
        (as_it_was, theirs), _ = run(answer, [case, changed], SECONDS)
        (ours,), _ = run(exercise.answer, [changed], SECONDS)
        if as_it_was.failure or ours.failure:  # then the other input is not what stops the answer
            return []
        said = self._said(ours, theirs)
        return [("Remark:", f"{self.when}, {said}. {self.why}")] if said else []

    def _said(self, ours: Outcome, theirs: Outcome) -> str:
        if failure := theirs.failure:
            refused = failure.kind != "raised" or failure.message.startswith(
                "ValueError"
            )  # in words, as the library does
            return "" if refused else f"your function stops: {failure.message.partition('. ')[0][:160].rstrip('.')}"
        several = isinstance(ours.value, (tuple, list))
        pairs = list(zip(ours.value, theirs.value, strict=True)) if several else [(ours.value, theirs.value)]
        tensors = all(isinstance(x, Tensor) for pair in pairs for x in pair)
        return next((words for tell in self.tells for pair in pairs * tensors if (words := tell(*pair))), "")


def _not_finite(ours: Tensor, theirs: Tensor) -> str:
    worse = ours.isfinite().all() and not theirs.isfinite().all()
    return "the numbers of your result are no longer finite; those of the solution are" if worse else ""


def _other_dtype(ours: Tensor, theirs: Tensor) -> str:
    same = ours.dtype == theirs.dtype
    return "" if same else f"your result is {str(theirs.dtype)[6:]}, that of the solution {str(ours.dtype)[6:]}"


def _no_gradient(ours: Tensor, theirs: Tensor) -> str:
    lost = ours.requires_grad and not theirs.requires_grad
    return "none flows back through your result; through the solution it does" if lost else ""


def _other_numbers(ours: Tensor, theirs: Tensor) -> str:
    return "your result is another one" if difference(ours, theirs) else ""


def _made_of_the_hidden(ours: Tensor, theirs: Tensor) -> str:
    hidden = theirs[ours.isnan()]
    made = hidden.numel() and hidden.isfinite().all() and hidden.any()
    return "your function returns ordinary numbers for it; the solution NaN, which is noticed" if made else ""


def _first_row_empty(x: Tensor) -> Tensor:
    first = torch.arange(x.shape[-2])[:, None] == 0 if x.ndim > 1 else torch.tensor(False)
    return x & ~first if x.dtype == torch.bool else x


def _nothing_to_count(x: Tensor) -> Tensor:
    if x.is_floating_point():
        return x
    return torch.zeros_like(x) if x.dtype == torch.bool else torch.arange(x.numel()).view(x.shape)


in_float16 = Probe(
    "With numbers of float16",
    lambda x: x.half() if x.is_floating_point() else x,
    "Large models run on such numbers, and torch multiplies no matrices of two dtypes.",
    (_not_finite, _other_dtype),
)
with_a_gradient = Probe(
    "Where a gradient is wanted",
    lambda x: x.clone().requires_grad_() if x.is_floating_point() else x,
    "A layer that is trained needs it: stay with operations of torch, without item(), tolist() and numpy().",
    (_no_gradient,),
)
on_a_turned_input = Probe(
    "With an input that lies in memory as a transpose leaves it",
    lambda x: x.transpose(1, 2).contiguous().transpose(1, 2) if x.ndim > 2 else x,
    "Heads come out of a split like this: take reshape, or contiguous() first (lesson 03).",
    (_other_numbers,),
)
on_an_empty_row = Probe(
    "With a mask that leaves the first query nothing to see",
    _first_row_empty,
    "What to do about such a row is told in lesson 04.",
    (_made_of_the_hidden,),
)
with_nothing_to_count = Probe(
    "Where no query counts", _nothing_to_count, "The solution returns NaN then: a mean of nothing."
)

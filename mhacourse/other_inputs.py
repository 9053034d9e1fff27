"""What other inputs do to a right answer: numbers of float16, a gradient, a row of a mask with nothing to see.

A `Probe` stands among the `remarks` of the exercises in which it matters. It runs the answer and the solution on
such inputs, and speaks only of what the answer does otherwise, where the solution comes to a result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhacourse.compare import difference
from mhacourse.run import Outcome, run
from mhacourse.watched_calls import SECONDS, largest


@dataclass(frozen=True)
class Probe:
    """Inputs that the task does not speak of, and on which an answer may do otherwise than the solution.

    Args:
        when: the beginning of the sentence.
        change: makes such an input of each input of the largest case.
        tells: each takes our outcome and the learner's, and says what the learner's does otherwise, or nothing.
        why: where it matters, and which lesson speaks of it.
    """

    when: str
    change: Callable[[object], object]
    tells: Sequence[Callable[[Outcome, Outcome], str]]
    why: str

    def parts(self, exercise, answer: Callable) -> list[tuple[str, str]]:
        case = largest(exercise.inputs)
        changed = tuple(map(self.change, case))
        (as_it_was, theirs), _ = run(answer, [case, changed], SECONDS)
        (ours,), _ = run(exercise.answer, [changed], SECONDS)
        if as_it_was.failure or ours.failure:  # then the other input is not what stops the answer
            return []
        said = next((words for tell in self.tells if (words := tell(ours, theirs))), "")
        return [("Remark:", f"{self.when}, {said}. {self.why}")] if said else []


def _half(x: object) -> object:
    return x.half() if isinstance(x, Tensor) and x.is_floating_point() else x


def _wanted(x: object) -> object:
    return x.clone().requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x


def _turned(x: object) -> object:
    """The same numbers, in memory as `split_heads` leaves them."""
    return x.transpose(1, 2).contiguous().transpose(1, 2) if isinstance(x, Tensor) and x.ndim > 2 else x


def _first_row_empty(x: object) -> object:
    if isinstance(x, Tensor) and x.dtype == torch.bool:
        x = x.clone()
        x[..., 0, :] = False
    return x


def _nothing_to_count(x: object) -> object:
    if not isinstance(x, Tensor) or x.is_floating_point():
        return x
    return torch.zeros_like(x) if x.dtype == torch.bool else torch.arange(x.numel()).view(x.shape)


def _pairs(ours: Outcome, theirs: Outcome) -> list[tuple[Tensor, Tensor]]:
    """Return the tensors of two results side by side; nothing where one is no tensor."""
    several = isinstance(ours.value, (tuple, list))
    pairs = list(zip(ours.value, theirs.value, strict=True)) if several else [(ours.value, theirs.value)]
    return pairs if all(isinstance(x, Tensor) for pair in pairs for x in pair) else []


def _stops(ours: Outcome, theirs: Outcome) -> str:
    failure = theirs.failure
    if not failure or failure.kind != "raised":
        return ""
    return f"your function stops: {failure.message.partition('. ')[0][:160].rstrip('.')}"


def _stumbles(ours: Outcome, theirs: Outcome) -> str:
    """The same, but for an input that the answer refuses in words, as the library does."""
    refused = theirs.failure and theirs.failure.message.startswith("ValueError")
    return "" if refused else _stops(ours, theirs)


def _no_numbers(ours: Outcome, theirs: Outcome) -> str:
    worse = any(o.isfinite().all() and not t.isfinite().all() for o, t in _pairs(ours, theirs))
    return "the numbers of your result are no longer finite; those of the solution are" if worse else ""


def _other_dtype(ours: Outcome, theirs: Outcome) -> str:
    for o, t in _pairs(ours, theirs):
        if o.dtype != t.dtype:
            return f"your result is {str(t.dtype)[6:]}, that of the solution {str(o.dtype)[6:]}"
    return ""


def _no_gradient(ours: Outcome, theirs: Outcome) -> str:
    lost = any(o.requires_grad and not t.requires_grad for o, t in _pairs(ours, theirs))
    return "none flows back through your result; through the solution it does" if lost else ""


def _other_numbers(ours: Outcome, theirs: Outcome) -> str:
    return "your result is another one" if difference(ours.value, theirs.value) else ""


def _made_of_the_hidden(ours: Outcome, theirs: Outcome) -> str:
    for o, t in _pairs(ours, theirs):
        hidden = t[o.isnan()]
        if hidden.numel() and hidden.isfinite().all() and hidden.any():
            return "your function returns ordinary numbers for it; the solution NaN, which is noticed"
    return ""


in_float16 = Probe(
    "With numbers of float16",
    _half,
    (_stops, _no_numbers, _other_dtype),
    "Large models run on such numbers, and torch multiplies no matrices of two dtypes.",
)
with_a_gradient = Probe(
    "Where a gradient is wanted",
    _wanted,
    (_stops, _no_gradient),
    "A layer that is trained needs it: stay with operations of torch, without item(), tolist() and numpy().",
)
on_a_turned_input = Probe(
    "With an input that lies in memory as a transpose leaves it",
    _turned,
    (_stops, _other_numbers),
    "Heads come out of a split like this: take reshape, or contiguous() first (lesson 03).",
)
on_an_empty_row = Probe(
    "With a mask that leaves the first query nothing to see",
    _first_row_empty,
    (_stops, _made_of_the_hidden),
    "What to do about such a row is told in lesson 04.",
)
with_nothing_to_count = Probe(
    "Where no query counts",
    _nothing_to_count,
    (_stumbles,),
    "The solution returns NaN then: a mean of nothing.",
)

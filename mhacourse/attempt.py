"""A learner's answer beside ours: on every case what each does, how they differ, and whose answer does the same.

What counts as equal is said in `compare`, how a learner's function is run in `run`, what is said of it all in `judge`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from mhacourse.compare import Axes, Difference, difference, kind_of, show, show_rows
from mhacourse.run import Outcome

MOST_LINES = 12  # of an example
LONGEST = 100  # characters of a line that holds a whole tensor


@dataclass(frozen=True)
class Case:
    """One input of an exercise, with what our answer and the learner's do with it."""

    inputs: tuple
    ours: Outcome
    theirs: Outcome
    axes: Axes = ()

    @cached_property
    def difference(self) -> Difference | None:
        """The first difference between the two results."""
        return difference(self.ours.value, self.theirs.value, self.axes)

    @property
    def result_is_right(self) -> bool:
        """Whether the result is right, however it was reached."""
        return self.theirs.failure is None and self.difference is None

    @property
    def is_right(self) -> bool:
        """Whether the result is right and no input was changed on the way."""
        return self.result_is_right and not self.theirs.changed


class Attempt:
    """A learner's answer; it is run and compared with ours once, when the first step asks for it.

    Args:
        exercise: the `Exercise` that it answers.
        answer: a function, a value, or the dots of the stub.
    """

    def __init__(self, exercise, answer: object):
        self.exercise, self.answer = exercise, answer

    @cached_property
    def _ran(self) -> tuple[list[Outcome], str]:
        return self.exercise.outcomes(self.answer)

    @property
    def outcomes(self) -> list[Outcome]:
        """What the answer does with each input; after a time-out there are fewer of them."""
        return self._ran[0]

    @property
    def printed(self) -> list[tuple[str, str]]:
        """What the answer printed, as paragraphs of a note."""
        text = self._ran[1]
        return [("You printed:", ""), ("code", text)] if text else []

    @cached_property
    def cases(self) -> list[Case]:
        exercise = self.exercise
        triples = zip(exercise.inputs, exercise.right, self.outcomes, strict=False)
        return [Case(*triple, exercise.axes) for triple in triples]

    @cached_property
    def worst(self) -> Case:
        """The first wrong result; where there is none, the first right one that was reached by changing the inputs."""
        wrong = [case for case in self.cases if not case.is_right]
        return next((case for case in wrong if not case.result_is_right), wrong[0])

    @property
    def example(self) -> list[tuple[str, str]]:
        """What to show of a wrong answer, as paragraphs of a note: a value itself, a function's worst case."""
        if self.exercise.cases is None:
            return [("Your answer:", show(self.answer))]
        case, names = self.worst, self.exercise.parameters
        call = ("For example:", f"{self.exercise.name}({', '.join(names)})")
        given = [(f"{name} = ", value) for name, value in zip(names, case.inputs, strict=True)]
        if case.theirs.failure:
            return [call, ("code", _table(given))]
        given += [("expected: ", case.ours.value), ("got:      ", case.theirs.value)]
        parts = [call, ("code", _table(given))]
        if case.difference:
            parts.append(("First difference:", case.difference.sentence()))
        return parts

    @property
    def before_all(self) -> list[tuple[str, str]]:
        """What comes before any guess: the error with its line, or which inputs were changed on the way."""
        if self.exercise.cases is None:
            return []
        if failure := self.worst.theirs.failure:
            return [("It stopped:", failure.message), *([("code", failure.line)] if failure.line else [])]
        changed = ", ".join(self.exercise.parameters[i] for i in self.worst.theirs.changed)
        return [("Changed on the way:", changed)] if changed else []


def _table(values: Sequence[tuple[str, object]]) -> str:
    """Return values with their labels, a line for each row; where that is long, the largest on one line each."""
    shown = [show_rows(label, value) for label, value in values]
    for _, i in sorted(((len(text.splitlines()), i) for i, text in enumerate(shown)), reverse=True):
        if sum(len(text.splitlines()) for text in shown) > MOST_LINES:
            label, value = values[i]
            line = label + show(value)
            if len(line) > LONGEST and isinstance(value, Tensor):
                line = f"{label}{kind_of(value)} of shape {tuple(value.shape)}"
            shown[i] = line if len(line) <= LONGEST else f"{line[:LONGEST]} …"
    return "\n".join(shown)


def same_results(some: Sequence[Outcome], others: Sequence[Outcome], right: Sequence[Outcome]) -> bool:
    """Return whether two answers give the same results, and failures on the same inputs.

    One mistake can be written in ways that fail with different messages. Where wrong results agree, the kind of error
    is enough; where there are none, it says too little, and the messages must agree, with the sizes in them.
    """
    if len(some) != len(others) or not all(map(same_result, some, others)):
        return False
    wrong = any(not a.failure and not same_result(ours, a) for ours, a in zip(right, some, strict=False))
    return wrong or _messages(some) == _messages(others)


def same_result(a: Outcome, b: Outcome) -> bool:
    """Return whether two functions did the same with one input: the same result, or the same kind of error."""
    if a.failure or b.failure:
        return bool(a.failure and b.failure) and _error(a) == _error(b)
    return difference(a.value, b.value) is None


def _error(outcome: Outcome) -> tuple[str, str]:
    return outcome.failure.kind, outcome.failure.message.partition(":")[0]


def changes(outcomes: Sequence[Outcome]) -> list[tuple[int, ...]]:
    """Return which inputs were changed, case by case."""
    return [outcome.changed for outcome in outcomes]


def _messages(outcomes: Sequence[Outcome]) -> list[str]:
    return [outcome.failure.message for outcome in outcomes if outcome.failure]


def recognise(catalogue: Sequence[tuple], outcomes: Sequence[Outcome], right: Sequence[Outcome]) -> tuple | None:
    """Return the entry of the catalogue that does just this, or None; what it does is the last in it.

    One that changes the same inputs comes first; then one that changes none, for a mistake in the result stays what
    it is where the inputs are changed besides. Of two that stop on the same inputs, the one with the same message.
    """
    alike = [entry for entry in catalogue if same_results(entry[-1], outcomes, right)]
    alike.sort(key=lambda entry: _messages(entry[-1]) != _messages(outcomes))
    for wanted in (changes(outcomes), [()] * len(outcomes)):
        for entry in alike:
            if changes(entry[-1]) == wanted:
                return entry
    return None

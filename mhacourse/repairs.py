"""Given code to repair: which of its lines are right, which were changed and are not, which are as they were.

What the code does tells it, not its text: each line has a right form, the form it was given in, and wrong ones that
people write. A function that does the same as some choice of forms on every case has these lines, whatever its
variables are called and however it is written. Where no choice does the same, nothing is said here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import torch

from mhacourse.advice import advice_for
from mhacourse.attempt import Attempt
from mhacourse.compare import difference
from mhacourse.exercise import Exercise, Wrong
from mhacourse.judge import FUNCTION, Step, first_difference, known_mistake
from mhacourse.note import Note
from mhacourse.run import Outcome

RIGHT = "right"
UNTOUCHED = "untouched, or it does the same as before"
MOST_CHANGED = 2  # lines with a wrong form that was not given: with three, an answer is better begun again


@dataclass(frozen=True)
class Line:
    """One line of the given code, in its forms; what a form is, a function or a number, is up to `Repair.build`.

    Args:
        right: the form that it should have.
        cure: what it should do, and for a line that was given broken how to repair it.
        given: the form in which it is given, where that is broken; None where it is right already.
        changed: other wrong forms, by a phrase that says what each does.
    """

    right: object
    cure: str
    given: object = None
    changed: Mapping[str, object] = field(default_factory=dict)

    @property
    def forms(self) -> dict[str, object]:
        """The forms by what is said of them."""
        return {RIGHT: self.right, **({} if self.given is None else {UNTOUCHED: self.given}), **self.changed}

    @property
    def unchanged(self) -> list[str]:
        """What is said of a line that has no wrong form of the learner's own."""
        return [RIGHT] if self.given is None else [RIGHT, UNTOUCHED]


@dataclass(repr=False, eq=False)
class Repair(Exercise):
    """Code with broken lines; its catalogue, what is left after some repairs, and the given code follow from them.

    Args:
        lines: each line by its name, such as "the scale".
        build: makes the function, given one form of each line by its name.
        where_right: for the number of a case, what to say where that case is right, and another wrong in a way that no
            form explains.
    """

    lines: Mapping[str, Line] = field(default_factory=dict)
    build: Callable[[Mapping[str, object]], Callable] | None = None
    where_right: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self):
        broken = [name for name, line in self.lines.items() if line.given is not None]
        self.given = self.built(dict.fromkeys(broken, UNTOUCHED))
        left = [some for count in range(1, len(broken)) for some in combinations(broken, count)]
        made = {self.headline(some): self._still_broken(some, len(broken)) for some in left}
        self.wrong = {**made, **self.wrong}
        self._of_last: dict[int, tuple[list, torch.Tensor, list]] = {}

    def _still_broken(self, left: Sequence[str], of: int) -> Wrong:
        answer = self.built(dict.fromkeys(left, UNTOUCHED))
        return Wrong(answer, _how_far(of - len(left), of), self.cures(left))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that judge a repair: before a known mistake is looked for, each line is told."""
        place = FUNCTION.index(known_mistake)
        steps = (*FUNCTION[:place], line_by_line, *FUNCTION[place:])
        return tuple(right_in_part if step is first_difference else step for step in steps)

    def built(self, states: Mapping[str, str]) -> Callable:
        """Return the function whose lines are in these states; a line that is not named is right."""
        return self.build({name: line.forms[states.get(name, RIGHT)] for name, line in self.lines.items()})

    def headline(self, wrong: Sequence[str]) -> str:
        """Return what to call an answer in which these lines are wrong."""
        words = {"Still to repair": [], "Broken on the way": []}
        for name in wrong:
            words["Broken on the way" if self.lines[name].given is None else "Still to repair"].append(name)
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in words.items() if names)

    def cures(self, wrong: Sequence[str]) -> str:
        """Return what these lines should do."""
        return "; ".join(self.lines[name].cure for name in wrong) + "."

    def explained(self, outcomes: Sequence[Outcome]) -> list[dict[str, str]]:
        """Return the states of the lines that do the same as this, those with the fewest changed lines only."""
        for count in range(MOST_CHANGED + 1):
            if found := [states for states in self._like(count, outcomes[-1]) if self._does_the_same(states, outcomes)]:
                return found
        return []

    def _like(self, count: int, outcome: Outcome) -> list[dict[str, str]]:
        """Return the states that come near an outcome of the last case: all at once, for there are thousands."""
        if count not in self._of_last:
            self._of_last[count] = self._on_last(count)
        states, values, stopped = self._of_last[count]
        got = outcome.value
        if outcome.failure:
            return stopped
        if not isinstance(got, torch.Tensor) or got.shape != values.shape[1:]:
            return []
        near = torch.isclose(got.detach().cpu().double(), values, rtol=1e-3, atol=1e-4, equal_nan=True)
        return [states[i] for i in near.flatten(1).all(1).nonzero().flatten().tolist()]

    def _on_last(self, count: int) -> tuple[list, torch.Tensor, list]:
        """Return the states that give a result on the last case, these results, and the states that stop."""
        ran, values, stopped = [], [], []
        for states in self._states(count):
            value = _value(self.built(states), self.inputs[-1])
            if isinstance(value, Exception):
                stopped.append(states)
            elif value.shape == self.right[-1].value.shape:
                ran.append(states)
                values.append(value.double())
        return ran, torch.stack(values), stopped

    def _states(self, count: int) -> Iterator[dict[str, str]]:
        for changed in combinations(self.lines, count):
            choices = [line.changed if name in changed else line.unchanged for name, line in self.lines.items()]
            yield from (dict(zip(self.lines, states, strict=True)) for states in product(*choices))

    def _does_the_same(self, states: Mapping[str, str], outcomes: Sequence[Outcome]) -> bool:
        function = self.built(states)
        pairs = zip(self.inputs, outcomes, strict=True)
        return all(_same(_value(function, case), outcome) for case, outcome in pairs)


def _value(function: Callable, case: tuple) -> object:
    """Return what a function gives, or the error with which it stops, as some wrong forms do."""
    try:
        with torch.no_grad():
            return function(*case)
    except Exception as error:
        return error


def _same(value: object, outcome: Outcome) -> bool:
    if isinstance(value, Exception):
        return outcome.failure is not None and outcome.failure.message.startswith(type(value).__name__)
    return outcome.failure is None and difference(value, outcome.value) is None


def line_by_line(attempt: Attempt) -> Note | None:
    """Say of each line of the given code what became of it, where the results tell."""
    exercise, outcomes = attempt.exercise, attempt.outcomes
    some = any(outcome.failure is None for outcome in outcomes)  # without a result, nothing is known of later lines
    if not some or len(outcomes) < len(exercise.inputs) or attempt.worst.result_is_right:
        return None
    found = exercise.explained(outcomes)
    seen = {name: {states[name] for states in found} for name in exercise.lines}
    told = {name: states.pop() for name, states in seen.items() if len(states) == 1}
    wrong = [name for name, state in told.items() if state != RIGHT]
    if not wrong:
        return None
    broken = [name for name, line in exercise.lines.items() if line.given is not None]
    fine, unseen = sum(told.get(name) == RIGHT for name in broken), sum(name not in told for name in broken)
    rows = [(f"{name[0].upper()}{name[1:]}:", _said(told.get(name), name in broken) + ".") for name in exercise.lines]
    rows = [row for row, name in zip(rows, exercise.lines, strict=True) if name in broken or name in wrong]
    failure = attempt.worst.theirs.failure
    advice = advice_for(failure.message) if failure else None
    parts = [("What:", _how_far(fine, len(broken), unseen)), *rows, ("Why:", exercise.cures(wrong)), *attempt.example]
    parts += [("Often:", advice)] * bool(advice)
    name = exercise.headline(wrong)
    return Note(f"not yet. {name}", parts + attempt.printed, mood="wrong", code=f"wrong: {name}")


def right_in_part(attempt: Attempt) -> Note:
    """Show the first difference, and what the cases tell that are right."""
    note, told = first_difference(attempt), attempt.exercise.where_right
    return replace(note, parts=[*note.parts, *(("", told[i]) for i in told if attempt.cases[i].is_right)])


def _said(state: str | None, was_broken: bool) -> str:
    if state is None:
        return "not to be seen in these results"
    if state in (RIGHT, UNTOUCHED):
        return state
    return f"changed, but not right: {state}" if was_broken else f"was right, and is not any more: {state}"


def _how_far(fine: int, of: int, unseen: int = 0) -> str:
    sure = f"{fine} of the {of} lines {'is' if fine == 1 else 'are'} right"
    return f"{sure}, {unseen} cannot be seen yet." if unseen else f"{sure}."

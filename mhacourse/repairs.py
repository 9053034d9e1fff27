"""Given code to repair: which of its lines are right, which were changed and are not, which are as they were.

What the code does tells it, not its text: each line has a right form, the form it was given in, and wrong ones that
people write. A function that does the same as some choice of forms on every case has these lines, however it is
written. Where no choice does the same, nothing is said here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from mhacourse.attempt import Attempt, same_result
from mhacourse.exercise import Exercise, Wrong
from mhacourse.judge import FUNCTION, Step, known_mistake
from mhacourse.note import Note
from mhacourse.run import Outcome, call, limits

RIGHT = "right"
UNTOUCHED = "untouched, or it does the same as before"
MOST_CHANGED = 1  # lines with a wrong form that was not given: with more, an answer is better begun again
SECONDS = 20.0  # for all choices of forms together, on however busy a machine; their results are kept


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


@dataclass(repr=False, eq=False)
class Repair(Exercise):
    """Code with broken lines; its catalogue, what is left after some repairs, and the given code follow from them.

    Args:
        lines: each line by its name, such as "the scale".
        build: makes the function, given one form of each line by its name.
    """

    lines: Mapping[str, Line] = field(default_factory=dict)
    build: Callable[[Mapping[str, object]], Callable] | None = None

    def __post_init__(self):
        self.broken = [name for name, line in self.lines.items() if line.given is not None]
        self.given = self.built(dict.fromkeys(self.broken, UNTOUCHED))
        left = [some for count in range(1, len(self.broken)) for some in combinations(self.broken, count)]
        made = {self.headline(some): self._still_broken(some) for some in left}
        self.wrong = {**made, **self.wrong}
        self._on_last: dict[int, list[tuple[dict[str, str], Outcome]]] = {}

    def _still_broken(self, left: Sequence[str]) -> Wrong:
        answer = self.built(dict.fromkeys(left, UNTOUCHED))
        return Wrong(answer, self.how_far(len(self.broken) - len(left)), self.cures(left))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that judge a repair: before a known mistake is looked for, each line is told."""
        place = FUNCTION.index(known_mistake)
        return (*FUNCTION[:place], line_by_line, *FUNCTION[place:])

    def built(self, states: Mapping[str, str]) -> Callable:
        """Return the function whose lines are in these states; a line that is not named is right."""
        return self.build({name: line.forms[states.get(name, RIGHT)] for name, line in self.lines.items()})

    def headline(self, wrong: Sequence[str]) -> str:
        """Return what to call an answer in which these lines are wrong."""
        left = [name for name in wrong if name in self.broken]
        more = [name for name in wrong if name not in self.broken]
        kinds = {"Still to repair": left, "Broken on the way": more}
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)

    def cures(self, wrong: Sequence[str]) -> str:
        """Return what these lines should do."""
        return "; ".join(self.lines[name].cure for name in wrong) + "."

    def how_far(self, fine: int, unseen: int = 0) -> str:
        """Return how many of the broken lines are right."""
        sure = f"{fine} of the {len(self.broken)} lines {'is' if fine == 1 else 'are'} right"
        return f"{sure}, {unseen} cannot be seen yet." if unseen else f"{sure}."

    def explained(self, outcomes: Sequence[Outcome]) -> list[dict[str, str]]:
        """Return the states of the lines that do the same as this, those with the fewest changed lines only."""
        for count in range(MOST_CHANGED + 1):
            with limits(SECONDS):
                if count not in self._on_last:
                    tried = [(states, call(self.built(states), self.inputs[-1])) for states in self._states(count)]
                    self._on_last[count] = tried
                like = [states for states, did in self._on_last[count] if same_result(did, outcomes[-1])]
                if found := [states for states in like if self._does_the_same(states, outcomes)]:
                    return found
        return []

    def _states(self, count: int) -> Iterator[dict[str, str]]:
        """Yield the states in which so many lines have a wrong form that was not given."""
        for changed in combinations(self.lines, count):
            choices = [
                line.changed if name in changed else [RIGHT, UNTOUCHED][: 1 + (name in self.broken)]
                for name, line in self.lines.items()
            ]
            yield from (dict(zip(self.lines, states, strict=True)) for states in product(*choices))

    def _does_the_same(self, states: Mapping[str, str], outcomes: Sequence[Outcome]) -> bool:
        function = self.built(states)
        return all(same_result(call(function, case), did) for case, did in zip(self.inputs, outcomes, strict=True))


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
    fine, unseen = (sum(told.get(name) == state for name in exercise.broken) for state in (RIGHT, None))
    names = [name for name in told if name in exercise.broken or name in wrong]
    rows = [(f"{name[0].upper()}{name[1:]}:", _said(told[name], name in exercise.broken)) for name in names]
    parts = [*attempt.before_all, ("What:", exercise.how_far(fine, unseen)), *rows, ("Why:", exercise.cures(wrong))]
    title = exercise.headline(wrong)
    parts += [*attempt.example, *attempt.printed]
    return Note(f"not yet. {title}", parts, mood="wrong", code=f"wrong: {title}")


def _said(state: str, was_broken: bool) -> str:
    if state in (RIGHT, UNTOUCHED):
        return f"{state}."
    return f"{'changed, but not right' if was_broken else 'was right, and is not any more'}: {state}."

"""An exercise: what is asked, what is right, and the wrong answers that people really give.

A wrong answer is stored as code. A learner's function that does the same as one of them on the check's inputs has
the same mistake, however it is written. What a result must be to count as equal is said in `_compare`, how a
learner's function is run in `_run`, how all this looks in `_show`.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from mhalib.checks.compare import difference, kind_of, show, show_rows
from mhalib.checks.run import Outcome, run
from mhalib.checks.show import Note, bar
from mhalib.checks.stub import is_stub

_OURS = 600.0  # seconds for answers that are known to end, on however busy a machine

_INNER = (
    "the inner sizes of a product must agree. Which axes are turned? .mT turns the last two, .T turns all (lesson 02)."
)

# What torch says, and what it means here.
_ADVICE = {
    "view size is not compatible": "view cannot join axes that do not lie side by side in memory. Keep the transpose, and use reshape, or contiguous() before view (lesson 03).",
    "is invalid for input of size": "the sizes you ask for do not multiply to the number of elements. Print x.shape first.",
    "must match the size of tensor": "two shapes do not broadcast. Write both below each other, aligned at the right (lesson 04).",
    "shapes cannot be multiplied": _INNER,
    "Expected size for first two dimensions": _INNER,
    "got float": "a size must be an integer, and / makes a float even of two integers. Use //.",
    "got (float": "a size must be an integer, and / makes a float even of two integers. Use //.",
    "'torch.return_types.": "max(dim) and min(dim) return a pair, numbers and places. amax and amin return the numbers alone.",
    "Boolean value of Tensor": "and, or, not want a single True or False. For tensors write &, |, ~.",
    '"bitwise_': "&, | and ~ are for booleans: make both sides with dtype=torch.bool.",
    "could not infer output dtype": "booleans and integers have no mean. Make them numbers with a fraction first: .float().mean().",
    "must be Tensor, not": "torch's functions take tensors; for a single number there is the module math.",
    "is not defined": "is the name spelled right, and has the cell that makes it been run?",
}


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that people really give.

    Args:
        answer: a function or a value that is wrong in just this way.
        what: what it does, in a sentence.
        why: why that is wrong, and what to do.
        also: other answers with this same mistake that do not do quite the same.
    """

    answer: object
    what: str
    why: str
    also: tuple = ()


@dataclass(repr=False, eq=False)
class Exercise:
    """One exercise, called with the learner's answer.

    Args:
        task: what is asked, in a sentence or two.
        answer: a right function or value; its source is the solution that is shown.
        hints: from the first to the last.
        wrong: the catalogue, by a short name that becomes the headline.
        cases: makes the inputs of a function, each a tuple, the smallest first; None for a value.
        axes: what the axes of the result are called.
        see: the heading in the lesson under which it is explained.
        given: the code that the learner starts from, where that is no empty stub.
        explanation: what `.solution()` says besides.

    Its name, its lesson and the other exercises there come from the module that defines it, see `Checks`; how hard
    it is and how long it takes stands where the reader decides to try it, in the lesson's Markdown.
    """

    task: str
    answer: object
    hints: Sequence[str]
    wrong: Mapping[str, Wrong] = field(default_factory=dict)
    cases: Callable | None = None
    axes: tuple[str, ...] = ()
    see: str = ""
    given: Callable | None = None
    explanation: str = ""

    name: str = field(default="", init=False)
    lesson: str = field(default="", init=False)
    siblings: list = field(default_factory=list, init=False, repr=False)
    solved: bool = field(default=False, init=False)
    _hints_shown: int = field(default=0, init=False)

    def __call__(self, answer: object = ...) -> Note:
        """Judge an answer; the result shows itself in a notebook, and prints as text."""
        if answer is None or answer is ...:
            return self._still_open()
        if self.cases is not None:
            return self._judge_function(answer)
        return self._judge_value(answer)

    def hint(self) -> Note:
        """Return the hints so far and one more."""
        self._hints_shown = min(self._hints_shown + 1, len(self.hints))
        shown = [(f"{number}.", text) for number, text in enumerate(self.hints[: self._hints_shown], 1)]
        if self._hints_shown == len(self.hints):
            shown.append(("", f"That was the last hint. The solution: check.{self.name}.solution()"))
        return Note(f"check.{self.name} · hint {self._hints_shown} of {len(self.hints)}", shown)

    def solution(self) -> Note:
        """Return a right answer."""
        parts = [("code", self._solution_text())]
        if callable(self.answer) and not self.answer.__module__.startswith("mhalib.checks"):
            parts.insert(0, ("", f"It stands in the library: {self.answer.__module__}.{self.answer.__name__}"))
        if self.explanation:
            parts.append(("", self.explanation))
        return Note(f"check.{self.name} · one solution", parts)

    def _solution_text(self) -> str:
        return inspect.getsource(self.answer) if callable(self.answer) else f"answer = {show(self.answer)}"

    def __repr__(self) -> str:
        return f"check.{self.name} · lesson {self.lesson}\n{self.task}"

    # ------------------------------------------------------------------------------------- judging

    def outcomes(self, answer: object, seconds: float | None = None) -> tuple[list[Outcome], str]:
        """Return what `answer` does with each case, and what it prints; ours get all the time they need."""
        if self.cases is None:
            return [Outcome(answer)], ""
        return run(answer, self.cases(), seconds)

    def recognise(self, outcomes: list[Outcome]) -> str | None:
        """Return the name of the catalogued wrong answer that does just this, or None."""
        return next((name for name, known in self._catalogue if _same(known, outcomes)), None)

    @cached_property
    def _catalogue(self) -> list[tuple[str, list[Outcome]]]:
        answers = [(name, answer) for name, wrong in self.wrong.items() for answer in (wrong.answer, *wrong.also)]
        return [(name, self.outcomes(answer, _OURS)[0]) for name, answer in answers]

    def _judge_value(self, answer: object) -> Note:
        found = difference(self.answer, answer)
        if found is None:
            return self._right()
        if name := self.recognise([Outcome(answer)]) or self._recognise_part(answer):
            return self._known(name, [("Your answer:", show(answer))])
        # A value is its own solution: say what came and where, not what it should be.
        return self._not_yet(found.kind, [("", found.sentence(tell_expected=found.kind != "value"))])

    def _recognise_part(self, answer: object) -> str | None:
        """Return the mistake that is in some of several shapes, where the other shapes are right."""
        if not (isinstance(self.answer, tuple) and isinstance(self.answer[0], tuple)):
            return None
        if not isinstance(answer, (tuple, list)) or len(answer) != len(self.answer):
            return None
        for name, (known,) in self._catalogue:
            pairs = zip(self.answer, known.value, answer, strict=True)
            if all(difference(right, part) is None or difference(wrong, part) is None for right, wrong, part in pairs):
                return name
        return None

    def _judge_function(self, answer: object) -> Note:
        if not callable(answer):
            words = f"expected a function, got {kind_of(answer)}; give the function itself, without calling it"
            return self._not_yet("type", [("", words)])
        cases = self.cases()
        if complaint := _arity(answer, cases[0], self._names()):
            return self._not_yet("arity", [("", complaint)])
        right, (outcomes, printed) = self.outcomes(self.answer, _OURS)[0], self.outcomes(answer)
        shown = [("You printed:", ""), ("code", printed)] if printed else []
        if all(outcome.value is None and not outcome.failure for outcome in outcomes):
            if is_stub(answer):
                return self._still_open()
            return self._not_yet("none", [("", "Your function returns None. Is a return missing?"), *shown])
        if self.given is not None and _same(self.outcomes(self.given, _OURS)[0], outcomes):
            return self._still_open("still the code that was given")
        pairs = list(enumerate(zip(right, outcomes, strict=False)))  # after a time-out there are fewer outcomes
        wrong = [i for i, pair in pairs if not _equal(*pair)]
        if not wrong:
            return self._right(shown)
        # A result that is wrong comes before one that is right but was reached by changing the inputs.
        untouched = [replace(outcome, changed=()) for outcome in outcomes]
        bad = next((i for i in wrong if not _equal(right[i], untouched[i])), wrong[0])
        example = self._example(cases[bad], right[bad], outcomes[bad])
        if name := self.recognise(outcomes) or self.recognise(untouched):
            return self._known(name, example, shown)
        return self._unknown(right[bad], outcomes[bad], example, shown)

    def _unknown(self, right: Outcome, got: Outcome, example: list, shown: list) -> Note:
        if got.failure:
            advice = next((text for part, text in _ADVICE.items() if part in got.failure.message), None)
            often = [("Often:", advice)] if advice else []
            return self._not_yet(got.failure.kind, example + often + shown)
        found = difference(right.value, got.value, self.axes)
        if found is None:  # the result is right, what happened on the way is not
            names = " and ".join(self._names()[i] for i in got.changed)
            words = f"The result is right, but your function changes {names} of its caller. Make a new tensor: no +=, no method that ends in an underscore."
            return self._not_yet("changes its input", [("", words), *shown])
        return self._not_yet(found.kind, example + shown)

    def _example(self, case: tuple, right: Outcome, got: Outcome) -> list[tuple[str, str]]:
        names = self._names()
        lines = [show_rows(f"{name} = ", value) for name, value in zip(names, case, strict=True)]
        call = ("For example:", f"{self.name}({', '.join(names)})")
        if got.failure:
            line = [("code", got.failure.line)] if got.failure.line else []
            return [call, ("code", "\n".join(lines)), ("It stopped:", got.failure.message), *line]
        lines += [show_rows("expected: ", right.value), show_rows("got:      ", got.value)]
        parts = [call, ("code", "\n".join(lines))]
        found = difference(right.value, got.value, self.axes)
        if found:
            parts.append(("First difference:", found.sentence()))
        if got.changed:
            parts.append(("Changed on the way:", ", ".join(names[i] for i in got.changed)))
        return parts

    def _names(self) -> list[str]:
        return list(inspect.signature(self.answer).parameters)

    # ------------------------------------------------------------------------------------- answers

    def _right(self, shown: Sequence = ()) -> Note:
        self.solved = True
        parts = list(shown) + ([("", self.explanation)] if self.explanation else [])
        return Note(f"{self.name}: right.", parts, self.progress(), "right", "right")

    def _still_open(self, state: str = "not yet written") -> Note:
        words = f"When stuck: check.{self.name}.hint()"
        return Note(f"{self.name}: {state}.", [("", words)], self.progress(), "open", "stub")

    def _known(self, name: str, example: list, shown: Sequence = ()) -> Note:
        wrong = self.wrong[name]
        parts = [("What:", wrong.what), *example, ("Why:", wrong.why), *shown]
        return Note(f"{self.name}: not yet. {name}", parts + self._where(), self.progress(), "wrong", f"wrong: {name}")

    def _not_yet(self, code: str, parts: list) -> Note:
        return Note(f"{self.name}: not yet.", parts + self._where(), self.progress(), "wrong", code)

    def _where(self) -> list[tuple[str, str]]:
        return [("See:", f"lesson {self.lesson}, '{self.see}'")] if self.see else []

    def progress(self) -> str:
        """Return a small bar over the exercises of this lesson."""
        return f"Lesson {self.lesson}: {bar(sum(e.solved for e in self.siblings), len(self.siblings))}"


@dataclass(repr=False, eq=False)
class Choice(Exercise):
    """An exercise that asks which of some options hold; the answer is a text of letters, such as "AC".

    Args:
        options: for each letter, why it belongs to the answer or does not.
    """

    options: Mapping[str, str] = field(default_factory=dict)

    def _judge_value(self, answer: object) -> Note:
        try:
            text = answer if isinstance(answer, str) else " ".join(map(str, answer))
        except TypeError:
            return self._not_yet("type", [("", f'expected letters such as "AB", got {kind_of(answer)}')])
        words = [word for word in re.findall(r"\w+", text.upper()) if word != "AND"]  # "B, D", "B and D", "BD"
        chosen = set("".join(words))
        if not chosen <= set(self.options):
            options = ", ".join(self.options)
            return self._not_yet("type", [("", f"expected letters out of {options}, got {show(answer)}")])
        for letter, reason in self.options.items():
            if letter in chosen and letter not in self.answer:
                return self._wrong_option(f"not {letter}", f"{letter} does not belong to it: {reason}")
        for letter, reason in self.options.items():
            if letter not in chosen and letter in self.answer:
                return self._wrong_option(f"{letter} as well", f"{letter} belongs to it as well: {reason}")
        return self._right()

    def _wrong_option(self, name: str, words: str) -> Note:
        parts = [("", words), *self._where()]
        return Note(f"{self.name}: not yet.", parts, self.progress(), "wrong", f"wrong: {name}")

    def _solution_text(self) -> str:
        return "\n".join([f'answer = "{self.answer}"', *(f"# {key}: {why}" for key, why in self.options.items())])


def _same(some: list[Outcome], others: list[Outcome]) -> bool:
    """Return whether two answers do the same: the same results, failures on the same inputs.

    One mistake can be written in ways that fail with different messages. The kind of error counts; where there is no
    result at all, the message as well.
    """
    pairs = list(zip(some, others, strict=False))
    if len(some) != len(others) or not all(_equal(a, b) for a, b in pairs):
        return False
    return any(not a.failure for a, _ in pairs) or all(a.failure.message == b.failure.message for a, b in pairs)


def _equal(a: Outcome, b: Outcome) -> bool:
    if a.failure or b.failure:
        return bool(a.failure and b.failure) and _error(a) == _error(b)
    return a.changed == b.changed and difference(a.value, b.value) is None


def _error(outcome: Outcome) -> tuple[str, str]:
    return outcome.failure.kind, outcome.failure.message.partition(":")[0]


def _arity(answer: Callable, case: tuple, names: list[str]) -> str | None:
    """Return a sentence when `answer` cannot be called with these arguments."""
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions have none
        return None
    try:
        signature.bind(*case)
    except TypeError:
        return f"the check calls it with {len(names)} arguments, ({', '.join(names)}); yours takes {signature}"
    return None

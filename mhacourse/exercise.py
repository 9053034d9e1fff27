"""An exercise: what is asked, what is right, and the wrong answers that people really give.

A wrong answer is stored as code. A learner's function that does the same as one of them on the check's inputs has
the same mistake, however it is written. How an answer is judged is said in `judge`, how all this looks in `note`.
"""

import contextlib
import inspect
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from mhacourse.attempt import Attempt
from mhacourse.compare import Axes, show
from mhacourse.judge import CHOICE, FUNCTION, VALUE, Step, judge
from mhacourse.note import Note, bar, hints_so_far
from mhacourse.run import Outcome, run
from mhalib.arguments import as_torch_starts

SOLVED_BEFORE = "Solved before, with another answer; that still counts."  # no bar, it might be full, beside "not yet"
OUR_SECONDS = 600.0  # for answers that are known to end, on however busy a machine


@dataclass(frozen=True)
class Change:
    """A wrong answer as a small change of the right one, in each of its plain forms that holds the piece.

    Args:
        before: a piece of its source; where it stands several times, each is changed.
        after: what stands there instead.
    """

    before: str
    after: str

    def of(self, right: Callable) -> Callable:
        """Return the changed function.

        Raises:
            ValueError: the source does not hold the piece.
        """
        names = dict(inspect.unwrap(right).__globals__)
        exec(rewritten(textwrap.dedent(inspect.getsource(right)), [self]), names)
        return names[right.__name__]


def rewritten(source: str, changes: Sequence[Change]) -> str:
    """Return a source with some pieces changed.

    Raises:
        ValueError: it does not hold a piece.
    """
    for change in changes:
        if change.before not in source:
            raise ValueError(f"the source does not hold {change.before!r}; take a piece of it as it stands")
        source = source.replace(change.before, change.after)
    return source


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that people really give.

    Args:
        answer: a function or a value that is wrong in just this way, or a `Change` of the right one.
        what: what it does, in a sentence.
        why: why that is wrong, and what to do.
        also: other answers with this same mistake, each a `Wrong` where it has its own text.
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
        axes: what the axes of the result are called; for several results, by what each is called.
        see: the heading in the lesson under which it is explained.
        given: the code that the learner starts from, where that is no empty stub.
        plain: right functions in plain torch, in each style in which learners write them, for `Change`.
        sizes: for a value, the sizes that the task speaks of, by name: the value model says "d_model times too large".
        explanation: what `.solution()` says besides.
        remarks: what may be said of a right answer, see `remarks`; the first that have something to say.

    Its name, its lesson and the other exercises there come from the module that defines it, see `Checks`; how hard
    it is and how long it takes stands where the reader decides to try it, in the lesson's Markdown.
    """

    task: str
    answer: object
    hints: Sequence[str]
    wrong: Mapping[str, Wrong] = field(default_factory=dict)
    cases: Callable | None = None
    axes: Axes = ()
    see: str = ""
    given: Callable | None = None
    plain: Sequence[Callable] = ()
    sizes: Mapping[str, int | float] = field(default_factory=dict)
    explanation: str = ""
    remarks: Sequence = ()

    name: str = field(default="", init=False)
    lesson: str = field(default="", init=False)
    siblings: list = field(default_factory=list, init=False, repr=False)
    solved: bool = field(default=False, init=False)
    hints_shown: int = field(default=0, init=False)

    @as_torch_starts()
    def __call__(self, answer: object = ...) -> Note:
        """Judge an answer; the result shows itself in a notebook, and prints as text."""
        said = judge(self.steps, Attempt(self, answer))
        self.solved = self.solved or said.passed
        where = [("See:", f"lesson {self.lesson}, '{self.see}'")] if self.see and said.mood == "wrong" else []
        return replace(said, title=f"{self.name}: {said.title}", parts=said.parts + where, footer=self.progress(said))

    def hint(self) -> Note:
        """Return the hints so far and one more."""
        self.hints_shown = min(self.hints_shown + 1, len(self.hints))
        return hints_so_far(f"check.{self.name}", self.hints, self.hints_shown)

    def solution(self) -> Note:
        """Return a right answer."""
        parts = [("code", self._solution_text())]
        if callable(self.answer) and not self.answer.__module__.startswith("mhacourse"):
            parts.insert(0, ("", f"The library has it: {self.answer.__module__}.{self.answer.__name__}"))
        parts += [("", self.explanation)] if self.explanation else []
        return Note(f"check.{self.name} · one solution", parts)

    def _solution_text(self) -> str:
        return inspect.getsource(self.answer) if callable(self.answer) else f"answer = {show(self.answer)}"

    def __repr__(self) -> str:
        return f"check.{self.name} · lesson {self.lesson}\n{self.task}"

    def progress(self, said: Note) -> str:
        """Return a small bar over the exercises of this lesson; none where a solved one is not right now."""
        done = SOLVED_BEFORE if self.solved and not said.passed else ""
        return done or f"Lesson {self.lesson}: {bar(sum(e.solved for e in self.siblings), len(self.siblings))}"

    # ------------------------------------------------------------------------- what a judge needs to know

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that judge an answer, in their order."""
        return VALUE if self.cases is None else FUNCTION

    @property
    def parameters(self) -> list[str]:
        """What the arguments of the function are called."""
        return list(inspect.signature(self.answer).parameters)

    @cached_property
    def inputs(self) -> list[tuple]:
        """The inputs of the function, built once: `run` hands out copies. A value is one case without inputs."""
        return [()] if self.cases is None else self.cases()

    @cached_property
    def right(self) -> list[Outcome]:
        """What our answer does with each input."""
        return self.outcomes(self.answer, OUR_SECONDS)[0]

    @cached_property
    def given_outcomes(self) -> list[Outcome] | None:
        """What the code does that the learner starts from; None where that is an empty stub."""
        return None if self.given is None else self.outcomes(self.given, OUR_SECONDS)[0]

    @cached_property
    def catalogue(self) -> list[tuple[str, Wrong, list[Outcome]]]:
        """Of each catalogued wrong answer the name of its mistake, its text, and what it does."""
        found, answers = [], [(n, wrong, one) for n, wrong in self.wrong.items() for one in (wrong.answer, *wrong.also)]
        for (name, wrong, answer), form in itertools.product(answers, self.plain or (self.answer,)):
            with contextlib.suppress(ValueError, SyntaxError):  # a change that breaks the source is no answer
                told = answer if isinstance(answer, Wrong) else wrong
                found.append((name, told, self.outcomes(self.made(answer, form), OUR_SECONDS)[0]))
        return found

    def made(self, answer: object, form: Callable | None = None) -> object:
        """Return a catalogued answer as it is called: of a `Change`, the given form changed, or the first that fits."""
        answer = answer.answer if isinstance(answer, Wrong) else answer
        fitting = (f for f in self.plain if isinstance(answer, Change) and answer.before in inspect.getsource(f))
        return answer.of(form or next(fitting, self.answer)) if isinstance(answer, Change) else answer

    def outcomes(self, answer: object, seconds: float | None = None) -> tuple[list[Outcome], str]:
        """Return what `answer` does with each input, and what it prints; ours get all the time they need."""
        return ([Outcome(answer)], "") if self.cases is None else run(answer, self.inputs, seconds)


@dataclass(repr=False, eq=False)
class Choice(Exercise):
    """An exercise that asks which of some options hold; the answer is a text of letters, such as "AC".

    Args:
        options: for each letter, why it belongs to the answer or does not.
    """

    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that judge a choice of letters, in their order."""
        return CHOICE

    def _solution_text(self) -> str:
        return "\n".join([f'answer = "{self.answer}"', *(f"# {key}: {why}" for key, why in self.options.items())])

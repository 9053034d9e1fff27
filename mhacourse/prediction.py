"""Predictions: what a reader guesses before the cell that answers, `predict.first_split()`.

A `Choose` or a `Number` stands in the modules `predictions_NN` of `lessons`, with a sentence for each guess: why one
would think so. What was guessed lives in the kernel until it stops, and nowhere else. How a question looks and takes a
guess is said in `headview`; that a record lacks nothing is said by the tests.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from numbers import Real
from typing import ClassVar

from mhacourse.note import LiveNote, Note


@dataclass(repr=False, eq=False)
class Prediction:
    """What all predictions have; a lesson's module holds a `Choose` or a `Number`.

    Args:
        about: what is predicted, a phrase that a list can hold: "whom a word looks at with one head".

    Its name and its lesson come from the module that defines it, see `Predictions`. `picked` is the guess, a choice or
    a number, and None as long as there is none; `revealed`, whether the answer was shown.
    What a kind of prediction has to know besides: `right_text`, the answer in words, and `right_guess`, a guess that is
    right; `choices`, what is asked for; of a guess whether it `is_right`, how it is `said`, its `sentence_about`, and
    how it is kept, `_understood`; what the view has to know, `_facts`.
    """

    about: str
    name: str = field(default="", init=False)
    lesson: str = field(default="", init=False)
    revealed: bool = field(default=False, init=False)

    _blank: ClassVar[str] = "…"  # what stands for a guess where one is told how to hand it over

    def __post_init__(self):
        self._picked: str | Real | None = None
        self._view = None
        self._listeners: list[Callable[[], None]] = []

    def __call__(self, guess: object = None) -> object:
        """Ask: show the choices, or a field for a number.

        Where no view can be, a guess can be handed over: `predict.first_split("the second")`.

        Args:
            guess: a choice or a number; when left out, the reader is asked.

        Raises:
            ValueError: the guess cannot be one; or there is one already, and the answer was shown.
        """
        if guess is not None:
            guess = self._understood(guess)
            if self.revealed and self._picked not in (None, guess):
                kept = self.said(self._picked)
                raise ValueError(f"predict.{self.name}: the answer was shown, and your guess stays {kept}")
            self.picked = guess
        view = self._shown_view()
        return self._asked() if view is None else view

    def __repr__(self) -> str:
        asked = f"write predict.{self.name}() to be asked, predict.{self.name}.reveal() to see the answer"
        return f"predict.{self.name} · lesson {self.lesson}\n{self._question}\n{asked}"

    # ------------------------------------------------------------------------- the guess and the answer

    @property
    def picked(self) -> str | Real | None:
        """The guess, in the view or by hand."""
        return self._picked

    @picked.setter
    def picked(self, guess: str | Real | None) -> None:
        guess = None if guess is None else self._understood(guess)
        if self._view is not None:
            self._view.picked = guess
        self._keep(guess)

    def reveal(self) -> Note:
        """Return what is right, and what the reader had guessed; for the end of the cell that answers.

        All views of the question say it as well. A guess that was made in time, but heard of only now because the
        kernel was busy with the cell, counts: the view takes one until it knows of the answer, and what this shows in
        a notebook follows.
        """
        self.revealed = True
        if self._view is not None:
            self._view.revealed = True
        return self._verdict()

    def follow(self, listener: Callable[[], None]) -> None:
        """Call the listener after each new guess."""
        self._listeners.append(listener)

    def _keep(self, guess: str | Real | None) -> None:
        if guess != self._picked:
            self._picked = guess
            for listener in self._listeners:
                listener()

    def _verdict(self) -> LiveNote:
        live = {"again": self._verdict, "of": (self,)}
        if self.picked is None:
            parts = [("", self.sentence_about(self.right_guess))]
            return LiveNote(f"The answer: {self.right_text}", parts, code="open", **live)
        said, right = self.said(self.picked), self.is_right(self.picked)
        title = f"You predicted: {said}. " + ("Right." if right else f"It is: {self.right_text}.")
        mood = "right" if right else "wrong"
        return LiveNote(title, [("", self.sentence_about(self.picked))], mood=mood, code=said, **live)

    # ------------------------------------------------------------------------- how it is asked

    @property
    def _question(self) -> str:
        return f"Your guess: {self.about}?"

    def _asked(self) -> Note:
        """Return the question as text, where no view can be."""
        by_hand = f"To answer here, say predict.{self.name}({self._blank})"
        return Note(self._question, [*(("", line) for line in self.choices()), ("", by_hand)])

    def _shown_view(self):
        """Return the one view of this prediction, or None where anywidget is missing."""
        if self._view is None or self._view.comm is None:  # never asked, or its reader closed all widgets
            try:
                from headview import PredictionView
            except ModuleNotFoundError as error:
                if error.name != "anywidget":
                    raise
                return None
            words = (repr(self._asked()), Note(self._question, [("", line) for line in self.choices()])._repr_html_())
            view = PredictionView(self.about, self.right_text, name=self.name, words=words, **self._facts())
            view.picked, view.revealed = self._picked, self.revealed
            view.observe(lambda change: self._keep(change["new"]), "picked")
            self._view = view
        return self._view


@dataclass(repr=False, eq=False)
class Choose(Prediction):
    """One of some choices.

    Args:
        options: for each choice, a sentence: why one would think so and what speaks against it; for the right one, why
            it is right. They are shown in this order.
        right: the right choice, a key of `options`.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    right: str = ""

    _blank: ClassVar[str] = '"…"'

    @property
    def right_text(self) -> str:
        return self.right

    @property
    def right_guess(self) -> str:
        return self.right

    def choices(self) -> list[str]:
        return [f"○ {option}" for option in self.options]

    def is_right(self, guess: object) -> bool:
        return guess == self.right

    def said(self, guess: object) -> str:
        return str(guess)

    def sentence_about(self, guess: object) -> str:
        return self.options[guess]

    def _understood(self, guess: object) -> str:
        if not isinstance(guess, str) or guess not in self.options:
            known = ", ".join(map(repr, self.options))
            raise ValueError(f"predict.{self.name}: choose one of {known}, got {guess!r}")
        return guess

    def _facts(self) -> dict[str, object]:
        return {"options": self.options}


@dataclass(repr=False, eq=False)
class Number(Prediction):
    """A number.

    Args:
        right: the smallest and the largest number that count as right.
        right_text: the answer in words, such as "about .58" or "between .80 and .97".
        why: the sentence about a right number.
        guesses: `(low, high, sentence)`, the first that holds a wrong number says why one would think so; `math.inf`
            where it has no end.
        other: the sentence about any other number.
        unit: what stands behind the field, such as "%" or "of 28 pairs".
    """

    right: tuple[Real, Real] = (math.nan, math.nan)
    right_text: str = ""
    why: str = ""
    guesses: Sequence[tuple[Real, Real, str]] = ()
    other: str = ""
    unit: str = ""

    @property
    def right_guess(self) -> Real:
        return sum(self.right) / 2

    def choices(self) -> list[str]:
        return [f"____ {self.unit}" if self.unit else "a number"]

    def is_right(self, guess: object) -> bool:
        low, high = self.right
        return low <= guess <= high

    def said(self, guess: object) -> str:
        number = Decimal(f"{float(guess) + 0.0:.15g}")  # written as a browser does; -0 is 0
        short = 1e-6 <= abs(number) < 1e21 or not number
        return f"{f'{number:f}' if short else f'{float(number):.15g}'.replace('e-0', 'e-')} {self.unit}".rstrip()

    def sentence_about(self, guess: object) -> str:
        if self.is_right(guess):
            return self.why
        return next((sentence for low, high, sentence in self.guesses if low <= guess <= high), self.other)

    def _understood(self, guess: object) -> float:
        if isinstance(guess, bool) or not isinstance(guess, Real) or not math.isfinite(guess):
            raise ValueError(f"predict.{self.name}: give a number such as 3 or 0.25, got {guess!r}")
        return float(guess)

    def _facts(self) -> dict[str, object]:
        return {"ranges": [(*self.right, self.why), *self.guesses], "other": self.other, "unit": self.unit}


@dataclass(frozen=True, repr=False)
class Results(LiveNote):
    """What the predictions of a lesson came to: the note at the beginning of *What you now know*.

    In a page without a kernel nobody has guessed yet when it is made, so its script writes the note: it finds the
    element of class `mhalib-results`, with the lesson's number in `data-lesson` and the number of its predictions in
    `data-count`, and fills it from the events `mhalib-predicted`, see `PredictionView`.

    Args:
        lesson: its number, such as "05".
        count: how many predictions it has.
    """

    lesson: str = ""
    count: int = 0

    def _repr_html_(self) -> str:
        inside = super()._repr_html_() if self.parts else f"<div>{escape(self.title)}</div>"
        place = f'class="mhalib-results" data-lesson="{escape(self.lesson)}" data-count="{self.count}"'
        return f"<div {place}>{inside}</div>"


def sum_up(lesson: str, predictions: Sequence[Prediction]) -> Results:
    """Return what was predicted correctly, what came as a surprise, and how many were not predicted."""
    live = {
        "again": lambda: sum_up(lesson, predictions),
        "of": tuple(predictions),
        "lesson": lesson,
        "count": len(predictions),
    }
    made = [prediction for prediction in predictions if prediction.picked is not None]
    if not made:
        times = "once" if len(predictions) == 1 else f"{len(predictions)} times"
        return Results(f"Nothing predicted yet. This lesson asks {times}.", code="open", **live)
    right = [prediction for prediction in made if prediction.is_right(prediction.picked)]
    missing = len(predictions) - len(made)
    parts = [("Foreseen:", "; ".join(prediction.about for prediction in right))] * bool(right)
    parts += [
        ("Surprised by:", f"{prediction.about}: {prediction.right_text}, not {prediction.said(prediction.picked)}")
        for prediction in made
        if prediction not in right
    ]
    parts += [("Not predicted:", str(missing))] * bool(missing)
    return Results(f"Predicted: {len(made)} of {len(predictions)}, {len(right)} right", parts, **live)

"""What all predictions do: ask, keep a guess, reveal the answer.

What can be asked, a choice or a number, is said in `prediction.py`; how a question looks and takes a guess, in
`headview`; what a lesson's guesses come to, in `prediction_results.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
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

    Raises:
        ValueError: the record lacks something, or contradicts itself.
    """

    about: str
    name: str = field(default="", init=False)
    lesson: str = field(default="", init=False)
    revealed: bool = field(default=False, init=False)

    _blank: ClassVar[str] = "…"  # what stands for a guess where one is told how to hand it over

    def __post_init__(self):
        demand(is_said(self.about), f"about must say what is predicted, got {self.about!r}")
        demand(
            not self.about.rstrip().endswith((".", "?")),
            f"about is a phrase, to which the question adds its mark: write {self.about.rstrip(' .?')!r}",
        )
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

    # ------------------------------------------------------------------------- what a lesson's module says

    def choices(self) -> list[str]:
        """Return what a reader may answer, as lines of text."""
        raise NotImplementedError

    @property
    def right_text(self) -> str:
        """The answer in words."""
        raise NotImplementedError

    @property
    def right_guess(self) -> str | Real:
        """A guess that is right."""
        raise NotImplementedError

    def is_right(self, guess: object) -> bool:
        """Whether this guess is right."""
        raise NotImplementedError

    def said(self, guess: object) -> str:
        """Return the guess in words."""
        raise NotImplementedError

    def sentence_about(self, guess: object) -> str:
        """Return why one would think so and what speaks against it, or why it is right."""
        raise NotImplementedError

    def _understood(self, guess: object) -> str | Real:
        """Return the guess as it is kept; refuse what cannot be one."""
        raise NotImplementedError

    def _facts(self) -> dict[str, object]:
        """Return what the view has to know besides."""
        raise NotImplementedError

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


def demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(f"a prediction: {otherwise}")


def is_said(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())

"""A prediction: what a reader guesses before the cell that answers, `predict.first_split()`.

The choices stand in the exercises' modules of `lessons`, with a sentence for each: why one would think so. What was
guessed lives in the widget, in `mhalib.widgets`, until the kernel stops, and nowhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

from mhalib.checks.show import Note


@dataclass(repr=False, eq=False)
class Prediction:
    """What all predictions have; a lesson's module holds a `Choose` or a `Number`.

    Args:
        about: what is predicted, a phrase that a list can hold: "whom a word looks at with one head".
    """

    about: str
    name: str = field(default="", init=False)
    lesson: str = field(default="", init=False)
    picked: str | float | None = field(default=None, init=False)  # the choice, or the number
    revealed: bool = field(default=False, init=False)

    def __call__(self) -> object:
        """Ask: show the choices, or a field for a number."""
        return Note(f"Your guess: {self.about}?", [("", line) for line in self.choices()])

    def choices(self) -> list[str]:
        """Return what a reader may answer, as lines of text."""
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

    def reveal(self) -> Note:
        """Return what is right, and what the reader had guessed; for the end of the cell that answers."""
        self.revealed = True
        if self.picked is None:
            return Note(f"The answer: {self.right_text}", [("", self.sentence_about(self.right_guess))], code="open")
        said, right = self.said(self.picked), self.is_right(self.picked)
        title = f"You predicted: {said}. " + ("Right." if right else f"It is: {self.right_text}.")
        return Note(title, [("", self.sentence_about(self.picked))], mood="right" if right else "wrong", code=said)


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

    @property
    def right_text(self) -> str:
        """The right choice."""
        return self.right

    @property
    def right_guess(self) -> str:
        """A guess that is right."""
        return self.right

    def choices(self) -> list[str]:
        """Return the choices."""
        return [f"○ {option}" for option in self.options]

    def is_right(self, guess: object) -> bool:
        """Whether this is the right choice."""
        return guess == self.right

    def said(self, guess: object) -> str:
        """Return the choice."""
        return str(guess)

    def sentence_about(self, guess: object) -> str:
        """Return the sentence of this choice."""
        return self.options[guess]


@dataclass(repr=False, eq=False)
class Number(Prediction):
    """A number.

    Args:
        right: the smallest and the largest number that count as right.
        right_text: the answer in words, such as "about .58" or "between .80 and .97".
        why: the sentence about a right number.
        guesses: `(low, high, sentence)`, the first that holds a wrong number says why one would think so.
        other: the sentence about any other number.
        unit: what stands behind the field, such as "%" or "of 28 pairs".
    """

    right: tuple[Real, Real] = (0, 0)
    right_text: str = ""
    why: str = ""
    guesses: Sequence[tuple[Real, Real, str]] = ()
    other: str = ""
    unit: str = ""

    @property
    def right_guess(self) -> float:
        """A guess that is right."""
        return sum(self.right) / 2

    def choices(self) -> list[str]:
        """Return what is asked for."""
        return [f"a number {self.unit}".rstrip()]

    def is_right(self, guess: object) -> bool:
        """Whether the number lies in the range that counts as right, its ends included."""
        low, high = self.right
        return low <= guess <= high

    def said(self, guess: object) -> str:
        """Return the number with its unit."""
        return f"{guess:g} {self.unit}".rstrip()

    def sentence_about(self, guess: object) -> str:
        """Return the sentence of the first range that holds this number."""
        if self.is_right(guess):
            return self.why
        return next((sentence for low, high, sentence in self.guesses if low <= guess <= high), self.other)

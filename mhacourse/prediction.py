"""A prediction: what a reader guesses before the cell that answers, `predict.first_split()`.

A `Choose` or a `Number` stands in the exercises' modules of `lessons`, with a sentence for each guess: why one would
think so. What was guessed lives in the kernel until it stops, and nowhere else; how, is said in `prediction_base.py`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import ClassVar

from mhacourse.prediction_base import Prediction, demand, is_said


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

    def __post_init__(self):
        super().__post_init__()
        known = ", ".join(map(repr, self.options))
        demand(len(self.options) >= 2, f"options must be two choices or more, each with its sentence, got {known}")
        for choice, sentence in self.options.items():
            demand(is_said(choice), f"a choice must say something, got {choice!r}")
            demand(is_said(sentence), f"the choice {choice!r} needs a sentence: why one would think so")
        plain = [" ".join(choice.casefold().split()) for choice in self.options]
        demand(len(set(plain)) == len(plain), f"two choices read the same: {known}")
        demand(self.right in self.options, f"right must be one of the options {known}, got {self.right!r}")

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

    def __post_init__(self):
        super().__post_init__()
        demand(
            len(self.right) == 2 and all(map(_is_number, self.right)) and self.right[0] <= self.right[1],
            f"right must be (low, high), two finite numbers, the smaller one first, got {self.right!r}",
        )
        demand(is_said(self.right_text), "right_text must say the answer in words, such as 'about .58'")
        demand(is_said(self.why), "why must be a sentence about a right number")
        before = [self.right]
        for guess in self.guesses:
            demand(
                len(guess) == 3 and all(_is_number(end, endless=True) for end in guess[:2]) and guess[0] <= guess[1],
                f"a guess must be (low, high, sentence), the smaller number first, got {guess!r}",
            )
            low, high, sentence = guess
            demand(is_said(sentence), f"the guess from {low} to {high} needs a sentence: why one would think so")
            demand(
                not _covered(low, high, before),
                f"the guess from {low} to {high} is never said: right and the guesses before it hold all its numbers; "
                "put the narrow ones first",
            )
            before.append((low, high))
        demand(
            is_said(self.other) or _covered(-math.inf, math.inf, before),
            "other must be a sentence: what is said of a number that neither right nor a guess holds",
        )

    @property
    def right_guess(self) -> Real:
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
        """Return the number with its unit, written as a browser writes it."""
        number = float(guess) + 0.0  # -0 is 0
        written = repr(number)
        if 1e-6 <= abs(number) < 1e21 or not number:
            written = f"{Decimal(written):f}".removesuffix(".0")
        shortened = re.sub("e([-+])0", r"e\1", written)
        return f"{shortened} {self.unit}".rstrip()

    def sentence_about(self, guess: object) -> str:
        """Return the sentence of the first range that holds this number."""
        if self.is_right(guess):
            return self.why
        return next((sentence for low, high, sentence in self.guesses if low <= guess <= high), self.other)

    def _understood(self, guess: object) -> float:
        if not _is_number(guess):
            raise ValueError(f"predict.{self.name}: give a number such as 3 or 0.25, got {guess!r}")
        return float(guess)

    def _facts(self) -> dict[str, object]:
        return {"ranges": [(*self.right, self.why), *self.guesses], "other": self.other, "unit": self.unit}


def _is_number(value: object, *, endless: bool = False) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        return False
    return endless or math.isfinite(value)


def _covered(low: Real, high: Real, ranges: Sequence[tuple[Real, Real]]) -> bool:
    """Whether these ranges, ends included, together hold all numbers from low to high."""
    reached = low
    for start, end in sorted(ranges):
        if start <= reached:
            if end >= high:
                return True
            reached = max(reached, end)
    return False

"""PredictionView: what a reader guesses before the cell that answers, as choices or as a field for a number.

The view takes the guess and, once the answer was revealed, says what is to be said of it. The questions, their answers
and what becomes of a guess in a lesson are the business of `mhacourse`. A page without a kernel judges the guess
by itself, so all that may be said goes with the view; nothing of the answer is shown before the guess.
"""

import math
from collections.abc import Iterable, Mapping
from numbers import Real

import traitlets

from headview.base import Checked, Refused, View, check_truth, is_number, static


class PredictionView(View):
    """A question, a guess, and after the answer a sentence about the guess.

    Args:
        about: what is predicted, a phrase: the question is "Your guess: …?".
        answer: what is right, in words; with `options`, the right one of them.
        words: the question as text and as HTML, for readers where no view can be.
        options: for each choice its sentence. Without them, a number is asked for.
        ranges: `(low, high, sentence)` for numbers from low to high, the right ones first, `math.inf` for no end. The
            first range that holds a number says its sentence.
        other: the sentence about any other number.
        unit: what stands behind the field for a number.
        name: what a page calls the prediction when it is told of a guess.

    `picked` is the guess, None at first: one of the options, or a number. `revealed` says whether the answer was shown;
    from then on the view judges, and takes no other guess once it has one. In a page without a kernel it judges at
    once, and an event `mhalib-predicted` rises from it, with `detail` `{name, about, right, said, answer}`.

    Raises:
        ValueError: a guess that cannot be one, or another value of `revealed` than True and False.

    Every lesson asks by it: `predict.first_split()` of `mhacourse`.
    """

    _esm = static("prediction.js")
    _css = static("prediction.css")

    name = traitlets.Unicode().tag(sync=True)
    about = traitlets.Unicode().tag(sync=True)
    answer = traitlets.Unicode().tag(sync=True)
    options = traitlets.List().tag(sync=True)  # [choice, sentence]
    ranges = traitlets.List().tag(sync=True)  # [low, high, sentence], the right one first, None for no end
    other = traitlets.Unicode().tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    picked = traitlets.TraitType(None).tag(sync=True)
    revealed = Checked(False, check_truth).tag(sync=True)
    heard = traitlets.TraitType(None).tag(sync=True)  # the guess that the kernel knows, for the view to say so

    def __init__(
        self,
        about: str,
        answer: str,
        *,
        words: tuple[str, str],
        options: Mapping[str, str] | None = None,
        ranges: Iterable[tuple[Real, Real, str]] = (),
        other: str = "",
        unit: str = "",
        name: str = "",
    ):
        rows = [[_bound(low), _bound(high), sentence] for low, high, sentence in ranges]
        if bool(options) == bool(rows):
            raise ValueError("a prediction has either options or ranges of numbers, the right one first")
        if options and answer not in options:
            raise ValueError(f"answer must be one of the options {', '.join(map(repr, options))}, got {answer!r}")
        self._words = words
        super().__init__(
            name=name,
            about=about,
            answer=answer,
            options=[list(option) for option in (options or {}).items()],
            ranges=rows,
            other=other,
            unit=unit,
        )

    def __repr__(self) -> str:
        return self._words[0]

    def _beside(self) -> tuple[dict, dict]:
        return {"text/html": self._words[1]}, {}

    @traitlets.validate("picked")
    def _check_picked(self, proposal):
        guess, choices = proposal["value"], [choice for choice, _ in self.options]
        if guess is None:
            return None
        if choices:
            if not isinstance(guess, str) or guess not in choices:
                raise Refused(f"choose one of {', '.join(map(repr, choices))}, got {guess!r}")
            return guess
        if not is_number(guess):
            raise Refused(f"give a number such as 3 or 0.25, got {guess!r}")
        return float(guess)

    @traitlets.observe("picked")
    def _hear(self, change):
        self.heard = change["new"]


def _bound(number: Real) -> float | None:
    """Return the end of a range as JSON can hold it."""
    return float(number) if math.isfinite(number) else None

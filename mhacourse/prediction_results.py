"""What the predictions of a lesson came to: the note at the beginning of *What you now know*.

In a page without a kernel nobody has guessed yet when it is made, so its script writes the note: it finds the element
of class `mhalib-results`, with the lesson's number in `data-lesson` and the number of its predictions in `data-count`,
and fills it from the events `mhalib-predicted`, see `PredictionView`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from mhacourse.note import LiveNote
from mhacourse.prediction_base import Prediction


@dataclass(frozen=True, repr=False)
class Results(LiveNote):
    """The note, in the element that a page can fill.

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
    """Return what was predicted rightly, what came as a surprise, and how many were not predicted."""
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
    return Results(f"Predicted: {len(made)} of {len(predictions)}, {len(right)} rightly", parts, **live)

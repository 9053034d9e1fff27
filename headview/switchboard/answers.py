"""What the function that a HeadSwitchboard measures with may return, and how its errors are told in a view."""

import linecache
import math
import traceback
from numbers import Real

import numpy as np
from torch import Tensor

_LONGEST = 200  # characters of a label or an answer


def as_score_and_answers(given: object) -> tuple[float, list[tuple[str, str, bool | None]]]:
    """Return what a measure gave: a score, and its answers as texts with their marks; or say what is wrong with it."""
    score, answers = given if isinstance(given, tuple) and len(given) == 2 else (given, [])
    if isinstance(score, (Tensor, np.ndarray)) and math.prod(score.shape) == 1:
        score = score.item()
    if not isinstance(score, Real):
        raise TypeError(
            f"measure must return a number, or the pair (score, answers), got {type(score).__name__}; "
            "of many numbers, such as one a sample, return the mean"
        )
    if not math.isfinite(score):
        raise ValueError(f"measure must return a finite number, got {score}; look at what the model computes there")
    if not isinstance(answers, (list, tuple)) or not all(isinstance(a, (list, tuple)) and len(a) == 3 for a in answers):
        raise TypeError(f"answers must be a list of (label, said, right), got {repr(answers)[:200]}")
    return float(score), [(str(label)[:_LONGEST], str(said)[:_LONGEST], _mark(right)) for label, said, right in answers]


def _mark(right: object) -> bool | None:
    right = right.item() if isinstance(right, (Tensor, np.generic)) else right
    if not (right is None or isinstance(right, bool)):
        raise TypeError(f"right must be True, False or None in an answer (label, said, right), got {right!r}")
    return right


def told_of(error: BaseException, measure: object) -> str:
    """Return what was raised, and by which line of `measure`, in one short text."""
    text = traceback.format_exception_only(error)[-1].strip()[:500]
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code is getattr(measure, "__code__", None):
            line = linecache.getline(frame.f_code.co_filename, number).strip()[:120]
            return f"{text} (in {frame.f_code.co_name}, line {number}: {line})"
    return text

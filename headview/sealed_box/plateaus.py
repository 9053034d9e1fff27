"""Plateaus and steps of what a sealed box returns along a line: where it stands still, and by what it jumps.

Nothing here knows what is inside of the box. Two steps along the same vector, up to its sign and its length, get the
same letter: they may be one head.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

_STILL = 1e-4  # of all that moves on the line: what a plateau may move between two points
_DRIFT = 0.05  # the same for a whole line; a slow slide is no plateau, however many points it has
_SAME = 1e-3  # by which the directions of two steps along the same vector may differ
_BLUR = 0.05  # of the longest vector: rounding that moves the output further hides its steps
_MOST_STEPS = 200
_TREMBLES = 50  # times its span is a way that no head makes

STAYS = "On this line the output does not move. Try another direction, or a larger reach."
SLIDES = (
    "On this line the output slides, without a step between two places where it stands still. Go further out: "
    "make start and direction a hundred times as long."
)
SHAKES = (
    "On this line the output shakes from point to point. If the box computes in float32, call .double(): far out, "
    "rounding moves it as far as a step. If it has dropout, call .eval()."
)


class Step(NamedTuple):
    """A step between two plateaus; places are numbers of points."""

    middle: int  # the step is crossed between this point and the next
    letter: int  # a row of `Found.vectors`
    sign: int  # with which that vector comes to the output as t grows
    before: int  # the middle of the plateau on its left
    after: int


class Found(NamedTuple):
    steps: list[Step]
    vectors: Float[Tensor, "letters d_model"]  # each turned so that its largest feature is positive
    remark: str  # what to do where there are no steps


def find_steps(moved: Float[Tensor, "points d_model"], noise: float) -> Found:
    """Return the steps of `moved`, float64, in which differences up to `noise` mean nothing."""
    nothing = moved.new_zeros(0, moved.shape[1])
    if noise > _BLUR * moved.norm(dim=-1).max().item():
        return Found([], nothing, SHAKES)
    span = (moved - moved.mean(0)).norm(dim=-1).max().item()
    if span <= noise:
        return Found([], nothing, STAYS)
    apart = (moved[1:] - moved[:-1]).norm(dim=-1)
    still = apart <= max(span * min(_STILL, _DRIFT / len(apart)), noise)
    plateaus = _runs(still.tolist())
    if len(plateaus) > _MOST_STEPS or apart.sum() > _TREMBLES * span:
        return Found([], nothing, SHAKES)
    steps, vectors = [], []
    for (first, left), (right, last) in zip(plateaus, plateaus[1:], strict=False):
        before, after = (first + left) // 2, (right + last) // 2
        jump = moved[after] - moved[before]
        if jump.norm() <= max(span * _STILL, noise):
            continue  # it went and came back between two plateaus
        sign = 1 if jump[jump.abs().argmax()] > 0 else -1
        alike = max(_SAME, 4 * noise / jump.norm().item())
        letter = next((i for i, other in enumerate(vectors) if _apart(jump, other) <= alike), len(vectors))
        if letter == len(vectors):
            vectors.append(sign * jump)
        elif jump @ vectors[letter] * sign < 0:  # where two features are largest, rounding may choose the other
            sign = -sign
        steps.append(Step((left + right - 1) // 2, letter, sign, before, after))
    return Found(steps, torch.stack(vectors) if vectors else nothing, "" if steps else SLIDES)


def _apart(one: Tensor, other: Tensor) -> float:
    """Return how far two directions are apart, up to sign."""
    one, other = one / one.norm(), other / other.norm()
    return min((one - other).norm().item(), (one + other).norm().item())


def _runs(still: list[bool]) -> list[tuple[int, int]]:
    """Return first and last point of every stretch in which no point differs from the next."""
    ends = [i for i, (one, other) in enumerate(zip([False, *still], [*still, False], strict=True)) if one != other]
    return list(zip(ends[::2], ends[1::2], strict=True))


def letter_name(letter: int) -> str:
    """Return A, B, …, Z, AA, AB, … as `letterName` in `box.js` does."""
    return (letter_name(letter // 26 - 1) if letter >= 26 else "") + chr(ord("A") + letter % 26)

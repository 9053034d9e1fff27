"""What can be seen of a wrong result where no mistake is known: what is right about it, and what it looks like.

Every sentence is a fact about all the inputs of a check together, or about the one that is shown, never a guess at a
cause.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mhacourse.attempt import Case
from mhacourse.compare import ATOL, RTOL, readable, shape_in_words

MOST, MOST_PLACES = 2, 8  # sentences, of which the first ones say most, and places in one of them


def other_axes(cases: Sequence[Case]) -> str:
    """Return in words how the shape differs, where the sizes of a case tell which axis is which."""
    for case in cases:
        ours, theirs = case.ours.value, case.theirs.value
        has_a_one = any(1 in x.shape if isinstance(x, Tensor) else x == 1 for x in case.inputs)
        if not has_a_one and all(isinstance(x, Tensor) and readable(x) for x in (ours, theirs)):
            if ours.shape != theirs.shape and (
                words := shape_in_words(tuple(ours.shape), tuple(theirs.shape), case.axes)
            ):
                return words
    return ""


def holds_the_numbers(cases: Sequence[Case]) -> bool:
    """Return whether each result has the numbers of the right one, in whatever shape and order.

    Where it has fewer, an axis is missing, which is the mistake whatever its numbers are.
    """
    for case in cases:
        both = case.ours.value, case.theirs.value
        if not all(isinstance(x, Tensor) and readable(x) for x in both):
            return False
        ours, theirs = (x.detach().double().flatten().sort().values for x in both)
        if len(theirs) < len(ours):
            continue
        if len(theirs) > len(ours) or not torch.allclose(ours, theirs, rtol=RTOL, atol=ATOL):
            return False
    return True


def observe(cases: Sequence[Case]) -> list[str]:
    """Return what is true of a wrong answer's results, the most telling first."""
    right = [case for case in cases if case.result_is_right]
    said = []
    if right:
        said = [f"It is right for {len(right)} of {len(cases)} inputs; the one below is the first of the others."]
    pairs = [_numbers(case) for case in cases if not case.result_is_right]
    if None in pairs or all(_close(*pair).all() for pair in pairs):  # only the dtype is wrong
        return said
    return [*said, *_of_numbers(pairs, cases[0].axes)][:MOST]


def _numbers(case: Case) -> tuple[Tensor, Tensor] | None:
    ours, theirs = case.ours.value, case.theirs.value
    if case.theirs.failure or not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        return None
    if not readable(theirs) or theirs.is_complex() or ours.shape != theirs.shape or ours.numel() < 2:
        return None
    return ours.detach().double(), theirs.detach().cpu().double()


def _of_numbers(pairs: Sequence[tuple[Tensor, Tensor]], axes: tuple[str, ...]) -> Iterator[str]:
    if any(theirs.isnan().any() for _, theirs in pairs):
        yield "Some of it is NaN, which comes of inf - inf, of 0 / 0, or of a root or logarithm of less than 0."
    elif all((theirs == theirs.flatten()[0]).all() for _, theirs in pairs):
        yield "In each result all entries are the same."
    elif all(_close(ours.flatten().sort().values, theirs.flatten().sort().values).all() for ours, theirs in pairs):
        yield "They are the right numbers, in other places."
    yield from _where_right(_close(*pairs[0]), axes)
    factors = {f"{(theirs * ours).sum() / ours.square().sum():.4g}" for ours, theirs in pairs}
    if len(factors) == 1 and factors != {"0"}:
        if all(_close(float(*factors) * ours, theirs).all() for ours, theirs in pairs):
            yield f"Every number is {factors.pop()} times the right one."


def _where_right(right: Tensor, axes: tuple[str, ...]) -> Iterator[str]:
    """Say of the result that is shown along which axis some places are right and the others not: which heads or rows.

    Args:
        right: True where a number of it is right.
        axes: what its axes are called.
    """
    for axis, name in enumerate(axes if len(axes) == right.ndim else ()):
        lines = right.movedim(axis, 0).flatten(1).all(1) if right.ndim > 1 else right
        places = lines.nonzero()[:, 0].tolist()
        if 0 < len(places) < min(len(lines), MOST_PLACES):
            yield f"In the example it is right for {name} {', '.join(map(str, places))}, and for no other {name}."


def _close(ours: Tensor, theirs: Tensor) -> Tensor:
    return torch.isclose(theirs, ours, rtol=RTOL, atol=ATOL, equal_nan=True)

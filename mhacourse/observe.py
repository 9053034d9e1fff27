"""What a wrong result shows when no known mistake fits: what is right about it, and which axes it has.

Every sentence is a fact about all the inputs of a check together, or about the input that is shown, never a guess at a
cause.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mhacourse.attempt import Case
from mhacourse.compare import ATOL, RTOL, readable, shape_in_words

MOST_PLACES = 8  # in one sentence


def other_axes(cases: Sequence[Case]) -> str:
    """Return in words how the shape differs, if the sizes of a case tell which axis is which."""
    for case in cases:
        ours, theirs = case.ours.value, case.theirs.value
        has_a_one = any(1 in x.shape if isinstance(x, Tensor) else x == 1 for x in case.inputs)
        if not has_a_one and all(isinstance(x, Tensor) and readable(x) for x in (ours, theirs)):
            words = shape_in_words(tuple(ours.shape), tuple(theirs.shape), case.axes)
            if words and ours.shape != theirs.shape:
                return words
    return ""


def holds_the_numbers(cases: Sequence[Case]) -> bool:
    """Return whether each result has the numbers of the right result, in any shape and order.

    If it has fewer, an axis is missing, and that is the mistake, whatever its numbers are.
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


def transposed(cases: Sequence[Case]) -> str:
    """Return in words which result is the transpose of the right one, if it is so in each wrong case."""
    said = {_transposed_in(case) for case in cases if not case.result_is_right}
    return said.pop() if len(said) == 1 else ""


def _transposed_in(case: Case) -> str:
    ours, theirs, named = case.ours.value, case.theirs.value, "The result"
    if case.difference is None or case.difference.kind not in ("value", "shape"):
        return ""
    if case.difference.path:
        named = case.difference.path[0]
        i = named if isinstance(named, int) else [*case.axes].index(named)
        ours, theirs, named = ours[i], theirs[i], f"Part [{i}]" if named == i else named
    if not all(isinstance(x, Tensor) and readable(x) and x.ndim > 1 for x in (ours, theirs)):
        return ""
    turned = ours.mT
    same = turned.shape == theirs.shape and torch.allclose(turned.double(), theirs.double(), rtol=RTOL, atol=ATOL)
    return f"{named} is transposed" if same else ""


def observe(cases: Sequence[Case]) -> list[str]:
    """Return for how many inputs a wrong answer is right, and in the example for which heads, rows or the like."""
    right = sum(case.result_is_right for case in cases)
    said = [f"It is right for {right} of {len(cases)} inputs; the example below is the first wrong one."] * bool(right)
    case = next(case for case in cases if not case.result_is_right)
    ours, theirs = case.ours.value, case.theirs.value
    if case.difference.kind != "value" or not isinstance(ours, Tensor) or len(case.axes) != ours.ndim:
        return said
    same = torch.isclose(theirs.detach().cpu().double(), ours.detach().double(), rtol=RTOL, atol=ATOL, equal_nan=True)
    for axis, name in enumerate(case.axes):
        lines = same.movedim(axis, 0).flatten(1).all(1) if same.ndim > 1 else same
        places = lines.nonzero()[:, 0].tolist()
        if 0 < len(places) < min(len(lines), MOST_PLACES):
            numbers = ", ".join(map(str, places))
            said.append(f"In the example, it is right for {name} {numbers}, and for no other {name}.")
    return said[:2]

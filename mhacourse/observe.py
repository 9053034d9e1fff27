"""What can be seen of a wrong result where no mistake is known: what is right about it, and what it looks like.

Every sentence is a fact about all the inputs of a check together, never a guess at a cause.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mhacourse.attempt import Case
from mhacourse.compare import ATOL, RTOL, readable, shape_in_words

MOST = 2  # sentences; the first ones say most


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
    yield from _where_right([_close(*pair) for pair in pairs], axes)
    factors = {f"{(theirs * ours).sum() / ours.square().sum():.4g}" for ours, theirs in pairs}
    if (
        len(factors) == 1
        and factors != {"0"}
        and all(_close(float(*factors) * ours, theirs).all() for ours, theirs in pairs)
    ):
        yield f"Every number is {factors.pop()} times the right one."
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    if _sum_to_one(ours, -1) and not _sum_to_one(theirs, -1):
        yield "Rows should sum to 1; " + ("here the columns do." if _sum_to_one(theirs, -2) else "yours do not.")


def _where_right(right: Sequence[Tensor], axes: tuple[str, ...]) -> Iterator[str]:
    """Say along which axis some places are right and the others not: the first, the last, the diagonal, a triangle."""
    if len(axes) != right[0].ndim:
        return
    if len(axes) > 1 and all(r.shape[-1] == r.shape[-2] > 1 for r in right):
        above = [torch.ones(r.shape[-2:], dtype=torch.bool).triu(1).expand_as(r) for r in right]
        if all(r[a | a.mT].all() for r, a in zip(right, above, strict=True)):
            yield "Only the diagonal is wrong."
        elif all(r[~a].all() for r, a in zip(right, above, strict=True)):
            yield f"Only what lies above the diagonal is wrong ({axes[-1]} behind {axes[-2]})."
        elif all(r[~a.mT].all() for r, a in zip(right, above, strict=True)):
            yield f"Only what lies below the diagonal is wrong ({axes[-1]} before {axes[-2]})."
    for axis, name in enumerate(axes):
        lines = [r.movedim(axis, 0).flatten(1).all(1) if r.ndim > 1 else r for r in right]
        ends = {"first": [(line[:1], line[1:]) for line in lines], "last": [(line[-1:], line[:-1]) for line in lines]}
        for word, parts in ends.items() if any(len(line) > 1 for line in lines) else ():
            if all(one.all() and not others.any() for one, others in parts):
                yield f"Only the {word} {name} is right."
            elif all(others.all() and not one.any() for one, others in parts):
                yield f"All is right but the {word} {name}."


def _sum_to_one(results: Sequence[Tensor], axis: int) -> bool:
    return all(result.ndim > 1 and bool(((result.sum(axis) - 1).abs() < 1e-3).all()) for result in results)


def _close(ours: Tensor, theirs: Tensor) -> Tensor:
    return torch.isclose(theirs, ours, rtol=RTOL, atol=ATOL, equal_nan=True)

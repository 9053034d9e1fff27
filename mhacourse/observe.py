"""What can be seen of a wrong result where no mistake is known: where it is right, and what it looks like.

Every sentence is a fact about all the inputs of a check together, never a guess at a cause.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mhacourse.attempt import Case
from mhacourse.compare import ATOL, RTOL, readable, shape_in_words

MOST = 2  # sentences; the first ones say most


def observe(cases: Sequence[Case]) -> list[str]:
    """Return what is true of a wrong answer's results, the most telling first."""
    said = _of_shapes(cases) or _of_inputs(cases)
    pairs = [pair for case in cases if (pair := _numbers(case)) and not case.result_is_right]
    if not pairs or len(pairs) < sum(not case.result_is_right for case in cases):
        return said[:MOST]
    if all(_close(ours, theirs).all() for ours, theirs in pairs):  # only the dtype is wrong
        return said[:MOST]
    return [*said[: MOST - 1], *_of_numbers(pairs, cases[0].axes)][:MOST]


def _of_shapes(cases: Sequence[Case]) -> list[str]:
    """Say what the shape is where the sizes of a case tell which axis is which."""
    for case in cases:
        ours, theirs = case.ours.value, case.theirs.value
        if _has_a_one(case) or not isinstance(ours, Tensor) or not isinstance(theirs, Tensor) or not readable(theirs):
            continue
        words = ours.shape != theirs.shape and shape_in_words(tuple(ours.shape), tuple(theirs.shape), case.axes)
        if words:
            return [f"Where the shape should be {tuple(ours.shape)} it is {tuple(theirs.shape)}: {words}."]
    return []


def _has_a_one(case: Case) -> bool:
    """Return whether a size of the inputs is 1, so that a 1 in the result may be that size, or one too many."""
    return any(1 in x.shape if isinstance(x, Tensor) else x == 1 for x in case.inputs)


def _of_inputs(cases: Sequence[Case]) -> list[str]:
    right = [i + 1 for i, case in enumerate(cases) if case.result_is_right]
    if not right:
        return []
    n = len(cases)
    return [f"It is right for {len(right)} of {n} inputs of this check; the one below is the first of the others."]


def _numbers(case: Case) -> tuple[Tensor, Tensor] | None:
    ours, theirs = case.ours.value, case.theirs.value
    if case.theirs.failure or not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        return None
    if not readable(theirs) or theirs.is_complex() or ours.shape != theirs.shape or ours.ndim == 0 or ours.numel() < 2:
        return None
    ours, theirs = ours.detach(), theirs.detach().cpu()
    return (ours, theirs) if ours.dtype == theirs.dtype == torch.bool else (ours.double(), theirs.double())


def _of_numbers(pairs: Sequence[tuple[Tensor, Tensor]], axes: tuple[str, ...]) -> list[str]:
    if all(ours.dtype == torch.bool for ours, _ in pairs):  # of which sums and factors say nothing
        return [*_special(pairs), *_triangles(pairs, axes), *_places(pairs, axes)]
    pairs = [(ours.double(), theirs.double()) for ours, theirs in pairs]
    where = [*_triangles(pairs, axes), *_places(pairs, axes)]
    return [*_special(pairs), *_order(pairs), *where, *_factors(pairs), *_sums(pairs)]


def _special(pairs: Sequence) -> Iterator[str]:
    if any(theirs.isnan().any() for _, theirs in pairs):
        yield "Some of it is NaN, which comes of inf - inf, of 0 / 0, or of a root or logarithm of less than 0."
    elif all((theirs == theirs.flatten()[0]).all() for _, theirs in pairs):
        one = pairs[0][1].flatten()[0].item()
        yield f"In each result all entries are the same, such as {one if isinstance(one, bool) else f'{one:.4g}'}."


def _order(pairs: Sequence) -> Iterator[str]:
    if all(_close(ours.flatten().sort().values, theirs.flatten().sort().values).all() for ours, theirs in pairs):
        yield "They are the right numbers, in other places."


def _places(pairs: Sequence, axes: tuple[str, ...]) -> Iterator[str]:
    """Say along which axis the result is right at one end."""
    right = [_close(ours, theirs) for ours, theirs in pairs]
    if len(axes) != right[0].ndim:
        return
    for axis, name in enumerate(axes):
        lines = [r.movedim(axis, 0).flatten(1).all(1) if r.ndim > 1 else r for r in right]
        if all(len(line) == 1 for line in lines):
            continue
        if all(line[0] and not line[1:].any() for line in lines):
            yield f"Only the first {name} is right."
        elif all(line[-1] and not line[:-1].any() for line in lines):
            yield f"Only the last {name} is right."
        elif all(line[1:].all() and not line[0] for line in lines):
            yield f"All is right but the first {name}."
        elif all(line[:-1].all() and not line[-1] for line in lines):
            yield f"All is right but the last {name}."


def _triangles(pairs: Sequence, axes: tuple[str, ...]) -> Iterator[str]:
    """Say where a result is wrong only on the diagonal, or on one side of it."""
    right = [_close(ours, theirs) for ours, theirs in pairs]
    if len(axes) == right[0].ndim >= 2 and all(r.shape[-1] == r.shape[-2] > 1 for r in right):
        on = [torch.eye(r.shape[-1], dtype=torch.bool).expand_as(r) for r in right]
        above = [torch.ones(r.shape[-2:], dtype=torch.bool).triu(1).expand_as(r) for r in right]
        if all(r[~d].all() for r, d in zip(right, on, strict=True)):
            yield "Only the diagonal is wrong."
        elif all(r[~a].all() for r, a in zip(right, above, strict=True)):
            yield f"Only what lies above the diagonal is wrong ({axes[-1]} behind {axes[-2]})."
        elif all(r[a | d].all() for r, a, d in zip(right, above, on, strict=True)):
            yield f"Only what lies below the diagonal is wrong ({axes[-1]} before {axes[-2]})."


def _factors(pairs: Sequence) -> Iterator[str]:
    """Say where a result is the right one times one number, or one number more."""
    factors = []
    for ours, theirs in pairs:
        factor = (theirs * ours).sum() / ours.square().sum().clamp(min=1e-30)
        if not factor.isfinite() or factor.abs() < 1e-6 or not _close(factor * ours, theirs).all():
            break
        factors.append(f"{factor:.4g}")
    else:
        same = len({*factors}) == 1
        yield f"Every number is {factors[0]} times the right one" + (
            "." if same else f" here; for other inputs it is {', '.join(dict.fromkeys(factors[1:]))} times."
        )
        return
    shift = torch.cat([(theirs - ours).flatten() for ours, theirs in pairs])
    if shift.isfinite().all() and (shift - shift[0]).abs().max() < 1e-5 * (1 + shift[0].abs()):
        yield f"Every number is {abs(shift[0]):.4g} too {'large' if shift[0] > 0 else 'small'}."


def _sums(pairs: Sequence) -> Iterator[str]:
    def sum_to_one(which: int, axis: int) -> bool:
        sums = [pair[which].sum(axis) for pair in pairs if pair[which].ndim > 1]
        return bool(sums) and all(bool(((s - 1).abs() < 1e-3).all()) for s in sums)

    if not sum_to_one(0, -1):
        return
    if not sum_to_one(1, -1):
        columns = pairs[0][1].ndim > 1 and sum_to_one(1, -2)
        yield "Rows should sum to 1; here the columns do." if columns else "Rows should sum to 1; yours do not."


def _close(ours: Tensor, theirs: Tensor) -> Tensor:
    if ours.dtype == torch.bool:
        return ours == theirs
    return torch.isclose(theirs, ours, rtol=RTOL, atol=ATOL, equal_nan=True)

"""Which edit a learner has made: the cheapest that does the same as the learner's function on every case.

It says nothing where the results are too few to tell: a mistake that leaves one number explains itself in many ways.
"""

import math
import re
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from mhacourse.attempt import same_result
from mhacourse.compare import readable
from mhacourse.edits import Edit, print_of
from mhacourse.run import Outcome, OutOfTime, limits

SECONDS = 2.0  # for one search, the first of an exercise; what was found out about an edit is kept
BITS = 14.0  # that the results must hold: with a thousand edits, fewer would be chance
FLOAT, INTEGER, BOOLEAN = 10.0, 4.0, 1.0  # bits of a number, roughly
ERROR = 7.0  # of a message of torch, which tells the sizes that met


def find(
    edits: Sequence[Edit],
    inputs: Sequence[tuple],
    right: Sequence[Outcome],
    theirs: Sequence[Outcome],
    bits: Real = BITS,
) -> Edit | None:
    """Return the edit that does the same as the learner's function, or None.

    Args:
        edits: of the exercise, the cheapest first.
        inputs, right, theirs: the cases, and what our answer and the learner's do with them.
        bits: how much the results must say.
    """
    if len(theirs) < len(inputs) or _bits(theirs, right) < bits:
        return None
    wrong = [i for i in range(len(inputs)) if not same_result(right[i], theirs[i])]
    # First the cases that tell most: where there is a wrong result.
    order = sorted(range(len(inputs)), key=lambda i: (i not in wrong, theirs[i].failure is not None, i))
    prints = [print_of(outcome) for outcome in theirs]
    try:
        with limits(SECONDS):
            for edit in edits:
                if all((did := edit.outcome(i, inputs[i])) and _same(*did, theirs[i], prints[i]) for i in order):
                    return edit
    except OutOfTime:
        pass  # what was known by then is kept; the next search goes on from there
    return None


def _same(edited: Outcome, its_print: tuple, theirs: Outcome, their_print: tuple) -> bool:
    """Return whether both did the same; where there is no result, the messages must agree, with the sizes in them."""
    if its_print[:2] != their_print[:2]:
        return False
    if len(its_print) == len(their_print) == 4:
        apart, absolute = abs(its_print[2] - their_print[2]), its_print[3] + their_print[3]
        if apart > 1e-3 * (absolute + 1 + edited.value.numel()):  # far above what `difference` lets pass; NaN goes on
            return False
    if edited.failure and theirs.failure:
        return edited.failure.message == theirs.failure.message
    return same_result(edited, theirs)


def _bits(theirs: Sequence[Outcome], right: Sequence[Outcome]) -> Real:
    """Return how much the results say; where there are none, how much the errors do, by the sizes that they tell."""
    told = [i for i in range(len(theirs)) if theirs[i].failure is None]
    if any(not same_result(right[i], theirs[i]) for i in told):
        values = [theirs[i].value for i in told]
        if all(isinstance(value, Real) and value == values[0] for value in values):
            return _bits_of(values[0])  # a constant, which does not look at what comes in
        return sum(map(_bits_of, values))
    messages = {outcome.failure.message for outcome in theirs if outcome.failure}
    return ERROR * len({message for message in messages if re.search(r"\d", message)})


def _bits_of(value: object, depth: int = 0) -> Real:
    if isinstance(value, (tuple, list)):
        return sum(_bits_of(part, depth + 1) for part in value) if depth < 4 else 0.0  # a list may hold itself
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, (int, float)):
        return INTEGER if isinstance(value, int) else FLOAT if math.isfinite(value) else 0.0
    if not isinstance(value, Tensor) or not readable(value) or value.is_complex():
        return 0.0
    numbers = value.detach().cpu().flatten().double()
    finite = numbers[numbers.isfinite()]
    distinct = finite.unique().numel()
    if distinct < 2:
        return 2.0 * BOOLEAN
    if value.dtype == torch.bool:
        rarer = min(int(finite.sum()), finite.numel() - int(finite.sum()))
        return BOOLEAN * min(finite.numel(), 4 * rarer)
    return (FLOAT if value.is_floating_point() else INTEGER) * distinct

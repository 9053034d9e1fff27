"""Further inputs for an exercise, made from its cases alone, that keep what the cases promise.

A position whose tensors are maps in all cases (nothing negative, rows that sum to 1) stays a map, a causal mask stays
causal, an integer stays in its range. Functions and modules are kept. Other sizes come from the exercise's own case
maker, see `Grows`, where it has one. What the cases do not say is said by the right answers: where they disagree among
each other, or come to no number, the task does not allow the inputs, and the variation is dropped.
"""

import copy
import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from types import FunctionType

import torch
from torch import Tensor, nn

from mhacourse.attempt import same_result
from mhacourse.exercise import Exercise
from mhacourse.remarks import Grows
from mhacourse.run import Outcome, call

TRIES = 40  # variations of an exercise, illegal ones included


@dataclass(frozen=True)
class Variation:
    """Further inputs, what the right answers do with them, and the same in float64 where they can be run in it.

    Args:
        number: its place among all that are made, the same however many are asked for.
    """

    number: int
    inputs: tuple
    right: Outcome
    exact: tuple[tuple, Outcome] | None

    @property
    def size(self) -> int:
        """How many numbers there are to read."""
        return sum(x.numel() if isinstance(x, Tensor) else 1 for x in self.inputs)


def variations(exercise: Exercise, tries: int = TRIES) -> list[Variation]:
    """Return legal variations of the cases, the smallest first; for use inside `limits`."""
    legal = []
    for number, inputs in enumerate(itertools.islice(_inputs(exercise), tries)):
        if (right := _agreed(exercise, inputs)) is None:
            continue
        exact = tuple(map(_in_doubles, inputs))
        right_there = _agreed(exercise, exact)
        legal.append(Variation(number, inputs, right, right_there and (exact, right_there)))
    return sorted(legal, key=lambda variation: variation.size)


def _in_doubles(x: object) -> object:
    if isinstance(x, nn.Module):
        return copy.deepcopy(x).double()
    if isinstance(x, FunctionType):
        return functools.wraps(x)(lambda *given, **named: _in_doubles(x(*given, **named)))
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x


def _agreed(exercise: Exercise, inputs: tuple) -> Outcome | None:
    """Return what all right answers do; None where one stops, or makes what is no number, or another result."""
    first, *others = [call(answer, inputs) for answer in (exercise.answer, *exercise.plain)]
    if first.failure or first.changed or not _finite(first.value):
        return None
    return first if all(same_result(first, other) for other in others) else None


def _finite(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_finite, value))
    return not isinstance(value, Tensor) or bool(value.isfinite().all())


def _inputs(exercise: Exercise) -> Iterator[tuple]:
    """Yield inputs without end, each case in its turn; nothing where they cannot be varied."""
    cases = exercise.inputs
    columns = list(zip(*cases, strict=True))
    maker = next((remark.case for remark in exercise.remarks if isinstance(remark, Grows)), None)
    if not maker and not any(isinstance(x, (Tensor, float, list)) for x in cases[0]) and not _only_integers(cases):
        return
    g = torch.Generator().manual_seed(zlib.crc32(exercise.name.encode()))
    sizes = _sizes(maker, g) if maker else iter(())
    for number in itertools.count():
        case = maker(**next(sizes)) if maker and number % 3 == 2 else cases[number % len(cases)]
        if _only_integers(cases):
            yield tuple(_whole(min(column), max(column), g) for column in columns)
        else:
            # Now and then one input stays as it is: what is made of two at once may hide what one does.
            stays = _whole(0, 2 * len(case), g)
            yield tuple(
                x if i == stays else _varied(x, column, g)
                for i, (x, column) in enumerate(zip(case, columns, strict=True))
            )


def _sizes(maker: Callable, g: torch.Generator) -> Iterator[dict[str, int]]:
    """Yield sizes without end: first each of them as 1, where an axis is lost most easily."""
    usual = {name: size.default for name, size in inspect.signature(maker).parameters.items()}
    yield from ({**usual, name: 1} for name in usual)
    while True:
        yield {name: _whole(1, 2 * size, g) for name, size in usual.items()}


def _only_integers(cases: Sequence[tuple]) -> bool:
    return all(type(x) is int for case in cases for x in case)


def _varied(x: object, column: Sequence, g: torch.Generator) -> object:
    """Return an input of another value, that keeps what all cases have in common at its position."""
    if isinstance(x, list):
        known = sum(column, [])
        return [known[_whole(0, len(known) - 1, g)] for _ in range(_whole(1, max(map(len, column)), g))]
    if not isinstance(x, Tensor):
        return _number(column, g) if isinstance(x, float) else x
    if x.dtype == torch.bool:
        return _mask(x, column, g)
    if not x.is_floating_point():
        return _integers(x, g)
    return _map(x, g) if all(map(_is_map, column)) else _floats(x, g)


def _whole(low: int, high: int, g: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=g))


def _is_map(x: Tensor) -> bool:
    return bool((x >= 0).all()) and torch.allclose(x.sum(-1), torch.ones(x.shape[:-1]), atol=1e-4)


def _map(x: Tensor, g: torch.Generator) -> Tensor:
    """Draw another map, flat or sharp, with its zeros where they are."""
    sharp = (0.5, 2.0, 6.0)[_whole(0, 2, g)]
    scores = (sharp * torch.randn(x.shape, generator=g)).clamp(-12, 12)
    return scores.masked_fill(x == 0, -torch.inf).softmax(-1)


def _floats(x: Tensor, g: torch.Generator) -> Tensor:
    """Draw other numbers as large as those that are there, ten times as large, or all of them negative."""
    size = float(x.abs().max()) / 2 or 1.0 if x.numel() else 1.0
    drawn = size * torch.randn(x.shape, generator=g)
    return (drawn, 10 * drawn, -drawn.abs())[_whole(0, 2, g)]


def _number(column: Sequence[Real], g: torch.Generator) -> float:
    low, high = min(column) / 2, 2 * max(column)
    return low + (high - low) * float(torch.rand((), generator=g))


def _integers(x: Tensor, g: torch.Generator) -> Tensor:
    if _whole(0, 1, g):
        return x.flatten()[torch.randperm(x.numel(), generator=g)].view(x.shape)
    return torch.randint(int(x.min()), int(x.max()) + 1, x.shape, generator=g)


def _mask(x: Tensor, column: Sequence[Tensor], g: torch.Generator) -> Tensor:
    """Draw another mask; causal where all are, and without an empty row where none has one."""
    drawn = torch.rand(x.shape, generator=g) < (0.3, 0.6, 0.9)[_whole(0, 2, g)]
    causal = all(y.ndim > 1 and y.shape[-1] == y.shape[-2] and torch.equal(y, y.tril()) for y in column)
    if all(bool(y.any(-1).all()) for y in column):
        one = torch.rand(x.shape, generator=g)
        one = one.tril() if causal else one
        drawn |= ~drawn.any(-1, keepdim=True) & (one == one.amax(-1, keepdim=True))
        if causal:
            drawn[..., 0] |= ~drawn.tril().any(-1)
    return drawn.tril() if causal else drawn

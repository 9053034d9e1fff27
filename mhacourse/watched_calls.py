"""What a learner's function calls while it runs, of torch and of Python; its source is never looked at."""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor
from torch.overrides import TorchFunctionMode

from mhacourse.run import run

SECONDS = 2.0  # for all inputs of one look


@dataclass(frozen=True)
class Call:
    """One call of torch: its name, and the shape of the tensor that came out."""

    name: str
    made: tuple[int, ...]


@dataclass
class Trace:
    """What a function called on one set of inputs: of torch all from outside, of Python what called torch in turn."""

    inputs: tuple
    calls: list[Call] = field(default_factory=list)
    entered: set = field(default_factory=set)


class _Watch(TorchFunctionMode):
    """Writes down what a function calls. It is entered outside of `run`, whose bell may ring at any line within."""

    def __init__(self, answer: Callable):
        super().__init__()
        self.answer, self.traces, self.on = answer, [], False

    def call(self, *inputs):
        self.traces.append(Trace(inputs))
        self.on = True
        try:
            return self.answer(*inputs)
        finally:
            self.on = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made, name = function(*args, **(kwargs or {})), getattr(function, "__name__", "")
        # Not by sys.setprofile: with it, Python 3.11 loops for ever once an answer in another thread was stopped.
        frame = sys._getframe(1) if self.on else None
        while frame is not None and frame.f_code is not code_of(_Watch.call):
            self.traces[-1].entered.add(frame.f_code)
            frame = frame.f_back
        if self.on and name != "__get__":  # x.shape is no work
            self.traces[-1].calls.append(Call(name, tuple(made.shape) if isinstance(made, Tensor) else ()))
        return made


def traces(answer: Callable, cases: Sequence[tuple]) -> list[Trace]:
    """Return what a right answer calls on each case; nothing where it comes to no result on one of them."""
    watch = _Watch(answer)
    with watch:
        outcomes, _ = run(watch.call, cases, SECONDS)
    failed = len(outcomes) < len(cases) or any(outcome.failure for outcome in outcomes)
    return [] if failed else watch.traces


def largest(cases: Sequence[tuple]) -> tuple:
    """Return the case with most numbers, in which sizes that coincide in the small ones hardly do."""
    return max(cases, key=lambda case: sum(x.numel() for x in case if isinstance(x, Tensor)))


def code_of(function: object) -> object:
    """Return the code that `Trace.entered` holds once this function of Python was called; None for anything else."""
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None

"""Remarks on a right answer: a way not asked for, a loop where the solution has none, what other inputs would do.

A remark never makes an answer wrong. Each kind is a small record among the `remarks` of an exercise: `Asked` and
`Grows` look at what the answer calls while it runs, never at its source; a `Probe` tries it on other inputs. An answer
that fails on an input gets no remark.
"""

import ast
import contextlib
import inspect
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mhacourse.run import run

MOST = 2  # remarks on one answer
SECONDS = 2.0  # for all inputs of one look
SOFTMAX = "softmax log_softmax logsumexp".split()

Parts = list[tuple[str, str]]


def remarks_on(exercise, answer: object) -> Parts:
    """Return the first remarks that have something to say, as paragraphs of a note; a slow answer gets fewer."""
    said, until = [], time.monotonic() + SECONDS
    for remark in exercise.remarks:
        if len(said) < MOST and time.monotonic() < until:
            # The answer is right: if a look at it fails, say nothing.
            with contextlib.suppress(Exception):
                said += filter(None, [remark.parts(exercise, answer)])
    return [part for parts in said for part in parts]


# ----------------------------------------------------------------------------------------- what an answer calls


@dataclass(frozen=True)
class Call:
    """One call of torch: its name, and the shape of the tensor that it returned."""

    name: str
    made: tuple[int, ...]


@dataclass
class Trace:
    """What a function called on one set of inputs: the calls of torch, and the Python code that made them."""

    inputs: tuple
    calls: list[Call] = field(default_factory=list)
    entered: set = field(default_factory=set)


class _Watch(TorchFunctionMode):
    """Records what a function calls. Enter it outside of `run`, whose time-out may come at any line within."""

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
        while frame is not None and frame.f_code is not _Watch.call.__code__:
            self.traces[-1].entered.add(frame.f_code)
            frame = frame.f_back
        if self.on and name != "__get__":  # x.shape is no work
            self.traces[-1].calls.append(Call(name, tuple(made.shape) if isinstance(made, Tensor) else ()))
        return made


def traces(answer: Callable, cases: Sequence[tuple]) -> list[Trace]:
    """Return what a right answer calls on each case; nothing if it fails on one of them."""
    watch = _Watch(answer)
    with watch:
        outcomes, _ = run(watch.call, cases, SECONDS)
    failed = len(outcomes) < len(cases) or any(outcome.failure for outcome in outcomes)
    return [] if failed else watch.traces


def largest(cases: Sequence[tuple]) -> tuple:
    """Return the case with the most numbers; sizes that coincide in small cases rarely coincide there."""
    return max(cases, key=lambda case: sum(x.numel() for x in case if isinstance(x, Tensor)))


# ----------------------------------------------------------------------------------------- another way than asked


@dataclass(frozen=True)
class Asked:
    """The way that the task asks for.

    Args:
        words: what the task asks for, and what the answer does; `{found}` names what it does instead.
        found: looks for another way in a trace of the largest case, and returns it in words, or nothing.
    """

    words: str
    found: Callable[[Trace], str]

    def parts(self, exercise, answer: Callable) -> Parts:
        for trace in traces(answer, [largest(exercise.inputs)]):
            if found := self.found(trace):
                words = self.words.format(found=found)
                return [("Remark:", f"{words} It counts as solved, but the way the task asks for is worth a try.")]
        return []


def uses(*forbidden: str | Callable) -> Callable[[Trace], str]:
    """Find the first of these that is called: functions of torch given by name, functions of Python themselves."""
    codes = {getattr(inspect.unwrap(f), "__code__", f): f.__name__ for f in forbidden if callable(f)}

    def found(trace: Trace) -> str:
        names = {call.name for call in trace.calls} | {codes[code] for code in codes if code in trace.entered}
        return next((name for f in forbidden if (name := getattr(f, "__name__", f)) in names), "")

    return found


# ------------------------------------------------------------------------------ a loop where one product does it


@dataclass(frozen=True)
class Grows:
    """Sizes with which the calls of torch may grow: a loop in Python, where the solution has none.

    Args:
        case: makes inputs from sizes. Its arguments are named as a reader counts them; their defaults are
            small numbers to begin with.
    """

    case: Callable[..., tuple]

    def parts(self, exercise, answer: Callable) -> Parts:
        sizes = {name: size.default for name, size in inspect.signature(self.case).parameters.items()}
        cases = [self.case(), *(self.case(**{name: 2 * size}) for name, size in sizes.items())]
        theirs, ours = ([len(trace.calls) for trace in traces(f, cases)] for f in (answer, exercise.answer))
        if not theirs or not ours:
            return []
        rows = zip(sizes.items(), theirs[1:], ours[1:], strict=True)
        # A round of a loop makes at least one call: what grows by less is no loop over this.
        grown = [(*size, more) for size, more, same in rows if more - theirs[0] >= size[1] and same == ours[0]]
        if not grown or theirs[0] < ours[0]:
            return []
        *some, last = (name for name, *_ in grown)
        names = f"{', '.join(some)} and {last}" if some else last
        name, size, more = grown[0]
        words = (
            f"Your function loops, and its torch calls grow with the number of {names}: {theirs[0]} for {size} {name}, "
            f"{more} for {2 * size}. The solution always makes {ours[0]}:"
        )
        return [("Remark:", words), ("code", _without_docstring(inspect.getsource(exercise.answer)))]


def _without_docstring(source: str) -> str:
    source = textwrap.dedent(source)
    lines, first = source.splitlines(), ast.parse(source).body[0].body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del lines[first.lineno - 1 : first.end_lineno]
    return "\n".join(lines)


# ----------------------------------------------------------------------------- what other inputs would do


@dataclass(frozen=True)
class Probe:
    """Inputs that the task does not mention, on which an answer may differ from the solution.

    Args:
        when: the beginning of the sentence.
        change: makes such an input from a tensor in the largest case.
        why: where it matters, and which lesson covers it.
        otherwise: says how the learner's tensor differs from the solution's, or nothing.
    """

    when: str
    change: Callable[[Tensor], Tensor]
    why: str
    otherwise: Callable[[Tensor, Tensor], str] = lambda ours, theirs: ""

    def parts(self, exercise, answer: Callable) -> Parts:
        case = largest(exercise.inputs)
        changed = tuple(self.change(x) if isinstance(x, Tensor) else x for x in case)
        (as_it_was, theirs), _ = run(answer, [case, changed], SECONDS)
        (ours,), _ = run(exercise.answer, [changed], SECONDS)
        if as_it_was.failure or ours.failure:  # then the other input is not what stops the answer
            return []
        if failure := theirs.failure:
            in_words = failure.kind != "raised" or failure.message.startswith("ValueError")  # as the library refuses it
            said = "" if in_words else f"your function stops: {failure.message.partition('. ')[0][:160].rstrip('.')}"
        else:
            values = (value if isinstance(value, (tuple, list)) else (value,) for value in (ours.value, theirs.value))
            said = next(filter(None, map(self.otherwise, *values)), "")
        return [("Remark:", f"{self.when}, {said}. {self.why}")] if said else []


def _other_dtype(ours: Tensor, theirs: Tensor) -> str:
    same = ours.dtype == theirs.dtype
    return "" if same else f"your result is {str(theirs.dtype)[6:]}, the solution's {str(ours.dtype)[6:]}"


def _no_gradient(ours: Tensor, theirs: Tensor) -> str:
    lost = ours.requires_grad and not theirs.requires_grad
    return "none flows back through your result; one does through the solution" if lost else ""


def _nothing_to_count(x: Tensor) -> Tensor:
    if x.is_floating_point():
        return x
    return torch.zeros_like(x) if x.dtype == torch.bool else torch.arange(x.numel()).view(x.shape)


in_float16 = Probe(
    "With float16 numbers",
    lambda x: x.half() if x.is_floating_point() else x,
    "Large models use such numbers, and torch does not multiply matrices of different dtypes.",
    _other_dtype,
)
with_a_gradient = Probe(
    "If a gradient is needed",
    lambda x: x.clone().requires_grad_() if x.is_floating_point() else x,
    "Training needs it: use only operations of torch, and no item(), tolist() or numpy().",
    _no_gradient,
)
with_nothing_to_count = Probe(
    "If no query counts", _nothing_to_count, "The solution then returns NaN, the mean of nothing."
)

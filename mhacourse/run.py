"""A learner's function, run so that it can neither stop the kernel nor flood the page.

It gets fresh copies of its inputs, some seconds and some memory, and its prints are kept within bounds. What
comes back is an `Outcome`: a value, or what happened instead and on which of the learner's own lines. The limits are
in-process: a single call into torch that takes minutes ends only when it returns.
"""

import contextlib
import copy
import gc
import io
import linecache
import os
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attention_doctor.stopping import OutOfTime, time_limit

SECONDS = 10.0  # for all inputs of one check
HEAD_ROOM = 2 << 30  # bytes on top of what the process holds
MAX_PRINTED, MOST_LINES = 600, 5  # characters and lines of the learner's own output

_NOT_THE_LEARNER = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
_HOUSE = Path(__file__).resolve().parents[1]
_NOT_THE_LEARNER += [str(_HOUSE / name) for name in ("mhalib", "headview", "attention_doctor", "mhacourse")]


@dataclass(frozen=True)
class Failure:
    """What happened instead of a result: `raised`, `time` or `memory`, the message, the learner's line."""

    kind: str
    message: str
    line: str


@dataclass(frozen=True)
class Outcome:
    """What a function did with one set of inputs: its value or its failure, and which inputs it changed."""

    value: object = None
    failure: Failure | None = None
    changed: tuple[int, ...] = ()


def run(answer: Callable, cases: Sequence[tuple], seconds: float | None = None) -> tuple[list[Outcome], str]:
    """Call `answer` with a copy of each case; return the outcomes up to a time-out, and what it printed."""
    outcomes, printed = [], _Bounded()
    seconds = SECONDS if seconds is None else seconds
    try:
        with limits(seconds, printed):
            for case in cases:
                outcomes.append(call(answer, case))
    except OutOfTime as error:
        outcomes.append(Outcome(failure=Failure("time", f"no result after {seconds:g} seconds", learner_line(error))))
    if any(outcome.failure and outcome.failure.kind == "memory" for outcome in outcomes):
        gc.collect()
    return outcomes, printed.text()


@contextlib.contextmanager
def limits(seconds: float, printed: io.TextIOBase | None = None):
    """Keep what runs inside within some seconds and some memory, and its prints, random numbers and settings to itself.

    Raises:
        OutOfTime: the time is over.
    """
    printed = _Bounded() if printed is None else printed
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        with (
            torch.random.fork_rng(devices=[]),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            with _memory_limit(), time_limit(seconds):
                yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)


def call(answer: Callable, case: tuple) -> Outcome:
    """Return what a function does with copies of its inputs; for use inside `limits`."""
    given = copy.deepcopy(case)
    torch.default_generator.manual_seed(0)  # of the CPU: asking for those of other devices takes longer than a call
    try:
        value = answer(*given)
    except (OutOfTime, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit() as well: the learner's code must not end the kernel
        return Outcome(failure=_describe(error))
    return Outcome(value, None, tuple(i for i, x in enumerate(case) if isinstance(x, Tensor) and _differs(x, given[i])))


def _differs(before: Tensor, after: Tensor) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return True
    return not torch.isclose(before, after.detach(), 0, 0, equal_nan=True).all()  # NaN that stays is no change


def _describe(error: BaseException) -> Failure:
    try:
        message = " ".join(str(error).split())
    except Exception:
        message = "(its message cannot be read)"
    line = learner_line(error)
    if isinstance(error, MemoryError) or "allocate" in message and isinstance(error, RuntimeError):
        return Failure("memory", "your code asked for more memory than a check gives it", line)
    message = message if len(message) <= 300 else message[:300] + " …"
    return Failure("raised", f"{type(error).__name__}: {message}", line)


def learner_line(error: BaseException) -> str:
    """Return the last line of the learner's own code in the traceback, with its number; empty when there is none."""
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        text = linecache.getline(file, number).strip()  # nothing for code that some library made while it ran
        if file == "<stdin>":  # typed in a terminal, which keeps no lines before Python 3.13
            return f"line {number} of what you typed"
        if text and is_learners(frame.f_code):
            return f"line {number}:  {text}"
    return ""


def is_learners(thing: object) -> bool:
    """Return whether a function, or its code, is the learner's own, and not that of a library."""
    code = getattr(thing, "__code__", thing)
    file = getattr(code, "co_filename", "")
    return bool(file) and not any(file.startswith(place + os.sep) for place in _NOT_THE_LEARNER)


class _Bounded(io.TextIOBase):
    """Keeps the beginning of what is printed."""

    def __init__(self) -> None:
        self._kept = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._kept += text[: MAX_PRINTED + 1 - len(self._kept)]
        return len(text)

    def text(self) -> str:
        kept = "\n".join(self._kept[:MAX_PRINTED].splitlines()[:MOST_LINES])
        return kept + ("\n…" if len(kept) < len(self._kept.rstrip()) else "")


@contextlib.contextmanager
def _memory_limit():
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):  # no Linux: no limit
        yield
        return
    if torch.cuda.is_available():  # its driver reserves far more addresses than it uses
        yield
        return
    before = soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # Each thread that torch starts for the first time reserves some addresses as well.
    limit = pages * resource.getpagesize() + HEAD_ROOM + (os.cpu_count() or 1) * (80 << 20)
    limits = [limit, *(value for value in (soft, hard) if value != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)

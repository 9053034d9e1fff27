"""Remarks on a right answer: another way than asked, a loop where the solution has none.

A remark never makes an answer wrong. Each kind is a small record among the `remarks` of an exercise. Those here look at
what the answer calls, see `watched_calls`; a third kind tries it on other inputs, see `other_inputs`. Where the answer
comes to no result there is nothing to remark.
"""

import ast
import contextlib
import inspect
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass

from mhacourse.watched_calls import SECONDS, Trace, code_of, largest, traces

MOST = 2  # remarks on one answer
SOFTMAX = "softmax log_softmax logsumexp".split()

Parts = list[tuple[str, str]]


def remarks_on(exercise, answer: object) -> Parts:
    """Return the first remarks that have something to say, as paragraphs of a note; a slow answer gets fewer."""
    said, until = [], time.monotonic() + SECONDS
    for remark in exercise.remarks:
        if len(said) < MOST and time.monotonic() < until:
            # The answer is right: of what cannot be looked at nothing is said.
            with contextlib.suppress(Exception):
                said += filter(None, [remark.parts(exercise, answer)])
    return [part for parts in said for part in parts]


# ----------------------------------------------------------------------------------------- another way than asked


@dataclass(frozen=True)
class Asked:
    """The way that the task asks for.

    Args:
        words: what is asked, and what the answer does; `{found}` is what was seen of another way.
        found: looks for another way in a trace of the largest case, and returns it in words, or nothing.
    """

    words: str
    found: Callable[[Trace], str]

    def parts(self, exercise, answer: Callable) -> Parts:
        for trace in traces(answer, [largest(exercise.inputs)]):
            if found := self.found(trace):
                words = self.words.format(found=found)
                return [("Remark:", f"{words} It counts as solved; that way is worth a try all the same.")]
        return []


def uses(*forbidden: str | Callable) -> Callable[[Trace], str]:
    """Look for the first of these that is called: functions of torch by their names, functions of Python themselves."""

    def found(trace: Trace) -> str:
        names = {call.name for call in trace.calls}
        seen = (f if isinstance(f, str) else f.__name__ for f in forbidden if f in names or code_of(f) in trace.entered)
        return next(seen, "")

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
            f"Your function loops: its calls of torch grow with {names}, {theirs[0]} for {size} {name}, {more} for "
            f"{2 * size}. The solution makes {ours[0]}, however many there are:"
        )
        return [("Remark:", words), ("code", _without_docstring(inspect.getsource(exercise.answer)))]


def _without_docstring(source: str) -> str:
    source = textwrap.dedent(source)
    lines, first = source.splitlines(), ast.parse(source).body[0].body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del lines[first.lineno - 1 : first.end_lineno]
    return "\n".join(lines)

"""Which single change of a learner's own code makes it right, and so where the mistake is.

A wrong answer is often a right one but for one piece. `slips` says what may belong in the place of a piece; of all
these changes, the likeliest after which the function is right on every input tells the place of the mistake. That it is
told truly can be tried by the learner, and needs no knowledge of our solution. The idea of a model of errors is that of
R. Singh, S. Gulwani and A. Solar-Lezama, *Automated feedback generation for introductory programming assignments* (PLDI
2013).
"""

import ast
import contextlib
import itertools
import re
import textwrap
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mhacourse.attempt import same_result
from mhacourse.run import Outcome, OutOfTime, call, is_learners, limits
from mhacourse.slips import slips_of
from mhacourse.try_test import source_of

SECONDS = 0.8  # of computing, for one search; a busy machine may take three times as long
ALIKE = 0.3  # what it costs to make one change at all places that it fits
# What may end the kernel when it meets odd numbers or sizes.
UNSAFE = re.compile(r"\b(lstsq|svd|eigh?|eigvals|pinv|qr|cholesky|inv|inverse|solve|det|as_strided)\(|\bctypes\b")
SAME_AXIS = re.compile(r"(transpose|swapaxes)\((-?\d), \2\)")
WHY = {  # what a learner should ask, by what is said: the first that is found in it
    "size of the inputs": "That is right for only one size: read sizes off the shapes.",
    "exchanged wherever": "For each argument, say what it holds and where the task asks for it.",
    "brackets": "Python computes ** before * and /, and these before + and -.",
    "keepdim": "Without keepdim=True, the one number for each row lines up with columns (lesson 04).",
    r"diagonal|one more|one less|place of [<>]|count from 1": "Work out the first and the last entry by hand.",
    "and then these two axes": "reshape and view deal numbers out again in the same order; only transpose and permute "
    "exchange axes (lesson 03).",
    r"shape\[|size\(": "Write down the shape, and beside each of its numbers what that number counts.",
    "numbers in|an axis|axes|another axis": "Write the input's shape beside the line, and name its axes: along which "
    "of them does the line combine numbers?",
    "another order": "For each name in that line, say what it holds and where it is asked for.",
    "a copy|new tensor": "What a line changes in place is changed for all that hold the same tensor.",
    "list of its own": "[row] * n holds the same row n times: what is written into one is written into all.",
    "infinity": "0 times infinity is NaN, and so is all that it is added to.",
    "gradient": "backward() adds to the gradients that are there.",
    "dropped": "A method without an underscore at its end returns a new tensor, and leaves the old one as it is.",
}


@dataclass(frozen=True)
class OneChange:
    """A change of a function: the number and the text of its line in the source, and what is said of it."""

    line: int
    says: str
    code: str = ""

    @property
    def why(self) -> str:
        """What to ask at such a change; nothing where there is no question of its own."""
        return next((why for pattern, why in WHY.items() if re.search(pattern, self.says)), "")


def one_change(
    source: str, known: dict, inputs: Sequence[tuple], right: Sequence[Outcome], theirs: Sequence[Outcome]
) -> OneChange | None:
    """Return the likeliest single change of a function after which it is right on every input, or None.

    Args:
        source: of the learner's function.
        known: the names that it uses, by what they are.
        inputs, right, theirs: the cases, and what our answer and the learner's do with them.
    """
    if UNSAFE.search(source) or len(theirs) < len(inputs):
        return None
    # First the cases that are wrong: they tell most.
    order = sorted(range(len(inputs)), key=lambda i: is_right(theirs[i], right[i]))
    with contextlib.suppress(OutOfTime, SyntaxError), limits(3 * SECONDS), warnings.catch_warnings(action="ignore"):
        end = time.process_time() + SECONDS
        for changed, change in changes_of(source, known):
            if time.process_time() > end:
                break
            if all(is_right(call(changed, inputs[i]), right[i]) for i in order):
                return change
    return None


def is_right(did: Outcome, ours: Outcome) -> bool:
    """Return whether a function did what is right, and left its inputs as they were."""
    return did.failure is None and not did.changed and same_result(ours, did)


def changes_of(source: str, known: dict) -> Iterator[tuple]:
    """Yield a function with a single change of it or of the learner's own functions that it calls, and that change."""
    source, name = _as_function(source)
    helpers = [known.get(word) for word in dict.fromkeys(re.findall(r"\w+", source)) if word != name]
    sources = [source, *map(textwrap.dedent, map(source_of, filter(is_learners, helpers)))]
    texts = [(cost, each, text, change) for each in filter(None, sources) for cost, text, change in _texts(each)]
    for _, each, text, change in sorted(texts, key=lambda one: one[0]):
        space = dict(known)
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            exec(compile(text, "<changed>", "exec"), space)
            if each is not source:
                exec(compile(source, "<changed>", "exec"), space)
            yield space[name], change


def _as_function(source: str) -> tuple[str, str]:
    """Return the source of a function, which may be written as `name = lambda …`, and its name."""
    source = textwrap.dedent(source)
    match ast.parse(source).body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(args=given, body=of))]:
            return f"def {name}({ast.unparse(given)}):\n    return {ast.unparse(of)}\n", name
        case [ast.FunctionDef(name=name)]:
            return source, name
    raise SyntaxError("neither a function nor a lambda with a name")


def _texts(source: str) -> Iterator[tuple[float, str, OneChange]]:
    """Yield how unlikely a change is, the source with it, and the change, made at one place or at all that it fits."""
    (function,) = ast.parse(source).body
    if not isinstance(function, ast.FunctionDef):
        return
    data = source.encode()  # in which the columns of a syntax tree are counted
    starts = [0, *itertools.accumulate(map(len, data.splitlines(keepends=True)))]
    alike, found = defaultdict(list), {}
    for node, (put, says, cost) in slips_of(function):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        if not SAME_AXIS.search(put):
            found.setdefault(data[:start] + put.encode() + data[end:], (cost, node.lineno, says))
            alike[says, put].append((start, end, cost, node.lineno))
    for (one, other), places in _exchanged(function):
        text = bytearray(data)
        for at in sorted(places, key=lambda name: (-name.lineno, -name.col_offset)):
            start = starts[at.lineno - 1] + at.col_offset
            text[start : start + len(at.id.encode())] = (other if at.id == one else one).encode()
        found.setdefault(
            bytes(text), (1.2, places[0].lineno, f"with `{one}` and `{other}` exchanged wherever they occur")
        )
    for (says, put), places in alike.items():
        places.sort(reverse=True)  # from the end, so that the other places stay where they are
        if 1 < len(places) <= 6 and all(one[0] >= two[1] for one, two in itertools.pairwise(places)):
            text = data
            for start, end, _, _ in places:
                text = text[:start] + put.encode() + text[end:]
            found.setdefault(text, (places[0][2] + ALIKE, places[-1][3], f"{says}, wherever it occurs"))
    lines = source.splitlines()
    for text, (cost, line, says) in found.items():
        yield cost, text.decode(), OneChange(line, says, lines[line - 1].strip())


def _exchanged(function: ast.FunctionDef) -> Iterator[tuple]:
    """Yield each pair of arguments with all places where they are read."""
    read = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    for pair in itertools.combinations([argument.arg for argument in function.args.args], 2):
        if places := [node for node in read if node.id in pair]:
            yield pair, places

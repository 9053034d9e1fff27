"""The error model: a wrong answer is often a right one with a small edit.

After R. Singh, S. Gulwani and A. Solar-Lezama, *Automated feedback generation for introductory programming assignments*
(PLDI 2013). What people write instead is said in `slips`; here it is put into a right answer, and the edit looked for
that does what a learner's function does. What an edit says must be seen in the learner's own code: where it would have
to name a variable of our solution, `…` stands there, and it is never said.
"""

import ast
import contextlib
import copy
import inspect
import itertools
import math
import re
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor

from mhacourse.attempt import same_result
from mhacourse.compare import readable
from mhacourse.run import Outcome, OutOfTime, call, limits
from mhacourse.slips import Slip, axes_in, changes_of, results, slips

SECONDS = 0.8  # for one search; what was found out about an edit is kept
ALIKE = 0.3  # what it costs to make one edit at all places that it fits
ENOUGH = 14.0  # bits that the results must hold: with a thousand edits, fewer would be chance
SIZE = re.compile(r"[BThn]|Tq|Tk|kv|num_\w+|head_dim|d_model|width|size|group")  # what sizes are called in this house
LONGEST = 45  # characters of code in a sentence


@dataclass(eq=False)
class Edit:
    """A small edit of a right answer, made into a function when it is first tried; `Slip` tells its other parts."""

    says: str
    cost: Real
    why: str
    make: Callable[[], Callable]
    _function: Callable | None = None
    _known: dict[int, Outcome | None] = field(default_factory=dict)

    @property
    def can_be_told(self) -> bool:
        """Whether all that it names can be seen by who has not seen our solution."""
        return "…" not in self.says

    def outcome(self, case: int, inputs: tuple) -> Outcome | None:
        """Return what the edited function does with a case; None where it came to no end, or is no Python."""
        if case not in self._known:
            self._known[case] = None
            with contextlib.suppress(SyntaxError):
                self._function = self._function or self.make()
                self._known[case] = call(self._function, inputs)
        return self._known[case]


def edits_of(answers: Sequence[Callable], example: tuple, axes: tuple[str, ...]) -> list[Edit]:
    """Return all single edits of some right functions, the cheapest first.

    Args:
        answers: functions whose source can be had.
        example: the inputs of one case.
        axes: what the axes of the result are called.
    """
    made, texts = [], set()
    for answer in answers:
        source, names = textwrap.dedent(inspect.getsource(answer)), inspect.unwrap(answer).__globals__
        lowered = re.sub(r"-(math|torch)\.inf\b", "-1e9", source)  # as people write it: no mistake of theirs
        for text in dict.fromkeys((source, lowered)):
            made += Places(text, names, example).edits(texts)
    return sorted([*made, *_of_the_whole(answers[0], example, axes)], key=lambda edit: edit.cost)


def _of_the_whole(answer: Callable, example: tuple, axes: tuple[str, ...]) -> Iterator[Edit]:
    """Yield the edits of a whole argument before the first line, and of the whole result behind the last."""
    names = list(inspect.signature(answer).parameters)
    for i, value in enumerate(example):
        for says, cost, change in changes_of(value):
            yield Edit(says.format(names[i]), cost, "", lambda i=i, f=change: _with_given(answer, i, f))
        for j in range(i + 1, len(example)):
            if type(value) is type(example[j]) and not callable(value):
                for one, other, says, cost in (
                    (j, i, f"with {names[i]} and {names[j]} exchanged", 1.2),
                    (i, i, f"with {names[i]} in the place of {names[j]} as well", 1.3),
                    (j, j, f"with {names[j]} in the place of {names[i]} as well", 1.3),
                ):
                    yield Edit(says, cost, "", lambda i=i, j=j, at=(one, other): _exchanged(answer, i, j, at))
    for says, cost, change in results(axes):
        yield Edit(says, cost, "", lambda change=change: lambda *given: change(answer(*given)))


def _with_given(answer: Callable, i: int, change: Callable) -> Callable:
    return lambda *given: answer(*given[:i], change(given[i]), *given[i + 1 :])


def _exchanged(answer: Callable, i: int, j: int, at: tuple[int, int]) -> Callable:
    one, other = at
    return lambda *given: answer(*given[:i], given[one], *given[i + 1 : j], given[other], *given[j + 1 :])


# --------------------------------------------------------------------------------------------- places in a source


class _AsMethods(ast.NodeTransformer):
    """Write torch.softmax(x, -1) as x.softmax(-1), so that a slip needs to know one way only."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id="torch" | "F"), attr=name) if name not in ("where", "cat", "stack"):
                if node.args and hasattr(Tensor, name) and hasattr(torch, name):
                    node.func, node.args = ast.Attribute(node.args[0], name, ast.Load()), node.args[1:]
        return node


class Places:
    """The places of a right function at which people write something else.

    Args:
        source: its text.
        known: the names that it uses, by what they are.
        example: the inputs of one case.
    """

    def __init__(self, source: str, known: dict[str, object], example: tuple):
        self.known = known
        (function,) = ast.parse(source).body
        arguments = function.args.args + function.args.kwonlyargs
        function.decorator_list, function.returns = [], None
        for argument in arguments:
            argument.annotation = None
        self.text = ast.unparse(ast.fix_missing_locations(_AsMethods().visit(function)))
        (self.function,) = ast.parse(self.text).body
        self.starts = [0, *itertools.accumulate(map(len, self.text.splitlines(keepends=True)))]
        self.given = dict(zip([argument.arg for argument in arguments], example, strict=False))
        self.axes = {id(part) for node in ast.walk(self.function) for axis in axes_in(node) for part in ast.walk(axis)}
        self.meaning: dict[str, ast.expr | None] = {}  # of a variable; None where that is not to be said
        for node in ast.walk(self.function):
            if isinstance(node, ast.Assign):
                self._learn(node.targets[0], node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.meaning.setdefault(node.id, None)

    def _learn(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self.meaning[name] = None if name in self.meaning else value
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                for one, other in zip(names, values, strict=True):
                    self._learn(one, other)
            case ast.Tuple(elts=names), _:
                for i, name in enumerate(names):
                    self._learn(name, ast.Subscript(value, ast.Constant(i), ast.Load()))

    def edits(self, texts: set[str]) -> Iterator[Edit]:
        """Yield the edits whose texts are not there yet, and those of all places at which the same can be said."""
        alike: dict[str, list] = defaultdict(list)
        for (start, end), slip in sorted(self._slips(), key=lambda one: one[1].cost):
            text = self.text[:start] + slip.put + self.text[end:]
            if text not in texts:
                texts.add(text)
                alike[re.sub(r"with \w+ over (dim=.*), not", r"with \1 in the place of", slip.says)].append(
                    (start, end, slip)
                )
                yield Edit(slip.says, slip.cost, slip.why, lambda text=text: self._made(text))
        for says, places in alike.items():
            places.sort(key=lambda place: -place[0])  # from the end, so that the other places stay where they are
            if 1 < len(places) <= 6 and all(one[0] >= two[1] for one, two in itertools.pairwise(places)):
                text = self.text
                for start, end, slip in places:
                    text = text[:start] + slip.put + text[end:]
                says = f"{says}, wherever it stands"
                yield Edit(says, slip.cost + ALIKE, slip.why, lambda text=text: self._made(text))

    def _slips(self) -> Iterator[tuple[tuple[int, int], Slip]]:
        names = self._names()
        for node in ast.walk(self.function):
            at = getattr(node, "iter", node)  # of a loop, what it goes through
            written = isinstance(node, (ast.Name, ast.Tuple)) and isinstance(node.ctx, ast.Store)
            if node is not self.function and hasattr(at, "lineno") and not written and id(node) not in self.axes:
                start = self.starts[at.lineno - 1] + at.col_offset
                end = self.starts[at.end_lineno - 1] + at.end_col_offset
                yield from (((start, end), slip) for slip in slips(node, self.code, names))

    def _names(self) -> dict[str, list[str]]:
        """Return for each variable the others of its kind: nobody takes a tensor for a size."""
        every = [*self.given, *(name for name in self.meaning if name not in self.given)]
        sizes = {name for name in every if SIZE.fullmatch(name)}
        names = {name: [o for o in every if o != name and (o in sizes) == (name in sizes)] for name in every}
        return names | {"sizes": [*sizes]}

    def _made(self, text: str) -> Callable:
        names = dict(self.known)
        exec(compile(text, "<edited>", "exec"), names)
        return names[self.function.name]

    def code(self, node: ast.AST) -> str:
        """Return code as a learner can read it: our own variables by what they stand for; `…` where that fails."""
        text = ast.unparse(_Inlined(self).visit(copy.deepcopy(node)))
        return "…" if len(text) > LONGEST or "…" in text else text


class _Inlined(ast.NodeTransformer):
    """Put what our variables stand for in their places."""

    def __init__(self, places: Places):
        self.places, self.depth = places, 0

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.places.given or node.id not in self.places.meaning:
            return ast.Name("…") if node.id.startswith("_") else node
        meaning, self.depth = self.places.meaning[node.id], self.depth + 1
        read = (
            ast.Name("…")
            if meaning is None or self.depth > 4
            else self.visit(ast.parse(ast.unparse(meaning)).body[0].value)
        )
        self.depth -= 1
        return read


# --------------------------------------------------------------------------------------------- the edit that was made


def find(edits: Sequence[Edit], inputs: Sequence[tuple], right: Sequence[Outcome], theirs: Sequence[Outcome]):
    """Return the cheapest edit that does the same as the learner's function on every case, or None.

    Args:
        edits: of the exercise, the cheapest first.
        inputs, right, theirs: the cases, and what our answer and the learner's do with them.
    """
    if len(theirs) < len(inputs) or _bits(theirs, right) < ENOUGH:
        return None
    right_ones = [same_result(ours, other) for ours, other in zip(right, theirs, strict=True)]
    # First the cases that tell most: where there is a wrong result.
    order = sorted(range(len(inputs)), key=lambda i: (right_ones[i], theirs[i].failure is not None, i))
    with contextlib.suppress(OutOfTime), limits(SECONDS), warnings.catch_warnings(action="ignore"):
        for edit in filter(lambda edit: edit.can_be_told, edits):
            if all((did := edit.outcome(i, inputs[i])) and _same(did, theirs[i]) for i in order):
                return edit
    return None


def _same(edited: Outcome, theirs: Outcome) -> bool:
    """Return whether both did the same; where there is no result, the messages must agree, with the sizes in them."""
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
    return 7 * len(
        {other.failure.message for other in theirs if other.failure and re.search(r"\d", other.failure.message)}
    )


def _bits_of(value: object, depth: int = 0) -> Real:
    """Return roughly how many bits a result holds, by how many numbers there are in it; of booleans by the rarer."""
    if isinstance(value, (tuple, list)):
        return sum(_bits_of(part, depth + 1) for part in value) if depth < 4 else 0.0  # a list may hold itself
    if isinstance(value, (bool, int, float)):
        return 1 if isinstance(value, bool) else 4 if isinstance(value, int) else 10.0 * math.isfinite(value)
    if not isinstance(value, Tensor) or not readable(value) or value.is_complex():
        return 0.0
    numbers = value.detach().cpu().flatten().double()
    numbers = numbers[numbers.isfinite()]
    distinct = numbers.unique().numel()
    if distinct < 2:
        return 2.0
    if value.dtype == torch.bool:
        return min(len(numbers), 4 * min(int(numbers.sum()), int((1 - numbers).sum())))
    return (10 if value.is_floating_point() else 4) * distinct

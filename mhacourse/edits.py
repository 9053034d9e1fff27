"""The error model: a wrong answer is often a right one with a small edit.

After R. Singh, S. Gulwani and A. Solar-Lezama, *Automated feedback generation for introductory programming assignments*
(PLDI 2013). `_slips` says what people write instead of a piece of a right answer; `find` looks for the edit that does
what a learner's function does. A slip that happens in many exercises is a line here; a slip of a single exercise is an
entry in its catalogue. An edit may name only what is in the learner's own code: a name that only our solution has
becomes `…`, and such an edit is never told.
"""

import ast
import contextlib
import inspect
import itertools
import math
import re
import textwrap
import warnings
from ast import unparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor

from mhacourse.attempt import same_result
from mhacourse.compare import readable
from mhacourse.run import Outcome, OutOfTime, call, limits

SECONDS = 0.8  # for one search; what was found out about an edit is kept
ALIKE = 0.3  # what it costs to make one edit at all places that it fits
UNSEEN = 0.5  # what it costs to name a piece of code that the learner has not written
ENOUGH = 4  # different numbers that the results must hold: with a thousand edits, fewer would be chance
SIZE = re.compile(r"[BThn]|Tq|Tk|kv|num_\w+|head_dim|d_model|width|size|group")  # what sizes are called in this house
NAME = re.compile(r"(?<![\w.])(?!torch|math|F\b)[A-Za-z]\w*(?![\w(])")  # of a variable
LONGEST = 45  # characters of code in a sentence

KEPT = "range list len tuple enumerate zip isinstance tolist item transpose permute movedim".split()  # never left out
SUMS = "sum mean amax amin prod any all".split()
ORDERED = "view reshape permute".split()
INSTEAD = {"sum": "mean", "mean": "sum", "amax": "amin", "any": "all", "all": "any", "exp": "exp2", "tril": "triu"}
SIGNS = {  # what an operand is called, seen and unseen, and what people write for the sign
    ast.Add: ("+", "the term", "one of its terms", "- *"),
    ast.Sub: ("-", "subtracting", "a subtraction", "+ /"),
    ast.Mult: ("*", "the factor", "one of its factors", "/ @ +"),
    ast.Div: ("/", "the division by", "a division", "// *"),
    ast.FloorDiv: ("//", "the division by", "a division", "/ %"),
    ast.MatMult: ("@", "the product with", "a product", "*"),
    ast.Pow: ("**", "the power", "a power", "*"),
    ast.BitAnd: ("&", "the condition", "one of its conditions", "|"),
    ast.BitOr: ("|", "the condition", "one of its conditions", "&"),
}
ROUNDS = {
    "list({})[:1]": "only the first round of its loop",
    "list({})[1:]": "the first round left out of its loop",
    "list({})[:-1]": "the last round left out of its loop",
    "[i + 1 for i in {}]": "a loop that counts from 1",
}
WHY = {  # the reader's question, by what is said: the first that is found in it
    r"\*\* 0\.5|root": "A sum of n products grows with the root of n: which n must the scale undo here?",
    "exchanged|as well": "For each name in the task, say what it holds and where it is asked for.",
    "a fixed": "That is right for only one size: read sizes off the shapes.",
    r"shape\[": "Write down the shape, and beside each of its numbers what that number counts.",
    "a reshape in|arguments of [rv]": "reshape and view deal numbers out again in the same order; only transpose and "
    "permute exchange axes (lesson 03).",
    "without keepdim": "Without keepdim=True, the one number for each row lines up with columns (lesson 04).",
    r"\.m?T|product": "Write both shapes beside the product: the two sizes in the middle must mean the same thing.",
    r"0\.0 in": "A hidden score of 0 still gets a share: e to the power of 0 is 1. Only minus infinity gets none.",
    r"dim=|everything|\w\(-?\d": "Write the input's shape beside the line, and name its axes: along which of them does "
    "the line combine numbers?",
    "round": "Work out the first and the last entry by hand.",
    "axis|axes|alone|order": "The task says what to return, with which axes, in which order.",
    "other way round|ignored": "Take one entry, and say what True means for it, and what False.",
}

Slip = tuple[str, str, Real]  # the code that stands instead, what is said of it, and its cost
Read = Callable[[str], str]  # returns code as a learner can read it, with `…` for what only we have written


def why_of(says: str, source: str) -> str:
    """Return what a learner should think of at an edit; nothing if that names functions that they do not use."""
    says = says.partition(" before ")[0]
    named = re.findall(r"\w+(?=\()|(?<=arguments of )\w+|reshape", says)
    if named and not any(f in source for f in (*named, *(ORDERED if {*named} & {*ORDERED} else ()))):
        return ""
    return next((why for pattern, why in WHY.items() if re.search(pattern, says)), "")


@dataclass(eq=False)
class Edit:
    """A small edit of a right answer, made into a function when it is first tried.

    Args:
        says: what the function does then, to follow "it does what a right answer would do".
        cost: of the edits that fit, the note tells the cheapest.
        make: makes the function.
    """

    says: str
    cost: Real
    make: Callable[[], Callable]
    _function: Callable | None = None
    _known: dict[int, Outcome | None] = field(default_factory=dict)

    def can_be_told(self, source: str) -> bool:
        """Return whether a learner who wrote `source`, and has not seen our solution, knows all that it names."""
        ordered = "arguments of" not in self.says or any(f in source for f in ORDERED)
        dropped = re.fullmatch(r"without (\w+)", self.says)  # of a learner who calls it twice that would be no help
        again = dropped is not None and source.count(f"{dropped[1]}(") > 1
        return ordered and "…" not in self.says and not again and self._fits(source)

    def _fits(self, source: str) -> bool:
        """Return whether a learner may have put one thing in place of another: not who wrote the other alone."""
        put = re.match(r"with (\S+) in place of (\S+)$", self.says)
        plain = re.sub(r"float\([\"'](-?)inf[\"']\)|(-?)(?:math|np)\.inf", r"\1\2torch.inf", source)
        return put is None or put[2] not in plain or put[1] in plain.replace(put[2], "")

    def is_written(self, source: str) -> bool:
        """Return whether the code that it puts in is part of a learner's source."""
        put = re.match(r"with (?:a fixed |a )?(.+) in place of", self.says)
        return put is None or put[1].replace(" ", "") in source.replace(" ", "")

    def told(self, source: str) -> str:
        """Return what it says, without an index that the learner has not written."""
        other = r"shape\[-?\d\] in", "another axis of shape in"
        return self.says if self.is_written(source) else re.sub(*other, self.says)

    def outcome(self, case: int, inputs: tuple) -> Outcome | None:
        """Return what the edited function does with a case; None if it did not end, or is not Python."""
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
            made += _Places(text, names).edits(texts)
    return sorted([*made, *_of_the_whole(answers[0], example, axes)], key=lambda edit: edit.cost)


# ------------------------------------------------------------------------------------- a piece of a right answer


def _slips(node: ast.AST, read: Read, names: dict[str, list[str]]) -> Iterator[Slip]:
    """Yield what people write instead of a piece of code; for a loop, instead of what it iterates over.

    Args:
        node: the piece.
        read: see `Read`.
        names: for each variable the others of its kind; under "sizes" those that are sizes.
    """
    match node:
        case ast.Call():
            yield from _of_call(node, read)
        case ast.Attribute(value=of, attr="mT" | "T" as turn):
            yield from _of_turn(f"({unparse(of)})", f".{turn}")
        case ast.BinOp() if type(node.op) in SIGNS:
            yield from _of_operation(node, read)
        case ast.Subscript(value=of, slice=index):
            yield from _of_index(unparse(of), index, read)
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=of):
            yield f"({unparse(of)})", "with a condition the other way round", 1
        case ast.UnaryOp(op=ast.USub(), operand=ast.Attribute(attr="inf")):
            for low in ("0.0", "torch.inf"):
                yield low, f"with {low} in place of -torch.inf", 1
        case ast.Constant(value=bool()):
            return
        case ast.Constant(value=int() | float()) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            n = ast.literal_eval(node)
            for x in dict.fromkeys((n + 1, n - 1, 0, 1, 2 * n, n / 2)):
                yield f"({x})", f"with {x:g} in place of {n:g}", 1.6
        case ast.Name(id=name) if name in names:
            yield from _of_size(read(name)) if name in names["sizes"] else ()
            for other in names[name]:
                yield f"({other})", f"with {read(other)} in place of {read(name)}", 1.8
        case ast.Return(value=ast.Tuple(elts=parts)):
            yield f"return {', '.join(map(unparse, parts[::-1]))}", "with the results exchanged", 1
        case ast.For(iter=of) | ast.comprehension(iter=of):
            for rounds, words in ROUNDS.items():
                yield rounds.format(unparse(of)), f"with {words}", 1.25


def _of_size(shown: str) -> Iterator[Slip]:
    yield from ((f"({size})", f"with a fixed {size} in place of {shown}", 1.9) for size in (1, 2, 4, 8))


def _of_turn(x: str, turn: str) -> Iterator[Slip]:
    yield x, f"without {turn}", 1
    yield f"{x}.reshape({x}{turn}.shape)", f"with a reshape in place of {turn}", 1
    yield f"{x}.permute(*range({x}.ndim)[::-1])", "with .T, which reverses all axes", 1.1


def _of_operation(node: ast.BinOp, read: Read) -> Iterator[Slip]:
    """Yield what becomes of a + b and the like: one side left out, another sign."""
    sign, seen, unseen, others = SIGNS[type(node.op)]
    a, b = f"({unparse(node.left)})", f"({unparse(node.right)})"
    shown = read(unparse(node.right))
    seen, shown = ("the root, or with it twice", "") if sign == "**" and shown == "0.5" else (seen, shown)
    for kept, out, code in ((a, shown, b), (b, read(unparse(node.left)), a))[: 2 if sign in "+*@&|" else 1]:
        named = [name for name in dict.fromkeys(NAME.findall(code)) if read(name) == name]
        part = f"{unseen}, the one with {' and '.join(named)}" if named else unseen
        yield kept, f"without {part if '…' in out else f'{seen} {out}'.rstrip()}", 1
    if seen.startswith("the root") and a.endswith(("(head_dim)", ".shape[-1])")):
        heads = a.replace("head_dim", "num_heads").replace("shape[-1]", "shape[1]")
        yield f"(({a} * {heads}) ** 0.5)", "with the root of the whole width, not of one head's width", 1.2
    for other in others.split():
        words = f"with {other} in place of {sign}"
        yield f"({a} {other} {b})", words if "…" in shown or not shown else f"{words} before {shown}", 1.2


def _of_call(node: ast.Call, read: Read) -> Iterator[Slip]:
    """Yield what becomes of x.f(…), f(x, …) or torch.f(x, …): left out, another function, other arguments."""
    owner, _, f = unparse(node.func).rpartition(".")
    x, given = owner, [*map(unparse, node.args), *(f"{part.arg}={unparse(part.value)}" for part in node.keywords)]
    if owner in ("", "torch", "math", "F"):
        if not node.args or f.startswith("_"):
            return
        x, *given = given
    method = owner == x or owner and hasattr(Tensor, f)  # torch.softmax(x, -1) is x.softmax(-1)
    start = f"({x})." if method else f"{owner}{'.' * bool(owner)}"

    def called(f: str, given: Sequence[str]) -> str:
        return f"{start}{f}({', '.join(given if method else [x, *given])})"

    if f not in KEPT:
        yield f"({x})", f"without {f if owner == x else unparse(node.func)}", 1
    if f in INSTEAD:
        yield called(INSTEAD[f], given), f"with {INSTEAD[f]} in place of {f}", 1.4
    if f in SUMS:
        yield called(f, []), f"with {f} over everything", 1
    if "keepdim=True" in given:
        yield called(f, [part for part in given if part != "keepdim=True"]), f"without keepdim=True in {f}", 1
    if f in ("transpose", "permute"):
        yield from _of_turn(f"({x})", f".{f}({', '.join(given)})")
    for other in _numbers_changed(given):
        words = f"with {f}({', '.join(other)}) in place of {f}({', '.join(given)})"
        yield called(f, other), read(words), 1
    for order in itertools.permutations(given) if f in ORDERED and len(given) in (3, 4) else ():
        yield called(f, order), f"with the arguments of {f} in another order", 1.3


def _of_index(x: str, index: ast.expr, read: Read) -> Iterator[Slip]:
    """Yield what becomes of x[…]: nothing chosen, another place, another axis, another order."""
    parts, name = [*map(unparse, index.elts if isinstance(index, ast.Tuple) else [index])], ""
    others = [*_numbers_changed(parts)]
    if x.endswith(".shape"):
        name = "shape"
        yield from _of_size(read(f"{x}[{parts[0]}]"))
    else:
        yield x, "without selecting by an index [ ]", 1.5
        others += [*itertools.permutations(parts), (":", *parts)]
    for other in others:
        words = read(f"with {name}[{', '.join(other)}] in place of {name}[{', '.join(parts)}]")
        if "…" in words:
            n = len(parts)
            words = f"with an index on axis {n}, not {n - 1}" if len(other) > n else "with an index in another order"
        yield f"({x})[{', '.join(other)}]", words, 1.4


def _numbers_changed(given: Sequence[str]) -> Iterator[list[str]]:
    """Yield what is given to a call, or as an index, with one number changed: another axis, another place."""
    for i, part in enumerate(given):
        name, number = re.fullmatch(r"(\w+=)?(-?\d)?.*", part, re.DOTALL).groups("")
        if part == name + number and number:
            near = sorted(range(-3, 4), key=lambda other, old=int(number): (other < 0) != (old < 0))
            yield from ([*given[:i], f"{name}{other}", *given[i + 1 :]] for other in near)


class _Places:
    """The places of a right function at which people write something else.

    Args:
        source: its text.
        known: the names that it uses, by what they are.
    """

    def __init__(self, source: str, known: dict[str, object]):
        self.known = known
        (function,) = ast.parse(source).body
        self.given = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
        function.decorator_list, function.returns = [], None
        self.text = unparse(function)
        (self.function,) = ast.parse(self.text).body
        self.starts = [0, *itertools.accumulate(map(len, self.text.splitlines(keepends=True)))]
        self._learn()

    def _learn(self) -> None:
        """Note what each variable stands for in code that a learner can read, `…` if that must not be told."""
        nodes = [*ast.walk(self.function)]
        stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self.meaning = dict.fromkeys(stored, "…")
        for node in (node for node in nodes if isinstance(node, ast.Assign)):
            target, value = node.targets[0], node.value
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = [unparse(value)]
            if isinstance(target, ast.Tuple):
                pairs = isinstance(value, ast.Tuple)
                values = map(unparse, value.elts) if pairs else [f"{unparse(value)}[{i}]" for i in range(len(names))]
            for name, text in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and stored[name.id] == 1:
                    text = self.read(text)
                    compound = "…" not in text and isinstance(ast.parse(text, mode="eval").body, ast.BinOp)
                    self.meaning[name.id] = f"({text})" if compound else text

    def read(self, code: str) -> str:
        """Return code as a learner can read it: our own variables by what they stand for; `…` where that fails."""
        own = {name: text for name, text in self.meaning.items() if name not in self.given}
        text = re.sub(r"(?<![\w.])[a-zA-Z_]\w*\b(?!=)", lambda word: own.get(word[0], word[0]), code)
        if code in own and "…" not in text:
            text = unparse(ast.parse(text, mode="eval"))  # without its outer brackets
        hidden = len(text) - len(code) > LONGEST or "…" in text or re.search(r"(?<![\w.])_\w", text)
        return "…" if hidden else text

    def edits(self, texts: set[str]) -> Iterator[Edit]:
        """Yield the edits whose texts are new, and those that make the same edit at all places that it fits."""
        alike: dict[str, list] = defaultdict(list)
        for (start, end), (put, says, cost) in sorted(self._slips(), key=lambda one: one[1][2]):
            text = self.text[:start] + put + self.text[end:]
            if text not in texts:
                texts.add(text)
                alike[says].append((start, end, put, cost))
                yield Edit(says, cost, lambda text=text: self._made(text))
        for says, places in alike.items():
            places.sort(reverse=True)  # from the end, so that the other places stay where they are
            if 1 < len(places) <= 6 and all(one[0] >= two[1] for one, two in itertools.pairwise(places)):
                text = self.text
                for start, end, put, _ in places:
                    text = text[:start] + put + text[end:]
                says = f"{says}, wherever it appears"
                yield Edit(says, places[0][3] + ALIKE, lambda text=text: self._made(text))

    def _slips(self) -> Iterator[tuple[tuple[int, int], Slip]]:
        # Not lists that grow: nobody takes one for a number, and one that is multiplied in each round has no end.
        every = dict.fromkeys(name for name in (*self.given, *self.meaning) if self.meaning.get(name) != "[]")
        sizes = {name for name in every if SIZE.fullmatch(name)}
        names = {name: [o for o in every if o != name and (o in sizes) == (name in sizes)] for name in every}
        nodes = [*ast.walk(self.function)]
        inside = {id(getattr(n, "operand", getattr(n, "slice", None))) for n in nodes}  # -1 and x[0] are told whole
        for node in nodes:
            at = getattr(node, "iter", node)  # of a loop, what it goes through
            written = isinstance(node, (ast.Name, ast.Tuple)) and isinstance(node.ctx, ast.Store)
            negated = isinstance(node, ast.Constant) and id(node) in inside
            if node is not self.function and hasattr(at, "lineno") and not written and not negated:
                start = self.starts[at.lineno - 1] + at.col_offset
                end = self.starts[at.end_lineno - 1] + at.end_col_offset
                yield from (((start, end), slip) for slip in _slips(node, self.read, names | {"sizes": [*sizes]}))

    def _made(self, text: str) -> Callable:
        names = dict(self.known)
        exec(compile(text, "<edited>", "exec"), names)
        return names[self.function.name]


# --------------------------------------------------------------------------------- whole arguments, whole results

Change = tuple[str, Real, Callable]

ARGUMENT: list[Change] = [  # what people make of an argument: what is said of its name, the cost, the change
    ("with the last two axes of {} exchanged", 1.3, lambda x: x.mT),
    ("with the first two axes of {} exchanged", 1.3, lambda x: x.transpose(0, 1)),
    ("with {} the other way round", 1, torch.logical_not),
    ("with {} ignored, as if it were True everywhere", 1.2, lambda x: x | True),
    ("with the square of {}", 1.4, lambda x: x**2),
    ("with one less than {}", 1.4, lambda x: x - 1),
    *((f"with the first entry along axis {i} of {{}} used for all", 1.5, lambda x, i=i: x.narrow(i, 0, 1).expand_as(x))
      for i in range(3)),
]  # fmt: skip
RESULT: list[Change] = [
    ("but with whole numbers", 1, torch.Tensor.long),
    ("but with floating numbers", 1, torch.Tensor.float),
    ("and then flips the sign", 1.1, torch.neg),
    ("but drops every axis of size 1, as squeeze() does", 1, torch.squeeze),
    ("in percent", 1.4, lambda y: 100 * y),
]
ALONG_ONE: list[Change] = [  # along one axis of the result, by its name
    ("for the first {} alone; that axis is gone", 1.1, lambda y, i: y.select(i, 0)),
    ("for the last {} alone; that axis is gone", 1.2, lambda y, i: y.select(i, -1)),
    ("for the first {} alone", 1.1, lambda y, i: y.narrow(i, 0, 1)),
]


def _of_the_whole(answer: Callable, example: tuple, axes: tuple[str, ...]) -> Iterator[Edit]:
    """Yield the edits of a whole argument before the first line, and of the whole result behind the last."""
    names = list(inspect.signature(answer).parameters)
    for i, value in enumerate(example):
        for says, cost, change in () if callable(value) else ARGUMENT:
            yield Edit(says.format(names[i]), cost, lambda i=i, f=change: _with_given(answer, i, f))
        for j in range(i + 1, len(example)):
            if type(value) is type(example[j]) and not callable(value):
                says = f"with {names[i]} and {names[j]} exchanged"
                yield Edit(says, 1.2, lambda i=i, j=j: _exchanged(answer, i, j))
    for says, cost, change in _results(axes):
        yield Edit(says, cost, lambda change=change: lambda *given: change(answer(*given)))


def _with_given(answer: Callable, i: int, change: Callable) -> Callable:
    return lambda *given: answer(*given[:i], change(given[i]), *given[i + 1 :])


def _exchanged(answer: Callable, i: int, j: int) -> Callable:
    return lambda *given: answer(*given[:i], given[j], *given[i + 1 : j], given[i], *given[j + 1 :])


def _results(axes: tuple[str, ...]) -> Iterator[Change]:
    """Yield what people make of a right result without meaning to, from what its axes are called."""
    yield from RESULT
    for i, name in enumerate(axes):
        for says, cost, change in ALONG_ONE:
            yield says.format(name), cost, lambda y, change=change, i=i: change(y, i)
    for order in itertools.permutations(range(len(axes))):
        words = ", ".join(axes[i] for i in order)
        yield f"but with its axes in the order ({words})", 1, lambda y, order=order: y.permute(order)


# --------------------------------------------------------------------------------------------- the edit that was made


def find(
    edits: Sequence[Edit],
    inputs: Sequence[tuple],
    right: Sequence[Outcome],
    theirs: Sequence[Outcome],
    source: str = "",
) -> Edit | None:
    """Return the cheapest edit that does the same as the learner's function on every case, or None.

    Args:
        edits: of the exercise, the cheapest first.
        inputs, right, theirs: the cases, and what our answer and the learner's do with them.
        source: of the learner's function, empty if there is none.
    """
    if len(theirs) < len(inputs) or not _say_enough(theirs, right):
        return None
    right_ones = [same_result(ours, other) for ours, other in zip(right, theirs, strict=True)]
    # First the cases that tell most: where there is a wrong result.
    order = sorted(range(len(inputs)), key=lambda i: (right_ones[i], theirs[i].failure is not None, i))
    with contextlib.suppress(OutOfTime), limits(SECONDS), warnings.catch_warnings(action="ignore"):
        told = [edit for edit in edits if edit.can_be_told(source)]
        for edit in sorted(told, key=lambda edit: edit.cost + UNSEEN * (not edit.is_written(source))):
            if all((did := edit.outcome(i, inputs[i])) and _same(did, theirs[i]) for i in order):
                return edit
    return None


def _same(edited: Outcome, theirs: Outcome) -> bool:
    """Return whether both did the same; if both failed, their messages must agree, with the sizes in them."""
    if edited.failure and theirs.failure:
        return edited.failure.message == theirs.failure.message
    return same_result(edited, theirs)


def _say_enough(theirs: Sequence[Outcome], right: Sequence[Outcome]) -> bool:
    """Return whether wrong results hold enough numbers to rule out chance; if all failed, whether the messages do."""
    if all(other.failure or same_result(ours, other) for ours, other in zip(right, theirs, strict=True)):
        messages = {other.failure.message for other in theirs if other.failure}
        return sum(bool(re.search(r"\d", message)) for message in messages) > 1
    numbers = [number for other in theirs if not other.failure for number in _numbers(other.value)]
    return len({*numbers}) >= ENOUGH or min(map(numbers.count, (0, 1))) >= ENOUGH


def _numbers(value: object) -> list[Real]:
    if isinstance(value, (tuple, list)):
        return [number for part in value for number in _numbers(part)]
    if isinstance(value, Tensor) and readable(value) and not value.is_complex():
        value = value.detach().cpu().flatten().double()
        return value[value.isfinite()].tolist()
    return [value] if isinstance(value, (int, float)) and math.isfinite(value) else []

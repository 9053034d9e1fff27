"""All single edits of a right answer, by the rules of `mistakes`: where they fit, and what they make of it.

How code is compared with the pattern of a rule is said in `rule_patterns`. An edit is made into a function only when it
is first tried; see `search`. Three kinds of edit that no pattern can say, because they change two lines at once, are
functions here.
"""

import ast
import contextlib
import inspect
import itertools
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor

from mhacourse.compare import readable
from mhacourse.mistakes import IN_ORDER, RULES, WHOLE, Rule
from mhacourse.rule_patterns import SIZE, fits, pattern_of
from mhacourse.run import Outcome, call

N = ast.unparse
ALIKE = 0.3  # what it costs to make one edit at all places that it fits
ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Constant, ast.Subscript, ast.List, ast.Tuple, ast.Slice)
WORDS = {
    "B": "samples", "h": "heads", "num_heads": "heads", "T": "tokens", "Tq": "queries", "Tk": "keys", "n": "entries",
    "kv": "groups", "hd": "features of a head", "head_dim": "features of a head", "d_model": "features",
    "d": "features",
}  # fmt: skip


# --------------------------------------------------------------------------------------------- what the rules may call


def dealt(x: Tensor, parts: int, dim: int) -> tuple[Tensor, ...]:
    """Return as many parts as `chunk` does, but dealt out in turn, as cards are."""
    return tuple(x.movedim(dim, 0)[i::parts].movedim(0, dim) for i in range(parts))


def tiled(x: Tensor, times: int, dim: int) -> Tensor:
    """Return x, whole, several times along one axis."""
    return torch.cat([x] * times, dim)


def only(x: Tensor, axis: int, index: int) -> Tensor:
    """Return x with 0 everywhere but at one place of an axis."""
    kept = torch.zeros_like(x)
    kept.select(axis, index).copy_(x.select(axis, index))
    return kept


def without(x: Tensor, axis: int, index: int) -> Tensor:
    """Return x with 0 at one place of an axis."""
    rest = x.clone()
    rest.select(axis, index).zero_()
    return rest


def opposite(x: Tensor | bool) -> Tensor | bool:
    """Return True for False, and 1 - x for numbers."""
    if isinstance(x, bool):
        return not x
    return ~x if x.dtype == torch.bool else 1 - x


def pair(x: object) -> tuple | list:
    """Return x where it is two things, and refuse all else."""
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise TypeError
    return x


def counted_out(x: Tensor, order: Sequence[int]) -> Tensor:
    """Return x as it is where numbers are counted out into the turned shape, and that is turned back."""
    return x.reshape([x.shape[axis] for axis in order]).permute([order.index(axis) for axis in range(x.ndim)])


HELPERS = {f.__name__: f for f in (dealt, tiled, only, without, opposite, pair, counted_out)}


# --------------------------------------------------------------------------------------------- a right answer, read


class Source:
    """A right function as a syntax tree, with the names and axes that are known in it.

    Args:
        source: the text of the function.
        known: the names that it uses, by what they are.
        example: the inputs of one case, by which the kinds of its arguments are known.
        axes: what the axes of its result are called.
    """

    def __init__(self, source: str, known: dict[str, object], example: tuple, axes: tuple[str, ...]):
        self.known, self.result_axes = known, axes
        self.tree = _AsMethods().visit(ast.parse(source))
        self.function = self.tree.body[0]
        self.function.decorator_list, self.function.returns = [], None
        arguments = self.function.args.args + self.function.args.kwonlyargs
        for argument in arguments:
            argument.annotation = None
        self.given = dict(zip([argument.arg for argument in arguments], example, strict=False))
        nodes = list(ast.walk(self.function))
        stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self.names = list(dict.fromkeys([*self.given, *stored]))
        self._place = {}
        for parent in nodes:
            for name, value in ast.iter_fields(parent):
                children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
                self._place |= {id(child): (parent, name, i) for i, child in children if isinstance(child, ast.AST)}
        ast.fix_missing_locations(self.tree)
        self._called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        lines = [node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
        self._defined = {line.targets[0].id: N(line.value) for line in reversed(lines) if len(N(line.value)) <= 60}
        self._axes = {}
        for line in source.splitlines():
            if found := re.match(r"\s*(\w+) = .*#.*\(([^()]*)\)[^()]*$", line):
                self._axes[found[1]] = [axis.strip() for axis in found[2].split(",")]

    def is_variable(self, node: ast.AST) -> bool:
        """Return whether a node reads a variable of the function; one that writes it cannot be anything else."""
        named = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.names
        return named and id(node) not in self._called

    def axis(self, of: ast.AST | None, axis: int) -> str:
        """Return an axis of an expression in words, "the queries (dim=-2)", by the shapes in the comments."""
        while isinstance(of, (ast.Call, ast.Attribute, ast.BinOp)):
            of = of.func if isinstance(of, ast.Call) else of.value if isinstance(of, ast.Attribute) else of.left
        names = self._axes.get(of.id, ()) if isinstance(of, ast.Name) else ()
        known = -len(names) <= axis < len(names) and names[axis] in WORDS
        return f"the {WORDS[names[axis]]} (dim={axis})" if known else f"dim={axis}"

    def explained(self, says: str) -> str:
        """Return a sentence with the meaning of the first of our own variables in it, which no learner knows."""
        for name in re.findall(r"\w+", says):
            told = name in self.given or name in WORDS or f"{name} = " in says
            if name in self._defined and not told:
                return f"{says}; there, {name} = {self._defined[name]}"
        return says

    def kinds(self, name: str) -> set[str]:
        """Return what an argument is: "tensor", "boolean", "number", …."""
        value = self.given[name]
        if isinstance(value, Tensor):
            return {
                "tensor",
                "boolean" if value.dtype == torch.bool else "floating" if value.is_floating_point() else "",
            }
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return {"number", "whole number" if isinstance(value, int) else "fraction"}
        return {"list"} if isinstance(value, list) else set()

    def edited(self, places: Sequence[tuple[ast.AST, str]]) -> Callable:
        """Return the function with other text at some places.

        Raises:
            SyntaxError: that is no Python.
        """
        names = {**self.known, **HELPERS}
        with contextlib.ExitStack() as undo:
            for node, text in places:
                undo.callback(self._put, node, node)
                self._put(node, _parsed(text, node))
            exec(compile(self.tree, "<edited>", "exec"), names)
        return names[self.function.name]

    def _put(self, node: ast.AST, other: ast.AST) -> None:
        """Let another node stand in the place of a node: copying the whole tree would take most of the time."""
        parent, name, number = self._place[id(node)]
        if number is None:
            setattr(parent, name, other)
        else:
            getattr(parent, name)[number] = other


class _AsMethods(ast.NodeTransformer):
    """Write torch.softmax(x, -1) as x.softmax(-1), so that a rule needs to know one way only."""

    APART = {"where", "tensor", "cat", "stack"}  # methods of these names do something else, or there are none

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id="torch" | "F"), attr=name):
                if node.args and hasattr(Tensor, name) and name not in self.APART:
                    node.func, node.args = ast.Attribute(node.args[0], name, ast.Load()), node.args[1:]
        return node


def _parsed(text: str, instead_of: ast.AST) -> ast.AST:
    if isinstance(instead_of, ast.Slice):
        return ast.parse(f"_[{text[1:-1]}]", mode="eval").body.slice
    if isinstance(instead_of, ast.expr):
        made = ast.parse(text, mode="eval").body
        return _to_write(made) if isinstance(getattr(instead_of, "ctx", None), ast.Store) else made
    (line,) = ast.parse(textwrap.dedent(text)).body
    for part in ast.walk(line):  # the body of a loop, or of an if, stays
        if getattr(part, "body", None) and isinstance(part.body, list) and N(part.body[0]) == "...":
            part.body = instead_of.body
    return line


def _to_write(made: ast.expr) -> ast.expr:
    """Let an expression stand at the left of an equals sign."""
    made.ctx = ast.Store()
    for part in getattr(made, "elts", ()):
        _to_write(part)
    return made


# --------------------------------------------------------------------------------------------- what letters stand for


def _code(value: object) -> str:
    """Return what a letter stands for as code."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(N, value))
    return N(value) if isinstance(value, ATOMS) else f"({N(value)})"


def _words(value: object) -> str:
    """Return what a letter stands for as a short text."""
    text = value if isinstance(value, str) else ", ".join(map(N, value)) if isinstance(value, list) else N(value)
    line, *more = text.splitlines() or [""]  # of a loop, its first line
    return line[:45] + "…" if more or len(line) > 45 else line


# --------------------------------------------------------------------------------------------- the edits


@dataclass(eq=False)
class Edit:
    """A small edit of a right answer, made into a function when it is first tried.

    Args:
        rule: the kind of edit.
        says: what the edited function does, to follow "your function does what ours would do".
        cost: how far-fetched it is.
        make: returns the function.
    """

    rule: Rule
    says: str
    cost: Real
    make: Callable[[], Callable]
    _function: Callable | None = None
    _known: dict[int, tuple[Outcome, tuple] | None] = field(default_factory=dict)

    def outcome(self, case: int, inputs: tuple) -> tuple[Outcome, tuple] | None:
        """Return what the edited function does with a case, and a `print_of` it; None where it came to no end."""
        if case not in self._known:
            self._known[case] = None
            try:
                self._function = self._function or self.make()
            except (SyntaxError, ValueError):  # this edit is no Python
                return None
            outcome = call(self._function, inputs)
            self._known[case] = outcome, print_of(outcome)
        return self._known[case]


def print_of(outcome: Outcome) -> tuple:
    """Return a few things of an outcome by which most others are told apart at once: its kind, its shape, its sums."""
    value = outcome.value
    if outcome.failure:
        return (outcome.failure.message, None)
    if not isinstance(value, Tensor):
        return ("no tensor", len(value) if isinstance(value, tuple | list) else None)
    if not readable(value) or value.is_complex():
        return ("tensor", None)
    numbers = value.detach().cpu().double()
    return ("tensor", value.shape, float(numbers.sum()), float(numbers.abs().sum()))


def edits_of(answers: Sequence[Callable], example: tuple, axes: tuple[str, ...]) -> list[Edit]:
    """Return all single edits of some right functions, the cheapest first.

    Args:
        answers: functions whose source can be had.
        example: the inputs of one case.
        axes: what the axes of the result are called.
    """
    made: list[Edit] = []
    for answer in answers:
        source = Source(textwrap.dedent(inspect.getsource(answer)), inspect.unwrap(answer).__globals__, example, axes)
        made += _by_rules(source, RULES if made else (*RULES, *WHOLE))
        made += _in_two_lines(source)
    return sorted(made, key=lambda edit: edit.cost)


def _by_rules(source: Source, rules: Sequence[Rule]) -> Iterator[Edit]:
    alike = defaultdict(list)
    nodes = [node for line in source.function.body for node in ast.walk(line)]
    seen = set()  # places and texts: many rules come to the same edit
    for rule in sorted(rules, key=lambda rule: rule.cost):
        given = rule.find.startswith("given ")
        pattern = None if given else pattern_of(rule.find)
        for node in source.given if given else nodes:
            found: dict = {"P": node} if given else {}
            if not given and (not fits(pattern, node, found, source.is_variable) or not _allowed(rule, found)):
                continue
            if given and not _allowed_argument(rule, node, source):
                continue
            for put, says, everywhere in _filled(rule, found, source):
                place = (source.function.body[0], f"if True:\n    {put}\n    ...") if given else (node, put)
                if given:
                    place = (place[0], f"if True:\n    {put}\n{textwrap.indent(N(place[0]), '    ')}")
                if (id(place[0]), place[1]) in seen:
                    continue
                seen.add((id(place[0]), place[1]))
                yield Edit(rule, says, rule.cost, lambda place=place: source.edited([place]))
                if not given and not rule.find.startswith("return"):
                    alike[everywhere].append((rule, place))
    for says, places in alike.items():
        if 1 < len(places) <= 6:
            rule = places[0][0]
            put = [place for _, place in places]
            yield Edit(rule, says, rule.cost + ALIKE, lambda put=put: source.edited(put))


def _allowed(rule: Rule, found: dict) -> bool:
    for letter, names in rule.only.items():
        if letter in found and (found[letter] in names) == (names[0] == "!"):
            return False
    return True


def _allowed_argument(rule: Rule, name: str, source: Source) -> bool:
    kind = rule.only.get("P")
    return kind is None or kind in source.kinds(name)


def _filled(rule: Rule, found: dict, source: Source) -> Iterator[tuple[str, str, str]]:
    """Yield the text that an edit puts, and what it says, for each of what {X} stands for in turn."""
    code = {letter: _code(value) for letter, value in found.items()}
    words = {letter: _words(value) for letter, value in found.items()}
    if "I" in found:
        words["I_"] = source.axis(found.get("A"), int(N(found["I"])))
    for option in _options(rule, found, source):
        x = option.format(**code) if "{" in option else option
        if rule.find == "N":
            x = repr(eval(x, {}))  # of one number and what the rule does to it
        if x and x in [words.get(letter) for letter in "IVNSPR"]:
            continue
        if x and x == f"{words.get('I')}, {words.get('J')}":
            continue
        spoken = {**words, "X": x, **_axis_words(rule, x, found, source)}
        put = re.sub(r"(\(|,)(\s*,)+", r"\1", rule.put.format(X=x, **code))  # what is not there leaves its comma
        put = put.replace(", )", ")")
        says, everywhere = rule.says.format(**spoken), (rule.alike or rule.says).format(**spoken)
        if rule.each not in ("axes", "orders"):  # those speak of axes, which may be called as a variable is
            says, everywhere = source.explained(says), source.explained(everywhere)
        yield put, says, everywhere


def _options(rule: Rule, found: dict, source: Source) -> Sequence[str]:
    if rule.each == "names":
        if "P" in found:
            others = list(source.given)[list(source.given).index(found["P"]) + 1 :]
            kind = type(source.given[found["P"]])
            every = source.given if "as well" in rule.says else others
            return [
                name
                for name in every
                if name != found["P"] and type(source.given[name]) is kind and kind is not type(len)
            ]
        if rule.find.startswith("return"):
            return [name for name in source.names if name not in source.given]
        sized = bool(re.fullmatch(SIZE, found["V"].id))  # nobody takes a tensor for a size
        return [name for name in source.names if bool(re.fullmatch(SIZE, name)) == sized]
    if rule.each == "axes":
        value = source.given.get(found.get("P"))
        return [str(i) for i in range(value.ndim if isinstance(value, Tensor) else len(source.result_axes))]
    if rule.each == "orders":
        n = len(source.result_axes)
        return [", ".join(map(str, p)) for p in itertools.permutations(range(n)) if list(p) != sorted(p)]
    return rule.each


def _axis_words(rule: Rule, x: str, found: dict, source: Source) -> dict[str, str]:
    axes = source.result_axes
    if rule.each == "axes" and "P" not in found and x.isdigit():
        name = axes[int(x)]
        return {"X_one": name, "X_all": re.sub(r"([^aeiou])y$", r"\1ie", name) + "s"}
    if rule.each == "orders":
        return {"X_": ", ".join(axes[int(i)] for i in x.split(", "))}
    return {"X_": source.axis(found.get("A"), int(x)) if re.fullmatch(r"-?\d", x) else x}


# --------------------------------------------------------------------------------------------- edits of two lines

EXCHANGED = Rule("two lines", "", "", 1.4, why=IN_ORDER)
MOVED = Rule("a step and another line", "", "", 1.4, why=IN_ORDER)
ALSO = Rule("a line and an argument", "", "", 1.3)


def _in_two_lines(source: Source) -> Iterator[Edit]:
    for rule, places, says in (*_lines_exchanged(source), *_steps_moved(source), *_another_alike(source)):
        yield Edit(rule, says, rule.cost, lambda places=places: source.edited(places))


def _lines_exchanged(source: Source) -> Iterator[tuple]:
    for one, two in itertools.pairwise(source.function.body):
        if not isinstance(two, ast.Return) and not isinstance(one, ast.Expr):
            yield EXCHANGED, [(one, N(two)), (two, N(one))], f"with the lines {_words(one)} and {_words(two)} exchanged"


def _steps_moved(source: Source) -> Iterator[tuple]:
    """Do the last step of a line to another line's result, too early or too late."""
    lines = [line for line in ast.walk(source.function) if isinstance(line, (ast.Assign, ast.Return)) and line.value]
    for line in lines:
        for inner, outer, words in _last_steps(line.value):
            for other in lines:
                if other is not line and not isinstance(other.value, ast.Tuple):
                    to = "the result" if isinstance(other, ast.Return) else N(other.targets[0])
                    moved = outer.replace("…", N(other.value))
                    yield MOVED, [(line.value, inner), (other.value, moved)], f"with {words} at another place, on {to}"


def _last_steps(value: ast.expr) -> Iterator[tuple[str, str, str]]:
    """Yield what is left of an expression without its last step, that step around `…`, and its words."""
    match value:
        case ast.BinOp(left=left, op=ast.Div() | ast.Mult() | ast.Add() | ast.Sub(), right=right):
            sign = {ast.Div: "/", ast.Mult: "*", ast.Add: "+", ast.Sub: "-"}[type(value.op)]
            yield N(left), f"(…) {sign} ({N(right)})", f"{sign} {_words(right)}"
            if isinstance(value.op, ast.Mult):
                yield N(right), f"({N(left)}) * (…)", f"the factor {_words(left)}"
        case ast.BinOp(left=ast.BinOp(left=factor, op=ast.Mult(), right=left), op=ast.MatMult(), right=right):
            yield f"({N(left)}) @ ({N(right)})", f"({N(factor)}) * (…)", f"the factor {_words(factor)}"
        case ast.Call(func=ast.Attribute(value=of, attr=name)):
            step = ast.Call(ast.Attribute(ast.Name("…"), name), value.args, value.keywords)
            yield N(of), N(step).replace("…", "(…)"), name


def _another_alike(source: Source) -> Iterator[tuple]:
    """Do to another argument what a line does to one."""
    for line in source.function.body:
        if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
            continue
        used = {node.id for node in ast.walk(line.value) if isinstance(node, ast.Name)}
        for like, other in itertools.product(sorted(used & set(source.given)), source.given):
            if other not in used and other != line.targets[0].id:
                text = re.sub(rf"\b{like}\b", other, N(line.value))
                put = f"if True:\n    {N(line)}\n    {other} = {text}"
                yield ALSO, [(line, put)], f"with {other} treated as {like} is: {_words(text)}"

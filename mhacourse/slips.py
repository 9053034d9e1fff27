"""What people write instead: for a piece of a right answer, for its arguments, for its result.

A slip that happens in many exercises is a line here, one of a single exercise an entry of its catalogue. What is made
of the slips is said in `edits`.
"""

import ast
import itertools
import re
from ast import unparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from mhacourse.compare import plural

SUMS = "sum mean amax amin argmax argmin prod any all".split()
BEHIND = "roll chunk split repeat_interleave topk".split()  # these take something else before an axis
ALONG = [*SUMS, *BEHIND, *"softmax log_softmax cumsum norm std flip cat stack unsqueeze squeeze sort logsumexp".split()]
TURNS = "transpose permute movedim".split()
KEPT = [*TURNS, *"range list len tuple enumerate zip isinstance tolist item".split()]  # never left out
INSTEAD = {
    "sum": "mean amax prod cumsum", "mean": "sum amax median", "amax": "amin argmax mean", "argmax": "argmin",
    "prod": "sum mean", "any": "all", "all": "any", "softmax": "log_softmax", "exp": "exp2", "log": "log2",
    "tril": "triu", "triu": "tril", "stack": "cat", "cat": "stack", "norm": "sum amax",
}  # fmt: skip
SIGNS = {  # what an operand is called, seen and unseen, and what people write for the sign
    ast.Add: ("+", "the term", "one of its terms", "- *"),
    ast.Sub: ("-", "subtracting", "a subtraction", "+ /"),
    ast.Mult: ("*", "the factor", "one of its factors", "/ @ +"),
    ast.Div: ("/", "the division by", "a division", "// *"),
    ast.FloorDiv: ("//", "the division by", "a division", "/ %"),
    ast.Mod: ("%", "the remainder by", "a remainder", "//"),
    ast.MatMult: ("@", "the product with", "a product", "*"),
    ast.Pow: ("**", "the power", "a power", "*"),
    ast.BitAnd: ("&", "the condition", "one of its conditions", "|"),
    ast.BitOr: ("|", "the condition", "one of its conditions", "&"),
}
ROUNDS = {
    "[:1]": "only the first round", "[1:]": "the first round left out", "[:-1]": "the last round left out",
    "[::-1]": "the rounds from the last to the first",
}  # fmt: skip

# The reader's question.
NAME_AXES = "Write the shape of what comes in beside the line, and name its axes: along which are numbers put together?"
NO_MOVE = (
    "reshape and view count the numbers out again in their order; only transpose and permute exchange axes (lesson 03)."
)
BY_HAND = "Work out the first and the last entry by hand."
MIDDLE = "Write both shapes beside the product: the two sizes in the middle must mean the same."
KEEPDIM = "Without keepdim=True what was one number for each row lies along the columns (lesson 04)."
EDGE = "Work out the row of the first token by hand: which keys may it see, itself among them?"
A_SCORE = "A hidden score of 0 still gets a share: e to the power of 0 is 1. Only minus infinity gets none."

WHY = {  # for what has no reason of its own, by what is said: the first that is found in it
    "exchanged|as well": "Say of each name in the task what it holds, and where it is asked for.",
    "fixed|whatever": "That is right at one size only: read sizes off the shapes.",
    r"shape\[": "Write the shape down, and beside each of its numbers what it counts.",
    r"axis|axes|alone|result \d|joined|for all": "The task says what comes back, with which axes, in which order.",
    "other way round|ignored": "Take one entry, and say what True means for it, and what False.",
    "": "Work out one number by hand as the task says it, and then as your line does.",
}


def why_of(says: str) -> str:
    """Return what to think of where a slip does not say it itself."""
    return next(why for pattern, why in WHY.items() if re.search(pattern, says))


@dataclass(frozen=True)
class Slip:
    """What people write in the place of a piece of code.

    Args:
        put: the code.
        says: what the function does then, to follow "it does what a right one would do".
        cost: 1 for what happens most often; among the slips that fit, the cheapest is told.
        why: what to think of, where `says` does not say it.
    """

    put: str
    says: str
    cost: Real = 1
    why: str = ""


def slips(node: ast.AST, code: Callable[[ast.AST], str], names: dict[str, list[str]]) -> Iterator[Slip]:
    """Yield what people write in the place of a piece of code; of a loop, of what it goes through.

    Args:
        node: the piece.
        code: returns a piece as a learner can read it, with `…` for what only we have written.
        names: for each variable the others of its kind; under "sizes" those that are sizes.
    """
    match node:
        case ast.Call():
            yield from _of_call(node)
        case ast.Attribute(value=of, attr="mT" | "T" as turn):
            yield from _of_turn(f"({unparse(of)})", f".{turn}")
        case ast.BinOp() if type(node.op) in SIGNS:
            yield from _of_operation(node, code)
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=of):
            yield Slip(f"({unparse(of)})", "with a condition the other way round", 1, "Try one entry by hand.")
        case ast.Constant(value=bool()):
            return
        case ast.Constant(value=int() | float()) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            n = ast.literal_eval(node)
            for x in dict.fromkeys((n + 1, n - 1, 0, 1, 2 * n, n / 2)):
                yield Slip(f"({x})", f"with {x:g} in the place of {n:g}", 1.6)
        case ast.Name(id=name) if name in names:
            for size in (1, 2, 3, 4, 8) if name in names["sizes"] else ():
                yield Slip(f"({size})", f"with a fixed {size} in the place of {code(node)}", 1.9)
            for other in names[name]:
                yield Slip(f"({other})", f"with {code(ast.Name(other))} in the place of {code(node)}", 1.8)
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
            for other in (-2, -1, 0, 1, 2, -3):
                put = f"{unparse(node.value)}[{other}]"
                yield Slip(put, f"with shape[{other}] in the place of shape[{unparse(index)}]", 1.4)
            for size in (1, 2, 4, 8):
                yield Slip(f"({size})", f"with a fixed {size} in the place of {code(node)}", 1.9)
        case ast.Subscript(value=of, slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            yield from _of_index(f"({unparse(of)})", parts, code)
        case ast.For(iter=of) | ast.comprehension(iter=of):
            for part, words in ROUNDS.items():
                yield Slip(f"list({unparse(of)}){part}", f"with {words} of its loop", 1.25, BY_HAND)
        case ast.Return(value=ast.Tuple(elts=parts)):
            for number, part in enumerate(parts, 1):
                yield Slip(f"return {unparse(part)}", f"giving back result {number} alone", 1.1)
            yield Slip(f"return {', '.join(map(unparse, parts[::-1]))}", "with the results exchanged")


def axes_in(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a call that are axes, and the number behind a minus: no numbers of their own."""
    match node:
        case ast.Call(func=ast.Attribute(attr=f), args=args, keywords=named) if f in (*ALONG, *TURNS):
            return [*args[f in BEHIND :], *(part.value for part in named if part.arg == "dim")]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as number):
            return [number]
    return []


def _of_turn(x: str, turn: str) -> Iterator[Slip]:
    yield Slip(x, f"without {turn}", why=MIDDLE if "T" in turn else "")
    words = f"with a reshape in the place of {turn}"
    yield Slip(f"{x}.reshape({x}{turn}.shape)", words, why=NO_MOVE)
    yield Slip(f"{x}.permute(*range({x}.ndim)[::-1])", "with .T, which turns all axes", 1.1)


def _called(f: str, given: Sequence, named: dict) -> str:
    return f"{f}({', '.join([*map(str, given), *(f'{name}={value}' for name, value in named.items())])})"


def _of_call(node: ast.Call) -> Iterator[Slip]:
    """Yield what becomes of x.f(…), f(x) or torch.f(x): left out, over another axis, by another name, other sizes."""
    name, given = unparse(node.func), [unparse(part) for part in node.args]
    named = {part.arg: unparse(part.value) for part in node.keywords}
    x, dot, f = name.rpartition(".")
    method = dot and x not in ("torch", "math", "F")
    shown = f if method else name
    if f not in KEPT and not f.startswith("_") and (method or len(given) == 1):
        yield Slip(f"({x if method else given[0]})", f"without {shown}")
    if f in ALONG and (method or f in ("cat", "stack")):
        yield from _over_other_axes(name, f, given, named)
    for other in INSTEAD.get(f, "").split():
        yield Slip(_called(f"{x}{dot}{other}", given, named), f"with {other} in the place of {f}", 1.4)
    if f in ("transpose", "permute"):
        yield from _of_turn(x, f".{f}({', '.join(given)})")
        pairs = itertools.combinations((-3, -2, -1) if given[0][0] == "-" else range(4), 2)
        for order in pairs if f == "transpose" else itertools.permutations(range(len(given))):
            yield Slip(f"{name}{order}", f"with {f}{order} in the place of {f}({', '.join(given)})")
    if f in ("view", "reshape") and len(given) in (3, 4):
        for order in itertools.permutations(given):
            yield Slip(_called(name, order, {}), f"with the sizes of a {f} in another order", 1.3, NO_MOVE)
        dealt = f"{_called(name, [*given[:-2], given[-1], given[-2]], {})}.mT"
        yield Slip(dealt, "with the features dealt out to the heads in turn, like cards", 1.2)
    if f == "masked_fill":
        yield Slip(_called(name, [f"~({given[0]})", given[1]], {}), "with the mask the other way round")
        for low in ("0.0", "-1.0", "1.0", "-9.0", "torch.inf"):
            yield Slip(_called(name, [given[0], low], {}), f"with {low} as the score of what is hidden", 1, A_SCORE)
    if f in ("tril", "triu"):
        for by, way in (("+ 1", "up, to the right"), ("- 1", "down, to the left")):
            put = _called(name, [f"{(given or ['0'])[0]} {by}"], {})
            yield Slip(put, f"with the edge of {f} one place further {way}", 1, EDGE)
    if f == "norm":
        yield Slip(f"({unparse(node)} ** 2)", "with the square of the length in the place of the length")
    if f == "range":
        first, stop = ["0", *given][-2:]
        for change, words in {
            f"{first} + 1, {stop}": "begins one too late", f"{first} - 1, {stop}": "begins one too early",
            f"{first}, {stop} + 1": "ends one too late", f"{first}, {stop} - 1": "ends one too early",
            f"{first} + 1, {stop} + 1": "counts from 1",
        }.items():  # fmt: skip
            yield Slip(f"range({change})", f"with a loop that {words}", 1.3, BY_HAND)


def _over_other_axes(name: str, f: str, given: list[str], named: dict[str, str]) -> Iterator[Slip]:
    """Yield what becomes of f where its axis is another, or everything, or lost."""
    if "keepdim" in named:
        rest = {name: value for name, value in named.items() if name != "keepdim"}
        yield Slip(_called(name, given, rest), f"without keepdim=True in {f}", why=KEEPDIM)
    elif f in SUMS:
        yield Slip(_called(name, given, named | {"keepdim": True}), f"with keepdim=True in {f}, so that an axis stays")
    behind = f in (*BEHIND, "cat", "stack") and name != f"torch.{f}" or name == f"torch.{f}"
    if "dim" not in named and len(given) == behind and f not in ("cat", "stack"):
        return
    put = given if "dim" in named else given[:behind]
    axis = named.get("dim", (given[behind:] or ["0"])[-1])
    axes = [-2, -1, 0, 1, 2, 3, -3]
    axes += itertools.combinations(range(-3, 0) if axis[:1] == "-" else range(4), 2) if f in SUMS else []
    for other in axes:
        words = f"with {f} over dim={other}, not dim={axis}"
        yield Slip(_called(name, put, named | {"dim": other}), words, 1 + isinstance(other, tuple) / 10, NAME_AXES)
    if f in SUMS:
        yield Slip(f"{name}()", f"with {f} over everything")
    if f == "softmax":
        x = name.removesuffix(".softmax")
        yield Slip(f"{x}.flatten(-2).softmax(-1).view({x}.shape)", "with one softmax over each whole map")


def _of_operation(node: ast.BinOp, code: Callable) -> Iterator[Slip]:
    """Yield what becomes of a + b and the like: one side left out, another sign."""
    sign, seen, unseen, others = SIGNS[type(node.op)]
    a, b, shown = f"({unparse(node.left)})", f"({unparse(node.right)})", code(node.right)
    for kept, out in ((a, shown), (b, code(node.left)))[: 2 if sign in "+*@&|" else 1]:
        yield Slip(kept, f"without {unseen if '…' in out else f'{seen} {out}'}")
    for other in others.split():
        words = f"with {other} in the place of {sign}"
        yield Slip(f"({a} {other} {b})", words if "…" in shown else f"{words} before {shown}", 1.2)


def _of_index(x: str, parts: Sequence[ast.AST], code: Callable) -> Iterator[Slip]:
    """Yield what becomes of x[…]: nothing chosen, an end moved by one, another axis, another order."""
    yield Slip(x, "without the choice by an index [ ]", 1.5)
    texts = [unparse(part) for part in parts]
    for i, part in enumerate(parts):
        if isinstance(part, ast.Slice) and part.step is None and (part.lower or part.upper):
            low, high = (unparse(end) if end else "" for end in (part.lower, part.upper))
            begins = (f"{low} + 1", f"{low} - 1", "") if low else ("1",)
            ends = (f"{high} + 1", f"{high} - 1", "") if high else ("-1",)
            for start, stop in [*((start, high) for start in begins), *((low, stop) for stop in ends)]:
                put = ", ".join([*texts[:i], f"{start}:{stop}", *texts[i + 1 :]])
                words = f"with the {'end' if start == low else 'beginning'} of a slice [ : ] elsewhere"
                yield Slip(f"{x}[{put}]", words, 1.3, BY_HAND)
    for order in itertools.permutations(parts) if len(parts) > 1 else ():
        words = f"with an index in another order: [{', '.join(map(code, order))}]"
        words = "with an index in another order" if "…" in words else words
        yield Slip(f"{x}[{', '.join(map(unparse, order))}]", words, 1.4)
    if texts[:-1] == [":"] * (len(texts) - 1) and not isinstance(parts[-1], ast.Slice):
        for axis in {0, 1, 2} - {len(texts) - 1}:
            words = f"with an index on axis {axis}, not {len(texts) - 1}"
            yield Slip(f"{x}[{':, ' * axis}{texts[-1]}]", words, 1.5)


# --------------------------------------------------------------------------------- whole arguments, whole results

Change = tuple[str, Real, Callable]

TENSOR: list[Change] = [  # a tensor in the place of itself: what is said of its name, the cost, the change
    ("with {} turned, its last two axes exchanged", 1.3, lambda x: x.mT),
    ("with the first two axes of {} exchanged", 1.3, lambda x: x.transpose(0, 1)),
    *((f"with the first entry along axis {i} of {{}} used for all", 1.5, lambda x, i=i: x.narrow(i, 0, 1).expand_as(x))
      for i in range(4)),
]  # fmt: skip
FLOATS: list[Change] = [
    ("as if {} were 0", 1.6, torch.zeros_like),
    *((f"with a softmax of {{}} over axis {i} first", 1.6, lambda x, i=i: x.softmax(i)) for i in range(4)),
]
BOOLEANS: list[Change] = [
    ("with {} the other way round", 1, torch.logical_not),
    ("with {} ignored, as if it were True everywhere", 1.2, torch.ones_like),
]
NUMBERS: list[Change] = [
    ("with one more than {}", 1.4, lambda n: n + 1),
    ("with one less than {}", 1.4, lambda n: n - 1),
    *((f"as if {{}} were {n}, whatever it is", 1.5, lambda _, n=n: n) for n in (1, 2)),
    ("with the square of {}", 1.4, lambda n: n**2),
]


def changes_of(value: object) -> list[Change]:
    """Return what people make of an argument without meaning to, where it is one of these kinds."""
    if isinstance(value, Tensor):
        return TENSOR + (BOOLEANS if value.dtype == torch.bool else FLOATS if value.is_floating_point() else [])
    return NUMBERS if isinstance(value, (int, float)) and not isinstance(value, bool) else []


RESULT: list[Change] = [
    ("but with 0 and 1 for False and True", 1, lambda y: y.float() if y.dtype == torch.bool else y.new_zeros(0)),
    ("but with whole numbers", 1, torch.Tensor.long),
    ("and then turns the sign", 1.1, torch.neg),
    ("in percent", 1.4, lambda y: 100 * y),
]
ALONG_ONE: list[Change] = [  # along one axis of the result, by its name
    ("for the first {one} alone; the axis of {all} is gone", 1.1, lambda y, i: y.select(i, 0)),
    ("for the last {one} alone; the axis of {all} is gone", 1.2, lambda y, i: y.select(i, -1)),
    ("for the first {one} alone", 1.1, lambda y, i: y.narrow(i, 0, 1)),
    ("but with the first {one} given for all {all}", 1.2, lambda y, i: y.narrow(i, 0, 1).expand_as(y)),
    ("but without the first {one}", 1.2, lambda y, i: y.narrow(i, 1, y.shape[i] - 1)),
    ("but without the last {one}", 1.2, lambda y, i: y.narrow(i, 0, y.shape[i] - 1)),
    ("and then takes the mean over the {all}", 1.1, lambda y, i: y.mean(i)),
    ("and then sums over the {all}", 1.1, lambda y, i: y.sum(i)),
    ("with one axis too many, of size 1, before the {all}", 1.2, lambda y, i: y.unsqueeze(i)),
    ("but with the {all} from the last to the first", 1.2, lambda y, i: y.flip(i)),
    ("with the {all} and the next axis joined into one", 1.1, lambda y, i: y.flatten(i, i + 1)),
]


def results(axes: tuple[str, ...]) -> Iterator[Change]:
    """Yield what people make of a right result without meaning to, from what its axes are called."""
    yield from RESULT
    for i, name in enumerate(axes):
        for says, cost, change in ALONG_ONE:
            yield says.format(one=name, all=plural(name)), cost, lambda y, change=change, i=i: change(y, i)
    for order in itertools.permutations(range(len(axes))):
        if list(order) != sorted(order):
            words = ", ".join(axes[i] for i in order)
            yield f"but with its axes in the order ({words})", 1, lambda y, order=order: y.permute(order)
            put = "but with a reshape where axes should be exchanged"
            yield put, 1.5, lambda y, order=order: y.permute(order).reshape(y.shape)

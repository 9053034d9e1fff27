"""What may belong in the place of a piece of a learner's code: another number or name, what is missing, another order.

Each is a `Slip`. What it says names the piece and the kind of change, and never what belongs there.
"""

import ast
import contextlib
import itertools
import re
from ast import unparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch


class Slip(NamedTuple):
    """The code that may stand instead, what is said of it ("without …", "with …"), and how unlikely it is."""

    put: str
    says: str
    cost: float


LONGEST = 60  # characters of code in a sentence
MODULES = "torch F nn np math einops mhalib".split()
SIGNS = {"+": "- *", "-": "+ /", "*": "/ @ +", "/": "// *", "//": "/ %", "@": "*", "**": "*", "&": "|", "|": "&"}
SIGNS |= {"<": "<= >", "<=": "< >=", ">": ">= <", ">=": "> <=", "==": "!=", "!=": "==", "is": "is not"}
_PAIRS = {sign: ast.parse(f"a {sign} b", mode="eval").body for sign in SIGNS}
SIGN_OF = {type(pair.op if isinstance(pair, ast.BinOp) else pair.ops[0]): sign for sign, pair in _PAIRS.items()}
EITHER = "+ * @ & |".split()  # of which the left side may be too much as well
INSTEAD = {  # functions that are taken for one another
    "sum": "mean prod", "mean": "sum", "amax": "amin", "amin": "amax", "max": "min", "min": "max", "any": "all",
    "all": "any", "tril": "triu", "triu": "tril", "argmax": "argmin", "argmin": "argmax", "stack": "cat",
    "cat": "stack", "repeat": "repeat_interleave", "repeat_interleave": "repeat", "tile": "repeat_interleave",
    "log2": "log", "log10": "log", "exp2": "exp", "prod": "sum", "median": "mean", "floor": "ceil", "std": "var",
    "ones": "zeros", "zeros": "ones", "ones_like": "zeros_like", "append": "extend", "cumsum": "sum",
    "sigmoid": "softmax",
}  # fmt: skip
ALONG = "sum mean amax amin prod any all argmax argmin cumsum softmax repeat_interleave cat stack flip norm".split()
KEEPING = "sum mean amax amin prod any all norm argmax argmin".split()
KEPT = "range list len tuple enumerate zip isinstance tolist item".split()  # never left out
ORDERED = "view reshape permute".split()
TURNS = "mT T transpose(0,1) transpose(1,2) transpose(0,2) transpose(1,3)".split()
INSERTED = {  # behind any piece
    "(~{})": ("with {} the other way round", 1.7),
    "(-{})": ("with the sign of {} turned", 1.8),
    "({} + 1)": ("with one more than {}", 1.7),
    "({} - 1)": ("with one less than {}", 1.7),
    "({} ** 0.5)": ("with the root of {}", 1.8),
    "({} / 2)": ("with half of {}", 1.9),
    "{}.clone()": ("with a copy of {}", 1.5),
    "{}[..., None]": ("with one axis more in {}", 1.9),
    "{}[:, None]": ("with one axis more in {}", 1.9),
    "{}[0]": ("with one axis less in {}", 1.8),
    "{}[None]": ("with one axis more in {}", 1.9),
    "{}.softmax(-1)": ("with a softmax of {}", 1.9),
    "{}.tril()": ("without what {} holds above the diagonal", 1.8),
    "{}.tril(-1)": ("without what {} holds on and above the diagonal", 1.8),
    "{}.long()": ("with whole numbers in place of those of {}", 1.9),
    "{}.float()": ("with floating numbers in place of those of {}", 1.9),
    "{}.bool()": ("with booleans in place of the numbers of {}", 1.9),
}
RETURNED = {  # of what is returned
    "torch.tensor({})": "with {} as a tensor",
    "torch.stack([*{}])": "with {} as one tensor",
    "torch.stack([*{}], 1)": "with {} as one tensor",
    "{}.flatten()": "with axes of {} joined",
    **{f"{{}}.flatten({i}, {i + 1})": "with axes of {} joined" for i in range(3)},
    **{f"{{}}.{f}({i})": "with a sum or a mean over one axis of {}" for f in ("sum", "mean") for i in (0, 1, -1)},
    **{f"{{}}.chunk({n}, -1)": "with {} in parts" for n in (2, 3)},
    "({0} / {0}.sum(-1, keepdim=True))": "with rows of {} that sum to 1",
}


def slips_of(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, Slip]]:
    """Yield the pieces of a function, each with what may belong in its place; of a loop, what it goes through."""
    nodes, text = [node for statement in function.body for node in ast.walk(statement)], unparse(function)
    given = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    every = {*given}
    every |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    # Numbers within -1 and x[0], which are told whole.
    within = {id(getattr(node, "operand", getattr(node, "slice", None))) for node in nodes}
    for node in nodes:
        at = getattr(node, "iter", node) if isinstance(node, (ast.For, ast.comprehension)) else node
        if not hasattr(at, "lineno") or id(node) in called or getattr(node, "id", "") in MODULES:
            continue
        if isinstance(getattr(node, "ctx", None), ast.Store):
            orders = _swapped([*map(unparse, getattr(node, "elts", []))])
            yield from ((node, Slip(", ".join(o), f"with {told(node)} in another order", 1)) for o in orders)
            continue
        if isinstance(node, ast.Call):
            yield from ((at, Slip(*slip)) for slip in _of_call(node, text))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and id(node) not in within:
            yield from ((at, Slip(*slip)) for slip in _of_number(node, given))
        else:
            yield from ((at, Slip(*slip)) for slip in _of_piece(node, sorted(every)))
        if isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.BinOp, ast.Compare)):
            yield from ((at, Slip(*slip)) for slip in _inserted(unparse(node)))


def tree_of(source: str) -> ast.Module:
    """Return the syntax tree of a source that may be indented; not dedented, since a comment may begin further left."""
    return ast.parse(f"if True:\n{source}" if source[:1].isspace() else source)


def dropped(source: str) -> str:
    """Return the first line that makes a new tensor and does not keep it; nothing where there is none."""
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(tree_of(source)):
            match node:
                case ast.Expr(value=ast.BinOp()):
                    return unparse(node)
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr=f))):
                    if hasattr(torch.Tensor, f) and f[-1] != "_" and f not in ("backward", "register_hook"):
                        return unparse(node)
    return ""


def told(node: ast.AST | str) -> str:
    """Return a piece of code as it stands in a sentence."""
    text = node if isinstance(node, str) else unparse(node)
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 2] + ' …'}`"


def _swapped(parts: Sequence[str]) -> Iterator[list[str]]:
    for one, other in itertools.combinations(range(len(parts)), 2):
        order = [*parts]
        order[one], order[other] = parts[other], parts[one]
        yield order


def _of_number(node: ast.Constant | ast.UnaryOp, given: Sequence[str] = ()) -> Iterator[tuple]:
    n = ast.literal_eval(node)
    if isinstance(n, bool):
        yield str(not n), f"with {not n} in place of {n}", 1
        return
    others = dict.fromkeys((n + 1, n - 1, 0, 1, 2 * n, n / 2, -n, 1e6, 1e-6))
    yield from ((f"({x})", f"with another number in place of {n}", 1.6) for x in others if x != n)
    if isinstance(n, int) and n > 1:
        sizes = [f"{name}.shape[{i}]" for name in given for i in range(-4, 4)] + [f"len({name})" for name in given]
        yield from ((size, f"with a size of the inputs in place of {n}", 1.5) for size in sizes)
    if n == 0:
        yield "float('-inf')", "with another number in place of 0", 1.6


def _of_piece(node: ast.AST, names: Sequence[str]) -> Iterator[tuple]:
    """Yield what may stand instead of a piece that is neither a call nor a number."""
    whole = told(node)
    match node:
        case ast.Name(id=name) if name in names:
            yield from ((f"({x})", f"with something else in place of {whole}", 1.8) for x in names if x != name)
        case ast.Attribute(value=of, attr="mT" | "T" as turn):
            yield f"({unparse(of)})", f"without .{turn}: {whole}", 1.3
            yield f"({unparse(of)}).mT", f"with something else in place of .{turn}", 1.3
        case ast.BinOp(left=a, op=op, right=b):
            yield from _of_signs(node, SIGN_OF.get(type(op), ""), unparse(a), unparse(b))
            if isinstance(a, ast.BinOp):
                ends = [ast.BinOp(a.left, a.op, ast.BinOp(a.right, op, b))]
                if isinstance(c := a.right, ast.BinOp):  # as in x / n ** 1 / 2
                    ends += [ast.BinOp(a.left, a.op, ast.BinOp(c.left, c.op, ast.BinOp(c.right, op, b)))]
                yield from ((f"({unparse(end)})", f"with brackets around the end of {whole}", 1) for end in ends)
            yield f"({unparse(ast.BinOp(b, op, a))})", f"with the sides of {whole} exchanged", 1.2
            for name in names if isinstance(op, ast.MatMult) else ():
                yield f"({unparse(node)} / {name}.shape[-1] ** 0.5)", f"with a scale for {whole}", 1.6
            if isinstance(op, ast.Mult) and isinstance(a, ast.List):
                yield f"[*map(list, {unparse(node)})]", f"with a list of its own for each row of {whole}", 1
            for low in [b] if isinstance(op, ast.Mult) and "inf" in unparse(b) else []:
                kept = f"torch.zeros(({unparse(a)}).shape).masked_fill(({unparse(a)}).bool(), {unparse(low)})"
                yield kept, f"without 0 times infinity in {whole}", 1
        case ast.Compare(left=a, ops=[op], comparators=[b]):
            yield from _of_signs(node, SIGN_OF.get(type(op), ""), unparse(a), unparse(b))
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=of):
            yield f"({unparse(of)})", f"with the condition {whole} the other way round", 1
        case ast.UnaryOp(op=ast.USub(), operand=of):
            yield f"({unparse(of)})", f"without the sign of {whole}", 1
            yield from _of_number(node) if isinstance(of, ast.Constant) else ()
        case ast.Subscript(value=of, slice=index):
            yield from _of_index(unparse(of), index, whole)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for order in _swapped([*map(unparse, parts)]):
                text = ", ".join(order)
                yield f"[{text}]" if isinstance(node, ast.List) else f"({text})", f"with {whole} in another order", 1.1
        case ast.Constant(value=str(pattern)) if "->" in pattern:  # of einsum or of einops
            left, right = pattern.split("->")
            parts = re.findall(r"\S+" if " " in right.strip() else r"\S", right)
            for order in _swapped(parts):
                text = (" " if " " in right.strip() else "").join(order)
                yield repr(f"{left}-> {text}"), f"with the right side of {whole} in another order", 1.1
        case ast.IfExp(test=test, body=a, orelse=b):
            yield f"({unparse(b)} if {unparse(test)} else {unparse(a)})", f"with the cases of {whole} exchanged", 1
        case ast.For(iter=of) | ast.comprehension(iter=of):
            yield f"[i + 1 for i in {unparse(of)}]", f"with a count from 1 in {told(of)}", 1.5
            yield f"list({unparse(of)})[::-1]", f"with {told(of)} in the other direction", 1.5
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="backward"))):
            for name in names:
                yield f"{name}.grad = None; {unparse(node)}", f"with the gradient of `{name}` cleared before {whole}", 1
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name))) | ast.BinOp(left=ast.Name(id=name))):
            yield f"{name} = {unparse(node.value)}", f"with the result of {whole} kept, which is dropped here", 1
            yield "pass", f"without the line {whole}", 1.5
        case ast.Return(value=ast.AST() as of):
            x = f"({unparse(of)})"
            yield from ((f"return {f.format(x)}", says.format(told(of)), 1.5) for f, says in RETURNED.items())
            yield from ((f"return {x} @ {name}", f"with a product behind {told(of)}", 1.6) for name in names)
        case ast.AugAssign(target=of, op=op, value=value):
            yield f"{unparse(of)} = {unparse(ast.BinOp(of, op, value))}", f"with a new tensor in place of {whole}", 1
            yield f"{unparse(of)} = {unparse(value)}", f"with = alone in {whole}", 1.4
            yield "pass", f"without the line {whole}", 1.5
        case ast.Assign():
            yield "pass", f"without the line {whole}", 1.5


def _of_signs(node: ast.AST, sign: str, a: str, b: str) -> Iterator[tuple]:
    """Yield another sign between two sides, and for an operation one side alone."""
    for other in SIGNS.get(sign, "").split():
        yield f"(({a}) {other} ({b}))", f"with something else in place of {sign} in {told(node)}", 1.1
    if isinstance(node, ast.BinOp):
        yield f"({a})", f"without {sign} {told(b)}", 1.3
        if sign in EITHER:
            yield f"({b})", f"without {told(a)} {sign}", 1.3


def _of_index(x: str, index: ast.expr, whole: str) -> Iterator[tuple]:
    """Yield what becomes of x[…]: nothing chosen, another place, another axis, another order."""
    parts = [*map(unparse, index.elts if isinstance(index, ast.Tuple) else [index])]
    others = [(other, f"with another number in {whole}") for other in _numbers_changed(parts)]
    if not x.endswith(".shape"):
        yield x, f"without the index of {whole}", 1.5
        others += [(order, f"with the index of {whole} in another order") for order in _swapped(parts)]
        others += [([":", *parts], f"with the index of {whole} on another axis")]
    yield from ((f"({x})[{', '.join(other)}]", says, 1.4) for other, says in others)


def _numbers_changed(given: Sequence[str]) -> Iterator[list[str]]:
    """Yield what is given to a call, or as an index, with one number changed: another axis, another place."""
    for i, part in enumerate(given):
        if number := re.fullmatch(r"(\w+=)?(-?\d)", part):
            near = sorted(range(-3, 4), key=lambda other, old=int(number[2]): (other < 0) != (old < 0))
            yield from ([*given[:i], f"{number[1] or ''}{other}", *given[i + 1 :]] for other in near)
    if len(given) > 1 and all(re.fullmatch(r"-?\d", part) for part in given):  # all of them, as in flatten(2, 3)
        yield from ([str(int(part) + more) for part in given] for more in (-1, 1))


def _of_call(node: ast.Call, text: str) -> Iterator[tuple]:
    """Yield what puts a call right: none, another function, other arguments, or one that is missing."""
    owner, dot, f = unparse(node.func).rpartition(".")
    plain, keywords = [*map(unparse, node.args)], [*map(unparse, node.keywords)]
    given, by_name = [*plain, *keywords], {part.arg for part in node.keywords}
    whole, start = told(node), owner + dot

    def called(given: Sequence[str], name: str = f, behind: str = "") -> str:
        return f"{start}{name}({', '.join(given)}){behind}"

    if f not in KEPT and (x := plain[:1] if owner in ("", *MODULES) else [owner]):
        yield f"({x[0]})", f"without {f}: {whole}", 0.9 if f in ("transpose", "swapaxes") else 1.3
    for other in INSTEAD.get(f, "").split():
        yield called(given, other), f"with another function in place of {f}", 1.3
    for other in _numbers_changed(given):
        yield called(other), f"with other numbers in {whole}", 1
    orders = itertools.permutations(plain) if f in ORDERED and 2 < len(plain) < 5 else _swapped(plain)
    for order in orders:
        yield called([*order, *keywords]), f"with the arguments of {whole} in another order", 1.1
    for i, one in enumerate(given if len(given) > 1 else ()):
        yield called([*given[:i], *given[i + 1 :]]), f"without {told(one)} in {whole}", 1.2
    # Where its axes are exchanged already, it is no transpose that is missing.
    turned = re.search(re.escape(unparse(node)) + r"\.(m?T\b|transpose|swapaxes|permute)", text)
    if f in ORDERED and len(plain) > 2 and owner not in MODULES and not turned:
        both = f"with two sizes in {whole} exchanged, and then these two axes"
        for (i, j), order in zip(itertools.combinations(range(len(plain)), 2), _swapped(plain), strict=True):
            yield called(order, behind=f".transpose({i}, {j})"), both, 1.2
    if f in ALONG and "dim" not in by_name:
        for axis in range(-3, 3):
            yield called([*given, f"dim={axis}"]), f"with an axis told to {whole}", 1.2
    if f in KEEPING and "keepdim" not in by_name:
        yield called([*given, "keepdim=True"]), f"with keepdim=True in {whole}", 1.2
    if f == "diagonal" and not given:
        yield called(["dim1=-2", "dim2=-1"]), f"with two axes told to {whole}", 1
    if f in ("tril", "triu") and len(given) <= (owner in MODULES):
        yield from ((called([*given, n]), f"with another diagonal in {whole}", 1) for n in ("-1", "1"))
    if f == "Linear" and "bias" not in by_name:
        yield called([*given, "bias=False"]), f"without the bias of {whole}", 1


def _inserted(piece: str) -> Iterator[tuple]:
    """Yield what may be missing behind any piece."""
    for turn in TURNS:
        yield f"({piece}).{turn}", f"with two axes of {told(piece)} exchanged", 1.6
    for behind, (says, cost) in INSERTED.items():
        yield behind.format(f"({piece})"), says.format(told(piece)), cost

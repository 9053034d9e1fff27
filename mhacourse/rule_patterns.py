"""The patterns of the rules: Python code with capital letters for its parts, and whether a piece of code fits one.

What the letters mean is said in `mistakes.Rule`. What is made of the code that fits is said in `edits`.
"""

import ast
import re
from collections.abc import Callable
from functools import cache
from numbers import Real

SIZE = r"[BThn]|Tq|Tk|kv|num_\w+|head_dim|d_model|width|size|group"  # names of sizes
_SKIPPED = ("ctx", "kind", "type_comment", "lineno")  # fields of a syntax tree that say nothing of the code


@cache
def pattern_of(find: str) -> ast.AST:
    """Return what a rule looks for as a syntax tree.

    Raises:
        SyntaxError: it is no Python.
    """
    if find.startswith("["):
        try:
            return ast.parse(find, mode="eval").body
        except SyntaxError:  # a slice stands in no expression of its own
            return ast.parse(f"_{find}", mode="eval").body.slice
    line = ast.parse(find).body[0]
    return line.value if isinstance(line, ast.Expr) else line


def fits(pattern: object, node: object, found: dict, is_variable: Callable[[ast.AST], bool]) -> bool:
    """Return whether a node is what a pattern shows.

    Args:
        pattern, node: syntax trees, or parts of them.
        found: what the letters stand for is put here, by the letter.
        is_variable: tells the variables of the function from other names.
    """
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1 and pattern.id.isupper():
        return isinstance(node, ast.expr) and _may_be(pattern.id, node, is_variable) and _keep(pattern.id, node, found)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call):
        return _call_fits(pattern, node, found, is_variable)
    if isinstance(pattern, ast.AST):
        for name in pattern._fields:
            part = getattr(pattern, name)
            if name in _SKIPPED or name == "body" and isinstance(part, list) and ast.unparse(part[0]) == "...":
                continue
            if not fits(part, getattr(node, name), found, is_variable):
                return False
        return True
    if isinstance(pattern, list):
        if len(pattern) != len(node):
            return False
        return all(fits(part, other, found, is_variable) for part, other in zip(pattern, node, strict=True))
    return pattern == node


def _call_fits(pattern: ast.Call, node: ast.Call, found: dict, is_variable: Callable[[ast.AST], bool]) -> bool:
    if isinstance(pattern.func, ast.Attribute):
        of = isinstance(node.func, ast.Attribute) and fits(pattern.func.value, node.func.value, found, is_variable)
        if not of or not _name_fits(pattern.func.attr, node.func.attr, found):
            return False
    elif not isinstance(node.func, ast.Name) or not _name_fits(pattern.func.id, node.func.id, found):
        return False
    plain = [argument for argument in pattern.args if not isinstance(argument, ast.Starred)]
    rest = [argument.value.id for argument in pattern.args if isinstance(argument, ast.Starred)]
    if any(isinstance(argument, ast.Starred) for argument in node.args) and not rest:
        return False
    if len(node.args) < len(plain) or (len(node.args) > len(plain) and not rest):
        return False
    for letter in rest:
        found[letter] = node.args[len(plain) :]
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    others = None
    for keyword in pattern.keywords:
        if keyword.arg is None:
            others = keyword.value.id
        elif keyword.arg not in named or not fits(keyword.value, named.pop(keyword.arg), found, is_variable):
            return False
    if others:
        found[others] = [ast.keyword(name, value) for name, value in named.items()]
    elif named:
        return False
    return all(fits(part, argument, found, is_variable) for part, argument in zip(plain, node.args, strict=False))


def _name_fits(pattern: str, name: str, found: dict) -> bool:
    if len(pattern) == 1 and pattern.isupper():
        found[pattern] = name
        return True
    return pattern == name


def _may_be(letter: str, node: ast.expr, is_variable: Callable[[ast.AST], bool]) -> bool:
    if letter in "IJ":
        return _number(node, int) is not None
    if letter == "N":
        return _number(node, (int, float)) is not None
    if letter in "VS":
        return is_variable(node) and (letter == "V" or bool(re.fullmatch(SIZE, node.id)))
    return True


def _number(node: ast.expr, kind: type | tuple[type, ...]) -> Real | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _keep(letter: str, node: ast.expr, found: dict) -> bool:
    return ast.unparse(found.setdefault(letter, node)) == ast.unparse(node)

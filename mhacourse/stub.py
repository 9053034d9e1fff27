"""Whether a function is still the stub that a lesson ships, known by its syntax tree; not by what it returns."""

import ast
import dis
import inspect
import textwrap
import tokenize
from types import CodeType

_NOTHING = (lambda: None).__code__


def is_stub(function: object) -> bool:
    """Return whether nothing has been written into a function yet.

    Its body then holds nothing but a docstring, `...`, `pass`, a name with its type, or a return of nothing. Where
    functools.wraps says what a decorator stands around, that is looked at. What has no Python code is no stub.
    """
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    body = _body(code)
    if body is None:
        return _instructions(code) == _instructions(_NOTHING)
    return all(_does_nothing(statement) for statement in body)


def _body(code: CodeType) -> list[ast.stmt] | None:
    """Return the statements of a `def`; None for a lambda, and where the source is not to be had."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, tokenize.TokenError):  # typed in a terminal; a lambda amid its expression
        return None
    match tree.body:
        case [ast.FunctionDef(name=name, body=body)] if name == code.co_name:
            return body
    return None


def _does_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()) | ast.Return(None | ast.Constant(None)):
            return True
        case ast.AnnAssign(target=ast.Name(), value=None):  # inside a function Python does not evaluate the type
            return True
    return False


def _instructions(code: CodeType) -> list[tuple[str, object]]:
    """Return what Python executes, to be compared with what the same Python makes of nothing, never read by name."""
    return [(step.opname, step.argval) for step in dis.get_instructions(code)]

"""Whether a function is still the stub that a lesson ships: by what Python makes of it, not by what it returns."""

import dis
import inspect
from types import CodeType

_NOTHING = (lambda: None).__code__


def is_stub(function: object) -> bool:
    """Return whether nothing has been written into a function yet.

    A docstring, `...`, `pass`, a name with its type and a return of nothing come to the same as an empty function.
    Where functools.wraps says what a decorator stands around, that is looked at. What has no Python code is no stub.
    """
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return isinstance(code, CodeType) and _instructions(code) == _instructions(_NOTHING)


def _instructions(code: CodeType) -> list[tuple[str, object]]:
    """Return what Python executes, to be compared with what the same Python makes of nothing, never read by name."""
    return [(step.opname, step.argval) for step in dis.get_instructions(code) if step.opname != "NOP"]

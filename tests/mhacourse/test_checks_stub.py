"""A stub is known by its syntax tree, whatever it looks like; what computes is never taken for one."""

import functools
import linecache
import textwrap
from functools import partial

import pytest
import torch

from mhalib.checks.stub import is_stub


def defined(source, *, name="mine", keep_source=True):
    """Return what `source` defines, as a notebook's cell defines it, or as a terminal that keeps no lines."""
    source, file = textwrap.dedent(source).strip() + "\n", f"<{'cell' if keep_source else 'typed'} {hash(source)}>"
    if keep_source:
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"torch": torch, "functools": functools}
    exec(compile(source, file, "exec"), space)
    return eval(name, space)


STUBS = {
    "dots": "def mine(x, h): ...",
    "a comment": "def mine(x, h):\n    # (B, T, d) -> (B, h, T, d / h)\n    ...",
    "pass": "def mine(x, h):\n    pass  # later",
    "a docstring": 'def mine(x, h):\n    """Split."""',
    "a docstring of two lines, dots": 'def mine(x, h):\n    """Split.\n\nInto heads.\n    """\n    ...',
    "types": "def mine(x: torch.Tensor, h: int = 2) -> torch.Tensor:\n    ...",
    "a default that computes": "def mine(x, h=sum([1, 2])):\n    ...",
    "a name with its type": "def mine(x, h):\n    heads: torch.Tensor\n    ...",
    "a return of nothing": "def mine(x, h):\n    return",
    "a return of None": "def mine(x, h):\n    return None",
    "any arguments": "def mine(*arguments, **options):\n    ...",
}
LOOKED_THROUGH = {
    "dots twice": "def mine(x, h):\n    ...\n    ...",
    "a decorator of torch": "@torch.no_grad()\ndef mine(x, h):\n    ...",
    "a decorator over two lines": "@functools.lru_cache(\n    maxsize=1\n)\ndef mine(x, h):\n    ...",
    "an own decorator that wraps": """
        def shout(f):
            @functools.wraps(f)
            def inner(*arguments):
                print("!")
                return f(*arguments)
            return inner

        @shout
        @shout
        def mine(x, h):
            ...
        """,
}
WORKS = {
    "a product that is not returned": "def mine(x, h):\n    x @ x.mT",
    "a name alone": "def mine(x, h):\n    x",
    "an assignment": "def mine(x, h):\n    y = 1",
    "an assignment with its type": "def mine(x, h):\n    y: int = 1",
    "a type that is computed": "def mine(x, h):\n    x.heads: print(h)",
    "a docstring and a print": 'def mine(x, h):\n    """Split."""\n    print(x)',
    "a loop": "def mine(x, h):\n    for _ in x: ...",
    "a function inside": "def mine(x, h):\n    def inner():\n        return x\n    ...",
    "a lambda": "mine = lambda x, h: print(x)",
    "a lambda of nothing in a call that computes": "mine = (lambda f: lambda x, h: f(x))(lambda x: None)",
    "a decorator that hides a stub": """
        def shout(f):
            def inner(*arguments):
                print("!")
            return inner

        @shout
        def mine(x, h):
            ...
        """,
    "a decorated function that works": "@torch.no_grad()\ndef mine(x, h):\n    x.view(h, -1)",
    "a return of a number": "def mine(x, h):\n    return 5",
    "a return of text": 'def mine(x, h):\n    """Split."""\n    return "heads"',
}


def each(sources):
    return pytest.mark.parametrize("source", sources.values(), ids=list(sources))


@each(STUBS | LOOKED_THROUGH)
def test_a_stub_is_known_by_its_source(source):
    assert is_stub(defined(source))


@each(STUBS)
def test_a_stub_is_known_where_no_source_is_to_be_had(source):
    assert is_stub(defined(source, keep_source=False))


@each(WORKS)
@pytest.mark.parametrize("keep_source", [True, False], ids=["a cell", "a terminal"])
def test_what_computes_is_no_stub(source, keep_source):
    assert not is_stub(defined(source, keep_source=keep_source))


METHODS = """
class Layer:
    def stub(self, x):
        '''Not
    yet.'''
        ...

    @staticmethod
    def loose(x):
        # nothing yet
        ...

    @classmethod
    def works(cls, x):
        return cls.stub(x)
"""


@pytest.mark.parametrize("keep_source", [True, False], ids=["a cell", "a terminal"])
def test_methods_of_a_class(keep_source):
    layer = defined(METHODS, name="Layer()", keep_source=keep_source)
    assert is_stub(layer.stub) and is_stub(type(layer).stub) and is_stub(layer.loose) and not is_stub(layer.works)


@pytest.mark.parametrize(
    "source", ["mine = lambda x, h: None", "mine, other = [\n    lambda x, h: None,\n    lambda: 1]"]
)
def test_a_lambda_of_nothing_is_a_stub(source):
    assert is_stub(defined(source))


def test_a_function_that_is_named_like_another_line_is_not_taken_for_it():
    works, stub = defined("def mine(x, h):\n    x @ x"), "def other(x, h):\n    ...\n"
    file = works.__code__.co_filename
    linecache.cache[file] = (len(stub), None, stub.splitlines(keepends=True), file)  # the file changed since
    assert not is_stub(works)


def test_what_has_no_python_code_is_no_stub():
    class Callable:
        def __call__(self, x): ...

    for thing in (print, torch.softmax, partial(lambda x: None), Callable(), Callable, torch.nn.Linear(1, 1), 3, None):
        assert not is_stub(thing)

"""Each example in a docstring of `mhalib` runs, and gives what it says."""

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def examples(source: str, path: Path) -> Iterator[doctest.DocTest]:
    """Yield the examples of a file, one test for each docstring that holds some; each imports what it uses."""
    parser = doctest.DocTestParser()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
            name = f"{path.stem}.{getattr(node, 'name', '')}"
            test = parser.get_doctest(said, {"__name__": "__main__"}, name, str(path), node.body[0].lineno - 1)
            if test.examples:
                yield test


def run(test: doctest.DocTest) -> list[str]:
    """Return what an example says otherwise than it is."""
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return said


FOUND = [
    test
    for path in sorted((ROOT / "mhalib").rglob("*.py"))
    for test in examples(path.read_text(encoding="utf-8"), path)
]


@pytest.mark.parametrize("test", FOUND, ids=[test.name for test in FOUND])
def test_an_example_gives_what_it_says(test, one_thread):
    assert run(test) == []


def test_an_example_that_says_something_else_is_seen():
    source = 'def f():\n    """Return 1.\n\n    Examples:\n        >>> 1 + 1\n        3\n    """\n'
    (wrong,) = examples(source, Path("f.py"))
    assert "Expected:\n    3\nGot:\n    2" in "".join(run(wrong))
    (right,) = examples(source.replace("3", "2"), Path("f.py"))
    assert run(right) == []

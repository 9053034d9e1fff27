"""Which lessons use a public name, and in which cell first: found by reading the code of their cells.

A name is used where a cell loads it, not where it is only imported; what a lesson defines by hand under the same name
is its own, until it imports ours. Functions and classes are seen, methods are not: whose they are, the code alone does
not say. Which names there are is said in `reference_names.py`.
"""

import ast
from collections.abc import Iterable, Mapping
from functools import cache

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from tools.site.reference_names import PACKAGE

Uses = dict[str, dict[str, str]]  # name -> lesson -> the id of the first cell that uses it


def uses(notebooks: Mapping[str, NotebookNode], paths: Iterable[str]) -> Uses:
    """Return where each name is used first.

    Args:
        notebooks: the lessons by the names of their files.
        paths: the full names under which a reader may import: "mhalib.split_heads", "mhalib.masks.to_additive".

    Returns:
        full name -> lesson -> id of the cell, without names that nobody uses. What is looked up in `check`, `predict`
        and `problem` stands there as well, as "mhalib.checks.check.split_heads".
    """
    found, known = {}, set(paths)
    for lesson, nb in notebooks.items():
        reader = _Reader(known)
        for cell in nb.cells:
            if cell.cell_type == "code":
                for path in reader.read(cell.source):
                    found.setdefault(path, {}).setdefault(lesson, cell.id)
    return found


def mentions(nb: NotebookNode, name: str) -> str | None:
    """Return the id of the first cell whose code holds the name, also where it is defined by hand; None if none."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            for node in ast.walk(parsed(cell.source)):
                if name in (getattr(node, "id", None), getattr(node, "name", None), getattr(node, "attr", None)):
                    return cell.id
    return None


@cache
def parsed(source: str) -> ast.Module:
    """Return the code of a cell as Python reads it, with IPython's own commands (`%run …`) as calls."""
    return ast.parse(TransformerManager().transform_cell(source))


class _Reader(ast.NodeVisitor):
    """Goes through the cells of one lesson in their order, and knows what each name stands for."""

    def __init__(self, known: set[str]):
        self.known = known
        self.bound: dict[str, str] = {}
        self.met: list[str] = []

    def read(self, source: str) -> list[str]:
        self.met = []
        self.visit(parsed(source))
        return self.met

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._bind(name, alias.name if alias.asname else name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name, f"{node.module}.{alias.name}")

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.generic_visit(node)
        self.bound.pop(node.name, None)

    visit_ClassDef = visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._meet(self.bound.get(node.id))
        else:
            self.bound.pop(node.id, None)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)  # before the name is taken: `claim = claim` reads ours
        for target in node.targets:
            self.visit(target)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            path.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.bound:
            self._meet(".".join([self.bound[inner.id], *reversed(path)]))
        else:
            self.visit(inner)

    def _bind(self, name: str, path: str) -> None:
        if path.partition(".")[0] == PACKAGE:
            self.bound[name] = path
        else:
            self.bound.pop(name, None)

    def _meet(self, path: str | None) -> None:
        """Note a public name, and of what is looked up in it the next name only."""
        parts = path.split(".") if path else []
        for length in range(len(parts), 1, -1):
            name = ".".join(parts[:length])
            if name in self.known:
                self.met.append(name)
                if len(parts) > length:
                    self.met.append(".".join(parts[: length + 1]))
                return

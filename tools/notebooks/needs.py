"""Which cells of a lesson need which: told by the names that they make and use, without executing them.

For `tests/lessons/test_notebooks.py`, which tries another seed, and a machine without the weights of the real model,
with the cells that train nothing. All of a lesson with other seeds: `make harden ONLY=seeds`.
"""

import ast
import copy
import re
import symtable
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

# A cell that uses one of these trains, or says how: functions of `mhalib.experiments`, an optimizer's step.
TRAINS = {"fit", "fit_together", "sweep", "compare_arms", "step"}
MAGIC = re.compile(r"^\s*[%!].*$", re.MULTILINE)  # lines that only IPython reads


def untrained(nb: NotebookNode) -> NotebookNode:
    """Return the notebook with only those lines of code that train nothing and need nothing trained.

    They run by themselves in a fresh kernel. A name is what the last statement before made of it; a statement that is
    left out takes along what it fills, such as `losses` in `losses.append(...)`.
    """
    left, trained, imported = copy.deepcopy(nb), set(), set()  # trained: names whose value hangs on a training
    for cell in (cell for cell in left.cells if cell.cell_type == "code"):
        lines = cell.source.split("\n")
        for statement in ast.parse(MAGIC.sub("", cell.source)).body:
            made, needed = names([statement])
            methods = [node.func for node in ast.walk(statement) if _calls_a_method(node)]
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                imported |= made
            elif not (needed | {method.attr for method in methods}) & TRAINS and not needed & trained:
                trained -= made
            else:
                trained |= made | {_root(method) for method in methods} - imported - {""}
                first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
                lines[first - 1 : statement.end_lineno] = [None] * (statement.end_lineno - first + 1)
        cell.source = "\n".join(line for line in lines if line is not None)
    return left


def names(statements: Iterable[ast.stmt]) -> tuple[set[str], set[str]]:
    """Return the names that these statements make, and those that they need: from before them, or when called."""
    made, needed = set(), set()
    for statement in _in_order(statements):
        source = ast.unparse(ast.fix_missing_locations(_WithGenerators().visit(copy.deepcopy(statement))))
        here, there = _of_table(symtable.symtable(source, "cell", "exec"))
        here |= {_root(node) for node in ast.walk(statement) if _changes_a_part(node)}
        own = {statement.name} if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else set()
        needed |= there - made - own
        made |= here
    return made, needed


def _in_order(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield what is done, one after the other; of a loop first what it goes through, then its body."""
    for statement in statements:
        match statement:
            case ast.For():
                yield ast.Assign([statement.target], statement.iter)
            case ast.If() | ast.While():
                yield ast.Expr(statement.test)
            case ast.With():
                for item in statement.items:
                    bound = item.optional_vars
                    yield ast.Assign([bound], item.context_expr) if bound else ast.Expr(item.context_expr)
            case ast.Try():
                pass
            case _:
                yield statement
                continue
        yield from _in_order(statement.body)
        for handler in getattr(statement, "handlers", ()):
            if handler.name:
                yield ast.Assign([ast.Name(handler.name, ast.Store())], handler.type)
            yield from _in_order(handler.body)
        yield from _in_order(getattr(statement, "orelse", ()))
        yield from _in_order(getattr(statement, "finalbody", ()))


class _WithGenerators(ast.NodeTransformer):
    """Turns comprehensions into generators: from Python 3.12 on, only these have a table of names of their own."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.GeneratorExp:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def _of_table(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    if table.get_type() == "module":
        symbols = table.get_symbols()
        made = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
        needed = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    else:
        made, needed = set(), {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    for inner in table.get_children():
        needed |= _of_table(inner)[1]
    return made, needed


def _changes_a_part(node: ast.AST) -> bool:
    """`models[seed] = …`, `view.head = …`, at the top of a cell or inside a function."""
    return isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _calls_a_method(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)

"""A lesson as its reader changes it: another seed, a size that the lesson offers, one number in every third cell.

Nothing is executed here: `harden.py` does it, for all that is offered, and `tests/test_notebooks.py`, with one other
seed, for what trains nothing (`needs.py`). What a reader is told where a claim does not hold stands in `mhalib.claims`.
"""

import ast
import re
from collections.abc import Iterator

import nbformat
from nbformat import NotebookNode

SEED = re.compile(r"^SEED = 0\b", re.MULTILINE)
# A size that the text invites to change: `T = 32  # or 16, 64`.
OFFERED = re.compile(r"^(\w+) = [^#\n]+?  # or (\S+(?:, \S+)*)$", re.MULTILINE)
EVERY = 3  # code cells from one changed number to the next
AFTERWARDS = 2  # cells that run with the changed number before it is set back
# Numbers that nobody plays with: what is claimed, which axis, where in a list.
SKIPPED_CALLS = {"check", "predict", "claim", "transpose", "permute", "view", "reshape", "flatten", "unflatten"}
SKIPPED_OPTIONS = {"dim", "axis", "atol", "rtol", "decimals", "figsize", "start_dim", "end_dim"}


def put_in_seed(nb: NotebookNode, seed: int) -> None:
    """Let the lesson begin with another seed than 0, in place.

    Raises:
        ValueError: the lesson has not exactly one line `SEED = 0`.
    """
    places = [cell for cell in nb.cells if cell.cell_type == "code" and SEED.search(cell.source)]
    if len(places) != 1:
        raise ValueError(f"a lesson sets its seed once, in a line `SEED = 0`; found {len(places)} such cells")
    places[0].source = SEED.sub(f"SEED = {seed}", places[0].source)


def sizes_offered(nb: NotebookNode) -> Iterator[tuple[NotebookNode, str, str]]:
    """Yield each cell with a size that may be changed, the line as it is, and the line with another size."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            for line in OFFERED.finditer(cell.source):
                for other in line[2].split(", "):
                    yield cell, line[0], f"{line[1]} = {other}"


def numbers(source: str) -> list[ast.Constant]:
    """Return the numbers of a cell that a reader might change, in the order in which they stand."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    skipped = {part for node in ast.walk(tree) if _is_skipped(node) for part in ast.walk(node)}
    skipped |= {part for node in ast.walk(tree) if isinstance(node, ast.Subscript) for part in ast.walk(node.slice)}
    found = [node for node in ast.walk(tree) if _is_number(node) and node not in skipped]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def another(value: float) -> float:
    """Return what a reader might type in the place of a number: the next one, or a decimal half as large again."""
    return value + 1 if isinstance(value, int) else round(1.5 * value, 6)


def with_one_changed(source: str) -> tuple[str, str] | None:
    """Return the cell with its middle number changed, and what was changed; None where there is none to change."""
    found = numbers(source)
    if not found:
        return None
    chosen = found[len(found) // 2]
    lines = source.split("\n")
    line = lines[chosen.lineno - 1].encode()  # ast counts bytes
    start, end = chosen.col_offset, chosen.end_col_offset
    new = repr(another(chosen.value))
    lines[chosen.lineno - 1] = (line[:start] + new.encode() + line[end:]).decode()
    return "\n".join(lines), f"{line[start:end].decode()} -> {new} in `{line.decode().strip()}`"


def walk(nb: NotebookNode) -> NotebookNode:
    """Return the lesson as somebody plays with it.

    In every third cell, or the next that holds one, a number is changed; the cells after it run with it; then all of
    them run once more as they came. What is changed stands in the metadata of a cell: `changed` where it was typed,
    `after` in those behind it.
    """
    cells = [cell for cell in nb.cells if cell.cell_type == "code"]
    played = nbformat.v4.new_notebook()

    def add(source: str, **what: str) -> None:
        played.cells.append(nbformat.v4.new_code_cell(source, metadata=what))

    last = -1
    for number, cell in enumerate(cells):
        add(cell.source)
        other = with_one_changed(cell.source) if number - last >= EVERY else None
        if other:
            last = number
            source, what = other
            following = [after.source for after in cells[number + 1 : number + 1 + AFTERWARDS]]
            add(source, changed=what)
            for after in following:
                add(after, after=what)
            for back in (cell.source, *following):
                add(back)
    return played


def _is_skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        called = {part.id for part in ast.walk(node.func) if isinstance(part, ast.Name)}
        return bool((called | {getattr(node.func, "attr", "")}) & SKIPPED_CALLS)
    if isinstance(node, ast.keyword):
        return node.arg in SKIPPED_OPTIONS
    return isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)

"""What a cell of code is to its reader: story, helper or proof, said by a tag.

Story is what one reads and changes. A *helper* (a plot, a loop over seeds, the imports) and a *proof* (the claims of
the text, tried) are folded where a front end can fold, and open on a click; JupyterLab shows the first line of what it
folds, so that line is its title, `# Proof: ten seeds agree`. The tag is said once, in the cell's metadata; whether its
source is hidden follows from it.
"""

import ast
import io
import tokenize

from nbformat import NotebookNode

from tools.notebooks.plain import COLAB

HELPER, PROOF = "helper", "proof"
FOLDED = (HELPER, PROOF)


def kind(cell: NotebookNode) -> str:
    """Return "story", "helper" or "proof" for a cell of code."""
    return next((tag for tag in cell.metadata.get("tags", []) if tag in FOLDED), "story")


def folded(cell: NotebookNode) -> bool:
    """Whether a front end folds this cell."""
    return cell.cell_type == "code" and kind(cell) in FOLDED


def title(cell: NotebookNode) -> str:
    """Return what is seen of a folded cell: its first line, without the sign of a comment."""
    return cell.source.split("\n", 1)[0].removeprefix("# ")


def lacks_title(cell: NotebookNode) -> str | None:
    """Return what is wrong with the first line of a folded cell, or None."""
    opening = f"# {kind(cell).capitalize()}: "
    line = cell.source.split("\n", 1)[0]
    fits = line.startswith(opening) and 8 <= len(line.removeprefix(opening)) <= 70 and not line.endswith(".")
    return None if fits else f"it must open with `{opening}…`, of at most 70 letters, got {line[:80]!r}"


def lines_of(source: str) -> int:
    """Return how many lines of code a reader sees: empty ones are none."""
    return sum(bool(line.strip()) for line in source.splitlines())


def visible_lines(nb: NotebookNode) -> list[int]:
    """Return the lines of each cell of code that is not folded."""
    code = [cell for cell in nb.cells if cell.cell_type == "code" and cell.source.strip()]
    return [lines_of(cell.source) for cell in code if not folded(cell) and cell.id != COLAB]


def words_in(source: str) -> str:
    """Return what code says in words: its comments and its texts, one a line."""
    said = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            said.append(token.string.removeprefix("#").strip())
        elif token.type == tokenize.STRING and not token.string.startswith(("f", "b")):
            said.append(str(ast.literal_eval(token.string)))
    return "\n".join(said)

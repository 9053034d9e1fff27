"""Turn a lesson into the cells of a slide show: what is projected, and what the teacher says.

How a cell enters the show is said by its own slide type, which JupyterLab's property inspector edits: it begins a
slide or a subslide, appears at the next key (fragment), goes on with what was there ("-"), is for the speaker only
(notes), or is left out (skip). What answers a prediction waits for a key in any case; what does, `answers.py` says.
One cell of text may go on over several slides: a heading inside it begins the next one, a prediction stands alone on
one, so that the answer comes after it. Of a paragraph a slide shows the first sentence; the whole paragraph is in the
speaker notes (press S). What a lesson folds stays off the slides: proofs, and the code of helpers. Where a slide starts
and ends is nbconvert's business, what it looks like that of `deck`.
"""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.notebooks.kinds import PROOF, folded
from tools.notebooks.kinds import kind as kind_of

REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")
WHOLE = ("|", "#", "- ", "* ", "1. ", "```", "![", "$$", "*Question", "<")  # shown as they are
SLIDE_TYPES = ("slide", "subslide", "fragment", "-", "notes", "skip")
# What stands between empty lines; those inside a fenced block of code are none.
BLOCKS = re.compile(r"(?:^```[^\n]*\n.*?^```[^\n]*\n?|^[^\n]*\S[^\n]*\n?)+", re.MULTILINE | re.DOTALL)


def as_slides(nb: NotebookNode) -> NotebookNode:
    """Return the lesson with its cells of text cut into what a slide shows and what is said to it."""
    cells: list[NotebookNode] = []
    for cell in nb.cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type") or "-"  # JupyterLab 4 writes "" for its "-"
        if kind == "-" and cell.metadata.get("site", {}).get("late"):
            kind = "fragment"  # not before what the cell above it puts out
        if kind != "skip" and not (folded(cell) and (kind_of(cell) == PROOF or not cell.outputs)):
            cells += [cell] if cell.cell_type == "code" or kind == "notes" else cut(cell.source, kind)
    return new_notebook(cells=cells)


def cut(source: str, kind: str) -> list[NotebookNode]:
    """Return the parts of a text that begins as `kind` says."""
    parts: list[NotebookNode] = []

    def add(text: str, kind: str) -> None:
        parts.append(new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}}))

    for block in (found.strip() for found in BLOCKS.findall(source)):
        predict = block.startswith("**Predict")
        if parts and block.startswith("## "):  # the first block begins as the cell does
            kind = "slide"
        elif parts:
            alone = (predict or block.startswith("### ")) and not parts[-1].source.startswith("#")
            kind = "subslide" if alone else "-"
        if predict:
            add(f'<div class="predict">\n\n{block}\n\n</div>', kind)
        elif block.startswith(WHOLE) or first_sentence(block) == block:
            add(block, kind)
        else:
            add(first_sentence(block), kind)
            add(block, "notes")
    return parts


def first_sentence(paragraph: str) -> str:
    """Return the first sentence; a paragraph that is short anyway stays whole."""
    if len(" ".join(paragraph.split())) <= 160:
        return paragraph
    # A sentence ends before a capital letter, and not inside code, maths or bold print.
    for end in re.finditer(r"[.?](?=\s+[A-Z*`$\[(])", paragraph):
        start = paragraph[: end.end()]
        if all(start.count(mark) % 2 == 0 for mark in ("`", "$", "**")) and len(start) > 30:
            return start
    return paragraph


def share(out: Path) -> None:
    """Put reveal.js into the folder, from the package that carries it."""
    package = Path(find_spec("sphinx_revealjs").origin).parent / "_static" / "revealjs"
    out.mkdir(parents=True)
    for name in REVEAL:
        shutil.copy(package / name, out)

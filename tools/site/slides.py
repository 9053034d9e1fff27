"""Turn a lesson into the cells of a slide show: what is projected, and what the teacher says.

    python -m tools.site.slides [--out slides] [notebooks/NN_name.ipynb …]

A slide shows a heading, a question to predict, a piece of code with what came out, a table, a formula. Of a paragraph it
shows the first sentence; the whole paragraph is in the speaker notes (press S). A prediction stands on a slide of its own and the
answer on the next one. The exercises are listed, not their cells. What a slide looks like is said in `tools/site/deck`.
"""

import argparse
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.notebooks.run import NOTEBOOKS, ROOT
from tools.notebooks.store import NotebookError
from tools.site.export import TEMPLATES, DeckExporter
from tools.site.live import executed

LINES = 14  # of code that share a slide
REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")


def as_slides(nb: NotebookNode) -> NotebookNode:
    """Return the lesson as a notebook whose cells say what part of a slide they are."""
    cells: list[NotebookNode] = []
    room = 0  # lines of code that the slide can still take

    def fresh() -> bool:
        """Whether the slide so far holds a heading and nothing else."""
        if not cells or cells[-1].metadata.slideshow["slide_type"] == "-":
            return False
        return re.fullmatch(r"##+ .*", cells[-1].source) is not None

    def add(kind: str, source: str) -> None:
        if kind == "subslide" and fresh():
            kind = "-"
        cell = new_markdown_cell(source)
        cell.metadata.slideshow = {"slide_type": kind}
        cells.append(cell)

    exercises = False
    for cell in nb.cells:
        if cell.cell_type == "code":
            lines = len(cell.source.splitlines())
            if exercises or not cell.source.strip():
                continue
            cell.metadata.slideshow = {"slide_type": "-" if lines <= room else "subslide"}
            room = 0 if cell.outputs else (room if lines <= room else LINES) - lines
            cells.append(cell)
            continue
        for block in blocks(cell.source):
            if block.startswith("## "):
                exercises = block.startswith("## Try it")
                add("slide", block)
                room = 0
            elif block.startswith(("### ", "![")):
                add("subslide", block)
                room = 0
            elif block.startswith("# ") and not cells:
                add("slide", block)
            elif "**Predict" in block and not block.startswith(("|", "- ")):
                add("subslide", f'<div class="predict">\n\n{block}\n\n</div>')
                room = 0
            elif exercises and not block.startswith("**"):
                add("notes", block)
            elif block.startswith(("|", "#", "- ", "* ", "1. ", "```", "![", "$$", "*Question", "<")):
                add("-" if cells and len(block) < 400 else "subslide", block)
                room = 0
            else:
                say = first_sentence(block)
                add("-", say)
                if say != block:
                    add("notes", block)
    merged = nb.copy()
    merged.cells = with_notes_last(cells)
    return merged


def blocks(markdown: str) -> list[str]:
    """Cut markdown at its empty lines, but not inside a fenced block of code."""
    found, fenced = [""], False
    for line in markdown.strip().splitlines():
        fenced ^= line.startswith("```")
        if line.strip() or fenced:
            found[-1] += line + "\n"
        elif found[-1]:
            found.append("")
    return [block.strip() for block in found if block.strip()]


def first_sentence(paragraph: str) -> str:
    """Return the first sentence; a paragraph that is short anyway stays whole."""
    text = " ".join(paragraph.split())
    if len(text) <= 160:
        return text
    # A sentence ends before a capital letter, and not inside code, maths or bold print.
    for end in re.finditer(r"[.?](?=\s+[A-Z*`$\[(])", text):
        start = text[: end.end()]
        if start.count("`") % 2 == 0 and start.count("$") % 2 == 0 and start.count("**") % 2 == 0 and len(start) > 30:
            return start
    return text


def with_notes_last(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Return the cells with each slide's notes joined into one, at the end of that slide."""
    result: list[NotebookNode] = []
    notes: list[str] = []

    def finish() -> None:
        if notes:
            cell = new_markdown_cell("\n\n".join(notes))
            cell.metadata.slideshow = {"slide_type": "notes"}
            result.append(cell)
            notes.clear()

    for cell in cells:
        kind = cell.metadata.slideshow["slide_type"]
        if kind == "notes":
            notes.append(cell.source)
            continue
        if kind in ("slide", "subslide"):
            finish()
        result.append(cell)
    finish()
    return result


def write(paths: list[Path], out: Path) -> None:
    """Write one page of slides for each lesson, and beside them the files of reveal.js that they need."""
    exporter = DeckExporter()
    out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        nb = as_slides(executed(path))
        title = re.match(r"# (.+)", nb.cells[0].source).group(1)
        html, _ = exporter.from_notebook_node(nb, {"page": {"name": path.stem, "title": title}})
        (out / f"{path.stem}.html").write_text(html, encoding="utf-8")
    for name in ("theme.js", "page.css", "deck.css", "deck.js"):
        shutil.copy(TEMPLATES / name, out)
    package = Path(find_spec("sphinx_revealjs").origin).parent / "_static" / "revealjs"
    for name in REVEAL:
        (out / "reveal").mkdir(exist_ok=True)
        shutil.copy(package / name, out / "reveal" / Path(name).name)
    shutil.copytree(ROOT / "images", out / "images", dirs_exist_ok=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Show lessons as slides.")
    parser.add_argument("paths", nargs="*", type=Path, help="these lessons only")
    parser.add_argument("--out", type=Path, default=ROOT / "slides", help="the folder for the slides")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    paths = [path.resolve() for path in options.paths] or sorted(NOTEBOOKS.glob("*.ipynb"))
    try:
        write(paths, out)
    except NotebookError as error:
        sys.exit(f"a lesson cannot be executed: {error}")
    for path in paths:
        print(f"open {(out / path.stem).as_uri()}.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())

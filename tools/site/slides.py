"""Turn a lesson into the cells of a slide show: what is projected, and what the teacher says.

    python -m tools.site.slides [--out slides] [notebooks/NN_name.ipynb …]

How a cell enters the show is said by its own slide type, which JupyterLab's property inspector edits: it begins a
slide or a subslide, appears at the next key (fragment), goes on with what was there ("-"), is for the speaker only
(notes), or is left out (skip). What answers a prediction waits for a key in any case; what does, `answers.py` says.
One cell of text may go on over several slides: a heading inside it begins the next one, a prediction stands alone on
one, so that the answer comes after it. Of a paragraph a slide shows the first sentence; the whole paragraph is in the
speaker notes (press S). What a slide looks like is said in `tools/site/deck`.
"""

import argparse
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from mhalib.widgets.base import with_texts_once
from tools.notebooks.lessons import introduce
from tools.notebooks.run import NOTEBOOKS, ROOT
from tools.notebooks.store import NotebookError
from tools.notebooks.which import chosen_by
from tools.site.answers import cover
from tools.site.export import TEMPLATES, DeckExporter
from tools.site.live import all_executed
from tools.site.places import lead_links

REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js", "LICENSE")
WHOLE = ("|", "#", "- ", "* ", "1. ", "```", "![", "$$", "*Question", "<")  # shown as they are
SLIDE_TYPES = ("slide", "subslide", "fragment", "-", "notes", "skip")


def as_slides(nb: NotebookNode) -> NotebookNode:
    """Return the lesson with its cells of text cut into what a slide shows and what is said to it."""
    cells: list[NotebookNode] = []
    for cell in nb.cells:
        kind = slide_type(cell)
        if kind == "skip":
            continue
        if kind == "-" and cell.metadata.get("site", {}).get("late"):
            kind = "fragment"  # not before what the cell above it puts out
        cells += [cell] if cell.cell_type == "code" or kind == "notes" else cut(cell.source, kind)
    shown = nb.copy()
    shown.cells = with_notes_last(cells)
    return shown


def slide_type(cell: NotebookNode) -> str:
    return cell.metadata.get("slideshow", {}).get("slide_type") or "-"  # JupyterLab 4 writes "" for its "-"


def cut(source: str, kind: str) -> list[NotebookNode]:
    """Return the parts of a text that begins as `kind` says."""
    parts: list[NotebookNode] = []

    def add(kind: str, text: str) -> None:
        cell = new_markdown_cell(text)
        cell.metadata.slideshow = {"slide_type": kind}
        parts.append(cell)

    for block in blocks(source):
        predict = "**Predict" in block and not block.startswith(("|", "- "))
        if parts:  # the first block begins as the cell does
            kind = next_kind(parts[-1].source, block, predict)
        if predict:
            add(kind, f'<div class="predict">\n\n{block}\n\n</div>')
        elif block.startswith(WHOLE):
            add(kind, block)
        else:
            say = first_sentence(block)
            add(kind, say)
            if say != block:
                add("notes", block)
    return parts


def next_kind(above: str, block: str, predict: bool) -> str:
    """Return what a block in the middle of a text begins: a slide, a part of one, or nothing."""
    if block.startswith("## "):
        return "slide"
    if (predict or block.startswith("### ")) and not above.startswith("#"):
        return "subslide"
    return "-"


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
        kind = slide_type(cell)
        if kind == "notes":
            notes.append(cell.source)
            continue
        if kind in ("slide", "subslide"):
            finish()
        result.append(cell)
    finish()
    return result


def write(lessons: dict[str, NotebookNode], out: Path, notes: str | None = None) -> None:
    """Write one page of slides for each lesson, and beside them what they need.

    Args:
        lessons: by the names of their files, without the ending; executed, and read by `answers.cover`.
        out: the folder.
        notes: where the pages beside the lessons are from there; None where there are none, then no link leads there.
    """
    exporter = DeckExporter()
    out.mkdir(parents=True, exist_ok=True)
    for name, nb in lessons.items():
        page = {"name": name, "title": introduce(nb, name).heading, "notes": notes}
        html, _ = exporter.from_notebook_node(as_slides(nb), {"page": page})
        (out / f"{name}.html").write_text(with_texts_once(html), encoding="utf-8")
    share(out, pictures=notes is None)


def share(out: Path, pictures: bool) -> None:
    """Put into the folder what all shows need: their style, reveal.js and, where no pages have them, the pictures."""
    for name in ("theme.js", "page.css", "deck.css", "deck.js", "results.js"):
        shutil.copy(TEMPLATES / name, out)
    package = Path(find_spec("sphinx_revealjs").origin).parent / "_static" / "revealjs"
    for name in REVEAL:
        (out / "reveal").mkdir(exist_ok=True)
        shutil.copy(package / name, out / "reveal" / Path(name).name)
    if pictures:
        shutil.copytree(ROOT / "images", out / "images", dirs_exist_ok=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Show lessons as slides.")
    parser.add_argument("paths", nargs="*", help="these lessons only: files, or 05, or torch")
    parser.add_argument("--out", type=Path, default=ROOT / "slides", help="the folder for the slides")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    paths = chosen_by(parser, options.paths, NOTEBOOKS)
    try:
        lessons = all_executed(paths)
    except NotebookError as error:
        sys.exit(f"a lesson cannot be executed: {error}")
    for nb in lessons.values():
        cover(nb)
    write(lessons, out)
    lead_links(out)
    for name in lessons:
        print(f"open {(out / name).as_uri()}.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())

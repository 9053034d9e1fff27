"""What are you looking for? Questions in a reader's own words, each with the cell that answers it.

    python -m tools.site.questions

They stand in `questions.txt`, a line each, and nowhere else. The first page of the site offers them in a box that
filters while one types; the README lists them, folded, and this command writes them there.
"""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from nbformat import NotebookNode

from tools.links import headings
from tools.notebooks.run import NOTEBOOKS, ROOT, read
from tools.notebooks.which import short

SOURCE = Path(__file__).with_name("questions.txt")
README = ROOT / "README.md"
SECTION = re.compile(r"(?<=^## What are you looking for\?\n\n).+?(?=^## )", re.MULTILINE | re.DOTALL)
STRING = re.compile(r"""(["'])((?:(?!\1)[^\n]){12,})\1""")  # long enough to be a sentence


class Question(NamedTuple):
    """A line of the source: what is asked, the file that answers, the id of its cell, and words of that cell."""

    asked: str
    notebook: str
    cell: str
    words: str


def questions() -> list[Question]:
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    return [Question(*line.split(" | ")) for line in lines if line and not line.startswith("#")]


def heading_above(nb: NotebookNode, question: Question) -> str:
    """Return the last heading that stands above the words that answer; JupyterLab names none that holds a formula."""
    at = [cell.id for cell in nb.cells].index(question.cell)
    here = nb.cells[at].source.partition(question.words)
    above = [cell.source for cell in nb.cells[:at] if cell.cell_type == "markdown"]
    above.append("".join(here[:2]) + here[2].partition("\n")[0] if nb.cells[at].cell_type == "markdown" else "")
    return [text for text in headings("\n\n".join(above)) if "$" not in text][-1]


def box(notebooks: dict[str, NotebookNode]) -> list[dict]:
    """Return the questions that these notebooks answer, as the box of the first page has them.

    A question is found by its own words, and by what the answering cell says: its text, or the sentences of its code.
    """
    rows = []
    for one in questions():
        name = Path(one.notebook).stem
        if nb := notebooks.get(name):
            (cell,) = (cell for cell in nb.cells if cell.id == one.cell)
            said = cell.source if cell.cell_type == "markdown" else " ".join(x[2] for x in STRING.finditer(cell.source))
            said = re.sub(r"\]\([^)]*\)|[\[\]`*$#{}]", "", said)
            where = f"{short(Path(name))} · {heading_above(nb, one)}"
            words = " ".join(f"{one.asked} {where} {said}".lower().split())
            rows.append({"asked": one.asked, "href": f"{name}.html#{one.cell}", "where": where, "words": words})
    return rows


def in_readme(text: str) -> str:
    """Return the README with these questions in the place of those that it has."""
    rows = []
    for one in questions():
        heading = heading_above(read(NOTEBOOKS / one.notebook), one)
        place = quote(heading.replace(" ", "-"), safe="-,?!:'./=·éü√")
        asked = re.sub(r"([\[\]*_<>])", r"\\\1", one.asked)
        rows.append(f"- [{asked}](notebooks/{one.notebook}#{place}) · {short(Path(one.notebook))}\n")
    summary = f"<summary>{len(rows)} questions, each with a link to the run that answers it</summary>"
    return SECTION.sub(lambda _: f"<details>\n{summary}\n\n{''.join(rows)}\n</details>\n\n", text)


if __name__ == "__main__":
    README.write_text(in_readme(README.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")

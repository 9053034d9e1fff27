"""What are you looking for? Questions in a reader's own words, each with the cell that answers it.

    python -m tools.site.questions

They stand in `questions.txt`, a line each, and nowhere else. The first page of the site offers them in a box that
filters while one types; the README lists them, folded, and this command writes them there. That each leads to a cell
that still says the words, is tested in `tests/test_questions.py`.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from nbformat import NotebookNode

from tools.links import headings
from tools.notebooks.run import NOTEBOOKS, ROOT, read
from tools.notebooks.which import short

SOURCE = Path(__file__).with_name("questions.txt")
README = ROOT / "README.md"
HEADING = "## What are you looking for?"
STRING = re.compile(r"""(["'])((?:(?!\1)[^\n]){12,})\1""")  # long enough to be a sentence
SECTION = re.compile(rf"^{re.escape(HEADING)}\n.+?(?=^## )", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Question:
    """A line of the source."""

    asked: str
    notebook: str  # its file
    cell: str  # its id
    words: str  # of that cell

    @property
    def path(self) -> Path:
        return NOTEBOOKS / self.notebook

    @property
    def href(self) -> str:
        """Where it leads on the site."""
        return f"{self.path.stem}.html#{self.cell}"


def questions(text: str | None = None) -> list[Question]:
    """Return the questions, or those of a text that is written as the source is.

    Raises:
        ValueError: a line has not four parts.
    """
    found = []
    for line in (text or SOURCE.read_text(encoding="utf-8")).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 4 or not all(parts):
            raise ValueError(f"expected `question | notebook | id of the cell | words of it`, got {line!r}")
        found.append(Question(*parts))
    return found


def cell_of(question: Question, nb: NotebookNode) -> NotebookNode | None:
    """Return the cell that answers, or None where the notebook has no such cell."""
    return next((cell for cell in nb.cells if cell.id == question.cell), None)


def heading_above(nb: NotebookNode, question: Question) -> str:
    """Return the last heading that stands above the words that answer; JupyterLab names none that holds a formula."""
    above = ""
    for cell in nb.cells:
        here = cell.id == question.cell
        if cell.cell_type == "markdown":
            before, words, after = cell.source.partition(question.words)
            source = before + words + after.partition("\n")[0] if here else cell.source
            above = ([text for text in headings(source) if "$" not in text] or [above])[-1]
        if here:
            return above
    raise ValueError(f"{question.notebook} has no cell {question.cell}")


def said(question: Question, nb: NotebookNode) -> str:
    """Return what the box finds a question by besides its own words: what the answering cell says."""
    cell = cell_of(question, nb)
    texts = [cell.source] if cell.cell_type == "markdown" else [found[2] for found in STRING.finditer(cell.source)]
    return " ".join(re.sub(r"\]\([^)]*\)|[\[\]`*$#{}]", "", " ".join(texts)).split())


def section(asked: list[Question]) -> str:
    """Return what the README says of them."""
    stored = {name: read(NOTEBOOKS / name) for name in dict.fromkeys(question.notebook for question in asked)}
    rows = []
    for question in asked:
        place = heading_above(stored[question.notebook], question).replace(" ", "-")
        place = quote(place, safe="-,?!:'./=·éü√")
        text = re.sub(r"([\[\]*_<>])", r"\\\1", question.asked)
        rows.append(f"- [{text}](notebooks/{question.notebook}#{place}) · {short(question.path)}")
    intro = f"<details>\n<summary>{len(asked)} questions, each with the place that answers it by a run</summary>\n\n"
    return f"{HEADING}\n\n{intro}" + "\n".join(rows) + "\n\n</details>\n\n"


def in_readme(text: str, asked: list[Question]) -> str:
    """Return the README with these questions in the place of those that it has."""
    if not SECTION.search(text):
        raise ValueError(f"expected a section {HEADING!r} in README.md, found none")
    return SECTION.sub(lambda _: section(asked), text, count=1)


def main() -> int:
    before = README.read_text(encoding="utf-8")
    after = in_readme(before, questions())
    if after != before:
        README.write_text(after, encoding="utf-8", newline="\n")
        print("README.md: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Which parts of a lesson answer a prediction: its page covers them, its slides keep them for the next key.

From a paragraph with **Predict** to the next one, or to the next heading, the outputs of code and the cells of text
answer, and so does code that claims, for a claim says in words what comes out. Other code stays in sight, and so does a
cell that asks, `predict.name()`. What answers is covered by an attribute in
the page itself, so that it is never painted before; `page.css` takes no notice of that where JavaScript is missing or
the reader wants to see all, and `answers.js` uncovers.
"""

import re
from dataclasses import dataclass, field

from bs4 import BeautifulSoup, Tag
from nbformat import NotebookNode

from tools.site.export import text_html

ASKS = re.compile(r"predict\.\w+\(\)")  # a cell that shows choices, or a field for a number
CLAIMS = re.compile(r"^\s*claim\(", re.MULTILINE)
CUTS = re.compile(r"<h[1-6]|<strong>Predict\b")  # a text without them is one piece
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


@dataclass
class Question:
    """A prediction: what asks, by its id; the last cell that does; and what answers, by their ids."""

    number: int
    said_in: str
    cell: NotebookNode
    parts: list[str] = field(default_factory=list)

    def new_part(self) -> str:
        self.parts.append(f"answer-{self.number}-{len(self.parts) + 1}")
        return self.parts[-1]


def cover(nb: NotebookNode) -> list[Question]:
    """Write into each cell's metadata, as `site`, what it is to a prediction, and return the predictions.

    `html` is a text with what answers in it wrapped, and it is `late` where it begins below a prediction; `part` is the
    id of outputs that answer, `code` that of code that does, `asks` the number of the prediction whose choices a cell
    shows; `button`, on the last cell that asks, says what a button below it uncovers.
    """
    reader = _Reader()
    for cell in nb.cells:
        cell.metadata["site"] = NotebookNode()
        if cell.cell_type == "markdown":
            cell.metadata.site.late = reader.open is not None
            cell.metadata.site.html = reader.text(cell)
        elif cell.cell_type == "code":
            reader.code(cell)
    for question in reader.questions:
        if question.parts:
            button = {"asked": question.said_in, "parts": " ".join(question.parts)}
            question.cell.metadata.site.button = NotebookNode(button)
    return reader.questions


class _Reader:
    """Goes through the cells of a lesson and remembers what they answer."""

    def __init__(self):
        self.questions: list[Question] = []
        self.open: Question | None = None

    def ask(self, said_in: str, cell: NotebookNode) -> Question:
        self.open = Question(len(self.questions) + 1, said_in, cell)
        self.questions.append(self.open)
        return self.open

    def code(self, cell: NotebookNode) -> None:
        if ASKS.fullmatch(cell.source.strip()):
            if self.open is None or self.open.parts:
                self.ask(cell.id, cell)  # it has no paragraph of its own
            self.open.cell, cell.metadata.site.asks = cell, self.open.number
        elif self.open and cell.get("outputs"):
            if CLAIMS.search(cell.source):
                cell.metadata.site.code = self.open.new_part()
            cell.metadata.site.part = self.open.new_part()

    def text(self, cell: NotebookNode) -> str:
        whole = text_html(cell.source)
        if not CUTS.search(whole):
            return self.wrapped(whole)
        html, covered = "", ""
        asked_here = None  # the rest of the cell that asks belongs to the question
        for block in BeautifulSoup(whole, "html.parser").contents:
            asks = _is_question(block)
            if asks or block.name in HEADINGS:
                html, covered, self.open = html + self.wrapped(covered), "", None
            if asks:
                block["id"] = f"predict-{len(self.questions) + 1}"
                asked_here = self.ask(block["id"], cell)
            if self.open and self.open is not asked_here:
                covered += str(block)
            else:
                html += str(block)
        return html + self.wrapped(covered)

    def wrapped(self, html: str) -> str:
        """Return a text as it stands on the page: within a part that answers, where a question is open."""
        if self.open is None or not html.strip():
            return html
        return f'<div class="answer" id="{self.open.new_part()}" hidden="until-found">{html}</div>'


def _is_question(block) -> bool:
    """Whether this is a paragraph with **Predict**; in lists and tables the word is spoken of, not meant."""
    bold = block.find_all("strong", recursive=False) if isinstance(block, Tag) and block.name == "p" else []
    return any(re.match(r"Predict\b", part.get_text()) for part in bold)

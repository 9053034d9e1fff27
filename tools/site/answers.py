"""Which parts of a lesson answer a prediction: its page covers them, its slides keep them for the next key.

From a paragraph that begins with **Predict** to the next one, or to the next heading, the outputs of code and the cells
of text answer, and so does code that claims, for a claim says in words what comes out. Other code stays in sight, and
so does a cell that asks, `predict.name()`. What answers is covered by an attribute in the page itself, so that it is
never painted before; `page.css` takes no notice of that where JavaScript is missing or the reader wants to see all, and
`answers.js` uncovers.
"""

import re
from dataclasses import dataclass, field

from bs4 import BeautifulSoup, Tag
from nbformat import NotebookNode

from tools.site.export import text_html

ASKS = re.compile(r"predict\.\w+\(\)")  # a cell that shows choices, or a field for a number
CLAIMS = re.compile(r"^\s*claim\(", re.MULTILINE)


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
    questions: list[Question] = []
    current: Question | None = None  # which is being answered
    for cell in nb.cells:
        mark = cell.metadata["site"] = NotebookNode()
        if cell.cell_type == "markdown":
            mark.late = current is not None
            mark.html, current = _text(cell, questions, current)
        elif cell.cell_type == "code" and ASKS.fullmatch(cell.source.strip()):
            if current is None or current.parts:  # it has no paragraph of its own
                current = Question(len(questions) + 1, cell.id, cell)
                questions.append(current)
            current.cell, mark.asks = cell, current.number
        elif current and cell.get("outputs"):
            if CLAIMS.search(cell.source):
                mark.code = current.new_part()
            mark.part = current.new_part()
    for question in questions:
        if question.parts:
            question.cell.metadata.site.button = {"asked": question.said_in, "parts": " ".join(question.parts)}
    return questions


def _text(cell: NotebookNode, questions: list[Question], current: Question | None) -> tuple[str, Question | None]:
    """Return a cell of text as it stands on the page, and the question that is being answered below it."""
    html, covered = "", ""
    asked_here = None  # the rest of the cell that asks belongs to the question
    for block in BeautifulSoup(text_html(cell.source), "html.parser").contents:
        asks = _is_question(block)
        if asks or re.fullmatch("h[1-6]", block.name or ""):
            html, covered, current = html + _wrapped(covered, current), "", None
        if asks:
            current = asked_here = Question(len(questions) + 1, f"predict-{len(questions) + 1}", cell)
            block["id"] = current.said_in
            questions.append(current)
        if current and current is not asked_here:
            covered += str(block)
        else:
            html += str(block)
    return html + _wrapped(covered, current), current


def _wrapped(html: str, current: Question | None) -> str:
    if not html.strip() or current is None:
        return html
    return f'<div class="answer" id="{current.new_part()}" hidden="until-found">{html}</div>'


def _is_question(block) -> bool:
    """Whether this is a paragraph that begins with **Predict**; elsewhere the word is spoken of, not meant."""
    first = block.contents[0] if isinstance(block, Tag) and block.name == "p" and block.contents else None
    return isinstance(first, Tag) and first.name == "strong" and first.get_text().startswith("Predict")

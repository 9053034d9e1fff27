"""What are you looking for? Each question leads to a cell that answers it, and README and site say the same."""

import re

from tools.links import broken
from tools.notebooks.run import ROOT, read
from tools.notebooks.which import notebook_files
from tools.site import questions as tool
from tools.site.questions import cell_of, heading_above, in_readme, questions, said, section

HOW_MANY = 30
ASKED = questions()
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_there_are_as_many_as_there_should_be_and_no_two_lead_to_one_cell():
    assert len(ASKED) == HOW_MANY
    assert len({question.asked.lower() for question in ASKED}) == len({question.href for question in ASKED}) == HOW_MANY


def test_a_question_leads_to_a_cell_that_still_says_the_answer():
    wrong = []
    for question in ASKED:
        assert question.path in notebook_files(tool.NOTEBOOKS), question
        nb = read(question.path)
        cell = cell_of(question, nb)
        if cell is None or question.words not in cell.source:
            wrong.append(f"{question.notebook}, {question.cell}: {question.asked}")
        elif heading_above(nb, question) in ("", "Try it", "What you now know") or len(said(question, nb).split()) < 4:
            wrong.append(f"{question.notebook}, {question.cell}: no place for an answer")
    assert wrong == []


def test_the_readme_lists_them_as_the_source_does():
    assert in_readme(README, ASKED) == README, "run python -m tools.site.questions"
    assert README.count(tool.HEADING) == 1 and README.index("## The road") < README.index(tool.HEADING)
    assert broken(section(ASKED), ROOT / "README.md", ROOT) == []
    assert len(re.findall(r"^- \[", section(ASKED), re.MULTILINE)) == HOW_MANY

"""What are you looking for? Each question leads to a cell that answers it, and README and site say the same."""

import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.links import broken
from tools.notebooks.run import ROOT, read
from tools.notebooks.which import notebook_files
from tools.site import questions as tool
from tools.site.questions import Question, cell_of, heading_above, in_readme, questions, said, section

HOW_MANY = 30
ASKED = questions()
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_there_are_as_many_as_there_should_be_and_no_two_lead_to_one_cell():
    assert len(ASKED) == HOW_MANY
    assert len({question.asked.lower() for question in ASKED}) == len({question.href for question in ASKED}) == HOW_MANY


@pytest.mark.parametrize("question", ASKED, ids=[question.asked[:40] for question in ASKED])
def test_a_question_leads_to_a_cell_that_still_says_the_answer(question):
    assert question.path in notebook_files(tool.NOTEBOOKS)
    nb = read(question.path)
    cell = cell_of(question, nb)
    assert cell is not None, f"{question.notebook} has no cell {question.cell}"
    assert question.words in cell.source and len(question.words.split()) >= 4
    assert heading_above(nb, question) not in ("", "Try it", "What you now know")
    assert len(said(question, nb).split()) >= 4


@pytest.mark.parametrize("question", ASKED, ids=[question.asked[:40] for question in ASKED])
def test_a_question_is_one_that_somebody_would_type(question):
    assert 4 <= len(question.asked.split()) <= 16 and question.asked[-1] not in ".:"


def test_they_stand_in_the_order_of_the_lessons():
    names = [question.notebook for question in ASKED]
    order = [path.name for path in notebook_files(tool.NOTEBOOKS)]
    assert names == sorted(names, key=order.index)


def test_the_readme_lists_them_as_the_source_does():
    assert in_readme(README, ASKED) == README, "run python -m tools.site.questions"
    assert README.count(tool.HEADING) == 1 and README.index("## The road") < README.index(tool.HEADING)
    assert broken(section(ASKED), ROOT / "README.md", ROOT) == []
    assert len(re.findall(r"^- \[", section(ASKED), re.MULTILINE)) == HOW_MANY


# ------------------------------------------------------------------------------------------ what the tests stand on

NB = new_notebook(
    cells=[
        new_markdown_cell("## One\n\nText.\n\n### `Two`\n\nMore [text](03_x.ipynb#a-b).", id="a"),
        new_code_cell('claim(x > 0.5, "over half of it goes home", share=x)', id="b"),
        new_markdown_cell("Plain.", id="c"),
        new_markdown_cell("## Of $x$\n\nText", id="d"),
        new_code_cell("1", id="e"),
    ]
)


@pytest.mark.parametrize(
    ("cell", "words", "heading"),
    [
        ("a", "Text.", "One"),
        ("a", "Two", "Two"),
        ("a", "More", "Two"),
        ("b", "half", "Two"),
        ("d", "Text", "Two"),
        ("e", "1", "Two"),
    ],
)
def test_where_a_cell_stands(cell, words, heading):
    assert heading_above(NB, Question("?", "x.ipynb", cell, words)) == heading


def test_what_a_cell_says():
    assert said(Question("?", "x.ipynb", "b", "x"), NB) == "over half of it goes home"
    nb = new_notebook(cells=[new_code_cell("claim(x, 'it is \"so\" here', a=['b'])", id="b")])
    assert said(Question("?", "x.ipynb", "b", "x"), nb) == 'it is "so" here'
    assert said(Question("?", "x.ipynb", "a", "x"), NB) == "One Text. Two More text."
    assert cell_of(Question("?", "x.ipynb", "z", "x"), NB) is None
    with pytest.raises(ValueError, match="x.ipynb has no cell z"):
        heading_above(NB, Question("?", "x.ipynb", "z", "x"))


def test_a_source_is_read_line_by_line():
    text = "# a remark\n\nIs a|b it? | 03_x.ipynb | abc | so it is, a | b\n"
    with pytest.raises(ValueError, match="expected `question"):
        questions(text)
    (only,) = questions(text.replace("a | b", "a|b"))
    assert only == Question("Is a|b it?", "03_x.ipynb", "abc", "so it is, a|b") and only.href == "03_x.html#abc"


def test_a_readme_without_its_place_is_told_so():
    with pytest.raises(ValueError, match="expected a section"):
        in_readme("# Title\n", ASKED)

"""A learner's own copy in JupyterLab: it runs to its end, its pictures are there, and it remembers its lesson."""

import shutil

import nbformat
import pytest

from tests.helpers.browser import until
from tools.notebooks.copies import ROOT, main

LESSON = "00_start_here.ipynb"  # the one that `make lab` opens
CELLS = "[...window.jupyterapp.shell.currentWidget.content.model.cells]"
PICTURES = """() => [...document.querySelectorAll(".jp-RenderedMarkdown img")]
  .map((image) => [image.getAttribute("alt"), image.complete && image.naturalWidth > 0])"""
ERRORS = f"""() => {CELLS}.flatMap((cell) => cell.type === "code" ? cell.outputs.toJSON() : [])
  .filter((one) => one.output_type === "error").map((one) => one.evalue)"""
NOT_RUN = f"""() => {CELLS}
  .filter((cell) => cell.type === "code" && cell.sharedModel.source.trim() && !cell.executionCount).length"""
WRITE = f"(text) => {CELLS}[1].sharedModel.setSource(text)"


@pytest.fixture
def course(lab_server):
    """A course below the server's folder, its first lesson with one picture more."""
    course = lab_server.root / "my course"
    for folder in ("notebooks", "images", "tools"):
        shutil.copytree(ROOT / folder, course / folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb*"))
    shutil.copy(ROOT / "requirements.txt", course)
    change_lesson(course, "\n\n<img src='../images/hero.png' alt='in HTML'>")
    assert main([], course) == 0
    yield course
    shutil.rmtree(course)


def change_lesson(course, more: str) -> None:
    path = course / "notebooks" / LESSON
    nb = nbformat.read(path, 4)
    nb.cells[0].source += more
    nbformat.write(nb, path)


@pytest.fixture
def copy(lab_server, course):
    opened = lab_server.open(course / "my" / LESSON, run=False)
    yield opened
    opened.close()


def test_a_copy_runs_to_its_end_and_what_it_shows_is_there(copy):
    copy.run_all()
    until(lambda: copy.page.evaluate(NOT_RUN) == 0, "not every cell was executed")
    assert copy.page.evaluate(ERRORS) == []
    seen = {}
    for number, (kind, source) in enumerate(copy.cells()):
        if kind == "markdown" and "../images/" in source:  # JupyterLab draws only what is in sight
            copy.show_cell(number)
            until(lambda: copy.page.evaluate(PICTURES), "no picture came")
            until(lambda: all(drawn for _, drawn in copy.page.evaluate(PICTURES)), "a picture is not there")
            seen |= dict(copy.page.evaluate(PICTURES))
    assert len(seen) >= 2 and "in HTML" in seen


def test_a_copy_that_jupyterlab_saved_remembers_its_lesson(copy, course, capsys):
    def source(path):
        return nbformat.read(path, 4).cells[1].source

    copy.page.evaluate(WRITE, "mine = 1")
    copy.command("docmanager:save")
    saved = course / "my" / LESSON
    until(lambda: source(saved) == "mine = 1", "the copy was not saved")
    capsys.readouterr()
    assert main([], course) == 0 and "none has changed since" in capsys.readouterr().out
    change_lesson(course, " More.")
    assert main([], course) == 0 and "have changed since you got your copies: 00." in capsys.readouterr().out

    # While it is open: the fresh one lies on the disk, and what was saved is kept beside it.
    assert main(["--fresh", "00"], course) == 0
    (kept,) = (course / "my").glob("00_start_here.2*.ipynb")
    assert source(kept) == "mine = 1" != source(saved)
    copy.page.evaluate(WRITE, "later = 2")
    copy.page.evaluate("""() => { window.jupyterapp.commands.execute("docmanager:save"); }""")
    copy.page.get_by_role("button", name="Revert").click()  # as the tool says
    until(lambda: copy.cells()[1][1] == source(saved) != "later = 2", "the old one stays")

"""A learner's own copy in JupyterLab: it runs to its end, its pictures and links work, and it remembers its lesson."""

import shutil

import nbformat
import pytest

from tests.helpers.browser import settle, until
from tools.notebooks.copies import ROOT, main

COURSE = "my course"
LESSON = "00_start_here.ipynb"  # the one that `make lab` opens
MORE = (
    "\n\n<img src='../images/hero.png' alt='in HTML'>\n\n[For teachers](TEACHING.md#plans), "
    "[the road](../README.md), [lesson three](03_splitting_into_heads.ipynb)"
)
PICTURES = """() => [...document.querySelectorAll(".jp-RenderedMarkdown img")]
  .map((image) => [image.getAttribute("alt"), image.complete && image.naturalWidth > 0])"""
OPEN = "() => window.jupyterapp.shell.currentWidget?.context?.path"
ERRORS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
  .flatMap((cell) => cell.type === "code" ? cell.outputs.toJSON() : []).filter((one) => one.output_type === "error")
  .map((one) => `${one.ename}: ${one.evalue}`)"""
NOT_RUN = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
  .filter((cell) => cell.type === "code" && cell.sharedModel.source.trim() && !cell.executionCount).length"""


@pytest.fixture
def course(lab_server):
    """A course below the server's folder, its first lesson with more links than it has."""
    course = lab_server.root / COURSE
    for folder in ("notebooks", "images", "tools"):
        shutil.copytree(ROOT / folder, course / folder, ignore=shutil.ignore_patterns("__pycache__", ".ipynb*"))
    for name in ("requirements.txt", "README.md"):
        shutil.copy(ROOT / name, course)
    change_lesson(course, MORE)
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
    assert len(seen) >= 2 and "in HTML" in seen and all(seen.values())


def to_front(copy) -> None:
    """Show the copy again after a link was followed; by the command itself, `copy.command` would return the widget."""
    copy.page.evaluate(
        """(path) => { window.jupyterapp.commands.execute("docmanager:open", { path }); }""", f"{COURSE}/my/{LESSON}"
    )
    until(lambda: copy.page.evaluate(OPEN) == f"{COURSE}/my/{LESSON}", "the copy is not in front")
    settle(copy.page)


def test_a_copy_that_jupyterlab_saved_remembers_its_lesson(copy, course, capsys):
    copy.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).sharedModel.setSource("mine = 1")"""
    )
    copy.command("docmanager:save")
    saved = course / "my" / LESSON
    until(lambda: nbformat.read(saved, 4).cells[1].source == "mine = 1", "the copy was not saved")
    assert "codemirror_mode" in nbformat.read(saved, 4).metadata.language_info  # JupyterLab wrote it
    capsys.readouterr()
    assert main([], course) == 0 and "none has changed since" in capsys.readouterr().out
    change_lesson(course, " More.")
    assert main([], course) == 0 and "have changed since you got your copies: 00." in capsys.readouterr().out

    # While it is open: the fresh one lies on the disk, and what was saved is kept beside it.
    assert main(["--fresh", "00"], course) == 0
    assert nbformat.read(saved, 4).cells[1].source != "mine = 1"
    (kept,) = (course / "my").glob("00_start_here.2*.ipynb")
    assert nbformat.read(kept, 4).cells[1].source == "mine = 1"
    copy.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).sharedModel.setSource("later = 2")"""
    )
    copy.page.evaluate("""() => { window.jupyterapp.commands.execute("docmanager:save"); }""")
    copy.page.get_by_role("button", name="Revert").click()  # as the tool says
    until(lambda: copy.cells()[1][1] == nbformat.read(saved, 4).cells[1].source != "later = 2", "the old one stays")

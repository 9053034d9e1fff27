"""A learner's own copy in JupyterLab: what it saves is kept and remembers its lesson, also beside a fresh one."""

import shutil

import nbformat
import pytest

from tests.helpers.browser import until
from tests.helpers.small_course import make_course, write_lesson
from tools.notebooks.copies import main

WRITE = "(text) => [...window.jupyterapp.shell.currentWidget.content.model.cells][1].sharedModel.setSource(text)"


@pytest.fixture
def course(lab_server):
    course = make_course(lab_server.root)
    yield course
    shutil.rmtree(course)


def source(path):
    return nbformat.read(path, 4).cells[1].source


def test_a_copy_that_jupyterlab_saved_remembers_its_lesson(lab_server, course, capsys):
    main([], course)
    saved = course / "my" / "00_one.ipynb"
    copy = lab_server.open(saved, run=False)
    copy.page.evaluate(WRITE, "mine = 1")
    copy.command("docmanager:save")
    until(lambda: source(saved) == "mine = 1", "the copy was not saved")
    capsys.readouterr()
    assert main([], course) == 0 and "none has changed since" in capsys.readouterr().out
    write_lesson(course / "notebooks", "00_one", "More. ")
    assert main([], course) == 0 and "have changed since you got your copies: 00." in capsys.readouterr().out

    # While it is open: the fresh one lies on the disk, and what was saved is kept beside it.
    assert main(["--fresh", "00"], course) == 0
    (kept,) = (course / "my").glob("00_one.2*.ipynb")
    assert source(kept) == "mine = 1" != source(saved)
    copy.page.evaluate(WRITE, "later = 2")
    copy.page.evaluate("""() => { window.jupyterapp.commands.execute("docmanager:save"); }""")
    copy.page.get_by_role("button", name="Revert").click()  # as the tool says
    until(lambda: copy.cells()[1][1] == source(saved) != "later = 2", "the old one stays")
    copy.close()

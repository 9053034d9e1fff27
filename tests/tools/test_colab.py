"""The cell for Google Colab: put into notebooks without executing them, silent elsewhere, careful where it works."""

import contextlib
import io
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import colab
from tools.notebooks.colab import cell_source, lacks_cell, main, put
from tools.notebooks.run import NOTEBOOKS, read, write
from tools.notebooks.store import source_hash, stale

ROOT = Path(__file__).resolve().parents[2]
PATH = NOTEBOOKS / "05_concat_and_output_projection.ipynb"


@pytest.fixture
def lesson():
    """A lesson as it is stored, its cell of another edition."""
    nb = read(PATH)
    put(nb, cell_source("0.0.1", "https://example.org/course"))
    return nb


def test_the_cell_is_the_second_and_all_outputs_stay(lesson):
    before = deepcopy(lesson)
    lesson.cells.pop(1)
    lesson.metadata.mhalib.source_sha256 = source_hash(lesson)
    code = [cell for cell in lesson.cells if cell.cell_type == "code" and cell.source.strip()]
    for number, cell in enumerate(code, 1):
        cell.execution_count = number
    assert put(lesson, before.cells[1].source) and stale(lesson) is None
    assert lesson == before and lesson.cells[1].metadata == {"slideshow": {"slide_type": "skip"}}


def test_the_command_says_what_it_would_do_then_does_it_once_and_mends_only_the_cell(lesson, tmp_path, capsys):
    path = tmp_path / PATH.name
    assert "another than v1.2.3" in lacks_cell(lesson, "1.2.3") and lacks_cell(lesson, "0.0.1") is None
    write(lesson, path)
    assert main(["--check", str(path)]) == 1 and "lacks the cell" in capsys.readouterr().out
    assert read(path) == lesson
    assert main([str(path)]) == 0 and capsys.readouterr().out == f"{path.name}: the cell for Colab is in\n"
    assert main([str(path)]) == main(["--check", str(path)]) == 0 and capsys.readouterr().out == ""
    assert read(path).cells[2:] == lesson.cells[2:] and stale(read(path)) is None
    lesson.cells[-1].source += " "  # a stale lesson is not made to look fresh
    write(lesson, path)
    assert main([str(path)]) == 1 and "run `make notebooks` first" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------ the cell at work


def test_elsewhere_it_is_silent_and_leaves_nothing():
    scope, said = {}, io.StringIO()
    before = (set(sys.modules), list(sys.path), Path.cwd())
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        exec(cell_source("1.2.3", ""), scope)
    assert said.getvalue() == "" and set(scope) == {"__builtins__", "sys"}
    assert (set(sys.modules), list(sys.path), Path.cwd()) == before


def in_colab(source: str, folder: Path, after: str = "") -> subprocess.CompletedProcess:
    """Run the cell twice in a Python of its own, in which Colab's module is there."""
    fake = "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')\n"
    code = f"{fake}cell = {source!r}\nexec(cell, globals())\nexec(cell, globals())\n{after}"
    return subprocess.run([sys.executable, "-I", "-c", code], cwd=folder, capture_output=True, text=True)


def test_in_colab_it_fetches_the_edition_and_sets_up_once_or_asks_for_the_address(tmp_path):
    course, content, nothing = (tmp_path / name for name in ("course", "content", "nothing"))
    for file, said in {
        "course/tools/__init__.py": "",
        "course/mhalib/__init__.py": '__version__ = "1.2.3"\n',
        "course/tools/colab.py": "def set_up():\n    print('set up')\n",
        "content/.keep": "",
        "nothing/.keep": "",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(said)
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v1.2.3"]):
        subprocess.run(["git", *own, *command], cwd=course, check=True, capture_output=True)
    source = cell_source("1.2.3", "")
    after = "import mhalib; print(mhalib.__version__, 'mhalib-course' in mhalib.__file__)"
    for _ in range(2):  # again after a restart of the kernel
        done = in_colab(source.replace('COURSE = ""', f"COURSE = {course.as_uri()!r}"), content, after)
        assert (done.returncode, done.stdout) == (0, "set up\n1.2.3 True\n"), done.stderr
    for address in ("", "--upload-pack=touch hacked"):
        done = in_colab(source.replace('COURSE = ""', f"COURSE = {address!r}"), nothing)
        assert done.returncode == 1 and [path.name for path in nothing.iterdir()] == [".keep"]
        assert "\nRuntimeError: COURSE must be the address of the course, which has" in done.stderr


# ------------------------------------------------------------------------------------------ what is installed there


def test_what_is_missing_is_found_and_what_is_there_stays():
    needs = [Requirement(line) for line in ("torch>=2.1", "anywidget>=0.9", "matplotlib>=3.10", "lazy-loader>=0.4")]
    there = {"torch": "2.9.0+cu126", "matplotlib": "3.9.0", "lazy-loader": "0.5rc1"}
    missing, other = colab.sorted_out(needs, there)
    assert missing == ["anywidget>=0.9"]
    assert other == ["matplotlib is 3.9.0 here and stays so; the course was made for >=3.10"]


def test_all_that_the_lessons_need_is_known_and_in_this_environment():
    names = {need.name for need in colab.wanted()}
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    lines = [line.partition("#")[0].strip() for line in lines]
    pinned = {Requirement(line).name for line in lines if line and not line.startswith("-")}
    # JupyterLab is Colab itself there; d2l comes without what it asks for.
    assert pinned - names == {"jupyterlab", "d2l"}
    assert colab.sorted_out(colab.wanted(), colab.installed()) == ([], [])


def test_pip_may_add_but_is_held_to_all_that_is_there(monkeypatch, capsys):
    there = {need.name: "99" for need in colab.wanted()} | {"torch": "2.9.0+cu126"}
    del there["anywidget"], there["jaxtyping"]
    calls = []

    def pip(*arguments):
        calls.append([Path(each).read_text() if each.endswith("held.txt") else each for each in arguments])

    monkeypatch.setattr(colab, "pip", pip)
    monkeypatch.setattr(colab, "installed", lambda: there)
    monkeypatch.chdir(ROOT)
    colab.set_up()
    assert Path.cwd() == ROOT / "notebooks"
    added, alone = calls
    assert added[0] == "--constraint" and "torch==2.9.0+cu126\n" in added[1] and "anywidget" not in added[1]
    assert added[2:] == ["jaxtyping>=0.3", "anywidget>=0.9"] and alone == ["--no-deps", "d2l==0.17.0"]
    said = "The course is there; added: jaxtyping>=0.3, anywidget>=0.9, d2l==0.17.0. torch is 2.9.0+cu126, as it was.\n"
    assert capsys.readouterr().out == said

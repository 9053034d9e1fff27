"""The cell for Google Colab: put into notebooks without executing them, silent elsewhere, careful where it works."""

import contextlib
import io
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

from tools import colab
from tools.notebooks import colab as notebook_colab
from tools.notebooks.colab import cell_source, lacks_cell, main, put
from tools.notebooks.run import NOTEBOOKS, read, write
from tools.notebooks.store import source_hash, stale

ROOT = Path(__file__).resolve().parents[2]
PATH = NOTEBOOKS / "05_concat_and_output_projection.ipynb"


def test_the_command_mends_the_cell_and_nothing_else_and_then_has_nothing_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(notebook_colab, "NOTEBOOKS", tmp_path)
    lesson, path = read(PATH), tmp_path / PATH.name
    put(lesson, cell_source("0.0.1", "https://example.org/course"))  # of another edition
    assert "another than v1.2.3" in lacks_cell(lesson, "1.2.3") and lacks_cell(lesson, "0.0.1") is None
    write(lesson, path)
    assert main() == 0 and capsys.readouterr().out == f"{path.name}: the cell for Colab is in\n"
    assert main() == 0 and capsys.readouterr().out == ""
    mended = read(path)
    assert mended.cells[2:] == lesson.cells[2:] and stale(mended) is None
    without = deepcopy(mended)
    without.cells.pop(1)
    without.metadata.mhalib.source_sha256 = source_hash(without)
    code = [cell for cell in without.cells if cell.cell_type == "code" and cell.source.strip()]
    for number, cell in enumerate(code, 1):
        cell.execution_count = number
    assert put(without, mended.cells[1].source) and without == mended  # the second, and all outputs stay
    lesson.cells[-1].source += " "  # a stale lesson is not made to look fresh
    write(lesson, path)
    assert main() == 1 and "run `make notebooks` first" in capsys.readouterr().out


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
    for folder in (course / "tools", course / "mhalib", content, nothing):
        folder.mkdir(parents=True)
    (course / "mhalib" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (course / "tools" / "colab.py").write_text("def set_up():\n    print('set up')\n")
    (course / "tools" / "__init__.py").touch()
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v1.2.3"]):
        subprocess.run(["git", *own, *command], cwd=course, check=True, capture_output=True)
    source = cell_source("1.2.3", "")
    after = "import mhalib; print(mhalib.__version__, 'mhalib-course' in mhalib.__file__)"
    for _ in range(2):  # again after a restart of the kernel
        done = in_colab(source.replace('EDITION = ""', f"EDITION = {course.as_uri()!r}"), content, after)
        assert (done.returncode, done.stdout) == (0, "set up\n1.2.3 True\n"), done.stderr
    for address in ("", "--upload-pack=touch hacked"):
        done = in_colab(source.replace('EDITION = ""', f"EDITION = {address!r}"), nothing)
        assert done.returncode == 1 and [*nothing.iterdir()] == []
        assert "\nRuntimeError: COURSE must be the address of the course, which has" in done.stderr


# ------------------------------------------------------------------------------------------ what is installed there


def test_all_that_the_lessons_need_is_known_and_in_this_environment():
    names = {need.name for need in colab.wanted()}
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0] for line in lines if "==" in line}
    # JupyterLab is Colab itself there; d2l comes without what it asks for.
    assert pinned - names == {"jupyterlab", "d2l"}
    assert colab.sorted_out(colab.wanted(), colab.installed()) == ([], [])


def test_pip_may_add_but_is_held_to_all_that_is_there(monkeypatch, capsys):
    there = {need.name: "99" for need in colab.wanted()} | {"torch": "2.9.0+cu126", "matplotlib": "3.9.0"}
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
    assert capsys.readouterr().out.splitlines() == [
        "The course is there; added: jaxtyping>=0.3, anywidget>=0.9, d2l==0.17.0. torch is 2.9.0+cu126, as it was.",
        "matplotlib is 3.9.0 here and stays so; the course was made for >=3.10",
    ]

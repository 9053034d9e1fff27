"""Laying the learner's own copies: each lesson gets one, none is ever overwritten, nobody else touches them."""

import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from tests.helpers.small_course import change, contents, today, write_lesson
from tools.notebooks import run
from tools.notebooks.copies import ROOT
from tools.notebooks.plain import for_download, own_copy, read


def test_each_lesson_gets_a_copy_and_a_second_run_changes_nothing(course, lay):
    code, said = lay()
    assert (code, said) == (0, "my/: new copies of all lessons, without outputs, for you to work in.\n")
    assert sorted(contents(course / "my")) == ["00_one.ipynb", "01_two.ipynb", "02_three.ipynb"]
    assert "../notebooks/GLOSSARY.md#head-dim" in (course / "my" / "00_one.ipynb").read_text(encoding="utf-8")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (course / "my").iterdir()}
    code, said = lay()
    assert (code, said) == (0, "my/: each lesson has its copy, and none has changed since.\n")
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (course / "my").iterdir()} == before


def test_only_what_is_missing_is_laid_and_the_lessons_are_left_alone(course, lay):
    lessons = contents(course / "notebooks")
    lay()
    mine = change(course / "my" / "01_two.ipynb")
    (course / "my" / "02_three.ipynb").unlink()
    code, said = lay()
    assert (code, said) == (0, "my/: new copies of 02, without outputs, for you to work in.\n")
    assert (course / "my" / "01_two.ipynb").read_bytes() == mine
    assert contents(course / "notebooks") == lessons


def test_a_lesson_that_changed_says_so_with_the_command(course, lay, monkeypatch):
    lay()
    mine = change(course / "my" / "01_two.ipynb")
    write_lesson(course / "notebooks", "01_two", "More. ")
    write_lesson(course / "notebooks", "02_three", "More. ")
    code, said = lay()
    assert code == 0
    assert "have changed since you got your copies: 01, 02. Your copies stay as they are.\n" in said
    assert re.search(r"beside it: \S*python\S* -m tools\.notebooks\.copies --fresh 01\n", said)
    monkeypatch.setenv("MAKELEVEL", "1")
    assert "beside it: make fresh LESSON=01\n" in lay()[1]
    assert (course / "my" / "01_two.ipynb").read_bytes() == mine


def test_a_copy_that_lost_its_memory_is_judged_by_its_text(course, lay):
    lay()
    for name in ("00_one", "02_three"):
        path = course / "my" / f"{name}.ipynb"
        nb = read(path)
        nb["metadata"] = {} if name == "00_one" else {"mhalib": "?"}
        if name == "02_three":  # as it is in notebooks/, links and all
            nb["cells"] = read(course / "notebooks" / f"{name}.ipynb")["cells"]
        path.write_text(json.dumps(nb), encoding="utf-8")
    code, said = lay()
    assert code == 0
    assert said == "my/00_one.ipynb does not say from which edition of its lesson it came; it stays as it is.\n"


def test_a_stored_lesson_put_there_by_hand_is_a_copy(course, lay):
    (course / "my").mkdir()
    shutil.copy(course / "notebooks" / "01_two.ipynb", course / "my")
    (course / "my" / "02_three.ipynb").write_text(for_download(course / "notebooks" / "02_three.ipynb"))
    assert lay() == (0, "my/: new copies of 00, without outputs, for you to work in.\n")
    assert lay() == (0, "my/: each lesson has its copy, and none has changed since.\n")
    write_lesson(course / "notebooks", "01_two", "More. ")
    write_lesson(course / "notebooks", "02_three", "More. ")
    assert "have changed since you got your copies: 01, 02." in lay()[1]


# ----------------------------------------------------------------------------------------- fresh copies


def test_a_fresh_copy_takes_the_plain_name_and_the_old_one_is_kept_with_its_date(course, lay):
    lay()
    mine = change(course / "my" / "01_two.ipynb")
    write_lesson(course / "notebooks", "01_two", "More. ")
    code, said = lay("--fresh", "01")
    assert code == 0 and f"my/01_two.ipynb is new. What was there is kept as my/01_two.{today()}.ipynb\n" in said
    assert (course / "my" / f"01_two.{today()}.ipynb").read_bytes() == mine
    assert (course / "my" / "01_two.ipynb").read_text(encoding="utf-8") == own_copy(
        course / "notebooks" / "01_two.ipynb"
    )
    assert lay() == (0, "my/: each lesson has its copy, and none has changed since.\n")

    again = change(course / "my" / "01_two.ipynb")
    third = lay("--fresh", "1")[1], change(course / "my" / "01_two.ipynb")
    assert f"kept as my/01_two.{today()}-2.ipynb\n" in third[0] and again != mine
    lay("--fresh", "01_two")
    kept = contents(course / "my")
    assert [kept[f"01_two.{today()}{n}.ipynb"] for n in ("", "-2", "-3")] == [mine, again, third[1]]
    assert len(kept) == 6


def test_a_fresh_copy_where_nothing_was_changed_is_that_one(course, lay):
    lay()
    before = contents(course / "my")
    code, said = lay("--fresh", "01")
    assert (code, said) == (0, "my/01_two.ipynb is fresh: nothing was changed in it, nor in its lesson.\n")
    assert contents(course / "my") == before


def test_notebooks_without_a_number_are_copied_and_called_by_a_word(course, lay):
    for name in ("torch_in_ten_minutes", "ten_broken_layers", "my_notes"):
        write_lesson(course / "notebooks", name)
    assert lay() == (0, "my/: new copies of all lessons, without outputs, for you to work in.\n")
    assert "my_notes.ipynb" not in contents(course / "my") and len(contents(course / "my")) == 5
    write_lesson(course / "notebooks", "torch_in_ten_minutes", "More. ")
    code, said = lay()
    assert code == 0 and "since you got your copies: torch_in_ten_minutes." in said
    assert "--fresh torch_in_ten_minutes\n" in said
    mine = change(course / "my" / "torch_in_ten_minutes.ipynb")
    code, said = lay("--fresh", "torch")
    assert code == 0 and "my/torch_in_ten_minutes.ipynb is new. What was there is kept as" in said
    assert contents(course / "my")[f"torch_in_ten_minutes.{today()}.ipynb"] == mine
    code, said = lay("--fresh", "ten")
    assert code == 1 and said.startswith("ten may be each of torch_in_ten_minutes, ten_broken_layers. Type it so: ")
    code, said = lay("--fresh", "13")
    assert said.startswith("There is no lesson 13, only 00 to 02, torch_in_ten_minutes, ten_broken_layers.")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "Say of which lesson you want a fresh copy: "),
        (["7"], "There is no lesson 7, only 00 to 02. Type it so: "),
        (["00", "x"], "There is no lesson x, only 00 to 02."),
    ],
)
def test_a_fresh_copy_of_nothing(course, lay, asked, words):
    code, said = lay("--fresh", *asked)
    assert code == 1 and said.startswith(words) and "--fresh 05" in said
    assert not (course / "my").exists()


# ----------------------------------------------------------------------------------------- beside everything else


def test_git_and_ruff_see_no_copy(course, lay):
    for name in (".gitignore", "pyproject.toml"):
        shutil.copy(ROOT / name, course)
    ruff = [sys.executable, "-m", "ruff"]

    def output(*command: str) -> str:
        return subprocess.run(command, cwd=course, capture_output=True, text=True).stdout

    lay()
    for path in (course / "my").iterdir():
        nb = read(path)
        nb["cells"][1]["source"] = ["import os, sys\n", "x=undefined   "]
        path.write_text(json.dumps(nb), encoding="utf-8")
    (course / "my" / "notes.py").write_text("import os,sys")
    files = output(*ruff, "check", "--show-files", "--no-cache", ".")  # a folder that is in no git
    assert "00_one.ipynb" in files and "/my/" not in files
    output("git", "init", "--quiet")
    assert "notebooks/" in output("git", "status", "--porcelain") and "my" not in output("git", "status", "--porcelain")
    assert "my/" in output("git", "status", "--porcelain", "--ignored")


def test_the_tools_for_lessons_leave_the_copies_alone(course, lay, monkeypatch):
    lay()
    before = {name: change(course / "my" / name) for name in contents(course / "my")}
    monkeypatch.setattr(run, "NOTEBOOKS", course / "notebooks")
    assert run.main(["--check"]) == 1  # they were never executed
    assert run.main(["--clear"]) == 0
    (course / "notebooks" / "02_three.ipynb").unlink(), (course / "notebooks" / "01_two.ipynb").unlink()
    assert run.main([]) == 0
    assert nbformat.read(course / "notebooks" / "00_one.ipynb", 4).cells[1].outputs
    assert contents(course / "my") == before

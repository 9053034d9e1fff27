"""Own copies where something is in the way, broken, full or for reading only: a sentence, and nothing is lost."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.small_course import change, contents, today
from tests.helpers.systems import posix
from tools.notebooks.copies import ROOT
from tools.notebooks.plain import own_copy, read

pytestmark = posix


def nothing(path: Path):
    path.write_text("\n")


def no_json(path: Path):
    path.write_text("<<<<<<< HEAD\n{}")


def half(path: Path):
    path.write_bytes(path.read_bytes()[:200])


def no_cells(path: Path):
    path.write_text('{"cells": [{"source": 3}]}')


def no_text(path: Path):
    path.write_bytes(b"\xff\xfe\x00")


def dangling(path: Path):
    path.unlink()
    path.symlink_to("nowhere")


def pipe(path: Path):
    path.unlink()
    os.mkfifo(path)


BROKEN = [
    (nothing, "is empty"),
    (no_json, "is no notebook (no JSON, line 1)"),
    (half, "is no notebook (no JSON, line "),
    (no_cells, "is no notebook (it has no cells)"),
    (no_text, "is no notebook (not a text in UTF-8)"),
    (dangling, "is a link that leads nowhere"),
    (pipe, "is no file"),
]


def what(path: Path) -> tuple:
    """Return enough of a file, a link or a pipe to know it again, wherever it lies."""
    status = path.lstat()
    return status.st_mode, os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()


@pytest.mark.parametrize(("spoil", "words"), BROKEN)
def test_a_broken_copy_is_named_and_left_alone_and_kept_beside_a_fresh_one(course, lay, spoil, words):
    lay()
    place = course / "my" / "01_two.ipynb"
    spoil(place)
    before = what(place)
    code, said = lay()
    assert code == 0 and said.startswith(f"my/01_two.ipynb {words}") and said.count("\n") == 1
    assert "it stays as it is. For a new one in its place, with this one kept: " in said
    assert what(place) == before
    code, said = lay("--fresh", "01")
    assert code == 0 and f"kept as my/01_two.{today()}.ipynb" in said
    assert what(course / "my" / f"01_two.{today()}.ipynb") == before
    assert read(place)["metadata"]["mhalib"]["lesson"] == "01_two"


def test_a_folder_in_the_place_of_a_copy(course, lay):
    (course / "my" / "01_two.ipynb" / "inside").mkdir(parents=True)
    code, said = lay()
    assert code == 0 and "my/01_two.ipynb is a folder; it stays as it is. Give it another name" in said
    code, said = lay("--fresh", "01")
    assert (code, said[:40]) == (1, "my/01_two.ipynb is a folder; give it ano")
    assert (course / "my" / "01_two.ipynb" / "inside").is_dir()


def test_a_link_to_a_copy_elsewhere_is_a_copy_and_only_the_link_moves(course, lay, tmp_path):
    lay()
    place, elsewhere = course / "my" / "01_two.ipynb", tmp_path / "elsewhere.ipynb"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    mine = change(elsewhere)
    assert lay() == (0, "my/: each lesson has its copy, and none has changed since.\n")
    lay("--fresh", "01")
    assert not place.is_symlink() and elsewhere.read_bytes() == mine
    assert (course / "my" / f"01_two.{today()}.ipynb").readlink() == elsewhere


@pytest.mark.parametrize(("spoil", "words"), BROKEN[:5])
def test_a_lesson_that_cannot_be_read_stops_no_other(course, lay, spoil, words):
    spoil(course / "notebooks" / "01_two.ipynb")
    code, said = lay()
    assert code == 1
    assert f"notebooks/01_two.ipynb {words}" in said and "git checkout -- notebooks/01_two.ipynb\n" in said
    assert sorted(contents(course / "my")) == ["00_one.ipynb", "02_three.ipynb"]
    code, said = lay("--fresh", "01")
    assert code == 1 and said.startswith(f"notebooks/01_two.ipynb {words}") and "nothing in my/ was changed" in said


def test_something_else_is_called_my(course, lay):
    (course / "my").write_text("mine")
    assert lay() == (1, "my is no folder, and your copies need one of that name: give it another name.\n")
    assert lay("--fresh", "1")[0] == 1
    assert (course / "my").read_text() == "mine"


# ----------------------------------------------------------------------------------------- what cannot be written
def test_a_full_disk_is_told_and_leaves_whole_copies_only(course, lay, monkeypatch):
    real, written = os.fsync, []

    def fsync(file):
        written.append(file)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    code, said = lay()
    assert code == 1
    assert said.splitlines()[1] == (
        "The disk is full: a copy cannot be written to my/. Free some space, then run the same command again."
    )
    assert contents(course / "my") == {"00_one.ipynb": own_copy(course / "notebooks" / "00_one.ipynb").encode()}
    mine = change(course / "my" / "00_one.ipynb")
    code, said = lay("--fresh", "0")
    assert code == 1 and said.startswith("The disk is full")
    assert contents(course / "my") == {"00_one.ipynb": mine}


LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)); from tools.notebooks import copies; "


def call_alone(course: Path, before: str, *prefix: str) -> tuple[int, str]:
    """Call the tool in a process of its own; what it may do is limited by `before` or by the command `prefix`."""
    code = f"{before}import pathlib; raise SystemExit(copies.main([], pathlib.Path({str(course)!r})))"
    done = subprocess.run([*prefix, sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize("made", ["nothing", "an empty folder", "all copies"])
def test_a_folder_for_reading_only(course, lay, made):
    if made == "all copies":
        lay()
    elif made == "an empty folder":
        (course / "my").mkdir()
    # Root may write anywhere; without these rights it may not.
    prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if prefix and not shutil.which(prefix[0]):
        pytest.skip("root may write anywhere here")
    folders = [folder for folder in (course / "my", course) if folder.exists()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        code, said = call_alone(course, "from tools.notebooks import copies; ", *prefix)
    finally:
        for folder in reversed(folders):
            folder.chmod(0o755)
    if made == "all copies":
        assert (code, said) == (0, "my/: each lesson has its copy, and none has changed since.\n")
    else:
        assert code == 1
        assert said.startswith("my/ cannot be written (Permission denied). Put the course into a folder of yours")
        assert said.endswith("make lab READ=1\n") and said.count("\n") == 1

"""Files that are written whole or not at all and never over another one: at any moment, on any disk."""

import errno
import os
from pathlib import Path

import pytest

from tests.helpers.small_course import change, contents, today
from tools.notebooks import keep
from tools.notebooks.plain import own_copy


def failing(monkeypatch, name: str, error: BaseException, times: int = 1, after: bool = False) -> None:
    """Let `os.name` raise the error the first times, before or after it has done its work."""
    real, left = getattr(os, name), [times]

    def call(*arguments, **options):
        if left[0] and not after:
            left[0] -= 1
            raise error
        done = real(*arguments, **options)
        if left[0]:
            left[0] -= 1
            raise error
        return done

    monkeypatch.setattr(os, name, call)
    monkeypatch.setattr(os, "supports_follow_symlinks", os.supports_follow_symlinks | {call})


@pytest.mark.parametrize("error", [OSError(errno.EPERM, "no"), OSError(errno.ENOTSUP, "no"), NotImplementedError()])
def test_a_disk_without_hard_links(course, lay, monkeypatch, error):
    failing(monkeypatch, "link", error, times=99)
    lay()
    assert sorted(contents(course / "my")) == ["00_one.ipynb", "01_two.ipynb", "02_three.ipynb"]
    mine = change(course / "my" / "01_two.ipynb")
    lay("--fresh", "1")
    assert (course / "my" / f"01_two.{today()}.ipynb").read_bytes() == mine
    again = change(course / "my" / "01_two.ipynb")
    lay("--fresh", "1")
    assert (course / "my" / f"01_two.{today()}-2.ipynb").read_bytes() == again
    with pytest.raises(FileExistsError):
        keep.put(course / "my" / "00_one.ipynb", "other")
    assert len(contents(course / "my")) == 5


def test_a_copy_that_another_program_holds_stays_as_it_is(course, lay, monkeypatch):
    """Windows lets nobody replace a file that is open."""
    lay()
    mine = change(course / "my" / "01_two.ipynb")
    failing(monkeypatch, "replace", PermissionError(errno.EACCES, "used by another process"))
    code, said = lay("--fresh", "1")
    assert code == 1 and "used by another process" in said
    assert len(contents(course / "my")) == 3 and (course / "my" / "01_two.ipynb").read_bytes() == mine


# ----------------------------------------------------------------------------------------- at any moment


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["fsync", "link"])
def test_an_interrupted_run_leaves_whole_copies_and_goes_on(course, lay, monkeypatch, call, after):
    with monkeypatch.context() as patch:
        failing(patch, call, KeyboardInterrupt(), after=after)
        code, said = lay()
    assert (code, said) == (130, "Interrupted. What is laid is whole; the same command goes on where it stopped.\n")
    left = contents(course / "my")
    assert all(text == own_copy(course / "notebooks" / name).encode() for name, text in left.items()) and len(left) < 2
    assert lay()[0] == 0 and len(contents(course / "my")) == 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["fsync", "link", "replace"])
def test_an_interrupted_fresh_copy_loses_nothing(course, lay, monkeypatch, call, after):
    lay()
    place = course / "my" / "01_two.ipynb"
    mine = change(place)
    with monkeypatch.context() as patch:
        failing(patch, call, KeyboardInterrupt(), after=after)
        assert lay("--fresh", "1")[0] == 130
    assert mine in contents(course / "my").values()
    assert place.read_bytes() in (mine, own_copy(course / "notebooks" / "01_two.ipynb").encode())
    assert not list((course / "my").glob(".*"))
    assert lay("--fresh", "1")[0] == 0 and mine in contents(course / "my").values()
    assert place.read_text(encoding="utf-8") == own_copy(course / "notebooks" / "01_two.ipynb")


def test_what_a_killed_run_left_is_swept_away_but_not_what_another_one_writes(course, lay):
    lay()
    old, new = course / "my" / ".01_two.aa.partial", course / "my" / ".01_two.bb.partial"
    old.touch(), new.touch()
    os.utime(old, (0, 0))
    lay()
    assert not old.exists() and new.exists()


def test_a_copy_that_another_run_lays_at_the_same_moment_stays(course, lay, monkeypatch):
    real = os.link

    def link(path, name, **options):
        if not os.path.lexists(name):
            Path(name).write_text("of the other run")
        real(path, name, **options)

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "supports_follow_symlinks", os.supports_follow_symlinks | {link})
    assert lay() == (0, "my/: each lesson has its copy, and none has changed since.\n")
    assert set(contents(course / "my").values()) == {b"of the other run"}
    (course / "my" / "01_two.ipynb").unlink()
    code, said = lay("--fresh", "1")
    assert (code, said) == (1, "Another run laid my/01_two.ipynb at this moment; it stays as it is.\n")

"""A site is built again when anything in it, or anything that it is made of, is another."""

import pytest

from tools.site import unchanged as told


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A small course, and a site that was built of it: the check, and both folders."""
    root, out, kept = (tmp_path / name for name in ("course", "site", "kept"))
    for folder in told.FOLDERS:
        (root / folder / "deep").mkdir(parents=True)
        (root / folder / "deep" / "file").write_text(folder)
    (root / "README.md").write_text("read")
    (out / "slides").mkdir(parents=True)
    (out / "slides" / "a.html").write_text("a page")
    state = told.state
    monkeypatch.setattr(told, "state", lambda chosen, out: state(chosen, out, root))
    lessons = [root / "notebooks" / "00_a.ipynb"]
    assert not told.unchanged(lessons, out, kept)
    told.remember(lessons, out, kept)
    return lambda chosen=lessons, out=out: told.unchanged(chosen, out, kept), root, out


def test_what_was_built_of_all_this_is_not_built_again(built):
    unchanged, root, _ = built
    (root / "mhalib" / "__pycache__").mkdir()
    (root / "mhalib" / "__pycache__" / "a.pyc").write_text("made on the way")
    assert unchanged()


@pytest.mark.parametrize("place", [*(f"{folder}/deep/file" for folder in told.FOLDERS), "README.md", "new.txt"])
def test_another_source_is_seen(built, place):
    unchanged, root, _ = built
    (root / place).write_text("another")
    assert not unchanged()


def test_a_page_that_was_changed_lost_or_added_is_seen(built):
    unchanged, _, out = built
    page = out / "slides" / "a.html"
    page.write_text("another")
    assert not unchanged()
    page.write_text("a page")
    assert unchanged()
    (out / "more.html").write_text("")
    assert not unchanged()
    (out / "more.html").unlink()
    page.unlink()
    assert not unchanged()


def test_other_lessons_another_folder_and_another_package_are_seen(built, monkeypatch, tmp_path):
    unchanged, root, _ = built
    assert not unchanged([])
    assert not unchanged(out=tmp_path / "elsewhere")
    assert unchanged()
    monkeypatch.setattr(told, "distributions", list)
    assert not unchanged()

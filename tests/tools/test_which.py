"""Which notebooks are lessons, and which one somebody means."""

from pathlib import Path

import pytest

from tools.notebooks.which import WITHOUT_NUMBER, chosen, is_lesson, lesson_files, meant, notebook_files, short

NAMES = ("00_start_here", "10_seeing_what_heads_learned", "11_which_heads_matter", *WITHOUT_NUMBER)


@pytest.fixture
def folder(tmp_path):
    for name in (*NAMES, "Untitled", "ten_more"):
        (tmp_path / f"{name}.ipynb").touch()
    return tmp_path


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def test_the_lessons_come_first_and_what_nobody_knows_is_no_notebook_of_the_course(folder):
    assert names(notebook_files(folder)) == list(NAMES)
    assert names(lesson_files(folder)) == list(NAMES[:3])
    (folder / f"{WITHOUT_NUMBER[0]}.ipynb").unlink()
    assert names(notebook_files(folder)) == [*NAMES[:3], *WITHOUT_NUMBER[1:]]


def test_a_lesson_has_a_number():
    assert is_lesson("07_do_heads") and is_lesson("07_do_heads.ipynb") and not is_lesson("torch.ipynb")
    assert not is_lesson("7_heads") and not is_lesson("07")
    assert (short(Path("07_do_heads.ipynb")), short(Path("torch.ipynb"))) == ("07", "torch")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("0", NAMES[:1]),
        ("10", NAMES[1:2]),
        ("10_seeing_what_heads_learned.ipynb", NAMES[1:2]),
        ("torch", ["torch_in_ten_minutes"]),
        ("torch_in_ten_minutes", ["torch_in_ten_minutes"]),
        ("Broken", ["ten_broken_layers"]),
        ("ten", list(WITHOUT_NUMBER)),
        ("heads", NAMES[1:3]),
        ("ten layers", ["ten_broken_layers"]),
        ("tor", []),
        ("12", []),
        ("", []),
    ],
)
def test_what_somebody_means(folder, asked, found):
    assert names(meant(asked, notebook_files(folder))) == list(found)


def test_a_command_is_told_what_it_may_name(folder):
    assert names(chosen([], folder)) == list(NAMES)
    assert names(chosen(["torch", "00", str(folder / "Untitled.ipynb")], folder)) == [
        "torch_in_ten_minutes",
        "00_start_here",
        "Untitled",
    ]
    with pytest.raises(ValueError, match="heads may be each of 10, 11; name one of them"):
        chosen(["heads"], folder)
    with pytest.raises(ValueError, match="12 is none of 00, 10, 11, torch_in_ten_minutes, ten_broken_layers;"):
        chosen(["12"], folder)

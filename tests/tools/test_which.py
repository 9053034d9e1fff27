"""Which notebooks are lessons, and which one somebody means."""

from pathlib import Path

import pytest

from tools.notebooks.which import WITHOUT_NUMBER, chosen, is_lesson, lesson_files, meant, notebook_files, short

NAMES = ("00_start_here", "10_seeing_what_heads_learned", "11_which_heads_matter", *WITHOUT_NUMBER)
MEANT = {
    "0": NAMES[:1],
    "10": NAMES[1:2],
    "10_seeing_what_heads_learned.ipynb": NAMES[1:2],
    "torch_in_ten_minutes": ["torch_in_ten_minutes"],
    "Broken": ["ten_broken_layers"],
    "ten": WITHOUT_NUMBER,
    "heads": NAMES[1:3],
    "ten layers": ["ten_broken_layers"],
    "tor": [],
    "12": [],
    "": [],
}


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def test_the_lessons_come_first_what_nobody_knows_is_none_and_a_word_of_a_name_is_enough(tmp_path):
    for name in (*NAMES, "Untitled", "ten_more"):
        (tmp_path / f"{name}.ipynb").touch()
    assert names(notebook_files(tmp_path)) == names(chosen([], tmp_path)) == list(NAMES)
    assert names(lesson_files(tmp_path)) == list(NAMES[:3])
    assert is_lesson("07_do_heads.ipynb") and not (is_lesson("torch.ipynb") or is_lesson("7_heads") or is_lesson("07"))
    assert (short(Path("07_do_heads.ipynb")), short(Path("torch.ipynb"))) == ("07", "torch")
    found = {asked: names(meant(asked, notebook_files(tmp_path))) for asked in MEANT}
    assert found == {asked: list(expected) for asked, expected in MEANT.items()}
    asked = ["torch", "00", str(tmp_path / "Untitled.ipynb")]
    assert names(chosen(asked, tmp_path)) == ["torch_in_ten_minutes", "00_start_here", "Untitled"]
    with pytest.raises(ValueError, match="heads may be each of 10, 11; name one of them"):
        chosen(["heads"], tmp_path)
    with pytest.raises(ValueError, match="12 is none of 00, 10, 11, torch_in_ten_minutes, ten_broken_layers;"):
        chosen(["12"], tmp_path)

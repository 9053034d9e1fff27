"""Collecting answers: what a teacher reads is what the checks say, also of notebooks that are broken."""

import csv
import runpy
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

SCRIPT = Path(__file__).resolve().parent.parent / "tools" / "classroom" / "answers.py"
main = runpy.run_path(str(SCRIPT))["main"]

RIGHT = "def mine(x, num_heads):\n    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)"
WRONG = "def mine(x, num_heads):\n    return x.view(x.shape[0], num_heads, x.shape[1], -1)"


def hand_in(folder: Path, who: str, answer: str, split: str) -> Path:
    sources = [
        "from mhalib.checks import check",
        "raise ZeroDivisionError  # an error elsewhere must not stop the rest",
        f"head_1 = {answer}\ncheck.head_one(head_1)",
        f"{split}\n\n\ncheck.split_heads(mine)",
    ]
    cells = [new_markdown_cell("check.head_one(this is text)"), *(new_code_cell(source) for source in sources)]
    path = folder / f"{who}.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_the_table_says_who_answered_what(tmp_path, capsys):
    anna = hand_in(tmp_path, "anna", "[[2, 3], [12, 13], [22, 23]]", RIGHT)
    ben = hand_in(tmp_path, "ben", "[[10, 11], [12, 13], [14, 15]]", WRONG)
    cem = hand_in(tmp_path, "cem", "...", "def mine(:")
    before = ben.read_bytes()
    main([str(anna), str(ben), str(cem), "--details", "--csv", str(tmp_path / "table.csv")])
    with open(tmp_path / "table.csv", encoding="utf-8", newline="") as file:
        rows = {row["notebook"]: row for row in csv.DictReader(file)}
    assert (rows["anna"]["head_one"], rows["anna"]["split_heads"]) == ("right", "right")
    assert rows["ben"]["head_one"] == "not yet: A slice of the sentence"
    assert rows["ben"]["split_heads"] == "not yet: A view without a transpose"
    assert rows["cem"]["head_one"] == "not yet written"
    assert rows["cem"]["split_heads"].startswith("stopped: SyntaxError")
    printed = capsys.readouterr().out
    assert "anna: 2 of 2 right" in printed and "First difference:" in printed
    assert ben.read_bytes() == before


def test_stored_answers_are_read_and_nothing_runs(tmp_path, capsys):
    path = hand_in(tmp_path, "dora", "...", RIGHT)
    nb = nbformat.read(path, as_version=4)
    shown = new_output("execute_result", {"text/plain": "head_one: right.\nLesson 03"}, execution_count=3)
    nb.cells[3].outputs = [shown]
    nb.cells[1].source = f"open({str(tmp_path / 'it_ran')!r}, 'w')"
    nbformat.write(nb, path)
    main([str(path), "--stored"])
    assert "head_one: right\n  split_heads: no answer" in capsys.readouterr().out
    assert not (tmp_path / "it_ran").exists()


@pytest.mark.parametrize("text", [None, "no notebook", "{}"])
def test_a_file_that_is_no_notebook_does_not_stop_the_others(tmp_path, capsys, text):
    broken = tmp_path / "broken.ipynb"
    if text is not None:
        broken.write_text(text, encoding="utf-8")
    main([str(broken), str(hand_in(tmp_path, "eve", "...", RIGHT)), "--stored"])
    printed = capsys.readouterr().out
    assert "broken: " in printed and "eve: 0 of 2 right" in printed

"""Collecting answers: what a teacher reads is what the checks say, also of notebooks that are broken."""

import csv
import runpy
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from mhalib.checks import check
from tools.classroom.summary import LESSONS, learner_of

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "classroom" / "answers.py"
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


@pytest.mark.parametrize("text", [None, "no notebook", "{}"])
def test_a_file_that_is_no_notebook_does_not_stop_the_others(tmp_path, capsys, text):
    broken = tmp_path / "broken.ipynb"
    if text is not None:
        broken.write_text(text, encoding="utf-8")
    main([str(broken), str(hand_in(tmp_path, "eve", "...", RIGHT)), "--stored"])
    printed = capsys.readouterr().out
    assert "broken: " in printed and "eve: 0 of 2 right" in printed


# --------------------------------------------------------------------------------- what the class got wrong

VIEW = "return x.view(x.shape[0], num_heads, x.shape[1], -1)"
TWELVE = [  # who, the answer to head_one, the body of the answer to split_heads
    ("anna_03", "[[2, 3], [12, 13], [22, 23]]", "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)"),
    ("ben_03", "[[10, 11], [12, 13], [14, 15]]", VIEW),
    ("cem_03", "[[10, 11], [12, 13], [14, 15]]", f"# Cem\n    hd = x.shape[-1] // num_heads\n    {VIEW}"),
    ("dora_03", "...", VIEW),
    ("eve_03", "[[2, 3], [12, 13], [22, 23]]", f"{VIEW}  # by Eve"),
    ("finn_03", "[[2, 3], [12, 13], [22, 23]]", "return x.unflatten(-1, (num_heads, -1))"),
    ("gül_03", "[[0, 1], [10, 11], [20, 21]]", "return x.unflatten(-1, (num_heads, -1))"),
    ("hana_03", "[[9, 9], [9, 9], [9, 9]]", "return x * 0"),
    ("ida_03", "...", "..."),
    ("jan_03", "...", "return hana"),
    ("kim_03", "...", "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)"),
    ("lou_03", "...", "\n    ".join(["y = x"] * 40 + ["z = " + " + ".join(["x"] * 90), "return z"])),
]


def stored(folder, who, head_one, body, **more):
    """Hand in a notebook as a learner saves it, with what the checks say of these answers."""
    space = {"torch": torch}
    exec(f"head_1 = {head_one}\ndef mine(x, num_heads):\n    {body}", space)
    notes = [check.head_one(space["head_1"]), check.split_heads(space["mine"])]
    sources = [
        f"head_1 = {head_one}\ncheck.head_one(head_1)",
        f"def mine(x, num_heads):\n    {body}\n\ncheck.split_heads(mine)",
    ]
    cells = [new_code_cell("from mhalib.checks import check")]
    for source, note in zip(sources, notes, strict=True):
        shown = new_output("execute_result", {"text/plain": repr(note)}, execution_count=1)
        cells.append(new_code_cell(source, outputs=[shown]))
    path = folder / f"{who}.ipynb"
    nbformat.write(new_notebook(cells=cells + more.get("cells", [])), path)
    return str(path)


@pytest.fixture
def twelve(tmp_path):
    return [stored(tmp_path, *learner) for learner in TWELVE]


def test_the_summary_of_a_class_says_what_to_talk_about(twelve, capsys):
    main([*twelve, "--stored", "--summary"])
    printed = capsys.readouterr().out
    assert printed.startswith(
        """\
exercise     learners  right  not written  named  no name  stopped
head_one           12      3            5      3        1        0
split_heads        12      2            1      6        3        0

4 of 12 · split_heads: A view without a transpose
    def mine(x, num_heads):
        return x.view(x.shape[0], num_heads, x.shape[1], -1)
  What: """
    )
    page = (LESSONS / "TEACHING.md").read_text(encoding="utf-8")
    shown = page.partition("shortened:\n\n```\n")[2].partition("```")[0].splitlines()
    assert len(shown) > 8 and [line for line in shown if line != "  …" and line not in printed.splitlines()] == []
    headlines = [line for line in printed.splitlines() if " of 12 · " in line]
    assert headlines == [
        "4 of 12 · split_heads: A view without a transpose",
        "3 of 12 · split_heads: without a name",
        "2 of 12 · head_one: A slice of the sentence",
        "2 of 12 · split_heads: The transpose is missing",
        "1 of 12 · head_one: Head 0 instead of head 1",
        "1 of 12 · head_one: without a name",
    ]


def test_the_summary_names_no_learner(twelve, tmp_path, capsys):
    broken = tmp_path / "zoe_03.ipynb"
    broken.write_text("no notebook", encoding="utf-8")
    file = tmp_path / "table.csv"
    main([*twelve, str(broken), "--stored", "--summary", "--csv", str(file)])
    shown = capsys.readouterr().out + (tmp_path / "table_mistakes.csv").read_text(encoding="utf-8")
    names = [who.removesuffix("_03") for who, *_ in TWELVE] + ["zoe"]
    assert [name for name in names if name in shown.lower()] == []
    assert "return …" in shown and "1 of the notebooks cannot be read" in shown
    assert "ben_03" in file.read_text(encoding="utf-8")


def test_a_spreadsheet_gets_a_row_for_each_verdict(twelve, tmp_path, capsys):
    main([*twelve, "--stored", "--csv", str(tmp_path / "table.csv")])
    with open(tmp_path / "table_mistakes.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    view = rows[0]
    assert (view["exercise"], view["verdict"], view["mistake"]) == (
        "split_heads",
        "named",
        "A view without a transpose",
    )
    assert (view["learners"], view["of"]) == ("4", "12") and "x.view(" in view["answer"] and "Why: " in view["check"]
    for name in ("head_one", "split_heads"):
        assert sum(int(row["learners"]) for row in rows if row["exercise"] == name) == 12
    printed = capsys.readouterr().out
    assert "ben_03: 0 of 2 right" in printed and "\nThe class\n" in printed


def test_who_hands_in_twice_counts_once_and_with_what_is_right(tmp_path, capsys):
    (tmp_path / "again").mkdir()
    first, second = TWELVE[1], TWELVE[0]
    paths = [
        stored(tmp_path, "anna_03", *second[1:]),
        stored(tmp_path, "anna_03 (1)", *first[1:]),
        stored(tmp_path / "again", "03_splitting_into_heads-Anna-Copy1", *first[1:]),
        stored(tmp_path, "ben_03", *first[1:]),
    ]
    main([*paths, paths[-1], "--stored", "--summary"])
    printed = capsys.readouterr().out
    assert "split_heads         2      1            0      1        0        0" in printed
    main([paths[-1], paths[-1], "--stored"])
    assert capsys.readouterr().out.count("ben_03: 0 of 2 right") == 1


@pytest.mark.parametrize(
    ("path", "learner"),
    [
        ("in/anna_03.ipynb", "anna"),
        ("in/03_splitting_into_heads_anna_k.ipynb", "anna k"),
        ("in/s1234567_05.ipynb", "s1234567"),
        ("in/anna/03_splitting_into_heads.ipynb", "anna/03_splitting_into_heads"),
        ("in/03_07 (2).ipynb", "in/03_07"),
    ],
)
def test_whose_notebook_it_is(path, learner):
    assert list(LESSONS.glob("03_*.ipynb")) and learner_of(Path(path)) == learner


def test_a_text_that_begins_like_a_formula_is_no_formula(tmp_path):
    cell = "=HYPERLINK(1)\ncheck.split_heads(mine)"
    shown = new_output("error", ename="SyntaxError", evalue="invalid")
    nbformat.write(new_notebook(cells=[new_code_cell(cell, outputs=[shown])]), tmp_path / "a.ipynb")
    main([str(tmp_path / "a.ipynb"), "--stored", "--csv", str(tmp_path / "t.csv")])
    with open(tmp_path / "t_mistakes.csv", encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["verdict"], row["mistake"], row["answer"]) == ("stopped", "stopped: SyntaxError", "'=HYPERLINK(1)")

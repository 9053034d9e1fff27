"""Collecting answers: what a teacher reads is what the checks say, also of notebooks that are broken."""

import csv
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from mhacourse import check
from tools.classroom.answers import learner_of, main
from tools.notebooks.run import NOTEBOOKS

VIEW = "return x.view(x.shape[0], num_heads, x.shape[1], -1)"
SPLIT = "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)"
RIGHT, SLICE = "[[2, 3], [12, 13], [22, 23]]", "[[10, 11], [12, 13], [14, 15]]"
TWELVE = [  # who, the answer to head_one, the body of the answer to split_heads
    ("anna_03", RIGHT, SPLIT),
    ("ben_03", SLICE, VIEW),
    ("cem_03", SLICE, f"# Cem\n    hd = x.shape[-1] // num_heads\n    {VIEW}"),
    ("dora_03", "...", VIEW),
    ("eve_03", RIGHT, f"{VIEW}  # by Eve"),
    ("finn_03", RIGHT, "return x.unflatten(-1, (num_heads, -1))"),
    ("gül_03", "[[0, 1], [10, 11], [20, 21]]", "return x.unflatten(-1, (num_heads, -1))"),
    ("hana_03", "[[9, 9], [9, 9], [9, 9]]", "return x * 0"),
    ("ida_03", "...", "..."),
    ("jan_03", "...", "return hana"),
    ("kim_03", "...", SPLIT),
    ("lou_03", "...", "\n    ".join(["y = x"] * 40 + ["z = " + " + ".join(["x"] * 90), "return z"])),
]


def rows(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def stored(folder, who, head_one, body):
    """Hand in a notebook as a learner saves it, with what the checks say of these answers."""
    space = {"torch": torch}
    exec(f"head_1 = {head_one}\ndef mine(x, num_heads):\n    {body}", space)
    cells = []
    for source, note in (
        (f"head_1 = {head_one}\ncheck.head_one(head_1)", check.head_one(space["head_1"])),
        (f"def mine(x, num_heads):\n    {body}\n\ncheck.split_heads(mine)", check.split_heads(space["mine"])),
    ):
        shown = new_output("execute_result", {"text/plain": repr(note)}, execution_count=1)
        cells.append(new_code_cell(source, outputs=[shown]))
    path = folder / f"{who}.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return str(path)


@pytest.mark.slow
def test_notebooks_are_run_and_the_table_says_who_answered_what(tmp_path, capsys):
    function, paths = "def mine(x, num_heads):\n    ", []
    handed_in = ("anna", RIGHT, function + SPLIT), ("ben", SLICE, function + VIEW), ("cem", "...", "def mine(:")
    for who, answer, split in handed_in:
        sources = [
            "from mhacourse import check",
            "raise ZeroDivisionError  # an error elsewhere must not stop the rest",
            f"head_1 = {answer}\ncheck.head_one(head_1)\nprint('done')",
            f"{split}\n\n\ncheck.split_heads(mine)",
        ]
        cells = [new_markdown_cell("check.head_one(this is text)"), *map(new_code_cell, sources)]
        paths.append(str(tmp_path / f"{who}.ipynb"))
        nbformat.write(new_notebook(cells=cells), paths[-1])
    before = Path(paths[1]).read_bytes()
    main([*paths, "--details", "--csv", str(tmp_path / "table.csv")])
    anna, ben, cem = rows(tmp_path / "table.csv")
    assert anna == {"notebook": "anna", "head_one": "right", "split_heads": "right"}
    assert ben["head_one"] == "not yet: A slice of the sentence"
    assert ben["split_heads"] == "not yet: A view without a transpose"
    assert cem["head_one"] == "not yet written" and cem["split_heads"].startswith("stopped: SyntaxError")
    printed = capsys.readouterr().out
    assert "anna: 2 of 2 right" in printed and "First difference:" in printed and "\nThe class\n" in printed
    assert Path(paths[1]).read_bytes() == before


def test_the_summary_of_a_class_says_what_to_talk_about_and_names_no_learner(tmp_path, capsys):
    twelve = [stored(tmp_path, *learner) for learner in TWELVE]
    broken = [str(tmp_path / f"{name}_03.ipynb") for name in ("zoe", "yan", "none")]
    Path(broken[0]).write_text("no notebook", encoding="utf-8")
    Path(broken[1]).write_text("{}", encoding="utf-8")
    main([*twelve, *broken, "--stored", "--summary", "--csv", str(tmp_path / "table.csv")])
    printed = capsys.readouterr().out
    assert printed.startswith("3 of the notebooks cannot be read.\n")
    page = (NOTEBOOKS / "TEACHING.md").read_text(encoding="utf-8")
    shown = page.partition("shortened:\n\n```\n")[2].partition("```")[0].splitlines()
    assert len(shown) > 8 and [line for line in shown if line != "  …" and line not in printed.splitlines()] == []
    assert [line for line in printed.splitlines() if " of 12 · " in line] == [
        "4 of 12 · split_heads: A view without a transpose",
        "3 of 12 · split_heads: without a name",
        "2 of 12 · head_one: A slice of the sentence",
        "2 of 12 · split_heads: The transpose is missing",
        "1 of 12 · head_one: Head 0 instead of head 1",
        "1 of 12 · head_one: without a name",
    ]
    said = printed + (tmp_path / "table_mistakes.csv").read_text(encoding="utf-8")
    assert [who for who, *_ in TWELVE if who.removesuffix("_03") in said.lower()] == []
    assert "return …" in said and "ben_03" in (tmp_path / "table.csv").read_text(encoding="utf-8")
    view = rows(tmp_path / "table_mistakes.csv")[0]
    assert [*view.values()][:5] == ["split_heads", "named", "A view without a transpose", "4", "12"]
    assert "x.view(" in view["answer"] and "Why: " in view["check"]
    for name in ("head_one", "split_heads"):
        counts = [int(row["learners"]) for row in rows(tmp_path / "table_mistakes.csv") if row["exercise"] == name]
        assert sum(counts) == 12


def test_a_text_that_begins_like_a_formula_is_no_formula(tmp_path):
    shown = new_output("error", ename="SyntaxError", evalue="invalid")
    cell = new_code_cell("=HYPERLINK(1)\ncheck.split_heads(mine)", outputs=[shown])
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    main([str(tmp_path / "a.ipynb"), "--stored", "--csv", str(tmp_path / "t.csv")])
    (row,) = rows(tmp_path / "t_mistakes.csv")
    assert (row["verdict"], row["mistake"], row["answer"]) == ("stopped", "stopped: SyntaxError", "'=HYPERLINK(1)")


def test_who_hands_in_twice_counts_once_and_with_what_is_right(tmp_path, capsys):
    (tmp_path / "again").mkdir()
    paths = [
        stored(tmp_path, "anna_03", SLICE, VIEW),
        stored(tmp_path, "anna_03 (1)", RIGHT, SPLIT),
        stored(tmp_path / "again", "03_splitting_into_heads-Anna-Copy1", SLICE, VIEW),
        stored(tmp_path, "ben_03", SLICE, VIEW),
    ]
    main([*paths, paths[-1], "--stored", "--summary"])
    assert "split_heads         2      1            0      1        0        0" in capsys.readouterr().out
    for path, learner in {
        "in/anna_03.ipynb": "anna",
        "in/03_splitting_into_heads_anna_k.ipynb": "anna k",
        "in/anna/03_splitting_into_heads.ipynb": "anna/03_splitting_into_heads",
        "in/03_07 (2).ipynb": "in/03_07",
    }.items():
        assert learner_of(Path(path)) == learner

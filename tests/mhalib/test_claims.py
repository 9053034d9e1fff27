"""`claim` tells a reader and stops the tools; and what the lessons claim agrees with what their text says."""

import io
import sys

import numpy as np
import pytest
import torch
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mhalib import claim
from mhalib.claims import ClaimError
from tests.helpers.claimed import bounds, claims, contradictions, values
from tools.notebooks.run import NOTEBOOKS, read
from tools.notebooks.which import is_lesson, notebook_files

PATHS = notebook_files(NOTEBOOKS)
each_notebook = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


@pytest.fixture(autouse=True)
def as_for_a_reader(monkeypatch):
    monkeypatch.delenv("MHALIB_CLAIMS", raising=False)
    monkeypatch.setattr("mhalib.claims._SPOKEN_OF", {"SEED": 0})


# ------------------------------------------------------------------------------------------ what a reader sees


@pytest.mark.parametrize("holds", [True, np.True_, torch.tensor(True), torch.tensor([[True]]), np.array([True])])
def test_what_holds_is_one_quiet_line(capsys, holds):
    assert claim(holds, "over 85 % goes home") is None
    assert capsys.readouterr().out == "✓ over 85 % goes home\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.91234, "0.912"),
        (12, "12"),
        (1234567, "1234567"),
        (1.2e-8, "1.2e-08"),
        ((0.5, 0.75), "0.5 to 0.75"),
        ([1, 2, 3], "1, 2, 3"),
        (torch.tensor(0.25), "0.25"),
        (torch.tensor([1.0, 0.5]), "1, 0.5"),
        (np.arange(3), "0, 1, 2"),
        (torch.zeros(3, 4), "of shape (3, 4)"),
        (list(range(9)), "9 values, 0, 1, 2, …"),
        ({"one": 0.5, "two": 1}, "one: 0.5, two: 1"),
        (True, "True"),
        (None, "None"),
        ("93 %", "93 %"),
        ((2, 3, 4), "2, 3, 4"),
    ],
)
def test_what_was_measured_stands_behind_it(capsys, value, shown):
    claim(True, "so it is", its_share=value)
    assert capsys.readouterr().out == f"✓ so it is · its share {shown}\n"


def test_what_does_not_hold_is_told_and_stops_nothing(capsys):
    claim(torch.tensor(False), "over 85 % goes home", share=0.5, seeds=(0, 9))
    said, came, why = capsys.readouterr().out.splitlines()
    assert said == "✗ not here: over 85 % goes home"
    assert came == "  came: share 0.5, seeds 0 to 9"
    assert why.startswith("  The text speaks of the lesson as it came")


def run(code):
    exec(code, {"claim": claim})


def test_what_the_reader_changed_is_named(capsys):
    run("SEED = 3\nclaim(False, 'it holds')")
    assert "another run, with SEED = 0; here is SEED = 3." in capsys.readouterr().out
    run("SEED, T = 0, 16\nclaim.speaks_of(T=32, lr=1e-3)\nclaim(False, 'it holds')")
    assert "another run, with T = 32; here is T = 16." in capsys.readouterr().out
    run("SEED, T = 1, 32\ndef inside():\n    claim(False, 'it holds')\ninside()")
    assert "with SEED = 0; here is SEED = 1." in capsys.readouterr().out
    run("SEED, T = 0, 32\nclaim(False, 'it holds')")
    assert "as it came" in capsys.readouterr().out


@pytest.mark.parametrize("holds", [0.9, 1, "yes", None, torch.tensor(0.9), [True]])
def test_what_is_no_truth_value_is_refused(holds):
    with pytest.raises(TypeError, match="needs True or False, such as share > 0.85"):
        claim(holds, "it holds")


@pytest.mark.parametrize(
    "holds", [torch.tensor([True, False]), np.array([True, True]), torch.ones(0, dtype=torch.bool)]
)
def test_many_answers_are_refused(holds):
    with pytest.raises(ValueError, match=r"\.all\(\) or \(…\)\.any\(\)"):
        claim(holds, "it holds")


@pytest.mark.parametrize("text", ["", "  ", None, 3])
def test_a_claim_without_words_is_refused(as_shipped, text):
    with pytest.raises(ValueError, match="text must say what is claimed"):
        claim(True, text)


def test_where_the_project_tests_itself_it_raises(monkeypatch, capsys):
    monkeypatch.setenv("MHALIB_CLAIMS", "raise")
    claim(True, "it holds")
    with pytest.raises(ClaimError, match="it holds; came: share 0.5"):
        claim(False, "it holds", share=0.5)
    assert capsys.readouterr().out == "✓ it holds\n"


def test_an_output_without_these_signs_does_not_stop_it(monkeypatch):
    written = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", written)
    claim(True, "√d")
    claim(False, "√d")
    written.flush()
    assert written.buffer.getvalue().decode("latin-1").startswith("? ?d\n? not here: ?d\n")


# ------------------------------------------------------------------------------------------ what the lessons claim


@each_notebook
def test_claims_agree_with_the_text(path):
    found = contradictions(read(path))
    assert found == [], "\n".join(found)


@each_notebook
def test_every_claim_is_seen_in_the_stored_lesson(path):
    nb = read(path)
    assert len(claims(nb)) >= (8 if is_lesson(path.name) else 1)
    said = "".join(output.get("text", "") for cell in nb.cells for output in cell.get("outputs", []))
    lines = [line for line in said.splitlines() if line.startswith("✓ ")]
    assert len(lines) >= len(claims(nb)) and "✗" not in said
    assert max(map(len, lines)) <= 180, max(lines, key=len)
    assert len(set(lines)) == len(lines), "the same claim twice: collect over the loop, then claim once"


def lesson(text, code):
    return new_notebook(cells=[new_markdown_cell(text), new_code_cell(code)])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "The spelling head sends over 90 % to the same word.",
            "claim(s > 0.85, 'the spelling head sends over 85 % to the same word')",
        ),
        ("Nothing.", "claim(s > 0.8, 'the spelling head sends over 85 % home')"),
        ("Nothing.", "claim(a < 1e-5, 'the two outputs agree within 1e-6')"),
        (
            "The loss of a correct layer stays above .80.",
            "claim(s > 0.7, 'the loss of a correct layer stays above .70')",
        ),
        ("Nothing.", "low = 0.2\nclaim(a, 'every share lies between .2 and .4')"),
    ],
)
def test_another_number_in_the_text_is_seen(text, code):
    assert len(contradictions(lesson(text, code))) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "In each of ten seeds the spelling head sends over 85 % to the same word.",
            "claim(s > 0.85, 'the spelling head sends over 85 % to the same word')",
        ),
        ("Another thing: 12 heads.", "claim(s > 0.85, 'the spelling head sends over 85 % to the same word')"),
        ("Nothing.", "BOUND = 4096\nclaim(n <= BOUND, f'{n} numbers, at most 4,096')"),
        ("Nothing.", "claim(s < .15, 'over 85 % are kept')"),
    ],
)
def test_agreement_is_no_contradiction(text, code):
    assert contradictions(lesson(text, code)) == []


def test_counts_that_differ_are_seen():
    text = "Of all pairs of tokens, 72 future pairs leak."
    assert len(contradictions(lesson(text, "claim(n == 28, 'of all pairs of tokens, 28 future pairs leak')"))) == 1
    assert (
        contradictions(lesson(text, "claim(n == 72, 'of all pairs of tokens, 72 future pairs leak, 1 is kept')")) == []
    )


def test_numbers_of_prose():
    assert values("85 %, .85 and 0.85, 4,096 of W_2, head_1, lesson 07; 1e-6, x[0]") == {0.85, 4096, 7, 1e-6, 0}
    assert values("costs 5 points") == bounds("by more than 5 points") == {0.05}
    assert bounds("over 85 %, between .2 and 0.4, at most 1e-6 of 12 heads") == {0.85, 0.2, 0.4, 1e-6}

"""`claim` tells a reader and stops the tools; and every claim of a stored lesson holds."""

import io
import re
import sys
from functools import partial

import numpy as np
import pytest
import torch

from mhalib import claim
from mhalib.claims import ClaimError
from tests.helpers.refusals import accepted
from tools.notebooks.run import NOTEBOOKS, read
from tools.notebooks.which import notebook_files


@pytest.fixture(autouse=True)
def as_for_a_reader(monkeypatch):
    monkeypatch.delenv("MHALIB_CLAIMS", raising=False)
    monkeypatch.setattr("mhalib.claims._SPOKEN_OF", {"SEED": 0})


SHOWN = [
    (0.91234, "0.912"),
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
    (None, "None"),
]


def test_what_holds_is_one_quiet_line_with_what_was_measured_behind_it(capsys):
    for holds in (True, np.True_, torch.tensor(True), torch.tensor([[True]]), np.array([True])):
        assert claim(holds, "over 85 % goes home") is None
        assert capsys.readouterr().out == "✓ over 85 % goes home\n"
    for value, _ in SHOWN:
        claim(True, "so it is", its_share=value)
    wanted = [f"✓ so it is · its share {shown}" for _, shown in SHOWN]
    assert capsys.readouterr().out.splitlines() == wanted


def test_what_does_not_hold_is_told_and_stops_nothing_but_the_tools(monkeypatch, capsys):
    claim(torch.tensor(False), "over 85 % goes home", share=0.5, seeds=(0, 9))
    said, came, why = capsys.readouterr().out.splitlines()
    assert said == "✗ not here: over 85 % goes home"
    assert came == "  measured: share 0.5, seeds 0 to 9"
    assert "as it came" in why
    monkeypatch.setenv("MHALIB_CLAIMS", "raise")
    with pytest.raises(ClaimError, match="it holds; measured: share 0.5"):
        claim(False, "it holds", share=0.5)
    monkeypatch.delenv("MHALIB_CLAIMS")
    written = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")  # an output without these signs
    monkeypatch.setattr(sys, "stdout", written)
    claim(True, "√d")
    claim(False, "√d")
    written.flush()
    assert written.buffer.getvalue().decode("latin-1").startswith("? ?d\n? not here: ?d\n")


def test_what_the_reader_changed_is_named(capsys):
    for code, told in (
        ("SEED = 3\nclaim(False, 'it holds')", "another run, with SEED = 0; yours has SEED = 3."),
        ("SEED, T = 0, 16\nclaim.speaks_of(T=32, lr=1e-3)\nclaim(False, 'it holds')", "with T = 32; yours has T = 16."),
        ("SEED, T = 1, 32\ndef f():\n    claim(False, 'it holds')\nf()", "with SEED = 0; yours has SEED = 1."),
        ("SEED, T = 0, 32\nclaim(False, 'it holds')", "as it came"),
    ):
        exec(code, {"claim": claim})
        assert told in capsys.readouterr().out


def test_what_is_no_truth_value_or_has_no_words_is_refused(as_shipped):
    failures = []
    for holds in (0.9, 1, "yes", None, torch.tensor(0.9), [True]):
        failures += accepted({"TypeError: a claim needs True or False": partial(claim, holds, "it holds")})
    for holds in (torch.tensor([True, False]), np.array([True, True]), torch.ones(0, dtype=torch.bool)):
        failures += accepted({".all() or (…).any()": partial(claim, holds, "it holds")})
    for text in ("", "  ", None, 3):
        failures += accepted({"text must say what is claimed": partial(claim, True, text)})
    assert failures == []


def test_every_claim_of_a_lesson_is_seen_to_hold_as_it_is_stored_once():
    failures = []
    for path in notebook_files(NOTEBOOKS):
        cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
        count = sum(len(re.findall(r"^\s*claim\(", cell.source, re.MULTILINE)) for cell in cells)
        said = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
        lines = [line for line in said.splitlines() if line.startswith("✓ ")]
        if not count or len(lines) < count or len(set(lines)) < len(lines) or "✗ not here" in said:
            failures.append(f"{path.stem}: {count} claims, {len(set(lines))} of {len(lines)} lines that one holds")
    assert failures == []

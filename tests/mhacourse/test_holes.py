"""No small mistake passes a check, and the tool that says so finds a hole where there is one and none elsewhere."""

import pytest
import torch

from mhalib.checks import check
from mhalib.checks.exercise import Exercise, Wrong
from mhalib.checks.inputs import draw
from tools.checks import holes
from tools.checks.holes import main, search, unreviewed, without_a_why
from tools.checks.reviewed import REVIEWED
from tools.checks.variations import TRIES

FUNCTIONS = {exercise.name: exercise for exercise in check if exercise.cases}
FIXED = {"keeps_tokens_apart", "future_pairs", "count_heads", "value_path"}  # inputs are functions and what is theirs

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_small_mistake_passes(name):
    found = search(FUNCTIONS[name])
    assert [(hole.edit.says, hole.shown_by.inputs) for hole in unreviewed(FUNCTIONS[name], found)] == []
    assert {hole.edit.says for hole in found.holes} == set(REVIEWED.get(name, {})), "what is reviewed must be found"
    assert found.equal, "some edits always do the same; where none does, they were not run"
    assert found.tried >= TRIES / 2 or name in FIXED and found.tried == 0


def lengths(x):
    return x.abs().sum(-1)


def made_up(cases, **others):
    exercise = Exercise("Add up.", lengths, ("-",), cases=lambda: list(cases), axes=("row",), **others)
    exercise.name, exercise.lesson = "lengths", "99"
    return exercise


POSITIVE = [(torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]]),), (draw(0, 4, 5).abs(),)]
SIGNED = [*POSITIVE, (draw(1, 3, 6),)]
WITHOUT_ABS, TWICE = "without abs()", "with abs twice"
NO_ABS = Wrong(lambda x: x.sum(-1), "no abs.", "Abs.")


def says(edits):
    return {edit.says for edit in edits}


def test_a_hole_is_found_shown_by_the_smallest_variation_and_mended_by_a_case():
    found = search(made_up(POSITIVE))
    (x,) = next(hole for hole in found.holes if hole.edit.says == WITHOUT_ABS).shown_by.inputs
    assert x.shape == (2, 3) and (x < 0).any() and WITHOUT_ABS not in says(found.equal)
    assert TWICE in says(found.equal), "what is the same everywhere is no hole"
    mended = search(made_up(SIGNED))
    assert mended.holes == [] and TWICE in says(mended.equal) and WITHOUT_ABS not in says(mended.equal)


def test_the_command_prints_the_hole_and_fails_and_names_mistakes_that_have_no_why(capsys, monkeypatch):
    monkeypatch.setattr(holes, "check", [made_up(POSITIVE)])
    assert main(["lengths"]) == 1
    assert f"    {WITHOUT_ABS}\n      on x=[[" in capsys.readouterr().out
    monkeypatch.setattr(holes, "check", [made_up(SIGNED)])
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "holes: 0, and 0 reviewed" in said and f"    {WITHOUT_ABS}\n" in said
    assert WITHOUT_ABS not in says(without_a_why(made_up(SIGNED, wrong={"No abs": NO_ABS})))

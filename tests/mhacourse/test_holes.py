"""No small mistake passes a check, and `make holes` finds a hole where there is one and none elsewhere."""

import pytest
import torch

from mhacourse import check
from mhacourse.exercise import Exercise
from mhacourse.inputs import draw
from tools.checks import holes
from tools.checks.holes import main, search, unreviewed
from tools.checks.reviewed import REVIEWED
from tools.checks.variations import TRIES

FUNCTIONS = {exercise.name: exercise for exercise in check if exercise.cases}
FIXED = {"keeps_tokens_apart", "future_pairs", "sees_the_future", "value_path"}  # inputs are functions, and theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_small_mistake_passes(name):
    found = search(FUNCTIONS[name])
    assert [(hole.change.says, hole.shown_by.inputs) for hole in unreviewed(FUNCTIONS[name], found)] == []
    assert {hole.change.says for hole in found.holes} == set(REVIEWED.get(name, {})), "what is reviewed must be found"
    assert found.equal, "some changes always do the same; where none does, they were not run"
    assert found.tried >= TRIES / 2 or name in FIXED and found.tried == 0


def lengths(x):
    return x.abs().sum(-1)


def made_up(*cases):
    exercise = Exercise("Add up.", lengths, ("-",), cases=lambda: list(cases), axes=("row",))
    exercise.name, exercise.lesson = "lengths", "99"
    return exercise


def test_the_command_shows_a_hole_and_fails_until_a_case_mends_it(capsys, monkeypatch):
    positive, signed = (torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]]),), (draw(1, 3, 6),)
    monkeypatch.setattr(holes, "check", [made_up(positive)])
    assert main(["lengths"]) == 1
    assert "    without abs: `x.abs()`\n      on x=[[" in capsys.readouterr().out
    equal = {change.says for change in search(made_up(positive)).equal}
    assert "with other numbers in `x.abs().sum(-1)`" in equal and "without abs: `x.abs()`" not in equal
    monkeypatch.setattr(holes, "check", [made_up(positive, signed)])
    assert main([]) == 0
    assert "holes: 0, and 0 reviewed" in capsys.readouterr().out

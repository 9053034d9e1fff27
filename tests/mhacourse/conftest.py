"""What the tests of the checks share: one core, patience, and exercises that nobody has tried yet."""

import pytest

from mhacourse import check, problem
from mhacourse.exercise import Exercise


@pytest.fixture(autouse=True)
def afresh(one_thread, monkeypatch):
    for module in ("remarks", "run", "try_test"):
        monkeypatch.setattr(f"mhacourse.{module}.SECONDS", 300.0)  # on however busy a machine
    for exercise in check:
        exercise.solved = False
    for each in problem:
        each.done.clear()
    for each in (*check, *problem):
        each.hints_shown = 0


@pytest.fixture
def no_edits(monkeypatch):
    """Judge without the small edits of right answers: to make them takes long, and they have tests of their own."""
    monkeypatch.setattr(Exercise, "edits", [])
    for exercise in check:
        monkeypatch.delitem(vars(exercise), "edits", raising=False)

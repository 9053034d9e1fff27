"""What the tests of the checks share: one core, patience, and exercises that nobody has tried yet."""

import pytest

from mhacourse import check, problem


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
def no_changes(monkeypatch):
    """Judge without looking for the change that makes an answer right, which has tests of its own."""
    monkeypatch.setattr("mhacourse.judge.one_change", lambda *_: None)

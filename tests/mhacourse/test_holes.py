"""No small mistake passes a check, and `make holes` finds a hole where there is one and none elsewhere."""

import pytest

from mhacourse import check
from tools.checks.holes import search, unreviewed
from tools.checks.reviewed import REVIEWED
from tools.checks.variations import TRIES

FUNCTIONS = {exercise.name: exercise for exercise in check if exercise.cases}
FIXED = {"keeps_tokens_apart", "future_pairs", "sees_the_future", "value_path"}  # inputs are functions, and theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_small_mistake_passes(name):
    found = search(FUNCTIONS[name])
    assert [(hole.edit.says, hole.shown_by.inputs) for hole in unreviewed(FUNCTIONS[name], found)] == []
    assert {hole.edit.says for hole in found.holes} == set(REVIEWED.get(name, {})), "what is reviewed must be found"
    assert found.equal, "some edits always do the same; where none does, they were not run"
    assert found.tried >= TRIES / 2 or name in FIXED and found.tried == 0

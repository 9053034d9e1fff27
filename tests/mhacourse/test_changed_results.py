"""Wrong answers that nobody thought of: a right result that was changed on one input does not pass."""

import pytest

from mhalib.checks import check
from tests.helpers.exercises import without_error_model
from tests.helpers.mutants import mutants

pytestmark = pytest.mark.usefixtures("one_thread", "as_shipped")


def test_changed_results_never_pass():
    failures = []
    with without_error_model():  # which has nothing to say of them, and is slow
        for exercise in check:
            tried = list(mutants(exercise))[:: 4 if exercise is check.repaired else 1]  # that looks at each line: slow
            assert len(tried) >= 5, exercise.name
            for what, mutant in tried:
                note = exercise(mutant)
                if note.mood != "wrong":
                    failures.append(f"{exercise.name}, {what}: {note.title}")
    assert failures == []

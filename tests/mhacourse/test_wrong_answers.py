"""Wrong answers that people give: each gets its own name, with its reason, and does not pass."""

import pytest

from mhalib.checks import check
from mhalib.checks.exercise import Choice

pytestmark = pytest.mark.usefixtures("one_thread", "as_shipped")


def test_every_known_mistake_gets_its_own_name_with_its_reason_and_an_example():
    failures = []
    for exercise in check:
        exercise.solved = False
        for name, wrong in exercise.wrong.items():
            for answer in (wrong.answer, *wrong.also):
                note = exercise(exercise.made(answer))
                told = [wrong.what, wrong.why, exercise.see, *["For example:"] * bool(exercise.cases)]
                if note.title != f"{exercise.name}: not yet. {name}" or not all(words in repr(note) for words in told):
                    failures.append((name, note))
        failures += [f"{exercise.name} counts as solved"] if exercise.solved else []
    assert failures == []


def test_functions_know_several_mistakes():
    assert [exercise.name for exercise in check if exercise.cases and len(exercise.wrong) < 3] == []


def test_every_option_of_a_choice_has_its_reason():
    failures = []
    for exercise in check:
        if not isinstance(exercise, Choice):
            continue
        letters = set(exercise.answer)
        for letter, reason in exercise.options.items():
            note = exercise(letters ^ {letter})
            if note.passed or reason not in repr(note) or f"{letter} " not in repr(note):
                failures.append(note)
        for answer in ("Z", 5, {"A": 1}):
            failures += [note for note in [exercise(answer)] if "expected letters" not in repr(note)]
        assert not exercise("").passed
    assert failures == []

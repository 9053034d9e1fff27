"""The cases of the exercises of lessons 00 to 05: what they must tell apart, and how they are shown."""

import pytest
from torch import Tensor

from mhalib.checks import check
from mhalib.checks.compare import MAX_NUMBERS

EXERCISES = [exercise for exercise in check if exercise.lesson <= "05"]
FUNCTIONS = [exercise for exercise in EXERCISES if exercise.cases]
PLAIN = [(exercise, answer) for exercise in FUNCTIONS for answer in exercise.plain]
MOST_LINES = 12  # of an example


def each(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=[exercise.name for exercise in exercises])


@pytest.mark.parametrize("exercise,answer", PLAIN, ids=[f"{e.name}, {answer.__name__}" for e, answer in PLAIN])
def test_a_right_answer_in_plain_torch_passes(exercise, answer):
    note = exercise(answer)
    assert note.passed, note


@each(FUNCTIONS)
def test_the_first_case_can_be_read(exercise):
    tensors = [x for x in (*exercise.inputs[0], *_parts(exercise.right[0].value)) if isinstance(x, Tensor)]
    assert sum(x.numel() for x in tensors) <= MAX_NUMBERS
    result = next(text for label, text in exercise(lambda *given: 0.5).parts if label == "code")
    # The result is shown twice, as it should be and as it came.
    assert len(result.splitlines()) - 1 + sum(map(_rows, _parts(exercise.right[0].value))) <= MOST_LINES, result


def _parts(value):
    return value if isinstance(value, tuple) else (value,)


def _rows(value):
    return value.numel() // value.shape[-1] if isinstance(value, Tensor) else 1

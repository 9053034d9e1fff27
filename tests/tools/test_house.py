"""The plan of the house: which room may import from which, how much it may weigh, and what it does without."""

import ast
import os
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tools.notebooks.run import read
from tools.notebooks.which import notebook_files

ROOT = Path(__file__).resolve().parents[2]
HOUSE = tomllib.loads((ROOT / "tests" / "tools" / "house.toml").read_text(encoding="utf-8"))
PACKAGES = [name for name in HOUSE if name not in ("tools", "tests")]  # from the ground up
PLAN = {  # of each room its place, from the ground up, and its number of lines
    f"{package}.{room}": ((number, floor), most)
    for number, (package, floors) in enumerate(HOUSE.items())
    for floor, rooms in floors.items()
    for room, most in rooms.items()
}


def module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


FILES = [path.relative_to(ROOT) for package in HOUSE for path in (ROOT / package).rglob("*")]
MADE = ("headview/static/", "headview/colours.js")  # by `make views`, from the others
MODULES = {module(path): path for path in FILES if path.suffix == ".py"}


def room(path: Path) -> str:
    """Return the room of a file, such as "mhalib.plots"; the parts of `capture` and of the core are one each."""
    package, *rest = path.with_suffix("").parts
    if package not in PACKAGES:
        return f"{package}.{package}"
    if rest[0].startswith("__"):
        return f"{package}.face"
    return f"{package}.{rest[0].partition('_')[0] if rest[0].startswith(('capture', 'core')) else rest[0]}"


@cache
def imported(source: str) -> set[str]:
    """Return the modules of ours that a file imports, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            of = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in of}
    return found & set(MODULES)


def wrong_arrows(source: str, path: Path) -> list[str]:
    """Return what a file imports from a room that does not stand below its own."""
    own = room(path)
    others = {name: room(MODULES[name]) for name in imported(source)}
    return [f"{path}: {name}" for name, of in others.items() if of != own and PLAN[of][0] >= PLAN[own][0]]


def test_arrows_point_down_and_nothing_runs_in_a_circle():
    wrong, graph = [], {}
    for name, path in MODULES.items():
        source = (ROOT / path).read_text(encoding="utf-8")
        graph[name] = imported(source) - {name}
        wrong += wrong_arrows(source, path)
        if len(path.parts) == 2 and path.parts[0] == "mhalib":  # read in one sitting, and without any folder
            wrong += [f"{path}: {of}" for of in graph[name] if MODULES[of].name == "__init__.py"]
    assert wrong == []
    TopologicalSorter(graph).prepare()  # raises where modules import each other in a circle
    for source, path in (
        ("def f():\n    from headview import HeadView", "mhalib/plots/shapes.py"),
        ("from mhacourse import check", "attention_doctor/report.py"),
        ("from mhalib.heads import rollout", "mhalib/masks.py"),
    ):
        assert wrong_arrows(source, Path(path))


def test_every_room_is_planned_and_weighs_no_more_than_that():
    weight = Counter()
    for path in (path for path in FILES if path.suffix in (".py", ".js", ".css")):
        if path.as_posix().startswith(MADE):
            continue
        weight[room(path)] += len((ROOT / path).read_bytes().splitlines())
    planned = {name: most for name, (_, most) in PLAN.items()}
    heavy = [
        f"{name}: {lines}, planned {planned.get(name)}"
        for name, lines in weight.items()
        if lines > planned.get(name, 0)
    ]
    assert heavy == [], "see tests/tools/house.toml"
    assert set(planned) == set(weight), "a room that is gone stands in tests/tools/house.toml"


def test_readers_import_from_packages_and_nowhere_deeper():
    wrong = []
    for path in notebook_files(ROOT / "notebooks"):
        for cell in (cell for cell in read(path).cells if cell.cell_type == "code"):
            lines = [line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!"))]
            for node in (node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.ImportFrom)):
                package, *rest = node.module.split(".")
                if package in PACKAGES and len(rest) > (package == "mhalib"):
                    wrong.append(f"{path.name}: {node.module}")
    assert wrong == []


NOT_LOADED = """
import os, sys, torch

cases = %r
there = set(sys.modules)
for number, (code, without) in enumerate(cases.items()):
    if os.fork() == 0:  # a fresh interpreter that has torch already
        exec(code)
        new = {name.partition(".")[0] for name in set(sys.modules) - there} - sys.stdlib_module_names
        loaded = new - {"headview"} if without == "all but torch" else set(without.split()) & set(sys.modules)
        print(number, *sorted(loaded - {"torch"}), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork")
def test_what_a_room_does_without_is_not_loaded():
    """A learner's first import must not wait for what only a later lesson needs."""
    cases = {
        "from headview import capture": "all but torch",
        "import mhalib": "matplotlib scipy joblib tqdm.auto d2l PIL headview",
        "from mhalib.experiments import Lookup, CausalModel": "joblib scipy matplotlib tqdm.auto",
        "from mhalib.heads import induction_score, prune_heads": "joblib scipy matplotlib mhalib.experiments",
        "from mhalib.pretrained import load_minilm": "mhalib.experiments matplotlib scipy huggingface_hub",
        "from mhalib.reference import from_torch, from_d2l": "d2l matplotlib",
        "from attention_doctor import examine": "matplotlib anywidget mhacourse",
        "from headview import HeadView": "attention_doctor mhacourse joblib scipy",
    }
    command = [sys.executable, "-c", NOT_LOADED % cases]
    loaded = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.splitlines()
    assert loaded == [str(number) for number in range(len(cases))]


def test_an_old_name_says_where_a_thing_is_now():
    for line, now in {
        "from mhalib.widgets import HeadView": "from headview import HeadView",
        "from mhalib.doctor import examine": "from attention_doctor import examine",
        "from mhalib.checks import check": "from mhacourse import check, predict",
        "from mhalib.heads import capture": "from headview import capture",
    }.items():
        try:
            exec(line)
        except ImportError as error:
            assert now in str(error) and "\n" not in str(error)
        else:
            raise AssertionError(f"{line} works")

"""The plan of the house: which room may import from which, what a package hands on, and what its parts do without."""

import ast
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mhalib
from tools.notebooks.which import notebook_files

ROOT = Path(__file__).resolve().parents[2]
TOP = ROOT / "mhalib"

# A room is a file or a folder of `mhalib`; `tools` stands beside it. A room imports only from floors below its own.
FLOORS = (
    ("arguments", "claims", "stopping"),
    ("masks", "sealed"),
    ("plots", "attention", "doctor"),
    ("reference", "heads", "experiments"),
    ("widgets",),
    ("checks", "pretrained"),
    ("tools",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
MOST_LINES = 1400  # of the files of the top folder together, so that they can be read in one sitting
PACKAGES = sorted(module.name for module in pkgutil.iter_modules(mhalib.__path__) if module.ispkg)


def room_of(path: Path) -> str:
    """Return the room that a file belongs to; the package's own `__init__.py` is none."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "mhalib" else parts[0]


def imported(source: str, path: Path) -> Iterator[str]:
    """Yield the full name of everything that a file imports, also inside its functions."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports with dots; write the full name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(source: str, path: Path) -> set[str]:
    """Return the rooms that a file imports from; a name that `mhalib` hands on comes from the room that made it."""
    found = set()
    for name in imported(source, path):
        first, *rest = name.split(".")
        if first == "mhalib" and rest:
            public = rest[0] in mhalib.__all__
            found.add(getattr(mhalib, rest[0]).__module__.split(".")[1] if public else rest[0])
        elif first == "tools":
            found.add("tools")
    return found - {"__version__"}


def wrong_arrows(source: str, path: Path) -> list[str]:
    """Return the arrows out of a file that do not lead to a floor below."""
    own = room_of(path)
    if own == "__init__":
        return []
    return [f"{path}: {room}" for room in rooms_imported(source, path) - {own} if FLOOR[room] >= FLOOR[own]]


def test_every_room_has_its_floor_and_arrows_point_down():
    rooms = {module.name for module in pkgutil.iter_modules(mhalib.__path__)} | {"tools"}
    assert rooms == set(FLOOR), "put a new room on its floor, in FLOORS"
    files = [*TOP.rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    assert [arrow for path in files for arrow in wrong_arrows(path.read_text(encoding="utf-8"), path)] == []
    assert wrong_arrows("def f():\n    from mhalib.heads import gated_heads", TOP / "attention.py")


def test_the_top_folder_is_read_in_one_sitting_and_imports_no_room_below_it():
    sources = {path: path.read_text(encoding="utf-8") for path in TOP.glob("*.py")}
    assert sum(len(source.splitlines()) for source in sources.values()) <= MOST_LINES
    assert [path for path, source in sources.items() if rooms_imported(source, path) & set(PACKAGES)] == []


# ------------------------------------------------------------------------------------------ what a package hands on


def deeper(source: str) -> list[str]:
    """Return the imports of a text that reach into a package instead of taking what it hands on."""
    return re.findall(rf"^\W*(?:from|import) (mhalib\.(?:{'|'.join(PACKAGES)})\.\S+)", source, re.MULTILINE)


def test_readers_import_from_packages_and_nowhere_deeper():
    wrong = {}
    for page in (*notebook_files(ROOT / "notebooks"), ROOT / "README.md", ROOT / "notebooks" / "TEACHING.md"):
        source = page.read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            source = "\n".join("".join(cell["source"]) for cell in json.loads(source)["cells"])
        wrong[page.name] = deeper(source)
    assert {page: found for page, found in wrong.items() if found} == {}
    assert deeper(">>> from mhalib.heads.gates import gated_heads") == ["mhalib.heads.gates"]


# ------------------------------------------------------------------------------------------ what is done without


def test_what_a_room_does_without_is_not_loaded():
    """A learner's first import must not wait for what only a later lesson needs."""
    wrong = {}
    for code, without in {
        "import mhalib": "matplotlib scipy joblib tqdm.auto d2l PIL",
        "from mhalib.experiments import Lookup, CausalModel": "joblib scipy matplotlib tqdm.auto",
        "from mhalib.heads import induction_score, prune_heads": "joblib scipy matplotlib mhalib.experiments",
        "from mhalib.pretrained import load_minilm": "mhalib.experiments matplotlib scipy huggingface_hub",
        "from mhalib.reference import from_torch, from_d2l": "d2l matplotlib",
    }.items():
        command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
        loaded = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
        wrong[code] = set(loaded) & set(without.split())
    assert {code: found for code, found in wrong.items() if found} == {}

"""The plan of the house: which room may import from which. What an import loads: `test_repository.py`."""

import ast
import pkgutil
from pathlib import Path

import mhalib
from tools.notebooks.run import read
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
PACKAGES = {module.name for module in pkgutil.iter_modules(mhalib.__path__) if module.ispkg}


def imported(source: str) -> set[str]:
    """Return the full name of everything of ours that a file imports, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}  # "None.…" where it is written with dots
    return {name for name in found if name.startswith(("mhalib.", "tools.", "None."))}


def room(name: str) -> str:
    """Return the room of a full name; a name that `mhalib` hands on comes from the room that made it."""
    first, second, *_ = name.split(".")
    if first != "mhalib":
        return first
    return getattr(mhalib, second).__module__.split(".")[1] if second in mhalib.__all__ else second


def wrong_arrows(source: str, path: Path) -> list[str]:
    """Return what a file imports from a room that is not on a floor below."""
    own = path.relative_to(TOP).with_suffix("").parts[0] if path.is_relative_to(TOP) else "tools"
    rooms = {name: room(name) for name in imported(source) if name != "mhalib.__version__"}
    return [f"{path}: {name}" for name, of in rooms.items() if of != own and FLOOR.get(of, 99) >= FLOOR[own]]


def test_every_room_has_its_floor_and_arrows_point_down():
    rooms = {module.name for module in pkgutil.iter_modules(mhalib.__path__)} | {"tools"}
    assert rooms == set(FLOOR), "put a new room on its floor, in FLOORS"
    wrong = []
    for path in [*TOP.rglob("*.py"), *(ROOT / "tools").rglob("*.py")]:
        source = path.read_text(encoding="utf-8")
        if path != TOP / "__init__.py":
            wrong += wrong_arrows(source, path)
        if path.parent == TOP:  # it is read in one sitting, and without any package
            wrong += [f"{path}: {name}" for name in imported(source) if room(name) in PACKAGES]
    assert wrong == []
    assert wrong_arrows("def f():\n    from mhalib.heads import gated_heads", TOP / "attention.py")


def test_readers_import_from_packages_and_nowhere_deeper():
    wrong = []
    for path in notebook_files(ROOT / "notebooks"):
        for cell in (cell for cell in read(path).cells if cell.cell_type == "code"):
            lines = [line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!"))]
            for node in (node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.ImportFrom)):
                if node.module.startswith("mhalib.") and node.module.count(".") > 1:
                    wrong.append(f"{path.name}: {node.module}")
    assert wrong == []

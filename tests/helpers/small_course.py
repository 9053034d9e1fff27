"""A course of three short lessons, for the tests of the learner's own copies."""

import shutil
from datetime import date
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.notebooks.copies import ROOT
from tools.notebooks.plain import source_hash

STUB = "def mine(x, num_heads):\n    ...\n\n\ncheck.split_heads(mine)"
RIGHT = STUB.replace("...", "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)")


def make_course(folder: Path) -> Path:
    """Write the lessons below a folder with a space in its name, and return that."""
    course = folder / "my course"
    (course / "notebooks").mkdir(parents=True)
    for name in ("00_one", "01_two", "02_three"):
        write_lesson(course / "notebooks", name)
    return course


def write_lesson(folder: Path, name: str, text: str = "") -> Path:
    stored = new_code_cell("1 + 1", execution_count=1)
    stored.outputs = [new_output("execute_result", {"text/plain": "2"}, execution_count=1)]
    first = f"# {name[:2]} · A lesson\n\n{text}[words](GLOSSARY.md#head-dim), [next](01_two.ipynb)"
    cells = [new_markdown_cell(first), stored, new_code_cell("from mhacourse import check"), new_code_cell(STUB)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nb = new_notebook(cells=cells, metadata={"kernelspec": kernel, "mhalib": {}})
    for number, cell in enumerate(nb.cells):
        cell.id = f"cell-{number}"
    nb.metadata.mhalib.source_sha256 = source_hash(nb)
    path = folder / f"{name}.ipynb"
    nbformat.write(nb, path)
    return path


def with_tools(course: Path) -> Path:
    """Give the course the tools for notebooks, so that what is called in it is its own."""
    for name in ("__init__.py", "notebooks"):
        copy = shutil.copytree if name == "notebooks" else shutil.copy
        (course / "tools").mkdir(exist_ok=True)
        copy(ROOT / "tools" / name, course / "tools" / name)
    return course


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def change(path: Path) -> bytes:
    """Do to a copy what a learner does: write an answer, and run a cell."""
    nb = nbformat.read(path, 4)
    nb.cells[-1].source = RIGHT
    nb.cells[1].outputs = [new_output("stream", text="2")]
    nbformat.write(nb, path)
    return path.read_bytes()


def today() -> str:
    return date.today().isoformat()

"""Execute the lessons with other seeds, and with the sizes that they offer, as a reader does who changes a line.

    python -m tools.notebooks.harden [--only seeds] [--seeds 10] [notebooks/NN_name.ipynb …]

Prints a table, lesson by lesson, and below it what failed, and which claims did not hold and were told. A lesson must
run to its end; a claim that another draw breaks is told to the reader, and belongs mended or said of one draw only.
`make test` tries one other seed where nothing is trained; this tries all of it, minutes for a lesson.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from tools.notebooks.run import NOTEBOOKS, ROOT, execute, read, write
from tools.notebooks.store import NotebookError
from tools.notebooks.which import chosen_by, short

TOLD = "✗ not here: "
TELL = {"MHALIB_CLAIMS": "tell"}  # as a reader has it
# A size that the text invites to change: `T = 32  # or 16, 64`.
OFFERED = re.compile(r"^(\w+) = [^#\n]+?  # or (\S+(?:, \S+)*)$", re.MULTILINE)


class Try(NamedTuple):
    """One execution: what was changed, what failed in it, and which claims did not hold and were told."""

    name: str
    failed: str | None
    told: tuple[str, ...] = ()


def sizes_offered(nb: NotebookNode) -> Iterator[tuple[NotebookNode, str, str]]:
    """Yield each cell with a size that may be changed, the line as it is, and the line with another size."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            for line in OFFERED.finditer(cell.source):
                for other in line[2].split(", "):
                    yield cell, line[0], f"{line[1]} = {other}"


def told_in(cells: Iterable[NotebookNode]) -> tuple[str, ...]:
    """Return the claims that did not hold in these cells."""
    texts = [output.get("text", "") for cell in cells for output in cell.get("outputs", [])]
    return tuple(line.removeprefix(TOLD) for text in texts for line in text.splitlines() if line.startswith(TOLD))


def as_a_reader(path: Path, name: str, seed: int = 0) -> Try:
    """Execute the lesson as a reader does, whom a claim that does not hold is told."""
    try:
        return Try(name, None, told_in(execute(path, env=TELL, seed=seed).cells))
    except NotebookError as error:
        return Try(name, str(error))


def seeds(path: Path, number: int) -> Iterator[Try]:
    for seed in range(100, 100 * number + 1, 100):
        yield as_a_reader(path, f"SEED = {seed}", seed)


def sizes(path: Path, number: int) -> Iterator[Try]:
    """Each size that the lesson invites to change, alone."""
    nb = read(path)
    for cell, line, other in sizes_offered(nb):
        before, cell.source = cell.source, cell.source.replace(line, other)
        write(nb, path)
        cell.source = before
        yield as_a_reader(path, other)


VARIANTS = {"seeds": seeds, "sizes": sizes}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute the lessons with other seeds and sizes; print which hold.")
    parser.add_argument("paths", nargs="*", help="these notebooks only: files, or 05, or torch")
    parser.add_argument("--only", choices=VARIANTS, help="one of the two")
    parser.add_argument("--seeds", type=int, default=10, help="how many other seeds (10)")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in chosen_by(parser, options.paths, NOTEBOOKS)]
    failures, remarks = [], []
    for variant in [options.only] if options.only else VARIANTS:
        for path in paths:
            with tempfile.TemporaryDirectory(prefix="harden-") as folder:  # a copy of what a lesson may see
                for name in ("notebooks", "images", "mhalib", "tools"):
                    ignored = shutil.ignore_patterns("__pycache__", ".ipynb*")
                    shutil.copytree(ROOT / name, Path(folder, name), ignore=ignored)
                shutil.copy(ROOT / "requirements.txt", folder)
                copy = Path(shutil.copy(path, Path(folder, "notebooks")))
                tries = list(VARIANTS[variant](copy, options.seeds))
            failed = [f"{path.stem}, {one.name}: {one.failed}" for one in tries if one.failed]
            told = [f"{path.stem}, {one.name}: told: {text}" for one in tries for text in one.told]
            print(f"{variant}, {short(path)}: {len(tries)} tries, {len(failed)} failed, {len(told)} told", flush=True)
            failures += failed
            remarks += told
    print(*failures, *remarks, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

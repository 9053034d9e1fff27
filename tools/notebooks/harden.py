"""Execute the lessons with other seeds, and with the sizes that they offer, as a reader does who changes a line.

    python -m tools.notebooks.harden [--only seeds] [--seeds 10] [notebooks/NN_name.ipynb …]

Prints a line for each lesson, and below it what failed, and which claims did not hold and were told. A lesson must
run to its end; a claim that another draw breaks is told to the reader, and belongs mended or said of one draw only.
`make test` tries one other seed with brief trainings; this tries all of it, minutes for a lesson.
"""

import argparse
import copy
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools.notebooks.run import NOTEBOOKS, clear, play, put_in_seed, read
from tools.notebooks.store import NotebookError
from tools.notebooks.which import chosen_by, short

TOLD = re.compile(r"^✗ not here: (.+)$", re.MULTILINE)
# A size that the text invites to change: `T = 32  # or 16, 64`.
OFFERED = re.compile(r"^(\w+) = [^#\n]+?  # or (\S+(?:, \S+)*)$", re.MULTILINE)


def changed(nb: NotebookNode, only: str | None, seeds: int) -> Iterator[tuple[str, NotebookNode]]:
    """Yield the lesson with other seeds, then with each size that it invites to change, alone; and what was changed."""
    for seed in range(100, 100 * seeds + 1, 100) if only != "sizes" else ():
        other = copy.deepcopy(nb)
        put_in_seed(other, seed)
        yield f"SEED = {seed}", other
    for number, cell in enumerate(nb.cells if only != "seeds" else ()):
        for line in OFFERED.finditer(cell.source if cell.cell_type == "code" else ""):
            for size in line[2].split(", "):
                other = copy.deepcopy(nb)
                other.cells[number].source = cell.source.replace(line[0], f"{line[1]} = {size}")
                yield f"{line[1]} = {size}", other


def tried(nb: NotebookNode, folder: Path) -> tuple[list[str], list[str]]:
    """Execute the lesson as a reader has it; return what failed, and the claims that did not hold and were told."""
    try:
        play(nb, folder, {"MHALIB_CLAIMS": "tell"}, to_the_end=False)
    except NotebookError as error:
        return [str(error)], []
    said = "\n".join(output.get("text", "") for cell in nb.cells for output in cell.get("outputs", []))
    return [], [f"told: {claim}" for claim in TOLD.findall(said)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute the lessons with other seeds and sizes; print which hold.")
    parser.add_argument("paths", nargs="*", help="these notebooks only: files, or 05, or torch")
    parser.add_argument("--only", choices=("seeds", "sizes"), help="one of the two")
    parser.add_argument("--seeds", type=int, default=10, help="how many other seeds (10)")
    options = parser.parse_args(arguments)
    failed_at_all = False
    for path in chosen_by(parser, options.paths, NOTEBOOKS):
        tries, failures, remarks = 0, [], []
        for what, nb in changed(clear(read(path)), options.only, options.seeds):
            wrong, claims = tried(nb, path.parent)
            failures += [f"  {what}: {line}" for line in wrong]
            remarks += [f"  {what}: {line}" for line in claims]
            tries += 1
        counted = f"{short(path)}: {tries} tries, {len(failures)} failed, {len(remarks)} told"
        print(counted, *failures, *remarks, sep="\n", flush=True)
        failed_at_all |= bool(failures)
    return int(failed_at_all)


if __name__ == "__main__":
    sys.exit(main())

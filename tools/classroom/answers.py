"""Run the notebooks that learners hand in and say in plain text what the checks say, one row for each learner.

    python -m tools.classroom.answers [--stored] [--details] [--csv FILE] handed_in/anna_03.ipynb …

Every notebook runs from top to bottom in a kernel of its own; an error in a cell does not stop it. Then the exercise
cells are read, those whose last line is `check.name(answer)`. The files that were handed in are left alone. Their code
runs with your rights: use an account, a container or a machine that holds nothing that must not be read or lost. With
`--stored` nothing runs: you read what the checks said on the learner's machine, and believe it.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.reader import NotJSONError

CHECK = re.compile(r"check\.(\w+)\(.*\)\s*;?")
SECONDS = 300  # for one cell; the slowest of the lessons' own take about one


def execute(nb: NotebookNode, folder: Path) -> None:
    """Put into the notebook what its cells say now; a cell that never ends stops the run there."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = []  # what was handed in may be old, or made up
    client = NotebookClient(
        nb,
        kernel_name="python3",
        timeout=SECONDS,
        allow_errors=True,
        extra_arguments=["--log-level=ERROR"],  # else each start warns that the kernel listens on this machine
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except (CellTimeoutError, DeadKernelError) as error:
        print(str(error).strip().splitlines()[0], file=sys.stderr)


def verdicts(nb: NotebookNode) -> dict[str, str]:
    """Return for each exercise the text of its check, or the error that came instead."""
    found = {}
    for cell in nb.cells:
        last = cell.source.rstrip().rpartition("\n")[2]
        if cell.cell_type == "code" and (match := CHECK.fullmatch(last)):
            found[match[1]] = next((text for output in reversed(cell.outputs) if (text := _text(output))), "no answer")
    return found


def _text(output: NotebookNode) -> str | None:
    if output.output_type == "error":
        return f"stopped: {output.ename}: {output.evalue}"
    return output.get("data", {}).get("text/plain")


def short(verdict: str, name: str) -> str:
    """Return a verdict as a table shows it: `right`, `not yet: A view without a transpose`, …"""
    first = verdict.splitlines()[0].removeprefix(f"{name}: ")
    return re.sub(r"^not yet\. ", "not yet: ", first).rstrip(".")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Say what the checks say about notebooks that were handed in.")
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--stored", action="store_true", help="run nothing; read the outputs that are stored")
    parser.add_argument("--details", action="store_true", help="the whole text of every check that is not right")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table into this file as well")
    options = parser.parse_args(arguments)
    rows = []
    for path in options.notebooks:
        try:
            nb = nbformat.read(path, as_version=4)
        except (OSError, NotJSONError, nbformat.ValidationError) as error:
            print(f"{path.stem}: cannot be read: {str(error).splitlines()[0][:100]}")
            continue
        if not options.stored:
            execute(nb, path.resolve().parent)
        found = verdicts(nb)
        rows.append({"notebook": path.stem} | {name: short(text, name) for name, text in found.items()})
        right = sum(text == "right" for text in rows[-1].values())
        print(f"{path.stem}: {right} of {len(found)} right")
        for name, text in found.items():
            print(f"  {name}: {short(text, name)}")
            if options.details and short(text, name) != "right":
                print("\n".join("    " + line for line in text.splitlines()[1:]))
    if options.csv:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        with options.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

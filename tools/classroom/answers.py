"""Run the notebooks that learners hand in and say in plain text what the checks say, one row for each learner.

    python -m tools.classroom.answers [--stored] [--details] [--summary] [--csv FILE] handed_in/anna_03.ipynb …

Every notebook runs from top to bottom in a kernel of its own; an error in a cell does not stop it. Then the exercise
cells are read, those that call `check.name(answer)`. The files that were handed in are left alone. Their code
runs with your rights: use an account, a container or a machine that holds nothing that must not be read or lost. With
`--stored` nothing runs: you read what the checks said on the learner's machine, and believe it.

At the end stands what the class got wrong, see `summary`; it names no learner. `--summary` prints nothing else.
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

from tools.classroom.summary import Answer, as_text, groups, learner_of, write_csv

CHECK = re.compile(r"(?m)^[^#\n]*?\bcheck\.(\w+)\(")
ALONE = re.compile(r"(?m)^(check\.\w+\(.*\))[ ;]*$(?=\s*\S)")  # not the last line, so that Jupyter shows nothing of it
SECONDS = 300  # for one cell; the slowest of the lessons' own take about one


def execute(nb: NotebookNode, folder: Path) -> None:
    """Put into the notebook what its cells say now; a cell that never ends stops the run there."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = []  # what was handed in may be old, or made up
            cell.source = ALONE.sub(r"display(\1)", cell.source)
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


def answers(nb: NotebookNode, learner: str) -> list[Answer]:
    """Return what was written for each exercise, with the text of its check, or the error that came instead."""
    found = {}
    for cell in nb.cells:
        if cell.cell_type == "code":
            for name in CHECK.findall(cell.source):
                said = [note for output in cell.outputs for note in _notes(output, name)] or _errors(cell.outputs)
                found[name] = Answer(learner, name, cell.source, said[-1] if said else "no answer")
    return list(found.values())


def _notes(output: NotebookNode, name: str) -> list[str]:
    """Return what an output says of an exercise, whether the note was shown or printed."""
    text = str(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return re.findall(rf"(?ms)^{name}: .*?(?:^Lesson \d\d: [^\n]*$|\Z)", text)


def _errors(outputs: list[NotebookNode]) -> list[str]:
    return [f"stopped: {output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"]


def short(verdict: str, name: str) -> str:
    """Return a verdict as a table shows it: `right`, `not yet: A view without a transpose`, …"""
    first = verdict.splitlines()[0].removeprefix(f"{name}: ")
    return re.sub(r"^not yet\. ", "not yet: ", first).rstrip(".")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Say what the checks say about notebooks that were handed in.")
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--stored", action="store_true", help="run nothing; read the outputs that are stored")
    parser.add_argument("--details", action="store_true", help="the whole text of every check that is not right")
    parser.add_argument(
        "--summary", action="store_true", help="only what the class got wrong, to be shown to the class"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write the table into this file, and the mistakes into FILE_mistakes"
    )
    options = parser.parse_args(arguments)
    rows, written, unreadable = [], [], 0
    for path in {path.resolve(): path for path in options.notebooks}.values():
        try:
            nb = nbformat.read(path, as_version=4)
        except (OSError, NotJSONError, nbformat.ValidationError) as error:
            unreadable += 1
            if not options.summary:
                print(f"{path.stem}: cannot be read: {str(error).splitlines()[0][:100]}")
            continue
        if not options.stored:
            execute(nb, path.resolve().parent)
        found = answers(nb, learner_of(path))
        written += found
        rows.append(
            {"notebook": path.stem} | {answer.exercise: short(answer.said, answer.exercise) for answer in found}
        )
        if not options.summary:
            _print_one(path.stem, found, options.details)
    found = groups(written)
    if not options.summary:
        print("\nThe class\n")
    elif unreadable:
        print(f"{unreadable} of the notebooks cannot be read.\n")
    print(as_text(found, len(rows)))
    if options.csv:
        columns = list(dict.fromkeys(["notebook", *(name for row in rows for name in row)]))
        with options.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        write_csv(found, options.csv.with_stem(options.csv.stem + "_mistakes"))
    return 0


def _print_one(notebook: str, found: list[Answer], details: bool) -> None:
    right = sum(answer.verdict == "right" for answer in found)
    print(f"{notebook}: {right} of {len(found)} right")
    for answer in found:
        print(f"  {answer.exercise}: {short(answer.said, answer.exercise)}")
        if details and answer.verdict != "right":
            print("\n".join("    " + line for line in answer.said.splitlines()[1:]))


if __name__ == "__main__":
    sys.exit(main())

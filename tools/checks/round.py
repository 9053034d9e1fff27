"""A round of strangers' answers: what the checks say of wrong answers that nobody here has seen.

    python -m tools.checks.round tasks               print every task with its stub, for those who write the answers
    python -m tools.checks.round notes FILE          add to each answer what the check says, for those who judge
    python -m tools.checks.round table FILE          count what the judges found, by lessons and by who named

A file holds one answer a line, as JSON: `exercise` (of the set: `reviews.mend`, `reviews.test`), `source` (a function,
a class, or an expression, as a learner types it), `what` (the mistake in a few words, written before any check is
asked) and `right`. `notes` adds `lesson`, `code` and `said`. Judges, who see nothing but these, add `verdict`:
"fitting" (names the mistake or leads to it), "difference" (says only that, or where, the result differs) or
"misleading" (names another mistake). That a wrong answer passed or a right one was refused needs no judge.
The answers run with your rights.
"""

import argparse
import collections
import json
import linecache
import math
import re
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from einops import einsum, rearrange, reduce, repeat
from torch import nn

import mhalib
from mhacourse import check, problem
from mhacourse.note import Note
from tools.notebooks.run import NOTEBOOKS, read

ASKS = re.compile(r"^(?:check\.(\w+)|problem\.(\w+\.(?:test|mend)))\(", re.M)
TASK = re.compile(r"\*\*(\d+ · |Show it|Mend it)")
NAMES = vars(math) | {"math": math, "mhalib": mhalib, "np": np, "torch": torch, "F": F, "nn": nn}
NAMES |= {"Tensor": torch.Tensor, "einsum": einsum, "rearrange": rearrange, "reduce": reduce, "repeat": repeat}
NAMES |= {name: getattr(mhalib, name) for name in mhalib.__all__}
VERDICTS = ("fitting", "difference", "misleading", "passed")
ONE_CHANGE = "One change makes it right"  # how a title goes on where no catalogue has named the mistake


def tasks() -> str:
    """Return every task of the lessons and of the set, with what stands before the check, as Markdown."""
    parts = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        cells = read(path).cells
        for i, cell in enumerate(cells):
            asked = ASKS.search(cell.source) if cell.cell_type == "code" else None
            if asked is None:
                continue
            name = asked[1] or asked[2]
            first = next((j for j in range(i, max(i - 6, 0), -1) if TASK.search(cells[j].source)), i)
            told = [_as_markdown(each) for each in cells[first : i + 1]]
            if asked[2]:  # the layer stands some cells above
                layer = f"{asked[2].partition('.')[0]}-layer"
                told = [_as_markdown(each) for each in cells if each.id == layer] + told
            parts.append("\n\n".join([f"## {name}", *told]))
    return "\n\n".join(parts) + "\n"


def _as_markdown(cell) -> str:
    return f"```python\n{cell.source}\n```" if cell.cell_type == "code" else cell.source


def answered(row: dict, number: int) -> dict:
    """Return a row with the number of its lesson, and the code and the whole text of what the check says."""
    name, _, question = row["exercise"].partition(".")
    asked = getattr(problem if question else check, name)
    try:
        answer = _built(row["source"], number)
        note = getattr(asked, question or "__call__")(answer)
    except Exception as error:  # of a source that cannot be built; an error of an answer becomes a note
        note = Note(f"stopped: {type(error).__name__}: {error}", code="stopped")
    return {**row, "lesson": "set" if question else asked.lesson, "code": note.code, "said": repr(note)}


def _built(source: str, number: int) -> object:
    """Return the answer that a source stands for: what it defines last, or its value."""
    names, file = dict(NAMES), f"<answer {number}>"
    linecache.cache[file] = (len(source), None, [line + "\n" for line in source.split("\n")], file)  # for inspect
    try:
        return eval(compile(source.strip(), file, "eval"), names)
    except SyntaxError:
        exec(compile(source, file, "exec"), names)
    return list(names.values())[-1]


def table(rows: list[dict]) -> str:
    """Return what became of the wrong answers, by lessons and by who named them, and how many right ones were taken."""
    by_lesson, by_whom = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    right = collections.Counter()
    for row in rows:
        passed = row["code"] == "right"
        if row["right"]:
            right["taken" if passed else "refused"] += 1
            continue
        verdict = "passed" if passed else row.get("verdict")
        if verdict not in VERDICTS:
            answer = f"{row['exercise']} ({row['what']})"
            raise ValueError(f"{answer} needs a verdict: one of {VERDICTS[:3]}, got {verdict!r}")
        mend = row["exercise"].endswith(".mend")
        by_lesson["set, mend" if mend else row["lesson"]][verdict] += 1
        named = row["code"].startswith("wrong:")
        one_change = ONE_CHANGE in row["said"].partition("\n")[0]
        by_whom["one change" if one_change else "the catalogue" if named else "what is seen"][verdict] += 1
    lines = [f"| | wrong | {' | '.join(VERDICTS)} |", "|---|" + "---|" * (len(VERDICTS) + 1)]
    everything = {"all": sum(by_lesson.values(), collections.Counter())}
    for name, counts in [*sorted(by_lesson.items()), *sorted(by_whom.items()), *everything.items()]:
        total = counts.total()
        shares = " | ".join(f"{counts[verdict]} ({counts[verdict] / total:.0%})" for verdict in VERDICTS)
        lines.append(f"| {name} | {total} | {shares} |")
    return "\n".join([*lines, "", f"Right answers: {right['taken']} taken, {right['refused']} refused."])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["tasks", "notes", "table"])
    parser.add_argument("file", nargs="?", type=Path)
    given = parser.parse_args(arguments)
    if given.what == "tasks":
        print(tasks(), end="")
        return
    if given.file is None:
        parser.error(f"{given.what} needs a file of answers")
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in given.file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if given.what == "table":
        print(table(rows))
        return
    for number, row in enumerate(rows):
        print(json.dumps(answered(row, number), ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())

"""Run the notebooks that learners hand in and say in plain text what the checks say, one row for each learner.

    python -m tools.classroom.answers [--stored] [--details] [--summary] [--csv FILE] handed_in/anna_03.ipynb …

Every notebook runs from top to bottom in a kernel of its own; an error in a cell does not stop it. Then the exercise
cells are read, those that call `check.name(answer)`. The files that were handed in are left alone. Their code
runs with your rights: use an account, a container or a machine that holds nothing that must not be read or lost. With
`--stored` nothing runs: you read what the checks said on the learner's machine, and believe it.

At the end stands what the class got wrong: mistakes counted by what the check calls them, each with an example, and
nobody's name. Each learner counts once for an exercise, however many notebooks came: as right where one of them is
right, else as the last one says. `--summary` prints nothing else.
"""

import argparse
import ast
import csv
import re
import sys
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.reader import NotJSONError

from tools.notebooks.run import NOTEBOOKS, clear, play, read
from tools.notebooks.store import NotebookError

CHECK = re.compile(r"(?m)^[^#\n]*?\bcheck\.(\w+)\(")
ALONE = re.compile(r"(?m)^(check\.\w+\(.*\))[ ;]*$(?=\s*\S)")  # not the last line, so that Jupyter shows nothing of it
MOST_LINES, MOST_CHARACTERS = 8, 240  # of an example, and of a line of it
LEFT_OUT = ("See:", "Lesson ", "For example:", "When stuck:", "You printed:")
VERDICTS = ("right", "not written", "named", "no name", "stopped")


@dataclass(frozen=True)
class Answer:
    """What one learner wrote for one exercise, and the whole text that the check says of it."""

    learner: str
    exercise: str
    code: str
    said: str

    @property
    def title(self) -> str:
        """The first line of what was said, without the name of the exercise."""
        first = (self.said.splitlines() or ["no answer"])[0]
        return first.removeprefix(f"{self.exercise}: ").rstrip(".")

    @property
    def row(self) -> str:
        """What a table shows: `right`, `not yet: A view without a transpose`, …"""
        return self.title.replace("not yet. ", "not yet: ", 1)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.title == "right":
            return "right"
        if self.title == "not yet":
            return "no name"
        if self.title.startswith("not yet. "):
            return "named"
        return "stopped" if self.title.startswith("stopped: ") else "not written"

    @property
    def mistake(self) -> str:
        """What the check calls it; of an error in the cell, its kind."""
        if self.verdict == "stopped":
            return ":".join(self.title.split(":")[:2])
        return self.title.removeprefix("not yet. ") if self.verdict == "named" else ""


@dataclass(frozen=True)
class Group:
    """Learners with the same verdict on an exercise: how many, of how many, and the shortest of their answers.

    `answer` and `check` are what to show of that answer and of its check; nobody's name stands in them.
    """

    exercise: str
    verdict: str
    mistake: str
    learners: int
    of: int
    answer: str
    check: str

    @property
    def is_wrong(self) -> bool:
        return self.verdict in VERDICTS[2:]


def execute(nb: NotebookNode, folder: Path) -> None:
    """Put into the notebook what its cells say now; a cell that never ends stops the run there."""
    clear(nb)  # what was handed in may be old, or made up
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.source = ALONE.sub(r"display(\1)", cell.source)
    try:
        play(nb, folder, {"MHALIB_CLAIMS": "tell"})
    except NotebookError as error:
        print(error, file=sys.stderr)


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


def learner_of(notebook: Path) -> str:
    """Return whose notebook it is: what its name says besides the lesson, or else its folder and its name."""
    stem = re.sub(r"(-Copy\d+| ?\(\d+\))+$", "", notebook.stem)
    course = {word for lesson in NOTEBOOKS.glob("*.ipynb") for word in _words(lesson.stem)}
    own = [word for word in _words(stem) if word not in course]
    return " ".join(own) or f"{notebook.resolve().parent.name}/{stem}"


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word]


def groups(answers: Iterable[Answer]) -> list[Group]:
    """Return all verdicts with how many learners have each: what is wrong before the rest, the most frequent first."""
    last: dict[tuple[str, str], Answer] = {}
    for answer in answers:
        key = answer.learner, answer.exercise
        if key not in last or last[key].verdict != "right":
            last[key] = answer
    together: dict[tuple[str, str, str], list[Answer]] = {}
    for answer in last.values():
        together.setdefault((answer.exercise, answer.verdict, answer.mistake), []).append(answer)
    of = {name: sum(exercise == name for _, exercise in last) for _, name in last}
    names = _names({learner for learner, _ in last})
    found = []
    for (exercise, verdict, mistake), some in together.items():
        example = min(some, key=lambda answer: len(answer.code))
        code, said = (names.sub("…", text) for text in (_code(example), _said(example)))
        found.append(Group(exercise, verdict, names.sub("…", mistake), len(some), of[exercise], code, said))
    return sorted(found, key=lambda group: (not group.is_wrong, -group.learners))


def as_text(found: list[Group], notebooks: int) -> str:
    """Return the summary as a teacher reads it: a line for each exercise, then the mistakes with their examples."""
    if not found:
        return f"No exercise was found in {notebooks} notebooks."
    exercises = list(dict.fromkeys(group.exercise for group in sorted(found, key=lambda group: group.exercise)))
    wide = max(len("exercise"), *map(len, exercises))
    lines = [f"{'exercise':{wide}}  learners  " + "  ".join(VERDICTS)]
    for name in exercises:
        ours = [group for group in found if group.exercise == name]
        counts = (sum(group.learners for group in ours if group.verdict == verdict) for verdict in VERDICTS)
        row = "  ".join(f"{count:{len(verdict)}}" for count, verdict in zip(counts, VERDICTS, strict=True))
        lines.append(f"{name:{wide}}  {ours[0].of:8}  {row}")
    for group in found:
        if group.is_wrong:
            lines += ["", f"{group.learners} of {group.of} · {group.exercise}: {group.mistake or 'without a name'}"]
            lines += ["    " + line for line in group.answer.splitlines()]
            lines += ["  " + line for line in group.check.splitlines()]
    return "\n".join(lines)


def write_csv(found: list[Group], file: Path) -> None:
    """Write a row for each exercise and verdict, to be sorted and filtered in a spreadsheet."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(field.name for field in fields(Group))
        for group in found:
            # A text that begins like a formula would be computed by a spreadsheet.
            writer.writerow("'" + cell if str(cell).startswith(tuple("=+-@")) else cell for cell in astuple(group))


def _code(answer: Answer) -> str:
    """Return what was written, without the checks and without comments, in which names stand."""
    try:
        code = ast.unparse(ast.parse(answer.code))
    except SyntaxError:
        code = re.sub(r"(?m)(^|\s)#.*$", "", answer.code)
    lines = [line for line in code.splitlines() if line.strip()]
    return _short([line for line in lines if not re.match(r"(display\()?check\.\w+\(", line)])


def _said(answer: Answer) -> str:
    """Return what the check said of it, without the example's numbers and what is the same in all notes."""
    lines = [line.strip() for line in answer.said.splitlines()[1:] if not line.startswith("    ")]
    lines = [line for line in lines if line and not line.startswith(LEFT_OUT)]
    return _short(lines or [answer.title])


def _short(lines: list[str]) -> str:
    more = len(lines) - MOST_LINES
    shown = [line if len(line) <= MOST_CHARACTERS else line[:MOST_CHARACTERS] + " …" for line in lines[:MOST_LINES]]
    text = "\n".join([*shown, *([f"… and {more} more line{'s' * (more > 1)}"] if more > 0 else [])])
    return "".join(letter for letter in text if letter.isprintable() or letter == "\n")


def _names(learners: Iterable[str]) -> re.Pattern:
    """Return what finds the names of all learners; but no word of the course, such as the max that Max writes, too."""
    words = {word for learner in learners for word in _words(learner) if len(word) > 2}
    spelled = {spelling for word in words for spelling in (word, word.upper(), word.title())}
    either = "|".join(map(re.escape, sorted(spelled - _course()))) or r"\b\B"
    return re.compile(rf"(?<![^\W_])(?:{either})(?![^\W_])")


@cache
def _course() -> set[str]:
    """Return all words of the lessons."""
    cells = [cell for path in NOTEBOOKS.glob("*.ipynb") for cell in read(path).cells]
    return {word for cell in cells for word in re.findall(r"[^\W_]+", cell.source)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Say what the checks say about notebooks that were handed in.")
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--stored", action="store_true", help="run nothing; read the outputs that are stored")
    parser.add_argument("--details", action="store_true", help="the whole text of every check that is not right")
    parser.add_argument("--summary", action="store_true", help="only what the class got wrong, to be shown to it")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table, and the mistakes into FILE_mistakes")
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
        rows.append({"notebook": path.stem} | {answer.exercise: answer.row for answer in found})
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
        print(f"  {answer.exercise}: {answer.row}")
        if details and answer.verdict != "right":
            print("\n".join("    " + line for line in answer.said.splitlines()[1:]))


if __name__ == "__main__":
    sys.exit(main())

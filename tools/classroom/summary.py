"""What a class got wrong: mistakes counted by their names, each with an example, and nobody's name.

Each learner counts once for an exercise, however many notebooks came: as right where one of them is right, else as the
last one says. A mistake is what the first line of the check calls it, so that whatever names mistakes is counted.
"""

import csv
import io
import json
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LESSONS = Path(__file__).resolve().parents[2] / "notebooks"
MOST_LINES, MOST_CHARACTERS = 8, 240  # of an example, and of a line of it
LEFT_OUT = ("See:", "Lesson ", "For example:", "When stuck:", "You printed:")
VERDICTS = ("right", "not written", "named", "no name", "stopped")
COLUMNS = ("exercise", "verdict", "mistake", "learners", "of", "answer", "check")


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

    `code` and `said` are what to show of that answer and of its check; nobody's name stands in them.
    """

    exercise: str
    verdict: str
    mistake: str
    learners: int
    of: int
    code: str
    said: str

    @property
    def is_wrong(self) -> bool:
        return self.verdict in VERDICTS[2:]


def learner_of(notebook: Path) -> str:
    """Return whose notebook it is: what its name says besides the lesson, or else its folder and its name."""
    stem = re.sub(r"(-Copy\d+| ?\(\d+\))+$", "", notebook.stem)
    course = {word for lesson in LESSONS.glob("*.ipynb") for word in _words(lesson.stem)}
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
            lines += ["    " + line for line in group.code.splitlines()]
            lines += ["  " + line for line in group.said.splitlines()]
    return "\n".join(lines)


def write_csv(found: list[Group], file: Path) -> None:
    """Write a row for each exercise and verdict, to be sorted and filtered in a spreadsheet."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for group in found:
            example = (group.code, group.said) if group.is_wrong else ("", "")
            row = (group.exercise, group.verdict, group.mistake, group.learners, group.of, *example)
            # A text that begins like a formula would be computed by a spreadsheet.
            writer.writerow("'" + cell if str(cell).startswith(tuple("=+-@")) else cell for cell in row)


def _code(answer: Answer) -> str:
    """Return what was written, without the checks and without comments, in which names stand."""
    lines = [line for line in _without_comments(answer.code).splitlines() if line.strip()]
    return _short([line for line in lines if not re.match(r"(display\()?check\.\w+\(", line)])


def _said(answer: Answer) -> str:
    """Return what the check said of it, without the example's numbers and what is the same in all notes."""
    lines = [line.strip() for line in answer.said.splitlines()[1:] if not line.startswith("    ")]
    lines = [line for line in lines if line and not line.startswith(LEFT_OUT)]
    return _short(lines or [answer.title])


def _without_comments(code: str) -> str:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        return re.sub(r"(?m)(^|\s)#.*$", "", code)
    lines = code.splitlines()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return "\n".join(lines)


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
    cells = [cell for path in LESSONS.glob("*.ipynb") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    return {word for cell in cells for word in re.findall(r"[^\W_]+", "".join(cell["source"]))}

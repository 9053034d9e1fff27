"""What a notebook says of itself: its title, question and minutes stand in its first cell, and only there.

Road map, README, teachers' notes and site take them from here. Which lessons are on the quick route stands in this
file, and each lesson repeats it for its reader. What else a lesson must hold is tested in
`tests/lessons/test_notebooks.py`. Which notebook is a lesson, says `which.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from tools.notebooks.kinds import folded, lines_of
from tools.notebooks.plain import COLAB
from tools.notebooks.run import NOTEBOOKS, read
from tools.notebooks.which import is_lesson, lesson_files

TITLE = re.compile(r"# (\d\d) · (.+)")
ABOUT = re.compile(r"# (.+)\n\n\*(?:Question: )?([^*]+)\*\n")  # of a notebook without a number
QUESTION = re.compile(r"\*Question: (.+?)\*", re.DOTALL)
MINUTES, ON_QUICK = re.compile(r"(\d+) minutes"), re.compile(r"\bor (\d+) on the quick route")
# Honest minutes: what a reader needs to read words and the code in sight, to guess, and to wait where the text tells of
# a wait, "about 20 seconds". Exercises are not counted: each says its own minutes.
WORDS_A_MINUTE, LINES_A_MINUTE, SECONDS_A_PREDICTION = 200, 12, 30
PREDICTION = "**Predict"
WAIT = re.compile(r"\babout (\d+) seconds\b")
# From here on, up to that heading, it is not on the quick route.
SKIP = re.compile(r"\*First time: [^*]*?\]\(#([^)]+)\)[^*]*\*")
QUICK_ROUTE = ("00", "02", "03", "05", "07", "10")  # what must be seen, in two hours


@dataclass(frozen=True)
class Lesson:
    """What the first cell of a notebook says, the question as a sentence of its own.

    One without a number says its title and, in the place of the question, what it is for.
    """

    name: str  # of the file, without its ending
    title: str
    question: str
    number: str = ""
    minutes: int = 0
    quick_minutes: int = 0  # what it says of the quick route; 0 where it is not on it
    counted: float = 0.0  # the minutes by words and lines
    counted_quick: float = 0.0  # the same for what is on the quick route

    @property
    def heading(self) -> str:
        return f"{self.number} · {self.title}" if self.number else self.title

    @property
    def quick(self) -> bool:
        return self.number in QUICK_ROUTE


def describe(nb: NotebookNode, name: str) -> Lesson:
    """Return what the notebook says of itself."""
    first = nb.cells[0].source + "\n" if nb.cells else ""
    if not is_lesson(name):
        if said := ABOUT.match(first):
            return Lesson(name, said[1].strip(), _sentence(said[2]))
        raise ValueError(
            f"{name}: the first cell must open with `# Title`, and below it `*What it is for, in a sentence.*`; "
            f"it says {first[:200]!r}"
        )
    title, question, minutes = TITLE.match(first), QUESTION.search(first), MINUTES.search(first)
    if not (title and question and minutes and name.startswith(f"{title[1]}_")):
        raise ValueError(
            f"{name}: the first cell must open with `# {name[:2]} · title`, ask `*Question: …?*` and say how many "
            f"minutes the lesson takes, `About 40 minutes`; it says {first[:200]!r}"
        )
    said = int(found[1]) if (found := ON_QUICK.search(first)) else 0
    counted = honest_minutes(nb.cells), honest_minutes(quick_cells(nb))
    return Lesson(name, title[2].strip(), _sentence(question[1]), title[1], int(minutes[1]), said, *counted)


def _sentence(said: str) -> str:
    words = " ".join(said.split())
    return words[0].upper() + words[1:]


def honest_minutes(cells: Sequence[NotebookNode]) -> float:
    """Return how many minutes a lesson takes to read, guess and wait, without *Try it*."""
    seconds, counts = 0.0, True
    for cell in cells:
        if cell.cell_type == "code":
            in_sight = not folded(cell) and cell.id != COLAB
            seconds += counts * in_sight * 60 * lines_of(cell.source) / LINES_A_MINUTE
            continue
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            if part.startswith("## "):
                counts = not part.startswith("## Try it")
            waits = sum(map(int, WAIT.findall(part)))
            guesses = part.count(PREDICTION) * SECONDS_A_PREDICTION
            seconds += counts * (60 * len(part.split()) / WORDS_A_MINUTE + guesses + waits)
    return seconds / 60


def quick_cells(nb: NotebookNode) -> list[NotebookNode]:
    """Return the cells of the quick route in order: without what a first reader is told to skip, and *Try it*."""
    cells, until = [], None
    for cell in nb.cells:
        if cell.cell_type == "code":
            cells += [cell] * (until is None)
            continue
        kept = ""
        for part in re.split(r"^(?=#{2,3} )", cell.source, flags=re.MULTILINE):
            heading = part.split("\n", 1)[0].lstrip("# ").strip().replace(" ", "-") if part.startswith("##") else None
            if heading == until or (heading and heading.startswith("What-you-now-know")):
                until = None
            if until is not None:
                continue
            skips = SKIP.search(part)
            if heading and heading.startswith("Try-it"):
                until = "What-you-now-know"
            elif skips:
                kept, until = kept + part[: skips.start()], skips[1]
            else:
                kept += part
        if kept.strip():
            cells.append(NotebookNode({**cell, "source": kept}))
    if until not in (None, "What-you-now-know"):
        raise ValueError(f"a reader is told to skip to #{until}, and no such heading follows")
    return cells


def lessons(folder: Path = NOTEBOOKS) -> list[Lesson]:
    """Return the lessons of a folder in their order."""
    return [describe(read(path), path.stem) for path in lesson_files(folder)]

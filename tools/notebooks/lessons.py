"""What a notebook says of itself: its title, question and minutes stand in its first cell, and only there.

Road map, README, teachers' notes and site take them from here. Which lessons are the quick way through says this file,
and each lesson repeats it for its reader. What else a lesson must hold is tested in
`tests/lessons/test_notebooks.py`. Which notebook is a lesson, says `which.py`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from tools.notebooks.plain import COLAB
from tools.notebooks.run import NOTEBOOKS, read
from tools.notebooks.which import is_lesson, lesson_files

TITLE = re.compile(r"# (\d\d) · (.+)")
ABOUT = re.compile(r"# (.+)\n\n\*(?:Question: )?([^*]+)\*\n")  # of a notebook without a number
QUESTION = re.compile(r"\*Question: (.+?)\*", re.DOTALL)
MINUTES = re.compile(r"(\d+) minutes")
# The stopwatch: what a reader needs, exercises and the running of the cells aside.
WORDS_A_MINUTE, SECONDS_A_CELL, SECONDS_A_PREDICTION = 200, 20, 30
PREDICTION = "**Predict"
QUICK_WAY = ("00", "02", "03", "05", "07", "10")  # what must be seen, in two hours


@dataclass(frozen=True)
class Lesson:
    """What the first cell of a lesson says, the question as a sentence of its own."""

    name: str  # of the file, without its ending
    number: str
    title: str
    question: str
    minutes: int
    counted: float  # the minutes by the stopwatch

    @property
    def heading(self) -> str:
        return f"{self.number} · {self.title}"

    @property
    def quick(self) -> bool:
        return self.number in QUICK_WAY


@dataclass(frozen=True)
class Other:
    """What the first cell of a notebook without a number says, under the names that a `Lesson` has."""

    name: str
    heading: str
    question: str  # or what it is for, in a sentence


def introduce(nb: NotebookNode, name: str) -> Lesson | Other:
    """Return what a notebook says of itself, a lesson or another.

    Raises:
        ValueError: the first cell holds no title, or does not say what the notebook asks or is for.
    """
    if is_lesson(name):
        return describe(nb, name)
    first = nb.cells[0].source + "\n" if nb.cells else ""
    said = ABOUT.match(first)
    if not said:
        raise ValueError(
            f"{name}: the first cell must open with `# Title`, and below it `*What it is for, in a sentence.*`; "
            f"it says {first[:200]!r}"
        )
    about = " ".join(said[2].split())
    return Other(name, said[1].strip(), about[0].upper() + about[1:])


def describe(nb: NotebookNode, name: str) -> Lesson:
    """Return what the lesson says of itself.

    Raises:
        ValueError: the first cell holds no title, no question or no minutes, or another number than the name.
    """
    first = nb.cells[0].source if nb.cells else ""
    title, question, minutes = TITLE.match(first), QUESTION.search(first), MINUTES.search(first)
    if not (title and question and minutes and name.startswith(f"{title[1]}_")):
        raise ValueError(
            f"{name}: the first cell must open with `# {name[:2]} · title`, ask `*Question: …?*` and say how many "
            f"minutes the lesson takes, `About 40 minutes`; it says {first[:200]!r}"
        )
    asked = " ".join(question[1].split())
    return Lesson(name, title[1], title[2].strip(), asked[0].upper() + asked[1:], int(minutes[1]), stopwatch(nb))


def stopwatch(nb: NotebookNode) -> float:
    """Return how many minutes a lesson takes to read, run and predict, without *Try it* and without waiting."""
    seconds, counts = 0.0, True
    for cell in nb.cells:
        if cell.cell_type == "code":
            seconds += counts * SECONDS_A_CELL * (cell.get("id") != COLAB)  # which asks for no thought
            continue
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            if part.startswith("## "):
                counts = not part.startswith("## Try it")
            words = len(part.split())
            seconds += counts * (60 * words / WORDS_A_MINUTE + part.count(PREDICTION) * SECONDS_A_PREDICTION)
    return seconds / 60


def lessons(folder: Path = NOTEBOOKS) -> list[Lesson]:
    """Return the lessons of a folder in their order."""
    return [describe(read(path), path.stem) for path in lesson_files(folder)]

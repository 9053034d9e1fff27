"""What a lesson says of itself: its title, question and minutes stand in the notebook's first cell, and only there.

Road map, README, teachers' notes and site take them from here. What else a lesson must hold is tested in
`tests/test_notebooks.py`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from tools.notebooks.run import NOTEBOOKS, read

TITLE = re.compile(r"# (\d\d) · (.+)")
QUESTION = re.compile(r"\*Question: (.+?)\*", re.DOTALL)
MINUTES = re.compile(r"(\d+) minutes")


@dataclass(frozen=True)
class Lesson:
    """What the first cell of a lesson says, the question as a sentence of its own."""

    name: str  # of the file, without its ending
    number: str
    title: str
    question: str
    minutes: int

    @property
    def heading(self) -> str:
        return f"{self.number} · {self.title}"


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
    return Lesson(name, title[1], title[2].strip(), asked[0].upper() + asked[1:], int(minutes[1]))


def lessons(folder: Path = NOTEBOOKS) -> list[Lesson]:
    """Return the lessons of a folder in their order."""
    return [describe(read(path), path.stem) for path in sorted(folder.glob("*.ipynb"))]

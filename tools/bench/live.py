"""A page whose kernel is this process: what a notebook does around a widget, without the notebook.

The page is sent the state of the widget, bytes as bytes, and asks this process for the blocks that come into sight.
What both sides do for it is counted; the way between them is the browser's remote control, not a notebook's server,
and so left out of what is compared.
"""

import base64
import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headview.base import page_fragment
from tools.bench.scripts import LIVE, MOVE, WATCH
from tools.bench.widgets import Pages, weigh

SETTLED = """!bench.waiting && document.querySelector('.mha canvas[aria-label^="Heat map"]')"""
ZOOM, PAN = {"ctrlKey": True, "deltaY": -40}, {"shiftKey": True, "deltaY": 40}
BACK = {"ctrlKey": True, "deltaY": 40}
FACTOR = math.exp(40 * 0.012)  # by which a step of the wheel zooms, as window.js has it
DEPTH, PANS = 9, 6  # steps down to single weights, and sideways at each of them
PLACES = [0.2, 0.3], [0.5, 0.5], [0.4, 0.7]  # of the map, from the left and from above


class Kernel:
    """Answers a page with the blocks of a widget; `spent` is milliseconds, `sent` bytes, `asked` blocks."""

    def __init__(self, widget):
        self.blocks = widget._blocks
        self.spent, self.sent, self.asked = 0.0, 0, 0

    def __call__(self, keys: list[str]) -> list:
        start = time.perf_counter()
        made = [self.blocks.answer(key) for key in keys]
        self.spent += 1000 * (time.perf_counter() - start)
        self.sent += sum(len(data) + len(json.dumps(about)) for about, data in made)
        self.asked += len(keys)
        return [[about, base64.b64encode(data).decode()] for about, data in made]


@dataclass
class Look:
    """The first look at a widget: milliseconds of Python and of the page, bytes; the page and its kernel."""

    python: float
    paint: float
    size: int
    page: object
    kernel: Kernel

    @property
    def total(self) -> float:
        return self.python + self.paint


@contextmanager
def look(make, pages: Pages) -> Iterator[Look]:
    """Display the widget that `make` returns, as a notebook does, until all that is in sight is painted.

    `python` is constructor, display bundle with its picture, and state; `paint` is from the start of the navigation to
    the frame after the last block has come, what the kernel does for these included.
    """
    start = time.perf_counter()
    widget = make()
    png = widget._repr_mimebundle_()[0]["image/png"]
    state = widget.get_state()
    python = 1000 * (time.perf_counter() - start)
    kernel = Kernel(widget)
    body = page_fragment("HeadView", state | {"_esm": LIVE % json.dumps(state["_esm"])})
    with pages.open(body, WATCH % SETTLED, kernel) as page:
        paint = page.wait_for_function("window.paintedAt").json_value()
        yield Look(python, paint, weigh(state) + len(base64.b64encode(png)) + kernel.sent, page, kernel)


@dataclass
class Step:
    """A step of zoom or pan: milliseconds of work in the page, of the kernel, until painted; blocks asked for."""

    work: float
    kernel: float
    shown: float
    asked: int


def moves(look: Look) -> list[Step]:
    """Zoom in at some places, step by step down to single weights, pan at each step, and zoom out again."""
    inwards = [turn for _ in range(DEPTH) for turn in (ZOOM, *[PAN] * PANS)]
    turns = [*inwards, *[BACK] * (DEPTH + 2)]  # two more: what lies at an edge is left
    steps = []
    for place in PLACES:
        for turn in turns:
            before = look.kernel.spent
            work, shown, asked = look.page.evaluate(MOVE, [turn, *place])
            steps.append(Step(work, look.kernel.spent - before, shown, asked))
    return steps

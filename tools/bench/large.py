"""Measure HeadView on maps that nothing else shows: 4.3 billion weights, and one head of 8,192 tokens.

    python -m tools.bench.large LAYERS HEADS TOKENS     # the first of these, as JSON: `make bench` runs it by itself

Part of `make bench`; `page.py` puts the tables into BENCHMARKS.md. Weights that fill the memory are looked at
in a process of their own. Where the machine has too little memory for them, fewer layers stand for all.
"""

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from mhalib.widgets import HeadView
from tools.bench.live import DEPTH, FACTOR, Step, look, moves
from tools.bench.peers import ROOT
from tools.bench.widgets import Pages, theirs

HUGE, STAND_IN = (32, 32, 2048), (4, 32, 2048)
NEEDS_FREE = 14e9  # bytes that must be free for HUGE
LONG = 8192
LOOKS = 3  # at the long head
SMALL = 128  # tokens of the maps by which the others are weighed
LIMIT = 300  # seconds after which the process is given up


# ---------------------------------------------------------------- 4.3 billion weights


def sink_maps(layers: int, heads: int, tokens: int, dtype: torch.dtype = torch.float16) -> list[Tensor]:
    """Return random maps `(1, h, T, T)` of each layer in which the first key takes most of each row.

    One layer is drawn; the others are the same rows in another order, so that this takes seconds, not minutes.
    """
    first = torch.empty(1, heads, tokens, tokens, dtype=dtype)
    for head in range(heads):
        cells = (2 * torch.randn(tokens, tokens)).softmax(-1)
        share = 0.5 + 0.49 * torch.rand(tokens)
        cells *= ((1 - share) / (1 - cells[:, 0]))[:, None]
        cells[:, 0] = share
        first[0, head] = cells
    return [first, *(first.roll((i, 37 * i), (1, 2)) for i in range(1, layers))]


def huge(shape: tuple[int, int, int], chromium: str) -> dict:
    """Return what a process of its own measures of HeadView of this shape; see `main`."""
    command = [sys.executable, "-m", "tools.bench.large", *map(str, shape)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "CHROMIUM": chromium}, capture_output=True, text=True, timeout=LIMIT
    )
    if done.returncode:
        raise RuntimeError(f"HeadView of {shape} could not be measured: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def shape_that_fits(free: float | None) -> tuple[int, int, int]:
    """Return HUGE, or its stand-in where too few bytes are free or nobody knows."""
    return HUGE if free is not None and free >= NEEDS_FREE else STAND_IN


def free_bytes() -> int | None:
    """Return how many bytes of memory are free; None where the system does not say."""
    return _from_proc("/proc/meminfo", "MemAvailable")


def _from_proc(file: str, name: str) -> int | None:
    text = Path(file).read_text(encoding="ascii") if Path(file).is_file() else ""
    found = re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else None


class Memory:
    """How far this process grows at most from now on; None where the system does not say."""

    def __init__(self):
        gc.collect()
        with suppress(OSError, AttributeError):  # what was freed and is still held would hide as much growth
            ctypes.CDLL(None).malloc_trim(0)
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        except OSError:
            self.before = None
        else:
            self.before = _from_proc("/proc/self/status", "VmRSS")

    def growth(self) -> int | None:
        return self.before and _from_proc("/proc/self/status", "VmHWM") - self.before


def measured(shape: tuple[int, int, int], pages: Pages) -> dict:
    """Return the milliseconds, bytes and memory of the first look at random weights of this shape."""
    layers = sink_maps(*shape)
    weights = sum(layer.nbytes for layer in layers)
    memory = Memory()
    with look(lambda: HeadView(layers), pages) as seen:
        grown = memory.growth()
        return {
            "python": seen.python,
            "paint": seen.paint,
            "size": seen.size,
            "asked": seen.kernel.asked,
            "memory": grown and grown / weights,
        }


def main() -> None:
    from playwright.sync_api import sync_playwright

    from tools.bench.widgets import FLAGS

    torch.manual_seed(0)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=FLAGS)
        print(json.dumps(measured(tuple(map(int, sys.argv[1:])), Pages(browser, {}))))
        browser.close()


def bytes_of_others(count: int) -> dict[str, float]:
    """Return the bytes that bertviz and CircuitsVis would need for so many weights, by what each one more costs."""
    maps = (2 * torch.randn(2, 12, SMALL, SMALL)).softmax(-1)
    tokens = [f"token{i}" for i in range(SMALL)]
    one, two = (
        {entry.name: entry.make()[1] for entry in theirs(maps[:n], [layer[None] for layer in maps[:n]], tokens)}
        for n in (1, 2)
    )
    return {name: (two[name] - one[name]) / maps[0].numel() * count for name in one}


# ---------------------------------------------------------------- one head of 8,192 tokens


def long_head(pages: Pages, tokens: int = LONG) -> tuple[list[float], list[Step], list[Step]]:
    """Return the milliseconds of first looks, the steps while tiles come from the kernel, and while they are there."""
    weights = (2 * torch.randn(1, 1, tokens, tokens)).softmax(-1)
    looks = []
    for n in range(LOOKS):
        with look(lambda: HeadView([weights]), pages) as seen:
            looks.append(seen.total)
            if n == LOOKS - 1:
                return looks, moves(seen), moves(seen)
    raise AssertionError("unreachable")


def imshow_steps(tokens: int = LONG) -> tuple[float, list[float]]:
    """Return the milliseconds of a first picture by matplotlib, and of some steps of zoom, as deep as in `moves`."""
    weights = (2 * torch.randn(tokens, tokens)).softmax(-1).numpy()
    start = time.perf_counter()
    figure = Figure(figsize=(6, 6))
    FigureCanvasAgg(figure)
    place = figure.subplots()
    place.imshow(weights, vmin=0, vmax=1)
    figure.canvas.draw()
    first, spent = 1000 * (time.perf_counter() - start), []
    for depth in range(1, DEPTH + 1, 2):
        side = tokens / FACTOR**depth
        start = time.perf_counter()
        place.set_xlim((tokens - side) / 2, (tokens + side) / 2)
        place.set_ylim((tokens + side) / 2, (tokens - side) / 2)
        figure.canvas.draw()
        spent.append(1000 * (time.perf_counter() - start))
    return first, spent


if __name__ == "__main__":
    main()

"""Measure HeadView on maps that nothing else shows: 4.3 billion weights, and one head of 8,192 tokens.

Part of `make bench`; `page.py` puts the tables into BENCHMARKS.md. Weights that fill the memory are looked at
in a process of their own. Where the machine has too little memory for them, fewer layers stand for all.
"""

import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import psutil
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright
from torch import Tensor

from headview import HeadView
from tools.bench.live import DEPTH, FACTOR, Step, look, moves
from tools.bench.widgets import FLAGS, Pages, theirs

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


def shape_that_fits() -> tuple[int, int, int]:
    """Return HUGE, or its stand-in where too few bytes of memory are free."""
    return HUGE if psutil.virtual_memory().available >= NEEDS_FREE else STAND_IN


def huge(shape: tuple[int, int, int], chromium: str) -> dict[str, float]:
    """Return milliseconds, bytes and memory of the first look at random weights of this shape, in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, shape, chromium).result(LIMIT)


def measured(shape: tuple[int, int, int], chromium: str) -> dict[str, float]:
    """Do what `huge` says, in this process."""
    torch.manual_seed(0)
    layers = sink_maps(*shape)
    before = peak_bytes()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with look(lambda: HeadView(layers), Pages(browser, {})) as seen:
            grown = (peak_bytes() - before) / sum(layer.nbytes for layer in layers)
            return {"python": seen.python, "paint": seen.paint, "size": seen.size, "memory": grown}


def peak_bytes() -> int:
    """Return how many bytes of memory this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


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
    for _ in range(LOOKS - 1):
        with look(lambda: HeadView([weights]), pages) as seen:
            looks.append(seen.total)
    with look(lambda: HeadView([weights]), pages) as seen:
        return [*looks, seen.total], moves(seen), moves(seen)


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

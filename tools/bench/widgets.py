"""Measure the widgets beside what a reader would use instead: time to make, bytes, first paint, a step of a slider.

What is measured, in `entries`; the pages are painted by a headless Chromium without a network.
"""

import base64
import gc
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from IPython.core.pylabtools import print_figure
from matplotlib.figure import Figure
from torch import Tensor

import mhalib
from headview import HeadLab, HeadView
from mhalib.plots import plot_attention
from tools.bench.scripts import STEPS, WATCH

LIVE = "HeadView, live notebook"
LAYERS, HEADS, TOKENS = 12, 12, 128
STEP_HEADS, STEP_TOKENS, STEP_FEATURES = 16, 32, 512
BROWSER_STEPS, PYTHON_STEPS = 300, 15
SHORT = 3  # seconds; what takes less is repeated within its turn, so that one hiccup does not decide
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]  # of Chromium
GUARD = 300  # seconds after which a page that does not paint is given up


@dataclass
class Entry:
    """One way to look at attention, and what was measured of it."""

    name: str
    make: object  # () -> (body of a page, bytes that it costs)
    painted: str = "document.images[0].complete && document.images[0].naturalWidth > 0"  # is the picture complete?
    made: list[float] = field(default_factory=list)
    paints: list[float] = field(default_factory=list)
    size: int = 0


# ---------------------------------------------------------------- the ways to look at attention


def picture(png: bytes) -> str:
    """Return a picture as the output of a cell carries it."""
    return f'<img src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def draw_subplots(weights) -> bytes:
    """Draw one subplot per head, as most notebooks do, and return the PNG as the notebook's backend makes it."""
    figure = Figure(figsize=(12, 9), layout="tight")
    for head, (place, one) in enumerate(zip(figure.subplots(len(weights) // 4, 4).flat, weights, strict=True)):
        place.imshow(one, vmin=0, vmax=1)
        place.set_title(f"head {head}")
    return print_figure(figure, "png")


def draw_image(weights) -> bytes:
    return plot_attention(weights)._repr_mimebundle_()[0]["image/png"]


def entries() -> list[Entry]:
    """Return the ways to look at 12 layers of 12 heads, ours first."""
    weights = torch.softmax(2 * torch.randn(LAYERS, HEADS, TOKENS, TOKENS), -1)  # dense: no zeros to pack away
    layers, tokens = [layer[None] for layer in weights], [f"token{i}" for i in range(TOKENS)]

    def one_layer(draw):
        html = picture(draw(weights[0]))
        return html, len(html)

    return [
        *ours(layers, tokens),
        *theirs(weights, layers, tokens),
        Entry("`interact` + subplots", lambda: one_layer(draw_subplots)),
        Entry("`interact` + one image", lambda: one_layer(draw_image)),
    ]


def ours(layers: list[Tensor], tokens: list[str]) -> list[Entry]:
    def page():
        html = HeadView(layers, tokens).to_html()
        return html, len(html.encode())

    def notebook():
        widget = HeadView(layers, tokens)
        png = base64.b64encode(widget._repr_mimebundle_()[0]["image/png"])
        return None, len(png) + weigh(widget.get_state())

    painted = """document.querySelector('.mha canvas[aria-label^="Heat map"]')"""
    return [Entry("HeadView, page", page, painted), Entry(LIVE, notebook, "")]


def weigh(value) -> int:
    """Return the bytes of a state on its way to a page: buffers as they are, also in objects, the rest as JSON."""
    if isinstance(value, dict):
        return sum(len(json.dumps(name)) + weigh(part) for name, part in value.items())
    return len(value if isinstance(value, (bytes, memoryview)) else json.dumps(value).encode())


def theirs(weights: Tensor, layers: list[Tensor], tokens: list[str]) -> list[Entry]:
    sys.modules["importlib_metadata"] = importlib.metadata  # circuitsvis asks for its backport
    from bertviz import head_view, model_view
    from circuitsvis.attention import attention_heads

    def bertviz(view):
        html = view(layers, tokens, html_action="return").data
        return html, len(html.encode())

    def circuitsvis():
        names = [f"L{i}H{j}" for i in range(len(weights)) for j in range(weights.shape[1])]
        made = attention_heads(weights.flatten(0, 1), tokens, attention_head_names=names, mask_upper_tri=False)
        # Painted with its library inside, weighed without it, as a notebook with a network would hold it.
        return made.local_src, len(made.cdn_src.encode())

    filled = "((c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean))"
    groups = "document.querySelectorAll('#vis svg > g')"
    canvases = "document.querySelectorAll('canvas')"
    all_drawn = f"{canvases}.length > {LAYERS * HEADS} && {filled}({canvases}[0]) && {filled}([...{canvases}].at(-1))"
    return [
        Entry("bertviz model view", lambda: bertviz(model_view), f"{groups}.length >= {LAYERS * HEADS}"),
        Entry("bertviz head view", lambda: bertviz(head_view), "document.querySelector('#vis svg line')"),
        Entry("CircuitsVis", circuitsvis, all_drawn),
    ]


# ---------------------------------------------------------------- measuring


def find_chromium() -> str:
    """Return where the browser is: in the environment variable CHROMIUM, or on the PATH."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    return path or sys.exit("found no Chromium: install it, or name it in the environment variable CHROMIUM")


class Pages:
    """Headless Chromium, cut off from the network but for the libraries in `texts`."""

    def __init__(self, browser, texts: dict[str, str]):
        self.browser, self.texts = browser, texts

    @contextmanager
    def open(self, body: str, script: str = "", kernel=None):
        """Open a page with this body from a file, after `script`; what it asks for in `askKernel`, `kernel` answers."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "page.html"
            file.write_text(f'<!doctype html><meta charset="utf-8"><body>{body}</body>', encoding="utf-8")
            context = self.browser.new_context(viewport={"width": 1100, "height": 900})
            try:
                context.set_default_timeout(GUARD * 1000)
                context.route(re.compile(r"^https?:"), self.serve)
                context.add_init_script(script)
                if kernel:
                    context.expose_function("askKernel", lambda key: kernel(key))
                page = context.new_page()
                page.goto(file.as_uri(), wait_until="commit")
                yield page
            finally:
                context.close()

    def serve(self, route) -> None:
        """Answer a request for a library from the disk."""
        text = next((text for ending, text in self.texts.items() if route.request.url.endswith(ending)), None)
        if text is None:
            route.abort()
        else:
            route.fulfill(body=text, content_type="text/javascript")

    def paint(self, body: str, painted: str) -> float:
        """Return the milliseconds from the start of the navigation to the frame after the picture is drawn."""
        with self.open(body, WATCH % painted) as page:
            return page.wait_for_function("window.paintedAt").json_value()


def take_turn(entry: Entry, pages: Pages) -> None:
    """Make and paint at least once, and what is short as often as fits into `SHORT` seconds."""
    begin = time.monotonic()
    while not entry.made or time.monotonic() - begin < SHORT:
        gc.collect()
        start = time.perf_counter()
        body, entry.size = entry.make()
        entry.made.append(1000 * (time.perf_counter() - start))
        if body is not None:
            entry.paints.append(pages.paint(body, entry.painted))


def browser_steps(pages: Pages) -> dict[str, list[float]]:
    """Return the milliseconds of slider steps of HeadLab: the temperature, and the number of heads."""
    lab = HeadLab(*torch.randn(2, STEP_TOKENS, STEP_FEATURES), num_heads=STEP_HEADS)
    at = lab.head_choices.index(STEP_HEADS)
    heat = [-1 + (n % 100) / 50 for n in range(BROWSER_STEPS)]
    heads = [at - 1 + n % 2 for n in range(2 * BROWSER_STEPS)]  # there and back; the way back counts
    steps = {}
    with pages.open(lab.to_html()) as page:
        page.wait_for_selector('.mha input[aria-label="Heads"]')
        for label, values, every in (("Heads", heads, 2), ("Temperature", heat, 1)):
            work, shown = page.evaluate(STEPS, [label, values, every])
            steps[f"HeadLab, {label.lower()}: compute + draw"] = work[10:]  # the first ones warm up
            steps[f"HeadLab, {label.lower()}: until painted"] = shown[10:]
    return steps


def python_steps(draw) -> list[float]:
    """Return the milliseconds of steps that the kernel makes: compute, draw, encode."""
    q, k = torch.randn(2, 1, STEP_TOKENS, STEP_FEATURES)
    spent = []
    for n in range(PYTHON_STEPS + 1):
        start = time.perf_counter()
        queries, keys = (mhalib.split_heads(x, STEP_HEADS) for x in (q, k))
        scale = (STEP_HEADS / STEP_FEATURES) ** 0.5 / (0.5 + n / PYTHON_STEPS)
        _, weights = mhalib.scaled_dot_product_attention(queries, keys, keys, scale=scale)
        picture(draw(weights[0]))
        spent.append(1000 * (time.perf_counter() - start))
    return spent[1:]  # the first one loads fonts

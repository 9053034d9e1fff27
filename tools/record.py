"""Record the README's moving pictures: the real views in a real browser, while a hand moves over them.

    python -m tools.record [FOLDER]

Without a folder, into `images/`: HeadLab and its slider, HeadView and the wheel over 4,096 tokens. It needs Chromium or
Chrome, or one named in the environment variable CHROMIUM. The pointer is drawn by this file, because a screenshot shows
none. A new recording is worth its place only when a view has changed; `make test-all` tells.

GIF, although WebP is smaller: on GitHub a GIF alone gets a button that stops it, and stands still for readers who have
asked for that in their settings there. Readers whose system asks for less motion see a still picture in its place.
"""

import io
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright
from torch import Tensor

from mhalib.widgets import HeadLab, HeadView
from mhalib.widgets.base import View
from tools.make_images import IMAGES
from tools.pictures.hand_built import SENTENCE, hand_built

LAB, ZOOM, ZOOM_STILL = "head_lab.gif", "head_view_zoom.gif", "head_view_zoom.png"
LAB_WIDTH, ZOOM_WIDTH = 760, 600  # a README on GitHub is some 830 pixels wide
FRAME = 60  # milliseconds that a step of the moving hand is seen
COLOURS = 128
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--force-color-profile=srgb"]
PAGE = """<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8"><style>
html {{ color-scheme: light; background: white; }} body {{ margin: 0; }} {hidden}
#hand {{ position: fixed; left: 0; top: 0; z-index: 9; pointer-events: none; }}
</style></head><body>{view}<svg id="hand" width="17" height="24" viewBox="0 0 17 24">
<path d="M1 1v18.5l4.6-4.3 3 7 3.2-1.4-3-6.8h6.4z" fill="#111" stroke="#fff" stroke-width="1.5"/></svg></body></html>"""


@contextmanager
def opened(browser: Browser, view: View, hidden: str, width: int) -> Iterator[Page]:
    """Open a view in a page without a kernel and without a network; `hidden` is what is no part of the picture."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light", offline=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "page.html"
            style = f"{hidden} {{ display: none !important; }}"
            file.write_text(PAGE.format(hidden=style, view=view.to_html()), encoding="utf-8")
            page = context.new_page()
            page.goto(file.as_uri())
            page.locator(".mha canvas:visible").first.wait_for()
            yield page
    finally:
        context.close()


class Hand:
    """Moves the pointer over a page and takes the frames of the picture."""

    def __init__(self, page: Page, last: str):
        """`last`: the selector of the element with which the picture ends."""
        self.page, self.frames = page, []
        self.at = 0.0, 0.0
        end = page.locator(last).bounding_box()
        self.clip = {
            "x": 0,
            "y": 0,
            "width": page.viewport_size["width"],
            "height": round(end["y"] + end["height"] + 6),
        }

    def frame(self) -> Image.Image:
        """Return the page as it is, once all that was asked for is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        png = self.page.screenshot(clip=self.clip, animations="disabled")
        return Image.open(io.BytesIO(png)).convert("RGB")

    def rest(self, milliseconds: int) -> None:
        """Let the page be seen for a while."""
        image = self.frame()
        if self.frames and self.frames[-1][0].tobytes() == image.tobytes():
            image, already = self.frames.pop()
            milliseconds += already
        self.frames.append((image, milliseconds))

    def jump(self, x: float, y: float) -> None:
        self.at = x, y
        self.page.mouse.move(x, y)
        self.page.evaluate("([x, y]) => (document.querySelector('#hand').style.translate = `${x}px ${y}px`)", [x, y])

    def go(self, x: float, y: float, steps: int = 4) -> None:
        """Move there, each step a frame."""
        (start_x, start_y), way = self.at, [step / steps for step in range(1, steps + 1)]
        for part in way:
            self.jump(start_x + (x - start_x) * part, start_y + (y - start_y) * part)
            self.rest(FRAME)


# ------------------------------------------------------------------------------------------ HeadLab and its slider

# Also of the still picture that stands in for it: a page has one text for both.
LAB_ALT = (
    "Attention maps of one sentence as the number of heads grows, same features, same weights. One head blends "
    "everything into one map; two separate spelling from position; with four, each map shows a pattern of its own."
)
HEADS = (1, 2, 4, 8, 16)
SHOWN = 8, 1, 0  # of 16 heads, the one that is opened, and the query and key whose weight is read there
# The view says where it draws.
LAB_PLACES = """
const drawWithoutPlaces = drawCanvas;
drawCanvas = (view) => {
  view.canvas.plan = view.plan;
  drawWithoutPlaces(view);
};"""


def lab() -> HeadLab:
    """Return the lab that is recorded: the sentence, features and weights of `images/hero.png`."""
    layer, x, _ = hand_built(1)
    with torch.no_grad():
        made = HeadLab(layer.W_q(x), layer.W_k(x), tokens=SENTENCE, num_heads=HEADS[0])
    made.cursor = list(SHOWN[1:])
    made._esm += LAB_PLACES
    return made


def open_lab(browser: Browser):
    return opened(browser, lab(), ".mha .readout + .note ~ :not(.tip)", LAB_WIDTH)


class LabHand(Hand):
    """A hand that knows the places of the lab."""

    def __init__(self, page: Page):
        super().__init__(page, ".mha .readout + .note")  # one head makes the view highest

    def slider(self, heads: int) -> tuple[float, float]:
        """Return where the slider's knob stands for so many heads."""
        slider = self.page.get_by_label("Heads", exact=True)
        box, last = slider.bounding_box(), int(slider.get_attribute("max"))
        knob = 16  # pixels wide, in Chromium
        at = HEADS.index(heads) / last * (box["width"] - knob) + knob / 2
        return box["x"] + at, box["y"] + box["height"] / 2

    def cell(self, panel: str, query: int, key: int) -> tuple[float, float]:
        """Return the middle of a cell; `panel` is where the view keeps the place of its map, such as "focus"."""
        canvas = self.page.locator(".mha canvas")
        x, y, size = canvas.evaluate(f"({{plan}}) => [plan.{panel}.x, plan.{panel}.y, plan.{panel}.cell]")
        box = canvas.bounding_box()
        return box["x"] + x + (key + 0.5) * size, box["y"] + y + (query + 0.5) * size

    def draw_slider(self, heads: int, steps: int) -> None:
        self.go(*self.slider(heads), steps)
        said = self.page.locator(".mha .heads output").inner_text()
        assert said.startswith(f"{heads} ×"), f"the slider was moved to {heads} heads, and stands at {said}"


def play_lab(page: Page) -> list[tuple[Image.Image, int]]:
    """Do what the picture shows, and return its frames, each with the milliseconds for which it is seen."""
    hand = LabHand(page)
    x, y = hand.slider(1)
    home = x + 210, y + 62
    hand.jump(*home)
    hand.rest(900)
    hand.go(x, y)
    page.mouse.down()
    for heads in HEADS[1:]:
        hand.draw_slider(heads, 3)
        hand.rest(900)
    page.mouse.up()
    head, query, key = SHOWN
    hand.go(*hand.cell(f"thumbs[{head}]", query, key), 5)
    page.mouse.down()
    page.mouse.up()
    hand.rest(300)
    hand.go(*hand.cell("focus", query, key), 4)
    told = page.locator(".mha .tip").inner_text()
    assert told.startswith(f"head {head}, query"), f"the pointer stands over {told!r}"
    hand.rest(1500)
    hand.go(*hand.slider(HEADS[-1]), 6)
    page.mouse.down()
    hand.draw_slider(1, 4)
    page.mouse.up()
    hand.go(*home)
    return hand.frames


# ------------------------------------------------------------------------------------------ HeadView and the wheel

ZOOM_ALT = (
    "The attention map of one head for 4,096 tokens, from all of it down to single weights: a column that every query "
    "looks at, a band along the diagonal, and a line where the second half repeats the first and looks up what follows."
)
TOKENS = 4096
HALF = TOKENS // 2
BAND = 48  # tokens to the left
QUERY, KEY = HALF + 1020, 1021  # the weight that is looked for
HOME = 540, 420  # where the hand begins
STEPS = 20  # of the wheel, each a frame
DOWN = -50.16  # pixels of the wheel in a step; cells then begin and end with the map
WORDS = {
    "who": "she he nobody everybody".split(),
    "does": "sees hears finds draws paints follows".split(),
    "which": "a the this that every one".split(),
    "how": "small old green quiet bright round".split(),
    "what": "cat house river garden letter lamp boat tree".split(),
}

ZOOM_PLACES = """
const drawCellsWithoutPlaces = drawCells;
drawCells = (sheet, scene) => {
  scene.view.page.focus.place = { ...scene.layout.map.frames[0], win: scene.win };
  return drawCellsWithoutPlaces(sheet, scene);
};"""


def text() -> list[str]:
    """Return the tokens: sentences of five words and a full stop, and all of them again."""
    draw = random.Random(0)
    made = []
    while len(made) < HALF:
        made += [*(draw.choice(words) for words in WORDS.values()), "."]
    return made[:HALF] * 2


def map_of_a_head() -> Tensor:
    """Return the weights of one causal head, `(T, T)`: a sink, a band, and the look behind the twin."""
    torch.manual_seed(0)
    query, key = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)
    back = query - key
    noise = torch.rand(TOKENS, TOKENS)
    weights = torch.exp(-back.clamp(0) / 8) * noise**2 * (back < BAND)
    weights[:, 0] += 1 + torch.rand(TOKENS)
    weights += (back == HALF - 1) * (2 + 4 * noise) + torch.exp(-(back - HALF + 1).abs() / 2) * noise
    weights *= back >= 0
    return weights / weights.sum(-1, keepdim=True)


def long_view() -> HeadView:
    """Return the view that is recorded."""
    made = HeadView(map_of_a_head()[None], text())
    made.scale = "root"
    made._esm += ZOOM_PLACES
    return made


def open_long(browser: Browser):
    return opened(browser, long_view(), ".mha .panels ~ :not(.tip), .mha .bars", ZOOM_WIDTH)


class MapHand(Hand):
    """A hand that knows the places of a map."""

    def __init__(self, page: Page):
        super().__init__(page, ".mha .readout")
        self.canvas = page.locator(".mha canvas.focus")

    def cell(self, query: int, key: int) -> tuple[float, float]:
        """Return the middle of a cell."""
        x, y, width, height, (q0, q1, k0, k1) = self.canvas.evaluate(
            "({ place: { x, y, width, height, win } }) => [x, y, width, height, win]"
        )
        box = self.canvas.bounding_box()
        across, down = (key + 0.5 - k0) / (k1 - k0), (query + 0.5 - q0) / (q1 - q0)
        return box["x"] + x + across * width, box["y"] + y + down * height

    def zoom(self, pixels: float, steps: int) -> None:
        """Turn the wheel above the cell that is looked for; each step is a frame."""
        for _ in range(steps):
            self.jump(*self.cell(QUERY, KEY))
            self.page.mouse.wheel(0, pixels)
            self.rest(FRAME)


def begin(page: Page) -> MapHand:
    """Return the hand beside the whole map, in which the weight is chosen, as it will be when all comes again."""
    hand = MapHand(page)
    look_closely(hand)
    show_all(hand)
    hand.jump(*HOME)
    hand.frames.clear()
    return hand


def look_closely(hand: MapHand) -> None:
    """Zoom down to single weights, and choose one."""
    hand.go(*hand.cell(QUERY, KEY), 6)
    hand.canvas.focus()  # where it has not, the wheel scrolls the page
    hand.rest(400)
    hand.zoom(DOWN, STEPS)
    hand.go(*hand.cell(QUERY, KEY), 2)
    hand.page.mouse.down()
    hand.page.mouse.up()
    told = hand.page.locator(".mha .tip").inner_text()
    assert told.startswith(f"query {QUERY} ") and f"key {KEY} " in told, f"the pointer stands over {told!r}"


def show_all(hand: MapHand) -> None:
    """Press the button that shows the whole map."""
    box = hand.page.get_by_label("Show all").bounding_box()
    hand.go(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, 6)
    hand.page.mouse.down()
    hand.page.mouse.up()


def play_zoom(page: Page) -> list[tuple[Image.Image, int]]:
    """Do what the picture shows, and return its frames, each with the milliseconds for which it is seen."""
    hand = begin(page)
    hand.rest(1500)
    look_closely(hand)
    hand.rest(3000)
    show_all(hand)
    hand.rest(300)
    hand.go(*HOME)
    return hand.frames


def still(frames: list[tuple[Image.Image, int]]) -> Image.Image:
    """Return the whole map and the closest look beside each other."""
    images = [frames[0][0], max(frames[1:], key=lambda frame: frame[1])[0]]
    both = Image.new("RGB", (sum(image.width for image in images), images[0].height), "white")
    for i, image in enumerate(images):
        both.paste(image, (i * images[0].width, 0))
    return both


# ------------------------------------------------------------------------------------------ what is stored


def in_few_colours(images: list[Image.Image]) -> list[Image.Image]:
    """Return the images with the same few colours."""
    strip = Image.fromarray(np.concatenate([np.asarray(image) for image in images[:: max(1, len(images) // 12)]]))
    few = strip.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)  # not what is frequent: weak weights are rare
    return [image.quantize(palette=few, dither=Image.Dither.NONE) for image in images]


def write(frames: list[tuple[Image.Image, int]], file: Path, alt: str) -> None:
    """Store the frames as one GIF that never ends, described by `alt`."""
    first, *others = in_few_colours([image for image, _ in frames])
    times = [milliseconds for _, milliseconds in frames]
    first.save(file, save_all=True, append_images=others, duration=times, loop=0, comment=alt.encode(), disposal=1)
    print(f"{file.name}: {len(frames)} frames, {sum(times) / 1000:.1f} s, {file.stat().st_size / 1000:.0f} KB")


def store(image: Image.Image, file: Path, alt: str) -> None:
    """Store a still picture in the same few colours, described by `alt`."""
    about = PngInfo()
    about.add_text("Description", alt)
    in_few_colours([image])[0].save(file, pnginfo=about, optimize=True)
    print(f"{file.name}: {file.stat().st_size / 1000:.0f} KB")


@contextmanager
def real_browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        sys.exit("found no Chromium: install it, or name it in the environment variable CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def main(folder: Path) -> None:
    with real_browser() as browser:
        with open_lab(browser) as page:
            write(play_lab(page), folder / LAB, LAB_ALT)
        with open_long(browser) as page:
            frames = play_zoom(page)
    write(frames, folder / ZOOM, ZOOM_ALT)
    store(still(frames), folder / ZOOM_STILL, ZOOM_ALT)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)

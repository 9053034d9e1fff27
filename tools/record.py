"""Record the README's first moving picture: the real HeadLab in a real browser, while a hand moves its slider.

    python -m tools.record [FILE]

Without a name, into `images/head_lab.gif`. It needs Chromium or Chrome, or one named in the environment variable
CHROMIUM. What the hand does stands in `play`; the pointer is drawn by this file, because a screenshot shows none, and
what stands below the two lines of numbers is left out. All else is what `HeadLab(…).to_html()` shows to a reader. The
second moving picture is recorded by `record_zoom.py`, with what this file has for both.

The same machine writes the same bytes. Letters are those of the DejaVu Sans that matplotlib brings, on every machine;
how a browser smooths their edges and draws a slider changes with its version. So the test holds the file against the
view by where the pixels differ, not by bytes, and a new recording is worth its place only when the view has changed.

GIF, although WebP is smaller: on GitHub a GIF alone gets a button that stops it, and stands still for readers who have
asked for that in their settings there. Readers whose system asks for less motion see `images/hero.png` in its place.
"""

import base64
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright

from mhalib.widgets import HeadLab
from mhalib.widgets.base import View
from tools.make_images import IMAGES
from tools.pictures.hand_built import SENTENCE, hand_built

NAME = "head_lab.gif"
# Also of the still picture that stands in for it: a page has one text for both.
ALT = (
    "Attention maps of one sentence as the number of heads grows, same features, same weights. One head blends "
    "everything into one map; two separate spelling from position; with four, each map shows a pattern of its own."
)
HEADS = (1, 2, 4, 8, 16)
SHOWN = 8, 1, 0  # of 16 heads, the one that is opened, and the query and key whose weight is read there
WIDTH = 760  # a README on GitHub is some 830 pixels wide
COLOURS = 144  # no pixel is off by more than 24 of 255, and the file stays below 400 KB
FRAME = 60  # milliseconds that a step of the moving hand is seen
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--force-color-profile=srgb"]

HIDDEN = ".mha .readout + .note ~ :not(.tip) { display: none !important; }"  # what stands below the picture

# The view says where it draws.
PLACES = """
const drawWithoutPlaces = drawCanvas;
drawCanvas = (view) => {
  view.canvas.plan = view.plan;
  drawWithoutPlaces(view);
};"""
PAGE = """<!doctype html>
<html lang="en" data-theme="light"><head><meta charset="utf-8"><style>
@font-face {{ font-family: Recorded; src: url(data:font/ttf;base64,{regular}); }}
@font-face {{ font-family: Recorded; font-weight: bold; src: url(data:font/ttf;base64,{bold}); }}
html {{ color-scheme: light; background: white; }}
body {{ margin: 0; }}
{hidden}
#hand {{ position: fixed; left: 0; top: 0; z-index: 9; pointer-events: none; }}
</style></head><body><svg id="hand" width="17" height="24" viewBox="0 0 17 24">
<path d="M1 1v18.5l4.6-4.3 3 7 3.2-1.4-3-6.8h6.4z" fill="#111" stroke="#fff" stroke-width="1.5"/></svg></body></html>"""
PUT_IN = """async (html) => {
  await Promise.all(["13px", "bold 13px"].map((font) => document.fonts.load(`${font} Recorded`)));
  document.body.append(document.createRange().createContextualFragment(html));
}"""


def lab() -> HeadLab:
    """Return the lab that is recorded: the sentence, features and weights of `images/hero.png`."""
    layer, x, _ = hand_built(1)
    with torch.no_grad():
        made = HeadLab(layer.W_q(x), layer.W_k(x), tokens=SENTENCE, num_heads=HEADS[0])
    made.cursor = list(SHOWN[1:])
    made._esm += PLACES
    return made


def open_lab(browser: Browser) -> AbstractContextManager[Page]:
    """Open the lab in a page without a kernel."""
    return open_view(browser, lab(), HIDDEN)


@contextmanager
def open_view(browser: Browser, view: View, hidden: str, width: int = WIDTH) -> Iterator[Page]:
    """Open a view in a page without a kernel, without a network, as wide as the picture.

    Args:
        browser: that of playwright.
        view: what is shown; its letters become those that are the same everywhere.
        hidden: CSS that leaves out what is no part of the picture.
        width: of the page, in pixels.
    """
    view._esm, view._css = (text.replace("system-ui", "Recorded") for text in (view._esm, view._css))
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    letters = {
        name: base64.b64encode((fonts / file).read_bytes()).decode()
        for name, file in (("regular", "DejaVuSans.ttf"), ("bold", "DejaVuSans-Bold.ttf"))
    }
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="light", offline=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "page.html"
            file.write_text(PAGE.format(hidden=hidden, **letters), encoding="utf-8")
            page = context.new_page()
            page.goto(file.as_uri())
            page.evaluate(PUT_IN, view.to_html())
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


def play(page: Page) -> list[tuple[Image.Image, int]]:
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


def palette(colours: np.ndarray, counts: np.ndarray, most: int) -> np.ndarray:
    """Return `most` of the colours: half of them the most frequent, then whichever lies farthest from all chosen.

    Pillow's own choice takes what is frequent, and its own search for the nearest is rough: weak weights would look
    like none, and white like grey.
    """
    chosen = list(colours[np.argsort(-counts, kind="stable")[: most // 2]])
    distances = np.min([((colours - one) ** 2).sum(-1) for one in chosen], axis=0)
    while len(chosen) < min(most, len(colours)):
        chosen.append(colours[distances.argmax()])
        distances = np.minimum(distances, ((colours - chosen[-1]) ** 2).sum(-1))
    return np.array(chosen)


def in_few_colours(images: list[Image.Image], most: int = COLOURS) -> list[Image.Image]:
    """Return the images with the same few colours, each pixel with the one nearest to its own."""
    pixels = np.stack([np.asarray(image) for image in images])  # (frames, height, width, 3)
    codes, which, counts = np.unique(pixels @ (1 << 16, 1 << 8, 1), return_inverse=True, return_counts=True)
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], -1)  # (colours, 3)
    few = palette(colours, counts, most)
    nearest = np.array([((few - one) ** 2).sum(-1).argmin() for one in colours], dtype=np.uint8)
    drawn = [Image.fromarray(frame, "P") for frame in nearest[which].reshape(pixels.shape[:3])]
    for image in drawn:
        image.putpalette(few.flatten().tolist())
    return drawn


def write(frames: list[tuple[Image.Image, int]], file: Path, alt: str, most: int = COLOURS) -> None:
    """Store the frames as one GIF that never ends, in so many colours, described by `alt`."""
    first, *others = in_few_colours([image for image, _ in frames], most)
    times = [milliseconds for _, milliseconds in frames]
    first.save(file, save_all=True, append_images=others, duration=times, loop=0, comment=alt.encode(), disposal=1)
    print(f"{file.name}: {len(frames)} frames, {sum(times) / 1000:.1f} s, {file.stat().st_size / 1000:.0f} KB")


def store(image: Image.Image, file: Path, alt: str) -> None:
    """Store a still picture in the same few colours, described by `alt`."""
    about = PngInfo()
    about.add_text("Description", alt)
    in_few_colours([image])[0].save(file, pnginfo=about, optimize=True)
    print(f"{file.name}: {file.stat().st_size / 1000:.0f} KB")


def chromium() -> str:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        sys.exit("found no Chromium: install it, or name it in the environment variable CHROMIUM")
    return path


@contextmanager
def real_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


def main(file: Path) -> None:
    with real_browser() as browser, open_lab(browser) as page:
        frames = play(page)
    write(frames, file, ALT)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES / NAME)

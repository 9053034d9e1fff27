"""Record the README's second moving picture: the real HeadView in a real browser, while a hand zooms into a long map.

    python -m tools.record_zoom [FILE]

Without a name, into `images/head_view_zoom.gif`, and for readers who have asked for less motion its first picture and
its closest look, beside it as `.png`. The map is made here, by a rule for each of its patterns, and not by a model:
4,096 tokens, half of them a text and half the same text again. How a recording is made, and what must be the same on
every machine, stands in `record.py`.
"""

import random
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from PIL import Image
from playwright.sync_api import Browser, Page
from torch import Tensor

from mhalib.widgets import HeadView
from tools.make_images import IMAGES
from tools.record import FRAME, Hand, open_view, real_browser, store, write

NAME = "head_view_zoom.gif"
STILL = "head_view_zoom.png"
ALT = (
    "The attention map of one head for 4,096 tokens, from all of it down to single weights: a column that every query "
    "looks at, a band along the diagonal, and a line where the second half repeats the first and looks up what follows."
)
TOKENS = 4096
HALF = TOKENS // 2
BAND = 48  # tokens to the left
QUERY, KEY = HALF + 1020, 1021  # the weight that is looked for
WIDTH = 600
HOME = 540, 420  # where the hand begins
COLOURS = 96
STEPS = 20  # of the wheel, each a frame
DOWN = -50.16  # pixels of the wheel in a step; cells then begin and end with the map
HIDDEN = ".mha .panels ~ :not(.tip), .mha .bars { display: none !important; }"
WORDS = {
    "who": "she he nobody everybody".split(),
    "does": "sees hears finds draws paints follows".split(),
    "which": "a the this that every one".split(),
    "how": "small old green quiet bright round".split(),
    "what": "cat house river garden letter lamp boat tree".split(),
}

# The view says where it draws.
PLACES = """
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
    made._esm += PLACES
    return made


def open_long(browser: Browser) -> AbstractContextManager[Page]:
    """Open the view in a page without a kernel, which carries all of the map."""
    return open_view(browser, long_view(), HIDDEN, WIDTH)


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


def play(page: Page) -> list[tuple[Image.Image, int]]:
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


def main(file: Path) -> None:
    with real_browser() as browser, open_long(browser) as page:
        frames = play(page)
    write(frames, file, ALT, COLOURS)
    store(still(frames), file.with_name(STILL), ALT)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES / NAME)

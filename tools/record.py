"""Record the README's pictures of HeadView: the real view in a real browser, a step of a hand each frame.

    python -m tools.record [FOLDER]

Without a folder, into `images/`: with the weights at hand (`make weights`), the first look at a real model, for dense
screens and in both themes; HeadView zoomed into 4,096 tokens, and of that a still picture for readers who have asked
for less motion. It needs Chromium or Chrome, or one named in the environment variable CHROMIUM. GIF, although WebP is
smaller: on GitHub a GIF alone gets a button that stops it. A new recording is worth its place only when a view has
changed.
"""

import io
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from headview import HeadView
from headview.base import View
from mhalib.pretrained import WeightsMissing, load_minilm
from tools.bench.widgets import FLAGS, find_chromium
from tools.make_images import IMAGES

HEAD = '<!doctype html><html lang="en" data-theme="{}"><meta charset="utf-8"><style>body {{ margin: 0 }}</style>'
TOKENS, BAND, COLOURS, QUICK, LONG = 4096, 48, 128, 80, 1000  # the last two: milliseconds that a frame is seen
LOOK = 832  # pixels: the bars stand under the overview, and no bar is cut where the map ends
Shot = Callable[[int], None]  # takes a frame that is seen for so many milliseconds


def long_map() -> HeadView:
    """Return one causal head of a text that comes twice: a sink, a band, and the look behind the twin."""
    torch.manual_seed(0)
    words = "she sees a small cat . nobody paints every green river . he finds that old lamp .".split()
    half = TOKENS // 2
    text = [random.Random(i).choice(words) for i in range(half)] * 2
    back, noise = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS), torch.rand(TOKENS, TOKENS)
    weights = torch.exp(-back.clamp(0) / 8) * noise**2 * (back < BAND)
    weights[:, 0] += 1 + torch.rand(TOKENS)
    weights += (back == half - 1) * (2 + 4 * noise) + torch.exp(-(back - half + 1).abs() / 2) * noise
    weights *= back >= 0
    made = HeadView((weights / weights.sum(-1, keepdim=True))[None], text)
    made.scale = "root"
    return made


def real_model() -> HeadView:
    """Return the heads of MiniLM on a sentence, where "it" looks at "animal"."""
    tokens, weights = load_minilm().attend("The animal did not cross the street because it was too tired.")
    return HeadView(weights, tokens, layer=3, head=1, query=tokens.index("it"), key=tokens.index("animal"))


def first_look(page: Page, shot: Shot) -> None:
    shot(LONG)


def closer(page: Page, shot: Shot) -> None:
    canvas = page.locator("canvas.focus")
    box = canvas.bounding_box()
    canvas.focus()  # where it has not, the wheel scrolls the page
    page.mouse.move(box["x"] + 0.29 * box["width"], box["y"] + 0.643 * box["height"])
    shot(LONG)
    for _ in range(20):
        page.mouse.wheel(0, -50)
        shot(QUICK)
    shot(2 * LONG)


def record(
    view: View, play: Callable[[Page, Shot], None], width: int, first: str, last: str, dense: int = 1, theme="light"
) -> list[tuple[Image.Image, int]]:
    """Return the frames of a view in a page without a kernel, from one element down to another, each with its time."""
    path, frames = find_chromium(), []
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, "--force-color-profile=srgb"])
        # What moves by itself is left out: a frame would show it half-way.
        size = {"width": width, "height": 900}
        page = browser.new_page(viewport=size, reduced_motion="reduce", device_scale_factor=dense)
        file = Path(folder, "page.html")
        file.write_text(HEAD.format(theme) + view.to_html(), encoding="utf-8")
        page.goto(file.as_uri())
        begin, end = (page.locator(part).first.bounding_box() for part in (first, last))
        top, bottom = max(0, round(begin["y"]) - 6), round(end["y"] + end["height"] + 6)
        clip = {"x": 0, "y": top, "width": round(end["x"] + end["width"] + 6), "height": bottom - top}

        def shot(milliseconds: int) -> None:
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            frames.append((Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB"), milliseconds))

        play(page, shot)
        browser.close()
    return frames


def write(frames: list[tuple[Image.Image, int]], file: Path) -> None:
    """Store the frames as one GIF that never ends, all in the same few colours."""
    strip = Image.fromarray(np.concatenate([np.asarray(image) for image, _ in frames[:: max(1, len(frames) // 12)]]))
    few = strip.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)  # not what is frequent: weak weights are rare
    first, *others = (image.quantize(palette=few, dither=Image.Dither.NONE) for image, _ in frames)
    first.save(file, save_all=True, append_images=others, duration=[time for _, time in frames], loop=0)
    print(f"{file.name}: {len(frames)} frames, {file.stat().st_size / 1000:.0f} KB")


def main(folder: Path) -> None:
    frames = record(long_map(), closer, 600, ".mha", ".mha .readout")
    write(frames, folder / "head_view_zoom.gif")
    still = Image.fromarray(np.concatenate([np.asarray(frames[0][0]), np.asarray(frames[-1][0])], axis=1))
    still.quantize(COLOURS).save(folder / "head_view_zoom.png", optimize=True)
    try:
        view = real_model()
    except WeightsMissing as missing:
        print(f"head_view.png stays as it is: {missing}")
        return
    for theme, name in {"light": "head_view.png", "dark": "head_view_dark.png"}.items():
        ((look, _),) = record(view, first_look, LOOK, ".mha .panels", "canvas.focus", 2, theme)
        look.quantize(2 * COLOURS).save(folder / name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)

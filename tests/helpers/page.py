"""What the tests of pages share: keys, what is said, drawn and written, and what stands out of a view.

A view is a playwright Page with one widget, or the Locator of one widget among others.
"""

import base64
import io

import numpy as np
import torch
from PIL import Image

FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]"
UNFOLD = """(view) => view.querySelectorAll("summary, [aria-expanded=false]").forEach((element) => element.click())"""
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<b>bold</b>&amp;",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",  # one family, seven code points
    "\u05e9\u05dc\u05d5\u05dd",  # right to left
    "\u202eabc",  # turns round what follows
    "e\u0301\u0302\u0323",  # combining marks
    "",
    "long" * 50,
]


def some(*shape, seed=0):
    """Return weights that differ from each other."""
    return (2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).softmax(-1)


def with_traits(widget, **traits):
    for name, value in traits.items():
        setattr(widget, name, value)
    return widget


def press(view, *keys):
    for key in keys:
        getattr(view, "page", view).keyboard.press(key)


def readout(view):
    return view.locator(".readout").text_content()


def limits(view):
    return view.locator(".limits").text_content()


def pixels(canvas):
    """Return what a canvas holds, as (height, width, 4) numbers on the screen's own grid."""
    data = canvas.evaluate("(canvas) => canvas.toDataURL().split(',')[1]")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")).astype(int)


def shot(locator):
    """Return what is on the screen in the place of an element, as (height, width, 3) bytes."""
    return np.asarray(Image.open(io.BytesIO(locator.screenshot())).convert("RGB"))


def near(image, colour, within=4):
    """Return where the pixels have this colour."""
    return np.abs(image[..., :3].astype(int) - np.asarray(colour)).max(-1) <= within


def share(image, colour, within=4):
    """Return the share of the pixels that have this colour."""
    return float(near(image, colour, within).mean())


WIDE = """() => {
  const wide = [...document.querySelectorAll(".mha, .mha *")].filter((element) => {
    const root = element.closest(".mha").getBoundingClientRect();
    const box = element.getBoundingClientRect();
    if (!element.checkVisibility() || element.matches(".hidden, .tip, option, table, tr")) return false;
    for (let e = element.parentElement; !e.matches(".mha, .mhalib-view"); e = e.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return false;
    return box.right > root.right + 1 || box.left < root.left - 1;
  });
  const page = document.documentElement;
  return [...wide.map((e) => e.outerHTML.slice(0, 150)), ...(page.scrollWidth > page.clientWidth ? ["page"] : [])];
}"""


def no_overflow(page) -> list[str]:
    """Return what stands out of its view, or makes the page wider than the window."""
    return page.evaluate(WIDE)


# Every text written on a canvas from now on is compared with what lies below it: the commonest colour in its box.
LISTEN = """<script>
const written = [];
// Whose a text is, is asked when it is read: while the page loads, a view may still come in before another one.
const whose = (canvas) => [...document.querySelectorAll(".mha")].indexOf(canvas.closest(".mha"));
Object.defineProperty(window, "texts", { get: () => written.map(([seen, canvas]) => [...seen, whose(canvas)]) });
const plain = (style) => {
  const one = new OffscreenCanvas(1, 1).getContext("2d");
  one.fillStyle = style;
  one.fillRect(0, 0, 1, 1);
  return [...one.getImageData(0, 0, 1, 1).data];
};
const over = (top, below) => top.slice(0, 3).map((c, i) => (c * top[3] + below[i] * (255 - top[3])) / 255);
const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = (colour) => colour.map((c) => linear(c / 255))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const write = CanvasRenderingContext2D.prototype.fillText;
const outline = CanvasRenderingContext2D.prototype.strokeText;
let outlined = null;
CanvasRenderingContext2D.prototype.strokeText = function (...text) {
  outlined = [text[0], this.strokeStyle];
  outline.apply(this, text);
};
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
  const size = this.measureText(text), here = this.getTransform();
  const squeezed = Math.min(1, (rest[0] ?? Infinity) / size.width);
  const corners = [[x - size.actualBoundingBoxLeft * squeezed, y - size.actualBoundingBoxAscent],
    [x + size.actualBoundingBoxRight * squeezed, y + size.actualBoundingBoxDescent]]
    .map(([px, py]) => here.transformPoint(new DOMPoint(px, py)));
  const [left, right] = corners.map((c) => c.x).sort((a, b) => a - b);
  const [top, bottom] = corners.map((c) => c.y).sort((a, b) => a - b);
  const data = this.getImageData(left, top, Math.max(1, right - left), Math.max(1, bottom - top)).data;
  const counts = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const key = data.slice(i, i + 4).join();
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  const common = [...counts].sort((a, b) => b[1] - a[1])[0][0].split(",").map(Number);
  const paper = plain(getComputedStyle(document.querySelector(".mha")).getPropertyValue("--paper").trim());
  const below = outlined?.[0] === text ? plain(outlined[1]) : over(common, paper);
  const ink = over(plain(this.fillStyle).map((c, i) => (i < 3 ? c : c * this.globalAlpha)), below);
  const [dark, bright] = [light(ink), light(below)].sort((a, b) => a - b);
  const seen = [String(text), (bright + 0.05) / (dark + 0.05), left, right, this.canvas.width, squeezed];
  if (String(text).trim()) written.push([seen, this.canvas]);
  outlined = null;
  write.call(this, text, x, y, ...rest);
};
</script>"""


class Listener:
    """Stands in a page before the widgets and hears what they write on a canvas: `window.texts`, of each text
    what it says, its contrast, its left and right end, its canvas's width, how it is squeezed, and whose it is."""

    def to_html(self) -> str:
        return LISTEN

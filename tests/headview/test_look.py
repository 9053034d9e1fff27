"""What the reader sees of a widget: colours, marks, contrast, what is written in it, and the code it shows."""

import io
import itertools

import numpy as np
import pytest
import torch
from PIL import Image

from mhalib import MultiHeadAttention, causal_mask
from mhalib.reference import import_d2l
from mhalib.widgets import HeadLab, HeadView, ReshapeView
from tests.headview.head_lab.test_head_lab_page import numbers, seen
from tests.helpers.browser import until

PAPER = {"light": (255, 255, 255), "dark": (27, 27, 27)}
WORDS = "the cat sat on the mat".split()


def causal(heads, tokens):
    """Attention of a layer under a causal mask, with a NaN in it."""
    mask = causal_mask(tokens)
    weights = torch.randn(heads, tokens, tokens).masked_fill(~mask, -torch.inf).softmax(-1)
    weights[0, tokens // 2] = torch.nan
    return weights, mask


def shot(locator):
    """Return what is on the screen in the place of an element, as (height, width, 3) bytes."""
    return np.asarray(Image.open(io.BytesIO(locator.screenshot())).convert("RGB"))


def share(image, colour, within=4):
    """Return the share of the pixels that have this colour."""
    return float((np.abs(image.astype(int) - colour).max(-1) <= within).mean())


# ---------------------------------------------------------------- colours and marks

CELL = """import torch
from mhalib.widgets import HeadLab, HeadView, ReshapeView
torch.manual_seed(0)
display(HeadView(torch.randn(2, 3, 5, 5).softmax(-1)), HeadLab(*torch.randn(3, 5, 8), num_heads=2), ReshapeView())"""


def test_canvases_stand_on_the_paper_of_the_theme(lab):
    page = lab(CELL).page
    canvases = page.locator(".mha canvas:visible")
    until(lambda: canvases.count() == 5, "not every canvas is there")
    for theme, name in (("light", "JupyterLab Light"), ("dark", "JupyterLab Dark")):
        page.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
        until(
            lambda theme=theme: all(
                # A canvas may begin between two pixels of the screen, whose last one then belongs to what is below.
                tuple(shot(canvases.nth(i))[-3, -3]) == PAPER[theme]
                for i in range(canvases.count())
            ),
            f"the last corner of a canvas is not {PAPER[theme]} in {name}",
        )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tokens", [8, 100])
def test_masked_and_nan_are_marked_besides_their_colour(static_page, theme, tokens):
    weights, mask = causal(2, tokens)
    seen = shot(static_page(HeadView(weights, mask=mask), theme=theme, width=700).locator("canvas.focus"))
    ground, mark = ((228, 228, 228), (92, 92, 92) if tokens == 8 else (150, 150, 150))
    assert share(seen, ground) > 0.1
    assert share(seen, mark, within=25) > 0.003  # crosses in large cells, hatching of small ones
    row = seen[(np.abs(seen.astype(int) - (213, 94, 0)).max(-1) <= 4).sum(-1) > tokens]
    ink = np.array((0, 0, 0) if tokens == 8 else (255, 255, 255))
    red = np.abs(row.astype(int) - (213, 94, 0)).max(-1) <= 4
    assert red.any(), "NaN has no colour"
    among = row[:, red.any(0).argmax() : red.any(0).nonzero()[0].max()]
    assert share(among, ink, within=60) > 0.01, "NaN has no mark"


@pytest.mark.parametrize("mask", ["causal", "padding"])
def test_the_lab_marks_what_is_masked(static_page, mask):
    lab = HeadLab(torch.randn(6, 8), num_heads=2, mask=mask, valid_len=3)
    seen = shot(static_page(lab, width=900).locator("canvas"))
    lab.mask = "none"
    without = shot(static_page(lab, width=900).locator("canvas"))
    for colour in ((228, 228, 228), (92, 92, 92)):
        assert share(seen, colour) > share(without, colour) + 0.002


# ---------------------------------------------------------------- text on canvas

# Every text written on a canvas from now on is compared with what lies below it: the commonest colour in its box.
LISTEN = """<script>
window.texts = [];
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
  if (String(text).trim()) window.texts.push(seen);
  outlined = null;
  write.call(this, text, x, y, ...rest);
};
</script>"""


class Listener:
    """Stands in a page before the widgets and hears what they write on a canvas."""

    def to_html(self) -> str:
        return LISTEN


def shown(kind):
    weights, mask = causal(4, 6)
    torch.manual_seed(0)
    if kind == "lines":
        view = HeadView(weights, WORDS, mask=mask)
        view.mode, view.overlay = "lines", [[0, 1], [0, 2]]
        return view
    return {
        "map": lambda: HeadView(weights, WORDS, mask=mask),
        "flat": lambda: HeadView(torch.linspace(0, 1, 20).view(10, 2).softmax(-1)),
        "large": lambda: HeadView(causal(4, 60)[0]),
        "lab": lambda: HeadLab(*torch.randn(3, 6, 8), tokens=WORDS, num_heads=2, mask="causal"),
        "reshape": lambda: ReshapeView(8, 4, 4, batch=2, path="wrong split"),
    }[kind]()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["map", "flat", "lines", "large", "lab", "reshape"])
def test_text_on_a_canvas_can_be_read(static_page, kind, theme):
    page = static_page(Listener(), shown(kind), theme=theme, width=1100, reduced_motion=True)
    page.locator("canvas[tabindex]").last.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "PageDown"):
        page.keyboard.press(key)
    texts = page.evaluate("window.texts")
    assert len(texts) > 20
    assert [text for text in texts if text[1] < 4.5] == []


@pytest.mark.parametrize("width", [320, 360, 700, 1100])
@pytest.mark.parametrize("kind", ["map", "lines", "large", "lab", "reshape"])
def test_no_text_on_a_canvas_is_cut_off_or_squeezed(static_page, kind, width):
    page = static_page(Listener(), shown(kind), width=width)
    texts = page.evaluate("window.texts")
    assert len(texts) > 15
    assert [text for text in texts if text[2] < -1.5 or text[3] > text[4] + 1.5 or text[5] < 0.75] == []


# ---------------------------------------------------------------- what is said


def test_the_lines_that_are_not_drawn_are_counted(static_page):
    view = HeadView(torch.rand(1, 90, 90).softmax(-1))
    view.mode, view.scale = "lines", "maximum"
    page = static_page(view)
    said = page.locator(".limits").text_content()
    drawn, _, every = said.removeprefix("The ").partition(" strongest of ")
    assert every.startswith("8,100 lines are drawn, and all lines of the chosen query")
    assert 2000 < int(drawn.replace(",", "")) <= 3000
    page.get_by_label("Show as").select_option("map")
    assert page.locator(".limits").is_hidden()


@pytest.mark.parametrize(("most", "said"), [(0.9, "about 0.90 ± 0.02"), (0.05, "about 0.0500 ± 0.0006")])
def test_one_byte_shows_no_more_digits_than_it_stores(static_page, monkeypatch, most, said):
    monkeypatch.setattr("mhalib.widgets.head_view.codes.TWO_BYTES_UP_TO", 10)
    weights = torch.full((1, 30, 30), (1 - most) / 29)
    weights[..., 0] = most
    page = static_page(HeadView(weights))
    assert page.locator(".readout").text_content() == f"query 0, key 0: {said}"
    assert "one byte each and shown rounded" in page.locator(".limits").text_content()
    page = static_page(HeadView(weights, exact=True))
    assert page.locator(".readout").text_content() == f"query 0, key 0: {most:.4f}"
    assert page.locator(".limits").is_hidden()


# ---------------------------------------------------------------- the code

LAYER = {
    "slice": lambda: ({"x": torch.randn(2, 6, 8)}, lambda layer, x: HeadLab.of(layer, x[1], names=("x[1]",))),
    "own name": lambda: ({"y": torch.randn(6, 8)}, lambda layer, y: HeadLab.of(layer, y, names=["y"])),
    "rows": lambda: ({"x": torch.randn(6, 8)}, lambda layer, x: HeadLab.of(layer, x)),
    "batch of one": lambda: ({"x": torch.randn(1, 6, 8)}, lambda layer, x: HeadLab.of(layer, x)),
    "numpy": lambda: ({"x": torch.randn(6, 8).numpy()}, lambda layer, x: HeadLab.of(layer, x)),
    "double": lambda: ({"x": torch.randn(6, 8).double()}, lambda layer, x: HeadLab.of(layer, x)),
    "memory": lambda: (
        {"x": torch.randn(6, 8), "memory": torch.randn(2, 9, 8)},
        lambda layer, x, memory: HeadLab.of(layer, x, memory[0], names=("x", "memory[0]")),
    ),
}
TENSORS = {
    "q k v": lambda: (torch.randn(3, 6, 8).unbind(), HeadLab),
    "q k": lambda: ((torch.randn(6, 8), torch.randn(9, 8)), HeadLab),
    "q": lambda: ((torch.randn(6, 8).requires_grad_(),), HeadLab),
    "half, batch of one": lambda: (torch.randn(3, 1, 6, 8).half().unbind(), HeadLab),
    "mixed": lambda: (
        (torch.randn(6, 8).numpy(), torch.randn(1, 6, 8).double(), torch.randn(6, 8).bfloat16()),
        HeadLab,
    ),
}


def made(form):
    """Return a lab and the names that its reader has."""
    if form in TENSORS:
        given, maker = TENSORS[form]()
        return maker(*given, num_heads=4), dict(zip("qkv", given, strict=False))
    if form == "d2l":
        layer = import_d2l().MultiHeadAttention(8, 8, 8, 8, 2, 0.0).eval()
        x = torch.randn(6, 8)
        return HeadLab.of(layer, x), {"layer": layer, "x": x}
    given, maker = LAYER[form]()
    layer = MultiHeadAttention(8, 4, num_kv_heads=2, bias=True)
    return maker(layer, **given), {"layer": layer, **given}


@pytest.mark.parametrize("form", [*LAYER, *TENSORS, "d2l"])
def test_the_code_reproduces_what_is_seen(static_page, form):
    lab, names = made(form)
    page = static_page(seen(lab))
    view = page.locator(".mha")
    page.get_by_text("Show the code").click()
    for mask, scale in itertools.product(["none", "causal", "padding", "own"], ["head_dim", "none", "d_model"]):
        page.get_by_label("Mask", exact=True).select_option(mask)
        page.get_by_label("Scale").select_option(scale)
        if mask == "padding":
            page.get_by_label("Valid keys").press("ArrowLeft")
        if mask == "own":
            page.locator("canvas").press("Space")
            page.locator("canvas").press("ArrowDown")
        page.get_by_label("Temperature").press("ArrowLeft")
        space = dict(names)
        exec(page.locator("pre").text_content(), space)
        for name in ("weights", "entropy") + (("output",) if lab.v_bytes else ()):
            torch.testing.assert_close(space[name].flatten().detach(), numbers(view, name), atol=2e-5, rtol=2e-5)

"""What people ask of viewers of attention heads (`test_viewer_requests.py`), as far as only a page shows it."""

import html

import matplotlib
import numpy as np
import pytest
import torch
from torch import nn

from headview import HeadView, capture
from mhalib.plots import COLOUR_MAPS
from tests.helpers.browser import settle, with_script
from tests.helpers.page import near, pixels, readout, some

WORDS = "the cat sat on the mat".split()


class Fragment:
    """HTML around a view, as another page has it."""

    def __init__(self, text):
        self.to_html = lambda: text


# requirejs and jQuery as they stand in older notebooks: libraries that see them hand themselves over to them.
OTHERS = """<script>
window.taken = [];
window.define = (...given) => taken.push(given);
window.define.amd = {};
window.require = window.requirejs = () => { throw new Error("not found"); };
window.$ = window.jQuery = undefined;
window.exports = window.module = {};
</script>"""


def test_a_page_of_others_is_no_obstacle(static_page):
    """A server, Databricks, requirejs: the fragment draws beside foreign scripts, and in a frame without any rights."""
    fragment = HeadView(some(2, 3, 6, 6), WORDS).to_html()
    framed = f'<iframe sandbox="allow-scripts" width="880" height="700" srcdoc="{html.escape(fragment)}"></iframe>'
    page = static_page(Fragment(OTHERS + fragment), Fragment(framed))
    inside = page.frames[1]
    inside.wait_for_selector(".mha canvas.focus")
    for one in (page, inside):
        assert "layer 0 head 0" in one.locator("canvas.focus").get_attribute("aria-label")
        height = one.locator(".mha").bounding_box()["height"]
        assert height > 300
        for mode in ("text", "lines", "map"):  # and a frame that follows its view does not creep
            one.get_by_label("Show as").select_option(mode)
        for _ in range(5):
            one.evaluate("window.dispatchEvent(new Event('resize'))")
            settle(one)
        assert one.locator(".mha").bounding_box()["height"] == height
    assert page.evaluate("taken.length") == 0


def test_the_theme_is_that_of_colab_and_of_vs_code(static_page):
    page = static_page(HeadView(some(2, 3, 6, 6), WORDS))
    light = pixels(page.locator("canvas.focus"))
    for change, expected in (
        ("", "light"),
        ("document.body.className = 'vscode-body vscode-dark'", "dark"),
        ("document.body.className = 'vscode-body vscode-light'", "light"),
        ("document.body.dataset.vscodeThemeKind = 'vscode-high-contrast'", "dark"),
        ("document.body.dataset.vscodeThemeKind = 'vscode-high-contrast-light'", "light"),
        ("delete document.body.dataset.vscodeThemeKind; document.body.className = ''", "light"),
        ("document.documentElement.setAttribute('theme', 'dark')", "dark"),  # Colab
    ):
        page.evaluate(f"() => {{ {change} }}")
        for _ in range(2):
            settle(page)
        ink = page.locator(".mha").evaluate("(view) => getComputedStyle(view).color.match(/\\d+/g).map(Number)")
        assert ("dark" if min(ink[:3]) > 128 else "light") == expected, change
    assert not np.array_equal(light, pixels(page.locator("canvas.focus")))


def test_tooltips_are_inside_of_the_window(static_page):
    width, weights = 390, some(4, 4, 6, 6)
    page = static_page(HeadView(weights, WORDS), width=width)
    for name, asked, expected in (
        ("overview", "layer 3 head 3, ", f"{weights[3, 3].max():.4f}"),
        ("focus", "query 5 “mat”, key 5 “mat”: ", f"{weights[0, 0, 5, 5]:.4f}"),
    ):
        canvas, tip = page.locator(f"canvas.{name}"), page.locator(".tip:visible")
        canvas.scroll_into_view_if_needed()
        box, told = canvas.bounding_box(), ""
        size = min(box["width"], box["height"])
        for x, y in np.ndindex(int(size / 10), 12):  # the last cell, from the corner inwards
            page.mouse.move(box["x"] + box["width"] - 8 - 10 * x, box["y"] + box["height"] - 8 - 10 * y)
            told = tip.text_content() if tip.count() else ""
            if asked in told:
                break
        assert asked in told and told.endswith(expected), told
        placed = tip.bounding_box()
        assert placed["x"] >= 0 and placed["x"] + placed["width"] <= width
        assert placed["y"] >= 0 and placed["y"] + placed["height"] <= 900


ENDS = """
globalThis.ends = (scale) => {
  const context = document.createElement("canvas").getContext("2d");
  context.font = SMALL_FONT;
  return scaleEnds(scale).map((text) => [text, context.measureText(text).width, SCALE_ROOM - 28]);
};
"""


def test_numbers_that_are_no_weights_have_scales_of_their_own(static_page):
    gradients = torch.randn(2, 3, 6, 6) * 1e-3
    page = static_page(with_script(HeadView(gradients, WORDS, kind="signed"), ENDS))
    number = float(readout(page).rpartition(": ")[2].replace("−", "-"))
    assert number == pytest.approx(gradients[0, 0, 0, 0].item(), abs=1e-4)
    offered = page.get_by_label("Scale").locator("option:not([hidden])").all_text_contents()
    assert offered == ["auto", "up to the largest", "logarithmic", "square root"]
    for top in (1, 3.4e-3, 0.0123, 0.123, 9.87, 123.4, 12345.6, 1e-7):
        for scale in ({"kind": "fixed", "signed": True}, {"kind": "log", "signed": False}):
            ends = page.evaluate("(scale) => ends(scale)", {"top": top, **scale})
            assert [text for text, wide, room in ends if wide > room] == []
    small = page.evaluate("ends({ top: 0.0034, kind: 'fixed', signed: true })")
    assert [text for text, *_ in small] == ["−3.4e-3", "3.4e-3"]


def test_the_pass_of_a_model_is_chosen(static_page):
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    with torch.no_grad(), capture(layer) as maps:
        for x in torch.randn(3, 2, 6, 8):
            layer(x, x, x)
    page = static_page(HeadView(maps, [WORDS, list("abcdef")], query=0, key=0))
    offered = page.get_by_label("Pass").locator("option").all_text_contents()
    assert offered == [f"{number}, sample {sample}" for number in range(3) for sample in range(2)]
    page.get_by_label("Pass").select_option("2, sample 1")
    head = int(page.locator("canvas.focus").get_attribute("aria-label").split("head ")[1][0])
    assert readout(page) == f"query 0 “a”, key 0 “a”: {maps[2][1, head, 0, 0]:.4f}"


def test_a_sample_and_other_colours_are_chosen(static_page):
    weights = some(2, 3, 3, 6, 6)
    page = static_page(HeadView(weights, [WORDS, list("abcdef"), list("uvwxyz")]))
    page.get_by_label("Sample").select_option("2")
    assert readout(page) == f"query 0 “u”, key 0 “u”: {weights[0, 2, 0, 0, 0]:.4f}"
    page.get_by_role("button", name="More").click()
    for name in COLOUR_MAPS:
        page.get_by_label("Colours", exact=True).select_option(name)
        image = pixels(page.locator("canvas.focus"))
        wanted = np.array(matplotlib.colormaps[name](weights[0, 2, 0].numpy())[..., :3] * 255).round().reshape(-1, 3)
        assert [colour for colour in wanted if near(image, colour).sum() <= 100] == [], name

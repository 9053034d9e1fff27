"""HeadView in a real browser: what the reader sees, hears, clicks and keys, with and without a kernel."""

import base64
import io
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image

from mhalib.masks import causal_mask
from mhalib.plots import COLOUR_MAP
from mhalib.widgets.head_view.widget import HeadView
from tests.helpers.browser import settle

WORDS = "the cat sat on the mat because it was warm".split()
HOSTILE = ["<img src=x onerror=alert(1)>", "😀👩‍👩‍👧", "שלום עולם", "é̂̃̄", "", "x" * 200, "</script>", "\n\t"]


def some(*shape):
    torch.manual_seed(0)
    return (2 * torch.randn(*shape)).softmax(-1)


def causal(layers, heads, tokens):
    torch.manual_seed(0)
    mask = causal_mask(tokens)
    return HeadView(
        (2 * torch.randn(layers, heads, tokens, tokens)).masked_fill(~mask, -torch.inf).softmax(-1), mask=mask
    )


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def readout(page):
    return page.locator(".note").first.text_content()


def pixels(locator):
    """What a canvas holds, as (height, width, 4) bytes on the screen's own grid."""
    data = locator.evaluate("(canvas) => canvas.toDataURL().split(',')[1]")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


# ---------------------------------------------------------------- reading


def test_every_weight_is_told_to_four_digits_under_keyboard_and_pointer(static_page):
    weights = some(2, 3, 5, 7)
    page = static_page(HeadView(weights, WORDS[:5], WORDS[:7]))
    focus = page.locator("canvas.focus")
    focus.focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowRight")
    assert readout(page) == f"query 2 “sat”, key 1 “cat”: {weights[0, 0, 2, 1]:.4f}"
    assert page.locator("[role=status]").text_content() == readout(page)
    press(page, "End", "PageDown")
    assert readout(page) == f"query 4 “the”, key 6 “because”: {weights[0, 0, 4, 6]:.4f}"
    box = focus.bounding_box()
    labels = set()
    for x in np.linspace(5, box["width"] - 5, 25):
        page.mouse.move(box["x"] + x, box["y"] + 24 + 10)  # in the first row
        tip = page.locator(".tip")
        if tip.is_visible():
            labels.add(tip.text_content())
    assert labels == {f"query 0 “the”, key {k} “{WORDS[k]}”: {weights[0, 0, 0, k]:.4f}" for k in range(7)}


def test_cells_have_the_colour_of_their_weight(static_page):
    weights = some(1, 1, 4, 4)
    page = static_page(HeadView(weights, exact=True))
    shown = pixels(page.locator("canvas.focus"))
    for weight in weights.flatten().tolist():
        colour = (np.array(matplotlib.colormaps[COLOUR_MAP](weight)[:3]) * 255).round()
        assert (np.abs(shown[..., :3] - colour).max(-1) <= 3).sum() > 300, weight  # in many pixels: it is a cell


def test_masked_and_nan_are_said_and_marked(static_page):
    weights = some(2, 6, 6).masked_fill(~causal_mask(6), 0)
    weights = weights / weights.sum(-1, keepdim=True)
    weights[0, 3] = torch.nan
    page = static_page(HeadView(weights, mask=causal_mask(6)))
    page.locator("canvas.focus").focus()
    press(page, "ArrowRight")
    assert readout(page) == "query 0, key 1: masked"
    press(page, "ArrowDown", "ArrowDown", "ArrowDown")
    assert readout(page) == "query 3, key 1: NaN, not a number"
    assert "2 masked, 4 NaN" in page.locator("canvas.bars").get_attribute("aria-label")


def test_the_overview_chooses_heads_by_click_and_by_key(static_page):
    page = static_page(causal(3, 4, 8))
    overview, focus = page.locator("canvas.overview"), page.locator("canvas.focus")
    overview.focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowDown")
    assert focus.get_attribute("aria-label").startswith("Heat map of layer 1 head 2")
    press(page, "ArrowDown", "ArrowDown", "End", "ArrowRight")  # does not leave the grid
    assert "layer 2 head 3" in focus.get_attribute("aria-label")
    overview.click(position={"x": 60, "y": 60})
    assert "layer 0 head 0" in focus.get_attribute("aria-label")


def test_heads_are_overlaid_as_maximum_mean_and_lines(static_page):
    weights = some(1, 4, 6, 6)
    page = static_page(HeadView(weights))
    assert page.get_by_label("Heads together as").is_hidden()
    page.get_by_label("Overlay head 1").check()
    page.get_by_label("Overlay head 3").check()
    three = weights[0, [0, 1, 3], 0, 0]
    assert readout(page) == f"query 0, key 0: {three.max():.4f} (maximum of head 0, head 1, head 3)"
    page.get_by_label("Heads together as").select_option("mean")
    assert readout(page) == f"query 0, key 0: {three.mean():.4f} (mean of head 0, head 1, head 3)"
    page.get_by_label("Show as").select_option("lines")
    assert page.locator("canvas.focus").get_attribute("aria-label").startswith("Lines of")
    page.get_by_role("button", name="Clear").click()
    page.locator("canvas.overview").focus()
    press(page, "ArrowRight", "Space")
    assert page.get_by_label("Overlay head 1").is_checked()
    assert readout(page) == f"query 0, key 0: {weights[0, 1, 0, 0]:.4f}"  # ticked and chosen: still one head


def test_lines_are_read_from_both_sides(static_page):
    weights = some(1, 1, 4, 6)
    view = HeadView(weights, WORDS[:4], WORDS[:6])
    view.mode = "lines"
    page = static_page(view)
    focus = page.locator("canvas.focus")
    size = focus.bounding_box()
    height = 26 * 6  # a line of text for each key
    focus.click(position={"x": 80, "y": 24 + height * 2.5 / 4})
    focus.click(position={"x": size["width"] - 40, "y": 24 + height * 4.5 / 6})
    assert readout(page) == f"query 2 “sat”, key 4 “the”: {weights[0, 0, 2, 4]:.4f}"


def test_the_scale_of_a_flat_head_is_a_labelled_choice(static_page):
    flat = torch.full((1, 1, 8, 8), 1 / 8)
    page = static_page(HeadView(flat))
    focus = page.locator("canvas.focus")
    fixed = pixels(focus)
    page.get_by_label("Scale").select_option("maximum")
    brightest = (np.array(matplotlib.colormaps[COLOUR_MAP](1.0)[:3]) * 255).round()

    def area(image):
        return (np.abs(image[..., :3].astype(int) - brightest).max(-1) < 4).sum()

    assert area(pixels(focus)) > 20 * max(1, area(fixed))


def test_the_picture_that_is_seen_can_be_saved(static_page):
    page = static_page(causal(2, 3, 6))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save PNG").click()
    assert download.value.suggested_filename == "attention.png"
    image = Image.open(Path(download.value.path()))
    panels = page.locator(".panels").bounding_box()
    assert image.format == "PNG" and image.height >= panels["height"]
    assert len(image.convert("RGB").getcolors(1 << 20)) > 20


# ---------------------------------------------------------------- hostile, many, narrow


def apart(page, width):
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    parts = page.locator(".panels canvas, .controls, fieldset, .note, .keys").all()
    boxes = [part.bounding_box() for part in parts if part.is_visible()]
    assert len(boxes) >= 4
    for i, one in enumerate(boxes):
        assert one["x"] >= 0 and one["x"] + one["width"] <= width
        for other in boxes[i + 1 :]:
            beside = one["x"] + one["width"] <= other["x"] + 0.5 or other["x"] + other["width"] <= one["x"] + 0.5
            below = one["y"] + one["height"] <= other["y"] + 0.5 or other["y"] + other["height"] <= one["y"] + 0.5
            assert beside or below, (one, other)


def test_512_tokens_get_a_pixel_each_and_follow_the_keys(static_page):
    page = static_page(HeadView(some(2, 2, 512, 512)), width=700)
    assert page.locator("canvas.focus").bounding_box()["width"] > 512
    page.locator("canvas.focus").focus()
    press(page, *["ArrowDown"] * 5, "End")
    assert readout(page).startswith("query 5, key 511: ")


# ---------------------------------------------------------------- everybody


def test_the_picture_follows_the_theme(static_page):
    page = static_page(causal(2, 3, 6))
    light = pixels(page.locator("canvas.focus"))
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    settle(page)
    settle(page)
    assert not np.array_equal(light, pixels(page.locator("canvas.focus")))


# ---------------------------------------------------------------- with a kernel

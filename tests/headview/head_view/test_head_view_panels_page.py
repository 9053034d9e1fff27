"""The picture under the tokens of a HeadView, and its queries and keys by feature, in a real browser."""

import base64
import math
import re

import matplotlib
import numpy as np
import pytest
import torch

from headview.head_view import widget
from headview.head_view.inputs import Part
from headview.head_view.patches import Picture
from headview.head_view.widget import HeadView
from mhalib.plots import COLOUR_MAP
from tests.helpers.browser import until, with_script
from tests.helpers.page import near, pixels, press, readout, some

WORDS = "the cat sat on the mat because it was warm".split()
# What the panels have computed, as lists; what is shown goes through the same functions.
KEEP = """
const neuronsOfView = readNeurons;
readNeurons = (scene) => {
  const read = neuronsOfView(scene);
  const list = (value) => (ArrayBuffer.isView(value) ? [...value].map(String) : value);
  globalThis.neurons = read && Object.fromEntries(Object.entries(read).map(([name, value]) => [name, list(value)]));
  return read;
};
const patchesOfView = overPatches;
overPatches = (scene) => {
  const over = patchesOfView(scene);
  globalThis.over = over && { axis: over.axis, values: [...over.values].map(String), top: over.scale.top };
  return over;
};
"""
# The page has its kernel in `answer(key)`, which the test gives it.
WITH_KERNEL = """
const blocksOfView = makeBlocks;
makeBlocks = (model, changed) => {
  const calls = [], on = model.on;
  model.isStatic = false;
  model.on = (name, call) => (name === "msg:custom" ? calls.push(call) : on(name, call));
  globalThis.asked = [];
  model.send = async ({ ask }) => {
    globalThis.asked.push(...ask);
    while (!globalThis.answer) await new Promise((done) => setTimeout(done, 20));
    const made = await Promise.all(ask.map((key) => globalThis.answer(key)));
    const buffers = made.map(({ data }) => new DataView(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer));
    calls.forEach((call) => call({ answers: made.map(({ block }, i) => [ask[i], block]) }, buffers));
  };
  return blocksOfView(model, changed);
};
"""


def photo(height=120, width=120):
    """Every pixel another colour than its neighbours, and every patch another one than the others."""
    y, x = np.mgrid[:height, :width]
    return np.stack([40 + x * 180 // width, 60 + y * 150 // height, (x * 7 + y * 3) % 60], -1).astype(np.uint8)


def picture(rows, columns, first, on, pixels=None):
    return Picture(photo() if pixels is None else pixels, rows, columns, first, on)


def patch_labels(rows, columns, before=("[CLS]",)):
    return [*before, *[f"patch {i},{j}" for i in range(rows) for j in range(columns)]]


def part_of(queries, keys=None, *, heads=2, features=16, allowed=None, bias=0.0, kind=torch.float32, **about) -> Part:
    """A part as `capture` makes it, of one layer and one sample."""
    keys = keys or queries
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, n, features, generator=generator) for n in (queries, keys, keys))
    scale = 2 / math.sqrt(features)
    scores = q @ k.mT * scale + bias
    weights = (scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)).softmax(-1).to(kind)
    labels = about.pop("labels", []), about.pop("key_labels", None)
    known = {"queries": [q], "keys": [k], "values": [v], "scales": [scale], **about}
    both = [labels[0]], [(labels[0] if queries == keys else []) if labels[1] is None else labels[1]]
    return Part("", [weights], ["layer 0"], [], ("query", "key"), "weights", [allowed], *both, [([], [])], **known)


@pytest.fixture
def view_of(monkeypatch):
    """Return a function that makes the view of a part, with traits."""

    def make(part: Part, *, exact: bool = False, **traits) -> HeadView:
        monkeypatch.setattr(widget, "as_parts", lambda *given, **more: [part])
        view = with_script(HeadView(part.layers, exact=exact), KEEP)
        for name, value in traits.items():
            setattr(view, name, value)
        return view

    return make


def numbers(page, name):
    return np.array([float(x) for x in page.evaluate(name)])


TITLE = 20  # pixels above the picture, as in image.js


def point_at(page, rows, columns, row, column):
    """The middle of a patch on the canvas of the picture."""
    width, height = page.locator("canvas.image").evaluate("(c) => [c.clientWidth, c.clientHeight - 20 - 24]")
    return {"x": (column + 0.5) * width / columns, "y": TITLE + (row + 0.5) * height / rows}


# ---------------------------------------------------------------- weights over the picture


def vit(**about):
    return part_of(10, labels=patch_labels(3, 3), picture=picture(3, 3, 1, "both"), **about)


def test_the_weights_of_a_query_lie_over_its_patches(static_page, view_of):
    part = vit()
    page = static_page(view_of(part, exact=True, query=5, head=1))
    row = part.layers[0][0, 1, 5]
    np.testing.assert_allclose(numbers(page, "over.values"), row[1:].numpy(), atol=1e-6)
    assert page.evaluate("over.top") == pytest.approx(row[1:].max().item(), abs=1e-6)
    said = page.locator(".outside").text_content()
    assert said == f"In the picture: {row[1:].sum():.4f} in all. Outside the picture: [CLS] {row[0]:.4f}. "
    label = page.locator("canvas.image").get_attribute("aria-label")
    best = int(row[1:].argmax())
    assert f"of query 5 “patch 1,1”: patch {best // 3},{best % 3} {row[1 + best]:.4f};" in label


def test_a_strong_patch_has_the_colour_of_the_map_and_a_weak_one_stays_as_it_is(static_page, view_of):
    part = vit()
    part.layers[0][0, 0, 0] = torch.tensor([0.0] * 4 + [1.0] + [0.0] * 5)
    page = static_page(view_of(part, exact=True, strength=1.0))
    seen = pixels(page.locator("canvas.image"))
    at = {(r, c): point_at(page, 3, 3, r, c) for r in range(3) for c in range(3)}
    colour = {place: seen[int(p["y"]), int(p["x"]), :3].astype(int) for place, p in at.items()}
    last = np.rint(255 * np.array(matplotlib.colormaps[COLOUR_MAP](1.0)[:3])).astype(int)
    assert np.abs(colour[1, 0] - last).max() <= 2
    for row, column in set(at) - {(1, 0)}:
        own = photo()[20 + 40 * row - 3 : 20 + 40 * row + 4, 20 + 40 * column - 3 : 20 + 40 * column + 4].mean((0, 1))
        assert np.abs(colour[row, column] - own).max() <= 40, (row, column)
    page.get_by_label("Weights over the picture").fill("0")
    seen = pixels(page.locator("canvas.image"))
    assert np.abs(seen[int(at[1, 0]["y"]), int(at[1, 0]["x"]), :3] - last).max() > 40


def test_a_click_chooses_the_query_and_with_shift_the_key(static_page, view_of):
    page = static_page(view_of(vit()))
    image = page.locator("canvas.image")
    image.click(position=point_at(page, 3, 3, 1, 2))
    assert readout(page).startswith("query 6 “patch 1,2”, key 0 “[CLS]”")
    image.click(position=point_at(page, 3, 3, 2, 0), modifiers=["Shift"])
    assert readout(page).startswith("query 6 “patch 1,2”, key 7 “patch 2,0”")
    image.hover(position=point_at(page, 3, 3, 0, 1))
    assert page.locator(".tip:visible").text_content().startswith("query 6 “patch 1,2”, key 2 “patch 0,1”: ")


def test_frames_of_a_video_stand_side_by_side(static_page):
    colours = np.array([[200, 30, 30], [30, 160, 30], [30, 30, 220], [200, 200, 30]])
    frames = np.broadcast_to(colours[:, None, None], (4, 60, 60, 3)).astype(np.uint8)
    weights = some(1, 2, 17, 17)
    view = HeadView(weights, image=frames, exact=True, query=7, head=1, strength=0.0)
    page = static_page(with_script(view, KEEP))
    seen = pixels(page.locator("canvas.image"))
    for frame, colour in enumerate(colours):
        x, y = point_at(page, 2, 2, *divmod(frame, 2)).values()
        assert near(seen[int(y) + 12, int(x) + 12], colour).all(), frame  # beside the grid
    sheet = [4 * f + 2 * r + c for d in (0, 1) for r in (0, 1) for f in (2 * d, 2 * d + 1) for c in (0, 1)]
    np.testing.assert_allclose(numbers(page, "over.values"), weights[0, 1, 7, 1:][sheet].numpy(), atol=1e-6)
    image = page.locator("canvas.image")
    image.click(position=point_at(page, 4, 4, 1, 2))
    assert readout(page).startswith("query 7 “patch 1:1,0”, ")
    image.focus()
    for key, place in (
        ("ArrowLeft", "4 “patch 0:1,1”"),
        ("ArrowDown", "10 “patch 2:0,1”"),
        ("End", "14 “patch 3:0,1”"),
    ):
        press(page, key)
        assert readout(page).startswith(f"query {place}, "), key
    best, label = int(weights[0, 1, 14, 1:].argmax()), image.get_attribute("aria-label")
    assert label.startswith("Picture of 4 frames of 2 × 2 patches, ")
    assert f": patch {best // 4}:{best % 4 // 2},{best % 2} " in label


def test_arrow_keys_walk_patches_past_hidden_ones_and_stop_at_the_edge(static_page, view_of):
    page = static_page(view_of(vit(), hidden=["patch 0,1"]))
    page.locator("canvas.image").focus()
    steps = {"ArrowRight": "1 “patch 0,0”", "ArrowRight ": "3 “patch 0,2”", "ArrowRight  ": "3 “patch 0,2”"}
    steps |= {
        "ArrowDown": "6 “patch 1,2”",
        "Home": "4 “patch 1,0”",
        "ArrowLeft": "4 “patch 1,0”",
        "End": "6 “patch 1,2”",
    }
    for key, expected in steps.items():
        press(page, key.strip())
        assert readout(page).startswith(f"query {expected}, "), key
    press(page, "Shift+ArrowDown", "Shift+ArrowDown")
    assert "key 4 “patch 1,0”" in readout(page)
    assert "1 patch is hidden" in page.locator(".outside").text_content()


def test_what_patches_give_to_a_key(static_page, view_of):
    part = vit()
    page = static_page(view_of(part, exact=True))
    page.get_by_label("Over the picture", exact=True).select_option("to")
    page.locator("canvas.image").click(position=point_at(page, 3, 3, 1, 1))
    assert "key 5 “patch 1,1”" in readout(page)
    np.testing.assert_allclose(numbers(page, "over.values"), part.layers[0][0, 0, 1:, 5].numpy(), atol=1e-6)
    assert page.locator(".outside").text_content() == f"Outside the picture: [CLS] {part.layers[0][0, 0, 0, 5]:.4f}. "


@pytest.mark.parametrize(("on", "axis"), [("keys", 1), ("queries", 0)])
def test_text_to_image_and_image_to_text(static_page, view_of, on, axis):
    sizes, labels = (
        ((4, 8), (WORDS[:4], patch_labels(2, 4, ()))) if axis else ((8, 4), (patch_labels(2, 4, ()), WORDS[:4]))
    )
    part = part_of(*sizes, labels=labels[0], key_labels=labels[1], picture=picture(2, 4, 0, on))
    page = static_page(view_of(part, exact=True, query=2))
    given = part.layers[0][0, 0]
    np.testing.assert_allclose(numbers(page, "over.values"), (given[2] if axis else given[:, 0]).numpy(), atol=1e-6)
    assert page.get_by_label("Over the picture", exact=True).is_hidden()
    page.locator("canvas.image").click(position=point_at(page, 2, 4, 1, 1))
    assert ("query 2 “sat”, key 5 “patch 1,1”" if axis else "query 5 “patch 1,1”, key 0 “the”") in readout(page)


def test_masked_and_missing_patches_are_marked_and_never_counted(static_page, view_of):
    part = vit(allowed=torch.ones(10, 10, dtype=torch.bool).tril())
    part.layers[0][0, 0, 5, 2] = torch.nan
    page = static_page(view_of(part, exact=True, query=5, strength=1.0))
    values = numbers(page, "over.values")
    assert np.isneginf(values[5:]).all() and np.isnan(values).tolist() == [i == 1 for i in range(9)]
    seen = pixels(page.locator("canvas.image"))
    grey, red = (point_at(page, 3, 3, *place) for place in ((2, 2), (0, 1)))
    corner = lambda p: seen[int(p["y"]) - 25, int(p["x"]) - 25, :3].astype(int)  # noqa: E731  beside the mark
    assert np.ptp(corner(grey)) < 40 and np.ptp(corner(red)) > 80


def test_rollout_lies_over_the_picture(static_page, view_of):
    part = vit()
    part.layer_names, part.allowed = ["layer 0", "layer 1"], [None, None]
    part.queries = part.keys = part.values = part.scales = None
    part.layers = [torch.rand(1, 24, 310, 310).mul(9).softmax(-1) for _ in range(2)]  # too many to travel whole
    part.tokens = part.key_tokens = [patch_labels(3, 3) + [str(i) for i in range(300)]]
    view = view_of(part, layer=1, query=3)
    view.values = "rollout"
    page = static_page(view)
    mixed = [0.5 * w[0].mean(0) + 0.5 * torch.eye(310) for w in part.layers]
    np.testing.assert_allclose(numbers(page, "over.values"), (mixed[1] @ mixed[0])[3, 1:10].numpy(), rtol=5e-4)


# ---------------------------------------------------------------- queries and keys by feature


def by_feature(page):
    """Open the panel the way a reader does."""
    page.get_by_role("button", name="More").click()
    page.get_by_role("checkbox", name="Query and keys by feature").check()
    return page.locator("canvas.neurons")


def test_products_scores_and_softmax_equal_torch(static_page, view_of):
    part = part_of(7, 10, labels=WORDS[:7], key_labels=WORDS)
    page = static_page(view_of(part, exact=True, head=1, query=4))
    by_feature(page)
    q, k = part.queries[0][0, 1, 4], part.keys[0][0, 1]
    np.testing.assert_allclose(numbers(page, "neurons.products").reshape(10, 16), (q * k).numpy(), atol=1e-6)
    scores = q @ k.mT * part.scales[0]
    np.testing.assert_allclose(numbers(page, "neurons.sums") * part.scales[0], scores.numpy(), atol=1e-5)
    np.testing.assert_allclose(numbers(page, "neurons.softmax"), part.layers[0][0, 1, 4].numpy(), atol=1e-5)
    assert "Nothing was added to the scores" in page.locator(".wide .note").text_content()
    page.get_by_role("checkbox", name="Query and keys by feature").uncheck()
    assert page.locator("canvas.neurons").is_hidden()


def test_features_are_told_under_pointer_and_keys(static_page, view_of):
    part = part_of(7, 10, labels=WORDS[:7], key_labels=WORDS)
    page = static_page(view_of(part, exact=True, query=4, neurons=True))
    panel = page.locator("canvas.neurons")
    panel.focus()
    press(page, "ArrowDown", "ArrowDown", *["ArrowRight"] * 13)
    q, k = part.queries[0][0, 0, 4, 12].item(), part.keys[0][0, 0, 2, 12].item()
    text = f"feature 12: q {q:.2f} × k {k:.2f} = {q * k:.2f}".replace("-", "−")
    assert page.locator("[role=status]").text_content() == text
    assert page.locator(".wide .note").text_content().startswith(text)
    assert "key 2 “sat”" in readout(page)
    box, found = panel.bounding_box(), set()
    for x in range(60, int(box["width"]) - 200, 5):
        page.mouse.move(box["x"] + x, box["y"] + 38 + 9 + 4 + 18 + 2 * 16 + 8)  # the third key
        tip = page.locator(".tip:visible")
        if tip.count() and tip.text_content().startswith("feature 12"):
            found.add(tip.text_content())
    assert found == {f"{text} · key 2 “sat”"}
    panel.click(position={"x": 30, "y": 38 + 9 + 4 + 18 + 5 * 16 + 8})
    assert "key 5 “mat”" in readout(page)


def test_masked_keys_are_crossed_and_get_nothing(static_page, view_of):
    part = part_of(8, labels=WORDS[:8], allowed=torch.ones(8, 8, dtype=torch.bool).tril())
    page = static_page(view_of(part, exact=True, query=3, neurons=True))
    scores, softmax = numbers(page, "neurons.scores"), numbers(page, "neurons.softmax")
    assert np.isneginf(scores[4:]).all() and (softmax[4:] == 0).all()
    np.testing.assert_allclose(softmax, part.layers[0][0, 0, 3].numpy(), atol=1e-5)
    page.locator("canvas.neurons").focus()
    press(page, *["ArrowDown"] * 7)
    assert ", masked. " in page.locator(".wide .note").text_content()


def test_a_sink_takes_the_rest_and_is_no_bias(static_page, view_of):
    part = part_of(9, labels=WORDS[:9])
    part.layers[0], part.kind = part.layers[0] * 0.6, "part"
    page = static_page(view_of(part, exact=True, neurons=True))
    said = page.locator(".wide .note").text_content()
    assert "sum to 0.6000" in said and "Nothing was added" in said


def test_weights_times_values_are_shown_in_a_page(static_page, view_of):
    part = part_of(6, 9, labels=WORDS[:6], key_labels=WORDS[:9])
    view = view_of(part, exact=True, head=1)
    page = static_page(view)
    page.get_by_role("button", name="More").click()
    page.get_by_label("Numbers").select_option("values")
    page.locator("canvas.focus").focus()
    expected = part.layers[0][0, 1] * part.values[0][0, 1].norm(dim=-1)
    for row, column in ((0, 1), (1, 2), (2, 3)):
        press(page, "ArrowRight", *["ArrowDown"] * (row > 0))
        found = re.search(rf"query {row} .*, key {column} .*: (\S+)$", readout(page))
        assert float(found[1]) == pytest.approx(expected[row, column].item(), abs=6e-5), readout(page)


# ---------------------------------------------------------------- with a kernel


@pytest.fixture
def kernel_page(static_page):
    """Return a function that opens a view in a page that can ask the view in Python for blocks."""

    def open_page(view):
        page = static_page(with_script(view, WITH_KERNEL))

        def answer(key):
            try:
                about, data = view._blocks.answer(key)
            except ValueError as error:  # as HeadView answers a page
                return {"block": {"error": f"ValueError: {error}"}, "data": ""}
            return {"block": about, "data": base64.b64encode(data).decode()}

        page.expose_function("answer", answer)
        return page

    return open_page


def test_of_8192_keys_the_strongest_are_shown(kernel_page, view_of):
    part = part_of(600, 8192, heads=1, features=64)
    page = kernel_page(view_of(part, query=100, neurons=True))
    until(lambda: page.evaluate("globalThis.neurons?.keys?.length") == 40, "the keys never came")
    np.testing.assert_allclose(numbers(page, "neurons.softmax"), part.layers[0][0, 0, 100].numpy(), rtol=5e-3)
    best = (part.queries[0][0, 0, 100] @ part.keys[0][0, 0].mT).argsort(descending=True)[:40].tolist()
    assert page.evaluate("neurons.keys") == best
    page.locator("canvas.neurons").focus()
    press(page, "ArrowDown")
    assert f"key {best[0]}" in readout(page) or f"key {best[1]}" in readout(page)

"""HeadView in a real browser: what the reader sees, hears, clicks and keys; heads together, sides, links, long maps."""

import re

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from headview.head_view.widget import HeadView
from mhalib.masks import causal_mask
from mhalib.plots import COLOUR_MAP
from tests.helpers.browser import until, with_script
from tests.helpers.page import Listener, limits, near, pixels, press, readout, some, with_traits

WORDS = "the cat sat on the mat because it was warm".split()


def title(view):
    return view.locator("canvas.focus").get_attribute("aria-label")


def views_of(page):
    return page.locator(".mha").all()


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


def test_cells_have_the_colour_of_their_weight_on_the_scale_that_is_chosen(static_page):
    weights = some(1, 1, 4, 4)
    page = static_page(HeadView(weights, exact=True))
    for scale, top in (("fixed", 1), ("maximum", weights.max())):
        page.get_by_label("Scale").select_option(scale)
        shown = pixels(page.locator("canvas.focus"))
        for weight in (weights / top).flatten().tolist():
            colour = (np.array(matplotlib.colormaps[COLOUR_MAP](weight)[:3]) * 255).round()
            assert near(shown, colour, within=3).sum() > 300, (scale, weight)  # in many pixels: it is a cell


def test_masked_and_nan_are_said_and_explained(static_page):
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
    assert "Hatched: masked. ? or orange: NaN" in limits(page)
    page.locator("canvas.overview").press("ArrowRight")
    assert "Hatched: masked" in limits(page) and "NaN" not in limits(page)  # head 1 has none
    written = [text for text, *_ in static_page(Listener(), HeadView(torch.full((3, 3), torch.nan))).evaluate("texts")]
    assert {"0", "1"} <= set(written) and not any("e-" in text for text in written)  # the ends of a scale of nothing


def test_the_hatch_has_thin_lines_however_small_the_cells(static_page):
    lengths = 10, 60, 300
    weights = [some(1, n, n).masked_fill(~causal_mask(n), 0) for n in lengths]
    page = static_page(*(HeadView(w / w.sum(-1, keepdim=True), mask=causal_mask(w.shape[-1])) for w in weights))
    for width in (1000, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for length, frame in zip(lengths, page.locator("canvas.focus").all(), strict=True):
            corner = pixels(frame)[40:100, -160:-100, 0]  # masked, clear of cells with a weight
            strokes = corner < 0xC8
            assert 0.1 < strokes.mean() < 0.3 and (corner == 0xEF).mean() > 0.5, (length, width)
            assert not (strokes[:-2] & strokes[1:-1] & strokes[2:]).any(), (length, width)  # lines, no squares


def test_a_map_of_several_tiles_has_no_seam(static_page):
    page = static_page(HeadView(torch.ones(300, 300).tril(), kind="positive", mask=causal_mask(300), query=0, key=200))
    for width in (1000, 803, 390):
        page.set_viewport_size({"width": width, "height": 900})
        dark = near(pixels(page.locator("canvas.focus")), (17, 32, 51), within=3)
        down = np.flatnonzero(dark[:, 60])
        across = np.flatnonzero(dark[down[-1] - 3, : down[-1]])  # without the scale
        for run in (down, across):
            assert np.ptp(run) + 1 == len(run) > 200, width


def test_what_a_part_has_no_numbers_for_is_greyed_and_says_what_it_needs(static_page):
    page = static_page(HeadView(some(2, 2, 6, 6)), width=390)
    page.get_by_role("button", name="More").click()
    options = page.get_by_label("Numbers", exact=True).locator("option")
    assert options.all_text_contents() == ["weights", "weights × values (needs capture(qkv=True))", "rollout"]
    assert [options.nth(i).is_disabled() for i in range(3)] == [False, True, False]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_lines_are_read_from_both_ends_and_what_is_not_drawn_is_counted(static_page):
    weights = some(1, 1, 4, 6)
    many = with_traits(HeadView(torch.rand(1, 90, 90).softmax(-1)), mode="lines", scale="maximum")
    page = static_page(with_traits(HeadView(weights, WORDS[:4], WORDS[:6]), mode="lines"), many)
    view, other = views_of(page)
    focus = view.locator("canvas.focus")
    height = 26 * 6  # a line of text for each key
    focus.click(position={"x": 80, "y": 24 + height * 2.5 / 4})
    focus.click(position={"x": focus.bounding_box()["width"] - 40, "y": 24 + height * 4.5 / 6})
    assert readout(view) == f"query 2 “sat”, key 4 “the”: {weights[0, 0, 2, 4]:.4f}"
    drawn, _, every = limits(other).removeprefix("The ").partition(" strongest of ")
    assert every.startswith("8,100 lines are drawn, and all lines of the chosen query")
    assert 2000 < int(drawn.replace(",", "")) <= 3000
    other.get_by_label("Show as").select_option("map")
    assert other.locator(".limits").is_hidden()


def test_one_byte_shows_no_more_digits_than_it_stores(static_page, monkeypatch):
    monkeypatch.setattr("headview.head_view.codes.TWO_BYTES_UP_TO", 10)
    most, said = (0.9, 0.05), ("about 0.90 ± 0.02", "about 0.0500 ± 0.0006")
    weights = [torch.cat([torch.full((1, 30, 1), x), torch.full((1, 30, 29), (1 - x) / 29)], -1) for x in most]
    views = views_of(static_page(*map(HeadView, weights), *(HeadView(each, exact=True) for each in weights)))
    assert [readout(view) for view in views] == [f"query 0, key 0: {x}" for x in (*said, "0.9000", "0.0500")]
    assert all("one byte each and shown rounded" in limits(view) for view in views[:2])
    assert all(view.locator(".limits").is_hidden() for view in views[2:])


def test_the_picture_that_is_seen_can_be_saved(static_page):
    tokens = "[CLS] the cat sat on the mat [SEP]".split()
    page = static_page(HeadView(some(2, 3, 6, 6)), with_traits(HeadView(torch.eye(8)[None, None], tokens), mode="text"))
    saved = []
    for view in views_of(page):
        with page.expect_download() as download:
            view.get_by_role("button", name="More").click()
            view.get_by_role("button", name="PNG").click()
        assert download.value.suggested_filename == "attention.png"
        saved.append(Image.open(download.value.path()).convert("RGB"))
    assert saved[0].height >= page.locator(".panels").first.bounding_box()["height"]
    assert len(saved[0].getcolors(1 << 20)) > 20
    for weight, least in ((1.0, 300), (0.0, 2000)):  # the chosen token's own colour, and that of the others
        colour = (np.array(matplotlib.colormaps[COLOUR_MAP](weight)[:3]) * 255).round()
        assert near(np.asarray(saved[1]), colour).sum() > least


# ---------------------------------------------------------------- heads, sides, links


def test_heads_are_chosen_by_click_and_by_key(static_page):
    page = static_page(HeadView(some(3, 4, 8, 8)), HeadView(some(9, 4, 4)))
    view, fold = views_of(page)
    overview = view.locator("canvas.overview")
    overview.focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowDown")
    assert title(view).startswith("Heat map of layer 1 head 2")
    press(page, "ArrowDown", "ArrowDown", "End", "ArrowRight")  # does not leave the grid
    assert "layer 2 head 3" in title(view)
    overview.click(position={"x": 60, "y": 60})
    assert "layer 0 head 0" in title(view)
    fold.locator("canvas.overview").focus()  # heads of one layer, in several rows
    press(page, "ArrowDown", "ArrowRight")
    assert "of head 4:" in title(fold)


def test_heads_are_overlaid_as_maximum_mean_and_lines(static_page):
    weights = some(1, 4, 6, 6)
    page = static_page(HeadView(weights))
    assert page.get_by_label("together as").is_hidden()
    overview = page.locator("canvas.overview")
    overview.focus()
    press(page, "ArrowRight", "Space", "ArrowRight", "ArrowRight", "Space", "Home")
    three = weights[0, [0, 1, 3], 0, 0]
    assert readout(page) == f"query 0, key 0: {three.max():.4f} (maximum of head 0, head 1, head 3)"
    page.get_by_role("button", name="More").click()
    page.get_by_label("together as").select_option("mean")
    assert readout(page) == f"query 0, key 0: {three.mean():.4f} (mean of head 0, head 1, head 3)"
    page.get_by_label("Show as").select_option("lines")
    assert title(page).startswith("Lines of")
    page.get_by_role("button", name="Only this head").click()
    overview.focus()
    press(page, "ArrowRight", "Space")
    assert readout(page) == f"query 0, key 0: {weights[0, 1, 0, 0]:.4f}"  # added and chosen: still one head


def test_two_sides_have_one_cursor_and_their_difference(static_page):
    before, after = some(2, 3, 6, 6), some(2, 3, 6, 6, seed=1)
    page = static_page(HeadView(before, WORDS[:6], compare=after, names=("before", "after")), width=1200)
    page.locator("canvas.focus").focus()
    press(page, "ArrowDown", "ArrowRight", "ArrowRight")
    one, two = before[0, 0, 1, 2].item(), after[0, 0, 1, 2].item()
    place, change = "query 1 “cat”, key 2 “sat”", f"{two - one:.4f}".replace("-", "−")
    assert readout(page) == f"{place}: before {one:.4f}, after {two:.4f}, after − before = {change}"
    wide = page.locator("canvas.focus").bounding_box()["width"]
    page.get_by_label("Compare").select_option("difference")
    assert readout(page) == f"{place}: after − before = {change}"
    assert page.locator("canvas.focus").bounding_box()["width"] < wide
    page.get_by_label("Compare").select_option("b")
    page.get_by_label("Show as").select_option("lines")
    assert readout(page) == f"{place}: after {two:.4f}"


def test_linked_views_follow_each_other_and_others_do_not(static_page):
    one, two, alone = (HeadView(some(2, 3, 6, 6, seed=i)) for i in range(3))
    one.link(two)
    page = static_page(one, two, alone)
    views = views_of(page)
    views[0].locator("canvas.overview").focus()
    press(page, "ArrowRight", "ArrowDown")
    views[1].locator("canvas.focus").focus()
    press(page, "ArrowDown", "ArrowDown")
    heads = [title(view).partition(" of ")[2][:14] for view in views]
    assert heads == ["layer 1 head 1", "layer 1 head 1", "layer 0 head 0"]
    assert [readout(view)[:7] for view in views] == ["query 2", "query 2", "query 0"]


# ---------------------------------------------------------------- long maps in a page


def test_512_tokens_get_a_pixel_each_and_a_part_its_own_sample_and_window(static_page):
    weights = some(2, 2, 512, 512)
    parts = {"one": [some(2, 2, 80, 80)], "two": [some(1, 2, 80, 80)]}
    page = static_page(HeadView(weights), HeadView(parts), width=700)
    view, parts = views_of(page)
    assert view.locator("canvas.focus").bounding_box()["width"] > 512
    view.locator("canvas.focus").focus()
    press(page, *["ArrowDown"] * 5, "End")
    assert readout(view).startswith("query 5, key 511: ")
    parts.get_by_label("Sample").select_option("1")
    parts.locator("canvas.focus").focus()
    press(page, "+", "+")
    assert "of 80" in title(parts)
    parts.get_by_label("Part").select_option("1")
    assert "of 80" not in title(parts)
    assert parts.get_by_label("Sample").input_value() == "0"  # the only one there is
    parts.locator("canvas.focus").focus()
    press(page, "+", "+")
    assert "of 80" in title(parts)


def colours_in(canvas) -> int:
    return len(np.unique(pixels(canvas).reshape(-1, 4), axis=0))


def test_a_page_carries_what_its_budget_holds_and_says_what_it_left_out(static_page):
    view, narrow = HeadView((3 * torch.randn(1, 3, 1200, 1200)).softmax(-1)), HeadView(some(1, 2, 900, 900))
    small, large = view.to_html(budget=400_000), view.to_html(budget=40_000_000)
    assert len(small) < 700_000 < len(large)
    assert narrow.parts[0]["whole"]  # could travel whole, if there was room
    view.to_html = lambda: small
    narrow.to_html = lambda make=narrow.to_html: make(budget=300_000)
    part = HeadView(some(1, 2, 5, 5))
    part.left_out = "Not shown: encoder; it attends to a band. "
    view, narrow, part = views_of(page := static_page(view, narrow, part))
    assert "Not shown: encoder; it attends to a band. " in limits(part)
    assert colours_in(narrow.locator("canvas.focus")) > 50 < colours_in(narrow.locator("canvas.overview"))
    view.locator("canvas.focus").focus()
    press(page, *["+"] * 14)
    assert "a notebook with a kernel shows all" in limits(view)
    view.locator("canvas.overview").focus()
    press(page, "ArrowRight")  # this head is there as small as in the overview
    assert colours_in(view.locator("canvas.focus")) > 50


def test_a_cell_that_is_not_in_the_page_is_told_by_the_largest_of_its_block(static_page):
    weights = some(1, 1, 600, 600)
    weights[0, 0, 4] = torch.eye(600)[5]
    view = HeadView(weights, query=2, key=5)
    view.to_html = lambda make=view.to_html: make(budget=300_000)
    page = static_page(view)
    page.locator("canvas.focus").focus()
    press(page, *["ArrowDown"] * 3)
    assert readout(page) == "query 5, key 5: at most 1.0000 (2 × 2)"
    assert "one dot for 2 × 2 weights" in limits(page)


def test_narrow_cells_have_short_numbers_none_is_cut_and_steps_of_labels_are_round(static_page):
    weights = some(1, 1, 14, 14)
    views = HeadView(weights), HeadView(weights, window=[0.5, 6.5, 0.5, 6.5]), HeadView(some(1, 1, 400, 400), query=7)
    texts = [text for text, *_ in static_page(Listener(), *views, width=1000).evaluate("texts")]
    assert {f"{x:.2f}"[1:] for x in weights.flatten().tolist() if 0.005 < x < 0.995} <= set(texts)
    in_full = [text for text in texts if re.fullmatch(r"0\.\d\d", text)]  # the second view alone has cells for that
    assert sorted(in_full) == sorted(f"{x:.2f}" for x in weights[0, 0, 1:6, 1:6].flatten().tolist() if x > 0.005)
    assert set(range(20, 400, 20)) <= {int(text) for text in texts if text.isdecimal()}  # not every 13th


def test_a_single_weight_of_a_long_map_is_seen(static_page):
    maps = torch.zeros(1, 2, 1000, 1000)
    maps[..., 0] = 1
    maps[0, 0, 500] = 0
    maps[0, 0, 500, 700] = 1
    inside = pixels(static_page(HeadView(maps)).locator("canvas.focus"))[24:-70, 100:500]  # beside key 0, as bright
    assert near(inside, (17, 32, 51), within=3).sum() >= 1


@pytest.mark.parametrize(("shape", "block"), [((8, 1504), "1 × 4"), ((1504, 8), "4 × 1"), ((200, 4000), "2 × 8")])
def test_a_short_axis_is_not_shrunk_with_a_long_one(static_page, shape, block):
    blocks = torch.eye(8).repeat_interleave(shape[0] // 8, 0).repeat_interleave(shape[1] // 8, 1)
    page = static_page(HeadView(blocks, kind="positive", query=shape[0] - 1, key=0))
    assert f"Each dot is the largest of {block} weights" in limits(page)
    dark = near(pixels(page.locator("canvas.focus")), (17, 32, 51), within=3)[26:, 30:460]  # without title and scale
    high, wide = (np.ptp(np.flatnonzero(dark.any(axis))) + 1 for axis in (1, 0))
    assert dark.sum() == pytest.approx(high * wide / 8, rel=0.2)  # each of the eight has its own place


ASKED = """globalThis.asked = (answer) => {
  const calls = [];
  let hear;
  const model = {
    get: () => ({}), on: (_, call) => (hear = call), off: () => (hear = null), send: ({ ask }) => calls.push(...ask),
  };
  const blocks = makeBlocks(model, () => {});
  const set = { queries: 300, keys: 300, tokens: [], keyTokens: [], thumbnail: () => null };
  const spec = { part: 0, sample: 0, side: "a", heads: [[0, 0]], values: "weights", hidden: [], words: false };
  const source = remoteSource({ blocks }, spec, set);
  for (const j of [0, 1]) source.tile(0, 0, j);
  blocks.ask();
  hear({ answers: calls.map((key) => [key, answer]) }, []);
  return { has: source.has(0, 0, 0), row: source.row(0), asked: calls.length };
};"""


def test_a_tile_that_the_kernel_could_not_make_breaks_nothing(static_page):
    page = static_page(with_script(HeadView(torch.eye(4)), ASKED))
    said = page.evaluate("asked({ error: 'RuntimeError: out of memory' })")
    assert said["has"] is False and said["row"] is None and said["asked"] == 2


# ---------------------------------------------------------------- long maps with a kernel

CELL = """import torch
from headview import HeadView
torch.manual_seed(0)
maps = (torch.linspace(4, 2, 6).view(2, 3, 1, 1) * torch.randn(2, 3, 1500, 1500)).softmax(-1).half()
view = HeadView(maps, query=0)
view"""


def told(weight: float) -> str:
    return f"{weight:.4f}" if weight >= 1e-3 else f"{weight:.1e}".replace("e-0", "e-")


def wait_for(page, words):
    until(lambda: words in page.locator(".mha").first.text_content(), f"nothing says {words!r}")


@pytest.fixture(scope="module")
def long(lab_server):
    """A notebook whose cells were run one by one, by Shift+Enter, down to one in the middle that makes a view."""
    cells = *["# before\n" * 20] * 2, CELL, *["# more\n" * 30] * 3
    notebook = lab_server.open(lab_server.write(*cells), run=False)
    notebook.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    press(notebook.page, "Escape", "Shift+Enter", "Shift+Enter")
    notebook.page.wait_for_selector("canvas.focus")
    yield notebook
    notebook.close()


IN_SIGHT = """(view) => {
  const { top, bottom } = view.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}"""


def test_a_view_is_in_sight_after_its_cell_was_run_with_shift_and_enter(long):
    until(lambda: long.page.locator(".mha").evaluate(IN_SIGHT), "the view is out of sight")


def test_a_long_map_is_looked_at_down_to_single_weights(long):
    page = long.page
    focus = page.locator("canvas.focus")
    wait_for(page, "Each dot is the largest of 4 × 4 weights")
    box = focus.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    tip = page.locator(".tip:visible")
    until(lambda: tip.count() == 1, "no tooltip")
    assert abs(tip.bounding_box()["x"] - x) < 20 and abs(tip.bounding_box()["y"] - y) < 20
    focus.focus()
    press(page, "ArrowDown", "ArrowDown", "End")
    expected = told(float(long.python("print(float(maps[0, 0, 2, 1499]))")))
    until(lambda: readout(page) == f"query 2, key 1499: {expected}", "the exact value does not come")
    for _ in range(12):
        press(page, "+")
    assert "–1499 of 1,500" in title(page)
    until(lambda: "Each dot" not in limits(page), "single weights are not reached")
    until(lambda: long.python("print(view.window)") != "[]", "Python does not hear of the window")
    window = eval(long.python("print(view.window)"))
    assert window[0] <= 2 < window[1] < 42 and window[3] == 1500
    press(page, "0")
    long.prints("print(view.window)", "[]")


def test_several_heads_their_order_and_files_come_from_the_kernel(long):
    page, overview = long.page, long.page.locator("canvas.overview")
    page.locator("canvas.focus").focus()
    press(page, "PageUp", "Home")
    long.python("view.overlay = [[0, 1], [1, 2]]")
    most = told(float(long.python("print(float(maps[[0, 0, 1], [0, 1, 2], 0, 0].max()))")))
    until(lambda: readout(page).startswith(f"query 0, key 0: {most} (maximum of"), "no combined map")
    long.python("view.overlay = []")
    page.get_by_role("button", name="More").click()
    page.get_by_label("Order heads").select_option("by entropy")
    until(lambda: "sorted by entropy" in overview.get_attribute("aria-label"), "the heads are not sorted")
    overview.focus()
    press(page, "a")
    long.prints("print(view.order, view.heads, view.combine)", "entropy all mean")
    mean = told(float(long.python("print(float(maps.float().mean((0, 1))[0, 0]))")))
    until(lambda: readout(page) == f"query 0, key 0: {mean} (mean of all 6 heads)", "the mean does not come")
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    assert download.value.suggested_filename == "attention.svg"
    with open(download.value.path(), encoding="utf-8") as file:
        assert "mean of all 6 heads" in file.read()


BUSY = """(code) => {
  window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code });  // not to its end
}"""


def test_a_silent_kernel_is_said_and_what_is_here_stays(long):
    page = long.page
    long.python("view.layer, view.head, view.heads, view.window = 0, 0, 'chosen', []")
    # Asleep with Python's lock in its hand: messages of widgets may be answered by another thread of the kernel.
    page.evaluate(BUSY, "import ctypes; ctypes.PyDLL(None).sleep(8)")
    page.locator("canvas.focus").focus()
    press(page, "+", "+", "+", "+", "+")
    wait_for(page, "The kernel has not answered for a while")
    page.locator("canvas.overview").focus()
    press(page, "Home")
    before = title(page)
    press(page, "ArrowRight")
    assert title(page) != before
    until(lambda: "has not answered" not in limits(page), "still called silent")
    long.wait_for_kernel()

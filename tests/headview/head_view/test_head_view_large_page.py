"""HeadView of long maps: tiles from the kernel, zoom and pan, what a page without a kernel carries, a silent kernel."""

import numpy as np
import pytest
import torch

from mhalib.widgets.head_view.widget import HeadView
from tests.headview.head_view.test_head_view_page import pixels, press, readout
from tests.helpers.browser import settle, until, with_script

CELL = """import torch
from mhalib.widgets import HeadView
torch.manual_seed(0)
maps = (3 * torch.randn(2, 3, 1500, 1500)).softmax(-1).half()
view = HeadView(maps)
view"""


def long_maps(tokens=1500, heads=3):
    torch.manual_seed(0)
    return (3 * torch.randn(1, heads, tokens, tokens)).softmax(-1)


def wait_for(page, words):
    until(lambda: words in page.locator(".mha").first.text_content(), f"nothing says {words!r}")


def test_a_long_map_is_looked_at_down_to_single_weights(lab):
    notebook = lab(CELL)
    page = notebook.page
    focus = page.locator("canvas.focus")
    wait_for(page, "Each dot is the largest of 4 × 4 weights")
    focus.focus()
    press(page, "ArrowDown", "ArrowDown", "End")
    expected = float(notebook.python("print(float(maps[0, 0, 2, 1499]))"))
    until(lambda: readout(page) == f"query 2, key 1499: {told(expected)}", "the exact value does not come")
    for _ in range(12):
        press(page, "+")
    assert "–1499 of 1,500" in focus.get_attribute("aria-label")
    until(lambda: "Each dot" not in page.locator(".limits").text_content(), "single weights are not reached")
    until(lambda: notebook.python("print(view.window)") != "[]", "Python does not hear of the window")
    window = eval(notebook.python("print(view.window)"))
    assert window[0] <= 2 < window[1] < 42 and window[3] == 1500
    press(page, "0")
    notebook.prints("print(view.window)", "[]")


def told(weight):
    return f"{weight:.4f}" if weight >= 1e-3 else f"{weight:.1e}".replace("e-0", "e-")


def test_a_silent_kernel_is_said_and_what_is_here_stays(lab):
    busy = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)"
    notebook = lab(CELL, busy, run=False)
    page = notebook.page
    page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")  # not to its end
    page.wait_for_selector("canvas.focus")
    page.locator("canvas.focus").focus()
    press(page, "+", "+", "+", "+", "+")
    wait_for(page, "The kernel has not answered for a while")
    page.locator("canvas.overview").focus()
    press(page, "ArrowRight")
    assert "layer 0 head 1" in page.locator("canvas.focus").get_attribute("aria-label")
    go = notebook.path.parent / "go"
    go.touch()
    notebook.wait_for_kernel()
    go.unlink()
    until(lambda: "has not answered" not in page.locator(".limits").text_content(), "still called silent")


def test_a_page_carries_what_its_budget_holds_and_says_what_it_left_out(static_page):
    view = HeadView(long_maps())
    small, large = view.to_html(budget=400_000), view.to_html(budget=40_000_000)
    assert len(small) < 700_000 < len(large)
    page = static_page(view)
    assert "This page carries 4 MB" in page.locator(".limits").text_content() or view
    page.locator("canvas.focus").focus()
    press(page, *["+"] * 14)
    assert "needs a notebook with a kernel" in page.locator(".limits").text_content()
    page.locator("canvas.overview").focus()
    press(page, "ArrowRight")  # this head is there as small as in the overview
    assert len(np.unique(pixels(page.locator("canvas.focus")).reshape(-1, 4), axis=0)) > 50


@pytest.mark.parametrize("scale", [1, 2])
def test_a_single_weight_is_seen_at_any_zoom(static_page, scale):
    maps = torch.zeros(1, 2, 1000, 1000)
    maps[..., 0] = 1
    maps[0, 0, 500] = 0
    maps[0, 0, 500, 700] = 1
    page = static_page(HeadView(maps))
    yellow = (253, 231, 37)

    def seen():
        image = pixels(page.locator("canvas.focus"))[..., :3].astype(int)
        inside = image[24:-70, 100:500]  # beside the first key, which is as bright
        return (np.abs(inside - yellow).max(-1) <= 3).sum()

    assert seen() >= 1
    page.locator("canvas.focus").focus()
    assert seen() >= 1
    settle(page)


def test_another_part_has_its_own_sample_and_window(static_page):
    torch.manual_seed(0)
    maps = {name: torch.randn(samples, 2, 80, 80).softmax(-1) for name, samples in (("one", 2), ("two", 1))}
    page = static_page(HeadView({name: [given] for name, given in maps.items()}))
    focus = page.locator("canvas.focus")
    page.get_by_label("Sample").select_option("1")
    focus.focus()
    press(page, "+", "+")
    assert "of 80" in focus.get_attribute("aria-label")
    page.get_by_label("Part").select_option("1")
    assert "of 80" not in focus.get_attribute("aria-label")
    settle(page)
    assert page.get_by_label("Sample").input_value() == "0"  # the only one there is
    focus.focus()
    press(page, "+", "+")
    assert "of 80" in focus.get_attribute("aria-label")


ASKED = """globalThis.asked = (answer) => {
  const calls = [];
  let hear;
  const model = {
    get: () => ({}), on: (_, call) => (hear = call), off: () => (hear = null), send: ({ ask }) => calls.push(ask),
  };
  const blocks = makeBlocks(model, () => {});
  const set = { queries: 300, keys: 300, tokens: [], keyTokens: [], thumbnail: () => null };
  const spec = { part: 0, sample: 0, side: "a", heads: [[0, 0]], values: "weights", hidden: [], words: false };
  const source = remoteSource({ blocks }, spec, set);
  for (const j of [0, 1]) source.tile(0, 0, j);
  blocks.ask();
  calls.forEach((key) => hear({ answer: key, block: answer }, []));
  return { has: source.has(0, 0, 0), row: source.row(0), asked: calls.length };
};"""


def test_a_tile_that_the_kernel_could_not_make_breaks_nothing(static_page):
    page = static_page(with_script(HeadView(torch.eye(4)), ASKED))
    said = page.evaluate("asked({ error: 'RuntimeError: out of memory' })")
    assert said["has"] is False and said["row"] is None and said["asked"] == 2

"""ReshapeView in a browser: one steps, chooses and is told where each number stands, with or without a kernel."""

import itertools
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from mhalib.widgets import ReshapeView
from mhalib.widgets.reshape_view.paths import PATHS
from tests.helpers.browser import settle, until

WAY = "23 = token 2, feature 3: (0, 2, 3) → (0, 2, 1, 0) → (0, 1, 2, 0)"


def told(page) -> str:
    """The way of the chosen number, in words."""
    return page.locator(".mha p:has(strong)").inner_text().strip()


def step(page) -> str:
    return page.locator(".mha output").inner_text()


def fact(page, name: str) -> str:
    return page.locator(".mha .facts div", has_text=name).locator("b").inner_text()


def press(page, name: str) -> None:
    """Click a button of the steps, also where it does nothing (it then says so, and keeps the focus)."""
    page.get_by_role("button", name=name).click(force=True)


def pixels(page) -> str:
    return page.locator(".mha canvas").evaluate("(canvas) => canvas.toDataURL()")


@pytest.mark.parametrize("how", ["buttons", "arrow keys on a button", "slider", "page keys"])
def test_forward_and_back(static_page, how):
    page = static_page(ReshapeView(), reduced_motion=True)
    assert step(page) == "0 of 2" and page.locator(".code").inner_text().startswith("x = 100 * torch.arange(B)")

    def go(direction: int) -> None:
        if how == "buttons":
            press(page, "Forward" if direction > 0 else "Back")
        else:
            places = {"slider": page.get_by_label("Step"), "page keys": page.locator("canvas")}
            places.get(how, page.get_by_role("button", name="Back")).focus()
            keys = ("PageUp", "PageDown") if how == "page keys" else ("ArrowLeft", "ArrowRight")
            page.keyboard.press(keys[direction > 0])

    for _ in range(4):  # further than the last
        go(1)
    assert step(page) == "2 of 2" and told(page) == WAY
    assert page.locator(".code").inner_text() == "heads = cut.transpose(1, 2)"
    assert [fact(page, name) for name in ("Shape", "Strides", "Contiguous", "View or copy")] == [
        *("(1, 2, 4, 3)", "(24, 3, 6, 1)", "no", "view")
    ]
    assert page.get_by_role("button", name="Forward").get_attribute("aria-disabled") == "true"
    assert "Step 2 of 2: heads = cut.transpose(1, 2)" in page.locator("[role=status]").text_content()
    go(-1)
    assert step(page) == "1 of 2" and told(page).endswith("(0, 2, 1, 0)")
    for _ in range(3):
        go(-1)
    assert step(page) == "0 of 2"


def test_every_path_tells_the_truth(static_page):
    """What the view says about the chosen number, against torch, at every step of every path."""
    for view in (ReshapeView(3, 2, 2, batch=2), ReshapeView(5, 4, 3)):
        page = static_page(view, reduced_motion=True)
        for path in PATHS:
            page.get_by_label("Path").select_option(path)
            view.path = path
            for number, facts in enumerate(view.stations[path]):
                view.step = number
                if number:
                    page.get_by_role("button", name="Forward").click()
                index = (view.tensor == view.chosen).nonzero()[0].tolist()
                place = sum(i * stride for i, stride in zip(index, view.tensor.stride(), strict=True))
                settle(page)
                assert page.locator(".mha p strong").inner_text() == f"({', '.join(map(str, index))})"
                assert page.get_by_text(re.compile(f"Place {place} in memory = ")).count() == 1
                assert fact(page, "View or copy") == {"start": "new"}.get(facts["memory"], facts["memory"])
                assert page.locator(".mistake").is_visible() == bool(facts["mistake"])


def test_wrong_places_are_marked_and_told(static_page):
    view = ReshapeView(path="wrong split")
    view.step = 1
    page = static_page(view)
    mistake = page.locator(".mistake").inner_text()
    assert mistake.startswith("! 18 of 24 numbers stand where they should not, in 6 of 8 rows.")
    assert told(page).endswith("(0, 1, 1, 0) It should stand at (0, 1, 2, 0), in the dashed frame.")
    marked = pixels(page)
    page.locator("canvas").focus()
    for key in ("ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    assert told(page).startswith("33 = token 3") and told(page).endswith("There it stands right.")
    assert pixels(page) != marked


def test_a_mistake_that_hides(static_page):
    view = ReshapeView(tokens=1, path="wrong split")
    view.step = 1
    page = static_page(view)
    assert page.locator(".mistake").inner_text().startswith("With these sizes nothing stands wrong")


def test_choose_by_click_and_key(static_page):
    page = static_page(ReshapeView(), reduced_motion=True)
    canvas = page.locator("canvas")
    # The first cell of the start begins 16 px from the left and 16 px from the top and is 46 x 32 px.
    canvas.click(position={"x": 16 + 46 * 4.5, "y": 16 + 32 * 1.5})
    assert told(page).startswith("14 = token 1, feature 4")
    for key, label in (("ArrowRight", 15), ("ArrowRight", 15), ("ArrowUp", 5), ("ArrowUp", 5), ("ArrowLeft", 4)):
        canvas.focus()
        page.keyboard.press(key)
        assert told(page).startswith(f"{label} = ")
    assert "4 = token 0, feature 4" in page.locator("[role=status]").text_content()
    box = canvas.bounding_box()
    canvas.click(position={"x": 34 * 23.5, "y": box["height"] - 35})  # the last of 24 places in memory, 34 px each
    assert told(page).startswith("35 = token 3, feature 5")
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    assert page.locator(".tip").inner_text().startswith("0 = token 0, feature 0; at (0, 0, 0), place 0")


WALK = """async (canvas, keys) => {
  const seen = new Set();
  for (const key of keys) {
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    await new Promise((done) => requestAnimationFrame(done));
    seen.add(canvas.getAttribute("aria-label").match(/(\\d+) = /)[1]);
  }
  return seen.size;
}"""


@pytest.mark.parametrize("path", ["split", "fold"])
def test_keys_reach_every_number(static_page, path):
    view = ReshapeView(3, 2, 1, batch=2, path=path)
    page = static_page(view, width=360, reduced_motion=True)
    for _ in view.stations[path]:
        line = ["ArrowRight"] * 5 + ["ArrowLeft"] * 5 + ["ArrowDown"]
        assert page.locator("canvas").evaluate(WALK, ["ArrowLeft"] * 5 + ["ArrowUp"] * 7 + line * 8) == 12
        press(page, "Forward")


def test_cells_walk_and_never_block(static_page):
    page = static_page(ReshapeView())
    settle(page)
    start = pixels(page)
    page.get_by_role("button", name="Forward").click()
    midway = pixels(page)
    page.get_by_role("button", name="Forward").click()  # while they walk
    assert step(page) == "2 of 2" and told(page) == WAY
    page.locator("canvas").focus()
    page.keyboard.press("Escape")  # ends the walk
    arrived = pixels(page)
    page.wait_for_timeout(800)
    assert pixels(page) == arrived
    assert len({start, midway, arrived}) == 3


def test_nothing_walks_where_the_reader_wants_rest(static_page):
    page = static_page(ReshapeView(), reduced_motion=True)
    page.get_by_role("button", name="Forward").click()
    arrived = pixels(page)
    page.wait_for_timeout(300)
    assert pixels(page) == arrived


def test_a_thousand_slider_events(static_page):
    page = static_page(ReshapeView(8, 4, 4, batch=2, path="merge"))
    spent = page.get_by_label("Step").evaluate(
        """async (input) => {
          const start = performance.now();
          for (let i = 1; i <= 1000; i++) {
            input.value = i === 1000 ? 3 : i % 4;
            input.dispatchEvent(new Event("input", { bubbles: true }));
          }
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          return performance.now() - start;
        }"""
    )
    assert step(page) == "3 of 3"
    assert page.locator(".code").inner_text() == "merged = packed.view(B, T, d_model)"
    assert spent < 5000, spent  # a guard, generous for a busy machine


@pytest.mark.parametrize("width", [360, 700, 1100])
def test_it_fits_the_page(static_page, width):
    view = ReshapeView(8, 4, 4, batch=2)
    page = static_page(view, width=width, reduced_motion=True)
    for path in PATHS:
        page.get_by_label("Path").select_option(path)
        for _ in view.stations[path]:
            settle(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            widths = page.evaluate(
                "[...document.querySelectorAll('.mha > :not(.hidden)')].map((e) => e.scrollWidth - e.clientWidth)"
            )
            assert max(widths) <= 1
            press(page, "Forward")


LAYOUT = """async ([source, traits, numbers, width]) => {
  const module = new Blob([source, "export { layout, stateOf };"], { type: "text/javascript" });
  const { layout, stateOf } = await import(URL.createObjectURL(module));
  const bytes = new DataView(Uint8Array.from(numbers).buffer);
  return traits.stations[traits.path].map((_, step) => {
    const now = { ...traits, step };
    const state = stateOf({ get: (name) => (name === "numbers" ? bytes : now[name]) });
    const { height, grid, memory, places } = layout(state, width, (title) => 7 * title.length);
    return [height, grid.cell, memory.place, [...places.values()]];
  });
}"""


@pytest.mark.parametrize("path", PATHS)
def test_every_number_has_a_place_of_its_own(static_page, path):
    page = static_page(ReshapeView())
    for view in (ReshapeView(path=path), ReshapeView(8, 4, 4, batch=2, path=path), ReshapeView(1, 1, 1, path=path)):
        traits = view.get_state(["path", "chosen", "colour_by", "sizes", "stations"])
        for width in (300, 420, 700, 1100):
            given = [str(view._esm), traits, list(view.numbers), width]
            for height, cell, place, places in page.evaluate(LAYOUT, given):
                boxes = [(x, y, cell, 32) for x, y, _, _ in places] + [(x, y, place, 24) for _, _, x, y in places]
                assert len(places) == view.tensor.numel()
                assert all(0 <= x <= width - w + 0.01 and 0 <= y <= height - h for x, y, w, h in boxes)
                boxes.sort(key=lambda box: (box[1], box[0]))
                pairs = itertools.pairwise(boxes)
                assert all(x2 >= x + w - 0.01 or y2 >= y + h for (x, y, w, h), (x2, y2, _, _) in pairs)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_audit(static_page, theme):
    view = ReshapeView(path="wrong merge")
    view.step = 1
    page = static_page(view, width=700, theme=theme)
    for colour in ("token", "head"):
        page.get_by_label("Colour by").select_option(colour)
        found = Axe().run(page).response["violations"]
        assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []
    assert page.get_by_text("head 1: features 3–5").is_visible()
    for control in page.locator(".mha :is(button, select, input, canvas)").all():
        assert control.get_attribute("data-lm-suppress-shortcuts") == "true"


def test_the_theme_changes_the_picture(static_page):
    page = static_page(ReshapeView())
    light = pixels(page)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    settle(page)
    settle(page)
    assert pixels(page) != light


def test_in_jupyterlab(lab):
    notebook = lab("from mhalib.widgets import ReshapeView\nview = ReshapeView()\nview", "view")
    page = notebook.page
    before = notebook.cells()
    views = page.locator(".mha")
    until(lambda: views.count() == 2, "the widget was not displayed twice")
    for one in page.locator(".mha .facts > div").all():  # JupyterLab has styles of its own for many elements
        name, value = one.bounding_box(), one.locator("b").bounding_box()
        assert value["y"] >= name["y"] + 12 and value["x"] == name["x"]
    # The reader acts, Python sees it, and so does the other view.
    page.get_by_label("Path").first.select_option("merge")
    page.get_by_label("Step").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    notebook.prints("print(view.path, view.step, view.tensor.is_contiguous())", "merge 2 True")
    canvas = page.locator(".mha canvas").first
    canvas.focus()
    for key in ("ArrowLeft", "ArrowDown", "PageDown", "a", "b", "d", "d", "x", "Enter"):
        page.keyboard.press(key)
    notebook.prints("print(view.path, view.step)", "merge 3")
    assert notebook.cells() == before  # no key reached JupyterLab
    until(lambda: views.nth(1).locator("output").inner_text() == "3 of 3", "the second view does not follow")
    strong = [view.locator("strong") for view in views.all()]
    until(lambda: strong[1].inner_text() == strong[0].inner_text(), "the second view does not follow")
    # A cell acts, both views follow.
    notebook.python("view.path = 'wrong split'\nview.step = 1\nview.chosen = 30\nview.colour_by = 'head'")
    for view in views.all():
        until(lambda view=view: view.get_by_label("Colour by").input_value() == "head", "a view does not follow")
        until(lambda view=view: "30 = token 3, feature 0" in view.inner_text(), "a view does not follow")
        assert view.locator(".code").inner_text() == "heads = x.view(B, num_heads, T, head_dim)"
        assert "18 of 24" in view.inner_text()
    with pytest.raises(Exception, match="the path 'wrong split' has the steps 0 to 1"):
        notebook.python("view.step = 2")
    assert notebook.python("print(view.step)") == "1"

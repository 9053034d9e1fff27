"""ReshapeView in a browser: one steps, chooses and is told where each number stands."""

import itertools
import re

from headview import ReshapeView
from headview.reshape_view.paths import PATHS
from tests.helpers.page import Listener, no_overflow, with_traits

WAY = "23 = token 2, feature 3: (0, 2, 3) → (0, 2, 1, 0) → (0, 1, 2, 0)"


def told(page) -> str:
    """The way of the chosen number, in words."""
    return page.locator(".mha p:has(strong)").inner_text().strip()


def step_of(page) -> str:
    return page.locator(".mha output").inner_text()


def fact(page, name: str) -> str:
    return page.locator(".mha .facts div", has_text=name).locator("b").inner_text()


def press(page, name: str) -> None:
    """Click a button of the steps, also where it does nothing (it then says so, and keeps the focus)."""
    page.get_by_role("button", name=name).click(force=True)


def pixels(page) -> str:
    return page.locator(".mha canvas").evaluate("(canvas) => canvas.toDataURL()")


def test_forward_and_back_by_buttons_and_keys(static_page):
    page = static_page(ReshapeView(), reduced_motion=True)
    slider, canvas = page.get_by_label("Step"), page.locator("canvas")
    ways = [
        lambda forward: press(page, "Forward" if forward else "Back"),
        lambda forward: slider.press("ArrowRight" if forward else "ArrowLeft"),
        lambda forward: canvas.press("PageDown" if forward else "PageUp"),
    ]
    for go in ways:
        assert step_of(page) == "0 of 2" and page.locator(".code").inner_text().startswith("x = 100 * torch.arange(B)")
        for _ in range(3):  # further than the last
            go(True)
        assert step_of(page) == "2 of 2" and told(page) == WAY
        for _ in range(3):
            go(False)
    press(page, "Forward")
    press(page, "Forward")
    assert page.locator(".code").inner_text() == "heads = cut.transpose(1, 2)"
    facts = [fact(page, name) for name in ("Shape", "Strides", "Contiguous", "View or copy")]
    assert facts == ["(1, 2, 4, 3)", "(24, 3, 6, 1)", "no", "view"]
    said = page.locator("[role=status]").text_content()
    assert said.startswith("Step 2 of 2: 23 = token 2, feature 3") and "heads = cut.transpose(1, 2)" in said
    page.get_by_label("Colour by").select_option("head")
    assert page.get_by_text("head 1: features 3–5").is_visible()


def test_every_path_tells_where_torch_puts_the_number_and_fits_a_narrow_page(static_page):
    failures = []
    for view in (ReshapeView(3, 2, 2, batch=2), ReshapeView(8, 4, 4, batch=2)):
        page = static_page(view, width=360, reduced_motion=True)
        for path in PATHS:
            page.get_by_label("Path").select_option(path)
            view.path = path
            for number, facts in enumerate(view.stations[path]):
                view.step = number
                if number:
                    page.get_by_role("button", name="Forward").click()
                index = (view.tensor == view.chosen).nonzero()[0].tolist()
                place = sum(i * stride for i, stride in zip(index, view.tensor.stride(), strict=True))
                right = {
                    "index": page.locator(".mha p strong").inner_text() == f"({', '.join(map(str, index))})",
                    "place": page.locator(".note", has_text=re.compile(f"Place {place} in memory = ")).count() == 1,
                    "memory": fact(page, "View or copy") == facts["memory"].replace("start", "new"),
                    "mistake": page.locator(".mistake").is_visible() == bool(facts["mistake"]),
                    "fits": no_overflow(page) == [],
                }
                failures += [(path, number, name) for name, holds in right.items() if not holds]
    assert failures == []


def test_wrong_places_are_marked_and_told(static_page):
    page = static_page(with_traits(ReshapeView(path="wrong split"), step=1))
    mistake = page.locator(".mistake").inner_text()
    assert mistake.startswith("! 18 of 24 numbers are in the wrong place, in 6 of 8 rows.")
    assert told(page).endswith("(0, 1, 1, 0) It should stand at (0, 1, 2, 0), in the dashed frame.")
    marked = pixels(page)
    for _ in range(2):
        page.locator("canvas").press("ArrowDown")
    assert told(page).startswith("33 = token 3") and told(page).endswith("There it stands right.")
    assert pixels(page) != marked


def test_choose_by_click_and_key(static_page):
    page = static_page(ReshapeView(), reduced_motion=True)
    canvas = page.locator("canvas")
    box = canvas.bounding_box()

    def walk(**steps):
        for key, labels in steps.items():
            for label in labels:
                canvas.press(f"Arrow{key}")
                assert told(page).startswith(f"{label} = ")

    # The first cell of the start begins 16 px from the left and 16 px from the top and is 46 x 32 px.
    canvas.click(position={"x": 16 + 46 * 4.5, "y": 16 + 32 * 1.5})
    assert told(page).startswith("14 = token 1, feature 4")
    walk(Right=[15, 15], Up=[5, 5], Left=[4])
    canvas.click(position={"x": 34 * 23.5, "y": box["height"] - 35})  # the last of 24 places in memory, 34 px each
    assert told(page).startswith("35 = token 3, feature 5")
    walk(Right=[35], Up=[25], Left=[24])
    for _ in range(2):
        press(page, "Forward")
    walk(Left=[23, 22], Down=[32, 32], Up=[22])  # head 1 stands right of head 0
    for _ in range(2):
        press(page, "Back")
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    assert page.locator(".tip").inner_text().startswith("0 = token 0, feature 0; at (0, 0, 0), place 0")


def test_cells_walk_unless_the_reader_wants_rest_and_never_block(static_page):
    for rest in (False, True):
        page = static_page(ReshapeView(), reduced_motion=rest)
        seen = [pixels(page)]
        press(page, "Forward")
        seen.append(pixels(page))
        press(page, "Forward")  # while they walk
        assert step_of(page) == "2 of 2" and told(page) == WAY
        if not rest:
            page.locator("canvas").press("Escape")  # ends the walk
        seen.append(pixels(page))
        page.wait_for_timeout(800)
        assert pixels(page) == seen[-1] and len(set(seen)) == 3


def test_folded_blocks_name_their_sample_and_their_head(static_page):
    page = static_page(Listener(), with_traits(ReshapeView(2, 2, 2, batch=2, path="fold"), step=3))
    wanted = {f"{2 * sample + head}: sample {sample}, head {head}" for sample in range(2) for head in range(2)}
    assert wanted <= set(page.evaluate("window.texts.map(([text]) => text)"))


LAYOUT = """async ([source, traits, widths]) => {
  const { layout, stateOf } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const steps = Object.entries(traits.stations).flatMap(([path, all]) => all.map((_, step) => ({ path, step })));
  return steps.flatMap((now) => widths.map((width) => {
    const state = stateOf({ get: (name) => ({ ...traits, ...now })[name] });
    const { height, cell, memory, places } = layout(state, width);
    return [now, width, height, [...places.values()].flatMap(([x, y, line_x, line_y]) =>
      [[x, y, cell, 32], [line_x, line_y, memory.place, 24]])];
  }));
}"""


def test_every_number_has_a_place_of_its_own(static_page):
    page, failures = static_page(ReshapeView()), []
    for batch in (1, 2):
        view = ReshapeView(4 * batch, 2 * batch, 2 + batch, batch=batch)
        traits = view.get_state(["chosen", "colour_by", "sizes", "stations"])
        for now, width, height, boxes in page.evaluate(LAYOUT, [str(view._esm), traits, [300, 1100]]):
            boxes.sort(key=lambda box: (box[1], box[0]))
            inside = all(0 <= x <= width - w + 0.01 and 0 <= y <= height - h for x, y, w, h in boxes)
            pairs = itertools.pairwise(boxes)
            apart = all(x2 >= x + w - 0.01 or y2 >= y + h for (x, y, w, h), (x2, y2, _, _) in pairs)
            if not (len(boxes) == 2 * view.tensor.numel() and inside and apart):
                failures.append((now, batch, width))
    assert failures == []

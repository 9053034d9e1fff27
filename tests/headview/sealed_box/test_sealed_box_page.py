"""SealedBox in a browser: one turns t, collects steps, lifts the lid; under the lid nothing of the heads is told."""

from pathlib import Path

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from mhalib.widgets import SealedBox
from mhalib.widgets.sealed_box.steps import SLIDES
from tests.helpers.browser import settle, until
from tests.helpers.sealed_boxes import sealed

PLACES = [-1.305, -0.982, -0.143, 0.165]  # of the four steps


def t_of(page) -> float:
    return float(page.locator(".mha output").inner_text().replace("−", "-"))


def collected(page) -> list[str]:
    """What stands in the list, a line for each letter."""
    return [" ".join(text.replace("\u00a0", " ").split()) for text in page.locator(".written li").all_inner_texts()]


def letters(page) -> str:
    return "".join(line[0] for line in collected(page))


def press(page, name: str) -> None:
    """Click a button, also where it does nothing (it then says so, and keeps the focus)."""
    page.get_by_role("button", name=name).click(force=True)


def pixels(page, selector: str) -> str:
    return page.locator(selector).evaluate("(canvas) => canvas.toDataURL()")


def heard(page) -> str:
    return page.locator("[role=status]").text_content()


def everything(page) -> str:
    """All that a page says, also to those who hear it."""
    return page.locator(".mha").evaluate(
        """(view) => view.textContent + [...view.querySelectorAll("*")].map((e) =>
        ["aria-label", "aria-description", "aria-valuetext", "title"].map((name) => e.getAttribute(name))).join()"""
    )


def test_from_step_to_step_and_back(static_page):
    page = static_page(sealed())
    assert page.get_by_text("Turn t. The output moves in steps").is_visible()
    assert (t_of(page), collected(page)) == (-3, [])
    assert page.get_by_role("button", name="Previous step").get_attribute("aria-disabled") == "true"
    for number in range(4):
        press(page, "Next step")
        assert PLACES[number] < t_of(page) < [*PLACES, 3][number + 1]
        assert letters(page) == "ABCD"[: number + 1]
        assert heard(page).startswith(f"Crossed {'ABCD'[number]} near t = ")
    assert collected(page) == [
        "A taken away at t ≈ −1.305",
        "B added at t ≈ −0.982",
        "C taken away at t ≈ −0.143",
        "D added at t ≈ 0.165",
    ]
    assert page.get_by_text("4 different vectors in 4 steps").is_visible()
    here = t_of(page)
    press(page, "Next step")
    assert t_of(page) == here
    assert page.get_by_role("button", name="Next step").get_attribute("aria-disabled") == "true"
    for _ in range(5):
        press(page, "Previous step")
    assert t_of(page) < PLACES[0] and letters(page) == "ABCD"


def test_drag_in_the_graph(static_page):
    page = static_page(sealed())
    canvas = page.locator("canvas.lines")
    box = canvas.bounding_box()
    middle = box["y"] + 100

    def x(t):
        return box["x"] + 48 + (t + 3) / 6 * (box["width"] - 58)

    page.mouse.move(x(-2), middle)
    page.mouse.down()
    assert t_of(page) == pytest.approx(-2, abs=0.02) and letters(page) == ""
    before = pixels(page, "canvas.lines")
    page.mouse.move(x(-1.1), middle, steps=5)
    assert letters(page) == "A" and pixels(page, "canvas.lines") != before
    page.mouse.move(x(0), middle + 500, steps=5)  # the pointer may leave the graph
    assert t_of(page) == pytest.approx(0, abs=0.02) and letters(page) == "ABC"
    page.mouse.move(x(9), middle)
    assert t_of(page) == 3
    page.mouse.up()
    page.mouse.move(x(-1), middle)
    assert t_of(page) == 3


def test_keys_in_the_graph(static_page):
    page = static_page(sealed())
    canvas = page.locator("canvas.lines")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    assert t_of(page) == pytest.approx(-2.94)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert t_of(page) == -3
    page.keyboard.press("PageDown")
    assert letters(page) == "A" and canvas.get_attribute("aria-valuetext").endswith("1 step crossed so far")
    page.keyboard.press("PageUp")
    assert t_of(page) < PLACES[0]
    page.keyboard.press("End")
    assert t_of(page) == 3 and letters(page) == "ABCD"
    assert heard(page) == "Crossed B near t = −0.982, C near t = −0.143, D near t = 0.165. 4 different vectors so far."
    page.keyboard.press("Home")
    assert t_of(page) == -3 and float(canvas.get_attribute("aria-valuenow")) == -3


def test_one_point_after_the_other_misses_no_step(static_page):
    page = static_page(sealed(points=101))
    page.get_by_label("t", exact=True).focus()
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    assert letters(page) == "ABCD"


def test_the_lid_covers_everything_until_it_is_lifted(static_page):
    page = static_page(sealed())
    inside = page.get_by_role("img", name="head 0")
    for _ in range(2):
        press(page, "Next step")
        covered = everything(page)
        assert "The lid is on: how many heads are inside, and where they look, is not shown." in covered
        assert "4 heads" not in covered and "head 0" not in covered and inside.count() == 0
    press(page, "Open the box")
    assert inside.is_visible() and not page.locator(".lid").is_visible()
    told = inside.get_attribute("aria-label").split("; ")
    assert told == [
        "head 0: first token 1.00, second token 0.00, turns at B",
        "head 1: first token 1.00, second token 0.00, turns at A",
        "head 2: first token 0.00, second token 1.00, turns at a step not crossed yet",
        "head 3: first token 0.00, second token 1.00, turns at a step not crossed yet",
    ]
    assert (
        "You saw 2 different vectors. Inside: 4 heads, of which 4 turn at a step" in page.locator(".told").inner_text()
    )
    before = pixels(page, "canvas[aria-label^='head 0']")
    press(page, "Next step")
    assert pixels(page, "canvas[aria-label^='head 0']") != before
    assert "head 2: first token 1.00, second token 0.00, turns at C" in inside.get_attribute("aria-label")
    press(page, "Put the lid back")
    assert "4 heads" not in everything(page) and "head 0" not in everything(page)


def test_heads_that_turn_together_are_named(static_page):
    box = sealed(num_heads=16, d_model=64, seed=0, points=31)
    box.t, box.opened = 3.0, True
    page = static_page(box)
    together = {n for steps in box.flips for n in steps if sum(n in other for other in box.flips) > 1}
    assert together and "Several turn at once at " in page.locator(".told").inner_text()


def test_without_a_key_nobody_knows(static_page):
    page = static_page(sealed(known=False))
    assert page.get_by_text("Nobody knows what is inside of this box").is_visible()
    assert page.get_by_role("button").count() == 2 and "open the box" not in everything(page)
    press(page, "Next step")
    assert letters(page) == "A"


def test_where_there_are_no_steps_it_says_so(static_page):
    generator = torch.Generator().manual_seed(0)
    start, direction, probe = torch.randn(3, 4, generator=generator)
    box = SealedBox(lambda x: x.softmax(1) * x, 4, start=start, direction=direction, probe=probe, reach=1)
    page = static_page(box)
    assert page.get_by_text(SLIDES).is_visible()
    press(page, "Next step")
    assert t_of(page) == -1


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone(static_page, theme, opened):
    box = sealed()
    box.t, box.opened = 0.0, opened
    page = static_page(box, width=390, theme=theme)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    scrolls = "(view) => [...view.querySelectorAll('*')].filter((e) => e.scrollWidth > e.clientWidth + 1 && "
    scrolls += "getComputedStyle(e).overflowX !== 'visible' && !e.matches('.hidden, input')).length"
    assert page.locator(".mha").evaluate(scrolls) == 0
    for canvas in page.locator("canvas").all():
        if canvas.is_visible():
            there = canvas.bounding_box()
            assert there["x"] >= 0 and there["x"] + there["width"] <= 390
    found = Axe().run(page).response["violations"]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


def test_the_theme_changes_the_picture(static_page):
    box = sealed()
    box.t = 0.0
    page = static_page(box)
    light = pixels(page, "canvas.lines")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    settle(page)
    assert pixels(page, "canvas.lines") != light


def test_nothing_moves_by_itself(static_page):
    page = static_page(sealed(), reduced_motion=True)
    press(page, "Next step")
    before = pixels(page, "canvas.lines")
    page.wait_for_timeout(300)
    assert pixels(page, "canvas.lines") == before


def test_in_jupyterlab(lab):
    root = str(Path(__file__).resolve().parents[3])
    make = (
        f"import sys\nsys.path.insert(0, {root!r})\nfrom tests.helpers.sealed_boxes import sealed\nbox = sealed()\nbox"
    )
    notebook = lab(make, "box")
    page = notebook.page
    views = page.locator(".mha")
    until(lambda: views.count() == 2, "the widget was not displayed twice")
    views.nth(0).get_by_role("button", name="Next step").click()
    views.nth(0).get_by_role("button", name="Next step").click()
    notebook.prints("print(box.steps_seen, list(box.written), -0.982 < box.t < -0.143)", "[0, 1] ['A', 'B'] True")
    until(lambda: views.nth(1).locator(".written li").count() == 2, "the second view does not follow")
    notebook.python("box.t = 1.0\nbox.open = True")
    until(lambda: views.nth(1).locator(".written li").count() == 4, "a view does not follow")
    assert "You saw 4 different vectors. Inside: 4 heads" in views.nth(0).locator(".told").inner_text()
    with pytest.raises(Exception, match="t=4 is not on the line"):
        notebook.python("box.t = 4")

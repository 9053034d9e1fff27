"""SealedBox in a browser: one turns t, collects steps, lifts the lid; under the lid nothing of the heads is told."""

import pytest
import torch

from headview import SealedBox
from headview.sealed_box.plateaus import SLIDES
from tests.helpers.browser import until
from tests.helpers.sealed_boxes import sealed

PLACES = [-1.305, -0.982, -0.143, 0.165]  # of the four steps


def t_of(page) -> float:
    return float(page.locator(".mha output").inner_text().replace("−", "-"))


def collected(page) -> list[str]:
    """Return what stands in the list, a line for each letter."""
    return [" ".join(text.replace("\u00a0", " ").split()) for text in page.locator(".written li").all_inner_texts()]


def letters(page) -> str:
    return "".join(line[0] for line in collected(page))


def press(page, name: str) -> None:
    """Click a button, also where it does nothing (it then says so, and keeps the focus)."""
    page.get_by_role("button", name=name).click(force=True)


def pixels(page, selector: str) -> str:
    return page.locator(selector).evaluate("(canvas) => canvas.toDataURL()")


def everything(page) -> str:
    """Return all that a page says, also to those who hear it."""
    return page.locator(".mha").evaluate(
        """(view) => view.textContent + [...view.querySelectorAll("*")].map((e) =>
        ["aria-label", "aria-description", "aria-valuetext", "title"].map((name) => e.getAttribute(name))).join()"""
    )


def test_from_step_to_step_and_back(static_page):
    page = static_page(sealed())
    assert (t_of(page), collected(page)) == (-3, [])
    for number in range(4):
        press(page, "Next step")
        assert PLACES[number] < t_of(page) < [*PLACES, 3][number + 1]
        assert letters(page) == "ABCD"[: number + 1]
        said = page.locator("[role=status]").text_content()
        assert said.startswith(f"Crossed {'ABCD'[number]} near t = ")
    assert collected(page) == [
        *("A −A at t ≈ −1.305", "B +B at t ≈ −0.982", "C −C at t ≈ −0.143", "D +D at t ≈ 0.165"),
    ]
    assert page.get_by_text("4 different vectors in 4 steps").is_visible()
    here = t_of(page)
    press(page, "Next step")
    assert t_of(page) == here
    for _ in range(5):
        press(page, "Previous step")
    assert t_of(page) < PLACES[0] and letters(page) == "ABCD"


def test_drag_in_the_graph_and_keys_on_the_slider(static_page):
    page = static_page(sealed())
    canvas = page.locator("canvas.lines")
    box = canvas.bounding_box()
    middle = box["y"] + 100

    def x(t):
        return box["x"] + 52 + (t + 3) / 6 * (box["width"] - 62)

    page.mouse.move(x(-2), middle)
    page.mouse.down()
    before = pixels(page, "canvas.lines")
    for t, y, expected in ((-2, middle, ""), (-1.1, middle, "A"), (0, middle + 500, "ABC")):  # it may leave the graph
        page.mouse.move(x(t), y, steps=5)
        assert t_of(page) == pytest.approx(t, abs=0.02) and letters(page) == expected
    assert pixels(page, "canvas.lines") != before
    page.mouse.up()
    page.mouse.move(x(-1), middle)
    assert t_of(page) == pytest.approx(0, abs=0.02)

    box = sealed(points=101)
    page = static_page(box)
    slider = page.get_by_label("t", exact=True)
    slider.focus()
    for point in range(1, 61):  # one after the other misses no step, and takes none before it is behind
        page.keyboard.press("ArrowRight")
        assert letters(page) == "ABCD"[: sum(step.middle < point for step in box._found.steps)]
    for key, t in (("Home", -3), ("ArrowRight", -2.94), ("ArrowLeft", -3), ("End", 3)):
        slider.press(key)
        assert t_of(page) == pytest.approx(t)


def test_the_lid_covers_everything_until_it_is_lifted(static_page):
    page = static_page(sealed(), reduced_motion=True)
    rows = page.locator("tr:has(td)")

    def inside():
        return rows.evaluate_all("(all) => all.map((row) => [...row.cells].map((cell) => cell.innerText).join())")

    for _ in range(2):
        press(page, "Next step")
        covered = everything(page)
        assert "The lid is on: how many heads are inside, and where they look, is not shown." in covered
        assert "4 heads" not in covered and "head 0" not in covered and inside() == []
    press(page, "Open the box")
    assert [" ".join(row.split()) for row in inside()] == [
        "head 0,1.00,0.00,B",
        "head 1,1.00,0.00,A",
        "head 2,0.00,1.00,? a step not crossed yet",
        "head 3,0.00,1.00,? a step not crossed yet",
    ]
    said = page.locator(".told").inner_text()
    assert "You saw 2 different vectors. Inside: 4 heads, of which 4 turn at a step" in said
    press(page, "Next step")
    assert inside()[2] == "head 2,1.00,0.00,C"
    press(page, "Put the lid back")
    assert "4 heads" not in everything(page) and "head 0" not in everything(page)
    light = pixels(page, "canvas.lines")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    until(lambda: pixels(page, "canvas.lines") != light, "the picture keeps its colours")


def test_boxes_of_other_kinds_say_so(static_page):
    together = sealed(num_heads=16, d_model=64, seed=0, points=31)
    together.t, together.opened = 3.0, True
    line = dict(zip(("start", "direction", "probe"), torch.randn(3, 4), strict=True))
    sliding = SealedBox(lambda x: x.softmax(1) * x, 4, **line, reach=1)
    page = static_page(together, sealed(known=False), sliding)
    assert "Several turn at once at " in page.locator(".told").first.inner_text()
    unknown = page.locator(".mha").nth(1)
    assert unknown.get_by_text("Nobody knows what is inside of this box").is_visible()
    assert unknown.get_by_role("button").count() == 2
    press(unknown, "Next step")
    assert unknown.locator(".written li").count() == 1
    assert page.locator(".mha").nth(2).get_by_text(SLIDES).is_visible()

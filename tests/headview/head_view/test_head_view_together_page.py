"""HeadView beside others: two sides compared, views that are linked, files from the page, the theme of the place."""

import pytest
import torch

from mhalib.widgets.head_view.widget import HeadView
from tests.headview.head_view.test_head_view_page import WORDS, press, readout
from tests.helpers.browser import settle, until


def some(*shape, seed=0):
    return (2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).softmax(-1)


def test_two_sides_have_one_cursor_and_their_difference(static_page):
    before, after = some(2, 3, 6, 6), some(2, 3, 6, 6, seed=1)
    view = HeadView(before, WORDS[:6], compare=after, names=("before", "after"))
    page = static_page(view, width=1200)
    page.locator("canvas.focus").focus()
    press(page, "ArrowDown", "ArrowRight", "ArrowRight")
    one, two = before[0, 0, 1, 2].item(), after[0, 0, 1, 2].item()
    place = "query 1 “cat”, key 2 “sat”"
    assert readout(page) == f"{place}: before {one:.4f}, after {two:.4f}, difference {two - one:.4f}"
    wide = page.locator("canvas.focus").bounding_box()["width"]
    page.get_by_label("Compare").select_option("difference")
    assert readout(page) == f"{place}: difference {two - one:.4f}"
    assert page.locator("canvas.focus").bounding_box()["width"] < wide
    page.get_by_label("Compare").select_option("b")
    page.get_by_label("Show as").select_option("lines")
    assert readout(page) == f"{place}: after {two:.4f}"


@pytest.mark.parametrize("width", [390, 760, 1200])
def test_three_maps_stay_in_the_page(static_page, width):
    page = static_page(HeadView(some(2, 3, 40, 40), compare=some(2, 3, 40, 40, seed=1)), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_linked_views_follow_each_other_and_others_do_not(static_page):
    one, two, alone = (HeadView(some(2, 3, 6, 6, seed=i)) for i in range(3))
    one.link(two)
    page = static_page(one, two, alone)
    views = [page.locator(".mha").nth(i) for i in range(3)]
    views[0].locator("canvas.overview").focus()
    press(page, "ArrowRight", "ArrowDown")
    views[1].locator("canvas.focus").focus()
    press(page, "ArrowDown", "ArrowDown")
    titles = [view.locator("canvas.focus").get_attribute("aria-label") for view in views]
    assert "layer 1 head 1" in titles[0] and "layer 1 head 1" in titles[1] and "layer 0 head 0" in titles[2]
    said = [view.locator(".readout").text_content() for view in views]
    assert said[0].startswith("query 2") and said[1].startswith("query 2") and said[2].startswith("query 0")


PLACES = {  # what says that a page is dark, and that it is light
    "VS Code": ("document.body.className = 'vscode-dark'", "document.body.className = 'vscode-light'"),
    "VS Code, contrast": (
        "document.body.dataset.vscodeThemeKind = 'vscode-high-contrast'",
        "document.body.dataset.vscodeThemeKind = 'vscode-high-contrast-light'",
    ),
    "Colab": (
        "document.documentElement.setAttribute('theme', 'dark')",
        "document.documentElement.setAttribute('theme', 'light')",
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_theme_of_the_place_is_followed(static_page, place):
    page = static_page(HeadView(torch.eye(4)))
    page.evaluate("document.documentElement.removeAttribute('data-theme')")
    for script, dark in zip(PLACES[place], (True, False), strict=True):
        page.evaluate(script)
        until(
            lambda dark=dark: page.evaluate("document.querySelector('.mha').classList.contains('dark')") == dark,
            f"{place} is not followed",
        )
        settle(page)

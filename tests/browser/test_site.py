"""The site in a browser, opened from files, with the network cut.

Both themes, a phone, the search, live widgets, slides.
"""

import re

import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from small_site import LESSON
from tools.notebooks.run import NOTEBOOKS
from tools.site.export import PageExporter

from .conftest import settle, watch


@pytest.fixture
def open_page(browser, site):
    contexts, pages = [], []

    def go(name, *, width=1100, theme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
        context.set_default_timeout(15_000)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.problems = watch(page, ("file:", "blob:", "data:"))
        pages.append(page)
        page.goto((site / name).as_uri())
        settle(page)
        return page

    yield go
    problems = [problem for page in pages for problem in page.problems]
    for context in contexts:
        context.close()
    assert problems == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_a_lesson_fits_and_its_widget_is_alive(open_page, theme, width):
    page = open_page("07_lesson.html", width=width, theme=theme)
    page.wait_for_selector(".mhalib-view canvas")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 22)"}[theme]
    assert page.locator(".mha.dark").count() == (theme == "dark")
    before = page.locator(".mhalib-view").screenshot()
    page.locator(".mhalib-view canvas").first.focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.locator(".mhalib-view").screenshot() != before


def test_the_theme_can_be_changed_and_is_remembered(open_page):
    page = open_page("07_lesson.html")
    page.wait_for_selector(".mhalib-view canvas")
    page.get_by_role("button", name="Switch to the dark theme").click()
    assert page.locator(".mha.dark").count() == 1
    page.goto(page.url.replace("07_lesson", "index"))
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_handout_prints_on_one_page_in_light_colours(open_page, site):
    """The real one, whose links lead to lessons that this small site does not have."""
    page = open_page("handout.html", theme="dark")
    handout = new_notebook(cells=[new_markdown_cell((NOTEBOOKS / "HANDOUT.md").read_text(encoding="utf-8"))])
    html, _ = PageExporter().from_notebook_node(handout, {"page": {"name": "handout", "title": "", "lessons": []}})
    page.evaluate("(html) => document.querySelector('main').innerHTML = html", html.partition('<main id="lesson">')[2])
    assert len(re.findall(rb"/Type /Page\b", page.pdf(prefer_css_page_size=True))) == 1
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 28, 28)"


def test_the_search_leads_to_a_section(open_page):
    page = open_page("index.html")
    page.get_by_role("searchbox").fill("the teacher")
    page.get_by_role("link", name="07 · Why √d?").click()
    page.wait_for_url("**/07_lesson.html#why-d")
    page.get_by_role("searchbox").fill("no such words")
    assert page.get_by_text("Nothing found").is_visible()
    page.get_by_role("searchbox").fill("")
    assert page.get_by_role("navigation", name="Lessons").is_visible()


def test_code_can_be_copied(open_page):
    page = open_page("07_lesson.html")
    button = page.locator(".code button").first
    button.focus()
    button.press("Enter")
    page.wait_for_function("/Copied|Selected/.test(document.querySelector('.code button').textContent)")


def test_a_phone_starts_with_the_list_folded(open_page):
    page = open_page("07_lesson.html", width=360)
    assert not page.get_by_role("searchbox").is_visible()
    page.get_by_text("Lessons", exact=True).click()
    assert page.get_by_role("searchbox").is_visible()


def test_slides_turn_and_leave_a_widget_its_keys(open_page):
    page = open_page("slides/07_lesson.html")
    page.wait_for_function("window.Reveal?.isReady()")
    total = page.evaluate("Reveal.getTotalSlides()")
    assert total >= len([cell for cell in LESSON if cell.source.startswith("#")]) + 1
    seen = set()
    for _ in range(total):
        seen.add(page.evaluate("JSON.stringify(Reveal.getIndices())"))
        if page.locator("section.present section.present canvas").count():
            page.locator("section.present section.present canvas").first.focus()
            page.keyboard.press("ArrowRight")
            assert page.evaluate("JSON.stringify(Reveal.getIndices())") in seen  # the widget took the key
            # reveal.js has a class of the same name for its arrows, which float
            assert page.evaluate("getComputedStyle(document.querySelector('.mha .controls')).position") == "static"
            page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Space")
        settle(page)
    assert len(seen) == total

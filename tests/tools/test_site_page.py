"""The site in a browser, opened from files, with the network cut.

Both themes, a phone, the search, live widgets, covered answers, slides.
"""

import re

import pytest

from tests.helpers.browser import settle, until, watch


@pytest.fixture
def open_page(browser, site):
    contexts, pages = [], []

    def go(name, *, width=1100, theme="light", script=True, first=None, touch=False):
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, color_scheme=theme, java_script_enabled=script, has_touch=touch)
        context.set_default_timeout(15_000)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.problems = watch(page, ("file:", "blob:", "data:"), script)
        pages.append(page)
        if first:
            page.add_init_script(first)
        page.goto(name if name.startswith("file:") else f"{site.as_uri()}/{name}")
        if script:
            settle(page)
        return page

    yield go
    problems = [problem for page in pages for problem in page.problems]
    for context in contexts:
        context.close()
    assert problems == []


def drawn(page):
    """Wait until every widget of the page has drawn, covered or not."""
    views = "[...document.querySelectorAll('.mhalib-view')]"
    drawn = "view.querySelector('.mha canvas, .mha fieldset')"
    page.wait_for_function(f"{views}.length && {views}.every((view) => {drawn})")
    settle(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_a_lesson_fits_and_its_widget_is_alive(open_page, theme, width):
    page = open_page("07_lesson.html", width=width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Show what comes out").first.click()
    page.wait_for_selector(".mhalib-view canvas")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 22)"}[theme]
    drawn(page)
    assert page.locator(".mha.dark").count() == page.locator(".mha").count() * (theme == "dark")
    view = page.locator(".mhalib-view").first
    before = view.screenshot()
    view.locator("canvas").first.focus()
    page.keyboard.press("ArrowRight")
    assert view.screenshot() != before


def test_the_theme_can_be_changed_and_is_remembered(open_page):
    page = open_page("07_lesson.html")
    drawn(page)
    page.get_by_role("button", name="Switch to the dark theme").click()
    assert page.locator(".mha.dark").count() == page.locator(".mha").count() > 1
    page.goto(page.url.replace("07_lesson", "index"))
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


# ---------------------------------------------------------------- words of the glossary


def tip_of(page):
    """Return a link to the glossary, and its tip."""
    return page.locator("a.term[href$='#token']"), page.locator("#tip-token")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_word_shows_what_it_means_while_the_pointer_is_on_it_or_on_the_tip(open_page, theme):
    page = open_page("torch_in_ten_minutes.html", theme=theme)
    link, tip = tip_of(page)
    assert tip.is_hidden()
    link.hover()
    assert tip.is_visible() and "a word & what has <b> in it" in tip.text_content()
    tip.hover()
    page.wait_for_timeout(400)
    assert tip.is_visible()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    link.hover()
    page.mouse.move(600, 700)
    until(tip.is_hidden, "the tip stays")
    ink, paper = (tip.evaluate(f"(tip) => getComputedStyle(tip).{name}") for name in ("color", "backgroundColor"))
    light, dark = ("rgb(28, 28, 28)", "rgb(255, 255, 255)"), ("rgb(232, 232, 230)", "rgb(22, 22, 22)")
    assert (ink, paper) == (dark if theme == "dark" else light)


def test_a_word_is_reached_by_the_keyboard_and_described_to_a_screen_reader(open_page):
    page = open_page("torch_in_ten_minutes.html")
    link, tip = tip_of(page)
    page.get_by_role("button", name="Copy").focus()
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.textContent") != "token":
        page.keyboard.press("Tab")
    assert tip.is_visible() and page.evaluate("document.activeElement.computedName") == "token"
    assert page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-describedby')).textContent")
    page.keyboard.press("Escape")
    assert tip.is_hidden() and link.evaluate("(link) => link === document.activeElement")
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary.html#token")


# ---------------------------------------------------------------- what are you looking for?


@pytest.mark.parametrize("width", [390, 1100])
def test_a_question_is_found_while_one_types_and_leads_to_its_cell(open_page, width):
    page = open_page("index.html", width=width, theme="dark")
    field, rows = page.get_by_role("searchbox", name="What are you looking for?"), page.locator("#asked li")
    assert rows.count() == 3 and all(row.is_visible() for row in rows.all())
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    def left(typed):
        field.fill(typed)
        return [row.locator("a").text_content() for row in rows.all() if row.is_visible()]

    assert left("ROOT of?") == ["Why <b> the root?"]
    assert page.locator("#ask-count").text_content() == "1 question"
    assert left("is everybody asleep") == ["Is it open?"]  # by a word of the answer
    assert left("row of tokens <b>") == ["What of a row of tokens?"]
    assert left("zebra") == [] and "None of these" in page.locator("#ask-count").text_content()
    assert len(left("")) == 3 and page.locator("#ask-count").text_content() == ""
    left("nearly")
    field.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/07_lesson.html#cell-9")
    drawn(page)
    assert page.get_by_text("row <1> of head 0 holds").is_visible()  # what was covered is open


# ---------------------------------------------------------------- search


def test_the_search_leads_to_a_section(open_page):
    page = open_page("index.html")
    page.get_by_role("searchbox", name="Search the lessons").fill("words before")
    page.get_by_role("link", name="07 · Why √d?").click()
    page.wait_for_url("**/07_lesson.html#why-d")
    page.get_by_role("searchbox", name="Search the lessons").fill("nosuchword")
    assert page.get_by_text("Nothing found").is_visible()
    page.get_by_role("searchbox", name="Search the lessons").fill("")
    assert page.get_by_role("navigation", name="Lessons").is_visible()


# ---------------------------------------------------------------- what answers a prediction

ANSWERS = ".answer"
# Whether the reader sees some of an element; what is covered keeps a strip of its own, and nothing in it.
SEEN = """(parts) => parts.map((part) => [...part.querySelectorAll("*")].some((inner) => inner.checkVisibility(
  { contentVisibilityAuto: true, visibilityProperty: true, opacityProperty: true })))"""
COLOURS = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
}"""
COVERED, SHOWN = [False] * 6, [True] * 6  # the parts of the small lesson: each of its three questions has two


def seen(page):
    return page.locator(ANSWERS).evaluate_all(SEEN)


def buttons(page):
    return page.locator("button.uncover")


def test_answers_are_covered_and_a_button_uncovers_one_and_covers_it_again(open_page):
    page = open_page("07_lesson.html")
    assert seen(page) == COVERED
    button = buttons(page).nth(1)
    button.press("Enter")
    assert seen(page) == [False, False, True, True, False, False]
    assert button.get_attribute("aria-expanded") == "true" and button.evaluate("(b) => b === document.activeElement")
    assert page.get_by_role("list").get_by_text("row <1> of head 0 holds").is_visible()
    button.press("Enter")
    assert seen(page) == COVERED and button.get_attribute("aria-expanded") == "false"


def test_covered_answers_are_out_of_reach_of_screen_reader_and_keyboard(open_page):
    page = open_page("07_lesson.html")
    drawn(page)

    def told():
        tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        return " ".join(str(node.get("name", {}).get("value")) for node in tree if not node["ignored"])

    def reached():
        """Return whether Tab, from the top of the page to its end, stops within an answer."""
        page.evaluate("document.activeElement.blur()")
        stops = []
        for _ in range(80):
            page.keyboard.press("Tab")
            stops.append(page.evaluate("document.activeElement.closest('.answer') !== null"))
        return any(stops)

    assert "Nothing gets lost" not in told() and "claim holds" not in told() and not reached()
    page.get_by_role("button", name=re.compile("show all")).click()
    assert "Nothing gets lost" in told() and "claim holds" in told() and reached()


def test_without_javascript_everything_shows_and_nothing_is_offered_that_needs_it(open_page):
    page = open_page("07_lesson.html", script=False)
    for text in (
        "The first sentence says",
        "○ the second",
        "and <b>both</b>",
        "The answer: the second",
        "Nothing gets lost in it.",
    ):
        assert page.locator("main :is(p, .claims li, .output div)").filter(has_text=text).last.is_visible()
    for offered in ("button", "input"):
        assert not any(control.is_visible() for control in page.locator(offered).all())
    home = open_page("index.html", script=False)
    assert home.get_by_role("img", name=re.compile("Attention maps")).is_visible()
    assert not home.get_by_text("down to 1 and up again").is_visible()


def test_the_switch_shows_all_is_remembered_and_keeps_the_place(open_page):
    page = open_page("07_lesson.html")
    heading = page.get_by_role("heading", name="In the open: x")
    heading.evaluate("(place) => place.scrollIntoView()")
    page.mouse.wheel(0, -60)
    before = heading.bounding_box()["y"]
    switch = page.get_by_role("button", name="Answers: covered; show all")
    switch.press("Enter")
    assert seen(page) == SHOWN and not buttons(page).first.is_visible()
    assert abs(heading.bounding_box()["y"] - before) < 40  # by the browser's own anchoring
    page.reload()
    settle(page)
    assert seen(page) == SHOWN
    page.get_by_role("button", name="Answers: shown; cover all").click()
    assert seen(page) == COVERED and buttons(page).first.is_visible()
    page.reload()
    assert seen(page) == COVERED


def test_a_guess_is_judged_uncovers_its_answer_and_is_summed_up(open_page):
    page = open_page("07_lesson.html")
    results = page.locator(".mhalib-results")
    assert "Nothing predicted yet" in results.inner_text()
    page.get_by_role("radio", name="the first").press("Space")
    until(lambda: seen(page) == [False, False, True, True, False, False], "the answer was not uncovered")
    assert page.get_by_role("radio", name="the first").evaluate("(choice) => choice === document.activeElement")
    count = int(results.get_attribute("data-count"))
    assert results.inner_text().splitlines() == [
        f"Predicted: 1 of {count}, 0 rightly",
        "Surprised by: which candidate equals the specification: the second, not the first",
        f"Not predicted: {count - 1}",
    ]
    guess = """(cell, detail) => cell.dispatchEvent(new CustomEvent("mhalib-predicted", { bubbles: true, detail }))"""
    told = {"name": "a", "about": "<b>how</b> many", "right": True, "said": "3", "answer": "3"}
    page.locator("[data-asks]").evaluate(guess, told)
    page.locator("main .text").first.evaluate(guess, told | {"name": "b", "about": "which", "said": "<i>this</i>"})
    assert results.inner_text().splitlines()[1] == "Foreseen: which; <b>how</b> many"  # in the order of the page


# ---------------------------------------------------------------- the first page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 768, 1100])
def test_the_lab_of_the_first_page_is_alive(open_page, theme, width):
    page = open_page("index.html", width=width, theme=theme)
    page.wait_for_selector(".head-lab canvas")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not page.get_by_role("img", name=re.compile("Attention maps")).count()
    heads = page.get_by_role("slider", name="Heads", exact=True)
    before = page.locator(".head-lab canvas").screenshot()
    heads.press("ArrowLeft")
    assert page.locator(".head-lab canvas").screenshot() != before


# ---------------------------------------------------------------- slides


def test_slides_turn_and_leave_a_widget_its_keys(open_page):
    page = open_page("slides/07_lesson.html")
    page.wait_for_function("window.Reveal?.isReady()")
    state = "JSON.stringify(Reveal.getIndices())"
    seen = []
    while not seen or page.evaluate(state) != seen[-1]:
        seen.append(page.evaluate(state))
        canvas = page.locator("section.present section.present canvas")
        if canvas.count() and canvas.first.is_visible():
            canvas.first.focus()
            page.keyboard.press("ArrowRight")
            assert page.evaluate(state) == seen[-1]  # the widget took the key
            # reveal.js has a class of the same name for its arrows, which float
            assert page.evaluate("getComputedStyle(document.querySelector('.mha .controls')).position") == "static"
            page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Space")
    assert len(set(seen)) == len(seen)
    assert len({re.sub(r',"f":-?\d+', "", place) for place in seen}) == page.evaluate("Reveal.getTotalSlides()")
    assert len(seen) - page.evaluate("Reveal.getTotalSlides()") == page.locator(".fragment").count()


def test_slides_show_an_answer_at_the_next_key(open_page):
    page = open_page("slides/07_lesson.html")
    page.wait_for_function("window.Reveal?.isReady()")
    page.evaluate("""() => {
      const { h, v } = Reveal.getIndices(document.querySelector(".claims").closest("section"));
      Reveal.slide(h, v, -1);
    }""")
    settle(page)
    slide = page.locator("section.present section.present")
    told = page.locator(".aria-status")  # what reveal.js lets a screen reader say
    code, answer, next_one = (slide.get_by_text(text) for text in ("claim(True", "The answer: the second", "how much"))
    assert code.first.is_visible() and not answer.is_visible() and "The answer" not in told.inner_text()
    page.keyboard.press("Space")
    assert code.first.is_visible() and answer.is_visible() and not next_one.is_visible()
    assert "The answer" in told.inner_text()
    page.set_viewport_size({"width": 1100, "height": 300})
    page.keyboard.press("Space")
    assert next_one.is_visible() and 0 <= next_one.bounding_box()["y"] < 300  # it is scrolled to

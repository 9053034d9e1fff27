"""The site in a browser, opened from files, with the network cut.

Both themes, a phone, the search, live widgets, covered answers, slides.
"""

import re

import pytest

from tests.helpers.browser import settle, until
from tests.helpers.small_site import ASKED, RIGHT, WRONG

ALIVE = """document.querySelector(".mhalib-view") && [...document.querySelectorAll(".mhalib-view")]
  .every((view) => view.querySelector(".mha canvas, .mha fieldset"))"""


@pytest.fixture
def open_page(open_file, site):
    def go(name, width=1100, **options):
        page = open_file(f"{site.as_uri()}/{name}", width, **options)
        if options.get("script", True):
            settle(page)
        return page

    return go


def drawn(page):
    """Wait until every widget of the page has drawn, covered or not."""
    page.wait_for_function(ALIVE)
    settle(page)


@pytest.mark.parametrize(("width", "theme"), [(320, "dark"), (768, "light"), (1100, "dark")])
def test_pages_fit_and_their_widgets_are_alive(open_page, width, theme):
    page = open_page("07_lesson.html", width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Show what comes out").first.click()
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 22)"}[theme]
    assert page.locator(".mha.dark").count() == page.locator(".mha").count() * (theme == "dark")
    view = page.locator(".mhalib-view").first
    assert "not in this page" not in view.inner_text()  # its numbers came along, and not its frame alone
    before = view.screenshot()
    view.locator("canvas").first.focus()
    page.keyboard.press("ArrowRight")
    assert view.screenshot() != before

    home = open_page("index.html", width, theme=theme)
    drawn(home)
    assert home.evaluate("document.documentElement.scrollWidth") <= width
    assert not home.get_by_role("img", name=re.compile("Attention maps")).count()
    before = home.locator(".head-lab canvas").screenshot()
    home.get_by_role("slider", name="Heads", exact=True).press("ArrowLeft")
    assert home.locator(".head-lab canvas").screenshot() != before


def test_the_theme_can_be_changed_and_is_remembered(open_page):
    page = open_page("07_lesson.html")
    drawn(page)
    page.get_by_role("button", name="Switch to the dark theme").click()
    assert page.locator(".mha.dark").count() == page.locator(".mha").count() > 1
    page.goto(page.url.replace("07_lesson", "index"))
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_word_of_the_glossary_shows_what_it_means_to_pointer_keyboard_and_screen_reader(open_page, theme):
    page = open_page("torch_in_ten_minutes.html", theme=theme)
    link, tip = page.locator("a.term[href$='#token']"), page.locator("#tip-token")
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

    page.get_by_role("button", name="Copy").focus()
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.textContent") != "token":
        page.keyboard.press("Tab")
    assert tip.is_visible() and page.evaluate("document.activeElement.computedName") == "token"
    assert link.get_attribute("aria-describedby") == "tip-token"
    page.keyboard.press("Escape")
    assert tip.is_hidden() and link.evaluate("(link) => link === document.activeElement")
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary.html#token")


def test_a_question_is_found_while_one_types_and_leads_to_its_cell(open_page):
    page = open_page("index.html", width=390, theme="dark")
    field, rows = page.get_by_role("searchbox", name="What are you looking for?"), page.locator("#asked li")

    def left(typed):
        field.fill(typed)
        return [row.locator("a").text_content() for row in rows.all() if row.is_visible()]

    assert left("ROOT of?") == ["Why <b> the root?"]
    assert page.locator("#ask-count").text_content() == "1 question"
    assert left("is everybody asleep") == ["Is it open?"]  # by a word of the answer
    assert left("row of tokens <b>") == ["What of a row of tokens?"]
    assert left("zebra") == [] and "None of these" in page.locator("#ask-count").text_content()
    assert len(left("")) == rows.count() == 3 and page.locator("#ask-count").text_content() == ""
    left("nearly")
    field.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/07_lesson.html#cell-9")
    drawn(page)
    assert page.get_by_text("row <1> of head 0 holds").is_visible()  # what was covered is open


def test_the_search_leads_to_a_section(open_page):
    page = open_page("index.html")
    field = page.get_by_role("searchbox", name="Search the lessons")
    field.fill("words before")
    page.get_by_role("link", name="07 · Why √d?").click()
    page.wait_for_url("**/07_lesson.html#why-d")
    field.fill("nosuchword")
    assert page.get_by_text("Nothing found").is_visible()
    field.fill("")
    assert page.get_by_role("navigation", name="Lessons").is_visible()


# ---------------------------------------------------------------- what answers a prediction

# Whether the reader sees some of an element; what is covered keeps a strip of its own, and nothing in it.
SEEN = """(parts) => parts.map((part) => [...part.querySelectorAll("*")].some((inner) => inner.checkVisibility(
  { contentVisibilityAuto: true, visibilityProperty: true, opacityProperty: true })))"""
# The parts of the small lesson: each of its three questions has two.
COVERED, SECOND, SHOWN = [False] * 6, [False, False, True, True, False, False], [True] * 6


def seen(page):
    return page.locator(".answer").evaluate_all(SEEN)


def test_answers_are_covered_for_everybody_and_a_button_uncovers_one_and_covers_it_again(open_page):
    page = open_page("07_lesson.html")
    drawn(page)

    def told():
        tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        return " ".join(str(node.get("name", {}).get("value")) for node in tree if not node["ignored"])

    def reached():
        """Return whether Tab, from the top of the page to its end, stops within an answer."""
        page.evaluate("""() => {
          document.activeElement.blur();
          window.stops = [];
          document.addEventListener("focusin", ({ target }) => stops.push(target.closest(".answer") !== null));
        }""")
        for _ in range(80):
            page.keyboard.press("Tab")
        stops = page.evaluate("stops")
        assert len(stops) > 20
        return any(stops)

    assert seen(page) == COVERED and not reached()
    assert "Nothing gets lost" not in told() and "claim holds" not in told()
    button = page.locator("button.uncover").nth(1)
    button.press("Enter")
    assert seen(page) == SECOND
    assert button.get_attribute("aria-expanded") == "true" and button.evaluate("(b) => b === document.activeElement")
    assert page.get_by_role("list").get_by_text("row <1> of head 0 holds").is_visible()
    button.press("Enter")
    assert seen(page) == COVERED and button.get_attribute("aria-expanded") == "false"
    page.get_by_role("button", name=re.compile("show all")).click()
    assert "Nothing gets lost" in told() and "claim holds" in told() and reached()


def test_without_javascript_everything_shows_and_nothing_is_offered_that_needs_it(open_page):
    page = open_page("07_lesson.html", script=False)
    said = ["The first sentence says", f"○ {RIGHT}", "and <b>both</b>", f"The answer: {RIGHT}", "Nothing gets lost"]
    for text in said:
        assert page.locator("main :is(p, .claims li, .output div)").filter(has_text=text).last.is_visible()
    assert not any(control.is_visible() for control in page.locator("button, input").all())
    home = open_page("index.html", script=False)
    assert home.get_by_role("img", name=re.compile("Attention maps")).is_visible()
    assert not home.get_by_text("down to 1 and up again").is_visible()


def test_the_switch_shows_all_is_remembered_and_keeps_the_place(open_page):
    page = open_page("07_lesson.html")
    heading, button = page.get_by_role("heading", name="In the open: x"), page.locator("button.uncover").first
    page.set_viewport_size({"width": 1100, "height": 800})  # the page goes on far enough below the heading
    heading.evaluate("(place) => place.scrollIntoView()")
    page.mouse.wheel(0, -60)
    before = heading.bounding_box()["y"]
    page.get_by_role("button", name="Answers: covered; show all").press("Enter")
    assert seen(page) == SHOWN and not button.is_visible()
    assert abs(heading.bounding_box()["y"] - before) < 40  # by the browser's own anchoring
    page.reload()
    settle(page)
    assert seen(page) == SHOWN
    page.get_by_role("button", name="Answers: shown; cover all").click()
    assert seen(page) == COVERED and button.is_visible()
    page.reload()
    assert seen(page) == COVERED


def test_a_guess_is_judged_uncovers_its_answer_and_is_summed_up(open_page):
    page = open_page("07_lesson.html")
    results, first = page.locator(".mhalib-results"), page.get_by_role("radio", name=WRONG)
    assert "Nothing predicted yet" in results.inner_text()
    first.press("Space")
    until(lambda: seen(page) == SECOND, "the answer was not uncovered")
    assert first.evaluate("(choice) => choice === document.activeElement")
    count = int(results.get_attribute("data-count"))
    assert results.inner_text().splitlines() == [
        f"Predicted: 1 of {count}, 0 right",
        f"Surprised by: {ASKED.about}: {RIGHT}, not {WRONG}",
        f"Not predicted: {count - 1}",
    ]
    guess = """(cell, detail) => cell.dispatchEvent(new CustomEvent("mhalib-predicted", { bubbles: true, detail }))"""
    told = {"name": "a", "about": "<b>how</b> many", "right": True, "said": "3", "answer": "3"}
    page.locator("[data-asks]").evaluate(guess, told)
    page.locator("main .text").first.evaluate(guess, told | {"name": "b", "about": "which", "said": "<i>this</i>"})
    assert results.inner_text().splitlines()[1] == "Foreseen: which; <b>how</b> many"  # in the order of the page


# ---------------------------------------------------------------- slides


@pytest.fixture
def slides(open_page):
    page = open_page("slides/07_lesson.html")
    page.wait_for_function("window.Reveal?.isReady()")
    return page


def test_slides_turn_and_leave_a_widget_its_keys(slides):
    state = "JSON.stringify(Reveal.getIndices())"
    passed = []
    while not passed or slides.evaluate(state) != passed[-1]:
        passed.append(slides.evaluate(state))
        canvas = slides.locator("section.present section.present canvas")
        if canvas.count() and canvas.first.is_visible():
            canvas.first.focus()
            slides.keyboard.press("ArrowRight")
            assert slides.evaluate(state) == passed[-1]  # the widget took the key
            # reveal.js has a class of the same name for its arrows, which float
            assert slides.evaluate("getComputedStyle(document.querySelector('.mha .controls')).position") == "static"
            slides.evaluate("document.activeElement.blur()")
        slides.keyboard.press("Space")
    assert len(set(passed)) == len(passed)
    total = slides.evaluate("Reveal.getTotalSlides()")
    assert len({re.sub(r',"f":-?\d+', "", place) for place in passed}) == total
    assert len(passed) - total == slides.locator(".fragment").count()


def test_slides_show_an_answer_at_the_next_key(slides):
    slides.evaluate("""() => {
      const { h, v } = Reveal.getIndices(document.querySelector(".claims").closest("section"));
      Reveal.slide(h, v, -1);
    }""")
    settle(slides)
    slide = slides.locator("section.present section.present")
    told = slides.locator(".aria-status")  # what reveal.js lets a screen reader say
    code, answer, next_one = (slide.get_by_text(text) for text in ("claim(True", f"The answer: {RIGHT}", "how much"))
    assert code.first.is_visible() and not answer.is_visible() and "The answer" not in told.inner_text()
    slides.keyboard.press("Space")
    assert code.first.is_visible() and answer.is_visible() and not next_one.is_visible()
    assert "The answer" in told.inner_text()
    slides.set_viewport_size({"width": 1100, "height": 300})
    slides.keyboard.press("Space")
    assert next_one.is_visible() and 0 <= next_one.bounding_box()["y"] < 300  # it is scrolled to

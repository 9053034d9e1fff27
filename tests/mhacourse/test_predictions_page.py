"""Predictions in a browser: judged at once in a page without a kernel, which is told; else when the kernel answers."""

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbformat.v4 import new_code_cell, new_notebook

from mhalib.checks import Predictions
from mhalib.widgets.base import with_texts_once
from tests.headview.test_contract import FOCUSABLE, HOSTILE, no_overflow
from tests.helpers.browser import PAGE, settle, until, watch
from tests.helpers.small_predictions import OPTIONS, choose, lesson, number
from tools.notebooks.run import execute
from tools.site.live import make_live

NOTED = "Noted. Go on: what follows answers it."
RECORD = """() => {
  window.told = [];
  document.addEventListener("mhalib-predicted", ({ detail, target }) => told.push([detail, target.className]));
}"""


def ask(**predictions) -> Predictions:
    return Predictions(lesson(**predictions))


def heard(page) -> str:
    """Return what screen readers were told last."""
    return page.get_by_role("status").first.inner_text()


def told(page) -> list[dict]:
    """Return what the page was told of guesses."""
    return [detail for detail, _ in page.evaluate("() => told")]


def open_pages(static_page, *predictions, **options):
    page = static_page(*(prediction() for prediction in predictions), **options)
    page.evaluate(RECORD)
    return page


def in_focus(page) -> str:
    return page.evaluate("() => document.activeElement.computedName")


# ---------------------------------------------------------------- a page without a kernel


@pytest.mark.parametrize("guess", OPTIONS)
def test_a_guess_is_judged_at_once_and_the_page_is_told(static_page, guess):
    ours = ask(which=choose())
    page = open_pages(static_page, ours.which)
    page.get_by_role("radio", name=guess).check()
    ours.which(guess)
    expected = ours.which.reveal()
    sentence = expected.parts[0][1]
    assert page.locator(".verdict").inner_text() == heard(page) == f"{expected.title} {sentence}"
    assert told(page) == [
        {
            "name": "which",
            "about": "which candidate fits",
            "right": guess == "the second",
            "said": guess,
            "answer": "the second",
        }
    ]
    marks = dict(zip(OPTIONS, page.locator(".mark").all_inner_texts(), strict=True))
    assert marks == {choice: "" for choice in OPTIONS} | {guess: "✗ not this"} | {"the second": "✓ right"}


def test_nothing_of_the_answer_shows_before_the_guess(static_page):
    ours = ask(which=choose(), many=number())
    for prediction in ours:
        prediction.reveal()  # as it is in every page: the lesson ran to its end
    page = open_pages(static_page, *ours)
    shown = "".join(page.locator(".mha").evaluate_all("(views) => views.map((view) => view.outerHTML)"))
    assert "the second" in shown and "of 28 pairs" in shown
    secrets = [*OPTIONS.values(), "about 21", "Three of four", "Most of them", "Right", "✓", "Noted"]
    assert [secret for secret in secrets if secret in shown] == []


def test_the_keyboard_goes_through_the_choices_and_only_space_or_enter_chooses(static_page):
    ours = ask(which=choose(), other=choose())
    page = open_pages(static_page, ours.which, ours.other)
    names = list(OPTIONS)
    page.keyboard.press("Tab")
    walked = [in_focus(page)]
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
        walked.append(in_focus(page))
    assert walked == [names[0], names[1], names[2], names[0], names[2], names[1]]
    assert told(page) == [] and page.locator("input:checked").count() == 0
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert in_focus(page) == names[1], "Tab comes back to where one was"
    page.keyboard.press("Space")
    assert [guess["said"] for guess in told(page)] == [names[1]] and in_focus(page) == f"{names[1]} ✓ right"
    page.keyboard.press("Tab")  # one stop for each question
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert [guess["said"] for guess in told(page)] == [names[1], names[2]]


def test_what_was_judged_stays(static_page):
    ours = ask(which=choose(), many=number())
    page = open_pages(static_page, *ours)
    page.get_by_role("radio", name="both").check()
    page.get_by_role("textbox").fill("28")
    page.get_by_role("button", name="Guess").click()
    before = page.locator(".verdict").all_inner_texts()
    page.locator("label", has_text="the first").click(force=True)
    page.get_by_role("radio", name="both").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.get_by_role("textbox").focus()
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Guess").dispatch_event("click")
    assert len(told(page)) == 2 and page.locator(".verdict").all_inner_texts() == before
    assert page.get_by_role("radio", name="both").is_checked() and page.get_by_role("textbox").input_value() == "28"


@pytest.mark.parametrize(
    ("typed", "guess"),
    [
        ("28", 28),
        ("28,0", 28),
        (" 21.5 ", 21.5),
        (".5", 0.5),
        ("0,25", 0.25),
        ("−3", -3),
        ("+4.", 4),
        ("2e1", 20),
        ("1.5e-7", 1.5e-7),
        ("1e21", 1e21),
        ("123456789.125", 123456789.125),
        ("0.000012", 0.000012),
        ("-0", 0),
        ("21 of 28 pairs", 21),
    ],
)
def test_a_number_is_read_and_judged_as_python_does(static_page, typed, guess):
    ours = ask(many=number())
    page = open_pages(static_page, ours.many)
    page.get_by_role("textbox", name="Your number of 28 pairs").fill(typed)
    page.keyboard.press("Enter")
    ours.many(guess)
    expected = ours.many.reveal()
    assert page.locator(".verdict").inner_text() == f"{expected.title} {expected.parts[0][1]}"
    (detail,) = told(page)
    assert (detail["said"], detail["right"], detail["answer"]) == (expected.code, expected.passed, "about 21")


@pytest.mark.parametrize("typed", ["", "  ", "many", "1.000.000", "1e999", "3 4", "of 28 pairs", "<b>3</b>", "0x10"])
def test_what_is_no_number_gets_a_sentence(static_page, typed):
    page = open_pages(static_page, ask(many=number()).many)
    field = page.get_by_role("textbox")
    field.fill(typed)
    page.get_by_role("button", name="Guess").click()
    said = heard(page)
    assert said == page.locator(".problem").inner_text()
    assert said == ("Type a number first." if not typed.strip() else said)
    assert said.startswith("Type a number first.") or said.endswith("is no number. Type one such as 3 or 0.25.")
    assert page.evaluate("() => document.activeElement.matches('input')")
    assert field.evaluate("(e) => [e.getAttribute('aria-invalid'), e.ariaDescribedByElements[0].textContent]") == [
        "true",
        said,
    ]
    assert told(page) == []
    field.fill("21")
    assert not page.locator(".problem").is_visible()
    page.keyboard.press("Enter")
    assert [guess["right"] for guess in told(page)] == [True]


def test_names_for_a_screen_reader(static_page):
    page = open_pages(static_page, *ask(which=choose(), many=number()))
    which = page.get_by_role("group", name="Your guess: which candidate fits?", exact=True)
    assert which.get_by_role("radio").count() == 3
    assert which.get_by_role("radio").evaluate_all("(all) => all.map((one) => one.computedName)") == list(OPTIONS)
    many = page.get_by_role("group", name="Your guess: how many of the 28 pairs agree?", exact=True)
    assert many.get_by_role("textbox", name="Your number of 28 pairs", exact=True).count() == 1
    assert many.get_by_role("button", name="Guess", exact=True).count() == 1
    which.get_by_role("radio", name="both").check()
    assert which.get_by_role("radio", name="the second ✓ right", exact=True).count() == 1
    assert which.get_by_role("radio").evaluate_all("(all) => all.map((one) => one.ariaDisabled)") == ["true"] * 3


SMALL = """(focusable) => [...document.querySelectorAll(focusable)].filter((element) => {
  const { width, height } = (element.closest("label.option") || element).getBoundingClientRect();
  return width < 44 || height < 44;
}).map((element) => element.outerHTML)"""
LONG = {"a choice that takes a line and more than that on any telephone " * 2: "So.", "x" * 90: "No."}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 700, 1100])
def test_it_can_be_read_and_touched_before_and_after(static_page, theme, width):
    long = choose(about="which of these " * 9, options=LONG, right="x" * 90)
    ours = ask(which=choose(), long=long, many=number(), wide=number(unit="of all " * 12))
    page = open_pages(static_page, *ours, width=width, theme=theme)

    def look() -> None:
        settle(page)
        assert no_overflow(page) == []
        assert page.evaluate(SMALL, FOCUSABLE) == []
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()

    look()
    page.locator("label", has_text="both").click()
    page.locator("label", has_text="a choice").click()
    page.get_by_role("textbox").nth(0).fill("21")
    page.get_by_role("button").nth(0).click()
    page.get_by_role("button").nth(1).click()
    look()
    assert page.locator(".verdict:visible").count() == 3 and page.locator(".problem:visible").count() == 1


def test_words_are_text(static_page):
    words = [word for word in HOSTILE if word]
    hostile = choose(about=words[0], right=words[1], options={word: words[0] for word in words})
    page = open_pages(static_page, ask(which=hostile, many=number(unit=words[0], right_text=words[2])).which)
    assert page.get_by_role("radio").evaluate_all("(all) => all.map((one) => one.parentNode.textContent)") == words
    page.get_by_role("radio").nth(0).check()
    assert f"You predicted: {words[0]}. It is: {words[1]}. {words[0]}" == page.locator(".verdict").inner_text()
    assert page.locator(".mhalib-view").locator("img, script, b:not(.verdict b)").count() == 0


def test_two_questions_on_a_page_are_two(static_page):
    ours = ask(which=choose(), other=choose(about="the other"))
    page = open_pages(static_page, ours.which, ours.other, ours.which)
    page.get_by_role("radio", name="both").nth(1).check()
    assert [guess["name"] for guess in told(page)] == ["other"]
    assert page.locator("input:checked").count() == 1 and page.locator(".verdict:visible").count() == 1


OURS = """
from types import ModuleType
from mhalib.checks import Predictions
from mhalib.checks.prediction import Choose, Number
module = ModuleType("predictions_03")
module.which = Choose(
    about="which candidate fits", right="the second",
    options={"the first": "It has the shape.", "the second": "It keeps each token whole.", "both": "Row 1 differs."},
)
module.many = Number(
    about="how many agree", right=(20, 22), right_text="about 21", why="Three of four.", other="No.", unit="pairs"
)
predict = Predictions(module)"""
LESSON = [
    OURS,
    "predict.which()",
    "print('it answers')\npredict.which.reveal()",
    "predict.many()",
    "predict.many.reveal()",
    'predict.results("03")',
]


def test_a_page_of_a_lesson_asks_though_its_kernel_has_answered(browser, tmp_path):
    path = tmp_path / "00_lesson.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in LESSON]), path)
    nb = execute(path)
    make_live(nb)
    outputs = [output.data["text/html"] for cell in nb.cells for output in cell.outputs if "data" in output]
    file = tmp_path / "page.html"
    page_text = with_texts_once(PAGE.format(theme="light", fragments="\n".join(outputs)))
    assert page_text.count('"source":') == 1
    file.write_text(page_text, encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    problems = watch(page, ("file:", "blob:", "data:"))
    page.goto(file.as_uri())
    until(lambda: page.locator(".mha").count() == 2, "not both questions are there")
    page.evaluate(RECORD)
    assert page.locator(".verdict:visible, .note:visible").count() == 0
    page.get_by_role("radio", name="the second").check()
    assert page.locator(".verdict:visible").inner_text().startswith("You predicted: the second. Right.")
    assert [guess["name"] for guess in told(page)] == ["which"]
    page.get_by_role("textbox").fill("3")
    page.keyboard.press("Enter")
    assert [guess["right"] for guess in told(page)] == [True, False]
    place = page.locator('.mhalib-results[data-lesson="03"][data-count="2"]')
    assert place.inner_text() == "Nothing predicted yet. This lesson asks 2 times."
    context.close()
    assert problems == []


# ---------------------------------------------------------------- JupyterLab and Notebook 7

fronts = pytest.mark.parametrize("front", ["lab", "notebook7"])


def output(notebook, number: int):
    return notebook.page.locator(f'[data-windowed-list-index="{number}"] .jp-OutputArea')


def run_cell(notebook, number: int) -> None:
    """Execute one cell, as with Shift+Enter, without waiting for it."""
    notebook.page.evaluate(
        """(number) => { const notebook = window.jupyterapp.shell.currentWidget.content;
        notebook.activeCellIndex = number;
        window.jupyterapp.commands.execute("notebook:run-cell"); }""",
        number,
    )


def says(place, text: str) -> None:
    seen = []
    until(lambda: seen.append(place.inner_text()) or text in seen[-1], f"{text!r} does not show up")


@fronts
def test_a_guess_is_noted_and_judged_when_the_answer_is_revealed(request, front):
    twice = [OURS, "display(predict.which(), predict.which())", *LESSON[2:]]
    notebook = request.getfixturevalue(front)(*twice, run=False, height=1600)
    page = notebook.page
    for place in (0, 1):
        run_cell(notebook, place)
    views = page.locator(".mha")
    until(lambda: views.count() == 2, "the question is not there twice")
    one, other = views.nth(0), views.nth(1)
    one.get_by_role("radio", name="both").check()
    says(one, NOTED)
    says(other, NOTED)
    other.get_by_role("radio", name="the first").check()  # it may be changed
    until(lambda: one.get_by_role("radio", name="the first").is_checked(), "the other view does not follow")
    notebook.prints("print(predict.which.picked)", "the first")
    assert "shape" not in one.inner_text() and page.locator(".verdict:visible").count() == 0
    run_cell(notebook, 2)
    for place in (one, other, output(notebook, 2)):
        says(place, "You predicted: the first. It is: the second.")
        says(place, "It has the shape.")
    one.locator("label", has_text="both").click(force=True)
    assert notebook.python("print(predict.which.picked)") == "the first"
    assert one.get_by_role("radio", name="the first").is_checked()
    for place in (1, 2):  # run again: nothing is lost, and nothing is asked anew
        run_cell(notebook, place)
        notebook.wait_for_kernel()
        until(lambda: page.locator(".mha .verdict:visible").count() == 2, "the verdict is gone")


@fronts
def test_who_runs_all_first_may_still_guess(request, front):
    notebook = request.getfixturevalue(front)(*LESSON, height=1600)
    page = notebook.page
    says(output(notebook, 2), "The answer: the second")
    says(output(notebook, 4), "The answer: about 21")
    says(output(notebook, 5), "Nothing predicted yet. This lesson asks 2 times.")
    assert page.locator(".mha .verdict:visible, .mha .note:visible").count() == 0
    page.get_by_role("radio", name="the second").check()
    says(page.locator(".mha").nth(0), "You predicted: the second. Right.")
    says(output(notebook, 2), "You predicted: the second. Right.")
    says(output(notebook, 5), "Predicted: 1 of 2, 1 rightly")
    cells = notebook.cells()
    field = page.locator(".mha").get_by_role("textbox")
    field.focus()
    page.keyboard.type("ddab28,5")
    page.keyboard.press("Enter")
    says(page.locator(".mha").nth(1), "“ddab28,5” is no number.")
    field.fill("28,5")
    page.keyboard.press("Shift+Enter")
    says(output(notebook, 4), "You predicted: 28.5 pairs. It is: about 21.")
    says(output(notebook, 5), "Surprised by: how many agree: about 21, not 28.5 pairs")
    assert notebook.cells() == cells
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex") == 3


SLOW = """import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.05)
predict.which.reveal()"""


@fronts
def test_a_guess_made_while_the_answering_cell_runs_counts(request, front):
    notebook = request.getfixturevalue(front)(OURS, LESSON[1], SLOW, LESSON[5], run=False, height=1600)
    go = notebook.path.parent / "go"
    for place in range(4):
        run_cell(notebook, place)
    page = notebook.page
    until(lambda: page.locator(".mha").count() == 1, "the question is not there")
    page.get_by_role("radio", name="both").check()
    says(page.locator(".mha"), NOTED)
    go.touch()
    try:
        says(page.locator(".mha"), "You predicted: both. It is: the second.")
        says(output(notebook, 2), "You predicted: both. It is: the second.")
        says(output(notebook, 3), "Surprised by: which candidate fits: the second, not both")
        notebook.prints("print(predict.which.picked)", "both")
    finally:
        go.unlink()


@fronts
def test_a_view_whose_kernel_was_restarted_says_so(request, front):
    notebook = request.getfixturevalue(front)(*LESSON[:2], height=1600)
    view = notebook.page.locator(".mha")
    view.get_by_role("radio", name="both").check()
    says(view, NOTED)
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    says(view, "The kernel that asked was restarted. Run this cell again to guess.")
    notebook.wait_for_kernel()
    view.get_by_role("radio", name="the first").check()
    assert NOTED not in view.inner_text()
    notebook.run_all()
    until(lambda: notebook.page.locator(".mha input:checked").count() == 0, "a guess of the old kernel is there")
    view.get_by_role("radio", name="the first").check()
    notebook.prints("print(predict.which.picked)", "the first")


@fronts
def test_a_guess_that_no_kernel_hears_is_not_called_noted(request, front):
    notebook = request.getfixturevalue(front)(*LESSON[:2], height=1600)
    view = notebook.page.locator(".mha")
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    view.get_by_role("radio", name="both").check()
    says(view, "Not noted yet: the kernel is busy, or was stopped. If it was stopped, run this cell again.")
    assert NOTED not in view.inner_text()
    lost = [problem for problem in notebook.problems if "Could not send widget sync message" in problem]
    assert lost and lost == notebook.problems  # what ipywidgets says of it
    notebook.problems.clear()


def test_notebooks_with_kernels_of_their_own_do_not_share_guesses(lab):
    one, other = lab(*LESSON, height=1600), lab(*LESSON, height=1600)
    one.page.get_by_role("radio", name="both").check()
    one.prints("print(predict.which.picked)", "both")
    assert other.python("print(predict.which.picked)") == "None"
    assert other.page.locator("input:checked").count() == 0

"""Predictions in a browser: judged at once in a page without a kernel, which is told; else when the kernel answers."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.headview.test_contract import FOCUSABLE, no_overflow
from tests.helpers.browser import until
from tests.helpers.small_predictions import OPTIONS, ask, choose, number

NAMES = list(OPTIONS)
NOTED = "Noted. Go on: what follows answers it."
RECORD = """() => {
  window.told = [];
  document.addEventListener("mhalib-predicted", ({ detail }) => told.push(detail));
}"""


def told(page) -> list[dict]:
    """Return what the page was told of guesses."""
    return page.evaluate("() => told")


def open_page(static_page, predictions, **options):
    page = static_page(*(prediction() for prediction in predictions), **options)
    page.evaluate(RECORD)
    return page


# ---------------------------------------------------------------- a page without a kernel


def test_a_guess_is_judged_at_once_and_the_page_is_told_and_nothing_shows_before(static_page):
    ours = ask(one=choose(), two=choose(), three=choose(), many=number())
    for prediction in ours:
        prediction.reveal()  # as it is in every page: the lesson ran to its end
    page = open_page(static_page, ours)
    shown = "".join(page.locator(".mha").evaluate_all("(views) => views.map((view) => view.outerHTML)"))
    assert "the second" in shown and "of 28 pairs" in shown
    secrets = [*OPTIONS.values(), "about 21", "Three of four", "Most of them", "Right", "✓", "Noted"]
    assert [secret for secret in secrets if secret in shown] == []
    for at, (guess, name) in enumerate(zip(NAMES, ("one", "two", "three"), strict=True)):
        view, prediction = page.locator(".mha").nth(at), getattr(ours, name)
        view.get_by_role("radio", name=guess).check()
        prediction.picked = guess
        expected = prediction.reveal()
        said = view.locator(".verdict").inner_text()
        assert said == view.get_by_role("status").inner_text() == f"{expected.title} {expected.parts[0][1]}"
        marks = dict(zip(NAMES, view.locator(".mark").all_inner_texts(), strict=True))
        assert marks == dict.fromkeys(NAMES, "") | {guess: "✗ not this"} | {"the second": "✓ right"}
        about = {"name": name, "about": "which candidate fits", "answer": "the second"}
        assert told(page)[at:] == [about | {"right": guess == "the second", "said": guess}]


def test_the_keyboard_goes_through_the_choices_only_space_or_enter_chooses_and_what_was_judged_stays(static_page):
    page = open_page(static_page, ask(which=choose(), other=choose()))

    def after(key):
        page.keyboard.press(key)
        return page.evaluate("() => document.activeElement.computedName")

    walked = [NAMES.index(after(key)) for key in "Tab ArrowDown ArrowRight ArrowDown ArrowUp ArrowLeft".split()]
    assert walked == [0, 1, 2, 0, 2, 1]
    assert told(page) == [] and page.locator("input:checked").count() == 0
    after("Shift+Tab")
    assert after("Tab") == NAMES[1], "Tab comes back to where one was"
    assert after("Space") == f"{NAMES[1]} ✓ right"
    for key in "Tab ArrowDown ArrowDown Enter".split():  # one stop for each question
        after(key)
    page.locator("label", has_text="the first").nth(1).click(force=True)
    for key in "ArrowDown Space Enter".split():
        after(key)
    assert [(guess["name"], guess["said"]) for guess in told(page)] == [("which", NAMES[1]), ("other", NAMES[2])]
    assert page.get_by_role("radio", name="both").nth(1).is_checked()


TYPED = {"28": 28, "28,0": 28, " 21.5 ": 21.5, ".5": 0.5, "−3": -3, "+4.": 4, "2e1": 20, "1.5e-7": 1.5e-7, "1e21": 1e21}
TYPED |= {"123456789.125": 123456789.125, "0.000012": 0.000012, "-0": 0, "21 of 28 pairs": 21}
DESCRIBED = "(e) => e.matches(':focus[aria-invalid=true]') && e.ariaDescribedByElements[0].textContent"


def test_a_number_is_read_and_judged_as_python_does_and_what_is_none_gets_a_sentence(static_page):
    ours = ask(**{f"many_{i}": number() for i in range(len(TYPED))})
    page, failures = open_page(static_page, ours), []
    field, problem = page.get_by_role("textbox").first, page.locator(".problem").first
    for typed in ("", "  ", "many", "1.000.000", "1e999", "3 4", "of 28 pairs", "<b>3</b>", "0x10"):
        field.fill(typed)
        page.get_by_role("button", name="Guess").first.click()
        said = problem.inner_text()
        assert said == page.get_by_role("status").first.inner_text() == field.evaluate(DESCRIBED)
        assert said == "Type a number first." if not typed.strip() else "is no number. Type one such as" in said, typed
    assert told(page) == []
    field.fill("21")
    assert not problem.is_visible()
    for at, (prediction, (typed, guess)) in enumerate(zip(ours, TYPED.items(), strict=True)):
        view = page.locator(".mha").nth(at)
        view.get_by_role("textbox", name="Your number of 28 pairs").fill(typed)
        page.keyboard.press("Enter")
        prediction(guess)
        expected = prediction.reveal()
        shown = [view.locator(".verdict").inner_text(), *(told(page)[-1][key] for key in ("said", "right", "answer"))]
        wanted = [f"{expected.title} {expected.parts[0][1]}", expected.code, expected.passed, "about 21"]
        failures += [] if shown == wanted else [(typed, shown)]
    assert failures == []
    before = page.locator(".verdict").all_inner_texts()
    field.focus()
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    assert len(told(page)) == len(TYPED) and page.locator(".verdict").all_inner_texts() == before


SMALL = """(focusable) => [...document.querySelectorAll(focusable)].filter((element) => {
  const { width, height } = (element.closest("label.option") || element).getBoundingClientRect();
  return width < 44 || height < 44;
}).map((element) => element.outerHTML)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read_and_touched_on_a_telephone_before_and_after(static_page, theme):
    options = {"a choice that takes more than a line on any telephone " * 2: "So.", "x" * 90: "No."}
    long = choose(about="which of these " * 9, options=options, right="x" * 90)
    ours = ask(which=choose(), long=long, many=number(), wide=number(unit="of all " * 12))
    page = open_page(static_page, ours, width=320, theme=theme)
    which = page.get_by_role("group", name="Your guess: which candidate fits?", exact=True)
    assert no_overflow(page) == [] == page.evaluate(SMALL, FOCUSABLE)
    page.locator("label", has_text="both").click()
    page.get_by_role("textbox").nth(0).fill("21")
    page.get_by_role("button").nth(0).click()
    page.get_by_role("button").nth(1).click()
    assert page.locator(".verdict:visible").count() == 2 and page.locator(".problem:visible").count() == 1
    assert no_overflow(page) == [] == page.evaluate(SMALL, FOCUSABLE)
    found = Axe().run(page)  # of what is said of a guess; the contract's audit has not guessed
    assert found.violations_count == 0, found.generate_report()
    assert which.get_by_role("radio", name="the second ✓ right", exact=True).count() == 1
    assert which.get_by_role("radio").evaluate_all("(all) => all.map((one) => one.ariaDisabled)") == ["true"] * 3


# ---------------------------------------------------------------- JupyterLab and Notebook 7

OURS = "from tests.helpers.small_predictions import ask\npredict = ask()"
ANSWERS = "print('it answers')\npredict.which.reveal()"
RESULTS = 'predict.results("03")'
LESSON = [OURS, "predict.which()", ANSWERS, "predict.many()", "predict.many.reveal()", RESULTS]
SLOW = """import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.05)
predict.which.reveal()"""
RUN_ONE = """(number) => {
  window.jupyterapp.shell.currentWidget.content.activeCellIndex = number;
  window.jupyterapp.commands.execute("notebook:run-cell");
}"""


@pytest.fixture(params=["lab", pytest.param("notebook7", marks=pytest.mark.slow)])
def front(request):
    return request.getfixturevalue(request.param)


def output(notebook, place: int):
    return notebook.page.locator(f'[data-windowed-list-index="{place}"] .jp-OutputArea')


def run_cells(notebook, *places: int) -> None:
    """Execute these cells, as with Shift+Enter, without waiting for them."""
    for place in places:
        notebook.page.evaluate(RUN_ONE, place)


def says(place, text: str) -> None:
    seen = []
    until(lambda: seen.append(place.inner_text()) or text in seen[-1], f"{text!r} does not show up")


def test_a_guess_is_noted_and_judged_when_the_answer_is_revealed(front):
    notebook = front(OURS, "display(predict.which(), predict.which())", SLOW, RESULTS, run=False, height=1600)
    page, go = notebook.page, notebook.path.parent / "go"
    run_cells(notebook, 0, 1)
    views = page.locator(".mha")
    until(lambda: views.count() == 2, "the question is not there twice")
    one, other = views.nth(0), views.nth(1)
    one.get_by_role("radio", name="both").check()
    says(one, NOTED)
    says(other, NOTED)
    notebook.prints("print(predict.which.picked)", "both")
    run_cells(notebook, 2, 3)
    other.get_by_role("radio", name="the first").check()  # it may be changed, also while the answering cell runs
    until(lambda: one.get_by_role("radio", name="the first").is_checked(), "the other view does not follow")
    assert "shape" not in one.inner_text() and page.locator(".verdict:visible").count() == 0
    go.touch()
    try:
        for place in (one, other, output(notebook, 2)):
            says(place, "You predicted: the first. It is: the second.")
            says(place, "It has the shape.")
        says(output(notebook, 3), "Surprised by: which candidate fits: the second, not the first")
        one.locator("label", has_text="both").click(force=True)
        assert notebook.python("print(predict.which.picked)") == "the first"
        assert one.get_by_role("radio", name="the first").is_checked()
        run_cells(notebook, 1)  # again: nothing is lost, and nothing is asked anew
        until(lambda: page.locator(".mha .verdict:visible").count() == 2, "the verdict is gone")
    finally:
        go.unlink()


@pytest.mark.slow
def test_whoever_runs_all_first_may_still_guess(front):
    notebook = front(*LESSON, height=1600)
    page, which, many = notebook.page, notebook.page.locator(".mha").nth(0), notebook.page.locator(".mha").nth(1)
    says(output(notebook, 2), "The answer: the second")
    says(output(notebook, 5), "Nothing predicted yet. This lesson asks 2 times.")
    assert page.locator(".mha .verdict:visible, .mha .note:visible").count() == 0
    page.get_by_role("radio", name="the second").check()
    for place in (which, output(notebook, 2)):
        says(place, "You predicted: the second. Right.")
    says(output(notebook, 5), "Predicted: 1 of 2, 1 right")
    cells = notebook.cells()
    many.get_by_role("textbox").focus()
    page.keyboard.type("ddab28,5")
    page.keyboard.press("Enter")
    says(many, "“ddab28,5” is no number.")
    many.get_by_role("textbox").fill("28,5")
    page.keyboard.press("Shift+Enter")
    says(output(notebook, 4), "You predicted: 28.5 of 28 pairs. It is: about 21.")
    says(output(notebook, 5), "Surprised by: how many of the 28 pairs agree: about 21, not 28.5 of 28 pairs")
    assert notebook.cells() == cells  # no key reached the notebook
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex") == 3


@pytest.mark.slow
def test_a_view_whose_kernel_was_restarted_or_stopped_says_so(front):
    notebook = front(*LESSON[:2], height=1600)
    view = notebook.page.locator(".mha")
    view.get_by_role("radio", name="both").check()
    says(view, NOTED)
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    says(view, "The kernel that asked was restarted. Run this cell again to guess.")
    notebook.wait_for_kernel()
    view.get_by_role("radio", name="the first").check()
    assert NOTED not in view.inner_text()
    notebook.run_all()
    until(lambda: view.locator("input:checked").count() == 0, "a guess of the old kernel is there")
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    view.get_by_role("radio", name="both").check()
    says(view, "Not noted yet: the kernel is busy, or was stopped. If it was stopped, run this cell again.")
    assert NOTED not in view.inner_text()
    lost = [problem for problem in notebook.problems if "Could not send widget sync message" in problem]
    assert lost and lost == notebook.problems  # what ipywidgets says of it
    notebook.problems.clear()

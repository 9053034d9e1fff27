"""Predictions: what is asked, what becomes of a guess, and that each lesson asks before it answers.

In a browser: `test_predictions_page.py`.
"""

import math
import re
import subprocess
import sys
from collections import Counter
from copy import deepcopy

import ipywidgets
import pytest

from mhalib.checks import Predictions, check, predict
from mhalib.checks.prediction import Choose
from mhalib.widgets import PredictionView
from tests.helpers.refusals import accepted
from tests.helpers.small_predictions import OPTIONS, choose, lesson, number
from tools.notebooks.run import NOTEBOOKS, ROOT, execute, read
from tools.notebooks.store import make_storable
from tools.notebooks.which import lesson_files
from tools.site.live import make_live

pytestmark = pytest.mark.usefixtures("as_shipped")


@pytest.fixture
def ask() -> Predictions:
    """Two predictions of lesson 03 that nobody was asked yet."""
    return Predictions(lesson(which=choose(), many=number()))


# ------------------------------------------------------------------------------------------ a guess and its answer


def test_before_the_guess_the_answer_is_neutral(ask):
    said = ask.which.reveal()
    assert said.title == "The answer: the second" and said.mood == "open" and OPTIONS["the second"] in repr(said)
    assert "Three of four." in repr(ask.many.reveal())


@pytest.mark.parametrize("guess", OPTIONS)
def test_each_choice_gets_its_sentence(ask, guess):
    ask.which(guess)
    said = ask.which.reveal()
    assert said.passed == (guess == "the second") and said.parts == [("", OPTIONS[guess])]
    assert said.title == f"You predicted: {guess}. " + ("Right." if said.passed else "It is: the second.")


@pytest.mark.parametrize(
    ("guess", "right", "sentence"),
    [
        (20, True, "Three of four."),
        (22.0, True, "Three of four."),
        (22.5, False, "More than half, but not these."),
        (28, False, "All, if the tests were alike."),
        (-1e6, False, "Most of them do."),
    ],
)
def test_a_number_gets_the_sentence_of_the_first_range_that_holds_it(ask, guess, right, sentence):
    ask.many(guess)
    said = ask.many.reveal()
    assert said.passed == right and said.parts == [("", sentence)]
    assert said.title.startswith(f"You predicted: {guess:.15g} of 28 pairs. ")


def test_one_view_shares_the_guess_and_learns_of_the_answer(ask):
    view = ask.which()
    assert isinstance(view, PredictionView) and ask.which() is view
    view.set_state({"picked": "both"})  # as a browser does
    assert ask.which.picked == view.heard == "both"
    ask.which("the first")
    assert view.picked == "the first" and not view.revealed
    ask.which.reveal()
    assert view.revealed
    ask.many(21)
    ask.many.reveal()
    late = ask.many()
    assert (late.picked, late.revealed) == (21.0, True)


def test_a_view_that_was_closed_is_made_again(ask):
    first = ask.which()
    first.picked = "both"
    ipywidgets.Widget.close_all()
    again = ask.which()
    assert again is not first and again.comm is not None and again.picked == "both"
    again.picked = "the first"
    assert ask.which.picked == "the first"


def test_a_guess_may_change_until_the_answer_and_one_on_its_way_counts(ask):
    """A view takes one until it knows of the answer; the kernel may have been busy with the answering cell."""
    ask.which("both")
    ask.which("the first")
    ask.which.reveal()
    ask.which("the first")  # running the cell again
    with pytest.raises(ValueError, match="your guess stays the first"):
        ask.which("the second")
    assert ask.which.picked == "the first"
    ask.which().set_state({"picked": "the second"})
    assert ask.which.picked == "the second" and ask.which.reveal().passed


def test_what_is_no_guess_is_refused(ask):
    for guess in ("the third", "", 1, True, ["both"]):
        for give in (ask.which, lambda guess: setattr(ask.which(), "picked", guess)):
            with pytest.raises(ValueError, match="choose one of 'the first', 'the second', 'both', got"):
                give(guess)
    for guess in ("3", True, math.nan, math.inf, [3]):
        for give in (ask.many, lambda guess: setattr(ask.many(), "picked", guess)):
            with pytest.raises(ValueError, match="give a number such as 3 or 0.25, got"):
                give(guess)
    assert ask.which.picked is None and ask.many.picked is None


# ------------------------------------------------------------------------------------------ how it is asked


def test_the_question_beside_the_view_holds_the_choices_and_nothing_of_the_answer(ask):
    data, _ = ask.which()._repr_mimebundle_()
    for text in (data["text/plain"], data["text/html"], repr(ask.which)):
        assert "which candidate fits?" in text
        assert not any(sentence in text for sentence in OPTIONS.values())
    for text in (data["text/plain"], data["text/html"]):
        assert all(f"○ {choice}" in text for choice in OPTIONS)
    assert 'predict.which("…")' in data["text/plain"] and "predict" not in data["text/html"]
    assert "a number of 28 pairs" in repr(ask.many()) and "predict.many(…)" in repr(ask.many())


def test_names_say_what_to_write(ask):
    assert "write predict.which() to be asked" in repr(ask.which) and "lesson 03" in repr(ask.which)
    assert repr(ask) == "03  □□ 0 of 2  which, many" and dir(ask) == ["many", "results", "which"]
    with pytest.raises(TypeError, match=r"write predict.which\(\)"):
        ask()
    with pytest.raises(AttributeError, match="did you mean predict.which?"):
        ask.wich  # noqa: B018


OURS = """
from types import ModuleType
from mhalib.checks import Predictions
from mhalib.checks.prediction import Choose
module = ModuleType("predictions_03")
module.which = Choose(about="which <b>", right="b", options={"a": "No.", "b": "Yes."})
predict = Predictions(module)
"""
WITHOUT_ANYWIDGET = f"""
import sys
import mhalib.checks
print("anywidget" in sys.modules)
sys.modules["anywidget"] = None
{OURS}
print(predict.which())
print(predict.which()._repr_html_())
print(predict.which("b"))
print(predict.which.reveal())
print(predict.results("03"))
"""


def test_without_anywidget_the_question_is_text_and_the_guess_is_handed_over():
    done = subprocess.run([sys.executable, "-c", WITHOUT_ANYWIDGET], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "False", "checks are loaded without the widgets"
    asked = ["Your guess: which <b>?", "  ○ a", "  ○ b", '  To answer here, say predict.which("…")']
    assert lines[:4] == lines[5:9] == asked
    assert "which &lt;b&gt;?" in lines[4] and "○ a" in lines[4]
    assert lines[9:] == ["You predicted: b. Right.", "  Yes.", "Predicted: 1 of 1, 1 rightly", "  Foreseen: which <b>"]


# ------------------------------------------------------------------------------------------ what it came to


def test_the_results_tell_foreseen_surprises_and_what_is_missing(ask):
    place = '<div class="mhalib-results" data-lesson="03" data-count="2">'  # where a page finds them
    nothing = "Nothing predicted yet. This lesson asks 2 times."
    said = ask.results("03")
    assert repr(said) == nothing and said._repr_html_() == f"{place}<div>{nothing}</div></div>"
    ask.which("both")
    assert repr(ask.results("03")).splitlines() == [
        "Predicted: 1 of 2, 0 rightly",
        "  Surprised by: which candidate fits: the second, not both",
        "  Not predicted: 1",
    ]
    html = ask.results("03")._repr_html_()
    assert html.startswith(place) and "<b>Surprised by:</b> which candidate fits: the second, not both" in html
    ask.many(21)
    assert repr(ask.results("03")).splitlines() == [
        "Predicted: 2 of 2, 1 rightly",
        "  Foreseen: how many of the 28 pairs agree",
        "  Surprised by: which candidate fits: the second, not both",
    ]
    for wrong in ("", "04", 3):
        with pytest.raises(ValueError, match="choose from '03'"):
            ask.results(wrong)


def test_words_are_text_and_never_html():
    hostile = "<script>alert(1)</script>"
    ours = Predictions(lesson(which=choose(about=hostile, right=hostile, options={hostile: hostile, "b": "No."})))
    for guess in (hostile, "b"):
        ours.which.picked = guess
        asked = ours.which()._repr_mimebundle_()[0]["text/html"]
        for text in (ours.results("03")._repr_html_(), ours.which.reveal()._repr_html_(), asked):
            assert "<script>" not in text and "&lt;script&gt;" in text


def test_a_late_guess_changes_what_was_said_and_a_stored_question_is_text(make_notebook):
    late = "predict.which().set_state({'picked': 'a'})"
    played = execute(make_notebook(OURS, "predict.which()", "predict.which.reveal()", 'predict.results("03")', late))
    asked, revealed, summed = ([output for output in cell.outputs if "data" in output] for cell in played.cells[2:5])
    assert [output.data["text/plain"].splitlines()[0] for output in revealed] == ["You predicted: a. It is: b."]
    assert [output.data["text/plain"].splitlines()[0] for output in summed] == ["Predicted: 1 of 1, 0 rightly"]
    live, stored = deepcopy(played), make_storable(deepcopy(played))
    make_live(live)
    (output,) = stored.cells[2].outputs
    assert set(output.data) == {"text/plain", "text/html"} and "○ a" in output.data["text/html"]
    (output,) = live.cells[2].outputs
    fragment, _, instead = output.data["text/html"].partition("<noscript>")
    assert fragment.startswith('<div class="mhalib-view">') and "○ a" in instead


# ------------------------------------------------------------------------------------------ what a record must hold


def test_what_cannot_be_asked_is_refused():
    few_many_some = ((10, 20, "Few."), (22, 30, "Many."), (12, 25, "Some."))
    calls = {
        "write 'which one fits'": lambda: choose(about="which one fits?"),
        "two choices or more": lambda: choose(options={"the second": "Yes."}),
        "the choice 'both' needs": lambda: choose(options=OPTIONS | {"both": " "}),
        "two choices read the same": lambda: choose(options=OPTIONS | {"The  First": "Why."}),
        "got 'the third'": lambda: choose(right="the third"),
        "the smaller one first": lambda: number(right=(22, 20)),
        "two finite numbers": lambda: number(right=(20, math.inf)),
        "right_text": lambda: number(right_text=""),
        "why must be": lambda: number(why=""),
        "other must be": lambda: number(other=""),
        "the smaller number first": lambda: number(guesses=((30, 28, "All."),)),
        "needs a sentence": lambda: number(guesses=((28, 28, ""),)),
        "from 20.5 to 21 is never said": lambda: number(guesses=((20.5, 21, "Near."),)),
        "put the narrow ones first": lambda: number(guesses=((14, 28, "Half."), (28, 28, "All."))),
        "from 12 to 25 is never said": lambda: number(guesses=few_many_some),
        "the name which is taken": lambda: Predictions(
            lesson(which=choose()), lesson("predictions_04", which=choose())
        ),
        "the name results is taken": lambda: Predictions(lesson(results=choose())),
        "either options or ranges": lambda: PredictionView("x", "y", words=("", "")),
    }
    assert accepted(calls) == []
    number(guesses=((28, 28, "All."), (14, 28, "Half.")))
    everywhere = number(other="", guesses=((-math.inf, 20, "Fewer."), (22, math.inf, "More.")))
    assert everywhere.sentence_about(1e300) == "More." and everywhere.sentence_about(-5) == "Fewer."


# ------------------------------------------------------------------------------------------ the lessons' predictions


def test_the_right_choice_cannot_be_told_by_its_place_or_length():
    choices = [prediction for prediction in predict if isinstance(prediction, Choose)]
    places = Counter(list(choice.options).index(choice.right) for choice in choices)
    longest = sum(choice.right == max(choice.options, key=len) for choice in choices)
    assert max(places.values()) <= len(choices) / 2, "more than half of the right choices stand at the same place"
    assert longest <= len(choices) * 2 / 3, "most right choices are the longest"


def test_every_guess_of_a_lesson_gets_a_sentence_of_its_own():
    assert {prediction.name for prediction in predict} & {exercise.name for exercise in check} == set()
    failures = []
    for prediction in predict:
        several = isinstance(prediction, Choose)
        guesses = list(prediction.options) if several else [(low + high) / 2 for low, high, _ in prediction.guesses]
        said = [prediction.sentence_about(guess) for guess in guesses if several or math.isfinite(guess)]
        if len(set(said)) < len(said) or not prediction.is_right(prediction.right_guess):
            failures.append(prediction.name)
    assert failures == []


def faults(nb, number: str) -> list[str]:
    """Return which predictions of a lesson are not asked once, in a cell of its own, before a later cell answers."""
    sources = [cell.source.strip() if cell.cell_type == "code" else "" for cell in nb.cells]
    found, places = [], []
    names = [prediction.name for prediction in predict if prediction.lesson == number]
    for name in names:
        question, answer = f"predict.{name}()", f"predict.{name}.reveal()"
        asked = [at for at, source in enumerate(sources) if source == question]
        revealed = [at for at, source in enumerate(sources) if source.splitlines()[-1:] == [answer]]
        if len(asked) != 1 or len(revealed) != 1 or "**Predict." not in nb.cells[asked[0] - 1].source:
            found.append(f"{name}: asked {len(asked)} times, revealed {len(revealed)} times")
            continue
        (ask,), (reveal,) = asked, revealed
        places.append(ask)
        between = [source for source in sources[ask + 1 : reveal] if source and not source.startswith("predict.")]
        if reveal < ask or (sources[reveal] == answer and not between):
            found.append(f"{name}: no cell answers between {question} and {answer}")
        stored = "".join(output.get("data", {}).get("text/plain", "") for output in nb.cells[ask].outputs)
        if not all(line in stored for line in getattr(predict, name).choices()):
            found.append(f"{name}: run `make notebooks`")
    results = [source for source in sources if "predict.results" in source]
    found += [] if results == [f'predict.results("{number}")'] else ["the results are not shown once"]
    others = {name for source in sources for name in re.findall(r"\bpredict\.(\w+)", source)} - {*names, "results"}
    return found + sorted(others) + ([] if names and places == sorted(places) else ["asked in another order"])


def test_every_lesson_asks_before_it_answers():
    assert {path.name: wrong for path in lesson_files(NOTEBOOKS) if (wrong := faults(read(path), path.stem[:2]))} == {}

"""Predictions: what is asked, what becomes of a guess, and that each lesson asks before it answers.

In a browser: `test_predictions_page.py`.
"""

import math
import re
import subprocess
import sys
from collections import Counter

import ipywidgets
import pytest

from mhalib.checks import Predictions, check, predict
from mhalib.checks.prediction import Choose
from mhalib.widgets import PredictionView
from tests.helpers.refusals import accepted
from tests.helpers.small_predictions import OPTIONS, choose, lesson, number
from tools.notebooks.run import NOTEBOOKS, ROOT, read
from tools.notebooks.which import lesson_files


def fresh() -> Predictions:
    """Return two predictions of lesson 03 that nobody was asked yet."""
    return Predictions(lesson(which=choose(), many=number()))


@pytest.fixture
def ask() -> Predictions:
    return fresh()


NUMBERS = {
    20: "Three of four.",
    22.0: "Three of four.",
    22.5: "More than half, but not these.",
    28: "All, if the tests were alike.",
    -1e6: "Most of them do.",
}


def test_each_guess_gets_its_sentence_and_before_it_the_answer_is_neutral():
    said = fresh().which.reveal()
    assert said.title == "The answer: the second" and said.mood == "open" and OPTIONS["the second"] in repr(said)
    assert "Three of four." in repr(fresh().many.reveal())
    guesses = [("which", guess, guess, guess == "the second", sentence) for guess, sentence in OPTIONS.items()]
    guesses += [("many", n, f"{n:.15g} of 28 pairs", 20 <= n <= 22, sentence) for n, sentence in NUMBERS.items()]
    for name, guess, words, right, sentence in guesses:
        prediction = getattr(fresh(), name)
        prediction(guess)
        said = prediction.reveal()
        assert said.passed == right and said.parts == [("", sentence)]
        assert said.title.startswith(f"You predicted: {words}. " + ("Right." if right else "It is: "))


def test_one_view_shares_the_guess_learns_of_the_answer_and_is_made_again_when_closed(ask):
    view = ask.which()
    assert isinstance(view, PredictionView) and ask.which() is view
    view.set_state({"picked": "both"})  # as a browser does
    assert ask.which.picked == view.heard == "both"
    ask.which("the first")
    assert view.picked == "the first" and not view.revealed
    ask.many(21)
    for prediction in ask:
        prediction.reveal()
    assert view.revealed and (ask.many().picked, ask.many().revealed) == (21.0, True)
    ipywidgets.Widget.close_all()
    again = ask.which()
    assert again is not view and again.comm is not None and again.picked == "the first"
    again.picked = "both"
    assert ask.which.picked == "both"


def test_a_guess_may_change_until_the_answer_and_one_on_its_way_counts(ask):
    """A view takes one until it knows of the answer; the kernel may have been busy with the answering cell."""
    for guess in ("both", "the first"):
        ask.which(guess)
    ask.which.reveal()
    with pytest.raises(ValueError, match="your guess stays the first"):
        ask.which("the second")
    ask.which().set_state({"picked": "the second"})
    assert ask.which.picked == "the second" and ask.which.reveal().passed


def test_what_is_no_guess_is_refused(ask):
    guesses = {"which": ("the third", "", 1, True, ["both"]), "many": ("3", True, math.nan, math.inf, [3])}
    words = {"which": "choose one of 'the first', 'the second', 'both', got", "many": "give a number such as 3 or 0.25"}
    for name in guesses:
        prediction = getattr(ask, name)
        for guess in guesses[name]:
            with pytest.raises(ValueError, match=words[name]):
                prediction(guess)
            with pytest.raises(ValueError, match=words[name]):
                prediction().picked = guess
        assert prediction.picked is None


def test_the_question_holds_the_choices_and_nothing_of_the_answer_and_names_say_what_to_write(ask):
    data, _ = ask.which()._repr_mimebundle_()
    for text in (data["text/plain"], data["text/html"]):
        assert "which candidate fits?" in text and all(f"○ {choice}" in text for choice in OPTIONS)
        assert not any(sentence in text + repr(ask.which) for sentence in OPTIONS.values())
    assert 'predict.which("…")' in data["text/plain"] and "predict" not in data["text/html"]
    assert "a number of 28 pairs" in repr(ask.many()) and "predict.many(…)" in repr(ask.many())
    assert "write predict.which() to be asked" in repr(ask.which) and "lesson 03" in repr(ask.which)
    assert repr(ask) == "03  □□ 0 of 2  which, many" and dir(ask) == ["many", "results", "which"]
    with pytest.raises(TypeError, match=r"write predict.which\(\)"):
        ask()
    with pytest.raises(AttributeError, match="did you mean predict.which?"):
        ask.wich  # noqa: B018


WITHOUT_ANYWIDGET = """
import sys
from types import ModuleType
from mhalib.checks import Predictions
from mhalib.checks.prediction import Choose
print("anywidget" in sys.modules)
sys.modules["anywidget"] = None
module = ModuleType("predictions_03")
module.which = Choose(about="which <b>", right="b", options={"a": "No.", "b": "Yes."})
predict = Predictions(module)
for said in (predict.which(), predict.which("b"), predict.which.reveal(), predict.results("03")):
    print(said)
"""


def test_without_anywidget_the_question_is_text_and_the_guess_is_handed_over():
    done = subprocess.run([sys.executable, "-c", WITHOUT_ANYWIDGET], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "False", "checks are loaded without the widgets"
    asked = ["Your guess: which <b>?", "  ○ a", "  ○ b", '  To answer here, say predict.which("…")']
    assert lines[:4] == lines[4:8] == asked
    assert lines[8:] == ["You predicted: b. Right.", "  Yes.", "Predicted: 1 of 1, 1 rightly", "  Foreseen: which <b>"]


def test_the_results_tell_foreseen_surprises_and_what_is_missing(ask):
    place = '<div class="mhalib-results" data-lesson="03" data-count="2">'  # where a page finds them
    nothing = "Nothing predicted yet. This lesson asks 2 times."
    said = ask.results("03")
    assert repr(said) == nothing and said._repr_html_() == f"{place}<div>{nothing}</div></div>"
    ask.which("both")
    surprised = "  Surprised by: which candidate fits: the second, not both"
    assert repr(ask.results("03")).splitlines() == ["Predicted: 1 of 2, 0 rightly", surprised, "  Not predicted: 1"]
    html = ask.results("03")._repr_html_()
    assert html.startswith(place) and "<b>Surprised by:</b> which candidate fits: the second, not both" in html
    ask.many(21)
    foreseen = "  Foreseen: how many of the 28 pairs agree"
    assert repr(ask.results("03")).splitlines() == ["Predicted: 2 of 2, 1 rightly", foreseen, surprised]
    with pytest.raises(ValueError, match="choose from '03'"):
        ask.results("04")


def test_words_are_text_and_never_html():
    hostile = "<script>"
    ours = Predictions(lesson(which=choose(about=hostile, right="b", options={hostile: hostile, "b": "No."})))
    ours.which.picked = hostile
    asked = ours.which()._repr_mimebundle_()[0]["text/html"]
    for text in (ours.results("03")._repr_html_(), ours.which.reveal()._repr_html_(), asked):
        assert "<script>" not in text and "&lt;script&gt;" in text


def test_what_cannot_be_asked_is_refused():
    few_many_some = ((10, 20, "Few."), (22, 30, "Many."), (12, 25, "Some."))
    calls = {
        "write 'which one fits'": lambda: choose(about="which one fits?"),
        "the choice 'both' needs": lambda: choose(options=OPTIONS | {"both": " "}),
        "two choices read the same": lambda: choose(options=OPTIONS | {"The  First": "Why."}),
        "got 'the third'": lambda: choose(right="the third"),
        "the smaller one first": lambda: number(right=(22, 20)),
        "put the narrow ones first": lambda: number(guesses=((14, 28, "Half."), (28, 28, "All."))),
        "from 12 to 25 is never said": lambda: number(guesses=few_many_some),
        "which is taken": lambda: Predictions(lesson(which=choose()), lesson("predictions_04", which=choose())),
    }
    assert accepted(calls) == []


def test_every_guess_of_a_lesson_gets_a_sentence_of_its_own_and_nothing_gives_the_right_one_away():
    assert {prediction.name for prediction in predict} & {exercise.name for exercise in check} == set()
    failures = []
    for prediction in predict:
        several = isinstance(prediction, Choose)
        guesses = list(prediction.options) if several else [(low + high) / 2 for low, high, _ in prediction.guesses]
        said = [prediction.sentence_about(guess) for guess in guesses if several or math.isfinite(guess)]
        if len(set(said)) < len(said) or not prediction.is_right(prediction.right_guess):
            failures.append(prediction.name)
    assert failures == []
    choices = [prediction for prediction in predict if isinstance(prediction, Choose)]
    places = Counter(list(choice.options).index(choice.right) for choice in choices)
    longest = sum(choice.right == max(choice.options, key=len) for choice in choices)
    assert max(places.values()) <= len(choices) / 2, "more than half of the right choices stand at the same place"
    assert longest <= len(choices) * 2 / 3, "most right choices are the longest"


def faults(nb, number: str) -> list[str]:
    """Return which predictions of a lesson are not asked once, in a cell of its own, before a later cell answers."""
    sources = [cell.source.strip() if cell.cell_type == "code" else "" for cell in nb.cells]
    found = []
    names = [prediction.name for prediction in predict if prediction.lesson == number]
    for name in names:
        question, answer = f"predict.{name}()", f"predict.{name}.reveal()"
        asked = [at for at, source in enumerate(sources) if source == question]
        revealed = [at for at, source in enumerate(sources) if source.splitlines()[-1:] == [answer]]
        if len(asked) != 1 or len(revealed) != 1 or "**Predict." not in nb.cells[asked[0] - 1].source:
            found.append(f"{name}: asked {len(asked)} times, revealed {len(revealed)} times")
            continue
        (ask,), (reveal,) = asked, revealed
        between = [source for source in sources[ask + 1 : reveal] if source and not source.startswith("predict.")]
        if reveal < ask or (sources[reveal] == answer and not between):
            found.append(f"{name}: no cell answers between {question} and {answer}")
        stored = "".join(output.get("data", {}).get("text/plain", "") for output in nb.cells[ask].outputs)
        if not all(line in stored for line in getattr(predict, name).choices()):
            found.append(f"{name}: run `make notebooks`")
    results = [source for source in sources if "predict.results" in source]
    found += [] if results == [f'predict.results("{number}")'] else ["the results are not shown once"]
    others = {name for source in sources for name in re.findall(r"\bpredict\.(\w+)", source)} - {*names, "results"}
    return found + sorted(others) + ([] if names else ["it asks nothing"])


def test_every_lesson_asks_before_it_answers():
    assert {path.name: wrong for path in lesson_files(NOTEBOOKS) if (wrong := faults(read(path), path.stem[:2]))} == {}

"""Predictions: what is asked, what becomes of a guess, and that each lesson asks before it answers.

In a browser: `test_predictions_page.py`.
"""

import math
import re
import subprocess
import sys

import ipywidgets
import pytest

from mhacourse import check, predict
from mhacourse.prediction import Choose
from tests.helpers.small_predictions import OPTIONS, ask, choose
from tools.notebooks.run import NOTEBOOKS, ROOT, read
from tools.notebooks.which import lesson_files

NUMBERS = {
    20: "Three of four.",
    22.0: "Three of four.",
    22.5: "More than half, but not these.",
    28: "All, if the tests were alike.",
    -1e6: "Most of them do.",
}


def test_each_guess_gets_its_sentence_and_before_it_the_answer_is_neutral():
    said = ask().which.reveal()
    assert said.title == "The answer: the second" and said.mood == "open" and OPTIONS["the second"] in repr(said)
    assert "Three of four." in repr(ask().many.reveal())
    guesses = [("which", guess, guess, guess == "the second", sentence) for guess, sentence in OPTIONS.items()]
    guesses += [("many", n, f"{n:.15g} of 28 pairs", 20 <= n <= 22, sentence) for n, sentence in NUMBERS.items()]
    for name, guess, words, right, sentence in guesses:
        prediction = getattr(ask(), name)
        prediction(guess)
        said = prediction.reveal()
        assert said.passed == right and said.parts == [("", sentence)]
        assert said.title.startswith(f"You predicted: {words}. " + ("Right." if right else "It is: "))


def test_one_view_shares_the_guess_learns_of_the_answer_and_is_made_again_when_closed():
    ours = ask()
    view = ours.which()
    assert ours.which() is view
    view.set_state({"picked": "both"})  # as a browser does
    assert ours.which.picked == "both"
    ours.which("the first")
    assert view.picked == "the first" and not view.revealed
    ours.many(21)
    for prediction in ours:
        prediction.reveal()
    assert view.revealed and (ours.many().picked, ours.many().revealed) == (21.0, True)
    ipywidgets.Widget.close_all()
    again = ours.which()
    assert again is not view and again.comm is not None and again.picked == "the first"
    # A view takes a guess until it knows of the answer; the kernel may have been busy with the answering cell.
    again.set_state({"picked": "the second"})
    assert ours.which.picked == "the second" and ours.which.reveal().passed
    with pytest.raises(ValueError, match="your guess stays the second"):
        ours.which("both")


def test_what_is_no_guess_is_refused():
    ours = ask()
    guesses = {"which": ("the third", "", 1, True, ["both"]), "many": ("3", True, math.nan, math.inf, [3])}
    words = {"which": "choose one of 'the first', 'the second', 'both', got", "many": "give a number such as 3 or 0.25"}
    for prediction in ours:
        for guess in guesses[prediction.name]:
            with pytest.raises(ValueError, match=words[prediction.name]):
                prediction(guess)
            with pytest.raises(ValueError, match=words[prediction.name]):
                prediction().picked = guess
        assert prediction.picked is None


def test_the_question_holds_the_choices_and_nothing_of_the_answer_and_names_say_what_to_write():
    ours = ask()
    data, _ = ours.which()._repr_mimebundle_()
    for text in (data["text/plain"], data["text/html"]):
        assert "which candidate fits?" in text and all(f"○ {choice}" in text for choice in OPTIONS)
        assert not any(sentence in text + repr(ours.which) for sentence in OPTIONS.values())
    assert 'predict.which("…")' in data["text/plain"] and "predict" not in data["text/html"]
    assert "____ of 28 pairs" in repr(ours.many()) and "predict.many(…)" in repr(ours.many())
    assert "write predict.which() to be asked" in repr(ours.which) and "lesson 03" in repr(ours.which)
    assert repr(ours) == "03  □□ 0 of 2  which, many" and dir(ours) == ["many", "results", "which"]
    with pytest.raises(TypeError, match=r"write predict.which\(\)"):
        ours()
    with pytest.raises(AttributeError, match="did you mean predict.which?"):
        ours.wich  # noqa: B018


WITHOUT_ANYWIDGET = """
import sys
from tests.helpers.small_predictions import ask, choose
print("anywidget" in sys.modules)
sys.modules["anywidget"] = None
predict = ask(which=choose())
for said in (predict.which(), predict.which("both"), predict.which.reveal(), predict.results("03")):
    print(said)
"""
SAID = """False
Your guess: which candidate fits?
  ○ the first
  ○ the second
  ○ both
  To answer here, say predict.which("…")
"""
SAID_LAST = """You predicted: both. It is: the second.
  Row 1 differs.
Predicted: 1 of 1, 0 right
  Surprised by: which candidate fits: the second, not both
"""


def test_without_anywidget_the_question_is_text_and_the_guess_is_handed_over():
    done = subprocess.run([sys.executable, "-c", WITHOUT_ANYWIDGET], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == SAID + SAID.partition("\n")[2] + SAID_LAST, done.stderr


def test_the_results_tell_foreseen_surprises_and_what_is_missing():
    ours = ask()
    place = '<div class="mhalib-results" data-lesson="03" data-count="2">'  # where a page finds them
    nothing = "Nothing predicted yet. This lesson asks 2 times."
    said = ours.results("03")
    assert repr(said) == nothing and said._repr_html_() == f"{place}<div>{nothing}</div></div>"
    ours.which("both")
    surprised = "  Surprised by: which candidate fits: the second, not both"
    assert repr(ours.results("03")).splitlines() == ["Predicted: 1 of 2, 0 right", surprised, "  Not predicted: 1"]
    html = ours.results("03")._repr_html_()
    assert html.startswith(place) and "<b>Surprised by:</b> which candidate fits: the second, not both" in html
    ours.many(21)
    foreseen = "  Foreseen: how many of the 28 pairs agree"
    assert repr(ours.results("03")).splitlines() == ["Predicted: 2 of 2, 1 right", foreseen, surprised]
    with pytest.raises(ValueError, match="choose from '03'"):
        ours.results("04")


def test_words_are_text_and_never_html():
    hostile = "<script>"
    ours = ask(which=choose(about=hostile, right="b", options={hostile: hostile, "b": "No."}))
    ours.which.picked = hostile
    asked = ours.which()._repr_mimebundle_()[0]["text/html"]
    for text in (ours.results("03")._repr_html_(), ours.which.reveal()._repr_html_(), asked):
        assert "<script>" not in text and "&lt;script&gt;" in text


def test_every_record_is_whole_and_every_guess_gets_a_sentence_of_its_own():
    assert {prediction.name for prediction in predict} & {exercise.name for exercise in check} == set()
    failures = []
    for prediction in predict:
        whole = prediction.about.strip() and not prediction.about.rstrip().endswith((".", "?"))
        if isinstance(prediction, Choose):
            guesses = list(prediction.options)
            whole = whole and len({" ".join(choice.casefold().split()) for choice in guesses}) == len(guesses) >= 2
        else:  # the middle of each range falls to no other one, and its sentence is said
            ranges = [prediction.right, *(guess[:2] for guess in prediction.guesses)]
            guesses = [(low + high) / 2 for low, high in ranges if math.isfinite(low + high)]
            whole = whole and all(low <= high for low, high in ranges) and prediction.right_text and prediction.why
        said = [prediction.sentence_about(guess) for guess in guesses]
        if not whole or not all(said) or len({*said}) < len(said) or not prediction.is_right(prediction.right_guess):
            failures.append(prediction.name)
    assert failures == []


def faults(nb, lesson_number: str) -> list[str]:
    """Return which predictions of a lesson are not asked once, in a cell of its own, before a later cell answers."""
    sources = [cell.source.strip() if cell.cell_type == "code" else "" for cell in nb.cells]
    names, found = [prediction.name for prediction in predict if prediction.lesson == lesson_number], []
    for name in names:
        question, answer = f"predict.{name}()", f"predict.{name}.reveal()"
        asked = [at for at, source in enumerate(sources) if source == question]
        revealed = [at for at, source in enumerate(sources) if source.splitlines()[-1:] == [answer]]
        if len(asked) != 1 or len(revealed) != 1 or "**Predict." not in nb.cells[asked[0] - 1].source:
            found.append(f"{name}: asked {len(asked)} times, revealed {len(revealed)} times")
            continue
        between = sources[asked[0] + 1 : revealed[0] + 1]
        if not any(source and not source.startswith("predict.") for source in between):
            found.append(f"{name}: no cell answers between {question} and {answer}")
        stored = "".join(output.get("data", {}).get("text/plain", "") for output in nb.cells[asked[0]].outputs)
        if not all(line in stored for line in getattr(predict, name).choices()):
            found.append(f"{name}: run `make notebooks`")
    others = {name for source in sources for name in re.findall(r"\bpredict\.(\w+)", source)} - {*names, "results"}
    shown = [f'predict.results("{lesson_number}")'] == [source for source in sources if "predict.results" in source]
    return found + sorted(others) + ([] if names and shown else ["it asks nothing, or does not show the results once"])


def test_every_lesson_asks_before_it_answers():
    assert {path.name: wrong for path in lesson_files(NOTEBOOKS) if (wrong := faults(read(path), path.stem[:2]))} == {}

"""Predictions: what is asked, what becomes of a guess, and how each lesson asks and answers.

In a browser: `browser/test_predictions.py`.
"""

import math
import re
import subprocess
import sys
from collections import Counter
from copy import deepcopy

import ipywidgets
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mhalib.checks import Predictions, check, predict
from mhalib.checks.prediction import Choose, _covered
from mhalib.widgets import PredictionView
from tests.helpers.small_predictions import OPTIONS, choose, lesson, number
from tools.notebooks.run import NOTEBOOKS, ROOT, execute, read
from tools.notebooks.store import make_storable
from tools.notebooks.which import lesson_files
from tools.site.live import make_live

# Lessons that do not ask yet. Whichever does has to leave this list.
LESSONS_TO_COME = ()


@pytest.fixture
def ask() -> Predictions:
    """Two predictions of lesson 03 that nobody was asked yet."""
    return Predictions(lesson(which=choose(), many=number()))


# ------------------------------------------------------------------------------------------ a guess and its answer


def test_before_the_guess_the_answer_is_neutral(ask):
    said = ask.which.reveal()
    assert (said.title, said.code, said.passed) == ("The answer: the second", "open", False)
    assert said.parts == [("", OPTIONS["the second"])]
    assert ask.many.reveal().parts == [("", "Three of four.")]


@pytest.mark.parametrize("guess", OPTIONS)
def test_each_choice_gets_its_sentence(ask, guess):
    ask.which(guess)
    said = ask.which.reveal()
    assert said.passed == (guess == "the second") and said.code == guess
    assert said.parts == [("", OPTIONS[guess])]
    assert said.title == f"You predicted: {guess}. " + ("Right." if said.passed else "It is: the second.")


@pytest.mark.parametrize(
    ("guess", "right", "sentence"),
    [
        (20, True, "Three of four."),
        (22.0, True, "Three of four."),
        (22.5, False, "More than half, but not these."),
        (28, False, "All, if the tests were alike."),
        (0, False, "Most of them do."),
        (-1e6, False, "Most of them do."),
    ],
)
def test_a_number_gets_the_sentence_of_the_first_range_that_holds_it(ask, guess, right, sentence):
    ask.many(guess)
    said = ask.many.reveal()
    assert said.passed == right and said.parts == [("", sentence)]
    assert said.title.startswith(f"You predicted: {guess:.15g} of 28 pairs. ")


def test_asking_gives_one_view_that_shares_the_guess(ask):
    view = ask.which()
    assert isinstance(view, PredictionView) and ask.which() is view
    view.set_state({"picked": "both"})  # as a browser does
    assert ask.which.picked == view.heard == "both"
    ask.which("the first")
    assert view.picked == "the first" and not view.revealed
    ask.which.picked = None
    assert view.picked is None and ask.which.picked is None


def test_a_view_that_comes_later_knows_guess_and_answer(ask):
    ask.many(21)
    ask.many.reveal()
    view = ask.many()
    assert (view.picked, view.revealed) == (21.0, True)


def test_reveal_reaches_the_view(ask):
    view = ask.which()
    assert not view.revealed
    ask.which.reveal()
    assert view.revealed


def test_a_view_that_was_closed_is_made_again(ask):
    first = ask.which()
    first.picked = "both"
    ipywidgets.Widget.close_all()
    again = ask.which()
    assert again is not first and again.comm is not None and again.picked == "both"
    again.picked = "the first"
    assert ask.which.picked == "the first"


def test_a_guess_may_change_until_the_answer(ask):
    ask.which("both")
    ask.which("the first")
    ask.which.reveal()
    ask.which("the first")  # running the cell again
    with pytest.raises(ValueError, match="predict.which: the answer was shown, and your guess stays the first"):
        ask.which("the second")
    assert ask.which.picked == "the first"


def test_a_guess_that_was_on_its_way_counts(ask):
    """A view takes one until it knows of the answer; the kernel may have been busy with the answering cell."""
    view = ask.which()
    view.picked = "both"
    ask.which.reveal()
    view.set_state({"picked": "the second"})
    assert ask.which.picked == "the second" and ask.which.reveal().passed


@pytest.mark.parametrize("guess", ["the third", "", 1, True, ["both"]])
def test_what_is_no_choice_is_refused(ask, guess):
    with pytest.raises(ValueError, match="predict.which: choose one of 'the first', 'the second', 'both', got"):
        ask.which(guess)
    with pytest.raises(ValueError, match="choose one of 'the first', 'the second', 'both', got"):
        ask.which().picked = guess
    assert ask.which.picked is None


@pytest.mark.parametrize("guess", ["3", True, math.nan, math.inf, [3]])
def test_what_is_no_number_is_refused(ask, guess):
    with pytest.raises(ValueError, match="predict.many: give a number such as 3 or 0.25, got"):
        ask.many(guess)
    with pytest.raises(ValueError, match="give a number such as 3 or 0.25, got"):
        ask.many().picked = guess
    assert ask.many.picked is None


# ------------------------------------------------------------------------------------------ how it is asked


def test_the_question_beside_the_view_holds_the_choices_and_nothing_of_the_answer(ask):
    data, _ = ask.which()._repr_mimebundle_()
    for text in (data["text/plain"], data["text/html"], repr(ask.which)):
        assert "which candidate fits?" in text
        assert not any(sentence in text for sentence in OPTIONS.values())
    for text in (data["text/plain"], data["text/html"]):
        assert all(f"○ {choice}" in text for choice in OPTIONS)
    assert 'predict.which("…")' in data["text/plain"] and "predict" not in data["text/html"]
    assert repr(ask.which()) == data["text/plain"]
    assert "a number of 28 pairs" in repr(ask.many()) and "predict.many(…)" in repr(ask.many())


def test_a_name_without_parentheses_says_what_to_write(ask):
    assert "write predict.which() to be asked" in repr(ask.which) and "lesson 03" in repr(ask.which)
    assert repr(ask) == "03  □□ 0 of 2  which, many"


def test_all_together_is_no_question(ask):
    with pytest.raises(TypeError, match=r"write predict.which\(\); predict alone lists them"):
        ask()
    with pytest.raises(AttributeError, match="did you mean predict.which?"):
        ask.wich  # noqa: B018
    assert dir(ask) == ["many", "results", "which"]


WITHOUT = """
import sys
sys.modules["anywidget"] = None
from mhalib.checks import Predictions
from mhalib.checks.prediction import Choose
from types import ModuleType
module = ModuleType("predictions_03")
module.which = Choose(about="which <b>", right="b", options={"a": "No.", "b": "Yes."})
predict = Predictions(module)
print(predict.which())
print(predict.which()._repr_html_())
print(predict.which("b"))
print(predict.which.reveal())
print(predict.results("03"))
"""


def test_without_anywidget_the_question_is_text_and_the_guess_is_handed_over():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    asked = ["Your guess: which <b>?", "  ○ a", "  ○ b", '  To answer here, say predict.which("…")']
    assert lines[:4] == lines[5:9] == asked
    assert "which &lt;b&gt;?" in lines[4] and "○ a" in lines[4]
    assert lines[9:] == ["You predicted: b. Right.", "  Yes.", "Predicted: 1 of 1, 1 rightly", "  Foreseen: which <b>"]


def test_checks_are_loaded_without_the_widgets():
    code = "import sys, mhalib.checks; print('anywidget' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr


# ------------------------------------------------------------------------------------------ what it came to


def test_the_results_tell_foreseen_surprises_and_what_is_missing(ask):
    said = ask.results("03")
    assert (repr(said), said.code) == ("Nothing predicted yet. This lesson asks 2 times.", "open")
    ask.which("both")
    assert repr(ask.results("03")).splitlines() == [
        "Predicted: 1 of 2, 0 rightly",
        "  Surprised by: which candidate fits: the second, not both",
        "  Not predicted: 1",
    ]
    ask.many(21)
    assert repr(ask.results("03")).splitlines() == [
        "Predicted: 2 of 2, 1 rightly",
        "  Foreseen: how many of the 28 pairs agree",
        "  Surprised by: which candidate fits: the second, not both",
    ]


def test_a_page_finds_the_results(ask):
    place = '<div class="mhalib-results" data-lesson="03" data-count="2">'
    assert (
        ask.results("03")._repr_html_() == f"{place}<div>Nothing predicted yet. This lesson asks 2 times.</div></div>"
    )
    ask.which("both")
    html = ask.results("03")._repr_html_()
    assert html.startswith(place) and "<b>Surprised by:</b> which candidate fits: the second, not both" in html


def test_the_results_are_text():
    hostile = "<script>alert(1)</script>"
    ours = Predictions(lesson(which=choose(about=hostile, right=hostile, options={hostile: hostile, "b": "No."})))
    for guess in (hostile, "b"):
        ours.which.picked = guess
        for said in (ours.results("03"), ours.which.reveal(), ours.which._asked()):
            assert "<script>" not in said._repr_html_() and "&lt;script&gt;" in said._repr_html_()
        assert "<script>" not in ours.which()._repr_mimebundle_()[0]["text/html"]


@pytest.mark.parametrize("wrong", ["", "04", 3, None])
def test_another_lesson_is_refused(as_shipped, ask, wrong):
    with pytest.raises(ValueError, match=r"no predictions in lesson .*; choose from '03'"):
        ask.results(wrong)


OURS = """
from types import ModuleType
from mhalib.checks import Predictions
from mhalib.checks.prediction import Choose
module = ModuleType("predictions_03")
module.which = Choose(about="which", right="b", options={"a": "No.", "b": "Yes."})
predict = Predictions(module)"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A notebook that asks, answers and sums up, and in which the guess comes after all of that."""
    import nbformat

    path = tmp_path_factory.mktemp("played") / "00_played.ipynb"
    late = "predict.which().set_state({'picked': 'a'})"
    cells = [OURS, "predict.which()", "predict.which.reveal()", 'predict.results("03")', "1 + 1", late]
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), path)
    return execute(path)


def test_a_late_guess_changes_what_was_said(played):
    revealed, summed = (played.cells[i].outputs for i in (2, 3))
    assert [output.data["text/plain"].splitlines()[0] for output in revealed] == ["You predicted: a. It is: b."]
    assert [output.data["text/plain"].splitlines()[0] for output in summed] == ["Predicted: 1 of 1, 0 rightly"]
    assert "mhalib-results" in summed[0].data["text/html"]
    assert played.cells[5].outputs == []


def test_a_stored_question_is_text_and_a_live_one_works_without_a_script(played):
    live, stored = deepcopy(played), make_storable(deepcopy(played))
    make_live(live)
    (output,) = stored.cells[1].outputs
    assert set(output.data) == {"text/plain", "text/html"} and "○ a" in output.data["text/html"]
    (output,) = live.cells[1].outputs
    fragment, _, instead = output.data["text/html"].partition("<noscript>")
    assert fragment.startswith('<div class="mhalib-view">') and "○ a" in instead


# ------------------------------------------------------------------------------------------ what a record must hold


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"about": ""}, "about must say what is predicted"),
        ({"about": "which one fits?"}, "write 'which one fits'"),
        ({"options": {"the second": "Yes."}}, "two choices or more"),
        ({"options": {}}, "two choices or more"),
        ({"options": OPTIONS | {"both": " "}}, "the choice 'both' needs a sentence"),
        ({"options": OPTIONS | {"": "Why."}}, "a choice must say something"),
        ({"options": OPTIONS | {"The  First": "Why."}}, "two choices read the same"),
        ({"right": "the third"}, "right must be one of the options 'the first', 'the second', 'both', got 'the third'"),
        ({"right": ""}, "right must be one of the options"),
    ],
)
def test_a_choice_that_cannot_be_asked_is_refused(changed, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        choose(**changed)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"right": (22, 20)}, "the smaller one first, got (22, 20)"),
        ({"right": (20, math.inf)}, "two finite numbers"),
        ({"right": (20,)}, "right must be (low, high)"),
        ({"right": ("20", "22")}, "two finite numbers"),
        ({"right_text": ""}, "right_text must say the answer in words"),
        ({"why": ""}, "why must be a sentence"),
        ({"other": ""}, "other must be a sentence"),
        ({"guesses": ((30, 28, "All."),)}, "the smaller number first, got (30, 28, 'All.')"),
        ({"guesses": ((28, 28),)}, "a guess must be (low, high, sentence)"),
        ({"guesses": ((28, math.nan, "All."),)}, "a guess must be (low, high, sentence)"),
        ({"guesses": ((28, 28, ""),)}, "the guess from 28 to 28 needs a sentence"),
        ({"guesses": ((20.5, 21, "Near."),)}, "the guess from 20.5 to 21 is never said"),
        ({"guesses": ((14, 28, "Half."), (28, 28, "All."))}, "put the narrow ones first"),
        (
            {"guesses": ((10, 20, "Few."), (22, 30, "Many."), (12, 25, "Some."))},
            "the guess from 12 to 25 is never said",
        ),
    ],
)
def test_a_number_that_cannot_be_asked_is_refused(as_shipped, changed, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        number(**changed)


def test_other_may_be_missing_where_every_number_has_its_sentence():
    said = number(other="", guesses=((-math.inf, 20, "Fewer."), (22, math.inf, "More.")))
    assert said.sentence_about(1e300) == "More." and said.sentence_about(-5) == "Fewer."


@pytest.mark.parametrize(
    ("ranges", "covered"),
    [
        ([(0, 1)], True),
        ([(0.5, 2), (0, 0.5)], True),
        ([(0, 0.4), (0.5, 1)], False),
        ([(0.1, 5)], False),
        ([(-5, 0.9)], False),
        ([], False),
    ],
)
def test_whether_ranges_hold_all_numbers_between_two(ranges, covered):
    assert _covered(0, 1, ranges) == covered


def test_two_of_one_name_are_refused():
    with pytest.raises(ValueError, match="predictions_04: the name which is taken"):
        Predictions(lesson(which=choose()), lesson("predictions_04", which=choose()))
    with pytest.raises(ValueError, match="the name results is taken"):
        Predictions(lesson(results=choose()))


def test_a_view_without_a_question_is_refused():
    with pytest.raises(ValueError, match="either options or ranges"):
        PredictionView("x", "y", words=("", ""))
    with pytest.raises(ValueError, match="answer must be one of the options 'a', got 'y'"):
        PredictionView("x", "y", options={"a": "No."}, words=("", ""))


# ------------------------------------------------------------------------------------------ the lessons' predictions

ALL = list(predict)
each_prediction = pytest.mark.parametrize("prediction", ALL, ids=[p.name for p in ALL])
TAGS = "a|b|br|code|div|em|i|img|li|ol|p|pre|script|small|span|strong|sub|sup|table|td|tr|tt|u|ul"  # <pad> is a token
MARKED_UP = re.compile(rf"</?(?:{TAGS})\b[^>]*>|&\w+;|`|\$|\\\w|\*\*|\*\w[^*]*\*|\]\(|\n")


def sentences(prediction) -> list[str]:
    """Return what is said of the guesses."""
    if isinstance(prediction, Choose):
        return list(prediction.options.values())
    more = [prediction.other] if prediction.other else []
    return [prediction.why, *(sentence for _, _, sentence in prediction.guesses), *more]


def phrases(prediction) -> list[str]:
    """Return what is set into a sentence of ours."""
    return [prediction.about, prediction.right_text, *getattr(prediction, "options", ())]


@each_prediction
def test_a_prediction_is_plain_text_made_of_phrases_and_sentences(prediction):
    assert [text for text in (*sentences(prediction), *phrases(prediction)) if MARKED_UP.search(text)] == []
    assert [text for text in sentences(prediction) if not text.rstrip().endswith((".", "!", "?", "”", ")"))] == []
    assert [text for text in phrases(prediction) if text != text.strip() or text.endswith((".", "!", "?"))] == []
    assert len(set(sentences(prediction))) == len(sentences(prediction)), "two guesses get the same sentence"


def test_marks_are_seen():
    for text in ("<b>x</b>", "`x`", "$x$", "**x**", "an *x* here", "[x](y)", "x\ny", "a &lt; b", r"\frac"):
        assert MARKED_UP.search(text), text
    for text in ("head_dim < d_model > 3", "the token <pad>, <bos>", "3 * 4 * 5", "W_q, 50 % & more", "√d: 4 × 4"):
        assert not MARKED_UP.search(text), text


def test_no_prediction_bears_the_name_of_an_exercise():
    assert {prediction.name for prediction in predict} & {exercise.name for exercise in check} == set()


def habits(choices: list[Choose]) -> tuple[float, float]:
    """Return the share of right answers at the commonest place, and of those that are the longest choice."""
    places = Counter(list(choice.options).index(choice.right) for choice in choices)
    longest = sum(len(choice.right) > max(len(o) for o in choice.options if o != choice.right) for choice in choices)
    return max(places.values()) / len(choices), longest / len(choices)


def test_the_right_choice_cannot_be_told_by_its_place_or_length():
    at_one_place, longest = habits([prediction for prediction in predict if isinstance(prediction, Choose)])
    if LESSONS_TO_COME:
        pytest.skip(f"until all lessons ask: {at_one_place:.0%} at one place, {longest:.0%} the longest")
    assert at_one_place <= 1 / 2, "more than half of the right choices stand at the same place; turn some around"
    assert longest <= 2 / 3, "most right choices are the longest; shorten them, or say more in the others"


def test_habits_are_seen():
    first = choose(right="a", options={"a": "x", "bbb": "y", "cc": "z"})
    last = choose(right="ccc", options={"a": "x", "b": "y", "ccc": "z"})
    assert habits([first, last]) == (1 / 2, 1 / 2)
    assert habits([last, last]) == (1, 1)


# ------------------------------------------------------------------------------------------ how a lesson asks

HEADING = "## What you now know"


def faults(nb, number: str, names: list[str]) -> list[str]:
    """Return where a lesson does not ask and answer its predictions as lessons do."""
    if not names:
        return [f"there is no mhalib/checks/lessons/predictions_{number}.py, or nothing in it"]
    sources = [cell.source.strip() if cell.cell_type == "code" else "" for cell in nb.cells]

    def above(at: int) -> str:
        """Return the last paragraph of the text right before a cell."""
        before = nb.cells[at - 1] if at else None
        return before.source.strip().split("\n\n")[-1] if before and before.cell_type == "markdown" else ""

    found, places = [], []
    own = {f"predict.{name}{call}" for name in names for call in ("()", ".reveal()")}
    for name in names:
        question, answer = f"predict.{name}()", f"predict.{name}.reveal()"
        calls = sum(len(re.findall(rf"\bpredict\.{name}\b", source)) for source in sources)
        asked = [at for at, source in enumerate(sources) if source == question]
        revealed = [at for at, source in enumerate(sources) if source.splitlines()[-1:] == [answer]]
        if (len(asked), len(revealed), calls) != (1, 1, 2):
            found.append(
                f"{name}: asked {len(asked)} times in a cell of its own, revealed {len(revealed)} times in a last "
                f"line, and named {calls} times in the code; expected 1, 1 and 2"
            )
            continue
        (ask,), (reveal,) = asked, revealed
        places.append(ask)
        if "**Predict." not in above(ask):
            found.append(f"{name}: the paragraph before {question} does not say **Predict.**")
        between = [source for source in sources[ask + 1 : reveal] if source and source not in own]
        if reveal < ask or (sources[reveal] == answer and not between):
            found.append(f"{name}: no cell answers between {question} and {answer}")
    if not found and places != sorted(places):
        found.append(f"asked in another order than in predictions_{number}.py, which has {', '.join(names)}")
    others = {name for source in sources for name in re.findall(r"\bpredict\.(\w+)", source)} - {*names, "results"}
    found += [f"predict.{name} is no prediction of this lesson" for name in sorted(others)]
    results = [at for at, source in enumerate(sources) if "predict.results" in source]
    if [sources[at] for at in results] != [f'predict.results("{number}")'] or above(results[0]) != HEADING:
        found.append(f'predict.results("{number}") must stand once, in a cell right after the heading {HEADING}')
    return found


PATHS = lesson_files(NOTEBOOKS)


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_a_lesson_asks_before_it_answers(path):
    nb, number = read(path), path.stem[:2]
    wrong = faults(nb, number, [prediction.name for prediction in predict if prediction.lesson == number])
    if number in LESSONS_TO_COME:
        assert wrong, f"lesson {number} asks and answers: take it out of LESSONS_TO_COME"
        pytest.skip(f"lesson {number} is to come: {wrong[0]}")
    assert wrong == []
    for cell in nb.cells:
        if found := re.fullmatch(r"predict\.(\w+)\(\)", cell.source.strip()):
            (output,) = cell.outputs
            assert all(line.removeprefix("○ ") in output.data["text/plain"] for line in predict_choices(found[1]))
            assert "text/html" in output.data, f"{path.name}: run `make notebooks`"


def predict_choices(name: str) -> list[str]:
    return getattr(predict, name).choices()


def test_lessons_to_come_exist():
    assert set(LESSONS_TO_COME) <= {path.stem[:2] for path in PATHS}
    assert {prediction.lesson for prediction in predict} <= {path.stem[:2] for path in PATHS}


TEXT, CODE = new_markdown_cell, new_code_cell
ASKS = [
    TEXT("Some words.\n\n**Predict.** Which?"),
    CODE("predict.one()"),
    CODE("print(1)\npredict.one.reveal()"),
    TEXT("**Predict.** And which of these?"),
    CODE("predict.two()"),
    CODE("plot()"),
    CODE("predict.two.reveal()"),
    TEXT("## What you now know"),
    CODE('predict.results("03")'),
    TEXT("- a lot"),
]


def but(**cells) -> list:
    """Return the lesson with other cells, or without those that are None, by their place: `at_3=…`."""
    changed = [cells.get(f"at_{place}", cell) for place, cell in enumerate(ASKS)]
    return [cell for cell in changed if cell]


def told(cells: list, names=("one", "two")) -> list[str]:
    return faults(new_notebook(cells=cells), "03", list(names))


def test_a_lesson_that_asks_and_answers_has_no_faults():
    assert told(ASKS) == []


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (but(at_1=None), "one: asked 0 times"),
        (but(at_1=CODE("x = 1\npredict.one()")), "one: asked 0 times"),
        (but(at_5=CODE("predict.one()")), "one: asked 2 times"),
        (but(at_2=CODE("print(1)")), "one: asked 1 times in a cell of its own, revealed 0 times"),
        (but(at_2=CODE("predict.one.reveal()\nprint(1)")), "revealed 0 times"),
        (but(at_5=CODE("plot()\npredict.one.reveal()")), "revealed 2 times"),
        (but(at_2=CODE("print(predict.one.picked)\npredict.one.reveal()")), "named 3 times"),
        (but(at_0=TEXT("Some words.")), "one: the paragraph before predict.one() does not say"),
        (but(at_0=TEXT("**Predict.** Which?\n\nMore words.")), "one: the paragraph before"),
        (but(at_0=None), "one: the paragraph before"),
        (but(at_3=CODE("x = 2")), "two: the paragraph before"),
        (but(at_5=None), "two: no cell answers between"),
        (but(at_5=TEXT("And the answer is:")), "two: no cell answers between"),
        ([ASKS[2], *but(at_2=None)], "one: no cell answers between"),
        (but(at_5=CODE("predict.three()")), "predict.three is no prediction of this lesson"),
        (but(at_8=None), 'predict.results("03") must stand once'),
        (but(at_8=CODE('predict.results("04")')), 'predict.results("03") must stand once'),
        (but(at_9=CODE('predict.results("03")')), 'predict.results("03") must stand once'),
        (but(at_7=TEXT("## What you now know\n\n- a lot")), 'predict.results("03") must stand once'),
        (but(at_7=TEXT("## Try it")), 'predict.results("03") must stand once'),
    ],
)
def test_a_lesson_that_asks_otherwise_is_told(cells, says):
    assert [fault for fault in told(cells) if says in fault], told(cells)


def test_the_order_of_a_lesson_is_that_of_its_module():
    assert "another order" in told(ASKS, names=("two", "one"))[0]
    assert "there is no mhalib/checks/lessons/predictions_03.py" in told(ASKS, names=())[0]

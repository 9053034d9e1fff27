"""LiveModel in a browser, with a small model: what a reader does, what goes wrong, a phone."""

from functools import cache, partial

import pytest
import torch

from headview import LiveModel
from headview.live_model import pack
from mhalib.heads import gated_heads
from tests.helpers.browser import settle, until
from tests.helpers.live_page import load, put_beside, worker_of
from tests.helpers.page import no_overflow
from tests.helpers.refusals import accepted
from tests.helpers.small_sentences import small_sentences

SENTENCE, SECOND = "The cat sat on the mat.", "a dog sat, not a cat"
CLICK = """(canvas, [x, y]) => {
  const { left, top } = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: left + x, clientY: top + y }));
}"""


def made(**more):
    return LiveModel(small_sentences(), SENTENCE, SECOND, head=(1, 2), query=2, **more)


@cache
def scripts(longest=20, piece=pack.PIECE):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "PIECE", piece)
        pieces = pack.packed(small_sentences(longest))
    return [pack.as_script(pieces, number) for number in range(len(pieces))]


@pytest.fixture
def page(static_page, tmp_path):
    return load(static_page, tmp_path, made(), scripts())


def note(page):
    return page.locator(".live-model .bring .note").text_content()


def says(page, text):
    until(lambda: text in note(page), f"the page does not say {text!r}, but {note(page)!r}")


def alike(page):
    """How alike the sentences are, with all heads and with some off; None where it is not said."""
    settle(page)
    said = page.locator(".alike > span:nth-of-type(3n)").all_text_contents()
    return [None if text == "–" else float(text.replace("−", "-")) for text in said]


def cosine(first, second, off=()):
    model, gates = small_sentences(), torch.ones(2, 3)
    for layer, head in off:
        gates[layer, head] = 0
    with gated_heads(model, gates):
        a, b = model.encode([first, second])
    return float(a @ b)


def test_it_shows_what_python_knows_before_the_model_is_loaded(static_page):
    view = made()
    page, (tokens, weights, cosine_now) = static_page(view), view.attend()
    assert page.locator(".words button").all_text_contents() == tokens
    assert alike(page) == [pytest.approx(cosine_now, abs=6e-4), None]
    page.locator(".words").get_by_role("button", name="sat", exact=True).click()  # a word chooses its row
    row = weights[1, 2, tokens.index("sat")]
    most = f"sat looks most at {tokens[row.argmax()]}, {row.max():.2f}"
    assert most in page.get_by_role("img").last.get_attribute("aria-label")
    page.get_by_label("Sentence").fill("the dog")
    says(page, "Load the model")


def test_typing_moves_maps_and_switching_heads_off_moves_the_cosine(page):
    page.get_by_label("Sentence").fill("a cat sat")
    says(page, "5 tokens in")
    until(lambda: alike(page)[0] is not None, "nothing is compared")
    assert alike(page)[0] == pytest.approx(cosine("a cat sat", SECOND), abs=0.01)
    assert page.locator(".words button").all_text_contents() == ["[CLS]", "a", "cat", "sat", "[SEP]"]
    heads = page.get_by_role("application")
    heads.press("ArrowLeft")
    heads.press("Space")
    until(lambda: alike(page)[1] is not None, "nothing is compared")
    assert alike(page)[1] == pytest.approx(cosine("a cat sat", SECOND, [(1, 1)]), abs=0.01)
    assert "layer 1 head 1, off" in heads.get_attribute("aria-label")
    heads.evaluate(CLICK, [18 + 17, 18 + 17])  # the first head: once to choose it, once more to switch it off
    settle(page)
    heads.evaluate(CLICK, [18 + 17, 18 + 17])
    until(lambda: "2 heads off" in page.locator(".alike").inner_text(), "a click switches nothing off")
    page.get_by_role("button", name="Layer 0 off").click()
    until(lambda: "4 heads off" in page.locator(".alike").inner_text(), "the layer is not off")
    page.get_by_role("button", name="All on").click()
    assert alike(page)[1] is None


def test_the_worker_computes_what_torch_does(page):
    model, texts = small_sentences(), ["the cat", "it sat, not a cats ca", "a", "zebra", "mat . , the sitting"]
    for text, said in zip(texts, worker_of(page)(*((text, []) for text in texts)), strict=True):
        tokens, maps = model.attend(text)
        assert said["tokens"] == tokens
        torch.testing.assert_close(said["maps"], maps.flatten(), atol=0.02, rtol=0)
        assert float(said["vector"] @ model.encode([text])[0]) > 0.999


def test_what_cannot_be_read_is_said_and_nothing_freezes(page):
    field = page.get_by_label("Sentence")
    for text, said in {
        "": "Type a sentence",
        " \u200b\u0001 ": "Type a sentence",
        "\U0001f600 \U0001f389": "every piece is [UNK]",
        "the cat " * 300: "The model reads 20 tokens; 582 more are left out.",
        "the cat sat on the dog .": "9 tokens in",
    }.items():
        field.fill(text)
        says(page, said)
    assert len(page.locator(".words button").all()) == 9
    for text, said in {
        "": "Compare with: there is no word",
        " \u200b\u0001 ": "Compare with: there is no word",
        "\U0001f600 \U0001f389": "Compare with: None of it",
        "the cat " * 300: "Compare with: The model reads 20 tokens",
    }.items():
        page.get_by_label("Compare with").fill(text)
        says(page, said)
        assert (alike(page)[0] is None) == ("no word" in said)
    page.get_by_label("Compare with").fill("a cat")
    until(lambda: "Compare with" not in note(page), "what was wrong with it is still said")


def test_the_mark_stays_on_its_word(page):
    field, marked = page.get_by_label("Sentence"), page.locator(".words button[aria-pressed=true]")
    page.locator(".words button", has_text="sat").click()
    for text, word in {
        f"a dog, {SENTENCE}": "sat",  # words before it
        f"a dog, {SENTENCE} a cat": "sat",  # words after it
        "the dog": "[SEP]",  # it is gone: the last
        f"the dog {SENTENCE}": "on",  # where the mark was, by its number
    }.items():
        field.fill(text)
        until(lambda word=word: marked.text_content() == word, f"the mark is not on {word!r} of {text!r}")


@pytest.mark.parametrize("broken", ["lost", "damaged", "another"])
def test_a_file_that_is_lost_or_damaged_is_said_and_can_be_tried_again(static_page, tmp_path, broken):
    good = scripts(piece=100_000)
    page = static_page(made())
    bad = {
        "lost": good[:1],
        "damaged": [good[0], good[1][: len(good[1]) // 2], *good[2:]],
        "another": [good[0], *scripts(12, 100_000)[1:]],
    }[broken]
    put_beside(tmp_path, bad)
    page.get_by_role("button", name="Load the model").click()
    name = "is of another model" if broken == "another" else "live/01.js"
    says(page, "The model was not loaded")
    assert name in note(page)
    page.problems.clear()
    put_beside(tmp_path, good)
    page.get_by_role("button", name="Load the model").click()
    page.wait_for_function("document.querySelector('.bring button').hidden")
    page.get_by_label("Sentence").fill("the dog")
    says(page, "4 tokens in")


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (320, "light"), (1100, "light")])
def test_it_fits_into_every_width(static_page, width, theme):
    page = static_page(made(), width=width, theme=theme)
    settle(page)
    assert no_overflow(page) == []
    small, large = (canvas.bounding_box() for canvas in page.locator(".live-model canvas").all())
    assert (large["y"] > small["y"] + 20) == (width < 700)


def test_what_does_not_fit_is_refused():
    view = made()
    calls = {
        "off must be a list of [layer, head]": partial(setattr, view, "off", [[0, 3]]),
        "query must be an integer": partial(setattr, view, "query", -1),
        "second must be a text": partial(setattr, view, "second", None),
        "model must be a SentenceModel": partial(LiveModel, torch.nn.Linear(2, 2)),
        "sentence must be a text": partial(LiveModel, small_sentences(), 3),
        "head must be (layer, head), below (2, 3)": partial(LiveModel, small_sentences(), head=(2, 0)),
    }
    assert accepted(calls) == []

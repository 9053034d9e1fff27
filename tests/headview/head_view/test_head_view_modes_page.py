"""HeadView as text and as lines across, with tokens found and hidden: what is seen, said, clicked and keyed."""

import base64
import io
import re

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from mhalib.masks import causal_mask
from mhalib.plots import COLOUR_MAP
from mhalib.widgets.head_view.widget import HeadView
from tests.headview.test_contract import HOSTILE

WORDS = "[CLS] the cat sat on the mat [SEP]".split()
MODES = ["map", "lines", "across", "text"]
LINE = np.array([0x00, 0x72, 0xB2])  # the first colour of lines on white


def some(*shape):
    torch.manual_seed(0)
    return (2 * torch.randn(*shape)).softmax(-1)


def view_of(weights, *labels, mode="text", traits=(), **options):
    view = HeadView(weights, *labels, **options)
    view.mode = mode
    for name, value in dict(traits).items():
        setattr(view, name, value)
    return view


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def readout(page):
    return page.locator(".readout").text_content()


def limits(page):
    return page.locator(".limits").text_content()


def colours_of(page, run=0):
    """The background of each token of a run, as (tokens, 3)."""
    texts = (
        page.locator(".run")
        .nth(run)
        .evaluate("(run) => [...run.children].map((e) => getComputedStyle(e).backgroundColor)")
    )
    return np.array([[int(part) for part in re.findall(r"\d+", text)[:3]] for text in texts])


def expected(weights):
    return (np.array(matplotlib.colormaps[COLOUR_MAP](weights.numpy())[:, :3]) * 255).round()


def shows(page, weights, run=0):
    return np.abs(colours_of(page, run) - expected(weights)).max() <= 4


def pixels(page):
    data = page.locator("canvas.focus").evaluate("(canvas) => canvas.toDataURL().split(',')[1]")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")).astype(int)


def inked(image):
    """Where lines are drawn, strong or faint: by their hue, whatever stands behind."""
    return (image[..., 3] > 8) & (np.abs(image[..., :3] - LINE).max(-1) < 40)


def number(page):
    return float(readout(page).rpartition(": ")[2])


# ---------------------------------------------------------------- text


def test_text_has_the_colours_of_the_chosen_query_by_click_and_key(static_page):
    weights = some(1, 1, 8, 8)
    page = static_page(view_of(weights, WORDS))
    tokens = page.locator(".run span")
    assert tokens.all_text_contents() == WORDS
    assert page.locator("canvas.focus").is_hidden()
    assert shows(page, weights[0, 0, 0])
    tokens.nth(3).click()
    page.mouse.move(0, 0)
    assert shows(page, weights[0, 0, 3]) and readout(page).startswith("query 3 “sat”")
    assert page.locator(".chosen").all_text_contents() == ["sat"]
    assert page.locator(".other").all_text_contents() == ["[CLS]"]  # the key of the cursor
    page.locator(".run").focus()
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert shows(page, weights[0, 0, 4])
    assert page.locator("[role=status]").text_content() == f"query 4 “on”, key 0 “[CLS]”: {weights[0, 0, 4, 0]:.4f}"
    press(page, "End")
    assert page.locator(".chosen").all_text_contents() == ["[SEP]"]
    press(page, "PageUp")
    assert page.locator(".chosen").all_text_contents() == ["[CLS]"]


def test_a_token_under_the_pointer_shows_its_weights_for_as_long(static_page):
    weights = some(1, 1, 8, 8)
    page = static_page(view_of(weights, WORDS))
    page.locator(".run span").nth(5).hover()
    assert shows(page, weights[0, 0, 5])
    assert page.locator(".tip:visible").text_content() == f"query 0 “[CLS]”, key 5 “the”: {weights[0, 0, 0, 5]:.4f}"
    page.mouse.move(0, 0)
    assert shows(page, weights[0, 0, 0]) and page.locator(".tip:visible").count() == 0


def test_text_shows_who_looks_at_a_key(static_page):
    weights = some(1, 1, 8, 8)
    page = static_page(view_of(weights, WORDS))
    page.get_by_label("Weights", exact=True).select_option("to the key")
    assert shows(page, weights[0, 0, :, 0])
    page.locator(".run span").nth(6).click()
    page.mouse.move(0, 0)
    assert shows(page, weights[0, 0, :, 6]) and "key 6 “mat”" in readout(page)


def test_masked_and_missing_tokens_are_marked_and_every_ink_can_be_read(static_page):
    weights = some(1, 1, 8, 8).masked_fill(~causal_mask(8), 0)
    weights = weights / weights.sum(-1, keepdim=True)
    weights[..., 5, :] = torch.nan
    page = static_page(view_of(weights, WORDS, mask=causal_mask(8), traits={"query": 4}))
    assert page.locator(".run .masked").all_text_contents() == WORDS[5:]
    assert "masked" in limits(page)
    page.locator(".run span").nth(5).click()
    assert page.locator(".run .missing").all_text_contents() == WORDS[:6]

    def light(colour):
        part = np.array(colour) / 255
        linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    page.locator(".run span").nth(7).click()
    inks = page.locator(".run span").evaluate_all(
        "(all) => all.map((e) => getComputedStyle(e).color.match(/\\d+/g).map(Number))"
    )
    for ink, fill in zip(inks, colours_of(page), strict=True):
        bright, dark = sorted([light(ink), light(fill)], reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_text_from_the_right_runs_to_the_left(static_page):
    tokens = ["[CLS]", "שלום", "עולם", "[SEP]"]
    page = static_page(view_of(some(1, 1, 4, 4), tokens))
    spans = [span.bounding_box()["x"] for span in page.locator(".run span").all()]
    assert spans == sorted(spans, reverse=True)
    page.locator(".run").focus()
    press(page, "ArrowLeft")
    assert readout(page).startswith("query 1 “שלום”")


def test_pieces_of_words_stand_together(static_page):
    tokens = ["un", "##believ", "##able", ",", "you", "see", "!"]
    page = static_page(view_of(some(1, 1, 7, 7), tokens))
    assert page.locator(".run").text_content() == "unbelievable, you see!"


def test_a_long_text_shows_what_is_around_the_query_and_says_so(static_page):
    tokens = [f"t{i}" for i in range(2600)]
    weights = torch.zeros(1, 1, 2600, 2600, dtype=torch.float16)
    weights[..., 7] = 1
    page = static_page(view_of(weights, tokens, traits={"query": 2000}))
    assert page.locator(".run span").count() == 2000
    assert page.locator(".chosen").text_content() == "t2000"
    assert "The text shows query 600–2599 of 2,600." in limits(page)
    page.locator(".run").focus()
    press(page, "Home")
    assert page.locator(".chosen").text_content() == "t0"
    assert "query 0–1999 of 2,600" in limits(page)


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize("mode", ["lines", "across"])
@pytest.mark.parametrize("end", ["query", "key"])
def test_a_token_under_the_pointer_has_its_lines_alone(static_page, mode, end):
    page = static_page(view_of(torch.eye(6)[None, None], mode=mode))
    before = pixels(page)
    box = page.locator("canvas.focus").bounding_box()
    near_query, near_key = (0.22, 0.8) if mode == "lines" else (0.3, 0.85)
    share = near_query if end == "query" else near_key
    x, y = (share, 0.85) if mode == "lines" else (0.93, share)
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    alone = pixels(page)

    def across_lines(image):
        seen = inked(image)
        return np.flatnonzero(seen[:, seen.shape[1] // 2] if mode == "lines" else seen[seen.shape[0] // 2])

    assert np.ptp(across_lines(before)) > 5 * 20  # lines of all six tokens
    assert 1 <= np.ptp(across_lines(alone)) < 8  # and one that stands where the last one stood
    assert across_lines(alone).min() >= across_lines(before).max() - 8
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert (pixels(page) == before).all()  # between the tokens there is none to isolate


def test_lines_across_are_read_from_both_rows(static_page):
    weights = some(1, 1, 4, 6)
    page = static_page(view_of(weights, WORDS[:4], WORDS[2:], mode="across"))
    focus = page.locator("canvas.focus")
    assert focus.get_attribute("aria-label").startswith("Lines across of head 0: 4 queries by 6 keys")
    box = focus.bounding_box()
    focus.click(position={"x": box["width"] - 40, "y": 50})
    focus.click(position={"x": box["width"] - 30, "y": box["height"] - 30})
    assert readout(page).startswith("query 3 “sat”, key 5 “[SEP]”: ")
    assert number(page) == pytest.approx(weights[0, 0, 3, 5].item(), rel=0.1)
    focus.focus()
    press(page, "ArrowUp", "ArrowLeft")
    assert readout(page).startswith("query 2 “cat”, key 4 “mat”: ")
    assert number(page) == pytest.approx(weights[0, 0, 2, 4].item(), rel=0.1)


# ---------------------------------------------------------------- any map


def carried_by_tiles(view, monkeypatch):
    """Let a view's page have tiles alone, as that of a large map has."""
    monkeypatch.setattr(view._blocks, "is_whole", lambda part: False)
    view.parts = [{**part, "whole": False} for part in view.parts]
    view.blocks = {}
    return view


@pytest.mark.parametrize("mode", MODES)
def test_every_map_is_shown(static_page, mode, monkeypatch):
    nan = some(1, 1, 8, 8)
    nan[0, 0, 1] = torch.nan
    signed = torch.randn(1, 1, 8, 8)
    cases = [
        view_of(some(1, 1, len(HOSTILE), len(HOSTILE)), HOSTILE, mode=mode),
        view_of(torch.ones(1, 1, 1, 1), ["alone"], mode=mode),
        view_of(some(1, 1, 1, 300), mode=mode),
        view_of(nan, WORDS, mode=mode, traits={"query": 1}),
        view_of(signed, WORDS, mode=mode, kind="signed", exact=True),
        carried_by_tiles(view_of(some(1, 1, 8, 8), WORDS, mode=mode, traits={"query": 3}), monkeypatch),
    ]
    page = static_page(*cases, width=390)
    said = page.locator(".readout").all_text_contents()
    assert said[0].startswith(f"query 0 “{HOSTILE[0]}”") and page.locator("img").count() == 0
    assert said[1] == "query 0 “alone”, key 0 “alone”: 1.0000"
    assert said[3].endswith("NaN, not a number")
    assert said[4].endswith(f": {signed[0, 0, 0, 0]:.4f}")
    assert said[5].startswith("query 3 “sat”, key 0 “[CLS]”: ") and "0." in said[5]
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390


# ---------------------------------------------------------------- finding


def test_a_token_is_found_from_one_match_to_the_next(static_page):
    page = static_page(view_of(some(1, 1, 8, 8), WORDS, mode="map"))
    page.locator("canvas.focus").focus()
    press(page, "/")
    field = page.get_by_label("Find a token")
    assert field.evaluate("(e) => e === document.activeElement")
    page.keyboard.type("AT")
    count = page.locator(".find output")
    assert count.text_content() == "3 found"
    press(page, "Enter")
    assert readout(page).startswith("query 2 “cat”") and count.text_content() == "1 of 3"
    press(page, "Enter", "Enter")
    assert readout(page).startswith("query 6 “mat”")
    press(page, "Enter")
    assert readout(page).startswith("query 2 “cat”")
    press(page, "Shift+Enter")
    assert readout(page).startswith("query 6 “mat”") and count.text_content() == "3 of 3"
    page.get_by_label("Show as").select_option("text")
    assert page.locator(".run .found").all_text_contents() == ["cat", "sat", "mat"]
    field.focus()
    press(page, "Escape")
    assert page.locator(".run .found").count() == 0 and count.text_content() == "" and field.input_value() == ""
    field.fill("zebra")
    assert count.text_content() == "not found"


def test_a_word_is_found_that_none_of_its_pieces_has(static_page):
    page = static_page(view_of(some(1, 1, 4, 4), ["un", "##believ", "##able", "story"], mode="text"))
    page.locator(".run").focus()
    press(page, "/")
    page.keyboard.type("unbelievable")
    assert page.locator(".run .found").all_text_contents() == ["un", "believ", "able"]


# ---------------------------------------------------------------- hiding


@pytest.mark.parametrize("mode", MODES)
def test_tokens_are_hidden_by_key_and_shown_again(static_page, mode):
    weights = some(1, 1, 8, 8)
    page = static_page(view_of(weights, WORDS, mode=mode, traits={"query": 5}, exact=True))
    picture = page.locator(".run" if mode == "text" else "canvas.focus")
    picture.focus()
    press(page, "h")
    assert "Hidden: “[CLS]” (1 of 8 × 1 of 8 tokens)." in limits(page)
    assert readout(page).startswith("query 5 “the”, key 1 “the”: ")
    shown = weights[0, 0, 5, 1] / weights[0, 0, 5, 1:].sum()
    assert readout(page).split(": ")[1][:6] == f"{shown:.4f}"
    picture.focus()
    press(page, "h")  # the key of the cursor is "the", and so is its query: both go
    assert "Hidden: “[CLS]”, “the” (3 of 8 × 3 of 8 tokens)." in limits(page)
    assert readout(page).startswith("query 4 “on”, key 2 “cat”: ")
    picture.focus()
    press(page, "H")
    assert "Hidden" not in limits(page)
    assert readout(page).startswith("query 5 “the”")

"""HeadView as text and as lines across, with tokens found and hidden: what is seen, said, clicked and keyed."""

import base64
import io
import re

import matplotlib
import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from mhalib.masks import causal_mask
from mhalib.plots import COLOUR_MAP
from mhalib.widgets.head_view.widget import HeadView

WORDS = "[CLS] the cat sat on the mat [SEP]".split()
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "😀👩‍👩‍👧",
    "שלום עולם",
    "é̂̃̄",
    "",
    "x" * 200,
    "</script>",
    "\n\t",
    "\u202eabc",
]
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


def test_two_texts_stand_above_each_other_and_both_can_be_asked(static_page):
    weights = some(1, 1, 3, 5)
    page = static_page(view_of(weights, ["ein", "kleines", "Haus"], ["a", "small", "house", ",", "see"]))
    above, below = page.locator(".run").all()
    assert above.text_content() == "ein kleines Haus" and below.text_content() == "a small house, see"
    assert above.bounding_box()["y"] < below.bounding_box()["y"]
    assert shows(page, weights[0, 0, 0], run=1)
    above.locator("span").nth(2).click()
    page.mouse.move(0, 0)
    assert shows(page, weights[0, 0, 2], run=1)
    below.locator("span").nth(1).hover()
    assert shows(page, weights[0, 0, :, 1], run=0)
    below.focus()
    press(page, "ArrowRight", "ArrowRight")
    assert readout(page) == f"query 2 “Haus”, key 2 “house”: {weights[0, 0, 2, 2]:.4f}"


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


def test_lines_of_text_are_walked_up_and_down(static_page):
    tokens = [f"token{i}" for i in range(40)]
    page = static_page(view_of(some(1, 1, 40, 40), tokens), width=500)
    page.locator(".run span").nth(1).click()
    page.locator(".run").focus()
    press(page, "ArrowDown")
    chosen, first = page.locator(".chosen").bounding_box(), page.locator(".run span").nth(1).bounding_box()
    assert chosen["y"] - first["y"] == pytest.approx(28.5, abs=3) and abs(chosen["x"] - first["x"]) < 60
    press(page, "ArrowUp")
    assert page.locator(".chosen").text_content() == "token1"


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


def test_a_comparison_is_three_texts(static_page):
    one, two = some(1, 1, 8, 8), some(2, 1, 8, 8)[1:]
    page = static_page(view_of(one, WORDS, compare=two, names=("before", "after")))
    assert page.locator(".run").count() == 3
    assert page.locator(".caption").all_text_contents() == ["before", "after", "difference"]
    assert shows(page, two[0, 0, 0], run=1)


def test_the_text_can_be_saved_as_a_picture(static_page):
    weights = torch.eye(8)[None, None]
    page = static_page(view_of(weights, WORDS))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save PNG").click()
    image = np.asarray(Image.open(download.value.path()).convert("RGB")).astype(int)
    strongest, weakest = expected(torch.tensor([1.0, 0.0]))
    assert (np.abs(image - strongest).max(-1) < 4).sum() > 300  # the chosen token's own colour
    assert (np.abs(image - weakest).max(-1) < 4).sum() > 2000


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


def test_lines_across_cut_what_does_not_fit_to_what_is_around_the_cursor(static_page):
    page = static_page(view_of(some(1, 1, 300, 300), mode="across", traits={"query": 150}), width=390)
    count = int(re.search(r"Of the tokens in sight, (\d+) fit side by side", limits(page))[1])
    assert 15 <= count <= 27
    box = page.locator("canvas.focus").bounding_box()
    assert box["width"] <= 390 - 16
    page.locator("canvas.focus").click(position={"x": box["width"] - 15, "y": 50})
    assert 150 < int(re.match(r"query (\d+)", readout(page))[1]) <= 150 + count


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


@pytest.mark.parametrize("mode", MODES)
def test_numbers_that_are_not_there_are_said_to_be_missing(static_page, monkeypatch, mode):
    view = carried_by_tiles(view_of(some(1, 2, 8, 8), WORDS, mode=mode), monkeypatch)
    page = static_page(view)
    page.locator("canvas.overview").focus()
    press(page, "ArrowRight")  # this head is not in the page
    assert readout(page).endswith("not here yet") and "kernel" in limits(page)
    page.locator(".run" if mode == "text" else "canvas.focus").focus()
    press(page, "ArrowRight", "ArrowDown", "h", "H")
    assert readout(page).endswith("not here yet")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("mode", ["across", "text"])
def test_nothing_stands_in_the_way_of_a_screen_reader(static_page, mode, theme):
    page = static_page(view_of(some(1, 2, 8, 8), WORDS, mode=mode, traits={"hidden": ["the"]}), theme=theme)
    page.get_by_role("button", name="More").click()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    bare = page.evaluate(
        """() => [...document.querySelectorAll(".mha *")].filter((e) => e.tabIndex >= 0
          && !e.hasAttribute("data-lm-suppress-shortcuts")).map((e) => e.outerHTML)"""
    )
    assert bare == []


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


def test_a_match_is_brought_into_sight_and_keys_of_another_text_are_found(static_page):
    tokens = [f"t{i}" for i in range(90)]
    page = static_page(view_of(some(1, 1, 90, 90), tokens, mode="map", traits={"window": [0, 20, 0, 20]}))
    page.locator("canvas.focus").focus()
    press(page, "/")
    page.keyboard.type("t77")
    press(page, "Enter")
    assert readout(page).startswith("query 77 “t77”")
    assert "queries by" in page.locator("canvas.focus").get_attribute("aria-label")
    assert "query 58–77 of 90" in page.locator("canvas.focus").get_attribute("aria-label")
    cross = static_page(view_of(some(1, 1, 2, 3), ["ein", "Haus"], ["a", "small", "house"], mode="text"))
    cross.locator(".run").first.focus()
    press(cross, "/")
    cross.keyboard.type("haus")
    press(cross, "Enter")
    assert readout(cross).startswith("query 1 “Haus”")
    cross.get_by_label("Find a token").fill("hous")
    press(cross, "Enter")
    assert "key 2 “house”" in readout(cross)


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


def test_hidden_tokens_are_chosen_in_the_fold(static_page):
    weights = some(1, 1, 8, 8)
    page = static_page(view_of(weights, WORDS, exact=True))
    page.get_by_role("button", name="More").click()
    texts = page.locator(".run span")
    again = page.get_by_label("rows sum to 1 again")
    assert again.is_hidden()
    page.get_by_label("Hide special tokens").check()
    assert texts.all_text_contents() == WORDS[1:-1]
    assert readout(page) == f"query 1 “the”, key 1 “the”: {weights[0, 0, 1, 1] / weights[0, 0, 1, 1:-1].sum():.4f}"
    again.uncheck()
    assert readout(page) == f"query 1 “the”, key 1 “the”: {weights[0, 0, 1, 1]:.4f}"
    field = page.get_by_label("Hide tokens, by their labels")
    field.fill("sat on zebra")
    press(page, "Enter")
    assert texts.all_text_contents() == ["the", "cat", "the", "mat"]
    assert "No token is called zebra." in limits(page)
    page.get_by_label("Hide special tokens").uncheck()
    assert texts.all_text_contents() == ["[CLS]", "the", "cat", "the", "mat", "[SEP]"]
    field.fill("the cat sat on mat [CLS] [SEP]")
    press(page, "Enter")
    assert page.locator("[role=status]").text_content() == "A token must be left: so many cannot be hidden."
    assert texts.count() == 6
    page.get_by_role("button", name="Show all tokens").click()
    assert texts.all_text_contents() == WORDS and again.is_hidden()
    page.get_by_label("Hide the first token").check()
    assert texts.all_text_contents() == WORDS[1:]


@pytest.mark.parametrize("whole", [True, False])
def test_when_all_tokens_are_hidden_all_are_shown(static_page, monkeypatch, whole):
    view = view_of(some(1, 1, 8, 8), WORDS, traits={"hidden": WORDS})
    page = static_page(view if whole else carried_by_tiles(view, monkeypatch))
    assert page.locator(".run span").all_text_contents() == WORDS
    assert "All tokens would be hidden, so all are shown." in limits(page)
    assert readout(page).startswith("query 0 “[CLS]”, key 0 “[CLS]”: ") and "not here" not in readout(page)

"""HeadView as text and as lines across, with tokens found and hidden: what is seen, said, clicked and keyed."""

import re

import matplotlib
import numpy as np
import torch

from headview.head_view.widget import HeadView
from mhalib.masks import causal_mask
from mhalib.plots import COLOUR_MAP
from tests.helpers.page import HOSTILE, Listener, limits, near, pixels, press, readout, some, with_traits

WORDS = "[CLS] the cat sat on the mat [SEP]".split()
MODES = ["map", "lines", "across", "text"]
LINE = (0x00, 0x72, 0xB2)  # the first colour of lines on white


def view_of(weights, *labels, mode="text", traits=(), **options):
    return with_traits(HeadView(weights, *labels, **options), mode=mode, **dict(traits))


def views_of(page):
    return page.locator(".mha").all()


def colours_of(view, run=0):
    """The background of each token of a run after the next frame, as (tokens, 3)."""
    texts = (
        view.locator(".run")
        .nth(run)
        .evaluate(
            """async (run) => {
                await new Promise(requestAnimationFrame);
                return [...run.children].map((e) => getComputedStyle(e).backgroundColor);
            }"""
        )
    )
    return np.array([[int(part) for part in re.findall(r"\d+", text)[:3]] for text in texts])


def shows(view, weights, run=0):
    expected = (np.array(matplotlib.colormaps[COLOUR_MAP](weights.numpy())[:, :3]) * 255).round()
    return np.abs(colours_of(view, run) - expected).max() <= 4


# ---------------------------------------------------------------- text


def test_text_has_the_colours_of_the_query_by_click_key_and_pointer(static_page):
    weights = some(1, 1, 8, 8)
    page = static_page(view_of(weights, WORDS))
    tokens = page.locator(".run span")
    assert tokens.all_text_contents() == WORDS
    assert page.locator("canvas.focus").is_hidden()
    assert shows(page, weights[0, 0, 0])
    tokens.nth(5).hover()
    assert shows(page, weights[0, 0, 5])
    assert page.locator(".tip:visible").text_content() == f"query 0 “[CLS]”, key 5 “the”: {weights[0, 0, 0, 5]:.4f}"
    page.mouse.move(0, 0)
    assert shows(page, weights[0, 0, 0]) and page.locator(".tip:visible").count() == 0
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
    page.get_by_label("Weights", exact=True).select_option("to the key")
    tokens.nth(6).click()
    page.mouse.move(0, 0)
    assert shows(page, weights[0, 0, :, 6]) and "key 6 “mat”" in readout(page)


def test_two_texts_stand_above_each_other_and_a_comparison_is_three(static_page):
    weights, other = some(1, 1, 3, 5), some(1, 1, 8, 8, seed=1)
    compared = view_of(some(1, 1, 8, 8), WORDS, compare=other, names=("before", "after"))
    page = static_page(view_of(weights, ["ein", "kleines", "Haus"], ["a", "small", "house", ",", "see"]), compared)
    view, three = views_of(page)
    above, below = view.locator(".run").all()
    assert above.text_content() == "ein kleines Haus" and below.text_content() == "a small house, see"
    assert above.bounding_box()["y"] < below.bounding_box()["y"]
    above.locator("span").nth(2).click()
    page.mouse.move(0, 0)
    assert shows(view, weights[0, 0, 2], run=1)
    below.locator("span").nth(1).hover()
    assert shows(view, weights[0, 0, :, 1], run=0)
    below.focus()
    press(page, "ArrowRight", "ArrowRight")
    assert readout(view) == f"query 2 “Haus”, key 2 “house”: {weights[0, 0, 2, 2]:.4f}"
    assert three.locator(".caption").all_text_contents() == ["before", "after", "after − before"]
    assert shows(three, other[0, 0, 0], run=1)


def test_masked_and_missing_tokens_are_marked_and_every_ink_can_be_read(static_page):
    weights = some(1, 1, 8, 8).masked_fill(~causal_mask(8), 0)
    weights = weights / weights.sum(-1, keepdim=True)
    weights[..., 5, :] = torch.nan
    page = static_page(view_of(weights, WORDS, mask=causal_mask(8), traits={"query": 4}))
    assert page.locator(".run .masked").all_text_contents() == WORDS[5:]
    assert "Hatched: masked. " in limits(page)
    page.get_by_label("Show as").select_option("lines")
    assert "×: masked. " in limits(page)
    page.get_by_label("Show as").select_option("text")
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


def test_text_runs_as_it_is_written(static_page):
    numbered = [f"token{i}" for i in range(40)]
    page = static_page(
        view_of(some(1, 1, 4, 4), ["[CLS]", "שלום", "עולם", "[SEP]"], key=2),
        view_of(some(1, 1, 7, 7), ["un", "##believ", "##able", ",", "you", "see", "!"]),
        view_of(some(1, 1, 40, 40), numbered),
        width=500,
    )
    hebrew, pieces, lines = views_of(page)
    places = [span.bounding_box()["x"] for span in hebrew.locator(".run span").all()]
    assert places == sorted(places, reverse=True)
    hebrew.locator(".run").focus()
    press(page, "ArrowLeft")
    assert readout(hebrew).startswith("query 1 “\u2068שלום\u2069”, key 2 “\u2068עולם\u2069”: ")
    assert hebrew.locator(".readout").evaluate(ENDS_RIGHT)
    assert pieces.locator(".run").text_content() == "unbelievable, you see!"
    lines.locator(".run span").nth(1).click()
    lines.locator(".run").focus()
    press(page, "ArrowDown")  # to the next line, below
    chosen, first = (lines.locator(part).first.bounding_box() for part in (".chosen", ".run span >> nth=1"))
    assert 25 < chosen["y"] - first["y"] < 32 and abs(chosen["x"] - first["x"]) < 60
    press(page, "ArrowUp")
    assert lines.locator(".chosen").text_content() == "token1"


ENDS_RIGHT = """({ firstChild: text }) => { // does the last letter stand at the right of all others?
  const right = (from) => {
    const range = document.createRange();
    range.setStart(text, from);
    range.setEnd(text, text.length);
    return range.getBoundingClientRect().right;
  };
  return Math.abs(right(text.length - 1) - right(0)) < 1;
}"""


def test_a_label_without_ink_has_a_sign(static_page):
    page = static_page(view_of(some(1, 1, 6, 6), ["a", "", " ", "\n", "\t", "\u200b"], query=2, key=5))
    assert page.locator(".run span").all_text_contents() == ["a", "∅", "␣", "↵\n", "⇥", "U+200B"]
    assert readout(page).startswith("query 2 “␣”, key 5 “U+200B”: ")
    assert page.locator("canvas.bars").get_attribute("aria-label").startswith("Weights of query 2 “␣”: ")


def test_a_long_text_shows_what_is_around_the_query_and_says_so(static_page):
    weights = torch.zeros(1, 1, 2050, 2050, dtype=torch.float16)
    weights[..., 7] = 1
    page = static_page(view_of(weights, [f"t{i}" for i in range(2050)], traits={"query": 1500}))
    assert page.locator(".run span").count() == 2000
    assert page.locator(".chosen").text_content() == "t1500"
    assert "The text shows query 50–2049 of 2,050." in limits(page)
    page.locator(".run").focus()
    press(page, "Home")
    assert page.locator(".chosen").text_content() == "t0"
    assert "query 0–1999 of 2,050" in limits(page)


# ---------------------------------------------------------------- lines


def test_a_token_under_the_pointer_has_its_lines_alone(static_page):
    page = static_page(*(view_of(torch.eye(6)[None, None], mode=mode) for mode in ("lines", "across")))
    near_ends = {"lines": ((0.22, 0.85), (0.8, 0.85)), "across": ((0.93, 0.3), (0.93, 0.85))}
    near_ends["lines"] += ((0.06, 0.85), (0.94, 0.85))  # on their names
    for view, (mode, ends) in zip(views_of(page), near_ends.items(), strict=True):
        canvas = view.locator("canvas.focus")
        canvas.scroll_into_view_if_needed()

        def in_the_middle(image, mode=mode):
            inked = (image[..., 3] > 8) & near(image, LINE, within=39)  # strong or faint, by their hue
            return np.flatnonzero(inked[:, inked.shape[1] // 2] if mode == "lines" else inked[inked.shape[0] // 2])

        before, box = pixels(canvas), canvas.bounding_box()
        assert np.ptp(in_the_middle(before)) > 5 * 20  # lines of all six tokens
        for x, y in ends:
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
            alone = in_the_middle(pixels(canvas))
            assert 1 <= np.ptp(alone) < 8, mode  # and one that stands where the last one stood
            assert alone.min() >= in_the_middle(before).max() - 8, mode
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert (pixels(canvas) == before).all()  # between the tokens there is none to isolate


def test_lines_across_are_read_from_both_rows_and_cut_to_what_fits(static_page):
    weights = some(1, 1, 4, 6)
    many = view_of(some(1, 1, 300, 300), mode="across", traits={"query": 150})
    page = static_page(view_of(weights, WORDS[:4], WORDS[2:], mode="across"), many, width=390)
    view, cut = views_of(page)
    focus = view.locator("canvas.focus")
    assert focus.get_attribute("aria-label").startswith("Lines across of head 0: 4 queries by 6 keys")
    box = focus.bounding_box()
    focus.click(position={"x": box["width"] - 40, "y": 50})
    focus.click(position={"x": box["width"] - 30, "y": box["height"] - 30})
    focus.focus()
    for query, key, place in ((3, 5, "query 3 “sat”, key 5 “[SEP]”"), (2, 4, "query 2 “cat”, key 4 “mat”")):
        said, _, number = readout(view).rpartition(": ")
        assert said == place and abs(float(number) / weights[0, 0, query, key].item() - 1) < 0.1
        press(page, "ArrowUp", "ArrowLeft")
    count = int(re.search(r"Of the tokens in sight, (\d+) fit side by side", limits(cut))[1])
    focus = cut.locator("canvas.focus")
    box = focus.bounding_box()
    assert 15 <= count <= 27 and box["width"] <= 390 - 16
    focus.click(position={"x": box["width"] - 15, "y": 50})
    assert 150 < int(re.match(r"query (\d+)", readout(cut))[1]) <= 150 + count


def test_the_scale_is_written_beside_lines_and_text_and_lines_follow_it(static_page):
    weights = torch.tensor([[0.01, 0.99], [0.5, 0.5]])[None, None]
    views = [view_of(weights, mode=mode, scale=scale) for mode in MODES[1:3] for scale in ("fixed", "root", "log")]
    page = static_page(Listener(), *views, view_of(weights, mode="text", scale="root"))
    written = [{text for text, *_, whose in page.evaluate("texts") if whose == i} for i in range(7)]
    for number, mode in enumerate(("lines", "across")):
        shares = []
        for scale, said in enumerate(("1", "1 · square root", "1 · logarithmic")):
            assert {said} <= written[3 * number + scale], mode
            drawn = pixels(page.locator("canvas.focus").nth(3 * number + scale))
            shares.append((drawn[..., 3] > 40).sum())
        assert shares[0] < shares[1] < shares[2], mode  # the line of 0.01 is thin, thicker, and half as thick as can be
    assert {"0", "1 · square root"} <= written[6]


def test_a_large_model_is_a_telephone_high_or_little_more(static_page):
    """Twelve layers with as many heads, thirty tokens: two screens of a small telephone at most."""
    weights = some(12, 12, 30, 30)
    page = static_page(*(view_of(weights, [f"token{i}" for i in range(30)], mode=mode) for mode in MODES), width=390)
    heights = {mode: view.bounding_box()["height"] for mode, view in zip(MODES, views_of(page), strict=True)}
    assert max(heights.values()) <= 900, heights


# ---------------------------------------------------------------- any map


def carried_by_tiles(view, monkeypatch):
    """Let a view's page have tiles alone, as that of a large map has."""
    monkeypatch.setattr(view._blocks, "is_whole", lambda part: False)
    view.parts = [{**part, "whole": False} for part in view.parts]
    view.blocks = {}
    return view


def test_every_map_is_shown_in_every_mode(static_page, monkeypatch):
    nan, signed = some(1, 1, 8, 8), torch.randn(1, 1, 8, 8)
    nan[0, 0, 1] = torch.nan
    views = []
    for mode in MODES:
        views += [
            view_of(some(1, 1, len(HOSTILE), len(HOSTILE)), HOSTILE, mode=mode),
            view_of(torch.ones(1, 1, 1, 1), ["alone"], mode=mode),
            view_of(some(1, 1, 1, 300), mode=mode),
            view_of(nan, WORDS, mode=mode, traits={"query": 1}),
            view_of(signed, WORDS, mode=mode, kind="signed", exact=True),
            carried_by_tiles(view_of(some(1, 2, 8, 8), WORDS, mode=mode, traits={"query": 3}), monkeypatch),
        ]
    page = static_page(*views, width=390)
    said = page.locator(".readout").all_text_contents()
    for number, mode in enumerate(MODES):
        hostile, alone, _, missing, plain, tiles = said[6 * number : 6 * number + 6]
        assert hostile.startswith(f"query 0 “{HOSTILE[0]}”"), mode
        assert alone == "query 0 “alone”, key 0 “alone”: 1.0000", mode
        assert missing.endswith("NaN, not a number"), mode
        assert plain.endswith(f": {signed[0, 0, 0, 0]:.4f}".replace("-", "−")), mode
        assert tiles.startswith("query 3 “sat”, key 0 “[CLS]”: ") and "0." in tiles, mode
        view = page.locator(".mha").nth(6 * number + 5)
        view.locator("canvas.overview").focus()
        press(page, "ArrowRight")  # this head is not in the page
        assert readout(view).endswith("not in this page.") and "kernel" in limits(view), mode
        view.locator(".run" if mode == "text" else "canvas.focus").focus()
        press(page, "ArrowRight", "ArrowDown", "h", "H")
        assert readout(view).endswith("not in this page."), mode
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


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


def test_matches_out_of_sight_of_another_text_and_in_pieces_are_found(static_page):
    page = static_page(
        view_of(some(1, 1, 90, 90), [f"t{i}" for i in range(90)], mode="map", traits={"window": [0, 20, 0, 20]}),
        view_of(some(1, 1, 2, 3), ["ein", "Haus"], ["a", "small", "house"]),
        view_of(some(1, 1, 4, 4), ["un", "##believ", "##able", "story"]),
    )
    window, cross, pieces = views_of(page)
    for view, part, asked in (
        (window, "canvas.focus", "t77"),
        (cross, ".run", "hous"),
        (pieces, ".run", "unbelievable"),
    ):
        view.locator(part).first.focus()
        press(page, "/")
        page.keyboard.type(asked)
        press(page, "Enter")
    assert readout(window).startswith("query 77 “t77”")
    assert "query 58–77 of 90" in window.locator("canvas.focus").get_attribute("aria-label")
    assert "key 2 “house”" in readout(cross)
    assert pieces.locator(".run .found").all_text_contents() == ["un", "believ", "able"]


# ---------------------------------------------------------------- hiding


def test_tokens_are_hidden_by_key_and_shown_again_in_every_mode(static_page):
    weights = some(1, 1, 8, 8)
    page = static_page(*(view_of(weights, WORDS, mode=mode, traits={"query": 5}, exact=True) for mode in MODES))
    for view, mode in zip(views_of(page), MODES, strict=True):
        picture = view.locator(".run" if mode == "text" else "canvas.focus")
        picture.focus()
        press(page, "h")
        assert "Hidden: [CLS]. Rows rescaled to sum to 1. " in limits(view), mode
        shown = weights[0, 0, 5, 1] / weights[0, 0, 5, 1:].sum()
        assert readout(view).startswith(f"query 5 “the”, key 1 “the”: {shown:.4f}"), mode
        picture.focus()
        press(page, "h")  # the key of the cursor is "the", and so is its query: both go
        assert "Hidden: [CLS], the. Rows rescaled" in limits(view), mode
        assert readout(view).startswith("query 4 “on”, key 2 “cat”: "), mode
        picture.focus()
        press(page, "H")
        assert "Hidden" not in limits(view) and readout(view).startswith("query 5 “the”"), mode


def test_rows_of_which_little_was_left_are_named_where_rows_are_rescaled(static_page):
    weights = torch.tensor([[0.99998, 0.00001, 0.00001], [0.2, 0.3, 0.5], [0.95, 0.03, 0.02]])[None, None]
    labels, hidden = ["[CLS]", "cat", "."], {"hidden": ["[CLS]"]}
    plain = view_of(weights, labels, traits=hidden | {"renormalise": False})
    rescaled, plain = views_of(static_page(view_of(weights, labels, traits=hidden), plain))
    assert "Hidden: [CLS]. Rows rescaled to sum to 1; under 10 % was left of 1 of 2: query 2 “.”. " in limits(rescaled)
    assert limits(plain) == "Hidden: [CLS]. "


def test_hidden_tokens_are_chosen_in_the_fold_and_one_is_always_left(static_page, monkeypatch):
    weights, all_hidden = some(1, 1, 8, 8), {"hidden": WORDS}
    tiles = carried_by_tiles(view_of(weights, WORDS, traits=all_hidden), monkeypatch)
    page = static_page(view_of(weights, WORDS, exact=True), view_of(weights, WORDS, traits=all_hidden), tiles)
    view, *others = views_of(page)
    view.get_by_role("button", name="More").click()
    texts, again = view.locator(".run span"), view.get_by_label("rows sum to 1 again")
    assert again.is_hidden()
    view.get_by_label("Hide special tokens").check()
    assert texts.all_text_contents() == WORDS[1:-1]
    assert readout(view) == f"query 1 “the”, key 1 “the”: {weights[0, 0, 1, 1] / weights[0, 0, 1, 1:-1].sum():.4f}"
    again.uncheck()
    assert readout(view) == f"query 1 “the”, key 1 “the”: {weights[0, 0, 1, 1]:.4f}"
    field = view.get_by_label("Hide tokens, by their labels")
    field.fill("sat on zebra")
    press(page, "Enter")
    assert texts.all_text_contents() == ["the", "cat", "the", "mat"]
    assert "No token is called zebra." in limits(view)
    field.fill("the cat sat on mat [CLS] [SEP]")
    press(page, "Enter")
    assert "A token must be left" in view.locator("[role=status]").text_content() and texts.count() == 4
    view.get_by_role("button", name="Show all tokens").click()
    assert texts.all_text_contents() == WORDS and again.is_hidden()
    view.get_by_label("Hide the first token").check()
    assert texts.all_text_contents() == WORDS[1:]
    for other in others:  # one that is whole in the page, one by tiles
        assert other.locator(".run span").all_text_contents() == WORDS
        assert "All tokens would be hidden, so all are shown." in limits(other)
        assert readout(other).startswith("query 0 “[CLS]”, key 0 “[CLS]”: ") and "not here" not in readout(other)

"""HeadView of two sides, in a page without a kernel: the difference, the labels of both, titles, legends and room."""

import numpy as np
import pytest

from headview.head_view.widget import HeadView
from tests.helpers.page import Listener, limits, near, no_overflow, pixels, readout, some

TIRED, WIDE = ("it was too tired .".split(), "it was too wide .".split())
A, B = some(2, 3, 5, 5), some(2, 3, 5, 5, seed=1)


def compared(**traits):
    return HeadView(A, TIRED, compare=B, names=("tired", "wide"), compare_tokens=WIDE, **traits)


def test_the_overview_of_the_difference_is_in_the_page(static_page):
    one = np.zeros((1, 2, 4, 4), np.float32)
    one[..., 0] = 1
    page = static_page(HeadView(one, compare=one[..., ::-1].copy(), exact=True, side="difference"))
    assert "kernel" not in limits(page)
    seen = pixels(page.locator("canvas.overview"))[..., :3]
    most = pixels(page.locator("canvas.focus"))[..., :3]
    for colour in ((0, 68, 27), (64, 0, 75)):  # more, and less, than before: in all heads as in the chosen one
        assert near(seen, colour, 40).sum() > 100 and near(most, colour, 40).sum() > 100


def test_what_does_not_fit_keeps_the_heads_of_the_first_side(static_page):
    view = HeadView(some(4, 4, 64, 64), compare=some(4, 4, 64, 64, seed=1), side="difference")
    shown = {key.split(" ")[0] + key.rpartition(" ")[2] for key in view.get_state()["blocks"]}
    assert shown == {"wholea", "wholeb", "overviewdifference"}
    view.to_html = lambda make=view.to_html: make(60_000)
    page = static_page(view)
    assert near(pixels(page.locator("canvas.overview")), (255, 255, 255)).mean() < 0.9


def test_each_side_has_its_own_words(static_page):
    words = {"a": ["tired"], "b": ["wide"], "both": ["tired", "wide", "tired / wide"], "difference": ["tired / wide"]}
    views = [compared(side=side, query=3, key=3, mode=mode) for side in words for mode in ("map", "text")]
    shown = static_page(*views).locator(".mha").all()
    for view, as_map, as_text, texts in zip(views[::2], shown[::2], shown[1::2], words.values(), strict=True):
        assert readout(as_map).startswith(f"query 3 “{texts[-1]}”, key 3 “{texts[-1]}”: ")
        assert view.selection.tokens[3] == texts[-1]
        runs = as_text.locator(".run").all_text_contents()
        assert [run.removeprefix("it was too ").removesuffix(".").strip() for run in runs] == texts


def test_each_map_has_the_words_of_its_side_on_both_axes(static_page):
    page = static_page(Listener(), compared(layer=0, head=0))
    for width in (1280, 390):
        page.evaluate("written.length = 0")
        page.set_viewport_size({"width": width, "height": 900})
        canvas = page.locator("canvas.focus").evaluate("(canvas) => canvas.width")
        words = {
            word: sorted({round(text[2]) for text in page.evaluate("texts") if (text[0], text[4]) == (word, canvas)})
            for word in ("tired", "wide", "tired / wide")
        }
        assert all(len(lefts) >= 2 for lefts in words.values()), words  # a row, and a column
        if width > 390:
            assert words["tired"][-1] < words["wide"][0] and words["wide"][-1] < words["tired / wide"][0]
        assert no_overflow(page) == []


def test_errors_name_compare_and_say_what_to_do():
    with pytest.raises(ValueError, match=r"^compare: tokens has 5 labels, the weights have 4 queries.*link"):
        HeadView(A, TIRED, compare=some(2, 3, 4, 4))
    with pytest.raises(ValueError, match=r"compare, .*\(2, 3, 4, 4, 1\).*link"):
        HeadView(A, TIRED, compare=some(2, 3, 4, 4), compare_tokens=WIDE[:4])
    with pytest.raises(ValueError, match="give compare="):
        HeadView(A, TIRED, compare_tokens=WIDE)


def test_sides_are_named_once_and_in_full_with_true_minus_signs(static_page):
    difference = compared(side="difference", layer=0, head=0, query=1, key=1)
    lines = compared(mode="lines", layer=0, head=0, overlay=[[0, 0], [1, 2]])
    page = static_page(Listener(), difference, lines)
    change = (B - A)[0, 0, 1, 1].item()
    said = f"{change:.4f}".replace("-", "−")
    assert readout(page.locator(".mha").first) == f"query 1 “was”, key 1 “was”: wide − tired = {said}"
    plain, squeezed = ({text: share for text, *_, share, of in page.evaluate("texts") if of == n} for n in (0, 1))
    assert "wide − tired: layer 0 head 0" in plain and "wide − tired" not in plain
    assert not any(text.startswith("-") for text in plain)
    assert {squeezed[name] for name in ("tired: layer 0 head 0", "wide: layer 1 head 2")} == {1}
    assert {"tired", "wide"} <= set(squeezed)  # the legend of the bars


def test_maps_take_the_whole_width_below_the_overview_where_they_grow(static_page):
    few, many = ([some(n, n, 13, 13, seed=seed) for seed in (0, 1)] for n in (4, 12))
    words = {"tokens": list("abcdefghijklm"), "compare_tokens": list("ABCDEFGHIJKLM")}
    page = static_page(HeadView(few[0], compare=few[1]), HeadView(many[0], compare=many[1], **words), width=1280)
    for view in page.locator(".mha").all():
        overview, focus, bars = (view.locator(f"canvas.{n}").bounding_box() for n in ("overview", "focus", "bars"))
        assert focus["y"] >= max(box["y"] + box["height"] for box in (overview, bars)) and bars["y"] == overview["y"]
        assert focus["width"] > 1100

"""What the reader sees of a widget: marks, contrast, and what is written in it."""

import itertools

import pytest
import torch

from headview import HeadLab, HeadView, ReshapeView
from mhalib import causal_mask
from mhalib.plots import HATCH_COLOURS, MASKED_COLOURS
from tests.helpers.page import Listener, near, press, share, shot, with_traits

WORDS = "the cat sat on the mat".split()
MISSING = (213, 94, 0)


def masked(theme):
    """The colours of what is masked and of the strokes on it."""
    return [tuple(bytes.fromhex(of[theme][1:])) for of in (MASKED_COLOURS, HATCH_COLOURS)]


def causal(heads, tokens):
    """Attention of a layer under a causal mask, with a NaN in it."""
    mask = causal_mask(tokens)
    weights = torch.randn(heads, tokens, tokens).masked_fill(~mask, -torch.inf).softmax(-1)
    weights[0, tokens // 2] = torch.nan
    return weights, mask


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_masked_and_nan_are_marked_besides_their_colour(static_page, theme):
    kinds = {8: (0, 0, 0), 100: (255, 255, 255)}  # a question mark, or hatching of small cells
    ground, stroke = masked(theme)
    page = static_page(*(HeadView(causal(2, n)[0], mask=causal_mask(n)) for n in kinds), theme=theme, width=700)
    for number, (tokens, ink) in enumerate(kinds.items()):
        image = shot(page.locator("canvas.focus").nth(number))
        assert share(image, ground) > 0.1
        assert share(image, stroke, within=25) > 0.003
        row = image[near(image, MISSING).sum(-1) > tokens]
        red = near(row, MISSING)
        assert red.any(), "NaN has no colour"
        among = row[:, red.any(0).argmax() : red.any(0).nonzero()[0].max()]
        assert share(among, ink, within=60) > 0.01, "NaN has no mark"


def test_the_lab_marks_what_is_masked(static_page):
    masks = "none", "causal", "padding"
    page = static_page(*(HeadLab(torch.randn(6, 8), num_heads=2, mask=mask, valid_len=3) for mask in masks))
    without, *others = (shot(page.locator("canvas").nth(number)) for number in range(3))
    for image, colour in itertools.product(others, masked("light")):
        assert share(image, colour, within=12) > share(without, colour, within=12) + 0.002


@pytest.mark.parametrize(("width", "theme"), [(1100, "dark"), (320, "light")])
def test_text_on_a_canvas_can_be_read_and_is_not_cut_off(static_page, width, theme):
    weights, mask = causal(4, 6)
    views = {
        "map": HeadView(weights, WORDS, mask=mask),
        "lines": with_traits(HeadView(weights, WORDS, mask=mask), mode="lines", overlay=[[0, 1], [0, 2]]),
        "flat": HeadView(torch.linspace(0, 1, 20).view(10, 2).softmax(-1)),
        "large": HeadView(causal(4, 60)[0]),
        "lab": HeadLab(*torch.randn(3, 6, 8), tokens=WORDS, num_heads=2, mask="causal"),
        "reshape": ReshapeView(8, 4, 4, batch=2, path="wrong split"),
    }
    page = static_page(Listener(), *views.values(), width=width, theme=theme, reduced_motion=True)
    cut = [text for text in page.evaluate("texts") if text[2] < -1.5 or text[3] > text[4] + 1.5 or text[5] < 0.75]
    for number in range(len(views)):
        page.locator(".mha").nth(number).locator("canvas[tabindex]").last.focus()
        press(page, "ArrowDown", "ArrowRight", "ArrowDown", "PageDown")
    page.wait_for_function(f"[...Array({len(views)}).keys()].every((n) => texts.filter((t) => t[6] === n).length > 7)")
    pale = [text for text in page.evaluate("texts") if text[1] < 4.5]
    assert (pale, cut) == ([], [])

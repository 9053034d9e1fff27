"""What the reader sees of a widget: marks, contrast, what is written in it, and the code it shows."""

import itertools

import numpy as np
import pytest
import torch

from mhalib import MultiHeadAttention, causal_mask
from mhalib.reference import import_d2l
from mhalib.widgets import HeadLab, HeadView, ReshapeView
from tests.headview.head_lab.test_head_lab_page import numbers, seen
from tests.helpers.page import Listener, near, press, share, shot, with_traits

WORDS = "the cat sat on the mat".split()
MASKED, CROSS, MISSING = (228, 228, 228), (92, 92, 92), (213, 94, 0)


def causal(heads, tokens):
    """Attention of a layer under a causal mask, with a NaN in it."""
    mask = causal_mask(tokens)
    weights = torch.randn(heads, tokens, tokens).masked_fill(~mask, -torch.inf).softmax(-1)
    weights[0, tokens // 2] = torch.nan
    return weights, mask


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_masked_and_nan_are_marked_besides_their_colour(static_page, theme):
    kinds = {8: (CROSS, (0, 0, 0)), 100: ((150, 150, 150), (255, 255, 255))}  # crosses, or hatching of small cells
    page = static_page(*(HeadView(causal(2, n)[0], mask=causal_mask(n)) for n in kinds), theme=theme, width=700)
    for number, (tokens, (mark, ink)) in enumerate(kinds.items()):
        image = shot(page.locator("canvas.focus").nth(number))
        assert share(image, MASKED) > 0.1
        assert share(image, mark, within=25) > 0.003
        row = image[near(image, MISSING).sum(-1) > tokens]
        red = near(row, MISSING)
        assert red.any(), "NaN has no colour"
        among = row[:, red.any(0).argmax() : red.any(0).nonzero()[0].max()]
        assert share(among, ink, within=60) > 0.01, "NaN has no mark"


def test_the_lab_marks_what_is_masked(static_page):
    masks = "none", "causal", "padding"
    page = static_page(*(HeadLab(torch.randn(6, 8), num_heads=2, mask=mask, valid_len=3) for mask in masks))
    without, *others = (shot(page.locator("canvas").nth(number)) for number in range(3))
    for image, colour in itertools.product(others, (MASKED, CROSS)):
        assert share(image, colour) > share(without, colour) + 0.002


@pytest.mark.parametrize(("width", "theme"), [(1100, "light"), (700, "dark"), (320, "light")])
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
    texts = page.evaluate("texts")
    few = [name for number, name in enumerate(views) if sum(text[6] == number for text in texts) < 8]
    pale = [text for text in texts if text[1] < 4.5]
    assert (few, pale, cut) == ([], [], [])


# ---------------------------------------------------------------- the code


def test_the_code_reproduces_what_is_seen(static_page):
    layer = MultiHeadAttention(8, 4, num_kv_heads=2, bias=True)
    d2l = import_d2l().MultiHeadAttention(8, 8, 8, 8, 2, 0.0).eval()
    x, memory, batch = torch.randn(6, 8), torch.randn(2, 9, 8), torch.randn(2, 6, 8)
    q, k, v = torch.randn(6, 8).numpy(), torch.randn(1, 9, 8).double(), torch.randn(9, 8).bfloat16()
    of = {
        "a slice": HeadLab.of(layer, batch[1], names=("batch[1]",)),
        "a batch of one": HeadLab.of(layer, x[None].double()),
        "numpy": HeadLab.of(layer, x.numpy()),
        "memory": HeadLab.of(layer, x, memory[0], names=("x", "memory[0]")),
        "d2l": HeadLab.of(d2l, x),
        "kinds of tensors": HeadLab(q, k, v, num_heads=4),
        "no values": HeadLab(x.requires_grad_(), num_heads=4),
    }
    spaces = [{"layer": layer, "x": x, "memory": memory, "batch": batch}] * 4
    spaces += [{"layer": d2l, "x": x}, {"q": q, "k": k, "v": v}, {"q": x}]
    spaces[1], spaces[2] = spaces[1] | {"x": x[None].double()}, spaces[2] | {"x": x.detach().numpy()}
    page, failures = static_page(*map(seen, of.values())), []
    for number, ((form, lab), names) in enumerate(zip(of.items(), spaces, strict=True)):
        view = page.locator(".mha").nth(number)
        view.get_by_text("Show the code").click()
        for mask, scale in (("none", "d_model"), ("causal", "none"), ("padding", "head_dim"), ("own", "head_dim")):
            view.get_by_label("Mask", exact=True).select_option(mask)
            view.get_by_label("Scale").select_option(scale)
            if mask == "padding":
                view.get_by_label("Valid keys").press("ArrowLeft")
            if mask == "own":
                view.locator("canvas").press("Space")
                view.locator("canvas").press("ArrowDown")
            view.get_by_label("Temperature").press("ArrowLeft")
            space = dict(names)
            exec(view.locator("pre").text_content(), space)
            for name in ("weights", "entropy") + (("output",) if lab.v_bytes else ()):
                made = space[name].flatten().detach().numpy()
                if not np.allclose(made, numbers(view, name), atol=2e-5, rtol=2e-5):
                    failures.append((form, mask, scale, name))
    assert failures == []
    assert "# as HeadLab.of was given them: x (6, 8)\n" in page.locator("pre").nth(4).text_content()

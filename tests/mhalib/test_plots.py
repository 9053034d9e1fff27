"""Pictures: what is on them, read back from the figure, and what is refused."""

import io
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from IPython.utils.capture import capture_output
from matplotlib import colormaps
from matplotlib.image import imread

from mhalib import causal_mask, split_heads
from mhalib.plots import (
    COLOUR_MAP,
    DARK_INK_FROM,
    DIVERGING,
    new_figure,
    plot_attention,
    plot_reshape,
    plot_shapes,
    pooled,
    share,
    ticks,
)
from tests.helpers.refusals import accepted

LABELS = 10 * torch.arange(4)[:, None] + torch.arange(6)


def texts(figure):
    figure.draw_without_rendering()
    return [
        t.get_text() for axes in figure.axes for t in (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels())
    ]


def pixels(figure):
    return imread(io.BytesIO(figure._repr_mimebundle_()[0]["image/png"]))


def image_of(figure):
    return figure.axes[0].images[0].get_array()


# ---------------------------------------------------------------------------------------------- colours and scales


@pytest.mark.parametrize("heads", [1, 8, 64])
def test_all_heads_are_one_image_on_one_scale(heads):
    figure = plot_attention(torch.rand(heads, 5, 7))
    images = [image for axes in figure.axes for image in axes.images]
    assert len(images) == 1 and len(figure.axes) == 2  # one picture, one colour bar
    assert figure.axes[1].get_ylim() == (0.0, 1.0)
    assert [t for t in texts(figure) if t.startswith("head ")] == [f"head {i}" for i in range(heads)]


def test_every_cell_has_the_colour_of_its_weight():
    weights = torch.tensor([[[0.0, 1.0], [0.25, 0.75]], [[0.5, 0.5], [1.0, 0.0]]])
    image = image_of(plot_attention(weights))
    drawn = np.concatenate([image[:, :2], image[:, -2:]], axis=1)
    wanted = colormaps[COLOUR_MAP](torch.cat([weights[0], weights[1]], dim=1).numpy())
    np.testing.assert_allclose(drawn, wanted)


def test_ink_turns_dark_where_black_has_more_contrast_than_white():
    """WCAG 2, relative luminance and contrast ratio."""
    weights = np.arange(0, 1, 0.005)
    colours = colormaps[COLOUR_MAP](weights)[:, :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    bright = linear @ (0.2126, 0.7152, 0.0722)
    dark_ink = (bright + 0.05) / 0.05 > 1.05 / (bright + 0.05)
    assert weights[dark_ink.argmax()] == pytest.approx(DARK_INK_FROM) and dark_ink[dark_ink.argmax() :].all()


@pytest.mark.parametrize(
    ("scale", "top", "wanted"),
    [
        ("fixed", 1.0, [0, 0.01, 0.25, 1]),
        ("maximum", 0.5, [0, 0.02, 0.5, 1]),
        ("log", 1.0, [0, 0.5, 0.849485, 1]),
        ("root", 1.0, [0, 0.1, 0.5, 1]),
    ],
)
def test_scales_are_as_they_are_written_down(scale, top, wanted):
    weights = np.array([0, 0.01, 0.25, 1], np.float32)
    np.testing.assert_allclose(share(weights, scale, top), wanted, atol=1e-6)
    np.testing.assert_allclose(share(-weights, scale, top, True), 0.5 - np.array(wanted) / 2, atol=1e-6)
    assert np.isnan(share(np.array([np.nan]), scale, top)).all() and share(np.array([-np.inf]), scale, top) == 0
    for signed in (False, True):
        at, said = zip(*ticks(scale, top, signed), strict=True)
        assert list(at) == sorted(set(at)) and at[0] == 0 and at[-1] == 1 and len(set(said)) == len(said)
        for place, text in zip(at, said, strict=True):
            number = float(text.replace("−", "-").removeprefix("≤ "))
            assert share(np.array([number]), scale, top, signed) == pytest.approx([place], abs=2e-3)
    for odd in (3e-7, 5e-4, 0.013, 7.3, 4e6):
        at = [place for place, _ in ticks(scale, odd)]
        assert at == sorted(at) and at[-1] == 1 and 2 <= len(at) <= 16


def test_every_head_of_a_picture_has_the_scale_that_is_written_on_it():
    weights = torch.stack([torch.eye(3) * 0.5, torch.full((3, 3), 0.1)])
    figure = plot_attention(weights, scale="maximum")
    np.testing.assert_allclose(image_of(figure)[0, 0], colormaps[COLOUR_MAP](1.0))
    np.testing.assert_allclose(image_of(figure)[-1, -1], colormaps[COLOUR_MAP](0.2), atol=0.01)  # not stretched alone
    assert "from 0 to 0.5, the largest in the picture" in figure.alt and "0.5" in texts(figure)
    figure = plot_attention(torch.tensor([[0.99, 1e-2, 1e-5]]), scale="log")
    np.testing.assert_allclose(image_of(figure)[0, 1], colormaps[COLOUR_MAP](0.5))
    assert "≤ 0.0001" in texts(figure) and "below 0.0001 the lowest colour" in figure.alt
    assert "colours from 0 to 1 on a scale of square roots" in plot_attention(torch.eye(3) * 0.5, scale="root").alt


def test_signed_values_have_their_middle_at_zero():
    figure = plot_attention(torch.tensor([[-2.0, 0.0, 1.0]]), kind="signed")
    np.testing.assert_allclose(image_of(figure)[0], colormaps[DIVERGING]([0, 0.5, 0.75]))
    assert {"−2", "0", "2", "-2.00", "1.00"} <= set(texts(figure)) and "from −2 to 2" in figure.alt
    plot_attention(torch.zeros(3, 3), kind="signed")


def test_masked_and_missing_cells_are_marked_by_sign_as_well_as_by_colour():
    weights = torch.full((3, 3), 1 / 3)
    weights[2, 0] = weights[0, 1] = torch.nan  # the second one is masked, and marked as that
    axes = plot_attention(weights, mask=causal_mask(3)).axes[0]
    crosses, questions = (set(zip(*line.get_data(), strict=True)) for line in axes.lines)
    assert crosses == {(1, 0), (2, 0), (2, 1)} and questions == {(0, 2)}
    image = axes.images[0].get_array()
    assert len({tuple(image[i, j]) for i, j in ((0, 0), (0, 1), (2, 0))}) == 3
    assert "masked" in axes.get_xlabel() and "NaN" in axes.get_xlabel()
    assert "masked" not in plot_attention(torch.rand(3, 3)).axes[0].get_xlabel()
    axes = plot_attention(torch.rand(1500, 1500), mask=causal_mask(1500), colour_map="Greys").axes[0]
    assert "yellow: masked" in axes.get_xlabel() and not axes.lines


# ------------------------------------------------------------------------------------------------------- long maps

cell = st.one_of(st.sampled_from([math.nan, -math.inf, -2.0, 2.0]), st.integers(-3, 3).map(float))


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.data())
def test_maps_are_pooled_by_their_largest_and_of_two_as_large_by_size_the_positive_stays(
    tall, wide, rows, columns, signed, data
):
    cells = np.array(data.draw(st.lists(cell, min_size=tall * wide, max_size=tall * wide)), np.float32)
    cells = (cells if signed else np.where(cells == -np.inf, cells, np.abs(cells))).reshape(tall, wide)

    def largest(block):
        if np.isnan(block).any():
            return math.nan
        seen = block[block > -math.inf]
        return max(seen, key=lambda x: (abs(x), x) if signed else x) if len(seen) else -math.inf

    wanted = [
        [largest(cells[i : i + rows, j : j + columns]) for j in range(0, wide, columns)] for i in range(0, tall, rows)
    ]
    np.testing.assert_array_equal(pooled(cells[None], rows, columns, signed)[0], np.array(wanted, np.float32))


@pytest.mark.parametrize(("queries", "keys"), [(2000, 2000), (3000, 40), (700, 900)])
def test_one_weight_of_a_long_map_is_never_lost(queries, keys):
    weights = torch.zeros(queries, keys)
    weights[queries // 3, keys // 7] = 1.0
    figure = plot_attention(weights)
    figure.draw_without_rendering()
    image = figure.axes[0].images[0]
    drawn, box = image.get_array(), image.get_window_extent()
    assert box.width >= drawn.shape[1] and box.height >= drawn.shape[0]  # no cell falls between two pixels
    assert (np.abs(drawn - colormaps[COLOUR_MAP](1.0)).max(-1) < 1e-6).sum() == 1
    down, right = round(queries / drawn.shape[0]), round(keys / drawn.shape[1])
    said = f"each pixel: the largest of {down} × {right} weights"
    assert (said in figure.alt and said in figure.axes[0].get_xlabel()) or down == right == 1
    assert any(text.isdigit() and int(text) >= 500 for text in texts(figure))


def test_a_crowd_of_heads_and_half_precision_are_drawn_head_by_head(monkeypatch):
    weights = torch.softmax(torch.randn(5, 40, 40), -1)
    whole = image_of(plot_attention(weights))
    monkeypatch.setattr("mhalib.plots.attention._AT_ONCE", 3000)
    np.testing.assert_array_equal(image_of(plot_attention(weights)), whole)
    weights[3, 1, 1] = 7
    with pytest.raises(ValueError, match=r"of weights\[3:4\] lies"):
        plot_attention(weights)
    plot_attention(torch.full((1, 2, 3, 3), 1 / 3, dtype=torch.bfloat16, requires_grad=True))


# ---------------------------------------------------------------------------------------------------------- labels


def test_tokens_and_names_are_plain_text_in_every_picture():
    tokens = ["<img src=x onerror=alert(1)>", "$\\frac{$", "", "a_b"]  # the second read as mathematics would raise
    figure = plot_attention(torch.rand(2, 4, 4), tokens)
    assert all(texts(figure).count(token) >= 2 for token in tokens if token)
    for drawn in (figure, plot_shapes([(tokens[1], (2, 3))]), plot_reshape({tokens[1]: LABELS}, lambda n: 0, tokens)):
        pixels(drawn)
    figure = plot_attention(torch.rand(1, 2, 2, 3), ["je", "suis"], ["I", "am", "here"], titles=["first", "second"])
    assert {"je", "suis", "I", "am", "here", "first", "second"} <= set(texts(figure))
    assert figure.alt.endswith("first; second.")


def test_long_labels_are_cut_and_many_are_thinned_and_leave_room_for_the_maps():
    figure = plot_attention(torch.rand(2, 3, 3), ["a" * 200, "b", "c"])
    assert "a" * 29 + "…" in texts(figure)
    assert max(pixels(figure).shape) < 1400
    assert figure.axes[0].images[0].get_window_extent().width > 200
    figure = plot_attention(torch.rand(300, 300), [f"word{i}" for i in range(300)])
    words = [text for text in texts(figure) if text.startswith("word")]
    assert 40 < len(words) < 200 and "word0" in words
    assert "0.50" in texts(plot_attention(torch.full((2, 2), 0.5))), "values are written where there is room"
    assert "0.50" not in texts(plot_attention(torch.full((20, 20), 0.5)))
    axes = plot_attention(torch.rand(5, 2, 2), ["a", "b"], columns=3).axes[0]  # the last line is not full
    assert len(axes.get_xticks()) == 2 * 2 and [t.get_text() for t in axes.texts].count("a") == 1
    said = texts(plot_attention(torch.rand(400, 3, 3)))
    assert "head 0" not in said and "0" in said


@pytest.mark.parametrize(("heads", "tokens"), [(1, 20), (3, 12), (8, 4)])
def test_labels_do_not_run_into_each_other(heads, tokens):
    figure = plot_attention(torch.rand(heads, tokens, tokens), [f"token{i}" for i in range(tokens)])
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = [t.get_window_extent() for t in axes.texts if t.get_text().startswith("token")]
    boxes += [t.get_window_extent() for t in (*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label)]
    assert not [
        (a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.shrunk(0.8, 0.8).overlaps(b.shrunk(0.8, 0.8))
    ]


# ------------------------------------------------------------------------------------------- figures in a notebook


def test_figures_describe_themselves_and_are_neither_shown_nor_kept_by_pyplot():
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    data, metadata = plot_attention(torch.eye(3))._repr_mimebundle_()
    plot_shapes([("x", (1, 2))]), new_figure("a line")
    assert pyplot.get_fignums() == before
    assert data["image/png"].startswith(b"\x89PNG") and b"Software" not in data["image/png"]
    assert "1 head, 3 queries by 3 keys, colours from 0 to 1." in metadata["image/png"]["alt"]


def test_pictures_keep_their_form_where_pyplot_has_registered_another():
    shell = InteractiveShell.instance()
    try:
        select_figure_formats(shell, {"svg"})  # as d2l.show_heatmaps does
        with capture_output() as captured:
            shell.display_formatter.format(plot_attention(torch.eye(3)))
        (shown,) = captured.outputs
        assert set(shown.data) == {"image/png", "text/plain"}
        assert "3 queries by 3 keys" in shown.metadata["image/png"]["alt"]
    finally:
        InteractiveShell.clear_instance()


def test_reshape_writes_every_number_in_its_place_and_shapes_are_stacked():
    heads = split_heads(LABELS[None], 2)
    figure = plot_reshape({"x": LABELS[None], "split": heads}, lambda n: n % 10 // 3, ["head 0", "head 1"])
    before, after = ([t.get_text() for t in axes.texts if t.get_text().isdigit()] for axes in figure.axes)
    assert before == [str(n) for n in LABELS.flatten().tolist()]
    assert after == [str(n) for n in heads.flatten().tolist()]
    colours = {tuple(patch.get_facecolor()) for patch in figure.axes[1].patches[:12]}
    assert len(colours) == 1  # all cells of head 0 come from one group
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["head 0", "head 1"]
    figure = plot_shapes([("x", (1, 4, 512)), ("q", (1, 8, 4, 64))])
    assert texts(figure)[0] == "x\n(1, 4, 512)"
    assert len(figure.axes[0].patches) == 1 + 8
    assert "q (1, 8, 4, 64)" in figure.alt


def test_what_cannot_be_drawn_is_refused_before_anything_is_drawn(as_shipped):
    weights, ints = torch.rand(3, 3), torch.ones(30, 30, dtype=torch.int64)
    attention = partial(plot_attention, weights)
    calls = {
        "TypeError: weights: attention weights are floating": partial(plot_attention, ints),
        "TypeError: weights must be a tensor, got a tuple of 2": partial(plot_attention, (weights, weights)),
        "columns must be a positive integer, got 0": partial(attention, columns=0),
        "apply softmax(-1) to scores first": partial(plot_attention, torch.randn(4, 9, 9) * 3),
        "none empty, got (0, 3)": partial(plot_attention, weights[:0]),
        "tokens has 2 labels, the weights have 3 queries": partial(attention, ["a", "b"]),
        "titles has 2 labels, the weights have 1 heads": partial(attention, titles=["a", "b"]),
        "got one string; use .split()": partial(attention, "abc"),
        "mask (4, 4) does not fit": partial(attention, mask=torch.ones(4, 4).bool()),
        "do not fit one picture": partial(plot_attention, weights.expand(20_000, 3, 3)),
        "scale must be one of 'fixed',": partial(attention, scale="linear"),
        "use scale='maximum'": partial(plot_attention, 2 * torch.eye(3), kind="signed", scale="fixed"),
        "use kind='signed'": partial(plot_attention, -torch.eye(3), kind="positive"),
        "hold infinite numbers": partial(plot_attention, weights / 0, kind="signed"),
        "with a batch of 1, got (2, 2, 2, 2)": partial(plot_reshape, {"x": ints[:2, :8].view(2, 2, 2, 2)}, len),
        "too many to read": partial(plot_reshape, {"x": ints}, lambda n: n),
        "x: a shape needs at least 2 axes": partial(plot_shapes, [("x", (3,))]),
    }
    assert accepted(calls) == []

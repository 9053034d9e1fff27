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
from matplotlib import colormaps, pyplot
from matplotlib.image import imread

from mhalib import causal_mask, plots, split_heads
from mhalib.plots import COLOUR_MAP, plot_attention, plot_reshape, plot_shapes
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


def test_all_heads_are_one_image_in_which_every_cell_has_the_colour_of_its_weight():
    for heads in (1, 8, 64):
        figure = plot_attention(torch.rand(heads, 5, 7))
        assert [len(axes.images) for axes in figure.axes] == [1, 0]  # one picture, one colour bar
        assert figure.axes[1].get_ylim() == (0.0, 1.0)
        assert [t for t in texts(figure) if t.startswith("head ")] == [f"head {i}" for i in range(heads)]
    weights = torch.tensor([[[0.0, 1.0], [0.25, 0.75]], [[0.5, 0.5], [1.0, 0.0]]])
    image = image_of(plot_attention(weights))
    for drawn, head in ((image[:, :2], weights[0]), (image[:, -2:], weights[1])):
        np.testing.assert_allclose(drawn, colormaps[COLOUR_MAP](head.numpy()))


@pytest.mark.parametrize(("theme", "page"), [("light", (255, 255, 255)), ("dark", (27, 27, 27))])
def test_zero_is_the_page_and_ink_is_even_for_the_eye(theme, page):
    """CIE 1976: the lightness L*, by which steps are compared."""
    ink, signed = np.array(plots.ink_shades(theme)), np.array(plots.signed_shades(theme))
    assert tuple(np.rint(255 * ink[0])) == page and np.abs(255 * signed[[127, 128]] - page).max() <= 2
    linear = np.where(ink <= 0.04045, ink / 12.92, ((ink + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)
    lightness = np.where(linear > 0.008856, 116 * np.cbrt(linear) - 16, 903.3 * linear)[::16]
    steps = np.diff(lightness) * (-1 if theme == "light" else 1)
    assert steps.min() > 2.5 and steps.max() < 2 * steps.min()


SCALES = {  # where it ends, and where 0, 0.01, 0.25 and 1 stand on it
    "fixed": (1.0, [0, 0.01, 0.25, 1]),
    "maximum": (0.5, [0, 0.02, 0.5, 1]),
    "log": (1.0, [0, 0.5, 0.849485, 1]),
    "root": (1.0, [0, 0.1, 0.5, 1]),
}


@pytest.mark.parametrize("scale", SCALES)
def test_scales_are_as_they_are_written_down(scale):
    weights, (top, wanted) = np.array([0, 0.01, 0.25, 1], np.float32), SCALES[scale]
    np.testing.assert_allclose(plots.share(weights, scale, top), wanted, atol=1e-6)
    np.testing.assert_allclose(plots.share(-weights, scale, top, True), 0.5 - np.array(wanted) / 2, atol=1e-6)
    np.testing.assert_equal(plots.share(np.array([np.nan, -np.inf]), scale, top), np.float32([np.nan, 0]))
    for signed in (False, True):
        at, said = zip(*plots.ticks(scale, top, signed), strict=True)
        assert list(at) == sorted(set(at)) and at[0] == 0 and at[-1] == 1 and len(set(said)) == len(said)
        numbers = np.array([float(text.replace("−", "-").removeprefix("≤ ")) for text in said])
        np.testing.assert_allclose(plots.share(numbers, scale, top, signed), at, rtol=1e-6, atol=2e-3)
    for odd in (3e-7, 5e-4, 0.013, 7.3, 4e6):
        at = [place for place, _ in plots.ticks(scale, odd)]
        assert at == sorted(at) and at[-1] == 1 and 2 <= len(at) <= 16


def test_a_picture_has_the_scale_that_is_written_on_it():
    weights = torch.stack([torch.eye(3) * 0.5, torch.full((3, 3), 0.1)])
    figure = plot_attention(weights, scale="maximum")
    np.testing.assert_allclose(image_of(figure)[0, 0], colormaps[COLOUR_MAP](1.0))
    np.testing.assert_allclose(image_of(figure)[-1, -1], colormaps[COLOUR_MAP](0.2), atol=0.01)  # not stretched alone
    assert "from 0 to 0.5, the largest in the picture" in figure.alt and "0.5" in texts(figure)
    figure = plot_attention(torch.tensor([[0.99, 1e-2, 1e-5]]), scale="log")
    np.testing.assert_allclose(image_of(figure)[0, 1], colormaps[COLOUR_MAP](0.5))
    assert "≤ 0.0001" in texts(figure) and "below 0.0001 the lowest colour" in figure.alt
    assert "colours from 0 to 1 on a scale of square roots" in plot_attention(torch.eye(3) * 0.5, scale="root").alt
    figure = plot_attention(torch.tensor([[-2.0, 0.0, 1.0]]), kind="signed")  # 0 has the colour in the middle
    np.testing.assert_allclose(image_of(figure)[0], colormaps[plots.DIVERGING]([0, 0.5, 0.75]))
    assert {"−2", "0", "2", "-2.00", "1.00"} <= set(texts(figure)) and "from −2 to 2" in figure.alt
    plot_attention(torch.zeros(3, 3), kind="signed")


def test_masked_and_missing_cells_are_marked_by_sign_as_well_as_by_colour():
    weights = torch.full((3, 3), 1 / 3)
    weights[2, 0] = weights[0, 1] = torch.nan  # the second one is masked, and marked as that
    axes = plot_attention(weights, mask=causal_mask(3)).axes[0]
    (strokes,), (questions,) = axes.collections, axes.lines
    middles = {tuple(np.rint(stroke.mean(0))) for stroke in strokes.get_segments()}
    assert middles == {(1, 0), (2, 0), (2, 1)} and set(zip(*questions.get_data(), strict=True)) == {(0, 2)}
    image = axes.images[0].get_array()
    assert len({tuple(image[i, j]) for i, j in ((0, 0), (0, 1), (2, 0))}) == 3
    assert axes.get_xlabel() == "key\nhatched: masked · ?: NaN"  # on a line of its own
    assert "masked" not in plot_attention(torch.rand(3, 3)).axes[0].get_xlabel()
    axes = plot_attention(torch.rand(1500, 1500), mask=causal_mask(1500)).axes[0]
    assert "grey: masked" in axes.get_xlabel() and not axes.lines


@given(st.tuples(*[st.integers(1, 5)] * 2), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.data())
def test_maps_are_pooled_by_their_largest_and_of_two_as_large_by_size_the_positive_stays(
    shape, rows, columns, signed, data
):
    cell = st.sampled_from([math.nan, -math.inf, *map(float, range(-3 if signed else 0, 4))])
    size = math.prod(shape)
    cells = np.array(data.draw(st.lists(cell, min_size=size, max_size=size)), np.float32).reshape(shape)

    def largest(block):
        if np.isnan(block).any():
            return math.nan
        return max(block[block > -math.inf], key=lambda x: (abs(x), x), default=-math.inf)

    found = plots.pooled(cells[None], rows, columns, signed)[0]
    wanted = [
        [largest(cells[i : i + rows, j : j + columns]) for j in range(0, shape[1], columns)]
        for i in range(0, shape[0], rows)
    ]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


@pytest.mark.parametrize(("queries", "keys"), [(3000, 80), (700, 900)])
def test_one_weight_of_a_long_map_is_never_lost(queries, keys):
    weights = torch.zeros(queries, keys)
    weights[queries // 3, keys // 7] = 1.0
    figure = plot_attention(weights)
    figure.draw_without_rendering()
    image = figure.axes[0].images[0]
    drawn, box = image.get_array(), image.get_window_extent()
    assert box.width >= drawn.shape[1] and box.height >= drawn.shape[0]  # no cell falls between two pixels
    assert (np.abs(drawn - colormaps[COLOUR_MAP](1.0)).max(-1) < 1e-6).sum() == 1
    pool = round(queries / drawn.shape[0])
    said = f"each pixel: the largest of {pool} × {pool} weights"
    assert said in figure.alt and said in figure.axes[0].get_xlabel()
    assert any(text.isdigit() and int(text) >= 500 for text in texts(figure))


# ---------------------------------------------------------------------------------------------------------- labels


def test_tokens_and_names_are_plain_text_in_every_picture():
    tokens = ["<img src=x onerror=alert(1)>", "$\\frac{$", "", "a_b"]  # the second read as mathematics would raise
    figure = plot_attention(torch.rand(2, 4, 4), tokens)
    assert all(texts(figure).count(token) >= 2 for token in tokens if token)
    for drawn in (figure, plot_shapes([(tokens[1], (2, 3))]), plot_reshape({tokens[1]: LABELS}, lambda n: 0, tokens)):
        pixels(drawn)
    weights = torch.full((1, 2, 2, 3), 1 / 3, dtype=torch.bfloat16, requires_grad=True)
    figure = plot_attention(weights, ["je", "suis"], ["I", "am", "here"], titles=["first", "second"])
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
    labels = [t for t in axes.texts if t.get_text().startswith("token")]
    labels += [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label]
    boxes = [label.get_window_extent().shrunk(0.8, 0.8) for label in labels]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]


def test_figures_are_described_pictures_that_pyplot_neither_keeps_nor_changes():
    before, shell = pyplot.get_fignums(), InteractiveShell.instance()
    figure = plot_attention(torch.eye(3))
    plot_shapes([("x", (1, 2))]), plots.new_figure("a line")
    assert pyplot.get_fignums() == before
    try:
        select_figure_formats(shell, {"svg"})  # as d2l.show_heatmaps does
        with capture_output() as captured:
            shell.display_formatter.format(figure)
    finally:
        InteractiveShell.clear_instance()
    (shown,) = captured.outputs
    assert set(shown.data) == {"image/png", "text/plain"}
    assert "1 head, 3 queries by 3 keys, colours from 0 to 1." in shown.metadata["image/png"]["alt"]
    png = figure._repr_mimebundle_()[0]["image/png"]
    assert png.startswith(b"\x89PNG") and b"Software" not in png


def test_reshape_writes_every_number_in_its_place_and_shapes_are_stacked():
    heads = split_heads(LABELS[None], 2)
    figure = plot_reshape({"x": LABELS[None], "split": heads}, lambda n: n % 10 // 3, ["head 0", "head 1"])
    for axes, numbers in zip(figure.axes, (LABELS, heads), strict=True):
        assert [t.get_text() for t in axes.texts if t.get_text().isdigit()] == [
            str(n) for n in numbers.flatten().tolist()
        ]
    colours = {tuple(patch.get_facecolor()) for patch in figure.axes[1].patches[:12]}
    assert len(colours) == 1  # all cells of head 0 come from one group
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["head 0", "head 1"]
    figure = plot_shapes([("x", (1, 4, 512)), ("q", (1, 8, 4, 64))])
    assert texts(figure)[0] == "x\n(1, 4, 512)"
    assert len(figure.axes[0].patches) == 1 + 8
    assert "q (1, 8, 4, 64)" in figure.alt


def test_what_cannot_be_drawn_is_refused(as_shipped):
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
        "kind must be one of 'weights', 'signed'": partial(attention, kind="positive"),
        "hold infinite numbers": partial(plot_attention, weights / 0, kind="signed"),
        "with a batch of 1, got (2, 2, 2, 2)": partial(plot_reshape, {"x": ints[:2, :8].view(2, 2, 2, 2)}, len, []),
        "too many to read": partial(plot_reshape, {"x": ints}, lambda n: n, []),
        "x: a shape needs at least 2 axes": partial(plot_shapes, [("x", (3,))]),
    }
    assert accepted(calls) == []

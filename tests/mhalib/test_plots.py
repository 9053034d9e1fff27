"""Pictures: what is on them, read back from the figure, and what is refused."""

import io

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from IPython.utils.capture import capture_output
from matplotlib import colormaps
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.image import imread

from mhalib import causal_mask, split_heads
from mhalib.plots import (
    COLOUR_MAP,
    DARK_INK_FROM,
    DIVERGING,
    NAN_COLOUR,
    new_figure,
    plot_attention,
    plot_reshape,
    plot_shapes,
    pooled,
    share,
    ticks,
)

LABELS = 10 * torch.arange(4)[:, None] + torch.arange(6)


def texts(figure):
    figure.draw_without_rendering()
    return [
        t.get_text() for axes in figure.axes for t in (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels())
    ]


def pixels(figure):
    return imread(io.BytesIO(figure._repr_mimebundle_()[0]["image/png"]))


@pytest.mark.parametrize("heads", [1, 2, 8, 16, 64])
def test_all_heads_are_one_image_on_one_scale(heads):
    figure = plot_attention(torch.rand(heads, 5, 7))
    assert isinstance(figure, Figure)
    images = [image for axes in figure.axes for image in axes.images]
    assert len(images) == 1 and len(figure.axes) == 2  # one picture, one colour bar
    assert figure.axes[1].get_ylim() == (0.0, 1.0)
    assert [t for t in texts(figure) if t.startswith("head ")] == [f"head {i}" for i in range(heads)]


def test_every_cell_has_the_colour_of_its_weight():
    weights = torch.tensor([[[0.0, 1.0], [0.25, 0.75]], [[0.5, 0.5], [1.0, 0.0]]])
    image = plot_attention(weights).axes[0].images[0].get_array()
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


def test_flat_maps_look_flat():
    """A scale per picture would stretch 0.24 to 0.26 over all colours."""
    weights = torch.full((4, 4), 0.25) + torch.eye(4) * 0.01
    image = plot_attention(weights).axes[0].images[0].get_array()
    assert np.abs(image - image[0, 0]).max() < 0.02


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


def test_tokens_label_both_axes_as_plain_text():
    tokens = ["<img src=x onerror=alert(1)>", "$\\frac{$", "", "a_b"]
    figure = plot_attention(torch.rand(2, 4, 4), tokens)
    assert all(texts(figure).count(token) >= 2 for token in tokens if token)
    pixels(figure)  # "$\\frac{$" read as mathematics would raise here
    figure = plot_attention(torch.rand(1, 2, 2, 3), ["je", "suis"], ["I", "am", "here"], titles=["first", "second"])
    assert {"je", "suis", "I", "am", "here", "first", "second"} <= set(texts(figure))


def test_names_are_plain_text_in_every_picture():
    name = "$\\frac{$"  # read as mathematics it would raise
    for figure in (plot_shapes([(name, (2, 3))]), plot_reshape({name: LABELS}, lambda n: 0, [name])):
        pixels(figure)


def test_long_tokens_are_cut_and_leave_room_for_the_maps():
    figure = plot_attention(torch.rand(2, 3, 3), ["a" * 200, "b", "c"])
    assert "a" * 29 + "…" in texts(figure)
    assert max(pixels(figure).shape) < 1400
    assert figure.axes[0].images[0].get_window_extent().width > 200


def test_values_are_written_where_there_is_room_or_where_asked():
    assert "0.50" in texts(plot_attention(torch.full((2, 2), 0.5)))
    assert "0.50" not in texts(plot_attention(torch.full((2, 2), 0.5), values=False))
    assert "0.50" not in texts(plot_attention(torch.full((20, 20), 0.5)))


def test_weights_from_a_layer_on_the_graph_or_in_half_precision_are_drawn():
    plot_attention(torch.rand(1, 2, 3, 3, requires_grad=True))
    plot_attention(torch.full((2, 3, 3), 1 / 3, dtype=torch.bfloat16))


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


def test_tiny_and_odd_ends_still_have_a_logarithmic_scale():
    for top in (3e-7, 5e-4, 0.013, 1.0, 7.3, 4e6):
        at = [place for place, _ in ticks("log", top)]
        assert at == sorted(at) and at[0] == 0 and at[-1] == 1 and 2 <= len(at) <= 16


def test_every_head_of_a_picture_has_the_scale_that_is_written_on_it():
    weights = torch.stack([torch.eye(3) * 0.5, torch.full((3, 3), 0.1)])
    figure = plot_attention(weights, scale="maximum")
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(image[0, 0], colormaps[COLOUR_MAP](1.0))
    np.testing.assert_allclose(image[-1, -1], colormaps[COLOUR_MAP](0.2), atol=0.01)  # not stretched on its own
    assert "from 0 to 0.5, the largest in the picture" in figure.alt
    assert "0.5" in texts(figure) and "to the largest, 0.5" in figure.axes[1].get_ylabel()
    figure = plot_attention(torch.tensor([[0.99, 1e-2, 1e-5]]), scale="log")
    np.testing.assert_allclose(figure.axes[0].images[0].get_array()[0, 1], colormaps[COLOUR_MAP](0.5))
    assert "colours from 0 to 1 on a scale of square roots" in plot_attention(torch.eye(3) * 0.5, scale="root").alt
    assert "≤ 0.0001" in texts(figure) and "below 0.0001 the lowest colour" in figure.alt


def test_signed_values_have_their_middle_at_zero():
    figure = plot_attention(torch.tensor([[-2.0, 0.0, 1.0]]), kind="signed")
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(image[0], colormaps[DIVERGING]([0, 0.5, 0.75]))
    assert {"−2", "0", "2", "-2.00", "1.00"} <= set(texts(figure)) and "from −2 to 2" in figure.alt
    plot_attention(torch.zeros(3, 3), kind="signed")


def test_colours_of_signed_values_differ_for_every_reader():
    """Machado, Oliveira and Fernandes (2009): full protanopia, deuteranopia and tritanopia, in linear RGB."""
    readers = [
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ]
    colours = np.concatenate([colormaps[DIVERGING](np.linspace(0, 1, 257)), to_rgba_array(NAN_COLOUR)])[:, :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    for reader in readers:
        seen = np.clip(linear @ np.transpose(reader), 0, 1)
        seen = np.where(seen <= 0.0031308, seen * 12.92, 1.055 * seen ** (1 / 2.4) - 0.055)
        ends = np.linalg.norm(seen[:65] - seen[256:191:-1], axis=1)  # as far from 0 below as above
        assert ends.min() > 0.15 and np.linalg.norm(seen[:257] - seen[257], axis=1).min() > 0.1


@pytest.mark.parametrize(("queries", "keys"), [(2000, 2000), (3000, 40), (1, 5000), (700, 900)])
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
    assert any(text.isdigit() and int(text) >= 500 for text in texts(figure)) == (max(queries, keys) > 500)


def test_maps_are_pooled_by_their_largest():
    cells = np.array([[[0.1, 0.9, -np.inf], [np.nan, 0.2, -np.inf], [-np.inf, 0.3, 0.4]]], np.float32)
    np.testing.assert_array_equal(pooled(cells, 2, 2), np.array([[[np.nan, -np.inf], [0.3, 0.4]]], np.float32))
    np.testing.assert_array_equal(pooled(cells, 1, 1), cells)
    cells = np.array([[1, -3, np.nan, 1], [-np.inf, 2, -np.inf, -np.inf], [-np.inf, -np.inf, 2, -1]], np.float32)
    wanted = np.array([[-3, np.nan], [-np.inf, 2]], np.float32)
    np.testing.assert_array_equal(pooled(cells, 2, 2, signed=True), wanted)


def test_masked_cells_of_long_maps_are_named_by_their_colour():
    axes = plot_attention(torch.rand(1500, 1500), mask=causal_mask(1500)).axes[0]
    assert "grey: masked" in axes.get_xlabel() and not axes.lines
    assert (
        "yellow: masked"
        in plot_attention(torch.rand(1500, 1500), mask=causal_mask(1500), colour_map="Greys").axes[0].get_xlabel()
    )


def test_long_labels_are_thinned_and_heads_too_small_for_a_name_are_numbered():
    figure = plot_attention(torch.rand(300, 300), [f"word{i}" for i in range(300)])
    words = [text for text in texts(figure) if text.startswith("word")]
    assert 40 < len(words) < 200 and "word0" in words
    said = texts(plot_attention(torch.rand(400, 3, 3)))
    assert "head 0" not in said and "0" in said


def test_a_crowd_of_heads_and_half_precision_are_drawn_head_by_head(monkeypatch):
    weights = torch.softmax(torch.randn(5, 40, 40), -1)
    whole = plot_attention(weights).axes[0].images[0].get_array()
    monkeypatch.setattr("mhalib.plots.attention._AT_ONCE", 3000)
    np.testing.assert_array_equal(plot_attention(weights).axes[0].images[0].get_array(), whole)
    weights[3, 1, 1] = 7
    with pytest.raises(ValueError, match=r"of weights\[3:4\] lies"):
        plot_attention(weights)


def test_figures_describe_themselves_and_are_the_same_bytes_every_time():
    def bundle():
        return plot_attention(torch.eye(3))._repr_mimebundle_()

    data, metadata = bundle()
    assert data["image/png"].startswith(b"\x89PNG") and b"Software" not in data["image/png"]
    assert data["image/png"] == bundle()[0]["image/png"]
    assert "1 head, 3 queries by 3 keys, colours from 0 to 1." in metadata["image/png"]["alt"]
    named = plot_attention(torch.rand(2, 3, 3), titles=["padded", "cut"])
    assert named.alt.endswith("padded; cut.")


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


def test_nothing_is_shown_or_kept_by_pyplot():
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    plot_attention(torch.rand(3, 3)), plot_shapes([("x", (1, 2))]), new_figure("a line")
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize("tokens", [4, 12, 20])
@pytest.mark.parametrize("heads", [1, 3, 8])
def test_labels_do_not_run_into_each_other(heads, tokens):
    figure = plot_attention(torch.rand(heads, tokens, tokens), [f"token{i}" for i in range(tokens)])
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = [t.get_window_extent() for t in axes.texts if t.get_text().startswith("token")]
    boxes += [t.get_window_extent() for t in (*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label)]
    overlaps = [
        (a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.shrunk(0.8, 0.8).overlaps(b.shrunk(0.8, 0.8))
    ]
    assert not overlaps


def test_reshape_writes_every_number_in_its_place():
    heads = split_heads(LABELS[None], 2)
    figure = plot_reshape({"x": LABELS[None], "split": heads}, lambda n: n % 10 // 3, ["head 0", "head 1"])
    before, after = ([t.get_text() for t in axes.texts if t.get_text().isdigit()] for axes in figure.axes)
    assert before == [str(n) for n in LABELS.flatten().tolist()]
    assert after == [str(n) for n in heads.flatten().tolist()]
    colours = {tuple(patch.get_facecolor()) for patch in figure.axes[1].patches[:12]}
    assert len(colours) == 1  # all cells of head 0 come from one group
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["head 0", "head 1"]


def test_shapes_are_written_and_stacked():
    figure = plot_shapes([("x", (1, 4, 512)), ("q", (1, 8, 4, 64))])
    assert texts(figure)[0] == "x\n(1, 4, 512)"
    assert len(figure.axes[0].patches) == 1 + 8
    assert "q (1, 8, 4, 64)" in figure.alt


@pytest.mark.parametrize(
    ("error", "message", "draw"),
    [
        (TypeError, "attention weights are floating, got torch.int64", lambda: plot_attention(torch.ones(2, 2).long())),
        (TypeError, "got a tuple of 2; where a model returns", lambda: plot_attention((torch.rand(3, 3),) * 2)),
        (TypeError, "of the pair that a layer returns, the second", lambda: plot_attention((torch.rand(3, 3),) * 2)),
        (ValueError, "columns must be a positive integer, got 0", lambda: plot_attention(torch.rand(3, 3), columns=0)),
        (ValueError, "apply softmax(-1) to scores first", lambda: plot_attention(torch.randn(4, 9, 9) * 3)),
        (ValueError, "weights hold 2 samples", lambda: plot_attention(torch.rand(2, 3, 4, 4))),
        (ValueError, "(1, h, Tq, Tk), none empty, got (3,)", lambda: plot_attention(torch.rand(3))),
        (ValueError, "none empty, got (0, 3)", lambda: plot_attention(torch.rand(0, 3))),
        (
            ValueError,
            "tokens has 2 labels, the weights have 3 queries",
            lambda: plot_attention(torch.rand(3, 3), ["a", "b"]),
        ),
        (ValueError, "key_tokens has 1 labels", lambda: plot_attention(torch.rand(3, 3), list("abc"), ["a"])),
        (
            ValueError,
            "titles has 1 labels, the weights have 2 heads",
            lambda: plot_attention(torch.rand(2, 3, 3), titles=["a"]),
        ),
        (ValueError, "got one string; use .split()", lambda: plot_attention(torch.rand(3, 3), "abc")),
        (TypeError, "mask must be boolean", lambda: plot_attention(torch.rand(3, 3), mask=torch.ones(3, 3))),
        (
            ValueError,
            "mask (4, 4) does not fit",
            lambda: plot_attention(torch.rand(3, 3), mask=torch.ones(4, 4).bool()),
        ),
        (
            ValueError,
            "do not fit one picture, which holds",
            lambda: plot_attention(torch.rand(20_000, 3, 3)),
        ),
        (ValueError, "columns=500 do not fit a page", lambda: plot_attention(torch.rand(500, 3, 3), columns=500)),
        (ValueError, "scale must be one of 'fixed',", lambda: plot_attention(torch.rand(3, 3), scale="linear")),
        (ValueError, "kind must be one of 'weights',", lambda: plot_attention(torch.rand(3, 3), kind="scores")),
        (ValueError, "colour_map must be one of 'v", lambda: plot_attention(torch.rand(3, 3), colour_map="jet")),
        (ValueError, "use scale='maximum'", lambda: plot_attention(torch.eye(3) * 2, kind="signed", scale="fixed")),
        (ValueError, "use kind='signed'", lambda: plot_attention(-torch.eye(3), kind="positive")),
        (ValueError, "hold infinite numbers", lambda: plot_attention(torch.full((3, 3), torch.inf), kind="signed")),
        (ValueError, "at least one step", lambda: plot_reshape({}, lambda n: n)),
        (TypeError, "labels must be integers", lambda: plot_reshape({"x": torch.rand(2, 2)}, lambda n: n)),
        (
            ValueError,
            "with a batch of 1, got (2, 2, 2, 2)",
            lambda: plot_reshape({"x": torch.ones(2, 2, 2, 2).long()}, lambda n: n),
        ),
        (ValueError, "too many to read", lambda: plot_reshape({"x": torch.ones(30, 30).long()}, lambda n: n)),
        (ValueError, "at least one (name, shape)", lambda: plot_shapes([])),
        (ValueError, "x: a shape needs at least 2 axes", lambda: plot_shapes([("x", (3,))])),
        (TypeError, "got a tensor; give tuple(x.shape)", lambda: plot_shapes([("x", torch.rand(2, 3))])),
        (ValueError, "say in a sentence what it shows", lambda: new_figure(" ")),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_drawn(error, message, draw, as_shipped):
    with pytest.raises(error) as caught:
        draw()
    assert message in str(caught.value)

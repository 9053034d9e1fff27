"""The picture beside a HeadView and its files: what the pixels say, whatever is drawn, and how large it is."""

import io
import re

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from PIL import Image

from headview import HeadView
from headview.head_view.picture import figure_of, png_of
from mhalib.plots import COLOUR_MAP, DIVERGING, LINE_COLOURS, MASKED_COLOURS, NAN_COLOUR, share
from tests.helpers.page import with_traits

WORDS = "[CLS] the cat sat on the mat because it was tired of the rain . [SEP]".split()
ODD = ["<img src=x>", "مرحبا", "注意力", "🙂👩‍👩‍👧", "a\nb\t\x00", "$\\frac{$", "w" * 300, "", "ﷺ", "$"]


def some(*shape, sharpness=2.0):
    scores = sharpness * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return scores.softmax(-1)


def pixels_of(view):
    data, _ = png_of(view)
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def colour(place, name=COLOUR_MAP):
    return np.rint(255 * np.array(colormaps[name](place))[:3])


def has(pixels, wanted, within=6):
    return (np.abs(pixels - np.asarray(wanted)).max(-1) <= within).sum()


def map_of(figure, number=0):
    """The image of a map, one pixel a cell, as it is handed to matplotlib; the overview has no ends from 0 to 1."""
    maps = [axes.images[0] for axes in figure.axes if axes.images and axes.images[0].get_extent() == [0, 1, 1, 0]]
    return maps[number].get_array()


def written(figure):
    """What is written in a figure, and where: texts and their places, from the left and from above."""
    return {text.get_text(): (text.get_position()[0], 1 - text.get_position()[1]) for text in figure.texts}


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize("scale", ["fixed", "maximum", "log", "root"])
def test_every_cell_has_the_colour_of_its_number(scale):
    weights = some(1, 1, 7, 9)
    view = HeadView(weights, scale=scale)
    top = weights.max().item() if scale == "maximum" else 1.0
    places = share(weights[0, 0].numpy(), scale, top)
    np.testing.assert_allclose(map_of(figure_of(view)), np.rint(255 * colormaps[COLOUR_MAP](places)[..., :3]), atol=1)
    assert has(pixels_of(view), colour(places[3, 4])) > 300


def test_signed_numbers_have_their_middle_at_zero():
    cells = torch.tensor([[-2.0, 0, 1], [2, -1, 0], [0.5, 0, 0]])
    drawn = map_of(figure_of(HeadView(cells, kind="signed")))
    wanted = np.rint(255 * colormaps[DIVERGING]((0.5 + cells / 4).numpy())[..., :3])
    np.testing.assert_allclose(drawn, wanted, atol=1)


def test_masked_cells_are_hatched_and_nan_has_its_own_colour():
    cells = torch.full((4, 4), 0.25)
    cells[0], cells[2] = torch.tensor([1.0, 0, 0, 0]), torch.nan
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[0, 1:] = False
    figure = figure_of(HeadView(cells, mask=mask, scale="fixed"))
    drawn = map_of(figure)
    assert (drawn[0, 1:] == np.rint(255 * np.array(to_rgb(MASKED_COLOURS["light"])))).all()
    assert (drawn[2] == np.rint(255 * np.array(to_rgb(NAN_COLOUR)))).all()
    (strokes,), (questions,) = figure.axes[0].collections, figure.axes[0].lines
    middles = {tuple(np.floor(4 * stroke.mean(0))) for stroke in strokes.get_segments()}
    assert middles == {(1, 0), (2, 0), (3, 0)} and len(questions.get_xdata()) == 4
    assert "key\nhatched: masked · red: NaN\n0 → 0: 1" in written(figure)
    HeadView(torch.full((3, 3), torch.nan)).figure()


@pytest.mark.parametrize(("rows", "columns"), [(1000, 1000), (341, 341), (5, 3000), (900, 2)])
def test_one_weight_of_a_long_map_is_never_lost(rows, columns):
    cells = torch.zeros(rows, columns)
    cells[rows // 3, columns // 2] = 1
    view = HeadView(cells, kind="part", scale="fixed")
    drawn, said = map_of(figure_of(view)), "".join(written(figure_of(view)))
    assert "each pixel: the largest of" in said and max(drawn.shape) <= 280
    assert has(drawn.astype(int), colour(1.0), 1) == 1 and has(pixels_of(view), colour(1.0)) >= 1
    assert all(there == size for there, size in zip(drawn.shape, (rows, columns), strict=False) if size <= 5)


@pytest.mark.parametrize(("size", "window"), [(9, []), (9, [2, 7, 3, 9]), (600, [])])
def test_the_chosen_rows_and_the_chosen_cell_are_framed_and_said(size, window):
    view = HeadView(some(1, 1, size, size), query=4, key=6, rows=[1, 5], window=window)
    figure, (first, end, left, right) = figure_of(view), window or [0, size, 0, size]
    *rows, cell = figure.axes[0].patches
    middles = [((box.get_y() + box.get_height() / 2) * (end - first) + first - 0.5) for box in (*rows, cell)]
    assert np.allclose(middles, [row for row in (1, 4, 5, 4) if row >= first])
    assert (cell.get_x() + cell.get_width() / 2) * (right - left) + left - 0.5 == pytest.approx(6)
    assert cell.get_edgecolor()[:3] == to_rgb("#c04a00") and has(pixels_of(view), [192, 74, 0], 40) > 20
    said = f"4 → 6: {view.weights_of(0, 0)[4, 6]:.4g}"
    assert said in "".join(written(figure)) and said in figure.alt


# ---------------------------------------------------------------- the overview


def test_the_overview_shows_every_head_and_frames_the_chosen_one():
    weights = torch.arange(12.0).view(3, 4, 1, 1).expand(3, 4, 8, 8) / 11
    view = HeadView(weights, kind="positive", layer=1, head=2, query=0)
    view.scale = "fixed"
    figure = figure_of(HeadView(weights / 8, kind="part", layer=1, head=2, query=0, scale="fixed"))
    sheet = figure.axes[0].images[0].get_array().astype(int)
    for number in range(12):
        assert has(sheet, colour(number / 88), 1) > 100, number
    (frame,) = figure.axes[0].patches
    step = sheet.shape[1] / 4
    assert (frame.get_x() // step, frame.get_y() // step) == (2, 1)
    assert {"0", "1", "2", "3", "layer", "head"} <= set(written(figure))


# ---------------------------------------------------------------- text


@pytest.mark.parametrize("mode", ["map", "lines", "across", "text"])
def test_labels_of_any_script_are_text_and_never_break_a_picture(mode, tmp_path):
    view = HeadView(some(2, 2, 10, 10), ODD, mode=mode, layer_names=["$\\frac{$ <b>", "b"])
    for ending in (".png", ".svg", ".pdf"):
        assert view.save(tmp_path / f"odd{ending}").stat().st_size > 1000
    svg = (tmp_path / "odd.svg").read_text(encoding="utf-8")
    assert "&lt;img src=x&gt;" in svg and "<img" not in svg
    assert max(pixels_of(view).shape) < 1400


def test_labels_without_ink_are_seen_and_those_that_run_to_the_left_turn_nothing():
    figure = figure_of(HeadView(some(1, 1, 5, 5), ["", " ", "\u200b", "הכלב", "הבית"], query=3, key=4))
    assert {"∅", "␣", "U+200B", "הכלב"} <= set(written(figure))
    assert "chosen: \u2068הכלב\u2069 → \u2068הבית\u2069: 0." in figure.alt
    assert any("\u2068הכלב\u2069 → \u2068הבית\u2069: 0." in text for text in written(figure))


def test_labels_are_drawn_where_their_cells_are():
    figure = figure_of(HeadView(some(1, 1, 16, 16), [f"w{i}" for i in range(16)], [f"k{i}" for i in range(16)]))
    places, box = written(figure), figure.axes[0].get_position()
    for i in range(16):
        assert places[f"w{i}"][1] == pytest.approx(1 - box.y1 + (i + 0.5) / 16 * box.height)
        assert places[f"k{i}"][0] == pytest.approx(box.x0 + (i + 0.5) / 16 * box.width)
    assert {"0", "100", "200"} <= set(written(figure_of(HeadView(some(1, 1, 4, 500)))))


# ---------------------------------------------------------------- lines


def test_lines_run_from_the_query_to_the_key_in_the_colour_of_their_head():
    cells = torch.zeros(1, 2, 4, 4)
    cells[..., 0] = 1
    cells[0, 1, 3] = torch.tensor([0, 0.9, 0.1, 0])
    view = with_traits(HeadView(cells, mode="lines", query=3), head=0, overlay=[[0, 1]])
    one, two = figure_of(view).axes[-1].collections
    assert np.allclose(two.get_colors()[0][:3], to_rgb(LINE_COLOURS[1]))
    ends = [segment.round(3).tolist() for segment in two.get_segments()]
    assert [[0, 0.875], [1, 0.375]] in ends and [[0, 0.875], [1, 0.625]] in ends  # all lines of the chosen query
    assert len(one.get_segments()) == 4


def test_weak_lines_of_other_queries_are_left_out_and_that_is_said():
    view = HeadView(some(1, 1, 50, 50), mode="lines", query=7, scale="fixed")
    (lines,) = figure_of(view).axes[0].collections
    assert 50 < len(lines.get_segments()) <= 650
    assert re.search(r"[\d,]+ weaker lines left out", " ".join(written(figure_of(view))))


def test_lines_across_run_down_and_their_strength_follows_the_scale():
    cells = torch.tensor([[0.75, 0.25, 0], [0, 1, 0], [0, 0, 1]])
    strengths = []
    for scale in ("fixed", "root"):
        (lines,) = figure_of(HeadView(cells, mode="across", query=0, scale=scale)).axes[0].collections
        ends = [segment.round(3).tolist() for segment in lines.get_segments()]
        strengths.append(lines.get_linewidths()[ends.index([[0.167, 0], [0.5, 1]])])
    assert strengths == pytest.approx([0.8 + 2 * 0.25, 0.8 + 2 * 0.5])


@pytest.mark.parametrize("direction", ["from", "to"])
def test_text_is_drawn_as_text_on_the_colours_of_the_weights(direction):
    weights, words = some(1, 1, 14, 14), WORDS[:13] + ["$"]
    view = HeadView(weights, words, mode="text", direction=direction, query=3, key=5, rows=[7])
    figure = figure_of(view)
    row = weights[0, 0, [3, 7]].sum(0) if direction == "from" else weights[0, 0, :, 5]
    grounds = [patch.get_facecolor()[:3] for patch in figure.axes[0].patches if patch.get_fill()]
    np.testing.assert_allclose(grounds, colormaps[COLOUR_MAP](row.clamp(max=1).numpy())[:, :3], atol=0.01)
    frames = [patch.get_xy() for patch in figure.axes[0].patches if not patch.get_fill()]
    assert len(frames) == 2 and set(words) <= set(written(figure)) and "as text" in figure.alt
    assert any(
        f"{direction} the {'query' if direction == 'from' else 'key'} in the frame" in said for said in written(figure)
    )


def test_long_texts_show_what_is_around_the_cursor_and_two_texts_stand_above_each_other():
    weights = torch.zeros(1, 1, 900, 900)
    weights[..., 7] = 1
    said = written(figure_of(HeadView(weights, [f"t{i}" for i in range(900)], mode="text", query=700, key=7)))
    assert {"t500", "t700", "t899"} <= set(said) and "t499" not in said
    said = written(figure_of(HeadView(some(1, 1, 2, 3), ["ein", "Haus"], ["a", "small", "house"], mode="text")))
    assert said["query text"][1] < said["ein"][1] < said["key text"][1] < said["house"][1]


# ---------------------------------------------------------------- the whole, and files


def test_the_picture_is_small():
    weights = some(12, 12, 128, 128, sharpness=4)
    weights[..., 0] += 3  # a sink
    weights = weights.tril() / weights.tril().sum(-1, keepdim=True)
    data, alt = png_of(HeadView(weights, [f"token{i}" for i in range(128)]))
    assert len(data) < 60_000 and "128 queries by 128 keys" in alt


def test_compared_maps_stand_side_by_side_on_one_scale_and_the_difference_has_its_own():
    a, b = some(1, 1, 5, 5), some(1, 1, 5, 5, sharpness=1.0)
    view = HeadView(a, compare=b, names=("A", "B"), scale="maximum")
    figure, top = figure_of(view), max(a.max().item(), b.max().item())
    for number, cells in enumerate((a, b)):
        wanted = np.rint(255 * colormaps[COLOUR_MAP]((cells[0, 0] / top).numpy())[..., :3])
        np.testing.assert_allclose(map_of(figure, number), wanted, atol=1)
    most = (b - a).abs().max().item()
    wanted = np.rint(255 * colormaps[DIVERGING]((0.5 + (b - a)[0, 0] / most / 2).numpy())[..., :3])
    np.testing.assert_allclose(map_of(figure, 2), wanted, atol=1)
    assert {"A", "B", "B − A"} <= {text.get_text() for text in figure.texts}
    bars = [axes for axes in figure.axes if axes.images and axes.images[0].get_extent() == [0, 1, 0, 1]]
    assert len(bars) == 2  # what is compared shares one


def test_compared_maps_have_the_words_of_their_sides_and_their_lines_both_names():
    a, b = some(1, 2, 3, 3), some(1, 2, 3, 3, sharpness=1.0)
    view = HeadView(a, ["x", "y", "it"], compare=b, names=("A", "B"), compare_tokens=["x", "y", "she"], query=2, key=1)
    texts = [text.get_text() for text in figure_of(view).texts]
    assert [texts.count(word) for word in ("it", "she", "it / she")] == [2, 2, 2]
    said = [text.splitlines()[-1] for text in texts if "→" in text]
    change = b[0, 0, 2, 1] - a[0, 0, 2, 1]
    assert said == [
        f"it → y: {a[0, 0, 2, 1]:.4g}",
        f"she → y: {b[0, 0, 2, 1]:.4g}",
        f"it / she → y: {change:.4g}".replace("-", "−"),
    ]
    legend = figure_of(with_traits(view, mode="lines")).axes[-1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["A: head 0", "B: head 0"]


def test_the_same_picture_is_the_same_bytes(tmp_path):
    view = HeadView(some(2, 3, 6, 6), WORDS[:6])
    for ending in (".png", ".svg", ".pdf"):
        one, two = (view.save(tmp_path / f"{name}{ending}").read_bytes() for name in "ab")
        assert one == two, ending


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    view = HeadView(some(1, 1, 3, 3))
    for path, words in (
        ("heads.jpg", "try 'heads.png'"),
        (tmp_path, "is a folder"),
        (tmp_path / "x" / "a.png", "no folder"),
    ):
        with pytest.raises(ValueError, match=words):
            view.save(path)


def test_a_difference_of_more_weights_than_are_compared_at_once_is_drawn_without_all_heads(monkeypatch):
    a, b = some(2, 3, 5, 5), some(2, 3, 5, 5, sharpness=1.0)
    monkeypatch.setattr("headview.head_view.serve._DIFFERENCES_UP_TO", 100)
    alone, among = (figure_of(HeadView(a, compare=b, side=side)) for side in ("difference", "a"))
    assert len(alone.axes) < len(among.axes)

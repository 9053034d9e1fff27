"""The picture beside a HeadView and its files: what the pixels say, whatever is drawn, and how fast."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgb

from headview.head_view.drawn import Drawn, Panel, described
from headview.head_view.overview import Overview
from headview.head_view.picture import draw, quick_picture
from headview.head_view.raster import LEVELS
from headview.head_view.saved import figure_of, save
from headview.head_view.strokes import MOST_LINES, chosen_lines, lines_image
from mhalib.plots import COLOUR_MAP, DIVERGING, LINE_COLOURS, MASKED_COLOUR, NAN_COLOUR, pooled, share

WORDS = "[CLS] the cat sat on the mat because it was tired of the rain . [SEP]".split()
ODD = ["<img src=x>", "مرحبا", "注意力", "🙂👩‍👩‍👧", "a\nb\t\x00", "$\\frac{$", "\ud800", "w" * 300, "", "ﷺ"]


def some(*shape, sharpness=2.0):
    scores = np.exp(sharpness * np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    return scores / scores.sum(-1, keepdims=True)


def bert(**changes):
    weights = some(12, 12, 16, 16)
    drawn = Drawn(
        "layer 3 head 5",
        [Panel("layer 3 head 5", weights[3, 5])],
        row_labels=WORDS,
        column_labels=WORDS,
        thumbnails=weights,
        chosen=[(3, 5), (0, 1)],
    )
    return replace(drawn, **changes)


def rgb(image):
    return np.asarray(image.convert("RGB")).astype(int)


def steps(numbers, name=COLOUR_MAP):
    """The colours of places from 0 to 1, in as many steps as a picture has."""
    rounded = np.floor(np.asarray(numbers) * (LEVELS - 1) + 0.5) / (LEVELS - 1)
    return np.rint(255 * np.array(colormaps[name](rounded))[..., :3]).astype(int)


def box_of(image, sharp):
    """Where the map of a picture without an overview stands: left, upper, right, lower, inside of its frame."""
    dark = np.abs(rgb(image) - rgb(image)[..., :1]).max(-1) + np.abs(rgb(image)[..., 0] - 68)
    rows, columns = (dark == 0).sum(1), (dark == 0).sum(0)
    across, down = np.flatnonzero(rows > 100), np.flatnonzero(columns > 30)
    return down[sharp - 1] + 1, across[sharp - 1] + 1, down[sharp], across[-sharp]


def map_of(drawn, sharp=1):
    """The pixels of the only map, by the frame around it."""
    image = draw(replace(drawn, thumbnails=None), sharp)
    left, upper, right, lower = box_of(image, sharp)
    return rgb(image)[upper:lower, left:right]


def centres(pixels, rows, columns):
    y, x = (
        np.floor((np.arange(n) + 0.5) * size / n).astype(int)
        for n, size in ((rows, len(pixels)), (columns, pixels.shape[1]))
    )
    return pixels[y][:, x]


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize("scale", ["fixed", "maximum", "log", "root"])
def test_every_cell_has_the_colour_of_its_number(scale):
    cells = some(7, 9)
    drawn = Drawn("x", [Panel("x", cells, top=0.7 if scale == "maximum" else 1.0)], scale=scale)
    wanted = steps(share(cells, scale, drawn.panels[0].top))
    np.testing.assert_array_equal(centres(map_of(drawn), 7, 9), wanted)
    _, upper, right, lower = box_of(image := draw(drawn), 1)  # the bar stands beside it, the largest on top
    assert rgb(image)[[upper, lower - 1], right + 17].tolist() == steps([1, 0]).tolist()


def test_signed_numbers_have_their_middle_at_zero():
    cells = np.array([[-2, 0, 1], [2, -1, 0], [0.5, 0, 0]], np.float32)
    pixels = map_of(Drawn("x", [Panel("x", cells, top=2, signed=True)]))
    np.testing.assert_array_equal(centres(pixels, 3, 3), steps(0.5 + cells / 4, DIVERGING))


def test_masked_cells_are_hatched_and_nan_has_its_own_colour():
    cells = np.full((4, 4), 0.5, np.float32)
    cells[0, 1:], cells[2, 2] = -np.inf, np.nan
    pixels = map_of(Drawn("x", [Panel("x", cells)]))
    masked = {tuple(colour) for colour in pixels[:85, 86:].reshape(-1, 3).tolist()}
    assert masked == {tuple(round(255 * part) for part in to_rgb(colour)) for colour in (MASKED_COLOUR, "#B9B9B9")}
    block = pixels[170:255, 170:255].reshape(-1, 3)
    assert (block == [round(255 * part) for part in to_rgb(NAN_COLOUR)]).all(-1).mean() > 0.9
    assert (block.sum(-1) < 60).any()  # the question mark
    assert "hatched: masked" in described(Drawn("x", [Panel("x", cells)]))
    nothing = np.full((3, 3), -np.inf, np.float32)
    quick_picture(Drawn("x", [Panel("x", nothing), Panel("y", nothing * np.nan, signed=True)]))


@pytest.mark.parametrize(("rows", "columns"), [(1000, 1000), (341, 341), (5, 3000), (900, 2)])
def test_one_weight_of_a_long_map_is_never_lost(rows, columns):
    cells = np.zeros((rows, columns), np.float32)
    cells[rows // 3, columns // 2] = 1
    drawn = Drawn("x", [Panel("x", cells)])
    for pixels in (map_of(drawn), map_of(drawn, sharp=2)):
        assert (pixels == steps(1.0)).all(-1).any()
    assert "each pixel" in figure_of(drawn).axes[0].get_xlabel()
    shown = figure_of(drawn).axes[0].images[0].get_array()
    assert max(shown.shape) <= 280 and (shown[..., :3] == steps(1.0)).all(-1).sum() == 1


def test_a_pooled_map_says_of_how_many_weights_a_pixel_is():
    drawn = Drawn("x", [Panel("x", some(256, 256))], row_span=(0, 8192), column_span=(0, 8192))
    assert "each pixel: the largest of 32 × 32 weights" in described(drawn) and "8192 × 8192" in described(drawn)
    assert drawn.note(2, 2) == "each pixel: the largest of 64 × 64 weights"
    assert [said for _, said in drawn.marks(0, 340, 13, 42)] == ["0", "2000", "4000", "6000", "8000"]
    assert Drawn("x", [Panel("x", some(5, 5))]).note() == ""
    part = Drawn("x", [Panel("x", some(5, 5))], row_span=(100, 105), row_labels=list("abcde"))
    assert part.marks(0, 340, 13, 26) == [(pytest.approx(0.1 + 0.2 * i), label) for i, label in enumerate("abcde")]


# ---------------------------------------------------------------- the overview


def test_the_overview_shows_every_head_and_frames_the_chosen_one():
    weights = np.zeros((3, 4, 8, 8), np.float32)
    for layer, head in np.ndindex(3, 4):
        weights[layer, head] = (layer * 4 + head) / 11
    drawn = Drawn("x", [Panel("x", weights[1, 2])], thumbnails=weights, chosen=[(1, 2)])
    overview, pixels = Overview(drawn), rgb(draw(drawn))
    corner = (10 + overview.left, 10 + 26)
    for layer, head in np.ndindex(3, 4):
        x, y = (a + b for a, b in zip(corner, overview.corner(layer, head), strict=True))
        block = pixels[y : y + overview.side, x : x + overview.side]
        assert (block == steps((layer * 4 + head) / 11)).all()
        assert (pixels[y - 1, x : x + overview.side] == 0).all() == ((layer, head) == (1, 2))


# ---------------------------------------------------------------- text


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.parametrize("mode", ["map", "lines"])
def test_labels_of_any_script_are_text_and_never_break_a_picture(mode, tmp_path):
    drawn = Drawn("$\\frac{$ <b>", [Panel("$\\frac{$", some(10, 10))] * 2, mode=mode, row_labels=ODD, column_labels=ODD)
    assert max(draw(drawn).size) < 1400
    for ending in (".png", ".svg", ".pdf"):
        save(drawn, tmp_path / f"odd{ending}")
    figure_of(drawn)._repr_mimebundle_()


def test_labels_are_drawn_where_their_cells_are():
    blank, written = (
        rgb(draw(Drawn("", [Panel("x", some(4, 4))], row_labels=[label] * 4, column_labels=[""] * 4)))
        for label in ("", "I")
    )
    shift = written.shape[1] - blank.shape[1]
    ink = np.flatnonzero((written[:, shift : 41 + shift].sum(-1) < 300).any(1))
    middles = [36 + 85 * (i + 0.5) for i in range(4)]
    for middle in middles:
        assert np.abs(ink - middle).min() < 6


# ---------------------------------------------------------------- lines


def test_lines_run_from_the_query_to_the_key_in_the_colour_of_their_head():
    cells = np.zeros((4, 2), np.float32)
    cells[3, 0] = 1
    drawn = Drawn("x", [Panel("a", 0 * cells), Panel("b", cells)], mode="lines")
    pixels = rgb(lines_image(drawn, 200, 200)[0])
    wanted = [round(255 * part) for part in to_rgb(LINE_COLOURS[1])]
    drawn_at = [np.flatnonzero(np.abs(pixels[:, x] - wanted).max(-1) < 40) for x in (3, 196)]
    assert abs(drawn_at[0].mean() - 175) < 5 and abs(drawn_at[1].mean() - 50) < 5
    assert len({tuple(colour) for colour in pixels.reshape(-1, 3).tolist()}) > 4  # soft edges


def test_the_strongest_lines_are_drawn_last_and_what_is_left_out_is_said():
    cells = np.random.default_rng(0).random((50, 50)).astype(np.float32)
    cells[0, 0], cells[0, 1] = np.nan, -np.inf
    drawn = Drawn("x", [Panel("x", -cells, signed=True)], mode="lines")
    lines, left_out = chosen_lines(drawn)
    strengths = [line[0] for line in lines]
    assert len(lines) == MOST_LINES and strengths == sorted(strengths, reverse=True) and strengths[-1] < -0.9
    assert left_out == (cells[np.isfinite(cells)] >= 0.004).sum() - MOST_LINES
    assert f"{left_out:,} weaker lines left out" in figure_of(drawn).axes[0].get_xlabel()
    assert "dashed: negative" in figure_of(drawn).axes[0].get_xlabel()


# ---------------------------------------------------------------- the whole, and files


def test_the_picture_is_small():
    weights = some(12, 12, 128, 128, sharpness=4)
    weights[..., 0] += 3  # a sink
    weights[:, :, ~np.tri(128, dtype=bool)] = 0
    weights /= weights.sum(-1, keepdims=True)
    small = pooled(weights, 6, 6)
    labels = [f"token{i}" for i in range(128)]
    drawn = Drawn("x", [Panel("x", weights[3, 5])], row_labels=labels, column_labels=labels, thumbnails=small)
    data, alt = quick_picture(drawn)
    assert len(data) < 60_000 and "128 × 128" in alt


def test_compared_maps_stand_side_by_side_each_with_its_scale():
    a, b = some(5, 5), some(5, 5, sharpness=1)
    drawn = Drawn("B - A", [Panel("A", a), Panel("B", b), Panel("B - A", b - a, top=0.5, signed=True)])
    pixels = rgb(draw(drawn))
    for cell in (a[0, 0], b[2, 2]):
        assert (pixels == steps(cell)).all(-1).sum() > 500
    assert (pixels == steps(0.5 + (b - a)[4, 4], DIVERGING)).all(-1).sum() > 500
    axes = figure_of(drawn).axes
    assert [at.get_title() for at in axes[:3]] == ["A", "B", "B - A"] and len(axes) == 6
    assert "from −0.5 to 0.5" in described(drawn)

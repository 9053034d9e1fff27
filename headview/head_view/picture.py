"""The picture of a HeadView, for readers where nothing runs and in files: what is on screen, drawn by matplotlib.

All heads small at the left in the model's order, the chosen ones at the right in their window, with the cursor, on the
scale and with the colours of the view; lines are drawn as lines, text as text. Everything has its place in inches,
worked out here: to let matplotlib find one would take longer than to draw.
"""

import io
import math
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from PIL import Image, PngImagePlugin

from headview.base import any_sign
from headview.head_view.labels import ISOLATES, visible
from headview.head_view.screen import Screen, on_screen
from mhalib.plots import (
    DIVERGING,
    HATCH_COLOURS,
    LINE_COLOURS,
    MASKED_COLOURS,
    NAN_COLOUR,
    DescribedFigure,
    hatch,
    pooled,
    pooled_words,
    round_numbers,
    share,
    ticks,
)

ENDINGS = (".png", ".svg", ".pdf", ".html")
WAYS = {"fixed": "", "maximum": ", to the largest", "log": ", logarithmic", "root": ", square roots"}
_DOTS = 100  # in an inch of the picture in a notebook; a file has twice as many
_SIDE, _LEAST_SIDE = 3.4, 1.3  # inches of a map, and of several side by side
_LETTER = 0.068  # inches, of the font below, on the safe side
_FONT, _TITLE = 7, 9.5  # points
_ACROSS = (5.0, 1.9)  # inches of lines that run down
_TEXT, _SIGN, _LINE = 4.6, 0.067, 0.22  # inches of running text, of a sign of it, of a line
_MOST_CELLS = 280  # along an axis of a map, so that no cell is smaller than a dot
_HATCHED_UP_TO = 64  # cells along an axis; strokes closer together would be one grey
_MOST_LINES = 600  # of all heads together
_FAINT = 0.004  # of the end of the scale: a weaker line is not seen
_OVERVIEW = (4.0, 3.6)  # inches, of all heads together
_FRAME = 221  # grey, of heads in the overview
_CURSOR = "#c04a00"  # as in core.css
_LEAST_FRAME = 0.06  # inches, around a cell
_TURNS_TEXT = matplotlib.__version_info__ >= (3, 11)  # earlier ones draw signs in the order in which they are stored
_DASHES = ("solid", (0, (5, 3)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)))


class _Place(NamedTuple):
    """Where the panels of a picture stand, in inches from the upper left corner."""

    lefts: list[float]  # of the panels
    y: float
    wide: float  # of each panel
    high: float
    size: tuple[float, float]  # of all


def png_of(view) -> tuple[bytes, str]:
    """Return the picture of a view as PNG, and its alternative text."""
    screen = on_screen(view)
    return _png(_draw(screen), screen.alt, _DOTS), screen.alt


def figure_of(view) -> DescribedFigure:
    """Return the picture of a view as a figure."""
    return _draw(on_screen(view))


def file_of(view, ending: str) -> bytes:
    """Return the picture of a view as a file: ".png" (twice as sharp as in a notebook), ".svg" or ".pdf"."""
    screen = on_screen(view)
    figure = _draw(screen)
    return _png(figure, screen.alt, 2 * _DOTS) if ending == ".png" else _vectors(figure, screen, ending[1:])


def checked_path(path: str | Path) -> Path:
    """Return where to save a file, or say why none can be saved there."""
    if not isinstance(path, (str, Path)):
        raise ValueError(f"save needs the name of a file, such as 'heads.png', got {type(path).__name__}")
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; name a file in it, such as {str(path / 'heads.png')!r}")
    if path.suffix.lower() not in ENDINGS:
        came = f"{path.suffix!r}" if path.suffix else "no ending"
        raise ValueError(f"save writes {', '.join(ENDINGS)}, got {came}; try {path.with_suffix('.png').name!r}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {str(path.parent)!r}; make it first, or save as {path.name!r}")
    return path


def _png(figure: DescribedFigure, alt: str, dots: int) -> bytes:
    """Return a figure as PNG of few bytes, the same every time, with its description inside."""
    drawn, packed, words = io.BytesIO(), io.BytesIO(), PngImagePlugin.PngInfo()
    with any_sign():
        figure.savefig(drawn, format="rgba", dpi=dots)
    size = tuple(round(dots * side) for side in figure.get_size_inches())
    image = Image.frombytes("RGBA", size, drawn.getvalue()).convert("RGB")
    image = image.quantize(128, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    words.add_itxt("Description", alt)
    image.save(packed, "png", pnginfo=words, compress_level=4, dpi=(dots, dots))
    return packed.getvalue()


def _vectors(figure: DescribedFigure, screen: Screen, kind: str) -> bytes:
    """Return a figure as SVG or PDF: its letters as text, and the same bytes every time."""
    names = ("Description", "Date") if kind == "svg" else ("Subject", "CreationDate")
    about = {"Title": screen.title, **dict(zip(names, (screen.alt, None), strict=True))}
    packed = io.BytesIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": "mhalib", "pdf.fonttype": 42}
    with matplotlib.rc_context(settings), any_sign():
        figure.savefig(packed, format=kind, metadata=about)
    return packed.getvalue()


# ---------------------------------------------------------------------------------------------------------- a picture


def _draw(screen: Screen) -> DescribedFigure:
    """Return the picture of what is on screen."""
    marks = [[_marks(panel.labels[axis], screen.spans[axis], axis) for axis in (0, 1)] for panel in screen.panels]
    apart = any(rows != marks[0][0] for rows, _ in marks)  # has each of several maps its own rows?
    beside, below = (max(_widest(each[axis]) for each in marks) for axis in (0, 1))
    left = 0.1
    if screen.thumbnails is not None:
        sheet, names = _overview_sheet(screen)
        left += names + sheet.shape[1] / _DOTS + 0.2
    room = {"text": 0.1, "across": 0.6}.get(screen.view.mode, 0.3 + beside)
    place = _placed(screen, left + room, beside, below, beside * apart)
    high = max(place.size[1], 0 if screen.thumbnails is None else sheet.shape[0] / _DOTS + 0.85)
    figure = DescribedFigure(figsize=(round(place.size[0], 2), round(high, 2)), dpi=_DOTS)  # whole dots
    figure.alt = screen.alt
    if screen.thumbnails is not None:
        _draw_overview(figure, screen, sheet, 0.1 + names)
    _write(figure, left + 0.1, 0.18, _cut(screen.title, place.size[0] - left), size=_TITLE)
    if screen.view.mode == "text":
        _draw_text(figure, screen, place)
        return figure
    if screen.lines:
        _draw_lines(figure, screen, place, *marks[0])
        return figure
    several = len(screen.panels) > 1
    for number, (panel, (rows, columns)) in enumerate(zip(screen.panels, marks, strict=True)):
        box = (place.lefts[number], place.y, place.wide, place.high)
        if several:
            _write(figure, box[0], place.y - 0.1, _cut(panel.name, place.wide + 0.25), size=_FONT + 1)
        axes = _axes(figure, *box)
        _draw_map(axes, panel, screen)
        _frame_cursor(axes, screen, place)
        below = _label(figure, box, columns, 1, thinned=math.ceil(0.12 * len(columns) / place.wide))
        if number == 0 or apart:
            beside = _label(figure, box, rows, 0)
        if number == 0:
            _write(figure, box[0] - beside, place.y + place.high / 2, screen.about["axes"][0], ha="right", rotation=90)
        chosen = _cut(panel.chosen, place.wide + 0.3 if several else max(place.wide, 2.0) + 0.6)
        said = "\n".join(filter(None, (screen.about["axes"][1], _note(screen, panel), chosen)))
        _write(figure, box[0] + place.wide / 2, place.y + place.high + below, said, ha="center", va="top")
        if any(panel is each for each in _kinds(screen)):
            _draw_bar(figure, screen, panel, box[0] + place.wide + 0.1, place)
    return figure


def _kinds(screen: Screen) -> list:
    """Return the last panel of those that share a scale, which is drawn beside it; a difference has its own."""
    return list({panel.signed: panel for panel in screen.panels}.values())


def _placed(screen: Screen, x: float, beside: float, below: float, between: float) -> _Place:
    """Return where the panels stand, so much `between` them: cells are squares, unless a map is far from a square."""
    if screen.view.mode == "text":
        caption, _, _, lines, y = _texts(screen)[-1]
        high = max(1.0, y + _LINE * (len(lines) + bool(caption)))
        return _Place([x], 0.4, _TEXT, high, (x + _TEXT + 0.15 + 0.8 * len(_kinds(screen)), high + 1.1))
    number = 1 if screen.lines else len(screen.panels)
    room = max(_LEAST_SIDE, min(_SIDE, 7.6 / number))
    tall, long = (end - first for first, end in screen.spans)
    wide, high = room, _SIDE
    legend = 0.2 * math.ceil(len(screen.panels) / 2) if screen.lines and len(screen.panels) > 1 else 0
    if screen.view.mode == "across":
        wide, high = _ACROSS
        return _Place([x], 0.5 + beside, wide, high, (x + wide + 0.15, 1.1 + beside + high + below + legend))
    if not screen.lines and 0.4 <= tall / long <= 2.5:
        cell = min(room / long, _SIDE / tall)
        wide, high = max(0.4, cell * long), max(0.4, cell * tall)
    elif not screen.lines:
        wide, high = (room if long > 1 else 0.4), (_SIDE if tall > 1 else 0.4)
    y = 0.55 if number > 1 else 0.4
    steps = [
        wide + between + (0.95 if any(screen.panels[i] is each for each in _kinds(screen)) else 0.4)
        for i in range(number)
    ]
    steps = [wide + 0.4 + below] if screen.lines else steps
    lefts = [x + sum(steps[:i]) for i in range(number)]
    under = 0.6 + legend if screen.lines else 0.6 + (below if below > 0.3 else 0.1)
    return _Place(lefts, y, wide, high, (lefts[-1] + steps[-1] + 0.15, y + high + under))


def _axes(figure: DescribedFigure, x: float, y: float, wide: float, high: float) -> Axes:
    """Return axes in a place in inches, without ticks: matplotlib takes longer for these than to draw all else."""
    across, down = figure.get_size_inches()
    axes = figure.add_axes((x / across, 1 - (y + high) / down, wide / across, high / down))
    axes.xaxis.set_visible(False)
    axes.yaxis.set_visible(False)
    for side in axes.spines.values():
        side.set(linewidth=0.6, color="#888888")
    return axes


def _write(figure: DescribedFigure, x: float, y: float, text: str, size: float = _FONT + 1, **look) -> None:
    across, down = figure.get_size_inches()
    look = {"va": "center", "parse_math": False, **look}
    figure.text(x / across, 1 - y / down, text, fontsize=size, **look)


def _cut(text: str, room: float) -> str:
    """Return a text without anything that would break the line, as much of it as has room in so many inches."""
    text = text.encode("utf-16", "replace").decode("utf-16", "replace").replace("\n", "↵").replace("\t", "⇥")
    known = (sign for sign in text if _TURNS_TEXT or sign not in ISOLATES)
    text = "".join(sign if sign.isprintable() or sign in ISOLATES else "·" for sign in known)
    most = max(2, int(room / _LETTER))
    return text if len(text) <= most else text[: most - 1] + "…"


def _marks(labels: list[str], span: tuple[int, int], axis: int) -> list[tuple[float, str]]:
    """Return the labels of an axis, as many as can be read: the place of each, from 0 to 1, and its text."""
    first, past = span
    if not labels:
        few = max(1, math.floor(_SIDE / (0.42 if axis else 0.26)))
        chosen = round_numbers(first, past, few) if past - first > few else range(first, past)
        return [((i - first + 0.5) / (past - first), str(i)) for i in chosen]
    step = max(1, math.ceil(0.13 * len(labels) / _SIDE))
    return [((i + 0.5) / len(labels), _cut(visible(labels[i]), 1.0)) for i in range(0, len(labels), step)]


def _widest(marks: list[tuple[float, str]]) -> float:
    return _LETTER * max((len(said) for _, said in marks), default=0)


def _label(
    figure: DescribedFigure,
    box: tuple,
    marks: list[tuple[float, str]],
    axis: int,
    thinned: int = 1,
    above: bool = False,
) -> float:
    """Write the labels of rows (axis 0, at the left) or columns (1, below or `above`) beside a box, as plain text.

    Columns are turned where they do not fit, and thinned where a box is narrow. Returns the inches that they need.
    """
    x, y, wide, high = box
    marks = marks[:: max(1, thinned)]
    turned = axis == 1 and _widest(marks) + 0.03 > wide / max(1, len(marks))
    for at, said in marks:
        if axis == 0:
            _write(figure, x - 0.04, y + at * high, said, _FONT, ha="right")
        else:
            look = {"rotation": 90 * turned, "ha": "center", "va": "bottom" if above else "top"}
            _write(figure, x + at * wide, y - 0.04 if above else y + high + 0.04, said, _FONT, **look)
    return 0.1 + (_widest(marks) if turned or axis == 0 else 0.13 * bool(marks))


# ------------------------------------------------------------------------------------------------------------- a map


def _shades(cells: np.ndarray, scale: str, top: float | np.ndarray, signed: bool, colours: str) -> np.ndarray:
    """Return the colours of numbers, uint8 `(..., 3)`, for numbers of any shape."""
    places = share(cells / top, scale, 1.0, signed)
    name = DIVERGING if signed else colours
    shades = matplotlib.colormaps[name](np.nan_to_num(places), bytes=True)[..., :3]
    shades[np.isneginf(cells)] = _bytes(MASKED_COLOURS["light"])
    shades[np.isnan(cells)] = _bytes(NAN_COLOUR)
    return shades


def _bytes(colour: str) -> np.ndarray:
    return np.rint(255 * np.array(matplotlib.colors.to_rgb(colour))).astype(np.uint8)


def _pools(shape: tuple[int, int]) -> tuple[int, int]:
    pools = tuple(math.ceil(size / _MOST_CELLS) for size in shape)
    return (max(pools),) * 2 if 0.4 <= shape[0] / shape[1] <= 2.5 else pools


def _draw_map(axes: Axes, panel, screen: Screen) -> None:
    """Draw one map as an image; what is masked is hatched, and NaN has a question mark, where cells have room."""
    cells = pooled(panel.cells, *_pools(panel.cells.shape), panel.signed)
    rows, columns = cells.shape
    # "none" puts the cells into a file as they are; "nearest" would first bring them to its dots.
    shades = _shades(cells, screen.scale, panel.top, panel.signed, screen.view.colours)
    axes.imshow(shades, extent=(0, 1, 1, 0), interpolation="none", aspect="auto")
    if max(rows, columns) > _HATCHED_UP_TO:
        return
    box = axes.get_window_extent()
    cell = min(box.width / columns, box.height / rows) / _DOTS
    masked, missing = np.isneginf(cells), np.isnan(cells)
    if masked.any():
        hatch(axes, np.argwhere(masked), cell, (1 / columns, 1 / rows))
    if missing.any():
        y, x = missing.nonzero()
        look = {"marker": "$?$", "color": "black", "markersize": max(3, 43 * cell), "linestyle": "none", "mew": 0.6}
        axes.plot((x + 0.5) / columns, (y + 0.5) / rows, **look)
    axes.set(xlim=(0, 1), ylim=(1, 0))


def _frame_cursor(axes: Axes, screen: Screen, place: _Place) -> None:
    """Frame the chosen rows and the cell of the cursor, as far as they are in sight, wider than a small cell."""
    tall, long = (end - first for first, end in screen.spans)
    high, wide = max(1 / tall, _LEAST_FRAME / place.high), max(1 / long, _LEAST_FRAME / place.wide)
    row, column = screen.cursor
    frames = [(at, 0.5, 1, 0.9) for at in screen.rows] + [(row, (column + 0.5) / long, wide, 1.8)] * (
        0 <= column < long
    )
    for at, middle, across, line in frames:
        if 0 <= at < tall:
            corner = middle - across / 2, (at + 0.5) / tall - high / 2
            look = {"fill": False, "edgecolor": _CURSOR, "linewidth": line, "clip_on": False}
            axes.add_patch(Rectangle(corner, across, high, **look))


def _note(screen: Screen, panel) -> str:
    """Return what stands under a map: what its marks mean, and of how many weights a cell is the largest."""
    few = max(panel.cells.shape) <= _HATCHED_UP_TO
    words = ["hatched: masked" if few else "grey: masked"] * bool(np.isneginf(panel.cells).any())
    words += ["red: NaN"] * bool(np.isnan(panel.cells).any())
    drawn = [math.ceil(size / pool) for size, pool in zip(panel.cells.shape, _pools(panel.cells.shape), strict=True)]
    each = [math.ceil((end - first) / size - 0.01) for (first, end), size in zip(screen.spans, drawn, strict=True)]
    said = pooled_words(*(max(1, size) for size in each), panel.signed)
    return " · ".join([*words, *[said] * bool(said)])


def _draw_bar(figure: DescribedFigure, screen: Screen, panel, x: float, place: _Place) -> None:
    """Draw the colours beside a map, and what they mean."""
    high = min(place.high, 1.6)
    colours = matplotlib.colormaps[DIVERGING if panel.signed else screen.view.colours](np.linspace(1, 0, 256))
    _axes(figure, x, place.y, 0.12, high).imshow(colours[:, None], extent=(0, 1, 0, 1), aspect="auto")
    marks = ticks(screen.scale, panel.top, panel.signed)
    for at, said in marks:
        _write(figure, x + 0.16, place.y + (1 - at) * high, said, _FONT)
    if panel is screen.panels[-1]:
        said = screen.value + WAYS[screen.scale]
        _write(figure, x + 0.2 + _widest(marks), place.y + high / 2, said, _FONT, rotation=90, ha="left")


# ---------------------------------------------------------------------------------------------------------- all heads


def _overview_sheet(screen: Screen) -> tuple[np.ndarray, float]:
    """Return all heads small on one sheet of dots, uint8 `(high, wide, 3)`, and the inches that layer names need."""
    layers, heads = screen.thumbnails.shape[:2]
    columns = screen.columns
    lines = math.ceil(layers * heads / columns)
    room = min(round(_DOTS * _OVERVIEW[0]) // columns, round(_DOTS * _OVERVIEW[1]) // lines, 90)
    gap = 4 if room >= 14 else 2
    side = max(4, room - gap)
    small = screen.thumbnails.reshape(-1, *screen.thumbnails.shape[2:])
    signed = screen.panels[0].signed
    small = pooled(small, *(math.ceil(size / side) for size in small.shape[1:]), signed)
    rows, across = (np.arange(side) * size // side for size in small.shape[1:])
    tops = screen.thumbnail_tops.reshape(-1, 1, 1)
    shades = _shades(small, screen.thumbnail_scale, tops, signed, screen.view.colours)[:, rows][:, :, across]
    sheet = np.full((lines * columns, side + gap, side + gap, 3), 255, np.uint8)
    if side >= 10:  # a thin frame: what holds little has the colour of the page
        sheet[: len(shades), : side + 2, : side + 2] = _FRAME
    sheet[: len(shades), 1 : side + 1, 1 : side + 1] = shades
    sheet = sheet.reshape(lines, columns, side + gap, side + gap, 3).swapaxes(1, 2)
    names = 0.0 if layers == 1 else 0.25 + _LETTER * max(len(_cut(name, 0.9)) for name in screen.about["brief_layers"])
    return sheet.reshape(lines * (side + gap), columns * (side + gap), 3), names


def _draw_overview(figure: DescribedFigure, screen: Screen, sheet: np.ndarray, left: float) -> None:
    """Draw all heads, what they are called, and frames around those that are chosen."""
    layers, heads = screen.thumbnails.shape[:2]
    high, wide = sheet.shape[:2]
    step = wide // screen.columns
    box = (left, 0.4, wide / _DOTS, high / _DOTS)
    axes = _axes(figure, *box)
    axes.set_frame_on(False)
    axes.imshow(sheet, extent=(0, wide, high, 0), interpolation="none", aspect="auto")
    chosen = [screen.view.layer, screen.view.head]
    for number, (layer, head) in enumerate([chosen, *(pair for pair in screen.view.shown_heads() if pair != chosen)]):
        line, column = divmod(layer * heads + head, screen.columns)
        frame = {"fill": False, "linewidth": 1 if number else 1.8, "edgecolor": "black", "clip_on": False}
        axes.add_patch(Rectangle((column * step, line * step), step - 2, step - 2, **frame))
    own = ", each up to its largest" * bool(np.ptp(screen.thumbnail_tops) > 0)
    _write(figure, left, 0.18, f"{layers * heads} heads{own}", size=_TITLE)
    middle = left + box[2] / 2
    if layers == 1:
        _write(figure, middle, box[1] + box[3] + 0.12, f"heads 0 to {heads - 1}, row by row", ha="center")
        return
    across, down = math.ceil(17 / step), math.ceil(13 / step)
    names = screen.about["brief_layers"], screen.about["brief_heads"]
    layers_at = [((i + 0.5) / layers, _cut(names[0][i], 0.9)) for i in range(0, layers, down)]
    heads_at = [((i + 0.5) / heads, _cut(names[1][i], 0.9)) for i in range(0, heads, across)]
    below, beside = _label(figure, box, heads_at, 1), _label(figure, box, layers_at, 0)
    _write(figure, middle, box[1] + box[3] + below, "head", ha="center", va="top")
    _write(figure, left - beside, box[1] + box[3] / 2, "layer", ha="right", rotation=90)


# -------------------------------------------------------------------------------------------------------------- lines


def _draw_lines(figure: DescribedFigure, screen: Screen, place: _Place, rows: list, columns: list) -> None:
    """Draw heads as lines from queries to keys: those of the chosen query, and of the others the strong ones."""
    across, box = screen.view.mode == "across", (place.lefts[0], place.y, place.wide, place.high)
    axes = _axes(figure, *box)
    left_out, samples = 0, []
    for number, panel in enumerate(screen.panels):
        cells = np.where(np.isfinite(panel.cells), panel.cells, 0)
        sizes = np.abs(cells)
        strength = share(sizes, screen.scale, panel.top)
        mine = (strength > _FAINT) & np.isin(np.arange(len(cells)), screen.rows)[:, None]
        order = np.argsort(-strength, axis=None, kind="stable")[: _MOST_LINES // len(screen.panels)]
        drawn = mine.copy()
        drawn.ravel()[order] |= sizes.ravel()[order] >= max(_FAINT, screen.view.least) * panel.top
        left_out += int((strength > _FAINT).sum() - drawn.sum())
        query, key = drawn.nonzero()
        weight, chosen = strength[query, key], mine[query, key]
        left, right = np.zeros(len(query)), np.ones(len(query))
        ends = np.stack([left, (query + 0.5) / len(cells), right, (key + 0.5) / cells.shape[1]], 1).reshape(-1, 2, 2)
        ends = ends[..., ::-1] if across else ends
        name, dash = LINE_COLOURS[number % len(LINE_COLOURS)], (number + number // len(LINE_COLOURS)) % len(_DASHES)
        colour = np.tile(matplotlib.colors.to_rgba(name), (len(query), 1))
        colour[:, 3] = np.where(chosen, 0.35 + 0.65 * weight, 0.08 + 0.4 * weight)
        look = {"colors": colour, "linewidths": np.where(chosen, 0.8 + 2 * weight, 0.6), "linestyles": [_DASHES[dash]]}
        axes.add_collection(LineCollection(ends, **look))
        samples.append(Line2D([], [], color=name, linestyle=_DASHES[dash]))
    axes.set(xlim=(0, 1), ylim=(1, 0))
    axes.set_frame_on(False)
    for x, sign, at, size in zip((0, 1), "os", screen.cursor, cells.shape, strict=True):
        if 0 <= at < size:
            spot = [x, (at + 0.5) / size][:: -1 if across else 1]
            axes.plot(*spot, sign, color="black", fillstyle="none", markersize=5, clip_on=False)
    names, under = screen.about["axes"], 0.15
    if across:
        _label(figure, box, rows, 1, above=True)
        under += _label(figure, box, columns, 1)
        for y, name in zip((place.y, place.y + place.high), names, strict=True):
            _write(figure, box[0] - 0.1, y, name, ha="right")
    else:
        beside, end = _label(figure, box, rows, 0), box[0] + place.wide
        for at, said in columns:
            _write(figure, end + 0.04, place.y + at * place.high, said, _FONT)
        middle = place.y + place.high / 2
        _write(figure, box[0] - beside, middle, names[0], ha="right", rotation=90)
        _write(figure, end + 0.1 + _widest(columns), middle, names[1], rotation=90)
    words = [f"stronger: larger, up to {screen.panels[0].top:.3g}{WAYS[screen.scale]}"]
    words += [f"{left_out:,} weaker lines left out"] * bool(left_out)
    _write(figure, box[0] + place.wide / 2, place.y + place.high + under, " · ".join(words), _FONT, ha="center")
    if len(screen.panels) > 1:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -(under + 0.12) / place.high), "ncols": 2}
        below |= {"fontsize": _FONT, "frameon": False}
        names = [_cut(panel.name, 1.6) for panel in screen.panels]
        for text in axes.legend(samples, names, **below).get_texts():
            text.set_parse_math(False)


# --------------------------------------------------------------------------------------------------------------- text


def _texts(screen: Screen) -> list[tuple]:
    """Return the texts from above to below: what each is called, its panel and run, its lines, and where they begin.

    A line is a list of tokens, each where it begins, in inches, how it is written, and its number.
    """
    found, y = [], _LINE / 2
    for panel in screen.panels:
        for run in panel.runs:
            lines, at = [[]], 0.0
            for number, token in enumerate(run.tokens):
                said = _cut(visible(token), 1.5)
                if lines[-1] and at + _SIGN * len(said) > _TEXT:
                    lines.append([])
                    at = 0.0
                lines[-1].append((at, said, number))
                at += _SIGN * (len(said) + 1)
            name = f"{screen.about['axes'][run.axis]} text" * (len(panel.runs) > 1)
            caption = ", ".join(filter(None, (panel.name * (len(screen.panels) > 1), name)))
            found.append((caption, panel, run, lines, y))
            y += _LINE * (len(lines) + bool(caption))
    return found


def _draw_text(figure: DescribedFigure, screen: Screen, place: _Place) -> None:
    """Draw tokens as running text, each on the colour of the weight that it gets from the chosen, or gives to it."""
    left, front = place.lefts[0], int(screen.view.direction == "to")
    axes = _axes(figure, left, place.y, place.wide, place.high)
    axes.set(xlim=(0, place.wide), ylim=(place.high, 0), frame_on=False)
    for caption, panel, run, lines, y in _texts(screen):
        if caption:
            _write(figure, left, place.y + y, _cut(caption, place.wide))
        shades = np.full((len(run.tokens), 3), 255)
        if run.numbers is not None:
            shades = _shades(run.numbers, screen.scale, panel.top, panel.signed, screen.view.colours)
        for down, line in enumerate(lines, bool(caption)):
            for x, said, number in line:
                box = ((x, y + down * _LINE - 0.085), _SIGN * len(said), 0.17)
                look = {"facecolor": shades[number] / 255, "edgecolor": HATCH_COLOURS["light"], "linewidth": 0}
                masked = run.numbers is not None and np.isneginf(run.numbers[number])
                axes.add_patch(Rectangle(*box, **look, hatch="//////" if masked else ""))
                if number in (run.chosen, run.other):
                    dash = "solid" if number == run.chosen else "dashed"
                    axes.add_patch(Rectangle(*box, fill=False, edgecolor=_CURSOR, linewidth=1.5, linestyle=dash))
                bright = shades[number] @ (0.2126, 0.7152, 0.0722) > 118
                look = {"family": "monospace", "color": "black" if bright else "white"}
                _write(figure, left + x, place.y + y + down * _LINE, said, **look)
    end = place.y + y + (len(lines) + bool(caption)) * _LINE
    words = f"{screen.value} {('from', 'to')[front]} the {screen.about['axes'][front]} in the frame"
    said = " · ".join(filter(None, (words, _note(screen, screen.panels[0]))))
    _write(figure, left, end, "\n".join(dict.fromkeys([said, *(panel.chosen for panel in screen.panels)])), va="top")
    for number, panel in enumerate(_kinds(screen)):
        _draw_bar(figure, screen, panel, left + place.wide + 0.1 + 0.8 * number, place)

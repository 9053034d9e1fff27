"""The picture beside a live HeadView, for readers where nothing runs: made from pixels, in some 15 ms.

What is drawn is said by a `Drawn` (`drawn`), which knows nothing of the widget; `saved` writes the same one into files.
How heads are drawn as lines stands in `strokes`, all heads small in `overview`, the paper and its letters in `raster`.
"""

import math
from typing import NamedTuple

import numpy as np
from PIL import Image

from headview.head_view.drawn import Drawn, Panel, described
from headview.head_view.overview import Overview, coloured
from headview.head_view.raster import LEVELS, MISSING, SIGNED, Sheet, cut, png_bytes
from headview.head_view.strokes import lines_image, sample
from mhalib.plots import pooled, ticks

SIDE = 340  # pixels of a map
_EDGE = 10
_SMALL, _NORMAL = 11, 13  # heights of letters
_LABEL_ROOM = 110  # of a token
_LEAST_MAP = 130  # of several side by side
WAYS = {"fixed": "", "maximum": ", to the largest", "log": ", logarithmic", "root": ", square roots"}


def quick_picture(drawn: Drawn) -> tuple[bytes, str]:
    """Return a picture as PNG, and its alternative text."""
    alt = described(drawn)
    return png_bytes(draw(drawn), alt), alt


class _Place(NamedTuple):
    """Where the panels of a picture stand."""

    x: int  # of the first panel
    y: int
    wide: int  # of each panel
    high: int
    gap: int  # from one panel to the next
    below: int  # room for what is written under the panels
    cells: tuple[int, int]  # how many cells, down and across, are one pixel


def draw(drawn: Drawn, sharp: int = 1) -> Image.Image:
    """Return the picture: the overview at the left, the panels at the right, their scales beside them.

    Args:
        drawn: what it shows.
        sharp: own pixels for each of a page; 2 for a file.
    """
    overview = None if drawn.thumbnails is None or drawn.thumbnails[..., 0, 0].size < 2 else Overview(drawn)
    rows = [(at, cut(said, _SMALL, _LABEL_ROOM)) for at, said in drawn.marks(0, SIDE, 13, 26)]
    columns = [(at, cut(said, _SMALL, _LABEL_ROOM)) for at, said in drawn.marks(1, SIDE, 13, 42)]
    place = _placed(drawn, overview, rows, columns, sharp)
    bars = drawn.mode == "map"
    across = place.x + len(drawn.panels) * (place.wide + place.gap) if bars else place.x + place.wide + place.gap
    high = max(place.y + place.high + place.below, overview.high + 2 * _EDGE if overview else 0)
    across = max(across, place.x + round(Sheet.width(_below(drawn, place), _SMALL)) + 2 * _EDGE)
    sheet = Sheet(across, high, drawn.colour_map, sharp)
    if overview:
        overview.draw(sheet, _EDGE, _EDGE)
    sheet.text(place.x, _EDGE, cut(drawn.title, _NORMAL, across - place.x - _EDGE), _NORMAL, "la")
    (_draw_maps if bars else _draw_lines)(sheet, drawn, place, rows, columns)
    return sheet.image()


def _placed(drawn: Drawn, overview: Overview | None, rows: list, columns: list, sharp: int) -> _Place:
    """Return where the panels stand: as large as fits, each cell of as many pixels, and with room for the labels."""
    number = len(drawn.panels) if drawn.mode == "map" else 1
    room = max(_LEAST_MAP, min(SIDE, 760 // number)) * sharp
    tall, long = drawn.shape
    wanted = (SIDE * sharp, room)
    pools = tuple(max(1, math.ceil(size / most)) for size, most in zip((tall, long), wanted, strict=True))
    if drawn.mode == "lines":
        pools, high, wide = (1, 1), SIDE * sharp, SIDE * sharp
    elif 0.5 <= tall / long <= 2:
        pools = (max(pools),) * 2
        size = min(_whole(math.ceil(n / pools[0]), most) for n, most in zip((tall, long), wanted, strict=True))
        high, wide = round(math.ceil(tall / pools[0]) * size), round(math.ceil(long / pools[0]) * size)
    else:
        high, wide = (
            max(40 * sharp, most) if n > 1 else 40 * sharp for n, most in zip((tall, long), wanted, strict=True)
        )
    left = max([Sheet.width(said, _SMALL) for _, said in rows], default=0)
    x = _EDGE + (overview.wide + 26 if overview else 0) + 18 + round(left) + 12
    turned = max([Sheet.width(said, _SMALL) for _, said in columns], default=0)
    if drawn.mode == "lines":
        gap, below = round(turned) + 30, 30 + 18 * math.ceil(len(drawn.panels) / 2) * (len(drawn.panels) > 1)
    else:
        gap, below = 92, round(_turned_room(columns, turned)) + 44
    return _Place(x, 52 if number > 1 else 36, math.ceil(wide / sharp), math.ceil(high / sharp), gap, below, pools)


def _whole(cells: int, room: int) -> int | float:
    """Return how many pixels a cell has: a whole number, where that leaves no large part of the room empty."""
    return room // cells if room // cells >= 3 or room % cells < 0.2 * room else room / cells


def _is_turned(columns: list) -> bool:
    return any(len(said) > 4 for _, said in columns)


def _turned_room(columns: list, widest: int | float) -> int | float:
    return widest + 4 if _is_turned(columns) else 16


def _draw_maps(sheet: Sheet, drawn: Drawn, place: _Place, rows: list, columns: list) -> None:
    """Draw the panels side by side, each with the labels of its keys and its scale; the queries only once."""
    s = sheet.sharp
    for number, panel in enumerate(drawn.panels):
        x = place.x + number * (place.wide + place.gap)
        cells = pooled(panel.cells, *place.cells, panel.signed)
        high, wide = place.high * s, place.wide * s
        down, right = (np.arange(n) * size // n for n, size in zip((high, wide), cells.shape, strict=True))
        numbers = coloured(cells, drawn.scale, panel.top, panel.signed)[down][:, right]
        sheet.put(_hatched(numbers, s), x, place.y)
        sheet.frame(x, place.y, place.wide, place.high)
        if place.high / cells.shape[0] >= 9 and place.wide / cells.shape[1] >= 7:
            for i, j in np.argwhere(np.isnan(cells))[:400].tolist():
                at = x + (j + 0.5) * place.wide / cells.shape[1], place.y + (i + 0.5) * place.high / cells.shape[0]
                sheet.text(*at, "?", _SMALL, "mm")
        if len(drawn.panels) > 1:
            sheet.text(x, place.y - 10, cut(panel.name, _SMALL, place.wide + place.gap - 10), _SMALL)
        _draw_columns(sheet, columns, x, place)
        _draw_bar(sheet, drawn, panel, x + place.wide + 10, place)
    for at, said in rows:
        sheet.text(place.x - 6, place.y + at * place.high, said, _SMALL, "rm")
    _draw_axes(sheet, drawn, place, rows, round(_turned_room(columns, _widest(columns))))


def _widest(marks: list) -> int | float:
    return max([Sheet.width(said, _SMALL) for _, said in marks], default=0)


def _draw_columns(sheet: Sheet, columns: list, x: int, place: _Place) -> None:
    """Write the labels under a map, turned where they are long, and thinned once more where it is a narrow one."""
    turned = _is_turned(columns)
    step = math.ceil(len(columns) * (13 if turned else max(13, _widest(columns) + 5)) / place.wide) or 1
    for at, said in columns[::step]:
        where, below = x + at * place.wide, place.y + place.high + 5
        sheet.text(where, below, said, _SMALL, "ma", turned)


def _hatched(numbers: np.ndarray, sharp: int) -> np.ndarray:
    """Return numbers of colours in which what is masked has slanted lines; no number has them."""
    masked = (numbers > MISSING) & (numbers < MISSING + 5)
    if masked.any():
        down, right = (np.arange(size) // sharp for size in numbers.shape)
        numbers = numbers + (masked & ((down[:, None] + right) % 7 == 0)).astype(np.uint8)
    return numbers


def _draw_axes(sheet: Sheet, drawn: Drawn, place: _Place, rows: list, below: int) -> None:
    """Write what rows and columns are, and what has to be said of the cells."""
    beside = place.x - round(_widest(rows)) - 20
    half = Sheet.width(drawn.axes[0], _SMALL) / 2
    sheet.text(beside, place.y + place.high / 2 - half, drawn.axes[0], _SMALL, turned=True)
    y = place.y + place.high + below + 10
    for number in range(len(drawn.panels)):
        sheet.text(place.x + number * (place.wide + place.gap) + place.wide / 2, y, drawn.axes[1], _SMALL, "mm")
    sheet.text(place.x, y + 18, _below(drawn, place), _SMALL)


def _bar_words(drawn: Drawn) -> str:
    return f"{drawn.value}{WAYS[drawn.scale]}"


def _below(drawn: Drawn, place: _Place) -> str:
    """Return what stands below the axes; there is what the colours mean as well, where the bar is too short for it."""
    note = drawn.note(*place.cells)
    fits = Sheet.width(_bar_words(drawn), _SMALL) <= place.high
    return note if fits else " · ".join([f"colours: {_bar_words(drawn)}"] + [note] * bool(note))


def _draw_bar(sheet: Sheet, drawn: Drawn, panel: Panel, x: int, place: _Place) -> None:
    """Draw the colours of a panel and what they mean."""
    first = SIGNED if panel.signed else 0
    steps = np.arange(place.high * sheet.sharp)[::-1] * LEVELS // (place.high * sheet.sharp) + first
    sheet.put(np.repeat(steps.astype(np.uint8)[:, None], 12 * sheet.sharp, 1), x, place.y)
    sheet.frame(x, place.y, 12, place.high)
    last = math.inf
    for at, said in ticks(drawn.scale, panel.top, panel.signed):
        y = place.y + (1 - at) * place.high
        if last - y >= 12:  # of two marks that would touch, the lower one stays
            sheet.text(x + 17, y, said, _SMALL)
            last = y
    said = _bar_words(drawn)
    if Sheet.width(said, _SMALL) > place.high:
        return  # it stands below
    sheet.text(x + 70, place.y + place.high / 2 - Sheet.width(said, _SMALL) / 2, said, _SMALL, turned=True)


def _draw_lines(sheet: Sheet, drawn: Drawn, place: _Place, rows: list, columns: list) -> None:
    """Draw the panels as lines from the rows at the left to the columns at the right, and say which is which."""
    image, left_out = lines_image(drawn, place.wide * sheet.sharp, place.high * sheet.sharp, sheet.sharp)
    sheet.put_drawing(image, place.x, place.y)
    right = place.x + place.wide
    for marks, x, anchor in ((rows, place.x - 6, "rm"), (columns, right + 6, "lm")):
        for at, said in marks:
            sheet.text(x, place.y + at * place.high, said, _SMALL, anchor)
    middle = place.y + place.high / 2
    half = [Sheet.width(name, _SMALL) / 2 for name in drawn.axes]
    sheet.text(place.x - round(_widest(rows)) - 20, middle - half[0], drawn.axes[0], _SMALL, turned=True)
    sheet.text(right + round(_widest(columns)) + 18, middle - half[1], drawn.axes[1], _SMALL, turned=True)
    words = [f"stronger: larger, up to {drawn.panels[0].top:.3g}{WAYS[drawn.scale]}"]
    words += ["dashed: negative"] * any(panel.signed for panel in drawn.panels)
    words += [f"{left_out:,} weaker lines left out"] * bool(left_out) + [drawn.note()] * bool(drawn.note())
    sheet.text(place.x, place.y + place.high + 14, " · ".join(words), _SMALL)
    for i, panel in enumerate(drawn.panels) if len(drawn.panels) > 1 else ():
        x, y = place.x + (i % 2) * place.wide // 2, place.y + place.high + 34 + 18 * (i // 2)
        sheet.put_drawing(sample(i, 30 * sheet.sharp, 8 * sheet.sharp, sheet.sharp), x, y - 4)
        sheet.text(x + 36, y, cut(panel.name, _SMALL, place.wide // 2 - 40), _SMALL)

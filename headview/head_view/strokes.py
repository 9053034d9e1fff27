"""Heads as lines from queries at the left to keys at the right, drawn twice as large and made smaller: smooth ones."""

import math

import matplotlib
import numpy as np
from PIL import Image, ImageDraw

from mhalib.plots import DIVERGING, LINE_COLOURS, share

MOST_LINES = 800  # of all heads together; more cannot be told apart
DASHES = ((), (7, 4), (2, 3), (9, 3, 2, 3))  # pixels on, off, on, off
_DASHED_FROM = 0.2  # a fainter line has no dashes that could be told apart
_FAINT = 0.004  # of the scale: a weaker line is not seen
_FINER = 2


def style(number: int) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Return the colour and the dashes of the head with that number: 32 pairs before one comes again."""
    colour = LINE_COLOURS[number % len(LINE_COLOURS)]
    return _bytes(colour), DASHES[(number + number // len(LINE_COLOURS)) % len(DASHES)]


def chosen_lines(drawn) -> tuple[list[tuple[float, int, int, int]], int]:
    """Return the strongest lines, the weakest of them first, as (strength, panel, row, column), and how many more
    there are. The strength is from 0 to 1, and negative for a negative number."""
    found = []
    for number, panel in enumerate(drawn.panels):
        cells = np.where(np.isfinite(panel.cells), panel.cells, 0)
        strengths = share(np.abs(cells), drawn.scale, panel.top) * np.sign(cells)
        rows, columns = (np.abs(strengths) >= _FAINT).nonzero()
        found.append((strengths[rows, columns], np.full(len(rows), number), rows, columns))
    strengths, numbers, rows, columns = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(np.abs(strengths), kind="stable")[-MOST_LINES:]
    lines = zip(*(part[order].tolist() for part in (strengths, numbers, rows, columns)), strict=True)
    return list(lines), len(strengths) - len(order)


def lines_image(drawn, wide: int, high: int, sharp: int = 1) -> tuple[Image.Image, int]:
    """Return the lines as an RGB image of that size, and how many were left out because they are weaker."""
    lines, left_out = chosen_lines(drawn)
    finer = Image.new("RGB", (wide * _FINER, high * _FINER), "white")
    pen = ImageDraw.Draw(finer, "RGBA")
    rows, columns = drawn.shape
    for strength, number, row, column in lines:
        colour, dashes = line_style(drawn.panels[number].signed, number, strength)
        ends = (0, (row + 0.5) / rows * high * _FINER), (wide * _FINER, (column + 0.5) / columns * high * _FINER)
        dashes = dashes if abs(strength) >= _DASHED_FROM else ()
        size = round((1 + 2 * abs(strength)) * _FINER * sharp)
        _stroke(pen, *ends, (*colour, round(255 * opacity(strength))), size, [n * _FINER * sharp for n in dashes])
    return finer.reduce(_FINER), left_out


def line_style(signed: bool, number: int, strength: int | float) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Return the colour and the dashes of a line: its head's, or, of signed numbers, its sign's."""
    if not signed:
        return style(number)
    return (
        (_bytes(matplotlib.colormaps[DIVERGING](0.92)), ())
        if strength > 0
        else (
            _bytes(matplotlib.colormaps[DIVERGING](0.08)),
            DASHES[1],
        )
    )


def opacity(strength: int | float) -> int | float:
    """Return how opaque a line is: in proportion to its number, and never quite invisible."""
    return 0.06 + 0.94 * abs(strength)


def sample(number: int, wide: int, high: int, sharp: int = 1) -> Image.Image:
    """Return a piece of line as a legend shows it."""
    finer = Image.new("RGB", (wide * _FINER, high * _FINER), "white")
    colour, dashes = style(number)
    ends = (0, high * _FINER / 2), (wide * _FINER, high * _FINER / 2)
    dashes = [n * _FINER * sharp for n in dashes]
    _stroke(ImageDraw.Draw(finer, "RGBA"), *ends, (*colour, 255), 3 * _FINER * sharp, dashes)
    return finer.reduce(_FINER)


def _stroke(pen: ImageDraw.ImageDraw, start, end, colour, size: int, dashes: list[int]) -> None:
    """Draw one line, dashed where it has dashes."""
    if not dashes:
        pen.line((start, end), colour, size)
        return
    (x, y), (right, lower) = start, end
    whole = max(math.hypot(right - x, lower - y), 1e-9)
    along, down = (right - x) / whole, (lower - y) / whole
    done, on = 0.0, 0
    while done < whole:
        until = min(whole, done + dashes[on % len(dashes)])
        if on % 2 == 0:
            pen.line((x + along * done, y + down * done, x + along * until, y + down * until), colour, size)
        done, on = until, on + 1


def _bytes(colour) -> tuple[int, int, int]:
    return tuple(round(255 * part) for part in matplotlib.colors.to_rgb(colour))

"""Many maps as one image: where each head stands on a page, its pixels, and what is written on and around it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mhalib.arguments import check_size
from mhalib.plots.colours import MASKED_COLOURS, NAN_COLOUR
from mhalib.plots.hatching import hatch
from mhalib.plots.pooling import round_numbers
from mhalib.plots.scales import share, ticks

_WIDE, _HIGH = 9.5, 12.0  # inches of a page; where keys are labelled below each head, it may be higher
_LEAST = 0.0125  # inches of a cell: a little more than a pixel, so that none falls between two pixels
_MOST_ACROSS, _MOST_LINES = 105, 50  # heads that stand side by side, and lines of them: below, a head is no picture
_MOST_MARKS = 40_000  # strokes and question marks
_NUMBERED_FROM = 40  # tokens without names: below it they can be counted


class Look(NamedTuple):
    """What the colours of a picture mean."""

    scale: str
    top: int | float
    signed: bool
    colour_map: str

    def places(self, maps: np.ndarray) -> np.ndarray:
        """Return where numbers stand on the scale, from 0 to 1, masked ones and NaN anywhere."""
        return np.nan_to_num(share(maps, self.scale, self.top, self.signed))


class Grid(NamedTuple):
    """Where the heads of one picture stand, counted in cells, one for each weight or for `pool` of them."""

    rows: int  # of all heads and what lies between them
    columns: int
    queries: int  # of one head
    keys: int
    corners: list[tuple[int, int]]  # top and left of each head
    high: float  # inches of a cell
    wide: float
    pool: tuple[int, int]  # queries and keys that a cell stands for

    @property
    def width(self) -> float:
        """The width of all heads, in inches."""
        return self.columns * self.wide

    @property
    def height(self) -> float:
        """The height of all heads, in inches."""
        return self.rows * self.high

    @property
    def font(self) -> float:
        """The size of a token, in points."""
        return min(9.0, max(6.0, min(self.wide, self.high) * 36))


def lay_out(heads: int, queries: int, keys: int, columns: int | None, values: bool, labelled: bool) -> Grid:
    """Return where each head stands, so that a page holds them, and values and key labels can be read."""
    if columns is None:
        columns = heads if heads <= 4 else math.ceil(math.sqrt(1.3 * heads * min(16, max(1 / 16, queries / keys))))
        columns = min(columns, max(1, 40 // keys)) if labelled and keys <= 40 else columns
        columns = min(_MOST_ACROSS, math.ceil(heads / math.ceil(heads / columns)))  # 2 + 2 rather than 3 + 1
    check_size("columns", columns)
    columns = min(columns, heads)
    lines = math.ceil(heads / columns)
    page = 20.0 if labelled else _HIGH
    room = (page / lines, _WIDE / (columns * 1.125))  # of one head, inches
    _check_room(heads, queries, keys, columns)
    pool = _pool(queries, keys, room)
    queries, keys = math.ceil(queries / pool[0]), math.ceil(keys / pool[1])
    gap_x = max(1, keys // 8)
    across = columns * (keys + gap_x) - gap_x
    wide = high = min(0.46 if values else 0.3, _WIDE / across, page / (lines * queries))
    if not 1 / 8 <= queries / keys <= 8:  # a map of few rows and many columns is stretched until they can be seen
        high = max(high, min(room[0], 0.6, 0.3 * queries) / queries)
        wide = max(wide, min(room[1], 0.6, 0.3 * keys) / keys)
    gap_y = max(1, math.ceil(0.3 / high))  # room for a title, however small the cells are
    corners = [((i // columns) * (queries + gap_y), (i % columns) * (keys + gap_x)) for i in range(heads)]
    return Grid(lines * (queries + gap_y) - gap_y, across, queries, keys, corners, high, wide, pool)


def _pool(queries: int, keys: int, room: tuple[float, float]) -> tuple[int, int]:
    """Return how many queries and keys one cell must stand for: as many on both axes, where the map is a square."""
    down, right = (
        max(1, math.ceil(size * _LEAST / inches)) for size, inches in zip((queries, keys), room, strict=True)
    )
    return (max(down, right),) * 2 if 0.5 <= queries / keys <= 2 else (down, right)


def _check_room(heads: int, queries: int, keys: int, columns: int) -> None:
    """Refuse more heads than a page can show, and say how many it can."""
    if columns > _MOST_ACROSS:
        raise ValueError(f"columns={columns} do not fit a page; use columns={_MOST_ACROSS} at most")
    most = columns * _MOST_LINES
    if heads > most:
        better = "" if columns == _MOST_ACROSS else f"; up to {_MOST_ACROSS * _MOST_LINES} with columns={_MOST_ACROSS}"
        raise ValueError(
            f"{heads} heads of {queries} x {keys} weights do not fit one picture, which holds {most} in {columns} "
            f"columns; give weights[:{most}] and then the others{better}"
        )


def paint(axes: Axes, grid: Grid, maps: np.ndarray, look: Look) -> list[str]:
    """Draw all heads as one image, which is transparent between them, with frames and with marks on special cells.

    Returns:
        what is to be said of special cells, such as "×: masked".
    """
    image = np.zeros((grid.rows, grid.columns, 4))
    masked, missing = np.isneginf(maps), np.isnan(maps)
    for head, (top, left) in enumerate(grid.corners):
        block = image[top : top + grid.queries, left : left + grid.keys]
        block[:] = matplotlib.colormaps[look.colour_map](look.places(maps[head]))
        block[masked[head]] = matplotlib.colors.to_rgba(MASKED_COLOURS["light"])
        block[missing[head]] = matplotlib.colors.to_rgba(NAN_COLOUR)
        frame = {"fill": False, "linewidth": 0.6, "edgecolor": "#444444", "clip_on": False}
        axes.add_patch(Rectangle((left - 0.5, top - 0.5), grid.keys, grid.queries, **frame))
    axes.imshow(image, interpolation="nearest", aspect=grid.high / grid.wide)
    said = []
    if masked.any():
        at = np.argwhere(masked)
        few = len(at) <= _MOST_MARKS and grid.wide >= 0.04  # closer, strokes would be one grey
        said.append("hatched: masked" if few else "grey: masked")
        if few:
            hatch(axes, np.array(grid.corners)[at[:, 0]] + at[:, 1:], min(grid.wide, grid.high))
    if missing.any():
        at = np.argwhere(missing)
        said.append("?: NaN" if len(at) <= _MOST_MARKS else "red: NaN")
        rows, columns = (np.array(grid.corners)[at[:, 0]] + at[:, 1:]).T
        if len(at) <= _MOST_MARKS:
            size = max(3.0, min(6.0, grid.wide * 30))  # a single one must be found
            axes.plot(columns, rows, marker="$?$", linestyle="none", color="black", markersize=size)
    return said


def name_heads(axes: Axes, grid: Grid, names: Sequence[str], numbered: bool) -> None:
    """Write the name above every head, its number alone where no more fits, and every second or third where not even
    that does."""
    room = grid.wide * (grid.keys + max(1, grid.keys // 8))  # inches
    if numbered and room < 0.085 * len(names[-1]):
        names = [name.removeprefix("head ") for name in names]
    letters = max(1, math.floor(room / 0.075))
    step = 1 if not numbered else math.ceil(max(map(len, names)) / letters)
    across = sum(top == 0 for top, _ in grid.corners)
    for i, ((top, left), name) in enumerate(zip(grid.corners, names, strict=True)):
        if i % across % step == 0:
            short = name if numbered or len(grid.corners) <= 16 or len(name) <= letters else name[: letters - 1] + "…"
            above = top - 0.5 - 0.05 / grid.high
            axes.text(left - 0.5, above, short, fontsize=9, va="bottom", parse_math=False)


def write_values(axes: Axes, grid: Grid, maps: np.ndarray, look: Look) -> None:
    """Write every number into its cell, in black or white, whichever has more contrast."""
    shades = matplotlib.colormaps[look.colour_map](look.places(maps))[..., :3]
    linear = np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
    bright = linear @ (0.2126, 0.7152, 0.0722) > math.sqrt(1.05 * 0.05) - 0.05  # WCAG: as far from black as from white
    for head, i, j in np.argwhere(np.isfinite(maps)).tolist():
        (top, left), number = grid.corners[head], maps[head, i, j]
        ink = "black" if bright[head, i, j] else "white"
        said = f"{number:.2f}" if look.top <= 10 else f"{number:.3g}"
        axes.text(left + j, top + i, said, fontsize=7, ha="center", va="center", color=ink)


def label_axes(axes: Axes, grid: Grid, labels: tuple[list[str], list[str]], sizes: tuple[int, int]) -> None:
    """Write the tokens: queries beside the heads on the left, keys below the lowest head of every column."""
    axes.set_frame_on(False)
    axes.tick_params(length=0, pad=2)
    bottoms = {left: top for top, left in grid.corners}
    last = max(bottoms.values())
    at, said = _thinned(labels[1], sizes[1], grid.pool[1], grid.wide, grid.font, across=True)
    ends = [left for left, top in bottoms.items() if top == last] if said else []
    turned = 90 if max(map(len, said), default=0) > 2 and (labels[1] or grid.keys * grid.wide < 0.4 * len(said)) else 0
    axes.set_xticks([left + x for left in ends for x in at], said * len(ends), fontsize=grid.font, rotation=turned)
    for left, top in bottoms.items():
        for x, label in zip(at, said, strict=True) if top < last else ():  # above the end there are no ticks
            look = {"fontsize": grid.font, "rotation": turned, "ha": "center", "va": "top"}
            axes.text(left + x, top + grid.queries - 0.3, label, parse_math=False, **look)
    at, said = _thinned(labels[0], sizes[0], grid.pool[0], grid.high, grid.font, across=False)
    firsts = [top for top, left in grid.corners if left == 0] if said else []
    axes.set_yticks([top + y for top in firsts for y in at], said * len(firsts), fontsize=grid.font)
    for label in axes.get_xticklabels() + axes.get_yticklabels():
        label.set_parse_math(False)


def _thinned(
    labels: list[str], size: int, pool: int, inches: float, font: float, across: bool
) -> tuple[list[float], list[str]]:
    """Return where labels stand, in cells, and what they say: tokens, or numbers where there are none and many."""
    if labels:
        step = max(1, math.ceil(1.15 * font / 72 / (inches / pool))) if size > 20 else 1
        chosen = range(0, size, step)
        said = [labels[i] for i in chosen]
    elif size < _NUMBERED_FROM:
        return [], []
    else:
        room = inches / pool * size
        chosen = round_numbers(0, size, max(1, math.floor(room / (0.5 if across else 0.25))))
        if len(chosen) < 2:  # a lone 0 says nothing
            return [], []
        said = [str(i) for i in chosen]
    return [(i + 0.5) / pool - 0.5 for i in chosen], said


def colour_bar(figure: Figure, axes: Axes, look: Look, name: str) -> None:
    """Draw the colours and what they mean beside the heads."""
    shades = ScalarMappable(matplotlib.colors.Normalize(0, 1), look.colour_map)
    bar = figure.colorbar(shades, ax=axes, fraction=0.05, pad=0.02, aspect=4 * figure.get_figheight())
    if look.scale != "fixed" or look.signed:
        at, said = zip(*ticks(look.scale, look.top, look.signed), strict=True)
        bar.set_ticks(list(at), labels=list(said))
    ways = {"fixed": "", "maximum": f" (to the largest, {look.top:.3g})", "log": " (logarithmic)", "root": " (root)"}
    bar.set_label(name + ways[look.scale])

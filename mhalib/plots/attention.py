"""Attention of any number of heads as one picture: one image with all heads, labels around it, one colour bar."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgba
from matplotlib.patches import Rectangle
from torch import Tensor

from mhalib.arguments import check_size, check_weights_kind, checked_weights
from mhalib.masks import check_boolean
from mhalib.plots.cells import SCALES, hatch, pooled, pooled_words, round_numbers, share, ticks
from mhalib.plots.colours import COLOUR_MAP, DIVERGING, MASKED_COLOURS, NAN_COLOUR
from mhalib.plots.figure import DescribedFigure, as_labels, new_figure

_WAYS = {  # each scale in words, and beside the colour bar
    "fixed": ("", ""),
    "maximum": (", the largest in the picture", " (to the largest, {:.3g})"),
    "log": (" on a logarithmic scale, below 0.0001 the lowest colour", " (logarithmic)"),
    "root": (" on a scale of square roots", " (root)"),
}
_LEAST = 0.0125  # inches of a cell: a little more than a pixel, so that none falls between two pixels
_MOST_ACROSS, _MOST_LINES = 105, 50  # heads that stand side by side, and lines of them: below, a head is no picture


def plot_attention(
    weights: Float[Tensor, "*heads queries keys"],
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    mask: Bool[Tensor, "..."] | None = None,
    titles: Sequence[str] | None = None,
    columns: int | None = None,
    values: bool | None = None,
    kind: str = "weights",
    scale: str | None = None,
) -> DescribedFigure:
    """Draw the attention of any number of heads as one picture on one scale, from 0 to 1 when nothing else is said.

    Where there are more weights than pixels, a pixel shows the largest of those that it stands for, and the picture
    says of how many.

    Args:
        weights: `(Tq, Tk)`, `(h, Tq, Tk)` or `(1, h, Tq, Tk)`, each weight between 0 and 1. Rows are
            queries, columns are keys. NaN is drawn in red with a question mark.
        tokens: the labels of the queries, and of the keys where they are as many.
        key_tokens: the labels of the keys.
        mask: boolean, True where attention is allowed, `(Tq, Tk)` or like `weights`; blocked cells are hatched.
        titles: one per head; "head 0", "head 1", … when left out.
        columns: how many heads stand side by side; a choice that fits a page when left out.
        values: write the weight into every cell; when left out, for small maps only.
        kind: "weights", or "signed" for any numbers, such as differences: 0 has the colour in the middle.
        scale: where the colours end. "fixed" (1), "maximum" (the largest number in the picture, as for signed numbers
            when it is left out), "log" (from 1e-4 to 1) or "root" (square roots, to 1), these two further if need be.

    Raises:
        TypeError: the weights are no floating tensor, or the mask is no boolean one.
        ValueError: a rank, a length, a value or a choice does not fit, or there are too many heads for one picture.

    Taught in notebook 00.
    """
    signed = kind == "signed"
    scale = scale or ("maximum" if signed else "fixed")
    for name, value, choices in (("kind", kind, ("weights", "signed")), ("scale", scale, SCALES)):
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    weights = _as_heads(weights)
    heads, queries, keys = weights.shape
    if key_tokens is None and queries == keys:
        key_tokens = tokens
    query_labels = _short(as_labels(tokens, queries, "tokens", "queries"))
    key_labels = _short(as_labels(key_tokens, keys, "key_tokens", "keys"))
    names = _short(as_labels(titles, heads, "titles", "heads")) or [f"head {i}" for i in range(heads)]
    values = queries * keys <= 49 and heads <= 8 if values is None else values
    grid = _lay_out(heads, queries, keys, columns, values, bool(key_labels))
    maps = _as_maps(weights, mask, signed, grid.pool)
    largest = float(np.abs(maps, where=np.isfinite(maps), out=np.zeros_like(maps)).max())
    if scale == "fixed" and largest > 1:  # all beyond its end would have one colour
        raise ValueError(f"the fixed scale ends at 1, the largest number is {largest:.4g}; use scale='maximum'")
    top = 1.0 if scale != "maximum" and largest <= 1 else largest or 1.0
    in_words, short = _WAYS[scale]
    small = pooled_words(grid.pool, grid.pool, signed)
    what = "values" if signed else "weights"
    alt = f"Attention {what} of {heads} head{'s' * (heads > 1)}, "
    alt += f"{queries} {'queries' if queries > 1 else 'query'} by {keys} key{'s' * (keys > 1)}, "
    alt += f"colours from {f'−{top:.3g}' if signed else 0} to {top:.3g}{in_words}" + f"; {small}" * bool(small)
    alt += f": {'; '.join(names)}." if titles is not None and heads <= 10 else "."
    beside, below = (grid.font / 110 * max(map(len, labels), default=0) for labels in (query_labels, key_labels))
    high = grid.rows * grid.high + 0.9 + below + 0.17 * (not np.isfinite(maps).all())  # inches, marks told in a line
    figure = new_figure(alt, (grid.columns * grid.wide + 1.8 + beside, high))
    axes = figure.subplots()
    colours = matplotlib.colormaps[DIVERGING if signed else COLOUR_MAP]
    shades = colours(np.nan_to_num(share(maps, scale, top, signed)))  # (h, Tq, Tk, 4)
    signs = _paint(axes, grid, maps, shades)
    _name_heads(axes, grid, names, numbered=titles is None)
    if values:
        _write_values(axes, grid, maps, shades[..., :3], top)
    _label_axes(axes, grid, (query_labels, key_labels), (queries, keys))
    axes.set(ylabel="query", xlabel="\n".join(filter(None, ["key", " · ".join(signs), small])))
    shown = ScalarMappable(Normalize(0, 1), colours)
    bar = figure.colorbar(shown, ax=axes, fraction=0.05, pad=0.02, aspect=4 * figure.get_figheight())
    if scale != "fixed":
        at, said = zip(*ticks(scale, top, signed), strict=True)
        bar.set_ticks(list(at), labels=list(said))
    bar.set_label(f"attention {what.removesuffix('s')}{short.format(top)}")
    return figure


def _as_heads(weights: Tensor) -> Tensor:
    """Return the weights as they came, `(h, Tq, Tk)`, once they can be attention weights by their rank and kind."""
    if isinstance(weights, (tuple, list)):
        raise TypeError(
            f"weights must be a tensor, got a {type(weights).__name__} of {len(weights)}; where a model returns one "
            "tensor per layer, give weights[layer]; of the pair that a layer returns, the second"
        )
    check_weights_kind("weights", weights)
    if not 2 <= weights.ndim <= 4 or 0 in weights.shape or (weights.ndim == 4 and len(weights) > 1):
        raise ValueError(
            f"weights must be (Tq, Tk), (h, Tq, Tk) or (1, h, Tq, Tk), none empty, got {tuple(weights.shape)}; a "
            "picture shows one sample: give weights[0]"
        )
    return weights.detach().reshape(-1, *weights.shape[-2:])


def _as_maps(weights: Tensor, mask: Tensor | None, signed: bool, pool: int) -> np.ndarray:
    """Return the maps as they are drawn, float32: checked, pooled, -inf where masked."""
    maps = weights.to("cpu", torch.float32)
    if not signed:  # whatever its rows sum to: a pattern, or weights under dropout, is drawn as well
        maps = checked_weights("weights", maps, weights.dtype)
    elif maps.isinf().any():
        raise ValueError("weights hold infinite numbers, which no colour shows; mark what is blocked with mask=")
    if mask is not None:
        check_boolean("mask", mask)
        try:
            allowed = (mask[0] if mask.ndim == 4 and len(mask) == 1 else mask).cpu().expand(weights.shape)
        except RuntimeError:
            raise ValueError(
                f"mask {tuple(mask.shape)} does not fit weights {tuple(weights.shape)}; give (Tq, Tk) or one per head"
            ) from None
        maps = maps.masked_fill(~allowed, -torch.inf)
    return pooled(maps.numpy(), pool, pool, signed)


def _short(labels: list[str]) -> list[str]:
    return [label if len(label) <= 30 else label[:29] + "…" for label in labels]


class _Grid(NamedTuple):
    """Where the heads of one picture stand, counted in cells, one for each weight or for `pool` x `pool` of them."""

    rows: int  # of all heads and what lies between them
    columns: int
    queries: int  # of one head
    keys: int
    corners: list[tuple[int, int]]  # top and left of each head
    high: float  # inches of a cell
    wide: float
    pool: int

    @property
    def font(self) -> float:
        """The size of a token, in points."""
        return min(9.0, max(6.0, min(self.wide, self.high) * 36))


def _lay_out(heads: int, queries: int, keys: int, columns: int | None, values: bool, labelled: bool) -> _Grid:
    """Return where each head stands, so that a page holds them, and values and key labels can be read."""
    if columns is None:
        columns = heads if heads <= 4 else math.ceil(math.sqrt(1.3 * heads * min(16, max(1 / 16, queries / keys))))
        columns = min(columns, max(1, 40 // keys)) if labelled and keys <= 40 else columns
        columns = min(_MOST_ACROSS, math.ceil(heads / math.ceil(heads / columns)))  # 2 + 2 rather than 3 + 1
    check_size("columns", columns)
    columns = min(columns, heads)
    lines = math.ceil(heads / columns)
    if columns > _MOST_ACROSS or lines > _MOST_LINES:
        raise ValueError(
            f"{heads} heads in {columns} columns do not fit one picture, which holds {_MOST_LINES} lines of up to "
            f"{_MOST_ACROSS}; give weights[:{min(columns, _MOST_ACROSS) * _MOST_LINES}] and then the others"
        )
    page = 20.0 if labelled else 12.0  # inches
    room = (page / lines, 9.5 / (columns * 1.125))  # of one head
    pool = max(1, *(math.ceil(size * _LEAST / inches) for size, inches in zip((queries, keys), room, strict=True)))
    queries, keys = math.ceil(queries / pool), math.ceil(keys / pool)
    gap_x = max(1, keys // 8)
    across = columns * (keys + gap_x) - gap_x
    wide = high = min(0.46 if values else 0.3, 9.5 / across, page / (lines * queries))
    if not 1 / 8 <= queries / keys <= 8:  # a map of few rows and many columns is stretched until they can be seen
        high = max(high, min(room[0], 0.6, 0.3 * queries) / queries)
        wide = max(wide, min(room[1], 0.6, 0.3 * keys) / keys)
    gap_y = max(1, math.ceil(0.3 / high))  # room for a title, however small the cells are
    corners = [((i // columns) * (queries + gap_y), (i % columns) * (keys + gap_x)) for i in range(heads)]
    return _Grid(lines * (queries + gap_y) - gap_y, across, queries, keys, corners, high, wide, pool)


def _paint(axes: Axes, grid: _Grid, maps: np.ndarray, shades: np.ndarray) -> list[str]:
    """Draw all heads as one image, which is transparent between them, with frames and with marks on special cells.

    Returns:
        what is to be said of special cells, such as "hatched: masked".
    """
    image = np.zeros((grid.rows, grid.columns, 4))
    masked, missing = np.isneginf(maps), np.isnan(maps)
    shades[masked], shades[missing] = to_rgba(MASKED_COLOURS["light"]), to_rgba(NAN_COLOUR)
    for head, (top, left) in enumerate(grid.corners):
        image[top : top + grid.queries, left : left + grid.keys] = shades[head]
        frame = {"fill": False, "linewidth": 0.6, "edgecolor": "#444444", "clip_on": False}
        axes.add_patch(Rectangle((left - 0.5, top - 0.5), grid.keys, grid.queries, **frame))
    axes.imshow(image, interpolation="nearest", aspect=grid.high / grid.wide)
    said = []
    if masked.any():
        at = np.argwhere(masked)
        strokes = len(at) <= 40_000 and grid.wide >= 0.04  # closer, they would be one grey
        said.append("hatched: masked" if strokes else "grey: masked")
        if strokes:
            hatch(axes, np.array(grid.corners)[at[:, 0]] + at[:, 1:], min(grid.wide, grid.high))
    if missing.any():
        head, row, column = missing.nonzero()
        top, left = np.array(grid.corners)[head].T
        size = max(3.0, min(6.0, grid.wide * 30))  # a single one must be found
        axes.plot(left + column, top + row, marker="$?$", linestyle="none", color="black", markersize=size)
        said.append("?: NaN")
    return said


def _name_heads(axes: Axes, grid: _Grid, names: Sequence[str], numbered: bool) -> None:
    """Write the name above every head: its number alone where no more fits, and of many numbers every second or so."""
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


def _write_values(axes: Axes, grid: _Grid, maps: np.ndarray, shades: np.ndarray, largest: float) -> None:
    """Write every number into its cell, in black or white, whichever has more contrast."""
    linear = np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
    bright = linear @ (0.2126, 0.7152, 0.0722) > math.sqrt(1.05 * 0.05) - 0.05  # WCAG: as far from black as from white
    for head, i, j in np.argwhere(np.isfinite(maps)).tolist():
        (top, left), number = grid.corners[head], maps[head, i, j]
        look = {"fontsize": 7, "ha": "center", "va": "center", "color": "black" if bright[head, i, j] else "white"}
        axes.text(left + j, top + i, f"{number:.2f}" if largest <= 10 else f"{number:.3g}", **look)


def _label_axes(axes: Axes, grid: _Grid, labels: tuple[list[str], list[str]], sizes: tuple[int, int]) -> None:
    """Write the tokens: queries beside the heads on the left, keys below the lowest head of every column."""
    axes.set_frame_on(False)
    axes.tick_params(length=0, pad=2)
    bottoms = {left: top for top, left in grid.corners}
    last = max(bottoms.values())
    at, said = _thinned(labels[1], sizes[1], grid.pool, grid.wide, grid.font, 0.5)
    ends = [left for left, top in bottoms.items() if top == last] if said else []
    turned = 90 if max(map(len, said), default=0) > 2 and (labels[1] or grid.keys * grid.wide < 0.4 * len(said)) else 0
    axes.set_xticks([left + x for left in ends for x in at], said * len(ends), fontsize=grid.font, rotation=turned)
    for left, top in bottoms.items():
        for x, label in zip(at, said, strict=True) if top < last else ():  # above the end there are no ticks
            look = {"fontsize": grid.font, "rotation": turned, "ha": "center", "va": "top"}
            axes.text(left + x, top + grid.queries - 0.3, label, parse_math=False, **look)
    at, said = _thinned(labels[0], sizes[0], grid.pool, grid.high, grid.font, 0.25)
    firsts = [top for top, left in grid.corners if left == 0] if said else []
    axes.set_yticks([top + y for top in firsts for y in at], said * len(firsts), fontsize=grid.font)
    for label in axes.get_xticklabels() + axes.get_yticklabels():
        label.set_parse_math(False)


def _thinned(
    labels: list[str], size: int, pool: int, inches: float, font: float, number: float
) -> tuple[list[float], list[str]]:
    """Return where labels stand, in cells, and what they say: tokens, or numbers where there are none and many."""
    if labels:
        step = max(1, math.ceil(1.15 * font / 72 / (inches / pool))) if size > 20 else 1
        chosen = range(0, size, step)
    elif size < 40:  # tokens without names can be counted
        chosen = []
    else:
        chosen = round_numbers(0, size, max(1, math.floor(inches / pool * size / number)))
        chosen = chosen if len(chosen) > 1 else []  # a lone 0 says nothing
    return [(i + 0.5) / pool - 0.5 for i in chosen], [labels[i] if labels else str(i) for i in chosen]

"""Attention of any number of heads as one picture: where they stand, their pixels, and what is written on them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.patches import Rectangle
from torch import Tensor

from mhalib.arguments import check_size, check_weights_kind, checked_weights
from mhalib.masks import check_boolean
from mhalib.plots.colours import COLOUR_MAP, DARK_INK_FROM, MASKED_COLOUR, NAN_COLOUR
from mhalib.plots.figure import DescribedFigure, as_labels, new_figure


def plot_attention(
    weights: Float[Tensor, "*heads queries keys"],
    tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    mask: Bool[Tensor, "..."] | None = None,
    titles: Sequence[str] | None = None,
    columns: int | None = None,
    values: bool | None = None,
) -> DescribedFigure:
    """Draw the attention of any number of heads as one picture on one scale from 0 to 1.

    Args:
        weights: `(Tq, Tk)`, `(h, Tq, Tk)` or `(1, h, Tq, Tk)`, each weight between 0 and 1. Rows are
            queries, columns are keys. NaN is drawn in red with a question mark.
        tokens: the labels of the queries, and of the keys where they are as many.
        key_tokens: the labels of the keys.
        mask: boolean, True where attention is allowed, `(Tq, Tk)` or like `weights`; blocked cells are
            grey with a cross.
        titles: one per head; "head 0", "head 1", … when left out.
        columns: how many heads stand side by side; a choice that fits a page when left out.
        values: write the weight into every cell; when left out, for small maps only.

    Raises:
        TypeError: the weights are no floating tensor, or the mask is no boolean one.
        ValueError: a rank, a length or a value does not fit, or there is more than one picture can show.

    Taught in notebook 00.
    """
    maps = _as_maps(weights)
    heads, queries, keys = maps.shape
    if key_tokens is None and queries == keys:
        key_tokens = tokens
    query_labels = _short(as_labels(tokens, queries, "tokens", "queries"))
    key_labels = _short(as_labels(key_tokens, keys, "key_tokens", "keys"))
    names = _short(as_labels(titles, heads, "titles", "heads")) or [f"head {i}" for i in range(heads)]
    blocked = ~_as_allowed(mask, maps)
    missing = maps.isnan() & ~blocked
    values = queries * keys <= 49 and heads <= 8 if values is None else values
    grid = _lay_out(heads, queries, keys, columns, values, bool(key_labels))

    alt = f"Attention weights of {heads} head{'s' * (heads > 1)}, {queries} queries by {keys} keys, colours from 0 to 1"
    alt += f": {'; '.join(names)}." if titles is not None and heads <= 10 else "."
    beside, below = (grid.font / 110 * max(map(len, labels), default=0) for labels in (query_labels, key_labels))
    figure = new_figure(alt, (grid.columns * grid.cell + 1.8 + beside, grid.rows * grid.cell + 0.9 + below))  # inches
    axes = figure.subplots()
    _paint(axes, grid, maps, blocked, missing)
    for (top, left), name in zip(grid.corners, names, strict=True):
        axes.text(left - 0.5, top - 0.5 - 0.05 / grid.cell, name, fontsize=9, va="bottom", parse_math=False)
    for head, i, j in (~blocked & ~missing).nonzero().tolist() if values else ():
        (top, left), weight = grid.corners[head], maps[head, i, j].item()
        ink = "black" if weight >= DARK_INK_FROM else "white"
        axes.text(left + j, top + i, f"{weight:.2f}", fontsize=7, ha="center", va="center", color=ink)
    _label(axes, grid, query_labels, key_labels)
    axes.set_ylabel("query")
    axes.set_xlabel("      ".join(["key"] + ["×: masked"] * bool(blocked.any()) + ["?: NaN"] * bool(missing.any())))
    shades = ScalarMappable(matplotlib.colors.Normalize(0, 1), COLOUR_MAP)
    bar = figure.colorbar(shades, ax=axes, fraction=0.05, pad=0.02, aspect=4 * figure.get_figheight())
    bar.set_label("attention weight")
    return figure


class _Grid(NamedTuple):
    """Where the heads of one picture stand, counted in cells, one for each weight."""

    rows: int  # of all heads and what lies between them
    columns: int
    queries: int  # of one head
    keys: int
    corners: list[tuple[int, int]]  # top and left of each head
    cell: float  # inches

    @property
    def font(self) -> float:
        """The size of a token, in points."""
        return min(9.0, max(6.0, self.cell * 36))


def _lay_out(heads: int, queries: int, keys: int, columns: int | None, values: bool, labelled: bool) -> _Grid:
    """Return where each head stands, so that a page holds them, and values and key labels can be read."""
    if columns is None:
        columns = heads if heads <= 4 else math.ceil(math.sqrt(1.3 * heads * queries / keys))
        columns = min(columns, max(1, 40 // keys)) if labelled else columns
        columns = math.ceil(heads / math.ceil(heads / columns))  # 2 + 2 rather than 3 + 1
    check_size("columns", columns)
    columns = min(columns, heads)
    lines = math.ceil(heads / columns)
    gap_x = max(1, keys // 8)
    across = columns * (keys + gap_x) - gap_x
    cell = min(0.46 if values else 0.3, 9.5 / across, (20.0 if labelled else 12.0) / (lines * queries))
    if cell * 100 < 1:
        given = f"{heads} heads of {queries} x {keys} weights"
        raise ValueError(f"{given} do not fit one picture; give fewer heads or tokens")
    gap_y = max(1, math.ceil(0.3 / cell))  # room for a title, however small the cells are
    corners = [((i // columns) * (queries + gap_y), (i % columns) * (keys + gap_x)) for i in range(heads)]
    return _Grid(lines * (queries + gap_y) - gap_y, across, queries, keys, corners, cell)


def _paint(axes: Axes, grid: _Grid, maps: Tensor, blocked: Tensor, missing: Tensor) -> None:
    """Draw all heads as one image, which is transparent between them, with frames and with marks on special cells."""
    image = np.zeros((grid.rows, grid.columns, 4))
    for head, (top, left) in enumerate(grid.corners):
        block = image[top : top + grid.queries, left : left + grid.keys]
        block[:] = matplotlib.colormaps[COLOUR_MAP](maps[head].nan_to_num().numpy())
        block[blocked[head].numpy()] = matplotlib.colors.to_rgba(MASKED_COLOUR)
        block[missing[head].numpy()] = matplotlib.colors.to_rgba(NAN_COLOUR)
        frame = {"fill": False, "linewidth": 0.6, "edgecolor": "#444444", "clip_on": False}
        axes.add_patch(Rectangle((left - 0.5, top - 0.5), grid.keys, grid.queries, **frame))
    axes.imshow(image, interpolation="nearest", aspect="equal")
    for cells, sign, ink in ((blocked, "x", "#777777"), (missing, "$?$", "black")):
        marks = [(grid.corners[h][1] + j, grid.corners[h][0] + i) for h, i, j in cells.nonzero().tolist()]
        if marks:
            look = {"linestyle": "none", "color": ink, "markersize": min(6, grid.cell * 30)}
            axes.plot(*zip(*marks, strict=True), marker=sign, **look)


def _label(axes: Axes, grid: _Grid, query_labels: list[str], key_labels: list[str]) -> None:
    """Write the tokens: queries beside the heads on the left, keys below the lowest head of every column."""
    axes.set_frame_on(False)
    axes.tick_params(length=0, pad=2)
    bottoms = {left: top for top, left in grid.corners}
    last = max(bottoms.values())
    ends = [left for left, top in bottoms.items() if top == last] if key_labels else []
    turned = 90 if max(map(len, key_labels), default=0) > 2 else 0
    places = [left + j for left in ends for j in range(grid.keys)]
    axes.set_xticks(places, key_labels * len(ends), fontsize=grid.font, rotation=turned)
    for left, top in bottoms.items():
        for j, label in enumerate(key_labels if top < last else []):  # above the end of the picture there are no ticks
            look = {"fontsize": grid.font, "rotation": turned, "ha": "center", "va": "top"}
            axes.text(left + j, top + grid.queries - 0.3, label, parse_math=False, **look)
    firsts = [top for top, left in grid.corners if left == 0] if query_labels else []
    places = [top + i for top in firsts for i in range(grid.queries)]
    axes.set_yticks(places, query_labels * len(firsts), fontsize=grid.font)
    for label in axes.get_xticklabels() + axes.get_yticklabels():
        label.set_parse_math(False)


def _as_maps(weights: Tensor) -> Tensor:
    """Return the weights as float32 on the CPU, `(h, Tq, Tk)`, checked."""
    if isinstance(weights, (tuple, list)):
        raise TypeError(
            f"weights must be a tensor, got a {type(weights).__name__} of {len(weights)}; where a model returns one "
            "tensor per layer, give weights[layer]; of the pair that a layer returns, the second"
        )
    check_weights_kind("weights", weights)
    if weights.ndim == 4 and len(weights) != 1:
        raise ValueError(
            f"weights hold {len(weights)} samples, a picture shows one: give weights[0], {tuple(weights.shape[1:])}"
        )
    if not 2 <= weights.ndim <= 4 or 0 in weights.shape:
        raise ValueError(
            f"weights must be (Tq, Tk), (h, Tq, Tk) or (1, h, Tq, Tk), none empty, got {tuple(weights.shape)}"
        )
    maps = weights.detach().to("cpu", torch.float32).reshape(-1, *weights.shape[-2:])
    # Whatever its rows sum to: a pattern, or weights under dropout, is drawn as well.
    return checked_weights("weights", maps, weights.dtype, sums=(), nan=True)


def _as_allowed(mask: Tensor | None, maps: Tensor) -> Tensor:
    if mask is None:
        return torch.ones_like(maps, dtype=torch.bool)
    check_boolean("mask", mask)
    try:
        return (mask[0] if mask.ndim == 4 and len(mask) == 1 else mask).cpu().expand(maps.shape)
    except RuntimeError:
        raise ValueError(
            f"mask {tuple(mask.shape)} does not fit weights {tuple(maps.shape)}; give (Tq, Tk) or one per head"
        ) from None


def _short(labels: list[str]) -> list[str]:
    return [label if len(label) <= 30 else label[:29] + "…" for label in labels]

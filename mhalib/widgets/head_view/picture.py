"""The picture of a HeadView, for readers where nothing runs: what its view shows, drawn by matplotlib."""

import math

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from mhalib.plots import COLOUR_MAP, MASKED_COLOUR, NAN_COLOUR, DescribedFigure, new_figure
from mhalib.widgets.base import View
from mhalib.widgets.head_view.codes import MASKED, decode

# Okabe and Ito's colours and their like, dark enough for lines on white.
_LINE_COLOURS = ("#0072B2", "#D55E00", "#007A5A", "#A3447E", "#7A5C00", "#4B3FA8", "#B00020", "#4F4F4F")
_LINE_STYLES = ("-", "--", ":", "-.")
_MOST_LINES = 600  # of a head; more cannot be told apart
_MARKED_UP_TO = 64  # tokens; further out the marks would be one grey
_OVERVIEW_PIXELS = 480


def picture_of(view: View) -> DescribedFigure:
    """Return the overview and the chosen head of a HeadView, in the present mode and on the present scale."""
    layers, heads = view.shape[:2]
    chosen = [view.layer, view.head]
    shown = view.overlay if chosen in view.overlay else [chosen, *view.overlay]
    maps = [view.weights_of(*pair) for pair in shown]
    names = [f"layer {i} head {j}" if layers > 1 else f"head {j}" for i, j in shown]
    together = _combine(maps, view.combine)
    top = 1.0 if view.scale == "fixed" else max(float(np.nanmax(together, initial=0)), 1e-6)
    lines = view.mode == "lines"
    title = f"{view.combine} of {', '.join(names)}" if len(names) > 1 and not lines else ", ".join(names)
    several = layers * heads > 1
    figure = new_figure(_described(view, title, top), (9.0, 4.2) if several else (5.4, 4.2))
    if several:
        small, axes = figure.subplots(1, 2, width_ratios=(1, 1.3))
        _draw_overview(small, view)
    else:
        axes = figure.subplots()
    axes.set_title(title if len(title) <= 60 else f"{len(shown)} heads", fontsize=9, parse_math=False)
    _label(axes.yaxis, view.tokens, view.shape[2])
    axes.set_ylabel("query")
    if lines:
        _draw_lines(axes, maps, top, names)
        _label_keys_beside(axes, view)
    else:
        _draw_map(axes, together, top)
        _label(axes.xaxis, view.key_tokens, view.shape[3])
        axes.set_xlabel("key")
        shades = ScalarMappable(matplotlib.colors.Normalize(0, top), COLOUR_MAP)
        figure.colorbar(shades, ax=axes, fraction=0.05, pad=0.02).set_label("attention weight")
    return figure


def _described(view: View, title: str, top: float) -> str:
    layers, heads, queries, keys = view.shape
    return (
        f"Attention weights of {layers} layer{'s' * (layers > 1)} with {heads} head{'s' * (heads > 1)}, {queries} "
        f"queries by {keys} keys, on a scale from 0 to {top:.4g}. "
        f"In full, as {'lines' if view.mode == 'lines' else 'a heat map'}: {title}."
    )


def _draw_overview(axes, view: View) -> None:
    """Draw all heads small: layers by heads, or the heads of one layer folded into a block."""
    layers, heads = view.shape[:2]
    folded = layers == 1
    columns = math.ceil(math.sqrt(heads)) if folded else heads
    lines = math.ceil(heads / columns) if folded else layers
    side = max(4, min(24, _OVERVIEW_PIXELS // max(columns, lines)))  # pixels of a thumbnail
    wide, high = side + 2, side + (max(2, side // 3) if folded else 2)  # a folded head carries its number above
    image = np.ones((lines * high, columns * wide, 4))
    for i in range(layers):
        for j in range(heads):
            y, x = divmod(j, columns) if folded else (i, j)
            image[y * high :, x * wide :][:side, :side] = _thumbnail(view, i * heads + j, side)
            if (i, j) == (view.layer, view.head):
                corner = (x * wide - 1.5, y * high - 1.5)
                axes.add_patch(Rectangle(corner, side + 2, side + 2, fill=False, ec="black", lw=2.5, clip_on=False))
            if folded and side >= 8:
                axes.text(x * wide + side / 2, y * high - 1.5, j, fontsize=7, ha="center", va="bottom")
    axes.imshow(image, interpolation="nearest")
    axes.set_frame_on(False)
    axes.tick_params(length=0, labelsize=7)
    shown_x, shown_y = (range(0, size, math.ceil(size / 24)) for size in (columns, lines))
    axes.set_xticks([x * wide + side / 2 for x in shown_x], [""] * len(shown_x) if folded else shown_x)
    axes.set_yticks([y * high + side / 2 for y in shown_y], [""] * len(shown_y) if folded else shown_y)
    axes.set(xlabel="head", ylabel="" if folded else "layer")


def _thumbnail(view: View, head: int, side: int) -> np.ndarray:
    """Return `(side, side, 4)` colours of a head, counted through all layers, from evenly spaced cells."""
    rows, columns = (np.arange(side) * size // side for size in view.shape[2:])
    top = 1.0 if view.scale == "fixed" else float(np.frombuffer(view.maxima, "<f4")[head])
    return _coloured(decode(view.data, view.maxima, view.storage, view.shape, head, rows, columns), top)


def _combine(maps: list[np.ndarray], how: str) -> np.ndarray:
    """Return the maximum or the mean of several heads; a cell is masked where it is masked in all of them."""
    if len(maps) == 1:
        return maps[0]
    stack = np.stack(maps)
    masked = stack == MASKED
    total = stack.max(0) if how == "maximum" else np.where(masked, 0, stack).sum(0) / np.maximum((~masked).sum(0), 1)
    return np.where(masked.all(0), np.float32(MASKED), total.astype(np.float32))


def _coloured(weights: np.ndarray, top: float) -> np.ndarray:
    """Return `(…, 4)` colours of weights as `HeadView.weights_of` gives them."""
    colours = matplotlib.colormaps[COLOUR_MAP](np.nan_to_num(weights).clip(0) / max(top, 1e-6))
    colours[weights == MASKED] = matplotlib.colors.to_rgba(MASKED_COLOUR)
    colours[np.isnan(weights)] = matplotlib.colors.to_rgba(NAN_COLOUR)
    return colours


def _draw_map(axes, weights: np.ndarray, top: float) -> None:
    rows, columns = weights.shape
    square = 0.5 <= rows / columns <= 2
    axes.imshow(_coloured(weights, top), interpolation="nearest", aspect="equal" if square else "auto")
    if max(rows, columns) <= _MARKED_UP_TO:
        for cells, sign, ink in ((weights == MASKED, "x", "#777777"), (np.isnan(weights), "$?$", "black")):
            y, x = cells.nonzero()
            size = min(7.0, 200 / max(rows, columns))
            axes.plot(x, y, marker=sign, linestyle="none", color=ink, markersize=size, scalex=False, scaley=False)


def _draw_lines(axes, maps: list[np.ndarray], top: float, names: list[str]) -> None:
    queries, keys = maps[0].shape
    drawn = []
    for i, weights in enumerate(maps):
        seen = np.nan_to_num(weights).clip(0, top) / top
        rows, columns = np.unravel_index(np.argsort(seen, axis=None)[::-1][:_MOST_LINES], seen.shape)
        ends = np.stack([np.stack([0 * rows, rows], -1), np.stack([0 * rows + 1, columns * queries / keys], -1)], 1)
        colour = _LINE_COLOURS[i % len(_LINE_COLOURS)]
        shades = [(*matplotlib.colors.to_rgb(colour), alpha) for alpha in seen[rows, columns]]
        style = _LINE_STYLES[(i + i // len(_LINE_COLOURS)) % len(_LINE_STYLES)]
        axes.add_collection(LineCollection(ends, colors=shades, linestyles=style, linewidths=1.5))
        drawn.append(Line2D([], [], color=colour, linestyle=style, linewidth=1.5))
    axes.set(xlim=(0, 1), ylim=(queries - 0.5, -0.5), xticks=[])
    if len(maps) > 1:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.01), "ncols": min(len(maps), 4)}
        axes.legend(drawn, names, fontsize=7, frameon=False, **below)


def _label_keys_beside(axes, view: View) -> None:
    """Label the keys at the right, on a scale of their own: there may be more or fewer of them than queries."""
    queries, keys = view.shape[2:]
    right = axes.secondary_yaxis("right", functions=(lambda y: y * keys / queries, lambda y: y * queries / keys))
    _label(right.yaxis, view.key_tokens, keys)
    right.set_ylabel("key")


def _label(axis, labels: list[str], size: int) -> None:
    """Put token labels on an axis, thinned so that they can be read."""
    across = axis.axis_name == "x"
    step = math.ceil(size / (20 if across else 32))
    names = labels or [str(i) for i in range(size)]
    short = [name if len(name) <= 12 else name[:11] + "…" for name in names]
    turned = 90 if across and max(map(len, short)) > 2 else 0
    axis.set_ticks(range(0, size, step), short[::step], fontsize=7, rotation=turned)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)

"""Static pictures: tensors in, matplotlib Figure out.

Nothing here shows a figure or keeps state; a notebook shows what a cell returns. All pictures of attention share one
scale from 0 to 1, as one per panel makes a flat head look sharp. Every figure has a text for readers who do not see it.
All colours of `mhalib` are named here; the views in the browser keep a copy in `widgets/core.js`.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from PIL import Image
from torch import Tensor

from mhalib.arguments import check_size, check_tensor, check_weights_kind, checked_weights
from mhalib.masks import check_boolean

COLOUR_MAP = "viridis"  # as many steps for the eye as for the weight, also for the eyes of colour-blind readers
# From this weight on, black has more contrast with the colour map than white (by WCAG, which the tests compute).
DARK_INK_FROM = 0.435
# Okabe and Ito (2008): eight colours that colour-blind readers can tell apart; black is left for text.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#BBBBBB")
MASKED_COLOUR = "#E4E4E4"  # lighter than anything in the colour map, and marked with a cross as well
NAN_COLOUR = COLOURS[5]


class DescribedFigure(Figure):
    """A matplotlib Figure that shows itself in a notebook, with its alternative text."""

    alt = ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        drawn, packed = io.BytesIO(), io.BytesIO()
        quick = {"compress_level": 0}  # it is packed below
        self.savefig(drawn, format="png", dpi=100, bbox_inches="tight", pad_inches=0.08, pil_kwargs=quick)
        # 256 colours look the same and are a third of the bytes; notebooks are stored with their pictures.
        # What PIL writes holds no version and no date: the same picture is the same bytes on every run.
        image = Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT)
        image.save(packed, "png", optimize=True)
        return {"image/png": packed.getvalue(), "text/plain": self.alt}, {"image/png": {"alt": self.alt}}

    def _ipython_display_(self):
        from IPython.display import display

        # pyplot, which d2l imports, registers its own way to show every Figure, and IPython would prefer that one.
        bundle, metadata = self._repr_mimebundle_()
        display(bundle, metadata=metadata, raw=True)


def new_figure(alt: str, size: tuple[float, float] = (6.0, 3.5)) -> DescribedFigure:
    """Return an empty figure; draw on `figure.subplots()` and let the cell return the figure.

    Args:
        alt: what the picture shows, in one or two sentences.
        size: width and height in inches, at 100 dots per inch.

    Raises:
        ValueError: the text is empty, or no text.
    """
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError("a figure needs an alternative text: say in a sentence what it shows")
    figure = DescribedFigure(figsize=size, dpi=100, layout="constrained")
    figure.alt = alt
    return figure


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


def plot_reshape(
    steps: Mapping[str, Tensor],
    group: Callable[[int], int],
    group_names: Sequence[str] | None = None,
    *,
    block: str = "head",
) -> DescribedFigure:
    """Draw the stations of a reshape side by side, every number in its cell, coloured by where it belongs.

    Args:
        steps: title -> tensor of integer labels, such as `10 * token + feature`; 2 to 4 axes, of which a
            leading batch axis of 1 is left out. The last two axes are drawn as rows and columns, the one
            before them as blocks below each other.
        group: the colour group, 0 to 7, of a label.
        group_names: what the groups mean, for the legend.
        block: what the axis of blocks counts.

    Raises:
        TypeError: the labels are no tensor of integers.
        ValueError: a rank does not fit, there are no steps, or there are too many cells to read.

    Taught in notebook 03.
    """
    if not steps:
        raise ValueError("plot_reshape needs at least one step: {'title': tensor of labels}")
    stations = [_as_station(title, labels, alone=len(steps) == 1) for title, labels in steps.items()]
    tallest = max(station.high for station in stations)
    names = "; ".join(title.replace("\n", " ") for title in steps)
    across = sum(station.width for station in stations)
    figure = new_figure(f"Where each number stands: {names}.", (0.42 * across, 0.42 * (tallest + 1.6)))
    panels = figure.subplots(1, len(stations), width_ratios=[station.width for station in stations])
    for axes, station in zip(np.atleast_1d(panels), stations, strict=True):
        _draw_station(axes, station, group, block)
        axes.set(xlim=(0, station.width), ylim=(tallest, -0.8), aspect="equal")
        axes.set_title(station.title, fontsize=9, parse_math=False)
        axes.axis("off")
    if group_names is not None:
        patches = [Patch(color=COLOURS[i % len(COLOURS)], label=name) for i, name in enumerate(group_names)]
        look = {"loc": "outside lower center", "ncols": min(len(patches), 4), "fontsize": 8, "frameon": False}
        for text in figure.legend(handles=patches, **look).get_texts():
            text.set_parse_math(False)
    return figure


class _Station(NamedTuple):
    """One step of a reshape, and the room that it takes, counted in cells."""

    title: str
    labels: Tensor  # (blocks, rows, columns)
    per_line: int  # blocks side by side
    wide: float
    high: float

    @property
    def width(self) -> float:
        """Return the room for its cells or its title, whichever is wider, and for what lies between two stations."""
        return max(self.wide, 0.22 * len(max(self.title.split("\n"), key=len))) + 1.6


def _as_station(title: str, labels: Tensor, alone: bool) -> _Station:
    """Return the labels checked, their blocks side by side or, among other stations, below each other."""
    check_tensor(f"{title}: labels", labels)
    if labels.is_floating_point() or labels.is_complex():
        wanted = "integers such as 10 * token + feature"
        raise TypeError(f"{title}: labels must be {wanted}, got {labels.dtype}; use .long()")
    sheets = labels[0] if labels.ndim == 4 and len(labels) == 1 else labels
    if not 2 <= sheets.ndim <= 3 or labels.numel() == 0:
        raise ValueError(
            f"{title}: labels must be (rows, columns), (blocks, rows, columns) or that with a batch of 1, got "
            f"{tuple(labels.shape)}; give one sample, x[0]"
        )
    if labels.numel() > 400:
        raise ValueError(f"{title}: {labels.numel()} cells are too many to read; use tiny sizes, up to 400 cells")
    sheets = sheets[None] if sheets.ndim == 2 else sheets
    blocks, rows, columns = sheets.shape
    # As far as a page is high, so that among several stations the eye goes from left to right.
    per_line = blocks if alone else math.ceil(blocks * (rows + 0.9) / 20)
    return _Station(
        title, sheets, per_line, (columns + 0.9) * per_line - 0.9, (rows + 0.9) * math.ceil(blocks / per_line)
    )


def _draw_station(axes: Axes, station: _Station, group: Callable[[int], int], block: str) -> None:
    """Write every number into its cell, and the name of every block above it."""
    blocks, rows, columns = station.labels.shape
    left = (station.width - station.wide) / 2
    corners = [
        (left + place * (columns + 0.9), line * (rows + 0.9))
        for line, place in (divmod(b, station.per_line) for b in range(blocks))
    ]
    for b, (x, y) in enumerate(corners if blocks > 1 else []):
        axes.text(x, y - 0.12, f"{block} {b}", fontsize=8, va="bottom")
    for b, i, j in np.ndindex(blocks, rows, columns):
        (x, y), label = corners[b], station.labels[b, i, j].item()
        look = {"facecolor": COLOURS[group(label) % len(COLOURS)], "edgecolor": "white", "linewidth": 1.5}
        axes.add_patch(Rectangle((x + j, y + i), 1, 1, **look))
        axes.text(x + j + 0.5, y + i + 0.5, str(label), fontsize=9, ha="center", va="center")


def plot_shapes(steps: Sequence[tuple[str, tuple[int, ...]]]) -> DescribedFigure:
    """Draw tensors as boxes, one after the other, each as wide and high as its last two axes (on a log scale).

    Args:
        steps: `(name, shape)` pairs, in the order of the computation; axes before the last two are drawn as
            a stack of at most eight sheets.

    Raises:
        TypeError: a tensor stands in the place of a shape.
        ValueError: there is no step, or a shape has fewer than 2 axes or an empty one.

    Taught in notebook 01.
    """
    if not steps:
        raise ValueError("plot_shapes needs at least one (name, shape)")
    for name, shape in steps:
        if isinstance(shape, Tensor):
            raise TypeError(f"{name}: expected a shape, got a tensor; give tuple(x.shape)")
        if len(shape) < 2 or min(shape) < 1:
            raise ValueError(f"{name}: a shape needs at least 2 axes, none of them empty, got {tuple(shape)}")
    described = " -> ".join(f"{name} {tuple(shape)}" for name, shape in steps)
    figure = new_figure(f"Shapes as boxes: {described}.", (1.9 * len(steps), 2.4))
    axes = figure.subplots()
    for i, (name, shape) in enumerate(steps):
        high, wide = (0.25 + 0.075 * math.log2(size) for size in shape[-2:])
        sheets = min(math.prod(shape[:-2]), 8)
        for sheet in reversed(range(sheets)):
            shift = 0.045 * (sheet - (sheets - 1) / 2)
            corner = (1.6 * i - wide / 2 + shift, -high / 2 + shift)
            axes.add_patch(Rectangle(corner, wide, high, facecolor=COLOURS[0], edgecolor="#333333", linewidth=0.8))
        text = name + "\n(" + ", ".join(map(str, shape)) + ")"
        axes.text(1.6 * i, -0.72, text, ha="center", va="top", fontsize=9, parse_math=False)
        if i:
            arrow = {"arrowstyle": "->", "color": "#333333"}
            axes.annotate("", (1.6 * i - 0.62, 0), (1.6 * i - 0.98, 0), arrowprops=arrow)
    axes.set(xlim=(-0.8, 1.6 * len(steps) - 0.8), ylim=(-1.3, 0.75), aspect="equal")
    axes.axis("off")
    return figure


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


def as_labels(labels: Sequence[str] | None, size: int, name: str, axis: str) -> list[str]:
    """Return labels as a list of strings, an empty one where there are none."""
    if labels is None:
        return []
    if isinstance(labels, str) or not hasattr(labels, "__len__") or getattr(labels, "ndim", 1) == 0:
        kind = "string" if isinstance(labels, str) else type(labels).__name__
        raise ValueError(f"{name} must be a list of strings, one per entry of {axis}, got one {kind}; use .split()")
    if len(labels) != size:
        raise ValueError(f"{name} has {len(labels)} labels, the weights have {size} {axis}; give one label each")
    return [str(label) for label in labels]


def _short(labels: list[str]) -> list[str]:
    return [label if len(label) <= 30 else label[:29] + "…" for label in labels]

"""HeadView: every head of every layer at a glance, one of them in full.

Python checks the weights, packs them as bytes and holds what the reader has chosen; `head_view.js` and
its two parts draw. The picture for readers without a live view is drawn here as well.
"""

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
import traitlets
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch import Tensor

from mhalib.plots import COLOUR_MAP, MASKED_COLOUR, NAN_COLOUR, DescribedFigure, as_labels, new_figure
from mhalib.widgets.base import Refused, View, check_choice, check_whole, is_whole, module_text, style_text
from mhalib.widgets.head_view.weights import as_layers, as_mask

# Two bytes keep four digits; one byte keeps 1/253 of a head's largest weight, as fine as the colours are.
_TWO_BYTES_UP_TO = 2_000_000
_CHOICES = {"mode": ("map", "lines"), "scale": ("fixed", "maximum"), "combine": ("maximum", "mean")}
_OVERLAY = 32  # eight colours times four kinds of line
_LINES = (
    "#0072B2",
    "#D55E00",
    "#007A5A",
    "#A3447E",
    "#7A5C00",
    "#4B3FA8",
    "#B00020",
    "#4F4F4F",
)  # dark enough on white


class HeadView(View):
    """Attention weights of all heads: an overview, and one head in full with values, lines and bars.

    Args:
        weights: floating, each row over the keys sums to 1, or to 0 where nothing may be attended to; NaN is
            shown as such. `(Tq, Tk)`, `(h, Tq, Tk)`, `(layers, h, Tq, Tk)`, a list or tuple with one tensor per
            layer, as Hugging Face models return it (a batch axis of 1 is left out), the pair that
            `nn.MultiheadAttention` returns, or d2l's folded `(h, Tq, Tk)`. numpy arrays will do. On any
            device, in any precision, with or without gradient.
        tokens: labels of the queries, and of the keys where they are as many.
        key_tokens: labels of the keys, for cross-attention.
        mask: boolean, True where attention is allowed, `(Tq, Tk)` or whatever broadcasts to
            `(layers, h, Tq, Tk)`; blocked cells are drawn grey and crossed.
        num_heads: needed for nothing but a check, except where samples are folded into the heads, `(B·h, Tq, Tk)`.
        exact: keep all digits, at four bytes a weight. Otherwise a weight travels as two bytes up to two million
            weights and as one byte beyond, in steps of 1/65533 or 1/253 of its head's largest.

    Traits, which follow the reader and can be set: `layer`, `head`, `query` (the row of the cursor), `mode` ("map"
    or "lines"), `scale` ("fixed", 0 to 1, or "maximum", 0 to the largest weight of each head), `overlay` (list of
    `[layer, head]`, shown with the chosen head), `combine` ("maximum" or "mean": how a map shows several heads).

    Raises:
        TypeError: the weights are not floating or no tensors, or the mask is not boolean.
        ValueError: a rank, a length or a value does not fit, or there are more than 40 million weights, 1024
            tokens, 128 layers or 128 heads.

    Taught in notebook 00.
    """

    _esm = module_text("head_view", "draw.js", "panels.js", "view.js")
    _css = style_text("head_view")

    data = traitlets.Bytes(b"").tag(sync=True)  # (layers, h, Tq, Tk), little-endian
    maxima = traitlets.Bytes(b"").tag(sync=True)  # (layers, h) float32: what the largest code of a head stands for
    storage = traitlets.Enum(("uint8", "uint16", "float32")).tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    key_tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    layer = traitlets.TraitType(0).tag(sync=True)
    head = traitlets.TraitType(0).tag(sync=True)
    query = traitlets.TraitType(0).tag(sync=True)
    mode = traitlets.TraitType("map").tag(sync=True)
    scale = traitlets.TraitType("fixed").tag(sync=True)
    combine = traitlets.TraitType("maximum").tag(sync=True)
    overlay = traitlets.TraitType().tag(sync=True)

    def __init__(
        self,
        weights: Tensor | np.ndarray | Sequence[Tensor | np.ndarray],
        tokens: Sequence[str] | None = None,
        key_tokens: Sequence[str] | None = None,
        *,
        mask: Tensor | np.ndarray | None = None,
        num_heads: int | None = None,
        exact: bool = False,
    ):
        if not isinstance(exact, bool):
            raise TypeError(f"exact must be True or False, got {type(exact).__name__}; True keeps all digits")
        layers = as_layers(weights, num_heads)
        shape = (len(layers), *layers[0].shape)
        if key_tokens is None and shape[2] == shape[3]:
            key_tokens = tokens
        storage = "float32" if exact else "uint16" if math.prod(shape) <= _TWO_BYTES_UP_TO else "uint8"
        data, maxima = _pack(layers, as_mask(mask, layers), storage)
        super().__init__(
            data=data,
            maxima=maxima,
            storage=storage,
            shape=list(shape),
            tokens=as_labels(tokens, shape[2], "tokens", "queries"),
            key_tokens=as_labels(key_tokens, shape[3], "key_tokens", "keys"),
            overlay=[],
        )

    @traitlets.validate("layer", "head", "query")
    def _check_place(self, proposal):
        name = proposal["trait"].name
        check_whole(name, proposal["value"], 0, self.shape[("layer", "head", "query").index(name)] - 1)
        return proposal["value"]

    @traitlets.validate("mode", "scale", "combine")
    def _check_choice(self, proposal):
        name = proposal["trait"].name
        check_choice(name, proposal["value"], _CHOICES[name])
        return proposal["value"]

    @traitlets.validate("overlay")
    def _check_heads(self, proposal):
        layers, heads = self.shape[:2]
        given = proposal["value"]
        if not isinstance(given, (list, tuple)):
            raise Refused(f"overlay is a list of [layer, head], such as [[0, 1]], got {given!r}")
        chosen = [list(pair) if isinstance(pair, (list, tuple)) else pair for pair in given]
        for pair in chosen:
            whole = isinstance(pair, list) and len(pair) == 2 and all(map(is_whole, pair))
            if not (whole and 0 <= pair[0] < layers and 0 <= pair[1] < heads):
                raise Refused(
                    f"overlay is a list of [layer, head], layer below {layers} and head below {heads}, got {pair!r}"
                )
        unique = [pair for i, pair in enumerate(chosen) if pair not in chosen[:i]]
        if len(unique) > _OVERLAY:
            raise Refused(f"overlay holds at most {_OVERLAY} heads, got {len(unique)}")
        return unique

    def weights_of(self, layer: int, head: int) -> np.ndarray:
        """Return one head as shown, `(Tq, Tk)` float32: rounded as stored, -1 where masked, NaN where NaN."""
        return self._decoded(layer, head, slice(None), slice(None))

    def _decoded(self, layer: int, head: int, rows, columns) -> np.ndarray:
        _, heads, queries, keys = self.shape
        kind = np.dtype(self.storage).newbyteorder("<")
        at, size = layer * heads + head, queries * keys
        codes = np.frombuffer(self.data, kind, size, at * size * kind.itemsize).reshape(queries, keys)
        codes = codes[rows][:, columns]
        if self.storage == "float32":
            return codes.astype(np.float32)
        levels = np.iinfo(kind).max - 2
        weights = codes * np.float32(np.frombuffer(self.maxima, "<f4")[at] / levels)
        weights[codes == levels + 1] = -1
        weights[codes == levels + 2] = np.nan
        return weights

    def figure(self) -> DescribedFigure:
        """Return the overview and the chosen head, in the present mode and on the present scale, as a picture."""
        layers, heads, queries, keys = self.shape
        chosen = [self.layer, self.head]
        shown = self.overlay if chosen in self.overlay else [chosen, *self.overlay]
        maps = [self.weights_of(*pair) for pair in shown]
        names = [f"layer {i} head {j}" if layers > 1 else f"head {j}" for i, j in shown]
        together = _combine(maps, self.combine)
        top = 1.0 if self.scale == "fixed" else max(float(np.nanmax(together, initial=0)), 1e-6)
        lines = self.mode == "lines"
        title = f"{self.combine} of {', '.join(names)}" if len(names) > 1 and not lines else ", ".join(names)
        figure = new_figure(
            f"Attention weights of {layers} layer{'s' * (layers > 1)} with {heads} head{'s' * (heads > 1)}, {queries} "
            f"queries by {keys} keys, on a scale from 0 to {top:.4g}. "
            f"In full, as {'lines' if lines else 'a heat map'}: {title}.",
            (9.0, 4.2) if layers * heads > 1 else (5.4, 4.2),
        )
        if layers * heads > 1:
            small, axes = figure.subplots(1, 2, width_ratios=(1, 1.3))
            self._draw_overview(small)
        else:
            axes = figure.subplots()
        axes.set_title(title if len(title) <= 60 else f"{len(shown)} heads", fontsize=9, parse_math=False)
        _label(axes.yaxis, self.tokens, queries)
        axes.set_ylabel("query")
        if lines:
            _draw_lines(axes, maps, top, names)
            right = axes.secondary_yaxis(
                "right", functions=(lambda y: y * keys / queries, lambda y: y * queries / keys)
            )
            _label(right.yaxis, self.key_tokens, keys)
            right.set_ylabel("key")
        else:
            _draw_map(axes, together, top)
            _label(axes.xaxis, self.key_tokens, keys)
            axes.set_xlabel("key")
            shades = ScalarMappable(matplotlib.colors.Normalize(0, top), COLOUR_MAP)
            figure.colorbar(shades, ax=axes, fraction=0.05, pad=0.02).set_label("attention weight")
        return figure

    def _draw_overview(self, axes) -> None:
        """Draw all heads small: layers by heads, or the heads of one layer folded into a block."""
        layers, heads, queries, keys = self.shape
        folded = layers == 1
        columns = math.ceil(math.sqrt(heads)) if folded else heads
        lines = math.ceil(heads / columns) if folded else layers
        side = max(4, min(24, 480 // max(columns, lines)))  # pixels of a thumbnail
        wide, high = side + 2, side + (max(2, side // 3) if folded else 2)  # a folded head carries its number above
        rows, cols = (np.arange(side) * size // side for size in (queries, keys))
        image = np.ones((lines * high, columns * wide, 4))
        for i in range(layers):
            for j in range(heads):
                y, x = divmod(j, columns) if folded else (i, j)
                top = 1.0 if self.scale == "fixed" else float(np.frombuffer(self.maxima, "<f4")[i * heads + j])
                image[y * high :, x * wide :][:side, :side] = _coloured(self._decoded(i, j, rows, cols), top)
                if (i, j) == (self.layer, self.head):
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


def _pack(layers: list[Tensor], allowed: list[Tensor], storage: str) -> tuple[bytes, bytes]:
    """Return the weights as codes, `(layers, h, Tq, Tk)`, and per head what the largest code stands for.

    Codes are linear from 0 to the head's maximum; the two largest mean masked and NaN.
    """
    kind = np.dtype(storage).newbyteorder("<")
    packed = np.empty((len(layers), *layers[0].shape), kind)
    maxima = np.empty(packed.shape[:2], "<f4")
    for i, (layer, open_) in enumerate(zip(layers, allowed, strict=True)):
        weights, blocked = layer.numpy(), ~open_.numpy()
        missing = np.isnan(weights)
        missing &= ~blocked
        special = blocked | missing
        plain = np.where(special, np.float32(0), weights) if special.any() else weights
        maxima[i] = plain.max((-2, -1))
        if storage == "float32":
            packed[i], masked, nan = plain, -1, np.nan
        else:
            levels = np.iinfo(kind).max - 2
            codes = plain * (levels / np.maximum(maxima[i], 1e-30))[:, None, None]
            codes += 0.5  # what is cut off below is then rounded
            packed[i], masked, nan = codes, levels + 1, levels + 2
        if plain is not weights:
            packed[i][blocked], packed[i][missing] = masked, nan
    return packed.tobytes(), maxima.tobytes()


def _combine(maps: list[np.ndarray], how: str) -> np.ndarray:
    """Return the maximum or the mean of several heads; a cell is masked where it is masked in all of them."""
    if len(maps) == 1:
        return maps[0]
    stack = np.stack(maps)
    masked = stack == -1
    total = stack.max(0) if how == "maximum" else np.where(masked, 0, stack).sum(0) / np.maximum((~masked).sum(0), 1)
    return np.where(masked.all(0), np.float32(-1), total.astype(np.float32))


def _coloured(weights: np.ndarray, top: float) -> np.ndarray:
    """Return `(…, 4)` colours of weights as `HeadView.weights_of` gives them."""
    colours = matplotlib.colormaps[COLOUR_MAP](np.nan_to_num(weights).clip(0) / max(top, 1e-6))
    colours[weights == -1] = matplotlib.colors.to_rgba(MASKED_COLOUR)
    colours[np.isnan(weights)] = matplotlib.colors.to_rgba(NAN_COLOUR)
    return colours


def _draw_map(axes, weights: np.ndarray, top: float) -> None:
    rows, columns = weights.shape
    square = 0.5 <= rows / columns <= 2
    axes.imshow(_coloured(weights, top), interpolation="nearest", aspect="equal" if square else "auto")
    if max(rows, columns) <= 64:  # further out the marks would be one grey
        for cells, sign, ink in ((weights == -1, "x", "#777777"), (np.isnan(weights), "$?$", "black")):
            y, x = cells.nonzero()
            size = min(7.0, 200 / max(rows, columns))
            axes.plot(x, y, marker=sign, linestyle="none", color=ink, markersize=size, scalex=False, scaley=False)


def _draw_lines(axes, maps: list[np.ndarray], top: float, names: list[str]) -> None:
    queries, keys = maps[0].shape
    drawn = []
    for i, weights in enumerate(maps):
        seen = np.nan_to_num(weights).clip(0, top) / top
        rows, columns = np.unravel_index(
            np.argsort(seen, axis=None)[::-1][:600], seen.shape
        )  # more cannot be told apart
        ends = np.stack([np.stack([0 * rows, rows], -1), np.stack([0 * rows + 1, columns * queries / keys], -1)], 1)
        colour = _LINES[i % len(_LINES)]
        shades = [(*matplotlib.colors.to_rgb(colour), alpha) for alpha in seen[rows, columns]]
        style = ("-", "--", ":", "-.")[(i + i // len(_LINES)) % 4]
        axes.add_collection(LineCollection(ends, colors=shades, linestyles=style, linewidths=1.5))
        drawn.append(Line2D([], [], color=colour, linestyle=style, linewidth=1.5))
    axes.set(xlim=(0, 1), ylim=(queries - 0.5, -0.5), xticks=[])
    if len(maps) > 1:
        axes.legend(
            drawn,
            names,
            fontsize=7,
            ncols=min(len(maps), 4),
            loc="upper center",
            bbox_to_anchor=(0.5, -0.01),
            frameon=False,
        )


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

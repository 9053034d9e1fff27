"""Attention of any number of heads as one picture: what may be given, and what the picture says in words.

Where the heads stand, their pixels and their labels are drawn in `mosaic`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mhalib.arguments import check_weights_kind, checked_weights
from mhalib.masks import check_boolean
from mhalib.plots.colours import COLOUR_MAP, COLOUR_MAPS, DIVERGING
from mhalib.plots.figure import DescribedFigure, as_labels, new_figure
from mhalib.plots.mosaic import Look, colour_bar, label_axes, lay_out, name_heads, paint, write_values
from mhalib.plots.pooling import pooled, pooled_words
from mhalib.plots.scales import check_scale, end_of, scale_words

KINDS = ("weights", "part", "positive", "signed")
_AT_ONCE = 2**26  # numbers that are turned to float32 together; of many long maps only the pooled ones are kept


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
    colour_map: str = COLOUR_MAP,
) -> DescribedFigure:
    """Draw the attention of any number of heads as one picture on one scale, from 0 to 1 when nothing else is said.

    Maps of any length are drawn: where there are more weights than pixels, a pixel shows the largest of those that it
    stands for, and the picture says of how many.

    Args:
        weights: `(Tq, Tk)`, `(h, Tq, Tk)` or `(1, h, Tq, Tk)`, each weight between 0 and 1. Rows are
            queries, columns are keys. NaN is drawn in red with a question mark.
        tokens: the labels of the queries, and of the keys where they are as many.
        key_tokens: the labels of the keys.
        mask: boolean, True where attention is allowed, `(Tq, Tk)` or like `weights`; blocked cells are
            hatched.
        titles: one per head; "head 0", "head 1", … when left out.
        columns: how many heads stand side by side; a choice that fits a page when left out.
        values: write the weight into every cell; when left out, for small maps only.
        kind: "weights" or "part" (each from 0 to 1), "positive" (0 and above, such as weights times the norms of
            values) or "signed" (any numbers, such as differences: 0 has the colour in the middle).
        scale: where the colours end. "fixed" (1), "maximum" (the largest number in the picture), "log" (from 1e-4 to
            1) or "root" (square roots, to 1); the last two go on to the largest number where that is above 1. When
            left out, "fixed" for weights and "maximum" for the others.
        colour_map: one of `COLOUR_MAPS`; signed values have their own.

    Raises:
        TypeError: the weights are no floating tensor, or the mask is no boolean one.
        ValueError: a rank, a length, a value or a choice does not fit, or there are more heads than one picture can
            show.

    Taught in notebook 00.

    Examples:
        >>> import torch
        >>> from mhalib.plots import plot_attention
        >>> figure = plot_attention(torch.eye(3), tokens=["a", "b", "c"])
    """
    scale = _checked_choices(kind, scale, colour_map)
    weights = _as_heads(weights)
    heads, queries, keys = weights.shape
    if key_tokens is None and queries == keys:
        key_tokens = tokens
    query_labels = _short(as_labels(tokens, queries, "tokens", "queries"))
    key_labels = _short(as_labels(key_tokens, keys, "key_tokens", "keys"))
    names = _short(as_labels(titles, heads, "titles", "heads")) or [f"head {i}" for i in range(heads)]
    values = queries * keys <= 49 and heads <= 8 if values is None else values
    grid = lay_out(heads, queries, keys, columns, values, bool(key_labels))
    maps = _as_maps(weights, _as_allowed(mask, weights), kind, grid.pool)

    signed = kind == "signed"
    largest = float(np.abs(maps, where=np.isfinite(maps), out=np.zeros_like(maps)).max())
    if scale == "fixed" and largest > 1:  # all beyond its end would have one colour
        raise ValueError(f"the fixed scale ends at 1, the largest number is {largest:.4g}; use scale='maximum'")
    top = end_of(largest, scale)
    look = Look(scale, top, signed, DIVERGING if signed else colour_map)
    small = pooled_words(*grid.pool, signed)
    alt = f"Attention {_what(kind)} of {heads} head{'s' * (heads > 1)}, "
    alt += f"{queries} {'queries' if queries > 1 else 'query'} by {keys} key{'s' * (keys > 1)}, "
    alt += scale_words(scale, top, signed) + f"; {small}" * bool(small)
    alt += f": {'; '.join(names)}." if titles is not None and heads <= 10 else "."
    beside, below = (grid.font / 110 * max(map(len, labels), default=0) for labels in (query_labels, key_labels))
    figure = new_figure(alt, (grid.width + 1.8 + beside, grid.height + 0.9 + below))  # inches
    axes = figure.subplots()
    signs = paint(axes, grid, maps, look)
    name_heads(axes, grid, names, numbered=titles is None)
    if values:
        write_values(axes, grid, maps, look)
    label_axes(axes, grid, (query_labels, key_labels), (queries, keys))
    axes.set_ylabel("query")
    axes.set_xlabel("      ".join(["key", *signs]) + f"\n{small}" * bool(small))
    colour_bar(figure, axes, look, f"attention {_what(kind).removesuffix('s')}")
    return figure


def _checked_choices(kind: str, scale: str | None, colour_map: str) -> str:
    """Return the scale, once all three are known to be choices."""
    for name, value, choices in (("kind", kind, KINDS), ("colour_map", colour_map, COLOUR_MAPS)):
        if value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    if scale is None:
        return "fixed" if kind in ("weights", "part") else "maximum"
    check_scale(scale)
    return scale


def _what(kind: str) -> str:
    return "weights" if kind in ("weights", "part") else "values"


def _as_heads(weights: Tensor) -> Tensor:
    """Return the weights as they came, `(h, Tq, Tk)`, once they can be attention weights by their rank and kind."""
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
    return weights.detach().reshape(-1, *weights.shape[-2:])


def _as_maps(weights: Tensor, allowed: Tensor | None, kind: str, pool: tuple[int, int]) -> np.ndarray:
    """Return the maps as they are drawn, float32: checked, pooled, -inf where masked; a few heads at a time."""
    heads, queries, keys = weights.shape
    step = max(1, _AT_ONCE // (queries * keys))
    parts = []
    for first in range(0, heads, step):
        maps = weights[first : first + step].to("cpu", torch.float32)
        name = "weights" if step >= heads else f"weights[{first}:{first + len(maps)}]"
        if kind in ("weights", "part"):
            # Whatever its rows sum to: a pattern, or weights under dropout, is drawn as well.
            maps = checked_weights(name, maps, weights.dtype, sums=(), nan=True)
        else:
            _check_kind(name, maps, kind)
        if allowed is not None:
            maps = maps.masked_fill(~allowed[first : first + step], -torch.inf)
        parts.append(pooled(maps.numpy(), *pool, kind == "signed"))
    return np.concatenate(parts)


def _check_kind(name: str, maps: Tensor, kind: str) -> None:
    """Refuse infinite numbers, which no scale holds, and negative ones that are not declared as signed."""
    if maps.isinf().any():
        raise ValueError(f"{name} hold infinite numbers, which no colour shows; mark what is blocked with mask=")
    if kind == "positive" and (maps < 0).any():
        least = maps[~maps.isnan()].min().item()
        raise ValueError(f"{name} of kind 'positive' are 0 or above, got {least:.4g}; use kind='signed'")


def _as_allowed(mask: Tensor | None, weights: Tensor) -> Tensor | None:
    if mask is None:
        return None
    check_boolean("mask", mask)
    try:
        return (mask[0] if mask.ndim == 4 and len(mask) == 1 else mask).cpu().expand(weights.shape)
    except RuntimeError:
        raise ValueError(
            f"mask {tuple(mask.shape)} does not fit weights {tuple(weights.shape)}; give (Tq, Tk) or one per head"
        ) from None


def _short(labels: list[str]) -> list[str]:
    return [label if len(label) <= 30 else label[:29] + "…" for label in labels]

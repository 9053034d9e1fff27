"""Whether the rows of maps are what they are said to be, which cells a mask leaves open, and how far a window reaches.

The maps stay where they are and as they are: large ones are looked at in some rows of each head, and no more than a
layer of those is ever held as float32.
"""

import numpy as np
import torch
from torch import Tensor

from mhalib.arguments import TOLERANCE
from mhalib.masks import check_boolean

KINDS = ("weights", "part", "positive", "signed")
ALL_ROWS_UP_TO = 40_000_000  # weights of a part: reading them all takes a tenth of a second
SOME_ROWS = 32  # of each head of a larger part
_CHUNK = 4_000_000  # weights that are held as float32 at a time
_EXPECTED = {
    "weights": "attention weights lie between 0 and 1, and each row sums to 1 over the keys",
    "part": "parts of attention weights lie between 0 and 1, and no row sums to more than 1",
    "positive": 'numbers of kind="positive" are finite and not below 0',
}
_PART = 'say kind="part" where a row may sum to less (a sink that takes the rest, sparse layers, a block of a map)'
_SIGNED = 'say kind="signed" to see scores, gradients or differences as they are'
_SOFTMAX = f"apply softmax(-1) to scores first, call .eval() if dropout is still at work, or {_SIGNED}"
_STATES = "; hidden states (B, T, d) are no weights, capture(model) of headview gathers those"
_TURNED = "over axis -2 they do sum to 1: is it softmax(-1) that was meant, or do the axes not stand as (h, Tq, Tk)?"


def check_rows(layers: list[Tensor], names: list[str], kind: str, allowed: list[Tensor | None]) -> None:
    """Refuse maps `(B, h, Tq, Tk)` whose rows are not of this kind, and weights that stand where their mask blocks.

    NaN may stand in them; the message says which row it is, by the `names` of the layers, and how many were looked at.
    """
    if kind == "signed":  # scores may well stand where a mask blocks
        return
    rows = looked_at(layers)
    at = slice(None) if rows is None else rows
    for layer, name, mask in zip(layers, names, allowed, strict=True):
        tolerance = max(TOLERANCE, torch.finfo(layer.dtype).eps)
        for sample, heads in _chunks(layer, rows):
            numbers = layer[sample, heads][:, at].to("cpu", torch.float32)
            wrong = _wrong(numbers, kind, tolerance)
            if wrong.any():
                head, row = wrong.nonzero()[0].tolist()
                where = f"row [{heads.start + head}, {row if rows is None else rows[row]}] of "
                where += name if len(layer) == 1 else f"sample {sample} of {name}"
                seen = "" if rows is None else f" ({len(rows)} of {layer.shape[2]} rows of each head were looked at)"
                raise ValueError(_refusal(numbers, (head, row), where, seen, kind, tolerance))
            if mask is not None and kind != "positive":
                open_ = mask.expand(layer.shape)[sample, heads][:, at].cpu()
                # A row that may attend to nothing is excused: some libraries answer it with an average.
                blocked = ~open_ & open_.any(-1, keepdim=True)
                leak = float(numbers.masked_fill(~blocked, 0).nan_to_num(0).abs().max())
                if leak > TOLERANCE:
                    raise ValueError(
                        f"mask blocks a cell of {name} that holds a weight of {leak:.4g}; True must mean may attend "
                        "(invert it with ~mask), or leave the mask out to see where the weight goes"
                    )


def looked_at(layers: list[Tensor]) -> Tensor | None:
    """Return the rows that are looked at, the first and the last among them; None for all."""
    queries = layers[0].shape[2]
    if sum(layer.numel() for layer in layers) <= ALL_ROWS_UP_TO or queries <= SOME_ROWS:
        return None
    return torch.linspace(0, queries - 1, SOME_ROWS).round().long().unique()


def _chunks(layer: Tensor, rows: Tensor | None):
    """Yield samples and slices of heads that are small enough to be held as float32."""
    per_head = (layer.shape[2] if rows is None else len(rows)) * layer.shape[3]
    step = max(1, _CHUNK // per_head)
    for sample in range(len(layer)):
        for start in range(0, layer.shape[1], step):
            yield sample, slice(start, start + step)


def _wrong(numbers: Tensor, kind: str, tolerance: float) -> Tensor:
    """Return which rows are not of this kind; NaN excuses a row."""
    low, high, totals = numbers.amin(-1), numbers.amax(-1), numbers.sum(-1)  # aminmax is ten times as slow
    if kind == "positive":
        return (low < 0) | high.isinf()
    wrong = (low < -tolerance) | (high > 1 + tolerance) | (totals > 1 + tolerance)
    wrong |= (totals.abs() <= tolerance) & (low < 0)  # a row of nothing has no signs: gradients are as small
    return wrong | (totals < 1 - tolerance) & (totals.abs() > tolerance) if kind == "weights" else wrong


def _refusal(numbers: Tensor, at: tuple[int, int], where: str, seen: str, kind: str, tolerance: float) -> str:
    """Return what is wrong with a row of some heads `(h, rows, Tk)`, and what to do about it."""
    low, high, total = (float(number) for number in (*numbers[at].aminmax(), numbers[at].sum()))
    if kind != "weights":
        advice = _SIGNED
    elif not seen and numbers.min() >= -tolerance and (numbers.sum(-2) - 1).abs().max() <= tolerance:
        advice = _TURNED
    elif low >= -tolerance and tolerance < total <= 1:
        advice = _PART
    else:
        advice = _SOFTMAX + _STATES * (low < -tolerance)
    return f"{_EXPECTED[kind]}; {where} lies between {low:.4g} and {high:.4g} and sums to {total:.4g}{seen}; {advice}"


# --------------------------------------------------------------------------------------------------------- masks


def as_masks(mask, layers: list[Tensor], known: list[Tensor | None]) -> list[Tensor | None]:
    """Return for each layer which cells may hold weight, `(B, h, Tq, Tk)` or what broadcasts to it; None: not known.

    A `mask` is boolean, True where attention is allowed: whatever broadcasts to `(layers, B, h, Tq, Tk)`, or, with one
    sample, to `(layers, h, Tq, Tk)`, or one for each sample, `(B, 1 or h, Tq, Tk)`. It adds to what is `known`.
    """
    if mask is None:
        return known
    mask = torch.as_tensor(np.array(mask)) if isinstance(mask, np.ndarray) else mask
    check_boolean("mask", mask)
    found, shape = mask.detach(), (len(layers), *layers[0].shape)
    if mask.ndim == 4:
        by_layer, by_sample = (len(mask) in (1, size) for size in shape[:2])
        if by_layer and by_sample and len(mask) > 1:
            raise ValueError(
                f"mask {tuple(mask.shape)} may be one for each layer or for each sample; say which: mask[:, None] for "
                "layers, mask[None] for samples"
            )
        found = found[:, None] if by_layer else found[None]
    try:
        found.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"mask {tuple(mask.shape)} does not fit weights {shape}, which are (layers, B, h, Tq, Tk); give (Tq, Tk), "
            "or what broadcasts to them"
        ) from None
    found = found[(None,) * (5 - found.ndim)]
    own = [found[i % len(found)] for i in range(len(layers))]
    return [each if other is None else each & other.to(each.device) for each, other in zip(own, known, strict=True)]


# ------------------------------------------------------------------------------------------------------- windows


def window_of(layer: Tensor, allowed: Tensor | None) -> int | None:
    """Return how many keys a query may see at most where a window slides along the keys, None where none does.

    Told from what is allowed, or from zeros that are exact in every head, in eight rows.
    """
    rows = torch.linspace(0, layer.shape[2] - 1, 8).round().long().unique()
    masks = [] if allowed is None else [allowed.expand(layer.shape)]
    if not layer[0, :, -1, 0].any():  # or else the last query sees the first key: nothing slid on
        masks.append(layer)
    bands = (_band((cells[0][:, rows.to(cells.device)] != 0).any(0).cpu().numpy(), rows.numpy()) for cells in masks)
    return next((width for width in bands if width is not None), None)


def _band(seen: np.ndarray, rows: np.ndarray) -> int | None:
    """Return how wide the band is that some rows `(rows, Tk)` see, None where they see no sliding one."""
    keys = seen.shape[-1]
    if len(rows) < 3 or not seen.any(-1).all():
        return None
    first, last = seen.argmax(-1), keys - 1 - seen[:, ::-1].argmax(-1)
    starts, ends = (first - rows)[first > 0], (last - rows)[last < keys - 1]
    if len(starts) < 2 or len(set(starts)) > 1 or len(set(ends)) > 1:
        return None  # it does not slide: all keys, all before, or padding
    width = int((last - first).max()) + 1
    solid = (seen.sum(-1) == last - first + 1).all()
    return width if solid and 1 < width < keys else None


def refuse_offsets(layer: Tensor, name: str) -> None:
    """Refuse the maps of Longformer: `(h, Tq, globals + window + 1)`, zero where the window leaves the sequence."""
    queries, keys = layer.shape[2:]
    half = int((layer[0, 0, -1] != 0).flip(0).int().argmax())  # places behind the last query
    globals_ = keys - 2 * half - 1
    if queries == keys or not 0 < half < queries or globals_ < 0:
        return
    places = torch.arange(queries)[:, None] + torch.arange(-half, half + 1)
    seen = layer[0, 0, :, globals_:].cpu() != 0
    if seen[(places < 0) | (places >= queries)].any() or not seen[places == queries - 1].all():
        return
    beside = f"{globals_} global tokens and " if globals_ else ""
    raise ValueError(
        f"{name} {tuple(layer.shape)} look like those of Longformer: the last axis holds "
        f"{beside}the {2 * half + 1} places of a window around each query, not keys; lay each row at its own keys "
        'first, or say kind="part" if these are keys'
    )

"""Whether the rows of maps are what they are said to be, which cells a mask leaves open, and how far a window reaches.

The maps stay where they are and as they are: large ones are looked at in some rows of each head, and no more than a
layer of those is ever held as float32.
"""

import numpy as np
import torch
from torch import Tensor

from mhalib.arguments import TOLERANCE, check_size, checked_weights
from mhalib.masks import check_boolean

KINDS = ("weights", "part", "positive", "signed")
ALL_ROWS_UP_TO = 40_000_000  # weights of a part: reading them all takes a tenth of a second
SOME_ROWS = 32  # of each head of a larger part
_CHUNK = 4_000_000  # weights that are held as float32 at a time
_PART = 'say kind="part" where a row may sum to less (a sink that takes the rest, sparse layers, a block of a map)'
_STATES = "hidden states (B, T, d) are no weights, capture(model) of headview gathers those"
_SIGNED = 'or say kind="signed" to see scores, gradients or differences as they are'


def check_kind(kind: str) -> None:
    """Refuse what is no kind of maps."""
    if kind not in KINDS:
        raise ValueError(
            f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}: rows that sum to 1, rows that sum to at "
            "most 1, numbers from 0 on, any numbers"
        )


def check_rows(layers: list[Tensor], names: list[str], kind: str, allowed: list[Tensor | None]) -> None:
    """Refuse maps whose rows are not of this kind, and weights that stand where their mask blocks.

    Args:
        layers: each `(B, h, Tq, Tk)`, floating; NaN may stand in them.
        names: what to call each of them.
        kind: one of `KINDS`.
        allowed: for each layer a boolean mask that broadcasts to it, or None.

    Raises:
        ValueError: a row is none; the message says which, and of how many rows were looked at.
    """
    if kind == "signed":  # scores may well stand where a mask blocks
        return
    rows = looked_at(layers)
    for layer, name, mask in zip(layers, names, allowed, strict=True):
        for sample, heads in _chunks(layer, rows):
            part = layer[sample, heads] if rows is None else layer[sample, heads][:, rows]
            numbers = part.to("cpu", torch.float32).numpy()
            tolerance = max(TOLERANCE, torch.finfo(layer.dtype).eps)
            if _wrong(numbers, kind, tolerance).any():
                where = name if len(layer) == 1 else f"sample {sample} of {name}"
                _refuse(layer[sample], where, kind, tolerance, rows)
            if mask is not None and kind in ("weights", "part"):
                blocked = _blocked(mask, layer.shape, sample, heads, rows)
                leak = np.fmax.reduce(np.abs(numbers), axis=None, where=blocked, initial=0)
                if leak > TOLERANCE:
                    where = name.replace(" of the weights", "")
                    raise ValueError(
                        f"mask blocks a cell of {where} that holds a weight of {leak:.4g}; True must mean may attend "
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


def _wrong(numbers: np.ndarray, kind: str, tolerance: float) -> np.ndarray:
    """Return which rows are not of this kind; NaN excuses a row."""
    with np.errstate(invalid="ignore", over="ignore"):
        low = np.fmin.reduce(numbers, axis=None)
        if kind == "positive":
            return (numbers < 0).any(-1) | np.isinf(numbers).any(-1)
        totals = np.einsum("...k->...", numbers)  # several times as fast as sum
        wrong = totals > 1 + tolerance
        if kind == "weights":
            wrong |= (totals < 1 - tolerance) & (np.abs(totals) > tolerance)
        if low < -tolerance:
            wrong |= (numbers < -tolerance).any(-1)
        if low < 0:  # a row of nothing has no signs: gradients are as small, and sum to as little
            wrong |= (np.abs(totals) <= tolerance) & (numbers < 0).any(-1)
        high = np.fmax.reduce(numbers, axis=None)
        return wrong | (numbers > 1 + tolerance).any(-1) if high > 1 + tolerance else wrong


def _refuse(maps: Tensor, name: str, kind: str, tolerance: float, rows: Tensor | None) -> None:
    """Raise with the first row of a sample `(h, Tq, Tk)` that is none."""
    seen = "" if rows is None else f" ({len(rows)} of {maps.shape[1]} rows of each head were looked at, evenly spread)"
    at = range(maps.shape[1]) if rows is None else rows.tolist()
    for head in range(len(maps)):
        numbers = (maps[head] if rows is None else maps[head][rows]).to("cpu", torch.float32)
        wrong = _wrong(numbers.numpy(), kind, tolerance)
        if not wrong.any():
            continue
        row = int(wrong.argmax())
        values = numbers[row].numpy()
        least, total = np.fmin.reduce(values), values.sum()
        if kind == "weights" and rows is None and maps.numel() <= ALL_ROWS_UP_TO:
            _refuse_exactly(maps, name, bool(least < -tolerance), tolerance)
        expected, advice = {
            "weights": ("attention weights lie between 0 and 1, and each row sums to 1 over the keys", _PART),
            "part": ("parts of attention weights lie between 0 and 1, and no row sums to more than 1", _SIGNED[3:]),
            "positive": ('numbers of kind="positive" are finite and not below 0', _SIGNED[3:]),
        }[kind]
        if kind == "weights" and (least < -tolerance or total > 1 or abs(total) <= tolerance):
            advice = f"apply softmax(-1) to scores first, {_SIGNED}"
        raise ValueError(
            f"{expected}; row [{head}, {at[row]}] of {name} lies between {least:.4g} and "
            f"{np.fmax.reduce(values):.4g} and sums to {total:.4g}{seen}; {advice}"
        )


def _refuse_exactly(maps: Tensor, name: str, negative: bool, tolerance: float) -> None:
    """Raise as every other module does, unless the rows of all maps are parts of some: then softmax is no advice."""
    numbers = maps.to("cpu", torch.float32)
    try:
        checked_weights(
            name, numbers, maps.dtype, sums=(1, 0), nan=True, advice=f"; {_SIGNED}; {_STATES}" if negative else ""
        )
    except ValueError as error:
        if "do sum to 1" in str(error) or _wrong(numbers.numpy(), "part", tolerance).any():
            raise


def _blocked(mask: Tensor, shape: torch.Size, sample: int, heads: slice, rows: Tensor | None) -> np.ndarray:
    """Return the cells that a mask blocks; a row that may attend to nothing is excused.

    Some libraries answer such a row with an average over everything.
    """
    open_ = mask.expand(shape)[sample, heads]
    open_ = (open_ if rows is None else open_[:, rows.to(mask.device)]).cpu().numpy()
    return ~open_ & open_.any(-1, keepdims=True)


# --------------------------------------------------------------------------------------------------------- masks


def as_masks(mask, layers: list[Tensor], known: list[Tensor | None]) -> list[Tensor | None]:
    """Return for each layer which cells may hold weight, `(B, h, Tq, Tk)` or what broadcasts to it; None: not known.

    Args:
        mask: boolean, True where attention is allowed: whatever broadcasts to `(layers, B, h, Tq, Tk)`, or, with one
            sample, to `(layers, h, Tq, Tk)`, or one mask for each sample, `(B, 1 or h, Tq, Tk)`.
        layers: each `(B, h, Tq, Tk)`.
        known: what is known from elsewhere.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: it does not fit.
    """
    if mask is None:
        return known
    mask = torch.as_tensor(np.array(mask)) if isinstance(mask, np.ndarray) else mask
    check_boolean("mask", mask)
    mask, (samples, *rest) = mask.detach(), layers[0].shape
    shape, found = (len(layers), samples, *rest), mask
    if mask.ndim == 4:
        by_layer, by_sample = len(mask) in (1, len(layers)), len(mask) in (1, samples)
        if by_layer and by_sample and len(mask) > 1:
            raise ValueError(
                f"mask {tuple(mask.shape)} may be one for each layer or for each sample; say which: mask[:, None] for "
                "layers, mask[None] for samples"
            )
        found = mask[:, None] if by_layer else mask[None] if by_sample else mask
    try:
        found.expand(shape)
    except RuntimeError:
        named = shape if samples > 1 else (len(layers), *rest)
        axes = "(layers, B, h, Tq, Tk)" if samples > 1 else "(layers, h, Tq, Tk)"
        raise ValueError(
            f"mask {tuple(mask.shape)} does not fit weights {named}; give (Tq, Tk), or what broadcasts to {axes}"
        ) from None
    while found.ndim < 5:
        found = found[None]
    own = [found[i if len(found) > 1 else 0] for i in range(len(layers))]
    return [each if other is None else each & other.to(each.device) for each, other in zip(own, known, strict=True)]


# ------------------------------------------------------------------------------------------------------- windows


def window_of(layer: Tensor, allowed: Tensor | None) -> int | None:
    """Return how many keys a query may see at most where a window slides along the keys, None where none does.

    Told from what is allowed, or from zeros that are exact in every head, in eight rows.
    """
    queries, keys = layer.shape[2:]
    rows = torch.linspace(0, queries - 1, 8).round().long().unique()
    if allowed is not None:
        seen = allowed.expand(layer.shape)[0][:, rows.to(allowed.device)].any(0)
        if (width := _band(seen.cpu().numpy(), rows.numpy())) is not None:
            return width
    if layer[0, :, -1, 0].any():  # the last query sees the first key: nothing slid on
        return None
    return _band((layer[0][:, rows.to(layer.device)] != 0).any(0).cpu().numpy(), rows.numpy())


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
    solid = all(seen[i, first[i] : last[i] + 1].all() for i in range(len(rows)))
    return width if solid and 1 < width < keys else None


# ------------------------------------------------------------------------------------- what only looks like a map


def refuse_offsets(layer: Tensor, name: str) -> None:
    """Refuse the maps of Longformer: `(h, Tq, globals + window + 1)`, zero where the window leaves the sequence."""
    queries, keys = layer.shape[2:]
    if queries == keys or queries < 4 or keys < 3:
        return
    maps = layer[0, 0]
    last = maps[-1].cpu() != 0
    half = int(last.flip(0).int().argmax()) if last.any() else 0  # places behind the last query
    globals_ = keys - 2 * half - 1
    if half < 1 or globals_ < 0 or queries <= half:
        return
    for i in range(min(half, 4)):
        begin, end = maps[i, globals_:].cpu() != 0, maps[queries - 1 - i].cpu() != 0
        off = half - i  # places before the first key, or behind the last; a global token is none of a window's own
        if begin[:off].any() or end[keys - off :].any() or not end[keys - off - 1]:
            return
    beside = f"{globals_} global tokens and " if globals_ else ""
    raise ValueError(
        f"{name} {tuple(layer.shape)} look like those of Longformer: the last axis holds "
        f"{beside}the {2 * half + 1} places of a window around each query, not keys; lay each row at its own keys "
        'first, or say kind="part" if these are keys'
    )


def check_heads(num_heads: int | None) -> None:
    """Refuse a number of heads that is none."""
    if num_heads is not None:
        check_size("num_heads", num_heads)

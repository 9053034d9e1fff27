"""What HeadLab accepts: tensors and masks, checked, and projected by a layer. What is set later, the widget checks."""

import numpy as np
import torch
from torch import Tensor

from headview.base import as_numbers
from mhalib.masks import check_boolean

MAX_TOKENS, MAX_FEATURES = 128, 1024


def as_rows(name: str, x) -> Tensor:
    """Return q, k or v as finite float32 rows on the CPU, `(T, features)`."""
    x = torch.as_tensor(x) if isinstance(x, np.ndarray) else x
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(
            f"{name} must be a floating tensor or array, got {kind}; embed token ids first, or use .float()"
        )
    if x.ndim == 3 and len(x) != 1:
        raise ValueError(f"{name} holds {len(x)} samples, the lab shows one: give {name}[0], {tuple(x.shape[1:])}")
    if x.ndim not in (2, 3) or x.numel() == 0 or x.shape[-2] > MAX_TOKENS or x.shape[-1] > MAX_FEATURES:
        raise ValueError(
            f"{name} must be (T, d_model) or (1, T, d_model) before it is split into heads, up to {MAX_TOKENS} tokens "
            f"of {MAX_FEATURES} features, got {tuple(x.shape)}"
        )
    rows = as_numbers(name, x).reshape(x.shape[-2:])
    if not bool(rows.isfinite().all()):
        raise ValueError(
            f"{name} holds NaN or infinity (in float32), which no softmax survives; look where it comes from"
        )
    return rows


def as_inputs(q, k, v) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return q, k and, if given, v as rows that fit together; the queries serve as keys where there are none."""
    queries = as_rows("q", q)
    keys = queries if k is None else as_rows("k", k)
    values = None if v is None else as_rows("v", v)
    if keys.shape[1] != queries.shape[1]:
        raise ValueError(
            f"q and k must have the same d_model, got {queries.shape[1]} and {keys.shape[1]}; give both as they come "
            "out of W_q and W_k"
        )
    if values is not None and values.shape != keys.shape:
        raise ValueError(f"every key needs its value: v must be {tuple(keys.shape)} like k, got {tuple(values.shape)}")
    return queries, keys, values


def as_cells(mask, num_queries: int, num_keys: int) -> Tensor:
    """Return a boolean mask of all heads, checked, on the CPU: `(Tq, Tk)`."""
    cells = torch.as_tensor(mask) if isinstance(mask, np.ndarray) else mask
    check_boolean("a mask", cells)
    if cells.shape != (num_queries, num_keys):
        raise ValueError(
            f"a mask must be (Tq, Tk) = ({num_queries}, {num_keys}), one for all heads, got {tuple(cells.shape)}"
        )
    return cells.cpu()


def projected(layer, x, name: str) -> tuple[list[Tensor], list[str]]:
    """Return q, k and v as the layer projects them, and how a reader, who calls `x` so, writes each."""
    missing = [part for part in ("W_q", "W_k", "W_v") if not callable(getattr(layer, part, None))]
    if missing:
        raise TypeError(
            f"HeadLab.of needs a layer with W_q, W_k and W_v; {type(layer).__name__} has no {', '.join(missing)}. "
            "Take mhalib.MultiHeadAttention, or project yourself: HeadLab(q, k, v)"
        )
    rows, made, code = as_rows(name, x), [], []
    for part in ("W_q", "W_k", "W_v"):
        weight = getattr(layer, part).weight
        if rows.shape[-1] != weight.shape[-1]:
            takes = f"layer.{part} takes {weight.shape[-1]}"
            raise ValueError(f"{name} has {rows.shape[-1]} features, {takes}; give what the layer is given")
        with torch.no_grad():
            made.append(getattr(layer, part)(rows.to(weight)))
        code.append(as_written(f"layer.{part}({as_written(name, x, weight.dtype)})", made[-1][None]))
    return made, code


def as_written(name: str, x: Tensor | np.ndarray, dtype: torch.dtype = torch.float32) -> str:
    """Return how a reader writes something of this name as a tensor of this kind with a batch axis."""
    made = f"torch.from_numpy({name})" if isinstance(x, np.ndarray) else name
    kind = "" if torch.as_tensor(x).dtype == dtype else f".to({dtype})"
    return made + kind + "[None]" * (x.ndim == 2)


def to_bytes(x: Tensor) -> bytes:
    """Return the numbers of a tensor as they travel: float32, or one byte a cell of a mask."""
    return (x.to(torch.uint8) if x.dtype == torch.bool else x).contiguous().numpy().tobytes()

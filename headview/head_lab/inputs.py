"""What HeadLab accepts: tensors and masks, checked. What is set later, the widget checks."""

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


def as_written(name: str, x: Tensor | np.ndarray) -> str:
    """Return how a reader writes q, k or v, which has this name, as `(1, T, d_model)` in float32."""
    made = f"torch.from_numpy({name})" if isinstance(x, np.ndarray) else name
    return made + ".float()" * (torch.as_tensor(x).dtype != torch.float32) + "[None]" * (x.ndim == 2)

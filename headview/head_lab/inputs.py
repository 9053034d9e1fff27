"""What HeadLab accepts: tensors and masks checked, projected, packed, and written as the reader would write them."""

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
    if x.ndim not in (2, 3) or x.numel() == 0:
        raise ValueError(
            f"{name} must be (T, d_model) or (1, T, d_model) before it is split into heads, got {tuple(x.shape)}"
        )
    rows = as_numbers(name, x).reshape(x.shape[-2:])
    if rows.shape[0] > MAX_TOKENS or rows.shape[1] > MAX_FEATURES:
        raise ValueError(
            f"{name} has {rows.shape[0]} tokens of {rows.shape[1]} features, the lab takes up to {MAX_TOKENS} of "
            f"{MAX_FEATURES}; give a slice such as {name}[..., :{MAX_TOKENS}, :]"
        )
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
    try:
        cells = torch.as_tensor(mask)
    except (TypeError, ValueError, RuntimeError):  # texts, None, rows of several lengths
        cells = mask
    check_boolean("a mask", cells)
    if cells.shape != (num_queries, num_keys):
        raise ValueError(
            f"a mask must be (Tq, Tk) = ({num_queries}, {num_keys}), one for all heads, got {tuple(cells.shape)}"
        )
    return cells.cpu()


def projected(layer, x, memory, names) -> tuple[tuple[Tensor, Tensor, Tensor], list[str]]:
    """Return q, k and v as the layer projects them, and how a reader writes each as float32 of (1, T, d_model).

    Heads of keys that serve several heads of queries are repeated, so that every head has its own copy.
    """
    missing = [name for name in ("W_q", "W_k", "W_v") if not callable(getattr(layer, name, None))]
    if missing:
        raise TypeError(
            f"HeadLab.of needs a layer with W_q, W_k and W_v; {type(layer).__name__} has no {', '.join(missing)}. "
            "Take mhalib.MultiHeadAttention, or project yourself: HeadLab(q, k, v)"
        )
    memory_like = x if memory is None else memory
    as_rows("x", x), as_rows("memory", memory_like)
    source = names[0] if memory is None else names[1]
    parts = (("W_q", x, names[0]), ("W_k", memory_like, source), ("W_v", memory_like, source))
    (q, k, v), code = zip(*(_project(layer, *part) for part in parts), strict=True)
    own_heads = getattr(layer, "num_heads", None)
    kv_heads = getattr(layer, "num_kv_heads", own_heads)
    if kv_heads != own_heads:
        times = own_heads // kv_heads
        k, v = (t.unflatten(-1, (kv_heads, -1)).repeat_interleave(times, -2).flatten(-2) for t in (k, v))
        copies = f".unflatten(-1, ({kv_heads}, -1)).repeat_interleave({times}, -2).flatten(-2)"
        code = code[0], code[1] + copies, code[2] + copies
    # The layer runs on its own dtype and device; the lab reads float32 on the CPU.
    return (q, k, v), [c + _conversion(t) for c, t in zip(code, (q, k, v), strict=True)]


def _project(layer, name: str, x, source: str) -> tuple[Tensor, str]:
    """Return what a projection of the layer makes of `x`, and how a reader writes that."""
    linear = getattr(layer, name)
    weight = getattr(linear, "weight", None)
    code = f"torch.from_numpy({source})" if isinstance(x, np.ndarray) else source
    x = torch.as_tensor(x)
    if weight is not None:
        if x.shape[-1] != weight.shape[-1]:
            takes = f"layer.{name} takes {weight.shape[-1]}"
            raise ValueError(f"{source} has {x.shape[-1]} features, {takes}; give what the layer is given")
        code += "" if (x.dtype, x.device) == (weight.dtype, weight.device) else f".to(layer.{name}.weight)"
        x = x.to(weight)
    with torch.no_grad():
        return linear(x), f"layer.{name}({code})"


def code_note_of(maker: str, **given) -> str:
    """Return the comment that says what the names in the code stand for: not a batch that a slice was cut from."""
    shapes = " and ".join(f"{name} {tuple(x.shape)}" for name, x in given.items() if x is not None)
    return f"# as {maker} was given them: {shapes}"


def check_code_inputs(given, count: int) -> None:
    """Refuse what cannot be put into the code in the place of q, k and, if given, v."""
    texts = isinstance(given, (list, tuple)) and all(isinstance(text, str) for text in given)
    if not texts or len(given) != count:
        raise ValueError(
            f"code_inputs must be {count} strings, how you write q, k and, if given, v, got {repr(given)[:200]}; "
            "leave it out to have them called so"
        )


def code_inputs_of(q, k, v) -> list[str]:
    """Return how a reader writes q, k and, if given, v as float32 of shape (1, T, d_model)."""
    given = {"q": q, "k": q if k is None else k, "v": v}
    names = {"q": "q", "k": "q" if k is None else "k", "v": "v"}
    arrays = {name: f"torch.from_numpy({names[name]})" for name, x in given.items() if isinstance(x, np.ndarray)}
    return [
        arrays.get(name, names[name]) + _conversion(torch.as_tensor(x)) for name, x in given.items() if x is not None
    ]


def _conversion(x: Tensor) -> str:
    """Return what a reader writes behind a tensor to get it as float32 on the CPU with a batch axis."""
    cpu = ".cpu()" if x.device.type != "cpu" else ""
    return cpu + (".float()" if x.dtype != torch.float32 else "") + ("[None]" if x.ndim == 2 else "")


def to_bytes(x: Tensor) -> bytes:
    """Return the numbers of a tensor as they travel: float32, or one byte a cell of a mask."""
    return (x.to(torch.uint8) if x.dtype == torch.bool else x).contiguous().numpy().tobytes()

"""One layer: the tensor, the array or the pair in which it came, as `(B, h, Tq, Tk)` without a copy."""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mhalib.arguments import check_weights_kind

HOW_TO_ASK = (
    "ask for the weights: need_weights=True, average_attn_weights=False in nn.MultiheadAttention; in transformers "
    'attn_implementation="eager" when the model is loaded, and output_attentions=True when it is called'
)
HOW_TO_CAPTURE = """or let capture make them:
    from headview import capture
    with capture(model) as maps:
        model(inputs)
    HeadView(maps, tokens)"""


@dataclass
class Layer:
    """One layer as it was found, with what is known about it."""

    weights: Tensor  # (B, h, Tq, Tk)
    name: str
    place: int  # in the list it came from, gaps counted
    of: tuple[str, int]  # that list: what it is called, how long it is
    role: str = ""  # "encoder", "decoder", "cross", "text", "vision", or the name of a part
    named: bool = False  # the model or the reader gave it this name
    allowed: Tensor | None = None
    kv_heads: int | None = None
    scale: float | None = None
    sums: str = "weights"
    inside: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None)  # queries, keys, values
    steps: bool = False  # put together from steps of generate()
    averaged: bool = False  # one map per sample, the mean over its heads


def is_pair(first, second) -> bool:
    """Is this pair a layer's output `(…, Tq, d)` and its weights, rather than the weights of two layers?"""
    one, two = (tuple(getattr(part, "shape", ())) for part in (first, second))
    if not (2 <= len(one) <= 3 and len(one) <= len(two) <= 4 and one != two):
        return False
    return one[-2] == two[-2] or one[:-1] == (two[-2], two[0])  # torch puts B second unless told batch_first


def of_a_pair(output, weights) -> Tensor:
    """Return the weights, one map per head; the mean over the heads would pass for a head."""
    batch = output.shape[0 if output.shape[-2] == weights.shape[-2] else 1]
    if weights.ndim == output.ndim and (weights.ndim == 2 or len(weights) == batch):
        raise ValueError(
            f"weights {tuple(weights.shape)} beside an output {tuple(output.shape)} are one map per sample, the mean "
            "over its heads; call the layer with average_attn_weights=False, or give the weights alone if one map is "
            "what you want"
        )
    return as_tensor(weights, "weights")


def as_tensor(part, name: str) -> Tensor:
    """Return a tensor or an array as a tensor, over the same memory wherever torch can read it."""
    if part is None:
        raise TypeError(f"{name} is None; {HOW_TO_ASK}")
    if isinstance(part, np.ndarray):
        if part.dtype.kind != "f":
            raise TypeError(f"{name}: attention weights are floating, got {part.dtype}; give weights, not token ids")
        if not part.dtype.isnative or part.itemsize > 8 or any(stride < 0 for stride in part.strides):
            part = np.array(part, dtype=part.dtype.newbyteorder("=") if part.itemsize <= 8 else float)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nor is it written to
            part = torch.from_numpy(part)
    if not isinstance(part, Tensor):
        raise TypeError(f"{name} must be a tensor or a numpy array, got {type(part).__name__}; use torch.tensor(...)")
    check_weights_kind(name, part)
    if part.device.type == "meta":
        raise ValueError(f"{name} is on the meta device, where tensors hold no numbers; compute it on a real one")
    if part.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, got {part.layout}; use .to_dense()")
    return part.detach()


def as_layer(
    part: Tensor,
    name: str,
    place: int,
    of: int,
    num_heads: int | None,
    samples: int = 0,
    role: str = "",
) -> Layer:
    """Return one layer as `(B, h, Tq, Tk)`."""
    if not 2 <= part.ndim <= 4 or 0 in part.shape:
        raise ValueError(
            f"{name} must be (Tq, Tk), (h, Tq, Tk), (layers, h, Tq, Tk), (layers, B, h, Tq, Tk) or a list of layers "
            f"(B, h, Tq, Tk), none empty, got {tuple(part.shape)}"
        )
    averaged = part.ndim == 3 and samples == len(part) > 1 and num_heads in (None, 1)
    if averaged:  # labels of so many samples tell that it is one map for each
        part = part[:, None]
    elif part.ndim == 3 and num_heads is not None and len(part) % num_heads == 0:
        part = part.unflatten(0, (-1, num_heads))  # samples folded into the heads, as d2l does
    part = part[None, None] if part.ndim == 2 else part[None] if part.ndim == 3 else part
    if num_heads is not None and part.shape[1] != num_heads:
        raise ValueError(
            f"{name} holds {part.shape[1]} maps, expected num_heads={num_heads} or a multiple of it; if it is one map "
            "per sample, the mean over its heads, ask for each head: average_attn_weights=False"
        )
    return Layer(part, f"layer {place}", place, (role, of), role, averaged=averaged)

"""What counts as attention weights: every shape in which libraries return them, made one and checked.

In come tensors of a reader, out come plain float32 tensors `(h, Tq, Tk)`, one per layer. Drawing is not done here.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mhalib.arguments import TOLERANCE, check_size, check_weights_kind, checked_weights
from mhalib.masks import check_boolean
from mhalib.widgets.base import as_numbers

_LARGEST = 40_000_000  # weights; 12 layers x 12 heads x 512 x 512 tokens are 37.7 million
_LONGEST = 1024  # tokens on an axis: more than one per pixel of a screen cannot be seen
_MOST_HEADS = 128  # along each axis of an overview
_HOW_TO_ASK = (
    "ask for the weights: need_weights=True, average_attn_weights=False in nn.MultiheadAttention; in transformers "
    'attn_implementation="eager" when the model is loaded, and output_attentions=True when it is called'
)


def as_layers(weights, num_heads: int | None) -> list[Tensor]:
    """Return one float32 tensor `(h, Tq, Tk)` per layer, on the CPU, checked."""
    if num_heads is not None:
        check_size("num_heads", num_heads)
    if isinstance(weights, (list, tuple)):
        if not weights:
            # What transformers returns when its faster attention, the default, was asked for weights.
            raise ValueError(f"weights is an empty {type(weights).__name__}; {_HOW_TO_ASK}")
        if isinstance(weights, tuple) and len(weights) == 2 and _is_output(*weights):
            weights = (_of_a_pair(*weights),)  # what nn.MultiheadAttention returns is the output and then the weights
        given = [_as_tensor(part, f"weights[{i}]") for i, part in enumerate(weights)]
        layers = [_without_batch(part, f"weights[{i}]", num_heads) for i, part in enumerate(given)]
    else:
        tensor = _as_tensor(weights, "weights")
        if tensor.ndim == 5 and 1 in tensor.shape[:2]:
            tensor = tensor.squeeze(1 if tensor.shape[1] == 1 else 0)
        if tensor.ndim == 4:
            layers = [_without_batch(part, "weights", num_heads) for part in tensor]
        else:
            layers = [_without_batch(tensor, "weights", num_heads)]
    for i, layer in enumerate(layers):
        if layer.shape != layers[0].shape:
            raise ValueError(
                f"all layers must have one shape (h, Tq, Tk), got {tuple(layers[0].shape)} and, in layer {i}, "
                f"{tuple(layer.shape)}; show layers that differ in views of their own"
            )
    if not layers:
        raise ValueError("weights hold no layer; give at least one")
    heads, queries, keys = layers[0].shape
    total = len(layers) * layers[0].numel()
    if total > _LARGEST or max(queries, keys) > _LONGEST or max(heads, len(layers)) > _MOST_HEADS:
        raise ValueError(
            f"{len(layers)} layers x {heads} heads x {queries} x {keys} = {total:,} weights are too many for one view "
            f"(at most {_LARGEST:,} weights, {_LONGEST} tokens, {_MOST_HEADS} layers and heads); give a slice, such "
            "as weights[:4] for the first layers, or call the model with fewer tokens (weights[..., :512, :512] has "
            "rows that sum to 1 only where no query sees a later key)"
        )
    return [_checked(layer, i) for i, layer in enumerate(layers)]


def _is_output(first, second) -> bool:
    """Is this pair a layer's output `(…, Tq, d)` and its weights, rather than the weights of two layers?"""
    one, two = (tuple(getattr(part, "shape", ())) for part in (first, second))
    if not (2 <= len(one) <= 3 and len(one) <= len(two) <= 4 and one != two):
        return False
    return one[-2] == two[-2] or one[:-1] == (two[-2], two[0])  # torch puts B second unless told batch_first


def _of_a_pair(output, weights):
    """Return the weights of one sample, one map per head; the mean over the heads would pass for a head."""
    given = f"weights {tuple(weights.shape)} beside an output {tuple(output.shape)}"
    if weights.ndim == 4 and len(weights) != 1:
        raise ValueError(f"{given} hold {len(weights)} samples, a view shows one; give the weights of one, pair[1][0]")
    batch = output.shape[0 if output.shape[-2] == weights.shape[-2] else 1]
    if weights.ndim == output.ndim and (weights.ndim == 2 or len(weights) == batch):
        raise ValueError(
            f"{given} are one map per sample, the mean over its heads; call the layer with average_attn_weights=False, "
            "or give the weights alone if one map is what you want"
        )
    return weights


def _as_tensor(part, name: str) -> Tensor:
    if part is None:
        raise TypeError(f"{name} is None; {_HOW_TO_ASK}")
    if hasattr(part, "attentions"):
        raise TypeError(f"{name} is the whole output of a model, {type(part).__name__}; give its .attentions")
    if isinstance(part, np.ndarray):
        if part.dtype.kind != "f":
            raise TypeError(f"{name}: attention weights are floating, got {part.dtype}; give weights, not token ids")
        part = torch.from_numpy(np.array(part, dtype=part.dtype.newbyteorder("=") if part.itemsize <= 8 else float))
    if isinstance(part, (list, tuple)) and part and hasattr(part[0], "shape"):
        raise TypeError(
            f"{name} is a {type(part).__name__} of {len(part)}, where one layer was expected; generate() returns all "
            f"layers once per step: give {name}, what the first step saw"
        )
    if not isinstance(part, Tensor):
        raise TypeError(f"{name} must be a tensor or a numpy array, got {type(part).__name__}; use torch.tensor(...)")
    check_weights_kind(name, part)
    return part


def _without_batch(part: Tensor, name: str, num_heads: int | None) -> Tensor:
    """Return one layer as `(h, Tq, Tk)`."""
    if part.ndim == 4:
        if len(part) != 1:
            raise ValueError(
                f"{name} holds {len(part)} samples, {tuple(part.shape)}, a view shows one; "
                "give [layer[0] for layer in weights]"
            )
        part = part[0]
    if not 2 <= part.ndim <= 3 or 0 in part.shape:
        raise ValueError(
            f"{name} must be (Tq, Tk), (h, Tq, Tk), (layers, h, Tq, Tk) or a list of layers, none empty, "
            f"got {tuple(part.shape)}"
        )
    part = part[None] if part.ndim == 2 else part
    if num_heads is not None and len(part) != num_heads:
        if len(part) % num_heads == 0:
            raise ValueError(
                f"{name} holds {len(part) // num_heads} samples folded into {len(part)} = B * num_heads maps, a view "
                f"shows one; give weights[i * {num_heads} : (i + 1) * {num_heads}] for sample i"
            )
        raise ValueError(f"{name} holds {len(part)} maps, expected num_heads={num_heads} or a multiple of it")
    return part


def _checked(layer: Tensor, index: int) -> Tensor:
    """Return `(h, Tq, Tk)` as float32 on the CPU, if its rows are attention weights; NaN may be shown."""
    name = f"layer {index} of the weights"
    return checked_weights(name, as_numbers(name, layer), layer.dtype, sums=(1, 0), nan=True)


def as_mask(mask, layers: Sequence[Tensor]) -> list[Tensor]:
    """Return one boolean tensor `(h, Tq, Tk)` per layer, True where attention is allowed.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: it does not broadcast to `(layers, h, Tq, Tk)`, or blocks cells that hold weight.
    """
    shape = (len(layers), *layers[0].shape)
    if mask is None:
        return list(torch.ones((), dtype=torch.bool).expand(shape))
    mask = torch.as_tensor(np.array(mask)) if isinstance(mask, np.ndarray) else mask
    check_boolean("mask", mask)
    try:
        allowed = list(mask.detach().cpu().expand(shape))
    except RuntimeError:
        raise ValueError(
            f"mask {tuple(mask.shape)} does not fit weights {shape}; give (Tq, Tk), or what broadcasts to "
            "(layers, h, Tq, Tk)"
        ) from None
    for i, (layer, open_) in enumerate(zip(layers, allowed, strict=True)):
        # A row that may attend to nothing is excused: some libraries answer it with an average over everything.
        blocked = (~open_ & open_.any(-1, keepdim=True)).numpy()
        leak = np.fmax.reduce(layer.numpy(), axis=None, where=blocked, initial=0)
        if leak > TOLERANCE:
            raise ValueError(
                f"mask blocks a cell of layer {i} that holds a weight of {leak:.4g}; True must mean may attend "
                "(invert it with ~mask), or leave the mask out to see where the weight goes"
            )
    return allowed

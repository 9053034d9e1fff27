"""How to call the layers of the set, and which argument of a call does not fit."""

import inspect

import torch
from torch import Tensor

from mhacourse.compare import kind_of
from mhacourse.try_test import Subject


def misfit(subject: Subject, message: str) -> str:
    """Return which argument of a failed call does not fit, or how to call the layer; nothing if all arguments fit."""
    takes = ", ".join(inspect.signature(subject.layer.forward).parameters)
    if "forward() " in message:
        return f"call this layer as layer({takes}), with these names, in this order."
    for name, words in _wrong(subject.layer, subject.asked or {}).items():
        got = subject.asked[name]
        shape = f" of shape {tuple(got.shape)}" if isinstance(got, Tensor) else ""
        return f"layer({takes}): {name} must be {words}; yours is {kind_of(got)}{shape}."
    return ""


def _wrong(layer, given) -> dict[str, str]:
    """Return, for each argument that does not fit, what it should be."""
    if "x" not in given:
        return {}
    d_model, x, memory, mask = layer.d_model, given["x"], given.get("memory"), given.get("mask")
    longest = len(layer.tril) if hasattr(layer, "tril") else None
    up_to = f", T at most {longest}" if longest else ""
    if not _has_shape(x, (None, None, d_model)) or longest and x.shape[1] > longest:
        return {"x": f"a floating tensor of shape (B, T, d_model), here (B, T, {d_model}){up_to}"}
    B, T = x.shape[:2]
    if memory is not None and not _has_shape(memory, (B, None, d_model)):
        return {"memory": f"a floating tensor of shape (B, S, d_model), here ({B}, S, {d_model}), or None"}
    S = T if memory is None else memory.shape[1]
    names = "(T, T) or (B, T, T)" if memory is None else "(T, S) or (B, T, S)"
    if mask is not None and not any(_has_shape(mask, shape, torch.bool) for shape in ((T, S), (B, T, S))):
        return {"mask": f"a boolean tensor of shape {names}, here {(T, S)} or {(B, T, S)}"}
    return {}


def _has_shape(value: object, shape: tuple[int | None, ...], dtype: torch.dtype | None = None) -> bool:
    """Return whether a value is a tensor of these sizes (None for any) and of this dtype, floating if none is given.

    A mask may have size 1 along an axis.
    """
    if not isinstance(value, Tensor) or value.ndim != len(shape):
        return False
    sizes = zip(value.shape, shape, strict=True)
    alike = all(wanted in (None, size) or size == 1 and dtype is not None for size, wanted in sizes)
    return alike and (value.is_floating_point() if dtype is None else value.dtype == dtype)

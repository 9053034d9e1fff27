"""The paths that ReshapeView shows: every station made by torch, by the very line of code that stands beside it.

So what is told about shape, strides, copies and wrong places was measured on a tensor. What the reader chooses among
the stations, and how they are drawn, is not decided here.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# What an index along an axis counts.
COUNTS = {
    "B": "sample",
    "T": "token",
    "num_heads": "head",
    "d_model": "feature",
    "head_dim": "feature of the head",
    "B * num_heads": "folded",
}
_FLAT = ("B", "T", "d_model")
_CUT = ("B", "T", "num_heads", "head_dim")
_BY_HEAD = ("B", "num_heads", "T", "head_dim")


class Line(NamedTuple):
    """One line of a path."""

    name: str  # what the result is called in the code
    code: str
    axes: tuple[str, ...]
    right: str = ""  # the code of what should have come out, on the wrong paths


_LABELS = (
    "{sample_step} * torch.arange(B)[:, None, None] + {token_step} * torch.arange(T)[:, None] + torch.arange(d_model)"
)
_SPLIT = "x.view(B, T, num_heads, head_dim).transpose(1, 2)"
# What attention returns has a memory of its own, so a merge starts from that.
_HEADS = Line("heads", f"{_SPLIT}.contiguous()", _BY_HEAD)
PATHS = {
    "split": [
        Line("x", _LABELS, _FLAT),
        Line("cut", "x.view(B, T, num_heads, head_dim)", _CUT),
        Line("heads", "cut.transpose(1, 2)", _BY_HEAD),
    ],
    "merge": [
        _HEADS,
        Line("back", "heads.transpose(1, 2)", _CUT),
        Line("packed", "back.contiguous()", _CUT),
        Line("merged", "packed.view(B, T, d_model)", _FLAT),
    ],
    "fold": [  # what d2l does: batch and heads folded into one axis
        Line("X", _LABELS, _FLAT),
        Line("X", "X.reshape(X.shape[0], X.shape[1], num_heads, -1)", _CUT),
        Line("X", "X.permute(0, 2, 1, 3)", _BY_HEAD),
        Line("X", "X.reshape(-1, X.shape[2], X.shape[3])", ("B * num_heads", "T", "head_dim")),
    ],
    "wrong split": [
        Line("x", _LABELS, _FLAT),
        Line("heads", "x.view(B, num_heads, T, head_dim)", _BY_HEAD, right=_SPLIT),
    ],
    "wrong merge": [
        _HEADS,
        Line("merged", "heads.reshape(B, T, d_model)", _FLAT, right="x"),
    ],
}


def run_path(path: str, sizes: dict[str, int]) -> tuple[list[Tensor], list[dict]]:
    """Return the tensors of a path, int64, and what the view is told about each.

    Args:
        path: a key of `PATHS`.
        sizes: `batch`, `tokens`, `num_heads`, `head_dim`, `d_model`, and what a label grows by from one token and
            one sample to the next, `token_step` and `sample_step`.
    """
    named = {"B": "batch", "T": "tokens", "num_heads": "num_heads", "head_dim": "head_dim", "d_model": "d_model"}
    names = {"torch": torch} | {name: sizes[size] for name, size in named.items()}
    names["x"] = eval(_LABELS.format(**sizes), names)
    tensors, facts = [], []
    for line in PATHS[path]:
        code = line.code.format(**sizes)
        tensor = eval(code, names)  # a line of ours, from above
        right = eval(line.right or code, names)
        memory = _memory(tensor, tensors[-1] if tensors else None)
        names[line.name] = tensor
        facts.append({
            "name": line.name,
            "code": f"{line.name} = {code}",
            "shape": list(tensor.shape),
            "axes": list(line.axes),
            "counts": [COUNTS[axis] for axis in line.axes],
            "strides": list(tensor.stride()),
            "contiguous": tensor.is_contiguous(),
            "memory": memory,
            "mistake": _mistake(tensor, right, line.axes) if line.right else "",
            "cells": tensor.flatten().tolist(),
            "right": right.flatten().tolist(),
        })  # fmt: skip
        tensors.append(tensor)
    return tensors, facts


def _memory(tensor: Tensor, before: Tensor | None) -> str:
    if before is None:
        return "start"
    return "view" if tensor.untyped_storage().data_ptr() == before.untyped_storage().data_ptr() else "copy"


def _mistake(tensor: Tensor, right: Tensor, axes: tuple[str, ...]) -> str:
    """Return in words and numbers what stands where it should not, or why nothing does."""
    wrong = tensor != right
    if not wrong.any():
        return (
            "With these sizes nothing stands wrong, and that is how the mistake hides: one token or one head leaves "
            "nothing to transpose. Try more of both."
        )
    rows = wrong.flatten(0, -2).any(-1)
    row = int(rows.nonzero()[0])
    holds, should = (", ".join(map(str, t.flatten(0, -2)[row].tolist())) for t in (tensor, right))
    index = zip(axes, np.unravel_index(row, tensor.shape[:-1]), tensor.shape, strict=False)
    place = ", ".join(f"{COUNTS[axis]} {i}" for axis, i, size in index if axis != "B" or size > 1)
    return (
        f"{int(wrong.sum())} of {wrong.numel()} numbers are in the wrong place, in {int(rows.sum())} of "
        f"{len(rows)} rows. For example, the row of {place} holds {holds}; it should hold {should}."
    )

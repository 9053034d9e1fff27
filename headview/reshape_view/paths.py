"""The paths that ReshapeView shows: every station made by torch, by the line of code that stands beside it.

So what is told about shape, strides, copies and wrong places was measured on a tensor. What the reader chooses among
the stations, and how they are drawn, is not decided here.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PATHS = ("split", "merge", "fold", "wrong split", "wrong merge")
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


@dataclass(frozen=True)
class Station:
    """One tensor of a path, int64, and the code that makes it from the one before."""

    name: str  # what the result is called in the code
    code: str
    tensor: Tensor
    axes: tuple[str, ...]
    right: Tensor | None = None  # what should have come out, where that differs in how it is made


def make_paths(sizes: dict[str, int]) -> dict[str, list[Station]]:
    """Return the stations of every path in `PATHS`; a test executes each `code` and compares.

    Args:
        sizes: `batch`, `tokens`, `num_heads`, `head_dim`, `d_model`, and what a label grows by from one token and
            one sample to the next, `token_step` and `sample_step`.
    """
    token_step, sample_step = sizes["token_step"], sizes["sample_step"]
    labels = (
        f"{sample_step} * torch.arange(B)[:, None, None] + {token_step} * torch.arange(T)[:, None] "
        "+ torch.arange(d_model)"
    )
    x = (  # (B, T, d_model)
        sample_step * torch.arange(sizes["batch"])[:, None, None]
        + token_step * torch.arange(sizes["tokens"])[:, None]
        + torch.arange(sizes["d_model"])
    )
    start = Station("x", f"x = {labels}", x, _FLAT)
    split = _split(start, sizes)
    heads = split[-1].tensor
    # What attention returns has a memory of its own, so a merge starts from that.
    whole = Station(
        "heads",
        "heads = x.view(B, T, num_heads, head_dim).transpose(1, 2).contiguous()",
        heads.contiguous(),
        _BY_HEAD,
    )
    by_view = x.view(heads.shape)
    by_reshape = whole.tensor.reshape(x.shape)
    return {
        "split": split,
        "merge": _merge(whole, x.shape),
        "fold": _fold(Station("X", f"X = {labels}", x, _FLAT), sizes),
        "wrong split": [
            start,
            Station("heads", "heads = x.view(B, num_heads, T, head_dim)", by_view, _BY_HEAD, right=heads),
        ],
        "wrong merge": [
            whole,
            Station("merged", "merged = heads.reshape(B, T, d_model)", by_reshape, _FLAT, right=x),
        ],
    }


def _split(start: Station, sizes: dict[str, int]) -> list[Station]:
    cut = start.tensor.view(sizes["batch"], sizes["tokens"], sizes["num_heads"], sizes["head_dim"])
    return [
        start,
        Station("cut", "cut = x.view(B, T, num_heads, head_dim)", cut, _CUT),
        Station("heads", "heads = cut.transpose(1, 2)", cut.transpose(1, 2), _BY_HEAD),
    ]


def _merge(start: Station, shape: torch.Size) -> list[Station]:
    back = start.tensor.transpose(1, 2)  # -> (B, T, num_heads, head_dim)
    packed = back.contiguous()
    return [
        start,
        Station("back", "back = heads.transpose(1, 2)", back, _CUT),
        Station("packed", "packed = back.contiguous()", packed, _CUT),
        Station("merged", "merged = packed.view(B, T, d_model)", packed.view(shape), _FLAT),
    ]


def _fold(start: Station, sizes: dict[str, int]) -> list[Station]:
    """Return what d2l does: batch and heads folded into one axis."""
    X = start.tensor
    cut = X.reshape(X.shape[0], X.shape[1], sizes["num_heads"], -1)
    heads = cut.permute(0, 2, 1, 3)
    folded = heads.reshape(-1, heads.shape[2], heads.shape[3])
    return [
        start,
        Station("X", "X = X.reshape(X.shape[0], X.shape[1], num_heads, -1)", cut, _CUT),
        Station("X", "X = X.permute(0, 2, 1, 3)", heads, _BY_HEAD),
        Station("X", "X = X.reshape(-1, X.shape[2], X.shape[3])", folded, ("B * num_heads", "T", "head_dim")),
    ]


def pack(paths: dict[str, list[Station]]) -> tuple[dict[str, list[dict]], bytes]:
    """Return what the view is told about the stations, and their numbers.

    Returns:
        facts: for each path, what is told about each of its stations; `at` is its row in `numbers`.
        numbers: int16, (stations of all paths, 3, numbers): each station's cells row by row, what should stand
            there, and its memory from the first place to the last.
    """
    facts, numbers = {}, []
    for name, stations in paths.items():
        facts[name] = []
        for before, station in zip([None, *stations], stations, strict=False):
            facts[name].append({**_describe(station, before), "at": len(numbers)})
            right = station.tensor if station.right is None else station.right
            numbers.append([station.tensor.flatten().tolist(), right.flatten().tolist(), _memory(station.tensor)])
    return facts, np.array(numbers, dtype="<i2").tobytes()


def _memory(tensor: Tensor) -> list[int]:
    """Return the numbers in the order in which they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,), 0).tolist()


def _describe(station: Station, before: Station | None) -> dict:
    """Return what the view tells about a station, measured on its tensor and the one before it."""
    tensor = station.tensor
    shares = before is not None and (tensor.untyped_storage().data_ptr() == before.tensor.untyped_storage().data_ptr())
    return {
        "name": station.name,
        "code": station.code,
        "shape": list(tensor.shape),
        "axes": list(station.axes),
        "counts": [COUNTS[axis] for axis in station.axes],
        "strides": list(tensor.stride()),
        "contiguous": tensor.is_contiguous(),
        "memory": "start" if before is None else "view" if shares else "copy",
        "mistake": _mistake(station),
    }


def _mistake(station: Station) -> str:
    """Return in words and numbers what stands where it should not, or why nothing does."""
    if station.right is None:
        return ""
    wrong = station.tensor != station.right
    if not wrong.any():
        return (
            "With these sizes nothing stands wrong, and that is how the mistake hides: one token or one head leaves "
            "nothing to transpose. Try more of both."
        )
    rows = wrong.flatten(0, -2).any(-1)
    row = int(rows.nonzero()[0])
    holds, should = (t.flatten(0, -2)[row].tolist() for t in (station.tensor, station.right))
    index = np.unravel_index(row, station.tensor.shape[:-1])
    place = ", ".join(
        f"{COUNTS[axis]} {i}"
        for axis, i, size in zip(station.axes, index, station.tensor.shape, strict=False)
        if axis != "B" or size > 1
    )
    return (
        f"{int(wrong.sum())} of {wrong.numel()} numbers stand where they should not, in {int(rows.sum())} of "
        f"{len(rows)} rows. For one, the row of {place} holds {', '.join(map(str, holds))}; "
        f"it should hold {', '.join(map(str, should))}."
    )

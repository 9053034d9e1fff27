"""ReshapeView: where every number goes when features are split into heads, merged again, or reshaped wrongly.

Every station of every path is made here by torch, by the line of code that the view shows. So what it says about
shape, strides, copies and wrong places was measured, not told. The view only moves the cells.
"""

from dataclasses import dataclass

import numpy as np
import torch
import traitlets
from matplotlib.patches import Rectangle
from torch import Tensor

from mhalib.plots import DescribedFigure, plot_reshape
from mhalib.widgets.base import Refused, View, is_whole, module_text, style_text

PATHS = ("split", "merge", "fold", "wrong split", "wrong merge")
# With more, a label no longer fits its cell, or the cells no longer fit a page.
_LIMITS = {"tokens": 8, "num_heads": 4, "head_dim": 4, "batch": 2}
# What an index along an axis counts.
_COUNTS = {
    "B": "sample",
    "T": "token",
    "num_heads": "head",
    "d_model": "feature",
    "head_dim": "feature of the head",
    "B * num_heads": "folded",
}


@dataclass(frozen=True)
class _Station:
    name: str  # what the result is called in the code
    code: str
    tensor: Tensor
    axes: tuple[str, ...]
    right: Tensor | None = None  # what should have come out, where that differs in how it is made


class ReshapeView(View):
    """Step through a reshape and see where each number stands, in the tensor and in memory.

    The numbers are labels: `10 * token + feature`, and 100 more for each further sample. Where `d_model` is more
    than 10 that would not be unique, and the labels are `100 * token + feature`, and 1000 more for each sample.

    `path`, `step`, `chosen` and `colour_by` can be set from a cell and the view follows; what the reader does in the
    view stands in them afterwards. `tensor` is the tensor of the present step.

    Args:
        tokens: T, 1 to 8.
        num_heads: 1 to 4.
        head_dim: features per head, 1 to 4; `d_model` is `num_heads * head_dim`.
        batch: B, 1 or 2.
        path: "split" (view, transpose), "merge" (transpose, contiguous, view), "fold" (what d2l does), and two
            mistakes, "wrong split" and "wrong merge".

    Raises:
        TypeError: a size is not an int.
        ValueError: a size is out of its range, or there is no such path; later, when a trait is set: a path, a
            step or a label that does not exist.

    Taught in notebooks 03 and 05.
    """

    _esm = module_text("reshape_view", "cells.js", "view.js")
    _css = style_text("reshape_view")

    path = traitlets.TraitType("split").tag(sync=True)
    step = traitlets.TraitType(0).tag(sync=True)
    chosen = traitlets.TraitType(0).tag(sync=True)
    colour_by = traitlets.TraitType("token").tag(sync=True)
    sizes = traitlets.Dict(read_only=True).tag(sync=True)
    stations = traitlets.Dict(read_only=True).tag(sync=True)
    # int16, (stations of all paths, 3, numbers): each station's cells row by row, what should stand there, and its
    # memory from the first place to the last.
    numbers = traitlets.Bytes(read_only=True).tag(sync=True)

    def __init__(self, tokens: int = 4, num_heads: int = 2, head_dim: int = 3, *, batch: int = 1, path: str = "split"):
        sizes = {"tokens": tokens, "num_heads": num_heads, "head_dim": head_dim, "batch": batch}
        for name, size in sizes.items():
            _check_size(name, size)
        d_model = num_heads * head_dim
        token_step = 10 if d_model <= 10 else 100
        self._sizes = {**sizes, "d_model": d_model, "token_step": token_step, "sample_step": 10 * token_step}
        self._paths = _make_paths(self._sizes)
        self._labels = set(self._paths["split"][0].tensor.flatten().tolist())
        described, numbers = {}, []
        for name, stations in self._paths.items():
            described[name] = []
            for before, station in zip([None, *stations], stations, strict=False):
                facts = _describe(station, before)
                described[name].append({**facts, "at": len(numbers)})
                right = station.tensor if station.right is None else station.right
                numbers.append([station.tensor.flatten().tolist(), right.flatten().tolist(), _memory(station.tensor)])
        super().__init__()
        self.set_trait("sizes", self._sizes)
        self.set_trait("stations", described)
        self.set_trait("numbers", np.array(numbers, dtype="<i2").tobytes())
        self.path = path
        # 23 with the default sizes: neither the first token nor the first head, so that it has a way to go.
        self.chosen = token_step * min(2, tokens - 1) + (head_dim if num_heads > 1 else 0)

    @property
    def tensor(self) -> Tensor:
        """The tensor of labels at the present step, int64, with the shape and the strides that are shown."""
        return self._paths[self.path][self.step].tensor

    def figure(self) -> DescribedFigure:
        """Return the start of the path beside the present step as a static picture, the chosen number outlined."""
        stations, here = self._paths[self.path], self._paths[self.path][self.step]
        shown = [stations[0]] if self.step == 0 else [stations[0], here]
        sheets, blocks = {}, set()
        for station in shown:
            tensor, axes = station.tensor, station.axes
            counted = {_COUNTS[axis] for axis, size in zip(axes[:-2], tensor.shape, strict=False) if size > 1}
            blocks |= {" and ".join(sorted(counted, reverse=True))} if counted else set()
            title = f"{station.name}\n({', '.join(axes)})"
            # plot_reshape draws one axis of blocks; a second sample goes below the first.
            sheets[title] = tensor.flatten(0, 1) if tensor.ndim == 4 and len(tensor) > 1 else tensor
        count = self._sizes["tokens" if self.colour_by == "token" else "num_heads"]
        figure = plot_reshape(
            sheets,
            lambda label: self._where(label)[self.colour_by],
            [f"{self.colour_by} {i}" for i in range(count)],
            block=blocks.pop() if len(blocks) == 1 else "block",
        )
        for axes in figure.axes:
            for text in axes.texts:
                if text.get_text() == str(self.chosen):
                    x, y = text.get_position()
                    axes.add_patch(_outline(x, y))
        facts = self.stations[self.path][self.step]
        place = tuple((here.tensor == self.chosen).nonzero()[0].tolist())
        figure.alt = (
            f"Reshape, path {self.path!r}, step {self.step} of {len(stations) - 1}: {facts['code']}, "
            f"shape {tuple(facts['shape'])}, strides {tuple(facts['strides'])}, {facts['memory']}. "
            f"{self._name(self.chosen)} stands at {place}. {facts['mistake']}"
        ).strip()
        return figure

    def _where(self, label: int) -> dict[str, int]:
        sizes = self._sizes
        feature = label % sizes["token_step"]
        return {
            "sample": label // sizes["sample_step"],
            "token": label % sizes["sample_step"] // sizes["token_step"],
            "feature": feature,
            "head": feature // sizes["head_dim"],
        }

    def _name(self, label: int) -> str:
        where = self._where(label)
        sample = f"sample {where['sample']}, " if self._sizes["batch"] > 1 else ""
        return f"{label} = {sample}token {where['token']}, feature {where['feature']}"

    @traitlets.validate("path")
    def _check_path(self, proposal):
        path = proposal["value"]
        if not isinstance(path, str) or path not in PATHS:
            raise Refused(f"path={path!r} is not known; choose one of {', '.join(map(repr, PATHS))}")
        return path

    @traitlets.observe("path")
    def _start_again(self, change):
        if self.step != 0:  # the view sets it itself, in the same message
            self.step = 0

    @traitlets.validate("step")
    def _check_step(self, proposal):
        step, last = proposal["value"], len(self._paths[self.path]) - 1
        if not is_whole(step) or not 0 <= step <= last:
            raise Refused(
                f"step={step!r} does not exist; the path {self.path!r} has the steps 0 to {last}, where 0 is the start"
            )
        return step

    @traitlets.validate("chosen")
    def _check_chosen(self, proposal):
        label, sizes = proposal["value"], self._sizes
        if not is_whole(label) or label not in self._labels:
            sample = f"{sizes['sample_step']} * sample + " if sizes["batch"] > 1 else ""
            raise Refused(
                f"chosen={label!r} is none of the labels; they are {sample}{sizes['token_step']} * token + feature, "
                f"with token 0 to {sizes['tokens'] - 1} and feature 0 to {sizes['d_model'] - 1}; the last is {max(self._labels)}"
            )
        return label

    @traitlets.validate("colour_by")
    def _check_colour(self, proposal):
        if not isinstance(proposal["value"], str) or proposal["value"] not in ("token", "head"):
            raise Refused(f"colour_by={proposal['value']!r} is not known; choose 'token' or 'head'")
        return proposal["value"]


def _check_size(name: str, size) -> None:
    most = _LIMITS[name]
    if not is_whole(size):
        raise TypeError(f"{name} must be an int from 1 to {most}, got {size!r}")
    if not 1 <= size <= most:
        raise ValueError(
            f"{name}={size} is out of range; choose 1 to {most}, so that every label can be read: "
            "where a number goes does not depend on the sizes"
        )


def _outline(x: float, y: float):
    return Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, linewidth=2, edgecolor="black")


def _make_paths(sizes: dict[str, int]) -> dict[str, list[_Station]]:
    """Return the stations of every path; a test executes each `code` and compares."""
    B, T, num_heads, head_dim, d_model = (
        sizes[name] for name in ("batch", "tokens", "num_heads", "head_dim", "d_model")
    )
    token_step, sample_step = sizes["token_step"], sizes["sample_step"]
    x = (  # (B, T, d_model)
        sample_step * torch.arange(B)[:, None, None]
        + token_step * torch.arange(T)[:, None]
        + torch.arange(d_model)
    )  # fmt: skip
    labels = f"{sample_step} * torch.arange(B)[:, None, None] + {token_step} * torch.arange(T)[:, None] + torch.arange(d_model)"
    cut = ("B", "T", "num_heads", "head_dim")
    flat = ("B", "T", "d_model")
    by_head = ("B", "num_heads", "T", "head_dim")
    four = x.view(B, T, num_heads, head_dim)
    heads = four.transpose(1, 2)  # -> (B, num_heads, T, head_dim)
    # What attention returns has a memory of its own, so the merge starts from that.
    whole = heads.contiguous()
    start_whole = _Station(
        "heads", "heads = x.view(B, T, num_heads, head_dim).transpose(1, 2).contiguous()", whole, by_head
    )
    back = whole.transpose(1, 2)  # -> (B, T, num_heads, head_dim)
    packed = back.contiguous()
    d2l_cut = x.reshape(x.shape[0], x.shape[1], num_heads, -1)
    d2l_heads = d2l_cut.permute(0, 2, 1, 3)
    return {
        "split": [
            _Station("x", f"x = {labels}", x, flat),
            _Station("cut", "cut = x.view(B, T, num_heads, head_dim)", four, cut),
            _Station("heads", "heads = cut.transpose(1, 2)", heads, by_head),
        ],
        "merge": [
            start_whole,
            _Station("back", "back = heads.transpose(1, 2)", back, cut),
            _Station("packed", "packed = back.contiguous()", packed, cut),
            _Station("merged", "merged = packed.view(B, T, d_model)", packed.view(B, T, d_model), flat),
        ],
        "fold": [
            _Station("X", f"X = {labels}", x, flat),
            _Station("X", "X = X.reshape(X.shape[0], X.shape[1], num_heads, -1)", d2l_cut, cut),
            _Station("X", "X = X.permute(0, 2, 1, 3)", d2l_heads, by_head),
            _Station(
                "X",
                "X = X.reshape(-1, X.shape[2], X.shape[3])",
                d2l_heads.reshape(-1, T, head_dim),
                ("B * num_heads", "T", "head_dim"),
            ),
        ],
        "wrong split": [
            _Station("x", f"x = {labels}", x, flat),
            _Station(
                "heads",
                "heads = x.view(B, num_heads, T, head_dim)",
                x.view(B, num_heads, T, head_dim),
                by_head,
                right=heads,
            ),
        ],
        "wrong merge": [
            start_whole,
            _Station("merged", "merged = heads.reshape(B, T, d_model)", whole.reshape(B, T, d_model), flat, right=x),
        ],
    }


def _memory(tensor: Tensor) -> list[int]:
    """Return the numbers in the order in which they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,), 0).tolist()


def _describe(station: _Station, before: _Station | None) -> dict:
    """Return what the view tells about a station, measured on its tensor and the one before it."""
    tensor = station.tensor
    shares = before is not None and (tensor.untyped_storage().data_ptr() == before.tensor.untyped_storage().data_ptr())
    return {
        "name": station.name,
        "code": station.code,
        "shape": list(tensor.shape),
        "axes": list(station.axes),
        "counts": [_COUNTS[axis] for axis in station.axes],
        "strides": list(tensor.stride()),
        "contiguous": tensor.is_contiguous(),
        "memory": "start" if before is None else "view" if shares else "copy",
        "mistake": _mistake(station),
    }


def _mistake(station: _Station) -> str:
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
        f"{_COUNTS[axis]} {i}"
        for axis, i, size in zip(station.axes, index, station.tensor.shape, strict=False)
        if axis != "B" or size > 1
    )
    return (
        f"{int(wrong.sum())} of {wrong.numel()} numbers stand where they should not, in {int(rows.sum())} of "
        f"{len(rows)} rows. For one, the row of {place} holds {', '.join(map(str, holds))}; "
        f"it should hold {', '.join(map(str, should))}."
    )

"""ReshapeView: where every number goes when features are split into heads, merged again, or reshaped wrongly.

What stands where is made in `paths.py`, by torch; here is what the reader may choose, and the static picture. The
view only moves the cells.
"""

import traitlets
from matplotlib.patches import Rectangle
from torch import Tensor

from headview.base import Refused, View, is_whole, static
from headview.reshape_view.paths import COUNTS, PATHS, Station, make_paths, pack
from mhalib.plots import DescribedFigure, plot_reshape

# With more, a label no longer fits its cell, or the cells no longer fit a page.
_LIMITS = {"tokens": 8, "num_heads": 4, "head_dim": 4, "batch": 2}


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

    _esm = static("reshape_view.js")
    _css = static("reshape_view.css")

    path = traitlets.TraitType("split").tag(sync=True)
    step = traitlets.TraitType(0).tag(sync=True)
    chosen = traitlets.TraitType(0).tag(sync=True)
    colour_by = traitlets.TraitType("token").tag(sync=True)
    sizes = traitlets.Dict(read_only=True).tag(sync=True)
    stations = traitlets.Dict(read_only=True).tag(sync=True)
    numbers = traitlets.Bytes(read_only=True).tag(sync=True)  # as `pack` lays them out

    def __init__(self, tokens: int = 4, num_heads: int = 2, head_dim: int = 3, *, batch: int = 1, path: str = "split"):
        sizes = {"tokens": tokens, "num_heads": num_heads, "head_dim": head_dim, "batch": batch}
        for name, size in sizes.items():
            _check_size(name, size)
        d_model = num_heads * head_dim
        token_step = 10 if d_model <= 10 else 100
        self._sizes = {**sizes, "d_model": d_model, "token_step": token_step, "sample_step": 10 * token_step}
        self._paths = make_paths(self._sizes)
        self._labels = set(self._paths["split"][0].tensor.flatten().tolist())
        stations, numbers = pack(self._paths)
        super().__init__()
        self.set_trait("sizes", self._sizes)
        self.set_trait("stations", stations)
        self.set_trait("numbers", numbers)
        self.path = path
        # 23 with the default sizes: neither the first token nor the first head, so that it has a way to go.
        self.chosen = token_step * min(2, tokens - 1) + (head_dim if num_heads > 1 else 0)

    @property
    def tensor(self) -> Tensor:
        """The tensor of labels at the present step, int64, with the shape and the strides that are shown."""
        return self._paths[self.path][self.step].tensor

    def figure(self) -> DescribedFigure:
        """Return the start of the path beside the present step as a static picture, the chosen number outlined."""
        stations = self._paths[self.path]
        shown = stations[:1] if self.step == 0 else [stations[0], stations[self.step]]
        count = self._sizes["tokens" if self.colour_by == "token" else "num_heads"]
        figure = plot_reshape(
            {f"{station.name}\n({', '.join(station.axes)})": _sheet(station.tensor) for station in shown},
            lambda label: self._where(label)[self.colour_by],
            [f"{self.colour_by} {i}" for i in range(count)],
            block=_blocks(shown),
        )
        for axes in figure.axes:
            for text in axes.texts:
                if text.get_text() == str(self.chosen):
                    x, y = text.get_position()
                    frame = {"fill": False, "linewidth": 2, "edgecolor": "black"}
                    axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, **frame))
        figure.alt = self._alt()
        return figure

    def _alt(self) -> str:
        facts = self.stations[self.path][self.step]
        place = tuple((self.tensor == self.chosen).nonzero()[0].tolist())
        return (
            f"Reshape, path {self.path!r}, step {self.step} of {len(self._paths[self.path]) - 1}: {facts['code']}, "
            f"shape {tuple(facts['shape'])}, strides {tuple(facts['strides'])}, {facts['memory']}. "
            f"{self._name(self.chosen)} stands at {place}. {facts['mistake']}"
        ).strip()

    def _where(self, label: int) -> dict[str, int]:
        """Return what a label means, as `meaning` does in `cells.js`."""
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
                f"with token 0 to {sizes['tokens'] - 1} and feature 0 to {sizes['d_model'] - 1}; "
                f"the last is {max(self._labels)}"
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


def _sheet(tensor: Tensor) -> Tensor:
    """Return a tensor with one axis of blocks, as plot_reshape draws it; a second sample goes below the first."""
    return tensor.flatten(0, 1) if tensor.ndim == 4 and len(tensor) > 1 else tensor


def _blocks(stations: list[Station]) -> str:
    """Return what the blocks of a picture are called: what they count, where that is the same in all of it."""
    names = set()
    for station in stations:
        leading = zip(station.axes[:-2], station.tensor.shape, strict=False)
        counted = {COUNTS[axis] for axis, size in leading if size > 1}
        if counted:
            names.add(" and ".join(sorted(counted, reverse=True)))
    return names.pop() if len(names) == 1 else "block"

"""ReshapeView: where every number goes when features are split into heads, merged again, or reshaped wrongly.

What stands where is made in `paths.py`, by torch; here is what the reader may choose, and the static picture. The
view only moves the cells.
"""

import traitlets
from matplotlib.patches import Rectangle
from torch import Tensor

from headview.base import Checked, Refused, View, check_choice, is_whole, static
from headview.reshape_view.paths import PATHS, run_path
from mhalib.arguments import as_torch_starts
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

    path = Checked("split", check_choice, tuple(PATHS)).tag(sync=True)
    step = traitlets.TraitType(0).tag(sync=True)
    chosen = traitlets.TraitType(0).tag(sync=True)
    colour_by = Checked("token", check_choice, ("token", "head")).tag(sync=True)
    sizes = traitlets.Dict(read_only=True).tag(sync=True)
    stations = traitlets.Dict(read_only=True).tag(sync=True)  # for each path, what is told about its stations

    @as_torch_starts()
    def __init__(self, tokens: int = 4, num_heads: int = 2, head_dim: int = 3, *, batch: int = 1, path: str = "split"):
        sizes = {"tokens": tokens, "num_heads": num_heads, "head_dim": head_dim, "batch": batch}
        for name, size in sizes.items():
            if not is_whole(size):
                raise TypeError(f"{name} must be an int from 1 to {_LIMITS[name]}, got {size!r}")
            if not 1 <= size <= _LIMITS[name]:
                raise ValueError(
                    f"{name}={size} is out of range; choose 1 to {_LIMITS[name]}, so that every label can be read: "
                    "where a number goes does not depend on the sizes"
                )
        d_model = num_heads * head_dim
        token_step = 10 if d_model <= 10 else 100
        sizes |= {"d_model": d_model, "token_step": token_step, "sample_step": 10 * token_step}
        made = {name: run_path(name, sizes) for name in PATHS}
        self._tensors = {name: tensors for name, (tensors, _) in made.items()}
        super().__init__(path=path)
        self.set_trait("sizes", sizes)
        self.set_trait("stations", {name: facts for name, (_, facts) in made.items()})
        # 23 with the default sizes: neither the first token nor the first head, so that it has a way to go.
        self.chosen = token_step * min(2, tokens - 1) + (head_dim if num_heads > 1 else 0)

    @property
    def tensor(self) -> Tensor:
        """The tensor of labels at the present step, int64, with the shape and the strides that are shown."""
        return self._tensors[self.path][self.step]

    def figure(self) -> DescribedFigure:
        """Return the start of the path beside the present step as a static picture, the chosen number outlined."""
        sizes, facts, by = self.sizes, self.stations[self.path], self.colour_by
        tensors = self._tensors[self.path]
        shown = {f"{facts[i]['name']}\n({', '.join(facts[i]['axes'])})": tensors[i] for i in sorted({0, self.step})}
        figure = plot_reshape(
            {title: t.flatten(0, 1) if t.ndim == 4 and len(t) > 1 else t for title, t in shown.items()},
            lambda label: self._where(label)[by],
            [f"{by} {i}" for i in range(sizes["tokens" if by == "token" else "num_heads"])],
            block="head" if sizes["batch"] == 1 else "block",
        )
        for axes in figure.axes:
            for text in axes.texts:
                if text.get_text() == str(self.chosen):
                    x, y = text.get_position()
                    axes.add_patch(
                        Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, linewidth=2, edgecolor="black")
                    )
        now, where = facts[self.step], self._where(self.chosen)
        sample = f"sample {where['sample']}, " if sizes["batch"] > 1 else ""
        place = tuple((self.tensor == self.chosen).nonzero()[0].tolist())
        figure.alt = (
            f"Reshape, path {self.path!r}, step {self.step} of {len(facts) - 1}: {now['code']}, "
            f"shape {tuple(now['shape'])}, strides {tuple(now['strides'])}, {now['memory']}. {self.chosen} = {sample}"
            f"token {where['token']}, feature {where['feature']} is at {place}. {now['mistake']}"
        ).strip()
        return figure

    def _where(self, label: int) -> dict[str, int]:
        """Return what a label means, as `meaning` does in `stations.js`."""
        sample, token, feature = (self._tensors["split"][0] == label).nonzero()[0].tolist()
        return {"sample": sample, "token": token, "feature": feature, "head": feature // self.sizes["head_dim"]}

    @traitlets.observe("path")
    def _start_again(self, change):
        self.step = 0

    @traitlets.validate("step")
    def _check_step(self, proposal):
        step, last = proposal["value"], len(self._tensors[self.path]) - 1
        if not is_whole(step) or not 0 <= step <= last:
            raise Refused(
                f"step={step!r} does not exist; the path {self.path!r} has the steps 0 to {last}, where 0 is the start"
            )
        return step

    @traitlets.validate("chosen")
    def _check_chosen(self, proposal):
        label, labels = proposal["value"], self.stations["split"][0]["cells"]
        if not is_whole(label) or label not in labels:
            raise Refused(f"chosen={label!r} is none of the labels; they are {', '.join(map(str, labels))}")
        return label

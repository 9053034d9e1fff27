"""A figure that shows and describes itself, and what a list of labels must be."""

import io
from collections.abc import Sequence

from matplotlib.figure import Figure
from PIL import Image


class DescribedFigure(Figure):
    """A matplotlib Figure that shows itself in a notebook, with its alternative text."""

    alt = ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        drawn, packed = io.BytesIO(), io.BytesIO()
        quick = {"compress_level": 0}  # it is packed below
        self.savefig(drawn, format="png", dpi=100, bbox_inches="tight", pad_inches=0.08, pil_kwargs=quick)
        # 256 colours look the same and are a third of the bytes; notebooks are stored with their pictures.
        # What PIL writes holds no version and no date: the same picture is the same bytes on every run.
        image = Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT)
        image.save(packed, "png", optimize=True)
        return {"image/png": packed.getvalue(), "text/plain": self.alt}, {"image/png": {"alt": self.alt}}

    def _ipython_display_(self):
        from IPython.display import display

        # pyplot, which d2l imports, registers its own way to show every Figure, and IPython would prefer that one.
        bundle, metadata = self._repr_mimebundle_()
        display(bundle, metadata=metadata, raw=True)


def new_figure(alt: str, size: tuple[float, float] = (6.0, 3.5)) -> DescribedFigure:
    """Return an empty figure; draw on `figure.subplots()` and let the cell return the figure.

    Args:
        alt: what the picture shows, in one or two sentences; without it, a ValueError.
        size: width and height in inches, at 100 dots per inch.

    Notebook 01 draws with it first.
    """
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError("a figure needs an alternative text: say in a sentence what it shows")
    figure = DescribedFigure(figsize=size, dpi=100, layout="constrained")
    figure.alt = alt
    return figure


def as_labels(labels: Sequence[str] | None, size: int, name: str, axis: str) -> list[str]:
    """Return labels as a list of strings, an empty one for None, or say what is wrong with `name` at the `axis`."""
    if labels is None:
        return []
    if isinstance(labels, str) or not hasattr(labels, "__len__") or getattr(labels, "ndim", 1) == 0:
        kind = "string" if isinstance(labels, str) else type(labels).__name__
        raise ValueError(f"{name} must be a list of strings, one per entry of {axis}, got one {kind}; use .split()")
    if len(labels) != size:
        raise ValueError(f"{name} has {len(labels)} labels, the weights have {size} {axis}; give one label each")
    return [str(label) for label in labels]

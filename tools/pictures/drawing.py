"""What the pictures draw with: a canvas measured in inches, and text, boxes, arrows, tables and maps on it."""

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mhalib.plots import COLOUR_MAP, COLOURS

DPI, INK, SOFT, BLOCKED = 150, "#222222", "#5F5F5F", "#E4E4E4"
PALE = "#F2F2F2"  # what is neither a head nor a token
TINTS = [tuple(0.5 + 0.5 * part for part in to_rgb(colour)) for colour in COLOURS]  # black text can be read on them


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure whose coordinates are inches from the upper left corner."""
    figure = Figure((width, height), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def say(axes: Axes, x: float, y: float, text: str, size: float = 8, **options) -> None:
    options = {"ha": "center", "va": "center", "color": INK, "linespacing": 1.3} | options
    axes.text(x, y, text, fontsize=size, parse_math=False, **options)


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str = "", colour="white", **options) -> None:
    """Draw a box with its upper left corner at (x, y) and its text in the middle."""
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=INK, linewidth=0.8))
    say(axes, x + width / 2, y + height / 2, text, **options)


def arrow(axes: Axes, *points: tuple[float, float]) -> None:
    """Draw a line through the points with an arrow head at the last one."""
    style = {"color": SOFT, "linewidth": 1.2}
    axes.plot(*zip(*points[:-1], strict=True), solid_capstyle="butt", solid_joinstyle="miter", **style)
    head = {"arrowstyle": "-|>,head_width=0.2,head_length=0.4", "shrinkA": 0, "shrinkB": 0, **style}
    axes.annotate("", points[-1], points[-2], arrowprops=head)


def cells(axes: Axes, x: float, y: float, labels: list[list], colour, size: float = 0.34, font: float = 8.5) -> None:
    """Draw a table of labels with its corner at (x, y); `colour(row, column)` fills a cell."""
    for i, row in enumerate(labels):
        for j, label in enumerate(row):
            place = (x + j * size, y + i * size)
            axes.add_patch(Rectangle(place, size, size, facecolor=colour(i, j), edgecolor="white", linewidth=1.5))
            say(axes, place[0] + size / 2, place[1] + size / 2, str(label), font)


def heat(axes: Axes, x: float, y: float, weights: Tensor, size: float) -> None:
    """Draw an attention map `(Tq, Tk)` as a square with its corner at (x, y), on the scale from 0 to 1."""
    xlim, ylim = axes.get_xlim(), axes.get_ylim()
    scale = {"cmap": COLOUR_MAP, "vmin": 0, "vmax": 1, "interpolation": "nearest", "aspect": "auto"}
    axes.imshow(weights.numpy(), extent=(x, x + size, y + size, y), zorder=2, **scale)
    axes.set(xlim=xlim, ylim=ylim)

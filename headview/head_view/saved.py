"""A picture of a HeadView in a file: PNG from pixels, SVG and PDF drawn by matplotlib, with text that stays text."""

import io
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axes._base import _AxesBase
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from headview.head_view.drawn import Drawn, Panel, described
from headview.head_view.overview import Overview, coloured
from headview.head_view.picture import SIDE, WAYS, draw
from headview.head_view.raster import WHITE, cut, one_line, palette, png_bytes
from headview.head_view.strokes import chosen_lines, line_style, opacity, style
from mhalib.plots import DIVERGING, DescribedFigure, new_figure, pooled, ticks

ENDINGS = (".png", ".svg", ".pdf", ".html")
_INCH = 100  # pixels of a page
_MOST_CELLS = 280  # along an axis of a map, so that no cell is smaller than a pixel where it is shown
_MARKED_UP_TO = 64  # cells; further out the marks would be one grey
_DASHES = 72 / 100  # points of a pixel


def save(drawn: Drawn, path: str | Path, *, html: Callable[[], str] | None = None) -> Path:
    """Write a picture into a file, of the kind that its name ends in, and return where it is.

    Args:
        drawn: what the picture shows.
        path: ends in ".png" (twice as sharp as on a page), ".svg", ".pdf" or ".html". A file of that name is replaced.
        html: returns the page that is written for ".html".

    Raises:
        ValueError: the name has another ending, is that of a folder, or lies in a folder that does not exist.
    """
    path = checked_path(path)
    ending = path.suffix.lower()
    if ending == ".html":
        if html is None:
            raise ValueError("a picture alone has no page; use .png, .svg or .pdf, or save the view itself as .html")
        content = html().encode("utf-8")
    elif ending == ".png":
        content = png_bytes(draw(drawn, sharp=2), described(drawn), dots=2 * _INCH)
    else:
        content = _vectors(figure_of(drawn), drawn, ending[1:])
    path.write_bytes(content)  # made in full before: what fails leaves no half of a file
    return path


def checked_path(path: str | Path) -> Path:
    """Return a path that `save` can write to."""
    if not isinstance(path, (str, Path)):
        raise ValueError(f"save needs the name of a file, such as 'heads.png', got {type(path).__name__}")
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueError(
            f"{str(path)!r} is a folder; give the name of a file in it, such as {str(path / 'heads.png')!r}"
        )
    if path.suffix.lower() not in ENDINGS:
        came = f"{path.suffix!r}" if path.suffix else "no ending"
        raise ValueError(f"save writes {', '.join(ENDINGS)}, got {came}; try {path.with_suffix('.png').name!r}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {str(path.parent)!r}; make it first, or save as {path.name!r}")
    return path


def _vectors(figure: DescribedFigure, drawn: Drawn, kind: str) -> bytes:
    """Return a figure as SVG or PDF: its letters as text, and the same bytes every time."""
    alt = described(drawn)
    about = {"Title": one_line(drawn.title)}
    about |= {"Description": alt, "Date": None} if kind == "svg" else {"Subject": alt, "CreationDate": None}
    settings = {"svg.fonttype": "none", "svg.hashsalt": "mhalib", "pdf.fonttype": 42}
    packed = io.BytesIO()
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # it stands there as text all the same
        _settle(figure)
        figure.savefig(packed, format=kind, metadata=about, bbox_inches="tight", pad_inches=0.08)
    return packed.getvalue()


def _settle(figure: DescribedFigure) -> None:
    """Lay a figure out for good, in whole thousandths: the solver's last digits differ from run to run."""
    figure.draw_without_rendering()
    places = [axes.get_position(original=True).bounds for axes in figure.axes]
    figure.set_layout_engine("none")
    for axes, place in zip(figure.axes, places, strict=True):
        axes.set_position([round(end, 3) for end in place])


def figure_of(drawn: Drawn) -> DescribedFigure:
    """Return the same picture as a matplotlib figure, with real axes."""
    overview = None if drawn.thumbnails is None or drawn.thumbnails[..., 0, 0].size < 2 else Overview(drawn)
    number = len(drawn.panels) if drawn.mode == "map" else 1
    widths = [overview.wide / _INCH + 0.3] if overview else []
    widths += [(SIDE + 100) / _INCH] * number
    figure = new_figure(described(drawn), (sum(widths), 4.6))
    axes = np.atleast_1d(figure.subplots(1, len(widths), width_ratios=widths))
    if overview:
        _draw_overview(axes[0], overview)
    panels = axes[-number:]
    if drawn.mode == "lines":
        _draw_lines(panels[0], drawn)
        panels[0].set_title(cut(drawn.title, 13, SIDE), fontsize=10, parse_math=False)
        return figure
    for at, panel in zip(panels, drawn.panels, strict=True):
        _draw_map(figure, at, drawn, panel)
        at.set_title(cut(panel.name if number > 1 else drawn.title, 13, SIDE), fontsize=10, parse_math=False)
    if number > 1:
        figure.suptitle(cut(drawn.title, 13, SIDE * number), fontsize=11, parse_math=False)
    return figure


def _image(numbers: np.ndarray, colour_map: str) -> np.ndarray:
    """Return colours for their numbers on a sheet, with nothing where it is white."""
    opaque = np.where(numbers == WHITE, 0, 255).astype(np.uint8)
    return np.concatenate([palette(colour_map)[numbers], opaque[..., None]], -1)


def _draw_overview(axes: Axes, overview: Overview) -> None:
    """Draw all heads as one image, with frames around the chosen ones and with the names of layers and heads."""
    drawn, side, pixels = overview.drawn, overview.side, overview.pixels(1)
    room, tall = side + overview.gap, side + overview.gap + overview.above
    canvas = np.full((overview.lines * tall, overview.columns * room), WHITE, np.uint8)
    for layer in range(overview.layers):
        for head in range(overview.heads):
            x, y = overview.corner(layer, head)
            canvas[y : y + side, x : x + side] = pixels[layer, head]
    axes.imshow(_image(canvas, drawn.colour_map), interpolation="nearest")
    for number, (layer, head) in enumerate(drawn.chosen):
        x, y = overview.corner(layer, head)
        line = {"fill": False, "linewidth": 1 if number else 2.2, "edgecolor": "black", "clip_on": False}
        axes.add_patch(Rectangle((x - 1.5, y - 1.5), side + 2, side + 2, **line))
    axes.set_title(overview.title, fontsize=10, loc="left", pad=14 if overview.folded else 6)
    names = drawn.head_names or [str(i) for i in range(overview.heads)]
    step = -(-max(18, 6 * max(map(len, names))) // room)
    axes.set_frame_on(False)
    axes.tick_params(length=0, labelsize=7)
    if overview.folded:
        axes.set(xticks=[], yticks=[])
        for head in range(0, overview.heads, step):
            x, y = overview.corner(0, head)
            axes.text(x, y - 2, cut(names[head], 10, max(room, 30)), fontsize=7, va="bottom", parse_math=False)
        return
    shown = range(0, overview.heads, step)
    axes.set_xticks([i * room + side / 2 for i in shown], [names[i] for i in shown])
    axes.set_yticks([i * room + side / 2 for i, _ in overview.names], [said for _, said in overview.names])
    axes.set_xlabel("head", fontsize=9)
    axes.set_ylabel("layer", fontsize=9)
    _as_written(axes)


def _draw_map(figure: DescribedFigure, axes: Axes, drawn: Drawn, panel: Panel) -> None:
    """Draw one map as an image, with its tokens and its scale."""
    pool = tuple(math.ceil(size / _MOST_CELLS) for size in panel.cells.shape)
    pool = (max(pool),) * 2 if 0.5 <= panel.cells.shape[0] / panel.cells.shape[1] <= 2 else pool
    cells = pooled(panel.cells, *pool, panel.signed)
    tall, wide = cells.shape
    numbers = coloured(cells, drawn.scale, panel.top, panel.signed)
    # "none" puts the cells into the file as they are; "nearest" would first bring them to 72 in an inch.
    look = {"interpolation": "none", "aspect": "equal" if 0.5 <= tall / wide <= 2 else "auto"}
    axes.imshow(_image(numbers, drawn.colour_map), extent=(0, 1, 1, 0), **look)
    if look["aspect"] == "equal":
        axes.set_aspect(tall / wide)
    _name_ticks(axes.xaxis, drawn.marks(1, 3.4, 0.13, 0.42))
    _name_ticks(axes.yaxis, drawn.marks(0, 3.4, 0.13, 0.26))
    axes.set_ylabel(drawn.axes[0], fontsize=9, parse_math=False)
    crossed = max(tall, wide) <= _MARKED_UP_TO
    for special, sign, ink in ((np.isneginf(cells), "x", "#777777"), (np.isnan(cells), "$?$", "black")):
        y, x = special.nonzero() if crossed else ([], [])
        if len(x):
            size = min(7.0, 160 / max(tall, wide))
            axes.plot((x + 0.5) / wide, (y + 0.5) / tall, marker=sign, linestyle="none", color=ink, markersize=size)
    note = drawn.note(*pool).replace("hatched: masked", "×: masked" if crossed else "pale: masked")
    axes.set_xlabel(f"{drawn.axes[1]}\n{note}" if note else drawn.axes[1], fontsize=9, parse_math=False)
    shades = ScalarMappable(matplotlib.colors.Normalize(0, 1), DIVERGING if panel.signed else drawn.colour_map)
    bar = figure.colorbar(shades, ax=axes, fraction=0.05, pad=0.02)
    places, said = zip(*ticks(drawn.scale, panel.top, panel.signed), strict=True)
    bar.set_ticks(list(places), labels=list(said), fontsize=7)
    bar.set_label(drawn.value + WAYS[drawn.scale], fontsize=8, parse_math=False)


def _name_ticks(axis, marks: list[tuple[int | float, str]]) -> None:
    """Label an axis that runs from 0 to 1, as plain text."""
    said = [cut(text, 11, 110) for _, text in marks]
    turned = 90 if axis.axis_name == "x" and max(map(len, said), default=0) > 4 else 0
    axis.set_ticks([place for place, _ in marks], said, fontsize=7, rotation=turned)
    axis.set_tick_params(length=0 if len(marks) > 40 else 2)
    _as_written(axis.axes)


def _as_written(axes: _AxesBase) -> None:
    for label in axes.get_xticklabels() + axes.get_yticklabels():
        label.set_parse_math(False)


def _draw_lines(axes: Axes, drawn: Drawn) -> None:
    """Draw heads as lines, from queries at the left to keys at the right."""
    lines, left_out = chosen_lines(drawn)
    rows, columns = drawn.shape
    ends, colours, widths, dashes = [], [], [], []
    for strength, number, row, column in lines:
        colour, pattern = line_style(drawn.panels[number].signed, number, strength)
        ends.append([(0, (row + 0.5) / rows), (1, (column + 0.5) / columns)])
        colours.append((*(part / 255 for part in colour), opacity(strength)))
        widths.append(_DASHES * (1 + 2 * abs(strength)))
        dashes.append(_pattern(pattern))
    axes.add_collection(LineCollection(ends, colors=colours, linewidths=widths, linestyles=dashes))
    axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[])
    _name_ticks(axes.yaxis, drawn.marks(0, 3.4, 0.13, 0.26))
    axes.set_ylabel(drawn.axes[0], fontsize=9, parse_math=False)
    right = axes.secondary_yaxis("right")
    _name_ticks(right.yaxis, drawn.marks(1, 3.4, 0.13, 0.26))
    right.set_ylabel(drawn.axes[1], fontsize=9, parse_math=False)
    words = [f"stronger: larger, up to {drawn.panels[0].top:.3g}{WAYS[drawn.scale]}"]
    words += ["dashed: negative"] * any(panel.signed for panel in drawn.panels)
    words += [f"{left_out:,} weaker lines left out"] * bool(left_out) + [drawn.note()] * bool(drawn.note())
    axes.set_xlabel(" · ".join(words), fontsize=8)
    if len(drawn.panels) > 1:
        looks = [style(number) for number in range(len(drawn.panels))]
        samples = [Line2D([], [], color=[part / 255 for part in c], linestyle=_pattern(p)) for c, p in looks]
        names = [cut(panel.name, 11, SIDE / 2) for panel in drawn.panels]
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.08), "ncols": 2, "fontsize": 7, "frameon": False}
        for text in axes.legend(samples, names, **below).get_texts():
            text.set_parse_math(False)


def _pattern(dashes: tuple[int, ...]):
    return (0, tuple(_DASHES * n for n in dashes)) if dashes else "solid"

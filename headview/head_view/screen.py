"""What is on the screen of a HeadView at the moment, said for a picture: maps in their window, labels, all heads."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_MOST_CELLS = 1024  # along a side of a picture; longer maps are given pooled
_PREFIXES = {"weights": "", "values": "value-weighted ", "rollout": "rollout up to "}
_VALUES = {"weights": "attention weight", "values": "weight × length of the value", "rollout": "rollout"}
_TINY = 1e-9


class Panel(NamedTuple):
    """One map: its name, cells float32 `(rows, columns)`, -inf where masked, where its scale ends, is it signed?"""

    name: str
    cells: np.ndarray
    top: float
    signed: bool


@dataclass
class Screen:
    """All that is on a picture of a `view`, with what the page knows `about` its part.

    `panels` are maps side by side or, as `lines`, heads over each other; `labels` those of rows and columns ([]:
    numbers); `spans` the tokens that they stand for, first and end; `thumbnails` `(layers, h, r, c)` all heads small,
    in `columns`, each on a scale that ends at its `thumbnail_tops`; None where there is one head.
    """

    view: object
    about: dict
    title: str
    alt: str
    panels: list[Panel]
    lines: bool
    query: int
    scale: str
    labels: list[list[str]]
    spans: list[tuple[int, int]]
    value: str
    thumbnails: np.ndarray | None
    thumbnail_tops: np.ndarray | None
    thumbnails_signed: bool
    columns: int
    layer_names: list[str]


def on_screen(view) -> Screen:
    """Return what a HeadView shows: all heads small, and the chosen ones in their window, on the present scale."""
    about, blocks = view.parts[view.part], view._blocks
    lines = view.mode in ("lines", "across")
    sides, pairs = view.shown_sides(), view.shown_heads()
    names = [head_name(about, *pair) for pair in pairs]
    if lines and view.heads == "chosen":
        wanted = [(name, view.spec(sides[0], [pair])) for name, pair in zip(names, pairs, strict=True)]
    else:
        called = dict(zip(("a", "b", "difference"), (*view.sides, " − ".join(view.sides[::-1])), strict=False))
        wanted = [(called[side] or names[0], view.spec(side)) for side in sides]
    maps = [blocks.map_of(spec) for _, spec in wanted]
    first = maps[0][0]
    window = window_of(view.window, *first.cells.shape)
    scale, tops = view.scale_of([(shown.top, shown.signed) for shown, _ in maps])
    panels = [
        Panel(name, _in_sight(pyramid, window), top, shown.signed)
        for (name, _), (shown, pyramid), top in zip(wanted, maps, tops, strict=True)
    ]
    layers, heads, *_ = about["shape"]
    small = blocks.small(view.part, view.sample, sides[0]) if layers * heads > 1 else None
    own = about["kind"] in ("signed", "positive") and view.values == "weights"  # gradients, scores: whatever it was
    title = _title(view, about, names, lines)
    return Screen(
        view=view,
        about=about,
        title=title,
        alt=_alt(view, about, title, panels, scale),
        panels=panels,
        lines=lines,
        query=next((i for i, row in enumerate(first.rows) if view.query in row), 0) - window[0],
        scale=scale,
        labels=[_labels(view, first, axis, window[2 * axis : 2 * axis + 2]) for axis in (0, 1)],
        spans=[tuple(window[:2]), tuple(window[2:])],
        value="difference" if sides[0] == "difference" else "value" if own else _VALUES[view.values],
        thumbnails=small,
        thumbnail_tops=None if small is None else _tops(about, small, scale),
        thumbnails_signed=about["kind"] == "signed" or sides[0] == "difference",
        columns=math.ceil(math.sqrt(heads)) if layers == 1 else heads,
        layer_names=about["layer_names"] if about["named"] else [str(i) for i in range(layers)],
    )


def _alt(view, about: dict, title: str, panels: list[Panel], scale: str) -> str:
    """Return the text for readers who do not see the picture."""
    layers, heads, queries, keys = about["shape"]
    what = "Numbers" if about["kind"] == "signed" else "Attention weights"
    ends = [f"from {-panel.top if panel.signed else 0:.4g} to {panel.top:.4g}" for panel in panels]
    spaced = {"log": ", logarithmic", "root": " of square roots"}.get(scale, "")
    looks = {"map": "a heat map", "lines": "lines", "across": "lines", "text": "running text"}[view.mode]
    said = (
        f"{what} of {layers} layer{'s' * (layers > 1)} with {heads} head{'s' * (heads > 1)}, {queries} queries by "
        f"{keys} keys, on a scale {' and '.join(dict.fromkeys(ends))}{spaced}. In full, as {looks}: {title}"
    )
    if looks == "lines" and len(panels) > 1:
        said += f": {', '.join(panel.name for panel in panels[:8])}{', …' * (len(panels) > 8)}"
    if len(view.sides) > 1 and looks != "lines":
        said += f", {' beside '.join(panel.name for panel in panels)}"
    return f"{said}; what is in sight: {view.window}." if view.window else f"{said}."


def head_name(about: dict, layer: int, head: int) -> str:
    """Return what a head is called, as the page calls it."""
    alone = about["head_names"][head] if about["head_names"] else f"head {head}"
    return f"{about['layer_names'][layer]} {alone}" if about["shape"][0] > 1 or about["named"] else alone


def window_of(given: list, rows: int, columns: int) -> list[int]:
    """Return whole cells in sight, `[first row, end, first column, end]`, inside of a map."""
    if not given:
        return [0, rows, 0, columns]
    spans = []
    for start, end, size in ((*given[:2], rows), (*given[2:], columns)):
        first = max(0, min(math.floor(start), size - 1))
        spans += [first, max(first + 1, min(math.ceil(end), size))]
    return spans


def _in_sight(pyramid, window: list[int]) -> np.ndarray:
    longest = max(window[1] - window[0], window[3] - window[2])
    level = min(pyramid.levels - 1, max(0, math.ceil(math.log2(longest / _MOST_CELLS))))
    first, end, left, right = window
    return pyramid.level(level)[first >> level : -(-end >> level), left >> level : -(-right >> level)]


def _tops(about: dict, small: np.ndarray, scale: str) -> np.ndarray:
    """Return where the scale of each head of the overview ends."""
    if scale != "maximum" and about["kind"] not in ("signed", "positive"):
        return np.ones(small.shape[:2], np.float32)
    finite = np.where(np.isfinite(small), np.abs(small), 0)
    return np.maximum(finite.max((-2, -1)), _TINY).astype(np.float32)


def _labels(view, shown, axis: int, span: list[int]) -> list[str]:
    groups = (shown.columns if axis else shown.rows)[span[0] : span[1]]
    plain = all(group == [place] for group, place in zip(groups, range(*span), strict=True))
    return [] if plain and not view.labels_shown(axis) else view.beside(groups, axis)


def _title(view, about: dict, names: list[str], lines: bool) -> str:
    part = f"{about['name']}, " if about["name"] else ""
    if view.heads != "chosen":
        of = f" of {about['layer_names'][view.layer]}" if view.heads == "layer" else ""
        return f"{part}{_PREFIXES[view.values]}{view.combine} of all {len(names)} heads{of}"
    if len(names) > 1:
        said = f"{len(names)} heads" if lines or len(names) > 3 else ", ".join(names)
        return part + _PREFIXES[view.values] + (said if lines else f"{view.combine} of {said}")
    return part + _PREFIXES[view.values] + names[0]

"""What is on the screen of a HeadView at the moment, for pictures of it: maps in their window, labels, overview."""

import math

import numpy as np

from headview.head_view.drawn import Drawn, Panel
from mhalib.plots import COLOUR_MAPS

_MOST_CELLS = 1024  # along a side of a picture; longer maps are given pooled
_PREFIXES = {"weights": "", "values": "value-weighted ", "rollout": "rollout up to "}
_VALUES = {"weights": "attention weight", "values": "weight × length of the value", "rollout": "rollout"}
_TINY = 1e-9


def drawn_of(view) -> Drawn:
    """Return what a HeadView shows: the overview, and the chosen heads in their window, on the present scale."""
    about, blocks = view.parts[view.part], view._blocks
    lines = view.mode in ("lines", "across")
    sides = view.shown_sides()
    pairs = view.shown_heads()
    names = [head_name(about, *pair) for pair in pairs]
    if lines and view.heads == "chosen":
        wanted = [(name, view.spec(sides[0], [pair])) for name, pair in zip(names, pairs, strict=True)]
    else:
        called = dict(zip(("a", "b"), view.sides, strict=False)) | {"difference": "difference"}
        wanted = [(called[side] or names[0], view.spec(side)) for side in sides]
    first, _ = blocks.map_of(wanted[0][1])
    window = window_of(view.window, *first.cells.shape)
    panels = []
    for name, spec in wanted:
        shown, pyramid = blocks.map_of(spec)
        cells = _in_sight(pyramid, window)
        panels.append(Panel(name, cells, _top_of(view, about, shown), shown.signed))
    labels = [_labels(view, about, first, axis, window[2 * axis : 2 * axis + 2]) for axis in (0, 1)]
    many = about["shape"][0] * about["shape"][1] > 1
    side = sides[0]
    small = blocks.small(view.part, view.sample, side) if many else None
    title = _title(view, about, names, lines)
    return Drawn(
        title=title,
        alt=_alt(view, about, title, panels),
        panels=panels,
        mode="lines" if lines else "map",
        scale=view.scale,
        colour_map=view.colours if view.colours in COLOUR_MAPS else COLOUR_MAPS[0],
        row_labels=labels[0],
        column_labels=labels[1],
        row_span=tuple(window[:2]),
        column_span=tuple(window[2:]),
        axes=tuple(about["axes"]),
        value=_value(view, about, side),
        thumbnails=small,
        thumbnail_tops=_tops(view, about, small),
        thumbnails_signed=about["kind"] == "signed" or side == "difference",
        chosen=[(view.layer, view.head), *(tuple(pair) for pair in pairs if pair != [view.layer, view.head])],
        layer_names=about["layer_names"] if about["named"] else [],
        head_names=about["head_names"],
    )


def _value(view, about: dict, side: str) -> str:
    """Return what a number of the picture is."""
    if side == "difference":
        return "difference"
    own = about["kind"] in ("signed", "positive") and view.values == "weights"  # gradients, scores: whatever it was
    return "value" if own else _VALUES[view.values]


def _alt(view, about: dict, title: str, panels: list[Panel]) -> str:
    """Return the text for readers who do not see the picture."""
    layers, heads, queries, keys = about["shape"]
    what = "Numbers" if about["kind"] == "signed" else "Attention weights"
    ends = [f"from {-panel.top if panel.signed else 0:.4g} to {panel.top:.4g}" for panel in panels]
    spaced = {"log": ", logarithmic", "root": " of square roots"}.get(view.scale, "")
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
    cells, _ = pyramid.level(level)
    return cells[first >> level : -(-end >> level), left >> level : -(-right >> level)]


def _top_of(view, about: dict, shown) -> float:
    most = max(shown.top, _TINY)
    return (
        most if view.scale == "maximum" or about["kind"] in ("signed", "positive") or view.values == "values" else 1.0
    )


def _tops(view, about: dict, small: np.ndarray | None) -> np.ndarray | None:
    if small is None or not (view.scale == "maximum" or about["kind"] in ("signed", "positive")):
        return None
    finite = np.where(np.isfinite(small), np.abs(small), 0)
    return np.maximum(finite.max((-2, -1)), _TINY)


def _labels(view, about: dict, shown, axis: int, span: list[int]) -> list[str]:
    labels = view.key_tokens if axis else view.tokens
    groups = (shown.columns if axis else shown.rows)[span[0] : span[1]]
    plain = all(group == [place] for group, place in zip(groups, range(*span), strict=True))
    if not labels and plain:
        return []
    names = labels or list(map(str, range(about["shape"][2 + axis])))
    return ["".join(names[token] for token in group) for group in groups]


def _title(view, about: dict, names: list[str], lines: bool) -> str:
    part = f"{about['name']}, " if about["name"] else ""
    if view.heads != "chosen":
        of = f" of {about['layer_names'][view.layer]}" if view.heads == "layer" else ""
        return f"{part}{_PREFIXES[view.values]}{view.combine} of all {len(names)} heads{of}"
    if len(names) > 1:
        said = f"{len(names)} heads" if lines or len(names) > 3 else ", ".join(names)
        return part + _PREFIXES[view.values] + (said if lines else f"{view.combine} of {said}")
    return part + _PREFIXES[view.values] + names[0]

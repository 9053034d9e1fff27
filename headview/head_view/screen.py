"""What is on the screen of a HeadView at the moment, said for a picture: maps in their window, labels, all heads."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headview.head_view.labels import in_text, visible
from headview.head_view.pyramid import tops_of

_MOST_CELLS = 1024  # along a side of a picture; longer maps are given pooled
_PREFIXES = {"weights": "", "values": "value-weighted ", "rollout": "rollout up to "}
_VALUES = {"weights": "attention weight", "values": "weight × length of the value", "rollout": "rollout"}
_LOOKS = {"map": "a heat map", "lines": "lines", "across": "lines across", "text": "text"}
_MOST_TOKENS = 400  # of a text
_TINY = 1e-9
_LONGEST = 16  # characters of a label that is said with others


class Run(NamedTuple):
    """Running text: queries (axis 0) or keys, the numbers of the tokens, float32, or None where they have no colour.

    `chosen` is the place of the token from or to which the numbers are, `other` that of the cursor's other token; -1
    where it is not in sight.
    """

    axis: int
    tokens: list[str]
    numbers: np.ndarray | None
    chosen: int
    other: int


class Panel(NamedTuple):
    """One map: its name, cells float32 `(rows, columns)`, -inf where masked, where its scale ends, is it signed?

    `labels` are those of its rows and columns ([]: numbers); `chosen` says the cell of the cursor; `runs` are the same
    as text.
    """

    name: str
    cells: np.ndarray
    top: float
    signed: bool
    labels: list[list[str]]
    chosen: str
    runs: list[Run]


@dataclass
class Screen:
    """All that is on a picture of a `view`, with what the page knows `about` its part.

    `panels` are maps side by side or, as `lines`, heads over each other; `spans` the rows and columns in sight, first
    and end; `rows` those of the chosen queries and `cursor` the chosen cell, counted from there; `thumbnails` `(layers,
    h, r, c)` all heads small, in `columns`, each on a scale that ends at its `thumbnail_tops`, as the
    `thumbnail_scale` has it; None where there is one head.
    """

    view: object
    about: dict
    title: str
    alt: str
    panels: list[Panel]
    lines: bool
    rows: list[int]
    cursor: tuple[int, int]
    scale: str
    spans: list[tuple[int, int]]
    value: str
    thumbnails: np.ndarray | None
    thumbnail_tops: np.ndarray | None
    thumbnail_scale: str
    columns: int


def on_screen(view) -> Screen:
    """Return what a HeadView shows: all heads small, and the chosen ones in their window, on the present scale."""
    about, blocks = view.parts[view.part], view._blocks
    lines = view.mode in ("lines", "across")
    sides, pairs = view.shown_sides(), view.shown_heads()
    names = [head_name(about, *pair) for pair in pairs]
    called = dict(zip(("a", "b", "difference"), (*view.sides, " − ".join(view.sides[::-1])), strict=False))
    if lines and len(sides) == 3:  # over each other: the difference is seen between those of both
        sides = sides[:2]
    each = [(name, [pair]) for name, pair in zip(names, pairs, strict=True)]
    each = each if lines and view.heads == "chosen" else [("", pairs)]
    wanted = [(side, ": ".join(filter(None, (called[side], name))), heads) for side in sides for name, heads in each]
    maps = [blocks.map_of(view.spec(side, heads)) for side, _, heads in wanted]
    first = maps[0][0]
    window = window_of(view.window, *first.cells.shape)
    scale, tops = view.scale_of([(shown.top, shown.signed) for shown, _ in maps])
    cursor = place_of(first.rows, view.query), place_of(first.columns, view.key)
    panels = []
    for (side, name, _), (shown, pyramid), top in zip(wanted, maps, tops, strict=True):
        own = view.side if lines else side  # what lies over each other has one label for both sides
        labels = [_labels(view, shown, axis, window[2 * axis : 2 * axis + 2], own) for axis in (0, 1)]
        cell = _cell(view, shown, cursor, own)
        runs = _runs(view, shown, window, side) if view.mode == "text" else []
        panels.append(Panel(name, _in_sight(pyramid, window), top, shown.signed, labels, cell, runs))
    layers, heads, *_ = about["shape"]
    known = sides[0] != "difference" or blocks.has_differences(view.part)  # of too many there is no difference
    small = blocks.small(view.part, view.sample, sides[0]) if layers * heads > 1 and known else None
    small_scale, small_tops = (scale, None) if small is None else _scale_of_all(view, small, first.signed)
    own = about["kind"] in ("signed", "positive") and view.values == "weights"  # gradients, scores: whatever it was
    title = _title(view, about, names, lines)
    return Screen(
        view=view,
        about=about,
        title=title,
        alt=_alt(view, about, title, panels, scale),
        panels=panels,
        lines=lines,
        rows=sorted({place_of(first.rows, query) - window[0] for query in (view.query, *view.rows)}),
        cursor=(cursor[0] - window[0], cursor[1] - window[2]),
        scale=scale,
        spans=[tuple(window[:2]), tuple(window[2:])],
        value="difference" if sides[0] == "difference" else "value" if own else _VALUES[view.values],
        thumbnails=small,
        thumbnail_tops=small_tops,
        thumbnail_scale=small_scale,
        columns=math.ceil(math.sqrt(heads)) if layers == 1 else heads,
    )


def _alt(view, about: dict, title: str, panels: list[Panel], scale: str) -> str:
    """Return the text for readers who do not see the picture."""
    layers, heads, queries, keys = about["shape"]
    what = "Numbers" if about["kind"] == "signed" else "Attention weights"
    ends = [f"from {-panel.top if panel.signed else 0:.4g} to {panel.top:.4g}" for panel in panels]
    spaced = {"log": ", logarithmic", "root": " of square roots"}.get(scale, "")
    said = (
        f"{what} of {layers} layer{'s' * (layers > 1)} with {heads} head{'s' * (heads > 1)}, {queries} queries by "
        f"{keys} keys, on a scale {' and '.join(dict.fromkeys(ends))}{spaced}. In full, as {_LOOKS[view.mode]}: {title}"
    )
    lines = view.mode in ("lines", "across")
    if lines and len(panels) > 1:
        said += f": {', '.join(panel.name for panel in panels[:8])}{', …' * (len(panels) > 8)}"
    if len(view.sides) > 1 and not lines:
        said += f", {' beside '.join(panel.name for panel in panels)}"
    said += f"; what is in sight: {view.window}" * bool(view.window)
    return f"{said}; chosen: {', '.join(dict.fromkeys(panel.chosen for panel in panels[:3]))}."


def head_name(about: dict, layer: int, head: int) -> str:
    """Return what a head is called, as the page calls it."""
    alone = about["head_names"][head] if about["head_names"] else f"head {head}"
    return f"{about['layer_names'][layer]} {alone}" if about["shape"][0] > 1 or about["named"] else alone


def window_of(given: list, rows: int, columns: int) -> list[int]:
    """Return whole cells in sight, `[first row, end, first column, end]`, inside of a map."""
    spans, given = [], given or [0, rows, 0, columns]
    for start, end, size in ((*given[:2], rows), (*given[2:], columns)):
        first = max(0, min(math.floor(start), size - 1))
        spans += [first, max(first + 1, min(math.ceil(end), size))]
    return spans


def _in_sight(pyramid, window: list[int]) -> np.ndarray:
    longest = max(window[1] - window[0], window[3] - window[2])
    level = min(pyramid.levels - 1, max(0, math.ceil(math.log2(longest / _MOST_CELLS))))
    (first, end, left, right), (down, across) = window, pyramid.block(level)
    return pyramid.level(level)[first // down : -(-end // down), left // across : -(-right // across)]


def _scale_of_all(view, small: np.ndarray, signed: bool) -> tuple[str, np.ndarray]:
    """Return the scale of the overview, and where that of each of its heads ends."""
    tops = tops_of(small)
    scale, (top,) = view.scale_of([(float(tops.max()), signed)])
    own = scale == "maximum" or view.parts[view.part]["kind"] in ("signed", "positive")
    return scale, np.maximum(tops, _TINY) if own else np.full_like(tops, top)


def place_of(groups: list[list[int]], token: int) -> int:
    """Return the row or column that holds a token; the nearest one where it is hidden, as on the page."""
    return max(0, bisect_right(groups, token, key=lambda group: group[0]) - 1)


def _cell(view, shown, cursor: tuple[int, int], side: str) -> str:
    """Say a cell of a map, such as "it → animal: 0.65"."""
    groups = zip((shown.rows, shown.columns), cursor, strict=True)
    names = [view.beside([group[at]], axis, side)[0] for axis, (group, at) in enumerate(groups)]
    query, key = (in_text(visible(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")) for name in names)
    number = shown.cells[cursor]
    said = "masked" if np.isneginf(number) else f"{number:.4g}".replace("-", "−")
    return f"{query} → {key}: {said}"


def _labels(view, shown, axis: int, span: list[int], side: str) -> list[str]:
    groups = (shown.columns if axis else shown.rows)[span[0] : span[1]]
    plain = all(group == [place] for group, place in zip(groups, range(*span), strict=True))
    return [] if plain and not view.labels_shown(axis, side) else view.beside(groups, axis, side)


def _runs(view, shown, window: list[int], side: str) -> list[Run]:
    """Return a map as text: one where queries and keys are the same, else both; of many tokens those at the cursor."""
    front, groups = int(view.direction == "to"), (shown.rows, shown.columns)
    cursor = place_of(shown.rows, view.query), place_of(shown.columns, view.key)
    rows = shown.cells[sorted({place_of(shown.rows, query) for query in (view.query, *view.rows)})]
    masked = np.isneginf(rows)
    row = np.where(masked.all(0), -np.inf, np.where(masked, 0, rows).sum(0))
    numbers = shown.cells[:, cursor[1]] if front else row
    tokens, runs = [view.beside(group, axis, side) for axis, group in enumerate(groups)], []
    same = tokens[0] == tokens[1]
    for axis in [front] if same else [0, 1]:
        first, end = window[2 * axis : 2 * axis + 2]
        first = max(first, min(cursor[axis] - _MOST_TOKENS // 2, end - _MOST_TOKENS))
        end = min(end, first + _MOST_TOKENS)
        marks = (cursor[axis], cursor[1 - axis] if same else -1) if axis == front else (-1, cursor[axis])
        places = [at - first if first <= at < end else -1 for at in marks]
        runs.append(Run(axis, tokens[axis][first:end], numbers[first:end] if same or axis != front else None, *places))
    return runs


def _title(view, about: dict, names: list[str], lines: bool) -> str:
    part = f"{about['name']}, " if about["name"] else ""
    if view.heads != "chosen":
        of = f" of {about['layer_names'][view.layer]}" if view.heads == "layer" else ""
        return f"{part}{_PREFIXES[view.values]}{view.combine} of all {len(names)} heads{of}"
    if len(names) > 1:
        said = f"{len(names)} heads" if lines or len(names) > 3 else ", ".join(names)
        return part + _PREFIXES[view.values] + (said if lines else f"{view.combine} of {said}")
    return part + _PREFIXES[view.values] + names[0]

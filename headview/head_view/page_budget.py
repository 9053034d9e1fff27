"""What a page without a kernel carries of a HeadView: the blocks that are needed first, as far as a budget goes."""

import json
import math
import zlib

from headview.head_view.neuron import has_neurons
from headview.head_view.pyramid import TILE
from headview.head_view.serve import Answer, Blocks

_FACTS_UP_TO = 256  # heads whose facts a page always carries
_AS_TEXT = 4 / 3  # bytes of a page for one that it carries


def carried(
    blocks: Blocks,
    spec: dict,
    samples: list[int],
    budget: int | float,
    sorts: bool = False,
    chosen: tuple[int, int] | None = None,
    query: int = 0,
    key: int = 0,
) -> tuple[dict[str, Answer], str]:
    """Return the blocks that fit into a budget, by their keys, and a sentence on what was left out, if any.

    What is on screen comes first: its sample, all heads small, the picture under its tokens, the levels of its map from
    the coarsest to the finest, the queries and keys of the chosen head, then the other samples and parts.

    Args:
        blocks: where they come from.
        spec: what is on screen.
        samples: how many there are of each part.
        budget: bytes of the page, packed, beside the view itself.
        sorts: are the heads sorted by their facts? Those of few heads come in any case.
        chosen: layer and head whose queries and keys to take along; those of the map when left out.
        query: whose row to take along exactly, where the map does not travel in full.
        key: of the cell in that row that is taken along of all heads.
    """
    packed: dict[str, Answer] = {}
    sizes: dict[str, float] = {}  # of each in the page; as if it could not be packed, until that matters
    weighed: set[str] = set()

    def weigh(key: str) -> None:
        if key not in weighed:
            weighed.add(key)
            said, data = packed[key]
            sizes[key] = len(zlib.compress(data, 1)) * _AS_TEXT + len(json.dumps(said))

    def take(key: str) -> bool:
        if key in packed:
            return True
        packed[key] = said, data = blocks.answer(key)
        sizes[key] = len(data) * _AS_TEXT + len(json.dumps(said))
        if sum(sizes.values()) > budget:
            for other in packed:
                weigh(other)
        if sum(sizes.values()) <= budget:
            return True
        del packed[key], sizes[key]
        weighed.discard(key)
        return False

    part, sample = spec["part"], spec["sample"]
    left = []
    first = all([take(key) for key in blocks.first(part, sample)])
    if blocks.parts[part].values is not None:
        take(f"norms {part} {sample} a")
    if not first and blocks.is_whole(part):
        for block in blocks.first(part, sample):  # one side alone shows nothing
            packed.pop(block, None), sizes.pop(block, None)
        for side in blocks.sides:
            take(f"overview {part} {sample} {side}")
    if blocks.parts[part].picture is not None and not take(f"image {part}"):
        left.append("the picture did not fit")
    if not (first and blocks.is_whole(part)):
        if spec["side"] == "difference" and blocks.has_differences(part):
            take(f"overview {part} {sample} difference")
        shown, _ = blocks.map_of(spec)
        row = next((i for i, tokens in enumerate(shown.rows) if query in tokens), 0)
        take(f"row {row} {_as_page(spec)}")
        take(f"cell {part} {sample} {'b' if spec['side'] == 'b' else 'a'} {query} {key}")
        level = _take_levels(take, blocks, spec)
        rest = "all heads are here, shrunk to what the overview shows"
        left.append(f"{rest}; of the chosen one, {_level_name(level)}")
    if sorts or math.prod(blocks.parts[part].shape[:2]) <= _FACTS_UP_TO:
        shown = [spec["side"]] if spec["side"] == "difference" else list(blocks.sides)
        for side in shown:
            take(f"facts {part} {sample} {side}")
    left += _take_neurons(take, blocks, spec, chosen or spec["heads"][0])
    left += _take_reasons(take, blocks, chosen or spec["heads"][0])
    others = [(p, s) for p, count in enumerate(samples) for s in range(count) if (p, s) != (part, sample)]
    missing = [place for place in others if not all([take(key) for key in _needed(blocks, *place)])]
    if missing:
        left.append(f"{len(missing)} of {len(others) + 1} samples and parts did not fit")
    if not left:
        return packed, ""
    what = "; ".join(left)
    weight = f"{sum(sizes.values()) / 1e6:.2g} of at most {budget / 1e6:.3g} MB"
    more = "save(path, megabytes=…) lets a page carry more, and a notebook with a kernel shows all"
    return packed, f"The numbers in this page take {weight}: {what}; {more}. "


def _needed(blocks: Blocks, part: int, sample: int) -> list[str]:
    """Return the keys of what a part cannot be shown without."""
    image = [] if blocks.parts[part].picture is None else [f"image {part}"]
    return blocks.first(part, sample) + image


def _take_neurons(take, blocks: Blocks, spec: dict, chosen: tuple[int, int]) -> list[str]:
    """Take the queries and keys of the chosen head on both sides; return what to say where they do not fit."""
    part, sample, (layer, head) = spec["part"], spec["sample"], chosen
    sides = [side for side, parts in blocks.sides.items() if has_neurons(parts[part])]
    keys = [f"neurons {part} {sample} {side} {layer} {head}" for side in sides]
    return [] if all([take(key) for key in keys]) else ["the queries and keys of the head did not fit"]


def _take_reasons(take, blocks: Blocks, chosen: tuple[int, int]) -> list[str]:
    """Take what the scores of each head are made of, the chosen one first; return what to say where it does not fit."""
    first = "why {} {}".format(*chosen)
    fits = [take(key) for key in sorted(blocks.reasons(), key=lambda key: key != first)]
    return [] if all(fits) else [f"what the scores of {fits.count(False)} heads are made of did not fit"]


def _take_levels(take, blocks: Blocks, spec: dict) -> int | None:
    """Take the levels of one map, coarse ones first; return the finest that is there in full."""
    _, pyramid = blocks.map_of(spec)
    key, full = _as_page(spec), None
    for level in reversed(range(pyramid.levels)):
        rows, columns = (math.ceil(size / TILE) for size in pyramid.level(level).shape)
        for row in range(rows):
            for column in range(columns):
                if not take(f"tile {level} {row} {column} {key}"):
                    return full
        full = level
    return full


def _as_page(spec: dict) -> str:
    """Return a spec as the page writes it."""
    return json.dumps(spec, separators=(",", ":"), ensure_ascii=False)


def _level_name(level: int | None) -> str:
    if level is None:
        return "no more than that"
    return "every weight" if level == 0 else f"one dot for {2**level} × {2**level} weights"

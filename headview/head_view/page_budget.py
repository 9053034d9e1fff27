"""What a page without a kernel carries of a HeadView: the blocks that are needed first, as far as a budget goes."""

import functools
import json
import math
import zlib
from itertools import product

from headview.head_view.neuron import has_neurons
from headview.head_view.pyramid import TILE
from headview.head_view.screen import place_of
from headview.head_view.serve import Answer, Blocks

_FACTS_UP_TO = 256  # heads whose facts a page always carries, for a reader who sorts them there
_AS_TEXT = 4 / 3  # bytes of a page for one that it carries


class _Page:
    """Blocks by their keys, as many as fit into so many bytes."""

    def __init__(self, blocks: Blocks, budget: int | float):
        self.blocks, self.budget = blocks, budget
        self.packed: dict[str, Answer] = {}
        self.sizes: dict[str, float] = {}  # as if nothing could be packed, until that matters
        self._packed_size = functools.cache(self._packed_size)

    def take(self, *keys: str) -> bool:
        """Take those blocks that fit; do all of them?"""
        return all([self._take(key) for key in keys])

    def _take(self, key: str) -> bool:
        if key in self.packed:
            return True
        self.packed[key] = said, data = self.blocks.answer(key)
        self.sizes[key] = len(data) * _AS_TEXT + len(json.dumps(said))
        if sum(self.sizes.values()) > self.budget:
            self.sizes = {each: self._packed_size(each) for each in self.packed}
        if sum(self.sizes.values()) > self.budget:
            self.drop(key)
        return key in self.packed

    def drop(self, *keys: str) -> None:
        for key in keys:
            self.packed.pop(key, None)
            self.sizes.pop(key, None)

    def _packed_size(self, key: str) -> float:
        said, data = self.packed[key]
        return len(zlib.compress(data, 1)) * _AS_TEXT + len(json.dumps(said))


def carried(view, budget: int | float) -> tuple[dict[str, Answer], str]:
    """Return the blocks of a HeadView that fit into so many packed bytes, by their keys, and what was left out.

    What is on screen comes first: its sample, all heads small, the picture under its tokens, the levels of its map from
    the coarsest to the finest, the queries and keys of the chosen head, then the other samples and parts.
    """
    blocks, spec, page, left = view._blocks, view.spec(), _Page(view._blocks, budget), []
    part, sample, side = view.part, view.sample, spec["side"]
    of, first = blocks.parts[part], blocks.first(part, sample)
    fits = page.take(*first)
    if not fits and blocks.exact:  # some digits of all heads say more than all digits of one
        rounded = Blocks(blocks.sides, False, blocks.measures, blocks.why)
        other = _Page(rounded, budget)
        if rounded.is_whole(part) and other.take(*first):
            blocks, page, fits = rounded, other, True
            left.append("all digits did not fit, so they are rounded")
    if of.values is not None:
        page.take(f"norms {part} {sample} a")
    whole = fits and blocks.is_whole(part)
    if not fits and blocks.is_whole(part):
        page.drop(*first)  # one side alone shows nothing
        page.take(*(f"overview {part} {sample} {each}" for each in blocks.sides))
    if of.picture is not None and not page.take(f"image {part}"):
        left.append("the picture did not fit")
    if not whole:
        if side == "difference" and blocks.has_differences(part):
            page.take(f"overview {part} {sample} difference")
        shown, _ = blocks.map_of(spec)
        page.take(f"row {place_of(shown.rows, view.query)} {_as_page(spec)}")
        page.take(f"cell {part} {sample} {'b' if side == 'b' else 'a'} {view.query} {view.key}")
        level = _take_levels(page, spec)
        left.append(f"all heads are here, shrunk to what the overview shows; of the chosen one, {level}")
    if view.order != "model" or math.prod(of.shape[:2]) <= _FACTS_UP_TO:
        page.take(*(f"facts {part} {sample} {each}" for each in ([side] if side == "difference" else blocks.sides)))
    having = [each for each, parts in blocks.sides.items() if has_neurons(parts[part])]
    if not page.take(*(f"neurons {part} {sample} {each} {view.layer} {view.head}" for each in having)):
        left.append("the queries and keys of the head did not fit")
    chosen = f"why {view.layer} {view.head}"
    missing = [key for key in sorted(blocks.reasons(), key=lambda key: key != chosen) if not page.take(key)]
    if missing:
        left.append(f"what the scores of {len(missing)} heads are made of did not fit")
    places = [(p, s) for p, each in enumerate(blocks.parts) for s in range(each.samples) if (p, s) != (part, sample)]
    fit = [page.take(*blocks.first(p, s), *[f"image {p}"] * bool(blocks.parts[p].picture)) for p, s in places]
    if not all(fit):
        left.append(f"{fit.count(False)} of {len(places) + 1} samples and parts did not fit")
    if not left:
        return page.packed, ""
    weight = f"{sum(page.sizes.values()) / 1e6:.2g} of at most {budget / 1e6:.3g} MB"
    more = "save(path, megabytes=…) lets a page carry more, and a notebook with a kernel shows all"
    return page.packed, f"The numbers in this page take {weight}: {'; '.join(left)}; {more}. "


def _take_levels(page: _Page, spec: dict) -> str:
    """Take the levels of one map, coarse ones first, and say the finest that is there in full."""
    _, pyramid = page.blocks.map_of(spec)
    said = "no more than that"
    for level in reversed(range(pyramid.levels)):
        rows, columns = (math.ceil(size / TILE) for size in pyramid.level(level).shape)
        for row, column in product(range(rows), range(columns)):
            if not page.take(f"tile {level} {row} {column} {_as_page(spec)}"):
                return said
        said = f"one dot for {' × '.join(map(str, pyramid.block(level)))} weights" if level else "every weight"
    return said


def _as_page(spec: dict) -> str:
    """Return a spec as the page writes it."""
    return json.dumps(spec, separators=(",", ":"), ensure_ascii=False)

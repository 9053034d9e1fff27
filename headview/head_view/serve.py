"""The blocks of bytes behind a HeadView: all heads small, tiles of the map that is looked at, single rows exactly.

A page asks for what comes into sight by a key, a line of text; a page without a kernel carries some of them. The keys,
and what the bytes of each kind hold:

    whole PART SAMPLE SIDE          float32 tops (layers, h), then the codes of all weights (layers, h, Tq, Tk)
    overview PART SAMPLE SIDE       float32 tops, then uint8 codes (layers, h, rows, columns)
    norms PART SAMPLE a             float32 (layers, h, Tk): how long the value vectors are
    facts PART SAMPLE SIDE          no bytes: the measures of the heads by their names (None: nothing to say), notes on
                                    some, their order by likeness, the group of each (none of more than 2,048 heads)
    cell PART SAMPLE SIDE QUERY KEY    float32 (layers, h): one cell of all heads
    tile LEVEL ROW COLUMN SPEC      float32 the largest size in the tile, then its codes of two bytes
    row ROW SPEC                    float32, one row of the map
    image PART                      uint8 (H, W, 3): the picture under the tokens
    neurons PART SAMPLE SIDE LAYER HEAD    all queries and keys of a head (neuron.py)
    why LAYER HEAD                  what each source brought into them (neuron.py)
"""

import functools
import json
import math
from collections import OrderedDict
from contextlib import suppress

import numpy as np
import torch

from headview.head_view.codes import encode, pack, storage_for
from headview.head_view.combine import Shown, compute, exact_row, head_cells, is_signed, norms, overviews, whole
from headview.head_view.inputs import Part
from headview.head_view.likeness import order_by_likeness
from headview.head_view.measures import measures_of
from headview.head_view.neuron import neurons, reasons
from headview.head_view.pyramid import Pyramid, overview
from headview.sources import Sources
from mhalib.arguments import torch_threads

WHOLE_UP_TO = 4_000_000  # weights of a part that travel at once; of more, what is in sight
EXACT_UP_TO = 40_000_000  # the same where all digits were asked for
_OVERVIEW_BYTES = 2_500_000
_THUMB = 92  # cells along a side of a head in the overview: no more than pixels
_KEPT_CELLS = 150_000_000  # of the maps that are kept, three small ones or one of 8,192 x 8,192
_ALIKE = 24  # cells along a side of a head: enough to tell alike heads from others, and quickly made
_ALIKE_UP_TO = 2_048  # heads that are sorted by likeness: it takes all their distances
_SIGNED_EXACT_UP_TO = 500_000
_REASONS_UP_TO = 400_000  # bytes
_DIFFERENCES_UP_TO = 40_000_000  # weights whose differences are made for the overview

Answer = tuple[dict, bytes]


class Blocks:
    """Make blocks by their keys, from the parts of one or two sides."""

    def __init__(
        self, sides: dict[str, list[Part]], exact: bool, measures: dict | None = None, why: Sources | None = None
    ):
        self.sides, self.exact, self.measures, self.why = sides, exact, measures or {}, why
        self.parts = sides["a"]
        self._maps: OrderedDict[str, tuple[Shown, Pyramid]] = OrderedDict()
        self.small = functools.cache(self.small)  # asked for by the first look, the page and the picture
        self._whole = functools.lru_cache(len(sides))(self._whole)  # a page is often written after a view was shown

    # ------------------------------------------------------------ what is there

    def is_whole(self, number: int) -> bool:
        """Does a part travel at once?"""
        return math.prod(self.parts[number].shape) <= (EXACT_UP_TO if self.exact else WHOLE_UP_TO)

    def first(self, number: int, sample: int) -> list[str]:
        """Return the keys of what a view needs before it can show a part."""
        whole = self.is_whole(number)
        keys = [f"{'whole' if whole else 'overview'} {number} {sample} {side}" for side in self.sides]
        return keys + [f"overview {number} {sample} difference"] * (whole and self.has_differences(number))

    def at_once(self) -> dict[str, Answer]:
        """Return the blocks that a view begins with; what its scores are made of as well where that is little."""
        found = {key: self.answer(key) for key in self.first(0, 0)}
        why = self.reasons()
        few = why and len(self.answer(why[0])[1]) * len(why) <= _REASONS_UP_TO
        return found | {key: self.answer(key) for key in (why if few else [])}

    def reasons(self) -> list[str]:
        """Return the keys of what the scores are made of, of all layers whose scores can be split."""
        found = []
        for layer, (heads, *_) in enumerate(self.why.shapes if self.why else ()):
            with suppress(ValueError):  # the panel says why it cannot
                self.answer(f"why {layer} 0")
                found += [f"why {layer} {head}" for head in range(heads)]
        return found

    def answer(self, key: str) -> Answer:
        """Return a block: what is said of its bytes, and these."""
        kind, rest = key.split(" ", 1)
        return getattr(self, f"_{kind}")(rest)  # a method below for each kind of key

    # ------------------------------------------------------------ all heads

    def _place(self, text: str) -> tuple[int, int, str]:
        part, sample, side = text.split()
        return int(part), int(sample), side

    def _whole(self, text: str) -> Answer:
        part, sample, side = self._place(text)
        given, count = self.sides[side][part], math.prod(self.parts[part].shape)
        # Two bytes of signed numbers, which may be of any size, do not hold the four digits that are shown.
        few = given.kind == "signed" and count <= _SIGNED_EXACT_UP_TO
        storage = storage_for(count, self.exact or few)
        codes, tops = whole(given, sample, storage)
        return {"storage": storage}, tops + codes

    def _overview(self, text: str) -> Answer:
        part, sample, side = self._place(text)
        small = self.small(part, sample, side)
        codes, tops = encode(small, "uint8", signed=is_signed(self.parts[part], {"side": side}))
        return {"rows": small.shape[2], "columns": small.shape[3]}, tops.tobytes() + codes.tobytes()

    def small(self, part: int, sample: int, side: str) -> np.ndarray:
        """Return all heads shrunk, float32 `(layers, h, rows, columns)`; kept."""
        given = self.sides["a" if side == "difference" else side][part]
        most = max(8, min(_THUMB, math.isqrt(_OVERVIEW_BYTES // math.prod(given.shape[:2]))))
        other = self.sides["b"][part] if side == "difference" else None
        if other is not None and not self.has_differences(part):
            raise ValueError("so many weights are compared head by head only")
        return overviews(given, sample, most, other)

    def has_differences(self, part: int) -> bool:
        """Are there two sides, and are they small enough for all their differences?"""
        return "b" in self.sides and math.prod(self.parts[part].shape) <= _DIFFERENCES_UP_TO

    def _norms(self, text: str) -> Answer:
        part, sample, side = self._place(text)
        return {}, norms(self.sides[side][part], sample).astype("<f4").tobytes()

    @torch_threads(1)
    def _facts(self, text: str) -> Answer:
        part, sample, side = self._place(text)
        small = torch.from_numpy(self.small(part, sample, side))
        heads = overview(small.flatten(0, 1), _ALIKE, signed=True)  # as without signs, but all heads in one pass
        order, groups = order_by_likeness(heads) if len(heads) <= _ALIKE_UP_TO else (np.zeros(0), np.zeros(0))
        found, notes = measures_of(self.sides["a" if side == "difference" else side][part], sample, self.measures)
        numbers = {
            name: [None if np.isnan(x) else round(float(x), 4) for x in each.ravel()] for name, each in found.items()
        }
        return {"measures": numbers, "notes": notes, "likeness": order.tolist(), "groups": groups.tolist()}, b""

    def _cell(self, text: str) -> Answer:
        place, query, key = text.rsplit(" ", 2)
        part, sample, side = self._place(place)
        given, row = self.sides[side][part], torch.tensor([int(query)])
        cells = [head_cells(given, sample, i, queries=row)[:, 0, int(key)].numpy() for i in range(len(given.layers))]
        return {}, np.stack(cells).astype("<f4").tobytes()

    def first_head(self, by: str, part: int, sample: int) -> tuple[int, int]:
        """Return layer and head that stand first by a measure or "likeness", as `order.js` sorts; 0, 0 without any."""
        facts, _ = self.answer(f"facts {part} {sample} a")
        numbers = np.array(facts["measures"].get(by, []), float) * (-1 if by == "entropy" else 1)
        first = facts["likeness"][:1] if by == "likeness" else np.argsort(-numbers, kind="stable")[:1]
        layer, head = divmod(int(first[0]) if len(first) else 0, self.parts[part].shape[1])
        return layer, head

    # ------------------------------------------------------------ one map

    def map_of(self, spec: dict) -> tuple[Shown, Pyramid]:
        """Return the map of a spec and its pyramid; the last ones are kept."""
        key = json.dumps(spec)
        if key not in self._maps:
            shown = self.shown(spec)
            self._maps[key] = shown, Pyramid(shown.cells, shown.signed)
        self._maps.move_to_end(key)
        while len(self._maps) > 1 and sum(shown.cells.size for shown, _ in self._maps.values()) > _KEPT_CELLS:
            self._maps.popitem(last=False)
        return self._maps[key]

    def shown(self, spec: dict) -> Shown:
        """Compute the map of a spec."""
        return compute(*self._pair(spec))

    def _pair(self, spec: dict) -> tuple[Part, dict, Part | None]:
        other = self.sides["b"][spec["part"]] if "b" in self.sides else None
        return self.parts[spec["part"]], spec, other

    def _tile(self, text: str) -> Answer:
        level, row, column, spec = text.split(" ", 3)
        shown, pyramid = self.map_of(json.loads(spec))
        cells = pyramid.tile(int(level), int(row), int(column))
        return {"rows": cells.shape[0], "columns": cells.shape[1], "of": shown.top}, pack(cells, signed=shown.signed)

    def _row(self, text: str) -> Answer:
        row, spec = text.split(" ", 1)
        part, spec, other = self._pair(json.loads(spec))
        key = json.dumps(spec)
        if key in self._maps:
            cells = self._maps[key][0].cells[int(row)]
        else:
            cells = exact_row(part, spec, int(row), other)
        return {}, np.ascontiguousarray(cells, "<f4").tobytes()

    # ------------------------------------------------------------ what lies behind a map

    def _image(self, text: str) -> Answer:
        pixels = self.parts[int(text)].picture.pixels
        height, width = pixels.shape[:2]
        return {"height": height, "width": width}, np.ascontiguousarray(pixels, np.uint8).tobytes()

    def _neurons(self, text: str) -> Answer:
        part, sample, side, layer, head = text.split()
        return neurons(self.sides[side][int(part)], int(sample), int(layer), int(head), self.exact)

    def _why(self, text: str) -> Answer:
        layer, head = map(int, text.split())
        return reasons(self.why, layer, head)

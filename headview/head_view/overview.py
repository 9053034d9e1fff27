"""All heads small, as one image: layers by heads, or the heads of one layer folded into a block."""

import math

import numpy as np

from headview.head_view.raster import BLACK, LEVELS, MASKED, MASKED_SIGNED, MISSING, SIGNED, WHITE, Sheet, cut
from mhalib.plots import pooled, share

_WIDE, _HIGH = 400, 360  # pixels, unless there are so many heads that they would be dots
_LEAST, _MOST = 4, 90  # pixels of a head
_LETTERS = 10
_NAME_ROOM = 90


def coloured(cells: np.ndarray, scale: str, top: int | float, signed: bool) -> np.ndarray:
    """Return the numbers of the colours of a sheet, uint8, for numbers of any shape."""
    cells = np.asarray(cells, np.float32)
    places = share(cells, scale, top, signed)
    missing = np.isnan(places)
    numbers = (np.where(missing, 0, places) * (LEVELS - 1) + 0.5).astype(np.uint8) + np.uint8(SIGNED if signed else 0)
    numbers[np.isneginf(cells)] = MASKED_SIGNED if signed else MASKED
    numbers[missing] = MISSING
    return numbers


class Overview:
    """Where every head of a `Drawn` with thumbnails stands, and their pixels."""

    def __init__(self, drawn):
        self.drawn = drawn
        self.layers, self.heads = drawn.thumbnails.shape[:2]
        self.folded = self.layers == 1
        self.columns = math.ceil(math.sqrt(self.heads)) if self.folded else self.heads
        self.lines = math.ceil(self.heads / self.columns) if self.folded else self.layers
        self.above = 13 if self.folded else 0  # a folded head carries its number above
        side = min(_WIDE // self.columns, _HIGH // self.lines - self.above)
        self.gap = 4 if side >= 12 else 2
        self.side = max(_LEAST, min(_MOST, side - self.gap))
        self.names = self._layer_names()
        self.left = 8 if self.folded else round(max(Sheet.width(said, _LETTERS) for _, said in self.names)) + 24
        self.wide = self.left + self.columns * (self.side + self.gap)
        self.high = 22 + self.lines * (self.side + self.gap + self.above) + (4 if self.folded else 34)

    @property
    def title(self) -> str:
        """What stands above: how many heads, and whether each has a scale of its own."""
        own = self.drawn.thumbnail_tops is not None and bool(np.ptp(self.drawn.thumbnail_tops) > 0)
        return f"{self.layers * self.heads} heads" + ", each up to its largest" * own

    def _layer_names(self) -> list[tuple[int, str]]:
        """Return which layers are named, and how: by number where they have the name that everybody expects."""
        names = self.drawn.layer_names
        if not names or names == [f"layer {i}" for i in range(self.layers)]:
            names = [str(i) for i in range(self.layers)]
        step = math.ceil(13 / (self.side + self.gap))
        return [(i, cut(names[i], _LETTERS, _NAME_ROOM)) for i in range(0, self.layers, step)]

    def corner(self, layer: int, head: int) -> tuple[int, int]:
        """Return how far a head stands right of and below the first one."""
        line, column = divmod(head, self.columns) if self.folded else (layer, head)
        return column * (self.side + self.gap), line * (self.side + self.gap + self.above) + self.above

    def pixels(self, sharp: int) -> np.ndarray:
        """Return the numbers of the colours of all heads, `(layers, heads, side, side)`."""
        side, maps = self.side * sharp, self.drawn.thumbnails
        maps = pooled(maps, *(math.ceil(size / side) for size in maps.shape[2:]), self.drawn.thumbnails_signed)
        if self.drawn.thumbnail_tops is not None:
            maps = maps / np.maximum(self.drawn.thumbnail_tops, 1e-30)[..., None, None].astype(np.float32)
        numbers = coloured(maps, self.drawn.scale, 1.0, self.drawn.thumbnails_signed)
        rows, columns = (np.arange(side) * size // side for size in maps.shape[2:])
        return numbers[:, :, rows][..., columns]

    def draw(self, sheet: Sheet, x: int, y: int) -> None:
        """Draw all heads, what they are called, and frames around those that are chosen."""
        sheet.text(x, y, cut(self.title, 13, self.wide + 40), 13, "la")
        x, y, s = x + self.left, y + 26, sheet.sharp
        pixels, step = self.pixels(s), (self.side + self.gap) * s
        tall = (self.side + self.gap + self.above) * s
        sheets = np.full((self.lines, tall, self.columns, step), WHITE, np.uint8)
        if self.folded:
            full = np.full((self.lines * self.columns, *pixels.shape[2:]), WHITE, np.uint8)
            full[: self.heads] = pixels[0]
            pixels = full.reshape(self.lines, self.columns, *pixels.shape[2:])
        sheets[:, self.above * s : (self.above + self.side) * s, :, : self.side * s] = pixels.swapaxes(1, 2)
        sheet.put(sheets.reshape(self.lines * tall, self.columns * step), x, y)
        for number, (layer, head) in reversed(list(enumerate(self.drawn.chosen))):
            across, down = self.corner(layer, head)
            sheet.frame(x + across, y + down, self.side, self.side, min(self.gap, 3) if number == 0 else 1, BLACK)
        self._write_names(sheet, x, y)

    def _write_names(self, sheet: Sheet, x: int, y: int) -> None:
        """Write the numbers of the heads, above them where they are folded, and the names of the layers."""
        names = self.drawn.head_names or [str(i) for i in range(self.heads)]
        room = self.side + self.gap
        names = [cut(name, _LETTERS, max(room, 30)) for name in names]
        step = math.ceil((max(Sheet.width(name, _LETTERS) for name in names) + 2) / room)
        for head in range(0, self.heads, step):
            across, down = self.corner(0, head)
            if not self.folded:
                sheet.text(x + across + self.side / 2, y + self.lines * room + 2, names[head], _LETTERS, "ma")
            elif head % self.columns % step == 0:
                sheet.text(x + across, y + down - 4, names[head], _LETTERS, "ls")
        if self.folded:
            return
        for layer, said in self.names:
            sheet.text(x - 6, y + layer * room + self.side / 2, said, _LETTERS, "rm")
        middle = self.side / 2 + (self.heads - 1) * room / 2
        sheet.text(x + middle, y + self.lines * room + 24, "head", 11, "mm")
        down = y + self.lines * room / 2 - Sheet.width("layer", 11) / 2
        sheet.text(x - self.left + 8, down, "layer", 11, turned=True)

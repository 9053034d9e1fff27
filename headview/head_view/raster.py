"""A sheet of paper for pictures made from pixels: a palette of all colours, text, frames, and a PNG of few bytes.

Every pixel is the number of a colour, so a PNG needs no search for a palette. Positions are in the pixels of a page;
a sheet that is `sharp` = 2 has twice as many of its own along both axes.
"""

import functools
import io
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from mhalib.plots import DIVERGING, MASKED_COLOUR, NAN_COLOUR, masked_colour

LEVELS = 112  # colours of each of the two maps: steps of 1 %, finer than the eye's
GREYS = 16  # from white to black: the edges of letters
SIGNED = LEVELS  # where the colours of signed values begin
MISSING, MASKED, MASKED_SIGNED = 2 * LEVELS, 2 * LEVELS + 1, 2 * LEVELS + 3  # behind masked: its hatching
WHITE = MASKED_SIGNED + 2
BLACK = WHITE + GREYS - 1
FRAME = WHITE + 11
_ENGINE = ImageFont.Layout.BASIC


@functools.lru_cache
def palette(colour_map: str) -> np.ndarray:
    """Return `(256, 3)` uint8: the colours of a picture."""

    def bytes_of(colours) -> np.ndarray:
        return np.rint(255 * matplotlib.colors.to_rgba_array(colours)[:, :3]).astype(np.uint8)

    steps = np.linspace(0, 1, LEVELS)
    ours, theirs = masked_colour(colour_map), masked_colour(DIVERGING)
    hatching = ["#B9B9B9" if colour == MASKED_COLOUR else "#C9A94F" for colour in (ours, theirs)]
    greys = np.repeat(np.linspace(255, 0, GREYS).round().astype(np.uint8)[:, None], 3, 1)
    maps = [bytes_of(matplotlib.colormaps[name](steps)) for name in (colour_map, DIVERGING)]
    special = bytes_of([NAN_COLOUR, ours, hatching[0], theirs, hatching[1]])
    full = np.concatenate([*maps, special, greys])
    return np.concatenate([full, np.zeros((256 - len(full), 3), np.uint8)])


@functools.lru_cache
def font(size: int, plain: bool = True) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font of all labels. matplotlib's has more signs than Pillow's; `plain` goes letter by letter."""
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    try:
        return ImageFont.truetype(str(path), size, layout_engine=_ENGINE if plain else None)
    except OSError:  # a matplotlib without its fonts
        return ImageFont.load_default(size)


def one_line(text: str) -> str:
    """Return a text without anything that would break the line or that no font can take."""
    text = text.encode("utf-16", "replace").decode("utf-16", "replace").replace("\n", "↵").replace("\t", "⇥")
    return "".join(sign if sign.isprintable() else "·" for sign in text)


class Sheet:
    """Pixels, letters and drawings that become one image.

    Args:
        wide, high: in pixels of a page.
        colour_map: one of `mhalib.plots.COLOUR_MAPS`.
        sharp: own pixels for each of a page.
    """

    def __init__(self, wide: int, high: int, colour_map: str, sharp: int = 1):
        self.sharp, self.colour_map = sharp, colour_map
        self.pixels = np.full((high * sharp, wide * sharp), WHITE, np.uint8)
        self._ink = Image.new("L", (wide * sharp, high * sharp), 0)
        self._pen = ImageDraw.Draw(self._ink)
        self._drawings: list[tuple[Image.Image, tuple[int, int]]] = []

    def put(self, numbers: np.ndarray, x: int, y: int) -> None:
        """Lay numbers of colours, in own pixels, down with their upper left corner at (x, y)."""
        x, y = x * self.sharp, y * self.sharp
        self.pixels[y : y + len(numbers), x : x + numbers.shape[1]] = numbers

    def put_drawing(self, drawing: Image.Image, x: int, y: int) -> None:
        """Lay an RGB image down, the largest first; its colours take the places of the map that is not used."""
        self._drawings.append((drawing, (x * self.sharp, y * self.sharp)))

    def frame(
        self, x: int | float, y: int | float, wide: int | float, high: int | float, line: int = 1, colour: int = FRAME
    ) -> None:
        """Draw a frame of `line` pixels around a place, outside of it."""
        s = self.sharp
        left, upper, right, lower = (round(end * s) for end in (x, y, x + wide, y + high))
        line *= s
        left0, upper0 = max(0, left - line), max(0, upper - line)
        self.pixels[upper0:upper, left0 : right + line] = self.pixels[lower : lower + line, left0 : right + line] = (
            colour
        )
        self.pixels[upper0 : lower + line, left0:left] = colour
        self.pixels[upper0 : lower + line, right : right + line] = colour

    def text(
        self, x: int | float, y: int | float, text: str, size: int, anchor: str = "lm", turned: bool = False
    ) -> None:
        """Write plain text. `anchor` is Pillow's; `turned` text reads upwards, centred on x, with its end at y."""
        text, s = one_line(text), self.sharp
        letters = font(size * s, text.isascii())
        if not turned:
            self._pen.text((round(x * s), round(y * s)), text, 255, letters, anchor)
            return
        wide, high = round(self.width(text, size) * s) + 2, round(1.4 * size * s)
        strip = Image.new("L", (wide, high), 0)
        ImageDraw.Draw(strip).text((wide, high // 2), text, 255, letters, "rm")
        self._ink.paste(255, (round(x * s) - high // 2, round(y * s)), strip.transpose(Image.Transpose.ROTATE_90))

    @staticmethod
    def width(text: str, size: int) -> int | float:
        """Return how wide a text is."""
        text = one_line(text)
        return font(size, text.isascii()).getlength(text)

    def image(self) -> Image.Image:
        """Return the picture, with its palette."""
        colours = palette(self.colour_map).copy()
        if self._drawings:
            self._lay_drawings(colours)
        ink = np.asarray(self._ink)
        levels = ((ink.astype(np.uint16) * (GREYS - 1) + 127) // 255).astype(np.uint8)
        written = (levels > 0) & ((self.pixels == WHITE) | (levels > GREYS // 2))
        image = Image.fromarray(np.where(written, WHITE + levels, self.pixels))
        image.putpalette(colours.tobytes())
        return image

    def _lay_drawings(self, colours: np.ndarray) -> None:
        """Reduce the drawings to as many colours as there are places for, and lay them down."""
        used = np.unique(self.pixels)
        free = 0 if ((used >= SIGNED) & (used < SIGNED + LEVELS)).any() else SIGNED
        method, plain = Image.Quantize.FASTOCTREE, Image.Dither.NONE
        first = self._drawings[0][0].quantize(LEVELS, method=method, dither=plain)
        found = np.array(first.getpalette(), np.uint8).reshape(-1, 3)[:LEVELS]
        colours[free : free + len(found)] = found
        for drawing, (x, y) in self._drawings:
            numbers = np.asarray(first if drawing.size == first.size else drawing.quantize(palette=first, dither=plain))
            self.pixels[y : y + len(numbers), x : x + numbers.shape[1]] = numbers + np.uint8(free)


def cut(text: str, size: int, room: int | float) -> str:
    """Return a text, or as much of its beginning as has room, and an ellipsis."""
    text = one_line(text[:200])
    if Sheet.width(text, size) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if Sheet.width(text[:middle] + "…", size) <= room else (low, middle - 1)
    return text[:low] + "…"


def png_bytes(image: Image.Image, alt: str, dots: int | None = None) -> bytes:
    """Return an image with a palette as PNG, the same bytes every time, with its description inside."""
    packed, words = io.BytesIO(), PngImagePlugin.PngInfo()
    words.add_itxt("Description", alt)
    size = {"dpi": (dots, dots)} if dots else {}
    image.save(packed, "png", pnginfo=words, compress_level=6, **size)
    return packed.getvalue()

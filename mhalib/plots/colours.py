"""The colours of all pictures, and of the views in the browser, for which `make views` writes them down.

A map of weights is ink on paper: 0 has the colour of the page, and the more weight, the more ink of one hue, in steps
that are even for the eye. Lightness alone tells the numbers apart, so colour-blind readers and printers lose nothing.
The steps are even in Oklab (Ottosson, A perceptual color space for image processing, 2020).
"""

import math

import matplotlib
from matplotlib.colors import ListedColormap

# The first is the default. The others are matplotlib's, for readers who are used to them.
COLOUR_MAPS = ("ink", "viridis", "cividis", "magma")
COLOUR_MAP = COLOUR_MAPS[0]
DIVERGING = "ink signed"  # for signed values: 0 is the page, positive ones are green, negative ones purple
# Okabe and Ito (2008): eight colours that colour-blind readers can tell apart; black is left for text.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#BBBBBB")
# The same and their like, dark enough for lines on white.
LINE_COLOURS = ("#0072B2", "#C04A00", "#007A5A", "#A3447E", "#7A5C00", "#4B3FA8", "#B00020", "#4F4F4F")
# And light enough for lines on near black.
LINE_COLOURS_ON_DARK = ("#56B4E9", "#FF9A4D", "#2FCB9B", "#F09BC8", "#F0E442", "#B7ADFF", "#FF8A9A", "#D0D0D0")
# What a mask forbids is hatched, on a grey that is nearly the page and no number has.
HATCH_COLOURS = {"light": "#A0A0A0", "dark": "#707070"}
MASKED_COLOURS = {"light": "#EFEFEF", "dark": "#2A2A2A"}
NAN_COLOUR = COLOURS[5]

_INK_HUE, _PLUS_HUE, _MINUS_HUE = 255, 150, 315  # degrees around Oklab's circle: blue, green, purple
_CHROMA = 0.135  # of the strongest colour, in the middle of a map
_PAGE = {"light": 1.0, "dark": 0.2222}  # lightness of #FFFFFF and #1B1B1B, by the reader's theme
_MOST = {"light": 0.24, "dark": 0.97}  # and of the most ink
_MOST_SIGNED = {"light": 0.38, "dark": 0.88}  # two hues must stay apart at their ends


def ink_shades(theme: str = "light") -> list[tuple[float, float, float]]:
    """Return the 256 colours of "ink" as red, green and blue from 0 to 1, from the page to the most ink."""
    # Chroma rises and falls with the share of the ink, as a sine over this arc.
    return [_ink(i / 255, _PAGE[theme], _MOST[theme], _INK_HUE, 0.9 * math.pi) for i in range(256)]


def signed_shades(theme: str = "light") -> list[tuple[float, float, float]]:
    """Return the 256 colours of signed numbers, from the most negative one; 0 lies between the two in the middle."""
    shares = [2 * i / 255 - 1 for i in range(256)]
    hues = [_PLUS_HUE if share > 0 else _MINUS_HUE for share in shares]
    ends = (_PAGE[theme], _MOST_SIGNED[theme])
    return [_ink(abs(share), *ends, hue, 0.6 * math.pi) for share, hue in zip(shares, hues, strict=True)]


def _ink(share: float, page: float, most: float, hue: int, arc: float) -> tuple[float, float, float]:
    """Return the colour of a share of the ink between the lightness of the page and that of the most ink."""
    lightness = page + (most - page) * share
    chroma = _CHROMA * math.sin(arc * share)
    angle = math.radians(hue)
    while True:
        colour = _from_oklab(lightness, chroma * math.cos(angle), chroma * math.sin(angle))
        if all(-1e-6 <= part <= 1 + 1e-6 for part in colour):
            return tuple(min(1.0, max(0.0, part)) for part in colour)
        chroma *= 0.95  # as colourful as a screen can show this lightness


def _from_oklab(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """Return sRGB, which may lie outside of 0 to 1, of a colour in Oklab."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short
    green = -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short
    blue = -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short
    return tuple(12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055 for x in (red, green, blue))


# Known to matplotlib by their names, on a light page; force: a notebook may load this a second time.
for _name, _shades in (("ink", ink_shades()), (DIVERGING, signed_shades())):
    matplotlib.colormaps.register(ListedColormap(_shades, _name), force=True)

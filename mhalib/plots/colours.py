"""The colours of all pictures, and of the views in the browser, to which `headview/base.py` hands them over."""

# Maps with as many steps for the eye as for the number, which colour-blind readers can use; the first is the default.
COLOUR_MAPS = ("viridis", "cividis", "magma", "Greys")
COLOUR_MAP = COLOUR_MAPS[0]
DIVERGING = "PRGn"  # for signed values, 0 in the middle; far from NAN_COLOUR too for every kind of colour-blindness
# From this weight on, black has more contrast with the colour map than white (by WCAG, which the tests compute).
DARK_INK_FROM = 0.435
# Okabe and Ito (2008): eight colours that colour-blind readers can tell apart; black is left for text.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#BBBBBB")
# The same and their like, dark enough for lines on white.
LINE_COLOURS = ("#0072B2", "#C04A00", "#007A5A", "#A3447E", "#7A5C00", "#4B3FA8", "#B00020", "#4F4F4F")
MASKED_COLOUR = "#E4E4E4"  # lighter than anything in the colour map, and marked with a cross as well
MASKED_ON_WHITE = "#FFE9A8"  # the same for maps in which that grey, or nearly that grey, stands for a number
NAN_COLOUR = COLOURS[5]


def masked_colour(colour_map: str) -> str:
    """Return the colour of masked cells beside the colours of a map."""
    return MASKED_ON_WHITE if colour_map in ("Greys", DIVERGING) else MASKED_COLOUR

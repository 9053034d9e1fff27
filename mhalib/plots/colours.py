"""The colours of all pictures, and of the views in the browser, to which `widgets/base.py` hands them over."""

COLOUR_MAP = "viridis"  # as many steps for the eye as for the weight, also for the eyes of colour-blind readers
# From this weight on, black has more contrast with the colour map than white (by WCAG, which the tests compute).
DARK_INK_FROM = 0.435
# Okabe and Ito (2008): eight colours that colour-blind readers can tell apart; black is left for text.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2", "#BBBBBB")
MASKED_COLOUR = "#E4E4E4"  # lighter than anything in the colour map, and marked with a cross as well
NAN_COLOUR = COLOURS[5]

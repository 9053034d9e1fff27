"""Static pictures: tensors in, matplotlib Figure out.

Nothing here shows a figure or keeps state; a notebook shows what a cell returns. All heads of one picture share one
scale, from 0 to 1 where nothing else is asked for, as one per panel makes a flat head look sharp. Every figure has a
text for readers who do not see it. All colours of `mhalib` are named in `colours`, all scales in `cells`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "attention": ["plot_attention"],
        "cells": ["SCALES", "hatch", "pooled", "pooled_words", "round_numbers", "share", "ticks"],
        "colours": [
            "COLOURS",
            "COLOUR_MAP",
            "COLOUR_MAPS",
            "DIVERGING",
            "HATCH_COLOURS",
            "LINE_COLOURS",
            "LINE_COLOURS_ON_DARK",
            "MASKED_COLOURS",
            "NAN_COLOUR",
            "ink_shades",
            "signed_shades",
        ],
        "figure": ["DescribedFigure", "as_labels", "new_figure"],
        "shapes": ["plot_reshape", "plot_shapes"],
    },
)

"""Static pictures: tensors in, matplotlib Figure out.

Nothing here shows a figure or keeps state; a notebook shows what a cell returns. All pictures of attention share one
scale from 0 to 1, as one per panel makes a flat head look sharp. Every figure has a text for readers who do not see it.
All colours of `mhalib` are named in `colours`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "attention": ["plot_attention"],
        "colours": ["COLOURS", "COLOUR_MAP", "DARK_INK_FROM", "MASKED_COLOUR", "NAN_COLOUR"],
        "figure": ["DescribedFigure", "as_labels", "new_figure"],
        "shapes": ["plot_reshape", "plot_shapes"],
    },
)

"""The same layer in other libraries: torch, d2l, and the interleaved layout; weights copied both ways.

Every library stores the four projections in its own order and takes masks in its own polarity. The converters here are
what the lessons and tests use to show that they all compute the same thing. Copies are real copies: training one layer
leaves the other alone. d2l is imported only when asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "d2l_layer": ["from_d2l", "import_d2l", "to_d2l"],
        "interleaved": ["InterleavedAttention", "from_interleaved", "interleaved_rows", "to_interleaved"],
        "torch_layer": ["from_torch", "to_torch", "torch_mask"],
    },
)

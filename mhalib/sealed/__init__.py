"""What can be told of an attention layer from outside, by asking it: how many heads, what each writes, where it looks.

A *box* is a function `f` that takes tokens `(B, T, d_model)` and returns as many; it may be a layer of any library.
Nothing here looks at its code or its weights. A layer that may be looked into is examined by `attention_doctor`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "count": ["HeadCount", "count_heads"],
        "read": ["SealedHeads", "read_heads"],
        "walk": ["Walk", "walk_of"],
    },
)

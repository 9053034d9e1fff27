"""Multi-head attention, small enough to read in one sitting: the code that the lessons teach from.

The files in this folder are the layer and what every lesson needs. Each folder in it is a room of its own: pictures,
references, single heads, experiments, a real model, a layer read from outside. The views of any model's heads are in
`headview`, the examination of layers is in `attention_doctor`, exercises and predictions are in `mhacourse`.

A room imports only from those below it, no file here from a folder, and `import mhalib` costs no more than torch.
"""

from mhalib.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads
from mhalib.claims import claim
from mhalib.masks import causal_mask, combine_masks, padding_mask

__version__ = "0.3.0"

__all__ = [
    "MultiHeadAttention",
    "causal_mask",
    "claim",
    "combine_masks",
    "merge_heads",
    "padding_mask",
    "scaled_dot_product_attention",
    "split_heads",
]

"""Multi-head attention, small enough to read in one sitting.

What more than one notebook needs lives in this package; what one notebook teaches is derived there.
The imports point one way: `arguments` knows nobody, then `masks`, `attention` and `reference`, each knowing those
before it; `plots` and `heads`, the measures of maps, take tensors and know only their shapes. Experiments are a row of
their own, `tasks`, `models`, `training`, `sweep`, `comparison`, `curves`, each knowing only those before it; beside it
stand `grammar` and `translation`, `gates` and `pruning`, where the second of two knows the first, and `pretrained` with
its `pairs`. Importing the package itself costs no more than importing torch.
"""

from mhalib.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads
from mhalib.masks import causal_mask, combine_masks, padding_mask

__version__ = "0.1.0"

__all__ = [
    "MultiHeadAttention",
    "causal_mask",
    "combine_masks",
    "merge_heads",
    "padding_mask",
    "scaled_dot_product_attention",
    "split_heads",
]

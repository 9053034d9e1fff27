"""Boxes that the tests of SealedBox open, in Python and in a browser: our layer, and a line of steps."""

import torch

from headview import SealedBox
from mhalib import MultiHeadAttention


def attention(num_heads=4, d_model=16, seed=4):
    """Return a layer, and start, direction and probe of a line far out."""
    torch.manual_seed(seed)
    layer = MultiHeadAttention(d_model, num_heads).double()
    generator = torch.Generator().manual_seed(seed)
    start, direction, probe = torch.randn(3, d_model, generator=generator, dtype=torch.double)
    return layer, {"start": 1e5 * start, "direction": 1e5 * direction, "probe": probe / probe.norm(), "reach": 3}


def key_of(layer, probe):
    """Return what the lid covers: the weight of the second token, for each head."""
    return lambda c: layer(torch.stack([c, c + probe], 1), need_weights=True)[1][:, :, 0, 1]


def sealed(points=801, known=True, **sizes):
    """Return a box of four heads, or of others; on the line of the first, all turn, one after the other."""
    layer, line = attention(**sizes)
    heads = key_of(layer, line["probe"]) if known else None
    return SealedBox(layer, len(line["probe"]), **line, points=points, heads=heads)

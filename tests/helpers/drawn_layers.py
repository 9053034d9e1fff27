"""Layers of drawn sizes with inputs for them, for the tests that hold them against torch, d2l and a loop."""

import torch
from hypothesis import strategies as st

from mhalib import MultiHeadAttention

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def close(a, b):
    return torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE[a.dtype])


@st.composite
def layers(draw, plain=False, cross=None, d_model_queries=False):
    """Return a layer of drawn sizes, and its inputs: one, or queries, keys and values.

    Args:
        plain: as other libraries know it, without wide or shared heads.
        cross: whether keys and values come from elsewhere; drawn when left out.
        d_model_queries: whether queries have as many features as the output.
    """
    torch.manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    group, wide = (1, False) if plain else (draw(st.integers(1, 3)), draw(st.booleans()))
    num_heads, head_dim = group * draw(st.integers(1, 3)), draw(st.integers(1, 5))
    d_model = draw(st.integers(1, 12)) if wide else num_heads * head_dim
    cross = draw(st.booleans()) if cross is None else cross
    query_dim, key_dim, value_dim, batch, num_queries, num_keys = (draw(st.integers(1, 6)) for _ in range(6))
    query_dim = d_model if d_model_queries else query_dim
    layer = MultiHeadAttention(
        d_model,
        num_heads,
        head_dim=head_dim if wide else None,
        num_kv_heads=num_heads // group,
        query_dim=query_dim,
        key_dim=key_dim if cross else None,
        value_dim=value_dim if cross else None,
        bias=draw(st.booleans()),
    ).to(dtype)
    inputs = [torch.randn(batch, num_queries, query_dim, dtype=dtype, requires_grad=True)]
    if cross:
        inputs += [torch.randn(batch, num_keys, dim, dtype=dtype, requires_grad=True) for dim in (key_dim, value_dim)]
    return layer, inputs

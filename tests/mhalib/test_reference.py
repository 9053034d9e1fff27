"""Our layer against the layers that people use, with copied weights: outputs, weights and gradients."""

import subprocess
import sys
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mhalib import MultiHeadAttention, causal_mask, combine_masks, padding_mask
from mhalib.reference import (
    InterleavedAttention,
    from_d2l,
    from_interleaved,
    from_torch,
    import_d2l,
    interleaved_rows,
    to_d2l,
    to_interleaved,
    to_torch,
    torch_mask,
)
from tests.helpers.drawn_layers import close, layers
from tests.helpers.refusals import accepted


def assert_same(one, other):
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)  # compares the dtypes as well


@st.composite
def plain_layers(draw, **options):
    """Return a layer that others have as well, queries, keys and values, and lengths of which none is 0."""
    layer, inputs = draw(layers(plain=True, **options))
    inputs = inputs if len(inputs) == 3 else inputs * 3
    batch, num_keys = inputs[1].shape[:2]
    lens = draw(st.lists(st.integers(1, num_keys), min_size=batch, max_size=batch))
    return layer, inputs, torch.tensor(lens)


def grads(output, *tensors):
    direction = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).view_as(output)
    return torch.autograd.grad(output, tensors, direction, retain_graph=True)


def in_proj_grads(other, output):
    """Return the gradients of torch's input projections, one per q, k, v, however it stores them."""
    if other.in_proj_weight is not None:
        return grads(output, other.in_proj_weight)[0].chunk(3)
    return grads(output, other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)


@given(plain_layers(d_model_queries=True), st.booleans())
def test_torch_layer_agrees_in_outputs_weights_and_gradients(drawn, causal):
    layer, inputs, lens = drawn
    num_queries, num_keys = inputs[0].shape[1], inputs[1].shape[1]
    mask = padding_mask(lens, num_keys)
    if causal and num_queries == num_keys:
        mask = combine_masks(mask, causal_mask(num_queries))
    other = to_torch(layer)
    blocked = torch_mask(mask, len(lens), layer.num_heads, num_queries, num_keys)
    output, weights = layer(*inputs, mask=mask, need_weights=True)
    wanted, maps = other(*inputs, attn_mask=blocked, average_attn_weights=False)
    close(output, wanted)
    close(weights, maps)
    ours = grads(output, inputs[0], layer.W_q.weight, layer.W_k.weight, layer.W_v.weight, layer.W_o.weight)
    theirs = [*grads(wanted, inputs[0]), *in_proj_grads(other, wanted), *grads(wanted, other.out_proj.weight)]
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)
    assert_same(from_torch(other), layer)


@given(plain_layers(), st.booleans())
def test_d2l_layer_agrees_in_outputs_weights_and_gradients(drawn, per_query):
    layer, inputs, lens = drawn
    other = to_d2l(layer)
    if per_query:
        lens = lens[:, None].repeat(1, inputs[0].shape[1])
    output, weights = layer(*inputs, mask=padding_mask(lens, inputs[1].shape[1]), need_weights=True)
    wanted = other(*inputs, lens)
    close(output, wanted)
    close(weights, other.attention.attention_weights.unflatten(0, (-1, layer.num_heads)))
    close(grads(output, inputs[0])[0], grads(wanted, inputs[0])[0])
    for name in ("W_q", "W_k", "W_v", "W_o"):
        close(grads(output, getattr(layer, name).weight)[0], grads(wanted, getattr(other, name).weight)[0])
    assert_same(from_d2l(other), layer)


@given(plain_layers(cross=False))
def test_interleaved_layer_agrees_and_comes_back(drawn):
    layer, inputs, lens = drawn
    other = to_interleaved(layer)
    mask = padding_mask(lens, inputs[0].shape[1])
    output, weights = layer(inputs[0], mask=mask, need_weights=True)
    wanted, maps = other(inputs[0], mask, need_weights=True)
    close(output, wanted)
    close(weights, maps)
    rows = interleaved_rows(layer.num_heads, layer.head_dim)
    ours = torch.cat(grads(output, layer.W_q.weight, layer.W_k.weight, layer.W_v.weight))[rows]
    close(ours, grads(wanted, other.qkv.weight)[0])
    assert_same(from_interleaved(other), layer)


def test_interleaved_rows_on_readable_numbers():
    # Two heads of two features: rows q0 q0 q1 q1 | k0 k0 k1 k1 | v0 v0 v1 v1.
    assert interleaved_rows(2, 2).tolist() == [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]
    layer = MultiHeadAttention(16, 4)
    other = to_interleaved(layer)
    with torch.no_grad():  # contiguous weights in an interleaved layer are not the same layer
        other.qkv.weight.copy_(torch.cat([layer.W_q.weight, layer.W_k.weight, layer.W_v.weight]))
    x = torch.randn(2, 5, 16)
    assert (other(x) - layer(x)).abs().max() > 0.05


def test_real_sizes_agree():
    torch.manual_seed(0)
    layer = MultiHeadAttention(512, 8, bias=True).eval()
    x, lens = torch.randn(4, 32, 512), torch.tensor([32, 20, 7, 1])
    mask = combine_masks(padding_mask(lens, 32), causal_mask(32))
    with torch.no_grad():
        wanted = layer(x, mask=mask)
        blocked = torch_mask(mask, 4, 8, 32, 32)
        close(to_torch(layer)(x, x, x, attn_mask=blocked, need_weights=False)[0], wanted)
        close(to_interleaved(layer)(x, mask), wanted)
        per_query = mask.sum(-1)  # causal and padding together, said as one length per query
        close(to_d2l(layer)(x, x, x, per_query), wanted)


@pytest.mark.parametrize("training", [True, False])
def test_copies_share_nothing_with_the_original_but_dropout_and_mode(training):
    layer = MultiHeadAttention(8, 2, dropout=0.3, bias=True).train(training)
    before = [p.clone() for p in layer.parameters()]
    there = to_torch(layer), to_d2l(layer), to_interleaved(layer)
    back = from_torch(there[0]), from_d2l(there[1]), from_interleaved(there[2])
    assert all(other.training == training for other in (*there, *back))
    assert there[0].dropout == there[1].attention.dropout.p == there[2].dropout == 0.3
    assert all(other.dropout == 0.3 for other in back)
    with torch.no_grad():
        for p in (p for other in (*there, *back) for p in other.parameters()):
            p.add_(1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, layer.parameters(), strict=True))


def test_torch_layer_is_read_whatever_its_batch_first_and_its_mask_serves_all_heads_of_a_sample():
    other = nn.MultiheadAttention(8, 2, batch_first=False)
    x = torch.randn(5, 3, 8)  # (T, B, d_model), as that layer takes it
    close(from_torch(other)(x.transpose(0, 1)), other(x, x, x)[0].transpose(0, 1))
    blocked = torch_mask(padding_mask(torch.tensor([3, 2]), 3), 2, 2, 1, 3)
    assert blocked.int().tolist() == [[[0, 0, 0]], [[0, 0, 0]], [[0, 0, 1]], [[0, 0, 1]]]


def test_what_cannot_be_copied_is_refused(as_shipped):
    ours, failures = MultiHeadAttention(8, 2), []
    for convert in (to_torch, to_d2l, to_interleaved):
        for options in ({"head_dim": 8}, {"num_kv_heads": 1}):
            layer = MultiHeadAttention(8, 2, **options)
            failures += accepted({"num_heads * head_dim == d_model": partial(convert, layer)})
    for convert in (to_torch, from_torch, to_d2l, from_d2l, to_interleaved, from_interleaved):
        for layer in (None, nn.Linear(8, 8)):
            failures += accepted({"TypeError: expected a ": partial(convert, layer)})
    bias_kv, zero = (nn.MultiheadAttention(8, 2, **{option: True}) for option in ("add_bias_kv", "add_zero_attn"))
    failures += accepted(
        {
            "got mhalib.attention.MultiHeadAttention without attention": partial(from_d2l, ours),
            "got d2l.torch.MultiHeadAttention": lambda: to_torch(to_d2l(ours)),
            "needs queries of d_model=8 features": partial(to_torch, MultiHeadAttention(8, 2, query_dim=6)),
            "q, k and v must come from one input": partial(to_interleaved, MultiHeadAttention(8, 2, key_dim=6)),
            "append a key": partial(from_torch, bias_kv),
            "a key of their own": partial(from_torch, zero),
            "inputs must be (B, T, 6), got (3, 6)": partial(InterleavedAttention(6, 8, 2), torch.zeros(3, 6)),
        }
    )
    assert failures == []


class LazyD2L(nn.Module):
    """The signature of d2l 1.x, whose input sizes are known only after the first call."""

    def __init__(self, num_hiddens, num_heads, dropout, bias=False, **kwargs):
        super().__init__()
        self.num_heads = num_heads
        self.attention = import_d2l().DotProductAttention(dropout)
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.LazyLinear(num_hiddens, bias=bias))

    forward = None


def test_d2l_of_version_1_is_read_and_written(monkeypatch, as_shipped):
    d2l = import_d2l()
    LazyD2L.forward = d2l.MultiHeadAttention.forward
    monkeypatch.setattr(d2l, "MultiHeadAttention", LazyD2L)
    layer = MultiHeadAttention(8, 2, query_dim=5, key_dim=6, value_dim=7)
    q, k, v, lens = torch.randn(2, 3, 5), torch.randn(2, 4, 6), torch.randn(2, 4, 7), torch.tensor([4, 2])
    other = to_d2l(layer)
    assert isinstance(other, LazyD2L)
    close(other(q, k, v, lens), layer(q, k, v, padding_mask(lens, 4)))
    close(from_d2l(other)(q, k, v), layer(q, k, v))
    with pytest.raises(ValueError, match="call it once on real input"):
        from_d2l(LazyD2L(8, 2, 0.0))


def test_d2l_says_when_it_is_missing_loads_without_torchvision_and_draws_under_todays_ipython():
    code = """
import sys
import matplotlib; matplotlib.use("Agg")
import torch
from mhalib.reference import import_d2l

def told(call):
    try:
        return call()
    except ImportError as error:
        return str(error)

sys.modules["d2l"] = None
assert "pip install d2l==0.17.0" in told(import_d2l)
del sys.modules["d2l"]
sys.modules["torchvision"] = None  # as if it were not installed, also where it is
d2l = import_d2l()
assert d2l is import_d2l() and sys.modules["torchvision"] is None, "no placeholder is left behind"
assert "torchvision is not installed" in told(lambda: d2l.torchvision.datasets)
d2l.show_heatmaps(torch.rand(1, 2, 3, 4), xlabel="keys", ylabel="queries")
assert len(d2l.plt.gcf().axes) == 3  # two maps and a colour bar
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""The layer against torch as the oracle, and against what must be true of any attention."""

import itertools
import math
import subprocess
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from mhalib import MultiHeadAttention, causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from mhalib.masks import to_additive
from tests.helpers.drawn_layers import close, layers
from tests.helpers.refusals import accepted

MASK_SHAPES = ("none", "Tq Tk", "B Tq Tk", "B 1 Tk", "B h Tq Tk", "B 1 1 Tk", "1 h Tq 1")


def draw_mask(draw, dtype, Tq, Tk, **leading):
    """Return a boolean or additive mask of a drawn shape; some of its rows may allow nothing."""
    shape = draw(st.sampled_from([shape for shape in MASK_SHAPES if len(shape.split()) <= 2 + len(leading)]))
    if shape == "none":
        return None
    sizes = {"Tq": Tq, "Tk": Tk, "1": 1, **leading}
    allowed = torch.rand([sizes[axis] for axis in shape.split()]) > 0.35
    kind = draw(st.sampled_from(["boolean", "-inf", "bias"]))
    if kind == "boolean":
        return allowed
    bias = torch.randn(allowed.shape, dtype=dtype) * (kind == "bias")
    return bias.masked_fill(~allowed, -math.inf)


def as_bias(mask, like):
    """Return a mask as (B, h, Tq, Tk) numbers that are added to the scores."""
    if mask is None:
        return like.new_zeros(1, 1, 1, 1)
    four = mask if mask.ndim == 4 else mask[:, None] if mask.ndim == 3 else mask[None, None]
    return torch.where(four, 0.0, -math.inf).to(like.dtype) if four.dtype == torch.bool else four


def by_loop(layer, queries, keys, values, mask):
    """Compute the layer one sample, one head, one query at a time, from the formula alone."""
    batch, length, size, group = *queries.shape[:2], layer.head_dim, layer.num_heads // layer.num_kv_heads
    bias = as_bias(mask, queries).expand(batch, layer.num_heads, length, keys.shape[1])
    q, k, v = layer.W_q(queries), layer.W_k(keys), layer.W_v(values)
    mixed, maps = q.new_zeros(q.shape), torch.zeros_like(bias)
    for b, h, t in itertools.product(range(batch), range(layer.num_heads), range(length)):
        mine, shared = slice(h * size, (h + 1) * size), slice(h // group * size, (h // group + 1) * size)
        scores = k[b, :, shared] @ q[b, t, mine] / math.sqrt(size) + bias[b, h, t]
        if (scores > -math.inf).any():
            row = scores.softmax(-1)
            maps[b, h, t], mixed[b, t, mine] = row, row @ v[b, :, shared]
    return layer.W_o(mixed), maps


@given(layers(), st.data())
def test_layer_equals_a_loop_over_heads_in_both_ways(drawn, data):
    layer, inputs = drawn
    queries, keys, values = inputs if len(inputs) == 3 else inputs * 3
    sizes = {"Tq": queries.shape[1], "Tk": keys.shape[1], "B": len(queries), "h": layer.num_heads}
    mask = draw_mask(data.draw, queries.dtype, **sizes)
    before = [x.clone() for x in (*inputs, mask) if x is not None]
    wanted, maps = by_loop(layer, queries, keys, values, mask)
    output, weights = layer(*inputs, mask=mask, need_weights=True)
    fused = layer(*inputs, mask=mask)
    assert all(torch.equal(x, old) for x, old in zip([*inputs, mask], before, strict=False))

    def gradients(result):  # rows without keys use nothing
        parameters = [*layer.parameters(), *inputs]
        return torch.autograd.grad(result.square().sum(), parameters, retain_graph=True, materialize_grads=True)

    for result, expected in ((output, wanted), (fused, wanted), (weights, maps)):
        close(result, expected)
        if expected.requires_grad:
            for a, b in zip(gradients(result), gradients(expected), strict=True):
                assert a.isfinite().all()
                close(a, b)


@given(st.sampled_from([None, 1.0, 0.125]), st.sampled_from(["", "B", "B h"]), st.integers(1, 5), st.data())
def test_attention_equals_torch_with_any_scale_any_width_of_values_and_any_axes(scale, axes, value_dim, data):
    torch.manual_seed(data.draw(st.integers(0, 99)))
    leading = {axis: {"B": 2, "h": 3}[axis] for axis in axes.split()}
    q, k, v = (torch.randn(*leading.values(), *shape) for shape in ((4, 2), (5, 2), (5, value_dim)))
    mask = draw_mask(data.draw, torch.float32, Tq=4, Tk=5, **leading)
    ours, weights = scaled_dot_product_attention(q, k, v, mask, scale=scale)
    four = [x if x.ndim == 4 else x[:, None] if x.ndim == 3 else x[None, None] for x in (q, k, v)]
    bias = as_bias(mask, q)
    close(ours.view(*four[0].shape[:-1], -1), F.scaled_dot_product_attention(*four, bias, scale=scale))
    close(weights @ v, ours)
    allowed = (bias > -math.inf).expand(*four[0].shape[:-1], 5).reshape(weights.shape)
    close(weights.sum(-1), allowed.any(-1).float())
    assert not weights[~allowed].any()


@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_split_and_merge_undo_each_other_and_put_each_feature_where_it_belongs(batch, tokens, num_heads, head_dim):
    x = torch.randn(batch, tokens, num_heads * head_dim)
    heads = split_heads(x, num_heads)
    assert heads.shape == (batch, num_heads, tokens, head_dim)
    assert heads.data_ptr() == x.data_ptr(), "a view, as it is promised"
    assert torch.equal(merge_heads(heads), x)
    for head in range(num_heads):
        assert torch.equal(heads[:, head], x[:, :, head * head_dim : (head + 1) * head_dim])


def test_half_precision_works_in_both_ways_and_overflows_nowhere(as_shipped):
    for dtype in (torch.float16, torch.bfloat16):
        layer = MultiHeadAttention(32, 4).to(dtype)
        x = torch.randn(2, 6, 32, dtype=dtype)
        with_weights, weights = layer(x, mask=causal_mask(6), need_weights=True)
        assert with_weights.dtype == weights.dtype == dtype
        torch.testing.assert_close(layer(x, mask=causal_mask(6)), with_weights, atol=2e-2, rtol=2e-2)
    q = torch.full((1, 1, 2, 64), 40.0, dtype=torch.float16)  # q k^T = 102400, above the largest number, 65504
    ours, weights = scaled_dot_product_attention(q, q, q)
    assert torch.equal(ours, F.scaled_dot_product_attention(q, q, q)) and (weights == 0.5).all()
    q = torch.full((2, 2), 8.0, dtype=torch.float16)
    lowest = torch.full((2, 2), torch.finfo(torch.float16).min, dtype=torch.float16)
    output, weights = scaled_dot_product_attention(-q, q, q, lowest)  # the sum is -inf, for every key
    assert output.isfinite().all() and weights.isfinite().all()
    layer = MultiHeadAttention(32, 4)
    with torch.autocast("cpu", torch.bfloat16):  # what torch joins itself is left to it, and nothing else
        assert layer(torch.randn(1, 3, 32, dtype=torch.bfloat16)).dtype == torch.bfloat16
        for other in (torch.int64, torch.float64):
            assert accepted({f"queries are {other}": partial(layer, torch.ones(1, 3, 32, dtype=other))}) == []


def test_dropout_acts_in_training_only_and_the_returned_weights_are_the_ones_used():
    layer = MultiHeadAttention(64, 4, dropout=0.5)
    x = torch.randn(4, 8, 64)
    with torch.no_grad():
        output, weights = layer(x, need_weights=True)
        rebuilt = layer.W_o(merge_heads(weights @ split_heads(layer.W_v(x), 4)))
        torch.testing.assert_close(output, rebuilt)
        assert (weights == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
        assert not torch.equal(layer(x), layer(x))  # the fused way drops as well
        layer.eval()
        assert torch.equal(layer(x), layer(x))
        torch.testing.assert_close(layer(x, need_weights=True)[1].sum(-1), torch.ones(4, 4, 8))


def test_default_sizes_follow_the_queries_then_the_keys():
    sizes = [MultiHeadAttention(8, 2, **{name: 6}) for name in ("query_dim", "key_dim", "value_dim")]
    found = [[m.in_features for m in (layer.W_q, layer.W_k, layer.W_v, layer.W_o)] for layer in sizes]
    assert found == [[6, 6, 6, 8], [8, 6, 6, 8], [8, 8, 6, 8]]
    queries, memory = torch.ones(1, 2, 8), torch.randn(1, 4, 6)
    assert torch.equal(sizes[1](queries, memory), sizes[1](queries, memory, memory))


def test_layer_can_be_copied_saved_exported_with_every_mask_and_printed():
    layer = MultiHeadAttention(8, 2, dropout=0.1, bias=True)
    twin = MultiHeadAttention(8, 2, bias=True)
    twin.load_state_dict(layer.state_dict())
    x = torch.randn(2, 3, 8)
    assert torch.equal(twin.eval()(x), layer.eval()(x))
    assert "num_heads=2, head_dim=4" in repr(layer)
    for mask, need_weights in ((None, False), (causal_mask(3), True), (to_additive(causal_mask(3)), False)):
        options = {"mask": mask, "need_weights": need_weights}
        exported = torch.export.export(twin, (x,), options).module()
        torch.testing.assert_close(exported(x, **options), twin(x, **options))


@pytest.mark.slow
def test_layer_compiles_in_one_piece_with_every_kind_of_mask():
    """In a process of its own, where the shapes in signatures are not checked: torch cannot trace these checks."""
    code = """
import torch
from mhalib import MultiHeadAttention, causal_mask
from mhalib.masks import to_additive
layer, x = MultiHeadAttention(8, 2), torch.randn(2, 3, 8)
compiled = torch.compile(layer, backend="eager", fullgraph=True)
for mask in (None, causal_mask(3), to_additive(causal_mask(3))):
    torch.testing.assert_close(compiled(x, mask=mask), layer(x, mask=mask))
    for ours, theirs in zip(layer(x, mask=mask, need_weights=True), compiled(x, mask=mask, need_weights=True)):
        torch.testing.assert_close(ours, theirs)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_sizes_that_do_not_fit_are_refused(as_shipped):
    make = partial(MultiHeadAttention, 12)
    few = "d_model=100 is not divisible by num_heads=3; choose num_heads from 1, 2, 4, 5, 10, …"
    calls = {few: partial(MultiHeadAttention, 100, 3)}
    for number in (0, True, 2.0):
        calls[f"num_heads must be a positive integer, got {number}"] = partial(make, number)
    calls |= {
        "num_heads=3 is not divisible by num_kv_heads=2": partial(make, 3, num_kv_heads=2),
        "value_dim must be": partial(make, 3, value_dim=0),
        "head_dim must be": partial(make, 3, head_dim=-1),
        "from 0 to below 1, got 1.0": partial(make, 3, dropout=1.0),
    }
    assert accepted(calls) == []


def test_bad_input_is_told_what_was_expected_what_came_and_what_to_do(as_shipped):
    x, layer, failures = torch.zeros(2, 3, 8), MultiHeadAttention(8, 2), []
    calls = {
        "queries must be (B, T, 8), got (3, 8); add a batch axis with x[None]": (x[0],),
        "keys must be (B, T, 8), got (2, 3, 7)": (x, x[..., :7]),
        "must agree, got queries (2, 3, 8), keys (1, 3, 8)": (x, x[:1]),
        "equally long": (x, x, x[:, :2]),
        "at least one query and one key, got queries (2, 0, 8)": (x[:, :0],),
        "ValueError: queries are torch.float64": (x.double(),),
        "TypeError: queries are torch.int64": (x.long(),),
        "values came without keys": (x, None, x),
        "queries are on meta, but the layer is on cpu": (x.to("meta"),),
        "mask (4, 4) does not broadcast to the scores (2, 2, 3, 3)": (x, x, x, torch.ones(4, 4).bool()),
        "becomes mask[:, None, :]": (x, x, x, torch.ones(3).bool()),
        "mask is on meta": (x, x, x, torch.ones(3, 3, device="meta").bool()),
        "NaN or +inf": (x, x, x, torch.ones(3, 3).triu(1) * -math.inf),
        "it would hide nothing": (x, x, x, torch.ones(3, 3).tril()),
        "TypeError: mask must be boolean (True = may attend) or floating": (x, x, x, torch.ones(3, 3).long()),
    }
    for need_weights in (True, False):
        failures += accepted({words: partial(layer, *g, need_weights=need_weights) for words, g in calls.items()})
    q, four = x[0, :, :3], torch.ones(1, 2, 3, 3).bool()
    calls = {
        "must all be (T, head_dim), (B, T, head_dim) or (B, num_heads, T, head_dim), got (8,)": (x[0, 0],) * 3,
        "same head_dim, got 3 and 8": (q, x[0], x[0]),
        "equal lengths of at least 1": (x[0, :, :0], x[0, :, :0], q),
        "k and v must be equally long": (q, q, q[:2]),
        "the leading axes (batch, heads) of q, k, v must agree": (x, x[:1], x[:1]),
        "one query and one key, got q (3, 3), k (0, 3)": (q, q[:0], q[:0]),
        "does not broadcast": (x, x, x, four),
        "TypeError: q, k and v must be floating, got torch.int64": (q.long(),) * 3,
        "one dtype, got torch.float32, torch.float64": (q, q.double(), q),
        "one device, got cpu, meta": (q, q.to("meta"), q),
    }
    calls = {words: partial(scaled_dot_product_attention, *given) for words, given in calls.items()}
    calls["(B, T, d_model), got (3, 8)"] = partial(split_heads, x[0], 2)
    calls["the number of features=8 is not divisible by num_heads=3"] = partial(split_heads, x, 3)
    calls["(B, num_heads, T, head_dim), got (2, 3, 8)"] = partial(merge_heads, x)
    assert failures + accepted(calls) == []

"""The layer against torch as the oracle, and against what must be true of any attention."""

import copy
import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from mhalib import MultiHeadAttention, causal_mask, merge_heads, padding_mask, scaled_dot_product_attention, split_heads
from mhalib.masks import to_additive

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
MASK_SHAPES = ("none", "Tq Tk", "B Tq Tk", "B 1 Tk", "B h Tq Tk", "B 1 1 Tk", "1 h Tq 1")


def close(a, b, dtype):
    return torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE[dtype])


def draw_mask(draw, sizes, dtype, generator):
    """Return a boolean or additive mask of a drawn shape; some of its rows may allow nothing."""
    shape = draw(st.sampled_from(MASK_SHAPES))
    if shape == "none":
        return None
    allowed = torch.rand([sizes.get(axis, 1) for axis in shape.split()], generator=generator) > 0.35
    kind = draw(st.sampled_from(["boolean", "-inf", "bias"]))
    if kind == "boolean":
        return allowed
    bias = torch.randn(allowed.shape, generator=generator, dtype=dtype) * (kind == "bias")
    return bias.masked_fill(~allowed, -math.inf)


def as_four_axes(mask):
    """Put the axes of a mask where torch's own function expects them on (B, h, Tq, Tk) scores."""
    return mask if mask is None or mask.ndim != 3 else mask[:, None]


@st.composite
def attention_inputs(draw):
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    sizes = {"B": draw(st.integers(1, 3)), "h": draw(st.integers(1, 4))}
    sizes |= {"Tq": draw(st.integers(1, 6)), "Tk": draw(st.integers(1, 6))}
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    head_dim, value_dim = draw(st.integers(1, 5)), draw(st.integers(1, 5))

    def sample(tokens, features):
        return torch.randn(
            sizes["B"], sizes["h"], tokens, features, dtype=dtype, generator=generator, requires_grad=True
        )

    q, k, v = sample(sizes["Tq"], head_dim), sample(sizes["Tk"], head_dim), sample(sizes["Tk"], value_dim)
    scale = draw(st.sampled_from([None, 1.0, 0.125]))
    return q, k, v, draw_mask(draw, sizes, dtype, generator), scale


@given(attention_inputs())
def test_attention_equals_torch_in_outputs_and_gradients(inputs):
    q, k, v, mask, scale = inputs
    ours, weights = scaled_dot_product_attention(q, k, v, mask, scale=scale)
    theirs = F.scaled_dot_product_attention(q, k, v, as_four_axes(mask), scale=scale)
    close(ours, theirs, q.dtype)
    close(weights @ v, ours, q.dtype)
    direction = torch.ones_like(ours).cumsum(-1)
    for a, b in zip(
        torch.autograd.grad(ours, (q, k, v), direction), torch.autograd.grad(theirs, (q, k, v), direction), strict=True
    ):
        assert a.isfinite().all()
        close(a, b, q.dtype)


@given(attention_inputs())
def test_rows_of_weights_sum_to_one_or_to_zero_where_nothing_is_allowed(inputs):
    q, k, v, mask, scale = inputs
    _, weights = scaled_dot_product_attention(q, k, v, mask, scale=scale)
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if mask is not None:
        four = as_four_axes(mask)
        allowed = (four if four.dtype == torch.bool else four > -math.inf).expand_as(weights)
    close(weights.sum(-1), allowed.any(-1).to(weights.dtype), q.dtype)
    assert not weights[~allowed].any()


@st.composite
def layers(draw):
    """Return a layer with any options, inputs for it, a mask, and what they are called."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    num_kv_heads = draw(st.integers(1, 3))
    num_heads = num_kv_heads * draw(st.integers(1, 3))
    wide = draw(st.booleans())
    head_dim = draw(st.integers(1, 5))
    d_model = draw(st.integers(1, 12)) if wide else num_heads * head_dim
    dims = {name: draw(st.integers(1, 9)) for name in ("query_dim", "key_dim", "value_dim")}
    cross = draw(st.booleans())
    seed = draw(st.integers(0, 2**31))
    torch.manual_seed(seed)
    layer = MultiHeadAttention(
        d_model,
        num_heads,
        head_dim=head_dim if wide else None,
        num_kv_heads=num_kv_heads,
        query_dim=dims["query_dim"],
        key_dim=dims["key_dim"] if cross else None,
        value_dim=dims["value_dim"] if cross else None,
        bias=draw(st.booleans()),
    ).to(dtype)
    sizes = {"B": draw(st.integers(1, 3)), "h": num_heads, "Tq": draw(st.integers(1, 5)), "Tk": draw(st.integers(1, 5))}
    if not cross:
        sizes["Tk"] = sizes["Tq"]
    names = ("query_dim", "key_dim", "value_dim") if cross else ("query_dim",)
    tokens = {"query_dim": sizes["Tq"], "key_dim": sizes["Tk"], "value_dim": sizes["Tk"]}
    inputs = [torch.randn(sizes["B"], tokens[n], dims[n], dtype=dtype, requires_grad=True) for n in names]
    return layer, inputs, draw_mask(draw, sizes, dtype, torch.Generator().manual_seed(seed)), dtype


def by_loop(layer, inputs, mask):
    """Compute the layer one sample, one head, one query at a time, from the formula alone."""
    queries, keys, values = inputs if len(inputs) == 3 else inputs * 3
    hd, group = layer.head_dim, layer.num_heads // layer.num_kv_heads
    if mask is None:
        bias = queries.new_zeros(1, 1, 1, 1)
    else:
        four = mask if mask.ndim == 4 else mask[:, None] if mask.ndim == 3 else mask[None, None]
        bias = torch.where(four, 0.0, -math.inf).to(queries.dtype) if four.dtype == torch.bool else four
    bias = bias.expand(len(queries), layer.num_heads, queries.shape[1], keys.shape[1])
    q, k, v = layer.W_q(queries), layer.W_k(keys), layer.W_v(values)
    samples, maps = [], []
    for b in range(len(queries)):
        heads = []
        for h in range(layer.num_heads):
            mine, shared = slice(h * hd, (h + 1) * hd), slice(h // group * hd, (h // group + 1) * hd)
            rows = []
            for t in range(queries.shape[1]):
                scores = k[b, :, shared] @ q[b, t, mine] / math.sqrt(hd) + bias[b, h, t]
                rows.append(scores.softmax(-1) if (scores > -math.inf).any() else scores.new_zeros(len(scores)))
            maps.append(torch.stack(rows))
            heads.append(maps[-1] @ v[b, :, shared])
        samples.append(torch.cat(heads, dim=-1))
    return layer.W_o(torch.stack(samples)), torch.stack(maps).unflatten(0, (len(queries), -1))


@given(layers())
def test_layer_equals_a_loop_over_heads_in_both_ways(drawn):
    layer, inputs, mask, dtype = drawn
    wanted, maps = by_loop(layer, inputs, mask)
    output, weights = layer(*inputs, mask=mask, need_weights=True)
    fused = layer(*inputs, mask=mask)
    close(output, wanted, dtype)
    close(fused, wanted, dtype)
    close(weights, maps, dtype)
    parameters = list(layer.parameters()) + inputs
    for result in (output, fused):
        ours = torch.autograd.grad(result.sum(), parameters, retain_graph=True)
        theirs = torch.autograd.grad(
            wanted.sum(),
            parameters,
            retain_graph=True,
            materialize_grads=True,  # rows without keys use nothing
        )
        for a, b in zip(ours, theirs, strict=True):
            close(a, b, dtype)


@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_split_and_merge_undo_each_other_and_put_each_feature_where_it_belongs(batch, tokens, num_heads, head_dim):
    x = torch.randn(batch, tokens, num_heads * head_dim)
    heads = split_heads(x, num_heads)
    assert heads.shape == (batch, num_heads, tokens, head_dim)
    assert torch.equal(merge_heads(heads), x)
    for head in range(num_heads):
        assert torch.equal(heads[:, head], x[:, :, head * head_dim : (head + 1) * head_dim])


def test_split_is_a_view():
    x = torch.zeros(2, 3, 8)
    split_heads(x, 4)[1, 2, 0, 1] = 7
    assert x[1, 0, 5] == 7


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("additive", [True, False])
def test_a_query_with_no_key_gets_zeros_and_all_gradients_stay_finite(need_weights, additive):
    layer = MultiHeadAttention(16, 4)
    x = torch.randn(2, 5, 16, requires_grad=True)
    mask = padding_mask(torch.tensor([0, 3]), 5)
    if additive:
        mask = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    result = layer(x, mask=mask, need_weights=need_weights)
    output = result[0] if need_weights else result
    assert not output[0].any() and output[1].abs().sum() > 0
    if need_weights:
        assert not result[1][0].any()
    # NaN on the way would be an error, also where later steps hide it.
    with torch.autograd.set_detect_anomaly(need_weights):
        output.square().sum().backward()
    for tensor in (x, *layer.parameters()):
        assert tensor.grad.isfinite().all()
    assert x.grad[1].abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_works_in_both_ways(dtype):
    layer = MultiHeadAttention(32, 4).to(dtype)
    x = torch.randn(2, 6, 32, dtype=dtype)
    with_weights, weights = layer(x, mask=causal_mask(6), need_weights=True)
    assert with_weights.dtype == weights.dtype == dtype
    torch.testing.assert_close(layer(x, mask=causal_mask(6)), with_weights, atol=2e-2, rtol=2e-2)


def test_large_numbers_in_half_precision_do_not_overflow_before_they_are_scaled():
    q = torch.full((1, 1, 2, 64), 40.0, dtype=torch.float16)  # q k^T = 102400, above the largest number, 65504
    ours, weights = scaled_dot_product_attention(q, q, q)
    assert torch.equal(ours, F.scaled_dot_product_attention(q, q, q)) and (weights == 0.5).all()


def test_a_row_of_the_lowest_numbers_stays_finite_in_half_precision():
    q = torch.full((2, 2), 8.0, dtype=torch.float16)
    lowest = torch.full((2, 2), torch.finfo(torch.float16).min, dtype=torch.float16)
    output, weights = scaled_dot_product_attention(-q, q, q, lowest)  # the sum is -inf, for every key
    assert output.isfinite().all() and weights.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.long, torch.float64])
def test_autocast_does_not_hide_numbers_that_it_leaves_alone(dtype, as_shipped):
    layer = MultiHeadAttention(8, 2)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises((TypeError, ValueError), match=f"queries are {dtype}"):
        layer(torch.ones(1, 3, 8, dtype=dtype))


def test_autocast_is_left_to_torch():
    layer = MultiHeadAttention(32, 4)
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(torch.randn(1, 3, 32, dtype=torch.bfloat16))
    assert output.dtype == torch.bfloat16


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


def test_gradients_flow_through_the_returned_weights():
    layer, x = MultiHeadAttention(8, 2), torch.randn(2, 3, 8)
    _, weights = layer(x, mask=causal_mask(3), need_weights=True)
    q, k = split_heads(layer.W_q(x), 2), split_heads(layer.W_k(x), 2)
    wanted = (q @ k.transpose(-2, -1) / 2).masked_fill(~causal_mask(3), -math.inf).softmax(-1)  # sqrt(head_dim) = 2
    ours, theirs = (torch.autograd.grad(maps.square().sum(), layer.W_q.weight)[0] for maps in (weights, wanted))
    close(ours, theirs, torch.float32)
    assert ours.any()


def test_inputs_and_mask_come_back_unchanged():
    layer = MultiHeadAttention(8, 2)
    x, additive = torch.randn(2, 3, 8), torch.zeros(3, 3).masked_fill(~causal_mask(3), -math.inf)
    before = x.clone(), additive.clone()
    layer(x, mask=additive), layer(x, mask=additive, need_weights=True)
    assert torch.equal(x, before[0]) and torch.equal(additive, before[1])


def test_default_sizes_follow_the_queries_then_the_keys():
    layer = MultiHeadAttention(8, 2, query_dim=6)
    assert [m.in_features for m in (layer.W_q, layer.W_k, layer.W_v, layer.W_o)] == [6, 6, 6, 8]
    layer = MultiHeadAttention(8, 2, key_dim=5)
    assert [m.in_features for m in (layer.W_q, layer.W_k, layer.W_v)] == [8, 5, 5]
    memory = torch.randn(1, 4, 5)
    assert torch.equal(layer(torch.ones(1, 2, 8), memory), layer(torch.ones(1, 2, 8), memory, memory))


def test_layer_can_be_copied_saved_compiled_into_a_graph_and_printed():
    layer = MultiHeadAttention(8, 2, dropout=0.1, bias=True)
    twin = MultiHeadAttention(8, 2, bias=True)
    twin.load_state_dict(copy.deepcopy(layer).state_dict())
    x = torch.randn(1, 3, 8)
    assert torch.equal(twin.eval()(x), layer.eval()(x))
    traced = torch.export.export(twin, (x,)).module()
    torch.testing.assert_close(traced(x), twin(x))
    assert "num_heads=2, head_dim=4" in repr(layer)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("additive", [True, False])
def test_masks_can_be_exported(need_weights, additive):
    layer, x = MultiHeadAttention(8, 2).eval(), torch.randn(2, 3, 8)
    mask = to_additive(causal_mask(3)) if additive else causal_mask(3)
    options = {"mask": mask, "need_weights": need_weights}
    exported = torch.export.export(layer, (x,), options).module()
    torch.testing.assert_close(exported(x, **options), layer(x, **options))


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


BAD_LAYERS = {
    r"d_model=100 is not divisible by num_heads=3; choose num_heads from 1, 2, 4, 5, 10, …": {
        "d_model": 100,
        "num_heads": 3,
    },
    r"num_heads must be a positive integer, got 0": {"d_model": 8, "num_heads": 0},
    r"num_heads must be a positive integer, got True": {"d_model": 8, "num_heads": True},
    r"key_dim must be a positive integer, got 0": {"d_model": 8, "num_heads": 2, "key_dim": 0},
    r"num_heads must be a positive integer, got 2.0": {"d_model": 8, "num_heads": 2.0},
    r"num_heads=6 is not divisible by num_kv_heads=4; choose num_kv_heads from 1, 2, 3, 6": {
        "d_model": 12,
        "num_heads": 6,
        "num_kv_heads": 4,
    },
    r"head_dim must be a positive integer, got -1": {"d_model": 8, "num_heads": 2, "head_dim": -1},
    r"dropout is the share of weights to drop, from 0 to below 1, got '0'": {
        "d_model": 8,
        "num_heads": 2,
        "dropout": "0",
    },
    r"value_dim must be a positive integer, got 0": {"d_model": 8, "num_heads": 2, "value_dim": 0},
    r"dropout is the share of weights to drop, from 0 to below 1, got 1.5": {
        "d_model": 8,
        "num_heads": 2,
        "dropout": 1.5,
    },
}


@pytest.mark.parametrize(("message", "options"), BAD_LAYERS.items(), ids=lambda x: x if isinstance(x, str) else "")
def test_sizes_that_do_not_fit_are_refused(message, options, as_shipped):
    with pytest.raises(ValueError) as caught:
        MultiHeadAttention(**options)
    assert message in str(caught.value)


def x(*shape, **options):
    return torch.zeros(*shape, **options)


BAD_CALLS = {
    "queries must be (B, T, 8), got (3, 8); add a batch axis with x[None]": ((x(3, 8),), {}),
    "queries must be (B, T, 8), got (1, 3, 7)": ((x(1, 3, 7),), {}),
    "keys must be (B, T, 8), got (1, 3, 7)": ((x(1, 3, 8), x(1, 3, 7)), {}),
    "must agree, got queries (2, 3, 8), keys (1, 3, 8)": ((x(2, 3, 8), x(1, 3, 8)), {}),
    "keys and values must be equally long": ((x(1, 3, 8), x(1, 4, 8), x(1, 5, 8)), {}),
    "at least one query and one key, got queries (1, 0, 8)": ((x(1, 0, 8),), {}),
    "keys (1, 0, 8)": ((x(1, 2, 8), x(1, 0, 8)), {}),
    "queries are torch.float64, the layer's weights torch.float32; use x.to(torch.float32)": (
        (x(1, 3, 8, dtype=torch.float64),),
        {},
    ),
    "queries are torch.float16": ((x(1, 3, 8, dtype=torch.float16),), {}),
    "values came without keys": ((x(1, 3, 8),), {"values": x(1, 3, 8)}),
    "queries are on meta, the layer on cpu; use x.to('cpu')": ((x(1, 3, 8, device="meta"),), {}),
    "mask (4, 4) does not broadcast to the scores (1, 2, 3, 3)": ((x(1, 3, 8),), {"mask": torch.ones(4, 4).bool()}),
    "a mask over keys only, (B, Tk), becomes mask[:, None, :]": ((x(1, 3, 8),), {"mask": torch.ones(3).bool()}),
    "mask is on meta, the inputs are on cpu": ((x(1, 3, 8),), {"mask": x(3, 3, device="meta", dtype=torch.bool)}),
    "the additive mask holds NaN or +inf": ((x(1, 3, 8),), {"mask": torch.ones(3, 3).triu(1) * -math.inf}),
    "holds only 0 and 1; added to the scores it would hide nothing": ((x(1, 3, 8),), {"mask": torch.ones(3, 3).tril()}),
}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(("message", "call"), BAD_CALLS.items(), ids=lambda x: x if isinstance(x, str) else "")
def test_bad_input_is_told_what_was_expected_what_came_and_what_to_do(message, call, need_weights, as_shipped):
    args, options = call
    with pytest.raises(ValueError) as caught:
        MultiHeadAttention(8, 2)(*args, **options, need_weights=need_weights)
    assert message in str(caught.value)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    ("message", "tokens", "mask"),
    [
        ("queries are torch.int64", torch.zeros(1, 3, 8, dtype=torch.long), None),
        ("mask must be boolean (True = may attend) or floating", x(1, 3, 8), torch.ones(3, 3, dtype=torch.long).tril()),
        ("mask must be boolean (True = may attend) or floating", x(1, 3, 8), torch.ones(3, 3, dtype=torch.cfloat)),
    ],
)
def test_wrong_kinds_of_numbers_are_type_errors(message, tokens, mask, need_weights, as_shipped):
    with pytest.raises(TypeError) as caught:
        MultiHeadAttention(8, 2)(tokens, mask=mask, need_weights=need_weights)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("message", "q", "k", "v"),
    [
        ("q, k and v must all be (T, head_dim)", x(3), x(3), x(3)),
        ("q, k and v must all be (T, head_dim)", x(2, 3), x(1, 2, 3), x(1, 2, 3)),
        ("q and k must have the same head_dim, got 3 and 4", x(2, 3), x(2, 4), x(2, 4)),
        ("one dtype, got torch.float32, torch.float64", x(2, 3), x(2, 3, dtype=torch.float64), x(2, 3)),
        ("one device, got cpu, meta", x(2, 3), x(2, 3, device="meta"), x(2, 3)),
        ("k and v must be equally long", x(2, 3), x(2, 3), x(4, 3)),
        ("the leading axes (batch, heads) of q, k, v must agree", x(1, 2, 2, 3), x(1, 3, 2, 3), x(1, 3, 2, 3)),
        ("at least one query and one key", x(2, 3), x(0, 3), x(0, 3)),
        ("at least one query and one key", x(0, 3), x(2, 3), x(2, 3)),
        ("equal lengths of at least 1", x(2, 0), x(2, 0), x(2, 3)),
    ],
)
def test_attention_refuses_inputs_that_do_not_fit(message, q, k, v, as_shipped):
    with pytest.raises(ValueError) as caught:
        scaled_dot_product_attention(q, k, v)
    assert message in str(caught.value)


def test_attention_refuses_integers_and_impossible_dropout(as_shipped):
    with pytest.raises(TypeError, match="q, k and v must be floating, got torch.int64"):
        scaled_dot_product_attention(*[torch.ones(2, 3, dtype=torch.long)] * 3)
    with pytest.raises(ValueError, match="dropout"):
        scaled_dot_product_attention(*[torch.ones(2, 3)] * 3, dropout=1.0)


def test_dtypes_are_compared_also_where_there_is_no_autocast(as_shipped):
    with pytest.raises(ValueError, match="queries are torch.float16"), torch.device("meta"):
        MultiHeadAttention(8, 2)(torch.zeros(1, 3, 8, dtype=torch.float16))


def test_split_and_merge_refuse_other_ranks(as_shipped):
    with pytest.raises(ValueError, match=r"\(B, T, d_model\), got \(3, 8\)"):
        split_heads(torch.zeros(3, 8), 2)
    with pytest.raises(ValueError, match="the number of features=8 is not divisible by num_heads=3"):
        split_heads(torch.zeros(1, 3, 8), 3)
    with pytest.raises(ValueError, match=r"\(B, num_heads, T, head_dim\), got \(3, 8, 2\)"):
        merge_heads(torch.zeros(3, 8, 2))


def test_masks_may_have_fewer_axes_than_the_scores_and_never_more():
    q = torch.randn(2, 3, 4)
    everything, _ = scaled_dot_product_attention(q, q, q, torch.ones(3, 3).bool())
    torch.testing.assert_close(everything, scaled_dot_product_attention(q, q, q)[0])
    with pytest.raises(ValueError, match="does not broadcast"):
        scaled_dot_product_attention(q, q, q, torch.ones(1, 2, 3, 3).bool())


def test_a_mask_per_sample_never_meets_the_axis_of_heads():
    """With as many samples as heads a plain broadcast would hand sample i's mask to head i."""
    layer = MultiHeadAttention(8, 2)
    tokens = torch.randn(2, 4, 8)
    mask = padding_mask(torch.tensor([4, 1]), 4).expand(2, 4, 4)
    _, weights = layer(tokens, mask=mask, need_weights=True)
    assert (weights[0] > 0).all() and not weights[1, :, :, 1:].any()
    torch.testing.assert_close(layer(tokens, mask=mask)[1:], layer(tokens[1:], mask=mask[1:]))


def test_importing_the_package_loads_no_plotting_library_and_no_d2l():
    code = "import sys, mhalib; print([m for m in ('matplotlib', 'd2l', 'pandas', 'IPython') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

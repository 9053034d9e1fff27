"""Masks: what they allow, cell by cell, and what is refused."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from mhalib import MultiHeadAttention, causal_mask, combine_masks, padding_mask
from mhalib.masks import prepare_mask, to_additive, to_boolean, with_head_axis


@given(st.integers(1, 6), st.integers(0, 6))
def test_causal_queries_are_the_last_positions_of_the_keys(num_queries, cached):
    mask = causal_mask(num_queries, num_queries + cached)
    for i in range(num_queries):
        for j in range(num_queries + cached):
            assert mask[i, j] == (j <= cached + i)


def test_causal_agrees_with_torch_where_queries_and_keys_are_as_many():
    q = torch.randn(1, 2, 5, 4)
    torch.testing.assert_close(
        F.scaled_dot_product_attention(q, q, q, causal_mask(5)), F.scaled_dot_product_attention(q, q, q, is_causal=True)
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_padding_counts_the_valid_keys_of_each_sample(lens):
    mask = padding_mask(torch.tensor(lens), 5)
    assert mask.shape == (len(lens), 1, 5)
    assert mask.sum(-1).flatten().tolist() == lens
    assert mask.int().diff(dim=-1).le(0).all()  # valid keys come first


def test_padding_takes_one_length_per_query():
    mask = padding_mask(torch.tensor([[1, 2, 3], [0, 3, 1]]), 3)
    assert mask.int().tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[0, 0, 0], [1, 1, 1], [1, 0, 0]]]


def test_an_empty_batch_has_an_empty_mask():
    assert padding_mask(torch.zeros(0, dtype=torch.long), 3).shape == (0, 1, 3)


def test_masks_are_made_where_they_are_asked_for():
    assert causal_mask(3, device="meta").device.type == "meta"


@given(st.permutations(["T", "B", "h"]), st.integers(0, 2**31))
def test_combining_is_and_with_samples_and_heads_kept_apart(order, seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.rand(*shape, generator=generator) > 0.3

    # As many samples as heads: the case where a wrong alignment stays silent.
    masks = {"T": draw(3, 4), "B": draw(2, 3, 4), "h": draw(1, 2, 3, 4)}
    combined = combine_masks(*[masks[name] for name in order], None)
    assert combined.shape == (2, 2, 3, 4)
    for b in range(2):
        for h in range(2):
            assert torch.equal(combined[b, h], masks["T"] & masks["B"][b] & masks["h"][0, h])


def test_combining_keeps_as_many_axes_as_needed():
    assert combine_masks() is None and combine_masks(None) is None
    assert combine_masks(causal_mask(4), causal_mask(4)).shape == (4, 4)
    assert combine_masks(causal_mask(4), padding_mask(torch.tensor([1, 2]), 4)).shape == (2, 4, 4)


@given(st.integers(0, 2**31), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
def test_boolean_to_additive_and_back(seed, dtype):
    mask = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(seed)) > 0.5
    additive = to_additive(mask, dtype)
    assert additive.dtype == dtype and set(additive.unique().tolist()) <= {0.0, -math.inf}
    assert torch.equal(to_boolean(additive), mask)


@pytest.mark.parametrize("blocked", [-1e4, -1e9, torch.finfo(torch.float32).min, -math.inf])
def test_every_usual_way_to_write_never_is_understood(blocked):
    assert to_boolean(torch.tensor([[0.0, blocked]])).tolist() == [[True, False]]


def test_head_axis_goes_between_samples_and_queries():
    assert with_head_axis(torch.ones(3, 4)).shape == (1, 1, 3, 4)
    assert with_head_axis(torch.ones(2, 3, 4)).shape == (2, 1, 3, 4)
    assert with_head_axis(torch.ones(2, 5, 3, 4)).shape == (2, 5, 3, 4)


def test_prepared_additive_masks_take_the_dtype_of_the_scores():
    mask = prepare_mask(torch.tensor([[0.0, -math.inf]]), (1, 1, 1, 2), torch.float64, torch.device("cpu"))
    assert mask.dtype == torch.float64 and mask.shape == (1, 1, 1, 2)
    zeros = prepare_mask(torch.zeros(2, 2), (1, 1, 2, 2), torch.float32, torch.device("cpu"))
    assert not zeros.any()  # "add nothing" is no 0/1 mask


def test_an_additive_mask_is_looked_at_as_the_numbers_that_are_added():
    shape, device = (1, 1, 2, 2), torch.device("cpu")
    never = torch.full((2, 2), -1e9)  # -inf in float16, as it should be
    assert (prepare_mask(never, shape, torch.float16, device) == -math.inf).all()
    with pytest.raises(ValueError, match=r"NaN or \+inf in torch.float16"):
        prepare_mask(torch.full((2, 2), 1e6), shape, torch.float16, device)


def test_masks_without_values_pass_where_only_shapes_are_known():
    with torch.device("meta"):
        layer, x, mask = MultiHeadAttention(8, 2), torch.zeros(2, 3, 8), torch.zeros(3, 3)
        assert layer(x, mask=mask).shape == (2, 3, 8)
        assert layer(x, mask=mask, need_weights=True)[1].shape == (2, 2, 3, 3)
        assert padding_mask(torch.tensor([2, 3]), 3).shape == (2, 1, 3)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "needs num_queries <= num_keys, got num_queries=4, num_keys=3", lambda: causal_mask(4, 3)),
        (ValueError, "num_queries must be a positive integer, got 0", lambda: causal_mask(0)),
        (ValueError, "num_keys must be a positive integer, got 3.0", lambda: causal_mask(3, 3.0)),
        (ValueError, "num_keys must be a positive integer, got 0", lambda: padding_mask(torch.tensor([0]), 0)),
        (TypeError, "must hold integers, got torch.float32", lambda: padding_mask(torch.ones(2), 3)),
        (TypeError, "must hold integers, got torch.complex64", lambda: padding_mask(torch.ones(2).cfloat(), 3)),
        (TypeError, "must hold integers, got torch.bool", lambda: padding_mask(torch.ones(2, 3).bool(), 3)),
        (ValueError, "(B, Tq), one per query; got (2, 3, 4)", lambda: padding_mask(torch.ones(2, 3, 4).long(), 9)),
        (ValueError, "between 0 and num_keys=3, got 2 to 4", lambda: padding_mask(torch.tensor([2, 4]), 3)),
        (ValueError, "between 0 and num_keys=3, got -1 to 2", lambda: padding_mask(torch.tensor([-1, 2]), 3)),
        (
            ValueError,
            "masks must be on one device, got cpu and meta",
            lambda: combine_masks(causal_mask(2), causal_mask(2, device="meta")),
        ),
        (
            TypeError,
            "a mask must be boolean (True = may attend), got torch.float32",
            lambda: combine_masks(torch.zeros(2, 2)),
        ),
        (ValueError, "(2, 2) and (3, 3) do not broadcast", lambda: combine_masks(causal_mask(2), causal_mask(3))),
        (ValueError, "a mask is (Tq, Tk)", lambda: combine_masks(torch.ones(3).bool(), causal_mask(3))),
        (TypeError, "must be boolean (True = may attend), got torch.float32", lambda: to_additive(torch.zeros(2, 2))),
        (TypeError, "need a floating dtype", lambda: to_additive(causal_mask(2), torch.int64)),
        (TypeError, "knows -inf, got float32", lambda: to_additive(causal_mask(2), "float32")),
        (TypeError, "an additive mask is floating, got torch.bool", lambda: to_boolean(causal_mask(2))),
        (ValueError, "For 0/1 numbers use mask.bool()", lambda: to_boolean(torch.ones(2, 2).tril())),
        (ValueError, "this one holds other numbers", lambda: to_boolean(torch.tensor([[0.0, math.nan]]))),
    ],
)
def test_bad_masks_are_refused(error, message, call, as_shipped):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)

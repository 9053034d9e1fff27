"""Masks: each function against a loop over its cells, and what is refused."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib import causal_mask, combine_masks, padding_mask
from mhalib.masks import prepare_mask, to_additive, to_boolean, with_head_axis
from tests.helpers.refusals import accepted

seeds, size = st.integers(0, 2**31), st.integers(1, 4)


def drawn(seed, *shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.3


@given(st.integers(1, 6), st.integers(0, 6))
def test_causal_queries_are_the_last_positions_of_the_keys(num_queries, cached):
    num_keys = num_queries + cached
    wanted = [[j <= cached + i for j in range(num_keys)] for i in range(num_queries)]
    assert causal_mask(num_queries, num_keys).tolist() == wanted
    assert causal_mask(3, device="meta").device.type == "meta"


@given(st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2), max_size=4))
def test_padding_lets_the_first_keys_be_seen_of_each_sample_or_of_each_query(lens):
    lens = torch.tensor(lens, dtype=torch.int64).view(-1, 2)
    wanted = [[[j < length for j in range(5)] for length in row] for row in lens.tolist()]
    assert padding_mask(lens, 5).tolist() == wanted
    assert padding_mask(lens[:, 1], 5).tolist() == [[rows[1]] for rows in wanted]


@given(st.permutations(["T", "B", "h"]), st.integers(1, 3), seeds)
def test_combining_is_and_with_samples_and_heads_kept_apart(order, sides, seed):
    """With as many samples as heads a wrong alignment stays silent."""
    masks = {"T": drawn(seed, 3, 4), "B": drawn(seed + 1, 2, 3, 4), "h": drawn(seed + 2, 1, 2, 3, 4)}
    chosen = order[:sides]
    combined = combine_masks(*[masks[name] for name in chosen], None)
    assert combined.ndim == max(masks[name].ndim for name in chosen)
    found = with_head_axis(combined).expand(2, 2, 3, 4)
    for b in range(2):
        for h in range(2):
            cells = {"T": masks["T"], "B": masks["B"][b], "h": masks["h"][0, h]}
            wanted = torch.stack([cells[name] for name in chosen]).all(0)
            assert torch.equal(found[b, h], wanted)
    assert combine_masks() is None and combine_masks(None) is None


@given(seeds, st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
def test_boolean_to_additive_and_back(seed, dtype):
    mask = drawn(seed, 2, 3, 4)
    additive = to_additive(mask, dtype)
    assert additive.dtype == dtype
    assert additive.flatten().tolist() == [0.0 if may else -math.inf for may in mask.flatten().tolist()]
    assert torch.equal(to_boolean(additive), mask)


def test_every_usual_way_to_write_never_is_understood():
    never = [-1e4, -1e9, torch.finfo(torch.float32).min, -math.inf]
    assert to_boolean(torch.tensor([[0.0, *never]])).tolist() == [[True, False, False, False, False]]


def test_prepared_additive_masks_are_looked_at_as_the_numbers_that_are_added():
    cpu = torch.device("cpu")
    mask = prepare_mask(torch.tensor([[0.0, -math.inf]]), (1, 1, 1, 2), torch.float64, cpu)
    assert mask.dtype == torch.float64 and mask.shape == (1, 1, 1, 2)
    zeros = prepare_mask(torch.zeros(2, 2), (1, 1, 2, 2), torch.float32, cpu)
    assert not zeros.any()  # "add nothing" is no 0/1 mask
    never = torch.full((2, 2), -1e9)  # -inf in float16, as it should be
    assert (prepare_mask(never, (1, 1, 2, 2), torch.float16, cpu) == -math.inf).all()
    with pytest.raises(ValueError, match=r"NaN or \+inf in torch.float16"):
        prepare_mask(torch.full((2, 2), 1e6), (1, 1, 2, 2), torch.float16, cpu)


def test_bad_masks_are_refused(as_shipped):
    lens, two = torch.tensor([2, 2]), causal_mask(2)
    calls = {
        "needs num_queries <= num_keys, got num_queries=4, num_keys=3": lambda: causal_mask(4, 3),
        "num_queries must be a positive integer, got 0": lambda: causal_mask(0),
        "TypeError: valid_lens must hold integers, got torch.float32": lambda: padding_mask(lens.float(), 3),
        "TypeError: valid_lens must hold integers, got torch.bool": lambda: padding_mask(lens[None].bool(), 3),
        "(B, Tq), one per query; got (2, 3, 4)": lambda: padding_mask(torch.ones(2, 3, 4).long(), 9),
        "between 0 and num_keys=3, got 2 to 4": lambda: padding_mask(lens + torch.tensor([0, 2]), 3),
        "between 0 and num_keys=3, got -1 to 2": lambda: padding_mask(lens - torch.tensor([3, 0]), 3),
        "masks must be on one device, got cpu and meta": lambda: combine_masks(two, two.to("meta")),
        "(2, 2) and (3, 3) do not broadcast": lambda: combine_masks(two, causal_mask(3)),
        "a mask is (Tq, Tk)": lambda: combine_masks(torch.ones(3).bool(), causal_mask(3)),
        "must be a dense tensor": lambda: combine_masks(two.to_sparse()),
        "need a floating dtype": lambda: to_additive(two, torch.int64),
        "to hold -inf, got float32": lambda: to_additive(two, "float32"),
        "TypeError: an additive mask is floating, got torch.bool": lambda: to_boolean(two),
        "For 0/1 numbers use mask.bool()": lambda: to_boolean(torch.ones(2, 2).tril()),
        "only 0 (may attend) and -1e4 or less": lambda: to_boolean(torch.tensor([[0.0, -9999.0]])),
    }
    assert accepted(calls) == []

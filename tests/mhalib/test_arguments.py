"""What is no tensor, no mask or no attention weights is refused by every public function, in the same words."""

import re

import numpy as np
import pytest
import torch

from mhalib import (
    MultiHeadAttention,
    causal_mask,
    combine_masks,
    merge_heads,
    padding_mask,
    scaled_dot_product_attention,
    split_heads,
)
from mhalib.heads import attention_entropy
from mhalib.masks import to_additive, to_boolean, with_head_axis
from mhalib.plots import plot_attention, plot_reshape
from mhalib.reference import InterleavedAttention, torch_mask
from mhalib.widgets import HeadLab, HeadView

X, Q, MASK = torch.zeros(1, 3, 8), torch.zeros(3, 4), causal_mask(3)
LAYER = MultiHeadAttention(8, 2)
PLACES = {
    "queries": LAYER,
    "keys": lambda it: LAYER(X, it, X),
    "values": lambda it: LAYER(X, X, it),
    "mask": lambda it: LAYER(X, mask=it),
    "mask, with weights": lambda it: LAYER(X, mask=it, need_weights=True),
    "q": lambda it: scaled_dot_product_attention(it, Q, Q),
    "k": lambda it: scaled_dot_product_attention(Q, it, Q),
    "v": lambda it: scaled_dot_product_attention(Q, Q, it),
    "x": lambda it: split_heads(it, 2),
    "x, to merge": merge_heads,
    "valid_lens": lambda it: padding_mask(it, 3),
    "a mask": lambda it: combine_masks(MASK, it),
    "mask, to add": to_additive,
    "mask, added": to_boolean,
    "mask, its axes": with_head_axis,
    "mask, for torch": lambda it: torch_mask(it, 1, 1, 3, 3),
    "mask, drawn": lambda it: plot_attention(torch.zeros(3, 3), mask=it),
    "weights": plot_attention,
    "labels": lambda it: plot_reshape({"x": it}, lambda n: 0),
    "inputs": InterleavedAttention(8, 8, 2),
}


OPTIONAL = {"keys", "values", "mask", "mask, with weights", "a mask", "mask, drawn"}  # None means something here
OTHERS = {"list": [[1.0]], "ndarray": np.ones((3, 3), dtype=bool), "bool": True, "NoneType": None}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_tensor_is_refused_by_its_name(place, kind, as_shipped):
    if kind == "NoneType" and place in OPTIONAL:
        return
    with pytest.raises(TypeError) as caught:
        PLACES[place](OTHERS[kind])
    name = place.split(",")[0]
    assert re.search(rf"{name} must be a tensor, got (a )?{kind}\b.*; ", str(caught.value))


BOOLEAN = {  # what takes boolean masks only
    "mask": to_additive,
    "a mask": lambda it: combine_masks(MASK, it),
    "mask, for torch": lambda it: torch_mask(it, 1, 1, 3, 3),
    "mask, drawn": lambda it: plot_attention(torch.zeros(3, 3), mask=it),
    "mask, shown": lambda it: HeadView(torch.eye(3), mask=it),
    "a mask, to play with": lambda it: HeadLab(Q, Q, Q, num_heads=2, mask=it),
}


@pytest.mark.parametrize("mask", [MASK.int(), to_additive(MASK)], ids=["0 and 1", "additive"])
@pytest.mark.parametrize("place", BOOLEAN)
def test_what_is_no_boolean_mask_is_refused_in_the_same_words(place, mask, as_shipped):
    with pytest.raises(TypeError) as caught:
        BOOLEAN[place](mask)
    name = place.split(",")[0]
    assert str(caught.value).startswith(
        f"{name} must be boolean (True = may attend), got {mask.dtype}; for 0/1 numbers"
    )


WEIGHTS = {"drawn": plot_attention, "measured": attention_entropy, "shown": HeadView}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("take", WEIGHTS.values(), ids=WEIGHTS)
def test_a_softmax_of_any_precision_makes_attention_weights(take, dtype):
    take((3 * torch.randn(4, 50, 50)).softmax(-1).to(dtype))


@pytest.mark.parametrize("take", WEIGHTS.values(), ids=WEIGHTS)
def test_all_draw_the_line_at_the_same_place(take):
    take(torch.tensor([[-0.0009, 1.0009], [1.0, 0.0]]))
    for wrong in ([-0.002, 1.002], [1.01, -0.01]):
        with pytest.raises(
            ValueError, match=r"lie between 0 and 1.*row \[(0, )?1\] of .* and sums to 1; apply softmax"
        ):
            take(torch.tensor([[1.0, 0.0], wrong]))


@pytest.mark.parametrize("dtype, off", [(torch.float32, 0.002), (torch.bfloat16, 0.016)])
@pytest.mark.parametrize("take", [attention_entropy, HeadView], ids=["measured", "shown"])
def test_a_row_must_sum_to_1_within_what_its_precision_can_say(take, dtype, off):
    with pytest.raises(ValueError, match=r"each row sums to 1 over the keys.*row \[(0, )?1\] of"):
        take(torch.tensor([[0.5, 0.5], [0.5, 0.5 - off]], dtype=dtype))


def test_a_softmax_over_the_wrong_axis_is_known_by_its_sums():
    weights = torch.tensor([[0.9, 0.3], [0.1, 0.7]])
    for take in (attention_entropy, HeadView):
        with pytest.raises(ValueError, match=r"over axis -2 they do sum to 1: is it softmax\(-1\) that was meant"):
            take(weights)


def test_what_rounding_put_below_0_is_cut_off():
    assert attention_entropy(torch.tensor([[-0.0005, 1.0005]])).tolist() == [0]

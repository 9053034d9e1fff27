"""What is no tensor is refused by every public function, in the same words."""

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
from mhalib.masks import to_additive, to_boolean, with_head_axis
from mhalib.plots import plot_attention, plot_reshape
from mhalib.reference import InterleavedAttention, torch_mask

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

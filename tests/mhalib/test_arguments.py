"""What is no tensor, no mask or no attention weights is refused by every public function, in the same words."""

import numpy as np
import torch

from headview import HeadLab, HeadSwitchboard, HeadView, SealedBox
from mhalib import MultiHeadAttention, causal_mask, combine_masks, merge_heads, padding_mask
from mhalib import scaled_dot_product_attention as attend
from mhalib.heads import attention_entropy
from mhalib.masks import to_additive
from mhalib.plots import plot_attention, plot_reshape
from mhalib.reference import InterleavedAttention, torch_mask
from tests.helpers.refusals import accepted

X, Q, MASK = torch.zeros(1, 3, 8), torch.zeros(3, 4), causal_mask(3)
LAYER = MultiHeadAttention(8, 2)
BOOLEAN = [  # what it is called in the message, and who takes it: boolean masks only
    ("mask", to_additive),
    ("a mask", lambda it: combine_masks(MASK, it)),
    ("mask", lambda it: torch_mask(it, 1, 1, 3, 3)),
    ("mask", lambda it: plot_attention(torch.zeros(3, 3), mask=it)),
]
VIEWS = [
    ("mask", lambda it: HeadView(torch.eye(3), mask=it)),
    ("a mask", lambda it: HeadLab(Q, Q, Q, num_heads=2, mask=it)),
]
TENSORS = [  # any tensor
    ("queries", LAYER),
    ("mask", lambda it: LAYER(X, mask=it)),
    ("k", lambda it: attend(Q, it, Q)),
    ("x", merge_heads),
    ("valid_lens", lambda it: padding_mask(it, 3)),
    ("weights", plot_attention),
    ("x: labels", lambda it: plot_reshape({"x": it}, lambda n: 0, [])),
    ("inputs", InterleavedAttention(8, 8, 2)),
]


def test_what_is_no_tensor_and_what_is_no_boolean_mask_is_refused_by_its_name(as_shipped):
    failures = []
    for name, take in TENSORS + BOOLEAN:
        for other in ([[1.0]], np.ones((3, 3), dtype=bool), True):
            failures += accepted({f"TypeError: {name} must be a tensor, got ": lambda it=other, take=take: take(it)})
    for name, take in BOOLEAN + VIEWS:
        for other in (MASK.int(), to_additive(MASK)):
            words = f"TypeError: {name} must be boolean (True = may attend), got {other.dtype}"
            failures += accepted({words: lambda it=other, take=take: take(it)})
    assert failures == []


def test_what_no_view_can_show_is_refused(as_shipped):
    stacked = torch.zeros(1, 2, 3, 4)
    box = {"d_model": 2, "reach": 1.0, **dict.fromkeys(("start", "direction", "probe"), torch.ones(2))}
    calls = {
        "TypeError: weights is None; ": lambda: HeadView(None),
        "TypeError: every map of the dict is None; ": lambda: HeadView({"first": None}),
        "q must be (T, d_model) or (1, T, d_model) before": lambda: HeadLab(stacked, num_heads=2),
        "code_inputs says how you write q, k": lambda: HeadLab(Q, Q, num_heads=2, code_inputs=["a"]),
        "score_name must say what is measured": lambda: HeadSwitchboard(len, 1, 2, score_name=""),
        "f must return one floating tensor": lambda: SealedBox(lambda x: (x, x), **box),
    }
    assert accepted(calls) == []


def test_all_draw_the_line_of_what_attention_weights_are_at_the_same_place():
    failures = []
    wrong = torch.tensor([[[1.0, 0.0], [-0.002, 1.002]], [[1.0, 0.0], [1.01, -0.01]]])
    for take in (plot_attention, attention_entropy, HeadView):
        for dtype in (torch.float32, torch.bfloat16):
            take((3 * torch.randn(4, 50, 50)).softmax(-1).to(dtype))
        take(torch.tensor([[-0.0009, 1.0009], [1.0, 0.0]]))
        for weights in wrong:
            failures += accepted({"lie between 0 and 1": lambda it=weights, take=take: take(it)})
    for take in (attention_entropy, HeadView):
        for dtype, off in ((torch.float32, 0.002), (torch.bfloat16, 0.016)):
            short = torch.tensor([[0.5, 0.5], [0.5, 0.5 - off]], dtype=dtype)
            failures += accepted({"each row sums to 1 over the keys": lambda it=short, take=take: take(it)})
        turned = torch.tensor([[0.9, 0.3], [0.1, 0.7]])
        failures += accepted({"over axis -2 they do sum to 1": lambda it=turned, take=take: take(it)})
    assert failures == []
    assert attention_entropy(torch.tensor([[-0.0005, 1.0005]])).tolist() == [0]  # what rounding put below 0 is cut off

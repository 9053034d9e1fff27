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

pytestmark = pytest.mark.usefixtures("one_thread")


def call_torch(other, inputs, mask):
    blocked = torch_mask(mask, len(mask), other.num_heads, inputs[0].shape[1], inputs[1].shape[1])
    return other(*inputs, attn_mask=blocked, average_attn_weights=False)


def call_d2l(other, inputs, mask):
    output = other(*inputs, mask.expand(-1, inputs[0].shape[1], -1).sum(-1))  # said as one length per query
    return output, other.attention.attention_weights.unflatten(0, (-1, other.num_heads))


def call_interleaved(other, inputs, mask):
    return other(inputs[0], mask, need_weights=True)


LIBRARIES = {  # there, back, a call that gives output and maps, and how its layers differ from ours
    "torch": (to_torch, from_torch, call_torch, {"d_model_queries": True}),
    "d2l": (to_d2l, from_d2l, call_d2l, {}),
    "interleaved": (to_interleaved, from_interleaved, call_interleaved, {"cross": False}),
}


@pytest.mark.parametrize("library", LIBRARIES)
@given(st.data())
def test_a_layer_of_a_library_agrees_in_outputs_weights_and_gradients(library, data):
    """After one step down the gradient the two are the same layer again, so all gradients agree."""
    there, back, call, options = LIBRARIES[library]
    layer, inputs = data.draw(layers(plain=True, **options))
    inputs = inputs if len(inputs) == 3 else inputs * 3
    batch, num_queries, num_keys = len(inputs[0]), inputs[0].shape[1], inputs[1].shape[1]
    lens = data.draw(st.lists(st.integers(1, num_keys), min_size=batch, max_size=batch))
    mask = padding_mask(torch.tensor(lens), num_keys)
    if num_queries == num_keys and data.draw(st.booleans()):
        mask = combine_masks(mask, causal_mask(num_queries))
    other = there(layer)
    for a, b in zip(back(other).parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)  # compares the dtypes as well
    (output, weights), (wanted, maps) = layer(*inputs, mask=mask, need_weights=True), call(other, inputs, mask)
    close(output, wanted)
    close(weights, maps)
    direction = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).view_as(output)
    ours, theirs = (torch.autograd.grad(x, inputs[0], direction, retain_graph=True)[0] for x in (output, wanted))
    close(ours, theirs)
    for one, result in ((layer, output), (other, wanted)):
        result.backward(direction)
        for parameter in one.parameters():
            parameter.data -= parameter.grad
    for a, b in zip(back(other).parameters(), layer.parameters(), strict=True):
        close(a, b)


def test_interleaved_rows_on_readable_numbers():
    # Two heads of two features: rows q0 q0 q1 q1 | k0 k0 k1 k1 | v0 v0 v1 v1.
    assert interleaved_rows(2, 2).tolist() == [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]


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


def test_d2l_of_version_1_is_read_and_written(monkeypatch, as_shipped):
    """Its input sizes are known only after the first call."""
    d2l = import_d2l()

    class Lazy(nn.Module):
        forward = d2l.MultiHeadAttention.forward

        def __init__(self, num_hiddens, num_heads, dropout, bias=False, **kwargs):
            super().__init__()
            self.num_heads, self.attention = num_heads, d2l.DotProductAttention(dropout)
            self.W_q, self.W_k, self.W_v, self.W_o = (nn.LazyLinear(num_hiddens, bias=bias) for _ in range(4))

    monkeypatch.setattr(d2l, "MultiHeadAttention", Lazy)
    layer = MultiHeadAttention(8, 2, query_dim=5, key_dim=6, value_dim=7)
    q, k, v, lens = torch.randn(2, 3, 5), torch.randn(2, 4, 6), torch.randn(2, 4, 7), torch.tensor([4, 2])
    other = to_d2l(layer)
    assert isinstance(other, Lazy)
    close(other(q, k, v, lens), layer(q, k, v, padding_mask(lens, 4)))
    close(from_d2l(other)(q, k, v), layer(q, k, v))
    with pytest.raises(ValueError, match="call it once on real input"):
        from_d2l(Lazy(8, 2, 0.0))


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

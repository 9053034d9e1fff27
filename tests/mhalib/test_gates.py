"""Gates on heads: against layers whose weights are set to zero by hand."""

import copy

import pytest
import torch
from torch import nn

from mhalib.attention import MultiHeadAttention
from mhalib.experiments import LookupModel
from mhalib.heads import (
    attention_layers,
    gated_heads,
    head_means,
)
from tests.helpers.attention_pair import KEEP, Pair, inputs, keep_rows, zeroed


def test_layers_in_the_order_of_the_modules():
    assert list(attention_layers(Pair())) == ["encoder", "decoder", "cross"]
    assert list(attention_layers(LookupModel(5, 4, 1, 8, 2, num_layers=2))) == ["layers.0", "layers.1"]
    with pytest.raises(ValueError, match="Linear holds no mhalib.MultiHeadAttention.*reference.from_torch"):
        attention_layers(nn.Linear(2, 2))


@pytest.mark.parametrize("bias", [False, True])
def test_a_gate_of_zero_is_a_column_of_zeros(bias):
    model, (x, y) = Pair(bias).double(), inputs()
    intact = model(x, y)
    with gated_heads(model, keep_rows()):
        gated = model(x, y)
    torch.testing.assert_close(gated, zeroed(model, KEEP)(x, y))
    assert not torch.allclose(gated, intact) and torch.equal(model(x, y), intact)


def test_gates_reach_the_output_with_and_without_weights():
    layer, x = MultiHeadAttention(8, 2), torch.randn(2, 3, 8)
    with gated_heads(layer, torch.tensor([[0.0, 0.5]])):
        torch.testing.assert_close(layer(x), layer(x, need_weights=True)[0])
        gated = layer(x)
    half = copy.deepcopy(layer)
    half.W_o.weight.data *= torch.tensor([0.0, 0.5]).repeat_interleave(4)
    torch.testing.assert_close(gated, half(x))


def test_gates_for_each_sample():
    layer, x = MultiHeadAttention(8, 2), torch.randn(3, 4, 8)
    gates = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    with gated_heads(layer, [gates]):
        found = layer(x)
    for sample, gate in enumerate(gates):
        with gated_heads(layer, gate[None]):
            torch.testing.assert_close(found[sample], layer(x)[sample])
    with gated_heads(layer, [gates]), pytest.raises(ValueError, match="gates for 3 samples met a batch of 2"):
        layer(x[:2])


def test_the_gates_go_after_an_error_as_well():
    layer, x = MultiHeadAttention(8, 2), torch.randn(3, 4, 8)
    before = layer(x)
    with pytest.raises(ZeroDivisionError), gated_heads(layer, torch.zeros(1, 2)):
        assert layer(x).count_nonzero() == 0
        raise ZeroDivisionError
    assert torch.equal(layer(x), before)


def test_means_stand_in_for_a_head():
    layer, x = MultiHeadAttention(8, 2), torch.randn(3, 4, 8)
    seen = []
    handle = layer.W_o.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    (mean,) = head_means(layer, lambda layer: (layer(x[:2]), layer(x[2:])))
    layer(x)
    heads = seen[-1].unflatten(-1, (2, 4))  # (B, T, num_heads, head_dim)
    torch.testing.assert_close(mean, heads.mean((0, 1)))
    with gated_heads(layer, torch.tensor([[1, 0]]), [mean]):
        found = layer(x)
    handle.remove()
    heads[:, :, 1] = mean[1]
    torch.testing.assert_close(found, layer.W_o(heads.flatten(-2)))


def test_means_of_a_layer_that_did_not_run_are_refused():
    with pytest.raises(ValueError, match="run did not use the layer 'cross'"):
        head_means(Pair(), lambda model: (model.encoder(torch.randn(1, 2, 12)), model.decoder(torch.randn(1, 2, 8))))


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (torch.ones(2, 4), r"gates must have one row per layer, of \[4, 2, 4\] heads, got \[\(4,\), \(4,\)\]"),
        ([torch.ones(4), torch.ones(2), torch.ones(3)], r"got \[\(4,\), \(2,\), \(3,\)\]"),
        ([torch.tensor(1.0)] * 3, r"got \[\(\), \(\), \(\)\]"),
    ],
)
def test_gates_that_do_not_fit_are_refused(gates, message, as_shipped):
    with pytest.raises(ValueError, match=message), gated_heads(Pair(), gates):
        pass


def test_other_misuse_of_gates_is_refused(as_shipped):
    with pytest.raises(TypeError, match="each row of gates must be a tensor, got list"), gated_heads(Pair(), KEEP):
        pass
    means = [torch.zeros(4, 3), torch.zeros(2, 8), torch.zeros(4, 3)]
    with pytest.raises(ValueError, match=r"means must be \[\(4, 3\), \(2, 8\), \(4, 2\)\], one per layer"):
        with gated_heads(Pair(), keep_rows(), means):
            pass

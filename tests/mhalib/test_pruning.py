"""Gates, importance and pruning: against layers whose weights are set to zero by hand, and by finite differences."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from mhalib.attention import MultiHeadAttention
from mhalib.experiments import LookupModel, count_parameters
from mhalib.heads import (
    attention_layers,
    gated_heads,
    gradient_importance,
    greedy_pruning,
    head_means,
    mean_importance,
    prune_heads,
    prune_in_order,
    zero_importance,
)
from tests.helpers.refusals import accepted


class Pair(nn.Module):
    """An encoder and a decoder with attention of every kind: other sizes, biases, wide heads, dropout."""

    def __init__(self, bias=True, dropout=0.0):
        super().__init__()
        self.encoder = MultiHeadAttention(12, 4, bias=bias, dropout=dropout)
        self.decoder = MultiHeadAttention(8, 2, head_dim=8, bias=bias, dropout=dropout)
        self.cross = MultiHeadAttention(8, 4, key_dim=12, bias=bias, dropout=dropout)

    def forward(self, x, y):
        source = x + self.encoder(x)
        y = y + self.decoder(y, mask=torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).tril())
        return y + self.cross(y, source)


def inputs(dtype=torch.float64):
    return torch.randn(3, 5, 12, dtype=dtype), torch.randn(3, 6, 8, dtype=dtype)


def squares(x, y):
    return lambda model: model(x, y).square().sum(-1).mean(-1)


KEEP = [[True, False, True, False], [False, True], [False, True, True, True]]


def keep_rows(rows=KEEP):
    return [torch.tensor(row) for row in rows]


def zeroed(model, rows):
    """The same model, with the columns of W_o set to zero by hand where a head is off."""
    model = copy.deepcopy(model)
    for layer, row in zip((model.encoder, model.decoder, model.cross), rows, strict=True):
        for head, on in enumerate(row):
            if not on:
                layer.W_o.weight.data[:, head * layer.head_dim : (head + 1) * layer.head_dim] = 0
    return model


# ------------------------------------------------------------------------------------------ gates


def test_layers_come_in_the_order_of_the_modules():
    assert list(attention_layers(Pair())) == ["encoder", "decoder", "cross"]
    assert list(attention_layers(LookupModel(5, 4, 1, 8, 2, num_layers=2))) == ["layers.0", "layers.1"]
    with pytest.raises(ValueError, match="Linear holds no mhalib.MultiHeadAttention.*reference.from_torch"):
        attention_layers(nn.Linear(2, 2))


@pytest.mark.parametrize("bias", [False, True])
def test_a_gate_of_zero_is_a_column_of_zeros_until_the_with_ends(bias):
    model, (x, y) = Pair(bias).double(), inputs()
    intact = model(x, y)
    with pytest.raises(ZeroDivisionError), gated_heads(model, keep_rows()):
        gated = model(x, y)
        raise ZeroDivisionError
    torch.testing.assert_close(gated, zeroed(model, KEEP)(x, y))
    assert not torch.allclose(gated, intact) and torch.equal(model(x, y), intact)


def test_gates_turn_heads_down_also_for_each_sample_with_and_without_weights():
    layer, x = MultiHeadAttention(8, 2), torch.randn(3, 4, 8)
    gates = torch.tensor([[0.0, 0.5], [0, 1], [1, 1]])
    with gated_heads(layer, [gates]):
        found = layer(x)
        torch.testing.assert_close(layer(x, need_weights=True)[0], found)
    for sample, gate in enumerate(gates):
        by_hand = copy.deepcopy(layer)
        by_hand.W_o.weight.data *= gate.repeat_interleave(4)
        torch.testing.assert_close(found[sample], by_hand(x)[sample])
    with gated_heads(layer, [gates]), pytest.raises(ValueError, match="gates for 3 samples met a batch of 2"):
        layer(x[:2])


def test_means_over_tokens_and_samples_stand_in_for_a_head():
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
    with pytest.raises(ValueError, match="run did not use the layer 'cross'"):
        head_means(Pair(), lambda model: (model.encoder(torch.randn(1, 2, 12)), model.decoder(torch.randn(1, 2, 8))))


def test_gates_and_means_that_do_not_fit_are_refused(as_shipped):
    def enter(gates, means=None):
        with gated_heads(Pair(), gates, means):
            pass

    calls = {
        "one row per layer, of [4, 2, 4] heads, got [(4,), (4,)]": partial(enter, torch.ones(2, 4)),
        "got [(4,), (2,), (3,)]": partial(enter, [torch.ones(4), torch.ones(2), torch.ones(3)]),
        "got [(), (), ()]": partial(enter, [torch.tensor(1.0)] * 3),
        "TypeError: each row of gates must be a tensor, got list": partial(enter, KEEP),
        "means must be [(4, 3), (2, 8), (4, 2)], one per layer": partial(enter, keep_rows(), [torch.zeros(4, 3)] * 3),
    }
    assert accepted(calls) == []


# ------------------------------------------------------------------------------------------ importance


def test_zero_importance_is_the_loss_without_the_head():
    model, (x, y) = Pair().double(), inputs()
    losses = squares(x, y)
    found = zero_importance(model, losses)
    assert found.shape == (3, 4) and found[1, 2:].isnan().all()
    for layer, row in enumerate(KEEP):
        for head in range(len(row)):
            rows = [[True] * len(row) for row in KEEP]
            rows[layer][head] = False
            expected = losses(zeroed(model, rows)).mean() - losses(model).mean()
            assert found[layer, head].item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)


def test_mean_importance_leaves_what_a_head_always_says():
    layer, x = MultiHeadAttention(8, 2, bias=True), torch.randn(20, 4, 8)
    with torch.no_grad():
        layer.W_v.weight[:4] = 0  # head 0 says its bias, whatever it sees
        layer.W_v.bias.fill_(2.0)
    losses = lambda layer: (layer(x) - target).square().mean((1, 2))  # noqa: E731
    target = layer(x).detach()
    zero, mean = zero_importance(layer, losses)[0], mean_importance(layer, losses)[0]
    assert zero[0] > 0.05 and mean[0] == pytest.approx(0, abs=1e-9)
    assert zero[1] > mean[1] > 1e-3
    means = head_means(layer, lambda layer: layer(x))
    torch.testing.assert_close(mean_importance(layer, losses, means)[0], mean)
    means[0][0] += 1.0  # other means, another result
    assert mean_importance(layer, losses, means)[0, 0] > 0.01


def test_gradient_importance_by_finite_differences_sample_by_sample():
    model, (x, y) = Pair().double(), inputs()
    signs = torch.tensor([1.0, -1.0, 1.0])  # gradients of samples must not cancel
    losses = lambda model: signs * squares(x, y)(model)  # noqa: E731
    found = gradient_importance(model, losses)
    step = 1e-5
    for layer, row in enumerate(KEEP):
        for head in range(len(row)):
            ends = []
            for sign in (1, -1):
                gates = [torch.ones(len(row), dtype=torch.float64) for row in KEEP]
                gates[layer][head] += sign * step
                with gated_heads(model, gates):
                    ends.append(losses(model))
            expected = ((ends[0] - ends[1]) / (2 * step)).abs().mean()
            assert found[layer, head].item() == pytest.approx(expected.item(), rel=1e-6)
    with torch.no_grad():  # a frozen model is measured as well
        torch.testing.assert_close(gradient_importance(model.requires_grad_(False), losses), found, equal_nan=True)


def test_measuring_leaves_the_model_as_it_was():
    model, (x, y) = Pair(dropout=0.5), inputs(torch.float32)
    model.cross.eval()
    weights, losses = copy.deepcopy(model.state_dict()), squares(x, y)
    for measure in (zero_importance, mean_importance, gradient_importance):
        first, again = measure(model, losses), measure(model, losses)  # no dropout in between: the same numbers
        torch.testing.assert_close(first, again, equal_nan=True, rtol=0, atol=0)
    assert model.training and model.encoder.training and not model.cross.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())


# ------------------------------------------------------------------------------------------ in order, and greedily


def one_lookup():
    """A model of one layer and four heads made by hand: each head hands a part of the answer to the readout."""
    layer = MultiHeadAttention(8, 4)
    x = torch.randn(16, 3, 8)
    scale = torch.tensor([3.0, 0.1, 1.0, 0.3])
    layer.W_o.weight.data = torch.eye(8) * scale.repeat_interleave(2)
    target = layer(x).detach()
    return layer, lambda layer: (layer(x) - target).square().sum(-1).mean(-1)


def test_greedy_takes_the_cheapest_first_and_an_importance_is_an_order_as_well():
    layer, losses = one_lookup()
    found = greedy_pruning(layer, losses)
    assert found.order == [(0, 1), (0, 3), (0, 2), (0, 0)]
    assert len(found.losses) == 5 and found.losses[0] == 0 and sorted(found.losses) == found.losses
    assert greedy_pruning(layer, losses, steps=2).order == found.order[:2]
    for order in (found.order, zero_importance(layer, losses)):
        again = prune_in_order(layer, losses, order)
        assert again.order == found.order and again.losses == pytest.approx(found.losses)
    means = [torch.ones(4, 2)]  # of other heads: they cost something, and all alike in both
    found = greedy_pruning(layer, losses, means=means)
    assert found.losses[-1] > greedy_pruning(layer, losses).losses[-1] + 0.1
    assert prune_in_order(layer, losses, found.order, means=means).losses == pytest.approx(found.losses)
    model, (x, y) = Pair(), inputs(torch.float32)
    order = prune_in_order(model, squares(x, y), zero_importance(model, squares(x, y))).order  # with NaN in it
    assert sorted(order) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)]


def test_greedy_sees_that_two_heads_share_their_work():
    layer, x = MultiHeadAttention(8, 4), torch.randn(32, 3, 8)
    with torch.no_grad():
        for linear in (layer.W_q, layer.W_k, layer.W_v):
            linear.weight[2:4] = linear.weight[:2]  # head 1 does what head 0 does
        layer.W_o.weight[:] = 0
        layer.W_o.weight[:2, :2] = layer.W_o.weight[:2, 2:4] = torch.eye(2) * 3
        layer.W_o.weight[2:4, 4:6] = layer.W_o.weight[4:6, 6:8] = torch.eye(2) * 2
    target = layer(x).detach()
    # Half of the signal is enough: nothing is lost before both are gone.
    losses = lambda layer: (layer(x) - target).abs().sum(-1).mean(-1).sub(2).clamp(min=0)  # noqa: E731
    importance = zero_importance(layer, losses)[0]
    greedy = greedy_pruning(layer, losses).order
    assert importance[0] == pytest.approx(importance[1])
    assert {greedy[0], greedy[1]} != {(0, 0), (0, 1)}


# ------------------------------------------------------------------------------------------ cutting


@pytest.mark.parametrize("bias", [False, True])
def test_pruned_and_gated_agree_and_the_heads_are_really_gone(bias):
    model, (x, y) = Pair(bias).double().eval(), inputs()
    weights = copy.deepcopy(model.state_dict())
    small = prune_heads(model, keep_rows())
    with gated_heads(model, keep_rows()):
        gated = model(x, y)
    assert (small(x, y) - gated).abs().max() <= 1e-12
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert not small.training
    _, maps = model.encoder(x, need_weights=True)
    torch.testing.assert_close(small.encoder(x, need_weights=True)[1], maps[:, [0, 2]])
    # two heads of 3 in 12 features, one of 8 in 8, one of 2 in 8 and 12; each with its three biases
    gone = 2 * (4 * 12 * 3 + 9 * bias) + (4 * 8 * 8 + 24 * bias) + (2 * (8 + 8 + 12 + 12) + 6 * bias)
    assert count_parameters(model) - count_parameters(small) == gone
    assert "num_heads=2" in repr(small.encoder) and "in_features=6, out_features=12" in repr(small.encoder)
    everything = [torch.ones(n, dtype=torch.bool) for n in (4, 2, 4)]
    assert torch.equal(prune_heads(model, everything)(x, y), model(x, y))


def test_a_pruned_model_can_be_trained_stored_measured_and_pruned_again():
    model, (x, y) = Pair().double(), inputs()
    model.encoder.W_q.requires_grad_(False)
    small = prune_heads(model, keep_rows())
    small(x, y).square().mean().backward()
    assert small.encoder.W_q.weight.grad is None and small.encoder.W_k.weight.grad.count_nonzero() > 0
    twin = prune_heads(Pair().double(), keep_rows())
    twin.load_state_dict(small.state_dict())
    assert torch.equal(twin(x, y), small(x, y))
    missing = zero_importance(small, squares(x, y)).isnan().sum(1)
    assert missing.tolist() == [1, 2, 0]
    again = prune_heads(small, keep_rows([[True, False], [True], [True, True, False]]))
    first = keep_rows([[True, False, False, False], [False, True], [False, True, True, False]])
    torch.testing.assert_close(again(x, y), prune_heads(model, first)(x, y))


@pytest.mark.parametrize("kept", [[1, 1, 0, 0, 1, 1], [1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0]])
def test_grouped_heads_are_cut_in_whole_or_evenly(kept):
    layer, x = MultiHeadAttention(12, 6, num_kv_heads=3, bias=True).double(), torch.randn(2, 5, 12).double()
    keep = torch.tensor([kept]).bool()
    small = prune_heads(layer, keep)
    with gated_heads(layer, keep):
        torch.testing.assert_close(small(x), layer(x), rtol=0, atol=1e-12)
    assert small.num_kv_heads == keep.view(3, 2).any(1).sum() and small.W_k.weight.shape == (2 * small.num_kv_heads, 12)


# ------------------------------------------------------------------------------------------ what is refused


def test_losses_orders_and_cuts_that_cannot_be_are_refused(as_shipped):
    model, (x, y) = Pair(), inputs(torch.float32)
    failures = []
    for measure in (zero_importance, gradient_importance, greedy_pruning):
        calls = {
            "one floating loss per sample, (B,), got torch.float32 ()": lambda model: model(x, y).mean(),
            "TypeError: what losses(model) returns must be a tensor": lambda model: model(x, y).mean().item(),
        }
        failures += accepted({words: partial(measure, model, losses) for words, losses in calls.items()})
    layer, losses = one_lookup()
    grouped, uneven = MultiHeadAttention(12, 6, num_kv_heads=3), torch.tensor([[1, 1, 0, 0, 1, 0]]).bool()
    no_gradient = partial(gradient_importance, model, lambda model: model(x, y).detach().mean((1, 2)))
    failures += accepted(
        {
            "the losses do not depend on the heads": no_gradient,
            "got [(0, 4)]": partial(prune_in_order, layer, losses, [(0, 4)]),
            "each head at most once": partial(prune_in_order, layer, losses, [(0, 1), (0, 1)]),
            "at most the number of heads, 4, got 5": partial(greedy_pruning, layer, losses, steps=5),
            "among 2 heads and would keep [1, 2]": partial(prune_heads, grouped, uneven),
            "would keep no head": partial(prune_heads, grouped, uneven & False),
            "TypeError: keep must be boolean": partial(prune_heads, grouped, torch.ones(1, 6)),
            "keep must have one row per layer, of [6] heads, got [(5,)]": partial(prune_heads, grouped, uneven[:, :5]),
        }
    )
    assert failures == []

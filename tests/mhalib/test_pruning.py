"""Gates, importance and pruning: against layers whose weights are set to zero by hand, and by finite differences."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from mhalib.attention import MultiHeadAttention
from mhalib.experiments import count_parameters
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

    def __init__(self, **options):
        super().__init__()
        self.encoder = MultiHeadAttention(12, 4, **options)
        self.decoder = MultiHeadAttention(8, 2, head_dim=8, **options)
        self.cross = MultiHeadAttention(8, 4, key_dim=12, **options)

    def forward(self, x, y):
        source = x + self.encoder(x)
        y = y + self.decoder(y, mask=torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).tril())
        return y + self.cross(y, source)


def make(**options):
    """Return a pair in double precision, and what it reads."""
    model = Pair(**options).double()
    return model, torch.randn(3, 5, 12, dtype=torch.float64), torch.randn(3, 6, 8, dtype=torch.float64)


def squares(x, y):
    return lambda model: model(x, y).square().sum(-1).mean(-1)


def rows(*kept):
    return [torch.tensor(row).bool() for row in kept]


KEEP = rows([1, 0, 1, 0], [0, 1], [0, 1, 1, 1])
ALL = [torch.ones_like(row) for row in KEEP]
HEADS = [(layer, head) for layer, row in enumerate(KEEP) for head in range(len(row))]


def zeroed(model, gates):
    """The same model, with the columns of W_o scaled by hand to what the gate of their head says."""
    model = copy.deepcopy(model)
    for layer, row in zip(attention_layers(model).values(), gates, strict=True):
        layer.W_o.weight.data *= row.repeat_interleave(layer.head_dim)
    return model


def test_gates_turn_heads_down_also_for_each_sample_until_the_with_ends():
    model, x, y = make(bias=True)
    assert list(attention_layers(model)) == ["encoder", "decoder", "cross"]
    intact = model(x, y)
    with pytest.raises(ZeroDivisionError), gated_heads(model, KEEP):
        gated = model(x, y)
        raise ZeroDivisionError
    torch.testing.assert_close(gated, zeroed(model, KEEP)(x, y))
    assert not torch.allclose(gated, intact) and torch.equal(model(x, y), intact)

    layer, x = MultiHeadAttention(8, 2), torch.randn(3, 4, 8)
    gates = torch.tensor([[0.0, 0.5], [0, 1], [1, 1]])
    with gated_heads(layer, [gates]):
        found = layer(x)
        torch.testing.assert_close(layer(x, need_weights=True)[0], found)
        with pytest.raises(ValueError, match="gates for 3 samples met a batch of 2"):
            layer(x[:2])
    for sample, gate in enumerate(gates):
        torch.testing.assert_close(found[sample], zeroed(layer, [gate])(x)[sample])


def test_means_over_tokens_and_samples_stand_in_for_a_head():
    layer, x = MultiHeadAttention(8, 2).requires_grad_(False), torch.randn(3, 4, 8)
    layer.W_o.weight.data = torch.eye(8)  # the output is what the heads say, side by side
    heads = layer(x).unflatten(-1, (2, 4))  # (B, T, num_heads, head_dim)
    (mean,) = head_means(layer, lambda layer: (layer(x[:2]), layer(x[2:])))
    torch.testing.assert_close(mean, heads.mean((0, 1)))
    heads[:, :, 1] = mean[1]
    with gated_heads(layer, torch.tensor([[1, 0]]), [mean]):
        torch.testing.assert_close(layer(x), heads.flatten(-2))


def test_importance_is_the_loss_without_the_head_and_the_slope_of_its_gate_sample_by_sample():
    model, x, y = make()
    signs = torch.tensor([1.0, -1.0, 1.0])  # gradients of samples must not cancel
    losses = lambda model: signs * squares(x, y)(model)  # noqa: E731
    zero, slope = zero_importance(model, losses), gradient_importance(model, losses)
    assert zero.shape == (3, 4) and zero[1, 2:].isnan().all()
    for layer, head in HEADS:
        found = {}
        for gate in (0, 1, 1 - 1e-5, 1 + 1e-5):
            gates = [row.double() for row in ALL]
            gates[layer][head] = gate
            found[gate] = losses(zeroed(model, gates))
        without, intact, below, above = found.values()
        assert zero[layer, head].item() == pytest.approx((without - intact).mean().item(), rel=1e-4, abs=1e-6)
        wanted = ((above - below) / 2e-5).abs().mean()
        assert slope[layer, head].item() == pytest.approx(wanted.item(), rel=1e-6)
    with torch.no_grad():  # a frozen model is measured as well
        torch.testing.assert_close(gradient_importance(model.requires_grad_(False), losses), slope, equal_nan=True)


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


def test_measuring_leaves_the_model_as_it_was():
    model, x, y = make(dropout=0.5)
    model.cross.eval()
    weights, losses = copy.deepcopy(model.state_dict()), squares(x, y)
    for measure in (zero_importance, mean_importance, gradient_importance):
        first, again = measure(model, losses), measure(model, losses)  # no dropout in between: the same numbers
        torch.testing.assert_close(first, again, equal_nan=True, rtol=0, atol=0)
    assert model.training and model.encoder.training and not model.cross.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())


def one_lookup():
    """A layer whose four heads say the same, each with another strength; head 1 adds to where head 0 writes."""
    layer, x = MultiHeadAttention(8, 4), torch.randn(16, 3, 8)
    for linear in (layer.W_q, layer.W_k, layer.W_v):
        linear.weight.data = linear.weight.data[:2].repeat(4, 1)
    strengths = torch.tensor([[0.9, 1, 0, 0], [0, 0, 1.5, 0], [0, 0, 0, 0.3], [0, 0, 0, 0]])
    layer.W_o.weight.data = torch.kron(strengths, torch.eye(2))
    target = layer(x).detach()
    return layer, lambda layer: (layer(x) - target).square().sum(-1).mean(-1)


def test_greedy_takes_the_cheapest_beside_what_is_gone_and_an_importance_is_an_order_as_well():
    layer, losses = one_lookup()
    found, importance = greedy_pruning(layer, losses), zero_importance(layer, losses)
    unit = importance[0, 1].item()  # alone, head 1 costs more than head 0; once that is gone, more than head 2
    assert found.order == [(0, 3), (0, 0), (0, 2), (0, 1)]
    assert found.losses == pytest.approx([unit * loss for loss in (0, 0.09, 0.9, 3.15, 5.95)])
    assert greedy_pruning(layer, losses, steps=2).order == found.order[:2]
    again = prune_in_order(layer, losses, found.order)
    assert again.order == found.order and again.losses == pytest.approx(found.losses)
    by_importance = prune_in_order(layer, losses, importance)
    assert by_importance.order == [(0, 3), (0, 0), (0, 1), (0, 2)]
    assert by_importance.losses == pytest.approx([unit * loss for loss in (0, 0.09, 0.9, 3.7, 5.95)])
    model, x, y = make()
    order = prune_in_order(model, squares(x, y), zero_importance(model, squares(x, y))).order  # with NaN in it
    assert sorted(order) == HEADS


@pytest.mark.parametrize("bias", [False, True])
def test_pruned_and_gated_agree_and_the_heads_are_really_gone(bias):
    model, x, y = make(bias=bias)
    weights = copy.deepcopy(model.eval().state_dict())
    small = prune_heads(model, KEEP)
    assert (small(x, y) - zeroed(model, KEEP)(x, y)).abs().max() <= 1e-12
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert not small.training
    _, maps = model.encoder(x, need_weights=True)
    torch.testing.assert_close(small.encoder(x, need_weights=True)[1], maps[:, [0, 2]])
    # two heads of 3 in 12 features, one of 8 in 8, one of 2 in 8 and 12; each with its three biases
    gone = 2 * (4 * 12 * 3 + 9 * bias) + (4 * 8 * 8 + 24 * bias) + (2 * (8 + 8 + 12 + 12) + 6 * bias)
    assert count_parameters(model) - count_parameters(small) == gone
    assert "num_heads=2" in repr(small.encoder) and "in_features=6, out_features=12" in repr(small.encoder)
    assert torch.equal(prune_heads(model, ALL)(x, y), model(x, y))


def test_a_pruned_model_can_be_trained_stored_measured_and_pruned_again():
    model, x, y = make()
    model.encoder.W_q.requires_grad_(False)
    small = prune_heads(model, KEEP)
    small(x, y).square().mean().backward()
    assert small.encoder.W_q.weight.grad is None and small.encoder.W_k.weight.grad.count_nonzero() > 0
    twin = prune_heads(make()[0], KEEP)
    twin.load_state_dict(small.state_dict())
    assert torch.equal(twin(x, y), small(x, y))
    assert zero_importance(small, squares(x, y)).isnan().sum(1).tolist() == [1, 2, 0]
    again = prune_heads(small, rows([1, 0], [1], [1, 1, 0]))
    torch.testing.assert_close(again(x, y), zeroed(model, rows([1, 0, 0, 0], [0, 1], [0, 1, 1, 0]))(x, y))


@pytest.mark.parametrize("kept", [[1, 1, 0, 0, 1, 1], [1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0]])
def test_grouped_heads_are_cut_in_whole_or_evenly(kept):
    layer, x = MultiHeadAttention(12, 6, num_kv_heads=3, bias=True).double(), torch.randn(2, 5, 12).double()
    keep = torch.tensor([kept]).bool()
    small = prune_heads(layer, keep)
    torch.testing.assert_close(small(x), zeroed(layer, keep)(x), rtol=0, atol=1e-12)
    assert small.num_kv_heads == keep.view(3, 2).any(1).sum() and small.W_k.weight.shape == (2 * small.num_kv_heads, 12)


def test_gates_losses_orders_and_cuts_that_cannot_be_are_refused(as_shipped):
    def enter(*given):
        with gated_heads(Pair(), *given):
            pass

    model, x, y = make()
    failures = []
    for measure in (zero_importance, gradient_importance, greedy_pruning):
        losses = {
            "one floating loss per sample, (B,), got torch.float64 ()": lambda model: model(x, y).mean(),
            "TypeError: what losses(model) returns must be a tensor": lambda model: model(x, y).mean().item(),
        }
        failures += accepted({words: partial(measure, model, given) for words, given in losses.items()})
    layer, losses = one_lookup()
    grouped, uneven = MultiHeadAttention(12, 6, num_kv_heads=3), torch.tensor([[1, 1, 0, 0, 1, 0]]).bool()
    calls = {
        "one row per layer, of [4, 2, 4] heads, got [(4,), (4,)]": partial(enter, torch.ones(2, 4)),
        "TypeError: each row of gates must be a tensor, got list": partial(enter, [[True] * 4] * 3),
        "means must be [(4, 3), (2, 8), (4, 2)], one per layer": partial(enter, KEEP, [torch.zeros(4, 3)] * 3),
        "Linear holds no mhalib.MultiHeadAttention": partial(attention_layers, nn.Linear(2, 2)),
        "run did not use the layer 'cross'": partial(
            head_means, model, lambda model: (model.encoder(x), model.decoder(y))
        ),
        "the losses do not depend on the heads": partial(gradient_importance, model, lambda _: torch.ones(3)),
        "got [(0, 4)]": partial(prune_in_order, layer, losses, [(0, 4)]),
        "each head at most once": partial(prune_in_order, layer, losses, [(0, 1), (0, 1)]),
        "at most the number of heads, 4, got 5": partial(greedy_pruning, layer, losses, steps=5),
        "among 2 heads and would keep [1, 2]": partial(prune_heads, grouped, uneven),
        "would keep no head": partial(prune_heads, grouped, uneven & False),
        "TypeError: keep must be boolean": partial(prune_heads, grouped, torch.ones(1, 6)),
        "keep must have one row per layer, of [6] heads, got [(5,)]": partial(prune_heads, grouped, uneven[:, :5]),
    }
    assert failures + accepted(calls) == []

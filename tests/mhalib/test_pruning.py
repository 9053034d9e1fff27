"""Importance and pruning: against layers whose weights are set to zero by hand, and by finite differences."""

import copy

import pytest
import torch
import torch.nn.functional as F

from mhalib.attention import MultiHeadAttention
from mhalib.experiments import Lookup, LookupModel, count_parameters
from mhalib.heads import (
    gated_heads,
    gradient_importance,
    greedy_pruning,
    head_means,
    mean_importance,
    prune_heads,
    prune_in_order,
    zero_importance,
)
from tests.helpers.attention_pair import KEEP, Pair, inputs, keep_rows, squares, zeroed

# ------------------------------------------------------------------------------------------ importance


def test_zero_importance_is_the_loss_without_the_head():
    model, (x, y) = Pair().double(), inputs()
    losses = squares(x, y)
    found = zero_importance(model, losses)
    assert found.shape == (3, 4)
    for layer, row in enumerate(KEEP):
        for head in range(4):
            if head >= len(row):
                assert found[layer, head].isnan()
                continue
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


def test_gradient_importance_by_finite_differences():
    model, (x, y) = Pair().double(), inputs()
    losses = squares(x, y)
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


def test_gradients_of_samples_do_not_cancel():
    layer = MultiHeadAttention(4, 1)
    x = torch.randn(1, 3, 4).expand(2, 3, 4)
    signs = torch.tensor([1.0, -1.0])
    losses = lambda layer: signs * layer(x).sum((1, 2))  # noqa: E731
    alone = gradient_importance(layer, lambda layer: layer(x[:1]).sum((1, 2)))
    torch.testing.assert_close(gradient_importance(layer, losses), alone)
    assert alone > 1e-3


def test_measuring_leaves_the_model_as_it_was():
    model, (x, y) = Pair(dropout=0.5), inputs(torch.float32)
    model.cross.eval()
    weights, losses = copy.deepcopy(model.state_dict()), squares(x, y)
    runs = [
        [measure(model, losses) for _ in range(2)]
        for measure in (zero_importance, mean_importance, gradient_importance)
    ]
    for first, again in runs:  # no dropout in between: the same numbers
        torch.testing.assert_close(first, again, equal_nan=True, rtol=0, atol=0)
    assert model.training and model.encoder.training and not model.cross.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_frozen_models_and_no_grad_outside_are_fine():
    model, (x, y) = Pair().requires_grad_(False), inputs(torch.float32)
    with torch.no_grad():
        assert (gradient_importance(model, squares(x, y))[0] > 0).all()


@pytest.mark.parametrize("measure", [zero_importance, mean_importance, gradient_importance, greedy_pruning])
def test_losses_that_are_none_are_refused(measure):
    model, (x, y) = Pair(), inputs(torch.float32)
    with pytest.raises(ValueError, match=r"must return one floating loss per sample, \(B,\), got torch.float32 \(\)"):
        measure(model, lambda model: model(x, y).mean())
    with pytest.raises(TypeError, match=r"what losses\(model\) returns must be a tensor, got float"):
        measure(model, lambda model: model(x, y).mean().item())


def test_a_loss_without_gradient_is_refused():
    model, (x, y) = Pair(), inputs(torch.float32)
    with pytest.raises(ValueError, match="the losses do not depend on the heads"):
        gradient_importance(model, lambda model: model(x, y).detach().mean((1, 2)))


# ------------------------------------------------------------------------------------------ in order, and greedily


def one_lookup(seed=0):
    """A model of one layer and four heads made by hand: each head hands a part of the answer to the readout."""
    layer = MultiHeadAttention(8, 4)
    x = torch.randn(16, 3, 8)
    scale = torch.tensor([3.0, 0.1, 1.0, 0.3])
    layer.W_o.weight.data = torch.eye(8) * scale.repeat_interleave(2)
    target = layer(x).detach()
    return layer, lambda layer: (layer(x) - target).square().sum(-1).mean(-1)


def test_greedy_takes_the_cheapest_first_and_reports_each_loss():
    layer, losses = one_lookup()
    found = greedy_pruning(layer, losses)
    assert found.order == [(0, 1), (0, 3), (0, 2), (0, 0)]
    assert len(found.losses) == 5 and found.losses[0] == 0 and sorted(found.losses) == found.losses
    again = prune_in_order(layer, losses, found.order)
    assert again.order == found.order and again.losses == pytest.approx(found.losses)
    assert greedy_pruning(layer, losses, steps=2).order == found.order[:2]


def test_an_importance_is_an_order_as_well():
    layer, losses = one_lookup()
    by_importance = prune_in_order(layer, losses, zero_importance(layer, losses))
    assert by_importance.order == [(0, 1), (0, 3), (0, 2), (0, 0)]
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


def test_with_means_a_head_costs_less():
    layer, x = MultiHeadAttention(8, 4, bias=True), torch.randn(20, 4, 8)
    layer.W_v.bias.data.fill_(1.0)
    target = layer(x).detach()
    losses = lambda layer: (layer(x) - target).square().mean((1, 2))  # noqa: E731
    means = head_means(layer, losses)
    assert greedy_pruning(layer, losses, means=means).losses[-1] < greedy_pruning(layer, losses).losses[-1] / 2
    order = greedy_pruning(layer, losses, means=means)
    assert prune_in_order(layer, losses, order.order, means=means).losses == pytest.approx(order.losses)


def test_orders_that_are_none_are_refused():
    layer, losses = one_lookup()
    for order in ([(0, 4)], [(1, 0)], [(0, 1), (0, 1)]):
        with pytest.raises(ValueError, match=r"order must name each head at most once as \(layer, head\)"):
            prune_in_order(layer, losses, order)
    with pytest.raises(ValueError, match="steps must be at most the number of heads, 4, got 5"):
        greedy_pruning(layer, losses, steps=5)
    with pytest.raises(ValueError, match="steps must be a positive integer, got 0"):
        greedy_pruning(layer, losses, steps=0)


# ------------------------------------------------------------------------------------------ cutting


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_pruned_and_gated_agree(bias, dtype, tolerance):
    model, (x, y) = Pair(bias).to(dtype).eval(), inputs(dtype)
    weights = copy.deepcopy(model.state_dict())
    small = prune_heads(model, keep_rows())
    with gated_heads(model, keep_rows()):
        gated = model(x, y)
    assert (small(x, y) - gated).abs().max() <= tolerance
    assert not torch.allclose(gated, model(x, y))
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert not small.training and small(x, y).dtype == dtype


def test_pruned_heads_are_gone_from_maps_parameters_and_text():
    model, (x, _) = Pair(), inputs(torch.float32)
    small = prune_heads(model, keep_rows())
    _, maps = model.encoder(x, need_weights=True)
    _, small_maps = small.encoder(x, need_weights=True)
    torch.testing.assert_close(small_maps, maps[:, [0, 2]])
    # two heads of 3 in 12 features, one of 8 in 8, one of 2 in 8 and 12; each with its three biases
    gone = 2 * (4 * 12 * 3 + 9) + (4 * 8 * 8 + 24) + (2 * (8 + 8 + 12 + 12) + 6)
    assert count_parameters(model) - count_parameters(small) == gone
    assert "num_heads=2" in repr(small.encoder) and "in_features=6, out_features=12" in repr(small.encoder)


def test_keeping_all_changes_nothing():
    model, (x, y) = Pair(), inputs(torch.float32)
    assert torch.equal(prune_heads(model, [torch.ones(n, dtype=torch.bool) for n in (4, 2, 4)])(x, y), model(x, y))


def test_a_pruned_model_can_be_trained_stored_measured_and_pruned_again():
    model, (x, y) = Pair().double(), inputs()
    model.encoder.W_q.requires_grad_(False)
    small = prune_heads(model, keep_rows())
    small(x, y).square().mean().backward()
    assert small.encoder.W_q.weight.grad is None and small.encoder.W_k.weight.grad.count_nonzero() > 0
    twin = prune_heads(Pair().double(), keep_rows())
    twin.load_state_dict(small.state_dict())
    assert torch.equal(twin(x, y), small(x, y))
    assert zero_importance(small, squares(x, y)).isnan().tolist() == [
        [False, False, True],
        [False, True, True],
        [False] * 3,
    ]
    again = prune_heads(small, keep_rows([[True, False], [True], [True, True, False]]))
    first = keep_rows([[True, False, False, False], [False, True], [False, True, True, False]])
    torch.testing.assert_close(again(x, y), prune_heads(model, first)(x, y))


def test_two_layers_and_a_tensor_of_what_to_keep():
    model = LookupModel(16, 12, 2, 32, 4, num_layers=2)
    tokens, _ = Lookup.offsets(12).batch(4, torch.Generator().manual_seed(0))
    keep = torch.tensor([[True, False, True, True], [False, False, False, True]])
    small = prune_heads(model, keep)
    with gated_heads(model, keep):
        torch.testing.assert_close(small(tokens), model(tokens), rtol=0, atol=1e-6)
    assert count_parameters(model) - count_parameters(small) == 4 * (4 * 32 * 8)
    scores, maps = small(tokens, need_weights=True)
    assert [weights.shape[1] for weights in maps] == [3, 1] and scores.shape == (4, 2, 12, 16)


@pytest.mark.parametrize("kept", [[1, 1, 0, 0, 1, 1], [1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0]])
def test_grouped_heads_are_cut_in_whole_or_evenly(kept):
    layer, x = MultiHeadAttention(12, 6, num_kv_heads=3, bias=True).double(), torch.randn(2, 5, 12).double()
    keep = torch.tensor([kept]).bool()
    small = prune_heads(layer, keep)
    with gated_heads(layer, keep):
        torch.testing.assert_close(small(x), layer(x), rtol=0, atol=1e-12)
    assert small.num_kv_heads == keep.view(3, 2).any(1).sum() and small.W_k.weight.shape == (2 * small.num_kv_heads, 12)


def test_what_cannot_be_cut_is_refused(as_shipped):
    layer = MultiHeadAttention(12, 6, num_kv_heads=3)
    with pytest.raises(ValueError, match=r"shares each head of keys and values among 2 heads and would keep \[1, 2\]"):
        prune_heads(layer, torch.tensor([[1, 1, 0, 0, 1, 0]]).bool())
    with pytest.raises(ValueError, match="layer 'decoder' would keep no head; let one stay"):
        prune_heads(Pair(), keep_rows([[True] * 4, [False] * 2, [True] * 4]))
    with pytest.raises(TypeError, match=r"keep must be boolean, True or False for each head, got torch.float32 \(6,\)"):
        prune_heads(layer, torch.ones(1, 6))
    with pytest.raises(ValueError, match=r"keep must have one row per layer, of \[6\] heads, got \[\(5,\)\]"):
        prune_heads(layer, torch.ones(1, 5, dtype=torch.bool))


def test_cross_entropy_of_a_task_by_all_measures():
    """The way a lesson uses it: nothing here depends on what training finds."""
    task, model = Lookup.offsets(6, (-1,), vocab=5), LookupModel(5, 6, 1, 16, 4)
    tokens, answers = task.batch(32, torch.Generator().manual_seed(0))

    def losses(model):
        return F.cross_entropy(model(tokens).movedim(-1, 1), answers, reduction="none").mean((1, 2))

    for measure in (zero_importance, mean_importance, gradient_importance):
        assert measure(model, losses).shape == (1, 4)
    assert greedy_pruning(model, losses).losses[0] == pytest.approx(losses(model).mean().item())

"""Which heads matter to a model: measure what it costs to switch them off, and cut them out for real.

Everything here works on any model that holds `MultiHeadAttention` layers, and leaves the model as it was. What is
lost is up to the reader: `losses(model)` runs the model on some samples and returns one loss for each, `(B,)`.
The switches themselves stand in `gates`; what a head *does* is measured in `measures`.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mhalib.arguments import check_size, check_tensor
from mhalib.attention import MultiHeadAttention
from mhalib.heads.gates import Means, attention_layers, gated_heads, head_means, per_layer, resting

Losses = Callable[[nn.Module], Tensor]  # of each sample, (B,)
Head = tuple[int, int]  # (layer, head)
Importance = Float[Tensor, "layers heads"]  # in the unit of the loss


def zero_importance(model: nn.Module, losses: Losses) -> Importance:
    """Return by how much the mean loss grows when this one head is switched off and all others stay.

    Args:
        model: any model with attention layers.
        losses: runs the model and returns the loss of each sample, `(B,)`; called once per head and once more.

    Returns:
        below 0 where the model is better without, NaN where a layer has fewer heads than others.

    Raises:
        TypeError, ValueError: `losses` returns anything but one loss per sample.

    Michel et al. (2019), section 3.2. Taught in notebook 11.
    """
    return _one_by_one(model, losses)


def mean_importance(model: nn.Module, losses: Losses) -> Importance:
    """Return by how much the mean loss grows when this one head hands over its mean instead of what it found.

    That takes away what the head tells samples and tokens apart by, and leaves what it always says. The means are those
    over what `losses` runs; all else is as in `zero_importance`. Taught in notebook 11.
    """
    return _one_by_one(model, losses, head_means(model, losses))


def gradient_importance(model: nn.Module, losses: Losses) -> Importance:
    """Return how strongly the loss of a sample reacts to a gate on this head, `|d loss / d gate|`, mean over samples.

    One forward and one backward pass for all heads together. The absolute value is taken for each sample, as what
    helps one and harms another would cancel otherwise. Arguments and result as in `zero_importance`, but every layer
    must see one sequence per loss, in the same order.

    Raises:
        TypeError, ValueError: as `zero_importance`; or the losses do not depend on the heads.

    Michel et al. (2019), equation 2. Taught in notebook 11.
    """
    layers = list(attention_layers(model).values())
    with resting(model):
        with torch.no_grad():
            samples = len(_checked_losses(losses, model))
        # (B, heads) each: the sum of all losses then has, at the gates of a sample, the gradient of its own loss.
        gates = [layer.W_o.weight.new_ones(samples, layer.num_heads, requires_grad=True) for layer in layers]
        with torch.enable_grad(), gated_heads(model, gates):
            total = _checked_losses(losses, model).sum()
        if not total.requires_grad:
            raise ValueError("the losses do not depend on the heads: is there a .detach() or torch.no_grad() inside?")
        slopes = torch.autograd.grad(total, gates, materialize_grads=True)
    rows = [slope.abs().mean(0).cpu() for slope in slopes]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=torch.nan)


@dataclass(frozen=True)
class Pruning:
    """Heads in the order in which they go, as `(layer, head)`, and the mean loss with all, then after each of them.

    What `greedy_pruning` and `prune_in_order` return; notebook 11 draws it.
    """

    order: list[Head]
    losses: list[float]


def greedy_pruning(model: nn.Module, losses: Losses, *, steps: int | None = None) -> Pruning:
    """Switch off one head after another, each time the one whose loss costs least given those already gone.

    Unlike a ranking that is made once, this sees that of two heads that do the same only one may go. It stops after
    so many steps, or when all are gone; n heads take about n² / 2 calls of `losses`.

    Raises:
        ValueError: `steps` is no number of heads; as in `zero_importance`.

    Taught in notebook 11.
    """
    left = _heads(model)
    steps = len(left) if steps is None else steps
    check_size("steps", steps)
    if steps > len(left):
        raise ValueError(f"steps must be at most the number of heads, {len(left)}, got {steps}")
    found = Pruning([], [_loss_without([], model, losses)])
    for _ in range(steps):
        costs = [_loss_without([*found.order, head], model, losses) for head in left]
        cheapest = min(range(len(left)), key=costs.__getitem__)
        found.order.append(left.pop(cheapest))
        found.losses.append(costs[cheapest])
    return found


def prune_in_order(model: nn.Module, losses: Losses, order: Sequence[Head] | Importance) -> Pruning:
    """Switch off one head after another in a given order, and measure the loss after each.

    The order is that of `(layer, head)`, the first to go first, or of an importance: the least important goes first.

    Raises:
        ValueError: there is no such head, or one goes twice; as in `zero_importance`.

    Taught in notebook 11.
    """
    known = _heads(model)
    if isinstance(order, Tensor):
        if len(order) != known[-1][0] + 1:
            raise ValueError(f"an importance must have a row per layer, {known[-1][0] + 1}, got {tuple(order.shape)}")
        order = sorted(known, key=lambda head: order[head].item())
    order = [(int(layer), int(head)) for layer, head in order]
    if not set(order) <= set(known) or len(set(order)) < len(order):
        raise ValueError(f"order must name each head at most once as (layer, head), got {order}; the heads are {known}")
    return Pruning(order, [_loss_without(order[:gone], model, losses) for gone in range(len(order) + 1)])


def prune_heads(model: nn.Module, keep: Bool[Tensor, "layers heads"] | Sequence[Bool[Tensor, "_"]]) -> nn.Module:
    """Return a copy of the model whose attention layers are really smaller: the other heads are cut out.

    Their rows of `W_q`, `W_k`, `W_v` and their columns of `W_o` go. The copy computes what the model does under
    `gated_heads` with the same gates, up to rounding, with fewer parameters and operations.

    Args:
        model: any model with attention layers; it stays as it is.
        keep: boolean, True for the heads that stay: `(layers, heads)`, or one `(heads,)` per layer.

    Raises:
        TypeError: `keep` is not boolean.
        ValueError: it does not fit the layers; a layer keeps no head; or heads that share their keys and values
            (`num_kv_heads`) are not cut evenly.

    Michel et al. (2019), section 3.4, for the speed. Taught in notebook 11.

    Examples:
        >>> import torch
        >>> from mhalib import MultiHeadAttention
        >>> from mhalib.heads import prune_heads
        >>> layer = MultiHeadAttention(d_model=8, num_heads=2)
        >>> prune_heads(layer, torch.tensor([[True, False]])).num_heads
        1
    """
    small = copy.deepcopy(model)
    layers = attention_layers(small)
    for (name, layer), kept in zip(layers.items(), per_layer("keep", keep, list(layers.values())), strict=True):
        if kept.dtype != torch.bool or kept.ndim != 1:
            raise TypeError(
                f"keep must be boolean, True or False for each head, got {kept.dtype} {tuple(kept.shape)}; "
                "use importance > 0.1 or the like"
            )
        _cut(name, layer, kept.cpu())
    return small


@torch.no_grad()
def _cut(name: str, layer: MultiHeadAttention, kept: Tensor) -> None:
    if not kept.any():
        raise ValueError(f"layer {name!r} would keep no head; let one stay, or take the layer out of the model")
    groups = kept.view(layer.num_kv_heads, -1)  # (num_heads,) -> (num_kv_heads, heads that share keys and values)
    each = groups.sum(1)[groups.any(1)].unique()
    if len(each) > 1:
        raise ValueError(
            f"layer {name!r} shares each head of keys and values among {groups.shape[1]} heads and would keep "
            f"{each.tolist()} of them; keep as many in every group that stays, here one of {groups.int().tolist()}"
        )
    q, kv = (mask.repeat_interleave(layer.head_dim).nonzero()[:, 0] for mask in (kept, groups.any(1)))
    for linear, axis, left in ((layer.W_q, 0, q), (layer.W_k, 0, kv), (layer.W_v, 0, kv), (layer.W_o, 1, q)):
        for kind, old in list(linear.named_parameters()):
            if old.ndim > axis:  # the bias of W_o has no columns
                cut = old.index_select(axis, left.to(old.device))
                setattr(linear, kind, nn.Parameter(cut, requires_grad=old.requires_grad))
        linear.out_features, linear.in_features = linear.weight.shape
    layer.num_heads, layer.num_kv_heads = int(kept.sum()), int(groups.any(1).sum())


def _heads(model: nn.Module) -> list[Head]:
    layers = attention_layers(model).values()
    return [(i, head) for i, layer in enumerate(layers) for head in range(layer.num_heads)]


def _one_by_one(model: nn.Module, losses: Losses, means: Means = None) -> Tensor:
    intact, heads = _loss_without([], model, losses, means), _heads(model)
    costs = torch.full((heads[-1][0] + 1, max(head for _, head in heads) + 1), torch.nan)  # (layers, heads)
    for head in heads:
        costs[head] = _loss_without([head], model, losses, means) - intact
    return costs


def _loss_without(gone: Sequence[Head], model: nn.Module, losses: Losses, means: Means = None) -> float:
    gates = [torch.ones(layer.num_heads) for layer in attention_layers(model).values()]
    for layer, head in gone:
        gates[layer][head] = 0
    with torch.no_grad(), resting(model), gated_heads(model, gates, means):
        return _checked_losses(losses, model).cpu().double().mean().item()


def _checked_losses(losses: Losses, model: nn.Module) -> Tensor:
    found = losses(model)
    check_tensor("what losses(model) returns", found)
    if found.ndim != 1 or not found.is_floating_point() or not len(found):
        raise ValueError(
            f"losses(model) must return one floating loss per sample, (B,), got {found.dtype} {tuple(found.shape)}; "
            "use reduction='none', then a mean over every axis but the first"
        )
    return found

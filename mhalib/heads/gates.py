"""Gates on heads: switch heads of any model off, or turn them down, without touching its weights.

The gate stands where the merged heads enter `W_o`, as a hook that goes when the `with` ends. What switching a head
off costs, and how to cut it out for good, is the matter of `pruning`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mhalib.arguments import check_tensor
from mhalib.attention import MultiHeadAttention

Means = Sequence[Float[Tensor, "_ _"]] | None  # of the heads of each layer, (heads, head_dim)


def attention_layers(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Return the attention layers of a model by name, in the order of its modules: layer 0, layer 1, …

    Raises:
        ValueError: there is none.

    Taught in notebook 11.
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}
    if not layers:
        raise ValueError(
            f"{type(model).__name__} holds no mhalib.MultiHeadAttention, so there are no heads to switch; put one with "
            "the same weights in the place of each attention layer: mhalib.reference.from_torch(layer), or as "
            "notebooks/YOUR_MODEL.md shows"
        )
    return layers


@contextmanager
def gated_heads(
    model: nn.Module, gates: Shaped[Tensor, "layers heads"] | Sequence[Tensor], means: Means = None
) -> Iterator[None]:
    """Multiply what each head hands to `W_o` by a gate, inside the `with`: 1 leaves the head on, 0 switches it off.

    Args:
        model: any model with attention layers; after the `with` it is as before.
        gates: `(layers, heads)`, numbers or booleans; or one tensor per layer, `(heads,)` or, with gates of its own
            for each sample, `(B, heads)`. Gradients flow to them.
        means: as `head_means` returns them: a gate of 0 puts the head's mean in its place, instead of zeros.

    Raises:
        TypeError: the gates are no tensors.
        ValueError: they, or the means, do not fit the layers, or their batch is not that of the layer's input.

    Taught in notebook 11.

    Examples:
        >>> import torch
        >>> from mhalib import MultiHeadAttention
        >>> from mhalib.heads import gated_heads
        >>> layer = MultiHeadAttention(d_model=8, num_heads=2)
        >>> with gated_heads(layer, torch.tensor([[0, 0]])):
        ...     out = layer(torch.ones(1, 3, 8))
        ...
        >>> bool((out == 0).all())
        True
    """
    layers = list(attention_layers(model).values())
    gates = per_layer("gates", gates, layers)
    sizes = [(layer.num_heads, layer.head_dim) for layer in layers]
    if means is not None and [tuple(mean.shape) for mean in means] != sizes:
        raise ValueError(f"means must be {sizes}, one per layer, got {[tuple(x.shape) for x in means]}; use head_means")

    def gated(number, heads):
        gate = gates[number].to(heads)[..., None]  # (heads, 1), or (B, heads, 1)
        if gate.ndim == 3 and len(gate) != len(heads):
            raise ValueError(
                f"gates for {len(gate)} samples met a batch of {len(heads)} in the layer; every layer must see one "
                "sequence per sample and all at once"
            )
        gate = gate[:, None] if gate.ndim == 3 else gate  # -> (B, 1, heads, 1)
        return heads * gate if means is None else heads * gate + means[number].to(heads) * (1 - gate)

    with _changed_outputs(layers, gated):
        yield


def head_means(model: nn.Module, run: Callable[[nn.Module], object]) -> list[Float[Tensor, "_ _"]]:
    """Return what each head hands to `W_o` on average over everything that `run(model)` feeds it, one tensor per layer.

    A function that returns losses serves as `run`, too. Padding counts like any other token: leave it out.

    Raises:
        ValueError: `run` does not use one of the layers.

    No notebook uses it by itself: `mean_importance`, which notebook 11 teaches, is measured with it.
    """
    layers = attention_layers(model)
    sums, tokens = [0.0] * len(layers), [0] * len(layers)

    def add(number, heads):
        sums[number] = sums[number] + heads.sum((0, 1)).cpu().double()
        tokens[number] += heads.shape[0] * heads.shape[1]
        return heads

    with resting(model), torch.no_grad(), _changed_outputs(layers.values(), add):
        run(model)
    if 0 in tokens:
        raise ValueError(f"run did not use the layer {list(layers)[tokens.index(0)]!r}; its mean is not known")
    counted = zip(sums, tokens, layers.values(), strict=True)
    return [(total / number).to(layer.W_o.weight) for total, number, layer in counted]


@contextmanager
def resting(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the `with`: what a head does must not depend on chance."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def per_layer(name: str, given: Tensor | Sequence[Tensor], layers: Sequence[MultiHeadAttention]) -> list[Tensor]:
    """Return one tensor per layer, each with a last axis of that layer's heads."""
    given = list(given)
    for x in given:
        check_tensor(f"each row of {name}", x)
    sizes = [layer.num_heads for layer in layers]
    if [x.shape[-1] if x.ndim in (1, 2) else None for x in given] != sizes:
        raise ValueError(
            f"{name} must have one row per layer, of {sizes} heads, got {[tuple(x.shape) for x in given]}; "
            "where layers differ in their number of heads, give a list"
        )
    return given


@contextmanager
def _changed_outputs(layers: Iterable[MultiHeadAttention], change: Callable[[int, Tensor], Tensor]) -> Iterator[None]:
    """Send what the heads of each layer found through `change`, with the layer's number, on its way into `W_o`."""

    def hook(number, layer, _, inputs):
        heads = inputs[0].unflatten(-1, (layer.num_heads, -1))  # (B, Tq, h * hd) -> (B, Tq, h, hd)
        return (change(number, heads).flatten(-2),)  # -> (B, Tq, h * hd)

    with ExitStack() as hooks:
        for number, layer in enumerate(layers):
            hooks.enter_context(layer.W_o.register_forward_pre_hook(partial(hook, number, layer)))
        yield

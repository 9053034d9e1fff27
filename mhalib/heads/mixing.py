"""What the layers of a model mix together, one after the other. What a single head does is the matter of `measures`."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from mhalib.arguments import TOLERANCE, check_weights_kind


def rollout(layers: Iterable[Float[Tensor, "*axes _ tokens tokens"]]) -> Float[Tensor, "*axes tokens tokens"]:
    """Return how much of each token has been mixed into each query by the last of the layers, `(*axes, T, T)`.

    Half of what leaves a layer is what came in, half is what its heads bring, on average over the heads; the layers
    are multiplied. So it knows neither values nor `W_o`, and takes all that a head looks at as arrived.

    Args:
        layers: the weights of one layer after the other, each `(*axes, num_heads, T, T)` of self-attention; a row
            that is all zeros (no key) hands on what came in, and NaN stays where it weighs something.

    Raises:
        TypeError: the weights of a layer are no floating tensor.
        ValueError: there is no layer, one is not `(*axes, num_heads, T, T)` or unlike the first, or a weight is
            negative.

    Abnar and Zuidema, Quantifying Attention Flow in Transformers (ACL 2020). Taught in notebook 18.

    Examples:
        >>> import torch
        >>> from mhalib.heads import rollout
        >>> rollout([torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])])
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
    """
    mixed = None
    for number, weights in enumerate(layers):
        check_weights_kind(f"layer {number}", weights)
        shape = tuple(weights.shape)
        if len(shape) < 3 or shape[-1] != shape[-2] or 0 in shape:
            raise ValueError(
                f"a rollout needs weights (..., num_heads, T, T) of tokens on themselves, got {shape} for layer "
                f"{number}; give self-attention, one tensor a layer"
            )
        if (weights < -TOLERANCE).any():
            raise ValueError(f"a rollout needs weights, and layer {number} has negative numbers; apply softmax first")
        brought = weights.detach().to(torch.promote_types(weights.dtype, torch.float32)).mean(-3)  # (*axes, T, T)
        tokens = torch.eye(shape[-1], dtype=brought.dtype, device=brought.device)
        below = tokens.expand_as(brought) if mixed is None else mixed
        if below.shape != brought.shape:
            raise ValueError(
                f"the layers of a rollout must have the same tokens and samples, got {tuple(below.shape)} and "
                f"{tuple(brought.shape)} without heads; give the layers of one model on one input"
            )
        own = 0.5 * brought + 0.5 * tokens
        own = own / own.sum(-1, keepdim=True)
        # NaN comes from where it weighs something, not from all of a column.
        missing = own.isnan().any(-1, keepdim=True) | ((own != 0).to(own.dtype) @ below.isnan().to(own.dtype) > 0)
        mixed = (own.nan_to_num(0) @ below.nan_to_num(0)).masked_fill(missing, torch.nan)
    if mixed is None:
        raise ValueError("a rollout needs the weights of one layer or more, got none; give a list of them")
    return mixed

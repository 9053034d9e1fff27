"""What the converters share: which kind of layer they were given, whether others have such a form, and the way back."""

from collections.abc import Sequence

from torch import Tensor, nn

from mhalib.attention import MultiHeadAttention


def kind_of(layer: object) -> str:
    """Return the full name of a layer's class: d2l's has the same short one as ours."""
    return f"{type(layer).__module__}.{type(layer).__qualname__}"


def check_kind(layer: object, wanted: type) -> None:
    """Refuse another kind of layer than the wanted one."""
    if not isinstance(layer, wanted):
        raise TypeError(
            f"expected a {wanted.__module__}.{wanted.__qualname__}, got {kind_of(layer)}; the functions to_… take our "
            "layer, and each of from_torch, from_d2l and from_interleaved reads its own kind"
        )


def check_plain(layer: MultiHeadAttention, target: str) -> None:
    """Refuse what is no layer of ours, and one whose heads are wide or share their keys and values."""
    check_kind(layer, MultiHeadAttention)
    if layer.num_kv_heads != layer.num_heads or layer.num_heads * layer.head_dim != layer.d_model:
        raise ValueError(
            f"{target} needs num_kv_heads == num_heads and num_heads * head_dim == d_model, this layer has "
            f"num_heads={layer.num_heads}, num_kv_heads={layer.num_kv_heads}, head_dim={layer.head_dim}, "
            f"d_model={layer.d_model}; build it without head_dim and num_kv_heads"
        )


def read(
    other: nn.Module, weights: Sequence[Tensor], biases: Sequence[Tensor | None], output: nn.Linear, dropout: float
) -> MultiHeadAttention:
    """Return our layer with the weights and biases that another one has for q, k and v, and its output projection."""
    query_dim, key_dim, value_dim = (weight.shape[1] for weight in weights)
    layer = MultiHeadAttention(
        output.out_features,
        other.num_heads,
        query_dim=query_dim,
        key_dim=key_dim,
        value_dim=value_dim,
        dropout=dropout,
        bias=output.bias is not None,
    ).to(output.weight)
    for part, weight, bias in zip((layer.W_q, layer.W_k, layer.W_v), weights, biases, strict=True):
        part.weight.copy_(weight)
        if bias is not None:
            part.bias.copy_(bias)
    layer.W_o.load_state_dict(output.state_dict())
    return layer.train(other.training)

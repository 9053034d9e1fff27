"""Which kind of layer a converter was given, and whether other libraries have such a form."""

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

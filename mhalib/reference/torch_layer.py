"""Our layer and `nn.MultiheadAttention`: weights both ways, and our masks in torch's polarity."""

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from mhalib.attention import MultiHeadAttention
from mhalib.masks import check_boolean, prepare_mask
from mhalib.reference.kinds import check_kind, check_plain, read


@torch.no_grad()
def to_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return an `nn.MultiheadAttention` with the weights of `layer`, `batch_first=True`.

    Raises:
        TypeError: `layer` is no layer of ours.
        ValueError: torch's layer has no such form: it knows no wide heads and no shared key/value heads, and
            its queries have `d_model` features.

    Taught in notebook 06.
    """
    check_plain(layer, "nn.MultiheadAttention")
    d_model = layer.d_model
    if layer.W_q.in_features != d_model:
        raise ValueError(
            f"nn.MultiheadAttention needs queries of d_model={d_model} features, this layer takes "
            f"{layer.W_q.in_features}; project them first"
        )
    bias = layer.W_q.bias is not None
    other = nn.MultiheadAttention(
        d_model,
        layer.num_heads,
        dropout=layer.dropout,
        bias=bias,
        kdim=layer.W_k.in_features,
        vdim=layer.W_v.in_features,
        batch_first=True,
    ).to(layer.W_q.weight)
    parts = (layer.W_q, layer.W_k, layer.W_v)
    if other.in_proj_weight is not None:  # one fused weight where q, k and v have the same size
        other.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    else:
        for name, part in zip("qkv", parts, strict=True):
            getattr(other, f"{name}_proj_weight").copy_(part.weight)
    if bias:
        other.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    other.out_proj.load_state_dict(layer.W_o.state_dict())
    return other.train(layer.training)


@torch.no_grad()
def from_torch(other: nn.MultiheadAttention) -> MultiHeadAttention:
    """Return our layer with the weights of an `nn.MultiheadAttention`, whatever its `batch_first`.

    Raises:
        TypeError: it is another layer.
        ValueError: the layer appends a bias or a zero to its keys, which ours does not.

    Taught in notebook 06.
    """
    check_kind(other, nn.MultiheadAttention)
    if other.bias_k is not None or other.add_zero_attn:
        raise ValueError(
            "add_bias_kv and add_zero_attn append a key of their own; only a layer without them can be copied"
        )
    if other.in_proj_weight is not None:
        weights = other.in_proj_weight.chunk(3)
    else:
        weights = [getattr(other, f"{name}_proj_weight") for name in "qkv"]
    biases = [None] * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3)
    return read(other, weights, biases, other.out_proj, other.dropout)


def torch_mask(
    mask: Bool[Tensor, "..."], batch: int, num_heads: int, num_queries: int, num_keys: int
) -> Bool[Tensor, "batch_heads queries keys"]:
    """Return `mask` as the `attn_mask` of `nn.MultiheadAttention`: True = blocked, `(B * h, Tq, Tk)`.

    Args:
        mask: ours, True = may attend, `(Tq, Tk)`, `(B, Tq, Tk)` or `(B, h, Tq, Tk)`.
        batch, num_heads, num_queries, num_keys: the sizes to expand to.

    Raises:
        TypeError: the mask is no boolean tensor.
        ValueError: it does not broadcast to these sizes.

    Taught in notebook 04.

    Examples:
        >>> from mhalib import causal_mask
        >>> from mhalib.reference import torch_mask
        >>> torch_mask(causal_mask(2), batch=1, num_heads=1, num_queries=2, num_keys=2)
        tensor([[[False,  True],
                 [False, False]]])
    """
    check_boolean("mask", mask)
    shape = (batch, num_heads, num_queries, num_keys)
    full = prepare_mask(mask, shape, torch.float32, mask.device).expand(shape)
    return ~full.flatten(0, 1)  # (B, h, Tq, Tk) -> (B * h, Tq, Tk): sample 0 with all its heads, then sample 1

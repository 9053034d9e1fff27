"""A layer with one fused projection whose rows are interleaved head by head, and weights both ways."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mhalib.arguments import check_divides, check_input, check_size
from mhalib.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention
from mhalib.reference.kinds import check_kind, check_plain, read


def interleaved_rows(num_heads: int, head_dim: int) -> Int[Tensor, "rows"]:
    """Return the order that turns contiguous rows `q | k | v` into interleaved ones: `W_interleaved = W[rows]`.

    Interleaved means that the rows of each head stand together, its q, then its k, then its v; this is what
    a reshape to `(heads, 3 * head_dim)` before the cut into three makes of a fused layer.

    Returns:
        `(3 * num_heads * head_dim,)`, int64: at place i, the row of the contiguous weight that comes there.

    Raises:
        ValueError: a size is not a positive integer.

    Taught in notebook 01.

    Examples:
        >>> from mhalib.reference import interleaved_rows
        >>> interleaved_rows(num_heads=2, head_dim=1)
        tensor([0, 2, 4, 1, 3, 5])
    """
    check_size("num_heads", num_heads)
    check_size("head_dim", head_dim)
    rows = torch.arange(3 * num_heads * head_dim).reshape(3, num_heads, head_dim)  # q|k|v, head, feature
    return rows.transpose(0, 1).flatten()  # head, q|k|v, feature


class InterleavedAttention(nn.Module):
    """Self-attention with one fused `qkv` layer whose rows are interleaved head by head.

    A legal layout, used by several public models, and not the one of `nn.MultiheadAttention`.

    Args:
        input_dim, d_model: features of the input and of the output.
        num_heads, dropout, bias: as in `MultiHeadAttention`.

    Raises:
        ValueError: a size is not a positive integer, or `d_model` cannot be cut into `num_heads`.

    Taught in notebook 06.
    """

    def __init__(self, input_dim: int, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = False):
        super().__init__()
        check_size("input_dim", input_dim)
        check_divides("d_model", d_model, num_heads)
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(input_dim, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch tokens input_dim"], mask: Tensor | None = None, need_weights: bool = False
    ):
        """Return `(B, T, d_model)`, with `need_weights` also the weights `(B, num_heads, T, T)`; our kind of mask."""
        check_input("inputs", x, self.qkv)
        qkv = self.qkv(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, T, 3*d) -> (B, h, T, 3*hd)
        q, k, v = qkv.chunk(3, dim=-1)  # 3 x (B, h, T, hd)
        dropout = self.dropout if self.training else 0.0
        heads, weights = scaled_dot_product_attention(q, k, v, mask, dropout=dropout)
        output = self.out(merge_heads(heads))  # (B, h, T, hd) -> (B, T, d_model)
        return (output, weights) if need_weights else output


@torch.no_grad()
def to_interleaved(layer: MultiHeadAttention) -> InterleavedAttention:
    """Return the interleaved form of a self-attention layer.

    Raises:
        TypeError: `layer` is no layer of ours.
        ValueError: q, k and v do not come from the same input, or heads are wide or shared.

    Taught in notebooks 01 and 06.
    """
    check_plain(layer, "the interleaved layout")
    parts = (layer.W_q, layer.W_k, layer.W_v)
    if len({part.in_features for part in parts}) > 1:
        raise ValueError("the interleaved layout is for self-attention: q, k and v must come from one input")
    bias = layer.W_q.bias is not None
    other = InterleavedAttention(layer.W_q.in_features, layer.d_model, layer.num_heads, layer.dropout, bias)
    other = other.to(layer.W_q.weight)
    rows = interleaved_rows(layer.num_heads, layer.head_dim)
    other.qkv.weight.copy_(torch.cat([part.weight for part in parts])[rows])
    if bias:
        other.qkv.bias.copy_(torch.cat([part.bias for part in parts])[rows])
    other.out.load_state_dict(layer.W_o.state_dict())
    return other.train(layer.training)


@torch.no_grad()
def from_interleaved(other: InterleavedAttention) -> MultiHeadAttention:
    """Return our layer with the weights of the interleaved form.

    Raises:
        TypeError: it is another layer.

    Taught in notebooks 01 and 06.
    """
    check_kind(other, InterleavedAttention)
    back = interleaved_rows(other.num_heads, other.out.in_features // other.num_heads).argsort()  # the inverse order
    biases = [None] * 3 if other.qkv.bias is None else other.qkv.bias[back].chunk(3)
    return read(other, other.qkv.weight[back].chunk(3), biases, other.out, other.dropout)

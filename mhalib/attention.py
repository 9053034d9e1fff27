"""Multi-head attention as it is taught: split, attend, merge, project.

All notebooks share this layer. It is written to be read; if you don't ask for the weights, it hands the
middle part to torch's fused kernel, which computes the same numbers. `masks` says what masks may look like,
and `reference` says how other libraries store the same layer.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from mhalib.arguments import check_divides, check_input, check_size, check_tensor
from mhalib.masks import prepare_mask


def split_heads(
    x: Shaped[Tensor, "batch tokens features"], num_heads: int
) -> Shaped[Tensor, "batch num_heads tokens head_dim"]:
    """Cut the features of every token into `num_heads` pieces and bring the heads to the front.

    Args:
        x: `(B, T, num_heads * head_dim)`.
        num_heads: how many pieces.

    Returns:
        `(B, num_heads, T, head_dim)`, a view of `x`.

    Raises:
        TypeError: `x` is not a tensor.
        ValueError: `x` does not have three axes, or its features cannot be cut evenly.

    Taught in notebook 03.

    Examples:
        >>> import torch
        >>> from mhalib import split_heads
        >>> split_heads(torch.zeros(2, 5, 8), num_heads=4).shape
        torch.Size([2, 4, 5, 2])
    """
    check_tensor("x", x)
    if x.ndim != 3:
        raise ValueError(
            f"split_heads needs x of shape (B, T, d_model), got {tuple(x.shape)}; add a missing batch axis with x[None]"
        )
    check_divides("the number of features", x.shape[-1], num_heads)
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, T, h * hd) -> (B, T, h, hd) -> (B, h, T, hd)


def merge_heads(x: Shaped[Tensor, "batch num_heads tokens head_dim"]) -> Shaped[Tensor, "batch tokens features"]:
    """Put the heads of every token side by side again; the inverse of `split_heads`.

    Args:
        x: `(B, num_heads, T, head_dim)`.

    Returns:
        `(B, T, num_heads * head_dim)`.

    Raises:
        TypeError: `x` is not a tensor.
        ValueError: `x` does not have four axes.

    Taught in notebooks 03 and 05.

    Examples:
        >>> import torch
        >>> from mhalib import merge_heads
        >>> merge_heads(torch.zeros(2, 4, 5, 2)).shape
        torch.Size([2, 5, 8])
    """
    check_tensor("x", x)
    if x.ndim != 4:
        raise ValueError(
            f"merge_heads needs x of shape (B, num_heads, T, head_dim), got {tuple(x.shape)}; split_heads makes one"
        )
    # Without the transpose the shapes agree as well, but tokens are mixed: see notebook 05.
    return x.transpose(1, 2).flatten(2)  # (B, h, T, hd) -> (B, T, h, hd) -> (B, T, h * hd)


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch queries head_dim"],
    k: Float[Tensor, "*batch keys head_dim"],
    v: Float[Tensor, "*batch keys value_dim"],
    mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None = None,
    *,
    dropout: float = 0.0,
    scale: float | None = None,
) -> tuple[Float[Tensor, "*batch queries value_dim"], Float[Tensor, "*batch queries keys"]]:
    """Return `softmax(q k^T * scale) v` and the weights that were used.

    Args:
        q: `(B, h, Tq, head_dim)`; also without the axis `h`, or without both leading axes.
        k: `(B, h, Tk, head_dim)`.
        v: `(B, h, Tk, value_dim)`.
        mask: boolean, True where attention is allowed, or floating, added to the scores; `(Tq, Tk)`,
            `(B, Tq, Tk)` or `(B, h, Tq, Tk)`, where any axis may be 1. A query with no key to attend to gets
            zeros, in the weights and in the output.
        dropout: share of the weights set to zero, from 0 to below 1; the others grow by a factor of 1 / (1 - dropout).
        scale: factor on the scores; `1 / sqrt(head_dim)` when left out.

    Returns:
        the output `(B, h, Tq, value_dim)` and the weights `(B, h, Tq, Tk)`. Rows of weights sum to 1 (0 for
        a query with no key) as long as there is no dropout.

    Raises:
        TypeError: the inputs are not floating tensors, or the mask is neither boolean nor floating.
        ValueError: shapes, dtypes or devices do not fit together, or a sequence is empty.

    Vaswani et al. (2017), equation 1. Taught in notebooks 02 and 04.

    Examples:
        >>> import torch
        >>> from mhalib import scaled_dot_product_attention
        >>> q, k, v = torch.zeros(1, 2), torch.zeros(4, 2), torch.eye(4)
        >>> output, weights = scaled_dot_product_attention(q, k, v)
        >>> weights
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    _check_qkv(q, k, v)
    _check_dropout(dropout)
    if mask is not None:
        mask = prepare_mask(mask, (*q.shape[:-1], k.shape[-2]), q.dtype, q.device)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    # The scale goes to q: the same scores, but in float16 q k^T on its own can exceed 65504, the largest number.
    scores = (q * scale) @ k.transpose(-2, -1)  # (B, h, Tq, hd) @ (B, h, hd, Tk) -> (B, h, Tq, Tk)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        # A row of nothing but -inf would be 0/0 in the softmax, and its NaN would reach every gradient: so a
        # query with no key goes through the softmax unmasked, and gets its zeros afterwards.
        if mask.dtype == torch.bool:
            empty = ~mask.any(-1, keepdim=True)
            scores = scores.masked_fill(~(mask | empty), -torch.inf)
        else:
            scores = scores + mask
            empty = (scores == -torch.inf).all(-1, keepdim=True)
            scores = scores.masked_fill(empty, 0.0)
        weights = scores.softmax(-1).masked_fill(empty, 0.0)
    if dropout:
        weights = F.dropout(weights, dropout)
    return weights @ v, weights


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each over its own projection of the same tokens.

    Args:
        d_model: features of the output, and of the inputs unless you say otherwise.
        num_heads: how many heads.
        head_dim: features of one head; `d_model // num_heads` when left out. With any other number, heads are
            narrower or wider than usual, and `W_o` maps `num_heads * head_dim` back to `d_model`.
        num_kv_heads: how many KV heads (heads of keys and values); each serves `num_heads // num_kv_heads` query
            heads. `num_heads` when left out.
        query_dim: features of the queries, if not `d_model`.
        key_dim: features of the keys, if not `query_dim`.
        value_dim: features of the values, if not `key_dim`.
        dropout: share of the attention weights dropped in training.
        bias: whether the four projections have a bias.

    Raises:
        ValueError: a size is not a positive integer or does not divide as it must, or `dropout` is outside [0, 1).

    Vaswani et al. (2017), section 3.2.2; `num_kv_heads`: Shazeer (2019), Ainslie et al. (2023). Notebooks 01 to 06.

    Examples:
        >>> import torch
        >>> from mhalib import MultiHeadAttention
        >>> layer = MultiHeadAttention(d_model=8, num_heads=2)
        >>> layer(torch.zeros(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        num_kv_heads: int | None = None,
        query_dim: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = False,
    ):
        super().__init__()
        for name, size in {"d_model": d_model, "num_heads": num_heads}.items():
            check_size(name, size)
        if head_dim is None:
            check_divides("d_model", d_model, num_heads)
            head_dim = d_model // num_heads
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        query_dim = d_model if query_dim is None else query_dim
        key_dim = query_dim if key_dim is None else key_dim
        value_dim = key_dim if value_dim is None else value_dim
        for name, size in {"head_dim": head_dim, "query_dim": query_dim, "key_dim": key_dim}.items():
            check_size(name, size)
        check_size("value_dim", value_dim)
        check_divides("num_heads", num_heads, num_kv_heads, by="num_kv_heads")
        _check_dropout(dropout)

        self.d_model, self.num_heads, self.head_dim, self.num_kv_heads = d_model, num_heads, head_dim, num_kv_heads
        self.dropout = dropout
        self.W_q = nn.Linear(query_dim, num_heads * head_dim, bias=bias)
        self.W_k = nn.Linear(key_dim, num_kv_heads * head_dim, bias=bias)
        self.W_v = nn.Linear(value_dim, num_kv_heads * head_dim, bias=bias)
        self.W_o = nn.Linear(num_heads * head_dim, d_model, bias=bias)

    def forward(
        self,
        queries: Float[Tensor, "batch queries query_dim"],
        keys: Float[Tensor, "batch keys key_dim"] | None = None,
        values: Float[Tensor, "batch keys value_dim"] | None = None,
        mask: Bool[Tensor, "..."] | Float[Tensor, "..."] | None = None,
        need_weights: bool = False,
    ) -> (
        Float[Tensor, "batch queries d_model"]
        | tuple[Float[Tensor, "batch queries d_model"], Float[Tensor, "batch num_heads queries keys"]]
    ):
        """Let every query gather a mixture of the values, once per head.

        Args:
            queries: `(B, Tq, query_dim)`.
            keys: `(B, Tk, key_dim)`; the queries when left out (self-attention).
            values: `(B, Tk, value_dim)`; the keys when left out.
            mask: as in `scaled_dot_product_attention`.
            need_weights: also return the weights of every head. If you don't ask for them, torch's fused kernel
                does the work; the output is the same up to rounding (NaN for a query with no key before torch 2.5).

        Returns:
            `(B, Tq, d_model)`, or a pair of that and the weights `(B, num_heads, Tq, Tk)`.

        Raises:
            TypeError, ValueError: as in `scaled_dot_product_attention`.
        """
        if keys is None and values is not None:
            raise ValueError("values came without keys; give keys as well, or queries alone for self-attention")
        keys = queries if keys is None else keys
        values = keys if values is None else values
        self._check_inputs(queries, keys, values)

        q = split_heads(self.W_q(queries), self.num_heads)  # (B, Tq, query_dim) -> (B, num_heads, Tq, head_dim)
        k = split_heads(self.W_k(keys), self.num_kv_heads)  # (B, Tk, key_dim) -> (B, num_kv_heads, Tk, head_dim)
        v = split_heads(self.W_v(values), self.num_kv_heads)  # (B, Tk, value_dim) -> (B, num_kv_heads, Tk, head_dim)
        if self.num_kv_heads != self.num_heads:
            # Each head of keys serves neighbouring heads of queries: 0, 0, 1, 1 and not 0, 1, 0, 1.
            k = k.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)  # -> (B, num_heads, Tk, head_dim)
            v = v.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)  # -> (B, num_heads, Tk, head_dim)

        dropout = self.dropout if self.training else 0.0
        if need_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask, dropout=dropout)
            return self.W_o(merge_heads(heads)), weights
        if mask is not None:
            mask = prepare_mask(mask, (*q.shape[:-1], k.shape[-2]), q.dtype, q.device)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        return self.W_o(merge_heads(heads))  # (B, num_heads, Tq, head_dim) -> (B, Tq, d_model)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, num_heads={self.num_heads}, head_dim={self.head_dim}"

    def _check_inputs(self, queries: Tensor, keys: Tensor, values: Tensor) -> None:
        check_input("queries", queries, self.W_q)
        check_input("keys", keys, self.W_k)
        check_input("values", values, self.W_v)
        _check_lengths(queries, keys, values, names=("queries", "keys", "values"))


def _check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x in {"q": q, "k": k, "v": v}.items():
        check_tensor(name, x)
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise TypeError(f"q, k and v must be floating, got {q.dtype}, {k.dtype}, {v.dtype}; use .float()")
    if not q.ndim == k.ndim == v.ndim or not 2 <= q.ndim <= 4:
        raise ValueError(
            "q, k and v must all be (T, head_dim), (B, T, head_dim) or (B, num_heads, T, head_dim), got "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; add a missing axis with x[None]"
        )
    if q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:
        raise ValueError(
            f"q and k must have the same head_dim, got {q.shape[-1]} and {k.shape[-1]}; a dot product needs equal "
            "lengths of at least 1, so project both to the same head_dim"
        )
    if len({q.dtype, k.dtype, v.dtype}) > 1:
        raise ValueError(f"q, k and v must have one dtype, got {q.dtype}, {k.dtype}, {v.dtype}; use .to(q.dtype)")
    if len({q.device, k.device, v.device}) > 1:
        raise ValueError(f"q, k and v must be on one device, got {q.device}, {k.device}, {v.device}; use .to(q.device)")
    _check_lengths(q, k, v, names=("q", "k", "v"))


def _check_lengths(queries: Tensor, keys: Tensor, values: Tensor, names: tuple[str, str, str]) -> None:
    """Check the axes that the three share; tokens are on the second axis from the end."""
    shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in zip(names, (queries, keys, values), strict=True))
    if not queries.shape[:-2] == keys.shape[:-2] == values.shape[:-2]:
        raise ValueError(
            f"the leading axes (batch, heads) of {', '.join(names)} must agree, got {shapes}; use x.expand(...) if "
            "one is shared"
        )
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            f"every key needs its value: {names[1]} and {names[2]} must be equally long, got {shapes}; cut one of them"
        )
    if queries.shape[-2] == 0 or keys.shape[-2] == 0:
        raise ValueError(f"attention needs at least one query and one key, got {shapes}; leave empty sequences out")


def _check_dropout(dropout: float) -> None:
    if not isinstance(dropout, (int, float)) or not 0.0 <= dropout < 1.0:
        raise ValueError(
            f"dropout is the share of weights to drop, from 0 to below 1, got {dropout!r}; give 0.0 to drop none"
        )

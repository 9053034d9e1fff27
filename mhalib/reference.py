"""The same layer in other libraries: torch, d2l, and the interleaved layout; weights copied both ways.

Every library stores the four projections in its own order and takes masks in its own polarity. The
converters here are what the lessons and tests use to show that they all compute the same thing. Copies are
real copies: training one layer leaves the other alone. d2l is imported only when asked for.
"""

import importlib
import inspect
import sys
import types

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mhalib.arguments import check_divides, check_input, check_size
from mhalib.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention
from mhalib.masks import check_boolean, prepare_mask

# ---------------------------------------------------------------------------------------------- torch


@torch.no_grad()
def to_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return an `nn.MultiheadAttention` with the weights of `layer`, `batch_first=True`.

    Raises:
        TypeError: `layer` is no layer of ours.
        ValueError: torch's layer has no such form: it knows no wide heads and no shared key/value heads, and
            its queries have `d_model` features.

    Taught in notebook 06.
    """
    _check_plain(layer, "nn.MultiheadAttention")
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
    other.out_proj.weight.copy_(layer.W_o.weight)
    if bias:
        other.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        other.out_proj.bias.copy_(layer.W_o.bias)
    return other.train(layer.training)


@torch.no_grad()
def from_torch(other: nn.MultiheadAttention) -> MultiHeadAttention:
    """Return our layer with the weights of an `nn.MultiheadAttention`, whatever its `batch_first`.

    Raises:
        TypeError: it is another layer.
        ValueError: the layer appends a bias or a zero to its keys, which ours does not.

    Taught in notebook 06.
    """
    _check_kind(other, nn.MultiheadAttention)
    if other.bias_k is not None or other.add_zero_attn:
        raise ValueError(
            "add_bias_kv and add_zero_attn append a key of their own; only a layer without them can be copied"
        )
    layer = MultiHeadAttention(
        other.embed_dim,
        other.num_heads,
        key_dim=other.kdim,
        value_dim=other.vdim,
        dropout=other.dropout,
        bias=other.in_proj_bias is not None,
    ).to(other.out_proj.weight)
    if other.in_proj_weight is not None:
        weights = other.in_proj_weight.chunk(3)
    else:
        weights = [getattr(other, f"{name}_proj_weight") for name in "qkv"]
    for part, weight in zip((layer.W_q, layer.W_k, layer.W_v), weights, strict=True):
        part.weight.copy_(weight)
    layer.W_o.weight.copy_(other.out_proj.weight)
    if other.in_proj_bias is not None:
        for part, bias in zip((layer.W_q, layer.W_k, layer.W_v), other.in_proj_bias.chunk(3), strict=True):
            part.bias.copy_(bias)
        layer.W_o.bias.copy_(other.out_proj.bias)
    return layer.train(other.training)


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
    """
    check_boolean("mask", mask)
    shape = (batch, num_heads, num_queries, num_keys)
    full = prepare_mask(mask, shape, torch.float32, mask.device).expand(shape)
    return ~full.flatten(0, 1)  # (B, h, Tq, Tk) -> (B * h, Tq, Tk): sample 0 with all its heads, then sample 1


# ------------------------------------------------------------------------------------------------ d2l


def import_d2l() -> types.ModuleType:
    """Return `d2l.torch`, version 0.17 or 1.x, on a machine without torchvision and with today's IPython.

    d2l imports torchvision for its vision chapters only; while it is imported, a placeholder stands in if
    the real one is missing or does not load. d2l 0.17 also calls an IPython function that is gone; its heir
    is put in its place, so that `d2l.show_heatmaps` works.

    Raises:
        ImportError: d2l itself, or a package that it needs, is not installed.

    Taught in notebook 06.
    """
    if "d2l.torch" in sys.modules:
        return sys.modules["d2l.torch"]
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "torchvision"}
    try:
        importlib.import_module("torchvision")
        placeholders = {}
    except Exception:  # missing (ImportError) or built for another torch (RuntimeError)
        placeholders = {name: _Placeholder(name) for name in ("torchvision", "torchvision.transforms")}
        placeholders["torchvision"].transforms = placeholders["torchvision.transforms"]
    sys.modules.update(placeholders)
    try:
        d2l = importlib.import_module("d2l.torch")
    except ModuleNotFoundError as error:
        package = error.name.split(".")[0]  # d2l itself, or one that it needs
        missing = "d2l==0.17.0" if package == "d2l" else package
        raise ImportError(f"{error}; install it with: python -m pip install {missing}") from error
    finally:
        # Nobody else shall take the placeholder for the real thing.
        for name in placeholders:
            sys.modules.pop(name)
        sys.modules.update(before if placeholders else {})

    def use_svg_display():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg")

    d2l.use_svg_display = use_svg_display
    return d2l


class _Placeholder(types.ModuleType):
    """Stands in for torchvision while d2l is imported, and says so when it is used."""

    __path__: list[str] = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(
            f"d2l asked for {self.__name__}.{name}, but torchvision is not installed; attention needs none of it"
        )


@torch.no_grad()
def to_d2l(layer: MultiHeadAttention) -> nn.Module:
    """Return a `d2l.MultiHeadAttention` with the weights of `layer`; works with d2l 0.17 and 1.x.

    Raises:
        ImportError: d2l is not installed.
        TypeError: `layer` is no layer of ours.
        ValueError: d2l's layer has no such form: it knows no wide heads and no shared key/value heads.

    Taught in notebook 06.
    """
    _check_plain(layer, "d2l.MultiHeadAttention")
    d2l = import_d2l()
    sizes = (layer.W_k.in_features, layer.W_q.in_features, layer.W_v.in_features)  # d2l's order: key, query, value
    bias = layer.W_q.bias is not None
    # d2l 1.x infers the three input sizes at the first call and so does not take them.
    takes_sizes = "key_size" in inspect.signature(d2l.MultiHeadAttention).parameters
    args = (layer.d_model, layer.num_heads, layer.dropout, bias)
    other = d2l.MultiHeadAttention(*sizes, *args) if takes_sizes else d2l.MultiHeadAttention(*args)
    for name in ("W_q", "W_k", "W_v", "W_o"):
        ours = getattr(layer, name)
        linear = nn.Linear(ours.in_features, ours.out_features, bias=bias).to(ours.weight)
        linear.load_state_dict(ours.state_dict())
        setattr(other, name, linear)
    return other.train(layer.training)


@torch.no_grad()
def from_d2l(other: nn.Module) -> MultiHeadAttention:
    """Return our layer with the weights of a `d2l.MultiHeadAttention` (0.17, or 1.x after its first call).

    Raises:
        TypeError: it is another layer.
        ValueError: it is a layer of d2l 1.x that has not been called yet and so has no weights.

    Taught in notebook 06.
    """
    parts = ("num_heads", "attention", "W_q", "W_k", "W_v", "W_o")  # looked at, so that d2l need not be installed
    if missing := [name for name in parts if not hasattr(other, name)]:
        raise TypeError(
            f"expected a d2l.MultiHeadAttention, got {_kind(other)} without {', '.join(missing)}; each of from_torch, "
            "from_d2l and from_interleaved reads its own kind of layer"
        )
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in other.parameters()):
        raise ValueError("this d2l layer has no weights yet; call it once on real input, then copy it")
    layer = MultiHeadAttention(
        other.W_o.out_features,
        other.num_heads,
        query_dim=other.W_q.in_features,
        key_dim=other.W_k.in_features,
        value_dim=other.W_v.in_features,
        dropout=other.attention.dropout.p,
        bias=other.W_q.bias is not None,
    ).to(other.W_o.weight)
    for name in ("W_q", "W_k", "W_v", "W_o"):
        getattr(layer, name).load_state_dict(getattr(other, name).state_dict())
    return layer.train(other.training)


# ---------------------------------------------------------------------------------- interleaved layout


def interleaved_rows(num_heads: int, head_dim: int) -> Int[Tensor, "rows"]:
    """Return the order that turns contiguous rows `q | k | v` into interleaved ones: `W_interleaved = W[rows]`.

    Interleaved means that the rows of each head stand together, its q, then its k, then its v; this is what
    a reshape to `(heads, 3 * head_dim)` before the cut into three makes of a fused layer.

    Args:
        num_heads, head_dim: sizes of the layer.

    Returns:
        `(3 * num_heads * head_dim,)`, int64: at place i, the row of the contiguous weight that comes there.

    Raises:
        ValueError: a size is not a positive integer.

    Taught in notebook 01.
    """
    check_size("num_heads", num_heads)
    check_size("head_dim", head_dim)
    rows = torch.arange(3 * num_heads * head_dim).reshape(3, num_heads, head_dim)  # q|k|v, head, feature
    return rows.transpose(0, 1).flatten()  # head, q|k|v, feature


class InterleavedAttention(nn.Module):
    """Self-attention with one fused `qkv` layer whose rows are interleaved head by head.

    A legal layout, used by several public models, and not the one of `nn.MultiheadAttention`.

    Args:
        input_dim: features of the input.
        d_model: features of the output.
        num_heads: how many heads; divides `d_model`.
        dropout: share of the attention weights dropped in training.
        bias: whether the projections have a bias.

    Raises:
        ValueError: a size is not a positive integer, or `d_model` cannot be cut into `num_heads`.

    Taught in notebooks 01 and 06.
    """

    def __init__(self, input_dim: int, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = False):
        super().__init__()
        for name, size in {"input_dim": input_dim, "d_model": d_model}.items():
            check_size(name, size)
        check_divides("d_model", d_model, num_heads)
        self.num_heads, self.dropout = num_heads, dropout
        self.qkv = nn.Linear(input_dim, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch tokens input_dim"], mask: Tensor | None = None, need_weights: bool = False
    ):
        """Return `(B, T, d_model)`, with `need_weights` also the weights `(B, num_heads, T, T)`; mask as in `mhalib`."""
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
    _check_plain(layer, "the interleaved layout")
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
    _check_kind(other, InterleavedAttention)
    d_model = other.out.in_features
    bias = other.qkv.bias is not None
    layer = MultiHeadAttention(
        d_model, other.num_heads, query_dim=other.qkv.in_features, dropout=other.dropout, bias=bias
    ).to(other.qkv.weight)
    back = interleaved_rows(layer.num_heads, layer.head_dim).argsort()  # the inverse order
    parts = (layer.W_q, layer.W_k, layer.W_v)
    for part, weight in zip(parts, other.qkv.weight[back].chunk(3), strict=True):
        part.weight.copy_(weight)
    if bias:
        for part, values in zip(parts, other.qkv.bias[back].chunk(3), strict=True):
            part.bias.copy_(values)
    layer.W_o.load_state_dict(other.out.state_dict())
    return layer.train(other.training)


def _kind(layer: object) -> str:
    return f"{type(layer).__module__}.{type(layer).__qualname__}"  # d2l's class has the same name as ours


def _check_kind(layer: object, wanted: type) -> None:
    if not isinstance(layer, wanted):
        raise TypeError(
            f"expected a {wanted.__module__}.{wanted.__qualname__}, got {_kind(layer)}; the functions to_… take our "
            "layer, and each of from_torch, from_d2l and from_interleaved reads its own kind"
        )


def _check_plain(layer: MultiHeadAttention, target: str) -> None:
    _check_kind(layer, MultiHeadAttention)
    if layer.num_kv_heads != layer.num_heads or layer.num_heads * layer.head_dim != layer.d_model:
        raise ValueError(
            f"{target} needs num_kv_heads == num_heads and num_heads * head_dim == d_model, this layer has "
            f"num_heads={layer.num_heads}, num_kv_heads={layer.num_kv_heads}, head_dim={layer.head_dim}, "
            f"d_model={layer.d_model}; build it without head_dim and num_kv_heads"
        )

"""The projections of a layer: four matrices with or without biases, checked against the sizes, cut into heads."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Projection:
    """The weight `(out, in)` and the bias `(out,)` of one linear layer, in float64 on the CPU."""

    weight: Tensor
    bias: Tensor | None = None


def check_weights(weights: object, d_model: int, num_heads: int, head_dim: int) -> dict[str, Projection]:
    """Return the projections, or refuse them; see `examine`."""
    if not isinstance(weights, Mapping) or not {"q", "k", "v"} <= set(weights) <= {"q", "k", "v", "o"}:
        got = ", ".join(map(str, weights)) if isinstance(weights, Mapping) else type(weights).__name__
        raise ValueError(
            f'weights must be {{"q": …, "k": …, "v": …}}, with "o" where there is an output projection; got {got}'
        )
    found = {name: _projection(name, given) for name, given in weights.items() if not (name == "o" and given is None)}
    check_sizes(found, d_model, num_heads, head_dim)
    return found


def check_sizes(found: Mapping[str, Projection], d_model: int, num_heads: int, head_dim: int) -> None:
    """Refuse projections that are none of a layer of these sizes."""
    for name in "qkv":
        out, features = found[name].weight.shape
        if features != d_model or out % head_dim:
            raise ValueError(
                f"weights[{name!r}] must be (out, in) with in = d_model = {d_model} and out a multiple of head_dim = "
                f"{head_dim}, got {(out, features)}; nn.Linear stores (out, in), use .T for the other order"
            )
    q, k, v = (len(found[name].weight) for name in "qkv")
    if q != num_heads * head_dim:
        raise ValueError(
            f"weights['q'] has {q} rows, where num_heads * head_dim = {num_heads} * {head_dim} = "
            f"{num_heads * head_dim}; give head_dim=..., the features of one head, or another num_heads"
        )
    if k != v or q % k:
        raise ValueError(f"q, k, v have {q}, {k}, {v} rows; k and v need equally many, a divisor of q's")
    if "o" in found and found["o"].weight.shape[1] != q:
        raise ValueError(
            f"weights['o'] must take {q} features, got {tuple(found['o'].weight.shape)}; nn.Linear stores (out, in), "
            "use .T for the other order"
        )


def _projection(name: str, given: object) -> Projection:
    weight, bias = (given.weight, given.bias) if isinstance(given, nn.Linear) else (given, None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        raise TypeError(
            f"weights[{name!r}] must be an nn.Linear or a matrix (out, in), got {type(given).__name__}; "
            f"give layer.W_{name}"
        )
    return Projection(weight.detach().cpu().double(), None if bias is None else bias.detach().cpu().double())


@dataclass(frozen=True)
class Heads:
    """The projections head by head, in float64; keys and values that are shared stand there once for each head.

    Args:
        q: `(num_heads, head_dim, d_model)`, as `k` and `v`.
        o: `(d_out, num_heads, head_dim)`.
        biases: of q, k, v `(3, num_heads, head_dim)`, zeros where none was handed over.
        o_bias: `(d_out,)`.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    biases: Tensor
    o_bias: Tensor

    @property
    def maps(self) -> Tensor:
        """What each head makes of a token that it attends to alone, `(num_heads, d_out, d_model)`."""
        return torch.einsum("ohe,hed->hod", self.o, self.v)


# Keys and values repeated in different orders, which nobody does on purpose -> those that are cycled.
CROSSED = {"keys cycled, values not": "k", "values cycled, keys not": "v"}


def by_head(found: Mapping[str, Projection], heads: int, layout: str, shared: str) -> Heads:
    """Cut the projections into heads.

    Args:
        found: q, k, v, and o where there is one.
        heads: how many heads of queries.
        layout: "contiguous", "permuted" (the heads are the fast axis of the features) or "fused" (the rows of q, k
            and v stand together head by head, and were cut into three without care).
        shared: how heads of keys and values are repeated, "neighbours", "cycled", or one of `CROSSED`.
    """
    weights = [found[name].weight for name in "qkv"]
    biases = [torch.zeros(len(w), dtype=w.dtype) if found[n].bias is None else found[n].bias for n, w in
              zip("qkv", weights, strict=True)]  # fmt: skip
    parts = [torch.cat([w, b[:, None]], 1) for w, b in zip(weights, biases, strict=True)]  # (out, d_model + 1)
    inner = len(weights[0])
    head_dim = inner // heads
    if layout == "fused":
        parts = list(torch.cat(parts).unflatten(0, (heads, 3, head_dim)).transpose(0, 1).flatten(1, 2))
    if layout == "permuted":
        parts = [part.unflatten(0, (head_dim, -1)).transpose(0, 1) for part in parts]  # (h, hd, d_model + 1)
    else:
        parts = [part.unflatten(0, (-1, head_dim)) for part in parts]
    times = [heads // len(part) for part in parts]
    cycled = {"cycled": "qkv", **CROSSED}.get(shared, "")
    parts = [
        part.repeat(n, 1, 1) if name in cycled else part.repeat_interleave(n, 0)
        for name, part, n in zip("qkv", parts, times, strict=True)
    ]
    o = found["o"].weight if "o" in found else torch.eye(inner, dtype=torch.float64)
    o_bias = found["o"].bias if "o" in found else None
    o_bias = torch.zeros(len(o), dtype=o.dtype) if o_bias is None else o_bias
    o = o.unflatten(1, (head_dim, heads)).transpose(1, 2) if layout == "permuted" else o.unflatten(1, (heads, head_dim))
    q, k, v = (part[..., :-1] for part in parts)
    return Heads(q, k, v, o, torch.stack([part[..., -1] for part in parts]), o_bias)

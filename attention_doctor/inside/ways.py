"""The ways to calculate a layer from its weights: heads, layouts, scales, and the slips that are made on the way."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from attention_doctor.inside.projections import CROSSED, Heads, Projection, by_head


@dataclass(frozen=True)
class Way:
    """One way to calculate a layer from its weights."""

    layout: str  # how features belong to heads: contiguous, permuted, fused
    heads: int
    shared: str  # how shared key/value heads are repeated: neighbours, cycled, or one so and the other so
    scale: str
    zero_key: bool = False  # one more key with score 0 and value 0
    after: bool = False  # the weights are divided by sqrt(head_dim), after the softmax
    used: str = "qkv"  # which projections stand for q, k and v; "qqv": the queries' makes the keys, too

    @property
    def usual_apart_from_scale(self) -> bool:
        """Whether only the heads, the layout and the scale may be unusual."""
        return not self.after and self.used == "qkv"


# The scales that people use, from head_dim, d_model, num_heads and the number of tokens.
SCALES = {
    "1/sqrt(head_dim)": lambda head_dim, d_model, num_heads, tokens: head_dim**-0.5,
    "1/sqrt(d_model)": lambda head_dim, d_model, num_heads, tokens: d_model**-0.5,
    "1": lambda head_dim, d_model, num_heads, tokens: 1.0,
    "1/head_dim": lambda head_dim, d_model, num_heads, tokens: 1 / head_dim,
    "1/d_model": lambda head_dim, d_model, num_heads, tokens: 1 / d_model,
    "sqrt(head_dim)": lambda head_dim, d_model, num_heads, tokens: head_dim**0.5,
    "1/sqrt(num_heads)": lambda head_dim, d_model, num_heads, tokens: num_heads**-0.5,
    "head_dim**-0.25": lambda head_dim, d_model, num_heads, tokens: head_dim**-0.25,
    "1/sqrt(T)": lambda head_dim, d_model, num_heads, tokens: tokens**-0.5,
}


def ways(found: Mapping[str, Projection], head_dim: int) -> Iterator[Way]:
    """Yield the ways to try, the usual one first."""
    inner, kv = len(found["q"].weight), len(found["k"].weight)
    stated = inner // head_dim
    heads = [stated, *(n for n in range(1, min(inner, 64) + 1) if inner % n == 0 and n != stated)]
    for n in heads:
        if kv % (inner // n):
            continue
        own = n == stated  # with another number of heads only the scale is left open
        layouts = ("contiguous", "permuted", "fused") if own and kv == inner and n > 1 else ("contiguous",)
        repeats = ("neighbours", "cycled", *CROSSED) if own and kv < inner else ("neighbours",)
        for zero_key, layout, shared in product((False, True) if own else (False,), layouts, repeats):
            for scale in SCALES:
                yield Way(layout, n, shared, scale, zero_key)
    for scale in SCALES:
        usual = Way("contiguous", stated, "neighbours", scale)
        yield replace(usual, after=True)
        for used in ("qqv", "qkk") if kv == inner else ("qkk",):
            yield replace(usual, used=used)


def cut(found: Mapping[str, Projection], way: Way) -> Heads:
    """Return the projections head by head, as this way reads them."""
    used = {name: found[taken] for name, taken in zip("qkv", way.used, strict=True)}
    return by_head({**found, **used}, way.heads, way.layout, way.shared)


def scale_of(way: Way, heads: Heads, tokens: int) -> float:
    """Return the number by which the scores are multiplied."""
    num_heads, head_dim, d_model = heads.q.shape
    return SCALES[way.scale](head_dim, d_model, num_heads, tokens)


def calculate(x: Tensor, base: Tensor, heads: Heads, way: Way) -> Tensor:
    """Return the output of the layer `(B, T, d_out)` for `x` `(B, T, d_model)`, calculated in one way."""
    q, k, v = (
        torch.einsum("btd,hed->bhte", x, weight) + bias[:, None]  # (B, h, T, hd)
        for weight, bias in zip((heads.q, heads.k, heads.v), heads.biases, strict=True)
    )
    scores = (q @ k.transpose(-2, -1) * scale_of(way, heads, x.shape[1])).masked_fill(~base, -torch.inf)
    if way.zero_key:
        scores = torch.cat([scores, torch.zeros_like(scores[..., :1])], -1)
    weights = scores.softmax(-1)[..., : x.shape[1]]
    if way.after:
        weights = weights * heads.q.shape[1] ** -0.5
    return torch.einsum("bhte,ohe->bto", weights @ v, heads.o) + heads.o_bias

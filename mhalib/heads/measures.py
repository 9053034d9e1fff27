"""Measures of attention maps: what one head does, as a number instead of an impression.

All of them take weights `(*axes, Tq, Tk)` as a layer returns them; half precision is measured in single. The leading
axes (layers, heads) stay in the result, with one exception: where an argument comes once per sample, `(B, ...)`, the
first axis of the weights is the batch, and scores pool its samples. Weights `(B, num_heads, T, T)` with tokens `(B, T)`
give `(num_heads,)`. A score lies between 0 and 1: a mean over the queries that count and have what it looks for.

How much a head matters to the result of a model is another question, and another module: `pruning`.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mhalib.arguments import check_tensor, check_weights_kind, checked_weights

Weights = Float[Tensor, "*axes queries keys"]
Queries = Bool[Tensor, "*own queries"] | None  # those that count, (Tq,) or (B, Tq)
Score = Float[Tensor, "*rest"]  # of the axes, without the batch where samples are pooled


def attention_entropy(weights: Weights, queries: Queries = None) -> Float[Tensor, "*axes queries"]:
    """Return how widely each query spreads its attention, in bits: 0 on one key, log2(keys) on all keys alike.

    Args:
        weights: `(*axes, Tq, Tk)`.
        queries: boolean, `(Tq,)` or `(B, Tq)`: those that count, which leaves out padding; the others get NaN, so that
            `nanmean` passes over them.

    Raises:
        TypeError: the weights are no floating tensor, or `queries` no boolean one.
        ValueError: a row that counts does not sum to 1 or holds a negative weight, or shapes do not fit.

    Shannon (1948), with 0 log 0 = 0. Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import attention_entropy
        >>> attention_entropy(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
        tensor([0., 1.])
    """
    weights, counted = _checked(weights, queries)
    return (torch.special.entr(weights).sum(-1) / math.log(2)).masked_fill(~counted, math.nan)


def attention_distance(weights: Weights, queries: Queries = None) -> Float[Tensor, "*axes queries"]:
    """Return how far away each query looks on average, `|query - key|`, in tokens.

    Arguments and errors as in `attention_entropy`, but for self-attention only: weights `(*axes, T, T)`.

    Vig and Belinkov (2019). Taught in notebook 10.
    """
    weights, counted = _checked(weights, queries, square=True)
    return (weights * _offsets(weights).abs()).sum(-1).masked_fill(~counted, math.nan)


def offset_score(weights: Weights, offset: int, queries: Queries = None) -> Score:
    """Return the mean weight on the key `offset` places after the query, over the queries that have one.

    Args:
        weights, queries: as in `attention_distance`.
        offset: -1 is the token before, 0 the query's own, 1 the next.

    Raises:
        TypeError, ValueError: as in `attention_distance`, or no query that counts has such a key.

    Taught in notebook 10.
    """
    weights, counted = _checked(weights, queries, square=True)
    return _share(weights, _offsets(weights) == offset, counted, f"a key at offset {offset}")


def previous_token_score(weights: Weights, queries: Queries = None) -> Score:
    """Return the mean weight on the token just before the query: `offset_score` with -1. Taught in notebook 10."""
    return offset_score(weights, -1, queries)


def induction_score(weights: Weights, tokens: Int[Tensor, "*samples keys"], queries: Queries = None) -> Score:
    """Return the mean weight on keys that follow an earlier occurrence of the query's token.

    A head that scores 1 looks for what came next the last time. Only queries whose token occurred before count.

    Args:
        weights, queries: as in `attention_distance`.
        tokens: `(T,)`, or `(B, T)`: ids, compared for equality.

    Raises:
        TypeError, ValueError: as in `attention_distance`, `tokens` do not fit, or none that counts occurred before.

    Elhage et al. (2021), Olsson et al. (2022). Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import induction_score
        >>> weights = torch.eye(3)[[0, 1, 1]]  # the last query looks at the key behind the first
        >>> induction_score(weights, torch.tensor([7, 8, 7]))
        tensor(1.)
    """
    weights, counted = _checked(weights, queries, square=True)
    earlier = _same_token(weights, tokens) & (_offsets(weights) < 0)
    # One place to the right of it; the last column is never earlier.
    return _share(weights, earlier.roll(1, -1), counted, "a token that occurred before")


def same_token_score(weights: Weights, tokens: Int[Tensor, "*samples keys"], queries: Queries = None) -> Score:
    """Return the mean weight on other places that hold the query's own token, over the queries that have one.

    Arguments and errors as in `induction_score`. Taught in notebook 10.
    """
    weights, counted = _checked(weights, queries, square=True)
    elsewhere = _same_token(weights, tokens) & (_offsets(weights) != 0)
    return _share(weights, elsewhere, counted, "a token that occurs twice")


def key_score(weights: Weights, keys: Bool[Tensor, "*samples keys"], queries: Queries = None) -> Score:
    """Return the share of the weight that falls on the marked keys, such as separators or full stops.

    Args:
        weights, queries: as in `attention_entropy`.
        keys: boolean, `(Tk,)`, or `(B, Tk)`; a sample without a marked key does not count.

    Raises:
        TypeError, ValueError: as in `attention_entropy`, `keys` do not fit, or none is marked.

    Clark et al. (2019). Taught in notebook 10.
    """
    weights, counted = _checked(weights, queries)
    marked = _fitting("keys", keys, weights, weights.shape[-1:])
    return _share(weights, marked.unsqueeze(-2), counted, "a marked key")


def alignment_agreement(
    weights: Weights, alignment: Bool[Tensor, "*samples queries keys"], queries: Queries = None
) -> Score:
    """Return the share of the queries whose strongest key, of several the first, is one that it is aligned with.

    Args:
        weights, queries: as in `attention_entropy`.
        alignment: boolean, `(Tq, Tk)`, or `(B, Tq, Tk)`; queries that are aligned with no key do not count.

    Raises:
        TypeError, ValueError: as in `attention_entropy`, `alignment` does not fit, or aligns nothing that counts.

    Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import alignment_agreement
        >>> alignment_agreement(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.eye(2, dtype=torch.bool))
        tensor(0.5000)
    """
    weights, counted = _checked(weights, queries)
    aligned = _fitting("alignment", alignment, weights, weights.shape[-2:])
    strongest = weights.argmax(-1, keepdim=True)  # (*axes, Tq, 1)
    hits = torch.zeros_like(weights).scatter_(-1, strongest, 1.0)
    return _share(hits, aligned, counted, "an aligned key")


def _share(weights: Tensor, target: Tensor, counted: Tensor, what: str) -> Tensor:
    """Return the mean weight on the target cells, over the queries that count and have one.

    `target` and `counted` have as many axes as the weights and their rows, or none but the last: see `_fitting`.
    """
    found = (weights * target).sum(-1)  # (*axes, Tq)
    counted = counted & target.any(-1)  # (Tq,), or (B, 1, ..., 1, Tq)
    if not counted.any():
        raise ValueError(f"no query that counts has {what}; give other tokens, or leave `queries` out")
    pooled = (-1,) if counted.ndim == 1 else (0, -1)
    # Not a product with `counted`: what does not count may be NaN.
    return torch.where(counted, found, 0.0).sum(pooled) / counted.sum()


def _checked(weights: Tensor, queries: Tensor | None, square: bool = False) -> tuple[Tensor, Tensor]:
    """Return the weights in at least single precision, and which queries count."""
    check_weights_kind("weights", weights)
    if weights.ndim < 2 or weights.numel() == 0:
        raise ValueError(f"weights must be (..., Tq, Tk), none of them empty, got {tuple(weights.shape)}")
    if square and weights.shape[-2] != weights.shape[-1]:
        raise ValueError(
            f"this measure compares places in one sequence and needs weights (..., T, T), got {tuple(weights.shape)}; "
            "for attention to another sequence use key_score or alignment_agreement"
        )
    queries = torch.ones(weights.shape[-2], dtype=torch.bool) if queries is None else queries
    counted = _fitting("queries", queries, weights, weights.shape[-2:-1])
    numbers = weights.detach().to(torch.promote_types(weights.dtype, torch.float32))
    left_out = ", and leave rows with no key, such as padding, out with `queries`"
    return checked_weights("weights", numbers, weights.dtype, counted, left_out), counted


def _offsets(weights: Tensor) -> Tensor:
    """Return how many places after each query each key stands, `(T, T)`."""
    places = torch.arange(weights.shape[-1], device=weights.device)
    return places - places[:, None]


def _same_token(weights: Tensor, tokens: Tensor) -> Tensor:
    tokens = _fitting("tokens", tokens, weights, weights.shape[-1:], "integer ids")
    return tokens.unsqueeze(-1) == tokens.unsqueeze(-2)  # (..., T) -> (..., T, T)


def _fitting(name: str, x: Tensor, weights: Tensor, shape: torch.Size, kind: str = "boolean") -> Tensor:
    """Return `x` of that shape as it is, and `(B, *shape)` with its batch beside that of the weights.

    The latter comes with axes of 1 in between, so that it broadcasts: `(B, Tk)` becomes `(B, 1, ..., 1, Tk)`.
    """
    check_tensor(name, x)
    if x.is_floating_point() or (kind == "boolean" and x.dtype != torch.bool):
        raise TypeError(f"{name} must be {kind}, got {x.dtype}; use {'.bool()' if kind == 'boolean' else '.long()'}")
    per_sample = x.ndim == len(shape) + 1 and weights.ndim > 2 and len(x) == len(weights)
    if x.shape != shape and not (per_sample and x.shape[1:] == shape):
        raise ValueError(
            f"{name} must be {tuple(shape)}, or that with the batch of the weights in front, got {tuple(x.shape)} for "
            f"weights {tuple(weights.shape)}; leave an axis of 1 out with x[0]"
        )
    x = x.to(weights.device)
    return x.reshape(len(x), *[1] * (weights.ndim - 3), *shape) if per_sample else x

"""Measures of attention maps: what one head does, as a number instead of an impression.

All of them take weights `(*axes, Tq, Tk)` as a layer returns them. The leading axes (layers, heads) stay in the
result, with one exception: where an argument comes once per sample, `(B, ...)`, the first axis of the weights is the
batch, and its samples are pooled. Weights `(B, num_heads, T, T)` with tokens `(B, T)` give `(num_heads,)`.

Each takes `queries`, boolean, `(Tq,)` or `(B, Tq)`: the queries that count, which leaves out padding. How much a head
matters to the result of a model is another question, and another module: `pruning`.
"""

import math

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from mhalib.arguments import check_tensor, check_weights_kind, checked_weights


def attention_entropy(
    weights: Float[Tensor, "*axes queries keys"], queries: Bool[Tensor, "*own queries"] | None = None
) -> Float[Tensor, "*axes queries"]:
    """Return how widely each query spreads its attention, in bits: 0 on one key, log2(keys) on all keys alike.

    Args:
        weights: `(*axes, Tq, Tk)`.
        queries: those that count; the others get NaN, so that `nanmean` passes over them.

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


def attention_distance(
    weights: Float[Tensor, "*axes tokens tokens"], queries: Bool[Tensor, "*own tokens"] | None = None
) -> Float[Tensor, "*axes tokens"]:
    """Return how far away each query looks on average, `|query - key|`, in tokens.

    Args:
        weights: `(*axes, T, T)`, of self-attention.
        queries: those that count; the others get NaN, so that `nanmean` passes over them.

    Raises:
        TypeError, ValueError: as in `attention_entropy`, or there are not as many keys as queries.

    Vig and Belinkov (2019). Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import attention_distance
        >>> attention_distance(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
        tensor([0.0000, 0.5000])
    """
    weights, counted = _checked(weights, queries, square=True)
    places = torch.arange(weights.shape[-1], device=weights.device)
    far = (places[:, None] - places).abs().to(weights.dtype)  # (T, T)
    return (weights * far).sum(-1).masked_fill(~counted, math.nan)


def offset_score(
    weights: Float[Tensor, "*axes tokens tokens"],
    offset: int,
    queries: Bool[Tensor, "*own tokens"] | None = None,
) -> Float[Tensor, "*rest"]:
    """Return the mean weight on the key `offset` places after the query, over the queries that have one.

    1 means that a head looks nowhere else.

    Args:
        weights: `(*axes, T, T)`, of self-attention.
        offset: -1 is the token before, 0 the query's own, 1 the next.
        queries: those that count.

    Returns:
        `(*axes)`; without the first of them, the batch, where `queries` is `(B, T)`.

    Raises:
        TypeError, ValueError: as in `attention_entropy`, or no query that counts has such a key.

    Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import offset_score
        >>> offset_score(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), offset=0)
        tensor(0.7500)
    """
    weights, counted = _checked(weights, queries, square=True)
    places = torch.arange(weights.shape[-1], device=weights.device)
    return _share(weights, places - places[:, None] == offset, counted, f"a key at offset {offset}")


def previous_token_score(
    weights: Float[Tensor, "*axes tokens tokens"], queries: Bool[Tensor, "*own tokens"] | None = None
) -> Float[Tensor, "*rest"]:
    """Return the mean weight on the token just before the query: `offset_score` with -1.

    Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import previous_token_score
        >>> previous_token_score(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
        tensor(0.5000)
    """
    return offset_score(weights, -1, queries)


def induction_score(
    weights: Float[Tensor, "*axes tokens tokens"],
    tokens: Int[Tensor, "*samples tokens"],
    queries: Bool[Tensor, "*own tokens"] | None = None,
) -> Float[Tensor, "*rest"]:
    """Return the mean weight on keys that follow an earlier occurrence of the query's token.

    A head that scores 1 looks for what came next the last time. Only queries whose token occurred before count.

    Args:
        weights: `(*axes, T, T)`, or `(B, *axes, T, T)`.
        tokens: `(T,)`, or `(B, T)`: ids, compared for equality.
        queries: those that count.

    Returns:
        `(*axes)`.

    Raises:
        TypeError, ValueError: as in `attention_entropy`, `tokens` do not fit, or none that counts occurred before.

    Elhage et al. (2021), Olsson et al. (2022). Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import induction_score
        >>> weights = torch.eye(3)[[0, 1, 1]]  # the last query looks at the key behind the first
        >>> induction_score(weights, torch.tensor([7, 8, 7]))
        tensor(1.)
    """
    weights, counted = _checked(weights, queries, square=True)
    same = _same_token(weights, tokens)
    before = torch.ones_like(same).tril(-1)  # an earlier place
    target = (same & before).roll(1, -1)  # one place to the right of it; the last column is never earlier
    return _share(weights, target, counted, "a token that occurred before")


def same_token_score(
    weights: Float[Tensor, "*axes tokens tokens"],
    tokens: Int[Tensor, "*samples tokens"],
    queries: Bool[Tensor, "*own tokens"] | None = None,
) -> Float[Tensor, "*rest"]:
    """Return the mean weight on other places that hold the query's own token, over the queries that have one.

    Arguments, result and errors as in `induction_score`.

    Taught in notebook 10.

    Args:
        weights, tokens, queries: as in `induction_score`.

    Examples:
        >>> import torch
        >>> from mhalib.heads import same_token_score
        >>> weights = torch.eye(3)[[2, 1, 0]]  # the outer tokens look at each other
        >>> same_token_score(weights, torch.tensor([7, 8, 7]))
        tensor(1.)
    """
    weights, counted = _checked(weights, queries, square=True)
    same = _same_token(weights, tokens)
    elsewhere = ~torch.eye(same.shape[-1], dtype=torch.bool, device=same.device)
    return _share(weights, same & elsewhere, counted, "a token that occurs twice")


def key_score(
    weights: Float[Tensor, "*axes queries keys"],
    keys: Bool[Tensor, "*samples keys"],
    queries: Bool[Tensor, "*own queries"] | None = None,
) -> Float[Tensor, "*rest"]:
    """Return the share of the weight that falls on the marked keys, such as separators or full stops.

    Args:
        weights: `(*axes, Tq, Tk)`, or `(B, *axes, Tq, Tk)`.
        keys: boolean, `(Tk,)`, or `(B, Tk)`; a sample without a marked key does not count.
        queries: those that count.

    Returns:
        `(*axes)`.

    Raises:
        TypeError, ValueError: as in `attention_entropy`, `keys` do not fit, or none is marked.

    Clark et al. (2019). Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib.heads import key_score
        >>> key_score(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([True, False]))
        tensor(0.7500)
    """
    weights, counted = _checked(weights, queries)
    marked = _fitting("keys", keys, weights, (weights.shape[-1],), torch.bool)
    return _share(weights, marked.unsqueeze(-2), counted, "a marked key")


def alignment_agreement(
    weights: Float[Tensor, "*axes queries keys"],
    alignment: Bool[Tensor, "*samples queries keys"],
    queries: Bool[Tensor, "*own queries"] | None = None,
) -> Float[Tensor, "*rest"]:
    """Return the share of the queries whose strongest key is one that it is aligned with.

    Args:
        weights: `(*axes, Tq, Tk)`, or `(B, *axes, Tq, Tk)`.
        alignment: boolean, `(Tq, Tk)`, or `(B, Tq, Tk)`; queries that are aligned with no key do not count.
        queries: those that count.

    Returns:
        `(*axes)`. Of equally strong keys the first one is taken.

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
    aligned = _fitting("alignment", alignment, weights, tuple(weights.shape[-2:]), torch.bool)
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
    numbers = weights.detach().to(torch.promote_types(weights.dtype, torch.float32))
    if queries is None:
        counted = torch.ones(weights.shape[-2], dtype=torch.bool, device=weights.device)
    else:
        counted = _fitting("queries", queries, weights, (weights.shape[-2],), torch.bool)
    left_out = ", and leave rows with no key, such as padding, out with `queries`"
    return checked_weights("weights", numbers, weights.dtype, rows=counted, advice=left_out), counted


def _same_token(weights: Tensor, tokens: Tensor) -> Tensor:
    check_tensor("tokens", tokens)
    if tokens.is_floating_point():
        raise TypeError(f"tokens must be integer ids, got {tokens.dtype}; use .long()")
    tokens = _fitting("tokens", tokens, weights, (weights.shape[-1],))
    return tokens.unsqueeze(-1) == tokens.unsqueeze(-2)  # (..., T) -> (..., T, T)


def _fitting(
    name: str, x: Shaped[Tensor, "..."], weights: Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None
) -> Tensor:
    """Return `x` of that shape as it is, and `(B, *shape)` with its batch beside that of the weights.

    The latter comes with axes of 1 in between, so that it broadcasts: `(B, Tk)` becomes `(B, 1, ..., 1, Tk)`.
    """
    check_tensor(name, x)
    if dtype is not None and x.dtype != dtype:
        raise TypeError(f"{name} must be boolean, got {x.dtype}; use .bool()")
    per_sample = x.ndim == len(shape) + 1 and weights.ndim > 2 and len(x) == len(weights)
    if x.shape != shape and not (per_sample and x.shape[1:] == shape):
        raise ValueError(
            f"{name} must be {shape}, or that with the batch of the weights in front, got {tuple(x.shape)} for weights "
            f"{tuple(weights.shape)}; leave an axis of 1 out with x[0]"
        )
    x = x.to(weights.device)
    return x.reshape(len(x), *[1] * (weights.ndim - 3), *shape) if per_sample else x

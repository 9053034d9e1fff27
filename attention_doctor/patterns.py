"""Which outputs may depend on which tokens: what a healthy layer shows, and what each known mistake leaves behind.

All of it is counting: no numbers of a layer enter. Tokens are told apart by where a reshape puts them; a pattern is
a boolean matrix `(outputs, tokens)`, True where the output depends on the token.
"""

from itertools import combinations

import torch
from torch import Tensor


def depends(mask: Tensor, num_heads: int, wrong: str = "", axis: str = "keys") -> Tensor:
    """Return which output depends on which token.

    Args:
        mask: `(T, T)`, True where attention is allowed.
        num_heads: how many heads.
        wrong: the reshapes that lack their transpose: any of "q", "k", "v" (split) and "o" (merge).
        axis: over what the softmax goes, "keys" or "queries".

    Returns:
        `(T, T)`, rows are outputs, columns tokens.
    """
    T = len(mask)
    token = torch.eye(T, dtype=torch.bool)
    # One feature per head is enough to follow the reshape: every feature carries the number of its token.
    labels = torch.arange(T)[:, None].expand(T, num_heads)  # (T, h)
    place = {True: token[labels.reshape(num_heads, T)], False: token[labels.T]}  # (h, T, T): head, place -> token
    q, k, v = (place[name in wrong] for name in "qkv")
    # A single key has the weight 1, whatever q and k are.
    if axis == "keys":
        compared = mask & (mask.sum(-1, keepdim=True) > 1)  # (T, T)
        rivals = q | _gather(compared, k)
        queries = torch.where(compared.any(-1)[:, None], rivals, False)
    else:
        compared = mask & (mask.sum(0, keepdim=True) > 1)
        rivals = k | _gather(compared.T, q)  # (h, keys, tokens): what decides over the weights of a key
        queries = _gather(compared, rivals)
    heads = _gather(mask, v) | queries  # (h, T, T)
    return heads.reshape(T, num_heads, T).any(1) if "o" in wrong else heads.any(0)


def _gather(mask: Tensor, sets: Tensor) -> Tensor:
    """Return for each row the union of the sets that the mask lets it see: (T, K), (h, K, T) -> (h, T, T)."""
    return (mask.float() @ sets.float()) > 0


RESHAPES = ["o", *("".join(parts) for n in (4, 3, 2, 1) for parts in combinations("qkvo", n) if parts != ("o",))]
RESHAPES.sort(key=lambda wrong: (wrong != "o", wrong not in ("qkv", "qkvo"), len(wrong)))


def suspicions(mask: Tensor, base: Tensor, num_heads: int) -> dict[str, Tensor]:
    """Return, for one mask, the pattern that each known mistake leaves, by code; the likelier ones first.

    Args:
        mask: `(T, T)` that the layer was given.
        base: `(T, T)` that it applies by itself (all True, or causal).
        num_heads: how many heads.
    """
    allowed = mask & base
    patterns = {"mask-inverted": depends(~mask & base, num_heads), "mask-ignored": depends(base, num_heads)}
    patterns["mask-transposed"] = depends(mask.T & base, num_heads)
    patterns["softmax-axis"] = depends(allowed, num_heads, axis="queries")
    if num_heads > 1:
        for wrong in RESHAPES:
            code = "mixes-tokens-on-merge" if wrong == "o" else "mixes-tokens"
            patterns[f"{code}/{wrong}"] = depends(allowed, num_heads, wrong)
    return patterns


def unknown_rows(mask: Tensor, base: Tensor, code: str) -> Tensor:
    """Return the rows in which a mistake leaves a query without keys: anything may happen there."""
    applied = ~mask if code == "mask-inverted" else mask.T if code == "mask-transposed" else mask
    return ~(applied & base).any(-1)


def fits(seen: Tensor, expected: Tensor, unknown: Tensor | None = None) -> bool:
    """Whether two `(T, T)` patterns agree apart from the diagonal, which a residual connection may always fill."""
    differ = (seen != expected) & ~torch.eye(len(seen), dtype=torch.bool)
    if unknown is not None:
        differ &= ~unknown[:, None]
    return not differ.any()

"""Where one row of weights comes from: a query, its keys, the products of their features, and the scores.

Only numbers; which keys are looked at, and how they are drawn, is decided in `neuron.js`. Scores are the products
summed, times the scale, before anything that a model may add to them, such as a bias of places.
"""

import math

import numpy as np
import torch
from torch import Tensor

from headview.head_view.combine import head_cells

MOST_KEYS = 40  # that are looked at together, as in neuron.js
_PLAIN_UP_TO = 400_000  # bytes of a head's queries and keys that a page carries as float32; of more, float16
_FLOAT16_MOST = 65_504


def has_neurons(part, layer: int | None = None) -> bool:
    """Does a part hold the queries and keys that its weights come from, or those of one layer?"""
    both = (part.queries, part.keys)
    return all(given is not None and (layer is None or given[layer] is not None) for given in both)


def neuron(part, sample: int, layer: int, head: int, query: int, first: int | None) -> tuple[dict, bytes]:
    """Return one query of a head with some of its keys, and the scores of all keys.

    Args:
        first: the first of up to 40 keys that follow each other; None for the 40 with the highest scores.

    Returns:
        about: `keys`, which keys these are, in order; `features`, how many a key has; `scale`; `rough`, whether
            weights, queries or keys were kept in fewer bits than float32.
        data: float32: the query `(features,)`, the keys `(len(keys), features)`, the scores of all keys `(Tk,)`, -inf
            where masked, and the weights of the map `(Tk,)`, the same.

    Raises:
        ValueError: the part holds no queries and keys of this layer, or there is no such query.

    Vig, A Multiscale Visualization of Attention in the Transformer Model (ACL 2019).
    """
    queries, keys = _of_head(part, sample, layer, head)
    if not 0 <= query < len(queries):
        raise ValueError(f"query must be from 0 to {len(queries) - 1}, got {query}")
    one = queries[query].to("cpu", torch.float32)
    all_keys = keys.to("cpu", torch.float32)
    scale = scale_of(part, layer)
    weights = head_cells(part, sample, layer, head, torch.tensor([query]))[0]
    scores = ((all_keys @ one) * scale).masked_fill(weights == -torch.inf, -torch.inf)
    if first is None:
        wanted = _strongest(scores)
    else:
        wanted = list(range(max(0, min(first, len(keys) - 1)), min(len(keys), first + MOST_KEYS)))
    about = {"keys": wanted, "features": len(one), "scale": scale, "rough": _is_rough(part, layer)}
    pieces = (one, all_keys[wanted], scores, weights)
    return about, b"".join(np.ascontiguousarray(piece.numpy(), "<f4").tobytes() for piece in pieces)


def head_neurons(part, sample: int, layer: int, head: int, exact: bool = False) -> tuple[dict, bytes]:
    """Return all queries and keys of a head, for a page without a kernel.

    Args:
        exact: all digits; otherwise only while they are few.

    Returns:
        about: `storage`, "float32" or "float16"; `features`; `scale`; `rough`, as above.
        data: the queries `(Tq, features)`, then the keys `(Tk, features)`.
    """
    queries, keys = (x.to("cpu", torch.float32) for x in _of_head(part, sample, layer, head))
    most = max(x.nan_to_num(0, 0, 0).abs().max().item() if x.numel() else 0 for x in (queries, keys))
    few = 4 * (queries.numel() + keys.numel()) <= _PLAIN_UP_TO
    storage, kind = ("float32", "<f4") if exact or few or most > _FLOAT16_MOST else ("float16", "<f2")
    about = {"storage": storage, "features": queries.shape[-1], "scale": scale_of(part, layer)}
    about["rough"] = storage == "float16" or _is_rough(part, layer)
    return about, b"".join(np.ascontiguousarray(x.numpy(), kind).tobytes() for x in (queries, keys))


def scale_of(part, layer: int) -> float:
    """Return what the sums of products are multiplied by; 1 / sqrt(features) where nobody said."""
    scale = None if part.scales is None else part.scales[layer]
    return float(1 / math.sqrt(part.queries[layer].shape[-1]) if scale is None else scale)


def _of_head(part, sample: int, layer: int, head: int) -> tuple[Tensor, Tensor]:
    """Return the queries `(Tq, features)` and the keys `(Tk, features)` of a head."""
    if not has_neurons(part, layer):
        raise ValueError("this layer came without queries and keys; take them along: capture(model, qkv=True)")
    return tuple(x[layer].detach()[sample, head] for x in (part.queries, part.keys))


def _strongest(scores: Tensor) -> list[int]:
    """Return the keys with the highest scores that are not masked, highest first; NaN counts as high."""
    order = scores.nan_to_num(torch.inf, torch.inf, -torch.inf).argsort(descending=True, stable=True)[:MOST_KEYS]
    return [i for i in order.tolist() if scores[i] != -torch.inf] or order[:1].tolist()


def _is_rough(part, layer: int) -> bool:
    return any(x[layer].element_size() < 4 for x in (part.layers, part.queries, part.keys))

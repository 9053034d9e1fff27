"""What can be said of each head in a number, and which heads are alike.

The numbers sort the heads of an overview; they are no measures of what a head does, which `mhalib.heads` has.
"""

from dataclasses import dataclass

import numpy as np
import torch

from headview.head_view.combine import head_cells

LARGE = 1_000_000  # weights; the facts of larger parts come from some of their rows
ROWS = 64  # of a head of a large part, evenly spaced
LITTLE = 0.01  # what counts as next to nothing
_MOST_GROUPS = 12


@dataclass
class Facts:
    """Facts of heads, each float32 `(layers, h)`; NaN where there is nothing to say.

    - `entropy`: how evenly a query spreads its attention, the mean over queries of -sum p log p as a share of the
      logarithm of how many keys are open to it: 0 is one key, 1 all alike. Queries with fewer than two open keys,
      without any weight or with NaN are left out. NaN for signed numbers.
    - `sparsity`: the share of open cells that hold less than 0.01; where numbers are not weights, less than 0.01 of
      the head's largest.
    - `largest`: the number farthest from 0.
    - `rows`: how many queries of a head were looked at: all, or 64 evenly spaced ones of a large part.
    """

    entropy: np.ndarray
    sparsity: np.ndarray
    largest: np.ndarray
    rows: int


def facts_of(part, sample: int, layer: int | None = None) -> Facts:
    """Return the facts of all heads of a part, or of one layer, `(1, h)`."""
    layers, heads, queries, keys = part.shape
    rows = None
    if layers * heads * queries * keys > LARGE and queries > ROWS:
        rows = torch.arange(ROWS) * queries // ROWS
    chosen = range(layers) if layer is None else [layer]
    found = [_facts_of_layer(head_cells(part, sample, i, queries=rows), part.kind) for i in chosen]
    entropy, sparsity, largest = (np.stack(fact) for fact in zip(*found, strict=True))
    return Facts(entropy, sparsity, largest, queries if rows is None else ROWS)


def _facts_of_layer(cells: torch.Tensor, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return entropy, sparsity and the largest number of each head of `(h, queries, keys)`."""
    known = cells.isfinite()
    sizes = cells.masked_fill(~known, 0).abs()
    largest = sizes.amax((-2, -1))
    little = LITTLE if kind in ("weights", "part") else LITTLE * largest[:, None, None]
    sparsity = ((sizes < little) & known).sum((-2, -1)) / known.sum((-2, -1))  # 0 / 0 is NaN, as it should be
    if kind == "signed":
        entropy = torch.full_like(largest, torch.nan)
    else:
        total, open_ = sizes.sum(-1), known.sum(-1)
        said = (open_ > 1) & (total > 0) & ~cells.isnan().any(-1)
        spread = torch.special.entr(sizes / total[..., None]).sum(-1) / open_.float().log()
        entropy = spread.masked_fill(~said, 0).sum(-1) / said.sum(-1)
    largest = largest.masked_fill(~known.any(-1).any(-1), torch.nan)
    return entropy.numpy(), sparsity.numpy(), largest.numpy()


def order_by_likeness(thumbnails: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return heads in an order in which alike ones stand together, and the group of each.

    Heads are joined two by two, the nearest first, by the mean cosine distance between their members; the groups are
    what is left where the distances of the joins take their largest leap, 12 at the most.

    Args:
        thumbnails: `(n, rows, columns)`, such as `overview` gives; masked cells and NaN count as 0.

    Returns:
        order: int `(n,)`, heads by number, first the one to show first.
        groups: int `(n,)`, for each head the number of its group, counted in that order.
    """
    vectors = np.where(np.isfinite(thumbnails), thumbnails, 0).reshape(len(thumbnails), -1).astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths == 0, 1, lengths)
    given = torch.from_numpy(vectors)  # numpy would wake threads of its own beside those of torch
    joins = _joins(np.clip(1 - (given @ given.T).numpy(), 0, 2))
    count = len(vectors)
    members = {i: [i] for i in range(count)}
    left = _groups_left(np.array([height for _, _, height in joins]))
    groups = None
    for done in range(count):
        if count - done == left:
            groups = list(members.values())
        if done < count - 1:
            one, two, _ = joins[done]
            members[min(one, two)] = members.pop(min(one, two)) + members.pop(max(one, two))
    order = np.array([i for group in members.values() for i in group], dtype=np.int64)
    number = np.empty(count, dtype=np.int64)
    place = np.argsort(order)
    for i, group in enumerate(sorted(groups or [], key=lambda group: place[group[0]])):
        number[group] = i
    return order, number


def _joins(distance: np.ndarray) -> list[tuple[int, int, float]]:
    """Return which two clusters, each named by its lowest head, are joined and at what distance, nearest first.

    By chains of nearest neighbours, which find the joins of the mean distance in n² steps (Murtagh, 1983).
    """
    distance = distance.astype(np.float64)
    np.fill_diagonal(distance, np.inf)
    sizes, heights = np.ones(len(distance)), np.zeros(len(distance))
    chain, joins = [], []
    open_ = set(range(len(distance)))
    while len(open_) > 1:
        chain = chain or [min(open_)]
        last = chain[-1]
        nearest = int(distance[last].argmin())
        if len(chain) > 1 and distance[last, chain[-2]] <= distance[last, nearest]:
            one, two = sorted((last, chain[-2]))
            heights[one] = max(distance[one, two], heights[one], heights[two])  # rounding must not turn an order round
            joins.append((one, two, float(heights[one])))
            joined = (sizes[one] * distance[one] + sizes[two] * distance[two]) / (sizes[one] + sizes[two])
            distance[one], distance[:, one] = joined, joined
            distance[two], distance[:, two], distance[one, one] = np.inf, np.inf, np.inf
            sizes[one] += sizes[two]
            open_.discard(two)
            del chain[-2:]
        else:
            chain.append(nearest)
    # A chain does not find the joins in their order, and stable sorting keeps those of a cluster in theirs.
    return sorted(joins, key=lambda join: join[2])


def _groups_left(heights: np.ndarray) -> int:
    """Return how many groups to make of clusters that are joined at these distances."""
    late = heights[-_MOST_GROUPS:]
    if not len(late) or late[-1] < 1e-3:
        return 1
    leaps = np.diff(late)
    if not len(leaps):
        return 2
    return len(late) - int(leaps.argmax())

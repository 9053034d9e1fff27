"""Which heads are alike: an order in which alike ones stand together, and groups."""

import numpy as np
import torch

_MOST_GROUPS = 12


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

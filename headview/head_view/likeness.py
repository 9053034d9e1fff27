"""Which heads are alike: an order in which alike ones stand together, and groups."""

import numpy as np
import torch
from torch.nn.functional import normalize

_MOST_GROUPS = 12
_ALIKE = 1e-3  # a distance within which all heads are one group


def order_by_likeness(thumbnails: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return heads in an order in which alike ones stand together, and the group of each.

    Heads are joined two by two, the nearest first, by the mean cosine distance between their members; the groups are
    what is left where the distances of the joins take their largest leap, 12 at the most. Of `(n, rows, columns)`,
    where masked cells and NaN count as 0, come two int `(n,)`: the heads by number, and for each the number of its
    group, counted in that order.
    """
    vectors = np.where(np.isfinite(thumbnails), thumbnails, 0).reshape(len(thumbnails), -1).astype(np.float32)
    given = normalize(torch.from_numpy(vectors))  # numpy would wake threads of its own beside those of torch
    joins = _joins(np.clip(1 - (given @ given.T).numpy(), 0, 2))
    members, groups = [[head] for head in range(len(vectors))], np.arange(len(vectors))
    late = np.array([height for *_, height in joins[-_MOST_GROUPS:]])
    if len(late) < 2 or late[-1] < _ALIKE:
        left = 1 + int(len(late) > 0 and late[-1] >= _ALIKE)
    else:
        left = len(late) - int(np.diff(late).argmax())
    for done, (one, two, _) in enumerate(joins):
        if done < len(vectors) - left:
            groups[groups == two] = one
        members[one] += members[two]
    order = np.array(members[0], dtype=np.int64)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups[order].tolist()))}
    return order, np.array([numbers[group] for group in groups.tolist()])


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

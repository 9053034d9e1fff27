"""What can be said of each head in a number: the measures by which an overview is ordered and labelled.

What a head does is told from the cells that say it, whatever the size of a part; what needs whole rows, from some of
them where a part is large. A measure of the reader's own is a function of the maps, or numbers.
"""

import math

import numpy as np
import torch
from torch import Tensor

from headview.head_view.combine import head_cells

LARGE = 1_000_000  # weights; of larger parts entropy, sparsity and distance come from some of their rows
ROWS = 64  # of a head of a large part, evenly spaced
CELLS_UP_TO = 20_000_000  # of all heads that are read for induction; where there are more, those of some queries
OWN_UP_TO = 500_000_000  # weights that a function of the reader's own is given, four bytes each
LITTLE = 0.01  # what counts as next to nothing
OWN = ("entropy", "sparsity", "first token", "previous token", "induction", "distance")
ALONG = OWN[3:]  # of weights among the tokens of one sequence


def check_measures(given, parts: list) -> dict:
    """Return the reader's own measures by their names, once each can be one.

    Each is a function of `(layers, h, Tq, Tk)` float32 that returns `(layers, h)`, or such numbers.
    """
    if given is None:
        return {}
    example = 'such as measures={"to [SEP]": lambda w: w[..., -1].mean(-1)}'
    if not isinstance(given, dict) or not all(isinstance(name, str) and name for name in given):
        raise TypeError(f"measures must be a dict of functions or numbers by their names, {example}, got {given!r:.60}")
    for name, measure in given.items():
        if name in (*OWN, "model", "likeness", "cell"):
            raise ValueError(f"measures has {name!r}, which the view has itself; give yours another name")
        if not callable(measure):
            _as_numbers(name, measure, parts[0].shape[:2])
    return dict(given)


def measures_of(part, sample: int, own: dict) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the measures of all heads of a part, each float32 `(layers, h)`, and a sentence about some of them.

    The sentence says how many queries a measure was taken from, where not from all, or why no head has a number. A head
    without one has NaN.

    - "entropy": how evenly a query spreads its attention, the mean over queries of -sum p log p as a share of the
      logarithm of how many keys are open to it: 0 is one key, 1 all alike. Queries with fewer than two open keys,
      without any weight or with NaN are left out.
    - "sparsity": the share of open cells that hold less than 0.01; where numbers are not weights, less than 0.01 of
      the head's largest.
    - "first token": the mean weight that goes to the first key.
    - "previous token", "induction", "distance": as `mhalib.heads` measures them, tokens told apart by their labels, and
      distance over the weight that is there. Queries that a mask leaves no key, or that hold NaN, are left out.
    """
    layers, heads, queries, _ = part.shape
    count = math.prod(part.shape)
    rows = torch.arange(ROWS) * queries // ROWS if count > LARGE and queries > ROWS else torch.arange(queries)
    few = f"is measured in {ROWS} of {queries:,} queries"
    notes = dict.fromkeys(("entropy", "sparsity", "distance"), few) if len(rows) < queries else {}
    every = torch.arange(queries)
    places = {"first token": (every, torch.zeros_like(every))}
    if along := _is_along_itself(part, sample):
        places["previous token"] = every[1:], every[:-1]
        *places["induction"], repeated = _behind_earlier(_labels(part, sample), CELLS_UP_TO // (layers * heads))
        if (used := len(places["induction"][0].unique())) < repeated:
            notes["induction"] = f"is measured in {used:,} of {repeated:,} queries whose token came before"
    found = [
        _of_rows(head_cells(part, sample, i, queries=rows), rows, part.kind)
        | {name: _share(part, sample, i, *cells) for name, cells in places.items()}
        for i in range(layers)
    ]
    numbers = {name: np.stack([each[name] for each in found]) for name in OWN if name in found[0]}
    if not along:
        del numbers["distance"]
    for name, measure in own.items():
        if callable(measure) and count > OWN_UP_TO:
            measure = np.full((layers, heads), np.nan)
        elif callable(measure):
            maps = torch.empty(part.shape)
            for i in range(layers):
                maps[i] = head_cells(part, sample, i)
            measure = measure(maps.masked_fill_(maps == -torch.inf, 0))
        numbers[name] = _as_numbers(name, measure, (layers, heads))
    lacking = [name for name in (*OWN, *own) if np.isnan(numbers.get(name, np.nan)).all()]
    notes |= {name: f"has no number: {_why_none(part, sample, name, own.get(name))}" for name in lacking}
    return numbers, {name: f"{name.capitalize() if name in OWN else name} {note}." for name, note in notes.items()}


def _why_none(part, sample: int, name: str, measure) -> str:
    """Return why no head has a number for a measure of the view, or for one of the reader's own."""
    count = math.prod(part.shape)
    if callable(measure) and count > OWN_UP_TO:
        return (
            f"too large to measure, your function would be given {count / 2.5e8:.2g} GB; give it as numbers (layers, h)"
        )
    if measure is not None:
        return "it is NaN for every head"
    if name == "entropy":
        return "it needs numbers from 0 on" if part.kind == "signed" else "no query without NaN has two open keys"
    labels = _labels(part, sample)
    if name in ALONG:
        if part.kind not in ("weights", "part"):
            return "it needs attention weights"
        if not _is_along_itself(part, sample):
            return "queries and keys are not the same tokens"
        if name == "induction" and len(set(labels)) == len(labels):
            return "no token comes again" if labels else "without labels, no token comes again"
        if name == "previous token" and part.shape[2] == 1:
            return "there is only one token"
    return "each query is masked, empty or NaN"


def _labels(part, sample: int, of: str = "tokens") -> list[str]:
    labels = getattr(part, of)
    return labels[sample] if labels else []


def _is_along_itself(part, sample: int) -> bool:
    """Are these weights among the tokens of one sequence, so that places can be compared? Of cut ones, labels tell."""
    same = part.kind == "weights" or _labels(part, sample) == _labels(part, sample, "key_tokens")
    return part.kind in ("weights", "part") and part.shape[2] == part.shape[3] and same


def _of_rows(cells: Tensor, rows: Tensor, kind: str) -> dict[str, np.ndarray]:
    """Return what these rows, `(h, rows, keys)`, tell of each head."""
    known, sizes = cells.abs() < torch.inf, cells.nan_to_num(0, 0, 0).abs()
    little = LITTLE if kind in ("weights", "part") else LITTLE * sizes.amax((-2, -1))[:, None, None]
    total, open_ = sizes.sum(-1), known.sum(-1, dtype=torch.float32)  # counted much faster than in 64 bits
    sparsity = ((sizes < little) & known).sum((-2, -1), dtype=torch.float32) / open_.sum(-1)  # or 0 / 0, NaN
    holds = (total > 0) & ~cells.amax(-1).isnan()
    several = holds & (open_ > 1) & (kind != "signed")
    spread = torch.special.entr(sizes / total[..., None]).sum(-1) / open_.log()
    apart = (torch.arange(cells.shape[-1]) - rows[:, None]).abs().float()
    far = torch.einsum("hqk,qk->hq", sizes, apart) / total
    entropy, distance = (
        each.masked_fill(~counted, 0).sum(-1) / counted.sum(-1).float()
        for each, counted in ((spread, several), (far, holds))
    )
    return {"entropy": entropy.numpy(), "sparsity": sparsity.numpy(), "distance": distance.numpy()}


def _behind_earlier(labels: list[str], most: int) -> tuple[Tensor, Tensor, int]:
    """Return the cells whose key follows an earlier occurrence of the query's token, and how many queries have one.

    They come as queries, in order, and keys. Where there are more than `most`, they are those of every n-th query.
    """
    numbers = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    kinds = np.array([numbers[label] for label in labels], int)
    order = kinds.argsort(kind="stable")  # the places of the first label, of the second, …
    first = np.searchsorted(kinds[order], kinds)  # where in `order` those of a query's own label begin
    before = order.argsort() - first  # how many of these come before it
    repeated = before.nonzero()[0]
    queries = repeated[:: max(1, -(-before.sum() // max(1, most)))]
    counts = before[queries]
    nth = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    keys = order[np.repeat(first[queries], counts) + nth] + 1
    return torch.from_numpy(np.repeat(queries, counts)), torch.from_numpy(keys), len(repeated)


def _share(part, sample: int, layer: int, queries: Tensor, keys: Tensor) -> np.ndarray:
    """Return for each head how much a query gives to its cells, the mean over queries; NaN where none counts."""
    cells = head_cells(part, sample, layer, queries=queries, keys=keys).numpy()  # (h, cells)
    starts = np.diff(queries.numpy(), prepend=-1).nonzero()[0]  # the first cell of each query
    if not len(starts):
        return np.full(len(cells), np.nan, np.float32)
    masked = np.isneginf(cells)
    given = np.add.reduceat(np.where(masked, 0, np.abs(cells)), starts, axis=1)
    counted = ~np.isnan(given)
    if masked.any() and part.allowed[layer] is not None:
        allowed = part.allowed[layer].detach().expand(part.layers[layer].shape)[sample]
        allowed = allowed[:1] if allowed.stride(0) == 0 else allowed  # one mask for all heads is read once
        counted &= allowed.any(-1).cpu().numpy()[:, queries[starts].numpy()]
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN, as it should be
        return np.where(counted, given, 0).sum(1) / counted.sum(1, dtype=np.float32)


def _as_numbers(name: str, given, shape: tuple[int, int]) -> np.ndarray:
    given = given.detach().cpu() if isinstance(given, Tensor) else given
    try:
        numbers = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise TypeError(f"the measure {name!r} must give numbers (layers, h), got {type(given).__name__}") from None
    if numbers.shape != tuple(shape):
        raise ValueError(
            f"the measure {name!r} must give one number for each head, {tuple(shape)}, got {numbers.shape}"
        )
    return numbers

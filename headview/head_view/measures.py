"""What can be said of each head in a number: the measures by which an overview is ordered and labelled.

What a head does is measured by `mhalib.heads`; a measure of the reader's own is a function of the maps, or numbers.
Large parts are measured in some of their rows, as far as a measure can do with those.
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from headview.head_view.combine import head_cells
from mhalib.heads import attention_distance, induction_score, previous_token_score

LARGE = 1_000_000  # weights; of larger parts entropy and sparsity come from some of their rows
ROWS = 64  # of a head of a large part, evenly spaced
IN_FULL_UP_TO = 60_000_000  # weights; what needs every row of a head is left out of larger parts
LITTLE = 0.01  # what counts as next to nothing
OWN = ("entropy", "sparsity", "first token", "previous token", "induction", "distance")


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


def measures_of(part, sample: int, own: dict) -> dict[str, np.ndarray]:
    """Return the measures of all heads of a part, each float32 `(layers, h)`.

    NaN where a head has no such number: entropy of signed numbers, induction without a token that comes again.

    - "entropy": how evenly a query spreads its attention, the mean over queries of -sum p log p as a share of the
      logarithm of how many keys are open to it: 0 is one key, 1 all alike. Queries with fewer than two open keys,
      without any weight or with NaN are left out.
    - "sparsity": the share of open cells that hold less than 0.01; where numbers are not weights, less than 0.01 of
      the head's largest.
    - "first token": the mean weight that goes to the first key.
    - "previous token", "induction", "distance": as `mhalib.heads` measures them, tokens told apart by their labels.
    """
    layers, heads, queries, keys = part.shape
    count = layers * heads * queries * keys
    rows = torch.arange(ROWS) * queries // ROWS if count > LARGE and queries > ROWS else None
    found = [_quick(head_cells(part, sample, i, queries=rows), part.kind) for i in range(layers)]
    if part.kind == "weights" and queries == keys and count <= IN_FULL_UP_TO:
        labels = part.tokens[sample] if part.tokens and part.tokens[sample] else range(queries)
        numbers = {label: i for i, label in enumerate(dict.fromkeys(labels))}
        tokens = torch.tensor([numbers[label] for label in labels])
        found = [each | _in_full(head_cells(part, sample, i), tokens) for i, each in enumerate(found)]
    numbers = {name: torch.stack([each[name] for each in found]).numpy() for name in found[0]}
    for name, measure in own.items():
        if callable(measure):
            maps = torch.stack([head_cells(part, sample, i) for i in range(layers)])
            measure = measure(maps.masked_fill(maps == -torch.inf, 0))
        numbers[name] = _as_numbers(name, measure, (layers, heads))
    return numbers


def _quick(cells: Tensor, kind: str) -> dict[str, Tensor]:
    """Return what some rows tell of each head of `(h, queries, keys)`."""
    known, sizes = cells.abs() < torch.inf, cells.nan_to_num(0, 0, 0).abs()
    largest = sizes.amax((-2, -1))
    little = LITTLE if kind in ("weights", "part") else LITTLE * largest[:, None, None]
    sparsity = ((sizes < little) & known).sum((-2, -1)).float() / known.sum((-2, -1))  # 0 / 0 is NaN, as it should be
    total, open_ = sizes.sum(-1), known.sum(-1)
    said = (open_ > 1) & (total > 0) & ~cells.amax(-1).isnan() & (kind != "signed")
    shares = sizes / total[..., None]
    spread = -(shares * shares.clamp(min=1e-37).log()).sum(-1) / open_.float().log()  # of no share: 0
    entropy = spread.masked_fill(~said, 0).sum(-1) / said.sum(-1)
    return {"entropy": entropy, "sparsity": sparsity, "first token": sizes[..., 0].mean(-1)}


def _in_full(cells: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """Return what `mhalib.heads` measures of each of `(h, T, T)`; NaN where a map or a text has nothing of the kind."""
    cells = cells.clamp(min=0)  # what is masked, and what rounding put below
    missing = cells.amax((1, 2)).isnan()
    cells[missing] = torch.eye(len(tokens), dtype=cells.dtype)  # whatever it says is taken back below
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "previous token": previous_token_score,
        "induction": lambda maps: induction_score(maps, tokens),
        "distance": lambda maps: attention_distance(maps).mean(-1),
    }
    found = dict.fromkeys(ways, cells.new_full((len(cells),), torch.nan))
    for name, measure in ways.items():
        with suppress(ValueError):  # a single token, no token that comes again
            found[name] = measure(cells).masked_fill(missing, torch.nan)
    return found


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

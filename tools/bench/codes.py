"""Measure what is left of weights after they are coded for the page, where one key takes nearly all of each row.

Part of `make bench`; `report_large.py` puts the table into BENCHMARKS.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from mhalib.widgets.head_view.codes import decode, encode

LAYERS, HEADS, TOKENS = 12, 12, 512
READ_FROM, NEAR_FROM = 1e-4, 1e-3  # what is above must not read 0, and must be nearly right


@dataclass
class Loss:
    """What one way to code weights loses: shares from 0 to 1, sums of rows."""

    zero: float  # share of the weights above READ_FROM that read 0
    error: float  # median of the relative errors above NEAR_FROM
    sums: tuple[float, float]  # the least and the largest sum of a row


def sink_heavy(heads: int, tokens: int) -> np.ndarray:
    """Return random maps `(h, T, T)` float32 in which one key takes .9 to .999 of each row."""
    maps = (2 * torch.randn(heads, tokens, tokens)).softmax(-1)
    sinks = torch.randint(tokens, (heads, 1, 1)).expand(-1, tokens, 1)  # one key in each head
    share = 1 - 10 ** -(1 + 2 * torch.rand(heads, tokens, 1))
    maps *= (1 - share) / (1 - maps.gather(-1, sinks))
    return maps.scatter(-1, sinks, share).numpy()


def through(storage: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return what gives the weights as a page reads them that gets them in this storage."""
    return lambda maps: decode(*encode(maps, storage), storage)


def evenly(maps: np.ndarray) -> np.ndarray:
    """Return the weights as one of 256 colours tells them."""
    return np.rint(maps * 255) / np.float32(255)


WAYS = {
    "HeadView, one byte": through("uint8"),
    "HeadView, two bytes": through("uint16"),
    "evenly spaced, one byte": evenly,
}


def losses(layers: int = LAYERS, heads: int = HEADS, tokens: int = TOKENS) -> dict[str, Loss]:
    """Return for each way what it loses of the same random maps, one layer at a time."""
    found: dict[str, list] = {name: [] for name in WAYS}
    for _ in range(layers):
        maps = sink_heavy(heads, tokens)
        seen, near = maps > READ_FROM, maps > NEAR_FROM
        for name, way in WAYS.items():
            read = way(maps)
            errors = np.abs(read[near] - maps[near]) / maps[near]
            found[name].append(((read[seen] == 0).sum(), seen.sum(), errors, read.sum(-1, dtype=np.float64)))
    return {name: _loss(rows) for name, rows in found.items()}


def _loss(rows: list[tuple]) -> Loss:
    zeros, seen, errors, sums = zip(*rows, strict=True)
    all_sums = np.concatenate([part.ravel() for part in sums])
    error = float(np.median(np.concatenate(errors)))
    return Loss(float(sum(zeros) / sum(seen)), error, (float(all_sums.min()), float(all_sums.max())))

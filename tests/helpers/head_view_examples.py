"""Parts of a HeadView, as little as its numbers need, for the tests in Python and in the page."""

from types import SimpleNamespace

import numpy as np
import torch

from headview.head_view import codes

NAN = float("nan")
WORDS = [0, 0, 1, 2, 2, 2, 3]
TOKENS = ["[CLS]", "a", "b", "c", "d", "e", "[SEP]"]


def part_of(weights, *, mask=None, kind="weights", tokens=(), key_tokens=(), words=((), ()), values=None):
    """Return what the numbers need of a `Part`; `weights` are (layers, B, h, Tq, Tk)."""
    samples = weights.shape[1]
    return SimpleNamespace(
        layers=list(weights),
        allowed=[mask] * len(weights),
        kind=kind,
        shape=(weights.shape[0], *weights.shape[2:]),
        tokens=[list(tokens)] * samples,
        key_tokens=[list(key_tokens or tokens)] * samples,
        words=[tuple(map(list, words))] * samples,
        values=values,
    )


def some(*shape, mask=None):
    scores = 2 * torch.randn(*shape)
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)


def causal(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


def example(kind, masked, missing):
    mask = causal(7) if masked else None
    weights = torch.randn(2, 2, 3, 7, 7) if kind == "signed" else some(2, 2, 3, 7, 7, mask=mask)
    if missing:
        weights[1, 1, 2, 4], weights[0, 1, 0, 2, 1] = NAN, NAN
    values = [torch.randn(2, 3, 7, 4) for _ in range(2)]
    if masked:
        values[0][:, :, 3] = 0  # -inf times 0
        mask = mask.expand(2, 3, 7, 7).clone()
        mask[:, 1, :, 5:] = False  # a head that sees less,
        mask[:, 2, 3, 3:] = False  # and one that in a row sees nothing of a word that the next rows see
        weights = weights if kind == "signed" else weights * mask
    return part_of(weights, mask=mask, kind=kind, tokens=TOKENS, words=(WORDS, WORDS), values=values)


def decoded(coded: np.ndarray, tops, storage: str, *, signed: bool = False) -> np.ndarray:
    """What codes of `codes.encode` stand for, as the page reads them."""
    if storage == "float32":
        return coded
    levels, zero = codes.LEVELS[storage], codes.LEVELS[storage] >> 1 if signed else 0
    shares = ((np.arange(levels + 3.0) - zero) / (zero or levels)) ** codes.POWER
    shares[-2:] = -np.inf, np.nan
    return (shares[coded] * np.maximum(tops, np.finfo("f4").tiny)[..., None, None]).astype("f4")

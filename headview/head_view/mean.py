"""Parts as the mean over their samples: what many inputs of one form have in common, place by place."""

from dataclasses import replace

import torch
from torch import Tensor

SAMPLES = ("each", "mean")


def check_samples(samples: str) -> None:
    """Refuse what is no way to show samples."""
    if samples not in SAMPLES:
        raise ValueError(
            f'samples must be "each", one map for each, or "mean", one map for all of them, got {samples!r}; which of '
            "them is shown is the trait sample, such as view.sample = 1"
        )


def mean_of(part):
    """Return a part with one sample, the mean of those it has; rows in which a sample attends to nothing do not count.

    Labels remain where the samples agree; elsewhere there are the numbers of the places.
    """
    if part.samples == 1:
        return part
    same_words = all(each == part.words[0] for each in part.words)
    return replace(
        part,
        name=f"{part.name} mean of {part.samples} samples".strip(),
        layers=[_mean(*each, part.kind) for each in zip(part.layers, part.allowed, strict=True)],
        allowed=[_any(each, part.samples) for each in part.allowed],
        tokens=[_common(part.tokens)],
        key_tokens=[_common(part.key_tokens)],
        words=[part.words[0] if same_words else ([], [])],
        **dict.fromkeys(("queries", "keys", "values", "scales")),  # the mean of products is no product of means
    )


def _mean(layer: Tensor, allowed: Tensor | None, kind: str) -> Tensor:
    """Return `(1, h, Tq, Tk)` float32; sample by sample, so that no more than one is held as float32."""
    total = torch.zeros(layer.shape[1:], device=layer.device)
    count = torch.zeros(*layer.shape[1:3], 1, device=layer.device)
    for i, cells in enumerate(layer):
        open_ = None if allowed is None else _at(allowed, i, layer.shape).to(layer.device)
        cells = cells.float() if open_ is None else cells.float().masked_fill(~open_, 0)
        total += cells
        empty = torch.zeros_like(count, dtype=torch.bool) if open_ is None else ~open_.any(-1, keepdim=True)
        if kind == "weights":
            empty = empty | (cells == 0).all(-1, keepdim=True)
        count += ~empty
    return (total / count.clamp(min=1))[None]


def _at(allowed: Tensor, sample: int, shape: torch.Size) -> Tensor:
    return allowed.expand(shape)[sample]


def _any(allowed: Tensor | None, samples: int) -> Tensor | None:
    if allowed is None or allowed.ndim < 4 or allowed.shape[0] < samples:
        return allowed  # the same for all
    return allowed.any(0, keepdim=True)


def _common(labels: list[list[str]]) -> list[str]:
    if not all(labels):
        return []
    return [each[0] if len(set(each)) == 1 else str(i) for i, each in enumerate(zip(*labels, strict=True))]

"""One step of attention as it was seen: its queries, keys, mask or weights, and the map that is made of them.

Nothing here watches a model; `eye` does, and hands the steps on.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 2**24  # so many weights at full precision at a time, or those of one sample
MASKED = -5e3  # a score below is a mask, not a likeness: of those in use, -10,000 is the mildest


class Loop(NamedTuple):
    """Where a step is in a loop over heads or samples, should it belong to one."""

    of: tuple  # the loops that it may belong to: the call of a module, and how many steps of attention lie before
    head: tuple
    sample: tuple
    keys: tuple | None
    part: bool  # whether it may be a part of the samples


@dataclass
class Step:
    """One step of attention, its axes brought to (B, h, T, ...); nothing is computed before it is asked for.

    `weights` are there where the model multiplied by hand, together with the `scores` that went into the softmax.
    Without them they are made of `q`, `k`, `mask`, `causal` and `scale`, as the fused kernel does.
    """

    name: str
    kind: str  # "self" | "cross"
    shape: tuple[int, int, int, int]
    pass_number: int = 0  # of the model, from 0
    loop: Loop | None = None
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    scale: float | None = None
    factors: tuple[float, float] = (1.0, 1.0)  # with which q and k had been multiplied before
    mask: Tensor | None = None  # broadcasts to `shape`; boolean, or added to the scores
    causal: bool = False
    weights: Tensor | None = None
    scores: Tensor | None = None

    def map(self, samples: list[int], dtype: torch.dtype | None) -> Tensor:
        """Return the weights of these samples, (b, h, Tq, Tk), on the CPU."""
        if self.weights is not None:
            return chosen(self.weights, samples).to(device="cpu", dtype=dtype, copy=True)
        full = torch.promote_types(self.q.dtype, torch.float32)
        out = torch.empty((len(samples), *self.shape[1:]), dtype=dtype or full, device="cpu")
        step = max(1, CHUNK // max(1, math.prod(self.shape[1:])))
        for start in range(0, len(samples), step):
            rows, part = samples[start : start + step], out[start : start + step]
            q, k = (chosen(x, rows).to(full) for x in (self.q, self.k))
            k = shared(k, self.shape[1])
            there = part.dtype == full and part.device == q.device  # most time goes by in finding new memory
            scores = part if there else torch.empty_like(part, dtype=full, device=q.device)
            # (b h, Tq, d) @ (b h, d, Tk) -> (b h, Tq, Tk)
            torch.bmm((q * self.scale).flatten(0, 1), k.flatten(0, 1).mT, out=scores.flatten(0, 1))
            self._hide(scores, rows)
            empty = None if self.mask is None else scores.amax(-1, keepdim=True) == -torch.inf
            torch.softmax(scores, -1, out=scores)
            if empty is not None:  # the kernel gives zeros where there is no key
                scores.masked_fill_(empty, 0.0)
            if scores is not part:
                part.copy_(scores)
        return out

    def _hide(self, scores: Tensor, rows: list[int]) -> Tensor:
        """Apply the mask of these samples to scores, in place."""
        if self.causal:  # query i may see the keys up to i
            scores.masked_fill_(torch.ones_like(scores[0, 0], dtype=torch.bool).tril().logical_not(), -torch.inf)
        if self.mask is not None:
            mask = some(self.mask, rows)
            scores.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else scores.add_(mask)
        return scores

    def allowed(self, samples: list[int]) -> Tensor | None:
        """Return which cells may be attended to, bool and broadcastable to the map, or None where all may."""
        if self.scores is not None:
            hidden = chosen(self.scores, samples) < MASKED
            if bool(hidden.any()):  # an allowed score may lie as low, but then not all of its row does
                hidden &= chosen(self.weights, samples) == 0
        elif self.causal or self.mask is not None:  # what the mask makes of scores that are all 0
            mask = torch.zeros(1, 1, 1, 1, device="cpu") if self.mask is None else some(self.mask, samples)
            shape = torch.broadcast_shapes((1, 1, *self.shape[2:]), mask.shape)
            hidden = self._hide(torch.zeros(shape, device=mask.device), samples) < MASKED
        else:
            return None
        return smallest(~hidden).cpu() if bool(hidden.any()) else None

    def kv_heads(self) -> int:
        """Return the number of key heads: those of `k`, or fewer where the model repeated them beforehand."""
        h, k = self.shape[1], None if self.k is None else self.k.detach()[0]  # (h, Tk, d)
        if k is None or len(k) < h:
            return h if k is None else len(k)
        for heads in (i for i in range(1, h) if h % i == 0):
            runs = k.unflatten(0, (heads, -1))  # (h, Tk, d) -> (heads, h / heads, Tk, d)
            if torch.equal(runs, runs[:, :1].expand_as(runs)):
                return heads if k.any() else h  # all zeros, before a training, are alike by chance
        return h

    @property
    def factor(self) -> float | None:
        """The factor on q k^T."""
        return None if self.scale is None else self.scale * math.prod(self.factors)

    def vectors(self, samples: list[int], dtype: torch.dtype | None) -> list[Tensor | None]:
        """Return q, k and v of these samples, (b, h, T, d) each, on the CPU; None for what is not known."""
        return [
            None if x is None else (shared(chosen(x, samples), self.shape[1]) / factor).to(device="cpu", dtype=dtype)
            for x, factor in zip((self.q, self.k, self.v), (*self.factors, 1.0), strict=True)
        ]

    def end(self) -> int | None:
        """Return the number of the last key that the last query of the first sample may see, plus 1; None: not known.

        A cache of fixed length is longer than what stands in it; only the mask tells.
        """
        allowed = self.allowed([0])
        row = torch.empty(0) if allowed is None else allowed.expand(1, *self.shape[1:])[0, 0, -1].nonzero()
        return int(row[-1]) + 1 if len(row) else None


def some(x: Tensor, samples: list[int]) -> Tensor:
    """Return these samples, or what serves all of them."""
    return x.detach() if len(x) == 1 else chosen(x, samples)


def chosen(x: Tensor, samples: list[int]) -> Tensor:
    """Return these samples, without a copy where they are all."""
    return x.detach() if samples == [*range(len(x))] else x.detach()[samples]


def smallest(x: Tensor) -> Tensor:
    """Return a mask (B, h, Tq, Tk) without the axes of heads and samples along which nothing changes."""
    for axis in (1, 0):
        first = x.narrow(axis, 0, 1)
        x = first.clone() if len(x) and bool((x == first).all()) else x
    return x


def shared(x: Tensor, heads: int) -> Tensor:
    """Repeat keys or values (B, h_kv, T, d) for the heads that share them: 0, 0, 1, 1."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def four(x: Tensor, lead: tuple[int, ...], at: int) -> Tensor:
    """Bring (..., T, d), of whose leading axes `lead` that number `at` counts heads, to (B, h, T, d)."""
    return x.reshape(*lead, *x.shape[-2:]).movedim(at, -3).flatten(0, -4)


def sums_of(weights: Tensor) -> str:
    """Return what the rows of a map sum to: "weights" (1 or 0), "part" (at most 1), "positive" or "signed"."""
    slack = 0.02 if weights.dtype in (torch.float16, torch.bfloat16) else 1e-3
    total = weights.sum(-1, dtype=torch.float32)
    if weights.numel() and float(weights.amin()) < -slack:
        return "signed"
    if bool((total > 1 + slack).any()):
        return "positive"
    return "part" if bool(((total < 1 - slack) & (total > slack)).any()) else "weights"

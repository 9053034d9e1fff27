"""One step of attention as it was seen: its queries, keys, mask or weights, and the map that is made of them.

Nothing here watches a model; `eye` does, and hands the steps on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

CHUNK = 2**24  # so many weights at full precision at a time, or those of one sample
FLEX = ("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options")  # what torch hands over
MASKED = -5e3  # a score below is a mask, not a likeness: of those in use, -10,000 is the mildest


@dataclass
class Step:
    """One step of attention, its axes brought to (B, h, T, ...); nothing is computed before it is asked for.

    `weights` are there where the model multiplied by hand, together with the `scores` that went into the softmax.
    Without them they are made of `q`, `k`, `mask`, `causal` and `scale`, as the fused kernel does.
    """

    name: str
    kind: str  # "self" | "cross"
    shape: tuple[int, int, int, int]
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    scale: float | None = None
    mask: Tensor | None = None  # broadcasts to `shape`; boolean, or added to the scores
    causal: bool = False
    weights: Tensor | None = None
    scores: Tensor | None = None
    part: bool = False  # the softmax ran over more columns than there are keys: a sink took the rest
    bend: Callable[[Tensor, int], Tensor] | None = field(default=None)  # FlexAttention: scores of samples from i on

    def map(self, samples: list[int] | slice, dtype: torch.dtype | None) -> Tensor:
        """Return the weights of these samples, (b, h, Tq, Tk), on the CPU."""
        if self.weights is not None:
            return self.weights.detach()[samples].to(device="cpu", dtype=dtype, copy=True)
        full = torch.promote_types(self.q.dtype, torch.float32)
        rows = torch.arange(self.shape[0])[samples].tolist()
        out = torch.empty((len(rows), *self.shape[1:]), dtype=dtype or full)
        step = max(1, CHUNK // max(1, math.prod(self.shape[1:])))
        for start in range(0, len(rows), step):
            part = out[start : start + step]
            scores = self._scores(rows[start : start + step], full)
            if out.dtype == full and out.device == scores.device:
                torch.softmax(scores, -1, out=part)
            else:
                part.copy_(scores.softmax(-1))
            if self.causal or self.mask is not None or self.bend is not None:
                # The kernel gives zeros where there is no key.
                part.masked_fill_((scores.amax(-1, keepdim=True) == -torch.inf).to(out.device), 0.0)
        return out

    def _scores(self, rows: list[int], full: torch.dtype) -> Tensor:
        q, k = (x.detach()[rows].to(full) for x in (self.q, shared(self.k, self.shape[1])))
        scores = (q * self.scale) @ k.transpose(-2, -1)  # (b, h, Tq, d) @ (b, h, d, Tk) -> (b, h, Tq, Tk)
        if self.bend is not None:
            scores = torch.cat([self.bend(one[None], i) for one, i in zip(scores, rows, strict=True)])
        if self.causal:
            scores.masked_fill_(~lower(self.shape, scores.device), -torch.inf)
        mask = None if self.mask is None else some(self.mask.detach(), rows)
        if mask is not None and mask.dtype == torch.bool:
            scores.masked_fill_(~mask, -torch.inf)
        elif mask is not None:
            scores += mask.to(full)
        return scores

    def allowed(self, samples: list[int] | slice) -> Tensor | None:
        """Return which cells may be attended to, bool and broadcastable to the map, or None where all may."""
        if self.weights is not None:
            return self._allowed_by_hand(samples)
        found = None
        if self.mask is not None:
            mask = some(self.mask.detach(), samples)
            found = mask if mask.dtype == torch.bool else mask > MASKED
        if self.bend is not None:
            flex = torch.cat([self.bend(torch.zeros(1, *self.shape[1:]), i) for i in of(samples, self.shape[0])])
            found = smallest(flex > -torch.inf)
        if self.causal:
            below = lower(self.shape, "cpu" if found is None else found.device)[None, None]
            found = below if found is None else found & below
        if found is None or bool(found.all()):
            return None
        return found.cpu().clone() if found.device.type == "cpu" else found.cpu()

    def _allowed_by_hand(self, samples: list[int] | slice) -> Tensor | None:
        if self.scores is None:
            return None
        scores = some(self.scores.detach(), samples)
        masked = scores < MASKED  # an allowed score may lie as low, but then not all of its row does
        if not bool(masked.any()):
            return None
        masked &= some(self.weights.detach(), samples) == 0
        return smallest(~masked).cpu() if bool(masked.any()) else None

    def kv_heads(self) -> int:
        """Return the number of key heads: those of `k`, or fewer where the model repeated them beforehand."""
        if self.k is None or self.k.shape[1] < self.shape[1] or self.shape[1] == 1 or self.k.numel() == 0:
            return self.shape[1] if self.k is None else self.k.shape[1]
        k, h = self.k.detach()[0], self.shape[1]  # (h, Tk, d)
        new = 1 + int((k[1:] != k[:-1]).flatten(1).any(1).sum())  # runs of equal heads
        equal = h % new == 0 and torch.equal(k, k[:: h // new].repeat_interleave(h // new, 0))
        return new if equal else h

    def vectors(self, samples: list[int] | slice, dtype: torch.dtype | None) -> list[Tensor | None]:
        """Return q, k and v of these samples, (b, h, T, d) each, on the CPU; None for what is not known."""
        return [
            None if x is None else shared(x.detach(), self.shape[1])[samples].to(device="cpu", dtype=dtype, copy=True)
            for x in (self.q, self.k, self.v)
        ]

    def end(self) -> int | None:
        """Return the number of the last key that the last query of the first sample may see, plus 1; None: not known.

        A cache of fixed length is longer than what stands in it; only the mask tells.
        """
        allowed = self.allowed(slice(0, 1))
        if allowed is None:
            return None
        row = allowed.expand(1, *self.shape[1:])[0, 0, -1].nonzero()
        return int(row[-1]) + 1 if len(row) else None


def of(samples: list[int] | slice, size: int) -> list[int]:
    """Return the numbers of the samples that are meant, of so many."""
    return list(range(size))[samples] if isinstance(samples, slice) else samples


def some(x: Tensor, samples: list[int] | slice) -> Tensor:
    """Return these samples, or what serves all of them."""
    return x if len(x) == 1 else x[samples]


def lower(shape: tuple[int, ...], device: torch.device | str) -> Tensor:
    """Return what `is_causal` allows, (Tq, Tk): query i may see the keys up to i."""
    return torch.ones(shape[-2], shape[-1], dtype=torch.bool, device=device).tril()


def smallest(x: Tensor) -> Tensor:
    """Return a mask (B, h, Tq, Tk) without the axes of heads and samples along which nothing changes."""
    for axis in (1, 0):
        first = x.narrow(axis, 0, 1)
        x = first.clone() if len(x) and bool((x == first).all()) else x
    return x


def shared(x: Tensor, heads: int) -> Tensor:
    """Repeat keys or values (B, h_kv, T, d) for the heads that share them: 0, 0, 1, 1."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def layout(lead: tuple[int, ...], heads: int | None) -> str | None:
    """Return how leading axes become (B, h); `heads` is their number where the model says it. None: not known."""
    if len(lead) <= 1:
        return "none" if not lead else "one" if heads == 1 else "split" if heads and lead[0] % heads == 0 else None
    if len(lead) == 2:
        return "both"
    if len(lead) == 3:
        # Groups of heads (B, h_kv, g), windows (B, w, h), or heads of windows (B, h, w).
        by = {lead[1] * lead[2]: "groups", lead[2]: "windows", lead[1]: "of windows"}
        return by.get(heads, "groups")
    return None


def four(x: Tensor, how: str, heads: int | None = None) -> Tensor:
    """Bring (*lead, T, d) to (B, h, T, d), by what `layout` said."""
    if how == "none":
        return x[None, None]
    if how == "one":
        return x[:, None]
    if how == "split":
        return x.unflatten(0, (-1, heads))  # (B * h, T, d) -> (B, h, T, d)
    if how == "split turned":
        return x.unflatten(0, (heads, -1)).transpose(0, 1)  # (h * B, T, d) -> (B, h, T, d)
    if how == "groups":
        return x.flatten(1, 2)  # (B, h_kv, g, T, d) -> (B, h, T, d)
    if how == "windows":
        return x.flatten(0, 1)  # (B, w, h, T, d) -> (B * w, h, T, d)
    if how == "of windows":
        return x.transpose(1, 2).flatten(0, 1)  # (B, h, w, T, d) -> (B * w, h, T, d)
    return x


def like(x: Tensor | None, lead: tuple[int, ...]) -> Tensor | None:
    """Give vectors (*, T, d) these leading axes if they can have them, else None."""
    if x is None or tuple(x.shape[:-2]) == lead:
        return x
    if math.prod(x.shape[:-2]) == math.prod(lead):
        return x.reshape(*lead, *x.shape[-2:])
    try:
        return x.expand(*lead, *x.shape[-2:])
    except RuntimeError:
        return None


def flex_arguments(args: tuple, kwargs: dict) -> dict:
    """Return the arguments of torch's operator for FlexAttention by name."""
    given = dict(zip((*FLEX, "score_buffers", "mask_buffers"), args, strict=False))
    renamed = {"score_mod_other_buffers": "score_buffers", "mask_mod_other_buffers": "mask_buffers"}
    return given | {renamed.get(name, name): x for name, x in kwargs.items()}


def bend_of(given: dict) -> Callable[[Tensor, int], Tensor]:
    """Return the function that turns scores (1, h, Tq, Tk) of sample i into those that enter the softmax."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    score_buffers, mask_buffers = given.get("score_buffers") or (), given.get("mask_buffers") or ()
    score = _vmap_for_bhqkv(given["score_mod"], prefix=(0,), suffix=(None,) * len(score_buffers))
    mask = _vmap_for_bhqkv(given["block_mask"][-1], prefix=(), suffix=(None,) * len(mask_buffers))

    def bend(scores: Tensor, i: int) -> Tensor:
        sample = torch.tensor([i], device=scores.device)
        axes = [torch.arange(size, device=scores.device) for size in scores.shape[1:]]
        # Inside, x[q] of a tensor x needs a mode of torch's own, which the watch otherwise keeps out.
        with torch._C._EnableTorchFunction(), TransformGetItemToIndex():
            seen = mask(sample, *axes, *mask_buffers)
            return torch.where(seen, score(scores, sample, *axes, *score_buffers), -torch.inf)

    return bend


def sums_of(weights: Tensor, part: bool) -> str:
    """Return what the rows of a map sum to: "weights" (1 or 0), "part" (at most 1), "positive" or "signed"."""
    slack = 0.02 if weights.dtype in (torch.float16, torch.bfloat16) else 1e-3
    total = weights.sum(-1, dtype=torch.float32)
    if bool((weights < -slack).any()):
        return "signed"
    if bool((total > 1 + slack).any()):
        return "positive"
    return "part" if part or bool(((total < 1 - slack) & (total > slack)).any()) else "weights"

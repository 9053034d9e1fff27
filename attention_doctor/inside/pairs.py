"""A layer asked about two tokens at a time: in the differences of its answers every constant cancels.

A token `x = c + d` before c, read at c, adds `Σ a_h V_h d` to what c alone gives, with `V_h = W_o^h W_v^h` and `a_h`
the weight of x in head h. Least squares over the known `V_h d` give each `a_h`; what is left over tells whether v and
o are the layer's. `logit(a_h) = scale · (W_q c + b_q) · W_k d`: differences over c know neither b_q nor b_k, and
their slope on what the matrices predict is the scale. A connection around the layer, `x + f(x)`, falls out of it, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from attention_doctor.inside.projections import Heads
from attention_doctor.patient import Crash, Patient

SHARPEST = 4.0  # scores up to here leave both weights of a pair enough digits
FLATTEST = 1e-3  # scores whose differences stay below it say nothing of the scale


@contextmanager
def in_float64(patient: Patient) -> Iterator[bool]:
    """Let the layer calculate in float64, where it can; yield whether it does."""
    module, dtype = patient.module, patient.dtype
    kept = [] if module is None else [(p, p.data) for p in module.parameters()]
    buffers = [] if module is None else [(m, dict(m._buffers)) for m in module.modules()]
    try:
        works = dtype == torch.float64
        if not works and module is not None:
            module.double()
            patient.dtype = torch.float64
            try:
                works = patient(patient.tokens(1, 2, 1.0)).dtype == torch.float64
            except Crash:
                works = False
            if not works:
                _put_back(patient, dtype, kept, buffers)
        yield works
    finally:
        _put_back(patient, dtype, kept, buffers)


def _put_back(patient: Patient, dtype: torch.dtype, kept: list, buffers: list) -> None:
    patient.dtype = dtype
    for parameter, data in kept:
        parameter.data = data
    for module, before in buffers:
        module._buffers.update(before)


@dataclass(frozen=True)
class Reading:
    """What was read with one number of heads: how well the parts fit, as shares of what was measured.

    `scores` is the share of the differences of the scores that q and k do not explain, infinity where v and o do not
    fit already; `slope` the scale.
    """

    heads: int
    layout: str
    shared: str
    values: float
    scores: float
    slope: float
    spread: float
    cut: Heads

    def good(self, close: float) -> bool:
        return self.values <= close and self.scores <= close and self.spread > FLATTEST


class Pairs:
    """A layer asked about two tokens at a time.

    Args:
        patient: the layer.
        close: the share that rounding explains.
        at_once: how many tokens c and how many directions d.
        copies: how many times c stands behind the other token; more of them move all scores alike.
    """

    def __init__(self, patient: Patient, close: float, at_once: int = 10, copies: int = 1):
        self.patient, self.close, self.copies = patient, close, copies
        self.c = patient.noise(1, at_once, 21)[0].double()  # (C, d_model)
        self.d = patient.noise(1, at_once, 22)[0].double()  # (D, d_model)

    def alone(self, tokens: Tensor) -> Tensor:
        """Return what the layer makes of each token alone, `(N, d_model) -> (N, d_out)`."""
        return self.patient(tokens[:, None])[:, 0].double()

    def added(self, c: Tensor, d: Tensor) -> Tensor:
        """Return what c + d before c adds to what c alone gives, `(C, D, d_out)`."""
        second = c[:, None].expand(-1, len(d), -1)
        pairs = torch.stack([second + d, *[second] * self.copies], 2).flatten(0, 1)  # (C * D, 1 + copies, d_model)
        both = torch.cat([self.patient(part)[:, -1] for part in pairs.split(2048)]).double()
        return both.unflatten(0, (len(c), len(d))) - self.alone(c)[:, None]

    def unfit(self) -> str:
        """Say why pairs of tokens tell nothing of this layer; "" where they do."""
        a, b, c = self.c[:3]
        one = self.alone(torch.stack([c, c + a, c + b, c + a + b]))
        size = float((one[1:] - one[0]).abs().max())
        if not float((one[0] + one[3] - one[1] - one[2]).abs().max()) <= self.close * size:
            return (
                "it is not affine on one token (a norm, a gate, a sink?), so v and o cannot be told from what bends it"
            )
        if not float((self.added(self.c, 0 * self.d[:1])).abs().max()) <= self.close * size:
            return (
                "one token twice gives something else than once: positions are added to it, or weights do not sum to 1"
            )
        return ""

    def values_alone(self, cut: Heads) -> tuple[float, float]:
        """Return what v and o leave unexplained of a token alone, and the sum of its weights (1 after a softmax)."""
        moved = self.alone(self.c[:1] + self.d) - self.alone(self.c[:1])  # (D, d_out)
        told = self.d @ cut.maps.sum(0).T
        parts = [told, self.d] if moved.shape == self.d.shape else [told]  # a connection around the layer adds d
        columns = torch.stack([part.flatten() for part in parts], 1)
        best = torch.linalg.lstsq(columns, moved.flatten()[:, None], driver="gelsd").solution
        left = (columns @ best)[:, 0] - moved.flatten()
        return float(left.abs().max() / moved.abs().max().clamp_min(1e-30)), float(best[0])

    def weights(self, c: Tensor, d: Tensor, cut: Heads) -> tuple[Tensor, float]:
        """Return the weights of c + d beside c, `(C, D, h)`, and the share of what was added that is left over."""
        columns = torch.einsum("hoi,di->doh", cut.maps, d)  # (D, d_out, h)
        added = self.added(c, d).permute(1, 2, 0)  # (D, d_out, C)
        if columns.shape[1] <= columns.shape[2] or float(torch.linalg.cond(columns).max()) > 1e6:
            return torch.full((len(c), len(d), columns.shape[2]), torch.nan), float("inf")
        found = torch.linalg.lstsq(columns, added).solution  # (D, h, C)
        left = (columns @ found - added).abs().max() / added.abs().max().clamp_min(1e-30)
        return found.permute(2, 0, 1), float(left)

    def logits(self, cut: Heads, total: float, c: Tensor, d: Tensor) -> tuple[Tensor | None, Tensor, Tensor, float]:
        """Return the scores `(C, D, h)`, None where there are none, the c and d for which they are moderate, the rest.

        Sharp maps saturate, so the second token is moved towards the first until they do not; then, where positions
        keep them sharp, both towards 0.
        """
        for step in range(16):
            weights, left = self.weights(c, d, cut)
            share = weights / total
            room = 10 * self.close
            if left <= self.close and (share > -room).all() and (share < 1 + room).all():
                scores = share.clamp(1e-12, 1 - 1e-12).logit()
                sharp = float(scores.abs().max())
                if sharp <= SHARPEST:
                    return scores, c, d, left
            elif step > 2 or left == float("inf"):
                return None, c, d, left
            else:
                sharp = 10 * SHARPEST  # it may be the rounding of weights that are nearly 0
            d = d * max(0.1, 0.6 * SHARPEST / sharp)
            c = c * (0.3 if step > 3 else 1.0)
        return None, c, d, left

    def read(self, heads: int, layout: str, shared: str, total: float, cut: Heads) -> Reading:
        """Return how well the parts fit with this number of heads."""
        scores, c, d, left = self.logits(cut, total, self.c, self.d)
        if scores is None:
            return Reading(heads, layout, shared, left, float("inf"), 0.0, 0.0, cut)
        told = torch.einsum("ci,hei,hej,dj->cdh", c, cut.q, cut.k, d)
        scores, told = scores - scores.mean(0), told - told.mean(0)
        slope = float((scores * told).sum() / told.square().sum().clamp_min(1e-30))
        spread = float(scores.abs().max())
        off = float((scores - slope * told).abs().max()) / max(spread, 1e-30)
        return Reading(heads, layout, shared, left, off, slope, spread, cut)

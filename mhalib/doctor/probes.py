"""The probes: what must be true of every attention layer, whoever wrote it, seen from outside.

Here are the first ones, whether a layer runs, repeats itself, averages, and keeps samples apart, and the probe on which the
others stand: change one token, see which outputs move. `token_probes` goes on without a mask, `mask_probes` with masks,
`examination` puts them in order. Each probe adds to the report; what cannot be probed is noted there too.
"""

from math import gcd

import torch
from torch import Tensor

from mhalib.doctor import patterns
from mhalib.doctor.patient import Crash, Patient, WrongShape
from mhalib.doctor.report import Report

MOST_PERTURBED = 12  # up to so many tokens are changed one by one,
FEW_PERTURBED = 4  # in longer sequences only about so many of them


class Stop(Exception):
    """Nothing more can be learnt from this layer."""


class Probes:
    """One examination.

    Args:
        patient: the layer.
        report: where the findings go.
    """

    def __init__(self, patient: Patient, report: Report):
        self.p, self.report = patient, report
        self.h, self.hd = patient.num_heads, patient.head_dim
        self.batch = 2 if self.h == 3 else 3  # a bug may hide where two sizes agree
        self.T = next(T for T in range(max(5, self.h + 1), 10**6) if gcd(T, self.h) == 1 and self.hd != T)
        self.base = None  # (T, T), what the layer applies by itself: all True, causal, or a window
        self.positions = ""  # how places were told apart
        self.mask_is_read = patient.attend.masks != "none"

    # ------------------------------------------------------------------------------ may it be probed at all

    def first_call(self) -> None:
        """Find sizes at which the layer runs, and look at the shape and the numbers of its output."""
        first = None
        for T in (self.T, 6, 4, 3, 2):
            x = self.p.tokens(self.batch, T, 0.05)
            for needs_mask in (False, True) if self.mask_is_read else (False,):
                self.p.needs_mask = needs_mask
                try:
                    out = self.p(x)
                except WrongShape as wrong:
                    self.report.find(wrong.code, f"{wrong}.")
                    raise Stop from None
                except Crash as crash:
                    first = first or f"x {tuple(x.shape)} without a mask: {crash}"
                    continue
                if needs_mask:
                    self.report.remark(
                        "needs-mask", f"it cannot be called without a mask ({first}); all True stands for none here."
                    )
                if T > self.T:
                    self.report.find("crash", f"{first}; it runs with {T} tokens.")
                    raise Stop
                if T < self.T:
                    self.runs_below(T, first)
                    self.report.skip(f"sequences of {self.T} tokens", f"the layer raised ({first}); examined with {T}")
                    self.T = T
                self.check_output(out)
                return
        self.report.find("crash", f"{first}.")
        raise Stop

    def runs_below(self, longest: int, first: str) -> None:
        """A layer with a longest T runs at every shorter one; a layer that runs at one length by chance does not."""
        for T in range(2, longest):
            try:
                self.p(self.p.tokens(self.batch, T, 0.05))
            except Crash:
                self.report.find("crash", f"{first}; it runs with {longest} tokens, not with {T}.")
                raise Stop from None

    def check_output(self, out: Tensor) -> None:
        if not out.isfinite().all():
            self.report.find(
                "not-finite",
                f"without a mask, {int((~out.isfinite()).sum())} of {out.numel()} numbers are NaN or infinite.",
            )
            raise Stop
        if out.shape[-1] != self.p.d_model:
            self.report.remark("output-width", f"{self.p.d_model} features come in, {out.shape[-1]} go out.")

    def repeats(self) -> None:
        x = self.p.tokens(self.batch, self.T, 0.5)
        before = self.p(x)
        for _ in range(3):
            again = self.p(x)
            if again.shape != before.shape or self.gap(again, before) > 0:
                off = (
                    "another shape"
                    if again.shape != before.shape
                    else f"outputs that differ by up to {self.size(again - before)}"
                )
                self.report.find(
                    "not-deterministic",
                    f"the same input gave {off}; nothing else was examined, since every comparison would fail.",
                )
                raise Stop

    def row_sums(self) -> None:
        """Equal tokens, more and more of them: a weighted mean stays, a sum grows.

        With a softmax over heads or samples each weight has its size whatever the number of keys. An attention sink
        makes the sum of the weights grow too, but towards 1; so only growth by the same step for each token counts.
        """
        for scale in (1.0, 0.1):  # small tokens: a sink that weighs much beside large scores does not beside small ones
            token = scale * self.p.tokens(1, 1, 0.5)
            outs = {}
            for T in (1, 2, 3, 4, 64, 256):
                try:
                    outs[T] = self.p(token.expand(1, T, -1))[0, -1]
                except Crash as crash:
                    if T <= self.T:
                        self.report.find(crash.code, f"one sample of {T} token{'s' * (T > 1)}: {crash}.")
                        raise Stop from None
                    break  # a longest T
            if len(outs) < 4:
                return
            step, longest = outs[2] - outs[1], max(outs)
            grown = step.abs().max()
            straight = max((outs[T] - outs[1] - (T - 1) * step).abs().max() / (T - 1) for T in (3, 4, longest))
            if not grown > 0.02 * outs[1].abs().max() or not straight < 1e-3 * grown:
                return
        self.report.find(
            "softmax-axis",
            f"1, 2, 3, 4, … {longest} equal tokens: the last output grows by the same step each time ({self.size(step)}), "
            "although the mean of equal values is that value. The weights of a query do not sum to 1 over its keys.",
        )
        raise Stop

    def samples(self) -> None:
        """Change one sample, look at the others; and compare a sample alone with the same one in its batch."""
        x = self.p.tokens(self.batch, self.T, 0.5)
        before = self.p(x)
        changed = x.clone()
        changed[0] += self.p.noise(1, self.T, 7)[0]
        moved = self.gap(self.p(changed)[1:], before[1:])
        if moved > 0:
            self.report.find(
                "mixes-samples",
                f"changing sample 0 alone moved the outputs of the others by up to {self.size(moved)} (must be 0).",
            )
        else:
            for i in (0, self.batch - 1):  # the last one as well: what goes by the place in the batch spares sample 0
                try:
                    off = self.gap(self.p(x[i : i + 1]), before[i : i + 1])
                except Crash as crash:
                    self.report.find(crash.code, f"a batch of one, x {tuple(x[:1].shape)}: {crash}.")
                    raise Stop from None
                if off > 0:
                    self.report.find(
                        "mixes-samples",
                        f"sample {i} alone and the same sample in a batch of {self.batch} differ by up to {self.size(off)}.",
                    )
        if not self.report.ok:
            self.batch = 1  # one sample cannot be mixed with another; the probes of tokens go on

    def influence(self, mask: Tensor | None, batch: int = 2, T: int | None = None) -> tuple[Tensor, Tensor]:
        """Return which output moved when one token of sample 0 changed, `(T, T)`, and which outputs are NaN, `(T,)`.

        Tried with nearly equal tokens and with different ones, because either may hide what the other shows.
        Columns of tokens that were not changed (long sequences) hold False and are to be left out by `columns`.
        """
        T = T or self.T
        seen, broken = torch.zeros(T, T, dtype=torch.bool), torch.zeros(T, dtype=torch.bool)
        for spread in (0.05, 0.5):
            x = self.p.tokens(min(batch, self.batch) if self.batch == 1 else batch, T, spread)
            before = self.p(x, mask)[0]
            broken |= ~before.isfinite().all(-1)
            for t in self.columns(T):
                changed = x.clone()
                changed[0, t] += spread * self.p.noise(1, T, 11 + t)[0, t]
                difference = (self.p(changed, mask)[0] - before).abs().amax(-1)  # (T,)
                seen[:, t] |= ~(difference <= self.threshold(before))
        return seen, broken

    def columns(self, T: int) -> list[int]:
        return list(range(T)) if T <= MOST_PERTURBED else sorted({*range(0, T, -(-T // FEW_PERTURBED)), 1, T - 1})

    def agree(self, seen: Tensor, expected: Tensor, unknown: Tensor | None = None) -> bool:
        columns = self.columns(len(seen))
        masked = expected.clone()
        rest = [t for t in range(len(seen)) if t not in columns]
        masked[:, rest] = seen[:, rest]
        return patterns.fits(seen, masked, unknown)

    # ------------------------------------------------------------------------------------------------ helpers

    def threshold(self, reference: Tensor) -> float:
        """Up to here two outputs of the same calculation may differ: rounding. Unmoved outputs are exact in practice."""
        return 0.2 * self.p.tolerance * float(reference.nan_to_num(0, 0, 0).abs().max()) + 1e-30

    def gap(self, a: Tensor, b: Tensor) -> float:
        """Return the largest difference, or 0 where rounding explains it; NaN counts as a difference."""
        if a.numel() == 0:
            return 0.0
        scale = float(b.nan_to_num(0, 0, 0).abs().max())
        difference = (a - b).abs()
        worst = float("inf") if difference.isnan().any() else float(difference.max())
        return 0.0 if worst <= 5 * self.p.tolerance * scale + 1e-30 else worst

    @staticmethod
    def size(value: Tensor | float) -> str:
        value = value if isinstance(value, float) else float(value.abs().max())
        return "NaN" if value in (float("inf"),) or value != value else f"{value:.2g}"

    def describe(self, seen: Tensor, allowed: Tensor, where: str) -> str:
        """Say how many outputs moved against the mask and how many did not move although they may, and show one."""
        T = len(seen)
        columns = torch.zeros(T, dtype=torch.bool)
        columns[self.columns(T)] = True
        off = ~torch.eye(T, dtype=torch.bool) & columns
        leaks, blind = seen & ~allowed & off, ~seen & allowed & off
        text = f"{where}, T={T}, {self.h} heads: {int(leaks.sum())} outputs moved with a token that is hidden from them"
        if leaks.any():
            t, j = leaks.nonzero()[0].tolist()
            text += f" (output {t} with token {j})"
        text += f", {int(blind.sum())} stood still although they may see it"
        if blind.any():
            t, j = blind.nonzero()[0].tolist()
            text += f" (output {t}, token {j})"
        return text + "."

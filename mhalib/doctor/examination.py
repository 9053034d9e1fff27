"""All probes in their order, and again at the sizes at which mistakes hide.

The order matters. A layer that does not repeat itself, or that gives NaN, is not probed further, because every later probe
would fail as well and say nothing.
"""

import torch

from mhalib.doctor.mask_probes import MaskProbes
from mhalib.doctor.patient import Crash
from mhalib.doctor.probes import Stop
from mhalib.masks import causal_mask


class Examination(MaskProbes):
    """One examination: `run` fills the report."""

    def run(self) -> None:
        """Run all probes, as far as the layer lets them."""
        try:
            self.first_call()
            self.repeats()
            self.row_sums()
            self.samples()
            self.unmasked()
            self.accepts_masks()
            self.masked()
            self.other_samples_mask(self.batch)
            self.special_sizes()
            self.padded_as_cut()
            self.empty_row()
        except Stop:
            pass
        except Crash as crash:  # a layer that raises at the sizes and masks at which it ran before
            self.report.find(crash.code, f"{self.p.last}: {crash}.")
        if self.positions and self.report.ok:
            self.report.remark("positions", self.positions)
        if self.p.written:
            what = "; ".join(f"{name}: {how}" for name, how in self.p.written.items())
            self.report.find("mutates-input", f"after a call, {what}.")

    def special_sizes(self) -> None:
        """Where two sizes agree, a mix-up of two axes raises nothing: the same probes at these sizes."""
        if self.base is None:
            return
        if not bool(self.base.all() | torch.equal(self.base, causal_mask(self.T))):
            self.report.skip("sizes at which two axes agree", "not probed in layers that see a window")
            return
        causal_base, had = not bool(self.base.all()), set(self.report.codes)
        sizes = [
            (self.h, self.T, "B == num_heads"),
            (self.batch, self.h, "T == num_heads"),
            (self.batch, self.hd, "T == head_dim"),
            (self.h, self.h, "B == T == num_heads"),
        ]
        usual_T, usual_base, usual_batch = self.T, self.base, self.batch
        for batch, T, name in sizes:
            if T < 2 or T > 64 or batch > 64 or usual_batch == 1:
                continue
            self.T = T
            self.base = causal_mask(T) if causal_base else torch.ones(T, T, dtype=torch.bool)
            try:
                self.at_this_size(batch, T, name)
            except Crash as crash:
                if T > usual_T:
                    self.report.skip(f"{name} ({T} tokens)", f"the layer raised {crash}; a longest T?")
                else:
                    self.report.find(
                        crash.code,
                        f"{name} = {T if 'T' in name else batch}, x ({batch}, {T}, {self.p.d_model}): {crash}.",
                    )
            finally:
                self.T, self.base = usual_T, usual_base
            if set(self.report.codes) - had:
                raise Stop

    def at_this_size(self, batch: int, T: int, name: str) -> None:
        x = self.p.tokens(batch, T, 0.5)
        out = self.p(x)
        changed = x.clone()
        changed[0] += self.p.noise(1, T, 7)[0]
        if batch > 1 and (moved := self.gap(self.p(changed)[1:], out[1:])) > 0:
            self.report.find(
                "mixes-samples", f"{name}: changing sample 0 alone moved the others by up to {self.size(moved)}."
            )
            return
        few = min(batch, 2) if "B" not in name else batch
        seen, _ = self.influence(None, few, T)
        if not self.agree(seen, self.base):
            off = ~torch.eye(T, dtype=torch.bool)
            if not (seen & off).any() and not self.reacts(T):
                # With other lengths tokens did see each other. A reshape that cuts the tokens in place of the features
                # hands each head one token where there are as many of both.
                code = "mixes-tokens" if T == self.h else "no-mixing"
                self.report.find(code, f"{name}: each token moved its own output and no other.")
            elif self.leaks(seen, seen[:, 0], torch.ones_like(seen)):
                self.report.find("future-leak", self.describe(seen, self.base, name))
            return
        if not self.mask_is_read:
            return
        entries = {}
        for kind in ("single key", "causal") + (("identity",) if self.p.attend.masks in ("any", "shared") else ()):
            mask = self.mask_for(T, kind)
            entries[kind] = (*self.influence(mask, few, T), mask)
        try:
            self.judge(entries)
        except Stop:
            return
        self.other_samples_mask(batch)

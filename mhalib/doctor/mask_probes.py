"""The probes that hand over masks: is each key hidden that should be, and no other, for the right sample?"""

import torch
from torch import Tensor

from mhalib.doctor import patterns
from mhalib.doctor.patient import Crash
from mhalib.doctor.probes import Stop
from mhalib.doctor.token_probes import TokenProbes
from mhalib.masks import causal_mask, padding_mask


class MaskProbes(TokenProbes):
    """`TokenProbes` with those that need a mask."""

    def accepts_masks(self) -> None:
        """Try the legal forms of a mask: `(T, T)` and `(B, T, T)`."""
        p, T = self.p, self.T
        if not self.mask_is_read:
            what = "causal by itself" if p.attend.causal else "declared so, or seen in its signature"
            self.report.skip("masks", f"the layer takes none ({what})")
            return
        if p.attend.masks in ("prefix", "lengths"):
            self.report.skip(
                "masks other than lengths",
                "the layer takes valid_lens; only masks that show a beginning of the keys were tried",
            )
        mask, x = self.mask_for(T, "causal"), p.tokens(self.batch, T, 0.5)
        if p.attend.masks == "shared":
            forms = [2]
        else:
            forms = [3] if p.attend.declared else [2, 3]
        errors = {}
        for form in forms:
            p.mask_ndim = form
            try:
                p(x, mask)
            except Crash as crash:
                errors[form] = crash
        p.mask_ndim = 3 if 3 in forms and 3 not in errors else 2
        if len(errors) == len(forms):
            form = forms[-1]
            self.report.find(
                errors[form].code,
                f"x {tuple(x.shape)} under a legal mask {'(B, T, T)' if form == 3 else '(T, T)'}: {errors[form]}.",
            )
            raise Stop
        if 3 in errors:
            self.wrong_rank(errors[3])
        elif 2 in errors:
            self.report.remark("mask-rank", f"it takes (B, T, T) masks, no (T, T) masks: {errors[2]}.")
        if p.mask_ndim == 2:
            self.report.skip("masks that differ from sample to sample", "the layer takes one (T, T) mask for all")

    def wrong_rank(self, error: Crash) -> None:
        """(T, T) works, (B, T, T) does not: by design, or because the head axis is missing?

        Where the head axis is missing, the samples of the mask line up with the heads, which raises nothing when there
        are as many of both.
        """
        x = self.p.tokens(self.h, self.T, 0.5)
        self.p.mask_ndim = 3
        try:
            self.p(x, causal_mask(self.T))
            silent = True
        except Crash:
            silent = False
        if silent:
            self.report.find(
                "crash",
                f"a (B, T, T) mask with B={self.batch}: {error}. With B = {self.h} = num_heads nothing is raised: "
                "the samples of the mask line up with the heads.",
            )
            if self.batch > 1:
                self.other_samples_mask(self.h)
        else:
            self.report.remark("mask-rank", f"it takes (T, T) masks, no (B, T, T) masks: {error}.")
        self.p.mask_ndim = 2

    def mask_for(self, T: int, kind: str) -> Tensor:
        """Return a `(T, T)` mask that leaves each query a key, in a form that this layer understands."""
        full = torch.ones(T, T, dtype=torch.bool)
        if kind == "identity":
            return torch.eye(T, dtype=torch.bool)
        if kind == "causal":
            # A layer that takes one length per sample gets one length instead.
            return full.clone().tril() if self.p.attend.masks != "lengths" else self.mask_for(T, "length")
        if kind == "single key":
            key = 1 if self.p.attend.masks == "any" or self.p.attend.masks == "shared" else 0
            key = 0 if self.base is not None and not self.base[0, key] else key
            return (torch.arange(T) == key).expand(T, T)
        if kind == "length":
            return (torch.arange(T) < max(2, T - 2)).expand(T, T)
        generator = torch.Generator().manual_seed(5)
        mask = (torch.rand(T, T, generator=generator) < 0.4) | torch.eye(T, dtype=torch.bool)
        mask[torch.arange(T), (torch.arange(T) + 1) % T] = False  # its complement has no empty row either
        return mask

    def masked(self) -> None:
        """Change one token at a time under several masks, and compare what moved with what each mask allows."""
        if not self.mask_is_read:
            return
        kinds = ["identity", "single key", "causal", "length", "random"]
        if self.p.attend.masks in ("prefix", "lengths"):
            kinds = ["single key", "causal", "length"]
        seen = {}
        for kind in kinds:
            mask = self.mask_for(self.T, kind)
            try:
                moved, broken = self.influence(mask)
            except Crash as crash:
                self.report.find(crash.code, f"T={self.T} under a legal mask ({kind}): {crash}.")
                raise Stop from None
            seen[kind] = moved, broken, mask
        self.judge(seen)

    def judge(self, seen: dict) -> None:
        """Find the one explanation that fits under all masks; `seen`: kind -> (moved, NaN rows, mask)."""
        base = self.base

        def explains(code: str) -> bool:
            for moved, broken, mask in seen.values():
                expected = (
                    patterns.depends(mask & base, self.h)
                    if code == "healthy"
                    else patterns.suspicions(mask, base, self.h)[code]
                )
                unknown = patterns.unknown_rows(mask, base, code)
                if not self.agree(moved, expected, unknown) or (broken & ~unknown).any():
                    return False
            return True

        if explains("healthy"):
            return
        leaking = [entry for entry in seen.values() if self.leaks(*entry)]
        if leaking and not any(
            broken.any() or self.leaks(moved, broken, _reach(mask & base)) for moved, broken, mask in leaking
        ):
            self.report.remark(
                "several-layers",
                "it behaves like layers one after another: what a mask hides from a token reaches it by way of a third one, and nothing else does. Examine one layer at a time.",
            )
            return
        some = next(
            kind
            for kind in seen
            if not self.agree(seen[kind][0], patterns.depends(seen[kind][2] & base, self.h)) or seen[kind][1].any()
        )
        moved, broken, mask = seen[some]
        evidence = self.describe(moved, mask & base, f"under the mask '{some}'")
        codes = [code for code in patterns.suspicions(mask, base, self.h) if explains(code)]
        if "mask-ignored" in codes:
            changes = self.mask_effect()
            if changes == 0:
                self.report.find("mask-ignored", f"{evidence} With and without the mask the outputs are the same.")
                raise Stop
            codes.remove("mask-ignored")
            if not codes and not self.equal_under_mask():
                self.report.find(
                    "mixes-tokens",
                    f"{evidence} Equal tokens, too, give different outputs, so it is not the mask alone.",
                )
                raise Stop
            if not codes:
                self.report.find(
                    "mask-leaks",
                    f"{evidence} The mask changes the outputs by up to {self.size(changes)}, but it hides nothing.",
                )
                raise Stop
        if codes:
            self.report.find(codes[0].split("/")[0], evidence)
            raise Stop
        leaks = {kind: self.leaks(*entry) for kind, entry in seen.items()}
        if any(broken.any() for _, broken, _ in seen.values()):
            kind = next(kind for kind in seen if seen[kind][1].any())
            self.report.find(
                "not-finite",
                f"under the mask '{kind}', in which every query has a key, {int(seen[kind][1].sum())} of {self.T} outputs are NaN or infinite.",
            )
            raise Stop
        if any(leaks.values()):
            split = leaks["single key"] and not self.equal_under_mask()  # a reshape moves values, a mask weights
            if leaks.get("identity"):
                code = "mixes-tokens" if split else "mask-leaks" if leaks["single key"] else "mixes-tokens-on-merge"
            elif leaks["single key"]:
                code = "softmax-axis" if "identity" in leaks else "mask-leaks"
            else:
                code = "future-leak" if leaks["causal"] else "mask-leaks"
            self.report.find(code, evidence)
            raise Stop
        self.report.remark("blind-spots", f"{evidence} Weights too sharp, or hidden by design.")

    def leaks(self, moved: Tensor, broken: Tensor, mask: Tensor) -> bool:
        columns = self.columns(len(moved))
        off = ~torch.eye(len(moved), dtype=torch.bool)
        return bool((moved & ~(mask & self.base) & off)[:, columns].any())

    def mask_effect(self) -> float:
        """Return by how much masks change the outputs, against no mask."""
        x, worst = self.p.tokens(self.batch, self.T, 0.5), 0.0
        for kind in ("single key", "causal", "length"):
            worst = max(worst, self.gap(self.p(x, self.mask_for(self.T, kind)), self.p(x)))
        return worst

    def equal_under_mask(self) -> bool:
        """Whether equal tokens give equal outputs under masks that give each query one key."""
        x = self.p.tokens(1, 1, 0.5).expand(1, self.T, -1)
        kinds = ("identity", "single key") if self.p.attend.masks in ("any", "shared") else ("single key",)
        outs = [self.p(x, self.mask_for(self.T, kind))[0] for kind in kinds]
        return all(self.gap(out[1:], out[:1].expand_as(out[1:])) == 0 for out in outs)

    def other_samples_mask(self, batch: int) -> None:
        """Give one sample another mask: only its own outputs may change."""
        if not self.mask_is_read or self.p.mask_ndim == 2 or self.batch == 1 or batch == 1:
            return
        T = self.T
        x = self.p.tokens(batch, T, 0.5)
        usual = self.mask_for(T, "causal").expand(batch, T, T)
        before = self.p(x, usual)
        for sample in (0, batch - 1):
            mask = usual.clone()
            mask[sample] = self.mask_for(T, "single key")
            after = self.p(x, mask)
            others = [i for i in range(batch) if i != sample]
            moved = self.gap(after[others], before[others])
            if moved > 0:
                equal = " = num_heads" if batch == self.h else ""
                self.report.find(
                    "mask-order",
                    f"B={batch}{equal}: another mask for sample {sample} alone moved the outputs of other samples by up to {self.size(moved)}.",
                )
                return

    def padded_as_cut(self) -> None:
        """A padded sample gives what the sample gives that was cut to its length."""
        if not self.mask_is_read or self.p.mask_ndim == 2 or self.batch == 1 or not self.report.ok:
            return
        T = self.T
        lens = torch.tensor([T, T - 2, T - 1][: self.batch])
        x = self.p.tokens(self.batch, T, 0.5)
        padded = self.p(x, padding_mask(lens, T).expand(-1, T, -1))
        worst = max(self.gap(padded[i : i + 1, :n], self.p(x[i : i + 1, :n])) for i, n in enumerate(lens.tolist()))
        if worst > 0:
            self.report.remark(
                "length-matters",
                f"a padded sample and the same sample cut to its length differ by up to {self.size(worst)}: the layer uses the length itself.",
            )

    def empty_row(self) -> None:
        """A query with no key: zeros or any finite numbers will do, NaN will not, in the gradient neither."""
        if not self.mask_is_read:
            return
        T = self.T
        mask = (
            torch.ones(T, T, dtype=torch.bool)
            if self.p.attend.masks != "lengths"
            else self.mask_for(T, "length").clone()
        )
        if self.p.mask_ndim == 2 or self.p.attend.masks == "prefix":
            mask[1] = False
            masks, where = mask, "query 1 of every sample"
        else:
            masks = mask.expand(2, T, T).clone()
            masks[0] = False
            where = "sample 0"
        x = self.p.tokens(2, T, 0.5)
        try:
            out = self.p(x, masks)
        except Crash as crash:
            self.report.remark("empty-row-refused", f"{where} may see no key: {crash}.")
            return
        if not out.isfinite().all():
            seen = (
                f"{where} may see no key: {int((~out.isfinite()).any(-1).sum())} of {2 * T} outputs are NaN or infinite"
            )
            if self.p.attend.mask == "additive":  # the -inf is the caller's
                self.report.remark(
                    "empty-row-inf",
                    f"{seen}, where the mask that is added holds -inf; torch.finfo(dtype).min in its place, as in transformers, gives an average.",
                )
            else:
                self.report.find("nan-on-empty-row", f"{seen}.")
            return
        grad = self.gradient(x, masks)
        if grad is not None and not grad.isfinite().all():
            self.report.find(
                "nan-on-empty-row",
                f"{where} may see no key: the output is finite, but {int((~grad.isfinite()).sum())} of {grad.numel()} numbers of its gradient are not.",
            )
            return
        row = (1, 1) if masks.ndim == 2 else (0, 0)
        changed = x.clone()
        changed[row[0], T - 1] += self.p.noise(1, T, 3)[0, 0]
        if self.gap(self.p(changed, masks)[row], out[row]) > 0:
            self.report.remark(
                "empty-row-mean",
                "a query that may see no key gets an average over hidden keys (what -1e9 does); zeros would be safer.",
            )

    def gradient(self, x: Tensor, mask: Tensor | None) -> Tensor | None:
        """Return the gradient of the squared outputs with respect to x, or None where there is none."""
        leaf = x.to(self.p.device, self.p.dtype).requires_grad_()
        try:
            out = self.p(leaf, mask, grad=True)
            return torch.autograd.grad(out.square().sum(), leaf)[0].cpu()
        except (Crash, RuntimeError):
            return None


def _reach(mask: Tensor) -> Tensor:
    """Return which token is reached from which output by any number of layers, each with a residual connection."""
    step = (mask | torch.eye(len(mask), dtype=torch.bool)).float()
    return torch.linalg.matrix_power(step, len(mask)) > 0

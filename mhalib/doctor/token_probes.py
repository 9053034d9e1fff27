"""The probes without a mask: which tokens does a token see, and are places told apart?

What is seen by itself (all tokens, the earlier ones, a window) is what masks are compared with later. Where a layer takes
no mask, a wrong reshape and a wrong softmax have to be found here.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from mhalib.doctor import patterns
from mhalib.doctor.patient import Crash
from mhalib.doctor.probes import Probes, Stop
from mhalib.masks import causal_mask


class TokenProbes(Probes):
    """`Probes` with those of the tokens of one sample."""

    def what_moved(self, seen: Tensor) -> str:
        """Say which outputs moved in a layer that mixes no tokens; some layers start with a zero on purpose."""
        zero = "is W_o or a gate zero, as some layers start? Then give it other numbers and examine it again"
        if not seen.any():
            return f"no output moved; {zero}"
        x = self.p.tokens(self.batch, self.T, 0.5)
        out = self.p(x)
        if out.shape == x.shape and torch.equal(out, x.to(out.dtype)):
            return f"each output is its own token, unchanged; {zero}"
        return "each moved its own output and no other"

    def unmasked(self) -> None:
        """Without a mask: everything is seen, or everything up to the own place; anything else has a reason."""
        seen, _ = self.influence(None)
        T, columns = self.T, self.columns(self.T)
        off = ~torch.eye(T, dtype=torch.bool)
        full, tril = torch.ones(T, T, dtype=torch.bool), causal_mask(T)
        hidden = int((~seen & off)[:, columns].sum())
        if not (seen & off).any() and not self.reacts(T):
            if "mixes-samples" not in self.report.codes:  # time taken for the batch: one mistake, one finding
                self.report.find(
                    "no-mixing",
                    f"{len(columns)} tokens were changed one by one: {self.what_moved(seen)}.",
                )
            raise Stop
        known = {"full": full, "causal": tril}
        if self.p.attend.causal:
            known = {"causal": tril}
        for name, base in known.items():
            if self.agree(seen, base):
                self.base = base
                if name == "causal":
                    self.report.remark(
                        "causal", "it hides later tokens by itself; examined by the rules for causal layers."
                    )
                self.identical_tokens()
                return
        if (window := self.window(seen)) is not None and not (self.p.attend.causal and window.triu(1).any()):
            self.report.remark(
                "window",
                f"each token sees only its neighbourhood ({window.sum(-1).max()} of {T} tokens); masks are compared within it.",
            )
            self.base = window
            return
        # Neither: a mistake that leaves a known pattern, or weights too sharp to see every token.
        for name, base in known.items():
            fitting = [s for s, expected in self.unmasked_suspicions(base) if self.agree(seen, expected)]
            # A pattern that only lacks something may come from sharp maps, and two mistakes may leave the same at one length.
            sure = bool((seen & ~base).any())
            certain = fitting[:1] if sure and len({s.split("/")[0] for s in fitting}) == 1 else []
            confirmed = certain or [s for s in fitting if self.again(s, name)] or (fitting[:1] if sure else [])
            if confirmed:
                code = confirmed[0].split("/")[0]
                self.report.find(code, self.describe(seen, base, f"without a mask, {name} expected"))
                raise Stop
        leaks = int((seen & ~tril & off).sum())
        if self.p.attend.causal:
            if leaks:
                self.report.find("future-leak", self.describe(seen, tril, "in a layer declared causal"))
                raise Stop
            self.base = tril
        elif how := self.upside_down(seen):
            self.report.find("future-leak", self.describe(seen, tril, f"without a mask; {how}"))
            raise Stop
        elif self.looks_shifted(seen):
            self.report.find(
                "future-leak", self.describe(seen, tril, "without a mask; the pattern is a causal one moved by a place")
            )
            raise Stop
        else:
            self.base = full  # whatever hides the rest: nothing that a mask allows may count as a leak
        self.report.skip(
            "tokens that no output reacted to",
            f"{hidden} of {T * len(columns) - len(columns)} pairs stayed still without a mask: weights too sharp, or something is hidden by design",
        )
        self.report.remark(
            "blind-spots", f"{hidden} pairs of output and token show no dependence although nothing hides them."
        )

    def again(self, suspicion: str, name: str) -> bool:
        """Whether the pattern that a mistake leaves is seen at a second length as well."""
        full = torch.ones(2 * self.h + 3, 2 * self.h + 3, dtype=torch.bool)
        found = patterns.suspicions(full, full.tril() if name == "causal" else full, self.h)
        try:
            return suspicion in found and self.agree(self.influence(None, T=len(full))[0], found[suspicion])
        except Crash:
            return False

    def unmasked_suspicions(self, base: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield the patterns that wrong reshapes, and in a layer declared causal a wrong softmax, leave without a mask."""
        found = patterns.suspicions(torch.ones_like(base), base, self.h)
        for code, expected in found.items():
            if code.startswith("mixes-tokens"):
                yield code, expected
        if self.p.attend.causal and not self.agree(torch.ones_like(base), base):
            full = torch.ones_like(base)
            x = self.p.tokens(1, 1, 0.5).expand(1, self.T, -1)
            out, alone = self.p(x)[0], self.p(x[:, :1])[0]
            # The last query sees all: its weights sum to 1 also where the mask comes after the softmax.
            sums = self.gap(out[-1:], alone) > 0 and self.gap(out[1:], out[:1].expand_as(out[1:])) > 0
            yield ("softmax-axis" if sums else "future-leak"), full

    def looks_shifted(self, seen: Tensor) -> bool:
        """Causal, with the diagonal moved up: each token sees all before it and a few of those after it."""
        T = self.T
        return any(self.agree(seen, torch.ones(T, T, dtype=torch.bool).tril(k)) for k in range(1, T - 1))

    def upside_down(self, seen: Tensor) -> str:
        """Say so where a causal mask stands on its head, or hides a token from itself and so leaves one without keys.

        A token without keys gets a mean over all of them where hidden scores are finite.
        """
        T = self.T
        triu, tril = torch.ones(T, T, dtype=torch.bool).triu(), causal_mask(T)
        last, first = torch.arange(T)[:, None] == T - 1, torch.arange(T)[:, None] == 0
        if self.agree(seen, triu) or self.agree(seen, triu | last):
            return "each token sees those after it and none before it: the causal mask is upside down (triu for tril)"
        if self.agree(seen, tril | first):
            return (
                "token 0 sees all later ones, as where the diagonal is hidden too and no key is left: tril(-1) for tril"
            )
        return ""

    def window(self, seen: Tensor) -> Tensor | None:
        """Return the band that was seen, if it is one; a wrong reshape may look like one, but not at a second length."""
        bands = [(before, after) for before in range(1, self.T - 1) for after in (0, before)]
        for before, after in bands:
            if self.agree(seen, band := _band(self.T, before, after)):
                try:
                    longer = self.influence(None, T=2 * self.h + 3)[0]
                except Crash:
                    return None
                return band if self.agree(longer, _band(2 * self.h + 3, before, after)) else None
        return None

    def reacts(self, T: int) -> bool:
        """Whether large changes of a token move another output: maps may be so sharp that small ones do not."""
        x = self.p.tokens(1, T, 0.5)
        before = self.p(x)
        for seed, t, size in ((seed, t, size) for seed in range(3) for t in (0, T - 1) for size in (-30, -3, 3, 30)):
            changed = x.clone()
            changed[0, t] += size * self.p.noise(1, 1, 20 + seed)[0, 0]
            others = [i for i in range(T) if i != t]
            if self.gap(self.p(changed)[0, others], before[0, others]) > 0:
                return True
        return False

    def identical_tokens(self) -> None:
        """Equal tokens: without positions all outputs are equal; twice as many tokens as heads show a wrong reshape.

        Where a layer takes no mask this is all that there is: a wrong split repeats its outputs with the period of
        the heads, a wrong merge gives them in pairs, positions give neither.
        """
        T = 2 * self.h if self.h > 1 and not self.mask_is_read else self.T
        outs = []
        for scale in (1.0, 0.1):  # sharp maps hide it, small tokens make them flat
            try:
                outs.append(self.p(scale * self.p.tokens(1, 1, 0.5).expand(1, T, -1))[0])
            except Crash as crash:
                self.report.skip(f"{T} equal tokens", f"the layer raised {crash}")
                return
        differ = [out for out in outs if self.gap(out[1:], out[:1].expand_as(out[1:])) > 0]
        if differ:
            if not self.mask_is_read and self.h > 1 and not self.p.attend.causal:
                periodic = all(self.gap(out[self.h :], out[: self.h]) == 0 for out in outs)
                paired = all(self.gap(out[0::2], out[1::2]) == 0 for out in outs)
                if periodic or paired:
                    code, how = (
                        ("mixes-tokens", "repeat after num_heads")
                        if periodic
                        else ("mixes-tokens-on-merge", "come in equal pairs")
                    )
                    self.report.find(
                        code,
                        f"{T} equal tokens without a mask: the outputs differ by up to {self.size(differ[0] - differ[0][:1])}, and they {how}; positions do not do that.",
                    )
                    raise Stop
            self.positions = (
                "equal tokens at different places give different outputs: the layer knows absolute positions."
            )
            if not self.mask_is_read:
                self.report.skip(
                    "mixing of tokens and sums of weights",
                    "the layer takes no mask and tells places apart, so that either could hide there",
                )
            return
        shuffled = torch.randperm(self.T - 1, generator=torch.Generator().manual_seed(0))
        order = torch.cat([shuffled, torch.tensor([self.T - 1])])  # the last token of a causal layer sees all others
        x = self.p.tokens(1, self.T, 0.5)
        if self.gap(self.p(x)[:, -1], self.p(x[:, order])[:, -1]) > 0:
            self.positions = "the order of the tokens matters without a mask: the layer knows relative positions."
        if not self.mask_is_read:
            self.crowd()

    def crowd(self) -> None:
        """Many equal tokens and one query: the query gets the crowd's value, whichever query it is.

        Only for layers without a mask, where a softmax over queries hides well: there the crowd's keys weigh more or
        less for good, here the difference between two queries fades as the crowd grows.
        """
        alone = self.p.tokens(1, 4, 0.3).split(1, dim=1)  # two queries, two crowds; alike, so that the maps are flat
        single = [self.p(s * alone[0])[0, 0] for s in (0.0, 1.0, 2.0)]
        bend = (single[2] - 2 * single[1] + single[0]).abs().max()
        if bend > 1e-3 * single[1].abs().max():
            self.report.skip(
                "sums of weights",
                "the layer takes no mask and is not linear for a single token (a layer norm?), so that its weights cannot be told from its output",
            )
            return

        def discrepancy(n: int, scale: float) -> float:
            rows = []
            for query in alone[:2]:
                pair = [self.p(scale * torch.cat([crowd.expand(1, n, -1), query], 1))[0, -1] for crowd in alone[2:]]
                rows.append(pair[0] - pair[1])
            return ((rows[0] - rows[1]).abs().max() / rows[0].abs().max().clamp_min(1e-30)).item()

        few, many = 6, 60
        seen, flat = [], []
        # Scores made large by biases keep maps sharp for a long time; a sharp healthy map forgets the query late.
        for scale in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001):
            try:
                seen.append((discrepancy(few, scale), discrepancy(many, scale)))
            except Crash as crash:
                self.report.skip("sums of weights", f"needs a crowd of {many} equal tokens; the layer raised {crash}")
                return
            flat += [seen[-1]] if 3e-5 < seen[-1][0] < 0.1 else []  # below is rounding
            if len(flat) > 1 and scale <= 0.1:
                break
        if all(a >= 0.1 for a, _ in seen):
            self.report.skip("sums of weights", "the maps stay sharp however small the tokens are")
            return
        # Where nothing gets smaller (normed q and k) small tokens are not flatter, and six may be too few to judge by.
        worst = max(b for _, b in seen)
        if flat and all(b > 0.5 * a for a, b in flat[:2]) and worst > max(1e-3, 2 * seen[-1][1]):
            self.report.find(
                "softmax-axis",
                f"one query among {many} equal tokens: what it gets depends on the query by {worst:.1%}, and not less than among {few}; a mean of the crowd would not.",
            )


def _band(T: int, before: int, after: int) -> Tensor:
    return torch.ones(T, T, dtype=torch.bool).tril(after).triu(-before)

"""What the trials with masks mean: a table of codes and conditions, of which the first that is met wins.

The patterns that mistakes leave are in `patterns`, the trials in `probes.masks`; what is not about masks is judged by
its own probe.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from attention_doctor import patterns
from attention_doctor.catalogue import REMARKS
from attention_doctor.influence import agree, amount, describe, influence, leaks, pairs
from attention_doctor.patient import Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, mask_of, padding, rows_alike

SMALL = (0.1, 0.01, 0.001)  # scales of tokens: what sharp maps hide is seen in flat ones


@dataclass(frozen=True)
class Trial:
    """What was seen under one mask.

    Args:
        kind: of the mask, as in `mask_of`.
        mask: boolean `(T, T)`.
        moved: boolean `(T, T)`, which output moved with which token.
        broken: boolean `(T,)`, which outputs are NaN or infinite.
        idle: boolean `(T,)`, the outputs that are nobody's business; None where there are none.
    """

    kind: str
    mask: Tensor
    moved: Tensor
    broken: Tensor
    idle: Tensor | None = None


def tried(kind: str, patient: Patient, setting: Setting, few: int = 2) -> Trial:
    """Change one token at a time under a mask, in a batch of a few.

    An output is nobody's business where no key is left for it. That of padding is neither: whatever it holds in a
    layer that is told lengths or keys; in others, which were told what it may see, only if it holds still or is NaN.
    """
    mask = mask_of(kind, patient, setting)
    allowed = mask & setting.base
    moved, broken = influence(patient, setting, mask, batch=few)
    for scale in SMALL:
        if agree(moved, allowed):
            break
        moved = moved | influence(patient, setting, mask, batch=few, scale=scale)[0]
    quiet = ~(moved & pairs(len(mask))).any(-1) | broken
    idle = ~allowed.any(-1) | (padding(mask) & (quiet | rows_alike(patient)))
    return Trial(kind, mask, torch.where(idle[:, None], allowed, moved), broken & ~idle, idle)


@dataclass(frozen=True)
class Signs:
    """What the table asks for, each worked out once, when it is first asked for; some need further calls."""

    trials: Sequence[Trial]
    patient: Patient
    setting: Setting

    @cached_property
    def healthy(self) -> bool:
        """Whether under every mask just that moved what the mask allows."""
        return self._explain("healthy", [self._allowed(trial) for trial in self.trials])

    @cached_property
    def mistakes(self) -> list[str]:
        """The known mistakes that explain what moved under every mask, as in `patterns.suspicions`."""
        base, h = self.setting.base, self.patient.num_heads
        expected = [patterns.suspicions(trial.mask, base, h) for trial in self.trials]
        # Where all rows are alike, a transposed mask hides queries, and what else moves has been seen without a mask.
        unlikely = ("mask-transposed", "softmax-axis", "mixes") if rows_alike(self.patient) else ()
        likely = [mistake for mistake in expected[0] if not mistake.startswith(unlikely)]
        return [mistake for mistake in likely if self._explain(mistake, [each[mistake] for each in expected])]

    def looks_like(self, code: str) -> bool:
        """Whether a known mistake of this code explains everything."""
        return any(mistake.split("/")[0] == code for mistake in self.mistakes)  # "mixes-tokens/qk": which reshapes

    def _allowed(self, trial: Trial) -> Tensor:
        return patterns.depends(trial.mask & self.setting.base, self.patient.num_heads)

    def _explain(self, mistake: str, expected: list[Tensor]) -> bool:
        for trial, pattern in zip(self.trials, expected, strict=True):
            unknown = patterns.unknown_rows(trial.mask, self.setting.base, mistake)
            unknown = unknown if trial.idle is None else unknown | trial.idle
            if not agree(trial.moved, pattern, unknown) or (trial.broken & ~unknown).any():
                return False
        return True

    def tried(self, kind: str) -> bool:
        """Whether this kind of mask was tried; a layer that takes lengths cannot be given all of them."""
        return any(trial.kind == kind for trial in self.trials)

    @cached_property
    def leaking(self) -> list[Trial]:
        """The trials in which a hidden token moved an output."""
        return [trial for trial in self.trials if leaks(trial.moved, trial.mask & self.setting.base)]

    def leaks_under(self, kind: str) -> bool:
        """Whether a hidden token moved an output under this kind of mask."""
        return any(trial.kind == kind for trial in self.leaking)

    @cached_property
    def leaks_by_way_of_others(self) -> bool:
        """Whether all that leaks could come by way of a third token, as in layers one after another."""
        base = self.setting.base
        return bool(self.leaking) and not any(
            trial.broken.any() or leaks(trial.moved, _reach(trial.mask & base) & base) for trial in self.leaking
        )

    @cached_property
    def one_too_far(self) -> Trial | None:
        """A trial in which just the first hidden key leaks; None unless it does under each beginning of the keys."""
        at_fault = []
        for trial in self.trials:
            shown = int(trial.mask[0].sum())
            if not (trial.mask == (torch.arange(len(trial.mask)) < shown)).all():
                if trial in self.leaking:
                    return None
                continue
            leak = (trial.moved & ~(trial.mask & self.setting.base) & pairs(len(trial.mask))).any(0)
            if leak.nonzero().flatten().tolist() != [shown]:
                return None
            at_fault.append(trial)
        return at_fault[-1] if len(at_fault) > 1 else None

    @cached_property
    def broken(self) -> Trial | None:
        """The first trial with an output that is NaN or infinite."""
        return next((trial for trial in self.trials if trial.broken.any()), None)

    @cached_property
    def mask_effect(self) -> str:
        """By how much masks change the outputs, against no mask; "" where they do not."""
        x, differences = self.patient.tokens(self.setting.batch, self.setting.T, 0.5), []
        for kind in ("single key", "causal", "length"):
            mask = mask_of(kind, self.patient, self.setting)
            seen = ~padding(mask) if rows_alike(self.patient) else slice(None)
            masked, free = self.patient(x, mask)[:, seen], self.patient(x)[:, seen]
            if self.patient.differ(masked, free):
                differences.append((masked - free).flatten())
        return amount(torch.cat(differences)) if differences else ""

    @cached_property
    def equal_tokens_agree(self) -> bool:
        """Whether equal tokens give equal outputs under masks that give each query one key.

        A wrong reshape moves values, a wrong mask only weights.
        """
        if rows_alike(self.patient):
            return True  # one query has one key; the rest was compared without a mask
        x = self.patient.tokens(1, 1, 0.5).expand(1, self.setting.T, -1)
        kinds = ("identity", "single key") if self.patient.takes_any_mask else ("single key",)
        outs = [self.patient(x, mask_of(kind, self.patient, self.setting))[0] for kind in kinds]
        return not any(self.patient.differ(out[1:], out[:1].expand_as(out[1:])) for out in outs)

    @cached_property
    def evidence(self) -> str:
        """The first trial that is not as it should be, in numbers."""
        trial = next(t for t in self.trials if t.broken.any() or not agree(t.moved, self._allowed(t)))
        allowed = trial.mask & self.setting.base
        return describe(trial.moved, allowed, f"under the mask '{trial.kind}'", self.patient)


def _reach(mask: Tensor) -> Tensor:
    """Return which token is reached from which output by any number of layers, each with a residual connection."""
    step = (mask | torch.eye(len(mask), dtype=torch.bool)).float()
    return torch.linalg.matrix_power(step, len(mask)) > 0


class Verdict(NamedTuple):
    """A row of the table: a code of the catalogue, when it is given, and what the report says then."""

    code: str
    when: Callable[[Signs], bool]
    says: Callable[[Signs], str] = lambda signs: signs.evidence


def _broken_outputs(signs: Signs) -> str:
    trial = signs.broken
    return (
        f"under the mask '{trial.kind}', in which every query has a key, {int(trial.broken.sum())} of "
        f"{len(trial.broken)} outputs are NaN or infinite."
    )


def _just_at_the_length(signs: Signs) -> str:
    trial = signs.one_too_far
    shown = int(trial.mask[0].sum())
    return (
        f"{signs.evidence} It is always the key just at the length: with {shown} keys shown, token {shown} (counted "
        "from 0) moves outputs, and no later one does: `arange <= length` where `<` is meant?"
    )


VERDICTS = (
    Verdict(
        "several-layers",
        lambda s: s.leaks_by_way_of_others,
        lambda s: (
            "it behaves like layers one after another: what a mask hides from a token reaches it by way of a third "
            "one, and nothing else does. Examine one layer at a time."
        ),
    ),
    Verdict("mask-leaks", lambda s: s.one_too_far is not None, _just_at_the_length),
    # A mask that hides nothing: is it read at all? Or is it read, and other things are wrong?
    Verdict(
        "mask-ignored",
        lambda s: s.looks_like("mask-ignored") and not s.mask_effect,
        lambda s: f"{s.evidence} With and without the mask the outputs are the same.",
    ),
    Verdict(
        "mixes-tokens",
        lambda s: s.mistakes == ["mask-ignored"] and not s.equal_tokens_agree,
        lambda s: f"{s.evidence} Equal tokens, too, give different outputs, so it is not the mask alone.",
    ),
    Verdict(
        "mask-leaks",
        lambda s: s.mistakes == ["mask-ignored"],
        lambda s: f"{s.evidence} The mask changes the outputs by up to {s.mask_effect}, but it hides nothing.",
    ),
    # The mistakes of which the whole pattern is known, the likelier ones first.
    Verdict("mask-inverted", lambda s: s.looks_like("mask-inverted")),
    Verdict("mask-transposed", lambda s: s.looks_like("mask-transposed")),
    Verdict("softmax-axis", lambda s: s.looks_like("softmax-axis")),
    Verdict("mixes-tokens-on-merge", lambda s: s.looks_like("mixes-tokens-on-merge")),
    Verdict("mixes-tokens", lambda s: s.looks_like("mixes-tokens")),
    # No known pattern: what may be said by what leaks under which mask.
    Verdict("not-finite", lambda s: s.broken is not None, _broken_outputs),
    Verdict(
        "mixes-tokens",
        lambda s: s.leaks_under("single key") and not s.equal_tokens_agree and s.leaks_under("identity"),
    ),
    Verdict("mask-leaks", lambda s: s.leaks_under("identity") and s.leaks_under("single key")),
    Verdict("mixes-tokens-on-merge", lambda s: s.leaks_under("identity")),
    Verdict("softmax-axis", lambda s: s.leaks_under("single key") and s.tried("identity")),
    Verdict("mask-leaks", lambda s: s.leaks_under("single key")),
    Verdict("future-leak", lambda s: s.leaks_under("causal")),
    Verdict("mask-leaks", lambda s: bool(s.leaking)),
    Verdict("blind-spots", lambda s: True, lambda s: f"{s.evidence} Weights too sharp, or hidden by design."),
)


def judge(trials: Sequence[Trial], patient: Patient, setting: Setting, report: Report) -> None:
    """Report the one explanation that fits what was seen under all masks.

    Raises:
        Stop: it is a finding.
    """
    signs = Signs(trials, patient, setting)
    if signs.healthy:
        return
    verdict = next(verdict for verdict in VERDICTS if verdict.when(signs))
    if verdict.code in REMARKS:
        report.remark(verdict.code, verdict.says(signs))
        return
    report.find(verdict.code, verdict.says(signs))
    raise Stop

"""Where two sizes agree, a mix-up of two axes raises nothing: the probes of tokens and masks again, at these sizes.

What is probed here is said in `tokens`, `masks` and `verdicts`; nothing else than the sizes is new.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from attention_doctor.influence import agree, describe, influence, leaks, mixes_nothing, pairs
from attention_doctor.patient import Crash, Patient
from attention_doctor.probes.basics import others_moved
from attention_doctor.probes.masks import other_samples_mask
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, kinds_of_masks
from attention_doctor.verdicts import judge, tried
from mhalib.masks import causal_mask

LARGEST = 64  # beyond, the many calls would take too long


@dataclass(frozen=True)
class Agreement:
    """Sizes that agree: their name and value, the setting, and how many samples tokens are changed one by one in."""

    name: str
    value: int
    setting: Setting
    few: int


def holds_where_sizes_agree(patient: Patient, setting: Setting, report: Report) -> None:
    """Go through the sizes, up to the first at which something is found."""
    if setting.sight == "window":
        report.skip("sizes at which two axes agree", "not probed in layers that see a window")
        return
    had = len(report.findings)
    for agreement in _agreements(patient, setting):
        if not patient.takes(agreement.setting.T):
            continue
        name, T = agreement.name, agreement.setting.T
        try:
            _probe_again(agreement, patient, report)
        except Crash as crash:
            if T > setting.T:
                report.skip(f"{name} ({T} tokens)", f"the layer raised {crash}; a longest T?")
            else:
                x = f"x ({agreement.setting.batch}, {T}, {patient.d_model})"
                report.find(crash.code, f"{name} = {agreement.value}, {x}: {crash}.")
        if len(report.findings) > had:
            raise Stop


def _agreements(patient: Patient, setting: Setting) -> Iterator[Agreement]:
    h, head_dim, B = patient.num_heads, patient.head_dim, setting.batch
    for name, value, batch, T, few in (
        ("B == num_heads", h, h, setting.T, h),
        ("T == num_heads", h, B, h, 2),
        ("T == head_dim", head_dim, B, head_dim, 2),
        ("B == T == num_heads", h, h, h, h),
    ):
        if 2 <= T <= LARGEST and batch <= LARGEST and B > 1:
            base = torch.ones(T, T, dtype=torch.bool) if setting.base.all() else causal_mask(T)
            yield Agreement(name, value, replace(setting, batch=batch, T=T, base=base), few)


def _probe_again(agreement: Agreement, patient: Patient, report: Report) -> None:
    name, setting, few = agreement.name, agreement.setting, agreement.few
    x = patient.tokens(setting.batch, setting.T, 0.5)
    before = patient(x)
    if setting.batch > 1 and (moved := others_moved(x, before, patient)):
        report.find("mixes-samples", f"{name}: changing sample 0 alone moved the others by up to {moved}.")
        return
    moved, _ = influence(patient, setting, batch=few)
    if not agree(moved, setting.base):
        if mixes_nothing(moved, patient):
            # With other lengths tokens did see each other. A reshape that cuts the tokens in place of the features
            # hands each head one token where there are as many of both.
            code = "mixes-tokens" if setting.T == patient.num_heads else "no-mixing"
            report.find(code, f"{name}: each token moved its own output and no other.")
        elif leaks(moved, setting.base) and not (setting.base & pairs(setting.T) & ~moved).any():
            # In maps that are too sharp to see every token, causal may have been what it looked like by chance.
            report.find("future-leak", describe(moved, setting.base, name, patient))
        return
    if not patient.takes_masks:
        return
    kinds = ("single key", "causal", "identity") if patient.takes_any_mask else kinds_of_masks(patient)
    trials = [tried(kind, patient, setting, few) for kind in kinds]
    try:
        judge(trials, patient, setting, report)
    except Stop:
        return
    if patient.mask_ndim == 3:
        other_samples_mask(setting.batch, patient, setting, report)

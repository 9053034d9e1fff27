"""What a layer keeps from call to call: nothing that changes a later answer.

A mask or keys that are kept because the sizes agree, a buffer that is edited in place: every single answer looks right,
and the same call gives another one later.
"""

import torch
from torch import Tensor

from attention_doctor.patient import Crash, Patient, amount
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, kinds_of_masks, mask_of


def forgets_tokens(patient: Patient, setting: Setting, report: Report) -> None:
    """Call it with other tokens of the same size, then of another size, then as before."""
    B, T = setting.batch, setting.T
    x, more = patient.noise(B + 1, T, 30), patient.noise(B, T, 31)
    try:
        before = patient(x[:B])
        patient(more[:, : T - 1])
        patient(more)
        if patient.differ(again := patient(x[:B]), before):
            _found("other tokens, and another number of them", again - before, report)
        wider = patient(x)[:B]
        if patient.differ(wider, before) and _sees_nothing_new(x[:B], before, more, patient):
            _found("a batch of another size", wider - before, report)
    except Crash:  # the sizes themselves are the business of other probes
        return


def _sees_nothing_new(x: Tensor, before: Tensor, other: Tensor, patient: Patient) -> bool:
    """Whether neither another token nor another sample moves an output: what they are seen by is kept for this size."""
    token, sample = x.clone(), x.clone()
    token[:, 0], sample[0] = other[:, 0], other[0]
    after = patient(token)[:, 1:], patient(sample)[1:]
    return not patient.differ(after[0], before[:, 1:]) and not patient.differ(after[1], before[1:])


def forgets_masks(patient: Patient, setting: Setting, report: Report) -> None:
    """Repeat the very first call after some with masks."""
    if patient.takes_masks:
        x = patient.tokens(setting.batch, setting.T, 0.5)
        kinds = kinds_of_masks(patient)
        for kind in kinds:
            patient(x, mask_of(kind, patient, setting))
        forgets_everything(patient, setting, report, f"masks ({', '.join(kinds)})")
        for kind in kinds:
            mask = mask_of(kind, patient, setting)
            fresh = patient.unused()
            if fresh is None:
                return
            later, first = (
                each(x, mask).nan_to_num(nan=0.0) for each in (patient, fresh)
            )  # of padding, NaN is no news
            if patient.differ(later, first):
                _found("other masks of the same size", later - first, report)


def forgets_everything(patient: Patient, setting: Setting, report: Report, between: str = "") -> None:
    """Repeat the very first call after all others."""
    if setting.first is None or "not-deterministic" in report.codes:
        return
    x, before = setting.first
    again = patient(x)
    if again.shape != before.shape or patient.differ(again, before):
        masks = ", with masks and without," if patient.takes_masks else ""
        others = " The findings above may come from the same." if report.findings else ""
        off = again - before if again.shape == before.shape else torch.tensor(torch.inf)
        _found(between or f"other tokens and sizes{masks}", off, report, others)


def _found(between: str, difference: Tensor, report: Report, others: str = "") -> None:
    report.find(
        "not-deterministic",
        f"a call, and the same call again after calls with {between}, differ by up to {amount(difference)}: something "
        f"is kept from call to call and changes later answers.{others}",
    )
    raise Stop

"""The first probes: whether a layer runs, repeats itself, averages, and keeps samples apart.

No mask is handed over here, and no token is told from another; `tokens` and `masks` do that.
"""

from dataclasses import replace

from torch import Tensor

from attention_doctor.patient import Crash, Patient, WrongShape, amount
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop


def runs(patient: Patient, setting: Setting, report: Report) -> Setting:
    """Find a length at which the layer runs, and look at the shape and the numbers of its output."""
    first = None
    if patient.attend.lengths:
        some = ", ".join(map(str, patient.attend.lengths))
        report.skip("other numbers of tokens", f"the layer takes {some} only")
    for T in (setting.T,) if patient.attend.lengths else (setting.T, 6, 4, 3, 2):
        x = patient.tokens(setting.batch, T, 0.05)
        for needs_mask in (False, True) if patient.takes_masks else (False,):
            patient.needs_mask = needs_mask
            try:
                out = patient(x)
            except WrongShape as wrong:
                report.find(wrong.code, f"{wrong}.")
                raise Stop from None
            except Crash as crash:
                first = first or f"x {tuple(x.shape)} without a mask: {crash}"
                continue
            if needs_mask:
                report.remark(
                    "needs-mask", f"it cannot be called without a mask ({first}); all True stands for none here."
                )
            if T != setting.T:
                _other_length(T, first, patient, setting, report)
            _check_output(out, patient, report)
            return replace(setting, T=T, first=(x, out))
    report.find("crash", f"{first}.")
    raise Stop


def _other_length(T: int, first: str, patient: Patient, setting: Setting, report: Report) -> None:
    """A layer with a longest T runs at every shorter one; a layer that runs at one length by chance does not."""
    if T > setting.T:
        report.find("crash", f"{first}; it runs with {T} tokens.")
        raise Stop
    for shorter in range(2, T):
        try:
            patient(patient.tokens(setting.batch, shorter, 0.05))
        except Crash:
            report.find("crash", f"{first}; it runs with {T} tokens, not with {shorter}.")
            raise Stop from None
    report.skip(f"sequences of {setting.T} tokens", f"the layer raised ({first}); examined with {T}")


def _check_output(out: Tensor, patient: Patient, report: Report) -> None:
    if not out.isfinite().all():
        bad = int((~out.isfinite()).sum())
        report.find("not-finite", f"without a mask, {bad} of {out.numel()} numbers are NaN or infinite.")
        raise Stop
    if out.shape[-1] != patient.d_model:
        report.remark("output-width", f"{patient.d_model} features come in, {out.shape[-1]} go out.")


def repeats_itself(patient: Patient, setting: Setting, report: Report) -> None:
    """Call it again with the same input."""
    x = patient.tokens(setting.batch, setting.T, 0.5)
    before = patient(x)
    for _ in range(3):
        again = patient(x)
        if again.shape != before.shape:
            off = "another shape"
        elif patient.differ(again, before):
            off = f"outputs that differ by up to {amount(again - before)}"
        else:
            continue
        report.find(
            "not-deterministic",
            f"the same input gave {off}; nothing else was examined, since every comparison would fail.",
        )
        raise Stop


def separates_samples(patient: Patient, setting: Setting, report: Report) -> Setting | None:
    """Change one sample, look at the others; and compare a sample alone with the same one in its batch."""
    x = patient.tokens(setting.batch, setting.T, 0.5)
    before = patient(x)
    if moved := others_moved(x, before, patient):
        report.find(
            "mixes-samples", f"changing sample 0 alone moved the outputs of the others by up to {moved} (must be 0)."
        )
        return replace(setting, batch=1)
    for i in (0, setting.batch - 1):  # the last one as well: what goes by the place in the batch spares sample 0
        try:
            alone = patient(x[i : i + 1])
        except Crash as crash:
            report.find(crash.code, f"a batch of one, x {tuple(x[:1].shape)}: {crash}.")
            raise Stop from None
        if patient.differ(alone, before[i : i + 1]):
            off = amount(alone - before[i : i + 1])
            report.find(
                "mixes-samples",
                f"sample {i} alone and the same sample in a batch of {setting.batch} differ by up to {off}.",
            )
    return None if report.ok else replace(setting, batch=1)


def others_moved(x: Tensor, before: Tensor, patient: Patient) -> str:
    """Change sample 0 of `x` alone; say how far the other outputs moved from `before`, "" where they did not."""
    changed = x.clone()
    changed[0] += patient.noise(1, x.shape[1], 7)[0]
    after = patient(changed)
    return amount(after[1:] - before[1:]) if patient.differ(after[1:], before[1:]) else ""

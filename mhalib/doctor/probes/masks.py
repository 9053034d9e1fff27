"""The probes that hand over masks: is each key hidden that should be, and no other, for the right sample?

Masks are boolean as `mhalib.masks` has them; what a layer wants instead is `adapt`'s business.
"""

import torch
from torch import Tensor

from mhalib.doctor.influence import amount, influence
from mhalib.doctor.patient import Crash, Patient
from mhalib.doctor.report import Report
from mhalib.doctor.setting import Setting, Stop, mask_of
from mhalib.doctor.verdicts import Trial, judge
from mhalib.masks import causal_mask, padding_mask


def takes_masks(patient: Patient, setting: Setting, report: Report) -> None:
    """Try the legal forms of a mask: `(T, T)` and `(B, T, T)`."""
    if not patient.takes_masks:
        what = "causal by itself" if patient.attend.causal else "declared so, or seen in its signature"
        report.skip("masks", f"the layer takes none ({what})")
        return
    if not patient.takes_any_mask:
        report.skip(
            "masks other than lengths",
            "the layer takes valid_lens; only masks that show a beginning of the keys were tried",
        )
    mask, x = mask_of("causal", patient, setting), patient.tokens(setting.batch, setting.T, 0.5)
    forms = (2,) if patient.attend.masks == "shared" else (3,) if patient.attend.declared else (2, 3)
    refused = {}
    for form in forms:
        patient.mask_ndim = form
        try:
            patient(x, mask)
        except Crash as crash:
            refused[form] = crash
    patient.mask_ndim = 3 if 3 in forms and 3 not in refused else 2
    if len(refused) == len(forms):
        form, crash = max(refused.items())
        axes = "(B, T, T)" if form == 3 else "(T, T)"
        report.find(crash.code, f"x {tuple(x.shape)} under a legal mask {axes}: {crash}.")
        raise Stop
    if 3 in refused:
        _without_head_axis(refused[3], patient, setting, report)
    elif 2 in refused:
        report.remark("mask-rank", f"it takes (B, T, T) masks, no (T, T) masks: {refused[2]}.")
    if patient.mask_ndim == 2:
        report.skip("masks that differ from sample to sample", "the layer takes one (T, T) mask for all")


def _without_head_axis(error: Crash, patient: Patient, setting: Setting, report: Report) -> None:
    """(T, T) works, (B, T, T) does not: by design, or because the head axis is missing?

    Where it is missing, the samples of the mask line up with the heads, which raises nothing when there are as many
    of both.
    """
    h, T = patient.num_heads, setting.T
    try:
        patient(patient.tokens(h, T, 0.5), causal_mask(T).expand(h, T, T))
    except Crash:
        report.remark("mask-rank", f"it takes (T, T) masks, no (B, T, T) masks: {error}.")
        return
    report.find(
        "crash",
        f"a (B, T, T) mask with B={setting.batch}: {error}. With B = {h} = num_heads nothing is raised: "
        "the samples of the mask line up with the heads.",
    )
    if setting.batch > 1:
        other_samples_mask(h, patient, setting, report)


def obeys_masks(patient: Patient, setting: Setting, report: Report) -> None:
    """Change one token at a time under several masks, and compare what moved with what each mask allows."""
    if not patient.takes_masks:
        return
    kinds = ("identity", "single key", "causal", "length", "random")
    trials = []
    for kind in kinds if patient.takes_any_mask else kinds[1:4]:
        mask = mask_of(kind, patient, setting)
        try:
            trials.append(Trial(kind, mask, *influence(patient, setting, mask)))
        except Crash as crash:
            report.find(crash.code, f"T={setting.T} under a legal mask ({kind}): {crash}.")
            raise Stop from None
    judge(trials, patient, setting, report)


def gives_each_sample_its_mask(patient: Patient, setting: Setting, report: Report) -> None:
    """Give one sample another mask: only its own outputs may change."""
    if patient.takes_masks and patient.mask_ndim == 3 and setting.batch > 1:
        other_samples_mask(setting.batch, patient, setting, report)


def other_samples_mask(batch: int, patient: Patient, setting: Setting, report: Report) -> None:
    """Report the outputs of other samples that move with the mask of the first sample, or of the last."""
    if batch == 1:
        return
    T = setting.T
    x = patient.tokens(batch, T, 0.5)
    usual = mask_of("causal", patient, setting).expand(batch, T, T)
    before = patient(x, usual)
    for sample in (0, batch - 1):
        mask = usual.clone()
        mask[sample] = mask_of("single key", patient, setting)
        others = [i for i in range(batch) if i != sample]
        after = patient(x, mask)[others]
        if patient.differ(after, before[others]):
            equal = " = num_heads" if batch == patient.num_heads else ""
            report.find(
                "mask-order",
                f"B={batch}{equal}: another mask for sample {sample} alone moved the outputs of other samples by up to "
                f"{amount(after - before[others])}.",
            )
            return


def treats_padded_as_cut(patient: Patient, setting: Setting, report: Report) -> None:
    """A padded sample gives what the sample gives that was cut to its length."""
    if not patient.takes_masks or patient.mask_ndim == 2 or setting.batch == 1 or not report.ok:
        return
    T = setting.T
    lens = torch.tensor([T, T - 2, T - 1][: setting.batch])
    x = patient.tokens(setting.batch, T, 0.5)
    padded = patient(x, padding_mask(lens, T).expand(-1, T, -1))
    differences = []
    for i, n in enumerate(lens.tolist()):
        cut = patient(x[i : i + 1, :n])
        if patient.differ(padded[i : i + 1, :n], cut):
            differences.append((padded[i : i + 1, :n] - cut).flatten())
    if differences:
        report.remark(
            "length-matters",
            f"a padded sample and the same sample cut to its length differ by up to {amount(torch.cat(differences))}: "
            "the layer uses the length itself.",
        )


# ------------------------------------------------------------------------------------------------ nothing to attend to


def survives_an_empty_row(patient: Patient, setting: Setting, report: Report) -> None:
    """A query with no key: zeros or any finite numbers will do, NaN will not, in the gradient neither."""
    if not patient.takes_masks:
        return
    T = setting.T
    mask, (sample, query), where = _with_empty_row(patient, setting)
    x = patient.tokens(2, T, 0.5)
    try:
        out = patient(x, mask)
    except Crash as crash:
        report.remark("empty-row-refused", f"{where} may see no key: {crash}.")
        return
    if not out.isfinite().all():
        _not_finite(int((~out.isfinite()).any(-1).sum()), 2 * T, where, patient, report)
        return
    grad = _gradient(x, mask, patient)
    if grad is not None and not grad.isfinite().all():
        bad = f"{int((~grad.isfinite()).sum())} of {grad.numel()} numbers"
        report.find(
            "nan-on-empty-row",
            f"{where} may see no key: the output is finite, but {bad} of its gradient are not.",
        )
        return
    changed = x.clone()
    changed[sample, T - 1] += patient.noise(1, T, 3)[0, 0]
    if patient.differ(patient(changed, mask)[sample, query], out[sample, query]):
        report.remark(
            "empty-row-mean",
            "a query that may see no key gets an average over hidden keys (what -1e9 does); zeros would be safer.",
        )


def _with_empty_row(patient: Patient, setting: Setting) -> tuple[Tensor, tuple[int, int], str]:
    """Return a mask for two samples that hides all keys from a query, the sample and the query, and that in words."""
    T = setting.T
    mask = torch.ones(T, T, dtype=torch.bool)
    if patient.attend.masks == "lengths":
        mask = mask_of("length", patient, setting).clone()
    if patient.mask_ndim == 2 or patient.attend.masks == "prefix":
        mask[1] = False
        return mask, (1, 1), "query 1 of every sample"
    masks = mask.expand(2, T, T).clone()
    masks[0] = False
    return masks, (0, 0), "sample 0"


def _not_finite(bad: int, total: int, where: str, patient: Patient, report: Report) -> None:
    seen = f"{where} may see no key: {bad} of {total} outputs are NaN or infinite"
    if patient.attend.mask == "additive":  # the -inf is the caller's
        report.remark(
            "empty-row-inf",
            f"{seen}, where the mask that is added holds -inf; torch.finfo(dtype).min in its place, as in "
            "transformers, gives an average.",
        )
    else:
        report.find("nan-on-empty-row", f"{seen}.")


def _gradient(x: Tensor, mask: Tensor, patient: Patient) -> Tensor | None:
    """Return the gradient of the squared outputs with respect to x, or None where there is none."""
    leaf = x.to(patient.device, patient.dtype).requires_grad_()
    try:
        out = patient(leaf, mask, grad=True)
        return torch.autograd.grad(out.square().sum(), leaf)[0].cpu()
    except (Crash, RuntimeError):
        return None

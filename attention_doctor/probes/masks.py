"""The probes that hand over masks: is each key hidden that should be, and no other, for the right sample?

Masks are boolean as `mhalib.masks` has them; what a layer wants instead is `adapt`'s business.
"""

import copy
from dataclasses import replace

import torch

from attention_doctor.influence import amount
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, kinds_of_masks, mask_of, padding, rows_alike
from attention_doctor.verdicts import judge, tried
from mhalib.masks import causal_mask, padding_mask


def takes_masks(patient: Patient, setting: Setting, report: Report) -> None:
    """Try the legal forms of a mask: `(T, T)` and `(B, T, T)`."""
    if not patient.takes_masks:
        what = "causal by itself" if patient.attend.causal else "declared so, or seen in its signature"
        report.skip("masks", f"the layer takes none ({what})")
        return
    if not patient.takes_any_mask:
        report.skip(
            *(
                ("masks that differ from query to query", "the layer takes masks over the keys alone")
                if patient.attend.masks == "keys"
                else (
                    "masks other than lengths",
                    "the layer takes valid_lens; only masks that show a beginning of the keys were tried",
                )
            )
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
    trials = []
    for kind in kinds_of_masks(patient):
        try:
            trials.append(tried(kind, patient, setting))
        except Crash as crash:
            report.find(crash.code, f"T={setting.T} under a legal mask ({kind}): {crash}.")
            raise Stop from None
    judge(trials, patient, setting, report)


def leaves_open_what_is_open(patient: Patient, setting: Setting, report: Report) -> None:
    """A mask that hides nothing gives what no mask gives, where it can be called without one."""
    if not patient.takes_masks or patient.needs_mask or patient.attend.mask_always or setting.batch == 1:
        return
    x = patient.tokens(setting.batch, setting.T, 0.5)
    free = patient(x)
    open_to_all = patient(x, torch.ones(setting.T, setting.T, dtype=torch.bool))
    if patient.differ(open_to_all, free):
        report.find(
            "open-mask-differs",
            f"with a mask that hides nothing the outputs differ by up to {amount(open_to_all - free)} from those "
            "without a mask.",
        )
        raise Stop


def reads_integers_alike(patient: Patient, setting: Setting, report: Report) -> None:
    """A mask of 1 and 0, where the layer's words speak of one, hides what True and False hide."""
    if not patient.attend.integers:
        return
    x, mask = patient.tokens(setting.batch, setting.T, 0.5), mask_of("length", patient, setting)
    whole = copy.copy(patient)
    whole.attend = replace(patient.attend, mask="integers")
    try:
        of_integers = whole(x, mask)
    except Crash:
        return  # it says so itself
    if patient.differ(of_integers, of_booleans := patient(x, mask)):
        report.find(
            "mask-leaks",
            f"the same mask as integers, 1 and 0, gives outputs that differ by up to "
            f"{amount(of_integers - of_booleans)} from those under True and False: ~1 is -2, and as true as ~0.",
        )
        raise Stop


def gives_each_sample_its_mask(patient: Patient, setting: Setting, report: Report) -> None:
    """Give one sample another mask: only its own outputs may change."""
    if patient.takes_masks and patient.mask_ndim == 3 and setting.batch > 1:
        other_samples_mask(setting.batch, patient, setting, report)
        if patient.attend.lengths and patient.attend.mask == "additive" and patient.attend.mask_rank == 3:
            _repeats_the_masks_of_windows(patient, setting, report)


def _repeats_the_masks_of_windows(patient: Patient, setting: Setting, report: Report) -> None:
    """Layers of windows take one mask for each window of a picture; the windows of a picture stand side by side."""
    T, few = setting.T, 2
    x = patient.tokens(2 * few, T, 0.5)
    masks = torch.stack([mask_of(kind, patient, setting) for kind in ("causal", "random")])
    try:
        both = patient(x, masks)
    except Crash:
        return
    each = torch.cat([patient(part, masks) for part in x.split(few)])
    if patient.differ(both, each):
        report.find(
            "mask-order",
            f"{2 * few} windows of two pictures and {few} masks: with both pictures in a batch the outputs differ by "
            f"up to {amount(both - each)} from those of each alone.",
        )


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
        others = torch.arange(batch) != sample
        # The outputs of padding are nobody's business: what is compared is what was seen by somebody.
        business = others[:, None].expand(batch, T)
        business = business & ~padding(usual) if rows_alike(patient) else business
        after = patient(x, mask)[business]
        if patient.differ(after, before[business]):
            equal = " = num_heads" if batch == patient.num_heads else ""
            report.find(
                "mask-order",
                f"B={batch}{equal}: another mask for sample {sample} alone moved the outputs of other samples by up to "
                f"{amount(after - before[business])}.",
            )
            return


def treats_padded_as_cut(patient: Patient, setting: Setting, report: Report) -> None:
    """A padded sample gives what the sample gives that was cut to its length."""
    if (
        not patient.takes_masks
        or patient.mask_ndim == 2
        or setting.batch == 1
        or not report.ok
        or patient.attend.lengths
    ):
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

"""A query with no key: any finite numbers will do; NaN is a habit as long as it stays where nothing was asked for.

A softmax over nothing but -inf is 0/0. What matters is whom it reaches: other outputs, or the gradient of a loss that
leaves such queries out, and with it all weights.
"""

import torch
from torch import Tensor

from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting, mask_of, rows_alike


def survives_an_empty_row(patient: Patient, setting: Setting, report: Report) -> None:
    """Hide all keys from one query, or from a sample where that is all that can be said, and see what it reaches."""
    if not patient.takes_masks:
        return
    mask, empty, where = _with_empty_row(patient, setting)
    x = patient.tokens(2, setting.T, 0.5)
    try:
        out = patient(x, mask)
    except Crash as crash:
        report.remark("empty-row-refused", f"{where} may see no key: {crash}.")
        return
    if not out.isfinite().all():
        _not_finite(x, mask, out, empty, where, patient, report)
        return
    all_rows = torch.ones_like(empty)
    if bad := _bad_gradient(x, mask, all_rows, patient):
        seen = f"{where} may see no key: the output is finite, but {bad} not."
        if _nobody_asks(patient):
            report.remark("empty-row-nan", seen)
        else:
            report.find("nan-on-empty-row", seen)
        return
    sample, query = empty.nonzero()[0].tolist()
    changed = x.clone()
    changed[sample, setting.T - 1] += patient.noise(1, setting.T, 3)[0, 0]
    if patient.differ(patient(changed, mask)[sample, query], out[sample, query]):
        report.remark(
            "empty-row-mean",
            "a query that may see no key gets an average over hidden keys (what -1e9 does); zeros would be safer.",
        )


def _with_empty_row(patient: Patient, setting: Setting) -> tuple[Tensor, Tensor, str]:
    """Return a mask for two samples, the queries from which it hides all keys, `(2, T)`, and that in words."""
    T = setting.T
    mask, empty = torch.ones(T, T, dtype=torch.bool), torch.zeros(2, T, dtype=torch.bool)
    if rows_alike(patient) and patient.mask_ndim == 3:
        masks = mask_of("length", patient, setting).expand(2, T, T).clone()
        masks[0], empty[0] = False, True
        return masks, empty, "sample 0"
    if patient.mask_ndim == 2:
        mask[1], empty[:, 1] = False, True
        return mask, empty, "query 1 of every sample"
    masks = mask.expand(2, T, T).clone()
    masks[0, 1], empty[0, 1] = False, True
    return masks, empty, "query 1 of sample 0"


def _nobody_asks(patient: Patient) -> bool:
    """Whether an empty row means an empty sample, which nobody hands over: by lengths, or masks over the keys."""
    return rows_alike(patient) or patient.attend.mask == "lengths"


def _not_finite(
    x: Tensor, mask: Tensor, out: Tensor, empty: Tensor, where: str, patient: Patient, report: Report
) -> None:
    broken = ~out.isfinite().all(-1)  # (2, T)
    seen = f"{where} may see no key: {int(broken.sum())} of {broken.numel()} outputs are NaN or infinite"
    if patient.attend.mask == "additive":  # the -inf is the caller's
        report.remark(
            "empty-row-inf",
            f"{seen}, where the mask that is added holds -inf; torch.finfo(dtype).min in its place, as in "
            "transformers, gives an average.",
        )
    elif _nobody_asks(patient):
        report.remark("empty-row-nan", f"{seen}.")
    elif (broken & ~empty).any():
        report.find("nan-on-empty-row", f"{seen}, {int((broken & ~empty).sum())} of them of queries that see keys.")
    elif bad := _bad_gradient(x, mask, ~empty, patient):
        told = f"{seen}; and in the gradient of a loss over all the other outputs {bad} not."
        if patient.attend.said:
            report.find("nan-on-empty-row", told)
        else:  # nobody promised that a row may be empty
            report.remark("empty-row-nan", f"{told} Such a row must never come, or training breaks.")
    else:
        report.remark("empty-row-nan", f"{seen}; the others, and the gradient of a loss over them, are finite.")


def _bad_gradient(x: Tensor, mask: Tensor, rows: Tensor, patient: Patient) -> str:
    """Say which gradients of a loss over some outputs, `rows` `(B, T)`, are not finite; "" where all are."""
    leaf = x.to(patient.device, patient.dtype).requires_grad_()
    module = patient.module
    named = [] if module is None else [(n, p) for n, p in module.named_parameters() if p.requires_grad]
    try:
        out = patient(leaf, mask, grad=True)
        loss = out[rows.to(out.device)].square().sum()
        grads = torch.autograd.grad(loss, [leaf, *(p for _, p in named)], allow_unused=True)
    except (Crash, RuntimeError):
        return ""
    if grads[0] is not None and not grads[0].isfinite().all():
        return f"{int((~grads[0].isfinite()).sum())} of the {grads[0].numel()} numbers of the input's are"
    for (name, _), grad in zip(named, grads[1:], strict=True):
        if grad is not None and not grad.isfinite().all():
            return f"those of {name} are"
    return ""

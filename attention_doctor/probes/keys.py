"""Is every key used? The last one is forgotten where a slice ends too early, or where it gets another token's key."""

import torch
from torch import Tensor

from attention_doctor.counting import doubled
from attention_doctor.influence import amount, pairs
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, second_length

SCALES = (1.0, 0.1, 0.01)  # of the tokens: small ones make sharp maps flat


def last_key_unseen(moved: Tensor, patient: Patient, setting: Setting) -> str:
    """Say so where the last token alone moves no other output, at two lengths and in flat maps; "" otherwise.

    Args:
        moved: `(T, T)`, which output moved with which token without a mask.
        patient: the layer.
        setting: the sizes.
    """
    T = setting.T
    tried = pairs(T)
    if moved[:, -1][tried[:, -1]].any() or not (moved | ~tried)[:, :-1].all() or patient.attend.causal:
        return ""
    longer = second_length(patient)
    try:
        for length in (T, longer):
            if not (all(_unseen(length, scale, patient) for scale in SCALES) and _crowded(length, patient)):
                return ""
    except Crash:
        return ""
    return (
        f"T={T} and T={longer}: with every token the outputs of all others moved, with the last one none did, however "
        "flat the maps."
    )


def _unseen(T: int, scale: float, patient: Patient) -> bool:
    """Whether the last token moves no other output, whichever it is, and the one before it does."""
    turned = (_moved(T - 1, T, scale, patient, turn).any() for turn in range(3))
    return bool(_moved(T - 2, T, scale, patient).any()) and not any(turned)


def _crowded(T: int, patient: Patient) -> bool:
    """Whether maps are flat enough to judge by: each token but the last moves all other outputs, at one scale."""
    return any(all(bool(_moved(t, T, scale, patient).all()) for t in range(T - 1)) for scale in reversed(SCALES))


def _moved(t: int, T: int, scale: float, patient: Patient, turn: int = 0) -> Tensor:
    """Return which of the other outputs move with token `t`, `(T - 1,)`; all tokens stand so many places later."""
    x = scale * patient.tokens(1, T, 0.5).roll(turn, 1)
    before, changed = patient(x)[0], x.clone()
    changed[0, t] += scale * patient.noise(1, 1, 50)[0, 0]
    others = [i for i in range(T) if i != t]
    return (patient(changed)[0] - before)[others].abs().amax(-1) > patient.rounding(before)


def uses_every_key(patient: Patient, setting: Setting, report: Report) -> None:
    """Exchange two tokens: their outputs change places, and nothing else happens; with the last one as well.

    The one before the last is left alone, since it may be its key that is used twice.
    """
    if setting.sight != "full" or setting.T < 5:
        return
    lengths = (setting.T, second_length(patient))
    off = []
    try:
        for T in lengths:
            last = [_exchanged(0, T - 1, T, scale, patient) for scale in SCALES]
            if not any(last):
                return
            others = [_exchanged(i, j, T, scale, patient) for i, j in ((0, 1), (1, T - 3)) for scale in SCALES]
            if any(others):
                return
            if not _crowded(T, patient):
                return
            off.append(max(filter(None, last), key=float))
    except Crash:
        return
    if _rounded(lengths[0], patient):
        return
    report.find(
        "key-unused",
        f"T={lengths[0]} and T={lengths[1]} without a mask: exchanging two of the first tokens exchanges their outputs "
        f"and does nothing else; with the last token the outputs differ by up to {' and '.join(off)}. Its key is not "
        "its own.",
    )
    raise Stop


def _rounded(T: int, patient: Patient) -> bool:
    """Whether nothing is left of the difference in float64: large scores show by which path a key was computed."""
    exact = doubled(patient)
    try:
        return exact is not None and not any(_exchanged(0, T - 1, T, scale, exact) for scale in SCALES)
    except Crash:  # what insists on float32
        return False


def _exchanged(i: int, j: int, T: int, scale: float, patient: Patient) -> str:
    """Say by how much outputs differ, apart from their order, when two tokens are exchanged; "" where they do not."""
    order = torch.arange(T)
    order[[i, j]] = torch.tensor([j, i])
    x = scale * patient.tokens(1, T, 0.5)
    straight, turned = patient(x)[:, order], patient(x[:, order])
    return amount(turned - straight) if patient.differ(turned, straight) else ""

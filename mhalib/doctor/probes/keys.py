"""Is every key used? The last one is forgotten where a slice ends too early, or where it gets another token's key."""

import torch
from torch import Tensor

from mhalib.doctor.influence import amount, pairs
from mhalib.doctor.patient import Crash, Patient
from mhalib.doctor.report import Report
from mhalib.doctor.setting import Setting, Stop

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
    longer = 2 * (patient.num_heads or 1) + 3
    try:
        if not all(_last_alone_is_unseen(length, scale, patient) for length in (T, longer) for scale in SCALES):
            return ""
    except Crash:
        return ""
    return (
        f"T={T} and T={longer}: with every token the outputs of all others moved, with the last one none did, however "
        "flat the maps."
    )


def _last_alone_is_unseen(T: int, scale: float, patient: Patient) -> bool:
    x = scale * patient.tokens(1, T, 0.5)
    before = patient(x)[0]
    moved = []
    for t in (T - 1, T - 2):
        changed = x.clone()
        changed[0, t] += scale * patient.noise(1, 1, 50)[0, 0]
        others = [i for i in range(T) if i != t]
        moved.append(float((patient(changed)[0] - before)[others].abs().max()) > patient.rounding(before))
    return moved == [False, True]


def uses_every_key(patient: Patient, setting: Setting, report: Report) -> None:
    """Exchange two tokens: their outputs change places, and nothing else happens; with the last one as well.

    The one before the last is left alone, since it may be its key that is used twice.
    """
    if setting.sight != "full" or setting.T < 5:
        return
    lengths = (setting.T, 2 * patient.num_heads + 3)
    off = []
    try:
        for T in lengths:
            last = [_exchanged(0, T - 1, T, scale, patient) for scale in SCALES]
            if not any(last):
                return
            others = [_exchanged(i, j, T, scale, patient) for i, j in ((0, 1), (1, T - 3)) for scale in SCALES]
            if any(others):
                return
            off.append(max(filter(None, last), key=float))
    except Crash:
        return
    report.find(
        "key-unused",
        f"T={lengths[0]} and T={lengths[1]} without a mask: exchanging two of the first tokens exchanges their outputs "
        f"and does nothing else; with the last token the outputs differ by up to {' and '.join(off)}. Its key is not "
        "its own.",
    )
    raise Stop


def _exchanged(i: int, j: int, T: int, scale: float, patient: Patient) -> str:
    """Say by how much outputs differ, apart from their order, when two tokens are exchanged; "" where they do not."""
    order = torch.arange(T)
    order[[i, j]] = torch.tensor([j, i])
    x = scale * patient.tokens(1, T, 0.5)
    straight, turned = patient(x)[:, order], patient(x[:, order])
    return amount(turned - straight) if patient.differ(turned, straight) else ""

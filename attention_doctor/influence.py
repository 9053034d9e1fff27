"""The probe on which the others stand: change one token, see which outputs move, and compare with what is allowed.

What moved is a boolean matrix `(outputs, tokens)`, as in `patterns`. Up to twelve tokens are changed one by one, in
longer sequences only some; pairs that were not tried, and the diagonal, which a residual connection always fills, say
nothing.
"""

import math

import torch
from torch import Tensor

from attention_doctor import patterns
from attention_doctor.patient import Patient
from attention_doctor.setting import Setting

MOST_CHANGED = 12  # up to so many tokens are changed one by one,
FEW_CHANGED = 4  # in longer sequences only about so many of them


def influence(
    patient: Patient,
    setting: Setting,
    mask: Tensor | None = None,
    *,
    batch: int = 2,
    T: int | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Change the tokens of sample 0 one at a time.

    Tried with nearly equal tokens and with different ones, because either may hide what the other shows.

    Args:
        patient: the layer.
        setting: one sample is enough where samples are known to mix.
        mask: boolean `(T, T)`, or None.
        batch: how many samples are in the batch.
        T: another number of tokens than the setting's.
        scale: of the tokens; small ones make sharp maps flat.

    Returns:
        which output moved with which token, boolean `(T, T)`; and which outputs are NaN or infinite, boolean `(T,)`.
    """
    T = T or setting.T
    batch = 1 if setting.batch == 1 else batch
    moved, broken = torch.zeros(T, T, dtype=torch.bool), torch.zeros(T, dtype=torch.bool)
    for spread in (0.05, 0.5):
        x = scale * patient.tokens(batch, T, spread)
        before = patient(x, mask)[0]
        broken |= ~before.isfinite().all(-1)
        for t in changed_tokens(T):
            changed = x.clone()
            changed[0, t] += scale * spread * patient.noise(1, T, 11 + t)[0, t]
            difference = (patient(changed, mask)[0] - before).abs().amax(-1)  # (T,)
            moved[:, t] |= ~(difference <= patient.rounding(before))  # written so that NaN has moved
    return moved, broken


def changed_tokens(T: int) -> list[int]:
    """Return which of T tokens are changed one by one."""
    return list(range(T)) if T <= MOST_CHANGED else sorted({*range(0, T, -(-T // FEW_CHANGED)), 1, T - 1})


def pairs(T: int) -> Tensor:
    """Return the pairs of an output and a token that say something, boolean `(T, T)`."""
    tried = torch.zeros(T, T, dtype=torch.bool)
    tried[:, changed_tokens(T)] = True
    return tried.fill_diagonal_(False)


def agree(moved: Tensor, expected: Tensor, unknown: Tensor | None = None) -> bool:
    """Whether what moved is what was expected, in all pairs that were tried; `unknown` rows `(T,)` are left out."""
    return patterns.fits(moved, torch.where(pairs(len(moved)), expected, moved), unknown)


def leaks(moved: Tensor, allowed: Tensor) -> bool:
    """Whether an output moved with a token that is hidden from it."""
    return bool((moved & ~allowed & pairs(len(moved))).any())


def describe(moved: Tensor, allowed: Tensor, where: str, patient: Patient) -> str:
    """Say how many outputs moved against the mask and how many did not move although they may, and show one."""
    T = len(moved)
    leak, blind = moved & ~allowed & pairs(T), ~moved & allowed & pairs(T)
    text = f"{where}, T={T}, {patient.num_heads} heads: "
    text += f"{int(leak.sum())} outputs moved with a token that is hidden from them"
    if leak.any():
        t, j = leak.nonzero()[0].tolist()
        text += f" (output {t} with token {j})"
    text += f", {int(blind.sum())} stood still although they may see it"
    if blind.any():
        t, j = blind.nonzero()[0].tolist()
        text += f" (output {t}, token {j})"
    return text + "."


def amount(difference: Tensor) -> str:
    """Say how large a difference is at its largest."""
    largest = difference.abs().max().item()
    return "NaN" if math.isnan(largest) else "infinity" if math.isinf(largest) else f"{largest:.2g}"


def mixes_nothing(moved: Tensor, patient: Patient) -> bool:
    """Whether no token sees another, nor a large change of it: in sharp maps small ones do not show."""
    T = len(moved)
    if (moved & pairs(T)).any():
        return False
    x = patient.tokens(1, T, 0.5)
    before = patient(x)
    for seed, t, factor in ((s, t, f) for s in range(3) for t in (0, T - 1) for f in (-30, -3, 3, 30)):
        changed = x.clone()
        changed[0, t] += factor * patient.noise(1, 1, 20 + seed)[0, 0]
        others = [i for i in range(T) if i != t]
        after = patient(changed)[0, others]
        # In half precision rounding is coarser than what a token may move; what did not move is exact.
        coarse = patient.dtype.itemsize < 4 and not torch.equal(after, before[0, others])
        if coarse or patient.differ(after, before[0, others]):
            return False
    return True

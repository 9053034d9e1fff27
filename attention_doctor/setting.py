"""Where an examination stands: at which sizes a layer is probed, and what the earlier probes have found out.

A setting never changes. A probe that learns something for those after it returns a changed copy. No layer is called
here.
"""

from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor

from attention_doctor.patient import Patient


class Stop(Exception):
    """Nothing more can be learnt from this layer."""


@dataclass(frozen=True)
class Setting:
    """The sizes at which a layer is probed, and what is known of it so far.

    Args:
        batch: samples; 1 once samples are known to mix, because one sample cannot be mixed with another.
        T: tokens.
        base: boolean `(T, T)`, what the layer lets each token see without a mask; None as long as nobody knows.
        sight: what that is, as far as it was seen: "full", "causal", "window", or "" where it was not clear.
        places: a sentence on how the layer tells equal tokens at different places apart; "" where it does not.
        heads_stated: whether somebody said how many heads there are.
        first: what the very first call was given and gave, None before it.
    """

    batch: int
    T: int
    base: Tensor | None = None
    sight: str = ""
    places: str = ""
    heads_stated: bool = True
    first: tuple[Tensor, Tensor] | None = None


def usual_setting(patient: Patient) -> Setting:
    """Return sizes of which no two agree, because a mistake may hide where they do."""
    h, head_dim = patient.num_heads or 4, patient.head_dim  # 4 until they are counted
    T = next(T for T in range(max(5, h + 1), 10**6) if gcd(T, h) == 1 and head_dim != T)
    if patient.attend.lengths:
        T = max(patient.attend.lengths)
    return Setting(batch=2 if h == 3 else 3, T=T)


def second_length(patient: Patient) -> int:
    """Return another number of tokens, at which patterns that look alike at the usual one do not."""
    return 2 * max(patient.num_heads or 1, 2) + 3  # of one head 7, since 5 are the usual ones


def mask_of(kind: str, patient: Patient, setting: Setting) -> Tensor:
    """Return a boolean `(T, T)` mask that leaves each query a key, in a form that this layer understands.

    Args:
        kind: "identity", "single key", "causal", "length", "keys" or "random".
        patient: a layer whose masks are the same for all queries gets "length" where "causal" is asked for.
        setting: a single key is one that query 0 may see.
    """
    T = setting.T
    own = torch.eye(T, dtype=torch.bool)
    if kind == "causal" and rows_alike(patient):
        kind = "length"
    if kind == "identity":
        return own
    if kind == "causal":
        return torch.ones(T, T, dtype=torch.bool).tril()
    if kind == "single key":
        seen = setting.base is None or bool(setting.base[0, 1])
        anywhere = patient.takes_any_mask or patient.attend.masks == "keys"
        return (torch.arange(T) == (1 if anywhere and seen else 0)).expand(T, T)
    if kind == "length":
        return (torch.arange(T) < max(2, T - 2)).expand(T, T)
    if kind == "keys":  # hidden ones before and between those that are seen
        return (torch.arange(T) % 3 != 1).expand(T, T)
    generator = torch.Generator().manual_seed(5)
    mask = (torch.rand(T, T, generator=generator) < 0.4) | own
    mask[torch.arange(T), (torch.arange(T) + 1) % T] = False  # its complement has no empty row either
    return mask


def kinds_of_masks(patient: Patient) -> tuple[str, ...]:
    """Return the kinds of masks that this layer can be given, as in `mask_of`."""
    usual = ("identity", "single key", "causal", "length", "random")
    return {
        "prefix": ("single key", "causal", "length"),
        "lengths": ("single key", "length"),
        "keys": ("single key", "length", "keys"),
    }.get(patient.attend.masks, usual)


def rows_alike(patient: Patient) -> bool:
    """Whether its masks hide the same keys from all queries of a sample: lengths, or masks over the keys alone."""
    return patient.attend.masks in ("lengths", "keys")


def padding(mask: Tensor) -> Tensor:
    """Return the tokens that a mask `(…, T, T)` hides from every query, boolean `(…, T)`: padding, in most uses."""
    return ~mask.any(-2)

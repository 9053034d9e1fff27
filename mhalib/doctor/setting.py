"""Where an examination stands: at which sizes a layer is probed, and what the earlier probes have found out.

A setting never changes. A probe that learns something for those after it returns a changed copy. No layer is called
here.
"""

from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor

from mhalib.doctor.patient import Patient


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
    """

    batch: int
    T: int
    base: Tensor | None = None
    sight: str = ""
    places: str = ""


def usual_setting(patient: Patient) -> Setting:
    """Return sizes of which no two agree, because a mistake may hide where they do."""
    h, head_dim = patient.num_heads, patient.head_dim
    T = next(T for T in range(max(5, h + 1), 10**6) if gcd(T, h) == 1 and head_dim != T)
    return Setting(batch=2 if h == 3 else 3, T=T)


def mask_of(kind: str, patient: Patient, setting: Setting) -> Tensor:
    """Return a boolean `(T, T)` mask that leaves each query a key, in a form that this layer understands.

    Args:
        kind: "identity", "single key", "causal", "length" or "random".
        patient: a layer that takes one length for each sample gets "length" where "causal" is asked for.
        setting: a single key is one that query 0 may see.
    """
    T = setting.T
    own = torch.eye(T, dtype=torch.bool)
    if kind == "causal" and patient.attend.masks == "lengths":
        kind = "length"
    if kind == "identity":
        return own
    if kind == "causal":
        return torch.ones(T, T, dtype=torch.bool).tril()
    if kind == "single key":
        seen = setting.base is None or bool(setting.base[0, 1])
        return (torch.arange(T) == (1 if patient.takes_any_mask and seen else 0)).expand(T, T)
    if kind == "length":
        return (torch.arange(T) < max(2, T - 2)).expand(T, T)
    generator = torch.Generator().manual_seed(5)
    mask = (torch.rand(T, T, generator=generator) < 0.4) | own
    mask[torch.arange(T), (torch.arange(T) + 1) % T] = False  # its complement has no empty row either
    return mask

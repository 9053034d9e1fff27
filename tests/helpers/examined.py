"""The doctor's corpus, and what the doctor says of each layer: examined once a session, read by all who need it."""

import functools

import torch
from torch import nn

from attention_doctor import Report, examine
from tests.helpers import layers_calls, layers_sick_places
from tests.helpers.layers_sick import Disease

HEALTHY = {**layers_calls.HEALTHY, **layers_sick_places.HEALTHY}
SICK = {**layers_calls.SICK}
# Wrong distances: with sharp maps they may not show.
PLACES = {name: Disease(code, kind) for name, (code, kind) in layers_sick_places.SICK.items()}
# One cause, two symptoms, both right: the mask has no head axis, which raises or hands over another sample's mask.
ALSO = {"NoHeadAxisInMask": {"mask-order"}}
# (d_model, num_heads, factor on all parameters: trained maps are sharper than fresh ones)
USUAL = (32, 4, 1)
CASES = [USUAL, (15, 3, 5), (16, 1, 1), (20, 5, 5), (16, 4, 1), (32, 4, 5)]


def made(make, d_model, num_heads, factor, seed=0):
    torch.manual_seed(seed)
    attend = make(d_model, num_heads)
    module = attend if isinstance(attend, nn.Module) else getattr(attend, "module", None)
    if module is not None:
        for parameter in module.parameters():
            parameter.data *= factor
    return attend


@functools.cache
def of_healthy(name: str, case: tuple = USUAL, seed: int = 0) -> Report:
    return examine(made(HEALTHY[name], *case, seed), *case[:2])


@functools.cache
def of_sick(name: str, case: tuple = USUAL, seed: int = 0) -> Report:
    disease = {**SICK, **PLACES}[name]
    layer = made(disease.make, *case, seed)
    return examine(layer, *case[:2])


def false_alarms(names, cases=(USUAL,), seeds=(0,)) -> list[str]:
    """Return a line for each examination of a healthy layer that found anything."""
    return [
        f"{name}, {case}, seed {seed}: {of_healthy(name, case, seed).codes}"
        for name in names
        for case in cases
        for seed in seeds
        if not of_healthy(name, case, seed).ok
    ]


def misnamed(names, cases=(USUAL,), seeds=(0,)) -> list[str]:
    """Return a line for each examination of a sick layer that did not name its disease, or named another as well."""
    wrong = []
    for name in names:
        disease = {**SICK, **PLACES}[name]
        for case in cases:
            wanted = disease.code if case[1] > 1 or disease.with_one_head is None else disease.with_one_head
            if not wanted or (case[2] > 1 and name in PLACES):
                continue
            for seed in seeds:
                codes = set(of_sick(name, case, seed).codes)
                if wanted not in codes or codes - {wanted} - ALSO.get(name, set()):
                    wrong.append(f"{name}, {case}, seed {seed}: {wanted} wanted, got {sorted(codes)}")
    return wrong

"""Parameters that no gradient reaches; of which a part is silent, `silent.py` tells."""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attention_doctor.inside.find import named_roles
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from mhalib.masks import causal_mask

GIVEN = {"query", "key", "value", "q", "k", "v", "queries", "keys", "values"}  # handed over by every adapter
FOR_ANOTHER_INPUT = re.compile(r"context|memory|encoder|cross|kv|source|cond|ctx|state")
SWITCHES = ("mask", "need_", "output_", "return_", "use_", "is_", "average_", "train", "dropout", "verbose", "len")


def dead_parameters(patient: Patient, report: Report) -> None:
    """Report the parameters that no gradient reaches.

    A gradient of zero is no proof (a gate that starts at 0, the bias of the keys); no gradient at all is.
    """
    module = patient.module
    if module is None:
        report.skip("dead parameters", "no module is known; hand it over with module=")
        return
    with _those_that_run(module) as ran:
        try:
            reached = _reached(patient)
        except (Crash, RuntimeError) as error:
            report.skip("dead parameters", f"no gradient could be taken: {str(error).splitlines()[0]}")
            return
        owners = _owners(module)
        named = {n: p for n, p in module.named_parameters() if p.requires_grad}
        if _is_another_method(patient):  # what else the owner can do is nobody's business
            beside = _beside_projections(patient, owners, ran)
            named = {n: p for n, p in named.items() if n in reached or owners[n] in ran or n in beside}
        if not named:
            report.skip("dead parameters", "the module has no parameters that can be trained")
            return
        dead = {n: p for n, p in named.items() if n not in reached}
        idle = {n for n in dead if owners[n] not in ran and owners[n] is not module}
    if idle and (why := _other_use(patient, idle)):
        report.skip("dead parameters", f"{listed(sorted(idle))} {'has' if len(idle) == 1 else 'have'} no part {why}")
        dead = {n: p for n, p in dead.items() if n not in idle}
    if dead:
        size = sum(p.numel() for p in dead.values())
        report.find(
            "dead-parameters",
            f"no gradient reaches {len(dead)} of {len(named)} parameters: {listed(list(dead))} ({size} numbers).",
        )


def listed(names: list[str]) -> str:
    """Return at most four of some names, in a line."""
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def _reached(patient: Patient) -> set[str]:
    """Return the names of the parameters that a gradient reaches, with or without a mask."""
    named = [(n, p) for n, p in patient.module.named_parameters() if p.requires_grad]
    T = max(patient.attend.lengths, default=6)
    reached: set[str] = set()
    masks = [None] if patient.attend.masks == "none" else [None, causal_mask(T)]
    for mask in masks if named else []:
        if mask is not None and patient.attend.masks in ("lengths", "keys"):
            mask = (torch.arange(T) < T - 2).expand(T, T)
        x = patient.tokens(2, T, 0.5).to(patient.device, patient.dtype).requires_grad_()
        loss = patient(x, mask, grad=True).square().sum()
        grads = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
        reached |= {name for (name, _), grad in zip(named, grads, strict=True) if grad is not None}
        if len(reached) == len(named):
            break
    return reached


def _beside_projections(patient: Patient, owners: dict[str, nn.Module], ran: set[nn.Module]) -> set[str]:
    """Return the projections of q, k or v that stay idle while the two others of the same place are used."""
    roles = named_roles(patient.module, patient.d_model, patient.num_heads, patient.head_dim)
    places: dict[str, list[str]] = {}
    for name, role in roles.items():
        if role in ("q", "k", "v"):
            places.setdefault(name.rpartition(".")[0].rpartition(".")[0], []).append(name)
    alone = [names for names in places.values() if sorted(roles[name] for name in names) == ["k", "q", "v"]]
    idle = [[name for name in names if owners[name] not in ran] for names in alone]
    return {names[0] for names in idle if len(names) == 1}


def _owners(module: nn.Module) -> dict[str, nn.Module]:
    """Return the module that each parameter stands in."""
    return {name: module.get_submodule(name.rpartition(".")[0]) for name, _ in module.named_parameters()}


@contextmanager
def _those_that_run(module: nn.Module) -> Iterator[set[nn.Module]]:
    """Collect the modules inside that are called."""
    ran: set[nn.Module] = set()
    hooks = []
    for part in module.modules():
        if part is not module and not isinstance(part, torch.jit.ScriptModule):
            hooks.append(part.register_forward_pre_hook(lambda m, _: ran.add(m)))
    try:
        yield ran
    finally:
        for hook in hooks:
            hook.remove()


def _is_another_method(patient: Patient) -> bool:
    """Whether a method of the module is examined that is not its forward."""
    target = patient.attend.target
    name = getattr(target, "__name__", "")
    owner = getattr(target, "__self__", None)
    if owner is not None and not isinstance(owner, nn.Module):
        return True  # an object that holds modules
    if owner is not patient.module or name in ("forward", "__call__"):
        return False
    return getattr(target, "__func__", None) is not type(patient.module).forward  # forward = attend


def _other_use(patient: Patient, idle: set[str]) -> str:
    """Say what else modules that were never called may be for: training, or another argument; "" for nothing."""
    module = patient.module
    modes = {part: part.training for part in module.modules()}
    try:
        module.train()
        if idle <= _reached(patient):
            return "outside of training"
    except (Crash, RuntimeError):
        pass
    finally:
        for part, mode in modes.items():
            part.training = mode
    if idle & _beside_projections(
        patient, _owners(module), {m for m in module.modules() if m not in _idle(idle, module)}
    ):
        return ""
    if all(_second_of(name, module) for name in idle):
        return "in layer(x), beside others of the same name; are they for another case, such as global tokens?"
    target = patient.attend.target
    try:
        places = inspect.signature(target.forward if isinstance(target, nn.Module) else target).parameters.values()
    except (TypeError, ValueError):
        return ""
    first = next(iter(places), None)
    others = [
        p.name
        for p in places
        if p is not first
        and (p.default is None or isinstance(p.default, Tensor))
        and not any(word in p.name for word in SWITCHES)
        and len(p.name) > 1
        and not (patient.attend.convention != "plain" and p.name in GIVEN)
        and p.name != patient.attend.mask_name
    ]
    roles = named_roles(module, patient.d_model, patient.num_heads, patient.head_dim)
    if any(name in roles for name in idle):  # a projection that every call needs, unless it is of another input
        others = [name for name in others if FOR_ANOTHER_INPUT.search(name)]
    if not others:
        return ""
    return f"in layer(x), and were not examined; are they for {listed(others)}?"


def _idle(names: set[str], module: nn.Module) -> set[nn.Module]:
    return {owner for name, owner in _owners(module).items() if name in names}


def _second_of(name: str, module: nn.Module) -> bool:
    """Whether a parameter has the name of another one and a word more, as query_global.weight beside query.weight."""
    path, _, own = name.rpartition(".")
    words = path.split("_")
    shorter = {"_".join(words[:i] + words[i + 1 :]) for i in range(len(words))} if len(words) > 1 else set()
    return bool({f"{one}.{own}" for one in shorter} & {n for n, _ in module.named_parameters()})

"""The order of an examination: may it be examined at all, what are its steps, what do masks do, what is kept."""

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import nn

from attention_doctor import masks
from attention_doctor.calls.names import signature_of
from attention_doctor.exam import Exam
from attention_doctor.laws import LAWS, heads_seen
from attention_doctor.patient import Crash, Patient, WrongLength, amount
from attention_doctor.probes import basics, cache, empty, inputs, memory, places
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, usual_setting
from mhalib.masks import causal_mask

FOR_ANOTHER_INPUT = re.compile(r"context|memory|encoder|cross|kv|source|cond|ctx|state|global|add")
OTHER_KINDS = re.compile(r"linear.?att|retention|(relu|sigmoid|cosine).?att|kernel|non.?local|performer|retnet")
MIXED = {"mixes-tokens", "mixes-samples", "no-mixing", "mixes-tokens-on-merge", "softmax-axis"}


def examine_patient(patient: Patient, report: Report) -> Setting:
    """Look at everything that can be seen of a layer; return where the examination stood in the end."""
    setting = usual_setting(patient)
    try:
        setting = basics.runs(patient, setting, report)
        basics.repeats_itself(patient, setting, report)
        if patient.written:
            raise Stop
        if not patient.attend.lengths:
            try:
                patient(patient.tokens(1, 2 * setting.T, 0.5))
            except Crash as crash:
                report.skip(f"more than {setting.T} tokens", f"the layer raised ({crash}); has it a longest T?")
        setting = _steps_and_masks(patient, setting, report)
        memory.forgets_masks(patient, setting, report)
        if not report.ok:
            raise Stop
        for probe in (empty.survives_an_empty_row, inputs.takes_each_input, inputs.leaves_tokens_alone):
            with suppress(WrongLength):
                probe(patient, setting, report)
        with suppress(WrongLength):
            cache.caches_as_the_full_pass(patient, setting, report)
            places.keeps_distances(patient, setting, report)
        if setting.places and report.ok:
            report.remark("positions", setting.places)
        dead_parameters(patient, setting.T, report)
    except Stop:
        pass
    except Crash as crash:  # at the sizes and masks at which it ran before
        report.find(crash.code, f"{patient.last}: {crash}.")
    with suppress(Stop, Crash):
        memory.forgets_everything(patient, setting, report)
    if patient.written:
        what = "; ".join(f"{name}: {how}" for name, how in patient.written.items())
        report.find("mutates-input", f"after a call, {what}.")
    return setting


def examine_mask_forms(patient: Patient, setting: Setting, report: Report) -> None:
    """Examine another mask of a layer of which the rest is known."""
    own = Report(report.subject)
    try:
        masks.examine_masks(Exam(patient, setting.batch, setting.T), None, own)
    except Crash as crash:
        own.find(crash.code, f"{patient.last}: {crash}.")
    if patient.written:
        own.find("mutates-input", "; ".join(f"{name}: {how}" for name, how in patient.written.items()) + ".")
    for finding in own.findings:
        report.find(finding.code, f"{patient.attend.mask_name}: {finding.evidence}")
    for remark in own.remarks:
        report.remark(remark.code, f"{patient.attend.mask_name}: {remark.text}")


def _steps_and_masks(patient: Patient, setting: Setting, report: Report) -> Setting:
    exam = Exam(patient, setting.batch, setting.T)
    look_inside(exam, report)
    memory.forgets_tokens(patient, setting, report)
    if not MIXED & set(report.codes):
        basics.separates_samples(patient, setting, report)
    if MIXED & set(report.codes):
        raise Stop
    base = masks.examine_sight(exam, report)
    setting = known(setting, base, patient)
    if not report.ok:
        raise Stop
    masks.examine_masks(exam, base, report)
    h = patient.num_heads or 0
    for name, batch, T in (("batch", h, setting.T), ("tokens", setting.batch, h)) if 2 < h <= 16 else ():
        if not report.ok or not patient.takes(T):
            break
        x = patient.tokens(batch, T, 0.5)
        if moved := basics.others_moved(x, patient(x), patient):
            report.find("mixes-samples", f"{name} = num_heads = {h}: changing sample 0 moved the others by {moved}.")
        elif patient.takes_masks and patient.mask_ndim == 3:
            masks.examine_masks(Exam(patient, batch, T), None, report)
    return setting


def look_inside(exam: Exam, report: Report) -> None:
    """Hold each law on each step that was seen."""
    seen = exam.first
    if not seen.steps:
        if seen.shares and not OTHER_KINDS.search(exam.patient.said):
            what = "scores meet the values as they are: nothing makes shares of 1 of them"
            report.find("no-softmax", f"{what}; a query's sum to {sums_of(seen.shares[0][0])}.")
        elif seen.linear:
            report.skip("its steps", "keys meet values before queries: linear attention, of which no maps are made")
        else:
            report.skip("its steps", "no product of queries and keys, softmax and product with values was seen")
        return
    for law in LAWS:
        had = len(report.findings)
        for j in range(len(seen.steps)):
            try:
                for kind, code, text in law.check(exam, j):
                    {"find": report.find, "remark": report.remark, "skip": report.skip}[kind](code, text)
            except Crash as crash:
                report.skip(f"the law of the {law.name}", str(crash))
        if len(report.findings) > had:
            return
    if deepest := max(exam.depth(step) for step in seen.steps):
        report.remark("several-layers", f"{deepest + 1} steps of attention, one after the other, were seen.")
    heads_seen(exam, report)


def sums_of(scores: torch.Tensor) -> str:
    """Return between which numbers rows sum."""
    sums = scores.sum(-1)
    return f"{float(sums.min()):.2f} to {float(sums.max()):.2f}"


def known(setting: Setting, base: masks.Sight | None, patient: Patient) -> Setting:
    """Return the setting with what is seen without a mask, and how places are told apart."""
    if base is None:
        return Setting(setting.batch, setting.T, first=setting.first)
    sees = base.sees[0]
    full = torch.ones_like(sees)
    sight = "full" if sees.all() else "causal" if sees.equal(full.tril()) else "window" if sees.diagonal().all() else ""
    told = ""
    x = patient.tokens(1, setting.T, 0.5)
    with suppress(Crash):
        order = torch.cat([torch.arange(setting.T - 1).flip(0), torch.tensor([setting.T - 1])])
        one, two = patient(x)[:, -1], patient(x[:, order])[:, -1]
        if patient.differ(one, two):
            told = f"another order of the other tokens moves the last output by up to {amount(two - one)}."
    return Setting(setting.batch, setting.T, sees, sight, told, patient.num_heads is not None, setting.first)


# ------------------------------------------------------------------------------------------------- parameters


def dead_parameters(patient: Patient, T: int, report: Report) -> None:
    """Find the parameters that no gradient reaches, in evaluation and in training, with masks and without.

    A gradient of zero is no proof (a gate that starts at 0, the bias of the keys); no gradient at all is.
    """
    module = patient.module
    if module is None:
        return report.skip("dead parameters", "no module is known; hand it over with module=")
    named = {n: p for n, p in module.named_parameters() if p.requires_grad}
    ran: set[nn.Module] = set()
    hooks = [part.register_forward_pre_hook(lambda m, _: ran.add(m)) for part in module.modules() if part is not module]
    try:
        found = reached(patient, named, T)
        if _is_another_method(patient):  # what else the owner can do is nobody's business
            named = {n: p for n, p in named.items() if n in found or module.get_submodule(n.rpartition(".")[0]) in ran}
        dead = set(named) - found
        owners = {n: module.get_submodule(n.rpartition(".")[0]) for n in named}
        idle = {n for n in dead if owners[n] is not module and owners[n] not in ran}
        if idle and _may_be_for_another_call(patient, idle, dead, T):
            report.skip("dead parameters", f"{listed(sorted(idle))}: they may be for another call, or for training")
            dead -= idle
    except (Crash, RuntimeError) as error:
        return report.skip("dead parameters", f"no gradient could be taken: {str(error).splitlines()[0]}")
    finally:
        for hook in hooks:
            hook.remove()
    for name, part, of in unused_parts(patient, named, T) if not dead and Exam(patient, 1, T).flat else ():
        report.find("dead-parameters", f"no gradient reaches part {part} of {of} of the rows of {name}.")
    if dead:
        size = sum(named[n].numel() for n in dead)
        report.find(
            "dead-parameters",
            f"no gradient reaches {len(dead)} of {len(named)} parameters: {listed(sorted(dead))} ({size} numbers).",
        )
    return None


def unused_parts(patient: Patient, named: dict[str, nn.Parameter], T: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, number and count of the halves and thirds of a fused projection that no gradient reaches."""
    if any(not part.any() for p in named.values() if p.ndim == 2 for of in (2, 3) for part in p.chunk(of)):
        return  # what starts at 0 silences others
    sizes: dict[str, torch.Tensor] = {}
    for spread in (1.0, 0.1, 0.01):  # sharp maps hide what flat ones show
        x = patient.tokens(3, T, spread).to(patient.device, patient.dtype).requires_grad_()
        grads = torch.autograd.grad(patient(x, None, grad=True).square().sum(), list(named.values()), allow_unused=True)
        for name, grad in zip(named, grads, strict=True):
            if grad is not None:
                sizes[name] = sizes.get(name, 0) + grad.abs()
    for name, grad in sizes.items():
        owner = patient.module.get_submodule(name.rpartition(".")[0])
        if not isinstance(owner, nn.Linear) and "in_proj" not in name:  # rows of a table wait for their places
            continue
        for of in (2, 3) if grad.ndim == 2 and len(grad) >= 6 else ():
            idle = [not bool(part.any()) for part in grad.chunk(of)] if len(grad) % of == 0 else []
            if any(idle) and not all(idle):
                yield name, idle.index(True) + 1, of


def listed(names: list[str]) -> str:
    """Return at most four of some names, in a line."""
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def reached(patient: Patient, named: dict[str, nn.Parameter], T: int) -> set[str]:
    """Return the names of the parameters that a gradient reaches."""
    found: set[str] = set()
    allowed = [None] if patient.attend.masks == "none" else [None, causal_mask(T)]
    for mask in allowed:
        if mask is not None and patient.attend.masks in ("lengths", "keys", "prefix"):
            mask = (torch.arange(T) < T - 2).expand(T, T)
        x = patient.tokens(2, T, 0.5).to(patient.device, patient.dtype).requires_grad_()
        loss = patient(x, mask, grad=True).square().sum()
        grads = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        found |= {name for name, grad in zip(named, grads, strict=True) if grad is not None}
    return found


def _is_another_method(patient: Patient) -> bool:
    target = patient.attend.target
    owner = getattr(target, "__self__", None)
    return owner is not None and getattr(target, "__name__", "") not in ("forward", "__call__")


def _may_be_for_another_call(patient: Patient, idle: set[str], dead: set[str], T: int) -> bool:
    """Whether modules that were never called belong to an argument that was left out, or to training."""
    module, target = patient.module, patient.attend.target
    signature = signature_of(target)
    options = [p.name for p in signature.parameters.values() if p.default is None] if signature else []
    options = [o for o in options if o != patient.attend.mask_name and "mask" not in o and not o.startswith("use_")]
    if options and all(FOR_ANOTHER_INPUT.search(n) for n in idle):
        return True
    switched = any(re.search(rf"if\b[^\n]*\n[^\n]*\b{re.escape(n.split('.')[0])}\b", _source(module)) for n in idle)
    if switched:
        return True
    modes = {part: part.training for part in module.modules()}
    try:
        module.train()
        return not idle & (dead - reached(patient, {n: p for n, p in module.named_parameters() if n in idle}, T))
    except (Crash, RuntimeError):
        return False
    finally:
        for part, mode in modes.items():
            part.training = mode


def _source(module: nn.Module) -> str:
    try:
        return inspect.getsource(type(module).forward)
    except (OSError, TypeError):
        return ""

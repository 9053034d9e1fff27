"""The last probe: how many heads there are, and what they read and write, told from answers alone.

How they are counted is said in `counting`. Only layers in which nothing was found are counted, because other mistakes
change the rank as well.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from attention_doctor.counting import Reader, count
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting, usual_setting

NAMES = ("num_heads", "n_heads", "n_head", "nhead", "num_attention_heads", "heads", "h")  # of attributes that hold it


def says_how_many_heads(patient: Patient, setting: Setting, report: Report) -> Setting | None:
    """Where nobody stated the number of heads: count them, or ask the module; the probes that follow need a number."""
    if patient.num_heads is not None:
        return None
    counted = count(patient, None)[0].counted
    patient.num_heads = counted or _told_by_the_module(patient.module) or 1
    if patient.head_dim is None:
        patient.head_dim = max(1, patient.d_model // patient.num_heads)
    usual = usual_setting(patient)
    known = replace(setting, heads_stated=False)
    try:
        patient(patient.tokens(usual.batch, usual.T, 0.05))
    except Crash:  # a longest T
        return known
    return replace(known, batch=usual.batch, T=usual.T)


def _told_by_the_module(module: nn.Module | None) -> int | None:
    for part in [] if module is None else module.modules():
        for name in NAMES:
            number = getattr(part, name, None)
            if isinstance(number, int) and number > 0:
                return number
    return None


def counts_heads(patient: Patient, setting: Setting, report: Report) -> None:
    """Count the heads and compare them with what was stated; say what they read and write."""
    if not report.ok:
        return
    if any(remark.code == "several-layers" for remark in report.remarks):
        report.skip("number of heads", "it behaves like several layers")
        return
    stated = patient.num_heads if setting.heads_stated else None
    seen, reader, directions = count(patient, stated)
    report.heads = seen
    if reader is None:
        report.skip("number of heads", seen.why)
        return
    if stated not in (None, seen.counted):
        report.find("heads-unused", _another_number(seen.counted, stated, str(seen), patient, setting))
        return
    if seen.counted > 1:
        writes_apart(seen.counted, directions, report)
        reads_by_one_projection(seen.counted, reader, report)


def _another_number(counted: int, stated: int, seen: str, patient: Patient, setting: Setting) -> str:
    text = f"what a second token adds to an output has {counted} direction{'s' * (counted > 1)}: {seen}."
    if counted > stated:
        return f"{text} Each head writes along one."
    idle = idle_rows(patient, setting)
    if idle:
        return f"{text} No gradient reaches {idle}."
    return f"{text} The missing ones are silent, or twins of others: equal scores, or equal values and outputs."


# ------------------------------------------------------------------------------------------------- with the parameters


def idle_rows(patient: Patient, setting: Setting) -> str:
    """Name the heads whose rows, or columns of the output projection, get no gradient; "" where there are none."""
    module, h = patient.module, patient.num_heads
    named = [] if module is None else [(n, p) for n, p in module.named_parameters() if p.ndim == 2 and p.requires_grad]
    x = patient.tokens(2, setting.T, 0.5).to(patient.device, patient.dtype).requires_grad_()
    try:
        loss = patient(x, grad=True).square().sum()
        grads = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
    except (Crash, RuntimeError):
        return ""
    places: dict[int, list[str]] = {}
    for (name, _), grad in zip(named, grads, strict=True):
        if grad is None:
            continue
        for axis, lines in ((0, "rows"), (1, "columns")):
            for head, first, last in _idle_blocks(grad.abs().amax(1 - axis), h):
                places.setdefault(head, []).append(f"{lines} {first}–{last} of {name.removesuffix('.weight')}")
    return "; ".join(f"head {head} ({', '.join(where)})" for head, where in sorted(places.items())[:4])


def _idle_blocks(size: Tensor, num_heads: int) -> list[tuple[int, int, int]]:
    """Return head, first and last line of each block without gradient; several projections may be stacked."""
    for stacked in (1, 3, 2):
        if len(size) % (stacked * num_heads):
            continue
        width = len(size) // (stacked * num_heads)
        idle = [i for i, block in enumerate(size.split(width)) if not block.any()]
        if 0 < len(idle) < stacked * num_heads and (stacked > 1 or width * num_heads == len(size)):
            return [(i % num_heads, i * width, (i + 1) * width - 1) for i in idle]
    return []


# ------------------------------------------------------------------------------------------- what heads read and write


def writes_apart(heads: int, directions: Tensor, report: Report) -> None:
    """Remark that each head writes into features of its own, as without an output projection.

    Args:
        heads: how many there are.
        directions: `(heads, d_out)`, an orthonormal basis of what they write when one token is added.
        report: gets the remark.
    """
    projector = directions.T @ directions  # (d_out, d_out)
    written = projector.diagonal() > 1e-9
    joined = (projector.abs() > 1e-6)[written][:, written]
    groups = joined.float().matrix_exp() > 0
    sizes = groups.sum(-1)
    if len({tuple(row.tolist()) for row in groups}) != heads or len(set(sizes.tolist())) != 1:
        return
    neighbours = bool(groups[0, : sizes[0]].all())
    report.remark(
        "no-output-projection",
        f"each of the {heads} heads writes into {sizes[0]} features of its own "
        f"({'side by side' if neighbours else 'every so many apart'}): no projection mixes what they found.",
    )


def reads_by_one_projection(heads: int, reader: Reader, report: Report) -> None:
    """Remark that all heads read their slice of the features by the same small projection.

    The slice of one head holds all that a token has: then that head alone answers, with the same weight whichever
    slice it is.
    """
    if reader.d_model % heads:
        return
    width = reader.d_model // heads
    weights = []
    query, key = reader.draw(4, width), reader.draw(4, width)
    for head in range(heads):
        c, d = torch.zeros(2, 4, reader.d_model, dtype=torch.float64)
        own = slice(head * width, (head + 1) * width)
        c[:, own], d[:, own] = query, key
        added, full = reader.added(c, c + d), reader.ask(torch.stack([c + d, c])[:, :, None].flatten(0, 1))[:, 0]
        full = full[:4] - full[4:]  # what d alone writes
        weight = (added * full).sum(-1) / full.square().sum(-1)
        off = (added - weight[:, None] * full).abs().max()
        if not off <= 1e-4 * full.abs().max():
            return
        weights.append(weight)
    weights = torch.stack(weights)  # (heads, 4)
    if (weights - weights[0]).abs().max() <= 1e-4 and (weights[0] - weights[0].mean()).abs().max() > 1e-3:
        report.remark(
            "shared-projection",
            f"all {heads} heads read their {width} features by one and the same projection ({width} × {width}).",
        )

"""Rows of projections that no gradient reaches, while the matrix as a whole is used: a head cut off, a part unread."""

import torch
from torch import Tensor

from attention_doctor.inside.dead import listed
from attention_doctor.inside.find import named_roles
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report


def silent_blocks(patient: Patient, names: dict[str, str] | None = None) -> list[str]:
    """Say which rows of the projections of q, k, v (columns of that of o) get a gradient of exactly zero.

    That is how a head shows that is cut off before the output, while the matrix as a whole is reached.

    Args:
        patient: the layer.
        names: the parameters by role, such as `{"v": "v_proj.weight"}`; by default what `find_weights` names.

    Returns:
        a line for each block, such as "rows 16–23 of v_proj.weight: head 2"; none where nothing is silent, where a
        whole matrix is, and where no parameters are known.
    """
    if patient.module is None:
        return []
    roles = named_roles(patient.module, patient.d_model, patient.num_heads, patient.head_dim)
    roles = roles if names is None else {name: role for role, name in names.items()}
    used = _used(patient, list(roles))
    return [line for name in used for line in _silent(name, roles[name], used[name], patient)]


def dead_rows(patient: Patient, report: Report) -> None:
    """Report rows of the projections of q, k and v that nothing depends on, while others of the same matrix count."""
    roles = named_roles(patient.module, patient.d_model, patient.num_heads, patient.head_dim)
    roles = {name: role for name, role in roles.items() if role[-1] in "qkv"}
    unnamed = _of_a_fused_shape(patient) - roles.keys()
    for name, used in _used(patient, [*roles, *unnamed]).items():
        role = roles.get(name, "T" if used.shape[1] > used.shape[0] else "")
        alive = _lanes(used, role)
        # A table of positions may have the shape of a fused projection; of it, some rows of a part are read.
        parts = alive.unflatten(0, (-1, patient.d_model)) if name in unnamed else alive[:, None]
        idle = int((~alive).sum())
        if not alive.any() or idle < 2 or not torch.equal(parts.any(1), parts.all(1)):
            continue
        report.find(
            "dead-parameters",
            f"no gradient reaches {listed(_silent(name, role, used, patient))}, {idle} of {len(alive)}: what they make "
            "is never used.",
        )
        return


def _of_a_fused_shape(patient: Patient) -> set[str]:
    """Return the parameters that may be two or three projections in one matrix, by their shapes."""
    d = patient.d_model
    return {n for n, p in patient.module.named_parameters() if sorted(p.shape) in ([d, 2 * d], [d, 3 * d])}


def _lanes(used: Tensor, role: str) -> Tensor:
    """Return which rows (columns of an output projection) are used; a T says that it is stored `(in, out)`."""
    return used.any(0 if (role[-1:] == "o") != role.startswith("T") else 1)


def _used(patient: Patient, names: list[str]) -> dict[str, Tensor]:
    """Return which numbers of some matrices get a gradient that is not exactly zero."""
    parameters = {n: p for n, p in patient.module.named_parameters() if n in names and p.ndim == 2 and p.requires_grad}
    if not parameters:
        return {}
    used = {name: torch.zeros_like(p, dtype=torch.bool) for name, p in parameters.items()}
    kept = {name: p.data for name, p in parameters.items()}
    T = max(patient.attend.lengths, default=6)
    generator = torch.Generator().manual_seed(31)
    try:
        # What is used does not depend on the numbers; behind a matrix of zeros, and in sharp maps, all is silent.
        for p in parameters.values():
            noise = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)
            p.data = 0.1 * p.shape[-1] ** -0.5 * noise
        for size in (1.0, 0.1, 0.01):  # sharp maps lose their gradient to rounding, small tokens make them flat
            x = (size * patient.tokens(2, T, 1.0)).to(patient.device, patient.dtype).requires_grad_()
            loss = (patient(x, grad=True).square() * patient.noise(2, T, 3)[..., :1].to(patient.device)).sum()
            grads = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
            for name, grad in zip(parameters, grads, strict=True):
                used[name] |= False if grad is None else grad != 0
    except (Crash, RuntimeError):
        return {}
    finally:
        for name, p in parameters.items():
            p.data = kept[name]
    return {name: alive.cpu() for name, alive in used.items()}


def _silent(name: str, role: str, used: Tensor, patient: Patient) -> list[str]:
    alive = _lanes(used, role)
    if not alive.any():
        return []
    edges = (torch.cat([torch.ones(1), alive.float(), torch.ones(1)]).diff() != 0).nonzero().flatten().tolist()
    what = "columns" if (role[-1:] == "o") != role.startswith("T") else "rows"
    return [
        f"{what} {start}–{end - 1} of {name}{_which_heads(start, end, len(alive), patient)}"
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def _which_heads(start: int, end: int, size: int, patient: Patient) -> str:
    """Name the heads of a block, where it is one of whole heads in a matrix of as many heads as the layer has."""
    head_dim = patient.head_dim
    if start % head_dim or end % head_dim or size != head_dim * patient.num_heads:
        return ""
    first, last = start // head_dim, end // head_dim - 1
    return f": heads {first}–{last}" if last > first else f": head {first}"

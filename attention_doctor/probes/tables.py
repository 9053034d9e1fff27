"""Tables of biases for distances in a window: an entry belongs to the pairs of places whose index names it."""

from torch import Tensor, nn

from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting

TRIED = 6  # entries that are changed, those of few pairs first


def looks_biases_up(patient: Patient, setting: Setting, report: Report) -> None:
    """Change an entry of the table: only outputs of places that its index pairs with others may move."""
    for module in [] if patient.module is None or not report.ok else patient.module.modules():
        found = _table(module, setting.T)
        if found is None:
            continue
        table, index = found
        entries = sorted(set(index.flatten().tolist()), key=lambda entry: int((index == entry).sum()))
        x = patient.noise(1, setting.T, 80)
        for entry in entries[:TRIED]:
            may = (index == entry).any(1)  # (T,), the queries
            if may.all():
                continue
            moved = _moved_by(table, entry, x, patient)
            if moved is not None and (moved & ~may).any():
                t = int((moved & ~may).nonzero()[0])
                report.find(
                    "positions-not-relative",
                    f"entry {entry} of the table of biases belongs to {int((index == entry).sum())} pairs of places, "
                    f"none of them of query {t}; yet it moves output {t}. Is (T * T, heads) brought into the order "
                    "(heads, T, T) by permute, not by view?",
                )
                return


def _table(module: nn.Module, T: int) -> tuple[nn.Parameter, Tensor] | None:
    """Return a table of biases `(entries, heads)` and its index `(T, T)`, where a module has one of each."""
    tables = [p for n, p in module.named_parameters(recurse=False) if "bias_table" in n and p.ndim == 2]
    indices = [b for n, b in module.named_buffers(recurse=False) if "index" in n and not b.is_floating_point()]
    if len(tables) != 1 or len(indices) != 1 or indices[0].numel() != T * T:
        return None
    index = indices[0].detach().cpu().view(T, T)
    return (tables[0], index) if 0 <= int(index.min()) and int(index.max()) < len(tables[0]) else None


def _moved_by(table: nn.Parameter, entry: int, x: Tensor, patient: Patient) -> Tensor | None:
    """Return which outputs move with an entry, `(T,)`; the table is left as it was."""
    kept = table.data
    try:
        before = patient(x)[0]
        table.data = kept.clone()
        table.data[entry] += 1.0
        after = patient(x)[0]
    except Crash:
        return None
    finally:
        table.data = kept
    return (after - before).abs().amax(-1) > patient.rounding(before)

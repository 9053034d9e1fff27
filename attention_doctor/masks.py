"""Which key each query sees, with a mask and without: read off the weights, or off the outputs where they cannot be.

A cell `(sample, query, key)` has the largest and the smallest weight of all maps. A mask is obeyed where hidden cells
have none and open ones some; where not, the pattern that came instead tells the mistake.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attention_doctor.calls.trying import Trials
from attention_doctor.exam import Exam
from attention_doctor.look import Seen
from attention_doctor.patient import Crash, WrongShape, amount
from attention_doctor.report import Report

NOTHING = 1e-9  # a weight below is none


@dataclass
class Sight:
    """Who sees whom, `(B, T, T)` each: the largest and the smallest weight over all maps.

    Args:
        high, low: the weights; of outputs, 1 where an output moved with the token and 0 where not.
        sums: what the weights of a query sum to, from the least to the most; None of outputs.
        inside: whether weights were read.
        same: whether the outputs are those without a mask.
    """

    high: Tensor
    low: Tensor
    sums: tuple[float, float] | None
    inside: bool
    same: bool = False

    @property
    def sees(self) -> Tensor:
        """Whether a query sees a key in any map."""
        return self.high > NOTHING


def inside(exam: Exam, seen: Seen) -> Sight | None:
    """Return who sees whom by the weights; None where tokens cannot be followed."""
    per, shape = exam.B * exam.T, (exam.B, exam.T, exam.T)
    high, low, known = torch.zeros(shape), torch.full(shape, torch.inf), torch.zeros(shape, dtype=torch.bool)
    sums = []
    if len(seen.steps) != len(exam.first.steps):
        return None
    for j, step in enumerate(seen.steps):
        rows, columns = exam.token_of(j, "q"), exam.token_of(j, "v")
        if rows is None or columns is None or step.of_weights.far or not exam.straight(j):
            return None
        if tuple(rows.shape) != tuple(step.used.shape[:2]) or tuple(columns.shape) != step.used.shape[::2]:
            return None
        if exam.depth(step):
            continue
        used = step.used.float()
        n, r, c = torch.meshgrid(*(torch.arange(size) for size in used.shape), indexing="ij")
        q, k = rows[n, r], columns[n, c]
        real = (q >= 0) & (k >= 0)
        b, t, place = q % per // exam.T, q % exam.T, k % exam.T
        cells = b[real], t[real], place[real]
        known[cells] = True
        values = used[real].nan_to_num(0.0)
        at = (cells[0] * exam.T + cells[1]) * exam.T + cells[2]
        high.view(-1).scatter_reduce_(0, at, values, "amax")
        low.view(-1).scatter_reduce_(0, at, values, "amin")
        total = used.sum(-1)
        sums += [float(total[total > 0].min()), float(total.max())] if bool((total > 0).any()) else []
    low = torch.where(known, low, high)
    # A key that stands in no column is one that is not seen, if the query has a row at all.
    if not bool(known.any(-1).all()):
        return None
    return Sight(high, low, (min(sums), max(sums)) if sums else None, True)


def outside(exam: Exam, mask: Tensor | None) -> Sight | None:
    """Return who sees whom by the outputs; None where they tell nothing."""
    if exam.first.other or any(exam.depth(step) for step in exam.first.steps):
        return None  # behind landmarks nobody can say it; in a stack a hidden token is reached by way of a third one
    patient = exam.patient
    trials = Trials(patient.d_model, patient.num_heads, patient.dtype, patient.device)
    found = []
    for b in range(exam.B if mask is not None and mask.ndim == 3 else 1):
        one = mask if mask is None or mask.ndim == 2 else mask[b]
        form = replace(patient.attend, others=())
        moved = trials.seen(form, exam.T, one)
        if moved is None:
            return None
        found.append(moved)
    sees = torch.stack(found).expand(exam.B, -1, -1).float()
    return Sight(sees, sees, None, False)


def sight(exam: Exam, mask: Tensor | None) -> tuple[Sight | None, Seen]:
    """Return who sees whom under a mask.

    Raises:
        Crash: the layer raised.
    """
    seen = exam.look(mask=mask)
    found = inside(exam, seen)
    return (outside(exam, mask) if found is None else found), seen


def masks_for(exam: Exam) -> dict[str, Tensor]:
    """Return masks `(B, T, T)` that the layer understands; each leaves a query its own key, or is one of padding."""
    B, T, patient = exam.B, exam.T, exam.patient
    kinds, own = patient.attend.masks, torch.eye(T, dtype=torch.bool)
    lengths = torch.tensor([max(1, T - (2, 0, 4)[i % 3]) for i in range(B)])
    prefix = (torch.arange(T) < lengths[:, None])[:, None].expand(B, T, T)
    if kinds in ("lengths", "prefix"):
        return {"lengths": prefix}
    if kinds == "keys":
        holes = torch.stack([torch.arange(T) % 3 != 1 + i % 2 for i in range(B)])[:, None].expand(B, T, T)
        return {"padding": prefix, "hidden keys": holes}
    generator = torch.Generator().manual_seed(5)
    drawn = torch.rand(B, T, T, generator=generator) < 0.5
    drawn[:, torch.arange(T), (torch.arange(T) + 1) % T] = False
    drawn |= own
    if kinds == "shared":
        drawn = drawn[:1].expand(B, T, T)
    return {"random": drawn, "causal": torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)}


def examine_sight(exam: Exam, report: Report) -> Sight | None:
    """Say what each query sees without a mask; a causal layer shows no later token."""
    try:
        found, _ = sight(exam, None)
    except Crash as crash:
        report.find(crash.code, f"{exam.patient.last}: {crash}.")
        return None
    if found is None:
        report.skip("which token sees which", "neither weights nor outputs tell")
        return None
    T, sees = exam.T, found.sees[0]
    later, earlier = sees.triu(1), sees.tril(-1)
    diagonal = bool(sees.diagonal().all())
    full = torch.ones(T, T, dtype=torch.bool)
    if exam.patient.attend.causal:
        if bool(later.any()):
            report.find("future-leak", f"without a mask, {cells(later)}.")
    elif bool(later.any()) and not bool(later.equal(full.triu(1))):
        near = full.triu(1) & ~full.triu(2)
        if later.equal(near) and earlier.equal(full.tril(-1)):
            report.find("future-leak", f"each query sees the keys up to the one after its own: {cells(later)}.")
            return found
    if bool(later.any()) and sees[1:].equal(full.tril(-1)[1:]):
        report.find(
            "future-leak", "a query sees the tokens before its own, and not its own; the first sees later ones."
        )
    if not bool(later.any()) and bool(earlier.any()):
        if not diagonal and earlier.equal(full.tril(-1)):
            report.find("key-unused", "a query sees the tokens before its own, and not its own.")
        elif earlier.equal(full.tril(-1)) and not exam.patient.attend.causal:
            report.remark("causal", "no output depends on a later token.")
    if diagonal and not bool(sees.all()) and not earlier.equal(full.tril(-1)) and not bool(later.equal(full.triu(1))):
        report.remark("window", f"without a mask, a query sees {int(sees.sum(-1).max())} of {T} keys at most.")
    if not bool(earlier.any()) and later.equal(full.triu(1)):
        report.find("future-leak", f"each query sees the later tokens and none before its own: {cells(later)}.")
    if T > 2 and bool(sees[:, :-1].all()) and not bool(sees[:-1, -1].any()):
        report.find("key-unused", f"the other {T - 1} queries see every key but the last, number {T - 1}.")
    return found


def examine_masks(exam: Exam, base: Sight | None, report: Report) -> None:
    """Hold that a mask hides what it hides and nothing else, for the right sample, in every map."""
    patient = exam.patient
    if not patient.takes_masks:
        return report.skip("masks", "the layer takes none")
    if patient.attend.masks in ("lengths", "prefix"):
        report.skip("masks other than lengths", "the layer takes none")
    if patient.attend.masks == "shared":
        report.skip("masks that differ from sample to sample", "the layer takes one for all")
    for name, mask in masks_for(exam).items():
        if patient.mask_ndim == 2 and mask.ndim == 3:
            mask = mask[0]
        try:
            found, seen = sight(exam, mask)
        except Crash as crash:
            last = patient.last
            if patient.mask_ndim == 3 and mask.ndim == 3 and _takes_shared(exam, mask[0]):
                if isinstance(crash.__cause__, RuntimeError):  # a refusal in its own words is none
                    report.find("crash", f"{last}: {crash}. One mask (T, T) for all samples is taken.")
                else:
                    report.remark("mask-rank", f"one mask (T, T) for all samples is taken; (B, T, T) raised {crash}.")
                patient.mask_ndim = 2
                return examine_masks(exam, base, report)
            report.find("crash" if isinstance(crash, WrongShape) else crash.code, f"{patient.last}: {crash}.")
            return None
        if found is None:
            report.skip("masks", "neither weights nor outputs tell which key is hidden")
            return None
        free, all_open = sight(exam, torch.ones_like(mask))
        free = free or found
        found.same = not patient.differ(seen.out, all_open.out)
        replaces = patient.attend.mask_always or patient.needs_mask
        if base is not None and not replaces:
            free = base
        if judge(name, mask.expand(exam.B, exam.T, exam.T), free, found, exam, report):
            return None
        if base is not None and not replaces and patient.differ(all_open.out, exam.first.out):
            if sight(exam, torch.ones_like(mask))[0].sees.equal(base.sees):
                off = amount(all_open.out - exam.first.out)
                report.find("open-mask-differs", f"a mask that hides nothing changes the outputs by up to {off}.")
                return None
    return None


def _takes_shared(exam: Exam, mask: Tensor) -> bool:
    ndim, exam.patient.mask_ndim = exam.patient.mask_ndim, 2
    try:
        exam.patient(exam.x[0], mask)
    except Crash:
        return False
    finally:
        exam.patient.mask_ndim = ndim
    return True


def judge(name: str, mask: Tensor, free: Sight, found: Sight, exam: Exam, report: Report) -> bool:
    """Compare what is seen under a mask with what it shows; return whether something was found."""
    base, sees = free.sees, found.sees
    asked = (mask & base).any(-1, keepdim=True)  # a query that may see no key is another matter
    padding = exam.patient.attend.masks in ("keys", "prefix", "lengths")
    if padding:  # what a token gets that is padding itself is nobody's business
        asked = asked & mask[:, :1].transpose(1, 2)
    leak, blind = ~mask & base & sees & asked, mask & base & (found.low <= NOTHING) & asked
    if not exam.flat:
        blind &= False
    if not found.inside:
        own = torch.eye(exam.T, dtype=torch.bool)
        leak &= ~own  # an output moves with its own token in other ways as well
        blind &= False
    if not bool(leak.any()) and not bool(blind.any()):
        sums = found.sums
        free_sums = free.sums or (1.0, 1.0)
        if sums is not None and sums[0] < 0.99 * min(1.0, free_sums[0]) and free_sums[0] > 0.99:
            what = f"mask '{name}': hidden keys have no weight, but those of the others sum to {sums[0]:.2f}, not to 1"
            report.find("mask-leaks", f"{what}: the mask came behind the softmax.")
            return True
        return False
    patterns = {
        "mask-ignored": base,
        "mask-inverted": ~mask & base,
        "mask-transposed": mask.transpose(1, 2) & base,
    }
    own = torch.eye(exam.T, dtype=torch.bool) if not found.inside else torch.zeros(1, 1, dtype=torch.bool)
    told = f"mask '{name}', T={exam.T}: "
    told += f"{cells(leak, found)}" if bool(leak.any()) else f"{cells(blind, None)} although it may"
    for code, pattern in patterns.items():
        if (code == "mask-ignored" and not found.same) or (code == "mask-transposed" and padding):
            continue
        rows = (pattern & ~own).any(-1, keepdim=True) if code != "mask-ignored" else torch.ones_like(asked)
        if code == "mask-inverted" and not bool((rows & asked).any()):
            continue
        if bool((((sees & base) == pattern) | own | ~rows | ~asked).all()):
            report.find(code, f"{told}.")
            return True
    hiding = [i for i in range(exam.B) if not bool(mask[i].all())]

    def seen_as(b: int, i: int) -> bool:
        return torch.equal(sees[b] & asked[b], mask[i] & base[b] & asked[b])

    both = [seen_as(b, b) for b in range(exam.B)]
    if not all(both) and all(own or any(seen_as(b, i) for i in hiding) for b, own in enumerate(both)):
        report.find("mask-order", f"{told}; what sample {both.index(False)} sees is the mask of another.")
        return True
    if found.inside and _of_other_samples(mask, found, exam, leak, blind):
        report.find("mask-order", f"{told}; its maps follow the masks of several samples.")
        return True
    first = mask & ~mask.roll(-1, -1)  # the last key that each query may see
    if name == "lengths" and torch.equal(leak, first.roll(1, -1) & base & asked & ~mask):
        told += "; it is the first behind the last that counts, as `arange <= length` has it"
    report.find("mask-leaks" if bool(leak.any()) else "open-mask-differs", f"{told}.")
    return True


def _of_other_samples(mask: Tensor, found: Sight, exam: Exam, leak: Tensor, blind: Tensor) -> bool:
    """Whether what is seen too much or too little is what other samples' masks show or hide."""
    if bool((mask == mask[:1]).all()):
        return False
    anyone, everyone = mask.any(0), mask.all(0)
    return not bool((leak & ~anyone).any()) and not bool((blind & everyone).any()) and bool(leak.any() and blind.any())


def cells(which: Tensor, found: Sight | None = None) -> str:
    """Return some cells in words, with the largest weight among them."""
    at = which.nonzero().tolist()
    if found is None or not found.inside:
        shown = "; ".join(
            f"query {c[-2]} {'sees' if found is not None or which.ndim == 2 else 'does not see'} key {c[-1]}"
            for c in at[:2]
        )
        return f"{len(at)} cells are wrong ({shown})" if len(at) > 1 else shown
    heaviest = max(at, key=lambda c: float(found.high[tuple(c)]))
    weight = float(found.high[tuple(heaviest)])
    where = f"query {heaviest[-2]} of sample {heaviest[0]} gives key {heaviest[-1]} a weight of {weight:.3g}"
    return f"{len(at)} hidden keys have a weight: {where}"

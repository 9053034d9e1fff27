"""Which key each query sees, with a mask and without: read off the weights, or off the outputs where they cannot be.

A cell `(sample, query, key)` has the largest and the smallest weight of all maps. A mask is obeyed where hidden cells
have none and open ones some; where not, the pattern that came instead tells the mistake. A layer is given its mask in
each form that it may take, and the first that it obeys is the one it means, whatever it is called.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from attention_doctor.argument_names import OF_OTHERS
from attention_doctor.calling import Mask, picture
from attention_doctor.exam import Exam, moved
from attention_doctor.look import Seen
from attention_doctor.outside import fails
from attention_doctor.patient import Crash, Patient, amount
from attention_doctor.report import Report

NOTHING = 1e-9  # a weight below is none
BIASES = r"attn_bias|attention_bias|prior|added\W+to the (logits|scores)|position\w* bias|alibi"
PREFIX = r"prefix|bi-?directional"
OF_DTYPE = re.compile("bool|dtype|Float|Long")  # in what is raised where a mask has another form than is meant
OF_SHAPE = re.compile(r"size|shape|dimension|expand|broadcast|must match")
SAME = {"allowed": ("allowed", "float01"), "blocked": ("blocked",), "additive": ("additive",), "lengths": ("lengths",)}


@dataclass
class Sight:
    """Who sees whom, `(B, T, T)` each: the largest and the smallest weight over all maps."""

    high: Tensor  # of outputs, 1 where an output moved with the token and 0 where not
    low: Tensor
    sums: tuple[float, float] | None  # what the weights of a query sum to, from the least to the most; None of outputs
    inside: bool  # whether weights were read
    out: Tensor | None = None  # the output

    @property
    def sees(self) -> Tensor:
        """Whether a query sees a key in any map."""
        return self.high > NOTHING


def sight(exam: Exam, mask: Tensor | None = None, form: Mask | None = None) -> Sight | None:
    """Return who sees whom under a mask of this form; None where neither weights nor outputs tell.

    Raises:
        Crash: the layer raised.
    """
    seen = exam.first if mask is None else exam.look(mask=mask, form=form)
    pooled = exam.patient.call.pooled and _by_outputs(exam, mask, form)  # what is hidden may enter behind the weights
    found = pooled or _by_weights(exam, seen) or _by_outputs(exam, mask, form)
    if seen.out.shape != exam.first.out.shape:
        shapes = tuple(seen.out.shape), tuple(exam.first.out.shape)
        raise Crash(f"with this mask it gives {shapes[0]}, and {shapes[1]} without", "shape")
    if found is not None:
        found.out = seen.out
    return found


def _by_weights(exam: Exam, seen: Seen) -> Sight | None:
    """Return who sees whom by the weights of the first steps; None where tokens cannot be followed."""
    per, sums, inputs = exam.B * exam.T, [], set()
    high, low = (torch.full((per * exam.T,), end, dtype=torch.float32) for end in (0.0, torch.inf))
    if len(seen.steps) != len(exam.first.steps):
        return None
    for j, step in enumerate(seen.steps):
        if step.depth:
            continue
        used, rows, columns = step.used.float(), exam.token_of(j, "q"), exam.token_of(j, "v")
        if rows is None or columns is None or step.of_weights.far or not exam.straight[j]:
            return None
        if rows.shape != used.shape[:2] or columns.shape != used.shape[::2]:
            return None
        q, k = rows[:, :, None].expand(used.shape), columns[:, None].expand(used.shape)
        real = (q >= 0) & (k >= 0)
        inputs |= {*(k[real] // per).tolist()}
        at, values = (q % per * exam.T + k % exam.T)[real], used[real].nan_to_num(0.0)
        high.scatter_reduce_(0, at, values, "amax")
        low.scatter_reduce_(0, at, values, "amin")
        total = used.sum(-1)
        whole = bool((total > 0).any()) and step.soft.numel() <= used.numel()  # else a sink takes what is hidden
        sums += total[total > 0].aminmax() if whole else []
    # A key that is in no column is one that is not seen, if the query has a row at all.
    high, low = (x.view(exam.B, exam.T, exam.T) for x in (high, low))
    known = low.isfinite()
    if not seen.steps or not bool(known.any(-1).all()) or len(inputs) > 1:  # a cell is of keys of one input
        return None
    return Sight(high, torch.where(known, low, high), (float(min(sums)), float(max(sums))) if sums else None, True)


def _by_outputs(exam: Exam, mask: Tensor | None, form: Mask | None) -> Sight | None:
    """Return which output moves with which token, of pooled tokens any output; None where that tells nothing."""
    pooled = exam.patient.call.pooled
    if exam.first.other or any(step.depth for step in exam.first.steps):
        return None  # behind landmarks nobody can say it; in a stack a hidden token is reached by way of a third one
    added = any(step.q is not None and step.of_scores.far for step in exam.first.steps)
    if mask is not None and (added or exam.convolved):
        return None  # what is hidden as a key may have its part in what is added to scores, or in a convolution
    if exam.inputs > 1 or (pooled and form is not None and form.shows not in ("keys", "prefix")):
        return None
    patient, T = exam.patient.with_mask(form), exam.T
    masks = [None] if mask is None else [*mask]
    sees = torch.zeros(len(masks), T, T)
    for b, spread in product(range(len(masks)), (0.05, 0.5)):
        try:
            sees[b][_moving(patient, [patient.tokens(1, T, spread)], masks[b], 0, spread)] = 1.0
        except Crash:
            return None
    sees = sees.expand(exam.B, -1, -1)
    return Sight(sees, sees, None, False)


def _moving(patient: Patient, x: list[Tensor], mask: Tensor | None, i: int, size: float = 1.0) -> Tensor:
    """Return which output moves with which token of input i, `(outputs, tokens)`; of pooled tokens any output."""
    n = x[i].shape[1]
    batch = n + 2 if n + 1 == patient.num_heads else n + 1  # the tokens as they are, and with each of them changed
    x = [one.repeat(batch, 1, 1) for one in x]
    x[i][torch.arange(1, n + 1), torch.arange(n)] += size * patient.noise(1, n, 3, i)[0]
    out = patient(x[0] if len(x) == 1 else x, None if mask is None else mask.expand(batch, -1, -1))
    change = (out[1 : n + 1] - out[:1]).abs().amax(-1)  # (token that changed, output)
    change = change.amax(-1, keepdim=True).expand(n, n) if patient.call.pooled else change
    return ~(change <= 0.1 * patient.rounding(out)).T


# -------------------------------------------------------------------------------------------------------- without masks


def examine_sight(exam: Exam, causal: bool, report: Report) -> Sight | None:
    """Say what each query sees without a mask; a causal layer shows no later token."""
    found = sight(exam)
    if found is None:
        report.say("which token sees which", "neither weights nor outputs tell")
        return None
    if exam.patient.call.pooled:
        return found
    T, sees, full = exam.T, found.sees[0], torch.ones(exam.T, exam.T, dtype=torch.bool)
    later, earlier, own = sees.triu(1), sees.tril(-1), bool(sees.diagonal().all())
    past, mirrored, alone = earlier.equal(full.tril(-1)), later.equal(full.triu(1)), exam.inputs == 1
    without = [n for n, value in exam.patient.call.also.items() if value is None and re.search("kv|memory|context", n)]
    leaks, windowed, most = bool(later.any()), own and not bool(sees.all()), int(sees.sum(-1).max())
    one_more, one_less = later.equal(full.triu(1) & ~full.triu(2)), sees[1:].equal(full.tril(-1)[1:])
    apart = T > 2 and sees.equal(full.tril().triu()) and alone and exam.first.met
    unused = bool(sees[:, :-1].all()) and not bool(sees[: T - (not found.inside), -1].any())
    block = _block(exam, later) if own and not exam.patient.call.causal else 0
    late = _moved_by_later(exam) if alone else ""
    promised = exam.first.linear and exam.patient.docs.causal_in_words
    behind = int(earlier.sum(-1).max())  # how far back a window reaches, where nothing hides what comes later
    one_sided = mirrored and not past and behind and earlier.equal(full.tril(-1).triu(-behind)) and alone
    cases = [  # whether it is so, what that is
        (promised and leaks and not block, "future-leak", f"its words say that it is causal, and {cells(later)}."),
        (promised and block and past, "future-leak", f"each query sees later tokens of its own block of {block}."),
        (block and past, "causal", f"each query sees its own block of {block} tokens, and none of a later block."),
        (block and windowed, "window", f"of later tokens a query sees those of its own block of {block} alone."),
        (late, "future-leak", late),
        (causal and leaks, "future-leak", f"without a mask, {cells(later)}."),
        (past and one_more and T > 3 and alone, "future-leak", "each query sees the keys up to the one after its own."),
        (leaks and one_less, "future-leak", "a query sees the tokens before its own, the first sees later ones."),
        (mirrored and not bool(earlier.any()) and alone, "future-leak", "each query sees none before its own."),
        (one_sided, "future-leak", f"each query sees {behind} tokens before its own, and all later ones."),
        (apart and not without, "no-mixing", "each output depends on its own token alone."),
        (T > 2 and exam.flat and unused, "key-unused", f"{T} queries see every key but the last, number {T - 1}."),
        (past and not leaks and not causal, "causal", "no output depends on a later token."),
        (windowed and not past and not mirrored, "window", f"a query sees {most} of {T} keys at most."),
    ]
    code, text = next(((code, text) for seen, code, text in cases if seen), ("", ""))
    if code:
        report.say(code, text)
    return found


def examine_axes(exam: Exam, base: Sight | None, report: Report) -> None:
    """Hold that behind attention along one axis of a picture, a second step takes every query equally far."""
    patient, T, depths = exam.patient, exam.T, {step.depth for step in exam.first.steps}
    axes = patient.call.axes
    if base is None or "H" not in axes or "F" in axes or exam.inputs > 1 or depths != {0, 1} or patient.call.pooled:
        return
    place, width = torch.arange(T), picture(T)[1]
    lines = {"row": place // width, "column": place % width}
    for line, of in lines.items():
        own = of[:, None] == of
        if not base.sees[0].equal(own.to(base.sees.dtype)):
            continue
        moving = _moving(patient, [patient.tokens(1, T, 0.5)], None, 0, 0.5)
        seen = torch.stack([moving[:, of == n].float().mean(-1) for n in of.unique()], 1)  # shares of each line
        least, most = seen.sum(-1).aminmax()
        if bool(((seen == 0) | (seen == 1)).all()) and least < most:
            text = f"behind attention along each {line}, some pixels see {least:.0f} and others {most:.0f} {line}s"
            report.say("mixes-tokens", f"{text}: is the second axis brought next to the features before the reshape?")


def _moved_by_later(exam: Exam) -> str:
    """Say how far outputs move with later tokens, where maps hide these: by a gate, a norm, or a convolution."""
    T, patient, early, x = exam.T, exam.patient, exam.T // 2, exam.x[0].clone()
    shown = [step.used > 0 for step in exam.first.steps if step.used.shape[1:] == (T, T)]
    if not shown or len(shown) < len(exam.first.steps) or not all(each.equal(each.tril()) for each in shown):
        return ""
    x[:, early:] += patient.noise(exam.B, T - early, 9)
    out, before = exam.look([x]).out[:, :early], exam.first.out[:, :early]
    if not patient.differ(out, before):
        return ""
    off = amount(out - before)
    return f"the maps hide later tokens, but when those from {early} on change, earlier outputs move by up to {off}."


def _block(exam: Exam, later: Tensor) -> int:
    """Return the length of blocks, such as frames, where of later tokens each query sees its own block's; else 0."""
    place, axes = torch.arange(exam.T), exam.patient.call.axes
    for size in [picture(exam.T)[1]] if "H" in axes and "F" not in axes else range(2, exam.T):
        if later.equal((place[:, None] // size == place // size).triu(1)):
            return size
    return 0


# ----------------------------------------------------------------------------------------------------------- with masks


def masks_for(exam: Exam, form: Mask) -> dict[str, Tensor]:
    """Return masks `(B, T, T)` that this form can show; each leaves a query its own key, or is one of padding."""
    B, T = exam.B, exam.T
    whole_rows = (form.over, form.rank) == ("picture", 2)
    place = torch.arange(T) // (picture(T)[1] if whole_rows else 1)
    lengths = torch.tensor([max(1, int(place[-1]) + 1 - (2, 0, 4)[i % 3]) for i in range(B)])
    prefix = (place < lengths[:, None])[:, None].expand(B, T, T)
    if form.shows == "documents":
        first = torch.tensor([2 + (form.rank == 2) * (i % 2) for i in range(B)])[:, None]
        of = (place >= first).long() + (place >= T - 2)  # (B, T)
        return {"documents": of[:, :, None] == of[:, None]}
    if form.shows == "prefix":
        return {"lengths": prefix.flip(-1) if form.left else prefix}
    if form.shows == "keys":
        holes = torch.stack([place % 3 != 1 + i % 2 for i in range(B)])[:, None].expand(B, T, T)
        each = range(B) if form.rank > 1 else [0] * B  # or one for all samples
        return {"hidden keys": holes[each], "padding": prefix[each]}
    drawn = torch.rand(B, T, T, generator=torch.Generator().manual_seed(5)) < 0.5
    drawn[:, torch.arange(T), (torch.arange(T) + 1) % T] = False
    drawn |= torch.eye(T, dtype=torch.bool)
    drawn = drawn[:1].expand(B, T, T) if form.shows == "shared" else drawn
    return {"random": drawn, "causal": torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)}


class Tried(NamedTuple):
    """A form of a mask that ran: what is wrong with it, how many hidden cells leaked, whether any was hidden."""

    form: Mask
    code: str = ""
    evidence: str = ""
    leaks: int = 0
    hid: bool = True


def examine_mask(exam: Exam, forms: Sequence[Mask], base: Sight | None, report: Report) -> Mask | None:
    """Give a layer its mask in each form; hold the one that it means to hide what it hides, and return it."""
    call, docs, name = exam.patient.call, exam.patient.docs, forms[0].name
    said = None if call.stated else docs.polarity(name or "mask", len(call.masks) == 1)
    ranks = set() if call.stated else docs.ranks(name or "mask")
    forms = sorted(forms, key=lambda form: said is not None and form.kind not in (*SAME[said], "lengths"))
    ran, raised = [], []
    of_keys = [form for form in forms if form.shows in ("keys", "prefix")] if call.pooled else forms
    for form in of_keys or forms:  # what pools its tokens shows nothing of another
        if form.rank == 1 and form.over == "keys" and any(tried.form.rank > 1 for tried in ran):
            continue  # one for all samples is tried where none for each is taken
        try:
            ran.append(tried := _try(exam, form, base))
        except Crash as crash:
            raised.append((form, crash))
            continue
        if not tried.code and tried.hid:
            break
    of_each = [crash for form, crash in raised if form.rank == 3 and form.over == "pairs" and form.folded == 1]
    taken = any(tried.form.rank == 3 and tried.form.over in ("pairs", "picture") for tried in ran)
    if of_each and ran and not taken and 3 in ranks and 4 not in ranks:  # a mask for each sample was promised
        shape = (exam.B, exam.T, exam.T)
        if isinstance(of_each[0].__cause__, RuntimeError):  # a refusal in its own words is none
            report.say("crash", f"with a mask {shape}: {of_each[0]}. Of {name} its words say {sorted(ranks)} axes.")
        else:
            report.say("mask-rank", f"one mask (T, T) for all samples is taken; {shape} raised {of_each[0]}.")
    if not ran:
        promised = [crash for f, crash in raised if call.stated or (f.rank in ranks and f.kind in SAME.get(said, ()))]
        told = [crash for crash in promised if not OF_DTYPE.search(str(crash))]
        fitting = [crash for _, crash in raised if not (OF_DTYPE.search(str(crash)) or OF_SHAPE.search(str(crash)))]
        if fitting and all("overflow" in str(crash) for crash in fitting):  # whatever is said in it
            told = told or fitting
        if told:
            report.say(told[0].code, f"with {name or 'a mask'}: {told[0]}.")
        else:
            likeliest = (fitting or [raised[0][1]])[0]
            report.say(name or "masks", f"no form runs ({likeliest}); say adapt(layer, mask_name={name!r}, …)")
        return None
    best = _meant(ran, said)
    nothing = exam.patient.calling(replace(call, mask=None, also=call.also | {name: object()}))
    off = [n for m in exam.patient.module.modules() for n, held in vars(m).items() if held is False and "mask" in n]
    unread = len(call.masks) > 1 and not fails(nothing, exam.x[0])
    if best.code == "mask-ignored" and (off or unread):
        why = f"{off[0]} is False" if off else "nothing reads it"
        report.say(name or "masks", f"{why} as the layer is made here")
    elif best.code == "mask-ignored" and name and not docs.reads(name):
        report.say("mask-unread", f"{name} is an argument that nothing in it reads.")
        return None  # of what it would do to an empty row, or which way round it is, there is nothing to say
    elif best.code:
        report.say(best.code, f"{name}: {best.evidence}" if len(call.masks) > 1 and name else best.evidence)
    elif best.hid and best.form.kind == "additive" and (said := _diluted(exam, best.form)):
        report.say("wrong-scale", f"{name or 'the mask'}: {said}")
    elif not best.hid:
        report.say(name or "masks", best.evidence or "neither weights nor outputs tell which key is hidden")
    return best.form


def _diluted(exam: Exam, form: Mask) -> str:
    """Say with which factor what is added to scores arrives in them, where that is another than 1."""
    if not exam.patient.docs.says(BIASES):  # what hides with -inf hides at any scale
        return ""
    mask = next(iter(masks_for(exam, form).values()))
    before, after = (exam.look(mask=each, form=replace(form, kind="lowered")).steps for each in (mask | True, mask))
    for one, two in zip(before, after, strict=False):
        logs = two.used.double().log() - one.used.double().log()
        lowered = logs - logs.amax(-1, keepdim=True)  # what a whole row shares changes nothing
        by = float(lowered.min())
        near_either = (lowered.abs() < 1e-3) | ((lowered - by).abs() < 1e-3)
        if one.depth == 0 and -0.99 < by < -0.01 and bool(near_either.all()):
            return f"where it says -1, the scores are lower by {-by:.3g}: it is added before they are scaled."
    return ""


def examine_joined(exam: Exam, report: Report) -> None:
    """Hold that a mask over the tokens of a second input hides none of the first, where both are keys together.

    That it is the second's is seen by its size: there are two tokens more of these.
    """
    patient, call, T = exam.patient, exam.patient.call, exam.T
    if call.roles != ["queries", "context"] or call.pooled or call.axes != "B T d":
        return
    everything, place = torch.ones(T, T + 2, dtype=torch.bool), torch.arange(T + 2)
    x, own = [patient.noise(1, T + 2 * i, 50 + i, i) for i in (0, 1)], torch.eye(T, dtype=torch.bool)
    forms = [form for forms in call.masks.values() for form in forms if form.over == "keys" and form.rank > 1]
    for form, shown in product(forms, (place < T, place > 1)):
        with suppress(Crash):
            masked = patient.with_mask(form)
            of_masks = (everything, everything & shown)
            first, second = ([_moving(masked, x, mask, i) for mask in of_masks] for i in (0, 1))
            before, after = ((sees & ~own).any(0) for sees in first)
            lost, hidden = ((~x).nonzero().flatten().tolist() for x in (after | ~before, shown))
            if lost and all(bool(sees.any(0).all()) for sees in second):
                text = f"{form.name}: it says {hidden} of the second input, and {lost} of the first are hidden"
                report.say("mask-leaks", f"{text}: keys and mask are joined in two orders.")
                return


def examine_multiplied(exam: Exam, report: Report) -> None:
    """Hold that nothing multiplies what hides by what may be below 0, whatever else the layer is given.

    Neither does a mask multiply scores by what is far below 0, nor do heads talk with it in them.
    """
    shown = torch.ones(exam.B, exam.T, exam.T, dtype=torch.bool)
    for form in [form for forms in exam.patient.call.masks.values() for form in forms if form.kind == "allowed"]:
        with suppress(Crash):
            hidden = next(iter(masks_for(exam, form).values()))
            pair = (exam.look(mask=mask, form=form).steps for mask in (shown, hidden))
            for one, two in zip(*pair, strict=False):
                if two.soft.ndim == 4 and two.soft[:, 0].shape == hidden.shape and not two.turned:
                    kept = two.soft.masked_fill(~hidden[:, None], 0.0).sum(-1).mT[~hidden.all(-1)]  # (queries, heads)
                    if bool(((kept > 0.99).any(-1) & (kept < 0.01).any(-1)).any()):
                        text = f"{form.name}: some heads give all to the keys that it shows, and others to the others"
                        return report.say("mask-leaks", f"{text}: it stands before a mix of heads, which turns signs.")
                factor = two.scores.double() / one.scores.double()
                low = factor.isfinite() & (factor < -100)  # -1e9 that is added is no one factor
                if int(low.sum()) < 3 or float(factor[low].std()) > -1e-3 * float(factor[low].mean()):
                    continue
                if (weight := float(two.soft[low].max())) > 0.5:
                    text = f"{form.name}: the scores of hidden keys are multiplied by {float(factor[low].mean()):.3g}"
                    return report.say("mask-leaks", f"{text}, and of negative ones the weights are up to {weight:.2g}.")


def _meant(ran: list[Tried], said: str | None) -> Tried:
    """Return the form to judge: what the author says before what is obeyed before what is usual."""
    # That one mask for all is obeyed does not mend that each sample's is not.
    obeyed = [t for t in ran if (not t.code and t.hid) or t.code == "mask-order"]
    meant = [t for t in ran if t.form.kind in SAME.get(said, ())]
    if meant or obeyed:
        return next((t for t in obeyed if not meant or t in meant), meant[0] if meant else None)
    ran = [t for t in ran if t.code != "not-finite"] or ran
    if all(t.code == "mask-ignored" for t in ran):
        return ran[0]
    least = min(t.leaks for t in ran)
    return min(ran, key=lambda t: (t.leaks > least, t.form.over != "pairs", ran.index(t)))


def _try(exam: Exam, form: Mask, base: Sight | None) -> Tried:
    """Return what a layer does with a mask of this form."""
    call = exam.patient.call  # where it wants this mask, one of a form that was guessed was given at first
    given = form.name in call.also or (call.mask is not None and call.mask.name == form.name)
    free = sight(exam, torch.ones(exam.B, exam.T, exam.T, dtype=torch.bool), form)
    if base is not None and free is not None and base.inside == free.inside:
        more = free.sees & ~base.sees
        if bool(more.any()):
            form = replace(form, always=True)  # it takes the place of one that the layer makes by itself
            if given:
                return Tried(form, "", "what hides later tokens is what was made up for it", hid=False)
            if form.shows in ("keys", "prefix") and not exam.patient.docs.says(PREFIX):
                text = f"with a mask over the keys it hides no later token: {cells(more, free)}."
                return Tried(form, "future-leak", text)
        if bool((base.sees & ~free.sees).any()) and free.sees.equal(base.sees.tril()):
            return Tried(form, "", "whatever it holds, with it later tokens are hidden: it is a switch", hid=False)
    replaces, hid, steps = form.always or base is None, False, exam.first.steps
    mixed = any(step.of_weights.far for step in steps)  # heads that talk make of -inf what they like
    before = free if replaces else base
    for name, mask in masks_for(exam, form).items():
        found = sight(exam, mask, form)
        if found is None or free is None or (mixed and not call.stated):
            return Tried(form, hid=False)
        same = found.inside and torch.equal(found.high, free.high) and exam.patient.differ(found.out, free.out)
        if (same and any(step.depth for step in steps)) or _opens(exam, mask, before, found):
            return Tried(form, hid=False)  # it is a mask of a later step, or opens what it shows
        code, evidence, leaks = judge(name, mask, before, found, free, exam, form)
        if code and not hid and (why := _another_reading(exam, form, mask, free, found)):
            return Tried(form, "", why, hid=False)
        if code:
            return Tried(form, code, f"mask '{name}', T={exam.T}: {evidence}.", leaks)
        hid |= bool((~mask & before.sees & ~found.sees).any())
    if not (replaces or given) and exam.patient.differ(free.out, exam.first.out) and free.sees.equal(base.sees):
        off = amount(free.out - exam.first.out)
        text = f"a mask that hides nothing changes the outputs by up to {off}."
        return Tried(form, "open-mask-differs", text, 0, hid)
    return Tried(form, hid=hid)


def _opens(exam: Exam, mask: Tensor, before: Sight, found: Sight | None) -> bool:
    """Whether, as its words say, all see what a mask shows, as a prefix, and of the rest each sees what is before."""
    opened = before.sees & torch.ones_like(mask).tril() | mask
    return exam.patient.docs.says(PREFIX) and found is not None and found.sees.equal(opened)


def _another_reading(exam: Exam, form: Mask, mask: Tensor, free: Sight, found: Sight) -> str:
    """Say what else than which keys are hidden a mask may say, by what it does; "" where nothing else explains that."""
    patient, call, of_tokens = exam.patient, exam.patient.call, mask[:, 0]
    others = [n for n, forms in call.masks.items() if n != form.name]
    if call.stated:
        return ""
    of_queries = re.search("^(q|query|tgt|target)_|_q$", form.name or "") is not None
    if form.shows in ("keys", "prefix") and (of_queries or exam.inputs > 1) and not bool(of_tokens.all()):
        same = (found.out - free.out).abs().amax(-1) <= patient.rounding(free.out)
        of_queries |= any(OF_OTHERS.search(other or "") for other in others)  # there is one for keys
        if bool(same[of_tokens].all()) and (of_queries or not bool(found.out[~of_tokens].any())):
            return "it hides queries, and no keys"
    together = patient.calling(replace(call, also=call.also | {n: replace(form, name=n).open for n in others}))
    before, after = (exam.look(mask=each, form=form).steps for each in (torch.ones_like(mask), mask))
    for one, two in zip(before, after, strict=False) if not bool((free.sees & ~found.sees).any()) else ():
        if one.k is not None and one.k.shape == two.k.shape and bool((rows := moved(one.k, two.k)).any()):
            if bool((two.k[rows] - two.k[rows][0]).abs().max() > 1e-4 * two.k.abs().max()):  # not one for all
                return "it makes other keys of the tokens, and hides none"
    with suppress(Crash):
        if others and (seen := sight(Exam(together, exam.B, exam.T), mask, form)) is not None:
            if not bool((~mask & free.sees & seen.sees).any()):
                return f"it hides what it says together with {', '.join(others)}, and nothing alone"
    return ""


def judge(
    name: str, mask: Tensor, free: Sight, found: Sight, all_open: Sight, exam: Exam, form: Mask
) -> tuple[str, str, int]:
    """Compare what is seen under a mask with what it shows; return code and evidence, and how many cells leaked."""
    base, sees, padding = free.sees, found.sees, form.shows in ("keys", "prefix")
    asked = (mask & base).any(-1, keepdim=True)  # a query that may see no key is another matter
    if padding:  # what a token gets that is padding itself is nobody's business
        asked = asked & mask[:, :1].transpose(1, 2)
    own = torch.eye(exam.T, dtype=torch.bool) & (not found.inside)  # an output moves with its own token in other ways
    leak = ~mask & base & sees & asked & ~own
    blind = mask & base & (found.low <= NOTHING) & asked & (exam.flat and found.inside)
    leaks, blinds, bad = int(leak.sum()), bool(blind.any()), ~found.out.isfinite().all(-1)
    if bad.shape == asked.shape[:2] and bool((bad & asked[..., 0]).any()):
        return "not-finite", f"{int(bad.sum())} outputs are NaN or infinite", leaks
    if not leaks and not blinds:
        sums, free_sums = found.sums, free.sums or (1.0, 1.0)
        if sums is not None and free_sums[0] > 0.99 and sums[0] < 0.99 * min(1.0, free_sums[0]):
            seen = f"hidden keys have no weight, but those of the others sum to {sums[0]:.2f}, not to 1"
            return "mask-leaks", f"{seen}: the mask came behind the softmax", 0
        return "", "", 0
    told = cells(leak, found) if leaks else f"{cells(blind, None)} although it may"
    if not exam.patient.differ(found.out, all_open.out):
        return "mask-ignored", told, leaks
    patterns = {"mask-inverted": ~mask & base} | ({} if padding else {"mask-transposed": mask.transpose(1, 2) & base})
    for code, pattern in patterns.items():
        rows = (pattern & ~own).any(-1, keepdim=True)
        if bool((rows & asked).any()) and bool((((sees & base) == pattern) | own | ~rows | ~asked).all()):
            return code, told, leaks
    if found.inside and leaks and blinds and not bool((mask == mask[:1]).all()):
        if not bool((leak & ~mask.any(0)).any() | (blind & mask.all(0)).any()):
            return "mask-order", f"{told}; its maps follow the masks of several samples", leaks
    last = mask & ~mask.roll(-1, -1)  # the last key that each query may see
    if name == "lengths" and torch.equal(leak, last.roll(1, -1) & base & asked & ~mask):
        told += "; it is the first behind the last that counts, as `arange <= length` has it"
    if not leaks and not bool((~mask & base & ~sees).any()):
        return "", "", 0  # it hides nothing: this is no mask of what may be seen
    return "mask-leaks" if leaks else "open-mask-differs", told, leaks


def cells(which: Tensor, found: Sight | None = None) -> str:
    """Return some cells in words, with the largest weight among them."""
    at = which.nonzero().tolist()
    if found is None or not found.inside:
        verb = "sees" if found is not None or which.ndim == 2 else "does not see"
        shown = "; ".join(f"query {c[-2]} {verb} key {c[-1]}" for c in at[:2])
        return f"{len(at)} cells are wrong ({shown})" if len(at) > 1 else shown
    heaviest = max(at, key=lambda c: float(found.high[tuple(c)]))
    weight = float(found.high[tuple(heaviest)])
    where = f"query {heaviest[-2]} of sample {heaviest[0]} gives key {heaviest[-1]} a weight of {weight:.3g}"
    return f"{len(at)} hidden keys have a weight: {where}"

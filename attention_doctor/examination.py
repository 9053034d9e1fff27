"""The order of an examination: does it run, what are its steps, who sees whom, what do masks do, what is kept."""

from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import gcd

import torch
from torch import nn

from attention_doctor import outside
from attention_doctor.cache import caches_as_the_full_pass
from attention_doctor.calling import Mask
from attention_doctor.exam import Exam
from attention_doctor.example import example_of
from attention_doctor.laws import LAWS, heads, inputs, order
from attention_doctor.masks import Sight, cells, examine_mask, examine_sight, masks_for, sight
from attention_doctor.outside import Stop
from attention_doctor.patient import Crash, Patient, amount
from attention_doctor.report import Report

OTHER_KINDS = r"linear.?att|retention|retnet|cosine.?att|kernel|non.?local|performer"


def examine_patient(patient: Patient, report: Report) -> list[Mask]:
    """Look at everything that can be seen of a layer; return the forms of its masks."""
    chosen: list[Mask] = []
    try:
        _examine(patient, report, chosen)
    except Stop:
        pass
    except Crash as crash:  # at the sizes at which it ran before
        report.find(crash.code, f"{patient.last}: {crash}.")
    if patient.written:
        what = "; ".join(f"{name}: {how}" for name, how in patient.written.items())
        report.find("mutates-input", f"after a call, {what}.")
    patient.call.masks = {form.name: [form] for form in chosen} or patient.call.masks
    report.findings = [replace(found, example=example_of(found.code, patient)) for found in report.findings]
    return chosen


def _sizes(patient: Patient) -> tuple[int, int]:
    """Return a number of samples and of tokens: no two sizes agree, because a mistake may hide where they do."""
    h, module, call = patient.num_heads or 4, patient.module or nn.Module(), patient.call
    said = {v for m in module.modules() for v in vars(m).values() if isinstance(v, int)}  # as many as groups of heads
    batch = next(b for b in (3, 2, 5, 7, 11) if b == 11 or (b not in said and h % b))
    if call.lengths:
        return batch, max(call.lengths)
    if "H" in call.axes:  # a picture of several rows, and of several windows where it has some
        fitting = (n for n in (24, 48, 64, 16, 12) if not outside.fails(patient, patient.tokens(2, n, 0.05)))
        return batch, next(fitting, 6)
    taken = {size for x in (*module.parameters(), *module.buffers()) for size in x.shape} | {patient.head_dim}
    return batch, next(T for T in range(max(5, h + 1), 10**6) if gcd(T, h) == 1 and T not in taken)


def _examine(patient: Patient, report: Report, chosen: list[Mask]) -> None:
    """Look at one thing after the other, and fill in the forms of the masks; what is wrong ends it after its part."""
    call, h, (batch, T) = patient.call, patient.num_heads or 4, _sizes(patient)

    def stop_if_ill() -> None:
        if not report.ok:
            raise Stop

    T = outside.runs(patient, batch, T, report)
    outside.repeats_itself(patient, batch, T, report)
    before = patient.kept()
    patient(patient.tokens(batch, T, 0.5))
    patient.stateful = patient.kept() != before
    exam = Exam(patient, batch, T)
    _look_inside(exam, report)
    stop_if_ill()
    outside.separates_samples(patient, batch, T, report)
    for samples, tokens in ((h, T), (batch, h)) if 2 < h <= 16 and report.ok else ():  # where sizes coincide
        if not call.lengths or tokens in call.lengths:
            outside.separates_samples(patient, samples, tokens, report)
    base = examine_sight(exam, call.causal or (patient.docs.causal and call.mask is None), report)
    past = base is not None and not bool(base.sees[0].triu(1).any())
    if past and not call.lengths and report.ok:
        with suppress(Crash):
            longer = sight(Exam(patient, 1, 2 * T + 3))
            if longer is not None and bool((later := longer.sees[0].triu(1)).any()):
                seen = f"with {T} tokens none sees a later one; with {2 * T + 3}, {cells(later)}."
                report.find("future-leak", seen)
    stop_if_ill()
    chosen += _masks(exam, base, report)
    for form in chosen:
        masked, x = patient.with_mask(form), patient.noise(batch, T, 32)
        masked(x, (torch.arange(T) < 2).expand(batch, T, T))
        for mask in masks_for(exam, form).values():
            outside.forgets(masked, x, mask, "masks", report)
    stop_if_ill()
    for form in chosen:
        outside.survives_an_empty_row(patient, form, T, report)
    everyone = base is not None and bool(base.sees.all())
    if everyone and base.inside:
        outside.takes_fewer_keys(patient, T, report)
    for name in outside.optional_contexts(patient):
        _with_context(patient, name, batch, T, report)
    if not call.pooled and call.axes in ("B T d", "T B d") and not call.lengths:
        causal = past and base.sees[0].equal(base.sees.new_ones(T, T).tril())
        caches_as_the_full_pass(patient, base is not None and not everyone and not causal, causal, report)
    _places(patient, T, report)
    outside.dead_parameters(patient, chosen, T, exam.flat, report)


def _look_inside(exam: Exam, report: Report) -> None:
    """Hold each law on each step that was seen."""
    seen = exam.first
    if seen.twice:
        report.find("softmax-twice", "what came out of one softmax went into a second one, which makes it nearly even.")
    elif not seen.steps:
        _without_steps(exam, report)
    for law, j in product(LAWS, range(len(seen.steps)) if report.ok else ()):
        if j == 0 and not report.ok:
            return
        try:
            if said := law(exam, j):
                getattr(report, said[0])(*said[1:])
        except Crash as crash:
            report.skip(f"the law of {law.__name__}", str(crash))
    if report.ok and seen.steps:
        if deepest := max(exam.depth(step) for step in seen.steps):
            report.remark("several-layers", f"{deepest + 1} steps of attention, one after the other, were seen.")
        heads(exam, report)


def _without_steps(exam: Exam, report: Report) -> None:
    """Say what was seen where nothing went from a product of queries and keys by a softmax to values."""
    seen, patient = exam.first, exam.patient
    if seen.shares and not patient.docs.says(OTHER_KINDS) and seen.shares[0][1].factor is not None:
        sums = seen.shares[0][0].sum(-1)
        low, high = float(sums.min()), float(sums.max())
        what = f"scores meet the values as they are; a query's sum to {low:.2f} to {high:.2f}"
        report.find("no-softmax", f"{what}: nothing makes shares of 1 of them.")
    elif seen.exps and _weighs_more_than_one(patient, exam.T):
        text = "with every token given twice the outputs change: exponentials are not divided by their sum"
        report.find("no-softmax", f"{text}, or not by the sum that belongs to them.")
    elif set(seen.over) == {1}:
        report.find("softmax-axis", "a softmax runs over an axis of one number: it gives 1 whatever comes in.")
    else:
        linear = "keys meet values before queries: linear attention, of which no maps are made"
        none = "no product of queries and keys, softmax and product with values was seen"
        report.skip("its steps", linear if seen.linear else none)


def _weighs_more_than_one(patient: Patient, T: int) -> bool:
    """Whether tokens given twice change the outputs, in a layer to which their order is nothing."""
    x, turned = patient.tokens(2, T, 0.5), torch.arange(T).roll(1)
    with suppress(Crash):
        out = patient(x)
        if not (patient.call.pooled or patient.call.lengths or patient.differ(patient(x[:, turned]), out[:, turned])):
            return patient.differ(patient(torch.cat([x, x], 1))[:, :T], out)
    return False


def _masks(exam: Exam, base: Sight | None, report: Report) -> list[Mask]:
    """Hold each mask that it takes to what it says; where sizes coincide, too."""
    patient, forms = exam.patient, dict(exam.patient.call.masks)
    if not forms:
        report.skip("masks", "the layer takes none")
    found = [examine_mask(exam, name, base, patient.docs, report) for name in forms]
    rank = {"prefix": 2, "keys": 1}
    chosen = sorted((form for form in found if form is not None), key=lambda form: rank.get(form.shows, 0))
    for form in chosen[:1]:
        if form.shows == "prefix":
            report.skip("masks other than lengths", "the layer takes none")
        if form.shows == "shared":
            report.skip("masks that differ from sample to sample", "the layer takes one for all")
        said = patient.call.stated or patient.docs.polarity(form.name or "mask", len(chosen) == 1)
        if form.kind in ("allowed", "blocked", "float01") and not said:
            how = "hidden" if form.kind == "blocked" else "may attend"
            told = "is how it behaves; a mask that is read the wrong way round could not be told"
            patient.notes.append(f"True = {how} in {form.name} {told}")
    h = patient.num_heads or 0
    if report.ok and 2 < h <= 16 and h != exam.B and not patient.call.lengths and exam.inputs == 1:
        other = Exam(patient, h, exam.T)
        patient.call.masks = {form.name: [form] for form in chosen if form.shows != "shared"}
        for name in patient.call.masks:
            examine_mask(other, name, None, patient.docs, report)
        patient.call.masks = forms
    return chosen


def _with_context(patient: Patient, name: str, batch: int, T: int, report: Report) -> None:
    """Hand over an optional context: keys and values must be made of it."""
    call = replace(patient.call, inputs=(*patient.call.inputs, ("context", name)), masks={})
    with suppress(Crash):
        exam = Exam(patient.calling(call), batch, T)
        for law, j in product((order, inputs), range(len(exam.first.steps))):
            if said := law(exam, j):
                getattr(report, said[0])(said[1], f"with {name}: {said[2]}")


def _places(patient: Patient, T: int, report: Report) -> None:
    """Remark whether it tells equal tokens at different places apart."""
    x, turned = patient.tokens(1, T, 0.5), [*range(T - 1)][::-1] + [T - 1]
    with suppress(Crash):
        one, two = patient(x)[:, -1], patient(x[:, turned])[:, -1]
        if report.ok and not patient.call.pooled and patient.differ(one, two):
            text = f"another order of the other tokens moves the last output by up to {amount(two - one)}."
            report.remark("positions", text)

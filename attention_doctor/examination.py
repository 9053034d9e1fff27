"""The order of an examination: does it run, what are its steps, who sees whom, what do masks do, what is kept."""

from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import gcd

import torch
from torch import nn

from attention_doctor import outside
from attention_doctor.cache import caches_as_the_full_pass
from attention_doctor.exam import Exam
from attention_doctor.example import example_of
from attention_doctor.laws import LAWS, all_ask, heads_seen, inputs, order
from attention_doctor.masks import Sight, cells, examine_mask, examine_sight, masks_for, sight
from attention_doctor.outside import Stop
from attention_doctor.patient import Crash, Patient, amount
from attention_doctor.report import Report


def examine_patient(patient: Patient, report: Report) -> list:
    """Look at everything that can be seen of a layer; return the forms of its masks."""
    h = patient.num_heads or 4  # no two sizes agree, because a mistake may hide where they do
    module = patient.module or nn.Module()
    sizes = {size for x in (*module.parameters(), *module.buffers()) for size in x.shape} | {patient.head_dim}
    T = next(T for T in range(max(5, h + 1), 10**6) if gcd(T, h) == 1 and T not in sizes)
    if "H" in patient.call.axes:  # a picture of several rows, and of several windows where it has some
        T = next((n for n in (24, 48, 64, 16, 12) if not outside.fails(patient, patient.tokens(2, n, 0.05))), 6)
    T = max(patient.call.lengths) if patient.call.lengths else T
    said = {v for m in module.modules() for v in vars(m).values() if isinstance(v, int)}  # as many as groups of heads
    batch, chosen = next(b for b in (3, 2, 5, 7, 11) if b == 11 or (b not in said and h % b)), []
    try:
        T = outside.runs(patient, batch, T, report)
        outside.repeats_itself(patient, batch, T, report)
        before = patient.kept()
        patient(patient.tokens(batch, T, 0.5))
        patient.stateful = patient.kept() != before
        exam = Exam(patient, batch, T)
        _look_inside(exam, report)
        if not report.ok:
            raise Stop
        outside.separates_samples(patient, batch, T, report)
        _other_sizes(patient, batch, T, h, report)
        promised = patient.call.causal or (patient.docs.causal and patient.call.mask is None)
        base = examine_sight(exam, promised, report)
        if base is not None and not bool(base.sees[0].triu(1).any()) and not patient.call.lengths and report.ok:
            with suppress(Crash):
                longer = sight(Exam(patient, 1, 2 * T + 3))
                if longer is not None and bool(longer.sees[0].triu(1).any()):
                    where = cells(longer.sees[0].triu(1))
                    report.find("future-leak", f"with {T} tokens none sees a later one; with {2 * T + 3}, {where}.")
        if not report.ok:
            raise Stop
        chosen = _masks(exam, base, report)
        for form in chosen:
            masked, short = patient.with_mask(form), (torch.arange(T) < 2).expand(batch, T, T)
            masked(patient.noise(batch, T, 33), short)
            for mask in masks_for(exam, form).values():
                outside.forgets(masked, patient.noise(batch, T, 32), mask, "masks", report)
        if not report.ok:
            raise Stop
        for form in chosen:
            outside.survives_an_empty_row(patient, form, T, report)
        if base is not None and base.inside and bool(base.sees.all()):
            outside.takes_fewer_keys(patient, T, report)
        for name in outside.optional_contexts(patient):
            _with_context(patient, name, batch, T, report)
        sees = None if base is None else base.sees[0]
        window = sees is not None and not bool(sees.all()) and not sees.equal(sees.new_ones(T, T).tril())
        if not patient.call.pooled and patient.call.axes in ("B T d", "T B d") and not patient.call.lengths:
            causal = sees is not None and sees.equal(sees.new_ones(T, T).tril())
            caches_as_the_full_pass(patient, window, causal, report)
        _places(patient, T, report)
        outside.dead_parameters(patient, chosen, T, exam.flat, report)
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


def _look_inside(exam: Exam, report: Report) -> None:
    """Hold each law on each step that was seen."""
    seen, says = exam.first, exam.patient.docs.says
    if seen.twice:
        report.find("softmax-twice", "what came out of one softmax went into a second one, which makes it nearly even.")
        return
    if not seen.steps:
        other = r"linear.?att|retention|retnet|cosine.?att|kernel|non.?local|performer"
        if seen.shares and not says(other) and seen.shares[0][1].factor is not None:
            sums = seen.shares[0][0].sum(-1)
            what = "scores meet the values as they are: nothing makes shares of 1 of them"
            report.find("no-softmax", f"{what}; a query's sum to {float(sums.min()):.2f} to {float(sums.max()):.2f}.")
        elif seen.exps and _weighs_more_than_one(exam.patient, exam.T):
            text = "with every token given twice the outputs change: exponentials are not divided by their sum"
            report.find("no-softmax", f"{text}, or not by the sum that belongs to them.")
        elif set(seen.over) == {1}:
            report.find("softmax-axis", "a softmax runs over an axis of one number: it gives 1 whatever comes in.")
        elif seen.linear:
            report.skip("its steps", "keys meet values before queries: linear attention, of which no maps are made")
        else:
            report.skip("its steps", "no product of queries and keys, softmax and product with values was seen")
        return
    tell = {"find": report.find, "remark": report.remark, "skip": report.skip}
    for law in LAWS:
        for j in range(len(seen.steps)):
            try:
                for kind, code, text in law.check(exam, j):
                    tell[kind](code, text)
            except Crash as crash:
                report.skip(f"the law of the {law.name}", str(crash))
        if not report.ok:
            return
    if deepest := max(exam.depth(step) for step in seen.steps):
        report.remark("several-layers", f"{deepest + 1} steps of attention, one after the other, were seen.")
    heads_seen(exam, report)
    all_ask(exam, report)


def _weighs_more_than_one(patient: Patient, T: int) -> bool:
    """Whether tokens given twice change the outputs, in a layer to which their order is nothing."""
    x, order = patient.tokens(2, T, 0.5), torch.arange(T).roll(1)
    with suppress(Crash):
        out = patient(x)
        if patient.call.pooled or patient.call.lengths or patient.differ(patient(x[:, order]), out[:, order]):
            return False
        return patient.differ(patient(torch.cat([x, x], 1))[:, :T], out)
    return False


def _other_sizes(patient: Patient, batch: int, T: int, h: int, report: Report) -> None:
    """Look at sizes that coincide: as many samples, or tokens, as heads."""
    for samples, tokens in ((h, T), (batch, h)) if 2 < h <= 16 and report.ok else ():
        if not patient.call.lengths or tokens in patient.call.lengths:
            outside.separates_samples(patient, samples, tokens, report)


def _masks(exam: Exam, base: Sight | None, report: Report) -> list:
    """Hold each mask that it takes to what it says; where sizes coincide, too."""
    patient, chosen = exam.patient, []
    if not patient.call.masks:
        report.skip("masks", "the layer takes none")
    for name in patient.call.masks:
        form = examine_mask(exam, name, base, patient.docs, report)
        if form is not None:
            chosen.append(form)
    chosen.sort(key=lambda form: (form.shows == "prefix", form.shows == "keys"))
    for form in chosen[:1]:
        what = {"prefix": "masks other than lengths", "shared": "masks that differ from sample to sample"}.get(
            form.shows
        )
        if what:
            report.skip(what, "the layer takes none" if form.shows == "prefix" else "the layer takes one for all")
        said = patient.call.stated or patient.docs.polarity(form.name or "mask", len(chosen) == 1)
        if form.kind in ("allowed", "blocked", "float01") and not said:
            how = "hidden" if form.kind == "blocked" else "may attend"
            told = "is how it behaves; a mask that is read the wrong way round could not be told"
            patient.notes.append(f"True = {how} in {form.name} {told}")
    h, forms = patient.num_heads or 0, dict(patient.call.masks)
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
    other = Patient(call, patient.module, patient.d_model, patient.num_heads, patient.head_dim)
    try:
        exam = Exam(other, batch, T)
        for law, j in product((order, inputs), range(len(exam.first.steps))):
            for kind, code, text in law(exam, j):
                (report.find if kind == "find" else report.skip)(code, f"with {name}: {text}")
    except Crash as crash:
        report.skip(f"inputs that differ, {name}", f"the layer raised {crash}")


def _places(patient: Patient, T: int, report: Report) -> None:
    """Remark whether it tells equal tokens at different places apart."""
    order = [*range(T - 1)][::-1] + [T - 1]
    x = patient.tokens(1, T, 0.5)
    with suppress(Crash):
        one, two = patient(x)[:, -1], patient(x[:, order])[:, -1]
        if report.ok and not patient.call.pooled and patient.differ(one, two):
            text = f"another order of the other tokens moves the last output by up to {amount(two - one)}."
            report.remark("positions", text)

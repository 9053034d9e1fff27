"""The order of an examination: does it run, what are its steps, who sees whom, what do masks do, what is kept."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import gcd

import torch
from torch import Tensor

from attention_doctor import argument_names as names
from attention_doctor import outside
from attention_doctor.argument_names import Filler
from attention_doctor.cache import caches_as_the_full_pass
from attention_doctor.calling import AXES, Mask, parameters_of
from attention_doctor.exam import Exam
from attention_doctor.example import example_of
from attention_doctor.laws import LAWS, Said, corner, heads, inputs, merge, order
from attention_doctor.look import Patch
from attention_doctor.masks import (
    Sight,
    examine_axes,
    examine_joined,
    examine_mask,
    examine_multiplied,
    examine_sight,
    masks_for,
)
from attention_doctor.patient import Crash, Patient, amount
from attention_doctor.report import Report

SWITCH = re.compile(r"self|decoder|cross|context|memory")  # says what a layer attends to
CHUNKS = re.compile(r"chunk|block|window|bucket|segment|tile|span|stride|cache|left|right|look|band", re.IGNORECASE)
MEANS = r"lstm|retention|retnet|abs\("  # divided, but to no shares of 1
OTHER_KINDS = r"linear.?att|retention|retnet|cosine.?att|kernel|non.?local|performer"


def examine_patient(patient: Patient, report: Report) -> list[Mask]:
    """Look at everything that can be seen of a layer; return the forms of its masks."""
    chosen: list[Mask] = []
    try:
        for _ in _parts(patient, report, chosen):
            if not report.ok:
                break
    except Crash as crash:  # at the sizes at which it ran before
        report.say(crash.code, f"{patient.last}: {crash}.")
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:  # one of ours
        report.say("the rest", f"the examination ended by an error of its own, {type(error).__name__}: {error}")
    with suppress(SyntaxError):
        for call in patient.docs.dropped() if report.ok else ():
            report.say("mask-ignored", f"`{call}`: what it returns is dropped, and nothing is hidden.")
    if patient.written:
        what = "; ".join(f"{name}: {how}" for name, how in patient.written.items())
        report.say("mutates-input", f"after a call, {what}.")
    patient.call.masks = {form.name: [form] for form in chosen} or patient.call.masks
    report.findings = [replace(found, example=example_of(found.code, patient)) for found in report.findings]
    return chosen


def _sizes(patient: Patient) -> tuple[int, int]:
    """Return a number of samples and of tokens: no two sizes agree, because a mistake may hide where they do."""
    h, module, call = patient.num_heads or 4, patient.module, patient.call
    said = {v for m in module.modules() for v in vars(m).values() if isinstance(v, int)}  # as many as groups of heads
    batch = next(b for b in (3, 2, 5, 7, 11) if b == 11 or (b not in said and h % b))
    if batch > 3 and not call.lengths and outside.has_no_room(patient, batch, 5):
        batch = 3
    if call.lengths:
        return batch, max(call.lengths)
    before = names.before_picture(call.also)
    if "H" in call.axes or before is not None:  # several rows, and windows where it has some; 3 frames of 4 x 5
        those = sorted([60] * ("F" in call.axes) + [24, 48, 64, 16, 12], key=lambda n: n == patient.d_model)
        those = [n + (before or 0) for n in those]
        fitting = (n for n in those if not outside.fails(patient, patient.tokens(2, n, 0.05)))
        return batch, next(fitting, 6)
    taken = {size for x in (*module.parameters(), *module.buffers()) for size in x.shape} | {patient.head_dim}
    return batch, next(T for T in range(max(5, h + 1), 10**6) if gcd(T, h) == 1 and T not in taken)


def _parts(patient: Patient, report: Report, chosen: list[Mask]) -> Iterator[None]:
    """Look at one thing after the other, and fill in the forms of the masks; where it yields, what is wrong ends it."""
    call, h, (batch, T) = patient.call, patient.num_heads or 4, _sizes(patient)
    T = outside.runs(patient, batch, T, report)
    yield
    outside.repeats_itself(patient, batch, T, report)
    yield
    before = patient.kept()
    guessed = [] if call.stated else [name for name, value in call.also.items() if callable(value)]
    if not patient.differ(patient(patient.tokens(batch, T, 0.5)), patient(patient.noise(batch, T, 33))) and guessed:
        why = f"no token changes the output: is {', '.join(guessed)} something else?"
        return report.say("all but that it runs", why)
    patient.stateful = patient.kept() != before
    exam = Exam(patient, batch, T)
    _look_inside(exam, report)
    if report.ok and exam.first.steps:
        heads(exam, report)
    outside.follows_edges(patient, report)
    if any(map(names.POINTS.search, call.also)) and report.ok:
        _points_in_another_order(exam, report)
    if call.made_up or any(step.of_weights.far for step in exam.first.steps):
        examine_multiplied(exam, report)
    if call.made_up:
        return report.say("all but its steps", f"what {', '.join(call.made_up)} should be is not known")
    yield
    outside.separates_samples(patient, batch, T, report)
    for samples, tokens in ((h, T), (batch, h)) if 2 < h <= 16 and report.ok else ():  # where sizes coincide
        if full := "" if samples == batch else outside.has_no_room(patient, samples, T):
            report.say(f"{samples} samples at once", full)
        elif not call.lengths or tokens in call.lengths:
            outside.separates_samples(patient, samples, tokens, report)
    promised = call.causal or (patient.docs.causal and call.mask is None and not names.placeless(call.also))
    beyond = next((n for n in _beyond(patient, T) if not outside.fails(patient, patient.tokens(1, n, 0.5))), 0)
    base = examine_sight(exam, promised and not beyond, report)
    examine_axes(exam, base, report)
    past = base is not None and not bool(base.sees[0].triu(1).any())
    window = int(base.sees[0].sum(-1).max()) % T if past else 0
    for n in dict.fromkeys(([2 * T + 3] if past else []) + [beyond]) if report.ok and not call.lengths else ():
        with suppress(Crash):
            exam_of_more, more = Exam(patient, 2 if n == beyond else 1, n), Report()
            if n == beyond:
                _look_inside(exam_of_more, more)
            longer = examine_sight(exam_of_more, past or promised, more)
            window = int(longer.sees[0].sum(-1).max()) % n if past and longer is not None else window
            for finding in more.findings:
                report.say(finding.code, f"with {n} tokens, {finding.text}")
            alone = exam.inputs == 1 and call.axes in ("B T d", "T B d")
            if report.ok and past and alone and exam.flat and exam.first.steps and not patient.stateful:
                outside.keeps_to_the_past(patient, T, n, report)
    yield
    if base is None:
        examine_joined(exam, report)
    chosen += _masks(exam, base, report)
    for form in chosen:
        masked, x = patient.with_mask(form), patient.noise(batch, T, 32)
        masked(x, (torch.arange(T) < 2).expand(batch, T, T))
        for mask in [*masks_for(exam, form).values(), *([None] if patient.stateful else [])]:
            outside.forgets(masked, x, mask, "masks", report)
    yield
    for form in [form for form in chosen if form.shows != "documents"]:
        outside.survives_an_empty_row(patient, form, T, report)
    everyone = base is not None and bool(base.sees.all())
    if everyone and base.inside:
        outside.takes_fewer_keys(patient, T, report)
    if call.roles == ["queries", "context"] and not call.guessed:
        outside.depends_on_its_context(patient, T, report)
    ways = [patient, *_with_contexts(patient, batch, T, report)]
    keys = [exam.token_of(j, "k") for j in range(len(exam.first.steps))]
    joined = any(k is not None and len((k[k >= 0] // (exam.B * T)).unique()) > 1 for k in keys)  # of both inputs
    in_order = not joined and (base is None or everyone or past)
    if in_order and not call.pooled and call.axes in ("B T d", "T B d") and not call.lengths:
        own = next((form for form in chosen if form.always and form.over == "pairs"), None)
        caches_as_the_full_pass(patient, window, past and not window, own, report)
    _places(patient, T, report)
    choice = all(n > 1 for n in exam.first.over)  # else no query matters
    outside.dead_parameters(ways, chosen, T, exam.flat and choice, report)


def _points_in_another_order(exam: Exam, report: Report) -> None:
    """Look at the merge once more with points that do not lie along a line, by which a layer may sort its tokens."""
    patient, also = exam.patient, exam.patient.call.also
    points = [name for name, value in also.items() if names.POINTS.search(name) and isinstance(value, Filler)]
    turned = {name: Filler(f"10 * {also[name].text}.roll(1, 1)") for name in points}
    with suppress(Crash):
        other = Exam(patient.calling(replace(patient.call, also=also | turned)), exam.B, exam.T)
        for j in range(len(other.first.steps)):
            if said := merge(other, j):
                report.say(*said)


def _beyond(patient: Patient, T: int) -> list[int]:
    """Return numbers of tokens that exceed the sizes of chunks, windows and the like that a layer holds."""
    held = [item for m in patient.module.modules() for item in vars(m).items()]
    held += [(name, p.default) for name, p in parameters_of(patient.call.target).items()]
    sizes = {v for name, v in held if type(v) is int and CHUNKS.search(name) and T <= v <= 300}
    return [size + size // 2 + 1 for size in sorted(sizes, reverse=True)] if "H" not in patient.call.axes else []


def _look_inside(exam: Exam, report: Report) -> None:
    """Hold each law on each step that was seen."""
    seen = exam.first
    if seen.twice:
        report.say("softmax-twice", "what came out of one softmax went into a second one, which makes it nearly even.")
    elif said := _not_by_their_sum(exam) or _without_steps(exam):
        report.say(*said)
    for law, j in product(LAWS, range(len(seen.steps)) if report.ok else ()):
        if j == 0 and not report.ok:
            return
        try:
            if said := law(exam, j):
                report.say(*said)
        except Crash as crash:
            report.say(f"the law of {law.__name__}", str(crash))
    if report.ok and (deepest := max((step.depth for step in seen.steps), default=0)):
        report.say("several-layers", f"{deepest + 1} steps of attention, one after the other, were seen.")


def _without_steps(exam: Exam) -> Said:
    """Say what was seen where nothing went from a product of queries and keys by a softmax to values."""
    seen = exam.first
    if seen.steps:
        return None
    as_they_are = seen.shares and seen.shares[0][1].factor is not None and not exam.patient.docs.says(OTHER_KINDS)
    if (seen.exps or as_they_are) and seen.divided and not (seen.linear or seen.behind):
        after = exam.look(patch=Patch("value"))
        pairs = zip(seen.written or [seen.out], after.written or [after.out], strict=True)
        most = max(float((more - less).max()) for less, more in pairs)
        if most > 1.05:  # a sink may have a part of it, never more than all
            what = f"where 1 is added to all values, up to {most:.2f} is added to what the heads write"
            return "no-softmax", f"{what}: the weights of a query do not sum to 1."
    if as_they_are and not (seen.divided or seen.behind):
        low, high = seen.shares[0][0].sum(-1).aminmax()
        what = f"scores meet the values as they are; a query's sum to {low:.2f} to {high:.2f}"
        return "no-softmax", f"{what}: nothing makes shares of 1 of them."
    linear = "keys meet values before queries: linear attention, of which no maps are made"
    none = "no product of queries and keys, softmax and product with values was seen"
    return "its steps", linear if seen.linear else none


def _not_by_their_sum(exam: Exam) -> Said:
    """Hold that tokens given twice change no output, where shares are meant to be made, and no order is told."""
    seen, patient, T = exam.first, exam.patient, exam.T
    if any(step.q is not None for step in seen.steps) or patient.call.lengths:
        return None
    if set(seen.over) == {1} and not _beyond(patient, T):
        return "softmax-axis", "a softmax runs over an axis of one number: it gives 1 whatever comes in."
    if not (seen.exps or seen.divided or seen.over) or patient.docs.says(MEANS):
        return None
    x = patient.tokens(2, T, 0.5)
    with suppress(Crash):
        out, turned = _last_output(patient, x)
        once, twice, often = (patient(x.repeat(1, n, 1)) - patient(x.flip(-1).repeat(1, n, 1)) for n in (1, 2, 4))
        once, twice, often = once[:, -1], twice[:, -1], often[:, -1]  # without what is added to all
        off, more = ((b - a).abs().max() / a.abs().max() for a, b in ((once, twice), (twice, often)))
        # A norm has its eps; and what is learned beside the tokens, such as null keys, has ever less of a share.
        if not patient.differ(turned, out) and off > 0.05 and more > 0.7 * off:
            text = "with every token given twice the outputs change: its weights do not sum to 1"
            how = "a softmax runs over another axis" if seen.over else "they are divided by no sum, or not by theirs"
            return "softmax-axis" if seen.over else "no-softmax", f"{text}; {how}."
    return None


def _last_output(patient: Patient, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output of the last token, and what it is with the others before it in another order."""
    turned = torch.cat([x[:, :-1].flip(1), x[:, -1:]], 1)
    return patient(x)[:, -1], patient(turned)[:, -1]


def _masks(exam: Exam, base: Sight | None, report: Report) -> list[Mask]:
    """Hold each mask that it takes to what it says; where sizes coincide, too."""
    patient, masks = exam.patient, exam.patient.call.masks

    def meant() -> list[Mask]:
        found = [form for forms in masks.values() if (form := examine_mask(exam, forms, base, report)) is not None]
        return sorted(found, key=lambda form: {"prefix": 2, "keys": 1}.get(form.shows, 0))

    before, said = patient.kept(), ([*report.findings], [*report.remarks], [*report.not_examined])
    chosen = meant()
    if patient.kept() != before and not patient.stateful:  # once more, with each look at a fresh copy
        patient.stateful, (report.findings, report.remarks, report.not_examined) = True, said
        chosen = meant()
    if not masks:
        report.say("masks", "the layer takes none")
    unclear = [entry.partition(":")[0] for entry in report.not_examined]
    for form in chosen[:1]:
        if form.shows in ("prefix", "documents"):
            report.say(f"masks other than {form.kind}", "the layer takes none")
        if form.shows == "shared" or (form.over, form.rank) == ("keys", 1):
            report.say("masks that differ from sample to sample", "the layer takes one for all")
        said = patient.call.stated or patient.docs.polarity(form.name or "mask", len(chosen) == 1)
        if form.kind in ("allowed", "blocked", "float01") and not said and form.name not in unclear:
            how = "hidden" if form.kind == "blocked" else "may attend"
            told = "is how it behaves; a mask that is read the wrong way round could not be told"
            patient.notes.append(f"True = {how} in {form.name} {told}")
    h = patient.num_heads or 0
    alike = 2 < h <= 16 and h != exam.B and not patient.call.lengths and exam.inputs == 1
    if report.ok and alike and not outside.has_no_room(patient, h, exam.T):
        other = Exam(patient, h, exam.T)
        for form in [form for form in chosen if form.shows != "shared" and (form.name or "masks") not in unclear]:
            examine_mask(other, [form], None, report)
    return chosen


def _with_contexts(patient: Patient, batch: int, T: int, report: Report) -> list[Patient]:
    """Hand over each context, and places, that may be left out; return the ways that run.

    Of a context keys and values must be made; what is given stays as it was.
    """
    ways = []
    call, parts = patient.call, [patient.module, *patient.module.children()]
    held = [item for part in parts for item in (vars(part) | part._modules).items()]
    switched = any((v is None or isinstance(v, bool)) and SWITCH.search(name) for name, v in held)
    left_out = [n for n, p in parameters_of(call.target).items() if p.default is None and n not in call.also]
    wanted = left_out if call.roles == ["queries"] and not switched else []

    def beside(name: str) -> Exam:  # with more tokens than there are queries
        given = replace(call, inputs=(*call.inputs, ("context", name)), masks={})
        return Exam(patient.calling(given), batch, T)

    for name in filter(names.CONTEXT.search, wanted):
        with suppress(Crash):
            exam = beside(name)
            ways.append(exam.patient)
            if not patient.docs.reads(name) and "cross" not in patient.docs.name.lower():  # one signature for several
                report.say("mask-unread", f"{name} is an argument that nothing in it reads.")
                continue
            for law, j in product((order, corner, inputs), range(len(exam.first.steps))):
                if said := law(exam, j):
                    report.say(said[0], f"with {name}: {said[1]}")
            outside.depends_on_its_context(exam.patient, T, report)
    others = (names.CONTEXT, names.MASK, names.CACHE, names.FLAG, names.ABOUT_PLACES)
    for name in [n for n in wanted if patient.docs.reads(n) and not any(of.search(n) for of in others)]:
        with suppress(Crash):  # what such a name means is not known, but tokens may be joined to the others
            exam = beside(name)
            for j in range(len(exam.first.steps)):
                if said := corner(exam, j):
                    report.say(said[0], f"with {name}: {said[1]}")
    for name in [n for n in left_out if names.ABOUT_PLACES.search(n) and n not in call.masks]:
        for value in [Filler("torch.flip(x, (-1,))" + AXES[call.axes][0]), *names.further(name, patient.head_dim)]:
            given = patient.calling(replace(call, also=call.also | {name: value}))
            given.written = {}
            if not outside.fails(given, patient.tokens(batch, T, 0.5)):
                ways.append(given)
                patient.written |= {f"with {name}, {what}": how for what, how in given.written.items()}
                break
    return ways


def _places(patient: Patient, T: int, report: Report) -> None:
    """Remark whether it tells equal tokens at different places apart."""
    with suppress(Crash):
        one, two = _last_output(patient, patient.tokens(1, T, 0.5))
        if report.ok and not patient.call.pooled and patient.differ(one, two):
            text = f"another order of the other tokens moves the last output by up to {amount(two - one)}."
            report.say("positions", text)

"""What no single step shows: whether a layer runs, repeats itself, keeps samples apart, and uses all that it has."""

import re
from contextlib import suppress
from dataclasses import replace
from inspect import unwrap
from itertools import product
from types import CodeType

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from attention_doctor.argument_names import EDGES, Filler
from attention_doctor.calling import Mask, parameters_of, picture
from attention_doctor.look import storage
from attention_doctor.patient import Crash, Patient, amount
from attention_doctor.report import Report
from headview.eye import Watching, tensors

DRAWS = {"randn", "randn_like", "normal", "normal_", "randperm", "exponential_"}  # slots, rotations, orders: on purpose
DROPS = {"bernoulli", "bernoulli_", "native_dropout", "rand", "rand_like", "uniform_"}


def runs(patient: Patient, batch: int, T: int, report: Report) -> int:
    """Return a number of tokens at which the layer runs; look at the shape and the numbers of its output."""
    first, lengths = "", patient.call.lengths
    if lengths:
        report.say("other numbers of tokens", f"the layer takes {', '.join(map(str, lengths))} only")
    for tokens in (T,) if lengths else (T, 6, 4, 3, 2):
        try:
            out = _first(patient, patient.tokens(batch, tokens, 0.05))
        except Crash as crash:
            if crash.code == "shape":
                report.say("shape", f"{crash}.")
                return T
            first = first or f"{patient.last}: {crash}"
            continue
        if tokens != T:
            if tokens > T or any(fails(patient, patient.tokens(batch, n, 0.05)) for n in range(2, tokens)):
                own = any(map(callable, patient.call.also.values())) or tokens == batch  # are its axes others?
                report.say("other sizes" if own else "crash", f"{first}; it runs with {tokens} tokens.")
                return tokens
            report.say(f"sequences of {T} tokens", f"the layer raised ({first}); examined with {tokens}")
        elif not lengths and (why := fails(patient, longer := patient.tokens(1, 2 * T, 0.5))):
            if (fresh := patient.unused()) is not None and not fails(fresh, longer):
                report.say("crash", f"after a call with {T} tokens, {2 * T} raise {why}; of a fresh copy they do not.")
                return T
            report.say(f"more than {T} tokens", f"the layer raised ({why}); has it a longest T?")
        if not out.isfinite().all():
            bad = int((~out.isfinite()).sum())
            report.say("not-finite", f"without a mask, {bad} of {out.numel()} numbers are NaN or infinite.")
        if out.shape[-1] != patient.d_model:
            report.say("output-width", f"{patient.d_model} features come in, {out.shape[-1]} go out.")
        if patient.call.mask is not None and patient.call.mask.always:
            report.say("needs-mask", "it cannot be called without a mask; all open stands for none here.")
        return tokens
    report.say("crash", f"{first}.")
    return T


def _first(patient: Patient, x: Tensor) -> Tensor:
    """Return the output; where it cannot be called without a mask, it always gets one from now on."""
    usual = patient.call.mask
    try:
        return patient(x)
    except Crash:
        for form in (form for forms in patient.call.masks.values() for form in forms):
            patient.call.mask = replace(form, always=True)
            with suppress(Crash):
                return patient(x)
        patient.call.mask = usual
        raise


def fails(patient: Patient, x: Tensor) -> str:
    """Return what the layer raises; "" where it runs."""
    try:
        patient(x)
    except Crash as crash:
        return str(crash)
    return ""


def has_no_room(patient: Patient, samples: int, T: int) -> str:
    """Return why it takes no such number of samples and none above, as a cache made for fewer; "" where it does.

    What fails for just this number is a mistake, and is left to be found.
    """
    raised = fails(patient, patient.tokens(samples, T, 0.5))
    limited = raised and fails(patient, patient.tokens(samples + 1, T, 0.5))
    return f"the layer raised ({raised}); has it room for fewer?" if limited else ""


def repeats_itself(patient: Patient, batch: int, T: int, report: Report) -> None:
    """Call it again with the same input; then with others, as a copy is called that has not seen the first."""
    x = patient.tokens(batch, T, 0.5)
    before = patient(x)
    for _ in range(3):
        if off := _off(patient, patient(x), before):
            with Read() as read:
                patient(x)
            if read.names & DRAWS and not read.names & DROPS:
                raise Crash("it begins with numbers drawn at random", "all but that it runs")
            seen = f"the same input gave outputs that differ by up to {off}; nothing else was examined, since every"
            return report.say("not-deterministic", f"{seen} comparison would fail.")
    for p in parameters_of(patient.call.target).values():  # a switch, or a number, that is another for one call alone
        switch = type(p.default) is int or (isinstance(p.default, bool) and "causal" in p.name)
        for other in (not p.default, 2) if switch and p.name not in patient.call.also else ():
            with suppress(Exception), patient.quietly(), torch.no_grad():
                given = patient.inputs(x.to(patient.dtype))
                patient.call.result(given, None, **{p.name: type(p.default)(other)})
    more = patient.noise(batch, T, 31)
    forgets(patient, more, None, "other tokens", report)
    return forgets(patient, torch.cat([more, more[:1]]), None, "a batch of another size", report)


def _off(patient: Patient, out: Tensor, before: Tensor) -> str:
    """Say by how much two answers to the same question differ; "" where they do not, or have no numbers to compare."""
    if out.shape != before.shape:
        return "another shape"
    known = before.isfinite().all() or out.isfinite().all()
    return amount(out - before) if known and patient.differ(out, before) else ""


def forgets(patient: Patient, x: Tensor, mask: Tensor | None, between: str, report: Report) -> None:
    """Compare its answer with that of a copy that was never called: nothing may be kept that changes it."""
    fresh = patient.unused()
    if fresh is None:
        return
    try:
        later, first = (each(x, mask).nan_to_num(nan=0.0) for each in (patient, fresh))
    except Crash:  # the sizes themselves are the business of others
        return
    if off := _off(patient, later, first):
        seen = f"a call after calls with {between}, and the same call of a fresh copy, differ by up to {off}"
        report.say("not-deterministic", f"{seen}: something is kept from call to call and changes later answers.")


def separates_samples(patient: Patient, batch: int, T: int, report: Report) -> None:
    """Change one sample, look at the others; compare a sample alone with the same one in its batch."""
    if patient.call.axes == "T d":
        return
    x = patient.tokens(batch, T, 0.5)
    changed = x.clone()
    changed[0] += patient.noise(1, T, 7)[0]
    try:
        before, after = patient(x), patient(changed)
        if not before.isfinite().all():  # numbers that are too large: nothing can be compared
            return
        off, little = _off(patient, after[1:], before[1:]), 1e-3 * float(before.abs().max())  # as an iteration leaves
        if off and not float((after - before)[1:].abs().max()) < little:
            seen = f"{batch} samples: changing sample 0 moved the outputs of the others by up to {off}."
            report.say("mixes-samples", seen)
        with torch.no_grad():
            maps = [patient.asked(each.to(patient.dtype), always=True) for each in (x, changed)]
        for one, two in zip(*maps, strict=False) if batch != patient.num_heads else ():
            if one.shape == two.shape and one.is_floating_point() and (len(one), *one.shape[-2:]) == (batch, T, T):
                if off := _off(patient, two[1:], one[1:]):
                    seen = f"changing sample 0 moved the maps that it returns for the others by up to {off}."
                    report.say("mixes-samples", seen)
        for i in (0, batch - 1):  # the last one as well: what goes by the place in the batch spares sample 0
            if off := _off(patient, patient(x[i : i + 1]), before[i : i + 1]):
                report.say("mixes-samples", f"sample {i} alone and in a batch of {batch} differ by up to {off}.")
    except Crash as crash:  # in its own words it may refuse, also what was made up for it
        refused = isinstance(crash.__cause__, AssertionError) or any(map(callable, patient.call.also.values()))
        report.say("other sizes" if refused else crash.code, f"{patient.last}: {crash}.")


def takes_fewer_keys(patient: Patient, T: int, report: Report) -> None:
    """Hand over more keys than queries, where queries, keys and values are inputs of their own."""
    call = patient.call
    special = call.also or call.lengths or call.pooled or call.causal or call.mask or call.is_torch
    if "keys" not in call.roles or special or call.axes not in ("B T d", "T B d"):
        return
    try:
        patient([patient.noise(2, T + 2 * (role != "queries"), 50 + i, i) for i, role in enumerate(call.roles)])
    except Crash as crash:
        if isinstance(crash.__cause__, RuntimeError):  # what it refuses in its own words is no accident
            text = f"{T} queries and {T + 2} keys and values: {crash}; with {T} of each it runs"
            report.say("crash", f"{text}. Queries and keys may be different in number.")


def follows_edges(patient: Patient, report: Report) -> None:
    """Hold that a node of a graph does not depend on one from which no edge leads to it; its edges were made up."""
    edges = [name for name, value in patient.call.also.items() if getattr(value, "text", "") == EDGES]
    for name, ends in product(edges, ("[[0, 0], [1, 2]]", "[[1, 2], [0, 0]]")):
        given = patient.calling(replace(patient.call, also=patient.call.also | {name: Filler(f"torch.tensor({ends})")}))
        x = patient.tokens(1, 4, 0.5)
        other = torch.cat([x[:, :2], x[:, 2:3].roll(1, -1), x[:, 3:]], 1)
        with suppress(Crash):
            if off := _off(patient, given(other)[:, 1], given(x)[:, 1]):
                seen = f"edges {ends}: node 1 moves by {off} with node 2, of which no edge leads to it"
                report.say("softmax-axis", f"{seen}: shares are those of the edges that leave a node.")


def keeps_to_the_past(patient: Patient, T: int, more: int, report: Report) -> None:
    """Hold that the outputs of a layer in which no token sees a later one do not hang on how many follow."""
    x = patient.tokens(1, more, 0.5)
    with suppress(Crash):
        if off := _off(patient, patient(x)[:, :T], patient(x[:, :T])):
            seen = f"no token sees a later one, and yet the first {T} of {more} tokens and these {T} alone differ"
            report.say("future-leak", f"{seen} by up to {off}: something goes by how many there are.")


def depends_on_its_context(patient: Patient, T: int, report: Report) -> None:
    """Hold that a gradient reaches the second input; one of zero is enough, as behind a gate that is shut."""
    inputs = [x.to(patient.dtype).requires_grad_() for x in patient.inputs(patient.tokens(2, T, 0.5))]
    with suppress(Exception), patient.quietly(), torch.enable_grad():  # whatever another's code raises
        out, other = patient.call(inputs), patient.call([*inputs[:-1], inputs[-1].flip(-1)])
        unread = torch.autograd.grad(out.sum(), inputs, allow_unused=True)[-1] is None
        if unread and torch.equal(out, other):  # or it is frozen
            report.say("input-ignored", f"no gradient reaches the {patient.call.inputs[-1][1] or 'second input'}.")
        longer = patient.inputs(patient.tokens(2, T + 2, 0.5))[-1].to(patient.dtype).requires_grad_()
        (reached,) = torch.autograd.grad(patient.call([inputs[0], longer]).square().sum(), [longer])
        lost = [t for t in range(T + 2) if patient.call.axes == "B T d" and not bool(reached[:, t].any())]
        if lost == [T, T + 1] and patient.call.mask is None:
            text = f"beside {T} queries no gradient reaches the tokens {lost} of a second input of {T + 2}: is it cut?"
            report.say("key-unused", text)


# ------------------------------------------------------------------------------------------------------- empty rows


def survives_an_empty_row(patient: Patient, form: Mask, T: int, report: Report) -> None:
    """Hide all keys from one query, or from a sample where that is all that can be said, and see what it reaches."""
    empty = torch.zeros(2, T, dtype=torch.bool)
    rows, where = {
        "any": ((0, 1), "query 1 of sample 0"),
        "shared": ((slice(None), 1), "query 1 of every sample"),
    }.get(form.shows, ((0,), "sample 0"))
    empty[rows] = True
    mask, patient, x = ~empty[:, :, None].expand(2, T, T), patient.with_mask(form), patient.tokens(2, T, 0.5)
    where += " may see no key"
    try:
        out = patient(x, mask)
    except Crash as crash:
        return report.say("empty-row-refused", f"{where}: {crash}.")
    if out.shape[:2] != empty.shape:
        return None
    broken = ~out.isfinite().all(-1)
    seen = f"{where}: {int(broken.sum())} of {broken.numel()} outputs are NaN or infinite"
    spread = int((broken & ~empty).sum())
    if bool(broken.any()) and form.kind == "additive":  # the -inf is the caller's
        return report.say("empty-row-inf", f"{seen}, where the mask that is added holds -inf.")
    if spread and form.shows in ("any", "shared"):  # else it is an empty sample, which nobody hands over
        return report.say("nan-on-empty-row", f"{seen}, {spread} of them of queries that see keys.")
    bad = _bad_gradient(x, mask, ~broken, patient)
    if bool(broken.any()) or bad:
        also = f"{bad} not finite in the gradient of a loss over the others" if bad else "the others are finite"
        return report.say("empty-row-nan", f"{seen}; {also}.")
    sample, query = empty.nonzero()[0].tolist()
    x[sample, T - 1] += patient.noise(1, T, 3)[0, 0]
    if patient.differ(patient(x, mask)[sample, query], out[sample, query]):
        report.say("empty-row-mean", "a query that may see no key gets an average over hidden keys, as -1e9 does.")
    return None


def _bad_gradient(x: Tensor, mask: Tensor, rows: Tensor, patient: Patient) -> str:
    """Say which gradients of a loss over some outputs, `rows` `(B, T)`, are not finite; "" where all are."""
    leaf = x.clone().to(patient.dtype).requires_grad_()
    named = {"the input": leaf} | {n: p for n, p in patient.module.named_parameters() if p.requires_grad}
    try:
        with patient.quietly(), torch.enable_grad():
            out = patient.call(patient.inputs(leaf), mask)
            loss = out[rows].square().sum()
            grads = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    except Exception:  # whatever another's code raises
        return ""
    bad = [what for what, grad in zip(named, grads, strict=True) if grad is not None and not grad.isfinite().all()]
    return f"those of {bad[0]} are" if bad else ""


# ------------------------------------------------------------------------------------------------- parameters


def dead_parameters(ways: list[Patient], forms: list[Mask], T: int, flat: bool, report: Report) -> None:
    """Find the parameters that no gradient reaches, in evaluation and in training, in all ways, with masks and without.

    A gradient of zero is no proof (a gate that starts at 0, the bias of the keys); no gradient at all is.
    """
    patient, module, what = ways[0], ways[0].module, "dead parameters"
    named = {n: p for n, p in module.named_parameters() if p.requires_grad}
    if not named:
        return report.say(what, "no parameters are known; hand the module over with module=")
    read = Read()
    try:
        with read:
            reached = _reached(ways, named, forms, T)
        if getattr(patient.call.target, "__name__", "forward") not in ("forward", "__call__"):
            named = {n: p for n, p in named.items() if n in reached or storage(p) in read.storages}  # else another's
        dead = {*named} - {*reached}
        wanted = [n for n, p in parameters_of(patient.call.target).items() if p.default is p.empty]
        if dead and not patient.call.stated and any(patient.call.also.get(n, n) is None for n in wanted):
            return report.say(what, f"{', '.join(sorted(dead)[:4])}: perhaps they are for an argument that was None")
        # What no operation reads, and is named where the layer computes, waits for an argument that was left out.
        other = {n for n in dead if storage(named[n]) not in read.storages and _is_named(module, n)}
        if dead - other:
            module.train()
            with suppress(Exception):  # whatever another's code raises in training
                other |= dead & {*_reached(ways, named, forms, T)}
            module.eval()
        if other:
            report.say(what, f"{', '.join(sorted(other)[:4])}: they are for another call, or for training")
        for name in [name for name in named if "sink" in name and name not in dead]:
            if not _has_an_effect(patient, named[name], T):
                report.say("dead-parameters", f"other numbers in {name} change no output.")
        for name, table in named.items() if patient.call.lengths == (T,) else ():  # all its distances are there
            rows, columns = picture(T)
            idle = (~reached[name].flatten(1).any(1)).nonzero() if name in reached and table.ndim == 2 else []
            if len(table) == (2 * rows - 1) * (2 * columns - 1) and len(idle) > 0:
                text = f"no gradient reaches {len(idle)} of {len(table)} rows of {name}"
                where = f"one for each distance in a window of {rows} × {columns}"
                report.say("dead-parameters", f"{text}, {where}: do several share one entry?")
        for name in named if flat and not dead else ():
            owner = module.get_submodule(name.rpartition(".")[0])
            if rows := _idle_rows(patient, named[name], reached[name], owner, name, T):
                text = f"no gradient reaches {len(rows)} rows of {name}, from row {rows[0]} on."
                report.say("dead-parameters", text)
    except Exception as error:  # whatever another's code raises
        return report.say(what, f"no gradient could be taken: {type(error).__name__}: {error}".splitlines()[0])
    if dead := sorted(dead - other):
        size, some = sum(named[n].numel() for n in dead), ", ".join(dead[:4]) + ", …" * (len(dead) > 4)
        text = f"no gradient reaches {len(dead)} of {len(named)} parameters: {some} ({size} numbers)."
        report.say("dead-parameters", text)
    return None


class Read(Watching):
    """Notes the operations of a call, and which storages they read."""

    def __init__(self):
        super().__init__()
        self.storages: set[int] = set()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.name().partition("::")[2].partition(".")[0])
        self.storages |= {storage(x) for x in tensors(args, kwargs or {})}
        return func(*args, **kwargs or {})


def _is_named(module: nn.Module, name: str) -> bool:
    """Whether the methods of each module on the way to a parameter, but for those that fill it, name the next part."""
    for part in name.split("."):
        if not type(module).__module__.startswith("torch."):
            kinds = [type(v) for v in vars(module).values() if callable(v)]  # such as a processor
            held = (item for kind in (*type(module).__mro__[::-1], *kinds) for item in vars(kind).items())
            methods = {n: unwrap(f) for n, f in held if hasattr(f, "__code__")}
            if not any(_names(f.__code__, part) for n, f in methods.items() if not re.search(r"init|reset|load", n)):
                return False
        module = getattr(module, part)
    return True


def _names(code: CodeType, name: str) -> bool:
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return name in code.co_names or any(_names(part, name) for part in inner)


def _reached(ways: list[Patient], named: dict[str, nn.Parameter], forms: list[Mask], T: int) -> dict[str, Tensor]:
    """Return of each parameter that a gradient reaches how large it is, over several inputs and masks."""
    found: dict[str, Tensor] = {}
    for patient, form, spread in [*product(ways, [None], [1.0, 0.05]), *product(ways[:1], forms, [0.5])]:
        mask = None if form is None else torch.ones(2, T, T, dtype=torch.bool).tril()
        if form is not None and form.shows in ("keys", "prefix"):
            mask = (torch.arange(T) < T - 2).expand(2, T, T)
        x = patient.tokens(2, T, spread).to(patient.dtype).requires_grad_()
        total = patient.with_mask(form).everything(x, mask)
        grads = torch.autograd.grad(total, list(named.values()), allow_unused=True)
        for name, grad in zip(named, grads, strict=True):
            if grad is not None:
                found[name] = found.get(name, 0) + grad.abs()
    return found


def _has_an_effect(patient: Patient, of: nn.Parameter, T: int) -> bool:
    """Whether other numbers in a parameter change an output."""
    x, kept, generator = patient.tokens(2, T, 1.0), of.detach().clone(), torch.Generator().manual_seed(0)
    xs, far = (x, 0.01 * x), 3 * max(1.0, float(kept.abs().max()))  # beside sharp scores it may be lost
    before = [patient(x) for x in xs]
    of.data += far * torch.randn(kept.shape, generator=generator).to(kept)
    moved = any(patient.differ(patient(x), out) for x, out in zip(xs, before, strict=True))
    of.data.copy_(kept)
    return moved


def _idle_rows(patient: Patient, of: nn.Parameter, grad: Tensor, owner: nn.Module, name: str, T: int) -> list[int]:
    """Return the rows of a projection that have no part in the output: runs of one length, not scattered ones."""
    if of.ndim < 2 or of[0].numel() < 2:
        return []
    idle = ~grad.flatten(1).any(1)
    if bool(idle.all()):  # perhaps what it multiplies begins as zeros
        return []
    runs = {len(run) for run in re.findall("1+", "".join("01"[int(row)] for row in idle))}
    each = of.ndim == 3 and len(idle) == patient.num_heads and "expert" not in name  # else rows wait to be chosen
    projects = (isinstance(owner, (nn.Linear, _ConvNd)) or "in_proj" in name) and len(idle) >= 6 and runs != {1}
    if not (len(runs) == 1 and int(idle.sum()) * 8 >= len(idle) and (each or projects) and bool(of.any())):
        return []
    x, kept = [patient.tokens(3, T, spread) for spread in (1.0, 0.05)], of.detach().clone()
    before, noise = [patient(one) for one in x], torch.randn(kept.shape, generator=torch.Generator().manual_seed(0))
    for size in (0.3, 3.0):  # other numbers in these rows leave every output as it is; what starts at 0 silences others
        of.data[idle] = size * kept.abs().max() * noise.to(kept)[idle]
        moved = any(patient.differ(patient(one), out) for one, out in zip(x, before, strict=True))
        of.data.copy_(kept)
        if moved:
            return []
    return idle.nonzero().flatten().tolist()

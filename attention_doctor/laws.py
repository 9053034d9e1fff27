"""What must hold of a step of attention: a law is a record, and speaks only of a step that it has recognised.

Each takes the examination and the number of a step, and yields what it has to say: a finding by its code with the
numbers that were seen, a remark, or what it could not examine and why.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attention_doctor.exam import MANY, Exam
from attention_doctor.look import Step

Said = tuple[str, str, str]  # "find" | "remark" | "skip"; the code, or what; the evidence, or why

LONG = {"q": "queries", "k": "keys", "v": "values"}
INPUT = {"queries": "first input", "context": "context", "keys": "keys", "values": "values"}


class Law(NamedTuple):
    """A law: its name, and what says whether it holds."""

    name: str
    check: Callable[[Exam, int], Iterator[Said]]


def split(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that each query, key and value is a row of one token, and each token stands once in a map."""
    step = exam.first.steps[j]
    for name in "qkv":
        rows = exam.of(j, name)
        if rows is None:
            yield "skip", f"the split of the {LONG[name]}", "they are not rows of a projection, moved"
            continue
        size = len(exam.first.projections[getattr(step, f"of_{name}").of[0]])
        many = rows == MANY
        if bool(many.any()):
            if getattr(step, name).shape[-1] in (size // exam.B, size):
                yield "skip", f"the split of the {LONG[name]}", "attention over channels: a row holds one of all tokens"
                return
            if rows.shape[1] != exam.T:
                yield "skip", f"the split of the {LONG[name]}", "its maps hold something else than tokens"
                return
            n, r = (int(i) for i in many.nonzero()[0])
            where = f"row {r} of map {n} of the {LONG[name]} is made of several rows of its projection."
            yield "find", "mixes-tokens", where
            return
        of_keys = exam.of(j, "k")
        over_heads = of_keys is not None and all(
            len(set(line)) == 1 < len(line) for x in (rows, of_keys) for line in x.tolist()
        )
        if name == "q" and (over_heads or (step.used.shape[1:] == (1, 1) and len(step.used) == exam.B * exam.T)):
            where = (
                f"the {rows.shape[1]} queries of a map come from one token, as its keys do: no map holds two tokens."
            )
            yield "find", "no-mixing", where
            return
        for n, line in enumerate(rows.tolist()):
            real = [r for r in line if r >= 0]
            tokens = [r % exam.T for r in real]
            if name == "k" and len(set(real)) == len(real) - 1 and set(tokens) == set(range(exam.T - 1)):
                yield "find", "key-unused", f"the keys of map {n} are of the tokens {', '.join(map(str, tokens))}."
                return
            often = {real.count(r) for r in real}
            if 1 < len(set(real)) < len(real) and not (name == "q" and len(set(tokens)) == exam.T and len(often) == 1):
                shown = ", ".join(map(str, tokens[:8]))
                where = f"map {n} has one token in several rows of its {LONG[name]}: tokens {shown}."
                yield "find", "mixes-tokens", where
                return


def samples(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that queries, keys and values of a map are of one sample."""
    per, of = exam.B * exam.T, {}
    for name in "qkv" if exam.B > 1 else "":
        tokens = exam.token_of(j, name)
        if tokens is not None:
            of[name] = [{t % per // exam.T for t in line if t >= 0} for line in tokens.tolist()]
    for name, maps in of.items():
        if mixed := [n for n, found in enumerate(maps) if len(found) > 1]:
            those = ", ".join(map(str, sorted(maps[mixed[0]])))
            yield "find", "mixes-samples", f"map {mixed[0]} holds {LONG[name]} of samples {those}."
            return
    for a, b in (("q", "k"), ("k", "v"), ("q", "v")):
        if a in of and b in of and len(of[a]) == len(of[b]) and exam.straight(j):
            for n, (one, two) in enumerate(zip(of[a], of[b], strict=True)):
                if one and two and one != two:
                    where = f"map {n} has {LONG[a]} of sample {min(one)} and {LONG[b]} of sample {min(two)}."
                    yield "find", "mixes-samples", where
                    return


def order(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that key and value of a column are of one token."""
    step, per, (k, v) = exam.first.steps[j], exam.B * exam.T, (exam.token_of(j, name) for name in "kv")
    if (
        step.soft is not None
        and step.raw is not None
        and step.soft.shape[-1] == step.raw.shape[-1] + 1 == len(step.used[0, 0]) + 1
    ):
        soft, scores = (x.reshape(*step.used.shape[:2], -1) for x in (step.soft, step.scores))
        off = (scores[..., :-1] - step.raw * (step.of_scores.factor or 1)).abs()
        if bool((off[off.isfinite()] < 1e-4).all()) and torch.equal(soft[..., 1:], step.used):
            yield (
                "find",
                "mixes-tokens",
                "the first of the weights is cut off, a last score was added: key j + 1 meets value j.",
            )
            return
    if k is None or v is None or k.shape != v.shape or not exam.straight(j):
        return
    off = (k >= 0) & (v >= 0) & (k % per != v % per)
    if bool(off.any()):
        n, c = (int(i) for i in off.nonzero()[0])
        key, value = int(k[n, c]) % exam.T, int(v[n, c]) % exam.T
        where = f"column {c} of map {n} has the key of token {key} and the value of token {value}."
        yield "find", "mixes-tokens", where


def merge(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that what the heads write for a token comes out together, and at that token."""
    step, groups = exam.first.steps[j], exam.groups[j]
    if not bool((groups >= 0).any()):
        return
    merged, out = exam.arrivals(j)
    tokens = exam.token_of(j, "q")
    known = tokens is not None and not bool((tokens < 0).any())
    if merged is not None and bool((merged == MANY).any()):
        if len(merged) != int(groups.max()) + 1:
            yield "skip", "the merge of the heads", "its rows are pooled before they are projected"
            return
        if known and bool((exam.arrivals(j, samples=True)[0] == MANY).any()):
            where = "rows before the output projection hold what heads wrote for several samples."
            yield "find", "mixes-samples", where
            return
        where = (
            f"{int((merged == MANY).sum())} of {len(merged)} rows before the output projection hold what heads wrote"
        )
        yield "find", "mixes-tokens-on-merge", f"{where} for several tokens."
        return
    tokenwise = tuple(out.shape) == (exam.B, exam.T) and not exam.patient.call.guessed
    if not tokenwise or not known or exam.depth(step) != max(exam.depth(s) for s in exam.first.steps):
        return
    if bool((out == MANY).any()):
        if merged is None:
            where = f"{int((out == MANY).sum())} of {out.numel()} outputs hold what heads wrote for several tokens."
            yield "find", "mixes-tokens-on-merge", where
        return
    at = dict(zip(groups.flatten().tolist(), tokens.flatten().tolist(), strict=True))
    for b, t in (out >= 0).nonzero().tolist():
        came = at.get(int(out[b, t]))
        if came is not None:
            sample, place = divmod(came % (exam.B * exam.T), exam.T)
            if sample != b:
                yield "find", "mixes-samples", f"what heads wrote for sample {sample} comes out in sample {b}."
                return
            if place != t:
                where = f"what heads wrote for token {place} comes out at token {t}."
                yield "find", "mixes-tokens-on-merge", where
                return


def shares(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that the weights of a query, as they multiply the values, are shares of 1."""
    step = exam.first.steps[j]
    views = [step.used, step.used.unflatten(0, (exam.B, -1)) if len(step.used) % exam.B == 0 else step.used]
    along = any(
        x.shape[axis] > 1 and bool(((x.sum(axis) - 1).abs() < 1e-3).all()) for x in views for axis in range(x.ndim - 1)
    ) or bool(((step.used.sum((1, 2)) - 1).abs() < 1e-3).all())
    if step.of_weights.far or step.q is None:
        yield "skip", "the sums of the weights", "they are mixed, gated, or made of keys alone"
        return
    sums = step.used.double().sum(-1)
    low, high = float(sums.min()), float(sums.max())
    if (sums - 1).abs().max() < 1e-2 or step.fused or not bool(sums.isfinite().all()):
        return
    if step.soft is not None and step.soft.numel() == step.used.numel() and not step.turned:
        before = step.soft.reshape(step.used.shape)
        cut = (step.used == 0) & (before > 0)
        if bool(cut.any()) and torch.equal(step.used, before.masked_fill(cut, 0.0)):
            late = bool((cut == torch.ones_like(cut).triu(1)).all())
            where = f"keys are hidden behind the softmax: the weights of a query sum to {low:.2f} to {high:.2f}"
            code = "future-leak" if late else "mask-leaks"
            yield "find", code, f"{where}, and what was hidden has had its part in the sum."
            return
    sink = _is_sink(step) and high < 1 + 1e-5 and high - low > 1e-3 * high
    summed = f"the weights of a query sum to {low:.2f} to {high:.2f}"
    if not exam.flat and not step.turned:
        yield "skip", "the sums of the weights", "its maps are too sharp to be seen as shares"
    elif step.turned or along:
        yield "find", "softmax-axis", f"{summed} over its keys; along another axis they sum to 1."
    elif high - low < 1e-3 * high:
        where = f"the weights are multiplied by {high:.4g} behind the softmax: a query's sum to {high:.4g}, not 1."
        yield "find", "wrong-scale", f"{where} {named(high, step, exam)}"
    elif sink or (step.soft is not None and step.soft.numel() > step.used.numel() and bool((sums < 1 - 1e-6).all())):
        yield "skip", "the sums of the weights", f"they sum to {low:.2f} to {high:.2f}: a sink takes the rest"
    else:
        yield "find", "no-softmax", f"{summed}."


def _is_sink(step: Step) -> bool:
    """Whether weights are those of a softmax but for one more number in its sum, the same for all queries of a map."""
    if step.raw is None or step.of_scores.factor is None or step.raw.shape != step.used.shape:
        return False
    scores, known = step.raw.double() * step.of_scores.factor, step.used > 1e-12
    scores = scores - scores.amax(-1, keepdim=True)
    logs = torch.where(known, step.used.double().log() - scores, torch.nan)  # - log of the whole sum
    rounding = 1e-3 + 1e-5 * float(step.raw.abs().max())
    whole = torch.exp(-logs.nanmean(-1))
    largest = step.raw.double().amax(-1) * step.of_scores.factor
    rest = (whole - torch.where(known, scores.exp(), 0.0).sum(-1)) * largest.exp()
    spread = (logs - logs.nanmean(-1, keepdim=True)).abs().nan_to_num(0.0).max()
    even = (rest - rest.mean(-1, keepdim=True)).abs().max() < 0.02 * rest.abs().max() + 1e-6
    return bool(spread < rounding) and (bool(even) or float(step.raw.abs().max()) > 30)


def scale(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that scores are q k^T / sqrt(head_dim)."""
    step = exam.first.steps[j]
    if step.q is None or step.of_scores.far:
        yield "skip", "the scale", "the scores are no product of queries and keys alone"
        return
    infos = step.of_q, step.of_k
    if any(i.normed for i in infos):
        yield "skip", "the scale", "queries or keys are normed"
        return
    factors = [i.factor if i.kind in ("projection", "") and not i.far else None for i in infos]
    factors.append(step.of_scores.factor)
    if None in factors:
        yield "skip", "the scale", "it is learned, or follows from the input"
        return
    rows = exam.of(j, "q")
    if step.q.shape[-1] in (exam.T, exam.B * exam.T) and rows is not None and MANY in rows:
        return
    factor, head_dim = math.prod(factors), step.q.shape[-1]
    if abs(factor * head_dim**0.5 - 1) < 0.01:
        return
    said = f"scores are q·k times {factor:.4g}; 1/√{head_dim} is {head_dim**-0.5:.4g}."
    kind, code = ("remark", "unusual-scale") if meant(exam, factor, head_dim) else ("find", "wrong-scale")
    yield kind, code, f"{said} {named(factor, step, exam)}".strip()


def named(factor: float, step: Step, exam: Exam) -> str:
    """Return what a factor is, where it is one of the usual mistakes."""
    head_dim = step.v.shape[-1] if step.q is None else step.q.shape[-1]
    d, h = exam.patient.d_model, exam.patient.num_heads or 0
    known = {
        "1: nothing is scaled": 1.0,
        f"1/√d_model, √{d}": d**-0.5,
        f"√head_dim: multiplied where it should be divided, √{head_dim}": head_dim**0.5,
        f"1/head_dim, 1/{head_dim}": 1 / head_dim,
        f"1/d_model, 1/{d}": 1 / d,
        f"1/√num_heads, √{h}": h**-0.5 if h else 0.0,
        f"1/√T of {exam.T} tokens": exam.T**-0.5,
        f"1/√√{head_dim}, once where it stands on queries and keys": head_dim**-0.25,
        "head_dim, without its root": float(head_dim),
    }
    names = [name for name, value in known.items() if value and abs(factor / value - 1) < 0.01]
    return f"It is {names[0]}." if names else ""


def meant(exam: Exam, factor: float, head_dim: int) -> bool:
    """Whether another scale is one that some take on purpose, and this layer's own words say so."""
    says = exam.patient.docs.says
    if says(r"softmax_scale|query_pre_attn_scalar|attention_multiplier|logit_scale|temperature|mup\b|µp|mu-?p"):
        return True
    if abs(factor - 1) < 1e-3:
        return says(
            r"\bt5|unscaled|no scal|without scal|not scal|scale\s*=\s*(False|1)|folded|absorb|scal\w+ into? the"
        )
    return abs(factor * head_dim - 1) < 1e-3 and says(r"1\s*/\s*d\b|maximal update")


def twins(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that heads differ, and that each reaches an output."""
    step = exam.first.steps[j]
    dead = [] if step.gated else list(exam.silent(j))  # a gate may be shut
    if dead:
        if len(dead) < len(step.used):
            what = f"what {len(dead)} of its {len(step.used)} maps attend to (map {dead[0]} first) reaches no output."
            yield "find", "heads-unused", what
        return
    per = len(step.used) // exam.B
    if per > 1 and len(step.used) == per * exam.B:
        maps = step.used.view(exam.B, per, *step.used.shape[1:])
        uniform = (maps - maps.mean(-1, keepdim=True)).abs().max() < 1e-4
        pairs = [(g, h) for h in range(per) for g in range(h) if torch.allclose(maps[:, g], maps[:, h], atol=1e-6)]
        nothing = step.used.amax() < 1e-3  # a sink takes it all
        if pairs and not (uniform or nothing) and exam.flat and exam.of(j, "q") is not None:
            g, h = pairs[0]
            yield "find", "heads-unused", f"heads {g} and {h} of {per} have the same map: they are twins."


def same_steps(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that heads which are computed one after another differ."""
    step = exam.first.steps[j]
    uniform = (step.used - step.used.mean(-1, keepdim=True)).abs().max() < 1e-4
    for i, other in enumerate(exam.first.steps[:j]):
        same = (
            exam.token_of(j, "q") is not None
            and exam.depth(other) == exam.depth(step)
            and other.used.shape == step.used.shape
            and exam.flat
        )
        if same and not uniform and torch.equal(other.used, step.used) and torch.equal(other.v, step.v):
            yield "find", "heads-unused", f"the maps and values of steps {i} and {j} are the same: they are twins."
            return


def groups(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that heads which share a key share its value."""
    step = exam.first.steps[j]
    if step.k is None or len(step.k) != len(step.v) or step.k.shape[1] != step.v.shape[1] or len(step.k) > 256:
        return
    k, v = (x.flatten(1).double() for x in (step.k, step.v))
    same = [torch.cdist(x, x) < 1e-6 * (1 + x.norm(dim=1).max()) for x in (k, v)]
    shared = len(k) // max(1, int(same[0].sum(1).max()))
    if bool(same[0].sum() > len(k)) and torch.equal(same[0], same[1]) and step.k.shape == step.q.shape:
        how = "as neighbours" if same[0][0, 1] else "cycled"
        what = f"{len(k) // exam.B} heads of queries share {shared // exam.B} of keys and values, {how}."
        yield "remark", "grouped-heads", what
    if bool((same[0] != same[1]).any()) and bool(same[0].sum() > len(k)) and bool(same[1].sum() > len(k)):
        n, m = (int(i) for i in (same[0] != same[1]).nonzero()[0])
        which = ("keys", "values") if same[0][n, m] else ("values", "keys")
        yield "find", "groups-differ", f"maps {n} and {m} share their {which[0]}, and not their {which[1]}."


def inputs(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that queries, keys and values are made of the inputs that are handed over for them."""
    roles, per = exam.patient.call.roles, exam.B * exam.T
    if exam.inputs == 1 or exam.depth(exam.first.steps[j]) or exam.patient.call.guessed:
        return
    of: dict[str, set[int]] = {}
    for other, _ in enumerate(exam.first.steps):  # of all steps: a layer may attend to itself and to a memory
        for name in "qkv":
            tokens = None if exam.depth(exam.first.steps[other]) else exam.token_of(other, name)
            if tokens is None:
                return
            of[name] = of.get(name, set()) | {t // per for t in tokens.flatten().tolist() if t >= 0}
    wanted = {"q": "queries"} | dict(
        zip("kv", ("context", "context") if "context" in roles else ("keys", "values"), strict=True)
    )
    off = {name for name, role in wanted.items() if of[name] and roles.index(role) not in of[name]}
    if not off or not set().union(*of.values()):
        return
    if exam.inputs == 3 and (
        off == {"k", "v"} or (off == {"v"} and exam.patient.docs.says(r"cross|memory|encoder_dec"))
    ):
        yield "skip", "inputs that differ", "keys and values are made of one input: is it made for self-attention?"
        return
    for name in sorted(off, key="kvq".index):
        came = ", ".join(INPUT[roles[i]] for i in sorted(of[name]))
        text = f"the {LONG[name]} are made of the {came}, and not of the {INPUT[wanted[name]]}."
        yield "find", "input-ignored", text
        return


def positions(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that queries and keys are turned by where they stand, and that scores know distances alone."""
    says, step = exam.patient.docs.says, exam.first.steps[j]
    rotary, slopes = says(r"rotary|rotate|\brope\b|_rope\b"), says(r"alibi|\bslopes?\b")
    tables = says(r"relative_attention_bias|relative_position_(bias|index)|compute_bias")
    if not (rotary or slopes or tables) or len(exam.first.steps) > 1 or step.scores is None:
        return
    if exam.patient.call.pooled or (not tables and says(r"local|block_len|2d|axial|height")):
        return  # where blocks begin counts as well
    seen = exam.look([x[:1, :1].repeat(exam.B, exam.T, 1) for x in exam.x])  # equal tokens
    if len(seen.steps) != 1 or seen.steps[0].scores is None or seen.steps[0].scores.shape[-2:] != (exam.T, exam.T):
        return
    scores = seen.steps[0].scores.double()
    real = (scores > -1e3) & scores.isfinite()
    own = scores.diagonal(0, -2, -1)[..., None]
    scores = torch.where(real, scores - own, torch.nan)  # what is the same for all keys changes nothing
    if not bool(real.diagonal(0, -2, -1).all()):
        return
    size, eps = float(own.abs().max()) + 1.0, 1e-4
    moved = (seen.out - seen.out[:, :1]).abs().max() > 100 * exam.patient.rounding(seen.out)
    ways = [_coordinates(exam.T, rows) for rows in range(1, exam.T + 1) if exam.T % rows == 0] if tables else []
    off = min(_off(scores, by) for by in ways or [_coordinates(exam.T, 1)])
    told = f"{exam.T} equal tokens: "
    if off > eps * size and (not moved or tables):
        why = "are angles and the features of a pair laid out alike, and biases brought into (heads, queries, keys)?"
        told += f"scores of pairs at one distance differ by up to {off:.2g}: what two tokens give each other depends on"
        yield "find", "positions-not-relative", f"{told} more than their distance; {why}"
    elif rotary and not slopes and not tables and step.of_q.turned:
        if float(scores.nan_to_num(0.0).abs().max()) < eps * size and exam.patient.head_dim > 1:
            told += "queries and keys are turned, and their scores are the same wherever they stand"
            yield "find", "positions-not-relative", f"{told}: are they turned along the axis of the tokens?"
        elif moved and step.of_v.turned:
            told += "their outputs differ, and their values are turned as queries and keys are"
            yield "find", "positions-not-relative", f"{told}: only the difference of two angles is a distance."
    elif tables and not rotary and not slopes and float(scores.nan_to_num(0.0).abs().max()) < eps * size:
        filled = [n for n, p in exam.patient.named() if "relative" in n and bool(p.std() > 0)]
        if filled:
            told += f"their scores are the same wherever they stand, whatever is in {filled[0]}"
            yield "find", "positions-not-relative", f"{told}: which way round is the distance?"
    elif slopes and not rotary and not tables and float(scores.nan_to_num(0.0).abs().max()) < eps * size:
        if float((own - own[..., :1, :]).abs().max()) > eps * size:
            told += "scores differ from query to query and not from key to key, which no softmax sees"
            yield "find", "positions-not-relative", f"{told}: does the slope run along the keys?"
    elif slopes and not rotary and not tables:
        lines = [float(scores.diagonal(d, -2, -1).nan_to_num(0.0).mean()) for d in range(1 - exam.T, 1)]
        if len(lines) > 2 and all(a > b for a, b in zip(lines, lines[1:], strict=False)):
            told += "the farther a key, the larger its score; a slope takes away for distance."
            yield "find", "positions-not-relative", told


def _coordinates(tokens: int, rows: int) -> Tensor:
    """Return a number for each distance of two tokens, `(T, T)`, where they stand in so many rows."""
    place = torch.arange(tokens)
    down, right = place // (tokens // rows), place % (tokens // rows)
    return (down[:, None] - down) * 4 * tokens + right[:, None] - right


def _off(scores: Tensor, distance: Tensor) -> float:
    """Return by how much scores of equal tokens at one distance differ at most."""
    off = 0.0
    for one in distance.unique():
        line = scores[..., distance == one]
        if not bool(line.isnan().any()):
            off = max(off, float((line.amax(-1) - line.amin(-1)).max()))
    return off


LAWS = [
    Law("split", split),
    Law("samples", samples),
    Law("order", order),
    Law("inputs", inputs),
    Law("merge", merge),
    Law("shares", shares),
    Law("scale", scale),
    Law("twins", twins),
    Law("same steps", same_steps),
    Law("groups", groups),
    Law("positions", positions),
]


def all_ask(exam: Exam, report) -> None:
    """Hold that where most tokens of a sample are queries, all are."""
    steps = [j for j, step in enumerate(exam.first.steps) if exam.depth(step) == 0]
    tokens = [exam.token_of(j, "q") for j in steps]
    if any(x is None for x in tokens) or exam.patient.call.pooled or not steps or 2 * len(steps) > exam.T:
        return
    asked = set().union(*({t for t in x.flatten().tolist() if t >= 0} for x in tokens))
    missing = sorted(set(range(exam.T)) - {t % exam.T for t in asked})
    if missing and 2 * len(missing) < exam.T:
        report.find("no-mixing", f"of {exam.T} tokens, {', '.join(map(str, missing))} are queries in no map.")


class HeadsSeen(NamedTuple):
    """How many heads were stated, and how many maps a sample has."""

    stated: int | None
    counted: int | None
    why: str = ""

    def __str__(self) -> str:
        stated = "" if self.stated is None else f"{self.stated} head{'s' * (self.stated != 1)} stated, "
        if self.counted is None:
            return f"{stated}not counted: {self.why}"
        return f"{stated}{self.counted} seen"


def heads_seen(exam: Exam, report) -> None:
    """Compare the number of maps of a sample with the heads that the layer is said to have."""
    stated, steps = exam.patient.num_heads, exam.first.steps
    first = [step for step in steps if exam.depth(step) == 0]
    report.heads = HeadsSeen(stated, None, "its maps hold more or fewer than the samples")
    whole = sum(len(step.used) for step in first)
    known = all(exam.token_of(j, "q") is not None for j, step in enumerate(steps) if exam.depth(step) == 0)
    if whole % exam.B or not known:
        return
    report.heads = HeadsSeen(stated, whole // exam.B)
    whole_maps = all(step.used.shape[1] == exam.T and not step.of_weights.far for step in steps)
    told = exam.patient.told and whole_maps and (len(steps) == 1 or report.heads.counted < stated)
    picture = "H" in exam.patient.call.axes
    if stated and stated != report.heads.counted and not picture and whole_maps and (told or report.heads.counted == 1):
        report.find(
            "heads-unused", f"{stated} heads stated, {report.heads.counted} seen: so many maps has each sample."
        )

"""What must hold of a step of attention: a law is a record, and speaks only of a step that it has recognised.

Each takes the examination and the number of a step, and yields what it has to say: a finding by its code with the
numbers that were seen, a remark, or what it could not examine and why.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attention_doctor.exam import MANY, Exam
from attention_doctor.look import Step

Said = tuple[str, str, str]  # "find" | "remark" | "skip"; the code, or what; the evidence, or why

LONG = {"q": "queries", "k": "keys", "v": "values"}


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
            n, r = (int(i) for i in many.nonzero()[0])
            yield (
                "find",
                "mixes-tokens",
                f"row {r} of map {n} of the {LONG[name]} is made of several rows of its projection.",
            )
            return
        alone = [len(set(line)) == 1 < len(line) for line in rows.tolist()]
        if name == "q" and all(alone):
            yield (
                "find",
                "no-mixing",
                f"all {rows.shape[1]} queries of a map come from one token: the maps run over the heads.",
            )
            return
        for n, line in enumerate(rows.tolist()):
            real = [r for r in line if r >= 0]
            tokens = [r % exam.T for r in real]
            if name == "k" and len(set(real)) == len(real) - 1 and set(tokens) == set(range(exam.T - 1)):
                yield "find", "key-unused", f"the keys of map {n} are of the tokens {', '.join(map(str, tokens))}."
                return
            if len(set(real)) < len(real) and len(set(real)) > 1:
                shown = ", ".join(str(r % exam.T) for r in real[:8])
                yield (
                    "find",
                    "mixes-tokens",
                    f"map {n} has one token in several rows of its {LONG[name]}: tokens {shown}.",
                )
                return


def samples(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that queries, keys and values of a map are of one sample."""
    if exam.B < 2:
        return
    per, of = exam.B * exam.T, {}
    for name in "qkv":
        tokens = exam.token_of(j, name)
        if tokens is not None:
            of[name] = [{t % per // exam.T for t in line if t >= 0} for line in tokens.tolist()]
    for name, maps in of.items():
        if mixed := [n for n, found in enumerate(maps) if len(found) > 1]:
            where = f"map {mixed[0]} holds {LONG[name]} of samples {', '.join(map(str, sorted(maps[mixed[0]])))}."
            yield "find", "mixes-samples", where
            return
    for a, b in (("q", "k"), ("k", "v"), ("q", "v")):
        if a in of and b in of and len(of[a]) == len(of[b]):
            for n, (one, two) in enumerate(zip(of[a], of[b], strict=True)):
                if one and two and one != two and exam.straight(j):
                    where = f"map {n} has {LONG[a]} of sample {min(one)} and {LONG[b]} of sample {min(two)}."
                    yield "find", "mixes-samples", where
                    return


def order(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that key and value of a column are of one token, and of the input that is to be read."""
    per = exam.B * exam.T
    k, v, q = (exam.token_of(j, name) for name in "kvq")
    if k is None or v is None or k.shape != v.shape or not exam.straight(j):
        return
    if exam.inputs == 2:
        inputs = {name: {t // per for t in x.flatten().tolist() if t >= 0} for name, x in (("k", k), ("v", v))}
        for name, found in inputs.items():
            if found == {0} and (q is None or {t // per for t in q.flatten().tolist() if t >= 0} == {0}):
                what = f"the {LONG[name]} are made of the first input, as the queries are, and not of the second."
                yield "find", "input-ignored", what
                return
    both = (k >= 0) & (v >= 0)
    off = both & (k % per != v % per)
    if bool(off.any()):
        n, c = (int(i) for i in off.nonzero()[0])
        yield (
            "find",
            "mixes-tokens",
            (
                f"column {c} of map {n} has the key of token {int(k[n, c]) % exam.T} and the value of token "
                f"{int(v[n, c]) % exam.T}."
            ),
        )


def merge(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that what the heads write for a token comes out together, and at that token."""
    step, groups = exam.first.steps[j], exam.groups[j]
    if not bool((groups >= 0).any()):
        return
    merged, out = exam.arrivals(j, groups)
    tokenwise = tuple(out.shape) == (exam.B, exam.T)
    if merged is not None:
        count = int(groups.max()) + 1
        mixed = merged == MANY
        if bool(mixed.any()) and len(merged) == count:
            if (of := _samples_of(exam, j)) is not None and bool((exam.arrivals(j, of)[0] == MANY).any()):
                yield (
                    "find",
                    "mixes-samples",
                    "rows before the output projection hold what heads wrote for several samples.",
                )
                return
            yield (
                "find",
                "mixes-tokens-on-merge",
                (
                    f"{int(mixed.sum())} of {len(merged)} rows before the output projection hold what heads wrote for "
                    "several tokens."
                ),
            )
            return
        if bool(mixed.any()):
            yield "skip", "the merge of the heads", "its rows are pooled before they are projected"
            return
    if not tokenwise or exam.depth(step) != max(exam.depth(s) for s in exam.first.steps):
        return
    tokens = exam.token_of(j, "q")
    if tokens is None or bool((tokens < 0).any()):
        return
    at = dict(zip(groups.flatten().tolist(), tokens.flatten().tolist(), strict=True))
    mixed = out == MANY
    if bool(mixed.any()) and merged is None:
        yield (
            "find",
            "mixes-tokens-on-merge",
            (f"{int(mixed.sum())} of {out.numel()} outputs hold what heads wrote for several tokens."),
        )
        return
    for b, t in (out >= 0).nonzero().tolist():
        came = at.get(int(out[b, t]))
        if came is None:
            continue
        sample, place = divmod(came % (exam.B * exam.T), exam.T)
        if sample != b:
            yield "find", "mixes-samples", f"what heads wrote for sample {sample} comes out in sample {b}."
            return
        if place != t:
            yield "find", "mixes-tokens-on-merge", f"what heads wrote for token {place} comes out at token {t}."
            return


def _samples_of(exam: Exam, j: int) -> Tensor | None:
    """Return of which sample each row of the heads is, `(N, Tq)`."""
    tokens = exam.token_of(j, "q")
    shape = tuple(exam.first.steps[j].used.shape[:2])
    if tokens is None or tuple(tokens.shape) != shape or bool((tokens < 0).any()):
        return None
    return tokens % (exam.B * exam.T) // exam.T


def shares(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that the weights of a query, as they multiply the values, are shares of 1."""
    step = exam.first.steps[j]
    if step.of_weights.far:
        yield "skip", "the sums of the weights", "they are mixed or gated before they meet the values"
        return
    sums = step.used.double().sum(-1)
    worst = (sums - 1).abs().max()
    if worst < 1e-2 or step.fused or not bool(sums.isfinite().all()):
        return
    low, high = float(sums.min()), float(sums.max())
    if step.soft is not None and step.soft.numel() == step.used.numel() and not step.turned:
        before = step.soft.reshape(step.used.shape)
        cut = (step.used == 0) & (before > 0)
        if bool(cut.any()) and torch.equal(step.used, before.masked_fill(cut, 0.0)):
            late = bool((cut == torch.ones_like(cut).triu(1)).all())
            yield (
                "find",
                "future-leak" if late else "mask-leaks",
                (
                    f"keys are hidden behind the softmax: the weights of a query sum to {low:.2f} to {high:.2f}, and "
                    "what was hidden has had its part in the sum."
                ),
            )
            return
    factor = step.of_weights.factor
    if not exam.flat:
        yield "skip", "the sums of the weights", "its maps are too sharp to be seen as shares"
    elif step.turned or columns_sum(step.used):
        yield (
            "find",
            "softmax-axis",
            (f"the weights of a query sum to {low:.2f} to {high:.2f} over its keys; along another axis they sum to 1."),
        )
    elif high - low < 1e-3 * high:
        yield (
            "find",
            "wrong-scale",
            (
                f"the weights are multiplied by {high:.4g} behind the softmax: a query's sum to {high:.4g}, not 1. "
                f"{named(high, step, exam)}"
            ),
        )
    elif factor is not None and bool((sums < 1 - 1e-6).all()):
        yield "skip", "the sums of the weights", f"they sum to {low:.2f} to {high:.2f}: a sink takes the rest"
    else:
        yield "find", "no-softmax", f"the weights of a query sum to {low:.2f} to {high:.2f}."


def columns_sum(used: Tensor) -> bool:
    """Whether weights sum to 1 along another axis than the keys."""
    return any(
        used.shape[axis] > 1 and bool(((used.sum(axis) - 1).abs() < 1e-3).all()) for axis in range(used.ndim - 1)
    )


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
    if step.q.shape[-1] in (exam.T, exam.B * exam.T) and exam.of(j, "q") is not None and MANY in exam.of(j, "q"):
        return
    factor, head_dim = math.prod(factors), step.q.shape[-1]
    if abs(factor * head_dim**0.5 - 1) < 0.01:
        return
    kind = "remark" if meant(exam, factor, head_dim) else "find"
    code = "unusual-scale" if kind == "remark" else "wrong-scale"
    yield (
        kind,
        code,
        (
            f"scores are q·k times {factor:.4g}; 1/√{head_dim} is {head_dim**-0.5:.4g}. "
            f"{named(factor, step, exam)}".strip()
        ),
    )


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
        f"1/√{head_dim} twice": 1 / head_dim,
        f"1/√num_heads, √{h}": h**-0.5 if h else 0.0,
        f"1/√T of {exam.T} tokens": exam.T**-0.5,
        f"1/√√{head_dim}, once where it stands on queries and keys": head_dim**-0.25,
        "head_dim, without its root": float(head_dim),
    }
    names = [name for name, value in known.items() if value and abs(factor / value - 1) < 0.01]
    return f"It is {names[0]}." if names else ""


def meant(exam: Exam, factor: float, head_dim: int) -> bool:
    """Whether another scale is one that some take on purpose, and this layer's own words say so."""
    words = exam.patient.words
    if re.search(
        r"softmax_scale|query_pre_attn_scalar|attention_multiplier|logit_scale|temperature|mup\b|µp|mu-?p", words
    ):
        return True
    if abs(factor - 1) < 1e-3:
        return bool(re.search(r"t5|unscaled|no scal|without scal|not scal|scale\s*=\s*(False|1)|folded|absorb", words))
    return abs(factor * head_dim - 1) < 1e-3 and bool(re.search(r"1\s*/\s*d\b|maximal update", words))


def twins(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that heads differ, and that each reaches an output."""
    step = exam.first.steps[j]
    if dead := list(exam.silent(j)):
        if len(dead) < len(step.used):
            what = f"what {len(dead)} of its {len(step.used)} maps attend to (map {dead[0]} first) reaches no output."
            yield "find", "heads-unused", what
        return
    per = len(step.used) // exam.B
    if per > 1 and len(step.used) == per * exam.B:
        maps = step.used.view(exam.B, per, *step.used.shape[1:])
        uniform = (maps - maps.mean(-1, keepdim=True)).abs().max() < 1e-4
        pairs = [(g, h) for h in range(per) for g in range(h) if torch.allclose(maps[:, g], maps[:, h], atol=1e-6)]
        if pairs and not uniform and exam.flat and exam.of(j, "q") is not None:
            g, h = pairs[0]
            yield "find", "heads-unused", f"heads {g} and {h} of {per} have the same map: they are twins."


def groups(exam: Exam, j: int) -> Iterator[Said]:
    """Hold that heads which share a key share its value."""
    step = exam.first.steps[j]
    if step.k is None or len(step.k) != len(step.v) or step.k.shape[1] != step.v.shape[1]:
        return
    k, v = (x.flatten(1).double() for x in (step.k, step.v))
    if k.shape[1] == 0 or len(k) > 256:
        return
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


LAWS = [
    Law("split", split),
    Law("samples", samples),
    Law("order", order),
    Law("merge", merge),
    Law("shares", shares),
    Law("scale", scale),
    Law("twins", twins),
    Law("groups", groups),
]


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
    told = exam.patient.told and len(steps) == 1 and not steps[0].of_weights.far
    if stated and stated != report.heads.counted and (told or report.heads.counted == 1):
        report.find(
            "heads-unused", f"{stated} heads stated, {report.heads.counted} seen: so many maps has each sample."
        )


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

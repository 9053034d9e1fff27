"""What must hold of a step of attention: a law says what, and speaks only of a step that it has recognised.

Each is handed the examination and the number of a step, and returns what it has to say: a finding by its code with the
numbers that were seen, a remark, what it could not examine and why; or None where it holds.
"""

import math
import re
import sys
from contextlib import suppress
from itertools import combinations, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from attention_doctor.argument_names import TOKENS, before_picture, placeless
from attention_doctor.calling import picture
from attention_doctor.exam import MANY, Exam, moved
from attention_doctor.look import Step, seeing, three
from attention_doctor.patient import Crash
from attention_doctor.report import Report

Said = tuple[str, str] | None  # a code and what was seen, or what could not be examined and why: as `Report.say`

LONG = {"q": "queries", "k": "keys", "v": "values"}
INPUT = {"queries": "first input", "context": "context", "keys": "keys", "values": "values"}


def split(exam: Exam, j: int) -> Said:
    """Hold that each query, key and value is a row of one token, and each token stands once in a map."""
    step, unknown = exam.first.steps[j], []
    for name in "qkv":
        if (rows := exam.of(j, name)) is None:
            unknown.append(LONG[name])
            continue
        made_of = [exam.first.projections[n] for n in exam.info(j, name).of[:1]] or exam.x
        size, width = made_of[0].shape[:-1].numel(), made_of[0].shape[-1]
        many, head_dim = (rows == MANY).nonzero().tolist(), getattr(step, name).shape[-1]
        # As many rows as before the split, and as long, are not made of several of them on purpose.
        as_many = (rows.numel() * head_dim, head_dim) == (size * width, width // (exam.patient.num_heads or 1))
        pooled = rows.shape[1] != exam.T and (step.depth or not as_many)
        if many and (head_dim in (size // exam.B, size) or pooled or exam.convolved):
            return f"the split of the {LONG[name]}", "a row holds one feature of all tokens, neighbours, or no token"
        if many:
            n, r = many[0]
            where = f"row {r} of map {n} of the {LONG[name]} is made of several rows of its projection."
            return "mixes-tokens", where
        for n, line in enumerate(rows.tolist()):
            real = [r for r in line if r >= 0]
            tokens = [r % exam.T for r in real]
            shown = ", ".join(map(str, tokens[:8]))
            if name == "k" and len(set(real)) == len(real) - 1 and set(tokens) == set(range(exam.T - 1)):
                return "key-unused", f"the keys of map {n} are of the tokens {shown}."
            asked_often = name == "q" and len(set(tokens)) == exam.T and len({real.count(r) for r in real}) == 1
            if 1 < len(set(real)) < len(real) and not asked_often:
                where = f"map {n} has one token in several rows of its {LONG[name]}: tokens {shown}."
                return "mixes-tokens", where
    what = f"the split of the {', '.join(unknown)}"
    return (what, "they are no moved rows of a projection") if unknown else None


def whole(exam: Exam, j: int) -> Said:
    """Hold that the numbers of a token stay together where they do not come along the last axis."""
    entered, t = exam.first.entered, exam.T // 2
    shape = (exam.B * exam.T, exam.patient.d_model)
    if j or exam.patient.call.axes[-1] == "d" or exam.convolved or entered is None or entered.shape != shape:
        return None
    one = exam.spread * exam.patient.noise(exam.B, 1, 43).sign()
    other = exam.look([torch.cat([x[:, :t], x[:, t : t + 1] + one, x[:, t + 1 :]], 1) for x in exam.x]).entered
    far = (other - entered).abs()
    features = (far > 0.2 * far.max()).sum(1)  # a norm over all tokens moves the others, too, but little
    rows, most = int((features > 0).sum()) // exam.B, min(exam.T, shape[1])
    if rows > 4 and rows > 0.9 * most and int(features.max()) <= 2 * math.ceil(shape[1] / exam.T):
        where = f"the numbers of token {t} stand in {rows} rows of what is projected first"
        return "mixes-tokens", f"{where}: a view has cut what a transpose should turn."
    return None


def folded(exam: Exam, j: int) -> Said:
    """Hold that all numbers of a token arrive at the same keys, where a convolution makes these of several tokens."""
    k, t, (x, *others) = exam.first.steps[j].k, exam.T // 2, exam.x
    told_apart = exam.patient.call.axes == "B T d" and exam.T != x.shape[-1]  # tokens and features
    if j or not (exam.convolved and told_apart) or k is None or not 1 < k.shape[1] <= exam.T:
        return None
    reached = []
    for feature in torch.linspace(0, x.shape[-1] - 1, 5).long().tolist():
        changed = x.clone()
        changed[:, t, feature] += exam.spread
        far = (exam.look([changed, *others]).steps[j].k - k).abs().amax((0, 2))
        reached.append(far > 0.2 * far.max())
    if not all(bool((one & other).any()) for one, other in combinations(reached, 2)):
        where = f"numbers of token {t} arrive at keys apart"
        return "mixes-tokens", f"{where}: a view has cut what a transpose should turn."
    return None


def samples(exam: Exam, j: int) -> Said:
    """Hold that the queries of a map are of one sample, and so its keys, and its values."""
    for name in "qkv":
        tokens = exam.token_of(j, name)
        for n, line in enumerate([] if tokens is None else tokens.tolist()):
            if len(those := {exam.place(t)[0] for t in line if t >= 0}) > 1:
                several = ", ".join(map(str, sorted(those)))
                return "mixes-samples", f"map {n} holds {LONG[name]} of samples {several}."
    return None


def order(exam: Exam, j: int) -> Said:
    """Hold that key and value of a column are of one token."""
    k, v = (exam.token_of(j, name) for name in "kv")
    if k is None or v is None or k.shape != v.shape or not exam.straight[j]:
        return None
    per = exam.B * exam.T
    for n, c in ((k >= 0) & (v >= 0) & (k % per != v % per)).nonzero().tolist():
        key, value = int(k[n, c]) % exam.T, int(v[n, c]) % exam.T
        where = f"column {c} of map {n} has the key of token {key} and the value of token {value}."
        return "mixes-tokens", where
    return None


def corner(exam: Exam, j: int) -> Said:
    """Hold that where later tokens are hidden, and other keys stand before them, the last query sees the last key."""
    step, tokens = exam.first.steps[j], exam.token_of(j, "k")
    (queries, keys), shown = step.used.shape[1:], step.used > 0
    if tokens is None or tokens.shape != step.used.shape[::2] or not 1 < queries < keys:
        return None
    asked = exam.token_of(j, "q")
    if asked is not None and torch.equal(asked, tokens[:, :queries]):
        return None  # the first of several chunks of queries: each sees itself last
    own = keys - queries * bool((tokens[:, 0] < 0).any())  # learned keys, of no token, may stand before those of tokens
    if bool((tokens[:, own:] < 0).any()) or bool((tokens[:, : own % keys] >= 0).any()):
        return None
    each_once = all(len(set(line)) == len(line) for line in tokens[:, own % keys :].tolist())
    if bool((shown == torch.ones_like(shown).tril()).all()) and each_once:
        where = f"of {keys} keys, query 0 sees the first, query {queries - 1} the first {queries}, none the others"
        return "key-unused", f"{where}: a triangle for as many keys as queries, tril(diagonal=k_len - q_len) is meant."
    return None


def pairs(exam: Exam, j: int) -> Said:
    """Hold that a score is of one query and one key: where a token changes, one row and one column of a map move.

    Where relative positions are brought to their places by a shift, the end of a row may be that of the next query.
    """
    step, columns, r = exam.first.steps[j], exam.token_of(j, "v"), exam.T // 2
    shape = (len(step.used), exam.T, exam.T)
    once = columns is not None and columns.shape == shape[:2] and bool((columns % exam.T == torch.arange(exam.T)).all())
    if (
        step.depth
        or step.used.shape != shape
        or not (once and step.maps is not None and math.prod(shape))
        or not exam.patient.docs.says(r"rel\w*[ _-]?(shift|pos)|skew", within=True)
        or exam.patient.docs.says("conv2d")  # over scores, as in multi-token attention
        or any(bool((exam.tokens[n] == MANY).any()) for n in range(step.before))  # it is made of what is mixed before
    ):
        return None
    other = exam.look([torch.cat([x[:, :r], x[:, r : r + 1].roll(1, -1), x[:, r + 1 :]], 1) for x in exam.x]).steps
    if len(other) != len(exam.first.steps) or other[j].maps is None:
        return None
    change = (other[j].maps[0] - step.maps[0]).double()
    change = change - change.diagonal(0, 1, 2)[..., None]  # what is taken off a whole row, such as its largest
    change = torch.where((step.used > 0) & (other[j].used > 0), change, 0.0).abs()
    change[:, r] = change[:, :, r] = 0.0
    # A skew is for causal layers; later keys are to be hidden by a mask, then; not in cross-attention.
    beside = " ".join(vars(sys.modules.get(type(exam.patient.call.target).__module__, math)))
    switched_off = any(v is False and re.search("causal|triu", name) for name, v in vars(exam.patient.module).items())
    alone = "context" not in exam.patient.call.roles and not switched_off
    if alone and (exam.patient.docs.says(r"skew|causal|decoder") or "skew" in beside):
        change = change.tril()
    for n, i, c in (change > 1e-4 * float((other[j].scores - step.scores).abs().max())).nonzero().tolist():
        where = f"where token {r} changes, the score of query {i} and key {c} in map {n} does"
        return "mixes-tokens", f"{where}: it is made of other tokens than these two."
    return None


def fillers(exam: Exam, j: int) -> Said:
    """Hold that keys of no token have no weight where they are padding.

    They are where it depends on the number of tokens how many they are, or where they stand in some windows only.
    """
    call = exam.patient.call
    made = call.masks or any(map(callable, call.also.values()))  # of such keys may be made, and masks may hide them
    made = made or exam.patient.docs.says("block_?mask", within=True)
    if call.axes not in ("B T d", "T B d", "B d T") or made or (of_each := _of_no_token(exam, j)) is None:
        return None  # around a picture many leave them so
    if not (many := int(of_each.sum())):
        return None
    if int(of_each.min()) == 0 and not bool(exam.first.steps[j].k.flatten(0, -2).any(-1).all()):
        some = int((of_each > 0).sum())
        return "mask-leaks", f"in {some} of {len(of_each)} maps keys of zeros, which are of no token, have weights."
    with suppress(Crash):
        other = Exam(exam.patient, exam.B, exam.T + 1)
        others = _of_no_token(other, j) if len(other.first.steps) == len(exam.first.steps) else None
        if others is not None and int(others.sum()) != many:
            what = f"{many} keys that have weights are of no token, as of padding or of empty places"
            return "mask-leaks", f"{exam.T} tokens: {what}; with {other.T} tokens, {int(others.sum())}."
    return None


def _of_no_token(exam: Exam, j: int) -> Tensor | None:
    """Return how many of the keys that queries of tokens see are of no token, in each map; None where not known."""
    step, (q, k) = exam.first.steps[j], (exam.token_of(j, name) for name in "qk")
    if q is None or k is None or (*q.shape, k.shape[1]) != step.used.shape or len(k) != len(q) or not exam.straight[j]:
        return None
    return (((step.used > 1e-6) & (q >= 0)[:, :, None]).any(1) & (k < 0)).sum(1)


def constants(exam: Exam, j: int) -> Said:
    """Hold that scores which are one number whatever queries and keys are, or that less than else, get no weight."""
    step, shape = exam.first.steps[j], exam.first.steps[j].used.shape
    if step.raw is None or step.raw.shape != shape or step.maps is None:
        return None
    other = exam.look([x.roll(1, -1) for x in exam.x]).steps
    later = torch.ones(shape).triu(1) > 0
    patterns = []
    for one in (step, other[j]) if len(other) == len(exam.first.steps) and other[j].raw.shape == shape else ():
        scores = (one.scores.reshape(shape) if one.maps is None else one.maps[0]).double()
        values, counts = scores.unique(return_counts=True)
        patterns.append(scores == values[counts.argmax()])
        low = scores - one.raw.double() * (one.of_scores.factor or torch.nan)
        low = low - low.amax()
        by_one = bool(((low - low[later].mean()).abs() < 1e-4)[later].all() and (low[~later] > -1e-4).all())
        if by_one and bool((low[later] < -1e-2).all()):
            patterns[-1] = later
    if not patterns or not patterns[0].equal(patterns[1]) or not bool((patterns[0] == patterns[0][:1]).all()):
        return None
    there = patterns[0]
    judged = there & ~there.all(-1, keepdim=True)  # in a row of nothing else it is as it must be
    if int(judged[0].sum()) < 3 or not float(step.raw[there].std()) > 1e-6:
        return None
    if not (weight := float(step.maps[1][judged].max())) > 1e-6:
        return None
    code = "future-leak" if there.equal(later) else "mask-leaks"
    one = "of all later tokens" if there.equal(later) else f"of {int(there[0].sum())} cells of each map"
    what = f"the scores {one} are one number, or lower by one, whatever comes in: as of a mask; but their weights are"
    return code, f"{what} up to {weight:.2g}."


def windows(exam: Exam, j: int) -> Said:
    """Hold that a map over a part of a picture is of some of its rows, and in each of the same columns."""
    tokens, width = exam.token_of(j, "q"), picture(exam.T, exam.patient.call.axes)[-1]
    for n, line in enumerate(tokens.tolist() if "H" in exam.patient.call.axes and tokens is not None else ()):
        places = sorted({exam.place(t)[1] for t in line if t >= 0})
        rows, columns = {p // width for p in places}, {p % width for p in places}
        if len(places) < len(rows) * len(columns):
            those = ", ".join(f"({p // width}, {p % width})" for p in places[:8])
            where = f"map {n} has queries of the places {those} of {exam.T // width} rows and {width} columns"
            return "mixes-tokens", f"{where}: no rows, columns or windows of the picture."
    return None


def borders(exam: Exam, j: int) -> Said:
    """Hold that shifted windows, where a mask is made for that, see nothing of the other side of their picture."""
    used, says, axes = exam.first.steps[j].used, exam.patient.docs.says, exam.patient.call.axes
    q, k, side = exam.token_of(j, "q"), exam.token_of(j, "k"), math.isqrt(used.shape[2])
    if q is None or k is None or (*q.shape, k.shape[1]) != used.shape or len(k) != len(q) or not exam.straight[j]:
        return None
    rolled = says(r"window|\bws\b", within=True) and says(r"\broll\(", within=True)
    meant = bool((used < 1e-6).any()) and not says("period|circular|sphere|globe")
    if "H" not in axes or not rolled or not meant or side < 2 or side**2 != used.shape[2]:
        return None
    width = picture(exam.T, axes)[-1]
    for n, i, c in ((used > 1e-6) & (q >= 0)[:, :, None] & (k >= 0)[:, None]).nonzero().tolist():
        one, two = (divmod(exam.place(int(x))[1], width) for x in (q[n, i], k[n, c]))
        if max(abs(a - b) for a, b in zip(one, two, strict=True)) >= side:
            where = f"windows of {side} × {side}: the pixel {one} sees {two}"
            return "mask-leaks", f"{where}, which a roll has brought across the border."
    return None


def inputs(exam: Exam, j: int) -> Said:
    """Hold that queries, keys and values are made of the inputs that are handed over for them."""
    roles, steps, says = exam.patient.call.roles, exam.first.steps, exam.patient.docs.says
    if exam.inputs == 1 or steps[j].depth:
        return None
    if exam.patient.call.guessed:
        other = exam.look([exam.x[0], -exam.x[1]]).out if exam.inputs == 2 else None
        unread = other is not None and not exam.patient.differ(other, exam.first.out)
        return (
            ("the second input", "it has no part in the output: is it meant for keys and values?") if unread else None
        )
    of: dict[str, set[int]] = {name: set() for name in "qkv"}
    for i, name in [(i, name) for i in range(len(steps)) for name in "qkv"]:  # a layer may attend to itself and others
        tokens = None if steps[i].depth else exam.token_of(i, name)
        if tokens is None:
            return None
        of[name] |= {t // (exam.B * exam.T) for t in tokens.flatten().tolist() if t >= 0}
    keys, values = ("context", "context") if "context" in roles else ("keys", "values")
    wanted = {"k": keys, "v": values, "q": "queries"}
    off = [name for name, role in wanted.items() if of[name] and roles.index(role) not in of[name]]
    if not off:
        return None
    other = exam.look([exam.x[0], -exam.x[1]]).out if exam.inputs == 2 and off == ["k", "v"] else exam.first.out
    if exam.patient.differ(other, exam.first.out):
        return "inputs that differ", "keys and values are not made of the second, which has another part in the output"
    crossed = says(r"cross|memory|encoder_dec")
    if exam.inputs == 3 and (crossed if off == ["v"] else off == ["k", "v"] and not crossed):
        return "inputs that differ", "keys and values are made of one input: is it made for self-attention?"
    came = ", ".join(INPUT[roles[i]] for i in sorted(of[off[0]]))
    text = f"the {LONG[off[0]]} are made of the {came}, and not of the {INPUT[wanted[off[0]]]}."
    return "input-ignored", text


def merge(exam: Exam, j: int) -> Said:
    """Hold that what the heads write for a token comes out together, and at that token."""
    steps, groups, tokens = exam.first.steps, exam.groups[j], exam.token_of(j, "q")
    if not bool((groups >= 0).any()):
        return None
    merged, out = exam.arrivals(j)
    known = tokens is not None and not bool((tokens < 0).any())
    if merged is not None and bool((merged == MANY).any()):
        if len(merged) != int(groups.max()) + 1:
            return "the merge of the heads", "its rows are pooled before they are projected"
        of_one = moved(steps[j].merged, exam.of_another[j].merged)
        if known and int(of_one.sum()) * exam.B > len(merged):
            where = "rows before the output projection hold what heads wrote for several samples."
            return "mixes-samples", where
        where = f"{int((merged == MANY).sum())} of {len(merged)} rows before the output projection"
        return "mixes-tokens-on-merge", f"{where} hold what heads wrote for several tokens."
    if merged is None and bool((out == MANY).any()):
        heads, last = (steps[j].used @ steps[j].v).flatten().sort()[0], exam.first.out.flatten().sort()[0]
        if heads.shape == last.shape and torch.allclose(heads, last, rtol=1e-4, atol=1e-6):  # but in another order
            where = f"{int((out == MANY).sum())} of {out.numel()} outputs"
            return "mixes-tokens-on-merge", f"{where} hold what heads wrote for several tokens."
    tokenwise = tuple(out.shape) == (exam.B, exam.T) and not exam.patient.call.guessed and not bool((out == MANY).any())
    if not tokenwise or tokens is None or steps[j].depth != max(step.depth for step in steps):
        return None
    for b, t in (out >= 0).nonzero().tolist():
        if (place := exam.place(int(out[b, t]))[1]) != t:
            return "mixes-tokens-on-merge", f"what heads wrote for token {place} comes out at token {t}."
    return None


def shares(exam: Exam, j: int) -> Said:
    """Hold that the weights of a query, as they multiply the values, are shares of 1."""
    step = exam.first.steps[j]
    used, what = step.used, "the sums of the weights"
    all_seen = [bool((x > 0).all()) for x in step.added]
    causal = [torch.equal(x > 0, torch.ones_like(x).tril() > 0) for x in step.added]
    if any(all_seen) and not all(all_seen) and any(causal):
        return "future-leak", f"of {len(all_seen)} maps that make one, some hide later tokens and some hide nothing."
    if step.of_weights.far or (step.q is None and not step.turned):
        return what, "they are mixed, gated, or made of keys alone"
    sums = used.double().sum(-1)
    sums = sums[sums != 0]  # of queries that may see a key
    if not len(sums) or (sums - 1).abs().max() < 1e-2 or not bool(sums.isfinite().all()):
        return None
    low, high = float(sums.min()), float(sums.max())
    summed = f"the weights of a query sum to {low:.2f} to {high:.2f}"
    if step.soft.numel() == used.numel() and not step.turned:
        before = step.soft.reshape(used.shape)
        cut = (used == 0) & (before > 0)
        if bool(cut.any()) and torch.equal(used, before.masked_fill(cut, 0.0)):
            late = bool((cut == torch.ones_like(cut).triu(1)).all())
            where = f"keys are hidden behind the softmax: {summed}, and what was hidden has had its part in the sum."
            return "future-leak" if late else "mask-leaks", where
    if not exam.flat and not step.turned:
        return what, "its maps are too sharp to be seen as shares"
    of_samples = used.unflatten(0, (exam.B, -1)) if len(used) % exam.B == 0 else used
    along = [(x.sum(axis), x.shape[axis]) for x in (used, of_samples) for axis in range(x.ndim - 1)]
    along += [(used.sum((1, 2)), 2)]
    if step.turned or any(size > 1 and bool(((total - 1).abs() < 1e-3).all()) for total, size in along):
        return "softmax-axis", f"{summed} over its keys; along another axis they sum to 1."
    if high - low < 1e-3 * high:
        where = f"the weights are multiplied by {high:.4g} behind the softmax: a query's sum to {high:.4g}, not 1."
        return "wrong-scale", f"{where} {named(high, step, exam)}"
    for sink, kept in ((-1, slice(1, None)), (0, slice(None, -1))):  # a number of its own; what is left of the columns
        left, seen = (x.flatten(0, -2).sort(0).values for x in (step.soft[..., kept], used))
        taken = left.shape == seen.shape and torch.equal(left, seen)
        if taken and bool((three(step.scores)[..., sink].std(-1) < 1e-6).all()):
            return "no-softmax", f"{summed}; the share of a sink meets a value, and that of a key was dropped for it."
    if (_is_sink(step) and high < 1 + 1e-5) or (step.soft.numel() > used.numel() and high < 1 - 1e-6):
        return what, f"{summed}: a sink takes the rest"
    return "no-softmax", f"{summed}."


def _is_sink(step: Step) -> bool:
    """Whether weights are those of a softmax but for one more number in its sum, the same for all queries of a map."""
    if step.raw is None or step.of_scores.factor is None or step.raw.shape != step.used.shape:
        return False
    scores, known = step.raw.double() * step.of_scores.factor, step.used > 1e-12
    logs = torch.where(known, step.used.double().log() - scores, torch.nan)  # - log of the whole sum
    spread = (logs - logs.nanmean(-1, keepdim=True)).abs().nan_to_num(0.0).max()
    rest = torch.exp(-logs.nanmean(-1)) - torch.where(known, scores.exp(), 0.0).sum(-1)
    even = (rest - rest.mean(-1, keepdim=True)).abs().max() < 0.02 * rest.abs().max() + 1e-6
    largest = float(step.raw.abs().max())
    return bool(spread < 1e-3 + 1e-5 * largest) and (bool(even) or largest > 30)


OWN_KEYS = "the score of query i and key j is divided by |q_i|·|k_i|; |k_j| is the norm of its key."


def scale(exam: Exam, j: int) -> Said:
    """Hold that scores are q k^T / sqrt(head_dim), or else never fall where this grows."""
    step = exam.first.steps[j]
    if _falls(step):
        return "wrong-scale", "a larger q·k has a smaller score at times; a soft cap is cap * tanh(score / cap)."
    if step.q is not None and step.of_scores.far and _by_own_keys(step, exam.B):
        return "wrong-scale", OWN_KEYS
    soft, turned = three(step.soft), three(step.soft).mT
    again = {soft.shape, turned.shape} == {step.used.shape}
    again = again and not any(torch.allclose(maps, step.used, atol=1e-5) for maps in (soft, turned))
    if again and torch.allclose(turned / turned.sum(-1, keepdim=True), step.used, atol=1e-5):
        return "the scale", "behind the softmax the weights are divided by their sums over its queries: another kind"
    if step.q is None or step.of_scores.far:
        return "the scale", "the scores are no product of queries and keys alone"
    infos, head_dim = (step.of_q, step.of_k), step.q.shape[-1]
    factors = [i.factor if i.kind in ("projection", "given", "") and not i.far else None for i in infos]
    for i, rows in enumerate((step.q, step.k)):  # a norm that is written out
        lengths = rows.double().norm(dim=-1)
        factors[i] = None if bool(lengths.std() < 1e-3 * exam.spread * lengths.mean()) else factors[i]
    factors.append(step.of_scores.factor)
    if None in factors and _by_own_keys(step, exam.B):
        return "wrong-scale", OWN_KEYS
    normed = [factor is None for factor in (*factors[:2], step.of_v.factor)]  # perhaps, queries, keys and values
    if normed == [False, True, True] and not torch.equal(step.k, step.v):  # latents may be both
        lengths = [x.double().norm(dim=-1) for x in (step.k, step.v)]
        if all(bool(each.std() < 1e-3 * each.mean()) for each in lengths):
            return "wrong-scale", "keys and values are normed, and queries are not; a norm is for queries and keys."
    if None in factors:
        return "the scale", "it is learned, or follows from the input, or queries and keys are normed"
    rows = exam.of(j, "q")
    if head_dim in (exam.T, exam.B * exam.T) and rows is not None and MANY in rows:
        return None  # attention over channels
    factor = math.prod(factors)
    if abs(factor * head_dim**0.5 - 1) < 0.01:
        return None
    if factor == 1 and {info.kind for info in infos} in ({"projection", ""}, {"projection", "given"}):
        return "the scale", "queries or keys alone are projected, by one matrix that may hold it, as in Luong's scores"
    said = f"scores are q·k times {factor:.4g}; 1/√{head_dim} is {head_dim**-0.5:.4g}."
    code = "unusual-scale" if meant(exam, factor, head_dim) else "wrong-scale"
    return code, f"{said} {named(factor, step, exam)}".strip()


def _falls(step: Step) -> bool:
    """Whether scores are a curve of the products alone, one for all heads, that goes down as well as up."""
    if step.raw is None or step.raw.numel() != step.used.numel() or step.maps is None:
        return False
    raw, scores, seen = (x.double().flatten() for x in (step.raw, step.maps[0], step.used))
    scores = scores[seen > 0][raw[seen > 0].argsort()]
    ranks = scores.argsort(stable=True).argsort().diff()  # which no single score rules
    steps, n = ranks.abs(), len(ranks)
    if int((ranks[1:].sign() != ranks[:-1].sign()).sum()) > n / 8:  # up and down all the time: something is added
        return False
    return n > 60 and 1.2 < int(steps.sum()) / n < 3.0 and int(steps.max()) < n / 4  # 1 a step upwards, 2 down and up


def _by_own_keys(step: Step, samples: int) -> bool:
    """Whether scores are divided by the norm of the key at the query's own place, and not by that of their key.

    What stands in them beside, such as a table of positions, is the same for two samples, and their difference tells.
    """
    shape = step.used.shape
    if step.raw is None or step.raw.shape != shape or step.maps is None or samples < 2:
        return False
    if step.q.shape != step.k.shape or shape[0] % samples or not bool((step.used > 0).any()):
        return False
    (q, k), of = (x.double().norm(dim=-1) for x in (step.q, step.k)), (samples, -1, *shape[1:])
    uneven = bool(((k.std(-1) / k.mean(-1)) > 1e-3).all() and k.min() > 0)  # a key of zeros alone makes no difference
    cosines = (step.raw.double() / (q * k)[..., None]).view(of)
    seen = (step.used > 0).view(of)[:2].all(0) & ~torch.eye(*shape[1:], dtype=torch.bool)  # there both say the same
    one, other = (x[0] - x[1] for x in (cosines, step.maps[0].view(of).double()))
    one, other = (torch.where(seen, x, 0.0) for x in (one, other))
    middle = (other / one).nanmedian(-1, keepdim=True).values.nanmedian(-2, keepdim=True).values  # one for each map
    near = (other - middle * one).abs() <= 1e-4 * other.abs().amax((-2, -1), keepdim=True)
    return uneven and bool(seen.sum((-2, -1)).min() > 3 and near.all())


def named(factor: float, step: Step, exam: Exam) -> str:
    """Return what a factor is, where it is one of the usual mistakes."""
    head_dim = (step.v if step.q is None else step.q).shape[-1]
    d, h = exam.patient.d_model, exam.patient.num_heads
    known = {
        "1: nothing is scaled": 1.0,
        f"1/√d_model, √{d}": d**-0.5,
        f"√head_dim: multiplied where it should be divided, √{head_dim}": head_dim**0.5,
        f"1/head_dim, 1/{head_dim}": 1 / head_dim,
        f"1/d_model, 1/{d}": 1 / d,
        f"1/√num_heads, √{h}": (h or torch.inf) ** -0.5,
        f"1/√T of {exam.T} tokens": exam.T**-0.5,
        f"1/√√{head_dim}, once where it stands on queries and keys": head_dim**-0.25,
        "head_dim, without its root": float(head_dim),
    }
    return next((f"It is {name}." for name, value in known.items() if abs(factor - value) < 0.01 * value), "")


def meant(exam: Exam, factor: float, head_dim: int) -> bool:
    """Whether another scale is one that some take on purpose, and this layer's own words say so."""
    says = exam.patient.docs.says
    if abs(factor * head_dim - 1) < 1e-3:  # or it is scaled twice
        return says(r"\bmup\b|µp|mu-?p\b|1\s*/\s*d\b|maximal update")
    named_so = r"softmax_scale|query_pre_attn_scalar|attention_multiplier|logit_scale|temperature|mup\b|µp|mu-?p"
    if says(named_so + r"|mscale|/ 2\) \*\* -0\.5"):
        return True
    unscaled = r"\bt5|gpt_?neo(?!x)|relative_attention_bias|unscaled|(no|without|not) scal|folded|absorb"
    unscaled += r"|scale\s*=\s*(False|1)|scaling\s*=\s*(False|1(\.0)?\s*\n)"
    return abs(factor - 1) < 1e-3 and says(unscaled + r"|scal\w+ into? the", within=True)


def modes(exam: Exam, j: int) -> Said:
    """Hold that scores in training are those in evaluation, and no multiple of them, where it computes in two ways."""
    step, fresh, says = exam.first.steps[j], exam.patient.unused(), exam.patient.docs.says
    meant = says(r"\blog|temp\b|temperature|\btau\b|anneal|extrapol|yarn")
    if fresh is None or meant or not says(r"\.training\b", within=True):
        return None
    for part in fresh.module.modules():  # dropouts and norms of torch stay as they are
        part.training = not type(part).__module__.startswith("torch.")
    with suppress(Crash), seeing(fresh.module, None, exam.x) as seen:
        fresh(exam.x)
    shown, both = step.used > 0, [step.scores, *(other.scores for other in seen.steps[j : j + 1])]
    if len(seen.steps) != len(exam.first.steps) or any(x.numel() != shown.numel() for x in both):
        return None
    one, two = (x.reshape(shown.shape)[shown].double() for x in both)
    factor = float((one * two).sum() / two.square().sum())
    if abs(factor - 1) > 0.01 and bool((one - factor * two).abs().max() < 1e-4 * one.abs().max()):
        return "wrong-scale", f"scores in evaluation are those in training times {factor:.4g}; they should be the same."
    return None


def twins(exam: Exam, j: int) -> Said:
    """Hold that heads differ, and that each reaches an output."""
    step = exam.first.steps[j]
    used, per = step.used, len(step.used) // exam.B
    dead = [] if step.gated else sorted(exam.silent(j))  # a gate may be shut
    if dead:
        what = f"what {len(dead)} of its {len(used)} maps attend to (map {dead[0]} first) reaches no output."
        return ("heads-unused", what) if len(dead) < len(used) else None
    even = (used - used.mean(-1, keepdim=True)).abs().max() < 1e-4 or used.amax() < 1e-3  # or a sink takes it all
    if even or not exam.flat or exam.of(j, "q") is None:
        return None
    if len(used) == per * exam.B:
        maps = used.view(exam.B, per, *used.shape[1:])
        for g, h in combinations(range(per), 2):
            free = (maps[:, g].count_nonzero(-1) > 1) | (maps[:, h].count_nonzero(-1) > 1)  # else no choice
            if free.any() and torch.allclose(maps[:, g][free], maps[:, h][free], atol=1e-6):
                return "heads-unused", f"heads {g} and {h} of {per} have the same map: they are twins."
    before = exam.first.steps[:j] if exam.token_of(j, "q") is not None else []
    for i, other in enumerate(before):  # heads that are computed one after another
        if other.depth == step.depth and torch.equal(other.used, used) and torch.equal(other.v, step.v):
            return "heads-unused", f"the maps and values of steps {i} and {j} are the same: they are twins."
    return None


def groups(exam: Exam, j: int) -> Said:
    """Hold that heads which share a key share its value."""
    step = exam.first.steps[j]
    per = len(step.used) // exam.B
    for name in "qkv" if per > 1 else ():
        if getattr(step, f"of_{name}").summed == per and len(getattr(step, name).unique(dim=0)) <= exam.B:
            return "groups-differ", f"the {LONG[name]} of all {per} heads are summed, and each map takes their sum."
    if step.k is None or len(step.k) != len(step.v) or step.k.shape[1] != step.v.shape[1] or len(step.k) > 256:
        return None
    if not exam.straight[j] or exam.patient.docs.says(r"lambda_(init|q1)|differential"):
        return None  # keys and values in two orders, as of einsum; or two maps that are subtracted share values
    flat = (x.flatten(1).double() for x in (step.k, step.v))
    keys, values = (torch.cdist(x, x) < 1e-6 * (1 + x.norm(dim=1).max()) for x in flat)
    maps, off = len(keys), (keys != values).nonzero().tolist()
    if not bool(keys.sum() > maps):
        return None
    if not off and step.k.shape == step.q.shape:
        how, shared = "as neighbours" if keys[0, 1] else "cycled", maps // int(keys.sum(1).max())
        what = f"{maps // exam.B} heads of queries share {shared // exam.B} of keys and values, {how}."
        return "grouped-heads", what
    if off and bool(values.sum() > maps):
        n, m = off[0]
        which = ("keys", "values") if keys[n, m] else ("values", "keys")
        return "groups-differ", f"maps {n} and {m} share their {which[0]}, and not their {which[1]}."
    return None


PLACES = {  # what tells places apart, by its words
    "rotary": r"rotary|rotate|(?<![a-z])rope(?![a-z])",
    "slopes": r"alibi|(?<!negative )\bslopes?\b",
    "tables": r"relative_attention_bias|relative_position_(bias|index)|compute_bias",
    "shifts": r"skew|rel(ative)?_?shift",
}


def positions(exam: Exam, j: int) -> Said:
    """Hold that queries and keys are turned by where they stand, and that scores know distances alone."""
    says, patient, T = exam.patient.docs.says, exam.patient, exam.T
    kinds = {kind for kind, words in PLACES.items() if says(words)}
    blocks = "tables" not in kinds and says(r"local|block_len|2d|axial|height")  # where they begin counts as well
    step = exam.first.steps[j]
    unnamed = not kinds and step.of_q.turned and step.of_k.turned  # a rotation under another name
    kinds = {"rotary"} if unnamed else kinds
    if not kinds or len(exam.first.steps) > 1 or patient.call.pooled or patient.call.made_up:
        return None
    if placeless(patient.call.also, f"torch.sin({TOKENS}", "torch.outer("):  # angles may be laid out in other ways
        return "its distances", "what tells places apart, one number for all, waves or angles, was made up"
    seen = exam.look([x[:1, :1].repeat(exam.B, T, 1) for x in exam.x])  # equal tokens
    if len(seen.steps) != 1 or seen.steps[0].scores.shape[-2:] != (T, T):
        return None
    scores = seen.steps[0].scores.double()
    real, own = (scores > -1e3) & scores.isfinite(), scores.diagonal(0, -2, -1)[..., None]
    if not bool(real.diagonal(0, -2, -1).all()):
        return None
    scores = torch.where(real, scores - own, torch.nan)  # what is the same for all keys changes nothing
    eps = 1e-4 * (float(own.abs().max()) + 1.0)
    widths = [n for n in range(1, T + 1) if T % n == 0]
    rasters = [_off(scores, _distances(T, n, n)) for n in widths]
    off = min(rasters)
    exchanged = _exchanged(patient.call.also, scores, eps)
    crossed = T > 11 and any(_off(scores, _distances(T, T // n, n)) < eps for n in widths if n * n != T)
    even = float(scores.nan_to_num(0.0).abs().max()) < eps
    moved = bool((seen.out - seen.out[:, :1]).abs().max() > 100 * patient.rounding(seen.out))
    means = [float(scores.diagonal(d, -2, -1).nan_to_num(0.0).mean()) for d in range(1 - T, T)]
    rising = all(a > b for a, b in pairwise(means[:T])) or all(a < b for a, b in pairwise(means[T - 1 :]))
    filled = [n for n, p in patient.module.named_parameters() if "relative" in n and bool(p.std() > 0)]
    by_query = float((own - own[..., :1, :]).abs().max()) > eps
    turned, one = step.of_q.turned, seen.steps[0]
    stretched = turned and step.of_k.turned and one.q.shape == one.k.shape and not moved
    lengths = [(one.q * one.k).sum(-1), one.q.norm(dim=-1), one.k.norm(dim=-1)] if stretched else []
    stretched = stretched and all(float(x.std(-1).max()) > 1e-2 * float(x.abs().max()) for x in lengths)
    maps = scores.nan_to_num(0.0).flatten(0, -3)
    alike = len(maps) > exam.B and bool(((maps - maps[:1]).abs() < eps).all()) and says("alibi")
    cases = [  # in what kind, what is seen, what it means
        ({"rotary"}, off > eps and crossed and not moved, "scores fit rows and columns of two widths: a row is "
         "i // width and a column i % width, and neither takes the height."),
        ({"rotary"}, stretched, "queries and keys are longer at some places than at others, and what turns them leaves "
         "lengths: are angles and the features of a pair laid out alike?"),
        ({"rotary"}, exchanged, "scores fit a picture with as many columns as it has rows: did height and width change "
         "places?"),
        (kinds, off > eps and (not moved or "tables" in kinds), f"scores of pairs at one distance differ by up to "
         f"{off:.2g}; are angles and the features of a pair laid out alike, and biases brought to (heads, q, k)?"),
        ({"shifts"}, _bare(step), "the own key of each query alone has no term of position: is it padded on the "
         "other side?"),
        ({"rotary"}, turned and even and patient.head_dim > 1, f"queries {'and keys ' * step.of_k.turned}are turned, "
         "and scores are the same wherever they stand: are they turned along the axis of the tokens?"),
        ({"rotary"}, turned and moved and step.of_v.turned and not step.turned_back, "their outputs differ, and their "
         "values are turned as queries and keys are: only the difference of two angles is a distance."),
        ({"tables"}, even and filled, f"their scores are the same wherever they stand, whatever is in {filled[:1]}: "
         "which way round is the distance?"),
        ({"slopes"}, even and by_query, "scores differ from query to query and not from key to key, which no softmax "
         "sees: does the slope run along the keys?"),
        ({"slopes"}, not even and alike, "all heads have one slope; in ALiBi each has its own."),
        ({"slopes"}, not even and rising, "the farther a key, the larger its score; a slope takes away for distance."),
    ]  # fmt: skip
    if unnamed and even and _by_head(exam, j):
        told = "queries of head h are turned h times as far as those of head 1, and wherever they stand alike"
        return "positions-not-relative", f"{T} equal tokens: {told}: an angle goes by the axis of the heads."
    if unnamed and (even or stretched or moved):
        return "its positions", "queries and keys are multiplied by fixed numbers: are they meant to turn them?"
    cases = cases[:3] if blocks else cases
    told = next((told for of, seen, told in cases if of == kinds and seen), None)
    return ("positions-not-relative", f"{T} equal tokens: {told}") if told else None


def _distances(tokens: int, over: int, width: int) -> Tensor:
    """Return a number for each distance of two tokens, `(T, T)`, with rows i // over and columns i % width."""
    place = torch.arange(tokens)
    down, right = place // over, place % width
    return (down[:, None] - down) * 4 * tokens + right[:, None] - right


def _exchanged(also: dict[str, object], scores: Tensor, eps: float) -> bool:
    """Whether a layer that is told rows and columns takes the ones for the others."""
    if (before := before_picture(also)) is None:
        return False
    scores = scores[..., before:, before:]
    n, (rows, columns) = scores.shape[-1], picture(scores.shape[-1])
    return _off(scores, _distances(n, rows, rows)) < eps < _off(scores, _distances(n, columns, columns))


def _bare(step: Step) -> bool:
    """Whether the score of each query and its own key is their product and no more, and others are more."""
    if step.raw is None or step.raw.numel() != step.scores.numel() or step.raw.shape[1] != step.raw.shape[2]:
        return False
    raw, scores = step.raw.double(), step.scores.reshape(step.raw.shape).double()
    one, two = raw.diagonal(0, 1, 2), scores.diagonal(0, 1, 2)
    factor = (one * two).sum() / one.square().sum()
    more = torch.where(step.used.reshape(raw.shape) > 0, (scores - factor * raw).abs(), 0.0)
    return bool((two - factor * one).abs().max() < 1e-5 * two.abs().max() < 1e-3 * more.max())


def _by_head(exam: Exam, j: int) -> bool:
    """Whether queries of head 0 are what was projected, and those of each head turned by one angle more than before."""
    q, rows, of = exam.first.steps[j].q, exam.of(j, "q"), exam.info(j, "q").of
    per, head_dim = len(q) // exam.B, q.shape[-1]
    made_of = exam.first.projections[of[0]] if len(of) == 1 and rows is not None and not head_dim % 2 else q
    if per < 3 or made_of is q or bool((rows < 0).any()) or made_of.shape[-1] % head_dim:
        return False
    parts = made_of.double()[rows].unflatten(-1, (-1, head_dim))  # (N, T, parts, head_dim)
    off = (parts.norm(dim=-1) - q.double().norm(dim=-1)[..., None]).abs().amax(1)  # a turn leaves lengths
    before = parts[torch.arange(len(q)), :, off.argmin(-1)]
    for pairs in (lambda x: x.unflatten(-1, (-1, 2)), lambda x: x.unflatten(-1, (2, -1)).mT):  # neighbours, halves
        one, two = (torch.view_as_complex(pairs(x).contiguous()) for x in (before, q.double()))
        turn = (two / one).view(exam.B, per, -1, head_dim // 2)
        powers = turn[:1, 1:2, :1] ** torch.arange(per)[:, None, None]
        if bool((turn - powers).abs().max() < 1e-2) and bool((turn[:, 1] - 1).abs().max() > 0.1):
            return True
    return False


def _off(scores: Tensor, distance: Tensor) -> float:
    """Return by how much scores of equal tokens at one distance differ at most."""
    lines = (scores[..., distance == one] for one in distance.unique())
    spread = (float((x.amax(-1) - x.amin(-1)).max()) for x in lines if not bool(x.isnan().any()))
    return max(spread, default=math.inf)


LAWS = [split, whole, folded, samples, order, corner, pairs, fillers, constants, windows, borders, inputs]
LAWS += [merge, shares, scale, modes, twins, groups, positions]


# ---------------------------------------------------------------------------------------------------- of all steps


class HeadsSeen(NamedTuple):
    """How many heads were stated, and how many maps a sample has."""

    stated: int | None
    counted: int | None

    def __str__(self) -> str:
        stated = "" if self.stated is None else f"{self.stated} head{'s' * (self.stated != 1)} stated, "
        return stated + ("not counted: its maps are not followed" if self.counted is None else f"{self.counted} seen")


def heads(exam: Exam, report: Report) -> None:
    """Hold that each sample has as many maps as heads were stated."""
    stated, steps, call = exam.patient.num_heads, exam.first.steps, exam.patient.call
    first = [j for j, step in enumerate(steps) if step.depth == 0]
    tokens = [exam.token_of(j, "q") for j in first]
    report.heads = HeadsSeen(stated, None)
    if any(x is None for x in tokens):
        return
    counted = sum(len(steps[j].used) for j in first) // exam.B
    report.heads = HeadsSeen(stated, counted)
    whole = all(step.used.shape[1] == exam.T and not step.of_weights.far for step in steps) and "H" not in call.axes
    told = exam.patient.told and (len(steps) == 1 or counted < (stated or 0))
    if stated and stated != counted and whole and (told or counted == 1):
        found = f"{stated} heads stated, {counted} seen: so many maps has each sample."
        report.say("heads-unused", found)

"""What can be told of a layer from matrices without their biases: the heads, the scale, and which matrix is wrong.

How the layer is asked stands in `pairs`.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from attention_doctor.inside.fit import CLEAR, LAYOUTS, say_scale
from attention_doctor.inside.pairs import Pairs, Reading, in_float64
from attention_doctor.inside.projections import Projection, by_head
from attention_doctor.inside.ways import SCALES
from attention_doctor.patient import Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting

NEAR = 1e-3  # share by which a slope may differ from the scale that it is called after
MOST_PAIRS = 6000


def examine_differences(
    patient: Patient,
    setting: Setting,
    report: Report,
    found: Mapping[str, Projection],
    promised: bool | None = None,
) -> str:
    """Report what pairs of tokens tell of the scale and the heads; return "" or why it tells nothing.

    Raises:
        Crash: the layer raises.
    """
    with in_float64(patient) as exact:
        pairs = Pairs(patient, 1e-5 if exact else 1e-3)  # a softmax may be float32 inside
        if why := pairs.unfit():
            return why
        readings, total = _all_readings(pairs, found)
        good = [r for r in readings if r.good(pairs.close)]
        if not good:
            return _what_fits(pairs, readings, found, setting)
        return _judge(pairs, readings, good, total, report, promised)


def _all_readings(pairs: Pairs, found: Mapping[str, Projection]) -> tuple[list[Reading], float]:
    """Return what is read with each number of heads and each layout, the stated one first, and the weights' sum."""
    inner, kv, stated = len(found["q"].weight), len(found["k"].weight), len(found["q"].weight) // pairs.patient.head_dim
    readings, total = [], 1.0
    for heads in [stated, *(n for n in range(1, min(inner, 64) + 1) if inner % n == 0 and n != stated)]:
        if kv % (inner // heads):
            continue
        own = heads == stated
        for layout in ("contiguous", "permuted", "fused") if own and kv == inner and heads > 1 else ("contiguous",):
            for shared in ("neighbours", "cycled") if own and kv < inner else ("neighbours",):
                cut = by_head(found, heads, layout, shared)
                if cut.o.shape[0] != pairs.patient.width:
                    continue
                left, sum_of_weights = pairs.values_alone(cut)
                if left > pairs.close:
                    readings.append(Reading(heads, layout, shared, float("inf"), float("inf"), 0.0, 0.0, cut))
                    continue
                total = sum_of_weights
                readings.append(pairs.read(heads, layout, shared, total, cut))
                if own and readings[-1].good(pairs.close) and len(readings) == 1:
                    return readings, total  # the usual one
    return readings, total


def _judge(
    pairs: Pairs, readings: list[Reading], good: list[Reading], total: float, report: Report, promised: bool | None
) -> str:
    """Turn what fits into findings, where nothing else does."""
    inner, close = good[0].heads * good[0].cut.q.shape[1], pairs.close
    stated = inner // pairs.patient.head_dim
    best = good[0] if good[0].heads == stated else min(good, key=lambda r: max(r.values, r.scores))
    off = max(best.values, best.scores)
    told = f"told from pairs of tokens, where biases cancel; {off:.1g} of it is left over"
    if best.heads != stated:
        if not all(r is best or max(r.values, r.scores) > max(close, CLEAR * off) for r in readings):
            return f"the matrices fit with {' and with '.join(str(r.heads) for r in good)} heads"
        heads = f"{best.heads} head{'s' if best.heads > 1 else ''}"
        report.find("heads-unused", f"the weights are those of {heads}, not of {stated} ({told}).")
    right = (inner // best.heads) ** -0.5
    if abs(total - right) < NEAR * right and right < 1:
        report.find(
            "wrong-scale",
            f"the weights of a query sum to {total:.4g} = 1/sqrt(head_dim): they are divided by sqrt(head_dim) after "
            f"the softmax, and the scores are multiplied by {best.slope:.4g} before it ({told}).",
        )
    elif abs(best.slope / right - 1) > 10 * NEAR:
        say_scale(_name_of(best, pairs, total), best.slope, right, told, report, promised)
    if best.layout == "permuted":
        report.remark("layout", LAYOUTS["permuted"])
    if promised is None:
        report.skip(
            "biases", "the matrices fit, with biases that were not handed over or positions that move scores alike"
        )
    return ""


def _name_of(reading: Reading, pairs: Pairs, total: float) -> str:
    """Return what people call this scale, "" for no known one."""
    num_heads, head_dim, d_model = reading.cut.q.shape
    for name, scale in SCALES.items():
        if abs(reading.slope / scale(head_dim, d_model, num_heads, 2) - 1) > NEAR:
            continue
        if name == "1/sqrt(T)":  # is it, with one token more?
            more = Pairs(pairs.patient, pairs.close, copies=2)
            again = more.read(reading.heads, reading.layout, reading.shared, total, reading.cut)
            if not again.good(pairs.close) or abs(again.slope * 3**0.5 - 1) > NEAR:
                continue
        return name
    return ""


def _what_fits(pairs: Pairs, readings: list[Reading], found: Mapping[str, Projection], setting: Setting) -> str:
    """Say which of the matrices explain what they should, and which do not."""
    stated = len(found["q"].weight) // pairs.patient.head_dim
    if all(r.values == float("inf") for r in readings):
        return f"{_wrong_of_values(pairs, found, stated)}: another layer's, or an axis swapped?"
    fitting = [r for r in readings if r.values <= pairs.close]
    if not fitting:
        return "v and o fit a token alone, but with no number of heads a pair of them"
    chosen = next((r for r in fitting if r.heads == stated), fitting[0])
    what = f"v and o fit with {chosen.heads} head{'s' if chosen.heads > 1 else ''}"
    if setting.places:
        return f"{what}; q and k cannot be judged, because the layer tells places apart and may turn them (rotary)"
    wrong = _wrong_of_scores(pairs, chosen)
    if wrong is None:
        return f"{what}; the scores could not be read (a head that sees nothing, or weights that sum to another number)"
    if wrong == "both fit":
        return f"{what}, q and k do, too, but not their product: are heads of keys shared in another way?"
    if wrong == "exchanged":
        return f"{what}; q and k do when they are exchanged"
    return f"{what}; {wrong}: another layer's, or are they turned, normed or bent before they meet?"


def _wrong_of_scores(pairs: Pairs, reading: Reading) -> str | None:
    """Say whether q or k is to blame: the scores, as functions of c and of d, must be spanned by their rows."""
    size = reading.cut.q.shape[1] + 6
    if size**2 > MOST_PAIRS or size + 2 > pairs.patient.d_model:
        return "q or k does not"
    c, d = (pairs.patient.noise(1, size, seed)[0].double() for seed in (23, 24))
    _, total = pairs.values_alone(reading.cut)
    scores, c, d, _ = pairs.logits(reading.cut, total, c, d)  # (C, D, h)
    if scores is None:
        return None
    bad = set()
    for h in range(reading.heads):
        ones = torch.ones(len(c), 1, dtype=c.dtype)
        if _left_over(torch.cat([c @ reading.cut.q[h].T, ones], 1), scores[..., h]) > 100 * pairs.close:
            bad.add("q")
        moved = (scores[..., h] - scores[..., h].mean(0)).T  # (D, C)
        if _left_over(d @ reading.cut.k[h].T, moved) > 100 * pairs.close:
            bad.add("k")
    swapped = replace(reading.cut, q=reading.cut.k, k=reading.cut.q)
    if len(bad) == 2 and pairs.read(reading.heads, reading.layout, reading.shared, total, swapped).good(pairs.close):
        return "exchanged"
    told = {"": "both fit", "q": "k fits, q does not", "k": "q fits, k does not", "kq": "neither q nor k does"}
    return told["".join(sorted(bad))]


def _left_over(columns: Tensor, measured: Tensor) -> float:
    told = columns @ torch.linalg.lstsq(columns, measured, driver="gelsd").solution
    return float((told - measured).abs().max() / measured.abs().max().clamp_min(1e-30))


def _wrong_of_values(pairs: Pairs, found: Mapping[str, Projection], heads: int) -> str:
    """Say whether v or o is to blame: with a token of one head, or read head by head, what is added has rank one."""
    inner = len(found["q"].weight)
    if "o" not in found:
        return "v is not what the layer calculates, or an o belongs to it that was not handed over"
    if len(found["v"].weight) != inner or heads == 1 or inner > pairs.patient.d_model:
        return f"v or o is not what the layer calculates with {heads} head{'s' if heads > 1 else ''}"
    cut = by_head(found, heads, "contiguous", "neighbours")
    one = torch.zeros(inner, dtype=torch.float64)
    one[: inner // heads] = pairs.patient.noise(1, 1, 25)[0, 0, : inner // heads].double()
    d = torch.linalg.lstsq(found["v"].weight, one[:, None], driver="gelsd").solution.T  # (1, d_model), seen by head 0
    v_fits = _second_direction(pairs.added(pairs.c, 0.3 * d)[:, 0]) <= 100 * pairs.close
    added = pairs.added(pairs.c, 0.3 * pairs.d[:1])[:, 0]  # (C, d_out)
    read = torch.linalg.lstsq(cut.o.flatten(1), added.T, driver="gelsd").solution  # (h * hd, C)
    o_fits = all(_second_direction(part) <= 100 * pairs.close for part in read.unflatten(0, (heads, -1)))
    if v_fits == o_fits:
        return f"{'v or o is not' if v_fits else 'neither v nor o is'} what the layer calculates with {heads} heads"
    right, wrong = "vo" if v_fits else "ov"
    return f"{right} fits with {heads} heads, {wrong} does not"


def _second_direction(rows: Tensor) -> float:
    sizes = torch.linalg.svdvals(rows)
    return float(sizes[1] / sizes[0].clamp_min(1e-30))

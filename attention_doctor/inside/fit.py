"""Find the way to calculate a layer that gives its outputs, and judge what is unusual in it.

A wrong scale can be absorbed into `W_q`: nobody can see it from outside. With the weights the layer is calculated
again in every likely way, and the way that fits is it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attention_doctor.inside.projections import CROSSED, Heads, Projection
from attention_doctor.inside.silent import silent_blocks
from attention_doctor.inside.ways import Way, calculate, cut, scale_of, ways
from attention_doctor.patient import Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting
from mhalib.masks import causal_mask

CLOSE = 1e-3  # share of the output that rounding may explain; a wrong scale or layout is far above
BLUNT = 1e-2  # share by which two answers must differ to be told apart
CLEAR = 100  # times as far off as the way that fits: what every other way must be before anything is called wrong

# Of a layer that nobody handed over with its weights only these are slips; the others people choose on purpose.
SURELY_SLIPS = {"1/sqrt(d_model)", "sqrt(head_dim)", "1/sqrt(T)", "1/sqrt(num_heads)"}


@dataclass(frozen=True)
class Fit:
    """How far each way is off, as a share of the output, the usual one first; and the number that each scale is."""

    errors: dict[Way, float]
    scales: dict[Way, float]
    tokens: int

    @property
    def best(self) -> Way:
        """The way that is nearest; of equals the likelier one."""
        return min(self.errors, key=self.errors.get)

    @property
    def usual(self) -> Way:
        """The way that the layer is said to go."""
        return next(iter(self.errors))

    @property
    def off(self) -> float:
        """How far the nearest way is off."""
        return self.errors[self.best]

    @property
    def fits(self) -> bool:
        """Whether rounding explains what is left."""
        return self.off <= CLOSE

    def clear_of_heads(self) -> bool:
        """Whether all ways with another number of heads are far worse."""
        return self._clear([way for way in self.errors if way.heads != self.best.heads])

    def clear_of_scales(self) -> bool:
        """Whether all ways with another scale are far worse; two names may stand for one number."""
        scale = self.scales[self.best]
        return self._clear([way for way in self.errors if abs(self.scales[way] / scale - 1) > 1e-6])

    def _clear(self, others: list[Way]) -> bool:
        return all(self.errors[way] > max(CLOSE, CLEAR * self.off) for way in others)


class Answers:
    """What a layer makes of six different tokens: what every way to calculate it is held against."""

    def __init__(self, patient: Patient, setting: Setting):
        sizes = {patient.num_heads, patient.head_dim, patient.d_model}
        self.T = next(T for T in (6, 7, 5, 4, 3) if T not in sizes)  # 1/sqrt(T) is a scale, too
        causal = patient.attend.causal or setting.sight == "causal"
        self.base = causal_mask(self.T) if causal else torch.ones(self.T, self.T, dtype=torch.bool)
        self.patient = patient
        self.known: dict[float, tuple[Tensor, Tensor]] = {}

    def at(self, found: Mapping[str, Projection]) -> tuple[Tensor, Tensor]:
        """Return tokens that differ, so large that the scores do, and the outputs, float64.

        With flat maps every scale gives the same.

        Raises:
            Crash: the layer raises.
        """
        sharp = float((found["q"].weight.norm() * found["k"].weight.norm()) / len(found["q"].weight))
        size = max(0.2, min(3.0, 2.0 / max(sharp, 1e-6)) ** 0.5)
        if size not in self.known:
            x = self.patient.tokens(2, self.T, 1.0) * size
            self.known[size] = x.double(), self.patient(x).double()
        return self.known[size]


def fit(answers: Answers, found: Mapping[str, Projection], tried: Iterable[Way] | None = None) -> Fit:
    """Return how far each way is off; the first one alone where that fits.

    Raises:
        Crash: the layer raises.
    """
    x, out = answers.at(found)
    size, nearest = float(out.abs().max()) or 1.0, None
    tried = list(ways(found, answers.patient.head_dim) if tried is None else tried)
    for target in (out, out - x) if out.shape == x.shape else (out,):  # as it is; behind a residual connection
        errors, scales, pieces = {}, {}, {}
        for way in tried:
            key = (way.heads, way.layout, way.shared, way.used)
            pieces[key] = pieces.get(key) or cut(found, way)
            made = calculate(x, answers.base, pieces[key], way)
            if made.shape != target.shape:
                return Fit({way: float("inf")}, {}, answers.T)
            off = float((made - target).abs().max()) / size
            errors[way] = off if off == off else float("inf")
            scales[way] = scale_of(way, pieces[key], answers.T)
            if errors[way] <= CLOSE and len(errors) == 1:
                break  # the usual way
        now = Fit(errors, scales, answers.T)
        nearest = now if nearest is None or now.off < nearest.off else nearest
        if nearest.fits:
            break
    return nearest


def why_not(fitted: Fit, found: Mapping[str, Projection], patient: Patient) -> str:
    """Say that no way gives the outputs, and what may be the reason."""
    why = "positions, a norm, biases that were not given" + ("" if "o" in found else ", the weights of o")
    if patient.dtype.itemsize < 4:
        why = f"the rounding of {patient.dtype}, then examine layer.float(); or {why}"
    return (
        "no known way to calculate a layer from these weights gives its output (the nearest is off by "
        f"{fitted.off:.1g} of the output, up to {CLOSE:g} would pass): {why}?"
    )


LAYOUTS = {
    "permuted": "the heads are the fast axis of the features (permuted layout): "
    "weights cannot be copied to other layers as they are.",
    "fused": "the rows of q, k and v stand together head by head (interleaved layout): "
    "the three weights handed over are not q, k and v yet.",
}
USED = {
    "qqv": "the keys are made by the queries' projection; the one handed over as k has no part.",
    "qkk": "the keys are used as values; the projection handed over as v has no part.",
}


def judge_way(
    fitted: Fit, patient: Patient, report: Report, found: Mapping[str, Projection], promised: bool | None = None
) -> None:
    """Turn the way that fits into findings and remarks.

    Args:
        fitted: what fits.
        patient: the layer.
        report: where it is said.
        found: the projections.
        promised: None where the weights were handed over; otherwise whether the layer's own words promise the usual
            scale, without which an unusual one may be meant.
    """
    best, usual, quiet = fitted.best, fitted.usual, promised is not None
    inner, kv = len(found["q"].weight), len(found["k"].weight)
    stated = inner // patient.head_dim
    off = f"off by {fitted.off:.1g} of the output; the usual way is off by {fitted.errors[usual]:.1g}"
    if best.heads != stated and (not quiet or fitted.clear_of_heads()):
        heads = f"{best.heads} head{'s' if best.heads > 1 else ''}"
        silent = "".join(f" No gradient reaches {block}." for block in silent_blocks(patient))
        report.find("heads-unused", f"the outputs are those of {heads}, not of {stated} ({off}).{silent}")
    if best.used != "qkv":
        report.find("dead-parameters", f"{USED[best.used]} Calculated so, the outputs fit ({off}).")
    judge_scale(fitted, cut(found, best), off, report, promised)
    if best.layout in LAYOUTS:
        report.remark("layout", LAYOUTS[best.layout])
    if best.shared in CROSSED:
        report.find("groups-differ", f"the outputs are those of {best.shared} ({off}).")
    elif kv < inner:
        report.remark(
            "grouped-heads",
            f"{stated} heads of queries share {kv // patient.head_dim} heads of keys and values ({best.shared}).",
        )
    if best.zero_key:
        report.remark("zero-key", "a further key with score 0 and value 0 takes part in the softmax.")
    if all(p.bias is None for p in found.values()) and not quiet:
        report.remark("no-bias", "the projections were handed over without biases, and the outputs need none.")
    if usual != best and fitted.errors[usual] < BLUNT and not quiet:
        report.remark(
            "flat-maps",
            f"at these weights the usual way is off by {fitted.errors[usual]:.1g} only: the maps are nearly flat.",
        )


def judge_scale(fitted: Fit, heads: Heads, off: str, report: Report, promised: bool | None) -> None:
    """Report a scale other than 1/sqrt(head_dim): a finding, or, where it may be meant, a remark."""
    best, head_dim = fitted.best, heads.q.shape[1]
    scale, right = scale_of(best, heads, fitted.tokens), head_dim**-0.5
    if best.after:
        report.find(
            "wrong-scale",
            f"the outputs are those of weights divided by sqrt(head_dim) = {1 / right:.4g} after the softmax, and of "
            f"scores times {best.scale} = {scale:.4g} before it ({off}).",
        )
        return
    if abs(scale / right - 1) <= 1e-6:
        return
    if promised is not None and not fitted.clear_of_scales():
        return
    say_scale(best.scale, scale, right, off, report, promised)


def say_scale(name: str, scale: float, right: float, off: str, report: Report, promised: bool | None) -> None:
    """Say that the scale is another one, as a finding where it cannot be meant."""
    number = f"{name} = {scale:.4g}" if name else f"{scale:.4g}"
    meant = any(abs(scale / other - 1) < 1e-3 for other in (right**2, 1.0))  # 1/head_dim may equal 1/sqrt(d_model)
    wrong = promised is None or promised or (name in SURELY_SLIPS and not meant)
    told = f"the outputs are those of the scale {number}, where 1/sqrt(head_dim) = {right:.4g} ({off})."
    if name == "1/sqrt(T)":
        told += " T is the number of keys here: the same tokens get flatter maps in longer texts."
    if wrong:
        report.find("wrong-scale", told)
    else:
        report.remark("unusual-scale", told)

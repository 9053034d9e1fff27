"""What only an insider sees: parameters that nothing reaches, and, with the projection weights, scale and heads.

A wrong scale can be absorbed into `W_q`, and four heads can be told from one only at known weights: no probe from
outside sees either. With the weights the layer is calculated again in every likely way, and the way that fits is it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from mhalib.doctor.patient import Crash, Patient
from mhalib.doctor.report import Report
from mhalib.masks import causal_mask

CLOSE = 1e-3  # share of the output that rounding may explain; a wrong scale or layout is far above
BLUNT = 1e-2  # share by which two answers must differ to be told apart


def dead_parameters(patient: Patient, report: Report) -> None:
    """Report the parameters that no gradient reaches.

    A gradient of zero is no proof (a gate that starts at 0, the bias of the keys); no gradient at all is.
    """
    module = patient.module
    if module is None:
        report.skip("dead parameters", "no module is known; hand it over with module=")
        return
    named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
    if not named:
        report.skip("dead parameters", "the module has no parameters that can be trained")
        return
    reached: set[str] = set()
    masks = [None] if patient.attend.masks == "none" else [None, causal_mask(6)]
    for mask in masks:
        x = patient.tokens(2, 6, 0.5).to(patient.device, patient.dtype).requires_grad_()
        try:
            if mask is not None and patient.attend.masks == "lengths":
                mask = (torch.arange(6) < 4).expand(6, 6)
            loss = patient(x, mask, grad=True).square().sum()
            grads = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
        except (Crash, RuntimeError) as error:
            report.skip("dead parameters", f"no gradient could be taken: {str(error).splitlines()[0]}")
            return
        reached |= {name for (name, _), grad in zip(named, grads, strict=True) if grad is not None}
        if len(reached) == len(named):
            return
    dead = [(n, p) for n, p in named if n not in reached]
    if dead:
        names = ", ".join(n for n, _ in dead[:4]) + (", …" if len(dead) > 4 else "")
        report.find(
            "dead-parameters",
            f"no gradient reaches {len(dead)} of {len(named)} parameters: {names} ({sum(p.numel() for _, p in dead)} numbers).",
        )


@dataclass
class Projection:
    """The weight `(out, in)` and the bias of one linear layer."""

    weight: Tensor
    bias: Tensor | None = None


def check_weights(weights: object, d_model: int, num_heads: int, head_dim: int) -> dict[str, Projection]:
    """Return the projections, or refuse them; see `examine`."""
    if not isinstance(weights, Mapping) or not {"q", "k", "v"} <= set(weights) <= {"q", "k", "v", "o"}:
        got = ", ".join(map(str, weights)) if isinstance(weights, Mapping) else type(weights).__name__
        raise ValueError(
            f'weights must be {{"q": …, "k": …, "v": …}}, with "o" where there is an output projection; got {got}'
        )
    found = {}
    for name, given in weights.items():
        if given is None and name == "o":
            continue
        weight, bias = (given.weight, given.bias) if isinstance(given, nn.Linear) else (given, None)
        if not isinstance(weight, Tensor) or weight.ndim != 2:
            raise TypeError(
                f"weights[{name!r}] must be an nn.Linear or a matrix (out, in), got {type(given).__name__}; give layer.W_{name}"
            )
        found[name] = Projection(weight.detach().cpu().double(), None if bias is None else bias.detach().cpu().double())
    for name in "qkv":
        out, features = found[name].weight.shape
        if features != d_model or out % head_dim:
            raise ValueError(
                f"weights[{name!r}] must be (out, in) with in = d_model = {d_model} and out a multiple of head_dim = {head_dim}, "
                f"got {(out, features)}; nn.Linear stores (out, in), use .T for the other order"
            )
    inner = len(found["q"].weight)
    if inner != num_heads * head_dim:
        raise ValueError(
            f"weights['q'] has {inner} rows, where num_heads * head_dim = {num_heads} * {head_dim} = {num_heads * head_dim}; "
            f"give head_dim=..., the features of one head, or another num_heads"
        )
    if len(found["k"].weight) != len(found["v"].weight) or inner % len(found["k"].weight):
        raise ValueError(
            f"q, k, v have {inner}, {len(found['k'].weight)}, {len(found['v'].weight)} rows; k and v need equally many, a divisor of q's"
        )
    if "o" in found and found["o"].weight.shape[1] != inner:
        raise ValueError(
            f"weights['o'] must take {inner} features, got {tuple(found['o'].weight.shape)}; nn.Linear stores (out, in), use .T for the other order"
        )
    return found


@dataclass(frozen=True)
class Way:
    """One way to calculate a layer from its weights."""

    layout: str  # how features belong to heads: contiguous, permuted, fused
    heads: int
    shared: str  # how shared key/value heads are repeated: neighbours, cycled
    scale: str
    zero_key: bool  # one more key with score 0 and value 0


def fit_weights(patient: Patient, report: Report, found: dict[str, Projection]) -> None:
    """Find the way to calculate the layer that gives its outputs, and judge the scale, the heads, the layout."""
    T = 6
    # Tokens that differ, and large enough that the scores do: with flat maps every scale gives the same.
    sharp = float((found["q"].weight.norm() * found["k"].weight.norm()) / len(found["q"].weight))
    x = patient.tokens(2, T, 1.0) * max(0.2, min(3.0, 2.0 / max(sharp, 1e-6)) ** 0.5)
    causal = patient.attend.causal or any(r.code == "causal" for r in report.remarks)
    base = causal_mask(T) if causal else torch.ones(T, T, dtype=torch.bool)
    try:
        out = patient(x).double()
    except Crash as crash:
        report.skip("scale and heads", f"the layer raised {crash}")
        return
    target_scale, nearest = out.abs().max(), float("inf")
    for residual in (False, True):
        if residual and out.shape[-1] != patient.d_model:
            continue
        target = out - x.double() if residual else out
        errors = {}
        for way in ways(patient, found):
            errors[way] = float((calculate(x.double(), base, found, way, patient) - target).abs().max() / target_scale)
            if errors[way] <= CLOSE and len(errors) == 1:
                break  # the usual way
        best = min(errors, key=errors.get)
        nearest = min(nearest, errors[best])
        if errors[best] <= CLOSE:
            judge(best, errors, patient, report, found)
            return
    why = "positions, a norm, biases that were not given" + ("" if "o" in found else ", the weights of o")
    if patient.dtype.itemsize < 4:
        why = f"the rounding of {patient.dtype}, then examine layer.float(); or {why}"
    report.skip(
        "scale and heads",
        f"no known way to calculate a layer from these weights gives its output (the nearest is off by {nearest:.1g} of the output, up to {CLOSE:g} would pass): {why}?",
    )


def ways(patient: Patient, found: dict[str, Projection]) -> Iterator[Way]:
    """Yield the ways to try, the usual one first."""
    inner, kv = len(found["q"].weight), len(found["k"].weight)
    stated = inner // patient.head_dim
    heads = [stated, *(n for n in range(1, min(inner, 64) + 1) if inner % n == 0 and n != stated)]
    for n in heads:
        if kv % (inner // n):
            continue
        own = n == stated  # with another number of heads only the scale is left open
        layouts = ("contiguous", "permuted", "fused") if own and kv == inner and n > 1 else ("contiguous",)
        repeats = ("neighbours", "cycled") if own and kv < inner else ("neighbours",)
        for zero_key, layout, shared in product((False, True) if own else (False,), layouts, repeats):
            for scale in scales(1, 1, 1):
                yield Way(layout, n, shared, scale, zero_key)


def scales(head_dim: int, d_model: int, num_heads: int) -> dict[str, float]:
    """Return the scales that people use, by name."""
    return {
        "1/sqrt(head_dim)": head_dim**-0.5,
        "1/sqrt(d_model)": d_model**-0.5,
        "1": 1.0,
        "1/head_dim": 1 / head_dim,
        "1/d_model": 1 / d_model,
        "sqrt(head_dim)": head_dim**0.5,
        "1/sqrt(num_heads)": num_heads**-0.5,
        "head_dim**-0.25": head_dim**-0.25,
    }


def calculate(x: Tensor, base: Tensor, found: dict[str, Projection], way: Way, patient: Patient) -> Tensor:
    """Return the output of the layer, calculated in one way."""
    q, k, v = (found[name].weight for name in "qkv")
    b_q, b_k, b_v = (
        torch.zeros(len(found[n].weight), dtype=x.dtype) if found[n].bias is None else found[n].bias for n in "qkv"
    )
    if (
        way.layout == "fused"
    ):  # the rows of q, k and v stand together head by head, and were cut into three without care
        q, k, v = torch.cat([q, k, v]).unflatten(0, (way.heads, 3, -1)).transpose(0, 1).flatten(1, 2)
        b_q, b_k, b_v = torch.cat([b_q, b_k, b_v]).unflatten(0, (way.heads, 3, -1)).transpose(0, 1).flatten(1)
    inner = len(q)
    head_dim = inner // way.heads
    parts = []
    for weight, bias in ((q, b_q), (k, b_k), (v, b_v)):
        y = x @ weight.T + bias
        if way.layout == "permuted":  # the heads are the fast axis of the features
            parts.append(y.unflatten(-1, (head_dim, -1)).permute(0, 3, 1, 2))  # (B, T, hd, h) -> (B, h, T, hd)
            continue
        y = y.unflatten(-1, (-1, head_dim)).transpose(1, 2)  # (B, h, T, hd)
        times = way.heads // y.shape[1]
        y = y.repeat(1, times, 1, 1) if way.shared == "cycled" else y.repeat_interleave(times, 1)
        parts.append(y)
    scores = parts[0] @ parts[1].transpose(-2, -1) * scales(head_dim, patient.d_model, way.heads)[way.scale]
    scores = scores.masked_fill(~base, -torch.inf)
    if way.zero_key:
        scores = torch.cat([scores, torch.zeros_like(scores[..., :1])], -1)
        weights = scores.softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    heads = weights @ parts[2]  # (B, h, T, hd)
    merged = heads.permute(0, 2, 3, 1).flatten(2) if way.layout == "permuted" else heads.transpose(1, 2).flatten(2)
    if "o" not in found:
        return merged
    o = found["o"]
    return merged @ o.weight.T + (0 if o.bias is None else o.bias)


def judge(best: Way, errors: dict[Way, float], patient: Patient, report: Report, found: dict[str, Projection]) -> None:
    """Turn the way that fits into findings and remarks."""
    inner = len(found["q"].weight)
    stated, head_dim = inner // patient.head_dim, inner // best.heads
    usual = next(iter(errors))
    off = f"off by {errors[best]:.1g} of the output; the usual way is off by {errors[usual]:.1g}"
    if best.heads != stated:
        report.find(
            "heads-unused",
            f"the outputs are those of {best.heads} head{'s' if best.heads > 1 else ''}, not of {stated} ({off}).",
        )
    values = scales(head_dim, patient.d_model, best.heads)
    if abs(values[best.scale] / values["1/sqrt(head_dim)"] - 1) > 1e-6:
        report.find(
            "wrong-scale",
            f"the outputs are those of the scale {best.scale} = {values[best.scale]:.4g}, where 1/sqrt(head_dim) = {head_dim**-0.5:.4g} ({off}).",
        )
    if best.layout == "permuted":
        report.remark(
            "layout",
            "the heads are the fast axis of the features (permuted layout): weights cannot be copied to other layers as they are.",
        )
    if best.layout == "fused":
        report.remark(
            "layout",
            "the rows of q, k and v stand together head by head (interleaved layout): the three weights handed over are not q, k and v yet.",
        )
    if len(found["k"].weight) < inner:
        report.remark(
            "grouped-heads",
            f"{stated} heads of queries share {len(found['k'].weight) // patient.head_dim} heads of keys and values ({best.shared}).",
        )
    if best.zero_key:
        report.remark("zero-key", "a further key with score 0 and value 0 takes part in the softmax.")
    if all(p.bias is None for p in found.values()):
        report.remark("no-bias", "the projections were handed over without biases, and the outputs need none.")
    if usual != best and errors[usual] < BLUNT:
        report.remark(
            "flat-maps", f"at these weights the usual way is off by {errors[usual]:.1g} only: the maps are nearly flat."
        )

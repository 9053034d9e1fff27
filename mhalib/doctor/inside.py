"""What only an insider sees: parameters that nothing reaches, and, with the projection weights, scale and heads.

A wrong scale can be absorbed into `W_q`: nobody can see it from outside. Heads could be counted there, where nothing
stands around the layer (lesson 06), but no probe does. With the weights the layer is calculated again in every likely
way, and the way that fits is it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from mhalib.doctor.patient import Crash, Patient
from mhalib.doctor.report import Report
from mhalib.doctor.setting import Setting
from mhalib.masks import causal_mask

CLOSE = 1e-3  # share of the output that rounding may explain; a wrong scale or layout is far above
BLUNT = 1e-2  # share by which two answers must differ to be told apart
FATAL = {"crash", "shape", "not-finite", "not-deterministic"}  # no gradient of such a layer says anything
HARMLESS = {"dead-parameters", "nan-on-empty-row"}  # they say nothing of the numbers


@dataclass(frozen=True)
class Projection:
    """The weight `(out, in)` and the bias `(out,)` of one linear layer, in float64 on the CPU."""

    weight: Tensor
    bias: Tensor | None = None


def examine_from_inside(
    patient: Patient, setting: Setting, report: Report, projections: dict[str, Projection] | None
) -> None:
    """Look at the parameters, the scale, the heads and the layout, where the findings so far leave a sense in it."""
    if not FATAL & set(report.codes):
        dead_parameters(patient, report)
    if projections is None:
        report.skip("scale, number of heads, layout", "no probe looks at them from outside; hand over weights=")
    elif set(report.codes) <= HARMLESS:
        fit_weights(patient, setting, report, projections)
    else:
        report.skip("scale, number of heads, layout", "only of use once the findings above are mended")


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
        size = sum(p.numel() for _, p in dead)
        report.find(
            "dead-parameters", f"no gradient reaches {len(dead)} of {len(named)} parameters: {names} ({size} numbers)."
        )


def check_weights(weights: object, d_model: int, num_heads: int, head_dim: int) -> dict[str, Projection]:
    """Return the projections, or refuse them; see `examine`."""
    if not isinstance(weights, Mapping) or not {"q", "k", "v"} <= set(weights) <= {"q", "k", "v", "o"}:
        got = ", ".join(map(str, weights)) if isinstance(weights, Mapping) else type(weights).__name__
        raise ValueError(
            f'weights must be {{"q": …, "k": …, "v": …}}, with "o" where there is an output projection; got {got}'
        )
    found = {name: _projection(name, given) for name, given in weights.items() if not (name == "o" and given is None)}
    for name in "qkv":
        out, features = found[name].weight.shape
        if features != d_model or out % head_dim:
            raise ValueError(
                f"weights[{name!r}] must be (out, in) with in = d_model = {d_model} and out a multiple of head_dim = "
                f"{head_dim}, got {(out, features)}; nn.Linear stores (out, in), use .T for the other order"
            )
    q, k, v = (len(found[name].weight) for name in "qkv")
    if q != num_heads * head_dim:
        raise ValueError(
            f"weights['q'] has {q} rows, where num_heads * head_dim = {num_heads} * {head_dim} = "
            f"{num_heads * head_dim}; give head_dim=..., the features of one head, or another num_heads"
        )
    if k != v or q % k:
        raise ValueError(f"q, k, v have {q}, {k}, {v} rows; k and v need equally many, a divisor of q's")
    if "o" in found and found["o"].weight.shape[1] != q:
        raise ValueError(
            f"weights['o'] must take {q} features, got {tuple(found['o'].weight.shape)}; nn.Linear stores (out, in), "
            "use .T for the other order"
        )
    return found


def _projection(name: str, given: object) -> Projection:
    weight, bias = (given.weight, given.bias) if isinstance(given, nn.Linear) else (given, None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        raise TypeError(
            f"weights[{name!r}] must be an nn.Linear or a matrix (out, in), got {type(given).__name__}; "
            f"give layer.W_{name}"
        )
    return Projection(weight.detach().cpu().double(), None if bias is None else bias.detach().cpu().double())


@dataclass(frozen=True)
class Way:
    """One way to calculate a layer from its weights."""

    layout: str  # how features belong to heads: contiguous, permuted, fused
    heads: int
    shared: str  # how shared key/value heads are repeated: neighbours, cycled
    scale: str
    zero_key: bool  # one more key with score 0 and value 0


def fit_weights(patient: Patient, setting: Setting, report: Report, found: dict[str, Projection]) -> None:
    """Find the way to calculate the layer that gives its outputs, and judge the scale, the heads, the layout."""
    T = 6
    # Tokens that differ, and large enough that the scores do: with flat maps every scale gives the same.
    sharp = float((found["q"].weight.norm() * found["k"].weight.norm()) / len(found["q"].weight))
    x = patient.tokens(2, T, 1.0) * max(0.2, min(3.0, 2.0 / max(sharp, 1e-6)) ** 0.5)
    causal = patient.attend.causal or setting.sight == "causal"
    base = causal_mask(T) if causal else torch.ones(T, T, dtype=torch.bool)
    try:
        out = patient(x).double()
    except Crash as crash:
        report.skip("scale and heads", f"the layer raised {crash}")
        return
    nearest = float("inf")
    for target in (out, out - x.double()) if out.shape == x.shape else (out,):  # as it is; behind a residual connection
        errors = {}
        for way in ways(patient, found):
            off = (calculate(x.double(), base, found, way, patient) - target).abs().max() / out.abs().max()
            errors[way] = float(off)
            if errors[way] <= CLOSE and len(errors) == 1:
                break  # the usual way
        best = min(errors, key=errors.get)
        nearest = min(nearest, errors[best])
        if errors[best] <= CLOSE:
            judge_way(best, errors, patient, report, found)
            return
    why = "positions, a norm, biases that were not given" + ("" if "o" in found else ", the weights of o")
    if patient.dtype.itemsize < 4:
        why = f"the rounding of {patient.dtype}, then examine layer.float(); or {why}"
    report.skip(
        "scale and heads",
        "no known way to calculate a layer from these weights gives its output (the nearest is off by "
        f"{nearest:.1g} of the output, up to {CLOSE:g} would pass): {why}?",
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
            for scale in SCALES:
                yield Way(layout, n, shared, scale, zero_key)


# The scales that people use, from head_dim, d_model and num_heads.
SCALES = {
    "1/sqrt(head_dim)": lambda head_dim, d_model, num_heads: head_dim**-0.5,
    "1/sqrt(d_model)": lambda head_dim, d_model, num_heads: d_model**-0.5,
    "1": lambda head_dim, d_model, num_heads: 1.0,
    "1/head_dim": lambda head_dim, d_model, num_heads: 1 / head_dim,
    "1/d_model": lambda head_dim, d_model, num_heads: 1 / d_model,
    "sqrt(head_dim)": lambda head_dim, d_model, num_heads: head_dim**0.5,
    "1/sqrt(num_heads)": lambda head_dim, d_model, num_heads: num_heads**-0.5,
    "head_dim**-0.25": lambda head_dim, d_model, num_heads: head_dim**-0.25,
}


def calculate(x: Tensor, base: Tensor, found: dict[str, Projection], way: Way, patient: Patient) -> Tensor:
    """Return the output of the layer `(B, T, d_out)` for `x` `(B, T, d_model)`, calculated in one way."""
    q, k, v = _heads(x, found, way)
    scale = SCALES[way.scale](q.shape[-1], patient.d_model, way.heads)
    scores = (q @ k.transpose(-2, -1) * scale).masked_fill(~base, -torch.inf)
    if way.zero_key:
        scores = torch.cat([scores, torch.zeros_like(scores[..., :1])], -1)
    heads = scores.softmax(-1)[..., : x.shape[1]] @ v  # (B, h, T, hd)
    merged = heads.permute(0, 2, 3, 1).flatten(2) if way.layout == "permuted" else heads.transpose(1, 2).flatten(2)
    if "o" not in found:
        return merged
    o = found["o"]
    return merged @ o.weight.T + (0 if o.bias is None else o.bias)


def _heads(x: Tensor, found: dict[str, Projection], way: Way) -> list[Tensor]:
    """Return the queries, keys and values of each head, `(B, h, T, hd)`."""
    weights = [found[name].weight for name in "qkv"]
    biases = [
        torch.zeros(len(found[name].weight), dtype=x.dtype) if found[name].bias is None else found[name].bias
        for name in "qkv"
    ]
    if (
        way.layout == "fused"
    ):  # the rows of q, k and v stand together head by head, and were cut into three without care
        weights = torch.cat(weights).unflatten(0, (way.heads, 3, -1)).transpose(0, 1).flatten(1, 2)
        biases = torch.cat(biases).unflatten(0, (way.heads, 3, -1)).transpose(0, 1).flatten(1)
    head_dim = len(weights[0]) // way.heads
    parts = []
    for weight, bias in zip(weights, biases, strict=True):
        y = x @ weight.T + bias
        if way.layout == "permuted":  # the heads are the fast axis of the features
            parts.append(y.unflatten(-1, (head_dim, -1)).permute(0, 3, 1, 2))  # (B, T, hd, h) -> (B, h, T, hd)
            continue
        y = y.unflatten(-1, (-1, head_dim)).transpose(1, 2)  # (B, h, T, hd)
        times = way.heads // y.shape[1]
        parts.append(y.repeat(1, times, 1, 1) if way.shared == "cycled" else y.repeat_interleave(times, 1))
    return parts


LAYOUTS = {
    "permuted": "the heads are the fast axis of the features (permuted layout): "
    "weights cannot be copied to other layers as they are.",
    "fused": "the rows of q, k and v stand together head by head (interleaved layout): "
    "the three weights handed over are not q, k and v yet.",
}


def judge_way(
    best: Way, errors: dict[Way, float], patient: Patient, report: Report, found: dict[str, Projection]
) -> None:
    """Turn the way that fits into findings and remarks."""
    inner, kv = len(found["q"].weight), len(found["k"].weight)
    stated, head_dim = inner // patient.head_dim, inner // best.heads
    usual = next(iter(errors))
    off = f"off by {errors[best]:.1g} of the output; the usual way is off by {errors[usual]:.1g}"
    if best.heads != stated:
        heads = f"{best.heads} head{'s' if best.heads > 1 else ''}"
        report.find("heads-unused", f"the outputs are those of {heads}, not of {stated} ({off}).")
    scale, right = SCALES[best.scale](head_dim, patient.d_model, best.heads), head_dim**-0.5
    if abs(scale / right - 1) > 1e-6:
        report.find(
            "wrong-scale",
            f"the outputs are those of the scale {best.scale} = {scale:.4g}, where 1/sqrt(head_dim) = {right:.4g} "
            f"({off}).",
        )
    if best.layout in LAYOUTS:
        report.remark("layout", LAYOUTS[best.layout])
    if kv < inner:
        report.remark(
            "grouped-heads",
            f"{stated} heads of queries share {kv // patient.head_dim} heads of keys and values ({best.shared}).",
        )
    if best.zero_key:
        report.remark("zero-key", "a further key with score 0 and value 0 takes part in the softmax.")
    if all(p.bias is None for p in found.values()):
        report.remark("no-bias", "the projections were handed over without biases, and the outputs need none.")
    if usual != best and errors[usual] < BLUNT:
        report.remark(
            "flat-maps", f"at these weights the usual way is off by {errors[usual]:.1g} only: the maps are nearly flat."
        )

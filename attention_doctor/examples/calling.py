"""Experiments in which one call, or the same call again, is the failure: it raises, its result cannot be right.

As in `comparing`, each yields bodies of code from the smallest sizes on.
"""

from itertools import product

from attention_doctor.examples.comparing import (
    SPREADS,
    Bodies,
    check,
    given,
    mask_line,
    noted,
    sizes,
    tokens,
    tolerance,
)
from attention_doctor.examples.wording import Wording

LONG = (64, 256)  # tokens: further than tables of positions may reach


def crash(say: Wording, evidence: str) -> Bodies:
    """Call it on legal input."""
    for (B, T), kind, ndim in _calls(say, evidence):
        call = say.call("x", given(kind), B=B, T=T)
        yield [
            *tokens(say, B, T),
            *mask_line(say, kind, B, T, ndim),
            "try:",
            f"    {call}",
            "except Exception as error:",
            f'    raise AssertionError(f"{_legal(kind)}, but the call raised {{error!r}}") from error',
        ]
    for first, second in ((2, 3), (3, 2), (4, 8)):
        yield [
            *tokens(say, 1, first),
            say.call("x", B=1, T=first),
            f"x = {say.draw(1, second)}  # {say.axes}: another length",
            "try:",
            f"    {say.call('x', B=1, T=second)}",
            "except Exception as error:",
            f'    raise AssertionError(f"the second call, with {second} tokens, raised {{error!r}}") from error',
        ]


def _calls(say: Wording, evidence: str):
    """Yield sizes, the kind of mask, and its rank where that was not declared."""
    alone = [(1, 1), (2, 1)] if say.batched else [(1, 1)]
    long = [(1, T) for T in LONG] if "one sample of" in evidence else []
    if getattr(say.case.attend, "lengths", ()):
        alone, long = [], []
    ranks = (3, 2) if "(B, T, T)" in evidence else (None,)  # a rank that is refused is no fault in itself
    for size in [*sorted(sizes(say), key=lambda size: size[0] != 2), *alone, *long, *sizes(say, legal=False)]:
        yield size, "none", None
        yield from ((size, kind, ndim) for kind in ("causal", *say.kinds) if kind in say.kinds for ndim in ranks)


def _legal(kind: str) -> str:
    return "x is legal input" if kind == "none" else "x and the mask are legal input"


def shape(say: Wording, evidence: str) -> Bodies:
    """Look at the shape of what comes out, and whether it is the same for other lengths."""
    order = say.order.split()
    width = order.index("d") - len(order)  # which axis is the features, from the end
    other = "".join(f" and out.shape[{i}] == x.shape[{i}]" for i in range(len(order)) if i != order.index("d"))
    if width == -1:
        other = " and out.shape[:-1] == x.shape[:-1]"
    for (B, T), kind, _ in _calls(say, ""):
        yield [
            *tokens(say, B, T),
            *mask_line(say, kind, B, T),
            f"out = {say.call('x', given(kind), B=B, T=T)}",
            *check(
                f"out.ndim == {len(order)}{other}",
                f"x {{tuple(x.shape)}} gave {{tuple(out.shape)}}; expected {say.axes.replace('d_model', 'd_out')}",
            ),
        ]
    for B, T in sizes(say):
        longer = say.call(say.draw(B, T + 1), B=B, T=T + 1)
        yield [
            *tokens(say, B, T),
            f"out, longer = {say.call('x', B=B, T=T)}, {longer}",
            *check(
                f"out.shape[{width}] == longer.shape[{width}]",
                f"{T} tokens gave {{out.shape[{width}]}} features, {T + 1} tokens {{longer.shape[{width}]}}",
            ),
        ]


def finite(say: Wording, evidence: str) -> Bodies:
    """Look for NaN and infinity."""
    for spread, (B, T), kind in product(SPREADS, sizes(say), ("none", *say.kinds)):
        yield [
            *tokens(say, B, T, spread),
            *mask_line(say, kind, B, T),
            f"out = {say.call('x', given(kind), B=B, T=T)}",
            *_finite(
                say, "out", kind, T, "of {out.numel()} numbers are NaN or infinite, although every query has a key"
            ),
        ]


def _finite(say: Wording, name: str, kind: str, T: int, message: str) -> list[str]:
    """Return the assertion that the outputs are finite that are somebody's business."""
    if kind in ("first", "short"):
        name, part = f"{name}ed", say.at(name, ":", ":1" if kind == "first" else f":{T - 1}")
        return [
            f"{name} = {part}  # of the tokens that may be seen",
            *_all_finite(name, message.replace("out.", f"{name}.")),
        ]
    return _all_finite(name, message)


def _all_finite(name: str, message: str) -> list[str]:
    return check(f"{name}.isfinite().all()", f"{{(~{name}.isfinite()).sum()}} {message}")


def empty_rows(say: Wording, evidence: str) -> Bodies:
    """Hide every key from a query: what others get, and their gradient, stays finite; and so does what it gets."""
    if say.kind is None:
        return
    shared = not say.uniform and say.native("mask", 2, 3, "shared")
    B, T = 2, 3
    if say.kind == "lengths":
        line = f"mask = torch.tensor([0, {T}]){say.on()}" if say.case.attend.mask_rank == 1 else (
            f"mask = torch.tensor([[0] * {T}, [{T}] * {T}]){say.on()}"
        )  # fmt: skip
        forms = [(f"{line}  # sample 0 sees no key", "mask", "1")]
    elif say.over_keys or say.case.mask_ndim == 3:
        full = f"{B}, {T}" if say.over_keys else f"{B}, {T}, {T}"
        line = (
            f"mask = torch.ones({full}, dtype=torch.bool)\nmask[0] = False  # True = may attend: sample 0 sees no key"
        )
        forms = [(line, say.native("mask", B, T, "each"), "1")]
    else:
        forms = []
    if shared and say.case.mask_ndim == 2:
        line = (
            f"mask = torch.ones({T}, {T}, dtype=torch.bool)\nmask[1] = False  # True = may attend: query 1 sees no key"
        )
        forms.append((line, shared, ""))
    for (lines, native, sample), spread in product(forms, SPREADS):
        start = [*tokens(say, B, T, spread), *lines.split("\n")]
        out = f"out = {say.call('x', native, B=B, T=T)}"
        others = say.at("out", sample) if sample else say.at("out", ":", 0)
        whose = "the other sample" if sample else "query 0, which sees all keys"
        yield [*start, out, *check(f"{others}.isfinite().all()", f"NaN or infinity has reached {whose}")]
        wanted = "x.requires_grad_()"
        for loss, of in ((others, whose), ("out", "all outputs")):
            gradient = f"grad = torch.autograd.grad({loss}.square().sum(), x)[0]"
            yield [
                *start, wanted, out, gradient,
                *check(
                    "not out.isfinite().all() or grad.isfinite().all()" if loss == "out" else "grad.isfinite().all()",
                    f"loss over {of}: {{(~grad.isfinite()).sum()}} of {{grad.numel()}} gradients are not finite",
                ),
            ]  # fmt: skip
        yield [
            *start, out,
            *check(
                "out.isfinite().all()",
                "a query that may see no key: {(~out.isfinite()).sum()} of {out.numel()} numbers are NaN or infinite",
            ),
        ]  # fmt: skip


def again(say: Wording, evidence: str) -> Bodies:
    """Call it ten times on the same input."""
    for B, T in ((2, 8), (2, 3), *sizes(say)):
        yield [
            *tokens(say, B, T),
            f"outs = [{say.call('x', B=B, T=T)} for _ in range(10)]",
            *check(
                "all(out.shape == outs[0].shape for out in outs)", "ten calls with the same x gave different shapes"
            ),
            "off = max((out - outs[0]).abs().max() for out in outs)",
            *check(
                f"off <= {tolerance(say, True)} * outs[0].abs().max()",
                "ten calls with the same x, in eval mode, gave outputs that differ by up to {off:.2g}",
            ),
        ]


def remembers(say: Wording, evidence: str) -> Bodies:
    """Call it on other things in between: a layer that keeps something from call to call answers otherwise then."""
    for B, T in sizes(say):
        x, call = tokens(say, B, T), say.call("x", B=B, T=T)
        other, longer = say.draw(B, T), say.draw(B, T + 1)
        longer_call = say.call("longer", B=B, T=T + 1)
        for between in (
            *(
                [*mask_line(say, kind, B, T), f"{say.call('x', 'mask', B=B, T=T)}  # a mask in between"]
                for kind in say.kinds
            ),
            [f"other = {other}", f"{say.call('other', B=B, T=T)}  # other tokens in between"],
            [
                f"longer, other = {longer}, {other}",
                f"{longer_call}, {say.call('other', B=B, T=T)}  # a longer sequence and other tokens in between",
            ],
        ):
            yield [
                *x,
                f"before = {call}",
                *between,
                f"off = ({call} - before).abs().max()",
                *check(
                    f"off <= {tolerance(say, True)} * before.abs().max()",
                    "the same call again, after another one, gives outputs that differ by {off:.2g}",
                ),
            ]
        if B == 1 and say.batched:
            twice = f"torch.cat([x, x], {say.order.split().index('B')})"
            yield [
                *noted(f"other, x = {say.draw(1, T)}, {say.draw(1, T)}", say.axes),
                f"{say.call('other', B=1, T=T)}  # other tokens before",
                f"off = ({call} - {say.at(say.call(twice, B=2, T=T), ':1')}).abs().max()",
                *check(
                    f"off <= {tolerance(say, True)}",
                    "after other tokens of the same shape, a sample alone and in a batch of 2 differ by {off:.2g}",
                ),
            ]


def writes(say: Wording, evidence: str) -> Bodies:
    """Look at what was handed over after the call."""
    for (B, T), name in product(sizes(say), ("x", "mask")):
        for kind in ("none",) if name == "x" else [kind for kind in ("causal", *say.kinds) if kind in say.kinds]:
            yield [
                *tokens(say, B, T),
                *mask_line(say, kind, B, T),
                f"kept = {name}.clone()",
                say.call("x", given(kind), B=B, T=T),
                *check(
                    f"torch.equal({name}, kept)",
                    f"the call changed {{({name} != kept).sum()}} of {{kept.numel()}} entries of {name}",
                ),
            ]

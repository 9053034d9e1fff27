"""The failing example of a finding: one template that replays what was seen, in plain torch, executed when it is made.

A replay calls the layer twice and compares: with a token changed, another mask, in another order. Which replays may
show which code stands in `REPLAYS`; the first that fails on the layer is the example, and where none does, there is
none: a wrong scale, say, is seen inside alone.
"""

import copy
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from types import FunctionType

import torch

from attention_doctor.calling import Adapted, parts, pick
from attention_doctor.patient import Patient

MASKS = {
    "any keys": "torch.rand(B, T, T).lt(0.5) | torch.eye(T, dtype=torch.bool)",
    "earlier ones": "torch.ones(B, T, T, dtype=torch.bool).tril()",
    "some keys": "(torch.arange(T) % 3 != 1).expand(B, T, T)",
    "padding": "(torch.arange(T) < torch.arange(T - B + 1, T + 1)[:, None])[:, None].expand(B, T, T)",
    "itself": "torch.eye(T, dtype=torch.bool).expand(B, T, T)",
}
NOT_FOR = {  # what a form of mask cannot show
    "keys": ("any keys", "earlier ones", "itself"),
    "prefix": ("any keys", "earlier ones", "itself", "some keys"),
    "shared": ("any keys", "padding"),
}
HIDDEN = """
mask = {mask}
for key in range(T):
    y = x.clone()
    y[:, key] += torch.randn_like(y[:, key])
    moved = (attend(y, mask=mask) - attend(x, mask=mask)).abs().amax(-1)  # (B, T)
    hidden = ~mask[:, :, key] & mask.any(-1) & (torch.arange(T) != key)
    worst = (moved * hidden).max()
    assert worst < 1e-5, f"an output moved by {worst:.2g} with token {key}, which the mask hides from it"
"""
OTHERS_STAY = """
y = x.clone()
y[{changed}] += torch.randn_like(y[{changed}])
moved = (attend(y) - attend(x))[{kept}].abs().max()
assert moved < 1e-5, f"{what} was changed, and another output, which must stay, moved by {moved:.2g}"
"""
OTHERS_MOVE = """
y = x.clone()
y[:, {token}] += 1 + torch.rand_like(y[:, {token}])
moved = (attend(y) - attend(x))[:, {others}].abs().max()
assert moved > 1e-6, "token {token} was changed, and no other output moved"
"""
SAME = """
off = ({first} - {second}).abs().max()
assert off < 1e-5, f"{why}; they differ by {off:.2g}"
"""


def _with(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"{{{name}}}", text)
    return template


UNDER_MASKS = [_with(HIDDEN, mask=mask) for mask in MASKS.values()]
OTHER_SAMPLE = _with(OTHERS_STAY, changed="0", kept="1:", what="sample 0")
LATER = _with(OTHERS_STAY, changed=":, -1", kept=":, :-1", what="the last token")
AGAIN = _with(SAME, first="attend(x)", second="attend(x)", why="the same call twice must give the same")
AFTER = "before = attend(x)\nattend(torch.randn_like(x))\nattend(torch.randn(B + 1, T - 1, x.shape[-1]))" + _with(
    SAME, first="attend(x)", second="before", why="the same call after others must give the same"
)
BATCHED = _with(SAME, first="attend(x)[:1]", second="attend(x[:1])", why="a sample must not depend on its batch")
ORDER = "order = torch.arange(T).roll(1)" + _with(
    SAME,
    first="attend(x[:, order])",
    second="attend(x)[:, order]",
    why="tokens in another order, outputs in that order",
)
PLACES = r"\bpos|position|rope|rotary|alibi|slope|tril|triu|causal|window|relative"  # by these the order may matter
TWICE = _with(
    SAME, first="attend(torch.cat([x, x], 1))[:, :T]", second="attend(x)", why="each token twice halves its weights"
)
OPEN = "mask = torch.ones(B, T, T, dtype=torch.bool)"
OPEN_MASK = OPEN + _with(SAME, first="attend(x, mask=mask)", second="attend(x)", why="an open mask must change nothing")
CHANGES_INPUT = """
y = x.clone()
attend(y)
assert torch.equal(x, y), "the input came back with other values"
"""
CHANGES_MASK = """
given = mask = {mask}
before = given.clone()
attend(x, mask=given)
assert torch.equal(given, before), "the mask came back with other values"
"""
EMPTY_ROW = """
mask = torch.ones(B, T, T, dtype=torch.bool)
mask[0, 1] = False
x.requires_grad_()
out = attend(x, mask=mask)
assert out[1:].isfinite().all() and out[0, 2:].isfinite().all(), "a query that sees keys gives NaN"
out[1:].square().sum().backward()
assert x.grad.isfinite().all(), "the gradient of a loss without the empty row is NaN"
"""
DEAD = """
attend(x).square().sum().backward()
dead = [name for name, p in layer.named_parameters() if p.requires_grad and p.grad is None]
assert not dead, f"no gradient reaches {dead}"
"""
INPUTS = """
a, b = torch.randn(2, *x.shape)
assert (attend(x, a) - attend(x, b)).abs().max() > 1e-6, "another second input changes nothing"
"""
THIRD = (
    "a, b, c = torch.randn(3, *x.shape)\nassert (attend(x, a, b) - attend(x, a, c)).abs().max() > 1e-6, 'other values'"
)
REPLAYS: dict[str, list[str]] = {
    "crash": ["attend(x)", *(f"attend(x, mask={mask})" for mask in MASKS.values()), "attend(x[:1])"],
    "shape": ["out = attend(x)\nassert out.shape[:2] == x.shape[:2], f'{tuple(x.shape)} gave {tuple(out.shape)}'"],
    "not-finite": ["assert attend(x).isfinite().all(), 'NaN or infinity without any mask'"],
    "not-deterministic": [AGAIN, AFTER],
    "mutates-input": [CHANGES_INPUT, *(_with(CHANGES_MASK, mask=mask) for mask in MASKS.values())],
    "mixes-samples": [OTHER_SAMPLE, BATCHED],
    "no-mixing": [_with(OTHERS_MOVE, token="0", others="1:")],
    "mixes-tokens": [ORDER, *UNDER_MASKS[::-1], LATER],
    "mixes-tokens-on-merge": [ORDER, *UNDER_MASKS[::-1], LATER],
    "softmax-axis": [TWICE, *UNDER_MASKS, OTHER_SAMPLE],
    "no-softmax": [TWICE],
    "key-unused": [_with(OTHERS_MOVE, token="-1", others=":-1")],
    "future-leak": [LATER],
    "open-mask-differs": [OPEN_MASK, *UNDER_MASKS],
    "nan-on-empty-row": [EMPTY_ROW],
    "dead-parameters": [DEAD],
    "input-ignored": [INPUTS, THIRD],
    **dict.fromkeys(("mask-ignored", "mask-leaks", "mask-inverted", "mask-transposed", "mask-order"), UNDER_MASKS),
}


def example_of(code: str, patient: Patient) -> tuple[str, str] | None:
    """Return code that fails on this layer, and what its assertion says; None where no replay shows the finding."""
    each = patient.call.masks.values()  # where none was chosen yet, a few of one kind
    forms = [None, *(form for forms in each for form in [f for f in forms if f.kind == forms[0].kind][:4])]
    patient = _picking(patient)
    for tokens in dict.fromkeys((4, 7, *patient.call.lengths)):
        for replay in REPLAYS.get(code, ()):
            if replay == ORDER and (not patient.docs.code or patient.docs.says(PLACES)):
                continue
            if replay == LATER and code != "future-leak" and not (patient.call.causal or patient.docs.causal):
                continue
            masked = "mask=" in replay
            for form in forms[1:] if masked else forms[:1]:
                if form and any(MASKS[name] in replay for name in NOT_FOR.get(form.shows, ())):
                    continue
                fresh = (patient.unused() or patient).with_mask(form)
                if (message := _fails(fresh.call, code, body := _written(replay, fresh, tokens))) is not None:
                    return "\n".join([*_making(patient), *body]) + "\n", message
    return None


def _picking(patient: Patient) -> Patient:
    """Return the same layer; that its output is the first tensor of a tuple is said in so many words."""
    other = copy.copy(patient)
    with suppress(Exception), Patient.quietly(), torch.no_grad():
        x = patient.tokens(1, max(patient.call.lengths or (4,)), 0.5).to(patient.device, patient.dtype)
        fresh = (patient.unused() or patient).call
        result = fresh.result([patient.wide(x, i) for i in range(len(fresh.roles))])
        place = next(place for place, part in parts(result) if part is pick(result, fresh.output))
        other.call = replace(patient.call, output=place)
    return other


def _written(replay: str, patient: Patient, tokens: int) -> list[str]:
    batch = 1 if patient.call.axes == "T d" else 3 if patient.num_heads != 3 else 2
    dtype = "" if patient.dtype == torch.float32 else f", dtype={patient.dtype}"
    tensor = f"x = torch.randn(B, T, {patient.d_model}{dtype})"
    start = ["", "torch.manual_seed(0)", f"B, T = {batch}, {tokens}", tensor]
    return [*patient.call.as_function(tokens), *start, *replay.strip().splitlines()]


def _fails(call: Adapted, code: str, body: list[str]) -> str | None:
    """Execute an example; return what its own assertion said, None where it passed or anything else happened."""
    namespace = {"torch": torch, "layer": call.target}
    try:
        with Patient.quietly(), torch.enable_grad():
            exec(compile("\n".join(body), "<example>", "exec"), namespace)
    except AssertionError as error:
        return str(error)
    except Exception as error:
        return (
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}" if code == "crash" else None
        )
    return None


def _making(patient: Patient) -> Iterator[str]:
    """Yield the lines that import and make the layer, as far as its name tells where it is."""
    target = getattr(patient.call.target, "__self__", patient.call.target)
    kind = target if isinstance(target, FunctionType) else type(target)
    module, name = str(getattr(kind, "__module__", "")), str(getattr(kind, "__qualname__", ""))
    sizes = f"d_model = {patient.d_model}" + (f", num_heads = {patient.num_heads}" if patient.num_heads else "")
    yield "import torch"
    top = name.partition(".")[0]
    if not all(part.isidentifier() for part in (*name.split("."), *module.split("."))):
        yield from ("", f"layer = ...  # your function, or as you make your layer: {sizes}", "")
        return
    shorter = (".".join(module.split(".")[:n]) for n in range(1, module.count(".") + 2))
    there = vars(sys.modules[module]).get(top) if module in sys.modules else None
    module = next(
        (m for m in shorter if m in sys.modules and vars(sys.modules[m]).get(top) is there is not None), module
    )
    yield f"# {top} as in your script or notebook" if module == "__main__" else f"from {module} import {top}"
    made = name if isinstance(target, FunctionType) else f"{name}(...)"
    yield from ("", f"layer = {made}{'' if made == name else '.eval()'}  # as you make it: {sizes}", "")

"""The failing example of a finding: what was seen is replayed in plain torch, and executed before it is shown.

A replay calls the layer twice, with a token changed, another mask, in another order, and compares. `REPLAYS` says which
may show which code, some of them by the operations inside; the first that fails on the layer is the example, and where
none does, there is none. How tokens came one after another only `cache` knows; it leaves its replay with the patient.
"""

from collections.abc import Iterator
from types import FunctionType

import torch

from attention_doctor.calling import Adapted
from attention_doctor.patient import Patient

MASKS = {
    "any keys": "torch.rand(B, T, T).lt(0.5) | torch.eye(T, dtype=torch.bool)",
    "earlier ones": "torch.ones(B, T, T, dtype=torch.bool).tril()",
    "some keys": "(torch.arange(T) % 3 != 1).expand(B, T, T)",
    "padding": "(torch.arange(T) < torch.arange(T - B + 1, T + 1)[:, None])[:, None].expand(B, T, T)",
    "itself": "torch.eye(T, dtype=torch.bool).expand(B, T, T)",
}
SHOWN = {"keys": ("some keys", "padding"), "prefix": ("padding",), "shared": ("earlier ones", "some keys", "itself")}
PLACES = r"\bpos|position|rope|rotary|alibi|slope|tril|triu|causal|window|relative|axial|column"  # order may matter


def compared(why: str, one: str, two: str, first: str = "", must: str = "< 1e-5") -> str:
    """Return a replay: what is done first, and how far apart two results must be."""
    return f'{first}\noff = ({one} - {two}).abs().max()\nassert off {must}, f"{why}: {{off:.2g}}"'


def changed(what: str, where: str, at: str, must: str = "< 1e-5") -> str:
    """Return a replay that changes some tokens and looks at the outputs of others."""
    first = f"y = x.clone()\ny[{where}] += 1 + torch.rand_like(y[{where}])"
    moved = "another output moved" if must[0] == "<" else "no other output moved"
    return compared(f"{what} was changed, and {moved}", f"attend(y)[{at}]", f"attend(x)[{at}]", first, must)


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
UNHARMED = """
mask = given = {mask}
before = x.clone(), given.clone()
attend(x, mask=given)
assert torch.equal(x, before[0]) and torch.equal(given, before[1]), "what was given came back with other values"
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
WATCHED = """
done = []  # the name of each operation, its arguments, its result

class Watch(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **kwargs or {})
        done.append((operation.__name__.split(".")[0], args, out))
        return out

with Watch(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    attend(x)
soft = [(args[0], out) for name, args, out in done if "softmax" in name]
"""
PRODUCTS = f"""
{WATCHED.strip()}
at = next(n for n, (name, _, _) in enumerate(done) if "softmax" in name)
q, k = [args for name, args, _ in done[:at] if name == "bmm"][-1]  # (maps, T, head_dim), (maps, head_dim, T)
weights, v = [args for name, args, _ in done[at:] if name == "bmm"][0]  # (maps, T, T), (maps, T, head_dim)
"""
SOFTMAX_OF_SHARES = """
shares = [scores for scores, _ in soft if scores.min() >= 0 and (scores.sum(-1) - 1).abs().max() < 1e-5]
assert not shares, "what a softmax is given sums to 1 already"
"""
FACTOR = """
times = {}  # by what a tensor was multiplied since its projection
for name, args, out in done:
    of = [one for one in args if isinstance(one, torch.Tensor) and one.ndim]
    factor = times.get(id(of[0]), 1.0) if of and name not in ("mm", "addmm") else 1.0
    if name == "bmm":
        factor, head_dim = factor * times.get(id(of[1]), 1.0), of[0].shape[-1]
    if name.strip("_") in ("mul", "div") and len(of) == 1:
        number = float(next(one for one in args if one is not of[0]))
        factor *= number if "mul" in name else 1 / number
    times[id(out)] = factor
    if "softmax" in name:
        break
assert abs(factor * head_dim**0.5 - 1) < 0.01, f"scores are q·k times {factor:.4g}, with head_dim = {head_dim}"
"""
SUMS = """
sums = weights.sum(-1)
assert (sums - 1).abs().max() < 0.01, f"the weights of a query sum to {sums.min():.2f} to {sums.max():.2f}"
"""
COUNTED = """
maps = sum(weights.numel() for _, weights in soft) / (B * T * T)
assert maps == {heads}, f"{maps:g} maps a sample, and {heads} heads stated"
"""
TWINS = """
maps = torch.cat([weights.view(B, -1, T * T) for _, weights in soft], 1)  # (B, heads, T * T)
off = (maps[:, :, None] - maps[:, None]).abs().amax((0, -1)) + torch.eye(maps.shape[1])
assert off.min() > 1e-6, f"heads {divmod(int(off.argmin()), len(off))} have the same map"
"""
SILENT = """
attend(x).square().sum().backward()
linear = [(name, m.weight.grad) for name, m in layer.named_modules() if isinstance(m, torch.nn.Linear)]
silent = [name for name, grad in linear if grad is not None and not grad.any(1).all()]
assert not silent, f"no gradient reaches some rows of {silent}"
"""
SHARING = """
keys, values = ((rows[:, None] - rows).abs().amax((-2, -1)) < 1e-6 for rows in (k, v))
assert torch.equal(keys, values), "maps that share their keys do not share their values, or the other way round"
"""
EQUAL = f"""
x = x[:1, :1].repeat(B, T, 1)
{WATCHED.strip()}
scores = soft[0][0].reshape(-1, T, T)  # of equal tokens
scores = (scores - scores.diagonal(0, -2, -1)[..., None]).nan_to_num(0.0)
"""
DISTANCES = """
lines = [scores.diagonal(at, -2, -1) for at in range(1 - T, T)]
off = max((line.amax(-1) - line.amin(-1)).max() for line in lines)
assert off < 1e-4, f"scores of equal tokens at one distance differ by {off:.2g}"
"""
UPHILL = """
assert not (scores[:, -1].diff() < 0).all(), "the farther a key of equal tokens, the larger its score"
"""
EVEN = """
assert scores.abs().max() > 1e-5, "scores of equal tokens are the same wherever they stand"
"""
ALIKE = """
assert not (scores - scores[0]).abs().max() < 1e-5, "for equal tokens all heads have the same scores"
"""
OTHERS = "before = attend(x)\nattend(torch.randn_like(x))\nattend(torch.randn(B + 1, T - 1, x.shape[-1]))"
OTHER_SAMPLE, LATER = changed("sample 0", "0", "1:"), changed("the last token", ":, -1", ":, :-1")
OPEN = "mask = torch.ones(B, T, T, dtype=torch.bool)"
ORDERED = "attend(x[:, order])", "attend(x)[:, order]", "order = torch.arange(T).roll(1)"
ORDER = compared("tokens in another order, outputs not in that order", *ORDERED)
TWICE = compared("each token twice halves its weights", "attend(torch.cat([x, x], 1))[:, :T]", "attend(x)")
AGAIN = "the same call again gives another answer"
DRAWN = "a, b, c = torch.randn(3, *x.shape)"
UNREAD = "another input changes nothing"
SHAPE = "out = attend(x)\nassert out.shape[:2] == x.shape[:2], f'{tuple(x.shape)} gave {tuple(out.shape)}'"
REPLAYS = {
    "crash": ["attend(x)", "mask = {mask}\nattend(x, mask=mask)", "attend(x[:1])"],
    "shape": [SHAPE, f"x = x[:1]\n{SHAPE}"],
    "not-finite": ["assert attend(x).isfinite().all(), 'NaN or infinity without any mask'"],
    "not-deterministic": [compared(AGAIN, "attend(x)", "attend(x)"), compared(AGAIN, "attend(x)", "before", OTHERS)],
    "mutates-input": [UNHARMED.replace("{mask}", "x").replace(", mask=given", ""), UNHARMED],
    "mixes-samples": [OTHER_SAMPLE, compared("a sample alone and in its batch", "attend(x)[:1]", "attend(x[:1])")],
    "no-mixing": [changed("token 0", ":, 0", ":, 1:", "> 1e-6")],
    "mixes-tokens": [ORDER, HIDDEN, LATER],
    "mixes-tokens-on-merge": [ORDER, HIDDEN, LATER],
    "softmax-axis": [TWICE, HIDDEN, OTHER_SAMPLE],
    "softmax-twice": [WATCHED + SOFTMAX_OF_SHARES],
    "no-softmax": [TWICE, PRODUCTS + SUMS],
    "wrong-scale": [WATCHED + FACTOR, PRODUCTS + SUMS],
    "key-unused": [changed("the last token", ":, -1", ":, :-1", "> 1e-6")],
    "future-leak": [LATER],
    "open-mask-differs": [compared("a mask that hides nothing", "attend(x, mask=mask)", "attend(x)", OPEN), HIDDEN],
    "nan-on-empty-row": [EMPTY_ROW],
    "dead-parameters": [DEAD],
    "heads-unused": [WATCHED + COUNTED, WATCHED + TWINS, SILENT],
    "groups-differ": [PRODUCTS + SHARING],
    "positions-not-relative": [EQUAL + seen for seen in (DISTANCES, EVEN, ALIKE, UPHILL)],
    "input-ignored": [
        compared(UNREAD, "attend(x, a)", "attend(x, b)", DRAWN, "> 1e-6"),
        compared(UNREAD, "attend(x, a, b)", "attend(x, a, c)", DRAWN, "> 1e-6"),
    ],
    **dict.fromkeys("mask-ignored mask-leaks mask-inverted mask-transposed mask-order".split(), [HIDDEN]),
}


def example_of(code: str, patient: Patient) -> tuple[str, str] | None:
    """Return code that fails on this layer, and what its assertion says; None where no replay shows the finding."""
    each = patient.call.masks.values()  # where none was chosen yet, a few of one kind
    forms = [form for forms in each for form in [f for f in forms if f.kind == forms[0].kind][:4]]
    docs, causal = patient.docs, patient.call.causal or patient.docs.causal or code == "future-leak"
    not_for_it = [ORDER] * (not docs.code or docs.says(PLACES)) + [LATER] * (not causal)
    replays = [replay for replay in REPLAYS.get(code, [patient.generated]) if replay not in not_for_it]
    for tokens in dict.fromkeys((4, 7, *patient.call.lengths)):
        for replay in replays:
            for form in forms if "mask=" in replay else [None]:
                for mask in SHOWN.get(form.shows, MASKS) if "{mask}" in replay else [""]:
                    fresh = (patient.unused() or patient).with_mask(form)
                    text = replay.replace("{mask}", MASKS.get(mask, "")).replace("{heads}", str(patient.num_heads))
                    body = _written(text, fresh, tokens)
                    if (message := _fails(fresh.call, code, body)) is not None:
                        return "\n".join([*_making(patient), *body]) + "\n", message
    return None


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
        lines = str(error).splitlines() or [""]
        return f"{type(error).__name__}: {lines[0]}" if code == "crash" else None
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
    yield f"# {top} as in your script or notebook" if module == "__main__" else f"from {module} import {top}"
    made = name if isinstance(target, FunctionType) else f"{name}(...).eval()"
    yield from ("", f"layer = {made}  # as you make it: {sizes}", "")
    if said := getattr(target, "unpacked_by", ""):
        yield from (f"batched, layer = layer, {said}", "")

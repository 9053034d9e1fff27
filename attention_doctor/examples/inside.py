"""Experiments that look at parameters, or calculate the layer again with its own weights.

As in `comparing`, each yields bodies of code from the smallest sizes on.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product

from torch import nn

from attention_doctor.examples.case import owner
from attention_doctor.examples.comparing import Bodies, check, tokens
from attention_doctor.examples.wording import Wording
from attention_doctor.inside import find_weights


def dead(say: Wording, evidence: str) -> Bodies:
    """Ask which parameters no gradient reaches."""
    if not isinstance(owner(say.case.attend.target), nn.Module):
        return
    for kind in ("none", "causal") if "causal" in say.kinds else ("none",):
        mask = None if kind == "none" else say.mask("causal", 1, 3)
        yield [
            *tokens(say, 1, 3),
            "named = dict(layer.named_parameters())",
            f"loss = {say.call('x', mask, B=1, T=3)}.square().sum()",
            "grads = torch.autograd.grad(loss, list(named.values()), allow_unused=True)",
            "dead = [name for name, grad in zip(named, grads) if grad is None]",
            *check("not dead", "no gradient reaches {dead}: they have no part in the output"),
        ]


def rank(say: Wording, evidence: str) -> Bodies:
    """Count the directions in which a second token moves the output of the first: one for each head."""
    case = say.case
    if not case.num_heads or not say.batched or case.num_heads >= case.d_model:
        return
    double = isinstance(case.attend.target, nn.Module)
    number, least = ("torch.float64", "1e-8") if double else (str(case.dtype), "1e-4")
    n, drawn = 2 * case.d_model + 20, f"dtype={number}, generator=g){say.on()}"
    scales = "(1.0, 0.1, 0.01)" if double else "(1.0, 0.1)"
    pair, alone = say.call(f"torch.cat([c + d, c], {say.time})", B=n, T=2), say.call("c", B=n, T=1)
    yield [
        *(["layer.double()"] if double else []),
        "heads = 0",
        f"for scale in {scales}:  # at large ones a head may be silent",
        f"    c = scale * torch.randn({say.shape(n, 1)}, {drawn}  # {say.axes}",
        f"    d = scale * torch.randn({say.shape(1, 1)}, {drawn}",
        "    # What the token c + d adds to the output of c: one direction for each head.",
        f"    added = {say.at(pair, ':', 1)} - {say.at(alone, ':', 0)}",
        "    sizes = torch.linalg.svdvals(added.detach())",
        f"    heads = max(heads, int((sizes > {least} * sizes[0]).sum()))",
        *check(f"heads == {case.num_heads}", f"{case.num_heads} heads are stated, {{heads}} take part in the output"),
    ]


def calculated(say: Wording, evidence: str) -> Bodies:
    """Calculate the layer from its own weights, the usual way and the way that fits."""
    case = say.case
    heads = re.search(r"those of (\d+) heads?, not", evidence)
    scale = re.search(r"of the scale (\S.*?) = ", evidence) or re.search(r"of the scale ([\d.e+-]+), where", evidence)
    if not case.num_heads or not (heads or scale) or say.order not in ("B T d", "T B d"):
        return
    turned = "" if say.order == "B T d" else ".transpose(0, 1)"  # to (B, T, d_model)
    h = int(heads[1]) if heads else case.num_heads
    inner = case.num_heads * case.head_dim
    usual = f"{case.num_heads}, {case.head_dim}**-0.5"
    found = f"{h}, {_scale(scale[1], inner // h, case.d_model, h) if scale else f'{inner // h} ** -0.5'}"
    in_words = [f"{way.replace(', ', ' heads with the scale ')}" for way in (found, usual)]
    causal = case.attend.causal or case.setting.sight == "causal"
    later = (
        ["    scores = scores.masked_fill(~torch.ones(6, 6, dtype=torch.bool).tril(), -torch.inf)"] if causal else []
    )
    for names, spread in product(_names(say), ("", "3 * ", "0.3 * ")):
        yield [
            *tokens(say, 1, 6, spread),
            "",
            "def off(heads, scale):  # the layer calculated from its weights, against what it gives",
            f"    qkv = {', '.join(_of(f'x{turned}', names[n]) for n in 'qkv')}",
            "    q, k, v = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in qkv)",
            "    scores = q @ k.transpose(-2, -1) * scale  # (B, heads, T, T)",
            *later,
            "    out = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)",
            f"    given = {say.call('x', B=1, T=6)}{turned}",
            f"    return ({names['o']} - given).abs().max() / given.abs().max()",
            "",
            *check(
                f"off({usual}) <= 1e-3 or off({found}) > 1e-3",
                f"the output is that of {in_words[0]}, and off by {{off({usual}):.0%}} from that of {in_words[1]}",
            ),
        ]


def _names(say: Wording) -> Iterator[dict[str, str]]:
    """Yield the projections as expressions, where they stand in the layer as they were handed over or may be found."""
    given, target = say.case.weights, owner(say.case.attend.target)
    if not isinstance(target, nn.Module):
        return
    if isinstance(given, Mapping):
        if (names := _handed_over(given, target)) is not None:
            yield names
        return
    for candidate in find_weights(target, say.case.d_model, say.case.num_heads, say.case.head_dim):
        if (names := _found(candidate.names, target)) is not None:
            yield names


def _handed_over(given: Mapping, target: nn.Module) -> dict[str, str] | None:
    places = {id(part): name for parts in (target.named_modules(), target.named_parameters()) for name, part in parts}
    names = {"o": "out"}
    for role, part in given.items():
        if part is None:
            continue
        if id(part) not in places:
            return None
        x, path = "out" if role == "o" else "x", _path(places[id(part)])
        names[role] = f"layer{path}({x})" if isinstance(part, nn.Module) else f"{x} @ layer{path}.T"
    return names


def _found(said: Mapping[str, str], target: nn.Module) -> dict[str, str] | None:
    """Return expressions for places in words, such as "rows 0–31 of attn.qkv"; None where they are no linear layers."""
    linears = [name for name, part in target.named_modules() if isinstance(part, nn.Linear)]
    names = {"o": "out"}
    for role, words in said.items():
        rows = re.fullmatch(r"rows (\d+)\D(\d+) of (.+)", words)
        name = rows[3] if rows else words
        fitting = [linear for linear in linears if linear == name or linear.endswith(f".{name}")]
        if len(fitting) != 1:
            return None
        part = f"[..., {rows[1]}:{int(rows[2]) + 1}]" if rows else ""
        names[role] = f"layer{_path(fitting[0])}({'out' if role == 'o' else 'x'}){part}"
    return names


def _of(x: str, projection: str) -> str:
    """Return a projection of another input than x."""
    return re.sub(r"\bx\b(?= @|\))", x, projection, count=1)


def _path(name: str) -> str:
    return "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in name.split("."))


def _scale(words: str, head_dim: int, d_model: int, num_heads: int) -> str:
    """Return a scale such as 1/sqrt(d_model) with its numbers."""
    for name, number in (("head_dim", head_dim), ("d_model", d_model), ("num_heads", num_heads)):
        words = words.replace(f"sqrt({name})", f"{number}**0.5").replace(name, str(number))
    return words.replace("sqrt(T)", "6**0.5")

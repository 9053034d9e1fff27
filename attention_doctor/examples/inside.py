"""Experiments that look at parameters, or calculate the layer again with its own weights.

As in `comparing`, each yields bodies of code from the smallest sizes on.
"""

from torch import nn

from attention_doctor.examples.case import owner
from attention_doctor.examples.comparing import Bodies, check, tokens
from attention_doctor.examples.wording import Wording


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

"""Experiments with equal tokens, or with the same tokens in another surrounding: a weighted mean stays what it is.

As in `comparing`, each yields bodies of code from the smallest sizes on.
"""

from itertools import product

from attention_doctor.examples.comparing import (
    SPREADS,
    Bodies,
    check,
    given,
    is_causal,
    mask_line,
    noted,
    sizes,
    tokens,
    tolerance,
)
from attention_doctor.examples.wording import Wording


def equal(say: Wording, evidence: str) -> Bodies:
    """Give the layer one token several times: without positions all outputs are equal."""
    if say.case.setting.places:
        return
    for spread, (B, T), kind in product(("", "0.1 * "), sizes(say), ("none", *say.kinds)):
        if kind in ("first", "short"):
            continue
        out, drawn = say.call("x", given(kind), B=B, T=T), say.draw(1, 1, spread)
        drawn = f"({drawn})" if spread else drawn
        yield [
            *noted(f"x = {drawn}.expand({say.shape(B, T)}).clone()", f"{say.axes}: one token, {T} times"),
            *mask_line(say, kind, B, T),
            f"out = {out}",
            f"off = ({say.at('out', 0)} - {say.at('out', 0, ':1')}).abs().max()",
            *check(
                f"off <= {tolerance(say, True)} * out.abs().max()",
                f"{T} equal tokens, no positions: the outputs must be equal, but differ by {{off:.2g}}",
            ),
        ]


def equal_if_seen(say: Wording, evidence: str) -> Bodies:
    """As `equal`, where that is what the doctor saw."""
    if "equal tokens" in evidence:
        yield from equal(say, evidence)


def turned(say: Wording, evidence: str) -> Bodies:
    """Turn the order of the tokens around: without positions the outputs are turned around, and the same."""
    if not say.case.setting.places and not is_causal(say, evidence):
        yield from exchanged(say, evidence)


def exchanged(say: Wording, evidence: str) -> Bodies:
    """As `turned`, where it is known that the layer has no positions, and that a mistake looks like them."""
    for spread, (B, T) in product(SPREADS, sizes(say)):
        yield [
            *tokens(say, B, T, spread),
            f"out = {say.call('x', B=B, T=T)}",
            f"turned = {say.call(f'x.flip({say.time})', B=B, T=T)}.flip({say.time})",
            "off = (turned - out).abs().max()",
            *check(
                f"off <= {tolerance(say, True)} * out.abs().max()",
                "the tokens in reversed order: each must get the output it had, but they differ by up to {off:.2g}",
            ),
        ]


def grows(say: Wording, evidence: str) -> Bodies:
    """Give the layer a token once and several times: the weighted mean of equal values is that value."""
    for spread, T in product(("", "0.1 * "), (2, 4, 16, 64)):
        yield [
            f"x = {say.draw(1, 1, spread)}  # {say.axes}: one token",
            f"one = {say.at(say.call('x', B=1, T=1), 0, 0)}",
            f"many = {say.at(say.call(f'x.expand({say.shape(1, T)}).clone()', B=1, T=T), 0, -1)}",
            "off = (many - one).abs().max() / one.abs().max()",
            *check(
                f"off <= {tolerance(say, True)}",
                f"the same token {T} times: the mean of equal values is that value, but the output is off by "
                "{off:.0%}, so the weights do not sum to 1",
            ),
        ]


def grows_if_seen(say: Wording, evidence: str) -> Bodies:
    """As `grows`, where that is what the doctor saw; an attention sink would make it fail as well."""
    if "equal tokens: the last output grows" in evidence:
        yield from grows(say, evidence)


def cut(say: Wording, evidence: str) -> Bodies:
    """Hide what follows, or cut it off: what is left is the same."""
    for spread, (B, T), kind in product(
        SPREADS, sizes(say), [kind for kind in ("short", "first") if kind in say.kinds]
    ):
        n = 1 if kind == "first" else T - 1
        yield [
            *tokens(say, B, T, spread),
            *mask_line(say, kind, B, T),
            f"padded = {say.at(say.call('x', 'mask', B=B, T=T), ':', f':{n}')}",
            f"cut = {say.call(say.at('x', ':', f':{n}'), B=B, T=n)}",
            "off = (padded - cut).abs().max() / cut.abs().max()",
            *check(
                f"off <= {tolerance(say, True)}",
                f"{T} tokens of which {n} may be seen, and these alone, must give the same; the outputs are off by "
                "{off:.0%}",
            ),
        ]


def crowd(say: Wording, evidence: str) -> Bodies:
    """Compare what two queries get from two crowds of equal tokens: the difference is the crowds', not the query's."""
    if not ("one query among" in evidence or "the outputs sum to" in evidence) or not say.batched:
        return
    concatenated = f"torch.cat([crowd.expand({say.shape(1, 'n')}), query], {say.time})"
    for scale in ("", "0.2 * ", "0.1 * ", "0.05 * ", "0.02 * ", "0.01 * "):
        drawn = f"{scale}(c + 0.3 * {say.draw(1, 1)})" if scale else f"c + 0.3 * {say.draw(1, 1)}"
        yield [
            f"c = {say.draw(1, 1)}",
            *noted(f"p, q, first, second = ({drawn} for _ in range(4))", f"{say.axes}: tokens that are nearly equal"),
            "",
            "def answer(query, crowd, n):  # what a query gets from n equal tokens",
            f"    return {say.at(say.call(concatenated, B=1, T='n + 1'), 0, -1)}",
            "",
            "def depends(n):  # how much of what the crowd gives depends on who asks",
            "    to_p, to_q = (answer(query, first, n) - answer(query, second, n) for query in (p, q))",
            "    return (to_p - to_q).abs().max() / to_p.abs().max()",
            "",
            *check(
                "not depends(60) > max(1e-3, depends(6) / 2)",
                "60 equal tokens give a query their mean, whoever asks; here it depends on the query by "
                "{depends(60):.1%}, and not less than with 6 tokens ({depends(6):.1%})",
            ),
        ]

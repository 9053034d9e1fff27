"""The probes without a mask: which tokens does a token see, and are places told apart?

Where a layer takes no mask of pairs, a wrong reshape and a wrong softmax have to be found here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attention_doctor import patterns
from attention_doctor.influence import agree, amount, changed_tokens, describe, influence, leaks, mixes_nothing, pairs
from attention_doctor.patient import Crash, Patient
from attention_doctor.probes.crowd import wrong_softmax_in_a_crowd
from attention_doctor.probes.keys import last_key_unseen
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, second_length
from mhalib.masks import causal_mask

SCALES = (1.0, 0.1, 0.01, 0.001)  # of the tokens


def sees_tokens(patient: Patient, setting: Setting, report: Report) -> Setting:
    """Everything is seen, or everything up to the own place; anything else has a reason."""
    T = setting.T
    moved, _ = influence(patient, setting)
    if mixes_nothing(moved, patient):
        if "mixes-samples" not in report.codes:  # time taken for the batch: one mistake, one finding
            report.find(
                "no-mixing",
                f"{len(changed_tokens(T))} tokens were changed one by one: {_what_moved(moved, patient, setting)}.",
            )
        raise Stop
    usual = {"causal": causal_mask(T)}
    if not patient.attend.causal:
        usual = {"full": torch.ones(T, T, dtype=torch.bool), **usual}
    for scale in SCALES:  # what sharp maps hide is seen in flat ones
        if scale < 1:
            moved = moved | influence(patient, setting, scale=scale)[0]
        if known := _usual_sight(moved, usual, patient, setting, report):
            return known
    return _unusual_sight(moved, usual, patient, setting, report)


def _usual_sight(
    moved: Tensor, usual: dict[str, Tensor], patient: Patient, setting: Setting, report: Report
) -> Setting | None:
    for sight, base in usual.items():
        if agree(moved, base):
            if sight == "causal":
                report.remark("causal", "it hides later tokens by itself; examined by the rules for causal layers.")
            return replace(setting, base=base, sight=sight)
    window = _window(moved, patient, setting)
    if window is None or (patient.attend.causal and window.triu(1).any()):
        return None
    report.remark(
        "window",
        f"each token sees only its neighbourhood ({window.sum(-1).max()} of {len(moved)} tokens); "
        "masks are compared within it.",
    )
    return replace(setting, base=window, sight="window")


def _what_moved(moved: Tensor, patient: Patient, setting: Setting) -> str:
    """Say which outputs moved in a layer that mixes no tokens; some layers start with a zero on purpose."""
    zero = "is W_o or a gate zero, as some layers start? Then give it other numbers and examine it again"
    if not moved.any():
        return f"no output moved; {zero}"
    x = patient.tokens(setting.batch, setting.T, 0.5)
    out = patient(x)
    if out.shape == x.shape and torch.equal(out, x.to(out.dtype)):
        return f"each output is its own token, unchanged; {zero}"
    return "each moved its own output and no other"


def _window(moved: Tensor, patient: Patient, setting: Setting) -> Tensor | None:
    """Return the band that was seen, if it is one; a wrong reshape may look like one, but not at a second length."""

    def band(T: int, before: int, after: int) -> Tensor:
        return torch.ones(T, T, dtype=torch.bool).tril(after).triu(-before)

    T, longer = len(moved), second_length(patient)
    bands = [(before, after) for before in range(1, T - 1) for after in (0, before)]
    fitting = next((ends for ends in bands if agree(moved, band(T, *ends))), None)
    if fitting is None:
        return None
    return band(T, *fitting) if _shows(band(longer, *fitting), patient, setting) else None


def _shows(expected: Tensor, patient: Patient, setting: Setting) -> bool:
    """Whether this `(T, T)` is what moves with that many tokens, at one size of them or at several together."""
    moved = torch.zeros_like(expected)
    try:
        for scale in SCALES:
            moved = moved | influence(patient, setting, T=len(expected), scale=scale)[0]
            if agree(moved, expected):
                return True
    except Crash:
        pass
    return False


# ------------------------------------------------------------------------------------------ neither usual nor a window


def _unusual_sight(
    moved: Tensor, usual: dict[str, Tensor], patient: Patient, setting: Setting, report: Report
) -> Setting:
    """Find the mistake that leaves this pattern; if there is none, weights are too sharp to see every token."""
    if blind := last_key_unseen(moved, patient, setting):
        report.find("key-unused", blind)
        raise Stop
    for name, base in usual.items():
        if code := _known_mistake(moved, name, base, patient, setting):
            report.find(code, describe(moved, base, f"without a mask, {name} expected", patient))
            raise Stop
    if how := _future_leak(moved, patient, setting):
        report.find("future-leak", describe(moved, causal_mask(setting.T), how, patient))
        raise Stop
    tried = pairs(setting.T)
    hidden = int((~moved & tried).sum())
    report.skip(
        "tokens that no output reacted to",
        f"{hidden} of {int(tried.sum())} pairs stayed still without a mask: weights too sharp, or something is hidden "
        "by design",
    )
    report.remark("blind-spots", f"{hidden} pairs of output and token show no dependence although nothing hides them.")
    # Whatever hides the rest: nothing that a mask allows may count as a leak.
    causal = patient.attend.causal or not leaks(moved, causal_mask(setting.T))
    return replace(setting, base=usual["causal" if causal else "full"])


def _known_mistake(moved: Tensor, name: str, base: Tensor, patient: Patient, setting: Setting) -> str:
    """Return the code of the mistake that leaves what moved in a layer of this base, or ""."""
    fitting = [mistake for mistake, expected in _mistakes(base, patient, setting) if agree(moved, expected)]
    # A pattern that only lacks something may come from sharp maps, also one that lacks little of everything, where
    # nobody said that the layer is causal; and two mistakes may leave the same at one length.
    sure = patient.attend.causal and bool((moved & ~base).any())
    if not (sure and len({_code(mistake) for mistake in fitting}) == 1):
        confirmed = [mistake for mistake in fitting if _seen_again(mistake, name, patient, setting)]
        fitting = confirmed or (fitting if sure else [])
    return _code(fitting[0]) if fitting else ""


def _code(mistake: str) -> str:
    return mistake.split("/")[0]  # "mixes-tokens/qk" says which reshapes are meant


def _mistakes(base: Tensor, patient: Patient, setting: Setting) -> Iterator[tuple[str, Tensor]]:
    """Yield the patterns that wrong reshapes, and in a layer declared causal a wrong softmax, leave without a mask."""
    full = torch.ones_like(base)
    for mistake, expected in patterns.suspicions(full, base, patient.num_heads).items():
        if mistake.startswith("mixes-tokens"):
            yield mistake, expected
    if patient.attend.causal and not agree(full, base):
        x = patient.tokens(1, 1, 0.5).expand(1, setting.T, -1)
        out, alone = patient(x)[0], patient(x[:, :1])[0]
        # The last query sees all: its weights sum to 1 also where the mask comes after the softmax.
        sums = patient.differ(out[-1:], alone) and patient.differ(out[1:], out[:1].expand_as(out[1:]))
        yield ("softmax-axis" if sums else "future-leak"), full


def _seen_again(mistake: str, name: str, patient: Patient, setting: Setting) -> bool:
    """Whether the pattern that a mistake leaves is seen at a second length as well."""
    T = second_length(patient)
    full = torch.ones(T, T, dtype=torch.bool)
    found = patterns.suspicions(full, causal_mask(T) if name == "causal" else full, patient.num_heads)
    try:
        return mistake in found and agree(influence(patient, setting, T=T)[0], found[mistake])
    except Crash:
        return False


def _future_leak(moved: Tensor, patient: Patient, setting: Setting) -> str:
    """Say what went wrong with a causal mask, as far as the pattern shows that one was meant; "" otherwise."""
    T = len(moved)
    tril = causal_mask(T)
    if patient.attend.causal:
        return "in a layer declared causal" if leaks(moved, tril) else ""
    longer = second_length(patient)
    for how, pattern in _spoilt(T).items():
        if agree(moved, pattern(T)) and _shows(pattern(longer), patient, setting):
            return f"without a mask; {how}"
    ahead = (moved & ~tril & pairs(T)).any(0)
    before = tril & pairs(T)
    if ahead[-1] and not ahead[:-1].any() and T > 4 and torch.equal(moved & before, before):
        return "without a mask; of the later tokens the very last one is seen, by all"
    return ""


def _spoilt(T: int) -> dict[str, Callable[[int], Tensor]]:
    """Return what is left of a causal mask that went wrong, in words -> for each number of tokens `(T, T)`."""

    def full(n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool)

    def row(n: int, number: int) -> Tensor:
        return (torch.arange(n) == number % n)[:, None]

    upside_down = "each token sees those after it and none before it: the causal mask is upside down (triu for tril)"
    # A token without keys gets a mean over all of them where hidden scores are finite.
    return {
        upside_down: lambda n: full(n).triu(),
        f"{upside_down}, the last one all": lambda n: full(n).triu() | row(n, -1),
        "token 0 sees all later ones, as where the diagonal is hidden too and no key is left: tril(-1) for tril": (
            lambda n: full(n).tril() | row(n, 0)
        ),
    } | {
        f"the pattern is a causal one moved by {k} place{'s' * (k > 1)}": partial(lambda k, n: full(n).tril(k), k)
        for k in range(1, T - 1)
    }


# -------------------------------------------------------------------------------------------------------- equal tokens


def treats_equal_tokens_alike(patient: Patient, setting: Setting, report: Report) -> Setting | None:
    """Equal tokens: without positions all outputs are equal; twice as many tokens as heads show a wrong reshape.

    Where a layer takes no mask of pairs this is all that there is: a wrong split repeats its outputs with the period of
    the heads, a wrong merge gives them in pairs, positions give neither.
    """
    if setting.sight not in ("full", "causal"):
        return None
    h = patient.num_heads
    T = 2 * h if h > 1 and not patient.takes_any_mask else setting.T
    outs = []
    for scale in (1.0, 0.1):  # sharp maps hide it, small tokens make them flat
        try:
            outs.append(patient(scale * patient.tokens(1, 1, 0.5).expand(1, T, -1))[0])
        except Crash as crash:
            report.skip(f"{T} equal tokens", f"the layer raised {crash}")
            return None
    differing = [out for out in outs if patient.differ(out[1:], out[:1].expand_as(out[1:]))]
    if not differing:
        known = _order_matters(patient, setting)
        if not patient.takes_any_mask and known is None:  # with positions a crowd weighs less the farther it is
            wrong_softmax_in_a_crowd(patient, report)
        return known
    _find_wrong_reshape(outs, differing[0], patient, report)
    if not patient.takes_masks:
        report.skip(
            "mixing of tokens and sums of weights",
            "the layer takes no mask and tells places apart, so that either could hide there",
        )
    return replace(
        setting, places="equal tokens at different places give different outputs: the layer knows absolute positions."
    )


def _find_wrong_reshape(outs: list[Tensor], differing: Tensor, patient: Patient, report: Report) -> None:
    h = patient.num_heads
    if patient.takes_any_mask or h == 1 or patient.attend.causal:
        return
    if not any(patient.differ(out[h:], out[:h]) for out in outs):
        code, how = "mixes-tokens", "repeat after num_heads"
    elif not any(patient.differ(out[0::2], out[1::2]) for out in outs):
        code, how = "mixes-tokens-on-merge", "come in equal pairs"
    else:
        return
    off = amount(differing - differing[:1])
    report.find(
        code,
        f"{len(differing)} equal tokens without a mask: the outputs differ by up to {off}, and they {how}; "
        "positions do not do that.",
    )
    raise Stop


def _order_matters(patient: Patient, setting: Setting) -> Setting | None:
    shuffled = torch.randperm(setting.T - 1, generator=torch.Generator().manual_seed(0))
    order = torch.cat([shuffled, torch.tensor([setting.T - 1])])  # the last token of a causal layer sees all others
    x = patient.tokens(1, setting.T, 0.5)
    if not patient.differ(patient(x)[:, -1], patient(x[:, order])[:, -1]):
        return None
    return replace(
        setting, places="the order of the tokens matters without a mask: the layer knows relative positions."
    )


def knows_places(patient: Patient, setting: Setting, report: Report) -> None:
    """Tell how the layer knows places; in a sick layer a mistake may look like that."""
    if setting.places and report.ok:
        report.remark("positions", setting.places)

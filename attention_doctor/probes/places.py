"""Distances, where a layer promises in words to tell them: rotary, with slopes, or by a bias for each distance.

What one token gives another may then depend on how far they are apart, and on nothing else of where they stand. Other
layers may know places in any way they like, and are not asked.
"""

import re

import torch
from torch import Tensor

from attention_doctor.patient import Crash, Patient, amount
from attention_doctor.report import Report
from attention_doctor.setting import Setting

FAR = 1e3  # times the usual size of a token: its scores are large, and where all are negative, nobody sees it
PLACES = 3  # by which two tokens are moved
SHARP = 2.0  # times the usual size: scores that matter
DRAWS, ROUNDS, ENOUGH = 512, 6, 3
APART = 1e-3  # share of the output that rounding does not explain,
MANY = 20  # nor what is left of the weights of the tokens in front, by which the answers differ among themselves


def keeps_distances(patient: Patient, setting: Setting, report: Report) -> None:
    """Move two tokens by some places: behind tokens without weight they must give what they give without them."""
    promised = patient.attend.distances
    if re.search("local|window|block_len", patient.words):
        return  # where blocks begin counts as well
    if not promised or not report.ok or setting.sight not in ("full", "causal") or "absolute" in setting.places:
        return
    if not setting.places:
        if promised == "rotary" and patient.head_dim > 1 and not _order_matters(patient, setting.T):
            report.find(
                "positions-not-relative",
                "its code turns queries and keys by where they stand, but the order of the tokens does not matter: are "
                "they turned along the axis of the tokens?",
            )
        return
    pair = SHARP * patient.noise(1, 2, 1)
    try:
        here = patient(pair)[0, -1]
        moved = _behind_tokens_without_weight(patient, pair, here)
    except Crash as crash:
        report.skip("distances", f"the layer raised {crash}")
        return
    if len(moved) < ENOUGH:
        report.skip("distances", "no token was found that has no weight in any head")
    else:
        usual = moved.median(0).values  # a few of the tokens in front may have kept some weight
        spread, off = (moved - usual).abs().amax(-1).median(), (usual - here).abs().max()
        if off > MANY * spread and off > APART * here.abs().max():
            report.find("positions-not-relative", _by_more_than_distance(promised, amount(off)))
            return
    if promised.startswith("alibi"):
        _prefers_the_near(patient, report)


def _order_matters(patient: Patient, T: int) -> bool:
    """Whether the last output changes with the order of those before, also in flat maps, where little hides it."""
    turned = torch.cat([torch.arange(T - 1).flip(0), torch.tensor([T - 1])])
    for scale in (1.0, 0.3, 0.1, 0.03, 0.01):
        x = scale * patient.noise(1, T, 71)
        one, two = patient(x)[:, -1], patient(x[:, turned])[:, -1]
        if (one - two).abs().max() > patient.rounding(one):
            return True
    return False


def _behind_tokens_without_weight(patient: Patient, pair: Tensor, here: Tensor) -> Tensor:
    """Return the last output behind tokens that nobody looks at, `(found, d_out)`."""
    found = []
    # The more places, the clearer; but the token in front is turned as well, and must have no weight at any of them.
    for places, seed in ((places, seed) for places in (PLACES, 1) for seed in range(ROUNDS)):
        if places == 1 and seed == 0:
            found = []
        far = FAR * patient.noise(DRAWS, 1, 40 + seed).expand(-1, places, -1)
        out = patient(torch.cat([far, pair.expand(DRAWS, -1, -1)], 1))[:, -1]
        found += list(out[out.abs().amax(-1) < 3 * here.abs().max()])
        if len(found) >= ENOUGH:
            break
    return torch.stack(found) if found else torch.zeros(0, len(here))


def _by_more_than_distance(promised: str, off: str) -> str:
    why = {
        "rotary": "Do the angles and the features that are turned together have the same order, side by side or in two "
        "halves?",
        "alibi": "Is the bias made of the distance of query and key?",
        "relative": "Is the table of biases brought into the order (heads, queries, keys) by permute, not by view?",
    }[promised.rstrip("?")]
    return (
        f"two tokens at the places 0 and 1, and the same two some places on (behind tokens without weight) differ by "
        f"{off}: what they give each other depends on more than their distance. {why}"
    )


def _prefers_the_near(patient: Patient, report: Report) -> None:
    """Among equal tokens, the weights of the last query are what little changes of each of them show."""
    T, step = 8, 1e-2
    x = patient.tokens(1, 1, 0.5).expand(1, T, -1)
    changed = x.repeat(T, 1, 1)
    changed[torch.arange(T), torch.arange(T)] += step * patient.noise(1, 1, 70)[0, 0]
    try:
        moved = (patient(changed)[:, -1] - patient(x)[0, -1]).norm(dim=-1)  # (T,), by distance T - 1, ..., 0
    except Crash:
        return
    steps = moved[1 : T - 1] - moved[: T - 2]  # the token itself may enter in other ways as well
    if (steps < -1e-3 * moved.max()).all():
        report.find(
            "positions-not-relative",
            f"{T} equal tokens: the farther a token, the more it gives to the last one ({moved[0]:.2g} by the "
            f"farthest, {moved[T - 2]:.2g} by the nearest); a slope takes away for distance.",
        )

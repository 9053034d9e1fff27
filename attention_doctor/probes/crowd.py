"""A wrong softmax in a layer that takes no mask of pairs: many equal tokens and one query.

The query gets the crowd's value, whichever query it is. A softmax over queries hides well where there are no masks:
with it the keys of the crowd weigh more or less for good, here the difference between two queries fades as the crowd
grows.
"""

import torch

from attention_doctor.patient import Crash, Patient
from attention_doctor.probes.sums import is_affine_for_one_token
from attention_doctor.report import Report

FEW, MANY = 6, 60  # tokens in a crowd
SCALES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)  # of the tokens: small ones make sharp maps flat


def wrong_softmax_in_a_crowd(patient: Patient, report: Report) -> None:
    """Compare how much the query matters in a small crowd and in a large one."""
    if not is_affine_for_one_token(patient):
        report.skip(
            "sums of weights",
            "the layer takes no mask of pairs and is not linear for one token (a layer norm?), so that its weights "
            "cannot be told from its output",
        )
        return
    seen, flat = [], []
    # Scores made large by biases keep maps sharp for a long time, and a sharp healthy map forgets the query late: all
    # maps that are flat have to tell the same.
    for scale in SCALES:
        try:
            seen.append((_discrepancy(FEW, scale, patient), _discrepancy(MANY, scale, patient)))
        except Crash as crash:
            report.skip("sums of weights", f"needs a crowd of {MANY} equal tokens; the layer raised {crash}")
            return
        flat += [seen[-1]] if 3e-5 < seen[-1][0] < 0.1 else []  # below is rounding
        if len(flat) > 1 and seen[-1][0] < 3e-5:
            break
    if all(few >= 0.1 for few, _ in seen):
        report.skip("sums of weights", "the maps stay sharp however small the tokens are")
        return
    # Where nothing gets smaller (normed q and k) small tokens are not flatter, and six may be too few to judge by.
    worst = max(many for _, many in seen)
    if flat and all(many > 0.5 * few for few, many in flat) and worst > max(1e-3, 2 * seen[-1][1]):
        if _order_counts(SCALES[len(seen) - 1], patient):
            report.skip("sums of weights", "weights fall with the distance, so that a crowd is no larger than its end")
            return
        report.find(
            "softmax-axis",
            f"one query among {MANY} equal tokens: what it gets depends on the query by {worst:.1%}, and not less than "
            f"among {FEW}; a mean of the crowd would not.",
        )


def _discrepancy(size: int, scale: float, patient: Patient) -> float:
    """Return by how much of its size the difference between two crowds depends on the query."""
    *queries, crowd_a, crowd_b = patient.tokens(1, 4, 0.3).split(1, dim=1)  # alike, so that the maps are flat

    def answer(query: torch.Tensor, crowd: torch.Tensor) -> torch.Tensor:
        return patient(scale * torch.cat([crowd.expand(1, size, -1), query], 1))[0, -1]

    first, second = (answer(query, crowd_a) - answer(query, crowd_b) for query in queries)
    return ((first - second).abs().max() / first.abs().max().clamp_min(1e-30)).item()


def _order_counts(scale: float, patient: Patient) -> bool:
    """Whether flat maps tell near tokens from far ones, as with slopes."""
    x = scale * patient.tokens(1, FEW + 1, 0.3)
    none, there = patient(0 * x)[0, -1], patient(x)[0, -1]  # what biases alone give is no part of it
    back = patient(torch.cat([x[:, :-1].flip(1), x[:, -1:]], 1))[0, -1]
    return bool((there - back).abs().max() > 0.05 * (there - none).abs().max())

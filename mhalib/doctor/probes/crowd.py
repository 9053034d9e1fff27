"""A wrong softmax in a layer that takes no mask: many equal tokens and one query.

The query gets the crowd's value, whichever query it is. A softmax over queries hides well where there are no masks:
with it the keys of the crowd weigh more or less for good, here the difference between two queries fades as the crowd
grows.
"""

import torch

from mhalib.doctor.patient import Crash, Patient
from mhalib.doctor.report import Report

FEW, MANY = 6, 60  # tokens in a crowd
SCALES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)  # of the tokens: small ones make sharp maps flat


def wrong_softmax_in_a_crowd(patient: Patient, report: Report) -> None:
    """Compare how much the query matters in a small crowd and in a large one."""
    if not _is_linear_for_one_token(patient):
        report.skip(
            "sums of weights",
            "the layer takes no mask and is not linear for a single token (a layer norm?), so that its weights cannot "
            "be told from its output",
        )
        return
    seen, flat = [], []
    # Scores made large by biases keep maps sharp for a long time; a sharp healthy map forgets the query late.
    for scale in SCALES:
        try:
            seen.append((_discrepancy(FEW, scale, patient), _discrepancy(MANY, scale, patient)))
        except Crash as crash:
            report.skip("sums of weights", f"needs a crowd of {MANY} equal tokens; the layer raised {crash}")
            return
        flat += [seen[-1]] if 3e-5 < seen[-1][0] < 0.1 else []  # below is rounding
        if len(flat) > 1 and scale <= 0.1:
            break
    if all(few >= 0.1 for few, _ in seen):
        report.skip("sums of weights", "the maps stay sharp however small the tokens are")
        return
    # Where nothing gets smaller (normed q and k) small tokens are not flatter, and six may be too few to judge by.
    worst = max(many for _, many in seen)
    if flat and all(many > 0.5 * few for few, many in flat[:2]) and worst > max(1e-3, 2 * seen[-1][1]):
        report.find(
            "softmax-axis",
            f"one query among {MANY} equal tokens: what it gets depends on the query by {worst:.1%}, and not less than "
            f"among {FEW}; a mean of the crowd would not.",
        )


def _is_linear_for_one_token(patient: Patient) -> bool:
    token = patient.tokens(1, 4, 0.3)[:, :1]
    once = [patient(scale * token)[0, 0] for scale in (0.0, 1.0, 2.0)]
    bend = (once[2] - 2 * once[1] + once[0]).abs().max()
    return not bend > 1e-3 * once[1].abs().max()


def _discrepancy(size: int, scale: float, patient: Patient) -> float:
    """Return by how much of its size the difference between two crowds depends on the query."""
    *queries, crowd_a, crowd_b = patient.tokens(1, 4, 0.3).split(1, dim=1)  # alike, so that the maps are flat

    def answer(query: torch.Tensor, crowd: torch.Tensor) -> torch.Tensor:
        return patient(scale * torch.cat([crowd.expand(1, size, -1), query], 1))[0, -1]

    first, second = (answer(query, crowd_a) - answer(query, crowd_b) for query in queries)
    return ((first - second).abs().max() / first.abs().max().clamp_min(1e-30)).item()

"""Of several projections that may be a layer's, take those that give its outputs, and examine it with them."""

import copy
import re
from collections.abc import Sequence

from torch import nn

from attention_doctor.calls.words import source_of
from attention_doctor.inside.differences import examine_differences
from attention_doctor.inside.find import Candidate
from attention_doctor.inside.fit import Answers, Fit, fit, judge_way, why_not
from attention_doctor.inside.pairs import Pairs, in_float64
from attention_doctor.inside.projections import by_head
from attention_doctor.inside.ways import ways
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting

WHAT = "scale, number of heads, layout"
FEW = 2  # candidates that are tried in every way where none is plausible

ROOT = r"sqrt\(\s*(self\.)?\w*(d_?k|hd|head_dim|dim_head|d_head|head_size|dim_per_head|size\(-1\)|shape\[-1\])|"
ROOT += r"(d_?k|head_dim|dim_head|d_head|head_size|hd)\)?\s*\*\*\s*-\s*0?\.5"
SPOKEN = r"scaled[ _-]dot[ _-]product|softmax\(\s*q\s*k"
ON_PURPOSE = r"unscaled|no scal|not scal|without (a |the )?scal|mup\b|µp|maximal update|temperature|[(,]\s*scale\s*="


def examine_candidates(
    patient: Patient, setting: Setting, report: Report, candidates: Sequence[Candidate], quiet: bool = False
) -> None:
    """Examine the layer with the candidate that fits; say why not, where none does or several do.

    Args:
        patient: the layer.
        setting: what is known of it.
        report: where it is said.
        candidates: what `find_weights` found.
        quiet: whether nobody handed the weights over; then only what nobody does on purpose is a finding.
    """
    if not candidates:
        report.skip(WHAT, "no projections were found in the module; hand over weights=")
        return
    if len(candidates[0].found["q"].weight) != patient.num_heads * patient.head_dim:  # heads of another width
        patient = copy.copy(patient)
        patient.head_dim = len(candidates[0].found["q"].weight) // patient.num_heads
    try:
        fitting = _fitting(patient, setting, candidates, quiet)
        if len(fitting) == 1:
            ((candidate, fitted),) = fitting
            promised = promises_scale(patient.module) if quiet else None
            judge_way(fitted, patient, report, candidate.found, promised)
            if not quiet:
                report.remark("weights-found", f"weights found: {candidate}.")
        elif fitting:
            both = "; or ".join(str(candidate) for candidate, _ in fitting[:3])
            report.skip(WHAT, f"several projections give its outputs: {both}; hand over those that are meant, weights=")
        else:
            _without_biases(patient, setting, report, candidates, quiet)
    except Crash as crash:
        report.skip(WHAT, f"the layer raised {crash}")


def _fitting(
    patient: Patient, setting: Setting, candidates: Sequence[Candidate], first: bool
) -> list[tuple[Candidate, Fit]]:
    """Return the candidates that give the outputs: in the usual way, and only where none does, in another one.

    With `first` one that does so in the usual way is enough: nothing is wrong with it then.
    """
    answers, fitting = Answers(patient, setting), []
    for candidate in candidates:
        fitted = fit(answers, candidate.found, [next(ways(candidate.found, patient.head_dim))])
        fitting += [(candidate, fitted)] if fitted.fits else []
        if fitting and first:
            break
    if fitting:
        return fitting
    plausible, tried = _plausible(patient, candidates), []
    for candidate in plausible or candidates[:FEW]:
        # Other cuts and other orders are candidates of their own.
        rest = [way for way in ways(candidate.found, patient.head_dim) if way.layout != "fused" and way.used == "qkv"]
        if not plausible:  # a further key bends what one token alone gives
            rest = rest[:1] + [way for way in rest if way.zero_key and way.layout == "contiguous"]
        tried.append((candidate, fit(answers, candidate.found, rest)))
    return [(c, fitted) for c, fitted in tried if fitted.fits]


def _plausible(patient: Patient, candidates: Sequence[Candidate], scores: bool = False) -> list[Candidate]:
    """Return the candidates whose v and o tell what a token alone gives; with `scores` q and k must fit pairs, too."""
    found = []
    try:
        with in_float64(patient) as exact:
            pairs = Pairs(patient, 1e-5 if exact else 1e-3)
            if pairs.unfit():
                return []
            for candidate in candidates:
                grouped = len(candidate.found["k"].weight) < len(candidate.found["q"].weight)
                for shared in ("neighbours", "cycled") if grouped else ("neighbours",):
                    cut = by_head(candidate.found, patient.num_heads, "contiguous", shared)
                    if cut.o.shape[0] != patient.width:
                        continue
                    left, total = pairs.values_alone(cut)
                    if left <= pairs.close and (
                        not scores or pairs.read(patient.num_heads, "contiguous", shared, total, cut).good(pairs.close)
                    ):
                        found.append(candidate)
                        break
    except Crash:  # it may not take one token alone
        return []
    return found


def _without_biases(
    patient: Patient, setting: Setting, report: Report, candidates: Sequence[Candidate], quiet: bool
) -> None:
    """Try pairs of tokens with the candidate that fits them, because biases may be missing or positions be there."""
    plausible = _plausible(patient, candidates)
    sure = _plausible(patient, plausible, scores=True)
    promised = promises_scale(patient.module) if quiet else None
    if len(sure) == 1 and not examine_differences(patient, setting, report, sure[0].found, promised):
        if not quiet:
            report.remark("weights-found", f"weights found: {sure[0]}.")
        return
    first = [*plausible, *candidates][0]
    if quiet:
        why = "positions, a norm, a gate? hand over weights=layer to hear more"
        report.skip(WHAT, f"the projections found ({first}) do not give its outputs alone: {why}")
        return
    fitted = fit(Answers(patient, setting), first.found)
    why = examine_differences(patient, setting, report, first.found)
    report.skip(WHAT, f"weights found: {first}; {why_not(fitted, first.found, patient)} {why}".rstrip())


def promises_scale(module: nn.Module | None) -> bool:
    """Whether the layer's own words say that its scores are divided by sqrt(head_dim), and none against it."""
    text = ""
    for part in [] if module is None else {type(part): part for part in module.modules()}.values():
        if type(part).__module__.startswith("torch."):
            continue
        try:
            text += source_of(type(part)) + "\n"
        except (OSError, TypeError):
            text += (type(part).__doc__ or "") + "\n"
    text = text.lower()
    if re.search(ON_PURPOSE, text):
        return False
    if re.search(SPOKEN, text):
        return True
    lines = [line for line in text.splitlines() if not re.search(r"init|std|normal_|uniform_|gain", line)]
    return any(
        re.search(ROOT, line) and re.search(r"scal|score|att|dot|@|matmul|einsum|norm_fact", line) for line in lines
    )

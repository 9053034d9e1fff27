"""What only an insider sees: parameters that nothing reaches, and, with the projection weights, scale and heads.

`projections` holds the matrices, `ways` how a layer may be calculated from them, `fit` finds the way and judges it.
`differences` does what can be done where biases are missing, by asking about `pairs` of tokens. `entries` are the
matrices of a module, `find` makes candidates of them, `choose` takes the one that fits. `dead` looks for parameters
without a gradient.
"""

from collections.abc import Mapping

from torch import nn

from attention_doctor.adapt import Adapted
from attention_doctor.inside.choose import examine_candidates
from attention_doctor.inside.dead import dead_parameters
from attention_doctor.inside.differences import examine_differences
from attention_doctor.inside.find import Candidate, find_weights
from attention_doctor.inside.fit import Answers, fit, judge_way, why_not
from attention_doctor.inside.projections import Projection, check_weights
from attention_doctor.inside.silent import dead_rows, silent_blocks
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting

__all__ = ["Candidate", "check_weights", "examine_from_inside", "find_weights", "silent_blocks", "told_weights"]

FATAL = {"crash", "shape", "not-finite", "not-deterministic"}  # no gradient of such a layer says anything
HARMLESS = {"dead-parameters", "nan-on-empty-row"}  # they say nothing of the numbers
WHAT = "scale, number of heads, layout"
MOST_NUMBERS = 20_000_000  # in the matrices of a module that is searched unasked: some copies of it in float64


def told_weights(
    weights: object, d_model: int, num_heads: int, head_dim: int
) -> Mapping[str, Projection] | list[Candidate]:
    """Return the projections that were handed over, or what may be those of the layer that was; see `examine`.

    Raises:
        TypeError: a projection is neither an `nn.Linear` nor a matrix.
        ValueError: they do not fit the sizes, or a layer has none that do.
    """
    module = weights.module if isinstance(weights, Adapted) else weights
    if not isinstance(module, nn.Module):
        return check_weights(weights, d_model, num_heads, head_dim)
    found = find_weights(module, d_model, num_heads, head_dim) or find_weights(module, d_model, num_heads)
    if not found:
        there = ", ".join(f"{name} {tuple(p.shape)}" for name, p in list(module.named_parameters())[:8])
        raise ValueError(
            f"expected projections of {num_heads} heads with {head_dim} features each on d_model = {d_model} in "
            f"{type(module).__name__}, found none; its parameters: {there or 'none'}. Hand them over: "
            'weights={"q": …, "k": …, "v": …, "o": …}, each an nn.Linear or a matrix (out, in)'
        )
    return found


def examine_from_inside(
    patient: Patient,
    setting: Setting,
    report: Report,
    given: Mapping[str, Projection] | list[Candidate] | None,
) -> None:
    """Look at the parameters, the scale, the heads and the layout, where the findings so far leave a sense in it.

    Args:
        patient: the layer.
        setting: what is known of it.
        report: where it is said.
        given: the projections that were handed over; several candidates, of which one may fit; or None, then the doctor
            looks for them himself.
    """
    if not FATAL & set(report.codes):
        dead_parameters(patient, report)
    if report.ok and patient.module is not None:
        dead_rows(patient, report)
    if not set(report.codes) <= HARMLESS:
        report.skip(WHAT, "only of use once the findings above are mended")
    elif isinstance(given, Mapping):
        fit_weights(patient, setting, report, given)
    elif given is not None:
        examine_candidates(patient, setting, report, given)
    elif patient.module is None:
        report.skip(WHAT, "no probe looks at them from outside; hand over weights=")
    elif sum(p.numel() for p in patient.module.parameters() if p.ndim > 1) > MOST_NUMBERS:
        report.skip(WHAT, "the module is too large to be searched for its projections; hand over weights=")
    else:
        sizes = patient.d_model, patient.num_heads, patient.head_dim
        found = find_weights(patient.module, *sizes) or find_weights(patient.module, *sizes[:2])
        examine_candidates(patient, setting, report, found, quiet=True)


def fit_weights(patient: Patient, setting: Setting, report: Report, found: Mapping[str, Projection]) -> None:
    """Find the way to calculate the layer that gives its outputs, and judge the scale, the heads, the layout."""
    try:
        fitted = fit(Answers(patient, setting), found)
        if fitted.fits:
            judge_way(fitted, patient, report, found)
            return
        why = "" if patient.dtype.itemsize < 4 else examine_differences(patient, setting, report, found)
        if why or patient.dtype.itemsize < 4:
            report.skip("scale and heads", f"{why_not(fitted, found, patient)} {why and f'In pairs of tokens: {why}'}")
    except Crash as crash:
        report.skip("scale and heads", f"the layer raised {crash}")

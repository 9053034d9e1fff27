"""The doctor: examine any attention layer from outside, by what must be true of every one of them.

`examine` looks at behaviour alone and knows nothing of the code; `adapt` says how a module wants to be called. What
each code means stands in `catalogue`, the probes and their order in `probes`, what the trials with masks mean in
`verdicts`, the patterns that known mistakes leave in `patterns`, what needs the parameters in `inside`.
"""

from collections.abc import Callable, Mapping

from torch import nn

from mhalib.arguments import check_divides, check_size
from mhalib.doctor.adapt import Adapted, adapt, is_torch_layer
from mhalib.doctor.catalogue import CATALOGUE, REMARKS
from mhalib.doctor.inside import check_weights, examine_from_inside
from mhalib.doctor.patient import Patient, check_has_numbers, on_the_table
from mhalib.doctor.probes import examine_from_outside
from mhalib.doctor.report import Finding, FindingsError, Remark, Report

__all__ = ["CATALOGUE", "REMARKS", "Finding", "FindingsError", "Remark", "Report", "adapt", "examine"]


def examine(
    attend: Callable,
    d_model: int,
    num_heads: int,
    *,
    head_dim: int | None = None,
    module: nn.Module | None = None,
    weights: Mapping | None = None,
) -> Report:
    """Examine an attention layer and return what is wrong with it.

    Args:
        attend: `attend(x, mask=None)`, a module or a function, or what `adapt` returns. `x` is `(B, T, d_model)`, a
            mask boolean as in `mhalib.masks`, `(T, T)` or `(B, T, T)`; it returns `(B, T, d_out)` or a tuple with
            that first.
        d_model: features of the input.
        num_heads: how many heads the layer is said to have.
        head_dim: features of one head; `d_model // num_heads` when left out.
        module: where the parameters are, when `attend` is a function around it; it is examined in eval mode, too.
        weights: `{"q": …, "k": …, "v": …, "o": …}`, each an `nn.Linear` or a matrix `(out, in)`; with them the scale,
            the number of heads and the layout are examined as well.

    Returns:
        a report: `.ok`, `.findings`, `.remarks`, `.not_examined`. The same on every call. The layer comes back as it
        was: modes, parameters, gradients, buffers, random state.

    Raises:
        TypeError: `attend` cannot be called in this form; `adapt` helps.
        ValueError: a size is no positive integer, the heads do not divide the features, or weights do not fit.

    Taught in notebook 06.
    """
    check_size("d_model", d_model)
    check_size("num_heads", num_heads)
    if head_dim is None:
        check_divides("d_model", d_model, num_heads)
        head_dim = d_model // num_heads
    check_size("head_dim", head_dim)
    if module is not None and not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module, got {type(module).__name__}; leave it out for a plain function")
    if not isinstance(attend, Adapted):
        attend = adapt(attend, "torch" if is_torch_layer(attend) else "plain")
    check_has_numbers(attend.module if module is None else module)
    projections = None if weights is None else check_weights(weights, d_model, num_heads, head_dim)

    report = Report(_name(attend))
    with on_the_table(attend, module) as (twin, inner):
        patient = Patient(twin, inner, d_model, num_heads, head_dim)
        setting = examine_from_outside(patient, report)
        examine_from_inside(patient, setting, report, projections)
    return report


def _name(attend: Adapted) -> str:
    target = attend.target if attend.module is None else attend.module
    return getattr(target, "__name__", type(target).__name__)

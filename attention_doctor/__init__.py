"""Examine any attention layer and name its bug: `from attention_doctor import examine`; `python -m attention_doctor`.

By what must be true of every attention layer, it tells what is wrong with one that somebody else wrote, and how that
was seen. It changes nothing in the layer, mends nothing, and draws no maps (`headview` does).

`examine` looks at behaviour alone; how the layer is called it finds out (`calls`), or `adapt` says so. What each code
means stands in `catalogue`, the probes and their order in `probes`, what the trials with masks mean in `verdicts`, the
patterns that known mistakes leave in `patterns`, what needs the parameters in `inside`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import nn

from attention_doctor.adapt import Adapted, adapt
from attention_doctor.calls import Found, find_out, heads_stated, widths
from attention_doctor.calls.making import USUAL, make
from attention_doctor.catalogue import CATALOGUE, REMARKS
from attention_doctor.examination import examine_mask_forms, examine_patient
from attention_doctor.examples import Case, find_example
from attention_doctor.patient import Patient, check_has_numbers, on_the_table
from attention_doctor.report import Finding, FindingsError, Remark, Report
from attention_doctor.stopping import OutOfTime, time_limit
from mhalib.arguments import check_divides, check_size

__all__ = ["CATALOGUE", "REMARKS", "Finding", "FindingsError", "Remark", "Report", "adapt", "examine"]


def examine(
    attend: Callable,
    d_model: int | None = None,
    num_heads: int | None = None,
    *,
    head_dim: int | None = None,
    module: nn.Module | None = None,
    seconds: float = 60.0,
) -> Report:
    """Examine an attention layer and return what is wrong with it.

    Args:
        attend: a layer, a function, a class of layers, or what `adapt` returns. Of a layer and a function it is found
            out how they are called (`report.called_as`); what `adapt` says always wins. A class is made with the sizes
            below, under the names that its constructor has for them.
        d_model: features of the input; when left out, what the layer's parameters say, for a class 32.
        num_heads: how many heads the layer is said to have; when left out, what it says itself, for a class 4.
        head_dim: features of one head; `d_model // num_heads` when left out.
        module: where the parameters are, when `attend` is a function around it; it is examined in eval mode, too.
        seconds: after which the examination ends, with what was found till then.

    Returns:
        a report: `.ok`, `.findings`, `.remarks`, `.not_examined`, `.called_as`, `.heads`, and `.to_markdown()` with a
        failing example for each finding. The same on every call. The layer comes back as it was: modes, parameters,
        gradients, buffers, random state.

    Raises:
        TypeError: it wants arguments of which nothing is known, or cannot be called; `adapt` helps.
        ValueError: a size is no positive integer, the heads do not divide the features, or weights do not fit.

    Taught in notebook 06.

    Examples:
        >>> from mhalib import MultiHeadAttention
        >>> from attention_doctor import examine
        >>> report = examine(MultiHeadAttention(d_model=8, num_heads=2), d_model=8)
        >>> report.ok
        True
    """
    for name, size in (("d_model", d_model), ("num_heads", num_heads), ("head_dim", head_dim)):
        if size is not None:
            check_size(name, size)
    if d_model is not None and num_heads is not None and head_dim is None:
        check_divides("d_model", d_model, num_heads)
    if module is not None and not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module, got {type(module).__name__}; leave it out for a plain function")
    if not callable(attend):
        raise TypeError(f"expected a module or a function, got {type(attend).__name__}; give layer, not its output")
    made = ""
    if isinstance(attend, type):
        d_model, num_heads = d_model or USUAL[0], num_heads or USUAL[1]
        attend, made = make(attend, d_model, num_heads, head_dim)
    report = Report(_name(attend))
    try:
        with time_limit(seconds):
            found = _found(attend, d_model, num_heads, head_dim, module)
            report.called_as = f"{made}: {found}" if made else str(found)
            _examine(found, num_heads, head_dim, module, report)
    except OutOfTime:
        report.skip("the rest", f"the examination was stopped after {seconds:g} seconds; seconds=... gives it longer")
    return report


def _found(
    attend: Callable, d_model: int | None, num_heads: int | None, head_dim: int | None, module: nn.Module | None
) -> Found:
    if not isinstance(attend, Adapted):
        owner = adapt_nothing(attend).module if module is None else module
        check_has_numbers(owner)
        return find_out(attend, d_model, num_heads or heads_stated(owner), head_dim, module)
    check_has_numbers(attend.module)
    sizes = [d_model] if d_model else widths(attend.module)
    if not sizes:
        raise ValueError("the number of features cannot be seen in a function; give d_model=...")
    return Found(attend, [], sizes[0])


def _examine(
    found: Found,
    num_heads: int | None,
    head_dim: int | None,
    module: nn.Module | None,
    report: Report,
) -> None:
    """Examine a layer of which it is known how it is called."""
    check_has_numbers(module)
    d_model, owner = found.d_model, found.attend.module if module is None else module
    if num_heads is not None and head_dim is None:
        check_divides("d_model", d_model, num_heads)
    stated = num_heads or heads_stated(owner)
    if stated is not None and head_dim is None:
        head_dim = max(1, d_model // stated)
    with on_the_table(found.attend, module) as (twin, inner):
        patient = Patient(twin, inner, d_model, stated, head_dim)
        patient.told = num_heads is not None
        setting = examine_patient(patient, report)
        for other in found.others:
            second = Patient(replace(other, target=twin.target), inner, d_model, patient.num_heads, patient.head_dim)
            examine_mask_forms(second, setting, report)
    case = Case.of(found.attend, module, None, patient, setting, found.others)
    report.find_example = partial(find_example, case=case)


def adapt_nothing(target: Callable) -> Adapted:
    """Return a function or layer as it is, for what can be seen before it is known how it is called."""
    return Adapted(target, "plain", None, 3, None, "B T d", None, False)


def _name(attend: Callable) -> str:
    target = attend.target if isinstance(attend, Adapted) else attend
    owner = getattr(target, "__self__", target)
    target = owner if isinstance(owner, nn.Module) else target
    return getattr(target, "__name__", type(target).__name__)

"""Examine an attention layer and name its bugs: `from attention_doctor import examine`; `python -m attention_doctor`.

By what must be true of every attention layer, it tells what is wrong with one that somebody else wrote, and how that
was seen. It changes nothing in the layer, mends nothing, and draws no maps (`headview` does).

`find_call` finds out how a layer is called, by what `try_call` sees (or `adapt` says so); the rest, in its order, is
`examination`: `outside` sees whether it runs and repeats itself, `look` what it computes, `exam` where each number
comes from; `laws` hold each step, `masks` and `cache` what they are for; `example` makes what fails to paste. The codes
stand in `catalogue`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from torch import nn

from attention_doctor.argument_names import attention_inside, heads_stated, widths
from attention_doctor.calling import Adapted, adapt, callable_of, name_of
from attention_doctor.catalogue import CATALOGUE, REMARKS
from attention_doctor.examination import examine_patient
from attention_doctor.find_call import embedded, find_call, unpacked
from attention_doctor.make_layer import USUAL, make
from attention_doctor.patient import Patient, check_has_numbers, on_the_table
from attention_doctor.report import Finding, FindingsError, Remark, Report
from attention_doctor.stopping import OutOfTime, time_limit
from mhalib.arguments import as_torch_starts, check_size

__all__ = ["CATALOGUE", "REMARKS", "Finding", "FindingsError", "Remark", "Report", "adapt", "examine"]


@as_torch_starts()
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
            below, under the names that its constructor has for them. Of a layer on a GPU a copy on the CPU is examined.
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

    Taught in notebook 16.

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
    if module is not None and not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module, got {type(module).__name__}; leave it out for a plain function")
    attend = callable_of(attend)
    made = ""
    if isinstance(attend, type):
        d_model, heads = d_model or USUAL[0], num_heads or USUAL[1]
        attend, made, of_heads = make(attend, d_model, heads, head_dim)
        num_heads, made = num_heads or (heads if of_heads else None), f"{made}: "
    sizes, one_by_one = (d_model, num_heads, head_dim, module, seconds), unpacked(attend)
    try:
        if one_by_one is not None and "{" in one_by_one.unpacked_by:
            raise TypeError(f"{name_of(attend)} takes a dict")  # no tensor has names in it
        return _examined(attend, made, *sizes)
    except TypeError as refused:
        if one_by_one is not None:
            made = f"batched, layer = layer, {one_by_one.unpacked_by}\n"
            with suppress(TypeError, ValueError):
                return _examined(one_by_one, made, *sizes)
            refused.args = (f"{refused}, first of all: {made.strip()}",)
        inner = attend if isinstance(attend, nn.Module) else nn.Module()
        for path, part in attention_inside(inner):  # of a model that wants pictures, or tokens by their numbers
            with suppress(TypeError, ValueError):
                report = _examined(part, "", None, num_heads, head_dim, None, seconds)
                report.say(f"the rest of {name_of(attend)}", str(refused).partition(". Say how")[0])
                report.subject = f"{name_of(attend)}.{path}"
                return report
        if (of_vectors := embedded(attend)) is not None:
            with suppress(TypeError, ValueError):
                return _examined(of_vectors, f"batched, layer = layer, {of_vectors.unpacked_by}\n", *sizes)
        raise


def _examined(
    attend: Callable,
    made: str,
    d_model: int | None,
    num_heads: int | None,
    head_dim: int | None,
    module: nn.Module | None,
    seconds: float,
) -> Report:
    call = attend if isinstance(attend, Adapted) else Adapted(attend)
    report = Report(name_of(call.target if call.module is None else call.module))
    try:
        with time_limit(seconds):
            owner = next(m for m in (module, call.module, nn.Module()) if m is not None)
            check_has_numbers(owner)
            sizes, heads = [d_model] if d_model else widths(owner), num_heads or heads_stated(owner)
            if not sizes:
                raise ValueError("the number of features cannot be seen in a function; give d_model=...")
            with on_the_table(call, module) as (twin, inner):
                patients = (Patient(twin, inner, size, heads, head_dim) for size in sizes)
                patient = next(patients) if isinstance(attend, Adapted) else find_call(patients)
                patient.told, call = num_heads is not None, replace(patient.call)
                report.called_as = f"{made}{call}"
                masks = examine_patient(patient, report)
                unseen = [forms[0] for forms in call.masks.values()] if call.stated else []
                if call.masks and not (masks or unseen):
                    patient.notes.append(f"not examined with a mask: {', '.join(map(str, call.masks))}")
                lines = [str(replace(call, mask=mask)) for mask in masks or unseen or [call.mask]]
                report.called_as = made + "\n".join([*lines, *(f"# {note}" for note in patient.notes)])
    except OutOfTime:
        report.say("the rest", f"the examination was stopped after {seconds:g} seconds; seconds=... gives it longer")
    return report

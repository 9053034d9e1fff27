"""The smallest failing example of a finding: code that runs without mhalib, tried on the layer before it is shown.

What to try for which code is in `table`, the experiments in `comparing`, `averaging`, `calling` and `inside`, the calls
of the layer in `wording`. What is written is executed here with the layer in place of the line that makes it, at
growing sizes, until an assertion of it fails; so no example is wrong. Where none fails, there is none, and the report
says in words what was seen.
"""

import io
import re
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass

import torch

from attention_doctor.examples.case import Case, owner
from attention_doctor.examples.table import bodies
from attention_doctor.examples.wording import Wording
from attention_doctor.patient import on_the_table

NAME = "<example>"  # the file name under which an example is executed


@dataclass(frozen=True)
class Example:
    """Code in which an assertion fails.

    Args:
        code: runs as it is once the line that makes the layer is filled in; without mhalib.
        message: what the assertion said of this layer.
    """

    code: str
    message: str


def find_example(code: str, evidence: str, codes: Sequence[str], case: Case) -> Example | None:
    """Return the smallest example for a finding, or None where none of those that are known fails.

    Args:
        code: of the finding.
        evidence: of the finding.
        codes: of all findings of the report.
        case: the layer, which comes back as it was.
    """
    found = (_find(code, evidence, codes, way) for way in case.ways())
    return next((example for example in found if example is not None), None)


def _find(code: str, evidence: str, codes: Sequence[str], case: Case) -> Example | None:
    with on_the_table(case.attend, case.module) as (twin, _):
        wording = Wording(case, _one_result(twin, case), copies="mutates-input" in codes and code != "mutates-input")
        remembers = code in ("crash", "not-deterministic")
        wanted = evidence if code == "crash" else ""
        for body in _with_and_without_gradients(code, evidence, wording):
            if not remembers and _failure(body, twin, wording, wanted) is None:
                continue
            # Again on a fresh copy: the layer may have kept something from an earlier attempt.
            with on_the_table(case.attend, case.module) as (fresh, _):
                message = _failure(body, fresh, wording, wanted)
            if message is not None:
                return Example("\n".join([*wording.making(), *wording.start(), *body]) + "\n", message)
            remembers = True
    return None


def _with_and_without_gradients(code: str, evidence: str, wording: Wording) -> Iterator[list[str]]:
    """Yield what to try; torch's own layers take another path where no gradient is asked for."""
    yield from bodies(code, evidence, wording)
    for body in bodies(code, evidence, wording):
        if not any("grad" in line for line in body):
            yield ["torch.set_grad_enabled(False)", *body]


def _one_result(twin, case: Case) -> object:
    """Return what the layer itself returns, of which the output is a part; None where it raises."""
    seen: list[object] = []
    target = twin.target

    def watched(*args, **kwargs):
        seen.append(target(*args, **kwargs))
        return seen[-1]

    for T in (case.setting.T, 2):
        x = torch.randn(2, T, case.d_model, generator=torch.Generator().manual_seed(0)).to(case.device, case.dtype)
        mask = torch.ones(T, T, dtype=torch.bool, device=case.device) if case.needs_mask else None
        try:
            with _quiet():
                twin.target = watched
                if twin.convention == "torch":
                    watched.num_heads = target.num_heads
                twin(x, mask)
        except Exception:
            continue
        finally:
            twin.target = target
        break
    return seen[-1] if seen else None


def _failure(body: list[str], twin, wording: Wording, evidence: str) -> str | None:
    """Execute an example; return what its own assertion said, None where it passed or where anything else happened."""
    namespace = {"torch": torch, "layer": owner(twin.target), **wording.handed_over()}
    torch.default_generator.manual_seed(0)  # the table puts it back
    try:
        with _quiet(), torch.enable_grad():
            exec(compile("\n".join([*wording.start(), *body]), NAME, "exec"), namespace)
    except AssertionError as error:
        own = traceback.extract_tb(error.__traceback__)[-1].filename == NAME
        return str(error) if own and _is_the_same(error, evidence) else None
    except Exception:
        return None
    return None


def _is_the_same(error: AssertionError, evidence: str) -> bool:
    """Whether what the layer raised is what the evidence names, whatever the numbers in it."""
    raised = error.__cause__
    if raised is None or not evidence:
        return True
    if str(error).startswith("the second call"):
        return type(raised).__name__ in evidence
    lines = str(raised).strip().splitlines() or [""]
    said = f"{type(raised).__name__}: {lines[0][:80].rstrip('.')}" if lines[0] else type(raised).__name__
    return re.sub(r"\d+", "0", said) in re.sub(r"\d+", "0", evidence)


@contextmanager
def _quiet() -> Iterator[None]:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

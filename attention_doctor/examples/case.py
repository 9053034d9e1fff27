"""What is kept of a layer that was examined, and how it is made and its output picked, in code.

Nothing is called here.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType, MethodType

import torch
from torch import Tensor, nn

from attention_doctor.adapt import Adapted
from attention_doctor.patient import Patient
from attention_doctor.setting import Setting


@dataclass(frozen=True)
class Case:
    """A layer as it was examined: how it is called, and what the probes have learnt of it.

    Args:
        attend: the adapted layer, not the copy that was on the table.
        module: where its parameters are, when it is a function around it.
        weights: the projections that were handed over, or None.
        d_model: features of the input.
        num_heads: how many heads it is said to have.
        head_dim: features of one head.
        needs_mask: whether it cannot be called without a mask.
        mask_ndim: 2 where it takes one `(T, T)` mask for all samples, otherwise 3.
        dtype: of its parameters.
        device: of its parameters.
        setting: where the examination ended.
        others: other ways in which it was called, for masks of another kind.
    """

    attend: Adapted
    module: nn.Module | None
    weights: object
    d_model: int
    num_heads: int
    head_dim: int
    needs_mask: bool
    mask_ndim: int
    dtype: torch.dtype
    device: torch.device
    setting: Setting
    others: tuple[Adapted, ...] = ()

    @classmethod
    def of(
        cls,
        attend: Adapted,
        module: nn.Module | None,
        weights: object,
        patient: Patient,
        setting: Setting,
        others: Iterable[Adapted] = (),
    ) -> "Case":
        """Return the case of a layer whose examination has ended."""
        kept = ("d_model", "num_heads", "head_dim", "needs_mask", "mask_ndim", "dtype", "device")
        known = {name: getattr(patient, name) for name in kept}
        return cls(attend, module, weights, **known, setting=setting, others=tuple(others))

    def ways(self) -> list["Case"]:
        """Return the case as it is called, and as it can be called too, with another mask."""
        also = [replace(self, attend=other, needs_mask=False, mask_ndim=3, others=()) for other in self.others]
        return [self, *also]


def owner(target: Callable) -> Callable:
    """Return the object that has to be made before the target can be called."""
    return target.__self__ if isinstance(target, MethodType) else target


def making(target: Callable, case: Case) -> list[str]:
    """Return the lines that import and make the layer, as far as its name tells where it is."""
    is_function = isinstance(target, FunctionType)
    kind = target if is_function else type(target)
    module, name = str(getattr(kind, "__module__", "")), str(getattr(kind, "__qualname__", ""))
    sizes = f"d_model = {case.d_model}" + (f", num_heads = {case.num_heads}" if case.num_heads else "")
    known = all(part.isidentifier() for part in name.split("."))
    top = name.partition(".")[0]
    module = _shortest(module, top)
    if not known or isinstance(target, functools.partial):
        return ["", f"layer = ...  # your function, or as you make your layer: {sizes}"]
    imports = ["", f"from {module} import {top}"] if all(p.isidentifier() for p in module.split(".")) else [""]
    if module == "__main__":
        imports = ["", f"# {name} as in your script or notebook"]
    if is_function:
        return [*imports, "", f"layer = {name}  # {sizes}"]
    evaluated = ".eval()" if isinstance(target, nn.Module) else ""
    return [*imports, "", f"layer = {name}(...){evaluated}  # as you make it: {sizes}"]


def _shortest(module: str, name: str) -> str:
    """Return the outermost package from which the same thing can be imported, such as torch.nn."""
    parts = module.split(".")
    packages = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    kind = vars(sys.modules[module]).get(name) if module in sys.modules else None
    same = (p for p in packages if p in sys.modules and kind is not None and vars(sys.modules[p]).get(name) is kind)
    return next(same, module)


def pick_in_words(result: object, output: int | str | None) -> str:
    """Return what follows the call so that its output is picked, as `adapt.pick` does."""
    if output is not None:
        named = isinstance(output, str) and (hasattr(result, output) or (result is None and output.isidentifier()))
        return f".{output}" if named else f"[{output!r}]"
    if isinstance(result, Tensor) or result is None:
        return ""
    if not isinstance(result, (Mapping, tuple, list)):
        return ""
    parts = result.items() if isinstance(result, Mapping) else enumerate(result)
    place = next((place for place, part in parts if isinstance(part, Tensor)), None)
    return "" if place is None else f"[{place!r}]"

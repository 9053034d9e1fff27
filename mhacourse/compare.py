"""How two results are compared, and how their first difference is put into words.

This module decides what counts as the same: kinds must agree (a boolean mask is no mask of numbers), widths need not
(float64 for float32), numbers agree up to rounding, and the memory layout of a tensor does not matter. It looks into
tensors, numbers, text and sequences of them; of anything else that a learner returns, it names only the type.
"""

import math
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

RTOL, ATOL = 1e-4, 1e-5  # float32 rounding stays far below, every mistake worth naming far above
ROUNDED = 5e-3  # a single number may be typed with three digits, rounded or cut off
HUGE = 10**40  # an integer with more digits is not written out, and may be too large for a float
MAX_NUMBERS = 40  # a tensor with more is shown by its shape


@dataclass(frozen=True)
class Difference:
    """The first place where a result differs from the one expected, in parts; `sentence` puts them together.

    Args:
        kind: `type`, `dtype`, `shape` or `value`.
        expected: what should be there, in words; empty if only what came can be named.
        got: what came and, where that helps, how to turn it into what was asked.
        place: where in a tensor, such as "sample 0, head 1" or "[0, 1]"; empty if that means nothing.
        path: which part of a result in several parts, the outermost first: (0, 1) for `[0][1]`, or by its name.
    """

    kind: str
    expected: str
    got: str
    place: str = ""
    path: tuple[int | str, ...] = ()

    def sentence(self, tell_expected: bool = True) -> str:
        """Return the difference in words; without the expected value where that would give the solution away."""
        named = [step for step in self.path if isinstance(step, str)]
        where = f"part {''.join(f'[{number}]' for number in self.path)}: " if self.path else ""
        where = f"{', '.join(named)}: " if named else where
        where += f"at {self.place}: " if self.place else ""
        if not tell_expected:
            return f"{where}{self.got} is not right."
        return f"{where}expected {self.expected}, got {self.got}" if self.expected else f"{where}got {self.got}"


Axes = tuple[str, ...] | Mapping[str, tuple[str, ...]]


def difference(expected: object, got: object, axes: Axes = ()) -> Difference | None:
    """Return how `got` differs from `expected`, or None where it does not.

    Args:
        expected, got: tensors, numbers, text, sets, or sequences of these.
        axes: what the axes of a tensor are called in the sentence; for several results, by the name of each.
    """
    expected = _plain(expected)
    if expected is None:  # a part that a wrong answer leaves out; no right result is None
        return None if got is None else Difference("type", "None", kind_of(got))
    if isinstance(expected, Tensor):
        return _tensors(expected, got, () if isinstance(axes, Mapping) else axes)
    if isinstance(expected, (tuple, list)):
        return _sequences(expected, got, axes)
    got = _plain(got)
    if isinstance(got, str) and not isinstance(expected, str):
        return Difference("type", "a number", f"{kind_of(got)}; write it without quotes")
    if isinstance(expected, bool) or isinstance(expected, str):
        if type(got) is not type(expected):
            return Difference("type", _a(type(expected).__name__), kind_of(got))
        return None if got == expected else Difference("value", show(expected), show(got))
    if not isinstance(expected, (int, float)):  # what a changed answer may return: a set, a module
        return None if type(got) is type(expected) and got == expected else Difference("type", "", kind_of(got))
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return Difference("type", "a number", kind_of(got))
    if isinstance(expected, int) or isinstance(got, int) and abs(got) > HUGE:
        same = got == expected
    else:
        same = got == expected or abs(got - expected) <= ROUNDED * abs(expected) < math.inf
    return None if same else Difference("value", show(expected), show(got))


def _tensors(expected: Tensor, got: object, axes: tuple[str, ...]) -> Difference | None:
    if not isinstance(got, Tensor):
        return Difference("type", "a tensor", _no_tensor(expected, got))
    if not readable(got):
        return Difference("type", "", "a tensor whose numbers cannot be read; return an ordinary one")
    if _family(expected.dtype) != _family(got.dtype):
        return Difference("dtype", kind_of(expected), f"{got.dtype}{_cure_of_dtype(expected, got)}")
    if expected.shape != got.shape:
        words = shape_in_words(tuple(expected.shape), tuple(got.shape), axes)
        return Difference("shape", f"the shape {tuple(expected.shape)}", f"{tuple(got.shape)}{words and f': {words}'}")
    # NaN equals NaN, so that a wrong answer that makes NaN can be recognised; no right one makes any.
    got = got.detach().cpu()
    if got.is_floating_point():
        same = torch.isclose(got.double(), expected.detach().double(), rtol=RTOL, atol=ATOL, equal_nan=True)
    else:
        same = got == expected
    if bool(same.all()):
        return None
    index = tuple((~same).nonzero()[0].tolist())
    return Difference("value", show(expected[index]), show(got[index]), _place(index, axes))


def _cure_of_dtype(expected: Tensor, got: Tensor) -> str:
    """Say what to do if only the dtype is wrong; nothing if the numbers differ, too."""
    if expected.shape != got.shape or got.is_complex():
        return ""
    if not torch.equal(expected.detach().double(), got.detach().cpu().double()):
        return ""
    cure = {"boolean": ".bool()", "floating": ".float()", "integer": ".long()"}.get(_family(expected.dtype), "")
    return f"; otherwise it is right, so add {cure}" if cure else ""


def readable(x: Tensor) -> bool:
    """Return whether the numbers of a tensor can be read: not on the meta device, in a sparse or nested tensor, …."""
    return x.layout == torch.strided and not (x.is_meta or x.is_quantized or x.is_nested)


def shape_in_words(expected: tuple[int, ...], got: tuple[int, ...], axes: tuple[str, ...]) -> str:
    """Say how a shape differs from another: axes exchanged, joined, missing, added; nothing if that is not sure.

    Args:
        expected, got: the two shapes.
        axes: what the axes of the expected one are called.
    """
    if expected and not got:
        *some, last = axes or ("place",)
        return f"this is one number, not one for each {', '.join(some)}{' and ' if some else ''}{last}"
    if len(axes) != len(expected):
        axes = tuple(f"size {size}" for size in expected)
    if len({*expected} - {1}) < len(expected):  # two sizes alike: nobody can tell which is which
        return ""
    name = dict(zip(expected, axes, strict=True))
    if sorted(got) == sorted(expected):
        return f"the axes are in the order ({', '.join(name[size] for size in got)})"
    if len(got) == len(expected) + 1 and tuple(size for size in got if size != 1) == expected:
        return "there is an extra axis of size 1"
    if len({*got}) < len(got):
        return ""
    missing = [size for size in expected if size not in got]
    strange = [size for size in got if size not in name]
    *most, last = [plural(name[size]) for size in missing] or [""]
    names = f"{', '.join(most)} and {last}" if most else last
    if not strange and missing:
        return f"the result lacks {'axes' if most else 'an axis'} {'of' if ' ' in last else 'for the'} {names}"
    if len(strange) == 1 and len(missing) >= 2 and strange[0] == math.prod(missing):
        return f"{names} are joined into one axis of size {strange[0]}"
    return ""


def plural(name: str) -> str:
    """Return what several of a kind are called: queries, heads; a name in two words stays."""
    return name if " " in name else f"{name[:-1]}ies" if name.endswith("ry") else f"{name}s"


def as_sequence(value: object) -> object:
    """Return a list for what holds numbers in a row: an array, a tensor, a range, the values of a dict, a slice."""
    value = _plain(value)
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, slice) and value.step is None:
        return [value.start, value.stop]
    if isinstance(value, Tensor) or type(value).__name__ == "ndarray" and value.dtype.kind in "iufb":
        return value if isinstance(value, Tensor) and not readable(value) else value.tolist()
    return list(value) if isinstance(value, (range, type({}.values()), type({}.keys()), map, zip)) else value


def _place(index: tuple[int, ...], axes: tuple[str, ...]) -> str:
    """Return an index in words where each of its axes has a name, else as Python writes it."""
    if not index:
        return ""
    if len(axes) != len(index):
        return str(list(index))
    return ", ".join(f"{axis} {i}" for axis, i in zip(axes, index, strict=True))


def _no_tensor(expected: Tensor, got: object) -> str:
    """Return in words what came instead of a tensor, and how to turn it into one."""
    if isinstance(got, (list, tuple)) and any(isinstance(part, Tensor) for part in got):
        right = [i for i, part in enumerate(got) if isinstance(part, Tensor) and difference(expected, part) is None]
        cure = f"part [{right[0]}] of it is the tensor asked for" if right else "join them, or return only one"
        return f"several things in {kind_of(got)}; {cure}"
    made = type(got).__module__ == "numpy" or isinstance(got, (list, tuple)) and _are_numbers(got)
    return kind_of(got) + ("; torch.as_tensor(...) turns it into one" if made else "")


def _are_numbers(value: object, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple)):
        return depth < 8 and all(_are_numbers(part, depth + 1) for part in value)  # a list may hold itself
    return isinstance(value, (int, float))


def _sequences(expected: tuple | list, got: object, axes: Axes) -> Difference | None:
    if isinstance(got, Tensor) and not readable(got):
        return Difference("type", f"{len(expected)} parts", kind_of(got))
    if not any(isinstance(part, Tensor) for part in expected):
        got = as_sequence(got)
    elif isinstance(got, Tensor) and got.ndim and len(got) == len(expected):
        got = list(got)  # it unpacks as a tuple does: k, v = torch.stack([k, v])
    if not isinstance(got, (tuple, list)):
        return Difference("type", f"{len(expected)} parts", kind_of(got))
    if len(got) != len(expected):
        return Difference("shape", f"{len(expected)} parts", str(len(got)))
    for number, (part, other) in enumerate(zip(expected, got, strict=True)):
        name = list(axes)[number] if isinstance(axes, Mapping) else number
        if found := difference(part, other, axes[name] if isinstance(axes, Mapping) else axes):
            return replace(found, path=(name, *found.path))
    return None


def show(value: object, depth: int = 0) -> str:
    """Return a short text for a value that is known to be harmless to print, the type's name for any other."""
    text = _show(value, depth)
    return text if len(text) <= 600 else text[:600] + " …"


def show_rows(label: str, value: object) -> str:
    """Return the label and the value, each row of a tensor on a line of its own below the first."""
    text, depth, shown = show(value), 0, ""
    for part in re.split(r"([][()])", text):
        if part == ", " and shown.endswith("]"):
            part = ",\n" + " " * (len(label) + depth)
        depth += (part in ("[", "(")) - (part in ("]", ")"))
        shown += part
    return label + shown


def _show(value: object, depth: int) -> str:
    value = _plain(value)
    if isinstance(value, Tensor):
        if value.is_nested:  # it has no shape
            return kind_of(value)
        if value.numel() > MAX_NUMBERS or not readable(value):
            return f"{kind_of(value)} of shape {tuple(value.shape)}"
        return show(value.tolist())
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (bool, int, str, type(None))):
        return "a huge integer" if isinstance(value, int) and abs(value) > HUGE else repr(value)
    if isinstance(value, (list, tuple)):
        parts = [show(part, depth + 1) for part in value[:MAX_NUMBERS]] if depth < 4 else ["…"]
        parts += ["…"] * (len(value) > MAX_NUMBERS)
        comma = "," if isinstance(value, tuple) and len(parts) == 1 else ""
        return f"[{', '.join(parts)}]" if isinstance(value, list) else f"({', '.join(parts)}{comma})"
    if isinstance(value, nn.Module):
        return type(value).__name__
    if isinstance(value, types.FunctionType):
        return f"the function {value.__name__.lstrip('_')}"
    return kind_of(value)


def kind_of(value: object) -> str:
    """Return what a value is, in words."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return "a nested tensor" if value.is_nested else f"{_a(_family(value.dtype))} tensor"
    if isinstance(value, types.GeneratorType):
        return "a generator (a function with yield); return the result instead"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if type(value).__name__ == "ndarray":
        return "a NumPy array"
    if isinstance(value, tuple):  # torch's own kinds of tuples as well, such as that of x.max(-1)
        return "a tuple"
    return _a(type(value).__name__)


def _a(name: str) -> str:
    name = {"bool": "True or False", "int": "integer", "str": "text"}.get(name, name)
    return name if " " in name or name == "text" else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _plain(value: object) -> object:
    """Return the Python number in a tensor or numpy scalar without axes; anything else as it is."""
    if isinstance(value, Tensor):
        return value.item() if readable(value) and value.ndim == 0 else value
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


def _family(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "boolean"
    return "floating" if dtype.is_floating_point else "complex" if dtype.is_complex else "integer"

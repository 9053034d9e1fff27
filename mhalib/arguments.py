"""Checks of arguments that more than one module needs, and the words for a package that is missing.

Each error says what was expected, what came and what to do. `masks` says what a mask must be; how shapes must fit
together is checked where they meet.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

TOLERANCE = 1e-3  # by which a weight, or the sum of a row of weights, may miss what it should be


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Where an import inside the `with` fails, say which extra of mhalib `what` needs."""
    try:
        yield
    except ModuleNotFoundError as missing:
        text = f'{what} needs {missing.name}; install it with: python -m pip install "mhalib[{name}]"'
        raise ModuleNotFoundError(text, name=missing.name) from None


@contextmanager
def as_torch_starts() -> Iterator[None]:
    """Compute as torch does when nothing was switched: on the CPU, with gradients, without autocast."""
    # Where no other device is the default, none is entered: torch would look at each call of a function.
    device = nullcontext() if torch.empty(0).device.type == "cpu" else torch.device("cpu")
    with device, torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        yield


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use so many threads of the CPU inside the `with`, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_tensor(name: str, x: object) -> None:
    """Refuse anything that is not a tensor: a list, a numpy array, None."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}; make one with torch.as_tensor(...)")


def check_size(name: str, size: object) -> None:
    """Refuse anything that is not a positive integer."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"{name} must be a positive integer, got {size!r}; give a number such as 8, or int(...) of it")


def check_divides(name: str, size: int, parts: int, by: str = "num_heads") -> None:
    """Refuse a number of parts into which `size` cannot be cut evenly, and say which numbers would do."""
    check_size(by, parts)
    if size % parts:
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        shown = ", ".join(map(str, divisors[:5])) + (", …" if len(divisors) > 5 else "")
        raise ValueError(f"{name}={size} is not divisible by {by}={parts}; choose {by} from {shown}")


def check_input(name: str, x: Tensor, linear: nn.Linear) -> None:
    """Refuse what `linear` cannot project: a wrong rank, wrong features, another device or dtype."""
    check_tensor(name, x)
    weight = linear.weight
    if x.ndim != 3 or x.shape[-1] != linear.in_features:
        raise ValueError(
            f"{name} must be (B, T, {linear.in_features}), got {tuple(x.shape)}; add a batch axis with x[None] if "
            "it is missing, or build the layer for the features that you have (query_dim, key_dim, value_dim)"
        )
    if x.device != weight.device:
        raise ValueError(f"{name} are on {x.device}, but the layer is on {weight.device}; use x.to('{weight.device}')")
    if x.dtype != weight.dtype and not _joined_by_autocast(x, weight):
        wanted = str(weight.dtype).removeprefix("torch.")
        raise (ValueError if x.is_floating_point() else TypeError)(
            f"{name} are {x.dtype}, but the layer's weights are {weight.dtype}; use x.to(torch.{wanted}), or embed "
            "token ids before attention"
        )


def check_weights_kind(name: str, weights: object) -> None:
    """Refuse what cannot be attention weights, whatever its numbers are: a list, token ids, a mask."""
    check_tensor(name, weights)
    if not weights.is_floating_point():
        raise TypeError(f"{name}: attention weights are floating, got {weights.dtype}; give the weights, not token ids")


def checked_weights(
    name: str, weights: Tensor, dtype: torch.dtype, rows: Tensor | None = None, advice: str = ""
) -> Tensor:
    """Return these weights if they can be attention weights: from 0 to 1, with rows that sum to 1 over the keys.

    Args:
        name: what the weights are called.
        weights: `(..., Tq, Tk)`, float32 or float64.
        dtype: the one in which they came; what rounding to it may do to a row is excused.
        rows: boolean, broadcasts to `(..., Tq)`: those that count; None where rows may sum to anything and hold NaN.
        advice: what else to do, added to the end of the message.

    Returns:
        the same weights, clipped where rounding put them beyond 0 or 1.

    Raises:
        ValueError: a row that counts cannot be a row of attention weights.
    """
    # Each weight of a row that sums to 1 is rounded by half of eps at most, in proportion: the sum by no more.
    tolerance = max(TOLERANCE, torch.finfo(dtype).eps)
    numbers = weights.numpy(force=True)  # torch would wake its threads for every pass, which costs more than the pass
    with np.errstate(invalid="ignore"):
        totals = numbers.sum(-1)
    # Written so that NaN is wrong, too.
    wrong = np.zeros(totals.shape, bool) if rows is None else ~(np.abs(totals - 1) <= tolerance)
    low, high = (end.reduce(numbers, axis=None) for end in (np.fmin, np.fmax))  # of those that are not NaN
    if low < -tolerance or high > 1 + tolerance:
        wrong |= ((numbers < -tolerance) | (numbers > 1 + tolerance)).any(-1)
    if rows is not None:
        wrong &= rows.numpy(force=True)
    if wrong.any():
        expected = "attention weights lie between 0 and 1"
        expected += ", and each row sums to 1 over the keys" * (rows is not None)
        at = tuple(np.argwhere(wrong)[0].tolist())
        ends = f"{np.fmin.reduce(numbers[at]):.4g} and {np.fmax.reduce(numbers[at]):.4g}"
        found = f"row {list(at)} of {name} lies between {ends} and sums to {totals[at]:.4g}"
        raise ValueError(f"{expected}; {found}; {_remedy(numbers, tolerance)}{advice}")
    return weights if low >= 0 and high <= 1 else weights.clamp(0, 1)  # NaN stays NaN


def _remedy(numbers: np.ndarray, tolerance: float) -> str:
    """Return what to do about weights whose rows are wrong; the softmax may have run over another axis."""
    for axis in (-2, -3)[: numbers.ndim - 1]:
        if (numbers >= -tolerance).all() and (np.abs(numbers.sum(axis) - 1) <= tolerance).all():
            return (
                f"over axis {axis} they do sum to 1: did you mean softmax(-1), or are the axes in another order than "
                "(h, Tq, Tk)?"
            )
    return "apply softmax(-1) to scores first, and call .eval() if dropout is still on"


def _joined_by_autocast(x: Tensor, weight: Tensor) -> bool:
    """Return whether torch itself brings the two dtypes together; autocast leaves float64 and integers alone."""
    kind = x.device.type
    if hasattr(torch.amp, "is_autocast_available"):
        on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    else:  # before torch 2.4, each kind had a function of its own
        on = torch.is_autocast_cpu_enabled() if kind == "cpu" else kind == "cuda" and torch.is_autocast_enabled()
    return on and x.is_floating_point() and torch.float64 not in (x.dtype, weight.dtype)

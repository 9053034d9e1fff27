"""What an argument must be: the refusals that more than one module needs.

Each says what was expected, what came and what to do. What a mask must be is said in `masks`; how shapes must
fit together, where they meet.
"""

import torch
from torch import Tensor, nn


def check_tensor(name: str, x: object) -> None:
    """Refuse what is no tensor: a list, a numpy array, None."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}; make one with torch.as_tensor(...)")


def check_size(name: str, size: object) -> None:
    """Refuse what is no positive integer."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"{name} must be a positive integer, got {size!r}; give a number such as 8, or int(...) of it")


def check_divides(name: str, size: int, parts: int, by: str = "num_heads") -> None:
    """Refuse a number of parts into which `size` cannot be cut evenly, and say which ones would do."""
    check_size(by, parts)
    if size % parts:
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        shown = ", ".join(map(str, divisors[:5])) + (", …" if len(divisors) > 5 else "")
        raise ValueError(f"{name}={size} is not divisible by {by}={parts}; choose {by} from {shown}")


def check_input(name: str, x: Tensor, linear: nn.Linear) -> None:
    """Refuse what `linear` cannot project: another rank, other features, another device or dtype."""
    check_tensor(name, x)
    weight = linear.weight
    if x.ndim != 3 or x.shape[-1] != linear.in_features:
        raise ValueError(
            f"{name} must be (B, T, {linear.in_features}), got {tuple(x.shape)}; add a batch axis with x[None] where "
            "it is missing, or build the layer for the features that come (query_dim, key_dim, value_dim)"
        )
    if x.device != weight.device:
        raise ValueError(f"{name} are on {x.device}, the layer on {weight.device}; use x.to('{weight.device}')")
    if x.dtype != weight.dtype and not _joined_by_autocast(x, weight):
        wanted = str(weight.dtype).removeprefix("torch.")
        raise (ValueError if x.is_floating_point() else TypeError)(
            f"{name} are {x.dtype}, the layer's weights {weight.dtype}; use x.to(torch.{wanted}), or embed "
            "token ids before attention"
        )


def _joined_by_autocast(x: Tensor, weight: Tensor) -> bool:
    """Return whether torch itself brings the two dtypes together; autocast leaves float64 and integers alone."""
    kind = x.device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return on and x.is_floating_point() and torch.float64 not in (x.dtype, weight.dtype)

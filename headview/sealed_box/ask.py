"""What is asked of a sealed box, and what may be given to it: every refusal of SealedBox, and the answers."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from headview.base import is_number, is_whole
from mhalib.arguments import check_size, check_tensor

MOST_POINTS, MOST_HEADS = 5000, 64
_AT_ONCE = 2**22  # numbers in one batch of questions


def places(points: int, reach: float) -> Float[Tensor, " points"]:
    """Return every t that is asked, float64; `placeOf` in `box.js` computes the same numbers to the bit."""
    t = -reach + torch.arange(points, dtype=torch.float64) * (2 * reach / (points - 1))
    t[-1] = reach
    return t


def check_given(f: object, d_model: object, points: object, reach: object, heads: object) -> None:
    """Refuse what is no function, no size, no number of points and no end of the line."""
    for name, given in (("f", f), ("heads", heads or f)):
        if not callable(given):
            raise TypeError(f"{name} must be a function of tokens, got {type(given).__name__}; give the layer")
    check_size("d_model", d_model)
    if not is_whole(points) or not 2 <= points <= MOST_POINTS:
        raise ValueError(f"points must be an integer from 2 to {MOST_POINTS}, got {points!r}; 801 show most steps")
    if not is_number(reach) or reach <= 0:
        raise ValueError(f"reach must be a finite number above 0, got {reach!r}; t goes from -reach to reach")


def vector(name: str, x: object, d_model: int) -> Float[Tensor, " d_model"]:
    """Return one token as float64 on the CPU, if it is one."""
    check_tensor(name, x)
    if tuple(x.shape) != (d_model,) or not x.is_floating_point():
        raise ValueError(f"{name} must be one floating token of shape ({d_model},), got {x.dtype} {tuple(x.shape)}")
    x = x.detach().to("cpu", torch.float64)
    if not x.isfinite().all() or name != "start" and not x.any():
        raise ValueError(f"{name} must hold finite numbers that move something, got NaN, infinity, or 0 everywhere")
    return x


def line(
    start: Float[Tensor, " d_model"], direction: Float[Tensor, " d_model"], probe: Float[Tensor, " d_model"], t: Tensor
) -> Float[Tensor, "points d_model"]:
    """Return c = start + t direction for every t, if c + probe can be told from c in float64."""
    c = start + t[:, None] * direction  # (points, 1) * (d_model,) -> (points, d_model)
    if not c.isfinite().all() or ((c + probe - c - probe).norm(dim=-1) > 1e-3 * probe.norm()).any():
        raise ValueError(
            f"c = start + t * direction reaches {c.abs().max().item():.3g}, where float64 loses a probe of length "
            f"{probe.norm().item():.3g} in c + probe; make start and direction shorter, or the probe longer"
        )
    return c


def moved(
    f: Callable[[Tensor], Tensor], c: Float[Tensor, "points d_model"], probe: Float[Tensor, " d_model"]
) -> tuple[Float[Tensor, "points d_model"], float]:
    """Return `f([c, c + probe])[0] - f([c])[0]` for every c, float64, and how far rounding may have moved it."""
    pairs, alone = [], []
    for some in c.split(max(1, _AT_ONCE // (2 * c.shape[1]))):
        pairs.append(_answer(f, torch.stack([some, some + probe], 1)))  # (B, d_model), twice -> (B, 2, d_model)
        alone.append(_answer(f, some[:, None].clone()))  # (B, d_model) -> (B, 1, d_model); f may change its own
    both, one = torch.cat(pairs), torch.cat(alone)
    noise = 4 * torch.finfo(both.dtype).eps * one.double().norm(dim=-1).max().item()
    return both.double() - one.double(), noise


def _answer(f: Callable, tokens: Tensor) -> Tensor:
    """Return what f makes of the first token of each sequence."""
    with torch.no_grad():
        out = f(tokens)
    if not isinstance(out, Tensor) or out.shape != tokens.shape or not out.is_floating_point():
        got = f"{out.dtype} {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(
            f"f must return one floating tensor of the shape that it is given, {tuple(tokens.shape)}, got {got}; where "
            "a layer returns more, give lambda x: layer(x)[0]; is nn.MultiheadAttention made with batch_first=True?"
        )
    if not out.isfinite().all():
        raise ValueError("f returns NaN or infinity on this line; make start and direction shorter")
    return out[:, 0].detach().cpu()


def looks(heads: Callable, c: Float[Tensor, "points d_model"]) -> Float[Tensor, "points num_heads"]:
    """Return how much each head looks at the second token, float64, as the key of the box says."""
    with torch.no_grad():
        given = heads(c.clone())
    check_tensor("what heads(c) returns", given)
    if given.ndim != 2 or len(given) != len(c) or not 1 <= given.shape[1] <= MOST_HEADS:
        raise ValueError(
            f"heads(c) must return ({len(c)}, num_heads) for c {tuple(c.shape)}, with 1 to {MOST_HEADS} heads, "
            f"got {tuple(given.shape)}; of weights (N, num_heads, 2, 2) that is [:, :, 0, 1]"
        )
    given = given.detach().cpu().double()
    if not ((given >= -1e-3) & (given <= 1 + 1e-3)).all():  # written so that NaN is refused too
        raise ValueError("heads(c) must return weights from 0 to 1, those of the second token; apply softmax first")
    return given.clamp(0, 1)

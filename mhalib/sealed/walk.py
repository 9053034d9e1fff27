"""A line on which the heads of a box switch one after the other, well apart: for looking at it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mhalib.sealed.box import Box
from mhalib.sealed.count import count_in
from mhalib.sealed.read import FAR, Line, steps_of

REACH = 10.0  # what t goes to, on both sides
MARGIN = 1.2  # of the line, around its first and its last step
FLAT = 1e-5  # by which a plateau may miss what it is far away, of the largest number
TRIED = 96  # lines
SPREAD = 100.0  # of the tokens on them: beside it, what biases add to the scores is little


@dataclass(frozen=True)
class Walk:
    """A line `start + t * direction`, for t from -reach to reach, and the second token `probe` away from it.

    What `walk_of` returns; notebook 15 teaches it.
    """

    start: Float[Tensor, " d_model"]
    direction: Float[Tensor, " d_model"]
    probe: Float[Tensor, " d_model"]
    reach: float

    def at(self, t: Float[Tensor, " points"]) -> Float[Tensor, "points d_model"]:
        """Return the tokens of the line at these t."""
        return self.start + t.to(self.start)[:, None] * self.direction


def walk_of(f: Callable, d_model: int, seed: int = 0) -> Walk:
    """Return a line on which each head of a box switches once, as far as possible from the others.

    It is the best of 96 that are drawn, moved so that its steps lie in the middle and brought as near as they allow:
    far away every softmax is a switch, nearer by the steps become slopes. The heads themselves are not read for it.

    Args:
        f: `(B, T, d_model) -> (B, T, d_model)` in float64. It is asked at the second of two tokens.
        d_model: features of a token.
        seed: of what is drawn.

    Returns:
        a `Walk`: what `f([c, c + probe])` says at c, minus `f([c])`, moves in steps as c goes along it. Of a causal box
        the first token does not see the second: there ask `f([c + probe, c])` at its second token.

    Raises:
        TypeError, ValueError: as in `count_heads`; or no line shows all heads one by one.

    Taught in notebook 15.
    """
    box = Box(f, d_model, torch.float64, seed)
    d = box.draw(d_model)
    heads = int(count_in(box, d))
    lines = [line for line in steps_of(box, d, lines=TRIED, spread=SPREAD) if len(line.steps) == heads]
    if not lines:
        raise ValueError(f"no line of {TRIED} shows all {heads} heads one by one; another seed may do")
    line = max(lines, key=_closest)
    t = torch.tensor([step.t for step in line.steps], dtype=torch.float64)  # (heads,)
    middle, half = (t[0] + t[-1]) / 2, MARGIN * (t[-1] - t[0]) / 2 if heads > 1 else t[0].abs() + 1
    start, direction = line.start + middle * line.direction, half * line.direction / REACH
    switched = (t - middle) / half * REACH
    walk, end = Walk(start, direction, d, REACH), torch.tensor([REACH], dtype=torch.float64)
    return _as_near_as_it_goes(box, walk, torch.cat([-end, (switched[1:] + switched[:-1]) / 2, end]))


def _closest(line: Line) -> float:
    """Return the smallest distance between two steps, as a share of the way from the first to the last."""
    t = torch.tensor([step.t for step in line.steps])
    return (t.diff().min() / (t[-1] - t[0])).item() if len(t) > 1 else 1.0


def _as_near_as_it_goes(box: Box, walk: Walk, t: Tensor) -> Walk:
    """Return the walk with shorter tokens, as long as the middles of its plateaus stay what they are far away."""

    def levels(size: float) -> Tensor:
        c = size * walk.at(t)
        return box.added(c, c + walk.probe)

    size = FAR[box.dtype] / SPREAD
    plateaus = levels(size)
    while size > 1e-9 and (levels(size / 2) - plateaus).abs().max() <= FLAT * plateaus.abs().max():
        size /= 2
    return Walk(size * walk.start, size * walk.direction, walk.probe, walk.reach)

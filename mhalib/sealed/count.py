"""How many heads are in a box: the rank of what a second token adds."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mhalib.sealed.box import Box

CLEAR = 30  # times the largest singular value that is rounding: the smallest one that counts as a head


@dataclass(frozen=True)
class HeadCount:
    """A number of heads, `int(count)`, and the singular values from which it was read, as shares of the first.

    What `count_heads` returns; notebook 15 teaches it.
    """

    heads: int
    sizes: Float[Tensor, " d_model"]

    def __int__(self) -> int:
        return self.heads

    def __repr__(self) -> str:
        last, following = self.sizes[self.heads - 1 : self.heads + 1].tolist()
        heads = "1 head" if self.heads == 1 else f"{self.heads} heads"
        return f"{heads}: singular value {self.heads} is {last:.1g} of the first, the next {following:.1g}"


def count_heads(f: Callable, d_model: int, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> HeadCount:
    """Return how many heads are in a box, from what it answers alone.

    A token `c + d` beside `c` adds `Σ a_h(c) V_h d` to what the box makes of `c`: over many `c` and one `d`, a
    direction for each head. Two heads with the same scores add one vector together and count as one; two whose `V_h d`
    are parallel add along one line and count as one here, though not in `read_heads`; a head that writes nothing does
    not count. A connection around the layer (`x + f(x)`) does no harm.

    Args:
        f: `(B, T, d_model) -> (B, T, d_model)`, self-attention, causal or not.
        d_model: features of a token.
        dtype: what f is given: float64, or float32 where the layer inside takes nothing else.
        seed: of the tokens that are drawn.

    Raises:
        TypeError: f is no function, or returns no tensor or another dtype.
        ValueError: f cannot be read (it says why), no second token changes anything, the singular values leave it
            open, or there are as many directions as features.

    As Carlini et al. (2024) and Finlayson et al. (2024) read the width of a model. Taught in notebook 15.

    Examples:
        >>> import torch
        >>> from mhalib import MultiHeadAttention
        >>> from mhalib.sealed import count_heads
        >>> _ = torch.manual_seed(0)
        >>> layer = MultiHeadAttention(d_model=16, num_heads=3, head_dim=5).double()
        >>> int(count_heads(layer, d_model=16))
        3
    """
    box = Box(f, d_model, dtype, seed)
    return count_in(box, box.draw(d_model))


def count_in(box: Box, d: Tensor) -> HeadCount:
    """Return the number of heads from what a token `c + d` adds; raises as `count_heads` does."""
    c = box.draw(2 * box.d_model + 20, box.d_model)
    # d, its opposite and a short one lead along the same directions; no head is silent for all three.
    rows = torch.cat([box.added(c, c + scale * d) / scale for scale in (1.0, -1.0, 0.125)])
    noise = box.eps * box.ask(c[:, None]).abs().max().item() / 0.125
    sizes = torch.linalg.svd(rows, full_matrices=False).S
    floor = noise * len(rows) ** 0.5  # of the singular values of rounding
    heads = int((sizes > CLEAR * floor).sum())
    if not heads:
        raise ValueError(
            "a second token changes nothing in what f makes of the first one, nor of the last: f holds no "
            "attention, or every token sees itself alone"
        )
    if heads == box.d_model:
        raise ValueError(
            f"what a second token adds spans all {heads} features, so f has {heads} heads or more: a rank cannot "
            "say how many. More features than heads are needed"
        )
    if sizes[heads] * CLEAR > sizes[heads - 1]:
        last, following = (sizes[heads - 1 : heads + 1] / sizes[0]).tolist()
        raise ValueError(
            f"the singular values leave it open whether there are {heads} heads: number {heads} is {last:.1g} of the "
            f"first, the next {following:.1g}; ask in float64 (layer.double()), where rounding is 1e-16"
        )
    return HeadCount(heads, sizes / sizes[0])

"""Where tokens stand: rotated queries and keys, slopes on the distance, positions of padded and packed rows.

All of it happens outside `mhalib.MultiHeadAttention`, which knows nothing of places. `PlacedModel` is a small model
that is told them in one of four ways. Models with nothing but an embedding for each place stand in `models`.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mhalib.arguments import check_divides, check_size, check_tensor
from mhalib.attention import merge_heads, scaled_dot_product_attention, split_heads
from mhalib.experiments.models import TokenModel
from mhalib.masks import causal_mask, check_boolean, combine_masks, with_head_axis

WAYS = ("learned", "rotary", "slopes", "none")


def rotate(
    x: Float[Tensor, "batch num_heads tokens head_dim"],
    positions: Int[Tensor, "*batch_tokens"],
    layout: str = "halves",
    base: float = 10000.0,
) -> Float[Tensor, "batch num_heads tokens head_dim"]:
    """Turn each pair of features by an angle that grows with the position: for queries and keys, never for values.

    Pair `i` turns by `base ** (-2 * i / head_dim)` radians for each position, so that a score of a rotated query with a
    rotated key depends on their distance only.

    Args:
        x: `(B, num_heads, T, head_dim)`, after the split into heads.
        positions: `(T,)`, or `(B, T)` where each sample has its own; integers.
        layout: which features are a pair: "halves" `(0, head_dim/2), (1, head_dim/2 + 1), …` as in GPT-NeoX and the
            Llama of Hugging Face, or "neighbours" `(0, 1), (2, 3), …` as in the paper, GPT-J and Meta's Llama.
        base: how much slower the last pairs turn than the first.

    Raises:
        TypeError: `x` is not floating, or the positions are no integers.
        ValueError: shapes do not fit, `head_dim` is odd, or there is no such layout.

    Su et al. (2021), "RoFormer", section 3.2. Taught in notebook 13.
    """
    check_tensor("x", x)
    if not x.is_floating_point():
        raise TypeError(f"x must be floating, got {x.dtype}; rotate queries and keys, not token ids")
    if x.ndim != 4:
        raise ValueError(
            f"x must be (B, num_heads, T, head_dim), got {tuple(x.shape)}; split into heads first, with split_heads"
        )
    _check_positions(positions, x.shape[0], x.shape[2])
    if layout not in ("halves", "neighbours"):
        raise ValueError(f"layout must be 'halves' or 'neighbours', got {layout!r}; take the one of your weights")
    check_divides("head_dim", x.shape[-1], 2, by="features of a pair")
    half = x.shape[-1] // 2
    precise = torch.promote_types(x.dtype, torch.float32)  # a large position times a speed has too many digits for half
    frequencies = base ** (-torch.arange(half, dtype=precise, device=x.device) / half)
    angles = positions[..., None] * frequencies  # (T, half), or (B, T, half)
    if angles.ndim == 3:
        angles = angles[:, None]  # -> (B, 1, T, half), the same for all heads
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1) if layout == "halves" else (x[..., 0::2], x[..., 1::2])
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos])  # (2, B, num_heads, T, half)
    if layout == "halves":
        return torch.cat([*turned], dim=-1)  # -> (B, num_heads, T, head_dim)
    return turned.movedim(0, -1).flatten(-2)  # -> (B, num_heads, T, half, 2) -> (B, num_heads, T, head_dim)


def rotary_permutation(head_dim: int) -> Int[Tensor, "head_dim"]:
    """Return the order 0, 2, 4, …, 1, 3, 5, … that brings the features of a head from "neighbours" to "halves".

    `W.unflatten(0, (num_heads, head_dim))[:, rotary_permutation(head_dim)].flatten(0, 1)` does so with the rows of W_q
    and W_k, inside each head; `.argsort()` of it leads back. W_v stays as it is, for values are not rotated.

    Raises:
        ValueError: `head_dim` is no positive even integer.

    Taught in notebook 13.
    """
    check_size("head_dim", head_dim)
    check_divides("head_dim", head_dim, 2, by="features of a pair")
    return torch.arange(head_dim).unflatten(0, (-1, 2)).T.flatten()  # (head_dim / 2, 2) -> (2, head_dim / 2)


def slopes(num_heads: int) -> Float[Tensor, "num_heads"]:
    """Return how much each head takes off a score for each token of distance, steepest first: `(num_heads,)`.

    `1/2, 1/4, …, 1/256` for eight heads: from `2 ** (-8 / num_heads)` on in equal ratios. Where `num_heads` is no power
    of 2, the next smaller one comes first, and then every other slope of the next larger one, as the authors have it.

    Press et al. (2022), "Train Short, Test Long" (ALiBi), section 3. Taught in notebook 13.

    Examples:
        >>> from mhalib.experiments import slopes
        >>> slopes(4)
        tensor([0.2500, 0.0625, 0.0156, 0.0039])
    """
    check_size("num_heads", num_heads)
    power = 2 ** (num_heads.bit_length() - 1)
    ratios = 2.0 ** (-8 / power * torch.arange(1, power + 1, dtype=torch.float64))
    between = 2.0 ** (-4 / power * torch.arange(1, 2 * power, 2, dtype=torch.float64))
    return torch.cat([ratios, between[: num_heads - power]]).float()


def positions_from_mask(valid: Bool[Tensor, "batch tokens"]) -> Int[Tensor, "batch tokens"]:
    """Return the position of each token among those of its row that count: 0 is the first one, whatever stands before.

    Args:
        valid: `(B, T)`, boolean, True where a token counts and False for padding, at whichever side.

    Returns:
        `(B, T)`, integers; padding before the first token gets 0, later padding repeats the last position.

    Raises:
        TypeError, ValueError: the mask is not boolean, or not `(B, T)`.

    Taught in notebook 19.
    """
    check_boolean("valid", valid)
    if valid.ndim != 2:
        raise ValueError(f"valid must be (B, T), got {tuple(valid.shape)}; a missing batch axis is x[None]")
    return (valid.cumsum(-1) - 1).clamp(min=0)


class PlacedModel(TokenModel):
    """A causal model like `CausalModel` that is told where tokens stand in one of four ways.

    Args:
        way: "learned" embeddings, added to the tokens; "rotary": queries and keys rotated in every layer; "slopes": a
            penalty on the distance in every layer; "none".
        slopes: `(num_heads,)`, those of the heads; `slopes(num_heads)` when left out.

    Other arguments and errors as in `TokenModel`. Taught in notebook 13.
    """

    def __init__(
        self,
        vocab: int,
        tokens: int,
        d_model: int,
        num_heads: int,
        *,
        way: str = "learned",
        slopes: Float[Tensor, "num_heads"] | None = None,
        num_layers: int = 2,
        seed: int = 0,
    ):
        if way not in WAYS:
            raise ValueError(f"way must be one of {', '.join(WAYS)}, got {way!r}; take one of them")
        super().__init__(vocab, tokens, vocab, d_model, num_heads, None, None, num_layers, seed)
        self.way = way
        if way != "learned":
            del self.position_embedding  # drawn all the same, so that one seed gives all four the same other weights
        self.register_buffer("slopes", _usual_slopes(num_heads) if slopes is None else slopes)

    def forward(
        self,
        tokens: Int[Tensor, "batch tokens"],
        need_weights: bool = False,
        positions: Int[Tensor, "*batch_tokens"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch tokens vocab"] | tuple[Tensor, list[Tensor]]:
        """Score every token as the one that follows: `(B, T, vocab)`, with `need_weights` also the attention.

        Args:
            tokens: `(B, T)`, integers.
            need_weights: also return the attention.
            positions: `(T,)` or `(B, T)`; 0 to T - 1 when left out.
            mask: boolean, True where attention is allowed, `(T, T)`, `(B, 1, T)` or `(B, T, T)`; it is joined with the
                causal one. Every query sees itself.

        Raises:
            TypeError, ValueError: positions or mask do not fit the tokens, or a learned model has no such position.
        """
        T = tokens.shape[1]
        positions = torch.arange(T, device=tokens.device) if positions is None else positions
        _check_positions(positions, *tokens.shape)
        x = self.token_embedding(tokens)  # (B, T) -> (B, T, d_model)
        if self.way == "learned":
            longest = self.position_embedding.num_embeddings
            if positions.max() >= longest:
                raise ValueError(
                    f"this model learned positions 0 to {longest - 1}, got {positions.max()}; cut the text"
                )
            x = x + self.position_embedding(positions)
        itself = torch.eye(T, dtype=torch.bool, device=tokens.device)  # padding sees itself: no row is empty
        mask = with_head_axis(combine_masks(causal_mask(T, device=tokens.device), mask) | itself)
        if self.way == "slopes":
            distance = (positions[..., :, None] - positions[..., None, :]).unsqueeze(-3)  # (T, T) -> (1, T, T)
            penalty = -self.slopes[:, None, None] * distance  # -> (num_heads, T, T), or (B, num_heads, T, T)
            mask = penalty.masked_fill(~mask, -torch.inf)
        maps = []
        for layer in self.layers:
            q, k, v = (split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
            if self.way == "rotary":
                q, k = rotate(q, positions), rotate(k, positions)
            if need_weights:
                heads, weights = scaled_dot_product_attention(q, k, v, mask)
                maps.append(weights)
            else:
                heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + layer.W_o(merge_heads(heads))  # (B, num_heads, T, head_dim) -> (B, T, d_model)
        scores = self.readout(x)  # (B, T, d_model) -> (B, T, vocab)
        return (scores, maps) if need_weights else scores


_usual_slopes = slopes  # inside the model, `slopes` is the reader's own


def _check_positions(positions: Tensor, batch: int, tokens: int) -> None:
    check_tensor("positions", positions)
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be integers, got {positions.dtype}; use torch.arange, or .long()")
    if positions.shape not in ((tokens,), (batch, tokens)):
        raise ValueError(
            f"positions must be (T,) or (B, T), here ({tokens},) or ({batch}, {tokens}), got {tuple(positions.shape)}; "
            "give each token its own"
        )

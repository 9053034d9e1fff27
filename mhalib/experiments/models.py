"""The small models that the experiments train: embeddings, attention, a readout, and nothing else.

Without feed-forward layers and norms, what such a model can do is what its attention can do. How they are trained
is said in `training`; the attention itself is `mhalib.MultiHeadAttention`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mhalib.arguments import check_size, check_tensor
from mhalib.attention import MultiHeadAttention
from mhalib.masks import causal_mask


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from `seed`, a whole number of 0 or more, inside the `with`; then the CPU's random state is as before."""
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be a whole number of 0 or more, got {seed!r}; give one such as 0")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every other device as well
        yield


class TokenModel(nn.Module):
    """Token and position embeddings, layers of attention, one readout: what the models of the lessons have in common.

    Args:
        vocab, tokens: how many different tokens, and how many in the longest sequence.
        scores: how many numbers the readout gives for each position.
        d_model, num_heads, head_dim, num_kv_heads: of each layer, as in `MultiHeadAttention`.
        num_layers: how many layers of attention.
        seed: of the initial weights; the global random state stays as it is.

    Raises:
        ValueError: a size is not a positive integer, or `d_model` cannot be cut into `num_heads`, or those into
            `num_kv_heads`.
    """

    def __init__(
        self,
        vocab: int,
        tokens: int,
        scores: int,
        d_model: int,
        num_heads: int,
        head_dim: int | None,
        num_kv_heads: int | None,
        num_layers: int,
        seed: int,
    ):
        super().__init__()
        sizes = {"vocab": vocab, "tokens": tokens, "d_model": d_model, "num_layers": num_layers}
        for name, size in sizes.items():
            check_size(name, size)
        shared = {"head_dim": head_dim, "num_kv_heads": num_kv_heads}
        with seeded(seed):
            self.token_embedding = nn.Embedding(vocab, d_model)
            self.position_embedding = nn.Embedding(tokens, d_model)
            self.layers = nn.ModuleList(MultiHeadAttention(d_model, num_heads, **shared) for _ in range(num_layers))
            self.readout = nn.Linear(d_model, scores)

    def attend(
        self, tokens: Int[Tensor, "batch tokens"], need_weights: bool, *, causal: bool, around_first: bool
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[Float[Tensor, "batch num_heads tokens tokens"]]]:
        """Send tokens `(B, T)` through all layers; each adds what its heads found to what it got, a way around it.

        The first layer has one only if `around_first`. With `causal`, no position sees a later one.

        Returns:
            `(B, T, d_model)`, and a list with `(B, num_heads, T, T)` per layer, empty without `need_weights`.

        Raises:
            TypeError, ValueError: the tokens are no ids `(B, T)`, too many, or outside the vocabulary.
        """
        _check_tokens(tokens, self.token_embedding, self.position_embedding)
        num_tokens = tokens.shape[1]
        x = self.token_embedding(tokens) + self.position_embedding.weight[:num_tokens]  # (B, T, d_model)
        mask = causal_mask(num_tokens, device=tokens.device) if causal else None
        maps, keep = [], need_weights or mask is None  # without a mask, the fused kernel is slower at these sizes
        for depth, layer in enumerate(self.layers):
            found = layer(x, mask=mask, need_weights=keep)
            if keep:
                found, weights = found
                maps.append(weights)
            x = x + found if depth or around_first else found
        return x, maps if need_weights else []


class LookupModel(TokenModel):
    """Every position sees all others and reports `lookups` tokens: which stand at the places where it had to look?

    A single layer has no way around attention: what is read out is what the heads found. The rest is as in
    `TokenModel`. Taught in notebooks 07, 09 and 12.

    Examples:
        >>> import torch
        >>> from mhalib.experiments import LookupModel
        >>> model = LookupModel(lookups=2, vocab=5, tokens=6, d_model=8, num_heads=2)
        >>> model(torch.zeros(3, 6, dtype=torch.long)).shape
        torch.Size([3, 2, 6, 5])
    """

    def __init__(
        self,
        vocab: int,
        tokens: int,
        lookups: int,
        d_model: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        num_kv_heads: int | None = None,
        num_layers: int = 1,
        seed: int = 0,
    ):
        check_size("lookups", lookups)
        super().__init__(vocab, tokens, lookups * vocab, d_model, num_heads, head_dim, num_kv_heads, num_layers, seed)
        self.lookups = lookups

    def forward(
        self, tokens: Int[Tensor, "batch tokens"], need_weights: bool = False
    ) -> Float[Tensor, "batch lookups tokens vocab"] | tuple[Tensor, list[Tensor]]:
        """Score every token as the answer: `(B, lookups, T, vocab)`, with `need_weights` also the attention."""
        x, maps = self.attend(tokens, need_weights, causal=False, around_first=False)
        scores = self.readout(x).unflatten(-1, (self.lookups, -1)).transpose(1, 2)  # -> (B, lookups, T, vocab)
        return (scores, maps) if need_weights else scores


class CausalModel(TokenModel):
    """No position sees a later one, and each says: what comes next? Arguments and errors as in `TokenModel`.

    Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits". Taught in notebooks 10 to 12.

    Examples:
        >>> import torch
        >>> from mhalib.experiments import CausalModel
        >>> model = CausalModel(vocab=5, tokens=6, d_model=8, num_heads=2)
        >>> model(torch.zeros(3, 6, dtype=torch.long)).shape
        torch.Size([3, 6, 5])
    """

    def __init__(
        self,
        vocab: int,
        tokens: int,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        num_layers: int = 2,
        seed: int = 0,
    ):
        super().__init__(vocab, tokens, vocab, d_model, num_heads, None, num_kv_heads, num_layers, seed)

    def forward(
        self, tokens: Int[Tensor, "batch tokens"], need_weights: bool = False
    ) -> Float[Tensor, "batch tokens vocab"] | tuple[Tensor, list[Tensor]]:
        """Score every token as the one that follows: `(B, T, vocab)`, with `need_weights` also the attention."""
        x, maps = self.attend(tokens, need_weights, causal=True, around_first=True)
        scores = self.readout(x)  # (B, T, d_model) -> (B, T, vocab)
        return (scores, maps) if need_weights else scores


def count_parameters(model: nn.Module) -> int:
    """Return how many numbers training may change; a weight that is used twice counts once.

    Taught in notebook 07.
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _check_tokens(tokens: Tensor, token_embedding: nn.Embedding, position_embedding: nn.Embedding) -> None:
    check_tensor("tokens", tokens)
    longest, vocab = position_embedding.num_embeddings, token_embedding.num_embeddings
    if tokens.dtype != torch.int64:
        raise TypeError(f"tokens must be ids (torch.int64), got {tokens.dtype}; use tokens.long()")
    if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= longest:
        raise ValueError(
            f"tokens must be (B, T) with T from 1 to {longest}, got {tuple(tokens.shape)}; add a batch axis with "
            "tokens[None], or build the model with more tokens"
        )
    try:
        low, high = (tokens.min().item(), tokens.max().item()) if tokens.numel() else (0, 0)
    except RuntimeError:  # inside torch.vmap no number can be looked at; the embedding refuses there
        return
    if not 0 <= low <= high < vocab:
        raise ValueError(
            f"tokens must be ids from 0 to {vocab - 1}, got {low} to {high}; build the model with a larger vocab"
        )

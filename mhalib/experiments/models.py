"""The small models that the experiments train: embeddings, attention, a readout, and nothing else.

Without feed-forward layers and norms, what such a model can do is what its attention can do. How they are trained
is said in `training`; the attention itself is `mhalib.MultiHeadAttention`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mhalib.arguments import check_size, check_tensor
from mhalib.attention import MultiHeadAttention
from mhalib.experiments.randomness import seeded
from mhalib.masks import causal_mask


class TokenModel(nn.Module):
    """Token and position embeddings, layers of attention, one readout: what the two models below have in common.

    The number of parameters does not depend on `num_heads`, as long as `head_dim` is left out.

    Args:
        vocab: how many different tokens.
        tokens: the longest sequence.
        scores: how many numbers the readout gives for each position.
        d_model, num_heads: sizes of the attention.
        head_dim: features of one head; `d_model // num_heads` when left out, `d_model` for wide heads.
        num_kv_heads: how many heads of keys and values; as many as `num_heads` when left out.
        num_layers: how many layers of attention.
        seed: of the initial weights; the global random state stays as it is.

    Attributes:
        layers: the attention layers; `model.layers[0].W_o` and the like may be replaced for an experiment.

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
        with seeded(seed):
            self.token_embedding = nn.Embedding(vocab, d_model)
            self.position_embedding = nn.Embedding(tokens, d_model)
            self.layers = nn.ModuleList(
                MultiHeadAttention(d_model, num_heads, head_dim=head_dim, num_kv_heads=num_kv_heads)
                for _ in range(num_layers)
            )
            self.readout = nn.Linear(d_model, scores)

    def attend(
        self, tokens: Int[Tensor, "batch tokens"], need_weights: bool, *, causal: bool, around_first: bool
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[Float[Tensor, "batch num_heads tokens tokens"]]]:
        """Send tokens through all layers; each adds what its heads found to what it got (a residual connection).

        Args:
            tokens: `(B, T)`, integers.
            need_weights: also return the attention.
            causal: whether no position sees a later one.
            around_first: whether there is a way around the first layer as well.

        Returns:
            `(B, T, d_model)`, and a list with `(B, num_heads, T, T)` per layer, empty without `need_weights`.

        Raises:
            TypeError: the tokens are no tensor of integers.
            ValueError: they are not `(B, T)`, too many, or outside the vocabulary.
        """
        _check_tokens(tokens, self.token_embedding, self.position_embedding)
        num_tokens = tokens.shape[1]
        x = self.token_embedding(tokens) + self.position_embedding.weight[:num_tokens]  # (B, T, d_model)
        mask = causal_mask(num_tokens, device=tokens.device) if causal else None
        maps = []
        for depth, layer in enumerate(self.layers):
            found = layer(x, mask=mask, need_weights=need_weights)
            if need_weights:
                found, weights = found
                maps.append(weights)
            x = x + found if depth or around_first else found
        return x, maps


class LookupModel(TokenModel):
    """Every position sees all others and reports tokens: which stand at the places where it had to look?

    A single layer has no way around attention: what is read out is what the heads found.

    Args:
        lookups: how many tokens each position reports.
        vocab, tokens, d_model, num_heads, head_dim, num_kv_heads, num_layers, seed: as in `TokenModel`.

    Raises:
        ValueError: as in `TokenModel`.

    Taught in notebooks 07, 09 and 12.

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
        for name, size in {"vocab": vocab, "lookups": lookups}.items():
            check_size(name, size)
        super().__init__(vocab, tokens, lookups * vocab, d_model, num_heads, head_dim, num_kv_heads, num_layers, seed)
        self.lookups = lookups

    def forward(
        self, tokens: Int[Tensor, "batch tokens"], need_weights: bool = False
    ) -> (
        Float[Tensor, "batch lookups tokens vocab"]
        | tuple[Float[Tensor, "batch lookups tokens vocab"], list[Float[Tensor, "batch num_heads tokens tokens"]]]
    ):
        """Score every token of the vocabulary as the answer, for each lookup at each position.

        Returns:
            scores `(B, lookups, T, vocab)`; with `need_weights` a pair of them and the attention of every layer.

        Tokens `(B, T)` and errors as in `TokenModel.attend`.
        """
        x, maps = self.attend(tokens, need_weights, causal=False, around_first=False)
        scores = self.readout(x).unflatten(-1, (self.lookups, -1)).transpose(1, 2)  # -> (B, lookups, T, vocab)
        return (scores, maps) if need_weights else scores


class CausalModel(TokenModel):
    """No position sees a later one, and each says: what comes next?

    Args:
        vocab, tokens, d_model, num_heads, num_kv_heads, num_layers, seed: as in `TokenModel`.

    Raises:
        ValueError: as in `TokenModel`.

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
    ) -> (
        Float[Tensor, "batch tokens vocab"]
        | tuple[Float[Tensor, "batch tokens vocab"], list[Float[Tensor, "batch num_heads tokens tokens"]]]
    ):
        """Score every token of the vocabulary as the one that follows, at each position.

        Returns:
            scores `(B, T, vocab)`; with `need_weights` a pair of them and the attention of every layer.

        Tokens `(B, T)` and errors as in `TokenModel.attend`.
        """
        x, maps = self.attend(tokens, need_weights, causal=True, around_first=True)
        scores = self.readout(x)  # (B, T, d_model) -> (B, T, vocab)
        return (scores, maps) if need_weights else scores


def count_parameters(model: nn.Module) -> int:
    """Return how many numbers training may change; a weight that is used twice counts once.

    Taught in notebook 07.

    Examples:
        >>> import torch
        >>> from mhalib.experiments import count_parameters
        >>> count_parameters(torch.nn.Linear(3, 2))
        8
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

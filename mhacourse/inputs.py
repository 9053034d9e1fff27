"""Inputs for the exercises: numbers that can be read, and random ones that are the same on every run."""

import torch
from torch import Tensor


def labels(T: int, d_model: int, B: int = 1) -> Tensor:
    """Return `(B, T, d_model)` with the labels `100·sample + 10·token + feature`."""
    numbers = 100 * torch.arange(B)[:, None, None] + 10 * torch.arange(T)[:, None] + torch.arange(d_model)
    return numbers.float()  # as a layer has them: what a loop writes into torch.zeros(...) is right, too


def head_labels(num_heads: int, T: int, head_dim: int, B: int = 1) -> Tensor:
    """Return `(B, num_heads, T, head_dim)` with the same labels, the features of head 1 following those of head 0."""
    features = num_heads * head_dim
    heads = labels(T, features, B).unflatten(-1, (num_heads, head_dim)).transpose(1, 2)  # -> (B, h, T, hd)
    return heads.contiguous()  # in memory as attention leaves it


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal random numbers that depend on the seed and the shape only."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)

"""The layer of which the healthy and the sick ones are variants, each step a method."""

import math

import torch
from torch import nn

from attention_doctor import adapt


class Layer(nn.Module):
    """The layer that the sick ones differ from: each step is a method, or a number, that one change can spoil."""

    bias = False
    never = -1e9  # what the score of a hidden key becomes

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.h, self.hd = d_model, num_heads, d_model // num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=self.bias) for _ in range(4))
        self.more()

    def more(self):
        """Make what else a variant has."""

    def split(self, x):
        return x.view(*x.shape[:2], self.h, self.hd).transpose(1, 2)  # (B, T, d_model) -> (B, h, T, hd)

    split_q = split_k = split_v = lambda self, x: self.split(x)

    def qkv(self, x):
        return self.split_q(self.W_q(x)), self.split_k(self.W_k(x)), self.split_v(self.W_v(x))

    def score(self, q, k):
        return q @ k.transpose(-2, -1) / math.sqrt(self.hd)

    def axes(self, mask):
        return mask if mask.ndim == 2 else mask[:, None]  # (B, T, T) -> (B, 1, T, T)

    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(~self.axes(mask), self.never)

    def weigh(self, scores):
        return scores.softmax(-1)

    def attend(self, q, k, v, mask):
        return self.weigh(self.hide(self.score(q, k), mask)) @ v

    def merge(self, heads):
        return heads.transpose(1, 2).reshape(heads.shape[0], heads.shape[2], -1)  # (B, h, T, hd) -> (B, T, d_model)

    def out(self, heads):
        return self.W_o(self.merge(heads))

    def forward(self, x, mask=None):
        """Attend; x is (B, T, d_model), mask is (T, T) or (B, T, T), True = may attend."""
        return self.out(self.attend(*self.qkv(x), mask))


def without_mask(self, x):
    return Layer.forward(self, x)


def varied(name, base=Layer, **changes):
    """Return a class like `base`, in which these steps or numbers are others."""
    return type(name, (base,), changes)


# Takes a mask over the keys alone, `(B, T)`.
KeyMask = varied("KeyMask", axes=lambda self, mask: mask[:, None, None])


def over_keys(layer):
    """Return a layer `attend(x, keys)` in the doctor's form: its mask is over the keys alone, `(B, T)`."""
    return adapt(layer, mask_name="mask", mask_over="keys")


def over_lengths(layer, too_far=0):
    """Return a layer `attend(x, mask)` with a mask over the keys, as one that takes lengths `(B,)`."""
    return adapt(FromLengths(layer, too_far), mask="lengths", mask_rank=1, mask_name="lens")


class FromLengths(nn.Module):
    """Makes a mask over the keys of lengths; `too_far` keys too many."""

    def __init__(self, layer, too_far=0):
        super().__init__()
        self.layer, self.too_far = layer, too_far

    def forward(self, x, lens=None):
        if lens is None:
            return self.layer(x)
        return self.layer(x, torch.arange(x.shape[1]) < lens[:, None] + self.too_far)

"""A small encoder and decoder with attention of every kind, for the tests of gates and pruning."""

import copy

import torch
from torch import nn

from mhalib.attention import MultiHeadAttention


class Pair(nn.Module):
    """An encoder and a decoder with attention of every kind: other sizes, biases, wide heads, dropout."""

    def __init__(self, bias=True, dropout=0.0):
        super().__init__()
        self.encoder = MultiHeadAttention(12, 4, bias=bias, dropout=dropout)
        self.decoder = MultiHeadAttention(8, 2, head_dim=8, bias=bias, dropout=dropout)
        self.cross = MultiHeadAttention(8, 4, key_dim=12, bias=bias, dropout=dropout)

    def forward(self, x, y):
        source = x + self.encoder(x)
        y = y + self.decoder(y, mask=torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).tril())
        return y + self.cross(y, source)


def inputs(dtype=torch.float64):
    return torch.randn(3, 5, 12, dtype=dtype), torch.randn(3, 6, 8, dtype=dtype)


def squares(x, y):
    return lambda model: model(x, y).square().sum(-1).mean(-1)


KEEP = [[True, False, True, False], [False, True], [False, True, True, True]]


def keep_rows(rows=KEEP):
    return [torch.tensor(row) for row in rows]


def zeroed(model, rows):
    """The same model, with the columns of W_o set to zero by hand where a head is off."""
    model = copy.deepcopy(model)
    for layer, row in zip((model.encoder, model.decoder, model.cross), rows, strict=True):
        for head, on in enumerate(row):
            if not on:
                layer.W_o.weight.data[:, head * layer.head_dim : (head + 1) * layer.head_dim] = 0
    return model

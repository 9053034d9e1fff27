"""A layer whose maps have a reason: features and weights are built by hand for one sentence."""

import torch
from torch import Tensor

from mhalib import MultiHeadAttention

SENTENCE = "the cat sat on the mat because the cat was so tired".split()


def hand_built(num_heads: int) -> tuple[MultiHeadAttention, Tensor, Tensor]:
    """Return a layer, the features of `SENTENCE` and its maps; all built by hand, so that every map has a reason.

    Eight blocks of 64 features: letters, ending, first letter and length of the word; then its position four
    times. `W_k` copies the features. `W_q` copies the spelling and turns the positions, so that they find the
    token before, the one before that, the token after and the one after that.
    """
    position = torch.arange(len(SENTENCE)).float()
    spelling = torch.zeros(len(SENTENCE), 4, 64)
    for i, word in enumerate(SENTENCE):
        for letter in word:
            spelling[i, 0, ord(letter) - ord("a")] = len(set(word)) ** -0.5
        spelling[i, 1, ord(word[-1]) - ord("a")] = spelling[i, 2, ord(word[0]) - ord("a")] = 1
        spelling[i, 3, len(word)] = 1
    frequencies = torch.linspace(0.1, 2.9, 32)
    waves = position[:, None] * frequencies
    place = torch.cat([waves.cos(), waves.sin()], -1) / 32**0.5  # (T, 64), each of length 1
    features = torch.cat([spelling.flatten(1), place.repeat(1, 4)], -1)[None]  # (T, 256) and (T, 256) -> (1, T, 512)

    turns = []
    for steps in (1, 2, -1, -2):
        cos, sin = (frequencies * steps).cos().diag(), (frequencies * steps).sin().diag()
        turns.append(torch.cat([torch.cat([cos, sin], -1), torch.cat([-sin, cos], -1)]))
    layer = MultiHeadAttention(512, num_heads)
    with torch.no_grad():
        layer.W_q.weight.copy_(torch.block_diag(*[22 * torch.eye(64)] * 4, *[60 * turn for turn in turns]))
        layer.W_k.weight.copy_(torch.eye(512))
        weights = layer(features, need_weights=True)[1]
    return layer, features, weights[0]  # (1, num_heads, T, T) -> (num_heads, T, T)

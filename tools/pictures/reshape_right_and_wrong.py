"""The split that is right beside the one that only has the right shape."""

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from mhalib import split_heads
from tools.pictures.drawing import SOFT, TINTS, arrow, canvas, cells, say

ALT = (
    "Four tokens split into two heads. With view and transpose each head holds half of "
    "the features of every token; with the wrong view, in the same shape, it holds all features of two tokens."
)


def draw() -> Figure:
    tokens, d_model, num_heads = 4, 6, 2
    x = (10 * torch.arange(tokens)[:, None] + torch.arange(d_model))[None]  # (1, T, d_model)
    right, wrong = split_heads(x, num_heads), x.view(1, num_heads, tokens, d_model // num_heads)
    assert right.shape == wrong.shape and right.equal(x.view(1, tokens, num_heads, -1).transpose(1, 2))

    figure, axes = canvas(9, 5.3)
    size = 0.33

    def table(left: float, top: float, labels: Tensor) -> None:
        rows = labels.tolist()
        cells(axes, left, top, rows, lambda i, j: TINTS[rows[i][j] // 10], size)

    table(0.75, 1.85, x[0])
    say(axes, 0.75 + 3 * size, 1.47, f"x  {tuple(x.shape)}\n(B, T, d_model)", 9)
    say(axes, 0.75 + 3 * size, 3.45, "label = 10 · token + feature", color=SOFT)
    for token in range(tokens):
        say(axes, 0.68, 1.85 + (token + 0.5) * size, f"token {token}", ha="right")
    codes = ".view(B, T, num_heads, head_dim).transpose(1, 2)", ".view(B, num_heads, T, head_dim)"
    holds = "half of the features\nof every token", "all features of\ntwo of the tokens"
    results = (0.15, "✓ right", right), (2.85, "✗ wrong", wrong)
    for (top, title, result), code, what in zip(results, codes, holds, strict=True):
        axes.add_patch(Rectangle((3.55, top), 5.3, 2.3, facecolor="#F7F7F7", edgecolor="none"))
        say(axes, 3.7, top + 0.25, title, 11, ha="left", weight="bold")
        say(axes, 4.65, top + 0.26, code, 8.5, ha="left", family="monospace")
        arrow(axes, (2.85, 2.5), (3.2, 2.5), (3.2, top + 1.4), (3.65, top + 1.4))
        for head in range(num_heads):
            table(3.85 + 1.6 * head, top + 0.8, result[0, head])
            say(axes, 3.85 + 1.6 * head + 1.5 * size, top + 0.64, f"head {head}")
        say(axes, 6.95, top + 1.12, f"{tuple(result.shape)}\n(B, num_heads, T, head_dim)", 8.5, ha="left")
        say(axes, 6.95, top + 1.7, f"each head holds\n{what}", 9, ha="left", weight="bold")
    return figure

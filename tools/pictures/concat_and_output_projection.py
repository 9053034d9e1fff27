"""Heads put side by side, and W_o as a sum over heads."""

import torch
from matplotlib.figure import Figure
from torch import nn

from mhalib import merge_heads
from tools.pictures.drawing import SOFT, TINTS, box, canvas, cells, say

ALT = (
    "Merging heads with the transpose gives one row per token, without it rows "
    "that mix tokens. Concat times W_o is the sum over heads of each output times its own rows of W_o."
)


def draw() -> Figure:
    heads = torch.tensor([[0, 1], [10, 11]])[None, :, :, None]  # (B, num_heads, T, head_dim) = (1, 2, 2, 1)
    right, wrong = merge_heads(heads), heads.reshape(1, 2, 2)
    W_o, o = nn.Linear(512, 512, bias=False).requires_grad_(False), torch.rand(1, 8, 12, 64)
    blocks = W_o.weight.T.split(64)  # nn.Linear stores W_o transposed
    torch.testing.assert_close(sum(o[:, i] @ blocks[i] for i in range(8)), W_o(merge_heads(o)))

    figure, axes = canvas(9, 5.2)
    say(axes, 0.15, 0.25, "Concat: one row per token", 11, ha="left", weight="bold")
    say(axes, 8.85, 0.25, "label = 10 · head + token, num_heads = 2, T = 2, head_dim = 1", 8.5, ha="right", color=SOFT)
    for left, title, code, labels, row, note in (
        (0.95, "heads", "(B, num_heads, T, head_dim)", heads[0, ..., 0], "head", "row: one head, all tokens"),
        (3.95, "✓ right", ".transpose(1, 2).flatten(2)", right[0], "token", "row: one token, all heads"),
        (7.0, "✗ wrong", ".reshape(B, T, d_model)", wrong[0], "token", "row: two tokens mixed"),
    ):
        rows = labels.tolist()
        say(axes, left + 0.42, 0.66, title, 10, weight="bold")
        say(axes, left + 0.42, 0.88, code, family="monospace")
        cells(axes, left, 1.05, rows, lambda i, j, rows=rows: TINTS[rows[i][j] % 10], 0.42, 10)
        for i in range(2):
            say(axes, left - 0.07, 1.05 + (i + 0.5) * 0.42, f"{row} {i}", ha="right")
        say(axes, left + 0.42, 2.06, note)
    say(axes, 0.15, 2.55, "W_o: a sum over heads", 11, ha="left", weight="bold")
    say(axes, 8.85, 2.55, "T = 12, d_model = 512, num_heads = 8, head_dim = 64", 8.5, ha="right", color=SOFT)
    for head in range(8):
        box(axes, 0.2 + 0.2 * head, 3.6, 0.2, 0.4, str(head), TINTS[head])
        box(axes, 2.15, 3.0 + 0.2 * head, 1.6, 0.2, str(head), TINTS[head])
    for x, sign in (1.98, "@"), (3.95, "="):
        say(axes, x, 3.8, sign, 11)
    say(axes, 1.0, 4.17, "concat  (12, 512)")
    say(axes, 2.95, 4.77, f"W_o  {tuple(W_o.weight.T.shape)}")
    for head, y in (0, 3.2), (1, 3.7), (7, 4.5):
        box(axes, 4.45, y - 0.2, 0.2, 0.4, str(head), TINTS[head])
        say(axes, 4.8, y, "@", 10)
        box(axes, 4.95, y - 0.1, 1.6, 0.2, str(head), TINTS[head])
        shapes = f"{tuple(o[0, head].shape)} @ {tuple(blocks[head].shape)}"
        say(axes, 6.65, y, f"o_{head} @ W_o[{64 * head}:{64 * head + 64}]\n{shapes}", ha="left")
        say(axes, 4.25, y, "+" if head else "", 11)
    say(axes, 4.55, 4.1, "⋮", 11)
    say(axes, 4.45, 4.95, "each term is (12, 512); nn.Linear stores W_o transposed", ha="left", color=SOFT)
    return figure

"""What narrow and wide heads cost, areas to scale."""

import torch
from matplotlib.figure import Figure

from mhalib import MultiHeadAttention
from tools.pictures.drawing import BLOCKED, SOFT, TINTS, box, canvas, say

ALT = (
    "The four weights of two layers with d_model 728 and 8 heads, areas to scale: narrow heads "
    f"have {4 * 728**2:,} parameters, wide heads {4 * 8 * 728**2:,}, eight times as many."
)


def draw() -> Figure:
    d_model, num_heads, unit = 728, 8, 0.44
    figure, axes = canvas(9, 5.1)
    for left, gap, title, head_dim, formula, times in (
        (0.15, 0.9, "narrow heads", d_model // num_heads, "4 · d_model²", ""),
        (3.4, 0.55, "wide heads", d_model, "4 · num_heads · d_model²", ", 8 times as many"),
    ):
        with torch.device("meta"):  # shapes without numbers: nothing to store
            layer = MultiHeadAttention(d_model, num_heads, head_dim=head_dim)
        inner, part = layer.W_o.in_features, unit * head_dim / d_model
        bill = sum(weight.numel() for weight in layer.parameters())
        assert bill == 4 * d_model * inner
        say(axes, left, 0.25, f"{title}: head_dim = {head_dim}", 11, ha="left", weight="bold")
        say(axes, left, 0.5, f"every head: q, k, v (T, {head_dim})", 8.5, ha="left", color=SOFT)
        for y, name in zip((1.05, 1.85, 2.65), "qkv", strict=True):
            say(axes, left, y - 0.12, f"W_{name}  ({d_model}, {inner})", ha="left")
            for head in range(num_heads):
                box(axes, left + part * head, y, part, unit, str(head) if part > 0.2 else "", TINTS[head])
        x = left + part * num_heads + gap
        say(axes, x, 0.93, f"W_o  ({inner}, {d_model})", ha="left")
        for head in range(num_heads):
            box(axes, x, 1.05 + part * head, unit, part, str(head) if part > 0.2 else "", TINTS[head])
        say(axes, left, 3.62, formula, 11, ha="left")
        say(axes, left, 3.95, f"= {bill:,}", 15, ha="left", weight="bold")
        say(axes, left, 4.25, "parameters" + times, 9, ha="left")
    axes.plot((3.15, 3.15), (0.15, 4.57), color=BLOCKED)
    notes = "d_model = 728, num_heads = 8. Areas are to scale, colours are heads. Both layers have 8 maps of (T, T)."
    say(axes, 0.15, 4.9, notes, ha="left", color=SOFT)
    return figure

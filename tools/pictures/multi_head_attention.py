"""The whole layer with 8 heads: every arrow carries the shape of a tensor that was computed."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mhalib import merge_heads, split_heads
from tools.pictures.drawing import INK, PALE, SOFT, TINTS, arrow, box, canvas, heat, say
from tools.pictures.hand_built import hand_built

ALT = (
    "x goes through W_q, W_k and W_v; each result is split into 8 heads; q and k give 8 "
    "attention maps, which mix v; the heads are put side by side and go through W_o. Every arrow carries its shape."
)


def draw() -> Figure:
    layer, x, weights = hand_built(8)
    heads = split_heads(layer.W_q(x), 8)
    flat, split, maps = (str(tuple(t.shape)) for t in (x, heads, weights[None]))
    assert flat == str(tuple(merge_heads(heads).shape)) == str(tuple(layer(x).shape))

    figure, axes = canvas(9, 4.75)
    rows = (1.1, 2.2, 4.0)
    box(axes, 0.15, rows[1] - 0.45, 0.5, 0.9, "x", PALE, size=11, weight="bold")
    say(axes, 0.4, rows[1] + 0.57, flat)
    for y, name in zip(rows, "qkv", strict=True):
        arrow(axes, (0.65, rows[1]), (0.95, rows[1]), (0.95, y), (1.3, y))
        box(axes, 1.3, y - 0.25, 0.55, 0.5, f"W_{name}", size=10)
        arrow(axes, (1.85, y), (2.85, y))
        say(axes, 2.33, y - 0.13, name, 10, weight="bold")
        say(axes, 2.33, y + 0.13, flat)
        for head in reversed(range(8)):
            box(axes, 2.85 + 0.045 * head, y - 0.12 - 0.045 * head, 0.3, 0.5, colour=TINTS[head])
    say(axes, 3.15, 0.28, "split into 8 heads\nof head_dim 64")
    for y, end in zip(rows, (4.55, 4.55, 4.75), strict=True):
        arrow(axes, (3.55, y), (end, y))
        say(axes, 4.05, y + 0.13, split)
    say(axes, 5.4, 0.28, "every head: its own\nsoftmax(q kᵀ / √head_dim)")
    axes.add_patch(Rectangle((4.55, 0.55), 1.7, 2.9, facecolor=PALE, edgecolor=INK, linewidth=0.8))
    for head in range(8):
        x0, y0 = 4.83 + 0.62 * (head % 2), 0.76 + 0.68 * (head // 2)
        heat(axes, x0, y0, weights[head], 0.5)
        say(axes, x0 + 0.25, y0 - 0.09, f"head {head}")
    arrow(axes, (5.4, 3.45), (5.4, 3.78))
    say(axes, 5.47, 3.58, maps, ha="left")
    box(axes, 4.75, 3.78, 1.3, 0.44, "weights @ v", size=10)
    arrow(axes, (6.05, 4.0), (7.1, 4.0))
    say(axes, 6.55, 4.13, split)
    for head in range(8):
        box(axes, 7.1 + 0.2 * head, 3.78, 0.2, 0.44, str(head), TINTS[head])
    say(axes, 7.9, 4.42, "concat: heads side by side again")
    arrow(axes, (7.9, 3.78), (7.9, 2.45))
    say(axes, 7.97, 3.1, flat, ha="left")
    box(axes, 7.55, 1.95, 0.7, 0.5, "W_o", size=10)
    arrow(axes, (7.9, 1.95), (7.9, 1.35))
    box(axes, 7.55, 0.85, 0.7, 0.5, "output", PALE, size=10)
    say(axes, 7.9, 0.7, flat)
    notes = "B = 1, T = 12, d_model = 512, num_heads = 8, head_dim = 64. The maps come from hand-built weights."
    say(axes, 0.15, 4.6, notes, color=SOFT, ha="left")
    return figure

"""A mask, and the forms in which libraries want to be told."""

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from mhalib import causal_mask, combine_masks, padding_mask
from mhalib.masks import to_additive
from tools.pictures.drawing import BLOCKED, SOFT, TINTS, canvas, cells, say

ALT = (
    "A causal and a padding mask make one mask, then shown in four forms: True where a "
    "token may attend, True where it is blocked, 0 and -inf to add to the scores, and one length per query."
)


def draw() -> Figure:
    tokens, size = ["I", "like", "tea", "<pad>"], 0.4
    causal, padding = causal_mask(4), padding_mask(torch.tensor([3]), 4)[0].expand(4, 4)
    both = combine_masks(causal, padding)
    lengths, q = both.sum(-1), torch.eye(4)[None]
    torch_weights = nn.MultiheadAttention(4, 1, batch_first=True)(q, q, q, attn_mask=~both)[1][0]
    assert padding_mask(lengths[None], 4)[0].equal(both) and (torch_weights > 0).equal(both)

    figure, axes = canvas(9, 5.65)

    def table(left: float, top: float, title: str, mask: Tensor, values: list[list]) -> None:
        say(axes, left + size * len(values[0]) / 2, top - 0.14, title, 9, va="baseline", weight="bold")
        cells(axes, left, top, values, lambda i, j: TINTS[0] if mask[i, j] else BLOCKED, size)
        for i, token in enumerate(tokens):
            say(axes, left - 0.06, top + (i + 0.62) * size, token, ha="right", va="baseline")

    say(axes, 0.15, 0.25, "What may a token see?", 11, ha="left", weight="bold")
    say(axes, 8.85, 0.25, "rows: queries, columns: keys      ✓ may attend   × blocked", 8.5, ha="right", color=SOFT)
    masks = [(1.1, causal, "causal", "and"), (4.0, padding, "padding", "="), (6.9, both, "both", "")]
    for left, mask, title, sign in masks:
        table(left, 0.85, title, mask, [["✓" if cell else "×" for cell in row] for row in mask.tolist()])
        say(axes, left + 4 * size + 0.33, 0.85 + 2 * size, sign, 11, weight="bold")
        for j, token in enumerate(tokens):
            say(axes, left + (j + 0.5) * size, 1.0 + 4 * size, token, va="baseline")
    say(axes, 0.15, 3.0, "The mask “both”, as each library wants to be told", 11, ha="left", weight="bold")
    additive = [[f"{number:g}" for number in row] for row in to_additive(both).tolist()]
    for left, title, meaning, mask, values in (
        (0.65, "mhalib, SDPA", "boolean:\nTrue = may attend", both, both.tolist()),
        (2.98, "nn.MultiheadAttention", "boolean:\nTrue = blocked", both, (~both).tolist()),
        (5.31, "additive", "float:\nadded to the scores", both, additive),
        (8.0, "d2l", "valid_lens:\nkeys per query", torch.ones(4, 1), lengths[:, None].tolist()),
    ):
        table(left, 3.55, title, mask, values)
        say(axes, left + size * len(values[0]) / 2, 3.63 + 4 * size, meaning, va="top")
    return figure

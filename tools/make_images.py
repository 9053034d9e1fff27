"""Draw every picture in `images/`: one function a file, the same bytes on every run.

`python -m tools.make_images` draws into `images/`, `python -m tools.make_images FOLDER` elsewhere. Labels, masks,
maps and parameter counts come from mhalib; what stands here is where they are put. `ALT` holds the text for
readers who do not see a picture; the README and the lessons use it, and each file carries it as its description.
"""

import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch, Rectangle
from matplotlib.path import Path as Curve
from torch import Tensor, nn

from mhalib import MultiHeadAttention, causal_mask, combine_masks, merge_heads, padding_mask, split_heads
from mhalib.masks import to_additive
from mhalib.plots import COLOUR_MAP, COLOURS, MASKED_COLOUR
from tools.bench import picture as bench_picture

ALT = {
    "hero.png": "Attention maps of one sentence with 1, 2 and 4 heads, same features, same weights. One head blends "
    "everything into one map; two separate spelling from position; with four, each map shows a pattern of its own.",
    "roadmap.png": "The thirteen lessons as a road that turns once: 00 to 06 build the layer, 07 to 09 ask what "
    "several heads change, 10 to 12 look at trained heads, at those that matter, and at the models of today.",
    "multi_head_attention.png": "x goes through W_q, W_k and W_v; each result is split into 8 heads; q and k give 8 "
    "attention maps, which mix v; the heads are put side by side and go through W_o. Every arrow carries its shape.",
    "reshape_right_and_wrong.png": "Four tokens split into two heads. With view and transpose each head holds half of "
    "the features of every token; with the wrong view, in the same shape, it holds all features of two tokens.",
    "masks_and_polarities.png": "A causal and a padding mask make one mask, then shown in four forms: True where a "
    "token may attend, True where it is blocked, 0 and -inf to add to the scores, and one length per query.",
    "concat_and_output_projection.png": "Merging heads with the transpose gives one row per token, without it rows "
    "that mix tokens. Concat times W_o is the sum over heads of each output times its own rows of W_o.",
    "narrow_and_wide.png": "The four weights of two layers with d_model 728 and 8 heads, areas to scale: narrow heads "
    f"have {4 * 728**2:,} parameters, wide heads {4 * 8 * 728**2:,}, eight times as many.",
    "benchmarks.png": "Above, bars: what bertviz, CircuitsVis and interact need to make and to paint the same maps, as "
    "multiples of HeadView. Below, the layer beside torch's and d2l's, what pruning saves, and how long a reader waits.",
}
LESSONS = [
    ("Start here", "What will I be able to do?"),
    ("Shapes and projections", "Where do q, k and v come from?"),
    ("Scaled dot-product attention", "Why divide by √head_dim?"),
    ("Splitting into heads", "A view, or a view and a transpose?"),
    ("Masking", "What may each token see?"),
    ("Concat and output projection", "What is W_o for?"),
    ("The whole layer", "Is mine the same as the libraries’?"),
    ("Do heads change anything?", "More parameters, or other outputs?"),
    ("One head against many", "Where do they really differ?"),
    ("Narrow or wide? Rules for a fair comparison", "What if no head were smaller?"),
    ("Seeing what heads learned", "What do trained heads look at?"),
    ("Which heads matter?", "Which can I cut?"),
    ("Heads today: sharing, caching, cost", "What do models of today do?"),
]
SENTENCE = "the cat sat on the mat because the cat was so tired".split()
DPI, INK, SOFT, BLOCKED = 150, "#222222", "#5F5F5F", MASKED_COLOUR
TINTS = [tuple(0.5 + 0.5 * part for part in to_rgb(colour)) for colour in COLOURS]  # black text can be read on them


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure whose coordinates are inches from the upper left corner."""
    figure = Figure((width, height), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def say(axes: Axes, x: float, y: float, text: str, size: float = 8, **options) -> None:
    options = {"ha": "center", "va": "center", "color": INK, "linespacing": 1.3} | options
    axes.text(x, y, text, fontsize=size, parse_math=False, **options)


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str = "", colour="white", **options) -> None:
    """Draw a box with its upper left corner at (x, y) and its text in the middle."""
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=INK, linewidth=0.8))
    say(axes, x + width / 2, y + height / 2, text, **options)


def arrow(axes: Axes, *points: tuple[float, float]) -> None:
    """Draw a line through the points with an arrow head at the last one."""
    style = {"color": SOFT, "linewidth": 1.2}
    axes.plot(*zip(*points[:-1], strict=True), solid_capstyle="butt", solid_joinstyle="miter", **style)
    head = {"arrowstyle": "-|>,head_width=0.2,head_length=0.4", "shrinkA": 0, "shrinkB": 0, **style}
    axes.annotate("", points[-1], points[-2], arrowprops=head)


def cells(axes: Axes, x: float, y: float, labels: list[list], colour, size: float = 0.34, font: float = 8.5) -> None:
    """Draw a table of labels with its corner at (x, y); `colour(row, column)` fills a cell."""
    for i, row in enumerate(labels):
        for j, label in enumerate(row):
            place = (x + j * size, y + i * size)
            axes.add_patch(Rectangle(place, size, size, facecolor=colour(i, j), edgecolor="white", linewidth=1.5))
            say(axes, place[0] + size / 2, place[1] + size / 2, str(label), font)


def heat(axes: Axes, x: float, y: float, weights: Tensor, size: float) -> None:
    """Draw an attention map `(Tq, Tk)` as a square with its corner at (x, y), on the scale from 0 to 1."""
    xlim, ylim = axes.get_xlim(), axes.get_ylim()
    scale = {"cmap": COLOUR_MAP, "vmin": 0, "vmax": 1, "interpolation": "nearest", "aspect": "auto"}
    axes.imshow(weights.numpy(), extent=(x, x + size, y + size, y), zorder=2, **scale)
    axes.set(xlim=xlim, ylim=ylim)


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


def hero() -> Figure:
    figure, axes = canvas(9, 5.55)
    side, step, left, top = 1.72, 1.95, 0.85, 0.98
    say(axes, 4.5, 0.24, "One sentence, the same features, the same weights: only num_heads changes", 12, weight="bold")
    names = {1: ["everything at once"], 2: ["spelling", "position"]}
    names[4] = ["letters, ending", "first letter, length", "two tokens before", "two tokens after"]
    for column, num_heads in {0: 1, 1: 2, 2: 4}.items():
        centre = left + (column + (num_heads == 4) / 2) * step + side / 2
        say(axes, centre, 0.58, f"num_heads = {num_heads}", 10, weight="bold")
        for head, weights in enumerate(hand_built(num_heads)[2]):
            x = left + (column + (head % 2 if num_heads == 4 else 0)) * step
            y = top + ((head // 2 if num_heads == 4 else head) if num_heads > 1 else 0.5) * (side + 0.3)
            heat(axes, x, y, weights, side)
            say(axes, x, y - 0.1, f"head {head}: {names[num_heads][head]}", ha="left")
            for i, word in enumerate(SENTENCE):
                if num_heads == 1:
                    say(axes, x - 0.06, y + (i + 0.5) * side / 12, word, ha="right")
                if head >= num_heads // 2:  # the lowest map of every column
                    say(axes, x + (i + 0.5) * side / 12, y + side + 0.06, word, va="top", rotation=90)
    say(axes, left + side / 2, 4.48, "key", color=SOFT)
    say(axes, 0.13, top + 0.5 * (side + 0.3) + side / 2, "query", color=SOFT, rotation=90)
    bar = figure.colorbar(ScalarMappable(cmap=COLOUR_MAP), cax=figure.add_axes((0.955, 0.15, 0.013, 0.67)))
    bar.ax.tick_params(labelsize=8)
    say(axes, 8.98, 0.78, "attention\nweight", color=SOFT, ha="right")
    say(axes, left + side / 2, 5.15, "features and weights:\nhand-built, not trained", 8.5, color=SOFT)
    return figure


def roadmap() -> Figure:
    figure, axes = canvas(9, 3.85)
    left, step, upper, lower = 0.7, 1.17, 0.5, 2.4
    turn = left + 6 * step
    stops = [(left + i * step, upper) for i in range(7)] + [(turn - i * step, lower) for i in range(6)]
    bend = [(turn, upper), (turn + 1.3, upper), (turn + 1.3, lower), (turn, lower), stops[-1]]
    for curve in (Curve(stops[:7]), Curve(bend, [Curve.MOVETO, *[Curve.CURVE4] * 3, Curve.LINETO])):
        axes.add_patch(PathPatch(curve, fill=False, edgecolor=COLOURS[7], linewidth=7, capstyle="butt"))
    for number, ((x, y), (title, question)) in enumerate(zip(stops, LESSONS, strict=True)):
        axes.add_patch(Circle((x, y), 0.23, facecolor=COLOURS[6], edgecolor=COLOURS[6], linewidth=1.5, zorder=3))
        say(axes, x, y, f"{number:02}", 11, weight="bold", color="white", zorder=4)
        y += 0.45
        for line in textwrap.wrap(title, 15, break_on_hyphens=False):
            say(axes, x, y, line, 8.5, va="baseline", weight="bold")
            y += 0.16
        for line in textwrap.wrap(question, 18):
            say(axes, x, y + 0.05, line, va="baseline", color=SOFT)
            y += 0.15
    return figure


def multi_head_attention() -> Figure:
    layer, x, weights = hand_built(8)
    heads = split_heads(layer.W_q(x), 8)
    flat, split, maps = (str(tuple(t.shape)) for t in (x, heads, weights[None]))
    assert flat == str(tuple(merge_heads(heads).shape)) == str(tuple(layer(x).shape))

    figure, axes = canvas(9, 4.75)
    rows = (1.1, 2.2, 4.0)
    box(axes, 0.15, rows[1] - 0.45, 0.5, 0.9, "x", "#F2F2F2", size=11, weight="bold")
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
    axes.add_patch(Rectangle((4.55, 0.55), 1.7, 2.9, facecolor="#F2F2F2", edgecolor=INK, linewidth=0.8))
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
    box(axes, 7.55, 0.85, 0.7, 0.5, "output", "#F2F2F2", size=10)
    say(axes, 7.9, 0.7, flat)
    notes = "B = 1, T = 12, d_model = 512, num_heads = 8, head_dim = 64. The maps come from hand-built weights."
    say(axes, 0.15, 4.6, notes, color=SOFT, ha="left")
    return figure


def reshape_right_and_wrong() -> Figure:
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


def masks_and_polarities() -> Figure:
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


def concat_and_output_projection() -> Figure:
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


def narrow_and_wide() -> Figure:
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


def benchmarks() -> Figure:
    page = (Path(__file__).parent.parent / "BENCHMARKS.md").read_text(encoding="utf-8")
    return bench_picture.benchmarks(page, Figure((9, 7), dpi=110, facecolor="white"))


def main(folder: Path, names: Iterable[str] | None = None) -> None:
    """Draw these pictures, by default all, into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the reader's own matplotlibrc says
        for name in names or ALT:
            figure = globals()[name.removesuffix(".png")]()
            # Without the version of matplotlib in the file, the same picture is the same bytes.
            metadata = {"Software": None, "Description": ALT[name]}
            figure.savefig(folder / name, metadata=metadata, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "images")

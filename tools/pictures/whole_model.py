"""Where the attention layer sits in a whole model, and which lesson meets each part."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from mhalib.plots import COLOURS
from tools.pictures.drawing import INK, PALE, SOFT, TINTS, arrow, box, canvas, say

ALT = (
    "Tokens become embeddings, plus positions; then N blocks, each with attention, in a decoder also "
    "cross-attention, and a feed-forward part, each added to what came and with a norm; then scores. Only attention "
    "mixes tokens."
)
# Which lessons meet a part, and a word that they use for it.
MET = {
    "embedding": (("05",), "embedding"),
    "positions": (("02", "05"), "position"),
    "attention": (("00", "01", "02", "03", "04", "05", "06"), "head"),
    "masks": (("04",), "causal"),
    "cache": (("12",), "cache"),
    "cross-attention": (("04", "10"), "cross-attention"),
    "logits": (("05",), "logit"),
    "real model": (("10",), "real model"),
}
STREAM = 1.25  # the height at which the vectors of the tokens run from left to right
ATTENTION = COLOURS[6]


def numbers(part: str) -> str:
    """Return the numbers of the lessons that meet a part: "05", "04, 10" or "00–06"."""
    met = MET[part][0]
    return f"{met[0]}–{met[-1]}" if len(met) > 2 else ", ".join(met)


def lessons(part: str) -> str:
    return f"lesson{'s' * (len(MET[part][0]) > 1)} {numbers(part)}"


def draw() -> Figure:
    figure, axes = canvas(9, 4.75)
    say(axes, 0.15, 0.25, "Where multi-head attention sits in a whole model", 11, ha="left", weight="bold")
    say(axes, 8.85, 0.25, "from the first + to the last norm: (B, T, d_model)", 8.5, ha="right", color=SOFT)

    box(axes, 0.15, STREAM - 0.27, 0.65, 0.54, "tokens", PALE, size=9)
    say(axes, 0.475, STREAM - 0.4, "(B, T)")
    arrow(axes, (0.8, STREAM), (1.02, STREAM))
    box(axes, 1.02, STREAM - 0.27, 0.98, 0.54, "embedding", size=9)
    say(axes, 1.51, STREAM - 0.4, lessons("embedding"), color=SOFT)
    arrow(axes, (2.0, STREAM), (2.29, STREAM))
    box(axes, 2.0, 2.35, 0.8, 0.5, "positions", size=9)
    say(axes, 2.4, 2.98, lessons("positions"), color=SOFT)
    arrow(axes, (2.4, 2.35), (2.4, STREAM + 0.11))

    frame = {"facecolor": "#F7F7F7", "edgecolor": INK, "linewidth": 0.8, "zorder": 0}
    axes.add_patch(FancyBboxPatch((2.95, 0.5), 4.34, 2.95, boxstyle="round,pad=0,rounding_size=0.1", **frame))
    say(axes, 3.1, 0.68, "one block", 10, ha="left", weight="bold")
    say(axes, 3.93, 0.69, "of N, one after the other", 8.5, ha="left", color=SOFT)
    say(axes, 3.1, STREAM - 0.17, "residual: the way around each part", ha="left", color=SOFT)
    part(axes, 3.1, "multi-head\nattention", ATTENTION, "white")
    for number, tint in enumerate(TINTS):
        box(axes, 3.1 + 0.125 * number, 2.82, 0.125, 0.15, "", tint)
    say(axes, 3.6, 3.1, lessons("attention"), weight="bold", color=ATTENTION)
    say(axes, 3.6, 3.27, f"masks: {numbers('masks')}, cache: {numbers('cache')}", color=SOFT)
    part(axes, 4.53, "cross-\nattention", TINTS[0], INK, linestyle="--")
    say(axes, 4.73, 3.1, lessons("cross-attention"), ha="left", color=SOFT)
    say(axes, 4.73, 3.27, "a translator's decoder", ha="left", color=SOFT)
    arrow(axes, (4.65, 3.7), (4.65, 2.82))
    say(axes, 4.73, 3.57, "k and v come from here", ha="left", color=SOFT)
    box(axes, 4.43, 3.7, 2.3, 0.3, "another text, out of an encoder", PALE, size=8.5)
    part(axes, 5.96, "feed-\nforward", "white", INK)
    for x in (2.4, 4.28, 5.71, 7.14):
        axes.add_patch(Circle((x, STREAM), 0.11, facecolor="white", edgecolor=INK, linewidth=0.8, zorder=3))
        say(axes, x, STREAM - 0.005, "+", 10, zorder=4)
    for start, end in (2.51, 4.17), (4.39, 5.6), (5.82, 7.03), (7.25, 7.5):
        arrow(axes, (start, STREAM), (end, STREAM))

    box(axes, 7.5, STREAM - 0.13, 0.42, 0.26, "norm")
    arrow(axes, (7.92, STREAM), (8.1, STREAM))
    box(axes, 8.1, STREAM - 0.27, 0.75, 0.54, "readout", size=9)
    say(axes, 8.475, STREAM - 0.4, lessons("logits"), color=SOFT)
    arrow(axes, (8.475, STREAM + 0.27), (8.475, 2.35))
    say(axes, 8.4, 1.93, "logits", ha="right", weight="bold")
    say(axes, 8.4, 2.1, "(B, T, vocab)", ha="right")
    box(axes, 8.1, 2.35, 0.75, 0.5, "next\ntoken", PALE, size=9)
    notes = (
        "Only in the blue parts do tokens hear of each other; all else works on each token alone.",
        "Here a norm stands before each part, as in GPT-2 and Llama. In the first Transformer, and in a BERT like that "
        f"of {lessons('real model')}, it stands after each +.",
    )
    for y, note in zip((4.3, 4.5), notes, strict=True):
        say(axes, 0.15, y, note, ha="left", color=SOFT)
    return figure


def part(axes: Axes, x: float, text: str, colour, ink: str, linestyle: str = "-") -> None:
    """Draw what hangs below the stream: norm, then the part, 1 inch wide, then the way back to the + at its right."""
    arrow(axes, (x + 0.5, STREAM), (x + 0.5, 1.68))
    box(axes, x + 0.29, 1.68, 0.42, 0.26, "norm")
    arrow(axes, (x + 0.5, 1.94), (x + 0.5, 2.22))
    box(axes, x, 2.22, 1.0, 0.6, text, colour, size=10, weight="bold", color=ink)
    axes.patches[-1].set_linestyle(linestyle)
    arrow(axes, (x + 1.0, 2.52), (x + 1.18, 2.52), (x + 1.18, STREAM + 0.11))

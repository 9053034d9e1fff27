"""One sentence under 1, 2 and 4 heads: the picture that opens the README and the site."""

from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from mhalib.plots import COLOUR_MAP
from tools.pictures.drawing import SOFT, canvas, heat, say
from tools.pictures.hand_built import SENTENCE, hand_built

ALT = (
    "Attention maps of one sentence with 1, 2 and 4 heads, same features, same weights. One head blends "
    "everything into one map; two separate spelling from position; with four, each map shows a pattern of its own."
)


def draw() -> Figure:
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

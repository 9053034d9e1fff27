"""The static picture of a SealedBox: the output along t and, once it is open, where the heads look."""

from torch import Tensor

from headview.sealed_box.plateaus import Found, letter_name
from mhalib.plots import COLOUR_MAP, COLOURS, LINE_COLOURS, DescribedFigure, new_figure

_MOST_LINES = 64  # features
_MOST_NAMED = 12
_HERE, _LINES = LINE_COLOURS[0], LINE_COLOURS[7]


def box_figure(
    places: Tensor, moved: Tensor, found: Found, at: int, seen: list[int], looks: Tensor | None
) -> DescribedFigure:
    """Return the picture.

    Args:
        places: `(points,)`, every t.
        moved: `(points, d_model)`.
        found: its plateaus and steps.
        at: the number of the present point.
        seen: the numbers of the steps that were crossed.
        looks: `(points, num_heads)`, how much each head looks at the second token; None under the lid.
    """
    t = places.numpy()
    figure = new_figure(_alt(places, moved, found, at, seen, looks), (8.0, 3.2 if looks is None else 4.6))
    if looks is None:
        graph = figure.subplots()
    else:
        graph, inside = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        ends = (t[0], t[-1], looks.shape[1] - 0.5, -0.5)
        inside.imshow(
            looks.T.numpy(), aspect="auto", extent=ends, cmap=COLOUR_MAP, vmin=0, vmax=1, interpolation="nearest"
        )
        inside.set(ylabel="head", yticks=range(0, looks.shape[1], max(1, looks.shape[1] // 8)))
        inside.set_title("inside: each head's attention to the second token (dark 0, bright 1)", fontsize=9)
        inside.axvline(t[at], color="white", lw=2)
    graph.plot(t, moved[:, :_MOST_LINES].numpy(), color=_LINES, lw=0.8)
    graph.axvline(t[at], color=_HERE, lw=2)
    for step in (found.steps[number] for number in seen):
        colour = COLOURS[step.letter % len(COLOURS)]
        x = (t[step.middle] + t[step.middle + 1]) / 2
        box = {"fc": colour, "ec": "black", "boxstyle": "round,pad=0.2"}
        graph.text(x, 0.97, letter_name(step.letter), transform=graph.get_xaxis_transform(), ha="center", va="top",
                   fontsize=8, bbox=box)  # fmt: skip
    graph.margins(y=0.16)  # room for the letters
    graph.set(xlim=(t[0], t[-1]), ylabel="added to the output")
    graph.set_title("a sealed box: what the second token adds to the output, a line for each feature", fontsize=9)
    figure.axes[-1].set_xlabel("t")
    return figure


def _alt(places: Tensor, moved: Tensor, found: Found, at: int, seen: list[int], looks: Tensor | None) -> str:
    steps = [found.steps[number] for number in seen]
    crossed = [f"{letter_name(step.letter)} near t = {places[step.middle]:.3g}" for step in steps[:_MOST_NAMED]]
    more = f" and {len(steps) - _MOST_NAMED} more" if len(steps) > _MOST_NAMED else ""
    inside = "The lid is on."
    if looks is not None:
        shown = ", ".join(f"{look:.2f}" for look in looks[at, :_MOST_NAMED].tolist())
        inside = f"Open: at this t its {looks.shape[1]} heads look at the second token by {shown}."
    return (
        f"A sealed box at t = {places[at]:.3g}, on a line from {places[0]:g} to {places[-1]:g}: how far a second token "
        f"moves each of the {moved.shape[1]} features of the output. {found.remark or 'It moves in steps.'} "
        f"Steps crossed so far: {', '.join(crossed) or 'none'}{more}. {inside}"
    )

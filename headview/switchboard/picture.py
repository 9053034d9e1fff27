"""The static picture of a HeadSwitchboard: the switches, what each would do, and the scores on the way here."""

import math

from matplotlib.patches import Rectangle

from headview.switchboard.table import Table
from mhalib.plots import COLOURS, DescribedFigure, new_figure

_ON = "#0057A8"
_OFF_EDGE = "#595959"
_NAMED = 12  # heads: more of them are counted, not named; a row or a column of more switches carries no text
_MOST_TICKS = 16
_TITLE, _SAID = 110, 130  # characters that fit the width


def board_figure(table: Table, setting: str, way: list[str], score_name: str, failure: str | None) -> DescribedFigure:
    """Return the picture of a board.

    Args:
        table: what was measured, all heads on at least.
        setting: the present one.
        way: the settings that led there.
        score_name: what the score is called.
        failure: why the present setting could not be measured; None where it was.
    """
    layers, heads = table.shape
    off = [at for at, digit in enumerate(setting) if digit == "0"]
    told = f"{score_name} not measured: {failure}" if failure else f"{score_name} {_score(table, setting)}"
    said = _sentence(table, setting) if table.labels and not failure else ""
    names = ", ".join(_name(table, at) for at in off[:_NAMED])
    more = f" and {len(off) - _NAMED} more" if len(off) > _NAMED else ""
    figure = new_figure(
        f"{told}. Switched off: {names or 'no head'}{more}, of {layers} x {heads} layers and heads."
        + (f" The model says: {said}." if said else ""),
        (9.0, 1.2 + max(2.4, min(5.0, 0.45 * layers))),
    )
    board, history = figure.subplots(1, 2, width_ratios=(1.3, 1))
    figure.suptitle(_cut(told, _TITLE), fontsize=10, parse_math=False)
    _draw_board(board, table, setting)
    _draw_history(history, table, setting, way)
    history.set_ylabel(score_name[:40], parse_math=False)
    if said:
        figure.supxlabel(_cut(said, _SAID), fontsize=9, parse_math=False)
    return figure


def _score(table: Table, setting: str) -> str:
    score, start = table.scores[setting], table.scores[table.all_on]
    if setting == table.all_on:
        return _number(score)
    return f"{_number(score)}, {_signed(score - start)} against all heads on ({_number(start)})"


def _name(table: Table, at: int) -> str:
    layer, head = divmod(at, table.shape[1])
    return f"layer {layer} head {head}" if table.shape[0] > 1 else f"head {head}"


def _sentence(table: Table, setting: str) -> str:
    marks = {True: " ✓", False: " ✗", None: ""}
    return ", ".join(f"{label} {said}{marks[right]}" for label, said, right in table.answers(setting))


def _draw_board(axes, table: Table, setting: str) -> None:
    """Draw a square a head, and in it, where there is room, what switching just this one would do."""
    layers, heads = table.shape
    for at, digit in enumerate(setting):
        (y, x), on = divmod(at, heads), digit == "1"
        look = {"fc": _ON} if on else {"fc": "white", "ec": _OFF_EDGE, "hatch": "//"}
        axes.add_patch(Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, **look))
        effect = table.effect(setting, at)
        text = ("on" if on else "off") + ("" if effect is None else f"\n{_signed(effect)}")
        field = {} if on else {"bbox": {"fc": "white", "ec": "none", "pad": 1}}
        if heads <= _NAMED and layers <= _NAMED:
            size, ink = (8 if heads <= 8 else 6), "white" if on else "black"
            axes.text(x, y, text, color=ink, fontsize=size, ha="center", va="center", **field)
    axes.set(xlim=(-0.6, heads - 0.4), ylim=(layers - 0.4, -0.6), xlabel="head", ylabel="layer")
    axes.set_xticks(range(0, heads, math.ceil(heads / _MOST_TICKS)))
    axes.set_yticks(range(0, layers, math.ceil(layers / _MOST_TICKS)))
    axes.set_frame_on(False)
    axes.tick_params(length=0)
    axes.set_title("blue: on; a number: what switching this one would change", fontsize=9)


def _draw_history(axes, table: Table, setting: str, way: list[str]) -> None:
    """Draw the score of the settings on the way here, over the range of all that are known."""
    reached: dict[int, list[float]] = {}
    for known, score in table.scores.items():
        reached.setdefault(known.count("0"), []).append(score)
    low, high = zip(*((min(scores), max(scores)) for scores in reached.values()), strict=True)
    least = 1e-3 * (max(high) - min(low) or 1)  # a line of no length would not be drawn
    axes.vlines(list(reached), low, [h + least for h in high], color=COLOURS[-1], linewidth=7, capstyle="round")
    points = [(known.count("0"), table.scores[known]) for known in way if known in table.scores]
    if points:
        axes.plot(*zip(*points, strict=True), ".-", color=_ON)
    if setting in table.scores:
        axes.plot(setting.count("0"), table.scores[setting], "o", ms=10, mfc="none", mec="black")
    if min(low) >= 0 and max(high) <= 1:
        axes.set_ylim(-0.03, 1.03)
    room = 0.05 * len(setting)
    axes.set_xlim(-room, len(setting) + room)
    axes.set_xlabel("heads off")
    axes.set_title("grey: all settings measured; line: the way here", fontsize=9)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _number(x: float) -> str:
    return f"{x:.{3 if abs(x) < 1000 else 0}f}"


def _signed(x: float) -> str:
    """Write a difference with its sign, and none where it shows as nothing."""
    text = _number(abs(x))
    return text if float(text) == 0 else ("+" if x > 0 else "−") + text

"""The tables of BENCHMARKS.md as bars: what is drawn is what the page says, so nothing is measured here.

`make bench` writes the page and then has this picture drawn.
"""

import re
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mhalib.plots import COLOURS

ALT = (
    "Above, bars: what bertviz, CircuitsVis and interact need to make and to paint the same maps, as "
    "multiples of HeadView. Below, the layer beside torch's and d2l's, what pruning saves, and how long a reader waits."
)
PAGE = Path(__file__).resolve().parents[2] / "BENCHMARKS.md"
OURS, OTHERS, GOAL = COLOURS[6], "#B8B8B8", COLOURS[5]  # told apart by colour-blind readers too
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}  # behind a label, where a line would cross it


def draw() -> Figure:
    return draw_page(PAGE.read_text(encoding="utf-8"), Figure((9, 7), dpi=110, facecolor="white"))


def tables(page: str) -> dict[str, list[list[str]]]:
    """Return the rows of the table under each heading of the page, the first row being its head."""
    found = {}
    for section in page.split("\n## ")[1:]:
        rows = [line.strip().strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
        rows = [[cell.strip().replace("`", "") for cell in row] for row in rows]
        found[section.partition(",")[0].partition("\n")[0]] = [rows[0], *rows[2:]]
    return found


def factor(cell: str) -> float | None:
    """Return the "how many times ours" of a cell: what stands before the × in it."""
    times = re.search(r"([\d.]+(?:e[+-]?\d+)?) ×", cell)
    return float(times[1]) if times else None


def draw_page(page: str, figure: Figure) -> Figure:
    """Draw the page's tables into the figure: above the widgets beside others, below the layer and the waiting."""
    found = tables(page)
    whole = next(rows for title, rows in found.items() if "layers" in title)
    above = figure.add_gridspec(1, 4, left=0.2, right=0.985, top=0.875, bottom=0.5, wspace=0.12)
    places = above.subplots(sharey=True)
    for place, what, column in zip(places, whole[0][1:], (1, 2, 3), strict=False):
        _beside(place, what, [(row[0], row[column]) for row in whole[1:]])
    ours, *others = (row for row in found["A step of a slider"][1:] if "compute" in row[0] or "interact" in row[0])
    steps = {row[0]: row[1] for row in others} | {whole[1][0]: ours[1] + " (1 ×)"}
    _beside(places[3], "a step of a slider", [(row[0], steps.get(row[0], "")) for row in whole[1:]])
    figure.text(0.012, 0.955, f"Widgets: {whole_title(found)}, in multiples of HeadView", fontsize=10, weight="bold")
    figure.text(0.985, 0.957, "logarithmic; shorter is better", fontsize=8, ha="right", color="#5F5F5F")

    below = figure.add_gridspec(
        1, 3, left=0.2, right=0.985, top=0.385, bottom=0.03, wspace=0.8, width_ratios=(5, 3, 2.4)
    )
    layer, pruned, waiting = below.subplots()
    _layer(layer, found["The layer"])
    _pruned(pruned, found["Pruned heads"])
    _waiting(waiting, found["Targets"])
    return figure


def whole_title(found: dict[str, list[list[str]]]) -> str:
    return next(title for title in found if "layers" in title)


def _bare(place: Axes) -> None:
    place.spines[["top", "right", "bottom"]].set_visible(False)
    place.tick_params(length=0, labelsize=8)
    place.set_xticks([])


def _beside(place: Axes, what: str, cells: list[tuple[str, str]]) -> None:
    """One bar for each way to look at attention, on a logarithmic scale from a twentieth of ours."""
    low, high = 0.03, 30_000
    for at, (_, cell) in enumerate(cells):
        times = factor(cell)
        if times:
            place.barh(at, times, left=low, color=OURS if at < 2 else OTHERS, height=0.66)
        text = cell.partition(" (")[0] if times else "as above" if cell.startswith("as above") else "–"
        place.text(times * 1.25 if times else low * 1.2, at, text, va="center", fontsize=8, bbox=PAPER)
    place.set_xscale("log")
    place.minorticks_off()
    place.set(xlim=(low, high), ylim=(len(cells) - 0.4, -0.6))
    place.axvline(1, color=OURS, linewidth=0.8, linestyle=":")
    place.set_yticks(range(len(cells)), [name for name, _ in cells])
    place.set_title(what, fontsize=8.5, loc="left")
    _bare(place)


def _layer(place: Axes, rows: list[list[str]]) -> None:
    names, at = rows[0][1:], 0
    ticks = {}
    for row in rows[1:]:
        for name, cell in zip(names, row[1:], strict=True):
            times = factor(cell)
            place.barh(at, times, color=OURS if name == names[0] else OTHERS, height=0.8)
            place.text(times + 0.02, at, f"{times:.2f} ×", va="center", fontsize=8, bbox=PAPER)
            place.text(0.02, at, name, va="center", fontsize=8, color="white" if name == names[0] else "black")
            at += 1
        ticks[at - 2] = row[0].replace(", ", ",\n")
        at += 0.7
    place.axvline(1, color=OURS, linewidth=0.8, linestyle=":")
    place.set_yticks(list(ticks), list(ticks.values()))
    place.set(ylim=(at - 1, -0.7), xlim=(0, 1.7))
    place.set_title("The layer, time", fontsize=8.5, loc="left", weight="bold")
    _bare(place)


def _pruned(place: Axes, rows: list[list[str]]) -> None:
    for at, row in enumerate(rows[1:]):
        for step, (cell, colour) in enumerate(zip(row[1:3], (OTHERS, OURS), strict=True)):
            share = factor(cell)
            place.barh(at + 0.36 * step, share, color=colour, height=0.34)
            place.text(share + 0.02, at + 0.36 * step, f"{share:.2f}", va="center", fontsize=8)
    place.set_yticks([at + 0.18 for at in range(len(rows) - 1)], [f"{row[0]} heads left" for row in rows[1:]])
    place.set(ylim=(len(rows) - 1.4, -0.6), xlim=(0, 1))
    place.set_title("Pruned, what is left", fontsize=8.5, loc="left", weight="bold")
    place.text(0.02, -0.4, "grey: operations, blue: time", fontsize=8, va="center")
    _bare(place)


def _waiting(place: Axes, rows: list[list[str]]) -> None:
    """What a reader waits for, as a share of the goal."""
    waits = []
    for name, here, _ in rows[1:]:
        goal = re.match(r"(all lessons|import mhalib|a first make lab).* (?:≤|in ≤) (?:torch \+ )?([\d.]+) (\w+)", name)
        if goal:
            waits.append((goal[1], here, float(re.search(r"[\d.]+", here)[0]), float(goal[2]), goal[3]))
    for at, (_, here, spent, goal, unit) in enumerate(waits):
        share = spent / (60 * goal if here.endswith(" s") and unit.startswith("minute") else goal)
        place.barh(at, share, color=OURS, height=0.5)
    names = [
        f"{name.removeprefix('a ')}\n{here} of {goal:g} {unit.replace('minutes', 'min')}"
        for name, here, _, goal, unit in waits
    ]
    place.set_yticks(range(len(waits)), names)
    place.axvline(1, color=GOAL, linewidth=1)
    place.text(1, -0.62, "goal ", fontsize=8, color=GOAL, ha="right", va="center")
    place.set(ylim=(len(waits) - 0.4, -0.8), xlim=(0, max(1.1, *place.get_xlim())))
    place.set_title("Waiting", fontsize=8.5, loc="left", weight="bold")
    _bare(place)

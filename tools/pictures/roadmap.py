"""The lessons as stops of a road. Titles come from the notebooks, the places from how many there are."""

import math
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch
from matplotlib.path import Path as Curve

from mhalib.plots import COLOURS
from tools.notebooks.lessons import QUICK_ROUTE, lessons
from tools.pictures.drawing import INK, TINTS, canvas, say

ALT = (
    "The lessons as a road with turns: 00 to 06 build the layer, 07 to 09 ask what several heads change, 10 to 12 "
    "look at trained heads, 13 to 19 at positions, trouble, tests, reasons, and models in use. "
    f"The quick route: {', '.join(QUICK_ROUTE[:-1])} and {QUICK_ROUTE[-1]}."
)
WIDTH, TOP, EDGE, BEND = 9, 0.5, 0.7, 1.28  # inches; EDGE is left of the legend, BEND where the road turns
MOST = 7  # stops in a row
LEGEND, LINE = 0.35, 0.17  # inches below the last row, and from one line of a title to the next
QUICK = "the quick route: the essentials, in two hours"
STOP, PALE_STOP = COLOURS[6], TINTS[0]
WIDEST = 1.3  # inches between two stops: of a wider title, half would not find room left of the first one


def draw() -> Figure:
    """Draw the lessons in rows of equal length, every second one from right to left."""
    stops = lessons()
    rows = math.ceil(len(stops) / MOST)
    in_row = math.ceil(len(stops) / rows)
    step = min(WIDEST, (WIDTH - 2 * BEND) / (in_row - 1))
    titles = [textwrap.wrap(lesson.title, int(13 * step), break_on_hyphens=False) for lesson in stops]
    heights, y = [], TOP
    for row in range(rows):
        heights.append(y)
        y += 0.9 + LINE * max(map(len, titles[row * in_row :][:in_row]))
    figure, axes = canvas(WIDTH, y - 0.3 + LEGEND)
    places = []
    for number in range(len(stops)):
        row, column = divmod(number, in_row)
        places.append((BEND + step * (in_row - 1 - column if row % 2 else column), heights[row]))
    pave(axes, places, in_row)
    for lesson, place, title in zip(stops, places, titles, strict=True):
        mark(axes, place, lesson.number, lesson.quick)
        for number, line in enumerate(title):
            say(axes, place[0], place[1] + 0.5 + LINE * number, line, 9, va="baseline", weight="bold")
    at = EDGE / 2, y - 0.3 + LEGEND / 2 - 0.1
    mark(axes, at, "", True, 0.4)
    say(axes, at[0] + 0.2, at[1], QUICK, 9, ha="left")
    return figure


def pave(axes: Axes, places: list[tuple[float, float]], in_row: int) -> None:
    """Draw the road: straight along a row, and round to the next one."""
    points, codes = [places[0]], [Curve.MOVETO]
    for number, (here, there) in enumerate(zip(places, places[1:], strict=False), 1):
        if number % in_row:
            points.append(there)
            codes.append(Curve.LINETO)
        else:
            out = BEND if here[0] > WIDTH / 2 else -BEND
            points += [(here[0] + out, here[1]), (there[0] + out, there[1]), there]
            codes += [Curve.CURVE4] * 3
    axes.add_patch(PathPatch(Curve(points, codes), fill=False, edgecolor="#BBBBBB", linewidth=7, capstyle="butt"))


def mark(axes: Axes, place: tuple[float, float], number: str, quick: bool, size: float = 1.0) -> None:
    """Draw a stop. On the quick route it is darker and has a ring, so that nobody needs to see colours."""
    if quick:
        axes.add_patch(Circle(place, 0.3 * size, facecolor="white", edgecolor=STOP, linewidth=2.5 * size, zorder=3))
    fill = STOP if quick else PALE_STOP
    axes.add_patch(Circle(place, 0.23 * size, facecolor=fill, edgecolor=STOP, linewidth=1.2, zorder=3))
    say(axes, *place, number, 11, weight="bold", color="white" if quick else INK, zorder=4)

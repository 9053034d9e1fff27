"""SealedBox: turn t, see the output of a layer move in steps, and tell what its hidden heads do before it is opened.

Python asks the box once, when the widget is made (`ask.py`), and finds the steps (`plateaus.py`); all the rest happens
in the view, which therefore needs no kernel.
"""

import math
from collections.abc import Callable
from numbers import Real

import traitlets
from jaxtyping import Float
from torch import Tensor

from headview.base import Checked, Refused, View, check_truth, float_bytes, is_number, is_whole, static
from headview.sealed_box import ask
from headview.sealed_box.plateaus import Step, find_steps, letter_name
from mhalib.plots import COLOUR_MAP, COLOURS, LINE_COLOURS, DescribedFigure, new_figure

_MOST_LINES = 64  # features in the picture
_MOST_NAMED = 12  # steps, and heads, in its text


class SealedBox(View):
    """A layer in a box: ask it along a line of tokens c = start + t direction, and read its heads from its answers.

    For each of `points` values of t from -reach to reach the box is asked, once and in float64, how far a second token
    moves its output at the first: `f([c, c + probe])[0] - f([c])[0]`. Far out every softmax is a switch, so that this
    moves in steps. Steps along the same vector, up to sign, share a letter.

    `t`, `opened` and `steps_seen` (the numbers of the steps that were crossed, from the left) can be set from a cell
    and the view follows; what the reader does in the view stands in them afterwards.

    Args:
        f: the box, from `(B, T, d_model)` to `(B, T, d_model)`, float64; it runs without gradients.
        d_model: features of a token.
        start: `(d_model,)`, the middle of the line; a length of 1e5 is far out for most layers.
        direction: `(d_model,)`, in which t goes, of about the same length.
        probe: `(d_model,)`, the difference of the second token to the first, of length 1 or so.
        reach: where t ends on both sides.
        points: how many values of t are asked, 2 to 5,000.
        heads: what the lid covers: a function from c `(N, d_model)` to `(N, num_heads)`, the true attention of the
            query c to its second token c + probe. Without it there is nothing to open.

    Raises:
        TypeError: `f` or `heads` is no function or returns no floating tensor, or a vector is none.
        ValueError: a shape, a size or a number does not fit; later, when it is set: `t` beyond the line, a step that
            does not exist, `opened` where there is nothing to open. What `f` and `heads` raise comes through.

    Taught in notebook 15.
    """

    _esm = static("sealed_box.js")
    _css = static("sealed_box.css")

    t = traitlets.TraitType().tag(sync=True)
    opened = Checked(False, check_truth).tag(sync=True)
    steps_seen = traitlets.TraitType().tag(sync=True)
    reach = traitlets.Float().tag(sync=True)
    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # points, d_model, heads; no heads where nobody knows
    moved = traitlets.Bytes().tag(sync=True)  # float32, a row for each point
    steps = traitlets.List().tag(sync=True)  # a `Step` each
    vectors = traitlets.Bytes().tag(sync=True)  # float32, a row for each letter
    inside = traitlets.Bytes().tag(sync=True)  # float32, a row of heads for each point
    flips = traitlets.List().tag(sync=True)  # for each head the numbers of the steps at which it turns
    remark = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        f: Callable[[Float[Tensor, "batch tokens d_model"]], Float[Tensor, "batch tokens d_model"]],
        d_model: int,
        *,
        start: Float[Tensor, " d_model"],
        direction: Float[Tensor, " d_model"],
        probe: Float[Tensor, " d_model"],
        reach: Real,
        points: int = 801,
        heads: Callable[[Float[Tensor, "points d_model"]], Float[Tensor, "points num_heads"]] | None = None,
    ):
        ask.check_given(f, d_model, points, reach, heads)
        given = {"start": start, "direction": direction, "probe": probe}
        start, direction, probe = (ask.vector(name, x, d_model) for name, x in given.items())
        self._places = ask.places(points, float(reach))
        c = ask.line(start, direction, probe, self._places)
        self._moved, noise = ask.moved(f, c, probe)
        self._looks = None if heads is None else ask.looks(heads, c)
        self._found = find_steps(self._moved, noise)
        super().__init__(
            reach=float(reach),
            steps_seen=[],
            sizes=[points, d_model, 0 if heads is None else self._looks.shape[1]],
            moved=float_bytes(self._moved),
            steps=[list(step) for step in self._found.steps],
            vectors=float_bytes(self._found.vectors),
            inside=b"" if heads is None else float_bytes(self._looks),
            flips=self._turns(),
            remark=self._found.remark,
        )

    def figure(self) -> DescribedFigure:
        """Return the output along the line, with what was crossed and, if it is open, what the heads do."""
        t, at, steps = self._places.numpy(), self._at(self.t), [self._found.steps[number] for number in self.steps_seen]
        ratios = (2, 1) if self.opened else (1,)
        figure = new_figure(self._alt(at, steps), (8.0, 4.6 if self.opened else 3.2))
        panels = figure.subplots(len(ratios), sharex=True, squeeze=False, height_ratios=ratios)
        graph, *below = panels[:, 0]
        for inside in below:
            ends = (t[0], t[-1], self._looks.shape[1] - 0.5, -0.5)
            look = {"cmap": COLOUR_MAP, "vmin": 0, "vmax": 1, "interpolation": "nearest"}
            inside.imshow(self._looks.T.numpy(), aspect="auto", extent=ends, **look)
            inside.set_title("inside: each head's weight of the second token, white 0, dark 1", fontsize=9)
            inside.axvline(t[at], color=LINE_COLOURS[0], lw=2)
            inside.set_ylabel("head")
        graph.plot(t, self._moved[:, :_MOST_LINES].numpy(), color=LINE_COLOURS[7], lw=0.8)
        graph.axvline(t[at], color=LINE_COLOURS[0], lw=2)
        for step in steps:
            box = {"fc": COLOURS[step.letter % len(COLOURS)], "ec": "black", "boxstyle": "round,pad=0.2"}
            place = {"transform": graph.get_xaxis_transform(), "ha": "center", "va": "top"}
            graph.text(t[step.middle], 0.97, letter_name(step.letter), fontsize=8, bbox=box, **place)
        graph.margins(y=0.16)  # room for the letters
        graph.set(xlim=(t[0], t[-1]), ylabel="moved by")
        graph.set_title(
            "how far the second token moves the output of a sealed box, a line for each feature", fontsize=9
        )
        figure.axes[-1].set_xlabel("t")
        return figure

    def _alt(self, at: int, steps: list[Step]) -> str:
        signed = [
            f"{'+' if s.sign > 0 else '−'}{letter_name(s.letter)} near t = {self._places[s.middle]:.3g}" for s in steps
        ]
        more = f" and {len(steps) - _MOST_NAMED} more" if len(steps) > _MOST_NAMED else ""
        inside = "The lid is on."
        if self.opened:
            shown = ", ".join(f"{look:.2f}" for look in self._looks[at, :_MOST_NAMED].tolist())
            inside = f"Open: at this t its {self._looks.shape[1]} heads look at the second token by {shown}."
        return (
            f"A sealed box at t = {self._places[at]:.3g}, on a line from {-self.reach:g} to {self.reach:g}: how far a "
            f"second token moves each of the {self.sizes[1]} features of the output. "
            f"{self.remark or 'It moves in steps.'} "
            f"Steps crossed so far: {', '.join(signed[:_MOST_NAMED]) or 'none'}{more}. {inside}"
        )

    def _at(self, t: float) -> int:
        """Return the number of the point next to t, as `pointAt` in `box.js` does."""
        points = len(self._places)
        return math.floor((t + self.reach) / (2 * self.reach) * (points - 1) + 0.5)

    def _turns(self) -> list[list[int]]:
        """Return at which steps each head changes the token it looks at, the numbers of steps."""
        if self._looks is None:
            return []
        steps = enumerate(self._found.steps)
        turns = [(number, (self._looks[step.after] - self._looks[step.before]).abs() > 0.5) for number, step in steps]
        return [[number for number, turn in turns if turn[head]] for head in range(self._looks.shape[1])]

    # ---------------------------------------------------------------- what can be set

    @traitlets.default("t")
    def _first_t(self):
        return -self.reach

    @traitlets.validate("t")
    def _check_t(self, proposal):
        t = proposal["value"]
        if not is_number(t) or abs(t) > self.reach:
            raise Refused(f"t={t!r} is not on the line; choose a number from {-self.reach:g} to {self.reach:g}")
        return float(t)

    @traitlets.validate("opened")
    def _check_opened(self, proposal):
        if proposal["value"] and self._looks is None:
            raise Refused("opened=True: nobody knows what is in this box; give heads=… when it is made")
        return proposal["value"]

    @traitlets.validate("steps_seen")
    def _check_seen(self, proposal):
        seen, count = proposal["value"], len(self._found.steps)
        if not isinstance(seen, (list, tuple)) or not all(is_whole(n) and 0 <= n < count for n in seen):
            raise Refused(f"steps_seen={seen!r} is no list of steps; this line has {count}, counted from 0")
        return sorted(set(seen))

    @traitlets.observe("t")
    def _cross(self, change):
        """Remember the steps between the old t and the new one; the view, when it moves, sends them itself."""
        low, high = sorted(map(self._at, (change["old"], change["new"])))
        crossed = {number for number, step in enumerate(self._found.steps) if low <= step.middle < high}
        self.steps_seen = [*self.steps_seen, *crossed]

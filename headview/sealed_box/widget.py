"""SealedBox: turn t, see the output of a layer move in steps, and tell what its hidden heads do before it is opened.

Python asks the box once, when the widget is made (`inputs.py`), and finds the steps (`plateaus.py`); all the rest
happens in the view, which therefore needs no kernel.
"""

import math
from collections.abc import Callable
from numbers import Real

import numpy as np
import traitlets
from jaxtyping import Float
from torch import Tensor

from headview.base import Refused, View, is_whole, static
from headview.sealed_box import inputs
from headview.sealed_box.picture import box_figure
from headview.sealed_box.plateaus import find_steps, letter_name
from mhalib.plots import DescribedFigure


class SealedBox(View):
    """A layer in a box: ask it along a line of tokens c = start + t direction, and read its heads from its answers.

    For each of `points` values of t from -reach to reach the box is asked, once and in float64, how far a second token
    moves its output at the first: `f([c, c + probe])[0] - f([c])[0]`. Far out every softmax is a switch, so that this
    moves in steps. Steps along the same vector, up to sign, share a letter.

    `t`, `opened` and `steps_seen` (the numbers of the steps that were crossed, from the left) can be set from a cell
    and the view follows; what the reader does in the view stands in them afterwards. `open` is another name of
    `opened`. `now` is the vector at t, `written` holds the vectors of the letters that were crossed so far.

    Args:
        f: the box, from `(B, T, d_model)` to `(B, T, d_model)`, float64; it runs without gradients.
        d_model: features of a token.
        start: `(d_model,)`, the middle of the line; a length of 1e5 is far out for most layers.
        direction: `(d_model,)`, in which t goes, of about the same length.
        probe: `(d_model,)`, the difference of the second token to the first, of length 1 or so.
        reach: where t ends on both sides.
        points: how many values of t are asked, 2 to 20,000.
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

    _made = False  # is the constructor through?
    t = traitlets.TraitType().tag(sync=True)
    opened = traitlets.TraitType(False).tag(sync=True)
    steps_seen = traitlets.TraitType().tag(sync=True)
    reach = traitlets.Float().tag(sync=True)
    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # points, d_model, heads; no heads where nobody knows
    moved = traitlets.Bytes().tag(sync=True)  # float32, a row for each point
    plateaus = traitlets.Bytes().tag(sync=True)  # int32, first and last point of each
    steps = traitlets.Bytes().tag(sync=True)  # int32, a row of a `Step` for each
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
        inputs.check_given(f, d_model, points, reach, heads)
        given = {"start": start, "direction": direction, "probe": probe}
        start, direction, probe = (inputs.vector(name, x, d_model) for name, x in given.items())
        self._places = inputs.places(points, float(reach))
        c = inputs.line(start, direction, probe, self._places)
        self._moved, noise = inputs.moved(f, c, probe)
        self._looks = None if heads is None else inputs.looks(heads, c)
        self._found = find_steps(self._moved, noise)
        super().__init__(
            reach=float(reach),
            sizes=[points, d_model, 0 if heads is None else self._looks.shape[1]],
            moved=_packed(self._moved, "<f4"),
            plateaus=_packed(self._found.plateaus, "<i4"),
            steps=_packed(self._found.steps, "<i4"),
            vectors=_packed(self._found.vectors, "<f4"),
            inside=b"" if heads is None else _packed(self._looks, "<f4"),
            flips=self._turns(),
            remark=self._found.remark,
        )
        self._made = True

    @property
    def open(self):
        """Another name of `opened`; ipywidgets calls its own method of this name once, while a widget is made.

        marimo has opened the comm by then, so that the comm alone does not tell.
        """
        return self.opened if self._made and self.comm is not None else super().open

    @open.setter
    def open(self, opened: bool) -> None:
        self.opened = opened

    @property
    def now(self) -> Float[Tensor, " d_model"]:
        """How far the second token moves the output at the present t, or the point next to it; float64."""
        return self._moved[self._at(self.t)]

    @property
    def written(self) -> dict[str, Tensor]:
        """The vectors of the steps that were crossed so far, by letter; float64, the largest feature positive."""
        letters = sorted({self._found.steps[number].letter for number in self.steps_seen})
        return {letter_name(letter): self._found.vectors[letter] for letter in letters}

    def figure(self) -> DescribedFigure:
        """Return the output along the line, with what was crossed and, if it is open, what the heads do."""
        return box_figure(self._places, self._moved, self._found, self._at(self.t), self.steps_seen, self._shown())

    def _shown(self) -> Tensor | None:
        return self._looks if self.opened else None

    def _at(self, t: float) -> int:
        """Return the number of the point next to t, as `pointAt` in `draw.js` does."""
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

    @traitlets.default("steps_seen")
    def _none_seen(self):
        return []

    @traitlets.validate("t")
    def _check_t(self, proposal):
        t = proposal["value"]
        # written so that NaN is refused too
        if isinstance(t, bool) or not isinstance(t, Real) or not -self.reach <= t <= self.reach:
            raise Refused(f"t={t!r} is not on the line; choose a number from {-self.reach:g} to {self.reach:g}")
        return float(t)

    @traitlets.validate("opened")
    def _check_opened(self, proposal):
        opened = proposal["value"]
        if not isinstance(opened, bool):
            raise Refused(f"opened={opened!r} is not known; choose True or False")
        if opened and self._looks is None:
            raise Refused(f"opened={opened!r}: nobody knows what is in this box; give heads=… when it is made")
        return opened

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
        if not crossed <= set(self.steps_seen):
            self.steps_seen = [*self.steps_seen, *crossed]


def _packed(rows, kind: str) -> bytes:
    return np.asarray(rows).astype(kind).tobytes()

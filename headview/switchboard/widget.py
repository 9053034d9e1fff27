"""HeadSwitchboard: switch heads off by hand, and see at once what the model loses.

Python measures settings of the switches with the function it is given and remembers them in a table (`table.py`); the
view shows them. Of few heads every setting is measured when the board is made, so that it answers without a kernel
as well. How a model runs with heads switched off is the business of that function.
"""

import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np
import torch
import traitlets
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from headview.base import Refused, View, check_choice, static
from headview.switchboard.measure import told_of
from headview.switchboard.picture import board_figure
from headview.switchboard.table import Table, flipped
from mhalib.arguments import check_size
from mhalib.plots import DescribedFigure

PRECOMPUTE = ("all", "each", "none")
_AT_ONCE = 10  # heads: 1024 settings
_AT_MOST = 12  # heads: 4096 settings
_MOST_HEADS = 1024
_VISITED = 200  # settings to which undo leads back


class HeadSwitchboard(View):
    """A switch for every head of a model: what is the score, and what does the model say, without these heads?

    Args:
        measure: is given the switches, `(num_layers, num_heads)` float32, 1 where a head is on, and returns the
            score, a finite number; or the pair `(score, answers)`, where the answers show one example: a list of
            `(label, said, right)`, such as `("3 →", "7", False)`. `right` is True, False, or None for no judgement;
            the labels are the same for every setting. It runs without gradients.
        num_layers: rows of the board.
        num_heads: heads in each layer.
        score_name: what the score is called.
        precompute: what is measured when the board is made. "all": every setting, 2 to the power of all heads, at
            most 12 of them; such a board needs no kernel afterwards. "each": all heads on, and each head alone off.
            "none": all heads on. What is missing is measured when the reader asks for it. When left out, "all" up
            to 10 heads and "none" beyond.

    `gates` is the present setting, a list of lists of 0 and 1; a cell can read it and set it as a whole, to a tensor
    as well. `score` and `answers` belong to it, `measured` is all that is known so far.

    Raises:
        TypeError: `measure` is no function, or returns something else than said above.
        ValueError: a size, a choice or a number does not fit; later, when it is set: the gates. What `measure`
            raises comes through, but for a setting that the reader asks for in the view, which shows it as text.

    Taught in notebook 11.
    """

    _esm = static("switchboard.js")
    _css = static("switchboard.css")

    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # layers, heads
    score_name = traitlets.Unicode().tag(sync=True)
    gates = traitlets.TraitType().tag(sync=True)
    visited = traitlets.TraitType().tag(sync=True)  # settings on the way to the present one, the last; for undo
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)  # of the answers
    # What is known, a row for each setting that was measured, as `Table.packed` lays it out.
    settings = traitlets.Bytes().tag(sync=True)
    scores = traitlets.Bytes().tag(sync=True)
    said = traitlets.Bytes().tag(sync=True)
    phrases = traitlets.List().tag(sync=True)
    failures = traitlets.Dict().tag(sync=True)  # setting: [what was raised, how often]

    def __init__(
        self,
        measure: Callable[[Float[Tensor, "layers heads"]], float | tuple],
        num_layers: int,
        num_heads: int,
        *,
        score_name: str = "accuracy",
        precompute: str | None = None,
    ):
        _check_arguments(measure, num_layers, num_heads, score_name)
        precompute = _choose_precompute(precompute, num_layers * num_heads)
        self._measure = measure
        self._table = Table(measure, num_layers, num_heads)
        settings, total = _settings(precompute, self._table.all_on)
        for setting in tqdm(settings, total=total, unit="setting", leave=False, disable=total == 1):
            self._table.add(setting)
        super().__init__(
            sizes=[num_layers, num_heads],
            score_name=score_name,
            gates=[[1] * num_heads for _ in range(num_layers)],
            visited=[self._table.all_on],
            labels=self._table.labels,
            **self._table.packed(),
        )
        self.on_msg(self._answer)

    @property
    def score(self) -> float:
        """The score of the present setting, measured now if that was not done yet."""
        return self._known(self._setting)

    @property
    def answers(self) -> list[tuple[str, str, bool | None]]:
        """What the model says in the present setting: `(label, said, right)`."""
        self._known(self._setting)
        return self._table.answers(self._setting)

    @property
    def measured(self) -> tuple[Float[Tensor, "settings layers heads"], Float[Tensor, " settings"]]:
        """All settings measured so far, float32, and their scores, float64."""
        return self._table.tensors()

    def figure(self) -> DescribedFigure:
        """Return the switches, what each would do, and the scores on the way here as a static picture."""
        failure = None
        try:
            self._known(self._setting)
        except Exception as error:  # a picture is no place to fail: `score` raises it
            failure = told_of(error, self._measure)
        return board_figure(self._table, self._setting, self.visited, self.score_name, failure)

    # ---------------------------------------------------------------- measuring

    @property
    def _setting(self) -> str:
        return "".join(str(gate) for row in self.gates for gate in row)

    def _known(self, setting: str) -> float:
        """Return the score of a setting; if it is new, measure it and tell the views."""
        if setting not in self._table.scores:
            self._table.add(setting)
            with self.hold_sync():
                self.failures = {key: failure for key, failure in self.failures.items() if key != setting}
                for name, value in self._table.packed().items():
                    setattr(self, name, value)
        return self._table.scores[setting]

    def _answer(self, _widget, content, _buffers) -> None:
        """Measure what a view asks for; there is no cell that could show an error, so the view does."""
        setting = content.get("measure") if isinstance(content, dict) else None
        if not self._is_setting(setting):
            return
        try:
            self._known(setting)
        except (Exception, KeyboardInterrupt) as error:  # an interrupted kernel is no reason to wait for ever
            times = self.failures.get(setting, ["", 0])[1] + 1
            self.failures = {**self.failures, setting: [told_of(error, self._measure), times]}

    # ---------------------------------------------------------------- what can be set

    def _is_setting(self, value: object) -> bool:
        return isinstance(value, str) and len(value) == math.prod(self._table.shape) and set(value) <= {"0", "1"}

    @traitlets.validate("gates")
    def _check_gates(self, proposal):
        layers, heads = self._table.shape
        given = proposal["value"]
        holds_numbers = isinstance(given, np.ndarray) or (
            isinstance(given, Tensor) and given.layout == torch.strided and not given.is_meta
        )
        rows = given.tolist() if holds_numbers else given
        as_rows = isinstance(rows, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in rows)
        fits = as_rows and [len(row) for row in rows] == [heads] * layers
        if not fits or not all(isinstance(gate, (int, float)) and gate in (0, 1) for row in rows for gate in row):
            raise Refused(
                f"gates must be {layers} row{'s' * (layers > 1)}, one a layer, of {heads} number{'s' * (heads > 1)}, "
                f"one a head: 1 for on, 0 for off; got {repr(given)[:300]}"
            )
        return [[int(gate) for gate in row] for row in rows]

    @traitlets.validate("visited")
    def _check_visited(self, proposal):
        given = proposal["value"]
        if not isinstance(given, (list, tuple)) or not given or not all(map(self._is_setting, given)):
            raise Refused(f"visited is a list of settings, one digit a head, got {repr(given)[:300]}")
        return list(given)[-_VISITED:]

    @traitlets.observe("gates")
    def _go_on(self, _change):
        if self.visited[-1] != self._setting:  # the view sets both
            self.visited = [*self.visited, self._setting]


def _check_arguments(measure: object, num_layers: object, num_heads: object, score_name: object) -> None:
    if not callable(measure):
        raise TypeError(f"measure must be a function of the gates, got {type(measure).__name__}")
    check_size("num_layers", num_layers)
    check_size("num_heads", num_heads)
    if num_layers * num_heads > _MOST_HEADS:
        raise ValueError(
            f"a board holds at most {_MOST_HEADS} heads, got {num_layers} x {num_heads}; take some of the layers"
        )
    if not isinstance(score_name, str) or not score_name.strip():
        raise ValueError(f"score_name must say what is measured, such as 'accuracy', got {score_name!r}")


def _choose_precompute(precompute: object, count: int) -> str:
    if precompute is None:
        return "all" if count <= _AT_ONCE else "none"
    check_choice("precompute", precompute, PRECOMPUTE)
    if precompute == "all" and count > _AT_MOST:
        raise ValueError(
            f"precompute='all' would measure 2**{count} settings; it is for at most {_AT_MOST} heads. "
            "Choose 'each' or 'none'"
        )
    return precompute


def _settings(precompute: str, all_on: str) -> tuple[Iterable[str], int]:
    """Return the settings to be measured when a board is made, all heads on first, and how many they are."""
    count = len(all_on)
    if precompute == "all":
        return map("".join, itertools.product("10", repeat=count)), 2**count
    if precompute == "each":
        return [all_on, *(flipped(all_on, at) for at in range(count))], count + 1
    return [all_on], 1

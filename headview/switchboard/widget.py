"""HeadSwitchboard: switch heads off by hand, and see at once what the model loses.

Python measures settings of the switches with the function it is given and remembers what came; the view shows it. Of
few heads every setting is measured when the board is made, so that it answers without a kernel as well. How a model
runs with heads switched off is the business of that function. A setting is written as one digit a head, layer by layer,
1 where the head is on: "1101" has head 0 of layer 1 off where layers have two heads.
"""

import itertools
import textwrap
from collections.abc import Callable

import numpy as np
import torch
import traitlets
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from headview.base import Refused, View, static
from headview.switchboard.answers import as_score_and_answers, told_of
from mhalib.arguments import check_size
from mhalib.plots import DescribedFigure, plot_attention

_AT_ONCE = 10  # heads: 1024 settings
_MOST_HEADS = 1024
_NAMED = 12  # heads that the text of the picture names
_COLUMNS = 80  # letters in a line below the picture


class HeadSwitchboard(View):
    """A switch for every head of a model: what is the score, and what does the model say, without these heads?

    Args:
        measure: is given the switches, `(num_layers, num_heads)` float32, 1 where a head is on, and returns the
            score, a finite number; or the pair `(score, answers)`, where the answers show one example: a list of
            `(label, said, right)`, such as `("3 →", "7", False)`. `right` is True, False, or None for no judgement;
            the labels are the same for every setting. It runs without gradients.
        num_layers: rows of the board.
        num_heads: heads in each layer. Up to 10 heads in all, every setting is measured when the board is made, and
            it needs no kernel afterwards; of more, all heads on, and the others when the reader asks for them.
        score_name: what the score is called.

    `gates` is the present setting, a list of lists of 0 and 1; a cell can read it and set it as a whole, to a tensor
    as well. `score` and `answers` belong to it.

    Raises:
        TypeError: `measure` is no function, or returns something else than said above.
        ValueError: a size or a number does not fit; later, when it is set: the gates. What `measure` raises comes
            through, but for a setting that the reader asks for in the view, which shows it as text.

    Taught in notebook 11.
    """

    _esm = static("switchboard.js")
    _css = static("switchboard.css")

    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # layers, heads
    score_name = traitlets.Unicode().tag(sync=True)
    gates = traitlets.TraitType().tag(sync=True)
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)  # of the answers
    known = traitlets.Dict().tag(sync=True)  # setting: [score, place in `phrases` of each answer]
    phrases = traitlets.List().tag(sync=True)  # [said, right], each once
    failures = traitlets.Dict().tag(sync=True)  # setting: [what was raised, how often]

    def __init__(
        self,
        measure: Callable[[Float[Tensor, "layers heads"]], float | tuple],
        num_layers: int,
        num_heads: int,
        *,
        score_name: str = "accuracy",
    ):
        if not callable(measure):
            raise TypeError(f"measure must be a function of the gates, got {type(measure).__name__}")
        if not isinstance(score_name, str) or not score_name.strip():
            raise ValueError(f"score_name must say what is measured, such as 'accuracy', got {score_name!r}")
        check_size("num_layers", num_layers)
        check_size("num_heads", num_heads)
        count = num_layers * num_heads
        if count > _MOST_HEADS:
            raise ValueError(
                f"a board holds at most {_MOST_HEADS} heads, got {num_layers} x {num_heads}; take some of the layers"
            )
        self._measure, self._shape, self._all_on = measure, (num_layers, num_heads), "1" * count
        self._found: dict[str, tuple[float, list[tuple[str, str, bool | None]]]] = {}  # by setting: score and answers
        settings = [*map("".join, itertools.product("10", repeat=count))] if count <= _AT_ONCE else [self._all_on]
        for setting in tqdm(settings, unit="setting", leave=False, disable=len(settings) == 1):
            self._add(setting)
        super().__init__(
            sizes=[num_layers, num_heads],
            score_name=score_name,
            gates=[[1] * num_heads for _ in range(num_layers)],
            labels=[label for label, *_ in self._found[self._all_on][1]],
            **self._packed(),
        )
        self.on_msg(self._hear)

    @property
    def score(self) -> float:
        """The score of the present setting, measured now if that was not done yet."""
        return self._measured(self._setting)[0]

    @property
    def answers(self) -> list[tuple[str, str, bool | None]]:
        """What the model says in the present setting: `(label, said, right)`."""
        return self._measured(self._setting)[1]

    def figure(self) -> DescribedFigure:
        """Return the switches as a static picture, and in each what switching just this head off would change."""
        setting, (layers, heads), answers = self._setting, self._shape, []
        try:
            (score, answers), (start, _) = self._measured(setting), self._found[self._all_on]
            title = f"{self.score_name} {score:.3f}"
            told = f"{title}, with all heads on {start:.3f}"
        except Exception as error:  # a picture is no place to fail: `score` raises it
            title = f"{self.score_name} not measured"
            told = f"{title}: {told_of(error, self._measure)}"
        on = torch.tensor(self.gates).bool()
        others = [setting[:at] + "0" + setting[at + 1 :] for at in range(len(setting))]
        whole = all(one in self._found for one in (setting, *others))
        numbers = torch.tensor([self._found[one][0] - score for one in others]).view(self._shape) if whole else on
        figure = plot_attention(
            numbers.float().round(decimals=2) + 0.0,  # -0.00 is 0
            [f"layer {layer}" for layer in range(layers)],
            [f"head {head}" for head in range(heads)],
            mask=on,
            titles=[title],
            kind="signed" if whole else "weights",
        )
        board, bar = figure.axes
        bar.set_ylabel("change" if whole else "1: on")
        off = [f"layer {at // heads} head {at % heads}" for at, digit in enumerate(setting) if digit == "0"]
        names = ", ".join(off[:_NAMED]) + (f" and {len(off) - _NAMED} more" if len(off) > _NAMED else "")
        marks = {True: " ✓", False: " ✗", None: ""}
        said = ", ".join(f"{label}: {text}{marks[right]}" for label, text, right in answers)
        figure.alt = f"{told}. Switched off: {names or 'no head'}, of {layers} x {heads} layers and heads."
        figure.alt += f" The model says: {said}." * bool(said)
        lines = ["numbers: what switching it off would change"] * whole + ["hatched: off"]
        lines += textwrap.wrap(f"The model says: {said}", _COLUMNS) if said else []
        board.set(xlabel="\n".join(lines), ylabel="")
        return figure

    # ---------------------------------------------------------------- measuring

    @property
    def _setting(self) -> str:
        return "".join(str(gate) for row in self.gates for gate in row)

    def _add(self, setting: str) -> None:
        """Measure a setting, without gradients, and keep what comes."""
        with torch.no_grad():
            given = self._measure(torch.tensor([float(digit) for digit in setting]).view(self._shape))
        score, answers = as_score_and_answers(given)
        _, first = self._found.get(self._all_on, (score, answers))
        found, labels = ([label for label, *_ in given] for given in (answers, first))
        if found != labels:
            raise ValueError(
                f"the answers of every setting must carry the same labels, one example in one order: {labels} with all "
                f"heads on, {found} with the heads {setting}"
            )
        self._found[setting] = score, answers

    def _packed(self) -> dict:
        """Return what is known as the view reads it."""
        places: dict[tuple[str, bool | None], int] = {}
        known = {
            setting: [score, [places.setdefault((said, right), len(places)) for _, said, right in answers]]
            for setting, (score, answers) in self._found.items()
        }
        return {"phrases": [list(phrase) for phrase in places], "known": known}

    def _measured(self, setting: str) -> tuple[float, list[tuple[str, str, bool | None]]]:
        """Return score and answers of a setting; if it is new, measure it and tell the views."""
        if setting not in self._found:
            self._add(setting)
            with self.hold_sync():
                self.failures = {key: failure for key, failure in self.failures.items() if key != setting}
                for name, value in self._packed().items():
                    setattr(self, name, value)
        return self._found[setting]

    def _hear(self, _widget, content, _buffers) -> None:
        """Measure what a view asks for; there is no cell that could show an error, so the view does."""
        setting = content.get("measure") if isinstance(content, dict) else None
        if not isinstance(setting, str) or len(setting) != len(self._all_on) or not set(setting) <= {"0", "1"}:
            return
        try:
            self._measured(setting)
        except (Exception, KeyboardInterrupt) as error:  # an interrupted kernel is no reason to wait for ever
            times = self.failures.get(setting, ["", 0])[1] + 1
            self.failures = {**self.failures, setting: [told_of(error, self._measure), times]}

    # ---------------------------------------------------------------- what can be set

    @traitlets.validate("gates")
    def _check_gates(self, proposal):
        (layers, heads), given = self._shape, proposal["value"]
        rows = given.tolist() if isinstance(given, (np.ndarray, Tensor)) else given
        as_rows = isinstance(rows, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in rows)
        fits = as_rows and [len(row) for row in rows] == [heads] * layers
        if not fits or not all(isinstance(gate, (int, float)) and gate in (0, 1) for row in rows for gate in row):
            raise Refused(
                f"gates must be {layers} row{'s' * (layers > 1)}, one a layer, of {heads} number{'s' * (heads > 1)}, "
                f"one a head: 1 for on, 0 for off; got {repr(given)[:300]}"
            )
        return [[int(gate) for gate in row] for row in rows]

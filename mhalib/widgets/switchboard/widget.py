"""HeadSwitchboard: switch heads off by hand, and see at once what the model loses.

Python measures settings of the switches with the function it is given and remembers them; `switchboard.js` shows
them. Of few heads every setting is measured when the board is made, so that it answers without a kernel as well.
How a model runs with heads switched off is the business of that function.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
import traitlets
from jaxtyping import Float
from matplotlib.patches import Rectangle
from torch import Tensor
from tqdm.auto import tqdm

from mhalib.arguments import check_size
from mhalib.plots import DescribedFigure, new_figure
from mhalib.widgets.base import Refused, View, check_choice, module_text, style_text
from mhalib.widgets.switchboard.measure import as_answers, as_score, told_of

PRECOMPUTE = ("all", "each", "none")
_AT_ONCE = 10  # heads: 1024 settings
_AT_MOST = 12  # heads: 4096 settings
_MOST_HEADS = 1024
_VISITED = 200  # settings to which undo leads back
_ON = "#0057A8"

# A setting is written as one digit a head, layer by layer: "1101" has head 0 of layer 1 off where layers have two heads.


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

    _esm = module_text("switchboard", "history.js", "view.js")
    _css = style_text("switchboard")

    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # layers, heads
    score_name = traitlets.Unicode().tag(sync=True)
    gates = traitlets.TraitType().tag(sync=True)
    visited = traitlets.TraitType().tag(sync=True)  # settings on the way to the present one, the last; for undo
    # What is known, a row for each setting that was measured.
    settings = traitlets.Bytes().tag(sync=True)  # (n, layers * heads), a byte each, 1 where a head is on
    scores = traitlets.Bytes().tag(sync=True)  # (n,) float64
    said = traitlets.Bytes().tag(sync=True)  # (n, answers) uint16, places in `phrases`
    phrases = traitlets.List().tag(sync=True)  # [text, right] once each
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)
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
        if not callable(measure):
            raise TypeError(f"measure must be a function of the gates, got {type(measure).__name__}")
        check_size("num_layers", num_layers)
        check_size("num_heads", num_heads)
        count = num_layers * num_heads
        if count > _MOST_HEADS:
            raise ValueError(
                f"a board holds at most {_MOST_HEADS} heads, got {num_layers} x {num_heads}; take some of the layers"
            )
        if not isinstance(score_name, str) or not score_name.strip():
            raise ValueError(f"score_name must say what is measured, such as 'accuracy', got {score_name!r}")
        if precompute is None:
            precompute = "all" if count <= _AT_ONCE else "none"
        check_choice("precompute", precompute, PRECOMPUTE)
        if precompute == "all" and count > _AT_MOST:
            raise ValueError(
                f"precompute='all' would measure 2**{count} settings; it is for at most {_AT_MOST} heads. Choose 'each' or 'none'"
            )
        self._measure, self._shape = measure, (num_layers, num_heads)
        self._scores: dict[str, float] = {}
        self._said: dict[str, list[int]] = {}
        self._phrases: dict[tuple[str, bool | None], int] = {}
        self._labels: list[str] | None = None
        every_head = "1" * count
        settings = {
            "all": lambda: map("".join, itertools.product("10", repeat=count)),  # begins with all heads on
            "each": lambda: [every_head, *(_flip(every_head, at) for at in range(count))],
            "none": lambda: [every_head],
        }[precompute]()
        total = {"all": 2**count, "each": count + 1, "none": 1}[precompute]
        for setting in tqdm(settings, total=total, unit="setting", leave=False, disable=total == 1):
            self._remember(setting)
        super().__init__(
            sizes=[num_layers, num_heads],
            score_name=score_name,
            gates=[[1] * num_heads for _ in range(num_layers)],
            visited=[every_head],
            labels=self._labels,
            **self._packed(),
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
        phrases = list(self._phrases)
        said = [phrases[at] for at in self._said[self._setting]]
        return [(label, *phrase) for label, phrase in zip(self._labels, said, strict=True)]

    @property
    def measured(self) -> tuple[Float[Tensor, "settings layers heads"], Float[Tensor, " settings"]]:
        """All settings measured so far, float32, and their scores, float64."""
        gates = torch.stack([self._as_gates(setting) for setting in self._scores])  # (n, layers, heads)
        return gates, torch.tensor(list(self._scores.values()), dtype=torch.float64)

    # ---------------------------------------------------------------- measuring

    @property
    def _setting(self) -> str:
        return "".join(str(gate) for row in self.gates for gate in row)

    def _as_gates(self, setting: str) -> Tensor:
        return torch.tensor([float(digit) for digit in setting]).view(self._shape)

    def _known(self, setting: str) -> float:
        """Return the score of a setting; if it is new, measure it and tell the views."""
        if setting not in self._scores:
            self._remember(setting)
            with self.hold_sync():
                self.failures = {key: failure for key, failure in self.failures.items() if key != setting}
                for name, value in self._packed().items():
                    setattr(self, name, value)
        return self._scores[setting]

    def _remember(self, setting: str) -> None:
        with torch.no_grad():
            given = self._measure(self._as_gates(setting))
        score, answers = given if isinstance(given, tuple) and len(given) == 2 else (given, [])
        score = as_score(score)
        answers = as_answers(answers)
        labels = [label for label, *_ in answers]
        if self._labels is None:
            self._labels = labels
        if labels != self._labels:
            raise ValueError(
                f"the answers of every setting must carry the same labels, one example in one order: {self._labels} "
                f"with all heads on, {labels} with the heads {setting}"
            )
        self._said[setting] = [
            self._phrases.setdefault((said, right), len(self._phrases)) for _, said, right in answers
        ]
        if len(self._phrases) > 2**16:
            raise ValueError("the answers hold more than 65,536 different texts; show shorter ones, or fewer")
        self._scores[setting] = score

    def _packed(self) -> dict:
        known = "".join(self._scores).encode()
        return {
            "settings": (np.frombuffer(known, np.uint8) - ord("0")).tobytes(),
            "scores": np.array(list(self._scores.values()), "<f8").tobytes(),
            "said": np.array([self._said[setting] for setting in self._scores], "<u2").tobytes(),
            "phrases": [list(phrase) for phrase in self._phrases],
        }

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
        return isinstance(value, str) and len(value) == math.prod(self._shape) and set(value) <= {"0", "1"}

    @traitlets.validate("gates")
    def _check_gates(self, proposal):
        layers, heads = self._shape
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

    # ---------------------------------------------------------------- the picture

    def figure(self) -> DescribedFigure:
        """Return the switches, what each would do, and the scores on the way here as a static picture."""
        setting, (layers, heads) = self._setting, self._shape
        try:
            told = f"{self.score_name} {_number(self._known(setting))}"
        except Exception as error:  # a picture is no place to fail: `score` raises it
            told = f"{self.score_name} not measured: {told_of(error, self._measure)}"
        start, off = self._scores["1" * len(setting)], [i for i, digit in enumerate(setting) if digit == "0"]
        if off and setting in self._scores:
            told += f", {_signed(self._scores[setting] - start)} against all heads on ({_number(start)})"
        names = ", ".join(self._name(i) for i in off[:12]) + (f" and {len(off) - 12} more" if len(off) > 12 else "")
        figure = new_figure(
            f"{told}. Switched off: {names or 'no head'}, of {layers} x {heads} layers and heads."
            + (f" The model says: {self._sentence()}." if self._labels and setting in self._scores else ""),
            (9.0, 1.2 + max(2.4, min(5.0, 0.45 * layers))),
        )
        board, history = figure.subplots(1, 2, width_ratios=(1.3, 1))
        figure.suptitle(told if len(told) <= 110 else told[:109] + "…", fontsize=10, parse_math=False)
        self._draw_board(board)
        self._draw_history(history)
        if self._labels and setting in self._scores:
            said = self._sentence()
            figure.supxlabel(said if len(said) <= 130 else said[:129] + "…", fontsize=9, parse_math=False)
        return figure

    def _name(self, at: int) -> str:
        layer, head = divmod(at, self._shape[1])
        return f"layer {layer} head {head}" if self._shape[0] > 1 else f"head {head}"

    def _sentence(self) -> str:
        marks = {True: " ✓", False: " ✗", None: ""}
        return ", ".join(f"{label} {said}{marks[right]}" for label, said, right in self.answers)

    def _draw_board(self, axes) -> None:
        """Draw a square a head, and in it, where there is room, what switching just this one would do."""
        setting, (layers, heads) = self._setting, self._shape
        for at, digit in enumerate(setting):
            (y, x), on = divmod(at, heads), digit == "1"
            look = {"fc": _ON} if on else {"fc": "white", "ec": "#595959", "hatch": "//"}
            axes.add_patch(Rectangle((x - 0.45, y - 0.45), 0.9, 0.9, **look))
            effect = self._effect(setting, at)
            text = ("on" if on else "off") + ("" if effect is None else f"\n{_signed(effect)}")
            field = {} if on else {"bbox": {"fc": "white", "ec": "none", "pad": 1}}
            if heads <= 12 and layers <= 12:
                size, ink = (8 if heads <= 8 else 6), "white" if on else "black"
                axes.text(x, y, text, color=ink, fontsize=size, ha="center", va="center", **field)
        axes.set(xlim=(-0.6, heads - 0.4), ylim=(layers - 0.4, -0.6), xlabel="head", ylabel="layer")
        axes.set_xticks(range(0, heads, math.ceil(heads / 16)))
        axes.set_yticks(range(0, layers, math.ceil(layers / 16)))
        axes.set_frame_on(False)
        axes.tick_params(length=0)
        axes.set_title("blue: on; a number: what switching this one would change", fontsize=9)

    def _effect(self, setting: str, at: int) -> float | None:
        now, then = (self._scores.get(key) for key in (setting, _flip(setting, at)))
        return None if now is None or then is None else then - now

    def _draw_history(self, axes) -> None:
        """Draw the score of the settings on the way here, over the range of all that are known."""
        reached: dict[int, list[float]] = {}
        for setting, score in self._scores.items():
            reached.setdefault(setting.count("0"), []).append(score)
        low, high = zip(*((min(scores), max(scores)) for scores in reached.values()), strict=True)
        least = 1e-3 * (max(high) - min(low) or 1)  # a line of no length would not be drawn
        axes.vlines(list(reached), low, [h + least for h in high], color="#BBBBBB", linewidth=7, capstyle="round")
        way = [(key.count("0"), self._scores[key]) for key in self.visited if key in self._scores]
        axes.plot(*zip(*way, strict=True), ".-", color=_ON) if way else None
        if self._setting in self._scores:
            axes.plot(self._setting.count("0"), self._scores[self._setting], "o", ms=10, mfc="none", mec="black")
        if min(low) >= 0 and max(high) <= 1:
            axes.set_ylim(-0.03, 1.03)
        room = 0.05 * len(self._setting)
        axes.set_xlim(-room, len(self._setting) + room)
        axes.set_xlabel("heads off")
        axes.set_ylabel(self.score_name[:40], parse_math=False)
        axes.set_title("grey: all settings measured; line: the way here", fontsize=9)


def _flip(setting: str, at: int) -> str:
    return setting[:at] + "10"[int(setting[at])] + setting[at + 1 :]


def _number(x: float) -> str:
    return f"{x:.{3 if abs(x) < 1000 else 0}f}"


def _signed(x: float) -> str:
    """Write a difference with its sign, and none where it shows as nothing."""
    text = _number(abs(x))
    return text if float(text) == 0 else ("+" if x > 0 else "−") + text

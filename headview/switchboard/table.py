"""What a HeadSwitchboard has measured so far. When something is measured, and who is told, is the widget's business.

A setting is written as one digit a head, layer by layer, 1 where the head is on: "1101" has head 0 of layer 1 off
where layers have two heads. `table.js` reads what `packed` writes.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headview.switchboard.measure import as_answers, as_score

_MOST_PHRASES = 2**16  # a place among them travels as uint16


class Table:
    """Settings of the switches with their scores and answers, each measured once.

    Args:
        measure: the function that a HeadSwitchboard is given.
        num_layers, num_heads: how many switches there are.
    """

    def __init__(self, measure: Callable, num_layers: int, num_heads: int):
        self.shape = num_layers, num_heads
        self.scores: dict[str, float] = {}
        self.labels: list[str] | None = None
        self._measure = measure
        self._phrases: dict[tuple[str, bool | None], int] = {}  # each text with its mark once
        self._said: dict[str, list[int]] = {}

    @property
    def all_on(self) -> str:
        """The setting with every head on."""
        return "1" * (self.shape[0] * self.shape[1])

    def add(self, setting: str) -> None:
        """Measure a setting, without gradients, and keep what comes; see HeadSwitchboard for what may come.

        Raises:
            TypeError, ValueError: the measure returned something else.
            Exception: whatever the measure raises.
        """
        with torch.no_grad():
            given = self._measure(self._gates(setting))
        score, answers = given if isinstance(given, tuple) and len(given) == 2 else (given, [])
        score = as_score(score)
        answers = as_answers(answers)
        labels = [label for label, *_ in answers]
        if self.labels is None:
            self.labels = labels
        if labels != self.labels:
            raise ValueError(
                f"the answers of every setting must carry the same labels, one example in one order: {self.labels} "
                f"with all heads on, {labels} with the heads {setting}"
            )
        said = [self._phrases.setdefault((text, right), len(self._phrases)) for _, text, right in answers]
        if len(self._phrases) > _MOST_PHRASES:
            raise ValueError("the answers hold more than 65,536 different texts; show shorter ones, or fewer")
        self._said[setting] = said
        self.scores[setting] = score

    def answers(self, setting: str) -> list[tuple[str, str, bool | None]]:
        """Return `(label, said, right)` for each answer in a setting that was measured."""
        phrases = list(self._phrases)
        said = [phrases[at] for at in self._said[setting]]
        return [(label, *phrase) for label, phrase in zip(self.labels, said, strict=True)]

    def effect(self, setting: str, at: int) -> float | None:
        """Return what switching head number `at` would add to the score, or None where that is not known."""
        now, then = (self.scores.get(key) for key in (setting, flipped(setting, at)))
        return None if now is None or then is None else then - now

    def tensors(self) -> tuple[Float[Tensor, "settings layers heads"], Float[Tensor, " settings"]]:
        """Return all settings measured so far, float32, and their scores, float64."""
        gates = torch.stack([self._gates(setting) for setting in self.scores])  # (n, layers, heads)
        return gates, torch.tensor(list(self.scores.values()), dtype=torch.float64)

    def packed(self) -> dict:
        """Return it as the traits that the view reads, in the order in which it was measured.

        Returns:
            settings: (n, layers * heads), a byte each, 1 where a head is on.
            scores: (n,) float64.
            said: (n, answers) uint16, places in `phrases`.
            phrases: [text, right] of every answer, each once.
        """
        known = "".join(self.scores).encode()
        return {
            "settings": (np.frombuffer(known, np.uint8) - ord("0")).tobytes(),
            "scores": np.array(list(self.scores.values()), "<f8").tobytes(),
            "said": np.array([self._said[setting] for setting in self.scores], "<u2").tobytes(),
            "phrases": [list(phrase) for phrase in self._phrases],
        }

    def _gates(self, setting: str) -> Tensor:
        return torch.tensor([float(digit) for digit in setting]).view(self.shape)


def flipped(setting: str, at: int) -> str:
    """Return a setting with head number `at` switched."""
    return setting[:at] + "10"[int(setting[at])] + setting[at + 1 :]

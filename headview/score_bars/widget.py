"""ScoreBars: the scores of one word with all others, apart and added up, as bars to drag; and the weights they make.

The view computes all that it shows, so it needs no kernel; what the reader has dragged is in `dragged`.
"""

from collections.abc import Mapping, Sequence

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from headview.base import Refused, View, as_numbers, check_whole, float_bytes, is_number, is_place, static
from mhalib.plots import LINE_COLOURS, DescribedFigure, new_figure

_MOST = 40  # words, each a row


class ScoreBars(View):
    """For one word that looks: its score with each word in every head, and in one head that adds them up.

    Args:
        parts: for each head, its name and its scores `(tokens, tokens)`, rows for queries; 2 or 3 heads.
        tokens: the words, at most 40.
        query: the number of the word that looks.

    A single head over all features has the sum of these scores, over the square root of their number, since each head
    divides by the root of its own size. `query` can be set from a cell; `dragged` holds what the reader has changed,
    `[head, query, key, score]` each. `weights()` gives the weights at the moment.

    Raises:
        TypeError: the scores of a head are no tensor.
        ValueError: a shape or the number of heads or tokens does not fit.

    Taught in notebook 00.
    """

    _esm = static("score_bars.js")
    _css = static("score_bars.css")

    query = traitlets.TraitType(0).tag(sync=True)
    dragged = traitlets.TraitType().tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    scores = traitlets.Bytes().tag(sync=True)  # float32, heads x queries x keys

    def __init__(self, parts: Mapping[str, Float[Tensor, "tokens tokens"]], tokens: Sequence[str], query: int = 0):
        tokens = [str(token) for token in tokens]
        count = len(tokens)
        if not isinstance(parts, Mapping) or not 2 <= len(parts) <= 3:
            raise ValueError(f"parts must be a dict of 2 or 3 heads with their scores, got {parts!r}")
        if not 1 < count <= _MOST:
            raise ValueError(f"tokens must be 2 to {_MOST} words, got {count}")
        for name, scores in parts.items():
            if not isinstance(scores, Tensor):
                raise TypeError(f"the scores of {name!r} must be a tensor, got {type(scores).__name__}")
            if scores.shape != (count, count) or not scores.isfinite().all():
                raise ValueError(
                    f"the scores of {name!r} must be finite and of shape {(count, count)}, a row for each word, "
                    f"got {tuple(scores.shape)}"
                )
        self._scores = torch.stack([as_numbers(name, scores) for name, scores in parts.items()])
        packed = float_bytes(self._scores)
        super().__init__(names=[*map(str, parts)], tokens=tokens, scores=packed, query=query, dragged=[])

    def weights(self) -> Float[Tensor, "rows keys"]:
        """Return the weights of the word that looks: a row for each head, and last that of one head for all."""
        return self._rows().softmax(-1)

    def figure(self) -> DescribedFigure:
        """Return the scores of the word that looks, in each head and added up, with the weights that they give."""
        weights, looks = self.weights(), self.tokens[self.query]
        scores = self._rows()
        names = [*self.names, "one head adds both" if len(self.names) == 2 else "one head adds all"]
        most = [
            f"{name}: {self.tokens[row.argmax()]} {row.max():.2f}" for name, row in zip(names, weights, strict=True)
        ]
        figure = new_figure(
            f"Scores of {looks!r}, word {self.query}, in {len(names) - 1} heads and in one, and the weights that they "
            f"give. Largest weights: {'; '.join(most)}.",
            (8.0, 0.6 + 0.24 * len(self.tokens)),
        )
        low, high = scores.min().clamp(max=0).item(), scores.max().clamp(min=0).item()
        room = 0.25 * (high - low or 1)  # for the weights
        for number, panel in enumerate(figure.subplots(1, len(names), sharey=True)):
            bars = panel.barh(range(len(self.tokens)), scores[number].tolist(), color=LINE_COLOURS[number])
            panel.bar_label(bars, [f"{weight:.2f}" for weight in weights[number]], padding=3, fontsize=7)
            panel.set(xlim=(low - room, high + room), xlabel="score; at its end, the weight")
            panel.set_title(names[number], fontsize=10)
            panel.set_yticks(range(len(self.tokens)), self.tokens)
        figure.axes[0].invert_yaxis()
        figure.axes[0].set_ylabel(f"key; the query is {looks!r}")
        return figure

    def _rows(self) -> Float[Tensor, "rows keys"]:
        """Return the scores of the word that looks: a row for each head, and last that of one head for all."""
        scores = self._scores.clone()
        for head, query, key, score in self.dragged:
            scores[head, query, key] = score
        apart = scores[:, self.query]  # (heads, keys)
        return torch.cat([apart, apart.sum(0, keepdim=True) / len(apart) ** 0.5])

    @traitlets.validate("query")
    def _check_query(self, proposal):
        check_whole("query", proposal["value"], 0, len(self._scores[0]) - 1)
        return proposal["value"]

    @traitlets.validate("dragged")
    def _check_dragged(self, proposal):
        changes, sizes = proposal["value"], self._scores.shape

        def fits(change: object) -> bool:
            four = isinstance(change, (list, tuple)) and len(change) == 4
            return four and is_place(change[:3], sizes) and is_number(change[3])

        if not isinstance(changes, (list, tuple)) or not all(map(fits, changes)):
            raise Refused(f"dragged must be a list of [head, query, key, score], got {changes!r}")
        return [list(change) for change in changes]

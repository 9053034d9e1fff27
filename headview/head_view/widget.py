"""HeadView: every head of every layer at a glance, one of them in full, at any size.

Python takes what the reader has (`inputs.py`), makes of it what is shown (`combine.py`, `pyramid.py`) and hands it on
in blocks (`serve.py`, `page_budget.py`); it holds what the reader has chosen (`state.py`) and hands it out
(`reading.py`).
`view.js` and the files beside it draw. The picture for readers without a live view is drawn in `picture.py`, what is
saved in `saved.py`.
"""

import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import traitlets
from torch import Tensor

from headview.base import page_fragment, static, whole_page
from headview.head_view.first_look import strongest_in_row, strongest_place
from headview.head_view.inputs import Part, as_parts
from headview.head_view.measures import OWN, check_measures
from headview.head_view.metadata import about_compare, check_comparison, described
from headview.head_view.page_budget import carried
from headview.head_view.picture import figure_of, png_of, save
from headview.head_view.reading import Reading
from headview.head_view.reasons import check_sources
from headview.head_view.serve import Blocks
from headview.head_view.state import SETTABLE
from headview.sources import Sources
from mhalib.plots import DescribedFigure

_PAGE_MEGABYTES = 4


class HeadView(Reading):
    """Attention weights of all heads: an overview, and one head in full with values, lines and bars.

    Args:
        weights: what `headview.capture` has seen, what a model of Hugging Face or its `generate()` returns, a
            list, tuple or dict of tensors, or one tensor: `(Tq, Tk)`, `(h, Tq, Tk)`, `(B, h, Tq, Tk)` in a list,
            `(layers, h, Tq, Tk)`, `(layers, B, h, Tq, Tk)`; on any device, in any precision, of any length.
        tokens: labels of the queries, and of the keys where they are as many.
        key_tokens: labels of the keys, for cross-attention; for a model with two sides those of its source.
        mask: boolean, True where attention is allowed, `(Tq, Tk)` or whatever broadcasts to
            `(layers, h, Tq, Tk)`; blocked cells are drawn grey and crossed.
        num_heads: needed for nothing but a check, except where samples are folded into the heads, `(B·h, Tq, Tk)`.
        exact: keep all digits in the page, at four bytes a weight.
        compare: other weights of the same shapes, shown beside these, with the difference, theirs minus these.
        names: what to call the two that are compared.
        compare_tokens: labels of the queries of `compare`, where they are not `tokens`; both are shown where they
            differ.
        compare_key_tokens: labels of its keys, where they are not `key_tokens`.
        measures: of your own, to order and label the heads by, next to those that are there: by its name a function
            of the maps `(layers, h, Tq, Tk)` that returns `(layers, h)`, or such numbers.
        why: the `headview.Sources` of the pass that the maps are from: below the map is shown what the score of
            the chosen cell is made of. A page without a kernel carries it for as many heads as fit.
        options: what else `inputs.as_parts` takes: `kind`, `layer_names`, `head_names`, `axes`, `words`, `clean`,
            `queries`, `keys`, `samples`, `image`, `patches`, `first`, `image_on`; and any of the traits below. Where
            no query is chosen the view opens on the strongest cell that is neither on the diagonal nor at the first
            or a special token; where no head is, in the one that is strongest for the query, or first in the `order`.

    Traits, which follow the reader and can be set: `part`, `sample`, `layer`, `head`, `query` and `key` (the cell of
    the cursor), `rows` (several queries whose weights are summed), `mode` ("map", "lines", "across": lines between two
    rows of tokens, or "text"), `least` (lines of other queries are drawn from this share of the scale on), `direction`
    of a text ("from" the chosen query or "to" the chosen key), `scale` ("auto", one of the others by what is there,
    "fixed", 0 to 1, "maximum", 0 to the largest weight of each head, "log", from 1e-4, or "root"), `overlay` (list of
    `[layer, head]`, shown with the chosen head), `combine` ("maximum" or "mean": how a map shows several heads),
    `window` (`[first query, end, first key, end]` of what is in sight, `[]` for all), `values` ("weights", "values":
    times the length of the value vectors, or "rollout"), `hidden` (labels of tokens to leave out) and `renormalise`,
    `words` (words for pieces), `side` of a comparison, `colours`, `order` of the heads in the overview ("model",
    "likeness", "cell": by their weight at the chosen one, or one of `measures`), `heads` that the picture shows
    ("chosen", those of the overlay, "layer", all of the layer, or "all"; set to one of the latter, `combine` becomes
    "mean"), `neurons` (are a query and its keys shown
    feature by feature?), `reasons` (is shown what a score is made of?), `strength` (how strongly weights lie over a
    picture, 0 to 1).

    Raises:
        TypeError: the weights are not floating or no tensors, or the mask is not boolean.
        ValueError: a rank, a length or a value does not fit.

    Taught in notebook 10, met first in notebook 05.
    """

    _esm = static("head_view.js")
    _css = static("head_view.css")

    blocks = traitlets.Dict().tag(sync=True)
    left_out = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        weights,
        tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
        key_tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
        *,
        mask: Tensor | np.ndarray | None = None,
        num_heads: int | None = None,
        exact: bool = False,
        compare=None,
        names: tuple[str, str] = ("a", "b"),
        compare_tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
        compare_key_tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
        measures: dict | None = None,
        why: Sources | None = None,
        **options,
    ):
        if not isinstance(exact, bool):
            raise TypeError(f"exact must be True or False, got {type(exact).__name__}; True keeps all digits")

        chosen = {name: options.pop(name) for name in SETTABLE if name in options and _is_trait(name, options[name])}

        def parts_of(given, tokens, key_tokens) -> list[Part]:
            return as_parts(given, tokens, key_tokens, mask=mask, num_heads=num_heads, **options)

        sides = {"a": parts_of(weights, tokens, key_tokens)}
        own_labels = {"compare_tokens": compare_tokens, "compare_key_tokens": compare_key_tokens}
        if compare is not None:
            labels = [
                given if own is None else own
                for own, given in zip(own_labels.values(), (tokens, key_tokens), strict=True)
            ]
            with about_compare():
                sides["b"] = parts_of(compare, *labels)
            check_comparison(sides["a"], sides["b"], names)
        elif lonely := [name for name, own in own_labels.items() if own is not None]:
            raise ValueError(f"{lonely[0]} are labels of compare, and nothing is compared; give compare= as well")
        own = check_measures(measures, sides["a"])
        self._blocks = Blocks(sides, exact, own, check_sources(why, sides["a"]))
        super().__init__(
            parts=[described(part, self._blocks, i) for i, part in enumerate(sides["a"])],
            sides=list(names) if compare is not None else [""],
            blocks=_as_state(
                {key: self._blocks.answer(key) for key in self._blocks.first(0, 0) + self._blocks.few_reasons()}
            ),
            measures=[*OWN, *own],
            reasons=why is not None,
            **{name: [] for name in ("overlay", "window", "hidden", "rows")},
        )
        for name, value in chosen.items():  # the part comes first: the others are places in it
            setattr(self, name, value)
        self._open(chosen)
        self.on_msg(self._answer)

    def _open(self, chosen: dict) -> None:
        """Choose the head and the cell that were not given: the first head in an order, the strongest cell."""
        layer, head = chosen.get("layer"), chosen.get("head")
        if "part" in chosen:
            return
        if layer is head is None and self.order not in ("model", "cell"):
            layer, head = self.layer, self.head = self._blocks.first_head(self.order, self.sample)
        if not chosen.keys() & {"query", "key"}:
            self._open_on_the_strongest(layer, head)
        elif layer is None or head is None:
            given = [chosen.get(name) for name in ("query", "key")]
            place = strongest_in_row(self._blocks.parts[0], self.sample, *given, layer, head)
            self.layer, self.head, self.query, self.key = place

    def _open_on_the_strongest(self, layer: int | None, head: int | None) -> None:
        side = "difference" if self._blocks.has_differences(0) else "a"

        def cells_of(layer: int, head: int, inside: tuple[slice, slice]) -> np.ndarray:
            if side == "a":
                return self._blocks.parts[0].layers[layer][0, head][inside].to("cpu", torch.float32).numpy()
            return self._blocks.shown({"part": 0, "sample": 0, "side": side, "heads": [[layer, head]]}).cells[inside]

        part, small = self._blocks.parts[0], self._blocks.small(0, 0, side)
        self.layer, self.head, self.query, self.key = strongest_place(part, small, cells_of, layer, head)

    def _answer(self, _, content, buffers) -> None:
        """Send blocks that a page asks for; what goes wrong is told there, and nothing in the kernel."""
        keys = content.get("ask") if isinstance(content, dict) else None
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            return
        answers, data = [], []
        for key in keys:
            try:
                about, block = (
                    ({}, self._saved(key.split()[1])) if key.startswith("save ") else self._blocks.answer(key)
                )
            except Exception as error:
                about, block = {"error": f"{type(error).__name__}: {error}"}, b""
            answers.append([key, about])
            data.append(block)
        self.send({"answers": answers}, data)

    def link(self, *others: "HeadView") -> None:
        """Let views follow each other on a page: the same layer, head, query and window, as far as each has them."""
        if not others or not all(isinstance(other, HeadView) for other in others):
            raise TypeError("link needs one or more other HeadViews, such as one.link(two)")
        group = next((view.group for view in (self, *others) if view.group), uuid.uuid4().hex)
        for view in (self, *others):
            view.group = group

    # ------------------------------------------------------------ pictures and pages

    def figure(self) -> DescribedFigure:
        """Return what is on screen, the overview and the chosen heads, as a matplotlib Figure."""
        return figure_of(self)

    def save(self, path: str | Path, megabytes: float = _PAGE_MEGABYTES) -> Path:
        """Write what is on screen, with its axes, into a file, and return where it is.

        Args:
            path: ends in ".png", ".svg", ".pdf", or ".html" for a page that stays alive without a kernel.
            megabytes: what the numbers in a page may take, packed; the page says what did not fit.
        """
        if isinstance(megabytes, bool) or not isinstance(megabytes, (int, float)) or not megabytes > 0:
            raise ValueError(f"megabytes must be a number above 0, such as 20, got {megabytes!r}")
        return save(self, path, lambda: whole_page("Attention heads", self.to_html(1e6 * megabytes)))

    def _saved(self, kind: str) -> bytes:
        """Return what `save` writes."""
        with tempfile.TemporaryDirectory() as folder:
            return self.save(Path(folder, f"heads.{kind}")).read_bytes()

    def _beside(self) -> tuple[dict, dict]:
        png, alt = png_of(self)
        return {"image/png": png, "text/plain": alt}, {"image/png": {"alt": alt}}

    def to_html(self, budget: int | float = 1e6 * _PAGE_MEGABYTES) -> str:
        """Return a fragment of HTML that shows this view, in its present state, without a kernel or a network.

        Args:
            budget: bytes that its numbers may take in the page; what does not fit is left out, and said.
        """
        samples = [part["samples"] for part in self.parts]
        cell = self.query, self.key
        packed, left_out = carried(
            self._blocks, self.spec(), samples, budget, self.order != "model", (self.layer, self.head), *cell
        )
        state = {**self.get_state(), "blocks": _as_state(packed), "left_out": left_out}
        return page_fragment(type(self).__name__, state)


def _is_trait(name: str, value: object) -> bool:
    """Is an argument one of the traits? `words` is both: given words of a tokenizer, or whether to show them."""
    return name != "words" or isinstance(value, bool)


def _as_state(blocks: dict) -> dict:
    return {key: {**about, "bytes": data} for key, (about, data) in blocks.items()}

"""HeadView: every head of every layer at a glance, one of them in full, at any size.

Python takes what the reader has (`inputs.py`), makes of it what is shown (`combine.py`, `pyramid.py`) and hands it on
in blocks (`serve.py`, `page_budget.py`); it holds what the reader has chosen (`state.py`) and hands it out.
`view.js` and the files beside it draw. The picture for readers without a live view is drawn in `picture.py`.
"""

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import traitlets
from torch import Tensor
from tqdm.auto import tqdm

from headview.base import check_whole, page_fragment, static, whole_page
from headview.head_view.first_look import strongest_in_row, strongest_place
from headview.head_view.inputs import Part, as_parts
from headview.head_view.measures import OWN, check_measures
from headview.head_view.metadata import about_compare, check_comparison, described
from headview.head_view.neuron import check_sources
from headview.head_view.page_budget import carried
from headview.head_view.picture import checked_path, figure_of, file_of, png_of
from headview.head_view.screen import window_of
from headview.head_view.serve import Blocks
from headview.head_view.state import SETTABLE, Chosen
from headview.head_view.structures import missed_by
from headview.sources import Sources
from mhalib.arguments import as_torch_starts, check_size, torch_threads
from mhalib.plots import DescribedFigure

_PAGE_MEGABYTES = 4
_BAR_FROM = 100_000_000  # weights; in fewer all is read at once


@dataclass(frozen=True)
class Selection:
    """What is on the screen of a view: which heads, which of their rows and columns, and the numbers themselves.

    `weights` are float32 `(rows, columns)` of the window: -inf where masked, NaN where NaN. `tokens` and `key_tokens`
    are their labels; `queries` and `keys` the numbers of the tokens that each row and column stands for.
    """

    part: str
    sample: int
    heads: list[tuple[int, int]]
    query: int
    tokens: list[str]
    key_tokens: list[str]
    queries: list[list[int]]
    keys: list[list[int]]
    weights: np.ndarray


class Strong(NamedTuple):
    """A weight, and where it stands."""

    weight: float
    layer: int
    head: int
    query: int
    key: int
    token: str
    key_token: str


class HeadView(Chosen):
    """Attention weights of all heads: an overview, and one head in full with values, lines and bars.

    Args:
        weights: what `headview.capture` has seen; the whole output of a model of transformers, or of its
            `generate(..., return_dict_in_generate=True)`; the pair that `nn.MultiheadAttention` returns; tensors or
            arrays `(Tq, Tk)`, `(h, Tq, Tk)`, `(layers, h, Tq, Tk)`, `(layers, B, h, Tq, Tk)` or `(1, layers, h, Tq,
            Tk)`; a list of layers `(h, Tq, Tk)` or `(B, h, Tq, Tk)`, where None is a layer without attention; a dict
            of such layers, or of lists of them, by their names. On any device, in any precision, of any length.
            `(3, Tq, Tk)` are three heads of one sample, and `(3, h, Tq, Tk)` three layers, unless `tokens` holds a
            list for each of three samples: then they are one map for each sample, and one layer.
        tokens: labels of the queries, and of the keys where they are as many; in a translator those of the target.
            A list of strings, or one such list for each sample, padding included.
        key_tokens: labels of the keys, for cross-attention; in a translator those of the source.
        mask: boolean, True where attention is allowed, `(Tq, Tk)` or whatever broadcasts to `(layers, h, Tq, Tk)`, with
            several samples to `(layers, B, h, Tq, Tk)`; with several parts a dict of masks by the names of parts.
            Blocked cells are drawn grey and crossed.
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
        kind: what a row is: "weights", sums to 1 or 0 (taken when left out); "part", sums to at most 1; "positive",
            from 0 on; "signed", any numbers.
        layer_names: a name or a number for each layer, or the number of the first.
        head_names: a name for each head.
        axes: what the queries and the keys are called.
        words: the word of each of `tokens`, as `word_ids()` of a tokenizer gives it, None for a token of its own;
            "auto", as the marks of the tokenizer tell, as they do for `key_tokens`; None for no words.
        clean: whether the marks of a tokenizer are taken off the labels.
        image: what lies under the tokens of an axis: one image, or the frames of a video.
        patches: rows and columns of the patches of the image, or of each frame; found where they are a square or have
            its proportions, behind 0, 1, 2 or 5 tokens. Where a patch has no label of its own it is called "patch
            3,4", in frame 2 "patch 2:3,4"; `tokens` may leave patches out.
        first: the token of the first patch; when left out, the first of as many labels such as `<image>`, and where
            there are none, the patches stand last.
        image_on: "keys", "queries" or "both".
        queries: which queries to keep: a slice, a range or a list of integers.
        keys: which keys to keep; rows may then sum to less than 1.
        samples: "each" for a map of each, "mean" for their mean, place by place. Where a model ran several times inside
            one `capture`, each pass is a sample.
        options: any of the traits below. Where no query is chosen the view opens on the strongest cell that is neither
            on the diagonal nor at the first or a special token; where no head is, in the one that is strongest for the
            query, or first in the `order`.

    Traits, which follow the reader and can be set: `part`, `sample`, `layer`, `head`, `query` and `key` (the cell of
    the cursor), `rows` (several queries whose weights are summed), `mode` ("map", "lines", "across": lines between two
    rows of tokens, or "text"), `least` (lines of other queries: from this share of the scale's end on), `direction`
    of a text ("from" the chosen query or "to" the chosen key), `scale` ("auto", one of the others by what is there,
    "fixed", 0 to 1, "maximum", 0 to the largest weight of each head, "log", from 1e-4, or "root"), `overlay` (list of
    `[layer, head]`, shown with the chosen head), `combine` ("maximum" or "mean": how a map shows several heads),
    `window` (`[first query, end, first key, end]` of what is in sight, `[]` for all), `values` ("weights", "values":
    times the length of the value vectors, or "rollout"), `hidden` (labels of tokens to leave out) and `renormalise`,
    `words` (words for pieces), `side` of a comparison, `colours`, `order` of the heads in the overview ("model",
    "likeness", "cell": by their weight at the chosen one, or one of `measures`), `heads` that the picture shows
    ("chosen", those of the overlay, "layer", all of the layer, or "all"; set to one of the latter, `combine` becomes
    "mean"), `neurons` (are a query and its keys shown feature by feature?), `reasons` (is shown what a score is made
    of?), `strength` (how strongly weights lie over a picture, 0 to 1).

    Raises:
        TypeError: there are no attention weights in `weights`, or an argument is of another kind.
        ValueError: a rank, a length or a value does not fit.

    Taught in notebook 10, met first in notebook 05.
    """

    _esm = static("head_view.js")
    _css = static("head_view.css")

    blocks = traitlets.Dict().tag(sync=True)
    left_out = traitlets.Unicode("").tag(sync=True)
    _opened = None  # the query and the key that the view chose itself

    @as_torch_starts()
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
        given_words = "words" in options and not isinstance(options["words"], bool)  # of a tokenizer; else the trait
        settable = [name for name in SETTABLE if name in options and not (name == "words" and given_words)]
        chosen = {name: options.pop(name) for name in settable}
        if unknown := [name for name in options if name not in as_parts.__kwdefaults__]:
            known = {*SETTABLE, *as_parts.__kwdefaults__, *signature(HeadView).parameters} - {"options"}
            near = get_close_matches(unknown[0], sorted(known), len(known), 0)  # all, the most alike first
            raise TypeError(f"HeadView takes no {unknown[0]!r}; choose from {', '.join(near)}")

        @torch_threads(1)  # several would wake up for each pass over few numbers, which takes longer than the pass
        def parts_of(given, tokens, key_tokens) -> list[Part]:
            return as_parts(given, tokens, key_tokens, mask=mask, num_heads=num_heads, **options)

        sides = {"a": parts_of(weights, tokens, key_tokens)}
        if compare is not None:
            own_tokens = tokens if compare_tokens is None else compare_tokens
            own_keys = key_tokens if compare_key_tokens is None else compare_key_tokens
            with about_compare():
                sides["b"] = parts_of(compare, own_tokens, own_keys)
            check_comparison(sides["a"], sides["b"], names)
        for name, given in (("compare_tokens", compare_tokens), ("compare_key_tokens", compare_key_tokens)):
            if given is not None and compare is None:
                raise ValueError(f"{name} are labels of compare, and nothing is compared; give compare= as well")
        own = check_measures(measures, sides["a"])
        self._blocks = Blocks(sides, exact, own, check_sources(why, sides["a"]))
        super().__init__(
            parts=[described(part, self._blocks, i) for i, part in enumerate(sides["a"])],
            sides=list(names) if compare is not None else [""],
            blocks=_as_state(self._blocks.at_once()),
            measures=[*OWN, *own],
            reasons=why is not None,
            left_out=missed_by(weights) + missed_by(compare).replace("Not shown:", f"Not shown of {names[1]}:"),
            **{name: [] for name in ("overlay", "window", "hidden", "rows")},
        )
        for name, value in chosen.items():  # the part comes first: the others are places in it
            setattr(self, name, value)
        self._open(chosen)
        self.on_msg(self._answer)

    def _open(self, chosen: dict) -> None:
        """Choose the head and the cell that were not given: the first head in an order, the strongest cell."""
        layer, head = chosen.get("layer"), chosen.get("head")
        if layer is head is None and self.order not in ("model", "cell"):
            layer, head = self.layer, self.head = self._blocks.first_head(self.order, self.part, self.sample)
        if not chosen.keys() & {"query", "key"}:
            self._open_on_the_strongest(layer, head)
        elif layer is None or head is None:
            given = [chosen.get(name) for name in ("query", "key")]
            place = strongest_in_row(self._blocks.parts[self.part], self.sample, *given, layer, head)
            self.layer, self.head, self.query, self.key = place

    def _open_on_the_strongest(self, layer: int | None, head: int | None) -> None:
        blocks, part, sample = self._blocks, self.part, self.sample
        side = "difference" if blocks.has_differences(part) else "a"

        def cells_of(layer: int, head: int) -> np.ndarray:  # as the picture and the page will ask for them
            plain = {"values": "weights", "hidden": [], "words": False}
            return blocks.map_of(self.spec(side, [[layer, head]]) | plain)[0].cells

        place = strongest_place(blocks.parts[part], sample, blocks.small(part, sample, side), cells_of, layer, head)
        self.layer, self.head, self.query, self.key = place
        self._opened = self.query, self.key

    @traitlets.observe("sample")
    def _open_again(self, _) -> None:
        """Go to the strongest cell of another sample, where this one may be padding, unless the reader chose it."""
        if self._opened == (self.query, self.key):
            self._open_on_the_strongest(self.layer, self.head)

    @as_torch_starts()
    def _answer(self, _, content, buffers) -> None:
        """Send blocks that a page asks for; what goes wrong is told there, and nothing in the kernel."""
        keys = content.get("ask") if isinstance(content, dict) else None
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            return
        answers, data = [], []
        for key in keys:
            try:
                save = key.startswith("save ")  # such as "save svg 1"
                about, block = ({}, self._file(f".{key.split()[1]}")) if save else self._blocks.answer(key)
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

    # ------------------------------------------------------------ what is taken out

    @as_torch_starts()
    def weights_of(self, layer: int, head: int) -> np.ndarray:
        """Return one head of the chosen part and sample, `(Tq, Tk)` float32: -1 where masked, NaN where NaN.

        Where values may be below 0 (`kind="signed"`), masked cells are -inf.
        """
        check_whole("layer", layer, 0, self.shape[0] - 1)
        check_whole("head", head, 0, self.shape[1] - 1)
        cells = self._cells(layer, head)
        if self.parts[self.part]["kind"] == "signed":
            return cells
        masked = 0 if self._blocks.parts[self.part].guessed_mask else -1
        return np.where(np.isneginf(cells), np.float32(masked), cells)

    def _cells(self, layer: int, head: int) -> np.ndarray:
        plain = {"part": self.part, "sample": self.sample, "side": "a", "heads": [[layer, head]]}
        return self._blocks.shown(plain).cells

    @property
    def selection(self) -> Selection:
        """What is in sight: the chosen heads as they are shown together, cut to the window."""
        shown, _ = self._blocks.map_of(self.spec())
        first, end, left, right = window_of(self.window, *shown.cells.shape)
        rows, columns = shown.rows[first:end], shown.columns[left:right]
        names = self.beside(rows, 0), self.beside(columns, 1)
        heads = [tuple(pair) for pair in self.shown_heads()]
        part = self.parts[self.part]["name"]
        weights = shown.cells[first:end, left:right].copy()
        return Selection(part, self.sample, heads, self.query, *names, rows, columns, weights)

    @as_torch_starts()
    def strongest(self, n: int = 10, *, everywhere: bool = False) -> list[Strong]:
        """Return the `n` largest weights of the chosen heads, the largest first, with their places and tokens.

        Args:
            n: how many, at least 1.
            everywhere: among all heads of all layers of the chosen part.
        """
        check_size("n", n)
        pairs = np.ndindex(*self.shape[:2]) if everywhere else self.shown_heads()
        # The overview knows how large a number of each head may be: few of them need to be read in full.
        small = self._blocks.small(self.part, self.sample, "a")
        sizes = np.where(np.isneginf(small), small, np.nan_to_num(np.abs(small), nan=np.inf)).max((-2, -1))
        tops = {(i, j): sizes[i, j] for i, j in pairs}
        order = tqdm(
            sorted(tops, key=lambda pair: -tops[pair]), "heads", disable=math.prod(self.shape) < _BAR_FROM, leave=False
        )
        best: list[tuple[float, tuple[int, ...]]] = []  # the number, and its place turned round: the first is more
        for layer, head in order:
            if len(best) == n and (tops[layer, head], (-layer, -head)) < (best[-1][0], best[-1][1][:2]):
                break  # also of alike ones the later head would lose
            cells = torch.from_numpy(self._cells(layer, head))
            cells = cells.masked_fill(~cells.isfinite(), -torch.inf).flatten()
            found, places = cells.topk(min(n, len(cells)))
            alike = (cells == found[-1]).nonzero().flatten()[:n]  # topk takes any of those
            for place in (*places[found > found[-1]].tolist(), *alike.tolist()):
                row, column = divmod(place, self.shape[3])
                best.append((cells[place].item(), (-layer, -head, -row, -column)))
            best = sorted((entry for entry in best if entry[0] > -torch.inf), reverse=True)[:n]
        queries, keys = self.named()
        found = [(weight, *(-place for place in turned)) for weight, turned in best]
        return [Strong(*each, queries[each[3]], keys[each[4]]) for each in found]

    # ------------------------------------------------------------ pictures and pages

    @as_torch_starts()
    def figure(self) -> DescribedFigure:
        """Return what `save` writes as a picture, as a matplotlib Figure."""
        return figure_of(self)

    def save(self, path: str | Path, megabytes: float = _PAGE_MEGABYTES) -> Path:
        """Write what is on screen into a file, and return where it is.

        A picture holds the overview, in the model's order, and the chosen heads as a map, lines or text, with the
        chosen rows and cell marked. The list of keys and the panels below are in the page, and in the PNG it saves.

        Args:
            path: ends in ".png", ".svg", ".pdf", or ".html" for a page that stays alive without a kernel.
            megabytes: what the numbers in a page may take, packed; the page says what did not fit.

        Raises:
            ValueError: the name has another ending, is that of a folder, or lies in a folder that does not exist.
        """
        if isinstance(megabytes, bool) or not isinstance(megabytes, (int, float)) or not megabytes > 0:
            raise ValueError(f"megabytes must be a number above 0, such as 20, got {megabytes!r}")
        path = checked_path(path)
        content = self._file(path.suffix.lower(), megabytes)
        path.write_bytes(content)  # made in full before: what fails leaves no half of a file
        return path

    @as_torch_starts()
    def _file(self, ending: str, megabytes: float = _PAGE_MEGABYTES) -> bytes:
        if ending == ".html":
            return whole_page("Attention heads", self.to_html(1e6 * megabytes)).encode()
        return file_of(self, ending)

    def _beside(self) -> tuple[dict, dict]:
        png, alt = png_of(self)
        return {"image/png": png, "text/plain": alt}, {"image/png": {"alt": alt}}

    @as_torch_starts()
    def to_html(self, budget: int | float = 1e6 * _PAGE_MEGABYTES) -> str:
        """Return a fragment of HTML that shows this view, in its present state, without a kernel or a network.

        Args:
            budget: bytes that its numbers may take in the page; what does not fit is left out, and said.
        """
        packed, left_out = carried(self, budget)
        state = {**self.get_state(), "blocks": _as_state(packed), "left_out": self.left_out + left_out}
        return page_fragment(type(self).__name__, state)


def _as_state(blocks: dict) -> dict:
    return {key: {**about, "bytes": data} for key, (about, data) in blocks.items()}

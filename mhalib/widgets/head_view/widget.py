"""HeadView: every head of every layer at a glance, one of them in full.

Python checks the weights (`weights.py`), codes them (`codes.py`) and holds what the reader has chosen; `view.js` and
the files beside it draw. The picture for readers without a live view is drawn in `picture.py`.
"""

import math
from collections.abc import Sequence

import numpy as np
import traitlets
from torch import Tensor

from mhalib.plots import DescribedFigure, as_labels
from mhalib.widgets.base import Refused, View, check_choice, check_whole, is_whole, module_text, style_text
from mhalib.widgets.head_view.codes import decode, encode, storage_for
from mhalib.widgets.head_view.picture import picture_of
from mhalib.widgets.head_view.weights import as_layers, as_mask

_SCRIPTS = ("codes.js", "layout.js", "draw.js", "lines.js", "panels.js", "chosen.js", "controls.js", "view.js")
_CHOICES = {"mode": ("map", "lines"), "scale": ("fixed", "maximum"), "combine": ("maximum", "mean")}
_OVERLAY = 32  # eight colours times four kinds of line


class HeadView(View):
    """Attention weights of all heads: an overview, and one head in full with values, lines and bars.

    Args:
        weights: floating, each row over the keys sums to 1, or to 0 where nothing may be attended to; NaN is
            shown as such. `(Tq, Tk)`, `(h, Tq, Tk)`, `(layers, h, Tq, Tk)`, a list or tuple with one tensor per
            layer, as Hugging Face models return it (a batch axis of 1 is left out), the pair that
            `nn.MultiheadAttention` returns, or d2l's folded `(h, Tq, Tk)`. numpy arrays will do. On any
            device, in any precision, with or without gradient.
        tokens: labels of the queries, and of the keys where they are as many.
        key_tokens: labels of the keys, for cross-attention.
        mask: boolean, True where attention is allowed, `(Tq, Tk)` or whatever broadcasts to
            `(layers, h, Tq, Tk)`; blocked cells are drawn grey and crossed.
        num_heads: needed for nothing but a check, except where samples are folded into the heads, `(B·h, Tq, Tk)`.
        exact: keep all digits, at four bytes a weight. Otherwise a weight travels as two bytes up to two million
            weights and as one byte beyond, in steps of 1/65533 or 1/253 of its head's largest.

    Traits, which follow the reader and can be set: `layer`, `head`, `query` (the row of the cursor), `mode` ("map"
    or "lines"), `scale` ("fixed", 0 to 1, or "maximum", 0 to the largest weight of each head), `overlay` (list of
    `[layer, head]`, shown with the chosen head), `combine` ("maximum" or "mean": how a map shows several heads).

    Raises:
        TypeError: the weights are not floating or no tensors, or the mask is not boolean.
        ValueError: a rank, a length or a value does not fit, or there are more than 40 million weights, 1024
            tokens, 128 layers or 128 heads.

    Taught in notebook 00.
    """

    _esm = module_text("head_view", *_SCRIPTS)
    _css = style_text("head_view")

    data = traitlets.Bytes(b"").tag(sync=True)  # (layers, h, Tq, Tk), little-endian
    maxima = traitlets.Bytes(b"").tag(sync=True)  # (layers, h) float32: what the largest code of a head stands for
    storage = traitlets.Enum(("uint8", "uint16", "float32")).tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    key_tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    layer = traitlets.TraitType(0).tag(sync=True)
    head = traitlets.TraitType(0).tag(sync=True)
    query = traitlets.TraitType(0).tag(sync=True)
    mode = traitlets.TraitType("map").tag(sync=True)
    scale = traitlets.TraitType("fixed").tag(sync=True)
    combine = traitlets.TraitType("maximum").tag(sync=True)
    overlay = traitlets.TraitType().tag(sync=True)

    def __init__(
        self,
        weights: Tensor | np.ndarray | Sequence[Tensor | np.ndarray],
        tokens: Sequence[str] | None = None,
        key_tokens: Sequence[str] | None = None,
        *,
        mask: Tensor | np.ndarray | None = None,
        num_heads: int | None = None,
        exact: bool = False,
    ):
        if not isinstance(exact, bool):
            raise TypeError(f"exact must be True or False, got {type(exact).__name__}; True keeps all digits")
        layers = as_layers(weights, num_heads)
        shape = (len(layers), *layers[0].shape)
        if key_tokens is None and shape[2] == shape[3]:
            key_tokens = tokens
        storage = storage_for(math.prod(shape), exact)
        data, maxima = encode(layers, as_mask(mask, layers), storage)
        super().__init__(
            data=data,
            maxima=maxima,
            storage=storage,
            shape=list(shape),
            tokens=as_labels(tokens, shape[2], "tokens", "queries"),
            key_tokens=as_labels(key_tokens, shape[3], "key_tokens", "keys"),
            overlay=[],
        )

    @traitlets.validate("layer", "head", "query")
    def _check_place(self, proposal):
        name = proposal["trait"].name
        check_whole(name, proposal["value"], 0, self.shape[("layer", "head", "query").index(name)] - 1)
        return proposal["value"]

    @traitlets.validate("mode", "scale", "combine")
    def _check_choice(self, proposal):
        name = proposal["trait"].name
        check_choice(name, proposal["value"], _CHOICES[name])
        return proposal["value"]

    @traitlets.validate("overlay")
    def _check_heads(self, proposal):
        layers, heads = self.shape[:2]
        given = proposal["value"]
        if not isinstance(given, (list, tuple)):
            raise Refused(f"overlay is a list of [layer, head], such as [[0, 1]], got {given!r}")
        chosen = [list(pair) if isinstance(pair, (list, tuple)) else pair for pair in given]
        for pair in chosen:
            whole = isinstance(pair, list) and len(pair) == 2 and all(map(is_whole, pair))
            if not (whole and 0 <= pair[0] < layers and 0 <= pair[1] < heads):
                raise Refused(
                    f"overlay is a list of [layer, head], layer below {layers} and head below {heads}, got {pair!r}"
                )
        unique = [pair for i, pair in enumerate(chosen) if pair not in chosen[:i]]
        if len(unique) > _OVERLAY:
            raise Refused(f"overlay holds at most {_OVERLAY} heads, got {len(unique)}")
        return unique

    def weights_of(self, layer: int, head: int) -> np.ndarray:
        """Return one head as shown, `(Tq, Tk)` float32: rounded as stored, -1 where masked, NaN where NaN."""
        return decode(self.data, self.maxima, self.storage, self.shape, layer * self.shape[1] + head)

    def figure(self) -> DescribedFigure:
        """Return the overview and the chosen head, in the present mode and on the present scale, as a picture."""
        return picture_of(self)

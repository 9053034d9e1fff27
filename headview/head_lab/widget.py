"""HeadLab: turn the knobs of an attention and see every head answer.

Python checks q, k and v (`inputs.py`) and holds the state; `view.js` and its neighbours compute the maps in the
browser while a knob moves. What a cell reads here (`weights`, `output`, `entropy`) is computed by mhalib itself from
the same state, so the two can be compared.
"""

import math

import numpy as np
import torch
import traitlets
from jaxtyping import Bool, Float
from torch import Tensor

from headview.base import Refused, View, check_choice, check_whole, is_whole, static
from headview.head_lab.inputs import (
    as_cells,
    as_inputs,
    check_code_inputs,
    code_inputs_of,
    code_note_of,
    projected,
    to_bytes,
)
from mhalib.attention import scaled_dot_product_attention, split_heads
from mhalib.masks import causal_mask, padding_mask
from mhalib.plots import DescribedFigure, as_labels, plot_attention

MAX_HEADS = 64
SCALES = ("head_dim", "none", "d_model")
MASKS = ("none", "causal", "padding", "own")
_COLDEST, _HOTTEST = 1e-3, 1e3


class HeadLab(View):
    """An attention whose heads, scale, temperature and mask you can change, in the browser and from a cell.

    Args:
        q: queries before they are split into heads, `(Tq, d_model)` or `(1, Tq, d_model)`; a floating tensor or
            array, finite, at most 128 tokens and 1024 features.
        k: keys, `(Tk, d_model)` or `(1, Tk, d_model)`; the queries when left out.
        v: values, like `k`; without them there are weights but no output.
        tokens: labels of the queries, and of the keys where they are as many.
        key_tokens: labels of the keys.
        num_heads: a divisor of `d_model`, at most 64.
        scale: the scores are divided by `"head_dim"`: √head_dim, `"d_model"`: √d_model, `"none"`: nothing.
        temperature: the scores are divided by it as well; 0.001 to 1000. Below 1 is sharper, above 1 is flatter.
        mask: `"none"`, `"causal"`, `"padding"` or `"own"`; or a boolean `(Tq, Tk)`, True where attention is
            allowed, which becomes the own mask.
        valid_len: how many keys count under `"padding"`, 0 to `Tk`; all of them when left out.
        code_inputs: how you write q, k and, if given, v as float32 of shape `(1, T, d_model)`, for "Show the code".

    All but the tensors and tokens can be set later, by the reader in the view and by a cell: `lab.num_heads`,
    `lab.scale`, `lab.temperature`, `lab.mask`, `lab.valid_len`, `lab.own_mask`, and `lab.head`, the head in focus.
    A value that does not fit is refused with a ValueError (a `traitlets.TraitError` as well), and the old one stays.

    Raises:
        TypeError: q, k or v are not floating, or the mask is not boolean.
        ValueError: a shape, a number or a choice does not fit.

    Vaswani et al. (2017), section 3.2. Taught in notebooks 02 to 04.
    """

    _esm = static("head_lab.js")
    _css = static("head_lab.css")

    q_bytes = traitlets.Bytes().tag(sync=True)  # float32, (Tq, d_model)
    k_bytes = traitlets.Bytes().tag(sync=True)  # float32, (Tk, d_model)
    v_bytes = traitlets.Bytes().tag(sync=True)  # float32, (Tk, d_model), or empty
    num_queries = traitlets.Int().tag(sync=True)
    num_keys = traitlets.Int().tag(sync=True)
    d_model = traitlets.Int().tag(sync=True)
    head_choices = traitlets.List(traitlets.Int()).tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    key_tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    # How the reader's own q, k and v become (1, T, d_model) in "Show the code".
    code_inputs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    code_note = traitlets.Unicode().tag(sync=True)

    num_heads = traitlets.TraitType(1).tag(sync=True)
    scale = traitlets.TraitType("head_dim").tag(sync=True)
    temperature = traitlets.TraitType(1.0).tag(sync=True)
    mask = traitlets.TraitType("none").tag(sync=True)
    valid_len = traitlets.TraitType(0).tag(sync=True)
    # One byte a cell, 1 where attention is allowed, (Tq, Tk). From the view it arrives as a memoryview.
    own_bytes = traitlets.Bytes().tag(sync=True, from_json=lambda value, _widget: bytes(value))
    head = traitlets.TraitType(0).tag(sync=True)
    cursor = traitlets.TraitType().tag(sync=True)  # query and key; behind the keys, output features

    _fixed = False  # becomes True once the tensors and tokens are in

    def __init__(
        self,
        q,
        k=None,
        v=None,
        *,
        tokens=None,
        key_tokens=None,
        num_heads: int = 1,
        scale: str = "head_dim",
        temperature: float = 1.0,
        mask: str | Tensor | np.ndarray = "none",
        valid_len: int | None = None,
        code_inputs: list[str] | None = None,
    ):
        queries, keys, values = as_inputs(q, k, v)
        (num_queries, d_model), num_keys = queries.shape, len(keys)
        if key_tokens is None and num_queries == num_keys:
            key_tokens = tokens
        if code_inputs is not None:
            check_code_inputs(code_inputs, 2 if v is None else 3)
        own = torch.ones(num_queries, num_keys, dtype=torch.bool)
        if not isinstance(mask, str):
            own, mask = as_cells(mask, num_queries, num_keys), "own"
        # First all that stays; what may be chosen depends on it.
        super().__init__(
            q_bytes=to_bytes(queries),
            k_bytes=to_bytes(keys),
            v_bytes=b"" if values is None else to_bytes(values),
            own_bytes=to_bytes(own),
            num_queries=num_queries,
            num_keys=num_keys,
            d_model=d_model,
            head_choices=[n for n in range(1, min(d_model, MAX_HEADS) + 1) if d_model % n == 0],
            tokens=as_labels(tokens, num_queries, "tokens", "queries"),
            key_tokens=as_labels(key_tokens, num_keys, "key_tokens", "keys"),
            code_inputs=code_inputs or code_inputs_of(q, k, v),
            code_note="" if code_inputs else code_note_of("HeadLab", q=q, k=k, v=v),
            valid_len=num_keys,
            cursor=[0, 0],
        )
        chosen = {"num_heads": num_heads, "scale": scale, "temperature": temperature, "mask": mask}
        if valid_len is not None:
            chosen["valid_len"] = valid_len
        try:
            for name, value in chosen.items():
                setattr(self, name, value)
        except Refused:
            self.close()  # nobody gets it, so the page shall not keep it
            raise
        self._fixed = True

    @classmethod
    def of(cls, layer, x, memory=None, *, num_heads=None, names=("x", "memory"), **options) -> "HeadLab":
        """Return the lab of an attention layer and its input.

        Args:
            layer: has `W_q`, `W_k` and `W_v`, as `mhalib.MultiHeadAttention` and d2l's layer have.
            x: what the layer is given, `(T, features)` or `(1, T, features)`.
            memory: where keys and values come from, if not from `x` (cross-attention).
            num_heads: as many as the layer has, or 1 where it does not say.
            names: how you write `x` and `memory`, for "Show the code": `("x[1]",)` for one sample of a batch.
            options: what `HeadLab` takes by name, such as `tokens`.

        Raises:
            TypeError: the layer lacks a projection, or the input is not floating.
            ValueError: the input does not fit.
        """
        (q, k, v), ready = projected(layer, x, memory, names)
        heads = getattr(layer, "num_heads", 1) if num_heads is None else num_heads
        lab = cls(q, k, v, num_heads=heads, code_inputs=ready, **options)
        if tuple(names) == ("x", "memory"):
            lab.code_note = code_note_of("HeadLab.of", x=x, memory=memory)
        return lab

    @property
    def own_mask(self) -> Bool[Tensor, "queries keys"]:
        """The own mask, True where attention is allowed; used while `lab.mask` is `"own"`. Set it as a whole."""
        cells = torch.frombuffer(bytearray(self.own_bytes), dtype=torch.uint8)
        return cells.bool().reshape(self.num_queries, self.num_keys)

    @own_mask.setter
    def own_mask(self, cells):
        self.own_bytes = to_bytes(as_cells(cells, self.num_queries, self.num_keys))

    @property
    def allowed(self) -> Bool[Tensor, "queries keys"]:
        """Where attention is allowed under the present mask."""
        shape = self.num_queries, self.num_keys
        if self.mask == "causal":
            return causal_mask(*shape)
        if self.mask == "padding":
            return padding_mask(torch.tensor([self.valid_len]), shape[1])[0].expand(shape)
        return self.own_mask if self.mask == "own" else torch.ones(shape, dtype=torch.bool)

    @property
    def weights(self) -> Float[Tensor, "1 num_heads queries keys"]:
        """The weights that the view shows, computed by mhalib; float32."""
        return self._attend()[1].float()

    @property
    def output(self) -> Float[Tensor, "1 num_heads queries head_dim"] | None:
        """What each head hands on, before the heads are merged; float32. None where no v was given."""
        return self._attend()[0].float() if self.v_bytes else None

    @property
    def entropy(self) -> Float[Tensor, "1 num_heads queries"]:
        """How widely each query spreads its attention, in bits; 0 for a query with nothing to attend to."""
        return (torch.special.entr(self._attend()[1]).sum(-1) / math.log(2)).float()

    def figure(self) -> DescribedFigure:
        """Return the maps of the heads under the present settings as a static picture."""
        # More is neither readable nor worth its time as a picture; the live view shows all of it.
        shown = min(self.num_heads, MAX_HEADS if max(self.num_queries, self.num_keys) <= 64 else 16)
        columns = min(shown, math.ceil(math.sqrt(1.3 * shown)))
        labelled = columns * self.num_keys <= 48
        bits = self.entropy[0].mean(-1).tolist()
        figure = plot_attention(
            self.weights[0, :shown],
            self.tokens or None if labelled else None,
            self.key_tokens or None if labelled else None,
            mask=None if self.mask == "none" else self.allowed,
            titles=[f"head {i}: {bits[i]:.2f} bits" if self.num_keys >= 6 else f"head {i}" for i in range(shown)],
            columns=columns,
        )
        mask = f"padding after {self.valid_len} keys" if self.mask == "padding" else self.mask
        part = f" The first {shown} of {self.num_heads} heads." if shown < self.num_heads else ""
        figure.alt += (
            f"{part} Scale: {self.scale}, temperature {self.temperature:g}, mask: {mask}; "
            f"mean entropy {sum(bits) / len(bits):.2f} bits."
        )
        return figure

    def _attend(self) -> tuple[Tensor, Tensor]:
        """Return output and weights in float64, as the view computes them: `(1, h, Tq, hd)`, `(1, h, Tq, Tk)`."""
        q, k, v = (self._heads(data) for data in (self.q_bytes, self.k_bytes, self.v_bytes or self.k_bytes))
        divisor = {"head_dim": q.shape[-1], "none": 1, "d_model": self.d_model}[self.scale] ** 0.5
        mask = None if self.mask == "none" else self.allowed
        return scaled_dot_product_attention(q, k, v, mask, scale=1 / (divisor * self.temperature))

    def _heads(self, data: bytes) -> Tensor:
        rows = torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(1, -1, self.d_model)
        return split_heads(rows.double(), self.num_heads)  # (1, T, d_model) -> (1, num_heads, T, head_dim)

    # Each returns the value if it is one for its trait, else refuses it in words that teach.

    @traitlets.validate("num_heads")
    def _check_num_heads(self, proposal) -> int:
        value = proposal["value"]
        if not (is_whole(value) and value in self.head_choices):
            fewer = f"; at most {MAX_HEADS} heads are shown" if self.d_model > MAX_HEADS else ""
            raise Refused(
                f"d_model={self.d_model} is not divisible by num_heads={value!r}, or that is more than can be shown; "
                f"choose num_heads from {', '.join(map(str, self.head_choices))}{fewer}"
            )
        return value

    @traitlets.validate("scale")
    def _check_scale(self, proposal) -> str:
        check_choice("scale", proposal["value"], SCALES)
        return proposal["value"]

    @traitlets.validate("temperature")
    def _check_temperature(self, proposal) -> float:
        value = proposal["value"]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not _COLDEST <= value <= _HOTTEST:
            raise Refused(
                f"temperature must be a number from {_COLDEST:g} to {_HOTTEST:g}, got {value!r}; the scores are "
                "divided by it, so 0 cannot be: take a small one for sharp attention"
            )
        return float(value)

    @traitlets.validate("mask")
    def _check_mask(self, proposal) -> str:
        check_choice("mask", proposal["value"], MASKS)
        if proposal["value"] == "causal" and self.num_queries > self.num_keys:
            raise Refused(
                f"a causal mask needs at least as many keys as queries, got {self.num_queries} queries and "
                f"{self.num_keys} keys; choose 'none', 'padding' or 'own'"
            )
        return proposal["value"]

    @traitlets.validate("own_bytes")
    def _check_own_bytes(self, proposal) -> bytes:
        value = proposal["value"]
        if len(value) != self.num_queries * self.num_keys or not set(value) <= {0, 1}:
            raise Refused("own_bytes holds one byte, 0 or 1, a cell; set lab.own_mask to a boolean tensor instead")
        return value

    @traitlets.validate("valid_len")
    def _check_valid_len(self, proposal) -> int:
        check_whole("valid_len", proposal["value"], 0, self.num_keys)
        return proposal["value"]

    @traitlets.validate("head")
    def _check_head(self, proposal) -> int:
        check_whole("head", proposal["value"], 0, self.num_heads - 1)
        return proposal["value"]

    @traitlets.validate("cursor")
    def _check_cursor(self, proposal) -> list[int]:
        value = proposal["value"]
        last = [self.num_queries - 1, self._last_column()]
        pair = isinstance(value, (list, tuple)) and len(value) == 2 and all(map(is_whole, value))
        if not pair or not all(0 <= at <= end for at, end in zip(value, last, strict=True)):
            raise Refused(f"cursor must be [query, key], from [0, 0] to {last}, got {value!r}")
        return list(value)

    @traitlets.validate("q_bytes", "k_bytes", "v_bytes", "num_queries", "num_keys", "d_model", "tokens", "key_tokens")
    def _refuse_new_input(self, proposal):
        if self._fixed:
            raise Refused(f"{proposal['trait'].name} stays as it was given; make a new HeadLab instead")
        return proposal["value"]

    @traitlets.observe("num_heads")
    def _keep_focus(self, _change):
        self.head = min(self.head, self.num_heads - 1)
        row, column = self.cursor
        self.cursor = [row, min(column, self._last_column())]

    def _last_column(self) -> int:
        """Return the last column of the cursor: behind the keys stand output features, if there are values."""
        return self.num_keys - 1 + (self.d_model // self.num_heads if self.v_bytes else 0)

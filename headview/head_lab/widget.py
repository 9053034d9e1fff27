"""HeadLab: turn the knobs of an attention and see every head answer.

Python checks q, k and v (`inputs.py`) and holds the state; `view.js` and its neighbours compute the maps in the
browser while a knob moves. What a cell reads here (`weights`, `output`, `entropy`) is computed by mhalib itself from
the same state, so the two can be compared.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
import traitlets
from jaxtyping import Bool, Float
from torch import Tensor

from headview.base import Checked, Refused, View, check_choice, check_whole, float_bytes, is_number, is_whole, static
from headview.head_lab.inputs import MAX_TOKENS, as_cells, as_inputs, as_written
from mhalib.arguments import as_torch_starts
from mhalib.attention import scaled_dot_product_attention, split_heads
from mhalib.masks import causal_mask, padding_mask
from mhalib.plots import DescribedFigure, as_labels, plot_attention

MAX_HEADS = 64
SCALES = ("head_dim", "none", "d_model")
MASKS = ("none", "causal", "padding", "own")
PARTS = ("scale", "temperature", "mask", "entropy", "output", "code")
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
        show: what is in sight besides the number of heads, out of "scale", "temperature", "mask", "entropy", "output"
            and "code"; the rest folds behind *More*. What is given another value than its first is in sight as well.
        code_inputs: how you write q, k and, if given, v as float32 of shape `(1, T, d_model)`, for the code.

    All but the tensors and tokens can be set later, by the reader in the view and by a cell: `lab.num_heads`,
    `lab.scale`, `lab.temperature`, `lab.mask`, `lab.valid_len`, `lab.own_mask`, `lab.show`, and `lab.head`, the head
    in focus. A value that does not fit is refused with a ValueError (a `traitlets.TraitError` as well), and the old
    one stays. `HeadLab.of_words` takes a sentence that the reader may write anew.

    Raises:
        TypeError: q, k or v are not floating, or the mask is not boolean.
        ValueError: a shape, a number or a choice does not fit.

    Vaswani et al. (2017), section 3.2. Taught in notebooks 02 to 04.
    """

    _esm = static("head_lab.js")
    _css = static("head_lab.css")

    q_bytes = traitlets.Bytes(read_only=True).tag(sync=True)  # float32, (Tq, d_model)
    k_bytes = traitlets.Bytes(read_only=True).tag(sync=True)  # float32, (Tk, d_model)
    v_bytes = traitlets.Bytes(read_only=True).tag(sync=True)  # float32, (Tk, d_model), or empty
    sizes = traitlets.List(read_only=True).tag(sync=True)  # Tq, Tk, d_model
    tokens = traitlets.List(traitlets.Unicode(), read_only=True).tag(sync=True)
    key_tokens = traitlets.List(traitlets.Unicode(), read_only=True).tag(sync=True)
    head_choices = traitlets.List(traitlets.Int(), read_only=True).tag(sync=True)
    code_inputs = traitlets.List(traitlets.Unicode(), read_only=True).tag(sync=True)
    problem = traitlets.Unicode(read_only=True).tag(sync=True)  # why the present sentence has no numbers

    num_heads = traitlets.TraitType(1).tag(sync=True)
    scale = Checked("head_dim", check_choice, SCALES).tag(sync=True)
    temperature = traitlets.TraitType(1.0).tag(sync=True)
    mask = traitlets.TraitType("none").tag(sync=True)
    valid_len = traitlets.TraitType(0).tag(sync=True)
    # One byte a cell, 1 where attention is allowed, (Tq, Tk). From the view it arrives as a memoryview.
    own_bytes = traitlets.Bytes().tag(sync=True, from_json=lambda value, _widget: bytes(value))
    head = traitlets.TraitType(0).tag(sync=True)
    show = traitlets.TraitType().tag(sync=True)
    sentence = traitlets.TraitType("").tag(sync=True)  # where words make the numbers: `of_words`

    @as_torch_starts()
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
        show: Sequence[str] = (),
        code_inputs: Sequence[str] | None = None,
    ):
        self._features: Callable | None = None
        inputs = as_inputs(q, k, v)
        given = [("q", q), ("q", q) if k is None else ("k", k)] + ([] if v is None else [("v", v)])
        written = list(code_inputs or (as_written(*one) for one in given))
        if len(written) != len(given):
            raise ValueError(f"code_inputs says how you write q, k and, if given, v; got {written}")
        labels = _labels(tokens, key_tokens, *map(len, inputs[:2]))
        own = None if isinstance(mask, str) else as_cells(mask, *map(len, inputs[:2]))
        mask = mask if own is None else "own"
        super().__init__(show=[])
        self._take(inputs, *labels)
        self.set_trait("code_inputs", written)
        d_model = self.sizes[2]
        self.set_trait("head_choices", [n for n in range(1, min(d_model, MAX_HEADS) + 1) if d_model % n == 0])
        if own is not None:
            self.own_mask = own
        chosen = {"num_heads": num_heads, "scale": scale, "temperature": temperature, "mask": mask}
        first = {name: getattr(self, name) for name in chosen}
        if valid_len is not None:
            chosen["valid_len"] = valid_len
        try:
            for name, value in chosen.items():
                setattr(self, name, value)
            changed = [name for name in PARTS if name in first and getattr(self, name) != first[name]]
            self.show = [*show, *(name for name in changed if name not in show)]
        except Refused:
            self.close()  # nobody gets it, so the page shall not keep it
            raise

    @classmethod
    def of_words(cls, features: Callable[[list[str]], Tensor], words: Sequence[str], **options) -> "HeadLab":
        """Return the lab of a sentence, in which a reader may write other words as long as a kernel lives.

        Args:
            features: turns words into numbers `(T, d_model)` or `(1, T, d_model)`, which are queries, keys and values
                alike; or into a tuple of q, k and v. `d_model` is the same for all sentences.
            words: the first sentence. A cell sets another one by `lab.sentence = "my own words"`.
            options: what `HeadLab` takes by name, but for tokens.
        """
        given = features(list(words))
        q, k, v = given if isinstance(given, tuple) else (given,) * 3
        lab = cls(q, k, v, tokens=list(words), **options)
        lab.sentence = " ".join(words)
        lab._features = features
        return lab

    def _take(self, inputs: tuple[Tensor, Tensor, Tensor | None], tokens: list[str], key_tokens: list[str]) -> None:
        """Take other numbers and their labels; a mask of the old ones means nothing any more."""
        q, k, v = inputs
        packed = {"q_bytes": float_bytes(q), "k_bytes": float_bytes(k), "v_bytes": b"" if v is None else float_bytes(v)}
        sizes = [len(q), len(k), q.shape[1]]
        with self.hold_sync():
            for name, value in (packed | {"sizes": sizes, "tokens": tokens, "key_tokens": key_tokens}).items():
                self.set_trait(name, value)
            self.own_mask = torch.ones(len(q), len(k), dtype=torch.bool)
            self.valid_len = len(k)

    @traitlets.observe("sentence")
    def _read_words(self, change) -> None:
        """Turn a new sentence into numbers. The view has no cell that could show an error, so it shows the text."""
        if self._features is None:
            return
        words = change["new"].split()
        try:
            given = self._features(words)
            inputs = as_inputs(*(given if isinstance(given, tuple) else (given,) * 3))
            if inputs[0].shape[1] != self.sizes[2]:
                raise ValueError(f"features must stay {self.sizes[2]} numbers a word, got {inputs[0].shape[1]}")
            self._take(inputs, *_labels(words, None, *map(len, inputs[:2])))
            self.set_trait("problem", "")
        except Exception as error:  # whatever a reader's function raises
            self.set_trait("problem", f"These words have no numbers. {type(error).__name__}: {error}"[:500])

    # ---------------------------------------------------------------- what a cell reads

    @property
    def own_mask(self) -> Bool[Tensor, "queries keys"]:
        """The own mask, True where attention is allowed; used while `lab.mask` is `"own"`. Set it as a whole."""
        return torch.frombuffer(bytearray(self.own_bytes), dtype=torch.uint8).bool().reshape(self.sizes[:2])

    @own_mask.setter
    def own_mask(self, cells):
        self.own_bytes = as_cells(cells, *self.sizes[:2]).numpy().tobytes()

    @property
    @as_torch_starts()
    def allowed(self) -> Bool[Tensor, "queries keys"]:
        """Where attention is allowed under the present mask."""
        shape = tuple(self.sizes[:2])
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
        shown = min(self.num_heads, MAX_HEADS if max(self.sizes[:2]) <= 64 else 16)
        columns = min(shown, math.ceil(math.sqrt(1.3 * shown)))
        columns = math.ceil(shown / math.ceil(shown / columns))  # 2 + 2 rather than 3 + 1
        labels = (self.tokens, self.key_tokens) if columns * self.sizes[1] <= 48 else ([], [])
        bits = self.entropy[0].mean(-1).tolist()
        told = [f"head {head} · {bits[head]:.2f} bits" for head in range(shown)]  # as the view writes it
        figure = plot_attention(
            self.weights[0, :shown],
            *(names or None for names in labels),
            mask=None if self.mask == "none" else self.allowed,
            titles=told if "entropy" in self.show and shown <= 16 else None,
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
        divisor = {"head_dim": q.shape[-1], "none": 1, "d_model": self.sizes[2]}[self.scale] ** 0.5
        mask = None if self.mask == "none" else self.allowed
        return scaled_dot_product_attention(q, k, v, mask, scale=1 / (divisor * self.temperature))

    def _heads(self, data: bytes) -> Tensor:
        rows = torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(1, -1, self.sizes[2])
        return split_heads(rows.double(), self.num_heads)  # (1, T, d_model) -> (1, num_heads, T, head_dim)

    # ---------------------------------------------------------------- what can be set

    @traitlets.validate("valid_len", "head", "show", "sentence")
    def _check(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        if name == "valid_len":
            check_whole(name, value, 0, self.sizes[1])
        elif name == "head":
            check_whole(name, value, 0, self.num_heads - 1)
        elif name == "sentence":
            if not isinstance(value, str) or not 1 <= len(value.split()) <= MAX_TOKENS:
                raise Refused(f"sentence must be a text of 1 to {MAX_TOKENS} words, got {repr(value)[:100]}")
        elif not isinstance(value, (list, tuple)) or not all(part in PARTS for part in value):
            raise Refused(f"show names what is in sight, out of {', '.join(map(repr, PARTS))}; got {value!r}")
        return list(value) if name == "show" else value

    @traitlets.validate("num_heads")
    def _check_num_heads(self, proposal) -> int:
        value = proposal["value"]
        if not (is_whole(value) and value in self.head_choices):
            raise Refused(
                f"d_model={self.sizes[2]} is not divisible by num_heads={value!r}, or that is more than can be shown; "
                f"choose num_heads from {', '.join(map(str, self.head_choices))}"
            )
        return value

    @traitlets.validate("temperature")
    def _check_temperature(self, proposal) -> float:
        value = proposal["value"]
        if not is_number(value) or not _COLDEST <= value <= _HOTTEST:
            raise Refused(
                f"temperature must be a number from {_COLDEST:g} to {_HOTTEST:g}, got {value!r}; the scores are "
                "divided by it, so 0 cannot be: take a small one for sharp attention"
            )
        return float(value)

    @traitlets.validate("mask")
    def _check_mask(self, proposal) -> str:
        check_choice("mask", proposal["value"], MASKS)
        if proposal["value"] == "causal" and self.sizes[0] > self.sizes[1]:
            raise Refused(
                f"a causal mask needs at least as many keys as queries, got {self.sizes[0]} queries and "
                f"{self.sizes[1]} keys; choose 'none', 'padding' or 'own'"
            )
        return proposal["value"]

    @traitlets.validate("own_bytes")
    def _check_own_bytes(self, proposal) -> bytes:
        if len(proposal["value"]) != self.sizes[0] * self.sizes[1] or not set(proposal["value"]) <= {0, 1}:
            raise Refused("own_bytes holds one byte, 0 or 1, a cell; set lab.own_mask to a boolean tensor instead")
        return proposal["value"]

    @traitlets.observe("num_heads")
    def _keep_focus(self, _change):
        self.head = min(self.head, self.num_heads - 1)


def _labels(tokens, key_tokens, queries: int, keys: int) -> tuple[list[str], list[str]]:
    """Return the labels of queries and keys; the keys have those of the queries where they are as many."""
    key_tokens = tokens if key_tokens is None and queries == keys else key_tokens
    return as_labels(tokens, queries, "tokens", "queries"), as_labels(key_tokens, keys, "key_tokens", "keys")

"""LiveModel: all heads of a real model on the sentence that you type, computed in the browser itself.

The view brings the model into a worker when it is asked to, and needs no kernel then; where there is one, it hands over
the pieces, and torch's own numbers for what the view shows.
"""

import hashlib

import torch
import traitlets
from jaxtyping import Float
from torch import Tensor

from headview.base import Checked, Refused, View, check_whole, float_bytes, is_place, static
from headview.live_model.pack import packed
from mhalib.heads import attention_layers, gated_heads
from mhalib.plots import DescribedFigure, plot_attention

FIRST = "The animal did not cross the street because it was too tired."
SECOND = "The tired animal stayed on its side of the road."


class LiveModel(View):
    """A sentence model that runs in the page: type, and its heads move; switch heads off, and compare two sentences.

    Args:
        model: a `mhalib.pretrained.SentenceModel`, such as `load_minilm()`.
        sentence, second: what the heads look at, and what it is compared with.
        head: `(layer, head)`, the one that is shown large; when left out, head 1 of layer 3, as far as there are any.
        query: the number of the token whose row is marked.

    The browser has the weights in 8 bits: of 1,000 attention weights 999 lie within 0.02 of torch's, and the vectors of
    sentences have a cosine of 0.999 with torch's. `sentence`, `second`, `head`, `query`, and `off`, a list of
    `[layer, head]`, can be read and set from a cell. A page without a kernel looks for the pieces of the model in the
    folder `live` beside it, where `make site` puts them.

    Raises:
        TypeError: `model` is no sentence model.
        ValueError: a sentence is no text, or a head is not there.

    Taught in notebook 10.
    """

    _esm = static("live_model.js")
    _css = static("live_model.css")

    sentence = traitlets.TraitType("").tag(sync=True)
    second = traitlets.TraitType("").tag(sync=True)
    off = traitlets.TraitType().tag(sync=True)
    head = traitlets.TraitType().tag(sync=True)
    query = Checked(0, check_whole, 0, 511).tag(sync=True)
    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # layers, heads
    megabytes = traitlets.Int().tag(sync=True)
    first_texts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    first_tokens = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    first_maps = traitlets.Bytes().tag(sync=True)  # float32, of both sentences: layers x heads x tokens x tokens
    first_vectors = traitlets.Bytes().tag(sync=True)  # float32, 2 x d_model

    def __init__(
        self, model, sentence: str = FIRST, second: str = SECOND, *, head: tuple[int, int] | None = None, query: int = 9
    ):
        if not all(hasattr(model, name) for name in ("attend", "encode", "tokenizer")):
            name = type(model).__name__
            raise TypeError(f"model must be a SentenceModel, such as mhalib.pretrained.load_minilm(), got {name}")
        layers = list(attention_layers(model).values())
        self._model, self._pieces, self._sizes = model, None, (len(layers), layers[0].num_heads)
        texts = [str(sentence).strip(), str(second).strip()]  # what is no text is refused below
        tokens, maps = zip(*map(model.attend, texts), strict=True)
        super().__init__(
            sizes=list(self._sizes),
            sentence=sentence,
            second=second,
            off=[],
            head=[min(3, self._sizes[0] - 1), min(1, self._sizes[1] - 1)] if head is None else head,
            query=query,
            megabytes=max(1, round(sum(tensor.numel() for tensor in model.state_dict().values()) / 1e6)),
            first_texts=texts,
            first_tokens=list(tokens),
            first_maps=b"".join(map(float_bytes, maps)),
            first_vectors=float_bytes(model.encode(texts)),
        )
        self.on_msg(self._answer)

    def attend(self) -> tuple[list[str], Float[Tensor, "layers heads tokens tokens"], float]:
        """Return what torch says of what is shown: the tokens of `sentence`, all weights, how alike the sentences are.

        Heads that are off hand on nothing, as in the view.
        """
        gates = torch.ones(self._sizes)
        for layer, head in self.off:
            gates[layer, head] = 0
        with gated_heads(self._model, gates):
            first, second = self._model.encode([self.sentence, self.second])
            return *self._model.attend(self.sentence), float(first @ second)

    def figure(self) -> DescribedFigure:
        """Return what the chosen head's query looks at in the sentence, as torch computes it."""
        tokens, maps, alike = self.attend()
        layer, head = self.head
        at = min(self.query, len(tokens) - 1)
        title = f"layer {layer} head {head}"
        figure = plot_attention(
            maps[layer, head, at : at + 1], tokens[at : at + 1], tokens, titles=[title], scale="root"
        )
        figure.alt += f" The sentence: {self.sentence!r}. Its cosine with {self.second!r} is {alike:.3f}."
        return figure

    def _answer(self, _, content, __):
        """Send the view what it asks for: torch's weights, or a piece of the model."""
        if "torch" in content:
            self.send({"torch": content["torch"]}, [float_bytes(self.attend()[1])])
        if "piece" in content:
            self._pieces = self._pieces or packed(self._model)
            about = {"count": len(self._pieces), "model": hashlib.sha256(b"".join(self._pieces)).hexdigest()}
            self.send({"number": content["piece"], **about}, [self._pieces[content["piece"]]])

    @traitlets.validate("sentence", "second")
    def _check_text(self, proposal):
        if not isinstance(proposal["value"], str):
            raise Refused(f"{proposal['trait'].name} must be a text, got {proposal['value']!r:.80}")
        return proposal["value"]

    @traitlets.validate("head", "off")
    def _check_heads(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        pairs = [value] if name == "head" else value
        if not isinstance(pairs, (list, tuple)) or not all(is_place(pair, self._sizes) for pair in pairs):
            wanted = "(layer, head)" if name == "head" else "a list of [layer, head]"
            raise Refused(f"{name} must be {wanted}, below {self._sizes}, got {value!r:.80}")
        return list(value) if name == "head" else [list(pair) for pair in value]

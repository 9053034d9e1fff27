"""`why`: what an attention score is made of. A score is q·k, and q and k are sums over all that wrote into a token.

`tape` splits q and k into what each source brought. The products of these parts are the terms of the score, and they
sum to it. `capture` shows where a head looks; `why` shows what made it look there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from headview.tape import Tape

LITTLE = 1e-3  # of the largest weight of a row: more than rounding
BIASED = "what is added to q·k here, such as a position bias, is not included"


@dataclass(frozen=True)
class Why:
    """The score of one query for one key, split into (source of the query) x (source of the key).

    Attributes:
        names: the sources: embeddings, every head of the layers below ("head 0.3": head 3 of the first attention),
            modules that are not linear, such as a feed-forward layer, and "biases".
        queries, keys: `(sources, T, head_dim)`, what each source brings into the query and the key of every token.
        scale: the factor on q k^T, usually 1 / sqrt(head_dim).
        frozen: the modules on the way whose norm (or gate) was taken as a fixed number. If there are any, the split
            says what each source does as long as these numbers stay as they are.
        seen: which keys a query may look at, bool `(T, T)`.
        biased: whether the scores of this head hold more than q·k, such as a position bias; no term includes that.
    """

    layer: int
    head: int
    query: int
    key: int
    names: tuple[str, ...]
    queries: Tensor
    keys: Tensor
    scale: float
    frozen: tuple[str, ...]
    seen: Tensor
    biased: bool
    title: str = "score"

    @property
    def terms(self) -> Tensor:
        """The products, `(sources of the query, sources of the key)`, which sum to the score."""
        return self.scale * self.queries[:, self.query] @ self.keys[:, self.key].mT  # (S, d) @ (d, S) -> (S, S)

    @property
    def score(self) -> float:
        """The score as it goes into the softmax, without masks and biases that are added there."""
        return self.terms.sum().item()

    def lead(self) -> "Why":
        """Return the split of the key's lead: its score minus the mean score of all keys that the query may see.

        A softmax sees only differences, so what adds the same to every key decides nothing, and is 0 here.
        """
        mean = self.keys[:, self.seen[self.query]].mean(1, keepdim=True)  # (S, 1, d)
        return replace(self, keys=self.keys - mean, title="lead")

    def top(self, n: int = 5) -> list[tuple[str, str, float]]:
        """Return the `n` terms furthest from 0: source of the query, source of the key, value."""
        terms = self.terms
        order = terms.abs().flatten().argsort(descending=True)[:n].tolist()
        cells = [divmod(i, len(self.names)) for i in order]
        return [(self.names[i], self.names[j], terms[i, j].item()) for i, j in cells]

    def table(self, n: int = 8) -> str:
        """Return the terms of the `n` sources that matter most, as text with a row for each source of the query."""
        terms = self.terms.tolist()
        size = self.terms.abs().sum(0) + self.terms.abs().sum(1)
        kept = sorted(size.argsort(descending=True)[:n].tolist())
        wide = max(8, *(len(self.names[i]) + 2 for i in kept))
        head = "query \\ key".ljust(max(wide, 13)) + "".join(f"{self.names[j]:>{wide}}" for j in kept)
        rows = [self.names[i].ljust(max(wide, 13)) + "".join(f"{terms[i][j]:{wide}.2f}" for j in kept) for i in kept]
        left = len(self.names) - len(kept)
        return "\n".join([head, *rows, *([f"and {left} more sources"] if left else [])])

    def __repr__(self) -> str:
        top = self.top()
        lines = [f"head {self.layer}.{self.head}, query {self.query}, key {self.key}: {self.title} {self.score:.2f}"]
        lines += [f"{value:+8.2f}  {q} × {k}" for q, k, value in top]
        if others := len(self.names) ** 2 - len(top):
            lines.append(f"{self.score - sum(value for *_, value in top):+8.2f}  the other {others} terms")
        kept = f"norms kept as they were: {', '.join(self.frozen[:3])}{', …' * (len(self.frozen) > 3)}"
        return "\n".join([*lines, *[kept] * bool(self.frozen), *[BIASED] * self.biased])


class Sources:
    """One pass of a model, any score of which you can split; model, inputs, sample and errors are as in `why`."""

    def __init__(self, model: nn.Module, inputs: object, *, sample: int = 0):
        from mhalib.heads.gates import resting  # only now: capture needs torch alone

        if not isinstance(model, nn.Module):
            raise TypeError(f"why needs a model, an nn.Module, got {type(model).__name__}; give the model itself")
        tape, named = Tape(model), dict(inputs) if isinstance(inputs, Mapping) else {}
        given = () if named else inputs if isinstance(inputs, tuple) else (inputs,)
        if not any(isinstance(x, Tensor) for x in tree_leaves((given, named))):
            raise TypeError(f"inputs hold no tensor, got {inputs!r:.40}; give tokenizer(text, return_tensors='pt')")
        with resting(model), torch.no_grad(), tape.eye.watching(), tape:  # dropout is no source
            tape.start((given, named))
            model(*given, **named)
        if not tape.calls:
            raise ValueError(f"no attention was seen in {type(model).__name__}; try capture, which tells you why")
        self._calls, self._splits = tape.calls, {}
        self.sample = _one_of("sample", sample, tape.calls[0].step.shape[0])

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """The numbers of heads, queries and keys of each attention, in the order in which they ran."""
        return [call.step.shape[1:] for call in self._calls]

    @torch.no_grad()
    def why(self, *, layer: int, head: int, query: int, key: int) -> Why:
        """Return the split of one score; arguments and errors are as in `why`."""
        layer = _one_of("layer", layer, len(self._calls))
        call, shape = self._calls[layer], self.shapes[layer]
        sizes = zip(("head", "query", "key"), (head, query, key), shape, strict=True)
        head, query, key = (_one_of(*each) for each in sizes)
        if layer not in self._splits:
            self._splits[layer] = *call.split(self.sample, layer), call.step.map([self.sample], None)[0]
        names, q, k, frozen, maps = self._splits[layer]
        q, k, scale = q[:, head], k[:, head], call.step.scale  # (S, h, T, d) -> (S, T, d)
        brought = [i for i in range(len(names)) if bool(q[i].any() or k[i].any())]
        allowed = call.step.allowed([self.sample])
        seen = (torch.ones(1, 1, 1, 1).bool() if allowed is None else allowed).expand(1, *shape)[0, head]
        names = tuple(names[i] for i in brought)
        # Does q·k alone make the weights of the head, but for what a sink takes of a row?
        alone = (scale * q.sum(0) @ k.sum(0).mT).cpu().masked_fill(~seen, -torch.inf).softmax(-1)  # (Tq, Tk)
        off = (alone - maps[head] / maps[head].sum(-1, keepdim=True)).abs()  # NaN where a query sees nothing
        biased = bool((off > LITTLE * alone.amax(-1, keepdim=True)).any())
        return Why(layer, head, query, key, names, q[brought], k[brought], scale, frozen, seen, biased)


def why(model: nn.Module, inputs: object, *, layer: int, head: int, query: int, key: int, sample: int = 0) -> Why:
    """Split the score of one query for one key into terms (source of the query) x (source of the key).

    The sources are what wrote into the residual stream before the layer: embeddings and positions, every head of the
    layers below, each feed-forward layer, the biases. The terms sum to the score, to 1e-10 in float64 and to 1e-5 in
    float32 (relative to the sum of their sizes). Norms count as the numbers by which they divided: see `Why.frozen`.

    Args:
        model: any module whose attention `capture` sees. It runs in evaluation mode and is not changed.
        inputs: what to call it with: a tensor, a tuple, or a dict of keywords, as tokenizers return it.
        layer: which attention, counted in the order of the calls, as in `capture`; -1 is the last.
        head, query, key: which of its heads, and the positions of the two tokens.
        sample: which sample of the batch.

    Raises:
        TypeError: the model is not a module, or what should be a number is not.
        ValueError: there is no attention, or no such layer, head, token or sample; the scores are not a multiple of
            q·k; or no sum leads from the layers below to q and k.

    Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits". Taught in notebook 17.

    Examples:
        >>> import torch
        >>> from headview import why
        >>> from mhalib.experiments import CausalModel
        >>> model = CausalModel(vocab=5, tokens=6, d_model=8, num_heads=2)
        >>> split = why(model, torch.tensor([[0, 3, 1, 3]]), layer=1, head=0, query=3, key=2)
        >>> split.names
        ('token', 'position', 'head 0.0', 'head 0.1')
    """
    return Sources(model, inputs, sample=sample).why(layer=layer, head=head, query=query, key=key)


def _one_of(name: str, number: object, count: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{name} must be a whole number, got {number!r}; give one from 0 to {count - 1}")
    if not -count <= number < count:
        raise ValueError(f"{name}={number} is out of range; give one from 0 to {count - 1}, or from the end with -1")
    return number % count

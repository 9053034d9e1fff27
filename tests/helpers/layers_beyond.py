"""Kinds of layers whose faults hide behind a size, a constant, a place that is not told, or a word.

Each is healthy; `BEYOND` says with what one change it is not, and the code.
"""

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from tests.helpers.layers_base import KeyMask, Layer


class RunningSums(Layer):
    """A softmax over chunks of keys, with a running maximum and running sums; chunks are longer than most inputs."""

    def more(self):
        self.chunk = 40

    def forward(self, x):
        q, k, v = self.qkv(x)
        most, total, heads = q.new_full((*q.shape[:-1], 1), -1e30), 0.0, torch.zeros_like(q)
        for keys, values in zip(k.split(self.chunk, 2), v.split(self.chunk, 2), strict=True):
            scores = self.score(q, keys)
            before, most = most, torch.maximum(most, scores.amax(-1, keepdim=True))
            less, weights = (before - most).exp(), (scores - most).exp()
            total, heads = total * less + weights.sum(-1, keepdim=True), self.rescaled(heads, less) + weights @ values
        return self.out(heads / total)

    def rescaled(self, heads, less):
        return heads * less


class ChunksWithAState(Layer):
    """Linear attention to what came before, chunk by chunk; what a chunk leaves is carried to the next."""

    def more(self):
        self.chunk = 40

    def total(self, inside):
        return inside.sum(-1, keepdim=True)

    def forward(self, x):
        q, k, v = self.qkv(x)
        state, sums, heads = q.new_zeros(len(x), self.h, self.hd, self.hd), q.new_zeros(len(x), self.h, self.hd, 1), []
        for some_q, some_k, some_v in zip(*(part.split(self.chunk, 2) for part in (q.exp(), k.exp(), v)), strict=True):
            inside = (some_q @ some_k.mT).tril()
            heads.append((inside @ some_v + some_q @ state) / (self.total(inside) + some_q @ sums))
            state, sums = state + some_k.mT @ some_v, sums + some_k.mT.sum(-1, keepdim=True)
        return self.out(torch.cat(heads, 2))


class ChunksOfQueries(Layer):
    """Causal; queries come in chunks, each of which sees all that is before it."""

    def more(self):
        self.chunk = 40

    def corner(self, start):
        return start

    def forward(self, x):
        q, k, v = self.qkv(x)
        starts = range(0, x.shape[1], self.chunk)
        rows = [torch.ones(x.shape[1], x.shape[1])[: q[:, :, s : s + self.chunk].shape[2]] for s in starts]
        masks = [row.tril(self.corner(s)).bool() for row, s in zip(rows, starts, strict=True)]
        parts = zip(q.split(self.chunk, 2), masks, strict=True)
        return self.out(torch.cat([self.attend(part, k, v, mask) for part, mask in parts], 2))


class PaddedWindows(Layer):
    """Windows of six tokens; the last one is filled up, and what fills it is hidden."""

    def more(self):
        self.window = 6

    def shown(self, tokens, places):
        return torch.arange(places) < tokens

    def forward(self, x):
        tokens, window = x.shape[1], self.window
        parts = self.qkv(nn.functional.pad(x, (0, 0, 0, -tokens % window)))
        q, k, v = (part.unflatten(2, (-1, window)) for part in parts)
        shown = self.shown(tokens, k.shape[2] * window).view(-1, 1, window)
        scores = self.score(q, k).masked_fill(~shown, self.never)
        return self.out((scores.softmax(-1) @ v).flatten(2, 3)[:, :, :tokens])


class Kept(Layer):
    """Keys and values are written into buffers; what is not filled yet is cut off."""

    def more(self):
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(16, self.h, 64, self.hd), persistent=False)

    def filled(self, kept, tokens):
        return kept[:, :, :tokens]

    def forward(self, x):
        (q, k, v), kept = self.qkv(x), []
        for buffer, new in ((self.keys, k), (self.values, v)):
            kept.append(self.filled(buffer.zero_()[: len(x)].index_copy(2, torch.arange(x.shape[1]), new), x.shape[1]))
        return self.out(self.attend(q, *kept, None))


class Capped(Layer):
    """Causal; scores are capped, then later ones hidden."""

    def weigh(self, scores):
        later = torch.ones(scores.shape[-2:]).triu(1).bool()
        return self.hidden(3 * torch.tanh(scores / 3), later).softmax(-1)

    def hidden(self, scores, later):
        return scores.masked_fill(later, self.never)

    def forward(self, x):
        return super().forward(x)


class LearnedBefore(Layer):
    """Causal, with learned keys and values before those of the tokens, which all may see."""

    def more(self):
        self.first = nn.Parameter(torch.randn(2, self.h, 3, self.hd))

    def corner(self, before):
        return before

    def forward(self, x):
        q, k, v = self.qkv(x)
        k, v = (torch.cat([f.expand(len(x), -1, -1, -1), part], 2) for f, part in zip(self.first, (k, v), strict=True))
        return self.out(self.attend(q, k, v, torch.ones(q.shape[2], k.shape[2]).tril(self.corner(3)).bool()))


class PlacesOnDemand(Layer):
    """Places are added to queries and keys where they are given."""

    def placed(self, x, pos):
        return x + pos

    def forward(self, x, query_pos=None):
        y = x if query_pos is None else self.placed(x, query_pos)
        q, k, v = self.split(self.W_q(y)), self.split(self.W_k(y)), self.split(self.W_v(x))
        return self.out(self.attend(q, k, v, None))


class OnesAreKept(KeyMask):
    """mask: of the tokenizer, (B, T), 1 for tokens and 0 for padding. It enters before the softmax."""

    def hide(self, scores, mask):
        return scores if mask is None else scores + self.added(self.axes(mask).to(scores.dtype))

    def added(self, mask):
        return (1 - mask) * -1e4

    def forward(self, x, mask=None):
        """mask: of the tokenizer, (B, T), 1 for tokens and 0 for padding. It enters before the softmax."""
        return super().forward(x, mask)


class Convolved(Layer):
    """Causal; queries and keys are made of a token and the two before it."""

    before, behind = 2, 0

    def more(self):
        self.local = nn.Conv1d(self.d_model, self.d_model, 3, groups=self.d_model)

    def forward(self, x):
        near = self.local(nn.functional.pad(x.mT, (self.before, self.behind))).mT
        q, k, v = self.split(self.W_q(near)), self.split(self.W_k(near)), self.split(self.W_v(x))
        return self.out(self.attend(q, k, v, torch.ones(x.shape[1], x.shape[1]).tril().bool()))


class Gated(Layer):
    """Causal; each head's output is gated by its own token."""

    def forward(self, x):
        heads = self.attend(*self.qkv(x), torch.ones(x.shape[1], x.shape[1]).tril().bool())
        return self.out(heads * self.gate(x).sigmoid())

    def gate(self, x):
        return self.split(x)


class ByLetters(Layer):
    letters = "bhqk,bhkd->bhqd"

    def forward(self, x):
        q, k, v = self.qkv(x)
        return self.out(torch.einsum(self.letters, self.score(q, k).softmax(-1), v))


class Prefix(Layer):
    """Causal, but for a prefix that all may see."""

    def more(self):
        self.register_buffer("past", torch.ones(64, 64).tril().bool(), persistent=False)

    def shown(self, T):
        return self.past[:T, :T].clone()

    def forward(self, x, prefix_len: int = 0):
        mask = self.shown(x.shape[1])
        mask[:, :prefix_len] = True
        return super().forward(x, mask)


class PrefixOfEach(Prefix):
    """The same, of another length in each sample."""

    def forward(self, x, prefix_len=None):
        mask = self.past[: x.shape[1], : x.shape[1]].expand(len(x), -1, -1)
        if prefix_len is not None:
            mask = mask | (torch.arange(x.shape[1]) < prefix_len[:, None])[:, None]
        return Layer.forward(self, x, mask)


class NamedScale(Layer):
    """Its queries are multiplied by softmax_scale."""

    def more(self):
        self.softmax_scale = self.hd**-0.5

    def score(self, q, k):
        return (q * self.softmax_scale) @ k.mT


class TimeFirst(PlacesOnDemand):
    """Takes (T, B, d_model)."""

    def forward(self, x, query_pos=None):
        y = x if query_pos is None else self.placed(x, query_pos)
        q, k, v = (self.split(y.transpose(0, 1)) for y in (self.W_q(y), self.W_k(y), self.W_v(x)))
        return self.out(self.attend(q, k, v, None)).transpose(0, 1)


class PooledAndPadded(Layer):
    """One output for a sample; mask (B, T) is True for tokens."""

    def more(self):
        self.asked = nn.Linear(self.d_model, 1)

    def shown(self, scores, mask):
        return scores.masked_fill(~mask[..., None], -torch.inf)

    def forward(self, x, mask=None):
        scores = self.asked(self.W_q(x).tanh() + self.W_k(x))  # (B, T, 1)
        weights = (scores if mask is None else self.shown(scores, mask)).softmax(-2)
        return self.W_o((weights * self.W_v(x)).sum(-2))


class Flexible(Layer):
    def attend(self, q, k, v, mask):
        return flex_attention(q, k, v)

    def forward(self, x):
        return super().forward(x)


class SilentTrain(Layer):
    """Its train() returns nothing, so eval() does not either."""

    def train(self, mode=True):
        super().train(mode)


class Memories(Layer):
    """mem (B, n, d_model) may stand before the keys; mem_mask says which of it counts."""

    def forward(self, x, mem=None, mask=None, mem_mask=None):
        if mem is None:
            return super().forward(x, mask)
        y = torch.cat([mem, x], 1)
        return self.out(self.attend(self.split(self.W_q(x)), self.split(self.W_k(y)), self.split(self.W_v(y)), None))


class Shifted(Layer):
    """relative positions (rel_shift), from T - 1 tokens before to T - 1 behind."""

    ahead = 1

    def more(self):
        self.distances = nn.Parameter(torch.randn(self.h, 2001, self.hd) / self.hd)

    def score(self, q, k):
        T = q.shape[2]
        rows = q @ self.distances[:, 1001 - T : 1001 + self.ahead * (T - 1)].mT  # (B, h, T, 2 T - 1), or T
        padded = nn.functional.pad(rows, (1, 0)).flatten(2)[:, :, T:]
        return super().score(q, k) + padded.view(*rows.shape)[..., :T]

    def forward(self, x):
        return super().forward(x)


class AlongEdges(Layer):
    """A graph; edge_index (2, edges) leads from its first row to its second."""

    ends = 1

    def forward(self, x, edge_index):
        edge_index = torch.cat([edge_index, torch.arange(len(x)).expand(2, -1)], 1)  # and each node to itself
        q, k, v = (W(x).unflatten(-1, (self.h, self.hd)) for W in (self.W_q, self.W_k, self.W_v))
        e = ((q[edge_index[1]] * k[edge_index[0]]).sum(-1) / self.hd**0.5).exp()  # (edges, h)
        sums = torch.zeros(len(x), self.h).index_add(0, edge_index[self.ends], e)
        heads = torch.zeros_like(v).index_add(
            0, edge_index[1], (e / sums[edge_index[self.ends]])[..., None] * v[edge_index[0]]
        )
        return self.W_o(heads.flatten(1))


class OfDocuments(Layer):
    """segments (B, T) says of which document a token is."""

    def of_heads(self, mask):
        return mask.repeat_interleave(self.h, 0)

    def forward(self, x, segments):
        mask = self.of_heads(segments[:, :, None] == segments[:, None])
        return Layer.forward(self, x, mask.unflatten(0, (-1, self.h)))

    def axes(self, mask):
        return mask


class Cosines(Layer):
    def score(self, q, k):
        return 8 * q @ k.mT / (q.norm(dim=-1, keepdim=True) * self.of_keys(k.norm(dim=-1, keepdim=True)))

    def of_keys(self, norms):
        return norms.mT

    def forward(self, x):
        return super().forward(x)


class CosinesOfPlaces(Cosines):
    def score(self, q, k):
        return super().score(q, k) - torch.arange(q.shape[2]).sub(torch.arange(k.shape[2])[:, None]).abs() / 9


def _merge(self, heads):
    return heads.reshape(len(heads), heads.shape[2], -1)


BEYOND = [  # a healthy kind, what spoils it, and the code
    (RunningSums, {"rescaled": lambda self, heads, less: heads}, "no-softmax"),
    (ChunksWithAState, {"total": lambda self, inside: inside.mean(-1, keepdim=True)}, "no-softmax"),
    (ChunksOfQueries, {"corner": lambda self, start: 0}, "key-unused"),
    (PaddedWindows, {"shown": lambda self, tokens, places: torch.ones(places).bool()}, "mask-leaks"),
    (Kept, {"filled": lambda self, kept, tokens: kept}, "mask-leaks"),
    (Capped, {"hidden": lambda self, scores, later: scores.masked_fill(later, -3.0)}, "future-leak"),
    (LearnedBefore, {"corner": lambda self, before: 0}, "key-unused"),
    (PlacesOnDemand, {"placed": lambda self, x, pos: x.add_(pos)}, "mutates-input"),
    (OnesAreKept, {"added": lambda self, mask: mask}, "mask-leaks"),
    (Convolved, {"before": 1, "behind": 1}, "future-leak"),
    (Gated, {"gate": lambda self, x: x.view(len(x), self.h, -1, self.hd)}, "future-leak"),
    (ByLetters, {"letters": "bhqk,bhqd->bhqd"}, "no-mixing"),
    (Prefix, {"shown": lambda self, T: self.past[:T, :T]}, "not-deterministic"),
    (PrefixOfEach, {"merge": _merge}, "mixes-tokens-on-merge"),
    (NamedScale, {"score": lambda self, q, k: NamedScale.score(self, q, k) * self.softmax_scale}, "wrong-scale"),
    (TimeFirst, {"placed": lambda self, x, pos: x.add_(pos)}, "mutates-input"),
    (PooledAndPadded, {"shown": lambda self, scores, mask: scores * mask[..., None]}, "mask-leaks"),
    (Flexible, {"merge": _merge}, "mixes-tokens-on-merge"),
    (SilentTrain, {"merge": _merge}, "mixes-tokens-on-merge"),
    (Shifted, {"ahead": 0}, "mixes-tokens"),
    (AlongEdges, {"ends": 0}, "softmax-axis"),
    (OfDocuments, {"of_heads": lambda self, mask: mask.repeat(self.h, 1, 1)}, "mask-order"),
    (Cosines, {"of_keys": lambda self, norms: norms}, "wrong-scale"),
    (CosinesOfPlaces, {"of_keys": lambda self, norms: norms}, "wrong-scale"),
    (Memories, {"merge": _merge}, "mixes-tokens-on-merge"),
]

"""Kinds of layers in public packages, by which 300 of their classes showed what the doctor had believed too much.

Each is healthy; `LIBRARIES` says with what one change it is not, and the code.
"""

import math

import torch
from torch import nn

from tests.helpers.layers_base import Layer


class MaskAsSwitch(Layer):
    """Whatever the mask holds, with one it hides later tokens, as Whisper does where its kernel is fused."""

    def forward(self, x, mask=None):
        later = None if mask is None else torch.ones(x.shape[1], x.shape[1]).tril().bool()
        return super().forward(x, later)


class Processor:
    """Computes for its layer, and takes more than that one hands over."""

    def __call__(self, layer, x, context=None):
        if context is not None:
            return layer.W_o(layer.merge(layer.attend(*layer.qkv(context), None)))
        return layer.merge(layer.attend(*layer.qkv(x), None))


class ByAProcessor(Layer):
    """An object that is no module computes; a projection waits for what that object alone may be given."""

    def more(self):
        self.processor = Processor()

    def forward(self, x, encoder_hidden_states=None):
        return self.processor(self, x)


class TimeFirst(Layer):
    """Maps (query, key, batch, head), which an einsum turns; with words about relative positions."""

    def score(self, q, k):
        return torch.einsum("ibhd,jbhd->ijbh", q, k) / math.sqrt(self.hd)

    def forward(self, x):  # (T, B, d_model)
        q, k, v = (W(x).unflatten(-1, (self.h, self.hd)) for W in (self.W_q, self.W_k, self.W_v))
        return self.W_o(torch.einsum("ijbh,jbhd->ibhd", self.score(q, k).softmax(1), v).flatten(2))


class NormedPicture(Layer):
    """Pictures (B, d_model, H, W), normed in groups; its last projection begins at nearly nothing."""

    def more(self):
        self.norm = nn.GroupNorm(4, self.d_model)
        self.W_o.weight.data *= 1e-7

    def tokens(self, x):
        return x.flatten(2).transpose(1, 2)

    def forward(self, x):
        out = super().forward(self.tokens(self.norm(x)))
        return x + out.transpose(1, 2).reshape(x.shape)


class AddsAPrior(Layer):
    """The mask is additive and may be a prior, added to the scores."""

    before = 0.0

    def hide(self, scores, mask):
        return scores if mask is None else scores + mask[:, None] * (self.before / math.sqrt(self.hd) or 1.0)

    def forward(self, x, attn_bias=None):
        return super().forward(x, attn_bias)


class MaskOfQueries(Layer):
    """`mask` is of the queries and `context_mask` of the keys; a hidden query sees all keys alike."""

    def forward(self, x, context, mask=None, context_mask=None):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(context)), self.split(self.W_v(context))
        rows = torch.ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        columns = torch.ones(context.shape[:2], dtype=torch.bool) if context_mask is None else context_mask
        return self.out(self.attend(q, k, v, rows[:, :, None] & columns[:, None]))


class SlotsAtRandom(Layer):
    """Its queries are drawn anew for each call."""

    def forward(self, x):
        return self.out(self.attend(self.split(self.W_q(torch.randn_like(x))), *self.qkv(x)[1:], None))


class RelativeKeys(Layer):
    """Causal; a vector for each distance is brought to its place by a shift, as in Music Transformer."""

    def more(self):
        self.by_distance = nn.Parameter(torch.randn(64, self.hd))  # the last is that of a token and itself

    def rows(self, T):
        return self.by_distance[-T:]

    def score(self, q, k):
        T = q.shape[2]
        padded = nn.functional.pad(q @ self.rows(T).mT, (1, 0))
        shifted = padded.reshape(*q.shape[:2], T + 1, T)[:, :, 1:]
        scores = (q @ k.mT + shifted) / math.sqrt(self.hd)
        return scores.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)

    def forward(self, x):
        return super().forward(x)


class SortedPoints(Layer):
    """Points are brought in an order by their first coordinate, and back."""

    def back(self, order):
        return order.argsort(1)

    def forward(self, x, xyz):
        def taken(x, order):
            return x.gather(1, order[..., None].expand_as(x))

        order = xyz[..., 0].argsort(1)
        return taken(super().forward(taken(x, order)), self.back(order))


class ObservationsBefore(Layer):
    """What was observed may stand before the tokens, each of which sees it and what came up to itself."""

    def triangle(self, queries, keys):
        return torch.ones(queries, keys).tril(keys - queries).bool()

    def forward(self, x, observations=None):
        keys = x if observations is None else torch.cat([observations, x], 1)
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(keys)), self.split(self.W_v(keys))
        return self.out(self.attend(q, k, v, self.triangle(x.shape[1], keys.shape[1])))


class FewerKeys(Layer):
    """A convolution makes one key of four pixels, as in a pyramid vision transformer."""

    def more(self):
        self.fewer = nn.Conv2d(self.d_model, self.d_model, 2, 2)

    def picture(self, x, H, W):
        return x.mT.reshape(*x.mT.shape[:2], H, W)

    def forward(self, x, H, W):
        few = self.fewer(self.picture(x, H, W)).flatten(2).mT
        return self.out(self.attend(self.split(self.W_q(x)), *self.qkv(few)[1:], None))


class InChunks(Layer):
    """Causal linear attention in chunks of four, with a state of those before."""

    early = False

    def attend(self, q, k, v, mask):
        state, out = torch.zeros(*q.shape[:2], self.hd, self.hd), []
        for i in range(0, q.shape[2], 4):
            one, key, value = (x[:, :, i : i + 4] for x in (q, k, v))
            after = state + key.mT @ value
            out.append((one @ key.mT).tril() @ value + one @ (after if self.early else state))
            state = after
        return torch.cat(out, 2)

    def forward(self, x):
        return super().forward(x)


class WithSinks(Layer):
    """Causal, with a sink for each head, one more number in the sum that the weights are divided by."""

    def more(self):
        self.sinks = nn.Parameter(torch.zeros(self.h))

    def weigh(self, scores):
        scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -torch.inf)
        return torch.cat([scores, self.sinks.view(1, -1, 1, 1).expand_as(scores[..., :1])], -1).softmax(-1)[..., :-1]

    def forward(self, x):
        return super().forward(x)


class SlopesBothWays(Layer):
    """ALiBi where every token is seen: what is far away counts less, on either side."""

    def distance(self, T):
        return -(torch.arange(T)[:, None] - torch.arange(T)).abs()

    def score(self, q, k):
        slopes = 2.0 ** -torch.arange(1.0, self.h + 1)
        return super().score(q, k) + slopes[:, None, None] * self.distance(q.shape[2])

    def forward(self, x):
        return super().forward(x)


class PointwiseByLength(Layer):
    """Causal; no softmax makes shares, and all is divided by the number of tokens, as in HSTU."""

    def weigh(self, scores):
        return nn.functional.silu(scores).tril() / scores.shape[-1]

    def forward(self, x):
        return super().forward(x)


class ScalesIfAsked(Layer):
    """Whether it scales is a choice, as in AutoInt."""

    def more(self, scaling=False):
        self.scaling = scaling

    def score(self, q, k):
        return super().score(q, k) if self.scaling else q @ k.mT


class Unprojected(Layer):
    """What its heads give, joined, is its output, as in BertSelfAttention."""

    def more(self):
        self.W_o = nn.Identity()

    def forward(self, x):
        return super().forward(x)


class OfThePast(Layer):
    """A window of three tokens, the last of them its own."""

    def before(self, T):
        return torch.ones(T, T).tril().triu(-2).bool()

    def forward(self, x):
        return super().forward(x, self.before(x.shape[1]))


class GatedBag(Layer):
    """Instances of a bag, pooled for each of three classes; it gives its weights, which have an axis of tokens, too."""

    axis = 1

    def more(self):
        self.score_of = nn.Linear(self.d_model, 3)

    def forward(self, bag):
        h = self.W_v(bag)
        weights = self.score_of(self.W_q(bag).tanh() * self.W_k(bag).sigmoid()).softmax(self.axis)
        pooled = torch.einsum("bnk,bnd->bkd", weights, h)
        return {"logits": self.W_o(pooled).sum(-1), "attention": weights, "bag": pooled}


class AsksOfHistory(Layer):
    """Learned queries pool a history under a mask over it, which comes in other words."""

    blocked = False

    def more(self):
        self.asks = nn.Parameter(torch.randn(2, self.d_model))
        self.last = nn.Linear(2 * self.d_model, 3)

    def forward(self, history, attention_mask):
        """attention_mask: (B, T), True = may attend."""
        _, k, v = self.qkv(history)
        hidden = attention_mask.bool()[:, None, None] ^ (not self.blocked)
        scores = self.score(self.split(self.W_q(self.asks)[None]), k).masked_fill(hidden, self.never)
        return {"logits": self.last(self.W_o(self.merge(scores.softmax(-1) @ v)).flatten(1))}


class Whole(Layer):
    """A model of pictures that nothing but pictures fits; the attention in it takes tokens."""

    def more(self):
        self.patches = nn.Conv2d(3, self.d_model, 8, 8)
        self.block = nn.ModuleDict({"attn": self.attention(self.d_model, self.h)})

    class Attention(Layer):
        def forward(self, x):
            return super().forward(x)

    attention = Attention

    def forward(self, pixels):
        return self.block["attn"](self.patches(pixels).flatten(2).mT).mean(1)


class RandomAttention(Whole.Attention):
    def weigh(self, scores):
        return nn.functional.dropout(scores.softmax(-1), 0.1)


class Axial(Layer):
    """Pictures (B, H, W, d_model); each pixel attends along its row, and what comes of that along its column."""

    def lines(self, x):
        return x.transpose(1, 2)

    def along(self, x):
        return super().forward(x.flatten(0, 1)).view(x.shape)

    def forward(self, x):
        B, H, W, d = x.shape
        x = x + self.along(x)
        columns = self.along(self.lines(x).reshape(B, W, H, d))
        return x + (columns.transpose(1, 2) if self.upright else columns.reshape(x.shape))

    upright = True


class OfASensor(Layer):
    """Six channels, a convolution, an LSTM; one score for each moment pools them."""

    axis = 1

    def more(self):
        del self.W_k, self.W_v
        self.conv, self.score_of = nn.Conv1d(6, self.d_model, 3, padding=1), nn.Linear(self.d_model, 1)
        self.lstm = nn.LSTM(self.d_model, self.d_model, batch_first=True)

    def forward(self, signal):
        x, _ = self.lstm(self.conv(signal.mT).mT)
        weights = self.score_of(self.W_q(x).tanh()).softmax(self.axis)  # (B, T, 1)
        return self.W_o((weights * x).sum(1))


class OfThree(Layer):
    """Cross-attention; keys and values are handed over one by one."""

    def of(self, query, key, value):
        return query, key, value

    def forward(self, query, key, value):
        q, k, v = self.of(query, key, value)
        return self.out(self.attend(self.split(self.W_q(q)), self.split(self.W_k(k)), self.split(self.W_v(v)), None))


class OfMemory(Layer):
    """Its memory may be longer than what asks."""

    end = None

    def forward(self, x, memory):
        m = memory[:, : x.shape[1] if self.end else None]
        return self.out(self.attend(self.split(self.W_q(x)), self.split(self.W_k(m)), self.split(self.W_v(m)), None))


class KeepsFour(Layer):
    """Causal, and only the last four keys are seen and kept, whatever came before."""

    forgets = False  # a token at each step, in place of what is beyond the window

    def forward(self, x, past=None):
        q, k, v = self.qkv(x)
        if past is not None:
            k, v = (torch.cat([old[:, :, int(self.forgets) :], new], 2) for old, new in zip(past, (k, v), strict=True))
        T, S = q.shape[2], k.shape[2]
        seen = torch.ones(T, S).tril(S - T).triu(-T if self.forgets else S - T - 3).bool()
        return self.out(self.attend(q, k, v, seen)), (k, v)


def _causal(scores):
    return scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -torch.inf).softmax(-1)


def _scrambled(self, x):
    return x.reshape(len(x), -1, self.d_model)


LIBRARIES = [  # a healthy kind, what spoils it, and the code
    (MaskAsSwitch, {"merge": lambda self, heads: Layer.merge(self, heads.flip(2))}, "mixes-tokens-on-merge"),
    (ByAProcessor, {"score": lambda self, q, k: q @ k.mT}, "wrong-scale"),
    (TimeFirst, {"score": lambda self, q, k: torch.einsum("ibhd,jbhd->ijbh", q, k)}, "wrong-scale"),
    (NormedPicture, {"tokens": _scrambled}, "mixes-tokens"),
    (AddsAPrior, {"before": 1.0}, "wrong-scale"),
    (MaskOfQueries, {"score": lambda self, q, k: q @ k.mT}, "wrong-scale"),
    (RelativeKeys, {"rows": lambda self, T: self.by_distance[:T]}, "future-leak"),
    (SortedPoints, {"back": lambda self, order: order}, "mixes-tokens-on-merge"),
    (ObservationsBefore, {"triangle": lambda self, q, k: torch.ones(q, k).tril().bool()}, "key-unused"),
    (FewerKeys, {"picture": lambda self, x, H, W: x.reshape(len(x), -1, H, W)}, "mixes-tokens"),
    (InChunks, {"early": True}, "future-leak"),
    (WithSinks, {"weigh": lambda self, scores: _causal(scores + self.sinks.view(1, -1, 1, 1))}, "dead-parameters"),
    (
        Unprojected,
        {"merge": lambda self, heads: heads.reshape(len(heads), heads.shape[2], -1)},
        "mixes-tokens-on-merge",
    ),
    (OfThePast, {"before": lambda self, T: torch.ones(T, T).triu(-2).bool()}, "future-leak"),
    (GatedBag, {"axis": 2}, "softmax-axis"),
    (OfASensor, {"axis": 2}, "softmax-axis"),
    (Axial, {"lines": lambda self, x: x, "upright": False}, "mixes-tokens"),
    (OfThree, {"of": lambda self, query, key, value: (query, query, query)}, "input-ignored"),
    (OfMemory, {"end": True}, "key-unused"),
    (KeepsFour, {"forgets": True}, "cache-differs"),
    (AsksOfHistory, {"blocked": True}, "mask-inverted"),
    (Whole, {"attention": RandomAttention}, "not-deterministic"),
    (SlopesBothWays, {"distance": lambda self, T: torch.arange(T).expand(T, -1)}, "positions-not-relative"),
]

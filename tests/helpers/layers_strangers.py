"""Kinds of layers by which strangers showed that the doctor had believed too much of all layers.

Each is healthy; `STRANGE` says with what one change it is not, and the code.
"""

import math

import torch
from torch import nn

from tests.helpers.layers_base import Layer
from tests.helpers.layers_calls import Cached


class Joined(Layer):
    """Keys and values of two projections, one behind the other."""

    def more(self):
        self.of_context = Layer(self.d_model, self.h)
        del self.of_context.W_q, self.of_context.W_o

    def forward(self, x, context):
        q, k, v = self.qkv(x)
        other_k, other_v = self.split(self.of_context.W_k(context)), self.split_v(self.of_context.W_v(context))
        return self.out(self.attend(q, torch.cat([other_k, k], 2), torch.cat([other_v, v], 2), None))


class WithPlaces(Layer):
    """Places have a projection of their own, which is added to that of every sample."""

    def more(self):
        self.W_p = nn.Linear(self.d_model, self.d_model)

    def forward(self, x):
        place = torch.arange(x.shape[1])[:, None] / 10 ** torch.linspace(0, 2, self.d_model)
        q, k, v = self.W_q(x), self.W_k(x) + self.W_p(place.sin()), self.W_v(x)
        return self.out(self.attend(self.split(q), self.split(k), self.split(v), None))


class Neighbours(Layer):
    """Each query has three keys of its own; at the ends two queries have the same ones."""

    def forward(self, x):
        T = x.shape[1]
        near = (torch.arange(T) - 1).clamp(0, T - 3)[:, None] + torch.arange(3)
        q, k, v = (W(x).unflatten(-1, (self.h, self.hd)) for W in (self.W_q, self.W_k, self.W_v))
        scores = torch.einsum("bthd,btkhd->bhtk", q, k[:, near]) / self.scale()
        return self.W_o(torch.einsum("bhtk,btkhd->bthd", scores.softmax(-1), v[:, near]).flatten(2))

    def scale(self):
        return math.sqrt(self.hd)


class LeftOut(Layer):
    """A parameter waits for an argument that may be left out."""

    def more(self):
        self.mix = nn.Parameter(torch.ones(2))

    def forward(self, x, first=None):
        q, k, v = self.qkv(x)
        if first is not None:
            v = self.mixed(v, self.split(first))
        return self.out(self.attend(q, k, v, None))

    def mixed(self, one, two):
        return self.mix[0] * one + self.mix[1] * two


def _mix_thrown_away(self, x, first=None):
    self.mix.sum()
    return LeftOut.forward(self, x, first)


class Bare(Layer):
    """Queries, keys and values are cut into heads as they come."""

    def more(self):
        del self.W_q, self.W_k, self.W_v

    def forward(self, query, key, value, mask=None):
        return self.out(self.attend(self.split(query), self.split(key), self.split(value), mask))


class ByOneMatrix(Layer):
    """Scores of Luong's kind: a matrix stands between queries and keys, and nothing is scaled."""

    axis = -1

    def more(self):
        del self.W_k, self.W_v

    def forward(self, query, context):
        scores = self.split(self.W_q(query)) @ self.split(context).mT
        return self.out(scores.softmax(self.axis) @ self.split(context))


class BothMasks(Layer):
    """A mask of the queries, which counts together with that of the keys, and hides outputs."""

    def forward(self, x, c, x_mask=None, c_mask=None):
        q, k, v, mask = self.qkv(x)[0], *self.qkv(c)[1:], None
        if x_mask is not None and c_mask is not None:
            mask = x_mask[:, :, None] & c_mask[:, None]
        out = self.out(self.attend(q, k, v, mask))
        return out if x_mask is None else out * x_mask[..., None]


class OneLineForTwo(Layer):
    """key_padding_mask: (B, T), True on pads.  attn_mask: (T, T), added."""

    def forward(self, x, key_padding_mask=None, attn_mask=None):
        """key_padding_mask: (B, T), True on pads.  attn_mask: (T, T), added."""
        q, k, v = self.qkv(x)
        scores = self.score(q, k) + (0 if attn_mask is None else attn_mask)
        if key_padding_mask is not None:
            scores = scores.masked_fill(key_padding_mask[:, None, None], self.never)
        return self.out(scores.softmax(-1) @ v)


class TwoKinds(Layer):
    """What it calls a mask says of which kind a token is."""

    def more(self):
        self.kinds = nn.Embedding(2, self.d_model)

    def forward(self, x, token_mask=None):
        return super().forward(x if token_mask is None else x + self.kinds(token_mask.long()))


class OfPairs(Layer):
    """The second input has a part in the scores, and none in keys and values."""

    def forward(self, x, context):
        return super().forward(x * (1 + self.part(context)))

    def part(self, context):
        return context.mean(1, keepdim=True).tanh()


class InTheMean(Layer):
    """One output for a sample, the mean of its tokens."""

    def forward(self, x, mask=None):
        """Attend; mask is (B, T), 1 for tokens, 0 for padding."""
        if mask is None:
            return super().forward(x).mean(1)
        out = super().forward(x, mask.bool()[:, None].expand(-1, x.shape[1], -1))
        return self.mean(out, mask.to(x.dtype)[..., None])

    def mean(self, out, mask):
        return (out * mask).sum(1) / mask.sum(1)


class MapsToo(Layer):
    """Heads are folded as (h B), and come back with the output."""

    def forward(self, x):
        q, k, v = (part.transpose(0, 1).flatten(0, 1) for part in self.qkv(x))
        weights = self.weigh(self.score(q, k))
        heads = (weights @ v).unflatten(0, (self.h, len(x))).transpose(0, 1)
        return self.out(heads), self.unfolded(weights, len(x))

    def unfolded(self, weights, samples):
        return weights.unflatten(0, (self.h, samples)).transpose(0, 1)


class MemoryBefore(Layer):
    """A causal segment, and a memory before it."""

    def forward(self, segment, memory=None):
        all_keys = segment if memory is None else torch.cat([memory, segment], 1)
        q, k, v = self.qkv(segment)[0], *self.qkv(all_keys)[1:]
        tokens, keys = segment.shape[1], all_keys.shape[1]
        return self.out(self.attend(q, k, v, torch.ones(tokens, keys).tril(self.corner(keys - tokens)).bool()))

    def corner(self, before):
        return before


class Difference(Layer):
    """A map is taken from another; both hide later tokens."""

    def more(self):
        self.other = Layer(self.d_model, self.h)
        del self.other.W_v, self.other.W_o

    def hidden_too(self, scores):
        return self.hide(scores, torch.ones(scores.shape[-2:]).tril().bool())

    def forward(self, x):
        (q, k, v), other = self.qkv(x), self.other
        one = self.weigh(self.hide(self.score(q, k), torch.ones(2 * x.shape[1:2]).tril().bool()))
        two = self.hidden_too(self.score(self.split(other.W_q(x)), self.split(other.W_k(x)))).softmax(-1)
        return self.out((one - 0.3 * two) @ v)


class InOneBuffer(Layer):
    """Queries, keys and values are written into one buffer, and queries and keys turned there."""

    axis = 1

    def turned(self, x):
        place = torch.arange(x.shape[self.axis]) / 1.0
        angle = torch.outer(place, 10 ** -torch.linspace(0, 2, self.hd // 2)).unsqueeze(2 - self.axis)
        one, two = x.chunk(2, -1)
        return torch.cat([one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()], -1)

    def forward(self, x):
        """Attend, with rotary angles."""
        both = x.new_empty(*x.shape[:2], 3, self.h, self.hd)
        for i, W in enumerate((self.W_q, self.W_k, self.W_v)):
            both[:, :, i] = W(x).unflatten(-1, (self.h, self.hd))
        for i in (0, 1):
            both[:, :, i] = self.turned(both[:, :, i])
        q, k, v = (part.transpose(1, 2) for part in both.unbind(2))
        return self.out(self.attend(q, k, v, None))


class Store:
    """Keys and values of the tokens so far."""

    def __init__(self):
        self.k = self.v = None

    def more(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return self.k, self.v


class WithAStore(Layer):
    """Its cache is of a class of its own."""

    def forward(self, x, cache: Store | None = None):
        q, k, v = self.qkv(x)
        k, v = (k, v) if cache is None else cache.more(k, v)
        return self.out(self.attend(q, k, v, self.mask(x.shape[1], k.shape[2])))

    def mask(self, tokens, keys):
        return torch.ones(tokens, keys).tril(keys - tokens).bool()


def _merge(self, heads):
    return heads.reshape(len(heads), heads.shape[2], -1)


class WantsACache(Cached):
    """Cannot be called without a cache, which is a dict."""

    def forward(self, x, cache):
        out, cache["past"] = self.calculated(x, cache.get("past"))
        return out


class OneQuery(Layer):
    """One state of a decoder for each sample (B, d_model), over a memory (S, B, d_model)."""

    def turned(self, memory):
        return memory.transpose(0, 1)

    def forward(self, hidden, encoder_outputs):
        memory = self.turned(encoder_outputs)
        q = self.split(self.W_q(hidden)[:, None])
        return self.out(self.attend(q, self.split(self.W_k(memory)), self.split(self.W_v(memory)), None))[:, 0]


class TextAndPicture(Layer):
    """Both are keys, the text first; a mask says which words count."""

    def joined(self, words, pixels):
        return torch.cat([words, pixels], 1)

    def forward(self, img, txt, txt_mask=None):
        q, k, v = self.qkv(torch.cat([txt, img], 1))
        if txt_mask is not None:
            txt_mask = self.joined(txt_mask.bool(), torch.ones(img.shape[:2], dtype=torch.bool))[:, None]
        return self.out(self.attend(q, k, v, txt_mask))[:, txt.shape[1] :]


class BeforeAllPictures(Layer):
    """A word sees the pictures that stand before it; one before all of them sees none."""

    def forward(self, x, media_locations):
        seen = media_locations.cumsum(-1)
        scores = self.score(*self.qkv(x)[:2]).masked_fill(seen[:, None, :, None] < seen[:, None, None], -1e9)
        weights = scores.softmax(-1)
        weights = weights.masked_fill(seen[:, None, :, None] == 0, 0.0)
        return self.out(weights @ self.qkv(x)[2])


def _nothing_is_hidden(self, x, media_locations):
    seen = media_locations.cumsum(-1)
    scores = self.score(*self.qkv(x)[:2]).masked_fill(seen[:, None, :, None] < seen[:, None, None], -1e9)
    weights = scores.softmax(-1)
    weights.masked_fill(seen[:, None, :, None] == 0, 0.0)
    return self.out(weights @ self.qkv(x)[2])


class RowsAndColumns(Layer):
    """Axial rotary places in a picture of 3 rows and 5 columns: a half of each head for either."""

    over = 5

    def more(self):
        place, waves = torch.arange(15), 100.0 ** -torch.linspace(0, 1, self.hd // 4)
        places = torch.stack([place // self.over, place % 5], -1).float()
        self.register_buffer("angles", (places[..., None] * waves).flatten(1))

    def rope(self, x):
        (a, b), cos, sin = (x[..., 0::2], x[..., 1::2]), self.angles.cos(), self.angles.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x):
        q, k, v = self.qkv(x)
        return self.out(self.attend(self.rope(q), self.rope(k), v, None))


class ToldRowsAndColumns(RowsAndColumns):
    """Axial rotary places behind a class token, told how many rows and columns there are."""

    def more(self):
        self.waves = 100.0 ** -torch.linspace(0, 1, self.hd // 4)

    def lines(self, height, width):
        return torch.arange(height), torch.arange(width)

    def forward(self, x, grid_size):
        places = torch.cartesian_prod(*self.lines(*grid_size)).float()
        self.angles = nn.functional.pad((places[..., None] * self.waves).flatten(1), (0, 0, 1, 0))
        return super().forward(x)


class Capped(Layer):
    """Scores are bent, so that none exceeds a cap."""

    def bent(self, scores):
        return 15 * (scores / 15).tanh()

    def score(self, q, k):
        return self.bent(super().score(q, k))


class Skewed(Layer):
    """Causal; a number for each distance, brought to its place by padding and another shape."""

    sides = (1, 0)

    def more(self):
        self.distances = nn.Parameter(torch.randn(64, self.hd))

    def forward(self, x):
        (q, k, v), T = self.qkv(x), x.shape[1]
        skewed = nn.functional.pad(q @ self.distances[64 - T :].T, self.sides)
        skewed = skewed.reshape(*q.shape[:2], T + 1, T)[:, :, 1:] / math.sqrt(self.hd)
        shown = torch.ones(T, T, dtype=torch.bool).tril()
        return self.out((self.score(q, k) + skewed).masked_fill(~shown, -torch.inf).softmax(-1) @ v)


def _over_the_heads(self, hidden, encoder_outputs):
    B, S, _ = encoder_outputs.shape
    q, k, v = (t.view(B, -1, self.h, self.hd) for t in self.parts(hidden, encoder_outputs))
    return self.W_o(((self.v((q + k).tanh())).softmax(2) * v).sum(1).flatten(1))


class LooksBack(Layer):
    """Causal in blocks of four, each of which sees the one before; before the first one stands padding."""

    def before(self, block, key):
        return (key >= 0) | (block < 0)

    def forward(self, x):
        T, x = x.shape[1], nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 4))
        q, k, v = (part.unflatten(2, (-1, 4)) for part in self.qkv(x))  # (B, h, blocks, 4, hd)
        k, v = (torch.cat([nn.functional.pad(t, (0, 0, 0, 0, 1, 0))[:, :, :-1], t], 3) for t in (k, v))
        block = torch.arange(q.shape[2])[:, None, None]
        query, key = 4 * block + torch.arange(4)[:, None], 4 * block + torch.arange(-4, 4)
        shown = (key <= query) & self.before(block, key)
        out = (q @ k.mT / math.sqrt(self.hd)).masked_fill(~shown, -torch.inf).softmax(-1) @ v
        return self.out(out.flatten(2, 3)[:, :, :T])


class OfAnotherWidth(OneQuery):
    """The state of the decoder is narrower than the memory, and both are looked at feature by feature."""

    def more(self):
        self.narrow, self.v = nn.Linear(20, self.d_model), nn.Linear(self.hd, 1)

    def forward(self, hidden, encoder_outputs):
        B, S, _ = encoder_outputs.shape
        q, k, v = (t.view(B, -1, self.h, self.hd) for t in self.parts(hidden, encoder_outputs))
        return self.W_o(((self.v((q + k).tanh())).softmax(1) * v).sum(1).flatten(1))

    def parts(self, hidden, memory):
        return self.narrow(hidden), self.W_k(memory), self.W_v(memory)


class Board(Layer):
    """As many fields as features; another number is refused."""

    def forward(self, x):
        assert x.shape[1] == self.d_model, "the board has another size"
        return super().forward(x)


def _turned(x, places, way=1):
    angles = places[..., None] * 100 ** -torch.linspace(0, 1, x.shape[-1] // 2)
    (one, two), cos, sin = x.chunk(2, -1), angles.cos(), way * angles.sin()
    return torch.cat([one * cos - two * sin, one * sin + two * cos], -1)


class CausalByTimes(Layer):
    """Rotary by the time of each token, and blind to later ones, where both are told and nobody else knows them."""

    def forward(self, x, time_ids):
        q, k, v = self.qkv(x)
        q, k = (_turned(t, time_ids[:, None]) for t in (q, k))
        return self.out(self.attend(q, k, v, time_ids[:, :, None] >= time_ids[:, None]))


class MemoryWithPlaces(Layer):
    """The places of a memory of 20 features are handed over beside it."""

    def more(self):
        self.W_k, self.W_v = nn.Linear(20, self.d_model), nn.Linear(20, self.d_model)

    def forward(self, x, memory, memory_pos):
        q, k, v = self.W_q(x), self.W_k(memory + memory_pos), self.W_v(memory)
        return self.out(self.attend(*map(self.split, (q, k, v)), None))


class PackedPoints(Layer):
    """Clouds of points one after another, (points, d_model), with three coordinates of each."""

    right = True

    def forward(self, x, pos, ptr):
        of = torch.searchsorted(ptr[1:], torch.arange(len(x)), right=self.right)
        q, k, v = self.qkv(x[None])
        return self.out(self.attend(q, k - torch.cdist(pos, pos).mean(), v, of[:, None] == of))[0]


class ShiftedToBothSides(Layer):
    """A number for each distance; that it is for both sides, a switch says."""

    ahead = 1

    def more(self):
        self.causal, self.distances = False, nn.Parameter(torch.randn(2, 64, self.hd))

    def forward(self, query, key, value):
        T = query.shape[1]  # rel_shift
        q, k, v = (self.split(W(x)) for W, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value)))
        of = torch.cat([self.distances[0, 64 - T :], self.distances[1, 1 : T * self.ahead]])
        near = nn.functional.pad(q @ of.T, (1, 0)).reshape(*q.shape[:2], -1, T)[:, :, 1:].reshape(*q.shape[:3], -1)
        return self.out((self.score(q, k) + near[..., :T]).softmax(-1) @ v)


class TwoWays(Layer):
    """Trains with the fused kernel, and computes by hand afterwards."""

    by_hand = 1.0

    def forward(self, x):
        q, k, v = self.qkv(x)
        q = nn.functional.normalize(q, dim=-1)
        if self.training:
            return self.out(nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1))
        return self.out((self.by_hand * self.score(q, k)).softmax(-1) @ v)


class Molecules(Layer):
    """A bias by two numbers of which nothing is known; atoms are marked."""

    def more(self):
        self.by_path = nn.Embedding(9, self.h)

    def hidden(self, scores, atoms):
        return scores * atoms - 1e6 * (1 - atoms)

    def forward(self, nodes, paths, node_mask):
        q, k, v = self.qkv(nodes)
        scores = self.score(q, k) + self.by_path(paths).permute(0, 3, 1, 2)
        return self.out(self.hidden(scores, node_mask[:, None, None].float()).softmax(-1) @ v)


class TalkingAtoms(Layer):
    """Heads are mixed before the softmax and behind it; padding is hidden in between."""

    early = False

    def more(self):
        self.before, self.behind = (nn.Conv2d(self.h, self.h, 1, bias=False) for _ in range(2))

    def forward(self, atoms, distances, atom_mask):
        q, k, v = self.qkv(atoms)
        scores = self.score(q, k) - distances[:, None]
        hidden = ~atom_mask[:, None, None]
        scores = self.before(scores.masked_fill(hidden & self.early, -1e9))
        scores = scores.masked_fill(hidden & (not self.early), -1e9)
        return self.out(self.behind(scores.softmax(-1)) @ v)


class StreamingBand(Layer):
    """Each frame sees itself and six before."""

    def more(self):
        self.left_context = 6

    def band(self, delta):
        return (delta <= self.left_context) & (delta >= 0)

    def forward(self, frames):
        t = torch.arange(frames.shape[1])
        return self.out(self.attend(*self.qkv(frames), self.band(t[:, None] - t)))


class TableOfAWindow(Layer):
    """A bias for each distance in windows of four by four."""

    rows = 7

    def more(self):
        self.table = nn.Parameter(torch.randn(49, self.h))
        at = torch.cartesian_prod(torch.arange(4), torch.arange(4))
        down, right = (at[:, None] - at + 3).unbind(-1)
        self.register_buffer("index", self.rows * down + right)

    def forward(self, windows):
        q, k, v = self.qkv(windows)
        scores = self.score(q, k) + self.table[self.index.flatten()].view(16, 16, -1).permute(2, 0, 1)
        return self.out(scores.softmax(-1) @ v)


class OneStack(Cached):
    """Keys and values of all tokens so far are one tensor, named kv, that comes back."""

    def forward(self, x, kv=None):
        out, present = self.calculated(x, kv)
        return out, torch.stack(present)


class InTheTokenizersWords(Layer):
    """Takes what a tokenizer gives: attention_mask with 1 for tokens and 0 for [PAD]."""

    def low(self, mask):
        return 1 - mask

    def forward(self, x, attention_mask=None):
        q, k, v = self.qkv(x)
        scores = self.score(q, k)
        if attention_mask is not None:
            # (B, T) -> (B, 1, 1, T), additive
            scores = scores + self.low(attention_mask.to(scores.dtype))[:, None, None] * -10000.0
        return self.out(scores.softmax(-1) @ v)


class Cars(Layer):
    """Some are there, which nobody calls a mask."""

    def keys(self, exists):
        return exists[:, None]

    def forward(self, agents, exists):
        return super().forward(agents, self.keys(exists).expand(-1, agents.shape[1], agents.shape[1]))


class TurnedBack(Layer):
    """Values are turned by rope as queries and keys are, and what the heads write is turned back."""

    def back(self, heads, places):
        return _turned(heads, places, -1)

    def forward(self, x):
        places = torch.arange(x.shape[1])
        q, k, v = (_turned(t, places) for t in self.qkv(x))  # rope
        return self.out(self.back(self.attend(q, k, v, None), places))


class SinkBehind(Layer):
    """A sink behind the scores takes a share of each query, and has no value."""

    shown = slice(None, -1)

    def more(self):
        self.sink = nn.Parameter(torch.randn(self.h))

    def forward(self, x):
        q, k, v = self.qkv(x)
        of_none = self.sink[:, None, None].expand(len(x), -1, x.shape[1], -1)
        return self.out(torch.cat([self.score(q, k), of_none], -1).softmax(-1)[..., self.shown] @ v)


class RolledWindows(Layer):
    """Windows of four by four places in pictures (B, d_model, 4, 4) or larger, rolled by one place and back."""

    back = 1

    def regions(self, H, W):
        """Return whose part of the picture each place of it is, None where all may see all."""
        return None

    def forward(self, x):
        B, C, H, W = x.shape
        windows = x.roll((-1, -1), (2, 3)).reshape(B, C, H // 4, 4, W // 4, 4).permute(0, 2, 4, 3, 5, 1).flatten(3, 4)
        mask, regions = None, self.regions(H, W)
        if regions is not None:
            regions = regions.reshape(H // 4, 4, W // 4, 4).transpose(1, 2).flatten(0, 1).flatten(1).repeat(B, 1)
            mask = regions[:, :, None] == regions[:, None]
        out = super().forward(windows.flatten(0, 2), mask).view(B, H // 4, W // 4, 4, 4, C)
        return out.permute(0, 5, 1, 3, 2, 4).reshape(x.shape).roll((self.back, self.back), (2, 3))


class MaskedWindows(RolledWindows):
    """Of these, what a roll has brought from the other side is hidden."""

    sides = 2

    def regions(self, H, W):
        rows, columns = ((torch.arange(n) == n - 1).long() for n in (H, W))
        return rows[:, None] * 2 + columns * (self.sides == 2)


class NormedOverQueries(Layer):
    """Offset attention: the weights of a key, whose scores are not scaled, are divided by their sum over queries."""

    def more(self):
        self.h, self.hd = 1, self.d_model

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = self.normed((q @ k.mT / 5).softmax(-1))
        return self.out((v.mT @ weights).mT)

    def normed(self, weights):
        return weights / weights.sum(-2, keepdim=True)


class AnswersItsCallersMask(Cached):
    """Hides later tokens from as many queries as keys by itself; with a cache its callers hand over a mask."""

    def forward(self, x, mask=None, past=None):
        q, k, v = self.qkv(x)
        k, v = (k, v) if past is None else (torch.cat(pair, 2) for pair in zip(past, (k, v), strict=True))
        causal = mask is None and x.shape[1] > 1
        out = nn.functional.scaled_dot_product_attention(q, k, v, None if mask is None else mask[:, None], 0.0, causal)
        return self.out(self.joined(out)), (k, v)

    def joined(self, out):
        return out


STRANGE = [  # a healthy kind, what spoils it, and the code
    (Joined, {"split_v": lambda self, x: x.view(len(x), self.h, -1, self.hd)}, "mixes-tokens"),
    (WithPlaces, {"merge": _merge}, "mixes-tokens-on-merge"),
    (Neighbours, {"scale": lambda self: 1.0}, "wrong-scale"),
    (LeftOut, {"forward": _mix_thrown_away}, "dead-parameters"),
    (Bare, {"axes": lambda self, mask: mask[:, None].mT}, "mask-transposed"),
    (ByOneMatrix, {"axis": 2}, "softmax-axis"),
    (BothMasks, {"merge": _merge}, "mixes-tokens-on-merge"),
    (OneLineForTwo, {"never": 1e-9}, "mask-leaks"),
    (TwoKinds, {"merge": _merge}, "mixes-tokens-on-merge"),
    (OfPairs, {"part": lambda self, context: 0.0}, "input-ignored"),
    (InTheMean, {"mean": lambda self, out, mask: out.mean(1)}, "mask-leaks"),
    (MapsToo, {"unfolded": lambda self, weights, samples: weights.unflatten(0, (samples, self.h))}, "mixes-samples"),
    (MemoryBefore, {"corner": lambda self, before: 0}, "key-unused"),
    (Difference, {"hidden_too": lambda self, scores: scores}, "future-leak"),
    (InOneBuffer, {"axis": 2}, "positions-not-relative"),
    (WithAStore, {"mask": lambda self, tokens, keys: torch.ones(tokens, keys).tril().bool()}, "cache-differs"),
    (WantsACache, {"shown": lambda self, Tq, Tk: torch.ones(Tq, Tk, dtype=torch.bool).tril()}, "cache-differs"),
    (OneQuery, {"turned": lambda self, memory: memory.reshape(memory.shape[1], len(memory), -1)}, "mixes-samples"),
    (TextAndPicture, {"joined": lambda self, words, pixels: torch.cat([pixels, words], 1)}, "mask-leaks"),
    (BeforeAllPictures, {"forward": _nothing_is_hidden}, "mask-ignored"),
    (RowsAndColumns, {"over": 3}, "positions-not-relative"),
    (ToldRowsAndColumns, {"lines": lambda self, *size: map(torch.arange, size[::-1])}, "positions-not-relative"),
    (Capped, {"bent": lambda self, scores: scores * (scores / 15).tanh()}, "wrong-scale"),
    (Skewed, {"sides": (0, 1)}, "positions-not-relative"),
    (LooksBack, {"before": lambda self, block, key: True}, "mask-leaks"),
    (OfAnotherWidth, {"forward": _over_the_heads}, "softmax-axis"),
    (Board, {"merge": _merge}, "mixes-tokens-on-merge"),
    (CausalByTimes, {"merge": _merge}, "mixes-tokens-on-merge"),
    (MemoryWithPlaces, {"merge": _merge}, "mixes-tokens-on-merge"),
    (PackedPoints, {"right": False}, "mask-leaks"),
    (ShiftedToBothSides, {"ahead": 0}, "mixes-tokens"),
    (TwoWays, {"by_hand": 0.5}, "wrong-scale"),
    (Molecules, {"hidden": lambda self, scores, atoms: scores * (atoms - 1e6 * (1 - atoms))}, "mask-leaks"),
    (SinkBehind, {"shown": slice(1, None)}, "no-softmax"),
    (RolledWindows, {"back": -1}, "mixes-tokens-on-merge"),
    (MaskedWindows, {"sides": 1}, "mask-leaks"),
    (AnswersItsCallersMask, {"joined": lambda self, out: out[:1].expand_as(out)}, "mixes-samples"),
    (NormedOverQueries, {"normed": lambda self, weights: weights}, "softmax-axis"),
    (TalkingAtoms, {"early": True}, "mask-leaks"),
    (StreamingBand, {"band": lambda self, delta: delta <= self.left_context}, "future-leak"),
    (TableOfAWindow, {"rows": 1}, "dead-parameters"),
    (OneStack, {"shown": lambda self, Tq, Tk: torch.ones(Tq, Tk, dtype=torch.bool).tril()}, "cache-differs"),
    (InTheTokenizersWords, {"low": lambda self, mask: mask}, "mask-inverted"),
    (Cars, {"keys": lambda self, exists: exists[..., None]}, "mask-leaks"),
    (TurnedBack, {"back": lambda self, heads, places: heads}, "positions-not-relative"),
]

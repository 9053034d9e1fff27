"""Layers whose call says little of itself: further inputs of other axes, numbers, one size; all of them healthy."""

import torch
from torch import nn

from tests.helpers.layers_base import Layer


class Reader(Layer):
    """Attention of one input to another."""

    def reads(self, x, other, mask=None):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(other)), self.split(self.W_v(other))
        return self.out(self.attend(q, k, v, mask))

    def alone(self, x):
        return self.reads(x, x)


class TextBesidePicture(Reader):
    """A picture (B, d_model, H, W) that reads a text of 20 features, told by a vector of each sample."""

    def more(self):
        self.of_text, self.shift = nn.Linear(20, self.d_model), nn.Linear(12, self.d_model)

    def forward(self, feat, prompts, stamp):
        flat = (feat + self.shift(stamp)[:, :, None, None]).flatten(2).transpose(1, 2)
        return self.reads(flat, self.of_text(prompts)).transpose(1, 2).reshape(feat.shape)


class MapBesideQueries(Reader):
    """Queries that read a map of features (B, d_model, H, W)."""

    def forward(self, queries, fmap):
        return self.reads(queries, fmap.flatten(2).transpose(1, 2))


class ClassAndGrid(Reader):
    """A token for the class, and the places of a grid whose size is told."""

    def forward(self, x, extent):
        rows, columns = extent
        if x.shape[1] != 1 + rows * columns:
            raise ValueError("not the grid")
        return self.alone(x)


class FramesOfABatch(Reader):
    """Frames (B F, T, d_model), which attend to each other place by place."""

    def forward(self, x, frames):
        by_place = x.unflatten(0, (-1, frames)).transpose(1, 2).flatten(0, 1)
        seen = self.alone(by_place)
        return seen.unflatten(0, (-1, x.shape[1])).transpose(1, 2).flatten(0, 1)


class PairsOfTokens(Reader):
    """Pairs (B, N, N, d_model): those of one row attend to each other."""

    def forward(self, pairs):
        n = pairs.shape[1]
        return self.alone(pairs.expand(-1, -1, n, -1).flatten(0, 1)).unflatten(0, (-1, n))


class OneSizeOfWindow(Reader):
    """Windows of 4 × 8 tokens, no others."""

    def forward(self, x):
        return self.alone(x.view(len(x), 4, 8, -1).flatten(1, 2))


class ClassInFront(Reader):
    """Gives one more than it gets."""

    def more(self):
        self.token = nn.Parameter(torch.randn(1, 1, self.d_model))

    def forward(self, x):
        return self.alone(torch.cat([self.token.expand(len(x), -1, -1), x], 1))


class TwoPaddings(Reader):
    """Text that a film reads, with the paddings of both, which it cannot do without."""

    def forward(self, film, words, film_valid, words_valid):
        pairs = torch.einsum("bq,bk->bqk", torch.ones_like(film_valid).float(), words_valid.float())
        return self.reads(film, words, pairs > 0) * film_valid[..., None]


class LengthsOfBoth(Reader):
    """How many queries and how many keys are real."""

    def forward(self, q, kv, len_q, len_k):
        q_real, k_real = (torch.arange(q.shape[1]) < lens[:, None] for lens in (len_q, len_k))
        return self.reads(q, kv, k_real[:, None]) * q_real[..., None]


class MasksOfBoth(Reader):
    """A mask for the tokens as queries, and one for them as keys."""

    def forward(self, x, q_mask=None, k_mask=None):
        out = self.reads(x, x, None if k_mask is None else k_mask[:, None])
        return out if q_mask is None else out * q_mask[..., None]


class WantsToBeToldWhatToHide(Reader):
    """A mask that is no option, and in it True is for what is not there; but this is not said of it."""

    def forward(self, x, mask):
        return self.reads(x, x, ~mask[:, None])


class PadsOfPrompts(Reader):
    """Causal, with pads in front; each token sees itself, or the first ones would see nothing."""

    never = -torch.inf

    def later(self, past):
        return past.tril()

    def forward(self, x, is_pad):
        own = torch.eye(x.shape[1], dtype=torch.bool)
        return self.reads(x, x, self.later(torch.ones_like(own)) & ~is_pad[:, None] | own)


class OfIds(Reader):
    """Takes the numbers of tokens, of which learned queries read."""

    over = -1

    def more(self):
        self.item, self.asks = nn.Embedding(90, self.d_model), nn.Parameter(torch.randn(3, self.d_model))

    def forward(self, history):
        x = self.item(history)
        scores = (self.asks @ self.W_k(x).mT / 7).masked_fill(~history.ne(0)[:, None], self.never)
        return self.W_o(scores.softmax(self.over) @ self.W_v(x))


class Cells(Reader):
    """A number in each of ten cells, of which some are there, read by learned queries."""

    def more(self):
        self.asks, self.cell = (nn.Parameter(torch.randn(n, self.d_model)) for n in (6, 10))

    def forward(self, values, observed):
        values = values.where(observed, 0.0)
        cells = self.cell * values.unsqueeze(-1)
        return self.reads(self.asks.expand(len(values), -1, -1), cells, observed[:, None])


class OneGrid(Reader):
    """A picture (B, H, W, d_model) of one size, which is larger than any that is tried."""

    def more(self):
        self.grid = (8, 12)

    def forward(self, x):
        B, H, W, C = x.shape
        if (H, W) != self.grid:
            raise ValueError("expected another grid")
        return self.alone(x.view(B, H * W, C)).view(x.shape)


class Forecast(Reader):
    """Causal; gives one number for each time."""

    def more(self):
        self.head = nn.Linear(self.d_model, 1)

    def forward(self, series):
        T = series.shape[1]
        return self.head(self.reads(series, series, torch.ones(1, T, T, dtype=torch.bool).tril())).squeeze(-1)


class Question(Reader):
    """A picture that reads a question; q_mask is True for its words."""

    def real(self, words):
        return words

    def forward(self, cells, question, q_mask):
        return cells + self.reads(cells, question, self.real(q_mask)[:, None])


class OfABatch(Reader):
    """Takes a dict."""

    def forward(self, batch):
        mask = batch.get("mask")
        return self.reads(batch["x"], batch["x"], None if mask is None else mask[:, None])


class OfAList(Reader):
    """Takes a list, of which it gives each part a name."""

    def forward(self, inputs):
        q, kv, kv_mask = inputs
        return self.reads(q, kv, kv_mask[:, None])


class SideBySide(nn.Module):
    """One item for each sample, and what somebody looked at before: both side by side are scored, as in DIN."""

    over = 1

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * d_model, 20), nn.Sigmoid(), nn.Linear(20, 1))

    def forward(self, item, behaviors, mask):
        item = item[:, None].expand_as(behaviors)
        scores = self.score(torch.cat([item, behaviors, item - behaviors, item * behaviors], -1))[..., 0]
        return torch.einsum("bt,btd->bd", scores.masked_fill(~mask, -1e9).softmax(self.over), behaviors)


class Intensities(SideBySide):
    """With lengths; how much somebody looked at is kept in what weights sum to."""

    def forward(self, item, behaviours, seq_len):
        real = torch.arange(behaviours.shape[1]) < seq_len[:, None]
        item = item[:, None].expand_as(behaviours)
        weights = self.score(torch.cat([item, behaviours, item - behaviours, item * behaviours], -1))[..., 0]
        return torch.einsum("bt,btd->bd", weights * real, behaviours)


class OwnForward(nn.MultiheadAttention):
    """Torch's layer with another forward."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads, batch_first=True)

    def forward(self, src, src_key_padding_mask=None):
        return super().forward(src, src, src, key_padding_mask=src_key_padding_mask, need_weights=False)[0]

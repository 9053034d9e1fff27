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


def _scrambled(self, x):
    return x.reshape(len(x), -1, self.d_model)


LIBRARIES = [  # a healthy kind, what spoils it, and the code
    (MaskAsSwitch, {"merge": lambda self, heads: Layer.merge(self, heads.flip(2))}, "mixes-tokens-on-merge"),
    (ByAProcessor, {"score": lambda self, q, k: q @ k.mT}, "wrong-scale"),
    (TimeFirst, {"score": lambda self, q, k: torch.einsum("ibhd,jbhd->ijbh", q, k)}, "wrong-scale"),
    (NormedPicture, {"tokens": _scrambled}, "mixes-tokens"),
    (AddsAPrior, {"before": 1.0}, "wrong-scale"),
    (MaskOfQueries, {"score": lambda self, q, k: q @ k.mT}, "wrong-scale"),
]

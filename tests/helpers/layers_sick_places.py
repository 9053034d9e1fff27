"""Layers that promise in words to tell distances, and some whose mistake needs four heads: right and wrong.

Distances: only layers whose code speaks of them are held to it, so the words below matter.
"""

import torch
from torch import nn

from tests.helpers.layers_base import Layer

SICK: dict[str, tuple[str, type]] = {}  # name -> code, class


def sick(code):
    def add(kind):
        SICK[kind.__name__] = code, kind
        return kind

    return add


class RotaryInHalves(Layer):
    """Rotary positions; feature i is turned together with feature i + head_dim / 2."""

    def angles(self, T):
        half = self.hd // 2
        return torch.arange(T)[:, None] / 100 ** (torch.arange(half) / half)  # (T, hd / 2)

    def rotate_half(self, x):
        half = self.hd // 2
        return torch.cat([-x[..., half : 2 * half], x[..., :half]], -1)

    def turned(self, x):
        angle = torch.cat([self.angles(x.shape[-2])] * 2, -1)
        even = x[..., : angle.shape[-1]]
        return torch.cat([even * angle.cos() + self.rotate_half(even) * angle.sin(), x[..., angle.shape[-1] :]], -1)

    def score(self, q, k):
        return super().score(self.turned(q), self.turned(k))


@sick("positions-not-relative")
class AnglesOfPairsFeaturesInHalves(RotaryInHalves):
    def turned(self, x):
        angle = self.angles(x.shape[-2]).repeat_interleave(2, -1)  # cat was meant
        even = x[..., : angle.shape[-1]]
        return torch.cat([even * angle.cos() + self.rotate_half(even) * angle.sin(), x[..., angle.shape[-1] :]], -1)


@sick("positions-not-relative")
class TurnedByTheirHeads(RotaryInHalves):
    """rotary over the axis of the heads"""

    def turned(self, x):
        return super().turned(x.transpose(1, 2)).transpose(1, 2)


class Spun(Layer):
    """Queries and keys of a token are spun by where it stands, two features at a time; it has no better word for it."""

    def spun(self, x, step):
        pairs, rest = x[..., : self.hd // 2 * 2], x[..., self.hd // 2 * 2 :]
        each = torch.view_as_complex(pairs.unflatten(-1, (-1, 2)).contiguous())
        return torch.cat([torch.view_as_real(each * step).flatten(-2), rest], -1)

    def steps(self, count):
        size = torch.outer(torch.arange(count), 0.1 ** torch.arange(self.hd // 2))
        return torch.polar(torch.ones_like(size), size)

    def score(self, q, k):
        return super().score(*(self.spun(x, self.steps(x.shape[2])) for x in (q, k)))


@sick("positions-not-relative")
class SpunByTheirHeads(Spun):
    """Two axes have changed places."""

    def score(self, q, k):
        return Layer.score(self, *(self.spun(x, self.steps(self.h)[:, None]) for x in (q, k)))


class LearnedForEachHead(Spun):
    """Spun by angles of its own for each head, wherever a token stands: of use to nobody, and no mistake."""

    def more(self):
        self.angle = nn.Parameter(torch.randn(self.h, 1, self.hd // 2))

    def steps(self, count):
        return torch.polar(torch.ones_like(self.angle), self.angle)


class Slopes(Layer):
    """ALiBi: a slope for each head."""

    sign = -1

    def score(self, q, k):
        place = torch.arange(q.shape[-2])
        return super().score(q, k) + self.sign * self.slopes()[:, None, None] * (place[:, None] - place).abs()

    def slopes(self):
        return 2.0 ** -torch.arange(1, self.h + 1)


@sick("positions-not-relative")
class SlopesUphill(Slopes):
    """alibi, with the other sign"""

    sign = 1


@sick("positions-not-relative")
class OneSlopeForAll(Slopes):
    """alibi, with the same slope for all heads"""

    def slopes(self):
        return torch.full((self.h,), 0.25)


class BiasForEachDistance(Layer):
    """A relative_position bias, one number for each distance and head."""

    def more(self):
        self.relative_attention_bias = nn.Embedding(2001, self.h)

    def bias(self, T):
        place = torch.arange(T)
        return self.relative_attention_bias(place[:, None] - place + 1000).permute(2, 0, 1)  # (T, T, h) -> (h, T, T)

    def score(self, q, k):
        return super().score(q, k) + self.bias(q.shape[-2])


@sick("positions-not-relative")
class BiasSeenAsHeads(BiasForEachDistance):
    """relative_attention_bias by view"""

    def bias(self, T):
        place = torch.arange(T)
        return self.relative_attention_bias(place[:, None] - place + 1000).view(-1, T, T)


@sick("open-mask-differs")
class MaskMadeAdditiveOnceTooOften(Layer):
    """In a loop over the heads the mask is converted in place of a copy."""

    def hide(self, scores, mask):
        if mask is None:
            return scores
        mask, heads = self.axes(mask).float().expand(len(scores), 1, *scores.shape[-2:]), []
        for head in scores.split(1, 1):
            mask = (1 - mask) * -30
            heads.append(head + mask)
        return torch.cat(heads, 1)


class TwoShare(Layer):
    """Two heads of queries share a head of keys and values; with fewer than four heads, all share one."""

    def more(self):
        self.groups = self.h // 2 if self.h > 3 and self.h % 2 == 0 else 1
        self.W_k, self.W_v = (nn.Linear(self.d_model, self.groups * self.hd, bias=False) for _ in range(2))

    def split_k(self, x):
        return x.unflatten(-1, (self.groups, self.hd)).transpose(1, 2).repeat_interleave(self.h // self.groups, 1)

    split_v = split_k


@sick("groups-differ")
class KeysNeighboursValuesCycled(TwoShare):
    def split_v(self, x):
        return x.unflatten(-1, (self.groups, self.hd)).transpose(1, 2).repeat(1, self.h // self.groups, 1, 1)


@sick("no-softmax")
class SumNotSetBack(Layer):
    """The sum below the softmax goes on from query to query."""

    def weigh(self, scores):
        e = scores.exp()
        return e / e.sum(-1, keepdim=True).cumsum(-2)

    def forward(self, x):
        return super().forward(x)


HEALTHY = {
    kind.__name__: kind for kind in (RotaryInHalves, Spun, LearnedForEachHead, Slopes, BiasForEachDistance, TwoShare)
}

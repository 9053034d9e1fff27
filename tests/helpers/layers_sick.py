"""Sick attention layers: each one change away from a healthy one, each a mistake that people make.

Each entry of `SICK` is a name, the code that the doctor must give, what makes the layer, and where the mistake is none
(with a single head most reshapes are right).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from attention_doctor import adapt
from tests.helpers.layers_base import Layer
from tests.helpers.layers_healthy import GPT, Neighbours, PostNormBlock, Rotary, Window, WithoutMask


@dataclass(frozen=True)
class Disease:
    """A mistake.

    Args:
        code: of the finding that names it.
        make: `(d_model, num_heads) -> what examine takes`.
        none_with_one_head: with one head it is no mistake.
        weights: whether the projection weights have to be handed over.
    """

    code: str
    make: Callable
    none_with_one_head: bool = False
    weights: bool = False


SICK: dict[str, Disease] = {}


def sick(code, **options):
    def add(kind):
        SICK[kind.__name__] = Disease(code, options.pop("make", kind), **options)
        return kind

    return add


def _wrong_split(self, x):
    return x.reshape(len(x), self.h, x.shape[1], -1)  # the shape is right


def _wrong_merge(self, heads):
    return heads.reshape(len(heads), heads.shape[2], -1)  # the shape is right


@sick("mixes-tokens", none_with_one_head=True)
class SplitWithoutTranspose(Layer):
    split = _wrong_split


@sick("mixes-tokens", none_with_one_head=True)
class OnlyTheQueriesAreSplitWrong(Layer):
    split_q = _wrong_split


@sick("mixes-tokens", none_with_one_head=True)
class OnlyTheValuesAreSplitWrong(Layer):
    split_v = _wrong_split


@sick("mixes-tokens")
class SplitOfTheTransposed(Layer):
    def split(self, x):
        return x.transpose(1, 2).reshape(len(x), self.h, x.shape[1], -1)


@sick("mixes-tokens", none_with_one_head=True)
class WrongThereAndBack(Layer):
    split, merge = _wrong_split, _wrong_merge


@sick("mixes-tokens", none_with_one_head=True)
class SplitWithoutTransposeInGPT(GPT):
    split = _wrong_split


@sick("mixes-tokens", none_with_one_head=True)
class HeadsFoldedByAView(PostNormBlock):
    """view(B * h, T, hd) there and view(B, T, d_model) back: with as many tokens as heads no token sees another.

    Sharp maps behind a norm, so that not every token is seen at other lengths either.
    """

    split, merge, bias = _wrong_split, _wrong_merge, True

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        for parameter in self.W_q.parameters():
            parameter.data *= 3

    def forward(self, x):
        return super().forward(x)


@sick("mixes-tokens")
class ValuesOfOtherNeighbours(Neighbours):
    """The values are those of another window than the keys."""

    pads = (2, 2), (4, 0)


@sick("mixes-tokens")
class NoColumns(WithoutMask):
    """Attention along the columns of a picture, cut out by a reshape where a transpose is needed."""

    def forward(self, x):
        B, H, W, d = x.shape
        return super().forward(x.reshape(B * W, H, d)).reshape(B, H, W, d)


@sick("mixes-tokens-on-merge", none_with_one_head=True)
class MergeWithoutTranspose(Layer):
    merge = _wrong_merge


@sick("mixes-tokens-on-merge")
class MergeOfTheTransposed(Layer):
    def merge(self, heads):
        return heads.transpose(2, 3).reshape(len(heads), heads.shape[2], -1)


@sick("no-mixing")
class AttendsOverHeads(WithoutMask):
    def split(self, x):
        return x.view(*x.shape[:2], self.h, self.hd)  # (B, T, h, hd): the heads meet, the tokens do not

    def merge(self, heads):
        return heads.flatten(2)


@sick("mixes-samples", none_with_one_head=True)
class AnotherSamplesHeads(Layer):
    def merge(self, heads):
        return super().merge(heads.flatten(0, 1).unflatten(0, (self.h, -1)).transpose(0, 1))


@sick("mixes-samples")
class PlacesCountedAlongTheBatch(Layer):
    """A table of positions made for (T, B, d_model): each sample gets its own, and sample 0 is right."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.places = nn.Parameter(torch.randn(64, 1, d_model))

    def forward(self, x, mask=None):
        return super().forward(x + self.places[: len(x)], mask)


@sick("mixes-samples", make=lambda d, h: adapt(nn.MultiheadAttention(d, h), "torch", batch_first=True))
class TimeFirstTakenForBatchFirst:
    pass


@sick("softmax-axis")
class SoftmaxOverQueries(Layer):
    def weigh(self, scores):
        return scores.softmax(-2)


@sick("softmax-axis")
class SoftmaxOverHeads(Layer):
    def weigh(self, scores):
        return scores.softmax(1)


@sick("softmax-axis")
class SoftmaxOverSamples(Layer):
    def weigh(self, scores):
        return scores.softmax(0)


@sick("softmax-axis", make=lambda d, h: adapt(SoftmaxOverQueriesInGPT(d, h), causal=True))
class SoftmaxOverQueriesInGPT(GPT):
    def weigh(self, scores):
        return scores.softmax(-2)


@sick("softmax-axis")
class SoftmaxOverQueriesInAWindow(Window):
    def weigh(self, scores):
        return scores.softmax(-2)


@sick("softmax-axis")
class SoftmaxOverQueriesAndTurned(Rotary):
    def forward(self, x):
        return super().forward(x)

    def weigh(self, scores):
        return scores.softmax(-2)


@sick("softmax-twice")
class SoftmaxTwice(Layer):
    def weigh(self, scores):
        return scores.softmax(-1).softmax(-1)


@sick("no-softmax")
class NoSoftmax(Layer):
    def weigh(self, scores):
        return scores.exp()


@sick("no-softmax")
class RawScores(Layer):
    def weigh(self, scores):
        return scores


@sick("key-unused")
class LastKeyCutOff(WithoutMask):
    def attend(self, q, k, v, mask):
        cut = max(1, k.shape[2] - 1)
        return super().attend(q, k[:, :, :cut], v[:, :, :cut], mask)


@sick("key-unused")
class LastKeyIsTheOneBefore(Layer):
    def attend(self, q, k, v, mask):
        k = torch.cat([k[:, :, :-1], k[:, :, -2:-1]], 2) if k.shape[2] > 1 else k
        return super().attend(q, k, v, mask)


@sick("not-deterministic")
class DropoutLeftOn(Layer):
    def weigh(self, scores):
        return nn.functional.dropout(scores.softmax(-1), 0.1)


@sick("mutates-input")
class WritesIntoTheInput(Layer):
    def forward(self, x, mask=None):
        x *= self.d_model**0.5
        return super().forward(x, mask)


@sick("mutates-input")
class WritesIntoTheMask(Layer):
    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(self.axes(mask.logical_not_()), -1e9)


@sick("shape")
class MergeForgotten(Layer):
    def forward(self, x, mask=None):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(x)), self.split(self.W_v(x))
        return self.attend(q, k, v, mask) + 0 * self.W_o.weight.sum()


@sick("shape")
class Squeezed(Layer):
    """Right until a batch of one or a single token comes."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze()


@sick("not-finite")
class ScoresExponentiatedUnsafely(Layer):
    def weigh(self, scores):
        weights = (1000 + scores).exp()  # no maximum taken out
        return weights / weights.sum(-1, keepdim=True)


@sick("dead-parameters")
class OutputProjectionUnused(Layer):
    def forward(self, x, mask=None):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(x)), self.split(self.W_v(x))
        return self.merge(self.attend(q, k, v, mask))


@sick("dead-parameters")
class KeysMadeByTheQueries(Layer):
    def forward(self, x, mask=None):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_q(x)), self.split(self.W_v(x))
        return self.W_o(self.merge(self.attend(q, k, v, mask)))


@sick("dead-parameters")
class GradientCut(Layer):
    def score(self, q, k):
        return super().score(q.detach(), k.detach())


@sick("wrong-scale", none_with_one_head=True, weights=True)
class ScaledByTheWholeWidth(Layer):
    def score(self, q, k):
        return q @ k.mT / math.sqrt(self.d_model)


@sick("wrong-scale", weights=True)
class NotScaled(Layer):
    def score(self, q, k):
        return q @ k.mT


@sick("wrong-scale", weights=True)
class DividedByHeadDim(Layer):
    def score(self, q, k):
        return q @ k.mT / self.hd


@sick("heads-unused", none_with_one_head=True, weights=True)
class OneHeadInPlaceOfMany(Layer):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, 1)


@sick("heads-unused", none_with_one_head=True)
class HeadSilenced(Layer):
    def attend(self, q, k, v, mask):
        kept = (torch.arange(self.h) != self.h // 2)[:, None, None] | (self.h == 1)
        return super().attend(q, k, v, mask) * kept


@sick("heads-unused", none_with_one_head=True)
class LastHeadNeverMerged(WithoutMask):
    """The heads are put side by side in a loop that ends too early; the first one fills the gap."""

    def merge(self, heads):
        return super().merge(torch.cat([heads[:, :-1], heads[:, :1]], 1))


@sick("heads-unused", none_with_one_head=True)
class ScoresOfTheFirstHeadForAll(Layer):
    def score(self, q, k):
        return super().score(q[:, :1], k[:, :1]).expand(-1, self.h, -1, -1)

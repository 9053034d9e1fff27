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
from tests.helpers.layers_base import Layer, varied, without_mask
from tests.helpers.layers_healthy import GPT, Neighbours, PostNormBlock, Rotary, Window, WithoutMask


@dataclass(frozen=True)
class Disease:
    """A mistake.

    Args:
        code: of the finding that names it.
        make: `(d_model, num_heads) -> what examine takes`.
        with_one_head: the code with one head where that is another, "" where it is no mistake then.
    """

    code: str
    make: Callable
    with_one_head: str | None = None


SICK: dict[str, Disease] = {}


def sick(code, called=None, with_one_head=None):
    """Add the class that follows; `called` hands a layer over as examine takes it."""

    def add(kind):
        make = (lambda d, h: called(kind(d, h))) if called else kind
        SICK[kind.__name__] = Disease(code, make, with_one_head)
        return kind

    return add


def spoilt(code, name, base=Layer, called=None, with_one_head=None, **changes):
    """Add a layer like `base` in which these steps or numbers are others, and return its class."""
    return sick(code, called, with_one_head)(varied(name, base, **changes))


def causal(layer):
    return adapt(layer, causal=True)


# ----------------------------------------------------------------------------------------------------- split and merge


def _split(self, x):
    return x.reshape(len(x), self.h, x.shape[1], -1)  # the shape is right


def _split_of_the_transposed(self, x):
    return x.transpose(1, 2).reshape(len(x), self.h, x.shape[1], -1)


def _merge(self, heads):
    return heads.reshape(len(heads), heads.shape[2], -1)  # the shape is right


def _merge_of_the_transposed(self, heads):
    return heads.transpose(2, 3).reshape(len(heads), heads.shape[2], -1)


def _merge_of_another_sample(self, heads):
    return Layer.merge(self, heads.flatten(0, 1).unflatten(0, (self.h, -1)).transpose(0, 1))


spoilt("mixes-tokens", "SplitWithoutTranspose", with_one_head="", split=_split)
spoilt("mixes-tokens", "OnlyTheQueriesAreSplitWrong", with_one_head="", split_q=_split)
spoilt("mixes-tokens", "OnlyTheValuesAreSplitWrong", with_one_head="", split_v=_split)
spoilt("mixes-tokens", "SplitOfTheTransposed", split=_split_of_the_transposed)
spoilt("mixes-tokens", "WrongThereAndBack", with_one_head="", split=_split, merge=_merge)
spoilt("mixes-tokens", "SplitWithoutTransposeInGPT", GPT, with_one_head="", split=_split)
spoilt("mixes-tokens-on-merge", "MergeWithoutTranspose", with_one_head="", merge=_merge)
spoilt("mixes-tokens-on-merge", "MergeOfTheTransposed", merge=_merge_of_the_transposed)
spoilt("mixes-samples", "AnotherSamplesHeads", with_one_head="", merge=_merge_of_another_sample)


@sick("mixes-tokens", with_one_head="")
class HeadsFoldedByAView(PostNormBlock):
    """view(B * h, T, hd) there and view(B, T, d_model) back: with as many tokens as heads no token sees another.

    Sharp maps behind a norm, so that not every token is seen at other lengths either.
    """

    split, merge, bias = _split, _merge, True

    def more(self):
        super().more()
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


@sick("no-mixing")
class AttendsOverHeads(WithoutMask):
    def split(self, x):
        return x.view(*x.shape[:2], self.h, self.hd)  # (B, T, h, hd): the heads meet, the tokens do not

    def merge(self, heads):
        return heads.flatten(2)


@sick("mixes-samples")
class PlacesCountedAlongTheBatch(Layer):
    """A table of positions made for (T, B, d_model): each sample gets its own, and sample 0 is right."""

    def more(self):
        self.places = nn.Parameter(torch.randn(64, 1, self.d_model))

    def forward(self, x, mask=None):
        return super().forward(x + self.places[: len(x)], mask)


def _time_first(d_model, num_heads):
    return adapt(nn.MultiheadAttention(d_model, num_heads), "torch", batch_first=True)


SICK["TimeFirstTakenForBatchFirst"] = Disease("mixes-samples", _time_first)

# -------------------------------------------------------------------------------------------------- scores and weights


def _over_queries(self, scores):
    return scores.softmax(-2)


def _unsafely(self, scores):
    weights = (1000 + scores).exp()  # no maximum taken out
    return weights / weights.sum(-1, keepdim=True)


def _last_key_cut_off(self, q, k, v, mask):
    cut = max(1, k.shape[2] - 1)
    return Layer.attend(self, q, k[:, :, :cut], v[:, :, :cut], mask)


def _last_key_is_the_one_before(self, q, k, v, mask):
    k = torch.cat([k[:, :, :-1], k[:, :, -2:-1]], 2) if k.shape[2] > 1 else k
    return Layer.attend(self, q, k, v, mask)


def _by_the_whole_width(self, q, k):
    return q @ k.mT / math.sqrt(self.d_model)


spoilt("softmax-axis", "SoftmaxOverQueries", weigh=_over_queries)
spoilt("softmax-axis", "SoftmaxOverHeads", weigh=lambda self, scores: scores.softmax(1))
spoilt("softmax-axis", "SoftmaxOverSamples", weigh=lambda self, scores: scores.softmax(0))
spoilt("softmax-axis", "SoftmaxOverQueriesInGPT", GPT, causal, weigh=_over_queries)
spoilt("softmax-axis", "SoftmaxOverQueriesInAWindow", Window, weigh=_over_queries)
spoilt("softmax-axis", "SoftmaxOverQueriesAndTurned", Rotary, weigh=_over_queries, forward=without_mask)
spoilt("softmax-twice", "SoftmaxTwice", weigh=lambda self, scores: scores.softmax(-1).softmax(-1))
spoilt("no-softmax", "NoSoftmax", weigh=lambda self, scores: scores.exp())
spoilt("no-softmax", "RawScores", weigh=lambda self, scores: scores)
spoilt("not-finite", "ScoresExponentiatedUnsafely", weigh=_unsafely)
spoilt("key-unused", "LastKeyCutOff", WithoutMask, attend=_last_key_cut_off)
spoilt("key-unused", "LastKeyIsTheOneBefore", attend=_last_key_is_the_one_before)
spoilt("wrong-scale", "ScaledByTheWholeWidth", with_one_head="", score=_by_the_whole_width)
spoilt("wrong-scale", "NotScaled", score=lambda self, q, k: q @ k.mT)
spoilt("wrong-scale", "DividedByHeadDim", score=lambda self, q, k: q @ k.mT / self.hd)

# ------------------------------------------------------------------------------------------------ heads and parameters


@sick("heads-unused", with_one_head="")
class OneHeadInPlaceOfMany(Layer):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, 1)


@sick("heads-unused", with_one_head="")
class HeadSilenced(Layer):
    def attend(self, q, k, v, mask):
        kept = (torch.arange(self.h) != self.h // 2)[:, None, None] | (self.h == 1)
        return super().attend(q, k, v, mask) * kept


@sick("heads-unused", with_one_head="")
class LastHeadNeverMerged(WithoutMask):
    """The heads are put side by side in a loop that ends too early; the first one fills the gap."""

    def merge(self, heads):
        return super().merge(torch.cat([heads[:, :-1], heads[:, :1]], 1))


@sick("heads-unused", with_one_head="")
class ScoresOfTheFirstHeadForAll(Layer):
    def score(self, q, k):
        return super().score(q[:, :1], k[:, :1]).expand(-1, self.h, -1, -1)


@sick("dead-parameters")
class KeysMadeByTheQueries(Layer):
    def qkv(self, x):
        return self.split(self.W_q(x)), self.split(self.W_q(x)), self.split(self.W_v(x))


@sick("dead-parameters")
class GradientCut(Layer):
    def score(self, q, k):
        return super().score(q.detach(), k.detach())


spoilt("dead-parameters", "OutputProjectionUnused", out=Layer.merge)

# ----------------------------------------------------------------------------------------- what is given and comes back


@sick("mutates-input")
class WritesIntoTheInput(Layer):
    def forward(self, x, mask=None):
        x *= self.d_model**0.5
        return super().forward(x, mask)


@sick("mutates-input")
class WritesIntoTheMask(Layer):
    def axes(self, mask):
        return ~super().axes(mask.logical_not_())


@sick("shape")
class Squeezed(Layer):
    """Right until a batch of one or a single token comes."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze()


def _drop(self, scores):
    return nn.functional.dropout(scores.softmax(-1), 0.1)


spoilt("shape", "MergeForgotten", out=lambda self, heads: heads + 0 * self.W_o.weight.sum())
spoilt("not-deterministic", "DropoutLeftOn", weigh=_drop)

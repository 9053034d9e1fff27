"""The sick layers that are wrong about masks; importing this module completes `SICK`."""

import torch

from attention_doctor import adapt
from tests.helpers.layers_base import KeyMask, Layer, over_keys, over_lengths
from tests.helpers.layers_healthy import GPT, Additive, CausalAndMasked, Folded, RankFour
from tests.helpers.layers_sick import SICK, Disease, causal, sick, spoilt

__all__ = ["SICK"]

# ---------------------------------------------------------------------------------------------------------- the future


class FiniteGPT(GPT):
    """Hides with -1e9, so that a query without keys gets a mean over all of them."""

    diagonal = 0

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(self.diagonal)
        return Layer.forward(self, x, mask)


def _hidden_after_the_softmax(self, q, k, v, mask):
    return (self.weigh(self.score(q, k)) * (1 if mask is None else self.axes(mask))) @ v


spoilt("future-leak", "OnePlaceTooFar", GPT, seen=lambda self, longest: torch.ones(longest, longest).tril(1))
spoilt("future-leak", "ForgotItsBuffer", GPT, causal, seen=lambda self, longest: torch.ones(longest, longest))
spoilt("future-leak", "UpsideDown", GPT, seen=lambda self, longest: torch.ones(longest, longest).triu())
spoilt("future-leak", "HiddenFromThemselves", FiniteGPT, diagonal=-1)
spoilt("future-leak", "HiddenAfterTheSoftmax", FiniteGPT, causal, attend=_hidden_after_the_softmax)
spoilt("future-leak", "HiddenAfterTheSoftmaxUndeclared", FiniteGPT, attend=_hidden_after_the_softmax)

# ----------------------------------------------------------------------------------------------- masks of every query


def _ignored(self, scores, mask):
    return scores


def _turned(self, mask):
    return ~Layer.axes(self, mask)


def _transposed(self, mask):
    return Layer.axes(self, mask.mT)


def _without_result(self, scores, mask):
    if mask is not None:
        scores.masked_fill(~self.axes(mask), -1e9)  # masked_fill_ or an assignment was meant
    return scores


def _added(self, scores, mask):
    return scores if mask is None else scores + self.axes(mask).to(scores.dtype)


def _repeated(self, mask):
    if mask.ndim == 2:
        return mask
    return mask.repeat(self.h, 1, 1).unflatten(0, (-1, self.h))  # repeat_interleave was meant


def _of_the_first(self, mask):
    return mask if mask.ndim == 2 else mask[:1, None]


def _of_the_last(self, mask):
    return mask if mask.ndim == 2 else mask[-1:, None]


def _where_batch_equals_heads(self, mask):
    return mask if mask.ndim == 3 and len(mask) == self.h else Layer.axes(self, mask)


class MaskInverted(Layer):
    def axes(self, mask):
        return ~super().axes(mask)


sick("mask-inverted")(MaskInverted)
spoilt("mask-inverted", "MaskInvertedToMinusInfinity", called=adapt, axes=_turned, never=-torch.inf)
spoilt("mask-ignored", "MaskIgnored", hide=_ignored)
spoilt("mask-ignored", "MaskedFillWithoutResult", hide=_without_result)
spoilt("mask-transposed", "MaskTransposed", axes=_transposed)
spoilt("mask-leaks", "MaskAfterTheSoftmax", attend=_hidden_after_the_softmax)
spoilt("mask-leaks", "ZerosAndOnesAdded", hide=_added)
spoilt("mask-leaks", "TinyInsteadOfHuge", never=1e-9)
spoilt("mask-leaks", "AlmostHidden", never=-9.0)  # a hidden key keeps one part in some ten thousand
spoilt("mask-order", "MaskRepeatedInTheWrongOrder", with_one_head="", axes=_repeated)
spoilt("mask-order", "FirstMaskForAll", axes=_of_the_first)
spoilt("mask-order", "LastMaskForAll", axes=_of_the_last)
spoilt("mask-order", "OnlyWhereBatchEqualsHeads", with_one_head="", axes=_where_batch_equals_heads)
spoilt("crash", "NoHeadAxisInMask", axes=lambda self, mask: mask)
spoilt("crash", "CrashesOnEveryMask", axes=lambda self, mask: mask[:, :, :, None, None])
spoilt("crash", "CrashesAlways", score=lambda self, q, k: q @ k)


@sick("mask-transposed")
class MaskTransposedInACausalLayer(CausalAndMasked):
    def hide(self, scores, mask):
        return super().hide(scores, None if mask is None else mask.mT)


@sick("mask-order", with_one_head="")
class FoldedWithRepeat(Folded):
    def for_each_head(self, mask):
        return mask.repeat(self.h, 1, 1)


@sick("crash")
class MaskOfTheFirstCall(FiniteGPT):
    """Made once and kept: right until another length comes."""

    kept = None

    def attend(self, q, k, v, mask):
        self.kept = mask if self.kept is None else self.kept
        return super().attend(q, k, v, self.kept)


@sick("nan-on-empty-row")
class NaNSpreads(Layer):
    """One query without keys, and every output of its sample is NaN."""

    def hide(self, scores, mask):
        empty = None if mask is None else (~mask.any(-1)).any(-1)
        scores = super().hide(scores, mask)
        return scores if empty is None else scores + torch.where(empty, torch.nan, 0.0).reshape(-1, 1, 1, 1)


def _declared_the_wrong_way_round(d_model, num_heads):
    return adapt(RankFour(d_model, num_heads), "qkv", mask="blocked", mask_rank=4)


def _zeros_and_ones_for_an_additive_layer(d_model, num_heads):
    return adapt(Additive(d_model, num_heads), mask="float01")


SICK["WrongPolarityDeclared"] = Disease("mask-inverted", _declared_the_wrong_way_round)
SICK["ZeroOneMaskToAnAdditiveLayer"] = Disease("mask-leaks", _zeros_and_ones_for_an_additive_layer)

# ---------------------------------------------------------------------------------------- over the keys alone, lengths


def _keys_repeated(self, mask):
    return mask.repeat(self.h, 1).unflatten(0, (-1, self.h))[:, :, None]


def _too_far(layer):
    return over_lengths(layer, too_far=1)


spoilt("mask-leaks", "TinyInsteadOfHugeOverKeys", KeyMask, over_keys, never=1e-9)
spoilt("mask-leaks", "LengthsCutOneTooFar", KeyMask, _too_far)
spoilt("mask-inverted", "MaskInvertedOverKeys", KeyMask, over_keys, axes=lambda self, mask: ~KeyMask.axes(self, mask))
spoilt("mask-order", "RepeatedInTheWrongOrderOverKeys", KeyMask, over_keys, with_one_head="", axes=_keys_repeated)
spoilt("mask-ignored", "LengthsIgnored", KeyMask, over_lengths, hide=_ignored)

# -------------------------------------------------------------------------------------------- kept from call to call


@sick("not-deterministic")
class KeysKeptWhereTheSizesAgree(Layer):
    kept = None

    def attend(self, q, k, v, mask):
        if self.kept is None or self.kept[0].shape != k.shape:
            self.kept = k, v
        return super().attend(q, *self.kept, mask)


@sick("not-deterministic")
class KeysKeptForEachSize(Layer):
    def more(self):
        self.kept = {}

    def attend(self, q, k, v, mask):
        return super().attend(q, *self.kept.setdefault(k.shape, (k, v)), mask)


@sick("not-deterministic", over_keys)
class BufferEditedInPlace(GPT):
    """Keys that are padding in every sample of one batch stay hidden for good."""

    def forward(self, x, mask=None):
        T = x.shape[1]
        causal = self.tril[:T, :T]
        if mask is not None:
            causal.mul_(mask.any(0))
            causal = causal * mask[:, None, None]
        q, k, v = self.qkv(x)
        return self.out(self.score(q, k).masked_fill(causal == 0, -1e9).softmax(-1) @ v)

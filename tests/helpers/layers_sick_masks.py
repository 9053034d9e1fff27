"""The sick layers that are wrong about masks; importing this module completes `SICK`."""

import torch

from attention_doctor import adapt
from tests.helpers.layers_base import KeyMask, Layer, over_keys, over_lengths
from tests.helpers.layers_healthy import GPT, Additive, CausalAndMasked, Folded, RankFour
from tests.helpers.layers_sick import SICK, sick

__all__ = ["SICK"]


@sick("future-leak")
class OnePlaceTooFar(GPT):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.tril = torch.tril(torch.ones(64, 64), diagonal=1)


@sick("future-leak", make=lambda d, h: adapt(ForgotItsBuffer(d, h), causal=True))
class ForgotItsBuffer(GPT):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.tril = torch.ones(64, 64)


@sick("future-leak")
class UpsideDown(GPT):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.tril = self.tril.T


class FiniteGPT(GPT):
    """Hides with -1e9, so that a query without keys gets a mean over all of them."""

    diagonal = 0

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(self.diagonal)
        return Layer.forward(self, x, mask)


@sick("future-leak")
class HiddenFromThemselves(FiniteGPT):
    diagonal = -1


@sick("future-leak", make=lambda d, h: adapt(HiddenAfterTheSoftmax(d, h), causal=True))
class HiddenAfterTheSoftmax(FiniteGPT):
    def attend(self, q, k, v, mask):
        return (self.weigh(self.score(q, k)) * mask) @ v


@sick("future-leak")
class HiddenAfterTheSoftmaxUndeclared(HiddenAfterTheSoftmax):
    pass


@sick("mask-ignored")
class MaskIgnored(Layer):
    def hide(self, scores, mask):
        return scores


@sick("mask-ignored")
class MaskedFillWithoutResult(Layer):
    def hide(self, scores, mask):
        if mask is not None:
            scores.masked_fill(~self.axes(mask), -1e9)  # masked_fill_ or an assignment was meant
        return scores


@sick("mask-inverted")
class MaskInverted(Layer):
    def hide(self, scores, mask):
        return super().hide(scores, None if mask is None else ~mask)


@sick("mask-inverted", make=lambda d, h: adapt(MaskInvertedToMinusInfinity(d, h)))
class MaskInvertedToMinusInfinity(Layer):
    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(self.axes(mask), -torch.inf)


@sick("mask-transposed")
class MaskTransposed(Layer):
    def hide(self, scores, mask):
        return super().hide(scores, None if mask is None else mask.mT)


@sick("mask-transposed")
class MaskTransposedInACausalLayer(CausalAndMasked):
    def hide(self, scores, mask):
        return super().hide(scores, None if mask is None else mask.mT)


@sick("mask-leaks")
class MaskAfterTheSoftmax(Layer):
    def attend(self, q, k, v, mask):
        weights = self.weigh(self.score(q, k))
        return (weights if mask is None else weights * self.axes(mask)) @ v


@sick("mask-leaks")
class ZerosAndOnesAdded(Layer):
    def hide(self, scores, mask):
        return scores if mask is None else scores + self.axes(mask).to(scores.dtype)


@sick("mask-leaks")
class TinyInsteadOfHuge(Layer):
    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(~self.axes(mask), 1e-9)


@sick("mask-order", none_with_one_head=True)
class MaskRepeatedInTheWrongOrder(Layer):
    def axes(self, mask):
        if mask.ndim == 2:
            return mask
        return mask.repeat(self.h, 1, 1).unflatten(0, (-1, self.h))  # repeat_interleave was meant


@sick("mask-order")
class FirstMaskForAll(Layer):
    def axes(self, mask):
        return mask if mask.ndim == 2 else mask[:1, None]


@sick("mask-order", none_with_one_head=True)
class OnlyWhereBatchEqualsHeads(Layer):
    def axes(self, mask):
        return mask if mask.ndim == 3 and len(mask) == self.h else super().axes(mask)


@sick("crash")
class NoHeadAxisInMask(Layer):
    def axes(self, mask):
        return mask


@sick("crash")
class CrashesOnEveryMask(Layer):
    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(~mask[:, :, :, None, None], -1e9)


@sick("crash")
class CrashesAlways(Layer):
    def score(self, q, k):
        return q @ k


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


@sick("mask-inverted", make=lambda d, h: adapt(RankFour(d, h), "qkv", mask="blocked", mask_rank=4))
class WrongPolarityDeclared:
    pass


@sick("mask-leaks", make=lambda d, h: adapt(Additive(d, h), mask="float01"))
class ZeroOneMaskToAnAdditiveLayer:
    pass


@sick("mask-order", none_with_one_head=True)
class FoldedWithRepeat(Folded):
    def forward(self, x, mask=None):
        q, k, v = (self.split(W(x)).flatten(0, 1) for W in (self.W_q, self.W_k, self.W_v))  # (B * h, T, hd)
        scores = self.score(q, k)
        if mask is not None:
            scores = scores.masked_fill(~mask.expand(len(x), -1, -1).repeat(self.h, 1, 1), -1e9)
        return self.W_o(self.merge((scores.softmax(-1) @ v).unflatten(0, (len(x), self.h))))


# ---------------------------------------------------------------------------------------- over the keys alone, lengths


class TinyOverKeys(KeyMask):
    filled = 1e-9


@sick("mask-leaks", make=lambda d, h: over_keys(TinyOverKeys(d, h)))
class TinyInsteadOfHugeOverKeys:
    pass


@sick("mask-leaks", make=lambda d, h: over_lengths(KeyMask(d, h), too_far=1))
class LengthsCutOneTooFar:
    pass


class KeyMaskInverted(KeyMask):
    def hide(self, scores, mask):
        return super().hide(scores, None if mask is None else ~mask)


@sick("mask-inverted", make=lambda d, h: over_keys(KeyMaskInverted(d, h)))
class MaskInvertedOverKeys:
    pass


class KeyMaskRepeated(KeyMask):
    def hide(self, scores, mask):
        if mask is None:
            return scores
        return scores.masked_fill(~mask.repeat(self.h, 1).unflatten(0, (-1, self.h))[:, :, None], -1e9)


@sick("mask-order", none_with_one_head=True, make=lambda d, h: over_keys(KeyMaskRepeated(d, h)))
class RepeatedInTheWrongOrderOverKeys:
    pass


@sick("mask-ignored", make=lambda d, h: over_lengths(KeyMaskIgnored(d, h)))
class LengthsIgnored:
    pass


class KeyMaskIgnored(KeyMask):
    def hide(self, scores, mask):
        return scores


# ------------------------------------------------------------------------------------------- kept from call to call


@sick("not-deterministic")
class KeysKeptWhereTheSizesAgree(Layer):
    kept = None

    def attend(self, q, k, v, mask):
        if self.kept is None or self.kept[0].shape != k.shape:
            self.kept = k, v
        return super().attend(q, *self.kept, mask)


@sick("not-deterministic")
class KeysKeptForEachSize(Layer):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.kept = {}

    def attend(self, q, k, v, mask):
        return super().attend(q, *self.kept.setdefault(k.shape, (k, v)), mask)


@sick("not-deterministic", make=lambda d, h: over_keys(BufferEditedInPlace(d, h)))
class BufferEditedInPlace(GPT):
    """Keys that are padding in every sample of one batch stay hidden for good."""

    def forward(self, x, mask=None):
        T = x.shape[1]
        causal = self.tril[:T, :T]
        if mask is not None:
            causal.mul_(mask.any(0))
            causal = causal * mask[:, None, None]
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(x)), self.split(self.W_v(x))
        return self.W_o(self.merge(self.score(q, k).masked_fill(causal == 0, -1e9).softmax(-1) @ v))

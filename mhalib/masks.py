"""Attention masks: which query may look at which key, and how each library wants to be told.

Inside `mhalib` there is one convention: a boolean mask is **True where attention is allowed**. Every other
convention (blocked = True, numbers that are added to the scores, lengths) is converted here, where it enters.
The axes of a mask are always `(queries, keys)`, `(batch, queries, keys)` or `(batch, heads, queries, keys)`;
any axis may be 1. Functions that take only boolean masks call `check_boolean`; those that add a mask to scores call
`prepare_mask`. Notebook 04 teaches all of this.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mhalib.arguments import check_size, check_tensor


def causal_mask(num_queries: int, num_keys: int | None = None, *, device=None) -> Bool[Tensor, "queries keys"]:
    """Return the mask that lets each query see its own position and all earlier ones.

    The queries are the *last* `num_queries` of the `num_keys` positions, so that one new query over a cache of
    six keys sees all six. (`is_causal=True` of torch's `scaled_dot_product_attention` aligns the first query
    with the first key instead; the two agree when there are as many queries as keys.)

    Args:
        num_queries, num_keys: how many there are; as many keys as queries when left out.
        device: where the mask is made.

    Raises:
        ValueError: a number is not a positive integer, or there are more queries than keys.

    Taught in notebook 04.

    Examples:
        >>> from mhalib import causal_mask
        >>> causal_mask(2, 4)
        tensor([[ True,  True,  True, False],
                [ True,  True,  True,  True]])
    """
    num_keys = num_queries if num_keys is None else num_keys
    check_size("num_queries", num_queries)
    check_size("num_keys", num_keys)
    if num_queries > num_keys:
        raise ValueError(
            f"a causal mask needs num_queries <= num_keys, got num_queries={num_queries}, num_keys={num_keys}; "
            "the queries are the last positions of the keys, so there cannot be more of them"
        )
    return torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).tril(num_keys - num_queries)


def padding_mask(valid_lens: Int[Tensor, "*batch_queries"], num_keys: int) -> Bool[Tensor, "batch queries keys"]:
    """Return the mask that hides the padding behind each sample's valid keys.

    Args:
        valid_lens: how many keys count, integers: `(B,)`, one length per sample, or `(B, Tq)`, one per query.
        num_keys: length of the padded sequence.

    Returns:
        `(B, 1, num_keys)` for one length per sample, `(B, Tq, num_keys)` for one per query.

    Raises:
        TypeError: the lengths are not a tensor of integers.
        ValueError: they have other axes, do not lie between 0 and `num_keys`, or that is no positive integer.

    Taught in notebook 04.

    Examples:
        >>> import torch
        >>> from mhalib import padding_mask
        >>> padding_mask(torch.tensor([1, 3]), num_keys=3).tolist()
        [[[True, False, False]], [[True, True, True]]]
    """
    _check_dense("valid_lens", valid_lens)
    check_size("num_keys", num_keys)
    if valid_lens.dtype == torch.bool or valid_lens.is_floating_point() or valid_lens.is_complex():
        raise TypeError(
            f"valid_lens must hold integers, got {valid_lens.dtype}; a boolean mask needs no conversion, "
            "lengths need .long()"
        )
    if valid_lens.ndim not in (1, 2):
        raise ValueError(
            f"valid_lens must be (B,), one length per sample, or (B, Tq), one per query; got {_shape(valid_lens)}; "
            "write a single length as valid_lens[None]"
        )
    if (
        valid_lens.numel()
        and _values_are_known(valid_lens)
        and not 0 <= int(valid_lens.min()) <= int(valid_lens.max()) <= num_keys
    ):
        raise ValueError(
            f"valid_lens must lie between 0 and num_keys={num_keys}, got {int(valid_lens.min())} to "
            f"{int(valid_lens.max())}; give the length of the padded sequence as num_keys"
        )
    lens = valid_lens[:, None, None] if valid_lens.ndim == 1 else valid_lens[:, :, None]  # (B, 1 or Tq, 1)
    return torch.arange(num_keys, device=valid_lens.device) < lens


def combine_masks(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Return the mask that allows only what all given masks allow.

    Args:
        masks: boolean masks, True where attention is allowed, `(Tq, Tk)`, `(B, Tq, Tk)` or `(B, h, Tq, Tk)`;
            None means "no restriction" and is skipped.

    Returns:
        their conjunction, with as many axes as the mask that has most, or None if there was no mask.

    Raises:
        TypeError: a mask is not boolean.
        ValueError: a mask has too few or too many axes, or the masks do not broadcast or are on different devices.

    Taught in notebook 04.

    Examples:
        >>> import torch
        >>> from mhalib import causal_mask, combine_masks, padding_mask
        >>> combine_masks(causal_mask(3), padding_mask(torch.tensor([2]), 3))
        tensor([[[ True, False, False],
                 [ True,  True, False],
                 [ True,  True, False]]])
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    for mask in given:
        check_boolean("a mask", mask)
    # A (B, Tq, Tk) mask beside a (B, h, Tq, Tk) one would line its samples up with the heads, and do so
    # silently where B == h; with_head_axis puts the head axis where it belongs.
    combined = with_head_axis(given[0])
    for mask in given[1:]:
        other = with_head_axis(mask)
        if any(1 not in pair and pair[0] != pair[1] for pair in zip(combined.shape, other.shape, strict=True)):
            shapes = " and ".join(_shape(mask) for mask in given)
            raise ValueError(f"masks {shapes} do not broadcast to one (B, h, Tq, Tk); each axis must agree or be 1")
        if other.device != combined.device:
            raise ValueError(f"masks must be on one device, got {combined.device} and {other.device}; use mask.to(...)")
        combined = combined & other
    ndim = max(mask.ndim for mask in given)
    return combined[0, 0] if ndim == 2 else combined[:, 0] if ndim == 3 else combined


def to_additive(mask: Bool[Tensor, "..."], dtype: torch.dtype = torch.float32) -> Float[Tensor, "..."]:
    """Return the numbers to add to the scores: 0 where attention is allowed, -inf where it is not.

    Args:
        mask: boolean, True where attention is allowed, any shape.
        dtype: of the result; use that of the scores.

    `-inf` is used rather than -1e9 because it is exact in every dtype. A row of nothing but `-inf` gives NaN in a
    plain softmax, and zeros in `mhalib` and in torch's `scaled_dot_product_attention`.

    Raises:
        TypeError: the mask is not boolean, or `dtype` is not a floating type.

    Taught in notebook 04.

    Examples:
        >>> import torch
        >>> from mhalib.masks import to_additive
        >>> to_additive(torch.tensor([[True, False]]))
        tensor([[0., -inf]])
    """
    check_boolean("mask", mask)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"additive masks need a floating dtype to hold -inf, got {dtype}; use torch.float32")
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -math.inf)


def to_boolean(mask: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Return True where an additive mask allows attention.

    Args:
        mask: floating; 0 where attention is allowed, -1e4 or less (usually -inf, -1e9 or the dtype's lowest
            number) where it is not.

    Raises:
        TypeError: the mask is not floating.
        ValueError: it holds NaN or any other number, so it is a bias or a 0/1 mask.

    Taught in notebook 04.

    Examples:
        >>> import torch
        >>> from mhalib.masks import to_boolean
        >>> to_boolean(torch.tensor([[0.0, -1e9]]))
        tensor([[ True, False]])
    """
    _check_dense("mask", mask)
    if not mask.is_floating_point():
        raise TypeError(f"an additive mask is floating, got {mask.dtype}; a boolean mask needs no conversion")
    blocked = mask <= -1e4
    if not bool((blocked | (mask == 0)).all()):
        raise ValueError(
            "an additive mask holds only 0 (may attend) and -1e4 or less (blocked); this one holds other numbers. "
            "For 0/1 numbers use mask.bool(); a bias on the scores has no boolean form"
        )
    return ~blocked


def with_head_axis(mask: Tensor) -> Tensor:
    """Return the mask with all four axes, `(B, h, Tq, Tk)`; axes that were missing become 1.

    Raises:
        TypeError: the mask is not a tensor.
        ValueError: the mask has fewer than 2 or more than 4 axes.

    Taught in notebook 04.

    Examples:
        >>> import torch
        >>> from mhalib.masks import with_head_axis
        >>> with_head_axis(torch.ones(2, 5, 5, dtype=torch.bool)).shape
        torch.Size([2, 1, 5, 5])
    """
    _check_dense("mask", mask)
    if not 2 <= mask.ndim <= 4:
        raise ValueError(
            f"a mask is (Tq, Tk), (B, Tq, Tk) or (B, h, Tq, Tk), got {_shape(mask)}; a mask over keys only, "
            "(B, Tk), becomes mask[:, None, :], and lengths (B,) become padding_mask(valid_lens, Tk)"
        )
    return mask[None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask


def prepare_mask(mask: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a mask that is safe to use on scores of `shape`, or say what is wrong with it.

    Args:
        mask: boolean, True where attention is allowed, or floating, added to the scores.
        shape: of the scores: `(Tq, Tk)`, `(B, Tq, Tk)` or `(B, h, Tq, Tk)`.
        dtype, device: of the scores; an additive mask comes back in this dtype.

    Returns:
        the same mask with as many axes as the scores, each of them 1 or as in `shape`.

    Raises:
        TypeError: the mask is neither boolean nor floating.
        ValueError: it does not broadcast, is on another device, or (where its values are known: not on the meta
            device, nor under torch.compile and torch.export) holds NaN or +inf, or is a 0/1 mask in floats.

    No notebook calls this function, but attention does, with every mask; notebook 04 teaches what a mask may be.
    """
    full = with_head_axis(mask)
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(
            f"mask must be boolean (True = may attend) or floating (added to the scores), got {mask.dtype}; "
            "for 0/1 integers use mask.bool(), for lengths use padding_mask(valid_lens, Tk)"
        )
    fits = mask.ndim <= len(shape)
    if fits:
        full = full if len(shape) == 4 else full[:, 0] if len(shape) == 3 else full[0, 0]
        fits = all(have in (1, need) for have, need in zip(full.shape, shape, strict=True))
    if not fits:
        raise ValueError(
            f"mask {_shape(mask)} does not broadcast to the scores {tuple(shape)}; its axes are "
            "(Tq, Tk), (B, Tq, Tk) or (B, h, Tq, Tk), each of them 1 or as in the scores"
        )
    if mask.device != device:
        raise ValueError(f"mask is on {mask.device}, but the inputs are on {device}; use mask.to('{device}')")
    if mask.dtype == torch.bool:
        return full
    full = full.to(dtype)
    if not _values_are_known(mask):
        return full
    if not bool((full < math.inf).all()):  # written so that NaN is refused too
        raise ValueError(
            f"the additive mask holds NaN or +inf in {dtype}; 0 * -inf is NaN, so build it with "
            "torch.full((Tq, Tk), -math.inf).triu(1), or give the boolean mask"
        )
    if bool((mask == 1).any()) and bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError(
            "the floating mask holds only 0 and 1; added to the scores it would hide nothing. "
            "Use mask.bool() if 1 means may attend, ~mask.bool() if 1 means blocked"
        )
    return full


def check_boolean(name: str, mask: object) -> None:
    """Refuse anything but a boolean mask, and say what True means, which nobody can see from the mask itself.

    Raises:
        TypeError: it is not a tensor, or not boolean.
        ValueError: it is sparse.

    Notebook 04 teaches why.
    """
    _check_dense(name, mask)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"{name} must be boolean (True = may attend), got {mask.dtype}; for 0/1 numbers use mask.bool(), for "
            "numbers that are added to the scores use mhalib.masks.to_boolean(mask)"
        )


def _check_dense(name: str, x: object) -> None:
    """Refuse anything but a dense tensor: a mask is looked at cell by cell."""
    check_tensor(name, x)
    if x.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, got {x.layout}; use .to_dense()")


def _values_are_known(tensor: Tensor) -> bool:
    """Return whether a check may look at the values: there are none on the meta device or while torch traces."""
    return not (tensor.is_meta or torch.compiler.is_compiling())


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))

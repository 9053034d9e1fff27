"""FlexAttention: what its functions of scores and masks do to the scores of one sample."""

from collections.abc import Callable

import torch
from torch import Tensor

NAMES = ("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options")


def flex_arguments(args: tuple, kwargs: dict) -> dict:
    """Return the arguments of torch's operator for FlexAttention by name."""
    given = dict(zip((*NAMES, "score_buffers", "mask_buffers"), args, strict=False))
    renamed = {"score_mod_other_buffers": "score_buffers", "mask_mod_other_buffers": "mask_buffers"}
    return given | {renamed.get(name, name): x for name, x in kwargs.items()}


def bend_of(given: dict) -> Callable[[Tensor, int], Tensor]:
    """Return the function that turns scores (1, h, Tq, Tk) of sample i into those that enter the softmax."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    score_buffers, mask_buffers = given.get("score_buffers") or (), given.get("mask_buffers") or ()
    score = _vmap_for_bhqkv(given["score_mod"], prefix=(0,), suffix=(None,) * len(score_buffers))
    mask = _vmap_for_bhqkv(given["block_mask"][-1], prefix=(), suffix=(None,) * len(mask_buffers))

    def bend(scores: Tensor, i: int) -> Tensor:
        sample = torch.tensor([i], device=scores.device)
        axes = [torch.arange(size, device=scores.device) for size in scores.shape[1:]]
        # Inside, x[q] of a tensor x needs a mode of torch's own, which the watch otherwise keeps out.
        with torch._C._EnableTorchFunction(), TransformGetItemToIndex():
            seen = mask(sample, *axes, *mask_buffers)
            return torch.where(seen, score(scores, sample, *axes, *score_buffers), -torch.inf)

    return bend

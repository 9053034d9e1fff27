"""The maps of `generate()`, one small map for each step and layer, put together as `capture` does it."""

from collections.abc import Iterator

import torch
from torch import Tensor

from headview.capture_maps import Call, together


def are_steps(maps) -> bool:
    """Is this a tuple of steps, each of them a tuple with the maps of all layers?"""
    if not isinstance(maps, (list, tuple)) or not maps:
        return False
    return all(
        isinstance(step, (list, tuple))
        and len(step) > 0
        and len(step) == len(maps[0])
        and all(part is None or getattr(part, "ndim", 0) == 4 for part in step)
        for step in maps
    ) and any(part is not None for part in maps[0])


def stitched(steps, role: str, ancestors: Tensor | None = None) -> list[tuple[int, Tensor, Tensor | None]]:
    """Return the place of each layer, its map `(B, h, Tq, Tk)` over all steps, and which cells may hold weight.

    Args:
        steps: for each step the maps of all layers, `(B, h, q, k)`; the first holds the prompt. None for a layer
            without attention.
        role: "cross" for maps onto another sequence, whose keys are the same at each step.
        ancestors: `beam_indices` of a beam search, `(B, new tokens)`: in which row of the batch the beam of a sample
            was at each step, -1 where it had ended.
    """
    layers = []
    for i, first in enumerate(steps[0]):
        if first is not None:
            maps = [step[i].detach() for step in steps]
            onto = _onto_another if role == "cross" or _is_cross(maps) else _onto_itself
            calls = [
                Call("", "", (), end, 0, None, *_of_the_beams(part, allowed, step, ancestors))
                for step, (part, allowed, end) in enumerate(onto(maps, i))
            ]
            if len(shapes := sorted({tuple(call.map.shape[:2]) for call in calls})) > 1:
                raise _no_steps(i, f"differ in samples or heads, {shapes}")
            whole = together(calls)
            layers.append((i, whole.map, whole.allowed))
    return layers


def _is_cross(maps: list[Tensor]) -> bool:
    """Do these steps look at another sequence? A cache of fixed size has as many keys as well, but empty ones."""
    first = maps[0]
    if len({part.shape[-1] for part in maps}) > 1 or first.shape[-1] == first.shape[-2]:
        return False
    return bool((first[..., first.shape[-2] :] != 0).any())


def _onto_another(maps: list[Tensor], layer: int) -> Iterator[tuple[Tensor, None, int]]:
    """Yield what each step adds, which of its cells may hold weight, and how many keys there are behind it."""
    keys = {part.shape[-1] for part in maps}
    if len(keys) > 1:
        raise _no_steps(layer, f"look at {sorted(keys)} keys, where one other sequence was expected")
    for step, part in enumerate(maps):  # without a cache a step repeats what was before
        yield part[:, :, -1:] if step else part, None, part.shape[-1]


def _onto_itself(maps: list[Tensor], layer: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield the same of a causal map: each step adds its queries below, its keys on the right."""
    first = maps[0]
    fixed = len(maps) > 1 and first.shape[-1] > first.shape[-2] and first.shape[-1] == maps[1].shape[-1]
    end = 0 if fixed else first.shape[-1] - first.shape[-2]  # keys that were in the cache from the start
    for step, part in enumerate(maps):
        wanted = part.shape[-1] - end  # queries that are new, where the keys begin at the first
        if step and 0 < wanted < part.shape[-2]:
            part = part[:, :, -wanted:]
        end += part.shape[-2]
        if (part[..., end:] != 0).any():
            raise _no_steps(layer, f"hold weight on keys that are not there yet, {tuple(part.shape)} for {end} tokens")
        part = part[..., :end]  # a cache of fixed size holds empty places behind, one that slides lacks the first keys
        allowed = torch.ones(part.shape[-2:], dtype=torch.bool).tril(part.shape[-1] - part.shape[-2])
        if step == 0:  # a prompt may see itself from both sides, such as an image
            allowed |= (part > 0).flatten(0, 1).any(0).cpu()
        yield part, allowed[None, None], end


def _of_the_beams(part: Tensor, allowed: Tensor | None, step: int, ancestors: Tensor | None):
    """Return the rows of the samples that were kept and what they may hold: nothing where one had ended before."""
    if ancestors is None:
        return part, allowed
    last = min(step, ancestors.shape[1] - 1)
    at = ancestors[:, last].to(part.device)
    part, going = part[at.clamp(0)], ((at >= 0) & (step == last))[:, None, None, None]
    if going.all():
        return part, allowed
    return part * going, going.cpu() if allowed is None else allowed & going.cpu()


def _no_steps(layer: int, what: str) -> ValueError:
    return ValueError(
        f"the steps of layer {layer} {what}; give those of one call of generate(), in their order, and several calls "
        "as a dict, {'first': maps, 'second': more}"
    )

"""The maps of `generate()`, one small map for each step and layer, put together into one map for each layer."""

import torch
from torch import Tensor


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

    Raises:
        ValueError: the steps do not follow on each other.
    """
    layers = []
    for i, first in enumerate(steps[0]):
        if first is not None:
            maps = [step[i].detach() for step in steps]
            if role == "cross" or _is_cross(maps):
                layers.append((i, *_onto_another(maps, i, ancestors)))
            else:
                layers.append((i, *_onto_itself(maps, i, ancestors)))
    return layers


def _is_cross(maps: list[Tensor]) -> bool:
    """Do these steps look at another sequence? A cache of fixed size has as many keys as well, but empty ones."""
    first = maps[0]
    if len({part.shape[-1] for part in maps}) > 1 or first.shape[-1] == first.shape[-2]:
        return False
    return bool((first[..., first.shape[-2] :] != 0).any())


def _onto_another(maps: list[Tensor], layer: int, ancestors: Tensor | None) -> tuple[Tensor, Tensor | None]:
    keys = {part.shape[-1] for part in maps}
    if len(keys) > 1:
        raise _no_steps(layer, f"look at {sorted(keys)} keys, where one other sequence was expected")
    new = [maps[0], *(part[:, :, -1:] for part in maps[1:])]  # without a cache a step repeats what was before
    rows = [_of_the_beams(part, step, ancestors) for step, part in enumerate(new)]
    return torch.cat([row for row, _ in rows], 2), _unless_ended(rows)


def _onto_itself(maps: list[Tensor], layer: int, ancestors: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return one causal map: each step adds its queries below, its keys on the right."""
    first = maps[0]
    fixed = len(maps) > 1 and first.shape[-1] > first.shape[-2] and first.shape[-1] == maps[1].shape[-1]
    before = 0 if fixed else first.shape[-1] - first.shape[-2]  # keys that were in the cache from the start
    blocks, done = [], 0
    for step, part in enumerate(maps):
        wanted = part.shape[-1] - before - done  # queries that are new, where the keys begin at the first
        if step and 0 < wanted < part.shape[-2]:
            part = part[:, :, -wanted:]
        part, ended = _of_the_beams(part, step, ancestors)
        done += part.shape[-2]
        blocks.append((part, ended, before + done))
    queries, keys = done, before + done
    samples, heads = blocks[0][0].shape[:2]
    if any(part.shape[:2] != (samples, heads) for part, *_ in blocks):
        shapes = sorted({tuple(part.shape[:2]) for part, *_ in blocks})
        raise _no_steps(layer, f"differ in samples or heads, {shapes}")
    whole = first.new_zeros(samples, heads, queries, keys)
    allowed = torch.ones(queries, keys, dtype=torch.bool, device=first.device).tril(before)
    row = 0
    for part, _, end in blocks:
        seen = part[..., :end]  # a cache of fixed size holds empty places behind
        begin = end - seen.shape[-1]  # a cache that slides has forgotten the first keys
        if row == 0:  # a prompt may see itself from both sides, such as an image
            allowed[: part.shape[-2], begin:end] |= (seen > 0).flatten(0, 1).any(0)
        if (part[..., end:] != 0).any():
            raise _no_steps(layer, f"hold weight on keys that are not there yet, {tuple(part.shape)} for {end} tokens")
        whole[:, :, row : row + part.shape[-2], begin:end] = seen
        row += part.shape[-2]
    ended = _unless_ended([(part, gone) for part, gone, _ in blocks])
    return whole, allowed if ended is None else allowed & ended


def _of_the_beams(part: Tensor, step: int, ancestors: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the rows of the samples that were kept, and which of them had ended before this step."""
    if ancestors is None:
        return part, None
    if step >= ancestors.shape[1]:
        return part[ancestors[:, -1].clamp(0)], torch.ones(len(ancestors), dtype=torch.bool, device=part.device)
    at = ancestors[:, step].to(part.device)
    return part[at.clamp(0)] * (at >= 0)[:, None, None, None].to(part.dtype), at < 0


def _unless_ended(rows: list[tuple[Tensor, Tensor | None]]) -> Tensor | None:
    """Return `(B, 1, Tq, 1)`, False where a sample had ended; None where none had."""
    if all(ended is None or not ended.any() for _, ended in rows):
        return None
    return torch.cat([~ended[:, None].expand(-1, part.shape[-2]) for part, ended in rows], 1)[:, None, :, None]


def _no_steps(layer: int, what: str) -> ValueError:
    return ValueError(
        f"the steps of layer {layer} {what}; give those of one call of generate(), in their order, and several calls "
        "as a dict, {'first': maps, 'second': more}"
    )

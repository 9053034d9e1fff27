"""Parts of which less is shown, with all that stands beside them: only some queries or keys, or the mean over samples.

What is kept was checked before, as rows of the whole.
"""

from dataclasses import replace

import torch
from torch import Tensor

from headview.base import is_whole
from headview.head_view.labels import numbered
from headview.head_view.patches import Picture


def cut(parts: list, queries, keys) -> list:
    """Return the parts with these queries and keys: slices, ranges or lists, -1 is the last, or None for all.

    Only where nothing is left out may there be several parts.
    """
    if queries is None and keys is None:
        return parts
    if len(parts) > 1:
        raise ValueError(
            f"queries and keys are those of one part, there are {', '.join(repr(part.name) for part in parts)}; give "
            "the maps of one of them alone, such as outputs.cross_attentions"
        )
    part = parts[0]
    rows, columns = _places(queries, part.shape[2], "queries"), _places(keys, part.shape[3], "keys")

    def cells(x: Tensor | None) -> Tensor | None:  # of a map, or of a mask that broadcasts to it
        return x if x is None else x.expand(*x.shape[:-2], *part.shape[2:])[..., _at(rows), :][..., _at(columns)]

    def vectors(layers: list[Tensor] | None, places: list[int]) -> list[Tensor] | None:
        return layers and [each[..., _at(places), :] for each in layers]

    return [
        replace(
            part,
            layers=[cells(layer) for layer in part.layers],
            allowed=[cells(each) for each in part.allowed],
            kind="part" if part.kind == "weights" and keys is not None else part.kind,
            tokens=[_labels(labels, rows, queries) for labels in part.tokens],
            key_tokens=[_labels(labels, columns, keys) for labels in part.key_tokens],
            words=[(_words(own, rows), _words(others, columns)) for own, others in part.words],
            queries=vectors(part.queries, rows),
            keys=vectors(part.keys, columns),
            values=vectors(part.values, columns),
            picture=part.picture and _picture(part.picture, {"queries": rows, "keys": columns}),
        )
    ]


def _places(kept, size: int, name: str) -> list[int]:
    """Return the places that are kept."""
    if kept is None or isinstance(kept, slice):
        kept = range(size)[kept or slice(None)]
    if not isinstance(kept, (range, list, tuple)) or not all(map(is_whole, kept)):
        raise TypeError(f"{name} must be a slice, a range or a list of integers, got {kept!r:.60}; give slice(0, 5)")
    if not kept or not all(-size <= place < size for place in kept):
        raise ValueError(f"{name} keeps {kept!r:.60}, there are {size} {name}; give integers from 0 to {size - 1}")
    return [place % size for place in kept]


def _at(places: list[int]) -> slice | list[int]:
    """Return an index that makes a view where the places stand in a row, as numpy's and torch's slices do."""
    step = places[1] - places[0] if len(places) > 1 else 1
    row = slice(places[0], places[-1] + 1, step)
    return row if step > 0 and places == list(range(places[-1] + 1)[row]) else places


def _labels(labels: list, places: list[int], kept) -> list:
    if kept is None:
        return labels
    # Without labels there are numbers, which must remain those of the whole.
    return [labels[place] if labels else str(place) for place in places]


def _words(words: list[int], places: list[int]) -> list[int]:
    return numbered([words[place] for place in places], len(places)) if words else words


def _picture(picture: Picture, kept: dict[str, list[int]]) -> Picture | None:
    """Return the image where only these tokens are kept: its patches must be kept together, or it lies no longer there.

    Where they are at other places of the two axes, it lies under the keys, which are what is looked at.
    """
    patches, begins = list(range(picture.first, picture.last)), {}
    for axis in ("queries", "keys") if picture.on == "both" else (picture.on,):
        at = kept[axis].index(picture.first) if picture.first in kept[axis] else 0
        if kept[axis][at : at + len(patches)] == patches:
            begins[axis] = at
    if not begins:
        return None
    on = "both" if len(begins) == 2 and begins["queries"] == begins["keys"] else list(begins)[-1]
    return replace(picture, first=begins["keys" if on == "both" else on], on=on)


def mean_of(part):
    """Return a part with one sample, the mean of those it has; rows in which a sample attends to nothing do not count.

    Labels remain where the samples agree; elsewhere there are the numbers of the places.
    """
    if part.samples == 1:
        return part
    same_words = all(each == part.words[0] for each in part.words)
    return replace(
        part,
        name=f"{part.name} mean of {part.samples} samples".strip(),
        layers=[_mean(*each, part.kind) for each in zip(part.layers, part.allowed, strict=True)],
        allowed=[each.any(0, keepdim=True) if each is not None and each.ndim == 4 else each for each in part.allowed],
        tokens=[_common(part.tokens)],
        key_tokens=[_common(part.key_tokens)],
        words=[part.words[0] if same_words else ([], [])],
        passes=1,
        **dict.fromkeys(("queries", "keys", "values", "scales")),  # the mean of products is no product of means
    )


def _mean(layer: Tensor, allowed: Tensor | None, kind: str) -> Tensor:
    """Return `(1, h, Tq, Tk)` float32; sample by sample, so that no more than one is held as float32."""
    total = torch.zeros(layer.shape[1:], device=layer.device)
    count = torch.zeros(*layer.shape[1:3], 1, device=layer.device)
    allowed = torch.ones((), dtype=torch.bool) if allowed is None else allowed
    for cells, open_ in zip(layer, allowed.to(layer.device).expand(layer.shape), strict=True):
        cells = cells.float().masked_fill(~open_, 0)
        total += cells
        counts = open_.any(-1, keepdim=True)
        count += counts & (cells != 0).any(-1, keepdim=True) if kind == "weights" else counts
    return (total / count.clamp(min=1))[None]


def _common(labels: list[list[str]]) -> list[str]:
    if not all(labels):
        return []
    return [each[0] if len(set(each)) == 1 else str(i) for i, each in enumerate(zip(*labels, strict=True))]

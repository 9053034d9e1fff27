"""Parts of which only some queries or keys are kept, with all that stands beside them.

What is kept was checked before, as rows of the whole.
"""

from dataclasses import replace

import torch
from torch import Tensor

from headview.base import is_whole
from headview.head_view.labels import numbered
from headview.head_view.patches import cut_picture


def cut(parts: list, queries, keys) -> list:
    """Return the parts with these queries and these keys.

    Args:
        parts: one part, or several where nothing is left out.
        queries: a slice, a range or a list of integers, those below 0 counted from the end; None for all.
        keys: the same.

    Raises:
        TypeError: they are no such thing.
        ValueError: a place is outside, nothing is kept, or there are several parts.
    """
    if queries is None and keys is None:
        return parts
    if len(parts) > 1:
        name = "queries" if queries is not None else "keys"
        raise ValueError(
            f"{name} are those of one part, there are {', '.join(repr(part.name) for part in parts)}; give the maps of "
            "one of them alone, such as outputs.cross_attentions"
        )
    part = parts[0]
    kept = {"queries": _places(queries, part.shape[2], "queries"), "keys": _places(keys, part.shape[3], "keys")}
    rows, columns = kept["queries"], kept["keys"]
    return [
        replace(
            part,
            layers=[_taken(_taken(layer, rows, 2), columns, 3) for layer in part.layers],
            allowed=[each if each is None else _taken(_taken(each, rows, -2), columns, -1) for each in part.allowed],
            kind="part" if part.kind == "weights" and columns is not None else part.kind,
            tokens=[_some(labels, rows) for labels in part.tokens],
            key_tokens=[_some(labels, columns) for labels in part.key_tokens],
            words=[(_renumbered(own, rows), _renumbered(others, columns)) for own, others in part.words],
            queries=part.queries and [_taken(each, rows, 2) for each in part.queries],
            keys=part.keys and [_taken(each, columns, 2) for each in part.keys],
            values=part.values and [_taken(each, columns, 2) for each in part.values],
            picture=cut_picture(part.picture, kept),
        )
    ]


def _places(kept, size: int, name: str) -> list[int] | None:
    """Return the places that are kept; None for all of them."""
    if kept is None:
        return None
    if isinstance(kept, slice):
        places = list(range(size)[kept])
    elif isinstance(kept, (range, list, tuple)) and all(map(is_whole, kept)):
        places = list(kept)
    else:
        raise TypeError(f"{name} must be a slice, a range or a list of integers, got {kept!r:.60}; give slice(0, 5)")
    outside = [place for place in places if not -size <= place < size]
    if outside or not places:
        what = f"{name} has {outside[0]}" if outside else f"{name} keeps nothing"
        raise ValueError(f"{what}, there are {size} {name}; give integers from 0 to {size - 1}")
    return [place % size for place in places]


def _taken(x: Tensor, places: list[int] | None, axis: int) -> Tensor:
    """Return these places of an axis, as a view where they stand in a row."""
    broadcasts = axis < 0 and (x.ndim < -axis or x.shape[axis] == 1)
    if places is None or broadcasts:
        return x
    step = places[1] - places[0] if len(places) > 1 else 1
    if step > 0 and places == list(range(places[0], places[-1] + 1, step)):
        at = [slice(None)] * x.ndim
        at[axis] = slice(places[0], places[-1] + 1, step)
        return x[tuple(at)]
    return x.index_select(axis, torch.tensor(places, device=x.device))


def _some(labels: list, places: list[int] | None) -> list:
    if places is None:
        return labels
    # Without labels there are numbers, which must remain those of the whole.
    return [labels[place] if labels else str(place) for place in places]


def _renumbered(words: list[int], places: list[int] | None) -> list[int]:
    if places is None or not words:
        return words
    return numbered([words[place] for place in places], len(places), "words")

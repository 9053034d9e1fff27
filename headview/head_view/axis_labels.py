"""Which labels and which words belong to which axis of which part: by what the part is, and by lengths.

A translator has labels of its source and of its target; its encoder shows the one on both axes, its decoder the
other, and its cross-attention both. How labels are made readable stands in `labels.py`.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from headview.head_view.labels import cleaned, numbered, words_of
from headview.head_view.patches import Picture, labelled
from mhalib.plots import as_labels

_PADDED = "padding too: [tokenizer.convert_ids_to_tokens(row) for row in ids]"


@dataclass
class Labels:
    """The labels of one sequence."""

    name: str  # of the argument
    samples: list[tuple[list[str], list[int]]]  # for each the labels as they are shown, and the words they belong to
    used: bool = False


def labels_from(tokens, name: str, words, clean: bool) -> Labels | None:
    """Return given labels, as `clean` says without the marks of a tokenizer, and the words that belong to them.

    `tokens` are a list of strings, or one such list for each sample. `words` are one number for each token, or None for
    a token of its own; a list of such lists; "auto" or None.
    """
    if tokens is None:
        if words is not None and not isinstance(words, str):
            raise ValueError(f"words number the words of {name}; give {name} as well")
        return None
    nested = are_samples(tokens)
    lists = []
    for each in tokens if nested else [tokens]:
        if isinstance(each, Tensor) or (isinstance(each, np.ndarray) and each.dtype.kind not in "USO"):
            raise TypeError(
                f"{name} must be strings, got ids of tokens, {type(each).__name__} {tuple(each.shape)}; give "
                "tokenizer.convert_ids_to_tokens(ids), or [str(i) for i in ids.tolist()] to see the numbers"
            )
        lists.append(as_labels(each, len(each) if hasattr(each, "__len__") else 0, name, "queries"))
    if words is None:
        numbers = [[] for _ in lists]
    elif isinstance(words, str):
        if words != "auto":
            raise TypeError(f'words must be "auto", None or a list of numbers, got {words!r}; give ids.word_ids()')
        numbers = [words_of(each) for each in lists]
    else:
        words = words if nested or are_samples(words) else [words]
        if len(words) != len(lists):
            raise ValueError(f"words are for {len(words)} samples, {name} for {len(lists)}; give as many")
        numbers = [numbered(own, len(each)) for own, each in zip(words, lists, strict=True)]
    shown = [cleaned(each) if clean else each for each in lists]
    return Labels(name, list(zip(shown, numbers, strict=True)))


def are_samples(tokens) -> bool:
    """Is this one list of labels for each sample, rather than one list?"""
    return (
        isinstance(tokens, (list, tuple))
        and len(tokens) > 0
        and all(isinstance(each, (list, tuple, np.ndarray, Tensor)) and getattr(each, "ndim", 1) > 0 for each in tokens)
    )


def side_of(
    labels: Labels | None,
    size: int,
    samples: int,
    axis: str,
    *,
    alone: bool,
    steps: bool,
    passes: int,
    picture: Picture | None,
) -> list[tuple[list[str], list[int]]]:
    """Return the labels along one axis of a part and their words, for each sample; empty where nothing is known.

    Args:
        alone: whether there is no other part that the labels may be meant for; then they must fit.
        steps: whether the maps were put together from steps, in which the last token that was made is no query yet.
        passes: how many passes of the model the samples are from; labels of one are those of each.
        picture: the image under this axis.
    """
    patches = picture.rows * picture.columns if picture else 0
    lengths = {size, size + steps, size - patches}
    if labels is not None:
        given = labels.samples
        if steps and samples % len(given) == 0:  # beams of one source, or several answers to it
            given = [each for each in given for _ in range(samples // len(given))]
        if len(given) * passes == samples:
            given = given * passes
        if len(given) == samples and all(len(each) in lengths for each, _ in given):
            labels.used = True
            return [_with_patches(*each, size, picture) for each in given]
        if alone:
            _refuse(labels, size, samples, axis)
    return [_with_patches([], [], size, picture)] * samples


def _with_patches(shown: list[str], words: list[int], size: int, picture: Picture | None):
    """Return the labels and the words of all tokens of an axis, the patches of a picture among them."""
    if picture is not None:
        if words and len(shown) < size:  # each patch is a word of its own
            none = [None] * (size - len(shown))
            words = numbered([*words[: picture.first], *none, *words[picture.first :]], size)
        shown = labelled(shown, size, picture)
    return shown[:size], words[:size]


def _refuse(labels: Labels, size: int, samples: int, axis: str) -> None:
    name, lists = labels.name, [each for each, _ in labels.samples]
    if len(lists) != samples and (len(lists) > 1 or len(lists[0]) == size):
        came = "is one list" if len(lists) == 1 else f"are lists for {len(lists)} samples"
        raise ValueError(
            f"{name} {came}, the weights hold {samples} samples; give one list for each, {_PADDED}, or "
            f"[{name}] * {samples} where they are alike"
        )
    short = next((i for i, each in enumerate(lists) if len(each) != size), 0)
    which = name if len(lists) == 1 else f"{name}[{short}]"
    more = f", {_PADDED}" if len(lists) > 1 else ""
    if len(lists[short]) == size + 1:
        more += " (after generate() tokens[:-1]: the last one that was made is no query yet)"
    raise ValueError(
        f"{which} has {len(lists[short])} labels, the weights have {size} {axis}; give one label each{more}"
    )


_ALONG = {"encoder": (1, 1), "decoder": (0, 0), "": (0, 0), "cross": (0, 1)}  # of a translator: 1 is its source


def along(role: str, tokens: Labels | None, key_tokens: Labels | None, square: bool, two_sided: bool) -> tuple:
    """Return which labels stand along the queries and along the keys of a part, None where nothing is known.

    Where there are two sides, a source and a target, `tokens` are those of the target and `key_tokens` of the source.
    """
    last = role.split(" ")[-1]  # a part of a part is called "first encoder"
    if last in ("vision", "audio"):  # its tokens are patches
        return None, None
    if two_sided and last in _ALONG:
        return tuple((tokens, key_tokens)[side] for side in _ALONG[last])
    return tokens, tokens if key_tokens is None and square else key_tokens

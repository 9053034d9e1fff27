"""What a page must know of the parts of a HeadView beside their numbers, and what two of them need to be compared."""

from contextlib import contextmanager

from headview.head_view.first_look import scale_that_shows
from headview.head_view.inputs import Part
from headview.head_view.labels import is_special
from headview.head_view.names import short_names, telling_parts
from headview.head_view.neuron import has_neurons
from headview.head_view.serve import Blocks
from mhalib.arguments import torch_threads


@torch_threads(1)
def described(part: Part, blocks: Blocks, number: int) -> dict:
    """Return what a page must know of a part, as JSON."""
    compared = blocks.sides.get("b", blocks.parts)[number]
    known = (label for each in (part, compared) for labels in (*each.tokens, *each.key_tokens) for label in labels)
    layers = short_names(part.layer_names)
    same = (part.tokens, part.key_tokens) == (compared.tokens, compared.key_tokens)
    return {
        "name": part.name,
        "shape": list(part.shape),
        "samples": part.samples,
        "passes": part.passes,
        "layer_names": layers,
        "full_names": part.layer_names,
        "brief_layers": telling_parts(layers),  # where there is little room
        "brief_heads": telling_parts(part.head_names or [str(i) for i in range(part.shape[1])]),
        "named": part.layer_names != [f"layer {i}" for i in range(len(part.layers))],
        "head_names": part.head_names,
        "axes": list(part.axes),
        "kind": part.kind,
        "auto": scale_that_shows(part),
        "tokens": part.tokens,
        "key_tokens": part.key_tokens,
        "compared": None if same else [compared.tokens, compared.key_tokens],
        "special": [label for label in dict.fromkeys(known) if is_special(label)],
        "words": [[list(one), list(two)] for one, two in part.words],
        "kv_heads": part.kv_heads,
        "windows": part.windows,
        "whole": blocks.is_whole(number),
        "has_values": part.values is not None,
        "has_neurons": has_neurons(part),
        "why": None if blocks.why is None else blocks.why.sample,
        "picture": _placed(part.picture),
    }


def _placed(picture) -> dict | None:
    """Return where the patches of a picture are, and its size in pixels; the pixels are a block."""
    if picture is None:
        return None
    placed = {name: getattr(picture, name) for name in ("rows", "columns", "first", "on", "frames")}
    return placed | dict(zip(("height", "width"), picture.pixels.shape, strict=False))


@contextmanager
def about_compare():
    """Say of an error that it is about `compare`, and what to do where its text is longer or shorter."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"compare: {error}; {_OWN_LABELS}; {_OTHER_LENGTHS}") from error


_OWN_LABELS = "its own labels are compare_tokens and compare_key_tokens"
_OTHER_LENGTHS = "texts of other lengths go into two views that follow each other, one.link(two)"


def check_comparison(one: list[Part], two: list[Part], names: tuple[str, str]) -> None:
    if not (isinstance(names, (list, tuple)) and len(names) == 2 and all(isinstance(name, str) for name in names)):
        raise TypeError(f'names are two texts, such as ("before", "after"), got {names!r}')
    shapes = [[(*part.shape, part.samples) for part in parts] for parts in (one, two)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"what is compared must have one shape (layers, h, Tq, Tk, samples), got {shapes[0]} and, in compare, "
            f"{shapes[1]}; give the same layers of both, such as HeadView(a[:6], compare=b[:6]); {_OTHER_LENGTHS}"
        )

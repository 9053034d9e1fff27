"""What a reader hands over, made into parts: maps of one shape with all that is known about them.

How weights are taken out of what libraries return stands in `structures.py`, what their rows must be in
`check_rows.py`, what is written beside them in `axis_labels.py` and `labels.py`, what lies under them in `patches.py`.
The weights themselves stay as they are, and nothing is drawn here.
"""

import math
import os.path
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from headview.base import check_choice
from headview.head_view.axis_labels import Labels, along, are_samples, labels_from, side_of
from headview.head_view.check_rows import KINDS, as_masks, check_rows, refuse_offsets, window_of
from headview.head_view.cut import cut, mean_of
from headview.head_view.first_look import with_causal_mask
from headview.head_view.names import check_axes, layer_names_of, name_heads
from headview.head_view.patches import Picture, count_frames, grids, picture_for, pixels_of, placeholders
from headview.head_view.structures import Layer, layers_of
from mhalib.arguments import check_size


@dataclass(eq=False)
class Part:
    """Maps of one shape, such as the encoder of a translator or its cross-attention."""

    name: str  # "" where there is only one
    layers: list[Tensor]  # each (B, h, Tq, Tk), floating, as given: not copied, not converted
    layer_names: list[str]
    head_names: list[str] = field(default_factory=list)  # [] stands for "head 0", …
    axes: tuple[str, str] = ("query", "key")
    kind: str = "weights"  # rows sum to 1 or 0; "part": to at most 1; "positive": from 0 on; "signed": any numbers
    allowed: list[Tensor | None] = field(default_factory=list)  # boolean, broadcasts to the layer, True may attend
    tokens: list[list[str]] = field(default_factory=list)  # for each sample, as shown; [] stands for numbers
    key_tokens: list[list[str]] = field(default_factory=list)
    words: list[tuple[list[int], list[int]]] = field(default_factory=list)  # for each sample, of queries and of keys
    kv_heads: list[int] | None = None  # for each layer, where heads share keys
    windows: list[int | None] = field(default_factory=list)  # how many keys a query may see, where that slides
    queries: list[Tensor] | None = None  # for each layer (B, h, Tq, head_dim)
    keys: list[Tensor] | None = None  # (B, h, Tk, head_dim), repeated for heads that share them
    values: list[Tensor] | None = None
    scales: list[float] | None = None  # scores are queries @ keys.mT * scale
    picture: Picture | None = None
    passes: int = 1  # whose samples stand behind each other
    guessed_mask: bool = False  # told from zeros, by `first_look.py`

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """`(layers, h, Tq, Tk)`."""
        return (len(self.layers), *self.layers[0].shape[1:])

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.layers[0])


def as_parts(
    weights,
    tokens=None,
    key_tokens=None,
    *,
    mask=None,
    num_heads: int | None = None,
    kind: str | None = None,
    layer_names: Sequence[str] | Sequence[int] | int | None = None,
    head_names: Sequence[str] | None = None,
    axes: tuple[str, str] = ("query", "key"),
    words="auto",
    clean: bool = True,
    image=None,
    patches: tuple[int, int] | None = None,
    first: int | None = None,
    image_on: str | None = None,
    queries=None,
    keys=None,
    samples: str = "each",
) -> list[Part]:
    """Return the maps in `weights` as parts, each of maps of one shape, checked; all is said in `HeadView`."""
    if num_heads is not None:
        check_size("num_heads", num_heads)
    if kind is not None:
        check_choice("kind", kind, KINDS)
    check_axes(axes)
    check_choice("samples", samples, ("each", "mean"))
    found = layers_of(weights, num_heads, len(tokens) if are_samples(tokens) else 0)
    groups = _grouped(found)
    marked = None if words is None else "auto"
    named = [labels_from(tokens, "tokens", words, clean), labels_from(key_tokens, "key_tokens", marked, clean)]
    image = None if image is None else pixels_of(image)
    told = _first_patch(named, patches, image) if image is not None and first is None else (first, patches)
    pictures = _pictures(groups, image, patches, first, image_on, told)
    roles = {role.split(" ")[-1] for role, _ in groups.values()}
    two_sided = len(groups) > 1 and ("cross" in roles or {"encoder", "decoder"} <= roles)
    names = layer_names_of(found, layer_names)
    parts = []
    for (name, (role, layers)), picture in zip(groups.items(), pictures, strict=True):
        part = _part(name, layers, kind, axes)
        part.layer_names = [names[layer.of, layer.place] for layer in layers]
        part.allowed = as_masks(_mask_for(mask, name, list(groups)), part.layers, part.allowed)
        part.picture = picture
        _check(part, layers, kind)
        square = part.shape[2] == part.shape[3]
        _label(part, along(role, *named, square, two_sided), len(groups) == 1, layers[0].steps)
        part.windows = [window_of(*each) for each in zip(part.layers, part.allowed, strict=True)]
        parts.append(part)
    _check_used(named, parts)
    name_heads(parts, head_names, found)
    parts = cut([mean_of(part) for part in parts] if samples == "mean" else parts, queries, keys)
    return [with_causal_mask(part) for part in parts]


# --------------------------------------------------------------------------------------------------------- groups


def _grouped(found: list[Layer]) -> dict[str, tuple[str, list[Layer]]]:
    """Return the layers of each part under its name, with what the part is."""
    if len({layer.role for layer in found}) == 1:  # an encoder by itself is no part of anything
        found = [replace(layer, role="") for layer in found]
    groups: dict[tuple, list[Layer]] = {}
    for layer in found:
        groups.setdefault((layer.role, tuple(layer.weights.shape)), []).append(layer)
    if len(groups) == 1:
        return {"": ("", found)}
    named = {}
    by_role = [role for role, _ in groups]
    for (role, shape), layers in groups.items():
        unique = by_role.count(role) == 1
        prefix = _prefix(layers)
        others = [_prefix(each) for (other, _), each in groups.items() if other == role]
        size = " x ".join(map(str, shape[1:]))
        name = role if role and unique else prefix if prefix and others.count(prefix) == 1 else f"{role} {size}".strip()
        if name in named:
            name = f"{role} {shape[0]} x {size}".strip()
        named[name] = (role, layers)
    return named


def _prefix(layers: list[Layer]) -> str:
    """Return with what the names of all these layers begin, as far as whole pieces of names go."""
    if not all(layer.named for layer in layers):
        return ""
    pieces = [layer.name.replace("/", ".").split(".") for layer in layers]
    return ".".join(os.path.commonprefix(pieces))


def _part(name: str, layers: list[Layer], kind: str | None, axes: tuple[str, str]) -> Part:
    """Return a part with what is known of its layers."""

    def of_all(given) -> list | None:
        found = list(given)
        return None if any(each is None for each in found) else found

    heads = layers[0].weights.shape[1]
    shared = [heads if layer.kv_heads is None else layer.kv_heads for layer in layers]
    inside = [of_all(each) for each in zip(*(layer.inside for layer in layers), strict=True)]
    return Part(
        name=name,
        layers=[layer.weights for layer in layers],
        layer_names=[],
        axes=tuple(axes),
        kind=kind or max((layer.sums for layer in layers), key=KINDS.index),  # the one that fits them all
        allowed=[layer.allowed for layer in layers],
        kv_heads=shared if min(shared) < heads else None,
        **dict(zip(("queries", "keys", "values"), inside, strict=True)),
        scales=of_all(layer.scale for layer in layers),
        passes=layers[0].passes,
    )


def _pictures(groups: dict, image, patches, first, on: str | None, told: tuple) -> list[Picture | None]:
    """Return the image under each part: under those of vision, under text whose labels hold a place for each patch
    (`told`: the first one, and the patches), and where there is no vision wherever it fits."""
    if image is None:
        for name, given in (("patches", patches), ("first", first), ("image_on", on)):
            if given is not None:
                raise ValueError(f"{name} is about an image, and none is given; give image= as well")
        return [None] * len(groups)
    vision = any(role.endswith("vision") for role, _ in groups.values())
    pictures, refused = [], None
    for role, layers in groups.values():
        samples, _, *shape = layers[0].weights.shape
        picture, last = None, role.split(" ")[-1]
        own_eyes, has_places = last == "vision", told[0] is not None and last not in ("decoder", "audio")
        if own_eyes or has_places or (not vision and last not in ("decoder", "text", "audio")):
            at, parted = (first, patches) if own_eyes else told
            try:
                if samples > layers[0].passes:
                    raise ValueError(
                        f"image is of one sample, the weights hold {samples}; give those of one, such as "
                        "[layer[:1] for layer in weights]"
                    )
                own = on or ("keys" if last == "cross" else None)
                picture = picture_for(image, tuple(shape), parted, at, own)
            except ValueError as error:
                refused = error
        pictures.append(picture)
    if not any(pictures):
        raise refused or ValueError("image lies under no part: there is no part of vision, no encoder and no cross")
    return pictures


def _first_patch(named: list[Labels | None], patches, image) -> tuple[int | None, tuple[int, int] | None]:
    """Return the token of the first patch and the patches as the labels tell, if they hold a place for each."""
    for labels in named:
        run = placeholders(labels.samples[0][0]) if labels is not None and labels.samples else None
        if run is not None:
            fits = grids(run[1], image) if patches is None else [patches]
            of_each = isinstance(fits[0], (tuple, list)) and math.prod(fits[0]) if len(fits) == 1 else 0
            if of_each * count_frames(image) == run[1]:
                return run[0], fits[0]
    return None, patches


def _mask_for(mask, name: str, parts: list[str]):
    if isinstance(mask, dict):
        if unknown := [each for each in mask if each not in parts]:
            raise ValueError(f"mask has {unknown[0]!r}, which is no part; the parts are {', '.join(map(repr, parts))}")
        return mask.get(name)
    if mask is not None and len(parts) > 1:
        raise ValueError(
            f"mask is for one part, there are {', '.join(map(repr, parts))}; give a dict such as {{{parts[0]!r}: mask}}"
        )
    return mask


def _check(part: Part, layers: list[Layer], kind: str | None) -> None:
    """Refuse what only looks like attention weights."""
    of = f"the {part.name} weights" if part.name else "the weights"
    names = [f"{repr(layer.name) if layer.named else layer.name} of {of}" for layer in layers]
    if kind is None and not any(layer.named for layer in layers):
        for layer, name in zip(part.layers, names, strict=True):
            refuse_offsets(layer, name)
    check_rows(part.layers, names, part.kind, part.allowed)


def _label(part: Part, named: tuple, alone: bool, steps: bool) -> None:
    """Write labels and words beside both axes."""
    sides = []
    for axis, given, size in zip(("queries", "keys"), named, part.shape[2:], strict=True):
        picture = part.picture if part.picture and part.picture.on in ("both", axis) else None
        of = {"alone": alone, "steps": steps, "passes": part.passes, "picture": picture}
        sides.append(side_of(given, size, part.samples, axis, **of))
    part.tokens, part.key_tokens = ([labels for labels, _ in side] for side in sides)
    for words in zip(*([words for _, words in side] for side in sides), strict=True):
        if any(words):  # where one axis has no words, each of its tokens is one
            words = (each or list(range(size)) for each, size in zip(words, part.shape[2:], strict=True))
        part.words.append(tuple(words))


def _check_used(named: list[Labels | None], parts: list[Part]) -> None:
    for labels in named:
        if labels is not None and not labels.used:
            lengths = sorted({len(each) for each, _ in labels.samples})
            made = any(lengths[-1] - 1 == part.shape[2] for part in parts)
            last = "; after generate() give tokens[:-1]: the last one that was made is no query yet" * made
            raise ValueError(
                f"{labels.name} has {len(labels.samples)} x {lengths} labels, which fit no part: "
                + "; ".join(f"{part.name!r} has {part.samples} x {part.shape[2:]} queries and keys" for part in parts)
                + f"{last}; in a translator tokens are those of the target, key_tokens those of the source"
            )

"""The image under the tokens of an axis: its pixels, and which tokens are its patches."""

import math
import re
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from PIL import Image
from torch import Tensor

from headview.base import check_choice, is_whole

_LONGEST = 448  # pixels
_BEFORE = (1, 0, 2, 5)  # tokens that may stand before patches: a class, with one of distillation or four registers
_OFF = 0.02  # by which the proportions of patches may miss those of their image
_PLACEHOLDER = re.compile(r"<\|?[^<>]*(?:image|img)[^<>]*\|?>", re.IGNORECASE)  # <image>, <|image_pad|>, …


@dataclass(eq=False)
class Picture:
    """An image whose patches are tokens."""

    pixels: np.ndarray  # uint8 (H, W, 3), at most 448 on the long side
    rows: int
    columns: int
    first: int  # index of the token of the first patch
    on: str  # "both" | "keys" | "queries"

    @property
    def last(self) -> int:
        """The index behind the last patch."""
        return self.first + self.rows * self.columns


def picture_for(image, shape: tuple[int, int], patches, first, on: str | None) -> Picture:
    """Return the image laid under the tokens of maps `(Tq, Tk)`.

    Args:
        image: what `pixels_of` takes.
        patches: (rows, columns) of patches; found where `grids` knows one.
        first: the token of the first patch; so that the patches stand last when left out.
        on: the axis; both when left out and there are as many queries as keys, otherwise the keys.
    """
    queries, keys = shape
    on = on or ("both" if queries == keys else "keys")
    check_choice("image_on", on, ("both", "keys", "queries"))
    if on == "both" and queries != keys:
        raise ValueError(f'image_on="both" needs as many queries as keys, got {queries} and {keys}; say "keys"')
    tokens = queries if on == "queries" else keys
    if first is not None and not (is_whole(first) and 0 <= first < tokens):
        raise ValueError(f"first must be the index of a token, from 0 to {tokens - 1}, got {first!r}")
    pixels = pixels_of(image)
    rows, columns = _grid(patches, tokens, first, *pixels.shape[:2])
    first = tokens - rows * columns if first is None else first
    if first < 0 or first + rows * columns > tokens:
        raise ValueError(
            f"{rows} x {columns} patches from token {first} on need {max(first, 0) + rows * columns} tokens, the axis "
            f"has {tokens}; give patches=(rows, columns) and first=, the token of the first patch"
        )
    return Picture(pixels, rows, columns, first, on)


def placeholders(labels: list[str]) -> tuple[int, int] | None:
    """Return where the first run of labels such as `<image>` begins and how long it is, None where there is none."""
    for label, run in groupby(enumerate(labels), key=lambda pair: pair[1]):
        if _PLACEHOLDER.fullmatch(label):
            begin = next(run)[0]
            return begin, 1 + sum(1 for _ in run)
    return None


def grids(count: int, height: int, width: int) -> list[tuple[int, int]]:
    """Return the rows and columns that patches may make of an image: in its proportions, or square, as many cut it."""
    rows, square = max(1, round(math.sqrt(count * height / width))), math.isqrt(count)
    fits = {(rows, count // rows): abs(rows * rows * width / (count * height) - 1) < _OFF, (square, square): True}
    return [(rows, columns) for (rows, columns), fit in fits.items() if fit and 1 < rows * columns == count]


def _grid(patches, tokens: int, first: int | None, height: int, width: int) -> tuple[int, int]:
    if patches is not None:
        pair = isinstance(patches, (tuple, list)) and len(patches) == 2
        if not pair or not all(is_whole(n) and n > 0 for n in patches):
            raise ValueError(f"patches must be (rows, columns), such as (14, 14), got {patches!r}")
        return tuple(patches)
    counts = [tokens - before for before in (_BEFORE if first is None else (first,)) if before < tokens]
    found = next(filter(None, (grids(count, height, width) for count in counts)), [])
    if len(found) != 1:
        what = f"{tokens} tokens" if first is None else f"{tokens - first} tokens from first={first} on"
        make = " or ".join(f"{rows} x {columns}" for rows, columns in found) or "no grid of"
        raise ValueError(f"{what} make {make} patches of this image; give patches=(rows, columns) and first=")
    return found[0]


def pixels_of(image) -> np.ndarray:
    """Return an image as uint8 `(H, W, 3)`, at most 448 pixels long.

    It is a PIL image, or `(H, W)`, `(H, W, 1, 3 or 4)` or `(1, 3 or 4, H, W)` as an array or a tensor, from 0 to 1 or
    from 0 to 255; numbers below 0, as models are given them, are stretched to the full range.
    """
    if hasattr(image, "convert") and hasattr(image, "resize"):
        picture = image.convert("RGB")
    elif isinstance(image, (Tensor, np.ndarray)):
        picture = Image.fromarray(_as_bytes(image))
    else:
        raise TypeError(
            f"image must be a PIL image, an array or a tensor, got {type(image).__name__}; use Image.open(...)"
        )
    scale = _LONGEST / max(picture.size)
    if scale < 1:
        width, height = (max(1, round(side * scale)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _as_bytes(image) -> np.ndarray:
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        image = (image.float() if image.is_floating_point() else image).numpy()
    given = image.shape
    while image.ndim > 3 and len(image) == 1:
        image = image[0]
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim == 3 and image.shape[-1] not in (1, 3, 4) and len(image) in (1, 3, 4):
        image = np.moveaxis(image, 0, -1)
    if image.ndim != 3 or image.shape[-1] not in (1, 3, 4) or 0 in image.shape:
        raise ValueError(f"image must be (H, W), (H, W, 3) or (3, H, W), got {tuple(given)}; give one image")
    image = image[..., :3]
    if image.dtype != np.uint8:
        image = image.astype(np.float32)
        if not np.isfinite(image).all():
            raise ValueError("image holds NaN or infinity; give pixels from 0 to 1 or from 0 to 255")
        low, high = image.min(), image.max()
        if low < 0:  # made ready for a model: less the mean, by the deviation
            image = 255 * (image - low) / max(high - low, 1e-12)
        elif high <= 1:
            image = 255 * image
        image = np.rint(image.clip(0, 255)).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3)))


def labelled(labels: list[str], size: int, picture: Picture) -> list[str]:
    """Return one label for each of `size` tokens, "patch 3,4" where a patch has none of its own.

    `labels` may be those of all tokens, where patches all alike or empty count as having none; or those of the tokens
    that are no patches; or none.
    """
    patches = [f"patch {i},{j}" for i in range(picture.rows) for j in range(picture.columns)]
    if not labels:
        labels = [str(i) for i in range(size)]
    elif len(labels) == size - len(patches):
        labels = [*labels[: picture.first], *patches, *labels[picture.first :]]
    own = labels[picture.first : picture.last]
    named = len(set(own)) > 1 and own != [str(i) for i in range(picture.first, picture.last)]
    middle = [label or patch for label, patch in zip(own, patches, strict=True)] if named else patches
    return [*labels[: picture.first], *middle, *labels[picture.last :]]

"""The image under the tokens of an axis, or the frames of a video: the pixels, and which tokens are patches."""

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
_PLACEHOLDER = re.compile(r"<\|?[^<>]*(?:image|img|video)[^<>]*\|?>", re.IGNORECASE)  # <image>, <|image_pad|>, …


@dataclass(eq=False)
class Picture:
    """An image whose patches are tokens; of a video, its frames in rows on one sheet."""

    pixels: np.ndarray  # uint8 (H, W, 3), at most 448 on the long side
    rows: int
    columns: int
    first: int  # index of the token of the first patch
    on: str  # "both" | "keys" | "queries"
    frames: tuple[int, int] = (1, 1)  # so many below each other, and beside each other

    @property
    def last(self) -> int:
        """The index behind the last patch."""
        return self.first + self.rows * self.columns


def picture_for(image, shape: tuple[int, int], patches, first, on: str | None) -> Picture:
    """Return the image laid under the tokens of maps `(Tq, Tk)`.

    Args:
        image: what `pixels_of` takes.
        patches: (rows, columns) of patches, of each frame; found where `grids` knows one.
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
    rows, columns = _grid(patches, tokens, first, pixels)
    pixels, frames = _sheet(pixels)
    rows, columns = rows * frames[0], columns * frames[1]
    first = tokens - rows * columns if first is None else first
    if first < 0 or first + rows * columns > tokens:
        raise ValueError(
            f"{rows} x {columns} patches from token {first} on need {max(first, 0) + rows * columns} tokens, the axis "
            f"has {tokens}; give patches=(rows, columns) and first=, the token of the first patch"
        )
    return Picture(pixels, rows, columns, first, on, frames)


def count_frames(pixels: np.ndarray) -> int:
    """Return how many frames of a video these are; an image is one."""
    return len(pixels) if pixels.ndim == 4 else 1


def _sheet(pixels: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the frames of a video in rows on one image, as square as whole rows allow, and how many are in each."""
    if pixels.ndim == 3:
        return pixels, (1, 1)
    count, height, width, _ = pixels.shape
    whole = [(count // across, across) for across in range(count, 0, -1) if count % across == 0]
    down, across = min(whole, key=lambda of: max(of[0] * height, of[1] * width))
    rows = pixels.reshape(down, across, height, width, 3).swapaxes(1, 2)  # (down, H, across, W, 3)
    return pixels_of(rows.reshape(down * height, across * width, 3)), (down, across)


def placeholders(labels: list[str]) -> tuple[int, int] | None:
    """Return where the first run of labels such as `<image>` begins and how long it is, None where there is none."""
    for label, run in groupby(enumerate(labels), key=lambda pair: pair[1]):
        if _PLACEHOLDER.fullmatch(label):
            begin = next(run)[0]
            return begin, 1 + sum(1 for _ in run)
    return None


def grids(count: int, pixels: np.ndarray) -> list[tuple[int, int]]:
    """Return the rows and columns that patches may make of an image, or of each frame: in its proportions, or square,
    as many cut it."""
    height, width = pixels.shape[-3:-1]
    count, rest = divmod(count, count_frames(pixels))
    if rest:
        return []
    rows, square = max(1, round(math.sqrt(count * height / width))), math.isqrt(count)
    fits = {(rows, count // rows): abs(rows * rows * width / (count * height) - 1) < _OFF, (square, square): True}
    return [(rows, columns) for (rows, columns), fit in fits.items() if fit and 1 < rows * columns == count]


def _grid(patches, tokens: int, first: int | None, pixels: np.ndarray) -> tuple[int, int]:
    if patches is not None:
        pair = isinstance(patches, (tuple, list)) and len(patches) == 2
        if not pair or not all(is_whole(n) and n > 0 for n in patches):
            raise ValueError(f"patches must be (rows, columns), such as (14, 14), got {patches!r}")
        return tuple(patches)
    counts = [tokens - before for before in (_BEFORE if first is None else (first,)) if before < tokens]
    found = next(filter(None, (grids(count, pixels) for count in counts)), [])
    if len(found) != 1:
        what = f"{tokens} tokens" if first is None else f"{tokens - first} tokens from first={first} on"
        make = " or ".join(f"{rows} x {columns}" for rows, columns in found) or "no grid of"
        of = f"each of {len(pixels)} frames" if pixels.ndim == 4 else "this image"
        raise ValueError(f"{what} make {make} patches of {of}; give patches=(rows, columns) and first=")
    return found[0]


def pixels_of(image) -> np.ndarray:
    """Return an image as uint8 `(H, W, 3)`, at most 448 pixels long, or the frames of a video `(frames, H, W, 3)`.

    It is a PIL image, or `(H, W)`, `(H, W, 1, 3 or 4)` or `(1, 3 or 4, H, W)` as an array or a tensor, from 0 to 1 or
    from 0 to 255; numbers below 0, as models are given them, are stretched to the full range. A video is a list of
    these, or has one axis more.
    """
    if isinstance(image, (list, tuple)) and image:
        frames = [np.asarray(x.convert("RGB")) if hasattr(x, "convert") else _as_array(x) for x in image]
        if len(sizes := sorted({frame.shape for frame in frames})) > 1:
            raise ValueError(
                f"frames of a video have one size, got {', '.join(map(str, sizes))}; of several images give one, and "
                "first=, the token of its first patch"
            )
        image = np.stack(frames)
    if hasattr(image, "convert") and hasattr(image, "resize"):
        picture = image.convert("RGB")
    elif isinstance(image, (Tensor, np.ndarray)):
        image = _as_bytes(image)
        if image.ndim == 4:
            return image
        picture = Image.fromarray(image)
    else:
        raise TypeError(
            f"image must be a PIL image, an array or a tensor, got {type(image).__name__}; use Image.open(...)"
        )
    scale = _LONGEST / max(picture.size)
    if scale < 1:
        width, height = (max(1, round(side * scale)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _as_array(image) -> np.ndarray:
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        image = (image.float() if image.is_floating_point() else image).numpy()
    return np.asarray(image)


def _as_bytes(image) -> np.ndarray:
    image = _as_array(image)
    given = image.shape
    while image.ndim > 3 and len(image) == 1:
        image = image[0]
    image = np.stack([_upright(x, given) for x in image]) if image.ndim == 4 else _upright(image, given)
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
    return np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:-1], 3)))


def _upright(image: np.ndarray, given: tuple) -> np.ndarray:
    """Return one image `(H, W, 1 or 3)`."""
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim == 3 and image.shape[-1] not in (1, 3, 4) and len(image) in (1, 3, 4):
        image = np.moveaxis(image, 0, -1)
    if image.ndim != 3 or image.shape[-1] not in (1, 3, 4) or 0 in image.shape:
        raise ValueError(
            f"image must be (H, W), (H, W, 3) or (3, H, W), or such frames of a video, got {tuple(given)}; give one "
            "image or one video"
        )
    return image[..., :3]


def labelled(labels: list[str], size: int, picture: Picture) -> list[str]:
    """Return one label for each of `size` tokens, "patch 3,4" where a patch has none of its own, "patch
    2:3,4" in frame 2 of a video.

    `labels` may be those of all tokens, where patches all alike or empty count as having none; or those of the tokens
    that are no patches; or none.
    """
    (down, across), many = picture.frames, picture.frames != (1, 1)
    patches = [
        f"patch {frame}:{i},{j}" if many else f"patch {i},{j}"
        for frame in range(down * across)
        for i in range(picture.rows // down)
        for j in range(picture.columns // across)
    ]
    if not labels:
        labels = [str(i) for i in range(size)]
    elif len(labels) == size - len(patches):
        labels = [*labels[: picture.first], *patches, *labels[picture.first :]]
    own = labels[picture.first : picture.last]
    named = len(set(own)) > 1 and own != [str(i) for i in range(picture.first, picture.last)]
    middle = [label or patch for label, patch in zip(own, patches, strict=True)] if named else patches
    return [*labels[: picture.first], *middle, *labels[picture.last :]]

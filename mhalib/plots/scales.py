"""From a weight to its place on a colour scale: said once, for all pictures and for the views in the browser.

`share` gives the place, from 0 (the lowest colour) to 1 (the highest); `ticks` what is written beside the colour bar.
With `top` the end of the scale, a weight w stands at

    "fixed", "maximum"   w / top                            (they differ in what `top` is: 1, or the largest weight)
    "log"                log(w / 1e-4) / log(top / 1e-4)    (from 1e-4 on; below stands the lowest colour)
    "root"               sqrt(w / top)

and a signed value x at 0.5 + sign(x) * share(|x|) / 2, so that 0 has the colour in the middle.
"""

import math

import numpy as np

SCALES = ("fixed", "maximum", "log", "root")
LOG_FROM = 1e-4  # where a logarithmic scale begins


def share(cells: np.ndarray, scale: str, top: int | float, signed: bool = False) -> np.ndarray:
    """Return where numbers stand on a scale, float32 from 0 to 1; beyond the ends is cut off, NaN stays NaN.

    Args:
        cells: floating, of any shape; -inf, where masked, stands at 0.
        scale: one of `SCALES`.
        top: the largest number that the scale has a colour for, above 0.
        signed: whether the scale runs from -`top` to `top`.

    Raises:
        ValueError: as `check_scale`.
    """
    check_scale(scale, top)
    cells = np.asarray(cells, np.float32)
    if not signed:
        return _upwards(cells, scale, top)
    return (0.5 + 0.5 * np.sign(cells) * _upwards(np.abs(cells), scale, top)).astype(np.float32)


def check_scale(scale: str, top: int | float = 1.0) -> None:
    """Refuse a scale that is none, and an end that no scale can have.

    Raises:
        ValueError: there is no such scale, or an end is no positive number.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}, got {scale!r}")
    if not 0 < top < math.inf:
        raise ValueError(f"a scale ends at a positive number, got {top!r}; where all numbers are 0, give 1.0")


def ticks(scale: str, top: int | float, signed: bool = False) -> list[tuple[float, str]]:
    """Return the marks of a colour bar, from the lowest to the highest: where each stands, and what it says.

    Arguments and errors as in `share`.
    """
    check_scale(scale, top)
    if scale == "log":
        first = _log_from(top)
        tens = range(round(math.log10(first)), math.floor(math.log10(top) + 1e-6) + 1)
        values = [10.0**n for n in tens]
        far = top / values[-1] < 2  # two marks in one place cannot be read
        values = [*(values[:-1] if far and len(values) > 1 else values), top]
    else:
        values = [top * part for part in ((0, 0.5, 1) if signed else (0, 0.25, 0.5, 0.75, 1))]
    places = share(np.array(values), scale, top).tolist()
    marks = [(place, f"{value:.3g}") for place, value in zip(places, values, strict=True)]
    if scale == "log":
        marks[0] = (marks[0][0], f"≤ {values[0]:.3g}")
    if signed:
        below = [(0.5 - place / 2, f"−{said}") for place, said in reversed(marks) if place > 0]
        marks = [*below, (0.5, "0"), *((0.5 + place / 2, said) for place, said in marks if place > 0)]
    return marks


def end_of(largest: int | float, scale: str) -> float:
    """Return where a scale ends for numbers up to `largest`: at 1, unless it follows them or they lie beyond."""
    if scale == "fixed" or (scale != "maximum" and largest <= 1):
        return 1.0
    return largest if largest > 0 else 1.0


def scale_words(scale: str, top: int | float, signed: bool = False) -> str:
    """Return a scale in words, such as "colours from 0 to 0.31, the largest in the picture"; arguments as `share`."""
    check_scale(scale, top)
    low = f"−{top:.3g}" if signed else "0"
    if scale == "log":
        first = f"{_log_from(top):.3g}"
        ends = f"from ±{first} to ±{top:.3g}" if signed else f"from {first} to {top:.3g}"
        return f"colours {ends} on a logarithmic scale, below {first} the {'middle' if signed else 'lowest'} colour"
    said = f"colours from {low} to {top:.3g}"
    if scale == "root":
        return f"{said} on a scale of square roots"
    return f"{said}, the largest in the picture" if scale == "maximum" else said


def _upwards(cells: np.ndarray, scale: str, top: int | float) -> np.ndarray:
    """Return where numbers from 0 on stand."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if scale == "log":
            first = _log_from(top)
            places = np.log(np.maximum(cells, first) / first) / math.log(top / first)
        else:
            places = np.maximum(cells, 0) / top
            places = np.sqrt(places) if scale == "root" else places
    return np.minimum(places, 1).astype(np.float32)


def _log_from(top: int | float) -> float:
    """Return where a logarithmic scale begins: at 1e-4, or lower where hardly anything would be left above."""
    return LOG_FROM if top >= 10 * LOG_FROM else 10.0 ** (math.floor(math.log10(top)) - 4)

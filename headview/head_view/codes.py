"""How a number of a map is coded on its way to the page; what is written here, `codes.js` reads.

Codes are spaced like the cube root of a number's share of its map's largest one, which has the code `LEVELS`, because
steps of the square root are too wide where one key takes nearly all: at 1e-3 of the largest they are 25 % of the
number, those of the cube root 12 %. Signed numbers have their codes to both sides of `LEVELS >> 1`. One more than
`LEVELS` means masked, two more NaN. Where all digits are kept there are no codes: float32, -inf where masked.
"""

import numpy as np

LEVELS = {"uint8": 253, "uint16": 65533, "float32": 0}
POWER = 3  # a code stands for largest * (code / LEVELS) ** POWER
# Two bytes keep four digits; one byte keeps as many as the colours can show.
TWO_BYTES_UP_TO = 2_000_000
# By which share the sum of a row may be off before some of its numbers are rounded the other way.
_SUM_MAY_MISS = 0.005


def storage_for(count: int, exact: bool) -> str:
    """Return how `count` numbers travel: "float32", "uint16" or "uint8"."""
    return "float32" if exact else "uint16" if count <= TWO_BYTES_UP_TO else "uint8"


def encode(cells: np.ndarray, storage: str, *, signed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of maps and, for each map, what the largest code stands for.

    A map of weights keeps its row sums within one hundredth: where rounding would bias a row, as it does where all of
    its weights are alike, those that lie nearest to the middle between two codes are rounded the other way.

    Cells are float32 `(..., rows, columns)`, -inf where masked, NaN where NaN; unless they are `signed`, numbers below
    0 are coded as 0. The codes are of their shape, in little-endian `storage`. Beside them comes what the largest of
    them stands for, float32 `(...)`: the largest size of a number of each map, 0 where there is none.
    """
    kind = np.dtype(storage).newbyteorder("<")
    # All of it by numpy: torch would wake its threads for each pass, which takes longer than the pass.
    given = np.ascontiguousarray(cells, dtype=np.float32)
    known = np.isfinite(given)
    plain = given if known.all() else np.where(known, given, np.float32(0))
    tops = (np.abs(plain) if signed else plain).max((-2, -1), initial=0)
    if storage == "float32":
        codes = given.astype(kind, copy=False)
    else:
        codes = _rounded(plain, np.maximum(tops, np.finfo(np.float32).tiny), storage, signed).astype(kind)
        if plain is not given:
            codes[~known] = LEVELS[storage] + 2
            codes[np.isneginf(given)] = LEVELS[storage] + 1
    return codes, tops.astype("<f4")


def pack(cells: np.ndarray, *, signed: bool) -> bytes:
    """Return one map, or a tile of one, as a block: its largest size, float32, then codes of two bytes."""
    codes, top = encode(cells, "uint16", signed=signed)
    return top.tobytes() + codes.tobytes()


def _rounded(plain: np.ndarray, tops: np.ndarray, storage: str, signed: bool) -> np.ndarray:
    """Return the codes of finite numbers `(..., rows, columns)`, those of `uint8` weights with their sums kept."""
    levels, share = LEVELS[storage], plain / tops[..., None, None]
    half = levels >> 1 if signed else 0
    places = np.cbrt(share if signed else np.maximum(share, 0, out=share)) * np.float32(half or levels)
    if signed or storage == "uint16":
        return np.rint(places) + half
    codes = np.rint(places).astype(np.uint8)
    root = codes / np.float32(levels)
    off = (root * root * root - share).sum(-1)  # a power takes six times as long
    biased = np.abs(off) > _SUM_MAY_MISS * share.sum(-1)
    if biased.any():
        values = ((np.arange(levels + 1) / levels) ** POWER).astype(np.float32)
        codes[biased] = _balanced(codes[biased], places[biased], values, off[biased])
    return codes


def _balanced(codes: np.ndarray, places: np.ndarray, values: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Return the codes of rows `(n, columns)` whose values miss the sum by `off`, some moved on by one.

    Only what was rounded the wrong way may move, and by no more than what is missing; the least certain goes first.
    """
    way, most = -np.sign(off)[:, None], np.abs(off)[:, None]  # +1: the sum is too small
    ahead = (places - codes) * way  # how far a number lies ahead of its code in that direction, at most .5
    moved = np.clip(codes + way, 0, len(values) - 1).astype(np.uint8)
    steps = np.abs(values[moved] - values[codes])
    open_ = (ahead > 0) & (steps <= most) & (steps > 0)
    # Weights that are all alike move here and there along the row, not all at its beginning.
    scattered = (np.arange(codes.shape[-1]) * 0.618034) % 1 * 1e-3
    order = np.where(open_, -ahead - scattered, 1).argsort(-1)
    spent = np.take_along_axis(np.where(open_, steps, np.inf), order, -1).cumsum(-1)
    chosen = np.zeros_like(open_)
    np.put_along_axis(chosen, order, spent <= most, -1)
    return np.where(chosen, moved, codes)

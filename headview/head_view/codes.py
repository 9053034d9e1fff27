"""How a number of a map is coded on its way to the page; what is written here, `codes.js` reads.

Codes are spaced like the cube root of a number's share of its map's largest one, which has the code `LEVELS`, because
steps of the square root are too wide where one key takes nearly all: at 1e-3 of the largest they are 25 % of the
number, those of the cube root 12 %. Signed numbers have their codes to both sides of `LEVELS >> 1`. One more than
`LEVELS` means masked, two more NaN. Where all digits are kept there are no codes: float32, -inf where masked.
"""

import numpy as np
import torch

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
    given = torch.from_numpy(np.ascontiguousarray(cells, dtype=np.float32))
    # A sum is twenty times as fast as a look at each number.
    special = None if given.sum().isfinite() else ~given.isfinite()
    plain = given if special is None else given.masked_fill(special, 0)
    sizes = plain.abs() if signed else plain
    tops = sizes.amax((-2, -1)).clamp(min=0) if given.numel() else given.new_zeros(given.shape[:-2])
    if storage == "float32":
        codes = given.numpy().astype(kind, copy=False)
    else:
        codes = _rounded(plain, tops.clamp(min=torch.finfo(torch.float32).tiny), storage, signed).astype(kind)
        if special is not None:
            codes[special.numpy()] = LEVELS[storage] + 2
            codes[np.isneginf(cells)] = LEVELS[storage] + 1
    return codes, tops.numpy().astype("<f4")


def pack(cells: np.ndarray, *, signed: bool) -> bytes:
    """Return one map, or a tile of one, as a block: its largest size, float32, then codes of two bytes."""
    codes, top = encode(cells, "uint16", signed=signed)
    return top.tobytes() + codes.tobytes()


def _rounded(plain: torch.Tensor, tops: torch.Tensor, storage: str, signed: bool) -> np.ndarray:
    """Return the codes of finite numbers `(..., rows, columns)`, those of `uint8` weights with their sums kept."""
    levels, share = LEVELS[storage], plain / tops[..., None, None]
    half = levels >> 1 if signed else 0
    # numpy's cube root is several times as fast as torch's power, and knows signs.
    places = torch.from_numpy(np.cbrt((share if signed else share.clamp_(min=0)).numpy())).mul_(half or levels)
    if signed or storage == "uint16":
        return places.round_().add_(half).to(torch.int32).numpy()
    codes = places.round().to(torch.uint8)
    off = codes.float().div_(levels).pow_(POWER).sub_(share).sum(-1)
    biased = off.abs() > _SUM_MAY_MISS * share.sum(-1)
    if biased.any():
        values = (torch.arange(levels + 1) / levels) ** POWER
        codes[biased] = _balanced(codes[biased], places[biased], values, off[biased])
    return codes.numpy()


def _balanced(codes: torch.Tensor, places: torch.Tensor, values: torch.Tensor, off: torch.Tensor) -> torch.Tensor:
    """Return the codes of rows `(n, columns)` whose values miss the sum by `off`, some moved on by one.

    Only what was rounded the wrong way may move, and by no more than what is missing; the least certain goes first.
    """
    way = -off.sign()[:, None]  # +1: the sum is too small
    ahead = (places - codes) * way  # how far a number lies ahead of its code in that direction, at most .5
    moved = (codes + way).clamp_(0, len(values) - 1)
    steps = (values[moved.long()] - values[codes.long()]).abs_()
    open_ = (ahead > 0) & (steps <= off.abs()[:, None]) & (steps > 0)
    # Weights that are all alike move here and there along the row, not all at its beginning.
    scattered = (torch.arange(codes.shape[-1]) * 0.618034) % 1 * 1e-3
    order = (ahead + scattered).masked_fill_(~open_, -1).argsort(-1, descending=True)
    spent = steps.masked_fill_(~open_, torch.inf).gather(-1, order).cumsum(-1)
    chosen = torch.zeros_like(open_).scatter_(-1, order, spent <= off.abs()[:, None])
    return torch.where(chosen, moved.to(torch.uint8), codes)

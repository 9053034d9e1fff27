"""How a weight is coded on its way to the page; what is written here, `codes.js` reads.

Codes are linear from 0 to the largest weight of their head, which has the code `LEVELS`; one more means masked, two
more NaN. Where all digits are kept there are no codes: float32, -1 where masked, NaN where NaN.
"""

import numpy as np
from torch import Tensor

LEVELS = {"uint8": 253, "uint16": 65533}
MASKED = -1  # what a masked cell reads once it is decoded
# Two bytes keep four digits; one byte keeps 1/253 of a head's largest weight, as fine as the colours are.
TWO_BYTES_UP_TO = 2_000_000


def storage_for(count: int, exact: bool) -> str:
    """Return how `count` weights travel: "float32", "uint16" or "uint8"."""
    return "float32" if exact else "uint16" if count <= TWO_BYTES_UP_TO else "uint8"


def encode(layers: list[Tensor], allowed: list[Tensor], storage: str) -> tuple[bytes, bytes]:
    """Return the codes of all weights and, per head, what the largest code stands for.

    Args:
        layers: floating `(h, Tq, Tk)`, one per layer, from 0 to 1 or NaN.
        allowed: boolean, of the same shapes, True where attention is allowed.
        storage: what `storage_for` returns.

    Returns:
        `(layers, h, Tq, Tk)` codes and `(layers, h)` float32, both little-endian.
    """
    kind = np.dtype(storage).newbyteorder("<")
    packed = np.empty((len(layers), *layers[0].shape), kind)
    maxima = np.empty(packed.shape[:2], "<f4")
    for i, (layer, open_) in enumerate(zip(layers, allowed, strict=True)):
        weights, blocked = layer.numpy(), ~open_.numpy()
        missing = np.isnan(weights)
        missing &= ~blocked
        special = blocked | missing
        plain = np.where(special, np.float32(0), weights) if special.any() else weights
        maxima[i] = plain.max((-2, -1))
        if storage == "float32":
            packed[i], masked, nan = plain, MASKED, np.nan
        else:
            levels = LEVELS[storage]
            codes = plain * (levels / np.maximum(maxima[i], 1e-30))[:, None, None]
            codes += 0.5  # what is cut off below is then rounded
            packed[i], masked, nan = codes, levels + 1, levels + 2
        if plain is not weights:
            packed[i][blocked], packed[i][missing] = masked, nan
    return packed.tobytes(), maxima.tobytes()


def decode(
    data: bytes, maxima: bytes, storage: str, shape: list[int], head: int, rows=slice(None), columns=slice(None)
) -> np.ndarray:
    """Return one head as it is shown, float32: rounded as stored, -1 where masked, NaN where NaN.

    Args:
        data, maxima, storage: from `encode`.
        shape: `(layers, h, Tq, Tk)`.
        head: its number, counted through all layers.
        rows, columns: which queries and keys, as an index of numpy; all when left out.
    """
    kind = np.dtype(storage).newbyteorder("<")
    queries, keys = shape[2:]
    codes = np.frombuffer(data, kind, queries * keys, head * queries * keys * kind.itemsize).reshape(queries, keys)
    codes = codes[rows][:, columns]
    if storage == "float32":
        return codes.astype(np.float32)
    levels = LEVELS[storage]
    weights = codes * np.float32(np.frombuffer(maxima, "<f4")[head] / levels)
    weights[codes == levels + 1] = MASKED
    weights[codes == levels + 2] = np.nan
    return weights

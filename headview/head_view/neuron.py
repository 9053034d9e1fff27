"""Where weights come from: the queries and the keys of a head. What is made of them stands in `neuron.js`."""

import math

import numpy as np

_PLAIN_UP_TO = 400_000  # bytes of a head's queries and keys that travel as float32; of more, float16
_FLOAT16_MOST = 65_504


def has_neurons(part) -> bool:
    """Does a part hold the queries and keys that its weights come from?"""
    return part.queries is not None and part.keys is not None


def neurons(part, sample: int, layer: int, head: int, exact: bool = False) -> tuple[dict, bytes]:
    """Return all queries and keys of a head.

    Args:
        exact: all digits; otherwise only while they are few.

    Returns:
        about: `storage`, "float32" or "float16"; `features`; `scale` of the sums of products, 1 / sqrt(features) where
            nobody said; `rough`, whether weights, queries or keys were kept in fewer bits than float32.
        data: the queries `(Tq, features)`, then the keys `(Tk, features)`.
    """
    both = [x[layer].detach()[sample, head] for x in (part.queries, part.keys)]
    rough = any(x.element_size() < 4 for x in (part.layers[layer], *both))
    queries, keys = (x.to("cpu").float() for x in both)
    most = max(x.nan_to_num(0, 0, 0).abs().max().item() if x.numel() else 0 for x in (queries, keys))
    few = 4 * (queries.numel() + keys.numel()) <= _PLAIN_UP_TO
    storage, kind = ("float32", "<f4") if exact or few or most > _FLOAT16_MOST else ("float16", "<f2")
    features, scale = queries.shape[-1], None if part.scales is None else part.scales[layer]
    about = {"storage": storage, "features": features, "rough": rough or storage == "float16"}
    about["scale"] = float(1 / math.sqrt(features) if scale is None else scale)
    return about, b"".join(np.ascontiguousarray(x.numpy(), kind).tobytes() for x in (queries, keys))

"""Where weights come from: the queries and the keys of a head. What is made of them stands in `neuron.js`."""

import math

import numpy as np

from headview.head_view.codes import pack

_PLAIN_UP_TO = 400_000  # bytes of a head's queries and keys that travel as float32; of more, codes of two bytes


def has_neurons(part) -> bool:
    """Does a part hold the queries and keys that its weights come from?"""
    return part.queries is not None and part.keys is not None


def neurons(part, sample: int, layer: int, head: int, exact: bool = False) -> tuple[dict, bytes]:
    """Return all queries and keys of a head.

    Args:
        exact: all digits; otherwise only while they are few.

    Returns:
        about: `storage`, "float32" or "uint16"; `features`; `scale` of the sums of products, 1 / sqrt(features) where
            nobody said; `rough`, whether weights, queries or keys were kept in fewer bits than float32.
        data: the queries `(Tq, features)`, then the keys `(Tk, features)`; of codes before these what the largest
            stands for.
    """
    both = [x[layer].detach()[sample, head] for x in (part.queries, part.keys)]
    rough = any(x.element_size() < 4 for x in (part.layers[layer], *both))
    numbers = np.concatenate([x.to("cpu").float().numpy() for x in both]).astype("<f4")
    coded = not exact and numbers.nbytes > _PLAIN_UP_TO and np.isfinite(numbers).all()
    features, scale = numbers.shape[-1], None if part.scales is None else part.scales[layer]
    about = {"storage": "uint16" if coded else "float32", "features": features, "rough": rough or bool(coded)}
    about["scale"] = float(1 / math.sqrt(features) if scale is None else scale)
    return about, pack(numbers, signed=True) if coded else numbers.tobytes()

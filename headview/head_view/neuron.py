"""Where weights come from: the queries and the keys of a head, and what each source brought into these.

What is made of the first stands in `neuron.js`, of the second, which `headview.why` splits, in `reasons.js`.
"""

import math
import re

import numpy as np

from headview.head_view.codes import pack
from headview.sources import BIASED, Sources

_PLAIN_UP_TO = 400_000  # bytes of a head's queries and keys that travel as float32; of more, codes of two bytes


def has_neurons(part) -> bool:
    """Does a part hold the queries and keys that its weights come from?"""
    return part.queries is not None and part.keys is not None


def neurons(part, sample: int, layer: int, head: int, exact: bool = False) -> tuple[dict, bytes]:
    """Return all queries and keys of a head, with all digits where they are few or must be `exact`.

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


def check_sources(given: object, parts: list) -> Sources | None:
    """Return the sources that a view was given, if they are of the pass that its maps are from."""
    if given is None:
        return None
    if not isinstance(given, Sources):
        raise TypeError(
            f"why must be the sources of one pass, got {type(given).__name__}; give headview.Sources(model, inputs)"
        )
    shapes = [tuple(layer.shape[1:]) for layer in parts[0].layers]
    if len(parts) > 1 or shapes != [tuple(shape) for shape in given.shapes]:
        raise ValueError(
            f"why must be of the pass that the maps are from: they are (heads, queries, keys) {shapes}, and its layers "
            f"{given.shapes}; give all layers of one part, and the same inputs"
        )
    return given


def reasons(sources: Sources, layer: int, head: int) -> tuple[dict, bytes]:
    """Return what each source brought into the queries and keys of one head.

    Returns:
        about: `names` of the sources; `places`, layer and head of those that are heads, else None; `features`;
            `frozen`, whether a norm was kept as it was; `beside`, what is to be said of what no source brought.
        data: float32, the queries `(sources, Tq, features)` times the scale of the scores, the keys `(sources, Tk,
            features)`, and for each query the mean of the keys that it may see `(sources, Tq, features)`.
    """
    split = sources.why(layer=layer, head=head, query=0, key=0)
    seen = split.seen.to(split.keys.dtype)  # (Tq, Tk)
    means = (seen / seen.sum(-1, keepdim=True).clamp(min=1)) @ split.keys  # (Tq, Tk) @ (S, Tk, d) -> (S, Tq, d)
    numbers = [split.scale * split.queries, split.keys, means]
    found = [re.fullmatch(r"head (\d+)\.(\d+)", name) for name in split.names]
    places = [[int(match[1]), int(match[2])] if match else None for match in found]
    about = {"names": list(split.names), "places": places, "features": split.keys.shape[-1]}
    about |= {"frozen": bool(split.frozen), "beside": BIASED if split.biased else ""}
    return about, b"".join(x.cpu().numpy().astype(np.float32).tobytes() for x in numbers)

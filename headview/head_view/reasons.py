"""Why a score is what it is: what each source brought into the queries and keys of a head, for the page to multiply.

`headview.why` splits a score; what is made of it stands in `reasons.js`.
"""

import re

import numpy as np

from headview.head_view.inputs import Part
from headview.sources import Sources


def check_sources(given: object, parts: list[Part]) -> Sources | None:
    """Return the sources that a view was given, if they are of the pass that its maps are from.

    Raises:
        TypeError: it is not a `Sources`.
        ValueError: they have other layers, heads or lengths than the maps.
    """
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
            `frozen`, whether a norm was kept as it was.
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
    about["frozen"] = bool(split.frozen)
    return about, b"".join(x.cpu().numpy().astype(np.float32).tobytes() for x in numbers)

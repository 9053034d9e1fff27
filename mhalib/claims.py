"""`claim(share > 0.85, "over 85 % goes to the same word")`: test what a lesson says, beside the sentence that says it.

Readers may change a lesson, so a claim that does not hold is reported and stops nothing. When the project tests itself
(`MHALIB_CLAIMS=raise` in the environment, which the tools set), it raises an error.
"""

import math
import os
import sys
from numbers import Real

import numpy as np
import torch

_SPOKEN_OF = {"SEED": 0}  # what the text speaks of, by the names that a lesson uses
_MOST = 6  # numbers of a tensor or a list that are written out
_ANOTHER_RUN = "The text describes the lesson as it came; if you changed something above, your run is a different one."


class ClaimError(AssertionError):
    """A claim of a lesson does not hold, and the project is testing itself."""


def claim(holds: object, text: str, /, **came: object) -> None:
    """Print in one line that a claim of the text holds, or say what came out instead.

    Args:
        holds: True or False, also as a tensor or an array of one element.
        text: what is claimed, in the words of the lesson's text.
        came: what was measured, by name. A pair of numbers is printed as a range, and "_" in a name as a blank.

    Raises:
        TypeError: `holds` is not a truth value, but for instance a share instead of a comparison.
        ValueError: `holds` has more than one element, or `text` is empty.
        ClaimError: the claim does not hold, and MHALIB_CLAIMS is "raise".

    Used in every notebook.

    Examples:
        >>> from mhalib import claim
        >>> claim(3 > 2, "three is more than two", difference=1)
        ✓ three is more than two · difference 1
    """
    truth = _truth(holds)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"text must say what is claimed, got {text!r}")
    measured = ", ".join(f"{name.replace('_', ' ')} {_written(value)}" for name, value in came.items())
    if truth:
        _say(f"✓ {text}" + (f" · {measured}" if measured else ""))
        return
    if os.environ.get("MHALIB_CLAIMS") == "raise":
        raise ClaimError(f"{text}; measured: {measured or 'no values were handed over'}")
    _say(f"✗ not here: {text}")
    if measured:
        _say(f"  measured: {measured}")
    _say(f"  {_changes(_names_of_the_lesson()) or _ANOTHER_RUN}")


def speaks_of(**sizes: object) -> None:
    """Say which sizes the text of a lesson refers to, besides `SEED = 0`: `claim.speaks_of(T=32)`.

    A claim that does not hold then names what the reader has changed.
    """
    _SPOKEN_OF.update(sizes)


claim.speaks_of = speaks_of


def _truth(holds: object) -> bool:
    if isinstance(holds, (torch.Tensor, np.ndarray)):
        if math.prod(holds.shape) != 1:
            raise ValueError(
                f"a claim holds or not, got {'x'.join(map(str, holds.shape))} answers; write (…).all() or (…).any()"
            )
        holds = holds.item()
    if not isinstance(holds, (bool, np.bool_)):
        raise TypeError(f"a claim needs True or False, such as share > 0.85, got {holds!r}")
    return bool(holds)


def _names_of_the_lesson() -> dict[str, object]:
    """Return the names of the notebook that made the claim: the nearest caller who knows one of those spoken of."""
    frame = sys._getframe(2)
    while frame and not frame.f_globals.keys() & _SPOKEN_OF.keys():
        frame = frame.f_back
    return frame.f_globals if frame else {}


def _changes(names: dict[str, object]) -> str:
    """Return a sentence about what differs from what the text speaks of, among the lesson's names."""
    changed = {name: said for name, said in _SPOKEN_OF.items() if name in names and repr(names[name]) != repr(said)}
    here = ", ".join(f"{name} = {_written(names[name])}" for name in changed)
    there = ", ".join(f"{name} = {_written(said)}" for name, said in changed.items())
    return f"The text describes another run, with {there}; yours has {here}." if changed else ""


def _written(value: object) -> str:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        if math.prod(value.shape) > _MOST:
            return f"of shape {tuple(value.shape)}"
        value = value.tolist()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, list, tuple, dict)):
        return str(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_written(inner)}" for name, inner in value.items())
    if isinstance(value, Real):
        return str(value) if isinstance(value, int) else f"{float(value):.3g}"
    if len(value) > _MOST:
        return f"{len(value)} values, {', '.join(map(_written, value[:3]))}, …"
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, Real) for end in value):
        return f"{_written(value[0])} to {_written(value[1])}"
    return ", ".join(map(_written, value))


def _say(line: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "replace").decode(encoding))

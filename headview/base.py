"""What the widgets share on the Python side: the texts of a view, the page without a kernel, the picture.

A view is one ES module and one style sheet: relative imports do not resolve in a notebook, so `make views` joins the
modules of each. What a widget shows and accepts is its own business.
"""

import base64
import functools
import hashlib
import json
import math
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path

try:
    import anywidget
except ModuleNotFoundError as error:
    if error.name != "anywidget":
        raise
    raise ModuleNotFoundError(
        "the views of headview need the package anywidget, which is not installed; pip install anywidget, "
        "or install it with them: pip install 'mhalib[headview]'",
        name="anywidget",
    ) from None

import numpy as np
import torch
import traitlets
from torch import Tensor

from mhalib.plots import DescribedFigure

_HERE = Path(__file__).parent
_HOST = _HERE / "static_host.js"
# What ipywidgets and anywidget keep for themselves; the view never asks for it.
_INTERNAL = {"_esm", "_css", "_anywidget_id", "_dom_classes", "layout", "tabbable", "tooltip"}


def static(name: str) -> Path:
    """Return a file of `headview/static/`, where `make views` puts a view's JavaScript and CSS together.

    anywidget reads it, and follows it where the environment says ANYWIDGET_HMR=1.
    """
    return _HERE / "static" / name


class Refused(traitlets.TraitError, ValueError):
    """A value that a view cannot show: a ValueError, and a TraitError, so that traitlets keeps the old value.

    The traits that a reader can set are bare ones with validators that raise this: what traitlets itself says about
    a wrong type does not say what to do.
    """


class Checked(traitlets.TraitType):
    """A trait that takes whatever `check(name, value, *more)` does not refuse."""

    def __init__(self, first: object, check: Callable[..., None], *more: object):
        super().__init__(first)
        self._check, self._more = check, more

    def validate(self, _view, value):
        self._check(self.name, value, *self._more)
        return value


def check_truth(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise Refused(f"{name} must be True or False, got {value!r}")


def check_whole(name: str, value: object, first: int, last: int) -> None:
    """Refuse what is no integer from `first` to `last`."""
    if not is_whole(value) or not first <= value <= last:
        raise Refused(f"{name} must be an integer from {first} to {last}, got {value!r}")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is none of the `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise Refused(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def is_whole(value: object) -> bool:
    """Is this an int? True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Is this a real number, and finite? True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_place(value: object, sizes: Sequence[int]) -> bool:
    """Are these as many whole numbers as there are sizes, each from 0 to below its size?"""
    fits = isinstance(value, (list, tuple)) and len(value) == len(sizes) and all(map(is_whole, value))
    return fits and all(0 <= number < size for number, size in zip(value, sizes, strict=True))


def check_held(name: str, x: Tensor) -> None:
    """Refuse a tensor that holds no numbers, or not one for each place."""
    if x.device.type == "meta":
        raise ValueError(f"{name} is on the meta device, where tensors hold no numbers; compute it on a real one")
    if x.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, got {x.layout}; use .to_dense()")


def as_numbers(name: str, x: Tensor) -> Tensor:
    """Return a floating tensor, from any device and in any precision, as float32 on the CPU without gradient."""
    check_held(name, x)
    return x.detach().to("cpu", torch.float32)


def float_bytes(numbers: Tensor | np.ndarray) -> bytes:
    """Return numbers as they travel: float32, row by row, the lowest byte first."""
    return np.asarray(numbers).astype("<f4").tobytes()


def page_fragment(name: str, state: dict) -> str:
    """Return the HTML that shows a view without a kernel, from what a notebook stores of it.

    The `name` is said where it cannot be shown. Of its `state`, what ipywidgets and anywidget keep is left out.
    """
    shown = (trait for trait in state if trait not in _INTERNAL and not trait.startswith(("_model_", "_view_")))
    packed = {trait: _pack(state[trait]) for trait in shown}
    parts = {
        "kind": hashlib.sha256((state["_esm"] + state["_css"]).encode()).hexdigest()[:16],
        "source": {"$deflated": _packed_source(state["_esm"])},
        "style": state["_css"],
        "state": packed,
        "instead": f"{name} could not be shown.",
    }
    script = f"(() => {{\nconst parts = {as_script(parts)};\n{_HOST.read_text(encoding='utf-8')}}})();"
    return f'<div class="mhalib-view"></div>\n<script>\n{script}\n</script>\n'


@functools.lru_cache(4)
def _packed_source(module: str) -> str:
    """Return the module of a view packed as well as can be; it is the same in each of its pages."""
    return base64.b64encode(zlib.compress(module.encode(), 9)).decode()


def whole_page(title: str, fragment: str) -> str:
    """Return a page of its own around a fragment; its paper follows the theme of the reader's system."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n'
        "<style>:root { color-scheme: light dark } body { margin: 0; background: #fff }\n"
        "@media (prefers-color-scheme: dark) { body { background: #1b1b1b } }</style></head>\n"
        f"<body><main>\n{fragment}</main></body>\n</html>\n"
    )


def as_script(value: dict) -> str:
    """Return JSON for a script in a page. "<" could end it; as \\u003c it is the same string and ends nothing."""
    return json.dumps(value).replace("<", "\\u003c")


class View(anywidget.AnyWidget):
    """A widget that can also be a picture, or text, and a piece of HTML that needs no kernel."""

    def figure(self) -> DescribedFigure:
        """Return what the view shows at the moment as a static picture."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Return a fragment of HTML that shows this widget, in its present state, without a kernel or a network.

        Put it anywhere in a page. It stays interactive; what only Python can do is left out.
        """
        return page_fragment(type(self).__name__, self.get_state())

    def _repr_mimebundle_(self, **options):
        """Return the live view, and beside it a picture, or text, for readers where nothing runs."""
        data, metadata = super()._repr_mimebundle_(**options)
        beside, described = self._beside()
        return {**data, **beside}, {**metadata, **described}

    def _beside(self) -> tuple[dict, dict]:
        """Return what readers see where nothing runs, as data by their kinds and what is to be said of them."""
        with any_sign():
            return self.figure()._repr_mimebundle_()


@contextmanager
def any_sign() -> Iterator[None]:
    """Say nothing of signs that the picture's font lacks: the live view shows every token."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def _pack(value):
    if isinstance(value, dict):
        return {name: _pack(part) for name, part in value.items()}
    if not isinstance(value, (bytes, memoryview)):
        return value
    # Weights of one byte hardly repeat, but for runs of masked ones: looking for no more is faster and shrinks them
    # more. Wider numbers repeat in other ways. The start shows which it is.
    kind = min((zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY), key=lambda kind: len(_deflate(value[:65536], kind)))
    return {"$deflated": base64.b64encode(_deflate(value, kind)).decode()}


def _deflate(data: bytes, kind: int) -> bytes:
    deflate = zlib.compressobj(1, strategy=kind)
    return deflate.compress(data) + deflate.flush()

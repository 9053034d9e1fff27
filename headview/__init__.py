"""See what the heads of any PyTorch model do, and touch attention: `from headview import HeadView, capture`.

`capture` takes the attention maps out of a model while it runs, and `why` splits one of its scores into what made it;
both need only torch. `survey` measures every head over thousands of texts, and `HeadScatter` shows the results.
`HeadView` shows the maps of any model at any size, `LiveModel` a small real model that runs in the page itself.
`HeadLab`, `ReshapeView`, `HeadSwitchboard`, `SealedBox`, `ScoreBars` and `ArrowView` are the live figures of the
lessons. To judge a layer, use `attention_doctor`; the exercises and predictions of the course are in `mhacourse`.

A view answers within a frame, in JupyterLab and in a page without a kernel, and fetches nothing from the network. Each
view is a folder. In `widget.py`, Python checks what it is given and holds the state. `view.js` and the modules beside
it draw this in the browser and, if numbers change under the reader's hand, compute them; `style.css` has the styles.
`head_view/__init__.py` explains the many files of HeadView. What the views share is in `base.py`, `core.js`,
`core_draw.js` and `core.css`; `make views` joins each view into one file in `static/`, with `mhalib.plots`' colours.

Where nothing runs, a picture takes the place of a view. A question draws nothing, so its text takes its place.
"""

import importlib

from headview.capture import capture
from headview.capture_maps import Maps
from headview.sources import Sources, why

_VIEWS = {
    "ArrowView": "arrow_view",
    "HeadLab": "head_lab",
    "HeadScatter": "head_scatter",
    "HeadSwitchboard": "switchboard",
    "HeadView": "head_view",
    "LiveModel": "live_model",
    "PredictionView": "prediction",
    "ReshapeView": "reshape_view",
    "ScoreBars": "score_bars",
    "SealedBox": "sealed_box",
}

_SURVEYS = ("Survey", "survey")

__all__ = ["Maps", "Sources", "capture", "why", *_SURVEYS, *_VIEWS]


def __getattr__(name: str) -> object:
    """Load a view or the survey only when it is first asked for, since these need more than torch."""
    if name in _SURVEYS:
        return getattr(importlib.import_module("headview.surveys"), name)
    if name not in _VIEWS:
        raise AttributeError(f"module 'headview' has no attribute {name!r}; it has {', '.join(__all__)}")
    importlib.import_module("headview.base")  # says what is missing, once and plainly
    return getattr(importlib.import_module(f"headview.{_VIEWS[name]}.widget"), name)


def __dir__() -> list[str]:
    return __all__

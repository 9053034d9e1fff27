"""Things to touch: attention that answers within a frame, and questions, in JupyterLab and in a page without a kernel.

Each widget is a folder. In `widget.py`, Python checks what it is given and holds the state; `view.js` and the files
beside it draw that in the browser and, where numbers change under the reader's hand, compute them; `style.css`
dresses it. What the many files of HeadView do stands in `head_view/__init__.py`. `base.py`, `core.js`, `core_draw.js`
and `core.css` hold what the views share. Nothing is fetched from the network.

Where nothing runs, a picture stands in the place of a view; in the place of a question, which draws nothing, its text.
"""

try:
    import anywidget  # noqa: F401  (first, so that what is missing is said once and plainly)
except ModuleNotFoundError as error:
    if error.name != "anywidget":
        raise
    raise ModuleNotFoundError(
        "headview needs the package anywidget, which is not installed; pip install anywidget, "
        "or install mhalib with it: pip install 'mhalib[widgets]'",
        name="anywidget",
    ) from None

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "head_lab.widget": ["HeadLab"],
        "head_view.widget": ["HeadView"],
        "prediction.widget": ["PredictionView"],
        "reshape_view.widget": ["ReshapeView"],
        "sealed_box.widget": ["SealedBox"],
        "switchboard.widget": ["HeadSwitchboard"],
    },
)

"""Our layer and `d2l.MultiHeadAttention`: weights both ways, and d2l itself on machines where it would not load."""

import importlib
import inspect
import sys
import types

import torch
from torch import nn

from mhalib.attention import MultiHeadAttention
from mhalib.reference.kinds import check_plain, kind_of, read


def import_d2l() -> types.ModuleType:
    """Return `d2l.torch`, version 0.17 or 1.x, on a machine without torchvision and with today's IPython.

    d2l imports torchvision for its vision chapters only; while it is imported, a placeholder stands in if
    the real one is missing or does not load. d2l 0.17 also calls an IPython function that is gone; its heir
    is put in its place, so that `d2l.show_heatmaps` works.

    Raises:
        ImportError: d2l itself, or a package that it needs, is not installed.

    Taught in notebook 06.
    """
    if "d2l.torch" in sys.modules:
        return sys.modules["d2l.torch"]
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "torchvision"}
    try:
        importlib.import_module("torchvision")
        placeholders = {}
    except Exception:  # missing (ImportError) or built for another torch (RuntimeError)
        placeholders = {name: _Placeholder(name) for name in ("torchvision", "torchvision.transforms")}
        placeholders["torchvision"].transforms = placeholders["torchvision.transforms"]
    sys.modules.update(placeholders)
    try:
        d2l = importlib.import_module("d2l.torch")
    except ModuleNotFoundError as error:
        package = error.name.split(".")[0]  # d2l itself, or one that it needs
        missing = "d2l==0.17.0" if package == "d2l" else package
        raise ImportError(f"{error}; install it with: python -m pip install {missing}") from error
    finally:
        # Nobody else shall take the placeholder for the real thing.
        for name in placeholders:
            del sys.modules[name]
        sys.modules.update(before if placeholders else {})

    def use_svg_display():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg")

    d2l.use_svg_display = use_svg_display
    return d2l


class _Placeholder(types.ModuleType):
    """Stands in for torchvision while d2l is imported, and says so when it is used."""

    __path__: list[str] = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(
            f"d2l asked for {self.__name__}.{name}, but torchvision is not installed; attention needs none of it"
        )


@torch.no_grad()
def to_d2l(layer: MultiHeadAttention) -> nn.Module:
    """Return a `d2l.MultiHeadAttention` with the weights of `layer`; works with d2l 0.17 and 1.x.

    Raises:
        ImportError: d2l is not installed.
        TypeError: `layer` is no layer of ours.
        ValueError: d2l's layer has no such form: it knows no wide heads and no shared key/value heads.

    Taught in notebook 06.
    """
    check_plain(layer, "d2l.MultiHeadAttention")
    d2l = import_d2l()
    sizes = (layer.W_k.in_features, layer.W_q.in_features, layer.W_v.in_features)  # d2l's order: key, query, value
    bias = layer.W_q.bias is not None
    # d2l 1.x infers the three input sizes at the first call and so does not take them.
    takes_sizes = "key_size" in inspect.signature(d2l.MultiHeadAttention).parameters
    args = (layer.d_model, layer.num_heads, layer.dropout, bias)
    other = d2l.MultiHeadAttention(*sizes, *args) if takes_sizes else d2l.MultiHeadAttention(*args)
    for name in ("W_q", "W_k", "W_v", "W_o"):
        ours = getattr(layer, name)
        linear = nn.Linear(ours.in_features, ours.out_features, bias=bias).to(ours.weight)
        linear.load_state_dict(ours.state_dict())
        setattr(other, name, linear)
    return other.train(layer.training)


@torch.no_grad()
def from_d2l(other: nn.Module) -> MultiHeadAttention:
    """Return our layer with the weights of a `d2l.MultiHeadAttention` (0.17, or 1.x after its first call).

    Raises:
        TypeError: it is another layer.
        ValueError: it is a layer of d2l 1.x that has not been called yet and so has no weights.

    Taught in notebook 06.
    """
    parts = ("num_heads", "attention", "W_q", "W_k", "W_v", "W_o")  # looked at, so that d2l need not be installed
    if missing := [name for name in parts if not hasattr(other, name)]:
        raise TypeError(
            f"expected a d2l.MultiHeadAttention, got {kind_of(other)} without {', '.join(missing)}; each of "
            "from_torch, from_d2l and from_interleaved reads its own kind of layer"
        )
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in other.parameters()):
        raise ValueError("this d2l layer has no weights yet; call it once on real input, then copy it")
    inputs = (other.W_q, other.W_k, other.W_v)
    weights, biases = [part.weight for part in inputs], [part.bias for part in inputs]
    return read(other, weights, biases, other.W_o, other.attention.dropout.p)

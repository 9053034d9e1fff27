"""`capture`: get the attention maps of any PyTorch model while it runs, without changing the model.

`eye` decides what is seen, and how; `capture_maps` decides what is kept of it.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

import torch
from torch import nn

from headview.capture_maps import Maps, Recorder, fits
from headview.eye import Eye

Layers = int | str | slice | range | re.Pattern | Sequence[int | str | re.Pattern] | None


@contextmanager
def capture(
    model: nn.Module,
    *,
    layers: Layers = None,
    samples: int | slice | range | Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
    qkv: bool = False,
    progress: bool | None = None,
) -> Iterator[Maps]:
    """Keep the attention maps of everything that `model` computes inside the `with`.

    It sees torch's `scaled_dot_product_attention`, `nn.MultiheadAttention` and everything built from it, FlexAttention,
    and models that multiply, softmax and multiply again by hand. The model computes the same as without `capture`, by
    the same functions, with two exceptions: the fast path of `nn.TransformerEncoder` in evaluation is not taken (the
    result is the same up to rounding; that path gives zeros for padding), and compiled parts run uncompiled. In
    training, you get the weights before dropout. A loop over heads or over samples makes one map. The steps of
    `generate()` become one map per layer, whose future is zero and not allowed. With beams, rows of earlier steps
    belong to the beam that was in that place at the time. Without a cache, each step is a pass of its own.

    Args:
        model: any module; only what it and its parts do in the thread of the `with` is kept.
        layers: which maps to keep: their numbers in the order of the calls (also -1 or a slice), or the names of
            modules ("encoder.layer.3", "decoder.*", a compiled regular expression). All maps when left out.
        samples: which samples of the batch to keep.
        dtype: the one in which to keep the maps, such as `torch.float16`. When left out, as the model made them; those
            of a fused kernel are computed in float32 (float64 for a model in float64), one layer at a time.
        qkv: also keep queries, keys and values.
        progress: whether to show a tqdm bar after two seconds. When left out, it shows if tqdm is installed.

    Yields:
        the maps: a list of `(B, h, Tq, Tk)`, filled when the `with` ends.

    Raises:
        TypeError: the model is not a module, or an argument is of the wrong kind.
        ValueError: an argument names no layer, or the model is compiled to a graph that cannot be watched.
        RuntimeError: the `with` ended and no attention was seen.

    Taught in notebook 10.

    Examples:
        >>> import torch
        >>> from mhalib import MultiHeadAttention
        >>> from headview import capture
        >>> layer = MultiHeadAttention(d_model=8, num_heads=2)
        >>> with capture(layer) as maps:
        ...     out = layer(torch.zeros(1, 5, 8))
        ...
        >>> maps[0].shape
        torch.Size([1, 2, 5, 5])
    """
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"dtype must be a floating dtype of torch, got {dtype!r}; give torch.float16, or leave it out")
    for name, flag in (("qkv", qkv), ("progress", progress)):
        if not isinstance(flag, bool) and (name, flag) != ("progress", None):
            raise TypeError(f"{name} must be True or False, got {flag!r}; or leave it out")
    model, maps = _watchable(model), Maps()
    if samples is None or isinstance(samples, slice):
        picked = samples or slice(None)
    else:
        picked = _listed("samples", samples, "a number, numbers or a slice", (int,))
    recorder = Recorder(_wanted(layers, model), picked, dtype, qkv, progress)
    eye = Eye(model, recorder.take)
    with closing(recorder), _uncompiled(), eye.watching():
        yield maps
    maps.missed = eye.missed
    if not recorder.layers and recorder.failure is None:
        raise RuntimeError(_nothing(model, eye))
    recorder.fill(maps)


def _uncompiled() -> AbstractContextManager:
    """Run what `torch.compile` made as it was before: the functions of a graph cannot be seen."""
    # Setting it loads torch's compiler, which takes a second; without these two nothing can have been compiled.
    loaded = sys.modules.keys() & {"torch._dynamo", "torch.nn.attention.flex_attention"}
    known = loaded and hasattr(torch.compiler, "set_stance")
    return torch.compiler.set_stance("force_eager") if known else nullcontext()


def _nothing(model: nn.Module, eye: Eye) -> str:
    """Return why there is no map, as far as it can be told, and what to do."""
    kind = type(model).__name__
    if eye.missed:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(eye.missed.items())[:3])
        return f"no attention of {kind} can be shown as a map: {reasons}"
    if not eye.passes:
        return f"no attention was seen: {kind} was not called inside the with; call the model that you gave to capture"
    return (
        f"no attention was seen in {kind}: it may have none, or compute it outside torch's functions; for a "
        'transformers model with attn_implementation="flash_attention_2" or a kernel of its own, load it with "sdpa" '
        'or "eager", and with use_cache=False if its attention is recurrent'
    )


def _watchable(model: object) -> nn.Module:
    """Return the module to watch: what was compiled, as it was before."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"capture needs a model, an nn.Module, got {type(model).__name__}; give the model itself")
    old = not hasattr(torch.compiler, "set_stance")  # before torch 2.6
    if old and any(hasattr(x, "_orig_mod") or getattr(x, "_compiled_call_impl", None) for x in model.modules()):
        raise ValueError(
            "the model is compiled, and this version of torch cannot run it uncompiled; give model._orig_mod, or a "
            "model before torch.compile"
        )
    return getattr(model, "_orig_mod", model)


def _wanted(layers: Layers, model: nn.Module) -> list | None:
    if layers is None:
        return None
    found = _listed("layers", layers, "numbers, a slice or names of modules", (int, slice), (str, re.Pattern))
    names = [name or type(model).__name__ for name, _ in model.named_modules()]
    for pattern in (x for x in found if isinstance(x, (str, re.Pattern))):
        if not any(fits(pattern, name) for name in names):
            raise ValueError(
                f"layers={pattern!r} does not name a module of {type(model).__name__}; it has "
                f"{', '.join(repr(name) for name in names[1:6])}, …; all are in dict(model.named_modules())"
            )
    return found


def _listed(name: str, given: object, what: str, *kinds: tuple[type, ...]) -> list:
    """Return what was given as a list, all of it of one of these kinds."""
    found = list(given) if hasattr(given, "__iter__") and not isinstance(given, str) else [given]
    if not found:
        raise ValueError(f"{name} is empty, so nothing would be kept; give 0 for the first, or leave it out")
    if not any(all(isinstance(x, kind) and not isinstance(x, bool) for x in found) for kind in kinds):
        raise TypeError(f"{name} must be {what}, got {given!r}; give 0 for the first, or leave it out for all")
    return found

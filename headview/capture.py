"""`capture`: the attention maps of any PyTorch model while it runs, with nothing changed in it.

What is seen, and how, is the matter of `eye`; what is kept of it, of `capture_maps`.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

import torch
from torch import nn

from headview.capture_maps import Maps, Recorder, fits
from headview.eye import Eye

SCRIPTED = "compiled by torch.jit, whose functions cannot be seen; give the model before torch.jit.script or .trace"
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

    Seen are torch's `scaled_dot_product_attention`, `nn.MultiheadAttention` and all that is built of it, FlexAttention,
    and models that multiply, softmax and multiply again by hand. The model computes what it computes without, by the
    same functions, except that torch's fast path of `nn.TransformerEncoder` in evaluation is stepped around (the same
    up to rounding; it gives zeros for padding) and that compiled parts run uncompiled. In training, the weights are
    those before dropout. The steps of `generate()` become one map a layer, the future being zero and not allowed; among
    beams, the rows of earlier steps are those of the beam that stood there then, and without a cache each step is a
    pass of its own.

    Args:
        model: any module; only what it and its parts do is kept, in the thread of the `with`.
        layers: which maps are kept: their numbers in the order of the calls (also -1 or a slice), or the names of
            modules ("encoder.layer.3", "decoder.*", a compiled regular expression). All of them when left out.
        samples: which samples of the batch are kept.
        dtype: in which the maps are kept, such as `torch.float16`. They are computed in float32 (float64 for such a
            model), one layer at a time, and kept on the CPU as they were computed when left out.
        qkv: also keep queries, keys and values.
        progress: whether a bar of tqdm shows after two seconds; if it is installed, when left out.

    Yields:
        the maps: a list of `(B, h, Tq, Tk)`, filled when the `with` ends.

    Raises:
        TypeError: the model is no module, or an argument is of another kind.
        ValueError: an argument names no layer, or the model is compiled to a graph that cannot be watched.
        RuntimeError: the `with` ended without any attention seen.

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
    if recorder.failure is not None:
        raise recorder.failure
    maps.missed = eye.missed
    if not recorder.layers:
        raise RuntimeError(_nothing(model, eye))
    recorder.fill(maps)


def _uncompiled() -> AbstractContextManager:
    """Run what `torch.compile` made as it was before: the functions of a graph cannot be seen."""
    # Setting it loads torch's compiler, which takes a second; without these two nothing can have been compiled.
    loaded = {"torch._dynamo", "torch.nn.attention.flex_attention"} & set(sys.modules)
    known = loaded and hasattr(torch.compiler, "set_stance")
    return torch.compiler.set_stance("force_eager") if known else nullcontext()


def _nothing(model: nn.Module, eye: Eye) -> str:
    """Return why there is no map, as far as it can be told, and what to do."""
    kind = type(model).__name__
    if eye.missed:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(eye.missed.items())[:3])
        return f"no attention of {kind} can be shown as a map: {reasons}"
    if not eye.ran:
        return f"no attention was seen: {kind} was not called inside the with; call the very model that was given"
    if scripted := [name for name, x in model.named_modules() if isinstance(x, torch.jit.ScriptModule)]:
        return f"no attention was seen: {scripted[0]!r} in {kind} is {SCRIPTED}"
    return (
        f"no attention was seen in {kind}: it may have none, or compute it outside of torch's functions; for a "
        'transformers model with attn_implementation="flash_attention_2" or a kernel of its own, load it with "sdpa" '
        'or "eager", and with use_cache=False if its attention is recurrent'
    )


def _watchable(model: object) -> nn.Module:
    """Return the module to watch: what was compiled, as it was before."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"capture needs a model, an nn.Module, got {type(model).__name__}; give the model itself")
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"{type(model).__name__} is {SCRIPTED}")
    compiled = [x for x in model.modules() if hasattr(x, "_orig_mod") or getattr(x, "_compiled_call_impl", None)]
    if compiled and not hasattr(torch.compiler, "set_stance"):
        raise ValueError(
            "the model is compiled, and this torch cannot run it uncompiled for a while; give model._orig_mod, or a "
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
                f"layers={pattern!r} is the name of no module of {type(model).__name__}; it has "
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

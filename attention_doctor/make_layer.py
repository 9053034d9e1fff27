"""A layer from its class: sizes by the names of the constructor's arguments, also where they come in a config."""

import inspect
from collections.abc import Iterator

import torch
from torch import nn

from attention_doctor.argument_names import SIZES, size_of

PLENTY = 128  # tokens, for a class that wants to know the longest sequence
GUESSES = {bool: False, int: 0, str: "xavier"}  # for what is no size
USUAL = (32, 4)  # d_model, num_heads, where nobody says them
CORE = {*SIZES["d_model"], *SIZES["num_heads"]}  # said also where they have a default, or 8 heads were taken for 4


def make(kind: type, d_model: int, num_heads: int, head_dim: int | None) -> tuple[object, str]:
    """Return a layer of this class, and how it was made; the same numbers every time.

    Raises:
        TypeError: what its constructor wants cannot be told by the names of its arguments, or it raised.
    """
    sizes = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_heads, "longest": PLENTY, "dropout": 0.0}
    sizes["head_dim"] = head_dim or max(1, d_model // num_heads)
    errors = []
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for arguments in _arguments(kind, sizes):
            try:
                layer = kind(**arguments)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}".splitlines()[0])
                continue
            said = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            return layer, f"{kind.__name__}({said})"
    wanted = ", ".join(inspect.signature(kind).parameters)
    raise TypeError(
        f"expected a layer, got the class {kind.__name__}({wanted}), which could not be made by d_model={d_model} and "
        f"num_heads={num_heads} ({errors[0] if errors else 'it has arguments whose names say nothing'}); make one "
        f"first, such as {kind.__name__}({d_model}, {num_heads})"
    )


def _arguments(kind: type, sizes: dict[str, object]) -> Iterator[dict[str, object]]:
    """Yield the arguments to try: sizes by their names, and a config where one is wanted."""
    said, missing = _said(kind, sizes)
    said |= {name: GUESSES.get(p.annotation, 0 if "layer" in name else None) for name, p in missing.items()}
    config = next(filter(is_config, missing), None)
    if config is None:
        yield said
    elif (typed := _typed(missing[config], sizes, kind)) is not None:
        yield said | {config: typed}
    if config is not None:
        yield said | {config: Config(sizes)}


def _said(kind: type, sizes: dict[str, object]) -> tuple[dict, dict]:
    """Return the sizes among a constructor's arguments by their names, and the needed arguments that are none."""
    said, missing = {}, {}
    for p in inspect.signature(kind).parameters.values():
        needed = p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        size = None if is_config(p.name) or p.annotation is bool else sizes.get(size_of(p.name))
        if size is not None and (needed or (p.name in CORE and p.default is not None)):
            said[p.name] = size
        elif needed:
            missing[p.name] = p
    return said, missing


def _typed(p: inspect.Parameter, sizes: dict[str, object], kind: type) -> object | None:
    """Return a config of the class that the annotation names, or that is defined beside the layer."""
    scope = vars(inspect.getmodule(kind) or object)
    wanted = scope.get(p.annotation) if isinstance(p.annotation, str) else p.annotation
    if not isinstance(wanted, type) or wanted is p.empty:
        beside = (v for n, v in scope.items() if isinstance(v, type) and is_config(n))
        wanted = next((v for v in beside if v.__module__ == kind.__module__), None)
    if wanted is None or wanted.__module__ == "builtins" or issubclass(wanted, nn.Module):
        return None
    try:
        return wanted(**_said(wanted, sizes)[0])
    except Exception:
        return None


def is_config(name: str) -> bool:
    """Whether an argument or a class of this name holds many sizes."""
    return name.lower().endswith(("config", "args", "cfg", "hparams", "params"))


class Config:
    """Sizes under every name that they have in public code; what is not known there is missing here."""

    def __init__(self, sizes: dict[str, object]):
        self._sizes = sizes

    def __getattr__(self, name: str) -> object:
        kind = next((kind for kind, words in SIZES.items() if name in words), None)
        if kind:
            return self._sizes[kind]
        if "bias" in name:
            return True
        if name.startswith(("is_", "use_", "output_", "has_", "add_")) or name in ("flash", "causal", "rotary"):
            return False
        raise AttributeError(f"nothing is known of {name}")

    __getitem__ = __getattr__

    def __repr__(self) -> str:
        return f"<a config with d_model={self.d_model} and num_heads={self.num_heads} under their usual names>"

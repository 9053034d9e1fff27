"""A layer from its class: sizes by the names of the constructor's arguments, also where they come in a config."""

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import torch

from attention_doctor.argument_names import SIZES, size_of

PLENTY = 128  # tokens, for a class that wants to know the longest sequence
GUESSES = {bool: False, int: 0, str: "xavier"}  # for what is no size
USUAL = (32, 4)  # d_model, num_heads, where nobody says them
CORE = {*SIZES["d_model"], *SIZES["num_heads"]}  # said also where they have a default, or 8 heads were taken for 4


def make(kind: type, d_model: int, num_heads: int, head_dim: int | None) -> tuple[object, str, bool]:
    """Return a layer of this class, how it was made, and whether it was told its heads; the same numbers every time.

    Raises:
        TypeError: what its constructor wants cannot be told by the names of its arguments, or it raised.
        ValueError: it raised, and the heads do not divide the features.
    """
    sizes = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_heads, "longest": PLENTY, "dropout": 0.0}
    sizes["head_dim"] = head_dim or max(1, d_model // num_heads)
    errors = []
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for config in _configs(kind, sizes):
            arguments = _arguments(kind, sizes, config)
            try:
                layer = kind(**arguments)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}".splitlines()[0])
                continue
            of_heads = any(is_config(name) or size_of(name) == "num_heads" for name in arguments)
            said = ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
            return layer, f"{kind.__name__}({said})", of_heads
    wanted = ", ".join(inspect.signature(kind).parameters)
    raise (TypeError if head_dim or d_model % num_heads == 0 else ValueError)(
        f"expected a layer, got the class {kind.__name__}({wanted}), which could not be made by d_model={d_model} and "
        f"num_heads={num_heads} ({errors[0]}); make one first, such as {kind.__name__}({d_model}, {num_heads})"
    )


def _shown(value: object) -> str:
    """Return a value in code; of an object that says nothing of itself its class and what it holds."""
    bare = type(value).__repr__ is object.__repr__
    return type(value).__name__ + repr(SimpleNamespace(**vars(value)))[len("namespace") :] if bare else repr(value)


def _arguments(kind: type, sizes: dict[str, object], config: object = None) -> dict[str, object]:
    """Return sizes for the arguments of a constructor by their names, and a guess for what else it needs."""
    found = {}
    for p in inspect.signature(kind).parameters.values():
        needed = p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        size = None if p.annotation is bool else sizes.get(size_of(p.name))
        if is_config(p.name):
            found |= {p.name: config} if needed else {}
        elif size is not None and (needed or (p.name in CORE and p.default is not None)):
            found[p.name] = size
        elif needed:
            some = re.match(r"num_|n_", p.name) and (1 if "layer" in p.name else 3)  # layers; induced points, slots
            found[p.name] = some or GUESSES.get(p.annotation, 0 if "layer" in p.name else None)
    return found


def _configs(kind: type, sizes: dict[str, object]) -> Iterator[object]:
    """Yield configs: of the class that is annotated, or is defined beside the layer; then one of any kind."""
    beside = vars(inspect.getmodule(kind) or object)
    named = [p.annotation for p in inspect.signature(kind).parameters.values() if is_config(p.name)]
    classes = [beside.get(name, name) if isinstance(name, str) else name for name in named]
    classes += [v for n, v in beside.items() if is_config(n) and getattr(v, "__module__", "") == kind.__module__]
    for each in classes if named else ():
        if isinstance(each, type) and each.__module__ not in ("builtins", "inspect"):
            with suppress(Exception):
                yield each(**_arguments(each, sizes))
    yield Config(sizes)


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

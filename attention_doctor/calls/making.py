"""A layer from its class: sizes by the names of the constructor's arguments, also where they come in a config."""

import dataclasses
import inspect
from types import SimpleNamespace

import torch
from torch import nn

from attention_doctor.calls import names

PLENTY = 128  # tokens, for a class that wants to know the longest sequence
USUAL = (32, 4)  # d_model, num_heads, where nobody says them


def make(kind: type, d_model: int, num_heads: int, head_dim: int | None) -> tuple[object, str]:
    """Return a layer of this class, and how it was made; the same numbers every time.

    Raises:
        TypeError: what its constructor wants cannot be told by the names of its arguments, or it raised.
    """
    sizes = _sizes(d_model, num_heads, head_dim)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        errors = []
        for arguments in _arguments(kind, sizes):
            try:
                layer = kind(**arguments)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}".splitlines()[0])
                continue
            said = ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
            return layer, f"{kind.__name__}({said})"
    wanted = ", ".join(inspect.signature(kind).parameters)
    raise TypeError(
        f"expected a layer, got the class {kind.__name__}({wanted}), which could not be made by d_model={d_model} and "
        f"num_heads={num_heads} ({errors[0] if errors else 'it has arguments whose names say nothing'}); make one "
        f"first, such as {kind.__name__}({d_model}, {num_heads})"
    )


def _sizes(d_model: int, num_heads: int, head_dim: int | None) -> dict[str, object]:
    sizes = dict.fromkeys(names.LONGEST, PLENTY) | dict.fromkeys(names.RATES, 0.0)
    sizes |= dict.fromkeys(names.HEAD_DIM, head_dim or max(1, d_model // num_heads))
    sizes |= dict.fromkeys(names.NUM_HEADS, num_heads) | dict.fromkeys(names.NUM_KV_HEADS, num_heads)
    return sizes | dict.fromkeys(names.D_MODEL, d_model)


def _arguments(kind: type, sizes: dict[str, object]):
    """Yield the arguments to try: sizes by their names, and a config where one is wanted."""
    parameters = [
        p for p in inspect.signature(kind).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    needed = [p for p in parameters if p.default is p.empty]
    # Sizes that have a default are said too, or a layer for 8 heads would be taken for one of 4.
    core = {*names.D_MODEL, *names.NUM_HEADS}
    said = {
        p.name: sizes[p.name]
        for p in parameters
        if p.name in sizes and (p in needed or (p.name in core and p.default is not None))
    }
    said |= {p.name: size for p in needed if (size := _size(p, sizes)) is not None}
    wider = {p.name: sizes[p.name] for p in parameters if p.name in sizes and p.name in names.HEAD_DIM} | said
    missing = [p for p in needed if p.name not in said]
    for base in (said, wider):
        for extra in _extras(missing, sizes, kind):
            yield {p.name: {**base, **extra}[p.name] for p in parameters if p.name in base or p.name in extra}


def _size(p: inspect.Parameter, sizes: dict[str, object]) -> object | None:
    return None if re_config(p.name) or p.annotation is bool else names.size_of(p.name, sizes)


def _extras(missing: list[inspect.Parameter], sizes: dict[str, object], kind: type):
    if not missing:
        yield {}
        return
    if len(missing) > 3:
        return
    for config in (_typed(missing[0], sizes, kind), Config(sizes)):
        if config is not None:
            rest = {p.name: _guess(p) for p in missing[1:]}
            yield {missing[0].name: config, **rest}
    yield {p.name: _guess(p) for p in missing}


def _guess(p: inspect.Parameter) -> object:
    if p.annotation is bool:
        return False
    if p.annotation is str or "init" in p.name:
        return "xavier"
    return 0 if "idx" in p.name or "layer" in p.name or p.annotation is int else None


def _typed(p: inspect.Parameter, sizes: dict[str, object], kind: type) -> object | None:
    """Return a config of the class that the annotation names, or that stands beside the layer."""
    wanted = p.annotation
    if isinstance(wanted, str) or wanted is p.empty:
        scope = vars(inspect.getmodule(kind) or SimpleNamespace())
        by_name = [scope.get(wanted)] if isinstance(wanted, str) else []
        beside = [
            v for n, v in scope.items() if isinstance(v, type) and re_config(n) and v.__module__ == kind.__module__
        ]
        wanted = next((v for v in [*by_name, *beside] if isinstance(v, type)), None)
    if not isinstance(wanted, type) or wanted.__module__ == "builtins" or issubclass(wanted, nn.Module):
        return None
    core = {*names.D_MODEL, *names.NUM_HEADS}
    try:
        parameters = inspect.signature(wanted).parameters.values()
        needed = {
            q.name: names.size_of(q.name, sizes)
            for q in parameters
            if q.kind not in (q.VAR_POSITIONAL, q.VAR_KEYWORD)
            and (q.name in core or (q.default is q.empty and names.size_of(q.name, sizes) is not None))
        }
        config = wanted(**needed)
    except Exception:
        return None
    if not dataclasses.is_dataclass(config):
        for name in core & set(vars(config)):
            if isinstance(getattr(config, name), int):
                setattr(config, name, sizes[name])
    return config


def re_config(name: str) -> bool:
    return name.lower().endswith(("config", "args", "cfg", "hparams", "params"))


class Config(dict):
    """Sizes under every name that they have in public code; what is not known there is missing here."""

    def __getattr__(self, name: str) -> object:
        if name in self:
            return self[name]
        if "bias" in name:
            return True
        if name.startswith(("is_", "use_", "output_", "has_", "add_")) or name in ("flash", "causal", "rotary"):
            return False
        raise AttributeError(f"nothing is known of {name}")

    def __repr__(self) -> str:
        return f"a config with d_model={self['d_model']} and num_heads={self['num_heads']} under their usual names"


def _shown(value: object) -> str:
    return f"<{value!r}>" if isinstance(value, Config) else repr(value)

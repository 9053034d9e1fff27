"""A layer from its class: sizes by the names of the constructor's arguments, also where they come in a config."""

import inspect

import torch
from torch import nn

from attention_doctor import argument_names as names

PLENTY = 128  # tokens, for a class that wants to know the longest sequence
USUAL = (32, 4)  # d_model, num_heads, where nobody says them


def make(kind: type, d_model: int, num_heads: int, head_dim: int | None) -> tuple[object, str]:
    """Return a layer of this class, and how it was made; the same numbers every time.

    Raises:
        TypeError: what its constructor wants cannot be told by the names of its arguments, or it raised.
    """
    sizes = dict.fromkeys(names.LONGEST, PLENTY) | dict.fromkeys(names.RATES, 0.0)
    sizes |= dict.fromkeys(names.HEAD_DIM, head_dim or max(1, d_model // num_heads))
    sizes |= dict.fromkeys((*names.NUM_HEADS, *names.NUM_KV_HEADS), num_heads) | dict.fromkeys(names.D_MODEL, d_model)
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


def _arguments(kind: type, sizes: dict[str, object]):
    """Yield the arguments to try: sizes by their names, and a config where one is wanted."""
    parameters = _parameters(kind)
    needed = [p for p in parameters if p.default is p.empty]
    core = {*names.D_MODEL, *names.NUM_HEADS}  # said also where they have a default, or 8 heads were taken for 4
    said = {p.name: sizes[p.name] for p in parameters if p.name in core and p.name in sizes and p.default is not None}
    missing = []
    for p in needed:
        size = None if is_config(p.name) or p.annotation is bool else names.size_of(p.name, sizes)
        if size is None:
            missing.append(p)
        else:
            said[p.name] = size
    wider = {p.name: sizes[p.name] for p in parameters if p.name in names.HEAD_DIM and p.name in sizes} | said
    for base in (said, wider):
        for config in (_typed(missing[0], sizes, kind), Config(sizes), _guess(missing[0])) if missing else (None,):
            if not missing or config is not None or not is_config(missing[0].name):
                rest = {p.name: _guess(p) for p in missing[1:]}
                given = base | ({missing[0].name: config} if missing else {}) | rest
                yield {p.name: given[p.name] for p in parameters if p.name in given}


def _parameters(kind: object) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(kind).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _guess(p: inspect.Parameter) -> object:
    if p.annotation is bool:
        return False
    if p.annotation is str or "init" in p.name:
        return "xavier"
    return 0 if "idx" in p.name or "layer" in p.name or p.annotation is int else None


def _typed(p: inspect.Parameter, sizes: dict[str, object], kind: type) -> object | None:
    """Return a config of the class that the annotation names, or that stands beside the layer."""
    scope = vars(inspect.getmodule(kind) or object) if inspect.getmodule(kind) else {}
    wanted = scope.get(p.annotation) if isinstance(p.annotation, str) else p.annotation
    if not isinstance(wanted, type) or wanted is p.empty:
        beside = (
            v for n, v in scope.items() if isinstance(v, type) and is_config(n) and v.__module__ == kind.__module__
        )
        wanted = next(beside, None)
    if wanted is None or wanted.__module__ == "builtins" or issubclass(wanted, nn.Module):
        return None
    core = {*names.D_MODEL, *names.NUM_HEADS}
    try:
        of = {q: names.size_of(q.name, sizes) for q in _parameters(wanted)}
        needed = {q.name: v for q, v in of.items() if q.name in core or (q.default is q.empty and v is not None)}
        return wanted(**needed)
    except Exception:
        return None


def is_config(name: str) -> bool:
    """Whether an argument or a class of this name holds many sizes."""
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
        return f"<a config with d_model={self['d_model']} and num_heads={self['num_heads']} under their usual names>"

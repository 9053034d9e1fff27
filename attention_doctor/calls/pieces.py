"""How a layer is called with a piece of a sequence: the places of its tokens, its masks, the switches of a cache."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attention_doctor.adapt import INPUTS, Adapted, pick, turned, turned_back
from attention_doctor.calls.names import signature_of

_CACHE = re.compile(r"past|cache|incremental|^prev(ious)?_(kv|state|key)s?|^kv_(store|state)", re.IGNORECASE)
_FLAG = re.compile(r"^(use|return|output|need|with|store|keep)_.*(cache|past|kv|present|intermediate|state)")
_START = re.compile(
    r"^(start_pos\w*|start|offset|pos\w*_offset|past_len\w*|past_\w*length|cache_len\w*|cur_pos|cache_pos|step)$"
)
_PLACES = re.compile(r"^(input_pos|pos|positions?|position_ids|pos_ids|token_positions|cache_positions?)$")

_ABOUT_PLACES = re.compile(r"pos|offset|rope|rotary|freq|^cos|^sin|angle|start|^step|shift|length|len$", re.IGNORECASE)


class NoCache(Exception):
    """This way of handing over a cache does not run, or what it hands over is none."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a layer that have to do with a cache.

    Args:
        caches: those that may be one.
        flags: that ask for one.
        starts: the first place of the new tokens, a number.
        places: the places of the new tokens, a tensor.
        others: those that may say in another way where the new tokens stand.
    """

    caches: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def arguments_of(target: object) -> Arguments:
    """Return which arguments have to do with a cache, as far as their names say it."""
    found, signature = Arguments(), signature_of(target)
    for p in [] if signature is None else signature.parameters.values():
        number = isinstance(p.default, int) or p.annotation in (int, bool, "int", "bool")
        if _FLAG.search(p.name) and isinstance(p.default, (bool, type(None), inspect._empty)):
            found.flags.append(p.name)
        elif _START.search(p.name) or (_PLACES.search(p.name) and number and not isinstance(p.default, bool)):
            found.starts.append(p.name)
        elif _PLACES.search(p.name):
            found.places.append(p.name)
        elif _CACHE.search(p.name) and not number:
            found.caches.append(p.name)
        elif _ABOUT_PLACES.search(p.name):
            found.others.append(p.name)
    return found


@dataclass(frozen=True)
class Form:
    """How a piece of a sequence is handed over, apart from the cache.

    Args:
        told: whether the layer is told where the new tokens stand.
        rank: axes of the places that it is told.
        flags: whether it is asked for a cache.
        masked: whether it is given a mask that hides nothing.
    """

    told: bool
    rank: int
    flags: bool
    masked: bool


def forms(attend: Adapted, arguments: Arguments) -> Iterator[Form]:
    """Yield the forms to try, the likelier first."""
    fillers = any(callable(value) for value in attend.also.values())
    tellable = bool(arguments.starts or arguments.places or fillers)
    flags = (True, False) if arguments.flags else (False,)
    for masked in (False, True) if attend.mask is not None else (False,):
        for told in (True, False) if tellable else (False,):
            for rank in (2, 1) if told and arguments.places else (2,):
                yield from (Form(told, rank, flag, masked) for flag in flags)


def give_mask(attend: Adapted, mask: Tensor | None, args: list, kwargs: dict[str, object]) -> None:
    """Add a mask to the arguments of a call; None only where the layer cannot be called without."""
    if attend.mask is None:
        return
    signature = signature_of(attend.target)
    parameters = [] if signature is None else list(signature.parameters.values())
    if attend.mask_name is None:
        if mask is not None or any(p.default is p.empty for p in parameters[len(args) : len(args) + 1]):
            args.append(mask)
    elif mask is not None or any(p.default is p.empty for p in parameters if p.name == attend.mask_name):
        kwargs[attend.mask_name] = mask


class Pieces:
    """Calls a layer with a piece of a sequence.

    Args:
        attend: how it is called.
        arguments: those that have to do with a cache.
        x: the whole sequence, `(B, T, d_model)`.
    """

    def __init__(self, attend: Adapted, arguments: Arguments, x: Tensor):
        self.attend, self.arguments, self.x = attend, arguments, x

    def call(self, target, form: Form, a: int, b: int, cache: Mapping[str, object]) -> object:
        """Return what the layer returns for the tokens a to b - 1."""
        x = self.x[:, a:b].clone()
        args = [turned(x, self.attend.axes)] * INPUTS[self.attend.convention]
        kwargs = self._further(form, a, b)
        give_mask(self.attend, self.open_mask(b - a, b) if form.masked else None, args, kwargs)
        if form.flags:
            kwargs |= dict.fromkeys(self.arguments.flags, True)
        return target(*args, **kwargs | cache)

    def output(self, result: object, length: int) -> Tensor:
        """Return the output `(B, length, d_out)` out of a result.

        Raises:
            NoCache: it has another shape.
        """
        out = turned_back(self.picked(result), self.attend.axes)
        if out.ndim != 3 or tuple(out.shape[:2]) != (len(self.x), length):
            raise NoCache("the output has another number of tokens")
        return out.detach().to("cpu", torch.float32)

    def picked(self, result: object) -> Tensor:
        """Return the output out of a result as it is."""
        return pick(result, self.attend.output)

    def _further(self, form: Form, a: int, b: int) -> dict[str, object]:
        kwargs, whole, x = {}, self.x[:, :b].clone(), self.x[:, a:b].clone()
        for name, value in self.attend.also.items():
            if name in self.arguments.caches:
                continue
            if callable(value):
                kwargs[name] = _last(value(whole), b, b - a) if form.told else value(x)
            else:
                kwargs[name] = value
        if form.told:
            kwargs |= dict.fromkeys(self.arguments.starts, a)
            places = torch.arange(a, b, device=x.device)
            for name in self.arguments.places:
                alone = form.rank == 1 or name.startswith("cache")
                kwargs[name] = places if alone else places.expand(len(x), -1)
        return kwargs

    def open_mask(self, rows: int, columns: int) -> Tensor:
        """Return a mask that hides nothing, a row for each new token and a column for each token so far."""
        attend, B = self.attend, len(self.x)
        if attend.mask == "lengths":
            return torch.full((B,) if attend.mask_rank == 1 else (B, rows), columns, device=self.x.device)
        shape = (columns,) if attend.mask_over == "keys" else (rows, columns)
        shape = (B, *[1] * (attend.mask_rank - 1 - len(shape)), *shape) if attend.mask_rank > len(shape) else shape
        shown = {"allowed": (1, torch.bool), "blocked": (0, torch.bool)}
        value, dtype = shown.get(attend.mask, (float(attend.mask == "float01"), self.x.dtype))
        return torch.full(shape, value, dtype=dtype, device=self.x.device)


def _last(value: object, length: int, new: int) -> object:
    """Return what belongs to the new tokens out of a table, or tables, for all of them."""
    if isinstance(value, Tensor):
        for axis, size in enumerate(value.shape):
            if size == length:
                value = value.narrow(axis, length - new, new)
        return value
    return tuple(_last(part, length, new) for part in value) if isinstance(value, (tuple, list)) else value

"""How real modules want to be called: one form, `attend(x, mask=None)`, around all of them.

The doctor speaks one language: `x` is `(B, T, d_model)`, a mask is boolean as in `mhalib.masks`, `(T, T)` or
`(B, T, T)`. What a module wants instead is stated here, by the person who hands it over, or by what `calls` has found.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mhalib.masks import to_additive

INPUTS = {"plain": 1, "qkv": 3, "torch": 3, "d2l": 3, "cross": 2}  # convention -> how often it is given x
CONVENTIONS = tuple(INPUTS)
MASKS = ("allowed", "blocked", "additive", "float01", "lengths", None)
AXES = ("B T d", "T B d", "B d T", "B d H W", "T d")
OVER = ("pairs", "keys")

# What the name of a second argument says without doubt; any other has to be declared.
OUR_NAMES = ("mask", "m", "allowed_mask")  # as in `mhalib.masks`
PADDING_NAMES = ("padding_mask", "pad_mask", "key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask")


@dataclass
class Adapted:
    """A module in the doctor's form; made by `adapt`, or by `calls.find_out`.

    `masks` says which masks it can be given: "any", "shared" (one for all samples), "keys" (the same keys for all
    queries of a sample), "prefix" (each query sees a beginning of the keys), "lengths" (all queries of a sample see the
    same beginning), or "none".
    """

    target: Callable
    convention: str
    mask: str | None
    mask_rank: int
    mask_name: str | None
    axes: str
    output: int | str | None
    causal: bool
    declared: bool = True  # whether a person chose the rank of the mask; if not, the doctor tries both
    mask_over: str = "pairs"
    mask_always: bool = False
    also: Mapping[str, object] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()  # the numbers of tokens that it takes, where it takes only some
    said: bool = True  # whether a person, or the layer's own words, say what its mask means
    integers: bool = False  # whether its words say that its mask may be one of integers, 1 and 0
    distances: str = ""  # how its words promise to tell distances, as in `calls.words`
    others: tuple = ()  # inputs beside x, (B, T, d) each; x itself where there are none
    written: str = ""  # what the last call did to the mask that it was handed

    @property
    def module(self) -> nn.Module | None:
        owner = getattr(self.target, "__self__", self.target)  # layer.forward belongs to layer
        return owner if isinstance(owner, nn.Module) else None

    @property
    def masks(self) -> str:
        if self.mask is None:
            return "none"
        if self.mask == "lengths":
            return "lengths" if self.mask_rank == 1 else "prefix"
        if self.mask_over == "keys":
            return "keys"
        return "shared" if self.mask_rank == 2 and self.declared and self.axes != "T d" else "any"

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None and self.mask_always:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        if self.axes != "T d":
            return self._called(x, mask)
        masks = [None if mask is None else mask if mask.ndim == 2 else mask[i] for i in range(len(x))]
        return torch.cat([self._called(x[i : i + 1], masks[i]) for i in range(len(x))])

    def _called(self, x: Tensor, mask: Tensor | None) -> Tensor:
        given = [x, *(self.others or [x] * (INPUTS[self.convention] - 1))]
        args = [turned(one, self.axes) for one in given]
        kwargs, converted = self.further(x), None
        if self.mask is not None:
            converted = None if mask is None else self.convert(x, mask)
            before = None if converted is None else converted.clone()
            if self.mask_name is None:
                args.append(converted)
            elif converted is not None or self.mask_name not in kwargs:
                kwargs[self.mask_name] = converted
        elif mask is not None:
            raise ValueError("a mask came, but the module was declared to take none; leave out mask=None in adapt")
        if self.convention == "torch":
            kwargs["need_weights"] = False
        try:
            result = self.target(*args, **kwargs)
        except RuntimeError as error:
            if "arguments for embedding" not in str(error):
                raise
            raise TypeError(
                "it looks its input up as token ids; hand over an attention layer of the model, not the model"
            ) from error
        changed = 0 if converted is None else int((converted != before).sum())
        self.written = f"{changed} of its {converted.numel()} entries changed" if changed else ""
        return turned_back(pick(result, self.output), self.axes)

    def further(self, x: Tensor) -> dict[str, object]:
        """Return the further arguments that it wants, for this x."""
        return {name: value(x) if callable(value) else value for name, value in self.also.items()}

    def convert(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the mask as the module wants it."""
        batch, tokens = x.shape[:2]
        if self.mask == "lengths":
            lens = mask.expand(batch, tokens, tokens).sum(-1)  # (B, T)
            return lens if self.mask_rank == 2 else lens[:, 0].contiguous()
        mask = self._shaped(mask, batch, tokens)
        if self.mask == "blocked":
            return ~mask
        if self.mask == "additive":
            return to_additive(mask, x.dtype)
        return mask.to(x.dtype) if self.mask == "float01" else mask.long() if self.mask == "integers" else mask

    def _shaped(self, mask: Tensor, batch: int, tokens: int) -> Tensor:
        if self.mask_over == "keys":
            keys = mask.expand(batch, tokens, tokens)[:, 0].contiguous()  # (B, T)
            return keys.view(batch, *[1] * (self.mask_rank - 2), tokens)
        if self.axes == "T d":
            return mask if mask.ndim == 2 else mask[0]
        if self.declared and self.mask_rank == 2:
            if mask.ndim != 2:
                raise ValueError("the module takes one (T, T) mask for all samples, a (B, T, T) mask came")
        elif self.convention == "torch":
            if mask.ndim == 3:
                return mask.repeat_interleave(self.target.num_heads, 0)  # (B, T, T) -> (B * h, T, T)
        elif self.declared:
            mask = mask.expand(batch, tokens, tokens).contiguous()
            return mask[:, None] if self.mask_rank == 4 else mask  # (B, T, T) -> (B, 1, T, T)
        return mask


def turned(x: Tensor, axes: str) -> Tensor:
    """Return an input `(B, T, d_model)` with the axes that a layer wants."""
    if axes == "T B d":
        return x.transpose(0, 1).contiguous()
    if axes in ("B d T", "B d H W"):
        turned = x.transpose(1, 2).contiguous()
        return turned if axes == "B d T" else turned[:, :, None]  # a picture of one row
    return x[0] if axes == "T d" else x


def turned_back(out: Tensor, axes: str) -> Tensor:
    """Return an output with the axes `(B, T, d_out)`."""
    if out.ndim != len(axes.split()):
        return out  # a wrong shape, of which others tell
    if axes == "T B d":
        return out.transpose(0, 1)
    if axes in ("B d T", "B d H W"):
        return (out if axes == "B d T" else out.flatten(2)).transpose(1, 2)
    return out[None] if axes == "T d" else out


def adapt(
    module: Callable,
    convention: str = "plain",
    *,
    mask: str | None = "allowed",
    mask_rank: int | None = None,
    mask_name: str | None = None,
    mask_over: str = "pairs",
    mask_always: bool = False,
    batch_first: bool | None = None,
    axes: str | None = None,
    output: int | str | None = None,
    causal: bool = False,
    also: Mapping[str, object] | None = None,
) -> Adapted:
    """Return `module` in the form that `examine` takes. What is said here always wins over what could be found out.

    Args:
        module: a layer or a function.
        convention: how it is called: "plain" `module(x, mask)`, "qkv" `module(q, k, v, mask)`, "cross"
            `module(x, context, mask)`, "torch" like `nn.MultiheadAttention`, "d2l" `module(q, k, v, valid_lens)`.
        mask: what it wants: "allowed" (True = may attend), "blocked" (True = hidden), "additive" (0 and -inf),
            "float01" (1.0 = may attend), "lengths" (valid_lens), or None where it takes no mask.
        mask_rank: axes of the mask: 2 for `(T, T)` only, 3 for `(B, T, T)`, 4 for `(B, 1, T, T)`. For lengths 1 for
            `(B,)` only, 2 where `(B, T)` is understood too. When left out, the doctor tries 2 and 3.
        mask_name: the keyword under which the mask is given; by its place when left out, unless it is called `mask`.
        mask_over: "pairs" of a query and a key; or "keys", the same for all queries, as for padding: then a mask of
            rank 2 is `(B, T)`, of rank 3 `(B, 1, T)`, of rank 4 `(B, 1, 1, T)`.
        mask_always: True where a mask takes the place of one that the layer makes by itself; then it always gets one.
        batch_first: False for `(T, B, d_model)`; when left out, what a torch layer says of itself, otherwise True.
        axes: of x, where that does not say it: "B T d", "T B d", "B d T" (channels first), "B d H W"
            (a picture: it gets one of a single row), "T d" (no batch).
        output: which part of the result is the output: a place in a tuple, a key, or an attribute. When left out, a
            tensor or the first tensor of a tuple.
        causal: True for a layer that hides later tokens by itself.
        also: further arguments by their names; a function gets x `(B, T, d_model)` and returns the argument.

    Raises:
        TypeError: `module` cannot be called.
        ValueError: an option has a value that is not in the list above.

    Notebook 04 teaches the kinds of masks, notebook 06 the ways to call.
    """
    _check_what_is_said(module, convention, mask, mask_rank, mask_name, batch_first, output, causal)
    for name, value, allowed in (("mask_over", mask_over, OVER), ("axes", axes, (*AXES, None))):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    if batch_first is not None and axes is not None:
        raise ValueError("axes and batch_first say the same; leave out batch_first")
    if convention == "torch":
        if not hasattr(module, "num_heads"):
            raise TypeError(f"the convention 'torch' is for nn.MultiheadAttention, got {_name(module)}; try 'qkv'")
        mask = "blocked" if mask == "allowed" else mask  # torch's own polarity
        mask_name = "attn_mask" if mask is not None and mask_name is None else mask_name
        if axes is None and batch_first is None:
            batch_first = getattr(module, "batch_first", False)
    if convention == "d2l":
        mask = "lengths" if mask == "allowed" else mask
    ranks = (1, 2) if mask == "lengths" else (2, 3, 4)
    if mask_rank is not None and mask_rank not in ranks:
        raise ValueError(
            f"mask_rank must be one of {ranks} for mask={mask!r}, got {mask_rank!r}; see adapt's docstring"
        )
    if convention == "plain" and mask is not None and mask_name is None:
        mask, mask_name = _look_at_signature(module, mask, causal)
    return Adapted(
        module,
        convention,
        mask,
        mask_rank or (2 if mask == "lengths" or mask_over == "keys" else 3),
        mask_name,
        axes or ("T B d" if batch_first is False else "B T d"),
        output,
        bool(causal),
        declared=mask_rank is not None or mask == "lengths" or mask_over == "keys",
        mask_over=mask_over,
        mask_always=mask_always,
        also=dict(also or {}),
    )


def _check_what_is_said(module, convention, mask, mask_rank, mask_name, batch_first, output, causal) -> None:
    """Refuse what is no layer, and statements of another kind; see `adapt`."""
    if not callable(module):
        raise TypeError(f"expected a module or a function, got {type(module).__name__}; give layer, not its output")
    if isinstance(module, type) and issubclass(module, nn.Module):
        raise TypeError(
            f"expected a layer, got the class {_name(module)}; make one first, such as {_name(module)}(64, 8)"
        )
    for name, value, allowed in (("convention", convention, CONVENTIONS), ("mask", mask, MASKS)):
        if not (value is None or isinstance(value, str)) or value not in allowed:
            raise ValueError(
                f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}; choose one of them"
            )
    for name, value, kind, wanted in (
        ("mask_name", mask_name, str, "the name of an argument, such as 'attn_mask'"),
        ("mask_rank", mask_rank, int, "a number of axes, such as 3"),
        ("batch_first", batch_first, bool, "True or False"),
        ("output", output, (int, str), "a place, a key or an attribute of the result, such as 0"),
        ("causal", causal, bool, "True or False"),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be {wanted}, got {type(value).__name__}; leave it out if in doubt")


def pick(result: object, output: int | str | None = None) -> Tensor:
    """Return the output out of what a layer returned."""
    if output is not None:
        try:
            part = getattr(result, output) if isinstance(output, str) and hasattr(result, output) else result[output]
        except (LookupError, TypeError):
            what = (
                "mapping with " + ", ".join(map(repr, result)) if isinstance(result, Mapping) else type(result).__name__
            )
            size = f" of {len(result)}" if isinstance(result, (tuple, list)) else ""
            raise TypeError(f"the result has no part {output!r}, it is a {what}{size}; give another output=") from None
    elif isinstance(result, Tensor):
        part = result
    else:
        parts = result.values() if isinstance(result, Mapping) else result if isinstance(result, (tuple, list)) else ()
        part = next((p for p in parts if isinstance(p, Tensor)), None)
    if not isinstance(part, Tensor):
        raise TypeError(
            f"expected a tensor among the results, got {type(result).__name__}; say which with adapt(..., output=...)"
        )
    return part


def _look_at_signature(module: Callable, mask: str, causal: bool) -> tuple[str | None, str | None]:
    """Return what mask is taken and under which name, as far as the signature says it without doubt."""
    try:
        signature = inspect.signature(module.forward if isinstance(module, nn.Module) else module)
    except (TypeError, ValueError):  # built in, without a signature
        return mask, None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in signature.parameters.values() if p.kind in kinds]
    needed = [p.name for p in places if p.default is p.empty]
    if "mask" in signature.parameters and set(needed[1:]) <= {"mask"}:
        return mask, "mask"
    if len(needed) > 2 or "mask" in signature.parameters:
        raise TypeError(
            f"expected attend(x, mask=None), got {_name(module)}({', '.join(needed)}); wrap it, for example with "
            "adapt(layer, 'qkv'), 'torch' or 'd2l', or as lambda x, mask=None: layer(x, ..., mask)"
        )
    if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
        return mask, None
    if len(places) == 1:
        return None, None  # it takes x and nothing else
    if len(places) == 2:
        second = places[1].name
        if mask == "lengths" and "len" in second:
            return mask, second
        if "mask" in second and second not in OUR_NAMES:
            raise TypeError(_which_way_round(module, second))
        if len(needed) == 2 or second in OUR_NAMES or len(second) == 1:
            return mask, None
    if causal:
        return None, None
    likely = next((name for name in signature.parameters if "mask" in name), "...")
    raise TypeError(
        f"cannot see which argument of {_name(module)}({', '.join(signature.parameters)}) is the mask; say "
        "adapt(layer, mask=None) where it takes none, "
        f"or adapt(layer, mask_name={likely!r}, mask='allowed'), or 'blocked', 'float01', "
        "or 'additive' (in transformers with mask_rank=4)"
    )


def _which_way_round(module: Callable, name: str) -> str:
    """Return the refusal of a mask that may be boolean in either sense."""
    text = (
        f"{_name(module)} takes {name!r}, and whether True means may attend or blocked there cannot be seen; say "
        f"adapt(layer, mask='allowed', mask_name={name!r}), or 'blocked', 'additive', 'float01'"
    )
    if name not in PADDING_NAMES:
        return text
    return (
        f"{text}; a (B, T) mask of padding, True = hidden, is made of lengths: adapt(lambda x, lens: layer(x, "
        "torch.arange(x.shape[1]) >= lens[:, None]), mask='lengths', mask_rank=1)"
    )


def _name(module: object) -> str:
    return getattr(module, "__name__", type(module).__name__)


def is_torch_layer(module: object) -> bool:
    """Whether this is `nn.MultiheadAttention` or one of its kind, whose convention is known."""
    return isinstance(module, torch.nn.MultiheadAttention)

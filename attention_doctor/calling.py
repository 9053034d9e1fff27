"""How a layer is called: one form, `call(inputs, mask)`, around all of them; and `adapt`, by which a person says it.

The doctor speaks one language: tokens are `(B, T, d_model)`, a mask is boolean `(B, T, T)`, True = may attend, as in
`mhalib.masks`. What a layer wants instead is stated by the person who hands it over, or found by `find_call`.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from attention_doctor.argument_names import ROWS, Filler, compiled

ROLES = {
    "plain": ("queries",),
    "cross": ("queries", "context"),
    "qkv": ("queries", "keys", "values"),
    "torch": ("queries", "keys", "values"),
    "d2l": ("queries", "keys", "values"),
}
ORDER = ("queries", "context", "keys", "values")  # of the inputs of a call, whatever their order in the signature
SURE = ("mask", "m", "allowed_mask", "valid_lens")  # names that say what a mask means here
MASKS = ("allowed", "blocked", "additive", "float01", "lengths", "documents", None)
AXES = {  # of a layer's tokens -> how (B, T, d_model) becomes them, and how they become it again, in code
    "B T d": ("", ""),
    "B d T": (".transpose(1, 2).contiguous()", ".transpose(1, 2)"),
    "B d H W": (".transpose(1, 2).unflatten(2, {rows}).contiguous()", ".flatten(2).transpose(1, 2)"),
    "B H W d": (".unflatten(1, {rows})", ".flatten(1, 2)"),
    "B d F H W": (".transpose(1, 2).unflatten(2, {rows}).contiguous()", ".flatten(2).transpose(1, 2)"),
    "B F H W d": (".unflatten(1, {rows})", ".flatten(1, 3)"),
    "T d": ("[0]", "[None]"),
    "T B d": (".transpose(0, 1)", ".transpose(0, 1)"),
    "H W B d": (".unflatten(1, {rows}).movedim(0, 2)", ".movedim(2, 0).flatten(1, 2)"),
    "B T": ("[..., 0]", ""),  # a number for each token
}
BATCH_BEHIND = {"B T d": "T B d", "B H W d": "H W B d"}  # which no shape tells from those with the batch first
# Where the other inputs have axes of their own, theirs come second: text beside a picture, a map beside queries.
OTHER_AXES = {"B T d": AXES["B T d"], "B d h w": AXES["B d H W"]}
AXES |= {f"{axes}, B T d": AXES[axes] for axes in ("B d H W", "B H W d", "B d T", "B d F H W")}
AXES |= {"B T d, B d h w": AXES["B T d"]}
OVER = ("pairs", "keys", "picture")
OPEN = "torch.ones(len(x), x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)"  # a mask that hides nothing


@dataclass(frozen=True)
class Mask:
    """A form of a mask: its name, kind, rank, over what it is, and whether always, as `adapt` says of them.

    Args:
        left: whether lengths count from the end, as with padding on the left.
        folded: by how many heads it is repeated, a, a, …, b, b, …, to `(B h, T, T)`; 1 where it is not.
    """

    name: str | None
    kind: str = "allowed"
    rank: int = 3
    over: str = "pairs"
    always: bool = False
    folded: int = 1
    left: bool = False

    @property
    def shows(self) -> str:
        """What it shows: "any" keys, "shared" ones by all samples, the same "keys" for all, a "prefix", "documents"."""
        if self.kind in ("lengths", "documents"):
            return "prefix" if self.kind == "lengths" else "documents"
        return "keys" if self.over != "pairs" else "shared" if self.rank == 2 else "any"

    @property
    def open(self) -> Filler:
        """What hides nothing, as an argument made of x."""
        return Filler(self.in_code().replace("mask", f"({OPEN})"))

    def in_code(self) -> str:
        """Return how a boolean mask `(B, Tq, Tk)` becomes what the layer wants, as an expression of `mask` and `x`."""
        if self.kind == "lengths":
            return "mask.sum(-1)" + ("" if self.rank == 2 else "[:, 0]")
        if self.kind == "documents" and self.rank == 2:  # whose each token is, from 1 on
            return "torch.nn.functional.pad(~mask.diagonal(-1, 1, 2), (1, 0), value=True).cumsum(-1)"
        if self.kind == "documents":  # where each begins, and the end
            return "torch.nn.functional.pad(~mask[0].diagonal(-1), (1, 1), value=True).nonzero()[:, 0]"
        rows = f"[:, 0].unflatten(1, ({ROWS}, -1))"
        places = {
            "pairs": ("", "[0]", "", "[:, None]"),
            "keys": ("[0, 0]", "[:, 0]", "[:, :1]", "[:, None, :1]"),
            "picture": ("", f"{rows}[..., 0]", rows),
        }
        text = f"mask{places[self.over][self.rank - 1]}"
        text += f".repeat_interleave({self.folded}, 0)" if self.folded > 1 else ""
        kinds = {
            "additive": f"x.new_zeros({text}.shape).masked_fill(~{text}, -torch.inf)",
            "lowered": f"x.new_zeros({text}.shape).masked_fill(~{text}, -1.0)",  # a bias, which hides nothing
            "blocked": f"~{text}",
            "float01": f"{text}.to(x.dtype)",
        }
        return kinds.get(self.kind, text)


@dataclass
class Adapted:
    """A layer in the doctor's form; made by `adapt`, which says what its fields mean, or by `find_call`.

    Args:
        inputs: role and keyword of each of its inputs in their order; None for the keyword where it goes by place.
        mask: the form of mask that it is given now.
        masks: for each mask that it takes, the forms to try.
        lengths: the numbers of tokens that it takes, where it takes only some.
        widths: features of each input in the order of `ORDER`; () where they are those of the first.
        pooled: whether its outputs are others than one for each token.
        bare: whether each of its outputs is one number, without an axis of its own.
        guessed: whether what its further inputs are is a guess.
        made_up: of which arguments nothing is known but that it runs with what `also` has for them.
        stated: whether a person said what its masks mean.
    """

    target: Callable
    inputs: tuple[tuple[str, str | None], ...] = (("queries", None),)
    mask: Mask | None = None
    masks: Mapping[str | None, Sequence[Mask]] = field(default_factory=dict)
    axes: str = "B T d"
    output: object = None
    causal: bool = False
    also: Mapping[str, object] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    widths: tuple[int, ...] = ()
    pooled: bool = False
    bare: bool = False
    guessed: bool = False
    made_up: tuple[str, ...] = ()
    stated: bool = False

    @property
    def roles(self) -> list[str]:
        """What its inputs are, in the order in which they are handed over."""
        return sorted((role for role, _ in self.inputs), key=ORDER.index)

    @property
    def is_torch(self) -> bool:
        """Whether this is `nn.MultiheadAttention` or one of its kind, whose convention is known."""
        return isinstance(self.target, nn.MultiheadAttention) and (
            type(self.target).forward is nn.MultiheadAttention.forward
        )

    @property
    def module(self) -> nn.Module | None:
        """The module whose parameters it computes with, if it is one or a method of one."""
        owner = getattr(self.target, "__self__", self.target)
        return owner if isinstance(owner, nn.Module) else None

    def __call__(self, inputs: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Return the output `(B, T, d_out)` for inputs `(B, T, d)` and a boolean mask `(B, T, T)`."""
        if self.axes != "T d" or len(inputs[0]) == 1:
            return self._called(inputs, mask)
        samples = range(len(inputs[0]))
        one = [self._called([x[i : i + 1] for x in inputs], None if mask is None else mask[i : i + 1]) for i in samples]
        return torch.cat(one)

    def _called(self, inputs: Sequence[Tensor], mask: Tensor | None) -> Tensor:
        result = self.result(inputs, mask)
        out = pick(result, self.output)
        if self.output is None:  # from now on it is said which part that is
            self.output = next((place for place, part in parts(result) if part is out), None)
        out = turned_back(out, self.axes)[(..., None) if self.bare else ...]
        return out.flatten(1, -2) if self.pooled and out.ndim > 3 else out

    def turned(self, tokens: int, masked: bool) -> list[tuple[str | None, Filler]]:
        """Return keyword and expression of each input and last of the mask, which are x, y, z and mask in it."""
        rows, names = picture(tokens, self.axes), dict(zip(self.roles, "xyz", strict=False))
        first, _, second = self.axes.partition(", ")
        there = [AXES[first][0], *[OTHER_AXES[second][0] if second else AXES[first][0]] * len(self.inputs)]
        made = [(word, Filler(names[role] + there[i].format(rows=rows))) for i, (role, word) in enumerate(self.inputs)]
        return [*made, (self.mask.name, Filler(self.mask.in_code()))] if masked else made

    def result(self, inputs: Sequence[Tensor], mask: Tensor | None = None, **more) -> object:
        """Return whatever the layer returns; `more` are arguments besides those that it always gets."""
        x = inputs[0]
        if mask is None and self.mask is not None and self.mask.always:
            mask = compiled(OPEN)(x)
        masked = mask is not None and self.mask is not None
        made = [(word, value(*inputs, mask=mask).contiguous()) for word, value in self.turned(x.shape[1], masked)]
        also = {name: value(x) if callable(value) else value for name, value in self.also.items()}
        before = [value.clone() for _, value in made]
        args, words = [value for word, value in made if word is None], {word: value for word, value in made if word}
        result = self.target(*args, **also | words | more)
        names = dict(zip(self.roles, "xyz", strict=False))
        what = [*(f"the input {names[role]}" for role, _ in self.inputs), "the mask"]
        self.written = {
            name: f"{int((value != old).sum())} of its {old.numel()} entries changed"
            for name, (_, value), old in zip(what, made, before, strict=False)
            if not torch.equal(value, old)
        }
        return result

    written: ClassVar[dict[str, str]] = {}  # what the last call wrote into: which input, or the mask, and how much

    def __str__(self) -> str:
        """Return the call of `adapt` that says how it is called."""
        mask, roles = self.mask, [role for role, _ in self.inputs]
        if self.is_torch and (mask is None or mask.name == "attn_mask"):
            return "adapt(layer, 'torch')"
        convention = next((name for name, each in ROLES.items() if [*each] == roles), None)
        convention = "torch" if self.is_torch else convention
        kind, rank = (mask.kind, {"lengths": 2, "documents": 1}.get(mask.kind, 3)) if mask else (None, None)
        keywords = tuple(keyword for _, keyword in self.inputs)
        options = [  # name, value, what need not be said
            ("inputs", tuple(roles), () if convention is None else tuple(roles)),
            ("keywords", keywords, (None,) * len(roles)),
            ("mask", kind, "allowed"),
            *([("mask_rank", mask.rank, rank), ("mask_name", mask.name, None)] if mask else []),
            *([("mask_over", mask.over, "pairs"), ("mask_always", mask.always, False)] if mask else []),
            ("axes", self.axes, "B T d"),
            ("output", self.output or None, None),
            ("causal", self.causal, False),
            ("also", {n: value for n, value in self.also.items() if not mask or n != mask.name}, {}),
        ]
        first = ["layer"] if convention in ("plain", None) else ["layer", repr(convention)]
        return f"adapt({', '.join(first + [f'{name}={value!r}' for name, value, usual in options if value != usual])})"

    def as_function(self, tokens: int) -> list[str]:
        """Return the lines of a function `attend(x, mask=None)` around `layer` that calls it so, in plain torch."""
        path = self.output if isinstance(self.output, tuple) else () if self.output is None else (self.output,)
        picked = "".join(f".{part}" if isinstance(part, Attribute) else f"[{part!r}]" for part in path)

        def call(masked: bool) -> str:
            made = self.turned(tokens, masked)
            also = [(name, value) for name, value in self.also.items() if name not in dict(made)]
            given = [(word, getattr(value, "text", repr(value))) for word, value in [*made, *also]]
            said = ", ".join(f"{word}={text}" if word else text for word, text in given)
            return f"return layer({said}){picked}{AXES[self.axes][1]}{'[..., None]' * self.bare}"

        others = "yz"[: len(self.roles) - 1]
        lines = [f"def attend(x{''.join(f', {name}=None' for name in others)}, mask=None):"]
        lines += [f"    {name} = x if {name} is None else {name}" for name in others]
        if self.mask is not None:
            lines += ["    if mask is None:", f"        {f'mask = {OPEN}' if self.mask.always else call(False)}"]
        return [*lines, f"    {call(self.mask is not None)}"]


class Attribute(str):
    """The name of an attribute of a result."""

    __slots__ = ()


def picture(tokens: int, axes: str = "H W") -> tuple[int, ...]:
    """Return rows and columns of so many tokens as a picture; before them its frames, where the axes have some."""
    divisors = [n for n in range(1, tokens + 1) if tokens % n == 0]
    frames = [max(n for n in divisors if n**3 <= tokens)] if "F" in axes else []
    each = tokens // math.prod(frames)
    rows = max(n for n in divisors if each % n == 0 and n * n <= each)
    return *frames, rows, each // rows


def turned_back(out: Tensor, axes: str) -> Tensor:
    """Return an output with the axes `(B, T, d_out)`; what has other axes, as it is."""
    if out.ndim != len(axes.partition(",")[0].split()):
        return out[None] if axes == "T d" and out.ndim == 1 else out
    return compiled("x" + AXES[axes][1])(out)


def pick(result: object, output: object = None) -> Tensor:
    """Return the output out of what a layer returned: by a place, a key, an attribute, or a path of these."""
    found = dict(parts(result))
    if output is None and found:
        return next(iter(found.values()))
    if output not in found:
        what = f"among the results, a {type(result).__name__}, there is no tensor {'' if output is None else output!r}"
        raise TypeError(f"{what}; say which part is the output with adapt(..., output=...)")
    return found[output]


def parts(result: object, path: tuple = ()) -> Iterator[tuple[object, Tensor]]:
    """Yield the tensors of a result and how each is reached: a place, a key, an attribute, or a path of these."""
    if isinstance(result, Tensor):
        yield (None if not path else path[0] if len(path) == 1 else path), result
    elif len(path) < 3:
        of = dict(enumerate(result)) if isinstance(result, (tuple, list)) else result
        if not isinstance(of, dict):
            of = {Attribute(name): part for name, part in getattr(result, "__dict__", {}).items() if name[0] != "_"}
        for key, part in of.items():
            yield from parts(part, (*path, key))


# ----------------------------------------------------------------------------------------------- said by a person


def adapt(
    module: Callable,
    convention: str = "plain",
    *,
    inputs: Sequence[str] | None = None,
    keywords: Sequence[str | None] | None = None,
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
        inputs: the roles of its inputs in their order, where that is another one: of "queries", "context", "keys",
            "values".
        keywords: for each input its keyword, None where it goes by its place.
        mask: what it wants: "allowed" (True = may attend), "blocked" (True = hidden), "additive" (0 and -inf),
            "float01" (1.0 = may attend), "lengths" (valid_lens), "documents" (cu_seqlens: where each of the packed ones
            begins, and the end), or None where it takes no mask.
        mask_rank: axes of the mask: 2 for `(T, T)` only, 3 for `(B, T, T)`, 4 for `(B, 1, T, T)`. For lengths 1 for
            `(B,)` only, 2 where `(B, T)` is understood too. When left out, the doctor tries.
        mask_name: the keyword under which the mask is given; when left out, the argument behind the inputs.
        mask_over: "pairs" of a query and a key; or "keys", the same for all queries, as for padding: then a mask of
            rank 1 is `(T,)`, of rank 2 `(B, T)`, of rank 3 `(B, 1, T)`, of rank 4 `(B, 1, 1, T)`; or "picture": of rank
            2 `(B, H)`, of rank 3 `(B, H, W)`.
        mask_always: True where a mask takes the place of one that the layer makes by itself; then it always gets one.
        batch_first: False for `(T, B, d_model)`; when left out, what a torch layer says of itself, otherwise True.
        axes: of x, where that does not say it: "B T d", "T B d", "B d T" (channels first), "B d H W" and "B H W d"
            (pictures), "B d F H W" and "B F H W d" (frames of a video), "T d" (no batch), "B T" (one number each);
            behind a comma those of the other inputs where they differ: "B d H W, B T d" (text beside a picture),
            "B T d, B d h w" (queries and a map), and the like.
        output: which part of the result is the output: a place in a tuple, a key, or an attribute. When left out, a
            tensor or the first tensor of a tuple.
        causal: True for a layer that hides later tokens by itself.
        also: further arguments by their names; a function gets x `(B, T, d_model)` and returns the argument.

    Raises:
        TypeError: `module` cannot be called.
        ValueError: an option has a value that is not in the list above.

    Notebook 04 teaches the kinds of masks, notebook 06 the ways to call.
    """
    module = callable_of(module)
    if isinstance(module, type) and issubclass(module, nn.Module):
        name = module.__name__
        raise TypeError(f"expected a layer, got the class {name}; make one first, such as {name}(64, 8)")
    roles = tuple(inputs or ROLES.get(convention, ()))
    lengths = convention == "d2l" or mask in ("lengths", "documents")
    ranks = (1, 2) if lengths else {"pairs": (2, 3, 4), "keys": (1, 2, 3, 4)}.get(mask_over, (2, 3))
    checks = [
        ("convention", [convention], tuple(ROLES)),
        ("mask", [mask], MASKS),
        ("mask_over", [mask_over], OVER),
        ("axes", [axes], (*AXES, None)),
        ("mask_rank", [mask_rank], (*ranks, None)),
        ("inputs", roles, ORDER),
    ]
    for name, given, allowed in checks:
        if bad := [value for value in given if value not in allowed]:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {bad[0]!r}")
    if convention == "torch" and not hasattr(module, "num_heads"):
        raise TypeError(f"the convention 'torch' is for nn.MultiheadAttention, got {name_of(module)}; try 'qkv'")
    mask = {"torch": "blocked", "d2l": "lengths"}.get(convention, mask) if mask == "allowed" else mask
    also, heads, name = dict(also or {}), 1, mask_name
    if convention == "torch":
        also, heads, name = {"need_weights": False, **also}, module.num_heads, mask_name or "attn_mask"
        batch_first = getattr(module, "batch_first", False) if batch_first is None and axes is None else batch_first
    called = tuple(zip(roles, keywords or [None] * len(roles), strict=True))
    masks, parameters = {}, parameters_of(module)
    if mask is not None and (name or not parameters or len(parameters) > len(roles)):
        name = name or _mask_argument(module, len(roles), also)
        if name in parameters and parameters[name].default is inspect.Parameter.empty:
            also = {name: None, **also}
        rank = mask_rank or (2 if mask == "lengths" or mask_over != "pairs" else 1 if mask == "documents" else None)
        form = Mask(name, mask, rank or 3, mask_over, mask_always)
        masks[name] = [form] if rank else [replace(form, folded=heads), *(replace(form, rank=r) for r in (4, 2))]
    axes = axes or ("T B d" if batch_first is False else "B T d")
    return Adapted(module, called, None, masks, axes, output, bool(causal), also, stated=True)


def _mask_argument(module: Callable, inputs: int, also: Mapping[str, object]) -> str | None:
    """Return the name of the argument that a mask is given as: `mask`, one called so, or the one behind the inputs.

    Raises:
        TypeError: none can be told.
    """
    found = [p for p in parameters_of(module).values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    left = {p.name: p.default is p.empty for p in found[inputs:] if p.name not in also}
    sure = [n for n in left if n in SURE or (found[0].name.startswith("q") and ("mask" in n or "len" in n))]
    likely = next(iter(sure or [n for n in left if len(left) == 1 and "mask" not in n]), None)
    if (likely is None and left) or any(needed for n, needed in left.items() if n != likely):
        some = next((n for n in left if "mask" in n), "...")
        raise TypeError(
            f"cannot see which argument of {name_of(module)}({', '.join(p.name for p in found)}) is the mask, what "
            f"True means in it, or what the others are; say adapt(layer, mask_name={some!r}, mask='allowed'), or "
            "'blocked', 'float01', 'additive' (in transformers with mask_rank=4), mask=None, also={...}; or hand over "
            "the layer itself, and it is found out; or wrap it, as in lambda x, mask=None: layer(x, ..., mask)"
        )
    return likely


def callable_of(target: object) -> Callable:
    """Return what can be called, of a compiled layer the layer; refuse anything else."""
    if not callable(target):
        raise TypeError(f"expected a module or a function, got {type(target).__name__}; give layer, not its output")
    return getattr(target, "_orig_mod", target)


def name_of(target: object) -> str:
    """Return its name, or that of its class."""
    return getattr(target, "__name__", type(target).__name__)


def parameters_of(target: Callable) -> Mapping[str, inspect.Parameter]:
    """Return the arguments in the signature of a layer or a function by name; none where it has no signature."""
    try:
        return inspect.signature(target.forward if isinstance(target, nn.Module) else target).parameters
    except (TypeError, ValueError):
        return {}

"""Attention that a model multiplies by hand, told from what becomes of its tensors.

Scores are a product of two activations; a softmax over their last axis makes them weights; a product of these with
values makes them attention. What comes between (scaling, masks, dropout, changes of shape or dtype) is followed. The
softmax of a vocabulary or of a router starts from a linear layer, or meets no values, and is not taken.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

PRODUCTS = {"matmul", "__matmul__", "bmm"}
ADDED_PRODUCTS = {"baddbmm", "baddbmm_"}
SOFTMAX = {"softmax", "_softmax"}
DROPOUT = {"dropout", "dropout_", "alpha_dropout", "feature_dropout"}
ENDS = {"layer_norm", "rms_norm", "conv1d", "conv2d", "conv3d", "embedding", "as_strided", "pad", "log_softmax"}
PLAIN = {  # what leaves scores a multiple of q k^T, plus a mask
    *("add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__", "masked_fill", "masked_fill_", "where"),
    *("to", "float", "double", "half", "bfloat16", "type_as", "type", "view", "reshape", "contiguous", "clone"),
    *("unsqueeze", "squeeze", "flatten", "unflatten", "__getitem__", "cat", "expand", "transpose", "permute"),
    *("masked_fill", "detach", "nan_to_num", "minimum", "maximum", "clamp", "clamp_", "__setitem__"),
}
TURNS = {"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "t", "mT", "T"}
TIMES = {"mul", "__mul__", "__rmul__", "__imul__", "mul_", "multiply"}
OVER = {"div", "__div__", "__truediv__", "__itruediv__", "div_", "divide", "true_divide"}


@dataclass
class Tag:
    """What is known of a tensor on its way from scores to attention."""

    step: str  # "scores" | "weights"
    q: Tensor | None = None
    k: Tensor | None = None
    scale: float | None = 1.0  # None: the scores are no multiple of q k^T
    scores: Tensor | None = None  # what went into the softmax
    plain: Tensor | None = None  # the weights without dropout
    part: bool = False  # columns were cut off
    taken: list | None = None  # shared by all that comes of one softmax; not empty once it was attention


class Tags:
    """The tags of living tensors."""

    def __init__(self):
        self._kept: dict[int, tuple[weakref.ref, Tag]] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def get(self, x: object) -> Tag | None:
        """Return the tag of a tensor, or None."""
        found = self._kept.get(id(x))
        return found[1] if found is not None and found[0]() is x else None

    def put(self, x: Tensor, tag: Tag) -> None:
        """Tag a tensor for as long as it lives."""
        key, kept = id(x), self._kept

        def forget(ref):
            if key in kept and kept[key][0] is ref:
                del kept[key]

        kept[key] = (weakref.ref(x, forget), tag)

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()


def tensors(args: tuple, kwargs: dict) -> Iterator[Tensor]:
    """Yield the tensors among arguments, also those in lists."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from (y for y in x if isinstance(y, Tensor))


def swapped(args: tuple, kwargs: dict, old: Tensor, new: Tensor) -> tuple[tuple, dict]:
    """Return the arguments with one tensor in the place of another."""

    def swap(x):
        if isinstance(x, (list, tuple)):
            return type(x)(swap(y) for y in x) if type(x) in (list, tuple) else x
        return new if x is old else x

    return tuple(swap(x) for x in args), {key: swap(x) for key, x in kwargs.items()}


def follow(tags: Tags, func: Callable, name: str, args: tuple, kwargs: dict, out: object) -> None:
    """Tag the result of a torch function by what went in; products of weights are the matter of `consumed`."""
    if not isinstance(out, Tensor) or not out.is_floating_point():
        return
    if name in PRODUCTS or name in ADDED_PRODUCTS or name == "einsum":
        if (tag := _product(name, args, kwargs)) is not None:
            tags.put(out, tag)
        return
    if name == "linear":
        _additive(tags, args, out)
    if not tags or name in ENDS:
        return
    given, tag = next(((x, t) for x in tensors(args, kwargs) if (t := tags.get(x)) is not None), (None, None))
    if tag is None:
        return
    if name in SOFTMAX:
        if tag.step == "scores" and _last_axis(name, args, kwargs, given):
            # A model may mask its scores in place only before this: they are kept as they are.
            tags.put(out, replace(tag, step="weights", scores=given, taken=[]))
    elif tag.step == "scores":
        if _same_rows(given, out):
            tag = replace(tag, q=None, k=None) if name in TURNS else tag
            tags.put(out, replace(tag, scale=_scaled(tag.scale, name, args, kwargs)))
    elif _same_rows(given, out):
        _weights(tags, tag, given, func, name, args, kwargs, out)


def _product(name: str, args: tuple, kwargs: dict) -> Tag | None:
    """Return the tag of a product of two activations with axes of their own, which may be scores."""
    if name == "einsum":
        operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
        if len(operands) == 2 and all(isinstance(x, Tensor) and x.ndim >= 3 for x in operands):
            return None if any(isinstance(x, nn.Parameter) for x in operands) else _einsum_scores(args[0], operands)
        return None
    if name in ADDED_PRODUCTS:
        first, second = [*args, kwargs.get("batch1"), kwargs.get("batch2")][1:3] if len(args) < 3 else args[1:3]
        if len(args) < 3:
            first, second = kwargs.get("batch1", first), kwargs.get("batch2", second)
    else:
        first, second = (*args, kwargs.get("other", kwargs.get("mat2")))[:2]
    if not all(isinstance(x, Tensor) and x.ndim >= 3 and not isinstance(x, nn.Parameter) for x in (first, second)):
        return None
    scale = kwargs.get("alpha", 1.0) if name in ADDED_PRODUCTS else 1.0
    return Tag("scores", q=first, k=second.transpose(-2, -1), scale=float(scale))


def _einsum_scores(equation: object, operands: tuple) -> Tag:
    """Return the tag of scores by einsum, with queries and keys (*, T, d) if the equation is that of q k^T."""
    inputs, _, out = str(equation).replace(" ", "").partition("->")
    names = inputs.split(",")
    summed = (set(names[0]) & set(names[-1])) - set(out)
    if "." in inputs or len(summed) != 1 or len(out) < 3:
        return Tag("scores")
    lead, ends, found = out[:-2], out[-2:], []
    for end in ends:  # the operand of queries, then that of keys
        order = lead + end + min(summed)
        fitting = [i for i in (0, 1) if sorted(names[i]) == sorted(order)]
        if len(fitting) != 1:
            return Tag("scores")
        found.append(operands[fitting[0]].permute([names[fitting[0]].index(a) for a in order]))
    return Tag("scores", q=found[0], k=found[1])


def _additive(tags: Tags, args: tuple, out: Tensor) -> None:
    """Tag scores of additive attention: one number for each pair of query and key, out of a linear layer."""
    if out.ndim == 4 and out.shape[-1] == 1 and len(args) > 1 and len(args[1]) == 1:
        tags.put(out, Tag("scores", scale=None))


def _weights(tags: Tags, tag: Tag, given: Tensor, func: Callable, name: str, args: tuple, kwargs: dict, out) -> None:
    """Tag what was made of weights; behind dropout, the same is made of the weights without it."""
    plain = tag.plain
    if name in DROPOUT:
        # In place, the weights are gone by now; `before_dropout` kept them.
        plain = given if plain is None and out is not given else plain
    elif plain is not None:
        args, kwargs = swapped(args, kwargs, given, plain)
        plain = func(*args, **kwargs)
    cut = out.shape[-1] < given.shape[-1] and out.shape[:-1] == given.shape[:-1]
    tags.put(out, replace(tag, plain=plain, part=tag.part or cut))


def before_dropout(tags: Tags, name: str, args: tuple, kwargs: dict) -> None:
    """Keep the weights that dropout is about to overwrite."""
    if name in DROPOUT and (name.endswith("_") or kwargs.get("inplace") or (len(args) > 3 and args[3] is True)):
        tag = tags.get(args[0]) if args else None
        if tag is not None and tag.step == "weights" and tag.plain is None:
            tags.put(args[0], replace(tag, plain=args[0].detach().clone()))


def _last_axis(name: str, args: tuple, kwargs: dict, x: Tensor) -> bool:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return dim in (-1, x.ndim - 1)


def _same_rows(x: Tensor, out: Tensor) -> bool:
    """Return whether a result still holds a number for each cell, but for columns added or cut at the end."""
    if out.numel() == x.numel():
        return True
    wider = out.ndim == x.ndim and out.shape[-1] == x.shape[-1] and out.shape[-2] == x.shape[-2]  # + bias of a batch
    return (wider and out.numel() > x.numel()) or (out.shape[:-1] == x.shape[:-1] and out.shape[-1] > 1)


def _scaled(scale: float | None, name: str, args: tuple, kwargs: dict) -> float | None:
    """Return the factor on q k^T after one more function."""
    if scale is None or name in PLAIN:
        return scale
    if name not in TIMES | OVER:
        return None
    numbers = [x for x in (*args, *kwargs.values()) if isinstance(x, (int, float)) and not isinstance(x, bool)]
    numbers += [float(x) for x in tensors(args, kwargs) if x.numel() == 1 and x.ndim == 0]
    if len(numbers) != 1:
        return None
    return scale * numbers[0] if name in TIMES else scale / numbers[0]


def consumed(tags: Tags, name: str, args: tuple, kwargs: dict) -> tuple[Tensor, Tag, Tensor | None] | None:
    """Return weights that a product is about to spend on values, their tag, and the values (*, Tk, d) if known.

    The weights come as (*, Tq, Tk), without dropout.
    """
    if not tags:
        return None
    if name == "einsum":
        return _einsum(tags, args)
    if name not in PRODUCTS and name not in ADDED_PRODUCTS:
        return None
    given = list(tensors(args, kwargs))[-2:]
    if len(given) < 2 or min(x.ndim for x in given) < 3:
        return None
    for x, values, turned in ((given[0], given[1], False), (given[1], given[0], True)):
        tag = tags.get(x)
        if tag is None or tag.step != "weights" or tag.taken:
            continue
        weights = x if tag.plain is None else tag.plain
        if turned:  # v^T @ weights^T: then the rows of the map stand in columns
            if not _sums_to_one(weights.detach().transpose(-2, -1)):
                continue
            weights, values = weights.transpose(-2, -1), values.transpose(-2, -1)
        tag.taken.append(True)
        return weights, tag, values
    return None


def _einsum(tags: Tags, args: tuple) -> tuple[Tensor, Tag, Tensor | None] | None:
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    if len(operands) != 2 or not isinstance(args[0], str) or "->" not in args[0]:
        return None
    inputs, out = args[0].replace(" ", "").split("->")
    names = inputs.split(",")
    for i in (0, 1):
        tag = tags.get(operands[i])
        if tag is None or tag.step != "weights" or tag.taken or operands[1 - i].ndim < 3:
            continue
        weights = operands[i] if tag.plain is None else tag.plain
        own, other = names[i], names[1 - i]
        if "." in own:  # "...qk": the dots stand for leading axes
            tag.taken.append(True)
            return weights, tag, None
        keys = [a for a in own if a in other and a not in out]
        queries = [a for a in own if a in out and a not in other]
        if len(keys) != 1 or not queries:
            continue
        query = own[-2] if own[-2] in queries else queries[-1]
        order = [a for a in own if a not in (query, keys[0])] + [query, keys[0]]
        tag.taken.append(True)
        return weights.permute([own.index(a) for a in order]), tag, None
    return None


def _sums_to_one(x: Tensor) -> bool:
    return bool(((x.sum(-1) - 1).abs() < 0.05).all())


def sums_of(weights: Tensor, part: bool) -> str:
    """Return what the rows of a map sum to: "weights" (1 or 0), "part" (at most 1), "positive" or "signed"."""
    slack = 0.02 if weights.dtype in (torch.float16, torch.bfloat16) else 1e-3
    total = weights.sum(-1, dtype=torch.float32)
    if bool((weights < -slack).any()):
        return "signed"
    if bool((total > 1 + slack).any()):
        return "positive"
    return "part" if part or bool(((total < 1 - slack) & (total > slack)).any()) else "weights"

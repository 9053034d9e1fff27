"""Every structure in which attention weights are handed out, taken apart into single layers `(B, h, Tq, Tk)`.

Tensors and arrays, lists with gaps, dicts, what `capture` gathered, what models of transformers return, what torch's
layers return. Numbers are not looked at here, and only what several passes of a model made is copied; the steps of
`generate()` are put together in `generated.py`.
"""

import re
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from headview.base import check_held
from headview.head_view.check_rows import KINDS
from headview.head_view.generated import are_steps, stitched
from mhalib.arguments import check_weights_kind

HOW_TO_ASK = (
    "ask for the weights: need_weights=True, average_attn_weights=False in nn.MultiheadAttention; in transformers "
    'attn_implementation="eager" when the model is loaded, and output_attentions=True when it is called'
)
HOW_TO_GET_THEM = f"""{HOW_TO_ASK}
or let capture make them:
    from headview import capture
    with capture(model) as maps:
        model(inputs)
    HeadView(maps, tokens)"""
_PARTS = {  # what an output of transformers calls its maps: what the part is called
    "attentions": "",
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "cross",
    "vision_attentions": "vision",  # LXMERT
    "language_attentions": "text",
    "cross_encoder_attentions": "cross",
}
_HALVES = {  # of CLIP and its heirs, CLAP, BLIP-2: outputs inside an output
    "text_model_output": "text",
    "vision_model_output": "vision",
    "audio_model_output": "audio",
    "vision_outputs": "vision",
    "language_model_outputs": "text",
}
_ROLES = {  # how a piece of a module's name begins that tells which part it belongs to
    "vision": ("vision", "visual", "image_encoder"),
    "text": ("text", "language"),
    **{role: role for role in ("cross", "encoder", "decoder")},
}
_WINDOWS = "its maps hold the windows of the image along the axis of samples, each with tokens of its own"
_NEIGHBOURS = "its last axis holds a neighbourhood of each query, not keys"
_NO_KEYS = {  # how the classes of outputs begin whose last axis is something else: what it is
    "Longformer": "its last axis holds global tokens and the places of a sliding window around each query, not keys",
    "LED": "the last axis of its encoder holds places of a sliding window around each query, not keys",
    "Swin": _WINDOWS,
    "MaskFormerSwin": _WINDOWS,
    "Donut": _WINDOWS,
    "Dinat": _NEIGHBOURS,
    "Nat": _NEIGHBOURS,
    "Reformer": "its queries and keys are sorted into chunks",
}


@dataclass
class Layer:
    """One layer as it was found, with what is known about it."""

    weights: Tensor  # (B, h, Tq, Tk)
    name: str
    place: int  # in the list it came from, gaps counted
    of: tuple[str, int]  # that list: what it is called, how long it is
    role: str = ""  # "encoder", "decoder", "cross", "text", "vision", or the name of a part
    named: bool = False  # the model or the reader gave it this name
    allowed: Tensor | None = None
    kv_heads: int | None = None
    scale: float | None = None
    sums: str = "weights"
    inside: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None)  # queries, keys, values
    steps: bool = False  # put together from steps of generate()
    averaged: bool = False  # one map per sample, the mean over its heads
    passes: int = 1  # of the model, whose samples stand behind each other


def layers_of(weights, num_heads: int | None = None, samples: int = 0) -> list[Layer]:
    """Return the layers that are in what the reader gave.

    Args:
        num_heads: of each layer, where it is known.
        samples: for how many samples there are labels, 0 where they were not told apart.
    """
    _refuse_others(weights)
    if isinstance(weights, list) and hasattr(weights, "names") and hasattr(weights, "kinds"):
        return _captured(weights)
    if _is_output_object(weights):
        return _of_an_output(weights)
    if isinstance(weights, dict):
        return _of_a_dict(weights, num_heads)
    if isinstance(weights, (list, tuple)):
        return _of_a_list(weights, num_heads, samples)
    tensor = as_tensor(weights, "weights", most=5)
    if tensor.ndim == 5:
        one, two = tensor.shape[:2]
        if (one == 1 < two and samples != two) or (samples == one != two):
            tensor = tensor.transpose(0, 1)  # (B, layers, h, Tq, Tk), as some libraries stack them
    if tensor.ndim == 5 or (tensor.ndim == 4 and samples != len(tensor)):
        return [as_layer(part, "weights", i, len(tensor), num_heads) for i, part in enumerate(tensor)]
    return [as_layer(tensor, "weights", 0, 1, num_heads, samples)]


def _refuse_others(weights) -> None:
    """Refuse what is no weights at all with what leads to them."""
    kind = type(weights).__name__
    if weights is None:
        raise TypeError(f"weights is None; {HOW_TO_GET_THEM}")
    if isinstance(weights, nn.Module):
        raise TypeError(f"weights is the model itself, {kind}; call it, and {HOW_TO_GET_THEM}")
    if hasattr(weights, "convert_ids_to_tokens"):
        raise TypeError(
            f"weights is a tokenizer, {kind}; its labels are the tokens, tokenizer.convert_ids_to_tokens(ids), and "
            f"the weights come from the model: {HOW_TO_GET_THEM}"
        )
    if hasattr(weights, "input_ids") or (isinstance(weights, dict) and "input_ids" in weights):
        raise TypeError(f"weights is what a tokenizer returned, {kind}; give it to the model, and {HOW_TO_ASK}")


# ------------------------------------------------------------------------------------------------------- outputs


def _is_output_object(given) -> bool:
    return any(hasattr(given, name) for name in (*_PARTS, *_HALVES))


def _of_an_output(output) -> list[Layer]:
    """Return the layers of what a model of transformers returned, by their parts."""
    found = []
    for half, role in _HALVES.items():
        inner = getattr(output, half, None)
        if inner is not None and getattr(inner, "attentions", None):
            found += [_of_part(layer, role) for layer in _of_an_output(inner)]
    for name, role in _PARTS.items():
        maps = getattr(output, name, None)
        if maps is None or len(maps) == 0:
            continue
        kind = type(output).__name__
        for start, why in _NO_KEYS.items():
            if kind.startswith(start) and role in ("", "encoder"):
                raise ValueError(
                    f"weights is a {kind}, which is no map from queries to keys: {why}; give what can be read as one, "
                    "such as a window or a part that attends to all its keys, as tensors (h, Tq, Tk)"
                )
        if role == "" and getattr(output, "cross_attentions", None):
            role = "decoder"  # one that looks at another model's output
        if are_steps(maps):
            found += _of_steps(maps, role, getattr(output, "beam_indices", None))
        else:
            found += _of_each(maps, name, role=role)
    if not found:
        raise TypeError(f"weights is a {type(output).__name__} that holds no attention weights; {HOW_TO_GET_THEM}")
    return found


def _of_each(parts, name: str, **known) -> list[Layer]:
    return [as_layer(part, f"{name}[{i}]", i, len(parts), **known) for i, part in enumerate(parts) if part is not None]


def _of_part(layer: Layer, role: str) -> Layer:
    return replace(layer, role=role, of=(role, layer.of[1]))


def _of_steps(steps, role: str, ancestors: Tensor | None = None) -> list[Layer]:
    return [
        Layer(weights, f"layer {place}", place, (role, len(steps[0])), role, allowed=allowed, steps=True)
        for place, weights, allowed in stitched(steps, role, ancestors)
    ]


def _captured(maps) -> list[Layer]:
    """Return the layers of what `capture` gathered."""
    if not maps:
        raise ValueError(
            "capture gathered no maps; call the model inside the with block, and show them behind it. "
            f"{missed_by(maps)}Or {HOW_TO_ASK}"
        )
    layers = _of_each(maps, "weights")
    for i, layer in enumerate(layers):
        layer.name, layer.named = maps.names[i], True
        layer.role = "cross" if maps.kinds[i] == "cross" else role_of(layer.name)
        layer.allowed, layer.kv_heads, layer.scale = maps.allowed[i], maps.kv_heads[i], maps.scales[i]
        layer.sums = maps.sums[i]
        layer.inside = tuple(each and each[i] for each in (maps.queries, maps.keys, maps.values))
    same: dict[tuple, list[Layer]] = defaultdict(list)  # each layer in all passes
    before = Counter()  # calls of a module in a pass
    for layer, number in zip(layers, maps.passes, strict=True):
        module = re.sub(r" call \d+$", "", layer.name)
        before[module, number] += 1
        nth = before[module, number]
        layer.name = f"{module} call {nth}" if nth > 1 else module
        same[layer.name, layer.role, layer.kv_heads, layer.weights.shape].append(layer)
    return [_passes_of(each) if len(each) > 1 else each[0] for each in same.values()]


def _passes_of(layers: list[Layer]) -> Layer:
    """Return what several passes made of one layer, such as the steps of a diffusion model, as its samples."""

    def joined(given) -> Tensor | None:
        return None if any(x is None for x in given) else torch.cat(given)

    scales, allowed = {each.scale for each in layers}, None
    if any(each.allowed is not None for each in layers):
        masks = [torch.ones(1, 1, 1, 1).bool() if each.allowed is None else each.allowed for each in layers]
        size = torch.broadcast_shapes(*(mask.shape[1:] for mask in masks))
        allowed = torch.cat([mask.expand(len(layers[0].weights), *size) for mask in masks])
    return replace(
        layers[0],
        weights=torch.cat([each.weights for each in layers]),
        allowed=allowed,
        scale=scales.pop() if len(scales) == 1 else None,
        sums=max((each.sums for each in layers), key=KINDS.index),
        inside=tuple(map(joined, zip(*(each.inside for each in layers), strict=True))),
        passes=len(layers),
    )


def missed_by(given) -> str:
    """Return what `capture` could not show of a model, by parts or by modules, and why; "" of anything else."""
    if not getattr(given, "missed", None):
        return ""
    shown, found = set(map(role_of, given.names)), {}
    for name, why in given.missed.items():
        role = role_of(name)
        found.setdefault(why, {})[name if role in shown else role or name] = None
    return "".join(f"Not shown: {', '.join(names)}; {why}. " for why, names in found.items())


def role_of(name: str) -> str:
    """Return which part of a model a module belongs to, by its name; "" where that does not show."""
    for piece in name.lower().replace("/", ".").split("."):
        for role, starts in _ROLES.items():
            if piece.startswith(starts):
                return role
    return ""


# ----------------------------------------------------------------------------------------------- dicts and lists


def _of_a_dict(given: dict, num_heads: int | None) -> list[Layer]:
    """Return the layers of a dict of maps, of lists of maps, or of outputs."""
    if not given:
        raise ValueError("weights is an empty dict; give a map, or a list of maps, for each name")
    layers = []
    for i, (name, value) in enumerate(given.items()):
        if value is None:
            continue
        if isinstance(value, (list, tuple, dict)) and not _is_pair(value) or _is_output_object(value):
            layers += [_of_part(layer, f"{name} {layer.role}".strip()) for layer in layers_of(value, num_heads)]
            continue
        layer = as_layer(value, f"weights[{name!r}]", i, len(given), num_heads)
        layer.name, layer.named, layer.role = str(name), True, role_of(str(name))
        layers.append(layer)
    if not layers:
        raise TypeError(f"every map of the dict is None; {HOW_TO_GET_THEM}")
    return layers


def _of_a_list(given, num_heads: int | None, samples: int) -> list[Layer]:
    if not len(given):
        # What transformers returns when its faster attention, the default, was asked for weights.
        raise ValueError(f"weights is an empty {type(given).__name__}; {HOW_TO_GET_THEM}")
    if _is_pair(given):
        return [as_layer(given, "weights", 0, 1, num_heads)]
    if are_steps(given):
        return _of_steps(given, "")
    missing = [i for i, part in enumerate(given) if part is None]
    if len(missing) == len(given) or (len(given) == 2 and missing == [1] and getattr(given[0], "ndim", 0) in (2, 3)):
        raise TypeError(f"weights[{missing[0]}] is None; {HOW_TO_ASK}")  # the layer's output, and no weights
    for i, part in enumerate(given):
        if _is_output_object(part):
            raise TypeError(
                f"weights[{i}] is the whole output of a model, {type(part).__name__}; give it alone, not in a list"
            )
        if isinstance(part, (list, tuple)) and part and all(getattr(each, "ndim", 0) == 4 for each in part):
            raise TypeError(
                f"weights[{i}] is a {type(part).__name__} of {len(part)} maps, beside other things that a model "
                f"returned; give it alone, weights[{i}]"
            )
    return _of_each(given, "weights", num_heads=num_heads, samples=samples)


# ---------------------------------------------------------------------------------------------------- one layer


def _is_pair(given) -> bool:
    """Is this a layer's output `(…, Tq, d)` with its weights, rather than the weights of two layers?"""
    if not isinstance(given, tuple) or len(given) != 2:
        return False
    one, two = (tuple(getattr(part, "shape", ())) for part in given)
    if not (2 <= len(one) <= 3 and len(one) <= len(two) <= 4 and one != two):
        return False
    return one[-2] == two[-2] or one[:-1] == (two[-2], two[0])  # torch puts B second unless told batch_first


def _weights_in(given, name: str) -> Tensor:
    """Return a tensor, an array, or the weights of a pair, one map per head; their mean would pass for a head."""
    if not _is_pair(given):
        return as_tensor(given, name)
    output, weights = given
    batch = output.shape[0 if output.shape[-2] == weights.shape[-2] else 1]
    if weights.ndim == output.ndim and (weights.ndim == 2 or len(weights) == batch):
        raise ValueError(
            f"weights {tuple(weights.shape)} beside an output {tuple(output.shape)} are one map per sample, the mean "
            "over its heads; call the layer with average_attn_weights=False, or give the weights alone if one map is "
            "what you want"
        )
    return as_tensor(weights, name)


def as_tensor(part, name: str, most: int = 4) -> Tensor:
    """Return a tensor or an array of 2 to so many axes as a tensor, over the same memory wherever torch can read it."""
    if part is None:
        raise TypeError(f"{name} is None; {HOW_TO_ASK}")
    if isinstance(part, np.ndarray):
        if part.dtype.kind != "f":
            raise TypeError(f"{name}: attention weights are floating, got {part.dtype}; give weights, not token ids")
        if not part.dtype.isnative or part.itemsize > 8 or any(stride < 0 for stride in part.strides):
            part = np.array(part, dtype=f"f{min(8, part.itemsize)}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nor is it written to
            part = torch.from_numpy(part)
    if not isinstance(part, Tensor):
        raise TypeError(f"{name} must be a tensor or a numpy array, got {type(part).__name__}; use torch.tensor(...)")
    check_weights_kind(name, part)
    check_held(name, part)
    if not 2 <= part.ndim <= most or 0 in part.shape:
        raise ValueError(
            f"{name} must be (Tq, Tk), (h, Tq, Tk), (layers, h, Tq, Tk), (layers, B, h, Tq, Tk) or a list of layers "
            f"(B, h, Tq, Tk), none empty, got {tuple(part.shape)}"
        )
    return part.detach()


def as_layer(
    given, name: str, place: int, of: int, num_heads: int | None = None, samples: int = 0, role: str = ""
) -> Layer:
    """Return one layer as `(B, h, Tq, Tk)`."""
    part = _weights_in(given, name)
    averaged = part.ndim == 3 and samples == len(part) > 1 and num_heads in (None, 1)
    if averaged:  # labels of so many samples tell that it is one map for each
        part = part[:, None]
    elif part.ndim == 3 and num_heads is not None and len(part) % num_heads == 0:
        part = part.unflatten(0, (-1, num_heads))  # samples folded into the heads, as d2l does
    part = part[None, None] if part.ndim == 2 else part[None] if part.ndim == 3 else part
    if num_heads is not None and part.shape[1] != num_heads:
        raise ValueError(
            f"{name} holds {part.shape[1]} maps, expected num_heads={num_heads} or a multiple of it; if it is one map "
            "per sample, the mean over its heads, ask for each head: average_attn_weights=False"
        )
    return Layer(part, f"layer {place}", place, (role, of), role, averaged=averaged)

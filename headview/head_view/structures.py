"""Every structure in which attention weights are handed out, taken apart into single layers `(B, h, Tq, Tk)`.

Tensors and arrays, lists with gaps, dicts, what `capture` gathered, what models of transformers return, what torch's
layers return. Numbers are not looked at here, and nothing is copied; the steps of `generate()` are put together in
`generated.py`.
"""

from dataclasses import replace

from torch import Tensor, nn

from headview.head_view.generated import are_steps, stitched
from headview.head_view.layer_weights import (
    HOW_TO_ASK,
    HOW_TO_CAPTURE,
    Layer,
    as_layer,
    as_tensor,
    is_pair,
    of_a_pair,
)

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
_NO_KEYS = {  # how the classes of outputs begin whose last axis is something else: what it is
    "Longformer": "its last axis holds global tokens and the places of a sliding window around each query, not keys",
    "LED": "the last axis of its encoder holds places of a sliding window around each query, not keys",
    "Swin": "its maps hold the windows of the image along the axis of samples, each with tokens of its own",
    "MaskFormerSwin": "its maps hold the windows of the image along the axis of samples, each with tokens of its own",
    "Donut": "its maps hold the windows of the image along the axis of samples, each with tokens of its own",
    "Dinat": "its last axis holds a neighbourhood of each query, not keys",
    "Nat": "its last axis holds a neighbourhood of each query, not keys",
    "Reformer": "its queries and keys are sorted into chunks",
}


def layers_of(weights, num_heads: int | None = None, samples: int = 0) -> list[Layer]:
    """Return the layers that are in `weights`.

    Args:
        weights: whatever the reader gave.
        num_heads: of each layer, where it is known.
        samples: for how many samples there are labels, 0 where they were not told apart.

    Raises:
        TypeError: there are no weights in it.
        ValueError: a rank or a length does not fit.
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
    tensor = as_tensor(weights, "weights")
    if tensor.ndim == 5:
        if tensor.shape[0] == 1 < tensor.shape[1] and samples != tensor.shape[1]:
            tensor = tensor.transpose(0, 1)  # (1, layers, h, Tq, Tk), as some libraries stack them
        elif samples == tensor.shape[0] != tensor.shape[1]:
            tensor = tensor.transpose(0, 1)
        return [as_layer(part, "weights", i, len(tensor), num_heads) for i, part in enumerate(tensor)]
    if tensor.ndim == 4 and samples != len(tensor):
        return [as_layer(part, "weights", i, len(tensor), num_heads) for i, part in enumerate(tensor)]
    return [as_layer(tensor, "weights", 0, 1, num_heads, samples)]


def _refuse_others(weights) -> None:
    """Refuse what is no weights at all with what leads to them."""
    kind = type(weights).__name__
    if weights is None:
        raise TypeError(f"weights is None; {HOW_TO_ASK}\n{HOW_TO_CAPTURE}")
    if isinstance(weights, nn.Module):
        raise TypeError(f"weights is the model itself, {kind}; call it, and {HOW_TO_ASK}\n{HOW_TO_CAPTURE}")
    if hasattr(weights, "convert_ids_to_tokens"):
        raise TypeError(
            f"weights is a tokenizer, {kind}; its labels are the tokens, tokenizer.convert_ids_to_tokens(ids), and "
            f"the weights come from the model: {HOW_TO_ASK}\n{HOW_TO_CAPTURE}"
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
            found += [replace(layer, role=role, of=(role, layer.of[1])) for layer in _of_an_output(inner)]
    for name, role in _PARTS.items():
        maps = getattr(output, name, None)
        if maps is None or len(maps) == 0:
            continue
        _refuse_windows(type(output).__name__, role)
        if role == "" and getattr(output, "cross_attentions", None):
            role = "decoder"  # one that looks at another model's output
        if are_steps(maps):
            ancestors = getattr(output, "beam_indices", None)
            found += _of_steps(maps, role, ancestors)
            continue
        given = [None if part is None else as_tensor(part, f"{name}[{i}]") for i, part in enumerate(maps)]
        found += [
            as_layer(part, f"{name}[{i}]", i, len(given), None, role=role)
            for i, part in enumerate(given)
            if part is not None
        ]
    if not found:
        raise TypeError(
            f"weights is a {type(output).__name__} that holds no attention weights; {HOW_TO_ASK}\n{HOW_TO_CAPTURE}"
        )
    return found


def _refuse_windows(kind: str, role: str) -> None:
    """Refuse an output whose maps have something else than keys on their last axis, by the name of its class."""
    for start, why in _NO_KEYS.items():
        if kind.startswith(start) and role in ("", "encoder"):
            raise ValueError(
                f"weights is a {kind}, which is no map from queries to keys: {why}; give what can be read as one, such "
                "as a window or a part that attends to all its keys, as tensors (h, Tq, Tk)"
            )


def _of_steps(steps, role: str, ancestors: Tensor | None = None) -> list[Layer]:
    return [
        Layer(weights, f"layer {place}", place, (role, len(steps[0])), role, allowed=allowed, steps=True)
        for place, weights, allowed in stitched(steps, role, ancestors)
    ]


def _captured(maps) -> list[Layer]:
    """Return the layers of what `capture` gathered."""
    if not maps:
        missed = "".join(f"\n    {name}: {why}" for name, why in list(getattr(maps, "missed", {}).items())[:5])
        raise ValueError(
            f"capture gathered no maps; call the model inside the with block, and show them behind it{missed}\n"
            f"or {HOW_TO_ASK}"
        )

    def of(name: str, i: int):
        values = getattr(maps, name, None)
        return None if values is None else values[i]

    layers = []
    for i, part in enumerate(maps):
        name, inside = str(maps.names[i]), tuple(of(each, i) for each in ("queries", "keys", "values"))
        layer = as_layer(as_tensor(part, f"weights[{i}]"), f"weights[{i}]", i, len(maps), None)
        layer.name, layer.named = name, True
        layer.role = "cross" if maps.kinds[i] == "cross" else role_of(name)
        layer.allowed, layer.kv_heads, layer.scale = of("allowed", i), of("kv_heads", i), of("scales", i)
        layer.sums = of("sums", i) or "weights"
        layer.inside = inside
        layers.append(layer)
    return layers


def role_of(name: str) -> str:
    """Return which part of a model a module belongs to, by its name; "" where that does not show."""
    for piece in name.lower().replace("/", ".").split("."):
        for role, starts in (
            ("vision", ("vision", "visual", "image_encoder")),
            ("text", ("text", "language")),
            ("cross", ("cross",)),
            ("encoder", ("encoder",)),
            ("decoder", ("decoder",)),
        ):
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
        where = f"weights[{name!r}]"
        if value is None:
            continue
        pair = isinstance(value, tuple) and len(value) == 2 and is_pair(*value)
        if isinstance(value, (list, tuple, dict)) and not pair or _is_output_object(value):
            for layer in layers_of(value, num_heads):
                role = f"{name} {layer.role}".strip()
                layers.append(replace(layer, role=role, of=(role, layer.of[1])))
            continue
        part = of_a_pair(*value) if pair else as_tensor(value, where)
        layer = as_layer(part, where, i, len(given), num_heads)
        layer.name, layer.named, layer.role = str(name), True, role_of(str(name))
        layers.append(layer)
    if not layers:
        raise TypeError(f"every map of the dict is None; {HOW_TO_ASK}\n{HOW_TO_CAPTURE}")
    return layers


def _of_a_list(given, num_heads: int | None, samples: int) -> list[Layer]:
    if not len(given):
        # What transformers returns when its faster attention, the default, was asked for weights.
        raise ValueError(f"weights is an empty {type(given).__name__}; {HOW_TO_ASK}\n{HOW_TO_CAPTURE}")
    if isinstance(given, tuple) and len(given) == 2 and is_pair(*given):
        return [as_layer(of_a_pair(*given), "weights", 0, 1, num_heads)]
    if are_steps(given):
        return _of_steps(given, "")
    missing = [i for i, part in enumerate(given) if part is None]
    if len(missing) == len(given) or (len(given) == 2 and missing == [1] and getattr(given[0], "ndim", 0) in (2, 3)):
        raise TypeError(f"weights[{missing[0]}] is None; {HOW_TO_ASK}")  # the layer's output, and no weights
    _refuse_mixed(given)
    layers = []
    for i, part in enumerate(given):
        if _is_output_object(part):
            raise TypeError(
                f"weights[{i}] is the whole output of a model, {type(part).__name__}; give it alone, not in a list"
            )
        if part is not None:
            pair = isinstance(part, tuple) and len(part) == 2 and is_pair(*part)
            part = of_a_pair(*part) if pair else as_tensor(part, f"weights[{i}]")
            layers.append(as_layer(part, f"weights[{i}]", i, len(given), num_heads, samples))
    return layers


def _refuse_mixed(given) -> None:
    """Refuse all that a model returned as a tuple, where the maps are a tuple inside of it."""
    for i, part in enumerate(given):
        if isinstance(part, (list, tuple)) and part and all(getattr(each, "ndim", 0) == 4 for each in part):
            raise TypeError(
                f"weights[{i}] is a {type(part).__name__} of {len(part)} maps, beside other things that a model "
                f"returned; give it alone, weights[{i}]"
            )

"""What layers, heads and axes are called."""

import re
from os.path import commonprefix

from headview.head_view.structures import Layer

_PIECES = re.compile(r"(?:\d+|[^\d./\s_]+)[./\s_]?|[./\s_]")  # of a name, each with what parts it from the next
_LONGEST = 14  # characters


def layer_names_of(found: list[Layer], given) -> dict[tuple, str]:
    """Return the name of each layer, by the list it came from and its place there."""
    if given is None:
        return {(layer.of, layer.place): layer.name for layer in found}
    if isinstance(given, int) and not isinstance(given, bool):
        return {(layer.of, layer.place): f"layer {given + layer.place}" for layer in found}
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise TypeError(
            f"layer_names must be a list of names or numbers, or the number of the first layer, got {given!r:.60}; "
            'give such as ["layer 8", "layer 9"], or 8'
        )
    names = [f"layer {name}" if hasattr(name, "__index__") else str(name) for name in given]
    result = {}
    for of in dict.fromkeys(layer.of for layer in found):
        places = [layer.place for layer in found if layer.of == of]
        if len(names) not in (len(places), of[1]):
            gaps = "" if of[1] == len(places) else f", or {of[1]}, those without attention counted"
            raise ValueError(
                f"layer_names has {len(names)} names, there are {len(places)} layers{gaps}; give one for each"
            )
        for i, place in enumerate(places):
            result[of, place] = names[i if len(names) == len(places) else place]
    return result


def name_heads(parts: list, given, found: list[Layer]) -> None:
    """Name the heads of all parts that have as many."""
    if given is None:
        for part in parts:
            part.head_names = ["mean of heads"] if found[0].averaged else []
        return
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise TypeError(f'head_names must be a list of strings, got {given!r:.60}; give such as ["local", "global"]')
    for part in parts:
        part.head_names = [str(name) for name in given] if len(given) == part.shape[1] else []
    if not any(part.head_names for part in parts):
        raise ValueError(
            f"head_names has {len(given)} names, the weights have {parts[0].shape[1]} heads; give one for each"
        )


def check_axes(axes) -> None:
    """Refuse what is no pair of names of axes."""
    pair = isinstance(axes, (tuple, list)) and len(axes) == 2 and all(isinstance(axis, str) and axis for axis in axes)
    if not pair:
        raise ValueError(
            f'axes must be two names, of the queries and of the keys, such as ("query", "key"), got {axes!r}'
        )


def short_names(names: list[str]) -> list[str]:
    """Return what to call layers where there is little room: "layer 3" for `encoder.layer.3.attention.self`.

    Only paths of modules are shortened, and only where one number tells them apart, as in nn.Sequential alone. A module
    that is called again has the number of the call behind its name: "layer 3 call 2", or "call 2" where there is no
    other module.
    """
    paths, calls = zip(*(re.fullmatch(r"(.*?)( call \d+)?", name, re.DOTALL).groups("") for name in names), strict=True)
    if not all("." in path or path.isdecimal() for path in paths):
        return list(names)
    modules = list(dict.fromkeys(paths))
    if len(modules) == 1 < len(names) == len(set(calls)):
        return [call.strip() or "call 1" for call in calls]
    told = telling_parts(modules)
    if not all(map(str.isdecimal, told)):
        return list(names)
    numbers = dict(zip(modules, told, strict=True))
    return [f"layer {numbers[path]}{call}" for path, call in zip(paths, calls, strict=True)]


def telling_parts(names: list[str]) -> list[str]:
    """Return what tells each name from the others, "3" of `encoder.layer.3.attention`; of one alone its last number.

    Of what is long, its end: that tells most.
    """
    cut = [_PIECES.findall(name) for name in names]
    most = max(0, min(map(len, cut)) - 1)  # so that something is left of each
    if len(names) == 1:
        number = next((i for i in range(most, -1, -1) if cut[0] and cut[0][i][0].isdecimal()), None)
        start, end = (0, 0) if number is None else (number, most - number)
    else:
        start = min(most, len(commonprefix(cut)))
        end = min(most - start, len(commonprefix([pieces[::-1] for pieces in cut])))
    told = [re.sub(r"[./\s_]$", "", "".join(pieces[start : len(pieces) - end])) for pieces in cut]
    return [name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}" for name in told]

"""The matrices of a module: each as `(out, in)`, however it is stored, with its bias and the role that its name says.

What a name may say stands in `ROLES`; nothing is tried here.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

ROLES = {
    "qkv": {"qkv", "wqkv", "kqv", "c_attn", "query_key_value", "in_proj", "w_pack", "in_projection", "qkvs", "to_qkv"},
    "kv": {"kv", "wkv", "key_value", "c_kv", "kvs", "to_kv"},
    "qk": {"qk", "wqk", "query_key", "to_qk"},
    "q": {"q", "wq", "query", "queries", "qs", "toqueries", "qproj", "wquery"},
    "k": {"k", "wk", "key", "keys", "ks", "tokeys", "kproj", "wkey"},
    "v": {"v", "wv", "value", "values", "vs", "val", "tovalues", "vproj", "wvalue"},
    "o": {"o", "wo", "out", "output", "fc", "dense", "proj", "projection", "unify", "unifyheads", "final", "combine",
          "concat", "merge", "oproj", "post", "wout", "mix", "back"},
}  # fmt: skip
OTHERS = {"norm", "ln", "layernorm", "rel", "pos", "embed", "embedding", "lora", "gate", "scale", "mem", "null", "sink",
          "table", "bias"}  # fmt: skip


@dataclass(frozen=True, eq=False)  # two entries are never one
class Entry:
    """A matrix of a module.

    Args:
        name: where it stands, without `.weight`; a star stands for the numbers of several that belong together.
        weights: the ways to read it as `(out, in)`, the likelier first, float64.
        bias: `(out,)`, or None.
        parameter: the name of the parameter.
        transposed: whether the parameter is stored `(in, out)`.
    """

    name: str
    weights: tuple[Tensor, ...]
    bias: Tensor | None = None
    parameter: str = ""
    transposed: bool = False

    @property
    def weight(self) -> Tensor:
        return self.weights[0]

    @property
    def role(self) -> str:
        """What the name says: q, k, v, o, qkv, kv, qk, or "" where it says nothing."""
        parts = [part for part in self.name.split(".") if part != "*" and not part.isdigit()]
        for part in reversed(parts[-2:]):
            words = re.sub(r"([a-z])([A-Z])", r"\1_\2", part).lower()
            words = re.sub(r"[^a-z]+", "_", words).strip("_")
            pieces = set(words.split("_"))
            if pieces & OTHERS:
                return ""
            for role, names in ROLES.items():
                if words in names or pieces & names or any("_" in name and name in words for name in names):
                    return role
        return ""


def entries_of(module: nn.Module, d_model: int, num_heads: int, head_dim: int) -> list[Entry]:
    """Return the matrices of a module in the order in which they were made; those of single heads joined."""
    found = []
    for path, part in module.named_modules():
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)):
            continue
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.is_floating_point() and parameter.ndim >= 2:
                full = f"{path}.{name}".lstrip(".")
                found += _read(part, path, full, name, parameter, (d_model, num_heads, head_dim))
    return _joined([entry for entry in found if entry.weights], num_heads, head_dim)


def _read(part: nn.Module, path: str, full: str, name: str, parameter: Tensor, sizes: tuple) -> Iterable[Entry]:
    p = parameter.detach().cpu().double()
    bias = _bias(part, name, p)
    if isinstance(part, nn.Linear):
        yield Entry(path, (p,), bias, full)
    elif "Conv" in type(part).__name__ and name == "weight":
        if p.ndim == 2:  # GPT-2's Conv1D: (in, out)
            yield Entry(path, (p.T,), bias, full, True)
        elif p[0, 0].numel() == 1 and getattr(part, "groups", 1) == 1:
            yield Entry(path, (p.flatten(1),), bias, full)
    elif "in_proj" in name or name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
        yield Entry(full.removesuffix("_weight"), (p,), bias, full)
    elif p.ndim == 2:
        yield Entry(full.removesuffix(".weight").removesuffix("_weight"), (p.T, p), bias, full, True)
    elif p.ndim == 3 and p.shape[0] == 3 and sizes[1] != 3:
        for i, role in enumerate("qkv"):
            yield Entry(f"{full}[{i}].{role}", (p[i].T, p[i]), None if bias is None else bias.view(3, -1)[i])
    elif p.ndim == 3:
        yield Entry(full, tuple(_of_heads(p, *sizes)), bias)


def _of_heads(p: Tensor, d_model: int, num_heads: int, head_dim: int) -> Iterable[Tensor]:
    """Yield `(h * hd, d)` and `(d, h * hd)` for a tensor with an axis for the heads."""
    h, hd = num_heads, head_dim
    shape = tuple(p.shape)
    for wanted, order in (((h, d_model, hd), (0, 2, 1)), ((d_model, h, hd), (1, 2, 0)), ((h, hd, d_model), (0, 1, 2))):
        if shape == wanted:
            yield p.permute(order).flatten(0, 1)
    for wanted, order in (((h, hd), (2, 0, 1)),):
        if shape[:2] == wanted:
            yield p.permute(order).flatten(1)
    if shape[1:] == (h, hd):
        yield p.flatten(1)
    if (shape[0], shape[2]) == (h, hd):
        yield p.permute(1, 0, 2).flatten(1)


def _bias(part: nn.Module, name: str, weight: Tensor) -> Tensor | None:
    """Return the bias that goes with a parameter of this name."""
    names = ["bias"] if name == "weight" else [name.replace("weight", "bias")]
    if name != "weight":
        names += [re.sub("^[wW]", "b", name), re.sub("^[wW]", "B", name), f"{name}_bias", f"b{name}", f"bias_{name}"]
    for each in names:
        bias = getattr(part, each, None)
        if isinstance(bias, Tensor) and each != name and bias.is_floating_point() and bias.numel() in weight.shape:
            return bias.detach().cpu().double().flatten()
    whole = getattr(part, "in_proj_bias", None)
    if name in ("q_proj_weight", "k_proj_weight", "v_proj_weight") and isinstance(whole, Tensor):
        return whole.detach().cpu().double().chunk(3)["qkv".index(name[0])]
    heads = [getattr(part, each, None) for each in names if each != name]
    for bias in heads:
        if isinstance(bias, Tensor) and bias.is_floating_point() and bias.numel() == weight[..., 0].numel():
            return bias.detach().cpu().double().flatten()
        if isinstance(bias, Tensor) and bias.is_floating_point() and bias.numel() * weight.shape[1] == weight.numel():
            return bias.detach().cpu().double().flatten()
    return None


def _joined(found: list[Entry], num_heads: int, head_dim: int) -> list[Entry]:
    """Put the matrices of single heads together: `heads.0.query`, `heads.1.query`, … become `heads.*.query`."""
    groups: dict[tuple, list[Entry]] = defaultdict(list)
    for entry in found:
        parts = entry.name.split(".")
        for i, part in enumerate(parts):
            if part.isdigit():
                key = ".".join([*parts[:i], "*", *parts[i + 1 :]])
                groups[key, tuple(entry.weight.shape), entry.bias is None].append(entry)
    taken, joined = set(), {}
    for (key, shape, _), group in groups.items():
        if len(group) != num_heads or num_heads == 1:
            continue
        bias = None if group[0].bias is None else torch.cat([each.bias for each in group])
        if shape[0] in (head_dim, 3 * head_dim):
            whole = Entry(key, (torch.cat([each.weight for each in group]),), bias)
        elif shape[1] == head_dim and Entry(key, ()).role == "o":
            total = None if bias is None else sum(each.bias for each in group)
            whole = Entry(key, (torch.cat([each.weight for each in group], 1),), total)
        else:
            continue
        taken |= {each.name for each in group}
        joined[group[0].name] = whole
    return [joined.get(each.name, each) for each in found if each.name not in taken or each.name in joined]


def spread(entry: Entry, num_heads: int) -> Entry:
    """Return one small matrix that all heads share as the block diagonal one that it stands for."""
    bias = None if entry.bias is None else entry.bias.repeat(num_heads)
    return replace(entry, weights=(torch.block_diag(*[entry.weight] * num_heads),), bias=bias)

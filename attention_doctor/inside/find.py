"""Look for the projections in a module: by their names first, by shapes and order where names say nothing.

A name proves nothing: what is found are candidates, and `choose` tries which of them gives the outputs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product

import torch
from torch import Tensor, nn

from attention_doctor.inside.entries import Entry, entries_of, spread
from attention_doctor.inside.projections import Projection, check_sizes

MOST = 48  # candidates


@dataclass(frozen=True)
class Candidate:
    """Projections that may be a layer's, and where they stand in it.

    Args:
        names: by role, such as `{"q": "rows 0–31 of attn.qkv", …}`.
        found: by role, as `examine(…, weights=)` takes them.
    """

    names: dict[str, str]
    found: dict[str, Projection]

    def __str__(self) -> str:
        roles: dict[str, list[str]] = {}
        for role, name in self.names.items():
            roles.setdefault(name, []).append(role)
        return ", ".join(f"{' and '.join(of)} = {name}" for name, of in roles.items())

    def equals(self, other: "Candidate") -> bool:
        """Whether both are the same matrices, however they are called."""
        return self.found.keys() == other.found.keys() and all(
            mine.weight.shape == other.found[role].weight.shape and torch.equal(mine.weight, other.found[role].weight)
            for role, mine in self.found.items()
        )


def find_weights(module: nn.Module, d_model: int, num_heads: int, head_dim: int | None = None) -> list[Candidate]:
    """Return what may be the projections of a layer, the likelier ones first.

    Args:
        module: the layer, or what stands around it; the projections may be a few modules deep.
        d_model: features of the input.
        num_heads: how many heads.
        head_dim: features of one head; when left out `d_model // num_heads`, or what the matrices have.

    Returns:
        candidates, each with `.names` and `.found` by role, q, k, v, and o where there is one; matrices of other sizes
        are left out. Empty where nothing fits the sizes.

    No notebook uses it by itself: `examine`, which notebook 06 teaches, finds the projections by it.
    """
    if not d_model or not num_heads:
        return []
    if head_dim is not None:
        return _of_sizes(module, d_model, num_heads, head_dim)
    rows = sorted({size for p in module.parameters() if p.ndim == 2 for size in p.shape if size % num_heads == 0})
    usual = [d_model // num_heads] if d_model % num_heads == 0 else []
    for head_dim in dict.fromkeys([*usual, *(size // num_heads for size in rows)]):
        if found := _of_sizes(module, d_model, num_heads, head_dim):
            return found
    return []


def _of_sizes(module: nn.Module, *sizes: int) -> list[Candidate]:
    entries = entries_of(module, *sizes)
    named = list(islice(_by_names(entries, *sizes), 4 * MOST))
    found: list[Candidate] = []
    for candidate in named or islice(_by_shapes(entries, *sizes), 4 * MOST):
        try:
            check_sizes(candidate.found, *sizes)
        except ValueError:
            continue
        if len(found) < MOST and not any(candidate.equals(other) for other in found):
            found.append(candidate)
    return found


def named_roles(module: nn.Module, d_model: int, num_heads: int, head_dim: int) -> dict[str, str]:
    """Return the role of each parameter whose name says one; a T before it where it is stored `(in, out)`."""
    entries = entries_of(module, d_model, num_heads, head_dim)
    return {entry.parameter: "T" * entry.transposed + entry.role for entry in entries if entry.parameter and entry.role}


def _by_names(entries: list[Entry], d_model: int, num_heads: int, head_dim: int) -> Iterator[Candidate]:
    """Yield the candidates in each part of the module that has all of q, k and v."""
    prefixes = {entry.name.rpartition(".")[0] for entry in entries}
    prefixes |= {prefix[:i] for prefix in prefixes for i, letter in enumerate(prefix) if letter == "."} | {""}
    done: list[str] = []
    for prefix in sorted(prefixes, key=lambda prefix: (-prefix.count(".") - bool(prefix), prefix)):
        inside = [e for e in entries if _within(e.name, prefix) and not any(_within(e.name, other) for other in done)]
        roles = {role: [e for e in inside if e.role == role] for role in ("qkv", "q", "k", "v", "kv", "qk")}
        sets = list(_sets(roles, d_model, num_heads, head_dim))
        if sets:
            done.append(prefix)
            outs = _outs(entries, prefix, done, num_heads * head_dim)
            yield from _with_outs(sets, outs)


def _within(name: str, prefix: str) -> bool:
    return not prefix or name.startswith(prefix + ".")


def _takes(entry: Entry, inner: int) -> bool:
    return entry.parameter.endswith("weight") and entry.weight.shape[1] == inner


def _outs(entries: list[Entry], prefix: str, done: list[str], inner: int) -> list[Entry]:
    """Return the output projections in a part of the module, or around it; by shape where no name says so."""
    while True:
        others = [other for other in done if other != prefix and not _within(prefix + ".", other)]
        near = [e for e in entries if _within(e.name, prefix) and not any(_within(e.name, o) for o in others)]
        if found := [e for e in near if e.role == "o"] or [e for e in near if not e.role and _takes(e, inner)]:
            return found
        if not prefix:
            return []
        prefix = prefix.rpartition(".")[0]


def _sets(roles: dict[str, list[Entry]], d_model: int, num_heads: int, head_dim: int) -> Iterator[tuple]:
    """Yield triples of q, k, v, each a name, a weight and a bias."""
    for entry in roles["qkv"]:
        for weight in entry.weights:
            yield from _cut_three(entry, weight, num_heads, head_dim)
    for q, k, v in product(roles["q"], roles["k"], roles["v"]):
        if all(e.weight.shape == (head_dim, head_dim) for e in (q, k, v)) and head_dim < d_model:
            q, k, v = (spread(e, num_heads) for e in (q, k, v))
        for weights in zip(*(_readings(e, d_model) for e in (q, k, v)), strict=False):
            yield tuple((e.name, w, e.bias) for e, w in zip((q, k, v), weights, strict=True))
    for q, kv in product(roles["q"], roles["kv"]):
        for weight, q_weight in zip(_readings(kv, d_model), _readings(q, d_model), strict=False):
            for k, v in _cut_two(kv, weight, head_dim):
                yield (q.name, q_weight, q.bias), k, v
    for qk, v in product(roles["qk"], roles["v"]):
        for weight, v_weight in zip(_readings(qk, d_model), _readings(v, d_model), strict=False):
            rows = num_heads * head_dim
            if len(weight) == rows:
                yield (qk.name, weight, qk.bias), (qk.name, weight, qk.bias), (v.name, v_weight, v.bias)
            elif len(weight) == 2 * rows:
                for q, k in _cut_two(qk, weight, head_dim):
                    yield q, k, (v.name, v_weight, v.bias)


def _readings(entry: Entry, d_model: int) -> list[Tensor]:
    return [weight for weight in entry.weights if weight.shape[1] == d_model]


def _piece(entry: Entry, weight: Tensor, rows: Tensor, what: str) -> tuple:
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1:  # a view, no copy
        rows, what = slice(first, last + 1), f"rows {first}–{last} of {entry.name}"
    else:
        what = f"{entry.name}, {what}"
    return what, weight[rows], None if entry.bias is None else entry.bias[rows]


def _cut_three(entry: Entry, weight: Tensor, num_heads: int, head_dim: int) -> Iterator[tuple]:
    """Yield the ways to cut one fused matrix into q, k and v: one after another, or head by head."""
    size, inner = len(weight), num_heads * head_dim
    rows = torch.arange(size)
    if size == 3 * inner:
        h, hd = num_heads, head_dim
        cuts = {
            "rows": rows.view(3, inner),
            "head by head": rows.view(h, 3, hd).transpose(0, 1).flatten(1),
            "feature by feature": rows.view(hd, 3, h).permute(1, 2, 0).flatten(1),
            "the three fastest": rows.view(h, hd, 3).permute(2, 0, 1).flatten(1),
        }
        for what, parts in cuts.items():
            yield tuple(_piece(entry, weight, part, what) for part in parts)
        for order in list(permutations(range(3)))[1:]:
            yield tuple(_piece(entry, weight, cuts["rows"][i], "") for i in order)
    groups, odd = divmod(size - inner, 2 * head_dim)
    if not odd and 0 < groups < num_heads and num_heads % groups == 0:
        kv = groups * head_dim
        yield tuple(_piece(entry, weight, part, "rows") for part in rows.split([inner, kv, kv]))
        parts = rows.view(groups, -1, head_dim).split([num_heads // groups, 1, 1], 1)
        yield tuple(_piece(entry, weight, part.flatten(), "group by group") for part in parts)


def _cut_two(entry: Entry, weight: Tensor, head_dim: int) -> Iterator[tuple]:
    """Yield the ways to cut one matrix into k and v."""
    if len(weight) % (2 * head_dim):
        return
    rows = torch.arange(len(weight))
    blocks, heads = rows.view(2, -1), rows.view(-1, 2, head_dim).transpose(0, 1).flatten(1)
    for what, parts in (("rows", blocks), ("head by head", heads), ("", blocks[[1, 0]])):
        yield tuple(_piece(entry, weight, part, what) for part in parts)


def _with_outs(sets: Iterable[tuple], outs: list[Entry]) -> Iterator[Candidate]:
    """Yield each q, k, v with each output projection that takes as many features, and then with none."""
    for parts in sets:
        inner = len(parts[0][1])
        chosen = [(e.name, w, e.bias) for e in outs for w in e.weights if w.shape[1] == inner]
        for out in [*chosen, None]:
            if any(bias is not None and len(bias) != len(weight) for _, weight, bias in parts):
                continue
            given = dict(zip("qkvo", [*parts, out] if out else parts, strict=False))
            if out and out[2] is not None and len(out[2]) != len(out[1]):
                continue
            yield Candidate(
                {role: name for role, (name, _, _) in given.items()},
                {role: Projection(weight, bias) for role, (_, weight, bias) in given.items()},
            )


def _by_shapes(entries: list[Entry], d_model: int, num_heads: int, head_dim: int) -> Iterator[Candidate]:
    """Yield candidates where names say nothing: the first of the right shape in the order in which they were made."""
    inner = num_heads * head_dim
    for fused in [e for e in entries if e.weight.shape == (3 * inner, d_model)]:
        yield from _with_outs(_cut_three(fused, fused.weight, num_heads, head_dim), [e for e in entries if e != fused])
    fitting = [
        e for e in entries if e.weight.shape == (inner, d_model) or (len(e.weights) > 1 and _readings(e, d_model))
    ]
    rest = [e for e in entries if e not in fitting and e.weight.shape[1] == inner]
    if not 3 <= len(fitting) + len(rest) <= 5 or len(fitting) < 3:
        return
    for four in permutations(fitting, min(4, len(fitting))):
        for weights in zip(*(_readings(e, d_model) for e in four[:3]), strict=False):
            parts = tuple((e.name, w, e.bias) for e, w in zip(four[:3], weights, strict=True))
            yield from _with_outs([parts], [*four[3:], *rest])

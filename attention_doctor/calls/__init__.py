"""How a layer is called, found out by its signature, by what its author says of it, and by trying.

What words say is a promise and wins over what fits; what nobody says is taken as the layer behaves, and the report
tells so. `find_out` is for a layer of which nothing was declared; what `adapt` declares is never touched.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from attention_doctor.adapt import Adapted, adapt, is_torch_layer
from attention_doctor.calls import names
from attention_doctor.calls.masking import masked_forms
from attention_doctor.calls.names import roles_of
from attention_doctor.calls.trying import Refused, Trials
from attention_doctor.patient import on_the_table
from attention_doctor.words import words_of


@dataclass
class Found:
    """How a layer is called.

    Args:
        attend: the layer in the doctor's form.
        others: the same with another of its masks each.
        d_model: features of a token.
        notes: what is uncertain, a sentence each.
    """

    attend: Adapted
    others: list[Adapted]
    d_model: int
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [as_code(attend) for attend in (self.attend, *self.others)]
        return "\n".join([*lines, *(f"# {note}" for note in self.notes)])


def find_out(
    target: Callable,
    d_model: int | None,
    num_heads: int | None,
    head_dim: int | None = None,
    module: nn.Module | None = None,
) -> Found:
    """Return how a layer or function wants to be called.

    Args:
        target: the layer or function.
        d_model: features of a token; None to try what its parameters say.
        num_heads: how many heads, if anybody says it.
        head_dim: features of one head.
        module: what a function calls inside, to be left as it was.

    Raises:
        TypeError: it wants arguments of which nothing is known.
        ValueError: the number of features cannot be seen.
    """
    if is_torch_layer(target) and list(roles_of(target, 1).names[:3]) == ["query", "key", "value"]:
        return _torch(target, d_model)
    plain = Adapted(target, "plain", None, 3, None, "B T d", None, False)
    with on_the_table(plain, module) as (twin, inner):
        sizes = [d_model] if d_model else widths(inner)
        if not sizes:
            raise ValueError("the number of features cannot be seen in a function; give d_model=...")
        for size in sizes:
            try:
                found = _found(twin.target, size, num_heads, head_dim)
                break
            except Refused as refusal:
                failed = refusal
        else:
            # The usual call, for the probes to show what it raises.
            return _refused(target, sizes[0], head_dim or max(1, sizes[0] // (num_heads or 4)), failed)
    found.attend = replace(found.attend, target=target)
    found.others = [replace(other, target=target) for other in found.others]
    return found


def _torch(target: nn.MultiheadAttention, d_model: int | None) -> Found:
    attend = adapt(target, "torch")
    padding = replace(
        attend,
        convention="qkv",
        mask_name="key_padding_mask",
        mask_over="keys",
        mask_rank=2,
        declared=True,
        also={"need_weights": False},
    )
    return Found(attend, [padding], d_model or target.embed_dim)


def _found(target: Callable, d_model: int, num_heads: int | None, head_dim: int | None) -> Found:
    owner = Adapted(target, "plain", None, 3, None, "B T d", None, False).module
    parameters = [] if owner is None else [p for p in owner.parameters() if p.is_floating_point()]
    dtype, device = (parameters[0].dtype, parameters[0].device) if parameters else (torch.float32, torch.device("cpu"))
    roles, words = roles_of(target, head_dim or max(1, d_model // (num_heads or 4))), words_of(target)
    if roles.unknown:
        _ask(target, roles)
    trials = Trials(d_model, num_heads, dtype, device)
    form, T = _running(target, roles, trials, head_dim or max(1, d_model // (num_heads or 4)))
    notes = []
    said = words.axes
    if trials.acts_time_first(form, T):
        if said != "B T d":
            form = replace(form, axes="T B d")
        if said is None and not _says_time_first(target):
            notes.append(
                "tokens meet along the first axis: taken for (T, B, d_model); if x is "
                "(B, T, d_model), say axes='B T d', and it mixes samples"
            )
    tables = any(part in " ".join(roles.names) for part in TABLES)
    distances = words.distances.rstrip("?") + "?" * tables if words.distances else ""
    form = replace(form, distances=distances if tables else words.distances, said=False)
    found, uncertain = [], []
    for name in roles.masks:
        words = replace(words, text="mask: True = may attend") if _ours(target, roles) else words
        masked, note = masked_forms(form, name, len(roles.masks) == 1, trials, T, words)
        if masked is not None:
            found.append(masked)
            uncertain += [note] if note else []
    if words.causal and not any(attend.mask_always for attend in (form, *found)):
        form, found = replace(form, causal=True), [replace(attend, causal=True) for attend in found]
    if not found:
        return Found(form, [], d_model, notes + uncertain)
    # A mask of pairs says more than one of keys.
    found.sort(key=lambda attend: (attend.mask == "lengths", attend.mask_over == "keys"))
    return Found(found[0], found[1:], d_model, notes + uncertain)


def _running(target: Callable, roles: names.Roles, trials: Trials, head_dim: int) -> tuple[Adapted, int]:
    """Return the first call that runs; with places and angles too, for those that cannot do without them after all."""
    try:
        return trials.runs(target, roles)
    except Refused as refusal:
        for turned in (head_dim, head_dim // 2, head_dim // 4):
            fuller = roles_of(target, max(2, turned), optional=True)
            with suppress(Refused):
                if fuller.further and not fuller.unknown:
                    return trials.runs(target, fuller)
        raise refusal from None


def _ours(target: Callable, roles: names.Roles) -> bool:
    """Whether it is a function attend(x, mask=None), the doctor's own form, in which True = may attend."""
    return not isinstance(target, nn.Module) and roles.names[1:] == ["mask"] and roles.inputs == 1


def _says_time_first(target: Callable) -> bool:
    return getattr(target, "batch_first", None) is False


TABLES = ("rope", "rotary", "freqs", "cos", "sin")  # arguments that bring the angles along
HAS_OTHER_AXES = ("unpack", "dimension", "expected 4", "expected 3", "expected input", "rearrange", "Einops", "permute")


def _refused(target: Callable, d_model: int, head_dim: int, refusal: Refused) -> Found:
    roles = roles_of(target, head_dim)
    owner = Adapted(target, "plain", None, 3, None, "B T d", None, False).module
    # Only of a layer whose sizes are known to fit, and to which nothing was handed that is a guess, can it be said that
    # it raises on what is legal.
    fits = owner is not None and d_model in widths(owner) and not roles.further
    if not (fits or _ours(target, roles)) or any(word in str(refusal) for word in HAS_OTHER_AXES):
        raise TypeError(
            f"no way of calling {_name(target)}({', '.join(roles.names)}) was found; with tokens (B, T, {d_model}) it "
            f"raised {refusal}. Say how it is called with adapt(...), or wrap it: lambda x, mask=None: "
            "layer(x, ..., mask)"
        )
    also = {name: values[0] for name, values in roles.further.items()} | dict.fromkeys(roles.required)
    convention = {1: "plain", 2: "cross", 3: "qkv"}[roles.inputs]
    mask = next(iter(roles.masks), None)
    also.pop(mask, None)
    form = Adapted(
        target, convention, "allowed" if mask else None, 3, mask, "B T d", None, False, declared=False, also=also
    )
    return Found(form, [], d_model)


def _ask(target: Callable, roles: names.Roles) -> None:
    missing = ", ".join(f"{name!r}: ..." for name in roles.unknown)
    raise TypeError(
        f"expected attend(x, mask=None), got {_name(target)}({', '.join(roles.names)}), and nothing is known of "
        f"{', '.join(roles.unknown)}; say adapt(layer, also={{{missing}}}), or wrap it, for example as "
        "lambda x, mask=None: layer(x, ..., mask)"
    )


# ----------------------------------------------------------------------------------------------------------- sizes


def widths(module: nn.Module | None) -> list[int]:
    """Return the numbers of features that a layer may take, the likelier first."""
    if module is None:
        return []
    said = [
        value for owner in _owners(module) for name in names.D_MODEL if isinstance(value := _value(owner, name), int)
    ]
    taken = Counter(m.in_features for m in module.modules() if isinstance(m, nn.Linear))
    first = next((m.in_features for m in module.modules() if isinstance(m, nn.Linear)), None)
    shapes = [size for p in module.parameters() for size in p.shape]
    order = [*([first] if first else []), *said, *(size for size, _ in taken.most_common()), *shapes]
    return [size for size in dict.fromkeys(order) if 1 < size <= 8192][:8]


def heads_stated(module: nn.Module | None) -> int | None:
    """Return how many heads the layer itself says that it has; None where it does not say."""
    if module is None:
        return None
    for owner in _owners(module):
        for name in names.NUM_HEADS:
            value = _value(owner, name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1024:
                return value
    return None


def _owners(module: nn.Module) -> list[object]:
    inner = list(module.children())
    found = [module, getattr(module, "config", None), getattr(module, "cfg", None), getattr(module, "args", None)]
    return [owner for owner in [*found, *(inner if len(inner) == 1 else [])] if owner is not None]


def _value(owner: object, name: str) -> object:
    return owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)


# ------------------------------------------------------------------------------------------------------------ in words


def as_code(attend: Adapted) -> str:
    """Return the call of `adapt` that says how a layer is called."""
    options = [] if attend.convention == "plain" else [repr(attend.convention)]
    usual = {"plain": "allowed", "qkv": "allowed", "cross": "allowed", "torch": "blocked", "d2l": "lengths"}[
        attend.convention
    ]
    if attend.mask != usual:
        options.append(f"mask={attend.mask!r}")
    if attend.mask is not None:
        if attend.declared and not (attend.mask == "lengths" and attend.mask_rank == 2):
            options.append(f"mask_rank={attend.mask_rank}")
        if attend.mask_name is not None and not (attend.convention == "torch" and attend.mask_name == "attn_mask"):
            options.append(f"mask_name={attend.mask_name!r}")
        if attend.mask_over != "pairs":
            options.append(f"mask_over={attend.mask_over!r}")
        if attend.mask_always:
            options.append("mask_always=True")
    if attend.axes == "T B d" and attend.convention != "torch":
        options.append("batch_first=False")
    elif attend.axes not in ("B T d", "T B d"):
        options.append(f"axes={attend.axes!r}")
    if attend.output is not None:
        options.append(f"output={attend.output!r}")
    if attend.causal:
        options.append("causal=True")
    if attend.also:
        options.append(f"also={attend.also!r}")
    return f"adapt({', '.join(['layer', *options])})"


def _name(target: object) -> str:
    return getattr(target, "__name__", type(target).__name__)


__all__ = ["Found", "as_code", "find_out", "heads_stated", "widths"]

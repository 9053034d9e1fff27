"""Which form of a mask a layer takes: tried in every form, and held against what the author says of it.

A form fits when under it just those tokens move an output that the mask shows it. Both polarities of one layer cannot
fit; which of them its author meant, only words can say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attention_doctor.adapt import PADDING_NAMES, Adapted
from attention_doctor.calls.trying import Trials
from attention_doctor.words import Words

KINDS = ("allowed", "blocked", "float01", "additive")
MOST_BLIND = 0.7  # share of what a mask shows that may stand still, where maps are sharp
SAME_POLARITY = {"allowed": ("allowed", "float01"), "blocked": ("blocked",), "additive": ("additive",)}


@dataclass(frozen=True)
class Tried:
    """A form of a mask that ran.

    Args:
        form: the call.
        leaks: share of the outputs that moved with a token that the mask hides.
        fits: whether none did, and it hid something.
        blind: how many pairs stood still although the mask shows them.
    """

    form: Adapted
    leaks: float
    fits: bool
    blind: int


def masked_forms(
    form: Adapted, name: str, alone: bool, trials: Trials, T: int, words: Words
) -> tuple[Adapted | None, str]:
    """Return the call with the mask of this name, and what is uncertain about it; None where it cannot be given one."""
    said, ranks = words.polarity(name, alone), words.ranks(name)
    ran = []
    for tried in _try(form, name, trials, T):
        ran.append(tried)
        if tried.fits and (said is None or tried.form.mask in SAME_POLARITY[said]):
            break  # the forms come in the order in which they are preferred
    if not ran:
        if said is None or not ranks:
            return None, f"no form of {name} that was tried runs; say adapt(layer, mask=..., mask_name={name!r})"
        promised = [replace(masked, said=True) for masked in _forms(form, name) if masked.mask == said]
        return _with_rank(next((m for m in promised if m.mask_rank in ranks), promised[0]), ran, ranks), ""
    best = _best(sorted(ran, key=lambda t: (not t.fits, t.fits and t.blind > 0)), said, name)
    note = ""
    if best.fits and said is None and best.form.mask in ("allowed", "blocked", "float01"):
        read = "hidden" if best.form.mask == "blocked" else "may attend"
        note = f"True = {read} in {name} is how it behaves; a mask that is read the wrong way round could not be told"
    whole = best.form.mask == "allowed" and words.integers(name)
    return _with_rank(replace(best.form, said=said is not None, integers=whole), ran, ranks), note


def _best(tried: list[Tried], said: str | None, name: str) -> Tried:
    """Return the form to examine: what the author says before what fits before what is usual.

    Args:
        tried: those that fit first.
        said: the polarity in words.
        name: of the mask.
    """
    if said is not None:
        meant = [t for t in tried if t.form.mask in SAME_POLARITY[said]]
        if not meant and said != "additive":  # only forms of the other polarity run
            other = [t for t in tried if t.form.mask in ("allowed", "blocked", "float01")]
            meant = [Tried(replace(t.form, mask=said), 1.0, False, 0) for t in other]
        return (meant or tried)[0]
    if tried[0].fits:
        return tried[0]
    usual = "blocked" if name in PADDING_NAMES else "additive" if re.search("bias", name) else "allowed"
    least = min(t.leaks for t in tried)
    return min(tried, key=lambda t: (t.leaks > least + 0.01, t.form.mask_over != "pairs", t.form.mask != usual))


def _with_rank(chosen: Adapted, ran: list[Tried], said: set[int]) -> Adapted:
    """Leave the rank open where both (T, T) and (B, T, T) are taken, or where the author promises the second."""
    if chosen.mask_over != "pairs" or chosen.mask == "lengths" or chosen.axes == "T d":
        return chosen
    promised = 3 in said and 4 not in said and not any(t.form.mask_rank == 3 for t in ran)
    if chosen.mask_rank == 3 or promised:
        return replace(chosen, mask_rank=3, declared=False)
    return chosen


def _forms(form: Adapted, name: str) -> Iterator[Adapted]:
    also = {key: value for key, value in form.also.items() if key != name}
    form = replace(form, also=also, mask_name=name, mask_always=False)
    lengths = "len" in name
    if lengths:
        for rank in (2, 1):
            yield replace(form, mask="lengths", mask_rank=rank)
    if lengths and "mask" not in name:
        return
    for over, ranks in (("pairs", (3, 4, 2)), ("keys", (2, 3, 4))):
        for rank in ranks if form.axes != "T d" else (2,):
            for kind in KINDS:
                yield replace(form, mask=kind, mask_rank=rank, mask_over=over)


def _try(form: Adapted, name: str, trials: Trials, T: int) -> Iterator[Tried]:
    bases = {}
    for masked in _forms(form, name):
        open_mask = torch.ones(T, T, dtype=torch.bool)
        if (with_open := trials.seen(masked, T, open_mask)) is None:
            continue
        if "free" not in bases:
            bases["free"] = trials.seen(form, T)
        base, replaces = bases["free"], False
        if base is not None and (with_open & ~base).any() and masked.mask_over == "pairs":
            replaces = True  # a mask of one's own takes the place of the one that it makes
        always = replaces or base is None
        base = with_open if always else base
        masks = _masks(masked, T, base)
        seen = [trials.seen(masked, T, mask) for mask in masks]
        if any(moved is None for moved in seen):
            continue
        # In sharp maps a token sees another one only where a mask takes away the one that outshines it.
        able = base.clone()
        for mask, moved in zip(masks, seen, strict=True):
            able |= moved & mask
        leaks = blind = hidden = shown = 0
        for mask, moved in zip(masks, seen, strict=True):
            known, allowed = _known(masked, mask, base), mask & base
            leaks += int((moved & ~_reach(mask & able) & known).sum())
            blind += int((~moved & allowed & known).sum())
            hidden += int((base & ~mask & known).sum())
            shown += int(allowed.sum())
        fits = leaks == 0 and hidden > 0 and blind < MOST_BLIND * shown
        yield Tried(replace(masked, mask_always=always), leaks / max(hidden, 1), fits, blind)


def _masks(form: Adapted, T: int, base: Tensor) -> list[Tensor]:
    """Return boolean `(T, T)` masks of this form that leave each query a key that it sees by itself."""
    if form.mask == "lengths":
        return [(torch.arange(T) < n).expand(T, T) for n in (T - 2, 2)]
    generator = torch.Generator().manual_seed(1)
    if form.mask_over == "keys":
        some = torch.arange(T) % 3 != 1  # a key in the middle is hidden; the first is not, for causal layers
        return [some.expand(T, T), (torch.arange(T) < T - 2).expand(T, T)]
    drawn = torch.rand(T, T, generator=generator) < 0.5
    drawn[torch.arange(T), (torch.arange(T) + 1) % T] = False
    own = torch.eye(T, dtype=torch.bool)
    return [drawn | own, torch.ones(T, T, dtype=torch.bool).tril(), own]


def _reach(allowed: Tensor) -> Tensor:
    """Return what is reached in any number of layers; the causal mask and that of the own token stay what they are."""
    step = (allowed | torch.eye(len(allowed), dtype=torch.bool)).float()
    return torch.linalg.matrix_power(step, len(allowed)) > 0


def _known(form: Adapted, mask: Tensor, base: Tensor) -> Tensor:
    """Return the pairs that say something: no diagonal, no query without a key, none that is padding itself."""
    T = len(mask)
    known = ~torch.eye(T, dtype=torch.bool) & (mask & base).any(-1, keepdim=True)
    if form.mask == "lengths" or form.mask_over == "keys":
        known &= mask[0][:, None]
    return known

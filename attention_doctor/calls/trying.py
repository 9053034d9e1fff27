"""How a layer is called, found by trying: which arguments run, which axes they have, which part of the result it is.

One call shows much: of a batch in which each sample has another token changed, the outputs say which token sees which.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from attention_doctor.adapt import Adapted, turned_back
from attention_doctor.calls.names import Filler, Roles

LENGTHS = (5, 6, 4, 8, 9, 16, 12, 10, 7, 25, 36, 49, 64)  # tokens; the later ones for layers that take one number only
ROUNDING = 1e-6  # share of the largest output below which a change is rounding


class Refused(Exception):
    """The layer raised in every form that was tried."""


def quietly(attend: Adapted, x: Tensor, mask: Tensor | None = None) -> Tensor | Exception:
    """Return what the layer answers, as float32 on the CPU, or what it raised."""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            out = attend(x.clone(), None if mask is None else mask.clone())
            return out.detach().to("cpu", torch.float32 if out.dtype.itemsize < 4 else out.dtype)
    except Exception as error:
        return error


class Trials:
    """Inputs for one layer, and the answers to them.

    Args:
        d_model: features of a token.
        num_heads: a number of samples to keep away from, since a mix-up of the two axes would raise nothing.
        dtype, device: of what the layer takes.
    """

    def __init__(self, d_model: int, num_heads: int | None, dtype: torch.dtype, device: torch.device):
        self.d_model, self.num_heads, self.dtype, self.device = d_model, num_heads, dtype, device
        self.batch = 2 if num_heads == 3 else 3

    def tokens(self, batch: int, T: int, spread: float = 0.5) -> Tensor:
        generator = torch.Generator().manual_seed(3)
        one = torch.randn(1, 1, self.d_model, generator=generator)
        x = one + spread * torch.randn(batch, T, self.d_model, generator=generator)
        return x.to(self.device, self.dtype)

    def forms(self, target, roles: Roles) -> Iterator[Adapted]:
        """Yield the forms of a call without a mask, the likelier first."""
        conventions = {1: "plain", 2: "cross", 3: "qkv"}
        counts = [roles.inputs]
        fillings = [dict(zip(roles.further, values, strict=True)) for values in product(*roles.further.values())]
        for axes, count, filling in product(("B T d", "B d T", "B d H W", "T d"), counts, fillings[:12]):
            also = {**filling, **dict.fromkeys(roles.required)}
            yield Adapted(target, conventions[count], None, 3, None, axes, None, False, also=also)

    def runs(self, target, roles: Roles) -> tuple[Adapted, int]:
        """Return the first form that runs, and a number of tokens at which it does.

        Raises:
            Refused: none does; with what the likeliest form raised.
        """
        first, needs_mask = None, bool(roles.required)
        for T in LENGTHS:
            for form in self.forms(target, roles):
                masks = (None, True) if needs_mask else (None,)
                for masked in masks:
                    tried = form if masked is None else self._with_open_mask(form, roles, T)
                    if tried is None:
                        continue
                    answer = self._raw(tried, T)
                    if isinstance(answer, Exception):
                        first = first or answer
                        continue
                    picked = self.picked(tried, T)
                    if picked is not None:
                        return replace(picked, lengths=self._lengths(picked, T)), T
            if T == LENGTHS[2] and not _by_length(first):
                break  # no other number of tokens mends this
        raise Refused(f"{type(first).__name__}: {first}" if first else "no tensor with one output for each token")

    def _with_open_mask(self, form: Adapted, roles: Roles, T: int) -> Adapted | None:
        """Return the form with a mask that hides nothing, for a layer that cannot do without one."""
        if not roles.required:
            return None
        name = next(name for name in roles.masks if name in roles.required)
        also = {key: value for key, value in form.also.items() if key != name}
        form = replace(form, also=also, mask_name=name, mask_always=True)
        masks = [replace(form, mask="lengths", mask_rank=rank) for rank in (1, 2)]
        if "len" not in name:
            kinds = product((2, 3, 4), ("pairs", "keys"), ("allowed", "float01"))
            masks = [*(replace(form, mask=m, mask_rank=rank, mask_over=over) for rank, over, m in kinds), *masks]
        return next((tried for tried in masks if not isinstance(self._raw(tried, T), Exception)), None)

    def _raw(self, form: Adapted, T: int) -> object:
        """Return whatever the layer returned."""
        seen = []

        def target(*args, **kwargs):
            seen.append(form.target(*args, **kwargs))
            return torch.zeros(1)

        answer = quietly(replace(form, target=target), self.tokens(self.batch, T))
        return seen[-1] if seen else answer

    # ------------------------------------------------------------------------------------------ which part, which axes

    def picked(self, form: Adapted, T: int) -> Adapted | None:
        """Return the form with the part of the result that holds one output for each token; None where none does."""
        shapes = {}
        for tokens in (T, T + 2):
            result = self._raw(form, tokens)
            if isinstance(result, Exception):
                break  # a layer of one number of tokens
            for output, part in _parts(result):
                if isinstance(part, Tensor) and part.is_floating_point():
                    shapes.setdefault(output, []).append(self._width(form, part, tokens))
        fitting = {o: w for o, w in shapes.items() if None not in w and len(set(w)) == 1}
        if not fitting:
            return None
        best = min(fitting, key=lambda o: (fitting[o][0] != self.d_model, list(fitting).index(o)))
        first = next(iter(shapes), None)
        return replace(form, output=None if best in (None, first) and best in (None, 0) else best)

    def _width(self, form: Adapted, part: Tensor, T: int) -> int | None:
        batch = 1 if form.axes == "T d" else self.batch
        out = turned_back(part, form.axes)
        return out.shape[-1] if out.ndim == 3 and tuple(out.shape[:2]) == (batch, T) else None

    def _lengths(self, form: Adapted, T: int) -> tuple[int, ...]:
        """Return the only numbers of tokens that it takes, where that is its design; () where it takes any.

        A layer that runs at one number by accident has no such number among its sizes.
        """
        ran = tuple(n for n in range(1, 13) if isinstance(quietly(form, self.tokens(2, n)), Tensor))
        if len(ran) > 10 or ran[:1] == (1,) and set(ran) == set(range(1, len(ran) + 1)):  # all, or all up to a longest
            return ()
        if any(isinstance(value, Filler) for value in form.also.values()):  # rows times columns
            return ran
        owner = form.module
        held = [] if owner is None else [size for t in (*owner.parameters(), *owner.buffers()) for size in t.shape]
        designed = {T, T * T} & set(held) - {self.d_model}
        return tuple(dict.fromkeys([*ran, T])) if designed and len(ran) < 3 else ()

    def acts_time_first(self, form: Adapted, T: int) -> bool:
        """Whether tokens meet along the first axis of x and along no other, as in a layer for (T, B, d_model)."""
        if form.axes != "B T d":
            return False
        x = self.tokens(self.batch, T)
        before = quietly(form, x)
        changed = x.clone()
        changed[0, 0] += self.tokens(1, 1, 2.0)[0, 0]
        after = quietly(form, changed)
        if isinstance(before, Exception) or isinstance(after, Exception):
            return False
        moved = (after - before).abs().amax(-1) > ROUNDING * before.abs().max()  # (B, T)
        return bool(moved[1:, 0].any() and not moved[0, 1:].any() and not moved[1:, 1:].any())

    def same(self, a: Adapted, b: Adapted, T: int) -> bool:
        """Whether two forms of a call give one answer."""
        x = self.tokens(2, T)
        one, two = quietly(a, x), quietly(b, x)
        return isinstance(one, Tensor) and isinstance(two, Tensor) and torch.allclose(one, two, atol=1e-5, rtol=1e-4)

    # --------------------------------------------------------------------------------------------------- what is seen

    def seen(self, form: Adapted, T: int, mask: Tensor | None = None) -> Tensor | None:
        """Return which output moves with which token, boolean `(T, T)`, in one call for each size of change.

        Args:
            form: a call.
            T: tokens.
            mask: boolean `(T, T)`, or None.
        """
        moved = torch.zeros(T, T, dtype=torch.bool)
        for spread in (0.05, 0.5):
            batch = T + 2 if T + 1 == self.num_heads else T + 1
            x = self.tokens(1, T, spread).repeat(batch, 1, 1)
            steps = spread * self.tokens(1, T, 3.0)[0]  # (T, d_model)
            x[torch.arange(1, T + 1), torch.arange(T)] += steps
            out = quietly(
                form, x, None if mask is None else mask.expand(batch, T, T) if form.masks != "shared" else mask
            )
            if isinstance(out, Exception) or out.shape[:2] != x.shape[:2]:
                return None
            change = (out[1 : T + 1] - out[:1]).abs().amax(-1)  # (token that changed, output)
            moved |= ~(change <= ROUNDING * out.nan_to_num(0, 0, 0).abs().max()).T
        return moved


def _by_length(error: Exception | None) -> bool:
    """Whether an error may come from the number of tokens: it speaks of sizes."""
    return error is not None and any(word in str(error) for word in ("size", "shape", "length", "divisible", "index"))


def _parts(result: object, depth: int = 0) -> Iterator[tuple[int | str | None, object]]:
    """Yield the parts of a result and how each is reached."""
    if isinstance(result, Tensor):
        yield None, result
    elif isinstance(result, dict):
        yield from result.items()
    elif isinstance(result, (tuple, list)):
        yield from enumerate(result)
    elif hasattr(result, "__dict__"):
        yield from ((name, value) for name, value in vars(result).items() if not name.startswith("_"))

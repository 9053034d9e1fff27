"""How many heads a layer has, counted from outside: the rank of what a second token adds, as in `mhalib.sealed`.

`f([c + d, c])[1] - f([c])[0]` is a sum over the heads of `a_h(c) V_h d`: over many c and one d, a direction for each
head. Relative positions do no harm: they change the weights only. Which layers cannot be counted is said by
`Reader.refusal`; who finds fault with the number is `probes.heads`.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attention_doctor.patient import Crash, Patient
from mhalib.sealed.box import Box

GAP = 1e3  # between the last singular value that is a head and the first that is rounding
ROOM = 1e4  # of rounding, in units of eps, between two ways to one number
# Of the tokens, and of what is added to one: where that is small, the maps are flat, and no head is always on or off.
SCALES = ((1.0, 1.0), (0.1, 0.1), (1.0, 0.01))
SMALLER = ((1.0, 1e-3), (10.0, 1e-3), (1.0, 1e-4), (1.0, 1e-5))  # asked where heads seem to be missing
DRAWS = 2  # of what is added, at each scale


@dataclass
class HeadsSeen:
    """How many heads there are.

    Args:
        stated: the number that was said, None where nobody said it.
        counted: the number that was counted, None where it could not be.
        sizes: the singular values it was read from, as shares of the first: the heads', and the one that follows.
        why: why it was not counted, "" where it was.
    """

    stated: int | None
    counted: int | None
    sizes: list[float] = field(default_factory=list)
    why: str = ""

    def __str__(self) -> str:
        stated = "" if self.stated is None else f"{_heads(self.stated)} stated, "
        if self.counted is None:
            return f"{stated}not counted: {self.why}"
        here, rest = self.sizes[: self.counted], self.sizes[self.counted :]
        shown = ", ".join(f"{size:.2g}" for size in (here if len(here) <= 8 else [*here[:3], here[-1]]))
        shown += f" | {rest[0]:.1g}" if rest else ""
        counted = str(self.counted) if stated else _heads(self.counted)
        return f"{stated}{counted} counted (singular values {shown})"


def _heads(number: int) -> str:
    return f"{number} head{'s' if number != 1 else ''}"


class Reader(Box):
    """A layer as a box that is asked in one precision; outputs wider or narrower than the input are let through.

    Args:
        patient: the layer, as it is called here.
        dtype: of what is handed in.
    """

    def __init__(self, patient: Patient, dtype: torch.dtype):
        super().__init__(patient, patient.d_model, dtype, seed=0)

    def _answer(self, tokens: Tensor) -> Tensor:
        out = self.f(tokens)
        if out.dtype != self.dtype:
            raise Crash(f"it was given {self.dtype} and returned {out.dtype}")
        return out.double()

    def refusal(self) -> str:
        """Say why the heads of this layer cannot be counted; "" where they can."""
        tokens = torch.cat([scale * self.draw(12, 1, self.d_model) for scale in (0.1, 1.0, 10.0)])
        alone = self.ask(tokens)
        if not alone.isfinite().all():
            return "it gives NaN or infinity for a single token"
        other = tokens.roll(1, 0)
        whole, none = self.ask(tokens + other), self.ask(0 * tokens[:1])
        room = ROOM * self.eps * alone.abs().max().item()  # between two ways to one number
        bent = (alone + alone.roll(1, 0) - whole - none).abs().max().item()
        if not bent <= room:
            return (
                f"a single token is not answered in proportion (f(a) + f(b) and f(a + b) + f(0) differ by {bent:.2g}): "
                "a norm, a gate or a nonlinearity, a sink or a further key"
            )
        twice = (self.ask(tokens.expand(-1, 2, -1))[:, 1] - alone[:, 0]).abs().max().item()
        if not twice <= room:
            return f"a token twice is not answered as the token once (they differ by {twice:.2g}): it knows its places"
        return ""

    def rounding(self) -> float:
        """Return the unit of its rounding: more than eps where a float64 layer computes its softmax in float32.

        Along a line of steps too small to see a bend in, what does not grow in proportion has been rounded.
        """
        d, c = self.draw(self.d_model), self.draw(20 * self.d_model, self.d_model)
        near, middle, far = (self.ask(torch.stack([c + k * 1e-8 * d, c], 1))[:, 1] for k in range(3))
        return max(self.eps, ((near + far - 2 * middle).abs().max() / middle.abs().max().clamp_min(1e-300)).item())

    def spectra(self, scales: tuple[tuple[float, float], ...]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield singular values in units of the largest, and the directions that belong to them, one pair a draw.

        What is below rounding is 0.
        """
        unit = self.rounding() if self.dtype == torch.float64 else self.eps
        for size, step in scales:
            for _ in range(DRAWS):
                d, c = self.draw(self.d_model), size * self.draw(2 * self.d_model + 20, self.d_model)
                steps = [step, -step, step / 8]
                rows = torch.cat([self.added(c, c + step * d) / step for step in steps])
                noise = unit * self.ask(c[:, None]).abs().max().item() / min(map(abs, steps))
                _, sizes, directions = torch.linalg.svd(rows, full_matrices=False)
                sizes = torch.where(sizes > noise * len(rows) ** 0.5, sizes, 0)
                yield sizes / sizes[0].clamp_min(1e-300), directions


def clear_rank(sizes: Tensor) -> int | None:
    """Return the number of singular values before a gap of `GAP`, None where there is none.

    A number as large as there are values says nothing: there may be more heads than features.
    """
    following = sizes[1:].clamp_min(1e-17)
    wide = ((sizes[:-1] > GAP * following) & (sizes[:-1] > 1e-9)).nonzero()
    return int(wide[-1]) + 1 if len(wide) else None


def readers(patient: Patient) -> Iterator[Reader]:
    """Yield the layer in float64, where it can be copied, and as it is, where it is no less than float32."""
    double = doubled(patient)
    if double is not None:
        yield Reader(double, torch.float64)
    if patient.dtype in (torch.float32, torch.float64):
        plain = copy.copy(patient)
        plain.written = {}
        yield Reader(plain, patient.dtype)


def doubled(patient: Patient) -> Patient | None:
    """Return the layer as a copy in float64; None where it is no module, or cannot be copied."""
    own = patient.attend.module
    if own is None or own is not patient.module:
        return None
    try:
        twin = copy.deepcopy(own).double()
    except Exception:  # what cannot be copied is examined as it is
        return None
    target = patient.attend.target
    double = copy.copy(patient)
    double.attend = replace(patient.attend, target=twin if target is own else getattr(twin, target.__name__))
    double.module, double.dtype, double.written = twin, torch.float64, {}
    return double


def count(patient: Patient, stated: int | None) -> tuple[HeadsSeen, Reader | None, Tensor | None]:
    """Return how many heads there are, who read it, and an orthonormal basis `(heads, d_out)` of what they write.

    The most that any draw shows counts: each says that there are at least so many.

    Args:
        patient: the layer.
        stated: how many heads it is said to have, None where nobody said it.
    """
    why = "half precision is too coarse"
    for reader in readers(patient):
        try:
            why = reader.refusal()
            if why:
                continue
            seen = [(clear_rank(sizes), sizes, directions) for sizes, directions in reader.spectra(SCALES)]
            if max(rank or 0 for rank, _, _ in seen) != stated:
                seen += [(clear_rank(sizes), sizes, directions) for sizes, directions in reader.spectra(SMALLER)]
        except Crash as crash:
            why = f"the layer raised {crash}"
            continue
        except RuntimeError as error:  # singular values of NaN
            why = str(error).splitlines()[0]
            continue
        clear = [entry for entry in seen if entry[0] is not None]
        most = max((rank for rank, _, _ in clear), default=None)
        if not clear:
            why = (
                f"what a second token adds spans all {len(seen[0][1])} features: there are that many heads or more"
                if all((sizes > 1e-9).all() for _, sizes, _ in seen)
                else "the singular values leave it open"
            )
            continue
        rank, sizes, directions = next(entry for entry in clear if entry[0] == most)
        more = any((sizes > 1e-6).sum() > rank for _, sizes, _ in seen)  # without a clear end
        if more or (most != stated and sum(entry[0] == most for entry in seen) <= len(seen) // 2):
            why = "the singular values leave it open"
            continue
        return HeadsSeen(stated, rank, sizes[: rank + 1].tolist()), reader, directions[:rank]
    return HeadsSeen(stated, None, why=why), None, None

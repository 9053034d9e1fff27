"""What each head of a box writes, and where it looks: by walks on which the heads switch one after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from mhalib.arguments import check_tensor
from mhalib.sealed.box import ROOM, Box
from mhalib.sealed.count import count_in

LINES = 24  # walks
POINTS = 512  # of one walk
FAR = {torch.float64: 1e7, torch.float32: 1e4}  # how many times d the second token is away: every softmax is a switch
ALIKE = {torch.float64: 1e-6, torch.float32: 2e-2}  # two steps that are the same step


@dataclass(frozen=True)
class Step:
    """One head, switching on a walk: a token before, a token after, and the room that it has to both sides."""

    before: Tensor  # (d_model,)
    after: Tensor  # (d_model,)
    t: float  # where on its line
    room: float  # in radians
    change: Tensor  # (d_model,), of what the second token adds


@dataclass(frozen=True)
class SealedHeads:
    """The heads of a box, as they were read from outside; their order is that in which they were found.

    What is known of a head is its map `V_h` from a token to what it writes, and the form of its scores, both products
    of two weights. The weights themselves, and the order of the heads inside, nobody can know.

    What `read_heads` returns; notebook 15 teaches it.
    """

    d: Float[Tensor, " d_model"]
    writes: Float[Tensor, "heads d_model"]  # V_h d
    causal: bool
    box: Box = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)
    signs: Float[Tensor, " heads"] = field(repr=False)

    @property
    def num_heads(self) -> int:
        return len(self.writes)

    def maps(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch heads tokens tokens"]:
        """Return the attention of every head for any tokens, computed from the forms that were read.

        Raises:
            TypeError, ValueError: x is no such tensor, or f is more than heads that look and write.
        """
        return self._maps(self._tokens(x), *self.scores)

    def _maps(self, x: Tensor, forms: Tensor, offsets: Tensor) -> Tensor:
        scores = torch.einsum("bqi,hij,bkj->bhqk", x, forms, x) + torch.einsum("hj,bkj->bhk", offsets, x)[:, :, None]
        if self.causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        return scores.softmax(-1)

    def rebuilt(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch tokens d_model"]:
        """Return what the box would answer, without asking it for more than single tokens."""
        x = self._tokens(x)
        return self._rebuilt(x, self.maps(x))

    @cached_property
    def values(self) -> Float[Tensor, "heads d_model d_model"]:
        """What each head makes of a token in the end: `V_h = W_o^h W_v^h`, so that it writes `V_h @ token`."""
        size = self.d.norm()
        basis = torch.linalg.qr(self.box.draw(self.box.d_model, self.box.d_model))[0] * size  # one direction a column
        heads = zip(self.steps, self.signs, strict=True)
        return torch.stack([self._values_of(*head, basis) for head in heads]) @ basis.T / size**2

    def _values_of(self, step: Step, sign: Tensor, basis: Tensor) -> Tensor:
        """Return V_h @ basis: the step of one head, with d turned a little each way."""
        far, share = FAR[self.box.dtype], 2.0**-4
        ends = torch.stack([step.after, step.before])
        for _ in range(12):
            turned = torch.stack([self.d + share * basis.T, self.d - share * basis.T]) * far  # (2, d_model, d_model)
            c = ends[:, None, None].expand(-1, *turned.shape[:2], -1)  # (2, 2, d_model, d_model)
            moved = self.box.added(c.flatten(0, 2), (c + turned).flatten(0, 2)).unflatten(0, c.shape[:3])
            plus, minus = sign * (moved[0] - moved[1]) / far
            middle = (plus + minus) / 2
            write = sign * step.change
            if (middle - write).abs().max() <= ROOM * self.box.eps * moved.abs().max() / far:
                return ((plus - minus) / (2 * share)).T
            share /= 2  # another head switched, too
        raise ValueError(
            "a head never switches alone, so what it writes cannot be told for another d; try another seed"
        )

    @cached_property
    def scores(self) -> tuple[Float[Tensor, "heads d_model d_model"], Float[Tensor, "heads d_model"]]:
        """The form and the offset of each head's scores: query `c` scores token `x` as `c @ form @ x + offset @ x`.

        The form is `scale * W_q.T @ W_k` and the offset `scale * W_k.T @ b_q`, of the head's own rows. What is the
        same for all keys of a query leaves no trace, so it is not in here: `b_k` cannot be known.
        """
        size, box = self.d.norm(), self.box
        basis = torch.linalg.qr(box.draw(box.d_model, box.d_model))[0] * size
        writes = (self.values @ basis).permute(2, 0, 1)  # (d_model of the basis, heads, d_model)
        drawn = box.draw(2 * box.d_model + 10, box.d_model)
        for gentle in (2.0**-n for n in range(40)):  # short tokens, so that no softmax is a switch
            c = (gentle * drawn).to(box.dtype).double()
            pulls = self._pulls(c, gentle * basis, gentle * writes)
            if pulls is not None:
                break
        else:
            raise ValueError(
                "some head looks at a second token by less than 0 or more than all; f has no softmax of scores, "
                "or two heads write the same, up to a sign"
            )
        ones = torch.ones(len(c), 1, dtype=c.dtype)
        solved = torch.linalg.lstsq(torch.cat([c, ones], 1), pulls / gentle).solution  # (d_model + 1, d_model * heads)
        solved = solved.unflatten(1, (box.d_model, -1))  # -> (d_model + 1, d_model of the basis, heads)
        whole = torch.einsum("ijh,kj->hik", solved, basis) / size**2
        forms, offsets = whole[:, :-1], whole[:, -1]
        self._try_out(forms, offsets)
        return forms, offsets

    def _try_out(self, forms: Tensor, offsets: Tensor) -> None:
        """Refuse a box that is not what would be rebuilt of it."""
        x = self.box.draw(4, 5, self.box.d_model)
        there = self.box.ask(x)
        off = ((self._rebuilt(x, self._maps(x, forms, offsets)) - there).abs().max() / there.abs().max()).item()
        if off > 30 * self.box.eps**0.5:
            raise ValueError(
                f"f is more than heads that look and write: on five tokens, what was read of it answers {off:.1g} "
                "of the output away. It may cap its scores, hide some keys, or share its weight with a key of its own"
            )

    def _rebuilt(self, x: Tensor, maps: Tensor) -> Tensor:
        alone = self.box.ask(x.flatten(0, 1)[:, None])[:, 0].unflatten(0, x.shape[:2])  # what a token makes of itself
        moved = torch.einsum("hij,bkj->bhki", self.values, x)  # what a head writes of each token
        return alone + (maps @ moved - moved).sum(1)

    def _pulls(self, c: Tensor, basis: Tensor, writes: Tensor) -> Tensor | None:
        """Return by how much each head scores the second token over c, `(contexts, d_model of the basis * heads)`.

        None where a head gives all or nothing of its weight, from which a score cannot be read.
        """
        alone, pulls = self.box.ask(c[:, None])[:, 0], []
        for direction, write in zip(basis.T, writes, strict=True):
            added = self.box.ask(torch.stack([c + direction, c], 1))[:, 1] - alone
            share = added @ torch.linalg.pinv(write)  # least squares
            if not ((0.01 < share) & (share < 0.99)).all():
                return None
            pulls.append(share.logit())
        return torch.cat(pulls, 1)

    def _tokens(self, x: Tensor) -> Tensor:
        check_tensor("x", x)
        if x.ndim != 3 or x.shape[-1] != self.box.d_model or not x.is_floating_point():
            raise ValueError(
                f"x must be (B, T, {self.box.d_model}) of floating numbers, got {tuple(x.shape)} of {x.dtype}; add a "
                "missing axis with x[None]"
            )
        return x.detach().double().cpu()


def read_heads(f: Callable, d_model: int, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> SealedHeads:
    """Return what each head of a box writes and where it looks, from what the box answers alone.

    Beside a token far away, `c + 1e7 d`, every softmax is a switch. On a line `c0 + t e` each head switches once, and
    the answer moves by its `V_h d`, alone; the steps that come back on most of 24 lines are the heads. All the rest is
    least squares. Heads with the same scores are read as one, which writes what they write together.

    Args:
        f, d_model, seed: as in `count_heads`.
        dtype: what f is given, float64 or float32 (then maps are right to some 1e-4 instead of 1e-9).

    Raises:
        TypeError, ValueError: as in `count_heads`; also two heads that write along one line, though they look at
            different tokens, or heads that cannot be told apart on 24 lines.

    Compare Bhattamishra et al. (2026), who learn one head and show that several cannot be told apart in general where
    the output is a single number. Here it is a vector, and the heads lie in general position. Taught in notebook 15.
    """
    box = Box(f, d_model, dtype, seed)
    d = box.draw(d_model)
    heads = int(count_in(box, d))
    kinds = _recurring(box, [step for line in steps_of(box, d) for step in line.steps])
    steps, most = [kind[0] for kind in kinds], max(map(len, kinds), default=0)
    if len(steps) > heads:
        raise ValueError(
            f"a walk has {len(steps)} different steps, but they span {heads} directions only: two heads look at "
            "different tokens and write along one line, or there are more heads than features. They can be counted, "
            "but least squares cannot tell how much each of them looks"
        )
    if most > LINES:
        raise ValueError(
            f"on {LINES} walks one step comes back {most} times, but one head switches only once on a walk: two heads "
            "look at different tokens and write the same, up to a sign. A rank counts them as one, and least squares "
            "cannot tell how much each of them looks"
        )
    if not steps:
        raise ValueError(
            f"{heads} heads were counted, but none switches, however far the second token: the scores do not "
            "grow with the tokens. A norm of queries and keys, or a cap of the scores, does that"
        )
    if len(steps) < heads:
        raise ValueError(
            f"{heads} heads were counted, and only {len(steps)} were seen to switch alone; another seed may "
            "do, and float64 does more than float32"
        )
    c = box.draw(64, d_model)
    writes = torch.stack([step.change for step in steps])
    signs = (box.added(c, c + d) @ torch.linalg.pinv(writes)).mean(0).sign()  # shares lie between 0 and 1
    ahead = torch.stack([c, c + d], 1) * 2.0**-8  # short tokens: no head gives all of its weight to the first one
    seen = (box.ask(ahead)[:, 0] - box.ask(ahead[:, :1])[:, 0]).abs().max()
    causal = seen.item() <= ROOM * box.eps * box.ask(ahead).abs().max().item()
    return SealedHeads(d, writes * signs[:, None], causal, box, tuple(steps), signs)


@dataclass(frozen=True)
class Line:
    """A line `start + t * direction`, and the steps on it in their order."""

    start: Tensor  # (d_model,)
    direction: Tensor  # (d_model,)
    steps: list[Step]


def steps_of(box: Box, d: Tensor, lines: int = LINES, spread: float = 1.0) -> list[Line]:
    """Return walks beside a second token that is far away; `spread` is the size of the tokens walked along."""
    start, direction = spread * box.draw(2, lines, box.d_model)
    angles = (torch.arange(POINTS, dtype=torch.float64) + 0.5) * torch.pi / POINTS - torch.pi / 2
    t = angles.tan()  # the steps of a line crowd around 0, and some are far away: even in the angle, dense in t
    c = (start[:, None] + t[:, None] * direction[:, None]).to(box.dtype).double()  # (lines, points, d_model)
    far = FAR[box.dtype] / spread
    moved = (box.added(c.flatten(0, 1), (c + far * d).flatten(0, 1)) / far).unflatten(0, c.shape[:2])
    size = moved.abs().max() * max(1.0, spread)
    flat = (moved[:, 1:] - moved[:, :-1]).abs().amax(-1) <= ROOM * box.eps * size / 4  # (lines, points - 1)
    return [
        Line(*ends, _steps(t, *one))
        for ends, one in zip(zip(start, direction, strict=True), zip(c, moved, flat, strict=True), strict=True)
    ]


def _steps(t: Tensor, c: Tensor, moved: Tensor, flat: Tensor) -> list[Step]:
    """Return the steps of one walk: what changes from one plateau to the next."""
    cuts = [0, *(torch.nonzero(~flat)[:, 0] + 1).tolist(), len(c)]
    plateaus = [(a, b) for a, b in zip(cuts, cuts[1:], strict=False) if b - a >= 3]
    steps = []
    for (a, b), (e, g) in zip(plateaus, plateaus[1:], strict=False):
        before, after = (a + b) // 2, (e + g) // 2
        room = min(b - a, g - e) * torch.pi / len(c)
        at = (t[b - 1] + t[e]).item() / 2
        steps.append(Step(c[before], c[after], at, room, moved[after] - moved[before]))
    return steps


def _recurring(box: Box, steps: list[Step]) -> list[list[Step]]:
    """Return the steps that come back on at least half of the lines, alike ones together, most room first."""
    kinds: list[list[Step]] = []
    for step in sorted(steps, key=lambda step: -step.room):
        size = step.change.norm()
        for kind in kinds:
            known = kind[0].change
            if min((step.change - known).norm(), (step.change + known).norm()) <= ALIKE[box.dtype] * size:
                kind.append(step)
                break
        else:
            kinds.append([step])
    return [kind for kind in kinds if len(kind) >= LINES / 2]

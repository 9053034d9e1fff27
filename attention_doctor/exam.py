"""A layer under examination: called with inputs of its own, looked into, and asked where each row comes from.

Rows are told apart by codes: what row number 5 = 101 in binary changes is what changes whenever a bit of 101 does, and
never with a bit of its complement 010. So a few calls say of all rows at once where they arrive; a row that is made of
several shows both a bit and its opposite.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.modules.conv import _ConvNd

from attention_doctor.calling import Mask
from attention_doctor.look import Info, Patch, Seen, Step, seeing
from attention_doctor.patient import Crash, Patient

MANY, NONE = -1, -2  # in place of the number of a row: made of several, made of none


class Exam:
    """One layer, as it is called, at one size; no two of batch, tokens, heads and head_dim should agree."""

    def __init__(self, patient: Patient, batch: int, tokens: int):
        self.patient, self.B, self.T = patient, 1 if patient.call.axes == "T d" else batch, tokens
        self.inputs = len(patient.call.roles)
        # Whether neighbours may meet without attention.
        self.convolved = any(isinstance(m, _ConvNd) and max(m.kernel_size) > 1 for m in patient.module.modules())
        for spread in (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3):
            # Nearly equal tokens where maps are sharp: a weight of almost 0 looks like none.
            size = spread if spread >= 0.1 else 1.0
            self.x = [
                (spread < 1) * size * patient.noise(1, 1, 10, i) + spread * patient.noise(self.B, tokens, 11 + i, i)
                for i in range(self.inputs)
            ]
            self.first = self.look()
            self.spread, self.flat = spread, all(flat(step) for step in self.first.steps)
            if self.flat:
                break

    def look(
        self,
        x: list[Tensor] | None = None,
        mask: Tensor | None = None,
        patch: Patch | None = None,
        form: Mask | None = None,
    ) -> Seen:
        """Call the layer, with a mask of this form, and return what was seen.

        Raises:
            Crash: it raised.
        """
        patient = (self.patient.unused() or self.patient) if self.patient.stateful else self.patient
        patient = patient.with_mask(form)
        torch.default_generator.manual_seed(0)  # put back with all else that the examination changes
        x = self.x if x is None else x
        try:
            with seeing(patient.module, patch, x) as seen:
                seen.out = patient(x, mask)
        except Crash as crash:
            patient(x, mask)
            raise Crash(f"it runs, but not while it is watched ({crash})", "its steps") from crash
        return seen

    def place(self, token: int) -> tuple[int, int]:
        """Return sample and place of a token, by its number among all inputs."""
        return divmod(token % (self.B * self.T), self.T)

    # ---------------------------------------------------------------------------------------------- where rows go

    def _decoded(self, count: int, changed: Callable[[Tensor], list[Tensor]]) -> list[Tensor]:
        """Return for each observed tensor of rows the number of the one row it is made of, or MANY, or NONE.

        Args:
            count: how many rows can be changed.
            changed: takes which of them are, `(count,)`, and returns which observed rows moved.
        """
        bits, number = max(1, (count - 1).bit_length()), torch.arange(count)
        calls = [changed((number >> bit & 1) == value) for bit in range(bits) for value in (0, 1)]
        found = []
        for seen in zip(*calls, strict=True):
            shown = torch.stack(seen).unflatten(0, (bits, 2))  # with a bit of 0, with a bit of 1
            rows = sum(shown[bit, 1].long() << bit for bit in range(bits))
            rows[(shown.sum(1) != 1).any(0)] = MANY
            rows[~shown.any(1).any(0)] = NONE
            found.append(rows)
        return found

    @cached_property
    def known(self) -> list[tuple[int, str]]:
        """The steps with their "q", "k" and "v", as far as they have them."""
        steps = enumerate(self.first.steps)
        return [(j, name) for j, step in steps for name in "qkv" if getattr(step, name) is not None]

    @cached_property
    def tokens(self) -> dict[int | tuple[int, str], Tensor]:
        """Of each projection, of each operand of a step, from which token a row comes, or MANY, or NONE.

        A token's number is input * B * T + sample * T + place.
        """
        per, steps = self.B * self.T, self.first.steps

        def changed(chosen: Tensor) -> list[Tensor]:
            x = []
            for i, given in enumerate(self.x):
                rows = chosen[i * per : (i + 1) * per].view(self.B, self.T, 1)
                x.append(torch.where(rows, given + self.spread * self.patient.noise(self.B, self.T, 41 + i, i), given))
            after = self.look(x)
            if (len(after.projections), len(after.steps)) != (len(self.first.projections), len(steps)):
                raise Crash("it computed in another way when its input changed")
            pairs = [(getattr(steps[j], name), getattr(after.steps[j], name)) for j, name in self.known]
            return [moved(a, b) for a, b in [*zip(self.first.projections, after.projections, strict=True), *pairs]]

        names = [*range(len(self.first.projections)), *self.known]
        return dict(zip(names, self._decoded(self.inputs * per, changed), strict=True))

    @cached_property
    def rows(self) -> dict[tuple[int, str], Tensor]:
        """Of queries, keys and values of each step, from which row of its projection each row `(N, T)` comes.

        The rows of projections that are joined somewhere are counted on from one to the next; see `starts`.
        """
        found, steps = {}, self.first.steps
        for depth in sorted({step.depth for step in steps}):
            here = [(j, name) for j, name in self.known if steps[j].depth == depth]
            here = [(j, name) for j, name in here if self.info(j, name).kind == "projection"]
            found |= self._rows(here, frozenset(n for one in here for n in self.info(*one).of))
            for one in [one for one in here if any(self.starts) and bool((found[one] == MANY).any())]:
                # A sum of several, or one made of another: each alone must be a row; the first gives the number.
                each = [self._rows([one], frozenset([n]))[one] for n in self.info(*one).of[:8]]
                rows = torch.full_like(found[one], NONE)
                for part in sorted(each, key=lambda part: len(part.unique()), reverse=True):
                    rows = torch.where(rows == NONE, part, rows).masked_fill((rows == MANY) | (part == MANY), MANY)
                found[one] = rows
        return found

    def _rows(self, here: list[tuple[int, str]], of: frozenset[int]) -> dict[tuple[int, str], Tensor]:
        """Return what `rows` says of some of them, by a change of these projections alone."""
        steps, starts = self.first.steps, self.starts

        def changed(chosen: Tensor) -> list[Tensor]:
            patch = Patch("projection", of, lambda number, shape: chosen[starts[number] :][: shape[0]])
            after = self.look(patch=patch).steps
            if len(after) != len(steps):
                raise Crash("it computed in another way when a projection changed")
            return [moved(getattr(steps[j], name), getattr(after[j], name)) for j, name in here]

        if not here:
            return {}
        count = max(starts[n] + len(self.first.projections[n]) for n in of)
        return dict(zip(here, self._decoded(count, changed), strict=True))

    @cached_property
    def starts(self) -> list[int]:
        """Of each projection, the number of its first row: 0 but for those that are joined in one place."""
        infos = [self.info(j, name) for j in range(len(self.first.steps)) for name in "qkv"]
        joined = sorted({n for info in infos if info.kind == "projection" and len(info.of) > 1 for n in info.of})
        longest = max(map(len, self.first.projections), default=0)
        longest += -longest % self.T  # so that a row's number still tells its place
        return [joined.index(n) * longest if n in joined else 0 for n in range(len(self.first.projections))]

    def info(self, j: int, name: str) -> Info:
        """Return how "q", "k" or "v" of a step came about."""
        return getattr(self.first.steps[j], f"of_{name}")

    def of(self, j: int, name: str) -> Tensor | None:
        """Return from which row of its projection each row of "q", "k" or "v" comes; None where it is not known."""
        info = self.info(j, name)
        if info.far or info.kind not in ("given", "projection"):
            return None
        return (self.tokens if info.kind == "given" else self.rows)[j, name]

    def token_of(self, j: int, name: str) -> Tensor | None:
        """Return from which token each row `(N, T)` of "q", "k" or "v" comes; None where it is not known of all."""
        rows = self.of(j, name)
        if rows is None or bool((rows == MANY).any()):
            return None
        of = self.info(j, name).of  # their rows are longer: a change is seen beside large biases, too
        if not of:
            return rows
        tokens = torch.full((max(self.starts[n] + len(self.tokens[n]) for n in of),), NONE)
        for n in of:
            tokens[self.starts[n] :][: len(self.tokens[n])] = self.tokens[n]
        if bool((tokens == MANY).any()) or int(rows.max()) >= len(tokens):
            return None
        return torch.where(rows >= 0, tokens[rows.clamp_min(0)], rows)

    def arrivals(self, j: int) -> tuple[Tensor | None, Tensor | None]:
        """Return which group of rows of a step's heads arrives at each row of the next projection, and at each output.

        A group is what is computed for one query in all heads; MANY or NONE may arrive.
        """
        step, groups = self.first.steps[j], self.groups
        together = frozenset(i for i, other in enumerate(self.first.steps) if other.depth == step.depth)

        def changed(chosen: Tensor) -> list[Tensor]:
            def rows(number: int, shape: tuple[int, ...]) -> Tensor:
                of = groups[number] if groups[number].shape == shape else torch.full(shape, NONE)
                return (of >= 0) & chosen[of.clamp_min(0)]

            seen = self.look(patch=Patch("head", together, rows))
            merged = [] if step.merged is None else [moved(step.merged, seen.steps[j].merged)]
            return [moved(self.first.out, seen.out), *merged]

        out, *merged = self._decoded(int(max(rows.max() for rows in groups.values())) + 1, changed)
        return (merged[0] if merged else None), out

    @cached_property
    def straight(self) -> list[bool]:
        """Of each step, whether the maps of its product stand in the order of those that met the values."""
        return [aligned(step) or self._follows_its_keys(j) for j, step in enumerate(self.first.steps)]

    def _follows_its_keys(self, j: int) -> bool:
        """Whether its maps change with its keys as its product does, whatever is added to that."""
        step = self.first.steps[j]
        if step.of_k.kind != "projection" or step.raw is None or step.raw.shape != step.used.shape:
            return False
        for seed in range(3):  # where each query has neighbours of its own, one pattern fits several maps
            generator = torch.Generator().manual_seed(seed)
            rows = torch.rand(max(map(len, self.first.projections)), generator=generator) < 0.5
            patch = Patch("projection", frozenset(step.of_k.of), lambda number, shape, rows=rows: rows[: shape[0]])
            after = self.look(patch=patch).steps
            if len(after) != len(self.first.steps) or not aligned(step, after[j]):
                return False
        return True

    @cached_property
    def of_another(self) -> list[Step]:
        """The steps where the first sample is another one."""
        return self.look([torch.cat([x[:1].roll(1, -1), x[1:]]) for x in self.x]).steps

    @cached_property
    def groups(self) -> dict[int, Tensor]:
        """Of each step, from which token, or row of its projection, each query comes, `(N, Tq)`; NONE if not known."""
        found = {}
        for j, step in enumerate(self.first.steps):
            tokens, rows = self.token_of(j, "q"), self.of(j, "q")
            rows = rows if tokens is None else tokens
            # Where queries and weights stand in two orders, as in some products of einsum, nobody knows.
            known = rows is not None and rows.shape == step.used.shape[:2] and (step.q is None or self.straight[j])
            found[j] = rows if known else self._by_samples(j, tokens)
        return found

    def silent(self, j: int) -> Iterator[int]:
        """Yield the maps of a step whose outputs reach no output of the layer."""
        count = len(self.first.steps[j].used)
        numbers, per = torch.arange(count), max(1, count // self.B)
        small = [0.01 * x for x in self.x]  # a gate that is shut at first may be open there

        def reached(maps: Tensor, x: list[Tensor] | None = None) -> Tensor:
            """Return which samples have outputs that move with these maps."""
            patch = Patch("head", frozenset([j]), lambda _, shape: maps[:, None].expand(shape), 1e10)
            before = self.first if x is None else self.look(x)
            return moved(before.out, self.look(x, patch=patch).out).flatten(1).any(1)

        for h in range(per):
            if bool(reached(numbers % per == h).all()):  # one map of each sample, where its heads stand together
                continue
            for n in range(h, count, per):
                if not any(bool(reached(numbers == n, x).any()) for x in (None, small)):
                    yield n

    def _by_samples(self, j: int, tokens: Tensor | None) -> Tensor:
        """Return the queries of maps that were subtracted from others, where all of a sample have the same ones."""
        used = self.first.steps[j].used
        unknown, per = torch.full(used.shape[:2], NONE), len(used) // self.B
        if tokens is None or len(tokens) <= len(used) or tokens.shape[1] != self.T or used.shape[1] != self.T:
            return unknown
        asked, first = tokens.unflatten(0, (self.B, -1)), torch.arange(len(used)) < per
        known = torch.equal(moved(used, self.of_another[j].used).any(-1), first)
        known = known and bool((asked == asked[:, :1]).all())
        return asked[:, :1].expand(-1, per, -1).reshape(unknown.shape) if known else unknown


def flat(step: Step) -> bool:
    """Whether the scores of each query lie close enough together for every weight to be seen."""
    scores = step.scores.double()
    if not scores.numel():
        return True
    real = (scores > -1e3) & scores.isfinite()
    high = scores.masked_fill(~real, -torch.inf).amax(-1)
    low = scores.masked_fill(~real, torch.inf).amin(-1)
    return not bool((high - low > 12).any())


def moved(before: Tensor, after: Tensor) -> Tensor:
    """Return which rows differ, boolean without the last axis."""
    if before.shape != after.shape:
        return torch.ones(before.shape[:-1], dtype=torch.bool)
    rounding = min(64 * torch.finfo(before.dtype).eps, 0.02)  # in low precision, too, what is not reached stays
    return ~((after - before).abs().amax(-1) <= rounding * before.nan_to_num(0, 0, 0).abs().max())


def aligned(step: Step, after: Step | None = None) -> bool:
    """Whether the maps of the product stand in the order of those that met the values; or how both have changed."""
    if step.raw is None or step.raw.shape != step.used.shape or step.used.shape[-1] < 2:
        return False
    shown = step.used > 1e-20
    count = shown.sum(-1, keepdim=True).clamp_min(1)
    logs, raw = step.used.double().clamp_min(1e-30).log(), step.raw.double()
    if after is not None:
        logs, raw = logs - after.used.double().clamp_min(1e-30).log(), raw - after.raw.double()
    one, two = ((x - (x * shown).sum(-1, keepdim=True) / count) * shown for x in (logs, raw))
    rows = one.abs().amax(-1, keepdim=True) > 1e-9  # a query without keys, or with one, tells nothing
    one, two = one * rows, two * rows
    same = (one * two).sum((1, 2)).abs() / (one.norm(dim=(1, 2)) * two.norm(dim=(1, 2)) + 1e-30)
    still = (two.norm(dim=(1, 2)) < 1e-9) & (after is not None)  # a map none of whose scores changed tells nothing
    return bool((still | (same > (0.5 if after is None else 0.95))).all())

"""Small tasks whose right attention pattern is known in advance.

A task makes fresh batches from a generator and says which map solves it, so that what a head learned can be
compared with what it had to learn. Models that solve them stand in `models`, their training in `training`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mhalib.arguments import check_size, check_tensor

NO_ANSWER = -100  # in the place of an answer where none is wanted: torch's own mark, which no loss counts


@dataclass(frozen=True, eq=False)
class Lookup:
    """Each position reports the tokens that stand at `lookups` other positions, all of them at once.

    The tokens are drawn anew for every batch: there is nothing to memorise, and the only way to the answer is to look.
    Make one with `Lookup.permutations` or `Lookup.offsets`.

    Args:
        sources: `(lookups, T)`, integers: lookup `l` reports at position `t` the token at `sources[l, t]`.
        vocab: how many different tokens there are, at least 2.

    Taught in notebooks 07 and 09.
    """

    sources: Int[Tensor, "lookups tokens"]
    vocab: int = 16

    def __post_init__(self):
        x = self.sources
        check_tensor("sources", x)
        if x.dtype != torch.int64 or x.ndim != 2 or not x.numel() or x.min() < 0 or x.max() >= self.tokens:
            raise ValueError(
                f"sources must be (lookups, T) positions (torch.int64), each from 0 to T - 1, got {x.dtype} "
                f"{tuple(x.shape)}: {x.tolist()!r:.60}; wrap them with % T, use .long(), one lookup is x[None]"
            )
        check_size("vocab", self.vocab)
        if self.vocab < 2:
            raise ValueError("vocab must be at least 2, got 1; with a single token there is nothing to look up")

    @classmethod
    def permutations(cls, tokens: int, lookups: int = 2, vocab: int = 16, seed: int = 0) -> "Lookup":
        """Return a task of `lookups` random permutations of the positions, the same for every batch.

        No position reports itself, and no two lookups agree anywhere: one key never serves two of them.

        Raises:
            ValueError: a size is not a positive integer, or there are not that many permutations to be had.
        """
        check_size("tokens", tokens)
        check_size("lookups", lookups)
        if lookups >= tokens:
            raise ValueError(
                f"{lookups} lookups that agree nowhere need at least tokens={lookups + 1}, got {tokens}; "
                "give more tokens or fewer lookups"
            )
        generator = torch.Generator().manual_seed(seed)
        # Shifts of a ring agree nowhere; naming the positions at random hides the ring and keeps that.
        names = torch.randperm(tokens, generator=generator)
        shifts = 1 + torch.randperm(tokens - 1, generator=generator)[:lookups]
        ring = (torch.arange(tokens) + shifts[:, None]) % tokens  # (lookups, T)
        return cls(names[ring][:, names.argsort()], vocab)

    @classmethod
    def offsets(cls, tokens: int, offsets: Sequence[int] = (-1, -3), vocab: int = 16) -> "Lookup":
        """Return the task to report the tokens so many places away; what leaves at one end enters at the other.

        Raises:
            ValueError: a size is not a positive integer, there is no offset, or two mean the same place.
        """
        check_size("tokens", tokens)
        if len({offset % tokens for offset in offsets}) < max(1, len(offsets)):
            raise ValueError(
                f"offsets must be at least one and all different in a ring of tokens={tokens}, got {tuple(offsets)}; "
                "leave out those that come back to the same place"
            )
        return cls((torch.arange(tokens) + torch.tensor(offsets)[:, None]) % tokens, vocab)

    @property
    def lookups(self) -> int:
        return self.sources.shape[0]

    @property
    def tokens(self) -> int:
        return self.sources.shape[1]

    def batch(
        self, size: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch lookups tokens"]]:
        """Return fresh tokens `(B, T)` and the right answers `(B, lookups, T)`."""
        tokens = torch.randint(self.vocab, (size, self.tokens), generator=generator)
        return tokens, tokens[:, self.sources]  # (B, T) -> (B, lookups, T)

    def pattern(self) -> Float[Tensor, "lookups queries keys"]:
        """Return the attention that solves the task, one map of zeros and ones per lookup: `(lookups, T, T)`."""
        return torch.eye(self.tokens)[self.sources]  # (lookups, T) -> (lookups, T, T)


@dataclass(frozen=True, eq=False)
class Repeats:
    """New tokens at first; from some place on, a sequence says its last few tokens again and again.

    The tokens, the place and the length of what is said again are drawn anew for every sequence. So no position, and
    no fixed distance, tells what comes next: only the token behind the earlier occurrence of the present one does.

    Args:
        tokens: length of a sequence, `T`.
        shortest, longest: how many tokens are said again, each number as likely as the others.
        vocab: how many different tokens there are. The repeats begin behind `longest` to `vocab` new tokens.

    Raises:
        ValueError: not 2 <= `shortest` <= `longest` <= `vocab` < `tokens`.

    Taught in notebooks 10 and 12.
    """

    tokens: int = 24
    shortest: int = 3
    longest: int = 12
    vocab: int = 22

    def __post_init__(self):
        if not 2 <= self.shortest <= self.longest <= self.vocab < self.tokens:
            raise ValueError(
                f"sizes must be 2 <= shortest <= longest <= vocab < tokens, got shortest={self.shortest}, "
                f"longest={self.longest}, vocab={self.vocab}, tokens={self.tokens}; new tokens are all different, and "
                "a repeat must fit behind them"
            )

    def batch(
        self, size: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch tokens"]]:
        """Return fresh tokens `(B, T)` and the one that follows each, `(B, T)`; `NO_ANSWER` where nothing tells it."""
        order = torch.rand(size, self.vocab, generator=generator).argsort(-1)  # (B, vocab), no token twice
        length = torch.randint(self.shortest, self.longest + 1, (size, 1), generator=generator)
        start = torch.randint(self.longest, self.vocab + 1, (size, 1), generator=generator)
        time = torch.arange(self.tokens + 1)
        source = torch.where(time < start, time, start - length + (time - start) % length)  # (B, T + 1)
        stream = order.gather(1, source)
        # Nothing announces the first token that is said again; what follows it can be looked up.
        return stream[:, :-1], stream[:, 1:].where(time[:-1] >= start, NO_ANSWER)

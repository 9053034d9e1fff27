"""Numbers for the words of a sentence, built by hand, so that a reader knows what every head can find in them.

Nothing here is learned: a word's numbers say how it begins, how it ends and where it stands. What a head makes of them
is the business of the layer; the sentences of a made-up grammar, which a model learns, are in `grammar`.
"""

from collections.abc import Sequence
from zlib import crc32

import torch
from jaxtyping import Float
from torch import Tensor


def sentence_features(words: Sequence[str], seed: int = 0, shift: int = 0) -> Float[Tensor, "1 tokens 64"]:
    """Return 64 numbers for each word: 16 of its beginning, 16 of its ending, 16 fast waves and 16 slow ones.

    Beginning and ending are those of one, two and three letters, in small letters, so that words which share more of
    them are more alike; the waves are sines and cosines of the position, of wavelengths from 6 to 60 words. Each of the
    four blocks has the squared length 16, so that none outweighs another.

    Args:
        words: one text for each word, none of them empty.
        seed: another way to turn letters into numbers; the positions do not depend on it.
        shift: how many places earlier each word pretends to stand.

    Returns:
        `(1, T, 64)`, float32.

    Raises:
        TypeError, ValueError: `words` is one text instead of several, there is no word, or an empty one.

    Taught in notebook 00.
    """
    if isinstance(words, str):
        raise TypeError(f"words must be a list of words, got the text {words!r}; use .split()")
    if not words or not all(words):
        raise ValueError(f"a sentence needs a word, and every word a letter, got {list(words)!r}; leave out empty ones")
    small = [word.lower() for word in words]
    begins = torch.stack([_letters([f"^{word[:n]}" for n in (1, 2, 3)], seed) for word in small])
    ends = torch.stack([_letters([f"{word[-n:]}$" for n in (1, 2, 3)], seed) for word in small])
    positions = torch.arange(len(words)).float() - shift
    angles = 2 * torch.pi * positions[:, None] / (6 * 10 ** torch.linspace(0, 1, 16))  # (T, 1) / (16,) -> (T, 16)
    waves = 2**0.5 * torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (T, 16, 2) -> (T, 32)
    return torch.cat([begins, ends, waves], dim=-1)[None]  # (T, 64) -> (1, T, 64)


def _letters(pieces: list[str], seed: int) -> Float[Tensor, "16"]:
    """Return numbers of length 4 that are always the same for the same pieces of text, on every machine."""
    codes = [crc32(f"{seed} {piece}".encode()) for piece in pieces]
    draws = [torch.randn(16, generator=torch.Generator().manual_seed(code)) for code in codes]
    return 4 * torch.nn.functional.normalize(sum(draws), dim=0)

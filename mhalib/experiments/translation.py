"""Learning to translate: batches of sentences of the grammar, and a small encoder-decoder.

The sentences, their translations and alignments come from `grammar`. How the model is trained is said in `training`;
measures of what its heads attend to stand in `heads`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mhalib.attention import MultiHeadAttention
from mhalib.experiments.grammar import (
    ENGLISH,
    ENGLISH_ID,
    FRENCH,
    FRENCH_ID,
    LONGEST,
    PAD,
    START,
    STOP,
    Sentence,
    known_words,
    random_sentence,
)
from mhalib.experiments.models import seeded
from mhalib.experiments.tasks import NO_ANSWER
from mhalib.masks import causal_mask


@dataclass(frozen=True)
class Translation:
    """The task to translate sentences of the grammar, drawn anew for every batch.

    One pair of animals in four never meets in training, such as cats and mice: sentences with such a pair are the
    held-out ones, and no model has seen them.

    Args:
        held_out: make sentences that are never trained on, instead of those that are.

    Taught in notebook 10.
    """

    held_out: bool = False

    def sentences(self, size: int, generator: torch.Generator) -> list[Sentence]:
        """Return so many sentences; half of them have a negation, half of the noun phrases each kind of adjective."""
        found: list[Sentence] = []
        while len(found) < size:
            drawn = torch.randint(2**31, (size, 12), generator=generator).tolist()
            found += [sentence for row in drawn if (sentence := random_sentence(row)).is_held_out is self.held_out]
        return found[:size]

    def batch(
        self, size: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "batch packed"], Int[Tensor, "batch tokens"]]:
        """Return what `pack` makes of fresh sentences: inputs `(B, 2 * LONGEST)` and right answers `(B, LONGEST)`."""
        return pack(self.sentences(size, generator))


def pack(sentences: Sequence[Sentence]) -> tuple[Int[Tensor, "batch packed"], Int[Tensor, "batch tokens"]]:
    """Return sentences as the ids that `TranslationModel` takes, and the right answers.

    A task hands over one tensor, so source and target lie in it side by side: in the first `LONGEST` columns the
    English words, in the others the French ones, moved one place to the right behind `START`. The answers are the
    French words themselves. Unused places hold 0 (`PAD`) in the inputs and -100 (`NO_ANSWER`) in the answers.

    Used in notebook 10.
    """
    inputs, targets = [], []  # lists first: tensors for each sentence take more than twice as long
    for sentence in sentences:
        english = [ENGLISH_ID[word] for word in sentence.english]
        french = [FRENCH_ID[word] for word in sentence.french]
        read = [FRENCH_ID[START], *french[:-1]]
        inputs.append(_filled(english, ENGLISH_ID[PAD]) + _filled(read, FRENCH_ID[PAD]))
        targets.append(_filled(french, NO_ANSWER))
    return torch.tensor(inputs), torch.tensor(targets)


def _filled(ids: list[int], filler: int) -> list[int]:
    return ids + [filler] * (LONGEST - len(ids))


def alignments(sentences: Sequence[Sentence]) -> Bool[Tensor, "batch french english"]:
    """Return the alignments of sentences, padded with False to `(B, LONGEST, LONGEST)`, as cross-attention is.

    Used in notebook 10.
    """
    tables = torch.zeros(len(sentences), LONGEST, LONGEST, dtype=torch.bool)
    for table, sentence in zip(tables, sentences, strict=True):
        known = sentence.alignment
        table[: known.shape[0], : known.shape[1]] = known
    return tables


class Maps(NamedTuple):
    """The attention of a `TranslationModel`, each a list with one tensor per layer.

    `encoder` is `(B, num_heads, Ts, Ts)`, `decoder` `(B, num_heads, Tt, Tt)`, `cross` `(B, num_heads, Tt, Ts)`; without
    `B` where there is one sentence only. Row `t` of the last two belongs to the step that *writes* French word `t`,
    and has read the words before it.
    """

    encoder: list[Tensor] | None
    decoder: list[Tensor] | None
    cross: list[Tensor] | None


class Translated(NamedTuple):
    """What `translate` returns: the words of both languages, full stop included, and the attention behind them."""

    english: list[str]
    french: list[str]
    maps: Maps


class _Layer(nn.Module):
    """Attention with a norm before it and a way around both."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads)

    def forward(self, x: Tensor, read: Tensor | None, mask: Tensor, maps: list[Tensor] | None) -> Tensor:
        found = self.attention(self.norm(x), read, mask=mask, need_weights=maps is not None)
        if maps is not None:
            found, weights = found
            maps.append(weights)
        return x + found


class TranslationModel(nn.Module):
    """An encoder that reads English and a decoder that writes French: attention and norms, no feed-forward layers.

    The encoder has one layer, the decoder one over the French words so far and one of cross-attention.

    Args:
        d_model, num_heads: sizes of every attention layer.
        seed: of the initial weights; the global random state stays as it is.

    Raises:
        ValueError: a size is not a positive integer, or `d_model` cannot be cut into `num_heads`.

    Vaswani et al. (2017); norms before the layers as in Xiong et al. (2020). Taught in notebook 10.
    """

    def __init__(self, d_model: int = 32, num_heads: int = 4, *, seed: int = 0):
        super().__init__()
        with seeded(seed):
            self.english_embedding = nn.Embedding(len(ENGLISH), d_model)
            self.french_embedding = nn.Embedding(len(FRENCH), d_model)
            self.english_positions = nn.Embedding(LONGEST, d_model)
            self.french_positions = nn.Embedding(LONGEST, d_model)
            self.encoder, self.decoder, self.cross = (_Layer(d_model, num_heads) for _ in range(3))
            self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
            self.readout = nn.Linear(d_model, len(FRENCH))

    def forward(
        self, packed: Int[Tensor, "batch packed"], need_weights: bool = False
    ) -> Float[Tensor, "batch tokens vocab"] | tuple[Float[Tensor, "batch tokens vocab"], Maps]:
        """Score every French word as the next one, at each place of the decoder.

        Args:
            packed: `(B, LONGEST + Tt)` as from `pack`: English ids padded to `LONGEST`, then what the decoder reads.
            need_weights: also return the maps; no key of padding has any weight in them.

        Returns:
            scores `(B, Tt, len(FRENCH))`, with `need_weights` a pair of them and the maps.
        """
        source, target = packed[:, :LONGEST], packed[:, LONGEST:]
        words = (source != ENGLISH_ID[PAD])[:, None]  # (B, 1, Ts), True where a key is no padding
        earlier = causal_mask(target.shape[1], device=packed.device)  # (Tt, Tt)
        maps = Maps([], [], []) if need_weights else Maps(None, None, None)
        x = self.english_embedding(source) + self.english_positions.weight  # (B, Ts, d_model)
        x = self.encoder_norm(self.encoder(x, None, words, maps.encoder))
        y = self.french_embedding(target) + self.french_positions.weight[: target.shape[1]]  # (B, Tt, d_model)
        y = self.cross(self.decoder(y, None, earlier, maps.decoder), x, words, maps.cross)
        scores = self.readout(self.decoder_norm(y))  # (B, Tt, d_model) -> (B, Tt, len(FRENCH))
        return (scores, maps) if need_weights else scores

    @torch.no_grad()
    def write(self, source: Int[Tensor, "batch english"]) -> Int[Tensor, "batch french"]:
        """Translate padded English ids, `(B, LONGEST)`, word by word, each time the word with the highest score.

        Returns:
            `(B, LONGEST)`, French ids up to the full stop, 0 (`PAD`) behind it.
        """
        packed = torch.cat([source, torch.full_like(source[:, :1], FRENCH_ID[START])], 1)  # (B, LONGEST + 1)
        stopped = torch.zeros_like(source[:, 0], dtype=torch.bool)
        for _ in range(LONGEST):
            word = self(packed)[:, -1].argmax(-1).masked_fill(stopped, FRENCH_ID[PAD])  # (B,)
            stopped = stopped | (word == FRENCH_ID[STOP])
            packed = torch.cat([packed, word[:, None]], 1)
        return packed[:, LONGEST + 1 :]

    def translate(self, text: str) -> Translated:
        """Translate any words that the model knows, whether or not the grammar has such a sentence.

        Raises:
            TypeError: `text` is no text.
            ValueError: a word is unknown, or there are none, or too many.
        """
        english = known_words(text)
        source = torch.tensor([_filled([ENGLISH_ID[word] for word in english], ENGLISH_ID[PAD])])
        written = self.write(source)
        french = [FRENCH[i] for i in written[0].tolist() if i != FRENCH_ID[PAD]]
        read = torch.cat([torch.full_like(source[:, :1], FRENCH_ID[START]), written[:, : len(french) - 1]], 1)
        with torch.no_grad():
            _, maps = self(torch.cat([source, read], 1), need_weights=True)
        Ts = len(english)
        encoder = [weights[0, :, :Ts, :Ts] for weights in maps.encoder]
        return Translated(
            english, french, Maps(encoder, [w[0] for w in maps.decoder], [w[0, ..., :Ts] for w in maps.cross])
        )


def sentences_right(model: TranslationModel, sentences: Sequence[Sentence]) -> Bool[Tensor, "batch"]:
    """Return which sentences the model translates without a single wrong word, writing them on its own: `(B,)`.

    Taught in notebook 10.
    """
    inputs, targets = pack(sentences)
    return (model.write(inputs[:, :LONGEST]) == targets.clamp(min=FRENCH_ID[PAD])).all(1)

"""A toy grammar: English sentences, their one right French translation, and which words of the two belong together.

What is translated here by rule, a model learns from examples in `translation`.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

# English -> French in four forms: masculine, feminine, masculine plural, feminine plural. All nouns and verbs begin
# with a consonant that is heard, so that no word is shortened before them (le chat, but l'oiseau).
DETERMINERS = {"the": "le la les les", "my": "mon ma mes mes", "this": "ce cette ces ces"}
SIZES = {  # these stand before the noun in both languages
    "small": "petit petite petits petites",
    "big": "grand grande grands grandes",
    "old": "vieux vieille vieux vieilles",
}
COLOURS = {  # these stand behind the noun in French
    "black": "noir noire noirs noires",
    "white": "blanc blanche blancs blanches",
    "grey": "gris grise gris grises",
}
# English singular and plural -> gender, French singular and plural.
NOUNS = {
    "cat cats": "m chat chats",
    "dog dogs": "m chien chiens",
    "horse horses": "m cheval chevaux",
    "rabbit rabbits": "m lapin lapins",
    "mouse mice": "f souris souris",
    "cow cows": "f vache vaches",
    "goat goats": "f chèvre chèvres",
    "hen hens": "f poule poules",
}
VERBS = {
    "sees see": "voit voient",
    "follows follow": "suit suivent",
    "watches watch": "regarde regardent",
    "knows know": "connaît connaissent",
    "pushes push": "pousse poussent",
}
PAD, START, STOP = "<pad>", "<start>", "."


def _words(*tables: dict[str, str], english: bool) -> list[str]:
    texts = [text for table in tables for text in (table if english else table.values())]
    return [word for text in texts for word in text.split() if word not in ("m", "f")]


# Each word once, in the order in which it comes; a token's id is its place.
_TABLES = (DETERMINERS, SIZES, COLOURS, NOUNS, VERBS)
ENGLISH = list(dict.fromkeys([PAD, *_words(*_TABLES, english=True), "these", "does", "do", "not", STOP]))
FRENCH = list(dict.fromkeys([PAD, START, *_words(*_TABLES, english=False), "ne", "pas", STOP]))
ENGLISH_ID = {word: i for i, word in enumerate(ENGLISH)}
FRENCH_ID = {word: i for i, word in enumerate(FRENCH)}

# The longest sentence: two noun phrases of four words, three words for the verb, the full stop. In French as well.
LONGEST = 12


class NounPhrase(NamedTuple):
    """A determiner, adjectives or None, and a noun: keys of the tables above."""

    determiner: str
    size: str | None
    colour: str | None
    noun: str
    plural: bool

    def pieces(self) -> list[tuple[str, str]]:
        """Return pairs of an English and a French word, in English order."""
        gender, *french = NOUNS[self.noun].split()
        form = ("m", "f").index(gender) + 2 * self.plural
        determiner = "these" if self.determiner == "this" and self.plural else self.determiner
        pairs = [(determiner, DETERMINERS[self.determiner].split()[form])]
        pairs += [(self.size, SIZES[self.size].split()[form])] if self.size else []
        pairs += [(self.colour, COLOURS[self.colour].split()[form])] if self.colour else []
        return [*pairs, (self.noun.split()[self.plural], french[self.plural])]

    def french_and_places(self, start: int) -> list[tuple[str, list[int]]]:
        """Return the French words in their order, each with the place of its English word; the first is at `start`."""
        found = [(french, [start + place]) for place, (_, french) in enumerate(self.pieces())]
        return [*found[:-2], found[-1], found[-2]] if self.colour else found


class Sentence(NamedTuple):
    """Subject, verb, object, and whether all this is denied. Notebook 10 translates such sentences."""

    subject: NounPhrase
    verb: str
    negated: bool
    object: NounPhrase

    @property
    def english(self) -> list[str]:
        verb = self.verb.split()
        middle = [("does", "do")[self.subject.plural], "not", verb[1]] if self.negated else [verb[self.subject.plural]]
        subject, object_ = ([english for english, _ in phrase.pieces()] for phrase in (self.subject, self.object))
        return [*subject, *middle, *object_, STOP]

    @property
    def french(self) -> list[str]:
        return [word for word, _ in self._french_and_sources()]

    @property
    def alignment(self) -> Bool[Tensor, "french english"]:
        """Which English words a French one stands for: `(Tt, Ts)`, True where they belong together.

        Every French word has one partner, but "ne", which has two: "does not" (or "do not") becomes "ne ... pas".
        What a word only agrees with does not count: "petite" is aligned with "small", not with the cow.
        """
        table = torch.zeros(len(self.french), len(self.english), dtype=torch.bool)
        for row, (_, places) in enumerate(self._french_and_sources()):
            table[row, places] = True
        return table

    @property
    def is_held_out(self) -> bool:
        """Whether its two animals never meet in training; one pair in four is held out, whichever comes first."""
        places = [list(NOUNS).index(phrase.noun) for phrase in (self.subject, self.object)]
        return sum(places) % 4 == 0

    def _french_and_sources(self) -> list[tuple[str, list[int]]]:
        """Return each French word and the places of the English words that it stands for."""
        subject = self.subject.french_and_places(0)
        start = len(subject)
        verb = VERBS[self.verb].split()[self.subject.plural]
        middle = [("ne", [start, start + 1]), (verb, [start + 2]), ("pas", [start + 1])]
        middle = middle if self.negated else [(verb, [start])]
        object_ = self.object.french_and_places(start + len(middle))
        return [*subject, *middle, *object_, (STOP, [start + len(middle) + len(object_)])]


def parse(text: str) -> Sentence:
    """Return the sentence that this English text is; capitals and the full stop do not matter.

    Raises:
        TypeError: it is no text.
        ValueError: a word is unknown, or the words make no sentence of this grammar.

    Taught in notebook 10.
    """
    words = known_words(text)[:-1]
    subject, rest = _parse_phrase(words)
    negated = rest[1:2] == ["not"]
    rest = rest[2:] if negated else rest
    verb = next((verb for verb in VERBS if rest and rest[0] in verb.split()), None)
    object_, rest = _parse_phrase(rest[1:])
    example = "give one such as 'the small cats do not see my dog'"
    if subject is None or verb is None or object_ is None or rest:
        raise ValueError(f"expected a noun phrase, a verb and a noun phrase, got {' '.join(words)!r}; {example}")
    sentence = Sentence(subject, verb, negated, object_)
    if sentence.english[:-1] != words:  # "the cats sees", "this cats": words that are known but do not agree
        right = " ".join(sentence.english[:-1])
        raise ValueError(f"the words do not agree in {' '.join(words)!r}; did you mean {right!r}?")
    return sentence


def _parse_phrase(words: list[str]) -> tuple[NounPhrase | None, list[str]]:
    """Return the noun phrase with which the words begin, or None, and the words behind it."""
    if not words or words[0] not in (*DETERMINERS, "these"):
        return None, words
    determiner, rest = "this" if words[0] == "these" else words[0], words[1:]
    size = rest.pop(0) if rest and rest[0] in SIZES else None
    colour = rest.pop(0) if rest and rest[0] in COLOURS else None
    noun = next((noun for noun in NOUNS if rest and rest[0] in noun.split()), None)
    if noun is None:
        return None, words
    return NounPhrase(determiner, size, colour, noun, rest[0] == noun.split()[1]), rest[1:]


def known_words(text: str) -> list[str]:
    """Return the words of an English text with the full stop as the last one; errors as in `parse`."""
    if not isinstance(text, str):
        raise TypeError(
            f"expected a sentence as text, got {type(text).__name__}; give one such as 'the cat sees my dog'"
        )
    words = text.lower().replace(STOP, " ").split()
    unknown = [word for word in words if word not in ENGLISH_ID or word == PAD]
    if unknown or not words:
        got = ", ".join(map(repr, unknown)) or "no word at all"
        raise ValueError(
            f"expected words that the model knows, got {got}; choose from {', '.join(sorted(ENGLISH[1:-1]))}"
        )
    if len(words) >= LONGEST:
        raise ValueError(f"expected at most {LONGEST - 1} words, got {len(words)}; leave some out")
    return [*words, STOP]


def random_sentence(drawn: list[int]) -> Sentence:
    """Return the sentence that twelve random whole numbers choose."""

    def pick(table: dict[str, str], number: int) -> str:
        return list(table)[number % len(table)]

    def phrase(determiner: int, size: int, colour: int, noun: int, plural: int) -> NounPhrase:
        # An even number gives no adjective; half of an odd one says which.
        adjectives = (pick(table, n // 2) if n % 2 else None for table, n in ((SIZES, size), (COLOURS, colour)))
        return NounPhrase(pick(DETERMINERS, determiner), *adjectives, pick(NOUNS, noun), plural % 2 == 1)

    subject, object_ = phrase(*drawn[:5]), phrase(*drawn[5:10])
    return Sentence(subject, pick(VERBS, drawn[10]), drawn[11] % 2 == 1, object_)

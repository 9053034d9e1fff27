"""What stands beside a row or a column: the pieces of a tokenizer made readable, and the words they belong to.

Tokenizers mark where a word begins (`Ġ`, `▁`), goes on (`##`) or ends (`</w>`), and GPT-2 and its heirs write every
byte as a letter of an alphabet of their own. Which of them was at work is seen in the labels themselves. Which labels
belong to which axis is not decided here.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

_BYTE = re.compile(r"<(?:0x)?([0-9A-F]{2})>", re.IGNORECASE)  # of sentencepiece, "<0xE2>", and as it is shown, "<E2>"
_SPECIAL = re.compile(r"<[^<>\s]+>|<\|.*\|>|\[[A-Z]+\d*\]")  # <s>, <|endoftext|>, [CLS], <pad>
_BLANKS = {" ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥"}
ISOLATES = "\u2068\u2069"

# The byte that each letter of GPT-2's alphabet stands for: what can be read is itself, the others begin at 256.
_PLAIN = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_OTHERS = [byte for byte in range(256) if byte not in _PLAIN]
_ALPHABET = {chr(byte): byte for byte in _PLAIN} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}


def _as_hex(error: UnicodeDecodeError) -> tuple[str, int]:
    """Return the bytes that are a part of a character only, as they are shown, and where to go on."""
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("mhalib.hex", _as_hex)


def visible(label: str) -> str:
    """Return a label as it is seen: of one without any ink, a sign for each of its own. `sample.js` does the same."""
    if any(sign.isprintable() and not sign.isspace() for sign in label):
        return label
    return "".join(_BLANKS.get(sign) or ("␣" if sign.isspace() else f"U+{ord(sign):04X}") for sign in label) or "∅"


def in_text(label: str) -> str:
    """Return a label for a place among other words: one that runs to the left is kept from turning them round."""
    turns = any(unicodedata.bidirectional(sign)[:1] in ("R", "A") for sign in label)  # R, RLO, AL, …
    return ISOLATES[0] + label + ISOLATES[1] if turns else label


def marks_of(tokens: Sequence[str]) -> str:
    """Return which marks of a tokenizer stand in these labels: "▁", "Ġ", "##", "</w>", or "" for none."""
    if any(token.startswith("▁") for token in tokens):
        return "▁"
    if any(token[:1] in ("Ġ", "Ċ") for token in tokens) and all(map(_may_be_bytes, tokens)):
        return "Ġ"
    if any(re.match("##.", token) for token in tokens):
        return "##"
    if any(token.endswith("</w>") and token != "</w>" for token in tokens):
        return "</w>"
    return ""


def _may_be_bytes(token: str) -> bool:
    """May this be a piece in GPT-2's alphabet? `Ġ` is a letter of Maltese, too, where `ġ` would be a control sign."""
    if is_special(token):
        return True
    if not all(letter in _ALPHABET for letter in token):
        return False
    return all(byte >= 32 and byte != 127 or byte in b"\t\n\r" for byte in map(_ALPHABET.get, token))


def is_special(token: str) -> bool:
    """Is this a token that stands for no text, such as `[CLS]` or `<s>`?"""
    return _SPECIAL.fullmatch(token) is not None and _BYTE.fullmatch(token) is None


def cleaned(tokens: Sequence[str]) -> list[str]:
    """Return the labels without the marks of the tokenizer, and bytes as the characters that they spell.

    A piece that is only a part of a character shows its bytes, as in `<E2><80>`; blanks that would leave nothing to
    see show as `␣` and `↵`. Labels without such marks come back as they are.
    """
    marks = marks_of(tokens)
    return [_without(token, marks) for token in tokens] if marks else list(tokens)


def _without(token: str, marks: str) -> str:
    if is_special(token):
        return token
    if marks == "##":
        return token[2:] if re.match("##.", token) else token
    if marks == "</w>":
        return token.removesuffix("</w>") or token
    if marks == "▁":
        byte = _BYTE.fullmatch(token)
        text = _decoded(bytes([int(byte[1], 16)])) if byte else token.replace("▁", " ")
    else:
        text = _decoded(bytes(_ALPHABET[letter] for letter in token))
    if text.strip(" "):
        text = text[1:] if text.startswith(" ") else text
        return re.sub(r"[\n\r\t]", lambda blank: _BLANKS[blank[0]], text)
    return visible(text)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "mhalib.hex")


def words_of(tokens: Sequence[str]) -> list[int]:
    """Return the number of the word of each token, as the marks tell; an empty list where there are none.

    A word is what stands between two blanks, with its punctuation; a special token is a word of its own.
    """
    marks = marks_of(tokens)
    if not marks:
        return []
    return _counted(_begins(token, before, marks) for before, token in pairwise(tokens))


def _counted(begins: Iterable[bool]) -> list[int]:
    """Return the number of the word of each token, from whether each but the first begins one."""
    return list(accumulate(begins, initial=0))


def _begins(token: str, before: str, marks: str) -> bool:
    if is_special(token) or is_special(before):
        return True
    if marks == "##":
        return not re.match("##.", token)
    if marks == "</w>":
        return before.endswith("</w>")
    if marks == "▁":
        return token.startswith("▁") or "\n" in (token[-1:], before[-1:]) or "<0x0A>" in (token, before)
    return token[:1] in ("Ġ", "Ċ", "ĉ", "č") or before[-1:] in ("Ċ", "ĉ", "č")


def numbered(words: Sequence, size: int) -> list[int]:
    """Return given word numbers of `size` tokens as 0, 1, 2, …; None, a special token, is a word of its own."""
    if not hasattr(words, "__len__") or not all(word is None or _is_number(word) for word in words):
        raise TypeError(f"words must hold one number for each token, or None, got {words!r:.60}; give ids.word_ids()")
    if len(words) != size:
        raise ValueError(f"words has {len(words)} numbers for {size} tokens; give one for each, as ids.word_ids() does")
    return _counted(None in pair or int(pair[0]) != int(pair[1]) for pair in pairwise(words))[:size]


def _is_number(word: object) -> bool:
    return hasattr(word, "__index__") and not isinstance(word, bool)

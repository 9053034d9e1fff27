"""A BERT in pieces that a page can load: weights in 8 bits, the words of its tokenizer, kinds of characters.

A weight is a whole number from -127 to 127 times the scale of its group, 64 neighbours of a row, so that one large
weight makes few others coarse; of an embedding, which is only added up, 128. The pieces follow each other without a
gap: the length of a head in JSON, that head, then numbers, each part where the head says. `bert.js` reads them.
"""

import hashlib
import json
import zlib

import numpy as np
from torch import Tensor

from mhalib.heads import attention_layers

GROUP, GROUP_OF_EMBEDDINGS = 64, 128
PIECE = 2_000_000  # bytes, before they are deflated
DROPPED, BLANK, IDEOGRAPH, PUNCTUATION = 1, 2, 3, 4  # kinds of characters; 0 is a letter like any other
_BETWEEN = "0"  # stands between all characters while they are asked about: no other becomes one
_FIRST_UNIT = 0x3000  # the first of the 2**15 characters that carry 15 bits each; none of them ends or escapes a string


def packed(model) -> list[bytes]:
    """Return the pieces of a `mhalib.pretrained.SentenceModel`, each deflated for itself."""
    tensors, body = {}, bytearray()

    def add(numbers: np.ndarray) -> int:
        start = len(body)
        body.extend(numbers.tobytes() + bytes(-numbers.nbytes % 4))
        return start

    longest = model.tokenizer.truncation["max_length"]
    state = dict(model.state_dict())
    # All tokens are of the first text, so its embedding goes with that of the place.
    places = state["position_embedding.weight"][:longest]
    state["position_embedding.weight"] = places + state.pop("type_embedding.weight")[0]
    for name, tensor in state.items():
        tensors[name] = {"shape": list(tensor.shape)}
        if tensor.ndim == 1:
            tensors[name]["at"] = add(tensor.numpy().astype("<f4"))
        else:
            group = GROUP_OF_EMBEDDINGS if "embedding" in name else GROUP
            group = tensor.shape[1] if tensor.shape[1] % group else group
            whole, scales, unit = in_8_bits(tensor, group)
            tensors[name] |= {"at": add(whole), "scales": add(scales), "unit": unit, "group": group}
    layers = list(attention_layers(model).values())
    head = {"tensors": tensors, "layers": len(layers), "heads": layers[0].num_heads}
    head["tokens"] = tokenizer_of(model.tokenizer) | {"longest": longest}
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    whole = np.array([len(text)], "<u4").tobytes() + text + bytes(body)
    return [_deflated(whole[start : start + PIECE]) for start in range(0, len(whole), PIECE)]


def in_8_bits(matrix: Tensor, group: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return whole numbers, int8; scales, uint16, one a group; their unit. A weight is about the product of these."""
    numbers = matrix.double().numpy().reshape(-1, group)
    wanted = np.abs(numbers).max(1, keepdims=True) / 127
    unit = float(wanted.max()) / 65535 or 1.0
    scales = np.ceil(wanted / unit).clip(1, 65535)  # rounded up: what is largest still fits
    return np.rint(numbers / (scales * unit)).clip(-127, 127).astype(np.int8), scales.astype("<u2"), unit


def tokenizer_of(tokenizer) -> dict:
    """Return what `wordpiece.js` needs: words by their ids, marks, and where in Unicode which kind of character begins.

    The tokenizers package knows one edition of Unicode, a browser another: so it is asked, all characters in one text.
    """
    # Planes 4 to 13 are empty, 15 and 16 private: their ends speak for them.
    codes = (c for c in range(0x110000) if c < 0x40000 or c >> 16 == 14 or c & 0xFFFE in (0, 0xFFFE))
    every = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
    asked = _BETWEEN.join(["", *every, ""])
    seen = tokenizer.normalizer.normalize_str(asked).split(_BETWEEN)[1:-1]
    # The character between gives two empty texts in the place of one where it is asked about itself.
    seen[ord(_BETWEEN) : ord(_BETWEEN) + 2] = [_BETWEEN]
    cut = {asked[a:b] for _, (a, b) in tokenizer.pre_tokenizer.pre_tokenize_str(asked) if b - a == 1}
    kinds = [[0, 0]]
    for character, normal in zip(every, seen, strict=True):
        blank, alone = normal == " ", character in cut and character != _BETWEEN
        ideograph = len(normal) > 1 and normal[0] == normal[-1] == " "
        kind = DROPPED if not normal else BLANK if blank else IDEOGRAPH if ideograph else PUNCTUATION * alone
        if kind != kinds[-1][1]:
            kinds.append([ord(character), kind])
    words = [word for word, _ in sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])]
    marks = {str(token.content): number for number, token in tokenizer.get_added_tokens_decoder().items()}
    return {"words": words, "kinds": kinds, "marks": marks}


def as_script(pieces: list[bytes], number: int) -> bytes:
    """Return a script that hands over a piece: a page opened from a disk may load scripts, and nothing else.

    15 bits are a character, in UTF-16, as its first one says: 1/15 more than the piece, where base64 takes a third.
    """
    data, whole = pieces[number], hashlib.sha256(b"".join(pieces)).hexdigest()[:16]
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    bits = np.pad(bits, (0, -len(bits) % 15)).reshape(-1, 15)
    units = np.packbits(np.pad(bits, ((0, 0), (1, 0))), axis=1).view(">u2").ravel() + _FIRST_UNIT
    about = json.dumps({"number": number, "count": len(pieces), "model": whole, "bytes": len(data)})
    text = f'\ufeffmhalibPiece({about}, "'.encode("utf-16-le")
    return text + units.astype("<u2").tobytes() + '");\n'.encode("utf-16-le")


def _deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)  # weights do not repeat: to look for that takes long
    return deflate.compress(data) + deflate.flush()

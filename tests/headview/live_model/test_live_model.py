"""LiveModel against torch and the tokenizers package: what the page computes, as the site hands it the real weights.

Without the weights these are skipped with a reason; where CI is set, that is a failure. What needs none of them stands
in `test_live_model_page.py`.
"""

import os
import random
from pathlib import Path

import pytest
import torch

from headview import LiveModel
from headview.live_model import pack
from mhalib.heads import gated_heads
from mhalib.pretrained import SENTENCE_PAIRS, WeightsMissing, load_minilm
from tests.helpers.live_page import load, worker_of

ROOT = Path(__file__).resolve().parents[3]
LONG = "The painter painted the old bridge while the old baker baked bread, and nobody in the village could say why."
SENTENCES = [first for first, _, _ in SENTENCE_PAIRS] + [
    *(LONG, "Heads look at words; what they take is a mixture.", "It was too tired.", "it", "?!", "a " * 40),
    *("Naïve cafés in Zürich serve crème brûlée.", "東京は雨です", "🎉 party 🎉", "Ünïcödé", "x = y ** 2 + 1", "ﬁ ﬂ ½"),
    *("Antidisestablishmentarianism is long.", "don't stop", "The bank of the river. The bank of England."),
]
OFF = [[0, 2], [3, 1], [5, 0], [5, 11]]
LETTERS = [
    *(range(32, 127), range(0xA0, 0x250), range(0x300, 0x370), range(0x370, 0x530), range(0x4E00, 0x9FFF)),
    *(range(0x1F300, 0x1FAFF), range(0, 32), range(0x2000, 0x2100), range(0xAC00, 0xD7A4), range(0xE000, 0x10000)),
]


@pytest.fixture(scope="module")
def model():
    try:
        return load_minilm()
    except WeightsMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have the weights: {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def scripts(model):
    pieces = pack.packed(model)
    return [pack.as_script(pieces, number) for number in range(len(pieces))]


@pytest.fixture
def ask(model, scripts, static_page, tmp_path):
    """Return a function that asks the worker of a page, loaded from files, about a sentence."""
    page = load(static_page, tmp_path, LiveModel(model), scripts)
    return worker_of(page)


def invented(count: int):
    """Yield texts of ordinary words, and between them what nobody would think of."""
    chance = random.Random(0)
    for number in range(count):
        words = chance.choice(SENTENCES).split()
        for _ in range(number % 6):
            odd = "".join(chr(chance.choice(chance.choice(LETTERS))) for _ in range(chance.randrange(1, 9)))
            words.insert(chance.randrange(len(words) + 1), odd)
        yield chance.choice(("", " ", "\n")).join(words)


def test_the_pieces_fit_into_24_megabytes_and_each_is_a_script_of_letters(scripts):
    assert sum(map(len, scripts)) <= 24_000_000
    for script in scripts:
        text = script.decode("utf-16")
        assert text.startswith('mhalibPiece({"number": ') and text.endswith('");\n') and text.count("\n") == 1
        letters = text[text.index('"}, "') + 5 if '"}, "' in text else text.index('}, "') + 4 : -4]
        assert 0x3000 <= ord(min(letters)) and ord(max(letters)) < 0xB000


def test_words_are_cut_as_the_tokenizers_package_does(model, open_file, tmp_path):
    said = [
        "x [SEP] y[MASK]z [CLS]",
        "[sep] [UNK][PAD]",
        "a" * 100 + " " + "a" * 101,
        "ΟΔΥΣΣΕΥΣ İstanbul ǅ ß",
        "",
        " \t\n",
    ]
    texts = [*SENTENCES, *said, *(f"word {LONG} " * 9 for _ in range(2)), *invented(1500)]
    every = [code for code in range(0x110000) if (code < 0x3400 or code % 97 == 0) and not 0xD800 <= code < 0xE000]
    texts += [f"a{chr(code)}b {chr(code)}" for code in every]
    (tmp_path / "empty.html").write_text("<!doctype html><title>empty</title>", encoding="utf-8")
    page = open_file((tmp_path / "empty.html").as_uri())
    source = (ROOT / "headview/live_model/wordpiece.js").read_text(encoding="utf-8").replace("export ", "")
    tokens = pack.tokenizer_of(model.tokenizer) | {"longest": 256}
    found = page.evaluate(
        f"([head, texts]) => {{ {source}\n const cut = wordPiece(head); return texts.map((text) => cut(text).ids); }}",
        [tokens, texts],
    )
    wanted = [encoding.ids[: sum(encoding.attention_mask)] for encoding in model.tokenizer.encode_batch(texts)]
    wrong = [(text, a, b) for text, a, b in zip(texts, found, wanted, strict=True) if a != b]
    assert wrong[:3] == [] and len(texts) > 10_000


def test_weights_and_vectors_are_those_of_torch(model, ask, one_thread):
    gates = torch.ones(6, 12)
    for layer, head in OFF:
        gates[layer, head] = 0
    far, alike, without = [], [], [layer * 12 + head for layer, head in OFF]
    asked = [(sentence, without * (number % 5 == 4)) for number, sentence in enumerate(SENTENCES)]
    for (sentence, off), said in zip(asked, ask(*asked), strict=True):
        with gated_heads(model, gates if off else torch.ones(6, 12)):
            tokens, maps = model.attend(sentence)
            vector = model.encode([sentence])[0]
        assert said["tokens"] == tokens
        far.append((said["maps"] - maps.flatten()).abs())
        alike.append(float(said["vector"] @ vector))
    far = torch.cat(far).sort().values
    assert len(SENTENCES) > 50
    assert far[int(0.999 * len(far))] <= 0.02 and far[-1] <= 0.1, (far[int(0.999 * len(far))], far[-1])
    assert min(alike) >= 0.999, min(alike)


@pytest.mark.slow  # of speed alone: on a busy machine it says nothing
def test_a_sentence_of_twelve_words_takes_a_quarter_of_a_second(ask):
    sentence = "The animal did not cross the street because it was too tired."
    assert min(said["ms"] for said in ask(*[(sentence, [])] * 20)) < 250

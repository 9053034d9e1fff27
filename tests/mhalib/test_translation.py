"""The grammar says right French, alignments match words that belong together, the model keeps to what it may see."""

from functools import partial

import pytest
import torch

from mhalib.experiments import (
    Translation,
    TranslationModel,
    alignments,
    evaluate,
    fit,
    pack,
    parse,
    sentences_right,
)
from mhalib.experiments.grammar import ENGLISH, FRENCH, LONGEST, NOUNS, PAD, START, STOP
from tests.helpers.refusals import accepted

# Written by hand; each shows something that the ones before it do not.
PAIRS = """
the cat sees the dog = le chat voit le chien
the cow follows the mouse = la vache suit la souris
the cats see the mice = les chats voient les souris
my horse watches my horses = mon cheval regarde mes chevaux
my hen knows my hens = ma poule connaît mes poules
this goat pushes this rabbit = cette chèvre pousse ce lapin
these goats push these rabbits = ces chèvres poussent ces lapins
the small cow sees the small dogs = la petite vache voit les petits chiens
the black cow sees the black dog = la vache noire voit le chien noir
the big white goats follow the grey mouse = les grandes chèvres blanches suivent la souris grise
my old grey cat knows the old hen = mon vieux chat gris connaît la vieille poule
these old horses watch this white rabbit = ces vieux chevaux regardent ce lapin blanc
the cat does not see the dog = le chat ne voit pas le chien
my small hens do not follow the grey cats = mes petites poules ne suivent pas les chats gris
this big black mouse knows my old white horses = cette grande souris noire connaît mes vieux chevaux blancs
the grey cows do not push these old black goats = les vaches grises ne poussent pas ces vieilles chèvres noires
"""

pytestmark = pytest.mark.usefixtures("as_shipped", "one_thread")  # checking each signature would take minutes


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(size=300, held_out=False, seed=0):
    return Translation(held_out).sentences(size, generator(seed))


def test_french_and_its_alignment_by_hand():
    for english, french in (line.split(" = ") for line in PAIRS.strip().splitlines()):
        sentence = parse(english)
        assert sentence.english == [*english.split(), STOP]
        assert sentence.french == [*french.split(), STOP]
    assert parse("The CAT sees my dog.") == parse("the cat sees my dog")
    sentence = parse("the big white goat does not know my hens.")
    assert sentence.french == ["la", "grande", "chèvre", "blanche", "ne", "connaît", "pas", "mes", "poules", STOP]
    partners = [row.nonzero().flatten().tolist() for row in sentence.alignment]
    # English: the 0, big 1, white 2, goat 3, does 4, not 5, know 6, my 7, hens 8, full stop 9.
    assert partners == [[0], [1], [3], [2], [4, 5], [6], [5], [7], [8], [9]]


def test_what_is_drawn_can_be_read_again_and_uses_all_words_alike_but_pairs_of_animals_kept_for_the_test():
    partners, met = {}, []
    for held_out in (False, True):
        sentences = drawn(1000, held_out)
        assert all(sentence.is_held_out is held_out for sentence in sentences)
        assert 0.4 < sum(sentence.negated for sentence in sentences) / 1000 < 0.6
        met.append({(s.subject.noun, s.object.noun) for s in sentences})
        for sentence in sentences:
            table = sentence.alignment
            assert parse(" ".join(sentence.english)) == sentence
            assert table.shape == (len(sentence.french), len(sentence.english)) and len(sentence.french) <= LONGEST
            assert table.any(0).all()  # nothing English is left out
            assert table.sum(1).tolist() == [2 if word == "ne" else 1 for word in sentence.french]
            for word, row in zip(sentence.french, table, strict=True):
                partners.setdefault(word, set()).update(sentence.english[i] for i in row.nonzero().flatten())
    assert set(partners) == set(FRENCH) - {PAD, START} and set().union(*partners.values()) == set(ENGLISH) - {PAD}
    assert partners["noires"] == {"black"} and partners["voit"] == {"sees", "see"} and partners["pas"] == {"not"}
    trained, kept = met
    assert not trained & kept and len(trained) == 48 and kept == {(b, a) for a, b in kept} and len(kept) == 16
    assert all({noun for pair in pairs for noun in pair} == set(NOUNS) for pairs in (trained, kept))


def test_a_packed_sentence_by_hand():
    sentences = [parse("my cat sees the cow"), parse("the cats do not see the big grey cow")]
    inputs, targets = pack(sentences)
    english = [ENGLISH[i] for i in inputs[0, :LONGEST].tolist()]
    read = [FRENCH[i] for i in inputs[0, LONGEST:].tolist()]
    assert english == ["my", "cat", "sees", "the", "cow", STOP] + [PAD] * 6
    assert read == [START, "mon", "chat", "voit", "la", "vache"] + [PAD] * 6
    assert [FRENCH[i] for i in targets[0, :6]] == ["mon", "chat", "voit", "la", "vache", STOP]
    assert targets[0, 6:].tolist() == [-100] * 6
    tables = alignments(sentences)
    assert tables.shape == (2, LONGEST, LONGEST) and tables[0].sum() == 6
    assert torch.equal(tables[1, :10, :10], sentences[1].alignment) and tables[1].sum() == sentences[1].alignment.sum()
    before, source = torch.get_rng_state(), generator(1)
    first, second = (Translation().batch(5, source) for _ in range(2))  # fresh, and from the generator alone
    assert torch.equal(before, torch.get_rng_state()) and not torch.equal(first[0], second[0])
    assert all(torch.equal(a, b) for a, b in zip(first, pack(drawn(5, seed=1)), strict=True))


@pytest.fixture(scope="module")
def model():
    return TranslationModel(16, 2).eval()


@torch.no_grad()
def test_the_scores_by_hand_sentence_by_sentence_and_word_by_word(model):
    sentences = drawn(8)
    inputs, _ = pack(sentences)
    scores, _ = model(inputs, need_weights=True)
    assert torch.allclose(scores, model(inputs), atol=1e-5) and scores.shape == (8, LONGEST, len(FRENCH))
    for row, sentence, found in zip(inputs, sentences, scores, strict=True):
        Ts, Tt = len(sentence.english), len(sentence.french)  # no padding, and so no mask
        x = model.english_embedding(row[None, :Ts]) + model.english_positions.weight[:Ts]
        x = model.encoder_norm(x + model.encoder.attention(model.encoder.norm(x)))
        y = model.french_embedding(row[None, LONGEST : LONGEST + Tt]) + model.french_positions.weight[:Tt]
        known, own, cross = model.decoder.norm(y), model.decoder.attention, model.cross
        y = y + torch.cat([own(known[:, t : t + 1], known[:, : t + 1]) for t in range(Tt)], 1)
        y = y + cross.attention(cross.norm(y), x)
        torch.testing.assert_close(found[:Tt], model.readout(model.decoder_norm(y))[0], atol=1e-5, rtol=0)


def test_a_translation_comes_with_the_maps_of_its_own_words(model):
    text = "my cat sees the cow"
    translated = model.translate(text)
    assert translated.english == [*text.split(), STOP]
    Tt = len(translated.french)
    assert 1 <= Tt <= LONGEST and PAD not in translated.french
    for weights, shape in zip(translated.maps, ((2, 6, 6), (2, Tt, Tt), (2, Tt, 6)), strict=True):
        assert [layer.shape for layer in weights] == [shape]
        assert all(torch.allclose(layer.sum(-1), torch.ones(shape[:2])) for layer in weights), "none on padding"
    assert not any(layer.triu(1).any() for layer in translated.maps.decoder)
    assert model.translate("cow cow").english == ["cow", "cow", STOP]  # no sentence, but words that it knows


def test_training_learns_to_write_and_to_stop():
    # Far too few steps for a good model; enough to see that source, target and loss fit together.
    model, again, other = (TranslationModel(16, 2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(model.readout.weight, again.readout.weight), "the seed alone makes the weights"
    assert not torch.equal(model.readout.weight, other.readout.weight)
    untrained = evaluate(model, Translation())["loss"]
    found = fit(model, Translation(), steps=80, lr=0.02, batch_size=16, progress=False)
    assert found.evaluation["loss"] < 0.5 * untrained
    inputs, _ = pack(drawn(40, held_out=True))
    for row in model.write(inputs[:, :LONGEST]).tolist():
        words = [FRENCH[i] for i in row]
        end = words.index(STOP) if STOP in words else LONGEST
        assert PAD not in words[:end] and set(words[end + 1 :]) <= {PAD}


def test_right_sentences_are_told_from_wrong_ones(monkeypatch):
    sentences, model = drawn(3), TranslationModel(16, 2)
    written = pack(sentences)[1].clamp(min=0)
    written[1, 2] += 1
    monkeypatch.setattr(model, "write", lambda source: written)
    assert sentences_right(model, sentences).tolist() == [True, False, True]


def test_what_is_no_sentence_and_what_no_model_reads_is_refused_and_says_why(model):
    sentences = {
        "'elephant'; choose from big, black, cat": "the cat sees the elephant",
        "'<pad>'": "the cat <pad> the dog",
        "no word at all": "  .",
        "got 'the cat sees'": "the cat sees",
        "got 'the black small cat": "the black small cat sees the dog",
        "did you mean 'the cats see the dog'": "the cats sees the dog",
        "did you mean 'the cat does not see the dog'": "the cat do not see the dog",
        "at most 11 words, got 13": "the " * 12 + "cat",
        "TypeError: expected a sentence as text, got list": ["the", "cat"],
    }
    calls = {"'elephant'; choose from": partial(model.translate, "my elephant sees the cow")}
    assert accepted({words: partial(parse, text) for words, text in sentences.items()}) + accepted(calls) == []

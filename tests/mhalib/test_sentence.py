"""The features of a sentence: what is in which of them, and what the maps of lesson 00 stand on."""

import pytest
import torch

from mhalib import scaled_dot_product_attention, split_heads
from mhalib.experiments import sentence_features

WORDS = "The painter painted the old bridge while the old baker baked bread".split()
BEGINS, ENDS, FAST, SLOW = (slice(16 * i, 16 * i + 16) for i in range(4))


def test_64_numbers_a_word():
    x = sentence_features(WORDS)
    assert x.shape == (1, 12, 64) and x.dtype == torch.float32
    assert sentence_features(["a"]).shape == (1, 1, 64)


def test_each_block_has_the_same_length_so_that_none_outweighs_another():
    blocks = sentence_features([*WORDS, "Ünïcode", "…"], seed=3).unflatten(-1, (4, 16))
    assert blocks.square().sum(-1).allclose(torch.tensor(16.0))


@pytest.mark.parametrize(
    "one, other, part, alike",
    [
        ("The", "the", BEGINS, True), ("The", "the", ENDS, True),
        ("painter", "painted", BEGINS, True), ("painter", "painted", ENDS, False),
        ("painter", "winter", ENDS, True), ("painter", "winter", BEGINS, False),
        ("abcd", "abce", BEGINS, True), ("abcd", "abed", BEGINS, False), ("xbcd", "ybcd", ENDS, True),
    ],
)  # fmt: skip
def test_a_word_is_its_first_and_its_last_three_letters(one, other, part, alike):
    # Both words at the same place, so that nothing but the spelling differs.
    first, second = sentence_features([one])[0, 0], sentence_features([other])[0, 0]
    assert first[part].equal(second[part]) == alike
    assert first[FAST].equal(second[FAST]) and first[SLOW].equal(second[SLOW])


def test_more_letters_in_common_are_more_alike():
    others = ["pain", "pale", "pond", "quick"]  # with "paint" they share three, two, one and no letters
    runs = [sentence_features(["paint", *others], seed=seed)[0, :, BEGINS] for seed in range(200)]
    shared = torch.stack([x[1:] @ x[0] for x in runs]).mean(0).tolist()
    assert shared[0] == pytest.approx(16) and shared == sorted(shared, reverse=True) and abs(shared[-1]) < 1


def test_another_seed_is_another_spelling_at_the_same_places():
    x, again, other = (sentence_features(WORDS, seed=seed)[0] for seed in (0, 0, 1))
    assert x.equal(again)
    assert (x[:, :32] != other[:, :32]).all() and x[:, 32:].equal(other[:, 32:])


def test_the_numbers_are_the_same_on_every_machine():
    # Written down once: the stored pictures of lesson 00 come from them.
    expected = [2.2507, 0.1081, -1.2817]
    assert sentence_features(WORDS)[0, 0, :3].tolist() == pytest.approx(expected, abs=1e-4)


def test_a_shift_moves_the_positions_only():
    x, shifted = sentence_features(WORDS)[0], sentence_features(WORDS, shift=1)[0]
    assert shifted[:, :32].equal(x[:, :32])
    assert shifted[1:, 32:].allclose(x[:-1, 32:], atol=1e-5)


def test_positions_know_distances_only_and_slow_waves_see_farther():
    x = sentence_features(["a"] * 20)[0]
    for part in (FAST, SLOW):
        scores = x[:, part] @ x[:, part].T
        assert all(scores.diagonal(k).allclose(scores[0, k], atol=1e-3) for k in range(20))
    near = [(x[:, part] @ x[:, part].T)[0, :7] for part in (FAST, SLOW)]
    assert near[0].argmax() == near[1].argmax() == 0 and near[1][1] > 0.9 * 16 > near[0][1] > 0
    assert near[0][4] < 0 < near[1][4]


def test_heads_find_what_their_block_holds():
    heads = split_heads(sentence_features(WORDS), 4)
    weights = scaled_dot_product_attention(heads, heads, heads)[1][0]
    place = {word: i for i, word in enumerate(WORDS)}
    painter = weights[:2, place["painter"]].clone()
    painter[:, place["painter"]] = 0
    assert painter.argmax(-1).tolist() == [place["painted"], place["baker"]]
    assert (weights[2:].argmax(-1) == torch.arange(12)).all()


@pytest.mark.parametrize("words", [[], ["a", ""]])
def test_words_that_are_refused(words):
    with pytest.raises(ValueError, match="needs a word, and every word a letter"):
        sentence_features(words)


def test_a_whole_text_is_refused():
    with pytest.raises(TypeError, match=r"use \.split\(\)"):
        sentence_features("The old bridge")

"""The features of a sentence: what is in which of them, and what the maps of lesson 00 stand on."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib.experiments import sentence_features
from tests.helpers.refusals import accepted

WORDS = "The painter painted the old bridge while the old baker baked bread".split()
BEGINS, ENDS = slice(0, 16), slice(16, 32)


@given(st.integers(0, 30), st.integers(-3, 3))
def test_a_place_is_sines_and_cosines_of_wavelengths_from_6_to_60_words(place, shift):
    angles = [2 * math.pi * (place - shift) / (6 * 10 ** (i / 15)) for i in range(16)]
    waves = [math.sqrt(2) * wave(angle) for angle in angles for wave in (math.sin, math.cos)]
    assert sentence_features(["a"] * 31, shift=shift)[0, place, 32:].tolist() == pytest.approx(waves, abs=1e-4)


def test_a_word_is_its_first_and_its_last_three_letters():
    pairs = [
        ("The", "the", BEGINS, True), ("The", "the", ENDS, True),
        ("painter", "painted", BEGINS, True), ("painter", "painted", ENDS, False),
        ("painter", "winter", ENDS, True), ("painter", "winter", BEGINS, False),
        ("abcd", "abce", BEGINS, True), ("abcd", "abed", BEGINS, False), ("xbcd", "ybcd", ENDS, True),
    ]  # fmt: skip
    for one, other, part, alike in pairs:
        first, second = sentence_features([one])[0, 0], sentence_features([other])[0, 0]
        assert first[part].equal(second[part]) == alike, (one, other)
        assert first[32:].equal(second[32:])


def test_a_seed_is_a_spelling_whose_blocks_are_equally_long_and_the_same_on_every_machine():
    x, again, other = (sentence_features([*WORDS, "Ünïcode", "…"], seed=seed) for seed in (0, 0, 1))
    assert x.shape == (1, 14, 64) and x.dtype == torch.float32 and x.equal(again)
    assert x.unflatten(-1, (4, 16)).square().sum(-1).allclose(torch.tensor(16.0))  # so that none outweighs another
    assert (x[..., :32] != other[..., :32]).all() and x[..., 32:].equal(other[..., 32:])
    # Written down once: the stored pictures of lesson 00 come from them.
    assert x[0, 0, :3].tolist() == pytest.approx([2.2507, 0.1081, -1.2817], abs=1e-4)


def test_what_is_no_list_of_words_is_refused():
    calls = {"got []": [], "every word a letter": ["a", ""], ".split()": "The old bridge"}
    assert accepted({words: partial(sentence_features, given) for words, given in calls.items()}) == []

"""The tasks: what they ask is what their map says or can be looked up, and every batch is fresh."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib.experiments import CausalModel, Lookup, Repeats, fit
from tests.helpers.refusals import accepted


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.integers(2, 9), st.data())
def test_permutations_ask_what_their_map_says_of_every_position_never_itself_and_never_the_same(tokens, data):
    lookups = data.draw(st.integers(1, tokens - 1))
    task = Lookup.permutations(tokens, lookups, vocab=5, seed=data.draw(st.integers(0, 99)))
    x, answers = task.batch(3, generator())
    assert x.shape == (3, tokens) and answers.shape == (3, lookups, tokens)
    for lookup, sources in enumerate(task.sources.tolist()):
        assert sorted(sources) == list(range(tokens)) and all(t != source for t, source in enumerate(sources))
        assert answers[:, lookup].tolist() == [[row[source] for source in sources] for row in x.tolist()]
        assert task.pattern()[lookup].argmax(-1).tolist() == sources and task.pattern()[lookup].sum() == tokens
    assert all(len(set(column)) == lookups for column in task.sources.T.tolist())


def test_permutations_differ_from_seed_to_seed_and_are_no_offsets():
    first, again, other = (Lookup.permutations(12, seed=seed).sources for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert ((first - torch.arange(12)) % 12).unique().numel() > 2


def test_offsets_by_hand():
    task = Lookup.offsets(4, (-1, 2), vocab=9)
    assert task.sources.tolist() == [[3, 0, 1, 2], [2, 3, 0, 1]]
    x, answers = task.batch(1, generator())
    a, b, c, d = x[0].tolist()
    assert answers[0].tolist() == [[d, a, b, c], [c, d, a, b]]


def test_batches_are_fresh_and_come_from_the_generator_alone():
    task, source = Lookup.permutations(6, vocab=16), generator(3)
    before = torch.get_rng_state()
    first, second = task.batch(8, source)[0], task.batch(8, source)[0]
    assert not torch.equal(first, second)
    assert torch.equal(first, task.batch(8, generator(3))[0])
    assert torch.equal(before, torch.get_rng_state())
    assert set(task.batch(200, source)[0].unique().tolist()) == set(range(16))


@given(st.integers(2, 4), st.integers(4, 6), st.integers(6, 9), st.integers(1, 5), st.integers(0, 99))
def test_what_is_asked_in_repeats_stands_behind_the_only_or_every_earlier_occurrence(low, high, vocab, more, seed):
    task = Repeats(vocab + more, low, high, vocab)
    inputs, answers = task.batch(4, generator(seed))
    assert inputs.shape == answers.shape == (4, vocab + more) and inputs.max() < vocab
    for tokens, asked in zip(inputs.tolist(), answers.tolist(), strict=True):
        start = next((t for t, token in enumerate(asked) if token != -100), len(tokens))
        assert high <= start <= vocab and -100 not in asked[start:]
        assert len(set(tokens[:start])) == start, "what comes before the repeats must be new"
        for here in range(start, len(tokens)):
            earlier = [tokens[t + 1] for t in range(here) if tokens[t] == tokens[here]]
            assert set(earlier) == {asked[here]}
            if here + 1 < len(tokens):
                assert tokens[here + 1] == asked[here], "the answer is the token that comes next"


def test_neither_the_distance_nor_the_position_of_a_repeat_is_fixed():
    inputs, answers = Repeats().batch(2000, generator())
    starts = (answers == -100).sum(-1)
    before = inputs.gather(1, starts[:, None].clamp(max=23))  # the first token that is said again
    lengths = starts - (inputs == before).int().argmax(-1)
    assert set(starts.tolist()) == set(range(12, 23))
    assert set(lengths[starts < 24].tolist()) == set(range(3, 13))
    # What stands so many places back is the answer in less than a third of the cases, for each distance.
    asked = answers[:, 12:]
    for back in range(12):
        there = inputs[:, 12 - back : 24 - back]
        assert (there == asked)[asked != -100].float().mean() < 1 / 3


@pytest.mark.slow
def test_one_layer_solves_repeats_of_one_length_only():
    accuracy = {}
    for longest in (6, 12):
        task = Repeats(shortest=6, longest=longest)
        model = CausalModel(task.vocab, task.tokens, 32, 2, num_layers=1)
        accuracy[longest] = fit(model, task, steps=300, lr=0.01, progress=False).accuracy
    assert accuracy[6] > 0.95 and accuracy[12] < 0.5, accuracy


def test_what_no_task_can_be_made_of_is_refused(as_shipped):
    calls = {
        "TypeError: sources must be positions": partial(Lookup, torch.zeros(1, 2)),
        "(lookups, T), got (3,)": partial(Lookup, torch.arange(3)),
        "from 0 to 1, got 0 to 2": partial(Lookup, torch.tensor([[0, 2]])),
        "from 0 to 1, got -1 to 0": partial(Lookup, torch.tensor([[0, -1]])),
        "vocab must be at least 2": partial(Lookup.offsets, 4, vocab=1),
        "at least tokens=5, got 4": partial(Lookup.permutations, 4, 4),
        "got (1, -3)": partial(Lookup.offsets, 4, (1, -3)),
        "size must be a positive integer, got 0": partial(Lookup.offsets(4).batch, 0, generator()),
        "got shortest=1,": partial(Repeats, shortest=1),
        "got shortest=5, longest=4": partial(Repeats, shortest=5, longest=4),
        "vocab=22, tokens=22": partial(Repeats, tokens=22),
    }
    assert accepted(calls) == []

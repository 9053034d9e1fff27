"""The tasks: what they ask is what their map says, and every batch is fresh."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from mhalib.tasks import Lookup


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.integers(2, 9), st.data())
def test_the_map_applied_to_the_tokens_gives_the_answers(tokens, data):
    lookups = data.draw(st.integers(1, tokens - 1))
    task = Lookup.permutations(tokens, lookups, vocab=5, seed=data.draw(st.integers(0, 99)))
    x, answers = task.batch(3, generator())
    assert x.shape == (3, tokens) and answers.shape == (3, lookups, tokens)
    found = task.pattern() @ F.one_hot(x, 5).float()[:, None]  # (lookups, T, T) @ (B, 1, T, vocab)
    assert torch.equal(found.argmax(-1), answers)


@given(st.integers(2, 9), st.data())
def test_permutations_report_every_position_never_themselves_and_never_the_same(tokens, data):
    lookups = data.draw(st.integers(1, tokens - 1))
    sources = Lookup.permutations(tokens, lookups, seed=data.draw(st.integers(0, 99))).sources
    assert all(sorted(row) == list(range(tokens)) for row in sources.tolist())
    assert not (sources == torch.arange(tokens)).any()
    assert all(len(set(column)) == lookups for column in sources.T.tolist())


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
    assert task.pattern()[0].tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]


def test_batches_are_fresh_and_come_from_the_generator_alone():
    task, source = Lookup.permutations(6, vocab=16), generator(3)
    before = torch.get_rng_state()
    first, second = task.batch(8, source)[0], task.batch(8, source)[0]
    assert not torch.equal(first, second)
    assert torch.equal(first, task.batch(8, generator(3))[0])
    assert torch.equal(before, torch.get_rng_state())
    assert set(task.batch(200, source)[0].unique().tolist()) == set(range(16))


BAD = {
    "sources must be a tensor, got list": lambda: Lookup([[0, 1]]),
    r"sources must be positions \(torch.int64\), got torch.float32; use sources.long": lambda: Lookup(
        torch.zeros(1, 2)
    ),
    r"sources must be \(lookups, T\), got \(3,\); one lookup is x\[None\]": lambda: Lookup(torch.arange(3)),
    "positions from 0 to 1, got 0 to 2; wrap": lambda: Lookup(torch.tensor([[0, 2]])),
    "positions from 0 to 1, got -1 to 0; wrap": lambda: Lookup(torch.tensor([[0, -1]])),
    "vocab must be at least 2, got 1": lambda: Lookup.offsets(4, vocab=1),
    "vocab must be a positive integer, got 0": lambda: Lookup.offsets(4, vocab=0),
    "4 lookups that agree nowhere need at least tokens=5, got 4": lambda: Lookup.permutations(4, 4),
    "tokens must be a positive integer, got 0": lambda: Lookup.permutations(0),
    r"all different in a ring of tokens=4, got \(1, -3\)": lambda: Lookup.offsets(4, (1, -3)),
    r"at least one and all different in a ring of tokens=4, got \(\)": lambda: Lookup.offsets(4, ()),
    "size must be a positive integer, got 0": lambda: Lookup.offsets(4).batch(0, generator()),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_refused(message, as_shipped):
    with pytest.raises((TypeError, ValueError), match=message):
        BAD[message]()

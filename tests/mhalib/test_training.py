"""Training small models: what tasks ask, what models answer, and training itself against a loop by hand."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mhalib.experiments import (
    CausalModel,
    DivergedError,
    Lookup,
    LookupModel,
    Repeats,
    count_parameters,
    evaluate,
    fit,
    fit_together,
    seeded,
)
from mhalib.experiments.tasks import NO_ANSWER
from mhalib.experiments.training import EVALUATION_SEED, LATELY, torch_threads
from tests.helpers.refusals import accepted

pytestmark = pytest.mark.usefixtures("one_thread")


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


def test_offsets_by_hand_and_permutations_that_are_none():
    task = Lookup.offsets(4, (-1, 2), vocab=9)
    assert task.sources.tolist() == [[3, 0, 1, 2], [2, 3, 0, 1]]
    x, answers = task.batch(1, generator())
    a, b, c, d = x[0].tolist()
    assert answers[0].tolist() == [[d, a, b, c], [c, d, a, b]]
    first, again, other = (Lookup.permutations(12, seed=seed).sources for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert ((first - torch.arange(12)) % 12).unique().numel() > 2


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


def test_parameters_are_counted_without_what_is_shared_or_frozen_and_do_not_depend_on_the_number_of_heads():
    counts = {count_parameters(LookupModel(16, 12, 2, 32, num_heads)) for num_heads in (1, 8)}
    # tokens and positions, four projections, two readouts with their biases
    assert counts == {(16 + 12) * 32 + 4 * 32**2 + 2 * 16 * (32 + 1)}
    a, b = nn.Linear(3, 4), nn.Linear(3, 4)
    b.weight = a.weight
    b.bias.requires_grad_(False)
    assert count_parameters(nn.ModuleList([a, b])) == 12 + 4


def test_the_scores_by_hand():
    model = LookupModel(7, 5, 3, 8, 2, num_layers=2, seed=4)
    tokens, _ = Lookup.offsets(4, (1,), vocab=7).batch(2, generator())
    scores, maps = model(tokens, need_weights=True)
    torch.testing.assert_close(model(tokens), scores, rtol=0, atol=1e-5)
    assert scores.shape == (2, 3, 4, 7) and [weights.shape for weights in maps] == [(2, 2, 4, 4)] * 2
    x = model.token_embedding.weight[tokens] + model.position_embedding.weight[:4]
    y = model.layers[0](x)
    torch.testing.assert_close(maps[1], model.layers[1](y, need_weights=True)[1])
    y = y + model.layers[1](y)
    for lookup in range(3):
        rows = slice(7 * lookup, 7 * lookup + 7)  # the readouts stand one below the other
        by_hand = y @ model.readout.weight[rows].T + model.readout.bias[rows]
        torch.testing.assert_close(scores[:, lookup], by_hand, rtol=0, atol=1e-5)


def test_a_seed_alone_decides_and_leaves_the_random_state_also_after_an_error():
    before = torch.get_rng_state()
    for build in (partial(LookupModel, 7, 5, 3, 8, 2), partial(CausalModel, 7, 5, 8, 2)):
        first, again, other = (build(seed=seed).state_dict() for seed in (1, 1, 2))
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert not any(torch.equal(first[name], other[name]) for name in first)
    with pytest.raises(ZeroDivisionError), seeded(5):
        drawn = torch.rand(3)
        raise ZeroDivisionError
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(drawn, torch.rand(3, generator=generator(5)))


TASK = Lookup.offsets(5, (1, 2), vocab=6)


class Gaps:
    """The task, with answers at some of its places only."""

    def batch(self, size, generator):
        tokens, answers = TASK.batch(size, generator)
        return tokens, answers.masked_fill(torch.rand(answers.shape, generator=generator) < 0.6, NO_ANSWER)


def make(**settings):
    return LookupModel(6, 5, 2, 8, 2, **settings)


def train(model=None, **settings):
    usual = {"task": TASK, "steps": 5, "lr": 1e-2, "batch_size": 4, "progress": False}
    return fit(model or make(), **(usual | settings))


def by_hand(mine, seed, enough=None, steps=1000):
    """Train as one would write it, and return the losses and the shares of right answers before each step."""
    losses, shares = [], []
    optimizer, source = torch.optim.Adam(mine.parameters(), lr=1e-2), generator(seed)
    while len(losses) < steps:
        tokens, answers = TASK.batch(4, source)
        scores = mine(tokens)
        loss = F.cross_entropy(scores.movedim(-1, 1), answers)  # where torch expects the classes
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        shares.append((scores.argmax(-1) == answers).double().mean().item())
        if enough and len(shares) >= LATELY and sum(shares[-LATELY:]) / LATELY >= enough:
            break
    return losses, shares


def hold_against(run, losses, model):
    """Hold a run against the losses and the weights that it should have."""
    assert run.losses == pytest.approx(losses, abs=1e-5)
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(run.model.state_dict()[name], weight, rtol=0, atol=1e-4)
    assert run.seconds > 0 and not run.model.training


def test_fit_is_the_loop_that_one_would_write_by_hand():
    mine = make()
    losses, _ = by_hand(mine, seed=7, steps=20)
    hold_against(train(steps=20, seed=7), losses, mine)


def test_training_ends_once_enough_of_fresh_answers_are_right():
    """At the first step whose last 20 batches, counted before they were learned from, hold that share of them."""
    _, shares = by_hand(make(), seed=0, enough=0.9)
    result = train(steps=1000, enough=0.9)
    assert LATELY < len(result.losses) == len(shares) < 1000
    assert result.losses == train(steps=len(shares)).losses, "up to there nothing else is done"
    assert len(train(steps=30, enough=1.0).losses) == 30, "what is not reached takes all the steps"


def test_the_same_seed_gives_the_same_bits_and_global_randomness_is_left_alone():
    class Dropping(LookupModel):
        """A model that draws at random while it trains."""

        def forward(self, tokens):
            return F.dropout(super().forward(tokens), 0.3, self.training)

    before = torch.get_rng_state()
    first = train(Dropping(6, 5, 2, 8, 2), seed=3)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(11)
    again, other = (train(Dropping(6, 5, 2, 8, 2), seed=seed) for seed in (3, 4))
    assert first.losses == again.losses != other.losses
    assert first.evaluation == again.evaluation
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])


def test_watch_sees_every_step_and_the_end_and_torch_has_its_threads_back_afterwards():
    with torch_threads(2):
        seen = []
        train(steps=3, watch=lambda losses, done: seen.append((len(losses), done, torch.get_num_threads())))
        assert seen == [(1, False, 1), (2, False, 1), (3, False, 1), (3, True, 1)] and torch.get_num_threads() == 2
        with pytest.raises(DivergedError, match="the loss on fresh batches after 1 steps is nan"):
            train(steps=1, lr=1e38)
        assert torch.get_num_threads() == 2


def test_a_loss_that_is_no_number_is_refused_with_step_and_rate():
    class Failing(LookupModel):
        seen = 0

        def forward(self, tokens):
            self.seen += 1
            return super().forward(tokens) * (math.inf if self.seen == 3 else 1.0)

    with pytest.raises(ValueError, match=r"at step 2 is nan with lr=0\.01: .* such as lr=0\.001"):
        train(Failing(6, 5, 2, 8, 2))


def test_evaluation_by_hand_counts_every_answer_once_also_in_pieces():
    net, source = make(), generator(EVALUATION_SEED)
    pieces = [Gaps().batch(256, source) for _ in range(4)]
    tokens, answers = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    found = evaluate(net, Gaps())
    right = sum(net(x[None])[0].argmax(-1).eq(y).sum().item() for x, y in zip(tokens, answers, strict=True))
    assert found["accuracy"] == pytest.approx(right / (answers != NO_ANSWER).sum().item())
    chances = net(tokens).softmax(-1)[answers != NO_ANSWER]  # (answers, vocab)
    wanted = chances.gather(1, answers[answers != NO_ANSWER][:, None]).log().mean().neg()
    assert found["loss"] == pytest.approx(wanted.item(), abs=1e-5)


def together(seeds, models=None, **settings):
    models = [make(seed=seed) for seed in seeds] if models is None else models
    return fit_together(models, **({"task": TASK, "steps": 20, "lr": 1e-2, "batch_size": 4} | settings), seeds=seeds)


def test_each_model_learns_what_fit_teaches_it_alone_and_nothing_of_its_neighbours():
    before = torch.get_rng_state()
    runs = together([3, 8])
    assert torch.equal(torch.get_rng_state(), before)
    for seed, run in zip((3, 8), runs, strict=True):
        alone = train(make(seed=seed), steps=20, seed=seed)
        hold_against(run, alone.losses, alone.model)
        assert run.evaluation == pytest.approx(alone.evaluation, abs=1e-3)
        assert run.losses == pytest.approx(together([seed])[0].losses, abs=1e-6)


def test_a_shared_weight_a_module_used_twice_and_a_fixed_weight_stay_so():
    class Tied(nn.Module):
        def __init__(self, seed):
            super().__init__()
            torch.manual_seed(seed)
            self.embedding, self.readout = nn.Embedding(6, 6), nn.Linear(6, 6, bias=False)
            self.readout.weight = self.embedding.weight
            self.inner = self.again = nn.Linear(6, 6)
            self.fixed = nn.Parameter(torch.rand(6), requires_grad=False)

        def forward(self, tokens):
            x = self.again(self.inner(self.embedding(tokens)).tanh()) * self.fixed
            return self.readout(x)[:, None].expand(-1, 2, -1, -1)

    for seed, run in zip((1, 2), together([1, 2], [Tied(1), Tied(2)]), strict=True):
        alone = train(Tied(seed), steps=20, seed=seed)
        hold_against(run, alone.losses, alone.model)
        assert run.model.readout.weight is run.model.embedding.weight and run.model.inner is run.model.again
        assert torch.equal(run.model.fixed, Tied(seed).fixed)


def test_tasks_sizes_tokens_and_trainings_that_cannot_be_are_refused_by_name(as_shipped):
    sizes = {"vocab": 7, "tokens": 5, "d_model": 8, "num_heads": 2}
    wrong = {
        "num_layers must be a positive integer, got 0": {"num_layers": 0},
        "seed must be a whole number of 0 or more, got -1": {"seed": -1},
    }
    ids = torch.zeros(1, 6, dtype=torch.int64)
    tokens = {
        "TypeError: tokens must be ids (torch.int64), got torch.float32": ids / 1,
        "(B, T) with T from 1 to 5, got (1, 6)": ids,
        "ids from 0 to 6, got 0 to 7": torch.tensor([[0, 7]]),
    }
    failures = []
    for kind in (partial(LookupModel, lookups=2), CausalModel):
        failures += accepted({words: partial(kind, **(sizes | options)) for words, options in wrong.items()})
        failures += accepted({words: partial(kind(**sizes), given) for words, given in tokens.items()})
    shared = {
        "lr must be a positive number, got -1.0": {"lr": -1.0},
        "steps must be a positive integer, got 0": {"steps": 0},
        "batch_size must be a positive integer, got 0": {"batch_size": 0},
    }
    alone = {
        "above 0 and at most 1, got nan": {"enough": math.nan},
        "lr must be a positive number, got nan": {"lr": math.nan},
        "seed must be a whole number of 0 or more, got -1": {"seed": -1},
    }
    lost = [make(seed=4), make(seed=5)]
    nn.init.constant_(lost[1].readout.weight, math.inf)
    calls = {
        "got torch.float32 (1, 2)": partial(Lookup, torch.zeros(1, 2)),
        "(1, 2): [[0, 2]]": partial(Lookup, torch.tensor([[0, 2]])),
        "vocab must be at least 2": partial(Lookup.offsets, 4, vocab=1),
        "at least tokens=5, got 4": partial(Lookup.permutations, 4, 4),
        "got (1, -3)": partial(Lookup.offsets, 4, (1, -3)),
        "got shortest=1,": partial(Repeats, shortest=1),
        "lookups must be a positive integer": partial(LookupModel, 7, 5, 0, 8, 2),
        "DivergedError: the loss at step 0 is nan for seeds [5] with lr=0.01": partial(together, [4, 5], lost),
        "got 1 models and 2 seeds": partial(together, [1, 2], [make()]),
        "the targets, (4, 2, 5), and one axis of choices behind it, got (4, 3, 5, 6)": partial(
            train, LookupModel(6, 5, 3, 8, 2)
        ),
    }
    failures += accepted({words: partial(train, **given) for words, given in (shared | alone).items()})
    failures += accepted({words: partial(together, [1], **given) for words, given in shared.items()})
    assert failures + accepted(calls) == []

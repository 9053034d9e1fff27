"""Training, one model or several side by side: against a loop by hand, and what it does when something goes wrong."""

import math
import re
import subprocess
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mhalib.experiments import (
    DivergedError,
    Lookup,
    LookupModel,
    cross_entropy,
    evaluate,
    find_device,
    fit,
    fit_together,
)
from mhalib.experiments.tasks import NO_ANSWER
from mhalib.experiments.training import EVALUATION_SEED, LATELY, torch_threads, unattended
from tests.helpers.refusals import accepted

TASK = Lookup.offsets(5, (1, 2), vocab=6)


@pytest.fixture(autouse=True)
def one_thread():
    with torch_threads(1):
        yield


def model(**settings):
    return LookupModel(6, 5, 2, 8, 2, **settings)


def train(**settings):
    return fit(model(), **({"task": TASK, "steps": 5, "lr": 1e-2, "batch_size": 4, "progress": False} | settings))


def stop_at(step):
    def watch(losses, done):
        if len(losses) == step and not done:
            raise KeyboardInterrupt

    return watch


def by_hand(mine, seed, enough=None, steps=1000):
    """Train as one would write it, and return the losses and the shares of right answers before each step."""
    losses, shares = [], []
    optimizer, generator = torch.optim.Adam(mine.parameters(), lr=1e-2), torch.Generator().manual_seed(seed)
    while len(losses) < steps:
        tokens, answers = TASK.batch(4, generator)
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


def test_fit_is_the_loop_that_one_would_write_by_hand():
    mine = model()
    losses, _ = by_hand(mine, seed=7, steps=20)
    result = train(steps=20, seed=7)
    assert result.losses == pytest.approx(losses, abs=1e-5)
    for name, weight in mine.state_dict().items():
        torch.testing.assert_close(result.model.state_dict()[name], weight, rtol=0, atol=1e-4)
    assert not result.interrupted and result.seconds > 0 and not result.model.training


def test_training_ends_once_enough_of_fresh_answers_are_right():
    """At the first step whose last 20 batches, counted before they were learned from, hold that share of them."""
    _, shares = by_hand(model(), seed=0, enough=0.9)
    result = train(steps=1000, enough=0.9)
    assert LATELY < len(result.losses) == len(shares) < 1000 and not result.interrupted
    assert result.losses == train(steps=len(shares)).losses, "up to there nothing else is done"
    assert len(train(steps=30, enough=1.0).losses) == 30, "what is not reached takes all the steps"


@pytest.mark.slow
def test_two_lookups_need_two_heads_and_places_without_an_answer_neither_help_nor_harm():
    """The experiment of notebook 07; over 20 seeds one head stayed between 0.55 and 0.59, two always reached 1."""
    for num_heads, low, high in ((1, 0.5, 0.65), (2, 0.99, 1.0)):
        net = LookupModel(16, 12, 2, 32, num_heads)
        assert low < fit(net, Lookup.offsets(12), steps=400, lr=5e-3, progress=False).accuracy <= high

    class Half:
        def batch(self, size, generator):
            tokens, answers = TASK.batch(size, generator)
            return tokens, answers.masked_fill(torch.arange(5) < 3, NO_ANSWER)

    assert len(train(task=Half(), steps=1000, enough=1.0).losses) < 1000


class Dropping(nn.Module):
    """A model that draws at random while it trains."""

    def __init__(self):
        super().__init__()
        self.inner = model()

    def forward(self, tokens):
        return F.dropout(self.inner(tokens), 0.3, self.training)


def test_the_same_seed_gives_the_same_bits_and_global_randomness_is_left_alone():
    before = torch.get_rng_state()
    first = fit(Dropping(), TASK, steps=5, lr=1e-2, seed=3, progress=False)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(11)
    again, other = (fit(Dropping(), TASK, steps=5, lr=1e-2, seed=seed, progress=False) for seed in (3, 4))
    assert first.losses == again.losses != other.losses
    assert first.evaluation == again.evaluation
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])


def test_an_interrupt_ends_training_with_what_was_reached_but_not_where_nobody_watches():
    before = torch.get_rng_state()
    result = train(steps=1000, watch=stop_at(3))
    assert result.interrupted and len(result.losses) == 3
    assert result.losses == train(steps=3).losses and result.evaluation == train(steps=3).evaluation
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(KeyboardInterrupt), unattended():
        train(watch=stop_at(3))
    assert train(steps=1000, watch=stop_at(3)).interrupted, "and afterwards it is as before"


def test_watch_sees_every_step_and_the_end_and_torch_has_its_threads_back_afterwards():
    with torch_threads(2):
        seen = []
        train(steps=3, watch=lambda losses, done: seen.append((len(losses), done, torch.get_num_threads())))
        assert seen == [(1, False, 1), (2, False, 1), (3, False, 1), (3, True, 1)] and torch.get_num_threads() == 2
        with pytest.raises(DivergedError, match="after 1 steps the loss on fresh batches is nan"):
            train(steps=1, lr=1e38)
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_refused_with_step_and_rate(poison):
    batches = iter(range(100))

    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def forward(self, tokens):
            return self.inner(tokens) * (poison if next(batches) == 2 else 1.0)

    with pytest.raises(ValueError, match=r"nan at step 2 with lr=0\.01: .* such as lr=0\.001"):
        fit(Failing(), TASK, steps=5, lr=1e-2, progress=False)


def test_evaluation_by_hand():
    task, net = TASK, model()
    tokens, answers = task.batch(256, torch.Generator().manual_seed(5))
    found = evaluate(net, task, size=256, seed=5)
    right = sum(net(x[None])[0].argmax(-1).eq(y).sum().item() for x, y in zip(tokens, answers, strict=True))
    assert found["accuracy"] == pytest.approx(right / answers.numel())
    assert found["loss"] == pytest.approx(cross_entropy(net(tokens), answers).item(), abs=1e-5)
    assert evaluate(net, TASK) == evaluate(net, TASK, seed=EVALUATION_SEED) != evaluate(net, TASK, seed=0)


def test_evaluation_in_pieces_counts_every_answer_once():
    class Uneven:
        """Answers that the model below gets right in a quarter of the first piece, and in all of the second."""

        def batch(self, size, generator):
            answers = [0, 1, 1, 1, NO_ANSWER] if size == 256 else [0, NO_ANSWER, NO_ANSWER, NO_ANSWER, NO_ANSWER]
            return torch.zeros(size, 5, dtype=torch.int64), torch.tensor(answers).expand(size, 5)

    class Zero(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.tensor([math.log(3.0), 0.0]))

        def forward(self, tokens):
            return self.bias.expand(*tokens.shape, 2)

    found = evaluate(Zero(), Uneven(), size=300)
    right, wrong = 256 + 44, 3 * 256
    assert found["accuracy"] == pytest.approx(right / (right + wrong))
    expected = (right * math.log(4 / 3) + wrong * math.log(4)) / (right + wrong)
    assert found["loss"] == pytest.approx(expected)


def test_arguments_that_do_not_fit_are_refused(as_shipped, monkeypatch):
    wrong = {
        "steps must be a positive integer": {"steps": 0},
        "batch_size must be a positive integer": {"batch_size": 0},
        "above 0 and at most 1, got 0.0": {"enough": 0.0},
        "above 0 and at most 1, got 98.0": {"enough": 98.0},
        "above 0 and at most 1, got nan": {"enough": math.nan},
        "lr must be a positive number, got 0.0": {"lr": 0.0},
        "lr must be a positive number, got nan": {"lr": math.nan},
        "device 'abacus' is not to be had here; use device='cpu'": {"device": "abacus"},
        "device 'meta' is not to be had here": {"device": "meta"},
        "seed must be a whole number of 0 or more, got -1": {"seed": -1},
    }
    failures = accepted({words: partial(train, **given) for words, given in wrong.items()})
    scores = partial(cross_entropy, torch.zeros(2, 4, 5), torch.zeros(2, 3, dtype=torch.int64))
    failures += accepted({"got (2, 4, 5)": scores})
    assert failures == []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    assert find_device("cuda") == torch.device("cuda") and find_device("cuda:0").index == 0
    with pytest.raises(ValueError, match="device 'cuda:1' is not to be had here; use device='cpu' or 'cuda'"):
        find_device("cuda:1")


@pytest.mark.slow
def test_a_missing_package_is_named_with_its_remedy():
    for package, module in (("tqdm", "training"), ("joblib", "sweeps"), ("joblib", "comparison")):
        code = f"import sys; sys.modules[{package!r}] = None; import mhalib.experiments.{module}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        last = done.stderr.splitlines()[-1]
        assert re.search(rf'needs {package}; install it with: .*"mhalib\[training\]"$', last)


# ------------------------------------------------------------------------------------------------ side by side


def models(seeds, **settings):
    return [model(seed=seed, **settings) for seed in seeds]


def together(seeds, made=None, **settings):
    options = {"steps": 20, "lr": 1e-2, "batch_size": 4} | settings
    return fit_together(models(seeds) if made is None else made, TASK, seeds=seeds, **options)


def test_each_model_learns_what_fit_teaches_it_alone_and_nothing_of_its_neighbours():
    before = torch.get_rng_state()
    runs = together([3, 8])
    assert torch.equal(torch.get_rng_state(), before)
    for seed, run in zip((3, 8), runs, strict=True):
        alone = fit(models([seed])[0], TASK, steps=20, lr=1e-2, seed=seed, batch_size=4, progress=False)
        assert run.losses == pytest.approx(alone.losses, abs=1e-5)
        assert run.evaluation == pytest.approx(alone.evaluation, abs=1e-3)
        for name, weight in alone.model.state_dict().items():
            torch.testing.assert_close(run.model.state_dict()[name], weight, rtol=0, atol=1e-4)
        assert not run.model.training and run.seconds > 0 and not run.interrupted
        assert run.losses == pytest.approx(together([seed])[0].losses, abs=1e-6)


def test_a_shared_weight_stays_shared_and_a_fixed_one_fixed():
    made = models([1, 2])
    for each in made:
        each.layers[0].W_k = each.layers[0].W_v
        nn.init.eye_(each.layers[0].W_q.weight).requires_grad_(False)
    started = [each.layers[0].W_k.weight.clone() for each in made]
    together([1, 2], made)
    for each, start in zip(made, started, strict=True):
        assert each.layers[0].W_k.weight is each.layers[0].W_v.weight
        assert not torch.equal(each.layers[0].W_k.weight, start)
        assert torch.equal(each.layers[0].W_q.weight, torch.eye(8))


def test_a_weight_in_two_modules_stays_one():
    class Tied(nn.Module):
        def __init__(self, seed):
            super().__init__()
            torch.manual_seed(seed)
            self.embedding, self.readout = nn.Embedding(6, 6), nn.Linear(6, 6, bias=False)
            self.readout.weight = self.embedding.weight

        def forward(self, tokens):
            return self.readout(self.embedding(tokens))[:, None].expand(-1, 2, -1, -1)

    for seed, run in zip((1, 2), together([1, 2], [Tied(1), Tied(2)]), strict=True):
        assert run.model.readout.weight is run.model.embedding.weight
        alone = fit(Tied(seed), TASK, steps=20, lr=1e-2, seed=seed, batch_size=4, progress=False)
        torch.testing.assert_close(run.model.readout.weight, alone.model.readout.weight, rtol=0, atol=1e-4)


def test_what_cannot_be_trained_side_by_side_is_refused_by_name():
    made = models([4, 5])
    with torch.no_grad():
        made[1].readout.weight.fill_(torch.inf)
    calls = {
        "DivergedError: the loss at step 0 is not finite for seeds [5] with lr=0.01": partial(together, [4, 5], made),
        "got 0 models and 0 seeds": partial(together, []),
        "got 1 models and 2 seeds": partial(together, [1, 2], models([1])),
        "lr must be a positive number, got -1.0": partial(together, [1], lr=-1.0),
        "steps must be a positive integer, got 0": partial(together, [1], steps=0),
        "batch_size must be a positive integer, got 0": partial(together, [1], batch_size=0),
    }
    assert accepted(calls) == []

    class Wrong:
        def batch(self, size, generator):
            tokens, answers = TASK.batch(size, generator)
            return tokens + 6, answers

    with pytest.raises(IndexError):
        fit_together(models([1, 2]), Wrong(), steps=1, lr=1e-2, seeds=[1, 2])

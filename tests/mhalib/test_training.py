"""The training loop against one written by hand, and what it does when something goes wrong."""

import math
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from mhalib.experiments import DivergedError, Lookup, LookupModel, cross_entropy, evaluate, find_device, fit
from mhalib.experiments.tasks import NO_ANSWER
from mhalib.experiments.training import EVALUATION_SEED, LATELY, torch_threads, unattended

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


def test_fit_is_the_loop_that_one_would_write_by_hand():
    mine, losses = model(), []
    optimizer = torch.optim.Adam(mine.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(7)
    for _ in range(20):
        tokens, answers = TASK.batch(4, generator)
        logits = mine(tokens).movedim(-1, 1)  # where torch expects the classes
        loss = F.cross_entropy(logits, answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    result = train(steps=20, seed=7)
    assert result.losses == pytest.approx(losses, abs=1e-5)
    for name, weight in mine.state_dict().items():
        torch.testing.assert_close(result.model.state_dict()[name], weight, rtol=0, atol=1e-4)
    assert not result.interrupted and result.seconds > 0 and not result.model.training


def test_training_solves_a_task_that_one_head_can_solve():
    task = Lookup.offsets(5, (1,), vocab=6)
    result = fit(LookupModel(6, 5, 1, 16, 1), task, steps=150, lr=2e-2, progress=False)
    assert result.accuracy > 0.99 and result.losses[-1] < 0.1 < result.losses[0]


@pytest.mark.parametrize("num_heads, low, high", [(1, 0.5, 0.65), (2, 0.99, 1.0)])
def test_two_lookups_need_two_heads(num_heads, low, high):
    """The experiment of notebook 07; over 20 seeds one head stayed between 0.55 and 0.59, two always reached 1."""
    net = LookupModel(16, 12, 2, 32, num_heads)
    assert low < fit(net, Lookup.offsets(12), steps=400, lr=5e-3, progress=False).accuracy <= high


class Dropping(torch.nn.Module):
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


def test_an_interrupt_ends_training_with_what_was_reached():
    before = torch.get_rng_state()
    result = train(steps=1000, watch=stop_at(3))
    assert result.interrupted and len(result.losses) == 3
    assert result.losses == train(steps=3).losses
    assert result.evaluation == train(steps=3).evaluation
    assert torch.equal(before, torch.get_rng_state())


def test_training_ends_once_enough_of_fresh_answers_are_right():
    """At the first step whose last 20 batches, counted before they were learned from, hold that share of them."""
    mine, shares = model(), []
    optimizer, generator = torch.optim.Adam(mine.parameters(), lr=1e-2), torch.Generator().manual_seed(0)
    while len(shares) < LATELY or sum(shares[-LATELY:]) / LATELY < 0.9:
        tokens, answers = TASK.batch(4, generator)
        scores = mine(tokens)
        shares.append((scores.argmax(-1) == answers).double().mean().item())
        optimizer.zero_grad()
        F.cross_entropy(scores.movedim(-1, 1), answers).backward()
        optimizer.step()
    result = train(steps=1000, enough=0.9)
    assert LATELY < len(result.losses) == len(shares) < 1000 and not result.interrupted
    assert result.losses == train(steps=len(shares)).losses, "up to there nothing else is done"
    assert len(train(steps=30, enough=1.0).losses) == 30, "what is not reached takes all the steps"


def test_places_without_an_answer_neither_help_nor_harm_what_is_enough():
    class Half:
        def batch(self, size, generator):
            tokens, answers = TASK.batch(size, generator)
            return tokens, answers.masked_fill(torch.arange(5) < 3, NO_ANSWER)

    assert len(train(task=Half(), steps=1000, enough=1.0).losses) < 1000


def test_where_nobody_watches_an_interrupt_goes_on_to_the_caller():
    with pytest.raises(KeyboardInterrupt), unattended():
        train(watch=stop_at(3))
    assert train(steps=1000, watch=stop_at(3)).interrupted, "and afterwards it is as before"


def test_torch_has_its_threads_back_afterwards():
    before, seen = torch.get_num_threads(), []
    try:
        torch.set_num_threads(2)
        train(watch=lambda losses, done: seen.append(torch.get_num_threads()))
        assert set(seen) == {1} and torch.get_num_threads() == 2
        with pytest.raises(DivergedError):
            train(steps=1, lr=1e38)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_watch_sees_every_step_and_the_end():
    seen = []
    result = train(steps=3, watch=lambda losses, done: seen.append((len(losses), done)))
    assert seen == [(1, False), (2, False), (3, False), (3, True)] and len(result.losses) == 3


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_refused_with_step_and_rate(poison):
    batches = iter(range(100))

    class Failing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def forward(self, tokens):
            return self.inner(tokens) * (poison if next(batches) == 2 else 1.0)

    with pytest.raises(
        ValueError, match=r"the loss is nan at step 2 with lr=0\.01: .* smaller step, such as lr=0\.001"
    ):
        fit(Failing(), TASK, steps=5, lr=1e-2, progress=False)


def test_weights_ruined_by_the_last_step_are_noticed():
    with pytest.raises(DivergedError, match="after 1 steps the loss on fresh batches is nan"):
        train(steps=1, lr=1e38)


def test_evaluation_by_hand():
    task, net = TASK, model()
    tokens, answers = task.batch(256, torch.Generator().manual_seed(5))
    found = evaluate(net, task, size=256, seed=5)
    right = sum(net(x[None])[0].argmax(-1).eq(y).sum().item() for x, y in zip(tokens, answers, strict=True))
    assert found["accuracy"] == pytest.approx(right / answers.numel())
    assert found["loss"] == pytest.approx(cross_entropy(net(tokens), answers).item(), abs=1e-5)


def test_evaluation_in_pieces_counts_every_answer_once():
    class Half(SimpleNamespace):
        """Answers that the model below gets right in a quarter of the cases that count."""

        def batch(self, size, generator):
            targets = torch.tensor([0, 1, 1, 1, -100]).expand(size, 5)
            return torch.zeros(size, 5, dtype=torch.int64), targets

    class Zero(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.tensor([math.log(3.0), 0.0]))

        def forward(self, tokens):
            return self.bias.expand(*tokens.shape, 2)

    found = evaluate(Zero(), Half(), size=300)
    assert found["accuracy"] == pytest.approx(0.25)
    assert found["loss"] == pytest.approx((math.log(4 / 3) + 3 * math.log(4)) / 4)


def test_a_bar_is_shown_when_asked_for_or_where_somebody_may_watch(capfd):
    def bar(progress):
        train(progress=progress)
        return "/5 [" in capfd.readouterr().err

    assert bar(True) and bar(None) and not bar(False)
    with unattended():
        assert bar(True) and not bar(None) and not bar(False)


def test_the_evaluation_seed_is_the_same_for_all_and_nobody_elses():
    assert evaluate(model(), TASK) == evaluate(model(), TASK, seed=EVALUATION_SEED)
    assert evaluate(model(), TASK) != evaluate(model(), TASK, seed=0)


BAD = {
    "steps must be a positive integer, got 0": {"steps": 0},
    "batch_size must be a positive integer, got 0": {"batch_size": 0},
    "enough must be a share of right answers, above 0 and at most 1, got 0": {"enough": 0.0},
    "enough must be a share of right answers, above 0 and at most 1, got 98": {"enough": 98.0},
    "enough must be a share of right answers, above 0 and at most 1, got nan": {"enough": math.nan},
    "lr must be a positive number, got 0.0": {"lr": 0.0},
    "lr must be a positive number, got nan": {"lr": math.nan},
    "device 'abacus' is not to be had here; use device='cpu'": {"device": "abacus"},
    "device 'meta' is not to be had here": {"device": "meta"},
    "seed must be a whole number of 0 or more, got -1": {"seed": -1},
}


@pytest.mark.parametrize("message", BAD)
def test_arguments_that_are_refused(message):
    with pytest.raises(ValueError, match=message):
        train(**BAD[message])


def test_scores_of_another_shape_are_refused(as_shipped):
    with pytest.raises(ValueError, match=r"the shape of the targets, \(2, 3\), and one more axis|got \(2, 4, 5\)"):
        cross_entropy(torch.zeros(2, 4, 5), torch.zeros(2, 3, dtype=torch.int64))


def test_a_device_is_found_only_where_it_is(monkeypatch):
    assert find_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    assert find_device("cuda") == torch.device("cuda") and find_device("cuda:0").index == 0
    for missing in ("mps", "cuda:1"):
        with pytest.raises(ValueError, match=f"device '{missing}' is not to be had here; use device='cpu' or 'cuda'"):
            find_device(missing)


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="this machine has no accelerator")
def test_training_on_the_accelerator_sees_the_same_batches():
    device = torch.accelerator.current_accelerator()
    assert train(device=device).losses == pytest.approx(train().losses, abs=1e-3)


@pytest.mark.parametrize(("package", "module"), [("tqdm", "training"), ("joblib", "sweeps"), ("joblib", "comparison")])
def test_a_missing_package_is_named_with_its_remedy(package, module):
    code = f"import sys; sys.modules[{package!r}] = None; import mhalib.experiments.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert re.search(rf'needs {package}; install it with: .*"mhalib\[training\]"$', last)

"""Models trained side by side: each must learn what it learns alone, and know nothing of its neighbours."""

import pytest
import torch
from torch import nn

from mhalib.experiments import DivergedError, Lookup, LookupModel, fit, fit_together
from mhalib.experiments.training import torch_threads

TASK = Lookup.offsets(5, (1, 2), vocab=6)


@pytest.fixture(autouse=True)
def one_thread():
    with torch_threads(1):
        yield


def models(seeds, **settings):
    return [LookupModel(6, 5, 2, 8, 2, seed=seed, **settings) for seed in seeds]


def together(seeds, made=None, **settings):
    options = {"steps": 20, "lr": 1e-2, "batch_size": 4} | settings
    return fit_together(models(seeds) if made is None else made, TASK, seeds=seeds, **options)


def test_each_model_learns_what_fit_teaches_it_alone():
    for seed, run in zip((3, 8), together([3, 8]), strict=True):
        alone = fit(models([seed])[0], TASK, steps=20, lr=1e-2, seed=seed, batch_size=4, progress=False)
        assert run.losses == pytest.approx(alone.losses, abs=1e-5)
        assert run.evaluation == pytest.approx(alone.evaluation, abs=1e-3)
        for name, weight in alone.model.state_dict().items():
            torch.testing.assert_close(run.model.state_dict()[name], weight, rtol=0, atol=1e-4)
        assert not run.model.training and run.seconds > 0 and not run.interrupted


def test_neighbours_change_no_loss():
    for run, alone in zip(together([1, 2, 3]), (together([seed])[0] for seed in (1, 2, 3)), strict=True):
        assert run.losses == pytest.approx(alone.losses, abs=1e-6)


def test_the_same_call_gives_the_same_bits_and_leaves_the_random_state():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = together([1, 2])
    assert torch.equal(torch.get_rng_state(), before)
    assert [run.losses for run in first] == [run.losses for run in together([1, 2])]


def test_a_shared_weight_stays_shared_and_a_fixed_one_fixed():
    made = models([1, 2])
    for model in made:
        model.layers[0].W_k = model.layers[0].W_v
        nn.init.eye_(model.layers[0].W_q.weight).requires_grad_(False)
    started = [model.layers[0].W_k.weight.clone() for model in made]
    together([1, 2], made)
    for model, start in zip(made, started, strict=True):
        assert model.layers[0].W_k.weight is model.layers[0].W_v.weight
        assert not torch.equal(model.layers[0].W_k.weight, start)
        assert torch.equal(model.layers[0].W_q.weight, torch.eye(8))


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


def test_who_diverges_is_named():
    made = models([4, 5])
    with torch.no_grad():
        made[1].readout.weight.fill_(torch.inf)
    with pytest.raises(DivergedError, match=r"the loss at step 0 is not finite for seeds \[5\] with lr=0.01"):
        together([4, 5], made)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seeds": []}, "one seed for each model, got 0 models and 0 seeds"),
        ({"seeds": [1, 2], "made": models([1])}, "got 1 models and 2 seeds"),
        ({"seeds": [1], "lr": -1.0}, "lr must be a positive number, got -1.0"),
        ({"seeds": [1], "steps": 0}, "steps must be a positive integer, got 0"),
        ({"seeds": [1], "batch_size": 0}, "batch_size must be a positive integer, got 0"),
    ],
)
def test_arguments_that_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        together(**given)


def test_tokens_outside_the_vocabulary_are_refused_also_side_by_side():
    class Wrong:
        def batch(self, size, generator):
            tokens, answers = TASK.batch(size, generator)
            return tokens + 6, answers

    with pytest.raises(IndexError):
        fit_together(models([1, 2]), Wrong(), steps=1, lr=1e-2, seeds=[1, 2])

"""The models of the experiments: their sizes against the formula, their numbers against a loop by hand."""

from functools import partial

import pytest
import torch

from mhalib.experiments import CausalModel, Lookup, LookupModel, count_parameters, seeded
from tests.helpers.refusals import accepted


def test_parameters_are_counted_by_the_formula_and_do_not_depend_on_the_number_of_heads():
    counts = {count_parameters(LookupModel(16, 12, 2, 32, num_heads)) for num_heads in (1, 2, 4, 8, 16, 32)}
    # tokens and positions, four projections, two readouts with their biases
    assert counts == {(16 + 12) * 32 + 4 * 32**2 + 2 * 16 * (32 + 1)} == {6048}
    narrow, wide = LookupModel(16, 12, 2, 32, 4), LookupModel(16, 12, 2, 32, 4, head_dim=32)
    assert count_parameters(wide.layers) == 4 * count_parameters(narrow.layers) == 4 * 4 * 32**2
    full, shared = LookupModel(16, 12, 2, 32, 8), LookupModel(16, 12, 2, 32, 8, num_kv_heads=2)
    assert count_parameters(full) - count_parameters(shared) == 2 * (32 - 2 * 4) * 32
    full, shared = CausalModel(16, 12, 32, 8), CausalModel(16, 12, 32, 8, num_kv_heads=1)
    assert count_parameters(full) - count_parameters(shared) == 2 * 2 * (32 - 1 * 4) * 32
    a, b = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)
    b.weight = a.weight
    b.bias.requires_grad_(False)
    assert count_parameters(torch.nn.ModuleList([a, b])) == 12 + 4  # neither what is shared nor what is frozen


@pytest.mark.parametrize("num_layers", [1, 2])
def test_the_scores_by_hand(num_layers):
    model = LookupModel(7, 5, 3, 8, 2, num_layers=num_layers, seed=4)
    tokens, _ = Lookup.offsets(4, (1,), vocab=7).batch(2, torch.Generator().manual_seed(0))
    scores, maps = model(tokens, need_weights=True)
    torch.testing.assert_close(model(tokens), scores, rtol=0, atol=1e-5)
    assert scores.shape == (2, 3, 4, 7) and [weights.shape for weights in maps] == [(2, 2, 4, 4)] * num_layers
    for sample in range(2):
        x = torch.stack(
            [model.token_embedding.weight[t] + model.position_embedding.weight[i] for i, t in enumerate(tokens[sample])]
        )
        y = model.layers[0](x[None])[0]
        if num_layers == 2:
            torch.testing.assert_close(maps[1][sample], model.layers[1](y[None], need_weights=True)[1][0])
            y = y + model.layers[1](y[None])[0]
        for lookup in range(3):
            rows = slice(7 * lookup, 7 * lookup + 7)  # the readouts stand one below the other
            by_hand = y @ model.readout.weight[rows].T + model.readout.bias[rows]
            torch.testing.assert_close(scores[sample, lookup], by_hand, rtol=0, atol=1e-5)


def test_the_causal_scores_by_hand_one_prefix_at_a_time():
    model = CausalModel(7, 5, 8, 4, num_kv_heads=2, num_layers=3, seed=4)
    tokens = torch.tensor([[0, 6, 3, 3, 1], [2, 2, 5, 0, 4]])
    scores, maps = model(tokens, need_weights=True)
    torch.testing.assert_close(scores, model(tokens), rtol=0, atol=1e-5)
    assert scores.shape == (2, 5, 7) and [weights.shape for weights in maps] == [(2, 4, 5, 5)] * 3
    assert not any(weights.triu(1).any() for weights in maps)
    for length in range(1, 6):  # the last position of a prefix sees all of it: no mask is needed
        x = model.token_embedding(tokens[:, :length]) + model.position_embedding.weight[:length]
        for layer in model.layers:
            rows = [x[:, : t + 1] for t in range(length)]
            x = x + torch.cat([layer(row[:, -1:], row) for row in rows], 1)
        torch.testing.assert_close(scores[:, length - 1], model.readout(x[:, -1]), rtol=0, atol=1e-5)


def test_a_seed_alone_decides_and_leaves_the_random_state_also_after_an_error():
    for build in (partial(LookupModel, 7, 5, 3, 8, 2), partial(CausalModel, 7, 5, 8, 2)):
        before = torch.get_rng_state()
        first = build(seed=1).state_dict()
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(99)
        again, other = (build(seed=seed).state_dict() for seed in (1, 2))
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert not any(torch.equal(first[name], other[name]) for name in first)
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(5):
        drawn = torch.rand(3)
        raise ZeroDivisionError
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(5)))


def test_sizes_and_tokens_that_do_not_fit_are_refused(as_shipped):
    sizes = {"vocab": 7, "tokens": 5, "d_model": 8, "num_heads": 2}
    wrong = {
        "d_model=8 is not divisible by num_heads=3": {"num_heads": 3},
        "num_layers must be a positive integer, got 0": {"num_layers": 0},
        "seed must be a whole number of 0 or more, got -1": {"seed": -1},
        "0 or more, got True": {"seed": True},
        "num_heads=2 is not divisible by num_kv_heads=3": {"num_kv_heads": 3},
    }
    ids = torch.zeros(1, 6, dtype=torch.int64)
    tokens = {
        "TypeError: tokens must be ids (torch.int64), got torch.float32": ids / 1,
        "(B, T) with T from 1 to 5, got (6,)": ids[0],
        "(B, T) with T from 1 to 5, got (1, 6)": ids,
        "ids from 0 to 6, got 0 to 7": torch.tensor([[0, 7]]),
        "ids from 0 to 6, got -1 to 0": torch.tensor([[0, -1]]),
        "TypeError: tokens must be a tensor, got list": [[0, 1]],
    }
    failures = accepted({"lookups must be a positive integer": partial(LookupModel, **sizes, lookups=0)})
    for make in (partial(LookupModel, lookups=2), CausalModel):
        failures += accepted({words: partial(make, **(sizes | options)) for words, options in wrong.items()})
        failures += accepted({words: partial(make(**sizes), given) for words, given in tokens.items()})
    assert failures == []

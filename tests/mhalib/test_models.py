"""The models of the experiments: their sizes against the formula, their numbers against a loop by hand."""

from functools import partial

import pytest
import torch

from mhalib.experiments import CausalModel, Lookup, LookupModel, count_parameters


def test_parameters_do_not_depend_on_the_number_of_heads():
    counts = {count_parameters(LookupModel(16, 12, 2, 32, num_heads)) for num_heads in (1, 2, 4, 8, 16, 32)}
    # tokens and positions, four projections, two readouts with their biases
    assert counts == {(16 + 12) * 32 + 4 * 32**2 + 2 * 16 * (32 + 1)} == {6048}


def test_wide_heads_cost_num_heads_times_as_much_attention():
    narrow, wide = LookupModel(16, 12, 2, 32, 4), LookupModel(16, 12, 2, 32, 4, head_dim=32)
    assert count_parameters(wide.layers) == 4 * count_parameters(narrow.layers) == 4 * 4 * 32**2


def test_shared_heads_of_keys_and_values_save_their_rows():
    full, shared = LookupModel(16, 12, 2, 32, 8), LookupModel(16, 12, 2, 32, 8, num_kv_heads=2)
    assert count_parameters(full) - count_parameters(shared) == 2 * (32 - 2 * 4) * 32
    full, shared = CausalModel(16, 12, 32, 8), CausalModel(16, 12, 32, 8, num_kv_heads=1)
    assert count_parameters(full) - count_parameters(shared) == 2 * 2 * (32 - 1 * 4) * 32


def test_count_parameters_leaves_out_what_is_frozen_and_what_is_shared():
    a, b = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)
    b.weight = a.weight
    b.bias.requires_grad_(False)
    assert count_parameters(torch.nn.ModuleList([a, b])) == 12 + 4


@pytest.mark.parametrize("num_layers", [1, 2])
def test_the_scores_by_hand(num_layers):
    model = LookupModel(7, 5, 3, 8, 2, num_layers=num_layers, seed=4)
    tokens, _ = Lookup.offsets(4, (1,), vocab=7).batch(2, torch.Generator().manual_seed(0))
    scores = model(tokens)
    assert scores.shape == (2, 3, 4, 7)
    for sample in range(2):
        x = torch.stack(
            [model.token_embedding.weight[t] + model.position_embedding.weight[i] for i, t in enumerate(tokens[sample])]
        )
        y = model.layers[0](x[None])[0]
        if num_layers == 2:
            y = y + model.layers[1](y[None])[0]
        for lookup in range(3):
            rows = slice(7 * lookup, 7 * lookup + 7)  # the readouts stand one below the other
            by_hand = y @ model.readout.weight[rows].T + model.readout.bias[rows]
            torch.testing.assert_close(scores[sample, lookup], by_hand, rtol=0, atol=1e-5)


def test_the_causal_scores_by_hand_one_prefix_at_a_time():
    model = CausalModel(7, 5, 8, 4, num_kv_heads=2, num_layers=3, seed=4)
    tokens = torch.tensor([[0, 6, 3, 3, 1], [2, 2, 5, 0, 4]])
    scores = model(tokens)
    assert scores.shape == (2, 5, 7)
    for length in range(1, 6):  # the last position of a prefix sees all of it: no mask is needed
        x = model.token_embedding(tokens[:, :length]) + model.position_embedding.weight[:length]
        for depth, layer in enumerate(model.layers):
            rows = [x[:, : t + 1] for t in range(length)]
            x = x + torch.cat([layer(row[:, -1:], row) for row in rows], 1)
            assert x.shape == (2, length, 8), depth
        torch.testing.assert_close(scores[:, length - 1], model.readout(x[:, -1]), rtol=0, atol=1e-5)


def test_no_position_of_a_causal_model_sees_a_later_one():
    model = CausalModel(7, 5, 8, 2)
    tokens = torch.tensor([[0, 6, 3, 3, 1]])
    for change in range(5):
        other = tokens.clone()
        other[0, change] = (tokens[0, change] + 1) % 7
        moved = (model(tokens) - model(other)).abs().amax(-1)[0] > 1e-6
        assert not moved[:change].any() and moved[change:].all()


def test_causal_maps_come_layer_by_layer_with_the_same_scores():
    model = CausalModel(7, 5, 8, 4, num_kv_heads=1)
    tokens = torch.tensor([[0, 6, 3], [1, 1, 2]])
    scores, maps = model(tokens, need_weights=True)
    torch.testing.assert_close(scores, model(tokens), rtol=0, atol=1e-5)
    assert [weights.shape for weights in maps] == [(2, 4, 3, 3)] * 2
    assert not maps[0].triu(1).any() and not maps[1].triu(1).any()
    torch.testing.assert_close(maps[1].sum(-1), torch.ones(2, 4, 3))


def test_the_weights_come_layer_by_layer_with_the_same_scores():
    model = LookupModel(7, 5, 3, 8, 2, num_layers=2)
    tokens = torch.tensor([[0, 6, 3, 3, 1]])
    scores, maps = model(tokens, need_weights=True)
    torch.testing.assert_close(scores, model(tokens), rtol=0, atol=1e-5)
    assert [weights.shape for weights in maps] == [(1, 2, 5, 5)] * 2
    torch.testing.assert_close(maps[1].sum(-1), torch.ones(1, 2, 5))


@pytest.mark.parametrize("build", [partial(LookupModel, 7, 5, 3, 8, 2), partial(CausalModel, 7, 5, 8, 2)])
def test_the_seed_alone_decides_the_initial_weights(build):
    before = torch.get_rng_state()
    first = build(seed=1).state_dict()
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    again, other = (build(seed=seed).state_dict() for seed in (1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


BAD_MODELS = {
    "d_model=8 is not divisible by num_heads=3": {"num_heads": 3},
    "num_layers must be a positive integer, got 0": {"num_layers": 0},
    "lookups must be a positive integer, got 0": {"lookups": 0},
    "seed must be a whole number of 0 or more, got -1": {"seed": -1},
    "num_heads=2 is not divisible by num_kv_heads=3": {"num_kv_heads": 3},
}


@pytest.mark.parametrize("message", BAD_MODELS)
def test_sizes_that_are_refused(message):
    with pytest.raises(ValueError, match=message):
        LookupModel(**({"vocab": 7, "tokens": 5, "lookups": 2, "d_model": 8, "num_heads": 2} | BAD_MODELS[message]))
    if "lookups" not in BAD_MODELS[message]:
        with pytest.raises(ValueError, match=message):
            CausalModel(**({"vocab": 7, "tokens": 5, "d_model": 8, "num_heads": 2} | BAD_MODELS[message]))


BAD_TOKENS = {
    r"tokens must be ids \(torch.int64\), got torch.float32": torch.zeros(1, 3),
    r"tokens must be \(B, T\) with T from 1 to 5, got \(3,\)": torch.zeros(3, dtype=torch.int64),
    r"tokens must be \(B, T\) with T from 1 to 5, got \(1, 6\)": torch.zeros(1, 6, dtype=torch.int64),
    "tokens must be ids from 0 to 6, got 0 to 7": torch.tensor([[0, 7]]),
    "tokens must be ids from 0 to 6, got -1 to 0": torch.tensor([[0, -1]]),
    "tokens must be a tensor, got list": [[0, 1]],
}


@pytest.mark.parametrize("model", [LookupModel(7, 5, 2, 8, 2), CausalModel(7, 5, 8, 2)], ids=["lookup", "causal"])
@pytest.mark.parametrize("message", BAD_TOKENS)
def test_tokens_that_are_refused(message, model, as_shipped):
    with pytest.raises((TypeError, ValueError), match=message):
        model(BAD_TOKENS[message])

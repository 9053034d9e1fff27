"""What layers mix together, on maps whose product can be done by hand."""

import math

import pytest
import torch

from mhalib.heads import rollout

# Three tokens. Below, the second takes all from the first; above, the third takes all from the second.
BELOW = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]])
ABOVE = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 1, 0]])


def test_one_layer_is_half_of_its_map_and_half_of_what_came_in():
    torch.testing.assert_close(rollout([BELOW[None]]), (BELOW + torch.eye(3)) / 2)


def test_two_layers_reach_what_the_last_one_does_not_look_at():
    found = rollout([BELOW[None], ABOVE[None]])
    assert ABOVE[2, 0] == 0
    torch.testing.assert_close(found[2], torch.tensor([0.25, 0.25, 0.5]))
    torch.testing.assert_close(found.sum(-1), torch.ones(3))


def test_the_heads_of_a_layer_count_alike_and_their_number_may_change():
    pair = torch.stack([BELOW, ABOVE])
    torch.testing.assert_close(rollout([pair]), rollout([pair.mean(0, keepdim=True)]))
    assert rollout([pair, BELOW[None]]).shape == (3, 3)


def test_leading_axes_stay_and_precision_is_at_least_single():
    batch = torch.stack([BELOW, ABOVE])[:, None]  # (B, num_heads, T, T)
    found = rollout([batch, batch])
    torch.testing.assert_close(found[1], rollout([ABOVE[None], ABOVE[None]]))
    assert rollout([batch.half()]).dtype == torch.float32 and rollout([batch.double()]).dtype == torch.float64


def test_layers_may_come_one_by_one():
    torch.testing.assert_close(rollout(layer[None] for layer in (BELOW, ABOVE)), rollout([BELOW[None], ABOVE[None]]))


def test_a_query_without_a_key_hands_on_what_came_in():
    closed = ABOVE.clone()
    closed[2] = 0
    torch.testing.assert_close(rollout([closed[None]])[2], torch.tensor([0.0, 0, 1]))


def test_nan_stays_where_it_weighs_something():
    broken = BELOW.clone()
    broken[1] = math.nan
    found = rollout([broken[None], ABOVE[None]])
    assert found.isnan().all(-1).tolist() == [False, True, True]
    assert not found[0].isnan().any()


def test_the_weights_stay_as_they_are_and_no_gradient_is_asked_for():
    weights = BELOW[None].clone().requires_grad_()
    assert not rollout([weights]).requires_grad
    assert torch.equal(weights, BELOW[None])


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ([], ValueError, "one layer or more, got none"),
        ([torch.ones(1, 3, 3, dtype=torch.int64)], TypeError, "layer 0: attention weights are floating"),
        ([BELOW], ValueError, r"\(\.\.\., num_heads, T, T\) of tokens on themselves, got \(3, 3\) for layer 0"),
        ([torch.ones(1, 2, 3) / 3], ValueError, r"got \(1, 2, 3\) for layer 0; give self-attention"),
        ([BELOW[None], -ABOVE[None]], ValueError, "layer 1 has negative numbers; apply softmax first"),
        ([BELOW[None], torch.eye(4)[None]], ValueError, r"got \(3, 3\) and \(4, 4\) without heads"),
    ],
)
def test_what_no_rollout_can_be_made_of_is_refused(layers, error, message):
    with pytest.raises(error, match=message):
        rollout(iter(layers))

"""Reading heads from outside: against what is inside, and what is refused."""

from functools import partial

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention, causal_mask
from mhalib.sealed import count_heads, read_heads, walk_of
from tests.helpers.refusals import accepted

pytestmark = pytest.mark.usefixtures("one_thread")
WIDTH = 32


def layer_of(num_heads, size=1.0, **options):
    layer = MultiHeadAttention(WIDTH, num_heads, **options).double().requires_grad_(False)
    for part in layer.parameters():
        part *= size
    return layer


def box_of(num_heads, causal=False, around=0, quiet=1, **options):
    """Return a box, perhaps with a connection around it or a quiet head, and a function that gives its true maps."""
    layer = layer_of(num_heads, **options)
    layer.W_o.weight[:, : layer.head_dim] *= quiet

    def masked(x, need_weights=False):
        return layer(x, mask=causal_mask(x.shape[1]) if causal else None, need_weights=need_weights)

    return lambda x: around * x + masked(x), lambda x: masked(x, need_weights=True)[1]


def furthest(mine, true):
    """Return how far the worst head that was read is from the nearest true one; heads are axis 1."""
    mine, true = (x.transpose(0, 1).flatten(1) for x in (mine, true))  # -> (num_heads, the rest)
    return (mine[:, None] - true).abs().amax(-1).min(1).values.max().item()


BOXES = {
    "1 head": (1, {"bias": True}),
    "2 heads, weights times 20": (2, {"size": 20.0, "bias": True}),
    "4 heads, weights times 1/20": (4, {"size": 0.05, "bias": True}),
    "8 heads": (8, {}),
    "16 heads, weights times 20": (16, {"size": 20.0, "bias": True}),
    "grouped keys": (8, {"num_kv_heads": 2, "bias": True}),
    "wide heads": (4, {"head_dim": WIDTH, "bias": True}),
    "causal": (4, {"causal": True, "bias": True}),
    "one of them quiet": (4, {"quiet": 1e-5, "bias": True}),
    "with a connection around it": (4, {"around": 1, "bias": True}),
}


@pytest.mark.parametrize("name", BOXES)
def test_heads_are_counted_and_their_maps_read(name):
    num_heads, options = BOXES[name]
    f, maps = box_of(num_heads, **options)
    near = 1e-6 if "quiet" in options else 1e-8
    count, heads = count_heads(f, WIDTH), read_heads(f, WIDTH)
    assert int(count) == heads.num_heads == num_heads and repr(count).startswith(f"{num_heads} head")
    assert heads.causal == (name == "causal")
    x = torch.randn(3, 6, WIDTH, dtype=torch.float64)
    assert furthest(heads.maps(x), maps(x)) <= near
    there = f(x)
    assert (heads.rebuilt(x) - there).abs().max() <= 1e-8 * there.abs().max()


def blocks(layer):
    size = layer.head_dim
    q, k, v = (W.weight.unflatten(0, (-1, size)) for W in (layer.W_q, layer.W_k, layer.W_v))
    return q, k, v, layer.W_o.weight.unflatten(1, (-1, size)).transpose(0, 1), layer.W_q.bias.view(-1, size)


def test_what_is_read_are_the_products_of_the_weights():
    layer = layer_of(4, bias=True)
    q, k, v, o, q_bias = blocks(layer)
    heads = read_heads(layer, WIDTH)
    wanted = o @ v @ heads.d
    order = torch.cdist(heads.writes, wanted).argmin(1)
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    torch.testing.assert_close(heads.writes, wanted[order], rtol=0, atol=1e-12)
    torch.testing.assert_close(heads.values, (o @ v)[order], rtol=0, atol=1e-12)
    forms, offsets = heads.scores
    scale = layer.head_dim**-0.5
    torch.testing.assert_close(forms, (scale * q.mT @ k)[order], rtol=0, atol=1e-11)
    torch.testing.assert_close(offsets, (scale * q_bias[:, None] @ k)[order, 0], rtol=0, atol=1e-11)


def test_heads_that_are_cut_off_do_not_count_and_those_that_look_or_write_alike_are_counted_once_and_read_or_refused():
    same_scores = layer_of(4, bias=True)
    for numbers in (same_scores.W_q.weight, same_scores.W_q.bias, same_scores.W_k.weight):
        numbers[:8] = numbers[8:16]
    heads, (_, _, v, o, _) = read_heads(same_scores, WIDTH), blocks(same_scores)
    assert int(count_heads(same_scores, WIDTH)) == heads.num_heads == 3
    assert (heads.writes - (o @ v)[:2].sum(0) @ heads.d).norm(dim=1).min() < 1e-12
    assert int(count_heads(box_of(4, quiet=0)[0], WIDTH)) == 3
    for factor, words in (
        (-2, "4 different steps, but they span 3 directions only.*along one line"),
        (-1, r"comes back \d\d times.*write the same, up to a sign"),
    ):
        layer = layer_of(4, bias=True)
        layer.W_v.weight[:8] = layer.W_v.weight[8:16]
        layer.W_v.bias[:8] = layer.W_v.bias[8:16]
        layer.W_o.weight[:, :8] = factor * layer.W_o.weight[:, 8:16]
        assert int(count_heads(layer, WIDTH)) == 3
        with pytest.raises(ValueError, match=words):
            read_heads(layer, WIDTH)


def test_float32_goes_some_way():
    for num_heads, near in ((1, 1e-4), (8, 1e-3)):
        layer = MultiHeadAttention(64, num_heads, bias=True).requires_grad_(False)
        heads, x = read_heads(layer, 64, dtype=torch.float32), torch.randn(3, 6, 64)
        assert int(count_heads(layer, 64, dtype=torch.float32)) == heads.num_heads == num_heads
        assert furthest(heads.maps(x), layer(x, need_weights=True)[1].double()) <= near


def with_scores(change):
    """Return a box whose scores, (B, h, T, T), go through `change` on their way to weights."""
    layer = layer_of(4)

    def f(x):
        q, k, v = (W(x).unflatten(-1, (4, -1)).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v))
        return layer.W_o((change(q @ k.mT / 8**0.5) @ v).transpose(1, 2).flatten(2))

    return f


def window(scores):
    near = torch.ones(scores.shape[-2:], dtype=torch.bool).tril().triu(-1)
    return scores.masked_fill(~near, -torch.inf).softmax(-1)


def with_a_sink(scores):
    return torch.cat([scores, torch.zeros_like(scores[..., :1])], -1).softmax(-1)[..., :-1]


def test_a_box_that_cannot_be_read_is_refused_with_what_to_do():
    layer, failures = layer_of(4, bias=True), []
    positions = torch.randn(8, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    norm, dropout = nn.LayerNorm(WIDTH).double().requires_grad_(False), nn.Dropout(0.1)
    refused = [
        ("two answers", lambda x: dropout(layer(x))),
        ("batch_first=True", lambda x: layer(x.transpose(0, 1)).transpose(0, 1)),
        ("not affine", lambda x: layer(x).tanh()),
        ("not affine", lambda x: x + layer(norm(x))),
        ("not affine", lambda x: norm(x + layer(x))),
        ("not affine", with_scores(with_a_sink)),
        ("not affine", with_scores(lambda scores: scores)),
        ("where a token is", lambda x: layer(x + positions[: x.shape[1]])),
        ("where a token is", with_scores(window)),
        ("no attention", lambda x: layer.W_o(x)),
        ("NaN or infinity", lambda x: layer(x) * torch.nan),
        ("(3, 1, 32), got (3, 32)", lambda x: layer(x)[:, 0]),
        ("32 heads or more", layer_of(WIDTH, bias=True)),
        (".double(), or dtype=torch.float32", MultiHeadAttention(WIDTH, 4)),
    ]
    for words, f in refused:
        for experiment in (count_heads, read_heads, walk_of):
            failures += accepted({words: partial(experiment, f, WIDTH)})
    fading = layer_of(WIDTH)
    fading.W_o.weight *= 0.4 ** torch.arange(WIDTH)
    failures += accepted(
        {
            "the singular values leave it open whether there are": partial(count_heads, fading, WIDTH),
            "TypeError: f must return a tensor": partial(count_heads, lambda x: layer(x, need_weights=True), WIDTH),
            "returned torch.float32; say dtype=": partial(count_heads, lambda x: layer(x).float(), WIDTH),
            "d_model must be a positive integer": partial(count_heads, layer, 0),
            "dtype must be": partial(count_heads, layer, WIDTH, dtype=torch.float16),
        }
    )
    assert failures == []


def top_two(scores):
    """Return weights on the two best keys: on two tokens an ordinary softmax."""
    kept = scores >= scores.topk(min(2, scores.shape[-1])).values[..., -1:]
    return scores.masked_fill(~kept, -torch.inf).softmax(-1)


def test_what_shows_only_where_scores_grow_or_three_tokens_meet_is_found_then():
    f = with_scores(lambda scores: scores.tanh().softmax(-1))
    assert int(count_heads(f, WIDTH)) == 4
    with pytest.raises(ValueError, match="none switches.*cap of the scores"):
        read_heads(f, WIDTH)
    heads = read_heads(with_scores(top_two), WIDTH)
    with pytest.raises(ValueError, match="more than heads that look and write"):
        heads.maps(torch.randn(1, 4, WIDTH, dtype=torch.float64))


@pytest.mark.parametrize("num_heads", [1, 4, 8])
def test_on_a_walk_each_head_switches_once_and_well_apart(num_heads):
    layer = layer_of(num_heads, bias=True)
    walk, again, other = (walk_of(layer, WIDTH, seed=seed) for seed in (1, 1, 2))
    assert walk.start.equal(again.start) and not walk.start.equal(other.start)
    t = torch.linspace(-walk.reach, walk.reach, 801)
    c = walk.at(t)
    looks = layer(torch.stack([c, c + walk.probe], 1), need_weights=True)[1][:, :, 0, 1]  # (points, num_heads)
    switched = (looks > 0.5).diff(dim=0)
    places = t[1:][switched.any(1)]
    assert switched.sum(0).tolist() == [1] * num_heads == [1] * len(places)
    assert places.abs().max() < 0.95 * walk.reach and (num_heads == 1 or places.diff().min() > 0.2)
    for place in [-walk.reach, *((places[1:] + places[:-1]) / 2), walk.reach]:
        near = looks[(t - place).abs().argmin()]
        assert torch.minimum(near, 1 - near).max() < 1e-3

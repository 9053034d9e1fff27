"""The cases in which a mended layer is compared with the healthy one. Each is a function of a layer and its d_model."""

import torch


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normally distributed numbers, the same on each call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def padding(lens: tuple[int, ...], queries: int, keys: int) -> torch.Tensor:
    """Return a mask `(B, queries, keys)`, True where a key lies within the length of its sample."""
    within = torch.arange(keys) < torch.tensor(lens)[:, None]
    return within[:, None].expand(-1, queries, -1).clone()


def _without_mask(layer, d_model):
    return layer(drawn(2, 5, d_model))


def _one_sample(layer, d_model):
    return layer(drawn(1, 7, d_model))


def _one_mask(layer, d_model):
    return layer(drawn(2, 5, d_model), torch.ones(5, 5, dtype=torch.bool).tril())


def _padded(layer, d_model):
    return layer(drawn(3, 5, d_model), padding((5, 2, 3), 5, 5))


def _in_eval(layer, d_model):
    layer.train()(drawn(2, 5, d_model))  # a layer that reads the mode only once reads it here
    layer.eval()
    return layer(drawn(2, 5, d_model)), layer(drawn(2, 5, d_model))


def _in_eval_padded(layer, d_model):
    return _padded(layer.eval(), d_model)


def _drops_in_training(layer, d_model):
    """Return whether two calls in training mode differ, at first and again after a call in eval mode."""
    found = []
    for _ in range(2):
        layer.train()
        found.append(not torch.equal(layer(drawn(2, 5, d_model)), layer(drawn(2, 5, d_model))))
        layer.eval()(drawn(2, 5, d_model))
    return tuple(found)


def _drops_in_training_padded(layer, d_model):
    layer.train()
    return not torch.equal(_padded(layer, d_model), _padded(layer, d_model))


def _drops_weights(layer, d_model, T=6):
    """Test how a layer drops weights when all weights are 1 / T and all values are 1.

    Return three answers: whether it drops whole weights rather than single features; whether some weights are left, but
    no more than there were; and whether it divides each remaining one by 1 - 0.2.
    """
    layer.train()
    with torch.no_grad():
        layer.weight_in.zero_()
        layer.weight_in[2 * d_model :] = 1 / d_model
        layer.weight_out.copy_(torch.eye(d_model))
    heads = layer(torch.ones(4, T, d_model)).unflatten(-1, (layer.num_heads, -1))
    kept = T * (1 - 0.2) * heads  # how many of its T keys a query is left with
    whole = torch.allclose(kept, kept[..., :1].expand_as(kept), atol=1e-4)
    return whole, 0 < kept.max().item() < T + 0.5, torch.allclose(kept, kept.round(), atol=1e-4)


def _mask_afterwards(layer, d_model):
    mask = padding((5, 2, 3), 5, 5)
    layer(drawn(3, 5, d_model), mask)
    return mask


def _across(layer, d_model):
    return layer(drawn(2, 4, d_model), drawn(2, 6, d_model, seed=1))


def _across_padded(layer, d_model):
    mask = padding((6, 3), 4, 6)
    mask[0, 0, 2] = False  # one query sees less than the others
    return layer(drawn(2, 4, d_model), drawn(2, 6, d_model, seed=1), mask)


def _itself_padded(layer, d_model):
    return layer(drawn(3, 5, d_model), None, padding((5, 2, 3), 5, 5))


def in_pieces(layer, x: torch.Tensor, *lengths: int) -> torch.Tensor:
    """Return the outputs of a layer with a cache for tokens that are passed in pieces of these lengths."""
    outs, cache = [], None
    for piece in x.split(lengths, dim=1):
        out, cache = layer(piece, cache)
        outs.append(out)
    return torch.cat(outs, 1)


def _whole(layer, d_model):
    return layer(drawn(2, 6, d_model))[0]


def _token_by_token(layer, d_model):
    return in_pieces(layer, drawn(2, 6, d_model), 1, 1, 1, 1, 1, 1)


def _start_then_pieces(layer, d_model):
    return in_pieces(layer, drawn(2, 9, d_model), 4, 1, 3, 1)


TOKENS_ONLY = {"two samples": _without_mask, "one sample": _one_sample}
MASKED = {"without a mask": _without_mask, "one mask for all": _one_mask, "padding, a mask for each sample": _padded}
DROPPED = {
    "two calls in eval mode": _in_eval,
    "padding, in eval mode": _in_eval_padded,
    "two calls differ in training": _drops_in_training,
    "two calls differ in training, padded": _drops_in_training_padded,
    "in training it drops whole weights, one in five": _drops_weights,
}
KEPT = {**MASKED, "the caller's mask afterwards": _mask_afterwards}
ACROSS = {
    "self-attention": _without_mask,
    "self-attention, padded": _itself_padded,
    "cross-attention": _across,
    "cross-attention, padded": _across_padded,
}
CACHED = {"all at once": _whole, "token by token": _token_by_token, "a start, then pieces": _start_then_pieces}

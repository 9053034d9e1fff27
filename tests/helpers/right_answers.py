"""Right answers that differ in kind from the solutions: other types, other ways to look, one element at a time."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import mhalib


def loop_attend(q, k, v):
    out = torch.zeros(*q.shape[:-1], v.shape[-1])
    for b in range(len(q)):
        for h in range(q.shape[1]):
            for t in range(q.shape[2]):
                shares = torch.stack([q[b, h, t] @ key for key in k[b, h]]).div(q.shape[-1] ** 0.5).softmax(0)
                out[b, h, t] = sum(share * value for share, value in zip(shares, v[b, h], strict=True))
    return out


def change_one_token(merge):
    heads = torch.randn(2, 3, 4, 5)
    changed = heads.clone()
    changed[:, :, 2] += 1
    return (merge(changed) != merge(heads)).any(-1)[0].tolist() == [False, False, True, False]


def permute_one_sample(merge):
    heads, order = torch.randn(1, 3, 6, 5), [2, 4, 5, 0, 3, 1]
    return torch.equal(merge(heads[:, :, order]), merge(heads)[:, order])


def count_pairs(f, T, d_model):
    x, pairs = torch.randn(1, T, d_model), 0
    for s in range(T):
        changed = x.clone()
        changed[0, s] = torch.randn(d_model)
        pairs += sum(bool((f(changed)[0, t] - f(x)[0, t]).abs().max() > 1e-6) for t in range(s))
    return pairs


def sees_one_token_moved(f, d_model):
    x = torch.randn(3, 8, d_model)
    y = x.clone()
    y[:, -1] = torch.randn(3, d_model)
    return torch.tensor(not torch.allclose(f(x)[:, :-1], f(y)[:, :-1], atol=1e-5))


def head_by_head(q, k, v, h):
    pieces = zip(*(x.chunk(h, -1) for x in (q, k, v)), strict=True)
    return torch.cat([F.scaled_dot_product_attention(*piece) for piece in pieces], -1)


def masked_keys(q, k, v, num_heads):
    size, out = q.shape[-1] // num_heads, torch.zeros_like(v)
    for i in range(num_heads):
        others = torch.ones(q.shape[-1], dtype=torch.bool)
        others[i * size : (i + 1) * size] = False
        scores = q @ k.masked_fill(others, 0).transpose(1, 2) / size**0.5
        out[..., ~others] = (torch.softmax(scores, 2) @ v)[..., ~others]
    return out


def value_path_row_by_row(f, n):
    nothing = f(torch.zeros(1, 1, n))[0, 0]
    return [torch.stack([f(e[None, None])[0, 0] - nothing for e in torch.eye(n)], 1), nothing]


RIGHT = {
    "first_shapes": [[[2, 4, 12, 16], [2, 4, 12, 12]], (torch.Size([2, 4, 12, 16]), torch.zeros(2, 4, 12, 12).shape)],
    "attention_maps": ["DB", ["B", "D"], {"b", "d"}, "B, D", "B and D", "(B; D)", "B/D", "b & d"],
    "most_looked_at": [lambda w: torch.where(torch.eye(w.shape[-1]) == 1, -torch.inf, w).max(-1).indices.int()],
    "key_rows": [[1216, 1280], torch.tensor([1216, 1280]), (torch.tensor(1216), 1280)],
    "fused_kv": [lambda m, k, v: torch.stack([F.linear(m, k), F.linear(m, v)]).unbind(0)],
    "spread": [16, math.sqrt(256), torch.tensor(16.0), torch.tensor(256).sqrt().numpy()],
    "attend": [
        loop_attend,
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v).mT.contiguous().mT,  # not contiguous
        lambda q, k, v: F.scaled_dot_product_attention(nn.Parameter(q), k, v),
    ],
    "head_one": [torch.tensor([[2, 3], [12, 13], [22, 23]]), [[2.0, 3], [12, 13], [22, 23]]],
    "split_heads": [
        lambda x, h: torch.from_numpy(x.numpy().reshape(*x.shape[:2], h, -1).swapaxes(1, 2)),
        lambda x, num_heads=1: mhalib.split_heads(x.double(), num_heads),
    ],
    "causal_maps": ["ca", ("A", "C")],
    "leaky_loss": [1.3863, 1.386, 1.39, 1.38, torch.tensor(16.0).log() / 2],
    "keeps_tokens_apart": [permute_one_sample, lambda merge: torch.tensor(change_one_token(merge))],
    "future_pairs": [count_pairs, lambda f, T, d: torch.tensor(count_pairs(f, T, d))],
    "tests_that_see": ["dc", ["C", "D"]],
    "no_test_sees": ["ace", "A, C, E"],
    "sees_the_future": [sees_one_token_moved],
    "repaired": [lambda layer, x, mask: layer.double()(x.double(), mask=mask)],
    "masked_heads": [head_by_head, masked_keys],
    "value_path": [value_path_row_by_row],
}

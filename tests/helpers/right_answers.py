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


def count_pairs(f, T, d_model):
    x, pairs = torch.randn(1, T, d_model), 0
    for s in range(T):
        changed = x.clone()
        changed[0, s] = torch.randn(d_model)
        pairs += sum(bool((f(changed)[0, t] - f(x)[0, t]).abs().max() > 1e-6) for t in range(s))
    return pairs


def cut_short(f, d_model):
    x = torch.randn(2, 9, d_model)
    whole = f(x)
    return any(not torch.allclose(f(x[:, :n]), whole[:, :n], atol=1e-4) for n in range(1, 9))


def head_by_head(q, k, v, h):
    pieces = zip(*(x.chunk(h, -1) for x in (q, k, v)), strict=True)
    return torch.cat([F.scaled_dot_product_attention(*piece) for piece in pieces], -1)


def value_path_row_by_row(f, n):
    nothing = f(torch.zeros(1, 1, n))[0, 0]
    return [torch.stack([f(e[None, None])[0, 0] - nothing for e in torch.eye(n)], 1), nothing]


def mask_from_distances(T, window, sinks):
    rows = [[key <= query and (query - key < window or key < sinks) for key in range(T)] for query in range(T)]
    return torch.tensor(rows)


def latents_asked_once(q, c, U_k, U_v):
    up_k, up_v = (U.view(q.shape[1], -1, c.shape[-1]) for U in (U_k, U_v))
    scores = torch.einsum("bhtd,hdr,bsr->bhts", q, up_k, c) / q.shape[-1] ** 0.5
    return torch.einsum("bhts,bsr,hdr->bhtd", scores.softmax(-1), c, up_v)


def in_groups(q, k, v, past_k, past_v):
    k, v = torch.cat([past_k, k], 2)[:, :, None], torch.cat([past_v, v], 2)[:, :, None]
    grouped = q.unflatten(1, (k.shape[1], -1))  # -> (B, num_kv_heads, group, n, head_dim)
    mask = torch.full((q.shape[2], k.shape[3]), -torch.inf).triu(k.shape[3] - q.shape[2] + 1)
    return ((grouped @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1) @ v).flatten(1, 2)


def two_softmaxes_weighed(q, k, v, past_k, past_v):
    group = q.shape[1] // k.shape[1]
    k, v, past_k, past_v = (x.repeat_interleave(group, 1) for x in (k, v, past_k, past_v))
    old, new = (q @ x.mT / q.shape[-1] ** 0.5 for x in (past_k, k))
    old, new = old.exp(), new.exp().tril()
    return (old @ past_v + new @ v) / (old.sum(-1, keepdim=True) + new.sum(-1, keepdim=True))


def turned_as_complex(x, positions):
    a, b = x.chunk(2, -1)
    speeds = 10000.0 ** (-torch.arange(a.shape[-1]) / a.shape[-1])
    turned = torch.complex(a, b) * torch.exp(1j * positions[:, None, :, None] * speeds)
    return torch.cat([turned.real, turned.imag], -1)


def value_path_as_a_slope(f, n):
    nothing = torch.zeros(1, 1, n)
    return torch.autograd.functional.jacobian(f, nothing).view(n, n), f(nothing).flatten()


def between_levels(level):
    """Return the way by the plateaus: what stands on each, and the differences of these."""

    def steps(moved):
        ends = (moved.diff(dim=0).norm(dim=1) > 0.05).nonzero()[:, 0] + 1
        return torch.stack([level(part) for part in moved.tensor_split(ends.tolist())]).diff(dim=0)

    return steps


def labels_by_counts(shares):
    known = ~shares.isnan()  # (texts, kinds, heads)
    means = torch.where(known, shares, 0).sum(0) / known.sum(0)
    return torch.where((means < 0.4).all(0), -1, means.argmax(0))


def all_places_at_once(f, tokens, other):
    scores = f(torch.cat([tokens[None], torch.where(torch.eye(len(tokens)) == 1, other, tokens)]))
    return scores[0].max() - scores[1:, scores[0].argmax()]


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
    "keeps_tokens_apart": [lambda merge: torch.tensor(change_one_token(merge))],
    "future_pairs": [count_pairs, lambda f, T, d: torch.tensor(count_pairs(f, T, d))],
    "sees_the_future": [cut_short],
    "tests_that_see": ["dc", ["C", "D"]],
    "no_test_sees": ["ace", "A, C, E"],
    "repaired": [lambda layer, x, mask: layer.double()(x.double(), mask=mask)],
    "masked_heads": [head_by_head],
    "value_path": [value_path_row_by_row, value_path_as_a_slope],
    "quiet_softmax": [lambda s: s.softmax(-1) * s.logsumexp(-1, keepdim=True).sigmoid()],
    "mean_share": [lambda w, m: w.masked_fill(~m[:, None], torch.nan).nanmean((0, 2)).nan_to_num()],
    "walk_steps": [between_levels(lambda part: part.mean(0)), between_levels(lambda part: part[0])],
    "deserved_labels": [labels_by_counts],
    "occlusion": [all_places_at_once],
    "rollout_by_hand": [lambda maps: mhalib.heads.rollout(maps)],
    "copying": [lambda W_v, W_o, E, U: (ov := U @ W_o @ W_v @ E.T).diagonal() == ov.amax(0)],
    "switch_heads": [lambda x, g: x * torch.kron(g, torch.ones(x.shape[-1] // len(g)))],
    "mean_head": [
        lambda x, i: x.index_copy(1, torch.tensor([i]), x[:, [i]].mean((0, 2), keepdim=True).expand_as(x[:, [i]])),
    ],
    "gate_slopes": [lambda x, g: torch.einsum("bhtd,bhtd->bh", x, g).abs().mean(0)],
    "cache_size": [[201326592.0, 50331648.0], torch.tensor([192, 48]) * 1024**2],
    "window_with_sinks": [mask_from_distances],
    "latent_heads": [latents_asked_once],
    "cached_step": [in_groups, two_softmaxes_weighed],
    "packed_positions": [
        lambda text: torch.tensor([[row[:i].count(name) for i, name in enumerate(row)] for row in text.tolist()]),
        lambda text: (text[:, :, None] == text[:, None]).cumsum(1).diagonal(0, 1, 2) - 1,
    ],
    "last_real": [lambda hidden, real: torch.stack([h[r][-1] for h, r in zip(hidden, real, strict=True)])],
    "prefix_mask": [lambda prefix, T: torch.arange(T) <= torch.arange(T)[:, None].maximum(prefix[:, None, None] - 1)],
    "rounding_or_bug": ["bdf", ["F", "B", "D"], {"B", "D", "F"}],
    "rows_to_neighbours": [lambda w, h: w[torch.arange(len(w)).view(h, 2, -1).mT.flatten()]],
    "turned_pairs": [turned_as_complex],
}

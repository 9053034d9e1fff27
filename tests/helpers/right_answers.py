"""Right answers to every exercise, written in other ways than its solution, with other types and other functions."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn
from torch.nn.attention.bias import causal_lower_right

import mhalib
from mhalib.experiments import rotate
from mhalib.heads import alignment_agreement, induction_score, previous_token_score


def loop_attend(q, k, v):
    out = torch.zeros(*q.shape[:-1], v.shape[-1])
    for b in range(len(q)):
        for h in range(q.shape[1]):
            for t in range(q.shape[2]):
                shares = torch.stack([q[b, h, t] @ key for key in k[b, h]]).div(q.shape[-1] ** 0.5).softmax(0)
                out[b, h, t] = sum(share * value for share, value in zip(shares, v[b, h], strict=True))
    return out


def fill_split(x, num_heads):
    heads = torch.zeros(x.shape[0], num_heads, x.shape[1], x.shape[2] // num_heads)
    for i, piece in enumerate(x.chunk(num_heads, -1)):
        heads[:, i] = piece
    return heads


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


def safe_softmax(scores, mask):
    allowed = scores.double().masked_fill(~mask[:, None], -torch.inf)
    powers = (allowed - allowed.amax(-1, keepdim=True).clamp(min=-1e30)).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def torch_one_sample_at_a_time(mha, x, mask):
    pairs = [mha(y, y, y, attn_mask=~m, average_attn_weights=False) for y, m in zip(x, mask, strict=True)]
    outputs, weights = zip(*pairs, strict=True)
    return torch.stack(outputs), torch.stack(weights)


def masked_after_and_shared_anew(layer, x, mask):
    q, k, v = (mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) * mask
    return layer.W_o(mhalib.merge_heads(weights / weights.sum(-1, keepdim=True) @ v))


def count_by_singular_values(f, d_model):
    c, d = torch.randn(2, 80, 1, d_model).double()
    moved = f(torch.cat([c, c + d[:1]], 1))[:, 1:] - f(c + d[:1])
    sizes = torch.linalg.svdvals(moved[:, 0])
    return len(sizes[sizes > sizes[0] * 1e-8])


def count_from_behind(f, d_model):
    c, d = np.random.default_rng(1).normal(size=(2, 120, 1, d_model))
    pairs = torch.from_numpy(np.concatenate([c - d[:1], c], axis=1))
    moved = f(pairs)[:, 1].numpy() - f(pairs[:, 1:]).numpy()[:, 0]
    return int(np.linalg.matrix_rank(moved, tol=1e-8 * np.linalg.norm(moved)))


def split_and_merge(q, k, v, h):
    return mhalib.merge_heads(F.scaled_dot_product_attention(*(mhalib.split_heads(x, h) for x in (q, k, v))))


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


def key_gradient_by_autograd(x, dS, W_q):
    W_k = torch.zeros_like(W_q, requires_grad=True)
    q, k = (mhalib.split_heads(x @ W, dS.shape[1]) for W in (W_q, W_k))
    (q @ k.mT / q.shape[-1] ** 0.5 * dS).sum().backward()
    return W_k.grad


def turned_as_complex(x, positions):
    """Take each pair as one complex number, as the code of Meta does with neighbours."""
    half = x.shape[-1] // 2
    angle = positions[:, None, :, None] * 10000.0 ** (-torch.arange(half) / half)
    turned = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


def one_query_at_a_time(q, k, v, past_k, past_v):
    group, rows = q.shape[1] // k.shape[1], []
    for i in range(q.shape[2]):  # the cache grows by one token, and no mask is needed
        past_k, past_v = torch.cat([past_k, k[:, :, i : i + 1]], 2), torch.cat([past_v, v[:, :, i : i + 1]], 2)
        weights = ((q[:, :, i].unflatten(1, (-1, group)) @ past_k.mT) / q.shape[-1] ** 0.5).softmax(-1)
        rows.append((weights @ past_v).flatten(1, 2))
    return torch.stack(rows, 2)


def with_a_mask_at_the_lower_right(q, k, v, past_k, past_v):
    mask = causal_lower_right(q.shape[2], past_k.shape[2] + k.shape[2])
    k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def loop_induction(maps, tokens):
    tokens, scores = tokens.tolist(), []
    for m in maps:
        found = [[k + 1 for k in range(q) if tokens[k] == token] for q, token in enumerate(tokens)]
        rows = [sum(m[q, k].item() for k in behind) for q, behind in enumerate(found) if behind]
        scores.append(sum(rows) / len(rows))
    return torch.tensor(scores)


def cut_in_pieces(q, k, v, o, keep):
    def kept(W, axis):
        return torch.cat([part for part, on in zip(W.chunk(len(keep), axis), keep, strict=True) if on], axis)

    return [kept(W, axis) for W, axis in ((q, 0), (k, 0), (v, 0), (o, 1))]


def value_path_row_by_row(f, n):
    nothing = f(torch.zeros(1, 1, n))[0, 0]
    return torch.stack([f(e[None, None])[0, 0] - nothing for e in torch.eye(n)], 1), nothing


RIGHT = {
    "first_shapes": [[[2, 4, 12, 16], [2, 4, 12, 12]], (torch.Size([2, 4, 12, 16]), torch.zeros(2, 4, 12, 12).shape)],
    "attention_maps": ["DB", ["B", "D"], {"b", "d"}, "B, D", "B and D", "(B; D)", "B/D", "b & d"],
    "most_looked_at": [
        lambda w: (w - torch.eye(w.shape[-1])).argmax(-1),
        lambda w: torch.where(torch.eye(w.shape[-1]) == 1, -torch.inf, w).max(-1).indices.int(),
    ],
    "looking_back": [
        lambda features, words: F.softmax(
            mhalib.split_heads(features(words, shift=1), 2)[0] @ mhalib.split_heads(features(words), 2)[0].mT / 32**0.5,
            dim=2,
        )
    ],
    "bert_shapes": [[(4, 128, 2304), [4, 128, 768], torch.Size([4, 12, 128, 64])]],
    "key_rows": [[1216, 1280], torch.tensor([1216, 1280]), (torch.tensor(1216), 1280)],
    "fused_kv": [
        lambda m, k, v: list(torch.einsum("btd,od->bto", m, torch.cat((k, v))).split(k.shape[0], -1)),
        lambda m, k, v: torch.stack([F.linear(m, k), F.linear(m, v)]).unbind(0),
    ],
    "third_rows": [
        lambda h, d: rearrange(torch.arange(3 * h * d), "(p h d) -> (h d p)", p=3, h=h),
        lambda h, d: torch.tensor([p * h * d + i * d + f for i in range(h) for f in range(d) for p in range(3)]),
    ],
    "spread": [16, math.sqrt(256), torch.tensor(16.0), torch.tensor(256).sqrt().numpy()],
    "attend": [
        loop_attend,
        lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double()),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v).mT.contiguous().mT,  # not contiguous
        lambda q, k, v: F.scaled_dot_product_attention(nn.Parameter(q), k, v),
    ],
    "stable_softmax": [
        lambda s: torch.softmax(s.double(), -1),
        lambda s: 1 / (s[..., None, :].double() - s[..., :, None].double()).exp().sum(-1),
    ],
    "cosine_attention": [
        lambda q, k, v, scale: F.scaled_dot_product_attention(
            F.normalize(q, dim=1), F.normalize(k, dim=1), v, scale=scale
        ),
        lambda q, k, v, scale: (F.cosine_similarity(q[:, None], k[None], dim=-1) * scale).softmax(1) @ v,
    ],
    "head_one": [
        torch.tensor([[2, 3], [12, 13], [22, 23]]),
        ((2, 3), (12, 13), (22, 23)),
        [[2.0, 3], [12, 13], [22, 23]],
    ],
    "split_heads": [
        fill_split,
        lambda x, h: x.view(*x.shape[:2], h, -1).transpose(1, 2),
        lambda x, h: torch.from_numpy(x.numpy().reshape(*x.shape[:2], h, -1).swapaxes(1, 2)),
        lambda x, num_heads=1: mhalib.split_heads(x.double(), num_heads),
        lambda x, h: F.unfold(x.mT[:, :, None], (1, 1)).unflatten(1, (h, -1)).mT,
    ],
    "merge_heads": [
        lambda x: x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1),
        lambda x: torch.einsum("bhtd,hk->btkd", x, torch.eye(x.shape[1])).flatten(2),
    ],
    "fold_heads": [
        lambda x, h: mhalib.split_heads(x, h).reshape(-1, x.shape[1], x.shape[2] // h),
        lambda x, h: torch.stack([piece for sample in x for piece in sample.chunk(h, -1)]),
    ],
    "causal_maps": ["ca", ("A", "C")],
    "window_mask": [
        lambda T, width: torch.tensor([[0 <= i - j < width for j in range(T)] for i in range(T)]),
        lambda T, width: torch.ones(T, T).tril().bool() & ~torch.ones(T, T).tril(-width).bool(),
    ],
    "torch_padding": [lambda lens, n: torch.tensor([[key >= length for key in range(n)] for length in lens.tolist()])],
    "mask_for_heads": [
        lambda m, h: torch.logical_not(repeat(m, "b q k -> (b h) q k", h=h)),
        lambda m, h: torch.stack([~sample for sample in m for _ in range(h)]),
    ],
    "masked_softmax": [
        safe_softmax,
        lambda s, m: torch.nan_to_num(torch.where(m.unsqueeze(1), s, -torch.inf).softmax(dim=3)),
    ],
    "leaky_loss": [1.3863, 1.386, 1.39, 1.38, torch.tensor(16.0).log() / 2],
    "keeps_tokens_apart": [
        change_one_token,
        permute_one_sample,  # one sample is enough: the task speaks of tokens
        lambda merge: torch.tensor(change_one_token(merge)),
    ],
    "by_heads": [
        lambda x, w: F.linear(mhalib.merge_heads(x), w),
        lambda x, w: (x.double() @ w.double().unflatten(1, (x.shape[1], -1)).permute(1, 2, 0)).sum(1),
    ],
    "future_pairs": [count_pairs, lambda f, T, d: torch.tensor(count_pairs(f, T, d))],
    "tests_that_see": ["CD", ["d", "c"]],
    "call_torch": [
        torch_one_sample_at_a_time,
        lambda a, x, m: a(
            *(x, x, x),
            attn_mask=torch.zeros(m.shape).masked_fill(~m, -torch.inf).repeat_interleave(a.num_heads, 0),
            average_attn_weights=False,
        ),
    ],
    "share_heads": [
        lambda k, h: k[:, :, None].expand(-1, -1, h // k.shape[1], -1, -1).flatten(1, 2),
        lambda k, h: torch.stack([k[:, i * k.shape[1] // h] for i in range(h)], 1),
    ],
    "count_heads": [count_by_singular_values, count_from_behind],
    "repaired": [masked_after_and_shared_anew, lambda layer, x, mask: layer.double()(x.double(), mask=mask)],
    "layer_bill": [[1769472, 2304, 589824, 768], torch.tensor([3 * 768**2, 3 * 768, 768**2, 768])],
    "breaks_tie": ["edb", "B, D and E"],
    "own_matrices": [lambda w, h: torch.stack([torch.stack(part.chunk(h)) for part in w.chunk(3)])],
    "masked_heads": [split_and_merge, head_by_head, masked_keys],
    "heads_do_not_matter": ["BDE", ["b", "d", "e"]],
    "rank_of_scores": [[16, 10], torch.tensor([16, 10]), (torch.tensor(16), 10)],
    "one_map": [lambda maps: F.normalize(maps.prod(1) ** (1 / math.sqrt(maps.shape[1])), p=1, dim=-1)],
    "key_gradient": [key_gradient_by_autograd],
    "wide_bill": [[36864, 221184], torch.tensor([4 * 96**2, 4 * 6 * 96**2])],
    "fair_comparison": ["dba", "A, B and D"],
    "fold_keys": [
        lambda W_q, W_k, h: torch.stack([q @ k.T for q, k in zip(W_q.chunk(h, 1), W_k.chunk(h, 1), strict=True)]),
    ],
    "what_maps_tell": ["da", "A and D"],
    "previous_token": [
        lambda maps: torch.tensor([sum(m[i, i - 1] for i in range(1, len(m))) / (len(m) - 1) for m in maps]),
        lambda maps: previous_token_score(maps),
    ],
    "induction": [loop_induction, lambda maps, tokens: induction_score(maps, tokens)],
    "aligned": [
        lambda maps, alignment: torch.tensor(
            [
                sum(bool(row[m[i].argmax()]) for i, row in enumerate(alignment)) / int(alignment.any(1).sum())
                for m in maps
            ]
        ),
        lambda maps, alignment: alignment_agreement(maps, alignment),
    ],
    "alone_harmless": ["eb", "B and E"],
    "switch_heads": [
        lambda m, g: torch.cat([part * gate for part, gate in zip(m.chunk(len(g), -1), g, strict=True)], -1),
        lambda m, g: m * g.repeat_interleave(m.shape[-1] // len(g)),
    ],
    "mean_head": [
        lambda heads, head: torch.stack(
            [x.mean((0, 1)).expand_as(x) if i == head else x for i, x in enumerate(heads.unbind(1))], 1
        ),
    ],
    "gate_slopes": [lambda heads, grads: torch.einsum("bhtd,bhtd->bh", heads, grads).abs().mean(dim=0)],
    "cut_heads": [cut_in_pieces],
    "cache_size": [[192 * 2**20, 48 * 2**20], torch.tensor([201_326_592, 50_331_648])],
    "new_query_masks": ["feca", ["A", "C", "E", "F"]],
    "pool_heads": [
        lambda w, h, kv: torch.cat([torch.stack(part.chunk(h // kv)).mean(0) for part in w.chunk(kv)]),
        lambda w, h, kv: w.double().view(kv, h // kv, -1, w.shape[1]).sum(1).reshape(-1, w.shape[1]) / (h // kv),
    ],
    "cached_step": [with_a_mask_at_the_lower_right, one_query_at_a_time],
    "layout_parts": ["eba", ["A", "B", "E"]],
    "packed_positions": [
        lambda text: torch.stack(
            [torch.cat([torch.arange(n) for n in row.unique_consecutive(return_counts=True)[1]]) for row in text]
        ),
        lambda text: (text[:, :, None] == text[:, None, :]).cumsum(-1).diagonal(dim1=-2, dim2=-1) - 1,
    ],
    "rows_to_neighbours": [
        lambda w, h: w[rearrange(torch.arange(len(w)), "(h two d) -> (h d two)", h=h, two=2)],
        lambda w, h: torch.cat([torch.stack(head.chunk(2), 1).flatten(0, 1) for head in w.chunk(h)]),
    ],
    "turned_pairs": [lambda x, p: rotate(x, p), turned_as_complex],
    "bug_or_not": ["ed", ["D", "E"]],
    "quiet_softmax": [
        lambda s: s.softmax(-1) * s.logsumexp(-1, keepdim=True).sigmoid(),
        lambda s: torch.cat([s, torch.zeros_like(s[..., :1])], -1).softmax(-1)[..., :-1],
    ],
    "normed_scores": [
        lambda q, k, gain: F.cosine_similarity(q[..., :, None, :], k[..., None, :, :], dim=-1) * gain,
    ],
    "mean_share": [
        lambda w, m: torch.einsum("bhqk->hk", w) / torch.einsum("bqk->k", m.float()).clamp(min=1),
        lambda w, m: (w.flatten(2).sum(0).view(w.shape[1:]).sum(1) / m.flatten(0, 1).sum(0)).nan_to_num(),
    ],
    "value_path": [value_path_row_by_row, lambda f, n: list(value_path_row_by_row(f, n))],
    "walk_steps": [
        lambda m: torch.stack([step for step in m.diff(dim=0) if step.abs().amax() > 1e-3]),
        lambda m: (lambda steps: steps[~torch.isclose(steps, torch.zeros(()), atol=1e-2).all(1)])(m.diff(dim=0)),
    ],
    "looks_from_outside": [
        lambda m, w: torch.stack([torch.linalg.lstsq(w.T, row).solution for row in m]),
        lambda m, w: torch.linalg.solve(w @ w.T, w @ m.T).T,
    ],
    "twin_keys": [
        lambda k, mix: torch.block_diag(*mix).inverse().T @ k,
        lambda k, mix: torch.linalg.solve(mix.mT, k.reshape(*mix.shape[:2], -1)).flatten(0, 1),
    ],
}

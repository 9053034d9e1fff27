"""Wrong answers as learners write them: a known mistake gets its name in any style; what passed once is refused."""

import torch
import torch.nn.functional as F

from mhacourse import check


def permutes(order, part=slice(None), samples=2):
    def test(merge):
        heads = torch.randn(samples, 3, len(order), 5)
        return torch.equal(merge(heads[:, :, order])[..., part], merge(heads)[:, order][..., part])

    return test


def looked_up(maps, tokens, last=0, behind=lambda key, query: True):
    """Return the score of induction heads, without the `last` keys before the query and some of those behind."""
    rows = []
    for query in range(len(tokens)):
        found = [key for key in range(query - last) if tokens[key] == tokens[query]]
        if found:
            weights = [maps[:, query, key + 1] for key in found if behind(key + 1, query)]
            rows.append(sum(weights, torch.zeros(len(maps))))
    return torch.stack(rows).mean(0)


def two_tokens(f, n):
    x = torch.randn(1, 2, n)
    y = torch.stack([x[:, 0], torch.randn(1, n)], dim=1)
    return not torch.allclose(f(x)[:, 0], f(y)[:, 0], atol=1e-6)


def later_texts_begin_at_1(text):
    positions = torch.zeros_like(text)
    for b, t in torch.cartesian_prod(torch.arange(text.shape[0]), torch.arange(1, text.shape[1])):
        positions[b, t] = positions[b, t - 1] + 1 if text[b, t] == text[b, t - 1] else 1
    return positions


# The mistakes of the catalogue, written in other ways than there; some were once taken for other mistakes.
NAMED = [
    ("fused_kv", "k and v exchanged", lambda m, k, v: (F.linear(m, v), F.linear(m, k))),
    ("attend", "No scale", lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=1)),
    ("stable_softmax", "Changed in place", lambda s: s.sub_(s.max(-1, True).values).double().softmax(-1)),
    ("merge_heads", "The error that view raises", lambda x: x.permute(0, 2, 1, 3).view(x.size(0), x.size(2), -1)),
    ("leaky_loss", "As training leaves it", 1.397),
    ("keeps_tokens_apart", "Blind to a mirror", permutes([3, 2, 1, 0], samples=1)),
    ("sees_the_future", "Blind further ahead", two_tokens),
    ("induction", "Not the query itself", lambda maps, tokens: looked_up(maps, tokens, last=1)),
    ("cache_size", "Rounded", [201.3e6, 50.3e6]),
    (
        "last_real",
        "Counted, not looked up",
        lambda h, real: torch.stack([h[b, sum(r) - 1] for b, r in enumerate(real)]),
    ),
    ("last_real", "The last column", lambda h, real: h.unbind(1)[-1]),
    (
        "last_real",
        "The place before the first pad",
        lambda h, real: torch.stack([x[[*r.tolist(), False].index(False) - 1] for x, r in zip(h, real, strict=True)]),
    ),
    ("packed_positions", "A new text begins at 1", later_texts_begin_at_1),
    (
        "prefix_mask",
        "The result lacks an axis for the samples",
        lambda n, T: torch.ones(T, T).tril().bool() | (torch.arange(T) < n[:, None]),
    ),
    (
        "prefix_mask",
        "One key too many",
        lambda n, T: torch.ones(T, T).tril() + (torch.arange(T) <= n[:, None, None]) > 0,
    ),
    ("prefix_mask", "Only causal", lambda n, T: torch.ones(T, T).tril().bool().repeat(len(n), 1, 1)),
    ("quiet_softmax", "Overflow", lambda s: s.exp() / s.exp().sum(-1, keepdim=True).add(1)),
]


def powers_and_sum(scores, mask):
    powers = scores.exp() * mask[:, None]
    return powers / (powers.sum(-1, keepdim=True) + 1e-9)


def by_all_keys(scores, mask):
    powers = (scores - scores.amax(-1, keepdim=True)).exp() * mask[:, None]  # the largest score may be hidden
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def flat_loop(text):
    flat, positions = text.flatten(), torch.zeros(text.numel(), dtype=torch.long)
    for t in range(1, len(flat)):
        positions[t] = positions[t - 1] + 1 if flat[t] == flat[t - 1] else 0
    return positions.view(text.shape)


def changes_one(token, rows):
    def test(merge):
        heads = torch.randn(2, 3, 4, 5)
        changed = heads.clone()
        changed[:, :, token] += 1
        return torch.equal(merge(changed)[:, rows], merge(heads)[:, rows])

    return test


def moved_by(x, change):
    def count(f, T, d_model):
        before, pairs = x(1, T, d_model), 0
        for s in range(T):
            after = before.clone()
            change(after[0, s])
            pairs += int(((f(after) - f(before)).abs() > 1e-6)[0, :s].any(-1).sum())
        return pairs

    return count


def slopes(x, reduce):
    def count(f, T, d_model):
        J = torch.autograd.functional.jacobian(f, x(1, T, d_model))[0, :, :, 0]  # (T, d_model, T, d_model)
        return int((reduce(J) > 1e-6).triu(1).sum())

    return count


def without_zeros(maps):
    weights = maps.diagonal(-1, 1, 2)
    return weights.sum(-1) / (weights > 0).sum(-1).clamp(min=1)


def by_threshold(maps, alignment):
    return ((maps > 0.5) & alignment).any(-1)[:, alignment.any(-1)].float().mean(-1)


def first_rows(W_q, W_k, W_v, W_o, keep):
    n = int(keep.sum()) * (len(W_q) // len(keep))
    return W_q[:n], W_k[:n], W_v[:n], W_o[:, :n]


# What no other input would betray.
NOT_RIGHT = [
    ("masked_softmax", lambda s, m: s.masked_fill(~m[:, None], -100.0).softmax(-1) * m[:, None]),
    ("masked_softmax", lambda s, m: s.masked_fill(~m[:, None], -1e4).softmax(-1) * m[:, None]),
    ("masked_softmax", powers_and_sum),  # exp without the largest score
    ("masked_softmax", by_all_keys),
    ("packed_positions", lambda text: check.packed_positions.answer(text.flatten()[None])[0].view(text.shape)),
    ("packed_positions", flat_loop),
    ("mean_share", lambda weights, mask: weights.sum((0, 2)) / (weights > 0).sum((0, 2)).clamp(min=1)),
    ("keeps_tokens_apart", changes_one(-1, slice(-1))),  # looks before the last token only
    ("keeps_tokens_apart", changes_one(0, slice(1, None))),
    ("keeps_tokens_apart", permutes([1, 0, 2, 3, 4, 5])),
    ("keeps_tokens_apart", permutes([2, 0, 3, 1, 5, 4])),
    ("keeps_tokens_apart", permutes([3, 0, 4, 1, 2], part=0)),
    ("future_pairs", moved_by(torch.randn, lambda token: token[:1].add_(1))),
    ("future_pairs", moved_by(torch.zeros, lambda token: token.add_(1))),
    ("future_pairs", moved_by(torch.ones, lambda token: token.zero_())),
    ("future_pairs", slopes(torch.zeros, lambda J: J.abs().amax((1, 3)))),
    ("future_pairs", slopes(torch.randn, lambda J: J.sum(1).abs().amax(-1))),
    ("future_pairs", slopes(torch.randn, lambda J: J[:, 0].abs().amax(-1))),
    ("induction", lambda *given: looked_up(*given, behind=lambda key, query: key < query)),
    ("induction", lambda *given: looked_up(*given, behind=lambda key, query: key != query)),
    ("previous_token", without_zeros),
    ("aligned", by_threshold),
    ("switch_heads", lambda m, g: m * g.clamp(0, 1).repeat_interleave(m.shape[-1] // len(g))),
    ("cut_heads", first_rows),
    ("one_map", lambda maps: (maps.log().sum(1) / maps.shape[-1] ** 0.5).softmax(-1)),
]


def test_a_known_mistake_is_recognised_however_it_is_written():
    notes = [(mistake, getattr(check, name)(answer)) for name, mistake, answer in NAMED]
    assert [(mistake, note) for mistake, note in notes if not note.title.endswith(f": not yet. {mistake}")] == []


def test_what_is_right_by_accident_only_is_refused():
    notes = [(number, getattr(check, name)(answer)) for number, (name, answer) in enumerate(NOT_RIGHT)]
    assert [(number, note) for number, note in notes if note.mood != "wrong"] == []

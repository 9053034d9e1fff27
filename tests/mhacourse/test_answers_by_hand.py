"""Wrong answers as learners write them: a known mistake gets its name in any style; what passed once is refused."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

import mhalib
from mhalib.checks import check
from mhalib.heads import alignment_agreement
from tests.helpers.right_answers import RIGHT

pytestmark = pytest.mark.usefixtures("one_thread", "as_shipped")


def in_place(scores, mask):
    scores += torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)[:, None]
    return scores.softmax(-1).nan_to_num()


def four_axes(mask, num_heads):
    return mask[:, None].expand(-1, num_heads, -1, -1).flatten(0, 1)


def called(mha, x, mask, **options):
    return mha(x, x, x, **({"average_attn_weights": False} | options))


def cached(q, k, v, past_k, past_v, **options):
    k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


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


def slices_from_below_zero(T, width):
    places = torch.arange(T)
    return torch.stack([torch.isin(places, places[t - width + 1 : t + 1]) for t in range(T)])


def first_output_only(f, T, d_model):
    slopes = torch.autograd.functional.jacobian(f, torch.randn(1, T, d_model)).abs().amax((0, 2, 3, 5))
    return int((slopes > 0)[0, 1:].sum())


def without_its_own_word(w):
    return torch.stack([torch.stack([torch.cat([r[:t], r[t + 1 :]]).argmax() for t, r in enumerate(m)]) for m in w])


def words_rolled(f, w):
    q, k, v = (mhalib.split_heads(f(words), 2) for words in ([w[-1], *w[:-1]], w, w))
    return mhalib.scaled_dot_product_attention(q, k, v)[1][0]


def another_seed(f, w):
    q, k = mhalib.split_heads(f(w, 1), 2), mhalib.split_heads(f(w), 2)
    return mhalib.scaled_dot_product_attention(q, k, k)[1][0]


def sum_without_its_axis(q, k, v):
    powers = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    return powers / powers.sum(-1) @ v


def minus_the_mean(s):
    powers = (s - s.mean(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def partners_only(maps, alignment):
    maps = maps * alignment.any(0)
    return alignment_agreement(maps / maps.sum(-1, keepdim=True), alignment)


def at_the_first_token(f, n):
    c = torch.randn(90, n).double()
    x = torch.stack([c, c + torch.ones(n)], 1)
    return torch.linalg.matrix_rank((f(x) - f(x[:, :1]))[:, 0])


def another_d_for_every_c(f, n):
    x = torch.randn(90, 2, n).double()
    return torch.linalg.matrix_rank(f(x)[:, 1] - f(x[:, 1:])[:, 0], rtol=1e-10)


# The mistakes of the catalogue, written in other ways than there; some were once taken for other mistakes.
NAMED = [
    ("first_shapes", "Heads behind the tokens", ((2, 12, 4, 16), (2, 4, 12, 12))),  # the other shape is right
    ("most_looked_at", "The word itself counts", lambda w: w.sort(-1, descending=True).indices[:, :, 0]),
    ("most_looked_at", "Counted without the word itself", without_its_own_word),
    ("looking_back", "The words moved, not their places", words_rolled),
    ("looking_back", "The seed, not the place", another_seed),
    ("fused_kv", "k and v exchanged", lambda m, k, v: (F.linear(m, v), F.linear(m, k))),
    ("fused_kv", "The joined weight does not fit", lambda m, k, v: (m @ torch.cat([k, v])).chunk(2, -1)),
    ("attend", "No scale", lambda q, k, v: torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k), -1) @ v),
    ("attend", "No scale", lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=1)),
    ("attend", "Softmax over the queries", lambda q, k, v: F.softmax(q / q.size(-1) ** 0.5 @ k.mT, 2) @ v),
    ("attend", "The sum has lost its axis", sum_without_its_axis),
    ("stable_softmax", "The recipe as it stands", lambda s: torch.exp(s) / torch.exp(s).sum(dim=-1, keepdim=True)),
    ("stable_softmax", "Changed in place", lambda s: s.sub_(s.max(-1, True).values).double().softmax(-1)),
    ("stable_softmax", "Not the largest score subtracted", minus_the_mean),
    ("split_heads", "A view without a transpose", lambda x, h: x.view(x.size(0), h, -1, x.size(2) // h)),
    ("split_heads", "The transpose is missing", lambda x, h: rearrange(x, "b t (h d) -> b t h d", h=h)),
    ("split_heads", "Features dealt out in turn", lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h)),
    ("split_heads", "Two heads, whatever is asked", lambda x, h: x.unflatten(-1, (2, -1)).transpose(1, 2)),
    ("merge_heads", "No transpose", lambda x: x.contiguous().view(x.size(0), x.size(2), -1)),
    ("merge_heads", "The error that view raises", lambda x: x.permute(0, 2, 1, 3).view(x.size(0), x.size(2), -1)),
    ("merge_heads", "Samples joined", lambda x: torch.cat(x.unbind(0), -1)),
    ("fold_heads", "One view", lambda x, h: x.view(-1, x.size(1), x.size(2) // h)),
    ("window_mask", "Both sides", lambda T, w: (torch.arange(T)[:, None] - torch.arange(T)).abs() < w),
    ("window_mask", "A slice that begins below 0", slices_from_below_zero),
    ("torch_padding", "True = may attend", lambda lens, n: mhalib.padding_mask(lens, n).squeeze(1)),
    ("mask_for_heads", "Another sample's mask", lambda m, h: torch.cat([~m] * h)),
    ("mask_for_heads", "True = may attend", four_axes),
    ("masked_softmax", "The caller's scores changed", in_place),
    ("masked_softmax", "0 for never", lambda s, m: s.masked_fill(~m[:, None], 0.0).softmax(-1)),
    (
        "masked_softmax",
        "NaN where there is nothing to see",
        lambda s, m: s.masked_fill_(~m[:, None], -torch.inf).softmax(-1),
    ),
    ("leaky_loss", "As training leaves it", 1.397),
    ("keeps_tokens_apart", "Blind to a shift", permutes([2, 3, 4, 0, 1])),
    ("keeps_tokens_apart", "Blind to a mirror", permutes([3, 2, 1, 0], samples=1)),
    (
        "keeps_tokens_apart",
        "Blind with one head",
        lambda merge: (lambda x: torch.equal(merge(x.flip(2)), merge(x).flip(1)))(torch.randn(2, 1, 5, 3)),
    ),
    (
        "by_heads",
        "Cut along the outputs",
        lambda x, w: sum(x[:, i] @ piece.T for i, piece in enumerate(w.chunk(x.shape[1]))),
    ),
    ("future_pairs", "The first output only", first_output_only),
    ("call_torch", "The polarity", lambda a, x, m: called(a, x, m, attn_mask=four_axes(m, a.num_heads))),
    ("call_torch", "Averaged maps", lambda a, x, m: a(x, x, x, attn_mask=four_axes(~m, a.num_heads))),
    ("call_torch", "As padding", lambda a, x, m: called(a, x, m, key_padding_mask=m.logical_not())),
    ("call_torch", "is_causal alone", lambda a, x, m: called(a, x, m, is_causal=True)),
    ("call_torch", "One mask for all", lambda a, x, m: called(a, x, m, attn_mask=~m[0])),
    (
        "call_torch",
        "Causal, whatever mask comes",
        lambda a, x, m: called(a, x, m, attn_mask=torch.full((x.shape[1],) * 2, -math.inf).triu(1)),
    ),
    ("share_heads", "Every other head", lambda k, h: torch.cat([k] * (h // k.shape[1]), 1)),
    ("share_heads", "Samples repeated", lambda k, h: torch.cat([k] * (h // k.shape[1]))),
    ("count_heads", "Read at the first token", at_the_first_token),
    ("count_heads", "Another d for every c", another_d_for_every_c),
    ("count_heads", "Too few c", lambda f, n: min(check.count_heads.answer(f, n), 20)),
    ("own_matrices", "Heads before q, k, v", lambda w, h: rearrange(w, "(h p d) m -> p h d m", p=3, h=h)),
    (
        "masked_heads",
        "One map for all",
        lambda q, k, v, h: F.scaled_dot_product_attention(q, k, v, scale=(h / q.size(-1)) ** 0.5),
    ),
    ("one_map", "Maps as matrices", lambda maps: functools.reduce(torch.matmul, maps.unbind(1))),
    (
        "fold_keys",
        "One matrix for all heads",
        lambda q, k, h: sum(a @ b.T for a, b in zip(q.chunk(h, 1), k.chunk(h, 1), strict=True)),
    ),
    ("induction", "Not the query itself", lambda maps, tokens: looked_up(maps, tokens, last=1)),
    ("aligned", "Only keys that have a partner", partners_only),
    ("switch_heads", "On or off only", lambda m, g: m * g.round().repeat_interleave(m.shape[-1] // len(g))),
    (
        "gate_slopes",
        "The absolute value too early",
        lambda h, g: torch.einsum("bhtd,bhtd->bht", h, g).abs().sum(2).mean(0),
    ),
    (
        "cut_heads",
        "True and False as numbers",
        lambda q, k, v, o, keep: [W.index_select(a, keep.long()) for W, a in ((q, 0), (k, 0), (v, 0), (o, 1))],
    ),
    ("cache_size", "Rounded", [201.3e6, 50.3e6]),
    ("cache_size", "Another unit", (201.3, 50.3)),
    ("pool_heads", "The mean inside a head", lambda w, h, kv: w.reshape(-1, h // kv, w.shape[1]).mean(1)),
    ("cached_step", "Aligned at the top left", lambda *given: cached(*given, is_causal=True)),
    ("cached_step", "No mask", cached),
    ("quiet_softmax", "Overflow", lambda s: s.exp() / s.exp().sum(-1, keepdim=True).add(1)),
    ("looks_from_outside", "Only dot products", lambda m, w: torch.einsum("nd,hd->nh", m, w)),
    ("twin_keys", "Not transposed", lambda k, mix: torch.block_diag(*mix).inverse() @ k),
]


def test_a_known_mistake_is_recognised_however_it_is_written():
    notes = [(mistake, getattr(check, name)(answer)) for name, mistake, answer in NAMED]
    assert [(mistake, note) for mistake, note in notes if not note.title.endswith(f": not yet. {mistake}")] == []


# ------------------------------------------------------------------- what no other input would betray


def never_is(never):
    return lambda s, m: s.masked_fill(~m[:, None], never).softmax(-1) * m[:, None]


def powers_and_sum(scores, mask):
    powers = scores.exp() * mask[:, None]
    return powers / (powers.sum(-1, keepdim=True) + 1e-9)


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


def wide_slices(W_q, W_k, num_heads):
    d_model = W_q.shape[0]
    blocks = [slice(head * d_model, (head + 1) * d_model) for head in range(num_heads)]
    return torch.stack([W_q[:, block] @ W_k[:, block].T for block in blocks])


def without_zeros(maps):
    weights = maps.diagonal(-1, 1, 2)
    return weights.sum(-1) / (weights > 0).sum(-1).clamp(min=1)


def by_threshold(maps, alignment):
    return ((maps > 0.5) & alignment).any(-1)[:, alignment.any(-1)].float().mean(-1)


def first_rows(W_q, W_k, W_v, W_o, keep):
    n = int(keep.sum()) * (len(W_q) // len(keep))
    return W_q[:n], W_k[:n], W_v[:n], W_o[:, :n]


def groups_of_groups(weight, num_heads, num_kv_heads):
    heads = weight.unflatten(0, (num_heads, -1))
    return torch.cat([heads[i * num_kv_heads : (i + 1) * num_kv_heads].mean(0) for i in range(num_kv_heads)])


NOT_RIGHT = [
    ("masked_softmax", never_is(-100.0)),
    ("masked_softmax", never_is(-1e4)),
    ("masked_softmax", powers_and_sum),  # exp without the largest score
    ("keeps_tokens_apart", changes_one(-1, slice(-1))),  # looks before the last token only
    ("keeps_tokens_apart", changes_one(0, slice(1, None))),
    ("keeps_tokens_apart", permutes([1, 0, 2, 3, 4, 5])),
    ("keeps_tokens_apart", permutes([2, 0, 3, 1, 5, 4])),
    ("keeps_tokens_apart", permutes([3, 0, 4, 1, 2], part=0)),
    ("keeps_tokens_apart", permutes([1, 0])),
    ("future_pairs", moved_by(torch.randn, lambda token: token[:1].add_(1))),
    ("future_pairs", moved_by(torch.zeros, lambda token: token.add_(1))),
    ("future_pairs", moved_by(torch.randn, lambda token: token.add_(1))),
    ("future_pairs", moved_by(torch.ones, lambda token: token.zero_())),
    ("future_pairs", slopes(torch.zeros, lambda J: J.abs().amax((1, 3)))),
    ("future_pairs", slopes(torch.randn, lambda J: J.sum((1, 3)).abs())),
    ("future_pairs", slopes(torch.randn, lambda J: J.sum(1).abs().amax(-1))),
    ("future_pairs", slopes(torch.randn, lambda J: J[:, 0].abs().amax(-1))),
    ("fold_keys", wide_slices),
    ("induction", lambda *given: looked_up(*given, behind=lambda key, query: key < query)),
    ("induction", lambda *given: looked_up(*given, behind=lambda key, query: key != query)),
    ("previous_token", without_zeros),
    ("aligned", by_threshold),
    ("switch_heads", lambda m, g: m * g.clamp(0, 1).repeat_interleave(m.shape[-1] // len(g))),
    ("cut_heads", first_rows),
    ("pool_heads", groups_of_groups),
    ("one_map", lambda maps: (maps.log().sum(1) / maps.shape[-1] ** 0.5).softmax(-1)),
]


def test_what_is_right_by_accident_only_is_refused():
    notes = [(number, getattr(check, name)(answer)) for number, (name, answer) in enumerate(NOT_RIGHT)]
    assert [(number, note) for number, note in notes if note.mood != "wrong"] == []


# ------------------------------------------------------------------- small edits that no catalogue holds


def split(x, h):
    return rearrange(x, "b t (h d) -> b h t d", h=h)


def maps_of(q, k):
    return torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5


def powers_of_two(scores):
    out = torch.zeros_like(scores)
    for row, shares in zip(scores.reshape(-1, scores.shape[-1]), out.view(-1, scores.shape[-1]), strict=True):
        powers = [2 ** float(score - row.max()) for score in row]
        shares.copy_(torch.tensor([power / sum(powers) for power in powers]))
    return out


def one_head_short(x, h):
    size = x.shape[-1] // h
    return torch.stack([x[..., i * size : (i + 1) * size] for i in range(h - 1)], 1)


def padded(condition):
    return lambda lens, n: torch.tensor([[condition(key, length) for key in range(n)] for length in lens.tolist()])


# One mistake in another style than the solution's, and words of what is said of it.
SAID = [
    ("split_heads", lambda x, h: torch.stack([*reversed(x.chunk(h, -1))], 1), "heads from the last to the first"),
    ("split_heads", lambda x, h: split(x, h)[:, :1], "or the first head alone"),
    ("split_heads", lambda x, h: split(x, h).mT, "Tokens and features exchanged"),
    ("split_heads", one_head_short, "he last round left out of the loop"),
    ("merge_heads", lambda x: rearrange(x, "b h t d -> b h (t d)"), "Tokens joined with features"),
    ("merge_heads", lambda x: torch.einsum("bhtd->btd", x), "Added, not joined"),
    ("attend", lambda q, k, v: torch.sigmoid(maps_of(q, k)) @ v, "igmoid in the place of softmax"),
    ("attend", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=1 / q.size(-1)), "ithout the root"),
    ("attend", lambda q, k, v: F.scaled_dot_product_attention(q, k, v).mean(1), "akes the mean over the heads"),
    ("attend", lambda q, k, v: F.scaled_dot_product_attention(q, k, v.flip(2)), "from the last to the first"),
    ("stable_softmax", powers_of_two, "xp2 in the place of exp"),
    ("stable_softmax", lambda s: F.softmin(s, dim=-1), "he sign of scores turned"),
    ("torch_padding", padded(lambda key, length: key > length), "One key too few"),
    ("masked_softmax", lambda s, m: s.where(m[:, None], -torch.inf).softmax(2).nan_to_num(), "over the queries"),
    ("fused_kv", lambda m, k, v: (F.linear(m, k),) * 2, "_k in the place of W_v as well"),
    ("own_matrices", lambda w, h: rearrange(w, "(p h d) m -> p h m d", p=3, h=h), "Turned"),
    (
        "previous_token",
        lambda maps: torch.stack([max(m[i + 1, i] for i in range(len(m) - 1)) for m in maps]),
        "max in the place of mean",
    ),
    ("previous_token", lambda maps: torch.stack([m.trace() / len(m) for m in maps]), "The token itself"),
    ("gate_slopes", lambda h, g: torch.einsum("bhtd,bhtd->bh", h, g).abs().sum(0), "The sum of the samples"),
]
# Wrong in a way that is no small edit of anything: other algorithms, several mistakes at once.
UNNAMED = [
    ("split_heads", lambda x, h: torch.fft.fft(split(x, h), dim=-1).real),
    ("merge_heads", lambda x: torch.linalg.qr(RIGHT["merge_heads"][0](x))[0]),
    ("torch_padding", padded(lambda key, length: key * 7 % 3 >= length % 2)),
    ("stable_softmax", lambda s: torch.erf(s - s.amax(-1, keepdim=True)) + 1),
    ("own_matrices", lambda w, h: w.sort(0).values.unflatten(0, (3, h, -1))),
    ("gate_slopes", lambda h, g: (h * g.sin()).std((0, 2, 3))),
    ("previous_token", lambda maps: torch.linalg.det(maps)),
    ("fused_kv", lambda m, k, v: (torch.sin(m @ k.T) + m, torch.cos(m @ v.T) * 3)),
]


def test_one_small_mistake_in_another_style_gets_its_words():
    notes = [(words, getattr(check, name)(answer)) for name, answer, words in SAID]
    assert [(words, note) for words, note in notes if "not yet." not in note.title or words not in note.title] == []


def test_nothing_is_named_where_no_small_mistake_does_the_same():
    notes = [getattr(check, name)(answer) for name, answer in UNNAMED]
    assert [note for note in notes if not note.title.endswith(": not yet.") or "What:" in repr(note)] == []

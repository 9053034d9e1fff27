"""The exercises of lesson 12: the size of a cache, the mask of one new query, pooled keys, a step with a cache."""

import torch
import torch.nn.functional as F

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.other_inputs import in_float16, on_a_turned_input
from mhacourse.remarks import Grows
from mhalib.attention import scaled_dot_product_attention
from mhalib.masks import causal_mask


def _cache_size():
    layers, num_heads, head_dim, T = 24, 16, 64, 2048
    bytes_each = 2
    sizes = []
    for num_kv_heads in (num_heads, 4):
        keys = layers * num_kv_heads * head_dim * T
        values = keys
        sizes.append((keys + values) * bytes_each)
    return tuple(sizes)


cache_size = Exercise(
    task=(
        "24 layers, 16 heads, head_dim 64, a text of 2,048 tokens, 2 bytes a number. "
        "How many bytes does the cache hold if every head has keys and values of its own, and how many with 4 heads of "
        "keys and values?"
    ),
    answer=(201_326_592, 50_331_648),
    plain=(_cache_size,),
    sizes={"the number of layers": 24, "num_heads": 16, "num_kv_heads": 4, "head_dim": 64, "T": 2048},
    hints=(
        "For each layer and each token: one key and one value for each head of keys and values.",
        "A key has head_dim numbers, and so has a value. How many bytes does one token leave behind in one layer?",
        "2 · layers · num_kv_heads · head_dim · tokens numbers, and each takes two bytes.",
    ),
    wrong={
        "One factor of 2 is missing": Wrong(
            (100_663_296, 25_165_824),
            "this is half of it: keys alone, or numbers instead of bytes.",
            "Keys and values are kept, and each number takes two bytes.",
        ),
        "Both factors of 2 are missing": Wrong(
            (50_331_648, 12_582_912),
            "this is a quarter of it: the numbers of the keys.",
            "One factor of 2 is for keys and values, one for the bytes of a number.",
        ),
        "Two factors of 2 too many": Wrong(
            (805_306_368, 201_326_592),
            "this is four times the size.",
            "Keys and values are two things, and each number takes two bytes. Queries and outputs are not kept.",
        ),
        "One layer": Wrong(
            (8_388_608, 2_097_152),
            "only one layer is counted.",
            "Each layer has keys and values of its own.",
        ),
        "Nothing saved": Wrong(
            (201_326_592, 201_326_592),
            "16 heads are counted both times.",
            "With 4 heads of keys and values, only those 4 are kept.",
        ),
        "Queries as well": Wrong(
            (301_989_888, 150_994_944),
            "the queries are counted as well.",
            "Nobody asks for an old query again: only keys and values are kept.",
            also=((301_989_888, 75_497_472),),
        ),
        "One token": Wrong(
            (98_304, 24_576),
            "this is what one token takes.",
            "All 2,048 tokens keep their keys and values.",
        ),
        "Another unit": Wrong(
            (192, 48),
            "these are the right sizes, but not in bytes.",
            "A KiB is 1,024 bytes, a MiB 1,024 KiB, a GiB 1,024 MiB.",
            also=((196_608, 49_152), (0.1875, 0.046875), (201.326592, 50.331648), (0.201326592, 0.050331648)),
        ),
        "Rounded": Wrong(
            (201_300_000.0, 50_200_000.0),  # floats: compared with some room, so that other digits are found as well
            "these are the right sizes, rounded.",
            "Every factor is a whole number, and so is the size: give all of its digits, or the product.",
        ),
        "Values not shared": Wrong(
            (201_326_592, 125_829_120),
            "in the second size only the keys are shared.",
            "A head of keys and values is one thing: with 4 of them there are 4 of values, too.",
        ),
        "Exchanged": Wrong((50_331_648, 201_326_592), "the two answers are exchanged.", "First 16 heads, then 4."),
    },
    see="What is saved",
    explanation="192 MiB and 48 MiB.",
)


new_query_masks = Choice(
    task=(
        "One new query over six keys, its own among them, in F.scaled_dot_product_attention. "
        "Which of the six masks are right? All of them, as letters."
    ),
    answer="ACEF",
    options={
        "A": "the newest token may see everything that is there, so nothing has to be hidden.",
        "B": "torch aligns at the top left: the query counts as the first one and sees the first key only.",
        "C": "the queries are taken as the last positions, so this one sees all six keys.",
        "D": "the first row belongs to the first token, which sees itself alone.",
        "E": "the last row of the square belongs to the newest token and is True throughout.",
        "F": "torch's name for a mask aligned at the bottom right: one query, six keys, all of them seen.",
    },
    hints=(
        "Which keys may the newest of six tokens see?",
        "All six. So which of these are True, or nothing, everywhere?",
    ),
    see="Where is_causal bites",
)


def pool_heads_solution(weight, num_heads, num_kv_heads):
    blocks = weight.unflatten(0, (num_kv_heads, num_heads // num_kv_heads, -1))  # -> (kv, group, head_dim, d_model)
    return blocks.mean(1).flatten(0, 1)  # -> (num_kv_heads * head_dim, d_model)


def _pool_heads_by_steps(weight, num_heads, num_kv_heads):
    width, d_model = weight.shape
    head_dim = width // num_heads
    group = num_heads // num_kv_heads
    blocks = weight.reshape(num_kv_heads, group, head_dim, d_model)
    pooled = blocks.mean(1)  # -> (num_kv_heads, head_dim, d_model)
    return pooled.reshape(num_kv_heads * head_dim, d_model)


def _pool_heads_by_loop(weight, num_heads, num_kv_heads):
    width, d_model = weight.shape
    head_dim = width // num_heads
    group = num_heads // num_kv_heads
    heads = weight.reshape(num_heads, head_dim, d_model)
    pooled = []
    for kv_head in range(num_kv_heads):
        first = kv_head * group
        last = first + group
        pooled.append(heads[first:last].mean(0))
    return torch.cat(pooled)


def _pool_cases():
    by_hand = torch.tensor([[1.0, 2], [3, 0], [5, 4], [2, 6], [1, 3], [9, 0]])  # 6 heads of one row
    sizes = [(6, 2, 4, 5), (12, 3, 2, 7), (4, 1, 3, 5)]  # num_heads, num_kv_heads, head_dim, d_model
    return [(by_hand, 6, 2)] + [(draw(i, h * hd, d), h, kv) for i, (h, kv, hd, d) in enumerate(sizes)]


pool_heads = Exercise(
    task=(
        "Write pool_heads(weight, num_heads, num_kv_heads): from W_k.weight of a plain layer, (num_heads * head_dim, "
        "d_model), that of a layer with fewer heads of keys, (num_kv_heads * head_dim, d_model). "
        "Each new head is the mean of its group of neighbours."
    ),
    answer=pool_heads_solution,
    plain=(_pool_heads_by_steps, _pool_heads_by_loop),
    cases=_pool_cases,
    axes=("row", "feature"),
    hints=(
        "The rows of a head stand side by side. Cut the rows into heads, and the heads into groups.",
        "weight.unflatten(0, (num_kv_heads, group, head_dim)): over which axis is the mean?",
        "Over the group, axis 1. Then the first two axes become rows again: flatten(0, 1).",
    ),
    wrong={
        "The first of each group": Wrong(
            lambda w, h, kv: w.unflatten(0, (kv, h // kv, -1))[:, 0].flatten(0, 1),
            "each new head is the first of its group.",
            "That throws the others away. Asked is the mean of the group.",
        ),
        "Every other head": Wrong(
            lambda w, h, kv: w.unflatten(0, (h // kv, kv, -1)).mean(0).flatten(0, 1),
            "the groups are heads 0, 2, 4, … and 1, 3, 5, …",
            "Neighbours share: (num_kv_heads, group), not (group, num_kv_heads).",
        ),
        "The sum of the group": Wrong(
            Change("blocks.mean(1)", "blocks.sum(1)"),
            "the heads of a group are added.",
            "The keys would grow with the group, and the scores with them. Take the mean.",
        ),
        "The mean inside a head": Wrong(
            lambda w, h, kv: w.unflatten(0, (-1, h // kv)).mean(1),
            "neighbouring rows are averaged, and the rows of one head stand side by side.",
            "Cut into heads first. The mean is over heads, row by row.",
            also=(
                lambda w, h, kv: w.unflatten(0, (kv, -1, h // kv)).mean(2).flatten(0, 1),
                lambda w, h, kv: w.unflatten(0, (kv, h // kv, -1)).mean(2).flatten(0, 1),
            ),
        ),
        "A mean over the groups": Wrong(
            lambda w, h, kv: w.unflatten(0, (kv, h // kv, -1)).mean(0).flatten(0, 1),
            "the mean goes over the groups, axis 0.",
            "The heads of one group are axis 1: mean(1).",
        ),
        "One mean for all": Wrong(
            lambda w, h, kv: w.unflatten(0, (h, -1)).mean(0).repeat(kv, 1),
            "every new head is the mean of all heads.",
            "Each group has a mean of its own.",
        ),
        "Columns": Wrong(
            lambda w, h, kv: w.T.unflatten(0, (kv, -1, w.shape[0] // h)).mean(1).flatten(0, 1).T,
            "the columns were cut, not the rows.",
            "nn.Linear stores (out, in): heads are blocks of rows, columns are features of the input.",
            also=(lambda w, h, kv: w.unflatten(1, (kv, -1)).mean(2),),
        ),
        "Still in blocks": Wrong(
            Change("pooled.reshape(num_kv_heads * head_dim, d_model)", "pooled"),
            "the heads are still an axis of their own.",
            "A weight has two axes: flatten(0, 1) joins heads and rows.",
        ),
    },
    see="From separate heads to shared ones",
    remarks=(Grows(lambda heads=4: (draw(0, 2 * heads, 6), heads, 2)),),
)


def cached_step_solution(q, k, v, past_k, past_v):
    k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)  # (B, num_kv_heads, past + n, head_dim)
    mask = causal_mask(q.shape[2], k.shape[2])  # (n, past + n)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def _cached_step_by_steps(q, k, v, past_k, past_v):
    B, num_heads, n, head_dim = q.shape
    past = past_k.shape[2]
    k = torch.cat([past_k, k], dim=2)  # -> (B, num_kv_heads, past + n, head_dim)
    v = torch.cat([past_v, v], dim=2)
    group = num_heads // k.shape[1]
    k = k.repeat_interleave(group, dim=1)  # -> (B, num_heads, past + n, head_dim)
    v = v.repeat_interleave(group, dim=1)
    scores = q @ k.transpose(2, 3)  # -> (B, num_heads, n, past + n)
    scores = scores / head_dim**0.5
    mask = torch.ones(n, past + n, dtype=torch.bool).tril(past)
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v


def _cached_step_by_torch(q, k, v, past_k, past_v):
    n, past = q.shape[2], past_k.shape[2]
    keys = torch.cat([past_k, k], dim=2)  # -> (B, num_kv_heads, past + n, head_dim)
    values = torch.cat([past_v, v], dim=2)
    hidden = torch.ones(n, past + n, dtype=torch.bool).triu(past + 1)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=~hidden, enable_gqa=True)


def _step(
    q,
    k,
    v,
    past_k,
    past_v,
    mask=causal_mask,
    share=lambda x, group: x.repeat_interleave(group, dim=1),
    join=lambda past, new: torch.cat([past, new], dim=2),
    scale=None,
):
    k, v = join(past_k, k), join(past_v, v)
    k, v = (share(x, q.shape[1] // x.shape[1]) for x in (k, v))
    return scaled_dot_product_attention(q, k, v, mask(q.shape[2], k.shape[2]), scale=scale)[0]


def _top_left(queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).tril()


def _step_cases():
    q, k, v = [[0, 0], [1, 2]], [[1, 0], [2, 1]], [[2, 4], [4, 8]]  # one head, two new tokens and one before them
    by_hand = tuple(torch.tensor([[x]]).float() for x in (q, k, v, [[0, 1]], [[6, 0]]))
    # B, num_heads, num_kv_heads, n, past, head_dim
    sizes = [(2, 12, 3, 5, 7, 8), (4, 6, 2, 1, 8, 5), (2, 3, 1, 4, 0, 5), (2, 3, 3, 4, 1, 5)]
    return [by_hand] + [
        (draw(i, B, h, n, d), *(draw(10 * j + i, B, kv, t, d) for j, t in ((1, n), (2, n), (3, past), (4, past))))
        for i, (B, h, kv, n, past, d) in enumerate(sizes)
    ]


cached_step = Exercise(
    task=(
        "Write cached_step(q, k, v, past_k, past_v): q is (B, num_heads, n, head_dim) for n new tokens, k and v are "
        "theirs, (B, num_kv_heads, n, head_dim), past_k and past_v those of all earlier ones (there may be none). "
        "Attend causally, return (B, num_heads, n, head_dim)."
    ),
    answer=cached_step_solution,
    plain=(_cached_step_by_steps, _cached_step_by_torch),
    cases=_step_cases,
    axes=("sample", "head", "query", "feature"),
    hints=(
        "Three steps: join old and new along the tokens, let heads share, attend with the right mask.",
        "Tokens are axis 2, old ones first. Neighbouring heads share: repeat_interleave, or enable_gqa=True.",
        "The queries are the last positions: causal_mask(n, past + n), or causal_lower_right.",
    ),
    wrong={
        "Aligned at the top left": Wrong(
            lambda *x: _step(*x, mask=_top_left),
            "the first new query sees the first key only, as is_causal=True has it.",
            "The queries are the last of the keys: causal_mask(n, past + n).",
            also=(lambda *x: _step(*x, mask=lambda n, keys: _top_left(n, keys) if n > 1 else None),),
        ),
        "No mask": Wrong(
            Change("torch.ones(n, past + n, dtype=torch.bool).tril(past)", "torch.ones(n, past + n, dtype=torch.bool)"),
            "each new query sees all new keys, also those behind it.",
            "For one new token that is right. Several at once need a causal mask.",
        ),
        "A mask only without a past": Wrong(
            lambda *x: _step(*x, mask=lambda n, keys: _top_left(n, keys) if n == keys else None),
            "the first piece has its mask, but in a later one each new query sees all new keys, also those behind it.",
            "For one new token at a time that is right. Several at once need causal_mask(n, past + n).",
        ),
        "One key too many": Wrong(
            lambda *x: _step(*x, mask=lambda n, keys: torch.ones(n, keys, dtype=torch.bool).tril(keys - n + 1)),
            "each query sees the key behind its own as well.",
            "The last key of query i is the one at place past + i: tril(past), as causal_mask(n, past + n) has it.",
        ),
        "The past is forgotten": Wrong(
            lambda *x: _step(*x, join=lambda past, new: new),
            "the new tokens see only each other.",
            "Old keys and values first, the new ones behind them; then the mask causal_mask(n, past + n).",
        ),
        "New before old": Wrong(
            lambda *x: _step(*x, join=lambda past, new: torch.cat([new, past], dim=2)),
            "the new keys stand before the old ones, and the mask hides the wrong ones.",
            "The mask goes by places: old first, new behind.",
        ),
        "The new token itself is hidden": Wrong(
            lambda *x: _step(*x, mask=lambda n, keys: torch.ones(n, keys, dtype=torch.bool).tril(keys - n - 1)),
            "a query does not see its own key.",
            "Each token sees itself as well. Append first, then attend.",
        ),
        "Heads dealt out in turn": Wrong(
            lambda *x: _step(*x, share=lambda y, group: y.repeat(1, group, 1, 1)),
            "the heads of keys come as a, b, a, b.",
            "Neighbours share: repeat_interleave.",
        ),
        "No scale": Wrong(
            Change("scores / head_dim**0.5", "scores"),
            "the scores are not divided by the root of head_dim.",
            "A cache changes nothing in the formula.",
        ),
    },
    see="Where is_causal bites",
    remarks=(
        Grows(
            lambda tokens=3, heads=4, samples=2: (
                draw(0, samples, heads, tokens, 2),
                *(draw(i, samples, 2, tokens, 2) for i in (1, 2)),
                *(draw(i, samples, 2, 5, 2) for i in (3, 4)),
            )
        ),
        on_a_turned_input,
        in_float16,
    ),
)

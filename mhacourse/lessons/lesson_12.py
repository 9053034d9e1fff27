"""The exercises of lesson 12: the size of a cache, a window with sinks, heads from latents, a step with a cache."""

import torch
import torch.nn.functional as F

from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Asked, Grows, Trace, in_float16
from mhalib.masks import causal_mask

cache_size = Exercise(
    task=(
        "A model has 24 layers of 16 heads, with head_dim 64. The text has 2,048 tokens, and each number takes 2 "
        "bytes. How many bytes does the cache hold if every head has its own keys and values, and how many with 4 KV "
        "heads?"
    ),
    answer=(201_326_592, 50_331_648),
    sizes={"the number of layers": 24, "num_heads": 16, "num_kv_heads": 4, "head_dim": 64, "T": 2048},
    hints=(
        "For each layer and each token, the cache keeps one key and one value per KV head.",
        "A key has head_dim numbers, and so does a value. How many bytes does one token leave behind in one layer?",
        "In total, the cache holds 2 · layers · num_kv_heads · head_dim · tokens numbers of two bytes each.",
    ),
    wrong={
        "One factor of 2 is missing": Wrong(
            (100_663_296, 25_165_824),
            "this is half the size: you count only the keys, or numbers instead of bytes.",
            "Both keys and values are kept, and each number takes two bytes.",
        ),
        "Both factors of 2 are missing": Wrong(
            (50_331_648, 12_582_912),
            "this is a quarter of the size: it counts only the numbers in the keys.",
            "One factor of 2 is for keys and values, the other for the bytes of a number.",
        ),
        "Two factors of 2 too many": Wrong(
            (805_306_368, 201_326_592),
            "this is four times the size.",
            "Count both keys and values, and two bytes for each number. Queries and outputs are not kept.",
        ),
        "Nothing saved": Wrong(
            (201_326_592, 201_326_592),
            "you count 16 heads both times.",
            "With 4 KV heads, only those 4 are kept.",
        ),
        "A sixteenth": Wrong(
            (201_326_592, 12_582_912),
            "your second size is a sixteenth of the first, as with a single KV head.",
            "There are 4 KV heads, a quarter of 16, and each is as wide as before.",
        ),
        "Queries as well": Wrong(
            (301_989_888, 150_994_944),
            "you count the queries as well.",
            "No step needs an old query again, so only keys and values are kept.",
            also=((301_989_888, 75_497_472),),
        ),
        "Another unit": Wrong(
            (192, 48),
            "these are the right sizes, but not in bytes.",
            "A KiB is 1,024 bytes, a MiB is 1,024 KiB, and a GiB is 1,024 MiB.",
            also=((196_608, 49_152), (0.1875, 0.046875), (201.326592, 50.331648), (0.201326592, 0.050331648)),
        ),
        "Rounded": Wrong(
            (201_300_000.0, 50_200_000.0),  # floats: compared with some room, so that other digits are found as well
            "these are the right sizes, but rounded.",
            "Every factor is a whole number, and so is the size: give all its digits, or write the product.",
        ),
        "Values not shared": Wrong(
            (201_326_592, 125_829_120),
            "for the second size you share only the keys.",
            "A KV head holds both keys and values, so with 4 KV heads you keep both for only 4.",
        ),
    },
    see="What is saved",
    explanation="That is 192 MiB and 48 MiB.",
)


def window_with_sinks_solution(T, window, sinks):
    query, key = torch.arange(T)[:, None], torch.arange(T)
    behind = query - key  # (T, T): how far behind the query a key is
    return (behind >= 0) & ((behind < window) | (key < sinks))


def _window_by_steps(T, window, sinks):
    places = torch.arange(T)
    behind = places[:, None] - places
    causal = behind >= 0
    near = behind < window
    first = places < sinks
    return causal & (near | first)


def _window_by_loop(T, window, sinks):
    mask = torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        start = max(0, i - window + 1)
        mask[i, start : i + 1] = True
        last = min(sinks, i + 1)
        mask[i, :last] = True
    return mask


window_with_sinks = Exercise(
    task=(
        "Write window_with_sinks(T, window, sinks). Return a boolean mask (T, T), True where a query may look. Each "
        "query sees the last `window` tokens, including itself, and the first `sinks` tokens of the text, but never a "
        "later token."
    ),
    answer=window_with_sinks_solution,
    plain=(_window_by_steps, _window_by_loop),
    cases=lambda: [(6, 2, 1), (9, 3, 2), (8, 1, 0), (5, 7, 1), (7, 4, 0), (8, 2, 3)],
    axes=("query", "key"),
    hints=(
        "How far behind the query is a key? torch.arange(T)[:, None] - torch.arange(T) tells you for all pairs.",
        "There are three conditions: not later, less than `window` behind, and among the first. Which two do you "
        "join with or?",
        '"Not later" applies to all keys, even to the first tokens: (behind >= 0) & (near | first).',
    ),
    wrong={
        "The first tokens are seen too early": Wrong(
            Change("causal & (near | first)", "causal & near | first"),
            "query 0 sees the second sink, which comes later than query 0.",
            "No query sees a later token, not even a sink: (behind >= 0) & (near | first).",
        ),
        "Rows for the sinks": Wrong(
            Change("places < sinks", "(places < sinks)[:, None]"),
            "you set the first rows to True, so the first queries see more.",
            "Rows are queries. The sinks are keys that every later query sees, so they are the first columns.",
            also=(Change("causal & (near | first)", "causal & near | (places < sinks)[:, None]"),),
        ),
        "One token too many": Wrong(
            Change("behind < window", "behind <= window"),
            "your window is one token too long.",
            "The query itself is one of the tokens in the window: behind < window, not <=.",
            also=(lambda T, window, sinks: window_with_sinks_solution(T, window + 1, sinks + 1),),
        ),
        "And in place of or": Wrong(
            Change("near | first", "near & first"),
            "in your mask, a key must be a sink and inside the window.",
            "One of the two is enough: join them with |, then add the causal condition with &.",
        ),
        "Without itself": Wrong(
            Change("behind >= 0", "behind > 0"),
            "a query does not see itself.",
            "The window ends with the query itself: behind >= 0.",
            also=(Change("behind >= 0\n    near = behind <", "behind > 0\n    near = behind <="),),
        ),
        "A slice that begins below 0": Wrong(
            Change("max(0, i - window + 1)", "i - window + 1"),
            "if a window would begin before token 0, the start of your slice is negative and counts from the end.",
            "Begin at max(0, i - window + 1).",
        ),
        "The sinks taken off the window": Wrong(
            lambda T, window, sinks: window_with_sinks_solution(T, window - sinks, sinks),
            "you make the window shorter by the number of sinks.",
            "A cache of a fixed size would do that. Here the window keeps its `window` tokens, and the sinks are added "
            "to them.",
        ),
    },
    see="When the first token leaves",
    remarks=(Grows(lambda tokens=8: (tokens, 3, 2)),),
)


def latent_heads_solution(q, c, U_k, U_v):
    num_heads, head_dim = q.shape[1], q.shape[-1]
    asked = q @ U_k.unflatten(0, (num_heads, head_dim))  # (B, num_heads, T, head_dim) -> (B, num_heads, T, rank)
    kept = c[:, None]  # (B, T, rank) -> (B, 1, T, rank)
    weights = (asked @ kept.mT / head_dim**0.5).softmax(-1)  # (B, num_heads, T, T)
    return weights @ kept @ U_v.unflatten(0, (num_heads, head_dim)).mT  # -> (B, num_heads, T, head_dim)


def _latent_heads_by_steps(q, c, U_k, U_v):
    B, num_heads, T, head_dim = q.shape
    rank = c.shape[-1]
    up_k = U_k.reshape(num_heads, head_dim, rank)
    up_v = U_v.reshape(num_heads, head_dim, rank)
    asked = q @ up_k  # -> (B, num_heads, T, rank)
    kept = c.unsqueeze(1)  # -> (B, 1, T, rank)
    scores = asked @ kept.transpose(2, 3)
    scores = scores / head_dim**0.5
    weights = scores.softmax(-1)
    mixed = weights @ kept  # -> (B, num_heads, T, rank)
    return mixed @ up_v.transpose(1, 2)


def _latent_heads_by_keys(q, c, U_k, U_v):
    B, num_heads, T, head_dim = q.shape
    k = (c @ U_k.T).view(B, T, num_heads, head_dim).transpose(1, 2)  # -> (B, num_heads, T, head_dim)
    v = (c @ U_v.T).view(B, T, num_heads, head_dim).transpose(1, 2)
    weights = (q @ k.transpose(2, 3) / head_dim**0.5).softmax(-1)
    return weights @ v


def _latent_cases():
    q = torch.tensor([[[[2.0, 0], [0, 1]], [[1, 1], [0, 2]]]])  # two heads of 2 features, two tokens
    c = torch.tensor([[[1.0, 0, 2], [0, 1, 1]]])  # three latents a token
    U_k = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    U_v = torch.tensor([[2.0, 0, 1], [0, 4, 0], [1, 0, 3], [0, 5, 2]])
    sizes = [(2, 4, 6, 3, 5), (3, 2, 5, 7, 4), (1, 3, 4, 6, 8)]  # B, num_heads, T, head_dim, rank
    return [(q, c, U_k, U_v)] + [
        (draw(i, B, h, T, d), draw(10 + i, B, T, r), draw(20 + i, h * d, r), draw(30 + i, h * d, r))
        for i, (B, h, T, d, r) in enumerate(sizes)
    ]


def _builds_keys(trace: Trace) -> str:
    q, c = trace.inputs[0].shape, trace.inputs[1].shape
    full = torch.Size((*c[:2], q[1] * q[3]))
    return "keys or values of all heads" if any(call.made == tuple(full) for call in trace.calls) else ""


latent_heads = Exercise(
    task=(
        "Write latent_heads(q, c, U_k, U_v). q is (B, num_heads, T, head_dim), and c holds the latents, (B, T, rank). "
        "U_k and U_v, both (num_heads * head_dim, rank), turn latents into the keys and values of all heads. There is "
        "no mask. Return the heads' outputs, (B, num_heads, T, head_dim), without ever making a key or a value."
    ),
    answer=latent_heads_solution,
    plain=(_latent_heads_by_steps, _latent_heads_by_keys),
    cases=_latent_cases,
    axes=("sample", "head", "query", "feature"),
    hints=(
        "q · (U_k c) equals (q U_k) · c. Which of the two bracketed products can you compute before you touch the "
        "cache?",
        "Each head has its own rows of U_k: U_k.unflatten(0, (num_heads, head_dim)). Multiply q by them: (B, h, T, "
        "rank).",
        "Divide by the root of head_dim as before. Mix the latents, then apply each head's U_v to the mixture.",
    ),
    wrong={
        "The root of the latents": Wrong(
            Change("head_dim**0.5", "rank**0.5"),
            "the scores are divided by the root of rank, as F.scaled_dot_product_attention does by default.",
            "The scores are still sums over head_dim features, so pass scale=head_dim**-0.5.",
        ),
        "Not back from the latents": Wrong(
            lambda q, c, U_k, U_v: (
                (q @ U_k.unflatten(0, (q.shape[1], -1)) @ c[:, None].mT / q.shape[-1] ** 0.5).softmax(-1) @ c[:, None]
            ),
            "you stop at the mixture of latents, and U_v is never used.",
            "A head must pass on values, so multiply the mixture by the rows of U_v that belong to the head.",
        ),
        "No scale": Wrong(
            Change("scores / head_dim**0.5", "scores"),
            "you do not divide the scores.",
            "Divide by the root of head_dim, as you would with keys.",
        ),
        "Rows dealt out in turn": Wrong(
            Change(".reshape(num_heads, head_dim, rank)", ".reshape(head_dim, num_heads, rank).transpose(0, 1)"),
            "head i takes the rows i, i + h, i + 2h, … of U_k and U_v.",
            "The rows of a head are next to each other: unflatten(0, (num_heads, head_dim)).",
        ),
        "U_k and U_v exchanged": Wrong(
            Change("mixed @ up_v.transpose(1, 2)", "mixed @ up_k.transpose(1, 2)"),
            "you send the query through U_v, or the mixture through U_k.",
            "U_k goes with the query, and U_v with the mixture.",
            also=(Change("q @ up_k", "q @ up_v"), Change("(q, c, U_k, U_v)", "(q, c, U_v, U_k)")),
        ),
        "A causal mask": Wrong(
            Change("scores.softmax(-1)", "(scores + torch.full((T, T), -torch.inf).triu(1)).softmax(-1)"),
            "in your result, no query sees a later token.",
            "This task has no mask.",
        ),
    },
    see="Latent attention",
    remarks=(
        Asked("The task asks you to make no keys or values; your function makes {found}.", _builds_keys),
        Grows(
            lambda tokens=3, heads=4, samples=2: (
                draw(0, samples, heads, tokens, 2),
                draw(1, samples, tokens, 3),
                draw(2, heads * 2, 3),
                draw(3, heads * 2, 3),
            )
        ),
    ),
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


def _forgets(q, k, v, *past):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


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
        "Write cached_step(q, k, v, past_k, past_v). q, (B, num_heads, n, head_dim), holds the queries of n new "
        "tokens; k and v, (B, num_kv_heads, n, head_dim), hold their keys and values. past_k and past_v hold the "
        "keys and values of all earlier tokens (there may be none). Attend causally, and return the heads' outputs, "
        "(B, num_heads, n, head_dim)."
    ),
    answer=cached_step_solution,
    plain=(_cached_step_by_steps,),
    cases=_step_cases,
    axes=("sample", "head", "query", "feature"),
    hints=(
        (
            "There are three steps: join old and new along the token axis, share each KV head, and attend with the "
            "right mask."
        ),
        "Tokens are on axis 2, old before new. Neighbouring query heads share a KV head: use repeat_interleave or "
        "enable_gqa=True.",
        "The queries are at the last positions: use causal_mask(n, past + n), or causal_lower_right.",
    ),
    wrong={
        "Aligned at the top left": Wrong(
            Change(".tril(past)", ".tril()"),
            "the first new query sees only the first key, as with is_causal=True.",
            "The queries line up with the last keys: causal_mask(n, past + n).",
            also=(Change(".tril(past)", ".tril(0 if n > 1 else past)"),),
        ),
        "No mask": Wrong(
            Change(".tril(past)", ""),
            "each new query sees all new keys, even those after it.",
            "That is right for a single new token. Several at once need a causal mask.",
        ),
        "A mask only without a past": Wrong(
            Change(".tril(past)", ".tril(past + n if past else 0)"),
            "the first call gets its mask, but in a later call each new query sees all new keys, even those after it.",
            "That is right for one new token at a time. Several at once need causal_mask(n, past + n).",
        ),
        "One key too many": Wrong(
            Change(".tril(past)", ".tril(past + 1)"),
            "each query also sees the key after its own.",
            "The last key that query i may see is at index past + i: tril(past), as in causal_mask(n, past + n).",
        ),
        "The past counted on another axis": Wrong(
            Change(".tril(past)", ".tril(past_k.shape[1])"),
            "your mask uses the number of KV heads as the number of earlier tokens.",
            "past_k is (B, num_kv_heads, past, head_dim), so the earlier tokens are on axis 2.",
        ),
        "No new token but itself": Wrong(
            lambda q, k, v, *past: torch.cat(
                [cached_step_solution(*new, *past) for new in zip(*(x.split(1, 2) for x in (q, k, v)), strict=True)], 2
            ),
            "each new token sees the past and itself, but not the new tokens before it.",
            "A new token is in the past of the next one. In a loop, append its key and value before you go on.",
        ),
        "The past is forgotten": Wrong(
            _forgets,
            "the new tokens see only each other.",
            "Put the old keys and values first and the new ones after them, then use the mask causal_mask(n, past + "
            "n).",
            also=(
                Wrong(
                    lambda *x: cached_step_solution(*x) if x[0].shape[2] == 1 else _forgets(*x),
                    "where there are several new tokens, they see only each other.",
                    "They have a past as well: put the old keys and values first, and use causal_mask(n, past + n).",
                ),
            ),
        ),
        "The last query only": Wrong(
            lambda *x: cached_step_solution(*x)[:, :, -1:],
            "only the last new token gets a result.",
            "Generation needs no more than that, but the task asks for all n.",
        ),
        "Masked after the softmax": Wrong(
            Change(
                "scores.masked_fill(~mask, -torch.inf)\n    weights = scores.softmax(-1)",
                "scores.softmax(-1)\n    weights = scores * mask",
            ),
            "hidden keys still take a share of the softmax, so rows no longer sum to 1.",
            "Set hidden scores to -inf before the softmax.",
        ),
        "New before old": Wrong(
            Change("group = ", "k, v = k.roll(n, 2), v.roll(n, 2)\n    group = "),
            "you put the new keys before the old ones, so the mask hides the wrong keys.",
            "The mask goes by position: old keys first, new keys after them.",
        ),
        "The new token itself is hidden": Wrong(
            Change(".tril(past)", ".tril(past - 1)"),
            "a query does not see its own key.",
            "Each token sees itself as well. Append first, then attend.",
            also=(
                Change(".tril(past)", ".tril(max(past - 1, 0))"),
                lambda *x: Change(".tril(past)", ".tril(past - 1)").of(_cached_step_by_steps)(*x).nan_to_num(),
            ),
        ),
        "Heads dealt out in turn": Wrong(
            Change("repeat_interleave(group, dim=1)", "repeat(1, group, 1, 1)"),
            "you repeat the KV heads as a, b, a, b.",
            "Neighbouring heads share a KV head: use repeat_interleave.",
        ),
        "No scale": Wrong(
            Change("scores / head_dim**0.5", "scores"),
            "you do not divide the scores by the root of head_dim.",
            "A cache does not change the formula.",
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
        in_float16,
    ),
)

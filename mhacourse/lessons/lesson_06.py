"""The exercises of lesson 06: calls that silently go wrong, torch's module called the right way, shared heads."""

import torch
from torch import nn

import mhalib
from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows, with_a_gradient

silent_calls = Choice(
    task=(
        "x is (3, 12, 512), three samples of 12 tokens, and mha = nn.MultiheadAttention(512, 8, batch_first=True). "
        "Which of the five lines raise no error, yet do not do what they are meant to? Give the letters of all of them."
    ),
    answer="ABE",
    options={
        "A": "without batch_first=True, torch mistakes samples for tokens, so samples attend to each other.",
        "B": "by default the heads are averaged, so you get one map for each sample.",
        "C": "a mask with three axes must be (B * num_heads, T, T), here (24, 12, 12), and torch says so.",
        "D": "512 features cannot be cut into seven equal heads, and torch says so.",
        "E": "forward() does not call the module's own hooks, so the hook sees nothing.",
    },
    hints=(
        "Two of the five raise an error. Try them.",
        "Three of the lesson's traps appear here, once each.",
        "Torch notices sizes that do not fit. It cannot notice that a default is not what you expect.",
    ),
    see="Three traps of the real modules",
)


def call_torch_solution(mha, x, mask):
    blocked = ~mask.repeat_interleave(mha.num_heads, dim=0)  # (B, T, T) -> (B * num_heads, T, T), True = blocked
    output, weights = mha(x, x, x, attn_mask=blocked, average_attn_weights=False)
    return output, weights  # (B, T, d_model), (B, num_heads, T, T)


def _call(mha, x, mask, **options):
    return mha(x, x, x, attn_mask=mask, **({"average_attn_weights": False} | options))


def _averaged_copies(mha, x, mask):
    output, weights = mha(x, x, x, attn_mask=~mask.repeat_interleave(mha.num_heads, 0))
    return output, weights[:, None].expand(-1, mha.num_heads, -1, -1)


def seeded(make):
    """Return the result of `make`, with the same weights on every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def identity(module):
    """Set every matrix of a layer, ours or torch's, to the identity, and have the example say so."""
    with torch.no_grad():
        for weight in module.parameters():
            eye = torch.eye(weight.shape[-1])
            weight.copy_(eye.repeat(len(weight) // len(eye), 1) if weight.ndim == 2 else torch.zeros(len(weight)))
    # An example names the type of a module.
    name = f"{type(module).__name__} with {module.num_heads} heads, each matrix the identity"
    module.__class__ = type(name, (type(module),), {})
    return module


def window(T, before, after):
    """Return a mask in which each token sees itself, `before` tokens before it and `after` tokens after it."""
    behind = torch.arange(T)[:, None] - torch.arange(T)
    return (behind <= before) & (behind >= -after)


def _torch_cases():
    x = torch.tensor([[[4.0, 0], [0, 1]]])
    cases = [(identity(nn.MultiheadAttention(2, 2, batch_first=True)), x, mhalib.causal_mask(2)[None])]
    some = mhalib.padding_mask(torch.tensor([5, 3]), 5) & mhalib.causal_mask(5)
    # Not causal, no padding: nothing that torch could be told in another way.
    windows = torch.stack([window(4, 1, 1), window(4, 0, 2), window(4, 2, 0)])
    for (B, T, num_heads, head_dim), mask in (((2, 5, 3, 4), some), ((3, 4, 2, 5), windows)):
        d_model = num_heads * head_dim
        mha = seeded(lambda d=d_model, h=num_heads: nn.MultiheadAttention(d, h, batch_first=True))
        cases.append((mha, draw(T, B, T, d_model), mask))
    return cases


call_torch = Exercise(
    task=(
        "Write call_torch(mha, x, mask), where mha is an nn.MultiheadAttention(batch_first=True). Run self-attention "
        "on x. The mask follows our convention: (B, T, T), True = may attend. Return the output and the weights of "
        "every head, (B, num_heads, T, T)."
    ),
    answer=call_torch_solution,
    cases=_torch_cases,
    axes={"output": ("sample", "token", "feature"), "weights": ("sample", "head", "query", "key")},
    hints=(
        "There are three traps: what True means, how often each mask appears, and which weights come back.",
        "attn_mask is (B * num_heads, T, T). True means blocked, and sample 0 comes first, with all its heads.",
        "average_attn_weights=False returns one map for each head.",
    ),
    wrong={
        "The polarity": Wrong(
            Change("~mask", "mask"),
            "True still means may attend, so the module looks at exactly what it must not see.",
            "Give it ~mask: in nn.MultiheadAttention, True means blocked.",
        ),
        "No mask": Wrong(
            lambda mha, x, mask: mha(x, x, x, average_attn_weights=False),
            "you never pass the mask.",
            "Pass it as attn_mask, with True for what is blocked, and one mask for each head of each sample.",
        ),
        "One mask for each sample": Wrong(
            lambda mha, x, mask: mha(x, x, x, attn_mask=~mask, average_attn_weights=False),
            "torch wants a mask for each head of each sample, (B · num_heads, T, T); you pass one for each sample.",
            "Repeat it: repeat_interleave(mha.num_heads, dim=0).",
        ),
        "Averaged maps": Wrong(
            Change("average_attn_weights=False", "average_attn_weights=True"),
            "the output is right, but the weights are the mean over the heads, a map that no head has.",
            "Use average_attn_weights=False.",
            also=(_averaged_copies,),
        ),
        "Another sample's mask": Wrong(
            lambda a, x, m: _call(a, x, ~m.repeat(a.num_heads, 1, 1)),
            "repeat gives a, b, a, b, but the module expects a, a, b, b.",
            "Use repeat_interleave(num_heads, dim=0).",
        ),
        "One mask for all": Wrong(
            lambda a, x, m: _call(a, x, ~m[0]),
            "every sample gets the same mask.",
            "Repeat each sample's mask for all its heads.",
            also=(lambda a, x, m: _call(a, x, ~m.any(0)),),
        ),
        "Ones that are added": Wrong(
            lambda a, x, m: _call(a, x, m.repeat_interleave(a.num_heads, 0).float()),
            "a mask of floats is added to the scores, and adding 0 or 1 hides nothing.",
            "Keep it boolean.",
            also=(lambda a, x, m: _call(a, x, (~m).repeat_interleave(a.num_heads, 0).float()),),
        ),
        "As padding": Wrong(
            lambda a, x, m: a(x, x, x, key_padding_mask=~m, average_attn_weights=False),
            "key_padding_mask is (B, T), one row for all queries of a sample, but your mask has a row for each query.",
            "Pass it as attn_mask, which has a row for each query, and repeat it for each head.",
        ),
        "The keys that the last query may not see": Wrong(
            lambda a, x, m: a(x, x, x, key_padding_mask=~m[:, -1], average_attn_weights=False),
            "every query gets the mask of its sample's last query.",
            "key_padding_mask has one row for each sample. A mask that differs between queries goes into attn_mask.",
            also=(
                Wrong(
                    lambda a, x, m: a(x, x, x, key_padding_mask=~m.any(1), average_attn_weights=False),
                    "you hide only keys that no query may see, and you hide them from every query.",
                    "A mask that differs between queries goes into attn_mask, which has a row for each query.",
                ),
            ),
        ),
        "is_causal alone": Wrong(
            lambda a, x, m: a(x, x, x, is_causal=True, average_attn_weights=False),
            "is_causal only tells the module that attn_mask is causal. It makes no mask, and yours need not be causal.",
            "Pass the mask itself as attn_mask, and leave out is_causal.",
        ),
        "No weights": Wrong(
            lambda a, x, m: _call(a, x, ~m.repeat_interleave(a.num_heads, 0), need_weights=False),
            "need_weights=False returns None for the weights.",
            "Leave need_weights at its default, True.",
        ),
    },
    see="Which weights come back?",
)


def share_heads_solution(k, num_heads):
    times = num_heads // k.shape[1]
    return k.repeat_interleave(times, dim=1)  # (B, num_kv_heads, T, head_dim) -> (B, num_heads, T, head_dim)


def _kv_labels(B, heads, T, head_dim):
    """Return `(B, heads, T, head_dim)` with the labels `1000·sample + 100·head + 10·token + feature`."""
    samples, numbers = torch.arange(B)[:, None, None, None], torch.arange(heads)[:, None, None]
    return (1000 * samples + 100 * numbers + 10 * torch.arange(T)[:, None] + torch.arange(head_dim)).float()


share_heads = Exercise(
    task=(
        "Write share_heads(k, num_heads), which lets neighbouring query heads share a key head, as num_kv_heads does: "
        "(B, num_kv_heads, T, head_dim) -> (B, num_heads, T, head_dim)."
    ),
    answer=share_heads_solution,
    cases=lambda: [
        (_kv_labels(1, 2, 1, 3), 4),
        (_kv_labels(5, 2, 3, 7), 8),
        (_kv_labels(4, 3, 5, 7), 6),
        (draw(0, 2, 3, 7, 5), 12),
        (draw(1, 2, 3, 4, 5), 3),  # as many KV heads as query heads
        (draw(2, 2, 1, 4, 3), 5),  # one for all
    ],
    axes=("sample", "head", "token", "feature"),
    hints=(
        "With two key heads and four query heads, heads 0 and 1 use the first, and heads 2 and 3 use the second.",
        "Which one makes a, a, b, b: repeat or repeat_interleave? You needed it for masks in lesson 04.",
    ),
    wrong={
        "Every other head": Wrong(
            lambda k, h: k.repeat(1, h // k.shape[1], 1, 1),
            "your heads are ordered a, b, a, b.",
            "Neighbours share a head, as in a, a, b, b, so use repeat_interleave. Trained weights expect that order.",
        ),
        "One of each group alone": Wrong(
            lambda k, h: torch.zeros(len(k), h, *k.shape[2:]).index_copy(1, torch.arange(0, h, h // k.shape[1]), k),
            "the first head of each group gets the key head, but the others get zeros.",
            "All heads of a group share one key head: repeat_interleave gives each of them a copy.",
        ),
        "Samples repeated": Wrong(
            Change("k.repeat_interleave(times, dim=1)", "k.repeat_interleave(times, dim=0)"),
            "every sample appears several times.",
            "Heads are on axis 1: dim=1.",
            also=(lambda k, h: k.repeat(h // k.shape[1], 1, 1, 1),),
        ),
        "Tokens repeated": Wrong(
            lambda k, h: k.repeat(1, 1, h // k.shape[1], 1).transpose(1, 2).reshape(len(k), h, *k.shape[2:]),
            "you repeat the tokens, and then a reshape cuts them into heads, so tokens and heads get mixed up.",
            "Repeat whole heads, along axis 1, and there is nothing to reshape.",
        ),
        "One head for all": Wrong(
            lambda k, h: k[:, :1].expand(-1, h, -1, -1),
            "you use only the first key head.",
            "Each key head serves num_heads // num_kv_heads query heads.",
        ),
        "Too many heads": Wrong(
            Change("num_heads // k.shape[1]", "num_heads"),
            "you repeated each head num_heads times.",
            "There are already num_kv_heads key heads, so repeat each one num_heads // num_kv_heads times.",
        ),
        "Expanded as it is": Wrong(
            lambda k, h: k.expand(-1, h, -1, -1),
            "expand repeats only an axis of length 1, but there are several key heads.",
            "Copy each head with repeat_interleave, or insert an axis of length 1 after the head axis and expand it.",
        ),
        "Divided by the number of KV heads": Wrong(
            lambda k, h: k[:, torch.arange(h) // k.shape[1]],
            "query head i uses key head i // num_kv_heads, so num_kv_heads neighbours form a group.",
            "A group has num_heads // num_kv_heads neighbours: use key head i // (num_heads // num_kv_heads).",
            also=(
                lambda k, h: k[:, (torch.arange(h) // k.shape[1]).clamp(max=k.shape[1] - 1)],
                lambda k, h: k[:, torch.arange(h) // k.shape[1] % k.shape[1]],
            ),
        ),
        "Spread by linspace": Wrong(
            lambda k, h: k[:, torch.linspace(0, k.shape[1] - 1, h).long()],
            "your indices rise evenly from the first key head to the last and are rounded down, so the last key head "
            "serves a single query head.",
            "Each key head must serve equally many: use i // (num_heads // num_kv_heads), or repeat_interleave.",
        ),
        "The heads averaged": Wrong(
            lambda k, h: k.unflatten(1, (-1, h // k.shape[1])).mean(2),
            "you average neighbouring key heads into one. That makes fewer heads, but you need more.",
            "Copy each key head for the num_heads // num_kv_heads query heads that share it.",
        ),
        "Pieces of another axis": Wrong(
            lambda k, h: k.repeat_interleave(h // k.shape[1], 2).reshape(k.shape[0], h, *k.shape[2:]),
            "you put the copies after the token axis, so when you join axes, each head gets pieces of several tokens.",
            "Put the copies right after the heads, (B, num_kv_heads, times, T, head_dim), then flatten(1, 2).",
        ),
        "An axis left over": Wrong(
            lambda k, h: k[:, :, None].expand(-1, -1, h // k.shape[1], -1, -1),
            "the copies are still on a separate axis.",
            "Join that axis with the head axis: flatten(1, 2).",
        ),
    },
    see="The options in one glance",
    remarks=(
        Grows(lambda heads=4, samples=2, tokens=3: (draw(0, samples, 2, tokens, 2), heads)),
        with_a_gradient,
    ),
)

"""What the error model says of answers by hand: one mistake, in another style than the solution, gets its words."""

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

from mhalib.checks import check

pytestmark = pytest.mark.usefixtures("one_thread")


def split(x, h):
    return rearrange(x, "b t (h d) -> b h t d", h=h)


def merge(x):
    return rearrange(x, "b h t d -> b t (h d)")


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


def window(condition):
    return lambda T, width: torch.tensor([[condition(i - j, width) for j in range(T)] for i in range(T)])


def padded(condition):
    return lambda lens, n: torch.tensor([[condition(key, length) for key in range(n)] for length in lens.tolist()])


def of_the_subdiagonal(f):
    return lambda maps: torch.stack([f(torch.stack([m[i + 1, i] for i in range(len(m) - 1)])) for m in maps])


def averaged(over, only=True):
    def answer(heads, head):
        means = [x.mean(over, keepdim=True).expand_as(x) for x in heads.unbind(1)]
        return torch.stack([mean if i == head or not only else heads[:, i] for i, mean in enumerate(means)], 1)

    return answer


def pooled(f):
    return lambda w, h, kv: f(rearrange(w, "(k g d) m -> k g d m", k=kv, g=h // kv)).flatten(0, 1)


SAID = [
    ("split_heads", lambda x, h: torch.stack([*reversed(x.chunk(h, -1))], 1), "heads from the last to the first"),
    ("split_heads", lambda x, h: split(x, h)[:, :1], "for the first head alone"),
    ("split_heads", lambda x, h: split(x, h).mT, "Tokens and features exchanged"),
    ("split_heads", one_head_short, "the last round left out of the loop"),
    ("merge_heads", lambda x: torch.cat([*reversed(x.unbind(1))], -1), "from the last to the first"),
    ("merge_heads", lambda x: rearrange(x, "b h t d -> b h (t d)"), "Tokens joined with features"),
    ("merge_heads", lambda x: torch.einsum("bhtd->btd", x), "Added, not joined"),
    ("merge_heads", lambda x: rearrange(x, "b h t d -> b t (d h)"), "Features before heads"),
    (
        "fold_heads",
        lambda x, h: torch.cat([torch.stack(s.chunk(h, -1)[::-1]) for s in x]),
        "from the last to the first",
    ),
    ("attend", lambda q, k, v: torch.sigmoid(maps_of(q, k)) @ v, "with sigmoid in the place of softmax"),
    ("attend", lambda q, k, v: (maps_of(q, k) * q.shape[-1]).softmax(-1) @ v, "Multiplied by the root"),
    (
        "attend",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=1 / q.size(-1)),
        "without the root",
    ),
    ("attend", lambda q, k, v: F.scaled_dot_product_attention(q, k, v).mean(1), "takes the mean over the heads"),
    ("attend", lambda q, k, v: F.scaled_dot_product_attention(q, k, v.flip(2)), "from the last to the first"),
    ("stable_softmax", powers_of_two, "with exp2 in the place of exp"),
    ("stable_softmax", lambda s: F.softmin(s, dim=-1), "with the sign of scores turned"),
    ("window_mask", window(lambda d, width: 0 <= d <= width), "One token too many"),
    ("window_mask", window(lambda d, width: 0 < d < width), "One token too few"),
    ("window_mask", window(lambda d, width: d >= 0), "No end to the past"),
    ("torch_padding", padded(lambda key, length: key > length), "One key too few"),
    ("torch_padding", padded(lambda key, length: key >= length - 1), "The last word blocked"),
    (
        "masked_softmax",
        lambda s, m: s.where(m[:, None], -torch.inf).softmax(2).nan_to_num(),
        "over the queries",
    ),
    ("fused_kv", lambda m, k, v: [torch.einsum("btd,do->bto", m, w) for w in (k, v)], "Not turned"),
    ("fused_kv", lambda m, k, v: (F.linear(m, k),) * 2, "with W_k in the place of W_v as well"),
    ("share_heads", lambda k, h: torch.stack([k[:, 0]] * h, 1), "One head for all"),
    ("mask_for_heads", lambda m, h: torch.stack([s for s in m for _ in range(h)]), "True = may attend"),
    ("one_map", lambda maps: sum(maps.unbind(1)), "The sum of the maps"),
    (
        "cosine_attention",
        lambda q, k, v, scale: (F.cosine_similarity(q[:, None], k[None], dim=-1) * scale).sigmoid() @ v,
        "with sigmoid in the place of softmax",
    ),
    ("own_matrices", lambda w, h: rearrange(w, "(p h d) m -> p h m d", p=3, h=h), "Turned"),
    ("pool_heads", pooled(lambda w: w.sum(1)), "The sum of the group"),
    ("pool_heads", pooled(lambda w: w.amax(1)), "with amax in the place of mean"),
    ("previous_token", of_the_subdiagonal(torch.max), "with amax in the place of mean"),
    ("previous_token", lambda maps: torch.stack([m.trace() / len(m) for m in maps]), "The token itself"),
    ("gate_slopes", lambda h, g: torch.einsum("bhtd,bhtd->bh", h, g).abs().sum(0), "The sum of the samples"),
    ("mean_head", averaged((0, 1), only=False), "All heads"),
    ("mean_head", averaged(1), "A mean for each sample"),
    ("switch_heads", lambda m, g: m * (1 - g).repeat_interleave(m.shape[-1] // len(g)), "The other way round"),
]


@pytest.mark.parametrize("name,answer,words", SAID)
def test_one_mistake_in_another_style_gets_its_words(name, answer, words):
    note = getattr(check, name)(answer)
    assert note.code.startswith("wrong: ") and words in note.code, note


# Right, however it is done.
RIGHT = [
    ("split_heads", lambda x, h: F.unfold(x.mT[:, :, None], (1, 1)).unflatten(1, (h, -1)).mT),
    ("merge_heads", lambda x: torch.einsum("bhtd,hk->btkd", x, torch.eye(x.shape[1])).flatten(2)),
    ("stable_softmax", lambda s: 1 / (s[..., None, :].double() - s[..., :, None].double()).exp().sum(-1)),
    ("window_mask", lambda T, width: torch.ones(T, T).tril().bool() & ~torch.ones(T, T).tril(-width).bool()),
]
# Wrong in a way that is no small edit of anything: other algorithms, several mistakes at once.
UNNAMED = [
    ("split_heads", lambda x, h: torch.fft.fft(split(x, h), dim=-1).real),
    ("merge_heads", lambda x: torch.linalg.qr(merge(x))[0]),
    ("torch_padding", padded(lambda key, length: key * 7 % 3 >= length % 2)),
    ("stable_softmax", lambda s: torch.erf(s - s.amax(-1, keepdim=True)) + 1),
    ("window_mask", lambda T, width: torch.tensor([[i * j % (width + 1) == 0 for j in range(T)] for i in range(T)])),
    ("own_matrices", lambda w, h: w.sort(0).values.unflatten(0, (3, h, -1))),
    ("gate_slopes", lambda h, g: (h * g.sin()).std((0, 2, 3))),
    ("one_map", lambda maps: torch.linalg.matrix_exp(maps.mean(1))),
    ("previous_token", lambda maps: torch.linalg.det(maps)),
    ("fused_kv", lambda m, k, v: (torch.sin(m @ k.T) + m, torch.cos(m @ v.T) * 3)),
]


@pytest.mark.parametrize("name,answer", RIGHT)
def test_a_right_answer_passes_however_it_is_done(name, answer):
    note = getattr(check, name)(answer)
    assert note.passed, note


@pytest.mark.parametrize("name,answer", UNNAMED)
def test_is_silent_about_what_is_no_small_edit(name, answer):
    note = getattr(check, name)(answer)
    assert not note.passed and not note.code.startswith("wrong"), note

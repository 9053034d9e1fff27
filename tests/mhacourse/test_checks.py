"""The exercises: right answers pass however they are written, known mistakes get their names, nothing else passes."""

import ast
import inspect
import math
import re
import sys

import nbformat
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn
from torch.nn.attention.bias import causal_lower_right

import mhalib
from mhalib.checks import check
from mhalib.checks.exercise import Choice
from mhalib.experiments import rotate
from mhalib.heads import alignment_agreement, induction_score, previous_token_score
from tests.helpers.mutants import mutants
from tools.notebooks.run import NOTEBOOKS
from tools.notebooks.which import lesson_files

EXERCISES = list(check)
FUNCTIONS = [exercise for exercise in EXERCISES if exercise.cases]
VALUES = [exercise for exercise in EXERCISES if not exercise.cases and not isinstance(exercise, Choice)]
CHOICES = [exercise for exercise in EXERCISES if isinstance(exercise, Choice)]
LESSONS = sorted({exercise.lesson for exercise in EXERCISES})


def each(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=[exercise.name for exercise in exercises])


@pytest.fixture(autouse=True)
def fresh(seeds):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors: sharing them costs more than it saves
    for exercise in EXERCISES:
        exercise.solved, exercise.hints_shown = False, 0
    yield
    torch.set_num_threads(threads)


def test_three_to_five_exercises_a_lesson():
    assert LESSONS == [path.stem[:2] for path in lesson_files(NOTEBOOKS)]
    counts = {lesson: sum(exercise.lesson == lesson for exercise in EXERCISES) for lesson in LESSONS}
    assert {lesson: n for lesson, n in counts.items() if not 3 <= n <= 5} == {}, "a lesson has three to five exercises"
    assert 25 <= sum(counts.values()) <= 70, "all lessons together have 25 to 70 exercises"


@each(EXERCISES)
def test_says_what_it_asks(exercise):
    assert exercise.task.endswith((".", "?")) and exercise.task in repr(exercise) and exercise.hints


@each(EXERCISES)
def test_sends_the_reader_to_a_heading_that_exists(exercise):
    (path,) = NOTEBOOKS.glob(f"{exercise.lesson}_*.ipynb")
    headings = re.findall(
        r"^#+ (.+)$",
        "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"),
        re.MULTILINE,
    )
    assert exercise.see in [heading.replace("`", "") for heading in headings]


# ------------------------------------------------------------------------------------------ right answers


@each(EXERCISES)
def test_the_solution_passes(exercise):
    note = exercise(exercise.answer)
    assert note.passed, note
    assert note.code == "right" and "1 of" in note.footer


@each(FUNCTIONS)
def test_the_solution_that_is_shown_passes_when_it_is_pasted(exercise):
    shown = next(text for label, text in exercise.solution().parts if label == "code")
    module = sys.modules[exercise.answer.__module__]
    # What stands in the library needs the names of its own module; the others those that their lesson imports.
    own = module.__name__.startswith("mhalib.checks")
    names = imported_by_the_lesson(exercise.lesson) if own else dict(vars(module))
    exec(shown, names)
    assert exercise(names[exercise.answer.__name__]).passed


def imported_by_the_lesson(number):
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    names = {}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code":
            code = re.sub(r"^\s*[%!].*$", "", cell.source, flags=re.MULTILINE)  # a line that only IPython can read
            imports = [node for node in ast.parse(code).body if isinstance(node, (ast.Import, ast.ImportFrom))]
            exec(compile(ast.Module(imports, []), str(path), "exec"), names)
    return names


def loop_attend(q, k, v):
    out = torch.zeros(*q.shape[:-1], v.shape[-1])
    for b in range(len(q)):
        for h in range(q.shape[1]):
            for t in range(q.shape[2]):
                shares = torch.stack([q[b, h, t] @ key for key in k[b, h]]).div(q.shape[-1] ** 0.5).softmax(0)
                out[b, h, t] = sum(share * value for share, value in zip(shares, v[b, h], strict=True))
    return out


def loop_split(x, num_heads):
    size = x.shape[-1] // num_heads
    return torch.stack([x[..., i * size : (i + 1) * size] for i in range(num_heads)], dim=1)


def fill_split(x, num_heads):
    B, T, d_model = x.shape
    heads = torch.zeros(B, num_heads, T, d_model // num_heads)
    for i, piece in enumerate(x.chunk(num_heads, -1)):
        heads[:, i] = piece
    return heads


def loop_merge(x):
    return torch.stack([torch.cat(list(token), -1) for token in x.transpose(1, 2).flatten(0, 1)]).unflatten(
        0, (len(x), -1)
    )


def change_one_token(merge):
    heads = torch.randn(2, 3, 4, 5)
    changed = heads.clone()
    changed[:, :, 2] += 1
    return (merge(changed) != merge(heads)).any(-1)[0].tolist() == [False, False, True, False]


def each_row_apart(merge):
    heads = torch.randn(1, 3, 5, 2)
    rows = merge(heads)[0].unbind(0)
    return all(torch.equal(row.sort().values, heads[0, :, t].flatten().sort().values) for t, row in enumerate(rows))


def count_pairs(f, T, d_model):
    x, pairs = torch.randn(1, T, d_model), 0
    for s in range(T):
        changed = x.clone()
        changed[0, s] = torch.randn(d_model)
        pairs += sum(bool((f(changed)[0, t] - f(x)[0, t]).abs().max() > 1e-6) for t in range(s))
    return pairs


def valid_softmax(scores, mask):
    weights = torch.where(mask.unsqueeze(1), scores, -torch.inf).softmax(dim=3)
    return torch.nan_to_num(weights)


def safe_softmax(scores, mask):
    allowed = scores.double().masked_fill(~mask[:, None], -torch.inf)
    powers = (allowed - allowed.amax(-1, keepdim=True).clamp(min=-1e30)).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def full_repair(layer, x, mask):
    return layer(x, mask=mask)


def count_one_by_one(f, d_model):
    d = torch.randn(d_model).double()
    tokens = torch.randn(50, d_model).double()
    rows = [(f(torch.stack([c, c + d])[None])[0, 1] - f(c[None, None])[0, 0]).detach() for c in tokens]
    sizes = torch.linalg.svdvals(torch.stack(rows))
    return (sizes > 1e-11 * sizes[0]).sum()


def count_from_behind(f, d_model):
    c, d = np.random.default_rng(1).normal(size=(2, 120, 1, d_model))
    pairs = torch.from_numpy(np.concatenate([c - d[:1], c], axis=1))
    moved = f(pairs)[:, 1].numpy() - f(pairs[:, 1:]).numpy()[:, 0]
    return int(np.linalg.matrix_rank(moved, tol=1e-8 * np.linalg.norm(moved)))


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
        query = q[:, :, i].unflatten(1, (-1, group))
        weights = ((query @ past_k.mT) / q.shape[-1] ** 0.5).softmax(-1)
        rows.append((weights @ past_v).flatten(1, 2))
    return torch.stack(rows, 2)


def loop_induction(maps, tokens):
    tokens, scores = tokens.tolist(), []
    for m in maps:
        rows = []
        for q, token in enumerate(tokens):
            behind = [k + 1 for k in range(q) if tokens[k] == token]
            if behind:
                rows.append(sum(m[q, k].item() for k in behind))
        scores.append(sum(rows) / len(rows))
    return torch.tensor(scores)


VARIANTS = {
    "first_shapes": [[[2, 4, 12, 16], [2, 4, 12, 12]], (torch.Size([2, 4, 12, 16]), torch.zeros(2, 4, 12, 12).shape)],
    "attention_maps": ["DB", ["B", "D"], {"b", "d"}, "B, D", "B and D", "(B; D)", "B/D", "b & d"],
    "most_looked_at": [
        lambda w: (w - torch.eye(w.shape[-1])).argmax(-1),
        lambda w: torch.where(torch.eye(w.shape[-1]) == 1, -torch.inf, w).max(-1).indices.int(),
        lambda w: torch.tensor(
            [
                [max((j for j in range(len(m)) if j != i), key=lambda j, m=m, i=i: m[i, j]) for i in range(len(m))]
                for m in w
            ]
        ),
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
        lambda m, k, v: (m @ k.T, m @ v.T),
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
        F.scaled_dot_product_attention,
        lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double()),
        lambda q, k, v: torch.einsum(
            "bhqk,bhkd->bhqd", torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5, dim=3), v
        ),
        lambda q, k, v: mhalib.scaled_dot_product_attention(q, k, v)[0],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v).mT.contiguous().mT,  # not contiguous
        lambda q, k, v: F.scaled_dot_product_attention(nn.Parameter(q), k, v),
    ],
    "stable_softmax": [
        lambda s: torch.softmax(s.double(), -1),
        lambda s: (s - s.max(dim=-1, keepdim=True).values).exp() / (s - s.max(-1, True)[0]).exp().sum(-1, True),
        lambda s: (s - s.logsumexp(-1, keepdim=True)).exp(),
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
        [[2.0, 3.0], [12.0, 13.0], [22.0, 23.0]],
    ],
    "split_heads": [
        loop_split,
        lambda x, h: x.view(*x.shape[:2], h, -1).transpose(1, 2),
        lambda x, h: x.reshape(x.shape[0], x.shape[1], h, x.shape[2] // h).permute(0, 2, 1, 3).contiguous(),
        lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=h),
        lambda x, h: torch.stack(x.chunk(h, -1), 1),
        lambda x, h: torch.from_numpy(x.numpy().reshape(*x.shape[:2], h, -1).swapaxes(1, 2)),
        lambda x, num_heads=1: mhalib.split_heads(x.double(), num_heads),
        fill_split,
    ],
    "merge_heads": [
        loop_merge,
        lambda x: x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1),
        lambda x: rearrange(x, "b h t d -> b t (h d)"),
        lambda x: torch.cat([x[:, i] for i in range(x.shape[1])], dim=-1),
    ],
    "fold_heads": [
        lambda x, h: mhalib.split_heads(x, h).reshape(-1, x.shape[1], x.shape[2] // h),
        lambda x, h: rearrange(x, "b t (h d) -> (b h) t d", h=h),
        lambda x, h: torch.stack([piece for sample in x for piece in sample.chunk(h, -1)]),
    ],
    "causal_maps": ["ca", ("A", "C")],
    "window_mask": [
        lambda T, width: torch.tensor([[0 <= i - j < width for j in range(T)] for i in range(T)]),
        lambda T, width: (d := torch.arange(T)[:, None] - torch.arange(T)).ge(0) & d.lt(width),
    ],
    "torch_padding": [
        lambda valid_lens, num_keys: ~mhalib.padding_mask(valid_lens, num_keys)[:, 0],
        lambda lens, n: torch.tensor([[key >= length for key in range(n)] for length in lens.tolist()]),
    ],
    "mask_for_heads": [
        lambda m, h: (~m[:, None]).expand(-1, h, -1, -1).flatten(0, 1),
        lambda m, h: torch.logical_not(repeat(m, "b q k -> (b h) q k", h=h)),
        lambda m, h: torch.stack([~sample for sample in m for _ in range(h)]),
    ],
    "masked_softmax": [
        valid_softmax,
        safe_softmax,
        lambda s, m: (lambda one: mhalib.scaled_dot_product_attention(s, one, one, m, scale=1.0)[1])(
            torch.eye(s.shape[-1]).expand(*s.shape[:2], -1, -1)
        ),
    ],
    "leaky_loss": [1.3863, 1.386, 1.39, 1.38, torch.tensor(16.0).log() / 2],
    "keeps_tokens_apart": [change_one_token, lambda merge: torch.tensor(change_one_token(merge)), each_row_apart],
    "by_heads": [
        lambda x, w: F.linear(mhalib.merge_heads(x), w),
        lambda x, w: torch.einsum("bhtd,ohd->bto", x, w.unflatten(1, (x.shape[1], -1))),
        lambda x, w: (x.double() @ w.double().unflatten(1, (x.shape[1], -1)).permute(1, 2, 0)).sum(1),
    ],
    "future_pairs": [count_pairs, lambda f, T, d: torch.tensor(count_pairs(f, T, d))],
    "tests_that_see": ["CD", ["d", "c"]],
    "call_torch": [
        lambda a, x, m: tuple(
            a(x, x, x, attn_mask=~m[:, None].expand(-1, a.num_heads, -1, -1).flatten(0, 1), average_attn_weights=False)
        ),
        lambda a, x, m: a(
            x,
            x,
            x,
            attn_mask=torch.zeros(m.shape).masked_fill(~m, -torch.inf).repeat_interleave(a.num_heads, 0),
            average_attn_weights=False,
        ),
    ],
    "share_heads": [
        lambda k, h: k[:, :, None].expand(-1, -1, h // k.shape[1], -1, -1).flatten(1, 2),
        lambda k, h: torch.stack([k[:, i * k.shape[1] // h] for i in range(h)], 1),
        lambda k, h: repeat(k, "b g t d -> b (g n) t d", n=h // k.shape[1]),
    ],
    "count_heads": [count_one_by_one, count_from_behind],
    "repaired": [full_repair, lambda layer, x, mask: layer.double()(x.double(), mask=mask)],
    "layer_bill": [[1769472, 2304, 589824, 768], torch.tensor([3 * 768**2, 3 * 768, 768**2, 768])],
    "breaks_tie": ["edb", "B, D and E"],
    "own_matrices": [
        lambda w, h: w.view(3, h, w.shape[1] // h, w.shape[1]),
        lambda w, h: rearrange(w, "(p h d) m -> p h d m", p=3, h=h),
        lambda w, h: torch.stack([torch.stack(part.chunk(h)) for part in w.chunk(3)]),
    ],
    "masked_heads": [
        lambda q, k, v, h: mhalib.merge_heads(
            F.scaled_dot_product_attention(*(mhalib.split_heads(x, h) for x in (q, k, v)))
        ),
        lambda q, k, v, h: torch.cat(
            [F.scaled_dot_product_attention(*x) for x in zip(*(y.chunk(h, -1) for y in (q, k, v)), strict=True)], -1
        ),
        masked_keys,
    ],
    "heads_do_not_matter": ["BDE", ["b", "d", "e"], "B, D and E"],
    "rank_of_scores": [[16, 10], torch.tensor([16, 10]), (torch.tensor(16), 10)],
    "one_map": [
        lambda maps: F.normalize(maps.prod(1) ** (1 / math.sqrt(maps.shape[1])), p=1, dim=-1),
        lambda maps: torch.softmax(sum(maps.double().log().unbind(1)) / maps.shape[1] ** 0.5, 2),
    ],
    "key_gradient": [
        lambda x, dS, W_q: (
            torch.einsum(
                "btm,bthd->mhd", x, torch.einsum("bhij,bhid->bjhd", dS, mhalib.split_heads(x @ W_q, dS.shape[1]))
            ).flatten(1)
            * (dS.shape[1] / W_q.shape[0]) ** 0.5
        ),
        key_gradient_by_autograd,
    ],
    "wide_bill": [[36864, 221184], torch.tensor([4 * 96**2, 4 * 6 * 96**2])],
    "fair_comparison": ["dba", "A, B and D"],
    "fold_keys": [
        lambda W_q, W_k, h: torch.stack([q @ k.T for q, k in zip(W_q.chunk(h, 1), W_k.chunk(h, 1), strict=True)]),
        lambda W_q, W_k, h: torch.einsum("ihx,jhx->hij", W_q.unflatten(1, (h, -1)), W_k.unflatten(1, (h, -1))),
    ],
    "what_maps_tell": ["da", "A and D"],
    "previous_token": [
        lambda maps: torch.tensor([sum(m[i, i - 1] for i in range(1, len(m))) / (len(m) - 1) for m in maps]),
        lambda maps: maps[:, 1:, :-1].diagonal(dim1=1, dim2=2).double().mean(1),
        lambda maps: previous_token_score(maps),
    ],
    "induction": [
        loop_induction,
        lambda maps, tokens: induction_score(maps, tokens),
    ],
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
        lambda merged, gates: merged * gates.repeat_interleave(merged.shape[-1] // len(gates)),
        lambda m, g: torch.cat([part * gate for part, gate in zip(m.chunk(len(g), -1), g, strict=True)], -1),
        lambda m, g: rearrange(
            rearrange(m, "b t (h d) -> b h t d", h=len(g)) * g[:, None, None], "b h t d -> b t (h d)"
        ),
    ],
    "mean_head": [
        lambda heads, head: torch.stack(
            [x.mean((0, 1)).expand_as(x) if i == head else x for i, x in enumerate(heads.unbind(1))], 1
        ),
        lambda heads, head: torch.where(
            (torch.arange(heads.shape[1]) == head)[:, None, None], heads.double().mean((0, 2), keepdim=True), heads
        ),
    ],
    "gate_slopes": [
        lambda heads, grads: torch.einsum("bhtd,bhtd->bh", heads, grads).abs().mean(dim=0),
        lambda heads, grads: torch.stack([(a * b).sum((1, 2)).abs() for a, b in zip(heads, grads, strict=True)]).mean(
            0
        ),
    ],
    "cut_heads": [
        lambda q, k, v, o, keep: (
            *(W.unflatten(0, (len(keep), -1))[keep].flatten(0, 1) for W in (q, k, v)),
            o.unflatten(1, (len(keep), -1))[:, keep].flatten(1),
        ),
        lambda q, k, v, o, keep: [
            torch.cat([part for part, on in zip(W.chunk(len(keep), axis), keep, strict=True) if on], axis)
            for W, axis in ((q, 0), (k, 0), (v, 0), (o, 1))
        ],
    ],
    "cache_size": [[192 * 2**20, 48 * 2**20], torch.tensor([201_326_592, 50_331_648])],
    "new_query_masks": ["feca", ["A", "C", "E", "F"], "A, C, E and F"],
    "pool_heads": [
        lambda w, h, kv: torch.cat([torch.stack(part.chunk(h // kv)).mean(0) for part in w.chunk(kv)]),
        lambda w, h, kv: rearrange(w, "(kv g d) m -> g (kv d) m", kv=kv, g=h // kv).mean(0),
        lambda w, h, kv: w.double().view(kv, h // kv, -1, w.shape[1]).sum(1).reshape(-1, w.shape[1]) / (h // kv),
    ],
    "cached_step": [
        lambda q, k, v, pk, pv: F.scaled_dot_product_attention(
            q,
            torch.cat([pk, k], 2),
            torch.cat([pv, v], 2),
            attn_mask=causal_lower_right(q.shape[2], pk.shape[2] + k.shape[2]),
            enable_gqa=True,
        ),
        one_query_at_a_time,
    ],
    "layout_parts": ["eba", ["A", "B", "E"], "A, B and E"],
    "packed_positions": [
        lambda text: torch.stack(
            [torch.cat([torch.arange(n) for n in row.unique_consecutive(return_counts=True)[1]]) for row in text]
        ),
        lambda text: (text[:, :, None] == text[:, None, :]).cumsum(-1).diagonal(dim1=-2, dim2=-1) - 1,
    ],
    "rows_to_neighbours": [
        lambda w, h: rearrange(w, "(h two d) m -> (h d two) m", h=h, two=2),
        lambda w, h: w[rearrange(torch.arange(len(w)), "(h two d) -> (h d two)", h=h, two=2)],
        lambda w, h: torch.cat([torch.stack(head.chunk(2), 1).flatten(0, 1) for head in w.chunk(h)]),
    ],
    "turned_pairs": [
        lambda x, p: rotate(x, p),
        turned_as_complex,
    ],
    "bug_or_not": ["ed", ["D", "E"], "D and E"],
    "quiet_softmax": [
        lambda s: s.softmax(-1) * s.logsumexp(-1, keepdim=True).sigmoid(),
        lambda s: torch.cat([s, torch.zeros_like(s[..., :1])], -1).softmax(-1)[..., :-1],
    ],
    "normed_scores": [
        lambda q, k, gain: F.cosine_similarity(q[..., :, None, :], k[..., None, :, :], dim=-1) * gain,
        lambda q, k, gain: gain * (q @ k.mT) / (q.norm(dim=-1)[..., None] * k.norm(dim=-1)[..., None, :]),
    ],
    "mean_share": [
        lambda w, m: torch.einsum("bhqk->hk", w) / torch.einsum("bqk->k", m.float()).clamp(min=1),
        lambda w, m: (w.flatten(2).sum(0).view(w.shape[1:]).sum(1) / m.flatten(0, 1).sum(0)).nan_to_num(),
    ],
    "value_path": [
        lambda f, n: (
            torch.stack([f(e[None, None])[0, 0] - f(torch.zeros(1, 1, n))[0, 0] for e in torch.eye(n)], 1),
            f(torch.zeros(1, 1, n)).flatten(),
        ),
        lambda f, n: [
            f(torch.eye(n)[:, None]).squeeze(1).T - f(torch.zeros(1, 1, n))[0].T,
            f(torch.zeros(1, 1, n))[0, 0],
        ],
    ],
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
        lambda k, mix: torch.einsum("hij,hid->hjd", torch.linalg.inv(mix), k.unflatten(0, (len(mix), -1))).flatten(
            0, 1
        ),
    ],
}


@pytest.mark.parametrize("name,number", [(name, n) for name, answers in VARIANTS.items() for n in range(len(answers))])
def test_every_right_way_passes(name, number):
    note = getattr(check, name)(VARIANTS[name][number])
    assert note.passed, note


def test_right_ways_are_tried_for_every_exercise():
    assert set(VARIANTS) == {exercise.name for exercise in EXERCISES}


# ------------------------------------------------------------------------------------------ wrong answers


@each(FUNCTIONS)
def test_a_function_exercise_knows_several_mistakes(exercise):
    assert len(exercise.wrong) >= 3


@each([*FUNCTIONS, *VALUES])
def test_every_known_mistake_gets_its_own_name(exercise):
    for name, wrong in exercise.wrong.items():
        for answer in (wrong.answer, *wrong.also):
            note = exercise(exercise.made(answer))
            assert note.code == f"wrong: {name}", note
            text = repr(note)
            assert not note.passed and wrong.what in text and wrong.why in text and exercise.see in text
    assert not exercise.solved


def in_place(scores, mask):
    scores += torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)[:, None]
    return scores.softmax(-1).nan_to_num()


def four_axes(mask, num_heads):
    return mask[:, None].expand(-1, num_heads, -1, -1).flatten(0, 1)


# The same mistakes, written in other ways than in the catalogue.
SPELLINGS = [
    ("most_looked_at", "The word itself counts", lambda w: w.topk(1).indices.squeeze(-1)),
    ("most_looked_at", "The word itself counts", lambda w: w.sort(-1, descending=True).indices[:, :, 0]),
    ("fused_kv", "k and v exchanged", lambda m, k, v: (F.linear(m, v), F.linear(m, k))),
    ("fused_kv", "Not turned", lambda m, k, v: (m @ k, m @ v)),
    ("attend", "No scale", lambda q, k, v: torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k), -1) @ v),
    (
        "attend",
        "No scale",
        lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=1.0),
    ),
    (
        "attend",
        "Divided by sqrt(d_model)",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=(q.size(1) * q.size(3)) ** -0.5),
    ),
    ("attend", "Softmax over the queries", lambda q, k, v: F.softmax(q / q.size(-1) ** 0.5 @ k.transpose(2, 3), 2) @ v),
    (
        "attend",
        "Keys not turned",
        lambda q, k, v: torch.einsum("bhqd,bhdk->bhqk", q, k / q.size(-1) ** 0.5).softmax(-1) @ v,
    ),
    ("stable_softmax", "The recipe as it stands", lambda s: torch.exp(s) / torch.exp(s).sum(dim=-1, keepdim=True)),
    ("stable_softmax", "Changed in place", lambda s: s.sub_(s.max(-1, True).values).double().softmax(-1)),
    ("split_heads", "A view without a transpose", lambda x, h: x.view(x.size(0), h, -1, x.size(2) // h)),
    (
        "split_heads",
        "A view without a transpose",
        lambda x, h: rearrange(rearrange(x, "b t f -> b (t f)"), "b (h t d) -> b h t d", h=h, t=x.shape[1]),
    ),
    ("split_heads", "The transpose is missing", lambda x, h: rearrange(x, "b t (h d) -> b t h d", h=h)),
    ("split_heads", "Features dealt out in turn", lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h)),
    ("split_heads", "Heads before samples", lambda x, h: torch.stack(x.chunk(h, -1))),
    ("merge_heads", "No transpose", lambda x: x.contiguous().view(x.size(0), x.size(2), x.size(1) * x.size(3))),
    (
        "merge_heads",
        "The error that view raises",
        lambda x: x.permute(0, 2, 1, 3).view(x.size(0), -1, x.size(1) * x.size(3)),
    ),
    ("fold_heads", "One view", lambda x, h: x.view(-1, x.size(1), x.size(2) // h)),
    ("fold_heads", "Heads first", lambda x, h: torch.cat(x.chunk(h, -1))),
    ("window_mask", "Both sides", lambda T, w: (torch.arange(T)[:, None] - torch.arange(T)).abs() < w),
    (
        "window_mask",
        "True = blocked",
        lambda T, w: torch.tensor([[not 0 <= i - j < w for j in range(T)] for i in range(T)]),
    ),
    ("torch_padding", "True = may attend", lambda lens, n: mhalib.padding_mask(lens, n).squeeze(1)),
    ("mask_for_heads", "Another sample's mask", lambda m, h: torch.cat([~m] * h)),
    ("mask_for_heads", "True = may attend", four_axes),
    (
        "masked_softmax",
        "An average of what is forbidden",
        lambda s, m: F.softmax(s.masked_fill(m.unsqueeze(1) == 0, -1e6), -1),
    ),
    ("masked_softmax", "The mask added", lambda s, m: (s - (~m).float()[:, None]).softmax(-1)),
    ("masked_softmax", "The caller's scores changed", in_place),
    (
        "keeps_tokens_apart",
        "Blind to a shift",
        lambda merge: (lambda x: merge(x[:, :, [2, 3, 4, 0, 1]]).equal(merge(x)[:, [2, 3, 4, 0, 1]]))(
            torch.randn(1, 2, 5, 3)
        ),
    ),
    (
        "keeps_tokens_apart",
        "Blind to a mirror",
        lambda merge: (lambda x: merge(x[:, :, [3, 2, 1, 0]]).equal(merge(x)[:, [3, 2, 1, 0]]))(
            torch.randn(1, 2, 4, 3)
        ),
    ),
    ("by_heads", "Merged without a transpose", lambda x, w: F.linear(x.reshape(x.size(0), x.size(2), -1), w)),
    (
        "call_torch",
        "The polarity",
        lambda a, x, m: a(x, x, x, attn_mask=four_axes(m, a.num_heads), average_attn_weights=False),
    ),
    ("call_torch", "Averaged maps", lambda a, x, m: a(x, x, x, attn_mask=four_axes(~m, a.num_heads))),
    ("share_heads", "Every other head", lambda k, h: torch.cat([k] * (h // k.shape[1]), 1)),
    (
        "count_heads",
        "Read at the first token",
        lambda f, n: (lambda x: torch.linalg.matrix_rank((f(x) - f(x[:, :1]))[:, 0]))(
            torch.stack([x := torch.randn(90, n).double(), x + torch.ones(n)], 1)
        ),
    ),
    (
        "count_heads",
        "Another d for every c",
        lambda f, n: (lambda x: torch.linalg.matrix_rank(f(x)[:, 1] - f(x[:, 1:])[:, 0], rtol=1e-10))(
            torch.randn(90, 2, n).double()
        ),
    ),
    ("count_heads", "One c only", lambda f, n: 1),
    (
        "pool_heads",
        "Every other head",
        lambda w, h, kv: rearrange(w, "(g k d) m -> g (k d) m", k=kv, g=h // kv).mean(0),
    ),
    ("pool_heads", "The mean inside a head", lambda w, h, kv: w.reshape(-1, h // kv, w.shape[1]).sum(1) / (h // kv)),
    (
        "previous_token",
        "The last token before the first",
        lambda maps: torch.stack([sum(m[i, i - 1] for i in range(len(m))) / len(m) for m in maps]),
    ),
    ("switch_heads", "On or off only", lambda m, g: m * g.round().repeat_interleave(m.shape[-1] // len(g))),
    (
        "switch_heads",
        "Merged without a transpose",
        lambda m, g: (rearrange(m, "b t (h d) -> b h t d", h=len(g)) * g[:, None, None]).reshape(m.shape),
    ),
    (
        "gate_slopes",
        "The absolute value too early",
        lambda h, g: torch.einsum("bhtd,bhtd->bht", h, g).abs().sum(2).mean(0),
    ),
    (
        "aligned",
        "Only keys that have a partner",
        lambda maps, alignment: alignment_agreement(
            (maps * alignment.any(0)) / (maps * alignment.any(0)).sum(-1, keepdim=True), alignment
        ),
    ),
    ("cut_heads", "Rows of W_o", lambda *a: [W[a[4].repeat_interleave(len(a[0]) // len(a[4]))] for W in a[:4]]),
    (
        "cached_step",
        "A mask only without a past",
        lambda q, k, v, pk, pv: F.scaled_dot_product_attention(
            q, torch.cat([pk, k], 2), torch.cat([pv, v], 2), is_causal=pk.shape[2] == 0, enable_gqa=True
        ),
    ),
    (
        "cached_step",
        "Aligned at the top left",
        lambda q, k, v, pk, pv: F.scaled_dot_product_attention(
            q, torch.cat([pk, k], 2), torch.cat([pv, v], 2), is_causal=True, enable_gqa=True
        ),
    ),
    (
        "cached_step",
        "No mask",
        lambda q, k, v, pk, pv: F.scaled_dot_product_attention(
            q, torch.cat([pk, k], 2), torch.cat([pv, v], 2), enable_gqa=True
        ),
    ),
    ("quiet_softmax", "Overflow", lambda s: s.exp() / s.exp().sum(-1, keepdim=True).add(1)),
    (
        "normed_scores",
        "Over the tokens",
        lambda q, k, g: g * (q / q.norm(dim=2, keepdim=True)) @ (k / k.norm(dim=2, keepdim=True)).mT,
    ),
    ("mean_share", "All queries count", lambda w, m: w.flatten(2).mean(0).view(w.shape[1:]).sum(1) / w.shape[2]),
    (
        "value_path",
        "Columns as rows",
        lambda f, n: (f(torch.eye(n)[:, None])[:, 0] - f(torch.zeros(1, 1, n))[0], f(torch.zeros(1, 1, n))[0, 0]),
    ),
    ("walk_steps", "From the start", lambda m: m.diff(dim=0)[m.diff(dim=0).norm(dim=1) > 1e-2].cumsum(0)),
    ("looks_from_outside", "Only dot products", lambda m, w: torch.einsum("nd,hd->nh", m, w)),
    ("twin_keys", "Not transposed", lambda k, mix: torch.block_diag(*mix).inverse() @ k),
    ("twin_keys", "The same change again", lambda k, mix: torch.block_diag(*mix) @ k),
    ("own_matrices", "Heads before q, k, v", lambda w, h: rearrange(w, "(h p d) m -> p h d m", p=3, h=h)),
    (
        "masked_heads",
        "One map for all",
        lambda q, k, v, h: F.scaled_dot_product_attention(q, k, v, scale=(h / q.size(-1)) ** 0.5),
    ),
]


@pytest.mark.parametrize("name,mistake,answer", SPELLINGS)
def test_a_known_mistake_is_recognised_however_it_is_written(name, mistake, answer):
    note = getattr(check, name)(answer)
    assert note.code == f"wrong: {mistake}", note


@each(FUNCTIONS)
def test_a_known_mistake_comes_with_an_example(exercise):
    for wrong in exercise.wrong.values():
        text = repr(exercise(exercise.made(wrong.answer)))
        assert "For example:" in text and ("It stopped:" in text or "expected: " in text and "got:      " in text)


@each(CHOICES)
def test_every_option_has_its_reason(exercise):
    letters = set(exercise.answer)
    for letter, reason in exercise.options.items():
        note = exercise(letters ^ {letter})
        assert note.code == f"wrong: {'not ' + letter if letter not in letters else letter + ' as well'}"
        assert reason in repr(note)
    assert exercise("Z").code == exercise(5).code == "type" and not exercise("").passed


@each(EXERCISES)
def test_changed_answers_never_pass(exercise, monkeypatch):
    monkeypatch.setattr("mhalib.checks.judge.find", lambda *_: None)  # the error model has tests of its own
    tried = 0
    for what, mutant in mutants(exercise):
        note = exercise(mutant)
        assert not note.passed, f"{what} passes"
        assert note.code != "stub", what
        tried += 1
    assert tried >= (8 if exercise.cases else 5)


# -------------------------------------------------------------------------------------------------- stubs


def stub(*arguments):
    """Only a docstring, and the dots."""
    ...


def empty(*arguments):
    pass


@each(EXERCISES)
def test_an_untouched_stub_is_no_mistake(exercise):
    for note in [
        exercise(...),
        exercise(None),
        exercise(),
        *([exercise(stub), exercise(empty)] if exercise.cases else []),
    ]:
        assert note.code == "stub" and not note.passed and exercise.name in repr(note) and ".hint()" in repr(note)


def test_code_that_is_given_counts_as_untouched():
    (exercise,) = [exercise for exercise in FUNCTIONS if exercise.given]
    assert exercise(exercise.given).code == "stub"


def test_the_stubs_that_the_lessons_ship_are_stubs():
    for exercise in FUNCTIONS:
        names = inspect.signature(exercise.answer).parameters
        space = {}
        exec(f"def mine({', '.join(names)}):\n    ...  # a comment", space)
        assert exercise(space["mine"]).code == "stub"


# ------------------------------------------------------------------------------------- hints and progress


@each(EXERCISES)
def test_hints_come_one_at_a_time_and_then_point_to_the_solution(exercise):
    for number in range(1, len(exercise.hints) + 1):
        text = repr(exercise.hint())
        assert sum(hint in text for hint in exercise.hints) == number
        assert (".solution()" in text) == (number == len(exercise.hints))
    assert repr(exercise.hint()) == text
    assert "solution" in exercise.solution().title


def test_solutions_of_the_library_are_shown_from_its_source():
    assert inspect.getsource(mhalib.split_heads) in [text for _, text in check.split_heads.solution().parts]
    assert "mhalib.attention.merge_heads" in repr(check.merge_heads.solution())


def test_progress_counts_the_exercises_of_the_lesson():
    assert check.split_heads(stub).footer == "Lesson 03: □□□□ 0 of 4"
    check.split_heads(mhalib.split_heads)
    check.split_heads(mhalib.split_heads)
    check.attend(F.scaled_dot_product_attention)
    assert check.merge_heads(mhalib.merge_heads).footer == "Lesson 03: ■■□□ 2 of 4"
    check.merge_heads(lambda x: x)
    assert "03  ■■□□ 2 of 4  head_one, split_heads" in repr(check)


def test_names_complete_and_are_corrected():
    assert dir(check) == sorted(exercise.name for exercise in check) and len(set(dir(check))) == len(EXERCISES)
    with pytest.raises(AttributeError, match=r"no exercise 'split_head'; did you mean check\.split_heads\?"):
        _ = check.split_head
    with pytest.raises(AttributeError, match="choose from .*split_heads, "):
        _ = check.xyzzy
    assert not hasattr(check, "_repr_html_") and not hasattr(check, "__wrapped__")

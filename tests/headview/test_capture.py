"""`capture` on layers and models of torch, of the course and as people write them, against softmax by hand."""

import gc
import itertools
import re
from collections import OrderedDict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from headview import Maps, capture, eye
from headview.capture_maps import Recorder
from headview.eye import Eye
from mhalib import MultiHeadAttention, causal_mask
from tests.helpers.refusals import accepted

pytestmark = pytest.mark.usefixtures("one_thread")

B, T, D, H = 2, 6, 16, 4
X = torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


class Fused(nn.Module):
    """Attention as people write it: one projection, then the fused kernel, or another way to say what the heads say."""

    def __init__(self, way=None, dropout=None, **settings):
        super().__init__()
        self.num_heads, self.way, self.settings = H, way, settings
        self.qkv, self.proj, self.dropout = nn.Linear(D, 3 * D), nn.Linear(D, D), dropout or nn.Identity()

    def forward(self, x, mask=None):
        q, k, v = map(heads, self.qkv(x).chunk(3, -1))
        if self.way:
            y = self.way(self, q, k, v)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.settings)
        return self.proj(y.transpose(1, 2).flatten(2))

    def weights(self, x, mask=None):
        """Return what the map must be."""
        q, k, _ = map(heads, self.qkv(x).chunk(3, -1))
        scores = q @ k.mT * self.settings.get("scale", 0.5)
        if self.settings.get("is_causal"):
            scores = scores.masked_fill(~causal_mask(T), -torch.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(-1).nan_to_num(0.0).detach()


def by_hand(layer, q, k, v):
    """As nanoGPT without the kernel."""
    att = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
    if layer.settings.get("is_causal"):
        att = att.masked_fill(torch.tril(torch.ones(T, T))[None, None] == 0, float("-inf"))
    return layer.dropout(F.softmax(att, dim=-1)) @ v


def heads_last(layer, q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    att = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k).mul(0.5), dim=3)
    return torch.einsum("bhqk,bkhd->bqhd", att, v).transpose(1, 2)


def mixed_axes(layer, q, k, v):
    att = (torch.einsum("bhqd,bhkd->bqhk", q, k) / 2).softmax(-1)
    return torch.einsum("bqhk,bhkd->bqhd", att, v).transpose(1, 2)


def folded(layer, q, k, v):
    q, k, v = (x.reshape(B * H, T, -1) for x in (q, k, v))
    att = torch.baddbmm(torch.zeros(1), q, k.transpose(1, 2), beta=0, alpha=0.5).softmax(2)
    return torch.bmm(att, v).unflatten(0, (B, H))


def heads_first(layer, q, k, v):
    q, k, v = (x.transpose(0, 1).reshape(H * B, T, -1) for x in (q / 2, k, v))
    att = torch.softmax(torch.bmm(q, k.mT), -1).contiguous()
    return torch.Tensor.matmul(att, v).view(H, B, T, -1).transpose(0, 1)


def chunks_first(layer, q, k, v):
    q, k, v = (torch.cat(x.transpose(1, 2).flatten(2).chunk(H, -1)) for x in (q, k, v))
    return torch.stack(torch.bmm(torch.softmax(torch.bmm(q, k.mT) / 2, -1), v).chunk(H), 1)


def in_place(layer, q, k, v):
    att = q @ k.mT
    att *= 0.5
    return F.dropout(att.softmax(-1), 0.0, layer.training, True) @ v


def as_module(layer, q, k, v):
    return nn.Softmax(dim=-1)(q @ k.mT / torch.tensor(2.0)).float().matmul(v)


def turned(layer, q, k, v):
    return (v.mT @ (q @ k.mT / 2).softmax(-1).mT).mT


def by_keywords(layer, q, k, v):
    att = torch.softmax(input=torch.matmul(input=q, other=k.mT) / 2, dim=-1).flatten(0, 1)
    return torch.bmm(att, mat2=v.flatten(0, 1)).unflatten(0, (B, H))


def fused_by_keywords(layer, q, k, v):
    return F.scaled_dot_product_attention(query=F.linear(input=q, weight=torch.eye(D // H)), key=k, value=v)


def gpt_neox(layer, q, k, v):
    """As GPT-NeoX of transformers 4.46."""
    scores, q, k = torch.zeros(B * H, T, T), q.reshape(B * H, T, -1), k.reshape(B * H, T, -1)
    att = torch.baddbmm(scores, q, k.transpose(1, 2), beta=1.0, alpha=0.5).view(B, H, T, T)
    att = nn.functional.softmax(att + torch.zeros(B, 1, 1, T), dim=-1).to(v.dtype)
    return torch.matmul(input=att, other=v)


def albert(layer, q, k, v):
    """As ALBERT of transformers 4.46."""
    mask = torch.zeros(B, 1, T, T)
    return F.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=mask, dropout_p=0.0, is_causal=False)


def written_out(layer, q, k, v):
    scores = q @ k.mT / 2
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    return shares / shares.sum(-1, keepdim=True) @ v


def heads_at_the_end(layer, q, k, v):
    """As labml: (T, B, h, d), scores (queries, keys, B, h), softmax over the second axis."""
    q, k, v = (x.permute(2, 0, 1, 3) for x in (q, k, v))
    att = (torch.einsum("ibhd,jbhd->ijbh", q, k) * 0.5).softmax(dim=1)
    return torch.einsum("ijbh,jbhd->ibhd", att, v).permute(1, 2, 0, 3)


def keys_first(layer, q, k, v):
    return (v.mT @ layer.dropout((k @ q.mT / 2).masked_fill(~causal_mask(T).mT, -torch.inf).softmax(-2))).mT


def logarithms(layer, q, k, v):
    return F.log_softmax(q @ k.mT / 2, -1).exp() @ v


def multiplied_and_summed(layer, q, k, v):
    scores = (q[:, :, :, None] * k[:, :, None]).sum(-1) / 2
    return (scores.softmax(-1)[..., None] * v[:, :, None]).sum(-2)


def loop_over_heads(layer, q, k, v):
    return torch.stack([F.scaled_dot_product_attention(q[:, i], k[:, i], v[:, i]) for i in range(H)], 1)


def loop_over_samples(layer, q, k, v):
    return torch.cat([by_hand(layer, *(x[i : i + 1] for x in (q, k, v))) for i in range(B)])


def loop_over_heads_and_samples(layer, q, k, v):
    q, k, v = (x.transpose(0, 1).contiguous() for x in (q, k, v))
    return torch.stack([torch.stack([by_hand(layer, *x) for x in zip(*y)]) for y in zip(q, k, v)], 1)  # noqa: B905


WAYS = (
    heads_at_the_end,
    logarithms,
    multiplied_and_summed,
    loop_over_heads,
    loop_over_samples,
    loop_over_heads_and_samples,
    by_keywords,
    fused_by_keywords,
    gpt_neox,
    albert,
    written_out,
    heads_last,
    mixed_axes,
    folded,
    heads_first,
    chunks_first,
    in_place,
    as_module,
    turned,
)
LAYERS = {
    "fused": {},
    "fused causal": {"is_causal": True},
    "fused scaled": {"scale": 0.3},
    "fused dropped": {"dropout_p": 0.5},
    "nanoGPT": {"way": by_hand},
    "nanoGPT causal": {"way": by_hand, "is_causal": True},
    "nanoGPT dropped": {"way": by_hand, "dropout": nn.Dropout(0.5)},
    "nanoGPT dropped in_place": {"way": by_hand, "dropout": nn.Dropout(0.5, inplace=True)},
    **{way.__name__: {"way": way} for way in WAYS},
    "keys_first dropped": {"way": keys_first, "dropout": nn.Dropout(0.5), "is_causal": True},
}


def stack(**settings):
    """Return three layers, one after the other."""
    return nn.Sequential(OrderedDict(blocks=nn.Sequential(*(Fused(**settings) for _ in range(3)))))


def taken(model, *inputs, **settings) -> Maps:
    with capture(model, **settings) as maps:
        model(*inputs)
    return maps


def close(x, y, atol=1e-6):
    torch.testing.assert_close(x, y, atol=atol, rtol=0)


# ------------------------------------------------------------------------------------------ one call


@pytest.mark.parametrize("how", LAYERS)
def test_a_map_is_the_softmax_and_the_layer_answers_and_learns_as_before(how):
    """In training too, where the weights are those without dropout."""
    settings = LAYERS[how]
    layer = Fused(**settings).requires_grad_("in_place" not in how)  # torch has no gradient through these

    def step():
        torch.manual_seed(3)
        layer.zero_grad()
        answer = layer(X)
        if answer.requires_grad:
            answer.square().sum().backward()
        return [answer, *(p.grad.clone() for p in layer.parameters() if p.requires_grad)]

    before = step()
    with capture(layer) as maps:
        during = step()
    assert all(torch.equal(x, y) for x, y in zip(before, during, strict=True))
    close(maps[0], layer.weights(X))
    assert maps[0].dtype == torch.float32 and not maps[0].requires_grad
    assert maps.names == ["Fused"] and maps.kinds == ["self"] and maps.sums == ["weights"] and maps.kv_heads == [H]
    assert maps.queries is None and maps.missed == {}
    if settings.get("is_causal"):
        assert torch.equal(maps.allowed[0][0, 0], causal_mask(T))
    else:
        assert maps.allowed == [None]
    close(taken(layer, X, samples=[1])[0], layer.weights(X)[1:])
    if how not in ("turned", "mixed_axes", "fused_by_keywords"):
        known, (q, k, _) = taken(layer, X, qkv=True), map(heads, layer.qkv(X).chunk(3, -1))
        scale = settings.get("scale", 0.5)
        close(known.queries[0] @ known.keys[0].mT * known.scales[0], (q @ k.mT * scale).detach())
        if how.startswith(("fused", "nanoGPT")):
            assert maps.scales == [pytest.approx(scale)]


def test_masks_of_all_kinds():
    later = torch.ones(T, T).triu(1).bool()
    masks = {
        "T x T": torch.rand(T, T) > 0.4,
        "samples": torch.rand(B, 1, T, T) > 0.4,
        "heads": torch.rand(1, H, T, T) > 0.4,
        "padding": (torch.arange(T) < torch.tensor([[4], [6]]))[:, None, None],
        "no key": torch.zeros(B, 1, T, T, dtype=torch.bool),
        "added": torch.randn(B, 1, T, T),
        "added -inf": torch.zeros(T, T).masked_fill(later, -torch.inf),
        "added least": torch.zeros(1, 1, T, T).masked_fill(later, torch.finfo(torch.float32).min),
    }
    layer, failures = Fused(), []
    for name, mask in masks.items():
        with capture(layer) as maps:
            layer(X, mask)
            wanted, allowed = layer.weights(X, mask), (mask if mask.dtype == torch.bool else mask > -1e4).clone()
            mask[:] = True  # as a model may, later
        if not torch.allclose(maps[0], wanted, atol=1e-6):
            failures.append((name, "weights"))
        if name == "added":
            assert maps.allowed == [None]
        elif not torch.equal(maps.allowed[0].expand(B, H, T, T), allowed.expand(B, H, T, T)):
            failures.append((name, "allowed"))
        elif maps[0][~maps.allowed[0].expand(B, H, T, T)].any():
            failures.append((name, "weight where masked"))
    assert failures == []


@pytest.mark.parametrize("enable_gqa", [True, False])
def test_grouped_keys(enable_gqa):
    class Grouped(nn.Module):
        def forward(self, q, k, v):
            if not enable_gqa:
                k, v = (x.repeat_interleave(2, 1) for x in (k, v))
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=enable_gqa)

    q, k, v = torch.randn(B, H, T, 5), torch.randn(B, 2, 7, 5), torch.randn(B, 2, 7, 3)
    maps = taken(Grouped(), q, k, v, qkv=True)
    keys, values = (x.repeat_interleave(2, 1) for x in (k, v))
    close(maps[0], (q @ keys.mT / 5**0.5).softmax(-1))
    assert maps.kv_heads == [2] and maps.kinds == ["cross"]
    for found, given in ((maps.queries, q), (maps.keys, keys), (maps.values, values)):
        close(found[0], given)
    zeros = taken(Grouped(), q, 0 * k, v)  # of a layer before its training; repeated or not, they are alike
    assert zeros.kv_heads == [H]


class Joint(nn.Module):
    """As Flux: text and picture have projections of their own and attend together; all calls are by keywords."""

    def __init__(self):
        super().__init__()
        self.text, self.picture = (nn.Parameter(torch.randn(3 * D, D) * 0.2) for _ in range(2))
        self.norm = nn.LayerNorm(D // H)

    def forward(self, hidden_states, encoder_hidden_states):
        sides = (encoder_hidden_states, self.text), (hidden_states, self.picture)
        given = [F.linear(input=x, weight=W).chunk(3, dim=-1) for x, W in sides]
        q, k, v = (torch.cat(tensors=[heads(x) for x in both], dim=2) for both in zip(*given, strict=True))
        q, k = self.norm(input=q), self.norm(input=k)
        return F.scaled_dot_product_attention(query=q, key=k, value=v), q, k


def test_text_and_picture_that_attend_together():
    layer, text = Joint(), torch.randn(B, 3, D)
    with capture(layer, qkv=True) as maps:
        _, q, k = layer(hidden_states=X, encoder_hidden_states=text)
    close(maps[0], (q @ k.mT * 0.5).softmax(-1).detach())
    close(maps.queries[0], q.detach())
    assert maps.kinds == ["self"] and maps[0].shape == (B, H, 3 + T, 3 + T)


def test_cross_attention_is_told_by_what_queries_and_keys_were_projected_of():
    layer, places, memory = nn.MultiheadAttention(D, H, batch_first=True), torch.randn(T, D), torch.randn(B, T, D)
    placed = X + places
    for given, kind in (((X, X, X), "self"), ((placed, placed, X), "self"), ((X, memory, memory), "cross")):
        assert taken(layer, *given).kinds == [kind]


def test_flex_attention():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    bias = torch.randn(len(X), H)

    def way(layer, q, k, v):
        block = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, T, T, device="cpu")
        return flex.flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[b, h] * (i - j), block_mask=block)

    layer = Fused(way)
    with torch.no_grad(), capture(layer) as maps:
        during = layer(X)
    away = (torch.arange(T)[:, None] - torch.arange(T)) * bias[:, :, None, None]
    close(maps[0], layer.weights(X, away.masked_fill(~causal_mask(T), -torch.inf)))
    assert torch.equal(maps.allowed[0][0, 0], causal_mask(T))
    with torch.no_grad():
        close(during, layer(X))


# ------------------------------------------------------------------------------------------ layers of torch, and ours


def assert_as_before(layer, wanted, *inputs, **call) -> Maps:
    """The layer answers under capture as without, dropout included, and its one map is `wanted`."""
    for training in (True, False):
        layer.train(training)
        torch.manual_seed(3)
        before = layer(*inputs, **call)
        torch.manual_seed(3)
        with capture(layer) as maps:
            during = layer(*inputs, **call)
        for x, y in zip(before, during, strict=True):
            assert x is y is None or torch.equal(x, y)
        close(maps[0], wanted)
    assert len(maps) == 1
    return maps


@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 8, "vdim": 12}])
def test_multihead_attention_of_torch(extra):
    batch_first = extra != {}
    layer = nn.MultiheadAttention(D, H, batch_first=batch_first, dropout=0.5, **extra).eval()
    key, value = torch.randn(B, 7, extra.get("kdim", D)), torch.randn(B, 7, extra.get("vdim", D))
    if not extra.get("kdim"):
        value = key
    given = [x if batch_first else x.transpose(0, 1) for x in (X, key, value)]
    padding = torch.arange(7) >= torch.tensor([[5], [7]])
    settings = {"key_padding_mask": padding, "attn_mask": torch.randn(T, 7)}
    wanted = layer(*given, **settings, average_attn_weights=False)[1].detach()
    for need, average in itertools.product((True, False), repeat=2):
        call = {**settings, "need_weights": need, "average_attn_weights": average}
        maps = assert_as_before(layer, wanted, *given, **call)
        assert maps.kinds == ["cross"] and maps[0].shape[:3] == (B, H, T)


@pytest.mark.parametrize("num_kv_heads", [None, 2])
def test_the_layer_of_the_course(num_kv_heads):
    layer = MultiHeadAttention(D, H, num_kv_heads=num_kv_heads, dropout=0.5).eval()
    mask = causal_mask(T) & torch.tensor([True, True, True, False, True, True])
    wanted = layer(X, mask=mask, need_weights=True)[1].detach()
    for need in (True, False):
        maps = assert_as_before(layer, wanted, X, mask=mask, need_weights=need)
        assert maps.kv_heads == [num_kv_heads or H] and maps.kinds == ["self"]
        assert torch.equal(maps.allowed[0][0, 0], mask)


@pytest.mark.parametrize(
    ("grad", "norm_first"), [(torch.no_grad, False), (torch.inference_mode, True), (torch.enable_grad, False)]
)
def test_transformer_encoder_of_torch_off_its_fast_path(grad, norm_first):
    layer = nn.TransformerEncoderLayer(D, H, 32, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=not norm_first).eval()
    padding = torch.arange(T) >= torch.tensor([[4], [6]])
    with grad():
        before = model(X, src_key_padding_mask=padding)
        with capture(model) as maps:
            during = model(X, src_key_padding_mask=padding)
        close(before[~padding], during[~padding], atol=2e-6)
        assert torch.equal(model(X, src_key_padding_mask=padding), before)
    assert maps.names == [f"layers.{i}.self_attn" for i in range(3)]
    x = X
    for i, layer in enumerate(model.layers):
        y = layer.norm1(x) if norm_first else x
        close(maps[i], layer.self_attn(y, y, y, key_padding_mask=padding, average_attn_weights=False)[1].detach())
        assert torch.equal(maps.allowed[i].expand(B, H, T, T), ~padding[:, None, None].expand(B, H, T, T))
        x = layer(x, src_key_padding_mask=padding)


def test_the_six_maps_of_a_transformer_of_torch():
    model = nn.Transformer(D, H, 2, 2, 32, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(T)
    with torch.no_grad(), capture(model) as maps:
        model(X.flip(1), X, tgt_mask=mask, tgt_is_causal=True)
    assert maps.kinds == ["self"] * 2 + ["self", "cross"] * 2
    assert maps.names[2:4] == ["decoder.layers.0.self_attn", "decoder.layers.0.multihead_attn"]
    assert torch.equal(maps.allowed[2][0, 0], causal_mask(T)) and maps.allowed[3] is None


# ------------------------------------------------------------------------------------------ what is no attention


class Other(nn.Module):
    """Softmaxes that are no attention: over a vocabulary, and of tokens over soft and hard experts."""

    def __init__(self):
        super().__init__()
        self.linear, self.table = nn.Linear(D, 11), nn.Embedding(11, D)
        self.experts, self.slots = nn.Parameter(torch.randn(11, D, D)), nn.Parameter(torch.randn(1, D, 11))

    def forward(self, x):
        words = self.linear(x).softmax(-1) @ self.table.weight
        said = torch.einsum("btd,edf->btef", x, self.experts)  # (B, T, 11, D)
        soft = (self.linear(x).softmax(-1)[:, :, None] @ said).squeeze(2)
        hard = torch.bmm((x @ self.slots).softmax(-1), said.mean(1))
        tied = torch.matmul(x, self.table.weight.t()).softmax(-1)
        return words + soft + hard + tied.mean()


def test_a_softmax_elsewhere_in_a_model_is_not_taken():
    model = nn.Sequential(Fused(), Other(), Fused(folded))
    for dtype in (torch.float32, torch.bfloat16):  # autocast lends the parameters another dtype
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            maps = taken(model, X)
        assert maps.names == ["0", "2"] and [x.shape for x in maps] == [(B, H, T, T)] * 2
    for other in (Other(), nn.Linear(D, D)):
        with pytest.raises(RuntimeError, match="no attention was seen in"):
            taken(other, X)


class Untold(Fused):
    """A property that raises where we look for one of that name."""

    num_landmarks = property(lambda self: 1 / 0)


ENTRIES = "_enter _leave _look _before _product _kernel _softmax _carry _by_hand _take _kind _put _mark".split()
FUNCTIONS = "backward in_parts role rule sparse_kind kernel_arguments place".split()


@pytest.mark.parametrize("name", [*ENTRIES, *FUNCTIONS, "take"])
def test_an_error_of_ours_never_reaches_the_model(name, monkeypatch):
    def stumbles(*given, **more):
        raise IndexError("tuple index out of range")

    layer = nn.Sequential(Fused(), Untold(by_hand, dropout=nn.Dropout(0.5, inplace=True)))
    before = layer.requires_grad_(False).eval()(X)
    where = eye if name in FUNCTIONS else Recorder if name == "take" else Eye
    monkeypatch.setattr(where, name, stumbles)
    seen = Eye(layer, Recorder(None, slice(None), None, False, False).take)
    with seen.watching():
        assert torch.equal(layer(X), before)
    assert set(seen.missed.values()) == {"IndexError while it was looked at: tuple index out of range"}


def test_one_module_that_is_not_seen_leaves_the_others(monkeypatch):
    monkeypatch.setattr(Eye, "_kernel", lambda *given: 1 / 0)
    maps = taken(nn.Sequential(Fused(), Untold(by_hand)), X)
    assert maps.names == ["1"]
    assert maps.missed == {"0": "ZeroDivisionError while it was looked at: division by zero"}


def test_weights_of_other_kinds_are_taken_or_missed_but_never_dropped():
    def one_more(scores, v):
        return scores.exp() / (1 + scores.exp().sum(-1, keepdim=True)) @ v

    def divided_later(scores, v):
        return scores.exp() @ v / scores.exp().sum(-1, keepdim=True)

    kinds = {
        "positive": (lambda scores, v: scores.sigmoid() @ v, lambda x: x.sigmoid()),
        "part": (one_more, lambda x: x.exp() / (1 + x.exp().sum(-1, keepdim=True))),
        "weights": (lambda scores, v: scores.softmax(-1).softmax(-1) @ v, lambda x: x.softmax(-1).softmax(-1)),
        "divided later": (divided_later, None),
        "averaged": (lambda scores, v: scores.softmax(-1).mean(1, keepdim=True).expand(B, H, T, T) @ v, None),
    }
    for name, (way, wanted) in kinds.items():
        layer = Fused(lambda _, q, k, v, way=way: way(q @ k.mT / 2, v))
        maps = taken(nn.Sequential(Fused(), layer), X)
        if wanted is None:
            assert maps.names == ["0"] and list(maps.missed) == ["1"], name
        else:
            q, k, _ = map(heads, layer.qkv(X).chunk(3, -1))
            close(taken(layer, X)[0], wanted(q @ k.mT / 2).detach())
            assert maps.sums == ["weights", name] and maps.missed == {}


def test_layers_in_one_module_and_parts_of_one_query_are_no_loop_over_heads():
    class InOne(nn.Module):
        """Three layers of a single head, one upon the other, with the same parameters."""

        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(D, 3 * D)

        def forward(self, x):
            for _ in range(3):
                x = x + by_hand(layer, *self.qkv(x).chunk(3, -1))
            return x

    def difference(layer, q, k, v):
        one, two = (F.scaled_dot_product_attention(*x, v) for x in zip(q.chunk(2, -1), k.chunk(2, -1), strict=True))
        return one - two

    layer = Fused(difference)
    assert [x.shape for x in taken(InOne(), X)] == [(B, 1, T, T)] * 3
    for x in (X, X[:1]):
        assert taken(layer, x).names == ["Fused", "Fused call 2"]


OWN = torch.library.Library("tests", "FRAGMENT")  # once: older torch crashes where it is defined anew
OWN.define("flash_attn_forward(Tensor q, Tensor k, Tensor v) -> Tensor")
OWN.impl("flash_attn_forward", lambda q, k, v: q + v, "CPU")


class OnItsOwn(nn.Module):
    """Attention in a kernel that torch knows by name alone."""

    def forward(self, x):
        return torch.ops.tests.flash_attn_forward(x, x, x)


def nested(layer, q, k, v):
    q, k, v = (torch.nested.as_nested_tensor([*x.transpose(1, 2)], layout=torch.jagged) for x in (q, k, v))
    y = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
    return torch.stack(y.transpose(1, 2).unbind()).transpose(1, 2)


@pytest.mark.parametrize("grad", [torch.no_grad, torch.enable_grad])
def test_what_has_no_map_is_computed_as_ever_and_said(grad):
    for other, why in ((Fused(nested), "nested tensors"), (OnItsOwn(), "flash_attn_forward, keeps the weights")):
        model = nn.Sequential(Fused(), other)
        with grad():
            before = model(X)
            with capture(model) as maps:
                assert torch.equal(model(X), before)
        assert maps.names == ["0"] and list(maps.missed) == ["1"] and why in maps.missed["1"]


def test_what_torch_jit_made_is_seen_as_well():
    layer = Fused().eval()
    close(taken(torch.jit.trace(layer, X), X)[0], layer.weights(X))


def test_maps_are_on_the_cpu_whatever_the_default_is():
    layer = Fused()
    with torch.device("meta"):
        maps = taken(layer, X)
    assert torch.equal(maps[0], taken(layer, X)[0])


# ------------------------------------------------------------------------------------------ what is kept

SAMPLES = 1, -1, [1, 0], slice(1), range(2)
NUMBERS = 1, -1, [0, -1], [-2, 0], range(1, 3), slice(1, None), slice(-2, None), slice(-2), slice(None, None, 2)
NAMES = {"blocks": "012", "blocks.1": "1", "blocks.*": "012", ("blocks.0", "blocks.2"): "02", re.compile("[12]$"): "12"}


def places(count: int, given) -> list[int]:
    return np.atleast_1d(np.arange(count)[given]).tolist()


@pytest.mark.parametrize("way", [by_hand, None])
def test_dtype_and_samples_and_layers_bound_what_is_kept(way):
    model = stack(way=way, is_causal=True)
    whole = taken(model, X)
    half = taken(model, X, dtype=torch.float16, qkv=True)
    assert [x.dtype for x in half] == [torch.float16] * 3 and half.keys[0].dtype == torch.float16
    close(half[2].float(), whole[2], atol=1e-3)
    for samples in SAMPLES:
        maps, index = taken(model, X, samples=samples, qkv=True), places(B, samples)
        assert torch.equal(maps[1], whole[1][index]) and maps.queries[1].shape[0] == len(index)
    chosen = [(given, sorted(places(3, given))) for given in (*NUMBERS, slice(-3, -1), slice(0, -1))]
    chosen += [(list(name) if isinstance(name, tuple) else name, [*map(int, NAMES[name])]) for name in NAMES]
    for layers, index in chosen:
        maps = taken(model, X, layers=layers)
        assert maps.names == [f"blocks.{i}" for i in index], layers
        assert all(torch.equal(x, whole[i]) for x, i in zip(maps, index, strict=True))
        assert len(maps.allowed) == len(maps.kinds) == len(maps.sums) == len(maps.scales) == len(index)


def test_no_more_than_one_layer_is_held_at_full_precision():
    size, number, held = 509, 8, []  # no map of another test has this size
    model = nn.Sequential(*[Fused(is_causal=True)] * number)

    def note(*_):
        there = (x for x in gc.get_objects() if type(x) is torch.Tensor and x.shape[-2:] == (size, size))
        held.append(sum(x.numel() * x.element_size() for x in there if x.is_floating_point()))

    model[0].register_forward_hook(note)
    with torch.no_grad(), capture(model, layers=[-1], dtype=torch.float16) as maps:
        model(torch.randn(1, size, D))
    assert len(maps) == 1 and held == [H * size * size * 2] * number


def test_nothing_is_left_behind():
    def there():
        from torch.nn.modules import module

        hooks = len(module._global_forward_pre_hooks), len(module._global_forward_hooks)
        modes = torch.overrides._get_current_function_mode_stack()
        own = {name: list(vars(part)) for name, part in model.named_modules()}
        return hooks, modes, list(vars(nn.Module).items()), own

    model = stack()
    before = there()
    with pytest.raises(ZeroDivisionError):
        with capture(model) as maps:
            model(X)
            1 / 0  # noqa: B018
    assert maps == []
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        taken(model, torch.randn(B, T, 3))
    assert there() == before
    assert len(taken(model, X)) == 3


def test_what_cannot_be_captured_is_refused(as_shipped):
    def entering(**settings):
        def enter():
            with capture(stack(), **settings):
                pytest.fail("the with was entered")

        return enter

    def running(**settings):
        return lambda: taken(stack(), X, **settings)

    calls = {
        "layers='encoder' does not name a module of Sequential; it has 'blocks', ": entering(layers="encoder"),
        "layers is empty": entering(layers=[]),
        "TypeError: layers must be numbers, a slice or names of modules, got 1.5": entering(layers=1.5),
        "got [0, 'blocks']": entering(layers=[0, "blocks"]),
        "TypeError: samples must be a number, numbers or a slice, got '0'": entering(samples="0"),
        "samples is empty": entering(samples=[]),
        "TypeError: dtype must be a floating dtype of torch, got torch.int8": entering(dtype=torch.int8),
        "TypeError: qkv must be True or False, got 1": entering(qkv=1),
        "layers=3 is none of the 3 maps": running(layers=[0, 3]),
        "samples=2 is none of the 2 samples that 'blocks.0' was given": running(samples=2),
        "no map is left": running(layers=slice(5, 9)),
    }
    assert accepted(calls) == []
    with pytest.raises(RuntimeError, match="Fused was not called inside the with"):
        with capture(Fused()):
            pass

"""`capture` on layers and models of torch, of the course and as people write them, against softmax by hand."""

import gc
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mhalib import MultiHeadAttention, causal_mask
from mhalib.heads import Maps, capture

pytestmark = pytest.mark.usefixtures("one_thread")

B, T, D, H = 2, 6, 16, 4


def heads(x: torch.Tensor, h: int = H) -> torch.Tensor:
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


class Fused(nn.Module):
    """Attention as timm, torchvision's users and nanoGPT write it: one projection, then the fused kernel."""

    def __init__(self, by_hand=False, causal=False, **settings):
        super().__init__()
        self.num_heads = H
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)
        self.by_hand = by_hand
        self.causal = causal
        self.settings = settings
        self.attn_dropout = nn.Dropout(0.0)

    def forward(self, x, mask=None):
        q, k, v = (heads(y) for y in self.qkv(x).chunk(3, -1))
        if self.by_hand:  # as nanoGPT without the kernel
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            if self.causal:
                att = att.masked_fill(torch.tril(torch.ones(T, T))[None, None] == 0, float("-inf"))
            att = self.attn_dropout(F.softmax(att, dim=-1))
            y = att @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal, **self.settings)
        return self.proj(y.transpose(1, 2).flatten(2))

    def weights(self, x, mask=None):
        """Return what the map must be."""
        q, k, _ = (heads(y) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) * self.settings.get("scale", q.shape[-1] ** -0.5)
        if self.causal:
            scores = scores.masked_fill(~causal_mask(T), -torch.inf)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(-1).nan_to_num(0.0).detach()


class Stack(nn.Module):
    """Three layers, one after the other."""

    def __init__(self, make=Fused):
        super().__init__()
        self.blocks = nn.ModuleList(make() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def taken(model, *inputs, **settings) -> Maps:
    with capture(model, **settings) as maps:
        model(*inputs)
    return maps


def close(x, y, atol=1e-6):
    torch.testing.assert_close(x, y, atol=atol, rtol=0)


X = torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))

# ------------------------------------------------------------------------------------------ one call


@pytest.mark.parametrize(
    "settings",
    [{}, {"causal": True}, {"scale": 0.3}, {"by_hand": True}, {"by_hand": True, "causal": True}],
)
def test_a_map_is_the_softmax(settings):
    layer = Fused(**settings)
    before = layer(X)
    with capture(layer) as maps:
        assert torch.equal(layer(X), before)
    close(maps[0], layer.weights(X))
    assert maps.names == ["Fused"] and maps.kinds == ["self"] and maps.sums == ["weights"] and maps.kv_heads == [H]
    assert maps.scales == [pytest.approx(settings.get("scale", 0.5))] and maps.queries is None and maps.missed == {}
    if settings.get("causal"):
        assert torch.equal(maps.allowed[0][0, 0], causal_mask(T))
    else:
        assert maps.allowed == [None]
    assert maps[0].dtype == torch.float32 and not maps[0].requires_grad


MASKS = {
    "T x T": torch.rand(T, T) > 0.4,
    "samples": torch.rand(B, 1, T, T) > 0.4,
    "heads": torch.rand(1, H, T, T) > 0.4,
    "padding": (torch.arange(T) < torch.tensor([[4], [6]]))[:, None, None],
    "no key": torch.zeros(B, 1, T, T, dtype=torch.bool),
    "added": torch.randn(B, 1, T, T),
    "added -inf": torch.zeros(T, T).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf),
    "added least": torch.zeros(1, 1, T, T).masked_fill(torch.ones(T, T).triu(1).bool(), torch.finfo(torch.float32).min),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_all_kinds(name):
    mask, layer = MASKS[name], Fused()
    maps = taken(layer, X, mask)
    close(maps[0], layer.weights(X, mask))
    allowed = mask if mask.dtype == torch.bool else mask > -1e4
    if name == "added":
        assert maps.allowed == [None]
    else:
        assert torch.equal(maps.allowed[0].expand(B, H, T, T), allowed.expand(B, H, T, T))
        assert not maps[0][~maps.allowed[0].expand(B, H, T, T)].any()


def test_a_mask_that_the_model_changes_later_is_kept_as_it_was():
    mask, layer = torch.ones(T, T, dtype=torch.bool).tril(), Fused()
    with capture(layer) as maps:
        layer(X, mask)
        mask[:] = True
    assert torch.equal(maps.allowed[0][0, 0], causal_mask(T))


@pytest.mark.parametrize("enable_gqa", [True, False])
def test_grouped_keys(enable_gqa):
    class Grouped(nn.Module):
        def forward(self, q, k, v):
            if not enable_gqa:
                k, v = (x.repeat_interleave(2, 1) for x in (k, v))
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=enable_gqa)

    q, k, v = torch.randn(B, H, T, 5), torch.randn(B, 2, 7, 5), torch.randn(B, 2, 7, 3)
    maps = taken(Grouped(), q, k, v, qkv=True)
    close(maps[0], (q @ k.repeat_interleave(2, 1).transpose(-2, -1) / 5**0.5).softmax(-1))
    assert maps.kv_heads == [2] and maps.kinds == ["cross"]
    assert torch.equal(maps.queries[0], q) and torch.equal(maps.keys[0], k.repeat_interleave(2, 1))
    assert torch.equal(maps.values[0], v.repeat_interleave(2, 1))


def test_flex_attention():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    bias = torch.randn(H)

    class Flex(Fused):
        def forward(self, x):
            q, k, v = (heads(y) for y in self.qkv(x).chunk(3, -1))
            block = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, T, T, device="cpu")
            score = lambda s, b, h, i, j: s + bias[h] * (i - j)  # noqa: E731
            return self.proj(flex.flex_attention(q, k, v, score_mod=score, block_mask=block).transpose(1, 2).flatten(2))

    layer = Flex()
    with torch.no_grad(), capture(layer) as maps:
        during = layer(X)
    away = (torch.arange(T)[:, None] - torch.arange(T)) * bias[:, None, None]
    wanted = layer.weights(X, away.masked_fill(~causal_mask(T), -torch.inf))
    close(maps[0], wanted)
    assert torch.equal(maps.allowed[0][0, 0], causal_mask(T))
    with torch.no_grad():
        close(during, layer(X))


# ------------------------------------------------------------------------------------------ layers of torch


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 8, "vdim": 12}])
def test_multihead_attention_of_torch(batch_first, need_weights, extra):
    layer = nn.MultiheadAttention(D, H, batch_first=batch_first, **extra).eval()
    key, value = torch.randn(B, 7, extra.get("kdim", D)), torch.randn(B, 7, extra.get("vdim", D))
    if not extra.get("kdim"):
        value = key
    query, key, value = (x if batch_first else x.transpose(0, 1) for x in (X, key, value))
    padding = torch.arange(7) >= torch.tensor([[5], [7]])
    settings = {"key_padding_mask": padding, "attn_mask": torch.randn(T, 7)}
    wanted = layer(query, key, value, **settings, average_attn_weights=False)[1]
    for average in (True, False):
        call = {**settings, "need_weights": need_weights, "average_attn_weights": average}
        before = layer(query, key, value, **call)
        with capture(layer) as maps:
            during = layer(query, key, value, **call)
        assert torch.equal(before[0], during[0])
        assert before[1] is None and during[1] is None if not need_weights else torch.equal(before[1], during[1])
        close(maps[0], wanted)
        assert len(maps) == 1 and maps.kinds == ["cross"] and maps[0].shape[:3] == (B, H, T)


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("norm_first", [True, False])
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
    given = (torch.randn(B, T, D), X)
    with torch.no_grad(), capture(model) as maps:
        model(*given, tgt_mask=mask, tgt_is_causal=True)
    assert maps.kinds == ["self"] * 2 + ["self", "cross"] * 2
    assert maps.names[2:4] == ["decoder.layers.0.self_attn", "decoder.layers.0.multihead_attn"]
    assert torch.equal(maps.allowed[2][0, 0], causal_mask(T)) and maps.allowed[3] is None
    with torch.no_grad(), capture(model.decoder.layers[0].multihead_attn) as cross:
        model(*given, tgt_mask=mask)
    close(cross[0], maps[3])


# ------------------------------------------------------------------------------------------ other people's layers


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("num_kv_heads", [None, 2])
def test_the_layer_of_the_course(need_weights, num_kv_heads):
    layer = MultiHeadAttention(D, H, num_kv_heads=num_kv_heads, dropout=0.5).eval()
    mask = causal_mask(T) & torch.tensor([True, True, True, False, True, True])
    wanted = layer(X, mask=mask, need_weights=True)[1]
    with capture(layer) as maps:
        layer(X, mask=mask, need_weights=need_weights)
    close(maps[0], wanted.detach())
    assert len(maps) == 1 and maps.kv_heads == [num_kv_heads or H] and maps.kinds == ["self"]
    assert torch.equal(maps.allowed[0][0, 0], mask)


class Head(nn.Module):
    """One head, as in many a first lesson: (B, T, T) and no axis of heads."""

    def __init__(self, size=4):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(D, size, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        return F.softmax(scores.masked_fill(~causal_mask(x.shape[1]), float("-inf")), dim=-1) @ v


@pytest.mark.parametrize(
    "how",
    [
        "einsum",
        "einsum heads last",
        "bmm",
        "heads first",
        "chunks first",
        "module",
        "method",
        "in place",
        "turned",
        "mixed axes",
    ],
)
def test_ways_to_multiply_by_hand(how):
    class ByHand(Fused):
        def forward(self, x):
            q, k, v = (heads(y) for y in self.qkv(x).chunk(3, -1))
            if how == "einsum":
                att = torch.einsum("bhqd,bhkd->bhqk", q, k).mul(0.5).softmax(-1)
                y = torch.einsum("bhqk,bhkd->bhqd", att, v)
            elif how == "einsum heads last":
                q, k, v = (x.transpose(1, 2) for x in (q, k, v))
                att = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) / 2, dim=3)
                y = torch.einsum("bhqk,bkhd->bqhd", att, v).transpose(1, 2)
            elif how == "mixed axes":
                att = torch.softmax(torch.einsum("bhqd,bhkd->bqhk", q, k) / 2, dim=-1)
                y = torch.einsum("bqhk,bhkd->bhqd", att, v)
            elif how == "bmm":
                q, k, v = (x.reshape(B * H, T, -1) for x in (q, k, v))
                att = torch.baddbmm(torch.zeros(1), q, k.transpose(1, 2), beta=0, alpha=0.5).softmax(2)
                y = torch.bmm(att, v).view(B, H, T, -1)
            elif how == "heads first":
                q, k, v = (x.transpose(0, 1).reshape(H * B, T, -1) for x in (q, k, v))
                att = self.attn_dropout(torch.softmax(torch.bmm(q, k.mT) / 2, -1))
                y = (att @ v).view(H, B, T, -1).transpose(0, 1)
            elif how == "chunks first":
                q, k, v = (torch.cat(y.chunk(H, -1)) for y in self.qkv(x).chunk(3, -1))
                y = torch.stack(torch.bmm(torch.softmax(torch.bmm(q, k.mT) / 2, -1), v).chunk(H), 1)
            elif how == "module":
                y = nn.Softmax(dim=-1)(q @ k.mT / torch.tensor(2.0)).float().matmul(v)
            elif how == "method":
                y = torch.Tensor.matmul((q / 2).matmul(k.transpose(2, 3)).softmax(dim=-1).contiguous(), v)
            elif how == "turned":
                y = (v.mT @ (q @ k.mT / 2).softmax(-1).mT).mT
            else:
                att = q @ k.mT
                att *= 0.5
                att = att.softmax(-1)
                y = F.dropout(att, 0.0, self.training, True) @ v
            return self.proj(y.transpose(1, 2).flatten(2))

    layer = ByHand()
    maps = taken(layer, X)
    assert len(maps) == 1
    close(maps[0], layer.weights(X))
    assert maps.sums == ["weights"]
    if how not in ("turned", "mixed axes"):
        known = taken(layer, X, qkv=True)
        q, k, _ = (heads(y) for y in layer.qkv(X).chunk(3, -1))
        close(known.queries[0] @ known.keys[0].mT * known.scales[0], (q @ k.mT / 2).detach())
    close(taken(layer, X, samples=[1])[0], layer.weights(X)[1:])


class Timm(nn.Module):
    """The attention of timm 1.0, with and without the fused kernel."""

    def __init__(self, fused_attn: bool):
        super().__init__()
        self.num_heads, self.head_dim, self.scale, self.fused_attn = H, D // H, (D // H) ** -0.5, fused_attn
        self.qkv = nn.Linear(D, D * 3)
        self.q_norm, self.k_norm, self.norm = nn.LayerNorm(D // H), nn.LayerNorm(D // H), nn.Identity()
        self.attn_drop, self.proj, self.proj_drop = nn.Dropout(0.1), nn.Linear(D, D), nn.Dropout(0.1)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        self.seen = (q @ k.transpose(-2, -1) * self.scale).softmax(-1).detach()
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0)
        else:
            q = q * self.scale
            attn = q @ k.transpose(-2, -1)
            attn = attn.softmax(dim=-1)
            attn = self.attn_drop(attn)
            x = attn @ v
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(self.norm(x)))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fused", [True, False])
def test_attention_as_in_timm(fused, training):
    model = Stack(lambda: Timm(fused)).train(training)
    maps = taken(model, X)
    assert maps.names == ["blocks.0", "blocks.1", "blocks.2"] and maps.kinds == ["self"] * 3
    for x, block in zip(maps, model.blocks, strict=True):
        close(x, block.seen)


# ------------------------------------------------------------------------------------------ what is no attention


class Vocabulary(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.table = nn.Linear(D, 11), nn.Parameter(torch.randn(11, D))

    def forward(self, x):
        return self.head(x).softmax(-1) @ self.table


class Router(nn.Module):
    """Soft and hard experts: weights of tokens over experts, multiplied with what the experts say."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(D, 3), nn.Parameter(torch.randn(3, D, D))
        self.slots = nn.Parameter(torch.randn(1, D, 3))

    def forward(self, x):
        said = torch.einsum("btd,edf->btef", x, self.experts)  # (B, T, 3, D)
        soft = (self.gate(x).softmax(-1)[:, :, None] @ said).squeeze(2)
        spread = (x @ self.slots).softmax(-1)
        return soft + torch.bmm(spread, said.mean(1))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, D)

    def forward(self, x):
        return torch.matmul(x, self.table.weight.t()).softmax(-1)


@pytest.mark.parametrize("model", [Vocabulary, Router, Tied, lambda: nn.Linear(D, D)])
def test_what_is_no_attention_is_not_taken(model):
    with pytest.raises(RuntimeError, match="no attention was seen in"):
        taken(model(), X)


def test_a_softmax_elsewhere_in_a_model_is_not_taken():
    model = nn.Sequential(Fused(), Vocabulary(), Router(), Fused(by_hand=True), Tied())
    assert taken(model, X).names == ["0", "3"]


# ------------------------------------------------------------------------------------------ training


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_training_step_is_the_same(by_hand):
    model = Stack(lambda: Fused(by_hand=by_hand))
    model(X).square().sum().backward()
    before = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with capture(model) as maps:
        model(X).square().sum().backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), before, strict=True))
    assert len(maps) == 3 and not any(x.requires_grad for x in maps)


@pytest.mark.parametrize("how", ["fused", "torch", "torch weights", "by hand", "in place", "ours"])
def test_in_training_the_weights_are_those_without_dropout(how):
    layer = Fused(by_hand=how in ("by hand", "in place"))
    layer.attn_dropout = nn.Dropout(0.5, inplace=how == "in place")
    if how == "fused":
        layer.settings = {"dropout_p": 0.5}
    if how.startswith("torch"):
        layer = nn.MultiheadAttention(D, H, dropout=0.5, batch_first=True)
    if how == "ours":
        layer = MultiHeadAttention(D, H, dropout=0.5)
    given = (X, X, X) if how.startswith("torch") else (X,)
    extra = {"need_weights": how != "torch"} if how.startswith("torch") or how == "ours" else {}

    def run():
        torch.manual_seed(3)
        out = layer(*given, **extra)
        return out[0] if isinstance(out, tuple) else out

    before = run()
    with capture(layer) as maps:
        assert torch.equal(run(), before)
    layer.eval()
    if isinstance(layer, Fused):
        wanted = layer.weights(X)
    else:
        wanted = taken(layer, *given)[0]
        assert not torch.equal(run(), before)
    close(maps[0], wanted)


# ------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("by_hand", [True, False])
def test_dtype_and_samples_and_layers_bound_what_is_kept(by_hand):
    model = Stack(lambda: Fused(by_hand=by_hand, causal=True))
    whole = taken(model, X)
    half = taken(model, X, dtype=torch.float16, qkv=True)
    assert [x.dtype for x in half] == [torch.float16] * 3 and half.keys[0].dtype == torch.float16
    close(half[2].float(), whole[2], atol=1e-3)
    for samples, index in ((1, [1]), (-1, [1]), ([1, 0], [1, 0]), (slice(1), [0]), (range(2), [0, 1])):
        maps = taken(model, X, samples=samples, qkv=True)
        assert torch.equal(maps[1], whole[1][index]) and maps.queries[1].shape[0] == len(index)
    for layers, index in (
        *(
            (1, [1]),
            (-1, [2]),
            ([0, -1], [0, 2]),
            ([-2, 0], [0, 1]),
            (slice(1, None), [1, 2]),
            (slice(-2, None), [1, 2]),
        ),
        *((slice(-2), [0]), (slice(None, None, 2), [0, 2]), (range(1, 3), [1, 2]), ("blocks.1", [1])),
        *(
            ("blocks.*", [0, 1, 2]),
            (["blocks.0", "blocks.2"], [0, 2]),
            (re.compile("[12]$"), [1, 2]),
            ("blocks", [0, 1, 2]),
        ),
        *((slice(-3, -1), [0, 1]), (slice(0, -1), [0, 1])),
    ):
        maps = taken(model, X, layers=layers)
        assert maps.names == [f"blocks.{i}" for i in index], layers
        assert all(torch.equal(x, whole[i]) for x, i in zip(maps, index, strict=True))
        assert len(maps.allowed) == len(maps.kinds) == len(maps.sums) == len(maps.scales) == len(index)


def test_no_more_than_one_layer_is_held_at_full_precision():
    """What torch allocates while a long model runs stays below the maps of all its layers."""
    size, number = 512, 8
    layer = Fused(causal=True)
    model = nn.Sequential(*[layer] * number)
    x = torch.randn(1, size, D)
    full = H * size * size * 4
    held = []

    def maps_there():
        every = [x for x in gc.get_objects() if type(x) is torch.Tensor and x.shape[-2:] == (size, size)]
        return [x for x in every if x.is_floating_point()]

    left = maps_there()  # of other tests; held on to, so that their places are not given away
    others = {id(x) for x in left}

    def note(*_):
        held.append(sum(x.numel() * x.element_size() for x in maps_there() if id(x) not in others))

    handle = model[0].register_forward_hook(note)
    with torch.no_grad(), capture(model, layers=[-1], dtype=torch.float16) as maps:
        model(x)
    handle.remove()
    assert len(maps) == 1 and held == [full // 2] * number


# ------------------------------------------------------------------------------------------ which model


def hook_counts() -> tuple[int, int]:
    from torch.nn.modules import module

    return len(module._global_forward_pre_hooks), len(module._global_forward_hooks)


def test_nothing_is_left_behind():
    model, before, hooks = Stack(), list(vars(nn.Module).items()), hook_counts()
    state = {name: list(vars(module)) for name, module in model.named_modules()}
    modes = torch.overrides._get_current_function_mode_stack()
    with pytest.raises(ZeroDivisionError):
        with capture(model) as maps:
            model(X)
            1 / 0  # noqa: B018
    assert maps == []
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        with capture(model):
            model(torch.randn(B, T, 3))
    assert hook_counts() == hooks and torch.overrides._get_current_function_mode_stack() == modes
    assert list(vars(nn.Module).items()) == before
    assert {name: list(vars(module)) for name, module in model.named_modules()} == state
    assert len(taken(model, X)) == 3


# ------------------------------------------------------------------------------------------ compiled models


# ------------------------------------------------------------------------------------------ refusals


def test_a_model_that_is_not_called():
    with pytest.raises(RuntimeError, match="Fused was not called inside the with"):
        with capture(Fused()):
            pass


@pytest.mark.usefixtures("as_shipped")
@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"layers": "encoder"}, ValueError, "layers='encoder' is the name of no module of Stack; it has 'blocks', "),
        ({"layers": []}, ValueError, "layers is empty"),
        ({"layers": 1.5}, TypeError, "layers must be numbers, a slice or names of modules, got 1.5"),
        ({"layers": [0, "blocks"]}, TypeError, "layers must be"),
        ({"layers": True}, TypeError, "layers must be"),
        ({"samples": "0"}, TypeError, "samples must be a number, numbers or a slice, got '0'"),
        ({"samples": []}, ValueError, "samples is empty"),
        ({"samples": 0.5}, TypeError, "samples must be"),
        ({"dtype": torch.int8}, TypeError, "dtype must be a floating dtype of torch, got torch.int8"),
        ({"dtype": "float16"}, TypeError, "dtype must be"),
        ({"qkv": 1}, TypeError, "qkv must be True or False, got 1"),
        ({"progress": "yes"}, TypeError, "progress must be True or False"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(settings, error, match):
    with pytest.raises(error, match=re.escape(match)):
        with capture(Stack(), **settings):
            pytest.fail("the with was entered")


def test_numbers_that_no_call_had_are_refused():
    with pytest.raises(ValueError, match="layers=3 is none of the 3 maps .* 0 to 2"):
        taken(Stack(), X, layers=[0, 3])
    with pytest.raises(ValueError, match="samples=2 is none of the 2 samples that 'blocks.0' was given"):
        taken(Stack(), X, samples=2)
    with pytest.raises(ValueError, match="no map is left"):
        taken(Stack(), X, layers=slice(5, 9))


# ------------------------------------------------------------------------------------------ a bar


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_cross_attention_of_a_text_that_is_generated_is_one_map_a_layer(kind):
    """A second text is not taken for the next step of the first, though its keys are as many."""
    sizes = {"vocab_size": 50, "d_model": 16}
    if kind == "t5":
        from transformers import T5Config as Config
        from transformers import T5ForConditionalGeneration as Model

        sizes |= {"d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    else:
        from transformers import BartConfig as Config
        from transformers import BartForConditionalGeneration as Model

        for side in ("encoder", "decoder"):
            sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 16}
        sizes["max_position_embeddings"] = 32
    model, ids = Model(Config(**sizes)).eval(), torch.randint(3, 50, (1, 7))
    with torch.no_grad(), capture(model, qkv=True) as maps:
        written = model.generate(ids, max_new_tokens=4, min_new_tokens=4, do_sample=False)
        model.generate(ids.flip(1), max_new_tokens=3, min_new_tokens=3, do_sample=False)
    with torch.no_grad(), capture(model) as whole:
        model(input_ids=ids, decoder_input_ids=written[:, :-1])
    steps = [(m, q) for m, kind, q in zip(maps, maps.kinds, maps.queries, strict=True) if kind == "cross"]
    expected = [m for m, kind in zip(whole, whole.kinds, strict=True) if kind == "cross"]
    assert [m.shape[2:] for m, _ in steps] == [(4, 7)] * 2 + [(3, 7)] * 2
    for (found, queries), wanted in zip(steps[:2], expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)
        assert queries.shape[2] == 4

"""The ways in which projections are stored: one right layer, its matrices laid out as people lay them out.

Whatever they are called: the doctor sees products and no names.

Each of `LAYOUTS` takes 32 features and 4 heads, and `bias`; each of `GROUPED` `num_kv_heads`, too.
"""

import torch
from torch import nn

D, H, HD = 32, 4, 8


class Core(nn.Module):
    """Attention on finished q, k, v; what makes them is the layout's matter."""

    def __init__(self, bias=True, num_kv_heads=H):
        super().__init__()
        self.bias, self.kv = bias, num_kv_heads
        self.make()

    def linear(self, out=D, features=D):
        return nn.Linear(features, out, bias=self.bias)

    def mix(self, q, k, v, mask):
        q = q.unflatten(-1, (H, HD)).transpose(1, 2)
        k, v = (y.unflatten(-1, (self.kv, HD)).transpose(1, 2).repeat_interleave(H // self.kv, 1) for y in (k, v))
        scores = q @ k.mT * HD**-0.5
        if mask is not None:
            scores = scores.masked_fill(~(mask if mask.ndim == 2 else mask[:, None]), -1e9)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x, mask=None):
        return self.out(self.mix(*self.qkv(x), mask))


class ThreeLinears(Core):
    def make(self):
        self.q_proj, self.out_proj = self.linear(), self.linear()
        self.k_proj, self.v_proj = self.linear(self.kv * HD), self.linear(self.kv * HD)

    def qkv(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def out(self, merged):
        return self.out_proj(merged)


class Conv1D(nn.Module):
    """GPT-2's linear layer, stored (in, out)."""

    def __init__(self, out, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, out) / features**0.5)
        self.bias = nn.Parameter(0.1 * torch.randn(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class GPT2(Core):
    def make(self):
        self.c_attn, self.c_proj = Conv1D(3 * D, D), Conv1D(D, D)

    def qkv(self, x):
        return self.c_attn(x).chunk(3, -1)

    def out(self, merged):
        return self.c_proj(merged)


class FusedBlocks(Core):
    def make(self):
        self.fused, self.proj = nn.Module(), self.linear()
        self.fused.qkv = self.linear(3 * D)

    def qkv(self, x):
        return self.fused.qkv(x).chunk(3, -1)

    def out(self, merged):
        return self.proj(merged)


class FusedHeadByHead(FusedBlocks):
    def qkv(self, x):
        return (part.flatten(2) for part in self.fused.qkv(x).unflatten(-1, (H, 3, HD)).unbind(-2))


class FusedFeatureByFeature(FusedBlocks):
    def qkv(self, x):
        parts = self.fused.qkv(x).unflatten(-1, (HD, 3, H)).unbind(-2)
        return (part.transpose(2, 3).flatten(2) for part in parts)


class FusedKeysAndValues(Core):
    def make(self):
        self.to_q, self.to_kv = self.linear(), self.linear(2 * self.kv * HD)
        self.to_out = nn.Sequential(self.linear(), nn.Dropout(0.1))

    def qkv(self, x):
        return self.to_q(x), *self.to_kv(x).chunk(2, -1)

    def out(self, merged):
        return self.to_out(merged)


class FusedGroups(Core):
    def make(self):
        self.Wqkv, self.wo = self.linear(D + 2 * self.kv * HD), self.linear()

    def qkv(self, x):
        return self.Wqkv(x).split([D, self.kv * HD, self.kv * HD], -1)

    def out(self, merged):
        return self.wo(merged)


class FusedGroupByGroup(FusedGroups):
    def qkv(self, x):
        parts = self.Wqkv(x).unflatten(-1, (self.kv, -1, HD)).split([H // self.kv, 1, 1], -2)
        return (part.flatten(2) for part in parts)


class RawParametersByHead(Core):
    def make(self):
        for name in "qkv":
            setattr(self, f"w{name}", nn.Parameter(torch.randn(H, D, HD) / D**0.5))
            setattr(self, f"b{name}", nn.Parameter(torch.randn(H, HD)) if self.bias else None)
        self.wo = nn.Parameter(torch.randn(H, HD, D) / D**0.5)

    def qkv(self, x):
        for name in "qkv":
            bias = getattr(self, f"b{name}")
            y = torch.einsum("btd,hde->bthe", x, getattr(self, f"w{name}"))
            yield (y if bias is None else y + bias).flatten(2)

    def out(self, merged):
        return torch.einsum("bthe,hed->btd", merged.unflatten(-1, (H, HD)), self.wo)


class ListsOfHeads(Core):
    def make(self):
        for name in ("queries", "keys", "values"):
            setattr(self, name, nn.ModuleList(self.linear(HD) for _ in range(H)))
        self.linear_layer = self.linear()

    def qkv(self, x):
        return (torch.cat([part(x) for part in each], -1) for each in (self.queries, self.keys, self.values))

    def out(self, merged):
        return self.linear_layer(merged)


class OneMatrixForAllHeads(Core):
    def make(self):
        self.values, self.keys, self.queries = (self.linear(HD, HD) for _ in range(3))
        self.fc_out = self.linear()

    def qkv(self, x):
        x = x.unflatten(-1, (H, HD))
        return (each(x).flatten(2) for each in (self.queries, self.keys, self.values))

    def out(self, merged):
        return self.fc_out(merged)


LAYOUTS = [
    GPT2, FusedHeadByHead, FusedFeatureByFeature, FusedKeysAndValues, RawParametersByHead, ListsOfHeads,
    OneMatrixForAllHeads,
]  # fmt: skip
GROUPED = [ThreeLinears, FusedKeysAndValues, FusedGroups, FusedGroupByGroup]

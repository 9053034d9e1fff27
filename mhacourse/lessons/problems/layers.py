"""The healthy layers of the problem set, each in its own style. Each problem contains the change that breaks its layer.

Readers see these classes in the notebook, each with one thing changed. The notebook tells their stories, so they have
no docstrings. Below them are healthy layers in other styles, which a good test must leave in peace.
"""

import torch
import torch.nn.functional as F
from torch import nn

from mhalib.attention import MultiHeadAttention


class ReviewAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        B, T, _ = x.shape
        return x.view(B, T, self.num_heads, -1).transpose(1, 2)  # -> (B, num_heads, T, head_dim)

    def forward(self, x):
        q, k, v = self.split(self.W_q(x)), self.split(self.W_k(x)), self.split(self.W_v(x))
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
        heads = weights @ v  # (B, num_heads, T, head_dim)
        return self.W_o(heads.transpose(1, 2).reshape(x.shape))  # -> (B, T, d_model)


class TriageAttention(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.2):
        super().__init__()
        self.d_model, self.num_heads, self.dropout = d_model, num_heads, dropout
        self.weight_in = nn.Parameter(torch.randn(3 * d_model, d_model) / d_model**0.5)
        self.weight_out = nn.Parameter(torch.randn(d_model, d_model) / d_model**0.5)

    def forward(self, x, mask=None):
        q, k, v = F.linear(x, self.weight_in).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in (q, k, v))
        mask = None if mask is None else mask.unsqueeze(-3)  # one mask for all heads
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        return F.linear(heads.transpose(1, 2).flatten(2), self.weight_out)  # -> (B, T, d_model)


class SensorAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.norm = nn.LayerNorm(d_model)
        self.attention = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x):  # (B, T, d_model)
        normed = self.norm(x)
        found, _ = self.attention(normed, normed, normed, need_weights=False)
        return x + found


class VerseAttention(nn.Module):
    def __init__(self, d_model, num_heads, longest=64):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.register_buffer("tril", torch.ones(longest, longest, dtype=torch.bool).tril())

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * q.shape[-1] ** -0.5  # -> (B, num_heads, T, T)
        weights = scores.masked_fill(~self.tril[:T, :T], -torch.inf).softmax(-1)
        heads = (weights @ v).transpose(1, 2)
        return self.proj(heads.reshape(B, T, -1))  # -> (B, T, d_model)


class TicketAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (W(x).unflatten(-1, (self.num_heads, -1)) for W in (self.W_q, self.W_k, self.W_v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -1e9)
        weights = scores.softmax(-1)
        heads = torch.einsum("bhqk,bkhd->bqhd", weights, v)
        return self.W_o(heads.flatten(2))  # -> (B, T, d_model)


class LetterAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def fold(self, x):
        B, T, _ = x.shape
        heads = x.view(B, T, self.num_heads, -1).transpose(1, 2)
        return heads.reshape(B * self.num_heads, T, -1)  # -> (B * num_heads, T, head_dim)

    def forward(self, x, mask=None):
        B, T, _ = x.shape
        q, k, v = self.fold(self.W_q(x)), self.fold(self.W_k(x)), self.fold(self.W_v(x))
        scores = torch.bmm(q, k.mT) / q.shape[-1] ** 0.5  # -> (B * num_heads, T, T)
        if mask is not None:
            mask = mask.expand(B, T, T).repeat_interleave(self.num_heads, dim=0)
            scores = scores.masked_fill(~mask, -1e9)
        heads = torch.bmm(scores.softmax(-1), v).view(B, self.num_heads, T, -1)
        return self.W_o(heads.transpose(1, 2).reshape(B, T, -1))  # -> (B, T, d_model)


class AtlasAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (W(x).unflatten(-1, (-1, self.num_heads)) for W in (self.W_q, self.W_k, self.W_v))
        q, k = q / q.shape[2] ** 0.25, k / k.shape[2] ** 0.25
        scores = torch.einsum("bqdh,bkdh->bkqh", q, k)
        if mask is not None:
            scores = scores.masked_fill(~mask.mT[..., None], -1e9)
        weights = scores.softmax(1)
        return self.W_o(torch.einsum("bkqh,bkdh->bqdh", weights, v).flatten(2))  # -> (B, T, d_model)


class DraftAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):  # always causal; a mask for padding comes on top
        B, T, _ = x.shape
        allowed = torch.ones(B, T, T, dtype=torch.bool) if mask is None else mask
        allowed = allowed & torch.ones(T, T, dtype=torch.bool).tril()
        outs = []
        for part in torch.arange(self.d_model).chunk(self.num_heads):  # the features of one head
            q, k, v = self.W_q(x)[..., part], self.W_k(x)[..., part], self.W_v(x)[..., part]
            scores = (q @ k.mT / len(part) ** 0.5).masked_fill(~allowed, -1e9)  # -> (B, T, T)
            outs.append(scores.softmax(-1) @ v)
        return self.W_o(torch.cat(outs, -1))  # -> (B, T, d_model)


class CaptionAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q, self.W_kv = nn.Linear(d_model, d_model), nn.Linear(d_model, 2 * d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, x, memory=None, mask=None):  # x asks; memory answers, or x itself
        source = x if memory is None else memory
        parts = self.W_q(x), *self.W_kv(source).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # -> (B, num_heads, Tq, Tk)
        if mask is not None:
            hidden = mask == 0
            scores = scores.masked_fill(hidden.unsqueeze(-3), -1e9)
        heads = scores.softmax(-1) @ v
        return self.W_o(heads.transpose(1, 2).flatten(2))  # -> (B, Tq, d_model)


class ArchiveAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads=2):
        super().__init__()
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.head_dim = d_model // num_heads
        self.W_q, self.W_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.W_k, self.W_v = (nn.Linear(d_model, num_kv_heads * self.head_dim, bias=False) for _ in range(2))

    def forward(self, x, mask=None):
        q, k, v = (W(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        share = self.num_heads // self.num_kv_heads  # this many heads of queries share a head of keys
        k, v = (part.repeat_interleave(share, dim=1) for part in (k, v))  # -> (B, num_heads, T, head_dim)
        scores = q @ k.mT / self.head_dim**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -1e9)
        heads = scores.softmax(-1) @ v
        return self.W_o(heads.transpose(1, 2).flatten(2))  # -> (B, T, d_model)


class DictationAttention(nn.Module):
    def __init__(self, d_model, num_heads, longest=64):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.register_buffer("tril", torch.ones(longest, longest, dtype=torch.bool).tril())

    def forward(self, x, cache=None):
        B, T, _ = x.shape  # the T new tokens
        q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        S = k.shape[2]  # all tokens so far
        scores = q @ k.mT / q.shape[-1] ** 0.5  # -> (B, num_heads, T, S)
        weights = scores.masked_fill(~self.tril[S - T : S, :S], -torch.inf).softmax(-1)
        heads = (weights @ v).transpose(1, 2)
        return self.proj(heads.reshape(B, T, -1)), (k, v)


# ------------------------------------------------------------------------------------------- healthy, in other styles


class FromTheLibrary(MultiHeadAttention):
    """The layer of the course, called `layer(x, mask)`, with `num_kv_heads` if given."""

    def forward(self, x, mask=None):
        return super().forward(x, mask=mask)


class AcrossFromTheLibrary(MultiHeadAttention):
    """The layer of the course, called `layer(x, memory, mask)`."""

    def forward(self, x, memory=None, mask=None):
        return super().forward(x, memory, mask=mask)


class AcrossFromTorch(nn.MultiheadAttention):
    """torch's layer, called `layer(x, memory, mask)` with masks that follow our convention."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads, batch_first=True)
        self.d_model = d_model

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        if mask is not None:
            mask = ~mask.expand(len(x), x.shape[1], memory.shape[1]).repeat_interleave(self.num_heads, 0)
        return super().forward(x, memory, memory, attn_mask=mask, need_weights=False)[0]


class CausalFused(TriageAttention):
    """Always causal, with torch's fused function."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads, dropout=0.0)

    def forward(self, x, mask=None):
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return super().forward(x, causal if mask is None else causal & mask)


class DropoutModule(TicketAttention):
    """With `nn.Dropout` behind its output."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x, mask=None):
        return self.dropout(super().forward(x, mask))


class KeepsInputs(nn.Module):
    """A cache that holds the inputs themselves, so that everything is computed anew each time."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.attention = CausalFused(d_model, num_heads)

    def forward(self, x, cache=None):
        seen = x if cache is None else torch.cat([cache, x], dim=1)
        return self.attention(seen)[:, -x.shape[1] :], seen

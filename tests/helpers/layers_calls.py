"""Layers that are wrong, or right, only when called otherwise than with one sequence: with a cache, with other inputs.

`SICK` and `HEALTHY` hold those of the other modules as well.
"""

import torch
from torch import nn

from attention_doctor import adapt
from tests.helpers import layers_healthy, layers_sick_masks
from tests.helpers.layers_base import Layer
from tests.helpers.layers_sick import Disease

SICK: dict[str, Disease] = dict(layers_sick_masks.SICK)
HEALTHY = dict(layers_healthy.HEALTHY)


def sick(code):
    def add(kind):
        SICK[kind.__name__] = Disease(code, kind)
        return kind

    return add


def healthy(kind):
    HEALTHY[kind.__name__] = kind
    return kind


# ------------------------------------------------------------------------------------------------- a cache comes back


class Cached(Layer):
    """Causal; keys and values come back when they are asked for, and may be handed over again."""

    def turn(self, x, place):
        return x

    def shown(self, Tq, Tk):
        return torch.ones(Tq, Tk, dtype=torch.bool).tril(Tk - Tq)

    def join(self, past, k, v):
        return torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)

    def calculated(self, x, past=None, place=None):
        q, k, v = self.qkv(x)
        place = (0 if past is None else past[0].shape[2]) if place is None else place
        q, k = self.turn(q, place), self.turn(k, place)
        present = k, v = (k, v) if past is None else self.join(past, k, v)
        scores = self.score(q, k).masked_fill(~self.shown(q.shape[2], k.shape[2]), -1e9)
        return self.out(scores.softmax(-1) @ v), present

    def forward(self, x, past_kv=None, use_cache=False):
        out, present = self.calculated(x, past_kv)
        return (out, present) if use_cache else out


class Turned(Cached):
    """With rotary positions."""

    def turn(self, x, place):
        half = self.hd // 2 * 2
        angle = (place + torch.arange(x.shape[2]))[:, None] / 10 ** (torch.arange(0, half, 2) / self.hd)
        a, b, rest = x[..., 0:half:2], x[..., 1:half:2], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), rest], -1)


HEALTHY["AsksForItsPast"] = Turned


@healthy
class OneSampleAtATime(Cached):
    def join(self, past, k, v):
        assert len(k) == 1
        return super().join(past, k, v)


@healthy
class PlacesAreTold(Turned):
    def forward(self, x, position_ids=None, past_key_value=None):
        place = 0 if position_ids is None else int(position_ids[0, 0])
        return self.calculated(x, past_key_value, place)


@healthy
class PlacesAreToldInAnUnusualWord(Turned):
    def forward(self, x, past=None, rope_shift=0):
        return self.calculated(x, past, rope_shift)


@healthy
class TheCallerJoins(Cached):
    def forward(self, x, past_kv=None):
        out, (k, v) = self.calculated(x, past_kv)
        return out, (k[:, :, -x.shape[1] :], v[:, :, -x.shape[1] :])


@healthy
class SlidingCache(Cached):
    width = 4

    def shown(self, Tq, Tk):
        return super().shown(Tq, Tk).triu(Tk - Tq - self.width + 1)

    def forward(self, x, cache=None):
        out, (k, v) = self.calculated(x, cache)
        return out, (k[:, :, -self.width + 1 :], v[:, :, -self.width + 1 :])


@healthy
class EmptyTensorsForNoCache(Cached):
    def shown(self, Tq, Tk):
        return torch.ones(Tq, Tk, dtype=torch.bool)

    def forward(self, x, cache=(torch.zeros(0), torch.zeros(0))):  # noqa: B008 -- as people write it
        return self.calculated(x, None if cache[0].numel() == 0 else cache)


@healthy
class CoarseCache(Cached):
    """Keeps its keys and values in half precision."""

    def join(self, past, k, v):
        return super().join((past[0].float(), past[1].float()), k, v)

    def forward(self, x, past=None):
        out, present = self.calculated(x, past)
        return out, tuple(part.bfloat16() for part in present)


@sick("cache-differs")
class CausalCorner(Cached):
    def shown(self, Tq, Tk):
        return torch.ones(Tq, Tk, dtype=torch.bool).tril()


@sick("cache-differs")
class PlacesStartAgain(Turned):
    def turn(self, x, place):
        return super().turn(x, 0)


@sick("cache-differs")
class NewValuesFirst(Cached):
    def join(self, past, k, v):
        return torch.cat([past[0], k], 2), torch.cat([v, past[1]], 2)


# ---------------------------------------------------------------------------------- filled in place, kept in the module


@healthy
class FillsADict(Turned):
    def forward(self, x, incremental_state=None):
        state = {} if incremental_state is None else incremental_state
        out, (state["k"], state["v"]) = self.calculated(x, (state["k"], state["v"]) if "k" in state else None)
        return out


@sick("cache-differs")
class FillsADictWithTheNewValuesFirst(FillsADict):
    join = NewValuesFirst.join


@healthy
class InTheModule(Turned):
    """Writes keys and values into buffers, from `start_pos` on; for generating alone, so without gradients."""

    def more(self):
        for name in ("cache_k", "cache_v"):
            self.register_buffer(name, torch.zeros(16, self.h, 128, self.hd), persistent=False)

    def until(self, start_pos, T):
        return start_pos + T

    @torch.no_grad()
    def forward(self, x, start_pos: int = 0):
        (B, T, _), place = x.shape, slice(start_pos, start_pos + x.shape[1])
        self.cache_k[:B, :, place] = self.turn(self.split(self.W_k(x)), start_pos)
        self.cache_v[:B, :, place] = self.split(self.W_v(x))
        q, until = self.turn(self.split(self.W_q(x)), start_pos), self.until(start_pos, T)
        k, v = self.cache_k[:B, :, :until], self.cache_v[:B, :, :until]
        return self.out(self.score(q, k).softmax(-1) @ v)


@sick("cache-differs")
class ReadsTheFirstKeysOnly(InTheModule):
    def until(self, start_pos, T):
        return T


@healthy
class AppendsToAList(Cached):
    def forward(self, x, cache=None):
        past = tuple(torch.cat(parts, 2) for parts in zip(*cache, strict=True)) if cache else None
        out, present = self.calculated(x, past)
        if cache is not None:
            cache.append(tuple(part[:, :, -x.shape[1] :] for part in present))
        return out


@healthy
class KeepsRotaryTables(Turned):
    """What it keeps grows with the tokens and is no cache of them."""

    def more(self):
        self.register_buffer("table", torch.zeros(0, 8), persistent=False)

    def forward(self, x, start_pos=0):
        if len(self.table) < start_pos + x.shape[1]:
            self.table = torch.arange(8.0).expand(start_pos + x.shape[1], 8)
        return self.calculated(x, None, start_pos)[0]


@healthy
class LearnsItsPlaces(Cached):
    """Its table is twice as long as wide, like two projections in one, and most of it is not read."""

    def more(self):
        self.places = nn.Parameter(torch.randn(2 * self.d_model, self.d_model))

    def forward(self, x, layer_past=None, use_cache=False):
        start = 0 if layer_past is None else layer_past[0].shape[2]
        out, present = self.calculated(x + self.places[start : start + x.shape[1]], layer_past)
        return (out, present) if use_cache else (out, None)


# ------------------------------------------------------------------------------------------------- inputs that differ


class QKV(Layer):
    """Takes queries, keys and values."""

    def attended(self, q, k, v):
        q, k, v = self.split(self.W_q(q)), self.split(self.W_k(k)), self.split(self.W_v(v))
        return self.out(self.score(q, k).softmax(-1) @ v)

    def forward(self, query, key, value):
        return self.attended(query, key, value)


HEALTHY["ThreeInputs"] = QKV


@healthy
class KeysFirst(QKV):
    def forward(self, key, value, query):
        return self.attended(query, key, value)


@healthy
class SelfAttentionInAnothersSignature(QKV):
    def forward(self, query, key, value):
        return self.attended(query, query, query)


@healthy
class MemoryForKeysAndValues(QKV):
    encoder_decoder_attention = None

    def more(self):
        self.encoder_decoder_attention = True

    def forward(self, query, key, value):
        return self.attended(query, key, key)


@healthy
class OptionalContext(QKV):
    def forward(self, x, context=None):
        context = x if context is None else context
        return self.attended(x, context, context)


@healthy
class GateThatIsStillClosed(QKV):
    """Begins as if there were no context, as layers that are added to a trained model do."""

    gate = 0.0

    def forward(self, x, context=None):
        if context is None:
            return x + self.attended(x, x, x)
        return x + self.gate * self.attended(x, context, context)


@sick("input-ignored")
class ValuesFromTheKeys(QKV):
    def forward(self, query, key, value):
        return self.attended(query, key, key)


@sick("input-ignored")
class KeysFromTheQueries(QKV):
    def forward(self, query, key, value):
        return self.attended(query, query, value)


@sick("input-ignored")
class ContextIgnored(QKV):
    def forward(self, x, context=None):
        context = x if context is None else context
        return self.attended(x, x, x)


@sick("input-ignored")
class CrossAttentionThatForgetsItsContext(QKV):
    def forward(self, x, context=None):
        return self.attended(x, x, x)


@sick("crash")
class AsManyKeysAsQueries(QKV):
    def split(self, x):
        return x.view(len(x), self.T, self.h, self.hd).transpose(1, 2)

    def forward(self, query, key, value):
        self.T = query.shape[1]
        return self.attended(query, key, value)


@healthy
class SelfAttentionOnly(nn.Module):
    """Declared to be called with one tensor three times."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]


HEALTHY["declared, three inputs"] = lambda d, h: adapt(QKV(d, h), "qkv", mask=None)


@healthy
class FusedKeysAndValues(QKV):
    """One matrix for the keys and the values of a context, with or without one."""

    def more(self):
        del self.W_k, self.W_v
        self.W_kv = nn.Linear(self.d_model, 2 * self.d_model, bias=False)

    def parts(self, context):
        return self.W_kv(context).chunk(2, -1)

    def forward(self, x, context=None):
        k, v = self.parts(x if context is None else context)
        q, k, v = self.split(self.W_q(x)), self.split(k), self.split(v)
        return self.out(self.score(q, k).softmax(-1) @ v)


@sick("dead-parameters")
class KeysForValues(FusedKeysAndValues):
    def parts(self, context):
        return (super().parts(context)[0],) * 2

"""Kinds of layers that strangers write: each healthy one is left alone, and named where one change has spoilt it."""

import functools
import math

import pytest
import torch
from torch import nn

from attention_doctor import adapt, examine
from tests.helpers.layers_base import KeyMask, Layer, varied
from tests.helpers.layers_beyond import BEYOND
from tests.helpers.layers_calls import Cached
from tests.helpers.layers_libraries import LIBRARIES, PointwiseByLength, ScalesIfAsked, SlotsAtRandom, Whole
from tests.helpers.layers_strangers import STRANGE


class Episodes(Layer):
    """Time first; a step sees the earlier ones of its own episode, `done` (T, B) says where one begins."""

    def forward(self, obs, done):
        episode = done.long().cumsum(0).t()  # (B, T)
        mask = (episode[:, :, None] == episode[:, None]).tril()
        return self.out(self.attend(*self.qkv(obs.transpose(0, 1)), mask)).transpose(0, 1)


class OneSizeOfPicture(Layer):
    """Pictures (B, d_model, 2, 4), and a table for each of their places."""

    def more(self):
        self.rows, self.columns = (nn.Parameter(torch.randn(self.h, self.hd, *size)) for size in ((2, 1), (1, 4)))

    def score(self, q, k):
        places = (self.rows + self.columns).flatten(2)  # (h, hd, T)
        return super().score(q, k) + q @ places / math.sqrt(self.hd)

    def forward(self, x):
        return super().forward(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)


class FrameCausal(Layer):
    """Frames (B, F, S, d_model): all tokens of a frame see it whole, and the frames before it."""

    ahead = 0

    def forward(self, x):
        frame = torch.arange(x.shape[1]).repeat_interleave(x.shape[2])
        mask = frame[:, None] + self.ahead >= frame
        return super().forward(x.flatten(1, 2), mask).reshape(x.shape)


class ChunkCausal(Layer):
    """Chunks of four tokens see themselves whole, and all that is before."""

    ahead = 0

    def forward(self, x):
        place = torch.arange(x.shape[1])
        return super().forward(x, (place // 4 + 1)[:, None] * 4 + self.ahead > place)


class MissingDays(Layer):
    """Days that are missing for all samples, in a buffer of biases."""

    def more(self):
        self.register_buffer("past", torch.zeros(64, 64).masked_fill(~torch.ones(64, 64).tril().bool(), -torch.inf))

    def biases(self, T):
        return self.past[:T, :T].clone()

    def forward(self, x, observed=None):
        biases = self.biases(x.shape[1])
        if observed is not None:
            biases[:, ~observed.bool()] = torch.finfo(x.dtype).min
        q, k, v = self.qkv(x)
        return self.out((self.score(q, k) + biases).softmax(-1) @ v)


class ByLengths(Layer):
    def mask_of(self, lens, T):
        return (torch.arange(T) < lens[:, None])[:, None]

    def forward(self, x, x_lens):
        return super().forward(x, self.mask_of(x_lens, x.shape[1])), x_lens


def _mask_of_the_first_call(self, lens, T):
    kept = getattr(self, "kept", None)
    if kept is None or kept.shape[0] != len(lens) or kept.shape[-1] != T:
        self.kept = ByLengths.mask_of(self, lens, T)
    return self.kept


class Rolling(Cached):
    """A window of six tokens, in a cache that holds as many."""

    def keep(self, part):
        return part[:, :, -6:]

    def shown(self, Tq, Tk):
        return super().shown(Tq, Tk).triu(Tk - Tq - 5)

    def forward(self, x, past=None):
        out, present = self.calculated(x, past)
        return out, tuple(map(self.keep, present))


class Slots(Layer):
    """Writes keys and values into the slots `input_pos` (T,) of a buffer for two samples."""

    def more(self):
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(2, self.h, 64, self.hd), persistent=False)

    def filled(self, input_pos):
        return torch.arange(64) <= input_pos[:, None]

    def forward(self, x, input_pos=None):
        q, k, v = self.qkv(x)
        if input_pos is None:
            return self.out(self.attend(q, k, v, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()))
        self.keys[:, :, input_pos], self.values[:, :, input_pos] = k.detach(), v.detach()
        return self.out(self.attend(q, self.keys, self.values, self.filled(input_pos)))


class Letters(Layer):
    letters = "bhqd,bhkd->bhqk"

    def score(self, q, k):
        return torch.einsum(self.letters, q, k) / self.hd**0.5


class Edges(Layer):
    """A graph with five features of each edge."""

    def more(self):
        self.of_edges = nn.Linear(5, self.h)

    def forward(self, nodes, edges):
        q, k, v = self.qkv(nodes)
        return self.out((self.score(q, k) + self.of_edges(edges).permute(0, 3, 1, 2)).softmax(-1) @ v)


class Modulated(Layer):
    """Two arguments that say nothing of themselves: a vector for each sample, and a number for each token."""

    def more(self):
        self.shift, self.kind = nn.Linear(self.d_model, self.d_model), nn.Embedding(3, self.d_model)

    def forward(self, x, vec, flavour):
        return super().forward(x + self.shift(vec)[:, None] + self.kind(flavour))


class Packed(Layer):
    """Documents one after another, (tokens, d_model)."""

    def document(self, place, cu_seqlens):
        return torch.bucketize(place, cu_seqlens[1:], right=True)

    def forward(self, x, cu_seqlens):
        of = self.document(torch.arange(len(x)), cu_seqlens)
        return super().forward(x[None], of[:, None] == of)[0]


class StepsOfNodes(Layer):
    """Each node attends along its own time, (B, T, N, d_model); a mask says which steps of a sample count."""

    def of_nodes(self, mask, N):
        return mask.repeat_interleave(N, 0)

    def forward(self, x, mask=None):
        B, T, N, d = x.shape
        keys = None if mask is None else self.of_nodes(mask, N)[:, None].expand(-1, T, T)
        return super().forward(x.transpose(1, 2).reshape(B * N, T, d), keys).view(B, N, T, d).transpose(1, 2)


class FramesOfVideo(Layer):
    """Each frame attends to itself, (B, d_model, F, H, W)."""

    def frames(self, x):
        return x.permute(0, 2, 3, 4, 1).flatten(2, 3).flatten(0, 1)  # (B F, H W, d_model)

    def qkv(self, x):
        made = (self.frames(W(x.movedim(1, -1)).movedim(-1, 1)) for W in (self.W_q, self.W_k, self.W_v))
        return tuple(map(self.split, made))

    def forward(self, x):
        y = super().forward(x).unflatten(1, x.shape[-2:]).unflatten(0, (len(x), -1))
        return y.permute(0, 4, 1, 2, 3)


class PixelsThroughTime(Layer):
    """Each pixel attends to itself in the other frames, (B, F, H, W, d_model)."""

    def of_pixels(self, x):
        return x.movedim(1, 3).reshape(-1, *x.shape[1::3])  # (B H W, F, d_model)

    def forward(self, x):
        return self.of_frames(super().forward(self.of_pixels(x)), x)

    def of_frames(self, y, x):
        return y.view(len(x), *x.shape[2:4], *x.shape[1::3]).movedim(3, 1)


class Subtracted(Layer):
    """Differential: of the maps of every second head those of the others are taken away."""

    def attend(self, q, k, v, mask):
        maps = self.weigh(self.score(q, k))
        return (maps[:, ::2] - 0.5 * maps[:, 1::2]) @ torch.cat([v[:, ::2], v[:, 1::2]], -1)

    def forward(self, x):
        return super().forward(x)


class WithAVector(Layer):
    """A vector for each sample shifts, and opens a gate that is shut at first."""

    chance = 0.0

    def more(self):
        self.shift = nn.Linear(self.d_model, 2 * self.d_model)
        nn.init.zeros_(self.shift.weight), nn.init.zeros_(self.shift.bias)

    def weigh(self, scores):
        return nn.functional.dropout(super().weigh(scores), self.chance)

    def forward(self, x, c):
        shift, gate = self.shift(c)[:, None].chunk(2, -1)
        return x + (1 + gate) * super().forward(x + shift)


class Kernels(Layer):
    """Linear attention to what came before, divided by the sum of its weights."""

    of_tokens = 2

    def forward(self, x):
        q, k, v = (y.relu() + 0.1 for y in self.qkv(x))
        sums = (k[..., None] * v[..., None, :]).cumsum(2)
        return self.out((q[..., None, :] @ sums)[..., 0, :] / (q * k.cumsum(self.of_tokens)).sum(-1, keepdim=True))


class Pooled(Layer):
    """One output for a sample: each head weighs the tokens for its own features."""

    of_tokens = 1

    def more(self):
        self.asked = nn.Linear(self.d_model, self.h)

    def forward(self, x):
        weights = self.asked(x + self.W_q(x) + self.W_k(x)).softmax(self.of_tokens)  # (B, T, h)
        heads = torch.einsum("bth,bthd->bhd", weights, self.W_v(x).unflatten(-1, (self.h, self.hd)))
        return self.W_o(heads.flatten(1))


class Decoder(Layer):
    """Attends to itself, then to a memory; a cache holds the keys and values of both."""

    def more(self):
        self.to_memory = Layer(self.d_model, self.h)

    def handed_on(self, memory):
        return memory

    def joined(self, old, new):
        return torch.cat([old, new], 2)

    def forward(self, x, memory, cache=None):
        q, k, v = self.qkv(x)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), self.joined(cache["v"], v)
        if cache is not None:
            cache.update(k=k, v=v)
        x = x + self.out(self.attend(q, k, v, torch.ones(k.shape[2], k.shape[2]).tril().bool()[-x.shape[1] :]))
        cross = self.to_memory
        return x + cross.out(cross.attend(cross.qkv(x)[0], *cross.qkv(self.handed_on(memory))[1:], None))


class Allocated(Slots):
    """The same, with buffers that a method makes before the first call."""

    def more(self):
        self.keys = self.values = None

    def setup_cache(self, batch_size, max_len):
        self.keys, self.values = torch.zeros(2, batch_size, self.h, max_len, self.hd)

    def filled(self, input_pos):
        return torch.arange(self.keys.shape[2]) <= input_pos[:, None]


class KVPairs:
    """A cache that its layer's author wrote."""

    pairs = None


class InAnObject(Cached):
    """Its cache is an object of a class that stands beside it, and no type names it."""

    careless = False  # whether a prompt that fills a cache sees its own future

    def shown(self, Tq, Tk):
        return super().shown(Tq, Tk) | (self.careless and self.cached and Tq > 1)

    def forward(self, x, cache=None):
        self.cached = cache is not None
        out, present = self.calculated(x, cache.pairs if self.cached else None)
        if self.cached:
            cache.pairs = present
        return out


class SlotsCache(nn.Module):
    """Room for the keys and values of all tokens that may come."""

    def __init__(self, batch_size, max_len, h, hd):
        super().__init__()
        self.register_buffer("slots", torch.zeros(2, batch_size, h, max_len, hd))


class InSlots(Cached):
    """It fills what it is handed from a place on, and sees no slot behind its own."""

    empty = False  # whether one new token sees the slots that nothing has filled

    def forward(self, x, kv_cache=None, start_pos=0):
        q, k, v = self.qkv(x)
        until = start_pos + x.shape[1]
        if kv_cache is not None:
            kv_cache.slots[:, :, :, start_pos:until] = torch.stack((k, v))
            k, v = kv_cache.slots if self.empty and x.shape[1] == 1 else kv_cache.slots[:, :, :, :until]
        shown = self.shown(x.shape[1], until)
        shown = nn.functional.pad(shown, (0, k.shape[2] - until), value=True)
        return self.out(self.score(q, k).masked_fill(~shown, -1e9).softmax(-1) @ v)


class InWords(KeyMask):
    """A helper says what its mask means."""

    def padded_mask(self, attention_mask):
        """1 for tokens and 0 for padding -> what is added."""
        return (1 - attention_mask.float())[:, None, None] * -1e4

    def hide(self, scores, mask):
        return scores if mask is None else scores + self.padded_mask(mask)

    def forward(self, x, attention_mask=None):
        return super().forward(x, attention_mask)


class NotAsInWords(InWords):
    def padded_mask(self, attention_mask):
        """1 for tokens and 0 for padding -> what is added."""
        return attention_mask.float()[:, None, None] * -1e4


def _one_for_all(self, memory):
    return torch.arange(memory[0].numel()).view_as(memory[:1]).cos().expand_as(memory)


def _merge(self, heads):
    return heads.reshape(len(heads), heads.shape[2], -1)


def _unscaled(self, q, k):
    return q @ k.mT


KINDS = [  # a healthy kind, what spoils it, and the code
    (Episodes, {"score": _unscaled}, "wrong-scale"),
    (OneSizeOfPicture, {"merge": _merge}, "mixes-tokens-on-merge"),
    (FrameCausal, {"ahead": 1}, "future-leak"),
    (ChunkCausal, {"ahead": 1}, "future-leak"),
    (MissingDays, {"biases": lambda self, T: self.past[:T, :T]}, "not-deterministic"),
    (ByLengths, {"mask_of": _mask_of_the_first_call}, "not-deterministic"),
    (Rolling, {"keep": lambda self, part: part[:, :, :6]}, "cache-differs"),
    (Slots, {"filled": lambda self, input_pos: Slots.filled(self, input_pos) | (len(input_pos) == 1)}, "cache-differs"),
    (Letters, {"letters": "bhqd,bnkd->bhqk"}, "groups-differ"),
    (Edges, {"merge": _merge}, "mixes-tokens-on-merge"),
    (Modulated, {"merge": _merge}, "mixes-tokens-on-merge"),
    (Packed, {"document": lambda self, place, cu_seqlens: torch.bucketize(place, cu_seqlens[1:])}, "mask-leaks"),
    (StepsOfNodes, {"of_nodes": lambda self, mask, N: mask.repeat(N, 1)}, "mask-order"),
    (FramesOfVideo, {"frames": lambda self, x: x.reshape(-1, x.shape[1], x[0, 0, 0].numel()).mT}, "mixes-tokens"),
    (
        PixelsThroughTime,
        {
            "of_pixels": lambda self, x: x.reshape(-1, *x.shape[1::3]),
            "of_frames": lambda self, y, x: y.view(x.shape),
        },
        "mixes-tokens",
    ),
    (Subtracted, {"merge": _merge}, "mixes-tokens-on-merge"),
    (WithAVector, {"chance": 0.1}, "not-deterministic"),
    (Kernels, {"of_tokens": 1}, "no-softmax"),
    (Pooled, {"of_tokens": 2}, "softmax-axis"),
    (Decoder, {"handed_on": _one_for_all}, "input-ignored"),
    (Decoder, {"joined": lambda self, old, new: torch.cat([new, old], 2)}, "cache-differs"),
    (
        Allocated,
        {"filled": lambda self, input_pos: Allocated.filled(self, input_pos) | (len(input_pos) == 1)},
        "cache-differs",
    ),
    (InAnObject, {"careless": True}, "cache-differs"),
    (InSlots, {"empty": True}, "cache-differs"),
    *STRANGE,
    *BEYOND,
    *LIBRARIES,
]


@functools.cache
def examined(kind):
    torch.manual_seed(0)
    report = examine(kind(32, 4), None if kind.__name__.endswith("OfASensor") else 32, 4)
    assert "error of its own" not in str(report)
    return report


def by_day(number: int, kind, *others):
    """Return a kind to be tried: every third each time, all of them at night."""
    return pytest.param(kind, *others, id=kind.__name__, marks=[pytest.mark.slow] if number % 3 else [])


@pytest.mark.parametrize(("kind", "change", "code"), [by_day(n, *each) for n, each in enumerate(KINDS)])
def test_a_kind_of_its_own_is_no_mistake_and_one_change_in_it_is_named(kind, change, code):
    assert (report := examined(kind)).ok, report
    spoilt = varied(f"Spoilt{kind.__name__}", kind, **change)
    assert (report := examined(spoilt)).codes == [code], report


def test_a_helper_says_what_a_mask_means():
    assert examined(InWords).ok and examined(NotAsInWords).codes == ["mask-inverted"]


def test_what_was_seen_of_them_is_said():
    assert "takes 8 only" in str(examined(OneSizeOfPicture))
    assert "its own block of" in str(examined(FrameCausal)) and "its own block of 4" in str(examined(ChunkCausal))
    assert examine(adapt(ChunkCausal(32, 4), mask=None, causal=True), 32, 4).codes == ["future-leak"]
    report = examined(Whole)
    assert report.subject == "Whole.block.attn" and "the rest of Whole: no way of calling" in str(report)
    report = examined(Edges)
    assert "nothing is known of edges: something that runs was made up" in report.called_as
    assert "all but its steps: what edges should be is not known" in report.not_examined


def test_a_mask_of_one_axis_can_be_declared():
    assert examine(adapt(MissingDays(32, 4), mask_rank=1, mask_over="keys"), 32, 4).ok


def test_what_is_drawn_at_random_on_purpose_is_not_examined_and_not_accused():
    assert "numbers drawn at random" in str(examined(SlotsAtRandom).not_examined)
    assert examined(SlotsAtRandom).ok


@pytest.mark.parametrize("kind", [PointwiseByLength, ScalesIfAsked])
def test_what_is_chosen_is_no_mistake(kind):
    assert (report := examined(kind)).ok, report

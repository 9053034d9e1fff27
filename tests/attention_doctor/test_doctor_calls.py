"""How a layer is called is found out: by its signature, by its author's words, by trying; and said in a line."""

import math
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from mhalib import MultiHeadAttention
from mhalib.doctor import adapt, examine
from mhalib.doctor.calls.words import Words
from tests.helpers.layers_base import Layer
from tests.helpers.layers_healthy import Blocked, RankFour, TimeFirst


class Core(nn.Module):
    """Attention with an additive mask, to be called in many ways."""

    def __init__(self, d_model=32, num_heads=4):
        super().__init__()
        self.num_heads, self.qkv, self.out = num_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def attend(self, x, added=0.0):
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + added
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def hidden(mask):
    return torch.zeros(mask.shape).masked_fill(mask, -1e9)


class Padding(Core):
    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        added = 0.0 if attention_mask is None else hidden(attention_mask == 0)[:, None, None]
        return (self.attend(hidden_states, added),)


class PaddingHidden(Core):
    def forward(self, x, key_padding_mask=None):
        return self.attend(x, 0.0 if key_padding_mask is None else hidden(key_padding_mask)[:, None, None])


class ChannelsFirst(Core):
    def forward(self, x, x_mask=None):
        """x: (batch, channels, time), x_mask: (batch, 1, time)."""
        b, c, t = x.shape
        return self.attend(x.transpose(1, 2), 0.0 if x_mask is None else hidden(x_mask == 0)[:, None]).transpose(1, 2)


class NoBatch(Core):
    def forward(self, x):
        T, C = x.shape
        return self.attend(x[None])[0]


class Lengths(Core):
    def forward(self, x, x_lens):
        return self.attend(x, hidden(torch.arange(x.shape[1]) >= x_lens[:, None])[:, None, None])


class InATuple(Core):
    def forward(self, x):
        return torch.zeros(len(x), 4, x.shape[1], x.shape[1]), self.attend(x)


class AsAnObject(Core):
    def forward(self, x):
        return SimpleNamespace(attentions=None, last_hidden_state=self.attend(x))


class CausalUnlessTold(Core):
    def forward(self, x, mask=None):
        T = x.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool).tril() if mask is None else mask
        return self.attend(x, hidden(~mask))


class WantsPlaces(Core):
    def forward(self, x, start_pos, position_ids, mask=None):
        assert start_pos == 0 and position_ids.shape[-1] == x.shape[1]
        return self.attend(x, 0.0 if mask is None else mask)


@dataclass
class SomeConfig:
    n_embd: int
    n_head: int
    block_size: int
    dropout: float = 0.1


class FromAConfig(Core):
    def __init__(self, config: SomeConfig):
        super().__init__(config.n_embd, config.n_head)

    def forward(self, x):
        B, T, C = x.shape
        return self.attend(x)


class FromSizes(Core):
    def __init__(self, n_heads, embed_dims, dim_head=None, max_len=None, drop=0.2):
        super().__init__(embed_dims, n_heads)

    def forward(self, x):
        return self.attend(x)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (Layer(32, 4), "adapt(layer, mask_name='mask')"),
        (Padding(), "adapt(layer, mask_rank=2, mask_name='attention_mask', mask_over='keys')"),
        (PaddingHidden(), "adapt(layer, mask='blocked', mask_rank=2, mask_name='key_padding_mask', mask_over='keys')"),
        (ChannelsFirst(), "adapt(layer, mask_name='x_mask', axes='B d T')"),
        (NoBatch(), "adapt(layer, mask=None, axes='T d')"),
        (Lengths(), "adapt(layer, mask='lengths', mask_rank=1, mask_name='x_lens')"),
        (InATuple(), "adapt(layer, mask=None, output=1)"),
        (AsAnObject(), "adapt(layer, mask=None, output='last_hidden_state')"),
        (CausalUnlessTold(), "adapt(layer, mask_rank=4, mask_name='mask', mask_always=True)"),
        (RankFour(32, 4), "adapt(layer, 'qkv', mask_rank=4, mask_name='mask')"),
        (nn.MultiheadAttention(32, 4), "adapt(layer, 'torch')"),
        (nn.MultiheadAttention(32, 4, batch_first=True).forward, "adapt(layer, 'qkv', mask='blocked', mask_rank=2"),
    ],
)
def test_how_it_is_called_is_said_in_a_line(layer, said, as_shipped):
    report = examine(layer, 32, 4)
    assert report.ok, report
    assert report.called_as.startswith(said), report.called_as


def test_the_line_can_be_pasted():
    for layer in (Padding(), ChannelsFirst(), Lengths(), WantsPlaces(), RankFour(32, 4)):
        line = examine(layer, 32, 4).called_as.splitlines()[0]
        assert examine(eval(line, {"adapt": adapt, "layer": layer, "torch": torch}), 32, 4).ok, line


@pytest.mark.parametrize("kind", [FromAConfig, FromSizes, MultiHeadAttention, nn.MultiheadAttention])
def test_a_class_is_made_by_the_names_of_its_sizes(kind, as_shipped):
    for sizes in ((), (24, 3), (48,)):
        report = examine(kind, *sizes)
        assert report.ok and report.called_as.startswith(f"{kind.__name__}("), report
        assert str(sizes[0] if sizes else 32) in report.called_as


def test_a_class_of_which_nothing_is_known_is_refused():
    class Strange(nn.Module):
        def __init__(self, weather):
            raise ValueError("it rains")

    with pytest.raises(TypeError, match="could not be made by d_model=32 and num_heads=4"):
        examine(Strange)


# ------------------------------------------------------------------------------------------------------ time first


def test_what_is_declared_wins():
    assert not examine(adapt(TimeFirst(32, 4)), 32, 4).ok
    assert examine(adapt(Blocked(32, 4), mask="allowed"), 32, 4).codes == ["mask-inverted"]


# -------------------------------------------------------------------------------------------------------- polarity


def polarity(docstring, fill):
    class Masked(Core):
        def forward(self, x, mask=None):
            return self.attend(x, 0.0 if mask is None else hidden(fill(mask))[:, None])

    return Masked(), docstring


@pytest.mark.parametrize("inverted", [False, True])
def test_a_polarity_that_nobody_states_is_never_wrong(inverted):
    class Silent(Core):
        def forward(self, x, attn_mask=None):
            shown = attn_mask if attn_mask is None or not inverted else ~attn_mask
            return self.attend(x, 0.0 if shown is None else hidden(~shown)[:, None])

    report = examine(Silent(), 32, 4)
    assert report.ok and f"mask={'blocked'!r}" in report.called_as if inverted else report.ok
    assert "read the wrong way round could not be told" in report.called_as


class Promised(Core):
    """Attention."""

    def forward(self, x, attn_mask=None):
        """attn_mask: (B, T, T), True = may attend."""
        return self.attend(x, 0.0 if attn_mask is None else hidden(attn_mask)[:, None])


def test_a_polarity_that_is_stated_is_a_promise():
    assert examine(Promised(), 32, 4).codes == ["mask-inverted"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mask: 1 for tokens to attend to, 0 for padding", "allowed"),
        ("mask (B, T), True where a query may look", "allowed"),
        ("mask: True = keep", "allowed"),
        ("mask: nonzero means use", "allowed"),
        ("mask: 0 for positions that are ignored", "allowed"),
        ("mask: True = blocked", "blocked"),
        ("mask: positions with 1 are masked out", "blocked"),
        ("mask: bool, True at padding", "blocked"),
        ("mask: 1 for tokens that are not masked, 0 for masked ones", "allowed"),
        ("mask: added to the scores, 0 or -inf", "additive"),
        ("mask: which keys are seen", None),
        ("mask: True = keep; in the cache True = blocked", None),
    ],
)
def test_what_words_say_of_a_mask(text, said):
    assert Words(text, "", "x").polarity("mask", True) == said


class TwoMasks(Core):
    leaks = False

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        added = 0.0 if attn_mask is None else hidden(attn_mask)
        if key_padding_mask is not None:
            added = added + hidden(key_padding_mask)[:, None, None] * (1e-12 if self.leaks else 1)
        return self.attend(query, added)


def test_each_of_two_masks_is_examined():
    layer = TwoMasks()
    assert examine(layer, 32, 4).ok
    layer.leaks = True
    (finding,) = examine(layer, 32, 4).findings
    assert finding.code == "mask-leaks" and finding.evidence.startswith("key_padding_mask: ")


# -------------------------------------------------------------------------------------------------------- refusals


class Hangs(Layer):
    calls = 0

    def forward(self, x, mask=None):
        self.calls += 1
        while self.calls > 200:
            time.sleep(0.001)
        return super().forward(x, mask)


def test_a_layer_that_hangs_ends_with_what_was_found_till_then():
    layer = Hangs(32, 4)
    report = examine(layer, 32, 4, seconds=1.0)
    assert any("stopped after 1 seconds" in line for line in report.not_examined)
    assert report.called_as and layer.training


def test_the_examination_is_the_same_every_time():
    layer = Padding()
    assert str(examine(layer, 32, 4)) == str(examine(layer, 32, 4))


class Bound:
    """A plain object that holds modules."""

    def __init__(self):
        self.core, self.unused, self.drop = Core(), nn.Linear(7, 7), nn.Dropout(0.5)

    def step(self, x):
        return self.drop(self.core.attend(x))


def test_a_bound_method_of_a_plain_object():
    owner = Bound()
    assert examine(owner.step, 32, 4).ok and owner.drop.training

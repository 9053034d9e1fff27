"""How a layer is called is found out and said in a line; what is declared wins; and the layer comes back as it was."""

import random
import time
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from attention_doctor import adapt, examine
from attention_doctor.docs import Docs
from mhalib import MultiHeadAttention
from tests.helpers import layers_calls, layers_guessed
from tests.helpers.layers_base import Layer, varied
from tests.helpers.layers_healthy import Blocked, Dropout, RankFour, ReturnsDict, TimeFirst


class Core(Layer):
    """To be called in many ways."""

    def __init__(self, d_model=32, num_heads=4):
        super().__init__(d_model, num_heads)


class Padding(Core):
    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        return (super().forward(hidden_states, None if attention_mask is None else attention_mask[:, None] == 1),)


class PaddingHidden(Core):
    def forward(self, x, key_padding_mask=None):
        return super().forward(x, None if key_padding_mask is None else ~key_padding_mask[:, None])


class ChannelsFirst(Core):
    def forward(self, x, x_mask=None):
        """x: (batch, channels, time), x_mask: (batch, 1, time)."""
        b, c, t = x.shape
        return super().forward(x.transpose(1, 2), None if x_mask is None else x_mask == 1).transpose(1, 2)


class NoBatch(Core):
    def forward(self, x):
        T, C = x.shape
        return super().forward(x[None])[0]


class Lengths(Core):
    def forward(self, x, x_lens):
        return super().forward(x, (torch.arange(x.shape[1]) < x_lens[:, None])[:, None])


class InATuple(Core):
    def forward(self, x):
        return torch.zeros(len(x), 4, x.shape[1], x.shape[1]), super().forward(x)


class AsAnObject(Core):
    def forward(self, x):
        return SimpleNamespace(attentions=None, last_hidden_state=super().forward(x))


class CausalUnlessTold(Core):
    def axes(self, mask):
        return mask

    def forward(self, x, mask=None):
        T = x.shape[1]
        return super().forward(x, torch.ones(T, T, dtype=torch.bool).tril() if mask is None else mask)


class Adds(Core):
    def hide(self, scores, mask):
        return scores if mask is None else scores + mask


class WantsPlaces(Adds):
    def forward(self, x, start_pos, position_ids, mask=None):
        assert start_pos == 0 and position_ids.shape[-1] == x.shape[1]
        return super().forward(x, mask)


class AsTransformers(Adds):
    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        """attention_mask is added to the scores."""
        return super().forward(hidden_states, attention_mask)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (Layer(32, 4), "adapt(layer, mask_name='mask')"),
        (Padding(), "adapt(layer, mask_rank=2, mask_name='attention_mask', mask_over='keys')"),
        (PaddingHidden(), "adapt(layer, mask='blocked', mask_rank=2, mask_name='key_padding_mask', mask_over='keys')"),
        (AsTransformers(), "adapt(layer, mask='additive', mask_rank=4, mask_name='attention_mask')"),
        (ChannelsFirst(), "adapt(layer, mask_name='x_mask', axes='B d T')"),
        (NoBatch(), "adapt(layer, mask=None, axes='T d')"),
        (Lengths(), "adapt(layer, mask='lengths', mask_rank=1, mask_name='x_lens')"),
        (InATuple(), "adapt(layer, mask=None, output=1)"),
        (AsAnObject(), "adapt(layer, mask=None, output='last_hidden_state')"),
        (CausalUnlessTold(), "adapt(layer, mask_rank=4, mask_name='mask', mask_always=True)"),
        (WantsPlaces(), "adapt(layer, mask='additive', mask_rank=4, mask_name='mask', also={'start_pos': 0"),
        (RankFour(32, 4), "adapt(layer, 'qkv', mask_rank=4, mask_name='mask')"),
        (nn.MultiheadAttention(32, 4), "adapt(layer, 'torch')"),
    ],
)
def test_how_it_is_called_is_said_in_a_line_that_can_be_pasted(layer, said):
    report = examine(layer, 32, 4)
    assert report.ok and report.called_as.startswith(said), report
    line = report.called_as.splitlines()[0]
    assert examine(eval(line, {"adapt": adapt, "layer": layer, "torch": torch}), 32, 4).ok


@pytest.mark.parametrize(
    ("kind", "said", "not_examined"),
    [
        ("TextBesidePicture", "axes='B d H W, B T d'", "what stamp should be is not known"),
        ("MapBesideQueries", "axes='B T d, B d h w'", ""),
        ("ClassAndGrid", "x[:, 1:]", "what extent should be is not known"),
        ("FramesOfABatch", "'frames': lambda x: 1", "what frames should be is not known"),
        ("PairsOfTokens", "axes='B H W d'", "takes 1, 4, 9 only"),
        ("OneSizeOfWindow", "adapt(layer, mask=None)", "takes 32 only"),
        ("ClassInFront", "adapt(layer, mask=None)", ""),
        ("TwoPaddings", "mask_over='keys'", ""),
        ("LengthsOfBoth", "mask_name='len_k'", "len_q: it hides queries, and no keys"),
        ("MasksOfBoth", "mask_name='k_mask'", "q_mask: it hides queries, and no keys"),
        ("WantsToBeToldWhatToHide", "mask='blocked'", ""),
        ("PadsOfPrompts", "mask='blocked'", ""),
        ("OfIds", "batched.item, 'forward', lambda ids: x", ""),
        ("Cells", "axes='B T'", "takes 1, 10 only"),
        ("OneGrid", "axes='B H W d'", "takes 96 only"),
        ("Forecast", "adapt(layer, mask=None)", ""),
        ("Question", "mask_name='q_mask'", ""),
        ("OfABatch", "lambda x, mask: batched({'mask': mask, 'x': x})", ""),
        ("OfAList", "lambda q, kv, kv_mask: batched([q, kv, kv_mask])", ""),
        ("SideBySide", "also={'item': lambda x: x.new_ones(len(x), 48)}", ""),
        ("Intensities", "mask='lengths', mask_rank=1, mask_name='seq_len'", ""),
        ("OwnForward", "mask_name='src_key_padding_mask'", ""),
    ],
)
def test_a_call_of_which_names_say_little_is_found_step_by_step_and_nothing_is_said_of_what_was_made_up(
    kind, said, not_examined
):
    torch.manual_seed(0)
    report = examine(getattr(layers_guessed, kind)(48, 4))
    assert report.ok and said in report.called_as and not_examined in str(report), report


def test_what_is_wrong_with_what_is_called_so_is_found():
    inverted = varied("Inverted", layers_guessed.Question, real=lambda self, words: ~words)
    assert examine(inverted(48, 4)).codes == ["mask-inverted"]
    over_samples = varied("OverSamples", layers_guessed.SideBySide, over=0)
    assert examine(over_samples(48, 4)).codes == ["softmax-axis"]
    over_queries = varied("OverQueries", layers_guessed.OfIds, over=1)
    assert examine(over_queries(48, 4)).codes == ["softmax-axis"]
    tiny = varied("Tiny", layers_guessed.Forecast, never=1e-9)
    assert examine(tiny(48, 4)).codes == ["future-leak"]
    to_both_sides = varied("ToBothSides", layers_guessed.PadsOfPrompts, later=lambda self, past: past.triu())
    assert examine(to_both_sides(48, 4)).codes == ["future-leak"]

    def split(self, x):
        return x.reshape(len(x), self.h, x.shape[1], -1)

    (finding,) = examine(varied("Split", layers_guessed.OfABatch, split=split)(48, 4)).findings
    assert finding.code == "mixes-tokens" and "batched, layer = layer, lambda x, mask" in finding.example[0]


def test_numbers_of_a_batch_that_nobody_knows_do_not_hide_what_none_of_them_explains():
    class Frames(layers_guessed.TextBesidePicture):
        def repeated(self, text, places):
            return text.repeat_interleave(places, 0)

        def forward(self, feat, prompts, parts):
            bf, d, h, w = feat.shape
            x = feat.view(bf // parts, parts, d, h * w).permute(0, 3, 1, 2).flatten(0, 1)  # each place through time
            seen = self.reads(x, self.repeated(self.of_text(prompts), h * w))
            return seen.view(bf // parts, h * w, parts, d).transpose(1, 2).reshape(bf, h, w, d).permute(0, 3, 1, 2)

    class MixedUp(Frames):
        def repeated(self, text, places):
            return text.repeat(places, 1, 1)

    assert examine(Frames(32, 4)).ok
    assert examine(MixedUp(32, 4)).codes == ["mixes-samples"]


def test_a_method_is_called_by_its_own_arguments_and_alike_every_time():
    forward = nn.MultiheadAttention(32, 4, batch_first=True).forward
    report = examine(forward, 32, 4)
    assert report.ok and report.called_as.startswith("adapt(layer, 'qkv', mask='blocked', mask_rank=2")
    assert str(examine(forward, 32, 4)) == str(report)


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
        return super().forward(x)


class FromSizes(Core):
    def __init__(self, n_heads, embed_dims, dim_head=None, max_len=None, drop=0.2):
        super().__init__(embed_dims, n_heads)

    def forward(self, x):
        return super().forward(x)


class Strange(nn.Module):
    def __init__(self, weather):
        raise ValueError("it rains")


@pytest.mark.parametrize("kind", [FromAConfig, FromSizes, MultiHeadAttention, nn.MultiheadAttention])
def test_a_class_is_made_by_the_names_of_its_sizes(kind):
    for sizes in ((), (24, 3)):
        report = examine(kind, *sizes)
        assert report.ok and report.called_as.startswith(f"{kind.__name__}("), report
        assert str(sizes[0] if sizes else 32) in report.called_as


class Bound:
    """A plain object that holds modules."""

    def __init__(self):
        self.core, self.unused, self.drop = Core(), nn.Linear(7, 7), nn.Dropout(0.5)

    def step(self, x):
        return self.drop(self.core(x))


def test_what_is_declared_wins():
    layer, owner = Layer(32, 4), Bound()

    def by_lengths(x, valid_lens=None):
        mask = None if valid_lens is None else (torch.arange(x.shape[1]) < valid_lens[:, None])[:, None]
        return layer(x, mask)

    for attend in (
        adapt(Blocked(32, 4), mask="blocked"),
        adapt(TimeFirst(32, 4), batch_first=False),
        adapt(ReturnsDict(32, 4), output="out"),
        adapt(lambda x, mask=None: (None, layer(x, mask)), mask_name="mask", output=1),
        adapt(by_lengths, mask="lengths", mask_rank=1),
        owner.step,
    ):
        assert (report := examine(attend, 32, 4)).ok, report
    assert owner.drop.training
    assert examine(adapt(Blocked(32, 4), mask="allowed"), 32, 4).codes == ["mask-inverted"]
    assert examine(adapt(lambda x: "no tensor"), 32, 4).codes == ["crash"]
    assert not examine(adapt(TimeFirst(32, 4)), 32, 4).ok
    assert "taken for (T, B, d_model)" in examine(TimeFirst(32, 4), 32, 4).called_as  # nobody says it


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: examine(Layer(32, 4), 0, 4), ValueError, "d_model must be a positive integer"),
        (lambda: examine(torch.ones(3), 32, 4), TypeError, "expected a module or a function"),
        (lambda: examine(Strange), TypeError, "could not be made by d_model=32 and num_heads=4"),
        (lambda: adapt(Layer), TypeError, "got the class Layer"),
        (lambda: examine(Layer(32, 4).to("meta"), 32, 4), ValueError, "meta device"),
        (lambda: examine(adapt(nn.LazyLinear(32), mask=None), 32, 4), ValueError, "lazy layer once"),
        (lambda: examine(Layer(32, 4), 32, 4, module="layer"), TypeError, "module must be an nn.Module"),
        (lambda: adapt(lambda q, k, v: q), TypeError, "adapt"),
        (lambda: adapt(AsTransformers()), TypeError, "'additive' (in transformers with mask_rank=4)"),
        (lambda: adapt(lambda x, attn_mask=None: x), TypeError, "mask_name='attn_mask'"),
        (lambda: adapt(lambda x, colour, mask=None: x), TypeError, "lambda x, mask=None: layer(x, ..., mask)"),
        (lambda: examine(lambda x, colour, mask=None: x @ colour.w, 32, 4), TypeError, "nothing is known of colour"),
        (lambda: adapt(lambda x, key_padding_mask=None: x), TypeError, "mask_name='key_padding_mask'"),
        (lambda: adapt(Layer(32, 4), axes="d B T"), ValueError, "axes must be one of 'B T d'"),
        (lambda: adapt(Layer(32, 4), "keras"), ValueError, "'plain', 'cross', 'qkv', 'torch', 'd2l'"),
        (lambda: adapt(Layer(32, 4), mask="True"), ValueError, "'allowed', 'blocked'"),
        (lambda: adapt(Layer(32, 4), mask_rank=5), ValueError, "mask_rank must be one of"),
        (lambda: adapt(len, "torch"), TypeError, "'torch' is for nn.MultiheadAttention, got len; try 'qkv'"),
        (lambda: examine(len, 8, 2), TypeError, "no way of calling"),
        (lambda: examine(Layer(32, 4), d_model=40), ValueError, "has weights for 32 features, and d_model is 40"),
        (lambda: examine(Core, num_heads=5), ValueError, "5 heads do not divide 32 features"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


# --------------------------------------------------------------------------------------------------------------- masks


def test_a_polarity_that_nobody_states_is_never_wrong_and_a_stated_one_is_a_promise():
    class Silent(Core):
        inverted = False

        def forward(self, x, attn_mask=None):
            return super().forward(x, None if attn_mask is None else attn_mask != self.inverted)

    class Promised(Silent):
        inverted = True

        def forward(self, x, attn_mask=None):
            """attn_mask: (B, T, T), True = may attend."""
            return super().forward(x, attn_mask)

    layer = Silent()
    for layer.inverted in (False, True):
        report = examine(layer, 32, 4)
        assert report.ok and ("mask='blocked'" in report.called_as) == layer.inverted
        assert "read the wrong way round could not be told" in report.called_as
    assert examine(Promised(), 32, 4).codes == ["mask-inverted"]


def test_what_words_say_of_a_mask():
    said = {
        "mask: 1 for tokens to attend to, 0 for padding": "allowed",
        "mask (B, T), True where a query may look": "allowed",
        "mask: True = keep": "allowed",
        "mask: nonzero means use": "allowed",
        "mask: 0 for positions that are ignored": "allowed",
        "mask: 1 for tokens that are not masked, 0 for masked ones": "allowed",
        "mask: True = blocked": "blocked",
        "mask: positions with 1 are masked out": "blocked",
        "mask: bool, True at padding": "blocked",
        "mask: added to the scores, 0 or -inf": "additive",
        "mask: which keys are seen": None,
        "mask: True = keep; in the cache True = blocked": None,
    }
    assert {text: Docs(text, "", "x").polarity("mask", True) for text in said} == said


def test_each_of_two_masks_is_examined():
    class TwoMasks(Adds):
        never = -1e9

        def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
            added = torch.zeros(())
            if attn_mask is not None:
                added = added.masked_fill(attn_mask, -1e9)
            if key_padding_mask is not None:
                added = added + torch.zeros(()).masked_fill(key_padding_mask, self.never)[:, None, None]
            return super().forward(query, added)

    layer = TwoMasks()
    assert examine(layer, 32, 4).ok
    layer.never = -1e-3
    (finding,) = examine(layer, 32, 4).findings
    assert finding.code == "mask-leaks" and finding.evidence.startswith("key_padding_mask: ")


# -------------------------------------------------------------------------------------------------------------- caches


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("CausalCorner", "the new token sees only 0, in the full pass all"),
        ("ReadsTheFirstKeysOnly", "with the cache in the module"),
    ],
)
def test_what_went_wrong_with_a_cache_is_said(name, why):
    torch.manual_seed(0)
    (finding,) = examine(layers_calls.SICK[name].make(32, 4), 32, 4).findings
    assert why in finding.evidence


def test_a_cache_that_no_call_fills_is_said_to_be_not_examined():
    class NeverReturned(layers_calls.Turned):
        def forward(self, x, cache=None):
            return self.calculated(x, cache)[0]

    report = examine(NeverReturned(32, 4), 32, 4)
    assert report.ok and any(line.startswith("cache: no way") for line in report.not_examined)


# ------------------------------------------------------------------------------------------- the layer on the table


class Stateful(Dropout):
    """Counts, lists and prints its calls, keeps its last weights, and cannot be copied if told so."""

    def __init__(self, d_model, num_heads, copyable):
        super().__init__(d_model, num_heads)
        self.copyable, self.last, self.log = copyable, None, []
        self.register_buffer("calls", torch.zeros(()))

    def __deepcopy__(self, memo):
        if not self.copyable:
            raise TypeError("cannot be copied")
        twin = Stateful(self.d_model, self.h, True)
        twin.load_state_dict(self.state_dict())
        return twin

    def weigh(self, scores):
        self.calls += 1
        self.log.append("call")
        print("shape", scores.shape)
        self.last = super().weigh(scores)
        return self.last


def states():
    return [
        torch.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_num_threads(),
    ]


@pytest.mark.parametrize("how", ["copied", "in place", "a function with module="])
def test_the_layer_comes_back_as_it_was_and_what_it_prints_is_swallowed(how, capsys):
    layer = Stateful(32, 4, copyable=how == "copied")
    layer.W_q.eval()  # a mode per submodule
    layer.W_k.weight.requires_grad_(False)
    layer.W_v.weight.grad = grad = torch.ones_like(layer.W_v.weight)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    drawn = states()

    if how == "a function with module=":
        report = examine(lambda x, mask=None: layer(x, mask), 32, 4, module=layer)
    else:
        report = examine(layer, 32, 4)

    assert report.ok and capsys.readouterr().out == ""
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert layer.training and layer.drop.training and not layer.W_q.training
    assert not layer.W_k.weight.requires_grad and layer.W_v.weight.requires_grad
    assert layer.W_v.weight.grad is grad and torch.equal(grad, torch.ones_like(grad)) and layer.W_q.weight.grad is None
    assert layer.last is None and layer.calls == 0 and layer.log == [] and states() == drawn


@contextmanager
def in_float64():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "switched", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), in_float64], ids=range(4)
)
def test_a_report_is_the_same_whatever_was_switched_in_torch(switched):
    for make in (lambda: MultiHeadAttention(32, 4), lambda: RoomFor(but=4)):
        torch.manual_seed(0)
        wanted = examine(make())
        with switched():
            torch.manual_seed(0)
            found = examine(make())
        assert (found.codes, found.not_examined, found.called_as) == (
            wanted.codes,
            wanted.not_examined,
            wanted.called_as,
        )


def test_a_layer_on_another_device_is_fetched_and_new_tensors_are_made_on_the_cpu(monkeypatch):
    class Elsewhere(Core):
        def __init__(self):
            super().__init__()
            self.device, self.scale = torch.device("cuda"), [torch.tensor(1.0)]

        def forward(self, x):
            return super().forward(x * self.scale[0] + torch.zeros(1, device=self.device))

    with torch.device("meta"):
        assert str(examine(layer := MultiHeadAttention(32, 4).to_empty(device="cpu"))) == str(examine(layer))
        assert examine(MultiHeadAttention).ok
    monkeypatch.setattr("attention_doctor.patient._away", lambda owner: "cuda:0")  # as on a machine that has it
    layer = Elsewhere()
    assert examine(layer).ok and layer.device.type == "cuda"
    with pytest.raises(ValueError, match=r"got cuda:0; use \.cpu\(\)"):
        examine(lambda x: layer(x), module=layer)


class RoomFor(Core):
    """Takes at most `room` samples, as a cache does that is made for so many, or all but `but`."""

    def __init__(self, room=100, but=None):
        super().__init__()
        self.room, self.but = room, but

    def forward(self, x):
        if len(x) > self.room or len(x) == self.but:
            raise RuntimeError("no room")
        return super().forward(x)


def test_room_for_few_samples_is_no_mistake_and_an_error_for_one_number_of_them_is():
    report = examine(RoomFor(3))
    assert report.ok and "4 samples at once: the layer raised" in str(report)
    assert examine(RoomFor(but=4)).codes == ["crash"]  # as many as heads


def test_caches_in_the_module_are_emptied_again():
    layer = layers_calls.InTheModule(32, 4)
    examine(layer, 32, 4)
    assert not layer.cache_k.any() and not layer.cache_v.any()


def test_a_layer_that_hangs_ends_with_what_was_found_till_then():
    class Hangs(Layer):
        calls = 0

        def forward(self, x, mask=None):
            self.calls += 1
            while self.calls > 60:
                time.sleep(0.001)
            return super().forward(x, mask)

    report = examine(Hangs(32, 4), 32, 4, seconds=1.0)
    assert any("stopped after 1 seconds" in line for line in report.not_examined) and report.called_as

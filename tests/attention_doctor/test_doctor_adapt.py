"""The forms of a call: how `adapt` brings a layer into the doctor's form, and what is refused before anything runs."""

import pytest
import torch
from torch import nn

from mhalib.doctor import adapt, examine
from tests.helpers.layers_base import Layer
from tests.helpers.layers_healthy import Blocked, ReturnsDict, TimeFirst


def test_a_wrong_statement_about_the_mask_is_found():
    assert examine(adapt(Blocked(32, 4), mask="blocked"), 32, 4).ok
    assert examine(adapt(Blocked(32, 4)), 32, 4).codes == ["mask-inverted"]


def test_a_part_of_the_result_is_picked():
    assert examine(adapt(ReturnsDict(32, 4), output="out"), 32, 4).ok
    layer = Layer(32, 4)
    assert examine(adapt(lambda x, mask=None: (None, layer(x, mask)), mask_name="mask", output=1), 32, 4).ok
    assert examine(adapt(lambda x: "no tensor"), 32, 4).codes == ["crash"]


def test_lengths_are_found_by_their_name():
    layer = Layer(32, 4)

    def attend(x, valid_lens=None):
        mask = None if valid_lens is None else (torch.arange(x.shape[1]) < valid_lens[:, None])[:, None]
        return layer(x, mask)

    assert examine(adapt(attend, mask="lengths", mask_rank=1), 32, 4).ok


def test_time_first_has_to_be_said():
    assert examine(adapt(TimeFirst(32, 4), batch_first=False), 32, 4).ok
    assert not examine(adapt(TimeFirst(32, 4)), 32, 4).ok
    assert "taken for (T, B, d_model)" in examine(TimeFirst(32, 4), 32, 4).called_as  # nobody says it


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: examine(Layer(32, 4), 0, 4), ValueError, "d_model must be a positive integer"),
        (lambda: examine(Layer(32, 4), 32, 5), ValueError, "choose num_heads from 1, 2, 4"),
        (lambda: examine(torch.ones(3), 32, 4), TypeError, "expected a module or a function"),
        (lambda: adapt(Layer), TypeError, "got the class Layer"),
        (lambda: examine(Layer(32, 4).to("meta"), 32, 4), ValueError, "meta device"),
        (lambda: examine(adapt(nn.LazyLinear(32), mask=None), 32, 4), ValueError, "lazy layer once"),
        (lambda: examine(Layer(32, 4), 32, 4, module="layer"), TypeError, "module must be an nn.Module"),
        (lambda: adapt(lambda q, k, v: q), TypeError, "adapt"),
        (lambda: adapt(lambda x, attn_mask=None: x), TypeError, "mask_name='attn_mask'"),
        (lambda: adapt(lambda x, other=None: x), TypeError, "which argument"),
        (lambda: adapt(lambda x, colour, mask=None: x), TypeError, "lambda x, mask=None: layer(x, ..., mask)"),
        (lambda: examine(lambda x, colour, mask=None: x, 32, 4), TypeError, "nothing is known of colour"),
        (lambda: adapt(lambda x, key_padding_mask=None: x), TypeError, "mask='lengths', mask_rank=1"),
        (lambda: adapt(lambda x, cache=None, attn_mask=None: x), TypeError, "mask_name='attn_mask', mask="),
        (lambda: adapt(Layer(32, 4), axes="d B T"), ValueError, "axes must be one of 'B T d'"),
        (lambda: adapt(Layer(32, 4), axes="T B d", batch_first=False), ValueError, "leave out batch_first"),
        (lambda: adapt(Layer(32, 4), "keras"), ValueError, "'plain', 'qkv', 'torch', 'd2l'"),
        (lambda: adapt(Layer(32, 4), mask="True"), ValueError, "'allowed', 'blocked'"),
        (lambda: adapt(Layer(32, 4), mask_rank=5), ValueError, "mask_rank must be one of"),
        (lambda: adapt(lambda x: x, "torch"), TypeError, "nn.MultiheadAttention"),
        (lambda: examine(Layer(32, 4), 32, 4, weights={"q": 1}), ValueError, '"q"'),
        (lambda: examine(Layer(32, 4), 32, 4, weights=dict.fromkeys("qkv", 1)), TypeError, "nn.Linear"),
        (lambda: examine(Layer(32, 4), 32, 4, weights=dict.fromkeys("qkv", torch.ones(32, 31))), ValueError, ".T"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(call, error, words, as_shipped):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_a_whole_model_is_told_from_a_layer():
    model = nn.Sequential(nn.Embedding(9, 32), nn.Linear(32, 32))
    (finding,) = examine(adapt(model, mask=None), 32, 4).findings
    assert finding.code == "crash" and "token ids; hand over an attention layer of the model" in finding.evidence

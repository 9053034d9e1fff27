"""HeadLab without a browser: what it refuses, what its traits hold, and that its numbers are mhalib's."""

import math
import re

import numpy as np
import pytest
import torch
import traitlets

from mhalib import MultiHeadAttention, causal_mask, padding_mask, scaled_dot_product_attention, split_heads
from mhalib.widgets import HeadLab

TOKENS = "The cat sat on the mat".split()


@pytest.fixture
def qkv():
    return tuple(torch.randn(6, 8) for _ in range(3))


def by_hand(q, k, v, heads, mask=None, scale=None):
    q, k, v = (split_heads(x[None], heads) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, mask, scale=scale)


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "own"])
@pytest.mark.parametrize("scale", ["head_dim", "none", "d_model"])
def test_the_numbers_are_those_of_mhalib(qkv, heads, mask, scale):
    own = torch.rand(6, 6) > 0.4
    own[2] = False  # nothing to attend to
    lab = HeadLab(*qkv, num_heads=heads, scale=scale, temperature=0.7, valid_len=4)
    lab.own_mask = own
    lab.mask = mask
    given = {"none": None, "causal": causal_mask(6), "padding": padding_mask(torch.tensor([4]), 6), "own": own}[mask]
    factor = {"head_dim": (8 / heads) ** -0.5, "none": 1.0, "d_model": 8**-0.5}[scale] / 0.7
    output, weights = by_hand(*qkv, heads, given, factor)
    torch.testing.assert_close(lab.weights, weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(lab.output, output, atol=1e-5, rtol=1e-5)
    entropy = torch.special.entr(weights).sum(-1) / math.log(2)
    torch.testing.assert_close(lab.entropy, entropy, atol=1e-4, rtol=0)
    if mask == "own":
        assert (
            (lab.weights[:, :, 2] == 0).all() and (lab.output[:, :, 2] == 0).all() and (lab.entropy[:, :, 2] == 0).all()
        )


@pytest.mark.parametrize(
    "form", [lambda x: x[None], lambda x: x.numpy(), lambda x: x.double(), lambda x: x.requires_grad_()]
)
def test_every_form_of_input_is_the_same(qkv, form):
    expected = HeadLab(*qkv, num_heads=2).weights
    torch.testing.assert_close(HeadLab(*map(form, qkv), num_heads=2).weights, expected)


def test_half_precision_is_taken(qkv):
    assert HeadLab(*(x.half() for x in qkv)).weights.dtype == torch.float32


def test_keys_default_to_the_queries_and_values_may_be_missing(qkv):
    lab = HeadLab(qkv[0], tokens=TOKENS)
    torch.testing.assert_close(lab.weights, HeadLab(qkv[0], qkv[0]).weights)
    assert lab.output is None
    assert lab.key_tokens == TOKENS


def test_cross_attention(qkv):
    lab = HeadLab(qkv[0][:2], *qkv[1:], tokens=["a", "b"], num_heads=2, mask="causal")
    assert lab.key_tokens == []
    assert lab.weights.shape == (1, 2, 2, 6)
    assert lab.allowed.equal(causal_mask(2, 6))


def test_bytes_hold_what_was_given(qkv):
    lab = HeadLab(*qkv)
    assert np.frombuffer(lab.k_bytes, np.float32).reshape(6, 8).tolist() == qkv[1].tolist()
    assert HeadLab(qkv[0]).v_bytes == b""


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (TypeError, "floating tensor or array, got torch.int64", {"q": torch.ones(2, 4, dtype=torch.int64)}),
        (TypeError, "got list", {"q": [[1.0]]}),
        (TypeError, "got complex64|got torch.complex64", {"q": np.ones((2, 4), np.complex64)}),
        (ValueError, r"\(T, d_model\) or \(1, T, d_model\).*got \(4,\)", {"q": torch.ones(4)}),
        (ValueError, r"3 samples.*q\[0\]", {"q": torch.ones(3, 2, 4)}),
        (ValueError, r"got \(1, 2, 3, 4\)", {"q": torch.ones(1, 2, 3, 4)}),
        (ValueError, r"got \(0, 4\)", {"q": torch.ones(0, 4)}),
        (ValueError, "129 tokens.*128 of 1024", {"q": torch.ones(129, 4)}),
        (ValueError, "1025 features", {"q": torch.ones(1, 1025)}),
        (ValueError, "q holds NaN", {"q": torch.full((2, 4), math.nan)}),
        (ValueError, "k holds NaN or infinity", {"k": torch.full((2, 4), math.inf)}),
        (ValueError, "same d_model, got 4 and 6", {"k": torch.ones(2, 6)}),
        (ValueError, r"v must be \(2, 4\) like k, got \(3, 4\)", {"v": torch.ones(3, 4)}),
        (ValueError, "tokens has 1 labels, .* 2 queries", {"tokens": ["a"]}),
        (ValueError, "got one string", {"tokens": "ab"}),
        (ValueError, "key_tokens has 3 labels", {"key_tokens": ["a", "b", "c"]}),
        (ValueError, "d_model=4 .* num_heads=3.*choose num_heads from 1, 2, 4", {"num_heads": 3}),
        (ValueError, "'head_dim', 'none', 'd_model', got 'sqrt'", {"scale": "sqrt"}),
        (ValueError, "temperature must be a number.*got 0", {"temperature": 0}),
        (ValueError, "temperature must be a number.*got nan", {"temperature": math.nan}),
        (ValueError, "'own', got 'future'", {"mask": "future"}),
        (TypeError, "boolean.*got torch.float32", {"mask": torch.ones(2, 2)}),
        (ValueError, r"\(Tq, Tk\) = \(2, 2\).*got \(2, 3\)", {"mask": torch.ones(2, 3, dtype=torch.bool)}),
        (ValueError, "valid_len must be an integer from 0 to 2, got 3", {"valid_len": 3}),
        (ValueError, "valid_len must be an integer.*got True", {"mask": "padding", "valid_len": True}),
        (ValueError, "as many keys as queries, got 3 queries and 2 keys",
         {"q": torch.ones(3, 4), "k": torch.ones(2, 4), "mask": "causal"}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(as_shipped, error, words, arguments):
    given = {"q": torch.ones(2, 4)} | arguments
    with pytest.raises(error, match=words):
        HeadLab(**given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_heads", 3), ("num_heads", 0), ("num_heads", True), ("num_heads", "two"), ("scale", "√"), ("mask", "x"),
        ("temperature", 0.0), ("temperature", -1.0), ("temperature", math.inf), ("valid_len", -1), ("valid_len", 7),
        ("head", 2), ("head", -1), ("own_bytes", b"\1"), ("own_bytes", b"\2" * 36),
        ("cursor", [0]), ("cursor", [6, 0]), ("cursor", [0, 10]), ("cursor", [-1, 0]),
        ("d_model", 4), ("num_keys", 3), ("q_bytes", b""), ("tokens", ["a"]),
    ],
)  # fmt: skip
def test_a_trait_refuses_and_keeps_the_old_value(qkv, name, value):
    lab = HeadLab(*qkv, num_heads=2)
    before = getattr(lab, name)
    with pytest.raises(traitlets.TraitError):
        setattr(lab, name, value)
    assert getattr(lab, name) == before


def test_the_refusal_teaches(qkv):
    with pytest.raises(traitlets.TraitError, match="d_model=8 is not divisible by num_heads=3.*choose .* 1, 2, 4, 8"):
        HeadLab(*qkv).num_heads = 3


def test_the_own_mask_is_a_tensor(qkv):
    lab = HeadLab(*qkv)
    assert lab.own_mask.all()
    cells = torch.rand(6, 6) > 0.5
    lab.own_mask = cells
    assert lab.own_mask.equal(cells) and lab.mask == "none"
    lab.own_mask = cells.logical_not().numpy()
    assert lab.own_mask.equal(~cells)
    with pytest.raises(TypeError, match="boolean"):
        lab.own_mask = cells.float()
    with pytest.raises(ValueError, match="one for all heads"):
        lab.own_mask = cells[:2]
    assert lab.own_mask.equal(~cells)
    assert HeadLab(*qkv, mask=cells).mask == "own"


def test_the_focus_stays_on_a_head_that_exists(qkv):
    lab = HeadLab(*qkv, num_heads=8)
    lab.head, lab.cursor = 7, [5, 6]
    lab.num_heads = 2
    lab.cursor = [5, 9]  # the last feature of the output of this head
    lab.num_heads = 4
    assert lab.head == 1 and lab.cursor == [5, 7]


def test_of_a_layer():
    layer, x, memory = MultiHeadAttention(8, 4, bias=True), torch.randn(1, 6, 8), torch.randn(1, 3, 8)
    lab = HeadLab.of(layer, x, tokens=TOKENS)
    assert lab.num_heads == 4 and lab.key_tokens == TOKENS
    torch.testing.assert_close(lab.weights, layer(x, need_weights=True)[1])
    torch.testing.assert_close(HeadLab.of(layer, x[0], memory[0]).weights, layer(x, memory, need_weights=True)[1])
    torch.testing.assert_close(
        HeadLab.of(layer, x.numpy(), num_heads=2, mask="causal").weights.sum(-1), torch.ones(1, 2, 6)
    )


def test_a_lab_that_was_refused_is_closed(qkv):
    from ipywidgets.widgets.widget import _instances

    count = lambda: sum(isinstance(widget, HeadLab) for widget in _instances.values())  # noqa: E731
    before = count()
    with pytest.raises(ValueError):
        HeadLab(*qkv, num_heads=5)
    assert count() == before


def test_of_a_layer_with_shared_keys():
    layer, x = MultiHeadAttention(8, 4, num_kv_heads=2), torch.randn(1, 6, 8)
    torch.testing.assert_close(HeadLab.of(layer, x).weights, layer(x, need_weights=True)[1])


def test_of_half_a_layer():
    layer = MultiHeadAttention(8, 2).half()
    assert HeadLab.of(layer, torch.randn(6, 8)).num_heads == 2


def test_of_refuses_what_is_no_such_layer():
    with pytest.raises(TypeError, match="Linear has no W_q, W_k, W_v.*HeadLab"):
        HeadLab.of(torch.nn.Linear(2, 2), torch.ones(2, 2))
    with pytest.raises(ValueError, match="x has 6 features, layer.W_q takes 8"):
        HeadLab.of(MultiHeadAttention(8, 2), torch.ones(3, 6))
    with pytest.raises(TypeError, match="floating"):
        HeadLab.of(MultiHeadAttention(8, 2), torch.ones(3, 8, dtype=torch.long))


def test_the_picture_says_what_is_set(qkv):
    lab = HeadLab(*qkv, tokens=TOKENS, num_heads=4, mask="padding", valid_len=2, temperature=0.5)
    alt = lab.figure().alt
    assert re.search(r"4 heads.*Scale: head_dim, temperature 0.5, mask: padding after 2 keys; mean entropy", alt)
    assert "image/png" in lab._repr_mimebundle_()[0]


@pytest.mark.parametrize(("tokens", "heads"), [(128, 64), (128, 1), (1, 64), (32, 16)])
def test_there_is_a_picture_at_every_size(tokens, heads):
    lab = HeadLab(torch.randn(tokens, 64), num_heads=heads, mask="causal", tokens=["a token"] * tokens)
    picture = lab.figure()
    assert max(picture.get_size_inches()) < 25
    assert ("first 16 of 64" in picture.alt) == (tokens == 128 and heads == 64)


def test_the_page_holds_bytes_and_no_markup(qkv):
    page = HeadLab(*qkv, tokens=["<img src=x onerror=alert(1)>", "</script>", "", "a", "b", "c"]).to_html()
    assert "<img" not in page and page.count("</script>") == 1

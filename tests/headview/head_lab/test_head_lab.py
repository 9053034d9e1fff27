"""HeadLab without a browser: its numbers are those of a plain attention, and what does not fit is refused."""

import itertools
import math
import re

import pytest
import torch
from ipywidgets.widgets.widget import _instances

from headview import HeadLab
from tests.helpers.refusals import accepted

TOKENS = "The cat sat on the mat".split()


@pytest.fixture
def qkv():
    return tuple(torch.randn(6, 8) for _ in range(3))


def naive(q, k, v, heads, allowed, factor):
    """Return weights, output and entropy, head after head; a query with nothing to attend to gets zeros."""
    weights, output = [], []
    for own_q, own_k, own_v in zip(*(x.chunk(heads, dim=-1) for x in (q, k, v)), strict=True):
        scores = (own_q @ own_k.T * factor).masked_fill(~allowed, -torch.inf)
        weights.append(scores.softmax(-1).nan_to_num(0.0))
        output.append(weights[-1] @ own_v)
    weights = torch.stack(weights)[None]
    return {"weights": weights, "output": torch.stack(output)[None], "entropy": torch.special.entr(weights).sum(-1)}


def test_weights_output_and_entropy_are_those_of_a_plain_attention():
    q, k, v = torch.randn(4, 8), torch.randn(6, 8), torch.randn(6, 8)
    own = torch.rand(4, 6) > 0.4
    own[2] = False  # nothing to attend to
    allowed = {
        "none": torch.ones(4, 6, dtype=torch.bool),
        "causal": torch.ones(4, 6).tril(2).bool(),  # the queries are the last four positions of the keys
        "padding": (torch.arange(6) < 4).expand(4, 6),
        "own": own,
    }
    lab = HeadLab(q, k, v, temperature=0.7, valid_len=4)
    lab.own_mask = own
    failures = []
    for heads, mask, scale in itertools.product((1, 2, 8), allowed, ("head_dim", "none", "d_model")):
        lab.num_heads, lab.mask, lab.scale = heads, mask, scale
        factor = {"head_dim": (8 / heads) ** -0.5, "none": 1.0, "d_model": 8**-0.5}[scale] / 0.7
        expected = naive(q, k, v, heads, allowed[mask], factor)
        expected["entropy"] /= math.log(2)
        for name, numbers in expected.items():
            found = getattr(lab, name)
            if found.shape != numbers.shape or not torch.allclose(found, numbers, atol=1e-5, rtol=1e-5):
                failures.append((heads, mask, scale, name))
        if not lab.allowed.equal(allowed[mask]):
            failures.append((heads, mask, scale, "allowed"))
    assert failures == []


def test_inputs_of_any_form_are_the_same_and_missing_ones_are_filled_in(qkv):
    expected = HeadLab(*qkv, num_heads=2)
    for change in (lambda x: x[None], torch.Tensor.numpy, torch.Tensor.double, lambda x: x.clone().requires_grad_()):
        assert torch.equal(HeadLab(*map(change, qkv), num_heads=2).output, expected.output)
    alone = HeadLab(qkv[0], tokens=TOKENS)
    assert torch.equal(alone.weights, HeadLab(qkv[0], qkv[0]).weights)
    assert (alone.output, alone.v_bytes, alone.key_tokens) == (None, b"", TOKENS)
    assert HeadLab(qkv[0][:2], *qkv[1:], tokens=["a", "b"]).key_tokens == []


def test_what_does_not_fit_is_refused_and_the_old_value_stays(qkv, as_shipped):
    x, lab = torch.ones(2, 4), HeadLab(*qkv, num_heads=2)
    there = sum(isinstance(widget, HeadLab) for widget in _instances.values())
    calls = {
        "q[0]": lambda: HeadLab(torch.ones(3, 2, 4)),
        "up to 128 tokens of 1024 features, got (129, 4)": lambda: HeadLab(torch.ones(129, 4)),
        "k holds NaN or infinity": lambda: HeadLab(x, torch.full((2, 4), math.inf)),
        "same d_model, got 4 and 6": lambda: HeadLab(x, torch.ones(2, 6)),
        "v must be (2, 4) like k, got (3, 4)": lambda: HeadLab(x, None, torch.ones(3, 4)),
        "tokens has 1 labels": lambda: HeadLab(x, tokens=["a"]),
        "got (2, 3)": lambda: HeadLab(x, mask=torch.ones(2, 3, dtype=torch.bool)),
        "choose num_heads from 1, 2, 4": lambda: HeadLab(x, num_heads=3),
        "got 3 queries and 2 keys": lambda: HeadLab(torch.ones(3, 4), x, mask="causal"),
        "from 0 to 1, got 2": lambda: setattr(lab, "head", 2),
        "TypeError: a mask must be boolean": lambda: setattr(lab, "own_mask", torch.ones(6, 6)),
    }
    assert accepted(calls) == []
    assert (lab.num_heads, lab.head, lab.own_mask.all()) == (2, 0, True)
    assert sum(isinstance(widget, HeadLab) for widget in _instances.values()) == there  # no page keeps one


def test_own_mask_and_focus_can_be_set(qkv):
    lab, cells = HeadLab(*qkv, num_heads=8), torch.rand(6, 6) > 0.5
    lab.own_mask = cells.numpy()
    assert lab.own_mask.equal(cells) and lab.mask == "none"
    assert HeadLab(*qkv, mask=cells).mask == "own"
    lab.head = 7
    lab.num_heads = 2
    lab.num_heads = 4
    assert lab.head == 1  # a head that exists


def test_the_picture_says_what_is_set_and_fits_a_page_at_every_size(qkv):
    lab = HeadLab(*qkv, tokens=TOKENS, num_heads=4, mask="padding", valid_len=2, temperature=0.5)
    assert re.search(r"4 heads.*head_dim, temperature 0.5, mask: padding after 2 keys; mean entropy", lab.figure().alt)
    for tokens, heads in ((128, 64), (1, 64)):
        picture = HeadLab(torch.randn(tokens, 64), num_heads=heads, tokens=["a token"] * tokens).figure()
        assert max(picture.get_size_inches()) < 25
        assert ("first 16 of 64" in picture.alt) == (tokens == 128)


def test_other_words_bring_other_numbers():
    def features(words):
        return torch.stack([torch.full((4,), float(len(word))) for word in words])

    lab = HeadLab.of_words(features, TOKENS, num_heads=2, mask="causal")
    assert (lab.sentence, lab.tokens, lab.show) == ("The cat sat on the mat", TOKENS, ["mask"])
    lab.sentence = "two  words"
    expected = HeadLab(features(["two", "words"]), num_heads=2, mask="causal")
    assert lab.tokens == lab.key_tokens == ["two", "words"] and torch.equal(lab.weights, expected.weights)
    assert lab.problem == "" and lab.own_mask.shape == (2, 2)
    lab._features = lambda words: 1 / 0
    lab.sentence = "one more"
    assert lab.problem.endswith("ZeroDivisionError: division by zero") and lab.tokens == ["two", "words"]
    with pytest.raises(ValueError, match="a text of 1 to 128 words"):
        lab.sentence = "  "

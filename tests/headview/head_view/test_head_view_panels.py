"""Queries and keys by feature, and the picture under the tokens: what the blocks of a HeadView hold, against torch."""

import numpy as np
import pytest
import torch
from torch import nn

from headview import capture
from headview.head_view import widget
from headview.head_view.inputs import Part
from headview.head_view.neuron import neurons
from headview.head_view.page_budget import carried
from headview.head_view.patches import Picture
from headview.head_view.widget import HeadView
from tests.helpers.head_view_examples import decoded


def captured(queries=6, keys=9, heads=3, features=8, *, allowed=None, bias=0.0, scale=0.4, **about) -> Part:
    """A part as `capture` makes it: weights that come from its queries and keys."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, n, features, generator=generator) for n in (queries, keys, keys))
    scores = q @ k.mT * scale + bias
    weights = (scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)).softmax(-1)
    known = {"queries": [q], "keys": [k], "values": [v], "scales": [scale], **about}
    named = ["layer 0"], [], ("query", "key"), "weights", [allowed], [[], []], [[], []], [([], []), ([], [])]
    return Part("", [weights], *named, **known)


def view_of(part: Part, monkeypatch, **options) -> HeadView:
    monkeypatch.setattr(widget, "as_parts", lambda *given, **more: [part])
    return HeadView(part.layers, **options)


def picture(rows=2, columns=3, first=0, on="keys") -> Picture:
    pixels = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    return Picture(pixels, rows, columns, first, on)


def unpacked(about, data, queries):
    """The queries and the keys of a head."""
    coded = about["storage"] == "uint16"
    numbers = np.frombuffer(data, "<u2" if coded else "<f4", offset=4 * coded).reshape(-1, about["features"])
    if coded:
        numbers = decoded(numbers, np.frombuffer(data[:4], "<f4")[0], "uint16", signed=True)
    return numbers[:queries], numbers[queries:]


# ---------------------------------------------------------------- a head for a page


@pytest.mark.parametrize(
    ("keys", "exact", "storage", "close"),
    [(9, False, "float32", 0), (900, False, "uint16", 5e-4), (900, True, "float32", 0)],
)
def test_a_page_gets_all_queries_and_keys_of_a_head(keys, exact, storage, close):
    part = captured(keys, keys, 1, 64)
    about, data = neurons(part, 1, 0, 0, exact)
    assert about["storage"] == storage and about["rough"] is (storage == "uint16")
    for found, given in zip(unpacked(about, data, keys), (part.queries, part.keys), strict=True):
        np.testing.assert_allclose(found, given[0][1, 0].numpy(), atol=close)


def test_keys_that_heads_share_and_half_precision_are_read_as_they_are():
    part = captured(heads=4)
    part.keys = [part.keys[0][:, :1].expand(2, 4, 9, 8)]
    part.queries, part.keys = [part.queries[0].bfloat16()], [part.keys[0].bfloat16()]
    about, data = neurons(part, 1, 0, 3)
    assert about["rough"] is True
    np.testing.assert_array_equal(unpacked(about, data, 6)[1], part.keys[0][1, 0].float().numpy())


# ---------------------------------------------------------------- blocks and state


def test_a_view_says_where_patches_are_and_hands_out_the_pixels(monkeypatch):
    part = captured(picture=picture(first=2))
    view = view_of(part, monkeypatch)
    about = {"first": 2, "on": "keys", "width": 30, "height": 20}
    assert view.parts[0]["picture"] == about | {"rows": 2, "columns": 3, "frames": (1, 1)}
    about, data = view._blocks.answer("image 0")
    assert about == {"height": 20, "width": 30} and data == part.picture.pixels.tobytes()
    assert view.parts[0]["has_neurons"] is True
    about, data = view._blocks.answer("neurons 0 1 a 0 2")
    assert data == neurons(part, 1, 0, 2)[1]


def test_the_overview_of_each_sample_is_its_own():
    weights = torch.rand(2, 2, 3, 8, 8).softmax(-1)  # (layers, B, h, T, T)
    view = HeadView(weights)
    for sample in (0, 1, 0):
        _, data = view._blocks.answer(f"overview 0 {sample} a")
        tops = np.frombuffer(data, "<f4", 6).reshape(2, 3)
        np.testing.assert_allclose(tops, weights[:, sample].amax((-2, -1)).numpy(), rtol=1e-6)


def carried_by(view, budget=4e6) -> list[str]:
    """The keys of the blocks in a page, and what it says it left out."""
    packed, said = carried(view, budget)
    return [*packed, said]


def test_a_page_carries_the_picture_and_the_chosen_head(monkeypatch):
    view = view_of(captured(picture=picture()), monkeypatch)
    view.sample, view.head, view.overlay = 1, 2, [[0, 0], [0, 2]]
    assert {"image 0", "neurons 0 1 a 0 2"} <= set(carried_by(view))
    little = carried_by(view, 1500)
    assert "neurons 0 1 a 0 2" not in little and "queries and keys of the head did not fit" in little[-1]
    assert "the picture did not fit" in carried_by(view, 900)[-1]


def test_values_weigh_what_is_moved_in_each_head(monkeypatch):
    """What a kernel sends of `values="values"` is the weight times the length of the value vector."""
    part = captured()
    view = view_of(part, monkeypatch)
    view.values, view.head, view.sample = "values", 1, 1
    expected = part.layers[0][1, 1] * part.values[0][1, 1].norm(dim=-1)
    np.testing.assert_allclose(view._blocks.shown(view.spec()).cells, expected.numpy(), atol=1e-6)
    norms = np.frombuffer(view._blocks.answer("norms 0 1 a")[1], "<f4").reshape(1, 3, 9)
    np.testing.assert_allclose(norms[0], part.values[0][1].norm(dim=-1).numpy(), rtol=1e-6)
    assert "norms 0 1 a" in carried_by(view)


# ---------------------------------------------------------------- from end to end


@pytest.mark.parametrize(("precision", "close"), [(None, 1e-5), (torch.float16, 1e-3)])
def test_what_capture_saw_is_explained_by_its_queries_and_keys(precision, close):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    future = nn.Transformer.generate_square_subsequent_mask(5)
    with capture(model, qkv=True, dtype=precision) as maps:
        model(torch.randn(2, 5, 16), mask=future)
    view = HeadView(maps, [[f"t{i}" for i in range(5)]] * 2)
    assert view.parts[0]["has_neurons"] and view.parts[0]["has_values"]
    for layer, head, query in ((0, 0, 4), (1, 1, 2)):
        about, data = view._blocks.answer(f"neurons 0 1 a {layer} {head}")
        q, k = unpacked(about, data, 5)
        assert about["scale"] == pytest.approx(8**-0.5) and about["rough"] is (precision is not None)
        scores = torch.tensor(k[: query + 1] @ q[query] * about["scale"])
        weights = view._blocks.parts[0].layers[layer][1, head, query, : query + 1].float()
        np.testing.assert_allclose(scores.softmax(-1).numpy(), weights.numpy(), atol=close)

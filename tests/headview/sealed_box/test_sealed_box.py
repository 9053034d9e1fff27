"""SealedBox in Python: it asks once, its steps are those of the hidden heads, and nothing else can be given or set."""

import itertools

import numpy as np
import pytest
import torch
from ipywidgets import Widget
from torch import nn

from mhalib import split_heads
from mhalib.widgets import SealedBox
from mhalib.widgets.sealed_box.steps import SHAKES, SLIDES, STAYS, find_steps, letter_name
from tests.helpers.sealed_boxes import attention, key_of, sealed


def told(box):
    """What the reader is told of each step: near which t, which letter, added or taken away."""
    places = box._places
    return [(round(float(places[s.middle]), 1), letter_name(s.letter), s.sign) for s in box._found.steps]


def written_by(layer, probe):
    """V_h d for each head, (num_heads, d_model), from the weights."""
    value = nn.functional.linear(probe, layer.W_v.weight)[None, None]  # (d_model,) -> (1, 1, d_model)
    heads = split_heads(value, layer.num_heads)[0, :, 0]  # (1, num_heads, 1, head_dim) -> (num_heads, head_dim)
    blocks = layer.W_o.weight.unflatten(1, (layer.num_heads, -1))  # (d_model, num_heads, head_dim)
    return torch.einsum("hk,dhk->hd", heads, blocks)


def test_it_moves_as_the_layer_does():
    layer, line = attention()
    box = SealedBox(layer, 16, **line, points=61)
    rows = np.frombuffer(box.moved, "<f4").reshape(61, 16)
    for i, row in enumerate(rows):
        t = -3 + 6 * i / 60
        c = line["start"] + t * line["direction"]
        moved = layer(torch.stack([c, c + line["probe"]])[None])[0, 0] - layer(c[None, None])[0, 0]
        np.testing.assert_allclose(row, moved.detach(), atol=1e-6)
        box.t = t
        torch.testing.assert_close(box.now, moved.detach(), atol=1e-9, rtol=0)


def test_each_step_is_what_one_hidden_head_writes():
    layer, line = attention()
    box = sealed()
    assert told(box) == [(-1.3, "A", -1), (-1.0, "B", 1), (-0.1, "C", -1), (0.2, "D", 1)]
    box.t = 3
    expected = written_by(layer, line["probe"]).detach()
    for head, steps in enumerate(box.flips):
        (number,) = steps
        vector = box.written[letter_name(box._found.steps[number].letter)]
        sign = torch.sign(vector @ expected[head])
        torch.testing.assert_close(vector, sign * expected[head], atol=1e-8, rtol=0)
        assert vector[vector.abs().argmax()] > 0


@pytest.mark.parametrize("points", [101, 801, 5000])
def test_the_heads_that_turn_are_the_steps_that_are_seen(points):
    layer, line = attention()
    box = sealed(points)
    looks = np.frombuffer(box.inside, "<f4").reshape(points, 4)
    c = line["start"] + box._places[:, None] * line["direction"]
    np.testing.assert_allclose(looks, key_of(layer, line["probe"])(c).detach(), atol=1e-6)
    assert sorted(itertools.chain(*box.flips)) == [0, 1, 2, 3]
    for head, (number,) in enumerate(box.flips):
        step = box._found.steps[number]
        assert abs(looks[step.before, head] - looks[step.after, head]) > 0.99
        others = np.delete(np.abs(looks[step.before] - looks[step.after]), head)
        assert others.max() < 0.01


def test_the_box_is_asked_once_and_in_float64_without_gradients():
    layer, line = attention()
    asked = []

    def f(tokens):
        assert tokens.dtype == torch.float64 and not torch.is_grad_enabled()
        asked.append(tuple(tokens.shape))
        out = layer(tokens)
        tokens.zero_()  # what a box does with its own tokens is its own business
        return out

    box = SealedBox(f, 16, **line, points=200)
    assert asked == [(200, 2, 16), (200, 1, 16)]
    assert box.moved == sealed(200).moved
    box.t = 1.0
    assert len(asked) == 2


def test_a_vector_that_comes_back_keeps_its_letter_whatever_its_sign():
    one, other = torch.tensor([3.0, -1.0, 0.0]).double(), torch.tensor([0.0, 1.0, -4.0]).double()
    at = torch.arange(100)[:, None]
    moved = (at >= 20) * one + (at >= 40) * other - (at >= 60) * one - (at >= 80) * 2 * other
    found = find_steps(moved, 0.0)
    assert [(s.middle, s.letter, s.sign) for s in found.steps] == [(19, 0, 1), (39, 1, -1), (59, 0, -1), (79, 1, 1)]
    assert found.vectors.tolist() == [one.tolist(), (-other).tolist()]
    assert found.plateaus == [(0, 19), (20, 39), (40, 59), (60, 79), (80, 99)]
    assert [letter_name(i) for i in (0, 25, 26, 27, 51, 52, 701, 702)] == "A Z AA AB AZ BA ZZ AAA".split()


def test_what_goes_and_comes_back_at_once_is_no_step():
    moved = torch.zeros(100, 3).double()
    moved[30] = moved[60:] = 1.0
    assert [(s.middle, s.letter, s.sign) for s in find_steps(moved, 0.0).steps] == [(59, 0, 1)]


def test_a_step_that_takes_several_points_is_one_step():
    t = torch.linspace(-5, 5, 400, dtype=torch.double)
    vectors = torch.eye(2, dtype=torch.double)
    moved = sum(torch.sigmoid(60 * (t - place))[:, None] * v for place, v in zip((-2, 2), vectors, strict=True))
    found = find_steps(moved, 1e-12)
    assert len(found.steps) == 2
    torch.testing.assert_close(found.vectors, vectors, atol=1e-6, rtol=0)


def test_where_there_are_no_steps_it_says_what_to_do():
    layer, line = attention()
    for changed, remark in [
        ({"direction": 1e-3 * line["direction"]}, STAYS),
        ({"start": line["start"] / 3e4, "direction": line["direction"] / 3e4}, SLIDES),
    ]:
        box = SealedBox(layer, 16, **{**line, **changed})
        assert (box.remark, told(box)) == (remark, [])
    single = SealedBox(lambda x: layer.float()(x.float()), 16, **line)
    assert (single.remark, told(single)) == (SHAKES, [])
    layer.double()
    shaking = SealedBox(lambda x: layer(x) + torch.rand_like(x), 16, **line)
    assert (shaking.remark, told(shaking)) == (SHAKES, [])
    often = find_steps((torch.arange(2000) // 4 % 2)[:, None].double(), 0.0)
    assert (often.remark, often.steps) == (SHAKES, [])
    assert remark in box.figure().alt
    assert sealed().remark == ""


def test_what_the_reader_does_can_be_read_and_set():
    box = sealed()
    assert (box.t, box.steps_seen, box.written, box.opened, box.open) == (-3.0, [], {}, False, False)
    box.t = -1.2
    assert box.steps_seen == [0] and list(box.written) == ["A"]
    box.t = -3
    assert box.steps_seen == [0]
    box.t = 0
    assert box.steps_seen == [0, 1, 2] and list(box.written) == ["A", "B", "C"]
    box.open = True
    assert box.opened is box.open is True
    box.set_state({"t": -3.0, "steps_seen": [0, 1, 2, 3], "opened": False})  # as the view does
    assert (box.t, box.steps_seen, box.open) == (-3.0, [0, 1, 2, 3], False)
    box.steps_seen = []
    assert box.written == {}


def test_going_slowly_over_a_wide_step_crosses_it():
    box = sealed(points=20_000)
    for t in box._places[5000:7000].tolist():
        box.t = t
    assert box.steps_seen == [0, 1]


@pytest.mark.parametrize(
    "name, values, says",
    [
        ("t", (3.01, -4, float("nan"), "0", None, True), "choose a number from -3 to 3"),
        ("opened", (1, "yes", None), "choose True or False"),
        ("steps_seen", ([4], [-1], [0.0], "01", None, 2, [True]), "this line has 4, counted from 0"),
    ],
)
def test_what_cannot_be_shown_is_refused(name, values, says):
    box = sealed()
    before = getattr(box, name)
    for value in values:
        with pytest.raises(ValueError) as caught:
            setattr(box, name, value)
        assert f"{name}={value!r}" in str(caught.value) and says in str(caught.value)
        assert getattr(box, name) == before


def test_a_box_without_a_key_cannot_be_opened():
    box = sealed(known=False)
    with pytest.raises(ValueError, match="nobody knows what is in this box; give heads="):
        box.open = True
    assert box.sizes == [801, 16, 0] and box.inside == b"" and box.flips == []
    assert told(box) == told(sealed())


ROW = torch.ones(16).double()
NAN = ROW * torch.nan


@pytest.mark.parametrize(
    "given, error, says",
    [
        ({"f": 3}, TypeError, r"f must be a function of tokens \(B, T, d_model\), got int"),
        ({"f": lambda x: (x, None)}, TypeError, r"one tensor \(801, 2, 16\).*got tuple.*lambda x: layer\(x\)\[0\]"),
        ({"f": lambda x: x[:, 0]}, ValueError, r"\(801, 2, 16\), got \(801, 16\); .*batch_first=True"),
        ({"f": lambda x: x.long()}, TypeError, "floating numbers, got torch.int64"),
        ({"f": lambda x: x * torch.nan}, ValueError, "NaN or infinity on this line; make start and direction shorter"),
        ({"d_model": 0}, ValueError, "d_model must be a positive integer, got 0"),
        ({"d_model": 8}, ValueError, r"start must be one token of shape \(8,\), got \(16,\)"),
        ({"start": [1.0] * 16}, TypeError, "start must be a tensor, got list"),
        ({"start": ROW[None]}, ValueError, r"start must be one token of shape \(16,\), got \(1, 16\)"),
        ({"start": NAN}, ValueError, "start holds NaN or infinity"),
        ({"start": 1e20 * ROW}, ValueError, r"reaches 1e\+20, where float64 loses a probe of length 1 in c \+ probe"),
        (
            {"direction": ROW.long()},
            TypeError,
            r"direction must hold floating numbers, got torch.int64; use .double\(\)",
        ),
        ({"direction": 0 * ROW}, ValueError, "direction is 0 in every feature"),
        ({"probe": 0 * ROW}, ValueError, "probe is 0 in every feature"),
        ({"probe": ROW.to("meta")}, ValueError, "probe must be a dense tensor that holds numbers, got .* on meta"),
        (
            {"probe": ROW.to_sparse()},
            ValueError,
            "probe must be a dense tensor that holds numbers, got torch.sparse_coo",
        ),
        ({"reach": 0}, ValueError, "reach must be a finite number above 0, got 0"),
        ({"reach": -1.0}, ValueError, "reach must be a finite number above 0, got -1.0"),
        ({"reach": float("inf")}, ValueError, "reach must be a finite number above 0, got inf"),
        ({"reach": "3"}, ValueError, "reach must be a finite number above 0, got '3'"),
        ({"points": 1}, ValueError, "points must be an integer from 2 to 20000, got 1"),
        ({"points": 20_001}, ValueError, "points must be an integer from 2 to 20000, got 20001"),
        ({"points": 100.0}, ValueError, "points must be an integer from 2 to 20000, got 100.0"),
        ({"points": 20_000, "d_model": 400}, ValueError, "more than 4000000 numbers; take at most 10000 points"),
        ({"heads": 4}, TypeError, r"heads must be a function of c \(N, d_model\).*got int"),
        ({"heads": lambda c: None}, TypeError, r"what heads\(c\) returns must be a tensor, got NoneType"),
        ({"heads": lambda c: c[:, 0]}, ValueError, r"must return \(801, num_heads\) for c \(801, 16\).*got \(801,\)"),
        ({"heads": lambda c: c.T}, ValueError, r"got \(16, 801\)"),
        ({"heads": lambda c: c}, ValueError, "must return weights from 0 to 1"),
        ({"heads": lambda c: c * torch.nan}, ValueError, "must return weights from 0 to 1"),
    ],
)
def test_what_is_no_box_is_refused(given, error, says, as_shipped):
    layer, line = attention()
    with pytest.raises(error, match=says):
        SealedBox(**{"f": layer, "d_model": 16, **line, **given})


def test_nothing_is_asked_where_something_does_not_fit(as_shipped):
    layer, line = attention()
    for wrong in ({"points": 1}, {"heads": 3}, {"reach": 0}, {"probe": NAN}, {"start": ROW[:3]}):
        with pytest.raises((TypeError, ValueError)):
            SealedBox(lambda _: pytest.fail("the box was asked"), 16, **{**line, **wrong})


def test_layers_of_torch_and_vectors_in_any_precision_are_taken():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 2, batch_first=True).double()
    start, direction, probe = 100 * torch.randn(3, 16)
    box = SealedBox(lambda x: layer(x, x, x)[0], 16, start=start, direction=direction.half(), probe=probe, reach=2)
    assert box.t == -2.0 and box.now.dtype == torch.float64


def test_the_picture_shows_no_head_under_the_lid():
    box = sealed()
    box.t = -0.5
    figure = box.figure()
    assert len(figure.axes) == 1 and [text.get_text() for text in figure.axes[0].texts] == ["A", "B"]
    assert "The lid is on." in figure.alt and "head" not in figure.alt
    assert "Steps crossed so far: A near t = -1.3" in figure.alt
    box.open = True
    figure = box.figure()
    assert len(figure.axes) == 2
    assert "its 4 heads look at the second token by 0.00, 0.00, 1.00, 1.00" in figure.alt


def test_it_is_light():
    assert len(sealed().to_html()) < 60_000


def test_a_host_may_open_the_comm_before_the_box_is_made():
    layer, line = attention()
    Widget.on_widget_constructed(Widget.open)  # as marimo does
    try:
        box = SealedBox(layer, 16, **line, points=61)
    finally:
        Widget.on_widget_constructed(None)
    assert box.open is False and box.comm is not None

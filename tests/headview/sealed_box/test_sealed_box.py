"""SealedBox in Python: it asks once, its steps are those of the hidden heads, and nothing else can be given or set."""

import numpy as np
import pytest
import torch
from torch import nn

from headview import SealedBox
from headview.sealed_box.plateaus import SHAKES, SLIDES, STAYS, find_steps, letter_name
from mhalib import split_heads
from tests.helpers.refusals import accepted
from tests.helpers.sealed_boxes import attention, key_of, sealed


def told(found):
    """Return of each step what the reader is told, and where: its letter, its sign."""
    return [(letter_name(step.letter), step.sign, step.middle) for step in found.steps]


def test_it_asks_once_and_moves_as_the_layer_does():
    layer, line = attention()
    asked = []

    def f(tokens):
        assert tokens.dtype == torch.float64 and not torch.is_grad_enabled()
        asked.append(tuple(tokens.shape))
        out = layer(tokens)
        tokens.zero_()  # what a box does with its own tokens is its own business
        return out

    box = SealedBox(f, 16, **line, points=61)
    for i, row in enumerate(np.frombuffer(box.moved, "<f4").reshape(61, 16)):
        t = -3 + 6 * i / 60
        c = line["start"] + t * line["direction"]
        moved = (layer(torch.stack([c, c + line["probe"]])[None])[0, 0] - layer(c[None, None])[0, 0]).detach()
        np.testing.assert_allclose(row, moved, atol=1e-6)
        torch.testing.assert_close(box._moved[i], moved, atol=1e-9, rtol=0)
    assert asked == [(61, 2, 16), (61, 1, 16)]


@pytest.mark.parametrize("points", [101, 5000])
def test_each_step_is_what_one_hidden_head_writes_where_that_head_turns(points):
    layer, line = attention()
    box = sealed(points)
    assert [(letter, sign) for letter, sign, _ in told(box._found)] == [("A", -1), ("B", 1), ("C", -1), ("D", 1)]
    looks = np.frombuffer(box.inside, "<f4").reshape(points, 4)
    c = line["start"] + box._places[:, None] * line["direction"]
    np.testing.assert_allclose(looks, key_of(layer, line["probe"])(c).detach(), atol=1e-6)
    assert sorted(number for (number,) in box.flips) == [0, 1, 2, 3]
    box.t = 3
    value = split_heads(nn.functional.linear(line["probe"], layer.W_v.weight)[None, None], 4)[0, :, 0]  # (4, head_dim)
    expected = torch.einsum("hk,dhk->hd", value, layer.W_o.weight.unflatten(1, (4, -1))).detach()  # V_h d, each head
    for head, (number,) in enumerate(box.flips):
        step = box._found.steps[number]
        changes = np.abs(looks[step.before] - looks[step.after])
        assert changes[head] > 0.99 and np.delete(changes, head).max() < 0.01
        vector = box._found.vectors[step.letter]
        torch.testing.assert_close(vector, torch.sign(vector @ expected[head]) * expected[head], atol=1e-8, rtol=0)
        assert vector[vector.abs().argmax()] > 0


def test_steps_are_told_by_what_comes_back_and_what_is_slow():
    one, other = torch.tensor([3.0, -1.0, 0.0]).double(), torch.tensor([0.0, 1.0, -4.0]).double()
    at = torch.arange(100)[:, None]
    found = find_steps((at >= 20) * one + (at >= 40) * other - (at >= 60) * one - (at >= 80) * 2 * other, 0.0)
    assert told(found) == [("A", 1, 19), ("B", -1, 39), ("A", -1, 59), ("B", 1, 79)]
    assert found.vectors.tolist() == [one.tolist(), (-other).tolist()]
    assert [letter_name(i) for i in (0, 25, 26, 27, 51, 52, 701, 702)] == "A Z AA AB AZ BA ZZ AAA".split()
    moved = torch.zeros(100, 3).double()
    moved[30] = moved[60:] = 1.0  # what comes back at once is no step
    assert told(find_steps(moved, 0.0)) == [("A", 1, 59)]
    t, vectors = torch.linspace(-5, 5, 400, dtype=torch.double), torch.eye(2, dtype=torch.double)
    moved = sum(torch.sigmoid(60 * (t - place))[:, None] * v for place, v in zip((-2, 2), vectors, strict=True))
    torch.testing.assert_close(find_steps(moved, 1e-12).vectors, vectors, atol=1e-6, rtol=0)


def test_where_there_are_no_steps_it_says_what_to_do():
    layer, line = attention()
    near = {"start": line["start"] / 3e4, "direction": line["direction"] / 3e4}
    for f, changed, remark in [
        (layer, {"direction": 1e-3 * line["direction"]}, STAYS),
        (layer, near, SLIDES),
        (lambda x: layer.float()(x.float()), {}, SHAKES),
        (lambda x: layer.double()(x) + torch.rand_like(x), {}, SHAKES),
    ]:
        box = SealedBox(f, 16, **{**line, **changed})
        assert (box.remark, box._found.steps) == (remark, []) and remark in box.figure().alt
    often = find_steps((torch.arange(2000) // 4 % 2)[:, None].double(), 0.0)
    assert (often.remark, often.steps) == (SHAKES, []) and sealed().remark == ""


def test_what_the_reader_does_can_be_read_and_set():
    box = sealed()
    assert (box.t, box.steps_seen, box.opened) == (-3.0, [], False)
    for t, seen in ((-1.2, [0]), (-3, [0]), (0, [0, 1, 2])):
        box.t = t
        assert box.steps_seen == seen
    box.opened = True
    box.set_state({"t": -3.0, "steps_seen": [0, 1, 2, 3], "opened": False})  # as the view does
    assert (box.t, box.steps_seen, box.opened) == (-3.0, [0, 1, 2, 3], False)
    slow = sealed(points=5000)
    for t in slow._places[1250:1750].tolist():  # point by point over a step that takes many
        slow.t = t
    assert slow.steps_seen == [0, 1]


def test_what_is_no_box_is_refused_before_it_is_asked(as_shipped):
    layer, line = attention()
    row = torch.ones(16).double()

    def box(f=lambda _: pytest.fail("the box was asked"), **given):
        return lambda: SealedBox(**{"f": f, "d_model": 16, **line, **given})

    shut = sealed(known=False)
    calls = {
        "TypeError: f must be a function": box(3),
        "got torch.float64 (801, 16); where": box(lambda x: x[:, 0]),
        "NaN or infinity on this line": box(lambda x: x * torch.nan),
        "of shape (8,), got torch.float64 (16,)": box(d_model=8),
        "start must hold finite": box(start=row * torch.nan),
        "float64 loses a probe of length 1": box(start=1e20 * row),
        "direction must hold finite numbers that move": box(direction=0 * row),
        "reach must be a finite number above 0, got 0": box(reach=0),
        "from 2 to 5000, got 1;": box(points=1),
        "got (16, 801)": box(layer, heads=lambda c: c.T),
        "weights from 0 to 1": box(layer, heads=lambda c: c * torch.nan),
        "nobody knows what is in this box": lambda: setattr(shut, "opened", True),
        "t=4 is not on the line": lambda: setattr(shut, "t", 4),
    }
    assert accepted(calls) == [] and (shut.t, shut.opened, shut.flips) == (-3.0, False, [])


def test_the_picture_shows_no_head_under_the_lid():
    box = sealed()
    box.t = -0.5
    figure = box.figure()
    assert len(figure.axes) == 1 and [text.get_text() for text in figure.axes[0].texts] == ["A", "B"]
    assert "The lid is on." in figure.alt and "head" not in figure.alt
    assert "Steps crossed so far: −A near t = -1.3" in figure.alt
    box.opened = True
    assert "its 4 heads look at the second token by 0.00, 0.00, 1.00, 1.00" in box.figure().alt

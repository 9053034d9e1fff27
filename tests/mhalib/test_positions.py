"""Where tokens stand: rotation, slopes and positions against naive references, and the model that is told them."""

import json
import math
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib import split_heads
from mhalib.experiments import CausalModel, PlacedModel, positions_from_mask, rotary_permutation, rotate, slopes
from tests.helpers.refusals import accepted

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "13_positions_and_padding.ipynb"
LAYOUTS = {  # which features are pair i, of half as many pairs
    "halves": lambda i, half: (i, i + half),
    "neighbours": lambda i, half: (2 * i, 2 * i + 1),
}


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turned(x, positions, layout, base):
    """Turn each token of (B, h, T, head_dim), pair by pair, as points of the complex plane; positions are (B, T)."""
    half, found = x.shape[-1] // 2, x.clone()
    for i in range(half):
        one, other = LAYOUTS[layout](i, half)
        angles = positions[:, None].double() / base ** (i / half)
        points = torch.complex(x[..., one], x[..., other]) * torch.polar(torch.ones_like(angles), angles)
        found[..., one], found[..., other] = points.real, points.imag
    return found


@given(st.integers(1, 4), st.sampled_from(list(LAYOUTS)), st.sampled_from([10000.0, 100.0]), st.integers(0, 99))
def test_each_pair_is_turned_by_its_angle_in_both_layouts(half, layout, base, seed):
    x = drawn(2, 2, 3, 2 * half, seed=seed)
    positions = (drawn(2, 3, seed=seed).abs() * 200).long()  # each sample has its own
    wanted = turned(x, positions, layout, base)
    torch.testing.assert_close(rotate(x, positions, layout, base), wanted)
    torch.testing.assert_close(rotate(x[1:], positions[1], layout, base), wanted[1:])
    order = rotary_permutation(2 * half)
    assert order.tolist() == [*range(0, 2 * half, 2), *range(1, 2 * half, 2)]
    if layout == "neighbours":
        torch.testing.assert_close(rotate(x[..., order], positions, "halves", base), wanted[..., order])


def test_the_code_to_paste_of_the_lesson_turns_alike_and_half_precision_loses_no_position():
    cells = json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
    pasted = {"torch": torch}
    exec(*("".join(cell["source"]) for cell in cells if cell["id"] == "l13rotary"), pasted)
    x, positions = drawn(2, 3, 7, 10).float(), torch.tensor([0, 1, 2, 5, 11, 40, 90])
    for layout in LAYOUTS:
        ours = rotate(x, positions, layout)
        torch.testing.assert_close(pasted[f"rotate_{layout}"](x, positions), ours, atol=1e-4, rtol=0)
        far = rotate(x.half(), positions + 5000, layout)
        torch.testing.assert_close(far.float(), rotate(x, positions + 5000, layout), atol=2e-2, rtol=0)


def slopes_of_the_paper(num_heads):
    power = 2 ** math.floor(math.log2(num_heads))
    first = 2 ** (-8 / power)
    if power == num_heads:
        return [first ** (1 + i) for i in range(num_heads)]
    return slopes_of_the_paper(power) + slopes_of_the_paper(2 * power)[0::2][: num_heads - power]


def test_slopes_are_those_of_the_paper_also_between_powers_of_two():
    for num_heads in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20):
        assert slopes(num_heads).tolist() == pytest.approx(slopes_of_the_paper(num_heads)), num_heads


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4))
def test_positions_count_the_tokens_that_count(valid):
    wanted = [[max(0, sum(row[: t + 1]) - 1) for t in range(5)] for row in valid]
    assert positions_from_mask(torch.tensor(valid)).tolist() == wanted


def test_what_has_no_place_is_refused(as_shipped):
    heads, places = torch.zeros(1, 1, 3, 4), torch.arange(3)
    calls = {
        "TypeError: x must be floating": partial(rotate, heads.long(), places),
        "split into heads first": partial(rotate, heads[0], places),
        "head_dim=3 is not divisible": partial(rotate, heads[..., :3], places),
        "TypeError: positions must be integers": partial(rotate, heads, places / 1),
        "give each token its own": partial(rotate, heads, torch.arange(4)),
        "'halves' or 'neighbours'": partial(rotate, heads, places, layout="pairs"),
        "head_dim=5 is not divisible": partial(rotary_permutation, 5),
        "TypeError: valid must be boolean": partial(positions_from_mask, torch.ones(2, 3).long()),
        "valid must be (B, T), got (3,)": partial(positions_from_mask, torch.ones(3).bool()),
        "way must be one of learned, rotary, slopes, none": partial(model, "absolute"),
        "learned positions 0 to 23": partial(model("learned"), tokens(1, 12), positions=torch.arange(20, 32)),
    }
    assert accepted(calls) == []


def model(way, **options):
    return PlacedModel(22, 24, 32, 4, way=way, seed=3, **options).requires_grad_(False)


def tokens(*shape):
    return torch.randint(22, shape, generator=torch.Generator().manual_seed(1))


def by_hand(placed, ids, places):
    """Return the scores and maps of a model from the formula, with its four ways told apart."""
    x, maps = placed.token_embedding(ids), []
    if placed.way == "learned":
        x = x + placed.position_embedding(places)
    far = places[:, None] - places
    for layer in placed.layers:
        q, k, v = (split_heads(W(x), 4) for W in (layer.W_q, layer.W_k, layer.W_v))
        if placed.way == "rotary":
            q, k = rotate(q, places), rotate(k, places)
        scores = q @ k.mT / math.sqrt(8)
        if placed.way == "slopes":
            scores = scores - placed.slopes[:, None, None] * far
        maps.append(scores.masked_fill(far < 0, -math.inf).softmax(-1))
        x = x + layer.W_o((maps[-1] @ v).transpose(1, 2).flatten(2))
    return placed.readout(x), maps


@pytest.mark.parametrize("way", ["learned", "rotary", "slopes", "none"])
def test_the_model_is_the_formula_and_only_relative_ways_do_not_mind_where_a_text_begins(way):
    x, placed = tokens(2, 20), model(way)
    for made in (placed, model("slopes", slopes=torch.tensor([5.0, 0.1, 0.0, 1.0]))):
        wanted, wanted_maps = by_hand(made, x, torch.arange(20))
        scores, maps = made(x, need_weights=True)
        torch.testing.assert_close(scores, wanted, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(made(x), wanted, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(maps, wanted_maps, atol=1e-5, rtol=1e-4)
    moved = placed(x[:, :12], positions=torch.arange(5, 17)) - placed(x[:, :12])
    assert (moved.abs().max() < 1e-4) == (way != "learned")
    if way == "learned":
        torch.testing.assert_close(placed(x), CausalModel(22, 24, 32, 4, seed=3)(x))
    else:
        assert placed(tokens(1, 60)).shape == (1, 60, 22)


@pytest.mark.parametrize("way", ["learned", "rotary", "slopes"])
def test_padded_and_packed_texts_give_what_they_give_alone(way):
    x = tokens(2, 10)
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.long), x[:1, :6]], dim=1)
    valid = (torch.arange(10) >= 4)[None]
    alone = model(way)(x[:1, :6])
    given = model(way)(padded, positions=positions_from_mask(valid), mask=valid[:, None])
    torch.testing.assert_close(given[:, 4:], alone, atol=1e-5, rtol=1e-4)
    packed, text = x.reshape(1, 20), torch.arange(20) // 10
    given = model(way)(packed, positions=torch.arange(20) % 10, mask=text[:, None] == text)
    torch.testing.assert_close(given.view(2, 10, 22), model(way)(x), atol=1e-5, rtol=1e-4)

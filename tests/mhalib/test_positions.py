"""Where tokens stand: rotation and slopes against the code of transformers, positions of padded rows, the model."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib import causal_mask
from mhalib.experiments import (
    CausalModel,
    PlacedModel,
    Repeats,
    fit,
    positions_from_mask,
    rotary_permutation,
    rotate,
    slopes,
)

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "13_positions_and_padding.ipynb"


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def code_to_paste() -> dict:
    """Run the cell of the lesson that a reader may take along, and nothing else of it."""
    cells = json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
    (source,) = ("".join(cell["source"]) for cell in cells if cell["id"] == "l13rotary")
    names = {"torch": torch}
    exec(source, names)
    return names


def theirs(x, positions, layout):
    """Rotate with the code of transformers: its Llama for halves, its GPT-J for neighbours."""
    pytest.importorskip("transformers")
    head_dim = x.shape[-1]
    angle = positions[:, None].float() / 10000 ** (torch.arange(0, head_dim, 2) / head_dim)  # (T, head_dim / 2)
    if layout == "halves":
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        angle = torch.cat([angle, angle], dim=-1)[None]  # (1, T, head_dim)
        return apply_rotary_pos_emb(x, x, angle.cos(), angle.sin())[0]
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb

    turned = apply_rotary_pos_emb(x.transpose(1, 2), angle.sin()[None], angle.cos()[None])  # they keep (B, T, h, hd)
    return turned.transpose(1, 2)


# ------------------------------------------------------------------------------------------------------- rotation


@pytest.mark.parametrize("layout", ["halves", "neighbours"])
def test_both_layouts_are_those_of_transformers(layout):
    x, positions = drawn(2, 3, 7, 10), torch.tensor([0, 1, 2, 5, 11, 40, 90])
    expected = theirs(x, positions, layout)
    torch.testing.assert_close(rotate(x, positions, layout), expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(code_to_paste()[f"rotate_{layout}"](x, positions), expected, atol=1e-5, rtol=0)
    other = rotate(x, positions, "neighbours" if layout == "halves" else "halves")
    assert (other - expected).abs().max() > 0.5


@given(st.integers(1, 6), st.integers(0, 500), st.sampled_from(["halves", "neighbours"]))
def test_a_score_depends_on_the_distance_only(half, start, layout):
    q, k = drawn(1, 2, 6, 2 * half).double(), drawn(1, 2, 6, 2 * half, seed=1).double()
    near, far = torch.arange(6), torch.arange(start, start + 6)
    scores = [rotate(q, p, layout) @ rotate(k, p, layout).mT for p in (near, far)]
    torch.testing.assert_close(*scores, atol=1e-9, rtol=0)


def test_the_permutation_leads_from_neighbours_to_halves():
    x, order = drawn(2, 3, 5, 8), rotary_permutation(8)
    assert order.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    p = torch.arange(5)
    torch.testing.assert_close(rotate(x[..., order], p, "halves"), rotate(x, p, "neighbours")[..., order])


def test_each_sample_may_have_its_own_positions_and_the_first_pair_turns_by_one_radian():
    x, p = drawn(2, 3, 4, 6), torch.tensor([[0, 1, 2, 3], [0, 0, 0, 1]])
    for b in range(2):
        torch.testing.assert_close(rotate(x, p)[b], rotate(x[b : b + 1], p[b])[0])
    one = rotate(torch.eye(4)[:1].view(1, 1, 1, 4), torch.tensor([1]))
    torch.testing.assert_close(one.flatten(), torch.tensor([0.5403, 0, 0.8415, 0]), atol=1e-4, rtol=0)
    slow = rotate(torch.eye(4)[1:2].view(1, 1, 1, 4), torch.tensor([7]), base=100.0)
    torch.testing.assert_close(slow.flatten()[3], torch.tensor(0.7).sin())


@pytest.mark.parametrize(
    ("x", "positions", "options", "error", "words"),
    [
        (torch.zeros(1, 1, 3, 4).long(), torch.arange(3), {}, TypeError, "queries and keys, not token ids"),
        (torch.zeros(1, 3, 4), torch.arange(3), {}, ValueError, "split into heads first"),
        (torch.zeros(1, 1, 3, 5), torch.arange(3), {}, ValueError, "head_dim=5 is not divisible"),
        (torch.zeros(1, 1, 3, 4), torch.arange(3.0), {}, TypeError, "positions must be integers"),
        (torch.zeros(1, 1, 3, 4), torch.arange(4), {}, ValueError, "give each token its own"),
        (torch.zeros(1, 1, 3, 4), torch.arange(3), {"layout": "pairs"}, ValueError, "'halves' or 'neighbours'"),
    ],
)
def test_what_cannot_be_rotated_is_refused(as_shipped, x, positions, options, error, words):
    with pytest.raises(error, match=words):
        rotate(x, positions, **options)


def test_an_odd_head_has_no_permutation():
    with pytest.raises(ValueError, match="head_dim=5 is not divisible"):
        rotary_permutation(5)


# --------------------------------------------------------------------------------------------- slopes and positions


@pytest.mark.parametrize("num_heads", [1, 2, 4, 6, 8, 12, 16, 20])
def test_slopes_are_those_of_bloom(num_heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    theirs = bloom.build_alibi_tensor(torch.ones(1, 4, dtype=torch.long), num_heads, torch.float32)
    torch.testing.assert_close(slopes(num_heads), theirs[:, 0, 1])
    # They add slope times the place of the key: in a row, that is ours up to a constant.
    ours = -slopes(num_heads)[:, None] * (3 - torch.arange(4))
    torch.testing.assert_close(ours.softmax(-1), theirs[:, 0].softmax(-1))


def test_positions_count_the_tokens_that_count():
    valid = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    assert positions_from_mask(valid).tolist() == [[0, 0, 0, 1], [0, 1, 2, 3], [0, 1, 1, 1], [0, 0, 0, 0]]


def test_only_a_mask_has_positions(as_shipped):
    with pytest.raises(TypeError, match="valid must be boolean"):
        positions_from_mask(torch.ones(2, 3).long())
    with pytest.raises(ValueError, match=r"valid must be \(B, T\), got \(3,\)"):
        positions_from_mask(torch.ones(3).bool())


# ------------------------------------------------------------------------------------------------------- the model


def model(way, **options):
    return PlacedModel(22, 24, 32, 4, way=way, seed=3, **options).requires_grad_(False)


def tokens(*shape):
    return torch.randint(22, shape, generator=torch.Generator().manual_seed(1))


def test_with_learned_positions_it_is_the_causal_model():
    x = tokens(2, 20)
    torch.testing.assert_close(model("learned")(x), CausalModel(22, 24, 32, 4, seed=3)(x))


@pytest.mark.parametrize("way", ["learned", "rotary", "slopes", "none"])
def test_it_is_causal_and_its_maps_are_what_it_does(way):
    x = tokens(2, 20)
    scores, maps = model(way)(x, need_weights=True)
    torch.testing.assert_close(scores, model(way)(x), atol=1e-5, rtol=1e-4)
    assert len(maps) == 2 and maps[0].shape == (2, 4, 20, 20)
    assert not (maps[1] * ~causal_mask(20)).any()
    torch.testing.assert_close(maps[1].sum(-1), torch.ones(2, 4, 20))


@pytest.mark.parametrize(("way", "relative"), [("learned", False), ("rotary", True), ("slopes", True), ("none", True)])
def test_only_relative_ways_do_not_mind_where_a_text_begins(way, relative):
    x = tokens(1, 12)
    moved = model(way)(x, positions=torch.arange(5, 17)) - model(way)(x)
    assert (moved.abs().max() < 1e-4) == relative


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


def test_slopes_may_be_given_and_matter():
    x = tokens(1, 12)
    steep = model("slopes", slopes=torch.full((4,), 5.0))
    _, maps = steep(x, need_weights=True)
    assert maps[0].diagonal(dim1=-2, dim2=-1).min() > 0.9
    assert (steep(x) - model("slopes")(x)).abs().max() > 0.01


def test_it_learns_with_rotary_positions():
    result = fit(PlacedModel(22, 24, 32, 4, way="rotary"), Repeats(), steps=3, lr=1e-2, progress=False)
    assert result.losses[-1] < result.losses[0]


def test_what_it_cannot_do_is_said():
    with pytest.raises(ValueError, match="way must be one of learned, rotary, slopes, none"):
        model("absolute")
    with pytest.raises(ValueError, match="learned positions 0 to 23"):
        model("learned")(tokens(1, 12), positions=torch.arange(20, 32))
    assert model("rotary")(tokens(1, 60)).shape == (1, 60, 22)

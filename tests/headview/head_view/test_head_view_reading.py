"""What is read out of a HeadView in Python: the selection, the strongest weights, files, pages, and views together."""

import numpy as np
import pytest
import torch
import traitlets
from PIL import Image

from headview import HeadView
from headview.head_view.page_budget import carried

WORDS = "the cat sat on the mat".split()


def some(*shape):
    torch.manual_seed(0)
    return (2 * torch.randn(*shape)).softmax(-1)


def test_the_selection_is_what_is_in_sight():
    weights = some(2, 3, 6, 6)
    view = HeadView(weights, WORDS)
    view.layer, view.head, view.query, view.window = 1, 2, 3, [1, 4, 2, 6]
    found = view.selection
    assert (found.heads, found.query, found.tokens, found.key_tokens) == ([(1, 2)], 3, WORDS[1:4], WORDS[2:6])
    assert np.array_equal(found.weights, weights[1, 2, 1:4, 2:6].numpy())
    assert found.queries == [[1], [2], [3]] and found.keys == [[2], [3], [4], [5]]
    found.weights[:] = 0  # a copy
    assert np.array_equal(view.weights_of(1, 2), weights[1, 2].numpy())
    view.overlay, view.combine, view.window = [[0, 0]], "mean", []
    assert np.allclose(view.selection.weights, weights[[0, 1], [0, 2]].mean(0).numpy(), atol=1e-7)


def test_words_and_hidden_tokens_change_the_selection():
    weights = some(1, 5, 5)
    view = HeadView(weights, ["[CLS]", "play", "##ing", "now", "[SEP]"])
    view.words, view.hidden = True, ["[CLS]", "[SEP]"]
    found = view.selection
    assert found.tokens == ["playing", "now"] and found.queries == [[1, 2], [3]]
    whole = weights[0].numpy()
    expected = np.array(
        [[(whole[1] + whole[2])[1:3].sum() / 2, (whole[1] + whole[2])[3] / 2], [whole[3, 1:3].sum(), whole[3, 3]]]
    )
    np.testing.assert_allclose(found.weights, expected / expected.sum(-1, keepdims=True), rtol=1e-5)


def test_the_strongest_weights_come_with_their_places():
    weights = some(2, 3, 6, 6)
    view = HeadView(weights, WORDS)
    best = view.strongest(4)
    order = weights[0, 0].flatten().sort(descending=True)
    assert [one.weight for one in best] == pytest.approx(order.values[:4].tolist())
    assert [one.query * 6 + one.key for one in best] == order.indices[:4].tolist()
    assert best[0].token == WORDS[best[0].query] and best[0].key_token == WORDS[best[0].key]
    everywhere = view.strongest(5, everywhere=True)
    assert [one.weight for one in everywhere] == pytest.approx(
        weights.flatten().sort(descending=True).values[:5].tolist()
    )
    one = everywhere[0]
    assert weights[one.layer, one.head, one.query, one.key].item() == one.weight


def test_masked_and_nan_are_not_among_the_strongest():
    weights = torch.tensor([[1.0, 0, 0], [torch.nan] * 3, [0.2, 0.3, 0.5]])
    view = HeadView(weights, mask=torch.ones(3, 3, dtype=torch.bool).tril())
    found = view.strongest(100)
    assert [(one.query, one.key) for one in found] == [(0, 0), (2, 2), (2, 1), (2, 0)]
    with pytest.raises(ValueError, match="positive integer, got 0"):
        view.strongest(0)
    weights = some(1, 3, 300, 300)
    weights[0, 2, 7:9] = torch.nan  # beside the strongest, in one cell of the overview
    weights[0, 2, 8, :] = torch.eye(300)[9]
    for kind in ("weights", "signed"):
        (one,) = HeadView(weights, kind=kind).strongest(1, everywhere=True)
        assert (one.weight, one.head, one.query, one.key) == (1, 2, 8, 9)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "html"])
@pytest.mark.parametrize("mode", ["map", "lines"])
def test_what_is_on_screen_is_saved(tmp_path, ending, mode):
    view = HeadView(some(2, 3, 6, 6), WORDS)
    view.head, view.mode, view.window = 1, mode, [1, 5, 0, 4]
    path = view.save(tmp_path / f"heads.{ending}")
    data = path.read_bytes()
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!doctype html>"}
    assert data.startswith(starts[ending])
    if ending == "svg":
        text = data.decode()
        assert all(word in text for word in ("layer 0 head 1", "sat", "query")) and ">mat<" not in text
    if ending == "html":
        assert "prefers-color-scheme: dark" in data.decode() and data.isascii()


def test_a_long_map_is_saved_pooled_and_in_its_window(tmp_path):
    weights = torch.zeros(1, 3000, 3000)
    weights[..., 0] = 1
    view = HeadView(weights)
    image = Image.open(view.save(tmp_path / "a.png"))
    assert max(image.size) < 3000
    view.window = [100, 160, 0, 60]
    assert "what is in sight: [100, 160, 0, 60]" in view.figure().alt


# ---------------------------------------------------------------- a page


def test_a_page_carries_what_fits_and_says_what_it_left_out():
    view = HeadView(some(1, 2, 2100, 2100))
    assert not view._blocks.is_whole(0)
    small, all_of_it = view.to_html(budget=300_000), view.to_html(budget=50_000_000)
    assert len(small) < 400_000 and "shrunk to what the overview shows" in small
    assert "every weight" in all_of_it and len(all_of_it) > 3_000_000
    tiny = view.to_html(budget=0)
    assert "of at most 0 MB" in tiny


def test_a_page_carries_all_heads_in_fewer_digits_rather_than_one_in_all():
    view = HeadView(some(4, 4, 64, 64), exact=True)
    for budget, storage, said in (
        (4e6, "float32", ""),
        (200_000, "uint16", "all digits did not fit"),
        (90_000, None, ""),
    ):
        packed, left_out = carried(view, budget)
        assert packed.get("whole 0 0 a", ({"storage": None},))[0]["storage"] == storage
        assert said in left_out and bool(left_out) is (budget < 4e6)


# ---------------------------------------------------------------- two views


def test_the_difference_is_after_minus_before():
    before, after = some(1, 2, 5, 5), some(1, 2, 5, 5).roll(1, -1)
    view = HeadView(before, compare=after)
    view.side = "difference"
    np.testing.assert_allclose(view.selection.weights, (after - before)[0, 0].numpy(), atol=1e-7)


def test_linked_views_share_a_group():
    one, two, three = (HeadView(some(3, 3)) for _ in range(3))
    one.link(two)
    assert one.group == two.group != ""
    three.link(two)
    assert one.group == three.group
    with pytest.raises(TypeError, match="other HeadViews"):
        one.link("two")


# ---------------------------------------------------------------- state and blocks


def test_numbers_that_a_part_cannot_show_are_refused_with_the_reason_and_go_with_their_part():
    square, wide = HeadView(some(2, 3, 5, 5)), HeadView(some(1, 2, 4, 6))
    with pytest.raises(traitlets.TraitError, match=r"value vectors.*capture\(model, qkv=True\)"):
        square.values = "values"
    with pytest.raises(traitlets.TraitError, match="4 queries by 6 keys"):
        wide.values = "rollout"
    with pytest.raises(traitlets.TraitError, match="this part holds signed"):
        HeadView(some(2, 3, 5, 5) - 0.5, kind="signed").values = "rollout"
    assert (square.values, wide.values) == ("weights", "weights")
    both = HeadView({"encoder_attentions": (some(1, 2, 5, 5),), "cross_attentions": (some(1, 2, 4, 5),)})
    both.values = "rollout"
    both.part = 1
    assert both.values == "weights"

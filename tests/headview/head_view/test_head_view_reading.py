"""What is read out of a HeadView in Python: the selection, the strongest weights, pages, and views together."""

import numpy as np
import pytest
import torch
import traitlets

from headview import HeadView
from headview.head_view import serve
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


@pytest.mark.parametrize("exact", [False, True])
def test_masked_and_nan_and_rows_of_nothing_are_kept_apart_from_small_weights(exact):
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    weights = torch.randn(2, 6, 6).masked_fill(~mask, -torch.inf).softmax(-1)
    weights[1, 4], weights[1, 3] = torch.nan, 0
    shown = HeadView(weights, mask=mask, exact=exact).weights_of(0, 1)
    expected = weights[1].masked_fill(~mask, -1)  # what is masked is masked, NaN or not
    assert np.array_equal(shown, expected, equal_nan=True)


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


# ---------------------------------------------------------------- a page


def test_a_page_carries_what_fits_and_says_what_it_left_out(monkeypatch):
    monkeypatch.setattr(serve, "WHOLE_UP_TO", 100_000)
    view = HeadView(some(1, 2, 400, 400))
    few, all_of_it = (carried(view, budget) for budget in (200_000, 5_000_000))
    assert sum(len(data) for _, data in few[0].values()) < 150_000 and "one dot for 2 × 2 weights" in few[1]
    assert "every weight" in all_of_it[1] and sum(len(data) for _, data in all_of_it[0].values()) > 2 * 400 * 400
    assert "of at most 0 MB" in view.to_html(budget=0)


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

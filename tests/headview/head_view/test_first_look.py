"""What a view opens with: the strongest cell worth a look, a scale that shows something, hatching where a mask was."""

import pytest
import torch

from headview import HeadView
from headview.head_view.first_look import scale_that_shows

pytestmark = pytest.mark.first_look
WORDS = "[CLS] the cat sat on the mat [SEP]".split()


def some(*shape, sharpness=1.0):
    return (sharpness * torch.randn(shape, generator=torch.Generator().manual_seed(0))).softmax(-1)


def place(view):
    return view.layer, view.head, view.query, view.key


def test_it_opens_on_the_strongest_cell_off_the_diagonal_and_special_tokens():
    weights = some(3, 4, 8, 8)
    weights[0, 0] = torch.eye(8)  # a head on the diagonal
    weights[0, 1] = torch.eye(8)[0]  # one on the first token
    weights[0, 2] = torch.eye(8)[7]  # one on [SEP]
    weights[2, 3, 5] = torch.tensor([0, 0, 0.9, 0.1, 0, 0, 0, 0])
    assert place(HeadView(weights, WORDS)) == (2, 3, 5, 2)
    assert HeadView(weights, WORDS, layer=1).layer == 1
    assert place(HeadView(weights, WORDS, layer=2, head=3)) == (2, 3, 5, 2)
    assert HeadView(weights, WORDS, query=1).query == 1


def test_it_finds_one_weight_among_many():
    weights = torch.zeros(2, 2, 700, 700)
    weights[..., 0] = 1
    weights[1, 0, 600] = 0
    weights[1, 0, 600, 321] = 1
    assert place(HeadView(weights.half())) == (1, 0, 600, 321)


def test_a_comparison_opens_on_the_largest_difference():
    before = some(2, 2, 6, 6)
    after = before.clone()
    after[1, 1, 4] = before[1, 1, 4].roll(1)
    view = HeadView(before, compare=after)
    assert place(view)[:3] == (1, 1, 4)


def test_another_sample_is_opened_on_its_own_cell_unless_the_reader_chose_one():
    weights = torch.full((2, 1, 6, 6), 1 / 6)
    weights[1] = torch.tensor([0, 0, 0, 1, 1, 1]) / 3  # padding at the left
    weights[0, 0, 2] = torch.tensor([0, 0.9, 0, 0.1, 0, 0])
    weights[1, 0, 4] = torch.tensor([0, 0, 0, 0.1, 0, 0.9])
    view = HeadView([weights])
    assert place(view) == (0, 0, 2, 1) and place(HeadView([weights], sample=1)) == (0, 0, 4, 5)
    view.sample = 1
    assert place(view) == (0, 0, 4, 5)
    view.query = 3
    view.sample = 0
    assert place(view) == (0, 0, 3, 5)
    parts = {"one": [weights], "two": [torch.eye(4)[[3, 3, 1, 3]].expand(2, 1, 4, 4)]}
    assert place(HeadView(parts, part=1)) == (0, 0, 0, 3)


def test_traits_are_taken_by_the_constructor():
    view = HeadView(some(3, 4, 8, 8), WORDS, layer=2, scale="log", overlay=[[0, 1]], mode="lines", rows=[1, 2])
    assert (view.layer, view.scale, view.overlay, view.mode, view.rows) == (2, "log", [[0, 1]], "lines", [1, 2])
    with pytest.raises(ValueError, match="layer must be an integer from 0 to 2"):
        HeadView(some(3, 4, 8, 8), layer=3)
    with pytest.raises(TypeError, match="HeadView takes no 'color'; choose from colours, .*tokens"):
        HeadView(some(3, 4, 8, 8), color="red")


def test_the_scale_is_chosen_by_what_is_there():
    def of(weights, **options):
        (part,) = HeadView(weights, **options)._blocks.parts
        return scale_that_shows(part)

    assert of(some(2, 2, 8, 8, sharpness=12)) == "fixed"
    assert of(some(2, 2, 30, 30)) == "root"
    assert of(torch.randn(2, 2, 5, 5), kind="signed") == "maximum"
    view = HeadView(some(2, 2, 8, 8, sharpness=12), scale="auto")
    assert view.scale_of([(0.9, False)]) == ("fixed", [1.0])
    assert view.scale_of([(0.2, False)]) == ("root", [1.0])  # a mean over heads
    assert view.scale_of([(0.9, False), (0.8, False), (0.3, True)]) == ("fixed", [1.0, 1.0, 0.3])
    assert view.scale_of([(0.01, False), (0.005, False)]) == ("maximum", [0.01, 0.01])  # what is compared shares it
    assert view.scale_of([(0.0, False)]) == ("maximum", [1.0])  # NaN alone, or zeros
    pale = some(2, 2, 60, 60, sharpness=0.3)
    view, largest = HeadView(pale), pale.max().item()
    assert 0.02 < largest < 0.1  # all heads on one scale, which ends where their weights do
    assert view.scale_of([(0.03, False)]) == ("root", [largest])
    assert view.scale_of([(0.01, False)]) == ("maximum", [0.01])


@pytest.mark.parametrize(("size", "before"), [(6, 0), (6, 9), (900, 0)])
def test_what_is_exactly_zero_above_the_diagonal_in_all_heads_is_hatched(size, before):
    causal = some(3, 4, size, before + size).tril(before)
    causal = (causal / causal.sum(-1, keepdim=True)).half()
    view = HeadView(causal)
    assert view._blocks.parts[0].guessed_mask and (view.weights_of(0, 0)[0, before + 1 :] == 0).all()
    assert torch.isneginf(torch.from_numpy(view.selection.weights[0, before + 1 :])).all()


def test_what_no_mask_made_is_not_hatched():
    one = some(1, 2, 6, 6).tril()
    one = one / one.sum(-1, keepdim=True)
    other = torch.cat([one, some(1, 2, 6, 6)])  # one layer looks ahead
    aligned = torch.eye(12).repeat_interleave(50, 1)[None] / 50  # with zeros below its steps as well
    for weights in (other, torch.eye(6).expand(1, 2, 6, 6), some(1, 2, 6, 6), torch.ones(1, 2, 2, 1), aligned):
        assert not HeadView(weights)._blocks.parts[0].guessed_mask
    assert not HeadView(one, mask=torch.ones(6, 6, dtype=torch.bool))._blocks.parts[0].guessed_mask


def test_heads_are_measured_and_by_the_readers_own_measure_too():
    tokens = list("abcdabcd")
    weights = some(2, 3, 8, 8)
    weights[1, 1] = torch.eye(8).roll(-1, 1)  # the previous token
    weights[1, 1, 0] = torch.eye(8)[0]
    weights[1, 2] = torch.eye(8)
    for query in (4, 5, 6, 7):
        weights[1, 2, query] = torch.eye(8)[query - 3]  # what followed last time
    view = HeadView(weights, tokens, measures={"to a": lambda maps: maps[..., 0].mean(-1)})
    facts, _ = view._blocks.answer("facts 0 0 a")
    found = {name: torch.tensor(numbers).view(2, 3) for name, numbers in facts["measures"].items()}
    assert found["previous token"].argmax() == 4 and found["induction"].argmax() == 5
    assert torch.allclose(found["to a"], weights[..., 0].mean(-1), atol=1e-4)
    view.order = "to a"
    with pytest.raises(ValueError, match="'to a'"):
        view.order = "to b"
    for wrong, error in (({"x": torch.ones(3)}, ValueError), ([1], TypeError), ({"entropy": abs}, ValueError)):
        with pytest.raises(error, match="measure"):
            HeadView(weights, tokens, measures=wrong)


def test_a_query_or_an_order_opens_the_head_that_it_speaks_of():
    weights = torch.full((2, 3, 6, 6), 1 / 6)
    weights[1, 2, 4] = torch.tensor([0.02, 0.02, 0.9, 0.02, 0.02, 0.02])
    weights[1, 0, 3] = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    places = {
        (1, 2, 4, 2): HeadView(weights, query=4),
        (1, 0, 3, 4): HeadView(weights, query=3, key=4),
        (0, 1, 4, 1): HeadView(weights, query=4, layer=0, head=1, key=1),
    }
    for place, view in places.items():
        assert (view.layer, view.head, view.query, view.key) == place
    scores = torch.tensor([[0.0, 1.0, torch.nan], [0.0, 3.0, 2.0]])
    by_score = HeadView(weights, measures={"score": scores}, order="score")
    assert (by_score.layer, by_score.head) == (1, 1)
    by_entropy = HeadView(weights, order="entropy", query=5)
    assert (by_entropy.layer, by_entropy.head, by_entropy.query) == (1, 0, 5)
    likeness = HeadView(weights, order="likeness")
    assert [likeness.layer * 3 + likeness.head] == likeness._blocks.answer("facts 0 0 a")[0]["likeness"][:1]

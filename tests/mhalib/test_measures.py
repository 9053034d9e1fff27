"""The measures of heads, on maps made by hand whose right answer can be read off."""

import math

import pytest
import torch

from mhalib.heads import (
    alignment_agreement,
    attention_distance,
    attention_entropy,
    induction_score,
    key_score,
    offset_score,
    previous_token_score,
    same_token_score,
)

# Four tokens: the first query has one key, the second two, and so on. Each map is one head.
SPREAD = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.25, 0.25, 0], [0.5, 0.25, 0.125, 0.125]])
BEFORE = torch.tensor([[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]])
HEADS = torch.stack([SPREAD, BEFORE])  # (2, 4, 4)
LATER = torch.tensor([False, False, True, True])


def padded(weights):
    """Two samples: the weights as they are, and with nothing in their last two rows."""
    short = weights.clone()
    short[..., 2:, :] = torch.tensor([0.0, 0, 0, 0])
    return torch.stack([weights, short]), torch.tensor([[True] * 4, [True, True, False, False]])


def test_entropy_in_bits():
    expected = torch.tensor([[0, 1, 1.5, 1.75], [0, 0, 0, 0]])
    torch.testing.assert_close(attention_entropy(HEADS), expected)


def test_distance_in_tokens():
    expected = torch.tensor([[0, 0.5, 1.25, 2.125], [0, 1, 1, 1]])
    torch.testing.assert_close(attention_distance(HEADS), expected)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(-1, [(0.5 + 0.25 + 0.125) / 3, 1]), (0, [(1 + 0.5 + 0.25 + 0.125) / 4, 0.25]), (1, [0, 0]), (-3, [0.5, 0])],
)
def test_offset(offset, expected):
    torch.testing.assert_close(offset_score(HEADS, offset), torch.tensor(expected, dtype=torch.float32))


def test_previous_token_is_the_offset_minus_one():
    torch.testing.assert_close(previous_token_score(HEADS), torch.tensor([0.875 / 3, 1]))


def test_the_first_query_has_no_token_before_and_does_not_count():
    other = BEFORE.clone()
    other[0] = torch.tensor([0, 0, 0, 1.0])
    assert previous_token_score(other) == previous_token_score(BEFORE) == 1


def test_induction_looks_at_what_came_after_the_last_time():
    tokens = torch.tensor([7, 3, 7, 3])  # query 2 should look at key 1, query 3 at key 2
    torch.testing.assert_close(induction_score(HEADS, tokens), torch.tensor([(0.25 + 0.125) / 2, 1]))


def test_induction_counts_every_earlier_occurrence_and_no_later_one():
    tokens = torch.tensor([5, 5, 5, 9])  # query 1: key 1; query 2: keys 1 and 2; query 3 is new
    torch.testing.assert_close(induction_score(SPREAD, tokens), torch.tensor((0.5 + 0.5) / 2))
    last = torch.zeros(4, 4)
    last[:, 3] = 1  # only a later occurrence stands before key 3
    assert induction_score(last, torch.tensor([5, 9, 5, 8])) == 0


def test_same_token_leaves_the_query_itself_out():
    tokens = torch.tensor([7, 3, 7, 8])  # query 0 with key 2, query 2 with key 0
    torch.testing.assert_close(same_token_score(HEADS, tokens), torch.tensor([(0 + 0.5) / 2, 0]))


def test_keys():
    torch.testing.assert_close(key_score(HEADS, ~LATER), torch.tensor([(1 + 1 + 0.75 + 0.75) / 4, 0.75]))
    torch.testing.assert_close(key_score(HEADS, ~LATER, queries=LATER), torch.tensor([0.75, 0.5]))


def test_alignment_takes_the_strongest_key():
    weights = torch.tensor([[0.6, 0.4, 0], [0.2, 0.3, 0.5]])  # two queries, three keys
    aligned = torch.tensor([[True, False, False], [True, True, False]])
    assert alignment_agreement(weights, aligned) == 0.5
    both = torch.tensor([[False, False, False], [False, False, True]])  # the first query is aligned with nothing
    assert alignment_agreement(weights, both) == 1


TOKENS = torch.tensor([7, 3, 7, 3])
MEASURES = {
    "offset": lambda weights, queries=None: offset_score(weights, -1, queries),
    "previous": previous_token_score,
    "induction": lambda weights, queries=None: induction_score(weights, TOKENS, queries),
    "same token": lambda weights, queries=None: same_token_score(weights, TOKENS, queries),
    "keys": lambda weights, queries=None: key_score(weights, LATER, queries),
    "alignment": lambda weights, queries=None: alignment_agreement(weights, torch.eye(4, dtype=torch.bool), queries),
}
PER_QUERY = {"entropy": attention_entropy, "distance": attention_distance}
each_measure = pytest.mark.parametrize(
    "measure", [*MEASURES.values(), *PER_QUERY.values()], ids=[*MEASURES, *PER_QUERY]
)
each_score = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)


@each_measure
def test_leading_axes_stay(measure):
    layers = torch.stack([HEADS, HEADS.flip(0), HEADS])  # (3, 2, 4, 4)
    assert torch.equal(measure(layers)[1], measure(HEADS).flip(0))
    assert torch.equal(measure(layers)[2, 1], measure(BEFORE))


@each_score
def test_queries_that_do_not_count_change_nothing(measure):
    last = torch.arange(4) == 3
    other = HEADS.clone()
    other[..., :3, :] = math.nan
    assert torch.equal(measure(other, last), measure(HEADS, last))
    assert not torch.equal(measure(HEADS, last), measure(HEADS))


@each_score
def test_samples_are_pooled_by_their_queries(measure):
    shorter = torch.tensor([True, True, True, False])
    queries = torch.stack([torch.ones_like(shorter), shorter])  # (B, T)
    weights = torch.stack([HEADS, HEADS])
    weights[1, :, 3] = 0  # padding: a row without a key
    found = measure(weights, queries)
    assert found.shape == (2,)
    singles = []
    for b, q in [(b, q) for b in range(2) for q in range(4) if queries[b, q]]:
        alone = torch.zeros(4, dtype=torch.bool)
        alone[q] = True
        try:
            singles.append(measure(weights[b], alone))
        except ValueError:
            pass  # this query has nothing to find and does not count
    torch.testing.assert_close(found, torch.stack(singles).mean(0))


@pytest.mark.parametrize("measure", PER_QUERY.values(), ids=PER_QUERY)
def test_per_query_measures_give_nan_where_nothing_counts(measure):
    weights, queries = padded(HEADS)
    found = measure(weights, queries)  # (B, heads, T)
    assert found.shape == (2, 2, 4)
    assert torch.equal(found.isnan(), ~queries[:, None].expand(2, 2, 4))
    assert torch.equal(found[0], measure(HEADS)) and torch.equal(found[1, :, :2], measure(HEADS)[:, :2])


def test_each_sample_has_its_own_tokens_keys_and_alignment():
    weights = torch.stack([HEADS, HEADS])  # (B, heads, T, T)
    tokens = torch.tensor([[7, 3, 7, 3], [5, 5, 5, 9]])
    # SPREAD: (.25 + .125 of the first + .5 + .5 of the second) / 4
    torch.testing.assert_close(induction_score(weights, tokens)[0], torch.tensor(1.375 / 4))
    keys = torch.tensor([[True, False, False, False], [False, False, False, False]])  # the second has none
    torch.testing.assert_close(key_score(weights, keys), torch.tensor([(1 + 0.5 + 0.5 + 0.5) / 4, 0.5]))
    first = torch.zeros(4, 4, dtype=torch.bool)
    first[:, 0] = True
    aligned = torch.stack([first, ~first])
    assert torch.equal(alignment_agreement(weights, aligned), torch.tensor([0.5, 0.5]))
    assert alignment_agreement(weights[:, 0], aligned) == 0.5  # without an axis of heads


@each_measure
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(measure, dtype):
    thirds = torch.randn(3, 4, 4).softmax(-1).to(dtype)
    found = measure(thirds)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(
        found, measure(thirds.double() / thirds.double().sum(-1, keepdim=True)), atol=2e-2, rtol=0, check_dtype=False
    )


@each_measure
def test_weights_that_are_none_are_refused(measure, as_shipped):
    with pytest.raises(
        ValueError,
        match="each row sums to 1 over the keys; .* sums to 4; .* leave rows with no key.* out with `queries`",
    ):
        measure(HEADS * 4)
    with pytest.raises(ValueError, match="sums to nan"):
        measure(torch.full((4, 4), math.nan))
    with pytest.raises(ValueError, match="lie between 0 and 1, .* lies between -1 and 2"):
        measure(torch.tensor([[-1.0, 2, 0, 0]]).expand(4, 4))
    with pytest.raises(ValueError, match=r"\(\.\.\., Tq, Tk\), none of them empty, got \(4,\)"):
        measure(SPREAD[0])
    with pytest.raises(TypeError, match="weights are floating, got torch.int64"):
        measure(SPREAD.long())
    with pytest.raises(TypeError, match="weights must be a tensor, got list"):
        measure(SPREAD.tolist())
    with pytest.raises(ValueError, match=r"queries must be \(4,\), or that with the batch"):
        measure(HEADS, LATER[:3])
    with pytest.raises(TypeError, match="queries must be boolean, got torch.int64; use .bool()"):
        measure(HEADS, LATER.long())


@each_score
def test_nothing_that_counts_is_refused(measure):
    with pytest.raises(ValueError, match="no query that counts has"):
        measure(HEADS, torch.zeros(4, dtype=torch.bool))


def test_what_cannot_be_found_is_refused():
    with pytest.raises(ValueError, match="no query that counts has a key at offset 4"):
        offset_score(HEADS, 4)
    with pytest.raises(ValueError, match="a token that occurred before"):
        induction_score(HEADS, torch.arange(4))
    with pytest.raises(ValueError, match="a token that occurs twice"):
        same_token_score(HEADS, torch.arange(4))


def test_arguments_that_do_not_fit_are_refused(as_shipped):
    cross = torch.full((2, 3, 4), 0.25)
    for measure in (attention_distance, previous_token_score, lambda weights: induction_score(weights, TOKENS)):
        with pytest.raises(ValueError, match=r"compares places in one sequence and needs weights \(\.\.\., T, T\)"):
            measure(cross)
    with pytest.raises(ValueError, match=r"tokens must be \(4,\), or that with the batch .*, got \(1, 4\)"):
        induction_score(HEADS, TOKENS[None])
    with pytest.raises(TypeError, match="tokens must be integer ids, got torch.float32"):
        same_token_score(HEADS, TOKENS.float())
    with pytest.raises(TypeError, match="keys must be boolean, got torch.float32"):
        key_score(cross, torch.ones(4))
    with pytest.raises(ValueError, match=r"alignment must be \(3, 4\)"):
        alignment_agreement(cross, torch.ones(4, 3, dtype=torch.bool))
    assert key_score(cross, LATER).tolist() == [0.5, 0.5]  # keys of another sequence are fine here


def test_weights_with_a_gradient_are_measured_without_it():
    weights = HEADS.clone().requires_grad_()
    assert not previous_token_score(weights).requires_grad and weights.grad is None

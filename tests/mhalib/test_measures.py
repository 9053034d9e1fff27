"""Each measure of heads against a naive reference, on random maps that look forward as well as backward."""

import itertools
import math
from functools import partial

import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib.heads import (
    alignment_agreement,
    attention_distance,
    attention_entropy,
    induction_score,
    key_score,
    offset_score,
    previous_token_score,
    rollout,
    same_token_score,
)
from tests.helpers.refusals import accepted

HEADS = 3


def entropy(row, query):
    return -sum(weight * math.log2(weight) for weight in row if weight > 0)


def distance(row, query):
    return sum(weight * abs(key - query) for key, weight in enumerate(row))


def share_of(looked_for):
    """Return the measure that is the weight on these keys, or None where there are none: the query does not count."""

    def naive(row, query, *own):
        keys = [key for key in range(len(row)) if looked_for(query, key, *own)]
        return sum(row[key] for key in keys) if keys else None

    return naive


induction = share_of(lambda query, key, tokens: 0 < key <= query and tokens[key - 1] == tokens[query])
same_token = share_of(lambda query, key, tokens: key != query and tokens[key] == tokens[query])
marked = share_of(lambda query, key, keys: keys[key])


def agreement(row, query, aligned):
    return float(aligned[query][row.index(max(row))]) if any(aligned[query]) else None


@st.composite
def samples(draw):
    """Return maps (B, HEADS, T, T), of which some rows are sharp, and tokens, queries, keys, alignment (B, …)."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    batch, length = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    sharpness = draw(st.sampled_from([0.0, 1.0, 3.0, 200.0]))
    scores = sharpness * torch.randn(batch, HEADS, length, length, generator=generator, dtype=torch.float64)
    tokens = torch.randint(3, (batch, length), generator=generator)
    coins = torch.rand(batch, length, length + 2, generator=generator) < 0.6
    return scores.softmax(-1), tokens, coins[..., 0], coins[..., 1], coins[..., 2:]


def check_score(measure, naive, weights, queries, *own):
    """Hold a score of all samples together, and of two layers of the first, against the mean over rows that count.

    Samples are pooled where they have queries of their own, or tokens, keys, an alignment of their own.
    """

    def expected(chosen):
        found = []
        for head in range(HEADS):
            rows = [(b, q) for b in chosen for q in range(queries.shape[-1]) if queries[b, q]]
            said = [naive(weights[b, head, q].tolist(), q, *(x[b].tolist() for x in own)) for b, q in rows]
            said = [value for value in said if value is not None]
            found.append(sum(said) / len(said) if said else None)
        return None if None in found else torch.tensor(found, dtype=torch.float64)

    spoiled = weights.masked_fill(~queries[:, None, :, None], math.nan)  # what does not count may be anything
    layers = torch.stack([spoiled[0], spoiled[0].flip(0)])
    together, alone = expected(range(len(weights))), expected([0])
    for wanted, call in (
        (together, lambda: measure(spoiled, *own, queries)),
        (alone, lambda: measure(layers, *(x[0] for x in own), queries[0])[0]),
        (alone, lambda: measure(layers, *(x[0] for x in own), queries[0])[1].flip(0)),
    ):
        if wanted is None:
            assert accepted({"no query that counts has": call}) == []
        else:
            torch.testing.assert_close(call(), wanted)


@given(samples(), st.integers(-3, 3), st.integers(1, 6))
def test_scores_are_the_mean_over_the_queries_that_have_what_is_looked_for(drawn, offset, length):
    weights, tokens, queries, keys, aligned = drawn
    check_score(previous_token_score, share_of(lambda query, key: key == query - 1), weights, queries)
    at_offset = share_of(lambda query, key: key == query + offset)
    check_score(lambda maps, counted: offset_score(maps, offset, counted), at_offset, weights, queries)
    check_score(induction_score, induction, weights, queries, tokens)
    check_score(same_token_score, same_token, weights, queries, tokens)
    # Where places are not compared, keys of another sequence are fine.
    cross, queries, aligned = weights[:, :, :length], queries[:, :length], aligned[:, :length]
    check_score(key_score, marked, cross, queries, keys)
    check_score(alignment_agreement, agreement, cross, queries, aligned)


@given(samples(), st.integers(1, 6))
def test_entropy_and_distance_are_those_of_each_row_and_nan_where_nothing_counts(drawn, length):
    whole, _, queries, _, _ = drawn
    for measure, naive, size in ((attention_entropy, entropy, length), (attention_distance, distance, 6)):
        weights, counted = whole[:, :, :size], queries[:, :size]
        wanted = [
            [[naive(row, query) for query, row in enumerate(head)] for head in sample] for sample in weights.tolist()
        ]
        wanted = torch.tensor(wanted, dtype=torch.float64)
        torch.testing.assert_close(measure(weights), wanted)
        spoiled = weights.masked_fill(~counted[:, None, :, None], 0.0)  # padding: a row without a key
        wanted = wanted.masked_fill(~counted[:, None], math.nan)
        torch.testing.assert_close(measure(spoiled, counted), wanted, equal_nan=True)


TOKENS = torch.tensor([7, 3, 7, 3])
MEASURES = {
    attention_entropy: (),
    attention_distance: (),
    previous_token_score: (),
    induction_score: (TOKENS,),
    same_token_score: (TOKENS,),
    key_score: (torch.tensor([False, False, True, True]),),
    alignment_agreement: (torch.eye(4, dtype=torch.bool),),
}


def test_half_precision_is_measured_in_single_and_without_a_gradient():
    for (measure, more), dtype in itertools.product(MEASURES.items(), (torch.float16, torch.bfloat16, torch.float64)):
        weights = torch.randn(3, 4, 4).softmax(-1).to(dtype).requires_grad_()
        found = measure(weights, *more)
        assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert not found.requires_grad
        exact = weights.detach().double() / weights.detach().double().sum(-1, keepdim=True)
        torch.testing.assert_close(found, measure(exact, *more), atol=2e-2, rtol=0, check_dtype=False)


def test_weights_that_are_none_and_arguments_that_do_not_fit_are_refused(as_shipped):
    weights, later = torch.full((2, 4, 4), 0.25), torch.tensor([False, False, True, True])
    cross, failures = torch.full((2, 3, 4), 0.25), []
    for measure, more in MEASURES.items():
        calls = {
            "leave rows with no key, such as padding, out with `queries`": (4 * weights, *more),
            "sums to 4": (4 * weights, *more),
            "sums to nan": (torch.full((4, 4), math.nan), *more),
            "lies between -1 and 2": (torch.tensor([[-1.0, 2, 0, 0]]).expand(4, 4), *more),
            "(..., Tq, Tk), none of them empty, got (4,)": (weights[0, 0], *more),
            "TypeError: weights: attention weights are floating": (weights.long(), *more),
            "TypeError: weights must be a tensor, got list": (weights.tolist(), *more),
            "queries must be (4,), or that with the batch": (weights, *more, later[:3]),
            "TypeError: queries must be boolean": (weights, *more, later.long()),
        }
        failures += accepted({words: partial(measure, *given) for words, given in calls.items()})
    for measure in (attention_distance, previous_token_score, lambda maps: induction_score(maps, TOKENS)):
        failures += accepted({"needs weights (..., T, T)": partial(measure, cross)})
    failures += accepted(
        {
            "tokens must be (4,), or that with the batch": lambda: induction_score(weights, TOKENS[None]),
            "TypeError: tokens must be integer ids, got torch.float32": lambda: same_token_score(weights, TOKENS / 1),
            "TypeError: keys must be boolean, got torch.float32": lambda: key_score(cross, torch.ones(4)),
            "alignment must be (3, 4)": lambda: alignment_agreement(cross, torch.ones(4, 3, dtype=torch.bool)),
        }
    )
    assert failures == []


def mixed(layers):
    """Return the rollout of layers (num_heads, T, T) as lists, one cell at a time.

    A row of zeros keeps what came; NaN comes from where it weighs something.
    """
    tokens = range(len(layers[0][0]))
    found = [[float(i == j) for j in tokens] for i in tokens]
    for heads in layers:
        own = [[sum(head[i][j] for head in heads) / len(heads) / 2 + (i == j) / 2 for j in tokens] for i in tokens]
        own = [[cell / sum(row) for cell in row] for row in own]
        found = [[sum(own[i][k] * found[k][j] for k in tokens if own[i][k]) for j in tokens] for i in tokens]
    return torch.tensor(found, dtype=torch.float64)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(1, 4), st.integers(0, 2**31))
def test_rollout_multiplies_half_of_each_layer_and_half_of_what_came_in(heads, length, seed):
    generator = torch.Generator().manual_seed(seed)
    batch = [torch.rand(2, h, length, length, generator=generator).double().softmax(-1) for h in heads]
    batch[0][0, :, 0] = 0  # a query without a key
    batch = [torch.stack([layer[0], layer[1].tril()]) for layer in batch]
    batch[0][1, :, -1] = math.nan  # which queries before it must not get
    wanted = torch.stack([mixed([layer[b].tolist() for layer in batch]) for b in range(2)])
    before = [layer.clone() for layer in batch]
    found = rollout(layer.requires_grad_() for layer in batch)
    torch.testing.assert_close(found, wanted, equal_nan=True)
    torch.testing.assert_close(batch, before, rtol=0, atol=0, equal_nan=True)
    assert not found.requires_grad
    assert rollout([batch[0][0].half()]).dtype == torch.float32


def test_what_no_rollout_can_be_made_of_is_refused(as_shipped):
    eye = torch.eye(3)[None]
    calls = {
        "one layer or more, got none": lambda: rollout([]),
        "TypeError: layer 0: attention weights are floating": lambda: rollout([eye.long()]),
        "(..., num_heads, T, T) of tokens on themselves, got (3, 3) for layer 0": lambda: rollout([eye[0]]),
        "got (1, 2, 3) for layer 0": lambda: rollout([eye[:, :2]]),
        "layer 1 has negative numbers": lambda: rollout([eye, -eye]),
        "got (3, 3) and (4, 4) without heads": lambda: rollout([eye, torch.eye(4)[None]]),
    }
    assert accepted(calls) == []

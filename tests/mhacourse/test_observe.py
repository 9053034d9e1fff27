"""What is said of a wrong result that has no name: each sentence where it is true, and not where it would not be."""

import pytest
import torch

from mhacourse.exercise import Exercise

pytestmark = pytest.mark.usefixtures("no_changes")

RIGHT = [torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(seed)) + 3 for seed in range(3)]
MASKS = [right > 3 for right in RIGHT]
WHOLE = [right.round().long() for right in RIGHT]
TILTED = torch.arange(32.0).reshape(2, 4, 4)  # a wrong result on which nothing else is to be seen


def judged(change, right=RIGHT, given=2):
    """Return the note on results that are changed: all in one way, or each in its own."""
    changes = change if isinstance(change, list) else [change] * len(right)
    ours, theirs = iter(right), iter([f(result.clone()) for f, result in zip(changes, right, strict=True)])
    cases = [(given,)] * len(right)
    exercise = Exercise("-", lambda x: next(ours), ("-",), cases=lambda: cases, axes=("sample", "query", "key"))
    return exercise(lambda x: next(theirs))


def seen(*given):
    """Return what is said of such results, besides the example."""
    return " ".join(text for label, text in judged(*given).parts if label == "")


def at(*index):
    """Return a change of what stands at an index, by numbers of which none is like the other."""

    def change(x):
        x[index] += 5 + TILTED[: len(x)][index] ** 1.5
        return x

    return change


ALL, REST = slice(None), slice(1, None)

SAID = [
    ([torch.clone, torch.clone, at(0, 0, 0)], "It is right for 2 of 3 inputs"),
    (at(ALL, REST), "In the example, it is right for query 0, and for no other query."),
    (at(ALL, ALL, 0), "In the example, it is right for key 1, 2, 3, and for no other key."),
    ([at(REST), at(ALL), at(ALL)], "In the example, it is right for sample 0, and for no other sample."),
    (lambda x: torch.cat([~x[:, :1], x[:, 1:]], 1), "right for query 1, 2, 3, and", MASKS),
]


def test_what_is_right_is_said_and_nothing_where_nothing_is():
    said = [(words, seen(change, *right)) for change, words, *right in SAID]
    assert [(words, text) for words, text in said if words not in text] == []
    assert "right" not in seen(at(ALL))
    assert [seen(change, WHOLE) for change in (torch.Tensor.double, torch.Tensor.half, lambda x: x + 0j)] == [""] * 3


def test_a_result_that_is_one_number_or_the_right_one_transposed_is_named():
    assert judged(torch.sum).title == ": not yet. This is one number, not one for each sample, query and key"
    assert judged(lambda x: x.mT).title == ": not yet. The result is transposed"
    parts = Exercise(
        "-", lambda x: (x, 2 * x), ("-",), cases=lambda: [(RIGHT[0][0],)], axes={"k": ("a", "b"), "v": ("a", "b")}
    )
    assert parts(lambda x: (x, 2 * x.T)).title == ": not yet. v is transposed"
    assert parts(lambda x: (x.T, 3 * x)).title == ": not yet. k is transposed", "the first part that is wrong"


SHAPES = [
    ((2, 3, 5), (3, 2, 5), "the axes are in the order (query, sample, key)"),
    ((2, 3, 5), (2, 1, 3, 5), "there is an extra axis of size 1"),
    ((2, 3, 5), (2, 5), "the result lacks an axis for the queries"),
    ((2, 3, 5), (), "this is one number, not one for each sample, query and key"),
    ((2, 3, 5), (2, 15), "queries and keys are joined into one axis of size 15"),
    ((2, 3, 5), (30,), "samples, queries and keys are joined into one axis of size 30"),
]
NOT_SURE = [
    ((2, 3, 3), (2, 3)),  # which of two alike is missing?
    ((1, 3, 5), (3, 5)),  # a size of 1 is like any other of size 1
    ((1, 3, 5), (1, 1, 3, 5)),
    ((2, 3, 5), (2, 2)),  # both axes are called alike
    ((2, 3, 5), (4, 5, 2)),
    ((2, 3, 5), (7, 8)),
    # With one token, (B, 1, d) may have an axis of tokens too many as well as one of size 1.
    ((2, 4, 5), (2, 1, 4, 5), torch.ones(2, 1, 5)),
    ((2, 4, 5), (2, 1, 4, 5), 1),
]


def test_says_how_a_shape_differs_where_it_can_be_read_in_one_way_only():
    def of_shapes(expected, got, given=2):
        return repr(judged(lambda x: torch.rand(got), [torch.rand(expected)], given))

    said = [(words, of_shapes(expected, got)) for expected, got, words in SHAPES]
    assert [(words, text) for words, text in said if text.lower().count(words) != 1] == [], "each thing is said once"
    unsure = [(torch.rand(got), [torch.rand(expected)], *given) for expected, got, *given in NOT_SURE]
    assert [seen(lambda x, wrong=wrong: wrong, *given) for wrong, *given in unsure] == [""] * len(NOT_SURE)

"""What is said of a wrong result that has no name: each sentence where it is true, and not where it would not be."""

import pytest
import torch

from mhalib.checks.exercise import Exercise

pytestmark = pytest.mark.usefixtures("one_thread")

RIGHT = [torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(seed)) + 3 for seed in range(3)]
WEIGHTS = [right.softmax(-1) for right in RIGHT]
MASKS = [right > 3 for right in RIGHT]
WHOLE = [right.round().long() for right in RIGHT]
TILTED = torch.arange(32.0).reshape(2, 4, 4)  # a wrong result on which nothing else is to be seen


def seen(change, right=RIGHT, given=2):
    """Return what is said, besides the example, of results that are changed: all in one way, or each in its own."""
    changes = change if isinstance(change, list) else [change] * len(right)
    ours, theirs = iter(right), iter([f(result.clone()) for f, result in zip(changes, right, strict=True)])
    cases = [(given,)] * len(right)
    exercise = Exercise("-", lambda x: next(ours), ("-",), cases=lambda: cases, axes=("sample", "query", "key"))
    vars(exercise)["edits"] = []
    return " ".join(text for label, text in exercise(lambda x: next(theirs)).parts if label == "")


def put(*index, plus=5.0):
    """Return a change of what stands at an index, by numbers of which none is like the other."""

    def change(x):
        x[index] += plus + torch.arange(x[index].numel()).reshape(x[index].shape) ** 1.5
        return x

    return change


def along(where):
    return lambda x: torch.where(where, x + 5 + TILTED**1.5, x)


def quarter(x):
    return torch.full_like(x, 0.25)


def times(factor):
    return lambda x: factor * x


def plus(number):
    return lambda x: x + number


keep, flip = times(1), torch.fliplr


FIRST, EYE = slice(0, 1), torch.eye(4, dtype=torch.bool)
ABOVE = torch.ones(4, 4, dtype=torch.bool).triu(1)
ALL, REST = slice(None), slice(1, None)

TRUE = [
    (put(0, 0, 0, plus=float("nan")), "Some of it is NaN"),
    (quarter, "In each result all entries are the same, such as 0.25."),
    (flip, "They are the right numbers, in other places."),
    (put(ALL, REST), "Only the first query is right."),
    (put(ALL, ALL, FIRST), "All is right but the first key."),
    (put(ALL, slice(None, -1)), "Only the last query is right."),
    (put(ALL, ALL, slice(-1, None)), "All is right but the last key."),
    (plus(-0.5), "Every number is 0.5 too small."),
    (put(REST), "Only the first sample is right."),
    (along(EYE), "Only the diagonal is wrong."),
    (along(ABOVE), "Only what lies above the diagonal is wrong (key behind query)."),
    (along(ABOVE.T), "Only what lies below the diagonal is wrong (key before query)."),
    (times(-1), "Every number is -1 times the right one."),
    ([times(2), times(3), times(4)], "2 times the right one here; for other inputs it is 3, 4"),
    (plus(0.5), "Every number is 0.5 too large."),
    ([keep, keep, put(0, 0, 0)], "It is right for 2 of 3 inputs of this check"),
    (put(ALL), "Rows should sum to 1; yours do not.", WEIGHTS),
    (lambda x: (x.log() * 2).softmax(-2), "Rows should sum to 1; here the columns do.", WEIGHTS),
    (torch.ones_like, "such as True.", MASKS),
    (lambda x: torch.cat([~x[:, :1], x[:, 1:]], 1), "All is right but the first query.", MASKS),
]
UNTRUE = [
    ([put(0, 0, 0)] * 3, "NaN"),
    ([quarter, quarter, put(0, 0, 0)], "are the same"),
    ([flip, flip, put(0, 0, 0)], "in other places"),
    ([put(ALL, REST), put(ALL, REST), put(ALL)], "Only the first"),
    (put(ALL), "right"),
    ([put(ALL, ALL, FIRST), put(ALL, ALL, FIRST), put(ALL, ALL, slice(0, 2))], "but the first"),
    ([along(EYE), along(EYE), put(0, 0)], "diagonal"),
    ([along(ABOVE), along(ABOVE.T), along(ABOVE)], "diagonal"),
    ([times(2), times(2), put(ALL)], "times"),
    (times(0), "times"),
    ([plus(0.5), plus(0.5), plus(0.75)], "too large"),
    ([put(ALL)] * 3, "It is right for"),
    (put(ALL), "Rows should"),
    (lambda x: (x.log() * 2 + TILTED).softmax(-1), "Rows should", WEIGHTS),
    (lambda x: ~x, "times", MASKS),
    # Where a sentence has one sample, "only the first sample is right" is not true of it.
    ([put(REST), put(ALL)], "Only the first sample", [RIGHT[0], RIGHT[1][:1]]),
]


def test_what_is_true_of_all_inputs_is_said_and_nothing_else():
    said = [(words, seen(change, *right)) for change, words, *right in TRUE]
    assert [(words, text) for words, text in said if words not in text] == []
    said = [(words, seen(change, *right)) for change, words, *right in UNTRUE]
    assert [(words, text) for words, text in said if words in text] == []
    assert [seen(change, WHOLE) for change in (torch.Tensor.double, torch.Tensor.half, lambda x: x + 0j)] == [""] * 3


SHAPES = [
    ((2, 3, 5), (3, 2, 5), "the axes stand in the order (query, sample, key)"),
    ((2, 3, 5), (2, 1, 3, 5), "there is an axis of size 1 too many"),
    ((2, 3, 5), (1, 2, 3, 5, 1), "there are 2 axes of size 1 too many"),
    ((2, 3, 5), (2, 5), "the axis of query is missing"),
    ((2, 3, 5), (), "the axes of sample, query and key are missing"),
    ((2, 3, 5), (2, 15), "query and key are joined into one axis of 15"),
    ((2, 3, 5), (30,), "sample, query and key are joined into one axis of 30"),
    ((2, 3, 5), (2, 4, 5), "4 where 3 is right, at the axis of query"),
]
NOT_SURE = [
    ((2, 3, 3), (2, 3)),  # which of two alike is missing?
    ((1, 3, 5), (3, 5)),  # a size of 1 is like any other of size 1
    ((1, 3, 5), (1, 1, 3, 5)),
    ((1, 1, 5), (1, 5)),
    ((2, 3, 5), (2, 2)),  # both axes are called alike
    ((2, 3, 5), (15, 2, 2)),
    ((2, 3, 5), (4, 5, 2)),
    ((2, 3, 5), (7, 8)),
    # With one token, (B, 1, d) may have an axis of tokens too many as well as one of size 1.
    ((2, 4, 5), (2, 1, 4, 5), torch.ones(2, 1, 5)),
    ((2, 4, 5), (2, 1, 4, 5), 1),
]


def test_says_how_a_shape_differs_where_it_can_be_read_in_one_way_only():
    def of_shapes(expected, got, given=2):
        return seen(lambda x: torch.rand(got), [torch.rand(expected)], given)

    said = [(words, of_shapes(expected, got)) for expected, got, words in SHAPES]
    assert [(words, text) for words, text in said if words not in text] == []
    assert [shapes for shapes in NOT_SURE if of_shapes(*shapes)] == []

"""What is said of a wrong result that has no name: each sentence where it is true, and not where it would not be."""

import pytest
import torch

from mhalib.checks.exercise import Exercise

pytestmark = pytest.mark.usefixtures("one_thread", "as_shipped")

RIGHT = [torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(seed)) + 3 for seed in range(3)]
WEIGHTS = [right.softmax(-1) for right in RIGHT]
MASKS = [right > 3 for right in RIGHT]
TILTED = torch.arange(32.0).reshape(2, 4, 4)  # a wrong result on which nothing else is to be seen


def note_of(change, right=RIGHT, given=2):
    """Return the note on results that are changed: all in one way, or each in its own."""
    changes = change if isinstance(change, list) else [change] * len(right)
    ours, theirs = iter(right), iter([f(result.clone()) for f, result in zip(changes, right, strict=True)])
    cases = [(given,)] * len(right)
    exercise = Exercise("-", lambda x: next(ours), ("-",), cases=lambda: cases, axes=("sample", "query", "key"))
    vars(exercise)["edits"] = []
    return exercise(lambda x: next(theirs))


def seen(change, right=RIGHT):
    """Return what is said besides the example."""
    return " ".join(text for label, text in note_of(change, right).parts if label == "")


def put(*index, plus=5.0):
    """Return a change of what stands at an index, by numbers of which none is like the other."""

    def change(x):
        x[index] += plus + torch.arange(x[index].numel()).reshape(x[index].shape) ** 1.5
        return x

    return change


def keep(x):
    return x


def quarter(x):
    return torch.full_like(x, 0.25)


def flip(x):
    return x.flip(-1)


def along(where):
    return lambda x: torch.where(where, x + 5 + TILTED**1.5, x)


def times(factor):
    return lambda x: factor * x


def plus(number):
    return lambda x: x + number


FIRST, EYE = slice(0, 1), torch.eye(4, dtype=torch.bool)
ABOVE = torch.ones(4, 4, dtype=torch.bool).triu(1)
ALL, REST, MOST = slice(None), slice(1, None), slice(None, -1)

TRUE = [
    (put(0, 0, 0, plus=float("nan")), "Some of it is NaN"),
    (quarter, "In each result all entries are the same, such as 0.25."),
    (flip, "They are the right numbers, in other places."),
    (put(ALL, REST), "Only the first query is right."),
    (put(ALL, MOST), "Only the last query is right."),
    (put(ALL, ALL, FIRST), "All is right but the first key."),
    (put(ALL, ALL, slice(-1, None)), "All is right but the last key."),
    (put(REST), "Only the first sample is right."),
    (along(EYE), "Only the diagonal is wrong."),
    (along(ABOVE), "Only what lies above the diagonal is wrong (key behind query)."),
    (along(ABOVE.T), "Only what lies below the diagonal is wrong (key before query)."),
    (times(2), "Every number is 2 times the right one."),
    (times(-1), "Every number is -1 times the right one."),
    ([times(2), times(3), times(4)], "2 times the right one here; for other inputs it is 3, 4"),
    (plus(0.5), "Every number is 0.5 too large."),
    (plus(-0.5), "Every number is 0.5 too small."),
    ([keep, keep, put(0, 0, 0)], "It is right for 2 of 3 inputs of this check"),
]
UNTRUE = [
    ([put(0, 0, 0)] * 3, "NaN"),
    ([quarter, quarter, put(0, 0, 0)], "are the same"),
    ([flip, flip, put(0, 0, 0)], "in other places"),
    (lambda x: 2 * flip(x), "in other places"),
    ([put(ALL, REST), put(ALL, REST), put(ALL)], "Only the first"),
    (put(ALL), "right"),
    ([put(ALL, MOST), put(ALL, MOST), put(ALL)], "Only the last"),
    ([put(ALL, ALL, FIRST), put(ALL, ALL, FIRST), put(ALL, ALL, slice(0, 2))], "but the first"),
    ([along(EYE), along(EYE), put(0, 0)], "diagonal"),
    ([along(ABOVE), along(ABOVE.T), along(ABOVE)], "diagonal"),
    ([times(2), times(2), put(ALL)], "times"),
    (times(0), "times"),
    ([plus(0.5), plus(0.5), plus(0.75)], "too large"),
    (put(ALL), "too large"),
    ([put(ALL)] * 3, "It is right for"),
]


def test_what_is_true_of_all_inputs_is_said_and_nothing_else():
    assert [(words, seen(change)) for change, words in TRUE if words not in seen(change)] == []
    assert [(words, seen(change)) for change, words in UNTRUE if words in seen(change)] == []


def test_says_that_rows_should_sum_to_one():
    assert "Rows should sum to 1; yours do not." in seen(put(ALL), WEIGHTS)
    assert "Rows should sum to 1; here the columns do." in seen(lambda x: (x.log() * 2).softmax(-2), WEIGHTS)
    assert "Rows should" not in seen(put(ALL), RIGHT)
    assert "Rows should" not in seen(lambda x: (x.log() * 2 + TILTED).softmax(-1), WEIGHTS)


def test_measures_no_masks_in_numbers_and_no_numbers_of_another_kind():
    words = seen(lambda x: ~x, MASKS)
    assert not any(number in words for number in ("times", "large", "sum to", "numbers"))
    assert "such as True." in seen(torch.ones_like, MASKS)
    assert "All is right but the first query." in seen(lambda x: torch.cat([~x[:, :1], x[:, 1:]], 1), MASKS)
    for change in (torch.Tensor.double, torch.Tensor.half, lambda x: x + 0j):
        assert seen(change, [right.round().long() for right in RIGHT]) == ""


@pytest.mark.filterwarnings("ignore")  # torch's own, of nested and quantized tensors
def test_says_nothing_of_what_cannot_be_measured():
    def stops(x):
        raise ValueError

    odd = {
        "meta": lambda x: x.to("meta"),
        "sparse": lambda x: x.to_sparse(),
        "nested": lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "complex": lambda x: x * 1j,
        "a list": lambda x: x.tolist(),
        "empty": lambda x: x[:0],
    }
    assert [(kind, seen(change)) for kind, change in odd.items() if seen(change)] == []
    mixed = {kind: seen([keep, keep, change]) for kind, change in odd.items()}
    assert [kind for kind, words in mixed.items() if not words.startswith("It is right for 2 of 3")] == []


# ---------------------------------------------------------------------------------------------- sizes and shapes


def test_a_size_of_one_is_no_end_of_an_axis():
    """Where a sentence has one sample, "only the first sample is right" is not true of it."""
    assert "Only the first sample is right." in seen([put(REST)] * 2, RIGHT[:2])
    assert "Only the first sample" not in seen([put(REST), put(ALL)], [RIGHT[0], RIGHT[1][:1]])
    assert "sample" not in seen([put(0, 0, 0)] * 2, [right[:1] for right in RIGHT[:2]])


SHAPES = [
    ((2, 3, 5), (3, 2, 5), "the axes stand in the order (query, sample, key)"),
    ((2, 3, 5), (2, 1, 3, 5), "there is an axis of size 1 too many"),
    ((2, 3, 5), (1, 2, 3, 5, 1), "there are 2 axes of size 1 too many"),
    ((2, 3, 5), (2, 5), "the axis of query is missing"),
    ((2, 3, 5), (), "the axes of sample, query and key are missing"),
    ((2, 3, 5), (2, 15), "query and key are joined into one axis of 15"),
    ((2, 3, 5), (30,), "sample, query and key are joined into one axis of 30"),
    ((2, 3, 5), (2, 4, 5), "4 where 3 is right, at the axis of query"),
    ((2, 3, 5), (2, 1, 5), "1 where 3 is right, at the axis of query"),
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
]


def of_shapes(expected, got, given=2):
    note = note_of(lambda x: torch.rand(got), [torch.rand(expected)], given)
    return " ".join(text for label, text in note.parts if label == "")


def test_says_how_a_shape_differs_where_it_can_be_read_in_one_way_only():
    said = [(words, of_shapes(expected, got)) for expected, got, words in SHAPES]
    assert [(words, text) for words, text in said if words not in text] == []
    assert [shapes for shapes in NOT_SURE if of_shapes(*shapes)] == []
    # With one token, (B, 1, d) may have an axis of tokens too many as well as one of size 1.
    assert "an axis of size 1 too many" in of_shapes((2, 4, 5), (2, 1, 4, 5))
    for given in (torch.ones(2, 1, 5), 1):
        assert of_shapes((2, 4, 5), (2, 1, 4, 5), given) == ""

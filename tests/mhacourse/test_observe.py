"""What is seen of an unnamed wrong result: each sentence where it is true, and not where it would not be."""

import pytest
import torch

from mhalib.checks.attempt import Case
from mhalib.checks.compare import shape_in_words
from mhalib.checks.observe import observe
from mhalib.checks.run import Failure, Outcome

AXES = ("sample", "query", "key")
RIGHT = [torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(seed)) + 3 for seed in range(3)]
WEIGHTS = [right.softmax(-1) for right in RIGHT]
MASKS = [right > 3 for right in RIGHT]
TILTED = torch.arange(32.0).reshape(2, 4, 4)  # a wrong result on which nothing else is to be seen


def seen(change, right=RIGHT, axes=AXES, inputs=(2,)):
    """Return what is said of results that are changed: all in one way, or each in its own."""
    changes = change if isinstance(change, list) else [change] * len(right)
    results = [f(ours.clone()) for f, ours in zip(changes, right, strict=True)]
    cases = [Case(inputs, Outcome(o), Outcome(t), axes) for o, t in zip(right, results, strict=True)]
    return " ".join(observe(cases))


def put(*index, plus=5.0):
    """Return a change of what stands at an index, by numbers of which none is like the other."""

    def change(x):
        x[index] += plus + torch.arange(x[index].numel()).reshape(x[index].shape) ** 1.5
        return x

    return change


def keep(x):
    return x


def along(where):
    return lambda x: torch.where(where, x + 5 + TILTED**1.5, x)


FIRST, EYE = slice(0, 1), torch.eye(4, dtype=torch.bool)
ABOVE = torch.ones(4, 4, dtype=torch.bool).triu(1)
ALL, REST, MOST = slice(None), slice(1, None), slice(None, -1)

TRUE = [
    (put(0, 0, 0, plus=float("nan")), "Some of it is NaN"),
    (lambda x: torch.full_like(x, 0.25), "In each result all entries are the same, such as 0.25."),
    (lambda x: x.flip(-1), "They are the right numbers, in other places."),
    (put(ALL, REST), "Only the first query is right."),
    (put(ALL, MOST), "Only the last query is right."),
    (put(ALL, ALL, FIRST), "All is right but the first key."),
    (put(ALL, ALL, slice(-1, None)), "All is right but the last key."),
    (put(REST), "Only the first sample is right."),
    (along(EYE), "Only the diagonal is wrong."),
    (along(ABOVE), "Only what lies above the diagonal is wrong (key behind query)."),
    (along(ABOVE.T), "Only what lies below the diagonal is wrong (key before query)."),
    (lambda x: 2 * x, "Every number is 2 times the right one."),
    (lambda x: -x, "Every number is -1 times the right one."),
    ([lambda x: 2 * x, lambda x: 3 * x, lambda x: 4 * x], "2 times the right one here; for other inputs it is 3, 4"),
    (lambda x: x + 0.5, "Every number is 0.5 too large."),
    (lambda x: x - 0.5, "Every number is 0.5 too small."),
    ([keep, keep, put(0, 0, 0)], "It is right for 2 of 3 inputs of this check"),
]  # fmt: skip

UNTRUE = [
    ([put(0, 0, 0)] * 3, "NaN"),
    ([lambda x: torch.full_like(x, 0.25), lambda x: torch.full_like(x, 0.25), put(0, 0, 0)], "are the same"),
    ([lambda x: x.flip(-1), lambda x: x.flip(-1), put(0, 0, 0)], "in other places"),
    (lambda x: x.flip(-1) * 2, "in other places"),
    ([put(ALL, REST), put(ALL, REST), put(ALL)], "Only the first"),
    (put(ALL), "right"),
    ([put(ALL, MOST), put(ALL, MOST), put(ALL)], "Only the last"),
    ([put(ALL, ALL, FIRST), put(ALL, ALL, FIRST), put(ALL, ALL, slice(0, 2))], "but the first"),
    ([along(EYE), along(EYE), put(0, 0)], "diagonal"),
    ([along(ABOVE), along(ABOVE.T), along(ABOVE)], "diagonal"),
    ([lambda x: 2 * x, lambda x: 2 * x, put(ALL)], "times"),
    (lambda x: x * 0, "times"),
    ([lambda x: x + 0.5, lambda x: x + 0.5, lambda x: x + 0.75], "too large"),
    (put(ALL), "too large"),
    ([put(ALL)] * 3, "It is right for"),
]


@pytest.mark.parametrize("change,words", TRUE)
def test_says_what_is_true(change, words):
    assert words in seen(change)


@pytest.mark.parametrize("change,words", UNTRUE)
def test_does_not_say_what_is_not_true_of_all_inputs(change, words):
    assert words not in seen(change)


def test_says_that_rows_should_sum_to_one():
    assert "Rows should sum to 1; yours do not." in seen(put(ALL), WEIGHTS)
    assert "Rows should sum to 1; here the columns do." in seen(lambda x: (x.log() * 2).softmax(-2), WEIGHTS)
    assert "Rows should" not in seen(put(ALL), RIGHT)
    assert "Rows should" not in seen(lambda x: (x.log() * 2 + TILTED).softmax(-1), WEIGHTS)


def test_says_at_most_two_things():
    everything = Case((2,), Outcome(torch.full((4, 4), 0.25)), Outcome(torch.full((4, 4), 0.5)), AXES[1:])
    assert len(observe([everything])) == 2


def test_measures_no_masks_in_numbers():
    words = seen(lambda x: ~x, MASKS)
    assert "times" not in words and "large" not in words and "sum to" not in words and "numbers" not in words
    assert "such as True." in seen(torch.ones_like, MASKS)
    assert "All is right but the first query." in seen(lambda x: torch.cat([~x[:, :1], x[:, 1:]], 1), MASKS)


@pytest.mark.parametrize("change", [torch.Tensor.double, torch.Tensor.half, lambda x: x + 0j])
def test_says_nothing_of_numbers_where_only_the_dtype_is_wrong(change):
    right = [right.round().long() for right in RIGHT]
    assert seen(change, right) == ""


def odd(kind):
    return {
        "meta": lambda x: x.to("meta"),
        "sparse": lambda x: x.to_sparse(),
        "nested": lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "complex": lambda x: x * 1j,
        "None": lambda x: None,
        "a list": lambda x: x.tolist(),
        "empty": lambda x: x[:0],
    }[kind]


@pytest.mark.filterwarnings("ignore")  # torch's own, of nested and quantized tensors
@pytest.mark.parametrize("kind", ["meta", "sparse", "nested", "quantized", "complex", "None", "a list", "empty"])
def test_says_nothing_of_what_cannot_be_measured(kind):
    assert seen(odd(kind)) == "" and seen([keep, keep, odd(kind)]).startswith("It is right for 2 of 3")


def test_says_nothing_of_numbers_where_some_results_are_no_numbers():
    broken = Case((2,), Outcome(RIGHT[1]), Outcome(failure=Failure("raised", "ValueError: no", "")), AXES)
    assert observe([Case((2,), Outcome(RIGHT[0]), Outcome(2 * RIGHT[0]), AXES), broken]) == []


# ------------------------------------------------------------------------------------------- an axis of size 1


def test_a_size_of_one_is_no_end_of_an_axis():
    """Where a sentence has one sample, "only the first sample is right" is not true of it."""
    right = [RIGHT[0], RIGHT[1][:1]]
    assert "Only the first sample is right." in seen([put(REST)] * 2, RIGHT[:2])
    assert "Only the first sample" not in seen([put(REST), put(ALL)], right)
    assert "sample" not in seen([put(0, 0, 0)] * 2, [r[:1] for r in RIGHT[:2]])
    assert "Only the first query is right." in seen([put(ALL, REST)] * 2, right)


def test_an_axis_of_size_one_says_nothing_where_an_input_has_that_size():
    """With one token, (B, 1, d) may have an axis of tokens too many as well as one of size 1."""
    ours, theirs = torch.ones(2, 5), torch.ones(2, 1, 5)
    axes = ("sample", "feature")
    assert (
        "an axis of size 1 too many" in observe([Case((torch.ones(2, 3, 5),), Outcome(ours), Outcome(theirs), axes)])[0]
    )
    for given in (torch.ones(2, 1, 5), 1):
        assert observe([Case((given,), Outcome(ours), Outcome(theirs), axes)]) == []


IN_WORDS = [
    ((2, 3, 5), (3, 2, 5), "the axes stand in the order (query, sample, key)"),
    ((2, 3, 5), (2, 1, 3, 5), "there is an axis of size 1 too many"),
    ((2, 3, 5), (1, 2, 3, 5, 1), "there are 2 axes of size 1 too many"),
    ((2, 3, 5), (2, 5), "the axis of query is missing"),
    ((2, 3, 5), (5,), "the axes of sample and query are missing"),
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
    ((1, 3, 5), (3, 1, 5)),
    ((1, 1, 5), (1, 5)),
    ((2, 3, 5), (2, 2)),  # both axes are called alike
    ((2, 3, 5), (2, 3, 3)),
    ((2, 3, 5), (15, 2, 2)),
    ((2, 3, 5), (4, 5, 2)),
    ((2, 3, 5), (7, 8)),
]


@pytest.mark.parametrize("expected,got,words", IN_WORDS)
def test_says_how_a_shape_differs(expected, got, words):
    assert shape_in_words(expected, got, AXES) == words


@pytest.mark.parametrize("expected,got", NOT_SURE)
def test_says_nothing_of_a_shape_that_can_be_read_in_two_ways(expected, got):
    assert shape_in_words(expected, got, AXES) == ""


def test_says_sizes_where_axes_have_no_names():
    assert shape_in_words((2, 3, 5), (2, 5), ()) == "the axis of size 3 is missing"

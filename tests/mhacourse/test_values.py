"""The value model: what it says of wrong numbers is true, and of right ones it says nothing."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhalib.checks import check
from mhalib.checks.compare import difference
from mhalib.checks.exercise import Choice
from mhalib.checks.values import explain

SIZES = {"B": 4, "T": 128, "d_model": 768, "num_heads": 12}
SHAPES = ((4, 128, 2304), (4, 128, 768), (4, 12, 128, 64))


def said(expected, got, sizes=SIZES):
    where, cause = explain(expected, got, sizes)
    return " ".join(where + cause)


SAYS = [
    # one number
    (1216, -1216, "The size is right, the sign is not."),
    (1216, 1217, "One too many."),
    (1216, 1215, "One too few."),
    (1200, 1200 * 12, "12 times too large: num_heads is in it once too often."),
    (1200, 100, "12 times too small: num_heads is missing from it."),
    (1001, 1001 + 768, "Too large by d_model (768)."),
    (1001, 1001 - 768, "Too small by d_model (768)."),
    (1001, 768, "That is d_model."),
    (1001, 768 * 12, "That is d_model · num_heads."),
    (1001, 1001**2, "That is the square of what is asked for."),
    (2.5, math.sqrt(2.5), "That is the root of what is asked for."),
    (1.3863, 2.0, "that is in bits"),
    (2.5, 2.5 * math.log(2), "a natural logarithm where bits are asked for"),
    (0.3, 30.0, "In percent"),
    (201_326_592, 201.326592, "In another unit, millions"),
    (50_331_648, 48, "In another unit, 1024²"),
    (18432, 18432 * 12 * 768, "d_model and num_heads are in it once too often."),
    (2.5, 2.52, "Near."),
    (1001, 8008, "Eight times too large."),
    (1001, float("nan"), "no number that one can reckon with"),
    (1001, float("inf"), "no number that one can reckon with"),
    (1001, 10**50, "more than 40 digits"),
    (1001, [1001], "The number is right; give it alone"),
    (1001, (1, 2, 3), "One number is asked for; you gave 3."),
    # numbers in a row
    ((1216, 1280), (1280, 1216), "Numbers 1 and 2 are exchanged."),
    ((10, 20, 30), (30, 20, 10), "Numbers 1 and 3 are exchanged."),
    ((10, 20, 30, 40), (40, 30, 20, 10), "from the last to the first"),
    ((10, 20, 30), (20, 30, 10), "The right numbers, in another order."),
    ((10, 20, 30), (10, 30), "3 numbers are asked for; you gave 2. Number 2 is missing; the others are right."),
    ((10, 20, 30), (10, 20, 25, 30), "Your number 3 is one too many; the others are right."),
    ((10, 20, 30), (10, 600), "Your number 2 is the product of two that are asked for apart."),
    ((10, 20, 30), (30, 30), "Your number 1 is the sum of two that are asked for apart."),
    ((10, 20, 30), 60, "3 numbers are asked for; you gave 1. Yours is the sum of them."),
    ((10,), (11, 12), "1 number is asked for; you gave 2."),
    ((1001, 2400), (1001, 2400 * 12), "Number 1 is right, number 2 not. Number 2: 12 times too large: num_heads"),
    ((1001, 2003, 3005), (1001, 2004, 3006), "Each of the wrong ones: one too many."),
    ((1001, 2003), (2002, 4006), "All of them: two times too large."),
    ((1001, 2003), ((1001, 2003),), "write them in one row, without inner brackets"),
    ((1001, 2003, 3005), (2003, 3, 3005), "Number 1 is what belongs in place 2."),
    ((1001, 2003), (1001 + 4, 2003), "Number 1: too large by B (4)."),
    # shapes
    (SHAPES, (*SHAPES[:2], (4, 128, 12, 64)), "Shapes 1 and 2 are right. Shape 3: numbers 2 and 3 are exchanged."),
    (SHAPES, (*SHAPES[:2], (4, 12, 128)), "Shape 3: 4 numbers are asked for; you gave 3."),
    (SHAPES, SHAPES[1], "That is the second of 3 shapes"),
    (SHAPES, SHAPES[:2], "3 shapes are asked for; you gave 2."),
    (SHAPES, [size for shape in SHAPES for size in shape], "put them into 3 shapes, each in brackets of its own"),
    (SHAPES, (SHAPES[1], SHAPES[0], SHAPES[2]), "The right shapes, in another order."),
    (SHAPES, [SHAPES], "The numbers are right, but in other brackets than asked."),
    (SHAPES, (4, 5, 6), "Asked are 3 shapes, each in brackets of its own; you gave 3 numbers in a row."),
]


@pytest.mark.parametrize("expected,got,words", SAYS)
def test_says_what_a_number_is(expected, got, words):
    assert words in said(expected, got)


TABLE = [[2, 3], [12, 13], [22, 23]]
SAYS_OF_A_TABLE = [
    ([[2, 12, 22], [3, 13, 23]], "The right numbers, with rows and columns exchanged."),
    (torch.tensor(TABLE) + 1, "Every number is 1 too large: is something counted from 1?"),
    (torch.tensor(TABLE) - 10, "Every number is 10 too small."),
    ([[2, 3, 4], [12, 13, 14], [22, 23, 24]], "Each row holds 2 numbers; yours 3."),
    ([[12, 13], [2, 3], [22, 23]], "Row 3 is right. The right rows, in another order."),
    ([[2, 3], [12, 13]], "3 rows are asked for; you gave 2."),
    ([2, 3, 12, 13, 22, 23], "put them into 3 rows"),
]


@pytest.mark.parametrize("got,words", SAYS_OF_A_TABLE)
def test_says_what_a_table_is(got, words):
    assert words in said(TABLE, got, {})


def test_asks_for_the_count_only_where_all_are_off_by_one():
    assert "counted" not in said(TABLE, torch.tensor(TABLE) + 10, {})


def test_names_both_of_two_sizes_that_are_alike():
    assert "T or head_dim is in it once too often" in said(640, 640 * 64, {"T": 64, "head_dim": 64})


def test_a_name_keeps_its_capital_behind_a_colon():
    assert "by B (4)" in said((1001, 7), (1005, 7)) and " b " not in said((1001, 7), (1005, 7))


@pytest.mark.parametrize(
    "got", ["12", None, True, {1, 2}, object(), [], [[]], [None, 1], (float("nan"), 2), ["a", "b"]]
)
def test_says_nothing_of_what_holds_no_numbers(got):
    for expected in (7, (7, 8), SHAPES):
        assert explain(expected, got, SIZES) == ([], [])


def test_reads_numbers_however_they_are_held():
    for got in [np.array([20, 10]), torch.tensor([20, 10]), {"a": 20, "b": 10}, np.int64(20)]:
        assert said((10, 20), got)
    assert "One too many" in said(1000, np.int64(1001))


def test_survives_whatever_is_given():
    deep = []
    deep.append(deep)
    for got in [
        deep,
        10**5000,
        [10**5000] * 2,
        torch.ones(2, device="meta"),
        torch.eye(2).to_sparse(),
        1e308,
        -1e308,
        0,
    ]:
        for expected in (7, 2.5, (7, 8), SHAPES, TABLE):
            for sentence in sum(explain(expected, got, SIZES), []):
                assert sentence.endswith((".", "?"))


def test_takes_no_size_for_a_factor_that_does_not_divide_the_number():
    assert "num_heads" not in said(1001, 1001 * 12) and "num_heads" not in said(1001.5, 1001.5 * 12)


# ------------------------------------------------------------------------------------- no false sentences

VALUES = [exercise for exercise in check if exercise.cases is None and not isinstance(exercise, Choice)]


@pytest.mark.parametrize("exercise", VALUES, ids=[exercise.name for exercise in VALUES])
def test_says_nothing_of_right_values(exercise):
    assert explain(exercise.answer, exercise.answer, exercise.sizes) == ([], [])


whole, fraction = st.integers(100, 10**6), st.floats(0.01, 1e4)
size = st.integers(2, 1000)


@given(st.one_of(whole, fraction))
def test_says_nothing_of_what_passes(x):
    got = x if isinstance(x, int) else x * 1.004
    assert difference(x, got) is None and explain(x, got, SIZES) == ([], [])
    assert explain((x, 7), (got, 7), SIZES) == ([], [])


KNOWN = {  # a change of x by a size a, and words of which those that come first must be true of it
    "too often": lambda x, a: x * a,
    "missing": lambda x, a: x / a,
    "Too large by": lambda x, a: x + a,
    "Too small by": lambda x, a: x - a,
    "That is": lambda x, a: a,
    "sign": lambda x, a: -x,
    "One too many": lambda x, a: x + 1,
    "One too few": lambda x, a: x - 1,
}


def is_true(sentence, x, got, a):
    """Reckon again, in another way than the model, whether a sentence about one number holds."""
    near = lambda value: abs(value - got) <= 3e-3 * max(abs(value), abs(got))  # noqa: E731
    facts = {
        "times too large": got > x > 0 and any(near(x * k) for k in (a, *UNITS)),
        "times too small": 0 < got < x and any(near(x / k) for k in (a, *UNITS)),
        "Too large by": near(x + a),
        "Too small by": near(x - a),
        "That is the square of what": near(x**2),
        "That is the root of what": near(math.sqrt(x)),
        "That is the square of size": near(a**2),
        "That is the root of size": near(math.sqrt(a)),
        "That is size": near(a),
        "That is 1 divided": near(1 / x),
        "The size is right": near(-x),
        "One too many": near(x + 1),
        "One too few": near(x - 1),
        "Near": abs(got - x) <= 0.021 * x,
        "In another unit": any(near(x * k) or near(x / k) for k in (1000, 1e6, 1e9, 1024, 2**20, 2**30, *LOGS)),
        "In percent": near(100 * x),
        "That is the logarithm of": near(math.log(x)),
        "That is the logarithm to": near(math.log2(x)),
        "That is e to": x < 50 and near(math.exp(x)),
        "That is 2 to": x < 50 and near(2**x),
    }
    (fact,) = [fact for words, fact in facts.items() if words in sentence]
    return fact


UNITS = (2, 3, 4, 6, 8, 16, 1000, 1024, 1e6, 1e9, 2**20, 2**30)
LOGS = (math.log(2), math.log(10))


def in_digits(sentence):
    numbers = {"Two": 2, "Three": 3, "Four": 4, "Six": 6, "Eight": 8, "Sixteen": 16}
    first = sentence.split()[0]
    return sentence.replace(first, f"{numbers[first]}", 1) if first in numbers else sentence


@pytest.mark.parametrize("words", KNOWN)
@given(x=st.one_of(whole, fraction), a=size)
def test_what_it_says_of_a_known_change_is_true(words, x, a):
    if words in ("too often", "missing") and isinstance(x, int):
        x *= a  # only a size that divides it is a factor of it
    got = KNOWN[words](x, a)
    if difference(x, got) is None:
        return
    where, cause = explain(x, got, {"size": a})
    assert where == [] and len(cause) <= 1
    assert all(is_true(in_digits(sentence), x, got, a) for sentence in cause), cause
    if isinstance(x, int) and got != x:
        assert cause, "the change is one that it knows"


@given(st.lists(st.integers(100, 10**6), min_size=2, max_size=5, unique=True), st.data())
def test_numbers_at_other_places_are_found(row, data):
    got = data.draw(st.permutations(row))
    moved = [i + 1 for i, (one, other) in enumerate(zip(row, got, strict=True)) if one != other]
    text = said(row, got)
    if not moved:
        assert text == ""
    elif len(moved) == 2:
        assert text == f"Numbers {moved[0]} and {moved[1]} are exchanged."
    else:
        assert text in ("The right numbers, in another order.", "The right numbers, from the last to the first.")


@given(st.lists(st.integers(100, 10**6), min_size=2, max_size=5, unique=True), st.integers(0, 4))
def test_a_number_that_is_missing_is_named(row, i):
    i %= len(row)
    text = said(row, row[:i] + row[i + 1 :])
    assert f"Number {i + 1} is missing; the others are right." in text

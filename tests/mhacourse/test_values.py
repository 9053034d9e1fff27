"""What is said of wrong numbers is true: exchanged, missing, too large by a size; right ones pass."""

import math

import torch

from mhacourse import check
from mhacourse.exercise import Exercise

SIZES = {"B": 4, "T": 128, "d_model": 768, "num_heads": 12}
SHAPES = ((4, 128, 2304), (4, 128, 768), (4, 12, 128, 64))
TABLE = ((2, 3), (12, 13), (22, 23))


def said_of(expected, got, sizes=SIZES):
    """Return what is said of a wrong value besides the value itself."""
    note = Exercise("How many?", expected, ("-",), sizes=sizes)(got)
    assert note.mood == "wrong" and len(repr(note)) < 2000
    known = any(label == "Your answer:" for label, _ in note.parts)
    return " ".join(text for label, text in note.parts if known and label == "")


SAYS = [
    # one number
    (1216, -1216, "The size is right, the sign is not."),
    (1200, 1200 * 12, "12 times too large: num_heads is in it once too often."),
    (1200, 100, "12 times too small: as if num_heads were missing, or divided off."),
    (1001, 768, "That is d_model."),
    (1001, 8008, "Eight times too large."),
    (2.5, 1.25, "Two times too small."),
    (1001, float("nan"), "no number that one can reckon with"),
    (1001, (1, 2, 3), "One number is asked for, without brackets; you gave 3."),
    # numbers in a row
    ((1216, 1280), torch.tensor([1280, 1216]), "The first and second numbers are exchanged."),
    ((10, 20, 30), (20, 30, 10), "The right numbers, in another order."),
    (
        (10, 20, 30),
        (10, 30),
        "3 numbers are asked for; you gave 2. The second number is missing; the others are right.",
    ),
    (
        (1001, 2400),
        (1001, 2400 * 12),
        "The first number is right, the second number not. The second number: 12 times too large",
    ),
    ((1001, 2003), (2002, 4006), "All of them: Two times too large."),
    ((1001, 2003), ((1001, 2003),), "write them in one row, without inner brackets"),
    # a guess speaks only where it explains all
    ((1001, 2003, 3005), (2002, 3, 3005), "The third number is right, the first and second numbers not."),
    # shapes
    (
        SHAPES,
        (*SHAPES[:2], (4, 128, 12, 64)),
        "The first and second shapes are right. The third shape: The second and third numbers are",
    ),
    (SHAPES, (*SHAPES[:2], (4, 12, 128)), "The third shape: 4 numbers are asked for; you gave 3."),
    (SHAPES, SHAPES[:2], "3 shapes are asked for; you gave 2."),
    # a table
    (TABLE, [[2, 3, 4], [12, 13, 14], [22, 23, 24]], "The second row: 2 numbers are asked for; you gave 3.", {}),
    (640, 640 * 64, "T or head_dim is in it once", {"T": 64, "head_dim": 64}),  # both, where two are alike
]


def test_says_what_wrong_numbers_are_and_nothing_of_what_is_near_them():
    said = [(got, words, said_of(expected, got, *sizes)) for expected, got, words, *sizes in SAYS]
    assert [one for one in said if one[1] not in one[2]] == []
    numbers = [row for row in SAYS if isinstance(row[1], (int, float))]
    beside = [(row, said_of(row[0], 1.01 * row[1], *row[3:])) for row in numbers]
    assert [(row, text) for row, text in beside if row[2] in text and math.isfinite(row[1])] == []
    # Only a size that divides the number is a factor of it.
    assert "num_heads" not in said_of(1001, 1001 * 12) + said_of(1001.5, 1001.5 * 12)
    assert repr(check.spread(7.5)).splitlines()[1] == "  7.5 is not right."
    text = repr(check.bert_shapes(((4, 128, 7), (4, 128, 768), (4, 12, 128, 64))))
    assert (
        "The first shape: The first and second numbers are right, the third number not." in text and "2304" not in text
    )
    assert Exercise("Two.", (2.5, 7), ("-",))((2.51, 7)).passed, "three digits are enough"


def test_a_guess_that_explains_only_a_part_is_not_made():
    assert "d_model" not in said_of((1001, 2003, 3005), (768, 3, 3005))


def test_says_nothing_of_what_holds_no_numbers_and_survives_whatever_is_given():
    deep = []
    deep.append(deep)
    none = ["12", True, {1, 2}, object(), [], [[]], [None, 1], (float("nan"), 2), ["a", "b"], deep]
    odd = [10**5000, [10**5000] * 2, torch.ones(2, device="meta"), torch.eye(2).to_sparse(), 1e308, -1e308, 0]
    for expected in (7, 2.5, (7, 8), SHAPES, TABLE):
        assert [got for got in none if "once" in said_of(expected, got)] == []
        for got in odd:
            said_of(expected, got)

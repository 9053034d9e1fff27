"""No small mistake passes a check, and the tool that says so finds a hole where there is one and none elsewhere."""

import json

import pytest
import torch

from mhalib.checks import check
from mhalib.checks.exercise import Exercise, Wrong
from mhalib.checks.inputs import draw
from mhalib.checks.run import limits
from tools.checks import holes
from tools.checks.holes import counted, main, one_edit, search, unreviewed, without_a_why
from tools.checks.reviewed import REVIEWED
from tools.checks.variations import TRIES, variations

FUNCTIONS = {exercise.name: exercise for exercise in check if exercise.cases}
FIXED = {"keeps_tokens_apart", "future_pairs", "count_heads", "value_path"}  # inputs are functions and what is theirs
SECONDS = 60.0  # in which one test comes to an end even on a busy machine


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_small_mistake_passes(name, as_shipped):
    found = search(FUNCTIONS[name])
    assert [(hole.edit.says, hole.shown_by.inputs) for hole in unreviewed(FUNCTIONS[name], found)] == []
    assert {hole.edit.says for hole in found.holes} == set(REVIEWED.get(name, {})), "what is reviewed must be found"
    assert found.equal, "some edits always do the same; where none does, they were not run"
    assert found.tried >= TRIES / 2 or name in FIXED and found.tried == 0


def test_what_is_reviewed_is_an_exercise_with_cases():
    assert set(REVIEWED) <= set(FUNCTIONS)


# ------------------------------------------------------------------------------------------ a made-up exercise


def lengths(x):
    return x.abs().sum(-1)


def lengths_of_positive(x):
    return x.sum(-1)


def made_up(cases, *plain, **others):
    exercise = Exercise("Add up.", lengths, ("-",), cases=lambda: cases, axes=("row",), plain=plain, **others)
    exercise.name, exercise.lesson = "lengths", "99"
    return exercise


POSITIVE = [(torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]]),), (draw(0, 4, 5).abs(),)]
SIGNED = [*POSITIVE, (draw(1, 3, 6),)]
WITHOUT_ABS, TWICE = "without abs()", "with abs twice"


def says(edits):
    return {edit.says for edit in edits}


def test_a_hole_is_found_and_shown_by_the_smallest_variation_that_does():
    found = search(made_up(POSITIVE))
    hole = next(hole for hole in found.holes if hole.edit.says == WITHOUT_ABS)
    (x,) = hole.shown_by.inputs
    assert x.shape == (2, 3) and (x < 0).any()
    assert torch.equal(hole.shown_by.right.value, x.abs().sum(-1))
    assert WITHOUT_ABS not in says(found.equal)


def test_more_variations_of_the_same_exercise_find_the_same():
    exercise = made_up(POSITIVE)
    few, many, again = (search(exercise, tries) for tries in (5, TRIES, 5))
    assert says(hole.edit for hole in few.holes) == says(hole.edit for hole in again.holes) and few.tried == again.tried
    assert says(hole.edit for hole in many.holes) == says(hole.edit for hole in search(made_up(POSITIVE)).holes)


def test_a_case_mends_it():
    found = search(made_up(SIGNED))
    assert found.holes == [] and WITHOUT_ABS not in says(found.equal)


def test_what_is_the_same_everywhere_is_no_hole():
    for cases in (POSITIVE, SIGNED):
        found = search(made_up(cases))
        assert TWICE in says(found.equal) and TWICE not in says(hole.edit for hole in found.holes)


def test_where_right_answers_disagree_nothing_is_tried():
    exercise = made_up(POSITIVE, lengths, lengths_of_positive)
    found = search(exercise)
    assert 0 < found.tried < TRIES  # those without a negative number are legal
    assert found.holes == [] and WITHOUT_ABS in says(found.equal)


def test_where_a_right_answer_stops_or_makes_no_number_nothing_is_tried():
    def no_root(x):
        return x.log().exp().sum(-1)  # NaN for what is negative

    def stops(x):
        if (x < 0).any():
            raise ValueError("a length is never negative")
        return x.sum(-1)

    for answer in (no_root, stops):
        exercise = Exercise("Add up.", answer, ("-",), cases=lambda: POSITIVE, axes=("row",), plain=(lengths,))
        exercise.name = "lengths"
        with limits(SECONDS):
            assert all((v.inputs[0] >= 0).all() for v in variations(exercise))


def test_rounding_is_no_hole():
    far = [(1e6 * draw(0, 2, 300),)]
    exercise = Exercise("Subtract.", differences, ("-",), cases=lambda: far, axes=("row",), plain=(differences,))
    exercise.name = "differences"
    found = search(exercise)
    assert found.tried and "with sum before mul, not behind it" not in says(hole.edit for hole in found.holes)


def differences(x):
    return x.mul(3).sum(-1)


def test_an_edit_that_changes_its_input_is_no_hole():
    exercise = made_up(POSITIVE)
    edit = exercise.edits[0]
    edit.make = lambda: lambda x: x.abs_().sum(-1) + 0 * x.mul_(2).sum(-1)
    assert edit not in [*search(exercise).equal, *(hole.edit for hole in search(exercise).holes)]


# ------------------------------------------------------------------------------------------ what a variation keeps


def with_sizes(*cases):
    """Return the variations of an exercise whose right answer takes everything."""
    n = len(cases[0])
    answer = {1: lambda a: 1.0, 2: lambda a, b: 1.0}[n]
    exercise = Exercise("Take it.", answer, ("-",), cases=lambda: list(cases))
    exercise.name = "anything"
    with limits(SECONDS):
        return [v.inputs for v in variations(exercise)]


def test_a_map_stays_a_map_with_its_zeros():
    causal = draw(0, 2, 4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf).softmax(-1)
    drawn = [x for (x,) in with_sizes((causal,))]
    assert all(torch.equal(x == 0, causal == 0) for x in drawn)
    assert all(torch.allclose(x.sum(-1), torch.ones(2, 4)) for x in drawn)
    tops = [float(x[:, 1:].amax(-1).mean()) for x in drawn]
    assert min(tops) < 0.6 and max(tops) > 0.9  # flat and sharp ones


def test_other_numbers_become_larger_and_negative():
    case = draw(0, 3, 4).abs()
    drawn = [x for (x,) in with_sizes((case,))]
    assert any((x < 0).all() for x in drawn) and any(x.abs().max() > 5 * case.max() for x in drawn)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_keeps_what_all_have_in_common(causal, empty):
    mask = torch.ones(5, 5).tril().bool() if causal else torch.ones(5, 5).bool()
    if empty:
        mask[2] = False
    drawn = [x for (x,) in with_sizes((mask,))]
    assert len({str(x) for x in drawn}) > 5
    assert all(torch.equal(x, x.tril()) for x in drawn) == causal
    assert any(not x.any(-1).all() for x in drawn) == empty


def test_integers_stay_in_their_range():
    for tokens, size in with_sizes((torch.tensor([2, 5, 3]), 7)):
        assert tokens.dtype == torch.int64 and 2 <= tokens.min() and tokens.max() <= 5 and size == 7
    pairs = with_sizes((2, 5), (4, 9))
    assert {a for a, _ in pairs} == {2, 3, 4} and {b for _, b in pairs} == set(range(5, 10))


def test_functions_are_kept():
    assert with_sizes((len,), (max,)) == []
    assert {f for f, _ in with_sizes((len, 2.0), (max, 3.0))} == {len, max}


# ------------------------------------------------------------------------------------------ what else is said


MEAN = Wrong(lambda x: x.abs().mean(-1), "a mean.", "Add up.")
ODD = Wrong(lambda x: x.abs().sum(-1).cos().cumsum(0), "odd.", "Nobody does this.")


def test_an_entry_that_one_edit_does_as_well_is_named():
    told = one_edit(made_up(SIGNED, wrong={"A mean": MEAN, "Odd": ODD}))
    assert list(told) == ["A mean"] and "mean" in told["A mean"].says


def test_likely_edits_are_those_that_no_entry_tells():
    bare, known = made_up(SIGNED), made_up(SIGNED, wrong={"No abs": Wrong(lengths_of_positive, "no abs.", "Abs.")})
    assert WITHOUT_ABS in says(without_a_why(bare)) and WITHOUT_ABS not in says(without_a_why(known))
    assert all(edit.cost <= 1.1 for edit in without_a_why(bare))


def test_edits_are_counted_in_answers():
    sources = [
        "def lengths(x):\n    return x.sum(dim=-1)",
        "def lengths(x):\n    return torch.einsum('ij->i', x)",
        "def lengths(x):\n    return x.abs().sum(0)",
        "def lengths(x):\n    return x.abs().sum(-1)",
        "def lengths(x: return",
    ]
    ((most, number), (other, one)) = counted(made_up(SIGNED), sources)
    assert (most, number, one) == (WITHOUT_ABS, 2, 1) and "over dim=" in other


@pytest.fixture
def house_of_one(monkeypatch):
    def put(exercise):
        monkeypatch.setattr(holes, "check", [exercise])

    return put


def test_the_command_prints_the_hole_and_fails(house_of_one, capsys, monkeypatch):
    house_of_one(made_up(POSITIVE))
    assert main(["lengths", "--equal"]) == 1
    said = capsys.readouterr().out
    assert f"    {WITHOUT_ABS}\n      on x=[[" in said and f"    {TWICE}\n" in said
    every = {hole.edit.says: "because" for hole in search(made_up(POSITIVE)).holes}
    monkeypatch.setitem(REVIEWED, "lengths", every)
    assert main([]) == 0
    assert "holes: 0, and " in capsys.readouterr().out


def test_the_command_reads_answers_and_refuses_an_unknown_name(house_of_one, capsys, tmp_path):
    house_of_one(made_up(SIGNED))
    rows = [{"exercise": "lengths", "source": "def lengths(x):\n    return x.sum(-1)"}, {"exercise": "a", "source": ""}]
    path = tmp_path / "some.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    assert main(["--answers", str(path)]) == 0
    assert f"of 1 answers:\n    1 {WITHOUT_ABS}\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["length"])
    assert "choose from lengths" in capsys.readouterr().err

"""The cases of lessons 07 to 12: what they tell apart, how the first one looks, and the plain answers are right."""

import functools
import inspect

import pytest
import torch
from torch import Tensor

from mhalib.checks import check
from mhalib.checks.compare import MAX_NUMBERS, difference, show_rows
from mhalib.checks.exercise import Choice

EXERCISES = [exercise for exercise in check if "07" <= exercise.lesson <= "12" and not isinstance(exercise, Choice)]
FUNCTIONS = [exercise for exercise in EXERCISES if exercise.cases]
VALUES = [exercise for exercise in EXERCISES if not exercise.cases]
PLAIN = [(exercise, plain) for exercise in EXERCISES for plain in exercise.plain]


def each(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=[exercise.name for exercise in exercises])


@pytest.mark.parametrize(
    "exercise,plain", PLAIN, ids=[f"{exercise.name}-{plain.__name__}" for exercise, plain in PLAIN]
)
def test_the_plain_answers_are_right(exercise, plain):
    note = exercise(plain if exercise.cases else plain())
    assert note.passed, note


@each(EXERCISES)
def test_the_error_model_has_something_to_edit(exercise):
    assert exercise.plain
    for plain in exercise.plain:
        assert list(inspect.signature(plain).parameters) == (exercise.parameters if exercise.cases else [])


@each(VALUES)
def test_the_sizes_are_those_of_the_task(exercise):
    told = exercise.task.replace(",", "")
    derived = {"head_dim"} if "head_dim 64" not in told else set()  # d_model // num_heads
    assert exercise.sizes and all(str(size) in told for name, size in exercise.sizes.items() if name not in derived)
    if derived:
        assert exercise.sizes["head_dim"] * exercise.sizes["num_heads"] == exercise.sizes["d_model"]


# --------------------------------------------------------------------------------------------- what is shown first

# Three blocks of rows, or two weights and a matrix for each head, or four weights: no smaller one shows anything.
LONGER = {"own_matrices": 19, "cut_heads": 19, "fold_keys": 13, "mean_head": 13}


def numbers(value):
    if isinstance(value, (tuple, list)):
        return [number for part in value for number in numbers(part)]
    return value.flatten().tolist() if isinstance(value, Tensor) else [value]


@each(FUNCTIONS)
def test_the_first_case_is_short_enough_to_be_read(exercise):
    case, right = exercise.inputs[0], exercise.right[0].value
    assert len(numbers(case) + numbers(right)) <= MAX_NUMBERS
    lines = [show_rows("", value) for value in (*case, right, right)]  # what was expected, and what came
    assert sum(text.count("\n") + 1 for text in lines) <= LONGER.get(exercise.name, 12)


@each(FUNCTIONS)
def test_the_first_case_has_tidy_numbers(exercise):
    assert all(abs(10 * number - round(10 * number)) < 1e-5 for number in numbers(exercise.inputs[0]))


@each(FUNCTIONS)
def test_most_mistakes_show_in_the_first_case(exercise):
    answers = [exercise.made(a) for wrong in exercise.wrong.values() for a in (wrong.answer, *wrong.also)]
    outcomes = [exercise.outcomes(answer)[0][0] for answer in answers]
    right = exercise.right[0].value
    seen = [did.failure or did.changed or difference(right, did.value) is not None for did in outcomes]
    assert sum(map(bool, seen)) >= 0.7 * len(answers)


# ------------------------------------------------------------------------------------------- what cases tell apart


def wide_reshape(W_q, W_k, num_heads):
    d_model = W_q.shape[0]
    q, k = (W.reshape(d_model, num_heads, d_model).transpose(0, 1) for W in (W_q, W_k))
    return q @ k.mT


def wide_slices(W_q, W_k, num_heads):
    d_model = W_q.shape[0]
    blocks = [slice(head * d_model, (head + 1) * d_model) for head in range(num_heads)]
    return torch.stack([W_q[:, block] @ W_k[:, block].T for block in blocks])


def looked_up(maps, tokens, last=0, behind=lambda key, query: True):
    """Return the score of induction heads, without the `last` keys before the query and some of those behind."""
    rows = []
    for query in range(len(tokens)):
        found = [key for key in range(query - last) if tokens[key] == tokens[query]]
        if found:
            weights = [maps[:, query, key + 1] for key in found if behind(key + 1, query)]
            rows.append(sum(weights, torch.zeros(len(maps))))
    return torch.stack(rows).mean(0)


def without_zeros(maps):
    weights = maps.diagonal(-1, 1, 2)
    return weights.sum(-1) / (weights > 0).sum(-1).clamp(min=1)


def by_threshold(maps, alignment):
    hit = ((maps > 0.5) & alignment).any(-1)
    return hit[:, alignment.any(-1)].float().mean(-1)


def first_rows(W_q, W_k, W_v, W_o, keep):
    n = int(keep.sum()) * (len(W_q) // len(keep))
    return W_q[:n], W_k[:n], W_v[:n], W_o[:, :n]


def groups_of_groups(weight, num_heads, num_kv_heads):
    heads = weight.unflatten(0, (num_heads, -1))
    return torch.cat([heads[i * num_kv_heads : (i + 1) * num_kv_heads].mean(0) for i in range(num_kv_heads)])


NOT_RIGHT = {
    "fold_keys, wide heads only": wide_reshape,
    "fold_keys, slices of wide heads": wide_slices,
    "induction, all but the token just before": lambda maps, tokens: looked_up(maps, tokens, last=1),
    "induction, a key before the query": lambda *x: looked_up(*x, behind=lambda key, query: key < query),
    "induction, no neighbours": lambda *x: looked_up(*x, behind=lambda key, query: key != query),
    "previous_token, what is not 0": without_zeros,
    "aligned, more than half": by_threshold,
    "switch_heads, gates from 0 to 1": lambda m, g: m * g.clamp(0, 1).repeat_interleave(m.shape[-1] // len(g)),
    "switch_heads, as many features as tokens": lambda m, g: m * g.repeat_interleave(m.shape[1]),
    "mean_head, the median": lambda x, head: torch.where(
        (torch.arange(x.shape[1]) == head)[:, None, None], x.transpose(1, 2).flatten(0, 1).median(0).values[:, None], x
    ),
    "gate_slopes, a sum in the place of a product": lambda x, grads: (x + grads).sum((2, 3)).abs().mean(0),
    "cut_heads, the first ones": first_rows,
    "pool_heads, groups of as many as there are groups": groups_of_groups,
    "one_map, the root of T": lambda maps: (maps.log().sum(1) / maps.shape[-1] ** 0.5).softmax(-1),
}


@pytest.mark.parametrize("what", NOT_RIGHT)
def test_what_is_right_by_accident_only_is_refused(what):
    note = getattr(check, what.partition(",")[0])(NOT_RIGHT[what])
    assert not note.passed and note.code != "stub"


def test_maps_that_should_be_square_are():
    assert all(maps.shape[-1] == maps.shape[-2] for (maps,) in check.one_map.inputs)


NAMED = [
    (
        "fold_keys",
        "One matrix for all heads",
        lambda q, k, h: sum(a @ b.T for a, b in zip(q.chunk(h, 1), k.chunk(h, 1), strict=True)),
    ),
    ("induction", "Not the query itself", lambda maps, tokens: looked_up(maps, tokens, last=1)),
    (
        "cut_heads",
        "True and False as numbers",
        lambda q, k, v, o, keep: [W.index_select(a, keep.long()) for W, a in ((q, 0), (k, 0), (v, 0), (o, 1))],
    ),
    ("one_map", "Maps as matrices", lambda maps: functools.reduce(torch.matmul, maps.unbind(1))),
    ("cache_size", "Rounded", (201_000_000, 50_000_000)),
    ("cache_size", "Rounded", [201.3e6, 50.3e6]),
    ("cache_size", "Another unit", (201.3, 50.3)),
]


@pytest.mark.parametrize("name,mistake,answer", NAMED)
def test_what_no_small_edit_makes_has_a_name(name, mistake, answer):
    assert getattr(check, name)(answer).code == f"wrong: {mistake}"


@pytest.mark.parametrize("name", ["wide_bill", "cache_size", "fair_comparison", "previous_token", "aligned"])
def test_a_hint_lies_between_the_question_and_the_solution(name):
    assert len(getattr(check, name).hints) >= 3

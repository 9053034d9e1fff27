"""The error model: what its rules look for and put there, and which edit is found."""

import ast
import functools
import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from mhalib.checks import check, search
from mhalib.checks.edits import Edit, Source, edits_of
from mhalib.checks.mistakes import RULES, WHOLE, Rule
from mhalib.checks.patterns import fits, pattern_of
from mhalib.checks.run import Failure, Outcome
from mhalib.checks.search import find

FUNCTIONS = [exercise for exercise in check if exercise.cases]
EVERY = (*RULES, *WHOLE)


pytestmark = pytest.mark.usefixtures("one_thread")


# ------------------------------------------------------------------------------------------------- patterns

FITS = [
    ("A.F(I)", "x.softmax(-1)"),
    ("A.F(I)", "torch.softmax(x, -1)"),
    ("A.F(I)", "F.softmax(x, -1)"),
    ("A.F(**K, dim=I)", "x.sum(keepdim=True, dim=-1)"),
    ("A.F(*R, **K)", "x.sum()"),
    ("A.F(*R, **K)", "x.sum(1, 2, keepdim=True)"),
    ("A.F((I, J), **K)", "x.sum((1, 2), keepdim=True)"),
    ("F(A)", "len(x)"),
    ("A / B", "x / (y + 1)"),
    ("A @ A", "x.mT @ x.mT"),
    ("A ** 0.5", "n ** 0.5"),
    ("N", "0.5"),
    ("N", "-1"),
    ("S", "head_dim"),
    ("V", "x"),
    ("A[V]", "y[n]"),
    ("A[:, V]", "y[:, n]"),
    ("[B:C]", "y[1:n]"),
    ("[B:]", "y[1:]"),
    ("[:C]", "y[:n]"),
    ("[::C]", "y[::n]"),
    ("[A, B]", "[x, y]"),
    ("[A for B in C if D]", "[2 * i for i in x if i > 0]"),
    ("for A in B: ...", "for i in range(n):\n        x = x + y\n        y = 2 * y"),
    ("if A: ...", "if n > 1:\n        x = y"),
    ("A = B", "x = y + 1"),
    ("A += B", "x += y"),
    ("A < B", "x < y"),
]
FITS_NOT = [
    ("A.F(I)", "x.softmax(n)"),
    ("A.F(I)", "x.softmax(dim=-1)"),
    ("A.F(I)", "x.sum(-1, True)"),
    ("A.F(I)", "x.sum(True)"),
    ("A.F()", "x.sum(-1)"),
    ("F(A)", "x.abs(y)"),
    ("F(A)", "len(*x)"),
    ("A @ A", "x @ y"),
    ("N", "True"),
    ("V", "torch"),
    ("S", "x"),
    ("A[V]", "y[0]"),
    ("[A, B]", "(x, y)"),
    ("A < B", "x < y < n"),
    ("[A for B in C]", "[i for i in x if i > 0]"),
]


def matches(find, code):
    source = Source(f"def f(x, y, n, head_dim):\n    {code}\n", {}, (torch.ones(2), torch.ones(2), 2, 4), ())
    nodes = [node for line in source.function.body for node in ast.walk(line)]
    return any(fits(pattern_of(find), node, {}, source.is_variable) for node in nodes)


@pytest.mark.parametrize("find,code", FITS)
def test_a_pattern_fits_the_code_that_it_shows(find, code):
    assert matches(find, code)


@pytest.mark.parametrize("find,code", FITS_NOT)
def test_a_pattern_fits_no_other_code(find, code):
    assert not matches(find, code)


# ------------------------------------------------------------------------------------------------- the rules


def odds(x, y, n, mask):
    """What right answers rarely hold; never called."""
    a = sum(x, y) if n and not mask else any([n, 1]) and all([n, 2])
    a -= abs(n % 2) + min([n, 3, 4]) + n**-0.5
    b = (x + y).exp() + x.log() * y - x.exp() - y
    b = b.exp() + y
    b = b.exp() - y
    b = b.exp() * y
    c = (x / n) @ y.chunk(2, 0)[0].repeat_interleave(2, 0).repeat(2, 1)
    d = x[::2].amin(0) + x.argmin(0) + x.cumsum(0) + x.square() + x.floor() + x.ceil() + x.norm() + x.median()
    d = torch.zeros_like(x) + x.std() + x.var() + x.min() + x.eq(y) + x.logsumexp(0) + torch.isin(x, y) + x.outer(y)
    e = x.masked_fill(mask, -inf) + x.masked_fill(mask, float("-inf")) + (mask | x.all())
    e = [i for i in x] + [i for i in x if i > 0] + [n, a, b] + list(torch.where(mask, x, y))
    return c, d, e


ODDS = edits_of((odds,), (torch.ones(3), torch.ones(3), 2, torch.ones(3) > 0), ("row", "column"))


@functools.cache
def all_edits():
    """Return the edits of each exercise; to make them takes half a minute."""
    return {exercise.name: exercise.edits for exercise in FUNCTIONS}


@pytest.mark.parametrize("rule", EVERY, ids=[f"{rule.find} -> {rule.put}" for rule in EVERY])
def test_a_rule_makes_an_edit_somewhere(rule):
    assert rule.find.startswith("given ") or pattern_of(rule.find)
    assert any(edit.rule is rule for edit in itertools.chain(*all_edits().values(), ODDS))


def test_what_is_put_is_python():
    """But for the parts of x[a:b, c:d], which stand in no brackets of their own and cannot change places in some."""
    broken, EDITS = [], all_edits()
    for edit in ODDS + EDITS["masked_softmax"] + EDITS["fused_kv"] + EDITS["gate_slopes"] + EDITS["most_looked_at"]:
        try:
            edit.make()
        except SyntaxError as error:
            if not edit.rule.find.startswith("(A, B"):
                broken.append((edit.says, error))
    assert broken == []


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=[exercise.name for exercise in FUNCTIONS])
def test_what_is_said_can_be_read(exercise):
    for edit in exercise.edits:
        says, _, meaning = edit.says.partition("; there, ")
        assert says.strip() == says and says and len(says) <= 140 and len(meaning) <= 80, says
        assert not set("{}\n") & set(says.replace("{i}", "")) and "  " not in says, says
        assert not says.endswith((".", ",", ":", " with", " of")), says


def test_the_cheapest_come_first():
    for edits in all_edits().values():
        assert [edit.cost for edit in edits] == sorted(edit.cost for edit in edits)


# ------------------------------------------------------------------------------------------------- the edits


def twice(x):
    y = x.softmax(-1)
    return y + x.softmax(-1)


def two_functions(x, mask):
    y = torch.softmax(x, -1)
    return torch.where(mask, y, x)


def edits(answer, *example, axes=("row", "column")):
    return edits_of((answer,), example, axes)


def does(edit, *inputs):
    return edit.make()(*inputs)


X = torch.tensor([[1.0, 2.0, 4.0], [0.0, 5.0, 3.0]])


def test_an_edit_is_made_at_each_place_and_at_all_alike():
    made = [edit for edit in edits(twice, X) if edit.says.startswith("with softmax over dim=0")]
    everywhere = [
        edit for edit in edits(twice, X) if edit.says.startswith("with dim=0 in the place of dim=-1, wherever")
    ]
    assert len(made) == 2 and len(everywhere) == 1 and everywhere[0].cost > made[0].cost
    for edit in made:
        assert torch.allclose(does(edit, X), X.softmax(0) + X.softmax(1))
    assert torch.allclose(does(everywhere[0], X), 2 * X.softmax(0))


def test_functions_of_torch_are_edited_as_methods_are():
    mask = X > 2
    made = {edit.says: edit for edit in edits(two_functions, X, mask)}
    assert torch.equal(
        does(made["with softmax over dim=0, not over dim=-1"], X, mask), torch.where(mask, X.softmax(0), X)
    )
    turned = made["with the condition of where the other way round"]
    assert torch.equal(does(turned, X, mask), torch.where(mask, X, X.softmax(-1)))
    ignored = made["with a mask that is True everywhere, so that mask is ignored"]
    assert torch.equal(does(ignored, X, mask), X.softmax(-1))
    assert torch.equal(does(made["and then turns the sign"], X, mask), -torch.where(mask, X.softmax(-1), X))


def test_the_source_is_as_before_after_an_edit():
    source = Source("def f(x):\n    y = x + 1\n    return [y, x][0]\n", {}, (X,), ())
    before = ast.dump(source.tree)
    plus, listed = source.function.body[0].value, source.function.body[1].value.value
    assert source.edited([(plus, "x - 1"), (listed, "[x, y]")])(5) == 5 and ast.dump(source.tree) == before
    with pytest.raises(SyntaxError):
        source.edited([(plus, "x - 1"), (listed, "[x, ")])
    with pytest.raises(ValueError, match="assigned to|context"):
        source.edited([(plus, "x - 1"), (source.function.body[0].targets[0], "x + 1")])
    assert ast.dump(source.tree) == before and source.edited([])(5) == 6


def test_the_same_text_at_the_same_place_is_one_edit(monkeypatch):
    rules = (Rule("A + B", "{A} - {B}", "dear", 2), Rule("A + B", "{A} - {B}", "cheap"), Rule("V", "{V}", "nothing"))
    monkeypatch.setattr("mhalib.checks.edits.RULES", rules)
    monkeypatch.setattr("mhalib.checks.edits.WHOLE", ())
    assert [edit.says for edit in edits(twice, X) if edit.rule in rules[:2]] == ["cheap"]


def test_a_moved_step_stays_the_same_step():
    def scaled(x, n):
        y = (x + n) / n
        return y.exp()

    made = {edit.says: edit for edit in edits(scaled, X, 2)}
    moved = next(edit for says, edit in made.items() if says.startswith("with / n at another place, on the result"))
    assert torch.allclose(does(moved, X, 2), (X + 2).exp() / 2)


# ------------------------------------------------------------------------------------------------- the search

RULE = Rule("A", "{A}", "does so")
INPUTS = [(torch.arange(1.0, 9).reshape(2, 4),), (torch.arange(2.0, 8).reshape(2, 3).square(),)]


def outcomes(f):
    made = []
    for case in INPUTS:
        try:
            made.append(Outcome(f(*case)))
        except Exception as error:
            made.append(Outcome(failure=Failure("raised", f"{type(error).__name__}: {error}", "")))
    return made


def an_edit(f, says="does so", cost=1):
    return Edit(RULE, says, cost, lambda: f)


def right(x):
    return x + 1


def found(theirs, *candidates):
    made = [f if isinstance(f, Edit) else an_edit(f) for f in candidates]
    return find(made, INPUTS, outcomes(right), outcomes(theirs))


def test_finds_the_first_that_does_the_same():
    one, two = an_edit(lambda x: x - 1, "one"), an_edit(lambda x: -(1 - x), "two")
    assert found(lambda x: x - 1, an_edit(lambda x: x - 2), one, two) is one
    assert found(lambda x: x - 1, lambda x: x - 2) is None
    assert found(lambda x: x - 1, lambda x: x - 1 if len(x[0]) == 4 else x) is None, "on every case"


def test_is_silent_where_the_results_say_too_little():
    for f in [lambda x: 3.0, lambda x: torch.zeros(2), lambda x: True, lambda x: x * math.nan, lambda x: 1e308]:
        assert found(f, f) is None
    constant = [Outcome(7)] * 9
    assert find([an_edit(lambda x: 7)], [INPUTS[0]] * 9, [Outcome(8)] * 9, constant) is None


def test_errors_must_be_the_same_with_the_sizes_in_them():
    broken = lambda x: x @ x  # noqa: E731
    assert found(broken, an_edit(broken)) is not None
    assert found(broken, an_edit(lambda x: x @ x[:, :-1])) is None
    assert found(lambda x: [][0], an_edit(lambda x: [][0])) is None, "a message without sizes tells nothing"


def test_a_slow_edit_is_left_behind(monkeypatch):
    calls = []

    def slow(x):
        calls.append("slow")
        while True:
            math.sqrt(2)

    def wrong(x):
        calls.append("wrong")
        return x - 2

    candidates = [an_edit(wrong), an_edit(slow), an_edit(lambda x: x - 1, "last")]
    monkeypatch.setattr(search, "SECONDS", 0.2)
    assert found(lambda x: x - 1, *candidates) is None
    monkeypatch.setattr(search, "SECONDS", 60.0)
    assert found(lambda x: x - 1, *candidates).says == "last"
    assert calls == ["wrong", "slow"], "what was found out is kept, and what took too long is not tried again"


def test_an_edit_that_is_no_python_is_passed_over():
    def broken():
        raise SyntaxError

    assert found(lambda x: x - 1, Edit(RULE, "", 1, broken), an_edit(lambda x: x - 1, "last")).says == "last"


def holds_itself(*inputs):
    deep = []
    deep.append(deep)
    return deep


ODD = [
    lambda x, *n: torch.zeros(2, 3, device="meta"),
    lambda x, *n: torch.zeros(x.shape, device="meta"),
    lambda x, *n: x.to_sparse(),
    lambda x, *n: torch.eye(3).to_sparse_csr(),
    lambda x, *n: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    lambda x, *n: torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8),
    lambda x, *n: x * 1j,
    lambda x, *n: nn.Parameter(x.half()),
    lambda x, *n: {1, 2},
    lambda x, *n: nn.Linear(2, 2),
    lambda x, *n: (i for i in range(3)),
    lambda x, *n: (None, x),
    lambda x, *n: 10**5000,
    lambda x, *n: [10**5000, math.nan, math.inf],
    lambda x, *n: (),
    lambda x, *n: [x, x],
    lambda x, *n: Tensor,
    lambda x, *n: x.tolist(),
    holds_itself,
]


@pytest.mark.filterwarnings("ignore")  # torch's own, of the rarer kinds of tensors
@pytest.mark.parametrize("number", range(len(ODD)))
def test_never_raises_whatever_a_function_returns(number):
    found(ODD[number], lambda x: x, lambda x: (x,), lambda x: {1, 2}, lambda x: x * 1j, lambda x: 1e308, lambda x: ())
    for name in ("merge_heads", "fused_kv", "torch_padding"):
        exercise = getattr(check, name)
        answer = {1: ODD[number], 2: lambda x, n: ODD[number](x, n), 3: lambda x, k, v: ODD[number](x, k, v)}
        note = exercise(answer[len(exercise.parameters)])
        assert not note.passed and str(note)


def test_leaves_random_numbers_and_settings_alone():
    torch.manual_seed(7)
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()

    def careless(x):
        torch.manual_seed(1)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return x + torch.rand(1).item()

    found(lambda x: x - 1, careless, careless)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == dtype and torch.is_grad_enabled()

"""The error model: a learner's function that does what one small edit of a right answer would do hears which."""

import itertools

import pytest
import torch

from mhalib.checks import check, search
from mhalib.checks.edits import edits_of
from mhalib.checks.exercise import Exercise
from mhalib.checks.mistakes import RULES, WHOLE

pytestmark = pytest.mark.usefixtures("one_thread")

X = torch.tensor([[1.0, 2.0, 4.0], [0.0, 5.0, 3.0]])


def asked(answer, *cases):
    exercise = Exercise("Do so.", answer, ("-",), cases=lambda: list(cases), axes=("row", "column"))
    exercise.name = "mine"
    return exercise


def twice(x):
    y = x.softmax(-1)
    return y + x.softmax(-1)


def chosen(x, mask):
    y = torch.softmax(x, -1)
    return torch.where(mask, y, x)


def scaled(x, n):
    y = (x + n) / n
    return y.exp()


def gram(x):
    return x @ x.mT


def four_more(n):
    return n + 4


def counted_down(x):
    n = 3
    while n > 0:
        n -= 1
        x = x + n
    return x


TWICE, CHOSEN = asked(twice, (X,), (1.5 * X.mT,)), asked(chosen, (X, X > 2), (2 * X, X > 1))
SCALED, GRAM = asked(scaled, (X, 2), (X, 3)), asked(gram, (X,), (X.square()[:, :2].repeat(1, 2),))
MORE = asked(four_more, *((n,) for n in range(1, 10)))

NAMED = [
    (TWICE, lambda x: x.softmax(0) + x.softmax(1), "Softmax over dim=-2, not over dim=-1"),
    (TWICE, lambda x: 2 * x.softmax(0), "wherever it stands"),
    (CHOSEN, lambda x, m: torch.where(m, x.softmax(0), x), "Softmax over dim=-2, not over dim=-1"),
    (CHOSEN, lambda x, m: torch.where(m, x, x.softmax(-1)), "The condition of where the other way round"),
    (CHOSEN, lambda x, m: x.softmax(-1), "so that mask is ignored"),
    (CHOSEN, lambda x, m: -torch.where(m, x.softmax(-1), x), "Turns the sign"),
    (SCALED, lambda x, n: (x + n).exp() / n, "/ n at another place, on the result"),
    (GRAM, lambda x: x @ x, "Without .mT"),  # which stops: the message holds the sizes
    (MORE, lambda n: n, "Without adding 4"),
    (MORE, lambda n: n - 4, "- in the place of + before 4"),
]
UNNAMED = [
    (TWICE, lambda x: 3 * x.softmax(1).sin()),
    (TWICE, lambda x: x.softmax(0) + x.softmax(1) if x[0, 0] == 1 else x.softmax(0)),  # not on every case
    (TWICE, lambda x: torch.zeros(2)),
    (TWICE, lambda x: x * torch.nan),
    (GRAM, lambda x: x @ x[:, :-1]),  # which stops with other sizes
    (GRAM, lambda x: [][0]),
    (MORE, lambda n: 4),  # a constant does not look at what comes in, and says too little
]


def test_the_edit_that_does_the_same_is_named_and_none_where_none_does_or_the_results_say_too_little():
    notes = [(words, exercise(answer)) for exercise, answer, words in NAMED]
    wrong = [(words, note) for words, note in notes if not note.title.endswith(words) or "What:" not in repr(note)]
    assert wrong == []
    notes = [(number, exercise(answer)) for number, (exercise, answer) in enumerate(UNNAMED)]
    assert [(number, note) for number, note in notes if note.mood != "wrong" or "What:" in repr(note)] == []


def test_an_edit_that_never_ends_does_not_keep_the_learner_waiting(monkeypatch):
    monkeypatch.setattr(search, "SECONDS", 0.5)
    exercise = asked(counted_down, (X,), (2 * X,))
    assert exercise(lambda x: x.sin()).title == exercise(lambda x: x.cos()).title == "mine: not yet."


def test_edits_leave_random_numbers_and_settings_alone():
    def careless(x):
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        return x + 1

    exercise, state = asked(careless, (X,), (2 * X,)), torch.get_rng_state()
    assert exercise(lambda x: x - 1).mood == "wrong"
    assert torch.equal(torch.get_rng_state(), state) and torch.get_default_dtype() == torch.float32


def odds(x, y, n, mask):
    """What right answers rarely hold; never called."""
    inf = torch.inf
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


@pytest.mark.slow
def test_every_rule_makes_an_edit_somewhere_and_what_it_puts_is_python():
    """But for the parts of x[a:b, c:d], which stand in no brackets of their own and cannot change places in some."""
    edits = edits_of((odds,), (torch.ones(3), torch.ones(3), 2, torch.ones(3) > 0), ("row", "column"))
    edits = [*edits, *itertools.chain(*(exercise.edits for exercise in check if exercise.cases))]
    used = {id(edit.rule) for edit in edits}
    assert [f"{rule.find} -> {rule.put}" for rule in (*RULES, *WHOLE) if id(rule) not in used] == []
    broken = []
    for edit in edits[::5]:
        try:
            edit.make()
        except SyntaxError as error:
            broken += [] if edit.rule.find.startswith("(A, B") else [(edit.says, error)]
    assert broken == []

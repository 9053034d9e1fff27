"""The error model: a learner's function that does what one small edit of a right answer would do hears which."""

import re

import torch

from mhacourse import check, edits
from mhacourse.exercise import Exercise

X = torch.tensor([[1.0, 2.0, 4.0], [0.0, 5.0, 3.0]])


def asked(answer, *cases):
    return Exercise("Do so.", answer, ("-",), cases=lambda: list(cases), axes=("row", "column"))


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


def lowered(x, mask):
    return x.masked_fill(~mask, -torch.inf).softmax(-1)


def hidden(x):
    secret = x.softmax(-1).log().exp().log().exp().log().exp()
    other = secret.sum(-1, keepdim=True) + x.shape[0] + x.shape[1] - 4
    return secret.exp() / 2 * other


def four_more(n):
    return n + 4


def counted_down(x):
    n = 3
    while n > 0:
        n -= 1
        x = x + n
    return x


def sized(x):
    return x / x.shape[-1]


def scored(q):
    return q @ q.mT / q.shape[-1] ** 0.5


def counted(n):
    rows = []
    for row in range(n):
        for part in range(n):
            rows.append(3 * part + row * n)
    return rows


Q = torch.arange(24.0).reshape(1, 2, 3, 4)
SCORED = asked(scored, (Q,), (Q / 2,))
COUNTED = asked(counted, (4,), (5,))
SIZED = asked(sized, (X[:, :2],), (X[:2],))
TWICE, CHOSEN = asked(twice, (X,), (1.5 * X.mT,)), asked(chosen, (X, X > 2), (2 * X, X > 1))
SCALED, GRAM = asked(scaled, (X, 2), (X, 3)), asked(gram, (X,), (X.square()[:, :2].repeat(1, 2),))
LOWERED, HIDDEN = asked(lowered, (X, X > 2), (2 * X, X > 1)), asked(hidden, (X,), (1.5 * X.mT,))
MORE = asked(four_more, *((n,) for n in range(1, 10)))

NAMED = [
    (TWICE, lambda x: x.softmax(0) + x.softmax(1), "softmax(-2) in place of softmax(-1)"),
    (TWICE, lambda x: 2 * x.softmax(0), "softmax(-2) in place of softmax(-1), wherever it appears"),
    (CHOSEN, lambda x, m: torch.where(m, x.softmax(0), x), "softmax(-2) in place of softmax(-1)"),
    (CHOSEN, lambda x, m: torch.where(m, x, x.softmax(-1)), "mask the other way round"),
    (CHOSEN, lambda x, m: x.softmax(-1), "mask ignored, as if it were True everywhere"),
    (CHOSEN, lambda x, m: -torch.where(m, x.softmax(-1), x), "flips the sign"),
    (SCALED, lambda x, n: (x + n).exp(), "without the division by n"),
    (LOWERED, lambda x, m: x.masked_fill(m, -1e9).softmax(-1), "the other way round"),
    (GRAM, lambda x: x @ x, "without .mT"),  # which stops: the message holds the sizes
    (HIDDEN, lambda x: x.softmax(-1).exp() / 2, "without one of its factors"),
    (MORE, lambda n: n, "without the term 4"),
    (SCORED, lambda q: q @ q.mT / 8**0.5, "with the root of the whole width, not of one head's width"),
    (COUNTED, lambda n: [3 * part for _ in range(n) for part in range(n)], "one of its terms, the one with n"),
    (MORE, lambda n: n - 4, "- in place of + before 4"),
]
UNNAMED = [
    (TWICE, lambda x: 3 * x.softmax(1).sin()),
    (TWICE, lambda x: x.softmax(0) + x.softmax(1) if x[0, 0] == 1 else x.softmax(0)),  # not on every case
    (TWICE, lambda x: torch.zeros(7, 7)),
    (TWICE, lambda x: x * torch.nan),
    (GRAM, lambda x: x @ x[:, :-1]),  # which stops with other sizes
    (GRAM, lambda x: [][0]),
    (MORE, lambda n: 4),  # a constant does not look at what comes in, and says too little
]


def test_the_edit_that_does_the_same_is_named_and_none_where_none_does_or_the_results_say_too_little():
    notes = [(words, exercise(answer)) for exercise, answer, words in NAMED]
    wrong = [
        (words, note) for words, note in notes if not note.title.endswith(words) or not note.code.startswith("wrong: ")
    ]
    assert wrong == []
    notes = [(number, exercise(answer)) for number, (exercise, answer) in enumerate(UNNAMED)]
    assert [(number, note) for number, note in notes if note.mood != "wrong" or note.code.startswith("wrong: ")] == []


def test_an_index_is_named_as_the_learner_wrote_it_and_no_function_that_is_not_theirs():
    found, notes = [], []
    for source in ("x / x.shape[0]", "x / x.shape[-2]", "x / len(x)"):
        edit = edits.find(SIZED.edits, SIZED.inputs, SIZED.right, SIZED.outcomes(lambda x: x / len(x))[0], source)
        found.append(edit.told(source))
    assert found == [
        f"with {said} in place of shape[-1]" for said in ("shape[0]", "shape[-2]", "another axis of shape")
    ]
    for source in ("x.softmax(0)", "exp"):
        notes.append(edits.why_of("with softmax(0) in place of softmax(-1)", source) != "")
    assert notes == [True, False]
    exchanged = edits.Edit("with the arguments of reshape in another order", 1, None)
    assert [exchanged.can_be_told(source) for source in ("x.view(2, 3)", "x.split(2)")] == [True, False]


def test_an_edit_that_never_ends_does_not_keep_the_learner_waiting(monkeypatch):
    monkeypatch.setattr(edits, "SECONDS", 0.5)
    exercise = asked(counted_down, (X,), (2 * X,))
    assert exercise(lambda x: x.sin()).title == exercise(lambda x: x.cos()).title == ": not yet."


def test_nothing_is_said_that_stands_only_in_our_solution():
    for exercise in (exercise for exercise in check if exercise.cases):
        names = {name for answer in (exercise.answer, *exercise.plain) for name in answer.__code__.co_varnames}
        own = {name for name in names if "_" in name} - {*exercise.parameters}  # others may be words of English
        said = [edit.says for edit in exercise.edits if edit.can_be_told("reshape")]
        assert [words for words in said if own & {*re.findall(r"(?<![\w.])\w+", words)}] == []

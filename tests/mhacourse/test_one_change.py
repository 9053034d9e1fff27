"""A function that a single change makes right hears where that is, and what kind of change, not what belongs there."""

import inspect
import linecache
import re
import textwrap

import pytest
import torch

from mhacourse import check, one_change, problem
from mhacourse.exercise import Exercise
from mhacourse.lessons.problems import layers
from mhacourse.slips import MODULES

X = torch.tensor([[1.0, 2.0, 4.0], [0.0, 5.0, 3.0]])


def asked(answer, *cases):
    return Exercise("Do so.", answer, ("-",), cases=lambda: list(cases), axes=("row", "column"))


def written(source: str):
    """Return a function as a learner types it: with a source, and no other code around it."""
    source, names, file = (
        textwrap.dedent(source).strip() + "\n",
        {"torch": torch, "nn": torch.nn},
        f"<typed {len(linecache.cache)}>",
    )
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    return list(names.values())[-1]


MAPS = asked(lambda x: (x / x.shape[-1] ** 0.5).softmax(-1), (X,), (1.5 * X.mT,))
PAIRS = asked(lambda x, y: torch.cat([x, y], -1) @ torch.cat([x, y], -1).mT, (X, 2 * X - 1), (X.mT, X.mT.square()))
HIDDEN = asked(lambda x, mask: x.masked_fill(~mask, -torch.inf).softmax(-1), (X, X > 0), (X.mT, X.mT > 1))
TWICE = asked(lambda x: x.softmax(-1) * x.softmax(-1).log(), (X,), (1.5 * X.mT,))
COUNTED = asked(lambda n: [3 * part + row * n for row in range(n) for part in range(n)], (4,), (5,))

NAMED = [
    (MAPS, "return (x / x.shape[-1] ** 0.5).softmax(0)", "with other numbers in `(x / x.shape[-1] ** 0.5).softmax(0)`"),
    (MAPS, "return (x / x.shape[0] ** 0.5).softmax(-1)", "with another number in `x.shape[0]`"),
    (
        MAPS,
        "return (x / x.shape[-1] ** 1 / 2).softmax(-1)",
        "with brackets around the end of `x / x.shape[-1] ** 1 / 2`",
    ),
    (MAPS, "return (x / x.shape[-1] ** 0.5).softmax(-1).clamp(0.1)", "without clamp"),
    (
        MAPS,
        "s = x.exp2() ** (1 / x.shape[-1] ** 0.5)\nreturn s / s.sum(-1, keepdim=True)",
        "another function in place of",
    ),
    (MAPS, "s = (x / x.shape[-1] ** 0.5).exp()\nreturn s / s.sum(-1, keepdim=False)", "with True in place of False"),
    (MAPS, "x = x / x.shape[-1] ** 0.5\nx.softmax(-1)\nreturn x", "with the result of `x.softmax(-1)` kept"),
    (PAIRS, "z = torch.cat([y, x], -1)\nreturn torch.cat([x, y], -1) @ z.mT", "with `[y, x]` in another order"),
    (PAIRS, "z = torch.cat([x, y], -1)\nreturn z @ z", "with two axes of `z` exchanged"),
    (TWICE, "return x.softmax(0) * x.softmax(0).log()", "wherever it occurs"),
    (HIDDEN, "return x.masked_fill(mask, -torch.inf).softmax(-1)", "with `mask` the other way round"),
    (HIDDEN, "return x.masked_fill(~mask, 0).softmax(-1)", "with another number in place of 0"),
    (
        HIDDEN,
        "return torch.where(mask, -torch.inf, x).softmax(-1)",
        "with the arguments of `torch.where(mask, -torch.in",
    ),
    (HIDDEN, "ä = '→'; return x.masked_fill(mask < 1, torch.inf).softmax(-1)", "with the sign of `torch.inf` turned"),
    (COUNTED, "return [3 * part + row * n for row in range(n) for part in range(1, n)]", "numbers in `range(1, n)`"),
]


@pytest.mark.parametrize("exercise, body, says", NAMED)
def test_the_place_of_the_mistake_is_told(exercise, body, says):
    names = ", ".join(exercise.parameters)
    note = exercise(written(f"def answer({names}):\n{textwrap.indent(body, '    ')}"))
    told = dict((label, text) for label, text in note.parts if label in ("What:", "code"))
    assert says in note.code and note.title.endswith("One change makes it right")
    assert told["What:"].endswith("your function is right for all 2 inputs of this check.")
    line = next(text for label, text in note.parts if label == "code")
    number, text = re.match(r"line (\d+):  (.*)", line).groups()
    assert f"def answer({names}):\n{textwrap.indent(body, '    ')}".splitlines()[int(number) - 1].strip() == text


UNNAMED = [
    (COUNTED, "return [3 * part + row * n for part in range(n) for row in range(n)]"),  # two names at once
    (MAPS, "return x.sin()"),
    (MAPS, "return x * torch.nan"),
    (MAPS, "return x if x[0, 0] == 1 else 7"),
    (COUNTED, "n = 5\nwhile n > 0:\n    n = n + 1\nreturn n"),  # never ends
]


@pytest.mark.parametrize("exercise, body", UNNAMED)
def test_where_no_single_change_helps_none_is_told(exercise, body, monkeypatch):
    monkeypatch.setattr(one_change, "SECONDS", 0.5)
    monkeypatch.setattr("mhacourse.run.SECONDS", 0.5)
    note = exercise(written(f"def answer({', '.join(exercise.parameters)}):\n{textwrap.indent(body, '    ')}"))
    assert note.mood == "wrong" and not note.code.startswith("wrong:")


def test_what_might_end_the_kernel_is_never_tried():
    spoilt = "def answer(x):\n    torch.linalg.qr(x)\n    return (x / x.shape[-1] ** 0.5).softmax(0)"
    assert MAPS(written(spoilt)).code == "value"
    assert MAPS(written(spoilt.replace("linalg.qr(x)", "linalg.norm(x)"))).code.startswith("wrong: with other numbers")


def test_nothing_is_said_that_stands_only_in_our_solution():
    wrong = {"fold_heads": "return x.transpose(0, 1)", "merge_heads": "return x.transpose(1, 3).flatten(2)"}
    for name, body in wrong.items():
        exercise = getattr(check, name)
        source = f"def answer({', '.join(exercise.parameters)}):\n    {body}"
        known = {*re.findall(r"\w+", source), *MODULES}
        for _, change in one_change.changes_of(source, {}):
            quoted = " ".join(re.findall(r"`([^`]*)`", change.says))
            assert {*re.findall(r"[a-z_]\w+", quoted)} <= known


def test_a_mistake_in_a_function_that_the_learner_wrote_beside_the_answer_is_found():
    source = "def spread(x):\n    return x.softmax(0)\n\n\ndef answer(x):\n    return spread(x / x.shape[-1] ** 0.5)"
    note = MAPS(written(source))
    assert note.code == "wrong: with other numbers in `x.softmax(0)`" and "return x.softmax(0)" in repr(note)


def test_a_result_that_is_dropped_comes_first():
    source = """def my_split_heads(x, num_heads):
        x = x.unflatten(-1, (num_heads, -1))
        x.transpose(1, 2)
        return x"""
    assert check.split_heads(written(source)).code.endswith("`x.transpose(1, 2)` kept, which is dropped here")
    wrong = "allowed = allowed & torch", "allowed & torch"
    mended = written(inspect.getsource(layers.DraftAttention).replace(*wrong))
    assert problem.drafts.mend(mended).title.endswith("A result is dropped")

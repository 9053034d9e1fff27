"""Which cells of a lesson hang on a training, told by their names alone."""

import ast

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.notebooks.needs import names, untrained


@pytest.mark.parametrize(
    ("source", "made", "needed"),
    [
        ("a = b + 1", {"a"}, {"b"}),
        ("a = a + 1", {"a"}, {"a"}),
        ("a = 1\nc = a", {"a", "c"}, set()),
        ("import torch.nn as nn, numpy.linalg", {"nn", "numpy"}, set()),
        ("for a in b:\n    c = a + d\nelse:\n    e = c", {"a", "c", "e"}, {"b", "d"}),
        ("with b as a, c:\n    a", {"a"}, {"b", "c"}),
        ("try:\n    a = b()\nexcept E as e:\n    print(e)\nfinally:\n    f", {"a", "e"}, {"b", "E", "print", "f"}),
        ("if a:\n    b = c", {"b"}, {"a", "c"}),
        ("a = [x * y for x in b]", {"a"}, {"b", "y"}),
        ("a = {x: {z for z in y} for x in b}", {"a"}, {"b", "y"}),
        ("def f(x, y=a):\n    z = x + b\n    return f, z", {"f"}, {"a", "b"}),
        ("class A(B):\n    c = d\n    def e(self):\n        return self.c + g", {"A"}, {"B", "d", "g"}),
        ("a[b] = c", {"a"}, {"a", "b", "c"}),
        ("a.b = c", {"a"}, {"a", "c"}),
        ("a, (b, *c) = d", {"a", "b", "c"}, {"d"}),
    ],
)
def test_names(source, made, needed):
    assert names(ast.parse(source).body) == (made, needed)


def left(*sources):
    cells = [new_markdown_cell("fit(it)"), *map(new_code_cell, sources)]
    return [cell.source for cell in untrained(new_notebook(cells=cells)).cells[1:]]


def test_what_hangs_on_a_training_is_left_out_and_what_it_imports_stays():
    assert left(
        "%matplotlib inline\nfrom mhalib.experiments import fit\nmodel, task = Model(), Task()",
        "import copy\nmaps = look(model)\nfit(model, task)\nprint(maps)",
        "print(copy, task)",
        "maps = ones(3)\nmaps",
    ) == [
        "%matplotlib inline\nfrom mhalib.experiments import fit\nmodel, task = Model(), Task()",
        "import copy\nmaps = look(model)\nprint(maps)",
        "print(copy, task)",
        "maps = ones(3)\nmaps",
    ]


def test_what_a_training_makes_or_fills_goes_with_it():
    assert left(
        "import torch\nlosses, curves, kept = [], {}, []\n@deco\ndef train(model):\n    opt.step()\n\nkept.append(1)",
        "for seed in SEEDS:\n    losses.append(train(seed))\n    curves[seed] = 1\n    torch.manual_seed(seed)",
        "print(losses)\nprint(curves)\nprint(kept)\ntorch.ones(3)",
        "losses = []\nprint(losses)",
    ) == [
        "import torch\nlosses, curves, kept = [], {}, []\n\nkept.append(1)",
        "",
        "print(kept)\ntorch.ones(3)",
        "losses = []\nprint(losses)",
    ]

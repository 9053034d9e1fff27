"""A lesson as its reader changes it: what is changed, and what is left alone."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.notebooks.changes import numbers, put_in_seed, sizes_offered, walk, with_one_changed


def lesson(*sources):
    return new_notebook(cells=[new_markdown_cell("SEED = 0"), *map(new_code_cell, sources)])


def test_another_seed():
    nb = lesson("import torch\n\nSEED = 0  # any other\nx = SEED", "SEED_LIST = [SEED]")
    put_in_seed(nb, 7)
    assert nb.cells[1].source == "import torch\n\nSEED = 7  # any other\nx = SEED"
    assert nb.cells[0].source == "SEED = 0" and nb.cells[2].source == "SEED_LIST = [SEED]"


@pytest.mark.parametrize("sources", [["x = 1"], ["SEED = 0", "SEED = 0"], ["seed = 0"], ["SEED = 01"]])
def test_a_seed_that_is_not_set_once_is_refused(sources):
    with pytest.raises(ValueError, match="once"):
        put_in_seed(lesson(*sources), 7)


def test_sizes_that_the_text_invites_to_change():
    nb = lesson("T = 32  # or 16, 64\nd = 4  # features", "lr = 1e-3  # or 1e-2")
    found = [(line, other) for _, line, other in sizes_offered(nb)]
    assert found == [
        ("T = 32  # or 16, 64", "T = 16"),
        ("T = 32  # or 16, 64", "T = 64"),
        ("lr = 1e-3  # or 1e-2", "lr = 1e-2"),
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = f(3, size=4)", [3, 4]),
        ("x = y[0] + y[:, 2:5]", []),
        ("z = x.transpose(1, 2).view(3, 4).sum(dim=1)", []),
        ("claim(x > 0.5, 'half', x=1)\ncheck.heads(3)\npredict.which(2)\nclaim.speaks_of(T=3)", []),
        ("print(f'{x:.2f} {3}')", []),
        ("flag = True\nname = 'T = 3'", []),
        ("from a import b\n%timeit 3", []),
    ],
)
def test_numbers_that_somebody_plays_with(source, found):
    assert [node.value for node in numbers(source)] == found


def test_one_number_is_changed_also_behind_other_letters():
    assert with_one_changed('s = "→ √"; x = 12  # √') == (
        's = "→ √"; x = 13  # √',
        '12 -> 13 in `s = "→ √"; x = 12  # √`',
    )
    assert with_one_changed("lr = 1e-3")[0] == "lr = 0.0015"
    assert with_one_changed("x = y") is None


def test_a_walk_changes_every_third_cell_and_sets_it_back():
    played = walk(lesson("a = 1", "b = a", "c = d", "e = 4", "f = e", "g = f", "h = 9"))
    assert [cell.source for cell in played.cells] == [
        *("a = 1", "b = a", "c = d", "e = 4", "e = 5", "f = e", "g = f", "e = 4", "f = e", "g = f", "f = e", "g = f"),
        *("h = 9", "h = 10", "h = 9"),
    ]
    assert [cell.metadata.get("changed") for cell in played.cells].count(None) == 13
    assert sum("after" in cell.metadata for cell in played.cells) == 2

"""Which words of a lesson lead to the glossary, and that all that should do so."""

import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.notebooks import terms as tool
from tools.notebooks.run import NOTEBOOKS, read, write
from tools.notebooks.store import source_hash, stale
from tools.notebooks.terms import MOST, SPELLINGS, glossary, with_links
from tools.notebooks.which import lesson_files

TERMS = glossary()
LESSONS = lesson_files(NOTEBOOKS)
NOWHERE = {"layer-norm", "value-path"}  # so far, but for pictures and titles of papers


def lesson(*texts):
    return new_notebook(cells=[new_markdown_cell(text) for text in ("# 09 · A lesson", *texts)])


def led(*texts, name="09_lesson", everywhere=True):
    """Return the texts with their links, as `word>entry`."""
    cells = with_links(lesson(*texts), name, TERMS, everywhere=everywhere).cells[1:]
    return [tool._TAKEN_OUT.sub(lambda link: f"{link[1]}>{link[0].rpartition('#')[2][:-1]}", c.source) for c in cells]


# ------------------------------------------------------------------------------------------ the lessons


def test_nothing_is_left_to_place():
    left = []
    for path in LESSONS:
        nb = read(path)
        wanted = with_links(nb, path.stem, TERMS)
        left += [path.name for cell, placed in zip(nb.cells, wanted.cells, strict=True) if cell.source != placed.source]
        assert sum(cell.source.count("](GLOSSARY.md#") for cell in nb.cells) <= MOST
    assert left == [], "run python -m tools.notebooks.terms"


def test_every_entry_is_found_somewhere_in_the_lessons():
    """An entry that no lesson uses, or that the tool cannot find, is of no help."""
    linked = (with_links(read(path), path.stem, TERMS, everywhere=True) for path in LESSONS)
    met = {
        place for nb in linked for cell in nb.cells for place in re.findall(r"\]\(GLOSSARY\.md#([^)]+)\)", cell.source)
    }
    assert {term.place for term in TERMS} - met <= NOWHERE


# ------------------------------------------------------------------------------------------ what is placed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A head, then a head.", "A head>head, then a head."),
        ("Heads and **keys** and *queries*.", "Heads>head and **keys>key** and *queries>query*."),
        ("Multi-head, head-on, headed, behead.", "Multi-head, head-on, headed, behead."),
        ("An induction head and a head.", "An induction head>induction-head and a head>head."),
        ("Additive masks, a mask.", "Additive masks>additive-mask, a mask>mask."),
        ("A saturated softmax.", "A saturated>saturation softmax>softmax."),
        ("`head_dim` of `x.head_dim` and `W_o`.", "`head_dim`>head_dim of `x.head_dim` and `W_o`>w_q-to-w_o."),
        ("head_dim, T and B", "head_dim, T and B"),  # names are code
        ("## A head\n\nA head", "## A head\n\nA head>head"),
        ("| a head | key |\n|---|---|\n| a | b |\n\nA key", "| a head | key |\n|---|---|\n| a | b |\n\nA key>key"),
        ("| `B` | x |\n|---|---|\n| `T` | `B` |", "| `B`>b | x |\n|---|---|\n| `T`>t | `B` |"),
        ("$head$ and $$\nkey\n$$ and <b title='head'> head", "$head$ and $$\nkey\n$$ and <b title='head'> head>head"),
        ("```\nhead\n```\nhead", "```\nhead\n```\nhead>head"),
        (
            "[a head](03_x.ipynb#head) and ![key](../x.png), key",
            "[a head](03_x.ipynb#head) and ![key](../x.png), key>key",
        ),
        ("**Predict.** Which head?\n\nThe head.", "**Predict.** Which head?\n\nThe head>head."),
        (
            "Drag *Heads*, read *one head is all you need*; a head.",
            "Drag *Heads*, read *one head is all you need*; a head>head.",
        ),
        ("A road map, then a map.", "A road map, then a map>attention-map."),
        ("Which values came? Keys and values.", "Which values came? Keys>key and values>value."),
        ("He claims it. A claim holds.", "He claims it. A claim>claim holds."),
        (
            "The contiguous order; a tensor is *contiguous*.",
            "The contiguous order; a tensor is *contiguous>contiguous*.",
        ),
        ("Of other ranks; of rank 6.", "Of other ranks; of rank>rank 6."),
        ("On the other arm; the arm that won.", "On the other arm; the arm>arm that won."),
        ("Torch's fused kernel, a fused layer.", "Torch's fused kernel, a fused layer>fused-layer."),
    ],
)
def test_which_words_of_a_text_lead_there(text, expected):
    assert led(text) == [expected]


def test_only_the_first_use_of_the_whole_lesson_and_none_below_try_it():
    assert led("A mask.", "A mask, a sink.", "## Try it\n\nA gate.") == [
        "A mask>mask.",
        "A mask, a sink>sink.",
        "## Try it\n\nA gate.",
    ]


def test_a_stored_lesson_shows_few_of_them():
    text = "A head with a cache, FLOPs, an embedding."
    assert led(text, everywhere=False) == ["A head with a cache>kv-cache, FLOPs, an embedding>embedding."]  # 09: FLOPs
    assert led(text, name="00_lesson", everywhere=False)[0].startswith("A head>head")
    many = " ".join(f"{term.name}s," for term in TERMS if term.name not in SPELLINGS)
    assert led(many, name="99_lesson", everywhere=False)[0].count(">") == MOST


# ------------------------------------------------------------------------------------------ the command


@pytest.fixture
def stored(tmp_path, monkeypatch):
    nb = new_notebook(cells=[new_markdown_cell("# 09 · A lesson"), new_markdown_cell("A sink."), new_code_cell("1")])
    nb.cells[2].execution_count = 1
    nb.metadata.mhalib = {"source_sha256": source_hash(nb)}
    write(nb, tmp_path / "09_lesson.ipynb")
    write(nb, tmp_path / "torch_in_ten_minutes.ipynb")
    monkeypatch.setattr(tool, "NOTEBOOKS", tmp_path)
    return tmp_path / "09_lesson.ipynb"


def test_the_command_places_links_once_and_keeps_the_outputs(stored, capsys):
    other = (stored.parent / "torch_in_ten_minutes.ipynb").read_bytes()
    assert tool.main(["--check"]) == 1 and "09_lesson.ipynb: words" in capsys.readouterr().out
    assert tool.main([]) == 0 and capsys.readouterr().out == "09_lesson.ipynb: 1 links\n"
    nb = read(stored)
    assert stale(nb) is None and nb.cells[1].source == "A [sink](GLOSSARY.md#sink)."
    before = stored.read_bytes()
    assert tool.main(["09"]) == tool.main(["--check"]) == 0 and stored.read_bytes() == before
    assert (stored.parent / "torch_in_ten_minutes.ipynb").read_bytes() == other

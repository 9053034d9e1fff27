"""Which words of a lesson lead to the glossary on the site."""

import re

from nbformat.v4 import new_markdown_cell, new_notebook

from tools.notebooks.run import NOTEBOOKS
from tools.notebooks.terms import glossary, with_links

TERMS = glossary((NOTEBOOKS / "GLOSSARY.md").read_text(encoding="utf-8"))
TEXTS = [  # each link as `word>entry`
    "A head>head, then a head.",
    "Heads>head and **keys>key** and *queries>query*.",
    "Multi-head, head-on, headed, behead.",
    "An induction head>induction-head and a head>head.",
    "Additive masks>additive-mask, a mask>mask.",
    "A saturated>saturation softmax>softmax.",
    "`head_dim`>head_dim of `x.head_dim` and `W_o`>w_q-to-w_o.",
    "head_dim, T and B",  # names are code
    "## A head\n\nA head>head",
    "| a head | key |\n|---|---|\n| a | b |\n\nA key>key",
    "| `B`>b | x |\n|---|---|\n| `T`>t | `B` |",
    "$head$ and $$\nkey\n$$ and <b title='head'> head>head",
    "```\nhead\n```\nhead>head",
    "[a head](03_x.ipynb#head) and ![key](../x.png), key>key",
    "**Predict.** Which head?\n\nThe head>head.",
    "Drag *Heads*, read *one head is all you need*; a head>head.",
    "A road map, then a map>attention-map.",
    "Which values came? Keys>key and values>value.",
    "He claims it. A claim>claim holds.",
    "The contiguous order; a tensor is *contiguous>contiguous*.",
    "Of other ranks; of rank>rank 6.",
    "On the other arm; the arm>arm that won.",
    "Torch's fused kernel, a fused layer>fused-layer.",
]


def led(*texts):
    """Return the texts of a lesson with their links, as `word>entry`."""
    nb = new_notebook(cells=[new_markdown_cell(text) for text in ("# 09 · A head", *texts)])
    linked = re.compile(r"\[([^]]+)\]\(GLOSSARY\.md#([^)]+)\)")
    return [linked.sub(r"\1>\2", cell.source) for cell in with_links(nb, TERMS).cells[1:]]


def test_which_words_of_a_text_lead_there():
    came = [led(re.sub(r">[\w-]+(?=[\s.,:;*|]|$)", "", text))[0] for text in TEXTS]
    assert came == TEXTS


def test_only_the_first_use_in_a_lesson_none_that_it_leads_there_itself_and_none_below_try_it():
    assert led("A mask.", "A mask, a sink.") == ["A mask>mask.", "A mask, a sink>sink."]
    assert led("A mask.", "See the [mask](GLOSSARY.md#mask).") == ["A mask.", "See the mask>mask."]
    assert led("## Try it\n\nA gate.") == ["## Try it\n\nA gate."]

"""A lesson of a few cells, a notebook without a number, and the site made of both, for the tests of its pages."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from mhacourse import predict
from tests.helpers.small_sentences import small_sentences
from tools.site import build as build_site
from tools.site import live as live_lessons
from tools.site import questions, real_model

ASKED = predict.which_split  # a question of a real lesson; its words are that lesson's business
RIGHT, WRONG = ASKED.right, next(choice for choice in ASKED.options if choice != ASKED.right)
LESSON = [
    (
        "slide",
        "# 07 · Heads & tokens < all\n\n*Question: does `a < b` work?*\n\nAfter this lesson you can\n\n- read it.\n\n"
        "About 5 minutes. See the [glossary](GLOSSARY.md#Head-dim).",
    ),
    (
        "subslide",
        "%%code\nimport torch\nfrom mhalib import claim\nfrom mhacourse import check, predict\n"
        "from headview import HeadLab, HeadView\ntorch.manual_seed(0)",
    ),
    (
        "slide",
        "## Why √d?\n\nThe scale is $\\frac{1}{\\sqrt{d}}$ and *in full*:\n\n$$ a < b $$\n\n"
        "| a | b |\n|---|---|\n| 1 | `x` |",
    ),
    ("-", "Some words before.\n\n**Predict.** Which of the two?"),
    ("subslide", "%%code\nHeadView(torch.randn(2, 3, 3).softmax(-1))"),
    (
        "-",
        "The first sentence says `1. It is` enough for a slide of any class. The second one is for the teacher, who "
        "wants to know more than what stands on the wall behind.\n\n"
        "See [the next](07_lesson.ipynb), ![a map](../images/hero.png), [below](#Of-$\\sqrt{d}$-heads) and "
        "[there](07_lesson.ipynb#In-the-open:-`x`).",
    ),
    ("slide", "## Of $\\sqrt{d}$ heads\n\nThis is open.\n\n**Predict.** Which candidate is right?\n\nGuess."),
    ("-", "%%code\npredict.which_split()"),
    ("-", "%%code\ncandidate = [10, 11]"),
    (
        "subslide",
        "%%code\nclaim(True, 'row <1> of `head 0` holds · nearly', share=0.912)\nclaim(True, 'and <b>both</b>')\n"
        "print('candidate', candidate, '<i>')\npredict.which_split.reveal()",
    ),
    ("-", "**Predict.** It cuts <em>features</em>: how much is lost?"),
    ("subslide", "%%code\nHeadLab(*torch.randn(3, 4, 8), num_heads=2)"),
    (
        "-",
        "Nothing gets lost in it.\n\n### In the open: `x`\n\nEverybody reads this.\n\n- **Predict** asks nothing here.",
    ),
    ("subslide", "%%code\nprint('in sight')"),
    ("-", "%%code\n# Helper: draw <it>\nprint('drawn')"),
    ("-", "%%code\n# Helper: only names\nname = 3"),
    ("-", "%%code\n# Proof: it holds\nprint('what a proof says')"),
    ("slide", "## Try it\n\n**1 · Do it** ★ (5 minutes). Do this."),
    ("skip", "%%code\nshapes = ...\ncheck.first_shapes(shapes)"),
    ("slide", "## What you now know\n\n- This."),
    ("-", "%%code\npredict.results('03')"),
]
OTHER = [  # without a number
    (
        "slide",
        "# Torch & tensors\n\n*What `a < b` is for.*\n\nA **tensor** holds numbers; see [it](GLOSSARY.md#head-dim).",
    ),
    ("-", "%%code\nprint('numbers')"),
    ("-", "Of each **token** it has a row, of two tokens two."),
]
QUESTIONS = """
Why <b> the root? | 07_lesson.ipynb | cell-2 | Why √d?
What of a row of tokens? | 07_lesson.ipynb | cell-9 | of `head 0` holds
Is it open? | 07_lesson.ipynb | cell-12 | Everybody reads this
Who else knows? | 12_gone.ipynb | cell-1 | that is not on this site
"""
CODE = "%%code\n"


def cell(kind: str, source: str) -> NotebookNode:
    if source.startswith(CODE):
        stored = new_output("stream", name="stdout", text="stored\n")  # of the lesson in the repository
        made = new_code_cell(source.removeprefix(CODE), outputs=[stored])
    else:
        made = new_markdown_cell(source)
    made.metadata.slideshow = {"slide_type": kind}
    if folds := re.match(rf"{CODE}# (Helper|Proof): ", source):
        made.metadata.tags = [folds[1].lower()]
    return made


def make_site(folder: Path) -> Path:
    """Build the pages and the slides of the lesson and of a notebook without a number, and return where they are."""
    path = folder / "notebooks" / "07_lesson.ipynb"
    path.parent.mkdir()
    nb = new_notebook(cells=[cell(*said) for said in LESSON])
    for number, made in enumerate(nb.cells):
        made.id = f"cell-{number}"
    nbformat.write(nb, path)
    (path.parent / "TEACHING.md").write_text("# For teachers\n\n[A page](HANDOUT.md), [more](../README.md).")
    other = path.parent / "torch_in_ten_minutes.ipynb"
    nbformat.write(new_notebook(cells=[cell(*said) for said in OTHER]), other)
    (path.parent / "GLOSSARY.md").write_text(
        "# Glossary\n\n## Head dim\n\nFeatures of a head.\n\n## `W_o`\n\nMixes.\n\n"
        "## token\n\nThe unit of a text: a *word* & what has `<b>` in it, or a piece of one. *Also called:* x."
    )
    (path.parent / "HANDOUT.md").write_text("# On one page\n\nSee [this](07_lesson.ipynb).")
    (path.parent / "FRONT_ENDS.md").write_text("# Where it runs\n\nIn a [class](TEACHING.md), too.")
    (path.parent / "YOUR_MODEL.md").write_text("# Your own model\n\nFirst [install](INSTALL.md) it.")
    (path.parent / "INSTALL.md").write_text("# Other ways to start\n\nBy hand.")
    (path.parent / "LIVE.md").write_text(f"# Live\n\nType.\n\n{real_model.PLACE}\n\n## Below\n\nSee.")
    (folder / "questions.txt").write_text(QUESTIONS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "SOURCE", folder / "questions.txt")
        patch.setattr(live_lessons, "KEPT", folder / "kept")
        patch.setattr(build_site, "NOTEBOOKS", path.parent)
        patch.setattr(real_model, "load_minilm", small_sentences)
        build_site.build([path, other], folder / "site")
    return folder / "site"

"""A lesson of a few cells and the site made of it, for the tests of pages and slides."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.site import build as build_site
from tools.site import live as live_lessons

LESSON = [
    new_markdown_cell(
        "# 07 · A lesson\n\n*Question: does it work?*\n\nAfter this lesson you can\n\n- read it.\n\nAbout 5 minutes."
    ),
    new_code_cell("import torch\nfrom mhalib.widgets import HeadView\ntorch.manual_seed(0)"),
    new_markdown_cell(
        "## Why √d?\n\nThe scale is $\\frac{1}{\\sqrt{d}}$ and *in full*:\n\n$$ a < b $$\n\n"
        "| a | b |\n|---|---|\n| 1 | `x` |"
    ),
    new_markdown_cell("Some words before.\n\n**Predict.** Which of the two?"),
    new_code_cell("HeadView(torch.randn(2, 3, 3).softmax(-1))"),
    new_markdown_cell(
        "The first sentence says `1. It is` enough for a slide of any class. The second one is for the teacher, who "
        "wants to know more than what stands on the wall behind.\n\n"
        "See [the next](07_lesson.ipynb), ![a map](../images/hero.png)."
    ),
    new_markdown_cell("## Try it\n\n**1 · Do it** ★ (5 minutes). Do this."),
    new_code_cell("print('stub')"),
]


for cell, kind in zip(LESSON, ("slide", "subslide", "slide", "-", "subslide", "-", "slide", "skip"), strict=True):
    cell.metadata.slideshow = {"slide_type": kind}


def make_site(folder: Path) -> Path:
    """Build the pages and the slides of the lesson in `folder`, and return where they are."""
    path = folder / "notebooks" / "07_lesson.ipynb"
    path.parent.mkdir()
    nbformat.write(new_notebook(cells=LESSON), path)
    (path.parent / "TEACHING.md").write_text("# For teachers\n\n[A page](HANDOUT.md), [more](../README.md).")
    (path.parent / "HANDOUT.md").write_text("# On one page\n\nSee [this](07_lesson.ipynb).")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_lessons, "KEPT", folder / "kept")
        patch.setattr(build_site, "NOTEBOOKS", path.parent)
        build_site.build([path], folder / "site")
    return folder / "site"

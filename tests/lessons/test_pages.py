"""Torch in ten minutes and the glossary: they keep their promises, and every link of them holds."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.links import broken, fault, github_places, has_place, headings, lab_places
from tools.notebooks.lessons import lessons
from tools.notebooks.run import NOTEBOOKS, read

TORCH, GLOSSARY = NOTEBOOKS / "torch_in_ten_minutes.ipynb", NOTEBOOKS / "GLOSSARY.md"
# What a reader of the lessons has to find, at least.
TERMS = """
ablation · additive mask · arm · attention weight · b · broadcast · causal · claim · contiguous · cross-attention ·
d_model · embedding · entropy · feed-forward · flops · fused layer · gate · grouped-query attention · head ·
head_dim · importance · induction head · interval · key · kv cache · layer norm · layout · logits · mask · merge ·
multi-query attention · num_heads · output projection · padding · polarity · position · previous-token head ·
projection · pruning · query · residual · scale · score · seed · self-attention · sink · softmax · split · stride ·
t · temperature · token · valid_lens · value · w_q to w_o
"""

each_page = pytest.mark.parametrize("page", [TORCH, GLOSSARY], ids=["torch", "glossary"])


def text_of(page: Path) -> str:
    if page.suffix == ".ipynb":
        return "\n\n".join(cell.source for cell in read(page).cells if cell.cell_type == "markdown")
    return page.read_text(encoding="utf-8")


def sections(page: Path) -> dict[str, str]:
    """Return the text under each heading of the page, by the heading."""
    _, *parts = re.split(r"^## (.+)$", text_of(page), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


# ---------------------------------------------------------------- both


@each_page
def test_a_heading_has_the_same_name_on_github_in_jupyterlab_and_on_the_site(page):
    named = headings(text_of(page))[1:]  # the title aside
    assert named == list(sections(page)) and len(named) == len(set(named))
    for heading in named:
        assert re.fullmatch(r"[a-z0-9_]+([ -][a-z0-9_]+)*", heading), f"{heading}: small letters, digits, _ and spaces"
        assert github_places(f"# {heading}") == lab_places(f"# {heading}") == [re.sub(" ", "-", heading)]


@each_page
def test_every_section_leads_to_the_place_in_a_lesson_where_it_is_taught(page):
    known = {f"{lesson.name}.ipynb" for lesson in lessons()}
    for heading, text in sections(page).items():
        led = re.findall(r"\]\(([^)#]+\.ipynb)#([^)]+)\)", text)
        assert led, f"{heading} leads to no lesson"
        assert {lesson for lesson, _ in led} <= known


# ---------------------------------------------------------------- torch in ten minutes

# What the lessons use of torch, by the part of the notebook that shows its kind; a lesson says of the others what they
# do where it uses them. Names of methods begin with a dot.
OFTEN = 7  # lessons; what so many use is shown


# ---------------------------------------------------------------- the glossary


def test_the_glossary_is_in_order_and_has_what_the_lessons_name():
    terms = list(sections(GLOSSARY))
    assert terms == sorted(terms)
    assert set(" ".join(TERMS.split()).split(" · ")) <= set(terms)


# ---------------------------------------------------------------- what the checker of links knows of places


def test_places_are_called_as_github_and_jupyterlab_call_them():
    # Taken from JupyterLab 4.6, and from GitHub's rule: small, no punctuation, hyphens for spaces.
    known = {
        "## head_dim": ("head_dim", "head_dim"),
        "## Layer norm": ("layer-norm", "Layer-norm"),
        "## Why divide by √head_dim?": ("why-divide-by-head_dim", "Why-divide-by-√head_dim?"),
        "## T, Tq & Tk": ("t-tq--tk", "T,-Tq-&-Tk"),
        "## `W_o` is a sum over heads": ("w_o-is-a-sum-over-heads", "W_o-is-a-sum-over-heads"),
        "### Why so often `True`?": ("why-so-often-true", "Why-so-often-True?"),
    }
    for heading, (github, lab) in known.items():
        assert (github_places(heading), lab_places(heading)) == ([github], [lab])
    assert github_places("# One\n\n## Two\n\n## Two\n\n### Two") == ["one", "two", "two-1", "two-2"]
    assert lab_places("## In place of $W_o$\n\n## Plain") == ["Plain"]  # typeset before it is named


def test_a_place_that_is_not_there_is_found(tmp_path):
    (tmp_path / "page.md").write_text("# A page\n\n## Layer norm\n\n[here](#layer-norm)", encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"")
    lesson = tmp_path / "lesson.ipynb"
    lesson.write_bytes((NOTEBOOKS / "03_splitting_into_heads.ipynb").read_bytes())
    good = "[a](page.md#layer-norm) [b](lesson.ipynb#What-a-split-must-do) [c](#What-a-split-must-do)"
    wrong = ["page.md#Layer-norm", "lesson.ipynb#what-a-split-must-do", "#layer-norm", "picture.png#part"]
    assert broken(good, lesson, tmp_path) == []
    assert broken(" ".join(f"[x]({target})" for target in wrong), lesson, tmp_path) == wrong
    assert fault("page.md#layer", lesson, tmp_path, has_place) == "leads to no place in its page"
    (tmp_path / "page.md").write_text("# A page\n\n## Layer\n\nchanged since it was asked", encoding="utf-8")
    assert broken("[a](page.md#layer)", lesson, tmp_path) == []


def test_a_link_that_jupyterlab_does_not_follow_is_found(tmp_path):
    lesson, other = tmp_path / "lesson.ipynb", tmp_path / "other.ipynb"
    cells = [new_markdown_cell('## Why √?\n\n## Why not?\n\n## Say "no"')]
    for path in (lesson, other):
        nbformat.write(new_notebook(cells=cells), path)
    text = "[a](#Why-√?) [b](#Why-%E2%88%9A?) [c](#Why-not?) [d](#Say-%22no%22) [e](other.ipynb#Why-√?)"
    assert broken(text, lesson, tmp_path) == ["#Why-%E2%88%9A?", "#Why-%E2%88%9A?", "#Say-%22no%22"]

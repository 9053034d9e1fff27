"""Torch in ten minutes and the glossary: every place of them can be led to, and what the checker of links knows."""

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.links import broken, headings
from tools.notebooks.lessons import lessons
from tools.notebooks.run import NOTEBOOKS, read

TORCH, GLOSSARY = NOTEBOOKS / "torch_in_ten_minutes.ipynb", NOTEBOOKS / "GLOSSARY.md"


def text_of(page: Path) -> str:
    if page.suffix == ".ipynb":
        return "\n\n".join(cell.source for cell in read(page).cells if cell.cell_type == "markdown")
    return page.read_text(encoding="utf-8")


def test_every_section_has_one_name_everywhere_and_leads_to_a_lesson():
    known = {f"{lesson.name}.ipynb" for lesson in lessons()}
    wrong = []
    for page in (TORCH, GLOSSARY):
        named = headings(text_of(page))[1:]  # the title aside
        _, *parts = re.split(r"^## (.+)$", text_of(page), flags=re.MULTILINE)
        assert named == parts[::2] and len(named) == len(set(named))
        # GitHub, JupyterLab and the site make the same place of small letters, digits, _ and spaces.
        wrong += [heading for heading in named if not re.fullmatch(r"[a-z0-9_]+([ -][a-z0-9_]+)*", heading)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True):
            led = set(re.findall(r"\]\(([^)#]+\.ipynb)#[^)]+\)", text))
            wrong += [heading] * (not led or not led <= known)
    assert wrong == []
    terms = headings(text_of(GLOSSARY))[1:]
    assert terms == sorted(terms)


def test_links_are_held_to_the_names_of_who_shows_the_page(tmp_path):
    """Names of places as JupyterLab 4.6 makes them in a notebook, and GitHub in a page: small, no punctuation."""
    names = ("Layer norm", "Why √head_dim?", "T, Tq & Tk", "`W_o` is", "Two", "Two", "In $W_o$", 'Say "no"')
    texts = "\n\n".join(["# A page", *(f"## {name}" for name in names)])
    page, lesson, other = (tmp_path / name for name in ("page.md", "lesson.ipynb", "other.ipynb"))
    page.write_text(texts, encoding="utf-8")
    for path in (lesson, other):
        nbformat.write(new_notebook(cells=[new_markdown_cell(texts)]), path)
    (tmp_path / "picture.png").write_bytes(b"")
    good = "#layer-norm #why-head_dim #t-tq--tk #w_o-is #two #two-1 lesson.ipynb#Layer-norm lesson.ipynb#W_o-is"
    wrong = "#Layer-norm #two-2 lesson.ipynb#layer-norm picture.png#part gone.md ../outside"
    in_a_lesson = "#Layer-norm #T,-Tq-&-Tk #W_o-is page.md#layer-norm other.ipynb#Why-√head_dim?"
    # JupyterLab does not follow what a browser encodes within one notebook, and a formula is typeset first.
    wrong_there = "#layer-norm #Why-%E2%88%9Ahead_dim? #Say-%22no%22 #In-$W_o$"
    for path, right, others in ((page, good, wrong), (lesson, in_a_lesson, wrong_there)):
        links = "\n\n".join(f"[x](<{target}>)" for target in f"{right} {others}".split())
        assert broken(links, path, tmp_path) == others.split()

"""Pages beside the lessons: what the checker of links knows, which words lead to the glossary, where questions lead."""

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.links import broken, headings
from tools.notebooks.lessons import lessons
from tools.notebooks.run import NOTEBOOKS, ROOT, read
from tools.notebooks.terms import glossary, with_links
from tools.site.questions import box, heading_above, in_readme, questions

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


# ------------------------------------------------------------------------------------------ words of the glossary

TERMS = glossary(GLOSSARY.read_text(encoding="utf-8"))
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


# ------------------------------------------------------------------------------------------ what are you looking for?


def test_each_question_leads_to_a_cell_of_its_own_that_still_says_the_answer():
    wrong, asked = [], questions()
    for one in asked:
        nb = read(NOTEBOOKS / one.notebook)
        said = next((cell.source for cell in nb.cells if cell.id == one.cell), "")
        if one.words not in said or heading_above(nb, one) in ("Try it", "What you now know"):
            wrong.append(f"{one.notebook}, {one.cell}: {one.asked}")
    assert wrong == [] and len({(one.notebook, one.cell) for one in asked}) == len(asked) == 74


def test_readme_and_site_list_them_all():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert in_readme(readme) == readme, "run python -m tools.site.questions"
    pages = {path.stem: read(path) for path in NOTEBOOKS.glob("*.ipynb")}
    assert [row["asked"] for row in box(pages)] == [one.asked for one in questions()]

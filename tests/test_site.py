"""The site and the slides: what a lesson becomes, and what must hold of every page.

In a browser: `browser/test_site.py`.
"""

import json

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.site import build as build_site
from tools.site import live, slides
from tools.site.export import DeckExporter, as_mathml


def soup(site, name):
    return BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")


def test_a_page_holds_maths_widgets_links_and_the_notebook(site):
    page = soup(site, "07_lesson.html")
    assert len(page.find_all("math")) == 2 and page.find("mfrac") and "$" not in page.main.get_text()
    assert len(page.select(".mhalib-view")) == 1 and "model_id" not in str(page)
    assert page.find(id="why-d")
    assert page.find("a", href="07_lesson.html", string="the next")
    assert page.find("img", src="images/hero.png")["alt"] == "a map"
    assert page.select(".wide table")
    assert (site / "07_lesson.ipynb").is_file()


def test_a_formula_that_cannot_be_set_is_refused():
    assert "<math" in as_mathml(r"\frac{a}{b} \cdot \begin{pmatrix} a & b \\ c & d \end{pmatrix}")
    assert "<math" in as_mathml(r"\mathit{in}")  # a letter that is written as an entity
    with pytest.raises(ValueError, match="write each of its lines"):
        as_mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}")


def test_the_notes_for_teachers_are_pages_that_the_search_does_not_know(site):
    teaching, handout = soup(site, "teaching.html"), soup(site, "handout.html")
    assert teaching.h1.find(string=True) == "For teachers" and teaching.find("a", href="handout.html")
    assert not teaching.find("a", href="../README.md") and "more" in teaching.main.get_text()
    assert handout.main.find("a", href="07_lesson.html") and not handout.select("main .tools")
    assert soup(site, "07_lesson.html").select("main .tools") and soup(site, "index.html").find(
        "a", href="teaching.html"
    )
    assert "teachers" not in (site / "contents.js").read_text(encoding="utf-8")


def test_files_that_are_no_site_are_not_replaced(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(SystemExit, match="would be lost, so name an empty or a new folder"):
        build_site.build([], tmp_path)
    assert (tmp_path / "letters.txt").read_text() == "mine"


def test_a_lesson_is_executed_once_for_each_state(site):
    assert len(list((site.parent / "kept").iterdir())) == 1  # for the page and for the slides


def test_the_built_pages_have_no_faults(site):
    assert build_site.faults(site) == []


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ('<a href="nowhere.html">x</a>', "leads to no file"),
        ('<a href="07_lesson.html#nowhere">x</a>', "leads to no place"),
        ('<a href="#nowhere">x</a>', "leads to no place"),
        ('<img src="https://example.org/x.png" alt="x">', "https://example.org/x.png is fetched from elsewhere"),
        ('<script src="//example.org/x.js"></script>', "//example.org/x.js is fetched"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "is fetched"),
        ('<img src="images/hero.png">', "without a description"),
    ],
)
def test_faults_are_named(site, tmp_path, broken, says):
    for part in ("07_lesson.html", "page.css", "theme.js", "page.js", "contents.js", "index.html", "07_lesson.ipynb"):
        (tmp_path / part).write_bytes((site / part).read_bytes())
    (tmp_path / "images").symlink_to(site / "images")
    (tmp_path / "slides").symlink_to(site / "slides")
    (tmp_path / "broken.html").write_text(f"<main>{broken}</main>", encoding="utf-8")
    (found,) = [fault for fault in build_site.faults(tmp_path) if fault.startswith("broken.html")]
    assert says in found


def test_too_many_bytes_are_a_fault(site, monkeypatch):
    monkeypatch.setattr(build_site, "MAX_BYTES", 1000)
    assert any("MB" in fault for fault in build_site.faults(site))


def test_the_search_knows_sections_and_their_text(site):
    text = (site / "contents.js").read_text(encoding="utf-8")
    contents = json.loads(text.removeprefix("const CONTENTS = ").rstrip(";\n"))
    assert [entry["section"] for entry in contents] == ["07 · A lesson", "Why √d?", "Try it"]
    assert "for the teacher" in contents[1]["text"]
    for entry in contents:
        name, _, place = entry["href"].partition("#")
        assert not place or soup(site, name).find(id=place)


def test_slides_show_a_prediction_alone_and_the_answer_next(site):
    deck = soup(site, "slides/07_lesson.html")
    parts = deck.select(".slides > section > section")
    predict = next(i for i, part in enumerate(parts) if part.select(".predict"))
    assert "Which of the two?" in parts[predict].get_text() and not parts[predict].select(".cell")
    assert parts[predict + 1].select(".mhalib-view")


def test_slides_keep_the_first_sentence_and_give_the_rest_to_the_speaker(site):
    deck = soup(site, "slides/07_lesson.html")
    (notes,) = [part for part in deck.select("aside.notes") if "for the teacher" in part.get_text()]
    slide = notes.find_parent("section")
    notes.extract()
    assert "enough for a slide" in slide.get_text() and "for the teacher" not in slide.get_text()


def test_slides_list_the_exercises_without_their_cells(site):
    deck = soup(site, "slides/07_lesson.html")
    assert "Do it" in deck.get_text() and "stub" not in deck.get_text()


def test_slides_lose_nothing_of_a_lesson(site):
    """Every word of the text is on a slide or in the notes, in its order."""
    deck = " ".join(soup(site, "slides/07_lesson.html").select_one(".slides").get_text().split())
    for said in ("does it work?", "read it.", "Some words before.", "The second one is for the teacher"):
        assert said in deck


def slide_cell(source, kind, new=new_markdown_cell):
    return new(source, metadata={"slideshow": {"slide_type": kind}})


def kinds(*cells):
    """Return how each part of a show begins, and what it holds."""
    parts = slides.as_slides(new_notebook(cells=list(cells))).cells
    return [(slides.slide_type(part), part.source) for part in parts]


def test_slides_obey_the_slide_types():
    shown = kinds(
        slide_cell("# A", "slide"),
        slide_cell("a = 1", "subslide", new_code_cell),
        slide_cell("only read", "skip"),
        slide_cell("print(a)", "skip", new_code_cell),
        slide_cell("said aloud", "notes"),
        slide_cell("later", "fragment"),
        slide_cell("at once", ""),  # what JupyterLab 4 writes for "-"
    )
    expected = [("slide", "# A"), ("subslide", "a = 1"), ("fragment", "later"), ("-", "at once")]
    assert shown == [*expected, ("notes", "said aloud")]


def test_a_heading_or_a_prediction_inside_a_text_begins_a_slide():
    asked = "**Predict.** Which?"
    source = f"What came out.\n\n{asked}\n\n## Next\n\nWhy.\n\n### In detail\n\n{asked}\n\nAnd so on."
    assert [kind for kind, _ in kinds(slide_cell(source, "-"))] == [
        *("-", "subslide"),  # the prediction stands alone
        *("slide", "-"),
        *("subslide", "-", "-"),  # below a heading it stays with the heading
    ]
    assert kinds(slide_cell("## Next", "-")) == [("-", "## Next")]  # the first block begins as its cell does


def test_a_fragment_waits_for_a_key():
    lesson = new_notebook(cells=[slide_cell("# 00 · A", "slide"), slide_cell("later", "fragment")])
    text, _ = DeckExporter().from_notebook_node(slides.as_slides(lesson), {"page": {"name": "", "title": ""}})
    (fragment,) = BeautifulSoup(text, "html.parser").select(".fragment")
    assert "later" in fragment.get_text() and fragment.find_parent("section")


def test_a_changed_slide_type_executes_nothing_and_counts_at_once(tmp_path, monkeypatch):
    path, runs = tmp_path / "00_a.ipynb", []
    monkeypatch.setattr(live, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(live, "execute", lambda path: runs.append(path) or nbformat.read(path, as_version=4))
    for kind in ("slide", "skip"):
        nbformat.write(new_notebook(cells=[slide_cell("# A", kind)]), path)
        assert slides.slide_type(live.executed(path).cells[0]) == kind
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Short. And whole.", "Short. And whole."),
        (
            "A sentence that ends with a point, as they do. " + "Another. " * 30,
            "A sentence that ends with a point, as they do.",
        ),
        (
            "The code `a. B` is no end, and $x. Y$ is none either. " + "More. " * 40,
            "The code `a. B` is no end, and $x. Y$ is none either.",
        ),
        (
            "It is 0.5 or e.g. this one that goes on and on. " + "More of it. " * 20,
            "It is 0.5 or e.g. this one that goes on and on.",
        ),
    ],
)
def test_first_sentence(text, first):
    assert slides.first_sentence(text) == first


def test_blocks_keep_fenced_code_together():
    assert slides.blocks("a\nb\n\n```\nx\n\ny\n```\n\n\nc") == ["a\nb", "```\nx\n\ny\n```", "c"]

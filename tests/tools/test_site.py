"""The site and the slides: what a lesson becomes, and what must hold of every page.

In a browser: `test_site_page.py`.
"""

import importlib
import json
import pkgutil
from functools import cache
from urllib.parse import urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import mhalib
from tests.helpers.small_site import RIGHT, WRONG
from tools.notebooks.run import PACKAGES
from tools.site import build as build_site
from tools.site import live, reference, slides
from tools.site.answers import cover
from tools.site.export import as_mathml, inline_code, printed


@cache
def read(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def soup(site, name):
    return read(site / name)


def contents(site):
    text = (site / "contents.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("const CONTENTS = ").rstrip(";\n"))


def test_a_page_holds_maths_widgets_links_and_the_notebook_without_outputs(site):
    page = soup(site, "07_lesson.html")
    assert len(page.find_all("math")) == 3 and page.find("mfrac") and "$" not in page.main.get_text()
    assert len(page.select(".mhalib-view")) == 3 and "model_id" not in str(page)
    links = {link.text: link["href"] for link in page.main.find_all("a")}
    assert links["the next"] == "07_lesson.html" and links["there"] == "07_lesson.html#in-the-open-x"
    assert links["below"] == "#of-sqrt-d-heads" and page.find("h2", id="of-sqrt-d-heads") and page.find(id="why-d")
    assert page.find("img", src="images/hero.png")["alt"] == "a map" and page.select(".wide table")
    assert page.find("a", href="07_lesson.ipynb", download=True)
    nb = nbformat.read(site / "07_lesson.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in nb.cells) and "../notebooks/GLOSSARY.md" in nb.cells[0].source


def test_pages_beside_the_lessons_are_listed_and_found_and_those_for_teachers_are_not(site):
    for name in ("07_lesson.html", "index.html", "glossary.html"):
        beside = soup(site, name).select("#lessons .beside a")
        assert [link["href"] for link in beside] == ["torch_in_ten_minutes.html", "glossary.html", "reference.html"]
    assert soup(site, "07_lesson.html").main.find("a", href="glossary.html#head-dim")
    assert soup(site, "slides/07_lesson.html").find("a", href="../glossary.html#head-dim")
    found = contents(site)
    assert ("Glossary", "Head dim", "glossary.html#head-dim") in [(x["short"], x["section"], x["href"]) for x in found]
    assert "gated_heads" in [entry["section"] for entry in found] and "teachers" not in str(found)
    teaching = soup(site, "teaching.html").main
    assert teaching.find("a", href="handout.html") and not teaching.find("a", href="../README.md")


def test_a_notebook_without_a_number_and_a_word_of_the_glossary_in_it(site):
    page = soup(site, "torch_in_ten_minutes.html")
    assert page.title.text == "Torch & tensors" and "numbers" in page.select_one(".output").text
    assert page.select("main .tools") and not page.select("nav.around")  # nothing before it, nothing after it
    by_author, link = page.select("a.term")  # a second use is none
    assert (by_author.text, by_author["href"]) == ("it", "glossary.html#head-dim")
    assert (link.text, link["href"], link.parent.name) == ("token", "glossary.html#token", "strong")
    tip = page.find(id=link["aria-describedby"])
    assert tip["role"] == "tooltip" and tip.has_attr("popover") and not tip.find_parent("main")
    assert tip.text == "token: The unit of a text: a word & what has <b> in it, or a piece of one."
    assert not soup(site, "slides/torch_in_ten_minutes.html").select(".term, .tip")


def test_what_a_lesson_brings_is_text(site):
    """No character of a title, a question or a printed line is taken for HTML."""
    for name in ("07_lesson.html", "slides/07_lesson.html"):
        page = soup(site, name)
        assert page.title.text == "07 · Heads & tokens < all"
        said = [line.get_text() for line in page.select("ul.claims li")]
        assert said == ["✓row <1> of head 0 holds · nearly · share 0.912", "✓and <b>both</b>"]
        assert "candidate [10, 11] <i>" in page.get_text() and not page.select("i, .claims b")
    page = soup(site, "index.html")
    assert page.select_one(".road a").text == "07 · Heads & tokens < all"
    assert "Does a < b work?" in page.main.get_text() and page.select_one(".road code").text == "a < b"
    html = BeautifulSoup(printed("  first\n✓ b · c holds · d · x .5\n\x1b[31mred\x1b[0m <i>"), "html.parser")
    assert [tag.name for tag in html.find_all(recursive=False)] == ["pre", "ul", "pre"]
    assert [tag.get_text() for tag in html.select("pre, .came")] == ["  first", "· x .5", "red <i>"]
    assert inline_code("a `x<y` & <b>") == "a <code>x&lt;y</code> &amp; &lt;b&gt;"


def test_the_first_page_lists_all_notebooks_and_has_a_live_lab_counts_and_questions_with_answers(site):
    page = soup(site, "index.html")
    assert [row.a["href"] for row in page.select("ol.road li")] == ["07_lesson.html"]
    assert [row.a["href"] for row in page.select("ul.road li")] == ["torch_in_ten_minutes.html"]  # it has no number
    assert page.find("a", href="teaching.html") and len(page.select(".alive .mhalib-view")) == 1
    assert page.select_one("main noscript img")["alt"].startswith("Attention maps")
    counts = page.select_one(".counts").get_text()
    assert counts == "2 claims, each tried while these pages were made, 3 predictions, 1 exercise."
    rows = page.select("#asked li")
    assert [row.a.text for row in rows] == ["Why <b> the root?", "What of a row of tokens?", "Is it open?"]
    assert [row.small.text for row in rows] == ["07 · Why √d?", "07 · Why √d?", "07 · In the open: x"]
    assert all(soup(site, "07_lesson.html").find(id=urlsplit(row.a["href"]).fragment) for row in rows)
    assert "holds · nearly" in rows[1]["data-words"] and "everybody reads" in rows[2]["data-words"]


def test_the_search_knows_sections_their_text_and_what_is_covered(site):
    known = [entry for entry in contents(site) if entry["short"] == "07"]
    sections = ["07 · Heads & tokens < all", "Why √d?", "Of ", "In the open: ", "Try it", "What you now know"]
    assert [entry["section"] for entry in known] == sections
    assert "Some words before" in known[1]["text"] and "for the teacher" not in known[1]["text"]
    ((place, text),) = known[1]["answers"]
    assert place == "07_lesson.html#answer-1-2" and "for the teacher" in text
    places = [href for entry in contents(site) for href in (entry["href"], *(place for place, _ in entry["answers"]))]
    parts = [place.partition("#") for place in places]
    assert [place for name, _, place in parts if place and not soup(site, name).find(id=place)] == []


# ---------------------------------------------------------------- building


def test_other_files_are_not_replaced_and_a_formula_that_cannot_be_set_is_refused(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(SystemExit, match="would be lost"):
        build_site.build([], tmp_path)
    assert (tmp_path / "letters.txt").read_text(encoding="utf-8") == "mine"
    assert "<math" in as_mathml(r"\frac{a}{b} \cdot \begin{pmatrix} a & b \\ c & d \end{pmatrix}")
    assert "<mtext>head_dim</mtext>" in as_mathml(r"\sqrt{\text{head\_dim}}")
    with pytest.raises(ValueError, match="formula"):
        as_mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}")


def test_a_lesson_is_executed_once_and_a_changed_slide_type_counts_at_once(site, tmp_path, monkeypatch):
    path = tmp_path / "07_lesson.ipynb"
    nb = nbformat.read(site.parent / "notebooks" / "07_lesson.ipynb", as_version=4)
    nb.cells[0].metadata.slideshow.slide_type = "skip"
    nbformat.write(nb, path)
    monkeypatch.setattr(live, "KEPT", site.parent / "kept")
    monkeypatch.setattr(live, "ProcessPoolExecutor", None)
    ran = live.executed([path])["07_lesson"]
    assert ran.cells[0].metadata.slideshow.slide_type == "skip" and "claim" in str(ran.cells)
    nb.cells[1].source += "\n1"
    nbformat.write(nb, path)
    with pytest.raises(TypeError):  # there is nothing to execute it with
        live.executed([path])


def test_faults_of_pages_are_named(site, tmp_path, monkeypatch):
    assert build_site.faults(site) == []
    (tmp_path / "page.html").write_text(
        '<p id="here"><a href="https://example.org">x</a><a href="page.html#here">x</a>'
    )
    (tmp_path / "broken.html").write_text(
        '<a href="nowhere.html">x</a><a href="page.html#nowhere">x</a><a href="#nowhere">x</a>'
        '<img src="https://example.org/x.png" alt="x"><script src="//example.org/x.js"></script>'
        '<link rel="stylesheet" href="https://example.org/x.css"><img src="page.html">'
    )
    found = build_site.faults(tmp_path)
    assert [fault.removeprefix("broken.html: ") for fault in found] == [
        "nowhere.html leads to no file",
        "page.html#nowhere leads to no place in its page",
        "#nowhere leads to no place in its page",
        "https://example.org/x.png is fetched from elsewhere",
        "//example.org/x.js is fetched from elsewhere",
        "https://example.org/x.css is fetched from elsewhere",
        "a picture without a description",
    ]
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "00.js").write_text("let all_the_weights;")
    for place in (build_site, build_site.real_model):
        monkeypatch.setattr(place, "MAX_BYTES", 10)
    told = [fault.partition(" have")[0] for fault in build_site.faults(tmp_path)[-2:]]
    assert told == ["the pages together", "the pieces of the model"]


# ---------------------------------------------------------------- slides


def test_slides_keep_answers_for_the_next_key_and_the_rest_of_a_paragraph_for_the_speaker(site):
    text = (site / "slides" / "07_lesson.html").read_text(encoding="utf-8")
    deck = BeautifulSoup(text, "html.parser")
    notes = " ".join(part.extract().get_text() for part in deck.select("aside.notes"))
    assert "The second one is for the teacher" in notes and "for the teacher" not in deck.get_text()
    parts = deck.select(".slides > section > section")
    predict = next(i for i, part in enumerate(parts) if part.select(".predict"))
    assert "Which of the two?" in parts[predict].get_text() and not parts[predict].select(".cell")
    assert parts[predict + 1].select(".mhalib-view")
    waiting = " ".join(part.get_text() for part in deck.select(".fragment"))
    assert len(deck.select(".fragment .mhalib-view")) == 2 and not deck.select(".fragment .code")
    for answer in ("both", "The answer", "The first sentence says", "enough for a slide", "how much is lost"):
        assert answer in waiting
    for shown in ("in sight", "Everybody reads", "candidate =", "Do it"):
        assert shown in deck.get_text() and shown not in waiting
    assert "first_shapes" not in deck.get_text()  # exercises are listed without their cells


def test_slides_obey_slide_types_headings_and_predictions():
    def kinds(*cells):
        parts = []
        for kind, source in cells:
            new = new_code_cell if source.startswith("a = ") else new_markdown_cell
            parts.append(new(source, metadata={"slideshow": {"slide_type": kind}}))
        shown = slides.as_slides(new_notebook(cells=parts)).cells
        return [(part.metadata.slideshow.slide_type, part.source) for part in shown]

    given = [("slide", "# A"), ("subslide", "a = 1"), ("notes", "said aloud"), ("fragment", "later"), ("-", "at once")]
    assert kinds(*given, ("skip", "a = 2"), ("skip", "only read")) == given
    assert kinds(("", "at once")) == [("-", "at once")]  # as JupyterLab 4 writes it
    asked = "**Predict.** Which?"
    source = f"What came out.\n\n{asked}\n\n## Next\n\nWhy.\n\n### In detail\n\n{asked}\n\nAnd so on."
    expected = ["-", "subslide", "slide", "-", "subslide", "-", "-"]  # below a heading a prediction stays with it
    assert [kind for kind, _ in kinds(("-", source))] == expected
    assert kinds(("-", "## Next")) == [("-", "## Next")]  # the first block begins as its cell does
    assert [text for _, text in kinds(("-", "a\nb\n\n```\nx\n\ny\n```\n\n\nc"))] == ["a\nb", "```\nx\n\ny\n```", "c"]
    cases = {  # of a long paragraph the first sentence is shown
        "Short. And whole.": "",
        "A sentence that ends with a point, as they do.": " Another." * 30,
        "The code `a. B` is no end, and $x. Y$ is none either.": " More." * 40,
        "It is 0.5 or e.g. this one that goes on and on.": " More of it." * 20,
    }
    assert [first for first, rest in cases.items() if slides.first_sentence(first + rest) != first] == []


# ---------------------------------------------------------------- what answers a prediction, and the reference


def test_helpers_and_proofs_are_folded_on_a_page_and_their_code_is_on_no_slide(site):
    page, deck = soup(site, "07_lesson.html"), soup(site, "slides/07_lesson.html")
    titles = [summary.get_text() for summary in page.select("details.folded:not([open]) > summary")]
    assert titles == ["Helper: draw <it>", "Helper: only names", "Proof: it holds"]
    assert page.select(".folded .code") and not page.select(".folded .output")
    assert "what a proof says" in page.main.get_text()
    assert "drawn" in deck.get_text()
    assert "what a proof says" not in deck.get_text() and "name = 3" not in deck.get_text()


def test_a_page_covers_what_answers_and_nothing_else_each_part_by_one_button(site):
    page = soup(site, "07_lesson.html")
    wrapped = " ".join(part.get_text() for part in page.select(".answer"))
    for answer in ("The first sentence", "nearly", f"The answer: {RIGHT}", "Nothing gets lost"):
        assert answer in wrapped
    for shown in ("Some words before", "how much is lost", "Guess.", f"○ {WRONG}", "Everybody reads this", "in sight"):
        assert shown in page.main.get_text() and shown not in wrapped
    assert len(page.select(".answer .mhalib-view")) == 2 and not page.select(".answer :is(h1, h2, h3, .answer)")
    assert ["claim" in said.get_text() for said in page.select(".answer .code")] == [True]  # it says what comes out
    named = [part for button in page.select("button.uncover") for part in button["aria-controls"].split()]
    assert named == sorted(set(named)) == [part["id"] for part in page.select(".answer")] and len(named) == 6
    ids = [tag["id"] for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids))
    for button in page.select("button.uncover"):
        assert "Predict" in page.find(id=button["aria-describedby"]).get_text()
        assert button.sourceline < page.find(id=button["aria-controls"].split()[0]).sourceline
    (asking,) = page.select("[data-asks]")
    assert asking.find_next("button", class_="uncover")["aria-controls"] == "answer-2-1 answer-2-2"


def test_of_unusual_predictions_what_answers():
    def asked(*cells):
        """Return how many parts answer each prediction."""
        return [len(question.parts) for question in cover(new_notebook(cells=cells))]

    text, ask, shown = new_markdown_cell, new_markdown_cell("**Predict.** Which?"), new_output("stream", text="1")
    a, b, guess = (new_code_cell(code, outputs=[shown]) for code in ("a", "b", "predict.which_split()"))
    assert asked(ask, new_code_cell("def f(): ..."), guess, a) == [1]  # what puts nothing out answers nothing
    assert asked(ask, a, guess, b) == [1, 1] and asked(guess, a) == [1]  # asked without a paragraph
    assert asked(text(f"{ask.source}\n\n{ask.source}"), a) == [0, 1]
    assert asked(text(f"{ask.source}\n\n## Next"), a) == [0]
    assert asked(text("Where a text says **Predict**, guess."), a) == []
    assert asked(text("| **Predict** | b |\n|---|---|\n| 1 | 2 |\n\n> **Predict.** Said by others."), a) == []


def handed_on() -> set[str]:
    """Return the full names that Python itself knows as public, one for each thing."""
    names = {f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__}
    for module in pkgutil.iter_modules(mhalib.__path__):
        if module.name in reference.WITHIN:
            continue
        room = importlib.import_module(f"mhalib.{module.name}")
        if module.ispkg:
            names |= {f"{room.__name__}.{name}" for name in room.__all__}
        else:
            own = {name for name, value in vars(room).items() if getattr(value, "__module__", "") == room.__name__}
            names |= {f"{room.__name__}.{name}" for name in own if name[0] != "_" and name not in mhalib.__all__}
    return names


def test_every_public_name_is_in_the_reference_with_what_it_is_its_source_and_the_cells_that_use_it(site):
    entries = reference.entries()
    assert {entry.path for entry in entries if entry.handed_on} == handed_on()
    listed = soup(site, "reference.html").select("dl a")
    assert {link["href"] for link in listed} == {entry.place for entry in entries}
    sections = {entry.path: soup(site, f"{entry.page}.html").find(id=entry.name) for entry in entries}
    assert [path for path, section in sections.items() if section is None] == []
    named = [entry for entry in entries if entry.handed_on and not entry.what.is_attribute]
    assert [entry.path for entry in named if entry.what.docstring is None] == []
    used = {}
    for path in ("mhalib.claim", "mhacourse.check", "mhacourse.predict", "headview.HeadLab"):
        links = sections[path].find_parent("section").select(".used a")
        used[path.rpartition(".")[2]] = {link["href"].removeprefix("07_lesson.html#") for link in links}
    assert used == {"claim": {"cell-9"}, "check": {"cell-18"}, "predict": {"cell-7", "cell-20"}, "HeadLab": {"cell-11"}}
    source = sections["mhalib.split_heads"].find_parent("section").details.get_text()
    assert "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)" in source

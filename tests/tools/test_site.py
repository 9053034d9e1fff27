"""The site and the slides: what a lesson becomes, and what must hold of every page.

In a browser: `browser/test_site.py`.
"""

import json
import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.site import build as build_site
from tools.site import live, slides
from tools.site.answers import cover
from tools.site.export import DeckExporter, as_mathml, claims_in, inline_code, printed
from tools.site.places import lead_links


def soup(site, name):
    return BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")


def test_a_page_holds_maths_widgets_links_and_the_notebook(site):
    page = soup(site, "07_lesson.html")
    assert len(page.find_all("math")) == 3 and page.find("mfrac") and "$" not in page.main.get_text()
    assert len(page.select(".mhalib-view")) == 3 and "model_id" not in str(page)
    assert page.find(id="why-d")
    assert page.find("a", href="07_lesson.html", string="the next")
    assert page.find("h2", id="of-sqrt-d-heads") and page.find("a", href="#of-sqrt-d-heads", string="below")
    assert page.find("a", href="07_lesson.html#in-the-open-x", string="there")
    assert page.find("img", src="images/hero.png")["alt"] == "a map"
    assert page.select(".wide table")


def test_a_notebook_is_offered_without_outputs_and_says_where_it_belongs(site):
    page = soup(site, "07_lesson.html")
    assert page.find("a", href="07_lesson.ipynb", download=True)
    assert "without outputs" in page.select_one(".tools").text and "my/" in page.select_one(".tools").text
    nb = nbformat.read(site / "07_lesson.ipynb", as_version=4)
    nbformat.validate(nb)
    assert not any(cell.get("outputs") for cell in nb.cells)
    assert "my/" in nb.cells[0].source and "../notebooks/GLOSSARY.md" in nb.cells[0].source
    assert any(cell.get("outputs") for cell in nbformat.read(site.parent / "notebooks/07_lesson.ipynb", 4).cells)


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


def test_the_pages_for_readers_stand_in_the_list_and_are_found_by_the_search(site):
    glossary = soup(site, "glossary.html")
    assert glossary.find("h2", id="head-dim") and glossary.find("h2", id="w_o") and not glossary.select("main .tools")
    for name in ("07_lesson.html", "index.html", "glossary.html"):
        beside = soup(site, name).select("#lessons .beside a")
        assert [(link["href"], link.text) for link in beside] == [
            ("torch_in_ten_minutes.html", "Torch & tensors"),
            ("glossary.html", "Glossary"),
            ("reference.html", "Reference"),
        ]
    assert soup(site, "07_lesson.html").main.find("a", href="glossary.html#head-dim")
    assert soup(site, "slides/07_lesson.html").find("a", href="../glossary.html#head-dim")
    found = [(entry["short"], entry["section"], entry["href"]) for entry in contents(site)]
    assert ("Glossary", "Head dim", "glossary.html#head-dim") in found


def test_a_notebook_without_a_number_is_a_page_of_the_appendix(site):
    page = soup(site, "torch_in_ten_minutes.html")
    assert page.title.text == "Torch & tensors" and "numbers" in page.select_one(".output").text
    assert page.select("main .tools") and not page.select("nav.around")  # nothing before it, nothing after it
    assert soup(site, "slides/torch_in_ten_minutes.html").title.text == "Torch & tensors"
    assert (site / "torch_in_ten_minutes.ipynb").is_file()
    assert not soup(site, "07_lesson.html").select("nav.around a")  # it is the only lesson
    home = soup(site, "index.html")
    lessons, others = home.select("ol.road li"), home.select("ul.road li")
    assert [row.a["href"] for row in lessons] == ["07_lesson.html"]
    assert [row.a["href"] for row in others] == ["torch_in_ten_minutes.html"]
    assert "What a < b is for." in others[0].text
    assert home.find(id="appendix").text == "Appendix"
    found = [entry for entry in contents(site) if entry["page"] == "Torch & tensors"]
    assert found[0]["short"] == "Torch & tensors" and "holds numbers" in found[0]["text"]


def test_a_word_of_the_glossary_is_a_link_with_a_tip(site):
    page = soup(site, "torch_in_ten_minutes.html")
    (link,) = page.select("a.term")  # the second use is none, and what leads to no entry of that name has no tip
    assert (link.text, link["href"], link.parent.name) == ("token", "glossary.html#token", "strong")
    tip = page.find(id=link["aria-describedby"])
    assert tip["role"] == "tooltip" and tip.has_attr("hidden") and not tip.find_parent("main")
    assert tip.text == "token: The unit of a text: a word & what has <b> in it, or a piece of one."
    assert page.find("script", src="terms.js") and (site / "terms.js").is_file()
    assert [link.text for link in soup(site, "07_lesson.html").select("a.term")] == ["glossary"]  # its author's own
    assert not soup(site, "glossary.html").select(".term, .tip")
    assert not soup(site, "slides/torch_in_ten_minutes.html").select(".term, .tip")
    assert not [entry for entry in contents(site) if entry["page"] == "Torch & tensors" and "The unit" in entry["text"]]


def test_what_a_lesson_brings_is_text(site):
    """No character of a title, a question or a printed line is taken for HTML."""
    for name in ("07_lesson.html", "slides/07_lesson.html"):
        page = soup(site, name)
        assert page.title.text == "07 · Heads & tokens < all"
        said = [line.get_text() for line in page.select(".claims li")]
        assert said == ["✓row <1> of head 0 holds · nearly · share 0.912", "✓and <b>both</b>"]
        assert "candidate [10, 11] <i>" in page.get_text() and not page.select("i, .claims b")
    page = soup(site, "index.html")
    assert page.select_one(".road a").text == "07 · Heads & tokens < all"
    assert "Does a < b work?" in page.main.get_text() and page.select_one(".road code").text == "a < b"
    assert inline_code("a `x<y` & <b>") == "a <code>x&lt;y</code> &amp; &lt;b&gt;"


def test_files_that_are_no_site_are_not_replaced(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(SystemExit, match="would be lost, so name an empty or a new folder"):
        build_site.build([], tmp_path)
    assert (tmp_path / "letters.txt").read_text(encoding="utf-8") == "mine"


def test_a_lesson_is_executed_once_for_each_state(site):
    assert (
        len(list((site.parent / "kept").iterdir())) == 2
    )  # of the lesson and of the other notebook, for the page and for the slides


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


def contents(site):
    text = (site / "contents.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("const CONTENTS = ").rstrip(";\n"))


def test_the_search_knows_sections_their_text_and_what_is_covered(site):
    known = [entry for entry in contents(site) if entry["short"] == "07"]
    sections = ["07 · Heads & tokens < all", "Why √d?", "Of ", "In the open: ", "Try it", "What you now know"]
    assert [entry["section"] for entry in known] == sections
    assert "Some words before" in known[1]["text"] and "for the teacher" not in known[1]["text"]
    ((place, text),) = known[1]["answers"]
    assert place == "07_lesson.html#answer-1-2" and "for the teacher" in text
    for entry in contents(site):
        for href in (entry["href"], *(place for place, _ in entry["answers"])):
            name, _, place = href.partition("#")
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
    assert "Do it" in deck.get_text() and "first_shapes" not in deck.get_text()


def test_slides_keep_answers_for_the_next_key(site):
    deck = soup(site, "slides/07_lesson.html")
    for part in deck.select("aside.notes"):
        part.extract()
    waiting = " ".join(part.get_text() for part in deck.select(".fragment"))
    assert len(deck.select(".fragment .mhalib-view")) == 2 and "both" in waiting and "The answer" in waiting
    assert "The first sentence says" in waiting and "how much is lost" in waiting  # on the slide of what comes first
    for shown in ("in sight", "Everybody reads", "Your guess", "candidate ="):
        assert shown in deck.get_text() and shown not in waiting
    assert not deck.select(".fragment .code")


def test_slides_lose_nothing_of_a_lesson(site):
    """Every word of the text is on a slide or in the notes, in its order."""
    deck = " ".join(soup(site, "slides/07_lesson.html").select_one(".slides").get_text().split())
    for said in ("work?", "read it.", "Some words before.", "The second one is for the teacher"):
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


# ---------------------------------------------------------------- predictions and what answers them


def code(source, *printed):
    outputs = [new_output("stream", name="stdout", text=text) for text in printed]
    return new_code_cell(source, outputs=outputs)


def answers_of(*cells):
    """Return for each prediction what answers it, and below which cell its button stands."""
    nb = new_notebook(cells=[new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    questions = cover(nb)
    texts, buttons = {}, {}
    for number, cell in enumerate(nb.cells):
        mark = cell.metadata.site
        if "part" in mark:
            texts[mark.part] = cell.source
        if "code" in mark:
            texts[mark.code] = f"code: {cell.source}"
        for part in BeautifulSoup(mark.get("html", ""), "html.parser").select(".answer"):
            assert part.parent.name == "[document]"
            texts[part["id"]] = part.get_text(" ", strip=True)
        if "button" in mark:
            buttons[mark.button.parts] = number
    assert sorted(texts) == sorted(part for question in questions for part in question.parts)
    return [([texts[part] for part in question.parts], buttons.get(" ".join(question.parts))) for question in questions]


ASK, GUESS = "**Predict.** Which?", code("predict.which_split()\n", "○ the first")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([ASK, code("a", "1"), "So.", code("b", "2")], [(["a", "So.", "b"], 0)]),
        (["Before.\n\n" + ASK + "\n\n- this\n- that", code("a", "1")], [(["a"], 0)]),  # the rest of its cell asks
        ([ASK, code("a", "1"), "So.\n\n# Next\n\nText.", code("b", "2")], [(["a", "So."], 0)]),
        ([ASK, code("a", "1"), "### Next", "Text.", code("b", "2")], [(["a"], 0)]),
        ([ASK, code("a", "1"), "So.\n\n" + ASK, code("b", "2")], [(["a", "So."], 0), (["b"], 2)]),
        ([ASK, code("a", "1"), "It is 3. **Predict:** and then?", code("b", "2")], [(["a"], 0), (["b"], 2)]),
        ([ASK, GUESS, code("a", "1")], [(["a"], 1)]),
        ([ASK, code("def f(): ..."), GUESS, code("a", "1")], [(["a"], 2)]),  # what puts nothing out answers nothing
        ([ASK, code("a", "1"), GUESS, code("b", "2")], [(["a"], 0), (["b"], 2)]),  # asked without a paragraph
        ([GUESS, code("a", "1")], [(["a"], 0)]),
        (
            [ASK, code("x = 1\nclaim(x, 'it is')", "✓")],
            [(["code: x = 1\nclaim(x, 'it is')", "x = 1\nclaim(x, 'it is')"], 0)],
        ),
        (
            [ASK, code("a", "1\n"), code("predict.which_split.reveal()", "it is")],
            [(["a", "predict.which_split.reveal()"], 0)],
        ),
        ([ASK + "\n\n" + ASK, code("a", "1")], [([], None), (["a"], 0)]),
        ([ASK + "\n\n## Next", code("a", "1")], [([], None)]),
        ([code("a", "1"), "- **Predict, run, see.** Before it you read **Predict.**", code("b", "2")], []),
        (["| **Predict** | b |\n|---|---|\n| 1 | 2 |\n\n> **Predict.** Said by others.", code("b", "2")], []),
    ],
)
def test_what_answers_a_prediction(cells, expected):
    assert answers_of(*cells) == expected


def test_a_page_wraps_what_answers_and_nothing_else(site):
    page = soup(site, "07_lesson.html")
    wrapped = " ".join(part.get_text() for part in page.select(".answer"))
    for answer in ("The first sentence", "nearly", "The answer: the second", "Nothing gets lost"):
        assert answer in wrapped
    for shown in (
        "Some words before",
        "how much is lost",
        "Guess.",
        "○ both",
        "Everybody reads this",
        "in sight",
        "not yet written",
    ):
        assert shown in page.main.get_text() and shown not in wrapped
    assert len(page.select(".answer .mhalib-view")) == 2 and not page.select(".answer :is(h1, h2, h3, .answer)")
    (said,) = page.select(".answer .code")  # code that claims says what comes out
    assert "claim" in said.get_text()


def test_every_covered_part_has_one_button(site):
    page = soup(site, "07_lesson.html")
    named = [part for button in page.select("button.uncover") for part in button["aria-controls"].split()]
    parts = [part["id"] for part in page.select(".answer")]
    assert sorted(named) == sorted(set(named)) == sorted(parts) and len(parts) == 6
    ids = [tag["id"] for tag in page.find_all(id=True)]
    assert len(ids) == len(set(ids))
    for button in page.select("button.uncover"):
        assert "Predict" in page.find(id=button["aria-describedby"]).get_text()
        assert button.sourceline < page.find(id=button["aria-controls"].split()[0]).sourceline
    (asking,) = page.select("[data-asks]")
    assert (
        "○ both" in asking.get_text()
        and asking.find_next("button", class_="uncover")["aria-controls"] == "answer-2-1 answer-2-2"
    )
    assert not soup(site, "teaching.html").select(".answer, .uncover")


# ---------------------------------------------------------------- claims


def test_lines_that_claim_stand_as_claims_among_the_others():
    text = "first\n✓ a holds · x 1, y 2\n✓ b · c holds · d · x .5\n\x1b[31mred\x1b[0m <i>\n\n✓ last\n"
    html = BeautifulSoup(printed(text), "html.parser")
    assert [tag.name for tag in html.find_all(recursive=False)] == ["pre", "ul", "pre", "ul"]
    said = [[part.get_text() for part in line.find_all("span", recursive=False)] for line in html.find_all("li")]
    assert said == [["✓", "a holds · x 1, y 2"], ["✓", "b · c holds · d · x .5"], ["✓", "last"]]
    assert [part.get_text() for part in html.select(".came")] == ["· x 1, y 2", "· x .5"]
    assert html.select("li .tick[role=img]")[0]["aria-label"] == "claim holds"
    assert "red <i>" in html.find_all("pre")[1].get_text() and not html.find("i")
    assert claims_in(text) == 3 and claims_in("✗ not here: a\n  ✓ no\n✓no") == 0


def test_output_without_claims_stays_as_it_was_printed():
    (only,) = BeautifulSoup(printed("  a\n\n  b\n"), "html.parser").find_all(recursive=False)
    assert only.name == "pre" and only.get_text() == "  a\n\n  b\n" and only["tabindex"] == "0"


# ---------------------------------------------------------------- the first page


def test_the_first_page_counts_what_was_put_out(site):
    counts = soup(site, "index.html").select_one(".counts").get_text()
    assert counts == "2 claims, each tried while these pages were made, 3 predictions, 1 exercise."


def test_the_first_page_has_a_live_lab_and_a_picture_without_javascript(site):
    page = soup(site, "index.html")
    (view,) = page.select(".alive .mhalib-view")
    kind = re.search(r'const parts = {"kind": "(\w+)"', view.find_next("script").string)[1]
    modules = json.loads(
        (site / "views.js").read_text(encoding="utf-8").removeprefix("window.mhalibTexts = ").rstrip(";\n")
    )
    assert "head-lab" in modules[kind]["style"] and modules[kind]["source"]
    (picture,) = page.select("main img")
    assert picture.find_parent("noscript") and picture["alt"].startswith("Attention maps")


def test_without_a_lab_the_first_page_shows_the_picture(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in (*build_site.BESIDE, *build_site.FOR_TEACHERS):
        (folder / f"{name}.md").write_text(f"# {name}")
    monkeypatch.setattr(build_site, "NOTEBOOKS", folder)
    build_site.build([], tmp_path / "site")
    page = soup(tmp_path / "site", "index.html")
    assert not page.select(".alive") and page.main.find("img") and not page.find("noscript")
    assert build_site.faults(tmp_path / "site") == []


def test_the_first_page_offers_the_questions_that_its_pages_answer(site):
    page = soup(site, "index.html")
    rows = page.select("#asked li")
    assert [row.a.text for row in rows] == ["Why <b> the root?", "What of a row of tokens?", "Is it open?"]
    assert [row.small.text for row in rows] == ["07 · Why √d?", "07 · Why √d?", "07 · In the open: x"]
    for row in rows:
        lesson, _, place = row.a["href"].partition("#")
        assert soup(site, lesson).find(id=place)
    assert "holds · nearly" in rows[1]["data-words"] and "everybody reads" in rows[2]["data-words"]
    assert page.select("script[src='questions.js']") and (site / "questions.js").is_file()
    assert not soup(site, "07_lesson.html").select("#asked, script[src='questions.js']")


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("link", "led"),
    [
        ("#Why-divide-by-√head_dim?", "#why-divide-by-head_dim"),
        ("#Why-divide-by-%E2%88%9Ahead_dim%3F", "#why-divide-by-head_dim"),
        ("#why-divide-by-head_dim", "#why-divide-by-head_dim"),
        ("b.html#The-proof,-&amp;-more", "b.html#the-proof-more"),
        ("deep/c.html#qk", "deep/c.html#q-k"),  # as GitHub has "q·k"
        ("b.html#cell-7", "b.html#cell-7"),  # a place that is no heading
        ("b.html#nowhere", "b.html#nowhere"),
        ("other.ipynb#The-proof", "other.ipynb#The-proof"),
        ("https://b.html#The-proof-more", "https://b.html#The-proof-more"),
    ],
)
def test_links_lead_to_headings_as_the_pages_name_them(tmp_path, link, led):
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.html").write_text('<h2 id="the-proof-more">The proof, & more</h2><p id="cell-7"></p>')
    (tmp_path / "deep" / "c.html").write_text('<h3 id="q-k">q·k</h3><a href="../b.html#The-proof-more">x</a>')
    page = tmp_path / "a.html"
    page.write_text(f'<h2 id="why-divide-by-head_dim">Why?</h2><a href="{link}">x</a>', encoding="utf-8")
    lead_links(tmp_path)
    assert BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").a["href"] == led.replace("&amp;", "&")
    assert 'href="../b.html#the-proof-more"' in (tmp_path / "deep" / "c.html").read_text(encoding="utf-8")


def test_slides_alone_lead_to_no_page_beside_the_lessons(site, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "KEPT", site.parent / "kept")
    slides.main([str(site.parent / "notebooks" / "07_lesson.ipynb"), "--out", str(tmp_path)])
    deck = soup(tmp_path, "07_lesson.html")
    assert "glossary" in deck.get_text() and not deck.find("a", string="glossary")
    assert len(deck.select(".fragment")) == len(soup(site, "slides/07_lesson.html").select(".fragment"))


def test_modules_of_views_lie_in_one_file_that_each_page_with_a_view_loads_first(site):
    shown = 0
    for path in sorted(site.rglob("*.html")):
        page = soup(site, str(path.relative_to(site)))
        scripts = [script.string or "" for script in page.find_all("script")]
        parts = [line for script in scripts for line in script.splitlines() if line.startswith("const parts = ")]
        assert not any('"source"' in line or '"style"' in line for line in parts)
        first = page.head.find("script")
        assert (first is not None and first.get("src") in ("views.js", "../views.js")) == bool(parts)
        shown += len(parts)
    assert shown > 2

"""The site and the slides: what a lesson becomes, and what must hold of every page.

In a browser: `browser/test_site.py`.
"""

import json

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.site import build as build_site
from tools.site.answers import cover
from tools.site.export import inline_code


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


def slide_cell(source, kind, new=new_markdown_cell):
    return new(source, metadata={"slideshow": {"slide_type": kind}})


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


# ---------------------------------------------------------------- the first page


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

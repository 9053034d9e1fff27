"""What the copy of a lesson holds: no outputs, its memory of the lesson, and links that hold where it lies."""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from tools.links import targets
from tools.notebooks import run
from tools.notebooks.copies import ROOT
from tools.notebooks.plain import COLAB, for_download, from_my, own_copy, with_links
from tools.notebooks.store import source_hash as hash_of_a_stored_lesson
from tools.notebooks.which import WITHOUT_NUMBER, notebook_files

PATHS = notebook_files(ROOT / "notebooks")
OURS = re.compile(rf"^notebooks/((?:\d\d_\w+|{'|'.join(WITHOUT_NUMBER)})\.ipynb#)")


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_a_copy_is_its_lesson_without_outputs_and_remembers_it(path):
    text = own_copy(path)
    copy, lesson = nbformat.reads(text, 4), nbformat.read(path, 4)
    nbformat.validate(copy)
    kept = [cell for cell in lesson.cells if cell.id != COLAB]
    assert [(cell.id, cell.cell_type) for cell in copy.cells] == [(cell.id, cell.cell_type) for cell in kept]
    code = [cell for cell in copy.cells if cell.cell_type == "code"]
    assert code and all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert [cell.source for cell in code] == [cell.source for cell in kept if cell.cell_type == "code"]
    assert copy.metadata.mhalib == {"lesson": path.stem, "lesson_sha256": hash_of_a_stored_lesson(lesson)}
    assert copy.metadata.kernelspec == lesson.metadata.kernelspec
    # As Jupyter writes it, so that its first save changes nothing else.
    assert text == nbformat.writes(copy) + "\n"


def prose(path: Path) -> str:
    cells = nbformat.read(path, 4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def places(path: Path) -> list[str]:
    """Return where the links of a notebook lead, as its reader's program finds them: from the course's folder on."""
    files = [urlsplit(target) for target in targets(prose(path)) if not target.startswith("#")]
    return [os.path.normpath(f"{path.parent.name}/{unquote(file.path)}") + f"#{file.fragment}" for file in files]


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_the_links_of_a_copy_lead_where_those_of_its_lesson_do_and_to_the_other_copies(path, tmp_path):
    copy = tmp_path / "my" / path.name
    copy.parent.mkdir()
    copy.write_text(own_copy(path), encoding="utf-8")
    lead = places(path)
    assert [place for place in lead if OURS.match(place)]
    assert places(copy) == [OURS.sub(r"my/\1", place) for place in lead]


LESSONS = {"00_one.ipynb", "03_a name.ipynb"}


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        ("00_one.ipynb", "00_one.ipynb"),
        ("00_one.ipynb#the-end", "00_one.ipynb#the-end"),
        ("./00_one.ipynb", "00_one.ipynb"),
        ("../notebooks/00_one.ipynb", "00_one.ipynb"),
        ("03_a%20name.ipynb", "03_a name.ipynb"),
        ("GLOSSARY.md", "../notebooks/GLOSSARY.md"),
        ("GLOSSARY.md#head-dim", "../notebooks/GLOSSARY.md#head-dim"),
        ("data/a%20b.csv?raw=1#x", "../notebooks/data/a%20b.csv?raw=1#x"),
        ("../notebooks/TEACHING.md", "../notebooks/TEACHING.md"),
        ("../images/hero.png", "../images/hero.png"),
        ("../README.md#the-road", "../README.md#the-road"),
        ("#a-heading", "#a-heading"),
        ("https://example.org/00_one.ipynb", "https://example.org/00_one.ipynb"),
        ("//example.org/x", "//example.org/x"),
        ("mailto:someone", "mailto:someone"),
        ("attachment:map.png", "attachment:map.png"),
        ("data:image/png;base64,AAAA", "data:image/png;base64,AAAA"),
        ("/lab/tree/x", "/lab/tree/x"),
    ],
)
def test_where_a_link_leads_from_my(target, leads):
    assert from_my(target, LESSONS) == leads


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[a](X) and [b](X)", "[a](<X>) and [b](<X>)"),
        ('![a map](X "its title")', '![a map](<X> "its title")'),
        ("[a]( <X> )", "[a]( <<X>> )"),
        ("[`code`](X), [![picture](Y)](X)", "[`code`](<X>), [![picture](<Y>)](<X>)"),
        ("[a](X_(y))", "[a](<X_(y)>)"),
        ("a [link][1]\n\n[1]: X 'title'\n  [two]: Y", "a [link][1]\n\n[1]: <X> 'title'\n  [two]: <Y>"),
        ("see [^1]\n\n[^1]: A note.", "see [^1]\n\n[^1]: A note."),
        ("<img alt='a > b' src=\"X\"><a class=x href='X'>", "<img alt='a > b' src=\"<X>\"><a class=x href='<X>'>"),
        ("<a\n  href = X><IMG SRC=X>", "<a\n  href = <X>><IMG SRC=<X>>"),
        ("`x[0](X)` and ``a ` [b](X)``", "`x[0](X)` and ``a ` [b](X)``"),
        ("```python\nf[0](X)\n```\n[a](X)", "```python\nf[0](X)\n```\n[a](<X>)"),
        ("~~~\n[a](X)\n", "~~~\n[a](X)\n"),
        ("$W[i](X)$ and $$W[i](X)$$ [a](X)", "$W[i](X)$ and $$W[i](X)$$ [a](<X>)"),
        (r"a \` tick [a](X) \` and \$5 [b](X) \$6", r"a \` tick [a](<X>) \` and \$5 [b](<X>) \$6"),
        ("one ` tick\n\n[a](X) and ` another", "one ` tick\n\n[a](<X>) and ` another"),
        ("weights[0] (see above), f(x)", "weights[0] (see above), f(x)"),
        ('<b title="src=X">', '<b title="src=X">'),
    ],
)
def test_which_parts_of_a_text_are_links(markdown, expected):
    assert with_links(markdown, lambda target: f"<{target}>") == expected


# ----------------------------------------------------------------------------------------- a lesson that came alone


def test_a_downloaded_lesson_works_wherever_it_lies(course, tmp_path):
    path = course / "notebooks" / "01_two.ipynb"
    (course / "images").mkdir()
    shutil.copy(ROOT / "images" / "hero.png", course / "images")
    nb = nbformat.read(path, 4)
    nb.cells[
        0
    ].source += "\n\n![heads](../images/hero.png) <img src='../images/hero.png' alt=''> ![x](../images/gone.png)"
    nb.cells[1].source = "%run ../tools/check_machine.py\nprint('../tools/check_machine.py')"
    nbformat.write(nb, path)
    alone = tmp_path / "Downloads" / "any place" / path.name
    alone.parent.mkdir(parents=True)
    alone.write_text(for_download(path), encoding="utf-8")
    nb = nbformat.read(alone, 4)
    nbformat.validate(nb)
    first, code = nb.cells[0], nb.cells[1]
    assert "**You downloaded this lesson alone.**" in first.source and "`my/`" in first.source
    assert first.source.count("(attachment:hero.png)") == first.source.count("'attachment:hero.png'") == 1
    assert "(../images/gone.png)" in first.source
    assert list(first.attachments) == ["hero.png"] and "image/png" in first.attachments["hero.png"]
    assert "attachments" not in nb.cells[2]
    assert code.outputs == [] and code.source.startswith("%run -m tools.check_machine\n")
    output = run.execute(alone).cells[1].outputs
    said = "".join(one.text for one in output)
    assert re.match(r"Python +3\.\d+\.\d+ +ok\ntorch ", said) and said.endswith("../tools/check_machine.py\n")

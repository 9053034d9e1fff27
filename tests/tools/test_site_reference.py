"""The reference on the site: every public name, what is said of it, and where lessons use it."""

import ast
import importlib
import pkgutil
import re

import pytest
from bs4 import BeautifulSoup

import mhalib
from tools.notebooks.lessons import introduce
from tools.notebooks.run import NOTEBOOKS, read
from tools.notebooks.which import notebook_files
from tools.site import reference
from tools.site.build import faults
from tools.site.export import TEMPLATES, Exporter
from tools.site.reference import WITHIN, sections


@pytest.fixture(scope="module")
def lessons():
    return {path.stem: read(path) for path in notebook_files(NOTEBOOKS)}


@pytest.fixture(scope="module")
def entries():
    return {entry.path: entry for entry in reference.entries()}


@pytest.fixture(scope="module")
def pages(lessons, tmp_path_factory):
    """The folder of the reference beside empty pages in the place of the lessons, and what the search knows of it."""
    out = tmp_path_factory.mktemp("reference")
    for part in TEMPLATES.glob("*.*s"):
        (out / part.name).write_bytes(part.read_bytes())
    for name, nb in lessons.items():
        (out / f"{name}.html").write_text("".join(f'<p id="{cell.id}"></p>' for cell in nb.cells), encoding="utf-8")
    (out / "index.html").touch()
    (out / "contents.js").touch()
    headings = {name: introduce(nb, name).heading for name, nb in lessons.items()}
    return out, reference.write(out, Exporter("page").environment, lessons, headings, {"lessons": [], "others": []})


@pytest.fixture(scope="module")
def soups(pages):
    return {path.stem: BeautifulSoup(path.read_bytes(), "html.parser") for path in pages[0].glob("reference*.html")}


def handed_on() -> set[str]:
    """Return the full names that Python itself knows as public, one for each thing."""
    names = {f"mhalib.{name}" for name in mhalib.__all__}
    for module in pkgutil.iter_modules(mhalib.__path__):
        room = importlib.import_module(f"mhalib.{module.name}")
        if module.ispkg:
            names |= {f"{room.__name__}.{name}" for name in room.__all__}
        elif module.name not in WITHIN:
            own = {name for name, value in vars(room).items() if getattr(value, "__module__", "") == room.__name__}
            names |= {f"{room.__name__}.{name}" for name in own if name[0] != "_" and name not in mhalib.__all__}
    return names


def test_every_public_name_is_in_the_list_on_its_page_and_found_by_the_search(entries, pages, soups):
    assert {path for path, entry in entries.items() if entry.handed_on} == handed_on()
    assert {link["href"] for link in soups["reference"].select("dl a")} == {one.place for one in entries.values()}
    assert [one.place for one in entries.values() if not soups[one.page].find(id=one.name)] == []
    found = {row["section"]: row for row in pages[1]}["gated_heads"]
    assert (found["href"], found["short"]) == ("reference_heads.html#gated_heads", "mhalib.heads")


def lacks(entry) -> list[str]:
    """Return what the docstring of a public function or class does not say, and should."""
    if entry.what.docstring is None:
        return ["a docstring"]
    said = entry.what.docstring.value
    kinds = {section.kind.value for section in sections(entry.what)}
    missing = [] if re.search(r"\b[Nn]otebooks?\b|\b[Ll]esson\b", said) else ["the lesson that teaches it"]
    if entry.what.is_function:
        body = ast.parse(entry.what.source)
        if any(isinstance(node, ast.Raise) for node in ast.walk(body)) and "raises" not in kinds:
            missing.append("which errors it raises")
        if len(entry.what.parameters) > 2 and "parameters" not in kinds:
            missing.append("its arguments")
    written = set(re.findall(r"^(?:Args|Returns|Yields|Raises|Examples?):$", said, re.MULTILINE))
    if len(written) > len(kinds - {"text"}):
        missing.append(f"sections that can be read: {sorted(written)}")
    return missing


def test_a_docstring_says_what_a_reader_needs(entries):
    named = {path: one for path, one in entries.items() if one.handed_on and not one.what.is_attribute}
    assert {path: lack for path, one in named.items() if (lack := lacks(one))} == {}


def test_what_lessons_import_is_listed_with_links_to_their_cells(lessons, entries, soups):
    imported = set()
    for nb in lessons.values():
        code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
        for room, names in re.findall(r"^from (mhalib[\w.]*) import \(?([\w, \n]+)", code, re.MULTILINE):
            imported |= {f"{room}.{name}" for name in re.findall(r"\w+", names)}
    imported &= set(entries)
    missing = []
    for path in imported:
        section = soups[entries[path].page].find(id=entries[path].name).find_parent("section")
        if not any(re.match(r"\w+\.html#", link["href"]) for link in section.select(".used a")):
            missing.append(path)
    assert len(imported) > 60 and missing == []


def test_every_link_leads_somewhere_and_nothing_is_fetched(pages):
    assert [fault for fault in faults(pages[0]) if "index" not in fault] == []


def test_short_sources_stand_in_the_page(soups):
    section = soups["reference_mhalib"].find(id="split_heads").find_parent("section")
    assert "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)" in section.details.get_text()

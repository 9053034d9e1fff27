"""The reference on the site: every public name, what is said of it, and where lessons use it. In a browser as well."""

import ast
import base64
import importlib
import json
import pkgutil
import re
import zlib

import nbformat
import pytest
from bs4 import BeautifulSoup

import mhalib
from tools.notebooks.lessons import introduce
from tools.notebooks.run import NOTEBOOKS
from tools.notebooks.which import notebook_files
from tools.site import reference
from tools.site.build import faults
from tools.site.export import TEMPLATES, PageExporter
from tools.site.reference_names import WITHIN, misread, rooms, sections, source

MOST_BYTES = 400_000
ROOMS = rooms()
ENTRIES = {entry.path: entry for room in ROOMS for entry in room.entries}
PUBLIC = [entry for entry in ENTRIES.values() if entry.handed_on]
NAMED = [entry for entry in PUBLIC if not entry.what.is_attribute]
LESSONS = {path.stem: nbformat.read(path, 4) for path in notebook_files(NOTEBOOKS)}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The reference beside empty pages in the place of the lessons, and what the search knows of it."""
    out = tmp_path_factory.mktemp("reference")
    for part in TEMPLATES.glob("*.*s"):
        (out / part.name).write_bytes(part.read_bytes())
    headings = {name: introduce(nb, name).heading for name, nb in LESSONS.items()}
    for name, nb in LESSONS.items():
        cells = "".join(f'<p id="{cell.id}"></p>' for cell in nb.cells)
        (out / f"{name}.html").write_text(cells, encoding="utf-8")
    (out / "index.html").touch()
    found = reference.write(out, PageExporter().environment, LESSONS, headings, {"lessons": [], "others": []})
    (out / "contents.js").write_text(f"const CONTENTS = {json.dumps(found)};", encoding="utf-8")
    return out, found


def soup(pages, name):
    return BeautifulSoup((pages[0] / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


# ---------------------------------------------------------------- which names


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


def test_every_public_name_is_in_the_reference_and_leads_to_its_place(pages):
    assert {entry.path for entry in PUBLIC} == handed_on()
    home = soup(pages, "reference")
    listed = {link["href"] for link in home.select("dl a")}
    assert listed == {f"{entry.page}.html#{entry.name}" for entry in ENTRIES.values()}
    for page in {entry.page for entry in PUBLIC}:
        shown = {heading["id"] for heading in soup(pages, page).select(".entry :is(h2, h3):has(> a)")}
        assert shown == {entry.name for entry in ENTRIES.values() if entry.page == page}


# ---------------------------------------------------------------- what is said of them


def lacks(entry) -> list[str]:
    """Return what the docstring of a public function or class does not say, and should."""
    if entry.what.docstring is None:
        return ["a docstring"]
    said = entry.what.docstring.value
    kinds = {section.kind.value for section in sections(entry.what)}
    missing = [] if re.search(r"\b[Nn]otebooks?\b|\b[Ll]esson\b", said) else ["the lesson that teaches it"]
    if entry.what.is_function:
        body = ast.parse(source(entry.what))
        if any(isinstance(node, ast.Raise) for node in ast.walk(body)) and not kinds & {"raises"}:
            missing.append("which errors it raises")
        if len(entry.what.parameters) > 2 and "parameters" not in kinds:
            missing.append("its arguments")
    return missing


def test_a_docstring_says_what_a_reader_needs_and_the_tool_can_read_it():
    wrong = {entry.path: [*lacks(entry), *misread(entry)] for entry in NAMED}
    assert {path: what for path, what in wrong.items() if what} == {}


# ---------------------------------------------------------------- what lessons use


def test_what_lessons_import_and_use_is_listed_with_links_to_their_cells(pages):
    imported = set()
    for nb in LESSONS.values():
        code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
        for line in re.findall(r"^from (mhalib[\w.]*) import \(?([\w, \n]+)", code, re.MULTILINE):
            imported |= {f"{line[0]}.{name}" for name in re.findall(r"\w+", line[1])}
    imported &= set(ENTRIES)
    assert len(imported) > 60
    for path in imported:
        entry = ENTRIES[path]
        heading = soup(pages, entry.page).find(id=entry.name)
        links = [link["href"] for link in heading.find_parent("section").select(".used a")]
        assert any(re.match(r"\w+\.html#", link) for link in links), path


# ---------------------------------------------------------------- the pages


def test_every_link_leads_somewhere_and_nothing_is_fetched(pages):
    wrong = [fault for fault in faults(pages[0]) if "index" not in fault]
    assert wrong == []
    scripts = "".join((pages[0] / name).read_text(encoding="utf-8") for name in ("reference.js", reference.SOURCES))
    assert "http" not in scripts.replace(re.search(r'SOURCES = "(.+)"', scripts)[1], "")


def test_the_sources_can_be_unpacked_and_are_those_of_the_files(pages):
    packed = (pages[0] / reference.SOURCES).read_text(encoding="utf-8").split('"')[1]
    texts = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)" in texts["split_heads"]
    assert "Cut the features" not in texts["split_heads"]  # the docstring stands above it
    wanted = {
        node.get("data-of") for path in pages[0].glob("reference_*.html") for node in soup(pages, path.stem)("details")
    }
    assert set(texts) == wanted - {None}


def test_the_search_finds_names(pages):
    rows = {row["section"]: row for row in pages[1]}
    assert rows["gated_heads"]["href"] == "reference_heads.html#gated_heads"
    assert rows["gated_heads"]["short"] == "mhalib.heads"

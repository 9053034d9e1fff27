"""The reference of `mhalib` on the site: a page for each package, made of docstrings, signatures and sources.

Nothing is said here that `help()` does not say, except what can be counted: which lessons use a name, and where. The
names come from `reference_names.py`, their uses from `reference_uses.py`, the looks from `page/reference*.j2`.
"""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from html import escape, unescape
from itertools import groupby
from pathlib import Path

import griffe
import mistune
from jinja2 import Environment
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

from tools.site.reference_names import (
    PACKAGE,
    Entry,
    Room,
    methods,
    page_of,
    returned,
    rooms,
    sections,
    signature,
    source,
)
from tools.site.reference_uses import Uses, mentions, uses

HOME = "reference"  # the page that leads to the others
TITLE = "Reference"
LOOKED_UP = ("check", "predict", "problem")  # what lessons look up in these has no entry of its own
LONGEST = 40  # lines of a source that the site carries
SOURCES = "reference_sources.js"
PLAIN = re.compile(r'<span class="(?![skc])\w*">(.*?)</span>')  # of code, strings, keywords and comments have colours
NUMBERS = re.compile(r"([Nn]otebooks? )((?:\d\d(?:, | and | to )?)+)")
CODE = re.compile(r"<code>([\w.]+)((?:\(\))?)</code>")


class _Writer:
    """Turns what is known of names into HTML; every text of a docstring is text, and no HTML.

    Args:
        found: all rooms.
        notebooks: the lessons of the site by the names of their files.
        headings: of these lessons.
    """

    def __init__(self, found: list[Room], notebooks: Mapping[str, NotebookNode], headings: Mapping[str, str]):
        entries = [entry for room in found for entry in room.entries]
        self.notebooks, self.headings = notebooks, headings
        self.numbered = {name[:2]: name for name in notebooks if name[:2].isdigit()}
        self.uses: Uses = uses(notebooks, [entry.path for entry in entries])
        self.places = {entry.path: f"{entry.page}.html#{entry.name}" for entry in entries}
        # A name alone leads to what is handed on under it, if only one thing is.
        for name, same in groupby(sorted(entries, key=lambda one: one.name), lambda one: one.name):
            if len(only := list(same)) == 1:
                self.places.setdefault(name, self.places[only[0].path])
        self.markdown = mistune.create_markdown(escape=True)

    def text(self, words: str, entry: Entry | None = None, short: bool = False) -> str:
        """Return a text of a docstring as HTML, in which names lead to their entries, and numbers to lessons.

        A short one, of one paragraph, comes without its `<p>`.
        """
        html = CODE.sub(partial(self._to_name, entry), self.markdown(words)).strip()
        if html.count("<p>") == 1 and html.startswith("<p>") and html.endswith("</p>") and short:
            html = html.removeprefix("<p>").removesuffix("</p>")
        return NUMBERS.sub(partial(self._to_lessons, entry), html)

    def _to_name(self, entry: Entry | None, code: re.Match) -> str:
        place = self.places.get(f"{entry.room}.{code[1]}") if entry else None
        place = place or self.places.get(code[1])
        if place is None or entry and code[1] == entry.name:
            return code.group()
        return f'<a href="{place.removeprefix(f"{entry.page}.html") if entry else place}">{code.group()}</a>'

    def _to_lessons(self, entry: Entry | None, said: re.Match) -> str:
        def link(number: re.Match) -> str:
            lesson = self.numbered.get(number.group())
            return number.group() if lesson is None else self.to_lesson(lesson, entry, number.group())

        return said[1] + re.sub(r"\d\d", link, said[2])

    def to_lesson(self, lesson: str, entry: Entry | None, text: str) -> str:
        """Return a link to the cell of a lesson in which a name is met first; to the lesson where none shows it."""
        cell = mentions(self.notebooks[lesson], entry.name) if entry else None
        return self.link(lesson, cell, text)

    def link(self, lesson: str, cell: str | None, text: str) -> str:
        place = f"#{cell}" if cell else ""
        return f'<a href="{lesson}.html{place}">{escape(text)}</a>'

    def used(self, entry: Entry) -> list[str]:
        """Return a link for each lesson that uses a name, to the first cell that does."""
        found = self.uses.get(entry.path, {})
        return [self.link(lesson, cell, self._short(lesson)) for lesson, cell in found.items()]

    def looked_up(self, entry: Entry) -> list[tuple[str, list[str]]]:
        """Return what lessons look up in `check` and its like: for each lesson links to the cells."""
        before = f"{entry.path}."
        if entry.name not in LOOKED_UP:
            return []
        rows: dict[str, list[str]] = {}
        for path, cells in self.uses.items():
            if path.startswith(before):
                for lesson, cell in cells.items():
                    rows.setdefault(lesson, []).append(self.link(lesson, cell, path.removeprefix(before)))
        return [(self.headings[lesson], links) for lesson, links in rows.items()]

    def _short(self, lesson: str) -> str:
        return lesson[:2] if lesson[:2] in self.numbered else self.headings[lesson]

    # ------------------------------------------------------------ one name

    def described(self, entry: Entry) -> dict:
        """Return what the template shows of a name."""
        what = entry.what
        return {
            "name": entry.name,
            "place": entry.name,
            "signature": coloured(signature(what, entry.name)),
            "handed_on": entry.handed_on,
            "is_shown": is_shown(entry),
            "bases": [self.text(f"`{base}`", entry, short=True) for base in bases(what)],
            "parts": self.parts(what, entry),
            "methods": [
                {
                    "name": method.name,
                    "place": f"{entry.name}.{method.name}",
                    "signature": coloured(signature(method, method.name)),
                    "parts": self.parts(method, entry),
                }
                for method in methods(what)
                if method.docstring is not None
            ],
            "used": self.used(entry),
            "looked_up": self.looked_up(entry),
            "file": entry.file,
            "lines": (what.lineno, what.endlineno),
            "key": entry.path.removeprefix(f"{PACKAGE}."),
        }

    def parts(self, what: griffe.Object, entry: Entry) -> list[dict]:
        """Return the parts of a docstring in their order, each as a heading, a text, a list of terms or examples."""
        return [part for section in sections(what) for part in self._part(what, entry, section)]

    def _part(self, what: griffe.Object, entry: Entry, section: griffe.DocstringSection) -> list[dict]:
        text: Callable[[str], str] = partial(self.text, entry=entry)
        short: Callable[[str], str] = partial(self.text, entry=entry, short=True)
        kind = section.kind.value
        if kind == "text":
            return [{"html": text(section.value)}]
        if kind == "examples":
            return [
                {"html": text(said)} if part.value == "text" else {"title": "Example", "code": coloured(said, CONSOLE)}
                for part, said in section.value
            ]
        if kind == "returns":
            return [{"title": "Returns", "html": short(returned(what, section))}]
        if kind == "yields":
            return [{"title": "Yields", "html": short(section.value[0].description)}]
        if kind == "raises":
            return [
                {"title": "Raises", "terms": [(str(one.annotation), short(one.description)) for one in section.value]}
            ]
        if kind in ("parameters", "attributes"):
            title = "Arguments" if kind == "parameters" else "Attributes"
            return [{"title": title, "terms": [(one.name, short(one.description)) for one in section.value]}]
        raise ValueError(f"{what.path}: a docstring has a part of kind {kind!r}, for which the reference has no form")


CONSOLE, PYTHON, FORMAT = PythonConsoleLexer(), PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)


def coloured(code: str, lexer=PYTHON) -> str:
    """Return code as HTML with the classes that the pages colour, and no others."""
    return PLAIN.sub(r"\1", highlight(code, lexer, FORMAT)).rstrip("\n")


def bases(what: griffe.Object) -> list[str]:
    """Return on which classes of `mhalib` a class builds."""
    found = [base for base in what.bases if isinstance(base, griffe.Expr)] if what.is_class else []
    return [str(base) for base in found if base.canonical_path.startswith(f"{PACKAGE}.")]


def summary(what: griffe.Object) -> str:
    """Return the first sentence of a docstring, as Markdown."""
    first = what.docstring.value.partition("\n\n")[0] if what.docstring else ""
    return " ".join(re.split(r"(?<=[^.]\.)\s", " ".join(first.split()))[:1])


# ---------------------------------------------------------------- pages


def write(
    out: Path,
    environment: Environment,
    notebooks: Mapping[str, NotebookNode],
    headings: Mapping[str, str],
    shared: Mapping[str, object],
) -> list[dict]:
    """Write the pages of the reference into the folder, and return what the search knows of them.

    Args:
        out: the folder of the site.
        environment: of the page exporter, which knows the templates.
        notebooks: the lessons of the site by the names of their files.
        headings: of these lessons.
        shared: what every page is given.
    """
    found = rooms()
    writer = _Writer(found, notebooks, headings)
    template = environment.get_template("reference.html.j2")
    contents, home = [], []
    for name, group in groupby(found, lambda room: page_of(room.path)):
        inside = list(group)
        told = []
        for room in inside:
            about = writer.text(room.module.docstring.value) if room.module.docstring else ""
            told.append({"path": room.path, "about": about, "names": [writer.described(one) for one in room.entries]})
            rows = [(one.name, f"{name}.html#{one.name}", _plain(writer, one)) for one in room.entries]
            home.append({"path": room.path, "href": f"{name}.html", "rows": rows})
            contents += [_found(room.path, *row) for row, one in zip(rows, room.entries, strict=True) if one.handed_on]
        level = 2 if len(inside) == 1 else 3  # of a name's heading: below that of its room, where there are several
        page = {"name": name, "level": level, "title": f"{TITLE}: {inside[0].path}", "rooms": told, **shared}
        (out / f"{name}.html").write_text(template.render(page=page), encoding="utf-8")
    (out / SOURCES).write_text(f'const SOURCES = "{packed(found)}";\n', encoding="utf-8")
    page = {"name": HOME, "title": TITLE, "rooms": home, **shared}
    text = environment.get_template("reference_home.html.j2").render(page=page)
    (out / f"{HOME}.html").write_text(text, encoding="utf-8")
    return contents


def is_shown(entry: Entry) -> bool:
    """Return whether the site carries the source of a name; what is long is read in its file."""
    return entry.handed_on and entry.what.endlineno - entry.what.lineno < LONGEST


def packed(found: list[Room]) -> str:
    """Return the sources of the names as `reference.js` unpacks them: four times smaller than as they are."""
    entries = [entry for room in found for entry in room.entries if is_shown(entry)]
    texts = {entry.path.removeprefix(f"{PACKAGE}."): source(entry.what) for entry in entries}
    return b64encode(zlib.compress(json.dumps(texts).encode(), 9)).decode()


def _plain(writer: _Writer, entry: Entry) -> str:
    return unescape(re.sub(r"<[^>]+>", "", writer.markdown(summary(entry.what)))).strip()


def _found(room: str, name: str, href: str, text: str) -> dict:
    """Return an entry of the search."""
    return {"page": TITLE, "short": room, "section": name, "href": href, "text": text, "answers": []}

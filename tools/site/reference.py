"""The reference on the site: a page for each package and each room of `mhalib`, made of docstrings and sources.

griffe reads them. Nothing is said here that `help()` does not say, except which lessons use a name, and where. Public
is what a package or a folder of `mhalib` hands on, and what a file of `mhalib` itself defines without an underscore.
The looks are in `page/reference*.j2`.
"""

import ast
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

import griffe
import mistune
from IPython.core.inputtransformer2 import TransformerManager
from jinja2 import Environment
from nbformat import NotebookNode

import mhalib
from tools.notebooks.run import PACKAGES, ROOT

HOME, TITLE = "reference", "Reference"  # the page that leads to the others
WITHIN = ("arguments", "widgets", "doctor", "checks")  # what rooms share among themselves; old names
NO_SPLIT = {"returns_multiple_items": False, "returns_named_value": False}  # ours say in a sentence what comes back
# What public names take, return or build on, and nobody imports.
ALSO = {
    "mhacourse": ("Exercise", "Results", "Prediction", "Problem"),
    "attention_doctor": ("Adapted", "Mask"),
    "mhalib.experiments": ("TokenModel", "Maps", "Translated"),
    "mhalib.sealed": ("Step", "Box"),
    "headview": ("View",),
}
LINE = 84  # a longer signature is broken
NUMBERS = re.compile(r"(?<=otebook )\d\d|(?<=otebooks )\d\d|(?<=\d\d, )\d\d|(?<=\d\d and )\d\d|(?<=\d\d to )\d\d")
CODE = re.compile(r"<code>([\w.]+)(?:\(\))?</code>")
MARKDOWN = mistune.create_markdown(escape=True)  # every text of a docstring is text, and no HTML


@dataclass(frozen=True)
class Entry:
    """A name, the package or top file from which it is imported, and what griffe knows of it."""

    name: str
    room: str
    what: griffe.Object
    handed_on: bool = True  # False for a class that is only met by way of others

    @property
    def path(self) -> str:
        return f"{self.room}.{self.name}"

    @property
    def page(self) -> str:
        """The name of its page's file, without the ending: top files share one, each package has its own."""
        room = self.room.rpartition(".")[2]
        return f"reference_{room}" if room in PACKAGES or (ROOT / "mhalib" / room).is_dir() else "reference_mhalib"

    @property
    def place(self) -> str:
        return f"{self.page}.html#{self.name}"

    @property
    def file(self) -> str:
        """The file of the repository in which it is defined."""
        return self.what.filepath.relative_to(ROOT).as_posix()

    @property
    def methods(self) -> list[griffe.Object]:
        """The public methods and properties that a class defines itself, in the order of its source."""
        own = self.what.members.values() if self.what.is_class else ()
        return [one for one in own if one.docstring and one.name[0] != "_" and not one.is_alias and not one.is_class]


def signature(what: griffe.Object) -> str:
    """Return the signature of a function or class as Python has it, an argument a line where it is long."""
    if what.is_attribute:
        return f"{what.name}: {what.annotation}" if what.annotation else what.name
    line = what.signature(name=what.name) or what.name
    if len(line) > LINE:
        taken = ast.parse(f"def {line}: ...").body[0].args
        for one in reversed([*taken.posonlyargs, *taken.args, *taken.kwonlyargs]):
            at = one.col_offset - len("def ")
            line = f"{line[:at].rstrip(' ')}\n    {line[at:]}"
    return line


# ---------------------------------------------------------------- which names


@cache
def entries() -> tuple[Entry, ...]:
    """Return all names: those of `mhalib` itself first, then of its files, of its folders, of the other packages."""
    loaded = {name: griffe.load(name, search_paths=[ROOT], allow_inspection=False) for name in PACKAGES}
    top = loaded["mhalib"]
    files = sorted(pkgutil.iter_modules(mhalib.__path__), key=lambda one: (one.ispkg, one.name))
    rooms = {"mhalib": top} | {f"mhalib.{one.name}": top[one.name] for one in files if one.name not in WITHIN} | loaded
    found: dict[str, Entry] = {}
    for room, module in rooms.items():
        names = getattr(importlib.import_module(room), "__all__", None) or _defined(module)
        for name in [*names, *ALSO.get(room, ())]:
            what = next(defined[name] for one in _within(module) if name in (defined := _defined(one)))
            found.setdefault(what.path, Entry(name, room, what, name in names))
    return tuple(found.values())


def _defined(module: griffe.Module) -> dict[str, griffe.Object]:
    """Return what a file defines itself, by its names without an underscore."""
    own = {name: one for name, one in module.members.items() if name[0] != "_" and not one.is_alias}
    return {name: one for name, one in own.items() if not one.is_module}


def _within(module: griffe.Module) -> Iterator[griffe.Module]:
    """Yield a package and all files in it."""
    yield module
    for inner in module.members.values():
        if not inner.is_alias and inner.is_module:
            yield from _within(inner)


# ---------------------------------------------------------------- which lessons use them


def uses(notebooks: Mapping[str, NotebookNode], known: set[str]) -> dict[str, dict[str, str]]:
    """Return the first cell of each lesson that loads a name, by the name's full path and the lesson.

    What is looked up in `check`, `predict` and `problem` stands there as well, as "mhacourse.check.split_heads".
    """
    found = {}
    for lesson, nb in notebooks.items():
        bound = {}  # what a name of the lesson stands for
        for cell in (cell for cell in nb.cells if cell.cell_type == "code"):
            nodes = list(ast.walk(ast.parse(TransformerManager().transform_cell(cell.source))))
            for node in nodes:
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
                    bound |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            for node in nodes:
                if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                    first, _, rest = ast.unparse(node).partition(".")
                    path = f"{bound.get(first)}.{rest}".rstrip(".")
                    if path in known or path.rpartition(".")[0] in known:
                        found.setdefault(path, {}).setdefault(lesson, cell.id)
    return found


# ---------------------------------------------------------------- pages


class _Writer:
    """Turns what is known of names into HTML, for the lessons, and their headings, that the site has."""

    def __init__(self, notebooks: Mapping[str, NotebookNode], headings: Mapping[str, str]):
        self.notebooks, self.headings = notebooks, headings
        self.uses = uses(notebooks, {entry.path for entry in entries()})
        self.places = {entry.path: entry.place for entry in entries()}
        names = Counter(entry.name for entry in entries())
        # A name alone leads to its entry, if only one thing has it.
        self.places |= {entry.name: entry.place for entry in entries() if names[entry.name] == 1}

    def text(self, words: str, entry: Entry | None = None) -> str:
        """Return a text of a docstring as HTML, in which names lead to their entries, and numbers to lessons."""

        def to_name(code: re.Match) -> str:
            place = self.places.get(f"{entry.room}.{code[1]}" if entry else "") or self.places.get(code[1])
            return f'<a href="{place}">{code[0]}</a>' if place and place != (entry and entry.place) else code[0]

        def to_lesson(number: re.Match) -> str:
            lesson = next((name for name in self.notebooks if name.startswith(f"{number[0]}_")), None)
            cell = entry and lesson and self._first_cell(lesson, entry.name)
            return self._link(lesson, cell, number[0]) if lesson else number[0]

        return NUMBERS.sub(to_lesson, CODE.sub(to_name, MARKDOWN(words).strip()))

    def _first_cell(self, lesson: str, name: str) -> str | None:
        """Return the id of the first cell whose code holds the name, also where it is defined by hand."""
        cells = (cell for cell in self.notebooks[lesson].cells if cell.cell_type == "code")
        return next((cell.id for cell in cells if re.search(rf"\b{name}\b", cell.source)), None)

    def _link(self, lesson: str, cell: str | None, text: str) -> str:
        return f'<a href="{lesson}.html{f"#{cell}" if cell else ""}">{escape(text)}</a>'

    def used(self, entry: Entry) -> list[str]:
        """Return a link for each lesson that uses a name, to the first cell that does."""
        found = self.uses.get(entry.path, {})
        return [self._link(name, cell, self.headings[name].partition(" · ")[0]) for name, cell in found.items()]

    def looked_up(self, entry: Entry) -> dict[str, list[str]]:
        """Return what lessons look up in `check` and its like: links to the cells, by the headings of the lessons."""
        rows = {}
        for path, cells in self.uses.items():
            inner = path.removeprefix(f"{entry.path}.")
            for lesson, cell in cells.items() if inner != path and entry.what.is_attribute else ():
                rows.setdefault(self.headings[lesson], []).append(self._link(lesson, cell, inner))
        return rows


def sections(what: griffe.Object) -> list[griffe.DocstringSection]:
    """Return the parts of a docstring: texts, arguments, what is returned and raised, examples."""
    return what.docstring.parse("google", warnings=False, **NO_SPLIT) if what.docstring else []


def told(one: griffe.DocstringElement) -> str:
    """Return what is said of what comes back; griffe takes what stands before a colon in it for a type."""
    return f"{one.annotation}: {one.description}" if isinstance(one.annotation, str) else one.description


def summary(entry: Entry) -> str:
    """Return the first sentence of a docstring as plain text."""
    first = " ".join(entry.what.docstring.value.partition("\n\n")[0].split()) if entry.what.docstring else ""
    return re.split(r"(?<=[^.]\.)\s", first.replace("`", ""))[0]


def write(out: Path, environment: Environment, notebooks: Mapping, headings: Mapping, shared: Mapping) -> list[dict]:
    """Write the pages of the reference into the folder of the site, and return what the search knows of them.

    `environment`, of the page exporter, knows the templates; every page is given what is `shared`.
    """
    environment.globals |= {"sections": sections, "told": told, "signature": signature, "summary": summary}
    writer, all_rooms = _Writer(notebooks, headings), []
    for name, inside in groupby(entries(), lambda entry: entry.page):
        rooms = [(room, list(inner)) for room, inner in groupby(inside, lambda entry: entry.room)]
        all_rooms += rooms
        about = {room: importlib.import_module(room).__doc__ for room, _ in rooms}
        page = {"name": name, "title": f"{TITLE}: {rooms[0][0]}", "rooms": rooms, "about": about, **shared}
        text = environment.get_template("reference.html.j2").render(page=page, writer=writer)
        (out / f"{name}.html").write_text(text, encoding="utf-8")
    page = {"name": HOME, "title": TITLE, "rooms": all_rooms, **shared}
    text = environment.get_template("reference_home.html.j2").render(page=page)
    (out / f"{HOME}.html").write_text(text, encoding="utf-8")
    known = [(entry, {"page": TITLE, "short": entry.room, "section": entry.name}) for entry in entries()]
    return [row | {"href": one.place, "text": summary(one), "answers": []} for one, row in known if one.handed_on]

"""The public names of `mhalib`, with what their docstrings and signatures say: read by griffe, nothing is imported.

Public is what a package hands on, and what a file of the top folder defines without an underscore. Beside these stand
the classes that a public name returns, takes or builds on, as somebody who holds one wants to know it. What becomes of
all this on the site is said in `reference.py`; which lessons use a name, in `reference_uses.py`.
"""

import ast
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import griffe

from tools.notebooks.run import ROOT

PACKAGE = "mhalib"
WITHIN = ("arguments", "stopping")  # what rooms of the house share among themselves
NO_SPLIT = {"returns_multiple_items": False, "returns_named_value": False}  # ours say in a sentence what comes back


@dataclass
class Entry:
    """A public name.

    Args:
        name: as a reader writes it, such as "split_heads".
        room: the package or top file from which it is imported, such as "mhalib.heads".
        what: griffe's object: a function, a class or an attribute.
        handed_on: False for a class that is only met by way of others.
    """

    name: str
    room: str
    what: griffe.Object
    handed_on: bool = True

    @property
    def path(self) -> str:
        return f"{self.room}.{self.name}"

    @property
    def page(self) -> str:
        """The name of its page's file, without the ending: top files share one, each package has its own."""
        return page_of(self.room)

    @property
    def file(self) -> str:
        """The file of the repository in which it is defined."""
        return self.what.filepath.relative_to(ROOT).as_posix()


@dataclass
class Room:
    """A package of `mhalib`, or a file of its top folder: its docstring and its names."""

    path: str
    module: griffe.Module
    entries: list[Entry] = field(default_factory=list)


def page_of(room: str) -> str:
    top = (ROOT / room.replace(".", "/")).is_dir() and room != PACKAGE
    return f"reference_{room.rpartition('.')[2]}" if top else f"reference_{PACKAGE}"


def rooms() -> list[Room]:
    """Return all rooms with their names, the package itself first, then its files, then the packages in it."""
    logging.getLogger("griffe").setLevel(logging.ERROR)  # its warnings are for `faults`
    top = griffe.load(PACKAGE, search_paths=[ROOT], allow_inspection=False)
    found = [Room(PACKAGE, top)]
    inner = [module for module in top.modules.values() if module.name not in WITHIN]
    for module in sorted(inner, key=lambda module: (module.is_init_module, module.name)):
        found.append(Room(module.path, module))
    known = set()
    for room in found:
        for name, what in _names(room.module):
            if what.path not in known:  # a file of the top folder does not repeat what the package hands on
                known.add(what.path)
                room.entries.append(Entry(name, room.path, what))
    _add_behind(found, top, known)
    return [room for room in found if room.entries]


def _names(module: griffe.Module) -> Iterator[tuple[str, griffe.Object]]:
    """Yield what a package hands on, by `__all__` or by lazy_loader; else what a file defines."""
    for node in ast.walk(ast.parse(module.filepath.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "submod_attrs":
            for part, names in ast.literal_eval(node.value).items():
                yield from ((name, _target(module[f"{part}.{name}"])) for name in names)
            return
    if module.exports is not None:
        for name in map(str, module.exports):
            what = _target(module[name])
            yield name, what[name] if what.is_module else what  # a function whose file bears its name
        return
    for name, what in module.members.items():
        if not name.startswith("_") and not what.is_alias and (what.is_function or what.is_class or name.isupper()):
            yield name, what


def _target(what: griffe.Object | griffe.Alias) -> griffe.Object:
    return what.final_target if what.is_alias else what


def _add_behind(found: list[Room], top: griffe.Module, known: set[str]) -> None:
    """Add the classes of `mhalib` that public names take, return or build on, each in its own room."""
    by_path = {room.path: room for room in found}
    for public in [entry.what for room in found for entry in room.entries]:
        for path in _named(public):
            parts = path.split(".")
            if parts[0] != PACKAGE or len(parts) < 3:
                continue
            try:
                what = _target(top[".".join(parts[1:])])
            except (KeyError, griffe.AliasResolutionError):
                continue  # a variable of types, or what only a type checker sees
            if what.is_class and what.path not in known and not what.name.startswith("_"):
                known.add(what.path)
                room = by_path[".".join(what.path.split(".")[:2])]
                room.entries.append(Entry(what.name, room.path, what, handed_on=False))


def _named(what: griffe.Object) -> Iterator[str]:
    """Yield the full names in the signatures of a function or class, and those of its bases."""
    if what.is_class:
        yield from (base.canonical_path for base in what.bases if isinstance(base, griffe.Expr))
        for member in what.members.values():
            if not member.is_alias and (member.is_function or member.is_attribute and "property" in member.labels):
                yield from _named(member)
        return
    annotations = [getattr(what, "annotation", None)]
    if what.is_function:
        annotations += [what.returns, *(parameter.annotation for parameter in what.parameters)]
    for annotation in annotations:
        if isinstance(annotation, griffe.Expr):
            yield from (name.canonical_path for name in annotation.iterate() if isinstance(name, griffe.ExprName))


# ---------------------------------------------------------------- what is said of a name


def methods(what: griffe.Object) -> list[griffe.Object]:
    """Return the public methods and properties that a class defines itself, in the order of its source."""
    if not what.is_class:
        return []
    own = [member for name, member in what.members.items() if not name.startswith("_") and not member.is_alias]
    return [member for member in own if member.is_function or "property" in member.labels]


def sections(what: griffe.Object) -> list[griffe.DocstringSection]:
    """Return the parts of a docstring: texts, arguments, what is returned and raised, examples."""
    if what.docstring is None:
        return []
    return what.docstring.parse("google", warnings=False, **NO_SPLIT)


def returned(what: griffe.Object, section: griffe.DocstringSection) -> str:
    """Return the sentence on what comes back; griffe takes what stands before a colon in it for a type."""
    (value,) = section.value
    if isinstance(value.annotation, str) or value.annotation is not None and value.annotation is not what.returns:
        return f"{value.annotation}: {value.description}"
    return value.description


def signature(what: griffe.Object, name: str) -> str:
    """Return the signature of a function or class as Python has it, broken into lines where it is long."""
    if what.is_attribute:
        return f"{name}: {what.annotation}" if what.annotation else name
    parts, kind = [], griffe.ParameterKind
    parameters = [one for one in what.parameters if one.name not in ("self", "cls")]
    for at, one in enumerate(parameters):
        before = parameters[at - 1].kind if at else None
        if before is kind.positional_only and one.kind is not kind.positional_only:
            parts.append("/")
        if one.kind is kind.keyword_only and before not in (kind.keyword_only, kind.var_positional):
            parts.append("*")
        mark = {kind.var_positional: "*", kind.var_keyword: "**"}.get(one.kind, "")
        text = f"{mark}{one.name}" + (f": {one.annotation}" if one.annotation else "")
        if one.default is not None and not mark:
            text += f" = {one.default}" if one.annotation else f"={one.default}"
        parts.append(text)
    back = f" -> {what.returns}" if what.is_function and what.returns is not None else ""
    line = f"{name}({', '.join(parts)}){back}"
    if len(line) <= 84 or not parts:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){back}"


def source(what: griffe.Object) -> str:
    """Return the source of a name without its docstring; of a constant with the comment above it."""
    lines = what.filepath.read_text(encoding="utf-8").splitlines()
    first, last = what.lineno - 1, what.endlineno
    if what.is_attribute:
        while first and lines[first - 1].startswith("#"):
            first -= 1
    said = what.docstring
    skipped = range(said.lineno - 1, said.endlineno) if said and not what.is_attribute else range(0)
    kept = [line for at, line in enumerate(lines[first:last], first) if at not in skipped]
    margin = min((len(line) - len(line.lstrip()) for line in kept if line.strip()), default=0)
    return "\n".join(line[margin:] for line in kept)


# ---------------------------------------------------------------- what must hold of the docstrings


class _Said(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def misread(entry: Entry) -> list[str]:
    """Return what griffe could not read in the docstrings of a name and its methods."""
    logger, handler = logging.getLogger("griffe"), _Said()
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        for what in (entry.what, *methods(entry.what)):
            if what.docstring is not None:
                what.docstring.parse("google", warn_unknown_params=False, warn_missing_types=False, **NO_SPLIT)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return [line for line in handler.lines if "does not appear in" not in line]

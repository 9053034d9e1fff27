"""A lesson as plain JSON: its hash, and what the copy of it holds that a learner works in.

A copy has no outputs, what answers a question is folded in it, its links hold from the folder `my/`, and its metadata
remembers from which edition of the lesson it came. Where the copies lie, and that none is ever overwritten, is the
business of `copies.py`. Only the standard library, so that copies can be laid before any package of the course is
there, and at once: `make lab` does it each time.
"""

import base64
import hashlib
import json
import mimetypes
import posixpath
import re
from itertools import zip_longest
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.notebooks.which import notebook_files

ALONE = (
    "\n\n---\n\n**You downloaded this lesson alone.** It runs where the course is installed, as its README says. "
    "Put it into the folder `my/` of the course: from there its links lead on."
)
SCRIPT = re.compile(r"^%run \.\./(tools/\w+)\.py\b", re.MULTILINE)
PICTURES = "../images/"
COLAB = "set-up-colab"  # the id of the cell that `colab.py` puts into each notebook; whoever works here needs none

_GOES_ON = re.compile(r"^(?:#{1,6} |\*\*)", re.MULTILINE)  # a heading or a bold label: what follows no longer answers
_ASKS = re.compile(r"\?[\"*_)]*(?!\S)(?![^\[]*\]\()")  # a question, outside of the words of a link
AFTER = "<details><summary><i>{}</i></summary>\n\n{}\n\n</details>"
GUESSED, TRIED = "After your guess", "After you've tried it"

_PIECES = re.compile(
    r"\\."  # a sign that is meant as itself
    r"|^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=ticks)(?!`)"  # within one paragraph
    r"|\$\$.+?\$\$|\$(?![\s$])[^$\n]*?(?<!\s)\$"
    # Below, what is no code and no formula: where it leads stands in `target`.
    r"|(?P<before>\]\(\s*|^ {0,3}\[(?!\^)[^\]\n]+\]:[ \t]*)(?P<target><[^<>\n]*>|(?:[^\s()<>]|\([^\s()]*\))+)"
    r"|(?P<tag><[a-zA-Z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>)",
    re.MULTILINE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""(\s(?:href|src)\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)


class Unreadable(Exception):
    """A file that holds no notebook; the message goes on after its name: "cannot be read as a notebook (…)"."""


def read(path: Path) -> dict:
    """Return the notebook at `path`.

    Raises:
        Unreadable: nothing that has cells can be read there.
    """
    try:
        nb = json.loads(path.read_text(encoding="utf-8"))
        for cell in nb["cells"]:
            cell["cell_type"], "".join(cell["source"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise Unreadable(f"cannot be read as a notebook ({reason})") from None
    return nb


def source_hash(nb: dict) -> str:
    """Return the hash of what the reader sees before running: types and sources of the cells, not their outputs."""
    seen = [[cell["cell_type"], "".join(cell["source"])] for cell in nb["cells"]]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def code_hash(nb: dict) -> str:
    """Return the hash of what is executed, the sources of the cells of code."""
    code = ["".join(cell["source"]) for cell in nb["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()


def edition(copy: dict) -> str | None:
    """Return the hash of the lesson that a copy came from, or None where it has forgotten.

    A stored lesson that was copied by hand, or downloaded, has its own hash.
    """
    about = copy.get("metadata")
    ours = about.get("mhalib") if isinstance(about, dict) else None
    return (ours.get("lesson_sha256") or ours.get("source_sha256")) if isinstance(ours, dict) else None


def own_copy(path: Path) -> str:
    """Return the text of a learner's copy of the lesson at `path`, without the cell for Colab: it is used here."""
    nb = _copied(path)
    nb["cells"] = [cell for cell in nb["cells"] if cell.get("id") != COLAB]
    return _written(nb)


def for_download(path: Path) -> str:
    """Return the same for a reader who may put it anywhere: it carries its pictures, and says where it belongs."""
    nb = _copied(path)
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            # A tool of the course is found by its name, wherever the notebook lies.
            _put(cell, SCRIPT.sub(lambda found: f"%run -m {found[1].replace('/', '.')}", _source(cell)))
        elif cell["cell_type"] == "markdown":
            _attach(cell, path.parent)
    if nb["cells"] and nb["cells"][0]["cell_type"] == "markdown":
        _put(nb["cells"][0], _source(nb["cells"][0]) + ALONE)
    return _written(nb)


def _attach(cell: dict, folder: Path) -> None:
    """Put the pictures that a cell of text shows into the cell itself."""
    attached = cell.setdefault("attachments", {})

    def inside(target: str) -> str:
        picture = folder / unquote(target)
        kind, _ = mimetypes.guess_type(picture.name)
        if not target.startswith(PICTURES) or not (kind or "").startswith("image/") or not picture.is_file():
            return target
        attached[picture.name] = {kind: base64.b64encode(picture.read_bytes()).decode()}
        return f"attachment:{picture.name}"

    _put(cell, with_links(_source(cell), inside))
    if not attached:
        del cell["attachments"]


def _copied(path: Path) -> dict:
    nb = read(path)
    about = nb.get("metadata") if isinstance(nb.get("metadata"), dict) else {}
    ours = {**about.get("mhalib", {}), "lesson": path.stem, "lesson_sha256": source_hash(nb)}
    for stamp in ("source_sha256", "code_sha256"):  # the copy was not executed
        ours.pop(stamp, None)
    nb["metadata"] = {**about, "mhalib": ours}
    nb["metadata"].pop("widgets", None)
    notebooks = {notebook.name for notebook in notebook_files(path.parent)}
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        elif cell["cell_type"] == "markdown":
            _put(cell, with_links(_source(cell), lambda target: from_my(target, notebooks)))
    _fold_answers(nb["cells"])
    return nb


def _fold_answers(cells: list[dict]) -> None:
    """Fold the texts that answer: in JupyterLab they are on one screen with the open question.

    What goes on from a `reveal()` is folded as far as the next heading or label; a guess opens it, see
    `headview/prediction/view.js`. Where the last paragraph of a text asks and the reader runs a cell to find out, the
    next text is folded, without the question with which it may end.
    """
    revealed = asked = False
    for cell, below in zip_longest(cells, cells[1:]):
        source = _source(cell)
        if cell["cell_type"] == "code":
            if ".reveal()" in source:
                revealed, asked = True, False
        elif cell["cell_type"] == "markdown":
            last = source.rstrip().rfind("\n\n") + 1
            asks = below is not None and _is_tried(below) and _ASKS.search(source, last) is not None
            next_part = _GOES_ON.search(source)
            end = min(next_part.start() if next_part else len(source), last if asked and asks else len(source))
            if (revealed or asked) and source[:end].strip():
                folded = AFTER.format(TRIED if asked else GUESSED, source[:end].strip())
                _put(cell, f"{folded}\n\n{source[end:].lstrip()}".rstrip())
            revealed, asked = revealed and next_part is None, asks


def _is_tried(cell: dict) -> bool:
    """Whether a cell shows what a text has asked: code that neither proves nor asks itself."""
    proves = "proof" in cell.get("metadata", {}).get("tags", [])
    return cell["cell_type"] == "code" and not proves and "predict." not in _source(cell)


def from_my(target: str, notebooks: set[str]) -> str:
    """Return where a link of a lesson must lead from `my/`: to the reader's own copy, or back into `notebooks/`."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return target
    place, rest = posixpath.normpath(posixpath.join("notebooks", parts.path)), target[len(parts.path) :]
    if place != "notebooks" and not place.startswith("notebooks/"):
        return target  # ../images/… lies as far from one folder as from the other
    name = unquote(place.removeprefix("notebooks/"))
    return (name if name in notebooks else f"../{place}") + rest


def with_links(markdown: str, lead) -> str:
    """Return a Markdown text in which `lead(target)` stands in the place of each target, code and formulas left alone.

    Links and pictures in Markdown, definitions of references, and `href` and `src` in HTML.
    """

    def bare(target: str) -> str:
        edge = target[:1] if target[:1] in ("<", '"', "'") else ""
        return f"{edge}{lead(target[1:-1])}{target[-1]}" if edge else lead(target)

    def replaced(found: re.Match) -> str:
        if found["target"]:
            return found["before"] + bare(found["target"])
        if found["tag"]:
            return _ATTRIBUTE.sub(lambda attribute: attribute[1] + bare(attribute[2]), found["tag"])
        return found[0]

    return _PIECES.sub(replaced, markdown)


def _source(cell: dict) -> str:
    return "".join(cell["source"])


def _put(cell: dict, source: str) -> None:
    cell["source"] = source.splitlines(keepends=True)


def _written(nb: dict) -> str:
    """Return the text of a notebook as Jupyter writes it."""
    return json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True) + "\n"

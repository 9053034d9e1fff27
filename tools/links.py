"""Find links that lead nowhere, in pages of HTML, in Markdown and in notebooks, without asking the network.

What stands behind the # of a link names a heading, and who shows the page makes that name: GitHub writes all small
and leaves out what is no letter, digit, _ or -; JupyterLab keeps the text and puts hyphens for spaces. A page of
Markdown is held to GitHub's names, a notebook to JupyterLab's, since in notebooks no other names lead anywhere.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html

HOLDS = {"a": "href", "img": "src", "source": "srcset", "script": "src", "link": "href"}  # what names a tag's target
ENCODED = re.compile(r"[^!-~]|[\"<>`]")  # a browser makes %… of it, which JupyterLab does not turn back in a notebook


def html(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


def links(page: BeautifulSoup) -> Iterator[tuple[str, str]]:
    """Go through the links of a page, what it shows and what it loads included: the tag and its target."""
    for node in page.find_all(list(HOLDS)):
        target = node.get(HOLDS[node.name])
        if target and "anchor-link" not in node.get("class", ()):  # of a heading, to itself
            targets = target.split(", ") if node.name == "source" else [target]  # "one.png 1x, two.png 2x"
            yield from ((node.name, one.split(" ")[0]) for one in targets)


def leads_away(target: str) -> bool:
    """Return whether a target lies on another host."""
    return bool(urlsplit(target).scheme or urlsplit(target).netloc)


def fault(target: str, path: Path, root: Path, places: Callable[[Path], Collection[str] | None]) -> str | None:
    """Return what is wrong with a link in the file at `path`, which may not leave `root`, or None.

    `places` returns the names in a file to which a link may lead, or None where they are not known.
    """
    parts = urlsplit(target)
    if leads_away(target):
        return None
    file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if not (file.is_file() and file.is_relative_to(root)):
        return "leads to no file"
    known = places(file) if parts.fragment else None
    return None if known is None or unquote(parts.fragment) in known else "leads to no place in its page"


def headings(markdown: str) -> list[str]:
    """Return the text of each heading, without its marks."""
    found = html(markdown2html(markdown)).find_all(re.compile("^h[1-6]$"))
    return [heading.get_text().removesuffix("¶") for heading in found]


@lru_cache
def _places(file: Path, _changed: int) -> list[str]:
    """Return what the headings of a page are called: by GitHub, or of a notebook by JupyterLab."""
    if file.suffix == ".ipynb":
        cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "markdown"]
        texts = headings("\n\n".join(cell.source for cell in cells))
        return [text.replace(" ", "-") for text in texts if "$" not in text]  # typeset before it is named
    texts = headings(file.read_text(encoding="utf-8")) if file.suffix == ".md" else []
    names = [re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-") for text in texts]
    again = [names[:at].count(name) for at, name in enumerate(names)]
    return [f"{name}-{number}" if number else name for name, number in zip(names, again, strict=True)]


def targets(markdown: str) -> list[str]:
    """Return where the links and pictures of a Markdown text lead, without those that lead away."""
    return [target for _, target in links(html(markdown2html(markdown))) if not leads_away(target)]


def broken(markdown: str, path: Path, root: Path) -> list[str]:
    """Return the links of the Markdown at `path`, a file below `root`, that lead to no file or to no heading of it."""

    def places(file: Path) -> list[str]:
        known = _places(file, file.stat().st_mtime_ns)
        return [name for name in known if not ENCODED.search(name)] if file == path and file.suffix != ".md" else known

    return [target for target in targets(markdown) if fault(target, path, root, places)]

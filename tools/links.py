"""Find links that lead nowhere, in pages of HTML, in Markdown and in notebooks, without asking the network.

What stands behind the # of a link names a heading, and who shows the page makes that name: GitHub writes all small
and leaves out what is no letter, digit, _ or -; JupyterLab keeps the text and puts hyphens for spaces. A page of
Markdown is held to GitHub's names, a notebook to JupyterLab's, since in notebooks no other names lead anywhere. A
heading such as "layer norm" has the same name in both, and on our site.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html

# The attribute in which a tag names its target.
HOLDS = {"a": "href", "img": "src", "source": "srcset", "script": "src", "link": "href"}
# What a browser writes as %… when a link is followed, and JupyterLab does not turn back inside a notebook.
ENCODED = re.compile(r"[^!-~]|[\"<>`]")
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]


def html(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


def links(page: BeautifulSoup) -> Iterator[tuple[str, str]]:
    """Go through the links of a page, what it shows and what it loads included: the tag and its target."""
    for node in page.find_all(list(HOLDS)):
        target = node.get(HOLDS[node.name])
        if target and node.name == "source":  # "one.png 1x, two.png 2x"
            yield from ((node.name, one.split()[0]) for one in target.split(", "))
        elif target:
            yield node.name, target


def leads_away(target: str) -> bool:
    """Return whether a target lies outside the folder in which the page lies, on another host."""
    parts = urlsplit(target)
    return bool(parts.scheme or parts.netloc)


def fault(
    target: str, path: Path, root: Path, has_place: Callable[[Path, str], bool] = lambda file, place: True
) -> str | None:
    """Return what is wrong with a link that stands in the file at `path`, or None.

    Args:
        target: as the link has it.
        path: of the file that holds the link.
        root: the folder that no link may leave.
        has_place: whether a file has a place of that name, what stands behind the # of a link.
    """
    if leads_away(target):
        return None
    parts = urlsplit(target)
    file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if not (file.is_file() and file.is_relative_to(root)):
        return "leads to no file"
    if parts.fragment and not has_place(file, unquote(parts.fragment)):
        return "leads to no place in its page"
    return None


def rendered(markdown: str) -> BeautifulSoup:
    """Return the Markdown as a page, without the links to themselves that nbconvert puts behind headings."""
    page = html(markdown2html(markdown))
    for link in page.find_all("a", class_="anchor-link"):
        link.decompose()
    return page


def headings(markdown: str) -> list[str]:
    """Return the text of each heading, without its marks."""
    return [heading.get_text() for heading in rendered(markdown).find_all(HEADINGS)]


def github_places(markdown: str) -> list[str]:
    """Return what GitHub calls the headings of a page of Markdown; a second one of the same name gets a number."""
    met, places = Counter(), []
    for text in headings(markdown):
        place = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        places.append(f"{place}-{met[place]}" if met[place] else place)
        met[place] += 1
    return places


def lab_places(markdown: str) -> list[str]:
    """Return what JupyterLab calls the headings of a text, without those whose formulas it typesets first."""
    return [text.replace(" ", "-") for text in headings(markdown) if "$" not in text]


def has_place(file: Path, place: str) -> bool:
    """Return whether a page of Markdown, or a notebook, has a heading of that name."""
    return place in _places(file, file.stat().st_mtime_ns)


@lru_cache
def _places(file: Path, _changed: int) -> frozenset[str]:
    if file.suffix == ".md":
        return frozenset(github_places(file.read_text(encoding="utf-8")))
    if file.suffix == ".ipynb":
        cells = nbformat.read(file, as_version=4).cells
        return frozenset(lab_places("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")))
    return frozenset()


def targets(markdown: str) -> list[str]:
    """Return where the links and pictures of a Markdown text lead, without those that lead away."""
    return [target for _, target in links(rendered(markdown)) if not leads_away(target)]


def broken(markdown: str, path: Path, root: Path) -> list[str]:
    """Return the links of the Markdown at `path`, a file below `root`, that lead to no file or to no heading of it."""

    def leads(file: Path, place: str) -> bool:
        within = file == path and file.suffix == ".ipynb"
        return has_place(file, place) and not (within and ENCODED.search(place))

    return [target for target in targets(markdown) if fault(target, path, root, leads)]

"""Find links that lead nowhere, in pages of HTML and in Markdown, without asking the network."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup
from nbconvert.filters import markdown2html

HOLDS = {"a": "href", "img": "src", "script": "src", "link": "href"}  # the attribute in which a tag names its target


def html(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


def links(page: BeautifulSoup) -> Iterator[tuple[str, str]]:
    """Go through the links of a page, what it shows and what it loads included: the tag and its target."""
    for node in page.find_all(list(HOLDS)):
        if node.get(HOLDS[node.name]):
            yield node.name, node[HOLDS[node.name]]


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


def targets(markdown: str) -> list[str]:
    """Return where the links and pictures of a Markdown text lead, without those that lead away."""
    return [target for _, target in links(html(markdown2html(markdown))) if not leads_away(target)]


def broken(markdown: str, path: Path, root: Path) -> list[str]:
    """Return the links of the Markdown at `path`, a file below `root`, that lead to no file."""
    return [target for target in targets(markdown) if fault(target, path, root)]
